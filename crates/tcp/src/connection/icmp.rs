use super::{Connection, Failure, State};
use shorthaul_types::{SeqNum, Time};
use shorthaul_wire::{IcmpError, IcmpErrorKind, IpHeader};

/// The sizes that RFC 1191 §7 found on real links, for routers that do not say theirs.
const PLATEAUS: [u32; 10] = [32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, 508, 296, 68];
/// The smallest MTU that is believed. Linux's `min_pmtu`: below, the headers outweigh the data, and
/// a forger could make us crawl.
const FLOOR_V4: u32 = 552;
/// Every IPv6 link takes this (RFC 8200 §5).
const FLOOR_V6: u32 = 1280;

impl Connection {
    /// The network reports an error about a segment of ours. It is heeded only if that segment can
    /// be on the way (RFC 5927 §4.1).
    pub(super) fn on_icmp(&mut self, now: Time, ip: IpHeader, error: &IcmpError) {
        match self.state {
            State::Closed | State::Listen | State::TimeWait => {}
            State::SynSent | State::SynReceived => {
                if error.seq == self.own.seq(0)
                    && let IcmpErrorKind::Unreachable { code } = error.kind
                {
                    self.unreachable = true;
                    if self.state == State::SynSent && is_hard(ip, code) {
                        self.fail(now, Failure::Unreachable);
                    }
                }
            }
            _ => self.on_icmp_in_flight(now, error),
        }
    }

    fn on_icmp_in_flight(&mut self, now: Time, error: &IcmpError) {
        let (una, nxt) = (self.sender.una(), self.sender.nxt());
        let Some(offset) = in_flight(self.own.offset(error.seq, una), una, nxt) else { return };
        match error.kind {
            IcmpErrorKind::PacketTooBig { mtu } => {
                let sent = self.sender.mss() + self.overhead();
                let told = if mtu == 0 { next_plateau(sent) } else { mtu };
                let floor = if self.path.ip_header().len() == 20 { FLOOR_V4 } else { FLOOR_V6 };
                let mss = self.segment_size(told.max(floor));
                self.sender.reduce_mss(now, mss);
            }
            // An established connection survives every other error (RFC 5927 §5.2): the path may heal.
            IcmpErrorKind::Unreachable { .. } => self.unreachable = offset == una,
            IcmpErrorKind::Other { .. } => {}
        }
    }

    /// Bytes of a packet that are not payload.
    fn overhead(&self) -> u32 {
        self.path.ip_header().len() as u32 + 20 + if self.agreed.timestamps { 12 } else { 0 }
    }

    /// A SYN of a next connection between the same ports may end this one in TIME-WAIT: its
    /// timestamp or its sequence number shows that it is no old duplicate (RFC 6191 §2, RFC 9293
    /// §3.6.1). Returns the sequence number that ours must exceed.
    pub(crate) fn successor_isn(&self, syn: &shorthaul_wire::TcpHeader) -> Option<SeqNum> {
        use shorthaul_wire::TcpFlags;
        let opens = syn.flags.contains(TcpFlags::SYN) && !syn.flags.intersects(TcpFlags::ACK | TcpFlags::RST);
        if self.state != State::TimeWait || !opens {
            return None;
        }
        let newer = match (syn.options.timestamps, self.receiver.ts_recent()) {
            (Some(timestamps), Some(recent)) if timestamps.val != recent => {
                timestamps.val.wrapping_sub(recent) as i32 > 0
            }
            _ => syn.seq.after(self.peer.space.seq(self.receiver.next())),
        };
        newer.then(|| self.own.seq(self.sender.nxt()))
    }
}

fn in_flight(offset: Option<u64>, una: u64, nxt: u64) -> Option<u64> {
    offset.filter(|&offset| offset >= una && offset < nxt)
}

/// Protocol and port unreachable (RFC 9293 §3.9.2.2): nobody will ever answer.
fn is_hard(ip: IpHeader, code: u8) -> bool {
    match ip {
        IpHeader::V4(_) => matches!(code, 2 | 3),
        IpHeader::V6(_) => code == 4,
    }
}

fn next_plateau(size: u32) -> u32 {
    PLATEAUS.into_iter().find(|&plateau| plateau < size).unwrap_or(68)
}
