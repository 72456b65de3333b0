//! Findings of a law that is as the paper states, and of laws that are not.
use super::*;
use crate::testing::holds;
use shorthaul_observe::Verdict;

/// Table I, and Figure 3 without loss, as a law says it: throughput of a cell in bit/s.
fn matrix(law: impl Fn(PathPoint) -> f64) -> Matrix {
    Matrix::of(PathPoint::all().into_iter().chain(PathPoint::without_loss()).map(|cell| Measured {
        cell,
        size: 1_000_000,
        steady: true,
        throughput: law(cell),
        confidence: Some(0.0),
        forecast: law(cell),
        equations: mathis(cell),
    }))
}

/// Equation 8, not bounded by the link.
fn mathis(cell: PathPoint) -> f64 {
    let relays = (cell.relays as f64 + 1.0).powf(1.5);
    relays * 1.22 * 1448.0 * 8.0 / (cell.rtt_ms as f64 / 1e3 * (cell.loss_per_100k as f64 / 1e5).sqrt())
}

/// What the paper states: a relay doubles, until headers leave 94 %.
fn stated(cell: PathPoint) -> f64 {
    let link = 0.94 * cell.kbit as f64 * 1e3;
    let law = mathis(PathPoint { relays: 0, ..cell }) * [1.0, 2.0, 3.0][cell.relays];
    // One connection does not reach what the paper has in these two.
    let filled = cell.loss_per_100k == 100 && cell.product() >= 256_000.0 && cell.product() <= 512_000.0;
    let share = match (filled, cell.relays) {
        (true, 1) => 0.81,
        (true, 2) => 0.9,
        _ => 1.0,
    };
    if filled && cell.relays == 0 {
        0.405 * link / 0.94
    } else if filled {
        share * link / 0.94
    } else {
        law.min(link)
    }
}

fn variants(of: impl Fn(&str) -> Option<f64>) -> Vec<Variant> {
    variants::names()
        .into_iter()
        .map(|name| Variant {
            name,
            throughput: of(name).unwrap_or(1e6),
            confidence: None,
            forecast: 1e6,
            drought: Some(0.0),
            paper: match name {
                variants::WINDOW_DIRECT => Some(5.85e6),
                variants::WINDOW_RELAYED => Some(6.44e6),
                _ => None,
            },
        })
        .collect()
}

fn as_stated(name: &str) -> Option<f64> {
    match name {
        variants::WINDOW_DIRECT => Some(5.85e6),
        variants::WINDOW_RELAYED => Some(6.44e6),
        _ if name == variants::NO_LOSS[1] => Some(2e6),
        _ if name == variants::SMALL[1] => Some(0.8e6),
        variants::STORING => Some(0.5e6),
        variants::QUARTER => Some(0.66e6),
        _ => None,
    }
}

fn judged(law: impl Fn(PathPoint) -> f64, of: impl Fn(&str) -> Option<f64>) -> Vec<Finding> {
    all(&matrix(law), &variants(of))
}

/// The finding of this name.
fn named<'a>(found: &'a [Finding], what: &str) -> &'a Finding {
    found.iter().find(|own| own.what.contains(what)).unwrap_or_else(|| panic!("{what}: {found:#?}"))
}

#[test]
fn what_the_paper_states_holds() {
    let found = judged(stated, as_stated);
    for what in [
        "no loss: gain",
        "largest",
        "correlation",
        "Table II",
        "§III-C",
        "§III-B",
        "§VI-C",
        "slope",
        "§VI-A",
        "is dry",
        "waits 16 windows, of one",
        "utilization with one relay",
        "8 Mbit/s, 256 ms, 0.100 %: gain",
    ] {
        assert!(holds(&found, what), "{what}");
    }
}

