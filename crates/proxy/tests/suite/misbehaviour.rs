//! An end that keeps to TCP in form only: it acknowledges too much, too finely or takes it back, plays with its clock and its window, or
//! somebody forges errors and resets in another's name. What the gateway makes of it is what the RFCs ask of any sender and receiver.
use crate::by_hand::{MSS, Subject, WINDOW_UNIT, segment};
use shorthaul_proxy::{AggregateConfig, Delivered, Gateway, GatewayConfig, LegInfo, Policy, SenderControl};
use shorthaul_testkit::packets::ip;
use shorthaul_types::{FlowKey, SeqNum};
use shorthaul_wire::{
    IcmpError, IcmpErrorKind, IpHeader, Packet, Payload, SackBlock, TcpFlags, TcpHeader, TcpOptions,
    TcpSegment, Timestamps, Transport, TxBatch,
};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

const CLIENT: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 1), 5000);
const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 80);
/// Where the ends' sequence numbers begin.
const ISN: u32 = 100;
/// The client's clock, and the server's, at the handshake.
const CLOCKS: [u32; 2] = [1_000, 500_000];

/// A connection through a gateway, and what came out toward each end.
struct World {
    subject: Subject,
    /// What the client has been sent: its bytes by offset of the server's stream, as they came first.
    came: BTreeMap<u32, u8>,
    /// Every segment that came out since the last look: toward the client?
    out: Vec<(bool, TcpSegment)>,
}

/// What a segment says beside its place.
#[derive(Clone, Copy)]
struct Said {
    flags: TcpFlags,
    /// In units of [`WINDOW_UNIT`].
    window: u16,
    stamps: Option<(u32, u32)>,
    content: u8,
}

const ACK: Said = Said { flags: TcpFlags::ACK, window: 200, stamps: None, content: 7 };

impl World {
    /// A connection that is open, with timestamps where that is said.
    fn open(timestamps: bool) -> World {
        World::open_by(GatewayConfig::default(), timestamps)
    }

    /// The same by another gateway.
    fn open_by(config: GatewayConfig, timestamps: bool) -> World {
        let mut world = World { subject: Subject::new(config), came: BTreeMap::new(), out: Vec::new() };
        let stamps = |val, ecr| timestamps.then_some((val, ecr));
        let syn = Said { flags: TcpFlags::SYN, stamps: stamps(CLOCKS[0], 0), ..ACK };
        world.says(true, 0, 0, 0, syn, &[]);
        world.wait(20);
        let syn_ack =
            Said { flags: TcpFlags::SYN | TcpFlags::ACK, stamps: stamps(CLOCKS[1], CLOCKS[0]), ..ACK };
        world.says(false, 0, 1, 0, syn_ack, &[]);
        world.wait(20);
        world.says(true, 1, 1, 0, Said { stamps: stamps(CLOCKS[0] + 20, CLOCKS[1]), ..ACK }, &[]);
        assert_eq!(world.subject.gateway.counters().flows_split, 1);
        world.out.clear();
        world
    }

    /// A segment of the client (`up`) or of the server.
    fn says(&mut self, up: bool, seq: u32, ack: u32, bytes: u32, said: Said, sack: &[(u32, u32)]) {
        let of = |&(left, right): &(u32, u32)| SackBlock { left: SeqNum(left), right: SeqNum(right) };
        let options = TcpOptions {
            timestamps: said.stamps.map(|(val, ecr)| Timestamps { val, ecr }),
            sack: sack.iter().map(of).collect(),
            ..TcpOptions::default()
        };
        let Said { flags, window, content, .. } = said;
        let (seq, ack) = (SeqNum(seq), SeqNum(ack));
        let header = TcpHeader { seq, ack, flags, window, options, ..TcpHeader::default() };
        let ends = [CLIENT, SERVER].map(SocketAddr::from);
        let out = self.subject.takes(up, segment(ends, up, ISN, header, &vec![content; bytes as usize]));
        self.note(out);
    }

    /// The server sends so many segments of its stream, from `at` on.
    fn serves(&mut self, at: u32, segments: u32) {
        for number in 0..segments {
            self.says(false, at + number * MSS, 1, MSS, ACK, &[]);
        }
    }

