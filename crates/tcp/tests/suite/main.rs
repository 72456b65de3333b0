//! TCP seen from outside: senders, receivers, connections and hosts in virtual time.

mod detectors;
#[path = "../../../../fuzz/bodies/endpoint/mod.rs"]
mod endpoint;
mod fuzz_corpus;
mod half;
mod host;
mod hostile;
mod model;
mod ncr;
mod newreno;
mod pair;
mod probing;
mod rack;
mod receiver;
mod recovery;
mod resumed;
mod sack_fragments;
mod scoreboard;
mod scripts;
mod stream;
mod tail_loss_probe;
mod timers;
mod trace;
