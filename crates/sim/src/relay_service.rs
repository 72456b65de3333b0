use crate::relay::{Side, payload};
use shorthaul_link::Distribution;
use shorthaul_scenario::{Queues, Relay, Served};
use shorthaul_types::{Deadline, PortId, Seed, Time};
use shorthaul_wire::{Packet, PayloadList};
use std::collections::VecDeque;

/// The processor of a node, or the processors: first come, first served, in each queue.
#[derive(Debug)]
pub(crate) struct Service {
    time: Distribution,
    /// What a packet is, in bytes of payload.
    pub packet: u64,
    seed: Seed,
    discipline: Queues,
    /// What waits, by session, or all in the first.
    queues: Vec<VecDeque<Job>>,
    /// When the first job of a queue is done, by processor, and which queue's.
    processors: Vec<Option<(Time, usize)>>,
    /// The queue that is looked at next, where one processor takes a packet of each in turn.
    turn: usize,
    served: u64,
    /// Packets that TCP has not seen yet, and when it will.
    arrivals: VecDeque<(Time, PortId, Packet)>,
}

/// Bytes of a packet that wait for the processor.
#[derive(Debug)]
pub(crate) struct Job {
    pub session: usize,
    pub from: Side,
    pub bytes: PayloadList,
}

impl Service {
    pub fn new(relay: &Relay, seed: Seed) -> Self {
        Service {
            time: relay.service_time,
            packet: relay.packet.0.max(1),
            seed,
            discipline: relay.queues,
            queues: Vec::new(),
            processors: Vec::new(),
            turn: 0,
            served: 0,
            arrivals: VecDeque::new(),
        }
    }

    pub fn takes_time(&self) -> bool {
        self.time != Distribution::Constant(std::time::Duration::ZERO)
    }

    /// Serves a packet before TCP sees it.
    pub fn hold(&mut self, now: Time, served: Served, port: PortId, packet: Packet) {
        let time = self.draw(payload(&packet));
        let before = self.arrivals.back().map_or(now, |(at, ..)| (*at).max(now));
        let at = if served == Served::AllAtOnce { before.max(now + time) } else { before + time };
        self.arrivals.push_back((at, port, packet));
    }

    /// The packets that TCP has not seen yet.
    pub fn arriving(&self) -> impl Iterator<Item = &Packet> {
        self.arrivals.iter().map(|(.., packet)| packet)
    }

    /// The next packet that TCP is to see by now.
    pub fn next_arrived(&mut self, now: Time) -> Option<(PortId, Packet)> {
        self.arrivals.front().filter(|(at, ..)| *at <= now)?;
        self.arrivals.pop_front().map(|(_, port, packet)| (port, packet))
    }

    /// How long it takes over this many bytes.
    fn draw(&mut self, bytes: usize) -> std::time::Duration {
        let time = self.time.draw(self.seed, self.served).mul_f64(bytes as f64 / self.packet as f64);
        self.served += 1;
        time
    }

    /// Puts a job into its queue, and begins with it if a processor is free.
    pub fn push(&mut self, now: Time, job: Job) {
        let queue = if self.discipline == Queues::One { 0 } else { job.session };
        if self.queues.len() <= queue {
            self.queues.resize_with(queue + 1, VecDeque::new);
        }
        self.queues[queue].push_back(job);
        self.begin_all(now);
    }

    /// Gives each free processor something to do, if there is any.
    pub fn begin_all(&mut self, now: Time) {
        let processors =
            if self.discipline == Queues::PerSessionServedAtOnce { self.queues.len() } else { 1 };
        self.processors.resize(processors, None);
        for processor in 0..processors {
            if self.processors[processor].is_some() {
                continue;
            }
            let count = self.queues.len();
            let queue = match self.discipline {
                Queues::PerSessionServedAtOnce => Some(processor).filter(|own| !self.queues[*own].is_empty()),
                _ => (0..count)
                    .map(|step| (self.turn + step) % count)
                    .find(|own| !self.queues[*own].is_empty()),
            };
            let Some(queue) = queue else { continue };
            self.turn = (queue + 1) % count;
            let bytes = self.queues[queue].front().map_or(0, |job| job.bytes.len());
            let time = self.draw(bytes);
            self.processors[processor] = Some((now + time, queue));
        }
    }

    /// The next job that is done by now. [`begin_all`](Self::begin_all) is to be called after it was dealt with.
    pub fn next_done(&mut self, now: Time) -> Option<Job> {
        let done = self.processors.iter_mut().filter(|own| own.is_some_and(|(at, _)| at <= now));
        let (_, queue) = done.min_by_key(|own| own.map(|(at, _)| at))?.take()?;
        self.queues[queue].pop_front()
    }

    /// When something is done.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        let service = self.processors.iter().flatten().map(|(at, _)| *at).min();
        let service = service.map(|at| Deadline { at, timer: "service" });
        let arrival = self.arrivals.front().map(|(at, ..)| Deadline { at: *at, timer: "arrival" });
        Deadline::earliest(service, arrival)
    }
}
