//! What came of the runs, and whether it holds.
use super::NoiseCase;
use super::disturbance::Disturbance;
use crate::direct_or_split::DirectOrSplit;
use serde_json::{Value, json};
use shorthaul_observe::Summary;
use shorthaul_report::{Column, Table, TableCell, Tone, Unit};

/// Of the undisturbed throughput, at least this share has to be left.
pub const LEAST: f64 = 0.95;

/// What one run saw.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub cell: NoiseCase,
    pub way: DirectOrSplit,
    pub disturbance: Disturbance,
    /// Which turn: runs of one turn follow each other.
    pub turn: u32,
    /// Received bits a second.
    pub goodput: f64,
    /// The 99th percentile of how late the emulated links delivered, in seconds.
    pub emulator_late: f64,
    /// The share of processor time that the host of this virtual machine gave to others.
    pub steal: f64,
    /// How long the gateway waited for a processor, in seconds.
    pub gateway_waited: f64,
    /// How long it stood still, in seconds.
    pub stood: f64,
}

/// The disturbed runs of a cell and way beside the undisturbed ones of the same turns.
#[derive(Clone, Debug)]
pub struct Compared {
    pub cell: NoiseCase,
    pub way: DirectOrSplit,
    pub disturbance: Disturbance,
    /// Received bits a second, undisturbed, in the mean.
    pub undisturbed: f64,
    /// The mean share of each turn's undisturbed throughput that was left.
    pub share: f64,
    /// Half of its 95 % interval, if there were several turns.
    pub within: Option<f64>,
    /// The largest lateness of the emulated links in these runs, and the largest steal.
    pub emulator_late: f64,
    pub steal: f64,
    pub gateway_waited: f64,
    pub stood: f64,
}

impl Compared {
    /// Each disturbance of each cell and way, in the order of the runs.
    pub fn of(runs: &[Run]) -> Vec<Compared> {
        let mut all: Vec<Compared> = Vec::new();
        for run in runs.iter().filter(|run| run.disturbance != Disturbance::None) {
            let same = |other: &Compared| {
                (other.cell, other.way, other.disturbance) == (run.cell, run.way, run.disturbance)
            };
            if !all.iter().any(same) {
                all.extend(Compared::one(runs, run));
            }
        }
        all
    }

    fn one(runs: &[Run], like: &Run) -> Option<Compared> {
        let of = |disturbance| {
            runs.iter()
                .filter(move |run| (run.cell, run.way, run.disturbance) == (like.cell, like.way, disturbance))
        };
        let pairs = of(like.disturbance).filter_map(|run| {
            let base = of(Disturbance::None).find(|base| base.turn == run.turn)?;
            Some(run.goodput / base.goodput)
        });
        let shares = Summary::of(pairs)?;
        let most = |field: fn(&Run) -> f64| {
            of(like.disturbance).chain(of(Disturbance::None)).map(field).fold(0.0, f64::max)
        };
        Some(Compared {
            cell: like.cell,
            way: like.way,
            disturbance: like.disturbance,
            undisturbed: Summary::of(of(Disturbance::None).map(|run| run.goodput))?.mean,
            share: shares.mean,
            within: shares.confidence(),
            emulator_late: most(|run| run.emulator_late),
            steal: most(|run| run.steal),
            gateway_waited: most(|run| run.gateway_waited),
            stood: most(|run| run.stood),
        })
    }

    /// Whether it says something of a gateway that splits.
    pub fn counts(&self) -> bool {
        self.way == DirectOrSplit::Split
    }

    /// Whether the throughput is what it has to be; `None` where the interval has the bound in it, or there is none.
    pub fn holds(&self) -> Option<bool> {
        let within = self.within?;
        if self.share - within >= LEAST {
            return Some(true);
        }
        (self.share + within < LEAST).then_some(false)
    }

    fn text(&self) -> String {
        match self.within {
            Some(within) => format!("{:.3} ± {within:.3}", self.share),
            None => format!("{:.3}", self.share),
        }
    }
}

