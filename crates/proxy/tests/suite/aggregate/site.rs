//! Mobile hosts behind a gateway, and a server, whose every word the test says.
use shorthaul_proxy::{AggregateConfig, Clamp, Gateway, GatewayConfig, Policy};
pub use shorthaul_testkit::packets::ip;
use shorthaul_testkit::packets::{filler, syn_options};
use shorthaul_types::{Bytes, SeqNum, Time};
use shorthaul_wire::{
    Machine, Packet, Payload, PayloadList, SackBlock, TcpFlags, TcpHeader, TcpOptions, TcpSegment,
    Timestamps, TxBatch,
};
use std::collections::BTreeMap;
use std::sync::Arc;

pub const MSS: u32 = 1000;
pub const SERVER: [u8; 4] = [192, 0, 2, 1];

/// Mobile hosts 10.0.x.y behind a gateway, and a server. A connection is named by host and port.
pub struct Site {
    pub gateway: Gateway,
    pub now: Time,
    /// Toward the mobile hosts: what was sent, by connection, in order: offset and length.
    pub down: Vec<(Time, (u16, u16), u32, u32)>,
    /// Toward the server: the acknowledgment and right edge that it was told last.
    pub told: BTreeMap<(u16, u16), (u32, u32)>,
    pub resets: usize,
    /// Toward the mobile hosts: the acknowledgment and right edge in what was sent last.
    pub told_below: (u32, u32),
    /// The ends agree on congestion marks.
    pub ecn: bool,
    /// Their maximum segment size.
    pub mss: u32,
    /// The server's timestamp, and the one that the mobile host echoes, if they have any.
    pub stamps: Option<(u32, u32)>,
    /// What the server offers.
    pub server_window: u16,
}

pub fn address(host: u16) -> [u8; 4] {
    let [high, low] = host.to_be_bytes();
    [10, 0, high, low]
}

impl Site {
    pub fn new(aggregate: AggregateConfig) -> Site {
        Site::with(GatewayConfig::of(Policy { aggregate: Some(Arc::new(aggregate)), ..Policy::default() }))
    }

    pub fn with(config: GatewayConfig) -> Site {
        let gateway = Gateway::new(config);
        let (down, told) = (Vec::new(), BTreeMap::new());
        Site {
            gateway,
            now: Time::from_secs(1),
            down,
            told,
            resets: 0,
            told_below: (0, 0),
            ecn: false,
            mss: MSS,
            stamps: None,
            server_window: 60_000,
        }
    }

    pub fn clamped(bytes: u64) -> Site {
        Site::new(config(bytes))
    }

    pub fn flush(&mut self) {
        let mut out = TxBatch::new();
        while self.gateway.poll_transmit(self.now, &mut out) {}
        self.gateway.save(&mut ());
        for (port, packet) in out {
            let Some(tcp) = packet.as_tcp() else { continue };
            if tcp.header.flags.contains(TcpFlags::RST) {
                self.resets += 1;
                continue;
            }
            let (mobile, name) = match (port, packet.ip.src(), packet.ip.dst()) {
                (Gateway::ACCESS, _, dst) => (dst, tcp.header.dst_port),
                (_, src, _) => (src, tcp.header.src_port),
            };
            let std::net::IpAddr::V4(v4) = mobile else { continue };
            let [_, _, high, low] = v4.octets();
            let flow = (u16::from_be_bytes([high, low]), name);
            if port == Gateway::ACCESS && !tcp.header.flags.contains(TcpFlags::SYN) {
                let ack = tcp.header.ack.0 - 100;
                self.told_below = (ack, ack + u32::from(tcp.header.window));
            }
            if port == Gateway::ACCESS && !tcp.payload.is_empty() {
                let offset = tcp.header.seq.0 - 100;
                self.down.push((self.now, flow, offset, tcp.payload.len() as u32));
            } else if port == Gateway::WAN && !tcp.header.flags.contains(TcpFlags::SYN) {
                let ack = tcp.header.ack.0 - 100;
                self.told.insert(flow, (ack, ack + u32::from(tcp.header.window)));
            }
        }
    }

    pub fn hand_in(&mut self, port: shorthaul_types::PortId, packet: Packet) {
        self.gateway.handle_timeout(self.now);
        self.gateway.handle_packet(self.now, port, packet);
        self.flush();
    }

    /// Opens a connection of a mobile host, with a round trip of 100 ms to it and one of 10 ms to the server.
    pub fn open(&mut self, flow: (u16, u16)) {
        let (asks, agrees) =
            if self.ecn { (TcpFlags::ECE | TcpFlags::CWR, TcpFlags::ECE) } else { Default::default() };
        self.mobile_says(flow, TcpFlags::SYN | asks, 0, &[]);
        self.wait(10);
        self.server_says(flow, TcpFlags::SYN | TcpFlags::ACK | agrees, 0, 0);
        self.wait(100);
        self.mobile_says(flow, TcpFlags::ACK, 1, &[]);
    }

