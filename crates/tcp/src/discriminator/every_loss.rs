use crate::loss_discriminator::{Discriminator, LossEvidence, LossResponse, LossSign};
use shorthaul_types::Time;

/// Every loss is congestion (RFC 5681): mild where acknowledgments show it, severe where only the
/// timer does.
#[derive(Clone, Copy, Debug, Default)]
pub struct EveryLossIsCongestion;

impl Discriminator for EveryLossIsCongestion {
    fn knows_nothing(&self) -> bool {
        true
    }

    fn respond(&mut self, _now: Time, evidence: &LossEvidence) -> LossResponse {
        match evidence.sign {
            LossSign::Acknowledgments => LossResponse::Mild,
            LossSign::Timeout => LossResponse::Severe,
        }
    }
}
