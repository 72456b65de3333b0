//! Table II with cross traffic, which the paper's path had.
use crate::error::Result;
use crate::experiment::{all_sound, records, study};
use shorthaul_observe::{Finding, RunRecord, Store, Summary};
use shorthaul_report::{Console, Unit};
use shorthaul_sim::Simulator;

const TEXT: &str = include_str!("../../../../papers/cascade/table-2-cross.toml");

/// What the paper measured by way of a relay, in bit/s, and how many times as much as directly that is.
const RELAYED: f64 = 6.44e6;
const GAIN: f64 = 6.44 / 5.85;
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

/// The gain where the others are on the relay's way alone, and the direct one is free: by the number of them at which the relayed rate is
/// nearest to the paper's. A direct way beside the fewest is free: the link is not full.
fn on_the_relays_way(all: &[Beside]) -> Option<(&Beside, f64)> {
    let free = all.first()?.direct;
    let off = |beside: &Beside| (beside.relayed / RELAYED).ln().abs();
    let nearest = all.iter().min_by(|a, b| off(a).total_cmp(&off(b)))?;
    Some((nearest, nearest.relayed / free))
}

/// Table II's gain with cross traffic on the way of the relay, and on a last link that both ways share.
pub(super) fn finding(records: &[RunRecord]) -> Option<Finding> {
    let all = all(records);
    let (beside, gain) = on_the_relays_way(&all)?;
    let shared: Vec<String> = all
        .iter()
        .map(|own| format!("{} beside {}", Unit::Times.format(own.relayed / own.direct), own.count))
        .collect();
    Some(
        Finding::number(
            "Table II with cross traffic on the relay's way: gain where the relayed rate is nearest to 6.44 Mbit/s",
            Unit::Times.format(GAIN),
            gain,
            Unit::Times,
        )
        .within(NEAR, GAIN)
        .model("none: windows and losses of others are in no closed form")
        .because(format!(
            "beside {} connections {}; on a link that both ways share the gain is {} (sweep `table-2-cross`)",
            beside.count,
            Unit::BitsPerSecond.format(beside.relayed),
            shared.join(", ")
        )),
    )
}

/// Why Table II's gain is another without cross traffic: where cross traffic on the relay's way makes it the paper's.
pub(super) fn explains(finding: Finding, records: &[RunRecord]) -> Finding {
    let all = all(records);
    let Some((beside, gain)) = on_the_relays_way(&all) else { return finding };
    let cause = format!(
        "cross traffic, which the paper's path had: beside {} connections on the relay's way the gain is {} (sweep `table-2-cross`)",
        beside.count,
        Unit::Times.format(gain)
    );
    finding.explained(cause, (gain / GAIN - 1.0).abs() <= NEAR)
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

    #[test]
    fn cross_traffic_is_a_cause_where_it_makes_the_gain_the_papers() {
        let table = || Finding::number("Table II", "", 1.5, Unit::Times).within(NEAR, GAIN);
        let near = records(&[(1, 5.86e6, 8.85e6), (4, 3.99e6, 6.44e6), (8, 0.4e6, 1.1e6)]);
        let found = finding(&near).unwrap();
        assert_eq!(found.verdict, Verdict::Holds, "{found:?}");
        assert!(found.reason.contains("beside 4 connections") && found.reason.contains("1.61"), "{found:?}");
        assert!(explains(table(), &near).cause.is_some());
        let far = records(&[(1, 5.86e6, 8.85e6), (4, 3.99e6, 5.0e6)]);
        assert_eq!(finding(&far).unwrap().verdict, Verdict::Differs);
        assert_eq!(explains(table(), &far).cause, None);
        assert_eq!(finding(&[]), None);
    }
}
