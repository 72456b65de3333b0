//! `shorthaul endpoint`: the TCP of this project as an endpoint, against the Linux kernel's.
//!
//! Reading order: `place` (a lab with a kernel on one side and our endpoint on the other), `interop`
//! (does everything arrive, whatever the path and the options?), `parity` (as fast as the kernel's
//! own sender?).
mod interop;
mod parity;
mod place;

use anyhow::Result;

/// Our TCP as an endpoint in user space, live against the Linux kernel's across emulated links.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Interop(interop::Args),
    Parity(parity::Args),
}

/// Runs the test that was asked for.
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Interop(args) => interop::run(args),
        Command::Parity(args) => parity::run(args),
    }
}
