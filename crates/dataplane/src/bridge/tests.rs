//! What the program at a port takes, of frames that the kernel runs it with. Without the privilege that loading takes, nothing is tried.
use super::program::{HEADER, HEADER_KEY, Maps, STATION, STATION_KEY, Taking, at_device, at_port};
use super::{Config, kept_path};
use shorthaul_os::bpf::{Counters, Program, RecentMap};
use shorthaul_proxy::Gateway;
use std::io;

/// What a program says of a frame that is redirected, and of one that is left to others.
const TAKEN: u32 = 7;
const LEFT: u32 = u32::MAX;

const CLIENT: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SERVER: [u8; 6] = [2, 0, 0, 0, 0, 2];
const BRIDGE: [u8; 6] = [2, 0, 0, 0, 0, 9];

struct Port {
    program: Program,
    _maps: (RecentMap, RecentMap, Counters),
}

/// The program at the port of the access side or of the other one; `None` where it cannot be loaded for want of a privilege.
fn port(is_wan: bool, all: bool) -> Option<Port> {
    let port = if is_wan { Gateway::WAN } else { Gateway::ACCESS };
    let made = || -> io::Result<Port> {
        let headers = RecentMap::create(HEADER_KEY, HEADER, 1_024)?;
        let stations = RecentMap::create(STATION_KEY, STATION, 1_024)?;
        let counters = Counters::create()?;
        let maps = Maps {
            headers: headers.descriptor(),
            stations: stations.descriptor(),
            counters: counters.descriptor(),
        };
        Program::load_for_frames(&at_device(maps, port, 1))?;
        let program =
            Program::load_for_frames(&at_port(maps, Taking { port, device: 1, all, bridge: BRIDGE }))?;
        assert_eq!(counters.get(0), 0);
        Ok(Port { program, _maps: (headers, stations, counters) })
    };
    match made() {
        Ok(port) => Some(port),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
        Err(error) => panic!("{error}"),
    }
}

fn frame(to: [u8; 6], from: [u8; 6], kind: u16, packet: &[u8]) -> Vec<u8> {
    let frame = [&to[..], &from, &kind.to_be_bytes(), packet].concat();
    // Ethernet has no shorter ones.
    [frame, vec![0; 60]].concat()
}

fn v4(protocol: u8, fragment: u16, first: u8) -> Vec<u8> {
    let mut packet = vec![0; 28];
    (packet[0], packet[3], packet[8], packet[9]) = (0x45, 28, 64, protocol);
    packet[6..8].copy_from_slice(&fragment.to_be_bytes());
    packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    packet[20] = first;
    packet
}

fn v6(next: u8, first: u8, prefix: u16) -> Vec<u8> {
    let mut packet = vec![0; 60];
    (packet[0], packet[5], packet[6], packet[7], packet[40]) = (0x60, 20, next, 64, first);
    for (at, last) in [(8, 1), (24, 2)] {
        packet[at..at + 2].copy_from_slice(&prefix.to_be_bytes());
        packet[at + 15] = last;
    }
    packet
}

#[test]
fn a_port_takes_tcp_and_errors_and_leaves_the_rest_to_the_bridge() {
    let (Some(plain), Some(all)) = (port(true, false), port(true, true)) else { return };
    let with_options = {
        let mut packet = v4(1, 0, 0);
        packet.extend([0; 8]);
        (packet[0], packet[3], packet[20], packet[28]) = (0x47, 36, 1, 3);
        packet
    };
    for (what, kind, packet, of_tcp, of_all) in [
        ("TCP", 0x0800, v4(6, 0, 0), TAKEN, TAKEN),
        ("a later fragment of TCP", 0x0800, v4(6, 185, 0), TAKEN, TAKEN),
        ("UDP", 0x0800, v4(17, 0, 0), LEFT, TAKEN),
        ("echo", 0x0800, v4(1, 0, 8), LEFT, TAKEN),
        ("unreachable", 0x0800, v4(1, 0, 3), TAKEN, TAKEN),
        ("unreachable behind options", 0x0800, with_options, TAKEN, TAKEN),
        ("a later fragment of ICMP", 0x0800, v4(1, 185, 3), LEFT, TAKEN),
        ("ARP", 0x0806, v4(6, 0, 0), LEFT, LEFT),
        ("a tag", 0x8100, v4(6, 0, 0), LEFT, LEFT),
        ("PPPoE", 0x8864, v4(6, 0, 0), LEFT, LEFT),
        ("TCP over IPv6", 0x86dd, v6(6, 0, 0xfd00), TAKEN, TAKEN),
        ("UDP over IPv6", 0x86dd, v6(17, 0, 0xfd00), LEFT, TAKEN),
        ("a fragment of TCP over IPv6", 0x86dd, v6(44, 6, 0xfd00), TAKEN, TAKEN),
        ("a fragment of UDP over IPv6", 0x86dd, v6(44, 17, 0xfd00), LEFT, TAKEN),
        ("hop-by-hop options", 0x86dd, v6(0, 6, 0xfd00), TAKEN, TAKEN),
        ("too big", 0x86dd, v6(58, 2, 0xfd00), TAKEN, TAKEN),
        ("echo over IPv6", 0x86dd, v6(58, 128, 0xfd00), LEFT, TAKEN),
        ("a neighbour that is asked", 0x86dd, v6(58, 135, 0xfd00), LEFT, LEFT),
        ("TCP between neighbours", 0x86dd, v6(6, 0, 0xfe80), LEFT, LEFT),
    ] {
        let frame = frame(CLIENT, SERVER, kind, &packet);
        assert_eq!(plain.program.run_frame(&frame).unwrap(), of_tcp, "{what}");
        assert_eq!(all.program.run_frame(&frame).unwrap(), of_all, "{what}, of all traffic");
    }
    let tcp = v4(6, 0, 0);
    for (what, to) in [("all", [0xff; 6]), ("some", [1, 0, 0x5e, 0, 0, 1]), ("the host", BRIDGE)] {
        assert_eq!(plain.program.run_frame(&frame(to, SERVER, 0x0800, &tcp)).unwrap(), LEFT, "for {what}");
    }
    for length in 15..34 {
        let cut = &frame(CLIENT, SERVER, 0x0800, &tcp)[..length];
        // Some kernels run no program with a header that is not whole.
        match plain.program.run_frame(cut) {
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{length} bytes"),
            Ok(verdict) => assert_eq!(verdict, LEFT, "{length} bytes"),
        }
    }
}

#[test]
fn what_is_between_two_of_one_side_is_left_to_the_bridge() {
    let Some(port) = port(false, false) else { return };
    let tcp = v4(6, 0, 0);
    let there = frame(SERVER, CLIENT, 0x0800, &tcp);
    let back = frame(CLIENT, SERVER, 0x0800, &tcp);
    assert_eq!(port.program.run_frame(&there).unwrap(), TAKEN, "nobody knows where that is");
    assert_eq!(port.program.run_frame(&back).unwrap(), LEFT, "both are at this side");
    assert_eq!(port.program.run_frame(&there).unwrap(), LEFT, "both are at this side");
}

#[test]
fn headers_are_kept_where_bpffs_takes_the_name() {
    let config = Config { run_dir: "/run/my.shorthaul".into(), ..Config::default() };
    assert_eq!(kept_path(&config), std::path::Path::new("/sys/fs/bpf/shorthaul/run-my_shorthaul-gw"));
}
