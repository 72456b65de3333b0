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
/// The least batches of each group: with fewer, all depends on how times are distributed.
const LEAST_BATCHES: u32 = 5;
/// Into so many parts the hosts of a class fall. A verdict on all of them needs its evidence without the part that speaks for it most: no host alone decides.
pub(super) const PARTS: usize = 4;
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

/// Whose flows a part of a class has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Whose {
    #[default]
    Nobodys,
    One(IpAddr),
    Several,
}

/// A verdict, and what follows from it in time.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    verdict: GainVerdict,
    /// How often splitting did harm.
    harms: u32,
    /// Until when flows stay whole.
    withdrawn_until: Time,
    /// Batches that were split.
    split: u32,
}

impl Trial {
    /// Whether flows have stayed whole for long enough: it begins anew then, on probation.
    fn begins_anew(&mut self, now: Time) -> bool {
        let is_over = self.verdict == GainVerdict::Harms && now >= self.withdrawn_until;
        if is_over {
            *self = Trial { verdict: GainVerdict::Probation, harms: self.harms, ..Trial::default() };
        }
        is_over
    }

    /// The evidence that splitting does harm, and that it pays. Whether it turns out to do harm.
    fn judge(&mut self, now: Time, harm: f64, gains: f64) -> bool {
        if harm >= EVIDENCE {
            self.withdrawn_until = now + FIRST_WITHDRAWAL * (1 << self.harms.min(DOUBLINGS));
            self.harms += 1;
            self.verdict = GainVerdict::Harms;
            return true;
        }
        if self.verdict != GainVerdict::Probation || self.split >= PROBATION {
            self.verdict = if gains >= EVIDENCE { GainVerdict::Gains } else { GainVerdict::Open };
            if gains >= EVIDENCE {
                self.harms = 0;
            }
        }
        false
    }

    /// What it says of new flows, if it says something that differs from others.
    fn of_flows(&self) -> Option<GainVerdict> {
        matches!(self.verdict, GainVerdict::Harms | GainVerdict::Probation).then_some(self.verdict)
    }
}

/// Some hosts of a class.
#[derive(Debug, Default)]
struct Part {
    /// Logarithms of times in seconds, by milestone.
    comparisons: Comparisons,
    whose: Whose,
    /// The verdict on its host, while there is one alone.
    trial: Trial,
}

/// Times of flows, by milestone.
pub(crate) type Comparisons = [Comparison; METRICS];

/// Flows that are compared.
#[derive(Debug, Default)]
pub(crate) struct Class {
    parts: [Part; PARTS],
    /// It has more hosts than parts: they fall into these by their hash. Until then each has one by itself.
    is_crowded: bool,
    /// The verdict on all of its hosts.
    trial: Trial,
    last_heard: Time,
}

/// What a batch says: the flows that a host opened within a slot of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub host: IpAddr,
    /// The part that the host has where the class has many.
    pub part: usize,
    pub group: Group,
}

impl Class {
    /// The part of a host, which in a class of many is `part`.
    fn place(&self, host: IpAddr, part: usize) -> usize {
        self.parts.iter().position(|known| known.whose == Whose::One(host)).unwrap_or(part)
    }

    /// The same for a host that has something to say. Who comes first has a part by himself, so that of a few devices each can be judged alone.
    fn make_place(&mut self, host: IpAddr, part: usize) -> usize {
        let is = |whose| move |known: &Part| known.whose == whose;
        if self.is_crowded || self.parts.iter().any(is(Whose::One(host))) {
            return self.place(host, part);
        }
        self.parts.iter().position(is(Whose::Nobodys)).unwrap_or_else(|| {
            // Who is in two parts could decide for all.
            self.parts = Default::default();
            self.is_crowded = true;
            part
        })
    }

    /// What holds now for a host, which in a class of many is in this part.
    pub fn verdict(&mut self, now: Time, host: IpAddr, part: usize) -> GainVerdict {
        if self.trial.begins_anew(now) {
            self.parts = Default::default();
        }
        let place = self.place(host, part);
        let own = &mut self.parts[place];
        if own.trial.begins_anew(now) {
            own.comparisons = Comparisons::default();
        }
        let of_host = own.trial.of_flows().filter(|_| own.whose == Whose::One(host));
        self.trial.of_flows().or(of_host).unwrap_or(self.trial.verdict)
    }

