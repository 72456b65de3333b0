//! How much each wired sender is offered: AGG Table I, equations 1 and 2.
//!
//! The window counts from what has left for the mobile host, so that what is offered is the window less what is
//! queued here. If it counted from what has arrived, the queue would be the integral of the window, and the two would
//! swing around each other for ever.
use super::config::WindowShareConfig;
use core::time::Duration;
use shorthaul_types::{Blank, Time, keeps};

/// Samples that a rate is taken over at most.
const SAMPLES: usize = 16;
/// Where little is queued, a window grows by what comes, up to so many times C,
const ENOUGH: f64 = 2.0;
/// or so many times what is served in the sender's round trip, as the handshake measured it: a queue beyond may make it many times longer.
/// Without that, over a short path that has no bottleneck here, it would be hundreds of times as much as is ever under way.
const UNDER_WAY: f64 = 16.0;
/// The longest time that a silence counts for, so that a window does not grow without bounds meanwhile.
const LONGEST_STEP: Duration = Duration::from_secs(1);

/// The rate of what was sent over the last α segments (s of AGG §IV-D, "a sliding window averaging
/// function").
///
/// The paper averages the inverse gaps, which a burst makes infinite; this is bytes over the time of all gaps.
#[derive(Clone, Debug)]
pub(crate) struct SlidingRate {
    samples: [(Time, u64); SAMPLES],
    next: usize,
    count: usize,
    total: u64,
}

keeps!(SlidingRate { samples, next, count, total });

impl SlidingRate {
    pub fn new(now: Time) -> Self {
        SlidingRate { samples: [(now, 0); SAMPLES], next: 1, count: 1, total: 0 }
    }

    /// `bytes` were sent; the average is over the last `averaged` times.
    pub fn on_send(&mut self, now: Time, bytes: u64, averaged: u32) {
        self.total += bytes;
        self.samples[self.next] = (now, self.total);
        self.next = (self.next + 1) % SAMPLES;
        self.count = (self.count + 1).min(averaged.clamp(2, SAMPLES as u32) as usize);
    }

    /// Bytes a second.
    pub fn get(&self, now: Time) -> f64 {
        let oldest = self.samples[(self.next + SAMPLES - self.count) % SAMPLES];
        let time = now.saturating_since(oldest.0).as_secs_f64();
        if time > 0.0 { (self.total - oldest.1) as f64 / time } else { 0.0 }
    }
}

/// What the connections of a group have queued here, over time.
///
/// The mean of q since the last segment is taken, not q when a segment arrives: the first segment of a burst
/// finds what drained before it, and stands for nearly all of the time. Senders far away, whose segments come in bursts, would
/// be offered more and more, and others, to whom the queue appears as it is, would pay for it.
#[derive(Clone, Debug)]
pub(crate) struct Backlog {
    bytes: u64,
    byte_time: f64,
    changed_at: Time,
}

/// `before` was part of `sum`, and `now` takes its place.
pub(super) fn moved(sum: &mut u64, before: &mut u64, now: u64) {
    *sum = *sum - *before + now;
    *before = now;
}

impl Backlog {
    pub fn new(now: Time) -> Self {
        Backlog { bytes: 0, byte_time: 0.0, changed_at: now }
    }

    /// What one connection has queued, of all this, has become `now_queued` bytes.
    pub fn moved(&mut self, now: Time, queued: &mut u64, now_queued: u64) {
        self.byte_time = self.byte_time(now);
        self.changed_at = now;
        self.bytes = self.bytes - *queued + now_queued;
        *queued = now_queued;
    }

    /// The sum of all times that a byte was queued, in byte-seconds.
    pub fn byte_time(&self, now: Time) -> f64 {
        self.byte_time + self.bytes as f64 * now.saturating_since(self.changed_at).as_secs_f64()
    }
}

/// What the connections of a group have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    /// The mean rate of the connections that are active, in bytes a second: s̄.
    pub mean_rate: f64,
    /// [`Backlog::byte_time`]; how much it grows in a time, over that time, is q.
    pub queued_time: f64,
    /// The queue that is aimed at, in bytes: surplus · window.
    pub target: f64,
    /// How many connections are active: n.
    pub active: usize,
    /// No window exceeds this.
    pub most: u64,
}

/// What one connection has of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// How fast it is served, in bytes a second: s.
    pub rate: f64,
    /// Bytes that it has queued here.
    pub queued: u64,
    /// Bytes that came from its sender until now.
    pub received: u64,
    /// The round trip between here and its sender; the longest there is if it is not known.
    pub rtt: Duration,
}

/// The window of one connection toward its wired sender.
#[derive(Clone, Debug)]
pub(crate) struct WindowShare {
    window: f64,
    /// It has not reached the mean rate yet.
    starting: bool,
    updated: Time,
    /// [`Situation::queued_time`] then.
    queued_time: f64,
    /// [`Progress::received`] then.
    received: u64,
}

