use super::{Interceptor, InterceptorKind};
use crate::ack_release::{AckRelease, AckReleaseKind, Event, Opening, Progress, Regulated};
use crate::end::Side;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use shorthaul_types::{SeqSpace, Time};
use shorthaul_wire::{Packet, TcpFlags};

/// So many acknowledgments wait at most. What is above passes, with all that wait.
const WAITING: usize = 1024;

/// The ACK regulator where its authors have it: on a connection that stays whole. What is between the gateway and the
/// acknowledgments of the mobile host is the queue; acknowledgments wait until it has room for what they bring. How much that is
/// says the same [`Regulated`] as on a split connection.
///
/// Beyond that: a duplicate lets go of all that wait, as it tells of a loss, and so does whatever carries data or ends the
/// connection.
#[derive(Debug)]
struct Regulation {
    kind: Regulated,
    /// The end whose acknowledgments wait.
    access: Side,
    /// The sequence numbers of the other end, from its SYN.
    other: Option<SeqSpace>,
    /// From the first data on.
    release: Option<Box<dyn AckRelease>>,
    /// Offsets of what the other end sends: what has passed, and what the access side has acknowledged.
    received: u64,
    delivered: u64,
    /// Acknowledgments, with up to where.
    waiting: VecDeque<(u64, Packet)>,
    /// So many of them may go.
    free: usize,
    /// The memory that all of them take, in bytes.
    memory: usize,
}

impl InterceptorKind for Regulated {
    fn open(&self, access: Side) -> Box<dyn Interceptor> {
        Box::new(Regulation {
            kind: *self,
            access,
            other: None,
            release: None,
            received: 1,
            delivered: 1,
            waiting: VecDeque::new(),
            free: 0,
            memory: 0,
        })
    }
}

impl Regulation {
    fn on_data(&mut self, now: Time, space: SeqSpace, packet: &Packet) {
        let Some(segment) = packet.as_tcp() else { return };
        let length = segment.payload.len() as u64;
        let Some(start) = space.offset(segment.header.seq, self.received) else { return };
        let end = start + length;
        if length > 0 && end <= self.received {
            // The sender repairs a loss: what was expected does not come, and what waits must not keep it from going on.
            self.free = self.waiting.len();
            self.release = None;
        }
        if length == 0 || end <= self.received {
            return;
        }
        let mss = segment.gso_size.map_or(length, |size| u64::from(size.get())) as u32;
        let next = self.delivered;
        let release = self.release.get_or_insert_with(|| {
            AckReleaseKind::open(&self.kind, &Opening { now, next, mss, ts_recent: None })
        });
        let bytes = end - self.received;
        self.received = end;
        release.on_event(now, Event::Received { bytes, in_order: end, ts_recent: None, gap: false });
    }

    fn keep(&mut self, ack: u64, packet: Packet) {
        self.memory += packet.allocated();
        self.waiting.push_back((ack, packet));
    }

    /// The access side acknowledges up to `ack`. Returns whether that is news.
    fn on_acknowledgment(&mut self, now: Time, ack: u64) -> bool {
        let news = ack > self.delivered;
        self.delivered = self.delivered.max(ack);
        // A FIN counts, though it is no data.
        self.received = self.received.max(self.delivered);
        let progress = Progress {
            delivered: self.delivered,
            received: self.received,
            held: self.received - self.delivered,
        };
        if let Some(release) = &mut self.release {
            release.on_event(now, Event::Delivered(progress));
        }
        news
    }
}

impl Interceptor for Regulation {
    fn on_packet(&mut self, now: Time, side: Side, packet: Packet) -> Option<Packet> {
        let Some(segment) = packet.as_tcp() else { return Some(packet) };
        let (flags, is_empty, ack) = (segment.header.flags, segment.payload.is_empty(), segment.header.ack);
        if side != self.access {
            if flags.contains(TcpFlags::SYN) {
                self.other = Some(SeqSpace::new(segment.header.seq));
            } else if let Some(space) = self.other {
                self.on_data(now, space, &packet);
            }
            return Some(packet);
        }
        let ack = self.other.and_then(|space| space.offset(ack, self.delivered));
        let (Some(ack), true) = (ack, flags.contains(TcpFlags::ACK)) else { return Some(packet) };
        let news = self.on_acknowledgment(now, ack);
        let plain = is_empty && !flags.intersects(TcpFlags::SYN | TcpFlags::RST | TcpFlags::FIN);
        if !plain || !news || self.waiting.len() >= WAITING {
            if self.waiting.is_empty() {
                return Some(packet);
            }
            self.keep(ack, packet);
            self.free = self.waiting.len();
            return None;
        }
        let released = self.release.as_ref().map_or(u64::MAX, |release| release.released());
        if self.waiting.is_empty() && ack <= released {
            return Some(packet);
        }
        self.keep(ack, packet);
        let may_go = self.waiting.iter().take_while(|(ack, _)| *ack <= released).count();
        self.free = self.free.max(may_go);
        None
    }

    fn poll_packet(&mut self, _now: Time) -> Option<(Side, Packet)> {
        self.free = self.free.checked_sub(1)?;
        let (_, packet) = self.waiting.pop_front()?;
        self.memory -= packet.allocated();
        Some((self.access.other(), packet))
    }

    fn memory(&self) -> usize {
        self.memory
    }

    fn forget(&mut self) {
        self.step_out(); // they are no copies: they pass
    }

    fn step_out(&mut self) {
        self.free = self.waiting.len();
    }
}
