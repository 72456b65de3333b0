//! Round trips of late: how long a queue stands, and whether it became shorter after something that was done to find out.
use alloc::boxed::Box;
use core::time::Duration;
use shorthaul_types::Time;

/// Round trips are kept by the shortest of so much time.
pub(crate) const BIN: Duration = Duration::from_millis(5);
/// For so many times that.
const BINS: usize = 256;
/// A path that was heard of within this time is busy.
const BUSY: Duration = Duration::from_millis(100);
/// What is heard within this time is the queue as it stands.
const LATELY: Duration = Duration::from_millis(60);
/// A path that was heard of for this long can be compared with itself.
const KNOWN: Duration = Duration::from_millis(500);
/// The least queue that is worth a test.
const QUEUE: Duration = Duration::from_millis(4);

/// The round trips of a path of late.
#[derive(Debug)]
pub(crate) struct RecentRoundTrips {
    /// The shortest of each bin, in microseconds, with the bin's number.
    bins: Box<[(u64, u32); BINS]>,
    /// Since when it is heard of without a pause.
    since: Time,
    heard_at: Time,
    /// The shortest of all.
    base: Duration,
    srtt: Duration,
}

impl RecentRoundTrips {
    pub fn new(now: Time, rtt: Duration) -> Self {
        RecentRoundTrips {
            bins: Box::new([(u64::MAX, 0); BINS]),
            since: now,
            heard_at: now,
            base: rtt,
            srtt: rtt,
        }
    }

    pub fn on_round_trip(&mut self, now: Time, rtt: Duration) {
        if now.saturating_since(self.heard_at) > KNOWN {
            self.since = now;
        }
        self.heard_at = now;
        self.base = self.base.min(rtt);
        self.srtt = (self.srtt * 7 + rtt) / 8;
        let (number, micros) = (bin(now), u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX));
        let slot = &mut self.bins[number as usize % BINS];
        *slot = (number, if slot.0 == number { slot.1.min(micros) } else { micros });
    }

    /// The path takes no longer than this by itself.
    pub fn is_no_longer_than(&mut self, base: Duration) {
        self.base = self.base.min(base);
    }

    /// The shortest of all.
    pub fn base(&self) -> Duration {
        self.base
    }

    pub fn srtt(&self) -> Duration {
        self.srtt
    }

    pub fn heard_at(&self) -> Time {
        self.heard_at
    }

    /// The shortest round trip that was heard of from then to then.
    pub fn least(&self, from: Time, to: Time) -> Option<Duration> {
        let numbers = bin(from)..=bin(to).min(bin(from) + BINS as u64 - 1);
        let of = |number: u64| self.bins[number as usize % BINS];
        let heard = numbers.map(|number| (number, of(number))).filter(|(number, (of, _))| number == of);
        heard.map(|(_, (_, micros))| micros).min().map(|micros| Duration::from_micros(micros.into()))
    }

    /// Whether it was heard of without a pause until now, and for long enough to be compared with itself.
    pub fn is_busy(&self, now: Time) -> bool {
        now.saturating_since(self.heard_at) <= BUSY + self.srtt && now.saturating_since(self.since) >= KNOWN
    }

    /// The queue that stands, if it is worth a test.
    pub fn queue(&self, now: Time) -> Option<Duration> {
        let least = self.least(now - LATELY.max(self.srtt / 2), now)?;
        let queue = least.saturating_sub(self.base);
        (queue >= QUEUE).then_some(queue)
    }
}

fn bin(at: Time) -> u64 {
    at.as_nanos() / BIN.as_nanos() as u64
}
