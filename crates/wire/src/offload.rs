use alloc::string::{String, ToString};
use core::fmt;
use core::num::NonZeroU16;
use core::str::FromStr;

/// The work that a sender left to the device below it (as in virtio's net header).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// The transport checksum field holds only the pseudo-header's sum.
    pub partial_checksum: Option<PartialChecksum>,
    /// The packet is a super-segment, to be cut.
    pub gso: Option<Gso>,
    /// The checksum was verified below us and need not be again.
    pub checksum_verified: bool,
}

/// Where an unfinished checksum is: it covers the bytes from `start` to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialChecksum {
    /// First byte covered, from the start of the IP header.
    pub start: u16,
    /// The checksum field, counted from `start`.
    pub offset: u16,
}

/// How a TCP super-segment is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gso {
    /// Payload bytes of each segment.
    pub size: NonZeroU16,
    /// Bytes of IP and TCP header together.
    pub header_len: u16,
}

impl fmt::Display for Offload {
    /// As recordings keep it: `verified`, `partial=20+16`, `gso=1460/52`, or nothing at all.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut space = "";
        if self.checksum_verified {
            f.write_str("verified")?;
            space = " ";
        }
        if let Some(PartialChecksum { start, offset }) = self.partial_checksum {
            write!(f, "{space}partial={start}+{offset}")?;
            space = " ";
        }
        if let Some(Gso { size, header_len }) = self.gso {
            write!(f, "{space}gso={size}/{header_len}")?;
        }
        Ok(())
    }
}

impl FromStr for Offload {
    type Err = ParseOffloadError;

    /// Reads what [`Offload`] writes.
    fn from_str(text: &str) -> Result<Self, ParseOffloadError> {
        let mut offload = Offload::default();
        for word in text.split_ascii_whitespace() {
            offload.read_word(word).ok_or_else(|| ParseOffloadError { word: word.to_string() })?;
        }
        Ok(offload)
    }
}

impl Offload {
    fn read_word(&mut self, word: &str) -> Option<()> {
        match word.split_once('=') {
            None if word == "verified" => self.checksum_verified = true,
            Some(("partial", value)) => {
                let (start, offset) = value.split_once('+')?;
                let partial = PartialChecksum { start: start.parse().ok()?, offset: offset.parse().ok()? };
                self.partial_checksum = Some(partial);
            }
            Some(("gso", value)) => {
                let (size, header_len) = value.split_once('/')?;
                self.gso = Some(Gso { size: size.parse().ok()?, header_len: header_len.parse().ok()? });
            }
            _ => return None,
        }
        Some(())
    }
}

/// A word that says nothing about an offload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseOffloadError {
    word: String,
}

impl fmt::Display for ParseOffloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = &self.word;
        write!(f, "`{word}` is not `verified`, `partial=<start>+<offset>` or `gso=<size>/<header length>`")
    }
}

impl core::error::Error for ParseOffloadError {}
