//! `shorthaul replay`: a recorded run, again.
use crate::ending::asked;
use anyhow::{Context as _, bail};
use shorthaul_dataplane::replay;
use shorthaul_types::format_duration;
use std::path::PathBuf;

/// Play a recording of `shorthaul gateway --record` into the same machine, and compare what comes out
///
/// The machine knows time and packets only from the recording, so the same version must send the same
/// packets, to the byte. If it does not, the first difference is shown.
#[derive(clap::Args)]
pub struct Args {
    /// The recording
    file: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let path = args.file.display();
    let recording = std::fs::read(&args.file).map_err(|error| asked!("cannot read {path}: {error}"))?;
    let replay = replay(&recording).with_context(|| format!("cannot replay {path}"))?;
    let current = env!("CARGO_PKG_VERSION");
    if let Some(difference) = replay.difference {
        let hint = match replay.version == current {
            true => String::new(),
            false => format!(" (recorded by version {}, this is {current})", replay.version),
        };
        bail!("{path}: different {difference}{hint}");
    }
    println!(
        "identical: {} packets in, {} out, {} rounds, {}{}",
        replay.packets_in,
        replay.packets_out,
        replay.turns,
        format_duration(replay.duration),
        if replay.is_complete { "" } else { "; the recording has no end, its gateway was killed" },
    );
    Ok(())
}
