//! What the hosts of a bottleneck group have of their own in its aggregate: whose turn it is among them, what waits for each,
//! and how far away each is.
//!
//! Turns go to hosts first, by stride scheduling with a host's weight for its tickets; within a host to its flows, as
//! [`Stride`] has it. So a host has its share however many flows it has.
//!
//! Round trips of hosts differ by more than the queue that they share. They are told to the window as they would be of the nearest
//! host, and the window has room for what the others are farther away, on average over what is delivered.
use super::control_block::Delivered;
use super::stride::{Stride, Turn, advance};
use super::window_share::{Backlog, SlidingRate};
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;
use core::time::Duration;
use shorthaul_congestion::MinFilter;
use shorthaul_types::Time;
use slab::Slab;

/// For how long a host's shortest round trip is remembered: a found window drains its queue several times meanwhile.
const REMEMBERED: Duration = Duration::from_secs(30);
/// For how long the shortest of all is.
const NEAREST: Duration = Duration::from_secs(3600);

/// Round trips are averaged over this time, for all hosts alike: who is measured seldom must not remember a queue for longer than the others do.
const AVERAGED: Duration = Duration::from_secs(1);
/// Queues that differ by no more than this, in nanoseconds, are not told apart.
const DIFFERENCE: f64 = 10e6;
/// For so long they have to differ.
const DIFFERS: Duration = Duration::from_secs(3);
/// No host is taken to be farther away than the nearest by more than this: it says so itself.
const FARTHEST: Duration = Duration::from_secs(1);

/// A host's part.
#[derive(Debug)]
pub(crate) struct Part {
    turns: Stride,
    weight: u32,
    /// What it has used, over its weight: the least has the next turn.
    pass: u64,
    /// It is among those that wait.
    waiting: bool,
    /// What its connections have queued here.
    pub backlog: Backlog,
    /// How fast it is served.
    pub rate: SlidingRate,
    /// When what was delivered to it was sent.
    pub delivered: Delivered,
    /// How many of its connections are active.
    active: usize,
    /// Its shortest round trip of late.
    base: MinFilter,
    /// How much longer round trips are than the shortest, on average; nanoseconds.
    queue: f64,
    /// Round trips, on average; nanoseconds.
    trip: f64,
    /// How many of them were measured, and when the last one was.
    trips: u32,
    measured_at: Time,
    /// Since when that is another than the others'.
    differs_since: Option<Time>,
}

/// The parts of all hosts of a group.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    parts: Slab<Part>,
    waiting: BinaryHeap<Reverse<(u64, u32)>>,
    /// The pass of the last turn: who joins begins there, and not with all the time that it was silent to its credit.
    now: u64,
    /// The weights of the hosts that have active connections.
    active_weight: u64,
    active: usize,
    /// How many hosts have active connections.
    active_hosts: usize,
    nearest: MinFilter,
    /// How much farther away than the nearest the farthest is.
    reach: Duration,
    /// How much farther away hosts are, on average over what is delivered; nanoseconds.
    beyond: f64,
    /// The mean queues of all hosts that were measured, added up, and their mean round trips.
    measured: usize,
    queues: f64,
    trips: f64,
    /// Since when they are measured.
    queues_from: Time,
}

impl Part {
    fn forget_queue(&mut self) {
        (self.queue, self.trip, self.trips, self.differs_since) = (0.0, 0.0, 0, None);
    }
}

impl Parts {
    /// A host with this weight begins. Returns by what its part is known.
    pub fn insert(&mut self, now: Time, weight: u32) -> u32 {
        self.parts.insert(Part {
            turns: Stride::default(),
            weight: weight.max(1),
            pass: self.now,
            waiting: false,
            backlog: Backlog::new(now),
            rate: SlidingRate::new(now),
            delivered: Delivered::default(),
            active: 0,
            base: MinFilter::default(),
            queue: 0.0,
            trip: 0.0,
            trips: 0,
            measured_at: Time::ZERO,
            differs_since: None,
        }) as u32
    }

    /// How far away the host with this part of another group is, is known of this one's from now on.
    pub fn take_over(&mut self, part: u32, of: &Parts, there: u32) {
        if let (Some(known), Some(other)) = (self.parts.get_mut(part as usize), of.parts.get(there as usize))
        {
            known.base = other.base.clone();
        }
    }

