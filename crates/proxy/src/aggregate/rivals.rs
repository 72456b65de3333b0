//! Whether others fill the queue, and whether it pays to compete with them: when it is asked, and what comes of the answer.
//!
//! ```text
//! asked    where round trips stay long although the window was smaller (a path that is long under load does that, too): the window is
//!          larger by turns (`elasticity`) until the answer is certain, or 64 round trips are over
//! Shared   the window competes (`competition`): it grows as in slow start to what has half of the link, and is one of losses from there on
//! ends     when turns show that nobody is there any more; or when it has less than before, which is told every five seconds
//! again    10 s later; each answer that changed nothing doubles that, up to 160 s
//! ```
use super::elasticity::{AROUND, Elasticity, Link, OFFERED, RAISED, Swing};
use core::time::Duration;
use shorthaul_types::Time;

/// The queue that a start leaves is gone after this time.
const FIRST: Duration = Duration::from_millis(500);
/// It is asked again after this time, at first and at most.
const WAIT: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(160)];
/// The same where somebody is there who has less than we: that may change soon.
const SOON: Duration = Duration::from_secs(3);
/// The part of a change that the rate follows where somebody is there.
const OTHERS: f64 = 0.25;
/// Round trips that become so many times as long show that the link has become slower: the window makes them half as long again.
const FALLEN: u32 = 4;
/// So many round trips are enough for an answer; of what others are offered more, for their path is drained now and then while it is in doubt.
const ENOUGH: [u32; 2] = [64, 192];
/// Whether it pays is seen in so much time, and in so many round trips.
const PAYS: Duration = Duration::from_secs(5);
const PAYS_ROUND_TRIPS: u32 = 32;
/// A window that competes begins with so many times the former one at most.
const MOST: f64 = 4.0;

/// What was delivered since some time.
#[derive(Clone, Copy, Debug)]
struct Meter {
    since: Time,
    bytes: u64,
}

impl Meter {
    fn new(since: Time) -> Self {
        Meter { since, bytes: 0 }
    }

    /// Bytes a second.
    fn rate(&self, now: Time) -> f64 {
        self.bytes as f64 / now.saturating_since(self.since).as_secs_f64().max(1e-9)
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Advice {
    /// Nothing else than before.
    GoOn,
    /// Compete, with a window that becomes so many times as large.
    Compete(f64),
    /// Do not compete any more.
    End,
}

/// What has come of what is done now.
#[derive(Clone, Copy, Debug)]
enum State {
    /// It is asked again then.
    Rests { until: Time },
    /// It is asked. Before, a round trip took this long.
    Asks { meter: Meter, before: Duration },
    /// The window competes; before, it had `before` bytes a second.
    Competes { before: f64, meter: Meter },
}

/// What is known of others.
#[derive(Clone, Debug)]
pub(super) struct Rivals {
    elasticity: Elasticity,
    /// How the window changes while it is asked.
    raised: Swing,
    /// So many round trips are enough for an answer.
    enough: u32,
    state: State,
    wait: Duration,
    /// The last question got no answer, for the link changed.
    gave_up: bool,
    /// The round trip of late.
    rtt: Option<Duration>,
}

impl Default for Rivals {
    fn default() -> Self {
        Rivals {
            elasticity: Elasticity::default(),
            raised: RAISED,
            enough: ENOUGH[0],
            state: State::Rests { until: Time::ZERO },
            wait: WAIT[0],
            gave_up: false,
            rtt: None,
        }
    }
}

/// A delivery, as it is told here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivered {
    pub now: Time,
    pub bytes: u64,
    /// What was on its way before.
    pub in_flight: u64,
    pub rtt: Option<Duration>,
    /// The round trip of the path by itself.
    pub own_rtt: Duration,
    /// The window that follows the path, and a segment.
    pub window: u64,
    pub mss: u32,
}

impl Rivals {
    /// The same, of a window that others are offered.
    pub fn of_offers() -> Self {
        Rivals { raised: OFFERED, enough: ENOUGH[1], ..Rivals::default() }
    }

    /// A window as it is now.
    pub fn of(&self, window: u64) -> u64 {
        self.elasticity.of(window)
    }

