//! How throughput goes with delay, loss, capacity and relays (§V-A, Figures 2 and 3).
use super::super::cell::PathPoint;
use super::super::figures::LOSSES_OF_FIGURE_3;
use super::super::matrix::{Matrix, Measured};
use super::super::variants::{self, Variant};
use super::{TWICE, find, name, percent, relays, times};
use shorthaul_observe::{Finding, Summary};
use shorthaul_report::Unit;

/// "Bandwidth utilization decreases with increased latency" (§V-A 1, Figure 2(a)): no step to a longer round trip raises it by more than this.
const LEVEL: f64 = 0.02;

pub(super) fn decreases(matrix: &Matrix, variants: &[Variant]) -> Vec<Finding> {
    let lengthens = variants::SHORT.map(|name| find(variants, name).map(|own| own.throughput / 8e6));
    let of = |relays: usize| {
        let mut pairs = Vec::new();
        for own in matrix.cells().filter(|own| is_in_figure_2(own.cell) && own.cell.relays == relays) {
            let longer = PathPoint { rtt_ms: 2 * own.cell.rtt_ms, ..own.cell };
            pairs.extend(matrix.get(longer).map(|longer| longer.utilization() - own.utilization()));
        }
        let most = pairs.iter().copied().reduce(f64::max)?;
        let rises = pairs.iter().filter(|step| **step > LEVEL).count();
        let what = format!(
            "Fig. 2(a), {}: steps to twice the round trip that raise the utilization by more than two points",
            ["long-haul", "one relay"][relays]
        );
        let found =
            Finding::judged(what, "none: it decreases", format!("{rises} of {}", pairs.len()), rises == 0);
        Some(found.because(format!("{} points at most", (100.0 * most).round())).explained(
            format!(
                "short transfers, of which one overrun of the queue in slow start takes much: 8 Mbit/s, 32 ms with the size of the matrix has {}, with ten times that {} (variants)",
                percent(lengthens[0].unwrap_or(f64::NAN)),
                percent(lengthens[1].unwrap_or(f64::NAN))
            ),
            // By as much as the largest step.
            relays == 1 && lengthens[0].zip(lengthens[1]).is_some_and(|(short, long)| long - short > 0.75 * most),
        ))
    };
    [0, 1].into_iter().filter_map(of).collect()
}

/// Figure 2: 4 to 128 Mbit/s at 0.1 % of loss.
fn is_in_figure_2(cell: PathPoint) -> bool {
    cell.loss_per_100k == 100 && (4_000..=128_000).contains(&cell.kbit)
}

/// "Up to twofold"; "goes beyond 100 % in some cases" (§V-A 2, Figure 2(b)).
pub(super) fn beyond_twice(matrix: &Matrix) -> Option<Finding> {
    let relayed = || matrix.cells().filter(|own| is_in_figure_2(own.cell) && own.cell.relays == 1);
    let gains: Vec<f64> = relayed().filter_map(|own| matrix.gain(own.cell)).collect();
    let forecasts = relayed()
        .filter_map(|own| Some(own.forecast / matrix.get(PathPoint { relays: 0, ..own.cell })?.forecast));
    let beyond = |gain: &f64| *gain > TWICE;
    let count = gains.iter().filter(|gain| beyond(gain)).count();
    Some(
        Finding::judged(
            "Fig. 2(b): cells in which one relay adds more than 100 %",
            "some",
            format!("{count} of {}", gains.len()),
            count > 0 && count < gains.len(),
        )
        .because(format!("{} at most", times(gains.iter().copied().reduce(f64::max)?)))
        .model(format!("{} of {}", forecasts.filter(beyond).count(), gains.len())),
    )
}

