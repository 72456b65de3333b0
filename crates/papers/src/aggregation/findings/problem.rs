//! The link, and what TCP makes of it: Figures 1 to 4.
use super::super::measures::*;
use super::{DOWNLINK, NEAR, seconds};
use shorthaul_observe::{Finding, Outcome, RunRecord, jain_index};
use shorthaul_report::Unit;
use shorthaul_scenario::Series;

pub(super) fn single_packets(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let all = transfers(records, "", None);
    let of = |share| percentile(&all, share);
    let (least, most) = (of(0.01)?, of(0.99)?);
    let ours = format!("{} to {}, median {}", seconds(least), seconds(most), seconds(of(0.5)?));
    // The sums of the paper's ranges for both directions, and a twentieth.
    let holds = least >= 1.0 * (1.0 - NEAR) && most <= 4.3 * (1.0 + NEAR);
    Some(vec![
        Finding::judged(
            "Fig. 1: a packet of 100 B up and one of 1024 B down, far apart",
            "1 to 4.3 s",
            ours,
            holds,
        )
        .because("down 0.6 to 3 s and up 0.4 to 1.3 s in the paper"),
    ])
}

/// What a packet of Figure 1 takes on the uplink alone, at 1.4 kB/s.
const UPLINK_PACKET: f64 = 1024.0 / 1400.0;

/// The bursts of `fig1-directions`: one packet of this many bytes every so many seconds, as its text says.
const BURST: f64 = 972.0;
const GAP: f64 = 20.0;

/// How long each burst of a flow was on its way, in seconds: the first leaves when the connection is there, which the flow began at `start`,
/// and the others follow each other. Their arrival is known to a sample.
fn times_of_bursts(records: &[RunRecord], flow: &str, start: f64) -> Vec<f64> {
    let of = |(_, outcome): (&RunRecord, &Outcome)| -> Option<Vec<f64>> {
        let begins = start + outcome.flows.iter().find(|own| own.name == flow)?.set_ups.first()?;
        let mut delivered = points(outcome, Series::Delivered, flow)?.iter();
        let arrival = |burst: usize| {
            let (at, _) = delivered.find(|(_, bytes)| *bytes >= BURST * (burst + 1) as f64)?;
            Some(at - begins - GAP * burst as f64)
        };
        Some((0..).map_while(arrival).collect())
    };
    outcomes(records, "").filter_map(of).flatten().collect()
}

/// Figure 1's two ranges: 600 to 3000 ms down and 400 to 1300 ms up, for packets of 1024 bytes.
pub(super) fn directions(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let range = |flow: &str, start: f64| {
        let all = times_of_bursts(records, flow, start);
        Some([percentile(&all, 0.01)?, percentile(&all, 0.5)?, percentile(&all, 0.99)?])
    };
    let within = |[least, _, most]: [f64; 3], [from, to]: [f64; 2]| {
        least >= from * (1.0 - NEAR) && most <= to * (1.0 + NEAR)
    };
    let words = |[least, median, most]: [f64; 3]| {
        format!("{} to {}, median {}", seconds(least), seconds(most), seconds(median))
    };
    let (down, up) = (range("down", 0.0)?, range("up", 10.0)?);
    let bare = up.map(|time| time - UPLINK_PACKET);
    Some(vec![
        Finding::judged("Fig. 1a: a packet of 1024 B down", "600 to 3000 ms", words(down), within(down, [0.6, 3.0])),
        Finding::judged("Fig. 1b: a packet of 1024 B up", "400 to 1300 ms", words(up), within(up, [0.4, 1.3])).explained(
            format!(
                "at the uplink's 1.4 kB/s such a packet takes {} by itself, so the paper's 400 ms are of a faster uplink; besides that it takes {}",
                seconds(UPLINK_PACKET),
                words(bare)
            ),
            within(bare, [0.4, 1.3]),
        ),
    ])
}

/// "Slow-start takes over 6 s to expand the congestion window sufficiently to enable the connection to utilize the full link": until
/// the effective product of 10 kB is in flight.
pub(super) fn beginning(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let (record, outcome) = outcomes(records, "").next()?;
    let subject = wireless(record, outcome, "file")?;
    let in_flight = points(outcome, Series::InFlight, &subject)?;
    let begins = in_flight.iter().find(|(_, bytes)| *bytes > 0.0)?.0;
    let full = in_flight.iter().find(|(_, bytes)| *bytes >= 10e3).map_or(f64::NAN, |(at, _)| *at);
    Some(vec![
        Finding::number(
            "Fig. 2: until a direct download has 10 kB in flight",
            "over 6 s",
            full - begins,
            Unit::Seconds,
        )
        .at_least(6.0),
    ])
}

pub(super) fn stall_without_proxy(records: &[RunRecord]) -> Option<Vec<Finding>> {
    Some(vec![
        Finding::number(
            "Fig. 3: round-trip time of a direct transfer of 600 kB",
            "tens of seconds",
            rtt(records, "")?,
            Unit::Seconds,
        )
        .at_least(10.0)
        .model(format!("{}: a window of 64 kB at the link's rate", seconds(64e3 / DOWNLINK)))
        .because("a window of 64 kB"),
    ])
}

