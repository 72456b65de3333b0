//! What the paper states, beside ours: the problem (Figures 1 to 4), the proxy (Figures 9 and 11), stalls (Figure 12), and how flows share (Figures 5 and 10).
mod auto;
mod problem;
pub(super) mod proxy;
mod sharing;
mod stalls;

use super::Runs;
use super::measures::{mean, outcomes, points};
use shorthaul_observe::{Finding, Outcome, RunRecord};
use shorthaul_report::Unit;
use shorthaul_scenario::Series;

/// What is found of a scenario.
pub(super) struct Group {
    /// Its name. What other scenarios add is why, and no value of a live row.
    pub scenario: &'static str,
    pub findings: Vec<Finding>,
}

/// All that was run has something to say about, by scenario.
pub(super) fn all(runs: &Runs) -> Vec<Group> {
    let mut found = Vec::new();
    let mut of = |scenario: &'static str, say: &dyn Fn(&[RunRecord]) -> Option<Vec<Finding>>| {
        let findings = runs.get(scenario).and_then(|records| say(records)).unwrap_or_default();
        found.push(Group { scenario, findings });
    };
    let beside = |name: &str| runs.get(name).map_or(&[][..], Vec::as_slice);
    of("fig1-rates", &problem::rates);
    of("fig1-directions", &problem::directions);
    of("fig2", &|records| problem::beginning(records, beside("fig2-bunching"), beside("fig2-quick")));
    of("fig2-bunching", &problem::bunches);
    of("fig3", &problem::stall_without_proxy);
    of("fig3", &|records| problem::drain(records, beside("fig3-drain")));
    of("fig3-sack", &problem::selective);
    of("fig4", &|records| problem::joining_without_proxy(records, beside("fig4-joins")));
    of("fig5-classes", &sharing::classes);
    of("fig9", &proxy::short_downloads);
    of("fig9", &|records| proxy::small_window(records, beside("fig9-window")));
    of("fig9-mss", &|records| proxy::small_segments(records, beside("fig9")));
    of("fig9-persistent", &|records| proxy::persistent_connections(records, beside("fig9")));
    of("fig10", &sharing::joining);
    of("fig10-auto", &sharing::joining_auto);
    of("fig11", &|records| proxy::windows(records, beside("fig11-delays"), beside("fig11-direct")));
    of("fig11-delays", &|records| {
        proxy::knee_by_delays(records, beside("fig2-bunching"), beside("fig1-directions"))
    });
    of("fig12", &|records| stalls::stalls(records, beside("fig12-causes")));
    of("fig12", &|records| stalls::retransmissions(records, beside("fig12-causes"), beside("fig12-lengths")));
    of("fig12-uplink", &|records| stalls::silences(records, beside("fig11")));
    of("fig12-uplink-beside", &|records| {
        stalls::silences_beside(records, beside("fig12-uplink"), beside("fig11"))
    });
    found.retain(|group| !group.findings.is_empty());
    found
}

/// The runs that have this among their values, as it is written.
fn having(records: &[RunRecord], value: &str) -> Vec<RunRecord> {
    let has = |record: &&RunRecord| record.values.iter().any(|(_, own)| own.trim_matches('"') == value);
    records.iter().filter(has).cloned().collect()
}

/// How long the uplink waits for packets to send together in `fig11-delays` and `fig2-bunching`, as it is written there.
const WAITS: [&str; 4] = ["300 ms", "600 ms", "900 ms", "1200 ms"];
/// Their delays down, and up.
const DOWN: [&str; 3] = ["500 ms", "200 ms", "100 ms"];
const UP: [&str; 3] = ["300 ms", "150 ms", "100 ms"];

/// A link of these sweeps.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Link {
    down: &'static str,
    up: &'static str,
    wait: &'static str,
}

impl Link {
    /// The link model's own.
    const PRESET: Link = Link { down: DOWN[0], up: UP[0], wait: WAITS[3] };
    /// A packet of Figure 1a takes 600 ms at least, as in the paper.
    const SHORT: Link = Link { down: DOWN[1], up: UP[1], wait: WAITS[3] };
}

impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} down, {} up, a wait of {}", self.down, self.up, self.wait)
    }
}

/// All links of which there are runs, the preset's first.
fn links(records: &[RunRecord]) -> Vec<Link> {
    let all = WAITS.into_iter().rev().flat_map(|wait| {
        DOWN.into_iter().flat_map(move |down| UP.into_iter().map(move |up| Link { down, up, wait }))
    });
    all.filter(|link| !of_link(records, link).is_empty()).collect()
}

/// The runs over a link. Delays are told apart by their paths: both directions may have the same.
fn of_link(records: &[RunRecord], link: &Link) -> Vec<RunRecord> {
    let expected = [("down.delay", link.down), ("up.delay", link.up), ("aggregation.wait", link.wait)];
    let is_it = |record: &&RunRecord| {
        expected.iter().all(|(end, value)| {
            record.values.iter().any(|(path, own)| path.ends_with(end) && own.trim_matches('"') == *value)
        })
    };
    records.iter().filter(is_it).cloned().collect()
}

/// Acknowledgments arrive together if they are less than this apart, in seconds: two segments of the link's rate are three times as far apart.
const TOGETHER: f64 = 0.1;
/// The payload of a full segment, in bytes.
const SEGMENT: f64 = 1400.0;
/// "Groups of four": off by no more than this share.
const FOUR: f64 = 0.125;

fn is_four(acks: f64) -> bool {
    (acks / 4.0 - 1.0).abs() <= FOUR
}

/// How many segments are acknowledged in quick succession, on average: a phone that receives one each third of a second acknowledges each by itself.
fn acks_at_a_time(records: &[RunRecord]) -> Option<f64> {
    let of = |outcome: &Outcome| -> Option<Vec<f64>> {
        let mut bunches: Vec<f64> = Vec::new();
        let mut last = f64::NEG_INFINITY;
        for pair in points(outcome, Series::Acknowledged, "file")?.windows(2) {
            let [(_, before), (at, sum)] = [pair[0], pair[1]];
            if sum <= before {
                continue;
            }
            match bunches.last_mut().filter(|_| at - last < TOGETHER) {
                Some(bunch) => *bunch += (sum - before) / SEGMENT,
                None => bunches.push((sum - before) / SEGMENT),
            }
            last = at;
        }
        Some(bunches)
    };
    mean(&outcomes(records, "").filter_map(|(_, outcome)| of(outcome)).flatten().collect::<Vec<_>>())
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
