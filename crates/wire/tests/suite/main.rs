//! Packets, checksums, segmentation and captures, seen from outside.

mod checksum;
mod fuzz_corpus;
mod hostile;
mod oracle;
mod packets;
mod pcapng;
mod round_trip;
mod segmentation;
#[path = "../../../../fuzz/bodies/wire_parse.rs"]
mod wire_parse;
