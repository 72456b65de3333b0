use crate::{Recording, simulate};
use shorthaul_observe::Outcome;
use shorthaul_scenario::{Metric, Study};

/// Runs a scenario once and says how long the slowest of its transfers took, from the first SYN until the last
/// byte had arrived, in seconds.
///
/// # Errors
/// If the scenario makes no sense, the run was not sound, or it did not end in the time that it had.
pub fn slowest_transfer(scenario: &str, seed: u64) -> Result<f64, String> {
    let (_, outcome) = run(scenario, seed)?;
    if outcome.metrics.get(&Metric::Unfinished).is_some_and(|unfinished| *unfinished > 0.0) {
        return Err(format!("not done after {} s", outcome.ended_at));
    }
    let times = outcome.flows.iter().flat_map(|flow| flow.transfers.iter().copied());
    times.reduce(f64::max).ok_or_else(|| "nothing was transferred".to_owned())
}

/// Runs a scenario once; the first of the metrics that it wants.
///
/// # Errors
/// If the scenario makes no sense, the run was not sound, or nothing happened that the metric measures.
pub fn measured(scenario: &str, seed: u64) -> Result<f64, String> {
    let (wanted, outcome) = run(scenario, seed)?;
    let metric = wanted.first().ok_or("nothing is measured")?;
    outcome.metrics.get(metric).copied().ok_or_else(|| format!("{metric} was not seen"))
}

fn run(scenario: &str, seed: u64) -> Result<(Vec<Metric>, Outcome), String> {
    let study = Study::from_toml("chain", scenario).map_err(|error| error.to_string())?;
    let scenario = study.scenario(&study.points()[0]).map_err(|error| error.to_string())?;
    let outcome = simulate(&scenario, seed, Recording::default()).map_err(|error| error.to_string())?;
    match outcome.problems.first() {
        Some(problem) => Err(problem.clone()),
        None => Ok((scenario.measure.metrics, outcome)),
    }
}
