//! Recordings of packets, in the format of Wireshark and tcpdump (draft-ietf-opsawg-pcapng).
//!
//! [`Writer`] makes a recording in memory, for the caller to drain into a file. [`Reader`] reads
//! one back, its own or another tool's. Packets are raw IP, with times in nanoseconds.
//!
//! A packet's comment is free text. To play a recording back into a machine, the comment of each
//! packet keeps what its bytes do not say: an [`Offload`](crate::Offload) is written and read as text.

mod reader;
mod writer;

pub use reader::{Interface, ReadError, ReadErrorKind, Reader, Record};
pub use writer::{PacketInfo, Writer};

/// Link type of packets that begin with their IP header, of either version (`LINKTYPE_RAW`).
pub const LINK_TYPE_RAW: u16 = 101;

/// Block type of a Section Header (§4.1). It is the same in either byte order.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
/// Block type of an Interface Description (§4.2).
const INTERFACE_DESCRIPTION: u32 = 1;
/// Block type of an Enhanced Packet (§4.3).
const ENHANCED_PACKET: u32 = 6;
/// Says the byte order of a section (§4.1).
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// End of options, in any block (§3.5).
const OPT_END: u16 = 0;
/// A comment, in any block (§3.5).
const OPT_COMMENT: u16 = 1;
/// Name of an interface (§4.2).
const IF_NAME: u16 = 2;
/// Resolution of an interface's times (§4.2).
const IF_TSRESOL: u16 = 9;
/// Seconds to add to an interface's times (§4.2).
const IF_TSOFFSET: u16 = 14;
