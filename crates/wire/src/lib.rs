//! Packets: the bytes of IPv4, IPv6, TCP, UDP and ICMP, and what they say.
//!
//! Reading order: [`Payload`] (refcounted bytes), [`Packet`] (parsed headers and payload slices),
//! [`TcpHeader`] and [`TcpOptions`], [`Datagram`] (raw bytes with what an offload left undone),
//! [`parse()`] (bytes to packets), [`headers`] and [`to_datagram`] (packets to bytes), [`cut`]
//! (segmentation in software), [`checksum`], [`Machine`] (what takes packets and gives packets),
//! [`pcapng`] (packets to a recording and back).
//!
//! `no_std`, no unsafe code, no clock. Nothing here panics on bytes from the network.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod be;
pub mod checksum;
mod emit;
mod extension;
mod fragment;
mod icmp;
mod label;
mod machine;
mod offload;
mod packet;
mod parse;
mod payload;
pub mod pcapng;
mod probe_option;
mod rate_option;
mod segment;
mod tcp_header;
mod tcp_options;

pub use emit::{ChecksumMode, HEADERS_MAX, headers, payload_slices, to_datagram};
pub use fragment::{Fragment, join};
pub use label::{Label, Labelled, Lender, Lent};
pub use machine::{Machine, TxBatch};
pub use offload::{Gso, Offload, ParseOffloadError, PartialChecksum};
pub use packet::{
    Datagram, IcmpError, IcmpErrorKind, IpHeader, Ipv4Header, Ipv6Header, Packet, TcpSegment, Transport,
    UdpHeader,
};
pub use parse::{RejectReason, Rejected, parse};
pub use payload::{Chunk, Payload, PayloadList, have_same_bytes};
pub use probe_option::ProbeOption;
pub use rate_option::RateOption;
pub use segment::{Cut, Cuts, cut};
pub use tcp_header::{SackBlock, SackBlocks, TcpFlags, TcpHeader, TcpOptions, Timestamps, UnknownOptions};
