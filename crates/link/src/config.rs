use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use shorthaul_types::{BitRate, Bytes, Seed};

use crate::{Distribution, LossModel, RouteChanges, Trace};

/// What a link is like, in one direction.
///
/// A packet passes these parts in this order: queue limit, DRX wake-up, serialization at the rate (with
/// the ARQ delay, interrupted by outages), loss, aggregation, propagation delay with that of the route and
/// jitter, and reordering. The default is a link that does nothing: infinitely fast, no delay, no queue limit.
///
/// Everything that is a function of time (rate schedule, trace, outages, on/off loss) counts time
/// from the start of the link; see [`Link::starting_at`](crate::Link::starting_at).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkConfig {
    /// How fast packets are serialized, one after the other.
    pub rate: Rate,
    /// Bytes that every packet takes on the link beyond its size: link-layer header, trailer, gaps.
    /// They cost time and are not counted in queue limits or statistics.
    pub overhead: Bytes,
    /// How much may wait for serialization; what does not fit is dropped at the tail.
    pub queue: QueueLimit,
    /// Propagation delay, added after serialization.
    pub delay: Duration,
    /// Random delay in addition to `delay`.
    pub jitter: Option<Jitter>,
    /// Paths that take turns, each with a delay in addition to `delay`.
    pub route_changes: Option<RouteChanges>,
    /// Random loss. A lost packet has taken its place in the queue and its time on the link: it is
    /// damaged on the way, not left out.
    pub loss: LossModel,
    /// The probability (0 to 1) that a packet is sent twice. The copy follows its original through the
    /// queue and is left out where the queue has no room for it. A copy is never lost at random, and a
    /// lost packet has no copy.
    pub duplicate: f64,
    /// What the link layer spends on recovering a packet. Order is kept: the packets behind wait to be sent (PTE §4), or, with selective
    /// repeat, to be delivered.
    pub arq: Option<Arq>,
    /// Times during which nothing gets through.
    pub outages: Outages,
    /// Packets held back so that later ones overtake them.
    pub reordering: Option<Reordering>,
    /// Packets that come out in groups.
    pub aggregation: Option<FrameAggregation>,
    /// A penalty for the first packet after idle.
    pub drx: Option<Drx>,
}

/// How fast a link serializes.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Rate {
    /// Serialization takes no time.
    #[default]
    Unlimited,
    /// One rate for ever. A rate of zero sends nothing.
    Fixed(BitRate),
    /// A rate that changes at given times, also in the middle of a packet.
    Schedule {
        /// How long each rate lasts, from the start of the link on.
        phases: Vec<(Duration, BitRate)>,
        /// Start over after the last phase; otherwise the last rate goes on for ever.
        repeats: bool,
    },
    /// Delivery opportunities from a trace, with the semantics of mahimahi; see [`Trace`].
    Trace(Arc<Trace>),
}

impl Rate {
    /// The mean over a long time, or over the phases of a schedule; `None` where there is no limit.
    pub fn mean(&self) -> Option<BitRate> {
        match self {
            Rate::Unlimited => None,
            Rate::Fixed(rate) => Some(*rate),
            Rate::Schedule { phases, .. } => {
                let whole: f64 = phases.iter().map(|(lasts, _)| lasts.as_secs_f64()).sum();
                let bits: f64 =
                    phases.iter().map(|(lasts, rate)| lasts.as_secs_f64() * rate.bits_per_sec() as f64).sum();
                Some(BitRate::from_bits_per_sec((bits / whole.max(1e-9)) as u64))
            }
            Rate::Trace(trace) => Some(trace.mean_rate()),
        }
    }
}

/// How much may be in the queue. The packet that is being serialized counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueLimit {
    /// No limit.
    #[default]
    Unlimited,
    /// At most this many packets; at least one.
    Packets(usize),
    /// At most this many bytes (of packets, without the link's overhead).
    Bytes(u64),
}

/// Random delay in addition to the propagation delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    /// Drawn for every packet, or once for every aggregate where packets come in aggregates.
    pub distribution: Distribution,
    /// True: a packet whose draw is small waits for those before it, as on a radio link that delivers
    /// in sequence. False: it overtakes them, as on a path with parallel routes.
    pub keeps_order: bool,
}