    fn note(&mut self, out: TxBatch) {
        for (port, packet) in out {
            let Some(segment) = packet.as_tcp() else { continue };
            let down = port == Gateway::ACCESS;
            if down && !segment.header.flags.contains(TcpFlags::SYN) {
                let mut bytes = vec![0; segment.payload.len()];
                segment.payload.copy_to(&mut bytes);
                let at = segment.header.seq.0.wrapping_sub(ISN);
                for (offset, byte) in (at..).zip(bytes) {
                    let first = *self.came.entry(offset).or_insert(byte);
                    assert_eq!(first, byte, "at {offset} came another byte than before");
                }
            }
            self.out.push((down, segment.clone()));
        }
    }

    /// So many milliseconds pass.
    fn wait(&mut self, millis: u64) {
        let out = self.subject.wait(Duration::from_millis(millis));
        self.note(out);
    }

    /// What the gateway knows of what it sends to the client.
    fn leg(&self) -> LegInfo {
        let flow = self.subject.gateway.flows().next().expect("the flow is known");
        let [_, to_client] = flow.legs.expect("it is split");
        to_client
    }

    /// Up to where the client has been sent bytes.
    fn sent(&self) -> u32 {
        self.came.keys().next_back().map_or(1, |last| last + 1)
    }

    /// The packets that came out toward the client since the last call, with bytes and without.
    fn toward_client(&mut self) -> (usize, usize) {
        let out = std::mem::take(&mut self.out);
        let (full, empty): (Vec<_>, Vec<_>) =
            out.into_iter().filter(|(down, _)| *down).partition(|(_, segment)| !segment.payload.is_empty());
        (full.len(), empty.len())
    }

    /// A router says that something toward the client cannot be delivered.
    fn router(&mut self, kind: IcmpErrorKind, seq: u32) {
        let flow = FlowKey { src: SocketAddr::from(SERVER), dst: SocketAddr::from(CLIENT) };
        let error = IcmpError { kind, flow, seq: SeqNum(ISN + seq), message: Payload::copy_of(&[3; 36]) };
        let ip = ip([10, 0, 0, 254], SERVER.0);
        let out =
            self.subject.takes(true, Packet { ip, transport: Transport::IcmpError(error), original: None });
        self.note(out);
    }

    /// The client takes all that comes from now on, until it has the server's stream up to `end`.
    fn takes_all(&mut self, end: u32) {
        for _ in 0..400 {
            if self.leg().delivered >= u64::from(end - 1) {
                break;
            }
            let whole = (1..).take_while(|offset| self.came.contains_key(offset)).count() as u32;
            self.says(true, 1, 1 + whole, 0, ACK, &[]);
            self.wait(20);
        }
        assert_eq!(self.leg().delivered, u64::from(end - 1), "what was sent arrives: {:?}", self.leg());
        let counters = self.subject.gateway.counters();
        assert_eq!((counters.flows_reset, counters.flows_given_up), (0, 0));
    }
}

/// Optimistic acknowledgments (Savage et al., 1999): what was not sent cannot have come (RFC 9293 §3.10.7.4, RFC 5961 §5).
#[test]
fn an_acknowledgment_of_what_was_not_sent_frees_nothing_and_opens_no_window() {
    let mut world = World::open(false);
    world.serves(1, 40);
    let (sent, held) = (world.sent(), world.leg().buffered);
    assert!(sent < 1 + 40 * MSS, "the first window is ten segments: {sent}");
    let before = world.leg();
    for ahead in [1, MSS, 30 * MSS] {
        world.says(true, 1, sent + ahead, 0, ACK, &[]);
    }
    let after = world.leg();
    assert_eq!((after.buffered, after.delivered, after.window), (held, before.delivered, before.window));
    assert!(world.sent() < 1 + 40 * MSS);
    world.takes_all(1 + 40 * MSS);
}

