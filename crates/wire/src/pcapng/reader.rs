use super::{
    BYTE_ORDER_MAGIC, ENHANCED_PACKET, IF_NAME, IF_TSOFFSET, IF_TSRESOL, INTERFACE_DESCRIPTION, OPT_COMMENT,
    OPT_END, SECTION_HEADER,
};
use alloc::vec::Vec;
use core::fmt;
use shorthaul_types::Time;

/// Reads the packets of a recording, in their order in the file, of either byte order.
///
/// It is an iterator that ends after the first error. Blocks of other kinds than Section Header,
/// Interface Description and Enhanced Packet are skipped.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    file: &'a [u8],
    /// Where the next block begins.
    at: usize,
    /// The byte order of this section; `None` before the first and after an error.
    order: Option<Order>,
    interfaces: Vec<Interface<'a>>,
    finished: bool,
}

/// A packet as it stands in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The number of its interface, in [`Reader::interfaces`].
    pub interface: u32,
    /// When it passed; times before the epoch are zero, those beyond 584 years the last there is.
    pub at: Time,
    /// The bytes that were recorded.
    pub bytes: &'a [u8],
    /// The length that the packet had; more than that of `bytes` if it was recorded in part.
    pub original_len: u32,
    /// Its first comment; empty if there is none or if it is not UTF-8.
    pub comment: &'a str,
}

/// An interface of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface<'a> {
    /// Its name; empty if there is none or if it is not UTF-8.
    pub name: &'a str,
    /// What its packets begin with; raw IP is [`LINK_TYPE_RAW`](super::LINK_TYPE_RAW).
    pub link_type: u16,
    resolution: u8,
    offset_secs: i64,
}

/// What is wrong with a recording, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// The byte of the file at which the block in question begins.
    pub at: usize,
    /// What is wrong with that block.
    pub kind: ReadErrorKind,
}

/// What can be wrong with a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadErrorKind {
    /// It does not begin with a Section Header, or that has no byte order.
    NotPcapng,
    /// The section has a major version other than 1.
    Version(u16),
    /// The file ends within the block, as it does after a crash.
    Truncated,
    /// The lengths at the block's ends are not the same, not a multiple of four, or too small.
    BlockLength,
    /// An option or the packet reaches beyond the end of its block.
    Content,
    /// The packet's interface was not described before.
    UnknownInterface(u32),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the recording cannot be read from byte {} on: ", self.at)?;
        match self.kind {
            ReadErrorKind::NotPcapng => f.write_str("no pcapng section begins there (is it a pcap file?)"),
            ReadErrorKind::Version(major) => {
                write!(f, "the section has version {major} of the format, only 1 is known")
            }
            ReadErrorKind::Truncated => f.write_str("the file ends within the block"),
            ReadErrorKind::BlockLength => f.write_str("the block's lengths do not agree"),
            ReadErrorKind::Content => f.write_str("the block's contents reach beyond its end"),
            ReadErrorKind::UnknownInterface(number) => {
                write!(f, "the packet's interface {number} was not described before")
            }
        }
    }
}

impl core::error::Error for ReadError {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl<'a> Reader<'a> {
    /// A reader of the whole contents of a file.
    pub fn new(file: &'a [u8]) -> Self {
        Reader { file, at: 0, order: None, interfaces: Vec::new(), finished: false }
    }

    /// The interfaces that were described so far in the current section, by number.
    pub fn interfaces(&self) -> &[Interface<'a>] {
        &self.interfaces
    }

    /// Reads on to the next packet. `None` at the end of the file.
    fn read_on(&mut self) -> Result<Option<Record<'a>>, ReadErrorKind> {
        while self.at < self.file.len() {
            let (kind, body, len) = self.block()?;
            match kind {
                SECTION_HEADER => self.section(body)?,
                INTERFACE_DESCRIPTION => self.interface(body)?,
                ENHANCED_PACKET => {
                    let record = self.packet(body)?;
                    self.at += len;
                    return Ok(Some(record));
                }
                _ => {}
            }
            self.at += len;
        }
        Ok(None)
    }

    /// The type, the contents and the whole length of the block at `self.at`. A section's header
    /// changes the byte order.
    fn block(&mut self) -> Result<(u32, Fields<'a>, usize), ReadErrorKind> {
        const TYPE_AND_LENGTHS: usize = 12;
        let file = &self.file[self.at..];
        let first: [u8; 4] = *file.first_chunk().ok_or(ReadErrorKind::Truncated)?;
        if first == SECTION_HEADER.to_be_bytes() {
            let magic: [u8; 4] =
                *file.get(8..).and_then(|rest| rest.first_chunk()).ok_or(ReadErrorKind::Truncated)?;
            self.order = match u32::from_le_bytes(magic) {
                BYTE_ORDER_MAGIC => Some(Order::Little),
                magic if magic == BYTE_ORDER_MAGIC.swap_bytes() => Some(Order::Big),
                _ => return Err(ReadErrorKind::NotPcapng),
            };
        }
        let order = self.order.ok_or(ReadErrorKind::NotPcapng)?;
        let mut head = Fields { bytes: file, order };
        let kind = head.u32().ok_or(ReadErrorKind::Truncated)?;
        let len = head.u32().ok_or(ReadErrorKind::Truncated)? as usize;
        if len < TYPE_AND_LENGTHS || !len.is_multiple_of(4) {
            return Err(ReadErrorKind::BlockLength);
        }
        let block = file.get(..len).ok_or(ReadErrorKind::Truncated)?;
        let mut tail = Fields { bytes: &block[len - 4..], order };
        if tail.u32() != Some(len as u32) {
            return Err(ReadErrorKind::BlockLength);
        }
        Ok((kind, Fields { bytes: &block[8..len - 4], order }, len))
    }

