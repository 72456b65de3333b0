//! Runs the transfers: a network for each congestion control and way, and in it the short transfer
//! and then the long one.
use crate::direct_or_split::DirectOrSplit;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use shorthaul_dataplane::Config;
use shorthaul_lab::workload::{Amount, Ends, Sender, Transfer as Workload, TransferError, TransferReport};
use shorthaul_lab::{GatewayProcess, Lab, LinkReport, Look, Topology, watch};
use shorthaul_proxy::LegSpec;
use shorthaul_report::{Progress, Unit};
use shorthaul_tcp::ProfilePatch;
use shorthaul_types::Seed;

use super::facts::PathFacts;
use super::outcome::{Outcome, Queueing, Received};
use super::plan::{Case, Congestion, Path, Transfer};
use crate::error::{Result, While};
use crate::trial::in_lanes;

/// How finely the received bytes are counted.
pub const INTERVAL: Duration = Duration::from_millis(50);
/// How often the links are asked for their queues.
const LOOK: Duration = Duration::from_millis(100);

/// Runs all transfers of a path so often, each time with other chance; `lanes` networks with and as many without a gateway at a
/// time.
pub fn run(
    path: Path,
    controls: &[Congestion],
    repeats: u64,
    seed: Seed,
    progress: &Progress<'_>,
) -> Vec<(Case, Outcome)> {
    let all = (0..repeats).flat_map(|repeat| controls.iter().map(move |control| (repeat, *control)));
    let outcomes = in_lanes(path.lanes, all, |(repeat, congestion)| {
        let network = |way| run_network(path, congestion, way, (repeat, seed.nth(repeat)), progress);
        // Both ways at once: what disturbs the machine disturbs both.
        thread::scope(|scope| {
            let split = scope.spawn(|| network(DirectOrSplit::Split));
            let mut outcomes = network(DirectOrSplit::Direct);
            outcomes.extend(split.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            outcomes
        })
    });
    outcomes.into_iter().flatten().collect()
}

/// The topology of a path; its links draw from `seed`.
pub fn topology(path: &Path, seed: Seed) -> Result<Topology> {
    let mut topology = Topology::from_toml(path.name, path.topology)?;
    topology.seed = seed.derive(path.name);
    Ok(topology)
}

/// Between client and server, with the congestion control of the ends and a first window toward the client
/// that the path takes.
fn gateway(path: &Path, ends: Congestion) -> Config {
    let sender = ProfilePatch { congestion: Some(ends.algorithm()), ..ProfilePatch::default() };
    let leg = |sender| LegSpec { sender, mtu: None };
    Config {
        access: vec!["to-client".into()],
        wan: vec!["to-server".into()],
        to_access: leg(ProfilePatch { initial_window: Some(path.initial_window), ..sender.clone() }),
        to_wan: leg(sender),
        // Nothing that is measured here is to stay whole by chance.
        control_group: Some(0.0),
        ..Config::default()
    }
}

/// A transfer and what came of it, in a line.
fn told(case: &Case, outcome: &Outcome) -> String {
    let time = Unit::Seconds.format(outcome.seconds);
    let rate = Unit::BitsPerSecond.format(outcome.goodput());
    let result = match &outcome.failure {
        Some(failure) => format!("failed: {failure}"),
        None if !outcome.complete() => format!("stopped after {time}, {rate}"),
        None if outcome.verified => format!("{time}, {rate}, hash verified"),
        None => format!("{time}, {rate}"),
    };
    let Case { path, congestion, transfer, way, .. } = case;
    format!("{:8} {} {} {}: {result}", path.name, congestion.name(), transfer.name(), way.name())
}

fn run_network(
    path: Path,
    congestion: Congestion,
    way: DirectOrSplit,
    (repeat, seed): (u64, Seed),
    progress: &Progress<'_>,
) -> Vec<(Case, Outcome)> {
    let case = |transfer| Case { path, congestion, transfer, way, repeat };
    let made = topology(&path, seed).and_then(|topology| {
        let lab = Lab::start(&topology)?;
        let gateway = match way {
            DirectOrSplit::Direct => None,
            DirectOrSplit::Split => {
                Some(GatewayProcess::start(lab.host("gateway"), gateway(&path, congestion))?)
            }
        };
        Ok((lab, gateway, PathFacts::of(&topology, &path)))
    });
    let mut outcomes = Vec::new();
    for transfer in Transfer::ALL {
        let case = case(transfer);
        let outcome = match &made {
            Ok((lab, gateway, facts)) => {
                let waited = || gateway.as_ref().map_or(Duration::ZERO, GatewayProcess::waited);
                let before = waited();
                let outcome = run_transfer(lab, facts, &case, seed);
                Outcome { gateway_waited_s: waited().saturating_sub(before).as_secs_f64(), ..outcome }
            }
            Err(error) => Outcome::failed(&case, error.to_string()),
        };
        progress.step(&told(&case, &outcome));
        outcomes.push((case, outcome));
    }
    outcomes
}

fn run_transfer(lab: &Lab, facts: &PathFacts, case: &Case, seed: Seed) -> Outcome {
    let workload = Workload {
        sender: Sender::Server,
        amount: Amount::Bytes(case.size()),
        congestion: Ends { client: case.congestion.name().into(), server: case.congestion.name().into() },
        limit: case.path.limit,
        interval: INTERVAL,
        seed: seed.derive(case.transfer.name()),
        ..Workload::default()
    };
    let before = Look::take(lab).map(|look| Links::of(lab, &look));
    let (result, looks) = thread::scope(|scope| {
        let (done, ended) = mpsc::channel::<()>();
        let watching = scope.spawn(move || watch(lab, LOOK, &ended));
        let result = workload.run(lab.host("client"), lab.host("server"));
        drop(done);
        (result, watching.join().unwrap_or_default())
    });
    let mut outcome = match result {
        Ok(report) => arrived(&report, case),
        Err(TransferError::Late { limit, received }) => {
            let (bytes, seconds) = (received.0, limit.as_secs_f64());
            Outcome { bytes, asked: case.size().0, seconds, ..Outcome::default() }
        }
        Err(error) => Outcome::failed(case, error.to_string()),
    };
    let queueing = looks.iter().map(|look| {
        let delay_s = Links::of(lab, look).queue_delay_s;
        Queueing { seconds: look.seconds, delay_s }
    });
    outcome.queueing = queueing.collect();
    let after = Look::take(lab).map(|look| Links::of(lab, &look));
    if let (Some(before), Some(after)) = (before, after) {
        outcome.lost = after.lost - before.lost;
        outcome.overflowed = after.overflowed - before.overflowed;
        outcome.missed = after.missed - before.missed;
        outcome.late_s = after.late_s;
    }
    if case.way == DirectOrSplit::Split && stayed_whole(&outcome, facts) {
        outcome.failure = Some("the gateway passed the connection on without splitting it".to_string());
    }
    outcome
}

/// What came of a transfer of which every byte arrived: the workload has compared them all.
fn arrived(report: &TransferReport, case: &Case) -> Outcome {
    let completed = report.completed.as_secs_f64();
    let mut bytes = 0;
    let received = report.arrivals.iter().enumerate().map(|(i, arrived)| {
        bytes += arrived.0;
        let end = (i + 1) as f64 * INTERVAL.as_secs_f64();
        Received { seconds: end.min(completed), bytes }
    });
    Outcome {
        received: received.collect(),
        bytes: report.received.0,
        asked: case.size().0,
        seconds: completed,
        verified: true,
        retransmitted: report.retransmits().into(),
        server_round_trip_s: report.samples.last().map_or(0.0, |sample| sample.min_rtt.as_secs_f64()),
        ..Outcome::default()
    }
}

/// Whether the server saw the round trip to the client, as it does where the connection was not split. What links were late by may be in it.
fn stayed_whole(outcome: &Outcome, facts: &PathFacts) -> bool {
    let between = (facts.wan_round_trip_s + facts.round_trip_s) / 2.0;
    outcome.verified && outcome.server_round_trip_s > between + 2.0 * outcome.late_s
}

/// The links of a lab together, toward the client.
#[derive(Default)]
pub struct Links {
    pub queue_delay_s: f64,
    lost: u64,
    overflowed: u64,
    pub missed: u64,
    pub late_s: f64,
}

impl Links {
    pub fn of(lab: &Lab, look: &Look) -> Links {
        let mut all = Links::default();
        for (link, report) in lab.links().iter().zip(&look.links) {
            let LinkReport { up, down, missed, .. } = *report;
            // The client is the first host by name, and the server the last.
            let client_first = link.hosts()[0].name() < link.hosts()[1].name();
            let toward_client = if client_first { down } else { up };
            all.queue_delay_s += toward_client.queue_delay.as_secs_f64();
            all.lost += toward_client.link.dropped.loss + toward_client.link.dropped.outage;
            all.overflowed += toward_client.link.dropped.queue_full;
            all.missed += missed + up.refused + down.refused;
            all.late_s = all.late_s.max(toward_client.lateness.p99.as_secs_f64());
        }
        all
    }
}

/// Builds one of the networks with a gateway in it and takes it down again, so that what is missing
/// is said once and early.
pub fn rehearse(path: &Path, seed: Seed) -> Result<()> {
    let topology = topology(path, seed)?;
    let lab = Lab::start(&topology).doing("building a network")?;
    GatewayProcess::start(lab.host("gateway"), gateway(path, Congestion::Cubic))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_saw_the_whole_round_trip_was_not_split_unless_links_were_as_late() {
        let facts = PathFacts {
            rate_bit_per_s: 33e3,
            round_trip_s: 1.12,
            access_round_trip_s: 1.1,
            wan_round_trip_s: 0.02,
            initial_window: 10,
            loss: 0.0,
        };
        let seen = |server_round_trip_s, late_s| Outcome {
            verified: true,
            server_round_trip_s,
            late_s,
            ..Outcome::default()
        };
        assert!(!stayed_whole(&seen(0.02, 0.001), &facts));
        assert!(stayed_whole(&seen(1.12, 0.001), &facts));
        assert!(!stayed_whole(&seen(1.12, 1.11), &facts), "a machine that late shows nothing");
    }
}