/// ACK division: a window grows by what was acknowledged, however many acknowledgments said so (RFC 3465 §2, RFC 5681 §3.1).
#[test]
fn an_acknowledgment_in_pieces_opens_the_window_no_further() {
    let window = |pieces: u32| {
        let mut world = World::open(false);
        world.serves(1, 40);
        world.wait(20);
        for piece in 1..=pieces {
            world.says(true, 1, 1 + 4 * MSS * piece / pieces, 0, ACK, &[]);
        }
        world.leg().window
    };
    let (whole, divided) = (window(1), window(4 * MSS / 20));
    assert!(divided <= whole, "{divided} bytes instead of {whole}");
    assert!(whole > 10 * u64::from(MSS), "it grew: {whole}");
}

/// Reneging: what was reported and not acknowledged is kept, and sent again after a timeout (RFC 2018 §8).
#[test]
fn what_a_receiver_reported_and_then_forgot_is_sent_again() {
    let aggregate = Some(Arc::new(AggregateConfig::default()));
    for config in [GatewayConfig::default(), GatewayConfig::of(Policy { aggregate, ..Policy::default() })] {
        forgets(World::open_by(config, false));
    }
}

fn forgets(mut world: World) {
    world.serves(1, 10);
    world.wait(20);
    assert_eq!(world.sent(), 1 + 10 * MSS);
    let held = world.leg().buffered;
    world.says(true, 1, 1, 0, ACK, &[(1 + MSS, 1 + 10 * MSS)]);
    assert_eq!(world.leg().buffered, held, "nothing that was only reported is let go");
    // It has all but the first; and now it says that it has none, and takes one after the other.
    world.out.clear();
    let mut have = 1;
    for _ in 0..200 {
        world.wait(100);
        let out = std::mem::take(&mut world.out);
        for (_, segment) in out.iter().filter(|(down, segment)| *down && !segment.payload.is_empty()) {
            let at = segment.header.seq.0.wrapping_sub(ISN);
            let end = at + segment.payload.len() as u32;
            if at <= have && end > have {
                have = end;
            }
        }
        world.says(true, 1, have, 0, ACK, &[]);
    }
    assert_eq!(have, 1 + 10 * MSS, "all came again");
    assert_eq!(world.subject.gateway.counters().flows_given_up, 0);
}

/// Windows that close, shrink and open: nothing beyond the edge leaves, a closed window is asked seldom, and nobody is given up who
/// answers (RFC 9293 §3.8.6, §3.8.6.1).
#[test]
fn a_window_that_shrinks_is_kept_to_and_a_closed_one_is_probed_ever_more_seldom() {
    let mut world = World::open(false);
    world.serves(1, 40);
    world.wait(20);
    // What is on its way is acknowledged, and the window, which was 200 KiB, is none.
    let sent = world.sent();
    world.says(true, 1, sent, 0, Said { window: 0, ..ACK }, &[]);
    world.out.clear();
    let mut probes = 0;
    for _ in 0..600 {
        world.wait(100);
        let out = std::mem::take(&mut world.out);
        for (_, segment) in out.iter().filter(|(down, _)| *down) {
            let end = segment.header.seq.0.wrapping_sub(ISN) + segment.payload.len() as u32;
            assert!(end <= sent + 1, "{end} is beyond the window, {sent}");
            probes += 1;
            world.says(true, 1, sent, 0, Said { window: 0, ..ACK }, &[]);
        }
    }
    assert!((4..=20).contains(&probes), "{probes} probes in a minute");
    // It opens by a segment and closes again, a hundred times.
    for round in 1..=10 {
        let edge = world.sent().max(sent);
        world.says(true, 1, edge, 0, Said { window: 2, ..ACK }, &[]);
        world.wait(50);
        assert!(world.sent() <= edge + 2 * WINDOW_UNIT, "round {round}: {} of {edge}", world.sent());
        let now = world.sent();
        world.says(true, 1, now, 0, Said { window: 0, ..ACK }, &[]);
    }
    world.takes_all(1 + 40 * MSS);
}

