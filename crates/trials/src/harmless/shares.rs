//! What comes of a cell of the whole link, and its bounds: what hosts have of a link that they share, what is split and what is not,
//! how full the link is, how long its queue and how long pages take.
use super::figures::mean_page;
use super::runs::{Compared, Verdict};
use super::whole_link::{BOTTLENECK, DEVICE, Link, LinkCell, OWN, Place, QUICK, WARM_UP};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shorthaul_observe::{Outcome, Summary, jain_index};
use shorthaul_report::{Column, Table, TableCell, Tone, Unit};
use shorthaul_scenario::{Scenario, Series};
use std::collections::BTreeMap;

/// Payload of a packet, of all its bytes.
const PAYLOAD: f64 = 1448.0 / 1500.0;
/// What hosts are to have of the same link: Jain's index, at least.
const JAIN: f64 = 0.95;
/// How much of the link is to be used, at least; or as much as directly, if that is less.
const USED: f64 = 0.97;
/// Of what it had directly, or of half of the link if that is less, whoever is beside others has at least.
const SHARE: f64 = 0.95;
/// Of direct's queue, at most, beside CUBIC.
const QUEUE: f64 = 0.25;
/// Of direct's queue, at most, where that is short itself, or nobody can shorten it.
const SAME_QUEUE: f64 = 1.05;
/// Of direct's page, at most.
const PAGE: f64 = 1.03;
/// A bound that is nearer than this many standard errors is in doubt.
const DOUBT: f64 = 2.0;

/// What came of a run, after the warm-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Shares {
    /// Jain's index of what hosts had that are to have the same.
    jain: Option<f64>,
    /// What flows had that are split, and that are not; or those who have a link of their own. bit/s.
    split: Option<f64>,
    whole: Option<f64>,
    own: Option<f64>,
    /// The part of the bottleneck that brought something new.
    used: f64,
    /// What 95 of 100 packets wait at most: in the bottleneck, or in another queue if that is longer. Seconds.
    queue: f64,
    /// A page, on average; seconds.
    page: f64,
}

impl Shares {
    /// Of a cell, what came of one of its runs.
    pub fn of(cell: &LinkCell, scenario: &Scenario, seed: u64, outcome: &Outcome) -> Shares {
        let time = scenario.duration.as_secs_f64() - WARM_UP;
        // By host: the name of a flow is that of its host, with a number behind a point, or `page-`, the host, and a time.
        let mut rates: BTreeMap<&str, f64> = BTreeMap::new();
        for series in outcome.series.iter().filter(|series| series.series == Series::Delivered) {
            let name = series.subject.strip_prefix("page-").unwrap_or(&series.subject);
            let host = name.split(['.', '-']).next().unwrap_or(name);
            let before = series.points.iter().take_while(|(at, _)| *at < WARM_UP).last();
            let bytes = series.points.last().map_or(0.0, |(_, bytes)| *bytes)
                - before.map_or(0.0, |(_, bytes)| *bytes);
            *rates.entry(host).or_default() += bytes * 8.0 / time;
        }
        let rate = |host: &str| rates.get(host).copied().unwrap_or_default();
        let equals: Vec<f64> = cell.equals().iter().map(|host| rate(host)).collect();
        let (mut split, mut whole, mut own) = (None, None, None);
        match cell.0 {
            Link::Shared { .. } => {}
            Link::BesideOwn { .. } => {
                own =
                    Some(rates.iter().filter(|(host, _)| host.starts_with("own")).map(|(_, rate)| rate).sum())
            }
            Link::Beside { .. } => (split, whole) = (Some(rate("split")), Some(rate("whole"))),
            Link::Household { .. } => (split, own) = (Some(rate(QUICK)), Some(rate(DEVICE))),
        }
        let carried: f64 =
            rates.iter().filter(|(host, _)| !host.starts_with("own")).map(|(_, rate)| rate).sum();
        let queues = outcome.series.iter().filter(|series| {
            series.series == Series::QueueDelay
                && (series.subject == BOTTLENECK || series.subject.starts_with(OWN))
        });
        let longest = queues.filter_map(|series| {
            let after = series.points.iter().filter(|(at, _)| *at >= WARM_UP).map(|(_, delay)| *delay);
            Some(Summary::of(after)?.percentile(0.95))
        });
        Shares {
            jain: if equals.len() > 1 { jain_index(equals) } else { None },
            split,
            whole,
            own,
            used: carried / (cell.0.rate() as f64 * 1e6) / PAYLOAD,
            queue: longest.fold(0.0, f64::max),
            page: mean_page(scenario, seed, outcome).unwrap_or_default(),
        }
    }
}

/// By how much a bound is kept: below 0 it is broken.
#[derive(Clone, Copy, Debug)]
struct Margin {
    mean: f64,
    error: f64,
}

/// What is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bounded {
    Jain,
    Split,
    Whole,
    Own,
    Used,
    Queue,
    Page,
}

