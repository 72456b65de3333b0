//! What an acknowledgment costs, by the size of the window: a sender and a receiver over a path that
//! loses one segment in a hundred, with windows of 1, 10 and 100 MB that nothing reduces.
//!
//! `cargo run --release -p shorthaul-tcp --example ack_cost` prints a table and, as the last line, the
//! same as JSON. An argument, in bytes, picks one window, for a profiler.
use shorthaul_congestion::{Algorithm, ControlParams};
use shorthaul_tcp::{Ack, AckPolicy, ByteQueue, Receiver, Segment, Sender, SenderConfig};
use shorthaul_types::{Bytes, Seed, Time};
use shorthaul_wire::{Chunk, Payload};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MSS: u64 = 1448;
const ROUND_TRIP: Duration = Duration::from_millis(100);
/// One segment in this many is lost, by a seed.
const LOSS_ONE_IN: u64 = 100;
/// Segments are handled in batches, so that reading the clock costs nothing beside them.
const BATCH: usize = 64;
/// Acknowledgments of a slice, and the slices that are measured after the window was filled and holes
/// have appeared. The cheapest slice counts: others were disturbed by what else the machine does.
const SLICE: u64 = 50_000;
const SLICES: u64 = 20;

/// What came of a run.
struct Cost {
    window: u64,
    acks: u64,
    /// For one acknowledgment.
    sender: Duration,
    receiver: Duration,
    /// Ranges on the scoreboard, after the warm-up.
    records: u64,
    retransmitted: u64,
}

/// A segment on its way: when it arrives, and what it holds.
struct Flying {
    at: Time,
    offset: u64,
    payload: shorthaul_wire::PayloadList,
}

struct Path {
    now: Time,
    sender: Sender,
    receiver: Receiver,
    inbox: ByteQueue,
    wire: VecDeque<Flying>,
    /// What the stream is made of: its contents do not matter.
    source: Payload,
    window: u64,
    draws: u64,
    /// When the path is free again.
    free_at: Time,
}

impl Path {
    fn new(window: u64) -> Path {
        let params = ControlParams::new(MSS as u32, Time::ZERO);
        let control = Algorithm::Fixed(Bytes(window)).build(params);
        let config = SenderConfig { pacing: false, ..SenderConfig::new(MSS as u32, control) };
        // What is in order waits behind holes that are repaired once, twice or three times.
        let offered = 8 * window;
        let mut chunk = Chunk::new(64 << 10);
        chunk.append(&[7; 64 << 10]);
        Path {
            now: Time::ZERO,
            sender: Sender::new(Time::ZERO, 1, 1 + offered, config),
            receiver: Receiver::new(1, 1 + offered, MSS as u32, AckPolicy::default()),
            inbox: ByteQueue::new(1),
            wire: VecDeque::new(),
            source: Payload::new(Arc::new(chunk), 0..64 << 10),
            window,
            draws: 0,
            free_at: Time::ZERO,
        }
    }

    fn loses(&mut self) -> bool {
        self.draws += 1;
        Seed(1).nth(self.draws).0.is_multiple_of(LOSS_ONE_IN)
    }

    /// How long a segment occupies the path: a round trip is a window.
    fn gap(&self) -> Duration {
        ROUND_TRIP / (self.window / MSS) as u32
    }

    /// What the sender does when it may: all that its window allows leaves.
    fn send(&mut self) {
        while self.sender.queue().len() < 2 * self.window {
            self.sender.queue_mut().push(self.source.clone());
        }
        while let Some(outgoing) = self.sender.poll_segment(self.now) {
            let (mut offset, mut rest) = (outgoing.offset, outgoing.payload);
            while !rest.is_empty() {
                let mut payload = rest.clone();
                payload.truncate(MSS as usize);
                rest.advance(payload.len());
                let len = payload.len() as u64;
                self.free_at = self.free_at.max(self.now) + self.gap();
                if !self.loses() {
                    self.wire.push_back(Flying { at: self.free_at + ROUND_TRIP, offset, payload });
                }
                offset += len;
            }
        }
    }

