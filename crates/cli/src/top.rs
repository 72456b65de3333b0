//! `shorthaul top`: a running gateway or node in a terminal.
use crate::ending::asked;
use crate::flows::Running;
use anyhow::Context as _;
use shorthaul_monitor::top::{GatewayFeed, NodeFeed, run as show};
use shorthaul_report::Terminal;
use std::net::SocketAddr;

/// Show hosts and flows of a running gateway or a node, live, in a terminal
///
/// Rates, queueing delays, what is held, what splitting gains, why flows are not split. It needs 80 columns and 24 lines, and works over ssh. `?` says what the keys do. A gateway takes samples while somebody looks.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    gateway: Running,
    /// A node instead, by the address of its --metrics
    #[arg(long, value_parser = shorthaul_types::parse_socket_address, value_name = "ADDRESS", conflicts_with_all = ["name", "run_dir"])]
    node: Option<SocketAddr>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let terminal = Terminal::stdout();
    if !terminal.interactive {
        return Err(asked!(
            "`top` draws on a terminal: for files and pipes there is `shorthaul flows --json`"
        )
        .into());
    }
    match args.node {
        Some(address) => show(NodeFeed(address), terminal.color),
        None => show(GatewayFeed(args.gateway.path()), terminal.color),
    }
    .context("nothing to show")
}