    /// Whether something takes longer split, of a host in this part, as it looks so far.
    pub fn leans_to_harm(&self, host: IpAddr, part: usize) -> bool {
        let leans = |comparisons: &Comparisons| {
            let differences = comparisons.iter().filter_map(Comparison::difference);
            differences.into_iter().any(|difference| difference > log(TOLERANCE))
        };
        let own = &self.parts[self.place(host, part)];
        own.whose == Whose::One(host) && leans(&own.comparisons) || leans(&self.without_strongest())
    }

    /// The verdict on all of its hosts, as it stood last.
    pub fn last_verdict(&self) -> GainVerdict {
        self.trial.verdict
    }

    /// The hosts that have a verdict of harm by themselves, as it stood last.
    pub fn harmed_hosts(&self) -> impl Iterator<Item = IpAddr> {
        self.parts.iter().filter_map(|part| match (part.whose, part.trial.verdict) {
            (Whose::One(host), GainVerdict::Harms) => Some(host),
            _ => None,
        })
    }

    pub fn last_heard(&self) -> Time {
        self.last_heard
    }

    /// All that was compared.
    pub fn comparisons(&self) -> Comparisons {
        joined(self.parts.iter())
    }

    /// The same without the part in which splitting looks worst.
    fn without_strongest(&self) -> Comparisons {
        let harms = self.parts.iter().map(|part| harm(&part.comparisons));
        let strongest = harms.enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(number, _)| number);
        let others = self.parts.iter().enumerate().filter(|(number, _)| Some(*number) != strongest);
        joined(others.map(|(_, part)| part))
    }

    /// A batch has passed `milestones` for the first time, this long after its flow opened. Whether splitting turns out to do harm, to its host or to all.
    pub fn record(
        &mut self,
        now: Time,
        batch: Batch,
        milestones: impl Iterator<Item = usize>,
        elapsed: Duration,
    ) -> bool {
        self.last_heard = now;
        let Batch { host, part, group } = batch;
        if group == Group::Withdrawn || self.verdict(now, host, part) == GainVerdict::Harms {
            return false; // there is nothing to compare with
        }
        let value = log(elapsed.min(LONGEST).as_secs_f64().max(1e-6));
        let place = self.make_place(host, part);
        let own = &mut self.parts[place];
        own.whose = match own.whose {
            Whose::Nobodys => Whose::One(host),
            Whose::One(known) if known == host => own.whose,
            _ => Whose::Several,
        };
        for milestone in milestones {
            let Comparison { split, control } = &mut own.comparisons[milestone];
            let sample = if group == Group::Split { split } else { control };
            sample.add(value);
            // Each batch passes the first one once.
            let is_counted = u32::from(milestone == 0 && group == Group::Split);
            own.trial.split += is_counted;
            self.trial.split += is_counted;
        }
        let of_host = match own.whose {
            Whose::One(_) => own.trial.judge(now, harm(&own.comparisons), gain(&own.comparisons)),
            _ => false,
        };
        let of_all = harm(&self.without_strongest());
        let gains = gain(&self.comparisons());
        self.trial.judge(now, of_all, gains) || of_host
    }
}

fn joined<'a>(parts: impl Iterator<Item = &'a Part>) -> Comparisons {
    parts.fold(Comparisons::default(), |mut all, part| {
        all.iter_mut().zip(part.comparisons).for_each(|(all, own)| all.join(own));
        all
    })
}

/// The evidence that splitting does harm.
fn harm(comparisons: &Comparisons) -> f64 {
    evidence(comparisons, log(TOLERANCE), |difference| difference > log(TOLERANCE))
}

/// The evidence that splitting pays.
fn gain(comparisons: &Comparisons) -> f64 {
    evidence(comparisons, 0.0, |difference| difference < 0.0)
}

/// The mean over all milestones of the evidence that what `counts` differs from `theta`: as each has a mean of 1 at most
/// where it does not, so does theirs, however they depend on each other.
fn evidence(comparisons: &Comparisons, theta: f64, counts: impl Fn(f64) -> bool) -> f64 {
    let one = |comparison: &Comparison| match comparison.difference() {
        Some(_) if comparison.split.count.min(comparison.control.count) < LEAST_BATCHES => 0.0,
        Some(difference) if counts(difference) => exp(comparison.log_evidence(theta).min(500.0)),
        Some(_) => 0.0,
        None => 1.0,
    };
    comparisons.iter().map(one).sum::<f64>() / METRICS as f64
}
