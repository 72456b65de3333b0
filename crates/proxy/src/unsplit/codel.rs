//! Controlled delay (RFC 8289): which packets of a queue are dropped, or marked, so that what it holds does not stand.
use core::time::Duration;
use shorthaul_types::Time;

/// What may wait for all of an interval at least (RFC 8289 §4.4).
pub(super) const TARGET: Duration = Duration::from_millis(5);
/// About the longest round trip that is usual (RFC 8289 §4.4).
const INTERVAL: Duration = Duration::from_millis(100);
/// A queue of no more than this is none (RFC 8289 §5.4: less than a packet of the link). That is a packet as the link has it, not a batch that
/// an offload put together: of those two are 128 kB, which does stand. (Linux's `codel_should_drop` compares with the MTU for that
/// reason, too.)
const PACKET: u64 = 1514;

/// What a packet of a scalable sender may wait before it is marked: a step, as low as where marking begins in RFC 9332 (appendix A.1).
const STEP: Duration = Duration::from_millis(1);

/// Whether a packet of a scalable sender (RFC 9331) that has waited for `waited` is to be marked, with `left` bytes behind it. Those senders answer the share of
/// packets that are marked, so each that waited is. What waits for its `turn` is no queue.
pub(super) fn is_above_step(waited: Duration, left: u64, turn: Duration) -> bool {
    waited >= STEP + turn && left > PACKET
}

/// The state of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Codel {
    /// When what waits will have waited for longer than the target for an interval; `None` if it does not.
    above_until: Option<Time>,
    dropping: bool,
    drop_at: Time,
    /// Drops since it entered the state of dropping, and in the last such state.
    count: u32,
    last_count: u32,
}

impl Codel {
    /// A packet that has waited for `waited` is about to leave, and `left` bytes stay behind it. Whether it is to be dropped or
    /// marked instead, where packets may wait for `target`.
    pub fn is_too_late(&mut self, now: Time, waited: Duration, left: u64, target: Duration) -> bool {
        let ok_to_drop = self.is_standing(now, waited < target, left);
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
                return false;
            }
            if now < self.drop_at {
                return false;
            }
            self.count += 1;
            self.drop_at += codel_spacing(INTERVAL, self.count);
            return true;
        }
        if !ok_to_drop {
            return false;
        }
        self.dropping = true;
        // Where it was dropping not long ago, it goes on near the rate that was right then (§5.5).
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now.saturating_since(self.drop_at) < 16 * INTERVAL;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.drop_at = now + codel_spacing(INTERVAL, self.count);
        true
    }

    fn is_standing(&mut self, now: Time, in_time: bool, left: u64) -> bool {
        if in_time || left <= PACKET {
            self.above_until = None;
            return false;
        }
        match self.above_until {
            None => {
                self.above_until = Some(now + INTERVAL);
                false
            }
            Some(until) => now >= until,
        }
    }
}

/// The control law of controlled delay: `interval` over the square root of the `count` of drops so far (RFC 8289 §4.1).
pub fn codel_spacing(interval: Duration, count: u32) -> Duration {
    // In whole numbers: the square root of 2^20 times the count is 1024 times that of the count.
    let root = (u64::from(count.max(1)) << 20).isqrt();
    Duration::from_nanos((interval.as_nanos() as u64).saturating_mul(1024) / root)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue in which each packet has waited for `waited`, one leaving each millisecond: when packets are dropped.
    fn drops(waited: Duration, for_ms: u64) -> alloc::vec::Vec<u64> {
        let mut codel = Codel::default();
        let at = |ms| Time::from_millis(1000 + ms);
        (0..for_ms).filter(|ms| codel.is_too_late(at(*ms), waited, 30_000, TARGET)).collect()
    }

    #[test]
    fn a_queue_that_stands_for_an_interval_is_dropped_from_faster_and_faster() {
        assert!(drops(Duration::from_millis(4), 2000).is_empty(), "below the target nothing is");
        let drops = drops(Duration::from_millis(20), 600);
        assert_eq!(drops[..4], [100, 200, 271, 329], "interval, interval, over √2, over √3");
    }

    #[test]
    fn a_burst_that_drains_and_a_single_packet_lose_nothing() {
        let mut codel = Codel::default();
        for ms in 0..1000_u64 {
            // Each time before the interval is over, the queue is short once.
            let waited = Duration::from_millis(if ms % 90 == 0 { 0 } else { 30 });
            assert!(!codel.is_too_late(Time::from_millis(ms), waited, 30_000, TARGET), "{ms}");
        }
        let mut alone = Codel::default();
        let second = Duration::from_secs(1);
        assert!((0..1000).all(|ms| !alone.is_too_late(Time::from_millis(ms), second, 1514, TARGET)));
    }
}
