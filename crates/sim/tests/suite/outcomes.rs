//! Runs of scenarios that have no problem.
use shorthaul_observe::Outcome;
use shorthaul_scenario::Study;
use shorthaul_sim::{Recording, simulate};

/// What comes of a scenario, with the first seed.
pub(crate) fn run(text: &str) -> Outcome {
    let study = Study::from_toml("test.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let scenario = study.scenario(&study.points()[0]).expect("it was checked");
    let outcome = simulate(&scenario, 1, Recording::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.problems.is_empty(), "{:?}\n{text}", outcome.problems);
    outcome
}
