use core::time::Duration;
use shorthaul_types::Time;

/// A sample counts for half of this time at least, and for all of it at most (RFC 7661 §4.2).
const SAMPLING_PERIOD: Duration = Duration::from_secs(1);
/// On long paths, for this many round trips.
const ROUND_TRIPS: u32 = 3;

/// What the path is known to carry in a round trip: pipeACK, the volume that was acknowledged within one of late (RFC 7661 §4.2).
///
/// A sender that has run out of data for a moment, as a leg behind another does whenever that repairs something, has little in
/// flight. A reduction by FlightSize alone would take that for the path.
#[derive(Debug)]
pub(super) struct PipeAck {
    /// The round ends when this is acknowledged.
    pub(super) round_end: u64,
    /// What was delivered when it began.
    pub(super) delivered: u64,
    /// The largest samples of this half of the sampling period and of the one before.
    pub(super) halves: [u64; 2],
    pub(super) half_began: Time,
}

impl PipeAck {
    /// Nothing was sent yet, from `next` on.
    pub fn new(now: Time, next: u64) -> Self {
        PipeAck { round_end: next, delivered: 0, halves: [0; 2], half_began: now }
    }

    /// SND.UNA is `una` now, SND.NXT `nxt`, and `delivered` bytes were delivered in all; a round trip takes `rtt`.
    pub fn on_ack(&mut self, now: Time, una: u64, nxt: u64, delivered: u64, rtt: Duration) {
        let half = SAMPLING_PERIOD.max(rtt * ROUND_TRIPS) / 2;
        let passed = now.saturating_since(self.half_began);
        if passed >= half {
            self.halves = if passed < half * 2 { [0, self.halves[0]] } else { [0; 2] };
            self.half_began = now;
        }
        if una >= self.round_end {
            self.halves[0] = self.halves[0].max(delivered - self.delivered);
            (self.round_end, self.delivered) = (nxt, delivered);
        }
    }

    /// The volume, in bytes; 0 while it is not known.
    pub fn bytes(&self) -> u64 {
        self.halves[0].max(self.halves[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn at(ms: u64) -> Time {
        Time::from_secs(1) + Duration::from_millis(ms)
    }

    #[test]
    fn a_round_counts_as_a_whole_and_is_forgotten_after_the_sampling_period() {
        let mut pipe = PipeAck::new(at(0), 1000);
        assert_eq!(pipe.bytes(), 0);
        // The first round: what was sent before an acknowledgment came.
        pipe.on_ack(at(100), 2000, 21_000, 1000, RTT);
        // The second, acknowledged in two parts: 20 kB.
        pipe.on_ack(at(150), 11_000, 31_000, 10_000, RTT);
        assert_eq!(pipe.bytes(), 1000, "a part of a round is no sample");
        pipe.on_ack(at(200), 21_000, 22_000, 20_000, RTT);
        assert_eq!(pipe.bytes(), 19_000);
        // Hardly anything is sent from here on.
        let mut una = 21_000;
        for ms in (300..=600).step_by(100) {
            una += 1000;
            pipe.on_ack(at(ms), una, una + 1000, una - 1000, RTT);
            assert_eq!(pipe.bytes(), 19_000, "{ms}");
        }
        for ms in (700..=1200).step_by(100) {
            una += 1000;
            pipe.on_ack(at(ms), una, una + 1000, una - 1000, RTT);
        }
        assert_eq!(pipe.bytes(), 1000);
    }

    #[test]
    fn after_a_long_silence_nothing_is_known() {
        let mut pipe = PipeAck::new(at(0), 0);
        pipe.on_ack(at(100), 5000, 5000, 5000, RTT);
        assert_eq!(pipe.bytes(), 5000);
        pipe.on_ack(at(5000), 5001, 6000, 5001, RTT);
        assert_eq!(pipe.bytes(), 1);
    }
}
