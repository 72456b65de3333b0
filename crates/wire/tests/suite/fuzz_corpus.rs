//! What the fuzzer found worth keeping, without the fuzzer.
use crate::wire_parse;
use std::fs;
use std::path::Path;

#[test]
fn the_corpus_does_no_harm() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/wire_parse");
    let mut inputs = 0;
    for entry in fs::read_dir(&corpus).expect("the corpus is part of the repository") {
        let path = entry.expect("its entries can be listed").path();
        // The name is seen only if what follows panics.
        println!("{}", path.display());
        wire_parse::run(&fs::read(&path).expect("its files can be read"));
        inputs += 1;
    }
    assert!(inputs > 0, "{} is empty", corpus.display());
}
