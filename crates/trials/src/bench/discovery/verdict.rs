use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use shorthaul_report::plot::{Axis, Figure, Hue, Panel, Point, Series};
use shorthaul_report::{Column, Csv, Field, Manifest, ReportError, Table, Unit};
use shorthaul_types::{BitRate, Bytes, format_duration};

use super::path::{HOPS, Line};
use super::set_up::ContactKind;

/// Relays that differ by less than this share of throughput are equally good: so much do two transfers of one kind differ.
const EQUAL: f64 = 0.03;
/// How far a measured gain may be from its forecast.
const TOLERANCE: f64 = 0.2;

/// One random set of relays, and what came of it.
#[derive(Clone, Debug)]
pub struct Placement {
    pub offered: Vec<usize>,
    /// Relays that answered.
    pub found: usize,
    /// The hop that was chosen; `None` for direct.
    pub chosen: Option<usize>,
    pub forecast: BitRate,
    pub forecast_gain: f64,
    /// What the transfer had.
    pub rate: BitRate,
    /// The round trips that were found: direct; to and from each relay.
    pub seen: String,
}

/// A relay that was chosen, and the best of those offered beside it, once more.
#[derive(Clone, Debug)]
pub struct Recheck {
    /// Its hop; 0 for direct.
    pub chosen: usize,
    pub best: usize,
    /// Transfers by each, in turns.
    pub rates: [Vec<BitRate>; 2],
}

impl fmt::Display for Recheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = |rates: &[BitRate]| {
            let (least, most) = (rates.iter().min().copied(), rates.iter().max().copied());
            let range =
                least.zip(most).map_or(String::new(), |(least, most)| format!(" ({least} to {most})"));
            format!("{}{range}", Unit::BitsPerSecond.format(median(rates)))
        };
        let [chosen, best] = self.rates.each_ref().map(|rates| said(rates));
        let slower = 1.0 - median(&self.rates[0]) / median(&self.rates[1]);
        write!(
            f,
            "hop {} instead of {}: {chosen} instead of {best}, in turns: slower by {:.1} %",
            self.chosen,
            self.best,
            100.0 * slower
        )
    }
}

/// In bits per second.
fn median(rates: &[BitRate]) -> f64 {
    let mut rates: Vec<u64> = rates.iter().map(|rate| rate.bits_per_sec()).collect();
    rates.sort_unstable();
    rates.get(rates.len() / 2).copied().unwrap_or_default() as f64
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chosen = self.chosen.map_or("direct".into(), |hop| format!("hop {hop}"));
        write!(
            f,
            "offered {:?}, chosen {chosen}, {} (forecast {}); {}",
            self.offered, self.rate, self.forecast, self.seen
        )
    }
}

/// Everything that was measured.
pub struct Results {
    /// What receivers offered.
    window: Bytes,
    /// The round-trip time as probes find it.
    rtt: Duration,
    /// What the planner expects, by hop; hop 0 is the direct way.
    forecasts: Vec<Option<BitRate>>,
    /// By hop; hop 0 is the direct way.
    pub truth: Vec<Vec<BitRate>>,
    pub placements: Vec<Placement>,
    /// What mistakes cost.
    pub rechecks: Vec<Recheck>,
    pub set_ups: Vec<(ContactKind, Duration)>,
}

impl Results {
    pub fn new(line: &Line, forecasts: Vec<Option<BitRate>>) -> Self {
        let truth = vec![Vec::new(); HOPS];
        Results {
            window: line.window,
            rtt: line.rtt,
            forecasts,
            truth,
            placements: Vec::new(),
            rechecks: Vec::new(),
            set_ups: Vec::new(),
        }
    }

    /// The median throughput by way of a hop, in bits per second.
    fn rate(&self, hop: usize) -> f64 {
        median(&self.truth[hop])
    }

    /// The best of what is offered, direct included.
    fn best(&self, placement: &Placement) -> usize {
        let hops = placement.offered.iter().copied();
        hops.fold(0, |best, hop| if self.rate(hop) > self.rate(best) { hop } else { best })
    }

