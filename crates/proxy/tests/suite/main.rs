//! The gateway seen from outside.

mod admission;
mod adversity;
mod aggregate;
mod base_station;
mod by_hand;
mod crash;
mod fuzz_corpus;
mod hostile;
mod interceptors;
mod l4s;
mod misbehaviour;
mod opaque;
#[path = "../../../../fuzz/bodies/opaque.rs"]
mod opaque_packets;
mod pair;
mod put_away;
mod silent;
#[path = "../../../../fuzz/bodies/split_flow/mod.rs"]
mod split_flow;
mod stream;
mod uplink;
mod whole;
