//! The laws of the internet checksum.
use crate::packets::reference_checksum;
use proptest::collection::vec;
use proptest::prelude::*;
use shorthaul_wire::checksum::{FieldChange, Sum, finish_partial, of, updated};
use shorthaul_wire::{ChecksumMode, Packet, PartialChecksum, Payload, Transport, UdpHeader, to_datagram};

proptest! {
    #[test]
    fn a_udp_checksum_of_zero_is_sent_as_ones(ip in crate::packets::ip(), ports: (u16, u16)) {
        let checksum = |payload: [u8; 2]| {
            let header = UdpHeader { src_port: ports.0, dst_port: ports.1 };
            let transport = Transport::Udp { header, payload: Payload::copy_of(&payload) };
            let datagram = to_datagram(&Packet { ip, transport, original: None }, ChecksumMode::Full);
            let field = ip.len() + 6;
            [datagram.bytes.as_slice()[field], datagram.bytes.as_slice()[field + 1]]
        };
        // A payload of what the checksum would be without it makes all add up to zero.
        prop_assert_eq!(checksum(checksum([0, 0])), [0xff, 0xff]);
    }

    #[test]
    fn it_is_that_of_rfc_1071(bytes in vec(any::<u8>(), 0..3000)) {
        prop_assert_eq!(of(&bytes), reference_checksum(&bytes));
    }

    #[test]
    fn it_does_not_depend_on_how_the_bytes_are_cut(bytes in vec(any::<u8>(), 0..3000), cuts in vec(0usize..3000, 0..8)) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let mut sum = Sum::new();
        for cut in cuts.windows(2) {
            sum.add(&bytes[cut[0]..cut[1]]);
        }
        prop_assert_eq!(sum.checksum(), of(&bytes));
    }

    #[test]
    fn bytes_with_their_checksum_add_up_to_zero(mut bytes in vec(any::<u8>(), 2..3000)) {
        bytes[..2].fill(0);
        let checksum = of(&bytes);
        bytes[..2].copy_from_slice(&checksum.to_be_bytes());
        prop_assert_eq!(of(&bytes), 0);
    }

    #[test]
    fn an_update_is_as_good_as_a_new_one(mut bytes in vec(any::<u8>(), 4..200), word in 1usize..100, to: u16) {
        bytes[0] |= 1; // what is all zero has two checksums, but no header is
        let at = 2 * word.min(bytes.len() / 2 - 1);
        let before = of(&bytes);
        let from = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        bytes[at..at + 2].copy_from_slice(&to.to_be_bytes());
        prop_assert_eq!(updated(before, FieldChange { from, to }), of(&bytes));
    }

    #[test]
    fn a_partial_checksum_is_finished_or_nothing_is_touched(
        mut bytes in vec(any::<u8>(), 0..300),
        start in 0u16..400,
        offset in 0u16..400,
    ) {
        let before = bytes.clone();
        let (from, field) = (usize::from(start), usize::from(start + offset));
        let within = field + 2 <= bytes.len();
        prop_assert_eq!(finish_partial(&mut bytes, PartialChecksum { start, offset }), within);
        if within {
            let mut checksum = reference_checksum(&before[from..]);
            if checksum == 0 && offset == 6 {
                checksum = 0xffff;
            }
            prop_assert_eq!(&bytes[field..field + 2], checksum.to_be_bytes());
            bytes[field..field + 2].copy_from_slice(&before[field..field + 2]);
        }
        prop_assert_eq!(bytes, before);
    }
}

#[test]
fn long_runs_of_ones_do_not_overflow() {
    let ones = vec![0xff; 1 << 17];
    let mut sum = Sum::new();
    for _ in 0..64 {
        sum.add(&ones);
    }
    assert_eq!(sum.checksum(), 0);
}

#[test]
fn only_udp_has_a_second_zero() {
    for (offset, checksum) in [(4, [0, 0]), (6, [0xff, 0xff])] {
        let mut bytes = [0xff, 0xff, 0, 0, 0, 0, 0, 0];
        assert!(finish_partial(&mut bytes, PartialChecksum { start: 0, offset }));
        assert_eq!(bytes[usize::from(offset)..][..2], checksum);
    }
}
