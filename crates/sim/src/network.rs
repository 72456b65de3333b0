//! The event loop: frames over links, packets into machines and out of them.
use crate::agenda::Agenda;
use crate::cross::CrossSource;
use crate::frame::{Frame, Packets};
use crate::recorder::Recorder;
use crate::route::{Routes, node_of};
use crate::segmentation::cut_super_segments;
use crate::station::Station;
use crate::trace_hash::TraceHash;
use shorthaul_link::{Cell, Departure, DropReason, Link, LinkStats, Offered, QueueLimit};
use shorthaul_scenario::NodeIndex;
use shorthaul_types::{Bytes, PortId, Time};
use shorthaul_wire::{Packet, Transport, TxBatch};
use std::time::Duration;

/// More events than this at one and the same time are a loop that will not end.
const STUCK: u64 = 20_000_000;

/// One direction of a link, by its number: twice the link's, and one more for the direction `down`.
pub(crate) type DirectionIndex = u32;

/// A network that runs.
pub(crate) struct Network {
    pub now: Time,
    agenda: Agenda,
    pub ways: Vec<DirectionState>,
    pub nodes: Vec<NodeState>,
    pub cross: Vec<CrossSource>,
    pub cells: Vec<CellState>,
    pub packets: Packets,
    out: TxBatch,
    pub hash: TraceHash,
    pub events: u64,
    /// Events since time last moved.
    at_once: u64,
    pub recorder: Option<Box<Recorder>>,
    pub problems: Problems,
}

/// One direction of a link.
pub(crate) struct DirectionState {
    pub link: Link<Frame>,
    pub name: String,
    /// Where it ends.
    pub to: NodeIndex,
    /// Which port of the machine at its end that is.
    pub port: PortId,
    pub mtu: u32,
    pub may_duplicate: bool,
    /// Where its packets pass the channel of a cell first: which, and as which user.
    pub cell: Option<(usize, usize)>,
}

/// A radio cell, before the links to its users.
pub(crate) struct CellState {
    pub cell: Cell<Frame>,
    /// The way to each user.
    pub ways: Vec<DirectionIndex>,
}

/// A node: what it does, and where it sends.
pub(crate) struct NodeState {
    pub station: Station,
    pub routes: Routes,
    /// IP bytes that its machine has sent.
    pub sent_bytes: u64,
    /// And in how many packets.
    pub sent_packets: u64,
}

/// What must not happen, counted, with the first of each kind in words.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    list: Vec<(&'static str, u64, String)>,
}

impl Problems {
    pub fn add(&mut self, kind: &'static str, example: impl FnOnce() -> String) {
        match self.list.iter_mut().find(|(known, ..)| *known == kind) {
            Some((_, count, _)) => *count += 1,
            None => self.list.push((kind, 1, example())),
        }
    }

    /// Each kind in a sentence.
    pub fn sentences(&self) -> Vec<String> {
        let sentence = |(kind, count, example): &(&str, u64, String)| match count {
            1 => format!("{kind}: {example}"),
            _ => format!("{kind}, {count} times, first: {example}"),
        };
        self.list.iter().map(sentence).collect()
    }
}

/// The run cannot go on: something wants to be called again and again at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stuck {
    pub at: Time,
    pub who: String,
}

impl Network {
    pub fn new(
        ways: Vec<DirectionState>,
        nodes: Vec<NodeState>,
        cross: Vec<CrossSource>,
        cells: Vec<CellState>,
    ) -> Self {
        let mut network = Network {
            now: Time::ZERO,
            agenda: Agenda::new(ways.len() + nodes.len() + cross.len() + cells.len()),
            ways,
            nodes,
            cross,
            cells,
            packets: Packets::default(),
            out: TxBatch::new(),
            hash: TraceHash::default(),
            events: 0,
            at_once: 0,
            recorder: None,
            problems: Problems::default(),
        };
        for node in 0..network.nodes.len() {
            network.turn(NodeIndex(node));
        }
        for index in 0..network.cross.len() {
            let next = network.cross[index].next();
            network.agenda.set(network.cross_source(index), next);
        }
        network
    }

    fn node_source(&self, node: NodeIndex) -> u32 {
        (self.ways.len() + node.0) as u32
    }

    fn cross_source(&self, index: usize) -> u32 {
        (self.ways.len() + self.nodes.len() + index) as u32
    }

    fn cell_source(&self, index: usize) -> u32 {
        (self.ways.len() + self.nodes.len() + self.cross.len() + index) as u32
    }

