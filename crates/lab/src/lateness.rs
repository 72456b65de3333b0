use std::time::Duration;

/// Buckets per power of two: values are known to one part in 16.
const SUB_BITS: u32 = 4;
const BUCKETS: usize = 61 << SUB_BITS;

/// How late something was, over and over: a histogram of nanoseconds with a relative error of 6 %, without
/// allocation when counting.
#[derive(Clone)]
pub(crate) struct Lateness {
    buckets: Box<[u64]>,
    count: u64,
    max: u64,
}

/// How late the emulator delivered packets, against the time that the link model gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatenessStats {
    /// Packets delivered.
    pub count: u64,
    /// Half of them were at most this late.
    pub p50: Duration,
    /// 99 % of them were at most this late.
    pub p99: Duration,
    /// 99.9 % of them were at most this late.
    pub p999: Duration,
    /// The latest one.
    pub max: Duration,
}

impl Default for Lateness {
    fn default() -> Self {
        Lateness { buckets: vec![0; BUCKETS].into_boxed_slice(), count: 0, max: 0 }
    }
}

impl Lateness {
    #[inline]
    pub(crate) fn count(&mut self, late: Duration) {
        let nanos = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(nanos)] += 1;
        self.count += 1;
        self.max = self.max.max(nanos);
    }

    pub(crate) fn stats(&self) -> LatenessStats {
        LatenessStats {
            count: self.count,
            p50: self.quantile(0.5),
            p99: self.quantile(0.99),
            p999: self.quantile(0.999),
            max: Duration::from_nanos(self.max),
        }
    }

    /// The smallest bound of a bucket below which at least `share` of the values are.
    fn quantile(&self, share: f64) -> Duration {
        let wanted = (self.count as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return Duration::from_nanos(upper_bound(index).min(self.max));
            }
        }
        Duration::ZERO
    }
}

/// Values below 16 have buckets of their own; above, 16 buckets share each power of two.
fn bucket(value: u64) -> usize {
    let exponent = (u64::BITS - value.leading_zeros()).saturating_sub(SUB_BITS + 1);
    ((exponent << SUB_BITS) as u64 + (value >> exponent)) as usize
}

/// The largest value in a bucket.
fn upper_bound(index: usize) -> u64 {
    let exponent = (index >> SUB_BITS).saturating_sub(1) as u32;
    let mantissa = index as u64 - u64::from(exponent << SUB_BITS);
    (mantissa << exponent) | ((1 << exponent) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_all_values_in_order() {
        let values = (0..64)
            .flat_map(|shift| (0..40u64).map(move |n| (1u64 << shift).saturating_add(n << shift >> 5)));
        let mut values: Vec<u64> = values.chain([0, u64::MAX]).collect();
        values.sort_unstable();
        for pair in values.windows(2) {
            assert!(bucket(pair[0]) <= bucket(pair[1]), "{pair:?}");
        }
        for value in values {
            let bound = upper_bound(bucket(value));
            assert!(bound >= value && bound - value <= value / 16, "{value} in a bucket up to {bound}");
            assert!(bucket(value) < BUCKETS, "{value}");
        }
    }

    #[test]
    fn percentiles_are_those_of_what_was_counted() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.stats(), LatenessStats::default());
        for micros in 1..=1000 {
            lateness.count(Duration::from_micros(micros));
        }
        let stats = lateness.stats();
        let near = |found: Duration, wanted: u64| {
            let found = found.as_secs_f64() * 1e6;
            assert!((found / wanted as f64 - 1.0).abs() < 0.07, "{found} instead of {wanted}");
        };
        near(stats.p50, 500);
        near(stats.p99, 990);
        near(stats.p999, 999);
        assert_eq!((stats.count, stats.max), (1000, Duration::from_millis(1)));
    }
}
