//! The internet checksum (RFC 1071), its incremental update (RFC 1624), and the partial checksums
//! of offloading devices.

use crate::{IpHeader, PartialChecksum, be};

/// A ones' complement sum of 16-bit words while it is being added up.
///
/// Bytes may be added in pieces of any length: a piece that begins at an odd place is counted as
/// such. Sums of the same bytes are equal however they were cut.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// Words in the byte order of the machine (RFC 1071 §2 (B)), with the carries above bit 15.
    words: u64,
    /// Whether an odd number of bytes was added, so that the next one is the low half of a word.
    odd: bool,
}

impl Sum {
    /// The sum of nothing.
    pub const fn new() -> Self {
        Sum { words: 0, odd: false }
    }

    /// Adds bytes behind those added before.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        let sum = sum_words(bytes);
        // RFC 1071 §2 (B): swapping the bytes of a sum is the same as shifting its input by one.
        self.words += u64::from(if self.odd { sum.swap_bytes() } else { sum });
        self.odd ^= bytes.len() % 2 == 1;
    }

    /// Adds a 16-bit field. To be used between whole words only.
    #[inline]
    pub fn add_u16(&mut self, field: u16) {
        debug_assert!(!self.odd, "a field behind an odd number of bytes");
        self.words += u64::from(field.to_be());
    }

    /// The sum with its carries folded in, not complemented: what a partial checksum holds.
    #[inline]
    pub fn folded(&self) -> u16 {
        u16::from_be(fold(self.words))
    }

    /// The checksum: the complement of the sum.
    #[inline]
    pub fn checksum(&self) -> u16 {
        !self.folded()
    }
}

/// Sums up to 16 bits, in the byte order of the machine.
#[inline]
fn sum_words(bytes: &[u8]) -> u16 {
    // Eight independent 64-bit lanes of 32-bit words: compilers make vector code of this, and
    // no lane can overflow below 2³² rounds.
    const LANES: usize = 8;
    let mut lanes = [0u64; LANES];
    let (rounds, rest) = bytes.as_chunks::<{ 4 * LANES }>();
    for round in rounds {
        for (lane, word) in lanes.iter_mut().zip(round.as_chunks::<4>().0) {
            *lane += u64::from(u32::from_ne_bytes(*word));
        }
    }
    let mut sum: u64 = lanes.iter().map(|lane| u64::from(fold(*lane))).sum();
    let (words, tail) = rest.as_chunks::<4>();
    for word in words {
        sum += u64::from(u32::from_ne_bytes(*word));
    }
    for pair in tail.chunks(2) {
        let word = [pair[0], pair.get(1).copied().unwrap_or(0)];
        sum += u64::from(u16::from_ne_bytes(word));
    }
    fold(sum)
}

/// Adds the carries back in until 16 bits are left.
#[inline]
fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32); // 33 bits
    let sum = (sum & 0xffff) + (sum >> 16); // 18 bits
    let sum = (sum & 0xffff) + (sum >> 16); // 17 bits
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// The checksum of `bytes`. Over bytes that contain their own checksum it is zero if that is right.
#[inline]
pub fn of(bytes: &[u8]) -> u16 {
    let mut sum = Sum::new();
    sum.add(bytes);
    sum.checksum()
}

/// The sum over the pseudo-header of a packet with `ip`, whose transport header and payload
/// together have `transport_len` bytes (RFC 9293 §3.1, RFC 8200 §8.1).
#[inline]
pub fn pseudo_header(ip: &IpHeader, protocol: u8, transport_len: usize) -> Sum {
    let mut sum = Sum::new();
    match ip {
        IpHeader::V4(h) => {
            sum.add(&h.src.octets());
            sum.add(&h.dst.octets());
        }
        IpHeader::V6(h) => {
            sum.add(&h.src.octets());
            sum.add(&h.dst.octets());
        }
    }
    sum.add_u16(u16::from(protocol));
    sum.add(&(transport_len as u32).to_be_bytes());
    sum
}

/// The change of one 16-bit field under a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldChange {
    /// What the field held.
    pub from: u16,
    /// What it holds now.
    pub to: u16,
}

/// The checksum after a field under it changed (RFC 1624 §3, equation 3). The field must begin at
/// an even place of what the checksum covers, which must not be all zero (no packet is).
#[inline]
pub fn updated(checksum: u16, change: FieldChange) -> u16 {
    let mut sum = Sum::new();
    sum.add_u16(!checksum);
    sum.add_u16(!change.from);
    sum.add_u16(change.to);
    sum.checksum()
}

/// Completes the checksum that a sender left to the device: `bytes` is the whole packet, and its
/// checksum field holds the folded sum of the pseudo-header. Returns `false`, and changes nothing,
/// if the field does not lie within the packet.
pub fn finish_partial(bytes: &mut [u8], partial: PartialChecksum) -> bool {
    let start = usize::from(partial.start);
    let field = start + usize::from(partial.offset);
    if field + 2 > bytes.len() {
        return false;
    }
    let checksum = of(&bytes[start..]);
    be::put_u16(bytes, field, complete(checksum, partial));
    true
}

/// A computed checksum as it is sent. For UDP, zero means that there is none, so that a sum of zero
/// goes out as its other representation (RFC 768).
#[inline]
pub(crate) fn complete(checksum: u16, partial: PartialChecksum) -> u16 {
    const UDP_FIELD: u16 = 6;
    if checksum == 0 && partial.offset == UDP_FIELD { 0xffff } else { checksum }
}
