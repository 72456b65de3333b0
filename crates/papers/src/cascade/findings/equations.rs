//! Simulation beside the equations: Figures 4 and 5.
use super::super::cell::PathPoint;
use super::super::figures::DELAYED;
use super::super::matrix::{Matrix, Measured};
use super::{ABOUT_TWICE, TWICE, times};
use shorthaul_observe::{Finding, Summary};
use shorthaul_report::Unit;

/// The logarithms of what equation 4 says of a cell's ends, and of what it measured, where the link does not bind: with this many
/// relays. The equation is that of the long-haul connection, whatever the number of relays, as in Figure 4.
fn beside_mathis(matrix: &Matrix, relays: usize) -> Vec<(f64, f64)> {
    // Without loss the equation has no bound.
    let is_meant = |own: &&Measured| own.cell.relays == relays && own.cell.loss_per_100k > 0;
    let point = |measured: &Measured| {
        let mathis = matrix.get(PathPoint { relays: 0, ..measured.cell })?.equations;
        let free = measured.utilization() < 0.8 && measured.steady && mathis.is_finite();
        free.then(|| (mathis.ln(), measured.throughput.ln()))
    };
    matrix.cells().filter(is_meant).filter_map(point).collect()
}

/// Figure 4: "our empirical results for long-haul TCP have a strong correlation with Mathis' model, until we hit the link capacity".
pub(super) fn correlation(matrix: &Matrix) -> Option<Finding> {
    let points = beside_mathis(matrix, 0);
    (points.len() > 2).then(|| {
        Finding::number(
            "Fig. 4: correlation of long-haul throughputs below the link's with equation 4 (logarithms)",
            "strong",
            pearson(&points),
            Unit::None,
        )
        .at_least(0.9)
        .model("none: it is the correlation with the model")
        .because(format!("{} cells", points.len()))
    })
}

/// Figure 4: "the steep slope is observed because Cascaded TCP effectively doubles the achieved bandwidth", wherever the link's
/// capacity allows it.
pub(super) fn steepness(matrix: &Matrix) -> Option<Finding> {
    let median = |relays| {
        let shares =
            beside_mathis(matrix, relays).into_iter().map(|(mathis, measured)| (measured - mathis).exp());
        Summary::of(shares).map(|shares| shares.percentile(0.5))
    };
    let (direct, relayed) = (median(0)?, median(1)?);
    Some(
        Finding::number(
            "Fig. 4: slope with one relay, of that of long-haul, below the link's rate",
            "doubles",
            relayed / direct,
            Unit::Times,
        )
        .within(ABOUT_TWICE, TWICE)
        .model(format!("{}: equation 8", times(2f64.powf(1.5)))),
    )
}

/// Pearson's correlation.
fn pearson(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let (x, y) =
        points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0 / count, sum.1 + point.1 / count));
    let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|(a, b)| of(a - x, b - y)).sum::<f64>();
    sum(&|a, b| a * b) / (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt()
}

/// What the median may be off by.
const ACCEPTABLE: f64 = 0.2;

/// Figure 5: "the analytical model provides acceptable approximations", where its prediction is not beyond the link.
pub(super) fn model_of_figure_5(matrix: &Matrix) -> Option<Finding> {
    let in_figure = |measured: &&Measured| {
        let Measured { cell, equations, .. } = measured;
        cell.kbit == 128_000 && cell.relays < 2 && *equations < 128e6 && measured.steady
    };
    let errors = matrix.cells().filter(in_figure).map(|own| (own.equations / own.throughput - 1.0).abs());
    let errors = Summary::of(errors)?;
    // Equation 4 with b = 2: c = √(3/2b), as for senders that count acknowledgments, of which receivers send one for two segments.
    let halved =
        matrix.cells().filter(in_figure).map(|own| (own.equations / DELAYED / own.throughput - 1.0).abs());
    let halved = Summary::of(halved)?.percentile(0.5);
    Some(
        Finding::number(
            "Fig. 5: equations 1 to 9 at 128 Mbit/s, the median is off by",
            format!("acceptable (≤ {} is asked)", Unit::Percent.format(ACCEPTABLE)),
            errors.percentile(0.5),
            Unit::Percent,
        )
        .at_most(ACCEPTABLE)
        .model("none: it is the model that is judged")
        .because(format!(
            "{} cells below the link's rate, b = 1, as senders count bytes here; with b = 2, {}",
            errors.count(),
            Unit::Percent.format(halved)
        )),
    )
}

/// "The relative differences computed from empirical results … for the same configuration highlight that we achieve approximately 100 percent
/// improvement, which is what the model predicts" (§VI-A, of Figure 5), where the link does not bind.
pub(super) fn gain_of_figure_5(matrix: &Matrix) -> Option<Finding> {
    let is_free = |own: &Measured| own.utilization() < 0.8 && own.steady;
    let in_figure = |own: &&Measured| own.cell.kbit == 128_000 && own.cell.relays == 1 && is_free(own);
    let gains = Summary::of(matrix.cells().filter(in_figure).filter_map(|own| matrix.gain(own.cell)))?;
    Some(
        Finding::number(
            "§VI-A: gain of one relay at 128 Mbit/s below the link's rate, in the median",
            "approximately 100 percent improvement, which is what the model predicts",
            gains.percentile(0.5),
            Unit::Times,
        )
        .within(ABOUT_TWICE, TWICE)
        .model(format!(
            "{}: equation 8; {} by equation 6 with all of the loss on each leg",
            times(2f64.powf(1.5)),
            times(TWICE)
        ))
        .because(format!("{} cells", gains.count())),
    )
}
