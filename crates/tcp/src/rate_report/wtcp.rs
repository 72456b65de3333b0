//! WTCP's receiver: it computes the rate, from the gaps between packets.
//!
//! Sinha, Venkitaraman, Sivakumar and Bharghavan, "WTCP: A Reliable Transport Protocol for Wireless Wide-Area Networks", MobiCom 1999,
//! and with Nandagopal in Wireless Networks 8, 2002. What public text has of it: rate control is at the receiver, its primary metric
//! is the ratio of the average separation of packets at the receiver to that at the sender, a short-term and a long-term average of
//! it are kept, the start is by a packet pair, losses beyond what is usual for the path (by their mean and deviation) are a backup
//! sign of congestion, and what is usual is none. The text was not at hand, so all constants, and the rules below, are ours.
//!
//! The short-term ratio r is of eight packets that were sent at the rate which was told last, and of 100 ms at least, as timestamps
//! count milliseconds. For the long term, what packets came apart more than they were sent is summed up, from when that was last
//! nothing: the queue that has grown since, q, of which the least while those packets came counts. In gaps g between packets:
//!
//! ```text
//! q > g and r > 1.05, or q > 2g and r ≥ 0.95    a queue grows, or stands     rate = 0.8 of what arrives, half of it from q > 8g on
//! q ≤ g, and nothing was lost                   there is none                a segment more in the time since the last change
//! otherwise                                                                  the rate stays
//! more is lost than usual                       a queue overflows            rate = half of it; at once again, it is usual
//! ```
use super::{Arrival, RateMeter};
use core::time::Duration;
use shorthaul_types::{BitRate, Time};

/// A ratio is of so many packets, and of this time at the sender, at least.
const PACKETS: u32 = 8;
const SPAN: Duration = Duration::from_millis(100);
/// A ratio differs from 1 by more than this, or not.
const BAND: f64 = 0.05;
/// Queues in gaps: with this there is none; with this it stands; from this on it is long.
const EMPTY: f64 = 1.0;
const STANDING: f64 = 2.0;
const LONG: f64 = 8.0;
/// What is left of the rate that arrives where a queue stands, where it is long, and where more is lost than usual.
const DECREASE: f64 = 0.8;
const HALF: f64 = 0.5;
/// So much of a queue is forgotten in a second: clocks differ.
const DRIFT: f64 = 0.001;
/// Losses are counted over so many packets. They tell of congestion if they are more than usual by four mean deviations, and by
/// three at least.
const COUNTED: u64 = 32;
const DEVIATIONS: f64 = 4.0;
const FEW: f64 = 3.0;
/// The weight of a count in the mean and the deviation.
const WEIGHT: f64 = 0.125;
/// Packets that were sent within so many milliseconds were sent together.
const TOGETHER: u32 = 2;
/// A packet that comes so late, beyond its distance at the sender, comes after a blackout, which is no queue that grows.
const BLACKOUT: Duration = Duration::from_secs(1);
/// The part of the reported rate that must be sent for the sender to count as limited by it.
const USED: f64 = 0.8;

/// Sums over packets that came, and what was lost between them.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    packets: u32,
    lost: u64,
    bytes: u64,
    here: Duration,
    there: Duration,
    /// The least queue, in seconds.
    queue: Option<f64>,
}

impl Sums {
    fn add(&mut self, bytes: u64, here: Duration, there: Duration) {
        self.packets += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.here = self.here.saturating_add(here);
        self.there = self.there.saturating_add(there);
    }
}

/// How many of [`COUNTED`] packets are lost.
#[derive(Clone, Copy, Debug)]
struct Losses {
    packets: u64,
    lost: u64,
    /// What is usual, and by how much it varies.
    mean: f64,
    deviation: f64,
    /// The last count told of congestion.
    congested: bool,
}

