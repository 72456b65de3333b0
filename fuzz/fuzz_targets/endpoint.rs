//! Arbitrary segments, errors and deeds of the owner in arbitrary order, into a host with a connection.
#![no_main]

#[path = "../bodies/endpoint/mod.rs"]
mod endpoint;

libfuzzer_sys::fuzz_target!(|input: &[u8]| endpoint::run(input));
