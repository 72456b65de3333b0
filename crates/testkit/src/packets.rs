//! Packets as tests write them.
use shorthaul_wire::{
    IpHeader, Ipv4Header, Ipv6Header, Packet, Payload, PayloadList, TcpHeader, TcpOptions, TcpSegment,
};
use std::net::{IpAddr, SocketAddr};

/// The IP header of a packet from `src` to `dst`.
///
/// # Panics
/// If the two are of different versions.
pub fn ip(src: impl Into<IpAddr>, dst: impl Into<IpAddr>) -> IpHeader {
    match (src.into(), dst.into()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            IpHeader::V4(Ipv4Header { src, dst, tos: 0, ttl: 64, id: 0, dont_fragment: true })
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            IpHeader::V6(Ipv6Header { src, dst, traffic_class: 0, hop_limit: 64, flow_label: 0 })
        }
        (src, dst) => panic!("no packet goes from {src} to {dst}"),
    }
}

/// A segment from `src` to `dst`, with these ports and otherwise this header.
///
/// # Panics
/// If the two are of different IP versions.
pub fn segment(src: SocketAddr, dst: SocketAddr, header: TcpHeader, payload: PayloadList) -> Packet {
    let header = TcpHeader { src_port: src.port(), dst_port: dst.port(), ..header };
    Packet::tcp(ip(src.ip(), dst.ip()), TcpSegment { header, payload, gso_size: None })
}

/// `len` bytes that are all alike.
pub fn filler(len: usize) -> PayloadList {
    if len == 0 { PayloadList::default() } else { Payload::copy_of(&vec![7; len]).into() }
}

/// The options of a SYN whose sender takes segments of `mss` bytes and understands SACK.
pub fn syn_options(mss: u16) -> TcpOptions {
    TcpOptions { mss: Some(mss), sack_permitted: true, ..TcpOptions::default() }
}