/// Segments that disagree: what came first counts, and whatever is sent, also again, is the same (RFC 9293 §3.10.7.4). That no byte
/// changes is checked with every packet that comes out.
#[test]
fn of_segments_that_overlap_with_other_bytes_one_is_chosen_for_good() {
    let other = Said { content: 9, ..ACK };
    let mut world = World::open(false);
    world.serves(1, 1);
    world.says(false, 1, 1, MSS, other, &[]);
    world.says(false, 1 + MSS / 2, 1, MSS, other, &[]);
    // Out of order, twice, and over the edges of what is there.
    world.says(false, 1 + 3 * MSS, 1, MSS, ACK, &[]);
    world.says(false, 1 + 3 * MSS, 1, MSS, other, &[]);
    world.says(false, 1 + 3 * MSS - 100, 1, MSS, Said { content: 11, ..ACK }, &[]);
    world.says(false, 1 + 3 * MSS + 100, 1, MSS, Said { content: 12, ..ACK }, &[]);
    world.says(false, 1, 1, 3 * MSS, Said { content: 13, ..ACK }, &[]);
    let end = 1 + 4 * MSS + 100;
    world.wait(5_000); // nothing is acknowledged: all is sent again
    assert!(world.leg().retransmitted > 0);
    world.takes_all(end);
    assert_eq!((world.came[&1], world.came[&(1 + MSS - 1)]), (7, 7), "what had left before stays");
}

/// Timestamp games: an echo of what was never sent is no round trip (RFC 7323 §4.1, RFC 8961 §4), and a clock far ahead that stands
/// beyond the window shuts nobody out (RFC 7323 §5.3: the sequence number is looked at before TS.Recent is set).
#[test]
fn forged_clocks_neither_measure_nor_shut_out() {
    let mut world = World::open(true);
    let server = |clock: u32| Said { stamps: Some((CLOCKS[1] + clock, CLOCKS[0] + 20)), ..ACK };
    for number in 0..10 {
        world.says(false, 1 + number * MSS, 1, MSS, server(30), &[]);
    }
    world.wait(20);
    // Echoes of the past and of the future, with acknowledgments that are right.
    for (number, echo) in [0, 1, CLOCKS[1] - 100_000, u32::MAX, CLOCKS[1] + (1 << 30)].into_iter().enumerate()
    {
        let ack = 1 + (number as u32 + 1) * MSS;
        let stamps = Some((CLOCKS[0] + 40, echo));
        world.says(true, 1, ack, 0, Said { stamps, ..ACK }, &[]);
    }
    let srtt = world.leg().srtt.expect("the handshake measured it");
    assert!(srtt <= Duration::from_millis(40), "{srtt:?}");
    // Somebody else, who guesses: a clock two thousand million ticks ahead, beyond the window and far below it.
    for seq in [1 + (1 << 29), 1u32.wrapping_sub(1 << 29)] {
        let stamps = Some((CLOCKS[0].wrapping_add(1 << 30), CLOCKS[1]));
        world.says(true, seq, 1 + 5 * MSS, 100, Said { stamps, ..ACK }, &[]);
    }
    world.out.clear();
    let stamps = Some((CLOCKS[0] + 60, CLOCKS[1] + 30));
    world.says(true, 1, 1 + 10 * MSS, 500, Said { stamps, ..ACK }, &[]);
    let up: usize =
        world.out.iter().filter(|(down, _)| !down).map(|(_, segment)| segment.payload.len()).sum();
    assert_eq!(up, 500, "the client's own bytes go on");
    assert_eq!(world.leg().delivered, u64::from(10 * MSS));
}