impl Losses {
    /// A packet has come, and so many before it are lost. Whether that is more than usual.
    fn on_packet(&mut self, lost: u64) -> bool {
        self.packets += 1 + lost;
        self.lost += lost;
        if self.packets < COUNTED {
            return false;
        }
        let lost = self.lost as f64 * COUNTED as f64 / self.packets as f64;
        (self.packets, self.lost) = (0, 0);
        let beyond = lost - self.mean;
        let is_more = beyond >= FEW && beyond > DEVIATIONS * self.deviation;
        match (is_more, self.congested) {
            (true, false) => {
                self.congested = true;
                return true;
            }
            // At half of the rate the same is lost: it is the path.
            (true, true) => (self.mean, self.deviation) = (lost, lost / 2.0),
            (false, _) => {
                self.deviation += WEIGHT * (beyond.max(-beyond) - self.deviation);
                self.mean += WEIGHT * beyond;
            }
        }
        self.congested = false;
        false
    }
}

/// The receiver of one connection.
#[derive(Debug)]
pub struct Wtcp {
    /// The rate that is told, in bytes a second.
    rate: Option<f64>,
    /// When it changed.
    told: Option<Time>,
    /// The last packet: when it came, and when it was sent.
    last: Option<(Time, u32)>,
    /// Behind the highest byte that came.
    edge: u64,
    /// Those that were sent together at the start are over.
    started: bool,
    /// By how much packets came farther apart than they were sent, since that was last nothing, in seconds.
    queue: f64,
    /// Those that are judged next; at the start, those that were sent together, but for the first.
    sums: Sums,
    losses: Losses,
}

impl Default for Wtcp {
    fn default() -> Self {
        Wtcp {
            rate: None,
            told: None,
            last: None,
            edge: 0,
            started: false,
            queue: 0.0,
            sums: Sums::default(),
            // Three of 32 are more than usual where nothing is known.
            losses: Losses {
                packets: 0,
                lost: 0,
                mean: 0.0,
                deviation: FEW / DEVIATIONS / 2.0,
                congested: false,
            },
        }
    }
}

impl Wtcp {
    /// How many packets are missing before this one.
    fn missing(&mut self, arrival: &Arrival) -> u64 {
        let gap = if self.edge > 0 { arrival.start.saturating_sub(self.edge) } else { 0 };
        self.edge = self.edge.max(arrival.end);
        gap.div_ceil(u64::from(arrival.mss.max(1)))
    }

    /// The packets that were sent first: a pair that was sent together comes apart by what the slowest link takes for one.
    fn start(&mut self, arrival: &Arrival, bytes: u64, here: Duration, there: u32) {
        self.started = there > TOGETHER && self.rate.is_some();
        if there > TOGETHER {
            self.sums = Sums::default();
            return;
        }
        let mut together = self.sums;
        together.add(bytes, here, Duration::ZERO);
        if !together.here.is_zero() {
            self.set(arrival, together.bytes as f64 / together.here.as_secs_f64());
        }
        self.sums = together;
    }

    /// Another rate is told from now on, one segment each four seconds at least.
    fn set(&mut self, arrival: &Arrival, rate: f64) {
        self.rate = Some(rate.max(f64::from(arrival.mss.max(1)) / 4.0));
        self.told = Some(arrival.now);
        self.sums = Sums::default();
    }

    fn judge(&mut self, arrival: &Arrival, rate: f64) {
        let sums = core::mem::take(&mut self.sums);
        let (here, there) = (sums.here.as_secs_f64(), sums.there.as_secs_f64());
        let (ratio, gap) = (here / there, there / f64::from(sums.packets));
        let (queue, bytes) = (sums.queue.unwrap_or(0.0) / gap, sums.bytes as f64);
        let grows = ratio > 1.0 + BAND && queue > EMPTY;
        let stands = ratio >= 1.0 - BAND && queue > STANDING;
        if grows || stands {
            let left = if queue > LONG { HALF } else { DECREASE };
            self.set(arrival, left * rate.min(bytes / here));
        } else if queue <= EMPTY && sums.lost == 0 && bytes / there >= USED * rate {
            let since = self.told.map_or(there, |told| arrival.now.saturating_since(told).as_secs_f64());
            self.set(arrival, rate + f64::from(arrival.mss) / since.max(there));
        }
    }
}

