//! What `auto` does on a link, beside fixed windows.
use super::super::measures::*;
use super::proxy::WINDOWS;
use super::{Link, WAITS, seconds};
use shorthaul_observe::{Finding, RunRecord, Summary};
use shorthaul_report::Unit;

/// The bounds for `auto`: its throughput as a share of the best fixed window's, at least, and its round trip as a multiple of that of a single segment, at most.
const SHARE: f64 = 0.97;
const TRIPS: f64 = 1.5;

/// Round trips of `auto` that are longer than those of a single segment by what the uplink keeps back, which a single segment does not meet: where it
/// keeps less back (`fig11-delays`) they are not.
pub(super) fn kept_back(finding: Finding, less: &[RunRecord]) -> Finding {
    let there = rtt(less, "auto").zip(rtt(less, "one-segment")).map(|(auto, alone)| auto / alone);
    finding.explained(
        format!(
            "acknowledgments that the uplink keeps back for up to {}, which a single segment does not meet: where it keeps them back for {} the ratio is {:.2} (sweep `fig11-delays`)",
            Link::PRESET.wait,
            WAITS[0],
            there.unwrap_or(f64::NAN)
        ),
        there.is_some_and(|ratio| ratio <= TRIPS),
    )
}

/// A throughput that is less than asked, by a run's luck: what is asked lies within the interval of our runs.
pub(super) fn within_its_interval(finding: Finding, records: &[RunRecord], share: f64) -> Finding {
    let times = Summary::of(transfers(records, "auto", None));
    let half = times.as_ref().and_then(|times| Some(times.confidence()? / times.mean)).unwrap_or(f64::NAN);
    let [low, high] = [1.0 + half, 1.0 - half].map(|times| share / times);
    finding.explained(
        format!(
            "a run's luck: the interval of 95 % of our {} runs is from {low:.3} to {high:.3}",
            times.map_or(0, |times| times.count())
        ),
        high >= SHARE,
    )
}

/// What `auto` does on a link: its throughput beside the best fixed window's, and its round trips.
pub(super) fn auto_on(records: &[RunRecord], name: &str) -> Option<Vec<Finding>> {
    let time = |case: &str| mean(&transfers(records, case, None));
    let best = WINDOWS.into_iter().filter_map(time).reduce(f64::min)?;
    let share = best / time("auto")?;
    let own = Finding::number(
        format!("{name}: throughput of the best fixed window"),
        "≥ 0.97 is asked",
        share,
        Unit::None,
    )
    .at_least(SHARE)
    .because(format!("{}, {} with the best", seconds(time("auto")?), seconds(best)));
    let mut found = vec![within_its_interval(own, records, share)];
    for (case, of) in [("one-segment", "one segment at a time"), ("10kB", "10 kB")] {
        if let (Some(unloaded), Some(auto)) = (rtt(records, case), rtt(records, "auto")) {
            let own = Finding::number(
                format!("{name}: round trip of that of {of}"),
                "≤ 1.5 is asked",
                auto / unloaded,
                Unit::None,
            )
            .at_most(TRIPS)
            .because(format!("{} and {}", seconds(auto), seconds(unloaded)));
            found.push(no_window_has_both(own, records, best, unloaded));
        }
    }
    Some(found)
}

/// Round trips that are longer than asked because no window has such, and what is asked of the throughput, too: of the fixed ones each that fills the
/// link has longer ones.
fn no_window_has_both(finding: Finding, records: &[RunRecord], best: f64, unloaded: f64) -> Finding {
    let of = |case: &'static str| {
        Some((case, best / mean(&transfers(records, case, None))?, rtt(records, case)? / unloaded))
    };
    let filling: Vec<(&str, f64, f64)> =
        WINDOWS.into_iter().filter_map(of).filter(|(_, share, _)| *share >= SHARE).collect();
    let said: Vec<String> =
        filling.iter().map(|(case, share, trips)| format!("{case} {share:.3} and {trips:.2}")).collect();
    finding.explained(
        format!(
            "no window has both: of the fixed ones with {SHARE} of the throughput {} (sweep `fig11-delays`)",
            said.join(", ")
        ),
        !filling.is_empty() && filling.iter().all(|(.., trips)| *trips > TRIPS),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Having, run};

    #[test]
    fn a_throughput_is_luck_only_as_far_as_the_runs_scatter() {
        let cause = |times: [f64; 4]| {
            let records = times.map(|time| run(Some("auto"), &[]).flow("file", 1.0, &[time], &[]));
            let share = 153.0 / mean(&times).unwrap();
            let own = Finding::number("auto", "", share, Unit::None).at_least(SHARE);
            within_its_interval(own, &records, share).cause
        };
        assert!(cause([153.0, 165.0, 153.0, 165.0]).is_some_and(|cause| cause.contains("our 4 runs")));
        assert_eq!(cause([159.0, 159.5, 159.0, 159.5]), None);
    }
}
