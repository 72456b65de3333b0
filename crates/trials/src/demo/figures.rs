//! Two figures: an overview for the README, and every transfer.
use crate::direct_or_split::DirectOrSplit;
use shorthaul_report::Unit;
use shorthaul_report::plot::{Axis, Figure, Hue, Panel, Point, Series, Share};
use shorthaul_types::Bytes;

use super::live::INTERVAL;
use super::outcome::Pair;
use super::phone::{self, Phone};
use super::plan::{Congestion, Transfer};

/// The congestion control whose course over time stands in the overview: Linux's own default.
const SHOWN: Congestion = Congestion::Cubic;

/// Page times and queueing delay of a phone that downloads an update.
pub fn phone(phones: &[Phone]) -> Figure {
    let figure = Figure::new("A phone on 5G loads pages while it downloads an update")
        .subtitle("Kernel TCP at both ends, an emulated link of 100 Mbit/s, and for half a second of four only 8.")
        .caption(
            "Above: the share of the pages, of 200 kB each over a connection of its own, that were there after a time. Below: what a packet \
             toward the phone waits in the link's queue. The gateway runs with nothing but its interfaces and an aggregate that finds its \
             window itself.",
        )
        .columns(phones.len())
        .panel_height(110.0)
        .share_x(Share::Row);
    phone::panels(phones).into_iter().flatten().fold(figure, Figure::panel)
}

/// Gains as bars; throughput and queueing delay over time for one congestion control.
pub fn overview(pairs: &[Pair]) -> Figure {
    let paths = by_path(pairs);
    let shown = paths.iter().flat_map(|path| path.iter()).map(|pair| pair.congestion);
    let shown = if shown.clone().any(|c| c == SHOWN) { SHOWN } else { shown.min().unwrap_or(SHOWN) };
    let mut figure = Figure::new("One TCP connection across a bad path, direct and split by a gateway")
        .subtitle(
            "Kernel TCP at both ends, emulated links. Above the bars: how many times as fast the split transfer was.",
        )
        .caption(&format!(
            "{} Each transfer lasts from the SYN to the last byte, and is verified at the far end. \
             Throughput and queueing delay over time are those of the long transfer with {}: what the program \
             received in the last twentieth of the time (at least two round trips and a dozen packets), in order, so that what \
             waits behind a lost packet comes at once; and what a packet toward the client waits in the links' \
             queues. The gateway sends with the congestion control of the ends.",
            of_repeats(pairs),
            shown.name(),
        ))
        .columns(paths.len())
        .panel_height(88.0);
    for path in &paths {
        figure = figure.panel(bars(path, Transfer::Long, path[0].title));
    }
    for path in &paths {
        figure = figure.panel(bars(path, Transfer::Short, ""));
    }
    for path in &paths {
        figure = figure.panel(throughput(path, shown, ""));
    }
    for path in &paths {
        figure = figure.panel(queueing(path, shown, ""));
    }
    figure
}

/// Throughput and queueing delay over time of every long transfer.
pub fn details(pairs: &[Pair]) -> Figure {
    let paths = by_path(pairs);
    let mut controls: Vec<Congestion> = pairs.iter().map(|pair| pair.congestion).collect();
    controls.sort();
    controls.dedup();
    let mut figure = Figure::new("Every long transfer over time, direct and split")
        .subtitle("Kernel TCP at both ends, emulated links")
        .columns(paths.len())
        .panel_height(72.0)
        .share_x(Share::Column);
    for congestion in controls {
        for path in &paths {
            let title = format!("{}: {}", path[0].title, congestion.name());
            figure = figure.panel(throughput(path, congestion, &title));
        }
        for path in &paths {
            figure = figure.panel(queueing(path, congestion, ""));
        }
    }
    figure
}

/// The pairs of each path, in the order in which the paths come.
fn by_path(pairs: &[Pair]) -> Vec<&[Pair]> {
    pairs.chunk_by(|a, b| a.path == b.path).collect()
}

pub fn series(way: DirectOrSplit, make: fn(&str, Hue) -> Series) -> Series {
    match way {
        // Orange and blue also differ in brightness, for those who print in grey.
        DirectOrSplit::Direct => make("direct", Hue::Orange),
        DirectOrSplit::Split => make("split", Hue::Blue),
    }
}

