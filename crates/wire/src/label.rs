//! Packet buffers in memory that outlives the process, and what is written on them for whoever finds them there.
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering, fence};

/// Whose bytes a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Labelled {
    /// Two numbers that tell streams from each other.
    pub stream: [u64; 2],
    /// The offset of the first byte in its stream.
    pub offset: u64,
    /// Where it lies in the buffer.
    pub start: u32,
    /// How many bytes there are.
    pub len: u32,
}

/// A note beside a packet buffer: whose bytes it holds, or nothing.
///
/// It is written by one thread. A checksum tells what was written whole. Another process may read it at any time: what it said before
/// and after bytes were read, they were. (The fences that this takes cost nothing where stores stay in order, as on x86.)
#[derive(Debug, Default)]
#[repr(C)]
pub struct Label([AtomicU64; 5]);

impl Labelled {
    fn words(&self) -> [u64; 4] {
        [self.stream[0], self.stream[1], self.offset, u64::from(self.start) << 32 | u64::from(self.len)]
    }
}

/// What is never zero, and different with each other label.
fn checksum(words: [u64; 4]) -> u64 {
    let mixed = words.into_iter().fold(0x9e37_79b9_7f4a_7c15, |sum: u64, word| {
        let product = u128::from(sum ^ word) * 0xd1b5_4a32_d192_ed03_u128;
        (product as u64 ^ (product >> 64) as u64).wrapping_add(word)
    });
    mixed | 1
}

impl Label {
    /// Bytes of a label.
    pub const SIZE: usize = size_of::<Label>();

    /// What it says, if it was written whole.
    pub fn read(&self) -> Option<Labelled> {
        let [words @ .., sum] = &self.0;
        fence(Ordering::Acquire);
        let words = words.each_ref().map(|word| word.load(Ordering::Relaxed));
        let said = Label::decode(words, sum.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        said
    }

    /// Reads a label from where it was found.
    pub fn find(bytes: &[u8; Self::SIZE]) -> Option<Labelled> {
        let (words, _) = bytes.as_chunks::<8>();
        let [words @ .., sum] =
            words.try_into().ok().map(|words: [[u8; 8]; 5]| words.map(u64::from_ne_bytes))?;
        Label::decode(words, sum)
    }

    fn decode(words: [u64; 4], sum: u64) -> Option<Labelled> {
        (sum == checksum(words)).then_some(Labelled {
            stream: [words[0], words[1]],
            offset: words[2],
            start: (words[3] >> 32) as u32,
            len: words[3] as u32,
        })
    }

    /// Writes it.
    pub fn write(&self, labelled: &Labelled) {
        self.erase();
        let words = labelled.words();
        for (to, word) in self.0.iter().zip(words) {
            to.store(word, Ordering::Relaxed);
        }
        fence(Ordering::Release);
        self.0[4].store(checksum(words), Ordering::Relaxed);
    }

    /// From now on the buffer holds nobody's bytes.
    pub fn erase(&self) {
        self.0[4].store(0, Ordering::Relaxed);
        fence(Ordering::Release);
    }
}

/// Who lends memory to packet buffers, and takes it back.
pub trait Lender: fmt::Debug + Send + Sync {
    /// A buffer is no more.
    fn give_back(&self, bytes: &'static mut [u8]);
}

/// Memory for a packet buffer that is somebody else's.
pub struct Lent {
    /// The memory.
    pub bytes: &'static mut [u8],
    /// The note beside it.
    pub label: &'static Label,
    /// Whose it is.
    pub lender: Arc<dyn Lender>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.label.erase();
        self.lender.give_back(core::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_read_as_it_was_written_and_every_bit_counts() {
        let label = Label::default();
        assert_eq!(label.read(), None);
        let labelled = Labelled { stream: [7, u64::MAX], offset: 1 << 40, start: 52, len: 1448 };
        label.write(&labelled);
        assert_eq!(label.read(), Some(labelled));
        let mut bytes = [0; Label::SIZE];
        for (to, word) in bytes.chunks_mut(8).zip(&label.0) {
            to.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        assert_eq!(Label::find(&bytes), Some(labelled));
        for bit in 0..8 * Label::SIZE {
            let mut torn = bytes;
            torn[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Label::find(&torn), None, "bit {bit}");
        }
        label.erase();
        assert_eq!(label.read(), None);
    }
}
