use crate::CustodyRecord;
use crate::end::Side;
use core::net::SocketAddr;
use shorthaul_types::{PortId, SeqNum};
use shorthaul_wire::{IpHeader, Ipv4Header, Ipv6Header, Packet, TcpFlags, TcpHeader, TcpSegment, TxBatch};

/// How often both ends are asked, before an inherited flow is forgotten.
const QUESTIONS: u32 = 20;

/// A flow of which a crashed predecessor held bytes. Some of them may have arrived all the same:
/// we ask both ends, and rule when they answer.
#[derive(Debug)]
pub(crate) struct InheritedFlow {
    record: CustodyRecord,
    asked: u32,
    /// The directions of which everything acknowledged to the sender is known to have arrived.
    whole: [bool; 2],
    lost: bool,
}

/// What a segment tells of an inherited flow.
#[derive(Debug)]
pub(crate) enum Ruling {
    /// Nothing yet.
    Unknown,
    /// Nothing is lost: the flow needs nobody.
    Whole,
    /// Bytes are lost that their sender believes delivered. Whoever speaks is reset.
    Lost {
        /// It was not known before.
        newly: bool,
    },
}

impl InheritedFlow {
    pub(crate) fn new(record: CustodyRecord) -> Self {
        let whole = record.directions.map(|(acknowledged, delivered)| acknowledged == delivered);
        InheritedFlow { record, asked: 0, whole, lost: false }
    }

    /// Asks both ends what they expect next: a segment from below the window draws an
    /// acknowledgment (RFC 9293 §3.10.7.4). Says whether it is worth asking again.
    pub(crate) fn ask(&mut self, out: &mut TxBatch) -> bool {
        self.asked += 1;
        let (client, server) = (self.record.flow.src, self.record.flow.dst);
        let client_port = self.record.client_port;
        let [(client_acknowledged, client_delivered), (server_acknowledged, server_delivered)] =
            self.record.directions;
        for (from, to, port, delivered, acknowledged) in [
            (server, client, client_port, server_delivered, client_acknowledged),
            (client, server, PortId(client_port.0 ^ 1), client_delivered, server_acknowledged),
        ] {
            let header = TcpHeader {
                src_port: from.port(),
                dst_port: to.port(),
                seq: SeqNum(delivered.0.wrapping_sub(1)),
                ack: acknowledged,
                flags: TcpFlags::ACK,
                ..TcpHeader::default()
            };
            out.extend(packet_between(from, to, header).map(|packet| (port, packet)));
        }
        self.asked < QUESTIONS
    }

    /// A segment from `side`: its acknowledgment says what arrived there.
    pub(crate) fn on_segment(&mut self, side: Side, segment: &TcpSegment) -> Ruling {
        let header = &segment.header;
        if header.flags.contains(TcpFlags::RST) || !header.flags.contains(TcpFlags::ACK) {
            return Ruling::Unknown;
        }
        let direction = side.other().index();
        let (acknowledged, _) = self.record.directions[direction];
        let newly = !self.lost && !self.whole[direction] && header.ack.before(acknowledged);
        self.whole[direction] |= !header.ack.before(acknowledged);
        self.lost |= newly;
        match (self.lost, self.whole) {
            (true, _) => Ruling::Lost { newly },
            (false, [true, true]) => Ruling::Whole,
            _ => Ruling::Unknown,
        }
    }

    /// The reset that answers `segment` from `side`: where that end expects it (RFC 9293 §3.5.3).
    pub(crate) fn reset(&self, side: Side, segment: &TcpSegment) -> Option<Packet> {
        let flow = self.record.flow;
        let (from, to) = if side == Side::Client { (flow.dst, flow.src) } else { (flow.src, flow.dst) };
        let header = TcpHeader {
            src_port: from.port(),
            dst_port: to.port(),
            seq: segment.header.ack,
            flags: TcpFlags::RST,
            ..TcpHeader::default()
        };
        packet_between(from, to, header)
    }
}

/// A segment without data between two addresses of one family.
fn packet_between(from: SocketAddr, to: SocketAddr, header: TcpHeader) -> Option<Packet> {
    let ip = ip_between(from, to)?;
    Some(Packet::tcp(ip, TcpSegment { header, ..TcpSegment::default() }))
}

/// A fresh IP header between two ends, for a packet that has no other to imitate.
fn ip_between(from: SocketAddr, to: SocketAddr) -> Option<IpHeader> {
    match (from, to) {
        (SocketAddr::V4(from), SocketAddr::V4(to)) => Some(IpHeader::V4(Ipv4Header {
            src: *from.ip(),
            dst: *to.ip(),
            tos: 0,
            ttl: 64,
            id: 0,
            dont_fragment: true,
        })),
        (SocketAddr::V6(from), SocketAddr::V6(to)) => Some(IpHeader::V6(Ipv6Header {
            src: *from.ip(),
            dst: *to.ip(),
            traffic_class: 0,
            hop_limit: 64,
            flow_label: 0,
        })),
        _ => None,
    }
}
