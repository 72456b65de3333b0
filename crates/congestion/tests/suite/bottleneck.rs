//! Flows over one bottleneck: a rate, a propagation delay, a drop-tail buffer and random loss.
//!
//! The link is the textbook's. A segment enters the queue the moment it is sent, or is dropped if it
//! does not fit; it leaves at the link's rate, may be lost on its way, and is otherwise acknowledged
//! one propagation round trip later. Nothing is reordered and no ACK is lost. The senders always have
//! data. Each is window, pacer, delivery rate and RFC 6937 around the control under test, and takes
//! a transmission for lost once the third after it is acknowledged. The same specification gives the
//! same run, to the nanosecond.
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::time::Duration;

use shorthaul_congestion::{
    AckSample, Algorithm, CongestionEvent, Control, ControlParams, DeliveryRate, Pacer, RttConfig,
    RttEstimator, SendState,
};
use shorthaul_types::{BitRate, Bytes, Seed, Time};

/// Payload of a segment; headers are not counted.
pub const MSS: u64 = 1000;

/// The path that all flows share.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub rate: BitRate,
    /// Round-trip propagation delay.
    pub rtt: Duration,
    /// The buffer in bandwidth-delay products.
    pub buffer: f64,
    /// Probability that a segment is lost behind the queue.
    pub loss: f64,
    pub seed: Seed,
}

impl Link {
    pub fn new(megabits: u64, rtt_ms: u64) -> Self {
        let rate = BitRate::from_bits_per_sec(megabits * 1_000_000);
        Link { rate, rtt: Duration::from_millis(rtt_ms), buffer: 1.0, loss: 0.0, seed: Seed(1) }
    }

    /// Rate times propagation delay, in bytes.
    pub fn bdp(&self) -> u64 {
        self.rate.bytes_in(self.rtt).0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The ACK of transmission `number` of `flow` arrives.
    Ack { flow: usize, number: u64 },
    /// `flow` starts, or may send, or its retransmission timer may have expired.
    Wake { flow: usize },
}

/// All of it.
pub struct Bottleneck {
    pub now: Time,
    pub link: Link,
    pub flows: Vec<Flow>,
    /// Segments that did not fit into the queue.
    pub dropped: u64,
    /// The next segment is lost, whatever its fate would have been.
    pub lose_next: bool,
    /// When the queue will be empty.
    free_at: Time,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    scheduled: u64,
    draws: u64,
}

enum State {
    Open,
    Recovery { end: u64, prr: Prr },
    Loss { end: u64 },
}

/// Proportional rate reduction, RFC 6937 §3.
struct Prr {
    recover_flight: u64,
    delivered: u64,
    out: u64,
    allowance: u64,
}

struct Sent {
    number: u64,
    segment: u64,
    state: SendState,
}

/// One sender and its receiver.
pub struct Flow {
    pub control: Box<dyn Control>,
    /// Bytes delivered.
    pub delivered: u64,
    /// Transmissions believed lost.
    pub lost: u64,
    /// Times that loss or RTO was answered.
    pub recoveries: u64,
    pub timeouts: u64,
    pub rtt: RttEstimator,
    state: State,
    rate: DeliveryRate,
    pacer: Pacer,
    /// What is on its way, in the order of transmission.
    outstanding: VecDeque<Sent>,
    next_number: u64,
    /// Segments of the stream: cumulatively acknowledged, received beyond that, to be retransmitted.
    una: u64,
    received: BTreeSet<u64>,
    missing: BTreeSet<u64>,
    nxt: u64,
    window_limited_until: u64,
    started: Time,
    rto_at: Option<Time>,
    wake_at: Option<Time>,
}

impl Flow {
    fn new(control: Box<dyn Control>, started: Time) -> Self {
        Flow {
            control,
            delivered: 0,
            lost: 0,
            recoveries: 0,
            timeouts: 0,
            rtt: RttEstimator::new(RttConfig::default()),
            state: State::Open,
            rate: DeliveryRate::new(started),
            pacer: Pacer::new(MSS as u32),
            outstanding: VecDeque::new(),
            next_number: 0,
            una: 0,
            received: BTreeSet::new(),
            missing: BTreeSet::new(),
            nxt: 0,
            window_limited_until: 0,
            started,
            rto_at: None,
            wake_at: None,
        }
    }

    pub fn in_flight(&self) -> u64 {
        self.outstanding.len() as u64 * MSS
    }

    /// Losses are being repaired.
    pub fn in_recovery(&self) -> bool {
        !matches!(self.state, State::Open)
    }