    /// Lets everything happen up to and at `end`.
    pub fn run_until(&mut self, end: Time) -> Result<(), Stuck> {
        let (ways, nodes, cross) = (self.ways.len(), self.nodes.len(), self.cross.len());
        while let Some((at, source)) = self.agenda.first().filter(|(at, _)| *at <= end) {
            self.events += 1;
            self.at_once = if at > self.now { 0 } else { self.at_once + 1 };
            if self.at_once > STUCK {
                return Err(Stuck { at, who: self.name_of(source as usize) });
            }
            self.now = at;
            self.hash.mix(at.as_nanos() << 16 ^ u64::from(source));
            let source = source as usize;
            if source < ways {
                self.deliver(source);
            } else if source < ways + nodes {
                let node = NodeIndex(source - ways);
                if let Some(machine) = self.nodes[node.0].station.machine() {
                    machine.handle_timeout(at);
                }
                self.turn(node);
            } else if source < ways + nodes + cross {
                self.emit(source - ways - nodes);
            } else {
                self.leave_cell(source - ways - nodes - cross);
            }
        }
        self.now = self.now.max(end);
        Ok(())
    }

    fn name_of(&self, source: usize) -> String {
        match (self.ways.get(source), source.checked_sub(self.ways.len())) {
            (Some(way), _) => format!("link {}", way.name),
            (None, Some(node)) if node < self.nodes.len() => {
                let timer = self.nodes[node].station.timer();
                format!("node {node}, timer {timer}")
            }
            _ => "competing traffic or a cell".to_owned(),
        }
    }

    /// The first frame of a link has come out.
    #[inline]
    fn deliver(&mut self, way: usize) {
        let state = &mut self.ways[way];
        let Some((_, frame)) = state.link.pop(self.now) else {
            // a frame has been put together, and nothing of it is due yet
            let next = state.link.next_delivery();
            self.agenda.set(way as u32, next);
            return;
        };
        let (node, port) = (state.to, state.port);
        let next = state.link.next_delivery();
        self.agenda.set(way as u32, next);
        if let Some(recorder) = &mut self.recorder {
            recorder.delivered(self.now, way, frame, &self.packets);
        }
        self.arrive(node, port, frame);
    }

    fn arrive(&mut self, node: NodeIndex, port: PortId, frame: Frame) {
        let here = frame.destination() == node;
        let state = &mut self.nodes[node.0];
        if !state.station.takes(here) || frame.packet == Frame::DATAGRAM {
            if !here {
                return self.forward(node, frame);
            }
            if frame.packet != Frame::DATAGRAM {
                self.problems.add("a packet to a router", || format!("at {}, node {}", self.now, node.0));
                self.packets.discard(frame.packet);
            }
            return;
        }
        let Some(packet) = self.packets.take(frame.packet) else { return };
        hash_packet(&mut self.hash, &packet);
        if let Some(machine) = state.station.machine() {
            machine.handle_packet(self.now, port, packet);
        }
        self.turn(node);
    }

    /// Lets a machine send what it has to send, and asks when to come again.
    fn turn(&mut self, node: NodeIndex) {
        let mut out = std::mem::take(&mut self.out);
        while let Some(machine) = self.nodes[node.0].station.machine() {
            let more = machine.poll_transmit(self.now, &mut out);
            cut_super_segments(&mut out);
            for (_, packet) in out.drain(..) {
                self.transmit(node, packet);
            }
            if !more {
                break;
            }
        }
        self.out = out;
        let deadline = self.nodes[node.0].station.machine().and_then(|machine| machine.poll_timeout());
        let at = deadline.map(|deadline| deadline.at.max(self.now));
        self.agenda.set(self.node_source(node), at);
    }

    fn transmit(&mut self, node: NodeIndex, packet: Packet) {
        hash_packet(&mut self.hash, &packet);
        let Some(to) = node_of(packet.ip.dst()).filter(|to| to.0 < self.nodes.len()) else {
            self.problems.add("a packet to nowhere", || format!("{:?}", packet.ip));
            return;
        };
        let size = packet.wire_len() as u32;
        self.nodes[node.0].sent_bytes += u64::from(size);
        self.nodes[node.0].sent_packets += 1;
        let packet = self.packets.put(packet);
        self.forward(node, Frame { to: to.0 as u32, size, packet });
    }

    /// Puts a frame onto the link that leads to its destination, or into the cell before it.
    #[inline]
    fn forward(&mut self, node: NodeIndex, frame: Frame) {
        let Some(way) = self.nodes[node.0].routes.to(frame.destination()) else {
            self.problems.add("no way", || format!("from node {} to node {}", node.0, frame.to));
            self.packets.discard(frame.packet);
            return;
        };
        let state = &mut self.ways[way as usize];
        if frame.size > state.mtu {
            let DirectionState { name, mtu, .. } = state;
            let (name, mtu) = (&*name, *mtu);
            self.problems.add("a packet longer than the MTU", || {
                format!("{} bytes on {name}, which takes {mtu}", frame.size)
            });
            self.packets.discard(frame.packet);
            return;
        }
        match state.cell {
            Some((cell, user)) => self.enter_cell(cell, user, frame),
            None => self.enter_link(way, frame),
        }
    }

