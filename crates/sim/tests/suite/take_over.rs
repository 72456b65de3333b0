//! What streams notice when another process takes over from a gateway: nothing but the process is other.
use shorthaul_observe::Outcome;
use shorthaul_scenario::{Metric, Series, Study};
use shorthaul_sim::{Recording, simulate};

/// When it is taken over, in seconds.
const TAKEN_OVER: [f64; 2] = [3.0, 4.37];
/// How long streams last that are taken over.
const SECONDS: f64 = 6.0;
/// And those whose gateway is killed: after half a second more than one they have what the path gives them.
const KILLED_SECONDS: f64 = 4.5;
/// Streams each way.
const STREAMS: usize = 2;

fn run(link: &str, gateway: &str, taken_over: &[f64], seed: u64) -> Outcome {
    let taken_over: Vec<String> = taken_over.iter().map(|at| format!("{{ at = \"{at} s\" }}")).collect();
    let gateway = format!("{gateway}\ntaken_over = [{}]", taken_over.join(", "));
    play(link, &gateway, (&["down", "up"], STREAMS), SECONDS, seed)
}

/// So many streams in each of these directions through a gateway.
fn play(link: &str, gateway: &str, (ways, streams): (&[&str], usize), seconds: f64, seed: u64) -> Outcome {
    let mut text = format!(
        "duration = \"{seconds} s\"\n[hosts.server]\nscheme = {{ profile = \"cubic\", pacing = false }}\n\
         [hosts.client]\nscheme = {{ profile = \"cubic\", pacing = false }}\n\
         [gateways.gateway]\naccess = \"client\"\n{gateway}\n\
         [[links]]\nbetween = [\"server\", \"gateway\"]\nlink = {link}\n\
         [[links]]\nbetween = [\"gateway\", \"client\"]\nlink = {link}\n\
         [measure]\nmetrics = [\"goodput\", \"retransmitted\", \"timeouts\"]\nseries = [\"delivered\"]\nevery = \"1 ms\"\n"
    );
    for number in 0..streams {
        for name in ways {
            let (from, to) = if *name == "down" { ("server", "client") } else { ("client", "server") };
            text += &format!(
                "[[flows]]\nname = \"{name}-{number}\"\nfrom = \"{from}\"\nto = \"{to}\"\nunlimited = \"{seconds} s\"\n"
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
    let legs = |name: &str| {
        format!(
            "mode = \"split\"\nto_access = {{ congestion = \"{name}\" }}\nto_wan = {{ congestion = \"{name}\" }}"
        )
    };
    let auto = || "mode = \"auto\"".to_owned();
    for (link, gateway) in
        [(FAST, auto()), (FASTER, auto()), (FAST, legs("cubic")), (FAST, legs("bbr")), (FAST, legs("bbr3"))]
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

/// Who is in the midst of a response has no claim to be served before all others: with that of a new one for each, the last of
/// forty would wait until 39 had had 64 kB.
#[test]
fn nobody_has_to_wait_for_all_others_where_forty_streams_are_taken_over() {
    for way in ["down", "up"] {
        let [whole, taken] = [&[][..], &TAKEN_OVER].map(|times: &[f64]| {
            let times: Vec<String> = times.iter().map(|at| format!("{{ at = \"{at} s\" }}")).collect();
            play(FAST, &format!("taken_over = [{}]", times.join(", ")), (&[way], 40), SECONDS, 1)
        });
        let [before, after] = [&whole, &taken].map(|outcome| longest_pause(outcome, &TAKEN_OVER));
        println!("{way}: {after:.3} s, and {before:.3} s where nothing was done");
        assert!(after <= before + 0.025, "{way}: {after:.3} s, and {before:.3} s where nothing was done");
    }
}

/// What all streams delivered together between two times in seconds, in Mbit/s.
fn rate(outcome: &Outcome, from: f64, to: f64) -> f64 {
    let at = |points: &[(f64, f64)], time: f64| {
        points.iter().take_while(|(at, _)| *at <= time).last().map_or(0.0, |(_, value)| *value)
    };
    let delivered = outcome.series.iter().filter(|series| series.series == Series::Delivered);
    let bytes: f64 = delivered.map(|series| at(&series.points, to) - at(&series.points, from)).sum();
    bytes * 8.0 / (to - from) / 1e6
}

/// A successor takes what answers its predecessor's flights for answers to its own: round trips of microseconds, and a window that follows
/// them creeps for as long as the streams last. And where the gateway was gone for a tenth of a second, the far end has four of five
/// segments past it, of which the gateway is sent the fifth alone: each waits for the other, gap by gap.
fn streams_are_soon_as_fast_as_before(link: &str, ways: &[&str], crashes: &[&[(f64, f64)]]) {
    let whole = play(link, "mode = \"auto\"", (ways, STREAMS), KILLED_SECONDS, 1);
    for crashes in crashes {
        let [mut first, mut then, mut before] = [0.0; 3];
        for &(killed, gone) in *crashes {
            let gateway =
                format!("mode = \"auto\"\nkilled = [{{ at = \"{killed} s\", gone = \"{gone} s\" }}]");
            let outcome = play(link, &gateway, (ways, STREAMS), KILLED_SECONDS, 1);
            let (back, times) = (killed + gone, crashes.len() as f64);
            first += rate(&outcome, back, back + 1.0) / times;
            then += rate(&outcome, back + 1.0, KILLED_SECONDS) / times;
            before += rate(&whole, killed, KILLED_SECONDS) / times;
        }
        let seen = format!(
            "{link} {ways:?}, killed at and gone for {crashes:?} s: {first:.0} Mbit/s in the first second, then {then:.0}; {before:.0} where nothing was done"
        );
        println!("{seen}");
        assert!(then > 0.75 * before, "{seen}");
    }
}

const FAST: &str = "{ rate = \"100 Mbit/s\", delay = \"5 ms\", queue = \"500 kB\" }";
const FASTER: &str = "{ rate = \"1 Gbit/s\", delay = \"5 ms\", queue = \"2 MB\" }";

#[test]
fn downloads_are_soon_as_fast_as_before_where_a_gateway_was_killed() {
    for link in [FAST, FASTER] {
        streams_are_soon_as_fast_as_before(link, &["down"], &[&[(1.5, 0.0)], &[(1.5, 0.3)]]);
    }
}

#[test]
fn uploads_are_soon_as_fast_as_before_where_a_gateway_was_killed() {
    let crashes: &[&[_]] = &[&[(1.5, 0.0)], &[(1.5, 0.1)], &[(1.7, 0.1)], &[(1.5, 0.3)]];
    for link in [FAST, FASTER] {
        streams_are_soon_as_fast_as_before(link, &["up"], crashes);
    }
}

/// Whether a sender comes to a time-out, after which it takes seconds, is chance where both ways are full: the mean of three.
#[test]
fn both_ways_are_soon_as_fast_as_before_where_a_gateway_was_killed() {
    let crashes: &[&[_]] = &[&[(1.5, 0.0), (1.6, 0.0), (1.7, 0.0)], &[(1.5, 0.3)]];
    for link in [FAST, FASTER] {
        streams_are_soon_as_fast_as_before(link, &["down", "up"], crashes);
    }
}
