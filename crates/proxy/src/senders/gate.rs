use super::AckRule;

/// What keeps acknowledgments back until the host at the edge has what they are for.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Up to where to acknowledge.
    at: u64,
    /// It has moved since the last acknowledgment.
    moved: bool,
    regulator: Option<Regulator>,
}

/// The queue that the gate keeps from overflowing; without one it keeps a byte back instead.
#[derive(Debug)]
struct Regulator {
    /// The limit of the queue.
    queue: u64,
    /// What the acknowledgments that were let through are expected to bring and have not brought yet.
    expected: u64,
    /// A full segment: less is not worth an acknowledgment.
    segment: u64,
}

/// How a direction stands, by offsets of its stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Up to where the host at the edge has acknowledged.
    pub delivered: u64,
    /// Up to where everything has come from the sender.
    pub received: u64,
    /// Bytes that are still to be delivered.
    pub held: u64,
}

impl Gate {
    /// The gate of a rule that has one, at the beginning of a stream with segments of `mss` bytes.
    pub fn of(rule: &AckRule, at: u64, mss: u32) -> Option<Self> {
        let regulator = match rule {
            AckRule::Early | AckRule::PathTail(_) => return None,
            AckRule::Delivered => None,
            AckRule::Regulated { queue } => {
                Some(Regulator { queue: queue.0, expected: 0, segment: u64::from(mss) })
            }
        };
        Some(Gate { at, moved: false, regulator })
    }

    /// The sender has brought `bytes` more.
    pub fn on_received(&mut self, bytes: u64) {
        if let Some(regulator) = &mut self.regulator {
            regulator.expected = regulator.expected.saturating_sub(bytes);
        }
    }

    /// The host at the edge has acknowledged more.
    pub fn on_delivered(&mut self, progress: Progress) {
        let to = match &mut self.regulator {
            // nothing more will come to open it
            regulator if progress.held == 0 => {
                if let Some(regulator) = regulator {
                    regulator.expected = 0;
                }
                progress.delivered
            }
            None => progress.delivered - 1,
            Some(regulator) => self.at + regulator.release(self.at, progress),
        };
        self.moved |= to > self.at;
        self.at = self.at.max(to);
    }

    /// Up to where to acknowledge.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Whether an acknowledgment is due.
    pub fn wants_ack(&self) -> bool {
        self.moved
    }

    /// An acknowledgment left.
    pub fn on_ack_sent(&mut self) {
        self.moved = false;
    }
}

impl Regulator {
    /// How much of what waits at the gate may be acknowledged.
    fn release(&mut self, at: u64, Progress { delivered, received, held }: Progress) -> u64 {
        let room = self.queue.saturating_sub(held + self.expected);
        let window = received - at;
        let brings = if window < self.queue { 2 } else { 1 };
        let most = (room / brings).min(delivered.saturating_sub(at));
        let released = most / self.segment * self.segment;
        self.expected += brings * released;
        released
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_types::Bytes;

    fn progress(delivered: u64, received: u64) -> Progress {
        Progress { delivered, received, held: received - delivered }
    }

    #[test]
    fn the_last_byte_waits_while_more_is_under_way() {
        let mut gate = Gate::of(&AckRule::Delivered, 1, 1000).unwrap();
        gate.on_delivered(progress(1001, 3001));
        assert_eq!((gate.at(), gate.wants_ack()), (1000, true));
        gate.on_ack_sent();
        gate.on_delivered(progress(1001, 3001));
        assert!(!gate.wants_ack(), "nothing new");
        gate.on_delivered(progress(3001, 3001));
        assert_eq!(gate.at(), 3001);
        assert!(Gate::of(&AckRule::Early, 1, 1000).is_none());
    }

    #[test]
    fn acknowledgments_wait_until_the_queue_has_room_for_what_they_bring() {
        let mut gate = Gate::of(&AckRule::Regulated { queue: Bytes(10_000) }, 1, 1000).unwrap();
        // 5000 of 10000 are free: as the window is small, an acknowledgment may bring twice its bytes
        gate.on_delivered(progress(3001, 8001));
        assert_eq!((gate.at(), gate.wants_ack()), (2001, true));
        // 4000 are expected and 5000 held: no more than half a segment
        gate.on_ack_sent();
        gate.on_delivered(progress(3001, 8001));
        assert_eq!((gate.at(), gate.wants_ack()), (2001, false));
        // they have come and were delivered
        gate.on_received(4000);
        gate.on_delivered(progress(9001, 12_001));
        assert_eq!(gate.at(), 9001, "with a window of the queue, one is counted for one");
        gate.on_delivered(progress(12_001, 12_001));
        assert_eq!(gate.at(), 12_001, "an empty queue holds nothing back");
    }
}
