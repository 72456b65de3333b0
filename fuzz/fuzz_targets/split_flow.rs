//! Arbitrary segments in arbitrary order, from both ends, into the splitting gateway.
#![no_main]

#[path = "../bodies/split_flow/mod.rs"]
mod split_flow;

libfuzzer_sys::fuzz_target!(|input: &[u8]| split_flow::run(input));
