//! A flow is stepped out of: what is held is delivered, what is new passes as it comes, until its ends hear each other without us.
//!
//! Where both ends have sent more than the other takes by itself, as we had offered more, neither hears the other any more: their
//! acknowledgments stand behind all that they have sent, beyond the window there, and count for nothing (RFC 9293 §3.10.7.4); so does
//! what they repeat of what has come. What was lost of their acknowledgments is not known for ever then, each waits for what the other
//! does not hear, and both give up. Until one of them takes what the other says, we stay, and say it in a place where it is heard.
use super::{Fate, SplitFlow};
use crate::end::Side;
use core::time::Duration;
use shorthaul_types::{Deadline, Time};
use shorthaul_wire::{Packet, TcpFlags, TxBatch};

/// What an end that has sent nothing new for so long, or for two round trips, has on its way to us is not new either.
const QUIET: Duration = Duration::from_secs(1);

/// What an end has sent at least.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// Behind the last byte that came, taken or not.
    pub end: u64,
    /// When that was.
    pub since: Time,
}

impl Sent {
    /// A segment came that ends there.
    pub fn note(&mut self, now: Time, end: u64) {
        if end > self.end {
            *self = Sent { end, since: now };
        }
    }
}

impl SplitFlow {
    /// Takes no more custody from now on: what comes is passed on as it is, what is held is
    /// delivered.
    pub(crate) fn drain(&mut self) {
        self.draining = true;
        for direction in &mut self.directions {
            direction.receiver.discard();
            direction.lift_limits();
            if direction.release.take().is_some() {
                direction.receiver.request_ack(); // what we hold is ours to deliver: no more waiting
            }
        }
    }

    /// Whether it is stepped out of now.
    pub(super) fn drained(&self, now: Time) -> Fate {
        if self.draining && !self.needs_us(now) { Fate::SteppedOut } else { Fate::Alive }
    }

    /// Whether it would harm its ends if it were stepped out of: bytes are owed, or neither would hear the other.
    pub(crate) fn needs_us(&self, now: Time) -> bool {
        self.owes_bytes()
            || Side::BOTH.into_iter().all(|side| self.may_have_sent(now, side) > self.taken_up_to(side))
    }

    /// When to look again whether it can be stepped out of, if nothing comes.
    pub(super) fn next_look(&self) -> Option<Deadline> {
        if !self.draining || self.owes_bytes() {
            return None;
        }
        // What is sent up to there is known then; if that is too much already, time changes nothing.
        let is_open = |side: &Side| self.sent[side.index()].end <= self.taken_up_to(*side);
        let at = Side::BOTH.into_iter().filter(is_open).map(|side| self.quiet_at(side)).min()?;
        Some(Deadline { at, timer: "step-out" })
    }

    /// What `side` may have sent: what came, and what may be on its way to us, as it was offered so much.
    fn may_have_sent(&self, now: Time, side: Side) -> u64 {
        let sent = self.sent[side.index()].end;
        if now >= self.quiet_at(side) {
            return sent;
        }
        sent.max(self.directions[side.index()].receiver.edge())
    }

    /// When nothing new of `side` can be on its way to us any more, if nothing comes.
    fn quiet_at(&self, side: Side) -> Time {
        let rtt = self.directions[side.other().index()].sender.rtt().srtt().unwrap_or_default();
        self.sent[side.index()].since + QUIET.max(2 * rtt)
    }

    /// The right edge of the window that the other end of `side` has offered by itself.
    fn taken_up_to(&self, side: Side) -> u64 {
        let sender = &self.directions[side.index()].sender;
        self.ends[side.other().index()].advertised.max(sender.una() + sender.peer_window())
    }

    /// While draining, what we hold is ours to deliver and what is new is the ends' own business.
    pub(super) fn pass_while_draining(
        &mut self,
        now: Time,
        side: Side,
        offset: u64,
        ack: u64,
        packet: Packet,
        out: &mut TxBatch,
    ) -> Fate {
        let (near, far) = (side.index(), side.other().index());
        let Some(segment) = packet.as_tcp() else { return Fate::Alive };
        let fin = segment.header.flags.contains(TcpFlags::FIN);
        let end = offset + segment.payload.len() as u64 + u64::from(fin);
        let bare = segment.payload.is_empty() && !fin;
        let receiver = &mut self.directions[near].receiver;
        let ours = end <= receiver.ack() && !bare;
        // An acknowledgment of less than we acknowledged ourselves is of no use to the far end.
        let stale = bare && ack < self.directions[far].ack();
        if ours {
            self.directions[near].receiver.request_ack();
        } else if bare && offset > self.taken_up_to(side) {
            self.directions[far].receiver.request_ack(); // where the far end does not hear it, it hears us
        } else if !stale {
            // Behind a gap nothing has passed that could be acknowledged in the far end's name.
            let passed = self.ends[near].passed.max(self.directions[near].receiver.data_end());
            if offset <= passed {
                self.ends[near].passed = passed.max(end);
            }
            // What it acknowledges has come without a gap, in whatever order it passed; and the far end hears that now.
            if ack > self.directions[far].receiver.data_end() {
                self.ends[far].passed = self.ends[far].passed.max(ack);
            }
            if !bare {
                self.passed_most[near] = self.passed_most[near].max(end);
            }
            out.push((self.ends[far].attachment, packet));
        }
        self.drained(now)
    }
}
