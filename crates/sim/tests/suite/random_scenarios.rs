//! Hundreds of random scenarios: bad links, outages that end, relays, every profile and workload, and gateways with every
//! part that is registered.
//! Whatever happens on the way, everything must arrive, in order, and nothing may be left over.
use shorthaul_scenario::Study;
use shorthaul_sim::{Recording, simulate};
use shorthaul_tcp::SenderProfile;
use shorthaul_testkit::draw::{Draw, Rows};
use shorthaul_testkit::{Chance, each_seed};
use std::fmt::Write as _;

fn link(chance: &mut Chance) -> String {
    let rate = chance.pick(&["500 kbit/s", "2 Mbit/s", "10 Mbit/s", "100 Mbit/s"]);
    let delay = chance.pick(&["0 ms", "1 ms", "20 ms", "150 ms"]);
    let queue = chance.pick(&["4 packets", "20 packets", "100 packets", "unlimited", "30 kB"]);
    let mut spec = format!("rate = \"{rate}\", delay = \"{delay}\", queue = \"{queue}\"");
    let mut maybe = |chance: &mut Chance, n, text: &str| {
        if chance.once_in(n) {
            let _ = write!(spec, ", {text}");
        }
    };
    let loss = chance.pick(&[
        "0.002",
        "0.02",
        "{ model = \"gilbert-elliott\", to_bad = 0.005, to_good = 0.3, loss_bad = 0.6 }",
        "{ model = \"on-off\", on = \"200 ms\", off = \"3 s\", rate = 0.5 }",
        "{ model = \"bit-errors\", rate = 2e-6 }",
    ]);
    maybe(chance, 2, &format!("loss = {loss}"));
    maybe(chance, 5, "duplicate = 0.02");
    maybe(chance, 5, "reorder = { share = 0.02, by = \"30 ms\" }");
    maybe(chance, 6, "jitter = { delay = \"exponential 5 ms\", order = \"free\" }");
    maybe(chance, 6, "aggregation = { size = 4, wait = \"50 ms\" }");
    maybe(chance, 8, "drx = { idle = \"100 ms\", penalty = \"50 ms to 150 ms\" }");
    maybe(chance, 8, "arq = { model = \"delay\", delay = \"pareto 50 ms\", share = 0.05 }");
    maybe(chance, 8, "route_changes = { every = \"2 s\", delay = \"0 ms to 30 ms\" }");
    let (at, lasts) = (chance.below(5), 1 + chance.below(8));
    maybe(
        chance,
        3,
        &format!("outages = {{ list = [{{ at = \"{at} s\", lasts = \"{lasts} s\" }}], hold = \"2 s\" }}"),
    );
    format!("{{ {spec} }}")
}

/// A host's profile, and its other keys.
fn parts(draw: &mut Draw) -> (&'static str, String) {
    let names: Vec<&'static str> = SenderProfile::names().collect();
    let profile = *draw.chance.pick::<&'static str>(&names);
    // what an unlimited source has written when it stops must still be delivered
    let send_buffer = draw.chance.pick(&["20 kB", "100 kB"]);
    let other = draw.chance.pick(&["", ", receive_buffer = \"12 kB\"", ", mss = 536"]);
    (profile, format!("send_buffer = \"{send_buffer}\"{other}"))
}

fn scheme(draw: &mut Draw) -> String {
    let (profile, keys) = parts(draw);
    format!("{{ profile = \"{profile}\", {keys} }}")
}

/// The two hosts. What is rare is drawn apart, so that all else that a seed draws stays as it was.
fn hosts(draw: &mut Draw, rare: &mut Chance) -> String {
    let mut both = [parts(draw), parts(draw)];
    if rare.once_in(4) {
        // Some of what a row has is agreed on only where both ends are of it, such as the reports of rates.
        both[1].0 = both[0].0;
    }
    let mut text = String::new();
    for (host, (profile, keys)) in ["a", "b"].into_iter().zip(both) {
        // What no row of the registry has.
        let own = rare.pick(&[
            "",
            "",
            "",
            ", persist_on_shrink = true",
            ", undo = false",
            ", rttm = true",
            ", start = \"fast\"",
        ]);
        let _ = writeln!(text, "[hosts.{host}]\nscheme = {{ profile = \"{profile}\", {keys}{own} }}");
    }
    text
}

/// A gateway between the routers, its access side toward one end or the other.
fn gateway(draw: &mut Draw) -> String {
    let access = draw.chance.pick(&["p", "r"]);
    let (policy, is_split) = draw.written_policy();
    let mut text = format!("[gateways.q]\naccess = \"{access}\"\n");
    if is_split && !policy.contains("ack =") && !policy.contains("window =") && draw.chance.once_in(2) {
        // An aggregate finds losses by itself.
        let size = draw.chance.pick(&["auto", "auto", "10 kB", "60 kB"]);
        let _ = writeln!(text, "aggregate = \"{size}\"");
    } else {
        let _ = writeln!(text, "to_access = {{ {} }}", draw.written_patch());
        let _ = writeln!(text, "policy = [{policy}]");
    }
    let _ = writeln!(text, "to_wan = {{ {} }}", draw.written_patch());
    text
}

