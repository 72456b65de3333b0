use alloc::collections::VecDeque;
use core::time::Duration;
use shorthaul_types::Time;

/// What is older than this is not looked for any more.
const OLDEST: Duration = Duration::from_secs(10);

/// What of traffic that is not split is on its way to the hosts of a group.
///
/// Nothing acknowledges it to us. But a bottleneck is a queue, first in, first out: what left before something that has been
/// acknowledged is through as well. Where nothing is acknowledged for longer than a round trip, it is taken to be.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    /// When what was sent, in that order; the first `overdue` of them count no more.
    sent: VecDeque<(Time, u64)>,
    overdue: usize,
    bytes: u64,
}

impl UnderWay {
    /// How many bytes are under way.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn on_send(&mut self, now: Time, bytes: u64) {
        self.bytes += bytes;
        let counted = self.overdue < self.sent.len();
        match self.sent.back_mut() {
            Some((at, sum)) if *at == now && counted => *sum += bytes,
            _ => self.sent.push_back((now, bytes)),
        }
    }

    /// Something that was sent at `acknowledged` has been acknowledged. The next that is through with it: when it was sent, and how many bytes.
    pub fn next_through(&mut self, acknowledged: Time) -> Option<(Time, u64)> {
        let (at, bytes) = self.sent.pop_front_if(|(at, _)| *at <= acknowledged)?;
        match self.overdue {
            0 => self.bytes -= bytes,
            _ => self.overdue -= 1,
        }
        Some((at, bytes))
    }

    /// What left longer than `round_trip` ago does not count any more.
    pub fn expire(&mut self, now: Time, round_trip: Duration) {
        while let Some((at, bytes)) = self.sent.get(self.overdue)
            && now.saturating_since(*at) >= round_trip
        {
            self.bytes -= bytes;
            self.overdue += 1;
        }
        while self.overdue > 0
            && self.sent.pop_front_if(|(at, _)| now.saturating_since(*at) >= OLDEST).is_some()
        {
            self.overdue -= 1;
        }
    }

    /// When the next of it counts no more.
    pub fn expires_at(&self, round_trip: Duration) -> Option<Time> {
        self.sent.get(self.overdue).map(|(at, _)| *at + round_trip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_left_before_something_that_is_acknowledged_is_through() {
        let at = Time::from_millis;
        let mut under_way = UnderWay::default();
        under_way.on_send(at(0), 1000);
        under_way.on_send(at(0), 500);
        under_way.on_send(at(10), 2000);
        assert_eq!((under_way.bytes(), under_way.next_through(at(5))), (3500, Some((at(0), 1500))));
        assert_eq!(under_way.next_through(at(5)), None);
        under_way.on_send(at(20), 300);
        let rtt = Duration::from_millis(50);
        assert_eq!(under_way.expires_at(rtt), Some(at(60)));
        under_way.expire(at(60), rtt);
        assert_eq!(under_way.bytes(), 300, "nothing was acknowledged for a round trip");
        let through = [20; 2].map(|ms| under_way.next_through(at(ms)));
        assert_eq!(through, [Some((at(10), 2000)), Some((at(20), 300))], "and it was delivered nevertheless");
        assert_eq!((under_way.bytes(), under_way.expires_at(rtt)), (0, None));
        under_way.on_send(at(100), 700);
        under_way.expire(at(20_000), rtt);
        assert_eq!((under_way.bytes(), under_way.next_through(at(20_000))), (0, None), "that was long ago");
    }
}
