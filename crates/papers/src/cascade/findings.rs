//! What the paper states, beside what simulation and model say.
use super::cell::PathPoint;
use super::live::Live;
use super::matrix::{Matrix, Measured};
use super::variants::{self, Variant};
use shorthaul_observe::{Finding, Summary};
use shorthaul_report::{Column, Table, Unit};

/// A gain that is worth a relay.
const WORTHWHILE: f64 = 1.1;
/// A number that is off by no more than this share agrees.
const NEAR: f64 = 0.1;
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
    let rate =
        |name: &str| variants.iter().find(|variant| variant.name == name).map(|variant| variant.throughput);
    let mut found = Vec::new();
    let direct = matrix.get(cell(32, 64, 100, 0)).map(|measured| measured.throughput);
    let on_first = rate(variants::LOSS_ON_FIRST).zip(direct).map(|(relayed, direct)| relayed / direct);
    for doubled in [cell(8, 256, 100, 1), cell(32, 64, 100, 1)] {
        let gain = gain(matrix, doubled, "up to twice").map(|gain| {
            gain.explained(
                format!(
                    "the loss is not shared by the legs, perhaps: with all of it on the first the gain is {} (variant `{}`)",
                    times(on_first.unwrap_or(f64::NAN)),
                    variants::LOSS_ON_FIRST
                ),
                on_first.is_some_and(|gain| (gain / 2.0 - 1.0).abs() <= NEAR),
            )
        });
        found.extend(gain);
    }
    found.extend(without_loss(variants));
    let four = |name: &str, capacity: f64| rate(name).map(|rate| rate / capacity);
    for (cell, paper, least, streams) in [
        (cell(32, 64, 100, 2), "about 90 %", 0.85, variants::FOUR_32),
        (cell(64, 64, 100, 1), "above 80 %", 0.80, variants::FOUR_64),
        (cell(128, 32, 100, 1), "above 80 %", 0.80, variants::FOUR_128),
    ] {
        let share = four(streams, cell.kbit as f64 * 1e3);
        let utilization = utilization(matrix, cell, paper, least).map(|found| {
            found.explained(
                format!(
                    "equation 4 allows a connection no more with half of the loss on each leg; four connections have {} (variant `{streams}`)",
                    percent(share.unwrap_or(f64::NAN))
                ),
                share.is_some_and(|share| share >= least),
            )
        });
        found.extend(utilization);
    }
    found.extend(second_relay(matrix, 10));
    found.extend(second_relay(matrix, 1_000));
    found.extend(ceiling(matrix));
    found.extend(worthwhile(matrix));
    found.extend(correlation(matrix));
    found.extend(steepness(matrix));
    found.extend(model_of_figure_5(matrix));
    found.extend(table_2(variants));
    found.extend(set_up(variants));
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

/// What was measured between kernels of what is stated of such cells.
pub(super) fn between_kernels(live: &Live) -> Vec<Finding> {
    let mut found = Vec::new();
    for cell in live.cells().filter(|cell| cell.loss_per_100k == 100 && cell.product() == 256_000.0) {
        let with = |relays| PathPoint { relays, ..cell };
        if let Some(gain) = live.gain(with(1)) {
            let what = format!("{}: gain of {}", name(cell), relays(with(1)));
            found.push(Finding::number(what, "up to twice", gain, Unit::Times).within(NEAR, 2.0));
        }
        if let Some(rate) = live.rate(with(2)) {
            let what = format!("{}: utilization with {}", name(cell), relays(with(2)));
            let share = rate / (cell.kbit as f64 * 1e3);
            found.push(Finding::number(what, "about 90 %", share, Unit::Percent).at_least(0.85));
        }
        for relays in [1, 2] {
            if let (Some(netcat), Some(ours)) = (live.netcat_gain(with(relays)), live.gain(with(relays))) {
                let what =
                    format!("{}: {}, of netcat in their place", name(cell), self::relays(with(relays)));
                let found_here =
                    Finding::number(what, "the paper's relays are netcat", ours / netcat, Unit::Times);
                found.push(found_here.at_least(1.0 - NEAR));
            }
        }
        if let Some(share) = live.waiting(cell) {
            let what = format!("{}: one relay that waits 16 windows, of one that does not", name(cell));
            let stated = "so that its buffer does not run dry (equation 6)";
            found.push(Finding::number(what, stated, share, Unit::Times).at_least(1.0 - NEAR));
        }
    }
    found
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
            .within(NEAR, 2.0)
            .model(times(matrix.get(cell)?.forecast / long_haul.forecast)),
    )
}

