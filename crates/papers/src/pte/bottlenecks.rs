//! Where the bottleneck is the mobile link, and where it is the Internet: what §2 of the paper says of windows that are clamped, of the
//! ACK Regulator and of senders that are left alone, with a single flow and with eight.
use super::findings::mean;
use crate::error::Result;
use shorthaul_observe::{Finding, RunRecord};
use shorthaul_report::Unit;
use shorthaul_scenario::{Metric, Study};

/// The wired round trips of the scenarios: the delay that is swept, and twice that in words and in seconds.
const ROUND_TRIPS: [(&str, &str, f64); 4] =
    [("5 ms", "10 ms", 0.01), ("25 ms", "50 ms", 0.05), ("50 ms", "100 ms", 0.1), ("150 ms", "300 ms", 0.3)];
/// Payload of the packets that the mobile link's 2 Mbit/s carry, in bit/s.
const ALL: f64 = 2e6 * 1448.0 / 1500.0;
/// The round trip of the mobile link, in seconds.
const MOBILE: f64 = 0.1;
/// The clamp, in bytes.
const CLAMP: f64 = 30_000.0;
/// The queue that is emulated, in bytes.
const QUEUE: f64 = 60_000.0;
/// As many RTOs: what may be more by chance, as a share.
const NEAR: f64 = 0.25;
/// Of a plain split's throughput, what a flow has that is left alone.
const LEFT_ALONE: f64 = 0.99;
/// As even shares: Jain's index may be less by a tenth.
const AS_FAIR: f64 = 0.9;

/// The runs with one flow, or with eight.
struct Runs(Vec<RunRecord>);

impl Runs {
    fn with(records: &[RunRecord], flows: usize) -> Runs {
        let is_meant =
            |record: &&RunRecord| record.outcome.as_ref().is_some_and(|outcome| outcome.flows.len() == flows);
        Runs(records.iter().filter(is_meant).cloned().collect())
    }

    fn mean(&self, case: &str, one_way: &str, metric: Metric) -> Option<f64> {
        mean(&self.0, case, Some(one_way), metric)
    }
}

/// What a clamp allows over a wired round trip, with the mobile link's in the loop: rate = cwnd / rtt, in bit/s.
fn allowed(round_trip: f64) -> f64 {
    CLAMP * 8.0 / (round_trip + MOBILE)
}

pub(super) fn mobile_bottleneck(_: &Study, records: &[RunRecord]) -> Result<Vec<Finding>> {
    let [one, eight] = [1, 8].map(|flows| Runs::with(records, flows));
    let mut found = Vec::new();
    for (one_way, words, round_trip) in ROUND_TRIPS {
        found.extend(filled(&one, one_way, words));
        found.extend(clamped(&one, one_way, words, round_trip));
        found.extend(timeouts_of_eight(&eight, one_way, words, "mobile"));
    }
    found.extend(windows(&one));
    Ok(found)
}

/// What path tail emulation has of the link, whether its windows ever close, and what the others have.
fn filled(one: &Runs, one_way: &str, words: &str) -> Vec<Finding> {
    let of = |case: &str, metric| one.mean(case, one_way, metric);
    let mut found = Vec::new();
    if let (Some(goodput), Some(most), Some(closed)) = (
        of("path-tail", Metric::Goodput),
        of("path-tail", Metric::HeldMost),
        of("path-tail", Metric::WindowLimited),
    ) {
        found.push(
            Finding::number(
                format!("mobile bottleneck, {words} wired: path-tail's share of the link"),
                "≥ 0.95 is asked",
                goodput / ALL,
                Unit::Percent,
            )
            .at_least(0.95)
            .model(format!("{}: fluid, a sender as at its bottleneck", Unit::Percent.format(1.0)))
            .because(format!(
                "{} held at most, {} of the link",
                Unit::Bytes.format(most),
                Unit::Seconds.format(most * 8.0 / 2e6)
            )),
        );
        found.push(
            Finding::number(
                format!("mobile bottleneck, {words} wired: path-tail's windows are closed for"),
                "never: awnd is not used for rate control (§2)",
                closed,
                Unit::Seconds,
            )
            .at_most(0.0)
            .model(format!(
                "{}: the emulated queue overflows before the buffer is full",
                Unit::Seconds.format(0.0)
            )),
        );
    }
    for case in ["clamp", "agg", "constant-queue", "split"] {
        let (Some(goodput), Some(most)) = (of(case, Metric::Goodput), of(case, Metric::HeldMost)) else {
            continue;
        };
        found.push(Finding::shown(
            format!("mobile bottleneck, {words} wired: {case}"),
            "",
            format!("{:.3}, {} held at most", goodput / ALL, Unit::Bytes.format(most)),
        ));
    }
    found
}

