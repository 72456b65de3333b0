use super::duplicate_acks::DuplicateAcks;
use crate::Scoreboard;
use crate::loss_detector::{AckEvent, Detection, Event, Flight, LossDetector, Phase, Repair};
use alloc::vec::Vec;
use shorthaul_types::{Keep, Numbers};

/// NewReno (RFC 6582), with limited transmit (RFC 3042): a partial ACK shows the next hole.
#[derive(Debug, Default)]
pub(super) struct NewReno {
    duplicates: DuplicateAcks,
}

impl LossDetector for NewReno {
    fn on_ack(&mut self, detection: &mut Detection<'_>, ack: &AckEvent) {
        let Flight { una, mss, phase, .. } = detection.flight;
        if self.duplicates.on_ack(detection, ack) {
            if matches!(phase, Phase::Recovery { end } if una < end) {
                // The retransmitted segment has arrived, and what had arrived before behind it (§3.2 step 3).
                self.duplicates.take_sacked_out(ack.advanced.saturating_sub(mss));
                self.duplicates.retransmit_first(detection);
            } else {
                self.duplicates.forget_sacked_out();
            }
        }
    }

    fn on_event(&mut self, flight: &Flight, _board: &Scoreboard, event: Event) {
        self.duplicates.on_event(flight, event);
    }

    fn credit(&self, flight: &Flight, board: &Scoreboard, room: u64) -> u64 {
        self.duplicates.credit(flight, board, room)
    }

    fn sacked_out(&self, phase: Phase) -> u64 {
        match phase {
            Phase::Loss { .. } => 0,
            Phase::Open | Phase::Recovery { .. } | Phase::Waiting => self.duplicates.sacked_out(),
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
        Repair::UntilRecoveryPoint
    }
}
