//! `shorthaul connect`: standard input and output, connected to a destination.
use anyhow::{Context as _, Result};
use shorthaul_relay::{Endpoint, GoesOn, Session};
use std::sync::Arc;

use crate::ending::report;
use crate::route::RouteArgs;

/// Connect standard input and output to a destination, by way of nodes or directly
///
/// What `netcat` does, and what ssh can use: `ssh -o ProxyCommand="shorthaul connect %h:%p --via ..."`.
/// The end of the input is passed on, and what the destination says goes on to its end; so the other way round, but at a terminal it is
/// over then. A connection that breaks is an error, and never looks like an end.
#[derive(clap::Args)]
pub struct Args {
    /// Where to
    #[arg(value_name = "HOST:PORT")]
    target: Endpoint,
    #[command(flatten)]
    route: RouteArgs,
    /// Say on standard error which way was taken, and how long it took; and each time that the session goes on by another, or by the same again, how long it stood
    #[arg(short, long)]
    verbose: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let opening = args.route.client(0, Some(&args.target))?;
    let _asking = opening.keep_asking()?;
    let opened = |session: &Session| {
        if args.verbose {
            eprintln!(
                "{} by {}, in {:.1} ms",
                args.target,
                session.route,
                session.took.as_secs_f64() * 1000.0
            );
            for hop in session.hops.iter().rev() {
                eprintln!("  {hop}");
            }
        }
    };
    let client = match args.verbose {
        true => opening.client.telling_moves(Arc::new(
            |GoesOn { target, route, is_same_way, stood }: &GoesOn<'_>| {
                let how = if *is_same_way { "again" } else { "from now on" };
                report!(
                    "{target} by {route} {how}, after it stood for {:.1} ms",
                    stood.as_secs_f64() * 1000.0
                );
            },
        )),
        false => opening.client,
    };
    let talked = runtime.block_on(client.connect_stdio(&args.target, opened))?;
    // The thread that reads standard input waits for it, and would for ever.
    runtime.shutdown_background();
    talked.with_context(|| format!("the connection to {} broke", args.target))
}
