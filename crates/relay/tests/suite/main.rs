//! Relays on sockets of this host, and on emulated networks.

mod access_log;
mod attackers;
mod authority;
mod clients;
#[path = "../../../../fuzz/bodies/discovery.rs"]
mod discovery;
mod discovery_etcd;
mod discovery_fuzz_corpus;
mod fuzz_corpus;
mod moves;
mod network;
mod place;
mod relay;
mod secrets;
#[path = "../../../../fuzz/bodies/session_request.rs"]
mod session_request;
