//! Two ends, and all that may happen between them.
use super::super::frame::Reader;
use super::*;
use proptest::prelude::*;

const WINDOW: u64 = 256 << 10;

/// Two ends, and a way between them that carries some bytes at a time and can vanish.
struct Pair {
    ends: [Ends<Unbounded>; 2],
    readers: [Reader; 2],
    control: [Vec<u8>; 2],
    /// What is on the way to each.
    way: [VecDeque<u8>; 2],
    given: [Vec<u8>; 2],
    heard: [Vec<u8>; 2],
    closed: [bool; 2],
}

impl Pair {
    fn new() -> Pair {
        Pair {
            ends: [Role::Client, Role::Node].map(|role| Ends::new(role, WINDOW, Unbounded)),
            readers: Default::default(),
            control: Default::default(),
            way: Default::default(),
            given: Default::default(),
            heard: Default::default(),
            closed: [false; 2],
        }
    }

    fn give(&mut self, at: usize, len: usize) {
        let len = len.min(self.ends[at].room());
        let from = self.given[at].len();
        let bytes: Vec<u8> = (from..from + len).map(|n| (n * 7 + n / 251 + at) as u8).collect();
        self.ends[at].take(&bytes);
        self.given[at].extend(bytes);
    }

    /// Writes at most so much onto the way.
    fn send(&mut self, at: usize, mut most: usize) {
        let (ends, control) = (&mut self.ends[at], &mut self.control[at]);
        loop {
            if !ends.is_within_frame() {
                if ends.acknowledgment() == Some(true) {
                    ends.acknowledge(control);
                }
                ends.say_end(control);
                if ends.is_to_confirm() {
                    ends.confirm(control);
                }
                let len = most.min(control.len());
                self.way[1 - at].extend(control.drain(..len));
                most -= len;
                if !control.is_empty() {
                    return;
                }
            }
            let Some(next) = ends.next() else { return };
            let len = most.min(next.len());
            if len == 0 {
                return;
            }
            self.way[1 - at].extend(&next[..len]);
            ends.on_written(len);
            most -= len;
        }
    }

    fn receive(&mut self, at: usize, most: usize) {
        let len = most.min(self.way[at].len());
        let bytes: Vec<u8> = self.way[at].drain(..len).collect();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (frame, used) = self.readers[at].next(rest).unwrap();
            rest = &rest[used..];
            if let Some(frame) = frame {
                let heard = &mut self.heard[at];
                let some = |bytes: &[u8]| {
                    let len = bytes.len() / 3;
                    heard.extend(&bytes[..len]);
                    len
                };
                self.ends[at].on_frame(frame, some).unwrap();
            }
        }
    }

    fn deliver(&mut self, at: usize, most: usize) {
        if let Some(bytes) = self.ends[at].waiting() {
            let len = most.min(bytes.len());
            self.heard[at].extend(&bytes[..len]);
            self.ends[at].on_delivered(len);
        }
        if self.ends[at].is_to_close() {
            assert!(at == 1 || !self.ends[0].has_ended() || self.ends[0].out.is_done);
            self.closed[at] = true;
            self.ends[at].on_closed();
        }
    }

    /// The way vanishes with all that is on it, and another begins.
    fn move_on(&mut self) {
        (self.readers, self.control, self.way) = Default::default();
        let received = [self.ends[0].received(), self.ends[1].received()];
        self.ends[0].move_to(received[1]).unwrap();
        self.ends[1].move_to(received[0]).unwrap();
    }

    /// Another process goes on with one of them, by another way.
    fn hand_over(&mut self, at: usize) {
        let ends = &self.ends[at];
        let (record, given, waiting) = ends.record();
        let text = serde_json::to_string(&record).unwrap();
        let record: EndsRecord = serde_json::from_str(&text).unwrap();
        if !given.is_empty() {
            let less = (&given[1..], waiting.clone());
            assert!(Ends::of_record(ends.role, &record, less, Unbounded).is_none(), "a byte is missing");
        }
        self.ends[at] = Ends::of_record(ends.role, &record, (&given, waiting), Unbounded).unwrap();
        self.move_on();
    }

    fn settle(&mut self) {
        for _ in 0..100_000 {
            for at in [0, 1] {
                self.deliver(at, usize::MAX);
                if self.ends[at].acknowledgment().is_some() && !self.ends[at].is_within_frame() {
                    self.ends[at].acknowledge(&mut self.control[at]);
                }
                self.send(at, usize::MAX);
                self.receive(at, usize::MAX);
            }
            if self.ends.iter().all(Ends::is_complete) && self.way.iter().all(VecDeque::is_empty) {
                return;
            }
        }
        panic!("it never settles: {:?}", self.ends);
    }
}

