use super::cell::PathPoint;
use crate::error::Result;
use serde::Serialize;
use shorthaul_observe::Ledger;
use shorthaul_observe::Summary;
use shorthaul_planner::chain::Ends;
use shorthaul_planner::{kalim, model};
use shorthaul_report::{Console, Csv, Field, Manifest, ReportError};
use shorthaul_sim::slowest_transfer;
use std::collections::BTreeMap;

/// The first seed of each cell. All cells have the same, so that long-haul and relayed runs meet the same faults.
pub(super) const SEED: u64 = 1;

/// What came of cells.
pub(super) struct Matrix {
    results: BTreeMap<PathPoint, Measured>,
}

/// What came of a cell; rates in bit/s of payload, from the first SYN until the last relay has drained.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Measured {
    pub cell: PathPoint,
    /// Payload in bytes.
    pub size: u64,
    /// Whether the size is what a steady state of 90 % takes, and not cut off before.
    pub steady: bool,
    /// Mean of the samples.
    pub throughput: f64,
    /// Half of its 95 % confidence interval; none for a single sample.
    pub confidence: Option<f64>,
    /// Of the planner's model.
    pub forecast: f64,
    /// Equations 1 to 9 without their waiting windows; not bounded by the link.
    pub equations: f64,
}

impl Measured {
    /// Throughput as a share of the link's rate.
    pub fn utilization(&self) -> f64 {
        self.throughput / self.capacity()
    }

    /// Half the confidence interval as a share of the link's rate.
    pub fn utilization_confidence(&self) -> f64 {
        self.confidence.unwrap_or(0.0) / self.capacity()
    }

    /// The model's.
    pub fn forecast_utilization(&self) -> f64 {
        self.forecast / self.capacity()
    }

    fn capacity(&self) -> f64 {
        self.cell.kbit as f64 * 1_000.0
    }
}

impl Matrix {
    /// Simulates and forecasts `cells`.
    pub fn run(
        cells: Vec<PathPoint>,
        ends: Ends,
        repeats: u64,
        ledger: &Ledger,
        console: &dyn Console,
    ) -> Result<Matrix> {
        let jobs = cells.iter().flat_map(|cell| {
            let scenario = cell.chain(ends).scenario();
            (SEED..SEED + repeats).map(move |seed| (scenario.clone(), seed))
        });
        ledger.fill(jobs.collect::<Vec<_>>(), slowest_transfer, console)?;
        let model = model::by_name(ends.model)?;
        let measured = |cell: PathPoint| -> Result<(PathPoint, Measured)> {
            let (size, steady) = cell.size();
            let chain = cell.chain(ends);
            let bits = size.0 as f64 * 8.0;
            let times = ledger.all(&chain.scenario(), SEED, repeats)?;
            let rates = Summary::of(times.into_iter().map(|time| bits / time));
            let (throughput, confidence) = rates.map_or((0.0, None), |r| (r.mean, r.confidence()));
            Ok((
                cell,
                Measured {
                    cell,
                    size: size.0,
                    steady,
                    throughput,
                    confidence,
                    forecast: bits / chain.forecast(&*model)?,
                    equations: bits / kalim::cascaded_time(&chain.path.legs, size, 0),
                },
            ))
        };
        Ok(Matrix { results: cells.into_iter().map(measured).collect::<Result<_>>()? })
    }

    /// What came of cells that were measured otherwise.
    #[cfg(test)]
    pub fn of(measured: impl IntoIterator<Item = Measured>) -> Self {
        Matrix { results: measured.into_iter().map(|measured| (measured.cell, measured)).collect() }
    }

    /// What came of a cell, if it was run.
    pub fn get(&self, cell: PathPoint) -> Option<&Measured> {
        self.results.get(&cell)
    }

    /// All cells.
    pub fn cells(&self) -> impl Iterator<Item = &Measured> {
        self.results.values()
    }

    /// How many times the throughput of the long-haul connection a cell has.
    pub fn gain(&self, cell: PathPoint) -> Option<f64> {
        let long_haul = self.get(PathPoint { relays: 0, ..cell })?;
        Some(self.get(cell)?.throughput / long_haul.throughput)
    }

    /// The model against the simulation, in a sentence.
    pub fn summary(&self) -> String {
        let errors = Summary::of(self.cells().map(|cell| (cell.forecast / cell.throughput - 1.0).abs()));
        let cut = self.cells().filter(|cell| !cell.steady).count();
        errors.map_or_else(String::new, |errors| {
            format!(
                "{} cells; model against simulation: median error {:.1} %, nine of ten below {:.1} %. In {cut} cells the transfer was cut short of 90 % steady state.",
                errors.count(),
                100.0 * errors.percentile(0.5),
                100.0 * errors.percentile(0.9),
            )
        })
    }

    /// A row for each cell.
    pub fn csv(&self, manifest: &Manifest) -> Result<Csv, ReportError> {
        let columns = [
            "rtt [ms]",
            "rate [kbit/s]",
            "loss",
            "relays",
            "size [B]",
            "steady",
            "throughput [bit/s]",
            "± 95 % [bit/s]",
            "utilization",
            "forecast [bit/s]",
            "equations 1-9 [bit/s]",
        ];
        let mut csv = Csv::new(manifest, &columns);
        for found in self.cells() {
            csv.row([
                Field::Integer(i128::from(found.cell.rtt_ms)),
                Field::Integer(i128::from(found.cell.kbit)),
                Field::Number(found.cell.loss_per_100k as f64 / 1e5),
                Field::Integer(found.cell.relays as i128),
                Field::Integer(i128::from(found.size)),
                Field::from(if found.steady { "yes" } else { "no" }),
                Field::Number(found.throughput),
                found.confidence.map_or(Field::Missing, Field::Number),
                Field::Number(found.utilization()),
                Field::Number(found.forecast),
                Field::Number(found.equations),
            ])?;
        }
        Ok(csv)
    }
}