/// Somebody knows the addresses, and guesses among all that has passed. Only what lies in the window counts (RFC 9293 §3.10.7.4): what was acknowledged before
/// acknowledges nothing, opens no window and sets no clock. Real ends send it when an acknowledgment was lost, and are told what is here.
#[test]
fn nothing_counts_of_what_lies_below_what_was_acknowledged() {
    for clock in [Some(1 << 30), None] {
        let mut world = World::open(true);
        let client = |clock: u32| Said { stamps: Some((CLOCKS[0] + clock, CLOCKS[1] + 20)), ..ACK };
        let server = |clock: u32| Said { stamps: Some((CLOCKS[1] + clock, CLOCKS[0] + 20)), ..ACK };
        world.says(false, 1, 1, 0, server(20), &[]);
        for number in 0..8 {
            world.says(true, 1 + number * MSS, 1, MSS, client(30), &[]);
        }
        world.wait(20);
        world.says(false, 1, 1 + 8 * MSS, 0, server(30), &[]);
        for number in 0..5 {
            world.says(false, 1 + number * MSS, 1 + 8 * MSS, MSS, server(30), &[]);
        }
        world.wait(60);
        let before = world.leg();
        assert!(before.in_flight > 0 && before.delivered == 0, "{before:?}");
        for seq in (1..7 * MSS).step_by(997) {
            let stamps = clock.map(|clock| (CLOCKS[0].wrapping_add(clock), CLOCKS[1] + 25));
            for len in [0, 100] {
                world.says(true, seq, 1 + 5 * MSS, len, Said { stamps, ..ACK }, &[]);
            }
        }
        assert_eq!(world.leg().delivered, 0, "the client has none of it");
        world.out.clear();
        world.says(true, 1 + 6 * MSS, 1, MSS, client(40), &[]);
        let again = world.out.iter().rev().find(|(down, _)| *down).map(|(_, segment)| &segment.header);
        let again = again.expect("who retransmits in vain is answered");
        assert_eq!(again.ack.0.wrapping_sub(ISN), 1 + 8 * MSS);
        world.out.clear();
        world.says(true, 1 + 8 * MSS, 1 + 5 * MSS, 500, client(60), &[]);
        let up: usize =
            world.out.iter().filter(|(down, _)| !down).map(|(_, segment)| segment.payload.len()).sum();
        assert_eq!((up, world.leg().delivered), (500, u64::from(5 * MSS)), "its own clock is not old");
    }
}

/// An end was silent while its clock, of microseconds, has gone more than half round (RFC 7323 §5.5): it is heard, and what is said in its name has its clock again.
#[test]
fn who_comes_back_with_a_clock_that_has_gone_round_is_heard() {
    let mut world = World::open(true);
    let client = |clock: u32| Said { stamps: Some((CLOCKS[0].wrapping_add(clock), CLOCKS[1])), ..ACK };
    world.says(true, 1, 1, 100, client(1_000), &[]);
    world.says(false, 1, 101, 0, Said { stamps: Some((CLOCKS[1] + 1_000, CLOCKS[0] + 1_000)), ..ACK }, &[]);
    world.wait(40 * 60 * 1_000);
    world.out.clear();
    world.says(true, 101, 1, 100, client(2_400_000_000), &[]);
    world.wait(20);
    let up = world.out.iter().filter(|(down, segment)| !down && !segment.payload.is_empty());
    assert_eq!(up.map(|(_, segment)| segment.payload.len()).sum::<usize>(), 100);
    world.out.clear();
    let clocks = CLOCKS.map(|clock| clock.wrapping_add(2_400_000_000));
    for number in 0..4 {
        let server = Said { stamps: Some((clocks[1], clocks[0])), ..ACK };
        world.says(false, 1 + number * MSS, 201, MSS, server, &[]);
    }
    world.wait(100);
    let acknowledgments = world.out.iter().filter(|(down, segment)| !down && segment.payload.is_empty());
    let stamps: Vec<_> =
        acknowledgments.filter_map(|(_, segment)| segment.header.options.timestamps).collect();
    let expected = clocks[0];
    assert!(!stamps.is_empty() && stamps.iter().all(|stamps| stamps.val == expected), "{stamps:?}");
}

/// What has come and is not acknowledged is sent again, with all that its sender has heard meanwhile: that is not below anything.
#[test]
fn what_was_not_acknowledged_counts_when_it_is_sent_again() {
    let senders = SenderControl::acknowledging(Delivered {});
    let mut world = World::open_by(GatewayConfig::of(Policy { senders, ..Policy::default() }), false);
    world.says(false, 1, 1, 0, ACK, &[]);
    world.serves(1, 3);
    world.wait(20);
    world.says(true, 1, 1, 500, ACK, &[]);
    world.wait(20);
    world.says(false, 1, 501, MSS, ACK, &[]);
    let flow = world.subject.gateway.flows().next().expect("the flow is known");
    let [to_server, _] = flow.legs.expect("it is split");
    assert_eq!(to_server.delivered, 500);
}

