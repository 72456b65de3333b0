//! One direction of TCP in virtual time: a sender and a receiver, a path between them that does what
//! a test says, and a record of every segment that left.
use shorthaul_tcp::{Ack, AckPolicy, ByteQueue, Receiver, Segment, Sender, SenderConfig};
use shorthaul_types::Time;
use shorthaul_wire::Payload;
use std::collections::BTreeMap;
use std::time::Duration;

pub const MSS: u64 = 1000;
/// From end to end.
pub const DELAY: Duration = Duration::from_millis(50);

/// A segment as it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    pub at: Time,
    /// The number of its first byte, from zero, in segments of [`MSS`] bytes.
    pub segment: u64,
    pub bytes: u64,
    pub retransmission: bool,
    pub probe: bool,
}

/// What the path does to a segment or an acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Pass,
    Drop,
    /// Comes this much later.
    Late(Duration),
    Twice,
}

/// Decides about the n-th segment that leaves, counted from zero.
pub type DataPath = Box<dyn FnMut(usize, &Sent) -> Fate>;

enum Arrival {
    Data { offset: u64, bytes: u64 },
    Ack { ack: u64, window: u64, sack: Vec<(u64, u64)> },
}

pub struct Half {
    pub now: Time,
    pub sender: Sender,
    pub receiver: Receiver,
    pub inbox: ByteQueue,
    pub sent: Vec<Sent>,
    sack: bool,
    wire: BTreeMap<(Time, u64), Arrival>,
    count: u64,
    pub data: DataPath,
    /// What happens to the n-th acknowledgment.
    pub acks: Box<dyn FnMut(usize) -> Fate>,
    acks_sent: usize,
    window: u64,
}

impl Half {
    pub fn new(config: SenderConfig, window: u64) -> Half {
        let sack = config.sack;
        Half {
            now: Time::ZERO,
            sender: Sender::new(Time::ZERO, 1, 1 + window, config),
            receiver: Receiver::new(1, 1 + window, MSS as u32, AckPolicy::Immediate),
            inbox: ByteQueue::new(1),
            sent: Vec::new(),
            sack,
            wire: BTreeMap::new(),
            count: 0,
            data: Box::new(|_, _| Fate::Pass),
            acks: Box::new(|_| Fate::Pass),
            acks_sent: 0,
            window,
        }
    }

    /// Gives this many full segments to send.
    pub fn write(&mut self, segments: u64) {
        for _ in 0..segments {
            self.sender.queue_mut().push(Payload::copy_of(&[7; MSS as usize]));
        }
    }

    fn put(&mut self, fate: Fate, make: impl Fn() -> Arrival) {
        let at = |now: Time, extra| now + DELAY + extra;
        let times: &[Duration] = match fate {
            Fate::Drop => &[],
            Fate::Pass => &[Duration::ZERO],
            Fate::Late(extra) => &[extra],
            Fate::Twice => &[Duration::ZERO, Duration::ZERO],
        };
        for extra in times {
            self.count += 1;
            self.wire.insert((at(self.now, *extra), self.count), make());
        }
    }

    /// Lets everything leave that may leave now.
    pub fn flush(&mut self) {
        while let Some(outgoing) = self.sender.poll_segment(self.now) {
            let mut offset = outgoing.offset;
            let end = offset + outgoing.payload.len() as u64;
            loop {
                let bytes = (end - offset).min(MSS);
                let sent = Sent {
                    at: self.now,
                    segment: offset.saturating_sub(1) / MSS,
                    bytes,
                    retransmission: outgoing.retransmission,
                    probe: outgoing.probe.is_some(),
                };
                let fate = (self.data)(self.sent.len(), &sent);
                self.sent.push(sent);
                self.put(fate, || Arrival::Data { offset, bytes });
                offset += bytes;
                if offset >= end {
                    break;
                }
            }
        }
    }

    fn acknowledge(&mut self) {
        let (ack, window) = (self.receiver.ack(), self.receiver.window());
        let sack = if self.sack { self.receiver.sack_ranges().to_vec() } else { Vec::new() };
        self.receiver.on_ack_sent();
        let fate = (self.acks)(self.acks_sent);
        self.acks_sent += 1;
        self.put(fate, || Arrival::Ack { ack, window, sack: sack.clone() });
    }

    /// Goes on to the next thing that happens, if it happens before `end`; whether it did.
    pub fn step(&mut self, end: Time) -> bool {
        self.flush();
        let arrival = self.wire.keys().next().map(|key| key.0);
        let timer = self.sender.poll_timeout().map(|deadline| deadline.at);
        let Some(next) = arrival.into_iter().chain(timer).min().filter(|next| *next <= end) else {
            self.now = end;
            return false;
        };
        self.now = self.now.max(next);
        if timer.is_some_and(|timer| timer <= self.now) {
            self.sender.on_timeout(self.now);
        }
        while let Some(entry) = self.wire.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            match entry.remove() {
                Arrival::Data { offset, bytes } => {
                    let payload = Payload::copy_of(&vec![7; bytes as usize]).into();
                    let segment = Segment { offset, payload, fin: false, push: false, timestamps: None };
                    let probe = bytes == 0;
                    self.receiver.on_segment(self.now, segment, &mut self.inbox, 1 << 30);
                    let start = self.inbox.start() + self.inbox.len();
                    self.inbox.release(start);
                    self.receiver.offer(self.window);
                    if probe || self.receiver.wants_ack(self.now) {
                        self.acknowledge();
                    }
                }
                Arrival::Ack { ack, window, sack } => {
                    let una = self.sender.una();
                    let has_data = false;
                    let ack = Ack {
                        ack: ack.max(una),
                        window,
                        seq: 1,
                        sack: &sack,
                        has_data,
                        ecn_echo: false,
                        echo: None,
                        sent_before: None,
                        waited: None,
                        reported: None,
                    };
                    self.sender.on_ack(self.now, &ack);
                    self.flush();
                }
            }
            assert!(self.sender.scoreboard().audit(), "the scoreboard's sums are wrong");
        }
        true
    }

    /// Goes on until this many milliseconds.
    pub fn run_until(&mut self, millis: u64) {
        let end = Time::from_millis(millis);
        let mut steps = 0;
        while self.step(end) {
            steps += 1;
            assert!(steps < 1_000_000, "it spins at {}", self.now);
        }
    }

    /// Goes on until everything is acknowledged; panics after `limit`.
    pub fn run_to_the_end(&mut self, limit: Duration) {
        let end = Time::ZERO + limit;
        while !self.sender.is_idle() {
            assert!(self.step(end), "stuck: {:#?}", self.sender);
        }
    }

    /// The segments retransmitted, in order.
    pub fn retransmitted(&self) -> Vec<u64> {
        self.sent
            .iter()
            .filter(|sent| sent.retransmission && sent.bytes > 0)
            .map(|sent| sent.segment)
            .collect()
    }
}

/// Drops the listed transmissions of each segment: `(segment, how often)`.
pub fn losing(list: &'static [(u64, u32)]) -> DataPath {
    let mut left: BTreeMap<u64, u32> = list.iter().copied().collect();
    Box::new(move |_, sent| match left.get_mut(&sent.segment) {
        Some(times) if *times > 0 => {
            *times -= 1;
            Fate::Drop
        }
        _ => Fate::Pass,
    })
}
