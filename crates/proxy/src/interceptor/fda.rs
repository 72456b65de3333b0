use super::{Interceptor, InterceptorKind};
use crate::end::Side;
use alloc::boxed::Box;
use shorthaul_types::{Bytes, SeqSpace, Time};
use shorthaul_wire::{Packet, TcpFlags, TcpSegment, Transport};

/// So many duplicate acknowledgments make a sender halve its window (RFC 5681 §3.2).
const DUPLICATES: u8 = 3;

/// FDA, its flow control: a sender whose packets wait too long at the base station is told by duplicate acknowledgments, which it
/// answers with half of its window. What it then sends again has passed here before, and goes no further.
///
/// Hu and Yeung, "FDA: A Novel Base Station Flow Control Scheme for TCP over Heterogeneous Networks", INFOCOM 2001. The text was not
/// at hand. That conditions are signalled "by the base station, using flags or duplicate acknowledgements", of which FDA is an example, is
/// how the paper on path tail emulation cites it; that it uses "a Snoop-like strategy" and goes "some way to prevent excess
/// queuing", how the aggregation paper does. All else is ours: it is the part beside [`Snoop`](super::Snoop), which stands nearer
/// to the mobile host; it counts as the queue what has passed and was not acknowledged; it signals once for what was under way
/// then; and it takes SACK out of the handshake, for a sender that hears of SACK blocks counts no duplicates without.
///
/// A sender that takes its answers back where it sees that nothing was lost (RFC 3522) does so here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, schemars::JsonSchema), serde(deny_unknown_fields))]
pub struct Fda {
    /// From how much on the sender is told.
    pub queue: Bytes,
}

/// One flow.
#[derive(Debug)]
struct Signalled {
    /// The queue from which on the sender is told.
    most: u64,
    /// The end that we stand beside.
    access: Side,
    /// The sequence numbers of the sender, from its SYN.
    sender: Option<SeqSpace>,
    /// Offsets of what it sends: what passed, up to where without a hole, and what is acknowledged.
    sent: u64,
    in_order: u64,
    acknowledged: u64,
    /// The last acknowledgment that passed, if it carried no data.
    answer: Option<Packet>,
    /// So many copies of it are still to go.
    copies: u8,
    /// What had passed when we signalled last; and of it, up to where the sender has sent it again.
    signalled: u64,
    again: u64,
}

impl InterceptorKind for Fda {
    fn open(&self, access: Side) -> Box<dyn Interceptor> {
        Box::new(Signalled {
            most: self.queue.0,
            access,
            sender: None,
            sent: 1,
            in_order: 1,
            acknowledged: 1,
            answer: None,
            copies: 0,
            signalled: 0,
            again: 0,
        })
    }
}

impl Signalled {
    /// The sender sends something. Whether it goes on.
    fn on_data(&mut self, space: SeqSpace, segment: &TcpSegment) -> bool {
        let Some(start) = space.offset(segment.header.seq, self.sent) else { return true };
        let fin = u64::from(segment.header.flags.contains(TcpFlags::FIN));
        let end = start + segment.payload.len() as u64 + fin;
        if end == start {
            return true;
        }
        // It is the answer to our signal, once: what comes a second time is for a loss.
        let is_answer =
            start >= self.acknowledged.max(self.again) && end <= self.signalled.min(self.in_order);
        if is_answer {
            self.again = end;
            return false;
        }
        self.sent = self.sent.max(end);
        if start <= self.in_order {
            self.in_order = self.in_order.max(end);
        }
        let waits = self.sent - self.acknowledged;
        if waits > self.most && self.acknowledged >= self.signalled && self.answer.is_some() {
            (self.signalled, self.again, self.copies) = (self.sent, self.acknowledged, DUPLICATES);
        }
        true
    }
}

impl Interceptor for Signalled {
    fn on_packet(&mut self, _now: Time, side: Side, mut packet: Packet) -> Option<Packet> {
        let Transport::Tcp(segment) = &mut packet.transport else { return Some(packet) };
        let flags = segment.header.flags;
        if flags.contains(TcpFlags::SYN) {
            if side != self.access {
                self.sender = Some(SeqSpace::new(segment.header.seq));
            }
            if core::mem::take(&mut segment.header.options.sack_permitted) {
                packet.original = None;
            }
            return Some(packet);
        }
        let Some(space) = self.sender else { return Some(packet) };
        if side != self.access {
            return self.on_data(space, segment).then_some(packet);
        }
        if flags.contains(TcpFlags::RST) {
            self.forget();
        } else if let Some(ack) = space.offset(segment.header.ack, self.acknowledged)
            && flags.contains(TcpFlags::ACK)
            && ack >= self.acknowledged
        {
            // Something may have passed before we stood here.
            self.sent = self.sent.max(ack);
            self.in_order = self.in_order.max(ack);
            self.acknowledged = ack;
            let is_pure = segment.payload.is_empty() && !flags.contains(TcpFlags::FIN);
            self.answer = is_pure.then(|| packet.clone());
        }
        Some(packet)
    }

    fn poll_packet(&mut self, _now: Time) -> Option<(Side, Packet)> {
        let mut answer = self.answer.clone()?;
        self.copies = self.copies.checked_sub(1)?;
        answer.original = None;
        Some((self.access.other(), answer))
    }

    fn memory(&self) -> usize {
        self.answer.as_ref().map_or(0, |_| size_of::<Packet>())
    }

    fn forget(&mut self) {
        (self.answer, self.copies) = (None, 0);
    }

    fn step_out(&mut self) {
        // What was held back is here no more, but the receiver has it or the sender sends it again.
        (self.copies, self.signalled, self.most) = (0, 0, u64::MAX);
    }
}
