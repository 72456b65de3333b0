use crate::SenderProfile;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use shorthaul_types::{Bytes, FlowKey};
use shorthaul_wire::{IpHeader, Ipv4Header, Ipv6Header};

/// The two ends of a connection, seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Addresses {
    /// Our end.
    pub local: SocketAddr,
    /// The peer's end, of the same IP version.
    pub remote: SocketAddr,
}

impl Addresses {
    /// As the peer's packets show it: from the peer to us.
    pub(crate) fn of_incoming(flow: FlowKey) -> Self {
        Addresses { local: flow.dst, remote: flow.src }
    }

    /// The header of a packet to the peer. Ends of two versions meet in IPv6, one of them mapped
    /// (RFC 4291 §2.5.5.2).
    pub(crate) fn ip_header(&self) -> IpHeader {
        match (self.local.ip(), self.remote.ip()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                // An atomic datagram needs no identification (RFC 6864 §4.1).
                IpHeader::V4(Ipv4Header { src, dst, tos: 0, ttl: 64, id: 0, dont_fragment: true })
            }
            (src, dst) => {
                let (src, dst) = (v6(src), v6(dst));
                IpHeader::V6(Ipv6Header { src, dst, traffic_class: 0, hop_limit: 64, flow_label: 0 })
            }
        }
    }
}

fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// How an idle connection is asked whether it still lives (RFC 9293 §3.8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// How long nothing was heard before the first probe; the RFC asks for two hours at least, by
    /// default.
    pub idle: Duration,
    /// Between two probes.
    pub interval: Duration,
    /// How many unanswered probes the connection survives.
    pub probes: u32,
}

impl Default for KeepAlive {
    fn default() -> Self {
        KeepAlive { idle: Duration::from_secs(7200), interval: Duration::from_secs(75), probes: 9 }
    }
}

/// How a connection works.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionConfig {
    /// The parts that it is made of.
    pub profile: SenderProfile,
    /// Bytes written that it holds until they are acknowledged.
    pub send_buffer: Bytes,
    /// Bytes received that it holds until they are read: the largest window. At least four units
    /// of the window scale.
    pub receive_buffer: Bytes,
    /// The window begins at 64 KiB and grows with what is read in a round trip, so that only a
    /// fast path costs memory. Without, the whole buffer is offered from the start.
    pub autotuning: bool,
    /// The window begins with so much and grows by twice what arrives, up to the buffer: by two segments with each full one, as in Linux 2.4. For
    /// studies of such hosts; not together with `autotuning`.
    pub first_window: Option<Bytes>,
    /// The shift of our window, 0…14 (RFC 7323 §2.3); by default the smallest that covers the
    /// buffer.
    pub window_shift: Option<u8>,
    /// The segment size that we announce, in bytes without options (RFC 9293 §3.7.1).
    pub mss: u32,
    /// The largest IP packet that our own link takes, in bytes.
    pub mtu: u32,
    /// Segments leave in super-segments, for a driver that cuts them.
    pub super_segments: bool,
    /// Whether and how idle connections are probed.
    pub keep_alive: Option<KeepAlive>,
    /// How long data may stay unacknowledged before the connection is given up (RFC 9293 §3.9.1,
    /// RFC 5482). Without, the number of retransmissions decides.
    pub user_timeout: Option<Duration>,
    /// How long TIME-WAIT lasts: twice the longest life of a segment. RFC 9293 §3.4.2 says four
    /// minutes; one, as in Linux, is the default.
    pub time_wait: Duration,
    /// How often a SYN is retransmitted before the peer is given up. A SYN-ACK: once less.
    pub syn_retries: u32,
}

impl Default for ConnectionConfig {
    fn default() -> Self {
        ConnectionConfig {
            profile: SenderProfile::default(),
            send_buffer: Bytes(4 << 20),
            receive_buffer: Bytes(6 << 20),
            autotuning: true,
            first_window: None,
            window_shift: None,
            mss: 1460,
            mtu: 1500,
            super_segments: false,
            keep_alive: None,
            user_timeout: None,
            time_wait: Duration::from_secs(60),
            syn_retries: 6,
        }
    }
}

impl ConnectionConfig {
    /// The shift of the window that we offer.
    pub(super) fn own_shift(&self) -> u8 {
        match (self.profile.window_scaling, self.window_shift) {
            (false, _) => 0,
            (true, Some(shift)) => shift.min(14),
            (true, None) => (0..14).find(|shift| self.receive_buffer.0 >> shift <= 65_535).unwrap_or(14),
        }
    }
}
