//! The live engine: a scenario on the kernel's own TCP, across emulated links between namespaces.
//!
//! Reading order: [`Live`] (the engine), `unsupported` (what cannot run live, and why), `scheme` (a scheme in the kernel's terms),
//! `network` (the lab and its gateways), `relays` (a flow's relays), `flow` (who sends what when), `own` (hosts
//! with our own TCP), `cross` (competing datagrams), `measure` (from what was seen to an
//! outcome), `judgement` (whether the machine was up to it).
#![forbid(unsafe_code)]

mod cross;
mod error;
mod flow;
mod judgement;
mod measure;
mod network;
mod own;
mod relays;
mod scheme;
mod unsupported;

use shorthaul_lab::{Look, TcpCounters, watch};
use shorthaul_observe::{Engine, EngineError, EngineName, Observations};
use shorthaul_os::ProcessorTime;
use shorthaul_scenario::{Metric, Scenario, Series};
use shorthaul_types::Seed;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use cross::CrossTraffic;
use error::LiveError;
use network::Network;
use own::OwnHosts;
use scheme::available;

pub use judgement::Bounds;

/// The live engine.
#[derive(Clone, Debug)]
pub struct Live {
    /// Beyond these a run is not to be trusted.
    pub bounds: Bounds,
    /// How many runs at the same time.
    pub jobs: usize,
}

impl Engine for Live {
    fn name(&self) -> EngineName {
        EngineName::Live
    }

    fn version(&self) -> Option<String> {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Some(format!("{} on {}", env!("CARGO_PKG_VERSION"), kernel.trim()))
    }

    fn at_once(&self) -> usize {
        self.jobs
    }

    fn refusals(&self, scenario: &Scenario) -> Vec<String> {
        match available() {
            Ok(kernel) => unsupported::unsupported(scenario, &kernel),
            Err(error) => vec![EngineError::failed(&error).to_string()],
        }
    }

    fn unmeasured(&self, scenario: &Scenario) -> Vec<String> {
        unsupported::unmeasured(scenario)
    }

    fn run(
        &self,
        scenario: &Scenario,
        seed: u64,
        reached: &dyn Fn(f64),
    ) -> Result<Observations, EngineError> {
        let reasons = self.refusals(scenario);
        if !reasons.is_empty() {
            return Err(EngineError::Refused { engine: self.name(), reasons });
        }
        let seen = run(scenario, seed, &self.bounds).map_err(|error| EngineError::failed(&error));
        reached(1.0);
        seen
    }
}

/// Runs a scenario once, in real time, and judges the run by `bounds`.
fn run(scenario: &Scenario, seed: u64, bounds: &Bounds) -> Result<Observations, LiveError> {
    let mut network = Network::start(scenario, Seed(seed))?;
    let own = OwnHosts::attach(scenario, &network, seed)?;
    let cross = CrossTraffic::prepare(scenario, &network, Seed(seed))?;
    let before = Look::take(&network.lab).ok_or(LiveError::LinkGone)?;
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
    let busy = processors.zip(ProcessorTime::now()).map_or(0.0, |(then, now)| then.busy_until(&now));
    let gateways_waited = network.waited().saturating_sub(gateways_waited);
    let after = Look::take(&network.lab).ok_or(LiveError::LinkGone)?;
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
    let mut seen = run.observations();
    seen.problems.extend(network.problems());
    seen.problems.extend(seen.fidelity.iter().flat_map(|fidelity| bounds.judge(fidelity)));
    Ok(seen)
}

/// What the kernels of the hosts that give data have counted so far.
fn counted(scenario: &Scenario, network: &Network) -> Result<Vec<TcpCounters>, LiveError> {
    let mut senders: Vec<_> = scenario.flows.iter().map(|flow| flow.from).collect();
    senders.sort_unstable();
    senders.dedup();
    let counters = senders.into_iter().map(|node| network.host(node).tcp_counters());
    counters
        .collect::<std::io::Result<_>>()
        .map_err(LiveError::io("a host's kernel does not say what it counts"))
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