impl RateMeter for Wtcp {
    fn on_segment(&mut self, arrival: &Arrival) {
        let bytes = arrival.end.saturating_sub(arrival.start);
        if bytes == 0 {
            return;
        }
        let lost = self.missing(arrival);
        let Some((came, sent)) = self.last else {
            self.last = Some((arrival.now, arrival.sent));
            return;
        };
        let there = arrival.sent.wrapping_sub(sent);
        if there > u32::MAX / 2 {
            return; // it was overtaken
        }
        self.last = Some((arrival.now, arrival.sent));
        let here = arrival.now.saturating_since(came);
        if !self.started {
            return self.start(arrival, bytes, here, there);
        }
        let there = Duration::from_millis(u64::from(there));
        let is_blackout = here > there + BLACKOUT;
        if !is_blackout {
            let (here, there) = (here.as_secs_f64(), there.as_secs_f64());
            self.queue = (self.queue + here - there - DRIFT * here).max(0.0);
        }
        let Some(rate) = self.rate else { return };
        let heard = self.told.is_none_or(|told| arrival.heard.is_some_and(|heard| heard >= told));
        if !heard || is_blackout {
            self.sums = Sums::default();
            return;
        }
        if self.losses.on_packet(lost) {
            return self.set(arrival, HALF * rate);
        }
        self.sums.add(bytes, here, there);
        self.sums.lost += lost;
        self.sums.queue = Some(self.sums.queue.map_or(self.queue, |least| least.min(self.queue)));
        if self.sums.packets >= PACKETS && self.sums.there >= SPAN && !self.sums.here.is_zero() {
            self.judge(arrival, rate);
        }
    }

