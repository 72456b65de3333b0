//! The comparison as a whole: what each policy comes to over all its cells, beside a plain split in the same cell.
use super::figures::POLICIES;
use shorthaul_observe::{Outcome, RunRecord};
use shorthaul_report::plot::{Axis, Figure, Hue, Panel, Point, Series};
use shorthaul_report::{Column, Table, Unit};
use shorthaul_scenario::{Metric, Study};
use std::time::Duration;

/// One of the studies that the comparison consists of.
pub(super) struct Part<'a> {
    pub study: &'a Study,
    pub records: &'a [RunRecord],
}

/// What a policy comes to.
pub(super) struct PolicyScore {
    pub policy: &'static str,
    pub cells: usize,
    /// Throughput as a share of a plain split's: mean and least.
    pub throughput: [f64; 2],
    /// Bytes.
    pub held_most: f64,
    /// Of a flow in 100 s, the mean over the cells.
    pub timeouts: f64,
    /// Of these, those that their sender found to be mistakes.
    pub spurious: f64,
    /// The share of their time for which the senders waited for a closed window, the mean over the cells.
    pub closed: f64,
    /// Jain's index, the least of all cells with several flows.
    pub least_fair: f64,
}

/// What each policy comes to.
pub(super) fn scores(parts: &[Part<'_>]) -> Vec<PolicyScore> {
    POLICIES.iter().filter_map(|&(policy, ..)| verdict(policy, parts)).collect()
}

/// The table and the picture of the comparison; nothing without runs.
pub(super) fn overview(verdicts: &[PolicyScore]) -> Option<(Table, Figure)> {
    (!verdicts.is_empty()).then(|| (table(verdicts), figure(verdicts)))
}

fn verdict(policy: &'static str, parts: &[Part<'_>]) -> Option<PolicyScore> {
    let (mut shares, mut most, mut rates, mut closed) = (Vec::new(), 0.0_f64, [0.0; 2], 0.0);
    let mut least_fair = 1.0_f64;
    for Part { study, records } in parts {
        let warm_up = study.points().first().and_then(|point| study.scenario(point).ok())?.warm_up;
        for record in records.iter().filter(|record| record.case.as_deref() == Some(policy)) {
            let Some(outcome) = &record.outcome else { continue };
            let in_cell = |other: &&RunRecord| {
                other.case.as_deref() == Some("split")
                    && other.values == record.values
                    && other.seed == record.seed
                    && other.engine == record.engine
            };
            let split = records.iter().find(in_cell).and_then(|split| split.outcome.as_ref());
            let of = |outcome: &Outcome, metric| outcome.metrics.get(&metric).copied();
            let (Some(own), Some(split)) =
                (of(outcome, Metric::Goodput), split.and_then(|split| of(split, Metric::Goodput)))
            else {
                continue;
            };
            shares.push(own / split);
            most = most.max(of(outcome, Metric::HeldMost).unwrap_or(0.0));
            let flows = outcome.flows.len() as f64;
            for (sum, metric) in rates.iter_mut().zip([Metric::Timeouts, Metric::SpuriousTimeouts]) {
                *sum += of(outcome, metric).unwrap_or(0.0) / flows / outcome.ended_at * 100.0;
            }
            closed += closed_share(outcome, warm_up);
            if outcome.flows.len() > 1 {
                least_fair = least_fair.min(of(outcome, Metric::Fairness).unwrap_or(1.0));
            }
        }
    }
    let cells = shares.len();
    let mean = |sum: f64| sum / cells as f64;
    (cells > 0).then(|| PolicyScore {
        policy,
        cells,
        throughput: [mean(shares.iter().sum()), shares.iter().copied().fold(f64::MAX, f64::min)],
        held_most: most,
        timeouts: mean(rates[0]),
        spurious: mean(rates[1]),
        closed: mean(closed),
        least_fair,
    })
}

/// The share of their time after the warm-up for which the senders of a run waited for a closed window.
fn closed_share(outcome: &Outcome, warm_up: Duration) -> f64 {
    let time = (outcome.ended_at - warm_up.as_secs_f64()) * outcome.flows.len() as f64;
    outcome.metrics.get(&Metric::WindowLimited).map_or(0.0, |closed| closed / time)
}

