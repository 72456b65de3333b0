use crate::conformance::context::Context;
use crate::conformance::failure::Failure;
use std::fmt;
use std::time::Duration;

/// One thing that a transparent gateway must not break.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Short, unique, in kebab case.
    pub name: &'static str,
    /// What must hold, in one sentence.
    pub about: &'static str,
    /// The document that says so, by section.
    pub reference: &'static str,
    pub(crate) setting: Setting,
    pub(crate) families: &'static [Family],
    /// How long it may take without faults; with faults three times that.
    pub(crate) limit: Duration,
    /// Takes minutes: only when asked for.
    pub(crate) long: bool,
    pub(crate) run: fn(&Context) -> Result<(), Failure>,
}

impl Case {
    /// Whether it takes minutes, so that it should run only when asked for.
    pub fn is_long(&self) -> bool {
        self.long
    }

    /// An ordinary case: IPv4 only, beside others in a shared site, within 20 s.
    pub(crate) const fn new(
        name: &'static str,
        about: &'static str,
        reference: &'static str,
        run: fn(&Context) -> Result<(), Failure>,
    ) -> Self {
        Case {
            name,
            about,
            reference,
            setting: Setting::Shared(&PLAIN),
            families: &[Family::V4],
            limit: Duration::from_secs(20),
            long: false,
            run,
        }
    }

    /// The same over IPv6 too.
    pub(crate) const fn both_families(self) -> Self {
        Case { families: &[Family::V4, Family::V6], ..self }
    }

    /// Over IPv6 alone.
    pub(crate) const fn only_ipv6(self) -> Self {
        Case { families: &[Family::V6], ..self }
    }

    /// Somewhere else than in the ordinary shared site.
    pub(crate) const fn setting(self, setting: Setting) -> Self {
        Case { setting, ..self }
    }

    /// With another limit.
    pub(crate) const fn within(self, limit: Duration) -> Self {
        Case { limit, ..self }
    }

    /// Only when long cases are asked for.
    pub(crate) const fn long(self) -> Self {
        Case { long: true, ..self }
    }
}

/// Where a case runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Setting {
    /// In a site with a running gateway, beside other cases.
    Shared(&'static Tuning),
    /// In the plain shared site, but with no other case at the same time.
    Alone,
    /// In a site of its own, where the case itself starts, kills and restarts the gateway.
    Own,
    /// As [`Setting::Own`], and with no other case at the same time.
    OwnAlone,
}

/// How the hosts' TCP is set up.
#[derive(Debug)]
pub(crate) struct Tuning {
    pub(crate) name: &'static str,
    /// Below `/proc/sys/net`, at the clients and the server.
    pub(crate) sysctls: &'static [(&'static str, &'static str)],
}

/// The kernel's defaults.
pub(crate) static PLAIN: Tuning = Tuning { name: "plain", sysctls: &[] };

/// The version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        })
    }
}

/// What the link between client and gateway does to packets, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Nothing.
    None,
    /// It loses 2 % of them, duplicates 1 % and lets 2 % be overtaken.
    Lossy,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Fault::None => "none",
            Fault::Lossy => "lossy",
        })
    }
}