    fn section(&mut self, mut body: Fields<'a>) -> Result<(), ReadErrorKind> {
        body.u32().ok_or(ReadErrorKind::Content)?; // the byte order, which is known by now
        let major = body.u16().ok_or(ReadErrorKind::Content)?;
        if major != 1 {
            return Err(ReadErrorKind::Version(major));
        }
        self.interfaces.clear();
        Ok(())
    }

    fn interface(&mut self, mut body: Fields<'a>) -> Result<(), ReadErrorKind> {
        const MICROSECONDS: u8 = 6; // what holds where the option is absent
        let link_type = body.u16().ok_or(ReadErrorKind::Content)?;
        body.take(6).ok_or(ReadErrorKind::Content)?; // reserved, and the length limit
        let mut interface = Interface { name: "", link_type, resolution: MICROSECONDS, offset_secs: 0 };
        while let Some((code, mut value)) = body.option()? {
            match code {
                IF_NAME => interface.name = value.text(),
                IF_TSRESOL => interface.resolution = *value.bytes.first().ok_or(ReadErrorKind::Content)?,
                IF_TSOFFSET => interface.offset_secs = value.u64().ok_or(ReadErrorKind::Content)? as i64,
                _ => {}
            }
        }
        self.interfaces.push(interface);
        Ok(())
    }

    fn packet(&self, mut body: Fields<'a>) -> Result<Record<'a>, ReadErrorKind> {
        let mut field = || body.u32().ok_or(ReadErrorKind::Content);
        let number = field()?;
        let ticks = u64::from(field()?) << 32 | u64::from(field()?);
        let (len, original_len) = (field()?, field()?);
        let interface =
            self.interfaces.get(number as usize).ok_or(ReadErrorKind::UnknownInterface(number))?;
        let bytes = body.take_padded(len as usize).ok_or(ReadErrorKind::Content)?;
        let mut record =
            Record { interface: number, at: interface.time(ticks), bytes, original_len, comment: "" };
        while let Some((code, value)) = body.option()? {
            if code == OPT_COMMENT && record.comment.is_empty() {
                record.comment = value.text();
            }
        }
        Ok(record)
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Record<'a>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        let result = self.read_on();
        self.finished = !matches!(result, Ok(Some(_)));
        result.map_err(|kind| ReadError { at: self.at, kind }).transpose()
    }
}

impl core::iter::FusedIterator for Reader<'_> {}

impl Interface<'_> {
    /// The time of a packet that was recorded with `ticks`.
    fn time(&self, ticks: u64) -> Time {
        const NANOS_PER_SEC: u128 = 1_000_000_000;
        let exponent = u32::from(self.resolution & 0x7f);
        let nanos = if self.resolution & 0x80 != 0 {
            (u128::from(ticks) * NANOS_PER_SEC) >> exponent
        } else if exponent <= 9 {
            u128::from(ticks) * 10u128.pow(9 - exponent)
        } else {
            10u128.checked_pow(exponent - 9).map_or(0, |divisor| u128::from(ticks) / divisor)
        };
        let nanos = nanos as i128 + i128::from(self.offset_secs) * NANOS_PER_SEC as i128; // below 2⁹⁵
        Time::from_nanos(nanos.clamp(0, i128::from(u64::MAX)) as u64)
    }
}

/// Bytes that are read from the front, in the byte order of their section.
#[derive(Clone, Copy)]
struct Fields<'a> {
    bytes: &'a [u8],
    order: Order,
}

impl<'a> Fields<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(n)?;
        self.bytes = rest;
        Some(taken)
    }

    /// Takes `n` bytes and what pads them to 32 bits.
    fn take_padded(&mut self, n: usize) -> Option<&'a [u8]> {
        self.take(n.checked_next_multiple_of(4)?)?.get(..n)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = *self.take(N)?.first_chunk()?;
        if self.order == Order::Big {
            bytes.reverse();
        }
        Some(bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// The code and value of the next option (§3.5); `None` at their end, which may be that of the
    /// block.
    fn option(&mut self) -> Result<Option<(u16, Fields<'a>)>, ReadErrorKind> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let code = self.u16().ok_or(ReadErrorKind::Content)?;
        let len = self.u16().ok_or(ReadErrorKind::Content)?;
        if code == OPT_END {
            return Ok(None);
        }
        let bytes = self.take_padded(usize::from(len)).ok_or(ReadErrorKind::Content)?;
        Ok(Some((code, Fields { bytes, order: self.order })))
    }

    fn text(&self) -> &'a str {
        core::str::from_utf8(self.bytes).unwrap_or("")
    }
}
