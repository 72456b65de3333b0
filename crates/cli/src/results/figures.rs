//! The figures of a study: every metric over what varies, and values over time.
use shorthaul_report::Unit;
use shorthaul_report::plot::{Axis, Dash, Figure, Hue, Mark, Marker, Panel, Point, Series as Curve};
use shorthaul_scenario::{Engine, Metric, Series};
use shorthaul_sim::RunRecord;
use shorthaul_types::{BitRate, Bytes, parse_duration};
use std::collections::BTreeMap;

use super::{PointKey, by_point, engines, label, metrics, short, summary, unit_of};

/// More curves than colours cannot be told apart.
const MOST_CURVES: usize = 8;
/// More names below one panel cannot be read.
const MOST_NAMES: usize = 12;

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
fn mean(x: f64, runs: &[&RunRecord], engine: Engine, metric: Metric) -> Option<Point> {
    let summary = summary(runs, engine, metric)?;
    let scale = unit_of(metric).0;
    let point = Point::new(x, summary.mean * scale);
    Some(match summary.confidence() {
        Some(half) => point.within((summary.mean - half).max(0.0) * scale, (summary.mean + half) * scale),
        None => point,
    })
}

fn curve_name(name: &str, engine: Engine, several: bool) -> String {
    match (name.is_empty(), several) {
        (true, false) => String::new(),
        (true, true) => engine.to_string(),
        (false, false) => name.to_owned(),
        (false, true) => format!("{name}, {engine}"),
    }
}

/// Colours distinguish the curves, dashes and markers the engines: in grey, too.
fn styled(curve: Curve, engine: Engine) -> Curve {
    match engine {
        Engine::Sim => curve,
        Engine::Live => curve.dash(Dash::Dashed).marker(Marker::Square),
    }
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
    let mut figure = Figure::new("Means over the runs")
        .subtitle(&format!(
            "Engines: {}. Bars show the 95 % confidence interval of the mean.",
            engine_names.join(", ")
        ))
        .columns(if metrics.len() > 1 { 2 } else { 1 });
    if families.len() > MOST_CURVES {
        figure = figure
            .caption(&format!("The first {MOST_CURVES} of {} curves; the table has all.", families.len()));
    }
    if x.is_none() && keys.len() > MOST_NAMES {
        figure =
            figure.caption(&format!("The first {MOST_NAMES} of {} points; the table has all.", keys.len()));
    }
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

/// Values over time: of the first seed, every point and engine, as far as colours reach.
fn over_time(records: &[RunRecord]) -> Option<Figure> {
    let seed = records.iter().map(|record| record.seed).min()?;
    let several = engines(records).len() > 1;
    let mut curves: BTreeMap<Series, Vec<(String, Engine, &[(f64, f64)])>> = BTreeMap::new();
    for record in records.iter().filter(|record| record.seed == seed) {
        let label = label(record.case.as_deref(), &record.values);
        for series in record.outcome.iter().flat_map(|outcome| &outcome.series) {
            let name = if label.is_empty() {
                series.subject.clone()
            } else {
                format!("{label}, {}", series.subject)
            };
            curves.entry(series.series).or_default().push((name, record.engine, &series.points));
        }
    }
    if curves.is_empty() {
        return None;
    }
    let mut left_out = false;
    let mut figure = Figure::new("Over time").columns(1).panel_height(150.0);
    for (series, curves) in curves {
        let unit = match series {
            Series::Rtt => Unit::Seconds,
            Series::Queue => Unit::Plain("packets"),
            _ => Unit::Bytes,
        };
        let mut panel = Panel::new(series.name())
            .x(Axis::new("time", Unit::Seconds).from(0.0))
            .y(Axis::new(series.name(), unit));
        // The same subject has the same colour in both engines.
        let mut names: Vec<&str> = Vec::new();
        for (name, engine, points) in &curves {
            let place = names.iter().position(|known| known == name).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            if place >= MOST_CURVES {
                left_out = true;
                continue;
            }
            let curve = Curve::line(&curve_name(name, *engine, several), Hue::nth(place));
            panel = panel.series(styled(curve.points(points.iter().copied()), *engine));
        }
        figure = figure.panel(panel);
    }
    let which = if left_out { format!(", the first {MOST_CURVES} of each") } else { String::new() };
    Some(figure.subtitle(&format!("Seed {seed}{which}. The file series.csv has every run.")))
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
