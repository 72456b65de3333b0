//! What interceptors do to packets, by the examples of their sources.
use shorthaul_proxy::{
    DelayedDuplicates, Fade, Fda, FreezeTcp, Interceptor, InterceptorKind, Regulated, Side, Snoop,
};
use shorthaul_testkit::packets;
use shorthaul_types::{Bytes, SeqNum, Time};
use shorthaul_wire::{Packet, SackBlock, TcpFlags, TcpHeader, TcpOptions, TcpSegment, Transport};
use std::num::NonZeroU16;
use std::time::Duration;

/// The sequence number of the server's SYN: its stream wraps soon.
const ISN: u32 = u32::MAX - 2_500;
const SERVER: [u8; 4] = [192, 0, 2, 1];
const PHONE: [u8; 4] = [10, 0, 0, 1];
/// Bytes of a segment.
const MSS: u32 = 1000;

/// A connection of which the client is at the access side. Segments are counted from 0.
struct Flow {
    part: Box<dyn Interceptor>,
    now: Time,
}

impl Flow {
    fn new(kind: &dyn InterceptorKind) -> Flow {
        let mut flow = Flow { part: kind.open(Side::Client), now: Time::from_secs(1) };
        let syn = TcpHeader { flags: TcpFlags::SYN, ..TcpHeader::default() };
        let syn_ack = TcpHeader {
            seq: SeqNum(ISN),
            ack: SeqNum(1),
            flags: TcpFlags::SYN | TcpFlags::ACK,
            ..TcpHeader::default()
        };
        for (side, header) in [(Side::Client, syn), (Side::Server, syn_ack)] {
            let packet = Flow::packet(side, TcpSegment { header, ..TcpSegment::default() });
            assert_eq!(flow.part.on_packet(flow.now, side, packet.clone()), Some(packet));
        }
        flow
    }

    fn packet(side: Side, segment: TcpSegment) -> Packet {
        let ip = match side {
            Side::Client => packets::ip(PHONE, SERVER),
            Side::Server => packets::ip(SERVER, PHONE),
        };
        Packet::tcp(ip, segment)
    }

    /// The server sends `count` segments from `first` on in one packet; whether it passes.
    fn sends(&mut self, first: u32, count: u32) -> bool {
        let header = TcpHeader {
            seq: SeqNum(ISN.wrapping_add(1 + first * MSS)),
            ack: SeqNum(1),
            flags: TcpFlags::ACK | TcpFlags::PSH,
            ..TcpHeader::default()
        };
        let gso_size = NonZeroU16::new(MSS as u16).filter(|_| count > 1);
        let payload = packets::filler((count * MSS) as usize);
        let packet = Flow::packet(Side::Server, TcpSegment { header, payload, gso_size });
        match self.part.on_packet(self.now, Side::Server, packet.clone()) {
            None => false,
            Some(passed) => {
                assert_eq!(passed, packet, "nothing of it changes");
                true
            }
        }
    }

    /// The client has everything below segment `next`, and from `sacked` on what the range says; what passes.
    fn acknowledges(&mut self, next: u32, sacked: &[(u32, u32)]) -> Option<Packet> {
        let seq = |segment: u32| SeqNum(ISN.wrapping_add(1 + segment * MSS));
        let sack = sacked.iter().map(|(left, right)| SackBlock { left: seq(*left), right: seq(*right) });
        let header = TcpHeader {
            seq: SeqNum(1),
            ack: seq(next),
            flags: TcpFlags::ACK,
            window: 500,
            options: TcpOptions { sack: sack.collect(), ..TcpOptions::default() },
            ..TcpHeader::default()
        };
        let packet = Flow::packet(Side::Client, TcpSegment { header, ..TcpSegment::default() });
        self.part.on_packet(self.now, Side::Client, packet)
    }

    /// The segments that are put in now, toward the client.
    fn repaired(&mut self) -> Vec<u32> {
        let mut repaired = Vec::new();
        while let Some((side, packet)) = self.part.poll_packet(self.now) {
            let Transport::Tcp(segment) = packet.transport else { panic!("{packet:?}") };
            assert_eq!((side, segment.payload.len(), segment.gso_size), (Side::Client, MSS as usize, None));
            repaired.push(segment.header.seq.0.wrapping_sub(ISN.wrapping_add(1)) / MSS);
        }
        repaired
    }

