//! What the paper states, beside what simulation and model say.
use super::cell::PathPoint;
use super::figures::{DELAYED, LOSSES_OF_FIGURE_3};
use super::live::Live;
use super::matrix::{Matrix, Measured};
use super::variants::{self, Variant};
use shorthaul_observe::{Finding, Summary};
use shorthaul_report::{Column, Table, Unit};

/// A gain that is worth a relay.
const WORTHWHILE: f64 = 1.1;
/// A number that is off by no more than this share agrees.
const NEAR: f64 = 0.1;
/// What the paper's words for a doubling are: a gain of two.
const TWICE: f64 = 2.0;
/// What a claim of "doubles" may be off by, for the median of many cells.
const ABOUT_TWICE: f64 = 0.2;
/// What "about 90 %" asks at least.
const ABOUT_90: f64 = 0.85;
/// The product from which on a relay is beneficial (§VI-A), in bytes.
const STATED_PRODUCT: f64 = 32.0 * 1024.0;

fn percent(share: f64) -> String {
    Unit::Percent.format(share)
}

fn times(gain: f64) -> String {
    Unit::Times.format(gain)
}

/// All that was run has something to say about.
pub(super) fn all(matrix: &Matrix, variants: &[Variant]) -> Vec<Finding> {
    let cell = |mbit: u64, rtt_ms, loss_per_100k, relays| PathPoint {
        kbit: mbit * 1000,
        rtt_ms,
        loss_per_100k,
        relays,
    };
    let rate = |name: &str| find(variants, name).map(|variant| variant.throughput);
    let mut found = Vec::new();
    let reading = Reading::all(matrix, variants);
    for (doubled, twin) in [(cell(32, 64, 100, 1), None), (cell(8, 256, 100, 1), Some(cell(32, 64, 100, 1)))]
    {
        let gain = gain(matrix, doubled, "twice").map(|found| reading.explains(found, NEAR));
        found.extend(gain.map(|found| beside_its_twin(found, matrix, doubled, twin)));
    }
    found.extend(without_loss(variants));
    let four = |name: &str, capacity: f64| rate(name).map(|rate| rate / capacity);
    for (own, paper, least, streams, twin) in [
        (cell(32, 64, 100, 2), "about 90 %", ABOUT_90, variants::FOUR_32, None),
        (cell(64, 64, 100, 1), "above 80 %", 0.80, variants::FOUR_64, None),
        (cell(128, 32, 100, 1), "above 80 %", 0.80, variants::FOUR_128, Some(cell(64, 64, 100, 1))),
    ] {
        let capacity = own.kbit as f64 * 1e3;
        let by_equation = matrix.get(own).map(|measured| measured.equations / capacity);
        let utilization = utilization(matrix, own, paper, least).map(|found| {
            let note = found.reason.clone();
            let four = percent(four(streams, capacity).unwrap_or(f64::NAN));
            let found = found
                .because(format!(
                    "{note}; four connections have {four} (variant `{streams}`), but the paper's are single: parallel streams are its future work"
                ))
                .explained(
                    format!(
                        "the paper's own equations allow such a leg {} of the link, with its part of round trip and loss (column `equations 1-9` of `table-1.csv`)",
                        percent(by_equation.unwrap_or(f64::NAN))
                    ),
                    by_equation.is_some_and(|share| share < least),
                );
            beside_its_twin(found, matrix, own, twin)
        });
        found.extend(utilization);
    }
    found.extend(decreases(matrix, variants));
    found.extend(beyond_twice(matrix));
    found.extend(by_capacity(matrix));
    found.extend(relays_are_better(matrix));
    found.extend(anomaly(matrix));
    found.extend(second_relay(matrix, 10));
    found.extend(second_relay(matrix, 1_000));
    found.extend(ceiling(matrix));
    found.extend(worthwhile(matrix));
    found.extend(correlation(matrix));
    found.extend(steepness(matrix).map(|found| reading.explains(found, ABOUT_TWICE)));
    found.extend(model_of_figure_5(matrix));
    found.extend(gain_of_figure_5(matrix).map(|found| reading.explains(found, ABOUT_TWICE)));
    found.extend(table_2(variants));
    found.extend(set_up(variants));
    found.extend(waits(variants));
    found.extend(other_relays(variants));
    let beside = variants.iter().map(|variant| {
        Finding::shown(
            format!("variant: {}", variant.name),
            "",
            Unit::BitsPerSecond.format(variant.throughput),
        )
        .model(Unit::BitsPerSecond.format(variant.forecast))
    });
    found.extend(beside);
    found
}

/// An experiment by its name.
fn find<'a>(variants: &'a [Variant], name: &str) -> Option<&'a Variant> {
    variants.iter().find(|variant| variant.name == name)
}

