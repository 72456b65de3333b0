//! What an end has sent: at each offset of its stream one of four contents, or several of them.
use shorthaul_wire::PayloadList;

/// Further than this into a stream no end sends: what lies beyond is never contiguous with it.
pub const LONGEST_STREAM: u64 = 4 << 20;
const VARIANTS: usize = 4;

/// Of each byte of a stream, the contents that were sent.
pub struct Contents {
    /// Makes the bytes differ from those of all others.
    salt: u8,
    /// Which contents were sent, as one bit each, by offset.
    sent: Vec<u8>,
    /// The bytes of each content where it was sent, by offset.
    bytes: [Vec<u8>; VARIANTS],
    /// Everything before was sent at least once.
    pub next: u64,
}

impl Contents {
    /// Nothing but the SYN, at offset 0.
    pub fn new(salt: u8) -> Self {
        Contents { salt, sent: vec![0; 1], bytes: Default::default(), next: 1 }
    }

    /// `len` bytes from `offset` on, of one of the contents.
    pub fn make(&self, offset: u64, len: usize, variant: u8) -> Vec<u8> {
        let word = |number: u64| {
            let mixed = (number << 10 | u64::from(self.salt) << 2 | u64::from(variant))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_be_bytes()
        };
        let end = offset + len as u64;
        let mut made = Vec::with_capacity(len + 16);
        for number in offset / 8..end.div_ceil(8) {
            made.extend_from_slice(&word(number));
        }
        made.drain(..(offset % 8) as usize);
        made.truncate(len);
        made
    }

    /// These bytes were sent, of this content.
    pub fn note(&mut self, offset: u64, bytes: &[u8], variant: u8) {
        let end = offset + bytes.len() as u64;
        if end > LONGEST_STREAM {
            return;
        }
        let range = offset as usize..end as usize;
        let content = &mut self.bytes[usize::from(variant)];
        for (vector, most) in [(&mut self.sent, end), (content, end)] {
            if vector.len() < most as usize {
                vector.resize(most as usize, 0);
            }
        }
        self.sent[range.clone()].iter_mut().for_each(|sent| *sent |= 1 << variant);
        self.bytes[usize::from(variant)][range].copy_from_slice(bytes);
        let missing = self.sent[self.next as usize..].iter().position(|&sent| sent == 0);
        self.next = missing.map_or(self.sent.len() as u64, |at| self.next + at as u64).max(self.next);
    }

    /// Whether all of these bytes were sent.
    pub fn has(&self, left: u64, right: u64) -> bool {
        let sent = self.sent.get(left as usize..right as usize);
        sent.is_some_and(|sent| sent.iter().all(|&sent| sent != 0))
    }

    /// Checks that these bytes were sent at this offset. Says where they end.
    ///
    /// # Panics
    /// If not.
    pub fn check(&self, offset: u64, payload: &PayloadList) -> u64 {
        let mut at = offset;
        for slice in payload.slices() {
            let slice = slice.as_slice();
            if !self.is_of_one(at, slice) {
                self.check_each(at, slice);
            }
            at += slice.len() as u64;
        }
        at
    }

    /// Whether they are of one content that was sent, as nearly always.
    fn is_of_one(&self, offset: u64, slice: &[u8]) -> bool {
        let range = offset as usize..offset as usize + slice.len();
        let Some(sent) = self.sent.get(range.clone()) else { return false };
        let all = sent.iter().fold(u8::MAX, |all, sent| all & sent);
        (0..VARIANTS).any(|of| all & 1 << of != 0 && self.bytes[of].get(range.clone()) == Some(slice))
    }

    fn check_each(&self, offset: u64, slice: &[u8]) {
        for (at, &byte) in (offset as usize..).zip(slice) {
            let sent = self.sent.get(at).copied().unwrap_or(0);
            let known = (0..VARIANTS).any(|of| sent & 1 << of != 0 && self.bytes[of].get(at) == Some(&byte));
            assert!(known, "at {at} came {byte:#04x}, which was not sent (contents {sent:#06b})");
        }
    }
}
