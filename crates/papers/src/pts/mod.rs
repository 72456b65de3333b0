//! The figures of "proxy transport service" (PTS §3).
mod discovery;
mod findings;
mod search;

use crate::error::{Result, While};
use crate::experiment::{all_sound, manifest, records, study};
use crate::{All, Found, Paper, PaperError, fidelity};
use shorthaul_observe::{EngineName, Finding, RunRecord, Store, Summary, results};
use shorthaul_report::plot::{Axis, Dash, Figure, Hue, Mark, Marker, Panel, Point, Series};
use shorthaul_report::{Console, Manifest, Page, Table, Unit};
use shorthaul_scenario::{Metric, Series as Measured, Study};
use shorthaul_sim::Simulator;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How often, and where the results go.
#[derive(clap::Args)]
pub struct Pts {
    /// The directory for data and figures
    #[arg(long, default_value = "reproduce-pts")]
    out: PathBuf,
    /// How many seeds each point is run with, instead of the scenarios' own numbers
    #[arg(long)]
    repeats: Option<u32>,
}

/// A scenario of the paper, and the figures that are drawn from its runs.
struct Experiment {
    /// Name of the scenario, its data and its directory.
    name: &'static str,
    /// The scenario file.
    text: &'static str,
    /// File name and description of each figure.
    figures: fn(&[RunRecord]) -> Vec<(String, Figure)>,
    /// A table that is made of its runs.
    table: Option<fn(&[RunRecord]) -> Table>,
    /// What is run besides, by what the runs say.
    more: Option<More>,
    /// What the paper states, beside ours.
    findings: fn(&[RunRecord]) -> Vec<Finding>,
}

/// Runs that a study's own make necessary.
type More = fn(&Study, &[RunRecord], &Store, &dyn Console) -> Result<Vec<RunRecord>>;

impl Paper for Pts {
    const TITLE: &'static str = "Proxy transport service";

    fn whole(options: &All) -> Self {
        Pts { out: options.directory("pts"), repeats: options.repeats() }
    }

    fn reproduce(&self, console: &dyn Console) -> Result<Vec<Found>, PaperError> {
        let mut page = Page::new("Proxy transport service, reproduced", &Manifest::of_this_command());
        let store = fidelity::store(&self.out)?;
        let mut found = Vec::new();
        for experiment in EXPERIMENTS {
            let done = self.run(experiment, &store, &mut page, console);
            found.extend(done.doing(format!("{} cannot be reproduced", experiment.name))?);
        }
        page.save(&self.out.join("report.html"))?;
        console.say(&format!("\nData, figures and report.html are in {}.", self.out.display()));
        Ok(Found::by(EngineName::Sim, findings::beside_each_other(found)))
    }
}

impl Pts {
    fn run(
        &self,
        experiment: &Experiment,
        store: &Store,
        page: &mut Page,
        console: &dyn Console,
    ) -> Result<Vec<Finding>> {
        let study = study(experiment.name, experiment.text, self.repeats)?;
        console.say(&format!("\n{}: {}", study.name(), study.about()));
        let records = all_sound(records(&Simulator::default(), &study, Some(store), console)?)?;
        console.table(&results::table(&records));
        let own = experiment.table.map(|table| table(&records));
        own.iter().for_each(|table| console.table(table));
        let mut all = records.clone();
        if let Some(more) = experiment.more {
            all.extend(more(&study, &records, store, console)?);
        }
        let findings = (experiment.findings)(&all);
        console.table(&Finding::table(&findings));
        let manifest = manifest(&study);
        let remarks: Vec<String> = findings.iter().map(Finding::to_string).collect();
        let about = results::About {
            title: study.name(),
            about: study.about(),
            text: study.text(),
            remarks: &remarks,
        };
        results::write(&self.out.join(experiment.name), &manifest, &about, &records)?;
        page.heading(&format!("{}: {}", study.name(), study.about()));
        for (name, figure) in (experiment.figures)(&records) {
            figure.save(&self.out.join(&name), &manifest)?;
            page.figure(&figure);
        }
        Finding::show(page, "What the paper states", &findings);
        own.iter().for_each(|table| {
            page.table("Throughputs by setting", table);
        });
        page.table("Means with half the width of their 95 % confidence interval", &results::table(&records));
        page.source("The scenario file", study.text());
        Ok(findings)
    }
}

/// How far two nodes may be from one, or two throughputs from each other, and be about equal.
const ABOUT_EQUAL: f64 = 0.1;

