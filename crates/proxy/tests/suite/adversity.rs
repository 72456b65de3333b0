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

/// A gateway that had gone on with what a crashed one left believed one forged segment: a SYN, and it forgot the flow with what it
/// held; an acknowledgment, and it forgot what lay before.
#[test]
fn one_forged_segment_ends_no_inherited_flow() {
    [1_572, 6_439, 6_782, 9_244].into_iter().for_each(adversity::run);
}

/// A window that was closed because a receiver was silent stayed closed: all that the receiver was heard of was what had gone past the
/// gateway while it was down.
#[test]
fn what_went_past_a_crashed_gateway_opens_the_window() {
    adversity::run(13_413);
}

/// What comes in fragments waits for the rest within the memory, whatever flows hold of it.
#[test]
fn fragments_take_no_memory_that_is_in_use() {
    adversity::run(46_213);
}