    /// What was chosen, and what would have been best, where that was not chosen: each pair once.
    pub fn mistakes(&self) -> Vec<(usize, usize)> {
        let wrong = self.placements.iter().filter(|placement| !self.is_best(placement));
        let mut pairs: Vec<_> =
            wrong.map(|placement| (placement.chosen.unwrap_or(0), self.best(placement))).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// Whether no relay that was offered is clearly better than the one that was chosen.
    fn is_best(&self, placement: &Placement) -> bool {
        self.rate(placement.chosen.unwrap_or(0)) >= (1.0 - EQUAL) * self.rate(self.best(placement))
    }

    /// How many times as fast as direct a placement's transfer was.
    fn gain(&self, placement: &Placement) -> f64 {
        placement.rate.bits_per_sec() as f64 / self.rate(0)
    }

    /// Whether the gain is what was forecast, within the tolerance.
    fn is_as_forecast(&self, placement: &Placement) -> bool {
        (self.gain(placement) / placement.forecast_gain - 1.0).abs() <= TOLERANCE
    }

    fn count(&self, holds: impl Fn(&Self, &Placement) -> bool) -> usize {
        self.placements.iter().filter(|placement| holds(self, placement)).count()
    }

    /// Errors of the forecast gains, sorted: the greatest is the last.
    fn errors(&self) -> Vec<f64> {
        let error = |placement: &Placement| (self.gain(placement) / placement.forecast_gain - 1.0).abs();
        let mut errors: Vec<f64> = self.placements.iter().map(error).collect();
        errors.sort_by(f64::total_cmp);
        errors
    }

    fn round_trips(&self, time: Duration) -> f64 {
        time.as_secs_f64() / self.rtt.as_secs_f64()
    }

    pub fn truth_table(&self) -> Table {
        let mut table = Table::new([
            Column::right("hop"),
            Column::right("throughput").unit("median"),
            Column::right("gain"),
            Column::right("forecast"),
            Column::right("gain").unit("forecast"),
            Column::right("offered").unit("placements"),
            Column::right("chosen"),
        ]);
        let forecasts: Vec<f64> = (0..HOPS).map(|hop| self.forecast(hop)).collect();
        for hop in 0..HOPS {
            let offered = self.placements.iter().filter(|p| p.offered.contains(&hop)).count();
            let chosen = self.placements.iter().filter(|p| p.chosen.unwrap_or(0) == hop).count();
            table.row([
                if hop == 0 { "direct".into() } else { hop.to_string() },
                Unit::BitsPerSecond.format(self.rate(hop)),
                format!("{:.2}", self.rate(hop) / self.rate(0)),
                Unit::BitsPerSecond.format(forecasts[hop]),
                format!("{:.2}", forecasts[hop] / forecasts[0]),
                if hop == 0 { self.placements.len() } else { offered }.to_string(),
                chosen.to_string(),
            ]);
        }
        table
    }

    fn forecast(&self, hop: usize) -> f64 {
        self.forecasts[hop].map_or(f64::NAN, |rate| rate.bits_per_sec() as f64)
    }

    pub fn set_up_table(&self) -> Table {
        let mut table = Table::new([
            Column::left("set-up"),
            Column::right("first byte there").unit("median"),
            Column::right("round trips"),
            Column::right("the paper").unit("round trips"),
            Column::left("its formula"),
        ]);
        for (way, took) in &self.set_ups {
            let stated = way.stated();
            table.row([
                way.name().to_owned(),
                format_duration(*took),
                format!("{:.2}", self.round_trips(*took)),
                stated.map_or("–".into(), |(trips, _)| format!("{trips:.2}")),
                stated.map_or_else(String::new, |(_, formula)| formula.to_owned()),
            ]);
        }
        table
    }

    pub fn sentences(&self) -> Vec<String> {
        let all = self.placements.len();
        let errors = self.errors();
        let percent =
            |value: Option<&f64>| value.map_or("–".into(), |value| format!("{:.0} %", 100.0 * value));
        let mut sentences = vec![
            format!(
                "The best of the relays that were offered (within {:.0} %) was chosen in {} of {all} placements.",
                100.0 * EQUAL,
                self.count(Self::is_best)
            ),
            format!(
                "The gain over direct was within {:.0} % of the forecast in {} of {all}; off by {} in the median and {} \
                 at most.",
                100.0 * TOLERANCE,
                self.count(Self::is_as_forecast),
                percent(errors.get(errors.len() / 2)),
                percent(errors.last()),
            ),
        ];
        sentences.extend(self.rechecks.iter().map(ToString::to_string));
        sentences
    }

    pub fn csv(&self, manifest: &Manifest) -> Result<Csv, ReportError> {
        let columns = [
            "offered",
            "found",
            "chosen",
            "bit_s",
            "gain",
            "forecast_bit_s",
            "forecast_gain",
            "best",
            "seen",
        ];
        let mut csv = Csv::new(manifest, &columns);
        for placement in &self.placements {
            let offered: Vec<String> = placement.offered.iter().map(ToString::to_string).collect();
            csv.row([
                Field::from(offered.join(" ").as_str()),
                Field::from(placement.found as f64),
                Field::from(placement.chosen.unwrap_or(0) as f64),
                Field::from(placement.rate.bits_per_sec() as f64),
                Field::from(self.gain(placement)),
                Field::from(placement.forecast.bits_per_sec() as f64),
                Field::from(placement.forecast_gain),
                Field::from(f64::from(u8::from(self.is_best(placement)))),
                Field::from(placement.seen.as_str()),
            ])?;
        }
        Ok(csv)
    }

    /// Figure 5: throughput against the place of the relay.
    pub fn figure(&self) -> Figure {
        let measured = (0..HOPS).map(|hop| Point::new(hop as f64, self.rate(hop)));
        let forecasts = (0..HOPS).map(|hop| Point::new(hop as f64, self.forecast(hop)));
        let chosen = self.placements.iter().map(|placement| {
            Point::new(placement.chosen.unwrap_or(0) as f64, placement.rate.bits_per_sec() as f64)
        });
        let names = (0..HOPS).map(|hop| if hop == 0 { "direct".to_owned() } else { hop.to_string() });
        let panel = Panel::new("")
            .x(Axis::categories("hop of the relay", names))
            .y(Axis::new("throughput", Unit::BitsPerSecond).from(0.0))
            .series(Series::line("forecast", Hue::Black).points(forecasts))
            .series(Series::line("measured, medians", Hue::Blue).points(measured))
            .series(Series::dots("transfers by the relay that was chosen", Hue::Orange).points(chosen));
        Figure::new("Figure 5 live: kernel reno over eight hops")
            .subtitle(&format!(
                "10 Mbit/s and 5 ms each, windows of {}; relays chosen by discovery",
                self.window
            ))
            .caption("Throughput from the first SYN to the last byte.")
            .columns(1)
            .panel_height(120.0)
            .panel(panel)
    }

    pub fn json(&self, manifest: &Manifest) -> Value {
        let manifest: Value = serde_json::from_str(&manifest.to_json()).unwrap_or_default();
        let hops: Vec<Value> = (0..HOPS)
            .map(|hop| json!({ "hop": hop, "bit_s": self.rate(hop), "forecast_bit_s": self.forecast(hop) }))
            .collect();
        let set_ups: Vec<Value> = self
            .set_ups
            .iter()
            .map(|(way, took)| json!({ "way": way.name(), "seconds": took.as_secs_f64(), "round_trips": self.round_trips(*took) }))
            .collect();
        json!({
            "manifest": manifest,
            "window": self.window.0,
            "rtt": self.rtt.as_secs_f64(),
            "hops": hops,
            "placements": self.placements.len(),
            "best_chosen": self.count(Self::is_best),
            "gain_as_forecast": self.count(Self::is_as_forecast),
            "median_error": self.errors().get(self.placements.len() / 2),
            "greatest_error": self.errors().last(),
            "rechecks": self.rechecks.iter().map(|recheck| json!({
                "chosen": recheck.chosen,
                "best": recheck.best,
                "chosen_bit_s": median(&recheck.rates[0]),
                "best_bit_s": median(&recheck.rates[1]),
            })).collect::<Vec<_>>(),
            "set_ups": set_ups,
        })
    }
}