#[test]
fn what_the_paper_says_of_its_figures_2_and_3_can_hold_and_fail() {
    // A share of the link that falls with each doubling of the round trip, and that relays raise, but for the second one at 0.01 %.
    let falling = |cell: PathPoint| {
        let fallen = 1.0 - f64::from(cell.rtt_ms.ilog2()) / 10.0;
        let anomaly = if cell.loss_per_100k == 10 && cell.relays == 2 { 0.7 } else { 1.0 };
        anomaly * fallen * (0.3 + 0.1 * cell.relays as f64) * cell.kbit as f64 * 1e3
    };
    let found = judged(falling, as_stated);
    assert!(holds(&found, "Fig. 2(a), long-haul") && holds(&found, "Fig. 2(a), one relay"));
    assert!(holds(&found, "throughput with two relays, of that with one"));
    assert!(!holds(&found, "adds more than 100 %"), "0.4 are no double of 0.3");
    assert!(!holds(&found, "twice the capacity"), "twice as much is no decrease");
    let constant = judged(|cell| 1e6 / cell.kbit as f64, as_stated);
    assert!(holds(&constant, "twice the capacity"));
    let rising = judged(|cell| (cell.rtt_ms as f64 / 600.0) * cell.kbit as f64 * 1e3, as_stated);
    assert!(!holds(&rising, "Fig. 2(a), long-haul") && !holds(&rising, "Fig. 2(a), one relay"));
    assert!(!holds(&rising, "Fig. 3: cells in which relays are faster"), "equal is not faster");
    assert!(!holds(&rising, "throughput with two relays, of that with one"));
    let better = judged(|cell| (1.0 + cell.relays as f64) * 1e5, as_stated);
    assert!(holds(&better, "Fig. 3: cells in which relays are faster"));
    let some = judged(|cell| if cell.relays == 1 && cell.rtt_ms == 512 { 3e5 } else { 1e5 }, as_stated);
    assert!(holds(&some, "adds more than 100 %"));
}

#[test]
fn short_transfers_are_why_utilization_rises_only_where_longer_ones_have_more() {
    let rising = |cell: PathPoint| (cell.rtt_ms as f64 / 600.0).sqrt() * cell.kbit as f64 * 1e3;
    let cause = |longer: f64| {
        let found = judged(rising, |name| match name {
            _ if name == variants::SHORT[0] => Some(4e6),
            _ if name == variants::SHORT[1] => Some(longer),
            _ => None,
        });
        [named(&found, "Fig. 2(a), long-haul"), named(&found, "Fig. 2(a), one relay")]
            .map(|own| own.cause.is_some())
    };
    assert_eq!(cause(7.5e6), [false, true]);
    assert_eq!(cause(4.1e6), [false, false]);
}

#[test]
fn which_loss_a_leg_has_is_a_cause_only_where_a_reading_doubles() {
    let cause = |first: f64, each: f64, what: &str| {
        let found = judged(mathis, |name| match name {
            _ if name == variants::LOSS_ON_FIRST[0] => Some(first),
            _ if name == variants::LOSS_ON_EACH[0] => Some(each),
            _ if name == variants::LOSS_ON_FIRST[1] => Some(20e6),
            _ => None,
        });
        named(&found, what).cause.clone()
    };
    let direct = mathis(PathPoint { kbit: 32_000, rtt_ms: 64, loss_per_100k: 100, relays: 0 });
    let shown = cause(1.9 * direct, 1.75 * direct, "32 Mbit/s, 64 ms, 0.100 %: gain").unwrap();
    assert!(shown.contains("1.90 ×") && shown.contains("two have 62.5 %"), "{shown}");
    assert!(shown.contains("no reading has both"), "{shown}");
    assert_eq!(cause(1.5 * direct, 1.75 * direct, "32 Mbit/s, 64 ms, 0.100 %: gain"), None);
    for what in ["slope", "§VI-A"] {
        assert!(cause(1.5 * direct, 1.75 * direct, what).is_some(), "{what}");
        assert_eq!(cause(1.5 * direct, 1.5 * direct, what), None, "{what}");
    }
}

