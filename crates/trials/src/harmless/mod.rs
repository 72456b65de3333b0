//! The matrix: paths × servers × work, direct and through a gateway of which nothing is configured, in the simulator.
//!
//! Reading order: `matrix` (the cells, and their scenarios), `figures` (what of a run counts), `verdict` (the bounds), this
//! file (which runs are made), `live` (some of the cells between kernels).
mod figures;
mod live;
mod matrix;
mod random;
mod verdict;

use crate::direct_or_split::DirectOrSplit;
use crate::error::{Result, TrialError, While};
use crate::trial::{Judgement, Trial, select};
use figures::Figures;
use live::Between;
use matrix::MatrixCell;
use shorthaul_live::Bounds;
use shorthaul_observe::{Key, Store, in_parallel};
use shorthaul_report::{Console, Progress};
use shorthaul_sim::ENGINE;
use std::path::PathBuf;
use verdict::{Compared, Judged};

/// Show that the gateway harms nobody: many paths, servers and kinds of work, simulated with and without it
///
/// Each cell is run with the same seeds and faults direct and through a gateway that knows its two interfaces and nothing
/// else. Bounds hold in every cell; where the seeds leave in doubt on which side of a bound a cell is, it gets more.
/// What was run is kept, so that a matrix that was interrupted goes on where it was. The last line is the result as JSON.
#[derive(clap::Args)]
pub struct Harmless {
    /// Only cells whose name, such as `lte/cubic/bulk`, contains one of these
    #[arg(long, alias = "filter", value_name = "NAME")]
    only: Vec<String>,
    /// List the cells, and run none
    #[arg(long)]
    list: bool,
    /// A file with other paths, in the form of the project's own
    #[arg(long, value_name = "FILE")]
    paths: Option<PathBuf>,
    /// This many paths instead that nobody chose: rates, delays, queues and losses are drawn from --seed. What they are is
    /// written to the file drawn.toml below --out
    #[arg(long, value_name = "N", conflicts_with_all = ["paths", "live"], value_parser = clap::value_parser!(u32).range(1..=10_000))]
    random: Option<u32>,
    /// Lines of the gateway's section of the scenario, such as 'mode = "split"': to judge another gateway than the usual
    /// one
    #[arg(long = "with", value_name = "TOML")]
    with: Vec<String>,
    /// Run cells between kernels instead, direct and through the gateway by turns: eight of them, unless --only names
    /// others. Needs root, or a host that allows user namespaces
    #[arg(long, conflicts_with_all = ["repeats", "at_most", "jobs", "all", "write", "out"])]
    live: bool,
    /// Pairs of live runs of every cell
    #[arg(long, default_value_t = 5, requires = "live", value_parser = clap::value_parser!(u64).range(2..=1000))]
    pairs: u64,
    #[command(flatten)]
    bounds: Bounds,
    /// Seeds of every cell
    #[arg(long, alias = "seeds", default_value_t = 3, value_parser = clap::value_parser!(u64).range(2..=1000))]
    repeats: u64,
    /// Seeds of a cell that is near to a bound, at most
    #[arg(long, alias = "most-seeds", default_value_t = 24)]
    at_most: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many runs at once; as many as there are processors by default
    #[arg(long)]
    jobs: Option<usize>,
    /// Show all cells, and not the worst alone
    #[arg(long)]
    all: bool,
    /// Write a scenario file for each cell that fails into this directory
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
    /// Where results are kept
    #[arg(long, default_value = "out/harmless")]
    out: PathBuf,
}

/// What figures are made of: another number makes all runs anew.
const VERSION: &str = "1";

