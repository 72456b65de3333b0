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

    /// What a crash of ours would lose of it, as it did of our predecessor's.
    pub(crate) fn record(&self) -> CustodyRecord {
        self.record
    }

    /// Whether a segment can be of this connection, and not of another that has its ports by now: what it sends and what it
    /// acknowledges lie where they must.
    fn is_of_this(&self, side: Side, header: &TcpHeader) -> bool {
        /// No window is larger (RFC 7323 §2.3).
        const WINDOW: u32 = 1 << 30;
        let (sent, _) = self.record.directions[side.index()];
        let (_, delivered) = self.record.directions[side.other().index()];
        // A probe begins one byte early.
        let ahead = header.seq.0.wrapping_sub(sent.0.wrapping_sub(1));
        let acknowledged = header.ack.0.wrapping_sub(delivered.0);
        ahead <= WINDOW && acknowledged <= WINDOW
    }

    /// A segment from `side`: its acknowledgment says what arrived there.
    ///
    /// What was under way when our predecessor crashed may still arrive. So nothing is lost before the ends were asked
    /// a second time.
    pub(crate) fn on_segment(&mut self, side: Side, segment: &TcpSegment) -> Ruling {
        let header = &segment.header;
        if header.flags.contains(TcpFlags::RST) || !header.flags.contains(TcpFlags::ACK) {
            return Ruling::Unknown;
        }
        if !self.lost && !self.is_of_this(side, header) {
            return Ruling::Unknown;
        }
        let direction = side.other().index();
        let (acknowledged, _) = self.record.directions[direction];
        let newly =
            !self.lost && self.asked >= 2 && !self.whole[direction] && header.ack.before(acknowledged);
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
pub(crate) fn packet_between(from: SocketAddr, to: SocketAddr, header: TcpHeader) -> Option<Packet> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_types::FlowKey;

    const CLIENT: Side = Side::Client;

    /// The server's bytes 1,000 to 5,000 were acknowledged to it and not by the client, which sent up to 700.
    fn flow() -> InheritedFlow {
        InheritedFlow::new(CustodyRecord {
            flow: FlowKey { src: "10.0.0.1:1".parse().unwrap(), dst: "10.0.0.2:2".parse().unwrap() },
            client_port: PortId(0),
            directions: [(SeqNum(700), SeqNum(700)), (SeqNum(5_000), SeqNum(1_000))],
        })
    }

    fn says(seq: u32, ack: u32) -> TcpSegment {
        let header =
            TcpHeader { seq: SeqNum(seq), ack: SeqNum(ack), flags: TcpFlags::ACK, ..TcpHeader::default() };
        TcpSegment { header, ..TcpSegment::default() }
    }

    #[test]
    fn what_was_under_way_in_the_crash_is_not_lost() {
        let mut flow = flow();
        assert!(flow.ask(&mut TxBatch::new()));
        assert!(matches!(flow.on_segment(CLIENT, &says(700, 1_000)), Ruling::Unknown), "an old one");
        assert!(matches!(flow.on_segment(CLIENT, &says(700, 5_000)), Ruling::Whole));
    }

    #[test]
    fn what_is_not_there_when_it_is_asked_again_is_lost() {
        let mut flow = flow();
        flow.ask(&mut TxBatch::new());
        flow.ask(&mut TxBatch::new());
        assert!(matches!(flow.on_segment(CLIENT, &says(700, 1_000)), Ruling::Lost { newly: true }));
        assert!(matches!(flow.on_segment(CLIENT, &says(700, 1_000)), Ruling::Lost { newly: false }));
    }

    #[test]
    fn another_connection_with_these_ports_is_left_alone() {
        let mut flow = flow();
        flow.ask(&mut TxBatch::new());
        flow.ask(&mut TxBatch::new());
        for (seq, ack) in [(0x7000_0000, 0x9000_0000), (700, 999), (698, 1_000), (700, 0xf000_0000)] {
            assert!(matches!(flow.on_segment(CLIENT, &says(seq, ack)), Ruling::Unknown), "{seq} {ack}");
        }
    }
}
