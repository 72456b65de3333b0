use core::net::IpAddr;
use shorthaul_wire::{Packet, Transport};

/// The protocol number of encapsulating security payload (RFC 4303).
const ESP: u8 = 50;

/// What tells flows apart that are not split: addresses, protocol, and ports where there are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId {
    /// Where its packets come from.
    pub src: IpAddr,
    /// Where they go.
    pub dst: IpAddr,
    protocol: u8,
    /// The two ports; of IPsec its security parameters index.
    inner: u32,
}

impl FlowId {
    /// The flow that a packet is of.
    pub fn of(packet: &Packet) -> Self {
        let ports = |src: u16, dst: u16| u32::from(src) << 16 | u32::from(dst);
        let (protocol, inner) = match &packet.transport {
            Transport::Tcp(segment) => (6, ports(segment.header.src_port, segment.header.dst_port)),
            Transport::Udp { header, .. } => (17, ports(header.src_port, header.dst_port)),
            Transport::IcmpError(_) => (1, 0),
            // A later piece has no ports: all pieces between two hosts are one flow.
            Transport::Fragment { .. } => (0, 0),
            Transport::Opaque { protocol: ESP, payload } => {
                let index =
                    payload.as_slice().first_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes));
                (ESP, index)
            }
            Transport::Opaque { protocol, .. } => (*protocol, 0),
        };
        FlowId { src: packet.ip.src(), dst: packet.ip.dst(), protocol, inner }
    }

    /// The two ports, where there are any.
    pub fn ports(&self) -> [u16; 2] {
        match self.protocol {
            6 | 17 => [(self.inner >> 16) as u16, self.inner as u16],
            _ => [0; 2],
        }
    }
}