    /// Queues a frame for the channel of a cell.
    fn enter_cell(&mut self, index: usize, user: usize, frame: Frame) {
        let now = self.now;
        let CellState { cell, ways } = &mut self.cells[index];
        let way = ways[user];
        let verdict = cell.push(now, user, Bytes(u64::from(frame.size)), frame);
        let next = cell.next_event();
        self.agenda.set(self.cell_source(index), next);
        if let Offered::Dropped { reason, .. } = verdict {
            self.drop_frame(way, frame, reason);
        }
    }

    /// A block of a cell has ended: what it completes goes on to the links.
    fn leave_cell(&mut self, index: usize) {
        while let Some(Departure { user, item: frame, is_lost, .. }) = self.cells[index].cell.pop(self.now) {
            let way = self.cells[index].ways[user];
            if is_lost {
                self.drop_frame(way, frame, DropReason::Loss);
            } else {
                self.enter_link(way, frame);
            }
        }
        let next = self.cells[index].cell.next_event();
        self.agenda.set(self.cell_source(index), next);
    }

    fn drop_frame(&mut self, way: DirectionIndex, frame: Frame, reason: DropReason) {
        if let Some(recorder) = &mut self.recorder {
            recorder.offered(self.now, way as usize, frame, Some(reason), &self.packets);
        }
        self.hash.mix(drop_code(reason));
        self.packets.discard(frame.packet);
    }

    #[inline]
    fn enter_link(&mut self, way: DirectionIndex, frame: Frame) {
        let now = self.now;
        let state = &mut self.ways[way as usize];
        let size = Bytes(u64::from(frame.size));
        let verdict = if state.may_duplicate {
            let before = state.link.stats().duplicated;
            let verdict = state.link.push(now, size, frame);
            if state.link.stats().duplicated > before {
                self.packets.share(frame.packet);
            }
            verdict
        } else {
            state.link.push_once(now, size, frame)
        };
        let next = state.link.next_delivery();
        self.agenda.set(way, next);
        if let Offered::Dropped { reason, .. } = verdict {
            self.drop_frame(way, frame, reason);
        } else if let Some(recorder) = &mut self.recorder {
            recorder.offered(now, way as usize, frame, None, &self.packets);
        }
    }

    /// A datagram of competing traffic enters.
    fn emit(&mut self, index: usize) {
        let source = &mut self.cross[index];
        let (from, to, size) = (source.from, source.to, source.size);
        source.advance();
        let next = source.next();
        self.agenda.set(self.cross_source(index), next);
        self.forward(from, Frame { to: to.0 as u32, size, packet: Frame::DATAGRAM });
    }
}

/// What can be seen of a way, with the cell before it.
impl Network {
    fn cell_of(&self, way: &DirectionState) -> Option<(&Cell<Frame>, usize)> {
        way.cell.map(|(cell, user)| (&self.cells[cell].cell, user))
    }

    /// Packets in the queue of a way.
    pub fn queue_len(&self, way: &DirectionState) -> usize {
        let in_cell = self.cell_of(way).map_or(0, |(cell, user)| cell.queue_len(user));
        way.link.queue_len(self.now) + in_cell
    }

    /// How long a packet would wait there, in seconds.
    pub fn queue_delay(&self, way: &DirectionState) -> f64 {
        let in_cell = self.cell_of(way).map_or(Duration::ZERO, |(cell, user)| cell.queue_delay(user));
        (way.link.queue_delay(self.now) + in_cell).as_secs_f64()
    }

    /// What the cell before a way has done for it, if there is one.
    pub fn cell_stats(&self, way: &DirectionState) -> Option<&LinkStats> {
        self.cell_of(way).map(|(cell, user)| cell.stats(user))
    }

    /// Of each user of each cell: the way there, what was done, how many packets are inside, and the limit.
    pub fn cell_queues(&self) -> Vec<(String, LinkStats, u64, QueueLimit)> {
        let of = |way: &DirectionState| {
            let (cell, user) = self.cell_of(way)?;
            let limit = cell.config().users[user].queue;
            Some((way.name.clone(), *cell.stats(user), cell.queue_len(user) as u64, limit))
        };
        self.ways.iter().filter_map(of).collect()
    }
}

fn drop_code(reason: DropReason) -> u64 {
    match reason {
        DropReason::QueueFull => 1,
        DropReason::Loss => 2,
        DropReason::Outage => 3,
    }
}

#[inline]
fn hash_packet(hash: &mut TraceHash, packet: &Packet) {
    match &packet.transport {
        Transport::Tcp(segment) => {
            let header = &segment.header;
            hash.mix(u64::from(header.seq.0) << 32 | u64::from(header.ack.0));
            let (flags, window) = (u64::from(header.flags.0), u64::from(header.window));
            hash.mix((segment.payload.len() as u64) << 32 | flags << 16 | window);
        }
        _ => hash.mix(packet.wire_len() as u64),
    }
}
