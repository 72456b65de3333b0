use crate::SimError;
use crate::build::build;
use crate::handled::Handled;
use crate::measure::Probe;
use crate::network::Network;
use crate::recorder::Recorder;
use crate::station::Station;
use shorthaul_observe::{Observations, Outcome};
use shorthaul_proxy::HostInfo;
use shorthaul_scenario::Scenario;
use shorthaul_types::{Seed, Time};
use std::io::Write;

/// What is written while a run goes on. Nothing, by default.
#[derive(Default)]
pub struct Recording {
    captures: Vec<(String, Box<dyn Write + Send>)>,
    trace: Option<Box<dyn Write + Send>>,
}

impl Recording {
    /// Records the packets of the link `name` (as in [`LinkDescription::name`]) for Wireshark, both
    /// directions.
    ///
    /// [`LinkDescription::name`]: shorthaul_scenario::LinkDescription::name
    #[must_use]
    pub fn capture(mut self, name: &str, out: Box<dyn Write + Send>) -> Self {
        self.captures.push((name.to_owned(), out));
        self
    }

    /// Writes what happens on every link, an event a line, as JSON.
    #[must_use]
    pub fn trace(mut self, out: Box<dyn Write + Send>) -> Self {
        self.trace = Some(out);
        self
    }

    fn into_recorder(
        self,
        scenario: &Scenario,
        network: &Network,
    ) -> Result<Option<Box<Recorder>>, SimError> {
        if self.captures.is_empty() && self.trace.is_none() {
            return Ok(None);
        }
        let mut recorder = Recorder::new(network.ways.iter().map(|way| way.name.clone()).collect());
        for (name, out) in self.captures {
            let Some(link) = scenario.links.iter().position(|link| link.name == name) else {
                let known = scenario.links.iter().map(|link| link.name.clone()).collect();
                return Err(SimError::NoLink { name, known });
            };
            recorder.capture([2 * link, 2 * link + 1], out);
        }
        if let Some(out) = self.trace {
            recorder.trace(out);
        }
        Ok(Some(Box::new(recorder)))
    }
}

/// Runs a scenario once.
///
/// The same scenario and seed give the same outcome, to the last event, on every machine. The run ends
/// when all flows have, or at the scenario's duration.
///
/// # Errors
/// If a recording cannot be written, or the run gets stuck at one point in time.
pub fn simulate(scenario: &Scenario, seed: u64, recording: Recording) -> Result<Outcome, SimError> {
    let seen = observe(scenario, seed, recording, &|_| ())?;
    Ok(seen.outcome_of(scenario, seed))
}

/// The same, while `look` is told at every sample, with the time, how the hosts at the access side of the gateway stand.
///
/// # Errors
/// If the run gets stuck at one point in time.
pub fn simulate_watching(
    scenario: &Scenario,
    seed: u64,
    look: &mut dyn FnMut(Time, Vec<HostInfo>),
) -> Result<Outcome, SimError> {
    let mut network = build(scenario, Seed(seed));
    let seen = run(scenario, &mut network, Recording::default(), &mut |at, network| {
        let hosts = network.nodes.iter().find_map(|node| match &node.station {
            Station::Gateway(gateway) => Some(gateway.gateway.hosts().collect()),
            _ => None,
        });
        look(at, hosts.unwrap_or_default());
    })?;
    Ok(seen.outcome_of(scenario, seed))
}

/// What is seen of a run. `reached` is told at every sample how much of the scenario's duration has passed, from 0
/// to 1.
pub(crate) fn observe(
    scenario: &Scenario,
    seed: u64,
    recording: Recording,
    reached: &dyn Fn(f64),
) -> Result<Observations, SimError> {
    let lasts = scenario.duration.as_secs_f64();
    run(scenario, &mut build(scenario, Seed(seed)), recording, &mut |at, _| {
        reached(at.saturating_since(Time::ZERO).as_secs_f64() / lasts);
    })
}

/// The same, with what each gateway was given that is one process to the end.
///
/// # Errors
/// If the run gets stuck at one point in time.
pub fn simulate_noting(scenario: &Scenario, seed: u64) -> Result<(Outcome, Vec<Handled>), SimError> {
    let mut network = build(scenario, Seed(seed));
    for node in &mut network.nodes {
        if let Station::Gateway(gateway) = &mut node.station {
            gateway.note_calls();
        }
    }
    let seen = run(scenario, &mut network, Recording::default(), &mut |_, _| ())?;
    let handled =
        network.nodes.iter_mut().zip(&scenario.nodes).filter_map(|(node, described)| {
            match &mut node.station {
                Station::Gateway(gateway) => gateway.take_handled(&described.name),
                _ => None,
            }
        });
    let handled = handled.collect();
    Ok((seen.outcome_of(scenario, seed), handled))
}

fn run(
    scenario: &Scenario,
    network: &mut Network,
    recording: Recording,
    sampled: &mut dyn FnMut(Time, &Network),
) -> Result<Observations, SimError> {
    network.recorder = recording.into_recorder(scenario, network)?;
    let end = Time::ZERO + scenario.duration;
    let mut probe = Probe::new(scenario);
    let mut at = Time::ZERO;
    while at < end && !is_done(scenario, network) {
        at = (at + scenario.measure.every).min(end);
        if let Err(stuck) = network.run_until(at) {
            return Err(SimError::Stuck { at: stuck.at, who: stuck.who });
        }
        probe.sample(network);
        sampled(at, network);
    }
    if let Some(recorder) = network.recorder.take() {
        recorder.finish().map_err(SimError::Recording)?;
    }
    Ok(probe.observations(scenario, network))
}

/// Whether nothing more will come that anybody waits for.
fn is_done(scenario: &Scenario, network: &Network) -> bool {
    let flows_end = network.nodes.iter().all(|node| match &node.station {
        Station::Host(host) => host.is_done(),
        _ => true,
    });
    flows_end && !scenario.flows.is_empty()
}
