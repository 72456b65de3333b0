//! Links of today: what of a link was used, how long packets waited in its queue, how fast pages came beside a bulk
//! transfer, and how two flows of different age and round-trip time shared.
use super::Kept;
use super::measures::*;
use crate::error::{PaperError, Result, While};
use crate::experiment;
use serde::Serialize;
use shorthaul_link::{Direction, Rate, Trace};
use shorthaul_live::Live;
use shorthaul_observe::{EngineName, RunRecord};
use shorthaul_proxy::AggregateConfig;
use shorthaul_report::plot::{Axis, Figure, Hue, Mark, Marker, Panel, Point, Series};
use shorthaul_report::{Column, Console, Table, Unit, make_directory, write_file};
use shorthaul_scenario::{Series as Measured, Study};
use shorthaul_sim::Simulator;
use shorthaul_types::Seed;
use std::path::{Path, PathBuf};

/// Measured from here on, in seconds: what a slow start over a satellite takes, and when the pages begin.
const FROM: f64 = 10.0;
/// Of a packet of 1500 bytes, this much is payload.
const PAYLOAD: f64 = 1448.0 / 1500.0;
/// How the scenarios call what is compared, and how the figures draw it.
const WAYS: [(&str, Hue); 3] = [("direct", Hue::Vermillion), ("split", Hue::Orange), ("auto", Hue::Blue)];
/// The senders' congestion control.
const CONTROLS: [(&str, Marker); 2] = [("cubic", Marker::Circle), ("bbr", Marker::Triangle)];

/// Scenario files that need no recorded trace.
const SCENARIOS: [(&str, &str); 9] = [
    ("modern-5g", include_str!("../../../../papers/aggregation/modern-5g.toml")),
    ("modern-geo", include_str!("../../../../papers/aggregation/modern-geo.toml")),
    ("modern-lte", LTE),
    ("modern-fair", include_str!("../../../../papers/aggregation/modern-fair.toml")),
    ("headroom", HEADROOM),
    (UPLINK, include_str!("../../../../papers/aggregation/uplink.toml")),
    ("uplink-lte", include_str!("../../../../papers/aggregation/uplink-lte.toml")),
    ("uplink-geo", include_str!("../../../../papers/aggregation/uplink-geo.toml")),
    ("uplink-gprs", include_str!("../../../../papers/aggregation/uplink-gprs.toml")),
];
/// Those in which the phone sends begin so.
const UPLINK: &str = "uplink";
/// How the names of those begin that choose a parameter.
const TUNING: &str = "headroom";
/// These have a recorded trace in the place of the generated one too.
const LTE: &str = include_str!("../../../../papers/aggregation/modern-lte.toml");

const HEADROOM: &str = include_str!("../../../../papers/aggregation/headroom.toml");

/// A scenario to be run.
pub(super) struct Link {
    name: String,
    study: Study,
}

/// All scenarios, the recorded traces of a directory among them: each pair of NAME.down and NAME.up in mahimahi's format
/// becomes one, which is written to `out` beside the results.
pub(super) fn links(traces: Option<&Path>, out: &Path) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    for (name, text) in SCENARIOS {
        links.push(Link { name: name.into(), study: Study::from_toml(&format!("{name}.toml"), text)? });
    }
    let Some(directory) = traces else { return Ok(links) };
    let cannot_read = || format!("cannot read the traces in {}", directory.display());
    let directory = directory.canonicalize().doing(cannot_read())?;
    let mut down: Vec<PathBuf> = std::fs::read_dir(&directory)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .doing(cannot_read())?;
    down.retain(|path| {
        path.extension().is_some_and(|end| end == "down") && path.with_extension("up").exists()
    });
    down.sort();
    if down.is_empty() {
        let directory = directory.display();
        return Err(PaperError::asked(format!("{directory} has no pair of NAME.down and NAME.up")));
    }
    make_directory(out)?;
    for path in down {
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        for (name, text) in [(format!("trace-{stem}"), LTE), (format!("headroom-{stem}"), HEADROOM)] {
            let file = out.join(format!("{name}.toml"));
            let text = on_trace(text, &stem, &path)?;
            write_file(&file, &text)?;
            links.push(Link { name, study: Study::from_file(&file)? });
        }
    }
    Ok(links)
}

