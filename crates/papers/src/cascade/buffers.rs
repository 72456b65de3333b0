//! Drought and overflow of one relay, by where it stands and what it may hold: measured, beside the planner's model.
use super::cell::{PathPoint, with_queue};
use super::matrix::SEED;
use crate::error::Result;
use serde::Serialize;
use shorthaul_observe::{Ledger, Summary};
use shorthaul_planner::chain::{Chain, Ends};
use shorthaul_planner::{Path, Relay, model};
use shorthaul_report::plot::{Axis, Dash, Figure, Hue, Mark, Panel, Point, Series, Share};
use shorthaul_report::{Console, Unit};
use shorthaul_scenario::Metric;
use shorthaul_sim::measured;
use shorthaul_types::Bytes;

/// The cell of which the paper states most.
const CELL: PathPoint = PathPoint { rtt_ms: 64, kbit: 32_000, loss_per_100k: 100, relays: 1 };
/// Shares of the round trip, and of the loss, that the first leg has.
const PLACES: [f64; 7] = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8];
/// What the relay may hold: one bandwidth-delay product of the whole way, and as much as there is.
const BUFFERS: [(&str, Option<Bytes>); 2] = [("256 kB", Some(Bytes(256_000))), ("ample", None)];

/// What became of the relay's buffer at one place: shares of the time, 0 to 1.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Buffered {
    /// The share of the way that lies before the relay.
    pub place: f64,
    /// What it may hold.
    pub buffer: &'static str,
    /// Measured: the mean, and half of its 95 % confidence interval.
    pub drought: (f64, Option<f64>),
    pub overflow: (f64, Option<f64>),
    /// By the planner's fluid model.
    pub model_drought: f64,
    pub model_overflow: f64,
}

fn chain(ends: Ends, place: f64, buffer: Option<Bytes>) -> Chain {
    let legs = [place, 1.0 - place].map(|part| with_queue(CELL.long_haul().share(part)));
    let path = Path { legs: legs.to_vec(), relays: vec![Relay { buffer }] };
    Chain { path, ..CELL.chain(ends) }
}

/// The scenario of a chain that measures this.
fn scenario(chain: &Chain, metric: Metric) -> String {
    format!("{}metrics = [\"{metric}\"]\n", chain.scenario_without_metrics())
}

/// Simulates and forecasts them.
pub(super) fn run(ends: Ends, repeats: u64, ledger: &Ledger, console: &dyn Console) -> Result<Vec<Buffered>> {
    let all = || BUFFERS.into_iter().flat_map(|buffer| PLACES.into_iter().map(move |place| (buffer, place)));
    let jobs = all().flat_map(|((_, buffer), place)| {
        let chain = chain(ends, place, buffer);
        [Metric::Drought, Metric::Overflow].into_iter().flat_map(move |metric| {
            let text = scenario(&chain, metric);
            (SEED..SEED + repeats).map(move |seed| (text.clone(), seed))
        })
    });
    ledger.fill(jobs.collect::<Vec<_>>(), measured, console)?;
    let model = model::by_name(ends.model)?;
    all()
        .map(|((name, buffer), place)| {
            let chain = chain(ends, place, buffer);
            let seen = |metric| -> Result<(f64, Option<f64>)> {
                let shares = ledger.all(&scenario(&chain, metric), SEED, repeats)?;
                let summary = Summary::of(shares.into_iter().map(|percent| percent / 100.0));
                Ok(summary.map_or((0.0, None), |summary| (summary.mean, summary.confidence())))
            };
            let forecast = chain.path.forecast(&*model, &chain.transfer)?;
            let relay = forecast.relays.first();
            Ok(Buffered {
                place,
                buffer: name,
                drought: seen(Metric::Drought)?,
                overflow: seen(Metric::Overflow)?,
                model_drought: relay.map_or(0.0, |relay| relay.drought),
                model_overflow: relay.map_or(0.0, |relay| relay.overflow),
            })
        })
        .collect()
}

/// Both over the relay's place.
pub(super) fn figure(all: &[Buffered]) -> Figure {
    let panel = |buffer: &'static str| {
        let panel = Panel::new(buffer)
            .x(Axis::new("share of the way before the relay", Unit::Percent))
            .y(Axis::new("share of the time", Unit::Percent).from(0.0).to(1.0));
        let of_buffer: Vec<&Buffered> = all.iter().filter(|buffered| buffered.buffer == buffer).collect();
        type Of = (&'static str, fn(&Buffered) -> (f64, Option<f64>), fn(&Buffered) -> f64);
        let both: [Of; 2] = [
            ("drought", |buffered| buffered.drought, |buffered| buffered.model_drought),
            ("overflow", |buffered| buffered.overflow, |buffered| buffered.model_overflow),
        ];
        both.into_iter().enumerate().fold(panel, |panel, (number, (name, seen, model))| {
            let measured = of_buffer.iter().map(|buffered| {
                let (mean, half) = seen(buffered);
                let half = half.unwrap_or(0.0);
                Point::new(buffered.place, mean).within((mean - half).max(0.0), mean + half)
            });
            let modelled = of_buffer.iter().map(|buffered| (buffered.place, model(buffered)));
            let hue = Hue::nth(number);
            panel
                .series(Series::new(name, Mark::LineAndDots, hue).points(measured))
                .series(Series::line("", hue).dash(Dash::Dashed).points(modelled))
        })
    };
    Figure::new("Drought and overflow of one relay: 32 Mbit/s, 64 ms, 0.1 %")
        .panel(panel(BUFFERS[0].0))
        .panel(panel(BUFFERS[1].0))
        .columns(2)
        .share_y(Share::All)
        .panel_height(160.0)
        .caption(
            "Dots and solid lines: measured in the simulator, mean and 95 % confidence, from the first byte until the source ended. Dashed: the \
             planner's fluid model, as shares of throughput.",
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffered(place: f64, buffer: Option<Bytes>) -> (f64, f64) {
        let ends = super::super::cell::ends("reno", 1).unwrap();
        let chain = chain(ends, place, buffer);
        let small = Chain { transfer: shorthaul_planner::Transfer::new(Bytes(20_000_000)), ..chain };
        let share = |metric| measured(&scenario(&small, metric), 1).unwrap() / 100.0;
        (share(Metric::Drought), share(Metric::Overflow))
    }

    #[test]
    fn legs_have_their_part_of_the_way() {
        let ends = super::super::cell::ends("reno", 1).unwrap();
        let chain = chain(ends, 0.2, Some(Bytes(256_000)));
        let [first, second] = &chain.path.legs[..] else { panic!("two legs") };
        assert!((first.rtt.as_secs_f64() / second.rtt.as_secs_f64() - 0.25).abs() < 1e-6);
        assert!((first.loss / second.loss - 0.25).abs() < 1e-6);
        assert_eq!(chain.path.relays[0].buffer, Some(Bytes(256_000)));
    }

    #[test]
    fn a_relay_near_the_source_overflows_and_one_near_the_sink_runs_dry() {
        // A short first leg brings more than a long second one takes, and the other way round.
        let (dry_near, over_near) = buffered(0.2, Some(Bytes(256_000)));
        let (dry_far, over_far) = buffered(0.8, Some(Bytes(256_000)));
        assert!(dry_far > 0.3 && dry_near < 0.2, "{dry_near} {dry_far}");
        assert!(over_near > 0.3 && over_far < 0.05, "{over_near} {over_far}");
        assert!(buffered(0.2, None).1 < 0.01, "what is ample does not overflow");
    }
}
