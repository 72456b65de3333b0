//! The figures of a study: every metric over what varies, and values over time.
use crate::{EngineName, RunRecord};
use shorthaul_report::Unit;
use shorthaul_report::plot::{Axis, Dash, Figure, Hue, Mark, Marker, Panel, Point, Series as Curve, Share};
use shorthaul_scenario::{Metric, Series};
use shorthaul_types::{BitRate, Bytes, parse_duration};

use super::{PointKey, by_point, engines, interval, label, metrics, short, summary, unit_of};

/// More curves than colours cannot be told apart.
const MOST_CURVES: usize = 8;
/// More names below one panel cannot be read.
const MOST_NAMES: usize = 16;
/// More panels beside each other are too narrow.
const MOST_COLUMNS: usize = 3;

/// The figures with the names of their files; none where there is nothing to show.
pub fn all(records: &[RunRecord]) -> Vec<(&'static str, Figure)> {
    let metrics = of_metrics(records).map(|figure| ("metrics", figure));
    metrics.into_iter().chain(over_time(records).map(|figure| ("series", figure))).collect()
}

/// A swept value as a number, where it is one: `"10 Mbit/s"`, `0.1`, `"40 ms"`, `"50 packets"`.
fn number(value: &str) -> Option<(f64, Unit)> {
    let text = value.trim_matches('"').trim();
    if let Ok(number) = text.parse::<f64>() {
        return Some((number, Unit::None));
    }
    if let Some(share) = text.strip_suffix('%') {
        return share.trim().parse::<f64>().ok().map(|share| (share / 100.0, Unit::Percent));
    }
    if let Some(count) = text.strip_suffix("packets") {
        return count.trim().parse::<f64>().ok().map(|count| (count, Unit::Plain("packets")));
    }
    if let Ok(rate) = text.parse::<BitRate>() {
        return Some((rate.bits_per_sec() as f64, Unit::BitsPerSecond));
    }
    if let Ok(size) = text.parse::<Bytes>() {
        return Some((size.0 as f64, Unit::Bytes));
    }
    parse_duration(text).ok().map(|time| (time.as_secs_f64(), Unit::Seconds))
}

/// The first swept path whose values are all numbers of one kind, and more than one: its place and unit.
fn numeric_path(points: &[&PointKey]) -> Option<(usize, Unit)> {
    let count = points.first()?.2.len();
    (0..count).find_map(|place| {
        let values: Option<Vec<_>> = points.iter().map(|point| number(&point.2[place].1)).collect();
        let values = values?;
        let (first, unit) = values[0];
        let varies = values.iter().any(|(value, _)| *value != first);
        (varies && values.iter().all(|(_, other)| *other == unit)).then_some((place, unit))
    })
}

/// A point of a curve: the mean, and how sure it is.
fn mean(x: f64, runs: &[&RunRecord], engine: EngineName, metric: Metric) -> Option<Point> {
    let summary = summary(runs, engine, metric)?;
    let scale = unit_of(metric).0;
    let point = Point::new(x, summary.mean * scale);
    Some(match interval(runs, engine, metric) {
        Some([low, high]) => point.within(low.max(0.0) * scale, high * scale),
        None => point,
    })
}

fn curve_name(name: &str, engine: EngineName, several: bool) -> String {
    match (name.is_empty(), several) {
        (true, false) => String::new(),
        (true, true) => engine.to_string(),
        (false, false) => name.to_owned(),
        (false, true) => format!("{name}, {engine}"),
    }
}

/// Colours distinguish the curves, dashes and markers the engines: in grey, too.
fn styled(curve: Curve, engine: EngineName) -> Curve {
    const STYLES: [(Dash, Marker); 4] = [
        (Dash::Dotted, Marker::Triangle),
        (Dash::Solid, Marker::Circle),
        (Dash::Dashed, Marker::Square),
        (Dash::Dotted, Marker::Diamond),
    ];
    let place = EngineName::ALL.iter().position(|(other, ..)| *other == engine).unwrap_or_default();
    let (dash, marker) = STYLES[place % STYLES.len()];
    curve.dash(dash).marker(marker)
}

