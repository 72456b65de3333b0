//! What must hold for any bytes that a device hands over, with whatever it claims about them.

use shorthaul_wire::{
    ChecksumMode, Datagram, Gso, Offload, PartialChecksum, Payload, Transport, cut, parse, pcapng,
    to_datagram,
};
use std::num::NonZeroU16;

/// One input of the fuzzer: a byte of flags and what they call for, then the packet.
#[allow(dead_code)] // not every user of this file starts from raw input
pub fn run(input: &[u8]) {
    let mut rest = input;
    let mut field = || {
        let (field, behind) = rest.split_first_chunk::<2>()?;
        rest = behind;
        Some(u16::from_be_bytes(*field))
    };
    let Some(flags) = field() else { return };
    let mut offload = Offload { checksum_verified: flags & 1 != 0, ..Offload::default() };
    if flags & 2 != 0 {
        let (Some(start), Some(offset)) = (field(), field()) else { return };
        offload.partial_checksum = Some(PartialChecksum { start, offset });
    }
    if flags & 4 != 0 {
        let (Some(size), Some(header_len)) = (field(), field()) else { return };
        offload.gso = NonZeroU16::new(size).map(|size| Gso { size, header_len });
    }
    check(&Datagram { bytes: Payload::copy_of(rest), offload });
}

/// Checks that nothing panics, that rejected bytes come back, that what was read can be written and
/// read again, and that cutting loses no byte.
pub fn check(datagram: &Datagram) {
    let bytes = datagram.bytes.as_slice();
    match parse(datagram.clone()) {
        Err(rejected) => assert_eq!(rejected.datagram, *datagram, "rejected bytes were changed"),
        Ok(mut packet) => {
            let original = packet.original.take().expect("a packet that was read has its bytes");
            assert!(bytes.starts_with(original.bytes.as_slice()), "the original is not what came");
            assert_eq!(original.offload, datagram.offload);
            // Canonical options may be longer than those that came.
            const LONGEST: usize = u16::MAX as usize - 40;
            let rewritable = !matches!(packet.transport, Transport::Opaque { .. });
            if rewritable && bytes.len() <= LONGEST {
                let mut written = to_datagram(&packet, ChecksumMode::Full);
                // An ICMP message is passed on as it came, with the checksum that was believed.
                written.offload.checksum_verified = matches!(packet.transport, Transport::IcmpError(_));
                let again = parse(written).expect("what we write is a packet");
                assert_eq!((again.ip, again.transport), (packet.ip, packet.transport));
            }
        }
    }
    for mode in [ChecksumMode::Full, ChecksumMode::Partial] {
        let pieces = cut(datagram, mode);
        // The headers are in every piece, the rest in one of them.
        let count = pieces.len();
        assert!(count > 0, "a datagram was lost");
        let (mut total, mut made, mut header_len) = (0, 0, 0);
        for piece in pieces {
            header_len = piece.header.len();
            total += piece.len();
            made += 1;
        }
        assert_eq!(made, count);
        assert_eq!(total, bytes.len() + (count - 1) * header_len, "bytes were lost or added");
    }
    for record in pcapng::Reader::new(bytes).flatten() {
        assert!(record.bytes.len() <= bytes.len());
    }
}
