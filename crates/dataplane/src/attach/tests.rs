//! What the programs at an access interface take, of frames that the kernel runs them with. Without the privilege that loading takes,
//! nothing is tried.
use super::program::{Devices, Maps, REMEMBERED, coming_in, leaving, own, to_access, to_the_host};
use crate::bridge::program::HEADER_KEY;
use shorthaul_os::bpf::{AddressSet, Counters, Program, RecentMap};
use std::io;
use std::net::IpAddr;

/// What a program says of a frame that is redirected, and of one that is left to others.
const TAKEN: u32 = 7;
const LEFT: u32 = u32::MAX;

struct Interface {
    coming_in: Program,
    leaving: [Program; 2],
    _maps: (RecentMap, AddressSet, Counters),
}

/// The programs of an interface whose host has the addresses `local`.
fn interface(local: &[IpAddr]) -> Option<Interface> {
    let made = || -> io::Result<Interface> {
        let headers = RecentMap::create(HEADER_KEY, REMEMBERED, 1_024)?;
        let set = AddressSet::create()?;
        set.set(local);
        let counters = Counters::create()?;
        let maps =
            Maps { headers: headers.descriptor(), local: set.descriptor(), counters: counters.descriptor() };
        let devices = Devices { access: 1, wan: 1 };
        for program in [own(), to_access(maps), to_the_host(maps)] {
            Program::load_for_frames(&program)?;
        }
        // Test runs come in by the loopback interface, 1: another is meant.
        let load =
            |all| Program::load_for_frames(&leaving(maps, 2, Devices { access: 3, wan: 1 }, &[2], all));
        Ok(Interface {
            coming_in: Program::load_for_frames(&coming_in(maps, 2, devices))?,
            leaving: [load(false)?, load(true)?],
            _maps: (headers, set, counters),
        })
    };
    match made() {
        Ok(made) => Some(made),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
        Err(error) => panic!("{error}"),
    }
}

fn frame(kind: u16, packet: &[u8]) -> Vec<u8> {
    // Test runs are of the loopback interface: what is for its hardware address is for this host.
    [&[0; 6][..], &[2, 0, 0, 0, 0, 1], &kind.to_be_bytes(), packet, &[0; 60]].concat()
}

fn v4(protocol: u8, first: u8, [from, to]: [u8; 2]) -> Vec<u8> {
    let mut packet = vec![0; 28];
    (packet[0], packet[3], packet[8], packet[9]) = (0x45, 28, 64, protocol);
    packet[12..20].copy_from_slice(&[10, 0, 0, from, 10, 0, 0, to]);
    packet[20] = first;
    packet
}

fn v6(next: u8, first: u8, [from, to]: [u8; 2]) -> Vec<u8> {
    let mut packet = vec![0; 60];
    (packet[0], packet[5], packet[6], packet[7], packet[40]) = (0x60, 20, next, 64, first);
    for (at, last) in [(8, from), (24, to)] {
        (packet[at], packet[at + 15]) = (0xfd, last);
    }
    packet
}

#[test]
fn what_is_the_hosts_own_passes_and_what_is_for_others_is_taken() {
    let local = [IpAddr::from([10, 0, 0, 9]), IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 9])];
    let Some(interface) = interface(&local) else { return };
    // The host is 9. What comes in; what leaves; what leaves where all is taken.
    for (what, kind, packet, expected) in [
        ("TCP", 0x0800, v4(6, 0, [1, 2]), [TAKEN; 3]),
        ("TCP for the host", 0x0800, v4(6, 0, [1, 9]), [LEFT, TAKEN, TAKEN]),
        ("TCP of the host", 0x0800, v4(6, 0, [9, 1]), [TAKEN, LEFT, LEFT]),
        ("UDP", 0x0800, v4(17, 0, [1, 2]), [LEFT, LEFT, TAKEN]),
        ("UDP of the host", 0x0800, v4(17, 0, [9, 1]), [LEFT; 3]),
        ("an error of the host", 0x0800, v4(1, 3, [9, 1]), [TAKEN; 3]),
        ("an echo of the host", 0x0800, v4(1, 0, [9, 1]), [LEFT; 3]),
        ("an error for the host", 0x0800, v4(1, 3, [1, 9]), [LEFT, TAKEN, TAKEN]),
        ("TCP over IPv6", 0x86dd, v6(6, 0, [1, 2]), [TAKEN; 3]),
        ("TCP over IPv6 for the host", 0x86dd, v6(6, 0, [1, 9]), [LEFT, TAKEN, TAKEN]),
        ("TCP over IPv6 of the host", 0x86dd, v6(6, 0, [9, 1]), [TAKEN, LEFT, LEFT]),
        ("an error of the host over IPv6", 0x86dd, v6(58, 2, [9, 1]), [TAKEN; 3]),
        ("an echo of the host over IPv6", 0x86dd, v6(58, 129, [9, 1]), [LEFT; 3]),
        ("a neighbour that is asked", 0x86dd, v6(58, 135, [1, 2]), [LEFT; 3]),
        ("ARP", 0x0806, v4(6, 0, [1, 2]), [LEFT; 3]),
        ("a tag", 0x8100, v4(6, 0, [1, 2]), [LEFT; 3]),
    ] {
        let frame = frame(kind, &packet);
        let Interface { coming_in, leaving: [plain, all], .. } = &interface;
        let seen = [coming_in, plain, all].map(|program| program.run_frame(&frame).unwrap());
        assert_eq!(seen, expected, "{what}");
    }
    let tcp = v4(6, 0, [1, 2]);
    for to in [[0xff; 6], [1, 0, 0x5e, 0, 0, 1], [2, 0, 0, 0, 0, 7]] {
        let mut frame = frame(0x0800, &tcp);
        frame[..6].copy_from_slice(&to);
        assert_eq!(interface.coming_in.run_frame(&frame).unwrap(), LEFT, "for {to:?}");
    }
}
