//! Senders are held whose queue stands beyond the gateway, and only those.
use shorthaul_observe::Outcome;
use shorthaul_scenario::{Metric, Series, Study};
use shorthaul_sim::{Recording, simulate};

/// What came of two downloads through a gateway: their rates, in bit/s, and how long packets waited on the way from the server,
/// on average from the tenth second on, in seconds.
struct Seen {
    rates: [f64; 2],
    waited: f64,
}

/// Two CUBIC downloads for a minute, the second from ten seconds on, where the gateway of the first is told `told`, and the link
/// between it and the server is `wan`.
fn run(told: &str, access: &str, wan: &str, second: &str) -> Seen {
    let text = format!(
        "duration = \"60 s\"\n[hosts.server]\nscheme = \"cubic\"\n[hosts.phone]\nscheme = \"cubic\"\n\
         [gateways.gateway]\naccess = \"phone\"\n{told}\n\
         [[links]]\nbetween = [\"phone\", \"gateway\"]\nlink = {access}\n\
         [[links]]\nbetween = [\"gateway\", \"server\"]\nlink = {wan}\n\
         [[flows]]\nname = \"first\"\nfrom = \"server\"\nto = \"phone\"\nopened_by = \"phone\"\nbulk = \"1 GB\"\n\
         {second}\n\
         [measure]\nseries = [\"queue-delay\"]\nevery = \"50 ms\"\n"
    );
    let study = Study::from_toml("test.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let scenario = study.scenario(&study.points()[0]).expect("it was checked");
    let outcome: Outcome =
        simulate(&scenario, 1, Recording::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.problems.is_empty(), "{:?}", outcome.problems);
    let rate = |name: &str| {
        let flow = outcome.flows.iter().find(|flow| flow.name.starts_with(name));
        flow.map_or(0.0, |flow| flow.delivered as f64 * 8.0 / 60.0)
    };
    let mut waits = Vec::new();
    for series in outcome.series.iter().filter(|series| series.series == Series::QueueDelay) {
        let late = series.points.iter().filter(|(at, _)| *at >= 10.0).map(|(_, delay)| *delay);
        let late: Vec<f64> = late.collect();
        waits.push(late.iter().sum::<f64>() / late.len().max(1) as f64);
    }
    Seen { rates: ["first", "second"].map(rate), waited: waits.iter().sum() }
}

const SPLIT: &str = "mode = \"auto\"\ncontrol_group = 0.0";
const FREE: &str = "mode = \"auto\"\ncontrol_group = 0.0\naggregate = { hold_senders = false }";
const FAST: &str = "{ rate = \"100 Mbit/s\", delay = \"3 ms\" }";
const DEEP: &str = "{ rate = \"20 Mbit/s\", delay = \"20 ms\", queue = \"500 kB\" }";
const SECOND: &str = "[[flows]]\nname = \"second\"\nfrom = \"server\"\nto = \"phone\"\nopened_by = \"phone\"\nstart = \"10 s\"\nbulk = \"1 GB\"";

#[test]
fn a_queue_beyond_the_gateway_is_kept_short_and_the_path_full() {
    let (free, held) = (run(FREE, FAST, DEEP, ""), run(SPLIT, FAST, DEEP, ""));
    assert!(held.waited < 0.15 * free.waited, "{} of {} s", held.waited, free.waited);
    assert!(held.rates[0] > 0.98 * free.rates[0], "{} of {} bit/s", held.rates[0], free.rates[0]);
}

#[test]
fn downloads_that_are_held_together_have_the_same() {
    let Seen { rates: [first, second], waited } = run(SPLIT, FAST, DEEP, SECOND);
    // The first was alone for ten seconds of sixty.
    let alone = (first + second) / 6.0;
    assert!(((first - alone) / second - 1.0).abs() < 0.1, "{first} and {second}");
    assert!(waited < 0.03, "{waited} s");
}

#[test]
fn where_the_edge_binds_nobody_is_held() {
    let (slow, fast) = (
        "{ rate = \"10 Mbit/s\", delay = \"20 ms\", loss = \"0.5 %\" }",
        "{ rate = \"1 Gbit/s\", delay = \"20 ms\" }",
    );
    let (free, held) = (run(FREE, slow, fast, SECOND), run(SPLIT, slow, fast, SECOND));
    for (held, free) in held.rates.into_iter().zip(free.rates) {
        assert!((held / free - 1.0).abs() < 0.02, "{held} and {free}");
    }
}

/// To hold our senders beside somebody else's would leave the path to them.
#[test]
fn a_stranger_in_the_queue_beyond_leaves_us_our_part() {
    for stranger in ["cubic", "bbr", "sack-reno"] {
        let text = include_str!("scenarios/stranger-beyond.toml");
        let text = text.replace(
            "[hosts.stranger]\nscheme = \"cubic\"",
            &format!("[hosts.stranger]\nscheme = \"{stranger}\""),
        );
        let study = Study::from_toml("test.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        // Ours, and his.
        let delivered = |case: &str| {
            let point = study.points().iter().find(|point| point.label() == case).expect("a case");
            let scenario = study.scenario(point).expect("it was checked");
            let outcome =
                simulate(&scenario, 1, Recording::default()).unwrap_or_else(|error| panic!("{error}"));
            assert!(outcome.problems.is_empty(), "{:?}", outcome.problems);
            ["ours", "theirs"].map(|name| {
                let flow = outcome.flows.iter().find(|flow| flow.name.starts_with(name)).expect("a flow");
                flow.delivered as f64
            })
        };
        let ([ours, theirs], [direct, _]) = (delivered("auto"), delivered("direct"));
        let owed = direct.min((ours + theirs) / 2.0);
        assert!(ours > 0.95 * owed, "{ours} of {owed} bytes beside {stranger}, {direct} directly");
    }
}

/// A path that becomes longer is another path, as a satellite's each fifteen seconds, unless somebody else is in its queue.
#[test]
fn a_path_that_becomes_longer_is_held_still() {
    let seen = |gateway: &str| {
        let text = format!(
            "duration = \"75 s\"\nwarm_up = \"5 s\"\n[hosts.server]\nscheme = \"cubic\"\n[hosts.laptop]\nscheme = \"cubic\"\n\
             [gateways.gateway]\naccess = \"laptop\"\n{gateway}\n\
             [[links]]\nbetween = [\"laptop\", \"gateway\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"100 us\" }}\n\
             [[links]]\nbetween = [\"gateway\", \"server\"]\nlink = {{ preset = \"starlink\" }}\n\
             [[flows]]\nname = \"download\"\nfrom = \"server\"\nto = \"laptop\"\nopened_by = \"laptop\"\nunlimited = \"75 s\"\n\
             [measure]\nmetrics = [\"queue-delay-95\", \"goodput\"]\n"
        );
        let study = Study::from_toml("test.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let scenario = study.scenario(&study.points()[0]).expect("it was checked");
        let outcomes =
            (0..3).map(|seed| simulate(&scenario, seed, Recording::default()).expect("it is sound"));
        outcomes.fold((0.0, 0.0), |(queue, goodput), outcome| {
            (
                queue + outcome.metrics[&Metric::QueueDelay95] / 3.0,
                goodput + outcome.metrics[&Metric::Goodput] / 3.0,
            )
        })
    };
    let (direct, held) = (seen("split = false"), seen(SPLIT));
    assert!(held.0 < 0.25 * direct.0, "{} of {} s", held.0, direct.0);
    assert!(held.1 > 0.93 * direct.1, "{} of {} bit/s", held.1, direct.1);
}
