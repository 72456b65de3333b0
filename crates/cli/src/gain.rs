//! `shorthaul gain`: what splitting gains, as a running gateway measures it.
use crate::flows::Running;

/// Say what a running gateway gains: flows that it splits against a control group that it does not
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON and nothing else
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    gateway: Running,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.gateway.print_answer(if args.json { "gain-json" } else { "gain" })
}
