//! Rates, times and volumes: the arithmetic of bandwidth-delay products. Rates are bits per
//! second in a `u64`; whatever would overflow saturates.
use core::time::Duration;

/// The bytes that `rate` carries in `time`, rounded up: a pipe that is rounded down is not full.
pub(crate) fn in_time(rate: u64, time: Duration) -> u64 {
    // 2^64 bit/s over 2^64 ns, the longest that a clock of nanoseconds can tell, fit 128 bits.
    let nanos = time.as_nanos().min(u128::from(u64::MAX));
    saturate((u128::from(rate) * nanos).div_ceil(8_000_000_000))
}

/// The rate of `bytes` in `time`; zero if no time has passed.
pub(crate) fn rate(bytes: u64, time: Duration) -> u64 {
    (u128::from(bytes) * 8_000_000_000).checked_div(time.as_nanos()).map_or(0, saturate)
}

/// `value` times `part` / `whole`; `value` where the whole is nothing.
pub(crate) fn share(value: u64, part: u64, whole: u64) -> u64 {
    (u128::from(value) * u128::from(part)).checked_div(u128::from(whole)).map_or(value, saturate)
}

/// A dimensionless factor in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Gain(pub u32);

impl Gain {
    pub(crate) const ONE: Gain = Gain(1000);

    /// `value` times this.
    pub(crate) fn of(self, value: u64) -> u64 {
        saturate(u128::from(value) * u128::from(self.0) / 1000)
    }
}

fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bandwidth_delay_product_is_rounded_up_and_never_overflows() {
        assert_eq!(in_time(10_000_000, Duration::from_millis(40)), 50_000);
        assert_eq!(in_time(1, Duration::from_secs(1)), 1);
        assert_eq!(in_time(u64::MAX, Duration::MAX), u64::MAX);
        assert_eq!(rate(50_000, Duration::from_millis(40)), 10_000_000);
        assert_eq!(rate(u64::MAX, Duration::from_nanos(1)), u64::MAX);
        assert_eq!(rate(5, Duration::ZERO), 0);
        assert_eq!((share(10, 3, 2), share(10, 3, 0), share(u64::MAX, 3, 2)), (15, 10, u64::MAX));
        assert_eq!(Gain(1250).of(1001), 1251);
        assert_eq!(Gain(2000).of(u64::MAX), u64::MAX);
    }
}
