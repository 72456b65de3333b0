/// A running hash over everything that happens, in order: two runs that differ in one event, or in the
/// order of two, end with different values.
///
/// It is not cryptographic; it has to tell a changed run from an unchanged one, at a nanosecond an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceHash(u64);

impl TraceHash {
    #[inline]
    pub(crate) fn mix(&mut self, word: u64) {
        // the odd constant is 2⁶⁴ divided by the golden ratio
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// The value so far.
    pub fn value(self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}
