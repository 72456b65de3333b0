//! What a path carries, and how long it takes, from deliveries alone: bandwidth, smallest round-trip
//! time and their product.
//!
//! The rate is that of the delivery rate draft (see [`DeliveryRate`](crate::DeliveryRate)): of what was
//! delivered since a transmission left, over the longer of the time in which it was sent and the time in
//! which it was acknowledged. But nothing has to be kept with each transmission: what had been delivered
//! when it left is looked up in a short history. So an estimate can follow what many connections send over
//! one path, or what only passes by.
use alloc::collections::VecDeque;
use core::time::Duration;

use shorthaul_types::{BitRate, Bytes, Time};

use crate::min_filter::MinFilter;
use crate::recent_max::RecentMax;
use crate::snapshot::keeps;
use crate::volume;

/// Marks that a round trip of history is kept in; more are thinned out.
const MARKS: usize = 128;
/// Rounds over which [`PathEstimate::bandwidth`] is the maximum.
const ROUNDS: usize = 8;

/// Something was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When that became known.
    pub now: Time,
    /// How many bytes.
    pub bytes: u64,
    /// When the newest transmission of them was sent.
    pub sent_at: Time,
    /// A round-trip time that this delivery measured; `None` where it is ambiguous.
    pub rtt: Option<Duration>,
}

/// An estimate of a path's bandwidth and delay, told of sending and delivery. All sizes in bytes.
///
/// ```
/// use core::time::Duration;
/// use shorthaul_congestion::{Delivery, PathEstimate};
/// use shorthaul_types::Time;
///
/// // 10 segments of 1000 bytes are under way on 8 Mbit/s and 10 ms: one arrives each millisecond.
/// let mut path = PathEstimate::new(Time::ZERO, Duration::from_secs(10));
/// let rtt = Duration::from_millis(10);
/// for ms in 0..30 {
///     let now = Time::from_millis(ms);
///     if ms >= 10 {
///         let sent_at = Time::from_millis(ms - 10);
///         path.on_delivery(Delivery { now, bytes: 1000, sent_at, rtt: Some(rtt) });
///     }
///     path.on_send(now, ms.min(10) * 1000);
/// }
/// assert_eq!(path.bandwidth().unwrap().to_string(), "8 Mbit/s");
/// assert_eq!(path.product().unwrap().0, 10_000);
/// ```
#[derive(Clone, Debug)]
pub struct PathEstimate {
    delivered: u64,
    newest_sent: Time,
    marks: VecDeque<Mark>,
    /// Marks lie at least so far apart.
    spacing: Duration,
    min_rtt: MinFilter,
    memory: Duration,
    latest: Option<BitRate>,
    best: RecentMax<u64, ROUNDS>,
    round: u32,
    round_began: Time,
    round_ended: bool,
    limited_until: Option<u64>,
}

/// What had been delivered at a time.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Time,
    delivered: u64,
    /// When the newest transmission of that was sent.
    newest_sent: Time,
    /// There was too little to send.
    limited: bool,
}

// Without the marks: the first round trip of another process measures no rate.
keeps!(PathEstimate {
    delivered,
    newest_sent,
    spacing,
    min_rtt,
    latest,
    best,
    round,
    round_ended,
    limited_until
});

impl PathEstimate {
    /// An estimate that knows nothing, and remembers a smallest round-trip time for `memory`.
    pub fn new(now: Time, memory: Duration) -> Self {
        PathEstimate {
            delivered: 0,
            newest_sent: now,
            marks: VecDeque::new(),
            spacing: Duration::ZERO,
            min_rtt: MinFilter::default(),
            memory,
            latest: None,
            best: RecentMax::new(),
            round: 0,
            round_began: now,
            round_ended: false,
            limited_until: None,
        }
    }

    /// Something is sent while `in_flight` bytes, itself not included, are on their way.
    pub fn on_send(&mut self, now: Time, in_flight: u64) {
        if in_flight == 0 {
            // A new flight begins: the idle time before it says nothing.
            self.newest_sent = now;
            self.marks.clear();
            self.mark(now);
            self.round_began = now;
        }
    }

    /// There is less to send than the path may carry, with `in_flight` bytes on their way: until they and
    /// what is sent now are delivered, rates are lower bounds.
    pub fn on_limited(&mut self, in_flight: u64) {
        self.limited_until = Some(self.delivered.saturating_add(in_flight));
    }

