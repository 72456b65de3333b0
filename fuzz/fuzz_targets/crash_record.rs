//! Arbitrary bytes as what a gateway that crashed has left.
#![no_main]

#[path = "../bodies/crash_record.rs"]
mod crash_record;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    crash_record::run(input);
});
