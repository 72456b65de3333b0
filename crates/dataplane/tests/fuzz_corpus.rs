//! The bodies of the fuzz targets `configuration`, `control` and `crash_record`, without the fuzzer: random changes of what is right.
#[path = "../../../fuzz/bodies/configuration.rs"]
mod configuration;
#[path = "../../../fuzz/bodies/control.rs"]
mod control;
#[path = "../../../fuzz/bodies/crash_record.rs"]
mod crash_record;

use shorthaul_proxy::{FlowMomentum, Gateway, GatewayConfig};
use shorthaul_tcp::ConnectionConfig;
use shorthaul_testkit::{Chance, Opening, World, each_seed};
use std::fs;
use std::path::Path;

const CONFIGURATIONS: [&str; 4] = [
    "access = [\"a\"]\nwan = [\"b\"]\n",
    "access = [\"a\"]\nwan = [\"b\"]\nidle_timeout = \"1 h\"\n[memory]\nmax_flows = 1000\ntotal = \"64 MiB\"\nper_flow = \"1 MiB\"\n",
    "access = [\"a\"]\nwan = [\"b\"]\nmode = \"split\"\n[to_access]\ncongestion = \"cubic\"\ninitial_window = 64\n",
    "access = [\"a\"]\nwan = [\"b\"]\n[[policy]]\nmode = \"observe\"\nmatch = { ports = [80] }\n[[policy]]\nmode = \"split\"\n",
];
/// What is put in at random: values that are wrong almost everywhere, and right somewhere.
const WORDS: [&str; 16] = [
    "0",
    "-1",
    "1e99",
    "nan",
    "\"\"",
    "\"0 s\"",
    "\"18446744073709551615 B\"",
    "\"auto\"",
    "[]",
    "{}",
    "\n",
    "=",
    "[[",
    "true",
    "99999999999999999999",
    "\u{1f980}",
];

/// Plays what is kept for a fuzz target.
fn replay(target: &str, run: fn(&[u8]) -> bool) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut inputs = 0;
    for entry in fs::read_dir(&corpus).expect("the corpus is part of the repository") {
        let path = entry.expect("its entries can be listed").path();
        // The name is seen only if what follows panics.
        println!("{}", path.display());
        run(&fs::read(&path).expect("its files can be read"));
        inputs += 1;
    }
    assert!(inputs > 0, "{} is empty", corpus.display());
}

/// A text or record with a few places changed.
fn changed(chance: &mut Chance, input: &[u8], words: &[&str]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..chance.below(4) {
        let at = chance.below(bytes.len() as u64 + 1) as usize;
        match chance.below(4) {
            0 if at < bytes.len() => bytes[at] ^= 1 << chance.below(8),
            1 => bytes.truncate(at),
            2 => {
                let to = (at + chance.below(12) as usize).min(bytes.len());
                bytes.drain(at..to);
            }
            _ => {
                let word = chance.pick(words).as_bytes().to_vec();
                let to = (at + chance.below(6) as usize).min(bytes.len());
                bytes.splice(at..to, word);
            }
        }
    }
    bytes
}

#[test]
fn any_text_is_a_configuration_or_an_error() {
    for text in CONFIGURATIONS {
        assert!(configuration::run(text.as_bytes()), "{text}");
    }
    replay("configuration", configuration::run);
    let mut taken = 0;
    each_seed(0..4_000, |seed| {
        let mut chance = Chance(seed);
        let text = chance.pick(&CONFIGURATIONS).as_bytes();
        taken += u32::from(configuration::run(&changed(&mut chance, text, &WORDS)));
        configuration::run(
            format!("{}: {}", chance.pick(&WORDS), chance.pick(&["1 Mbit/s", "0", "-3 kbit/s"])).as_bytes(),
        );
    });
    assert!(taken > 0 || std::env::var("SEEDS").is_ok(), "no change leaves a configuration");
}

/// What a gateway leaves that crashes in the midst of a transfer.
fn left() -> Vec<Vec<u8>> {
    let mut world = World::new(1, GatewayConfig::default());
    let access = world.add_station(Gateway::ACCESS, [10, 0, 0, 1].into());
    let wan = world.add_station(Gateway::WAN, [10, 1, 0, 1].into());
    let configs = [ConnectionConfig::default(), ConnectionConfig::default()];
    world.open(Opening { stations: [access, wan], port: 80, configs, totals: [30_000, 300_000] });
    let mut left = Vec::new();
    for _ in 0..60 {
        world.step(shorthaul_types::Time::MAX);
        left.extend(world.custody.clone().left().iter().map(shorthaul_proxy::Inherited::encode));
    }
    left
}

#[test]
fn any_bytes_are_what_was_left_or_nothing() {
    let left = left();
    assert!(!left.is_empty(), "nothing was held");
    assert!(left.iter().all(|bytes| crash_record::run(bytes)));
    replay("crash_record", crash_record::run);
    each_seed(0..2_000, |seed| {
        let mut chance = Chance(seed);
        let bytes = chance.pick(&left).clone();
        crash_record::run(&changed(&mut chance, &bytes, &WORDS));
    });
}

/// What may be asked, and what a gateway that hands over may say.
#[test]
fn any_bytes_on_the_control_socket_are_a_request_or_none() {
    let requests = [
        "flows",
        "flows-json\n",
        "counters",
        "counters-json",
        "gain",
        "gain-json",
        "snapshot",
        "find 10.0.0.1",
        "take-over",
    ];
    let told = ["bandwidth 1 Mbit/s", "bandwidth north: 300 kbit/s", "bandwidth"];
    replay("control", control::run);
    let mut said: Vec<Vec<u8>> = requests.iter().chain(&told).map(|text| text.as_bytes().to_vec()).collect();
    assert!(said[..requests.len()].iter().all(|bytes| control::run(bytes)));
    let momentum = FlowMomentum::default().encode();
    let mut last =
        [7_u64.to_be_bytes(), (16 + momentum.len() as u64).to_be_bytes(), 1_u64.to_be_bytes()].concat();
    last.extend((momentum.len() as u64).to_be_bytes());
    last.extend(&momentum);
    assert!(control::run(&last));
    said.extend([momentum, last]);
    each_seed(0..4_000, |seed| {
        let mut chance = Chance(seed);
        let bytes = chance.pick(&said).clone();
        control::run(&changed(&mut chance, &bytes, &WORDS));
    });
}