    /// Whether a host waits in another queue than the others, and has done so for a while.
    pub fn differs(&mut self, now: Time, part: u32) -> bool {
        let count = self.measured;
        let known = self.parts.get_mut(part as usize).filter(|known| known.trips > 0 && count > 1);
        let Some(known) = known else { return false };
        let mean = |all: f64, own: f64| (all - own).max(0.0) / (count - 1) as f64;
        let others = mean(self.queues, known.queue);
        let differs = DIFFERENCE.max(known.queue.max(others) / 2.0);
        let apart = |one: f64, other: f64| (one - other).abs() > differs;
        // Who never saw the path without a queue seems to have none, but its round trips are as long as the others'.
        if !apart(known.queue, others) || !apart(known.trip, mean(self.trips, known.trip)) {
            known.differs_since = None;
            return false;
        }
        now.saturating_since(*known.differs_since.get_or_insert(now)) >= DIFFERS
    }

    /// Hosts come from other groups, and were in the same queue. How long each waited before says nothing of how long it will: only round trips that end
    /// later than `from` do.
    pub fn forget_queues(&mut self, from: Time) {
        self.queues_from = from;
        for (_, part) in &mut self.parts {
            part.forget_queue();
        }
        (self.measured, self.queues, self.trips) = (0, 0.0, 0.0);
    }

    /// A host without connections is forgotten.
    pub fn remove(&mut self, part: u32) {
        if let Some(gone) = self.parts.try_remove(part as usize) {
            self.measured -= usize::from(gone.trips > 0);
            self.queues -= gone.queue;
            self.trips -= gone.trip;
            if gone.active > 0 {
                self.active -= gone.active;
                self.active_hosts -= 1;
                self.active_weight -= u64::from(gone.weight);
            }
            self.waiting.retain(|Reverse((_, waiting))| *waiting != part);
        }
    }

    pub fn get(&self, part: u32) -> Option<&Part> {
        self.parts.get(part as usize)
    }

    pub fn get_mut(&mut self, part: u32) -> Option<&mut Part> {
        self.parts.get_mut(part as usize)
    }

    /// How many hosts there are.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// How many connections are active, of all hosts.
    pub fn active(&self) -> usize {
        self.active
    }

    /// How many hosts have active connections: of one that is silent nothing is shared.
    pub fn active_hosts(&self) -> usize {
        self.active_hosts
    }

    /// A connection of a host has become active, or is no more.
    pub fn set_active(&mut self, part: u32, is_active: bool) {
        let Some(known) = self.parts.get_mut(part as usize) else { return };
        let (before, weight) = (known.active, u64::from(known.weight));
        if is_active {
            known.active += 1;
            self.active += 1;
        } else {
            known.active -= 1;
            self.active -= 1;
        }
        match (before, known.active) {
            (0, _) => {
                self.active_weight += weight;
                self.active_hosts += 1;
            }
            (_, 0) => {
                self.active_weight -= weight;
                self.active_hosts -= 1;
                // How long it waited says nothing of how long the others wait from now on.
                self.measured -= usize::from(known.trips > 0);
                self.queues -= known.queue;
                self.trips -= known.trip;
                known.forget_queue();
            }
            _ => {}
        }
    }

    /// What a host is due of what its group has, from 0 to 1; how many of its connections are active; its rate in bytes a second;
    /// and the time that its bytes were queued here, in byte-seconds.
    pub fn share(&self, part: u32, now: Time) -> (f64, usize, f64, f64) {
        let Some(known) = self.parts.get(part as usize) else { return (1.0, 0, 0.0, 0.0) };
        let weight = u64::from(known.weight);
        let others = self.active_weight - if known.active > 0 { weight } else { 0 };
        let due = weight as f64 / (others + weight) as f64;
        (due, known.active, known.rate.get(now), known.backlog.byte_time(now))
    }

    /// Something of a host waits for its turn.
    pub fn wait(&mut self, part: u32, turn: Turn) {
        let Some(known) = self.parts.get_mut(part as usize) else { return };
        known.turns.wait(turn);
        if !core::mem::replace(&mut known.waiting, true) {
            known.pass = known.pass.max(self.now);
            self.waiting.push(Reverse((known.pass, part)));
        }
    }

