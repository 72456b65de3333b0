use crate::label::{Label, Lent};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use arrayvec::ArrayVec;
use core::fmt;
use core::ops::Range;

/// A packet buffer: the allocation that [`Payload`]s point into.
///
/// It is filled once, from the front, and read by any number of payloads afterwards. Its size is
/// what a payload costs in memory, however few of its bytes the payload shows.
pub struct Chunk {
    memory: Memory,
    filled: usize,
}

/// Where the bytes of a chunk are.
enum Memory {
    Own(Box<[u8]>),
    Lent(Lent),
}

impl Memory {
    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Memory::Own(bytes) => bytes,
            Memory::Lent(lent) => lent.bytes,
        }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::Own(bytes) => bytes,
            Memory::Lent(lent) => lent.bytes,
        }
    }
}

impl Chunk {
    /// An empty chunk that can hold `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Chunk { memory: Memory::Own(vec![0; capacity].into_boxed_slice()), filled: 0 }
    }

    /// An empty chunk in memory that is somebody else's. Its label says nothing.
    pub fn lent(lent: Lent) -> Self {
        lent.label.erase();
        Chunk { memory: Memory::Lent(lent), filled: 0 }
    }

    /// The note beside it, if it lies in memory where there is one.
    pub fn label(&self) -> Option<&Label> {
        match &self.memory {
            Memory::Own(_) => None,
            Memory::Lent(lent) => Some(lent.label),
        }
    }

    /// A chunk that holds `bytes` and has room for no more.
    pub fn from_bytes(bytes: Box<[u8]>) -> Self {
        let filled = bytes.len();
        Chunk { memory: Memory::Own(bytes), filled }
    }

    /// How many bytes it can hold.
    pub fn capacity(&self) -> usize {
        self.memory.bytes().len()
    }

    /// How many bytes it holds.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// The part that is not yet filled, for a driver to read into.
    pub fn spare_mut(&mut self) -> &mut [u8] {
        &mut self.memory.bytes_mut()[self.filled..]
    }

    /// Says that `n` more bytes were written at the front of [`Chunk::spare_mut`].
    ///
    /// # Panics
    /// If `n` exceeds the spare room: the driver overran its own buffer.
    pub fn advance(&mut self, n: usize) {
        assert!(n <= self.capacity() - self.filled, "a chunk was filled beyond its end");
        self.filled += n;
    }

    /// Appends as much of `bytes` as fits and says how much that was.
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let n = bytes.len().min(self.capacity() - self.filled);
        self.spare_mut()[..n].copy_from_slice(&bytes[..n]);
        self.filled += n;
        n
    }

    /// Empties it for reuse; the bytes stay where they are until they are overwritten.
    pub fn clear(&mut self) {
        if let Memory::Lent(lent) = &self.memory {
            lent.label.erase(); // before they are
        }
        self.filled = 0;
    }
}

/// A view of bytes inside a refcounted [`Chunk`]: cloning and slicing copy nothing.
#[derive(Clone)]
pub struct Payload {
    chunk: Arc<Chunk>,
    start: u32,
    end: u32,
}

