//! What a gateway that is late costs.
use shorthaul_observe::Outcome;
use shorthaul_scenario::{Metric, Study};
use shorthaul_sim::{Recording, simulate};

/// Half-way on a path of 32 Mbit/s and 128 ms that loses 0.1 %.
const HALFWAY: &str = "{ rate = \"32 Mbit/s\", delay = \"32 ms\", loss = \"0.05 %\", queue = \"512 kB\" }";
/// Half-way on a path of 100 Mbit/s and 40 ms.
const FAST: &str = "{ rate = \"100 Mbit/s\", delay = \"10 ms\", queue = \"500 kB\" }";

/// Twenty seconds of a download through a gateway that is `late`, when it has started.
fn download(link: &str, scheme: &str, to_access: &str, late: &str) -> Outcome {
    run("25 s", "5 s", 1, link, scheme, &format!("{to_access}\n{late}"))
}

fn run(duration: &str, warm_up: &str, seed: u64, link: &str, scheme: &str, gateway: &str) -> Outcome {
    let text = format!(
        "duration = \"{duration}\"\nwarm_up = \"{warm_up}\"\n[hosts.server]\nscheme = {scheme}\n[hosts.client]\nscheme = \"cubic\"\n\
         [gateways.gateway]\naccess = \"client\"\n{gateway}\n\
         [[links]]\nbetween = [\"server\", \"gateway\"]\nlink = {link}\n\
         [[links]]\nbetween = [\"gateway\", \"client\"]\nlink = {link}\n\
         [[flows]]\nfrom = \"server\"\nto = \"client\"\nunlimited = \"{duration}\"\n\
         [measure]\nmetrics = [\"goodput\", \"retransmitted\", \"timeouts\"]\n"
    );
    let study = Study::from_toml("test.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let scenario = study.scenario(&study.points()[0]).expect("it was checked");
    let outcome = simulate(&scenario, seed, Recording::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.problems.is_empty(), "{:?}\n{text}", outcome.problems);
    outcome
}

fn metric(outcome: &Outcome, metric: Metric) -> f64 {
    outcome.metrics[&metric]
}

#[test]
fn a_gateway_that_is_late_passes_what_one_in_time_does() {
    let reno = "{ profile = \"sack-reno\", pacing = false }";
    let cubic = "{ profile = \"cubic\", pacing = false }";
    for (link, scheme, to_access, late) in [
        (HALFWAY, reno, "to_access = { congestion = \"reno\" }", "10 ms every 100 ms"),
        (HALFWAY, cubic, "to_access = { congestion = \"cubic\" }", "10 ms every 100 ms"),
        (HALFWAY, "\"bbr\"", "to_access = { congestion = \"bbr\" }", "20 ms every 100 ms"),
        (HALFWAY, "\"bbr\"", "to_access = { congestion = \"bbr\" }", "exponential 2 ms"),
        (HALFWAY, "\"bbr3\"", "to_access = { congestion = \"bbr3\" }", "5 ms every 100 ms"),
        (HALFWAY, "\"bbr\"", "aggregate = \"auto\"", "10 ms every 100 ms"),
        (FAST, "\"bbr3\"", "to_access = { congestion = \"bbr3\" }", "20 ms every 100 ms"),
        (FAST, cubic, "to_access = { congestion = \"cubic\" }", "exponential 2 ms"),
        (FAST, cubic, "aggregate = \"auto\"", "10 ms every 100 ms"),
    ] {
        // Without losses one second is as another.
        let duration = if link == FAST { "15 s" } else { "25 s" };
        let goodput = |late: &str| {
            let gateway = format!("{to_access}\n{late}");
            metric(&run(duration, "5 s", 1, link, scheme, &gateway), Metric::Goodput)
        };
        let (in_time, late_one) = (goodput(""), goodput(&format!("lateness = \"{late}\"")));
        let share = late_one / in_time;
        assert!(share >= 0.95, "{scheme}, {to_access}, {link}, {late}: {share:.3} of {in_time} bit/s");
    }
}

/// While the server repairs what its slow start has lost, the gateway has little to send, and a loss then must not be taken for
/// a path that carries as little: a window of 650 segments fell to 89 where the path holds 170.
#[test]
fn a_leg_that_starves_for_a_moment_and_loses_something_keeps_its_path() {
    let reno = "{ profile = \"sack-reno\", pacing = false }";
    let goodput = |late: &str| {
        let gateway = format!("to_access = {{ congestion = \"reno\" }}\nlateness = \"{late}\"");
        let runs =
            (1..=7).map(|seed| metric(&run("8 s", "0 s", seed, FAST, reno, &gateway), Metric::Goodput));
        runs.sum::<f64>()
    };
    let share = goodput("10 ms every 100 ms") / goodput("0 s");
    assert!(share > 0.985, "{share}");
}

/// Reno's window grows with what it has acknowledged while the window is what holds it back. A pacer that loses what is left
/// over of a segment at each of few wake-ups holds it back instead, and the window stays small for ever.
#[test]
fn a_window_grows_though_the_sender_is_woken_seldom() {
    let goodput = |late: &str| {
        let reno = "{ profile = \"sack-reno\", pacing = false }";
        metric(&download(HALFWAY, reno, "to_access = { congestion = \"reno\" }", late), Metric::Goodput)
    };
    // Each round trip of 64 ms takes 10 ms longer: 0.86 of the rate.
    let share = goodput("lateness = \"10 ms\"") / goodput("");
    assert!(share > 0.75, "{share}");
}

/// What waits in the devices while the gateway is stopped is not taken for lost: no timer is believed before it was looked at.
#[test]
fn nothing_is_retransmitted_for_want_of_acknowledgments_that_have_come() {
    let link = "{ rate = \"32 Mbit/s\", delay = \"32 ms\", queue = \"4 MB\" }";
    for to_access in ["aggregate = \"auto\"", "to_access = { congestion = \"bbr\" }"] {
        for late in ["20 ms every 100 ms", "240 ms every 2 s"] {
            let late = format!("lateness = \"{late}\"");
            let outcome = download(link, "\"bbr\"", to_access, &late);
            let [again, timeouts] =
                [Metric::Retransmitted, Metric::Timeouts].map(|what| metric(&outcome, what));
            assert_eq!((again, timeouts), (0.0, 0.0), "{to_access}, {late}");
        }
    }
}

#[test]
fn a_gateway_that_is_never_late_is_one_of_which_nothing_is_said() {
    let to_access = "to_access = { congestion = \"bbr\" }";
    let hash = |late: &str| download(HALFWAY, "\"cubic\"", to_access, late).trace_hash;
    assert_eq!(hash(""), hash("lateness = \"0 s\""));
    assert_ne!(hash(""), hash("lateness = \"1 ms every 10 s\""));
    assert_eq!(
        hash("lateness = \"exponential 1 ms\""),
        hash("lateness = \"exponential 1 ms\""),
        "by the seed"
    );
}
