use shorthaul_types::Bytes;

/// What a link has done so far.
///
/// At any time `offered + duplicated = delivered + dropped.total() + packets inside`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets pushed.
    pub offered: u64,
    /// Bytes pushed.
    pub offered_bytes: Bytes,
    /// Packets popped.
    pub delivered: u64,
    /// Bytes popped.
    pub delivered_bytes: Bytes,
    /// Packets dropped, by reason.
    pub dropped: Dropped,
    /// Copies that the link has made.
    pub duplicated: u64,
    /// Packets delivered after one that was pushed later (RFC 4737 §3.3).
    pub reordered: u64,
    /// The most packets that were in the queue at once.
    pub max_queue: usize,
    /// The most bytes that were in the queue at once.
    pub max_queue_bytes: Bytes,
}

/// Packets dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// No room in the queue.
    pub queue_full: u64,
    /// Lost at random.
    pub loss: u64,
    /// Sent into an outage that lasted too long.
    pub outage: u64,
}

impl Dropped {
    /// All reasons together.
    pub fn total(&self) -> u64 {
        self.queue_full + self.loss + self.outage
    }

    pub(crate) fn count(&mut self, reason: DropReason) {
        match reason {
            DropReason::QueueFull => self.queue_full += 1,
            DropReason::Loss => self.loss += 1,
            DropReason::Outage => self.outage += 1,
        }
    }
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The queue had no room for it.
    QueueFull,
    /// The loss model chose it.
    Loss,
    /// It was sent during an outage that had outlasted the link layer's retransmission.
    Outage,
}

impl DropReason {
    /// The reason in one or two words, for captures and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            DropReason::QueueFull => "queue full",
            DropReason::Loss => "loss",
            DropReason::Outage => "outage",
        }
    }
}
