//! Arbitrary bytes into the parsers of a relay node.
#![no_main]

#[path = "../bodies/session_request.rs"]
mod session_request;

libfuzzer_sys::fuzz_target!(|input: &[u8]| session_request::run(input));
