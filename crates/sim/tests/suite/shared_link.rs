//! Many hosts behind one link, or each behind its own, with downloads and pages, and what of a run counts.
use shorthaul_observe::Outcome;
use shorthaul_scenario::{Scenario, Series, Study};
use shorthaul_sim::simulate_watching;
use shorthaul_testkit::Chance;
use shorthaul_types::Seed;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Hosts that share a link of 30 ms whose queue holds 120 ms, or have one each, of 10 ms and more.
#[derive(Clone, Copy, Debug)]
pub struct SharedLink {
    pub hosts: u64,
    /// In Mbit/s; of the slowest, where each has its own.
    pub rate: u64,
    pub seconds: u64,
    /// Each has a link of its own: one to four times as fast, and 7 ms farther away than the one before.
    pub own: bool,
    /// Every third one comes when a third of the time is over, and its servers send something new for another third.
    pub churn: bool,
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// Jain's index of what hosts had.
    pub jain: f64,
    /// The part of the link that brought something new.
    pub used: f64,
    /// What 95 of 100 packets wait at most, in milliseconds, after the first three seconds.
    pub queue: f64,
    /// A page, on average, in seconds.
    pub page: f64,
    /// How many groups there were, and from which second on.
    pub groups: Vec<(f64, usize)>,
}

/// Payload of a packet, of all its bytes.
const PAYLOAD: f64 = 1448.0 / 1500.0;

/// Jain's index of fairness.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}

impl SharedLink {
    /// With as many seconds as it takes to see what comes of it.
    pub fn new(hosts: u64, rate: u64) -> SharedLink {
        SharedLink { hosts, rate, seconds: if rate >= 300 { 15 } else { 40 }, own: false, churn: false }
    }

    /// Each host has one to three downloads without an end, and loads a page of 60 kB every second or so, every eight where there are fifty.
    /// `gateway` is what the gateway is told.
    fn scenario(&self, gateway: &str, seed: u64) -> String {
        let SharedLink { hosts, rate, seconds, own, churn } = *self;
        let chance = &mut Chance(seed);
        let mut text = format!(
            "duration = \"{seconds} s\"\nrouters = [\"cell\"]\n[hosts.server]\nscheme = \"cubic\"\n\
             [gateways.gateway]\naccess = \"cell\"\n{gateway}\n\
             [[links]]\nbetween = [\"cell\", \"gateway\"]\n\
             link = {{ rate = \"{} Mbit/s\", delay = \"{} ms\", queue = \"{} kB\" }}\n\
             [[links]]\nbetween = [\"gateway\", \"server\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"1 ms\" }}\n\
             [measure]\nseries = [\"queue-delay\"]\nevery = \"20 ms\"\n",
            if own { 10_000 } else { rate },
            if own { 1 } else { 15 },
            if own { 100_000 } else { rate * 15 }
        );
        let every = if hosts >= 50 { 8000 } else { 1000 };
        for host in 0..hosts {
            let (count, start) = (1 + chance.below(3), chance.below(2000));
            let (start, lasts) = match churn && host % 3 == 2 {
                true => (start + seconds * 1000 / 3, seconds * 1000 / 3),
                false => (start, seconds * 1000),
            };
            let link = match own {
                true => format!(
                    "rate = \"{} Mbit/s\", delay = \"{} ms\", queue = \"{} kB\"",
                    self.rate_of(host),
                    5 + 7 * host,
                    self.rate_of(host) * 15
                ),
                false => "rate = \"1 Gbit/s\", delay = \"100 us\"".to_owned(),
            };
            let of = format!("from = \"server\"\nto = \"h{host:02}\"\nopened_by = \"h{host:02}\"");
            let _ = write!(
                text,
                "[hosts.h{host:02}]\nscheme = \"cubic\"\n\
                 [[links]]\nbetween = [\"h{host:02}\", \"cell\"]\nlink = {{ {link} }}\n\
                 [[flows]]\nname = \"h{host:02}\"\n{of}\nunlimited = \"{lasts} ms\"\ncount = {count}\nstart = \"{start} ms\"\n\
                 spacing = \"exponential 300 ms\"\n",
            );
            let mut at = 2000 + chance.below(every);
            while at + 1000 < seconds * 1000 {
                let _ = write!(
                    text,
                    "[[flows]]\nname = \"page-{host:02}-{at}\"\n{of}\nstart = \"{at} ms\"\ndownloads = {{ size = \"60 kB\" }}\n"
                );
                at += every / 2 + chance.below(every);
            }
        }
        text
    }

    /// Of a host with a link of its own, in Mbit/s.
    fn rate_of(&self, host: u64) -> u64 {
        self.rate * (1 + host % 4)
    }

    /// What comes of it with this seed.
    pub fn run(&self, gateway: &str, seed: u64) -> Shared {
        let text = self.scenario(gateway, seed);
        let study = Study::from_toml("shared.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let scenario = study.scenario(&study.points()[0]).expect("it was checked");
        let mut groups: Vec<(f64, usize)> = Vec::new();
        let outcome = simulate_watching(&scenario, seed, &mut |at, hosts| {
            let numbers: BTreeSet<u32> = hosts.iter().map(|host| host.group).collect();
            if groups.last().is_none_or(|(_, last)| *last != numbers.len()) {
                groups.push((at.as_nanos() as f64 / 1e9, numbers.len()));
            }
        });
        let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
        assert!(outcome.problems.is_empty(), "{:?}", outcome.problems);
        Shared { groups, ..self.figures(&scenario, seed, &outcome) }
    }

    fn figures(&self, scenario: &Scenario, seed: u64, outcome: &Outcome) -> Shared {
        let mbit = |bytes: u64| bytes as f64 * 8e-6 / self.seconds as f64;
        let of_host = |host: u64| {
            let (name, page) = (format!("h{host:02}"), format!("page-{host:02}-"));
            let own = |flow: &&shorthaul_observe::FlowOutcome| {
                flow.name.split('.').next() == Some(name.as_str()) || flow.name.starts_with(&page)
            };
            outcome.flows.iter().filter(own).map(|flow| mbit(flow.delivered)).sum::<f64>()
        };
        let hosts: Vec<f64> = (0..self.hosts).map(of_host).collect();
        let starts = scenario.starts(Seed(seed));
        let pages = outcome.flows.iter().zip(starts).filter(|(flow, _)| flow.name.starts_with("page"));
        let late = |start: f64| self.seconds as f64 - start;
        let times: Vec<f64> = pages
            .map(|(flow, start)| flow.transfers.first().copied().unwrap_or(late(start.as_secs_f64())))
            .collect();
        let bottleneck = if self.own { "cell>h" } else { "gateway>cell" };
        let queues = outcome
            .series
            .iter()
            .filter(|series| series.series == Series::QueueDelay && series.subject.contains(bottleneck));
        let points = queues.flat_map(|series| &series.points);
        let mut delays: Vec<f64> = points.filter(|(at, _)| *at > 3.0).map(|(_, delay)| delay * 1e3).collect();
        delays.sort_by(f64::total_cmp);
        let rate = if self.own { (0..self.hosts).map(|host| self.rate_of(host)).sum() } else { self.rate };
        Shared {
            jain: jain(&hosts),
            // The first hosts begin within two seconds.
            used: hosts.iter().sum::<f64>() / rate as f64 / PAYLOAD,
            queue: delays[delays.len() * 95 / 100],
            page: times.iter().sum::<f64>() / times.len().max(1) as f64,
            groups: Vec::new(),
        }
    }
}