    /// Whether it is asked.
    pub fn asks(&self) -> bool {
        matches!(self.state, State::Asks { .. })
    }

    /// Nothing is asked, and the window does not compete.
    pub fn rest(&mut self, now: Time) {
        self.elasticity.rest();
        match self.state {
            State::Rests { .. } => {}
            State::Asks { .. } | State::Competes { .. } => self.state = State::Rests { until: now + SOON },
        }
    }

    /// Nobody is there any more who was, so what was found says nothing of who may be.
    pub fn forget(&mut self, now: Time) {
        self.elasticity.rest();
        self.wait = WAIT[0];
        self.state = State::Rests { until: now };
    }

    /// Somebody may be there, and we have half.
    fn not_now(&mut self, now: Time) {
        self.gave_up = false;
        if self.elasticity.follows() < OTHERS {
            return self.in_vain(now);
        }
        self.elasticity.rest();
        self.wait = WAIT[0];
        self.state = State::Rests { until: now + SOON };
    }

    /// The link has become slower, or the queue longer, since it was asked. That may be who was asked for: once it is asked again soon.
    fn give_up(&mut self, now: Time) {
        if core::mem::replace(&mut self.gave_up, true) {
            return self.in_vain(now);
        }
        self.elasticity.rest();
        self.state = State::Rests { until: now + SOON };
    }

    /// The answer changed nothing: it is asked again later and later.
    fn in_vain(&mut self, now: Time) {
        self.elasticity.rest();
        self.state = State::Rests { until: now + self.wait };
        self.wait = (2 * self.wait).min(WAIT[1]);
    }