proptest! {
    #[test]
    fn whatever_vanishes_all_arrives_once_and_in_order(
        steps in prop::collection::vec((0..8u8, 0..2usize, 0..200_000usize), 0..200),
    ) {
        let mut pair = Pair::new();
        for (what, at, len) in steps {
            match what {
                0 | 1 => pair.give(at, len),
                2 => pair.send(at, len),
                3 => pair.receive(at, len),
                4 => pair.deliver(at, len),
                5 => pair.send(at, len % 40),
                6 => pair.move_on(),
                _ => pair.hand_over(at),
            }
            for ends in &pair.ends {
                prop_assert!(ends.out.held <= WINDOW as usize + 2 * MOST_DATA, "{} bytes are held", ends.out.held);
                prop_assert!(ends.inc.received - ends.inc.delivered <= WINDOW);
            }
        }
        pair.ends.iter_mut().for_each(Ends::end);
        pair.settle();
        prop_assert!(pair.heard[1] == pair.given[0] && pair.heard[0] == pair.given[1]);
        prop_assert_eq!(pair.closed, [true; 2]);
        prop_assert!(pair.ends.iter().all(|ends| ends.out.held + ends.inc.held == 0), "memory is left");
        prop_assert!(pair.ends.iter().all(|ends| !ends.owes()));
    }
}

proptest! {
    #[test]
    fn whatever_is_said_it_is_an_error_or_bounded(bytes in prop::collection::vec(any::<u8>(), 0..400), kinds in prop::collection::vec((0..6u8, 0..300u64, 0..300u64), 0..20)) {
        let mut said = Vec::new();
        for (kind, a, b) in kinds {
            let data = vec![7; b as usize];
            match kind {
                0 if b > 0 => Frame::Data { offset: a, bytes: &data },
                1 => Frame::Ack { received: a, limit: b << 12 },
                2 => Frame::End(a),
                3 => Frame::Done(a),
                4 => Frame::Ping,
                _ => Frame::Break,
            }
            .write(&mut said);
        }
        said.extend(bytes);
        let mut ends = Ends::new(Role::Node, WINDOW, Unbounded);
        ends.take(&[1; 200]);
        let len = ends.next().unwrap().len() / 2;
        ends.on_written(len);
        let (mut reader, mut rest) = (Reader::default(), &said[..]);
        while !rest.is_empty() {
            let Ok((frame, used)) = reader.next(rest) else { break };
            rest = &rest[used..];
            if let Some(frame) = frame && ends.on_frame(frame, |_| 0).is_err() {
                break;
            }
            prop_assert!(ends.inc.held <= WINDOW as usize * 2 && ends.out.acknowledged <= ends.out.sent);
        }
        ends.next();
        let _ = ends.move_to(100);
    }
}

#[test]
fn an_end_is_withheld_until_all_has_arrived() {
    let mut pair = Pair::new();
    pair.give(0, 1000);
    pair.ends[0].end();
    pair.ends[1].end();
    pair.send(1, usize::MAX);
    pair.receive(0, usize::MAX);
    pair.deliver(0, usize::MAX);
    assert!(!pair.closed[0], "what was said has not arrived, and the end would look clean");
    pair.settle();
    assert_eq!(pair.closed, [true; 2]);
}