/// "To have the sender send at the proper rate, the sender's window must be … clamped … to a value which respects the rtt as seen by the
/// sender" (§2, number 5): one window for all round trips does not fill the mobile link. Where it would by the formula, nothing is said.
fn clamped(one: &Runs, one_way: &str, words: &str, round_trip: f64) -> Option<Finding> {
    let allowed = allowed(round_trip);
    if allowed >= ALL {
        return None;
    }
    let of = |case: &str| one.mean(case, one_way, Metric::Goodput);
    let (clamp, tail) = (of("clamp")?, of("path-tail")?);
    Some(
        Finding::number(
            format!(
                "§2, number 5: a clamp of {} before a mobile bottleneck, {words} wired: share of the link",
                Unit::Bytes.format(CLAMP)
            ),
            format!("{} at most (rate = cwnd / rtt)", Unit::Percent.format(allowed / ALL)),
            clamp / ALL,
            Unit::Percent,
        )
        .at_most(allowed / ALL)
        .and(tail >= 0.95 * ALL)
        .model(format!("{}: rate = cwnd / rtt", Unit::Percent.format(allowed / ALL)))
        .because(format!("path-tail has {}", Unit::Percent.format(tail / ALL))),
    )
}

/// "awnd is typically not constant but may suffer from large fluctuation, especially when awnd is used for clamping … If a receiver's buffer,
/// and therefore awnd, is sufficiently large, swnd equals cwnd" (§2, number 1): the smallest windows that were advertised.
fn windows(one: &Runs) -> Vec<Finding> {
    let smallest = |case: &str, one_way: &str| one.mean(case, one_way, Metric::SmallestWindow);
    let least = |case: &str| {
        let all = ROUND_TRIPS.into_iter().filter_map(|(one_way, ..)| smallest(case, one_way));
        all.reduce(f64::min)
    };
    let mut found = Vec::new();
    if let (Some(clamp), Some(constant)) = (least("clamp"), least("constant-queue")) {
        found.push(Finding::judged(
            "§2, number 1: the smallest window of a clamp of 30 kB, and of one that keeps the queue constant",
            "large fluctuation (below half of 30 kB is asked)",
            format!("{} and {}", Unit::Bytes.format(clamp), Unit::Bytes.format(constant)),
            clamp.max(constant) < CLAMP / 2.0,
        ));
    }
    // What a sender may have under way: the emulated queue, and the product of its rate and round trip.
    let needed = |round_trip: f64| QUEUE + 2e6 / 8.0 * round_trip;
    let shares = ROUND_TRIPS
        .into_iter()
        .filter_map(|(one_way, _, round_trip)| Some(smallest("path-tail", one_way)? / needed(round_trip)));
    if let (Some(share), Some(tail)) = (shares.reduce(f64::min), least("path-tail")) {
        found.push(Finding::judged(
            "§2, number 1: path-tail's smallest window, of what fills the queue and the path",
            "so large that swnd equals cwnd (≥ 1 is asked)",
            format!("{}, {share:.0} times", Unit::Bytes.format(tail)),
            share >= 1.0,
        ));
    }
    found
}

/// Whether another way has most of what path tail emulation has more than what it is held against.
fn has_most(tail: f64, against: f64, other: Option<f64>) -> bool {
    other.is_some_and(|other| (other - against) / (tail - against) >= 0.5)
}

