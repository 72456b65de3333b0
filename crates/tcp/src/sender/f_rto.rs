use core::time::Duration;
use shorthaul_types::Time;

/// Finds out whether an RTO was spurious (F-RTO, RFC 5682 §2.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct FRto {
    /// Bytes that may leave: first the head again, then two new segments.
    allowance: u64,
    /// The head was acknowledged: what comes next decides.
    head_arrived: bool,
    /// When the timer expired.
    expired_at: Time,
    /// When something was first retransmitted since, however often the timer has expired.
    retransmitted_at: Option<Time>,
    /// When the two segments behind the head were retransmitted, where there was nothing new to send.
    again_at: Option<Time>,
    /// The timer probes: it may ask with the head as often as it takes.
    probing: bool,
}

/// What F-RTO looks at in an acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(super) struct FRtoAck {
    pub now: Time,
    pub mss: u64,
    /// SND.UNA has moved.
    pub advanced: bool,
    /// There is SACK, and something was delivered.
    pub sacked: bool,
    /// All that was outstanding is acknowledged.
    pub complete: bool,
    /// When the newest transmission was sent that arrived.
    pub newest: Option<Time>,
    /// When that was sent, at the latest, which moved SND.UNA.
    pub sent_before: Option<Time>,
    /// There is new data to send.
    pub fresh: bool,
    /// The shortest round trip.
    pub min_rtt: Option<Duration>,
}

/// What F-RTO has found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FRtoFinding {
    /// Nothing yet.
    Open,
    /// Nothing yet; and for want of new data, two segments are retransmitted to find out.
    TwoMore,
    /// The RTO was spurious.
    Spurious,
    /// It was not: everything outstanding is retransmitted.
    Genuine,
}

impl FRto {
    /// The timer has expired. `before` is what was being found out after the expiry before.
    pub fn new(now: Time, mss: u64, before: Option<FRto>, probing: bool) -> Self {
        let retransmitted_at = before.and_then(|before| before.retransmitted_at);
        FRto {
            allowance: mss,
            head_arrived: false,
            expired_at: now,
            retransmitted_at,
            again_at: None,
            probing,
        }
    }

    /// The timer probes: it has sent nothing since but the head, and that in order.
    pub fn is_probing(&self) -> bool {
        self.probing
    }

    /// Bytes that may leave.
    pub fn allowance(&self) -> u64 {
        self.allowance
    }

    pub fn on_send(&mut self, now: Time, bytes: u64, retransmission: bool) {
        self.allowance = self.allowance.saturating_sub(bytes);
        if retransmission {
            self.retransmitted_at.get_or_insert(now);
        }
    }

    /// What the first two acknowledgments after an RTO say of it.
    pub fn on_ack(&mut self, ack: &FRtoAck) -> FRtoFinding {
        // A timestamp from before anything was retransmitted: the original has moved SND.UNA (RFC 4015 §3.2), however often
        // the head was retransmitted.
        if self
            .retransmitted_at
            .zip(ack.sent_before)
            .is_some_and(|(retransmitted, sent)| sent <= retransmitted)
        {
            return FRtoFinding::Spurious;
        }
        if ack.advanced && !ack.complete {
            // Sooner than the shortest round trip, no answer to what was retransmitted can have come. (Where the timer does
            // not probe, this is as careful as RFC 5682 is.)
            let since = self.again_at.unwrap_or(self.expired_at);
            let too_soon = ack.min_rtt.is_some_and(|min| ack.now.saturating_since(since) < min);
            // Or only data that was sent once can have moved it.
            if (self.head_arrived && self.again_at.is_none()) || (self.probing && too_soon) {
                return FRtoFinding::Spurious;
            }
            if !self.head_arrived {
                self.head_arrived = true;
                self.allowance = 2 * ack.mss;
                if ack.fresh {
                    return FRtoFinding::Open;
                }
                if self.probing {
                    self.again_at = Some(ack.now);
                    return FRtoFinding::TwoMore;
                }
            }
        } else if ack.sacked && !ack.complete && ack.newest.is_none_or(|sent| sent < self.expired_at) {
            return FRtoFinding::Open; // a SACK of what had been on its way says nothing yet
        }
        FRtoFinding::Genuine
    }
}
