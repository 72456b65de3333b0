use crate::extension;
use crate::parse::TCP_HEADER_MIN;
use crate::{Fragment, Offload, Payload, PayloadList, TcpHeader, tcp_options};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::num::NonZeroU16;
use shorthaul_types::FlowKey;

/// A packet: its parsed headers, and its payload as refcounted slices.
///
/// The live loop parses and emits bytes; the simulator passes packets as they are. A packet that
/// came from the wire carries its bytes in [`Packet::original`]; while they are there they are the
/// packet, and it is forwarded untouched. Who changes a header sets `original` to `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// The IP header.
    pub ip: IpHeader,
    /// What it carries.
    pub transport: Transport,
    /// The bytes as they came, where they did.
    pub original: Option<Datagram>,
}

/// What an IP packet carries, as far as we look into it.
// TCP is the common case: a box for it would cost an allocation for every packet.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq)]
pub enum Transport {
    /// A TCP segment, or a super-segment that offload put together.
    Tcp(TcpSegment),
    /// A UDP datagram.
    Udp {
        /// Its header.
        header: UdpHeader,
        /// Its payload.
        payload: Payload,
    },
    /// An ICMP or ICMPv6 error that quotes a TCP segment.
    IcmpError(IcmpError),
    /// A part of what may be a TCP segment.
    Fragment {
        /// Where it belongs.
        fragment: Fragment,
        /// The bytes behind the IP header, and behind the fragment header of IPv6.
        payload: Payload,
    },
    /// Anything else, which is only ever forwarded: other protocols, other ICMP, fragments of something
    /// else than TCP, and what stands behind extension headers that we do not read past.
    Opaque {
        /// The protocol number (of the last header that was read).
        protocol: u8,
        /// The bytes behind the IP header.
        payload: Payload,
    },
}

/// A TCP segment with its payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpSegment {
    /// The header.
    pub header: TcpHeader,
    /// The bytes.
    pub payload: PayloadList,
    /// For a super-segment: the payload bytes of each segment that it stands for (the last may be
    /// shorter). `None` for a plain segment.
    pub gso_size: Option<NonZeroU16>,
}

/// The UDP header without its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpHeader {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}

/// What an ICMP error says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpErrorKind {
    /// The packet exceeded the path's MTU (RFC 1191, RFC 8201): the next hop's MTU in bytes, zero
    /// where an old router did not say.
    PacketTooBig {
        /// The largest packet that passes, in bytes.
        mtu: u32,
    },
    /// Any other destination-unreachable, with its code.
    Unreachable {
        /// The code as it stands in the message.
        code: u8,
    },
    /// Time exceeded, parameter problem and the like.
    Other {
        /// The ICMP type.
        kind: u8,
        /// The ICMP code.
        code: u8,
    },
}

/// An ICMP error about one TCP segment.
#[derive(Clone, Debug, PartialEq)]
pub struct IcmpError {
    /// What went wrong.
    pub kind: IcmpErrorKind,
    /// The connection, as seen from the sender of the quoted segment.
    pub flow: FlowKey,
    /// The sequence number of the quoted segment.
    pub seq: shorthaul_types::SeqNum,
    /// The whole ICMP message, behind the IP header.
    pub message: Payload,
}

/// The IP header, of either version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpHeader {
    /// IPv4.
    V4(Ipv4Header),
    /// IPv6.
    V6(Ipv6Header),
}

/// An IPv4 header without options (RFC 791); the protocol, length and checksum are derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Header {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// DSCP and ECN: the traffic class octet.
    pub tos: u8,
    /// Time to live.
    pub ttl: u8,
    /// Identification.
    pub id: u16,
    /// Don't fragment.
    pub dont_fragment: bool,
}

/// An IPv6 header without extension headers (RFC 8200).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Header {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// DSCP and ECN: the traffic class octet.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
}

impl IpHeader {
    /// The source address.
    pub fn src(&self) -> IpAddr {
        match self {
            IpHeader::V4(h) => IpAddr::V4(h.src),
            IpHeader::V6(h) => IpAddr::V6(h.src),
        }
    }

    /// The destination address.
    pub fn dst(&self) -> IpAddr {
        match self {
            IpHeader::V4(h) => IpAddr::V4(h.dst),
            IpHeader::V6(h) => IpAddr::V6(h.dst),
        }
    }

    /// The length of the header in bytes: 20 or 40.
    #[allow(clippy::len_without_is_empty)] // a header is never empty
    pub fn len(&self) -> usize {
        match self {
            IpHeader::V4(_) => 20,
            IpHeader::V6(_) => 40,
        }
    }

    /// The traffic class octet (DSCP and ECN).
    pub fn traffic_class(&self) -> u8 {
        match self {
            IpHeader::V4(h) => h.tos,
            IpHeader::V6(h) => h.traffic_class,
        }
    }