/// RTOs of eight flows with path tail emulation beside those behind a router with the queue that is emulated, and none of the mobile link's
/// delay, which is not in the emulation.
fn timeouts_of_eight(eight: &Runs, one_way: &str, words: &str, bottleneck: &str) -> Option<Finding> {
    let of = |case: &str| eight.mean(case, one_way, Metric::Timeouts);
    let (tail, router, split, direct) = (of("path-tail")?, of("router")?, of("split")?, of("direct")?);
    let each = of("router-each");
    Some(
        Finding::judged(
            format!("{bottleneck} bottleneck, {words} wired, eight flows: RTOs with path tail emulation, of those behind a router with the queue that is emulated"),
            format!("the behaviour of a network in TCP's model (abstract; ≤ {} more, or one, is asked)", Unit::Percent.format(NEAR)),
            format!("{tail:.1} of {router:.1}"),
            tail <= f64::max((1.0 + NEAR) * router, router + 1.0),
        )
        .because(format!("{split:.1} with a plain split, {direct:.1} without gateway"))
        .explained(
            format!(
                "acknowledgments: the algorithm sends one for each datagram, a host for every other; behind the same router to a host that sends one for each there are {:.1}",
                each.unwrap_or(f64::NAN)
            ),
            has_most(tail, router, each),
        ),
    )
}

pub(super) fn wired_bottleneck(_: &Study, records: &[RunRecord]) -> Result<Vec<Finding>> {
    let [one, eight] = [1, 8].map(|flows| Runs::with(records, flows));
    let mut found = Vec::new();
    for (one_way, words, round_trip) in ROUND_TRIPS {
        found.extend(of_a_split(&one, one_way, words, ""));
        found.extend(of_a_split(&eight, one_way, words, ", eight flows"));
        found.extend(left_alone(&one, one_way, words, round_trip));
        found.extend(no_problem(&eight, one_way, words));
        found.extend(timeouts_of_eight(&eight, one_way, words, "wired"));
    }
    found.extend(ack_regulator(&one));
    Ok(found)
}

fn of_a_split(runs: &Runs, one_way: &str, words: &str, flows: &str) -> Option<Finding> {
    let goodput = |case: &str| runs.mean(case, one_way, Metric::Goodput);
    Some(
        Finding::number(
            format!("wired bottleneck, {words}{flows}: path-tail / plain split"),
            "≥ 0.99 is asked",
            goodput("path-tail")? / goodput("split")?,
            Unit::Percent,
        )
        .at_least(0.99)
        .model(format!("{}: fluid, the Internet link binds both", Unit::Percent.format(1.0))),
    )
}

/// §2, number 4: where "cwnd is less than or equal to awnd … the TCP flow is left alone"; where not, "a TCP flow's rate is decreased by BS
/// although its rate may be carried by the mobile network". Which of both it is, rate = cwnd / rtt says, with the mobile link in the loop.
fn left_alone(one: &Runs, one_way: &str, words: &str, round_trip: f64) -> Option<Finding> {
    let goodput = |case: &str| one.mean(case, one_way, Metric::Goodput);
    let (split, tail, clamp) = (goodput("split")?, goodput("path-tail")?, goodput("clamp")?);
    let allowed = allowed(round_trip) / split;
    // Where rates, queues and windows are ten times as large, only packets are not: the formula knows none.
    let tenfold = goodput("clamp-tenfold").zip(goodput("split-tenfold")).map(|(clamp, split)| clamp / split);
    let in_each = format!(
        "it is {} in each round trip, of a window of {}",
        Unit::Bytes.format(clamp * (round_trip + MOBILE) / 8.0),
        Unit::Bytes.format(CLAMP)
    );
    let share = |name: &str, stated: String| {
        let what = format!(
            "§2, number {name}: a clamp of {} behind a wired bottleneck of {words}, of a plain split",
            Unit::Bytes.format(CLAMP)
        );
        Finding::number(what, stated, clamp / split, Unit::Percent)
            .model(format!("{}: rate = cwnd / rtt", Unit::Percent.format(allowed.min(1.0))))
            .because(in_each.clone())
    };
    Some(match allowed >= 1.0 {
        true => share("4a", "left alone (≥ 0.99 is asked)".to_owned()).at_least(LEFT_ALONE).explained(
            format!(
                "packets, of which the formula knows nothing: {in_each}, and the rest of it is what packets take by themselves, and windows that move in whole ones; with ten times the rates, queues and windows, so that a packet is a tenth of these, it is {} of a plain split",
                Unit::Percent.format(tenfold.unwrap_or(f64::NAN))
            ),
            tenfold.is_some_and(|share| share >= LEFT_ALONE),
        ),
        false => share("4b", format!("its rate is decreased: {} at most", Unit::Percent.format(allowed)))
            .at_most(allowed)
            .and(tail >= 0.99 * split),
    })
}

