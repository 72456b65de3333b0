use super::duplicate_acks::DuplicateAcks;
use crate::Scoreboard;
use crate::loss_detector::{AckEvent, Detection, Event, Flight, LossDetector, Repair};

/// Tahoe (Jacobson 1988): the third duplicate ACK is as good as an RTO.
#[derive(Debug, Default)]
pub(super) struct Tahoe {
    duplicates: DuplicateAcks,
}

impl LossDetector for Tahoe {
    fn on_ack(&mut self, detection: &mut Detection<'_>, ack: &AckEvent) {
        self.duplicates.on_ack(detection, ack);
    }

    fn on_event(&mut self, flight: &Flight, _board: &Scoreboard, event: Event) {
        self.duplicates.on_event(flight, event);
    }

    fn credit(&self, flight: &Flight, board: &Scoreboard, room: u64) -> u64 {
        self.duplicates.credit(flight, board, room)
    }

    fn repair(&self) -> Repair {
        Repair::SlowStart
    }
}