/// A packet of the paper, in bytes.
const PACKET: f64 = 1000.0;

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "fig2",
        text: include_str!("../../../../papers/pts/fig2.toml"),
        figures: |records| {
            both_windows(records, "figure-2", "Figure 2: congestion window without loss", Measured::Cwnd)
        },
        table: None,
        more: None,
        findings: findings::fig2,
    },
    Experiment {
        name: "fig3",
        text: include_str!("../../../../papers/pts/fig3.toml"),
        figures: |records| {
            let title = "Figure 3: congestion window with congestion on the first half";
            both_windows(records, "figure-3", title, Measured::Cwnd)
        },
        table: None,
        more: None,
        findings: findings::fig3,
    },
    Experiment {
        name: "fig4",
        text: include_str!("../../../../papers/pts/fig4.toml"),
        figures: |records| {
            let title = "Figure 4: sequence numbers, with congestion of their own making";
            both_windows(records, "figure-4", title, Measured::Sequence)
        },
        table: None,
        more: None,
        findings: findings::fig4,
    },
    Experiment {
        name: "fig3-second",
        text: include_str!("../../../../papers/pts/fig3-second.toml"),
        figures: |records| {
            let title = "Figure 3's text: congestion window with congestion on the second half";
            vec![("figure-3-second".to_owned(), over_time(&of_case(records, "burst"), title, Measured::Cwnd))]
        },
        table: None,
        more: None,
        findings: findings::fig3_second,
    },
    Experiment {
        name: "fig4-burst",
        text: include_str!("../../../../papers/pts/fig4-burst.toml"),
        figures: |records| vec![("figure-4-burst".to_owned(), bursts(records))],
        table: None,
        more: None,
        findings: findings::fig4_burst,
    },
    Experiment {
        name: "fig4-queue",
        text: include_str!("../../../../papers/pts/fig4-queue.toml"),
        figures: |_| Vec::new(),
        table: None,
        more: None,
        findings: findings::fig4_queue,
    },
    Experiment {
        name: "fig6-sessions",
        text: include_str!("../../../../papers/pts/fig6-sessions.toml"),
        figures: |records| vec![("figure-6-sessions".to_owned(), sessions(records))],
        table: None,
        more: None,
        findings: findings::fig6_sessions,
    },
    Experiment {
        name: "fig5",
        text: include_str!("../../../../papers/pts/fig5.toml"),
        figures: |records| {
            vec![(
                "figure-5".to_owned(),
                against(
                    records,
                    "Figure 5: throughput against the node's place",
                    Axis::new("hops from the source", Unit::None).counts(),
                    place,
                ),
            )]
        },
        table: None,
        more: None,
        findings: findings::fig5,
    },
    Experiment {
        name: "fig6",
        text: include_str!("../../../../papers/pts/fig6.toml"),
        figures: |records| vec![("figure-6".to_owned(), service_time(records))],
        table: None,
        more: None,
        findings: findings::fig6,
    },
    Experiment {
        name: "fig7",
        text: include_str!("../../../../papers/pts/fig7.toml"),
        figures: |records| vec![("figure-7".to_owned(), nodes(records))],
        table: None,
        more: None,
        findings: findings::fig7,
    },
    Experiment {
        name: "fig7-search",
        text: search::TEXT,
        figures: |_| Vec::new(),
        table: Some(search::table),
        more: Some(search::more),
        findings: search::findings,
    },
    Experiment {
        name: "discovery",
        text: discovery::TEXT,
        figures: |records| vec![("discovery".to_owned(), discovery::figure(records))],
        table: None,
        more: None,
        findings: discovery::findings,
    },
    Experiment {
        name: "buffer",
        text: include_str!("../../../../papers/pts/buffer.toml"),
        figures: |records| {
            vec![(
                "buffer".to_owned(),
                against(
                    &of_case(records, "close"),
                    "Throughput against Cmax",
                    Axis::new("packets", Unit::None).logarithmic(),
                    packets,
                )
                .panel(
                    Panel::new("nodes that drop")
                        .x(Axis::new("packets", Unit::None).logarithmic())
                        .y(Axis::new("throughput", Unit::BitsPerSecond).from(0.0))
                        .series(
                            Series::new("Tahoe, mean and 95 % confidence", Mark::LineAndDots, Hue::Blue)
                                .points(goodputs(&of_case(records, "drop"), packets)),
                        ),
                ),
            )]
        },
        table: None,
        more: None,
        findings: findings::buffer,
    },
];

/// The cases of Figures 2 to 4: windows that grow as far as they are filled, and those of ns-2, which begin with the largest window that is
/// allowed as threshold, and grow past it.
const WINDOWS: [(&str, &str); 2] = [("filled", ""), ("ns2", ", windows of ns-2")];

/// A figure over time for each kind of window.
fn both_windows(records: &[RunRecord], name: &str, title: &str, measured: Measured) -> Vec<(String, Figure)> {
    let figure = |(case, windows): (&str, &str)| {
        let suffix = if case == "filled" { String::new() } else { format!("-{case}") };
        (
            format!("{name}{suffix}"),
            over_time(&of_case(records, case), &format!("{title}{windows}"), measured),
        )
    };
    WINDOWS.into_iter().map(figure).collect()
}