impl Payload {
    /// The filled bytes `range` of `chunk`.
    ///
    /// # Panics
    /// If the range is not within the filled part.
    pub fn new(chunk: Arc<Chunk>, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= chunk.filled, "a payload outside its chunk");
        Payload { start: range.start as u32, end: range.end as u32, chunk }
    }

    /// A payload with a chunk of its own, for tests and for what is made here.
    pub fn copy_of(bytes: &[u8]) -> Self {
        Payload::from_chunk(Chunk::from_bytes(bytes.into()))
    }

    /// The same in a chunk with room for so many bytes at least, of which the others may be appended.
    pub fn copy_with_room(bytes: &[u8], capacity: usize) -> Self {
        let mut chunk = Chunk::new(capacity.max(bytes.len()));
        chunk.append(bytes);
        Payload::from_chunk(chunk)
    }

    /// All that `chunk` holds.
    fn from_chunk(chunk: Chunk) -> Self {
        Payload { start: 0, end: chunk.filled as u32, chunk: Arc::new(chunk) }
    }

    /// The number of bytes shown.
    pub fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether it shows no bytes.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.chunk.memory.bytes()[self.start as usize..self.end as usize]
    }

    /// A part of this payload, counted from its own start.
    ///
    /// # Panics
    /// If the range is not within the payload.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "a slice outside its payload");
        Payload {
            chunk: Arc::clone(&self.chunk),
            start: self.start + range.start as u32,
            end: self.start + range.end as u32,
        }
    }

    /// Forgets the first `n` bytes.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn advance(&mut self, n: usize) {
        assert!(n <= self.len(), "a payload advanced beyond its end");
        self.start += n as u32;
    }

    /// Keeps the first `n` bytes only; no effect if there are fewer.
    pub fn truncate(&mut self, n: usize) {
        self.end = self.end.min(self.start.saturating_add(u32::try_from(n).unwrap_or(u32::MAX)));
    }

    /// The memory that this payload keeps alive, in bytes: all of its chunk.
    pub fn allocated(&self) -> usize {
        self.chunk.capacity()
    }

    /// The note beside its chunk, if there is one, and where in the chunk it begins.
    pub fn label(&self) -> Option<(&Label, u32)> {
        Some((self.chunk.label()?, self.start))
    }

    /// Whether `other` views the same chunk and begins where this one ends.
    pub fn continues_into(&self, other: &Payload) -> bool {
        Arc::ptr_eq(&self.chunk, &other.chunk) && self.end == other.start
    }

    /// Grows this view over `other`, which must continue it (see [`Payload::continues_into`]);
    /// says whether it did.
    pub fn extend_over(&mut self, other: &Payload) -> bool {
        let fits = self.continues_into(other);
        if fits {
            self.end = other.end;
        }
        fits
    }

    /// Copies the front of `bytes` behind this payload, into its own chunk, where there is room
    /// and nobody else looks at the chunk; says how many bytes were taken.
    pub fn try_append(&mut self, bytes: &[u8]) -> usize {
        match Arc::get_mut(&mut self.chunk) {
            Some(chunk) if chunk.filled == self.end as usize => {
                let n = chunk.append(bytes);
                self.end += n as u32;
                n
            }
            _ => 0,
        }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.len())
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Payload {}

/// The bytes of one segment, gathered from at most [`PayloadList::MAX_SLICES`] slices.
#[derive(Clone, Default)]
pub struct PayloadList {
    slices: ArrayVec<Payload, { PayloadList::MAX_SLICES }>,
    len: u32,
}

impl PayloadList {
    /// How many slices one segment may gather. A super-segment of full-size packets that were
    /// received one by one holds 16 of them.
    pub const MAX_SLICES: usize = 16;

    /// No bytes.
    pub const fn new() -> Self {
        PayloadList { slices: ArrayVec::new_const(), len: 0 }
    }

    /// The number of bytes in all slices.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a slice, joining it with the last one where they adjoin in memory. Gives the slice
    /// back if the list is full.
    pub fn push(&mut self, slice: Payload) -> Result<(), Payload> {
        if slice.is_empty() {
            return Ok(());
        }
        let n = slice.len() as u32;
        if let Some(last) = self.slices.last_mut()
            && last.extend_over(&slice)
        {
            self.len += n;
            return Ok(());
        }
        self.slices.try_push(slice).map_err(|full| full.element())?;
        self.len += n;
        Ok(())
    }

    /// The slices in order.
    pub fn slices(&self) -> &[Payload] {
        &self.slices
    }

    /// The memory that the slices keep alive, in bytes.
    pub fn allocated(&self) -> usize {
        self.slices.iter().map(Payload::allocated).sum()
    }

    /// The same bytes in a chunk that has room for no more, where theirs are larger.
    pub fn compact(&self) -> Option<PayloadList> {
        let smaller = self.len() < self.allocated();
        smaller.then(|| {
            let mut bytes = vec![0; self.len()];
            self.copy_to(&mut bytes);
            Payload::from_chunk(Chunk::from_bytes(bytes.into_boxed_slice())).into()
        })
    }