/// "If the flow experiences the bottleneck in the Internet, there should be no problem at all" (§2, number 4): eight flows with path tail
/// emulation, beside a plain split, which does nothing to them.
fn no_problem(eight: &Runs, one_way: &str, words: &str) -> Vec<Finding> {
    let of =
        |metric| Some([eight.mean("path-tail", one_way, metric)?, eight.mean("split", one_way, metric)?]);
    let mut found = Vec::new();
    // A plain split that acknowledges each datagram by itself, as an emulated tail does.
    let each = |metric| eight.mean("split-each", one_way, metric);
    let cause = |words: String| {
        format!(
            "acknowledgments: the algorithm sends one for each datagram, a host for every other; a plain split that sends one for each has {words}"
        )
    };
    if let Some([tail, split]) = of(Metric::Timeouts) {
        let each = each(Metric::Timeouts);
        found.push(
            Finding::judged(
                format!("§2, number 4: wired bottleneck, {words}, eight flows: RTOs with path tail emulation, of those with a plain split"),
                format!("no problem at all (≤ {} more, or one, is asked)", Unit::Percent.format(NEAR)),
                format!("{tail:.1} of {split:.1}"),
                tail <= f64::max((1.0 + NEAR) * split, split + 1.0),
            )
            .explained(cause(format!("{:.1}", each.unwrap_or(f64::NAN))), has_most(tail, split, each)),
        );
    }
    if let Some([tail, split]) = of(Metric::Fairness) {
        let each = each(Metric::Fairness);
        found.push(
            Finding::number(
                format!("§2, number 4: wired bottleneck, {words}, eight flows: Jain's index with path tail emulation, of that with a plain split"),
                format!("no problem at all (≥ {AS_FAIR} is asked)"),
                tail / split,
                Unit::None,
            )
            .at_least(AS_FAIR)
            .because(format!("{tail:.3} and {split:.3}"))
            .explained(cause(format!("{:.3}", each.unwrap_or(f64::NAN))), has_most(tail, split, each)),
        );
    }
    found
}

