//! Numbers out of runs.
use shorthaul_observe::{EngineName, FlowOutcome, Outcome, RunRecord, Summary, jain_index};
use shorthaul_scenario::{Metric, Series};

/// Who sends over the wireless link where the gateway splits.
const PROXY: &str = "@proxy";

/// The outcomes of a case; of all runs where there are no cases.
pub fn outcomes<'a>(
    records: &'a [RunRecord],
    case: &'a str,
) -> impl Iterator<Item = (&'a RunRecord, &'a Outcome)> {
    records
        .iter()
        .filter(move |record| record.case.as_deref().is_none_or(|own| own == case))
        .filter_map(|record| Some((record, record.outcome.as_ref()?)))
}

/// The mean over the runs of a case, of those that have a value.
fn mean_over(
    records: &[RunRecord],
    case: &str,
    of: impl Fn(&RunRecord, &Outcome) -> Option<f64>,
) -> Option<f64> {
    mean(&outcomes(records, case).filter_map(|(record, outcome)| of(record, outcome)).collect::<Vec<_>>())
}

pub fn mean(values: &[f64]) -> Option<f64> {
    Summary::of(values.iter().copied()).map(|summary| summary.mean)
}

/// The standard deviation; `None` of less than two values.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let summary = Summary::of(values.iter().copied())?;
    (summary.count() > 1).then_some(summary.std_dev)
}

/// The value below which a share of the values lies.
pub fn percentile(values: &[f64], share: f64) -> Option<f64> {
    Summary::of(values.iter().copied()).map(|summary| summary.percentile(share))
}

/// The size of downloads that a run has, in kilobytes.
pub fn size_of(record: &RunRecord) -> Option<f64> {
    record.values.first()?.1.trim_matches('"').strip_suffix("kB")?.trim().parse().ok()
}

/// How long transfers took, in seconds; of one size where there are several.
pub fn transfers(records: &[RunRecord], case: &str, kb: Option<f64>) -> Vec<f64> {
    outcomes(records, case)
        .filter(|(record, _)| kb.is_none_or(|kb| size_of(record) == Some(kb)))
        .flat_map(|(_, outcome)| outcome.flows.iter().flat_map(|flow| flow.transfers.clone()))
        .collect()
}

fn flows<'a>(
    records: &'a [RunRecord],
    case: &'a str,
    name: &'a str,
) -> impl Iterator<Item = &'a FlowOutcome> {
    outcomes(records, case)
        .flat_map(move |(_, outcome)| outcome.flows.iter().filter(move |flow| flow.name.starts_with(name)))
}

/// How long the transfers of the flows whose names begin so took, in seconds.
pub fn transfers_of(records: &[RunRecord], case: &str, name: &str) -> Vec<f64> {
    flows(records, case, name).flat_map(|flow| flow.transfers.clone()).collect()
}

/// How long their connections took to be established, in seconds.
pub fn set_ups(records: &[RunRecord], case: &str, name: &str) -> Vec<f64> {
    flows(records, case, name).flat_map(|flow| flow.set_ups.clone()).collect()
}

/// Values over time of a subject, in one run.
pub fn points<'a>(outcome: &'a Outcome, series: Series, subject: &str) -> Option<&'a [(f64, f64)]> {
    let found = outcome.series.iter().find(|own| own.series == series && own.subject == subject);
    found.map(|own| own.points.as_slice())
}

/// The name of who sends over the wireless link: the gateway, or the server where there is none that splits. `None` where
/// that is not measured: live, only servers are asked.
pub fn wireless(record: &RunRecord, outcome: &Outcome, flow: &str) -> Option<String> {
    let split = format!("{flow}{PROXY}");
    if outcome.series.iter().any(|own| own.subject == split) {
        return Some(split);
    }
    let is_direct = record.case.as_deref().is_none_or(|case| case.starts_with("direct"));
    (record.engine != EngineName::Live || is_direct).then(|| flow.to_owned())
}