keeps!(WindowShare { window, starting, updated, queued_time, received });

impl Blank for WindowShare {
    fn blank() -> Self {
        WindowShare { window: 0.0, starting: false, updated: Time::ZERO, queued_time: 0.0, received: 0 }
    }
}

impl WindowShare {
    /// A connection begins: with C = max(MSS, W/n), but not with more than `first` bytes before anything has come.
    pub fn new(now: Time, mss: u32, first: u64, situation: &Situation) -> Self {
        let mut share = WindowShare {
            window: 0.0,
            starting: true,
            updated: now,
            queued_time: situation.queued_time,
            received: 0,
        };
        share.window = step(mss, situation).min(situation.most.min(first) as f64);
        share
    }

    /// A segment of its sender arrived (Table I).
    ///
    /// In the start phase C is added with each segment only as long as it is the sender that holds the connection up: whoever
    /// has C queued here waits for its turn, not for a window, and a sender in slow start has no use for more than C and
    /// twice what it has sent until now. Without these bounds a burst over a short path is offered hundreds of times
    /// C before it can have been served at any rate at all.
    pub fn on_segment(
        &mut self,
        now: Time,
        mss: u32,
        own: &Progress,
        host: &Situation,
        parameters: &WindowShareConfig,
    ) {
        let since = now.saturating_since(self.updated);
        let byte_time = host.queued_time - self.queued_time;
        (self.updated, self.queued_time) = (now, host.queued_time);
        if self.starting {
            if own.rate < host.mean_rate {
                self.received = own.received;
                let step = step(mss, host);
                if (own.queued as f64) < step {
                    let of_use = step + 2.0 * own.received as f64;
                    self.window = (self.window + step).min(of_use.max(self.window)).min(host.most as f64);
                }
                return;
            }
            self.starting = false;
        }
        let WindowShareConfig { b, c, free_below, .. } = *parameters;
        let a = (b + c) / host.target.max(1.0);
        let came = own.received.saturating_sub(core::mem::replace(&mut self.received, own.received));
        if since.is_zero() {
            self.received -= came; // it counts with the next one
            return;
        }
        let queued = byte_time / since.as_secs_f64();
        let window = if queued < free_below * host.target {
            // By (1) it would grow by half of it a second, and a sender that has the bottleneck on its own way, or has lost
            // something there, would wait for us.
            let in_time = own.rate * own.rtt.as_secs_f64();
            (self.window + came as f64)
                .min(self.window.max(ENOUGH * step(mss, host)).max(UNDER_WAY * in_time))
        } else {
            let cost = a * queued - b;
            self.window + (c * host.mean_rate - cost * own.rate) * since.min(LONGEST_STEP).as_secs_f64()
        };
        // Below two segments, delayed acknowledgments would stop the sender.
        self.window = window.clamp(2.0 * f64::from(mss), (host.most as f64).max(2.0 * f64::from(mss)));
    }

    /// Another process goes on with it, whose queue has counted `queued_time` so far, and where `received` bytes came.
    pub fn go_on(&mut self, now: Time, queued_time: f64, received: u64) {
        (self.updated, self.queued_time, self.received) = (now, queued_time, received);
    }

    /// The window, in bytes.
    pub fn window(&self) -> u64 {
        self.window as u64
    }
}

