//! The matrix: paths × servers × work, direct and through a gateway of which nothing is configured, in the simulator.
//!
//! Reading order: `matrix` (the cells, and their scenarios), `figures` (what of a run counts), `verdict` (the bounds), `whole_link` and `shares` (the same of
//! links that hosts share, and of traffic that is not split), `runs` (which runs are made), this file, `live` (some of the cells between kernels).
mod figures;
mod live;
mod matrix;
mod random;
mod runs;
mod shares;
mod verdict;
mod whole_link;

use crate::direct_or_split::DirectOrSplit;
use crate::error::{Result, While};
use crate::trial::{Judgement, Trial, select};
use live::Between;
use matrix::MatrixCell;
use runs::{Cell, Runs};
use shares::JudgedLink;
use shorthaul_live::Bounds;
use shorthaul_observe::Store;
use shorthaul_report::Console;
use std::path::{Path, PathBuf};
use verdict::Judged;
use whole_link::LinkCell;

/// Show that the gateway harms nobody: many paths, servers and kinds of work, simulated with and without it
///
/// Each cell is run with the same seeds and faults direct and through a gateway that knows its two interfaces and nothing
/// else. Bounds hold in every cell; where the seeds leave in doubt on which side of a bound a cell is, it gets more.
/// Behind the paths of one host come links that two, six and fifty share, and traffic that is not split (`whole-link/…`).
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

/// A cell of either kind.
enum AnyCell<'a> {
    Path(MatrixCell<'a>),
    Link(LinkCell),
}

impl AnyCell<'_> {
    fn name(&self) -> String {
        match self {
            AnyCell::Path(cell) => cell.name(),
            AnyCell::Link(cell) => cell.name(),
        }
    }

    fn check(&self, with: &[String]) -> Result<()> {
        match self {
            AnyCell::Path(cell) => cell.check(with),
            AnyCell::Link(cell) => cell.check(with),
        }
    }
}

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
        let mut cells: Vec<AnyCell<'_>> = matrix::cells(&paths).into_iter().map(AnyCell::Path).collect();
        if self.paths.is_none() && self.random.is_none() && !self.live {
            cells.extend(whole_link::cells().into_iter().map(AnyCell::Link));
        }
        let chosen = select(cells, filter, AnyCell::name)?;
        if self.list {
            chosen.iter().for_each(|cell| console.say(&cell.name()));
            return Ok(Judgement::listed(chosen.iter().map(AnyCell::name).collect()));
        }
        for cell in &chosen {
            cell.check(&self.with)?;
        }
        let (mut cells, mut links) = (Vec::new(), Vec::new());
        for cell in chosen {
            match cell {
                AnyCell::Path(cell) => cells.push(cell),
                AnyCell::Link(cell) => links.push(cell),
            }
        }
        if self.live {
            let Harmless { with, seed, pairs, bounds, .. } = self;
            return Between { with, seed: *seed, pairs: *pairs, bounds }.kernels(&cells, console);
        }
        let store = Store::open(&self.out)?;
        let runs = Runs {
            with: &self.with,
            seed: self.seed,
            seeds: self.repeats,
            most: self.at_most,
            jobs: self.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
            store: &store,
            console,
        };
        let judged = runs.judge(&cells, Judged::new)?;
        let judged_links = runs.judge(&links, JudgedLink::new)?;
        if let Some(directory) = &self.write {
            shorthaul_report::make_directory(directory)?;
            for judged in judged.iter().filter(|judged| !judged.holds()) {
                self.write_scenarios(directory, judged.cell)?;
            }
            for judged in judged_links.iter().filter(|judged| !judged.holds()) {
                self.write_scenarios(directory, judged.cell)?;
            }
        }
        Ok(verdict::report(&judged, &judged_links, self.all, console))
    }
}

impl Harmless {
    /// What a cell runs, as files.
    fn write_scenarios(&self, directory: &Path, cell: &impl Cell) -> Result<()> {
        for way in [DirectOrSplit::Direct, DirectOrSplit::Split] {
            let file = directory.join(format!("{}-{}.toml", cell.name().replace('/', "-"), way.name()));
            shorthaul_report::write_file(&file, cell.scenario(way, &self.with, self.seed))?;
        }
        Ok(())
    }
}