#[test]
fn the_queue_is_why_nothing_is_gained_without_loss_only_where_dummynets_gains() {
    let cause = |relayed: f64| {
        let found = judged(stated, |name| {
            variants::NO_LOSS_DUMMYNET.iter().any(|(_, names)| names[1] == name).then_some(relayed)
        });
        let own = named(&found, "no loss: gain");
        assert_eq!(own.verdict, Verdict::Differs);
        own.cause.clone()
    };
    assert!(cause(1.9e6).is_some_and(|cause| cause.contains("1.90 × with 20 MB")));
    assert_eq!(cause(1.5e6), None);
}

#[test]
fn cells_that_are_the_same_in_other_units_say_so() {
    let low = |cell: PathPoint| mathis(cell).min(0.94 * cell.kbit as f64 * 1e3);
    let twin = |law: &dyn Fn(PathPoint) -> f64| {
        let found = judged(law, |_| None);
        let own = named(&found, "128 Mbit/s, 32 ms, 0.100 %: utilization");
        format!("{} {}", own.reason, own.cause.clone().unwrap_or_default())
    };
    assert!(twin(&low).contains("the same run as 64 Mbit/s, 64 ms"));
    let other = |cell: PathPoint| if cell.rtt_ms == 32 { 0.9 * low(cell) } else { low(cell) };
    assert!(!twin(&other).contains("the same run as"));
}

/// What was measured between kernels in 32 Mbit/s and 64 ms, in Mbit/s: directly, with one relay and two, with one that waits, and with netcats.
fn live(direct: f64, relays: [f64; 3], netcats: [Option<f64>; 2]) -> Live {
    let way = |rate: Option<f64>| serde_json::json!({ "bit_s": rate.map(|rate| rate * 1e6) });
    Live::of_cells(serde_json::json!([{
        "rtt_ms": 64, "mbit_s": 32, "loss_percent": 0.1, "direct": way(Some(direct)),
        "one_relay": way(Some(relays[0])), "two_relays": way(Some(relays[1])), "waiting": way(Some(relays[2])),
        "netcat": way(netcats[0]), "two_netcats": way(netcats[1]),
    }]))
}

#[test]
fn what_kernels_do_is_judged() {
    let good = between_kernels(&live(7.0, [14.0, 28.0, 14.0], [Some(13.0), Some(27.0)]));
    assert_eq!(good.len(), 5);
    for what in ["gain", "utilization", "one relay, of netcat", "two relays, of netcat", "waits 16"] {
        assert!(holds(&good, what), "{what}");
    }
    let bad = between_kernels(&live(7.0, [17.0, 22.0, 10.0], [Some(17.1), Some(23.0)]));
    for what in ["gain", "utilization", "one relay, of netcat", "two relays, of netcat", "waits 16"] {
        assert!(!holds(&bad, what), "{what}");
    }
    let without = between_kernels(&live(7.0, [14.0, 28.0, 14.0], [None, None]));
    let netcat = named(&without, "one relay, of netcat");
    assert!(netcat.verdict == Verdict::Shown && netcat.ours.starts_with("not run"), "{netcat:?}");
    assert!(between_kernels(&Live::default()).is_empty());
}

#[test]
fn live_and_simulated_rows_of_waiting_are_one() {
    let simulated = judged(stated, as_stated);
    let between = between_kernels(&live(7.0, [14.0, 28.0, 14.0], [None, None]));
    let what = |found: &[Finding]| named(found, "waits 16 windows, of one").what.clone();
    assert_eq!(what(&simulated), what(&between));
}

#[test]
fn what_was_tried_for_table_2_is_no_cause() {
    let found = all(&matrix(stated), &variants(|name| (name == variants::WINDOW_RELAYED).then_some(9e6)));
    let own = found.iter().find(|own| own.what == TABLE_2).unwrap();
    assert!(own.verdict == Verdict::Differs && own.cause.is_none(), "{own:?}");
    assert!(own.reason.contains("157 kB toward the client (1.00"), "{own:?}");
}

