//! Numbers out of runs: how a system fared at a place.
use super::rows::Row;
use super::world::{Ends, JOINS, Place, Work};
use serde::Serialize;
use shorthaul_observe::{Outcome, RunRecord, Summary, jain_index};
use shorthaul_scenario::{Metric, Series};

/// How a system fared with one seed, or on average over several. Times are in seconds, sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Fared {
    /// How long transfers took, those that were not done counted until the end of the run.
    pub time: Option<f64>,
    /// Payload delivered in a second, of all flows.
    pub goodput: Option<f64>,
    /// How long packets waited before the access link: the mean, and what 95 % of the samples stay below.
    pub queue: Option<f64>,
    pub queue_p95: Option<f64>,
    /// Bytes that the access link carried for a byte of payload, what it lost among them.
    pub radio: Option<f64>,
    /// For how long a radio is in use: while packets wait for it or arrive, and [`TAIL`] after that.
    pub active: Option<f64>,
    /// How long after each of the times that the link was away data arrived again, on average.
    pub hand_off: Option<f64>,
    /// Payload that ends sent again for each byte that arrived. What a gateway sends again is in [`radio`](Self::radio) alone.
    pub again: Option<f64>,
    /// RTOs of the ends, and those that they found to have been mistakes themselves.
    pub timeouts: Option<f64>,
    pub spurious: Option<f64>,
    /// Jain's index of all flows; of two that share, of what they got while both ran.
    pub fairness: Option<f64>,
    /// The most that gateways held: payload of connections that they split, and packets that interceptors keep.
    pub held: Option<f64>,
    /// The most that was acknowledged to the sender and had not reached the receiver.
    pub at_risk: Option<f64>,
    /// The most that had not reached the receiver when the sender's FIN was acknowledged.
    pub fin_early: Option<f64>,
    /// How long after a disconnection data arrived again.
    pub resumed: Option<f64>,
    /// How long after it nothing was sent over the link.
    pub silent: Option<f64>,
}

/// A system at a place.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Score {
    pub link: &'static str,
    pub work: &'static str,
    pub ends: &'static str,
    pub row: &'static str,
    #[serde(flatten)]
    pub fared: Fared,
}

/// Values over time of a subject.
fn points<'a>(outcome: &'a Outcome, series: Series, subject: &str) -> Option<&'a [(f64, f64)]> {
    let found = outcome.series.iter().find(|own| own.series == series && own.subject == subject);
    found.map(|own| own.points.as_slice())
}

/// What a sum had come to at a time.
fn at(points: &[(f64, f64)], time: f64) -> f64 {
    points.iter().rev().find(|(at, _)| *at <= time).map_or(0.0, |(_, sum)| *sum)
}

fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    Summary::of(values).map(|summary| summary.mean)
}

/// How one run went.
fn fared(place: &Place, outcome: &Outcome) -> Fared {
    let radio = if place.work == Work::Upload { "mast>station" } else { "station>mast" };
    let metric = |metric| outcome.metrics.get(&metric).copied();
    let waits = points(outcome, Series::QueueDelay, radio).unwrap_or_default();
    let waits = Summary::of(waits.iter().map(|(_, wait)| *wait));
    Fared {
        time: time(place, outcome),
        goodput: metric(Metric::Goodput),
        queue: waits.as_ref().map(|waits| waits.mean),
        queue_p95: waits.map(|waits| waits.percentile(0.95)),
        radio: radio_bytes(outcome, radio),
        active: active(outcome, radio),
        hand_off: hand_off(place, outcome),
        again: again(outcome),
        timeouts: metric(Metric::Timeouts),
        spurious: metric(Metric::SpuriousTimeouts),
        fairness: if place.work == Work::Joining { shared(outcome) } else { metric(Metric::Fairness) },
        held: metric(Metric::HeldMost),
        at_risk: if place.work.has_one_connection() { at_risk(outcome) } else { None },
        fin_early: if place.work.has_one_connection() { fin_early(outcome) } else { None },
        resumed: resumed(place, outcome),
        silent: silent(place, outcome, radio),
    }
}

fn time(place: &Place, outcome: &Outcome) -> Option<f64> {
    let (name, wanted) = place.work.measured();
    let flows = outcome.flows.iter().filter(|flow| flow.name.starts_with(name));
    mean(flows.flat_map(|flow| {
        let missing = wanted.saturating_sub(flow.transfers.len());
        flow.transfers.iter().copied().chain(std::iter::repeat_n(outcome.ended_at, missing))
    }))
}

