//! Base stations that split connections, by the examples of their sources: I-TCP, M-TCP and W-TCP, between a fixed host and a mobile one.
use crate::by_hand::{MSS, Subject, segment};
use shorthaul_congestion::{Algorithm, RttConfig};
use shorthaul_proxy::{
    Delivered, Freeze, Gateway, GatewayConfig, LegConfig, Policy, SenderControl, WithoutResidence,
};
use shorthaul_tcp::{LossDetection, SenderProfile};
use shorthaul_types::SeqNum;
use shorthaul_wire::{TcpFlags, TcpHeader, TcpOptions, Timestamps, TxBatch};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const MOBILE: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 1), 5000);
const FIXED: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 80);
/// Where both ends' sequence numbers begin.
const ISN: u32 = 100;
/// The clocks of the mobile host and the fixed one at the handshake; they tick in milliseconds.
const CLOCKS: [u32; 2] = [1_000, 500_000];

/// What the base station tells the fixed host: bytes that are acknowledged, the window, and how old the timestamp is that it echoes, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    acked: u32,
    window: u16,
    echo: Option<u32>,
}

/// A base station with a connection of which the mobile host is at the access side. The fixed host sends; segments are counted from 0.
struct Station {
    subject: Subject,
    timestamps: bool,
    /// Milliseconds since the handshake.
    clock: u32,
    told: Vec<Told>,
    /// The segments that were sent to the mobile host: when, and which.
    sent: Vec<(u32, u32)>,
    /// The fixed host's FIN was acknowledged.
    fin_acked: bool,
}

impl Station {
    fn new(policy: Policy, timestamps: bool) -> Station {
        let config = GatewayConfig { policies: vec![policy], ..GatewayConfig::default() };
        let mut station = Station {
            subject: Subject::new(config),
            timestamps,
            clock: 0,
            told: Vec::new(),
            sent: Vec::new(),
            fin_acked: false,
        };
        station.says(true, 0, 0, TcpFlags::SYN, 0);
        station.says(false, 0, 1, TcpFlags::SYN | TcpFlags::ACK, 0);
        station.says(true, 1, 1, TcpFlags::ACK, 0);
        assert_eq!(station.subject.gateway.counters().flows_split, 1);
        station.told.clear();
        station
    }

    /// A segment of the mobile host or of the fixed one; offsets are of the streams.
    fn says(&mut self, mobile: bool, seq: u32, ack: u32, flags: TcpFlags, bytes: u32) {
        let val = self.clock + if mobile { CLOCKS[0] } else { CLOCKS[1] };
        let options = TcpOptions {
            timestamps: self.timestamps.then_some(Timestamps { val, ecr: 0 }),
            ..TcpOptions::default()
        };
        let (seq, ack) = (SeqNum(seq), SeqNum(ack));
        let header = TcpHeader { seq, ack, flags, window: 200, options, ..TcpHeader::default() };
        let ends = [MOBILE, FIXED].map(SocketAddr::from);
        let packet = segment(ends, mobile, ISN, header, &vec![7; bytes as usize]);
        let out = self.subject.takes(mobile, packet);
        self.note(out);
    }

    fn note(&mut self, out: TxBatch) {
        let offset = |seq: SeqNum| seq.0.wrapping_sub(ISN);
        for (port, packet) in out {
            let Some(segment) = packet.as_tcp() else { continue };
            let header = &segment.header;
            if header.flags.contains(TcpFlags::SYN) {
                continue;
            }
            if port == Gateway::ACCESS {
                let (first, count) = (offset(header.seq) / MSS, segment.payload.len() as u32 / MSS);
                self.sent.extend((first..first + count).map(|number| (self.clock, number)));
                continue;
            }
            let stamp = header.options.timestamps;
            let echo = stamp.map(|stamp| (CLOCKS[1] + self.clock).wrapping_sub(stamp.ecr));
            self.fin_acked |= offset(header.ack) % MSS == 2;
            self.told.push(Told { acked: offset(header.ack) - 1, window: header.window, echo });
        }
    }

    /// The fixed host sends a segment.
    fn fixed_sends(&mut self, number: u32) {
        self.says(false, 1 + number * MSS, 1, TcpFlags::ACK, MSS);
    }

    /// The mobile host has everything below this segment.
    fn mobile_has(&mut self, next: u32) {
        self.says(true, 1, 1 + next * MSS, TcpFlags::ACK, 0);
    }

    /// So many milliseconds pass.
    fn wait(&mut self, millis: u32) {
        let end = self.clock + millis;
        while self.clock < end {
            self.clock += 1;
            let out = self.subject.wait(Duration::from_millis(1));
            self.note(out);
        }
    }

    /// What the fixed host was told last, of what it was told since this was asked before.
    fn last_told(&mut self) -> Option<Told> {
        std::mem::take(&mut self.told).pop()
    }

    fn acked(&mut self) -> Option<u32> {
        self.last_told().map(|told| told.acked)
    }

    /// Which segments were sent to the mobile host since this was asked before, and when.
    fn sent(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.sent)
    }
}

