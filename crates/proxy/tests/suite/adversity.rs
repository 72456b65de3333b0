//! Random scenarios in which everything goes wrong for a while. `make adversity SEEDS=0..1000` looks at more of them.
use shorthaul_testkit::{adversity, each_seed};

#[test]
fn whatever_goes_wrong_nothing_is_lost_in_silence_and_everybody_gets_an_answer() {
    each_seed(0..300, adversity::run);
}

/// An end left without an answer: it undid a response while it asked about another loss, and had no timer any more.
#[test]
fn an_undone_response_leaves_a_timer() {
    adversity::run(9_321);
}

/// What comes in fragments waits for the rest within the memory, whatever flows hold of it.
#[test]
fn fragments_take_no_memory_that_is_in_use() {
    adversity::run(8_445);
}