/// Every metric, over the swept value if there is one that is a number, and otherwise over the points.
fn of_metrics(records: &[RunRecord]) -> Option<Figure> {
    let points = by_point(records);
    let (engines, metrics) = (engines(records), metrics(records));
    if metrics.is_empty() {
        return None;
    }
    let several = engines.len() > 1;
    let keys: Vec<&PointKey> = points.keys().collect();
    let x = numeric_path(&keys);
    let families = families(&keys, x);
    // Of names there is one for each place: what is swept, or the cases where nothing is.
    let places = if x.is_none() { Some(Places::of(&keys)) } else { None };
    let engine_names: Vec<&str> = engines.iter().map(|engine| engine.name()).collect();
    let figure = Figure::new("Means over the runs")
        .subtitle(&format!(
            "Engines: {}. Whiskers: the 95 % confidence interval of the mean, where there are several runs; of a forecast, the interval in which a run lies in 95 % of cases.",
            engine_names.join(", ")
        ))
        .columns(if metrics.len() > 1 { 2 } else { 1 });
    let mut remarks = Vec::new();
    if families.len() > MOST_CURVES {
        remarks.push(format!("The first {MOST_CURVES} of {} curves; the table has all.", families.len()));
    }
    if let Some(all) = places.as_ref().map(|places| places.names.len()).filter(|all| *all > MOST_NAMES) {
        remarks.push(format!("The first {MOST_NAMES} of {all} points; the table has all."));
    }
    // An empty panel says less than a sentence.
    let is_zero = |metric: &Metric| {
        let outcomes = records.iter().filter_map(|record| record.outcome.as_ref());
        outcomes.filter_map(|outcome| outcome.metrics.get(metric)).all(|value| *value == 0.0)
    };
    let (zero, metrics): (Vec<Metric>, Vec<Metric>) = metrics.into_iter().partition(is_zero);
    if !zero.is_empty() {
        let names: Vec<&str> = zero.iter().map(|metric| metric.name()).collect();
        remarks.push(format!("Zero in every run: {}.", names.join(", ")));
    }
    if metrics.contains(&Metric::Completion)
        && records.iter().filter_map(|record| record.outcome.as_ref()).any(|outcome| outcome.unended > 0)
    {
        remarks.push(
            "Transfers that had not ended are missing in `completion`; the table counts their runs."
                .to_owned(),
        );
    }
    remarks.extend(too_few_runs(records));
    let mut figure = figure.caption(&remarks.join(" "));
    for metric in metrics {
        let y = Axis::new(metric.name(), unit_of(metric).1);
        let mut panel = Panel::new("").y(if counts(metric) { y.counts() } else { y });
        panel = match (x, &places) {
            (Some((place, unit)), _) => panel.x(Axis::new(short(&keys[0].2[place].0), unit)),
            (None, Some(places)) => panel.x(places.axis()),
            (None, None) => panel,
        };
        for (index, (family, members)) in families.iter().take(MOST_CURVES).enumerate() {
            for (number_of_engine, &engine) in engines.iter().enumerate() {
                let at = |key: &&PointKey| {
                    let x = match (x, &places) {
                        (Some((place, _)), _) => number(&key.2[place].1)?.0,
                        (None, Some(places)) => places.of_key(key).filter(|at| *at < MOST_NAMES)? as f64,
                        (None, None) => return None,
                    };
                    mean(x, points.get(*key)?, engine, metric)
                };
                let values = members.iter().filter_map(at);
                // What stands below the bars need not stand above them, too.
                let is_below = !several && places.as_ref().is_some_and(|places| places.are_cases);
                let name = curve_name(if is_below { "" } else { family }, engine, several);
                let curve = match x {
                    Some(_) => Curve::new(&name, Mark::LineAndDots, Hue::nth(index)),
                    None if several && families.len() == 1 => Curve::bars(&name, Hue::nth(number_of_engine)),
                    // Of one case, the engines are shades of its colour.
                    None => Curve::bars(&name, Hue::nth(index))
                        .opacity(1.0 - 0.6 * number_of_engine as f32 / engines.len() as f32),
                };
                panel = panel.series(styled(curve.points(values), engine));
            }
        }
        figure = figure.panel(panel);
    }
    Some(figure)
}

/// The curves, or the colours of the bars, in the order in which they come: by all that is not on the horizontal axis.
fn families<'a>(keys: &[&'a PointKey], x: Option<(usize, Unit)>) -> Vec<(String, Vec<&'a PointKey>)> {
    let mut families: Vec<(String, Vec<&PointKey>)> = Vec::new();
    for key in keys.iter().copied() {
        let mut rest = key.2.clone();
        let family = match x {
            Some((place, _)) => {
                rest.remove(place);
                label(key.1.as_deref(), &rest)
            }
            None => key.1.clone().unwrap_or_default(),
        };
        match families.iter_mut().find(|(name, _)| *name == family) {
            Some((_, members)) => members.push(key),
            None => families.push((family, vec![key])),
        }
    }
    families
}

