//! Transfers that had not ended when their runs were over: their times are unknown, and longer than those that are known.
use crate::{EngineName, RunRecord};
use shorthaul_scenario::Metric;

use super::{by_point, engines, label, summary};

/// More points than these are not named.
const MOST_REMARKS: usize = 20;

/// How many runs of an engine had transfers that had not ended, though the time that these take is measured; and how many came to an outcome.
pub fn unended(runs: &[&RunRecord], engine: EngineName) -> [usize; 2] {
    let outcomes = runs.iter().filter(|run| run.engine == engine).filter_map(|run| run.outcome.as_ref());
    outcomes.fold([0, 0], |[cut, all], outcome| [cut + usize::from(outcome.unended > 0), all + 1])
}

/// What that means for `completion`: a sentence for each point and engine with any, of the first ones.
pub fn unended_sentences(records: &[RunRecord]) -> Vec<String> {
    let engines = engines(records);
    let mut sentences = Vec::new();
    let mut unnamed = 0;
    for ((_, case, values), runs) in by_point(records) {
        for &engine in &engines {
            let [cut, all] = unended(&runs, engine);
            if cut == 0 {
                continue;
            }
            if sentences.len() == MOST_REMARKS {
                unnamed += 1;
                continue;
            }
            let mut place = label(case.as_deref(), &values);
            if engines.len() > 1 {
                let comma = if place.is_empty() { "" } else { ", " };
                place = format!("{place}{comma}{engine}");
            }
            let colon = if place.is_empty() { "" } else { ": " };
            let completion = match summary(&runs, engine, Metric::Completion) {
                Some(_) => "`completion` is of the others, which were faster",
                None => "so there is no `completion`",
            };
            sentences.push(format!(
                "{place}{colon}{cut} of {all} runs had transfers that had not ended; {completion}: lengthen `duration`"
            ));
        }
    }
    if unnamed > 0 {
        sentences.push(format!("the same holds at {unnamed} more points, which the table names"));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlowOutcome, Observations, Outcome, RunRecord, results, runs_of};
    use shorthaul_report::{Manifest, Terminal};
    use shorthaul_scenario::{Scenario, Study};

    const TEXT: &str = "duration = \"6 s\"\nrepeats = 3\nhosts = { a = {}, b = {} }\nlinks = [{ between = [\"a\", \"b\"], link = {} }]\n\
                        flows = [{ from = \"a\", to = \"b\", bulk = \"1 kB\" }, { from = \"a\", to = \"b\", unlimited = \"6 s\" }]\n\
                        [cases.first]\n[cases.second]\n";

    /// What is seen of a run: the first flow ended after so many seconds, or did not; the second never does.
    fn outcome(scenario: &Scenario, took: Option<f64>) -> Outcome {
        let flow = |name: &str, took: Option<f64>| FlowOutcome {
            name: name.into(),
            transfers: took.into_iter().collect(),
            ended: took.is_some(),
            ..FlowOutcome::default()
        };
        let flows = vec![flow("flow1", took), flow("flow2", None)];
        Observations { flows, ..Observations::default() }.outcome_of(scenario, 0)
    }

    fn records(text: &str, took: &[Option<f64>]) -> Vec<RunRecord> {
        let study = Study::from_toml("s.toml", text).unwrap();
        let scenario = study.scenario(&study.points()[0]).unwrap();
        let runs = runs_of(&study).into_iter().zip(took);
        runs.map(|(run, took)| RunRecord::of(&study, run, EngineName::Sim, Ok(outcome(&scenario, *took))))
            .collect()
    }

    #[test]
    fn transfers_that_have_not_ended_are_counted_and_said() {
        let took = [Some(1.0), None, Some(2.0), None, None, None];
        let records = records(TEXT, &took);
        let [first, second] = unended_sentences(&records).try_into().unwrap();
        assert_eq!(
            first,
            "first: 1 of 3 runs had transfers that had not ended; `completion` is of the others, which were faster: lengthen `duration`"
        );
        assert_eq!(
            second,
            "second: 3 of 3 runs had transfers that had not ended; so there is no `completion`: lengthen `duration`"
        );
        let table = results::table(&records).render(Terminal::PLAIN);
        assert!(
            table.contains("1 of 3 runs not ended") && table.contains("3 of 3 runs not ended"),
            "{table}"
        );
        let json = results::json(&Manifest::of_this_command(), &records).unwrap();
        assert_eq!(json["remarks"], serde_json::json!([first, second]));
        assert_eq!(json["results"][1]["runs_with_unended_transfers"], 3);
    }

    #[test]
    fn nothing_is_said_where_all_ended_or_nobody_asked() {
        let ended = [Some(1.0); 6];
        assert_eq!(unended_sentences(&records(TEXT, &ended)), [""; 0]);
        let unasked = format!("{TEXT}[measure]\nmetrics = [\"goodput\"]\n");
        assert_eq!(unended_sentences(&records(&unasked, &[None; 6])), [""; 0]);
    }
}
