//! What this machine's kernel has.
use crate::error::{Result, TrialError, While};

/// The congestion controls that trials compare with.
const WANTED: [&str; 3] = ["reno", "cubic", "bbr"];

/// Those of reno, cubic and bbr that the kernel has.
///
/// # Errors
/// If it has none, or does not say.
pub(crate) fn congestion_controls() -> Result<Vec<&'static str>> {
    const FILE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let available = std::fs::read_to_string(FILE).doing(format!("reading {FILE}"))?;
    let has = |name: &&str| available.split_whitespace().any(|word| word == *name);
    let here: Vec<&'static str> = WANTED.into_iter().filter(has).collect();
    if here.is_empty() {
        let available = available.trim();
        return Err(TrialError::failed(format!(
            "this kernel has none of reno, cubic and bbr, but only {available}; try `modprobe tcp_cubic`"
        )));
    }
    Ok(here)
}
