//! Table II with cross traffic, which the paper's path had.
use crate::error::Result;
use crate::experiment::{all_sound, records, study};
use shorthaul_observe::{Finding, RunRecord, Store, Summary};
use shorthaul_report::{Console, Unit};
use shorthaul_sim::Simulator;

const TEXT: &str = include_str!("../../../../papers/cascade/table-2-cross.toml");

/// How many times as much as directly the paper measured by way of a relay.
const GAIN: f64 = 6.44 / 5.85;
/// The interval of the paper's long-haul throughput, in bit/s: it alone says how much cross traffic there can have been.
const LONG_HAUL: [f64; 2] = [5.25e6, 6.39e6];
/// A gain that is off by no more than this share agrees.
const NEAR: f64 = 0.05;

/// The runs with each number of other connections.
pub(super) fn run(store: &Store, repeats: Option<u32>, console: &dyn Console) -> Result<Vec<RunRecord>> {
    let study = study("table-2-cross", TEXT, repeats)?;
    all_sound(records(&Simulator::default(), &study, Some(store), console)?)
}

/// A number of other connections, and what the flow gets beside them, in bit/s: directly, and by way of the relay.
struct Beside {
    count: u32,
    direct: f64,
    relayed: f64,
}

fn all(records: &[RunRecord]) -> Vec<Beside> {
    let value = |record: &RunRecord, path: &str| {
        let found = record.values.iter().find(|(own, _)| own.ends_with(path));
        found.map(|(_, value)| value.clone())
    };
    let mut counts: Vec<u32> =
        records.iter().filter_map(|record| value(record, "cross.count")?.parse().ok()).collect();
    counts.sort_unstable();
    counts.dedup();
    let rate = |count: u32, relayed: bool| {
        let is_meant = |record: &&RunRecord| {
            value(record, "cross.count") == Some(count.to_string())
                && value(record, "data.via").is_some_and(|via| (via != "[]") == relayed)
        };
        let rates = records.iter().filter(is_meant).filter_map(|record| {
            let flows = &record.outcome.as_ref()?.flows;
            Some(flows.iter().find(|flow| flow.name == "data")?.goodput)
        });
        Summary::of(rates).map(|rates| rates.mean)
    };
    let of = |count: u32| Some(Beside { count, direct: rate(count, false)?, relayed: rate(count, true)? });
    counts.into_iter().filter_map(of).collect()
}

/// The most others beside which, and beside fewer, the direct connection has what the paper's interval admits. None where the sweep ends before there
/// are too many, or begins with too many.
fn level(all: &[Beside]) -> Option<&Beside> {
    let admitted = |own: &&Beside| (LONG_HAUL[0]..=LONG_HAUL[1]).contains(&own.direct);
    let within = all.iter().take_while(admitted).count();
    all.get(within)?;
    all[..within].last()
}

/// Where the others are.
#[derive(Clone, Copy)]
enum Place {
    /// On a last link that both ways share.
    Shared,
    /// On the relay's way alone. The direct connection is as beside the fewest: the link is not full.
    RelaysWay,
}

impl Place {
    const ALL: [Place; 2] = [Place::Shared, Place::RelaysWay];

    fn name(self) -> &'static str {
        match self {
            Place::Shared => "on a link that both ways share",
            Place::RelaysWay => "on the relay's way alone",
        }
    }

    /// The gain that is predicted at a level.
    fn gain(self, all: &[Beside], level: &Beside) -> Option<f64> {
        Some(match self {
            Place::Shared => level.relayed / level.direct,
            Place::RelaysWay => level.relayed / all.first()?.direct,
        })
    }
}

fn agrees(gain: f64) -> bool {
    (gain / GAIN - 1.0).abs() <= NEAR
}

