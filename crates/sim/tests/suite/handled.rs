//! What gateways were given in a run, and others are given again.
use shorthaul_scenario::{Scenario, Study};
use shorthaul_sim::{Recording, simulate, simulate_noting};

const SEED: u64 = 3;

/// A download over a link that loses, through a gateway that splits.
fn scenario(gateway: &str) -> Scenario {
    let text = format!(
        "duration = \"60 s\"\n[hosts.server]\nscheme = \"sack-reno\"\n[hosts.phone]\nscheme = \"sack-reno\"\n\
         [gateways.station]\naccess = \"phone\"\nsplit = true\n{gateway}\n\
         [[links]]\nbetween = [\"phone\", \"station\"]\nlink = {{ rate = \"2 Mbit/s\", delay = \"20 ms\", loss = \"1 %\" }}\n\
         [[links]]\nbetween = [\"station\", \"server\"]\nlink = {{ rate = \"50 Mbit/s\", delay = \"10 ms\" }}\n\
         [[flows]]\nname = \"file\"\nfrom = \"server\"\nto = \"phone\"\nbulk = \"500 kB\"\n"
    );
    let study = Study::from_toml("handled.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    study.scenario(&study.points()[0]).expect("it was checked")
}

#[test]
fn a_gateway_that_is_given_the_same_again_does_the_same() {
    for gateway in ["mode = \"auto\"", "mode = \"split\"", "policy = [{ mode = \"pass\" }]"] {
        let scenario = scenario(gateway);
        let (outcome, handled) = simulate_noting(&scenario, SEED).expect("it runs");
        let [station] = handled.as_slice() else { panic!("{gateway}: one gateway, seed {SEED}") };
        let (packets, bytes) = station.packets();
        // 500 kB in segments of 1448 bytes, and an acknowledgment for two of them at most.
        assert!(
            packets > 346 + 170 && bytes > 500_000,
            "{gateway}: {packets} packets, {bytes} bytes, seed {SEED}"
        );
        assert!(station.left() > 170, "{gateway}, seed {SEED}");
        assert_eq!(station.again().run(), station.left(), "{gateway}, seed {SEED}");
        assert_eq!(station.again().run(), station.left(), "{gateway}, again, seed {SEED}");
        let unnoted = simulate(&scenario, SEED, Recording::default()).expect("it runs");
        assert_eq!(unnoted.trace_hash, outcome.trace_hash, "{gateway}: noting changes nothing, seed {SEED}");
    }
}

#[test]
fn of_a_gateway_that_is_taken_over_nothing_is_noted() {
    let (_, handled) = simulate_noting(&scenario("taken_over = [{ at = \"1 s\" }]"), SEED).expect("it runs");
    assert!(handled.is_empty(), "it was more than one, seed {SEED}");
}
