//! How a sender begins: on a path of which an earlier connection to the same host knew something, and after it was idle. A file for each
//! way, and a row here.
mod fast;
mod paths;
mod slow;

pub use fast::FastStart;
pub(crate) use paths::Paths;
pub use slow::SlowStart;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Debug};
use core::hash::{Hash, Hasher};
use core::str::FromStr;
use core::time::Duration;
use shorthaul_congestion::KnownRtt;
use shorthaul_types::BitRate;

/// What a connection had found out of its path when it ended, for the next one to the same host (temporal sharing, RFC 9040).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMemory {
    /// The congestion window, in bytes.
    pub window: u64,
    /// The slow start threshold, in bytes; `u64::MAX` for none.
    pub ssthresh: u64,
    /// The window still grew exponentially.
    pub in_slow_start: bool,
    /// What was known of round trips.
    pub rtt: KnownRtt,
}

/// Where a sender stands that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// SND.UNA, which is SND.NXT: nothing is outstanding.
    pub una: u64,
    /// Payload bytes of a full segment.
    pub mss: u64,
    /// The congestion control paces at a rate of its own, which says more than a window.
    pub has_rate: bool,
}

/// How a sender begins. It is asked when a connection begins of whose path something is known, and when data is to be sent after
/// nothing was for longer than the RTO; it is told of acknowledgments and losses, and may let go of what it began with.
pub trait Start: Debug + Send {
    /// Data will be sent with nothing outstanding, on a path of which this is known. Returns the window to begin with, in bytes; `None`
    /// to begin with the initial one.
    fn begin(&mut self, at: &Standing, known: &PathMemory) -> Option<u64> {
        let _ = (at, known);
        None
    }

    /// SND.UNA is this now.
    fn on_acknowledged(&mut self, una: u64) {
        let _ = una;
    }

    /// The congestion control has not taken the window that [`begin`](Start::begin) said.
    fn on_refused(&mut self) {}

    /// Losses were found, of so many bytes. Returns what to begin again with, where the window that was begun with is to be let go of: all
    /// that is outstanding is sent again by a slow start, without an RTO.
    fn on_lost(&mut self, bytes: u64) -> Option<Again> {
        let _ = bytes;
        None
    }

    /// The retransmission timer expired, which [`patience`](Start::patience) may have shortened. Returns what
    /// [`on_lost`](Start::on_lost) does; `None` where it is an RTO as any other.
    fn on_timer(&mut self) -> Option<Again> {
        None
    }

    /// How many bytes may leave at once, from SND.NXT on; what follows is paced. `None` where the sender paces as it always does.
    fn burst(&self, nxt: u64) -> Option<u64> {
        let _ = nxt;
        None
    }

    /// The rate at which what follows SND.NXT is paced; `None` where the sender paces as it always does.
    fn pace(&self, nxt: u64) -> Option<BitRate> {
        let _ = nxt;
        None
    }

    /// How long the acknowledgment of what is outstanding may take, where that is not the RTO.
    fn patience(&self, rtt: Option<KnownRtt>) -> Option<Duration> {
        let _ = rtt;
        None
    }

    /// Whether it has no state of its own, so that its sender can be put away as numbers and built anew.
    fn knows_nothing(&self) -> bool {
        false
    }
}

/// What to begin again with, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// The congestion window.
    pub window: u64,
    /// The slow start threshold.
    pub ssthresh: u64,
}

/// A [`Start`] by name.
#[derive(Clone, Copy)]
pub struct Starting {
    name: &'static str,
    remembers: bool,
    build: fn(u64) -> Box<dyn Start>,
}

impl Starting {
    /// With the initial window, always (RFC 5681 §3.1, §4.1).
    pub const SLOW: Starting = Starting { name: "slow", remembers: false, build: |_| Box::new(SlowStart) };
    /// With the window that was there before, paced over the round trip that was (fast start).
    pub const FAST: Starting =
        Starting { name: "fast", remembers: true, build: |initial| Box::new(FastStart::new(initial)) };

    /// All of them. A row here is all that a way needs to be found by name, and to be tested with the others.
    pub const ALL: &'static [Starting] = &[Starting::SLOW, Starting::FAST];

    /// As in configurations.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Whether what a connection knows of its path is kept for the next one to the same host.
    pub const fn remembers(self) -> bool {
        self.remembers
    }

    /// Of a sender with an initial window of so many bytes.
    pub fn build(self, initial_window: u64) -> Box<dyn Start> {
        (self.build)(initial_window)
    }
}

impl Default for Starting {
    /// [`Starting::SLOW`].
    fn default() -> Self {
        Starting::SLOW
    }
}

impl PartialEq for Starting {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Starting {}

impl Hash for Starting {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Debug for Starting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for Starting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl FromStr for Starting {
    type Err = UnknownStarting;

    fn from_str(text: &str) -> Result<Self, UnknownStarting> {
        let found = Starting::ALL.iter().find(|starting| starting.name == text.trim());
        found.copied().ok_or_else(|| UnknownStarting { name: text.to_string() })
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Starting {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "serde")]
shorthaul_types::written_as!(Starting, "Starting", |_| {
    shorthaul_types::schema::words(Starting::ALL.iter().map(|starting| starting.name))
});

#[cfg(feature = "serde")]
impl serde::Serialize for Starting {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

/// No way to begin has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownStarting {
    name: String,
}

impl fmt::Display for UnknownStarting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Starting::ALL.iter().map(|starting| starting.name).collect();
        write!(f, "`{}` is no way to begin: write one of {}", self.name, names.join(", "))
    }
}

impl core::error::Error for UnknownStarting {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for starting in Starting::ALL {
            assert_eq!(starting.to_string().parse(), Ok(*starting));
            assert_eq!(starting.build(10_000).knows_nothing(), !starting.remembers());
        }
        let error = "quick".parse::<Starting>().unwrap_err().to_string();
        assert!(error.contains("`quick`") && error.contains("fast"), "{error}");
    }
}