fn table(verdicts: &[PolicyScore]) -> Table {
    let mut table = Table::new([
        Column::left("policy"),
        Column::right("cells"),
        Column::right("throughput, of a split's"),
        Column::right("in the worst cell"),
        Column::right("held at most"),
        Column::right("RTOs of a flow in 100 s"),
        Column::right("found spurious"),
        Column::right("window closed"),
        Column::right("least fair (Jain)"),
    ]);
    for verdict in verdicts {
        let cells = [
            verdict.policy.to_owned(),
            verdict.cells.to_string(),
            format!("{:.3}", verdict.throughput[0]),
            format!("{:.3}", verdict.throughput[1]),
            Unit::Bytes.format(verdict.held_most),
            format!("{:.2}", verdict.timeouts),
            format!("{:.2}", verdict.spurious),
            Unit::Percent.format(verdict.closed),
            format!("{:.3}", verdict.least_fair),
        ];
        table.row(cells.each_ref().map(String::as_str));
    }
    table
}

fn figure(verdicts: &[PolicyScore]) -> Figure {
    let names: Vec<&str> = verdicts.iter().map(|verdict| verdict.policy).collect();
    let panel = |label: &str, unit, value: fn(&PolicyScore) -> f64| {
        let bars =
            verdicts.iter().enumerate().map(|(place, verdict)| Point::new(place as f64, value(verdict)));
        Panel::new("")
            .x(Axis::categories("", names.iter().copied()))
            .y(Axis::new(label, unit).from(0.0))
            .series(Series::bars("", Hue::Blue).points(bars))
    };
    Figure::new("Every policy over all cells of the comparison")
        .columns(1)
        .panel(panel("throughput of a split's, worst cell", Unit::None, |verdict| verdict.throughput[1]))
        .panel(panel("held by the gateway, at most", Unit::Bytes, |verdict| verdict.held_most))
        .panel(panel("RTOs of a flow in 100 s", Unit::None, |verdict| verdict.timeouts))
        .panel(panel("share of time with a closed window", Unit::Percent, |verdict| verdict.closed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Having, run};

    #[test]
    fn a_policy_is_scored_beside_a_split_in_the_same_cell() {
        let text = "duration = \"100 s\"\nwarm_up = \"20 s\"\nhosts = { a = {}, b = {} }\nlinks = [{ between = [\"a\", \"b\"], link = {} }]\n\
                    flows = [{ from = \"a\", to = \"b\", bulk = \"1 kB\" }]\n";
        let study = Study::from_toml("s.toml", text).unwrap();
        let of = |case: &str, cell: &str, goodput: f64, timeouts: f64, flows: usize| {
            let record = run(Some(case), &[("delay", cell)]).metric(Metric::Goodput, goodput);
            let record = record.metric(Metric::Timeouts, timeouts).metric(Metric::HeldMost, goodput / 10.0);
            let record = record.metric(Metric::WindowLimited, 40.0).metric(Metric::Fairness, 0.9);
            let mut record = (0..flows).fold(record, |record, _| record.flow("a", 1.0, &[], &[]));
            record.outcome.as_mut().unwrap().ended_at = 100.0;
            record
        };
        let records = [
            of("split", "1", 2e6, 0.0, 1),
            of("path-tail", "1", 1e6, 4.0, 1),
            of("split", "2", 1e6, 0.0, 2),
            of("path-tail", "2", 1e6, 4.0, 2),
            // No split stands beside it.
            of("path-tail", "3", 9e9, 99.0, 2),
        ];
        let found = scores(&[Part { study: &study, records: &records }]);
        let tail = found.iter().find(|score| score.policy == "path-tail").unwrap();
        assert_eq!((tail.cells, tail.throughput, tail.held_most), (2, [0.75, 0.5], 1e5));
        // Four of one flow and four of two flows, in 100 s each.
        assert_eq!((tail.timeouts, tail.least_fair), (3.0, 0.9));
        // 40 s of one flow's 80 s, and of two flows' 160 s.
        assert!((tail.closed - 0.375).abs() < 1e-9, "{}", tail.closed);
        assert!(found.iter().all(|score| ["split", "path-tail"].contains(&score.policy)));
    }
}
