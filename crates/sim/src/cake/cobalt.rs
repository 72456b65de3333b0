//! COBALT, the queue management of CAKE: controlled delay, and BLUE for flows that do not answer it.
use shorthaul_proxy::codel_spacing;
use shorthaul_types::{BitRate, Bytes, Time};
use std::time::Duration;

/// The longest packet that counts for what waits at least.
const MTU: Bytes = Bytes(1514);
/// By how much the probability of BLUE rises when the queue overflows: 1/256 of 2³².
const RISE: u32 = 1 << 24;
/// By how much it falls when the queue is empty: 1/4096.
const FALL: u32 = 1 << 20;

/// What all flows of a queue have in common; it follows from the rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    interval: Duration,
    target: Duration,
    /// What a full packet takes of the link.
    mtu_time: Duration,
}

impl Parameters {
    /// For a round trip of `rtt`: a twentieth of it may wait, and one and a half packets at least.
    pub fn of(rate: Option<BitRate>, rtt: Duration) -> Self {
        let mtu_time = rate.map_or(Duration::ZERO, |rate| rate.time_to_send(MTU));
        let usual = rtt / 20;
        let target = usual.max(mtu_time * 3 / 2);
        Parameters { interval: (rtt + target - usual).max(target * 2), target, mtu_time }
    }

    pub fn interval(&self) -> Duration {
        self.interval
    }
}

/// What is to become of a packet that is about to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Leaves,
    /// Controlled delay would drop it, but for a mark.
    MarkOrDrop,
    /// BLUE drops it, whatever it may carry.
    Drop,
}

/// The state of one flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cobalt {
    /// Drops of controlled delay; falls again once the queue is short.
    count: u32,
    dropping: bool,
    drop_next: Time,
    blue_changed: Time,
    /// The probability of BLUE, of 2³².
    blue: u32,
}

impl Cobalt {
    /// Something of this flow had to be dropped, for there was no room.
    pub fn on_full(&mut self, now: Time, parameters: &Parameters) {
        if now.saturating_since(self.blue_changed) > parameters.target {
            self.blue = self.blue.saturating_add(RISE);
            self.blue_changed = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// It had its turn, and nothing was there.
    pub fn on_empty(&mut self, now: Time, parameters: &Parameters) {
        if self.blue > 0 && now.saturating_since(self.blue_changed) > parameters.target {
            self.blue = self.blue.saturating_sub(FALL);
            self.blue_changed = now;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.count -= 1;
            self.drop_next += codel_spacing(parameters.interval, self.count);
        }
    }

    /// Whether it has forgotten what was.
    pub fn is_at_rest(&self, now: Time) -> bool {
        self.blue == 0 && self.count == 0 && now >= self.drop_next
    }

    /// A packet that has waited for `waited` is about to leave, one of `bulk_flows` flows that always have one; `chance` is drawn for it.
    pub fn decide(
        &mut self,
        now: Time,
        parameters: &Parameters,
        waited: Duration,
        bulk_flows: u32,
        chance: u32,
    ) -> Verdict {
        let Parameters { interval, target, mtu_time } = *parameters;
        let over = waited > target && waited > mtu_time * bulk_flows * 2 && waited > mtu_time * 4;
        let mut next_due = self.count > 0 && now >= self.drop_next;
        if over {
            if !self.dropping {
                self.dropping = true;
                self.drop_next = now + codel_spacing(interval, self.count);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        let mut verdict = Verdict::Leaves;
        if next_due && self.dropping {
            verdict = Verdict::MarkOrDrop;
            self.count = self.count.saturating_add(1);
            self.drop_next += codel_spacing(interval, self.count);
        } else {
            while next_due {
                self.count -= 1;
                self.drop_next += codel_spacing(interval, self.count);
                next_due = self.count > 0 && now >= self.drop_next;
            }
        }
        if self.blue > 0 && chance < self.blue {
            verdict = Verdict::Drop;
        }
        if self.count == 0 {
            self.drop_next = now + interval;
        } else if now > self.drop_next && verdict == Verdict::Leaves {
            self.drop_next = now;
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn ms(at: u64) -> Time {
        Time::from_millis(1000 + at)
    }

    /// When packets that have waited for `waited` are dropped, one leaving each millisecond.
    fn drops(cobalt: &mut Cobalt, waited: Duration, range: std::ops::Range<u64>) -> Vec<u64> {
        let parameters = Parameters::of(None, RTT);
        range
            .filter(|at| cobalt.decide(ms(*at), &parameters, waited, 1, u32::MAX) != Verdict::Leaves)
            .collect()
    }

    #[test]
    fn what_stands_is_dropped_from_after_an_interval_and_faster_and_faster() {
        let mut cobalt = Cobalt::default();
        assert!(drops(&mut cobalt, Duration::from_millis(4), 0..2000).is_empty());
        let found = drops(&mut cobalt, Duration::from_millis(20), 2000..2700);
        assert_eq!(found[..4], [2100, 2171, 2229, 2279], "an interval, and over √2, √3, √4");
    }

    #[test]
    fn drops_are_forgotten_one_by_one_and_not_at_once() {
        let mut cobalt = Cobalt::default();
        let many = drops(&mut cobalt, Duration::from_millis(20), 0..1000).len() as u32;
        assert_eq!(cobalt.count, many + 1);
        drops(&mut cobalt, Duration::from_millis(1), 1000..1050);
        assert!(cobalt.count < many && cobalt.count > many / 2, "{} of {many}", cobalt.count);
        assert!(!cobalt.is_at_rest(ms(1050)));
        drops(&mut cobalt, Duration::from_millis(1), 1050..3000);
        assert_eq!(cobalt.count, 0);
        assert!(cobalt.is_at_rest(ms(3100)));
    }

    #[test]
    fn whoever_overflows_the_queue_is_dropped_from_by_chance_until_it_is_empty() {
        let parameters = Parameters::of(None, RTT);
        let mut cobalt = Cobalt::default();
        for at in 0..10 {
            cobalt.on_full(ms(10 * at), &parameters);
            cobalt.on_full(ms(10 * at) + Duration::from_millis(1), &parameters);
        }
        assert_eq!(cobalt.blue, 10 * RISE, "once a target");
        let none = Duration::ZERO;
        assert_eq!(cobalt.decide(ms(100), &parameters, none, 1, 10 * RISE - 1), Verdict::Drop);
        assert_eq!(cobalt.decide(ms(100), &parameters, none, 1, 10 * RISE), Verdict::Leaves);
        (0..161).for_each(|at| cobalt.on_empty(ms(200 + 6 * at), &parameters));
        assert_eq!(cobalt.blue, 0);
    }

    #[test]
    fn a_slow_link_may_have_four_packets_waiting() {
        let slow = Parameters::of(Some(BitRate::from_bits_per_sec(1_000_000)), RTT);
        assert_eq!(slow.target, Duration::from_micros(18_168));
        assert_eq!(slow.interval, Duration::from_micros(113_168));
        let mut cobalt = Cobalt::default();
        let late = |cobalt: &mut Cobalt, waited: u64| {
            (0..500).any(|at| {
                let waited = Duration::from_millis(waited);
                cobalt.decide(ms(at), &slow, waited, 1, u32::MAX) != Verdict::Leaves
            })
        };
        assert!(!late(&mut cobalt, 48), "four full packets take 48.4 ms");
        assert!(late(&mut cobalt, 49));
    }
}
