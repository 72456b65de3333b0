//! The figures of a study: every metric over what varies, and values over time.
use crate::{EngineName, RunRecord};
use shorthaul_report::Unit;
use shorthaul_report::plot::{Axis, Dash, Figure, Hue, Mark, Marker, Panel, Point, Series as Curve, Share};
use shorthaul_scenario::{Metric, Series};
use shorthaul_types::{BitRate, Bytes, parse_duration};
use std::collections::BTreeMap;

use super::{PointKey, by_point, engines, interval, label, metrics, short, summary, unit_of};

/// More curves than colours cannot be told apart.
const MOST_CURVES: usize = 8;
/// More names below one panel cannot be read.
const MOST_NAMES: usize = 12;
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
    // What is not on the horizontal axis distinguishes the curves.
    let mut families: BTreeMap<String, Vec<&PointKey>> = BTreeMap::new();
    for key in keys.iter().copied() {
        let mut rest = key.2.clone();
        let family = match x {
            Some((place, _)) => {
                rest.remove(place);
                label(key.1.as_deref(), &rest)
            }
            None => String::new(),
        };
        families.entry(family).or_default().push(key);
    }
    let engine_names: Vec<&str> = engines.iter().map(|engine| engine.name()).collect();
    let figure = Figure::new("Means over the runs")
        .subtitle(&format!(
            "Engines: {}. Whiskers show the 95 % confidence interval of the mean, where there are several runs, and of a forecast the interval in which a run lies in 95 % of cases.",
            engine_names.join(", ")
        ))
        .columns(if metrics.len() > 1 { 2 } else { 1 });
    let mut remarks = Vec::new();
    if families.len() > MOST_CURVES {
        remarks.push(format!("The first {MOST_CURVES} of {} curves; the table has all.", families.len()));
    }
    if x.is_none() && keys.len() > MOST_NAMES {
        remarks.push(format!("The first {MOST_NAMES} of {} points; the table has all.", keys.len()));
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
    let mut figure = figure.caption(&remarks.join(" "));
    for metric in metrics {
        let y = Axis::new(metric.name(), unit_of(metric).1);
        let mut panel = Panel::new("").y(y);
        panel = match x {
            Some((place, unit)) => panel.x(Axis::new(short(&keys[0].2[place].0), unit)),
            None => {
                let names = keys.iter().take(MOST_NAMES).map(|key| label(key.1.as_deref(), &key.2));
                panel.x(Axis::categories("", names))
            }
        };
        for (index, (family, members)) in families.iter().take(MOST_CURVES).enumerate() {
            for (number_of_engine, &engine) in engines.iter().enumerate() {
                let at = |(number_of_point, key): (usize, &&PointKey)| {
                    let x = match x {
                        Some((place, _)) => number(&key.2[place].1)?.0,
                        None => number_of_point as f64,
                    };
                    mean(x, points.get(*key)?, engine, metric)
                };
                let values = members
                    .iter()
                    .enumerate()
                    .filter_map(at)
                    .filter(|point| x.is_some() || point.x < MOST_NAMES as f64);
                let name = curve_name(family, engine, several);
                let (mark, hue) = match x {
                    Some(_) => (Mark::LineAndDots, Hue::nth(index)),
                    None => (Mark::Bars, Hue::nth(number_of_engine)),
                };
                panel = panel.series(styled(Curve::new(&name, mark, hue).points(values), engine));
            }
        }
        figure = figure.panel(panel);
    }
    Some(figure)
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