    /// Something was delivered.
    pub fn on_delivery(&mut self, delivery: Delivery) {
        let Delivery { now, bytes, sent_at, rtt } = delivery;
        self.delivered = self.delivered.saturating_add(bytes);
        if let Some(rtt) = rtt {
            self.min_rtt.update(now, rtt.min(Duration::from_secs(3600)), self.memory);
            self.spacing = rtt / (MARKS as u32 / 2);
        }
        self.newest_sent = self.newest_sent.max(sent_at);
        self.round_ended = sent_at >= self.round_began;
        if self.round_ended {
            self.round = self.round.saturating_add(1);
            self.round_began = now;
            self.best.advance(self.round);
        }
        self.take_rate(now, sent_at);
        if self.limited_until.is_some_and(|until| self.delivered > until) {
            self.limited_until = None;
        }
        self.mark(now);
    }

    fn take_rate(&mut self, now: Time, sent_at: Time) {
        // Transmissions are looked up in the order of sending: what lies before is not asked for again.
        while self.marks.get(1).is_some_and(|next| next.at <= sent_at) {
            self.marks.pop_front();
        }
        let Some(mark) = self.marks.front().copied().filter(|mark| mark.at <= sent_at) else { return };
        let sending = sent_at.saturating_since(mark.newest_sent);
        let acknowledging = now.saturating_since(mark.at);
        let interval = sending.max(acknowledging);
        if interval.is_zero() {
            return;
        }
        let rate = volume::rate(self.delivered - mark.delivered, interval);
        let known = self.best.get();
        // What was limited by the data says only that the path can carry this much.
        if !mark.limited || rate > known {
            self.latest = Some(BitRate::from_bits_per_sec(rate));
            self.best.update(self.round, rate);
        }
    }

    fn mark(&mut self, at: Time) {
        let mark = Mark {
            at,
            delivered: self.delivered,
            newest_sent: self.newest_sent,
            limited: self.limited_until.is_some(),
        };
        match self.marks.back_mut() {
            Some(last) if last.at == at => *last = mark,
            Some(last) if at.saturating_since(last.at) < self.spacing => {}
            _ => {
                if self.marks.len() >= MARKS {
                    // The round trip has become longer: every second mark will do.
                    let mut keep = false;
                    self.marks.retain(|_| {
                        keep = !keep;
                        keep
                    });
                }
                self.marks.push_back(mark);
            }
        }
    }

    /// The path carried nothing for a while, and does again: rates are of what is sent from now on.
    pub fn on_gap(&mut self, now: Time) {
        self.marks.clear();
        self.mark(now);
        self.round_began = now;
    }

    /// The path may have become another one (a handover): the round-trip time is learned anew, beginning
    /// with `rtt`; of the bandwidth, only the latest rate is kept.
    pub fn relearn(&mut self, now: Time, rtt: Duration) {
        self.min_rtt = MinFilter::default();
        self.min_rtt.update(now, rtt, self.memory);
        self.best = RecentMax::new();
        self.best.update(self.round, self.latest.map_or(0, BitRate::bits_per_sec));
    }

    /// The rate of the last delivery that says something of the path.
    pub fn latest_rate(&self) -> Option<BitRate> {
        self.latest
    }

    /// The highest rate of the last eight round trips.
    pub fn bandwidth(&self) -> Option<BitRate> {
        let best = self.best.get();
        (best > 0).then(|| BitRate::from_bits_per_sec(best))
    }

