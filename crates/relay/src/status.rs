use crate::discovery::Capacity;
use crate::pump::AllWaits;
use shorthaul_types::{BitRate, Bytes};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Sessions on which something moved are counted in spans of this length.
const SPAN: Duration = Duration::from_millis(100);
/// What an average packet carries, in bits.
const PACKET: u64 = 1448 * 8;
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// What a node says of itself, to its metrics and to those who ask the way (PTS-3, PTS-5): written by
/// the sessions, read by whoever answers. Every field can be read without waiting for anybody.
#[derive(Debug, Default)]
pub struct NodeStatus {
    service_nanos: AtomicU64,
    waiting_nanos: AtomicU64,
    late_nanos: AtomicU64,
    /// What all sessions may reserve together.
    buffer: Bytes,
    buffer_free: AtomicU64,
    sessions: AtomicU64,
    overloaded: AtomicBool,
    /// What it can forward in all, in bit/s, as whoever runs it says; zero if that is not said.
    rate: AtomicU64,
    /// How many threads forward.
    threads: AtomicU64,
    /// Sessions on which something moved in a span: its number, and below it how many. The last two spans.
    active: [AtomicU64; 2],
    /// How long buffers of sessions were empty and full: toward targets, and back.
    pub waits: [AllWaits; 2],
}

impl NodeStatus {
    /// A node with nothing to do.
    pub fn new(buffer: Bytes) -> NodeStatus {
        NodeStatus { buffer, buffer_free: AtomicU64::new(buffer.0), ..NodeStatus::default() }
    }

    /// With what the node can forward in all, if that is known, and how many threads do.
    pub fn of_rate(self, rate: Option<BitRate>, threads: usize) -> NodeStatus {
        self.rate.store(rate.map_or(0, BitRate::bits_per_sec), Ordering::Relaxed);
        self.threads.store(threads as u64, Ordering::Relaxed);
        self
    }

    /// What it can forward in all, and how many sessions share that: what was said, or less where its processors were seen to do less.
    /// `None` if nothing was said, or seen.
    pub fn capacity(&self) -> Option<Capacity> {
        let nanos = self.service_nanos.load(Ordering::Relaxed);
        let threads = self.threads.load(Ordering::Relaxed);
        let seen = (nanos > 0 && threads > 0).then(|| PACKET * 1_000_000_000 / nanos * threads);
        let said = Some(self.rate.load(Ordering::Relaxed)).filter(|rate| *rate > 0);
        let rate = said.into_iter().chain(seen).min()?;
        let active = u32::try_from(self.active(span())).unwrap_or(u32::MAX);
        Some(Capacity { rate: BitRate::from_bits_per_sec(rate), active })
    }

    fn active(&self, span: u32) -> u64 {
        let of = |span: u32| {
            let counted = self.active[span as usize % 2].load(Ordering::Relaxed);
            if counted >> 32 == u64::from(span) { counted & u64::from(u32::MAX) } else { 0 }
        };
        // The one that is not over may have hardly begun.
        of(span).max(of(span.wrapping_sub(1)))
    }

    /// Something moved on a session, of which `last` is the span in which something did.
    pub fn on_active(&self, last: &AtomicU32) {
        self.on_active_in(span(), last);
    }

