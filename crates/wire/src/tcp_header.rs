use arrayvec::ArrayVec;
use core::fmt;
use core::ops::{BitOr, BitOrAssign};
use shorthaul_types::SeqNum;

/// The control bits of RFC 9293 §3.1, with AE (RFC 9768, once NS) and the three reserved bits
/// above them: 12 bits, as they stand in the header.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpFlags(pub u16);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: TcpFlags = TcpFlags(0x001);
    /// Synchronize sequence numbers.
    pub const SYN: TcpFlags = TcpFlags(0x002);
    /// Reset the connection.
    pub const RST: TcpFlags = TcpFlags(0x004);
    /// Push.
    pub const PSH: TcpFlags = TcpFlags(0x008);
    /// The acknowledgment field is significant.
    pub const ACK: TcpFlags = TcpFlags(0x010);
    /// The urgent pointer is significant.
    pub const URG: TcpFlags = TcpFlags(0x020);
    /// ECN echo (RFC 3168).
    pub const ECE: TcpFlags = TcpFlags(0x040);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: TcpFlags = TcpFlags(0x080);
    /// Accurate ECN (RFC 9768).
    pub const AE: TcpFlags = TcpFlags(0x100);

    /// Whether all bits of `other` are set here.
    pub const fn contains(self, other: TcpFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any bit of `other` is set here.
    pub const fn intersects(self, other: TcpFlags) -> bool {
        self.0 & other.0 != 0
    }

    /// These bits without those of `other`.
    pub const fn without(self, other: TcpFlags) -> TcpFlags {
        TcpFlags(self.0 & !other.0)
    }
}

impl BitOr for TcpFlags {
    type Output = TcpFlags;
    fn bitor(self, other: TcpFlags) -> TcpFlags {
        TcpFlags(self.0 | other.0)
    }
}

impl BitOrAssign for TcpFlags {
    fn bitor_assign(&mut self, other: TcpFlags) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LETTERS: [(TcpFlags, &str); 9] = [
            (TcpFlags::SYN, "S"),
            (TcpFlags::FIN, "F"),
            (TcpFlags::RST, "R"),
            (TcpFlags::PSH, "P"),
            (TcpFlags::ACK, "."),
            (TcpFlags::URG, "U"),
            (TcpFlags::ECE, "E"),
            (TcpFlags::CWR, "W"),
            (TcpFlags::AE, "e"),
        ];
        for (flag, letter) in LETTERS {
            if self.contains(flag) {
                f.write_str(letter)?;
            }
        }
        Ok(())
    }
}

/// A TCP header, all of it but the ports' place in the flow key and the checksum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpHeader {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number of the first byte (or of the SYN).
    pub seq: SeqNum,
    /// Next sequence number expected; significant with [`TcpFlags::ACK`].
    pub ack: SeqNum,
    /// Control bits.
    pub flags: TcpFlags,
    /// The window field as it stands, not scaled.
    pub window: u16,
    /// The urgent pointer; significant with [`TcpFlags::URG`].
    pub urgent: u16,
    /// The options.
    pub options: TcpOptions,
}

/// The timestamps option (RFC 7323 §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// TSval: the sender's clock.
    pub val: u32,
    /// TSecr: the echo of the other's.
    pub ecr: u32,
}

/// One SACK block (RFC 2018): `left` is the first sequence number held, `right` the first not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SackBlock {
    /// First sequence number of the block.
    pub left: SeqNum,
    /// The sequence number behind its last.
    pub right: SeqNum,
}

/// The up to four SACK blocks that fit into one header.
pub type SackBlocks = ArrayVec<SackBlock, 4>;

/// Options that we do not interpret, as they stood (kind, length and data of each), without padding.
pub type UnknownOptions = ArrayVec<u8, 40>;

/// The options of one header.
///
/// Absent ones are `None`, `false` or empty. On the wire they take at most 40 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// Maximum segment size (RFC 9293 §3.7.1), in a SYN.
    pub mss: Option<u16>,
    /// Window scale shift (RFC 7323 §2), in a SYN; as sent, values above 14 included.
    pub window_scale: Option<u8>,
    /// SACK permitted (RFC 2018 §2), in a SYN.
    pub sack_permitted: bool,
    /// SACK blocks (RFC 2018 §3), D-SACK (RFC 2883) included.
    pub sack: SackBlocks,
    /// Timestamps (RFC 7323 §3).
    pub timestamps: Option<Timestamps>,
    /// Everything else, kept as it stood.
    pub unknown: UnknownOptions,
}
