//! The memory of sessions that are over, which the C library would keep for later ones: a client that reads nothing can have
//! megabytes, and a thousand of them what a host has.

use std::time::{Duration, Instant};

/// It is given back no more often.
const EVERY: Duration = Duration::from_secs(5);

/// Says when giving memory back is worth the milliseconds that it takes: when half of the sessions are over.
#[derive(Debug, Default)]
pub struct GivingBack {
    /// Sessions that there were at the same time since the last time.
    most: u64,
    /// When that was.
    last: Option<Instant>,
}

impl GivingBack {
    /// There are so many sessions now. Nobody who serves them waits for the memory.
    pub fn look(&mut self, sessions: u64) {
        if self.is_worth_it(sessions, Instant::now()) {
            tokio::task::spawn_blocking(shorthaul_os::limits::give_back_memory);
        }
    }

    fn is_worth_it(&mut self, sessions: u64, now: Instant) -> bool {
        self.most = self.most.max(sessions);
        let are_half_over = self.most > 0 && sessions <= self.most / 2;
        let is_due = self.last.is_none_or(|last| now.saturating_duration_since(last) >= EVERY);
        if are_half_over && is_due {
            (self.most, self.last) = (sessions, Some(now));
        }
        are_half_over && is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The looks at which memory is given back, of one each second.
    fn given(looks: &[u64]) -> Vec<usize> {
        let (mut giving, began) = (GivingBack::default(), Instant::now());
        let at = |second: usize| began + Duration::from_secs(second as u64);
        (0..looks.len()).filter(|&second| giving.is_worth_it(looks[second], at(second))).collect()
    }

    #[test]
    fn memory_is_given_back_when_half_of_the_sessions_are_over_and_not_too_often() {
        assert_eq!(given(&[200, 150, 100, 60, 50, 12, 6, 4, 0, 0, 0, 0, 0, 0, 0, 0]), [2, 7, 12]);
        // One session after the other: now and then.
        let by_turns: Vec<u64> = (0..60).map(|second| second % 2).collect();
        assert!(given(&by_turns).len() <= 12);
        assert_eq!(given(&[0; 20]), [0; 0], "nothing was there");
    }

    #[test]
    fn one_that_stays_does_not_keep_the_memory_of_the_others() {
        assert_eq!(given(&[8, 8, 1, 1, 1, 1, 1, 1, 1, 1]), [2]);
        assert_eq!(given(&[3, 3, 1, 1, 1, 1, 1, 1, 1, 1]), [2]);
    }
}