const ALL: [Bounded; 7] = [
    Bounded::Jain,
    Bounded::Split,
    Bounded::Whole,
    Bounded::Own,
    Bounded::Used,
    Bounded::Queue,
    Bounded::Page,
];

impl Bounded {
    const fn name(self) -> &'static str {
        match self {
            Bounded::Jain => "fairness",
            Bounded::Split => "split",
            Bounded::Whole => "not split",
            Bounded::Own => "own links",
            Bounded::Used => "use",
            Bounded::Queue => "queue",
            Bounded::Page => "pages",
        }
    }
}

/// A cell, with what came of it.
#[derive(Clone, Debug)]
pub(super) struct JudgedLink<'a> {
    pub cell: &'a LinkCell,
    compared: Compared<Shares>,
}

impl<'a> JudgedLink<'a> {
    pub fn new(cell: &'a LinkCell, compared: Compared<Shares>) -> Self {
        JudgedLink { cell, compared }
    }

    /// The longest queue that it may have, of direct's.
    fn queue_bound(&self) -> f64 {
        match self.cell.0 {
            Link::Shared { .. }
            | Link::BesideOwn { .. }
            | Link::Household { .. }
            | Link::Beside { other: "cubic", at: Place::Host | Place::Neighbour } => QUEUE,
            Link::Beside { .. } => SAME_QUEUE,
        }
    }

    /// By how much a run keeps a bound, as a part of it.
    fn margin(&self, of: Bounded, direct: &Shares, gateway: &Shares) -> Option<f64> {
        let half = self.cell.0.rate() as f64 * 1e6 * PAYLOAD / 2.0 * self.cell.0.part_beside();
        let share =
            |direct: Option<f64>, gateway: Option<f64>, fair: f64| Some(gateway? / direct?.min(fair) - SHARE);
        match of {
            Bounded::Jain => Some(gateway.jain? - JAIN),
            Bounded::Split => share(direct.split, gateway.split, half),
            Bounded::Whole => share(direct.whole, gateway.whole, half),
            Bounded::Own => share(direct.own, gateway.own, f64::INFINITY),
            Bounded::Used => Some(gateway.used - USED.min(direct.used)),
            Bounded::Queue => Some(self.queue_bound() - gateway.queue / direct.queue),
            Bounded::Page => Some(PAGE - gateway.page / direct.page),
        }
    }

    fn margins(&self) -> impl Iterator<Item = (Bounded, Margin)> {
        ALL.into_iter().filter_map(|of| {
            let Compared { direct, gateway } = &self.compared;
            let each: Option<Vec<f64>> = direct
                .iter()
                .zip(gateway)
                .map(|(direct, gateway)| self.margin(of, direct, gateway))
                .collect();
            let summary = Summary::of(each?)?;
            Some((
                of,
                Margin { mean: summary.mean, error: summary.std_dev / (summary.count() as f64).sqrt() },
            ))
        })
    }

    fn breaks(&self, of: Bounded) -> bool {
        self.margins().any(|(bounded, margin)| bounded == of && margin.mean < 0.0)
    }

    pub fn holds(&self) -> bool {
        self.margins().all(|(_, margin)| margin.mean >= 0.0)
    }

    fn mean(figures: &[Shares], of: impl Fn(&Shares) -> Option<f64>) -> Option<f64> {
        Some(Summary::of(figures.iter().map(of).collect::<Option<Vec<_>>>()?)?.mean)
    }

    /// Direct, and with the gateway.
    fn both(&self, of: impl Fn(&Shares) -> Option<f64>) -> Option<[f64; 2]> {
        Some([Self::mean(&self.compared.direct, &of)?, Self::mean(&self.compared.gateway, &of)?])
    }

    fn row(&self) -> [TableCell; 8] {
        use super::runs::Cell as _;
        let pair = |both: Option<[f64; 2]>, write: &dyn Fn(f64) -> String, of: &[Bounded]| {
            let text = both.map_or(String::new(), |both| both.map(write).join(" / "));
            let is_bad = of.iter().any(|of| self.breaks(*of));
            TableCell::toned(text, if is_bad { Tone::Bad } else { Tone::Plain })
        };
        let (part, seconds) = (|value: f64| format!("{value:.3}"), |value: f64| Unit::Seconds.format(value));
        let rate = |value: f64| format!("{:.1}", value / 1e6);
        let broken: Vec<&str> =
            self.margins().filter(|(_, margin)| margin.mean < 0.0).map(|(of, _)| of.name()).collect();
        [
            TableCell::from(self.cell.name()),
            pair(self.both(|shares| shares.jain), &part, &[Bounded::Jain]),
            pair(self.both(|shares| shares.split.or(shares.own)), &rate, &[Bounded::Split, Bounded::Own]),
            pair(self.both(|shares| shares.whole), &rate, &[Bounded::Whole]),
            pair(self.both(|shares| Some(shares.used)), &part, &[Bounded::Used]),
            pair(self.both(|shares| Some(shares.queue)), &seconds, &[Bounded::Queue]),
            pair(self.both(|shares| Some(shares.page)), &seconds, &[Bounded::Page]),
            broken.join(", ").into(),
        ]
    }

