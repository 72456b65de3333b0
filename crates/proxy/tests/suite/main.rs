//! The gateway seen from outside.

mod admission;
mod adversity;
mod aggregate;
mod crash;
mod fuzz_corpus;
mod hostile;
mod interceptors;
mod opaque;
mod pair;
#[path = "../../../../fuzz/bodies/split_flow/mod.rs"]
mod split_flow;
mod stream;
mod uplink;
mod whole;
