use super::SenderProfile;
use crate::{AckPolicy, Discrimination, LossDetection, RateReporting, Starting};
use shorthaul_congestion::{Algorithm, RttConfig};

/// What is different from a [`SenderProfile`]; what is left out stays as it is there.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(deny_unknown_fields, default)
)]
pub struct ProfilePatch {
    /// Congestion control.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub congestion: Option<Algorithm>,
    /// What finds losses and repairs them.
    #[cfg_attr(feature = "serde", serde(alias = "recovery", skip_serializing_if = "Option::is_none"))]
    pub loss_detection: Option<LossDetection>,
    /// What tells the meaning of losses.
    #[cfg_attr(feature = "serde", serde(alias = "arbiter", skip_serializing_if = "Option::is_none"))]
    pub discriminator: Option<Discrimination>,
    /// After an RTO, first look whether it was spurious (F-RTO, RFC 5682).
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub f_rto: Option<bool>,
    /// Take the answer to a loss back once it turns out that nothing was lost (RFC 3522, RFC 3708).
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub undo: Option<bool>,
    /// A window that the peer closes over what is outstanding stops the retransmission timer (4.4BSD): the sender persists, and sends that
    /// again when it is open. Without, the timer goes on (RFC 9293 §3.8.6).
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub persist_on_shrink: Option<bool>,
    /// The retransmission timer goes by the round trip of echoed timestamps (RTTM, RFC 1323 §3.1), as in 4.4BSD. Without, by the sender's own clock,
    /// and by them where that says nothing.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub rttm: Option<bool>,
    /// After several RTOs in a row, try smaller segments (RFC 4821).
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub black_hole_probing: Option<bool>,
    /// Spread bursts over the round trip.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub pacing: Option<bool>,
    /// When received data is acknowledged.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub ack: Option<AckPolicy>,
    /// What is measured of what comes, to report to the peer at which rate it should send. Both ends have to have it.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub rate_report: Option<RateReporting>,
    /// Retransmission timer.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub rto: Option<RttConfig>,
    /// Offer selective acknowledgments (RFC 2018).
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub sack: Option<bool>,
    /// Offer timestamps (RFC 7323 §3).
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub timestamps: Option<bool>,
    /// Offer window scaling (RFC 7323 §2). Without, at most 65,535 bytes are on the way.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub window_scaling: Option<bool>,
    /// Offer explicit congestion notification (RFC 3168).
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub ecn: Option<bool>,
    /// Segments that may be sent before the first acknowledgment, 1 to 1000 (RFC 6928).
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "initial_window", skip_serializing_if = "Option::is_none"),
        schemars(range(min = *SenderProfile::INITIAL_WINDOWS.start(), max = *SenderProfile::INITIAL_WINDOWS.end()))
    )]
    pub initial_window: Option<u32>,
    /// Segments at which the first slow start ends, 2 to 1000000; left out, as far as it goes (RFC 5681 §3.1).
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "initial_ssthresh", skip_serializing_if = "Option::is_none"),
        schemars(range(min = *SSTHRESHES.start(), max = *SSTHRESHES.end()))
    )]
    pub initial_ssthresh: Option<u32>,
    /// A window that is not filled does not grow (RFC 7661).
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub window_validation: Option<bool>,
    /// Start from the initial window again after an idle time (RFC 5681 §4.1).
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub idle_restart: Option<bool>,
    /// How it begins after an idle time, and as a new connection of a host to one that an earlier connection was to: `slow`, with the initial window
    /// (RFC 5681 §4.1), or `fast`, with the window that there was (TCP fast start). The leg of a gateway remembers nothing of other connections.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub start: Option<Starting>,
    /// Hold small segments back while data is unacknowledged (RFC 9293 §3.7.4).
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub nagle: Option<bool>,
}

impl SenderProfile {
    /// The same with what `patch` says.
    #[must_use]
    pub fn patched(&self, patch: &ProfilePatch) -> SenderProfile {
        // Without `..`: a key that is forgotten here does not compile.
        let ProfilePatch {
            congestion,
            loss_detection,
            discriminator,
            f_rto,
            undo,
            persist_on_shrink,
            rttm,
            black_hole_probing,
            pacing,
            ack,
            rate_report,
            rto,
            sack,
            timestamps,
            window_scaling,
            ecn,
            initial_window,
            initial_ssthresh,
            window_validation,
            idle_restart,
            start,
            nagle,
        } = *patch;
        SenderProfile {
            name: self.name,
            congestion: congestion.unwrap_or(self.congestion),
            loss_detection: loss_detection.unwrap_or(self.loss_detection),
            discriminator: discriminator.unwrap_or(self.discriminator),
            f_rto: f_rto.unwrap_or(self.f_rto),
            undo: undo.unwrap_or(self.undo),
            persist_on_shrink: persist_on_shrink.unwrap_or(self.persist_on_shrink),
            rttm: rttm.unwrap_or(self.rttm),
            black_hole_probing: black_hole_probing.unwrap_or(self.black_hole_probing),
            pacing: pacing.unwrap_or(self.pacing),
            ack: ack.unwrap_or(self.ack),
            rate_report: rate_report.unwrap_or(self.rate_report),
            rto: rto.unwrap_or(self.rto),
            sack: sack.unwrap_or(self.sack),
            timestamps: timestamps.unwrap_or(self.timestamps),
            window_scaling: window_scaling.unwrap_or(self.window_scaling),
            ecn: ecn.unwrap_or(self.ecn),
            initial_window: initial_window.unwrap_or(self.initial_window),
            initial_ssthresh: initial_ssthresh.or(self.initial_ssthresh),
            window_validation: window_validation.unwrap_or(self.window_validation),
            idle_restart: idle_restart.unwrap_or(self.idle_restart),
            start: start.unwrap_or(self.start),
            nagle: nagle.unwrap_or(self.nagle),
        }
    }
}

/// The thresholds that can be asked for, in segments.
#[cfg(feature = "serde")]
const SSTHRESHES: core::ops::RangeInclusive<u32> = 2..=1_000_000;

#[cfg(feature = "serde")]
fn initial_ssthresh<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    match serde::Deserialize::deserialize(d)? {
        Some(segments) if !SSTHRESHES.contains(&segments) => Err(serde::de::Error::custom(alloc::format!(
            "an initial slow-start threshold of {segments} segments: write a number from {} to {}, such as 20",
            SSTHRESHES.start(),
            SSTHRESHES.end()
        ))),
        segments => Ok(segments),
    }
}

#[cfg(feature = "serde")]
fn initial_window<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    let range = SenderProfile::INITIAL_WINDOWS;
    match serde::Deserialize::deserialize(d)? {
        Some(segments) if !range.contains(&segments) => Err(serde::de::Error::custom(alloc::format!(
            "an initial window of {segments} segments: write a number from {} to {}, such as 10",
            range.start(),
            range.end()
        ))),
        segments => Ok(segments),
    }
}