    /// The time passes to the next timer; which one it is.
    fn waits(&mut self) -> &'static str {
        let deadline = self.part.poll_timeout().expect("a timer runs");
        self.now = self.now.max(deadline.at);
        deadline.timer
    }
}

fn snoop() -> Flow {
    Flow::new(&Snoop::default())
}

/// Segments 0 to 5 pass; 1 is lost behind the gateway, and 0 is acknowledged after 20 ms.
fn with_a_loss() -> Flow {
    let mut flow = snoop();
    assert!((0..6).all(|segment| flow.sends(segment, 1)));
    flow.now += Duration::from_millis(20);
    assert!(flow.acknowledges(1, &[]).is_some());
    flow
}

#[test]
fn the_first_duplicate_repairs_and_those_that_were_expected_are_dropped() {
    let mut flow = with_a_loss();
    assert_eq!(flow.acknowledges(1, &[]), None);
    assert_eq!(flow.repaired(), [1]);
    // Four segments were behind it: 2 to 5. One has brought its duplicate, but we do not know which.
    for _ in 0..4 {
        assert_eq!(flow.acknowledges(1, &[]), None);
        assert!(flow.repaired().is_empty());
    }
    // One more than that: what was put in is lost, too.
    assert_eq!(flow.acknowledges(1, &[]), None);
    assert_eq!(flow.repaired(), [1]);
    assert!(flow.acknowledges(6, &[]).is_some());
    assert_eq!((flow.part.memory(), flow.part.poll_timeout()), (0, None));
}

#[test]
fn a_receiver_that_says_what_it_has_is_believed() {
    let mut flow = with_a_loss();
    // 3 is lost, too. 2 and 4 have come; the duplicate of 5 is to come.
    assert_eq!(flow.acknowledges(1, &[(2, 3)]), None);
    assert_eq!(flow.repaired(), [1]);
    assert_eq!(flow.acknowledges(1, &[(4, 5), (2, 3)]), None);
    let passed = flow.acknowledges(3, &[(4, 5)]).expect("it is new");
    assert!(passed.as_tcp().unwrap().header.options.sack.is_empty(), "the sender is not to repair it");
    assert_eq!(flow.repaired(), [3], "without a duplicate");
    assert_eq!(flow.acknowledges(3, &[(4, 6)]), None);
    assert!(flow.repaired().is_empty(), "it was expected");
    assert!(flow.acknowledges(6, &[]).is_some());
    // What came twice is because of us, or not.
    assert_eq!(flow.acknowledges(6, &[(3, 4)]), None);
    assert!(flow.acknowledges(6, &[(5, 6)]).is_some());
}

#[test]
fn what_was_lost_before_the_gateway_is_for_the_sender_to_repair() {
    let mut flow = snoop();
    assert!([0, 1, 3, 4].into_iter().all(|segment| flow.sends(segment, 1)));
    assert!(flow.acknowledges(2, &[]).is_some());
    assert!((0..3).all(|_| flow.acknowledges(2, &[]).is_some()));
    assert_eq!(flow.part.poll_timeout(), None, "it is not here");
    assert!(flow.sends(2, 1));
    // The sender has reduced its window already, and what is lost of its repair is for it, too.
    assert!(flow.acknowledges(2, &[]).is_some());
    assert!(flow.repaired().is_empty() && flow.part.poll_timeout().is_none());
    assert!(flow.acknowledges(5, &[]).is_some());
    assert_eq!(flow.part.memory(), 0);
}

#[test]
fn a_sender_that_repairs_by_itself_is_left_to_it() {
    let mut flow = with_a_loss();
    assert!(flow.sends(1, 1));
    assert!(flow.acknowledges(1, &[]).is_some());
    assert!(flow.repaired().is_empty() && flow.part.poll_timeout().is_none());
}

#[test]
fn what_the_receiver_has_is_answered_in_its_place_but_not_for_ever() {
    let mut flow = with_a_loss();
    let answer = flow.acknowledges(6, &[]).expect("it is new");
    for _ in 0..3 {
        assert!(!flow.sends(4, 1));
        assert_eq!(flow.part.poll_packet(flow.now), Some((Side::Server, answer.clone())));
        assert_eq!(flow.part.poll_packet(flow.now), None);
    }
    assert!(flow.sends(4, 1), "the sender did not believe it");
}

