//! The link, and what TCP makes of it: Figures 1 to 4.
use super::super::measures::*;
use super::{
    DOWN, DOWNLINK, FOUR, Link, NEAR, UP, WAITS, acks_at_a_time, having, is_four, links, of_link, percent,
    seconds,
};
use shorthaul_observe::{Finding, Outcome, RunRecord, Summary, jain_index};
use shorthaul_report::Unit;
use shorthaul_scenario::Series;

/// What a full packet of `fig1-rates` takes of the link, in bytes.
const PACKET: f64 = 1452.0;

/// "A maximum raw downlink throughput of about 4.15 kB/s, and an uplink throughput of 1.4 kB/s. Using a "4 + 1" phone … 5.5 kB/s" (§II), with
/// headers, and "over 120 kB of buffering (at IP level)" (§III): from downloads and an upload that fill the link.
pub(super) fn rates(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let rate = |case: &str, what: &str, name: &str, stated: f64| {
        let seconds = mean(&transfers(records, case, None))?;
        let bytes = outcomes(records, case).find_map(|(_, outcome)| {
            Some(outcome.links.iter().find(|link| link.name == name)?.delivered_bytes as f64)
        })?;
        let title = format!("§II: throughput with headers, {what}");
        Some(
            Finding::number(title, Unit::Bytes.format(stated) + " a second", bytes / seconds, Unit::Bytes)
                .within(0.1, stated)
                .because("with its handshake and its slow start"),
        )
    };
    let queue = outcomes(records, "buffer").find_map(|(_, outcome)| {
        Some(outcome.links.iter().find(|link| link.name == "proxy>phone")?.max_queue as f64 * PACKET)
    })?;
    Some(vec![
        rate("down", "3+1, down", "proxy>phone", 4150.0)?,
        rate("up", "3+1, up", "phone>proxy", 1400.0)?,
        rate("down-4-1", "4+1, down", "proxy>phone", 5500.0)?,
        Finding::number("§III: what the way down buffers before it loses", "over 120 kB", queue, Unit::Bytes)
            .within(NEAR, 120e3),
    ])
}

/// What a packet of Figure 1 takes on the uplink alone, at 1.4 kB/s.
const UPLINK_PACKET: f64 = 1024.0 / 1400.0;

/// The end of a range of Figure 1 that is off by no more than this share agrees.
const END: f64 = 0.2;

/// The bursts of `fig1-directions`: one packet of this many bytes every so many seconds, as its text says.
const BURST: f64 = 972.0;
const GAP: f64 = 20.0;

/// How long each burst of a flow was on its way, in seconds: the first leaves when the connection is there, which the flow began at `start`,
/// and the others follow each other. Their arrival is known to a sample.
fn times_of_bursts(records: &[RunRecord], case: &str, flow: &str, start: f64) -> Vec<f64> {
    let of = |(_, outcome): (&RunRecord, &Outcome)| -> Option<Vec<f64>> {
        let begins = start + outcome.flows.iter().find(|own| own.name == flow)?.set_ups.first()?;
        let mut delivered = points(outcome, Series::Delivered, flow)?.iter();
        let arrival = |burst: usize| {
            let (at, _) = delivered.find(|(_, bytes)| *bytes >= BURST * (burst + 1) as f64)?;
            Some(at - begins - GAP * burst as f64)
        };
        Some((0..).map_while(arrival).collect())
    };
    outcomes(records, case).filter_map(of).flatten().collect()
}

/// In which range, in seconds, 98 of 100 packets of a case are, and their median.
pub(super) fn range(records: &[RunRecord], case: &str, flow: &str, start: f64) -> Option<[f64; 3]> {
    let all = times_of_bursts(records, case, flow, start);
    Some([percentile(&all, 0.01)?, percentile(&all, 0.5)?, percentile(&all, 0.99)?])
}

fn in_words([least, median, most]: [f64; 3]) -> String {
    format!("{} to {}, median {}", seconds(least), seconds(most), seconds(median))
}

