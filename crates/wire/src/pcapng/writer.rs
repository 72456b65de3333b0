use super::{
    BYTE_ORDER_MAGIC, ENHANCED_PACKET, IF_NAME, IF_TSRESOL, INTERFACE_DESCRIPTION, LINK_TYPE_RAW,
    OPT_COMMENT, OPT_END, SECTION_HEADER,
};
use alloc::vec::Vec;
use shorthaul_types::Time;

/// Writes a recording, in little-endian byte order, into a buffer that the caller drains.
///
/// ```
/// use shorthaul_types::Time;
/// use shorthaul_wire::pcapng::{PacketInfo, Writer};
///
/// let mut writer = Writer::new();
/// let wan = writer.add_interface("wan");
/// let info = PacketInfo { interface: wan, at: Time::from_millis(3), comment: "in" };
/// writer.packet(&info, [b"E".as_slice(), b"..."]);
/// // file.write_all(writer.buffered())?;
/// writer.clear();
/// ```
#[derive(Clone, Debug)]
pub struct Writer {
    out: Vec<u8>,
    interfaces: u32,
}

/// What a recording says about a packet besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketInfo<'a> {
    /// The interface, as [`Writer::add_interface`] numbered it.
    pub interface: u32,
    /// When the packet passed.
    pub at: Time,
    /// A comment; empty for none. What exceeds 65,535 bytes is left out.
    pub comment: &'a str,
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer {
    /// A recording without interfaces.
    pub fn new() -> Self {
        let mut writer = Writer { out: Vec::new(), interfaces: 0 };
        const MAJOR: u16 = 1;
        const MINOR: u16 = 0;
        const LENGTH_UNKNOWN: u64 = u64::MAX;
        writer.block(SECTION_HEADER, |out| {
            out.extend(BYTE_ORDER_MAGIC.to_le_bytes());
            out.extend(MAJOR.to_le_bytes());
            out.extend(MINOR.to_le_bytes());
            out.extend(LENGTH_UNKNOWN.to_le_bytes());
        });
        writer
    }

    /// Adds an interface of raw IP packets; returns its number. It can be done at any time before
    /// the interface's first packet.
    pub fn add_interface(&mut self, name: &str) -> u32 {
        const NO_LENGTH_LIMIT: u32 = 0;
        const NANOSECONDS: u8 = 9; // as a negative power of ten
        self.block(INTERFACE_DESCRIPTION, |out| {
            out.extend(LINK_TYPE_RAW.to_le_bytes());
            out.extend([0; 2]);
            out.extend(NO_LENGTH_LIMIT.to_le_bytes());
            option(out, IF_NAME, name.as_bytes());
            option(out, IF_TSRESOL, &[NANOSECONDS]);
            option(out, OPT_END, &[]);
        });
        self.interfaces += 1;
        self.interfaces - 1
    }

    /// Appends a packet, given as the slices that it consists of.
    ///
    /// # Panics
    /// If the interface was not added: no reader would take the recording.
    pub fn packet<'a>(&mut self, info: &PacketInfo<'_>, slices: impl IntoIterator<Item = &'a [u8]>) {
        assert!(info.interface < self.interfaces, "interface {} was not added", info.interface);
        let nanos = info.at.as_nanos();
        self.block(ENHANCED_PACKET, |out| {
            out.extend(info.interface.to_le_bytes());
            out.extend(((nanos >> 32) as u32).to_le_bytes());
            out.extend((nanos as u32).to_le_bytes());
            let lengths = out.len();
            out.extend([0; 8]);
            for slice in slices {
                out.extend_from_slice(slice);
            }
            let len = (out.len() - lengths - 8) as u32;
            out[lengths..lengths + 4].copy_from_slice(&len.to_le_bytes()); // captured
            out[lengths + 4..lengths + 8].copy_from_slice(&len.to_le_bytes()); // on the wire
            pad(out);
            if !info.comment.is_empty() {
                option(out, OPT_COMMENT, truncated(info.comment).as_bytes());
                option(out, OPT_END, &[]);
            }
        });
    }

    /// What was written since the last [`Writer::clear`].
    pub fn buffered(&self) -> &[u8] {
        &self.out
    }

    /// Empties the buffer, after its bytes went to the file. Its memory is reused.
    pub fn clear(&mut self) {
        self.out.clear();
    }

    /// Writes a block with its type and, at both ends, its length (§3.1).
    fn block(&mut self, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
        let out = &mut self.out;
        let start = out.len();
        out.extend(kind.to_le_bytes());
        out.extend([0; 4]);
        body(out);
        let len = (out.len() - start + 4) as u32;
        out[start + 4..start + 8].copy_from_slice(&len.to_le_bytes());
        out.extend(len.to_le_bytes());
    }
}

/// Writes an option (§3.5).
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    pad(out);
}

/// The front of `text` that fits into an option, cut between characters.
fn truncated(text: &str) -> &str {
    &text[..text.floor_char_boundary(usize::from(u16::MAX))]
}

/// Fills up to 32 bits. All blocks begin at a multiple of that, so that the buffer's length tells.
fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}