/// "If loss and latency configurations remain the same and link capacities increase, the throughput achieved has a slight but noticeable decrease"
/// (§V-A 1), where the link does not bind. Its reason is that "the percentage of maximum window size achieved is less for a high capacity link".
pub(super) fn by_capacity(matrix: &Matrix, variants: &[Variant]) -> Option<Finding> {
    let pair = |own: &Measured| {
        let wider = matrix.get(PathPoint { kbit: 2 * own.cell.kbit, ..own.cell })?;
        let is_free = own.utilization() < 0.5 && own.steady && wider.steady;
        is_free.then(|| [wider.throughput / own.throughput, wider.utilization() / own.utilization()])
    };
    let pairs: Vec<[f64; 2]> =
        matrix.cells().filter(|own| is_in_figure_2(own.cell)).filter_map(pair).collect();
    let of = |place: usize| Summary::of(pairs.iter().map(|pair| pair[place]));
    let (ratios, shares) = (of(0)?, of(1)?);
    let fall = pairs.iter().filter(|[_, share]| *share <= DECREASED).count();
    let short: Vec<f64> = variants::CAPACITIES_DUMMYNET
        .iter()
        .filter_map(|(_, name)| find(variants, name).map(|own| own.throughput))
        .collect();
    let by_step = Summary::of(short.windows(2).map(|pair| pair[1] / pair[0]));
    let with_short = by_step.map_or(f64::NAN, |all| all.percentile(0.5));
    Some(
        Finding::number(
            "§V-A 1: throughput of twice the capacity, where losses bind and not the link, in the median",
            "a slight but noticeable decrease",
            ratios.percentile(0.5),
            Unit::Percent,
        )
        .at_most(DECREASED)
        .model("100 %: equation 4 knows no capacity")
        .because(format!("{} pairs of cells of Figure 2", ratios.count()))
        .explained(
            format!(
                "the queue, which the paper does not state: ours holds a bandwidth-delay product; with 50 packets, as many as Dummynet has unless it is told otherwise, it is {} in the median at 128 ms (variants)",
                percent(with_short)
            ),
            with_short <= DECREASED,
        )
        .explained(
            format!(
                "what is meant: the paper's reason is the share of the largest window that is reached, and that falls in {fall} of {} pairs, to {} in the median; the rate itself does not depend on the capacity by its equation 4, and does not here, with queues of 50 packets neither ({}, variants)",
                pairs.len(),
                percent(shares.percentile(0.5)),
                percent(with_short)
            ),
            fall == pairs.len() && LEVEL_RATE.contains(&ratios.percentile(0.5)) && LEVEL_RATE.contains(&with_short),
        ),
    )
}

/// What is no more than this has decreased noticeably.
const DECREASED: f64 = 0.99;
/// A rate that is in this of another one is the same, as equation 4 has it.
const LEVEL_RATE: std::ops::RangeInclusive<f64> = 0.95..=1.05;

/// "Median bandwidth utilizations for Cascaded TCP are always significantly better than that of long-haul TCP" (§V-A 3, Figure 3).
pub(super) fn relays_are_better(matrix: &Matrix) -> Option<Finding> {
    let mut cells = Vec::new();
    for (rtt_ms, loss_per_100k) in
        [64, 128].into_iter().flat_map(|rtt| LOSSES_OF_FIGURE_3.map(|loss| (rtt, loss)))
    {
        for relays in [1, 2] {
            let own = PathPoint { kbit: 32_000, rtt_ms, loss_per_100k, relays };
            let (Some(own), Some(direct)) = (matrix.get(own), matrix.get(PathPoint { relays: 0, ..own }))
            else {
                continue;
            };
            let apart = own.throughput - own.confidence.unwrap_or(0.0);
            cells.push((own, apart > direct.throughput + direct.confidence.unwrap_or(0.0)));
        }
    }
    let not: Vec<String> = cells
        .iter()
        .filter(|(_, is_better)| !is_better)
        .map(|(own, _)| format!("{} with {}", name(own.cell), relays(own.cell)))
        .collect();
    (!cells.is_empty()).then(|| {
        let ours = format!("{} of {}", cells.len() - not.len(), cells.len());
        let what = "Fig. 3: cells in which relays are faster than long-haul, beyond both intervals";
        Finding::judged(what, "always", ours, not.is_empty()).because(match not.is_empty() {
            true => String::new(),
            false => format!("not at {}", not.join(", ")),
        })
    })
}

/// "For 0.01 % loss … 128 ms … less for two relays as compared to one. This anomaly is because of temporary self-congestion" (§V-A 4).
pub(super) fn anomaly(matrix: &Matrix, variants: &[Variant]) -> Option<Finding> {
    let cell = |relays| PathPoint { kbit: 32_000, rtt_ms: 128, loss_per_100k: 10, relays };
    let (one, two) = (matrix.get(cell(1))?, matrix.get(cell(2))?);
    let found = Finding::number(
        format!("Fig. 3, {}: throughput with two relays, of that with one", name(cell(2))),
        "less: an anomaly, by the paper",
        two.throughput / one.throughput,
        Unit::Percent,
    );
    let short = variants::ANOMALY_DUMMYNET.map(|name| find(variants, name).map(|own| own.throughput));
    let with_short = short[1].zip(short[0]).map_or(f64::NAN, |(two, one)| two / one);
    let queue = "the queue, which the paper does not state: ours holds a bandwidth-delay product; with 50 packets, as many as Dummynet has unless it is told otherwise, it is";
    Some(
        found
            .at_most(DECREASED)
            .model(percent(two.forecast / one.forecast))
            .because(format!(
                "with queues of 50 packets, Dummynet's own, it is {} (variants)",
                percent(with_short)
            ))
            .explained(format!("{queue} {} (variants)", percent(with_short)), with_short <= DECREASED),
    )
}