/// Figure 1's two ranges: 600 to 3000 ms down and 400 to 1300 ms up, for packets of 1024 bytes. Both ends count: times that are all alike lie within
/// any range.
pub(super) fn directions(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let near = |ours: f64, stated: f64| (ours / stated - 1.0).abs() <= END;
    let spans = |[least, _, most]: [f64; 3], [from, to]: [f64; 2]| near(least, from) && near(most, to);
    let down = |case: &str| range(records, case, "down", 0.0);
    let up = |case: &str| range(records, case, "up", 10.0);
    let (own, tail) = (down("preset")?, down("long-tail"));
    let (way_up, fast) = (up("preset")?, up("fast-up"));
    Some(vec![
        Finding::judged(
            "Fig. 1a: a packet of 1024 B down, from and to",
            "600 to 3000 ms",
            in_words(own),
            spans(own, [0.6, 3.0]),
        )
        .because(match tail {
            Some(tail) => format!(
                "the paper gives no distribution; tried: with 200 ms and a jitter of 500 ms on average, instead of 500 and 200 ms, it is {}, but those are fitted (`fig1-directions`, case `long-tail`)",
                in_words(tail)
            ),
            None => "the paper gives no distribution".to_owned(),
        }),
        Finding::judged(
            "Fig. 1b: a packet of 1024 B up, from and to",
            "400 to 1300 ms",
            in_words(way_up),
            spans(way_up, [0.4, 1.3]),
        )
        .explained(
            format!(
                "at the 1.4 kB/s of §II such a packet takes {} by itself, which is more than 400 ms: on an uplink where it takes no time, with the same delays, it is {} (`fig1-directions`, case `fast-up`)",
                seconds(UPLINK_PACKET),
                fast.map_or("not measured".to_owned(), in_words)
            ),
            way_up[0] >= UPLINK_PACKET && fast.is_some_and(|fast| near(fast[0], 0.4)),
        ),
    ])
}

/// What the link carries without a queue: the effective product that the paper measured, in bytes (§III).
const PRODUCT: f64 = 10e3;
/// How long slow start takes in the paper, in seconds, from the SYN on.
const RAMP: f64 = 6.0;

/// How the phones of `fig2-quick` acknowledge, as it is written there.
const AT_ONCE: &str = "immediate";
const DELAYED: &str = "delayed 200 ms";

/// When a direct download has the effective product in flight, in seconds from its SYN on, and how much it has sent by then.
pub(super) fn ramp(outcome: &Outcome, subject: &str) -> Option<[f64; 2]> {
    let in_flight = points(outcome, Series::InFlight, subject)?;
    let (at, under_way) = *in_flight.iter().find(|(_, bytes)| *bytes >= PRODUCT)?;
    let arrived =
        [Series::Delivered, Series::Acknowledged].into_iter().find_map(|sum| points(outcome, sum, "file"));
    let before = arrived?.iter().rev().find(|(time, _)| *time <= at).map_or(0.0, |(_, sum)| *sum);
    Some([at, before + under_way])
}

