//! What of a run counts: throughput, how long pages take, and how long packets wait.
use serde::{Deserialize, Serialize};
use shorthaul_observe::{Mean, Outcome};
use shorthaul_scenario::{Scenario, Series, Study};
use shorthaul_sim::{Recording, simulate};
use shorthaul_types::Seed;
use std::collections::BTreeMap;

/// What came of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Figures {
    /// What arrived of all flows, in bit/s over the whole run.
    pub throughput: f64,
    /// The mean time of a download of a page, in seconds. One that was not there at the end counts with the time that it
    /// had until then: left out, the slower way would look faster.
    pub page: f64,
    /// How long a packet waits in the queues of the path there and back, in seconds, on average over the run.
    pub queue: f64,
}

/// Flows whose name begins so are pages.
const PAGE: &str = "page";

/// Runs a scenario.
pub(super) fn run(text: &str, seed: u64) -> Result<Figures, String> {
    let (scenario, outcome) = simulated(text, seed)?;
    Ok(of(&scenario, seed, &outcome))
}

/// A scenario, and what came of it.
pub(super) fn simulated(text: &str, seed: u64) -> Result<(Scenario, Outcome), String> {
    let study = Study::from_toml("cell", text).map_err(|error| error.to_string())?;
    let scenario = study.scenario(&study.points()[0]).map_err(|error| error.to_string())?;
    let outcome = simulate(&scenario, seed, Recording::default()).map_err(|error| error.to_string())?;
    match outcome.problems.first() {
        Some(problem) => Err(problem.clone()),
        None => Ok((scenario, outcome)),
    }
}

/// How long a page took, on average, in seconds; one that is not there at the end, with the time that it had until then. Nothing, if
/// there were none.
pub(super) fn mean_page(scenario: &Scenario, seed: u64, outcome: &Outcome) -> Option<f64> {
    let until = scenario.duration.as_secs_f64();
    let starts = scenario.starts(Seed(seed));
    let pages = outcome.flows.iter().zip(starts).filter(|(flow, _)| flow.name.starts_with(PAGE));
    let times: Mean = pages
        .filter(|(_, start)| start.as_secs_f64() < until)
        .map(|(flow, start)| flow.transfers.first().copied().unwrap_or(until - start.as_secs_f64()))
        .collect();
    times.value()
}

/// What of an outcome counts.
pub(super) fn of(scenario: &Scenario, seed: u64, outcome: &Outcome) -> Figures {
    let until = scenario.duration.as_secs_f64();
    let delivered: u64 = outcome.flows.iter().map(|flow| flow.delivered).sum();
    let mut queues: BTreeMap<&str, (f64, usize)> = BTreeMap::new();
    for series in outcome.series.iter().filter(|series| series.series == Series::QueueDelay) {
        let (sum, count) = queues.entry(&series.subject).or_default();
        *sum += series.points.iter().map(|(_, delay)| delay).sum::<f64>();
        *count += series.points.len();
    }
    Figures {
        throughput: delivered as f64 * 8.0 / until,
        page: mean_page(scenario, seed, outcome).unwrap_or_default(),
        queue: queues.values().map(|(sum, count)| sum / (*count).max(1) as f64).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_does_not_come_counts_with_the_time_it_had() {
        // 1 Mbit/s for 10 s: the first download takes a second, the second does not end.
        let text = |size: &str| {
            format!(
                "duration = \"10 s\"\n[hosts.a]\n[hosts.b]\n[[links]]\nbetween = [\"a\", \"b\"]\n\
                 link = {{ rate = \"1 Mbit/s\", delay = \"1 ms\" }}\n\
                 [[flows]]\nname = \"page-1\"\nfrom = \"b\"\nto = \"a\"\nopened_by = \"a\"\ndownloads = {{ size = \"{size}\" }}\n\
                 [[flows]]\nname = \"page-2\"\nfrom = \"b\"\nto = \"a\"\nopened_by = \"a\"\nstart = \"4 s\"\ndownloads = {{ size = \"9 MB\" }}\n\
                 [measure]\nseries = [\"queue-delay\"]\n"
            )
        };
        let found = run(&text("100 kB"), 1).unwrap();
        assert!((3.3..3.6).contains(&found.page), "the mean of 0.85 and 6: {}", found.page);
        assert!((0.55e6..0.75e6).contains(&found.throughput), "{}", found.throughput);
        assert!(found.queue > 0.01, "{}", found.queue);
        assert_eq!(run(&text("100 kB"), 1).unwrap(), found);
    }
}
