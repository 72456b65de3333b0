//! An independent implementation reads what we write, and we read what it writes.
use crate::packets::{packet, super_segment, tcp};
use etherparse::{
    Icmpv4Type, Icmpv6Type, IpDscp, IpEcn, IpFragOffset, IpHeaders, IpNumber, Ipv4Header as TheirV4,
    Ipv6Header as TheirV6, NetSlice, PacketBuilder, SlicedPacket, TcpHeader as TheirTcp, TcpOptionElement,
    TransportSlice, icmpv4, icmpv6,
};
use proptest::collection::vec;
use proptest::prelude::*;
use shorthaul_wire::{
    ChecksumMode, Datagram, IcmpErrorKind, IpHeader, Offload, Packet, Payload, TcpFlags, TcpHeader,
    TcpOptions, Transport, cut, parse, to_datagram,
};

/// Our IP header as theirs.
fn their_ip(ip: &IpHeader) -> IpHeaders {
    match ip {
        IpHeader::V4(ip) => {
            let mut header = TheirV4 {
                dscp: IpDscp::try_new(ip.tos >> 2).unwrap(),
                ecn: IpEcn::try_new(ip.tos & 3).unwrap(),
                identification: ip.id,
                dont_fragment: ip.dont_fragment,
                fragment_offset: IpFragOffset::ZERO,
                time_to_live: ip.ttl,
                protocol: IpNumber::TCP,
                source: ip.src.octets(),
                destination: ip.dst.octets(),
                ..TheirV4::default()
            };
            header.header_checksum = header.calc_header_checksum();
            IpHeaders::Ipv4(header, Default::default())
        }
        IpHeader::V6(ip) => {
            let header = TheirV6 {
                traffic_class: ip.traffic_class,
                flow_label: ip.flow_label.try_into().unwrap(),
                payload_length: 0,
                next_header: IpNumber::TCP,
                hop_limit: ip.hop_limit,
                source: ip.src.octets(),
                destination: ip.dst.octets(),
            };
            IpHeaders::Ipv6(header, Default::default())
        }
    }
}

/// Checks that they read the IP header as ours, with the right lengths and checksum.
fn assert_same_ip(net: &NetSlice<'_>, ours: &IpHeader, len: usize) {
    match (net, their_ip(ours)) {
        (NetSlice::Ipv4(theirs), IpHeaders::Ipv4(mut expected, _)) => {
            let header = theirs.header().to_header();
            expected.total_len = len as u16;
            expected.protocol = header.protocol;
            expected.header_checksum = expected.calc_header_checksum();
            assert_eq!(header, expected);
        }
        (NetSlice::Ipv6(theirs), IpHeaders::Ipv6(mut expected, _)) => {
            let header = theirs.header().to_header();
            expected.payload_length = (len - 40) as u16;
            expected.next_header = header.next_header;
            assert_eq!(header, expected);
        }
        (theirs, _) => panic!("{theirs:?} is of another version than {ours:?}"),
    }
}

/// Our flags as they stand in their header.
fn set_flags(theirs: &mut TheirTcp, flags: TcpFlags) {
    theirs.fin = flags.contains(TcpFlags::FIN);
    theirs.syn = flags.contains(TcpFlags::SYN);
    theirs.rst = flags.contains(TcpFlags::RST);
    theirs.psh = flags.contains(TcpFlags::PSH);
    theirs.ack = flags.contains(TcpFlags::ACK);
    theirs.urg = flags.contains(TcpFlags::URG);
    theirs.ece = flags.contains(TcpFlags::ECE);
    theirs.cwr = flags.contains(TcpFlags::CWR);
    theirs.ns = flags.contains(TcpFlags::AE);
}

/// The known ones of our options as their elements.
fn elements(options: &TcpOptions) -> Vec<TcpOptionElement> {
    use TcpOptionElement::*;
    let mut elements = Vec::new();
    elements.extend(options.mss.map(MaximumSegmentSize));
    elements.extend(options.sack_permitted.then_some(SelectiveAcknowledgementPermitted));
    elements.extend(options.timestamps.map(|timestamps| Timestamp(timestamps.val, timestamps.ecr)));
    elements.extend(options.window_scale.map(WindowScale));
    let mut blocks = options.sack.iter().map(|block| (block.left.0, block.right.0));
    if let Some(first) = blocks.next() {
        elements.push(SelectiveAcknowledgement(first, [blocks.next(), blocks.next(), blocks.next()]));
    }
    elements
}