fn radio_bytes(outcome: &Outcome, radio: &str) -> Option<f64> {
    let link = outcome.links.iter().find(|link| link.name == radio)?;
    let payload: u64 = outcome.flows.iter().map(|flow| flow.delivered).sum();
    let size = link.delivered_bytes as f64 / link.delivered as f64;
    let carried = link.delivered_bytes as f64 + (link.lost + link.outage) as f64 * size;
    (payload > 0).then(|| carried / payload as f64)
}

/// What ends sent again, as a share of what arrived.
fn again(outcome: &Outcome) -> Option<f64> {
    let payload: u64 = outcome.flows.iter().map(|flow| flow.delivered).sum();
    let again = outcome.metrics.get(&Metric::Retransmitted)?;
    (payload > 0).then(|| again / payload as f64)
}

/// How long a radio keeps its channel after the last packet, in seconds: that is what its energy goes by, more than by bytes.
pub(super) const TAIL: f64 = 5.0;

/// For how long the radio is in use, by samples in which something waits for the link, or more has arrived at a receiver or its sender.
fn active(outcome: &Outcome, radio: &str) -> Option<f64> {
    let mut used: Vec<f64> = points(outcome, Series::QueueDelay, radio)?
        .iter()
        .filter(|(_, wait)| *wait > 0.0)
        .map(|(time, _)| *time)
        .collect();
    let sums = [Series::Delivered, Series::Acknowledged];
    for own in outcome.series.iter().filter(|own| sums.contains(&own.series)) {
        used.extend(own.points.windows(2).filter(|pair| pair[1].1 > pair[0].1).map(|pair| pair[1].0));
    }
    used.sort_by(f64::total_cmp);
    let gaps: f64 = used.windows(2).map(|pair| (pair[1] - pair[0]).min(TAIL)).sum();
    (!used.is_empty()).then_some(gaps + TAIL)
}

/// Jain's index of what both downloads got, from the first byte of the second one to its last.
fn shared(outcome: &Outcome) -> Option<f64> {
    let [first, second] = ["first", "second"].map(|name| points(outcome, Series::Delivered, name));
    let (first, second) = (first?, second?);
    let whole = second.last()?.1;
    let from = second.iter().find(|(_, delivered)| *delivered > 0.0)?.0.max(JOINS);
    let both = first.iter().filter(|(_, delivered)| *delivered >= first.last().map_or(0.0, |last| last.1));
    let first_ends = both.map(|(time, _)| *time).next()?;
    let to = second.iter().find(|(_, delivered)| *delivered >= whole)?.0.min(first_ends);
    jain_index([first, second].map(|points| at(points, to) - at(points, from)))
}

/// The most, over time and connections, that a sender was told has arrived and had not.
fn at_risk(outcome: &Outcome) -> Option<f64> {
    let acknowledged = outcome.series.iter().filter(|own| own.series == Series::Acknowledged);
    let owed = acknowledged.filter_map(|own| {
        let delivered = points(outcome, Series::Delivered, &own.subject)?;
        // The last samples count the FIN, which is no data.
        let whole = delivered.last()?.1;
        Some(own.points.iter().map(|(time, told)| told.min(whole) - at(delivered, *time)).fold(0.0, f64::max))
    });
    owed.reduce(f64::max)
}

/// The most, over connections, that had not arrived when a FIN was acknowledged: the sender is told of one byte more than there is, or is
/// gone before the receiver has all.
fn fin_early(outcome: &Outcome) -> Option<f64> {
    let acknowledged = outcome.series.iter().filter(|own| own.series == Series::Acknowledged);
    let missing = acknowledged.filter_map(|own| {
        let delivered = points(outcome, Series::Delivered, &own.subject)?;
        let (whole, until) = (delivered.last()?.1, own.points.last()?.0);
        let told = own.points.iter().filter(|(_, told)| *told > whole).map(|(time, _)| *time);
        let gone = delivered.iter().map(|(time, _)| *time).find(|time| *time > until);
        Some(told.chain(gone).map(|time| whole - at(delivered, time)).fold(0.0, f64::max))
    });
    missing.reduce(f64::max)
}

