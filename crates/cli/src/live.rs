//! The live engine: a scenario on the kernel's own TCP, across emulated links between namespaces.
//!
//! Reading order: `unsupported` (what cannot run live, and why), `scheme` (a scheme in the kernel's terms),
//! `network` (the lab and its gateways), `relays` (a flow's relays), `flow` (who sends what when), `own` (hosts
//! with our own TCP), `cross` (competing datagrams), `measure` (from what was seen to an
//! outcome), `judgement` (whether the machine was up to it).
mod cross;
mod flow;
mod judgement;
mod measure;
mod network;
mod own;
mod relays;
mod scheme;
mod unsupported;

use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use shorthaul_lab::TcpCounters;
use shorthaul_scenario::{Engine, Metric, Scenario, Series, Study};
use shorthaul_sim::{self as sim, Outcome, RunRecord};
use shorthaul_types::Seed;

use crate::watch::{Look, watch};
use cross::CrossTraffic;
use judgement::ProcessorTime;
use network::Network;
use own::OwnHosts;

pub use judgement::Bounds;
use scheme::available;
pub use unsupported::unmeasured;
use unsupported::unsupported;

/// Does the runs of a study, so many `jobs` at once, and calls `done` after each. The records come in the
/// order of `runs`.
///
/// # Errors
/// If a point makes no sense; not for the study's own points.
pub fn run_all(
    study: &Study,
    runs: &[sim::Run],
    jobs: usize,
    bounds: &Bounds,
    done: impl Fn(&RunRecord) + Sync,
) -> Result<Vec<RunRecord>> {
    let waiting = Mutex::new(runs.iter().enumerate());
    let next = || waiting.lock().ok().and_then(|mut runs| runs.next());
    let records = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, runs.len().max(1)) {
            scope.spawn(|| {
                while let Some((place, run)) = next() {
                    let record = record(study, *run, bounds);
                    if let Ok(record) = &record {
                        done(record);
                    }
                    records.lock().expect("no holder of the lock panics").push((place, record));
                }
            });
        }
    });
    let mut records = records.into_inner().expect("no holder of the lock panics");
    records.sort_by_key(|(place, _)| *place);
    records.into_iter().map(|(_, record)| record).collect()
}

fn record(study: &Study, sim::Run { point, seed }: sim::Run, bounds: &Bounds) -> Result<RunRecord> {
    let place = point;
    let point = &study.points()[place];
    let (outcome, failure) = match run(&study.scenario(point)?, seed, bounds) {
        Ok(outcome) => {
            let failure = (!outcome.problems.is_empty()).then(|| outcome.problems.join("; "));
            (Some(outcome), failure)
        }
        Err(error) => (None, Some(format!("{error:#}"))),
    };
    Ok(RunRecord {
        scenario: study.name().to_owned(),
        point: place + 1,
        case: point.case.clone(),
        values: point.values.clone(),
        seed,
        engine: Engine::Live,
        outcome,
        failure,
    })
}

/// Runs a scenario once, in real time, and judges the run by `bounds`.
///
/// # Errors
/// If something of the scenario does not exist live, or this machine cannot make the network.
pub fn run(scenario: &Scenario, seed: u64, bounds: &Bounds) -> Result<Outcome> {
    let kernel = available()?;
    let reasons = unsupported(scenario, &kernel);
    if !reasons.is_empty() {
        bail!("cannot run live: {}", reasons.join("; "));
    }
    let mut network = Network::start(scenario, Seed(seed))?;
    let own = OwnHosts::attach(scenario, &network, seed)?;
    let cross = CrossTraffic::prepare(scenario, &network, Seed(seed))?;
    let before = Look::take(&network.lab).context("a link of the lab is gone")?;
    let counted_before = counted(scenario, &network)?;
    let processors = ProcessorTime::now();
    let gateways_waited = network.waited();
    let began = Instant::now();
    let (flows, looks, held) = thread::scope(|scope| {
        let (done, ended) = mpsc::channel::<()>();
        let watching = scope.spawn(|| {
            let ended = ended; // closed when the flows are through
            watch(&network.lab, scenario.measure.every, &ended)
        });
        let (stop_asking, asked_enough) = mpsc::channel::<()>();
        let asking = scope.spawn(|| {
            let ended = asked_enough;
            held_over_time(scenario, &network, &ended)
        });
        let (stop_radio, radio_ended) = mpsc::channel::<()>();
        scope.spawn(|| {
            let ended = radio_ended;
            network.control_radio(scenario, &ended);
        });
        let sending = cross.start(scope, began);
        let flows = flow::run_all(scenario, &network, own, seed, began);
        drop((sending, done, stop_asking, stop_radio));
        (flows, watching.join().unwrap_or_default(), asking.join().unwrap_or_default())
    });
    let ended_at = began.elapsed().as_secs_f64();
    let busy = processors.busy_since();
    let gateways_waited = network.waited().saturating_sub(gateways_waited);
    let after = Look::take(&network.lab).context("a link of the lab is gone")?;
    let counted_after = counted(scenario, &network)?;
    let run = measure::Run {
        scenario,
        seed,
        flows,
        before,
        looks,
        held,
        after,
        counted: counted_before
            .into_iter()
            .zip(counted_after)
            .map(|(before, after)| [before, after])
            .collect(),
        ended_at,
        busy,
        gateways_waited,
    };
    let mut outcome = run.outcome();
    outcome.problems.extend(network.problems());
    outcome.problems.extend(outcome.fidelity.iter().flat_map(|fidelity| bounds.judge(fidelity)));
    Ok(outcome)
}

/// What the kernels of the hosts that give data have counted so far.
fn counted(scenario: &Scenario, network: &Network) -> Result<Vec<TcpCounters>> {
    let mut givers: Vec<_> = scenario.flows.iter().map(|flow| flow.from).collect();
    givers.sort_unstable();
    givers.dedup();
    let counters = givers.into_iter().map(|node| network.host(node).tcp_counters());
    counters.collect::<std::io::Result<_>>().context("a host's kernel does not say what it counts")
}

/// What the gateways hold, in seconds and bytes, where that is to be measured.
fn held_over_time(scenario: &Scenario, network: &Network, ended: &mpsc::Receiver<()>) -> Vec<(f64, u64)> {
    let measure = &scenario.measure;
    let is_wanted = measure.metrics.iter().any(|metric| matches!(metric, Metric::Held | Metric::HeldMost))
        || measure.series.contains(&Series::Buffer);
    let began = Instant::now();
    let mut seen = Vec::new();
    while is_wanted && ended.recv_timeout(measure.every) == Err(mpsc::RecvTimeoutError::Timeout) {
        seen.push((began.elapsed().as_secs_f64(), network.held()));
    }
    seen
}
