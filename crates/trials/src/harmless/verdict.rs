//! The bounds, and who keeps them.
use super::figures::Figures;
use super::matrix::{Figure, MatrixCell};
use super::runs::{Cell as _, Compared, Verdict};
use super::shares::{self, JudgedLink};
use crate::trial::Judgement;
use serde_json::{Value, json};
use shorthaul_report::{Column, Console, Table, TableCell, Tone, Unit};
use std::time::Duration;

/// Of direct's throughput, at least.
pub(super) const THROUGHPUT: f64 = 0.98;
/// Of direct's time of a page, at most.
pub(super) const PAGE: f64 = 1.03;
/// Of direct's queueing delay, at most.
const QUEUE: f64 = 1.05;
/// A queue that is no longer than this, in seconds, is short enough in any case.
const SHORT_QUEUE: f64 = 0.020;
/// Where throughput rises by this factor, a longer queue is allowed.
const RISES: f64 = 1.1;
/// That queue is at most this part of the round trip.
const OF_ROUND_TRIP: f64 = 0.25;
/// A figure that is nearer to its bound than this many standard errors is in doubt.
const DOUBT: f64 = 2.0;
/// Rows of a table of the worst.
const WORST: usize = 12;

/// The longest queue that is no harm, in seconds: by direct's, by how throughput rises, and by the round trip.
pub(super) fn longest_queue(direct: f64, throughput: f64, round_trip: Duration) -> f64 {
    let of_trip = if throughput > RISES { OF_ROUND_TRIP * round_trip.as_secs_f64() } else { 0.0 };
    (QUEUE * direct).max(SHORT_QUEUE).max(of_trip)
}

/// The ratio of two sums over seeds, with its standard error: the seeds are pairs.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    value: f64,
    error: f64,
}

impl Compared<Figures> {
    fn ratio(&self, of: fn(&Figures) -> f64) -> Ratio {
        let count = self.direct.len() as f64;
        let sum = |figures: &[Figures]| figures.iter().map(of).sum::<f64>();
        let (direct, gateway) = (sum(&self.direct), sum(&self.gateway));
        if direct <= 0.0 {
            let value = if gateway > 0.0 { f64::INFINITY } else { 1.0 };
            return Ratio { value, error: 0.0 };
        }
        let value = gateway / direct;
        let pairs = self.direct.iter().zip(&self.gateway);
        let squares: f64 = pairs.map(|(direct, gateway)| (of(gateway) - value * of(direct)).powi(2)).sum();
        Ratio { value, error: (squares / (count - 1.0).max(1.0) / count).sqrt() / (direct / count) }
    }

    fn mean(figures: &[Figures], of: fn(&Figures) -> f64) -> f64 {
        figures.iter().map(of).sum::<f64>() / figures.len() as f64
    }
}

/// A cell, with what came of it.
#[derive(Clone, Debug)]
pub(super) struct Judged<'a> {
    pub cell: &'a MatrixCell<'a>,
    compared: Compared<Figures>,
    throughput: Ratio,
    page: Ratio,
    queue: Ratio,
    /// Direct, and with the gateway; seconds.
    pages: [f64; 2],
    queues: [f64; 2],
}

impl<'a> Judged<'a> {
    pub fn new(cell: &'a MatrixCell<'a>, compared: Compared<Figures>) -> Self {
        let both = |of: fn(&Figures) -> f64| {
            [Compared::mean(&compared.direct, of), Compared::mean(&compared.gateway, of)]
        };
        Judged {
            cell,
            throughput: compared.ratio(|figures| figures.throughput),
            page: compared.ratio(|figures| figures.page),
            queue: compared.ratio(|figures| figures.queue),
            pages: both(|figures| figures.page),
            queues: both(|figures| figures.queue),
            compared,
        }
    }

    /// The longest queue that it may have, in seconds.
    fn queue_bound(&self) -> f64 {
        longest_queue(self.queues[0], self.throughput.value, self.cell.round_trip())
    }

    /// How many times better than direct.
    fn gain(&self, of: Figure) -> f64 {
        match of {
            Figure::Throughput => self.throughput.value,
            Figure::Page => 1.0 / self.page.value,
            Figure::Queue => 1.0 / self.queue.value,
        }
    }

