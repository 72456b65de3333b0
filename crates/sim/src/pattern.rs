use shorthaul_types::Seed;
use shorthaul_wire::{Payload, PayloadList};

/// The bytes that applications send: a ring of pieces, of which every stream begins at one of its own.
///
/// A stream is written without copying, as slices of the pieces, and what arrives is compared with what
/// should: mostly by noticing that it is the very same memory. So every byte of every run is checked for
/// its place in its stream, at next to no cost. A piece is as long as a full segment's payload, so that a
/// segment keeps no more memory alive than its own bytes, as a received packet would.
#[derive(Debug)]
pub(crate) struct Pattern {
    pieces: Vec<Payload>,
    unit: u64,
}

/// How many pieces the ring has: a prime, so that losing any round number of bytes is noticed.
const PIECES: u64 = 251;

/// A stream of bytes: with which piece it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream(u64);

impl Stream {
    /// The stream of a flow from its sender to its receiver.
    pub fn of_data(flow: u32) -> Self {
        Stream(Seed(u64::from(flow)).derive("data").0 % PIECES)
    }

    /// The stream of the requests, in the other direction.
    pub fn of_requests(flow: u32) -> Self {
        Stream(Seed(u64::from(flow)).derive("requests").0 % PIECES)
    }
}

impl Pattern {
    /// A ring for segments with `unit` bytes of payload.
    pub fn new(unit: u32) -> Self {
        let unit = u64::from(unit.max(1));
        let piece = |piece: u64| {
            let words = (0..unit.div_ceil(8)).map(|word| Seed(piece).nth(word).0);
            let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
            Payload::copy_of(&bytes[..unit as usize])
        };
        Pattern { pieces: (0..PIECES).map(piece).collect(), unit }
    }

    /// The piece at `offset` of a stream, and the offset within it.
    fn place(&self, stream: Stream, offset: u64) -> (&Payload, usize) {
        let piece = &self.pieces[((stream.0 + offset / self.unit) % PIECES) as usize];
        (piece, (offset % self.unit) as usize)
    }

    /// Bytes of a stream from `offset` on: up to `max`, fewer where the piece ends.
    pub fn bytes(&self, stream: Stream, offset: u64, max: u64) -> Payload {
        let (piece, start) = self.place(stream, offset);
        let len = max.min((piece.len() - start) as u64) as usize;
        piece.slice(start..start + len)
    }

    /// Whether `list` is what `stream` has at `offset`.
    pub fn matches(&self, stream: Stream, mut offset: u64, list: &PayloadList) -> bool {
        list.slices().iter().all(|slice| {
            let mut rest = slice.as_slice();
            while !rest.is_empty() {
                let (piece, start) = self.place(stream, offset);
                let len = rest.len().min(piece.len() - start);
                let wanted = &piece.as_slice()[start..start + len];
                if !std::ptr::eq(wanted, &rest[..len]) && wanted != &rest[..len] {
                    return false;
                }
                rest = &rest[len..];
                offset += len as u64;
            }
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_recognized_across_the_end_of_the_ring_and_nothing_else_is() {
        let pattern = Pattern::new(1000);
        let stream = Stream::of_data(3);
        let mut offset = 0;
        while offset < 3 * PIECES * 1000 {
            let bytes = pattern.bytes(stream, offset, 700);
            let copy = Payload::copy_of(bytes.as_slice());
            assert!(pattern.matches(stream, offset, &bytes.clone().into()));
            assert!(pattern.matches(stream, offset, &copy.clone().into()), "other memory, same bytes");
            assert!(!pattern.matches(stream, offset + 1, &bytes.clone().into()), "a byte was lost");
            assert!(!pattern.matches(stream, offset + 1000, &bytes.clone().into()), "a segment was lost");
            assert!(!pattern.matches(Stream::of_data(4), offset, &copy.into()), "another flow's");
            offset += bytes.len() as u64;
        }
    }
}
