//! How a sender finds losses and repairs them, by name.
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

/// A scheme of loss detection and repair.
///
/// Where the peer reports nothing (no SACK), [`Recovery::Sack`] and [`Recovery::RackTlp`] work as
/// [`Recovery::NewReno`] does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Recovery {
    /// Three duplicate acknowledgments make it begin anew at SND.UNA with a window of one segment, as
    /// after a timeout (Jacobson 1988); written `tahoe`.
    Tahoe,
    /// Fast retransmit and fast recovery, which the first new acknowledgment ends, a partial one too
    /// (RFC 2001); written `reno`.
    Reno,
    /// A partial acknowledgment shows the next hole, and recovery lasts until all that was
    /// outstanding has arrived (RFC 6582); written `newreno`.
    NewReno,
    /// Holes are lost when enough was reported above them (RFC 6675), the window shrinks by
    /// proportional rate reduction (RFC 6937); written `sack`.
    Sack,
    /// What was sent long enough before something delivered is lost, and a probe finds the loss of a
    /// tail (RFC 8985), with proportional rate reduction (RFC 6937); written `rack`.
    #[default]
    RackTlp,
}

impl Recovery {
    /// All of them.
    pub const ALL: [Recovery; 5] =
        [Recovery::Tahoe, Recovery::Reno, Recovery::NewReno, Recovery::Sack, Recovery::RackTlp];

    /// As in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Recovery::Tahoe => "tahoe",
            Recovery::Reno => "reno",
            Recovery::NewReno => "newreno",
            Recovery::Sack => "sack",
            Recovery::RackTlp => "rack",
        }
    }

    /// Whether it repairs a congestion loss with the window reduced; without, it begins anew with a window of
    /// one segment.
    pub const fn has_fast_recovery(self) -> bool {
        !matches!(self, Recovery::Tahoe)
    }

    /// Whether it makes use of what the receiver reports.
    pub const fn uses_reports(self) -> bool {
        matches!(self, Recovery::Sack | Recovery::RackTlp)
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Recovery {
    type Err = UnknownRecovery;

    fn from_str(text: &str) -> Result<Self, UnknownRecovery> {
        let found = Recovery::ALL.into_iter().find(|recovery| recovery.name() == text.trim());
        found.ok_or_else(|| UnknownRecovery { name: text.to_string() })
    }
}

/// No recovery has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRecovery {
    name: String,
}

impl fmt::Display for UnknownRecovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Recovery::ALL.map(Recovery::name).join(", ");
        write!(f, "`{}` is not a loss recovery: write one of {names}", self.name)
    }
}

impl core::error::Error for UnknownRecovery {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for recovery in Recovery::ALL {
            assert_eq!(recovery.to_string().parse(), Ok(recovery));
        }
        let error = "fack".parse::<Recovery>().unwrap_err().to_string();
        assert!(error.contains("`fack`") && error.contains("newreno"), "{error}");
    }
}
