//! The same quantities on paper: closed forms, from the same constants.
use super::costs::Costs;
use super::directory::Demand;
use super::scenario::{DirectoryKind, Scenario};
use serde::Serialize;
use shorthaul_relay::discovery::{
    ASKED_MAX, DIRECTORY_AGE, FinderConfig, Key, Keyring, Limits, ONWARD_AGE, ONWARD_TRIES, RESPONDER_AGE,
    SILENT_LOOKS, lingering, while_it_measures,
};
use std::time::Duration;

/// What is expected. Per second where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Paper {
    /// Destinations in a client's table, on average.
    pub destinations: f64,
    /// Looks of a client.
    pub looks: f64,
    /// Probes of a look.
    pub probes_a_look: f64,
    pub probes_of_client: f64,
    pub probes_of_node: f64,
    /// Of questions for a way, that it is not known.
    pub unknown: f64,
    /// Ways that a node would have to measure if it had place for all.
    pub wanted_of_node: f64,
    /// Readings of the directory by a client, and bytes of all.
    pub reads_of_client: f64,
    pub bytes_read: f64,
    /// Seconds until a dead node is out of the table: half of all, 99 of a hundred, and the most.
    pub avoided_median: f64,
    pub avoided_p99: f64,
    pub avoided_most: f64,
}

/// A mean of round trips on the sphere: the arc is a quarter turn on average.
const MEAN_ARC: f64 = 0.5;

impl Paper {
    /// `popularity` is the probability that a visit goes to each destination.
    pub fn of(scenario: &Scenario, costs: &Costs, popularity: impl Fn(usize) -> f64) -> Paper {
        let seconds = |time: Duration| time.as_secs_f64();
        let FinderConfig { table, .. } = FinderConfig::new(Keyring::single(Key::new([0; 32])));
        let clients = &scenario.clients;
        let whole = scenario.ways.farthest.as_secs_f64() * MEAN_ARC + scenario.ways.access.as_secs_f64();
        let has_list = scenario.bootstrap.directory != DirectoryKind::None;
        let asked = if has_list { ASKED_MAX.min(scenario.nodes.count) as f64 } else { 0.0 };
        let responders = scenario.destinations.responders;
        // How long a destination stays in the table: its visit, and until it counts as idle.
        let stays = (clients.sessions - 1.0) * seconds(clients.gap) + seconds(table.idle);
        let visits = clients.visits / 3600.0;
        let destinations = visits * stays;
        // How long looks take: until the last relay is settled, whether a responder tells the distance or a handshake.
        let lingers = seconds(lingering(Duration::from_secs_f64(whole), true));
        let takes = whole + lingers / 2.0;
        // A renewal process: uniform intervals about the time of refreshing.
        let (mean, half) = (seconds(table.refresh) + takes, table.jitter * seconds(table.refresh));
        let variance = half * half / 3.0;
        // The first is that of the session, or of the thread that keeps the table fresh: never both.
        let looks_a_visit = 1.0 + stays / mean - 0.5 + variance / (2.0 * mean * mean);
        let looks = visits * looks_a_visit;
        // A node's table of ways: each target stays for a time, and there are so many places. A cache with a time to live and a limit.
        let questions = looks * asked * clients.count as f64 / scenario.nodes.count as f64;
        let rates: Vec<f64> =
            (0..scenario.destinations.count).map(|number| questions * popularity(number)).collect();
        let (age, places) = (seconds(ONWARD_AGE), Limits::default().ways as f64);
        let kept = |admitted: f64| move |rate: &f64| admitted * rate * age / (1.0 + admitted * rate * age);
        let occupied = |admitted: f64| rates.iter().map(kept(admitted)).sum::<f64>();
        let wanted: f64 = rates.iter().map(|rate| rate / (1.0 + rate * age)).sum();
        let (mut low, mut high) = (0.0, 1.0);
        if occupied(1.0) > places {
            for _ in 0..60 {
                let middle = 0.5 * (low + high);
                if occupied(middle) > places { high = middle } else { low = middle }
            }
        } else {
            low = 1.0;
        }
        let known = rates.iter().map(|rate| rate * kept(low)(rate)).sum::<f64>() / questions.max(1e-12);
        let unknown = if asked > 0.0 { 1.0 - known } else { 0.0 };
        // Who does not know the way is asked again while there is time: a round trip, and the time that measuring may take.
        let cycle = whole + seconds(while_it_measures(Duration::from_secs_f64(whole)));
        let asks = |within: f64| (1.0 + (within / cycle).floor()).min(f64::from(ONWARD_TRIES));
        let of_relay = |within: f64| 1.0 + unknown * (asks(within) - 1.0);
        let to_relays = asked * of_relay(whole + lingers);
        // A responder that did not answer is asked no more for a while: the first looks ask it, and one after each such time.
        let again = ((stays - f64::from(SILENT_LOOKS - 1) * mean) / seconds(RESPONDER_AGE)).max(0.0).floor();
        let in_vain = ((f64::from(SILENT_LOOKS) + again) / looks_a_visit).min(1.0);
        let probes_a_look = to_relays + responders + (1.0 - responders) * in_vain;
        // The list is read with the first look after a minute.
        let active = 1.0 - (-destinations).exp();
        let at_once = destinations / active.max(1e-12);
        let between = seconds(DIRECTORY_AGE) + mean / (at_once + 1.0);
        let reads = if has_list { active / between + visits * (1.0 - active) * 0.5 } else { 0.0 };
        let demand = Demand::of(scenario, costs);
        // What is left of an interval at a moment that is no part of it: its distribution's quantiles.
        let (shortest, longest) = (seconds(table.refresh) - half, seconds(table.refresh) + half);
        let residual = |part: f64| {
            let (mut low, mut high) = (0.0, longest);
            for _ in 0..60 {
                let middle = 0.5 * (low + high);
                let beyond = if middle > shortest && half > 0.0 {
                    ((2.0 * half).powi(2) - (longest - middle).powi(2)) / (4.0 * half)
                } else {
                    0.0
                };
                let below = (middle.min(shortest) + beyond) / seconds(table.refresh);
                if below < part { low = middle } else { high = middle }
            }
            low
        };
        // With a dead node among those that are asked, a look lingers.
        let looks_take = takes + lingers / 2.0;
        Paper {
            destinations,
            looks,
            probes_a_look,
            probes_of_client: looks * probes_a_look,
            probes_of_node: looks * to_relays * clients.count as f64 / scenario.nodes.count as f64,
            unknown,
            wanted_of_node: wanted,
            reads_of_client: reads,
            bytes_read: reads * clients.count as f64 * demand.bytes,
            avoided_median: residual(0.5) + looks_take,
            avoided_p99: residual(0.99) + looks_take,
            avoided_most: longest + longest_look(scenario),
        }
    }
}

/// The longest that a look takes that the destination answers: an attempt at a responder that is known to be there, a handshake, and all that is waited for after it
/// by who has no cookie yet, behind a directory that does not answer.
pub fn longest_look(scenario: &Scenario) -> f64 {
    let FinderConfig { retry, .. } = FinderConfig::new(Keyring::single(Key::new([0; 32])));
    let whole = (scenario.ways.farthest + scenario.ways.access).as_secs_f64();
    let lingers = lingering(Duration::from_secs_f64(whole), true).as_secs_f64();
    let reading = match scenario.bootstrap.directory {
        DirectoryKind::Etcd => super::directory::DirectoryServer::longest().as_secs_f64(),
        DirectoryKind::File | DirectoryKind::None => 0.0,
    };
    retry.timeout.as_secs_f64() + whole + 2.0 * lingers + reading
}
