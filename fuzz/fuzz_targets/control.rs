//! Arbitrary bytes as what comes on the control socket.
#![no_main]

#[path = "../bodies/control.rs"]
mod control;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    control::run(input);
});