/// Our TCP header as theirs, with options where they know them.
fn their_tcp(ours: &TcpHeader) -> TheirTcp {
    let mut theirs = TheirTcp::new(ours.src_port, ours.dst_port, ours.seq.0, ours.window);
    theirs.acknowledgment_number = ours.ack.0;
    theirs.urgent_pointer = ours.urgent;
    set_flags(&mut theirs, ours.flags);
    theirs
}

/// Checks that they read these bytes as this TCP packet, and find its checksums right.
fn assert_same_tcp(bytes: &[u8], packet: &Packet) {
    let segment = packet.as_tcp().unwrap();
    let sliced = SlicedPacket::from_ip(bytes).expect("they know what we write");
    let net = sliced.net.expect("there is an IP header");
    assert_same_ip(&net, &packet.ip, bytes.len());
    let Some(TransportSlice::Tcp(theirs)) = sliced.transport else { panic!("they see no TCP in {packet:?}") };
    let checksum = match net {
        NetSlice::Ipv4(ip) => theirs.calc_checksum_ipv4(ip.header().source(), ip.header().destination()),
        NetSlice::Ipv6(ip) => theirs.calc_checksum_ipv6(ip.header().source(), ip.header().destination()),
        NetSlice::Arp(_) => unreachable!("it was checked to be IP"),
    };
    assert_eq!(theirs.checksum(), checksum.unwrap());
    let mut header = theirs.to_header();
    if segment.header.options.unknown.is_empty() {
        let mut read: Vec<_> = header.options_iterator().map(Result::unwrap).collect();
        read.retain(|element| *element != TcpOptionElement::Noop);
        assert_eq!(read, elements(&segment.header.options));
    }
    header.checksum = 0;
    header.options = Default::default();
    assert_eq!(header, their_tcp(&segment.header));
    let mut payload = vec![0; segment.payload.len()];
    segment.payload.copy_to(&mut payload);
    assert_eq!(theirs.payload(), payload);
}

/// We read the bytes that they wrote.
fn parse_theirs(bytes: &[u8]) -> Packet {
    let datagram = Datagram { bytes: Payload::copy_of(bytes), offload: Offload::default() };
    parse(datagram).expect("they write packets")
}

fn is_opaque(packet: &Packet) -> bool {
    matches!(packet.transport, Transport::Opaque { .. })
}

