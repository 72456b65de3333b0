//! What interceptors give on links that lose.
use shorthaul_observe::Outcome;
use shorthaul_scenario::{Metric, Study};
use shorthaul_sim::{Recording, simulate};

/// A minute of a download over 100 ms and 2 Mbit/s, of which the last hop is a radio that loses 1 % in 2 ms.
fn download(seed: u64, profile: &str, policy: &str) -> Outcome {
    let text = format!(
        "duration = \"60 s\"\n[hosts.server]\nscheme = \"{profile}\"\n[hosts.phone]\nscheme = \"{profile}\"\n\
         [gateways.station]\naccess = \"phone\"\npolicy = [{policy}]\n\
         [[links]]\nbetween = [\"server\", \"station\"]\nlink = {{ rate = \"10 Mbit/s\", delay = \"48 ms\", queue = \"100 packets\" }}\n\
         [[links]]\nbetween = [\"station\", \"phone\"]\n\
         link = {{ rate = \"2 Mbit/s\", delay = \"2 ms\", loss = \"1 %\", queue = \"100 packets\" }}\n\
         [[flows]]\nfrom = \"server\"\nto = \"phone\"\nunlimited = \"60 s\"\n\
         [measure]\nmetrics = [\"goodput\", \"retransmitted\", \"timeouts\", \"held-most\"]\n"
    );
    let study = Study::from_toml("test.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let scenario = study.scenario(&study.points()[0]).expect("it was checked");
    let outcome = simulate(&scenario, seed, Recording::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.problems.is_empty(), "{:?}\n{text}", outcome.problems);
    outcome
}

fn metrics(policy: &str, profile: &str, seed: u64) -> [f64; 3] {
    let outcome = download(seed, profile, policy);
    [Metric::Goodput, Metric::Retransmitted, Metric::Timeouts].map(|metric| outcome.metrics[&metric])
}

/// The ends of Snoop's time, with windows of 64 KiB: its authors report that the sender hardly retransmits any more.
#[test]
fn snoop_hides_a_radio_that_loses() {
    for profile in ["reno", "newreno"] {
        for seed in 1..=5 {
            let [plain, again, _] = metrics("{ mode = \"observe\" }", profile, seed);
            let [snoop, still, timeouts] =
                metrics("{ mode = \"pass\", intercept = [\"snoop\"] }", profile, seed);
            let what =
                format!("{profile}, seed {seed}: {plain} and {snoop} bit/s, {again} and {still} bytes again");
            assert!(snoop > 1.75e6 && snoop > 1.4 * plain, "{what}");
            assert!(still < again / 10.0 && timeouts == 0.0, "{what}, {timeouts} timeouts");
        }
    }
}

/// Copies that wait to be sent again are memory of the gateway, and so are acknowledgments that are kept back.
#[test]
fn what_interceptors_keep_is_held() {
    let most = |policy| download(1, "reno", policy).metrics[&Metric::HeldMost];
    let nothing = most("{ mode = \"observe\" }");
    let window =
        most("{ mode = \"pass\", intercept = [{ kind = \"explicit-window\", window = \"20 kB\" }] }");
    let snoop = most("{ mode = \"pass\", intercept = [\"snoop\"] }");
    assert_eq!((nothing, window), (0.0, 0.0));
    // About what a server of then has under way.
    assert!((20e3..120e3).contains(&snoop), "{snoop} B");
}