/// The runs of a case.
fn of_case(records: &[RunRecord], case: &str) -> Vec<RunRecord> {
    records.iter().filter(|record| record.case.as_deref() == Some(case)).cloned().collect()
}

/// The first swept value of a run, in TOML.
fn value(record: &RunRecord) -> &str {
    record.values.first().map_or("", |(_, value)| value)
}

/// `[4]` is 4, and no node at all is the direct connection, 0.
fn place(record: &RunRecord) -> Option<f64> {
    let list = value(record).trim_matches(['[', ']']);
    if list.is_empty() { Some(0.0) } else { list.trim().parse().ok() }
}

/// How many nodes a list holds.
fn number(record: &RunRecord) -> Option<f64> {
    Some(value(record).split(',').filter(|node| node.contains(|c: char| c.is_ascii_digit())).count() as f64)
}

/// The cases of Figure 7.
const SMALL_WINDOW: &str = "window-20";
const LARGE_WINDOW: &str = "window-220";

/// The number of nodes, of one case.
fn number_of(record: &RunRecord, case: &str) -> Option<f64> {
    (record.case.as_deref() == Some(case)).then(|| number(record))?
}

fn packets(record: &RunRecord) -> Option<f64> {
    value(record).trim_matches('"').split(' ').next()?.parse().ok()
}

/// Goodputs by the value of `x`, which must be finite.
fn goodputs(records: &[RunRecord], x: impl Fn(&RunRecord) -> Option<f64>) -> Vec<Point> {
    let mut by_x: BTreeMap<u64, (f64, Vec<f64>)> = BTreeMap::new();
    for record in records {
        let goodput = record.outcome.as_ref().and_then(|outcome| outcome.metrics.get(&Metric::Goodput));
        if let (Some(x), Some(goodput)) = (x(record), goodput) {
            // values of x are not negative, so their bits are in their order
            by_x.entry(x.to_bits()).or_insert_with(|| (x, Vec::new())).1.push(*goodput);
        }
    }
    let point = |(x, values): &(f64, Vec<f64>)| {
        let summary = Summary::of(values.iter().copied())?;
        let half = summary.confidence().unwrap_or(0.0);
        Some(Point::new(*x, summary.mean).within(summary.mean - half, summary.mean + half))
    };
    by_x.values().filter_map(point).collect()
}

fn against(records: &[RunRecord], title: &str, axis: Axis, x: fn(&RunRecord) -> Option<f64>) -> Figure {
    let panel = Panel::new("").x(axis).y(Axis::new("throughput", Unit::BitsPerSecond).from(0.0)).series(
        Series::new("Tahoe, mean and 95 % confidence", Mark::LineAndDots, Hue::Blue)
            .points(goodputs(records, x)),
    );
    Figure::new(title).panel(panel)
}

/// The mean service time of a case, in seconds, whose name begins so.
fn service_time_of(record: &RunRecord, prefix: &str) -> Option<f64> {
    let case = record.case.as_deref()?.strip_prefix(prefix)?;
    Some(case.strip_suffix("us")?.parse::<f64>().ok()? / 1e6)
}

fn service_time(records: &[RunRecord]) -> Figure {
    let direct = goodputs(records, |record| (record.case.as_deref() == Some("direct")).then_some(0.0));
    let mut panel = Panel::new("")
        .x(Axis::new("mean service time", Unit::Seconds).logarithmic())
        .y(Axis::new("throughput", Unit::BitsPerSecond).from(0.0))
        .series(
            Series::new("one packet after the other, acknowledged before", Mark::LineAndDots, Hue::Blue)
                .points(goodputs(records, |record| service_time_of(record, "ts-"))),
        )
        .series(
            Series::new("one packet after the other, acknowledged after", Mark::LineAndDots, Hue::Sky)
                .points(goodputs(records, |record| service_time_of(record, "before-"))),
        )
        .series(
            Series::new("all at once, acknowledged after", Mark::LineAndDots, Hue::Green)
                .marker(Marker::Square)
                .points(goodputs(records, |record| service_time_of(record, "late-"))),
        )
        .series(
            Series::new("the same, all served equally long", Mark::LineAndDots, Hue::Orange)
                .points(goodputs(records, |record| service_time_of(record, "fixed-"))),
        );
    if let Some(Point { y, .. }) = direct.first() {
        panel = panel.reference("direct", *y);
    }
    Figure::new("Figure 6: throughput against the service time").panel(panel)
}