/// Where bars stand: a place for each combination of swept values, in which the cases stand beside each other; or, where
/// nothing is swept, one for each case.
struct Places {
    /// What varies, where it is one thing.
    axis: String,
    names: Vec<String>,
    are_cases: bool,
}

impl Places {
    fn of(keys: &[&PointKey]) -> Self {
        let are_cases = keys.iter().all(|key| key.2.is_empty());
        let mut names: Vec<String> = Vec::new();
        for key in keys {
            let name = Self::name(key, are_cases);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let axis = match keys.first().map(|key| key.2.as_slice()) {
            Some([(path, _)]) => short(path).to_owned(),
            _ => String::new(),
        };
        Places { axis, names, are_cases }
    }

    fn name(key: &PointKey, are_cases: bool) -> String {
        match key.2.as_slice() {
            _ if are_cases => key.1.clone().unwrap_or_default(),
            [(_, value)] => value.trim_matches('"').to_owned(),
            values => label(None, values),
        }
    }

    fn of_key(&self, key: &PointKey) -> Option<usize> {
        let name = Self::name(key, self.are_cases);
        self.names.iter().position(|other| *other == name)
    }

    fn axis(&self) -> Axis {
        Axis::categories(&self.axis, self.names.iter().take(MOST_NAMES).cloned())
    }
}

/// What is counted: its axis has whole numbers.
fn counts(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::Timeouts
            | Metric::Unfinished
            | Metric::SpuriousTimeouts
            | Metric::Undone
            | Metric::HarmVerdicts
            | Metric::RelayDrops
    )
}

/// Where the interval of a mean is wider than the mean itself: a sentence, for nothing can be read from such bars.
pub(super) fn too_few_runs(records: &[RunRecord]) -> Option<String> {
    let points = by_point(records);
    let mut of: Vec<String> = Vec::new();
    let mut least_runs = usize::MAX;
    for metric in metrics(records) {
        let wide = points
            .iter()
            .flat_map(|(key, runs)| engines(records).into_iter().map(move |engine| (key, runs, engine)));
        let mut wide = wide.filter_map(|(key, runs, engine)| {
            let mean = summary(runs, engine, metric).filter(|all| all.count() > 1 && all.mean != 0.0)?;
            let half = mean.confidence()?;
            (2.0 * half > mean.mean.abs()).then(|| (label(key.1.as_deref(), &key.2), mean.count()))
        });
        if let Some((first, runs)) = wide.next() {
            least_runs = least_runs.min(runs);
            let more = wide.count();
            let place = match (first.is_empty(), more) {
                (true, _) => String::new(),
                (false, 0) => format!(" ({first})"),
                (false, more) => format!(" ({first}, and {more} more)"),
            };
            of.push(format!("{}{place}", metric.name()));
        }
    }
    (!of.is_empty()).then(|| {
        format!(
            "Warning: {least_runs} runs are too few to tell. The confidence interval is wider than the mean itself of {}: more seeds (--repeats) narrow it.",
            of.join("; ")
        )
    })
}

