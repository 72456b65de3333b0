//! The body of the fuzz target `split_flow`, without the fuzzer: what it found worth keeping, and
//! as many random inputs as fit into a test run.
use crate::split_flow;
use shorthaul_testkit::each_seed;
use shorthaul_types::Seed;
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
