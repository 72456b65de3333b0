use shorthaul_tcp::{Discriminator, LossEvidence, LossResponse, LossSign};
use shorthaul_types::Time;

/// What a loss on the wireless link means to one of the connections: nothing. The window is the group's, and
/// what is lost is retransmitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkLost;

impl Discriminator for LinkLost {
    fn knows_nothing(&self) -> bool {
        true
    }

    fn respond(&mut self, _now: Time, evidence: &LossEvidence) -> LossResponse {
        match evidence.sign {
            LossSign::Acknowledgments => LossResponse::Transient,
            // The probe: one segment, and then what its answer says.
            LossSign::Timeout => LossResponse::Severe,
        }
    }
}