/// What one reading of which loss a leg has makes of the reference cell.
struct Reading {
    words: &'static str,
    /// Of one relay.
    gain: f64,
    /// With two relays.
    utilization: f64,
}

/// The readings beside ours, by which legs share the loss. The paper says two things: equation 6 has a loss for each leg, equation 8 divides it.
struct Readings(Vec<Reading>);

impl Reading {
    fn all(matrix: &Matrix, variants: &[Variant]) -> Readings {
        let direct = PathPoint { kbit: 32_000, rtt_ms: 64, loss_per_100k: 100, relays: 0 };
        let of = |words, names: [&str; 2]| {
            let [one, two] = names.map(|name| find(variants, name));
            let direct = matrix.get(direct)?;
            let gain = one?.throughput / direct.throughput;
            Some(Reading { words, gain, utilization: two?.throughput / 32e6 })
        };
        let all = [
            of("all of it on the first leg", variants::LOSS_ON_FIRST),
            of("all of it on each leg", variants::LOSS_ON_EACH),
        ];
        Readings(all.into_iter().flatten().collect())
    }
}

impl Readings {
    /// Which loss a leg has is the cause where a reading doubles the reference cell's throughput. What the same reading leaves of the 90 % that the
    /// paper has with two relays stands beside it.
    fn explains(&self, finding: Finding, near: f64) -> Finding {
        let said = |reading: &Reading| {
            format!(
                "with {} one relay gains {} and two have {}",
                reading.words,
                times(reading.gain),
                percent(reading.utilization)
            )
        };
        let all: Vec<String> = self.0.iter().map(said).collect();
        let is_twice = |reading: &&Reading| (reading.gain / TWICE - 1.0).abs() <= near;
        let has_both = self.0.iter().filter(is_twice).any(|reading| reading.utilization >= ABOUT_90);
        let but = if has_both { "" } else { "; no reading has both this and about 90 % with two relays" };
        finding.explained(
            format!("which loss a leg has: {} (variants of 32 Mbit/s, 64 ms, 0.1 %){but}", all.join(", ")),
            self.0.iter().any(|reading| is_twice(&reading)),
        )
    }
}

/// Says so where a cell is another one in other units: with the same product and loss the same packets are lost, at other times.
fn beside_its_twin(finding: Finding, matrix: &Matrix, cell: PathPoint, twin: Option<PathPoint>) -> Finding {
    let share = |cell: PathPoint| Some(matrix.get(cell)?.utilization());
    let Some((own, (twin, other))) = share(cell).zip(twin.and_then(|twin| Some((twin, share(twin)?)))) else {
        return finding;
    };
    if (own / other - 1.0).abs() > 1e-3 {
        return finding;
    }
    let same = format!("the same run as {} in other units, so both rows are one", name(twin));
    match &finding.cause {
        Some(cause) => Finding { cause: Some(format!("{cause}; {same}")), ..finding },
        None if finding.reason.is_empty() => finding.because(same),
        None => {
            let reason = format!("{}; {same}", finding.reason);
            finding.because(reason)
        }
    }
}

/// What was measured between kernels of what is stated of such cells.
pub(super) fn between_kernels(live: &Live) -> Vec<Finding> {
    let mut found = Vec::new();
    for cell in live.cells().filter(|cell| cell.loss_per_100k == 100 && cell.product() == 256_000.0) {
        let with = |relays| PathPoint { relays, ..cell };
        if let Some(gain) = live.gain(with(1)) {
            let what = format!("{}: gain of {}", name(cell), relays(with(1)));
            found.push(Finding::number(what, "twice", gain, Unit::Times).within(NEAR, TWICE));
        }
        if let Some(rate) = live.rate(with(2)) {
            let what = format!("{}: utilization with {}", name(cell), relays(with(2)));
            let share = rate / (cell.kbit as f64 * 1e3);
            found.push(Finding::number(what, "about 90 %", share, Unit::Percent).at_least(ABOUT_90));
        }
        for relays in [1, 2] {
            let what = format!("{}: {}, of netcat in their place", name(cell), self::relays(with(relays)));
            let stated = "the paper's relays are netcat (that ours is faster is asked)";
            found.extend(live.gain(with(relays)).map(|ours| match live.netcat_gain(with(relays)) {
                Some(netcat) => Finding::number(what, stated, ours / netcat, Unit::Times).at_least(1.0),
                None => Finding::shown(what, stated, "not run: `nc` was not installed"),
            }));
        }
        if let Some(share) = live.waiting(cell) {
            found.push(Finding::number(waiting_row(cell), COSTS, share, Unit::Times).at_least(1.0 - NEAR));
        }
    }
    found
}

/// The row of what waiting costs in a cell.
fn waiting_row(cell: PathPoint) -> String {
    format!("{}: throughput of one relay that waits 16 windows, of one that does not", name(cell))
}

