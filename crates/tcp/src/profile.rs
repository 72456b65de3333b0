//! Senders by name: each is a row of data that picks its parts.
mod patch;

use crate::{AckPolicy, Discrimination, LossDetection, ProbedPeer, RateReporting, SenderConfig, Starting};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use shorthaul_congestion::{Algorithm, ControlParams, RttConfig};
use shorthaul_types::{Seed, SeqNum, Time};

pub use patch::ProfilePatch;

/// How a sender works, and the receiver beside it: which parts they are made of, and what they offer the peer.
///
/// It is the one description of a sender. Endpoints, the legs of gateways, simulated and live hosts and forecasts
/// start from a row of it and change it by a [`ProfilePatch`].
#[derive(Clone, Debug, PartialEq)]
pub struct SenderProfile {
    /// The name in configurations.
    pub name: &'static str,
    /// Sizes the congestion window.
    pub congestion: Algorithm,
    /// Finds losses and repairs them.
    pub loss_detection: LossDetection,
    /// Tells what losses mean.
    pub discriminator: Discrimination,
    /// After an RTO, first looks whether it was spurious (F-RTO, RFC 5682).
    pub f_rto: bool,
    /// Takes the answer to a loss back once it turns out that nothing was lost (RFC 3522, RFC 3708).
    pub undo: bool,
    /// A window that the peer closes over what is outstanding stops the retransmission timer, as in 4.4BSD: the sender persists. Without, the
    /// timer goes on (RFC 9293 §3.8.6, SHLD-16), as in Linux.
    pub persist_on_shrink: bool,
    /// The retransmission timer goes by the round trip of the echoed timestamp, as in 4.4BSD (RTTM, RFC 1323 §3.1), where both ends have timestamps.
    /// Without, by our own clock, and by the timestamp only where that says nothing, as in Linux.
    pub rttm: bool,
    /// After several RTOs in a row, tries smaller segments (RFC 4821).
    pub black_hole_probing: bool,
    /// Spreads bursts over the round trip.
    pub pacing: bool,
    /// When received data is acknowledged.
    pub ack: AckPolicy,
    /// Measures at which rate the peer should send, and reports it; offers that, and hears of the same.
    pub rate_report: RateReporting,
    /// Parameters of the retransmission timer.
    pub rto: RttConfig,
    /// Offers selective acknowledgments (RFC 2018, with D-SACK, RFC 2883).
    pub sack: bool,
    /// Offers timestamps (RFC 7323 §3).
    pub timestamps: bool,
    /// Offers window scaling (RFC 7323 §2).
    pub window_scaling: bool,
    /// Offers explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Segments that may be sent before the first acknowledgment (RFC 5681 §3.1). RFC 6928 allows ten on a path that
    /// nobody knows; more is for whoever knows the path. See [`SenderProfile::INITIAL_WINDOWS`].
    pub initial_window: u32,
    /// Segments at which the first slow start ends; `None` for as far as it goes (RFC 5681 §3.1). Simulators of the 1990s began with the
    /// largest window that they were allowed.
    pub initial_ssthresh: Option<u32>,
    /// A window that the sender does not fill does not grow (RFC 7661). Without, every acknowledgment enlarges it, whatever the receiver's
    /// window allows, as in simulators of the 1990s.
    pub window_validation: bool,
    /// Starts from the initial window again after an idle time (RFC 5681 §4.1).
    pub idle_restart: bool,
    /// How it begins on a path of which something is known: with the initial window, or with what it had. After an idle time, where `idle_restart`
    /// is on, and as a new connection to the same host.
    pub start: Starting,
    /// Holds small segments back while data is unacknowledged (RFC 9293 §3.7.4).
    pub nagle: bool,
}

/// What most rows share: a host of today.
const MODERN: SenderProfile = SenderProfile {
    name: "cubic",
    congestion: Algorithm::Cubic,
    loss_detection: LossDetection::RACK_TLP,
    discriminator: Discrimination::EVERY_LOSS,
    f_rto: true,
    undo: true,
    persist_on_shrink: false,
    rttm: false,
    black_hole_probing: true,
    pacing: true,
    ack: AckPolicy::Delayed { wait: Duration::from_millis(40), quick: 16 },
    rate_report: RateReporting::NONE,
    rto: RttConfig::LINUX,
    sack: true,
    timestamps: true,
    window_scaling: true,
    ecn: false,
    initial_window: 10,
    initial_ssthresh: None,
    window_validation: true,
    idle_restart: true,
    start: Starting::SLOW,
    nagle: false,
};

