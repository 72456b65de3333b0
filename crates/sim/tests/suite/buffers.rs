//! How long buffers between legs are empty and full, which leg binds, and what a larger buffer wins.
use shorthaul_observe::{BufferOutcome, Outcome};
use shorthaul_scenario::Study;
use shorthaul_sim::{Recording, simulate};
use shorthaul_types::{BufferTimes, Bytes, binding_leg};

const SCHEME: &str = "{ profile = \"sack-reno\", send_buffer = \"16 MB\", receive_buffer = \"16 MB\" }";

fn run(text: &str, seed: u64) -> Outcome {
    let study = Study::from_toml("buffers.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let scenario = study.scenario(&study.points()[0]).expect("it was checked");
    let outcome = simulate(&scenario, seed, Recording::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.problems.is_empty(), "seed {seed}: {:?}\n{text}", outcome.problems);
    outcome
}

/// Two relays, three equal legs but for what `rest` says, 20 MB.
fn chain(link: &str, buffer: Bytes, rest: &str) -> String {
    format!(
        "duration = \"600 s\"\n[hosts.a]\nscheme = {SCHEME}\n[hosts.b]\nscheme = {SCHEME}\n\
         [[chains]]\nbetween = [\"a\", \"b\"]\nhops = 3\nrelays = [1, 2]\nlink = {link}\n\
         relay = {{ scheme = {SCHEME}, buffer = \"{} B\" }}\n{rest}\n\
         [[flows]]\nname = \"data\"\nfrom = \"a\"\nto = \"b\"\nbulk = \"20 MB\"\n\
         [measure]\nmetrics = [\"goodput\", \"drought\", \"overflow\"]\n",
        buffer.0
    )
}

fn times(outcome: &Outcome) -> Vec<BufferTimes> {
    outcome.buffers.iter().map(|BufferOutcome { times, .. }| *times).collect()
}

#[test]
fn the_slow_leg_of_three_binds_and_no_buffer_mends_that() {
    const LINK: &str = "{ rate = \"20 Mbit/s\", delay = \"10 ms\", queue = \"100 packets\" }";
    for (slow, expected) in [(1, 0), (2, 1), (3, 2)] {
        let rest =
            format!("hop.{slow} = {{ rate = \"4 Mbit/s\", delay = \"10 ms\", queue = \"100 packets\" }}");
        let outcome = run(&chain(LINK, Bytes(300_000), &rest), 1);
        let buffers = times(&outcome);
        let names: Vec<&str> = outcome.buffers.iter().map(|buffer| buffer.node.as_str()).collect();
        println!("hop {slow}: {names:?} {buffers:?}");
        assert_eq!(buffers.len(), 2, "{names:?}");
        assert_eq!(binding_leg(&buffers), expected);
        // A fifth of what the others carry: they lose about four fifths of their time.
        for (at, buffer) in buffers.iter().enumerate() {
            let [lost, other] = match at + 1 < slow {
                true => [buffer.overflow_share(), buffer.drought_share()],
                false => [buffer.drought_share(), buffer.overflow_share()],
            };
            assert!(lost > 0.5 && other < 0.05, "buffer {at}: {lost} {other}");
            assert_eq!(buffer.more_room(500_000.0, Some(Bytes(300_000))), Bytes(0));
            // About from the beginning to the end of 20 MB at 4 Mbit/s.
            assert!((35.0..60.0).contains(&buffer.watched.as_secs_f64()), "{buffer:?}");
        }
    }
}

#[test]
fn what_both_legs_lose_the_advised_room_wins_back() {
    const LINK: &str =
        "{ rate = \"20 Mbit/s\", delay = \"15 ms\", queue = \"50 packets\", up = { loss = \"0.1 %\" } }";
    const SEEDS: std::ops::RangeInclusive<u64> = 1..=6;
    let goodput = |outcome: &Outcome| outcome.flows[0].goodput;
    let (mut before, mut after, mut ample, mut mendable) = (0.0, 0.0, 0.0, 0.0);
    for seed in SEEDS {
        let (small, large) = (Bytes(150_000), Bytes(16_000_000));
        let first = run(&chain(LINK, small, ""), seed);
        let rate = goodput(&first) / 8.0;
        let more = times(&first).iter().map(|times| times.more_room(rate, Some(small))).max().unwrap();
        mendable += times(&first).iter().map(BufferTimes::mendable_share).fold(0.0, f64::max);
        before += goodput(&first);
        after += goodput(&run(&chain(LINK, Bytes(small.0 + more.0), ""), seed));
        ample += goodput(&run(&chain(LINK, large, ""), seed));
        println!("seed {seed}: {more} more beside {small}");
    }
    println!("{before:.3e} then {after:.3e}, {ample:.3e} with ample room; {mendable} mendable");
    assert!(before < 0.93 * ample, "the small buffer binds");
    assert!(after - before > 0.6 * (ample - before), "{before} {after} {ample}");
}

#[test]
fn a_gateway_tells_of_its_split_flows_what_a_relay_does() {
    let text = |[wan, access]: [&str; 2]| {
        format!(
            "duration = \"120 s\"\n[hosts.server]\nscheme = {SCHEME}\n[hosts.phone]\nscheme = {SCHEME}\n\
             [gateways.gateway]\naccess = \"phone\"\nsplit = true\nflow_buffer = \"300 kB\"\n\
             [[links]]\nbetween = [\"server\", \"gateway\"]\nlink = {{ rate = \"{wan}\", delay = \"10 ms\", queue = \"100 packets\" }}\n\
             [[links]]\nbetween = [\"gateway\", \"phone\"]\nlink = {{ rate = \"{access}\", delay = \"20 ms\", queue = \"100 packets\" }}\n\
             [[flows]]\nname = \"data\"\nfrom = \"server\"\nto = \"phone\"\nbulk = \"5 MB\"\n\
             [measure]\nmetrics = [\"goodput\", \"drought\", \"overflow\"]\nevery = \"100 ms\"\n"
        )
    };
    for (rates, is_full) in [(["20 Mbit/s", "2 Mbit/s"], true), (["2 Mbit/s", "20 Mbit/s"], false)] {
        let outcome = run(&text(rates), 1);
        let [buffer] = &outcome.buffers[..] else { panic!("{:?}", outcome.buffers) };
        println!("{rates:?}: {buffer:?}");
        assert_eq!((buffer.flow.as_str(), buffer.node.as_str()), ("data", "gateway"));
        let [drought, overflow] = [buffer.times.drought_share(), buffer.times.overflow_share()];
        if is_full {
            assert!(overflow > 0.4 && drought < 0.05, "{drought} {overflow}");
        } else {
            assert!(drought > 0.6 && overflow < 0.05, "{drought} {overflow}");
        }
    }
}

/// A byte has its room for a round trip of both legs: here twice as many as a flow may hold at first.
#[test]
fn a_gateway_holds_what_a_fast_and_long_path_has_under_way() {
    const CUBIC: &str = "{ profile = \"cubic\", send_buffer = \"16 MiB\", receive_buffer = \"16 MiB\" }";
    let goodput = |does: &str| {
        let text = format!(
            "duration = \"30 s\"\n[hosts.server]\nscheme = {CUBIC}\n[hosts.phone]\nscheme = {CUBIC}\n\
             [gateways.gateway]\naccess = \"phone\"\n{does}\n\
             [[links]]\nbetween = [\"server\", \"gateway\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"175 ms\" }}\n\
             [[links]]\nbetween = [\"gateway\", \"phone\"]\nlink = {{ rate = \"100 Mbit/s\", delay = \"175 ms\", queue = \"4 MB\" }}\n\
             [[flows]]\nname = \"data\"\nfrom = \"server\"\nto = \"phone\"\nunlimited = \"30 s\"\n\
             [measure]\nmetrics = [\"goodput\"]\n"
        );
        run(&text, 1).flows[0].goodput
    };
    let direct = goodput("split = false");
    for mode in ["split", "auto"] {
        let through = goodput(&format!("mode = \"{mode}\""));
        println!("{mode}: {through:.3e} of {direct:.3e}");
        assert!(through > 0.9 * direct, "{mode}: {through:.3e} of {direct:.3e}");
    }
}
