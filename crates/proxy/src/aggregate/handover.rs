//! What the connections of a group share goes on in another process.
use super::beyond::{Hold, Source};
use super::control_block::Aggregate;
use super::member::Member;
use crate::custody::SharedMomentum;
use alloc::vec::Vec;
use shorthaul_types::{Keep, Numbers, Time, keeps};

/// Of [`Member::momentum`] and [`Source::momentum`]: another one with each change of what is handed over.
const VERSION: u64 = 2;

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

impl Member {
    /// What a connection has of its own, for another process that goes on with it.
    pub fn momentum(&self) -> Vec<u64> {
        let mut to = [VERSION].to_vec();
        self.interactive.put(&mut to);
        self.active_at.put(&mut to);
        self.rate.put(&mut to);
        self.share.put(&mut to);
        self.arrivals.put(&mut to);
        self.off_link.put(&mut to);
        to
    }

    /// Goes on with what another process knew, if the numbers fit. `queued_time` is the time that the bytes of its host were queued here
    /// ([`Situation`](super::window_share::Situation)).
    pub fn take_over(&mut self, now: Time, queued_time: f64, numbers: &[u64]) {
        let (mut interactive, mut active_at) = (self.interactive, self.active_at);
        let mut rate = self.rate.clone();
        let (mut share, mut arrivals) = (self.share.clone(), self.arrivals.clone());
        let mut off_link = self.off_link;
        let mut from = Numbers(numbers);
        let mut take = || {
            let is_ours = from.next()? == VERSION;
            interactive.take(&mut from)?;
            active_at.take(&mut from)?;
            rate.take(&mut from)?;
            share.take(&mut from)?;
            arrivals.take(&mut from)?;
            off_link.take(&mut from)?;
            (is_ours && from.0.is_empty()).then_some(())
        };
        if take().is_some() {
            // Whose turn it is begins anew: a pass says something beside those of the others alone.
            (self.interactive, self.active_at) = (interactive, active_at);
            (self.rate, self.arrivals, self.off_link) = (rate, arrivals, off_link);
            share.go_on(now, queued_time, self.received);
            self.share = share;
        }
    }
}

keeps!(Source { hold, without, bound_here, known, let_go });

impl Source {
    /// Whether its senders are held, for another process.
    pub fn momentum(&self) -> Vec<u64> {
        let mut to = [VERSION].to_vec();
        self.put(&mut to);
        to
    }

    /// Goes on with what another process had found of the path to it, and with what it did about that.
    pub fn take_over(&mut self, now: Time, window: &SharedMomentum, hold: &[u64]) {
        self.window.take_over(now, window);
        let before = (self.hold, self.without, self.bound_here, self.known, self.let_go);
        let mut from = Numbers(hold);
        if from.next() != Some(VERSION) || self.take(&mut from).is_none() || !from.0.is_empty() {
            (self.hold, self.without, self.bound_here, self.known, self.let_go) = before;
        }
    }
}

impl Keep for Hold {
    fn put(&self, to: &mut Vec<u64>) {
        let (kind, at, rounds, stuck) = match *self {
            Hold::Free => (0, Time::ZERO, 0, 0),
            Hold::Held { since, rounds, stuck } => (1, since, rounds, stuck),
            Hold::LetGo { until } => (2, until, 0, 0),
        };
        to.extend([kind, at.as_nanos(), rounds.into(), stuck.into()]);
    }

    fn take(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        let (mut kind, mut at, mut rounds, mut stuck) = (0u64, Time::ZERO, 0u32, 0u32);
        kind.take(from)?;
        at.take(from)?;
        rounds.take(from)?;
        stuck.take(from)?;
        *self = match kind {
            0 => Hold::Free,
            1 => Hold::Held { since: at, rounds, stuck },
            2 => Hold::LetGo { until: at },
            _ => return None,
        };
        Some(())
    }
}