/// What is stated of it.
const COSTS: &str = "16 round trips more (equation 6; ≥ 0.9 is asked)";
/// A buffer that is dry for no more than this share of the time does not run dry.
const DRY: f64 = 0.01;

/// "To avoid packet drought in the buffer … the relay's outbound TCP connection may wait for W windows" (§III-B): what it avoids, and what it costs.
fn waits(variants: &[Variant]) -> Vec<Finding> {
    let (Some(at_once), Some(waiting)) =
        (find(variants, variants::AT_ONCE), find(variants, variants::WAITING))
    else {
        return Vec::new();
    };
    let drought = |variant: &Variant| variant.drought.unwrap_or(f64::NAN);
    let cell = PathPoint { kbit: 32_000, rtt_ms: 64, loss_per_100k: 100, relays: 0 };
    vec![
        Finding::number(
            format!(
                "{}: share of the time that the buffer of one relay that waits 16 windows is dry",
                name(cell)
            ),
            format!("it does not run dry (≤ {} is asked)", percent(DRY)),
            drought(waiting),
            Unit::Percent,
        )
        .at_most(DRY)
        .because(format!("{} where it forwards at once", percent(drought(at_once)))),
        Finding::number(waiting_row(cell), COSTS, waiting.throughput / at_once.throughput, Unit::Times)
            .at_least(1.0 - NEAR)
            .model(times(waiting.forecast / at_once.forecast)),
    ]
}

/// Relays that store first (§III-B), and one that is not half-way (§VI-C), beside one that does neither.
fn other_relays(variants: &[Variant]) -> Vec<Finding> {
    let Some(at_once) = find(variants, variants::AT_ONCE) else { return Vec::new() };
    let of = |name: &str, what: &str, stated: &str| {
        let own = find(variants, name)?;
        let found = Finding::number(what, stated, own.throughput / at_once.throughput, Unit::Percent);
        Some(found.model(percent(own.forecast / at_once.forecast)))
    };
    let storing = of(
        variants::STORING,
        "§III-B: throughput of one relay that stores first, of one that forwards at once",
        "would not be a viable option (≤ 75.0 % is asked)",
    );
    // Half of the round trip, of three quarters.
    let quarter = of(
        variants::QUARTER,
        "§VI-C: throughput of one relay at a quarter of the way, of one half-way",
        "less, in proportion to the longer leg's round trip: 66.7 %",
    );
    let found = [storing.map(|own| own.at_most(0.75)), quarter.map(|own| own.within(0.15, 0.5 / 0.75))];
    found.into_iter().flatten().collect()
}

/// "Bandwidth utilization decreases with increased latency" (§V-A 1, Figure 2(a)): no step to a longer round trip raises it by more than this.
const LEVEL: f64 = 0.02;

