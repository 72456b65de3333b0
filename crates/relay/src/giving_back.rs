//! The memory of sessions that are over, which the C library would keep for later ones: a client that reads nothing can have
//! megabytes, and a thousand of them what a host has.

/// Below this many sessions it is not looked whether half of them are over.
const FEW: u64 = 8;
/// After so many looks without a session, it is given back whatever there was.
const IDLE_LOOKS: u32 = 5;

/// Says when giving memory back is worth the millisecond that it takes: when half of the sessions are over, or all for a while.
#[derive(Debug, Default)]
pub struct GivingBack {
    /// Sessions that there were since the last time.
    most: u64,
    /// Looks since the last of them.
    idle: u32,
}

impl GivingBack {
    /// There are so many sessions now.
    pub fn look(&mut self, sessions: u64) {
        if self.is_worth_it(sessions) {
            shorthaul_os::limits::give_back_memory();
        }
    }

    fn is_worth_it(&mut self, sessions: u64) -> bool {
        self.most = self.most.max(sessions);
        self.idle = if sessions == 0 { self.idle.saturating_add(1) } else { 0 };
        let are_half_over = self.most > FEW && sessions <= self.most / 2;
        let are_all_over = self.most > 0 && self.idle >= IDLE_LOOKS;
        if are_half_over || are_all_over {
            self.most = sessions;
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_when_half_of_the_sessions_are_over_and_when_all_are() {
        let mut giving = GivingBack::default();
        let looks = [200, 150, 100, 60, 50, 12, 6, 4, 0, 0, 0, 0, 0, 0];
        let given: Vec<u64> = looks.into_iter().filter(|sessions| giving.is_worth_it(*sessions)).collect();
        assert_eq!(given, [100, 50, 12, 6, 0], "the last of a few are waited for until they stay away");
        // One session after the other is no reason.
        assert!(![1, 0, 1, 0, 1, 0, 0, 1].into_iter().any(|sessions| giving.is_worth_it(sessions)));
        assert_eq!((0..5).filter(|_| giving.is_worth_it(0)).count(), 1);
    }
}