/// Reno with timers that tick twice a second toward the mobile host.
fn i_tcp() -> Station {
    let sender = SenderProfile {
        congestion: Algorithm::Reno,
        loss_detection: LossDetection::RENO,
        rto: RttConfig::COARSE,
        initial_window: 2,
        pacing: false,
        f_rto: false,
        ..SenderProfile::default()
    };
    let access = LegConfig { sender, ..LegConfig::default() };
    Station::new(Policy { access, ..Policy::default() }, false)
}

/// Bakre and Badrinath: what comes from the fixed host is acknowledged by the base station, whether the mobile host has it or not. While that is
/// between cells, the fixed host sends and hears as before; what was lost is for the base station to repair, by a timer that ticks twice a second.
#[test]
fn i_tcp_answers_for_the_mobile_host_and_repairs_after_a_hand_off() {
    let mut station = i_tcp();
    station.fixed_sends(0);
    station.fixed_sends(1);
    station.wait(50);
    assert_eq!(station.acked(), Some(2 * MSS), "before the mobile host has anything");
    assert_eq!(station.sent(), [(0, 0), (0, 1)]);
    // It is between cells. Two more come, which its window of two has no room for.
    station.fixed_sends(2);
    station.fixed_sends(3);
    station.wait(400);
    let told = station.last_told().expect("they are acknowledged");
    assert!(told.acked == 4 * MSS && told.window > 0, "{told:?}");
    station.wait(10_000);
    assert_eq!(station.acked(), None, "the fixed host is told nothing of it");
    let repairs = station.sent();
    assert!(repairs.len() >= 2 && repairs.iter().all(|(_, number)| *number == 0), "{repairs:?}");
    // The ticks are those of one clock, so what is between two repairs is whole ticks, doubled each time.
    let gaps: Vec<u32> = repairs.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(gaps.iter().all(|gap| gap % 500 == 0), "{gaps:?}");
    // It is in the next cell.
    for next in 1..=4 {
        station.wait(5_000);
        station.mobile_has(next);
    }
    let arrived: Vec<u32> = station.sent().into_iter().map(|(_, number)| number).collect();
    assert!((1..4).all(|number| arrived.contains(&number)), "{arrived:?}");
    // What is said of a connection's semantics: bytes are acknowledged early, its end is not.
    station.says(false, 1 + 4 * MSS, 1, TcpFlags::ACK | TcpFlags::FIN, 0);
    station.wait(100);
    assert!(!station.fin_acked);
}

/// Brown and Singh: the supervisor host acknowledges what the mobile host has acknowledged, but for its last byte. When it hears nothing of the
/// mobile host, it acknowledges that byte with a window of zero, so that the sender persists; when it hears of it, it opens the window.
#[test]
fn m_tcp_keeps_the_last_byte_for_closing_the_window() {
    let senders =
        SenderControl::acknowledging(Delivered {}).limited_by(Freeze { after: Duration::from_millis(500) });
    let mut station = Station::new(Policy { senders, ..Policy::default() }, false);
    (0..4).for_each(|number| station.fixed_sends(number));
    station.wait(50);
    assert!(station.acked().is_none_or(|acked| acked == 0), "the mobile host has nothing yet");
    station.mobile_has(2);
    station.wait(1);
    let told = station.last_told().expect("what the mobile host has is acknowledged");
    assert!(told.acked == 2 * MSS - 1 && told.window > 0, "{told:?}");
    // It is silent.
    station.wait(400);
    assert_eq!(station.acked(), None);
    station.wait(150);
    assert_eq!(station.last_told(), Some(Told { acked: 2 * MSS, window: 0, echo: None }));
    station.wait(5_000);
    assert_eq!(station.acked(), None);
    // It is back.
    station.mobile_has(3);
    station.wait(1);
    let told = station.last_told().expect("the window opens");
    assert!(told.acked == 3 * MSS - 1 && told.window > 0, "{told:?}");
    // All that there is leaves no byte to keep.
    station.mobile_has(4);
    station.wait(1);
    assert_eq!(station.acked(), Some(4 * MSS));
}

/// Ratnam and Matta: the base station acknowledges what the mobile host has acknowledged, and adds to the timestamp that it echoes how long the
/// segment was there, so that a sender which times by timestamps measures the wired way alone.
#[test]
fn w_tcp_hides_from_the_timestamp_how_long_a_segment_was_there() {
    let senders = SenderControl::acknowledging(WithoutResidence {});
    let mut station = Station::new(Policy { senders, ..Policy::default() }, true);
    // Ours: the unit of the fixed host's clock is known after half a second.
    for number in 0..8 {
        station.fixed_sends(number);
        station.wait(100);
        station.mobile_has(number + 1);
    }
    station.last_told();
    for (next, residence) in (8..).zip([40, 700, 3_000]) {
        station.fixed_sends(next);
        station.wait(residence);
        assert_eq!(station.acked(), None, "before the mobile host has it");
        station.mobile_has(next + 1);
        let told = station.last_told().expect("it is acknowledged");
        assert_eq!(told.acked, (next + 1) * MSS);
        let age = told.echo.expect("with a timestamp");
        assert!(age <= 5, "{age} ms of {residence}");
    }
}
