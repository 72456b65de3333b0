//! Arbitrary datagrams into discovery: who asks and who answers.
#![no_main]

#[path = "../bodies/discovery.rs"]
mod discovery;

libfuzzer_sys::fuzz_target!(|input: &[u8]| discovery::run(input));
