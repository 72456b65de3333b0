//! The bodies of the fuzz targets `split_flow` and `opaque`, without the fuzzer: what they found worth keeping, and
//! as many random inputs as fit into a test run.
use crate::{opaque_packets, split_flow};
use shorthaul_testkit::each_seed;
use shorthaul_types::Seed;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const RANDOM_INPUTS: u64 = 2_000;
const LONGEST_INPUT: usize = 1_000;

#[test]
fn the_corpus_breaks_no_promise() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/split_flow");
    let mut inputs = 0;
    for entry in fs::read_dir(&corpus).expect("the corpus is part of the repository") {
        let path = entry.expect("its entries can be listed").path();
        // The name is seen only if what follows panics.
        println!("{}", path.display());
        split_flow::run(&fs::read(&path).expect("its files can be read"));
        inputs += 1;
    }
    assert!(inputs > 0, "{} is empty", corpus.display());
}

#[test]
fn random_inputs_break_no_promise() {
    each_seed(0..RANDOM_INPUTS, |index| {
        let seed = Seed(0x5e1f).nth(index);
        let len = seed.derive("length").0 as usize % LONGEST_INPUT;
        let words = (0..).flat_map(|word| seed.nth(word).0.to_be_bytes());
        split_flow::run(&words.take(len).collect::<Vec<u8>>());
    });
}

#[test]
fn packets_in_unusual_clothes_do_no_harm() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/opaque");
    let mut nothing_arrived = BTreeSet::new();
    for entry in fs::read_dir(&corpus).expect("the corpus is part of the repository") {
        let entry = entry.expect("its entries can be listed");
        println!("{}", entry.path().display());
        if opaque_packets::run(&fs::read(entry.path()).expect("its files can be read")) == 0 {
            nothing_arrived.insert(entry.file_name().into_string().expect("names are text"));
        }
    }
    // The first bytes never come whole (RFC 5722 drops what overlaps), and what follows waits for them. The chain has a routing header that
    // names another destination: that passes unread.
    let held = ["v4-overlap", "v4-rest-never-comes", "v6-chain", "v6-overlap", "v6-rest-never-comes"];
    assert_eq!(nothing_arrived, held.map(String::from).into());
    let mut arrived = 0;
    each_seed(0..RANDOM_INPUTS, |index| {
        let seed = Seed(0x09a9).nth(index);
        let len = seed.derive("length").0 as usize % LONGEST_INPUT;
        let words = (0..).flat_map(|word| seed.nth(word).0.to_be_bytes());
        arrived += opaque_packets::run(&words.take(len).collect::<Vec<u8>>());
    });
    assert!(arrived > 0, "nothing that was sent arrived");
}
