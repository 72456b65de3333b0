//! Packet-timed round trips (draft-ietf-ccwg-bbr-06 §5.5.1): one ends with the acknowledgment of
//! something that was sent after it began, however long that takes.
use crate::RateSample;
use crate::snapshot::keeps;

/// Counts rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounds {
    /// Bytes delivered on the connection: C.delivered.
    delivered: u64,
    /// The round ends with what is sent when this much is delivered.
    end: u64,
    count: u32,
    started: bool,
}

keeps!(Rounds { delivered, end, count, started });

impl Rounds {
    /// Takes in an ACK. Without a rate sample it says nothing.
    pub(crate) fn on_ack(&mut self, rate: Option<&RateSample>) {
        self.started = false;
        let Some(rate) = rate else { return };
        self.delivered = rate.delivered;
        if rate.prior_delivered >= self.end {
            self.restart();
            self.count = self.count.saturating_add(1);
            self.started = true;
        }
    }

    /// A round begins with what is sent now.
    pub(crate) fn restart(&mut self) {
        self.end = self.delivered;
    }

    /// The last ACK was the first of a new round.
    pub(crate) fn started(&self) -> bool {
        self.started
    }

    /// Rounds so far.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Bytes delivered so far.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }
}
