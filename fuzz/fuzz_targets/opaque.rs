//! Arbitrary bytes as packets in unusual clothes: options, extension headers, fragments.
#![no_main]

#[path = "../bodies/opaque.rs"]
mod opaque;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    opaque::run(input);
});
