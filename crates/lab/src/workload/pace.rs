use shorthaul_types::{BitRate, Bytes};
use std::time::Duration;

/// When a sender writes what it has; times count from when it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// As fast as TCP takes it.
    #[default]
    AtOnce,
    /// At a rate, piece by piece, during phases.
    Phases {
        /// What falls due at once.
        piece: Bytes,
        /// How fast pieces follow each other.
        rate: BitRate,
        /// From when to when, in order; the end is not part of a phase.
        phases: Vec<(Duration, Duration)>,
    },
    /// In bursts, each this long after the last byte of the one before was written.
    Bursts {
        /// The size of one.
        burst: Bytes,
        /// What passes before the second, the third, and so on.
        idle: Vec<Duration>,
    },
}

/// What may have been written at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// Bytes, in all.
    pub bytes: u64,
    /// When it will be more; never if `None`.
    pub next: Option<Duration>,
}

impl Pace {
    /// How much falls due in all; `None` if that does not depend on the pace.
    pub fn total(&self) -> Option<Bytes> {
        match self {
            Pace::AtOnce => None,
            Pace::Phases { .. } => Some(Bytes(self.due(Duration::MAX, 0, Duration::ZERO).bytes)),
            Pace::Bursts { burst, idle } => Some(Bytes(burst.0 * (idle.len() as u64 + 1))),
        }
    }

    /// What is due at `now`, when `sent` bytes have been written, the last of them at `written`.
    pub(super) fn due(&self, now: Duration, sent: u64, written: Duration) -> Due {
        match self {
            Pace::AtOnce => Due { bytes: u64::MAX, next: None },
            Pace::Phases { piece, rate, phases } => {
                let gap = rate.time_to_send(*piece).as_nanos().max(1);
                let mut due = Due { bytes: 0, next: None };
                for (from, to) in phases {
                    if *from > now {
                        due.next = due.next.or(Some(*from));
                        break;
                    }
                    // Pieces at from, from + gap, …, as long as the phase lasts.
                    let all = to.saturating_sub(*from).as_nanos().div_ceil(gap);
                    let until_now = (now - *from).as_nanos() / gap + 1;
                    if until_now < all {
                        due.next = Some(*from + nanoseconds(gap * until_now));
                    }
                    due.bytes += piece.0 * all.min(until_now) as u64;
                }
                due
            }
            Pace::Bursts { burst, idle } => {
                let begun = sent.div_ceil(burst.0.max(1));
                if begun == 0 || sent < begun * burst.0 {
                    return Due { bytes: begun.max(1) * burst.0, next: None };
                }
                match idle.get(begun as usize - 1) {
                    Some(pause) if written + *pause <= now => {
                        Due { bytes: (begun + 1) * burst.0, next: None }
                    }
                    Some(pause) => Due { bytes: sent, next: Some(written + *pause) },
                    None => Due { bytes: sent, next: None },
                }
            }
        }
    }
}

fn nanoseconds(count: u128) -> Duration {
    Duration::from_nanos(u64::try_from(count).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn phases_let_pieces_through_at_their_rate() {
        // 1000 bytes each 10 ms, for 25 ms and again from 100 ms on for 10 ms
        let pace = Pace::Phases {
            piece: Bytes(1000),
            rate: BitRate::from_bits_per_sec(800_000),
            phases: vec![(ms(0), ms(25)), (ms(100), ms(110))],
        };
        let due = |now| {
            let Due { bytes, next } = pace.due(now, 0, ms(0));
            (bytes, next)
        };
        assert_eq!(due(ms(0)), (1000, Some(ms(10))));
        assert_eq!(due(ms(15)), (2000, Some(ms(20))));
        assert_eq!(due(ms(20)), (3000, Some(ms(100))));
        assert_eq!(due(ms(100)), (4000, None));
        assert_eq!(pace.total(), Some(Bytes(4000)));
    }

    #[test]
    fn bursts_follow_their_pauses() {
        let pace = Pace::Bursts { burst: Bytes(500), idle: vec![ms(30), ms(40)] };
        assert_eq!(pace.total(), Some(Bytes(1500)));
        let due = |now, sent| pace.due(now, sent, ms(5));
        assert_eq!(due(ms(0), 0), Due { bytes: 500, next: None });
        assert_eq!(due(ms(6), 200), Due { bytes: 500, next: None });
        assert_eq!(due(ms(6), 500), Due { bytes: 500, next: Some(ms(35)) });
        assert_eq!(due(ms(35), 500), Due { bytes: 1000, next: None });
        assert_eq!(due(ms(99), 1500), Due { bytes: 1500, next: None });
    }
}
