//! What the fuzzer found worth keeping, without the fuzzer; and some thousand random changes of it.
use crate::discovery;
use shorthaul_types::Seed;
use std::fs;
use std::path::Path;

#[test]
fn the_corpus_does_no_harm() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/discovery");
    let mut inputs = 0;
    for entry in fs::read_dir(&corpus).expect("the corpus is part of the repository") {
        let path = entry.expect("its entries can be listed").path();
        // The name is seen only if what follows panics.
        println!("{}", path.display());
        let input = fs::read(&path).expect("its files can be read");
        discovery::run(&input);
        for n in 0..50 {
            let mut changed = input.clone();
            for draw in 0..3 {
                let at = Seed(n).nth(draw).0 as usize % changed.len();
                changed[at] = Seed(n).nth(draw + 10).0 as u8;
            }
            println!("change {n}: {changed:02x?}");
            discovery::run(&changed);
        }
        inputs += 1;
    }
    assert!(inputs > 0, "{} is empty", corpus.display());
}