/// What the textbook's hosts share: a window of 64 KiB at most, no pacing, two segments first, and
/// the timers of the RFCs.
const CLASSIC: SenderProfile = SenderProfile {
    name: "newreno",
    congestion: Algorithm::Reno,
    loss_detection: LossDetection::NEW_RENO,
    f_rto: false,
    black_hole_probing: false,
    pacing: false,
    ack: AckPolicy::Delayed { wait: Duration::from_millis(200), quick: 0 },
    rto: RttConfig::RFC6298,
    sack: false,
    timestamps: false,
    window_scaling: false,
    initial_window: 2,
    nagle: true,
    ..MODERN
};

/// The registry, in the order in which it is listed.
const PROFILES: &[SenderProfile] = &[
    SenderProfile { name: "tahoe", loss_detection: LossDetection::TAHOE, ..CLASSIC },
    SenderProfile { name: "reno", loss_detection: LossDetection::RENO, ..CLASSIC },
    CLASSIC,
    SenderProfile {
        name: "tahoe-probing",
        loss_detection: LossDetection::TAHOE,
        discriminator: Discrimination::TAHOE_PROBING,
        ..CLASSIC
    },
    SenderProfile {
        name: "reno-probing",
        loss_detection: LossDetection::RENO,
        discriminator: Discrimination::RENO_PROBING,
        ..CLASSIC
    },
    SenderProfile {
        name: "adaptive-probing",
        loss_detection: LossDetection::RENO,
        discriminator: Discrimination::ADAPTIVE_PROBING,
        ..CLASSIC
    },
    SenderProfile {
        name: "selective-probing",
        loss_detection: LossDetection::RENO,
        discriminator: Discrimination::SELECTIVE_PROBING,
        ..CLASSIC
    },
    SenderProfile { name: "sack-reno", congestion: Algorithm::Reno, ..MODERN },
    MODERN,
    SenderProfile { name: "cubic-ecn", ecn: true, ..MODERN },
    SenderProfile { name: "wtcp", congestion: Algorithm::Wtcp, rate_report: RateReporting::WTCP, ..MODERN },
];

/// The registry, and a host of today for every congestion control that has no row there.
fn all() -> impl Iterator<Item = SenderProfile> {
    let has_row = |name: &str| PROFILES.iter().any(|profile| profile.name == name);
    let modern = Algorithm::NAMED.iter().filter(move |control| !has_row(control.name()));
    let modern = modern.map(|control| SenderProfile { name: control.name(), congestion: *control, ..MODERN });
    PROFILES.iter().cloned().chain(modern)
}

impl SenderProfile {
    /// The profile of a name, such as `cubic`.
    ///
    /// # Errors
    /// [`UnknownProfile`] if there is none; it lists those that there are.
    pub fn named(name: &str) -> Result<SenderProfile, UnknownProfile> {
        let found = all().find(|profile| profile.name == name.trim());
        found.ok_or_else(|| UnknownProfile { name: name.to_string() })
    }

    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        all().map(|profile| profile.name)
    }

    /// The initial windows that can be asked for, in segments. The upper end is what the planner's models are defined
    /// for, and several bandwidth-delay products of any path that is split.
    pub const INITIAL_WINDOWS: core::ops::RangeInclusive<u32> = 1..=1000;

    /// What the congestion control of a connection starts from.
    pub fn control_params(&self, start: &SenderStart) -> ControlParams {
        // A SYN that was lost twice tells of congestion (RFC 6928 §2).
        let segments = if start.syn_retransmissions > 1 { 1 } else { self.initial_window };
        let params = ControlParams {
            paced: self.pacing,
            selective_acks: start.sack,
            initial_ssthresh: self
                .initial_ssthresh
                .map_or(u64::MAX, |segments| u64::from(segments) * u64::from(start.mss)),
            // Connections that share a bottleneck are not to probe it in step.
            seed: Seed(u64::from(start.isn.0)).derive("congestion control"),
            ..ControlParams::new(start.mss, start.now)
        };
        params.with_initial_segments(segments)
    }

    /// A sender of this profile, in a connection that starts so.
    pub fn sender(&self, start: &SenderStart) -> SenderConfig {
        let params = self.control_params(start);
        SenderConfig {
            loss_detection: self.loss_detection,
            discriminator: self.discriminator.build(start.now, start.peer),
            sack: start.sack,
            f_rto: self.f_rto,
            undo: self.undo,
            persist_on_shrink: self.persist_on_shrink,
            rttm: self.rttm,
            black_hole_probing: self.black_hole_probing,
            pacing: self.pacing,
            nagle: self.nagle,
            idle_restart: self.idle_restart,
            window_validation: self.window_validation,
            rto: self.rto,
            start: self.start.build(params.initial_window),
            ..SenderConfig::new(start.mss, self.congestion.build(params))
        }
    }
}