    /// The smallest round-trip time remembered.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.get()
    }

    /// The bandwidth-delay product: [`bandwidth`](Self::bandwidth) times [`min_rtt`](Self::min_rtt).
    pub fn product(&self) -> Option<Bytes> {
        let bits = self.bandwidth()?.bits_per_sec();
        Some(Bytes(volume::in_time(bits, self.min_rtt()?)))
    }

    /// Bytes delivered so far.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Round trips so far: one ends with the delivery of something that was sent after it began.
    pub fn rounds(&self) -> u32 {
        self.round
    }

    /// The last delivery ended a round trip.
    pub fn round_ended(&self) -> bool {
        self.round_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A link of `rate` bytes a millisecond and a fixed delay, with `window` bytes kept under way in
    /// segments of 1000; its bandwidth may change.
    struct Loop {
        path: PathEstimate,
        now: u64,
        /// When what is under way arrives, and when it was sent.
        flight: VecDeque<(u64, u64)>,
        free_at: u64,
    }

    impl Loop {
        fn new() -> Self {
            let path = PathEstimate::new(Time::ZERO, Duration::from_secs(10));
            Loop { path, now: 0, flight: VecDeque::new(), free_at: 0 }
        }

        fn run(&mut self, until_ms: u64, window: u64, bytes_per_ms: u64, delay_ms: u64) {
            while self.now < until_ms * MS {
                while self.flight.len() as u64 * 1000 + 1000 <= window {
                    self.path.on_send(Time::from_nanos(self.now), self.flight.len() as u64 * 1000);
                    self.free_at = self.free_at.max(self.now) + 1000 * MS / bytes_per_ms;
                    self.flight.push_back((self.free_at + delay_ms * MS, self.now));
                }
                let (at, sent) = self.flight.pop_front().unwrap();
                self.now = self.now.max(at);
                let rtt = Duration::from_nanos(self.now - sent);
                self.path.on_delivery(Delivery {
                    now: Time::from_nanos(self.now),
                    bytes: 1000,
                    sent_at: Time::from_nanos(sent),
                    rtt: Some(rtt),
                });
            }
        }
    }

    fn is_close(rate: Option<BitRate>, bytes_per_ms: u64) -> bool {
        let found = rate.unwrap().bits_per_sec() as f64;
        (found / (bytes_per_ms as f64 * 8000.0) - 1.0).abs() < 0.05
    }

    #[test]
    fn a_full_path_shows_its_bandwidth_and_a_queue_does_not_change_it() {
        let mut a = Loop::new();
        a.run(2_000, 60_000, 1_000, 20);
        assert!(is_close(a.path.bandwidth(), 1_000), "{:?}", a.path.bandwidth());
        assert!(is_close(a.path.latest_rate(), 1_000), "{:?}", a.path.latest_rate());
        assert_eq!(a.path.min_rtt(), Some(Duration::from_millis(21)));
        let product = a.path.product().unwrap().0;
        assert!((20_000..22_500).contains(&product), "{product}");
    }

    #[test]
    fn a_window_below_the_product_shows_what_it_carries() {
        let mut a = Loop::new();
        a.run(2_000, 10_000, 1_000, 39);
        assert!(is_close(a.path.latest_rate(), 250), "{:?}", a.path.latest_rate());
    }

    #[test]
    fn a_tenfold_fall_is_known_a_round_trip_later() {
        let mut a = Loop::new();
        a.run(1_000, 25_000, 1_000, 20);
        a.run(1_000 + 25_000 / 100 + 300, 25_000, 100, 20);
        assert!(is_close(a.path.latest_rate(), 100), "{:?}", a.path.latest_rate());
        assert!(is_close(a.path.bandwidth(), 1_000), "the maximum of eight rounds still knows it");
        a.run(5_000, 25_000, 100, 20);
        assert!(is_close(a.path.bandwidth(), 100), "{:?}", a.path.bandwidth());
    }

    #[test]
    fn a_compressed_train_of_acknowledgments_is_no_bandwidth() {
        let mut path = PathEstimate::new(Time::ZERO, Duration::from_secs(10));
        // A segment a millisecond is sent; all that arrives within 10 ms is told at once.
        for ms in 0..200u64 {
            path.on_send(Time::from_millis(ms), 1);
            if ms >= 20 && ms % 10 == 0 {
                for sent in ms - 20..ms - 10 {
                    let (now, sent_at) = (Time::from_millis(ms), Time::from_millis(sent));
                    path.on_delivery(Delivery {
                        now,
                        bytes: 1000,
                        sent_at,
                        rtt: Some(now.saturating_since(sent_at)),
                    });
                }
            }
        }
        let found = path.bandwidth().unwrap().bytes_per_sec();
        assert!(found <= 1_050_000, "{found} is more than was sent");
    }

    #[test]
    fn too_little_to_send_does_not_lower_the_rate() {
        let mut a = Loop::new();
        a.run(1_000, 25_000, 1_000, 20);
        a.path.on_limited(25_000);
        for _ in 0..3 {
            a.flight.clear();
            a.path.on_limited(0);
            let sent = a.now + 100 * MS;
            a.path.on_send(Time::from_nanos(sent), 0);
            a.now = sent + 21 * MS;
            a.path.on_delivery(Delivery {
                now: Time::from_nanos(a.now),
                bytes: 1000,
                sent_at: Time::from_nanos(sent),
                rtt: None,
            });
        }
        assert!(is_close(a.path.latest_rate(), 1_000), "{:?}", a.path.latest_rate());
    }

    #[test]
    fn a_new_path_is_learned_anew() {
        let mut a = Loop::new();
        a.run(1_000, 25_000, 1_000, 20);
        a.path.relearn(Time::from_nanos(a.now), Duration::from_millis(80));
        assert_eq!(a.path.min_rtt(), Some(Duration::from_millis(80)));
    }

    #[test]
    fn history_stays_short_when_the_round_trip_grows() {
        let mut a = Loop::new();
        a.run(500, 10_000, 10_000, 1);
        a.run(20_000, 5_000_000, 10_000, 400);
        assert!(a.path.marks.len() <= MARKS, "{}", a.path.marks.len());
        assert!(is_close(a.path.latest_rate(), 10_000), "{:?}", a.path.latest_rate());
    }
}