fn decreases(matrix: &Matrix, variants: &[Variant]) -> Vec<Finding> {
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
fn beyond_twice(matrix: &Matrix) -> Option<Finding> {
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
/// (§V-A 1), where the link does not bind.
fn by_capacity(matrix: &Matrix) -> Option<Finding> {
    let ratio = |own: &Measured| {
        let wider = matrix.get(PathPoint { kbit: 2 * own.cell.kbit, ..own.cell })?;
        let is_free = own.utilization() < 0.5 && own.steady && wider.steady;
        is_free.then(|| wider.throughput / own.throughput)
    };
    let ratios = Summary::of(matrix.cells().filter(|own| is_in_figure_2(own.cell)).filter_map(ratio))?;
    Some(
        Finding::number(
            "§V-A 1: throughput of twice the capacity, where losses bind and not the link, in the median",
            "a slight but noticeable decrease",
            ratios.percentile(0.5),
            Unit::Percent,
        )
        .at_most(0.99)
        .model("100 %: equation 4 knows no capacity")
        .because(format!("{} pairs of cells of Figure 2", ratios.count())),
    )
}

/// "Median bandwidth utilizations for Cascaded TCP are always significantly better than that of long-haul TCP" (§V-A 3, Figure 3).
fn relays_are_better(matrix: &Matrix) -> Option<Finding> {
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
fn anomaly(matrix: &Matrix) -> Option<Finding> {
    let cell = |relays| PathPoint { kbit: 32_000, rtt_ms: 128, loss_per_100k: 10, relays };
    let (one, two) = (matrix.get(cell(1))?, matrix.get(cell(2))?);
    let found = Finding::number(
        format!("Fig. 3, {}: throughput with two relays, of that with one", name(cell(2))),
        "less: an anomaly, by the paper",
        two.throughput / one.throughput,
        Unit::Percent,
    );
    Some(found.at_most(0.99).model(percent(two.forecast / one.forecast)))
}

fn name(cell: PathPoint) -> String {
    let loss = Unit::Percent.format(cell.loss_per_100k as f64 / 1e5);
    format!("{} Mbit/s, {} ms, {loss}", cell.kbit as f64 / 1e3, cell.rtt_ms)
}

fn relays(cell: PathPoint) -> &'static str {
    ["long-haul", "one relay", "two relays"].get(cell.relays).copied().unwrap_or("relays")
}

fn gain(matrix: &Matrix, cell: PathPoint, paper: &str) -> Option<Finding> {
    let long_haul = matrix.get(PathPoint { relays: 0, ..cell })?;
    let what = format!("{}: gain of {}", name(cell), relays(cell));
    Some(
        Finding::number(what, paper, matrix.gain(cell)?, Unit::Times)
            .within(NEAR, TWICE)
            .model(times(matrix.get(cell)?.forecast / long_haul.forecast)),
    )
}

/// "With zero losses, Cascaded TCP enables throughput up to twice as much as long-haul TCP connections; this is observed even when
/// latencies are as high as 256 ms" (§V-A 4).
fn without_loss(variants: &[Variant]) -> Option<Finding> {
    let [direct, relayed] = variants::NO_LOSS.map(|name| find(variants, name));
    let (direct, relayed) = (direct?, relayed?);
    let gain = |names: [&str; 2]| {
        let [direct, relayed] = names.map(|name| find(variants, name).map(|own| own.throughput));
        Some(relayed? / direct?)
    };
    let by_size: Vec<(&str, f64)> = variants::NO_LOSS_DUMMYNET
        .into_iter()
        .filter_map(|(size, names)| Some((size, gain(names)?)))
        .collect();
    let said: Vec<String> =
        by_size.iter().map(|(size, gain)| format!("{} with {size}", times(*gain))).collect();
    Some(
        Finding::number(
            "32 Mbit/s, 256 ms, no loss: gain of one relay",
            "up to twice",
            relayed.throughput / direct.throughput,
            Unit::Times,
        )
        .within(NEAR, TWICE)
        .model(times(relayed.forecast / direct.forecast))
        .explained(
            format!(
                "the queue, which the paper does not state: ours holds a bandwidth-delay product; with 50 packets, as many as Dummynet has unless it is told otherwise, the gain is {} (variants)",
                said.join(", ")
            ),
            by_size.iter().any(|(_, gain)| (gain / TWICE - 1.0).abs() <= NEAR),
        ),
    )
}

fn utilization(matrix: &Matrix, cell: PathPoint, paper: &str, least: f64) -> Option<Finding> {
    let measured = matrix.get(cell)?;
    let half = measured.utilization_confidence();
    let what = format!("{}: utilization with {}", name(cell), relays(cell));
    Some(
        Finding::number(what, paper, measured.utilization(), Unit::Percent)
            .at_least(least)
            .because(format!("± {}", percent(half)))
            .model(percent(measured.forecast_utilization())),
    )
}

/// How much of the link the second relay adds, as a part of what the first adds.
fn second_relay(matrix: &Matrix, loss_per_100k: u64) -> Option<Finding> {
    let cell = |relays| PathPoint { kbit: 32_000, rtt_ms: 64, loss_per_100k, relays };
    let measured = [matrix.get(cell(0))?, matrix.get(cell(1))?, matrix.get(cell(2))?];
    let added = |rate: [f64; 3]| (rate[2] - rate[1]) / (rate[1] - rate[0]);
    let high = loss_per_100k >= 1_000;
    let what = format!("{}: the second relay adds, of what the first did", name(cell(2)));
    let found = Finding::number(
        what,
        if high { "similar" } else { "less" },
        added(measured.map(|m| m.throughput)),
        Unit::Percent,
    );
    let found = if high { found.within(0.25, 1.0) } else { found.at_most(0.5) };
    Some(found.model(percent(added(measured.map(|m| m.forecast)))))
}

fn ceiling(matrix: &Matrix) -> Option<Finding> {
    let most = |share: fn(&Measured) -> f64| matrix.cells().map(share).reduce(f64::max);
    Some(
        Finding::number(
            "the largest utilization of all cells",
            "about 94 %",
            most(Measured::utilization)?,
            Unit::Percent,
        )
        .within(0.02, 0.94)
        .because("1448 of 1538 bytes; above 100 % in the paper where Dummynet is coarse")
        .model(percent(most(Measured::forecast_utilization)?)),
    )
}

/// From which bandwidth-delay product on one relay is worth it, at 0.1 % of loss.
fn worthwhile(matrix: &Matrix) -> Option<Finding> {
    let relayed: Vec<_> =
        matrix.cells().filter(|m| m.cell.relays == 1 && m.cell.loss_per_100k == 100).collect();
    let gains = |gain: &dyn Fn(PathPoint) -> Option<f64>| -> Vec<(f64, f64)> {
        relayed.iter().filter_map(|m| Some((m.cell.product(), gain(m.cell)?))).collect()
    };
    let bounds = |gains: &[(f64, f64)]| {
        let from = gains.iter().filter(|(_, gain)| *gain >= WORTHWHILE).map(|(product, _)| *product);
        let to = gains.iter().filter(|(_, gain)| *gain < WORTHWHILE).map(|(product, _)| *product);
        let show = |product: Option<f64>| product.map_or("none".to_owned(), |p| Unit::Bytes.format(p));
        format!("from {}; not up to {}", show(from.reduce(f64::min)), show(to.reduce(f64::max)))
    };
    let ours = gains(&|cell| matrix.gain(cell));
    let forecast = gains(&|cell| {
        Some(matrix.get(cell)?.forecast / matrix.get(PathPoint { relays: 0, ..cell })?.forecast)
    });
    let above = |(product, _): &&(f64, f64)| *product > STATED_PRODUCT;
    let all_above = ours.iter().filter(above).all(|(_, gain)| *gain >= WORTHWHILE);
    let none_below = ours.iter().filter(|own| !above(own)).all(|(_, gain)| *gain < WORTHWHILE);
    (!ours.is_empty()).then(|| {
        Finding::judged(
            "0.1 %: one relay gains a tenth, by bandwidth-delay product",
            "above 32 KB",
            bounds(&ours),
            ours.iter().any(|own| above(&own)) && all_above && none_below,
        )
        .model(bounds(&forecast))
    })
}

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
fn correlation(matrix: &Matrix) -> Option<Finding> {
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
fn steepness(matrix: &Matrix) -> Option<Finding> {
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
fn model_of_figure_5(matrix: &Matrix) -> Option<Finding> {
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
fn gain_of_figure_5(matrix: &Matrix) -> Option<Finding> {
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

/// What Table II's row is called.
pub(super) const TABLE_2: &str = "Table II, hosts with a window of 328 kB: gain of one relay";

fn table_2(variants: &[Variant]) -> Option<Finding> {
    let (direct, relayed) =
        (find(variants, variants::WINDOW_DIRECT)?, find(variants, variants::WINDOW_RELAYED)?);
    let stated = relayed.paper? / direct.paper?;
    Some(
        Finding::number(TABLE_2, times(stated), relayed.throughput / direct.throughput, Unit::Times)
            // "limited to about 10 %": none would differ, too
            .within(0.05, stated)
            .model(times(relayed.forecast / direct.forecast))
            .because(tried(variants).unwrap_or_default()),
    )
}

/// What was tried for Table II, and what each came to. None of it is a cause: what has the paper's gain is fitted to it.
fn tried(variants: &[Variant]) -> Option<String> {
    let rate = |name| Some(find(variants, name)?.throughput);
    let direct = rate(variants::WINDOW_DIRECT)?;
    // Equation 4 on the longer leg, which has its part of the round trips and of the losses of all the way by the relay.
    let losses = 448.07 / 295.06 * f64::sqrt((194.74 + 295.06) / 295.06);
    let [toward, from] =
        [variants::SMALL_TOWARD, variants::SMALL_FROM].map(|name| Some(rate(name)? / direct));
    Some(format!(
        "tried: the hosts' windows alone, 448/295 = 1.52; losses instead, as many as the long-haul row has, shared by the legs, {} by equation 4; cross traffic, below. A relay whose own default window were smaller than the hosts' would have it, \
         157 kB toward the client ({}) or 238 kB from it ({}), but that is fitted: the paper states no window",
        times(losses),
        times(toward?),
        times(from?)
    ))
}

/// §III-C: relays triggered in parallel take 1.5 RTT, in sequence the sum of 1.5 RTT of each.
fn set_up(variants: &[Variant]) -> Option<Finding> {
    let [parallel, sequential] = variants::SMALL.map(|name| find(variants, name));
    let (parallel, sequential) = (parallel?, sequential?);
    Some(
        Finding::number(
            "§III-C: a transfer of 15 kB by two relays set up in parallel, of one set up in sequence",
            "sooner",
            sequential.throughput / parallel.throughput,
            Unit::Percent,
        )
        .at_most(0.95)
        .model(percent(sequential.forecast / parallel.forecast)),
    )
}

/// For people.
pub(super) fn table(findings: &[Finding]) -> Table {
    let mut table = Table::new([
        Column::left("what"),
        Column::right("paper"),
        Column::right("simulated"),
        Column::right("model"),
        Column::left("remark"),
    ]);
    for finding in findings {
        let model = finding.model.clone().unwrap_or_default();
        table.row(
            [&finding.what, &finding.stated, &finding.ours, &model, &finding.remark()].map(String::as_str),
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::holds;
    use shorthaul_observe::Verdict;

    /// Table I, and Figure 3 without loss, as a law says it: throughput of a cell in bit/s.
    fn matrix(law: impl Fn(PathPoint) -> f64) -> Matrix {
        Matrix::of(PathPoint::all().into_iter().chain(PathPoint::without_loss()).map(|cell| Measured {
            cell,
            size: 1_000_000,
            steady: true,
            throughput: law(cell),
            confidence: Some(0.0),
            forecast: law(cell),
            equations: mathis(cell),
        }))
    }

    /// Equation 8, not bounded by the link.
    fn mathis(cell: PathPoint) -> f64 {
        let relays = (cell.relays as f64 + 1.0).powf(1.5);
        relays * 1.22 * 1448.0 * 8.0 / (cell.rtt_ms as f64 / 1e3 * (cell.loss_per_100k as f64 / 1e5).sqrt())
    }

    /// What the paper states: a relay doubles, until headers leave 94 %.
    fn stated(cell: PathPoint) -> f64 {
        let link = 0.94 * cell.kbit as f64 * 1e3;
        let law = mathis(PathPoint { relays: 0, ..cell }) * [1.0, 2.0, 3.0][cell.relays];
        // One connection does not reach what the paper has in these two.
        let filled = cell.loss_per_100k == 100 && cell.product() >= 256_000.0 && cell.product() <= 512_000.0;
        let share = match (filled, cell.relays) {
            (true, 1) => 0.81,
            (true, 2) => 0.9,
            _ => 1.0,
        };
        if filled && cell.relays == 0 {
            0.405 * link / 0.94
        } else if filled {
            share * link / 0.94
        } else {
            law.min(link)
        }
    }

    fn variants(of: impl Fn(&str) -> Option<f64>) -> Vec<Variant> {
        variants::names()
            .into_iter()
            .map(|name| Variant {
                name,
                throughput: of(name).unwrap_or(1e6),
                confidence: None,
                forecast: 1e6,
                drought: Some(0.0),
                paper: match name {
                    variants::WINDOW_DIRECT => Some(5.85e6),
                    variants::WINDOW_RELAYED => Some(6.44e6),
                    _ => None,
                },
            })
            .collect()
    }

    fn as_stated(name: &str) -> Option<f64> {
        match name {
            variants::WINDOW_DIRECT => Some(5.85e6),
            variants::WINDOW_RELAYED => Some(6.44e6),
            _ if name == variants::NO_LOSS[1] => Some(2e6),
            _ if name == variants::SMALL[1] => Some(0.8e6),
            variants::STORING => Some(0.5e6),
            variants::QUARTER => Some(0.66e6),
            _ => None,
        }
    }

    fn judged(law: impl Fn(PathPoint) -> f64, of: impl Fn(&str) -> Option<f64>) -> Vec<Finding> {
        all(&matrix(law), &variants(of))
    }

    /// The finding of this name.
    fn named<'a>(found: &'a [Finding], what: &str) -> &'a Finding {
        found.iter().find(|own| own.what.contains(what)).unwrap_or_else(|| panic!("{what}: {found:#?}"))
    }

    #[test]
    fn what_the_paper_states_holds() {
        let found = judged(stated, as_stated);
        for what in [
            "no loss: gain",
            "largest",
            "correlation",
            "Table II",
            "§III-C",
            "§III-B",
            "§VI-C",
            "slope",
            "§VI-A",
            "is dry",
            "waits 16 windows, of one",
            "utilization with one relay",
            "8 Mbit/s, 256 ms, 0.100 %: gain",
        ] {
            assert!(holds(&found, what), "{what}");
        }
    }

    #[test]
    fn what_the_paper_says_of_its_figures_2_and_3_can_hold_and_fail() {
        // A share of the link that falls with each doubling of the round trip, and that relays raise, but for the second one at 0.01 %.
        let falling = |cell: PathPoint| {
            let fallen = 1.0 - f64::from(cell.rtt_ms.ilog2()) / 10.0;
            let anomaly = if cell.loss_per_100k == 10 && cell.relays == 2 { 0.7 } else { 1.0 };
            anomaly * fallen * (0.3 + 0.1 * cell.relays as f64) * cell.kbit as f64 * 1e3
        };
        let found = judged(falling, as_stated);
        assert!(holds(&found, "Fig. 2(a), long-haul") && holds(&found, "Fig. 2(a), one relay"));
        assert!(holds(&found, "throughput with two relays, of that with one"));
        assert!(!holds(&found, "adds more than 100 %"), "0.4 are no double of 0.3");
        assert!(!holds(&found, "twice the capacity"), "twice as much is no decrease");
        let constant = judged(|cell| 1e6 / cell.kbit as f64, as_stated);
        assert!(holds(&constant, "twice the capacity"));
        let rising = judged(|cell| (cell.rtt_ms as f64 / 600.0) * cell.kbit as f64 * 1e3, as_stated);
        assert!(!holds(&rising, "Fig. 2(a), long-haul") && !holds(&rising, "Fig. 2(a), one relay"));
        assert!(!holds(&rising, "Fig. 3: cells in which relays are faster"), "equal is not faster");
        assert!(!holds(&rising, "throughput with two relays, of that with one"));
        let better = judged(|cell| (1.0 + cell.relays as f64) * 1e5, as_stated);
        assert!(holds(&better, "Fig. 3: cells in which relays are faster"));
        let some = judged(|cell| if cell.relays == 1 && cell.rtt_ms == 512 { 3e5 } else { 1e5 }, as_stated);
        assert!(holds(&some, "adds more than 100 %"));
    }

    #[test]
    fn short_transfers_are_why_utilization_rises_only_where_longer_ones_have_more() {
        let rising = |cell: PathPoint| (cell.rtt_ms as f64 / 600.0).sqrt() * cell.kbit as f64 * 1e3;
        let cause = |longer: f64| {
            let found = judged(rising, |name| match name {
                _ if name == variants::SHORT[0] => Some(4e6),
                _ if name == variants::SHORT[1] => Some(longer),
                _ => None,
            });
            [named(&found, "Fig. 2(a), long-haul"), named(&found, "Fig. 2(a), one relay")]
                .map(|own| own.cause.is_some())
        };
        assert_eq!(cause(7.5e6), [false, true]);
        assert_eq!(cause(4.1e6), [false, false]);
    }

    #[test]
    fn which_loss_a_leg_has_is_a_cause_only_where_a_reading_doubles() {
        let cause = |first: f64, each: f64, what: &str| {
            let found = judged(mathis, |name| match name {
                _ if name == variants::LOSS_ON_FIRST[0] => Some(first),
                _ if name == variants::LOSS_ON_EACH[0] => Some(each),
                _ if name == variants::LOSS_ON_FIRST[1] => Some(20e6),
                _ => None,
            });
            named(&found, what).cause.clone()
        };
        let direct = mathis(PathPoint { kbit: 32_000, rtt_ms: 64, loss_per_100k: 100, relays: 0 });
        let shown = cause(1.9 * direct, 1.75 * direct, "32 Mbit/s, 64 ms, 0.100 %: gain").unwrap();
        assert!(shown.contains("1.90 ×") && shown.contains("two have 62.5 %"), "{shown}");
        assert!(shown.contains("no reading has both"), "{shown}");
        assert_eq!(cause(1.5 * direct, 1.75 * direct, "32 Mbit/s, 64 ms, 0.100 %: gain"), None);
        for what in ["slope", "§VI-A"] {
            assert!(cause(1.5 * direct, 1.75 * direct, what).is_some(), "{what}");
            assert_eq!(cause(1.5 * direct, 1.5 * direct, what), None, "{what}");
        }
    }

    #[test]
    fn the_queue_is_why_nothing_is_gained_without_loss_only_where_dummynets_gains() {
        let cause = |relayed: f64| {
            let found = judged(stated, |name| {
                variants::NO_LOSS_DUMMYNET.iter().any(|(_, names)| names[1] == name).then_some(relayed)
            });
            let own = named(&found, "no loss: gain");
            assert_eq!(own.verdict, Verdict::Differs);
            own.cause.clone()
        };
        assert!(cause(1.9e6).is_some_and(|cause| cause.contains("1.90 × with 20 MB")));
        assert_eq!(cause(1.5e6), None);
    }

    #[test]
    fn cells_that_are_the_same_in_other_units_say_so() {
        let low = |cell: PathPoint| mathis(cell).min(0.94 * cell.kbit as f64 * 1e3);
        let twin = |law: &dyn Fn(PathPoint) -> f64| {
            let found = judged(law, |_| None);
            let own = named(&found, "128 Mbit/s, 32 ms, 0.100 %: utilization");
            format!("{} {}", own.reason, own.cause.clone().unwrap_or_default())
        };
        assert!(twin(&low).contains("the same run as 64 Mbit/s, 64 ms"));
        let other = |cell: PathPoint| if cell.rtt_ms == 32 { 0.9 * low(cell) } else { low(cell) };
        assert!(!twin(&other).contains("the same run as"));
    }

    /// What was measured between kernels in 32 Mbit/s and 64 ms, in Mbit/s: directly, with one relay and two, with one that waits, and with netcats.
    fn live(direct: f64, relays: [f64; 3], netcats: [Option<f64>; 2]) -> Live {
        let way = |rate: Option<f64>| serde_json::json!({ "bit_s": rate.map(|rate| rate * 1e6) });
        Live::of_cells(serde_json::json!([{
            "rtt_ms": 64, "mbit_s": 32, "loss_percent": 0.1, "direct": way(Some(direct)),
            "one_relay": way(Some(relays[0])), "two_relays": way(Some(relays[1])), "waiting": way(Some(relays[2])),
            "netcat": way(netcats[0]), "two_netcats": way(netcats[1]),
        }]))
    }

    #[test]
    fn what_kernels_do_is_judged() {
        let good = between_kernels(&live(7.0, [14.0, 28.0, 14.0], [Some(13.0), Some(27.0)]));
        assert_eq!(good.len(), 5);
        for what in ["gain", "utilization", "one relay, of netcat", "two relays, of netcat", "waits 16"] {
            assert!(holds(&good, what), "{what}");
        }
        let bad = between_kernels(&live(7.0, [17.0, 22.0, 10.0], [Some(17.1), Some(23.0)]));
        for what in ["gain", "utilization", "one relay, of netcat", "two relays, of netcat", "waits 16"] {
            assert!(!holds(&bad, what), "{what}");
        }
        let without = between_kernels(&live(7.0, [14.0, 28.0, 14.0], [None, None]));
        let netcat = named(&without, "one relay, of netcat");
        assert!(netcat.verdict == Verdict::Shown && netcat.ours.starts_with("not run"), "{netcat:?}");
        assert!(between_kernels(&Live::default()).is_empty());
    }

    #[test]
    fn live_and_simulated_rows_of_waiting_are_one() {
        let simulated = judged(stated, as_stated);
        let between = between_kernels(&live(7.0, [14.0, 28.0, 14.0], [None, None]));
        let what = |found: &[Finding]| named(found, "waits 16 windows, of one").what.clone();
        assert_eq!(what(&simulated), what(&between));
    }

    #[test]
    fn what_was_tried_for_table_2_is_no_cause() {
        let found = all(&matrix(stated), &variants(|name| (name == variants::WINDOW_RELAYED).then_some(9e6)));
        let own = found.iter().find(|own| own.what == TABLE_2).unwrap();
        assert!(own.verdict == Verdict::Differs && own.cause.is_none(), "{own:?}");
        assert!(own.reason.contains("157 kB toward the client (1.00"), "{own:?}");
    }

    #[test]
    fn every_finding_can_fail() {
        let fails = |what: &str, law: &dyn Fn(PathPoint) -> f64| {
            assert!(!holds(&judged(law, as_stated), what), "{what}");
        };
        let no_gain =
            |cell: PathPoint| mathis(PathPoint { relays: 0, ..cell }).min(0.94 * cell.kbit as f64 * 1e3);
        for what in [
            "gain of one relay",
            "utilization with one",
            "utilization with two",
            "gains a tenth",
            "slope",
            "§VI-A",
        ] {
            let found = judged(no_gain, |name| as_stated(name).filter(|_| name != variants::NO_LOSS[1]));
            assert!(!holds(&found, what), "{what}");
        }
        fails("largest", &|cell| 0.5 * stated(cell));
        fails("correlation", &|cell| if cell.rtt_ms % 32 == 0 { 1e5 } else { 3e5 });
        fails("the second relay adds", &|cell| {
            if cell.relays == 2 { 3.0 * stated(cell) } else { stated(cell) }
        });
        fails("Fig. 5", &|cell| 0.1 * mathis(cell));
        let found = judged(stated, |_| None);
        for what in ["no loss: gain", "Table II", "§III-C", "§III-B", "§VI-C"] {
            assert!(!holds(&found, what), "{what}");
        }
        let slow = judged(stated, |name| (name == variants::WAITING).then_some(0.5e6));
        assert!(!holds(&slow, "waits 16 windows, of one"));
        let mut dry = variants(as_stated);
        dry.iter_mut().for_each(|own| own.drought = Some(0.03));
        assert!(!holds(&all(&matrix(stated), &dry), "is dry"));
    }

    #[test]
    fn what_equations_allow_is_a_cause_only_where_it_is_less_than_stated() {
        let low = |cell: PathPoint| mathis(cell).min(0.94 * cell.kbit as f64 * 1e3);
        let found = judged(low, |_| None);
        let one = named(&found, "64 Mbit/s, 64 ms, 0.100 %: utilization");
        assert!(one.verdict == Verdict::Differs && one.cause.is_some(), "{one:?}");
        // Two relays have a third of round trip and loss on each leg, for which the equations allow more than the link has.
        let found = judged(|cell| 0.8 * low(cell), |_| None);
        let two = named(&found, "32 Mbit/s, 64 ms, 0.100 %: utilization with two");
        assert!(two.verdict == Verdict::Differs && two.cause.is_none(), "{two:?}");
        assert!(two.reason.contains("four connections have"), "{two:?}");
    }
}