/// What ARQ, the link layer's own retransmission, costs, in time at the head of the queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arq {
    /// A random delay for a random share of the packets (PTE §4 has Pareto with a mean of 0.5 s).
    Delay {
        /// How long it holds up a packet that needs it.
        distribution: Distribution,
        /// The share of packets that need one, 0 to 1.
        share: f64,
    },
    /// A radio link protocol: packets are cut into radio blocks, and every block that is in error is
    /// retransmitted until it arrives, or this many times. The error rate changes with a two-state Markov chain
    /// in continuous time (PTE §5 names this as its future model, after Bao).
    RadioBlocks {
        /// The payload of one block; above zero.
        block: Bytes,
        /// What sending one block again costs.
        retry: Duration,
        /// How often a block is retransmitted at most; when that was in vain too, the packet is lost. `None`
        /// goes on until it arrives.
        retries: Option<u32>,
        /// The block error rate in the good phase, below 1.
        error_good: f64,
        /// The block error rate in the bad phase, below 1.
        error_bad: f64,
        /// The mean length of the good phase.
        good: Duration,
        /// The mean length of the bad phase.
        bad: Duration,
    },
    /// A radio link protocol with selective repeat, as RLP of IS-99 and cdma2000 is, with what Bao's evaluation of it and those after
    /// him vary (PTE §5 names it as its future model): packets are cut into frames, and the receiver asks for those that are missing, in
    /// rounds. What follows is sent meanwhile, and is delivered in order when what was missing has come. A frame that is asked for
    /// again goes before new ones, and takes its time on the link. What is still missing after the last round is given up: its packet is
    /// lost, and those behind it are delivered. Errors change with a two-state Markov chain in continuous time.
    ///
    /// Requests are never lost, and two frames that are sent again at the same time do not delay each other's arrival.
    SelectiveRepeat {
        /// The payload of one frame; above zero.
        frame: Bytes,
        /// From the end of a frame in error until the one that the receiver asks for begins to be sent.
        round_trip: Duration,
        /// How many copies of a frame each round brings.
        rounds: NakRounds,
        /// So many frames may be sent that have not been delivered in order; at least one. `None` is without limit.
        window: Option<u32>,
        /// The frame error rate in the good phase, below 1.
        error_good: f64,
        /// The frame error rate in the bad phase, below 1.
        error_bad: f64,
        /// The mean length of the good phase.
        good: Duration,
        /// The mean length of the bad phase.
        bad: Duration,
    },
}

/// How many copies of a missing frame the receiver asks for in each round: one, then two, then three in the usual scheme (1, 2, 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NakRounds {
    copies: [u8; NakRounds::MOST],
    count: u8,
}

impl NakRounds {
    /// So many rounds there may be.
    pub const MOST: usize = 16;

    /// These rounds; `None` if there are more than [`MOST`](Self::MOST), or one is without copies.
    pub fn new(rounds: &[u8]) -> Option<Self> {
        let mut copies = [0; NakRounds::MOST];
        copies.get_mut(..rounds.len())?.copy_from_slice(rounds);
        let is_sound = rounds.iter().all(|copies| *copies > 0);
        is_sound.then_some(NakRounds { copies, count: rounds.len() as u8 })
    }

    /// The copies of each round, in order.
    pub fn copies(&self) -> &[u8] {
        &self.copies[..usize::from(self.count)]
    }
}

/// When nothing gets through, and what becomes of the packets.
///
/// At first the link layer holds what it has and goes on after the outage: packets are delayed. Once
/// an outage has lasted `hold`, it gives up: the link sends again at its rate, but into the void, and
/// loses what it sends until the outage ends. So a short outage delays, and a long one loses in a burst.
/// `hold: Duration::MAX` makes every outage delay only; `Duration::ZERO` makes every outage lose.
#[derive(Clone, Debug, PartialEq)]
pub struct Outages {
    /// When they happen.
    pub when: OutageTimes,
    /// How long an outage may last before packets are lost.
    pub hold: Duration,
}

impl Default for Outages {
    fn default() -> Self {
        Outages { when: OutageTimes::Never, hold: Duration::MAX }
    }
}

/// When outages happen.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum OutageTimes {
    /// Never.
    #[default]
    Never,
    /// At given times.
    Listed(Vec<Outage>),
    /// At random times.
    Random {
        /// The mean time from the end of one to the beginning of the next; exponentially distributed.
        mean_gap: Duration,
        /// How long each lasts.
        lasts: Distribution,
        /// The seed of the process where several links fail together, such as both directions of one
        /// radio; `None` derives it from the link's own seed.
        shared: Option<Seed>,
    },
    /// At regular times, as where a terminal changes satellites: one begins after each `every`.
    Regular {
        /// From the beginning of one to the beginning of the next; the first is that long after the start of the link.
        every: Duration,
        /// How long each lasts; nine tenths of `every` at most, so that something gets through.
        lasts: Distribution,
        /// As of random ones.
        shared: Option<Seed>,
    },
}

/// One outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// When it begins, counted from the start of the link.
    pub at: Duration,
    /// How long it lasts.
    pub lasts: Duration,
}

/// A share of the packets is held back and overtaken by those behind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reordering {
    /// The share that is held back, 0 to 1.
    pub share: f64,
    /// For how long.
    pub by: Duration,
}

/// Packets that follow each other leave the link in groups. The first after a pause of `wait` goes at
/// once; each of those behind waits for others. A group travels together, that is, with the same jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameAggregation {
    /// The number of packets with which the group leaves; at least one.
    pub size: usize,
    /// How long its first packet waits at most.
    pub wait: Duration,
}

/// What it costs to wake an idle link, such as setting up a temporary block flow (AGG §II).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drx {
    /// How long it sends nothing until it falls asleep.
    pub idle: Duration,
    /// How long waking up takes, before the first packet is serialized.
    pub penalty: Distribution,
}

impl LinkConfig {
    /// Whether packets come out in the order in which they went in.
    pub fn keeps_order(&self) -> bool {
        self.jitter.is_none_or(|jitter| jitter.keeps_order)
            && self.route_changes.is_none()
            && self.reordering.is_none_or(|r| r.share <= 0.0)
    }
}