    /// All figures, means over the seeds.
    fn json(&self) -> Value {
        use super::runs::Cell as _;
        let broken: Vec<&str> =
            self.margins().filter(|(_, margin)| margin.mean < 0.0).map(|(of, _)| of.name()).collect();
        json!({
            "cell": self.cell.name(),
            "seeds": self.compared.direct.len(),
            "jain": self.both(|shares| shares.jain),
            "split": self.both(|shares| shares.split),
            "not_split": self.both(|shares| shares.whole),
            "own_links": self.both(|shares| shares.own),
            "used": self.both(|shares| Some(shares.used)),
            "queue_95": self.both(|shares| Some(shares.queue)),
            "page": self.both(|shares| Some(shares.page)),
            "breaks": broken,
        })
    }
}

impl Verdict for JudgedLink<'_> {
    fn is_in_doubt(&self) -> bool {
        self.margins().any(|(_, margin)| margin.mean.abs() < DOUBT * margin.error)
    }
}

/// All cells as a table; and what they are in JSON.
pub(super) fn report(judged: &[JudgedLink<'_>]) -> (Table, Value) {
    let mut table = Table::new([
        Column::left("direct / with the gateway"),
        Column::right("Jain, hosts"),
        Column::right("split").unit("Mbit/s"),
        Column::right("not split").unit("Mbit/s"),
        Column::right("link used"),
        Column::right("queue, 95 %"),
        Column::right("a page"),
        Column::left("does not hold"),
    ]);
    for judged in judged {
        table.row(judged.row());
    }
    (table, judged.iter().map(JudgedLink::json).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(jain: f64, split: f64, used: f64, queue: f64, page: f64) -> Shares {
        Shares { jain: Some(jain), split: Some(split), whole: None, own: None, used, queue, page }
    }

    fn broken(link: Link, direct: Shares, gateway: Shares) -> Vec<&'static str> {
        let cell = LinkCell(link);
        let judged = JudgedLink::new(&cell, Compared { direct: vec![direct; 3], gateway: vec![gateway; 3] });
        let broken: Vec<_> =
            judged.margins().filter(|(_, margin)| margin.mean < 0.0).map(|(of, _)| of.name()).collect();
        assert_eq!(judged.holds(), broken.is_empty());
        broken
    }

    #[test]
    fn every_bound_is_a_bound() {
        let link = Link::Beside { other: "cubic", at: Place::Host };
        let direct = shares(0.8, 8e6, 0.99, 0.1, 1.0);
        let said = |gateway| broken(link, direct.clone(), gateway).join(", ");
        assert_eq!(said(shares(0.96, 7.7e6, 0.975, 0.024, 1.02)), "");
        assert_eq!(said(shares(0.94, 7.7e6, 0.975, 0.024, 1.02)), "fairness");
        assert_eq!(said(shares(0.96, 7.5e6, 0.96, 0.026, 1.04)), "split, use, queue, pages");
        // A link that nobody fills is as full as directly; of more than half of it, half is enough.
        let direct = shares(0.8, 15e6, 0.9, 0.1, 1.0);
        assert!(broken(link, direct.clone(), shares(0.96, 9.3e6, 0.9, 0.02, 1.0)).is_empty());
        // A queue that others fill is not ours to shorten.
        let elsewhere = Link::Beside { other: "cubic", at: Place::Elsewhere };
        assert!(broken(elsewhere, direct, shares(0.96, 9.3e6, 0.9, 0.1, 1.0)).is_empty());
    }

    #[test]
    fn what_the_seeds_disagree_about_is_in_doubt() {
        let cell = LinkCell(Link::Shared { hosts: 2, rate: 10 });
        let direct = vec![shares(0.9, 1.0, 0.98, 0.1, 1.0); 3];
        let of = |jains: [f64; 3]| {
            let gateway = jains.map(|jain| shares(jain, 1.0, 0.99, 0.01, 0.5)).to_vec();
            JudgedLink::new(&cell, Compared { direct: direct.clone(), gateway }).is_in_doubt()
        };
        assert!(of([0.99, 0.90, 0.95]));
        assert!(!of([0.99, 0.98, 0.99]));
    }

    #[test]
    fn what_hosts_have_is_told_by_their_names() {
        let cell = LinkCell(Link::Shared { hosts: 2, rate: 10 });
        use super::super::runs::Cell as _;
        let found =
            cell.run(&cell.scenario(crate::direct_or_split::DirectOrSplit::Direct, &[], 1), 1).unwrap();
        assert!((0.9..1.01).contains(&found.used), "{found:?}");
        assert!(
            found.jain.is_some_and(|jain| jain > 0.5) && found.queue > 0.03 && found.page > 0.1,
            "{found:?}"
        );
        assert_eq!((found.split, found.whole, found.own), (None, None, None));
    }
}
