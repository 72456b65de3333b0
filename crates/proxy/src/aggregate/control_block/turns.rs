//! Who has the next turn, how much it may send, and what is done where the window is full and nothing leaves.
use super::Aggregate;
use crate::aggregate::member::PROBE;
use crate::aggregate::stride::Turn;
use core::time::Duration;
use shorthaul_types::Time;

/// The least time without anything to send after which the window may be full of what is on the link no more.
const LEAST_STARVED: Duration = Duration::from_millis(50);

impl Aggregate {
    /// Who has the next turn, and how many bytes it may send; `None` if nothing may leave now.
    pub fn next_turn(&mut self, now: Time) -> Option<(Turn, u64)> {
        let mss = u64::from(self.mss);
        if let Some(flow) = self.asking.pop_front() {
            return Some((Turn { flow, serial: PROBE, priority: 0, pass: 0, unsplit: false }, mss));
        }
        if self.stall.is_some() {
            return None;
        }
        if now < self.held_until {
            self.look_at = Some(self.held_until);
            return None;
        }
        if self.parts.is_empty() {
            self.window.on_limited(self.under_way());
            return None;
        }
        let round_trip = self.unsplit_round_trip();
        self.unsplit.expire(now, round_trip);
        let credit = match self.is_measured(now) || self.most.is_none() {
            true => self.window().saturating_sub(self.under_way()),
            // The rate alone is known.
            false => u64::MAX,
        };
        // Nobody keeps the acknowledgment of a packet that is not split: a call does not wait for room for two segments.
        let least = if self.parts.next_is_unsplit() { mss } else { self.window.least_turn(self.mss) };
        if credit < least && !self.is_starved(now, least) {
            self.window.on_full();
            let starves_at = self.unanswered_at(least).filter(|at| *at > now);
            self.look_at = self.unsplit.expires_at(round_trip).into_iter().chain(starves_at).min();
            return None;
        }
        let mut budget = u64::MAX;
        if self.config.pacing {
            if self.under_way() == 0 {
                self.pacer.on_transmit_start(now);
            }
            self.pace_at = self.pacer.next_send(now, least);
            if self.pace_at.is_some() {
                return None;
            }
            budget = self.pacer.budget(now).max(least);
        }
        // Small beside the window, so that shares are exact; long enough that a fast link is served in
        // super-segments.
        let quantum = (self.window() / 32 / mss * mss).max(least);
        let turn = self.parts.next()?;
        Some((turn, quantum.min(credit.max(least)).min(budget)))
    }

    /// Whether connections wait for each other, since the window is too small for two segments of each.
    pub fn takes_turns(&self) -> bool {
        self.window.takes_turns(self.mss)
    }

    /// Whether the window is full of what its peers acknowledge bit by bit, long after it has come, and nothing has left for two round trips; or of what
    /// they do not answer at all. One turn of `least` bytes finds out whether others answer sooner.
    fn is_starved(&self, now: Time, least: u64) -> bool {
        let wait = self.rtt.min_rtt().map_or(LEAST_STARVED, |rtt| LEAST_STARVED.max(2 * rtt));
        let is_fed = now.saturating_since(self.fed_at) < wait;
        now.saturating_since(self.sent_at) >= wait && is_fed
            || self.unanswered_at(least).is_some_and(|at| at <= now)
    }

    /// When the few turns that fill the window have been unanswered for two round trips, if nothing leaves before: who has them may be gone. No more than
    /// one turn leaves beside the window, since a link may be slow.
    fn unanswered_at(&self, least: u64) -> Option<Time> {
        let wait =
            self.rtt.srtt().max(self.rtt.min_rtt()).map_or(LEAST_STARVED, |rtt| LEAST_STARVED.max(2 * rtt));
        let is_room = self.under_way() < self.window() + least;
        (self.takes_turns() && is_room).then(|| self.sent_at.max(self.fed_at) + wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::sync::Arc;
    use alloc::vec::Vec;

    const MSS: u32 = 1448;
    const START: Time = Time::from_secs(1);

    /// Two hosts with twenty connections each that have something to send, and their parts.
    fn of_two_hosts() -> (Aggregate, [u32; 2]) {
        let mut aggregate = Aggregate::new(START, MSS, Arc::default());
        let hosts = [0, 1].map(|_| aggregate.parts.insert(START, 1));
        for part in hosts {
            (0..20).for_each(|_| aggregate.parts.set_active(part, true));
        }
        aggregate.on_active(START);
        (aggregate, hosts)
    }

    #[test]
    fn hosts_that_take_turns_have_one_however_small_their_window_is() {
        let (mut aggregate, hosts) = of_two_hosts();
        let mut now = START;
        let mut windows = Vec::new();
        for flow in 0..60 {
            let turn = Turn { flow, serial: 1, priority: 1, pass: 0, unsplit: false };
            aggregate.parts.wait(hosts[flow as usize % 2], turn);
            let (_, credit) = aggregate.next_turn(now).expect("nothing is on its way");
            let window = aggregate.window();
            assert!(credit <= window, "{credit} of {window}");
            windows.push(window / u64::from(MSS));
            // A queue on the way marks each round trip.
            now += Duration::from_millis(100);
            aggregate.window.on_mark(now, true, Duration::from_millis(100));
        }
        assert!(windows[0] >= 10 && windows[59] == 1, "{windows:?}");
    }

    #[test]
    fn a_packet_that_is_not_split_needs_no_room_for_two_segments() {
        let (mut aggregate, hosts) = of_two_hosts();
        let now = START;
        let turn = |flow, unsplit| Turn { flow, serial: 1, priority: 1, pass: 0, unsplit };
        aggregate.on_send(now, (&turn(0, false), hosts[0]), (1, MSS), 0);
        aggregate.in_flight = aggregate.window() - u64::from(MSS);
        aggregate.parts.wait(hosts[0], turn(1, false));
        assert!(aggregate.next_turn(now).is_none(), "there is room for one segment");
        aggregate.parts.wait(hosts[1], turn(2, true));
        let (turn, credit) = aggregate.next_turn(now).expect("its host has had less");
        assert_eq!((turn.flow, turn.unsplit, credit), (2, true, u64::from(MSS)));
        assert!(aggregate.next_turn(now).is_none());
    }

    #[test]
    fn who_answers_nothing_keeps_a_small_window_for_two_round_trips_only() {
        let (mut aggregate, hosts) = of_two_hosts();
        let now = START;
        let window = aggregate.window();
        let turn = |flow| Turn { flow, serial: 1, priority: 1, pass: 0, unsplit: false };
        (1..=2).for_each(|flow| aggregate.parts.wait(hosts[1], turn(flow)));
        // The first host has all of it on its way, and is gone.
        aggregate.on_send(now, (&turn(0), hosts[0]), (window, MSS), 0);
        aggregate.in_flight = window;
        assert!(aggregate.next_turn(now).is_none());
        let at = aggregate.deadline().expect("it is looked again");
        assert_eq!(at, now + LEAST_STARVED);
        let (turn, credit) = aggregate.next_turn(at).expect("the other one has a turn");
        assert_eq!((turn.flow, credit), (1, 2 * u64::from(MSS)));
        // One turn beside the window and no more, and none where acknowledgments come.
        aggregate.on_send(at, (&turn, hosts[1]), (credit, MSS), window);
        aggregate.in_flight += credit;
        let later = at + LEAST_STARVED;
        assert!(aggregate.next_turn(later).is_none());
        aggregate.in_flight = window;
        aggregate.fed_at = later;
        assert!(aggregate.unanswered_at(2 * u64::from(MSS)).is_some_and(|at| at > later));
    }
}