fn bars(path: &[Pair], transfer: Transfer, title: &str) -> Panel {
    let pairs: Vec<&Pair> = path.iter().filter(|pair| pair.transfer == transfer).collect();
    let size = Bytes(pairs.first().map_or(0, |pair| pair.direct.asked));
    let about = format!("{} transfer, {size}", transfer.name());
    let y = match transfer {
        Transfer::Long => Axis::new("goodput", Unit::BitsPerSecond),
        Transfer::Short => Axis::new("time to finish", Unit::Seconds),
    };
    let mut panel =
        Panel::new(title).y(y).x(Axis::categories(&about, pairs.iter().map(|p| p.congestion.name())));
    for way in DirectOrSplit::ALL {
        let points = pairs.iter().enumerate().map(|(i, pair)| {
            let outcome = pair.way(way);
            let y = match transfer {
                _ if outcome.failure.is_some() => f64::NAN,
                Transfer::Long => outcome.goodput(),
                Transfer::Short => outcome.seconds,
            };
            let which = usize::from(way == DirectOrSplit::Split);
            let ends = pair.spread(|run| match transfer {
                Transfer::Long => Some(run.goodput[which]),
                Transfer::Short => Some(run.seconds[which]),
            });
            let point = match ends {
                Some([least, most]) => Point::new(i as f64, y).within(least, most),
                None => Point::new(i as f64, y),
            };
            match pair.trusted_gain() {
                Some(gain) if way == DirectOrSplit::Split => point.text(times(gain)),
                _ => point,
            }
        });
        panel = panel.series(series(way, Series::bars).points(points));
    }
    panel
}

fn long(path: &[Pair], congestion: Congestion) -> Option<&Pair> {
    path.iter().find(|pair| pair.congestion == congestion && pair.transfer == Transfer::Long)
}

/// The end of the time axis: that of the transfer that took longer.
fn span(pair: &Pair) -> f64 {
    pair.direct.seconds.max(pair.split.seconds).max(0.1)
}

fn throughput(path: &[Pair], congestion: Congestion, title: &str) -> Panel {
    let mut panel = Panel::new(title)
        .x(Axis::new("time", Unit::Seconds).from(0.0))
        .y(Axis::new("throughput", Unit::BitsPerSecond));
    let Some(pair) = long(path, congestion) else { return panel };
    panel = panel.reference("link", pair.facts.rate_bit_per_s);
    // Over less than a dozen packets or two round trips, single bursts are all that is seen.
    let packets = 12.0 * PACKET_BITS / pair.facts.rate_bit_per_s;
    let window = (span(pair) / 20.0).max(2.0 * pair.facts.round_trip_s).max(packets);
    let mut above = None;
    for way in DirectOrSplit::ALL {
        let outcome = pair.way(way);
        let mut rates = outcome.throughput(window, (span(pair) / 300.0).max(INTERVAL.as_secs_f64()));
        if rates.iter().any(|(_, rate)| *rate > NOTABLY_ABOVE * pair.facts.rate_bit_per_s) {
            above = above.max(Some(outcome.lost + outcome.overflowed > 0));
        }
        // Down to nothing: a transfer that has ended is seen to have ended.
        rates.push((outcome.seconds, 0.0));
        panel = panel.series(series(way, Series::line).points(rates));
    }
    match above {
        None => panel,
        Some(true) => {
            panel.note("Above the link: what waited behind a lost packet comes to the program at once.")
        }
        Some(false) => panel.note(&format!(
            "Above the link: {:.0} packets are averaged over, and one more or less is seen.",
            window * pair.facts.rate_bit_per_s / PACKET_BITS
        )),
    }
}

/// What repeats there were, in a sentence.
fn of_repeats(pairs: &[Pair]) -> String {
    match pairs.iter().map(|pair| pair.runs.len()).max() {
        None | Some(0 | 1) => "Each bar and line is one transfer.".to_owned(),
        Some(runs) => format!(
            "Each bar is the middle one of {runs} transfers by its gain, with whiskers from the least to the most of them; each line is that transfer."
        ),
    }
}

/// A gain beside bars: with so many digits that bars that differ to the eye differ in words.
fn times(gain: f64) -> String {
    if gain < 1.95 { format!("{gain:.2} ×") } else { format!("{gain:.1} ×") }
}

/// What is further above the link's rate than this asks for an explanation.
const NOTABLY_ABOVE: f64 = 1.05;
/// A full packet on the link.
const PACKET_BITS: f64 = 12_000.0;

fn queueing(path: &[Pair], congestion: Congestion, title: &str) -> Panel {
    let mut panel = Panel::new(title)
        .x(Axis::new("time", Unit::Seconds).from(0.0))
        .y(Axis::new("queueing delay", Unit::Seconds));
    let Some(pair) = long(path, congestion) else { return panel };
    for way in DirectOrSplit::ALL {
        let samples = pair.way(way).queueing.iter().map(|q| (q.seconds, q.delay_s));
        panel = panel.series(series(way, Series::line).points(samples));
    }
    panel
}