/// "Any drop in the Internet, e.g. due to crosstraffic, traffic bursts or queue management mechanisms as RED would cause the presented mechanism
/// to fail" (§2, of the ACK Regulator): a bottleneck in the Internet whose queue overflows.
fn ack_regulator(one: &Runs) -> Option<Finding> {
    let of = |case: &str, metric| -> Option<Vec<f64>> {
        ROUND_TRIPS.into_iter().map(|(one_way, ..)| one.mean(case, one_way, metric)).collect()
    };
    let [regulator, tail] = ["ack-regulator", "path-tail"].map(|case| of(case, Metric::Goodput));
    let [expired, of_tail] = ["ack-regulator", "path-tail"].map(|case| of(case, Metric::Timeouts));
    let (regulator, tail, expired, of_tail) = (regulator?, tail?, expired?, of_tail?);
    let shares: Vec<f64> = regulator.iter().zip(&tail).map(|(own, tail)| own / tail).collect();
    let words =
        |values: &[f64]| values.iter().map(|value| format!("{value:.1}")).collect::<Vec<_>>().join(", ");
    let percents = shares.iter().map(|share| Unit::Percent.format(*share)).collect::<Vec<_>>().join(", ");
    Some(
        Finding::judged(
            "§2: the ACK Regulator behind a wired bottleneck of 10, 50, 100 and 300 ms: throughput of path-tail's, and RTOs",
            "any drop in the Internet causes it to fail (less than 95 %, and RTOs, at all of them is asked)",
            format!("{percents}; {} RTOs", words(&expired)),
            shares.iter().all(|share| *share < 0.95)
                && expired.iter().zip(&of_tail).all(|(own, tail)| *own > tail + 1.0),
        )
        .because(format!("{} RTOs with path tail emulation", words(&of_tail))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Having, holds, run, study};

    /// A run of a case over a wired delay with so many flows; path-tail's windows are as it has them.
    fn of(case: &str, delay: &str, flows: usize, metrics: &[(Metric, f64)]) -> RunRecord {
        let delay = format!("\"{delay}\"");
        let record = run(Some(case), &[(super::super::figures::DELAY, &delay)]);
        let record = (0..flows).fold(record, |record, _| record.flow("a", 1e5, &[], &[]));
        metrics.iter().fold(record, |record, (metric, value)| record.metric(*metric, *value))
    }

    #[test]
    fn shares_of_a_mobile_bottleneck_are_judged() {
        let found = |goodput, closed, clamp: f64| {
            let tail = [(Metric::Goodput, goodput), (Metric::HeldMost, 1e5), (Metric::WindowLimited, closed)];
            let clamp = of("clamp", "150 ms", 1, &[(Metric::Goodput, clamp)]);
            mobile_bottleneck(&study(), &[of("path-tail", "150 ms", 1, &tail), clamp]).unwrap()
        };
        assert!(holds(&found(1.92e6, 0.0, 0.4e6), "bottleneck"));
        assert!(
            !holds(&found(1.7e6, 0.0, 0.4e6), "path-tail's share")
                && !holds(&found(1.92e6, 2.0, 0.4e6), "closed")
        );
        // 30 kB in 300 and 100 ms are 0.6 Mbit/s.
        assert!(
            !holds(&found(1.92e6, 0.0, 0.7e6), "number 5") && !holds(&found(1.7e6, 0.0, 0.4e6), "number 5")
        );
        let near = [
            of("clamp", "5 ms", 1, &[(Metric::Goodput, 1.9e6)]),
            of("path-tail", "5 ms", 1, &[(Metric::Goodput, 1.9e6)]),
        ];
        let found = mobile_bottleneck(&study(), &near).unwrap();
        assert!(found.iter().all(|own| !own.what.contains("number 5")), "30 kB in 110 ms fill the link");
    }

    #[test]
    fn windows_that_fluctuate_and_one_that_does_not_are_judged() {
        let found = |clamp, tail| {
            let small = |case, window| of(case, "150 ms", 1, &[(Metric::SmallestWindow, window)]);
            let all = [small("clamp", clamp), small("constant-queue", 2e3), small("path-tail", tail)];
            mobile_bottleneck(&study(), &all).unwrap()
        };
        assert!(holds(&found(4e3, 16e6), "number 1"));
        assert!(!holds(&found(28e3, 16e6), "a clamp of 30 kB"));
        // 60 kB of queue, and 75 kB of path.
        assert!(
            !holds(&found(4e3, 130e3), "path-tail's smallest")
                && holds(&found(4e3, 140e3), "path-tail's smallest")
        );
    }

    #[test]
    fn a_clamp_behind_a_wired_bottleneck_leaves_alone_or_decreases() {
        let found = |delay: &str, tail, clamp| {
            let of = |case, goodput| of(case, delay, 1, &[(Metric::Goodput, goodput)]);
            wired_bottleneck(&study(), &[of("split", 1.5e6), of("path-tail", tail), of("clamp", clamp)])
                .unwrap()
        };
        assert!(holds(&found("150 ms", 1.5e6, 0.5e6), "bottleneck"));
        assert!(!holds(&found("150 ms", 1.4e6, 0.5e6), "plain split"));
        assert!(
            !holds(&found("150 ms", 1.5e6, 0.7e6), "number 4b")
                && !holds(&found("150 ms", 1.4e6, 0.5e6), "number 4b")
        );
        assert!(
            holds(&found("5 ms", 1.5e6, 1.5e6), "number 4a")
                && !holds(&found("5 ms", 1.5e6, 1.2e6), "number 4a")
        );
        let clamp = found("150 ms", 1.5e6, 0.5e6).into_iter().find(|own| own.what.contains("4b")).unwrap();
        assert!(clamp.reason.contains("25.0 kB"), "{clamp:?}");
    }

    #[test]
    fn packets_are_a_cause_only_if_the_clamp_leaves_a_flow_alone_where_they_are_small() {
        let cause = |clamp: f64, tenfold: f64| {
            let of = |case, goodput| of(case, "5 ms", 1, &[(Metric::Goodput, goodput)]);
            let all = [
                of("split", 1.55e6),
                of("path-tail", 1.55e6),
                of("clamp", clamp),
                of("split-tenfold", 15.5e6),
                of("clamp-tenfold", tenfold),
            ];
            let found = wired_bottleneck(&study(), &all).unwrap();
            found.into_iter().find(|own| own.what.contains("4a")).unwrap().cause
        };
        assert!(cause(1.25e6, 15.5e6).is_some_and(|cause| cause.contains("100 % of a plain split")));
        assert_eq!((cause(1.25e6, 12.5e6), cause(1.55e6, 15.5e6)), (None, None));
    }

    #[test]
    fn eight_flows_are_judged_beside_a_split_and_beside_a_router() {
        let found = |tail: f64, split: f64, router: f64, index: f64| {
            let of = |case, timeouts, index| {
                of(
                    case,
                    "5 ms",
                    8,
                    &[(Metric::Timeouts, timeouts), (Metric::Fairness, index), (Metric::Goodput, 1.5e6)],
                )
            };
            let all = [
                of("path-tail", tail, index),
                of("split", split, 0.95),
                of("router", router, 0.9),
                of("direct", 3.0, 0.9),
            ];
            wired_bottleneck(&study(), &all).unwrap()
        };
        assert!(holds(&found(6.0, 6.0, 6.0, 0.95), "eight flows"));
        let many = found(55.0, 6.0, 7.0, 0.7);
        for what in ["of those with a plain split", "of those behind a router", "Jain"] {
            assert!(!holds(&many, what), "{what}");
        }
        assert!(many.iter().all(|own| own.cause.is_none()), "{many:#?}");
        assert!(holds(&found(55.0, 6.0, 60.0, 0.95), "behind a router"));
    }

    #[test]
    fn acknowledging_each_datagram_is_a_cause_only_if_others_who_do_have_as_many() {
        let causes = |split_each: f64, router_each: f64| {
            let of = |case, timeouts| of(case, "5 ms", 8, &[(Metric::Timeouts, timeouts)]);
            let all = [
                of("path-tail", 41.0),
                of("split", 7.0),
                of("router", 4.0),
                of("direct", 3.0),
                of("split-each", split_each),
                of("router-each", router_each),
            ];
            let found = wired_bottleneck(&study(), &all).unwrap();
            found.iter().map(|own| own.cause.is_some()).collect::<Vec<_>>()
        };
        assert_eq!(causes(34.0, 30.0), [true, true]);
        assert_eq!((causes(10.0, 30.0), causes(34.0, 10.0)), (vec![false, true], vec![true, false]));
    }

    #[test]
    fn the_ack_regulator_fails_only_if_it_does_everywhere() {
        let found = |last: f64, expired: f64| {
            let all = ROUND_TRIPS.into_iter().flat_map(|(one_way, ..)| {
                let own = if one_way == "150 ms" { last } else { 1.2e6 };
                [
                    of("ack-regulator", one_way, 1, &[(Metric::Goodput, own), (Metric::Timeouts, expired)]),
                    of("path-tail", one_way, 1, &[(Metric::Goodput, 1.54e6), (Metric::Timeouts, 0.0)]),
                ]
            });
            wired_bottleneck(&study(), &all.collect::<Vec<_>>()).unwrap()
        };
        assert!(holds(&found(1.3e6, 5.0), "ACK Regulator"));
        assert!(!holds(&found(1.5e6, 5.0), "ACK Regulator") && !holds(&found(1.3e6, 0.0), "ACK Regulator"));
    }
}
