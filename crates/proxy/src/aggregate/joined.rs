//! Hosts that are served together since they lost too much without.
use core::time::Duration;
use shorthaul_types::{Blank, Time, keeps};

/// For so long whoever is found to belong there begins it anew: they are found one after the other.
const FOUND: Duration = Duration::from_secs(3);
/// After this time, and twice as long each time up to the other, it may begin anew again: who keeps coming must not keep what is measured of the others from
/// counting.
const AGAIN: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(160)];

/// Since when a group serves hosts that were joined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joined {
    began: Time,
    again: Duration,
}

keeps!(Joined { began, again });

impl Blank for Joined {
    fn blank() -> Self {
        Joined::new(Time::ZERO)
    }
}

impl Joined {
    /// Hosts are joined now.
    pub fn new(now: Time) -> Self {
        Joined { began: now, again: AGAIN[0] }
    }

    /// They are, or more are. Whether what was measured of all says nothing any more; if not, the newcomers take a part of what was found.
    pub fn begins_anew(&mut self, now: Time) -> bool {
        let since = now.saturating_since(self.began);
        if since >= self.again {
            (self.began, self.again) = (now, self.again.saturating_mul(2).min(AGAIN[1]));
            return true;
        }
        since < FOUND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_keeps_coming_leaves_most_of_the_time_to_what_is_measured() {
        let mut joined = Joined::new(Time::ZERO);
        let anew: usize = (0..600).filter(|tenth| joined.begins_anew(Time::from_millis(100 * tenth))).count();
        assert_eq!(anew, 3 * 30, "for 3 s at 0, 10 and 30 s");
        assert!(joined.begins_anew(Time::from_secs(70)), "and at 70 s");
    }
}
