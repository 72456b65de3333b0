use core::fmt;
use core::ops::Add;

/// A TCP sequence number (RFC 9293 §3.4): 32 bits that wrap.
///
/// It has no `Ord`, because "less" means nothing without saying "within 2³¹"; the methods do.
/// State that lives longer than one packet is kept as unwrapped `u64` offsets instead
/// (see [`SeqSpace`]).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SeqNum(pub u32);

impl SeqNum {
    /// How far this is ahead of `other`: negative if behind, within ±2³¹.
    pub const fn diff(self, other: SeqNum) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// Strictly before `other`.
    pub const fn before(self, other: SeqNum) -> bool {
        self.diff(other) < 0
    }

    /// Strictly after `other`.
    pub const fn after(self, other: SeqNum) -> bool {
        self.diff(other) > 0
    }
}

impl Add<u32> for SeqNum {
    type Output = SeqNum;
    fn add(self, n: u32) -> SeqNum {
        SeqNum(self.0.wrapping_add(n))
    }
}

impl fmt::Debug for SeqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One direction's sequence space, unwrapped: offset 0 is the SYN, offset 1 the first byte.
///
/// Offsets are `u64`, so they order and never wrap; only the header has 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeqSpace {
    isn: SeqNum,
}

impl SeqSpace {
    /// The space whose SYN carried `isn`.
    pub const fn new(isn: SeqNum) -> Self {
        SeqSpace { isn }
    }

    /// The sequence number of `offset`.
    pub const fn seq(self, offset: u64) -> SeqNum {
        SeqNum(self.isn.0.wrapping_add(offset as u32))
    }

    /// The offset nearest to `reference` that `seq` can stand for.
    ///
    /// What would lie before the SYN is returned as `None`: no such byte exists.
    pub const fn offset(self, seq: SeqNum, reference: u64) -> Option<u64> {
        let ahead = seq.diff(self.seq(reference)) as i64;
        reference.checked_add_signed(ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_offset_survives_the_header(isn: u32, offset in 0u64..1 << 40, error in -(1i64 << 31) + 1..1i64 << 31) {
            let space = SeqSpace::new(SeqNum(isn));
            let reference = offset.saturating_add_signed(error);
            prop_assume!(reference.abs_diff(offset) < 1 << 31);
            prop_assert_eq!(space.offset(space.seq(offset), reference), Some(offset));
        }
    }

    #[test]
    fn numbers_compare_across_the_wrap() {
        assert!(SeqNum(u32::MAX).before(SeqNum(5)));
        assert!(SeqNum(5).after(SeqNum(u32::MAX)));
        assert_eq!(SeqNum(u32::MAX) + 2, SeqNum(1));
    }

    #[test]
    fn nothing_lies_before_the_syn() {
        let space = SeqSpace::new(SeqNum(100));
        assert_eq!(space.offset(SeqNum(99), 0), None);
        assert_eq!(space.offset(SeqNum(100), 5), Some(0));
    }
}