/// A line for each.
pub fn table(compared: &[Compared]) -> Table {
    let mut table = Table::new([
        Column::left("path"),
        Column::left("ends"),
        Column::left("way"),
        Column::left("disturbance"),
        Column::right("undisturbed"),
        Column::right("left of it"),
        Column::right("gateway waited"),
        Column::right("stood still"),
        Column::right("links late"),
        Column::right("steal"),
    ]);
    for row in compared {
        let tone = match (row.counts(), row.holds()) {
            (false, _) => Tone::Quiet,
            (true, Some(true)) => Tone::Good,
            (true, Some(false)) => Tone::Bad,
            (true, None) => Tone::Plain,
        };
        table.row([
            TableCell::from(row.cell.path.name),
            row.cell.congestion.into(),
            row.way.to_string().into(),
            row.disturbance.to_string().into(),
            Unit::BitsPerSecond.format(row.undisturbed).into(),
            TableCell::toned(row.text(), tone),
            Unit::Seconds.format(row.gateway_waited).into(),
            Unit::Seconds.format(row.stood).into(),
            Unit::Seconds.format(row.emulator_late).into(),
            format!("{:.0} %", row.steal * 100.0).into(),
        ]);
    }
    table
}

/// All of it for programs.
pub fn json(compared: &[Compared], runs: &[Run], turns: u32) -> Value {
    let row = |row: &Compared| {
        json!({
            "path": row.cell.path.name, "ends": row.cell.congestion, "way": row.way.to_string(),
            "disturbance": row.disturbance.to_string(), "undisturbed_bit_per_s": row.undisturbed,
            "share": row.share, "within": row.within, "holds": row.holds().filter(|_| row.counts()),
            "links_late_p99_s": row.emulator_late, "steal": row.steal,
        })
    };
    let run = |run: &Run| {
        json!({
            "path": run.cell.path.name, "ends": run.cell.congestion, "way": run.way.to_string(),
            "disturbance": run.disturbance.to_string(), "turn": run.turn, "goodput_bit_per_s": run.goodput,
            "links_late_p99_s": run.emulator_late, "steal": run.steal, "gateway_waited_s": run.gateway_waited,
            "stood_still_s": run.stood,
        })
    };
    let worst = compared.iter().filter(|row| row.counts()).map(|row| row.share).fold(f64::INFINITY, f64::min);
    json!({
        "bench": "noise", "turns": turns, "bound": LEAST, "worst_share": worst,
        "compared": compared.iter().map(row).collect::<Vec<_>>(),
        "runs": runs.iter().map(run).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{PATHS, Path};
    use super::*;

    fn run(way: DirectOrSplit, disturbance: Disturbance, turn: u32, goodput: f64) -> Run {
        let cell = NoiseCase { path: &PATHS[0] as &'static Path, congestion: "bbr" };
        let [emulator_late, steal, gateway_waited, stood] = [0.0; 4];
        Run { cell, way, disturbance, turn, goodput, emulator_late, steal, gateway_waited, stood }
    }

    #[test]
    fn disturbed_runs_stand_beside_those_of_the_same_turn() {
        let runs = [
            run(DirectOrSplit::Split, Disturbance::None, 1, 10e6),
            run(DirectOrSplit::Split, Disturbance::Stopped, 1, 9e6),
            run(DirectOrSplit::Split, Disturbance::None, 2, 20e6),
            run(DirectOrSplit::Split, Disturbance::Stopped, 2, 18e6),
            run(DirectOrSplit::Direct, Disturbance::None, 1, 10e6),
            run(DirectOrSplit::Direct, Disturbance::Busy, 1, 10e6),
        ];
        let compared = Compared::of(&runs);
        assert_eq!(compared.len(), 2);
        assert!((compared[0].share - 0.9).abs() < 1e-9 && compared[0].within.unwrap() < 1e-9);
        assert!(compared[0].counts() && compared[0].holds() == Some(false));
        assert!(!compared[1].counts() && compared[1].holds().is_none(), "one turn tells nothing");
        let json = json(&compared, &runs, 2);
        assert!((json["worst_share"].as_f64().unwrap() - 0.9).abs() < 1e-9);
        assert_eq!(json["runs"].as_array().unwrap().len(), 6);
    }

    #[test]
    fn what_the_interval_leaves_open_is_no_judgement() {
        let row = |share, within| {
            let runs = [
                run(DirectOrSplit::Split, Disturbance::None, 1, 1.0),
                run(DirectOrSplit::Split, Disturbance::Busy, 1, 1.0),
            ];
            Compared { share, within: Some(within), ..Compared::of(&runs).remove(0) }.holds()
        };
        assert_eq!(row(0.926, 0.146), None);
        assert_eq!(row(0.999, 0.004), Some(true));
        assert_eq!(row(0.817, 0.1), Some(false));
    }
}