#[cfg(test)]
pub mod tests {
    use super::super::facts::PathFacts;
    use super::super::outcome::{Outcome, Queueing, Received};
    use super::*;
    use shorthaul_report::Manifest;

    /// Results such as a run may have, for looking at tables and figures.
    pub fn invented() -> Vec<Pair> {
        let paths = [
            ("gprs", "GPRS", 33.2e3, 1.2, 12e3, 100e3),
            ("halfway", "Half-way, 128 ms", 32e6, 0.128, 100e3, 8e6),
            ("geo", "GEO, 600 ms", 10e6, 0.6, 100e3, 5e6),
        ];
        let mut pairs = Vec::new();
        for (path, title, rate, trip, short, long) in paths {
            for (c, congestion) in Congestion::ALL.into_iter().enumerate() {
                for transfer in Transfer::ALL {
                    let size = if transfer == Transfer::Short { short } else { long };
                    let run = |share: f64, ramp: f64, queue: f64| {
                        let mut outcome =
                            Outcome { asked: size as u64, verified: true, ..Outcome::default() };
                        let (mut t, mut bytes) = (trip, 0.0);
                        while bytes < size {
                            t += 0.05;
                            let grown = 1.0 - (-(t - trip) / ramp).exp();
                            bytes = (bytes + rate * share * grown * 0.05 / 8.0).min(size);
                            outcome.received.push(Received { seconds: t, bytes: bytes as u64 });
                            let delay_s = queue * grown * (0.8 + 0.2 * (t * 3.0).sin());
                            outcome.queueing.push(Queueing { seconds: t, delay_s });
                        }
                        Outcome { bytes: size as u64, seconds: t, ..outcome }
                    };
                    let (direct, split) =
                        (run(0.2 + 0.3 * c as f64, 4.0 * trip, 0.3), run(0.9, 2.0 * trip, 0.1));
                    let half = trip / 2.0;
                    let facts = PathFacts {
                        rate_bit_per_s: rate,
                        round_trip_s: trip,
                        access_round_trip_s: half,
                        wan_round_trip_s: half,
                        initial_window: 10,
                        loss: 0.0,
                    };
                    let runs = Vec::new();
                    pairs.push(Pair { path, title, facts, congestion, transfer, direct, split, runs });
                }
            }
        }
        pairs
    }

    #[test]
    fn the_overview_names_every_path_and_gain() {
        let svg = overview(&invented()).to_svg(&Manifest::new("shorthaul", "0"));
        for wanted in
            ["GPRS", "GEO, 600 ms", "goodput (Mbit/s)", "queueing delay (ms)", "long transfer, 8 MB", "bbr"]
        {
            assert!(svg.contains(&format!("aria-label=\"{wanted}\"")), "{wanted}");
        }
        assert_eq!(svg.matches(" ×\"").count(), 18);
    }

    #[test]
    fn bars_that_differ_have_gains_that_differ() {
        assert_eq!([1.0, 1.03, 1.94, 2.38].map(times), ["1.00 ×", "1.03 ×", "1.94 ×", "2.4 ×"]);
    }

    #[test]
    fn what_is_above_the_link_is_explained_beside_it() {
        let mut pairs: Vec<Pair> = invented().into_iter().filter(|pair| pair.path == "geo").collect();
        let svg = |pairs: &[Pair]| overview(pairs).to_svg(&Manifest::new("shorthaul", "0"));
        assert!(!svg(&pairs).contains("Above the link"));
        for pair in &mut pairs {
            // All of it comes in the last tenth of the time.
            let late = 0.9 * pair.split.seconds;
            pair.split.received.iter_mut().filter(|r| r.seconds < late).for_each(|r| r.bytes = 0);
        }
        assert!(svg(&pairs).contains("packets are averaged over"));
        pairs.iter_mut().for_each(|pair| pair.split.lost = 1);
        assert!(svg(&pairs).contains("what waited behind a lost packet"));
    }

    #[test]
    fn one_path_with_a_failure_still_makes_figures() {
        let mut pairs: Vec<Pair> = invented().into_iter().filter(|pair| pair.path == "geo").collect();
        pairs[3].split = Outcome { failure: Some("refused".to_string()), asked: 1, ..Outcome::default() };
        for figure in [overview(&pairs), details(&pairs)] {
            assert!(figure.to_svg(&Manifest::new("shorthaul", "0")).contains("GEO, 600 ms"));
        }
    }
}
