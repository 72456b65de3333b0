//! A receiver that reports single bytes: what it costs us is bounded by what is outstanding.
use shorthaul_congestion::{Algorithm, ControlParams, DeliveryRate};
use shorthaul_tcp::{Ack, Scoreboard, Sender, SenderConfig};
use shorthaul_types::Time;
use shorthaul_wire::Payload;

const MSS: u32 = 1448;

fn board(segments: u64) -> Scoreboard {
    let mut board = Scoreboard::default();
    let sent = DeliveryRate::new(Time::ZERO).on_send(Time::ZERO, 0);
    for first in (0..segments).step_by(40) {
        let end = (first + 40).min(segments) * u64::from(MSS);
        board.on_send(first * u64::from(MSS), end, MSS, sent);
    }
    board
}

#[test]
fn a_report_of_a_part_of_a_segment_counts_for_nothing() {
    let mss = u64::from(MSS);
    let mut board = board(100);
    let ranges = board.len();
    for at in (0..100 * mss).step_by(100) {
        board.sack(at, at + 1, |_, _| panic!("a byte is no segment"));
        board.sack(at + 1, at + mss - 1, |_, _| panic!("neither is nearly one"));
    }
    assert_eq!((board.len(), board.sacked()), (ranges, 0));
    // What is whole counts, whatever hangs on to it.
    let mut told = Vec::new();
    board.sack(2 * mss - 1, 5 * mss + 1, |start, record| told.push((start, record.end)));
    assert_eq!((told.clone(), board.sacked()), (vec![(2 * mss, 5 * mss)], 3 * mss));
    // An acknowledgment in the midst of a segment moves no cut.
    board.acknowledge(7 * mss + 3, |_, _| ());
    board.sack(7 * mss + 3, 9 * mss, |start, record| told.push((start, record.end)));
    assert_eq!(told[1..], [(7 * mss + 3, 9 * mss)]);
    board.sack(99 * mss + 1, 100 * mss, |_, _| panic!("a part of the last"));
    board.sack(99 * mss, 100 * mss, |start, record| told.push((start, record.end)));
    assert_eq!(told[2..], [(99 * mss, 100 * mss)]);
    assert!(board.audit());
}

#[test]
fn every_other_segment_is_the_worst_and_that_is_bounded() {
    let mss = u64::from(MSS);
    let segments = 100_000;
    let mut board = board(segments);
    for segment in (1..segments).step_by(2) {
        board.sack(segment * mss, (segment + 1) * mss, |_, _| ());
        board.mark_lost_below_sacked(mss, 3, |_, _| ());
    }
    assert!(board.len() <= 20_000, "{} ranges", board.len());
    assert!(board.allocated() < 4 << 20, "{} bytes", board.allocated());
    assert!(board.audit());
}

#[test]
fn single_bytes_bring_no_packets_of_their_own() {
    let mut now = Time::from_secs(1);
    let control = Algorithm::Cubic.build(ControlParams::new(MSS, now));
    let config = SenderConfig { pacing: false, ..SenderConfig::new(MSS, control) };
    let mut sender = Sender::new(now, 1, 1 << 30, config);
    for _ in 0..3_000 {
        sender.queue_mut().push(Payload::copy_of(&[7; MSS as usize]));
    }
    let ack = |sender: &mut Sender, now: Time, ack: u64, sack: &[(u64, u64)]| {
        sender.on_ack(
            now,
            &Ack {
                ack,
                window: 1 << 30,
                seq: 1,
                sack,
                has_data: false,
                ecn_echo: false,
                echo: None,
                sent_before: None,
                waited: None,
                reported: None,
            },
        );
    };
    let send = |sender: &mut Sender, now: Time| {
        let (mut packets, mut bytes) = (0usize, 0);
        while let Some(out) = sender.poll_segment(now) {
            packets += out.payload.len().div_ceil(MSS as usize);
            bytes += out.payload.len();
        }
        (packets, bytes)
    };
    // It acknowledges well, until there is a large window...
    send(&mut sender, now);
    for _ in 0..6 {
        now += core::time::Duration::from_millis(20);
        let all = sender.nxt();
        ack(&mut sender, now, all, &[]);
        send(&mut sender, now);
    }
    let (una, nxt) = (sender.una(), sender.nxt());
    assert!(nxt - una > 200 * u64::from(MSS), "{} bytes are outstanding", nxt - una);
    // ... and then a byte here and a byte there.
    let (mut packets, mut bytes, mut acks) = (0, 0, 0);
    for at in (una + 7..nxt - 40).step_by(40) {
        now += core::time::Duration::from_micros(10);
        ack(
            &mut sender,
            now,
            una,
            &[(at, at + 1), (at + 10, at + 11), (at + 20, at + 21), (at + 30, at + 31)],
        );
        let (more, long) = send(&mut sender, now);
        (packets, bytes, acks) = (packets + more, bytes + long, acks + 1);
    }
    assert!(sender.scoreboard().len() <= ((nxt - una) / u64::from(MSS)) as usize + 40);
    assert!(packets <= acks, "{packets} packets for {acks} acknowledgments");
    assert!(bytes >= packets.saturating_sub(2) * MSS as usize, "{bytes} bytes in {packets} packets");
}