    /// Lets a batch of segments arrive, and then the acknowledgments that they draw. Returns how many
    /// these are, and what they cost the sender and the receiver.
    fn step(&mut self) -> (u64, Duration, Duration) {
        let arrivals: Vec<Flying> = self.wire.drain(..BATCH.min(self.wire.len())).collect();
        let mut acks = Vec::with_capacity(BATCH);
        let begun = Instant::now();
        for Flying { at, offset, payload } in arrivals {
            let segment = Segment { offset, payload, fin: false, push: false, timestamps: None };
            self.receiver.on_segment(at, segment, &mut self.inbox, usize::MAX / 2);
            self.inbox.clear(); // read at once
            self.receiver.offer(8 * self.window);
            if self.receiver.wants_ack(at) {
                acks.push((at, self.receiver.ack(), self.receiver.window(), self.receiver.sack_ranges()));
                self.receiver.on_ack_sent();
            }
        }
        let receiver = begun.elapsed();
        let begun = Instant::now();
        for (at, ack, window, sack) in &acks {
            self.now = *at;
            let ack = Ack {
                ack: *ack,
                window: *window,
                seq: 1,
                sack,
                has_data: false,
                ecn_echo: false,
                echo: None,
                sent_before: None,
                waited: None,
                reported: None,
            };
            self.sender.on_timeout(self.now);
            self.sender.on_ack(self.now, &ack);
            self.send();
        }
        let sender = begun.elapsed();
        if self.wire.is_empty() {
            let due = self.sender.poll_timeout().expect("something is outstanding").at;
            self.now = self.now.max(due);
            self.sender.on_timeout(self.now);
            self.send();
        }
        (acks.len() as u64, sender, receiver)
    }
}

fn measure(window: u64) -> Cost {
    let mut path = Path::new(window);
    path.send();
    // Three windows fill the path with holes, repairs, and repairs of repairs.
    let mut warm_up = 3 * window / MSS;
    while warm_up > 0 {
        warm_up = warm_up.saturating_sub(path.step().0.max(1));
    }
    let mut cost = Cost {
        window,
        acks: 0,
        sender: Duration::MAX,
        receiver: Duration::MAX,
        records: path.sender.scoreboard().len() as u64,
        retransmitted: path.sender.stats().retransmitted,
    };
    for _ in 0..SLICES {
        let (mut acks, mut sender, mut receiver) = (0, Duration::ZERO, Duration::ZERO);
        while acks < SLICE {
            let (drawn, sending, receiving) = path.step();
            acks += drawn;
            sender += sending;
            receiver += receiving;
        }
        cost.acks += acks;
        cost.sender = cost.sender.min(sender / acks as u32);
        cost.receiver = cost.receiver.min(receiver / acks as u32);
    }
    assert!(path.sender.scoreboard().audit(), "the scoreboard's sums are wrong");
    assert_eq!(path.sender.stats().timeouts, 0, "a timeout would make the cost that of another state");
    cost.retransmitted = path.sender.stats().retransmitted - cost.retransmitted;
    cost
}

fn main() {
    let windows = match std::env::args().nth(1) {
        Some(bytes) => vec![bytes.parse().expect("a window in bytes")],
        None => vec![1_000_000, 10_000_000, 100_000_000],
    };
    println!("| window | records | acknowledgments | retransmitted | sender, ns each | receiver, ns each |");
    println!("|---:|---:|---:|---:|---:|---:|");
    let costs: Vec<Cost> = windows.into_iter().map(measure).collect();
    let mut rows = Vec::new();
    for cost in &costs {
        let Cost { window, acks, records, retransmitted, .. } = cost;
        let (sender, receiver) = (cost.sender.as_nanos(), cost.receiver.as_nanos());
        let again = retransmitted / MSS;
        println!("| {} | {records} | {acks} | {again} | {sender} | {receiver} |", Bytes(*window));
        rows.push(format!(
            "{{\"window\":{window},\"acks\":{acks},\"sender_ns_per_ack\":{sender},\"receiver_ns_per_ack\":{receiver}}}"
        ));
    }
    println!("{{\"ack_cost\":[{}]}}", rows.join(","));
}
