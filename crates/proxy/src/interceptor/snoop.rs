//! Snoop: segments to the access side are kept until they are acknowledged, and what is lost behind the gateway is sent
//! again from here, without the sender's knowledge.
//!
//! Balakrishnan, Seshan and Katz, "Improving Reliable Transport and Handoff Performance in Cellular Wireless Networks",
//! Wireless Networks 1(4), 1995, §3. What comes from the sender (`snoop_data`): what is new is kept and goes on; what the
//! receiver has acknowledged is answered with its last acknowledgment; anything else that comes late is a repair of the
//! sender's own, is marked so, and goes on. What comes from the receiver (`snoop_ack`): a new acknowledgment frees what it
//! covers and goes on; a duplicate one goes on if the segment that it asks for is not here or was sent again by the sender.
//! If it is here, the first duplicate has it sent again at once; as many more are expected as segments were on the way
//! behind it, and are dropped.
//! Two timers send the segment again that is asked for: one of the round trip behind the gateway, after such a repair,
//! and one of 200 ms in which nothing came from either side.
//!
//! Of today's ends it hears more: SACK blocks of a new acknowledgment say at once that the next segment is lost, too. They
//! are taken out of what goes on as long as we repair the loss. A duplicate acknowledgment that only says what came twice
//! (D-SACK, RFC 2883) is dropped if we may have sent it twice.
use super::{Interceptor, InterceptorKind};
use crate::end::Side;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;
use shorthaul_congestion::{RtoFloor, RttConfig, RttEstimator};
use shorthaul_types::{Bytes, Deadline, SeqSpace, Time};
use shorthaul_wire::{Packet, TcpFlags, TcpHeader, TcpSegment, Transport};

/// The silence after which the segment that is asked for is sent again.
const PERSIST: Duration = Duration::from_millis(200);
/// A segment is sent again by timers this often; then it is left to the sender.
const TIMEOUTS: u32 = 8;
/// What the receiver has is answered in its place this often in a row. A sender that goes on sending it does not believe the
/// answer, and is to hear the receiver itself.
const ANSWERS: u32 = 3;
/// The round trip behind the gateway: of some milliseconds, and timed by each segment that was sent once.
const RTT: RttConfig = RttConfig {
    initial_rto: PERSIST,
    floor: RtoFloor::Variance(Duration::from_millis(10)),
    max_rto: Duration::from_secs(10),
    ..RttConfig::LINUX
};

/// Snoop, with what is kept of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize, schemars::JsonSchema),
    serde(deny_unknown_fields, default)
)]
pub struct Snoop {
    /// What is kept at most, with all that it takes. What is above passes, and is left to the sender.
    pub cache: Bytes,
}

impl Default for Snoop {
    /// A megabyte.
    fn default() -> Self {
        Snoop { cache: Bytes(1_000_000) }
    }
}

impl InterceptorKind for Snoop {
    fn open(&self, access: Side) -> Box<dyn Interceptor> {
        Box::new(Watched {
            most: self.cache.0 as usize,
            access,
            sender: None,
            cache: VecDeque::new(),
            memory: 0,
            sent: 1,
            acknowledged: 1,
            window: 0,
            answer: None,
            answers: 0,
            expected: 0,
            repaired: None,
            repaired_until: 0,
            timeouts: 0,
            rtt: RttEstimator::new(RTT),
            active: Time::ZERO,
            put_in: VecDeque::new(),
        })
    }
}

/// A segment, or a super-segment, that is not acknowledged in full. Offsets are of the sender's stream.
#[derive(Debug)]
struct Kept {
    start: u64,
    end: u64,
    packet: Packet,
    /// When it passed.
    at: Time,
    /// The sender has sent it again.
    resent: bool,
    /// We have.
    repaired: bool,
}

impl Kept {
    fn memory(&self) -> usize {
        let payload = self.packet.as_tcp().map_or(0, |segment| segment.payload.allocated());
        size_of::<Kept>() + payload
    }

    /// How many segments it stands for.
    fn segments(&self) -> u32 {
        let size = self.packet.as_tcp().and_then(|segment| segment.gso_size);
        size.map_or(1, |size| (self.end - self.start).div_ceil(u64::from(size.get())) as u32)
    }

