//! The corpus of the fuzz target `session_request`, and random changes of it, without a fuzzer.
use crate::session_request;
use proptest::prelude::*;
use std::path::Path;

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/session_request");
    let files = std::fs::read_dir(folder).expect("the corpus").map(|file| file.unwrap().path());
    let mut files: Vec<_> = files.collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

#[test]
fn the_corpus_holds() {
    let inputs = corpus();
    assert!(inputs.len() >= 18, "the corpus is not all there");
    inputs.iter().for_each(|input| session_request::run(input));
}

proptest! {
    #[test]
    fn so_do_changes_of_it(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        end in any::<prop::sample::Index>(),
    ) {
        let inputs = corpus();
        let mut input = which.get(&inputs).clone();
        for (at, byte) in &changes {
            let at = at.index(input.len());
            input[at] = *byte;
        }
        session_request::run(&input);
        session_request::run(&input[..end.index(input.len())]);
    }
}
