use super::DUP_THRESH;
use crate::Scoreboard;
use crate::loss_detector::{AckEvent, Detection, Event, Flight, LossDetector, Phase, Repair};

/// Non-congestion robustness (RFC 4653): a hole is lost when about a window of data has been SACKed above it, which tells a
/// loss from a path that reorders. Until then, extended limited transmit keeps the clock of the acknowledgments going.
///
/// Steps are named as in the RFC. Its text was not at hand; the steps were compared with the Linux module `tcp_ncr` (D. Slot,
/// C. Wolff, L. Schulte), which names its functions after them. It has the same I.1 to I.3, LT_F (2/3 and 1/2), E.2, E.6, T.1, T.4 and
/// reduction by FlightSizePrev, and ends at an RTO, too. It differs in three things, where the RFC as remembered counts here:
/// it rounds DupThresh down, T.2 never lowers ssthresh, and its Skipped of the careful variant is FlightSize less FlightSizePrev.
///
/// RFC 4653 §3 wants Nagle's algorithm on, for FlightSize over SMSS counts segments only where they are full. Here both sides of
/// the comparison are in bytes, so that it may be off.
#[derive(Debug)]
pub(super) struct Ncr {
    variant: Variant,
    /// Nothing was SACKed when SND.UNA last moved, be it at the end of a recovery: the next SACK begins extended limited
    /// transmit (§3.1).
    ready: bool,
    limited: Option<ExtendedLimitedTransmit>,
    limit: Option<BurstLimit>,
}

/// How much leaves during extended limited transmit (§3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    /// A segment for every second that is SACKed.
    Careful,
    /// A segment for each.
    Aggressive,
}

/// Extended limited transmit (§3.1).
#[derive(Clone, Copy, Debug)]
struct ExtendedLimitedTransmit {
    /// FlightSize when it began.
    flight_size_prev: u64,
    /// SACKed bytes that let nothing leave.
    skipped: u64,
}

/// What may be in flight after a reordering, which one acknowledgment ends (§3.2).
///
/// The RFC sets cwnd and ssthresh. Here the window is congestion control's, and this holds it back instead: it begins at what
/// (T.1) makes of cwnd, and grows as slow start would up to the ssthresh of (T.2).
#[derive(Clone, Copy, Debug)]
struct BurstLimit {
    bytes: u64,
    until: u64,
}

impl Ncr {
    pub fn careful() -> Self {
        Ncr { variant: Variant::Careful, ready: true, limited: None, limit: None }
    }

    pub fn aggressive() -> Self {
        Ncr { variant: Variant::Aggressive, ..Ncr::careful() }
    }

    /// DupThresh (§3.1 step I.3, §3.3 step E.6): the number of segments SACKed above a hole by which it is a window later. Loss
    /// recovery works by the three of RFC 6675. A part of a segment counts as one: "at least 6⅔" is "at least 7".
    fn dup_thresh(&self, flight: &Flight) -> u64 {
        if self.limited.is_none() {
            return DUP_THRESH;
        }
        let part = match self.variant {
            Variant::Careful => (2 * flight.size()).div_ceil(3 * flight.mss),
            Variant::Aggressive => flight.size().div_ceil(2 * flight.mss),
        };
        part.max(DUP_THRESH)
    }

    fn detect(&mut self, detection: &mut Detection<'_>) {
        detection.mark_lost_below_sacked(self.dup_thresh(&detection.flight));
        if detection.board().lost() > 0
            && let Some(limited) = self.limited.take()
        {
            // What limited transmit has added to FlightSize is none of the window's (§3.4).
            detection.flight_size = limited.flight_size_prev;
        }
    }

    /// What leaves by the loop of E.2 to E.5, with `pipe` bytes in flight.
    fn limited_credit(&self, flight: &Flight, pipe: u64, limited: ExtendedLimitedTransmit) -> u64 {
        let segments = limited.flight_size_prev.saturating_sub(pipe + limited.skipped) / flight.mss;
        match self.variant {
            // Each segment that leaves takes the place of the next one, too.
            Variant::Careful => segments.div_ceil(2) * flight.mss,
            Variant::Aggressive => segments * flight.mss,
        }
    }

    /// SND.UNA has moved before anything was taken for lost: what was missing was late (§3.2).
    fn on_advance(&mut self, flight: &Flight, has_sack: bool) {
        let Some(limited) = &mut self.limited else {
            self.ready |= !has_sack;
            return;
        };
        let until = limited.flight_size_prev;
        self.limit = Some(BurstLimit { bytes: (flight.size() + flight.mss).min(until), until });
        if has_sack {
            // Something else is missing: it goes on, by steps I.2 and I.3 and not I.1 (T.4). What had been skipped may leave at
            // once, as the RFC has it.
            limited.skipped = 0;
        } else {
            self.limited = None;
            self.ready = true;
        }
    }

    fn end(&mut self) {
        self.ready = false;
        self.limited = None;
        self.limit = None;
    }
}

impl LossDetector for Ncr {
    fn on_ack(&mut self, detection: &mut Detection<'_>, ack: &AckEvent) {
        let flight = detection.flight;
        if flight.phase == Phase::Open {
            let has_sack = ack.has_sack && detection.board().sacked() > 0;
            if let Some(limit) = &mut self.limit {
                limit.bytes += ack.delivered.min(flight.mss);
                self.limit = self.limit.filter(|limit| limit.bytes < limit.until);
            }
            if ack.advanced > 0 {
                self.on_advance(&flight, has_sack);
            }
            if has_sack && self.ready {
                self.ready = false;
                self.limited = Some(ExtendedLimitedTransmit { flight_size_prev: flight.size(), skipped: 0 });
            }
        }
        self.detect(detection);
    }

    fn on_timeout(&mut self, detection: &mut Detection<'_>) {
        self.detect(detection);
    }

    fn on_event(&mut self, flight: &Flight, board: &Scoreboard, event: Event) {
        match event {
            Event::Sent(sent) => {
                if let Some(limited) = &mut self.limited
                    && self.variant == Variant::Careful
                    && flight.phase == Phase::Open
                {
                    limited.skipped += sent.end - sent.start; // E.4
                }
            }
            Event::RecoveryBegun | Event::WaitBegun | Event::Restarted => self.end(),
            // The acknowledgment that ends a recovery moves SND.UNA as any other.
            Event::Recovered => self.ready = board.sacked() == 0,
            Event::Acknowledged | Event::Undone => {}
        }
    }

    fn credit(&self, flight: &Flight, board: &Scoreboard, room: u64) -> u64 {
        let pipe = board.in_flight();
        match (self.limited, self.limit) {
            _ if flight.phase != Phase::Open => room,
            (Some(limited), _) => room.min(self.limited_credit(flight, pipe, limited)),
            (None, Some(limit)) => room.min(limit.bytes.saturating_sub(pipe)),
            (None, None) => room,
        }
    }

    fn repair(&self) -> Repair {
        Repair::ProportionalRate
    }
}
