//! What the connections of a group share goes on in another process.
use super::control_block::Aggregate;
use crate::custody::SharedMomentum;
use shorthaul_types::Time;

impl Aggregate {
    /// What its connections share, for another process that goes on with them.
    pub fn momentum(&self) -> SharedMomentum {
        SharedMomentum { window: self.window(), rtt: self.rtt.known(), known: self.window.snapshot() }
    }

    /// Goes on with what another process had found.
    pub fn take_over(&mut self, now: Time, momentum: &SharedMomentum) {
        if !self.window.restore(now, &momentum.known) {
            self.window.take_over(momentum.window);
        }
        if let Some(rtt) = &momentum.rtt {
            self.rtt.take_over(now, rtt);
        }
        self.pace();
    }
}