    /// The pass of the last turn of a flow of a host with this priority.
    pub fn now(&self, part: u32, priority: u8) -> u64 {
        self.parts.get(part as usize).map_or(0, |known| known.turns.now(priority))
    }

    /// The next turn. Whoever has it and still has something to send afterwards waits again.
    pub fn next(&mut self) -> Option<Turn> {
        while let Some(Reverse((pass, part))) = self.waiting.pop() {
            let Some(known) = self.parts.get_mut(part as usize) else { continue };
            if known.pass > pass {
                // It has sent since it took its place.
                self.waiting.push(Reverse((known.pass, part)));
                continue;
            }
            self.now = pass;
            let turn = known.turns.next();
            known.waiting = !known.turns.is_empty();
            if known.waiting {
                self.waiting.push(Reverse((known.pass, part)));
            }
            if turn.is_some() {
                return turn;
            }
        }
        None
    }

    /// Whether the next turn is that of packets that are not split.
    pub fn next_is_unsplit(&mut self) -> bool {
        while let Some(Reverse((pass, part))) = self.waiting.peek().copied() {
            match self.parts.get(part as usize) {
                Some(known) if known.pass <= pass => return known.turns.next_is_unsplit(),
                known => {
                    // It has sent since it took its place, or it is gone.
                    let now = known.map(|known| known.pass);
                    self.waiting.pop();
                    self.waiting.extend(now.map(|pass| Reverse((pass, part))));
                }
            }
        }
        false
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A host was sent `bytes`.
    pub fn charge(&mut self, part: u32, bytes: u64) {
        if let Some(known) = self.parts.get_mut(part as usize) {
            known.pass = advance(known.pass.max(self.now), bytes, known.weight);
        }
    }

    /// A delivery of this part of a window to a host measured a round trip, and was acknowledged at once or perhaps not. Returns what it would be of the nearest host.
    pub fn on_round_trip(
        &mut self,
        now: Time,
        part: u32,
        (rtt, at_once): (Duration, bool),
        of_window: f64,
    ) -> Duration {
        let Some(known) = self.parts.get_mut(part as usize) else { return rtt };
        let before = known.base.get();
        known.base.update(now, rtt, REMEMBERED);
        let base = known.base.get().unwrap_or(rtt);
        // A receiver may keep the acknowledgment of a single segment (RFC 5681 §4.2): that is no queue.
        if at_once && now >= self.queues_from {
            known.trips = known.trips.saturating_add(1);
            let since = now.saturating_since(core::mem::replace(&mut known.measured_at, now));
            let of_time = since.as_secs_f64() / (since + AVERAGED).as_secs_f64();
            let gain = of_time.max(1.0 / f64::from(known.trips));
            let more = (rtt.saturating_sub(base).as_nanos() as f64 - known.queue) * gain;
            known.queue += more;
            self.queues += more;
            let more = (rtt.as_nanos() as f64 - known.trip) * gain;
            self.measured += usize::from(known.trips == 1);
            known.trip += more;
            self.trips += more;
        }
        self.nearest.update(now, rtt, NEAREST);
        if self.parts.len() == 1 {
            self.beyond = 0.0;
            self.reach = Duration::ZERO;
            return rtt;
        }
        let nearest = self.nearest.get().unwrap_or(base);
        if before != Some(base) {
            let farthest = self.parts.iter().filter_map(|(_, part)| part.base.get()).max();
            self.reach = farthest.unwrap_or(base).saturating_sub(nearest);
        }
        let beyond = base.saturating_sub(nearest);
        self.beyond += (beyond.as_nanos() as f64 - self.beyond) * of_window.min(1.0);
        rtt.saturating_sub(beyond)
    }

    /// How much farther away than the nearest hosts are, on average.
    pub fn beyond(&self) -> Duration {
        Duration::from_nanos(self.beyond.max(0.0) as u64)
    }

    /// How much farther away than the nearest the farthest is.
    pub fn reach(&self) -> Duration {
        self.reach
    }

    /// How much farther away than the nearest this host is; where nothing was measured of it, as far as the farthest.
    pub fn distance(&self, part: u32) -> Duration {
        let base = self.parts.get(part as usize).and_then(|part| part.base.get());
        let nearest = self.nearest.get().unwrap_or_default();
        base.map_or(self.reach, |base| base.saturating_sub(nearest)).min(FARTHEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn turn(flow: u32) -> Turn {
        Turn { flow, serial: u64::from(flow), priority: 1, pass: 0, unsplit: false }
    }

    /// Serves segments of 1000 bytes to flows that never run dry; the flow's number over ten is its host. Returns what each
    /// host got.
    fn serve(weights: &[u32], flows: &[u32], turns: usize) -> Vec<u64> {
        let mut parts = Parts::default();
        let hosts: Vec<u32> = weights.iter().map(|weight| parts.insert(Time::ZERO, *weight)).collect();
        let host = |flow: u32| hosts[(flow / 10) as usize];
        let mut got = vec![0; hosts.len()];
        flows.iter().for_each(|flow| parts.wait(host(*flow), turn(*flow)));
        for _ in 0..turns {
            let turn = parts.next().unwrap();
            got[(turn.flow / 10) as usize] += 1000;
            parts.charge(host(turn.flow), 1000);
            parts.wait(host(turn.flow), Turn { pass: advance(turn.pass, 1000, 1), ..turn });
        }
        got
    }

    #[test]
    fn hosts_have_their_shares_however_many_flows_they_have() {
        assert_eq!(serve(&[1, 1, 1], &[0, 1, 2, 3, 10, 20, 21], 300), [100_000; 3]);
        let got = serve(&[3, 1], &[0, 10, 11, 12, 13], 400);
        assert!(got[0].abs_diff(300_000) <= 3000, "three shares of four: {got:?}");
    }

    #[test]
    fn a_host_that_was_silent_has_nothing_saved_up() {
        let mut parts = Parts::default();
        let [one, two] = [0, 1].map(|_| parts.insert(Time::ZERO, 1));
        parts.wait(one, turn(0));
        for _ in 0..100 {
            assert_eq!(parts.next().unwrap().flow, 0);
            parts.charge(one, 1000);
            parts.wait(one, turn(0));
        }
        parts.wait(two, turn(10));
        let mut got = [0_u32; 2];
        for _ in 0..100 {
            let turn = parts.next().unwrap();
            let part = if turn.flow == 0 { one } else { two };
            got[(turn.flow / 10) as usize] += 1;
            parts.charge(part, 1000);
            parts.wait(part, turn);
        }
        assert!(got[0].abs_diff(got[1]) <= 2, "{got:?}");
    }

    #[test]
    fn a_part_that_is_gone_has_no_turn() {
        let mut parts = Parts::default();
        let [one, two] = [0, 1].map(|_| parts.insert(Time::ZERO, 1));
        parts.wait(one, turn(0));
        parts.wait(two, turn(10));
        parts.set_active(one, true);
        parts.remove(one);
        assert_eq!((parts.active(), parts.active_weight), (0, 0));
        assert_eq!(parts.next().map(|turn| turn.flow), Some(10));
        assert!(parts.next().is_none() && parts.is_empty());
    }

    #[test]
    fn hosts_that_have_nothing_to_send_do_not_count_as_sharing() {
        let mut parts = Parts::default();
        let [one, two] = [0, 1].map(|_| parts.insert(Time::ZERO, 1));
        assert_eq!((parts.len(), parts.active_hosts()), (2, 0));
        [one, one, two].into_iter().for_each(|part| parts.set_active(part, true));
        assert_eq!((parts.active(), parts.active_hosts()), (3, 2));
        parts.set_active(one, false);
        assert_eq!(parts.active_hosts(), 2, "it has another one");
        parts.set_active(one, false);
        assert_eq!(parts.active_hosts(), 1);
        parts.remove(one);
        assert_eq!(parts.active_hosts(), 1);
        parts.remove(two);
        assert_eq!(parts.active_hosts(), 0);
    }

    #[test]
    fn how_long_a_host_waited_that_is_silent_now_says_nothing_of_the_others() {
        let ms = Duration::from_millis;
        let differs = |falls_silent: bool| {
            let mut parts = Parts::default();
            let hosts = [0, 1, 2].map(|_| parts.insert(Time::ZERO, 1));
            for part in hosts {
                parts.set_active(part, true);
                parts.on_round_trip(Time::ZERO, part, (ms(30), true), 0.1);
            }
            // All wait in the same full queue, until the last one goes.
            (1..100).for_each(|tenth| {
                let now = Time::from_millis(10 * tenth);
                for part in hosts {
                    parts.on_round_trip(now, part, (ms(150), true), 0.1);
                }
            });
            if falls_silent {
                // Also when it comes back for a moment, of which nothing is measured.
                [false, true, false].into_iter().for_each(|active| parts.set_active(hosts[2], active));
                assert_eq!(parts.measured, 2);
            }
            (100..1100).any(|tenth| {
                let now = Time::from_millis(10 * tenth);
                [hosts[0], hosts[1]].into_iter().any(|part| {
                    parts.on_round_trip(now, part, (ms(40), true), 0.1);
                    parts.differs(now, part)
                })
            })
        };
        assert!(differs(false), "it would, if it counted");
        assert!(!differs(true));
    }

    #[test]
    fn nobody_is_taken_to_be_farther_away_than_a_second() {
        let mut parts = Parts::default();
        let [near, far, unknown] = [0, 1, 2].map(|_| parts.insert(Time::ZERO, 1));
        for (part, millis) in [(near, 20), (far, 5020)] {
            parts.on_round_trip(Time::ZERO, part, (Duration::from_millis(millis), true), 0.1);
        }
        let distances = [near, far, unknown].map(|part| parts.distance(part));
        assert_eq!(distances, [Duration::ZERO, FARTHEST, FARTHEST]);
    }

    #[test]
    fn round_trips_are_told_as_of_the_nearest_host_and_the_others_have_room() {
        let ms = Duration::from_millis;
        let mut parts = Parts::default();
        let [near, far] = [0, 1].map(|_| parts.insert(Time::ZERO, 1));
        for k in 0..100 {
            let at = Time::from_millis(k);
            assert_eq!(parts.on_round_trip(at, near, (ms(20 + k % 3), true), 0.1), ms(20 + k % 3));
            let told = parts.on_round_trip(at, far, (ms(60 + k % 3), true), 0.1);
            assert_eq!(told, ms(20 + k % 3), "its queue is the same, and its path is 40 ms longer");
        }
        assert_eq!(parts.reach(), ms(40));
        assert!((19..=22).contains(&(parts.beyond().as_millis())), "{:?}", parts.beyond());
    }

    #[test]
    fn who_was_never_measured_is_no_host_without_a_queue() {
        let ms = Duration::from_millis;
        let mut parts = Parts::default();
        let [one, never] = [0, 1].map(|_| parts.insert(Time::ZERO, 1));
        parts.on_round_trip(Time::ZERO, one, (ms(30), true), 0.1);
        for tenth in 1..600 {
            let now = Time::from_millis(10 * tenth);
            parts.on_round_trip(now, one, (ms(90), true), 0.1);
            assert!(!parts.differs(now, one) && !parts.differs(now, never));
        }
    }

    #[test]
    fn who_waits_elsewhere_differs_and_who_never_saw_the_path_without_a_queue_does_not() {
        let ms = Duration::from_millis;
        let differs = |first: u64, then: u64| {
            let mut parts = Parts::default();
            let [one, two] = [0, 1].map(|_| parts.insert(Time::ZERO, 1));
            parts.on_round_trip(Time::ZERO, one, (ms(30), true), 0.1);
            parts.on_round_trip(Time::ZERO, two, (ms(first), true), 0.1);
            (1..600).any(|tenth| {
                let now = Time::from_millis(10 * tenth);
                parts.on_round_trip(now, one, (ms(90), true), 0.1);
                parts.on_round_trip(now, two, (ms(then), true), 0.1);
                parts.differs(now, two)
            })
        };
        assert!(differs(30, 31), "the first waits for 60 ms, and the second does not");
        assert!(!differs(30, 90), "the same queue");
        assert!(!differs(90, 90), "the same queue, which the second found full");
        assert!(!differs(60, 120), "the same queue, and the second is farther away");
    }
}
