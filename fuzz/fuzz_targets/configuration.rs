//! Arbitrary text as a configuration of a gateway, and as a report of bandwidth.
#![no_main]

#[path = "../bodies/configuration.rs"]
mod configuration;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    configuration::run(input);
});
