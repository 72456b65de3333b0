//! `shorthaul endpoint parity`.
use anyhow::Result;

/// Our sender against the kernel's own.
#[derive(clap::Args)]
pub struct Args {}

/// Runs.
pub fn run(_args: &Args) -> Result<()> {
    Ok(())
}