    /// The ECN field: 0 not capable, 1 ECT(1), 2 ECT(0), 3 congestion experienced (RFC 3168 §5).
    pub fn ecn(&self) -> u8 {
        self.traffic_class() & 3
    }

    /// Sets the ECN field (its low two bits).
    pub fn set_ecn(&mut self, ecn: u8) {
        match self {
            IpHeader::V4(h) => h.tos = h.tos & !3 | ecn & 3,
            IpHeader::V6(h) => h.traffic_class = h.traffic_class & !3 | ecn & 3,
        }
    }
}

/// Bytes between the IP header and what a fragment holds.
pub(crate) const fn fragment_header_len(ip: &IpHeader) -> usize {
    match ip {
        IpHeader::V4(_) => 0,
        IpHeader::V6(_) => 8,
    }
}

impl Packet {
    /// A TCP packet made here.
    pub fn tcp(ip: IpHeader, segment: TcpSegment) -> Self {
        Packet { ip, transport: Transport::Tcp(segment), original: None }
    }

    /// The TCP segment, where there is one.
    pub fn as_tcp(&self) -> Option<&TcpSegment> {
        match &self.transport {
            Transport::Tcp(segment) => Some(segment),
            _ => None,
        }
    }

    /// Whether the packet came with IPv4 options or IPv6 extension headers, of which [`IpHeader`] has nothing.
    pub fn has_ip_options(&self) -> bool {
        let Some(original) = &self.original else { return false };
        let bytes = original.bytes.as_slice();
        match self.ip {
            IpHeader::V4(_) => bytes.first().is_some_and(|first| first & 0xf > 5),
            IpHeader::V6(_) => bytes.get(6).is_some_and(|next| extension::is_one(*next)),
        }
    }

    /// Marks it as having met congestion, if its sender takes marks (RFC 3168 §5): whether it does. Its bytes, where it came with any, are
    /// copied, as others may see them, too.
    pub fn mark_congestion(&mut self) -> bool {
        match self.ip.ecn() {
            0 => return false,
            3 => return true,
            _ => self.ip.set_ecn(3),
        }
        if let Some(original) = &mut self.original {
            let mut bytes = original.bytes.as_slice().to_vec();
            match (self.ip, bytes.as_mut_slice()) {
                (IpHeader::V4(_), [version, tos, rest @ ..]) if rest.len() >= 10 => {
                    let before = u16::from_be_bytes([*version, *tos]);
                    *tos |= 3;
                    let after = u16::from_be_bytes([*version, *tos]);
                    // RFC 1624 §3: HC' = ~(~HC + ~m + m')
                    let sum = u32::from(!u16::from_be_bytes([rest[8], rest[9]]))
                        + u32::from(!before)
                        + u32::from(after);
                    let sum = (sum & 0xffff) + (sum >> 16);
                    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
                    rest[8..10].copy_from_slice(&checksum.to_be_bytes());
                }
                (IpHeader::V6(_), [_, class, ..]) => *class |= 0x30,
                _ => return false,
            }
            original.bytes = Payload::copy_of(&bytes);
        }
        true
    }

    /// The memory that it takes, in bytes: its own, and the buffers that it keeps alive, however little of them it shows.
    pub fn allocated(&self) -> usize {
        let buffers = match (&self.original, &self.transport) {
            // What was read from it shows the same buffer.
            (Some(original), _) => original.bytes.allocated(),
            (None, Transport::Tcp(segment)) => segment.payload.allocated(),
            (None, Transport::IcmpError(error)) => error.message.allocated(),
            (
                None,
                Transport::Udp { payload, .. }
                | Transport::Fragment { payload, .. }
                | Transport::Opaque { payload, .. },
            ) => payload.allocated(),
        };
        size_of::<Packet>() + buffers
    }

    /// How many bytes it takes on the wire, from its IP header on, without writing them.
    pub fn wire_len(&self) -> usize {
        if let Some(original) = &self.original {
            return original.bytes.len();
        }
        let transport = match &self.transport {
            Transport::Tcp(segment) => {
                TCP_HEADER_MIN + tcp_options::written_len(&segment.header.options) + segment.payload.len()
            }
            Transport::Udp { payload, .. } => 8 + payload.len(),
            Transport::IcmpError(error) => error.message.len(),
            Transport::Fragment { payload, .. } => fragment_header_len(&self.ip) + payload.len(),
            Transport::Opaque { payload, .. } => payload.len(),
        };
        self.ip.len() + transport
    }

    /// The connection and direction of a TCP packet.
    pub fn flow(&self) -> Option<FlowKey> {
        let header = &self.as_tcp()?.header;
        Some(FlowKey {
            src: SocketAddr::new(self.ip.src(), header.src_port),
            dst: SocketAddr::new(self.ip.dst(), header.dst_port),
        })
    }
}

/// Bytes of one IP packet, and what an offload left undone on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Datagram {
    /// From the first byte of the IP header to the last of the payload.
    pub bytes: Payload,
    /// What is undone.
    pub offload: Offload,
}