proptest! {
    #[test]
    fn they_read_the_tcp_that_we_write(packet in tcp()) {
        let datagram = to_datagram(&packet, ChecksumMode::Full);
        assert_same_tcp(datagram.bytes.as_slice(), &packet);
    }

    #[test]
    fn they_read_the_pieces_that_we_cut(packet in super_segment()) {
        for piece in cut(&to_datagram(&packet, ChecksumMode::Full), ChecksumMode::Full) {
            let piece = piece.to_datagram();
            let parsed = parse(piece.clone()).expect("a piece is a packet");
            assert_same_tcp(piece.bytes.as_slice(), &parsed);
        }
    }

    #[test]
    fn we_read_the_tcp_that_they_write(packet in tcp()) {
        let segment = packet.as_tcp().unwrap();
        let mut header = their_tcp(&segment.header);
        let mut expected = segment.clone();
        expected.header.flags = TcpFlags(segment.header.flags.0 & 0x1ff); // they have no reserved bits
        expected.header.options.unknown.clear();
        match etherparse::TcpOptions::try_from_elements(&elements(&expected.header.options)) {
            Ok(options) => header.options = options,
            Err(_) => expected.header.options = TcpOptions::default(), // they need room for padding
        }
        let mut payload = vec![0; expected.payload.len()];
        expected.payload.copy_to(&mut payload);
        let mut bytes = Vec::new();
        PacketBuilder::ip(their_ip(&packet.ip)).tcp_header(header).write(&mut bytes, &payload).unwrap();
        let parsed = parse_theirs(&bytes);
        prop_assert_eq!(parsed.ip, packet.ip);
        prop_assert_eq!(parsed.transport, Transport::Tcp(expected));
    }

    #[test]
    fn udp_is_the_same_both_ways(packet in packet()) {
        let Transport::Udp { header, payload } = &packet.transport else { return Ok(()) };
        let mut theirs = Vec::new();
        let builder = PacketBuilder::ip(their_ip(&packet.ip)).udp(header.src_port, header.dst_port);
        builder.write(&mut theirs, payload.as_slice()).unwrap();
        let ours = to_datagram(&packet, ChecksumMode::Full);
        prop_assert_eq!(ours.bytes.as_slice(), &theirs[..]);
        prop_assert_eq!(parse_theirs(&theirs).transport, packet.transport);
    }

    #[test]
    fn we_read_their_icmp_errors(router in crate::packets::ip(), quoted in tcp(), mtu: u16, code in 0u8..16, more in 0usize..80) {
        let quote = to_datagram(&quoted, ChecksumMode::Full).bytes;
        let quote = quote.slice(0..quote.len().min(quoted.ip.len() + 8 + more));
        let builder = PacketBuilder::ip(their_ip(&router));
        let mut bytes = Vec::new();
        let kind = match (&router, code) {
            (IpHeader::V4(_), 4) => {
                let kind = icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: mtu };
                builder.icmpv4(Icmpv4Type::DestinationUnreachable(kind)).write(&mut bytes, quote.as_slice()).unwrap();
                IcmpErrorKind::PacketTooBig { mtu: mtu.into() }
            }
            (IpHeader::V4(_), 0..4 | 5..=8) => {
                builder.icmpv4_raw(3, code, [0; 4]).write(&mut bytes, quote.as_slice()).unwrap();
                IcmpErrorKind::Unreachable { code }
            }
            (IpHeader::V4(_), _) => {
                builder.icmpv4_raw(11, code, [0; 4]).write(&mut bytes, quote.as_slice()).unwrap();
                IcmpErrorKind::Other { kind: 11, code }
            }
            (IpHeader::V6(_), 0..6) => {
                let kind = Icmpv6Type::PacketTooBig { mtu: mtu.into() };
                builder.icmpv6(kind).write(&mut bytes, quote.as_slice()).unwrap();
                IcmpErrorKind::PacketTooBig { mtu: mtu.into() }
            }
            (IpHeader::V6(_), 6..12) => {
                let kind = Icmpv6Type::DestinationUnreachable(icmpv6::DestUnreachableCode::Port);
                builder.icmpv6(kind).write(&mut bytes, quote.as_slice()).unwrap();
                IcmpErrorKind::Unreachable { code: 4 }
            }
            (IpHeader::V6(_), _) => {
                builder.icmpv6_raw(4, code, [0; 4]).write(&mut bytes, quote.as_slice()).unwrap();
                IcmpErrorKind::Other { kind: 4, code }
            }
        };
        let parsed = parse_theirs(&bytes);
        prop_assert_eq!(&parsed.ip, &router);
        if std::mem::discriminant(&router) != std::mem::discriminant(&quoted.ip) {
            // An error about a packet of the other version means nothing.
            prop_assert!(is_opaque(&parsed));
            return Ok(());
        }
        let Transport::IcmpError(error) = &parsed.transport else { panic!("{parsed:?} is no error") };
        prop_assert_eq!(error.kind, kind);
        prop_assert_eq!(Some(error.flow), quoted.flow());
        prop_assert_eq!(error.seq, quoted.as_tcp().unwrap().header.seq);
        prop_assert_eq!(error.message.as_slice(), &bytes[router.len()..]);

        // The other version's ICMP is no ICMP here.
        if let IpHeader::V4(_) = router {
            let mut wrong = bytes.clone();
            wrong[9] = IpNumber::IPV6_ICMP.0;
            wrong[10..12].fill(0);
            let checksum = crate::packets::reference_checksum(&wrong[..20]);
            wrong[10..12].copy_from_slice(&checksum.to_be_bytes());
            prop_assert!(is_opaque(&parse_theirs(&wrong)));
        }

        // A message with a wrong checksum is passed on but not believed.
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        prop_assert!(is_opaque(&parse_theirs(&bytes)));
    }

    #[test]
    fn what_they_take_for_broken_tcp_we_do_not_take(bytes in vec(any::<u8>(), 0..80)) {
        let mut packet = vec![0x60, 0, 0, 0, 0, bytes.len() as u8, 6, 64];
        packet.extend([0; 32]);
        packet.extend(&bytes);
        let offload = Offload { checksum_verified: true, ..Offload::default() };
        let ours = parse(Datagram { bytes: Payload::copy_of(&packet), offload });
        let theirs = SlicedPacket::from_ip(&packet);
        if theirs.is_err() {
            prop_assert!(ours.is_err());
        }
    }
}