/// When the link is back for good.
fn back(place: &Place) -> Option<f64> {
    place.work.fades(place.link).last().map(|(at, lasts)| at + lasts)
}

/// How long after that nothing new waited for the link. What waited when it came back was sent while it was away.
fn silent(place: &Place, outcome: &Outcome, radio: &str) -> Option<f64> {
    let back = back(place)?;
    let waits = points(outcome, Series::QueueDelay, radio)?;
    let waited = waits.iter().rev().find(|(time, _)| *time <= back).is_some_and(|(_, wait)| *wait > 0.0);
    let mut after =
        waits.iter().filter(|(time, _)| *time > back).skip_while(|(_, wait)| waited && *wait > 0.0);
    let sent = after.find(|(_, wait)| *wait > 0.0).map(|(time, _)| time - back)?;
    // Where data has arrived before, what waited has brought it: there was no silence to be seen.
    resumed(place, outcome).is_none_or(|resumed| sent <= resumed).then_some(sent)
}

/// How long after that data arrives.
fn resumed(place: &Place, outcome: &Outcome) -> Option<f64> {
    arrives_after(outcome, back(place)?)
}

/// How long after a time data arrives, if any does.
fn arrives_after(outcome: &Outcome, back: f64) -> Option<f64> {
    let points = points(outcome, Series::Delivered, "file")?;
    let before = at(points, back);
    points.iter().find(|(time, sum)| *time > back && *sum > before).map(|(time, _)| time - back)
}

/// The mean of that over all the times that the link was away.
fn hand_off(place: &Place, outcome: &Outcome) -> Option<f64> {
    let fades = place.work.fades(place.link).iter();
    mean(fades.filter_map(|(begins, lasts)| arrives_after(outcome, begins + lasts)))
}

/// How a system fared on average over its runs.
fn average(all: &[Fared]) -> Fared {
    let of = |value: fn(&Fared) -> Option<f64>| mean(all.iter().filter_map(value));
    Fared {
        time: of(|one| one.time),
        goodput: of(|one| one.goodput),
        queue: of(|one| one.queue),
        queue_p95: of(|one| one.queue_p95),
        radio: of(|one| one.radio),
        active: of(|one| one.active),
        hand_off: of(|one| one.hand_off),
        again: of(|one| one.again),
        timeouts: of(|one| one.timeouts),
        spurious: of(|one| one.spurious),
        fairness: of(|one| one.fairness),
        held: of(|one| one.held),
        at_risk: of(|one| one.at_risk),
        fin_early: of(|one| one.fin_early),
        resumed: of(|one| one.resumed),
        silent: of(|one| one.silent),
    }
}

/// How these systems fared at a place.
pub(super) fn scores(place: &Place, rows: &[&Row], records: &[RunRecord]) -> Vec<Score> {
    let of = |row: &&Row| {
        let own = records.iter().filter(|record| record.case.as_deref() == Some(row.name));
        let own: Vec<Fared> = own.filter_map(|record| Some(fared(place, record.outcome.as_ref()?))).collect();
        Score {
            link: place.link.name,
            work: place.work.name(),
            ends: place.ends.name(),
            row: row.name,
            fared: average(&own),
        }
    };
    rows.iter().map(of).collect()
}

/// All scores.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Board(pub Vec<Score>);

impl Board {
    /// How a system fared at a place; with nothing measured, where it was not run.
    pub(super) fn fared(&self, link: &str, work: Work, ends: Ends, row: &str) -> Fared {
        let is_meant = |score: &&Score| {
            (score.link, score.work, score.ends, score.row) == (link, work.name(), ends.name(), row)
        };
        self.0.iter().find(is_meant).map(|score| score.fared.clone()).unwrap_or_default()
    }