/// Throughput against the number of nodes, with both windows.
fn nodes(records: &[RunRecord]) -> Figure {
    let mut panel = Panel::new("").x(Axis::new("nodes on fourteen hops", Unit::None).counts()).y(Axis::new(
        "throughput",
        Unit::BitsPerSecond,
    )
    .from(0.0));
    for (case, label, hue, marker) in [
        (SMALL_WINDOW, "window of 20 packets, queues of 50", Hue::Blue, Marker::Circle),
        (LARGE_WINDOW, "window of 220 packets, queues of 110", Hue::Vermillion, Marker::Square),
    ] {
        panel = panel.series(
            Series::new(label, Mark::LineAndDots, hue)
                .marker(marker)
                .points(goodputs(records, |record| number_of(record, case))),
        );
    }
    Figure::new("Figure 7: throughput against the number of nodes").panel(panel)
}

/// A swept value of a run, without its quotation marks.
fn swept<'a>(record: &'a RunRecord, path: &str) -> Option<&'a str> {
    let found = record.values.iter().find(|(own, _)| own.ends_with(path));
    found.map(|(_, value)| value.trim_matches('"'))
}

/// How much earlier a loss is noticed with a node, against when the burst begins; a panel for each timer.
fn bursts(records: &[RunRecord]) -> Figure {
    let mut figure = Figure::new("Figure 4 as worded: the same burst at the same time").columns(1);
    for (case, title) in TIMERS {
        let mut panel = Panel::new(title)
            .x(Axis::new("the burst begins at", Unit::Seconds).from(4.0))
            .y(Axis::new("noticed earlier with a node by", Unit::Seconds));
        let found = findings::bursts(records, case);
        let mut lengths: Vec<&str> = found.iter().map(|own| own.lasts.as_str()).collect();
        lengths.dedup();
        for (place, length) in lengths.into_iter().enumerate() {
            let points =
                found.iter().filter(|own| own.lasts == length).map(|own| (own.begins, own.earlier()));
            panel = panel.series(Series::new(length, Mark::LineAndDots, Hue::nth(place)).points(points));
        }
        figure = figure.panel(panel);
    }
    figure
}

/// The cases of Figure 4's bursts, and their timers.
const TIMERS: [(&str, &str); 5] = [
    ("rfc6298", "timers of RFC 6298"),
    ("wide", "timers of RFC 6298, windows of 60 packets"),
    ("coarse", "timers that tick every 500 ms"),
    ("fine", "timers of 100 ms at least"),
    ("ns2", "timers and windows of ns-2, which tick every 100 ms"),
];

/// The cases of Figure 6's sessions: which packets wait for each other.
const QUEUES: [(&str, &str); 3] = [
    ("node", "one queue for all sessions"),
    ("session", "a queue for each session, one processor"),
    ("session-alone", "a queue and a processor for each session"),
];

/// Throughput against the service time, of that without a node, by the number of sessions; a panel for each kind of queues.
fn sessions(records: &[RunRecord]) -> Figure {
    let mut figure = Figure::new("Figure 6's text: sessions that compete for a node").columns(1);
    for (case, title) in QUEUES {
        let mut panel = Panel::new(title)
            .x(Axis::new("mean service time", Unit::Seconds).logarithmic())
            .y(Axis::new("throughput, of that without a node", Unit::Times).from(0.0))
            .reference("direct", 1.0);
        for (place, number) in ["1", "2", "4"].into_iter().enumerate() {
            panel = panel.series(
                Series::new(&format!("sessions of one node: {number}"), Mark::LineAndDots, Hue::nth(place))
                    .points(findings::gains(&of_case(records, case), number)),
            );
        }
        figure = figure.panel(panel);
    }
    figure
}

/// A value over time, of the first seed: directly, and of both connections of a session.
fn over_time(records: &[RunRecord], title: &str, measured: Measured) -> Figure {
    let first = records.first().map(|record| record.seed);
    let mut panel = Panel::new("").x(Axis::new("time", Unit::Seconds)).y(Axis::new(
        if measured == Measured::Cwnd { "window" } else { "sequence number" },
        Unit::Plain("packets"),
    )
    .from(0.0));
    // The node of the paper's figures stands in the middle.
    let is_drawn = |record: &&RunRecord| ["[]", "[4]"].contains(&value(record)) && Some(record.seed) == first;
    for record in records.iter().filter(is_drawn) {
        let split = value(record) != "[]";
        for series in record.outcome.iter().flat_map(|outcome| &outcome.series) {
            let (label, hue) = match (split, series.subject.contains('@')) {
                (false, _) => ("direct", Hue::Vermillion),
                (true, false) => ("PTS, first connection", Hue::Blue),
                (true, true) => ("PTS, second connection", Hue::Green),
            };
            if series.series == measured {
                let points = series.points.iter().map(|(time, value)| (*time, value / PACKET));
                let dash = if split { Dash::Solid } else { Dash::Dashed };
                panel = panel.series(Series::line(label, hue).dash(dash).points(points));
            }
        }
    }
    Figure::new(title).panel(panel)
}