/// When the link of `fig3` is back, in seconds.
const BACK: f64 = 72.0;
/// What the paper's connection had outstanding, in bytes, and for how long it drained (§III, Figure 3).
const OUTSTANDING: f64 = 40e3;
const DRAINED: f64 = 30.0;

/// "Recovery … over a saturated GPRS link takes many seconds. This is depicted in Fig. 3(a), where the drain time is about 30 s": until
/// what was outstanding when the link was back has arrived.
pub(super) fn drain(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let (record, outcome) = outcomes(records, "").next()?;
    let at = |points: &[(f64, f64)]| points.iter().rev().find(|(at, _)| *at <= BACK).map(|(_, value)| *value);
    let outstanding = at(points(outcome, Series::InFlight, &wireless(record, outcome, "file")?)?)?;
    let delivered = points(outcome, Series::Delivered, "file")?;
    let all = at(delivered)? + outstanding;
    let done = delivered.iter().find(|(_, sum)| *sum >= all).map_or(f64::NAN, |(at, _)| *at);
    let (drain, alone) = (done - BACK, outstanding / DOWNLINK);
    Some(vec![
        Finding::number("Fig. 3a: the drain time after a loss, direct", "about 30 s", drain, Unit::Seconds)
            .within(0.2, DRAINED)
            .model(format!("{}: what is outstanding, at the link's rate", seconds(alone)))
            .because(format!("{} are outstanding", Unit::Bytes.format(outstanding)))
            .explained(
                format!(
                    "it is what {} take at the link's rate (`fig3`); the paper's 40 kB in 30 s were {} a second, a third of its own link's rate",
                    Unit::Bytes.format(outstanding),
                    Unit::Bytes.format(OUTSTANDING / DRAINED)
                ),
                (drain / alone - 1.0).abs() <= 0.25,
            ),
    ])
}

/// Two timeouts of a SYN, of 1 and 2 s (RFC 6298).
const TWO_SYNS: f64 = 3.0;
/// The same, of 3 and 6 s, as they were then (RFC 1122).
const TWO_SYNS_THEN: f64 = 9.0;
/// Two flows of which one gets most have an index of no more.
const UNFAIR: f64 = 0.7;
/// When the second flow of `fig4` begins, in seconds.
const JOINS: f64 = 10.0;

/// What was measured where the second flow begins after this time, as it is written.
fn beginning_after(joins: &[RunRecord], start: &str) -> Vec<RunRecord> {
    let is_meant =
        |record: &&RunRecord| record.values.iter().any(|(_, value)| value.trim_matches('"') == start);
    joins.iter().filter(is_meant).cloned().collect()
}

/// What both got from the second one's start until the first one ended: "flow f2 continues to badly underperform until f1 terminates".
fn until_the_first_ends(records: &[RunRecord]) -> Option<[f64; 2]> {
    let of = |outcome: &Outcome| {
        let (first, second) =
            (points(outcome, Series::Delivered, "first")?, points(outcome, Series::Delivered, "second")?);
        let whole = first.last()?.1;
        let ends = first.iter().find(|(_, delivered)| *delivered >= whole)?.0;
        Some([gain(first, JOINS, ends), gain(second, JOINS, ends)])
    };
    let all: Vec<[f64; 2]> = outcomes(records, "").filter_map(|(_, outcome)| of(outcome)).collect();
    let mean_of = |flow: usize| mean(&all.iter().map(|own| own[flow]).collect::<Vec<_>>());
    Some([mean_of(0)?, mean_of(1)?])
}