/// Values over time of the first seed: a row of panels for each kind of value, a column for each point.
fn over_time(records: &[RunRecord]) -> Option<Figure> {
    let seed = records.iter().map(|record| record.seed).min()?;
    let several = engines(records).len() > 1;
    let of_seed: Vec<&RunRecord> = records.iter().filter(|record| record.seed == seed).collect();
    let points = by_point(records);
    // A queue that was always empty is only in the way.
    let shown = || {
        let all = of_seed.iter().flat_map(|record| {
            record.outcome.iter().flat_map(|outcome| &outcome.series).map(move |series| (*record, series))
        });
        all.filter(|(_, series)| series.points.iter().any(|(_, value)| *value > 0.0))
    };
    let mut kinds: Vec<Series> = shown().map(|(_, series)| series.series).collect();
    kinds.sort();
    kinds.dedup();
    // A subject has the same colour everywhere.
    let mut subjects: Vec<&str> = Vec::new();
    for (_, series) in shown() {
        if !subjects.contains(&series.subject.as_str()) {
            subjects.push(&series.subject);
        }
    }
    if kinds.is_empty() {
        return None;
    }
    let columns: Vec<&PointKey> = points.keys().take(MOST_COLUMNS).collect();
    let mut figure = Figure::new("Over time").columns(columns.len()).share_y(Share::Row);
    for kind in kinds {
        let unit = match kind {
            Series::Rtt => Unit::Seconds,
            Series::Queue => Unit::Plain("packets"),
            Series::QueueDelay => Unit::Seconds,
            _ => Unit::Bytes,
        };
        for point in &columns {
            let mut panel = Panel::new(&label(point.1.as_deref(), &point.2))
                .x(Axis::new("time", Unit::Seconds).from(0.0))
                .y(Axis::new(kind.name(), unit));
            for (record, series) in
                shown().filter(|(record, series)| record.point == point.0 && series.series == kind)
            {
                let place =
                    subjects.iter().position(|subject| *subject == series.subject).unwrap_or(MOST_CURVES);
                if place < MOST_CURVES {
                    let name = curve_name(&series.subject, record.engine, several);
                    let curve = Curve::line(&name, Hue::nth(place)).points(series.points.iter().copied());
                    panel = panel.series(styled(curve, record.engine));
                }
            }
            figure = figure.panel(panel);
        }
    }
    let mut remarks = vec![format!("Seed {seed}; the file series.csv has every run.")];
    if points.len() > columns.len() {
        remarks.push(format!("The first {} of {} points.", columns.len(), points.len()));
    }
    if subjects.len() > MOST_CURVES {
        remarks.push(format!("The first {MOST_CURVES} of {} flows and queues.", subjects.len()));
    }
    Some(figure.subtitle(&remarks.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swept_values_are_numbers_with_units_where_they_are() {
        assert_eq!(number("3"), Some((3.0, Unit::None)));
        assert_eq!(number("\"10 Mbit/s\""), Some((10e6, Unit::BitsPerSecond)));
        assert_eq!(number("\"0.5 %\""), Some((0.005, Unit::Percent)));
        assert_eq!(number("\"1 MB\""), Some((1e6, Unit::Bytes)));
        assert_eq!(number("\"40 ms\""), Some((0.04, Unit::Seconds)));
        assert_eq!(number("\"50 packets\""), Some((50.0, Unit::Plain("packets"))));
        assert_eq!(number("\"newreno\""), None);
    }

    #[test]
    fn bars_stand_by_what_is_swept_and_have_the_colour_of_their_case() {
        let key = |n: usize, case: Option<&str>, schemes: &[&str]| -> PointKey {
            let values = schemes.iter().map(|scheme| ("hosts.a.scheme".to_owned(), format!("\"{scheme}\"")));
            (n, case.map(str::to_owned), values.collect())
        };
        let swept = [("direct", "reno"), ("direct", "cubic"), ("split", "reno"), ("split", "cubic")];
        let keys: Vec<PointKey> =
            swept.into_iter().enumerate().map(|(n, (case, scheme))| key(n, Some(case), &[scheme])).collect();
        let keys: Vec<&PointKey> = keys.iter().collect();
        let places = Places::of(&keys);
        assert_eq!(
            (places.axis.as_str(), places.names.as_slice()),
            ("scheme", &["reno".to_owned(), "cubic".to_owned()][..])
        );
        assert_eq!(
            keys.iter().map(|key| places.of_key(key)).collect::<Vec<_>>(),
            [Some(0), Some(1), Some(0), Some(1)]
        );
        let names: Vec<String> = families(&keys, None).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["direct", "split"]);
        // Where nothing is swept, a case has a place of its own.
        let alone = [key(0, Some("direct"), &[]), key(1, Some("split"), &[])];
        let places = Places::of(&alone.iter().collect::<Vec<_>>());
        assert!(places.are_cases && places.names == ["direct", "split"]);
    }

    #[test]
    fn the_axis_is_what_varies_as_a_number() {
        let key = |n: usize, scheme: &str, loss: &str| -> PointKey {
            let value = |path: &str, value: &str| (path.to_owned(), format!("\"{value}\""));
            (n, None, vec![value("hosts.a.scheme", scheme), value("link.loss", loss)])
        };
        let keys = [key(1, "reno", "0.1 %"), key(2, "reno", "1 %"), key(3, "cubic", "1 %")];
        let keys: Vec<&PointKey> = keys.iter().collect();
        assert_eq!(numeric_path(&keys), Some((1, Unit::Percent)));
        assert_eq!(numeric_path(&keys[1..]), None, "it does not vary");
    }
}