fn workload(chance: &mut Chance) -> &'static str {
    chance.pick::<&str>(&[
        "bulk = \"200 kB\"",
        "bulk = \"1 B\"",
        "unlimited = \"4 s\"",
        "downloads = { size = \"15 kB\", repeats = 5, pause = \"exponential 300 ms\" }",
        "requests = { request = \"2 kB\", response = \"9 kB\", count = 8, pause = \"100 ms\" }",
        "on_off = { rate = \"300 kbit/s\", on = \"exponential 500 ms\", off = \"500 ms\", lasts = \"6 s\" }",
        "persistent = { burst = \"10 kB\", idle = \"3 s\", count = 4 }",
    ])
}

fn scenario(seed: u64) -> (String, Rows) {
    let mut draw = Draw::new(seed);
    let mut text =
        "duration = \"3000 s\"\n[measure]\nmetrics = [\"goodput\", \"unfinished\"]\nevery = \"500 ms\"\n"
            .to_owned();
    text += &hosts(&mut draw, &mut Chance(!seed));
    let inner = ["p", "q", "r"];
    let middle = draw.chance.below(4);
    match middle {
        0 | 1 => text += &gateway(&mut draw),
        2 => {
            let buffer = *draw.chance.pick(&["3 packets", "30 packets", "1 MB"]);
            let service = *draw.chance.pick(&["0 s", "exponential 500 us", "2 ms"]);
            let relays = if draw.chance.once_in(2) { vec!["q"] } else { inner.to_vec() };
            let scheme = scheme(&mut draw);
            for relay in relays {
                let _ = writeln!(
                    text,
                    "[relays.{relay}]\nbuffer = \"{buffer}\"\nservice_time = \"{service}\"\nscheme = {scheme}"
                );
            }
        }
        _ => {}
    }
    let routers: Vec<&str> = inner.into_iter().filter(|name| !text.contains(&format!(".{name}]"))).collect();
    text = format!("routers = {routers:?}\n{text}");
    let chance = &mut draw.chance;
    for (from, to) in [("a", "p"), ("p", "q"), ("q", "r"), ("r", "b")] {
        let _ = writeln!(text, "[[links]]\nbetween = [\"{from}\", \"{to}\"]\nlink = {}", link(chance));
    }
    for _ in 0..=chance.below(4) {
        let (from, to) = chance.pick(&[("a", "b"), ("b", "a")]);
        let start = chance.below(6);
        let workload = workload(chance);
        let _ = writeln!(
            text,
            "[[flows]]\nname = \"f{}\"\nfrom = \"{from}\"\nto = \"{to}\"\nstart = \"{start} s\"\n{workload}",
            text.len()
        );
    }
    if chance.once_in(4) {
        let _ =
            writeln!(text, "[[cross]]\nfrom = \"p\"\nto = \"r\"\nrate = \"200 kbit/s\"\nlasts = \"20 s\"");
    }
    if text.contains("fixed:") {
        // A window that is never reduced, and a queue that never takes it: what it holds takes longer than any end waits.
        text = text.replace("4 packets", "unlimited");
    }
    (text, draw.rows)
}

/// Runs a scenario: nothing may be wrong, and every flow must end.
fn run(text: &str, seed: u64) {
    let study = Study::from_toml("random.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let scenario = study.scenario(&study.points()[0]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let outcome =
        simulate(&scenario, seed, Recording::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(outcome.problems.is_empty(), "{}\n{text}", outcome.problems.join("; "));
    if let Some(flow) = outcome.flows.iter().find(|flow| !flow.ended) {
        panic!("{} has not ended after {} bytes\n{text}", flow.name, flow.delivered);
    }
}

/// Each RTO was answered by a D-SACK, which ended the backoff; the sixteenth in a row came within seconds.
#[test]
fn an_end_is_not_given_up_while_it_answers() {
    run(include_str!("scenarios/answered-by-d-sack.toml"), 377);
}

/// Of a window that the queue never takes, nothing arrives at the first attempt: with neither SACK nor timestamps no round trip was
/// ever measured, and the RTO stayed at two minutes.
#[test]
fn what_arrives_long_after_it_was_first_sent_is_measured() {
    run(include_str!("scenarios/never-at-once.toml"), 1011);
    run(include_str!("scenarios/never-at-once-behind-a-gateway.toml"), 1313);
}

const USUAL: std::ops::Range<u64> = 0..1_000;

#[test]
fn whatever_happens_everything_arrives() {
    each_seed(USUAL, |seed| run(&scenario(seed).0, seed));
}

#[test]
fn all_that_is_registered_is_in_the_usual_scenarios() {
    let mut drawn = Rows::default();
    USUAL.for_each(|seed| drawn.extend(&scenario(seed).1));
    assert_eq!(Rows::registered().missing_in(&drawn), Vec::<&(&str, String)>::new());
}
