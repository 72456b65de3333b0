//! Spreading a window over its round trip.
use shorthaul_types::{BitRate, Time};

/// Credit is counted in billionths of a bit, the unit in which rate times nanoseconds is whole:
/// no rounding, so the long-run rate is exact.
const CREDIT_PER_BYTE: i128 = 8 * 1_000_000_000;

/// A token bucket that says when bytes may leave.
///
/// The bucket holds one quantum: a millisecond's worth of the rate, but at least two segments. So a
/// sender that was idle bursts by no more than that, and one that is woken up to a millisecond late,
/// because others had their turn, loses nothing of its rate.
#[derive(Clone, Debug)]
pub struct Pacer {
    rate: Option<BitRate>,
    mss: u64,
    /// Credit at `updated`; negative after more was sent than there was budget for.
    credit: i128,
    updated: Time,
}

impl Pacer {
    /// An unlimited pacer for segments of `mss` bytes.
    pub fn new(mss: u32) -> Self {
        Pacer { rate: None, mss: u64::from(mss.max(1)), credit: i128::MAX, updated: Time::ZERO }
    }

    /// Sets the rate; `None` is unlimited. What was sent keeps counting against the new rate.
    pub fn set_rate(&mut self, rate: Option<BitRate>) {
        self.rate = rate;
    }

    /// Sets the segment size that the quantum is measured by.
    pub fn set_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss.max(1));
    }

    /// The rate; `None` is unlimited.
    pub fn rate(&self) -> Option<BitRate> {
        self.rate
    }

    /// The largest burst, in bytes; `u64::MAX` if unlimited.
    pub fn quantum(&self) -> u64 {
        let Some(rate) = self.rate else { return u64::MAX };
        (rate.bytes_per_sec() / 1000).max(2 * self.mss)
    }

    /// How many bytes may leave now; `u64::MAX` if unlimited.
    pub fn budget(&self, now: Time) -> u64 {
        let Some(rate) = self.rate else { return u64::MAX };
        u64::try_from(self.credit_at(now, rate) / CREDIT_PER_BYTE).unwrap_or(0)
    }

    /// `bytes` left now. If that is more than the budget, what follows waits the longer.
    pub fn on_send(&mut self, now: Time, bytes: u64) {
        let Some(rate) = self.rate else {
            // Unlimited sending leaves no debt behind: a rate set later begins with a full bucket.
            self.credit = i128::MAX;
            return;
        };
        self.credit = self.credit_at(now, rate).saturating_sub(i128::from(bytes) * CREDIT_PER_BYTE);
        self.updated = self.updated.max(now);
    }

    /// When `bytes`, or a quantum if that is less, may leave; `None` means now. At a rate of zero
    /// that is never: [`Time::MAX`].
    ///
    /// Ask for one segment rather than for a whole quantum: then a late timer loses nothing,
    /// because what the lateness earned still fits into the bucket.
    pub fn next_send(&self, now: Time, bytes: u64) -> Option<Time> {
        let rate = self.rate?;
        let wanted = i128::from(bytes.min(self.quantum())) * CREDIT_PER_BYTE;
        let missing = wanted.saturating_sub(self.credit_at(now, rate));
        if missing <= 0 {
            return None;
        }
        if rate.bits_per_sec() == 0 {
            return Some(Time::MAX);
        }
        let nanos = missing.unsigned_abs().div_ceil(u128::from(rate.bits_per_sec()));
        let start = self.updated.max(now).as_nanos();
        Some(Time::from_nanos(start.saturating_add(u64::try_from(nanos).unwrap_or(u64::MAX))))
    }

    fn credit_at(&self, now: Time, rate: BitRate) -> i128 {
        let elapsed = now.saturating_since(self.updated).as_nanos();
        let earned = i128::try_from(elapsed * u128::from(rate.bits_per_sec())).unwrap_or(i128::MAX);
        let full = i128::from(self.quantum()) * CREDIT_PER_BYTE;
        self.credit.saturating_add(earned).min(full)
    }
}