/// A storm of resets at guessed places (RFC 5961 §3.2): none resets, and few are answered (§7).
#[test]
fn resets_at_guessed_places_end_nothing_and_are_seldom_answered() {
    let mut world = World::open(false);
    world.serves(1, 5);
    world.wait(20);
    world.says(true, 1, 1 + 5 * MSS, 0, ACK, &[]);
    world.out.clear();
    let mut seq = 12_345_u32;
    for number in 0..20_000 {
        seq = seq.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // Everywhere, and in the window of either end but not at its edge.
        let seq = if number % 2 == 0 { seq | 2 } else { 2 + seq % 60_000 };
        let flags = if number % 3 == 0 { TcpFlags::RST | TcpFlags::ACK } else { TcpFlags::RST };
        let at = if number % 4 < 2 { seq } else { seq.wrapping_add(5 * MSS) };
        world.says(number % 4 < 2, at, 1, 0, Said { flags, ..ACK }, &[]);
    }
    let answers = world.out.len();
    assert!(answers <= 20, "{answers} answers");
    assert!(!world.out.iter().any(|(_, segment)| segment.header.flags.contains(TcpFlags::RST)));
    assert_eq!(world.subject.gateway.counters().flows_reset, 0);
    world.wait(6_000);
    world.serves(1 + 5 * MSS, 5);
    world.takes_all(1 + 10 * MSS);
}

/// Forged errors of routers (RFC 5927): hard ones end no connection that is open (§5.2), "too big" counts only for what is on its
/// way (§4.1), and makes no segment smaller than every path takes (§7.2).
#[test]
fn forged_errors_of_routers_end_nothing_and_make_no_dwarfs() {
    let mut world = World::open(false);
    world.serves(1, 5);
    for code in 0..=15 {
        world.router(IcmpErrorKind::Unreachable { code }, 1);
    }
    assert_eq!(world.leg().mss, MSS);
    for mtu in [0, 1, 68, 296] {
        for seq in [1 + (1 << 29), 1 + 5 * MSS, 1 + 400 * MSS] {
            world.router(IcmpErrorKind::PacketTooBig { mtu }, seq);
        }
    }
    assert_eq!(world.leg().mss, MSS, "nothing of that is on its way");
    let (before, _) = world.toward_client();
    for _ in 0..1_000 {
        world.router(IcmpErrorKind::PacketTooBig { mtu: 68 }, 1);
    }
    assert_eq!(world.leg().mss, 552 - 40, "who guesses the place makes segments small, but not tiny");
    let (again, _) = world.toward_client();
    assert!(again <= 6 * before.max(1) + 15, "{again} packets for 1,000 errors, where {before} had left");
    world.takes_all(1 + 5 * MSS);
}

/// Whoever sends nothing but acknowledgments has a clock as well: it is not old when that has gone half way round (RFC 7323 §4.3, §5.3).
#[test]
fn bare_acknowledgments_count_however_long_they_were_the_only_thing_that_was_said() {
    let mut world = World::open(true);
    let mut said = CLOCKS;
    for number in 0..8 {
        let at = 1 + number * MSS;
        world.says(false, at, 1, MSS, Said { stamps: Some((said[1], said[0])), ..ACK }, &[]);
        world.wait(20);
        // A quarter of all that a clock can show.
        said = said.map(|clock| clock.wrapping_add(1 << 30));
        world.out.clear();
        world.says(true, 1, at + MSS, 0, Said { stamps: Some((said[0], said[1])), ..ACK }, &[]);
        assert_eq!(world.leg().delivered, u64::from(at + MSS - 1), "acknowledgment {number} counts");
        world.says(false, at + MSS, 1, 0, Said { stamps: Some((said[1], said[0])), ..ACK }, &[]);
        world.wait(20);
    }
}