    /// The time of its transfers as a share of what they take with nothing between the ends.
    pub(super) fn share(&self, link: &str, work: Work, ends: Ends, row: &str) -> Option<f64> {
        let whole = self.fared(link, work, ends, super::rows::ROWS[0].name).time?;
        Some(self.fared(link, work, ends, row).time? / whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Having, run};

    #[test]
    fn a_radio_is_in_use_until_a_tail_after_the_last_packet() {
        let of = |delivered: &[(f64, f64)]| {
            let record = run(None, &[])
                .series(Series::QueueDelay, "station>mast", &[(1.0, 0.0), (2.0, 0.4), (3.0, 0.0)])
                .series(Series::Delivered, "file", delivered);
            active(&record.outcome.unwrap(), "station>mast")
        };
        assert_eq!(of(&[(2.0, 0.0), (3.0, 1e3), (4.0, 1e3)]), Some(1.0 + TAIL));
        assert_eq!(of(&[(2.0, 0.0), (3.0, 1e3), (60.0, 2e3)]), Some(1.0 + 2.0 * TAIL), "idle between");
        assert_eq!(active(&Outcome::default(), "station>mast"), None);
    }

    #[test]
    fn what_ends_send_again_is_a_share_of_what_arrived() {
        let record = |arrived| {
            let mut record = run(None, &[]).metric(Metric::Retransmitted, 300.0).flow("file", 0.0, &[], &[]);
            record.outcome.iter_mut().for_each(|outcome| outcome.flows[0].delivered = arrived);
            again(&record.outcome.unwrap())
        };
        assert_eq!((record(1000), record(0)), (Some(0.3), None));
        assert_eq!(again(&Outcome::default()), None);
    }

    #[test]
    fn a_hand_off_costs_what_passes_until_data_arrives_on_average() {
        let place =
            Place { link: super::super::links::link("hand-off"), work: Work::Download, ends: Ends::Then };
        // The link is back at 4.5, 10, 17, 26 and 40 s.
        let delivered: Vec<(f64, f64)> = [4.0, 5.5, 10.0, 11.0, 17.0, 18.0, 26.0, 27.0, 40.0, 43.0]
            .into_iter()
            .zip((1..).map(f64::from))
            .collect();
        let record = run(None, &[]).series(Series::Delivered, "file", &delivered);
        let cost = hand_off(&place, &record.outcome.unwrap());
        assert!(cost.is_some_and(|cost| (cost - 1.4).abs() < 1e-9), "{cost:?}");
    }

    #[test]
    fn what_was_sent_while_the_link_was_away_ends_no_silence() {
        let place = Place {
            link: super::super::links::link(super::super::links::GPRS),
            work: Work::Disconnection,
            ends: Ends::Then,
        };
        let of = |waits: &[(f64, f64)]| {
            let record = run(None, &[]).series(Series::QueueDelay, "station>mast", waits);
            silent(&place, &record.outcome.unwrap(), "station>mast")
        };
        // The link is back at 45 s.
        assert_eq!(of(&[(44.75, 0.0), (45.0, 0.0), (45.25, 0.3), (45.5, 0.0)]), Some(0.25));
        assert_eq!(of(&[(44.75, 0.0), (45.0, 0.4), (45.25, 0.1), (45.5, 0.0), (49.0, 0.3)]), Some(4.0));
        assert_eq!(of(&[(45.0, 0.4), (45.25, 0.1)]), None);
        let record = run(None, &[])
            .series(Series::QueueDelay, "station>mast", &[(45.0, 0.4), (48.0, 0.0), (66.0, 0.3)])
            .series(Series::Delivered, "file", &[(44.0, 1e4), (49.0, 2e4)]);
        assert_eq!(silent(&place, &record.outcome.unwrap(), "station>mast"), None, "it resumed before");
    }

    #[test]
    fn a_fin_is_early_if_it_is_acknowledged_before_all_has_arrived() {
        let of = |acknowledged: &[(f64, f64)], delivered: &[(f64, f64)]| {
            let record = run(None, &[]).series(Series::Acknowledged, "file", acknowledged).series(
                Series::Delivered,
                "file",
                delivered,
            );
            fin_early(&record.outcome.unwrap())
        };
        let delivered = [(1.0, 400.0), (2.0, 700.0), (3.0, 1000.0)];
        // All is acknowledged early, the FIN is not.
        assert_eq!(of(&[(1.0, 1000.0), (2.0, 1000.0), (3.0, 1000.0)], &delivered), Some(0.0));
        assert_eq!(of(&[(1.0, 1000.0), (2.0, 1001.0), (3.0, 1001.0)], &delivered), Some(300.0));
        assert_eq!(of(&[(1.0, 1000.0)], &delivered), Some(300.0), "who sent is gone");
        assert_eq!(of(&[(1.0, 400.0), (2.0, 1000.0)], &delivered), Some(0.0));
        assert_eq!(fin_early(&Outcome::default()), None);
    }
}
