//! What the programs at an access interface take, of frames that the kernel runs them with. Without the privilege that loading takes,
//! nothing is tried.
use super::program::{Devices, coming_in, leaving, own, to_access, to_the_host};
use super::unfit::MOST;
use super::watch::Answer::{self, Accepted, At, Refused};
use super::whereabouts::Question;
use super::{AttachError, Made};
use crate::bridge::program::{HEADER_KEY, SOURCE_ELSEWHERE};
use shorthaul_os::bpf::{Program, RecentMap};
use shorthaul_os::netlink::links::Interface;
use std::io;
use std::net::IpAddr;

/// What a program says of a frame that is redirected, of one that is dropped, and of one that is left to others.
const TAKEN: u32 = 7;
const DROPPED: u32 = 2;
const LEFT: u32 = u32::MAX;

/// The programs of a router with access interfaces of the indices 2 and more.
struct Router {
    coming_in: Vec<Program>,
    /// At the first one: TCP, and all.
    leaving: [Program; 2],
    to_access: Program,
    to_the_host: Program,
    made: Made,
}

impl Router {
    /// One that has the addresses `local`; none where programs cannot be loaded.
    fn new(interfaces: usize, local: &[IpAddr]) -> Option<Router> {
        let made = || -> Result<Router, AttachError> {
            let refused = |error| AttachError::Refused { step: "a test".into(), error };
            let load = |program: &[_]| Program::load_for_frames(program).map_err(refused);
            let headers = RecentMap::create(HEADER_KEY, super::REMEMBERED, 1_024).map_err(refused)?;
            let made = Made::create(headers, interfaces)?;
            made.told.local.set(local);
            let access: Vec<Interface> =
                (2..).take(interfaces).map(|index| Interface { index, ..Interface::default() }).collect();
            for (interface, number) in access.iter().zip(0..) {
                made.told.there.set(number, interface.index.into());
                made.told.there.set(interfaces + number, 1);
            }
            let (maps, places) = (made.maps(), &made.told.places(&access));
            load(&own())?;
            let devices = Devices { access: 1, wan: 1 };
            let coming_in = |here| load(&coming_in(maps, places, here, devices));
            // Test runs come in by the loopback interface, 1: another is meant.
            let leaving = |all| load(&leaving(maps, places, 0, Devices { access: 99, wan: 1 }, all));
            Ok(Router {
                coming_in: (0..interfaces).map(coming_in).collect::<Result<_, _>>()?,
                leaving: [leaving(false)?, leaving(true)?],
                to_access: load(&to_access(maps, places))?,
                to_the_host: load(&to_the_host(maps, places))?,
                made,
            })
        };
        match made() {
            Ok(made) => Some(made),
            Err(AttachError::Refused { error, .. }) if error.kind() == io::ErrorKind::PermissionDenied => {
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// What becomes of a frame that comes in by an interface, given by its number.
    fn hears(&self, number: usize, frame: &[u8]) -> u32 {
        self.coming_in[number].run_frame(frame).unwrap()
    }

    /// What it wants to know, one question after the other, of each interface.
    fn asks(&mut self) -> Option<(IpAddr, usize, u32)> {
        let count = self.coming_in.len();
        let question = (0..count).find_map(|number| self.made.told.question(number))?;
        Some((question.source, question.place, question.before))
    }

    fn answer(&self, answers: &[(IpAddr, usize, Answer)]) {
        let full =
            |&(source, place, answer)| (Question { source, destination: source, place, before: 0 }, answer);
        let answers: Vec<_> = answers.iter().map(full).collect();
        (0..self.coming_in.len()).for_each(|number| self.made.told.answer(number, answers.iter()));
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
    let Some(router) = Router::new(1, &local) else { return };
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
        // What was heard before has no part in it.
        let Router { coming_in, leaving: [plain, all], .. } = &Router::new(1, &local).unwrap();
        let seen = [&coming_in[0], plain, all].map(|program| program.run_frame(&frame).unwrap());
        assert_eq!(seen, expected, "{what}");
    }
    let tcp = v4(6, 0, [1, 2]);
    for to in [[0xff; 6], [1, 0, 0x5e, 0, 0, 1], [2, 0, 0, 0, 0, 7]] {
        let mut frame = frame(0x0800, &tcp);
        frame[..6].copy_from_slice(&to);
        assert_eq!(router.hears(0, &frame), LEFT, "for {to:?}");
    }
}

/// A packet without an Ethernet header, from 8.0.0.`from` to 10.0.0.`to`: that address says `IPv4` where test runs look for what a frame carries.
fn written(from: u8, to: u8) -> Vec<u8> {
    let mut packet = [v4(6, 0, [0, to]), vec![0; 40]].concat();
    packet[12..16].copy_from_slice(&[8, 0, 0, from]);
    packet
}

const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

#[test]
fn a_host_that_is_heard_elsewhere_is_taken_where_the_routes_lead_to_it() {
    let Some(mut router) = Router::new(2, &[]) else { return };
    let tcp = frame(0x0800, &v4(6, 0, [1, 2]));
    assert_eq!(router.hears(0, &tcp), TAKEN, "nobody has heard it elsewhere");
    assert_eq!(router.asks(), Some((CLIENT, 0, 2)));
    router.answer(&[(CLIENT, 0, At)]);
    assert_eq!(router.hears(0, &tcp), TAKEN);
    router.answer(&[]);
    assert_eq!(router.hears(0, &tcp), TAKEN);
    assert_eq!(router.asks(), None);
    // Whether it has moved is not known yet.
    assert_eq!(router.hears(1, &tcp), DROPPED);
    assert_eq!(router.asks(), Some((CLIENT, 1, 2)));
    assert_eq!(router.hears(0, &tcp), TAKEN, "it may still be there");
    router.answer(&[(CLIENT, 1, Refused)]);
    assert_eq!(router.hears(1, &tcp), DROPPED);
    router.answer(&[(CLIENT, 1, Accepted)]);
    assert_eq!([router.hears(1, &tcp), router.hears(0, &tcp)], [TAKEN; 2], "it may speak at both");
    assert_eq!(router.asks(), None);
    router.answer(&[(CLIENT, 1, At)]);
    assert_eq!(router.hears(1, &tcp), TAKEN);
    assert_eq!(router.hears(0, &tcp), DROPPED, "it has moved");
    assert_eq!(router.asks(), Some((CLIENT, 0, 3)));
    assert_eq!(router.made.counters.get(SOURCE_ELSEWHERE), 3);
    router.made.told.there.set(2, 0);
    assert_eq!(router.hears(0, &tcp), TAKEN, "`rp_filter` is not strict there");
    assert_eq!(router.asks(), Some((CLIENT, 0, 3)));
    // There is no `rp_filter` for IPv6.
    let tcp = frame(0x86dd, &v6(6, 0, [1, 2]));
    assert_eq!([0, 1].map(|number| router.hears(number, &tcp)), [TAKEN; 2]);
    let v6 = IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(router.asks(), Some((v6, 1, 2)));
    router.answer(&[(v6, 1, Refused)]);
    assert_eq!(router.hears(1, &tcp), DROPPED);
}

#[test]
fn nobody_on_the_access_side_speaks_for_a_server_beyond() {
    for interfaces in [1, 2] {
        let Some(mut router) = Router::new(interfaces, &[]) else { return };
        let from_server = frame(0x0800, &v4(6, 0, [2, 1]));
        assert_eq!(router.leaving[0].run_frame(&from_server).unwrap(), TAKEN);
        assert_eq!(router.hears(0, &from_server), DROPPED);
        assert_eq!(router.asks(), Some((SERVER, 0, 0)));
        router.answer(&[(SERVER, 0, Refused)]);
        assert_eq!(router.hears(0, &from_server), DROPPED);
        assert_eq!(router.asks(), None);
        assert_eq!(router.hears(0, &frame(0x0800, &v4(6, 0, [1, 2]))), TAKEN, "the client itself");
        assert_eq!(router.asks(), None);
        router.answer(&[(SERVER, 0, Accepted)]);
        assert_eq!(router.hears(0, &from_server), TAKEN, "its way may be another than the way to it");
    }
}

#[test]
fn who_was_not_heard_yet_is_where_the_host_sends_what_is_for_it() {
    let Some(mut router) = Router::new(2, &[]) else { return };
    assert_eq!(router.leaving[0].run_frame(&frame(0x0800, &v4(6, 0, [2, 1]))).unwrap(), TAKEN);
    let tcp = frame(0x0800, &v4(6, 0, [1, 2]));
    assert_eq!(router.hears(1, &tcp), DROPPED);
    assert_eq!(router.asks(), Some((CLIENT, 1, 2)));
    assert_eq!(router.hears(0, &tcp), TAKEN);
    assert_eq!(router.asks(), None);
}

/// Whoever speaks first in a host's name is heard until the kernel says that it is elsewhere, and does not keep it from being heard.
#[test]
fn who_speaks_in_a_name_before_its_host_does_is_not_taken_for_it() {
    let Some(mut router) = Router::new(2, &[]) else { return };
    let tcp = frame(0x0800, &v4(6, 0, [1, 2]));
    assert_eq!([1, 0, 1, 0].map(|number| router.hears(number, &tcp)), [TAKEN; 4]);
    let asked: Vec<_> = std::iter::from_fn(|| router.asks()).collect();
    assert_eq!(asked, [(CLIENT, 0, 2), (CLIENT, 0, 2), (CLIENT, 1, 3), (CLIENT, 1, 3)]);
    router.answer(&[(CLIENT, 0, At), (CLIENT, 1, Refused)]);
    assert_eq!([1, 0].map(|number| router.hears(number, &tcp)), [DROPPED, TAKEN]);
    // Where `rp_filter` is not strict, it is the one who speaks.
    let Some(mut router) = Router::new(2, &[]) else { return };
    router.made.told.there.set(3, 0);
    assert_eq!(router.hears(1, &tcp), TAKEN);
    assert_eq!(router.asks(), None);
}

/// Questions without end at one interface: those of another have room.
#[test]
fn questions_of_one_interface_leave_room_for_anothers() {
    let Some(mut router) = Router::new(2, &[]) else { return };
    let tcp = |from| frame(0x0800, &v4(6, 0, [from, 2]));
    (0..2000).for_each(|_| assert_eq!(router.hears(0, &tcp(7)), TAKEN));
    assert_eq!(router.hears(1, &tcp(1)), TAKEN);
    assert_eq!(router.made.told.question(1).map(|question| question.source), Some(CLIENT));
}

#[test]
fn the_kernel_takes_the_programs_for_as_many_access_interfaces_as_there_may_be() {
    let Some(router) = Router::new(MOST, &[]) else { return };
    assert_eq!(router.hears(MOST - 1, &frame(0x0800, &v4(6, 0, [1, 2]))), TAKEN);
}

#[test]
fn what_is_for_an_interface_that_is_gone_goes_where_the_host_is_or_is_routed() {
    let Some(router) = Router::new(2, &[]) else { return };
    // To and from a client that was heard at the first one.
    let mut toward_client = frame(0x0800, &written(1, 1));
    assert_eq!(router.leaving[0].run_frame(&toward_client).unwrap(), TAKEN);
    toward_client.drain(..14);
    let say = |program: &Program, packet: &[u8]| program.run_frame(packet).unwrap();
    assert_eq!(say(&router.to_access, &toward_client), TAKEN);
    // 8.0.0.1 as a client, 10.0.0.1 as its server.
    assert_eq!(router.hears(0, &frame(0x0800, &written(7, 1))), TAKEN);
    let from_client = written(7, 1);
    assert_eq!(say(&router.to_the_host, &from_client), TAKEN);
    assert_eq!(say(&router.to_the_host, &written(8, 1)), LEFT, "nobody has heard of it");
    router.made.told.there.set(0, 0);
    assert_eq!(say(&router.to_access, &toward_client), LEFT);
    assert_eq!(say(&router.to_the_host, &from_client), LEFT);
    router.answer(&[(CLIENT, 1, At), ([8, 0, 0, 7].into(), 1, At)]);
    assert_eq!(say(&router.to_access, &toward_client), TAKEN);
    assert_eq!(say(&router.to_the_host, &from_client), TAKEN);
}
