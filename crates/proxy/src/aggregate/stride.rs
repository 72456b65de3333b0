//! Whose turn it is: strict priorities, and within one stride scheduling (Waldspurger and Weihl, as AGG
//! §IV-B uses it).
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

/// Priorities that are told apart; lower ones share the last.
const PRIORITIES: usize = 8;
/// What a byte costs a connection with one ticket.
const STRIDE: u64 = 1 << 16;

/// A connection that waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Its slot in the gateway's table.
    pub flow: u32,
    /// Tells it from another that has the same slot later.
    pub serial: u64,
    /// Its priority: 0 is served first.
    pub priority: u8,
    /// What it has used, over its tickets: the least has the next turn.
    pub pass: u64,
    /// It is no connection: `flow` is the place of a queue of packets that are not split.
    pub unsplit: bool,
}

/// A turn in the order in which it comes: priority, pass, serial number, place, and whether it is no connection.
type Waiting = (u8, u64, u64, u32, bool);

/// The connections of a host that have something to send. One that has not is not in here, and costs
/// nothing.
#[derive(Debug, Default)]
pub(crate) struct Stride {
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// Per priority, the pass of the last turn: who joins begins there, and not with all the time that it
    /// was silent to its credit.
    now: [u64; PRIORITIES],
}

impl Stride {
    /// A connection has something to retransmit: it waits for its turn, with its pass of last time.
    pub fn wait(&mut self, turn: Turn) {
        let priority = turn.priority.min(PRIORITIES as u8 - 1);
        let pass = turn.pass.max(self.now[usize::from(priority)]);
        self.waiting.push(Reverse((priority, pass, turn.serial, turn.flow, turn.unsplit)));
    }

    /// The next turn. Whoever has it and still has something to send afterwards waits again.
    pub fn next(&mut self) -> Option<Turn> {
        let Reverse((priority, pass, serial, flow, unsplit)) = self.waiting.pop()?;
        self.now[usize::from(priority)] = pass;
        Some(Turn { flow, serial, priority, pass, unsplit })
    }

    /// Whether the next turn is that of packets that are not split.
    pub fn next_is_unsplit(&self) -> bool {
        self.waiting.peek().is_some_and(|Reverse((.., unsplit))| *unsplit)
    }

    /// The pass of the last turn of a priority.
    pub fn now(&self, priority: u8) -> u64 {
        self.now[usize::from(priority.min(PRIORITIES as u8 - 1))]
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// The pass after `bytes` more, with this many tickets.
pub(crate) fn advance(pass: u64, bytes: u64, tickets: u32) -> u64 {
    pass.saturating_add(bytes.saturating_mul(STRIDE) / u64::from(tickets.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// Serves `turns` segments of 1000 bytes to connections that never run dry.
    fn serve(stride: &mut Stride, tickets: &[u32], turns: usize) -> Vec<u64> {
        let mut got = vec![0; tickets.len()];
        for _ in 0..turns {
            let turn = stride.next().unwrap();
            let tickets = tickets[turn.flow as usize];
            got[turn.flow as usize] += 1000;
            stride.wait(Turn { pass: advance(turn.pass, 1000, tickets), ..turn });
        }
        got
    }

    fn turn(flow: u32, priority: u8) -> Turn {
        Turn { flow, serial: u64::from(flow), priority, pass: 0, unsplit: false }
    }

    #[test]
    fn a_higher_priority_is_always_served_first() {
        let mut stride = Stride::default();
        stride.wait(turn(0, 2));
        stride.wait(turn(1, 1));
        assert_eq!(serve(&mut stride, &[1000, 1], 50), [0, 50_000]);
        assert_eq!(stride.next().unwrap().flow, 1);
        assert_eq!(stride.next().unwrap().flow, 0, "the higher one is silent");
    }

    #[test]
    fn who_was_silent_has_nothing_saved_up() {
        let mut stride = Stride::default();
        stride.wait(turn(0, 1));
        serve(&mut stride, &[1], 1000);
        stride.wait(turn(1, 1));
        let got = serve(&mut stride, &[1, 1], 100);
        assert_eq!(got, [50_000, 50_000]);
    }

    proptest! {
        #[test]
        fn shares_follow_tickets_to_within_a_segment_each(tickets in proptest::collection::vec(1u32..20, 1..8)) {
            let mut stride = Stride::default();
            (0..tickets.len()).for_each(|flow| stride.wait(turn(flow as u32, 1)));
            let all: u32 = tickets.iter().sum();
            let got = serve(&mut stride, &tickets, 10 * all as usize);
            for (got, tickets) in got.iter().zip(&tickets) {
                let fair = 10_000 * u64::from(*tickets);
                prop_assert!(got.abs_diff(fair) <= 1000 * (1 + got.max(&fair) / 10_000), "{} of {}", got, fair);
            }
        }
    }
}
