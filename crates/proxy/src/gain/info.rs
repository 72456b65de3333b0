//! What others see of the gain.
use super::class::{Class, ClassKey, Comparisons, GainVerdict};
use super::evidence::{Comparison, Sample};
use super::milestones::BYTES;
use super::{ACCESS, SERVER};
use crate::HostPrefix;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;
use ipnet::IpNet;
use libm::exp;
use shorthaul_types::{Bytes, format_duration};

/// The error that the intervals have: they miss the truth in one class of twenty, ever.
const ERROR: f64 = 0.05;

/// What is known of the gain of a class of flows.
#[derive(Clone, Debug, PartialEq)]
pub struct GainInfo {
    /// The number of their policy, counted from 0.
    pub policy: u16,
    /// The network of the hosts at the access side.
    pub access: IpNet,
    /// The network of the servers; `None`: all.
    pub server: Option<IpNet>,
    /// What follows for all of its hosts.
    pub verdict: GainVerdict,
    /// Hosts that splitting does harm to by what they have shown alone: their new flows stay whole for a while.
    pub harmed_hosts: Vec<IpAddr>,
    /// What was compared.
    pub figures: Vec<GainFigure>,
}

/// How long the delivery of the first bytes takes, split and not split.
#[derive(Clone, Debug, PartialEq)]
pub struct GainFigure {
    /// Whether they are sent to the host at the access side, or by it.
    pub to_host: bool,
    /// How many.
    pub bytes: u64,
    /// The geometric mean of the times since the SYN, of flows that are split; `None` while there is none.
    pub split: Option<Duration>,
    /// The same for the control group.
    pub control: Option<Duration>,
    /// How many batches, what a host opened within a second: split, and of the control group.
    pub flows: [u32; 2],
    /// How many times as fast splitting makes it.
    pub gain: Option<f64>,
    /// The interval of that, with 95 % confidence at all times at once; `None` while it could be anything.
    pub interval: Option<(f64, f64)>,
}

impl GainInfo {
    /// How many flows were compared.
    pub fn flows(&self) -> u32 {
        self.figures.iter().map(|figure| figure.flows.iter().sum()).max().unwrap_or(0)
    }
}

impl GainVerdict {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            GainVerdict::Open => "open",
            GainVerdict::Gains => "gains",
            GainVerdict::Harms => "harms",
            GainVerdict::Probation => "probation",
        }
    }
}

fn network(address: IpAddr, prefix: HostPrefix) -> IpNet {
    IpNet::new_assert(address, if address.is_ipv4() { prefix.v4 } else { prefix.v6 })
}

fn figure(number: usize, comparison: &Comparison) -> Option<GainFigure> {
    let Comparison { split, control } = comparison;
    let mean = |sample: &Sample| (sample.count > 0).then(|| Duration::from_secs_f64(exp(sample.mean)));
    let compared = split.count > 0 && control.count > 0;
    (split.count + control.count > 0).then(|| GainFigure {
        to_host: number < BYTES.len(),
        bytes: BYTES[number % BYTES.len()],
        split: mean(split),
        control: mean(control),
        flows: [split.count, control.count],
        gain: compared.then(|| exp(control.mean - split.mean)),
        interval: comparison.interval(ERROR).map(|(low, high)| (exp(-high), exp(-low))),
    })
}

/// What is known of the gain of each class, as sums: what several gateways know of the same classes can be joined.
#[derive(Clone, Debug, Default)]
pub struct KnownGains(BTreeMap<ClassKey, Known>);

#[derive(Clone, Debug)]
struct Known {
    comparisons: Comparisons,
    verdict: GainVerdict,
    harmed_hosts: Vec<IpAddr>,
}

impl KnownGains {
    pub(super) fn of<'a>(classes: impl Iterator<Item = (&'a ClassKey, &'a Class)>) -> Self {
        let known = |class: &Class| Known {
            comparisons: class.comparisons(),
            verdict: class.last_verdict(),
            harmed_hosts: class.harmed_hosts().collect(),
        };
        KnownGains(classes.map(|(key, class)| (*key, known(class))).collect())
    }

    /// What others know is known here, too. Each acts by what it knows itself: of their verdicts, the gravest is shown.
    pub fn join(&mut self, others: KnownGains) {
        let gravity = |verdict| match verdict {
            GainVerdict::Open => 0,
            GainVerdict::Gains => 1,
            GainVerdict::Probation => 2,
            GainVerdict::Harms => 3,
        };
        for (key, other) in others.0 {
            match self.0.entry(key) {
                Entry::Vacant(entry) => _ = entry.insert(other),
                Entry::Occupied(mut entry) => {
                    let known = entry.get_mut();
                    known
                        .comparisons
                        .iter_mut()
                        .zip(other.comparisons)
                        .for_each(|(own, other)| own.join(other));
                    known.harmed_hosts.extend(other.harmed_hosts);
                    if gravity(other.verdict) > gravity(known.verdict) {
                        known.verdict = other.verdict;
                    }
                }
            }
        }
    }

    /// For people: what was compared most often first.
    pub fn info(&self) -> Vec<GainInfo> {
        let info = |(key, known): (&ClassKey, &Known)| GainInfo {
            policy: key.policy,
            access: network(key.access, ACCESS),
            server: key.server.map(|address| network(address, SERVER)),
            verdict: known.verdict,
            harmed_hosts: known.harmed_hosts.clone(),
            figures: known.comparisons.iter().enumerate().filter_map(|(n, c)| figure(n, c)).collect(),
        };
        let mut all: Vec<GainInfo> = self.0.iter().map(info).collect();
        all.sort_by_key(|info| (Reverse((info.flows(), info.server.is_none())), info.access, info.server));
        all
    }
}

impl fmt::Display for GainInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.access)?;
        if let Some(server) = self.server {
            write!(f, " with {server}")?;
        }
        f.write_str(match self.verdict {
            GainVerdict::Open => "",
            GainVerdict::Gains => ": splitting pays",
            GainVerdict::Harms => ": splitting does harm; new flows stay whole for a while",
            GainVerdict::Probation => ": splitting did harm, and is tried again with every other flow",
        })?;
        if let (Some(first), true) = (self.harmed_hosts.first(), self.verdict != GainVerdict::Harms) {
            let more = self.harmed_hosts.len() - 1;
            let others = if more > 0 { format!(" and {more} more") } else { String::new() };
            write!(f, ": splitting does harm to {first}{others}, of which new flows stay whole for a while")?;
        }
        self.figures.iter().try_for_each(|figure| write!(f, "\n    {figure}"))
    }
}

impl fmt::Display for GainFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.to_host { "down" } else { "up" };
        write!(f, "first {} {way}: ", Bytes(self.bytes))?;
        let [split, control] = self.flows;
        match (self.gain, self.interval) {
            (Some(gain), Some((low, high))) if gain >= 1.0 => {
                write!(f, "{gain:.2} × as fast ({low:.2} to {high:.2})")?;
            }
            (Some(gain), Some((low, high))) => {
                let [slower, least, most] = [gain, high, low].map(|gain| 1.0 / gain);
                write!(f, "takes {slower:.2} × as long ({least:.2} to {most:.2})")?;
            }
            (Some(gain), None) => write!(f, "{gain:.2} × as fast, too few flows to be sure")?,
            (None, _) => f.write_str("nothing to compare with yet")?,
        }
        for (what, time) in [("split", self.split), ("whole", self.control)] {
            if let Some(time) = time {
                write!(f, ", {what} {}", format_duration(time))?;
            }
        }
        write!(f, "; {split} batches against {control}")
    }
}
