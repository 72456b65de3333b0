use super::duplicate_acks::DuplicateAcks;
use crate::Scoreboard;
use crate::loss_detector::{AckEvent, Detection, Event, Flight, LossDetector, Phase, Repair};
use alloc::vec::Vec;
use shorthaul_types::{Keep, Numbers};

/// Tahoe (Jacobson 1988): the third duplicate ACK is as good as an RTO.
#[derive(Debug, Default)]
pub(super) struct Tahoe {
    duplicates: DuplicateAcks,
}

impl LossDetector for Tahoe {
    fn on_ack(&mut self, detection: &mut Detection<'_>, ack: &AckEvent) {
        if self.duplicates.on_ack(detection, ack) {
            self.duplicates.forget_sacked_out();
        }
    }

    fn on_event(&mut self, flight: &Flight, _board: &Scoreboard, event: Event) {
        self.duplicates.on_event(flight, event);
    }

    fn credit(&self, flight: &Flight, board: &Scoreboard, room: u64) -> u64 {
        self.duplicates.credit(flight, board, room)
    }

    /// Where a discriminator finds that the window may stay, it grows by what arrived meanwhile (PRB §2.1). Tahoe by itself is never in these
    /// phases.
    fn sacked_out(&self, phase: Phase) -> u64 {
        match phase {
            Phase::Open | Phase::Loss { .. } => 0,
            Phase::Recovery { .. } | Phase::Waiting => self.duplicates.sacked_out(),
        }
    }

    fn put_away(&self, to: &mut Vec<u64>) -> bool {
        self.duplicates.put(to);
        true
    }

    fn bring_back(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        Keep::take(&mut self.duplicates, from)
    }

    fn repair(&self) -> Repair {
        Repair::SlowStart
    }
}
