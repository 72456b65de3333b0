use shorthaul_tcp::{Arbiter, LossEvidence, LossSign, Verdict};
use shorthaul_types::Time;

/// What a loss on the wireless link means to one of the connections: nothing. The window is the group's, and
/// what is lost is retransmitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkLost;

impl Arbiter for LinkLost {
    fn judge(&mut self, _now: Time, evidence: &LossEvidence) -> Verdict {
        match evidence.sign {
            LossSign::Acknowledgments => Verdict::Transient,
            // The probe: one segment, and then what its answer says.
            LossSign::Timeout => Verdict::Severe,
        }
    }
}