/// C = max(MSS, W/n).
fn step(mss: u32, situation: &Situation) -> f64 {
    (situation.target / situation.active.max(1) as f64).max(f64::from(mss))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;

    const MSS: u32 = 1000;

    /// A wired path: its round trip in milliseconds, and how many milliseconds of arrivals come at once.
    type Wire = (u64, u64);

    /// `n` senders that always use their windows, over wired paths of their own, to one link of `rate` bytes a
    /// second; returns the mean queue of the last third, and the senders' shares.
    fn run(n: usize, rate: u64, wired: &[Wire], parameters: WindowShareConfig) -> (f64, Vec<u64>) {
        let step = 1_000_000_000 * u64::from(MSS) / rate;
        let target = parameters.surplus * 50_000.0;
        let start = Time::from_secs(1);
        let first = Situation { mean_rate: 0.0, queued_time: 0.0, target, active: n, most: 10_000_000 };
        let mut flows: Vec<_> = (0..n).map(|_| WindowShare::new(start, MSS, u64::MAX, &first)).collect();
        let mut rates: Vec<_> = (0..n).map(|_| SlidingRate::new(start)).collect();
        let mut all = SlidingRate::new(start);
        let mut queues = alloc::vec![0u64; n];
        let mut backlog = Backlog::new(start);
        let mut counted = 0;
        let mut left = alloc::vec![0u64; n];
        let mut promised = alloc::vec![0u64; n];
        let mut sent = alloc::vec![0u64; n];
        let mut wire: Vec<VecDeque<u64>> = alloc::vec![VecDeque::new(); n];
        let (mut sum, mut samples) = (0.0, 0);
        const STEPS: u64 = 60_000;
        for k in 0..STEPS {
            let at = 1_000_000_000 + k * step;
            let now = Time::from_nanos(at);
            for i in 0..n {
                promised[i] = promised[i].max(left[i] + flows[i].window());
                while sent[i] + u64::from(MSS) <= promised[i] {
                    sent[i] += u64::from(MSS);
                    let (delay, burst) = wired[i % wired.len()];
                    wire[i].push_back((at / 1_000_000 + delay).next_multiple_of(burst.max(1)) * 1_000_000);
                }
                while wire[i].front().is_some_and(|due| *due <= at) {
                    wire[i].pop_front();
                    queues[i] += u64::from(MSS);
                    backlog.moved(now, &mut counted, queues.iter().sum());
                    let host = Situation {
                        mean_rate: all.get(now) / n as f64,
                        queued_time: backlog.byte_time(now),
                        target,
                        active: n,
                        most: 10_000_000,
                    };
                    let own = Progress {
                        rate: rates[i].get(now),
                        queued: queues[i],
                        rtt: Duration::from_millis(2 * wired[i % wired.len()].0),
                        received: left[i] + queues[i],
                    };
                    flows[i].on_segment(now, MSS, &own, &host, &parameters);
                }
            }
            // The link takes from the one that had least.
            if let Some(i) = (0..n).filter(|i| queues[*i] > 0).min_by_key(|i| left[*i]) {
                queues[i] -= u64::from(MSS);
                backlog.moved(now, &mut counted, queues.iter().sum());
                left[i] += u64::from(MSS);
                rates[i].on_send(now, u64::from(MSS), parameters.averaged);
                all.on_send(now, u64::from(MSS), 16);
            }
            if k > STEPS * 2 / 3 {
                sum += queues.iter().sum::<u64>() as f64;
                samples += 1;
            }
        }
        (sum / f64::from(samples), left)
    }

    #[test]
    fn the_queue_settles_at_b_plus_c_over_a_whatever_the_number_of_connections() {
        let parameters = WindowShareConfig::default();
        let target = parameters.surplus * 50_000.0; // (b + c) / a
        for n in [1, 2, 5, 10] {
            let (queue, left) = run(n, 1_000_000, &[(20, 0)], parameters);
            assert!((queue / target - 1.0).abs() < 0.15, "{n} connections: {queue} of {target}");
            assert!(left.iter().sum::<u64>() > 59_000_000 * 98 / 100, "the link is never idle: {left:?}");
        }
    }

    #[test]
    fn a_burst_before_the_first_turn_is_not_offered_a_flood() {
        let parameters = WindowShareConfig::default();
        let start = Time::from_secs(1);
        let host =
            Situation { mean_rate: 3e6, queued_time: 0.0, target: 200_000.0, active: 2, most: 1 << 30 };
        let mut share = WindowShare::new(start, MSS, u64::MAX, &host);
        assert_eq!(share.window(), 100_000, "C");
        let mut received = 0;
        let mut arrive = |queued: u64| {
            received += u64::from(MSS);
            let own = Progress { rate: 0.0, queued, received, rtt: Duration::ZERO };
            share.on_segment(start, MSS, &own, &host, &parameters);
            share.window()
        };
        // A slow start over a short path: it has use for twice what it sent, beside C.
        for k in 1..=100 {
            assert_eq!(arrive((k - 1) * u64::from(MSS)), 100_000 + 2 * k * u64::from(MSS));
        }
        for _ in 0..100 {
            assert_eq!(
                arrive(100_000),
                300_000,
                "with C queued here it waits for its turn, for nothing else"
            );
        }
        // A sender far away, of which everything leaves at once, is offered more.
        assert_eq!(arrive(0), 400_000);
    }

    #[test]
    fn a_larger_surplus_is_a_longer_queue() {
        let queue = |surplus| {
            run(3, 1_000_000, &[(20, 0)], WindowShareConfig { surplus, ..WindowShareConfig::default() }).0
        };
        let (one, two) = (queue(1.0), queue(2.0));
        assert!((1.7..2.3).contains(&(two / one)), "{one} {two}");
    }

    #[test]
    fn long_and_short_wired_paths_get_the_same() {
        // … and those whose segments come in bursts.
        for wires in [[(5, 0), (150, 0)], [(5, 0), (150, 60)], [(5, 0), (60, 60)]] {
            let (_, left) = run(2, 1_000_000, &wires, WindowShareConfig::default());
            let (least, most) = (left.iter().min().unwrap(), left.iter().max().unwrap());
            assert!(*least as f64 / *most as f64 > 0.95, "{wires:?}: {left:?}");
        }
    }
}