    /// The segment that begins at `from`, to be sent again.
    fn segment_at(&self, space: SeqSpace, from: u64) -> Packet {
        let mut packet = self.packet.clone();
        packet.original = None;
        if let Transport::Tcp(TcpSegment { header, payload, gso_size }) = &mut packet.transport {
            if from > self.start {
                header.seq = space.seq(from);
                header.flags = header.flags.without(TcpFlags::CWR);
            }
            payload.advance((from - self.start) as usize);
            if let Some(size) = gso_size.take()
                && payload.len() > usize::from(size.get())
            {
                payload.truncate(usize::from(size.get()));
                header.flags = header.flags.without(TcpFlags::FIN).without(TcpFlags::PSH);
            }
        }
        packet
    }
}

/// One flow.
#[derive(Debug)]
struct Watched {
    /// The most memory of the cache.
    most: usize,
    /// The receiver that we stand beside.
    access: Side,
    /// The sequence numbers of the sender, from its SYN.
    sender: Option<SeqSpace>,
    /// In the order of the stream, without overlaps.
    cache: VecDeque<Kept>,
    memory: usize,
    /// What the sender has sent, and the receiver acknowledged, as offsets.
    sent: u64,
    acknowledged: u64,
    /// The receiver's last window field.
    window: u16,
    /// The receiver's last packet, if it was an acknowledgment without data.
    answer: Option<Packet>,
    /// How often it was given again.
    answers: u32,
    /// Duplicate acknowledgments that are still to come from segments behind the one that we sent again.
    expected: u32,
    /// When we last sent the segment again that is asked for, if we did.
    repaired: Option<Time>,
    /// Up to where we have ever sent anything again.
    repaired_until: u64,
    /// How often timers did, since the last new acknowledgment.
    timeouts: u32,
    rtt: RttEstimator,
    /// When a packet came last, from either side.
    active: Time,
    /// What is to be put in.
    put_in: VecDeque<(Side, Packet)>,
}

impl Watched {
    /// What the receiver asks for, if it is here.
    fn asked_for(&self) -> Option<usize> {
        let place = self.cache.partition_point(|kept| kept.end <= self.acknowledged);
        self.cache.get(place).filter(|kept| kept.start <= self.acknowledged).map(|_| place)
    }

    /// The same, if it is ours to repair.
    fn ours(&self) -> Option<usize> {
        self.asked_for().filter(|place| !self.cache[*place].resent)
    }

    fn keep(&mut self, place: usize, kept: Kept) {
        let memory = kept.memory();
        if self.memory + memory <= self.most {
            self.memory += memory;
            self.cache.insert(place, kept);
        }
    }

    /// `snoop_data`: whether what the sender sends goes on.
    fn on_data(&mut self, now: Time, space: SeqSpace, packet: &Packet, segment: &TcpSegment) -> bool {
        let Some(start) = space.offset(segment.header.seq, self.sent) else { return true };
        let fin = u64::from(segment.header.flags.contains(TcpFlags::FIN));
        let end = start + segment.payload.len() as u64 + fin;
        // A segment of one byte may ask whether the receiver is there: that is its own to answer.
        if end <= self.acknowledged && segment.payload.len() > 1 {
            let Some(answer) = self.answer.as_ref().filter(|_| self.answers < ANSWERS) else { return true };
            self.answers += 1;
            self.put_in.push_back((self.access.other(), answer.clone()));
            return false;
        }
        if end == start || end <= self.acknowledged {
            return true;
        }
        let is_new = start >= self.sent;
        self.sent = self.sent.max(end);
        let place = self.cache.partition_point(|kept| kept.end <= start);
        let mut overlaps = false;
        for kept in self.cache.range_mut(place..).take_while(|kept| kept.start < end) {
            (kept.resent, overlaps) = (true, true);
        }
        if !overlaps {
            let packet = packet.clone();
            self.keep(place, Kept { start, end, packet, at: now, resent: !is_new, repaired: false });
        }
        true
    }

    /// `snoop_ack`: whether what the receiver says goes on, and as what.
    fn on_acknowledgment(&mut self, now: Time, space: SeqSpace, mut packet: Packet) -> Option<Packet> {
        let Transport::Tcp(segment) = &mut packet.transport else { return Some(packet) };
        let header = &mut segment.header;
        let Some(ack) = space.offset(header.ack, self.acknowledged).filter(|ack| *ack <= self.sent) else {
            return Some(packet);
        };
        let is_pure = segment.payload.is_empty() && !header.flags.contains(TcpFlags::FIN);
        let sacked = self.sacked(space, header);
        let same_window = core::mem::replace(&mut self.window, header.window) == header.window;
        if ack > self.acknowledged {
            self.on_progress(now, ack);
            if sacked.is_some_and(|right| right > ack) && self.ours().is_some() {
                self.repair(now, sacked);
                header.options.sack.clear();
                packet.original = None;
            }
        } else if ack == self.acknowledged && is_pure && header.window > 0 {
            match sacked {
                Some(right) if right <= ack && right <= self.repaired_until => return None,
                Some(right) if right <= ack => {}
                None if !same_window => {}
                _ if self.ours().is_some() => {
                    if self.expected > 0 {
                        self.expected -= 1;
                    } else {
                        self.repair(now, sacked);
                    }
                    return None;
                }
                _ => {}
            }
        }
        self.answer = is_pure.then(|| packet.clone());
        Some(packet)
    }