    pub fn header(&self, flags: TcpFlags, ports: (u16, u16), seq: u32, ack: u32) -> TcpHeader {
        let options =
            if flags.contains(TcpFlags::SYN) { syn_options(self.mss as u16) } else { TcpOptions::default() };
        let timestamps = self.stamps.map(|(server, echoed)| {
            if ports.0 == 80 {
                Timestamps { val: server, ecr: 1 }
            } else {
                Timestamps { val: 1, ecr: echoed }
            }
        });
        let options = TcpOptions { timestamps, ..options };
        TcpHeader {
            src_port: ports.0,
            dst_port: ports.1,
            seq: SeqNum(100 + seq),
            ack: SeqNum(100 + ack),
            flags,
            window: if ports.0 == 80 { self.server_window } else { 60_000 },
            options,
            ..TcpHeader::default()
        }
    }

    /// An acknowledgment of everything before `ack`, with reports.
    pub fn mobile_says(&mut self, flow: (u16, u16), flags: TcpFlags, ack: u32, reports: &[(u32, u32)]) {
        self.mobile_says_with_window(flow, flags, ack, reports, 60_000);
    }

    pub fn mobile_says_with_window(
        &mut self,
        flow: (u16, u16),
        flags: TcpFlags,
        ack: u32,
        reports: &[(u32, u32)],
        window: u16,
    ) {
        let seq = u32::from(!flags.contains(TcpFlags::SYN));
        let mut header = self.header(flags, (flow.1, 80), seq, ack);
        header.window = window;
        for &(left, right) in reports {
            header.options.sack.push(SackBlock { left: SeqNum(100 + left), right: SeqNum(100 + right) });
        }
        let segment = TcpSegment { header, ..TcpSegment::default() };
        self.hand_in(Gateway::ACCESS, Packet::tcp(ip(address(flow.0), SERVER), segment));
    }

    pub fn server_says(&mut self, flow: (u16, u16), flags: TcpFlags, offset: u32, bytes: usize) {
        self.server_sends(flow, flags, offset, filler(bytes));
    }

    /// The mobile host sends `bytes` of its own from `offset` on.
    pub fn mobile_sends(&mut self, flow: (u16, u16), offset: u32, bytes: usize) {
        let header = self.header(TcpFlags::ACK, (flow.1, 80), offset, 1);
        let segment = TcpSegment { header, payload: filler(bytes), gso_size: None };
        self.hand_in(Gateway::ACCESS, Packet::tcp(ip(address(flow.0), SERVER), segment));
    }

    /// The server sends what this buffer shows.
    pub fn server_says_in(&mut self, flow: (u16, u16), offset: u32, payload: Payload) {
        self.server_sends(flow, TcpFlags::ACK, offset, payload.into());
    }

    fn server_sends(&mut self, flow: (u16, u16), flags: TcpFlags, offset: u32, payload: PayloadList) {
        let header = self.header(flags, (80, flow.1), offset, 1);
        let segment = TcpSegment { header, payload, gso_size: None };
        self.hand_in(Gateway::WAN, Packet::tcp(ip(SERVER, address(flow.0)), segment));
    }

    /// The server sends as many full segments, from `offset` on.
    pub fn send(&mut self, flow: (u16, u16), offset: u32, segments: u32) {
        for i in 0..segments {
            self.server_says(flow, TcpFlags::ACK, offset + i * MSS, MSS as usize);
        }
    }

    /// Time passes, with a call at each deadline.
    pub fn wait(&mut self, ms: u64) {
        let end = self.now + std::time::Duration::from_millis(ms);
        for _ in 0..100_000 {
            match self.gateway.poll_timeout().filter(|deadline| deadline.at <= end) {
                Some(deadline) => self.now = self.now.max(deadline.at),
                None => {
                    self.now = end;
                    return;
                }
            }
            self.gateway.handle_timeout(self.now);
            self.flush();
        }
        panic!("a deadline does not go away: {:?}", self.gateway.poll_timeout());
    }

    /// What was sent to the mobile hosts since the last call.
    pub fn sent(&mut self) -> Vec<((u16, u16), u32, u32)> {
        self.down.drain(..).map(|(_, flow, offset, len)| (flow, offset, len)).collect()
    }

    pub fn in_flight(&self, host: usize) -> u64 {
        self.gateway.hosts().nth(host).unwrap().in_flight
    }
}

pub fn config(bytes: u64) -> AggregateConfig {
    AggregateConfig { clamp: Clamp::Fixed(Bytes(bytes)), interactive: Bytes(0), ..AggregateConfig::default() }
}

pub const A: (u16, u16) = (1, 5001);
pub const B: (u16, u16) = (1, 5002);
pub const OTHER: (u16, u16) = (2, 5001);
