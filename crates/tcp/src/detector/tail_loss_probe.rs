use crate::Scoreboard;
use crate::loss_detector::{AckEvent, Detection, Duplicate, Flight, Phase};
use core::ops::Range;
use core::time::Duration;
use shorthaul_types::{Blank, Time, keeps};

/// The longest that a peer is expected to delay an acknowledgment (§7.2, WCDelAckT).
const WORST_DELAYED_ACK: Duration = Duration::from_millis(200);

/// The tail loss probe (RFC 8985 §7): where nothing is acknowledged any more, one segment finds out why before the
/// retransmission timer does.
#[derive(Debug, Default)]
pub(super) struct TailLossProbe {
    at: Option<Time>,
    due: bool,
    /// The probe that leaves next repeats old data, or does not.
    leaving: Option<bool>,
    unanswered: Option<Unanswered>,
}

/// A probe that is unanswered (§7.3).
#[derive(Clone, Copy, Debug)]
struct Unanswered {
    /// SND.NXT after it: TLP.end_seq.
    end: u64,
    /// It retransmitted old data: TLP.is_retrans.
    retransmission: bool,
    /// FlightSize when it left.
    flight: u64,
}

keeps!(TailLossProbe { at, due, leaving, unanswered });
keeps!(Unanswered { end, retransmission, flight });

impl Blank for Unanswered {
    fn blank() -> Self {
        Unanswered { end: 0, retransmission: false, flight: 0 }
    }
}

impl TailLossProbe {
    /// Whether a probe is unanswered.
    pub fn is_outstanding(&self) -> bool {
        self.unanswered.is_some()
    }

    /// When the next probe is due.
    pub fn at(&self) -> Option<Time> {
        self.at
    }

    /// Sends no probe for what is outstanding now.
    pub fn disarm(&mut self) {
        self.at = None;
    }

    /// Everything outstanding is retransmitted.
    pub fn on_restart(&mut self) {
        self.at = None;
        self.unanswered = None;
    }

    /// Whether a probe could tell anything (§7.2).
    fn could_tell(&self, flight: &Flight, board: &Scoreboard) -> bool {
        flight.phase == Phase::Open && board.sacked() == 0 && self.unanswered.is_none() && !board.is_empty()
    }

    /// A probe is due, by the timer of a congestion manager, if it could tell anything. Says so.
    pub fn ask(&mut self, flight: &Flight, board: &Scoreboard) -> bool {
        self.due = self.could_tell(flight, board);
        self.due
    }

    /// Starts the timer (§7.2, TLP_calc_PTO), where a probe could tell anything.
    pub fn arm(&mut self, flight: &Flight, board: &Scoreboard) {
        self.at = self.could_tell(flight, board).then(|| {
            let mut timeout = flight.srtt.map_or(Duration::from_secs(1), |srtt| srtt * 2);
            if board.in_flight() <= flight.mss {
                timeout += WORST_DELAYED_ACK;
            }
            flight.now + timeout.max(Duration::from_millis(2))
        });
        if self.at >= flight.rto_at {
            self.at = None; // the retransmission timer comes first, or there is none
        }
    }

    /// The timer has expired: a probe is due, and the retransmission timer waits for its answer.
    pub fn on_timeout(&mut self, detection: &mut Detection<'_>) {
        self.at = None;
        self.due = true;
        detection.restart_rto = true;
    }

    /// One segment of new data if the peer has room, else the last one again (§7.3).
    pub fn poll(&mut self, flight: &Flight, board: &Scoreboard) -> Option<Range<u64>> {
        if !core::mem::take(&mut self.due) {
            return None;
        }
        let fresh = flight.sendable.min(flight.mss);
        let range = if fresh > 0 {
            flight.nxt..flight.nxt + fresh
        } else {
            let (start, last) = board.last().map(|(start, record)| (start, record.end))?;
            start.max(last.saturating_sub(flight.mss))..last
        };
        self.leaving = Some(fresh == 0);
        Some(range)
    }

    /// Something left: the probe, new data or a repair.
    pub fn on_sent(&mut self, flight: &Flight, board: &Scoreboard, retransmission: bool) {
        if let Some(retransmission) = self.leaving.take() {
            self.unanswered = Some(Unanswered { end: flight.nxt, retransmission, flight: flight.size() });
            self.at = None;
        } else if !retransmission {
            self.arm(flight, board);
        }
    }

    /// Whether the probe is answered, and whether it repaired a loss (§7.4.2). An acknowledgment up to the probe alone says
    /// nothing: it may be that of the original, with the D-SACK still to come.
    pub fn on_ack(&mut self, detection: &mut Detection<'_>, ack: &AckEvent) {
        let Some(probe) = self.unanswered else { return };
        if ack.ack < probe.end {
            return;
        }
        let duplicate = ack.dsack != Duplicate::None;
        let repaired = ack.ack > probe.end && probe.retransmission && !duplicate;
        if probe.retransmission && !duplicate && !repaired && !ack.plain {
            return;
        }
        self.unanswered = None;
        if repaired && ack.phase == Phase::Open {
            // The probe itself repaired a loss that nothing else has shown.
            detection.on_repaired(probe.flight);
        }
    }
}