    /// Something was delivered; round trips may be long for the sake of others.
    pub fn on_delivery(&mut self, delivered: Delivered, is_contested: bool) -> Advice {
        let Delivered { now, bytes, in_flight, own_rtt, window, mss, .. } = delivered;
        if self.rtt.is_none() {
            self.state = State::Rests { until: now + FIRST };
        }
        self.rtt = match (self.rtt, delivered.rtt) {
            (Some(before), Some(rtt)) => Some((before * 7 + rtt) / 8),
            (before, rtt) => rtt.or(before),
        };
        let Some(rtt) = self.rtt else { return Advice::GoOn };
        let rtts = (rtt, own_rtt);
        match &mut self.state {
            State::Rests { until } => {
                if is_contested && now >= *until {
                    self.state = State::Asks { meter: Meter::new(now), before: rtt };
                }
                Advice::GoOn
            }
            State::Asks { meter, before } => {
                meter.bytes += bytes;
                // The link carries less than it did: what the window would make of that is a queue.
                if rtt > FALLEN * *before {
                    self.give_up(now);
                    return Advice::GoOn;
                }
                let (since, rate) = (meter.since, meter.rate(now));
                match self.elasticity.on_delivery(now, self.raised, (bytes, in_flight), (window, mss), rtts) {
                    Link::Shared => {
                        // Who has the part s of a link has half of it with (1 - s) / s times the window, if the others stay.
                        let follows = self.elasticity.follows();
                        self.gave_up = false;
                        let larger = (follows / (1.0 - follows).max(0.01)).clamp(1.0, MOST);
                        self.elasticity.rest();
                        self.state = State::Competes { before: rate, meter: Meter::new(now) };
                        return Advice::Compete(larger);
                    }
                    Link::Alone => self.not_now(now),
                    Link::Unknown if now.saturating_since(since) > self.enough * rtt => self.not_now(now),
                    Link::Unknown => {}
                }
                Advice::GoOn
            }
            State::Competes { before, meter } => {
                meter.bytes += bytes;
                let pays = meter.rate(now) >= *before;
                if now.saturating_since(meter.since) >= PAYS.max(rtt * PAYS_ROUND_TRIPS) {
                    if !pays {
                        self.in_vain(now);
                        return Advice::End;
                    }
                    *meter = Meter::new(now);
                }
                match self.elasticity.on_delivery(now, AROUND, (bytes, in_flight), (window, mss), rtts) {
                    Link::Alone => {
                        self.elasticity.rest();
                        self.wait = WAIT[0];
                        self.state = State::Rests { until: now + self.wait };
                        Advice::End
                    }
                    Link::Shared | Link::Unknown => Advice::GoOn,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const RTT: Duration = Duration::from_millis(50);
    const MSS: u32 = 1000;

    /// Deliveries every 5 ms in a link of 2 MB/s that is ours but for `others` bytes that wait in it, from `from` on for `seconds`; round trips are
    /// `contested`. The advice that was given, and when.
    fn advice(
        rivals: &mut Rivals,
        (from, seconds): (u32, u32),
        contested: bool,
        window: u64,
        others: u64,
    ) -> Vec<(f64, Advice)> {
        let start = Time::from_secs(1);
        let rate = 2_000_000;
        let mut given = Vec::new();
        for step in from * 200..(from + seconds) * 200 {
            let now = start + Duration::from_millis(5) * step;
            let ours = rivals.of(window);
            let wait = Duration::from_nanos((ours + others) * 1_000_000_000 / rate);
            let rtt = RTT.max(wait);
            let bytes = (ours as f64 / rtt.as_secs_f64() * 0.005) as u64;
            let delivered =
                Delivered { now, bytes, in_flight: ours, rtt: Some(rtt), own_rtt: RTT, window, mss: MSS };
            match rivals.on_delivery(delivered, contested) {
                Advice::GoOn => {}
                advice => given.push((f64::from(step) * 0.005, advice)),
            }
        }
        given
    }

    #[test]
    fn nothing_is_asked_where_round_trips_are_explained() {
        let mut rivals = Rivals::default();
        assert_eq!(advice(&mut rivals, (0, 60), false, 120_000, 200_000), []);
        assert_eq!(rivals.of(120_000), 120_000);
        assert!(matches!(rivals.state, State::Rests { .. }));
    }

    #[test]
    fn who_has_little_competes_for_half_and_ends_where_that_gains_nothing() {
        let mut rivals = Rivals::default();
        let given = advice(&mut rivals, (0, 5), true, 40_000, 160_000);
        let [(at, Advice::Compete(larger))] = given[..] else { panic!("{given:?}") };
        assert!(at < 5.0 && (2.0..=MOST).contains(&larger), "{at} s, {larger} times");
        // The window is no larger than before, and the others take more.
        let given = advice(&mut rivals, (5, 10), true, 40_000, 400_000);
        let [(at, Advice::End)] = given[..] else { panic!("{given:?}") };
        assert!(at < 12.0, "{at} s");
        assert_eq!(rivals.wait, 2 * WAIT[0], "later, the next time");
    }

    #[test]
    fn what_was_asked_before_a_silence_leaves_no_window_behind() {
        let mut rivals = Rivals::default();
        advice(&mut rivals, (0, 2), true, 120_000, 0);
        assert!(rivals.asks() && rivals.of(1000) > 100_000, "{}", rivals.of(1000));
        rivals.rest(Time::from_secs(3));
        assert!(!rivals.asks());
        assert_eq!(rivals.of(1000), 1000);
    }

    #[test]
    fn who_competes_ends_when_nobody_is_there_any_more() {
        let mut rivals = Rivals::default();
        assert_eq!(advice(&mut rivals, (0, 5), true, 40_000, 160_000).len(), 1);
        let given = advice(&mut rivals, (5, 15), true, 160_000, 0);
        assert!(matches!(given[..], [(_, Advice::End)]), "{given:?}");
        assert_eq!(rivals.wait, WAIT[0]);
    }

    #[test]
    fn where_nobody_is_it_is_asked_later_and_later() {
        let mut rivals = Rivals::default();
        let mut asked = Vec::new();
        for second in 0..700 {
            let asks = matches!(rivals.state, State::Asks { .. });
            assert_eq!(advice(&mut rivals, (second, 1), true, 130_000, 0), []);
            if !asks && matches!(rivals.state, State::Asks { .. }) {
                asked.push(second);
            }
        }
        let pauses: Vec<u32> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(pauses.len() >= 4 && pauses[0] < 20, "{asked:?}");
        assert!(pauses.windows(2).all(|pair| pair[1] >= pair[0]), "{asked:?}");
        assert!(pauses.last().is_some_and(|pause| (155..200).contains(pause)), "{asked:?}");
    }
}