    fn on_active_in(&self, span: u32, last: &AtomicU32) {
        if last.swap(span, Ordering::Relaxed) == span {
            return;
        }
        let begun = u64::from(span) << 32;
        let more =
            |counted: u64| Some(if counted >> 32 == u64::from(span) { counted + 1 } else { begun + 1 });
        let _ = self.active[span as usize % 2].fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// The service time Ts: how long an average packet waits for the node, and is worked on by it.
    pub fn service_time(&self) -> Duration {
        self.waiting_time() + Duration::from_nanos(self.service_nanos.load(Ordering::Relaxed))
    }

    /// The part of the service time that is waiting: for a processor, and for what was ready before.
    pub fn waiting_time(&self) -> Duration {
        let [late, waiting] = [&self.late_nanos, &self.waiting_nanos].map(|of| of.load(Ordering::Relaxed));
        Duration::from_nanos(late + waiting)
    }

    /// What a new session could reserve (Cmax).
    pub fn buffer_free(&self) -> Bytes {
        Bytes(self.buffer_free.load(Ordering::Relaxed))
    }

    /// What the sessions of one account may reserve: it leaves some to the others.
    pub fn buffer_of_account(&self) -> Bytes {
        Bytes(self.buffer.0 / 4)
    }

    /// Sessions that are being set up or are open.
    pub fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// Whether new sessions are turned away: such a node is silent when it is probed.
    pub fn is_overloaded(&self) -> bool {
        self.overloaded.load(Ordering::Relaxed)
    }

    /// Says whether new sessions are turned away.
    pub fn set_overloaded(&self, overloaded: bool) {
        self.overloaded.store(overloaded, Ordering::Relaxed);
    }

    /// One more look at how long a packet was worked on. Averaged over about sixteen of them.
    pub fn on_processing(&self, per_packet: Duration) {
        average(&self.service_nanos, per_packet);
    }

    /// One more look at how long something that is ready waits for its turn.
    pub fn on_waiting(&self, waited: Duration) {
        average(&self.waiting_nanos, waited);
    }

    /// One more look at how long a thread that is to run waits until it does.
    pub fn on_late(&self, late: Duration) {
        average(&self.late_nanos, late);
    }

    /// One more session; how many there are then.
    pub fn on_session_begins(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// One session less.
    pub fn on_session_ends(&self) {
        self.sessions.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes what is there of `wanted`; how much that is.
    pub fn reserve(&self, wanted: Bytes) -> Bytes {
        let take = |free: u64| Some(free - wanted.0.min(free));
        let free = self.buffer_free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        Bytes(wanted.0.min(free.unwrap_or_default()))
    }

    /// Gives back what was reserved.
    pub fn release(&self, reserved: Bytes) {
        self.buffer_free.fetch_add(reserved.0, Ordering::Relaxed);
    }
}

/// The number of the span that it is now; never that of a session on which nothing has moved.
fn span() -> u32 {
    (EPOCH.elapsed().as_nanos() / SPAN.as_nanos()) as u32 + 1
}

/// A moving average; that two writers at once may lose one sample of the two does it no harm.
fn average(cell: &AtomicU64, sample: Duration) {
    let sample = u64::try_from(sample.as_nanos()).unwrap_or(u64::MAX);
    let old = cell.load(Ordering::Relaxed);
    let new = if old == 0 { sample } else { old - old / 16 + sample / 16 };
    cell.store(new, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_given_out_once() {
        let status = NodeStatus::new(Bytes(100));
        assert_eq!(status.reserve(Bytes(70)), Bytes(70));
        assert_eq!(status.reserve(Bytes(70)), Bytes(30));
        assert_eq!(status.reserve(Bytes(1)), Bytes(0));
        status.release(Bytes(70));
        assert_eq!(status.buffer_free(), Bytes(70));
    }

    #[test]
    fn sessions_on_which_nothing_moves_have_no_share() {
        let status = NodeStatus::default();
        let sessions = [const { AtomicU32::new(0) }; 3];
        sessions.iter().for_each(|last| status.on_active_in(7, last));
        sessions.iter().for_each(|last| status.on_active_in(7, last));
        assert_eq!(
            (status.active(7), status.active(8)),
            (3, 3),
            "each once, and until the next span is over"
        );
        status.on_active_in(8, &sessions[1]);
        assert_eq!((status.active(8), status.active(9), status.active(10)), (3, 1, 0));
    }

    #[test]
    fn a_node_tells_what_it_was_said_to_do_and_no_more_than_it_does() {
        let rate = BitRate::from_bits_per_sec(90_000_000);
        assert_eq!(NodeStatus::default().of_rate(None, 4).capacity(), None);
        let status = NodeStatus::default().of_rate(Some(rate), 2);
        assert_eq!(status.capacity(), Some(Capacity { rate, active: 0 }));
        // Two threads, a packet of 11,584 bits in a millisecond each.
        status.on_processing(Duration::from_millis(1));
        assert_eq!(
            status.capacity().map(|capacity| capacity.rate),
            Some(BitRate::from_bits_per_sec(23_168_000))
        );
    }

    #[test]
    fn service_time_follows_the_load() {
        let status = NodeStatus::default();
        for _ in 0..100 {
            status.on_processing(Duration::from_micros(2));
            status.on_waiting(Duration::from_micros(3));
            status.on_late(Duration::from_micros(1));
        }
        let calm = status.service_time();
        assert!(calm > Duration::from_micros(5) && calm <= Duration::from_micros(6), "{calm:?}");
        for _ in 0..100 {
            status.on_waiting(Duration::from_millis(3));
        }
        assert!(status.service_time() > Duration::from_millis(2));
    }
}
