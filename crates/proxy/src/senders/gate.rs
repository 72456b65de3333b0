use super::AckRule;

/// What keeps acknowledgments back until the host at the edge has what they are for.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Up to where to acknowledge.
    at: u64,
    /// It has moved since the last acknowledgment.
    moved: bool,
    /// From how many bytes held on it stays shut; `None` where it keeps a byte back instead.
    queue: Option<u64>,
}

impl Gate {
    /// The gate of a rule that has one, at the beginning of a stream.
    pub fn of(rule: &AckRule, at: u64) -> Option<Self> {
        let queue = match rule {
            AckRule::Early | AckRule::PathTail(_) => return None,
            AckRule::Delivered => None,
            AckRule::Regulated { queue } => Some(queue.0),
        };
        Some(Gate { at, moved: false, queue })
    }

    /// The host at the edge has acknowledged everything up to `delivered`; `held` bytes are still to be
    /// delivered.
    pub fn on_delivered(&mut self, delivered: u64, held: u64) {
        let to = match self.queue {
            // nothing more will come to open it
            _ if held == 0 => delivered,
            None => delivered - 1,
            // What is acknowledged brings as much again: no more than there is room for.
            Some(queue) => delivered.min(self.at + queue.saturating_sub(held)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_types::Bytes;

    #[test]
    fn the_last_byte_waits_while_more_is_under_way() {
        let mut gate = Gate::of(&AckRule::Delivered, 1).unwrap();
        gate.on_delivered(1001, 2000);
        assert_eq!((gate.at(), gate.wants_ack()), (1000, true));
        gate.on_ack_sent();
        gate.on_delivered(1001, 2000);
        assert!(!gate.wants_ack(), "nothing new");
        gate.on_delivered(3001, 0);
        assert_eq!(gate.at(), 3001);
    }

    #[test]
    fn acknowledgments_wait_while_the_queue_is_long() {
        let mut gate = Gate::of(&AckRule::Regulated { queue: Bytes(5000) }, 1).unwrap();
        gate.on_delivered(2001, 6000);
        assert_eq!((gate.at(), gate.wants_ack()), (1, false));
        gate.on_delivered(3001, 4500);
        assert_eq!(gate.at(), 501);
        gate.on_delivered(4001, 0);
        assert_eq!(gate.at(), 4001, "an empty queue holds nothing back");
        assert!(Gate::of(&AckRule::Early, 1).is_none());
    }
}