#[test]
fn every_finding_can_fail() {
    let fails = |what: &str, law: &dyn Fn(PathPoint) -> f64| {
        assert!(!holds(&judged(law, as_stated), what), "{what}");
    };
    let no_gain =
        |cell: PathPoint| mathis(PathPoint { relays: 0, ..cell }).min(0.94 * cell.kbit as f64 * 1e3);
    for what in [
        "gain of one relay",
        "utilization with one",
        "utilization with two",
        "gains a tenth",
        "slope",
        "§VI-A",
    ] {
        let found = judged(no_gain, |name| as_stated(name).filter(|_| name != variants::NO_LOSS[1]));
        assert!(!holds(&found, what), "{what}");
    }
    fails("largest", &|cell| 0.5 * stated(cell));
    fails("correlation", &|cell| if cell.rtt_ms % 32 == 0 { 1e5 } else { 3e5 });
    fails("the second relay adds", &|cell| {
        if cell.relays == 2 { 3.0 * stated(cell) } else { stated(cell) }
    });
    fails("Fig. 5", &|cell| 0.1 * mathis(cell));
    let found = judged(stated, |_| None);
    for what in ["no loss: gain", "Table II", "§III-C", "§III-B", "§VI-C"] {
        assert!(!holds(&found, what), "{what}");
    }
    let slow = judged(stated, |name| (name == variants::WAITING).then_some(0.5e6));
    assert!(!holds(&slow, "waits 16 windows, of one"));
    let mut dry = variants(as_stated);
    dry.iter_mut().for_each(|own| own.drought = Some(0.03));
    assert!(!holds(&all(&matrix(stated), &dry), "is dry"));
}

#[test]
fn what_equations_allow_is_a_cause_only_where_it_is_less_than_stated() {
    let low = |cell: PathPoint| mathis(cell).min(0.94 * cell.kbit as f64 * 1e3);
    let found = judged(low, |_| None);
    let one = named(&found, "64 Mbit/s, 64 ms, 0.100 %: utilization");
    assert!(one.verdict == Verdict::Differs && one.cause.is_some(), "{one:?}");
    // Two relays have a third of round trip and loss on each leg, for which the equations allow more than the link has.
    let found = judged(|cell| 0.8 * low(cell), |_| None);
    let two = named(&found, "32 Mbit/s, 64 ms, 0.100 %: utilization with two");
    assert!(two.verdict == Verdict::Differs && two.cause.is_none(), "{two:?}");
    assert!(two.reason.contains("four connections have"), "{two:?}");
}

#[test]
fn queues_of_50_packets_are_a_cause_only_where_they_have_what_is_stated() {
    let cause = |what: &str, law: &dyn Fn(PathPoint) -> f64, of: &dyn Fn(&str) -> Option<f64>| {
        let found = judged(law, of);
        let own = named(&found, what);
        assert_eq!(own.verdict, Verdict::Differs);
        own.cause.clone().unwrap_or_default()
    };
    let level = |cell: PathPoint| mathis(cell).min(0.94 * cell.kbit as f64 * 1e3);
    let anomaly = |two: f64| move |name: &str| (name == variants::ANOMALY_DUMMYNET[1]).then_some(two);
    let what = "throughput with two relays, of that with one";
    assert!(cause(what, &mathis, &anomaly(0.9e6)).starts_with("the queue"));
    assert_eq!(cause(what, &mathis, &anomaly(1.0e6)), "");

    let falls = |share: f64| {
        move |name: &str| {
            let step = variants::CAPACITIES_DUMMYNET.iter().position(|(_, own)| *own == name)?;
            Some(1e6 * share.powf(step as f64))
        }
    };
    let what = "§V-A 1";
    assert!(cause(what, &level, &falls(0.97)).starts_with("the queue"));
    // The rate is the same, and its share of the link half: that is what the paper's reason is of.
    assert!(cause(what, &level, &falls(1.0)).starts_with("what is meant"));
    assert_eq!(cause(what, &level, &falls(1.2)), "", "with short queues it depends on the capacity");
    let rising = |cell: PathPoint| 1.2 * (cell.kbit as f64).powf(0.5) * 1e3;
    assert_eq!(cause(what, &rising, &falls(1.0)), "", "a rate that rises is not the one of equation 4");
}
