use super::cell::{KBITS, LOSSES_PER_100K, PathPoint, RTTS_MS};
use super::live::Live;
use super::matrix::{Matrix, Measured};
use shorthaul_planner::{Framing, kalim};
use shorthaul_report::Unit;
use shorthaul_report::plot::{Axis, Dash, Figure, Hue, Marker, Panel, Point, Series, Share};

/// The losses of Figure 3: 0 to 1 %.
pub(super) const LOSSES_OF_FIGURE_3: [u64; 4] = [0, 10, 100, 1_000];

/// Dots are simulated, with 95 % confidence; dashed lines are the model's.
const CAPTION: &str = "Dots and solid lines: simulation, mean and 95 % confidence. Dashed: the planner's model. Diamonds: live, medians.";

/// File names and figures.
pub(super) fn all(matrix: &Matrix, live: &Live) -> Vec<(&'static str, Figure)> {
    vec![
        ("figure-2a", utilization(matrix, live)),
        ("figure-2b", gain(matrix, live)),
        ("figure-3", relays(matrix, live)),
        ("figure-4", against_mathis(matrix)),
        ("figure-5", at_128_mbit(matrix)),
    ]
}

/// Link rates of Figure 2.
fn rates_of_figure_2() -> impl Iterator<Item = u64> {
    KBITS.into_iter().filter(|kbit| (4_000..=128_000).contains(kbit))
}

fn label(kbit: u64) -> String {
    format!("{} Mbit/s", kbit as f64 / 1e3)
}

fn seconds(rtt_ms: u64) -> f64 {
    rtt_ms as f64 / 1e3
}

fn rtt_axis() -> Axis {
    Axis::new("round-trip time", Unit::Seconds).logarithmic()
}

/// Simulated values with their confidence, and the model's, for some cells.
fn both(
    panel: Panel,
    label: &str,
    hue: Hue,
    cells: &[&Measured],
    x: impl Fn(&Measured) -> f64,
    y: impl Fn(&Measured) -> (f64, f64, f64),
) -> Panel {
    let simulated = cells.iter().map(|cell| {
        let (value, half, _) = y(cell);
        Point::new(x(cell), value).within(value - half, value + half)
    });
    let model = cells.iter().map(|cell| (x(cell), y(cell).2));
    panel
        .series(Series::new(label, shorthaul_report::plot::Mark::LineAndDots, hue).points(simulated))
        .series(Series::line("", hue).dash(Dash::Dashed).points(model))
}

/// What was measured live, if anything was.
fn crosses(panel: Panel, hue: Hue, points: impl Iterator<Item = (f64, f64)>) -> Panel {
    let points: Vec<(f64, f64)> = points.collect();
    if points.is_empty() {
        panel
    } else {
        panel.series(Series::dots("", hue).marker(Marker::Diamond).points(points))
    }
}

fn by_utilization(cell: &Measured) -> (f64, f64, f64) {
    (cell.utilization(), cell.utilization_confidence(), cell.forecast_utilization())
}

fn by_throughput(cell: &Measured) -> (f64, f64, f64) {
    (cell.throughput, cell.confidence.unwrap_or(0.0), cell.forecast)
}

/// The cells of one link rate and loss, by round trip.
fn along_rtt(matrix: &Matrix, kbit: u64, loss_per_100k: u64, relays: usize) -> Vec<&Measured> {
    let cell = |rtt_ms| matrix.get(PathPoint { rtt_ms, kbit, loss_per_100k, relays });
    RTTS_MS.into_iter().filter_map(cell).collect()
}

fn utilization(matrix: &Matrix, live: &Live) -> Figure {
    let panel = |title: &str, relays| {
        let panel =
            Panel::new(title).x(rtt_axis()).y(Axis::new("utilization", Unit::Percent).from(0.0).to(1.0));
        rates_of_figure_2().enumerate().fold(panel, |panel, (number, kbit)| {
            let cells = along_rtt(matrix, kbit, 100, relays);
            let rtt = |cell: &Measured| seconds(cell.cell.rtt_ms);
            let panel = both(panel, &label(kbit), Hue::nth(number), &cells, rtt, by_utilization);
            let measured = |rtt_ms| {
                let rate = live.rate(PathPoint { rtt_ms, kbit, loss_per_100k: 100, relays })?;
                Some((seconds(rtt_ms), rate / (kbit as f64 * 1e3)))
            };
            crosses(panel, Hue::nth(number), RTTS_MS.into_iter().filter_map(measured))
        })
    };
    Figure::new("Figure 2(a): utilization at 0.1 % loss")
        .panel(panel("long-haul", 0))
        .panel(panel("one relay", 1))
        .columns(2)
        .panel_height(160.0)
        .caption(CAPTION)
}

fn gain(matrix: &Matrix, live: &Live) -> Figure {
    let mut panel = Panel::new("").x(rtt_axis()).y(Axis::new("increase of utilization", Unit::Percent));
    for (number, kbit) in rates_of_figure_2().enumerate() {
        let pairs = |relays| along_rtt(matrix, kbit, 100, relays);
        let gains = pairs(1).into_iter().zip(pairs(0)).map(|(relayed, long_haul)| {
            let rtt = seconds(relayed.cell.rtt_ms);
            (
                rtt,
                relayed.throughput / long_haul.throughput - 1.0,
                relayed.forecast / long_haul.forecast - 1.0,
            )
        });
        let gains: Vec<_> = gains.collect();
        panel = panel
            .series(
                Series::new(&label(kbit), shorthaul_report::plot::Mark::LineAndDots, Hue::nth(number))
                    .points(gains.iter().map(|(rtt, simulated, _)| (*rtt, *simulated))),
            )
            .series(
                Series::line("", Hue::nth(number))
                    .dash(Dash::Dashed)
                    .points(gains.iter().map(|(rtt, _, model)| (*rtt, *model))),
            );
        let measured = |rtt_ms| {
            let gain = live.gain(PathPoint { rtt_ms, kbit, loss_per_100k: 100, relays: 1 })?;
            Some((seconds(rtt_ms), gain - 1.0))
        };
        panel = crosses(panel, Hue::nth(number), RTTS_MS.into_iter().filter_map(measured));
    }
    Figure::new("Figure 2(b): what one relay adds, at 0.1 % loss")
        .panel(panel.reference("twice, as the paper measured at most", 1.0))
        .panel_height(180.0)
        .caption(CAPTION)
}