/// Figure 4, and the same with a second flow that begins later (`fig4-joins`).
pub(super) fn joining_without_proxy(records: &[RunRecord], joins: &[RunRecord]) -> Option<Vec<Finding>> {
    let set_up = mean(&set_ups(records, "", "second"))?;
    let late = ["15 s", "20 s", "30 s"].into_iter().find(|start| {
        let set_up = mean(&set_ups(&beginning_after(joins, start), "", "second"));
        set_up.is_some_and(|set_up| set_up >= TWO_SYNS_THEN)
    });
    let got = until_the_first_ends(records)?;
    Some(vec![
        Finding::number(
            "Fig. 4: the second flow's connection, direct",
            "two timeouts of a SYN",
            set_up,
            Unit::Seconds,
        )
        .at_least(TWO_SYNS)
        .because(match late {
            Some(start) => format!(
                "1 and 2 s by RFC 6298; longer than the 3 and 6 s of the paper's time where it begins after {start} (sweep `fig4-joins`)"
            ),
            None => "1 and 2 s by RFC 6298; never longer than the 3 and 6 s of the paper's time (sweep `fig4-joins`)".to_owned(),
        }),
        Finding::number(
            "Fig. 4: Jain's index from the second flow's start until the first one ends, direct",
            "gross unfairness",
            jain_index(got)?,
            Unit::None,
        )
        .at_most(UNFAIR)
        .because(format!("{} and {}", Unit::Bytes.format(got[0]), Unit::Bytes.format(got[1]))),
    ])
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;
    use crate::testing::{Having, holds, run};

    #[test]
    fn the_problem_is_judged() {
        let packets =
            |times: &[f64]| found(single_packets, &[run(None, &[]).flow("single", 1.0, times, &[])]);
        assert!(holds(&packets(&[1.2, 1.8, 4.0]), "Fig. 1") && !holds(&packets(&[0.3, 0.4, 0.5]), "Fig. 1"));
        assert!(!holds(&packets(&[1.2, 1.8, 9.0]), "Fig. 1"));
        let grows = |rate: f64| {
            let curve: Vec<(f64, f64)> = (0..20).map(|at| (f64::from(at), rate * f64::from(at))).collect();
            found(beginning, &[run(None, &[]).series(Series::InFlight, "file", &curve)])
        };
        assert!(
            holds(&grows(1e3), "Fig. 2") && !holds(&grows(9e3), "Fig. 2") && !holds(&grows(0.1), "Fig. 2")
        );
        let trips = |rtt| {
            found(
                stall_without_proxy,
                &[run(None, &[]).series(Series::Rtt, "file", &[(30.0, rtt), (60.0, rtt)])],
            )
        };
        assert!(holds(&trips(14.0), "Fig. 3") && !holds(&trips(2.0), "Fig. 3"));
    }

    #[test]
    fn the_directions_are_judged_apart() {
        let of = |down: &[f64], up: &[f64]| {
            let arrivals = |start: f64, times: &[f64]| -> Vec<(f64, f64)> {
                let at = |(burst, time): (usize, &f64)| {
                    (start + 1.5 + GAP * burst as f64 + time, BURST * (burst + 1) as f64)
                };
                times.iter().enumerate().map(at).collect()
            };
            found(
                directions,
                &[run(None, &[])
                    .flow("down", 1.0, &[], &[1.5])
                    .flow("up", 1.0, &[], &[1.5])
                    .series(Series::Delivered, "down", &arrivals(0.0, down))
                    .series(Series::Delivered, "up", &arrivals(10.0, up))],
            )
        };
        assert!(holds(&of(&[0.7, 1.0, 2.0], &[0.5, 0.6, 1.2]), "Fig. 1"));
        assert!(!holds(&of(&[0.7, 1.0, 4.0], &[0.5, 0.6, 1.2]), "Fig. 1a"));
        let slow = of(&[0.7, 1.0, 2.0], &[1.2, 1.3, 1.9]);
        assert!(!holds(&slow, "Fig. 1b") && slow[1].cause.is_some(), "{slow:#?}");
        let stuck = of(&[0.7, 1.0, 2.0], &[1.2, 1.3, 9.0]);
        assert!(stuck[1].cause.is_none(), "the packet's own time is not why: {stuck:#?}");
    }

    /// Two flows, of which the second gets `share` of each second.
    fn two(start: Option<&str>, share: f64, set_up: f64) -> RunRecord {
        let curve = |share: f64| (0..60).map(|at| (f64::from(at), share * f64::from(at))).collect::<Vec<_>>();
        let written = start.map(|start| format!("\"{start}\""));
        let values: Vec<(&str, &str)> =
            written.iter().map(|start| ("flows.second.start", start.as_str())).collect();
        run(None, &values)
            .flow("second", 1.0, &[40.0], &[set_up])
            .series(Series::Delivered, "first", &curve(1.0 - share))
            .series(Series::Delivered, "second", &curve(share))
    }

    #[test]
    fn joining_is_judged_by_its_handshake_and_by_what_both_get() {
        let of = |share, set_up, later: f64| {
            let joins = ["10 s", "15 s", "20 s", "30 s"].map(|start| two(Some(start), share, later));
            found(|records| joining_without_proxy(records, &joins), &[two(None, share, set_up)])
        };
        assert!(holds(&of(0.02, 4.0, 16.0), "Fig. 4"));
        assert!(!holds(&of(0.5, 4.0, 16.0), "Jain") && !holds(&of(0.02, 1.0, 16.0), "connection"));
        assert!(of(0.02, 4.0, 16.0)[0].reason.contains("after 15 s"), "{:?}", of(0.02, 4.0, 16.0));
        assert!(of(0.02, 4.0, 4.0)[0].reason.contains("never longer"));
    }

    #[test]
    fn the_drain_is_that_of_what_is_outstanding() {
        let of = |outstanding: f64, rate: f64| {
            let delivered: Vec<(f64, f64)> =
                (0..200).map(|at| (f64::from(at), rate * f64::from(at))).collect();
            let record = run(None, &[])
                .series(Series::InFlight, "file", &[(10.0, outstanding), (100.0, 0.0)])
                .series(Series::Delivered, "file", &delivered);
            found(drain, &[record]).remove(0)
        };
        assert!(holds(&[of(40e3, 1_333.0)], "drain"));
        let faster = of(64e3, DOWNLINK);
        assert!(!holds(std::slice::from_ref(&faster), "drain") && faster.cause.is_some(), "{faster:?}");
        assert_eq!(of(64e3, 500.0).cause, None, "the link is not why");
    }
}