/// The mean delay of the busiest queue, in seconds.
pub fn queue(records: &[RunRecord], case: &str) -> Option<f64> {
    mean_over(records, case, |_, outcome| outcome.metrics.get(&Metric::QueueDelay).copied())
}

fn mean_of(points: &[(f64, f64)], from: f64, to: f64) -> Option<f64> {
    let within = points.iter().filter(|(at, _)| (from..to).contains(at));
    mean(&within.map(|(_, value)| *value).collect::<Vec<_>>())
}

/// The mean of the smoothed round-trip times over the wireless link between two times.
pub fn rtt_between(records: &[RunRecord], case: &str, from: f64, to: f64) -> Option<f64> {
    mean_over(records, case, |record, outcome| {
        mean_of(points(outcome, Series::Rtt, &wireless(record, outcome, "file")?)?, from, to)
    })
}

/// The same but for the beginning.
pub fn rtt(records: &[RunRecord], case: &str) -> Option<f64> {
    rtt_between(records, case, 20.0, f64::MAX)
}

/// How long after the link is back, at `back` seconds, data arrives at the phone again.
pub fn resumed_after(records: &[RunRecord], case: &str, back: f64) -> Option<f64> {
    mean_over(records, case, |_, outcome| {
        let points = points(outcome, Series::Delivered, "file")?;
        let before = points.iter().rev().find(|(at, _)| *at <= back)?.1;
        points.iter().find(|(at, delivered)| *at > back && *delivered > before).map(|(at, _)| at - back)
    })
}

/// Jain's index of what the first and the second flow got while both ran, from the second one's first byte to its last.
pub fn shared_fairness(records: &[RunRecord], case: &str) -> Option<f64> {
    mean_over(records, case, |_, outcome| {
        let [first, second] = ["first", "second"].map(|name| points(outcome, Series::Delivered, name));
        let (first, second) = (first?, second?);
        let whole = second.last()?.1;
        let from = second.iter().find(|(_, delivered)| *delivered > 0.0)?.0;
        let to = second.iter().find(|(_, delivered)| *delivered >= whole)?.0;
        jain_index([gain(first, from, to), gain(second, from, to)])
    })
}

/// Bytes of the first flow that are in flight over the wireless link: in the 15 s before the second one joins, and while
/// both run.
pub fn outstanding_of_first(records: &[RunRecord], case: &str) -> Option<[f64; 2]> {
    let between = |from, to| {
        mean_over(records, case, |record, outcome| {
            mean_of(points(outcome, Series::InFlight, &wireless(record, outcome, "first")?)?, from, to)
        })
    };
    Some([between(15.0, 30.0)?, between(38.0, 48.0)?])
}

/// What the delays of a link's queue were, of all samples from 5 s on.
pub fn queue_delays(records: &[RunRecord], case: &str, link: &str) -> Vec<f64> {
    let of = |outcome: &Outcome| {
        let points = points(outcome, Series::QueueDelay, link).unwrap_or_default();
        points.iter().filter(|(at, _)| *at >= 5.0).map(|(_, delay)| *delay).collect::<Vec<_>>()
    };
    outcomes(records, case).flat_map(|(_, outcome)| of(outcome)).collect()
}

/// By how much a sum over time grows between two times.
pub fn gain(points: &[(f64, f64)], from: f64, to: f64) -> f64 {
    let at = |time: f64| points.iter().rev().find(|(at, _)| *at <= time).map_or(0.0, |(_, sum)| *sum);
    at(to) - at(from)
}

/// Jain's index of what the first and the second flow got from a time on, in seconds.
pub fn shared_from(records: &[RunRecord], case: &str, from: f64) -> Option<f64> {
    mean_over(records, case, |_, outcome| {
        let [first, second] = ["first", "second"].map(|name| points(outcome, Series::Delivered, name));
        jain_index([gain(first?, from, outcome.ended_at), gain(second?, from, outcome.ended_at)])
    })
}