/// The scenario of the generated trace with a recorded one in its place.
fn on_trace(text: &str, stem: &str, down: &Path) -> Result<String> {
    let quoted = |path: &Path| {
        let text = path.to_str().doing(format!("{} is not a name that TOML can hold", path.display()))?;
        Ok::<_, PaperError>(format!("{text:?}"))
    };
    let (trace, up) = (quoted(down)?, quoted(&down.with_extension("up"))?);
    let link = format!(
        "link = {{ rate = {{ trace = {trace} }}, delay = \"20 ms\", queue = \"4 MB\", up = {{ rate = {{ trace = {up} }} }} }}"
    );
    let escaped = format!("{stem:?}");
    let escaped = escaped[1..escaped.len() - 1].to_owned();
    let lines = text.lines().map(|line| match line {
        line if line.starts_with("link = { rate = { cellular") => link.clone(),
        line if line.starts_with("about = ") => {
            line.replace("LTE-like, varying, 10 Mbit/s on average", &escaped)
        }
        line if line.starts_with("repeats = ") => "repeats = 1".to_owned(),
        line if line.starts_with('#') => format!("# {stem}, as recorded: bulk and pages."),
        line => line.to_owned(),
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// What came of a scenario.
#[derive(Serialize)]
pub(super) struct Run {
    pub name: String,
    pub text: String,
    pub engine: &'static str,
    rows: Vec<Row>,
    records: Vec<RunRecord>,
}

/// What came of one case of it; times in seconds, shares of what the link can carry.
#[derive(Clone, Debug, Serialize)]
struct Row {
    case: String,
    used: Option<f64>,
    queue_mean: Option<f64>,
    queue_p95: Option<f64>,
    page: Option<f64>,
    fairness: Option<f64>,
    doubts: Vec<String>,
}

impl Link {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is there to choose a parameter.
    pub fn is_tuning(&self) -> bool {
        self.name.starts_with(TUNING)
    }

    /// Runs it in the simulator, or live: one run after the other, one seed, in real time.
    pub fn run(
        self,
        engine: EngineName,
        repeats: Option<u32>,
        live: &Kept,
        console: &dyn Console,
    ) -> Result<Run> {
        let Link { name, mut study } = self;
        let seed = study.seeds().next().unwrap_or(1);
        if let Some(repeats) = repeats.or((engine == EngineName::Live).then_some(1)) {
            study = study.with_seeds(seed, repeats);
        }
        let engine_name = if engine == EngineName::Live { "live" } else { "sim" };
        console.say(&format!("{name}, {engine_name}: {}", study.about()));
        let records = match engine {
            EngineName::Live => {
                let one_by_one = Live { jobs: 1, ..live.live.clone() };
                experiment::records(&one_by_one, &study, live.store.as_ref(), console)?
            }
            _ => experiment::records(&Simulator::default(), &study, None, console)?,
        };
        let mut rows = Vec::new();
        for case in study.points().iter().filter_map(|point| point.case.clone()) {
            rows.push(row(&study, &records, case, name.starts_with(UPLINK))?);
        }
        Ok(Run { name, text: study.text().to_owned(), engine: engine_name, rows, records })
    }
}

fn row(study: &Study, records: &[RunRecord], case: String, uplink: bool) -> Result<Row> {
    let (direction, queue) =
        if uplink { (Direction::Up, "phone>proxy") } else { (Direction::Down, "proxy>phone") };
    let mut used = Vec::new();
    for (record, outcome) in outcomes(records, &case) {
        let scenario = study.scenario(&study.points()[record.point - 1])?;
        let rate = &scenario.links[0].config(direction, Seed(record.seed)).rate;
        let Some(capacity) = capacity(rate, FROM, outcome.ended_at) else { continue };
        let delivered = outcome
            .series
            .iter()
            .filter(|series| series.series == Measured::Delivered && (!uplink || series.subject == "bulk"));
        let bytes: f64 = delivered.map(|series| gain(&series.points, FROM, outcome.ended_at)).sum();
        used.push(bytes / (capacity * PAYLOAD));
    }
    let failures = records.iter().filter(|record| record.case.as_deref() == Some(case.as_str()));
    let delays = queue_delays(records, &case, queue);
    Ok(Row {
        used: mean(&used),
        queue_mean: mean(&delays),
        queue_p95: percentile(&delays, 0.95),
        page: mean(&transfers_of(records, &case, "page")),
        fairness: shared_from(records, &case, 15.0),
        doubts: failures.filter_map(|record| record.failure.clone()).collect(),
        case,
    })
}

/// The bytes that a link can carry between two times, given in seconds; `None` for rates that the scenarios do not use.
fn capacity(rate: &Rate, from: f64, to: f64) -> Option<f64> {
    match rate {
        Rate::Fixed(rate) => Some(rate.bits_per_sec() as f64 / 8.0 * (to - from)),
        Rate::Trace(trace) => {
            let until = |seconds: f64| {
                let period = trace.period().as_secs_f64();
                let whole = (seconds / period).floor();
                let rest = ((seconds - whole * period) * 1e3) as u32;
                whole * trace.millis().len() as f64 + trace.millis().partition_point(|&at| at <= rest) as f64
            };
            Some((until(to) - until(from)) * Trace::OPPORTUNITY.0 as f64)
        }
        _ => None,
    }
}

impl Run {
    fn is_tuning(&self) -> bool {
        self.name.starts_with(TUNING)
    }

    fn row(&self, case: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.case == case)
    }
}

/// A row for each link and case.
pub(super) fn table(runs: &[Run]) -> Table {
    let mut table = Table::new([
        Column::left("link"),
        Column::left("engine"),
        Column::left("how"),
        Column::right("used"),
        Column::right("queue, mean"),
        Column::right("queue, 95 %"),
        Column::right("of direct"),
        Column::right("page download"),
        Column::right("faster"),
        Column::right("Jain"),
    ]);
    for run in runs {
        for row in &run.rows {
            let direct =
                row.case.split_once('-').and_then(|(_, control)| run.row(&format!("direct-{control}")));
            let over = |of: fn(&Row) -> Option<f64>| Some(of(row)? / of(direct?)?);
            let text = |value: Option<f64>, show: &dyn Fn(f64) -> String| value.map_or(String::new(), show);
            let seconds = |value: f64| Unit::Seconds.format(value);
            table.row([
                run.name.as_str(),
                run.engine,
                &row.case,
                &text(row.used, &|share| Unit::Percent.format(share)),
                &text(row.queue_mean, &seconds),
                &text(row.queue_p95, &seconds),
                &text(over(|row| row.queue_p95), &|ratio| format!("{ratio:.2}")),
                &text(row.page, &seconds),
                &text(over(|row| row.page), &|ratio| format!("{:.1} ×", 1.0 / ratio)),
                &text(row.fairness, &|index| format!("{index:.3}")),
            ]);
        }
    }
    table
}

/// What speaks against trusting some of the runs.
pub(super) fn doubts(runs: &[Run]) -> Vec<String> {
    let of = |run: &Run| {
        let rows = run.rows.iter().filter(|row| !row.doubts.is_empty());
        rows.map(|row| format!("{}, {}, {}: {}", run.name, run.engine, row.case, row.doubts.join("; ")))
            .collect::<Vec<_>>()
    };
    runs.iter().flat_map(of).collect()
}

/// What was used of each link, over how long packets waited; and how long a download of a page took.
pub(super) fn figures(runs: &[Run]) -> Vec<(String, Figure)> {
    let mut figures = Vec::new();
    for engine in ["sim", "live"] {
        let (tuning, runs): (Vec<&Run>, Vec<&Run>) =
            runs.iter().filter(|run| run.engine == engine).partition(|run| run.is_tuning());
        if !tuning.is_empty() {
            figures.push(("headroom".to_owned(), headroom(&tuning)));
        }
        if runs.is_empty() {
            continue;
        }
        let mut used = Figure::new(&format!("Use of the link and queueing delay ({engine})"))
            .caption("Better is up and left. Circles: CUBIC servers; triangles: BBR servers.")
            .columns(3);
        for run in &runs {
            used = used.panel(panel_of(run));
        }
        figures.push((format!("modern-{engine}"), used));
        let pages: Vec<&Run> =
            runs.into_iter().filter(|run| run.rows.iter().any(|row| row.page.is_some())).collect();
        if pages.is_empty() {
            continue;
        }
        let names =
            pages.iter().map(|run| run.name.trim_start_matches("modern-").trim_start_matches("trace-"));
        let mut panel = Panel::new("").x(Axis::categories("", names)).y(Axis::new(
            "a download of a page takes",
            Unit::Seconds,
        )
        .logarithmic());
        for (way, hue) in WAYS {
            let points = pages
                .iter()
                .enumerate()
                .filter_map(|(place, run)| Some((place as f64, run.row(&format!("{way}-cubic"))?.page?)));
            panel = panel.series(Series::dots(way, hue).points(points));
        }
        let figure =
            Figure::new(&format!("Six parallel downloads of 30 kB beside a bulk transfer ({engine})"))
                .caption("Means; CUBIC servers.")
                .panel(panel);
        figures.push((format!("pages-{engine}"), figure));
    }
    figures
}

/// What is used over what waits, by the headroom.
fn headroom(runs: &[&Run]) -> Figure {
    let default = AggregateConfig::default().headroom;
    let caption = format!(
        "By the headroom; the default is {default}. Without a gateway: CUBIC (circle) and BBR (triangle)."
    );
    let mut figure = Figure::new("Headroom for a link whose rate varies").caption(&caption).columns(3);
    for run in runs {
        let name = run.name.trim_start_matches("headroom").trim_start_matches('-');
        let mut rows: Vec<(u32, &Row)> = run
            .rows
            .iter()
            .filter_map(|row| Some((row.case.strip_prefix("headroom-")?.parse().ok()?, row)))
            .collect();
        rows.sort_by_key(|(headroom, _)| *headroom);
        let ends = [rows.first(), rows.last()].map(|row| row.map(|(headroom, _)| *headroom));
        let points = rows.into_iter().filter_map(|(headroom, row)| {
            let point = Point::new(row.queue_p95?.max(1e-4), row.used?);
            let labelled = ends.contains(&Some(headroom)) || f64::from(headroom) == default;
            Some(if labelled { point.text(headroom.to_string()) } else { point })
        });
        let mut panel = Panel::new(if name.is_empty() { "generated" } else { name })
            .x(Axis::new("95 % of the packets wait less than", Unit::Seconds).logarithmic())
            .y(Axis::new("used of the link", Unit::Percent).from(0.8))
            .series(Series::new("auto", Mark::LineAndDots, Hue::Blue).points(points));
        for (control, marker) in CONTROLS {
            let row = run.row(&format!("direct-{control}"));
            let point = row.and_then(|row| Some(Point::new(row.queue_p95?.max(1e-4), row.used?)));
            let label = if control == "cubic" { "direct" } else { "" };
            panel = panel.series(Series::dots(label, Hue::Vermillion).marker(marker).points(point));
        }
        figure = figure.panel(panel);
    }
    figure
}

fn panel_of(run: &Run) -> Panel {
    let mut panel = Panel::new(&run.name)
        .x(Axis::new("95 % of the packets wait less than", Unit::Seconds).logarithmic())
        .y(Axis::new("used of the link", Unit::Percent));
    for (way, hue) in WAYS {
        for (control, marker) in CONTROLS {
            let row = run.row(&format!("{way}-{control}"));
            let point = row.and_then(|row| Some(Point::new(row.queue_p95?.max(1e-4), row.used?)));
            let label = if control == "cubic" { way } else { "" };
            panel = panel.series(Series::dots(label, hue).marker(marker).points(point));
        }
    }
    panel
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_types::BitRate;
    use std::sync::Arc;

    #[test]
    fn what_a_link_can_carry_is_counted_over_repetitions_of_its_trace() {
        let fixed = Rate::Fixed(BitRate::from_bits_per_sec(8_000_000));
        assert_eq!(capacity(&fixed, 10.0, 40.0), Some(30e6));
        let trace: Trace = "100\n200\n200\n1000\n".parse().unwrap();
        let rate = Rate::Trace(Arc::new(trace));
        assert_eq!(capacity(&rate, 0.0, 10.0), Some(40.0 * 1500.0));
        assert_eq!(capacity(&rate, 0.15, 1.15), Some(4.0 * 1500.0));
        assert_eq!(capacity(&rate, 0.15, 0.25), Some(2.0 * 1500.0));
        assert_eq!(capacity(&Rate::Unlimited, 0.0, 1.0), None);
    }

    #[test]
    fn a_recorded_trace_takes_the_place_of_the_generated_one() {
        let text = on_trace(LTE, "a \"car\"", Path::new("/tmp/a \"car\".down")).unwrap();
        assert!(
            text.contains(r#"trace = "/tmp/a \"car\".down" }"#)
                && text.contains(r#"trace = "/tmp/a \"car\".up" }"#)
        );
        assert!(!text.contains("cellular"), "{text}");
        text.parse::<toml::Table>().unwrap();
    }
}
