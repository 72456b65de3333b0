//! What the paper states, beside ours: the problem (Figures 1 to 4), the proxy (Figures 9 and 11), stalls (Figure 12), and how flows share (Figures 5 and 10).
mod problem;
pub(super) mod proxy;
mod sharing;
mod stalls;

use super::Runs;
use shorthaul_observe::{Finding, RunRecord};
use shorthaul_report::Unit;

/// All that was run has something to say about.
pub(super) fn all(runs: &Runs) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut of = |name: &str, say: &dyn Fn(&[RunRecord]) -> Option<Vec<Finding>>| {
        found.extend(runs.get(name).and_then(|records| say(records)).unwrap_or_default());
    };
    let beside = |name: &str| runs.get(name).map_or(&[][..], Vec::as_slice);
    of("fig1", &problem::single_packets);
    of("fig1-directions", &problem::directions);
    of("fig2", &problem::beginning);
    of("fig3", &problem::stall_without_proxy);
    of("fig3", &problem::drain);
    of("fig4", &|records| problem::joining_without_proxy(records, beside("fig4-joins")));
    of("fig5-classes", &sharing::classes);
    of("fig9", &proxy::short_downloads);
    of("fig9", &proxy::small_window);
    of("fig9-persistent", &proxy::persistent_connections);
    of("fig10", &sharing::joining);
    of("fig11", &|records| proxy::windows(records, beside("fig11-knee")));
    of("fig11-knee", &proxy::knee_by_bunching);
    of("fig12", &|records| stalls::stalls(records, beside("fig12-causes")));
    of("fig12-uplink", &stalls::silences);
    found
}

fn seconds(value: f64) -> String {
    Unit::Seconds.format(value)
}

fn percent(share: f64) -> String {
    Unit::Percent.format(share)
}

/// A time that is off by no more than this share agrees.
const NEAR: f64 = 0.05;

/// What the downlink of the paper's phone carries, in bytes a second (§II: a "3 + 1" phone).
const DOWNLINK: f64 = 4150.0;

#[cfg(test)]
fn found(say: impl Fn(&[RunRecord]) -> Option<Vec<Finding>>, records: &[RunRecord]) -> Vec<Finding> {
    say(records).expect("something to say")
}