/// "It takes about 6 s from the initial connection request (TCP SYN) to ramp the congestion window up to the effective link BDP", of 10 kB.
/// "Hence, for transfers shorter than about 18 kB, TCP fails to even exploit the meagre bandwidth" (§III, Figure 2). The flow's SYN leaves at zero.
pub(super) fn beginning(
    records: &[RunRecord],
    bunching: &[RunRecord],
    quick: &[RunRecord],
) -> Option<Vec<Finding>> {
    let (record, outcome) = outcomes(records, "").next()?;
    let [full, sent] = ramp(outcome, &wireless(record, outcome, "file")?)?;
    let begins = |own: &[RunRecord]| {
        let ramps: Vec<f64> =
            outcomes(own, "").filter_map(|(_, outcome)| Some(ramp(outcome, "file")?[0])).collect();
        Some((mean(&ramps)?, acks_at_a_time(own)?))
    };
    let links: Vec<(String, f64, f64)> = links(bunching)
        .into_iter()
        .filter_map(|link| {
            let (ramp, acks) = begins(&of_link(bunching, &link))?;
            Some((link.to_string(), ramp, acks))
        })
        .collect();
    // A phone that acknowledges at once, with the shortest delays.
    let at_once = |ack: &str, down: &str, up: &str| {
        let own = having(quick, ack);
        let is_it = |record: &&RunRecord| {
            [("down.delay", down), ("up.delay", up)].iter().all(|(end, value)| {
                record.values.iter().any(|(path, own)| path.ends_with(end) && own.trim_matches('"') == *value)
            })
        };
        begins(&own.iter().filter(is_it).cloned().collect::<Vec<_>>())
    };
    let shortest = at_once(AT_ONCE, DOWN[2], UP[2]);
    let single = [at_once(AT_ONCE, DOWN[0], UP[0]), at_once(DELAYED, DOWN[2], UP[2])];
    let [phone, delays] = single.map(|own| own.map_or("not measured".to_owned(), |(ramp, _)| seconds(ramp)));
    let fours = links.iter().filter(|(_, _, acks)| is_four(*acks));
    let quickest = fours.min_by(|one, other| one.1.total_cmp(&other.1));
    let without = links.iter().min_by(|one, other| one.1.total_cmp(&other.1));
    let tried = match (quickest, without) {
        (Some((link, time, _)), Some((other, least, acks))) => format!(
            "tried: other delays have {} at least where acknowledgments come four at a time ({link}), and {} where they come {acks:.1} at a time ({other}; sweep `fig2-bunching`)",
            seconds(*time),
            seconds(*least),
        ),
        _ => String::new(),
    };
    Some(vec![
        Finding::number(
            "Fig. 2: from the SYN until a direct download has 10 kB in flight",
            "about 6 s",
            full,
            Unit::Seconds,
        )
        .within(0.2, RAMP)
        .because(tried)
        .explained(
            format!(
                "the round trip and the phone's delayed acknowledgments: with {} down and {} up, with which Figure 11's 10 kB fill the link, and acknowledgments at once it is {}, {:.1} of them at a time; at once alone it is {phone}, with these delays alone {delays} (sweep `fig2-quick`)",
                DOWN[2],
                UP[2],
                seconds(shortest.map_or(f64::NAN, |(ramp, _)| ramp)),
                shortest.map_or(f64::NAN, |(_, acks)| acks)
            ),
            shortest.is_some_and(|(ramp, acks)| (ramp / RAMP - 1.0).abs() <= 0.2 && is_four(acks)),
        ),
        Finding::number(
            "§III: what a direct download has sent when it first fills the link",
            "about 18 kB",
            sent,
            Unit::Bytes,
        )
        .within(0.2, 18e3),
    ])
}

