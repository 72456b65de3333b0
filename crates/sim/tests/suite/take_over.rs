//! What streams notice when another process takes over from a gateway: nothing but the process is other.
use shorthaul_observe::Outcome;
use shorthaul_scenario::{Metric, Series, Study};
use shorthaul_sim::{Recording, simulate};

/// When it is taken over, in seconds.
const TAKEN_OVER: [f64; 2] = [3.0, 4.37];
/// Streams each way.
const STREAMS: usize = 2;

fn run(link: &str, gateway: &str, taken_over: &[f64], seed: u64) -> Outcome {
    let taken_over: Vec<String> = taken_over.iter().map(|at| format!("{{ at = \"{at} s\" }}")).collect();
    let mut text = format!(
        "duration = \"6 s\"\n[hosts.server]\nscheme = {{ profile = \"cubic\", pacing = false }}\n\
         [hosts.client]\nscheme = {{ profile = \"cubic\", pacing = false }}\n\
         [gateways.gateway]\naccess = \"client\"\n{gateway}\ntaken_over = [{}]\n\
         [[links]]\nbetween = [\"server\", \"gateway\"]\nlink = {link}\n\
         [[links]]\nbetween = [\"gateway\", \"client\"]\nlink = {link}\n\
         [measure]\nmetrics = [\"goodput\", \"retransmitted\", \"timeouts\"]\nseries = [\"delivered\"]\nevery = \"1 ms\"\n",
        taken_over.join(", ")
    );
    for number in 0..STREAMS {
        for (name, from, to) in [("down", "server", "client"), ("up", "client", "server")] {
            text += &format!(
                "[[flows]]\nname = \"{name}-{number}\"\nfrom = \"{from}\"\nto = \"{to}\"\nunlimited = \"6 s\"\n"
            );
        }
    }
    let study = Study::from_toml("test.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let scenario = study.scenario(&study.points()[0]).expect("it was checked");
    let outcome = simulate(&scenario, seed, Recording::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.problems.is_empty(), "{:?}\n{text}", outcome.problems);
    outcome
}

/// The longest time in seconds without a byte for the application of any stream, of the pauses that overlap the second after one of
/// `times`.
fn longest_pause(outcome: &Outcome, times: &[f64]) -> f64 {
    let mut longest = 0.0_f64;
    for series in outcome.series.iter().filter(|series| series.series == Series::Delivered) {
        let mut last: Option<(f64, f64)> = None;
        for &(at, value) in &series.points {
            match last {
                Some((since, before)) if value > before => {
                    if times.iter().any(|time| at > *time && since < time + 1.0) {
                        longest = longest.max(at - since);
                    }
                    last = Some((at, value));
                }
                None => last = Some((at, value)),
                _ => {}
            }
        }
    }
    longest
}

#[test]
fn nobody_waits_longer_than_fifty_milliseconds_where_another_process_takes_over() {
    let fast = "{ rate = \"100 Mbit/s\", delay = \"5 ms\", queue = \"500 kB\" }";
    let faster = "{ rate = \"1 Gbit/s\", delay = \"5 ms\", queue = \"2 MB\" }";
    let legs = |name: &str| {
        format!(
            "mode = \"split\"\nto_access = {{ congestion = \"{name}\" }}\nto_wan = {{ congestion = \"{name}\" }}"
        )
    };
    let auto = || "mode = \"auto\"".to_owned();
    for (link, gateway) in
        [(fast, auto()), (faster, auto()), (fast, legs("cubic")), (fast, legs("bbr")), (fast, legs("bbr3"))]
    {
        let (whole, taken) = (run(link, &gateway, &[], 1), run(link, &gateway, &TAKEN_OVER, 1));
        let [before, after] = [&whole, &taken].map(|outcome| longest_pause(outcome, &TAKEN_OVER));
        let of = |metric: Metric| (whole.metrics[&metric], taken.metrics[&metric]);
        let (goodput, timeouts) = (of(Metric::Goodput), of(Metric::Timeouts));
        let seen = format!(
            "{link}, {gateway}: {:.0} ms, and {:.0} ms where nothing was done; {goodput:?}, {timeouts:?}",
            after * 1e3,
            before * 1e3
        );
        println!("{seen} {:?}", of(Metric::Retransmitted));
        // It is looked at once a millisecond.
        assert!(after <= before.max(0.050) + 0.0015, "{seen}");
        assert!(goodput.1 > 0.95 * goodput.0, "{seen}");
        assert!(timeouts.1 <= timeouts.0, "{seen}");
    }
}
