//! What of a sender the models know.
use shorthaul_tcp::{LossDetection, SenderProfile};

use crate::model::{self, Response};

/// The loss detectors whose repairs are in the models.
const MODELLED: [LossDetection; 3] = [LossDetection::NEW_RENO, LossDetection::SACK, LossDetection::RACK_TLP];

/// A part of a sender that no model knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmodelled {
    /// Why there is no model of just this sender: the key, and its value.
    pub why: String,
    /// What a forecast leaves out that is made all the same.
    pub instead: String,
}

/// What no model knows of such a sender, on connections with selective acknowledgments or without.
pub(crate) fn unmodelled(sender: &SenderProfile, sack: bool) -> Vec<Unmodelled> {
    // Without `..`: a key that nobody thinks of here would have no effect, and nobody would be told.
    let SenderProfile {
        name: _, // what it stands for is in the other keys
        congestion,
        loss_detection,
        discriminator,
        f_rto: _,              // the models have no timeout without a loss
        undo: _,               // nor an answer to a loss that was none
        persist_on_shrink: _,  // nor a receiver that closes its window
        rttm: _,               // nor a clock but their own
        black_hole_probing: _, // packets are as long as the way takes
        pacing,
        ack: _,         // our senders count bytes (RFC 3465), so windows grow alike however ACKs are cut
        rate_report: _, // only a congestion control without a model hears of it
        rto,
        sack: _,           // both ends agree on it: see `Agreed`
        timestamps: _,     // the same
        window_scaling: _, // the same
        ecn: _,            // no link marks
        initial_ssthresh,
        window_validation: _, // the models' windows are those that are filled
        initial_window: _,    // `Leg::sent_by` has it
        start,
        idle_restart: _, // applications that pause on a connection are refused
        nagle: _,        // only the last segment of a transfer is short, and it leaves with the FIN
    } = sender;
    let mut found = Vec::new();
    let mut say = |why: String, instead: &str| found.push(Unmodelled { why, instead: instead.to_owned() });
    let model = model::by_name(congestion.name());
    if model.is_err() {
        say(
            format!("there is no model of `congestion = \"{congestion}\"`"),
            "congestion controls without a model (they are taken for Reno)",
        );
    }
    if let Some(segments) = initial_ssthresh {
        say(
            format!("the models' first slow start knows no `initial_ssthresh = {segments}`"),
            "initial slow-start thresholds (the first slow start ends at the path's window)",
        );
    }
    let detection = loss_detection.for_peer(sack);
    if !MODELLED.contains(&detection) {
        say(
            format!("there is no model of `loss_detection = \"{detection}\"`"),
            if detection.uses_sack() {
                "loss detectors without a model (they are taken for SACK's)"
            } else {
                "loss detectors without a model (they are taken for NewReno's)"
            },
        );
    }
    if *discriminator != SenderProfile::default().discriminator {
        say(
            format!(
                "the models take every loss for congestion, so there is none of `discriminator = \"{discriminator}\"`"
            ),
            "loss discriminators (every loss is taken for congestion)",
        );
    }
    if *start != SenderProfile::default().start {
        say(
            format!("the models begin with the initial window, so there is none of `start = \"{start}\"`"),
            "what is known of a path from earlier connections (slow start begins with the initial window)",
        );
    }
    // A window says when others send; these go by a rate, which only pacing keeps to.
    if !pacing && model.is_ok_and(|model| model.response() == Response::GoesByRate) {
        say(
            format!("there is no model of `{congestion}` with `pacing = false`"),
            "that a sender which goes by rate is not paced",
        );
    }
    // Of the timer, a leg has the floor. What comes before the first sample, and the upper bound, are for ways where
    // hardly anything arrives.
    if !rto.tick.is_zero() {
        say(
            format!("the models' timers do not tick, so there is none of `rto = \"{rto}\"`"),
            "that a retransmission timer ticks (its least timeout is)",
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_congestion::{Algorithm, RttConfig};
    use shorthaul_tcp::{Discrimination, ProfilePatch, Starting};

    #[test]
    fn every_part_without_a_model_is_named_by_its_key() {
        let none = ProfilePatch::default;
        for (key, patch) in [
            ("`start = \"fast\"`", ProfilePatch { start: Some(Starting::FAST), ..none() }),
            ("`congestion = \"vegas\"`", ProfilePatch { congestion: Some(Algorithm::Vegas), ..none() }),
            (
                "`loss_detection = \"ncr\"`",
                ProfilePatch { loss_detection: Some(LossDetection::NCR), ..none() },
            ),
            (
                "`discriminator = ",
                ProfilePatch { discriminator: Some(Discrimination::RENO_PROBING), ..none() },
            ),
            (
                "`pacing = false`",
                ProfilePatch { congestion: Some(Algorithm::Bbr), pacing: Some(false), ..none() },
            ),
            ("`rto = \"coarse\"`", ProfilePatch { rto: Some(RttConfig::COARSE), ..none() }),
        ] {
            let found = unmodelled(&SenderProfile::default().patched(&patch), true);
            assert!(found.len() == 1 && found[0].why.contains(key), "{key}: {found:?}");
        }
        let unpaced = ProfilePatch { pacing: Some(false), ..none() };
        assert_eq!(unmodelled(&SenderProfile::default().patched(&unpaced), true), []);
    }

    #[test]
    fn a_detector_is_modelled_if_it_is_in_the_list_and_none_other_is() {
        let known = |detection: &LossDetection| {
            let sender = SenderProfile { loss_detection: *detection, ..SenderProfile::default() };
            unmodelled(&sender, true).is_empty()
        };
        let all: Vec<&str> = LossDetection::ALL.iter().filter(|d| known(d)).map(|d| d.name()).collect();
        assert_eq!(all, ["newreno", "sack", "rack"]);
        // Without selective acknowledgments, NewReno takes the place of those that go by them.
        let ncr = SenderProfile { loss_detection: LossDetection::NCR, ..SenderProfile::default() };
        assert_eq!(unmodelled(&ncr, false), []);
    }
}
