//! Spreading a window over its round trip.
use core::time::Duration;
use shorthaul_types::{BitRate, Time, keeps};

/// The time whose credit the bucket holds of a machine that serves its timers in time.
const PUNCTUAL: Duration = Duration::from_millis(1);

/// Credit is counted in billionths of a bit, the unit in which rate times nanoseconds is whole:
/// no rounding, so the long-run rate is exact.
const CREDIT_PER_BYTE: i128 = 8 * 1_000_000_000;

/// A token bucket that says when bytes may leave.
///
/// The bucket holds one quantum: a millisecond's worth of the rate, but at least two segments. So a
/// sender that was idle bursts by no more than that, and one that is woken up to a millisecond late,
/// because others had their turn, loses nothing of its rate.
///
/// On a machine that serves timers later than that the bucket holds what that time earns in addition, and a segment, for what
/// is left over of one at each wake-up ([`Pacer::set_lateness`]): a bucket of a millisecond that is emptied every ten loses
/// nine tenths of the rate. A sender that was idle has no claim to it ([`Pacer::on_transmit_start`]).
#[derive(Clone, Debug)]
pub struct Pacer {
    rate: Option<BitRate>,
    mss: u64,
    /// Credit at `updated`; negative after more was sent than there was budget for.
    credit: i128,
    updated: Time,
    /// The time whose credit the bucket holds.
    depth: Duration,
}

keeps!(Pacer { rate, mss, credit, updated, depth });

impl Pacer {
    /// An unlimited pacer for segments of `mss` bytes.
    pub fn new(mss: u32) -> Self {
        Pacer {
            rate: None,
            mss: u64::from(mss.max(1)),
            credit: i128::MAX,
            updated: Time::ZERO,
            depth: PUNCTUAL,
        }
    }

    /// Sets the rate; `None` is unlimited. What was sent keeps counting against the new rate.
    pub fn set_rate(&mut self, rate: Option<BitRate>) {
        self.rate = rate;
    }

    /// Sets the segment size that the quantum is measured by.
    pub fn set_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss.max(1));
    }

    /// Timers are served up to `late` after they are due: the bucket holds what that time earns, too. The caller bounds it by
    /// the burst that the path takes.
    pub fn set_lateness(&mut self, late: Duration) {
        self.depth = PUNCTUAL + late;
    }

    /// Something is sent after nothing was in flight: the credit that lateness lets gather is of the time before.
    pub fn on_transmit_start(&mut self, now: Time) {
        let Some(rate) = self.rate.filter(|_| self.depth > PUNCTUAL) else { return };
        let full = i128::from(self.quantum_of(rate, PUNCTUAL)) * CREDIT_PER_BYTE;
        self.credit = self.credit_at(now, rate).min(full);
        self.updated = self.updated.max(now);
    }

    /// The rate; `None` is unlimited.
    pub fn rate(&self) -> Option<BitRate> {
        self.rate
    }

    /// The largest burst, in bytes; `u64::MAX` if unlimited.
    pub fn quantum(&self) -> u64 {
        self.rate.map_or(u64::MAX, |rate| self.quantum_of(rate, self.depth))
    }

    fn quantum_of(&self, rate: BitRate, depth: Duration) -> u64 {
        let earned = u128::from(rate.bytes_per_sec()) * depth.as_nanos() / 1_000_000_000;
        // Who is woken seldom has to keep what is left over of a segment, too.
        let left_over = if depth > PUNCTUAL { self.mss } else { 0 };
        u64::try_from(earned).unwrap_or(u64::MAX).max(2 * self.mss).saturating_add(left_over)
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
