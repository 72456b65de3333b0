//! The ends behave from now on: what was acknowledged early must arrive, and what they close must
//! be closed.

use super::end::End;
use super::{Flow, Target, World};
use shorthaul_wire::{Machine, TcpFlags};
use std::time::Duration;

/// Without any progress in so many turns of the ends, a flow is stuck. It covers all the timeouts
/// in a row after which a gateway may give up.
const STUCK_AFTER: u32 = 100;
/// Nothing takes so many turns, however small the segments and the windows.
const ENDLESS: u32 = 100_000;

impl World {
    /// Lets both ends of every flow behave, until all has arrived.
    pub fn heal(&mut self) {
        self.flush();
        let goals: Vec<[u64; 2]> = self.flows.iter().map(|flow| [0, 1].map(|side| flow.goal(side))).collect();
        let (mut stalled, mut best) = (0, 0);
        for _ in 0..ENDLESS {
            let unfinished = |(flow, goals): (&Flow, &[u64; 2])| {
                flow.alive && !(0..2).all(|side| flow.reached(side, goals[side]))
            };
            if !self.flows.iter().zip(&goals).any(unfinished) {
                return self.close();
            }
            let progress = self.flows.iter().map(Flow::progress).sum();
            stalled = if progress > best { 0 } else { stalled + 1 };
            best = best.max(progress);
            assert!(stalled < STUCK_AFTER, "stuck: {}", self.describe());
            self.take_turns(&goals, stalled);
        }
        panic!("endless: {}", self.describe());
    }

    /// Each end retransmits what is not acknowledged, acknowledges what it has, and time passes: more of it where nothing has
    /// come of the last turns.
    fn take_turns(&mut self, goals: &[[u64; 2]], stalled: u32) {
        for (index, goals) in goals.iter().enumerate() {
            for (side, goal) in goals.iter().enumerate() {
                let end = &mut self.flows[index].ends[side];
                end.clock = end.clock.wrapping_add(1);
                let from = end.acknowledged.max(1);
                let to = end.edge.min(*goal).min(from + 60_000);
                let target = Target { flow: index, side, wrong_port: false };
                if !self.flows[index].alive {
                    continue;
                }
                if to > from {
                    self.send(target, from, to - from, TcpFlags::ACK);
                }
                let end = &self.flows[index].ends[side];
                let (furthest, probes) = (end.furthest, end.edge <= from && from < *goal);
                self.send(target, furthest, 0, TcpFlags::ACK);
                if probes && self.flows[index].alive {
                    self.send(target, from - 1, 0, TcpFlags::ACK); // an old segment draws an answer
                }
            }
        }
        self.rest(Duration::from_millis(1 << (stalled / 5)));
    }

    /// Time passes up to the next deadline, and so long at least.
    fn rest(&mut self, least: Duration) {
        self.flush();
        let soon = self.now + Duration::from_millis(50);
        let next = self.gateway.poll_timeout().map_or(soon, |deadline| deadline.at);
        self.wait_until(next.max(self.now + least));
    }

    /// Both ends close, where they have not said contradictory things about that before.
    fn close(&mut self) {
        let plain: Vec<bool> = self.flows.iter().map(|flow| flow.alive && flow.can_close()).collect();
        for _ in 0..STUCK_AFTER {
            if self.flows.iter().zip(&plain).all(|(flow, plain)| !(*plain && flow.alive)) {
                return;
            }
            for index in (0..plain.len()).filter(|&index| plain[index]) {
                for side in 0..2 {
                    if !self.flows[index].alive {
                        continue;
                    }
                    let target = Target { flow: index, side, wrong_port: false };
                    let end = &self.flows[index].ends[side];
                    let at = end.contents.next;
                    let flags =
                        if end.acknowledged <= at { TcpFlags::ACK | TcpFlags::FIN } else { TcpFlags::ACK };
                    let at = at + u64::from(end.acknowledged > at);
                    self.send(target, at, 0, flags);
                }
            }
            self.rest(Duration::from_millis(1));
        }
        panic!("not closed: {}", self.describe());
    }

    fn describe(&self) -> String {
        let flows = self.flows.iter().map(|flow| {
            let ends = flow.ends.each_ref().map(|end| {
                format!(
                    "next {} furthest {} acknowledged {} edge {} passed {} confirmed {} advertised {} fins {:?}",
                    end.contents.next,
                    end.furthest,
                    end.acknowledged,
                    end.edge,
                    end.passed,
                    end.confirmed,
                    end.advertised,
                    end.fins()
                )
            });
            format!("alive {}: {}\n{}", flow.alive, ends[0], ends[1])
        });
        let known = self.gateway.flows().map(|info| info.to_string());
        let due = format!("at {}, due {:?}", self.now, self.gateway.poll_timeout());
        flows.chain(known).chain([due]).collect::<Vec<_>>().join("\n")
    }
}

impl Flow {
    /// Up to where the stream of `side` must arrive: all that it sent without a gap, up to the
    /// first place where it closed, and in any case what was acknowledged to it.
    fn goal(&self, side: usize) -> u64 {
        let end = &self.ends[side];
        let open = end.fins().first().copied().unwrap_or(u64::MAX);
        end.contents.next.min(open).max(end.acknowledged)
    }

    fn reached(&self, side: usize, goal: u64) -> bool {
        let end = &self.ends[side];
        end.acknowledged >= goal && end.confirmed >= end.acknowledged
    }

    fn progress(&self) -> u64 {
        self.ends.iter().map(|end| end.acknowledged + end.passed + end.confirmed).sum()
    }

    /// The ends have sent nothing beyond the places where they now close.
    fn can_close(&self) -> bool {
        let plain = |end: &End| {
            end.fins().iter().all(|&fin| fin == end.contents.next) && end.furthest <= end.contents.next + 1
        };
        self.ends.iter().all(|end| plain(end) && end.contents.next <= end.edge)
    }
}