fn relays(matrix: &Matrix, live: &Live) -> Figure {
    let panel = |rtt_ms: u64| {
        let panel = Panel::new(&format!("{rtt_ms} ms"))
            .x(Axis::categories("relays", ["0", "1", "2"]))
            .y(Axis::new("utilization", Unit::Percent).from(0.0).to(1.0))
            .reference("headers leave 94 %", Framing::ETHERNET.ceiling());
        LOSSES_OF_FIGURE_3.into_iter().enumerate().fold(panel, |panel, (number, loss_per_100k)| {
            let cell = |relays| matrix.get(PathPoint { rtt_ms, kbit: 32_000, loss_per_100k, relays });
            let cells: Vec<&Measured> = (0..=2).filter_map(cell).collect();
            let name = Unit::Percent.format(loss_per_100k as f64 / 1e5);
            let panel =
                both(panel, &name, Hue::nth(number), &cells, |cell| cell.cell.relays as f64, by_utilization);
            let measured = |relays| {
                let rate = live.rate(PathPoint { rtt_ms, kbit: 32_000, loss_per_100k, relays })?;
                Some((relays as f64, rate / 32e6))
            };
            crosses(panel, Hue::nth(number), (0..=2).filter_map(measured))
        })
    };
    Figure::new("Figure 3: more relays at 32 Mbit/s")
        .panel(panel(64))
        .panel(panel(128))
        .columns(2)
        .share_y(Share::All)
        .panel_height(160.0)
        .caption(CAPTION)
}

fn against_mathis(matrix: &Matrix) -> Figure {
    let mut panel = Panel::new("")
        .x(Axis::new("equation 4 for the long-haul connection", Unit::BitsPerSecond).logarithmic())
        .y(Axis::new("throughput", Unit::BitsPerSecond).logarithmic());
    // Equation 4 counts segments.
    let equation = |cell: &PathPoint| {
        let leg = cell.long_haul();
        kalim::equal_relays_rate(&leg, 0) * 8.0 * f64::from(leg.framing.mss())
    };
    // Without loss the equation has no bound.
    let lossy = || matrix.cells().filter(|m| m.cell.loss_per_100k > 0);
    for (relays, label) in ["long-haul", "one relay", "two relays"].into_iter().enumerate() {
        let cells = lossy().filter(|m| m.cell.relays == relays);
        let points = cells.map(|m| (equation(&m.cell), m.throughput));
        panel = panel.series(Series::dots(label, Hue::nth(relays)).opacity(0.6).points(points));
    }
    let ends: Vec<f64> = lossy().map(|m| equation(&m.cell)).collect();
    let low = ends.iter().copied().fold(f64::INFINITY, f64::min);
    let high = ends.iter().copied().fold(0.0, f64::max).min(256e6);
    let halved = |rate: f64| rate / DELAYED;
    let lines = [
        Series::line("equation 4, b = 1", Hue::Black).points([(low, low), (high, high)]),
        Series::line("b = 2", Hue::Black)
            .dash(Dash::Dashed)
            .points([(low, halved(low)), (high, halved(high))]),
    ];
    Figure::new("Figure 4: throughput against Mathis's approximation")
        .panel(lines.into_iter().fold(panel, Panel::series))
        .panel_height(220.0)
        .caption("Every combination that was run, mean of its samples. Links bind where dots leave the line downwards.")
}

/// What equation 4 divides by more with b = 2, for receivers that delay acknowledgments: c is √(3/2b).
pub(super) const DELAYED: f64 = std::f64::consts::SQRT_2;

fn at_128_mbit(matrix: &Matrix) -> Figure {
    let mut figure = Figure::new("Figure 5: 128 Mbit/s, estimated and measured")
        .columns(2)
        .panel_height(140.0)
        .caption("Dots and solid lines: simulation, mean and 95 % confidence. Dashed: the planner's model. Dotted: equations 1 to 9 with b = 1, and lighter with b = 2.");
    for loss_per_100k in LOSSES_PER_100K {
        let mut panel = Panel::new(&format!("{} loss", Unit::Percent.format(loss_per_100k as f64 / 1e5)))
            .x(rtt_axis())
            .y(Axis::new("throughput", Unit::BitsPerSecond).logarithmic())
            .reference("link", 128e6);
        for (relays, label) in ["long-haul", "one relay"].into_iter().enumerate() {
            let cells = along_rtt(matrix, 128_000, loss_per_100k, relays);
            let rtt = |cell: &Measured| seconds(cell.cell.rtt_ms);
            panel = both(panel, label, Hue::nth(relays), &cells, rtt, by_throughput);
            let equations = cells.iter().map(|cell| (rtt(cell), cell.equations));
            panel = panel.series(Series::line("", Hue::nth(relays)).dash(Dash::Dotted).points(equations));
            let delayed = cells.iter().map(|cell| (rtt(cell), cell.equations / DELAYED));
            let delayed = Series::line("", Hue::nth(relays)).dash(Dash::Dotted).opacity(0.5).points(delayed);
            panel = panel.series(delayed);
        }
        figure = figure.panel(panel);
    }
    figure
}