/// While the gateway steps out, an end's own bytes pass: its reset stands behind them.
#[test]
fn a_reset_behind_what_has_passed_while_draining_is_passed_on() {
    let mut world = World::open(false);
    world.serves(1, 40);
    assert!(world.leg().buffered > 0, "something is held");
    world.subject.gateway.drain(world.subject.now);
    world.says(true, 1, 1, 35, ACK, &[]);
    world.says(false, 1 + 40 * MSS, 36, 0, ACK, &[]);
    world.wait(5);
    world.out.clear();
    world.says(true, 36, 1, 0, Said { flags: TcpFlags::RST, ..ACK }, &[]);
    world.wait(5);
    let reset =
        world.out.iter().find(|(down, segment)| !down && segment.header.flags.contains(TcpFlags::RST));
    let (_, reset) = reset.expect("the server hears of it");
    assert_eq!(reset.header.seq.0.wrapping_sub(ISN), 36, "where it is exact for the server (RFC 5961 §3)");
    assert_eq!(world.subject.gateway.flows().count(), 0);
}

/// The urgent pointer is from the beginning of its own segment (RFC 9293 §3.1): whoever cuts a super-segment copies it.
#[test]
fn an_urgent_mark_is_at_the_same_place_in_every_segment_that_tells_of_it() {
    let mut world = World::open(false);
    // The window of its SYN was not scaled.
    world.says(false, 1, 1, 0, ACK, &[]);
    for number in 0..30 {
        world.says(true, 1 + number * MSS, 1, MSS, ACK, &[]);
    }
    world.out.clear();
    let header = TcpHeader {
        seq: SeqNum(1 + 30 * MSS),
        ack: SeqNum(1),
        flags: TcpFlags::ACK | TcpFlags::URG,
        urgent: 5,
        window: ACK.window,
        ..TcpHeader::default()
    };
    let ends = [CLIENT, SERVER].map(SocketAddr::from);
    let out = world.subject.takes(true, segment(ends, true, ISN, header, &[7; 5]));
    world.note(out);
    let mut told = 0;
    for acknowledged in [10, 20, 30] {
        world.says(false, 1, 1 + acknowledged * MSS, 0, ACK, &[]);
        world.wait(20);
        let out = std::mem::take(&mut world.out);
        for (_, segment) in
            out.iter().filter(|(down, segment)| !down && segment.header.flags.contains(TcpFlags::URG))
        {
            let header = &segment.header;
            let at = header.seq.0.wrapping_sub(ISN) + u32::from(header.urgent);
            assert_eq!((at, segment.gso_size), (1 + 30 * MSS + 5, None), "{header:?}");
            told += 1;
        }
    }
    assert!(told > 20, "{told}");
}

/// Where routers may fragment, no two segments have the same identification (RFC 6864 §4.2).
#[test]
fn what_may_be_fragmented_has_an_identification_of_its_own() {
    let mut world = World::open(false);
    let mut ids = BTreeMap::new();
    for number in 0..8 {
        let (seq, ack) = (SeqNum(1 + number * MSS), SeqNum(1));
        let header = TcpHeader { seq, ack, flags: ACK.flags, window: ACK.window, ..TcpHeader::default() };
        let ends = [CLIENT, SERVER].map(SocketAddr::from);
        let mut packet = segment(ends, false, ISN, header, &vec![7; MSS as usize]);
        let IpHeader::V4(ip) = &mut packet.ip else { panic!("it is IPv4") };
        (ip.dont_fragment, ip.id) = (false, 7);
        for (port, packet) in world.subject.takes(false, packet) {
            let (IpHeader::V4(ip), Some(segment)) = (packet.ip, packet.as_tcp()) else { continue };
            if port == Gateway::ACCESS && !segment.payload.is_empty() {
                let pieces = segment.payload.len().div_ceil(MSS as usize) as u16;
                for piece in 0..pieces {
                    let of = segment.header.seq.0 + u32::from(piece) * MSS;
                    assert_eq!(*ids.entry(ip.id.wrapping_add(piece)).or_insert(of), of, "{} twice", ip.id);
                }
            }
        }
    }
    assert_eq!(ids.len(), 8);
}