impl Trial for Harmless {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        let paths = match (&self.paths, self.random) {
            (_, Some(count)) => {
                let (paths, text) = random::paths(count, self.seed)?;
                shorthaul_report::make_directory(&self.out)?;
                shorthaul_report::write_file(&self.out.join("drawn.toml"), text)?;
                paths
            }
            (Some(file), None) => matrix::read(
                &file.display().to_string(),
                &std::fs::read_to_string(file).doing(format!("cannot read {}", file.display()))?,
            )?,
            (None, None) => matrix::own()?,
        };
        let unasked = self.live && self.only.is_empty() && self.paths.is_none();
        let eight: Vec<String> = live::CELLS.map(str::to_owned).into();
        let filter = if unasked { &eight } else { &self.only };
        let cells = select(matrix::cells(&paths), filter, MatrixCell::name)?;
        if self.list {
            cells.iter().for_each(|cell| console.say(&cell.name()));
            return Ok(Judgement::listed(cells.iter().map(MatrixCell::name).collect()));
        }
        for cell in &cells {
            cell.check(&self.with)?;
        }
        if self.live {
            let Harmless { with, seed, pairs, bounds, .. } = self;
            return Between { with, seed: *seed, pairs: *pairs, bounds }.kernels(&cells, console);
        }
        let judged = self.judge(&cells, console)?;
        if let Some(directory) = &self.write {
            shorthaul_report::make_directory(directory)?;
            for judged in judged.iter().filter(|judged| !judged.holds()) {
                for way in [DirectOrSplit::Direct, DirectOrSplit::Split] {
                    let file = directory.join(format!(
                        "{}-{}.toml",
                        judged.cell.name().replace('/', "-"),
                        way.name()
                    ));
                    shorthaul_report::write_file(&file, judged.cell.scenario(way, &self.with, self.seed))?;
                }
            }
        }
        Ok(verdict::report(&judged, self.all, console))
    }
}

impl Harmless {
    /// Runs what is to be run, first all cells with few seeds, then those in doubt with more.
    fn judge<'a>(&self, cells: &'a [MatrixCell<'a>], console: &dyn Console) -> Result<Vec<Judged<'a>>> {
        let store = Store::open(&self.out)?;
        let progress = Progress::begin(console, 0);
        let mut seeds = vec![self.repeats; cells.len()];
        loop {
            self.fill(cells.iter().zip(&seeds), &store, &progress)?;
            let judged: Vec<Judged<'a>> = cells
                .iter()
                .zip(&seeds)
                .map(|(cell, seeds)| Ok(Judged::new(cell, self.compared(cell, *seeds, &store)?)))
                .collect::<Result<_>>()?;
            let mut more = false;
            for (judged, seeds) in judged.iter().zip(&mut seeds) {
                if judged.is_in_doubt() && *seeds < self.at_most {
                    *seeds = (2 * *seeds).min(self.at_most);
                    more = true;
                }
            }
            if !more {
                return Ok(judged);
            }
        }
    }

    fn key(&self, text: &str, seed: u64) -> Key {
        Key::of([ENGINE.as_bytes(), VERSION.as_bytes(), text.as_bytes(), &seed.to_le_bytes()])
    }

    /// Makes the runs that were not made yet.
    fn fill<'a>(
        &self,
        cells: impl Iterator<Item = (&'a MatrixCell<'a>, &'a u64)>,
        store: &Store,
        progress: &Progress<'_>,
    ) -> Result<()> {
        let mut missing = Vec::new();
        for (cell, seeds) in cells {
            for way in [DirectOrSplit::Direct, DirectOrSplit::Split] {
                for seed in self.seed..self.seed + seeds {
                    let text = cell.scenario(way, &self.with, seed);
                    let key = self.key(&text, seed);
                    if store.get::<Figures>(&key).is_none() {
                        missing.push((key, text, seed, cell.name()));
                    }
                }
            }
        }
        progress.extend(missing.len());
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        in_parallel(self.jobs.unwrap_or(threads), missing, |(key, text, seed, name)| {
            let figures = figures::run(&text, seed)
                .map_err(|why| TrialError::Failed(format!("{name}, seed {seed}: {why}")))?;
            store.put(&key, &figures);
            progress.step("");
            Ok::<(), TrialError>(())
        })?;
        Ok(())
    }

    fn compared(&self, cell: &MatrixCell<'_>, seeds: u64, store: &Store) -> Result<Compared> {
        let figures = |way| {
            let kept = |seed| store.get::<Figures>(&self.key(&cell.scenario(way, &self.with, seed), seed));
            let all = (self.seed..self.seed + seeds).map(kept);
            let lost = || TrialError::Failed(format!("what was run is not in {}", self.out.display()));
            all.collect::<Option<Vec<_>>>().ok_or_else(lost)
        };
        Ok(Compared { direct: figures(DirectOrSplit::Direct)?, gateway: figures(DirectOrSplit::Split)? })
    }
}