    /// What does not hold, each in a few words.
    pub fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        if self.throughput.value < THROUGHPUT {
            broken.push(format!("throughput {:.3}", self.throughput.value));
        }
        if self.page.value > PAGE {
            broken.push(format!("pages {:.3}", self.page.value));
        }
        if self.queues[1] > self.queue_bound() {
            broken.push(format!("queue {}", Unit::Seconds.format(self.queues[1])));
        }
        for gain in self.cell.gains().filter(|gain| self.gain(gain.of) < gain.at_least) {
            broken.push(format!("gain {:.2} of {}", self.gain(gain.of), gain.at_least));
        }
        broken
    }

    pub fn holds(&self) -> bool {
        self.broken().is_empty()
    }

    fn row(&self) -> [TableCell; 9] {
        let seconds = |value: f64| Unit::Seconds.format(value);
        let ratio = |ratio: Ratio, bad: bool| {
            let text = format!("{:.3} ± {:.3}", ratio.value, ratio.error);
            TableCell::toned(text, if bad { Tone::Bad } else { Tone::Plain })
        };
        let queue_breaks = self.queues[1] > self.queue_bound();
        [
            TableCell::from(self.cell.name()),
            ratio(self.throughput, self.throughput.value < THROUGHPUT),
            ratio(self.page, self.page.value > PAGE),
            seconds(self.pages[0]).into(),
            seconds(self.pages[1]).into(),
            seconds(self.queues[0]).into(),
            TableCell::toned(seconds(self.queues[1]), if queue_breaks { Tone::Bad } else { Tone::Plain }),
            self.compared.direct.len().to_string().into(),
            self.broken().join(", ").into(),
        ]
    }

    fn json(&self, value: f64) -> Value {
        json!({ "cell": self.cell.name(), "value": value })
    }
}

impl Verdict for Judged<'_> {
    fn is_in_doubt(&self) -> bool {
        let near = |value: f64, bound: f64, error: f64| (value - bound).abs() < DOUBT * error;
        let queue = self.queue.error * self.queues[0];
        let error = |of| match of {
            Figure::Throughput => self.throughput.error,
            Figure::Page => self.page.error * self.gain(of).powi(2),
            Figure::Queue => self.queue.error * self.gain(of).powi(2),
        };
        if self.cell.gains().any(|gain| near(self.gain(gain.of), gain.at_least, error(gain.of))) {
            return true;
        }
        near(self.throughput.value, THROUGHPUT, self.throughput.error)
            || near(self.page.value, PAGE, self.page.error)
            || near(self.queues[1], self.queue_bound(), queue)
    }
}

fn table<'a>(rows: impl IntoIterator<Item = &'a Judged<'a>>) -> Table {
    let mut table = Table::new([
        Column::left("cell"),
        Column::right("throughput").unit("of direct"),
        Column::right("a page").unit("of direct"),
        Column::right("direct"),
        Column::right("gateway"),
        Column::right("queue").unit("direct"),
        Column::right("queue").unit("gateway"),
        Column::right("seeds"),
        Column::left("does not hold"),
    ]);
    for judged in rows {
        table.row(judged.row());
    }
    table
}