#[test]
fn timers_repair_what_no_duplicate_tells_of() {
    // The tail is lost: nothing comes from either side.
    let mut flow = snoop();
    assert!(flow.sends(0, 2));
    let sent = flow.now;
    assert_eq!(
        (flow.waits(), flow.now.saturating_since(sent)),
        ("snoop-persist", Duration::from_millis(200))
    );
    assert_eq!(flow.repaired(), [0]);
    // A repair is lost: the round trip was 20 ms.
    let mut flow = with_a_loss();
    assert_eq!(flow.acknowledges(1, &[]), None);
    assert_eq!(flow.repaired(), [1]);
    let sent = flow.now;
    assert_eq!(flow.waits(), "snoop-rtt");
    assert!(
        (20..200).contains(&flow.now.saturating_since(sent).as_millis()),
        "{:?}",
        flow.now.saturating_since(sent)
    );
    assert_eq!(flow.repaired(), [1]);
    // Nobody is there: it is left to the sender.
    let mut last = flow.now.saturating_since(sent);
    for _ in 1..8 {
        let before = flow.now;
        flow.waits();
        assert_eq!(flow.repaired(), [1]);
        assert!(flow.now.saturating_since(before) >= last, "each waits longer");
        last = flow.now.saturating_since(before);
    }
    assert_eq!(flow.part.poll_timeout(), None);
}

#[test]
fn of_a_super_segment_what_is_lost_is_sent_again() {
    let mut flow = snoop();
    assert!(flow.sends(0, 5));
    assert!(flow.acknowledges(2, &[]).is_some());
    assert_eq!(flow.acknowledges(2, &[(3, 5)]), None);
    assert_eq!(flow.repaired(), [2]);
    assert!(flow.acknowledges(5, &[]).is_some());
    assert_eq!(flow.part.memory(), 0);
}

#[test]
fn what_is_kept_is_bounded_and_can_be_given_back() {
    let mut flow = Flow::new(&Snoop { cache: Bytes(10_000) });
    assert!((0..50).all(|segment| flow.sends(segment, 1)));
    let kept = flow.part.memory();
    assert!((MSS as usize * 3..=10_000).contains(&kept), "{kept} bytes");
    flow.part.forget();
    assert_eq!(flow.part.memory(), 0);
    assert!(flow.acknowledges(1, &[]).is_some());
    assert!(flow.acknowledges(1, &[]).is_some(), "a duplicate passes: nothing is here to repair");
}

#[test]
fn the_third_duplicate_waits_for_the_link_to_repair_the_loss() {
    let mut flow = Flow::new(&DelayedDuplicates { delay: Duration::from_millis(50) });
    assert!((0..8).all(|segment| flow.sends(segment, 1)));
    assert!((0..3).all(|_| flow.acknowledges(1, &[]).is_some()), "a new one, and two duplicates");
    let first = flow.now;
    assert_eq!(flow.acknowledges(1, &[]), None);
    flow.now += Duration::from_millis(10);
    assert_eq!(flow.acknowledges(1, &[]), None);
    // The link did repair it.
    assert!(flow.acknowledges(6, &[]).is_some());
    assert_eq!(
        (flow.part.poll_timeout(), flow.part.poll_packet(first + Duration::from_secs(1))),
        (None, None)
    );
    // And now it does not.
    assert!((0..2).all(|_| flow.acknowledges(6, &[]).is_some()));
    let first = flow.now;
    assert!((0..3).all(|_| flow.acknowledges(6, &[]).is_none()));
    assert_eq!(flow.part.poll_packet(flow.now), None);
    assert_eq!(
        (flow.waits(), flow.now.saturating_since(first)),
        ("delayed-duplicates", Duration::from_millis(50))
    );
    for _ in 0..3 {
        assert!(matches!(flow.part.poll_packet(flow.now), Some((Side::Server, _))));
    }
    assert_eq!(flow.part.poll_packet(flow.now), None);
}

