//! Schemes by name: each is a row of data that picks its parts.
use crate::{AckPolicy, Discrimination, LossDetection};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use shorthaul_congestion::{Algorithm, ControlParams, RttConfig};
use shorthaul_types::Time;

/// How an endpoint works: which parts it is made of, and what it offers its peer.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The name in configurations.
    pub name: &'static str,
    /// Sizes the congestion window.
    pub control: Algorithm,
    /// Finds losses and repairs them.
    pub recovery: LossDetection,
    /// Says what losses mean.
    pub arbiter: Discrimination,
    /// After a timeout, first looks whether it was spurious (F-RTO, RFC 5682).
    pub f_rto: bool,
    /// After several timeouts in a row, tries smaller segments (RFC 4821).
    pub finds_black_holes: bool,
    /// Spreads bursts over the round trip.
    pub pacing: bool,
    /// When received data is acknowledged.
    pub ack: AckPolicy,
    /// Parameters of the retransmission timer.
    pub rtt: RttConfig,
    /// Offers selective acknowledgments (RFC 2018, with RFC 2883's reports of duplicates).
    pub sack: bool,
    /// Offers timestamps (RFC 7323 §3).
    pub timestamps: bool,
    /// Offers window scaling (RFC 7323 §2).
    pub window_scaling: bool,
    /// Offers explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Segments that may be sent before the first acknowledgment, 1…10 (RFC 5681 §3.1, RFC 6928).
    pub initial_window: u32,
    /// Starts from the initial window again after an idle time (RFC 5681 §4.1).
    pub idle_restart: bool,
    /// Holds small segments back while data is unacknowledged (RFC 9293 §3.7.4).
    pub nagle: bool,
}

/// What most rows share: a host of today.
const MODERN: Profile = Profile {
    name: "cubic",
    control: Algorithm::Cubic,
    recovery: LossDetection::RACK_TLP,
    arbiter: Discrimination::EveryLoss,
    f_rto: true,
    finds_black_holes: true,
    pacing: true,
    ack: AckPolicy::Delayed { wait: Duration::from_millis(40), quick: 16 },
    rtt: RttConfig::LINUX,
    sack: true,
    timestamps: true,
    window_scaling: true,
    ecn: false,
    initial_window: 10,
    idle_restart: true,
    nagle: false,
};

/// What the textbook's hosts share: a window of 64 KiB at most, no pacing, two segments first, and
/// the timers of the RFCs.
const CLASSIC: Profile = Profile {
    name: "newreno",
    control: Algorithm::Reno,
    recovery: LossDetection::NEW_RENO,
    f_rto: false,
    finds_black_holes: false,
    pacing: false,
    ack: AckPolicy::Delayed { wait: Duration::from_millis(200), quick: 0 },
    rtt: RttConfig::RFC6298,
    sack: false,
    timestamps: false,
    window_scaling: false,
    initial_window: 2,
    nagle: true,
    ..MODERN
};

/// The registry, in the order in which it is listed.
const PROFILES: &[Profile] = &[
    Profile { name: "tahoe", recovery: LossDetection::TAHOE, ..CLASSIC },
    Profile { name: "reno", recovery: LossDetection::RENO, ..CLASSIC },
    CLASSIC,
    Profile {
        name: "tahoe-probing",
        recovery: LossDetection::TAHOE,
        arbiter: Discrimination::TAHOE_PROBING,
        ..CLASSIC
    },
    Profile {
        name: "reno-probing",
        recovery: LossDetection::RENO,
        arbiter: Discrimination::RENO_PROBING,
        ..CLASSIC
    },
    Profile {
        name: "adaptive-probing",
        recovery: LossDetection::RENO,
        arbiter: Discrimination::ADAPTIVE_PROBING,
        ..CLASSIC
    },
    Profile {
        name: "selective-probing",
        recovery: LossDetection::RENO,
        arbiter: Discrimination::SELECTIVE_PROBING,
        ..CLASSIC
    },
    Profile { name: "sack-reno", control: Algorithm::Reno, ..MODERN },
    MODERN,
    Profile { name: "cubic-ecn", ecn: true, ..MODERN },
    Profile { name: "bbr", control: Algorithm::Bbr, ..MODERN },
    Profile { name: "bbr3", control: Algorithm::Bbr3, ..MODERN },
    Profile { name: "westwood", control: Algorithm::Westwood, ..MODERN },
    Profile { name: "vegas", control: Algorithm::Vegas, ..MODERN },
    Profile { name: "hybla", control: Algorithm::Hybla, ..MODERN },
];

impl Profile {
    /// The profile of a name, such as `cubic`.
    ///
    /// # Errors
    /// [`UnknownProfile`] if there is none; it lists those that there are.
    pub fn named(name: &str) -> Result<Profile, UnknownProfile> {
        let found = PROFILES.iter().find(|profile| profile.name == name.trim());
        found.cloned().ok_or_else(|| UnknownProfile { name: name.to_string() })
    }

    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PROFILES.iter().map(|profile| profile.name)
    }

    /// What the congestion control starts from, with segments of `mss` payload bytes. `syn_resent`
    /// is how often the SYN or SYN-ACK was sent again: more than once, and the window is one
    /// segment (RFC 6928 §2).
    pub(crate) fn control_params(&self, now: Time, mss: u32, syn_resent: u32) -> ControlParams {
        let segments = if syn_resent > 1 { 1 } else { self.initial_window.clamp(1, 10) };
        let params =
            ControlParams { paced: self.pacing, selective_acks: self.sack, ..ControlParams::new(mss, now) };
        params.with_initial_segments(segments)
    }
}

impl Default for Profile {
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
        let names: Vec<&str> = Profile::names().collect();
        write!(f, "`{}` is not a profile: write one of {}", self.name, names.join(", "))
    }
}

impl core::error::Error for UnknownProfile {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_its_profile_and_no_two_are_alike() {
        for name in Profile::names() {
            assert_eq!(Profile::named(name).unwrap().name, name);
            assert_eq!(PROFILES.iter().filter(|profile| profile.name == name).count(), 1, "{name}");
        }
        assert_eq!(Profile::named(" cubic "), Ok(Profile::default()));
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_right_ones() {
        let error = Profile::named("cubik").unwrap_err().to_string();
        assert!(error.contains("`cubik`") && error.contains("sack-reno"), "{error}");
    }

    #[test]
    fn the_initial_window_is_that_of_rfc_6928() {
        let window = |mss, segments, resent| {
            let profile = Profile { initial_window: segments, ..Profile::default() };
            profile.control_params(Time::ZERO, mss, resent).initial_window
        };
        assert_eq!(window(1460, 10, 0), 14_600);
        assert_eq!(window(1448, 3, 1), 3 * 1448);
        assert_eq!(window(8948, 10, 0), 2 * 8948);
        assert_eq!(window(1448, 10, 2), 1448, "the SYN was sent again twice");
    }
}
