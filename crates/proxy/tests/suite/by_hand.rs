//! A gateway with its clock, and segments that a test puts together by hand: as ends send them that keep to no rule.
use shorthaul_proxy::{Gateway, GatewayConfig};
use shorthaul_testkit::packets;
use shorthaul_types::{SeqNum, Time};
use shorthaul_wire::{Machine, Packet, Payload, SackBlock, TcpFlags, TcpHeader, TcpOptions, TxBatch};
use std::net::SocketAddr;
use std::time::Duration;

/// The largest segment that ends take, by their SYNs.
pub const MSS: u32 = 1460;
/// Their windows are in units of this many bytes.
pub const WINDOW_UNIT: u32 = 1 << WINDOW_SCALE;
const WINDOW_SCALE: u8 = 10;

/// A gateway, and what time it is there.
pub struct Subject {
    pub gateway: Gateway,
    pub now: Time,
}

impl Subject {
    pub fn new(config: GatewayConfig) -> Subject {
        Subject { gateway: Gateway::new(config), now: Time::from_secs(1) }
    }

    /// A packet comes from the access side (`up`), or from the other; what leaves then.
    pub fn takes(&mut self, up: bool, packet: Packet) -> TxBatch {
        self.gateway.handle_timeout(self.now);
        self.gateway.handle_packet(self.now, if up { Gateway::ACCESS } else { Gateway::WAN }, packet);
        self.leaves()
    }

    /// What leaves now.
    pub fn leaves(&mut self) -> TxBatch {
        let mut out = TxBatch::new();
        while self.gateway.poll_transmit(self.now, &mut out) {}
        self.gateway.save(&mut ());
        out
    }

    /// So much time passes; what leaves meanwhile.
    pub fn wait(&mut self, time: Duration) -> TxBatch {
        let (end, mut out) = (self.now + time, TxBatch::new());
        while let Some(deadline) = self.gateway.poll_timeout().filter(|deadline| deadline.at <= end) {
            self.now = self.now.max(deadline.at);
            self.gateway.handle_timeout(self.now);
            out.extend(self.leaves());
        }
        self.now = end;
        out
    }
}

/// A segment of the client (`up`) or of the server, of whom `ends` are the addresses. Both ends' sequence numbers begin at `isn`: those of
/// `header` count from there. SYNs are given the options of one who scales windows and understands SACK.
pub fn segment(ends: [SocketAddr; 2], up: bool, isn: u32, header: TcpHeader, payload: &[u8]) -> Packet {
    let [src, dst] = if up { ends } else { [ends[1], ends[0]] };
    let counted = |seq: SeqNum| SeqNum(seq.0.wrapping_add(isn));
    let is_syn = header.flags.contains(TcpFlags::SYN);
    let TcpOptions { sack, .. } = &header.options;
    let sack = sack.iter().map(|block| SackBlock { left: counted(block.left), right: counted(block.right) });
    let options = TcpOptions {
        mss: is_syn.then_some(MSS as u16),
        window_scale: is_syn.then_some(WINDOW_SCALE),
        sack_permitted: is_syn,
        sack: sack.collect(),
        ..header.options
    };
    let acknowledges = header.flags.contains(TcpFlags::ACK);
    let ack = if acknowledges { counted(header.ack) } else { SeqNum(0) };
    let header = TcpHeader { seq: counted(header.seq), ack, options, ..header };
    packets::segment(src, dst, header, Payload::copy_of(payload).into())
}
