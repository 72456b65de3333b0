//! The directory as a server with a queue: how long a reading takes, and when it fails.
use super::costs::Costs;
use super::scenario::{DirectoryKind, Scenario};
use shorthaul_relay::discovery::directory::ETCD_TIMEOUT;
use shorthaul_types::Time;
use std::time::Duration;

/// How often a relay writes itself while a lease lasts, and how many requests that takes: one prolongs the lease, one writes its load.
const WRITES_A_LEASE: f64 = 3.0;

/// A directory that all clients read in whole. Its members are one queue: what arrives waits for what came before, and a reading that would take longer than a
/// client waits fails. What a client has given up costs nothing more, which is kinder than the truth.
#[derive(Debug)]
pub struct DirectoryServer {
    kind: DirectoryKind,
    /// Seconds of all members that one reading takes.
    service: f64,
    /// What a client takes beside: its link, and making sense of it.
    beside: f64,
    /// The share of the members that writing takes.
    writing: f64,
    /// Seconds of work that wait.
    backlog: f64,
    at: Time,
}

/// What came of a reading, and seconds that it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Whether there is a new list.
    pub read: bool,
    /// Until then the client waited.
    pub took: f64,
}

/// What the directory is asked for, beside what it can.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Seconds of a processor that a reading takes of a member.
    pub processor: f64,
    /// Bytes that a reading has.
    pub bytes: f64,
    /// Processors that writing takes, all members together.
    pub writing: f64,
}

impl Demand {
    pub fn of(scenario: &Scenario, costs: &Costs) -> Demand {
        let thousands = scenario.nodes.count as f64 / 1000.0;
        let writes = scenario.nodes.count as f64 * WRITES_A_LEASE / scenario.bootstrap.lease.as_secs_f64();
        match scenario.bootstrap.directory {
            DirectoryKind::Etcd => Demand {
                processor: costs.directory.server_per_1000.as_secs_f64() * thousands,
                bytes: costs.directory.bytes_per_1000.0 as f64 * thousands,
                writing: writes * costs.directory.server_per_write.as_secs_f64(),
            },
            DirectoryKind::File | DirectoryKind::None => Demand { processor: 0.0, bytes: 0.0, writing: 0.0 },
        }
    }
}

impl DirectoryServer {
    pub fn new(scenario: &Scenario, costs: &Costs) -> DirectoryServer {
        let demand = Demand::of(scenario, costs);
        let bootstrap = &scenario.bootstrap;
        let (members, cores) = (bootstrap.members as f64, bootstrap.cores as f64);
        let seconds_on_link = demand.bytes * 8.0 / bootstrap.rate.bits_per_sec() as f64;
        let thousands = scenario.nodes.count as f64 / 1000.0;
        let parsing = match bootstrap.directory {
            DirectoryKind::Etcd => costs.directory.client_per_1000.as_secs_f64(),
            DirectoryKind::File => costs.directory.file_per_1000.as_secs_f64(),
            DirectoryKind::None => 0.0,
        };
        DirectoryServer {
            kind: bootstrap.directory,
            // Each that is simulated reads for all whom it stands for.
            service: (demand.processor / cores).max(seconds_on_link) / members * scenario.clients.thin as f64,
            beside: parsing * thousands + demand.bytes * 8.0 / scenario.clients.rate.bits_per_sec() as f64,
            writing: (demand.writing / (members * cores)).min(1.0),
            backlog: 0.0,
            at: Time::ZERO,
        }
    }

    /// A client reads it.
    pub fn read(&mut self, now: Time) -> Reading {
        if self.kind != DirectoryKind::Etcd {
            return Reading { read: self.kind == DirectoryKind::File, took: self.beside };
        }
        let passed = now.saturating_since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.backlog = (self.backlog - passed * (1.0 - self.writing)).max(0.0);
        let took = self.backlog + self.service;
        if took > ETCD_TIMEOUT.as_secs_f64() || self.writing >= 1.0 {
            return Reading { read: false, took: ETCD_TIMEOUT.as_secs_f64() };
        }
        self.backlog = took;
        Reading { read: true, took: took + self.beside }
    }

    /// The longest that a reading takes.
    pub fn longest() -> Duration {
        ETCD_TIMEOUT
    }
}
