//! What a window has found goes on in another process.
use super::{AutoClamp, FLOOR, Phase};
use crate::snapshot::{keeps, restored, snapshot};
use crate::window::MAX_WINDOW;
use alloc::vec::Vec;
use shorthaul_types::Time;

/// Of [`AutoClamp::snapshot`]: another one with each change of what is handed over.
const VERSION: u64 = 2;

keeps!(AutoClamp {
    path,
    shortest,
    variation,
    aggregation,
    base,
    window,
    first,
    begun_until,
    starting,
    full,
    settling,
    filled,
    best,
    min_rtt_rate,
    longer,
    full_rtt,
    confirmed_at,
    recent,
    at_least,
    beside,
    overflown,
    under_load,
    surplus_rtt,
});

impl AutoClamp {
    /// What it knows, as numbers for another process that goes on with it.
    pub fn snapshot(&self) -> Vec<u64> {
        let window = match self.phase {
            Phase::Drain { before, .. } => before,
            Phase::Follow | Phase::Refill { .. } => self.window,
        };
        snapshot(VERSION, &AutoClamp { window, ..self.clone() })
    }

    /// Goes on at `now` with what another process knew. Says whether the numbers fit; if not, nothing changes.
    pub fn restore(&mut self, now: Time, numbers: &[u64]) -> bool {
        let Some(next) = restored(VERSION, self, numbers) else { return false };
        *self = AutoClamp { window: next.window.max(FLOOR * self.mss).min(MAX_WINDOW), ..next };
        self.path.on_gap(now);
        self.aggregation.restart(now);
        // Rates are those of this window again when what is sent now has been delivered.
        self.phase = Phase::Refill { rounds: 2 };
        true
    }
}