/// What a connection starts from, as far as a sender depends on it.
#[derive(Clone, Copy, Debug)]
pub struct SenderStart {
    /// The time.
    pub now: Time,
    /// Payload bytes of a full segment, options deducted.
    pub mss: u32,
    /// Both ends agreed on selective acknowledgments.
    pub sack: bool,
    /// What the peer tells of losses.
    pub peer: ProbedPeer,
    /// How often the SYN or SYN-ACK was retransmitted. After more than once, the window is one segment (RFC 6928 §2).
    pub syn_retransmissions: u32,
    /// The initial sequence number, from which random choices are drawn.
    pub isn: SeqNum,
}

impl SenderProfile {
    /// What the textbook's hosts do; written `newreno`.
    pub const NEWRENO: SenderProfile = CLASSIC;
}

impl Default for SenderProfile {
    /// `cubic`.
    fn default() -> Self {
        MODERN
    }
}

/// No profile has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownProfile {
    name: String,
}

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = SenderProfile::names().collect();
        write!(f, "`{}` is not a profile: write one of {}", self.name, names.join(", "))
    }
}

impl core::error::Error for UnknownProfile {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_its_profile_and_no_two_are_alike() {
        for name in SenderProfile::names() {
            assert_eq!(SenderProfile::named(name).unwrap().name, name);
            assert_eq!(SenderProfile::names().filter(|other| *other == name).count(), 1, "{name}");
        }
        assert_eq!(SenderProfile::named(" cubic "), Ok(SenderProfile::default()));
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_right_ones() {
        let error = SenderProfile::named("cubik").unwrap_err().to_string();
        assert!(error.contains("`cubik`") && error.contains("sack-reno"), "{error}");
    }

    fn start(mss: u32, syn_retransmissions: u32) -> SenderStart {
        let peer = ProbedPeer::SendsDSack;
        SenderStart { now: Time::ZERO, mss, sack: true, peer, syn_retransmissions, isn: SeqNum(7) }
    }

    #[test]
    fn the_initial_window_is_that_of_rfc_6928() {
        let window = |mss, segments, retransmissions| {
            let profile = SenderProfile { initial_window: segments, ..SenderProfile::default() };
            profile.control_params(&start(mss, retransmissions)).initial_window
        };
        assert_eq!(window(1460, 10, 0), 14_600);
        assert_eq!(window(1448, 3, 1), 3 * 1448);
        assert_eq!(window(8948, 10, 0), 2 * 8948);
        assert_eq!(window(1448, 10, 2), 1448, "the SYN was retransmitted twice");
    }

    #[test]
    fn the_first_slow_start_ends_where_it_was_asked_to() {
        let ssthresh = |initial_ssthresh| {
            let profile = SenderProfile { initial_ssthresh, ..SenderProfile::NEWRENO };
            profile.sender(&start(1000, 0)).control.ssthresh()
        };
        assert_eq!((ssthresh(None), ssthresh(Some(20)), ssthresh(Some(2))), (u64::MAX, 20_000, 2000));
    }

    #[test]
    fn a_larger_initial_window_is_what_was_asked_for() {
        for segments in [11, 64, 100, 1000] {
            let profile = SenderProfile { initial_window: segments, ..SenderProfile::default() };
            let sender = profile.sender(&start(1448, 0));
            assert_eq!(sender.control.window(), u64::from(segments) * 1448);
        }
    }
}
