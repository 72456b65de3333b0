//! The cases, one module a topic.

mod addresses;
mod datagrams;
mod flow_control;
mod handshake;
mod latency;
mod liveness;
mod options;
mod sequence;
mod stepping_out;
mod strangers;
mod teardown;
mod urgent;
mod volume;

use crate::conformance::case::Case;

/// Every case, in the order of the report.
pub fn cases() -> Vec<Case> {
    [
        handshake::CASES,
        teardown::CASES,
        flow_control::CASES,
        urgent::CASES,
        sequence::CASES,
        addresses::CASES,
        liveness::CASES,
        options::CASES,
        volume::CASES,
        latency::CASES,
        datagrams::CASES,
        stepping_out::CASES,
        strangers::CASES,
    ]
    .concat()
}

/// One mebibyte.
const MIB: u64 = 1 << 20;
