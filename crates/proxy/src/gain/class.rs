use super::Group;
use super::evidence::Comparison;
use super::milestones::METRICS;
use core::net::IpAddr;
use core::time::Duration;
use libm::{exp, log};
use shorthaul_types::Time;

/// The evidence that a verdict takes: without harm, one class in twenty comes to it, ever.
const EVIDENCE: f64 = 20.0;
/// How much longer something may take before it counts as harm.
const TOLERANCE: f64 = 1.03;
/// The least flows of each group: with fewer, all depends on how times are distributed.
const LEAST_FLOWS: u32 = 5;
/// For how long flows stay whole after the first verdict; twice as long after each further one.
const FIRST_WITHDRAWAL: Duration = Duration::from_secs(600);
/// How often that is doubled at most: 10 h 40 min.
const DOUBLINGS: u32 = 6;
/// The flows that are split on probation until splitting counts as not harmful again.
const PROBATION: u32 = 50;
/// What takes longer counts as this: the connection had nothing to carry.
const LONGEST: Duration = Duration::from_secs(120);

/// The flows that are compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClassKey {
    /// The number of their policy.
    pub policy: u16,
    /// The network of the hosts.
    pub access: IpAddr,
    /// The network of the servers; `None`: all.
    pub server: Option<IpAddr>,
}

/// What is known of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GainVerdict {
    /// Not enough to say.
    #[default]
    Open,
    /// Splitting makes something faster.
    Gains,
    /// Splitting makes something slower: flows of the class stay whole for a while.
    Harms,
    /// It was so; splitting is tried again with every other flow.
    Probation,
}

/// Flows that are compared.
#[derive(Debug, Default)]
pub(crate) struct Class {
    /// Logarithms of times in seconds, by milestone.
    pub comparisons: [Comparison; METRICS],
    /// Flows that passed a milestone: split, and of the control group.
    pub flows: [u32; 2],
    verdict: GainVerdict,
    /// How often splitting did harm.
    harms: u32,
    /// Until when flows stay whole.
    withdrawn_until: Time,
    last_heard: Time,
}

impl Class {
    /// What holds now.
    pub fn verdict(&mut self, now: Time) -> GainVerdict {
        if self.verdict == GainVerdict::Harms && now >= self.withdrawn_until {
            let harms = self.harms;
            *self = Class { verdict: GainVerdict::Probation, harms, last_heard: now, ..Class::default() };
        }
        self.verdict
    }

    /// Whether something takes longer split, as it looks so far.
    pub fn leans_to_harm(&self) -> bool {
        self.comparisons
            .iter()
            .filter_map(Comparison::difference)
            .any(|difference| difference > log(TOLERANCE))
    }

    /// The verdict, as it stood last.
    pub fn last_verdict(&self) -> GainVerdict {
        self.verdict
    }

    pub fn last_heard(&self) -> Time {
        self.last_heard
    }

    /// A flow has passed `milestones`. Returns whether splitting turns out to do harm.
    pub fn record(
        &mut self,
        now: Time,
        group: Group,
        milestones: impl Iterator<Item = usize>,
        elapsed: Duration,
    ) -> bool {
        self.last_heard = now;
        if group == Group::Withdrawn || self.verdict(now) == GainVerdict::Harms {
            return false; // there is nothing to compare with
        }
        let value = log(elapsed.min(LONGEST).as_secs_f64().max(1e-6));
        for milestone in milestones {
            let Comparison { split, control } = &mut self.comparisons[milestone];
            let sample = if group == Group::Split { split } else { control };
            sample.add(value);
            // Each flow passes the first one once.
            self.flows[usize::from(group == Group::Control)] += u32::from(milestone == 0);
        }
        let harm = self.evidence(log(TOLERANCE), |difference| difference > log(TOLERANCE));
        if harm >= EVIDENCE {
            let wait = FIRST_WITHDRAWAL * (1 << self.harms.min(DOUBLINGS));
            self.harms += 1;
            self.verdict = GainVerdict::Harms;
            self.withdrawn_until = now + wait;
            return true;
        }
        let on_probation = self.verdict == GainVerdict::Probation && self.flows[0] < PROBATION;
        if !on_probation {
            let gains = self.evidence(0.0, |difference| difference < 0.0) >= EVIDENCE;
            self.verdict = if gains { GainVerdict::Gains } else { GainVerdict::Open };
            if gains {
                self.harms = 0;
            }
        }
        false
    }

    /// The mean over all milestones of the evidence that what `counts` differs from `theta`: as each has a mean of 1 at most
    /// where it does not, so does theirs, however they depend on each other.
    fn evidence(&self, theta: f64, counts: impl Fn(f64) -> bool) -> f64 {
        let one = |comparison: &Comparison| match comparison.difference() {
            Some(_) if comparison.split.count.min(comparison.control.count) < LEAST_FLOWS => 0.0,
            Some(difference) if counts(difference) => exp(comparison.log_evidence(theta).min(500.0)),
            Some(_) => 0.0,
            None => 1.0,
        };
        self.comparisons.iter().map(one).sum::<f64>() / METRICS as f64
    }
}