    fn credit(&self) -> u64 {
        match &self.state {
            State::Recovery { prr, .. } if self.control.uses_prr() => prr.allowance,
            _ => self.control.window().saturating_sub(self.in_flight()),
        }
    }

    /// What was sent longest ago is believed lost.
    fn mark_lost(&mut self, now: Time) {
        let sent = self.outstanding.pop_front().expect("only what is outstanding is lost");
        let start = sent.segment * MSS;
        self.lost += 1;
        self.missing.insert(sent.segment);
        self.control.on_loss(&self.rate.on_lost(now, start..start + MSS, &sent.state));
    }

    fn on_ack(&mut self, now: Time, number: u64) {
        let in_flight_before = self.in_flight();
        let una_before = self.una;
        let Ok(at) = self.outstanding.binary_search_by_key(&number, |sent| sent.number) else { return };
        let sent = self.outstanding.remove(at).expect("it was found there");
        self.rate.on_delivered(now, MSS, &sent.state);
        self.delivered += MSS;
        let rtt = now.saturating_since(sent.state.sent_at());
        self.rtt.on_sample(now, rtt);
        self.rtt.reset_backoff();
        self.rto_at = Some(now + self.rtt.rto());
        self.received.insert(sent.segment);
        while self.received.remove(&self.una) {
            self.una += 1;
        }

        let lost = self.lost;
        while self.outstanding.front().is_some_and(|sent| sent.number + 3 <= number) {
            self.mark_lost(now);
        }
        if self.lost > lost && matches!(self.state, State::Open) {
            let flight = (self.nxt - self.una) * MSS;
            self.control.on_congestion(now, CongestionEvent::Loss, flight);
            let prr = Prr { recover_flight: flight.max(1), delivered: 0, out: 0, allowance: MSS };
            self.state = State::Recovery { end: self.nxt, prr };
            self.recoveries += 1;
        }
        if let State::Recovery { end, .. } | State::Loss { end } = self.state
            && self.una >= end
        {
            self.control.on_recovered(now);
            self.state = State::Open;
        }
        let rate = self.rate.take_sample(now, self.rtt.min_rtt());
        let in_flight = self.in_flight();
        self.control.on_ack(&AckSample {
            now,
            delivered: MSS,
            newly_acked: (self.una - una_before) * MSS,
            in_flight_before,
            in_flight,
            rtt: Some(rtt),
            waited: None,
            reported: None,
            rate,
            cwnd_limited: una_before <= self.window_limited_until,
            in_recovery: matches!(self.state, State::Recovery { .. }),
        });
        if self.control.holds_back() {
            self.rate.on_app_limited(in_flight);
        }
        if let State::Recovery { prr, .. } = &mut self.state {
            prr.on_ack(in_flight, self.control.ssthresh().min(self.control.window()));
        }
        self.set_pace();
    }

    fn check_timer(&mut self, now: Time) {
        if self.outstanding.is_empty() || self.rto_at.is_none_or(|at| now < at) {
            return;
        }
        let flight = (self.nxt - self.una) * MSS;
        while !self.outstanding.is_empty() {
            self.mark_lost(now);
        }
        self.control.on_timeout(now, flight);
        self.rtt.back_off();
        self.timeouts += 1;
        self.state = State::Loss { end: self.nxt };
        self.rto_at = Some(now + self.rtt.rto());
        self.set_pace();
    }

    fn set_pace(&mut self) {
        self.pacer.set_rate(self.control.pacing_rate_over(self.rtt.srtt()));
    }
}

impl Prr {
    fn on_ack(&mut self, pipe: u64, target: u64) {
        self.delivered += MSS;
        self.allowance = if pipe > target {
            (self.delivered * target).div_ceil(self.recover_flight).saturating_sub(self.out)
        } else {
            (target - pipe).min(self.delivered.saturating_sub(self.out).max(MSS) + MSS)
        };
    }
}

impl Bottleneck {
    /// A link without flows.
    pub fn new(link: Link) -> Self {
        Bottleneck {
            now: Time::ZERO,
            link,
            flows: Vec::new(),
            dropped: 0,
            lose_next: false,
            free_at: Time::ZERO,
            events: BinaryHeap::new(),
            scheduled: 0,
            draws: 0,
        }
    }

    /// A link with one flow of the algorithm `name`.
    pub fn with(name: &str, link: Link) -> Self {
        let mut path = Bottleneck::new(link);
        path.add(name, Time::ZERO);
        path
    }

