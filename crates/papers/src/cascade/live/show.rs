//! What was measured: a table, a figure, rows, JSON.
use std::collections::BTreeMap;

use serde_json::{Value, json};
use shorthaul_report::plot::{Axis, Figure, Hue, Panel, Point, Series};
use shorthaul_report::{Column, Csv, Field, Manifest, ReportError, Table, Unit};
use shorthaul_types::BitRate;

use super::super::cell::PathPoint;
use super::transfer::Relaying;
use super::{Measurement, loss_percent, mbit};
use crate::error::Result;

/// What was measured of a cell.
#[derive(Clone, Debug)]
pub struct Measured {
    pub cell: PathPoint,
    measurement: Measurement,
    rates: BTreeMap<Relaying, Vec<BitRate>>,
    failures: usize,
}

impl Measured {
    pub fn new(cell: PathPoint, measurement: &Measurement) -> Measured {
        Measured { cell, measurement: measurement.clone(), rates: BTreeMap::new(), failures: 0 }
    }

    pub fn add(&mut self, way: Relaying, result: Result<BitRate>) {
        match result {
            Ok(rate) => self.rates.entry(way).or_default().push(rate),
            Err(_) => self.failures += 1,
        }
    }

    pub fn failures(&self) -> usize {
        self.failures
    }

    /// The median, in bits per second.
    fn rate(&self, way: Relaying) -> Option<f64> {
        let mut rates: Vec<f64> =
            self.rates.get(&way)?.iter().map(|rate| rate.bits_per_sec() as f64).collect();
        rates.sort_by(f64::total_cmp);
        let (low, high) = (rates.get((rates.len() - 1) / 2)?, rates.get(rates.len() / 2)?);
        Some((low + high) / 2.0)
    }

    /// How many times as fast as directly.
    fn gain(&self, way: Relaying) -> Option<f64> {
        Some(self.rate(way)? / self.rate(Relaying::Direct)?)
    }

    fn forecast(&self, way: Relaying) -> Option<f64> {
        Some(self.measurement.forecast(self.cell, way.relays())?.bits_per_sec() as f64)
    }

    fn forecast_gain(&self, way: Relaying) -> Option<f64> {
        Some(self.forecast(way)? / self.forecast(Relaying::Direct)?)
    }

    /// The share of the links' rate that the payload takes.
    fn share(&self, way: Relaying) -> Option<f64> {
        Some(self.rate(way)? / (self.cell.kbit * 1_000) as f64)
    }
}

/// The table: measured, and in brackets what the planner expects.
pub fn table(measured: &[Measured]) -> Table {
    let mut table = Table::new([
        Column::right("round trip"),
        Column::right("rate"),
        Column::right("loss"),
        Column::right("direct").unit("(forecast)"),
        Column::right("one relay").unit("(forecast)"),
        Column::right("gain").unit("(forecast)"),
        Column::right("two relays").unit("(forecast)"),
        Column::right("gain").unit("(forecast)"),
        Column::right("of the rate"),
        Column::right("waiting relay").unit("gain"),
        Column::right("netcat").unit("gain"),
        Column::right("two netcats").unit("gain"),
    ]);
    let rate = |value: Option<f64>| value.map_or("–".into(), |value| Unit::BitsPerSecond.format(value));
    let times = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.2}"));
    for one in measured {
        let both = |way| format!("{} ({})", rate(one.rate(way)), rate(one.forecast(way)));
        let gains = |way| format!("{} × ({})", times(one.gain(way)), times(one.forecast_gain(way)));
        table.row([
            format!("{} ms", one.cell.rtt_ms),
            format!("{} Mbit/s", mbit(one.cell)),
            format!("{} %", loss_percent(one.cell)),
            both(Relaying::Direct),
            both(Relaying::OneRelay),
            gains(Relaying::OneRelay),
            both(Relaying::TwoRelays),
            gains(Relaying::TwoRelays),
            one.share(Relaying::TwoRelays).map_or("–".into(), |share| format!("{:.0} %", share * 100.0)),
            format!("{} ×", times(one.gain(Relaying::Waiting))),
            format!("{} ×", times(one.gain(Relaying::Netcat))),
            format!("{} ×", times(one.gain(Relaying::TwoNetcats))),
        ]);
    }
    table
}

/// What a person would say.
pub fn sentences(measured: &[Measured]) -> Vec<String> {
    let errors = |way| {
        let mut errors: Vec<f64> = measured
            .iter()
            .filter_map(|one| Some((one.forecast(way)? / one.rate(way)? - 1.0).abs()))
            .collect();
        errors.sort_by(f64::total_cmp);
        errors.get(errors.len() / 2).copied()
    };
    let mut said = Vec::new();
    let forecasts = [Relaying::Direct, Relaying::OneRelay, Relaying::TwoRelays];
    let parts: Vec<String> = forecasts
        .into_iter()
        .filter_map(|way| Some(format!("{:.0} % {}", errors(way)? * 100.0, way.name())))
        .collect();
    if !parts.is_empty() {
        said.push(format!("The planner's forecast is off by, in the median: {}.", parts.join(", ")));
    }
    let compared = [
        (Relaying::OneRelay, "Our relay was", Relaying::Netcat, "as fast as netcat"),
        (Relaying::TwoRelays, "Two of ours were", Relaying::TwoNetcats, "as fast as two netcats"),
        (Relaying::Waiting, "A relay that waits was", Relaying::OneRelay, "as fast as one that does not"),
    ];
    for (way, subject, other, compared) in compared {
        let mut ahead: Vec<f64> =
            measured.iter().filter_map(|one| Some(one.rate(way)? / one.rate(other)?)).collect();
        ahead.sort_by(f64::total_cmp);
        if let (Some(least), Some(median), Some(most)) =
            (ahead.first(), ahead.get(ahead.len() / 2), ahead.last())
        {
            said.push(format!(
                "{subject} {median:.2} times {compared} in the median cell, {least:.2} in the worst, {most:.2} in the best."
            ));
        }
    }
    said
}