/// "The sender releases packets in bursts in response to groups of four ACKs arriving in quick succession" (§III, Figure 2(b)), on the preset's link.
pub(super) fn bunches(bunching: &[RunRecord]) -> Option<Vec<Finding>> {
    let at_a_time = |link: &Link| acks_at_a_time(&of_link(bunching, link));
    let preset = at_a_time(&Link::PRESET)?;
    let said: Vec<String> = WAITS
        .into_iter()
        .filter_map(|wait| Some(format!("{:.1} at {wait}", at_a_time(&Link { wait, ..Link::PRESET })?)))
        .collect();
    Some(vec![
        Finding::number(
            "Fig. 2b: segments acknowledged in quick succession, direct",
            "four",
            preset,
            Unit::None,
        )
        .within(FOUR, 4.0)
        .because(format!("by how long the uplink waits: {} (sweep `fig2-bunching`)", said.join(", "))),
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

/// What is outstanding when the link is back, in bytes, and how long until it has arrived, in seconds: means over these runs.
fn drained(records: &[RunRecord]) -> Option<[f64; 2]> {
    let of = |(record, outcome): (&RunRecord, &Outcome)| {
        let at =
            |points: &[(f64, f64)]| points.iter().rev().find(|(at, _)| *at <= BACK).map(|(_, value)| *value);
        let outstanding = at(points(outcome, Series::InFlight, &wireless(record, outcome, "file")?)?)?;
        let delivered = points(outcome, Series::Delivered, "file")?;
        let all = at(delivered)? + outstanding;
        Some([outstanding, delivered.iter().find(|(_, sum)| *sum >= all)?.0 - BACK])
    };
    let all: Vec<[f64; 2]> = outcomes(records, "").filter_map(of).collect();
    let mean_of = |which: usize| mean(&all.iter().map(|own| own[which]).collect::<Vec<_>>());
    Some([mean_of(0)?, mean_of(1)?])
}

/// "Recovery … over a saturated GPRS link takes many seconds. This is depicted in Fig. 3(a), where the drain time is about 30 s", with "40 kB of
/// outstanding data" (Fig. 3b): until what was outstanding when the link was back has arrived. By window and rate in `fig3-drain`.
pub(super) fn drain(records: &[RunRecord], others: &[RunRecord]) -> Option<Vec<Finding>> {
    let [outstanding, drain] = drained(records)?;
    let with = |window: &str, rate: &str| drained(&having(&having(others, window), rate));
    let windows = [("32 kB", 32e3), ("40 kB", 40e3), ("64 kB", 64e3)];
    let follows: Vec<(f64, f64)> =
        windows.iter().filter_map(|(name, window)| Some((*window, with(name, OWN_RATE)?[0]))).collect();
    let papers = with("40 kB", OWN_RATE).zip(with("40 kB", THIRD));
    Some(vec![
        Finding::number("Fig. 3a: the drain time after a loss, direct", "about 30 s", drain, Unit::Seconds)
            .within(0.2, DRAINED)
            .model(format!("{}: what is outstanding, at the link's rate", seconds(outstanding / DOWNLINK)))
            .because(match papers {
                Some(([_, own], [_, third])) => format!(
                    "tried: the paper's 40 kB drain in {}, and at a third of the rate in {}, but the paper says that the link became better (sweep `fig3-drain`)",
                    seconds(own),
                    seconds(third)
                ),
                None => format!("{} are outstanding", Unit::Bytes.format(outstanding)),
            }),
        Finding::number("Fig. 3b: outstanding data, direct", "40 kB", outstanding, Unit::Bytes)
            .within(0.2, OUTSTANDING)
            .model("64 kB: what receivers without window scaling offer")
            .explained(
                format!(
                    "the receiver's window, which the text has at 64 kB at most: of {} are outstanding (sweep `fig3-drain`)",
                    follows
                        .iter()
                        .map(|(window, own)| format!("{} {}", Unit::Bytes.format(*window), Unit::Bytes.format(*own)))
                        .collect::<Vec<_>>()
                        .join(", of ")
                ),
                follows.len() == windows.len() && follows.iter().all(|(window, own)| (own / window - 1.0).abs() <= NEAR),
            ),
    ])
}

/// The rates of `fig3-drain`, as they are written: the link's own, and what 40 kB in 30 s would be.
const OWN_RATE: &str = "33.2 kbit/s";
const THIRD: &str = "10.664 kbit/s";

/// For how long the link of `fig3` is away, in seconds.
const AWAY: f64 = 12.0;
/// An effect on throughput is minimal up to this share of the time.
const MINIMAL: f64 = 0.05;

/// "Use of SACKs ensures that packets transferred during the recovery period are not discarded, and the effect on throughput is minimal" (§III).
pub(super) fn selective(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let time = |case| mean(&transfers(records, case, None));
    let (none, sack, without) = (time("none")?, time("sack")?, time("without")?);
    let beyond = |time: f64| (time - AWAY - none) / none;
    Some(vec![
        Finding::number(
            "§III: what a loss costs with SACK, beyond the stall, of the time without one",
            format!("minimal (≤ {} is asked)", percent(MINIMAL)),
            beyond(sack),
            Unit::Percent,
        )
        .at_most(MINIMAL)
        .and(without > sack)
        .because(format!(
            "600 kB take {}, {} without a stall, {} with the stall and without SACK",
            seconds(sack),
            seconds(none),
            seconds(without)
        )),
    ])
}

/// Two timeouts of a SYN, of 3 and 6 s, as they were then (RFC 1122). Of today's, 1 and 2 s (RFC 6298), the first expires on an idle link, too: a
/// connection takes 2.8 s there.
const TWO_SYNS_THEN: f64 = 9.0;
/// Round trips of the second flow, in seconds (§III).
const QUEUED: [f64; 2] = [16.0, 20.0];
/// Two flows of which one gets most have an index of no more.
const UNFAIR: f64 = 0.7;
/// When the second flow of `fig4` begins, in seconds.
const JOINS: f64 = 10.0;

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

/// The smoothed round trips of the second flow while both run: their mean, and the longest of each run.
fn round_trips_of_second(records: &[RunRecord]) -> Option<(f64, Vec<f64>)> {
    let of = |outcome: &Outcome| -> Option<Vec<f64>> {
        let first = points(outcome, Series::Delivered, "first")?;
        let whole = first.last()?.1;
        let ends = first.iter().find(|(_, delivered)| *delivered >= whole)?.0;
        let all = points(outcome, Series::Rtt, "second")?.iter();
        Some(all.filter(|(at, rtt)| *at <= ends && *rtt > 0.0).map(|(_, rtt)| *rtt).collect())
    };
    let runs: Vec<Vec<f64>> = outcomes(records, "").filter_map(|(_, outcome)| of(outcome)).collect();
    let most = runs.iter().filter_map(|run| run.iter().copied().reduce(f64::max)).collect();
    Some((mean(&runs.concat())?, most))
}

/// Figure 4, and the same with a second flow that begins later, and with a shorter delay down (`fig4-joins`).
pub(super) fn joining_without_proxy(records: &[RunRecord], joins: &[RunRecord]) -> Option<Vec<Finding>> {
    let set_up = mean(&set_ups(records, "", "second"))?;
    let of = |start: &str, delay: &str| having(&having(joins, start), delay);
    let waits: Vec<String> = ["10 s", "15 s", "20 s", "30 s"]
        .into_iter()
        .filter_map(|start| {
            let after = |delay| mean(&set_ups(&of(start, delay), "", "second"));
            Some(format!(
                "{} after {start} ({} with 100 ms down)",
                seconds(after("500 ms")?),
                seconds(after("100 ms")?)
            ))
        })
        .collect();
    let got = until_the_first_ends(records)?;
    let mut found = vec![
        Finding::number(
            "Fig. 4: the second flow's connection, direct",
            "two timeouts of a SYN (3 and 6 s)",
            set_up,
            Unit::Seconds,
        )
        .at_least(TWO_SYNS_THEN)
        .because(format!(
            "what joins the first one waits {}: longer as the queue has grown (sweep `fig4-joins`)",
            waits.join(", ")
        )),
        Finding::number(
            "Fig. 4: Jain's index from the second flow's start until the first one ends, direct",
            "gross unfairness",
            jain_index(got)?,
            Unit::None,
        )
        .at_most(UNFAIR)
        .because(format!("{} and {}", Unit::Bytes.format(got[0]), Unit::Bytes.format(got[1]))),
    ];
    if let Some((trips, most)) = round_trips_of_second(&of("10 s", "500 ms")) {
        let later = ["20 s", "30 s"].into_iter().filter_map(|start| {
            Some(format!("{} after {start}", seconds(round_trips_of_second(&of(start, "500 ms"))?.0)))
        });
        let range = Summary::of(most.iter().copied())?;
        found.push(
            Finding::number(
                "Fig. 4: smoothed round trips of the second flow while both run, direct",
                "16 to 20 s",
                trips,
                Unit::Seconds,
            )
            .at_least(QUEUED[0])
            .at_most(QUEUED[1])
            .because(format!(
                "the longest of a run is {} to {}; where it begins later the mean is {} (sweep `fig4-joins`)",
                seconds(range.percentile(0.0)),
                seconds(range.percentile(1.0)),
                later.collect::<Vec<_>>().join(", ")
            )),
        );
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::super::{SEGMENT, found};
    use super::*;
    use crate::testing::{Having, holds, run};

    #[test]
    fn the_problem_is_judged() {
        // From the SYN on, with the handshake.
        let grows = |handshake: f64, rate: f64| {
            let curve: Vec<(f64, f64)> =
                (0..200).map(|at| (f64::from(at), rate * (f64::from(at) - handshake).max(0.0))).collect();
            let record = run(None, &[]).series(Series::InFlight, "file", &curve).series(
                Series::Delivered,
                "file",
                &curve,
            );
            found(|records| beginning(records, &[], &[]), &[record])
        };
        assert!(holds(&grows(3.0, 3_400.0), "Fig. 2"));
        assert!(!holds(&grows(3.0, 1_600.0), "Fig. 2"), "10 s with the handshake");
        assert!(!holds(&grows(0.0, 9e3), "Fig. 2"), "too quick");
        // Ten kilobytes are in flight when they are, and acknowledgments come so many at a time.
        let cause = |ack: &str, at: f64, acks: f64| {
            let curve = |at: f64| [(0.0, 0.0), (at, 12e3), (at + 1.0, 12e3)];
            let sums: Vec<(f64, f64)> =
                (0..20).map(|place| (f64::from(place), SEGMENT * acks * f64::from(place))).collect();
            let ack = format!("\"{ack}\"");
            let values =
                [("scheme.ack", ack.as_str()), ("down.delay", "\"100 ms\""), ("up.delay", "\"100 ms\"")];
            let of = |values: &[(&str, &str)], at: f64| {
                let record = run(None, values).series(Series::InFlight, "file", &curve(at));
                record.series(Series::Acknowledged, "file", &sums)
            };
            let quick = [of(&values, at)];
            let found = found(|records| beginning(records, &[], &quick), &[of(&[], 9.4)]);
            found[0].cause.clone()
        };
        assert!(cause("immediate", 6.5, 4.0).is_some_and(|cause| cause.contains("6.50 s, 4.0 of them")));
        assert_eq!(cause("immediate", 8.0, 4.0), None, "it is no quicker");
        assert_eq!(cause("immediate", 6.5, 1.4), None, "not four at a time");
        assert_eq!(cause("delayed 200 ms", 6.5, 4.0), None, "the delays alone");
        assert!(holds(&grows(3.0, 3_400.0), "§III"), "20.4 kB: {:#?}", grows(3.0, 3_400.0));
        assert!(!holds(&grows(3.0, 100e3), "§III"));
        let trips = |rtt| {
            found(
                stall_without_proxy,
                &[run(None, &[]).series(Series::Rtt, "file", &[(30.0, rtt), (60.0, rtt)])],
            )
        };
        assert!(holds(&trips(14.0), "Fig. 3") && !holds(&trips(2.0), "Fig. 3"));
    }

    #[test]
    fn acknowledgments_that_arrive_together_are_counted() {
        let of = |acks: f64| {
            let sums = |at: i32| {
                // Four samples of 50 ms apart, then a second without.
                [0.0, 0.05].map(|after| {
                    (
                        f64::from(at) + after,
                        SEGMENT * acks * (f64::from(at) + if after > 0.0 { 0.5 } else { 0.0 }),
                    )
                })
            };
            let sums: Vec<(f64, f64)> = (0..20).flat_map(sums).collect();
            let values = [
                ("down.delay", "\"500 ms\""),
                ("up.delay", "\"300 ms\""),
                ("aggregation.wait", "\"1200 ms\""),
            ];
            found(bunches, &[run(None, &values).series(Series::Acknowledged, "file", &sums)])
        };
        assert!(holds(&of(4.0), "Fig. 2b"), "{:#?}", of(4.0));
        assert!(!holds(&of(1.4), "Fig. 2b") && !holds(&of(3.2), "Fig. 2b"));
    }

    #[test]
    fn the_directions_are_judged_at_both_ends() {
        let of = |down: &[f64], up: &[f64], fast: &[f64]| {
            let arrivals = |start: f64, times: &[f64]| -> Vec<(f64, f64)> {
                let at = |(burst, time): (usize, &f64)| {
                    (start + 1.5 + GAP * burst as f64 + time, BURST * (burst + 1) as f64)
                };
                times.iter().enumerate().map(at).collect()
            };
            let case = |name: &str, up: &[f64]| {
                run(Some(name), &[])
                    .flow("down", 1.0, &[], &[1.5])
                    .flow("up", 1.0, &[], &[1.5])
                    .series(Series::Delivered, "down", &arrivals(0.0, down))
                    .series(Series::Delivered, "up", &arrivals(10.0, up))
            };
            found(directions, &[case("preset", up), case("fast-up", fast)])
        };
        let (down, up) = ([0.7, 1.0, 2.9], [0.45, 0.6, 1.2]);
        assert!(holds(&of(&down, &up, &up), "Fig. 1"));
        assert!(!holds(&of(&[1.0, 1.0, 1.0], &up, &up), "Fig. 1a"), "times that are all alike");
        assert!(!holds(&of(&[0.7, 1.0, 4.0], &up, &up), "Fig. 1a"));
        let slow = of(&down, &[1.2, 1.3, 1.4], &[0.44, 0.5, 0.6]);
        assert!(!holds(&slow, "Fig. 1b") && slow[1].cause.is_some(), "{slow:#?}");
        let as_slow = of(&down, &[1.2, 1.3, 1.4], &[1.1, 1.2, 1.3]);
        assert_eq!(as_slow[1].cause, None, "the packet's own time is not why");
    }

    /// Two flows, of which the second gets `share` of each second, with round trips of 17 s.
    fn two(start: Option<&str>, share: f64, set_up: f64, trip: f64) -> RunRecord {
        let curve = |share: f64| (0..60).map(|at| (f64::from(at), share * f64::from(at))).collect::<Vec<_>>();
        let written = start.map(|start| format!("\"{start}\""));
        let mut values: Vec<(&str, &str)> =
            written.iter().map(|start| ("flows.second.start", start.as_str())).collect();
        values.push(("down.delay", "\"500 ms\""));
        run(None, &values)
            .flow("second", 1.0, &[40.0], &[set_up])
            .series(Series::Delivered, "first", &curve(1.0 - share))
            .series(Series::Delivered, "second", &curve(share))
            .series(Series::Rtt, "second", &[(20.0, trip), (30.0, trip)])
    }

    #[test]
    fn joining_is_judged_by_its_handshake_and_by_what_both_get() {
        let of = |share, set_up, trip: f64| {
            let joins = ["10 s", "15 s", "20 s", "30 s"].map(|start| two(Some(start), share, 16.0, trip));
            found(|records| joining_without_proxy(records, &joins), &[two(None, share, set_up, trip)])
        };
        assert!(holds(&of(0.02, 10.0, 17.0), "Fig. 4"));
        assert!(!holds(&of(0.5, 10.0, 17.0), "Jain"));
        assert!(
            !holds(&of(0.02, 4.0, 17.0), "connection"),
            "one timeout of today's, which an idle link has, too"
        );
        assert!(!holds(&of(0.02, 10.0, 7.0), "round trips") && !holds(&of(0.02, 10.0, 30.0), "round trips"));
    }

    /// A transfer with this much outstanding when the link is back, over a link of this rate.
    fn draining(values: &[(&str, &str)], outstanding: f64, rate: f64) -> RunRecord {
        let delivered: Vec<(f64, f64)> = (0..200).map(|at| (f64::from(at), rate * f64::from(at))).collect();
        run(None, values).series(Series::InFlight, "file", &[(10.0, outstanding), (100.0, 0.0)]).series(
            Series::Delivered,
            "file",
            &delivered,
        )
    }

    #[test]
    fn the_drain_and_what_is_outstanding_are_judged() {
        let of = |outstanding: f64, rate: f64, follows: f64| {
            let others = ["32", "40", "64"].map(|window| {
                let quoted = format!("\"{window} kB\"");
                let bytes = 1e3 * window.parse::<f64>().unwrap() * follows;
                draining(&[("receive_buffer", &quoted), ("down.rate", "\"33.2 kbit/s\"")], bytes, DOWNLINK)
            });
            found(|records| drain(records, &others), &[draining(&[], outstanding, rate)])
        };
        assert!(holds(&of(40e3, 1_333.0, 1.0), "Fig. 3"));
        let faster = of(64e3, DOWNLINK, 1.0);
        assert!(!holds(&faster, "Fig. 3a") && faster[0].cause.is_none(), "open: {faster:#?}");
        assert!(!holds(&faster, "Fig. 3b") && faster[1].cause.is_some(), "{faster:#?}");
        assert_eq!(of(64e3, DOWNLINK, 0.5)[1].cause, None, "the window is not why");
    }

    #[test]
    fn sack_is_judged_by_what_a_loss_costs() {
        let of = |none: f64, sack: f64, without: f64| {
            let case = |name: &str, time: f64| run(Some(name), &[]).flow("file", 1.0, &[time], &[]);
            found(selective, &[case("none", none), case("sack", sack), case("without", without)])
        };
        assert!(holds(&of(157.0, 170.0, 180.0), "SACK"));
        assert!(!holds(&of(157.0, 180.0, 190.0), "SACK"), "11 s beyond the stall");
        assert!(!holds(&of(157.0, 170.0, 170.0), "SACK"), "it is not SACK's doing");
    }

    #[test]
    fn the_links_rates_are_judged() {
        let of = |time: f64, queue: u64| {
            let case = |name: &str, link: &str, bytes: f64| {
                let mut record = run(Some(name), &[]).flow("file", 1.0, &[time], &[]);
                record.outcome.as_mut().unwrap().links.push(shorthaul_observe::LinkOutcome {
                    name: link.into(),
                    offered: 0,
                    delivered: 0,
                    delivered_bytes: bytes as u64,
                    queue_full: 0,
                    lost: 0,
                    outage: 0,
                    max_queue: queue as _,
                });
                record
            };
            found(
                rates,
                &[
                    case("down", "proxy>phone", 4150e2),
                    case("up", "phone>proxy", 1400e2),
                    case("down-4-1", "proxy>phone", 5500e2),
                    case("buffer", "proxy>phone", 0.0),
                ],
            )
        };
        assert!(holds(&of(100.0, 82), "throughput") && !holds(&of(150.0, 82), "throughput"));
        assert!(holds(&of(100.0, 82), "buffers") && !holds(&of(100.0, 42), "buffers"));
    }
}
