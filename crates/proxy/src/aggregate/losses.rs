//! Losses that last: the window is larger than what the path and its queue hold.
//!
//! A radio link loses something whatever the window, and a window that is found has no answer to that. But who loses much more, and goes on
//! so, loses to a full queue; perhaps one that was full when he came, so that no round trip tells. The connections that the window stands for would
//! hold back (RFC 5681, RFC 9438).

/// What radio links lose after their own retransmissions is less than this, in thousandths of what is sent.
const LITTLE: u64 = 50;
/// So many segments are no sign, however small the window is.
const SEGMENTS: u64 = 8;

/// By how much more was lost than a link loses: a cumulative sum (Page 1954). That of one outage is less than a window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    /// In thousandths of a byte.
    excess: u64,
}

impl Losses {
    /// So many bytes were lost.
    pub fn on_lost(&mut self, bytes: u64) {
        self.excess = self.excess.saturating_add(bytes * (1000 - LITTLE));
    }

    /// So many bytes were delivered, of a window with segments of `mss` bytes. Whether losses last.
    pub fn on_delivery(&mut self, bytes: u64, window: u64, mss: u32) -> bool {
        self.excess = self.excess.saturating_sub(bytes * LITTLE);
        self.excess / 1000 > window + SEGMENTS * u64::from(mss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;
    const WINDOW: u64 = 100_000;

    /// After how many windows, each delivered but for `lost` of its hundred segments, losses last.
    fn lasts_after(lost: impl Fn(u32) -> u64) -> Option<u32> {
        let mut losses = Losses::default();
        (1..=1000).find(|window| {
            let lost = lost(*window) * u64::from(MSS);
            losses.on_lost(lost);
            losses.on_delivery(WINDOW - lost, WINDOW, MSS)
        })
    }

    #[test]
    fn much_that_is_lost_for_long_lasts_and_what_a_radio_link_loses_does_not() {
        assert_eq!(lasts_after(|_| 17), Some(10));
        assert_eq!(lasts_after(|_| 5), None);
        assert_eq!(lasts_after(|window| if window % 25 == 0 { 100 } else { 0 }), None, "outages");
    }
}