/// "With zero losses, Cascaded TCP enables throughput up to twice as much as long-haul TCP connections; this is observed even when
/// latencies are as high as 256 ms" (§V-A 4).
fn without_loss(variants: &[Variant]) -> Option<Finding> {
    let [direct, relayed] =
        variants::NO_LOSS.map(|name| variants.iter().find(|variant| variant.name == name));
    let (direct, relayed) = (direct?, relayed?);
    let windowed = variants::NO_LOSS_WINDOW
        .map(|name| variants.iter().find(|variant| variant.name == name).map(|own| own.throughput));
    let windowed = windowed[0].zip(windowed[1]).map(|(direct, relayed)| relayed / direct);
    Some(
        Finding::number(
            "32 Mbit/s, 256 ms, no loss: gain of one relay",
            "up to twice",
            relayed.throughput / direct.throughput,
            Unit::Times,
        )
        .within(NEAR, 2.0)
        .model(times(relayed.forecast / direct.forecast))
        .explained(
            format!(
                "without losses only windows bind: with windows of 256 kB, a quarter of the product, the gain is {} (variant `{}`)",
                times(windowed.unwrap_or(f64::NAN)),
                variants::NO_LOSS_WINDOW[1]
            ),
            windowed.is_some_and(|gain| (gain / 2.0 - 1.0).abs() <= NEAR),
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
    let point = |measured: &Measured| {
        let mathis = matrix.get(PathPoint { relays: 0, ..measured.cell })?.equations;
        let free = measured.utilization() < 0.8 && measured.steady && mathis.is_finite();
        free.then(|| (mathis.ln(), measured.throughput.ln()))
    };
    matrix.cells().filter(|measured| measured.cell.relays == relays).filter_map(point).collect()
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
        .within(0.2, 2.0)
        .model(format!("{}: equation 8", times(2f64.powf(1.5))))
        .explained(
            "equation 8: half of the round trip and half of the loss on each leg make 2^(3/2) (cells of Figure 4)",
            (relayed / direct / 2f64.powf(1.5) - 1.0).abs() <= 0.15,
        ),
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
const ACCEPTABLE: f64 = 0.5;

/// Figure 5: "the analytical model provides acceptable approximations", where its prediction is not beyond the link.
fn model_of_figure_5(matrix: &Matrix) -> Option<Finding> {
    let in_figure = |measured: &&Measured| {
        let Measured { cell, equations, .. } = measured;
        cell.kbit == 128_000 && cell.relays < 2 && *equations < 128e6 && measured.steady
    };
    let errors = matrix.cells().filter(in_figure).map(|own| (own.equations / own.throughput - 1.0).abs());
    let errors = Summary::of(errors)?;
    // Equation 4 with b = 2: c = √(3/2b), as for senders that count acknowledgments, of which receivers send one for two segments.
    let halved = matrix
        .cells()
        .filter(in_figure)
        .map(|own| (own.equations / 2f64.sqrt() / own.throughput - 1.0).abs());
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

/// What Table II's row is called.
pub(super) const TABLE_2: &str = "Table II, hosts with a window of 328 kB: gain of one relay";

fn table_2(variants: &[Variant]) -> Option<Finding> {
    let find = |name| variants.iter().find(|variant| variant.name == name);
    let (direct, relayed) = (find(variants::WINDOW_DIRECT)?, find(variants::WINDOW_RELAYED)?);
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
    let rate = |name| Some(variants.iter().find(|variant| variant.name == name)?.throughput);
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
    let [parallel, sequential] =
        variants::SMALL.map(|name| variants.iter().find(|variant| variant.name == name));
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

    /// Table I as a law says it: throughput of a cell in bit/s.
    fn matrix(law: impl Fn(PathPoint) -> f64) -> Matrix {
        Matrix::of(PathPoint::all().into_iter().map(|cell| Measured {
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
            _ => None,
        }
    }

    #[test]
    fn what_the_paper_states_holds() {
        let found = all(&matrix(stated), &variants(as_stated));
        for what in [
            "no loss",
            "largest",
            "correlation",
            "Table II",
            "§III-C",
            "utilization with one relay",
            "8 Mbit/s, 256 ms, 0.100 %: gain",
        ] {
            assert!(holds(&found, what), "{what}");
        }
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
            assert!(!holds(&all(&matrix(law), &variants(as_stated)), what), "{what}");
        };
        let no_gain =
            |cell: PathPoint| mathis(PathPoint { relays: 0, ..cell }).min(0.94 * cell.kbit as f64 * 1e3);
        for what in
            ["gain of one relay", "utilization with one", "utilization with two", "gains a tenth", "slope"]
        {
            assert!(
                !holds(
                    &all(
                        &matrix(no_gain),
                        &variants(|name| as_stated(name).filter(|_| name != variants::NO_LOSS[1]))
                    ),
                    what
                ),
                "{what}"
            );
        }
        fails("largest", &|cell| 0.5 * stated(cell));
        fails("correlation", &|cell| if cell.rtt_ms % 32 == 0 { 1e5 } else { 3e5 });
        fails("the second relay adds", &|cell| {
            if cell.relays == 2 { 3.0 * stated(cell) } else { stated(cell) }
        });
        fails("Fig. 5", &|cell| 0.1 * mathis(cell));
        let found = all(&matrix(stated), &variants(|_| None));
        assert!(!holds(&found, "no loss") && !holds(&found, "Table II") && !holds(&found, "§III-C"));
    }

    #[test]
    fn a_variant_is_a_cause_only_if_it_has_what_is_stated() {
        let low = |cell: PathPoint| mathis(cell).min(0.94 * cell.kbit as f64 * 1e3);
        let four = |reached: f64| {
            let found = all(&matrix(low), &variants(|name| (name == variants::FOUR_64).then_some(reached)));
            found
                .into_iter()
                .find(|own| own.what.contains("64 Mbit/s, 64 ms") && own.what.contains("utilization"))
                .unwrap()
        };
        assert_eq!(four(55e6).verdict, Verdict::Differs);
        assert!(four(55e6).cause.is_some() && four(40e6).cause.is_none());
    }
}
