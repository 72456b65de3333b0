//! Whatever happens to it, a scoreboard's sums are those of its records.
use proptest::prelude::*;
use shorthaul_congestion::DeliveryRate;
use shorthaul_tcp::{Record, Scoreboard};
use shorthaul_types::Time;

const STREAM: u64 = 100;

#[derive(Clone, Copy, Debug)]
enum Event {
    SendNew(u64),
    SendAgain(u64, u64),
    Acknowledge(u64),
    Report(u64, u64),
    MarkLost(u64, u64),
    MarkLostBefore { transmission: u64, end: u64 },
    ForgetReports,
    ForgetFirstReport,
}

fn event() -> impl Strategy<Value = Event> {
    let range = (0..STREAM, 1..20u64);
    prop_oneof![
        4 => (1..20u64).prop_map(Event::SendNew),
        2 => range.clone().prop_map(|(at, len)| Event::SendAgain(at, len)),
        2 => (0..STREAM).prop_map(Event::Acknowledge),
        4 => range.clone().prop_map(|(at, len)| Event::Report(at, len)),
        2 => range.prop_map(|(at, len)| Event::MarkLost(at, len)),
        2 => (0..30u64, 0..STREAM).prop_map(|(transmission, end)| Event::MarkLostBefore { transmission, end }),
        1 => Just(Event::ForgetReports),
        1 => Just(Event::ForgetFirstReport),
    ]
}

/// What became of one byte.
#[derive(Clone, Copy, Default, PartialEq)]
struct Byte {
    transmission: u64,
    sacked: bool,
    lost: bool,
}

/// A scoreboard beside a list that holds every byte by itself.
struct Model {
    board: Scoreboard,
    bytes: Vec<Byte>,
    una: u64,
    nxt: u64,
    sent: u64,
}

impl Model {
    fn play(&mut self, event: Event) {
        let Model { board, bytes, una, nxt, .. } = self;
        let clip = |at: u64, len: u64| at.clamp(*una, *nxt)..(at + len).clamp(*una, *nxt);
        match event {
            Event::SendNew(len) => {
                let len = len.min(STREAM - *nxt);
                self.send(self.nxt, self.nxt + len);
            }
            Event::SendAgain(at, len) => {
                let range = clip(at, len);
                self.send(range.start, range.end);
            }
            Event::Acknowledge(ack) => {
                let ack = ack.clamp(*una, *nxt);
                let newly = bytes[*una as usize..ack as usize].iter().filter(|byte| !byte.sacked).count();
                let mut told = 0;
                board.acknowledge(ack, |start, record| told += record.end - start);
                assert_eq!(told, newly as u64, "delivered, as it was told");
                *una = ack;
            }
            Event::Report(at, len) => {
                let range = clip(at, len);
                let mut told = 0;
                board.sack(range.start, range.end, |start, record| told += record.end - start);
                let mut newly = 0;
                for byte in &mut bytes[range.start as usize..range.end as usize] {
                    newly += u64::from(!byte.sacked);
                    *byte = Byte { sacked: true, lost: false, ..*byte };
                }
                assert_eq!(told, newly, "reported, as it was told");
            }
            Event::MarkLost(at, len) => {
                let range = clip(at, len);
                board.mark_lost(range.start, range.end, |_, _| ());
                for byte in &mut bytes[range.start as usize..range.end as usize] {
                    byte.lost |= !byte.sacked;
                }
            }
            Event::MarkLostBefore { transmission, end } => {
                board.mark_lost_before(
                    (transmission, end),
                    |_| true,
                    |start, record: &Record| {
                        for byte in &mut bytes[start as usize..record.end as usize] {
                            assert!(!byte.sacked && !byte.lost, "lost, but it is not in flight");
                            assert!((byte.transmission, start) < (transmission, end), "sent later");
                            byte.lost = true;
                        }
                    },
                );
            }
            Event::ForgetReports => {
                board.forget_sacked();
                bytes.iter_mut().for_each(|byte| byte.sacked = false);
            }
            Event::ForgetFirstReport => {
                let first = board.first().map(|(start, record)| start..record.end);
                board.forget_first_sacked();
                for byte in first.into_iter().flat_map(|range| range.start as usize..range.end as usize) {
                    bytes[byte].sacked = false;
                }
            }
        }
    }

    fn send(&mut self, start: u64, end: u64) {
        if start == end {
            return;
        }
        let sent = DeliveryRate::new(Time::ZERO).on_send(Time::ZERO, 0);
        self.board.on_send(start, end, 1, sent); // what the model knows of is bytes
        for byte in &mut self.bytes[start as usize..end as usize] {
            if !byte.sacked {
                *byte = Byte { transmission: self.sent, ..Byte::default() };
            }
        }
        self.sent += 1;
        self.nxt = self.nxt.max(end);
    }

    fn check(&mut self) {
        assert!(self.board.audit(), "the sums are not those of the records");
        let outstanding = &self.bytes[self.una as usize..self.nxt as usize];
        let count = |pick: fn(&Byte) -> bool| outstanding.iter().filter(|byte| pick(byte)).count() as u64;
        assert_eq!(self.board.sacked(), count(|byte| byte.sacked));
        assert_eq!(self.board.lost(), count(|byte| byte.lost));
        assert_eq!(self.board.in_flight(), count(|byte| !byte.sacked && !byte.lost));
        let first = outstanding.iter().position(|byte| byte.lost).map(|at| self.una + at as u64);
        assert_eq!(self.board.first_lost().map(|(start, _)| start), first);
        assert_eq!(self.board.is_empty(), outstanding.is_empty());
    }
}

proptest! {
    #[test]
    fn in_flight_is_what_was_sent_and_neither_acknowledged_reported_nor_lost(
        events in prop::collection::vec(event(), 1..80)
    ) {
        let bytes = vec![Byte::default(); STREAM as usize];
        let mut model = Model { board: Scoreboard::default(), bytes, una: 0, nxt: 0, sent: 0 };
        for event in events {
            model.play(event);
            model.check();
        }
    }
}
