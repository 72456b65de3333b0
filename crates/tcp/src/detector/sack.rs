use super::DUP_THRESH;
use crate::Scoreboard;
use crate::loss_detector::{AckEvent, Detection, Event, Flight, LossDetector, Repair};
use alloc::vec::Vec;
use shorthaul_types::Numbers;

/// Loss by selective acknowledgments (RFC 6675 §4). All that it goes by is in the scoreboard.
#[derive(Debug)]
pub(super) struct Sack;

impl LossDetector for Sack {
    fn on_ack(&mut self, detection: &mut Detection<'_>, _ack: &AckEvent) {
        detection.mark_lost_below_sacked(DUP_THRESH);
    }

    fn on_timeout(&mut self, detection: &mut Detection<'_>) {
        detection.mark_lost_below_sacked(DUP_THRESH);
    }

    fn on_event(&mut self, _flight: &Flight, _board: &Scoreboard, _event: Event) {}

    fn put_away(&self, _: &mut Vec<u64>) -> bool {
        true
    }

    fn bring_back(&mut self, _: &mut Numbers<'_>) -> Option<()> {
        Some(())
    }

    fn repair(&self) -> Repair {
        Repair::ProportionalRate
    }
}
