//! What has moved of a session, and in how much time.
use crate::pump::Broken;
use crate::resume::{Moved, Watch};
use shorthaul_types::Bytes;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A silence of so many times as long as the set-up took, or of [`SILENCE`] if that is longer, is the application's: the way is not
/// charged with it.
const SET_UPS: u32 = 4;
/// See [`SET_UPS`].
const SILENCE: Duration = Duration::from_millis(250);
/// What has moved, and in how much time.
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
        }
    }

    /// So much was moved just now.
    pub fn moved(&self, way: Moved, bytes: usize) {
        self.moved_at(way, bytes, self.began.elapsed());
    }

    /// What there is by now.
    pub fn sum(&self) -> Sum {
        Sum {
            given: Bytes(self.given.load(Relaxed)),
            received: Bytes(self.received.load(Relaxed)),
            busy: Duration::from_micros(self.busy.load(Relaxed)),
            pauses: self.pauses.load(Relaxed),
        }
    }

    fn moved_at(&self, way: Moved, bytes: usize, at: Duration) {
        let moved = if way == Moved::Given { &self.given } else { &self.received };
        moved.fetch_add(bytes as u64, Relaxed);
        let now = u64::try_from(at.as_micros()).unwrap_or(u64::MAX);
        let silent = now.saturating_sub(self.last.swap(now, Relaxed));
        if u128::from(silent) <= self.pause.as_micros() {
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
}

impl Watch for Progress {
    fn on_moved(&self, way: Moved, bytes: usize) -> Result<Duration, Broken> {
        self.moved(way, bytes);
        Ok(Duration::ZERO)
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
        let sum = Sum { given: Bytes(200), received: Bytes(11_000), busy: ms(1200), pauses: 1 };
        assert_eq!(progress.sum(), sum);
    }
}