    fn rate(&self) -> Option<BitRate> {
        // A float that is too large becomes the largest number.
        self.rate.map(|rate| BitRate::from_bits_per_sec((rate * 8.0) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 500;

    /// Packets of 500 bytes from a sender that obeys, over a link.
    struct Path {
        meter: Wtcp,
        next: u64,
        sent: Duration,
        came: Duration,
        /// What the link takes for a packet.
        takes: Duration,
    }

    impl Path {
        /// A link of 2500 bytes a second.
        fn new() -> Path {
            let takes = Duration::from_millis(200);
            Path {
                meter: Wtcp::default(),
                next: 1,
                sent: Duration::ZERO,
                came: Duration::from_secs(1),
                takes,
            }
        }

        /// The next packet is sent so long after the one before, and comes, unless it is lost.
        fn send(&mut self, after: Duration, arrives: bool) {
            self.sent += after;
            self.came = (self.came + self.takes).max(self.sent + Duration::from_secs(1));
            let now = Time::ZERO + self.came;
            let arrival = Arrival {
                now,
                start: self.next,
                end: self.next + u64::from(MSS),
                mss: MSS,
                sent: self.sent.as_millis() as u32,
                heard: Some(now),
            };
            self.next += u64::from(MSS);
            if arrives {
                self.meter.on_segment(&arrival);
            }
        }

        fn rate(&self) -> u64 {
            self.meter.rate().map_or(0, |rate| rate.bytes_per_sec())
        }

        /// Sends at the rate that is told.
        fn paced(&mut self, packets: u32) {
            for _ in 0..packets {
                let gap = Duration::from_secs_f64(f64::from(MSS) / self.rate() as f64);
                self.send(gap, true);
            }
        }

        /// A pair, and the first packet after it.
        fn started() -> Path {
            let mut path = Path::new();
            path.send(Duration::ZERO, true);
            assert_eq!(path.rate(), 0, "one packet tells nothing");
            path.send(Duration::ZERO, true);
            assert_eq!(path.rate(), 2500, "a pair comes apart by what the link takes for one");
            path.send(Duration::from_millis(400), true);
            path
        }
    }

    #[test]
    fn a_rate_without_a_queue_grows_by_a_segment_and_one_that_fills_it_falls() {
        let mut path = Path::started();
        path.paced(8);
        // 500 bytes in the 2 s since the rate was told.
        assert!((2700..2830).contains(&path.rate()), "{}", path.rate());
        let changes = |path: &mut Path| {
            let before = path.rate();
            (0..100).find(|_| {
                path.paced(1);
                path.rate() != before
            })
        };
        // Above what the link carries, a queue grows: 0.8 of what arrives is left. Meanwhile it empties.
        while path.rate() > 2500 {
            assert!(path.rate() < 3300 && changes(&mut path).is_some(), "{}", path.rate());
        }
        assert!((1990..=2010).contains(&path.rate()), "{}", path.rate());
        assert!(
            changes(&mut path).is_some_and(|packets| packets >= 7) && path.rate() > 2010,
            "{}",
            path.rate()
        );
    }

    #[test]
    fn the_queue_stays_short_and_the_link_busy() {
        let mut path = Path::started();
        path.paced(50);
        let (came, next) = (path.came, path.next);
        let mut most = Duration::ZERO;
        for _ in 0..400 {
            path.paced(1);
            most = most.max(path.came - path.sent - Duration::from_secs(1));
        }
        let carried = (path.next - next) as f64 / (path.came - came).as_secs_f64() / 2500.0;
        assert!(carried > 0.92, "{carried} of the link");
        assert!(most < Duration::from_millis(1200), "{most:?} of queue");
    }

    #[test]
    fn a_queue_that_stands_is_one_though_packets_come_as_they_are_sent() {
        let mut path = Path::started();
        path.paced(8);
        // A second of others comes before, and goes on.
        path.came += Duration::from_millis(900);
        (0..PACKETS).for_each(|_| path.send(path.takes, true));
        let before = path.rate();
        (0..PACKETS).for_each(|_| path.send(path.takes, true));
        assert!(path.rate() < before * 85 / 100, "{} after {before}", path.rate());
    }

    #[test]
    fn a_path_that_always_loses_as_much_slows_nothing_down_and_more_does() {
        let mut path = Path::started();
        path.paced(8);
        let sent = |path: &mut Path, number: u32, every: u32| {
            path.send(Duration::from_millis(200), !number.is_multiple_of(every));
        };
        (1..400).for_each(|number| sent(&mut path, number, 16));
        assert!(path.rate() >= 2500, "{}: losses at random are no congestion", path.rate());
        // Half of all is: once. At half of the rate the same is lost.
        let before = path.rate();
        (1..34).for_each(|number| sent(&mut path, number, 2));
        assert!(path.rate() <= before / 2 + 1, "{} after {before}", path.rate());
        let before = path.rate();
        (1..200).for_each(|number| sent(&mut path, number, 2));
        assert!(path.rate() >= before, "{} after {before}", path.rate());
    }

    #[test]
    fn a_blackout_is_no_queue() {
        let mut path = Path::started();
        path.paced(8);
        let before = path.rate();
        path.came += Duration::from_secs(8);
        path.paced(1);
        // What had waited comes at once.
        path.takes = Duration::from_millis(10);
        path.paced(24);
        assert!(path.rate() >= before, "{} after {before}", path.rate());
    }

    #[test]
    fn what_was_sent_before_the_rate_was_heard_does_not_count() {
        let mut path = Path::started();
        let later = Time::ZERO + path.came * 100;
        path.meter.set(&Arrival { now: later, start: 0, end: 0, mss: MSS, sent: 0, heard: None }, 5000.0);
        path.paced(30);
        assert_eq!(path.rate(), 5000);
    }
}
