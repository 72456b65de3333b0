//! What benches with nodes in a lab have in common.
use crate::error::{Result, TrialError, While};
use shorthaul_lab::Lab;
use shorthaul_relay::NetworkSecret;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// This same program.
pub(crate) fn shorthaul() -> Result<Command> {
    Ok(Command::new(std::env::current_exe().doing("finding this program")?))
}

/// A new secret of a network, in a file of this folder.
pub(crate) fn secret(folder: &Path) -> Result<PathBuf> {
    let file = folder.join("secret");
    let text = NetworkSecret::generate().map_err(TrialError::of)?.to_text();
    std::fs::write(&file, text).doing("writing a secret")?;
    Ok(file)
}

/// The lateness of the latest packet but one of a hundred, on the link of the lab where that is worst.
pub(crate) fn late(lab: &Lab) -> Result<Duration> {
    let mut worst = Duration::ZERO;
    for link in lab.links() {
        let report = link.report()?;
        worst = worst.max(report.up.lateness.p99).max(report.down.lateness.p99);
    }
    Ok(worst)
}