#[test]
fn what_waits_passes_when_the_gateway_steps_out() {
    let mut flow = Flow::new(&DelayedDuplicates { delay: Duration::from_secs(50) });
    assert!((0..8).all(|segment| flow.sends(segment, 1)));
    let passed = (0..5).filter(|_| flow.acknowledges(1, &[]).is_some()).count();
    flow.part.step_out();
    let put_in = std::iter::from_fn(|| flow.part.poll_packet(flow.now)).count();
    assert_eq!((passed, put_in), (3, 2));
}

#[test]
fn the_regulator_keeps_acknowledgments_until_the_queue_has_room_for_what_they_bring() {
    let mut flow = Flow::new(&Regulated { queue: Bytes(6_000) });
    assert!((0..7).all(|segment| flow.sends(segment, 1)));
    // Six segments are behind us: the queue is full.
    assert_eq!(flow.acknowledges(1, &[]), None);
    assert_eq!(flow.part.poll_packet(flow.now), None);
    // Four are: there is room for what two acknowledged segments bring.
    assert_eq!(flow.acknowledges(3, &[]), None);
    assert_eq!(passed(&mut flow), [1]);
    // All have come: nothing is held back.
    assert_eq!(flow.acknowledges(7, &[]), None);
    assert_eq!(passed(&mut flow), [3, 7]);
}

#[test]
fn a_loss_lets_go_of_what_the_regulator_keeps() {
    let mut flow = Flow::new(&Regulated { queue: Bytes(6_000) });
    assert!((0..7).all(|segment| flow.sends(segment, 1)));
    assert_eq!(flow.acknowledges(1, &[]), None);
    assert_eq!(flow.acknowledges(1, &[]), None);
    assert_eq!(passed(&mut flow), [1, 1]);
    assert!(flow.acknowledges(1, &[]).is_some(), "the next duplicate finds nothing that waits");
}

/// Up to which segments what is put in toward the server acknowledges.
fn passed(flow: &mut Flow) -> Vec<u32> {
    to_server(flow).into_iter().map(|header| header.ack.0.wrapping_sub(ISN.wrapping_add(1)) / MSS).collect()
}

fn to_server(flow: &mut Flow) -> Vec<TcpHeader> {
    let mut headers = Vec::new();
    while let Some((side, packet)) = flow.part.poll_packet(flow.now) {
        let Transport::Tcp(segment) = packet.transport else { panic!("{packet:?}") };
        assert_eq!((side, segment.payload.len()), (Side::Server, 0));
        headers.push(segment.header);
    }
    headers
}

#[test]
fn freeze_tcp_closes_the_window_before_a_fade_and_opens_it_with_three_copies() {
    let fade = Fade { at: Duration::from_secs(3), lasts: Duration::from_secs(2) };
    let mut flow = Flow::new(&FreezeTcp { fades: vec![fade], warning: Duration::from_millis(100) });
    assert_eq!(flow.part.poll_timeout(), None, "nothing has been acknowledged");
    assert!(flow.sends(0, 1));
    assert!(flow.acknowledges(1, &[]).is_some());
    assert_eq!((flow.waits(), flow.now), ("freeze-tcp", Time::from_millis(2900)));
    let windows = |headers: Vec<TcpHeader>| {
        headers
            .iter()
            .map(|header| (header.ack.0.wrapping_sub(ISN.wrapping_add(1)) / MSS, header.window))
            .collect::<Vec<_>>()
    };
    assert_eq!(windows(to_server(&mut flow)), [(1, 0)], "the zero window advertisement");
    // What is acknowledged meanwhile says the same.
    assert!(flow.sends(1, 1));
    let Some(Transport::Tcp(segment)) = flow.acknowledges(2, &[]).map(|packet| packet.transport) else {
        panic!()
    };
    assert_eq!(segment.header.window, 0);
    assert_eq!((flow.waits(), flow.now), ("freeze-tcp", Time::from_secs(5)));
    assert_eq!(windows(to_server(&mut flow)), [(2, 500); 3]);
    assert_eq!(flow.part.poll_timeout(), None, "that was the last fade");
    assert!(flow.acknowledges(3, &[]).is_some());
}