    /// The right edge of the highest SACK block.
    fn sacked(&self, space: SeqSpace, header: &TcpHeader) -> Option<u64> {
        let rights =
            header.options.sack.iter().filter_map(|block| space.offset(block.right, self.acknowledged));
        rights.filter(|right| *right <= self.sent).max()
    }

    /// The receiver acknowledges up to `ack`, for the first time.
    fn on_progress(&mut self, now: Time, ack: u64) {
        let mut sample = None;
        while let Some(kept) = self.cache.front()
            && kept.end <= ack
        {
            self.memory -= kept.memory();
            sample = (!kept.resent && !kept.repaired).then_some(kept.at);
            self.cache.pop_front();
        }
        // What waited for a repair tells nothing of the round trip.
        if let Some(at) = sample
            && self.repaired.is_none()
        {
            self.rtt.on_sample(now, now.saturating_since(at));
        }
        self.acknowledged = ack;
        (self.expected, self.repaired, self.timeouts, self.answers) = (0, None, 0, 0);
    }

    /// Sends the segment that is asked for again. The receiver has something up to `sacked`, if it says so.
    fn repair(&mut self, now: Time, sacked: Option<u64>) {
        let (Some(space), Some(place)) = (self.sender, self.asked_for()) else { return };
        let from = self.acknowledged;
        let kept = &mut self.cache[place];
        kept.repaired = true;
        let packet = kept.segment_at(space, from);
        let length = packet.as_tcp().map_or(0, |segment| {
            segment.payload.len() as u64 + u64::from(segment.header.flags.contains(TcpFlags::FIN))
        });
        self.repaired_until = self.repaired_until.max(from + length);
        self.put_in.push_back((self.access, packet));
        // What is behind is on the way, and each brings a duplicate; what the receiver has brought its own.
        let behind = sacked.unwrap_or(0).max(from + 1);
        self.expected = self.cache.iter().filter(|kept| kept.start >= behind).map(Kept::segments).sum();
        self.repaired = Some(now);
    }
}

impl Interceptor for Watched {
    fn on_packet(&mut self, now: Time, side: Side, packet: Packet) -> Option<Packet> {
        let Some(segment) = packet.as_tcp() else { return Some(packet) };
        let flags = segment.header.flags;
        self.active = now;
        if flags.contains(TcpFlags::RST) {
            self.forget();
            return Some(packet);
        }
        if flags.contains(TcpFlags::SYN) {
            if side != self.access {
                self.sender = Some(SeqSpace::new(segment.header.seq));
            }
            return Some(packet);
        }
        let Some(space) = self.sender else { return Some(packet) };
        if side == self.access {
            return if flags.contains(TcpFlags::ACK) {
                self.on_acknowledgment(now, space, packet)
            } else {
                Some(packet)
            };
        }
        self.on_data(now, space, &packet, segment).then_some(packet)
    }

    fn poll_packet(&mut self, now: Time) -> Option<(Side, Packet)> {
        if self.put_in.is_empty() && self.poll_timeout().is_some_and(|deadline| deadline.at <= now) {
            self.timeouts += 1;
            self.repair(now, None);
        }
        self.put_in.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.ours().filter(|_| self.timeouts < TIMEOUTS)?;
        let backoff = 1 << self.timeouts;
        let persist = self.active.max(self.repaired.unwrap_or(Time::ZERO)) + PERSIST * backoff;
        let persist = Deadline { at: persist, timer: "snoop-persist" };
        let repaired =
            self.repaired.map(|at| Deadline { at: at + self.rtt.rto() * backoff, timer: "snoop-rtt" });
        Deadline::earliest(repaired, Some(persist))
    }

    fn memory(&self) -> usize {
        self.memory
    }

    fn forget(&mut self) {
        self.cache.clear();
        (self.memory, self.expected, self.repaired) = (0, 0, None);
    }

    fn step_out(&mut self) {
        self.forget();
        self.put_in.clear();
    }
}
