use crate::pump::AllWaits;
use shorthaul_types::Bytes;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What a node says of itself, to its metrics and to those who ask the way (PTS-3, PTS-5): written by
/// the sessions, read by whoever answers. Every field can be read without waiting for anybody.
#[derive(Debug, Default)]
pub struct NodeStatus {
    service_nanos: AtomicU64,
    waiting_nanos: AtomicU64,
    buffer_free: AtomicU64,
    sessions: AtomicU64,
    overloaded: AtomicBool,
    /// How long buffers of sessions were empty and full: toward targets, and back.
    pub waits: [AllWaits; 2],
}

impl NodeStatus {
    /// A node with nothing to do.
    pub fn new(buffer: Bytes) -> NodeStatus {
        NodeStatus { buffer_free: AtomicU64::new(buffer.0), ..NodeStatus::default() }
    }

    /// The service time Ts: how long an average packet waits for the node, and is worked on by it.
    pub fn service_time(&self) -> Duration {
        self.waiting_time() + Duration::from_nanos(self.service_nanos.load(Ordering::Relaxed))
    }

    /// The part of the service time that is waiting.
    pub fn waiting_time(&self) -> Duration {
        Duration::from_nanos(self.waiting_nanos.load(Ordering::Relaxed))
    }

    /// What a new session could reserve (Cmax).
    pub fn buffer_free(&self) -> Bytes {
        Bytes(self.buffer_free.load(Ordering::Relaxed))
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
    fn service_time_follows_the_load() {
        let status = NodeStatus::default();
        for _ in 0..100 {
            status.on_processing(Duration::from_micros(2));
            status.on_waiting(Duration::from_micros(3));
        }
        let calm = status.service_time();
        assert!(calm > Duration::from_micros(4) && calm <= Duration::from_micros(5), "{calm:?}");
        for _ in 0..100 {
            status.on_waiting(Duration::from_millis(3));
        }
        assert!(status.service_time() > Duration::from_millis(2));
    }
}
