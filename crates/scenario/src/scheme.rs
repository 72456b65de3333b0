use crate::Ack;
use crate::file::{AckSection, RtoSection, SchemeSection};
use shorthaul_congestion::{Algorithm, RtoFloor, RttConfig};
use shorthaul_tcp::Discrimination;
use shorthaul_types::Bytes;

/// Whose TCP a live host speaks; in simulations it is always our own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stack {
    /// The kernel's.
    #[default]
    Kernel,
    /// Ours, in user space: the very machine that simulations drive.
    Own,
}

/// How a host or relay speaks TCP: a named profile, and what is different from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheme {
    /// The profile that everything else is taken from.
    pub profile: String,
    /// Whose TCP live runs use; `None` for the kernel's, or for that of the host where this is a flow's scheme.
    pub stack: Option<Stack>,
    /// Another congestion control.
    pub congestion: Option<Algorithm>,
    /// Another arbiter of what losses mean.
    pub arbiter: Option<Discrimination>,
    /// Spread bursts over the round trip, or do not.
    pub pacing: Option<bool>,
    /// Another way to acknowledge.
    pub ack: Option<Ack>,
    /// Offer selective acknowledgments, or do not.
    pub sack: Option<bool>,
    /// Offer timestamps, or do not.
    pub timestamps: Option<bool>,
    /// Offer window scaling, or do not: without, at most 65,535 bytes are on the way.
    pub window_scaling: Option<bool>,
    /// Offer explicit congestion notification, or do not.
    pub ecn: Option<bool>,
    /// After a time-out, look whether it was a mistake before everything is sent again (F-RTO, RFC 5682), or do not.
    pub f_rto: Option<bool>,
    /// Start from the initial window again after an idle time, or do not.
    pub idle_restart: Option<bool>,
    /// Hold small segments back while data is unacknowledged, or do not.
    pub nagle: Option<bool>,
    /// Another initial window, in segments.
    pub initial_window: Option<u32>,
    /// Another retransmission timer.
    pub rto: Option<RttConfig>,
    /// What the application may write ahead.
    pub send_buffer: Bytes,
    /// What is received ahead of the application's reading.
    pub receive_buffer: Bytes,
    /// The largest segment to announce, options included; by the MTU of the host's links if `None`.
    pub mss: Option<u32>,
}

impl Default for Scheme {
    /// NewReno as the profile has it, with buffers that bound nothing on ordinary paths.
    fn default() -> Self {
        Scheme {
            profile: "newreno".to_owned(),
            stack: None,
            congestion: None,
            arbiter: None,
            pacing: None,
            ack: None,
            sack: None,
            timestamps: None,
            window_scaling: None,
            ecn: None,
            f_rto: None,
            idle_restart: None,
            nagle: None,
            initial_window: None,
            rto: None,
            send_buffer: Bytes(16 << 20),
            receive_buffer: Bytes(16 << 20),
            mss: None,
        }
    }
}

impl Scheme {
    /// What is wrong with it, if anything.
    pub(crate) fn check(&self) -> Result<(), String> {
        shorthaul_tcp::Profile::named(&self.profile).map_err(|error| error.to_string())?;
        if self.send_buffer == Bytes(0) || self.receive_buffer == Bytes(0) {
            return Err("a buffer of nothing lets nothing through: write a size such as \"1 MB\"".into());
        }
        if self.mss.is_some_and(|mss| !(88..=65_495).contains(&mss)) {
            return Err("`mss` is a number of bytes from 88 to 65495, such as 1460".into());
        }
        if self.initial_window.is_some_and(|segments| !(1..=100).contains(&segments)) {
            return Err("`initial_window` is a number of segments from 1 to 100, such as 10".into());
        }
        Ok(())
    }
}

impl From<AckSection> for Ack {
    fn from(section: AckSection) -> Ack {
        match section {
            AckSection::Immediate => Ack::Immediate,
            AckSection::Delayed(wait) => Ack::Delayed(wait),
        }
    }
}

impl From<RtoSection> for RttConfig {
    fn from(section: RtoSection) -> RttConfig {
        match section {
            RtoSection::Linux => RttConfig::LINUX,
            RtoSection::Rfc6298 => RttConfig::RFC6298,
            RtoSection::Ticks(tick) => RttConfig { tick, ..RttConfig::RFC6298 },
            RtoSection::Coarse => RttConfig::COARSE,
            RtoSection::AtLeast(least) => RttConfig { floor: RtoFloor::Whole(least), ..RttConfig::RFC6298 },
        }
    }
}

impl From<&SchemeSection> for Scheme {
    fn from(SchemeSection(table): &SchemeSection) -> Scheme {
        let default = Scheme::default();
        Scheme {
            profile: table.profile.clone().unwrap_or(default.profile),
            stack: table.stack,
            congestion: table.congestion,
            arbiter: table.arbiter,
            pacing: table.pacing,
            ack: table.ack.map(Ack::from),
            sack: table.sack,
            timestamps: table.timestamps,
            window_scaling: table.window_scaling,
            ecn: table.ecn,
            f_rto: table.f_rto,
            idle_restart: table.idle_restart,
            nagle: table.nagle,
            initial_window: table.initial_window,
            rto: table.rto.map(RttConfig::from),
            send_buffer: table.send_buffer.unwrap_or(default.send_buffer),
            receive_buffer: table.receive_buffer.unwrap_or(default.receive_buffer),
            mss: table.mss,
        }
    }
}
