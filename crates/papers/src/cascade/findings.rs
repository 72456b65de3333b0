use super::cell::PathPoint;
use super::matrix::Matrix;
use super::variants::{Variant, WINDOW_DIRECT, WINDOW_RELAYED};
use serde::Serialize;
use shorthaul_observe::Finding;
use shorthaul_report::{Column, Table, Unit};

/// What the paper states, beside what simulation and model say.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Beside {
    #[serde(flatten)]
    pub finding: Finding,
    /// What the planner's model says.
    pub model: String,
}

impl Beside {
    fn new(what: impl Into<String>, paper: impl Into<String>, simulated: String, model: String) -> Self {
        Beside { finding: Finding::shown(what, paper, simulated), model }
    }

    fn because(self, reason: &str) -> Self {
        Beside { finding: self.finding.because(reason), ..self }
    }
}

/// A gain that is worth a relay.
const WORTHWHILE: f64 = 1.1;

fn percent(share: f64) -> String {
    Unit::Percent.format(share)
}

fn times(gain: f64) -> String {
    Unit::Times.format(gain)
}

/// All that was run has something to say about.
pub(super) fn all(matrix: &Matrix, variants: &[Variant]) -> Vec<Beside> {
    let cell = |mbit: u64, rtt_ms, loss_per_100k, relays| PathPoint {
        kbit: mbit * 1000,
        rtt_ms,
        loss_per_100k,
        relays,
    };
    let mut found = Vec::new();
    let beyond = "equations 5 and 8 say 2.8 where no link binds";
    for (cell, remark) in
        [(cell(8, 256, 100, 1), beyond), (cell(32, 64, 100, 1), beyond), (cell(32, 256, 1, 1), "")]
    {
        found.extend(gain(matrix, cell, "up to twice", remark));
    }
    found.extend(utilization(matrix, cell(32, 64, 100, 2), "about 90 %", ""));
    let efficient = "equation 4 allows a third of the link with half of the loss on each leg";
    found.extend(utilization(matrix, cell(64, 64, 100, 1), "above 80 %", efficient));
    found.extend(utilization(matrix, cell(128, 32, 100, 1), "above 80 %", efficient));
    found.extend(second_relay(matrix, 10));
    found.extend(second_relay(matrix, 1_000));
    found.extend(ceiling(matrix));
    found.extend(worthwhile(matrix));
    found.extend(table_2(variants));
    let beside = variants.iter().filter(|variant| variant.paper.is_none()).map(|variant| {
        Beside::new(
            format!("32 Mbit/s, 64 ms, 0.1 %: {}", variant.name),
            "",
            Unit::BitsPerSecond.format(variant.throughput),
            Unit::BitsPerSecond.format(variant.forecast),
        )
    });
    found.extend(beside);
    found
}

fn name(cell: PathPoint) -> String {
    let loss = Unit::Percent.format(cell.loss_per_100k as f64 / 1e5);
    format!("{} Mbit/s, {} ms, {loss}", cell.kbit as f64 / 1e3, cell.rtt_ms)
}

fn relays(cell: PathPoint) -> &'static str {
    ["long-haul", "one relay", "two relays"].get(cell.relays).copied().unwrap_or("relays")
}

fn gain(matrix: &Matrix, cell: PathPoint, paper: &str, remark: &'static str) -> Option<Beside> {
    let long_haul = matrix.get(PathPoint { relays: 0, ..cell })?;
    Some(
        Beside::new(
            format!("{}: gain of {}", name(cell), relays(cell)),
            paper,
            times(matrix.gain(cell)?),
            times(matrix.get(cell)?.forecast / long_haul.forecast),
        )
        .because(remark),
    )
}

fn utilization(matrix: &Matrix, cell: PathPoint, paper: &str, remark: &'static str) -> Option<Beside> {
    let measured = matrix.get(cell)?;
    let half = measured.utilization_confidence();
    Some(
        Beside::new(
            format!("{}: utilization with {}", name(cell), relays(cell)),
            paper,
            format!("{} ± {}", percent(measured.utilization()), percent(half)),
            percent(measured.forecast_utilization()),
        )
        .because(remark),
    )
}