#[test]
fn freeze_tcp_opens_the_window_when_the_gateway_steps_out() {
    let fade = Fade { at: Duration::from_secs(3), lasts: Duration::from_secs(2) };
    let mut flow = Flow::new(&FreezeTcp { fades: vec![fade], warning: Duration::from_millis(100) });
    assert!(flow.acknowledges(1, &[]).is_some());
    flow.waits();
    assert_eq!(to_server(&mut flow).len(), 1);
    flow.part.step_out();
    assert_eq!(to_server(&mut flow).iter().map(|header| header.window).collect::<Vec<_>>(), [500; 3]);
    assert_eq!(flow.part.poll_timeout(), None);
}

/// Six segments pass before the first is acknowledged, and one after it: more waits than four.
fn signalled() -> Flow {
    let mut flow = Flow::new(&Fda { queue: Bytes(4_000) });
    assert!((0..6).all(|segment| flow.sends(segment, 1)));
    assert!(to_server(&mut flow).is_empty(), "nothing was acknowledged that could be said again");
    assert!(flow.acknowledges(1, &[]).is_some());
    assert!(flow.sends(6, 1));
    assert_eq!(passed(&mut flow), [1, 1, 1], "three duplicates");
    flow
}

#[test]
fn fda_tells_by_three_duplicates_of_a_queue_that_is_too_long_once_for_what_was_under_way() {
    let mut flow = signalled();
    assert!(flow.sends(7, 1));
    assert!(flow.acknowledges(2, &[]).is_some());
    assert!(flow.sends(8, 1));
    assert!(passed(&mut flow).is_empty(), "what was under way then is not acknowledged");
    assert!(flow.acknowledges(7, &[]).is_some());
    assert!(flow.sends(9, 2));
    assert!(passed(&mut flow).is_empty(), "four wait");
    assert!(flow.sends(11, 1));
    assert_eq!(passed(&mut flow), [7, 7, 7]);
}

#[test]
fn fda_keeps_what_the_sender_repeats_for_it_but_not_twice() {
    let mut flow = signalled();
    assert!(!flow.sends(1, 1), "it has passed here");
    assert!(flow.acknowledges(2, &[]).is_some());
    assert!(!flow.sends(2, 1), "NewReno repeats the next with each acknowledgment");
    assert!(flow.sends(2, 1), "it is lost indeed");
    assert!(flow.sends(1, 1), "what is acknowledged is the receiver's to answer");
    assert!(flow.sends(7, 1), "that is new");
}

#[test]
fn fda_lets_pass_what_was_lost_before_it() {
    let mut flow = Flow::new(&Fda { queue: Bytes(4_000) });
    assert!(flow.sends(0, 1) && flow.acknowledges(1, &[]).is_some());
    assert!([1, 3, 4, 5, 6].into_iter().all(|segment| flow.sends(segment, 1)));
    assert_eq!(passed(&mut flow), [1, 1, 1]);
    assert!(!flow.sends(1, 1));
    assert!(flow.sends(2, 1), "it has not been here");
    assert!(flow.sends(3, 1), "behind a hole nobody knows what came");
}

#[test]
fn fda_takes_selective_acknowledgments_out_of_the_handshake() {
    let mut part = Fda { queue: Bytes(4_000) }.open(Side::Client);
    for (side, flags) in [(Side::Client, TcpFlags::SYN), (Side::Server, TcpFlags::SYN | TcpFlags::ACK)] {
        let options = TcpOptions { sack_permitted: true, mss: Some(1000), ..TcpOptions::default() };
        let header = TcpHeader { flags, options, ..TcpHeader::default() };
        let syn = Flow::packet(side, TcpSegment { header, ..TcpSegment::default() });
        let passed = part.on_packet(Time::ZERO, side, syn).unwrap();
        let options = &passed.as_tcp().unwrap().header.options;
        assert_eq!((options.sack_permitted, options.mss), (false, Some(1000)));
    }
}

#[test]
fn fda_says_nothing_any_more_when_the_gateway_steps_out() {
    let mut flow = signalled();
    flow.part.step_out();
    assert!(flow.acknowledges(7, &[]).is_some());
    assert!((7..20).all(|segment| flow.sends(segment, 1)));
    assert!(flow.sends(7, 1) && passed(&mut flow).is_empty());
}
