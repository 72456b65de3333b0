//! Records of runs that never were, to see what findings say of them.
use shorthaul_observe::{Finding, FlowOutcome, Outcome, RunRecord, TimeSeries, Verdict};
use shorthaul_scenario::{Metric, Series, Study};

/// A study of which nothing is looked at but that it is one.
pub(crate) fn study() -> Study {
    let text = "duration = \"1 s\"\nhosts = { a = {}, b = {} }\nlinks = [{ between = [\"a\", \"b\"], link = {} }]\n\
                flows = [{ from = \"a\", to = \"b\", bulk = \"1 kB\" }]\n";
    Study::from_toml("s.toml", text).unwrap()
}

/// A run of a case, with nothing measured.
pub(crate) fn run(case: Option<&str>, values: &[(&str, &str)]) -> RunRecord {
    RunRecord {
        scenario: "test".into(),
        point: 1,
        case: case.map(str::to_owned),
        values: values.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect(),
        seed: 1,
        engine: shorthaul_observe::EngineName::Sim,
        outcome: Some(Outcome::default()),
        failure: None,
        part: None,
    }
}

/// What is measured of a run.
pub(crate) trait Having {
    fn metric(self, metric: Metric, value: f64) -> Self;
    fn series(self, series: Series, subject: &str, points: &[(f64, f64)]) -> Self;
    fn flow(self, name: &str, goodput: f64, transfers: &[f64], set_ups: &[f64]) -> Self;
}

impl Having for RunRecord {
    fn metric(mut self, metric: Metric, value: f64) -> Self {
        if let Some(outcome) = &mut self.outcome {
            outcome.metrics.insert(metric, value);
        }
        self
    }

    fn series(mut self, series: Series, subject: &str, points: &[(f64, f64)]) -> Self {
        if let Some(outcome) = &mut self.outcome {
            outcome.series.push(TimeSeries { series, subject: subject.into(), points: points.to_vec() });
        }
        self
    }

    fn flow(mut self, name: &str, goodput: f64, transfers: &[f64], set_ups: &[f64]) -> Self {
        if let Some(outcome) = &mut self.outcome {
            outcome.flows.push(FlowOutcome {
                name: name.into(),
                goodput,
                transfers: transfers.to_vec(),
                set_ups: set_ups.to_vec(),
                ..FlowOutcome::default()
            });
        }
        self
    }
}

/// Whether all findings hold that are judged and whose names contain this, of which there must be some.
pub(crate) fn holds(findings: &[Finding], what: &str) -> bool {
    let is_meant = |finding: &&Finding| finding.what.contains(what) && finding.verdict != Verdict::Shown;
    let meant: Vec<_> = findings.iter().filter(is_meant).collect();
    assert!(!meant.is_empty(), "no finding that is judged is called `{what}`: {findings:#?}");
    meant.iter().all(|finding| finding.verdict == Verdict::Holds)
}