/// How bad a cell is, in one of its figures.
type Badness = fn(&Judged<'_>) -> f64;

/// The worst cells as a table, or all; what fails; and the worst of each kind.
pub(super) fn report(
    judged: &[Judged<'_>],
    links: &[JudgedLink<'_>],
    all: bool,
    console: &dyn Console,
) -> Judgement {
    let failing: Vec<&Judged<'_>> = judged.iter().filter(|judged| !judged.holds()).collect();
    let worst = |of: Badness| {
        let mut worst: Vec<&Judged<'_>> = judged.iter().collect();
        worst.sort_by(|a, b| of(b).total_cmp(&of(a)));
        worst
    };
    let kinds: [(&str, Badness); 3] = [
        ("throughput", |judged| -judged.throughput.value),
        ("page", |judged| judged.page.value),
        ("queue", |judged| judged.queues[1] / judged.queue_bound()),
    ];
    if judged.is_empty() {
        // Links alone were asked for.
    } else if all {
        console.table(&table(judged));
    } else {
        let mut shown: Vec<&Judged<'_>> = failing.clone();
        for (_, of) in kinds {
            for judged in worst(of).into_iter().take(WORST.saturating_sub(failing.len()) / 3 + 1) {
                if !shown.iter().any(|other| std::ptr::eq(*other, judged)) {
                    shown.push(judged);
                }
            }
        }
        console.table(&table(shown));
    }
    let gains: Vec<Value> = judged
        .iter()
        .flat_map(|judged| judged.cell.gains().map(move |gain| (judged, gain)))
        .map(|(judged, gain)| {
            let found = judged.gain(gain.of);
            json!({ "cell": judged.cell.name(), "of": format!("{:?}", gain.of).to_lowercase(), "found": found, "at_least": gain.at_least })
        })
        .collect();
    let mut summary = json!({
        "cells": judged.len(),
        "failing": failing.len(),
        "runs": judged.iter().map(|judged| 2 * judged.compared.direct.len()).sum::<usize>(),
        "gains": gains,
    });
    for (name, of) in kinds {
        if let Some(worst) = worst(of).first() {
            summary[format!("worst_{name}")] = worst.json(of(worst).abs());
        }
    }
    let failing_links = links.iter().filter(|judged| !judged.holds()).count();
    if !links.is_empty() {
        let (table, cells) = shares::report(links);
        console.table(&table);
        summary["whole_link"] = json!({ "failing": failing_links, "cells": cells });
    }
    let (failing, cells) = (failing.len() + failing_links, judged.len() + links.len());
    Judgement::holds(summary)
        .unless((failing > 0).then(|| format!("{failing} of {cells} cells break a bound")))
}

#[cfg(test)]
mod tests {
    use super::super::matrix;
    use super::*;

    fn figures(throughput: f64, page: f64, queue: f64) -> Figures {
        Figures { throughput, page, queue }
    }

    /// What does not hold of `lte/cubic/bulk`, whose round trip is 60 ms.
    fn broken(direct: &[Figures], gateway: &[Figures]) -> (Vec<String>, bool) {
        let paths = matrix::own().unwrap();
        let cells = matrix::cells(&paths);
        let cell = cells.iter().find(|cell| cell.name() == "lte/cubic/bulk").unwrap();
        let judged = Judged::new(cell, Compared { direct: direct.to_vec(), gateway: gateway.to_vec() });
        (judged.broken(), judged.is_in_doubt())
    }

    #[test]
    fn every_bound_is_a_bound() {
        let direct = [figures(100.0, 3.1, 0.5); 3];
        assert_eq!(broken(&direct, &[figures(98.1, 1.0, 0.5); 3]), (vec![], false));
        let said = |gateway| broken(&direct, &[gateway; 3]).0.join(", ");
        assert_eq!(said(figures(97.9, 1.0, 0.5)), "throughput 0.979");
        assert_eq!(said(figures(100.0, 1.2, 0.5)), "gain 2.58 of 3");
        assert_eq!(said(figures(100.0, 3.2, 0.53)), "pages 1.032, queue 530 ms, gain 0.97 of 3");
    }

    #[test]
    fn a_short_queue_is_no_harm_and_more_throughput_may_have_a_quarter_of_the_round_trip() {
        let direct = [figures(100.0, 3.1, 0.0); 3];
        assert!(broken(&direct, &[figures(100.0, 1.0, 0.0199); 3]).0.is_empty());
        assert_eq!(broken(&direct, &[figures(100.0, 1.0, 0.021); 3]).0.len(), 1);
    }

    #[test]
    fn what_the_seeds_disagree_about_is_in_doubt() {
        let direct = [figures(100.0, 3.1, 0.1); 3];
        let gateway = [figures(90.0, 0.9, 0.1), figures(110.0, 0.9, 0.1), figures(95.0, 0.9, 0.1)];
        assert!(broken(&direct, &gateway).1);
        let same = [figures(50.0, 0.9, 0.1), figures(51.0, 0.9, 0.1), figures(50.5, 0.9, 0.1)];
        assert!(!broken(&direct, &same).1, "it is far below");
    }
}
