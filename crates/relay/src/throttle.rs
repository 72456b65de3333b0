//! What strangers can make a node say is said so often at most.
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A round of the log.
const ROUND: Duration = Duration::from_secs(10);
/// Lines in a round.
const MOST: u32 = 10;

/// Lets ten lines in ten seconds pass, and counts the others.
#[derive(Debug, Default)]
pub struct Throttle(Mutex<Option<Round>>);

#[derive(Debug)]
struct Round {
    began: Instant,
    said: u32,
    left_out: u64,
}

impl Throttle {
    /// How many were left out of a round that is over, if nothing was said since: said once.
    pub fn rest(&self, now: Instant) -> Option<u64> {
        let mut round = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let round = round.as_mut().filter(|round| now.saturating_duration_since(round.began) >= ROUND)?;
        Some(std::mem::take(&mut round.left_out)).filter(|left_out| *left_out > 0)
    }

    /// Whether a line may be said now; if so, how many were left out since the last one.
    pub fn passes(&self, now: Instant) -> Option<u64> {
        let mut round = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let round = round.get_or_insert(Round { began: now, said: 0, left_out: 0 });
        if now.saturating_duration_since(round.began) >= ROUND {
            (round.began, round.said) = (now, 0);
        }
        if round.said >= MOST {
            round.left_out += 1;
            return None;
        }
        round.said += 1;
        Some(std::mem::take(&mut round.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_lines_and_then_how_many_were_left_out() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        let said = (0..1000).filter(|_| throttle.passes(now) == Some(0)).count();
        assert_eq!(said, MOST as usize);
        assert_eq!(throttle.passes(now + ROUND), Some(990));
        assert_eq!(throttle.passes(now + ROUND), Some(0));
    }
}
