//! Arbitrary bytes into the packet parser and what stands behind it.
#![no_main]

#[path = "../bodies/wire_parse.rs"]
mod wire_parse;

libfuzzer_sys::fuzz_target!(|input: &[u8]| wire_parse::run(input));
