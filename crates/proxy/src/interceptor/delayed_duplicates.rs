use super::{Interceptor, InterceptorKind};
use crate::end::Side;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;
use shorthaul_types::{Deadline, SeqSpace, Time};
use shorthaul_wire::{Packet, TcpFlags};

/// So many duplicate acknowledgments pass at once; the next would have the sender retransmit (RFC 5681 §3.2).
const AT_ONCE: u32 = 2;
/// So many wait at most. What is above passes.
const WAITING: usize = 256;

/// Delayed duplicate acknowledgments: the third and further ones in a row wait, so that the link layer behind the gateway may
/// repair what was lost. A new acknowledgment drops those that wait; after the delay they pass.
///
/// Vaidya, Mehta, Perkins and Montenegro, "Delayed Duplicate Acknowledgements: a TCP-Unaware Approach to Improve Performance
/// of TCP over Wireless", 1999, where the receiver does it; here its gateway does, so that no end has to be changed. The link
/// is to have retransmissions of its own that may deliver out of order: without them, recovery only begins later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, schemars::JsonSchema), serde(deny_unknown_fields))]
pub struct DelayedDuplicates {
    /// How long they wait.
    #[cfg_attr(
        feature = "serde",
        serde(with = "shorthaul_types::serde_duration"),
        schemars(with = "shorthaul_types::schema::Duration")
    )]
    pub delay: Duration,
}

/// The acknowledgments of one flow.
#[derive(Debug)]
struct Delayed {
    delay: Duration,
    /// The end whose acknowledgments wait.
    access: Side,
    /// The sequence numbers of the other end, from its SYN.
    other: Option<SeqSpace>,
    /// Up to where it has acknowledged, with which window field, and how often in a row the same.
    acknowledged: u64,
    window: u16,
    duplicates: u32,
    /// In the order of arrival; when the first is due.
    waiting: VecDeque<Packet>,
    due: Time,
    /// The memory that those take which wait, in bytes.
    memory: usize,
}

impl InterceptorKind for DelayedDuplicates {
    fn open(&self, access: Side) -> Box<dyn Interceptor> {
        Box::new(Delayed {
            delay: self.delay,
            access,
            other: None,
            acknowledged: 1,
            window: 0,
            duplicates: 0,
            waiting: VecDeque::new(),
            due: Time::ZERO,
            memory: 0,
        })
    }
}

impl Interceptor for Delayed {
    fn on_packet(&mut self, now: Time, side: Side, packet: Packet) -> Option<Packet> {
        let Some(segment) = packet.as_tcp() else { return Some(packet) };
        let header = &segment.header;
        if side != self.access {
            if header.flags.contains(TcpFlags::SYN) {
                self.other = Some(SeqSpace::new(header.seq));
            }
            return Some(packet);
        }
        let plain = !header.flags.intersects(TcpFlags::SYN | TcpFlags::RST | TcpFlags::FIN);
        let ack = self.other.and_then(|space| space.offset(header.ack, self.acknowledged));
        let (Some(ack), true) = (ack, plain) else { return Some(packet) };
        let same_window = core::mem::replace(&mut self.window, header.window) == header.window;
        if ack > self.acknowledged {
            self.acknowledged = ack;
            self.duplicates = 0;
            self.waiting.clear();
            self.memory = 0;
            return Some(packet);
        }
        let duplicate = segment.payload.is_empty() && (same_window || !header.options.sack.is_empty());
        if ack < self.acknowledged || !duplicate {
            return Some(packet);
        }
        self.duplicates += 1;
        if self.duplicates <= AT_ONCE || self.waiting.len() >= WAITING {
            return Some(packet);
        }
        if self.waiting.is_empty() {
            self.due = now + self.delay;
        }
        self.memory += packet.allocated();
        self.waiting.push_back(packet);
        None
    }

    fn poll_packet(&mut self, now: Time) -> Option<(Side, Packet)> {
        let packet = if self.due <= now { self.waiting.pop_front() } else { None };
        let packet = packet?;
        self.memory -= packet.allocated();
        Some((self.access.other(), packet))
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        (!self.waiting.is_empty()).then_some(Deadline { at: self.due, timer: "delayed-duplicates" })
    }

    fn memory(&self) -> usize {
        self.memory
    }

    fn forget(&mut self) {
        self.step_out(); // they are no copies: they pass
    }

    fn step_out(&mut self) {
        self.due = Time::ZERO;
    }
}