    /// Adds a flow that starts at `start`.
    pub fn add(&mut self, name: &str, start: Time) {
        let index = self.flows.len();
        let seed = self.link.seed.derive("flow").nth(index as u64);
        let params =
            ControlParams { initial_window: 10 * MSS, seed, ..ControlParams::new(MSS as u32, start) };
        let algorithm: Algorithm = name.parse().expect("a known algorithm");
        self.flows.push(Flow::new(algorithm.build(params), start));
        self.wake(index, start);
    }

    /// Bytes that wait in the buffer.
    pub fn queue(&self) -> u64 {
        self.link.rate.bytes_in(self.free_at.saturating_since(self.now)).0
    }

    /// Runs until `end`.
    pub fn run_until(&mut self, end: Time) {
        while let Some(&Reverse((at, _, event))) = self.events.peek()
            && at <= end
        {
            self.events.pop();
            self.now = at;
            if let Event::Wake { flow } = event
                && self.flows[flow].wake_at != Some(at)
            {
                continue; // an earlier one was asked for meanwhile
            }
            let (Event::Ack { flow, .. } | Event::Wake { flow }) = event;
            match event {
                Event::Ack { number, .. } => self.flows[flow].on_ack(at, number),
                Event::Wake { .. } => {
                    self.flows[flow].wake_at = None;
                    self.flows[flow].check_timer(at);
                }
            }
            self.send(flow);
        }
        self.now = end;
    }

    /// Runs until `end` and calls `see` every `step`, after the first.
    pub fn watch(&mut self, end: Time, step: Duration, mut see: impl FnMut(&Bottleneck)) {
        while self.now < end {
            self.run_until((self.now + step).min(end));
            see(self);
        }
    }

    /// Bits per second that `flow` delivers until `end`, as a share of the link's rate.
    pub fn share_until(&mut self, flow: usize, end: Time) -> f64 {
        let (from, before) = (self.now, self.flows[flow].delivered);
        self.run_until(end);
        let bits = (self.flows[flow].delivered - before) as f64 * 8.0;
        bits / end.saturating_since(from).as_secs_f64() / self.link.rate.bits_per_sec() as f64
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((at, self.scheduled, event)));
    }

    fn send(&mut self, index: usize) {
        let now = self.now;
        if now < self.flows[index].started {
            return;
        }
        loop {
            let flow = &mut self.flows[index];
            if let Some(at) = flow.pacer.next_send(now, MSS) {
                self.wake(index, at);
                break;
            }
            if flow.credit() < MSS {
                flow.window_limited_until = flow.nxt;
                break;
            }
            if flow.outstanding.is_empty() {
                flow.control.on_transmit_start(now);
                flow.set_pace();
                flow.rto_at = Some(now + flow.rtt.rto());
            }
            self.transmit(index);
        }
        if let Some(at) = self.flows[index].rto_at {
            self.wake(index, at);
        }
    }

    fn wake(&mut self, index: usize, at: Time) {
        let flow = &mut self.flows[index];
        if at != Time::MAX && flow.wake_at.is_none_or(|wake| wake > at) {
            flow.wake_at = Some(at);
            self.schedule(at, Event::Wake { flow: index });
        }
    }

    fn transmit(&mut self, index: usize) {
        let now = self.now;
        let flow = &mut self.flows[index];
        let segment = flow.missing.pop_first().unwrap_or_else(|| {
            flow.nxt += 1;
            flow.nxt - 1
        });
        let number = flow.next_number;
        flow.next_number += 1;
        let state = flow.rate.on_send(now, flow.in_flight());
        flow.outstanding.push_back(Sent { number, segment, state });
        flow.pacer.on_send(now, MSS);
        if let State::Recovery { prr, .. } = &mut flow.state {
            prr.out += MSS;
            prr.allowance = prr.allowance.saturating_sub(MSS);
        }

        let buffer = ((self.link.bdp() as f64 * self.link.buffer) as u64).max(MSS);
        if self.queue() > buffer {
            self.dropped += 1;
            return;
        }
        self.free_at = self.free_at.max(now) + self.link.rate.time_to_send(Bytes(MSS));
        self.draws += 1;
        let draw = self.link.seed.derive("loss").nth(self.draws).0;
        let lost = std::mem::take(&mut self.lose_next) || (draw as f64 / u64::MAX as f64) < self.link.loss;
        if !lost {
            self.schedule(self.free_at + self.link.rtt, Event::Ack { flow: index, number });
        }
    }
}
