//! What the paper states, beside what simulation and model say.
mod capacity;
mod equations;

use super::cell::PathPoint;
use super::live::Live;
use super::matrix::{Matrix, Measured};
use super::variants::{self, Variant};
use shorthaul_observe::Finding;
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
    found.extend(capacity::decreases(matrix, variants));
    found.extend(capacity::beyond_twice(matrix));
    found.extend(capacity::by_capacity(matrix, variants));
    found.extend(capacity::relays_are_better(matrix));
    found.extend(capacity::anomaly(matrix, variants));
    found.extend(second_relay(matrix, 10));
    found.extend(second_relay(matrix, 1_000));
    found.extend(ceiling(matrix));
    found.extend(worthwhile(matrix));
    found.extend(equations::correlation(matrix));
    found.extend(equations::steepness(matrix).map(|found| reading.explains(found, ABOUT_TWICE)));
    found.extend(equations::model_of_figure_5(matrix));
    found.extend(equations::gain_of_figure_5(matrix).map(|found| reading.explains(found, ABOUT_TWICE)));
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
mod tests;
