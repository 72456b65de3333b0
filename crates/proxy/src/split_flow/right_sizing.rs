//! How much may be held of what an end sends: what its path needs.
use core::time::Duration;
use shorthaul_types::{Time, keeps};

/// What may be held before anything is known of the path: enough for 500 Mbit/s over 60 ms.
const FIRST: u64 = 4 << 20;
/// What a flow has at least that another gateway had, which may just have closed its window.
const LEAST: u64 = 1 << 20;

/// The size of a direction's buffer, found as a receiver finds its window's (dynamic right-sizing; Fisk and Feng, "Dynamic Right-Sizing
/// in TCP", 2001): by what is delivered in a round trip. A byte has its place from when it is offered until the other end has acknowledged
/// it, so that a round trip of both legs counts; and twice as much leaves a sender room to double.
///
/// What was delivered, not what came: where the second leg is the slower one, more room would only be filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct RightSizing {
    /// In KiB: every flow has two of these.
    size: u32,
    /// The lowest bits of what was delivered.
    delivered: u32,
    since: Time,
}

keeps!(RightSizing { size, delivered, since });

impl RightSizing {
    /// Of a new flow.
    pub fn new(now: Time) -> Self {
        RightSizing { size: in_kib(FIRST), delivered: 1, since: now }
    }

    /// Another gateway had the flow, of which so many bytes were delivered, and up to `edge` its sender may send: with more at once
    /// than it had been offered, senders whose round trips tell nothing for a while would fill the queue before the gateway.
    pub fn go_on(&mut self, now: Time, delivered: u64, edge: u64) {
        let offered = in_kib(edge.saturating_sub(delivered).max(LEAST));
        let size = if self.size == u32::MAX { u32::MAX } else { offered };
        *self = RightSizing { size, delivered: delivered as u32, since: now };
    }

    /// It is not to find its size, but has what it may have at most.
    pub fn fixed() -> Self {
        RightSizing { size: u32::MAX, delivered: 0, since: Time::ZERO }
    }

    /// In bytes. What the gateway may hold of a flow bounds it besides.
    pub fn size(&self) -> u64 {
        u64::from(self.size) << 10
    }

    /// So many bytes are delivered in all, and the shortest round trips of both legs take `round_trip` together.
    pub fn on_delivered(&mut self, now: Time, delivered: u64, round_trip: Duration) {
        let passed = now.saturating_since(self.since);
        if passed < round_trip || passed.is_zero() {
            return;
        }
        // More than 4 GiB in one look would be less here, and looks are a round trip apart while something is delivered.
        let bytes = u128::from((delivered as u32).wrapping_sub(self.delivered));
        (self.since, self.delivered) = (now, delivered as u32);
        let needed = 2 * bytes * round_trip.as_nanos() / passed.as_nanos();
        self.size = self.size.max(in_kib(u64::try_from(needed).unwrap_or(u64::MAX)));
    }
}

fn in_kib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Time = Time::from_millis;

    #[test]
    fn it_doubles_as_long_as_it_binds_and_not_beyond_what_the_path_needs() {
        let mut buffer = RightSizing::new(MS(0));
        let (rate, round_trip) = (62_500u64, 300); // 500 Mbit/s, as bytes in a millisecond
        let (mut at, mut delivered) = (0, 1);
        for _ in 0..100 {
            at += round_trip;
            delivered += buffer.size().min(rate * round_trip);
            buffer.on_delivered(MS(at), delivered, Duration::from_millis(round_trip));
        }
        assert_eq!(buffer.size(), (2 * rate * round_trip).next_multiple_of(1 << 10));
    }

    #[test]
    fn a_slow_path_has_what_it_had_however_much_comes_at_once() {
        let mut buffer = RightSizing::new(MS(0));
        let round_trip = Duration::from_millis(600);
        for (at, delivered) in [(600, 750_000), (1300, 1_500_000), (1301, 3_500_000), (9000, 20_000_000)] {
            buffer.on_delivered(MS(at), delivered, round_trip);
            assert_eq!(buffer.size(), FIRST, "at {at} ms");
        }
    }

    #[test]
    fn after_silence_what_came_before_counts_for_its_time() {
        let mut buffer = RightSizing::new(MS(0));
        buffer.on_delivered(MS(100_000), 50_000_001, Duration::from_millis(100));
        assert_eq!(buffer.size(), FIRST);
        assert!(RightSizing::fixed().size() > 1 << 40);
        let mut resumed = RightSizing::new(MS(0));
        resumed.go_on(MS(0), 1, (1 << 20) + 1);
        assert_eq!(resumed.size(), 1 << 20, "what another gateway has offered");
        resumed.on_delivered(MS(20), (1 << 20) + 1, Duration::from_millis(20));
        assert_eq!(resumed.size(), 2 << 20);
        resumed.go_on(MS(20), 1, 1);
        assert_eq!(resumed.size(), LEAST);
    }
}