#[test]
fn what_is_hostile_is_an_error() {
    let none = |_: &[u8]| 0;
    let ends = || {
        let mut ends = Ends::new(Role::Node, WINDOW, Unbounded);
        ends.take(&[1; 100]);
        let len = ends.next().unwrap().len();
        ends.on_written(len);
        ends.take(&[1; 100]);
        ends.on_frame(Frame::Data { offset: 0, bytes: &[0; 50] }, none).unwrap();
        ends
    };
    let data = |offset, bytes| Frame::Data { offset, bytes };
    let ack = |received, limit| Frame::Ack { received, limit };
    let too_much = vec![0; WINDOW as usize];
    for (frame, expected) in [
        (data(0, &[0; 10][..]), Violation::Offset),
        (data(51, &[0; 10]), Violation::Offset),
        (data(u64::MAX, &[0; 10]), Violation::Offset),
        (data(50, &too_much), Violation::Limit),
        (ack(101, WINDOW), Violation::Acknowledged),
        (ack(u64::MAX, u64::MAX), Violation::Acknowledged),
        (ack(10, 0), Violation::Acknowledged),
        (Frame::End(49), Violation::Offset),
        (Frame::End(51), Violation::Offset),
        (Frame::Done(100), Violation::Done),
    ] {
        assert_eq!(ends().on_frame(frame, none), Err(expected), "{frame:?}");
    }
    let mut ended = ends();
    ended.on_frame(Frame::End(50), none).unwrap();
    assert_eq!(ended.on_frame(data(50, &[0]), none), Err(Violation::BehindEnd));
    assert_eq!(ended.on_frame(Frame::End(60), none), Err(Violation::BehindEnd));
    ended.on_frame(ack(60, WINDOW), none).unwrap();
    assert_eq!(ended.on_frame(ack(50, WINDOW), none), Err(Violation::Acknowledged));
    for received in [0, 59, 101, u64::MAX] {
        assert_eq!(ended.move_to(received), Err(Violation::Acknowledged));
    }
    ended.move_to(70).unwrap();
    let mut reader = Reader::default();
    let wire = ended.next().unwrap();
    assert_eq!(reader.next(wire).unwrap().0, Some(data(70, &[1; 30])));
}

/// So much, and no more.
struct Quota(usize);

impl Memory for Quota {
    fn hold(&mut self, bytes: usize) -> bool {
        bytes <= self.0
    }
}

#[test]
fn where_memory_is_short_little_is_held_and_all_goes_on() {
    let mut ends = Ends::new(Role::Node, WINDOW, Quota(0));
    let room = ends.room();
    assert!(room > 0 && room <= LEAST, "{room}");
    ends.take(&vec![0; room]);
    assert_eq!(ends.room(), 0);
    let len = ends.next().unwrap().len();
    ends.on_written(len);
    ends.on_frame(Frame::Ack { received: room as u64, limit: WINDOW }, |_| 0).unwrap();
    assert_eq!(ends.room(), LEAST);
    assert!(ends.may_receive());
    ends.on_frame(Frame::Data { offset: 0, bytes: &[0; 10_000] }, |_| 0).unwrap();
    assert!(!ends.may_receive(), "what is there goes first");
    ends.on_delivered(10_000);
    assert!(ends.may_receive());
}

#[test]
fn what_waits_at_the_last_node_has_not_arrived() {
    let mut ends = Ends::new(Role::Client, 4 << 20, Unbounded);
    let window = 4 << 20;
    let said = |ends: &mut Ends<Unbounded>, received: u64, delivered: u64| {
        let frame = Frame::Ack { received, limit: delivered + window };
        ends.on_frame(frame, |_| 0).unwrap();
        ends.has_arrived()
    };
    let give = |ends: &mut Ends<Unbounded>, len: usize| {
        ends.take(&vec![7; len]);
        while let Some(next) = ends.next() {
            let len = next.len();
            ends.on_written(len);
        }
    };
    give(&mut ends, 1000);
    assert!(!ends.has_arrived(), "nobody has said anything");
    assert!(said(&mut ends, 1000, 1000));
    give(&mut ends, 200_000);
    assert!(!said(&mut ends, 100_000, 50_000));
    assert!(!said(&mut ends, 201_000, 50_000), "the node has all, and its application a quarter");
    assert!(!said(&mut ends, 201_000, 200_000));
    assert!(said(&mut ends, 201_000, 201_000));
}