    /// Forgets the first `n` bytes (all, if there are fewer).
    pub fn advance(&mut self, n: usize) {
        let mut left = n.min(self.len());
        self.len -= left as u32;
        while left > 0 {
            let first = &mut self.slices[0];
            if first.len() > left {
                first.advance(left);
                return;
            }
            left -= first.len();
            self.slices.remove(0);
        }
    }

    /// Keeps the first `n` bytes only; no effect if there are fewer.
    pub fn truncate(&mut self, n: usize) {
        let mut kept = 0;
        for (i, slice) in self.slices.iter_mut().enumerate() {
            slice.truncate(n - kept);
            kept += slice.len();
            if kept == n {
                let slices = if slice.is_empty() { i } else { i + 1 };
                self.slices.truncate(slices);
                break;
            }
        }
        self.len = kept as u32;
    }

    /// Copies the bytes into `out`, which must be at least [`PayloadList::len`] long.
    pub fn copy_to(&self, out: &mut [u8]) {
        let mut at = 0;
        for slice in &self.slices {
            out[at..at + slice.len()].copy_from_slice(slice.as_slice());
            at += slice.len();
        }
    }
}

impl From<Payload> for PayloadList {
    fn from(payload: Payload) -> Self {
        let mut list = PayloadList::new();
        let _ = list.push(payload); // an empty list has room
        list
    }
}

impl fmt::Debug for PayloadList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B in {} slices", self.len, self.slices.len())
    }
}

impl PartialEq for PayloadList {
    /// Equal bytes, however they are sliced.
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && have_same_bytes(self.slices(), other.slices())
    }
}

impl Eq for PayloadList {}

/// Whether two streams of bytes are the same, in whatever slices.
pub fn have_same_bytes(ours: &[Payload], theirs: &[Payload]) -> bool {
    let mut theirs = theirs.iter().map(Payload::as_slice).filter(|slice| !slice.is_empty());
    let mut rest: &[u8] = &[];
    for mut slice in ours.iter().map(Payload::as_slice) {
        while !slice.is_empty() {
            if rest.is_empty() {
                let Some(next) = theirs.next() else { return false };
                rest = next;
            }
            let (now, other) = (slice.len().min(rest.len()), rest);
            if slice[..now] != other[..now] {
                return false;
            }
            (slice, rest) = (&slice[now..], &other[now..]);
        }
    }
    rest.is_empty() && theirs.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_that_adjoin_are_one() {
        let whole = Payload::copy_of(b"shorthaul");
        let mut list = PayloadList::new();
        list.push(whole.slice(0..5)).unwrap();
        list.push(whole.slice(5..9)).unwrap();
        assert_eq!(list.slices().len(), 1);
        assert_eq!(list.len(), 9);
    }

    #[test]
    fn advance_and_truncate_cut_across_slices() {
        let mut list = PayloadList::new();
        for part in [b"abc".as_slice(), b"def", b"ghi"] {
            list.push(Payload::copy_of(part)).unwrap();
        }
        list.advance(4);
        list.truncate(3);
        assert_eq!(list, PayloadList::from(Payload::copy_of(b"efg")));
        list.truncate(2);
        assert_eq!((list.len(), list.slices().len()), (2, 1));
        list.advance(9);
        assert!(list.is_empty() && list.slices().is_empty());
    }

    #[test]
    fn a_full_list_gives_the_slice_back() {
        let mut list = PayloadList::new();
        for _ in 0..PayloadList::MAX_SLICES {
            list.push(Payload::copy_of(b"x")).unwrap();
        }
        assert_eq!(list.push(Payload::copy_of(b"y")).unwrap_err().as_slice(), b"y");
        assert_eq!(list.len(), PayloadList::MAX_SLICES);
    }

    #[test]
    fn small_writes_are_coalesced_only_where_nobody_looks() {
        let mut chunk = Chunk::new(8);
        chunk.append(b"ab");
        let mut payload = Payload::new(Arc::new(chunk), 0..2);
        assert_eq!(payload.try_append(b"cd"), 2);
        let view = payload.clone();
        assert_eq!(payload.try_append(b"ef"), 0);
        drop(view);
        assert_eq!(payload.try_append(b"efghij"), 4);
        assert_eq!(payload.as_slice(), b"abcdefgh");
    }
}