/// Table II's gain with as much cross traffic as its long-haul row admits: predicted, and compared with its other row.
pub(super) fn findings(records: &[RunRecord]) -> Vec<Finding> {
    let all = all(records);
    if all.is_empty() {
        return Vec::new();
    }
    let of = |place: Place| {
        let what = format!(
            "Table II with cross traffic {}, as much as its long-haul row admits: gain",
            place.name()
        );
        let stated = Unit::Times.format(GAIN);
        let swept: Vec<String> = all
            .iter()
            .filter_map(|own| {
                Some(format!("{} beside {}", Unit::Times.format(place.gain(&all, own)?), own.count))
            })
            .collect();
        let swept = swept.join(", ");
        let found = match level(&all).and_then(|level| Some((level, place.gain(&all, level)?))) {
            Some((level, gain)) => Finding::number(what, stated, gain, Unit::Times).within(NEAR, GAIN).because(format!(
                "beside {} others, where the direct connection has {} and that by the relay {}; in the sweep, of which nothing is fitted to the relay's row, it is {swept} (`table-2-cross`)",
                level.count,
                Unit::BitsPerSecond.format(level.direct),
                Unit::BitsPerSecond.format(level.relayed),
            )),
            None => Finding::judged(what, stated, "no level", false)
                .because(format!("no number of others that was tried is the most that the long-haul row admits; {swept}")),
        };
        found.model("none: windows and losses of others are in no closed form")
    };
    Place::ALL.map(of).into()
}

/// Why Table II's gain is another without cross traffic: where that which the long-haul row admits makes it the paper's.
pub(super) fn explains(finding: Finding, records: &[RunRecord]) -> Finding {
    let all = all(records);
    let Some(level) = level(&all) else { return finding };
    Place::ALL.into_iter().fold(finding, |finding, place| {
        let Some(gain) = place.gain(&all, level) else { return finding };
        let cause = format!(
            "cross traffic, which the paper's path had: beside {} others {}, the most that the long-haul row admits, the gain is {} (sweep `table-2-cross`)",
            level.count,
            place.name(),
            Unit::Times.format(gain)
        );
        finding.explained(cause, agrees(gain))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Having, run};
    use shorthaul_observe::Verdict;

    fn records(cells: &[(u32, f64, f64)]) -> Vec<RunRecord> {
        let of = |(count, direct, relayed): &(u32, f64, f64)| {
            let count = count.to_string();
            [("[]", *direct), ("[\"node\"]", *relayed)].map(|(via, rate)| {
                run(None, &[("flows.data.via", via), ("flows.cross.count", &count)])
                    .flow("data", rate, &[], &[])
                    .flow("cross1", 1e6, &[], &[])
            })
        };
        cells.iter().flat_map(of).collect()
    }

    fn verdicts(cells: &[(u32, f64, f64)]) -> [Verdict; 2] {
        let found = findings(&records(cells));
        [found[0].verdict, found[1].verdict]
    }

    #[test]
    fn the_level_is_that_of_the_direct_row_and_nothing_is_fitted_to_the_relays() {
        // 4 others are the most that leave the direct connection its interval.
        let cells = |relayed: f64| [(1, 5.86e6, 8.85e6), (4, 5.4e6, relayed), (8, 3.9e6, 6.44e6)];
        assert_eq!(verdicts(&cells(6.4e6)), [Verdict::Differs, Verdict::Holds]);
        assert_eq!(verdicts(&cells(5.94e6)), [Verdict::Holds, Verdict::Differs]);
        // Another level has the relay's row to the bit, which is no reason to take it.
        assert_eq!(verdicts(&cells(8.1e6)), [Verdict::Differs; 2]);
        let found = findings(&records(&cells(8.1e6)));
        assert!(found[0].reason.contains("beside 4 others") && found[0].reason.contains("1.51"), "{found:?}");
    }

    #[test]
    fn a_sweep_that_fixes_no_level_predicts_nothing() {
        let ends_too_soon = [(1, 5.86e6, 6.44e6), (4, 5.8e6, 6.44e6)];
        let begins_too_late = [(4, 3.9e6, 6.44e6), (8, 3.0e6, 6.44e6)];
        for cells in [&ends_too_soon, &begins_too_late] {
            assert_eq!(verdicts(cells), [Verdict::Differs; 2]);
            assert!(findings(&records(cells)).iter().all(|own| own.ours == "no level"));
        }
        assert!(findings(&[]).is_empty());
    }

    #[test]
    fn cross_traffic_is_a_cause_where_it_makes_the_gain_the_papers() {
        let table = || Finding::number("Table II", "", 1.5, Unit::Times).within(NEAR, GAIN);
        let cells = |relayed: f64| records(&[(1, 5.86e6, 8.85e6), (4, 5.4e6, relayed), (8, 3.9e6, 6.44e6)]);
        let cause = |relayed: f64| explains(table(), &cells(relayed)).cause;
        assert!(cause(6.4e6).is_some_and(|cause| cause.contains("on the relay's way alone")));
        assert_eq!(cause(8.1e6), None);
    }
}