pub fn json(measured: &[Measured], manifest: &Manifest) -> Value {
    let cells: Vec<Value> = measured
        .iter()
        .map(|one| {
            let of = |way: Relaying| {
                json!({ "bit_s": one.rate(way), "gain": one.gain(way), "share": one.share(way),
                        "forecast_bit_s": one.forecast(way), "runs": one.rates.get(&way).map(Vec::len) })
            };
            json!({
                "rtt_ms": one.cell.rtt_ms, "mbit_s": mbit(one.cell), "loss_percent": loss_percent(one.cell),
                "bytes": one.measurement.size(one.cell).0, "congestion": one.measurement.congestion,
                "direct": of(Relaying::Direct), "one_relay": of(Relaying::OneRelay),
                "two_relays": of(Relaying::TwoRelays), "waiting": of(Relaying::Waiting),
                "netcat": of(Relaying::Netcat), "two_netcats": of(Relaying::TwoNetcats),
            })
        })
        .collect();
    let manifest: Value = serde_json::from_str(&manifest.to_json()).unwrap_or_default();
    json!({ "manifest": manifest, "cells": cells })
}

pub fn csv(measured: &[Measured], manifest: &Manifest) -> Result<Csv, ReportError> {
    let mut csv =
        Csv::new(manifest, &["rtt_ms", "mbit_s", "loss_percent", "way", "run", "bit_s", "forecast_bit_s"]);
    for one in measured {
        for (way, rates) in &one.rates {
            for (run, rate) in rates.iter().enumerate() {
                csv.row([
                    Field::from(one.cell.rtt_ms as f64),
                    Field::from(mbit(one.cell) as f64),
                    Field::from(loss_percent(one.cell)),
                    Field::from(way.name()),
                    Field::from(run as f64),
                    Field::from(rate.bits_per_sec() as f64),
                    Field::from(one.forecast(*way).unwrap_or(f64::NAN)),
                ])?;
            }
        }
    }
    Ok(csv)
}

/// Gains of every cell, measured as bars, forecast as dots; a panel for each round trip.
pub fn figure(measured: &[Measured], congestion: &str) -> Figure {
    let mut trips: Vec<u64> = measured.iter().map(|one| one.cell.rtt_ms).collect();
    trips.sort_unstable();
    trips.dedup();
    let mut figure = Figure::new(&format!("What relays gain, live: kernel TCP with {congestion}"))
        .subtitle("Bars: measured, medians. Dots: what the planner expects.")
        .caption(
            "The path and its loss are shared by the legs; every queue holds one bandwidth-delay product of its \
             leg. Below each group: the links' rate in Mbit/s, and the loss of the whole path.",
        )
        .columns(1)
        .panel_height(84.0);
    for trip in trips {
        let mut cells: Vec<&Measured> = measured.iter().filter(|one| one.cell.rtt_ms == trip).collect();
        cells.sort_by(|a, b| {
            a.cell.kbit.cmp(&b.cell.kbit).then(a.cell.loss_per_100k.cmp(&b.cell.loss_per_100k))
        });
        let names = cells.iter().map(|one| format!("{}, {} %", mbit(one.cell), loss_percent(one.cell)));
        let mut panel = Panel::new(&format!("round trip {trip} ms"))
            .y(Axis::new("gain", Unit::Times).from(0.0))
            .x(Axis::categories("", names))
            .reference("direct", 1.0);
        let ways = [
            (Relaying::OneRelay, Hue::Blue),
            (Relaying::TwoRelays, Hue::Green),
            (Relaying::Netcat, Hue::Orange),
        ];
        for (way, hue) in ways {
            let points = cells.iter().enumerate().filter_map(|(i, one)| {
                let gain = one.gain(way)?;
                let point = Point::new(i as f64, gain);
                Some(if way == Relaying::Netcat { point } else { point.text(format!("{gain:.1}")) })
            });
            panel = panel.series(Series::bars(way.name(), hue).points(points));
        }
        for (way, place) in [(Relaying::OneRelay, -0.27), (Relaying::TwoRelays, 0.0)] {
            let points = cells
                .iter()
                .enumerate()
                .filter_map(|(i, one)| Some(Point::new(i as f64 + place, one.forecast_gain(way)?)));
            panel = panel.series(Series::dots("forecast", Hue::Black).points(points));
        }
        figure = figure.panel(panel);
    }
    figure
}
