//! What has moved of a session, and in how much time.
use crate::pump::Broken;
use crate::resume::{Moved, Watch};
use shorthaul_types::Bytes;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A silence of so many times as long as the set-up took, or of [`SILENCE`] if that is longer, is the application's: the way is not
/// charged with it.
const SET_UPS: u32 = 4;
/// See [`SET_UPS`].
const SILENCE: Duration = Duration::from_millis(250);

/// What has moved, and in how much time.
///
/// What an application gives goes into buffers, long before it has arrived: where the other end acknowledges what it has, the time until it has said so of all is the
/// way's, however long it is silent.
#[derive(Debug)]
pub struct Progress {
    began: Instant,
    /// A longer silence is a pause.
    pause: Duration,
    given: AtomicU64,
    received: AtomicU64,
    /// When something moved last, in microseconds since the beginning.
    last: AtomicU64,
    /// Microseconds without the pauses.
    busy: AtomicU64,
    pauses: AtomicU32,
    /// Something was given that the other end has not acknowledged, and will.
    owes: AtomicBool,
    /// The other end acknowledges what it has.
    is_acknowledged: AtomicBool,
}

impl Progress {
    /// Of a session that is there as of now, and was set up in so much time.
    pub fn new(set_up: Duration) -> Progress {
        Progress {
            began: Instant::now(),
            pause: (set_up * SET_UPS).max(SILENCE),
            given: AtomicU64::new(0),
            received: AtomicU64::new(0),
            last: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            pauses: AtomicU32::new(0),
            owes: AtomicBool::new(false),
            is_acknowledged: AtomicBool::new(false),
        }
    }

    /// So much was moved just now.
    pub fn moved(&self, way: Moved, bytes: usize) {
        self.moved_at(way, bytes, self.began.elapsed());
    }

    /// What was given before the session was there is to be acknowledged, too.
    pub fn owe(&self) {
        self.owes.store(true, Relaxed);
    }

    /// What there is by now.
    pub fn sum(&self) -> Sum {
        Sum {
            given: Bytes(self.given.load(Relaxed)),
            received: Bytes(self.received.load(Relaxed)),
            busy: Duration::from_micros(self.busy.load(Relaxed)),
            pauses: self.pauses.load(Relaxed),
            is_acknowledged: self.is_acknowledged.load(Relaxed),
        }
    }

    fn moved_at(&self, way: Moved, bytes: usize, at: Duration) {
        let moved = if way == Moved::Given { &self.given } else { &self.received };
        moved.fetch_add(bytes as u64, Relaxed);
        self.pass(at);
    }

    /// Something was given that the other end is to acknowledge.
    fn given_at(&self, bytes: usize, at: Duration) {
        self.moved_at(Moved::Given, bytes, at);
        self.owes.store(true, Relaxed);
    }

    /// The other end has acknowledged something, or all.
    fn acknowledged_at(&self, all: bool, at: Duration) {
        self.is_acknowledged.store(true, Relaxed);
        if self.owes.load(Relaxed) {
            self.pass(at);
            self.owes.store(!all, Relaxed);
        }
    }

    /// Something has happened.
    fn pass(&self, at: Duration) {
        let now = u64::try_from(at.as_micros()).unwrap_or(u64::MAX);
        let silent = now.saturating_sub(self.last.swap(now, Relaxed));
        if self.owes.load(Relaxed) || u128::from(silent) <= self.pause.as_micros() {
            self.busy.fetch_add(silent, Relaxed);
        } else {
            self.pauses.fetch_add(1, Relaxed);
        }
    }
}

/// What there is of it by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// What the application gave.
    pub given: Bytes,
    /// What came back.
    pub received: Bytes,
    /// How long bytes moved, without pauses.
    pub busy: Duration,
    /// How often the application paused.
    pub pauses: u32,
    /// Whether the other end has acknowledged anything, so that the time is that until it had.
    pub is_acknowledged: bool,
}

impl Watch for Progress {
    fn on_moved(&self, way: Moved, bytes: usize) -> Result<Duration, Broken> {
        let at = self.began.elapsed();
        match way {
            Moved::Given => self.given_at(bytes, at),
            Moved::Received => self.moved_at(way, bytes, at),
        }
        Ok(Duration::ZERO)
    }

    fn on_acknowledged(&self, all: bool) {
        self.acknowledged_at(all, self.began.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_of_the_application_are_not_charged_to_the_way() {
        let ms = Duration::from_millis;
        let progress = Progress::new(ms(100));
        // Asked at once, answered for a second; then the user reads for ten, and asks again.
        progress.moved_at(Moved::Given, 100, ms(1));
        for tenth in 1..=10 {
            progress.moved_at(Moved::Received, 1000, ms(100 * tenth));
        }
        progress.moved_at(Moved::Given, 100, ms(11_000));
        progress.moved_at(Moved::Received, 1000, ms(11_200));
        let sum = Sum {
            given: Bytes(200),
            received: Bytes(11_000),
            busy: ms(1200),
            pauses: 1,
            is_acknowledged: false,
        };
        assert_eq!(progress.sum(), sum);
    }

    #[test]
    fn what_waits_in_buffers_has_not_arrived() {
        let ms = Duration::from_millis;
        let progress = Progress::new(ms(100));
        // Five megabytes are given at once, and the way takes eight seconds for them; then the user reads for ten, and gives a little more.
        progress.given_at(5_000_000, ms(10));
        progress.acknowledged_at(false, ms(3000));
        progress.acknowledged_at(true, ms(8000));
        progress.given_at(100, ms(18_000));
        progress.acknowledged_at(true, ms(18_500));
        // What was acknowledged before is no news.
        progress.acknowledged_at(true, ms(40_000));
        let given = Bytes(5_000_100);
        let sum = Sum { given, received: Bytes(0), busy: ms(8500), pauses: 1, is_acknowledged: true };
        assert_eq!(progress.sum(), sum);
    }
}