/// How much of the link the second relay adds, as a part of what the first adds.
fn second_relay(matrix: &Matrix, loss_per_100k: u64) -> Option<Beside> {
    let cell = |relays| PathPoint { kbit: 32_000, rtt_ms: 64, loss_per_100k, relays };
    let measured = [matrix.get(cell(0))?, matrix.get(cell(1))?, matrix.get(cell(2))?];
    let added = |rate: [f64; 3]| percent((rate[2] - rate[1]) / (rate[1] - rate[0]));
    Some(Beside::new(
        format!("{}: the second relay adds, of what the first did", name(cell(2))),
        if loss_per_100k >= 1_000 { "similar" } else { "less" },
        added(measured.map(|m| m.throughput)),
        added(measured.map(|m| m.forecast)),
    ))
}

fn ceiling(matrix: &Matrix) -> Option<Beside> {
    let most = |share: fn(&super::matrix::Measured) -> f64| matrix.cells().map(share).reduce(f64::max);
    Some(
        Beside::new(
            "the largest utilization of all cells",
            "about 94 %",
            percent(most(super::matrix::Measured::utilization)?),
            percent(most(super::matrix::Measured::forecast_utilization)?),
        )
        .because("1448 of 1538 bytes; above 100 % in the paper where Dummynet is coarse"),
    )
}

/// From which bandwidth-delay product on one relay is worth it, at 0.1 % of loss.
fn worthwhile(matrix: &Matrix) -> Option<Beside> {
    let relayed: Vec<_> =
        matrix.cells().filter(|m| m.cell.relays == 1 && m.cell.loss_per_100k == 100).collect();
    let bounds = |gain: &dyn Fn(PathPoint) -> Option<f64>| {
        let gains = || relayed.iter().filter_map(|m| Some((m.cell.product(), gain(m.cell)?)));
        let from = gains().filter(|(_, gain)| *gain >= WORTHWHILE).map(|(product, _)| product);
        let to = gains().filter(|(_, gain)| *gain < WORTHWHILE).map(|(product, _)| product);
        let show = |product: Option<f64>| product.map_or("none".to_owned(), |p| Unit::Bytes.format(p));
        format!("from {}; not up to {}", show(from.reduce(f64::min)), show(to.reduce(f64::max)))
    };
    if relayed.is_empty() {
        return None;
    }
    Some(Beside::new(
        "0.1 %: one relay gains a tenth, by bandwidth-delay product",
        "from 32 KB",
        bounds(&|cell| matrix.gain(cell)),
        bounds(&|cell| {
            Some(matrix.get(cell)?.forecast / matrix.get(PathPoint { relays: 0, ..cell })?.forecast)
        }),
    ))
}

fn table_2(variants: &[Variant]) -> Option<Beside> {
    let find = |name| variants.iter().find(|variant| variant.name == name);
    let (direct, relayed) = (find(WINDOW_DIRECT)?, find(WINDOW_RELAYED)?);
    Some(
        Beside::new(
            "Table II, hosts with a window of 328 kB: gain of one relay",
            times(relayed.paper? / direct.paper?),
            times(relayed.throughput / direct.throughput),
            times(relayed.forecast / direct.forecast),
        )
        .because("windows alone give 448/295 = 1.52; the paper's path had cross traffic"),
    )
}

/// For people.
pub(super) fn table(findings: &[Beside]) -> Table {
    let mut table = Table::new([
        Column::left("what"),
        Column::right("paper"),
        Column::right("simulated"),
        Column::right("model"),
        Column::left("remark"),
    ]);
    for Beside { finding, model } in findings {
        table
            .row([&finding.what, &finding.stated, &finding.ours, model, &finding.reason].map(String::as_str));
    }
    table
}
