//! `shorthaul endpoint parity`: our sender against the kernel's own, over the same path.
//!
//! Reading order: `cell` (what is compared), `transfer` (one transfer, live), `machine` (was it quiet?),
//! `result`, `show`.
mod cell;
mod machine;
mod result;
mod show;
mod transfer;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use shorthaul_lab::Privilege;
use shorthaul_report::{Manifest, Terminal, Unit};
use shorthaul_types::{Bytes, Seed, format_duration};

use cell::Cell;
use machine::ProcessorTime;
use result::{Pair, Row};
use shorthaul_observe::Progress;
use transfer::Who;

/// Our sender against the kernel's, with the same congestion control, over the same path.
///
/// The receiver is always the kernel, both senders lose the same packets, and of several pairs of
/// transfers the median counts. Prints a table and writes it (Markdown, CSV, JSON) with a picture. The
/// last line is JSON. Exits with status 0 only if every cell reaches its bound. Needs root, or a kernel
/// that allows user namespaces, and a machine with nothing else to do.
#[derive(clap::Args)]
pub struct Args {
    /// Three pairs instead of five, of transfers half as long: faster, and less exact.
    #[arg(long)]
    quick: bool,

    /// Pairs of transfers for each cell.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=99))]
    pairs: Option<u64>,

    /// Where tables and pictures go.
    #[arg(long, value_name = "DIR", default_value = "out/parity")]
    out: PathBuf,

    /// Only the cell of this name, or those whose name contains it. Can be given several times.
    #[arg(long, value_name = "NAME")]
    cells: Vec<String>,

    /// Seed of what the links lose.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// List the cells, and run nothing.
    #[arg(long)]
    list: bool,
}

impl Args {
    /// A whole name selects its cell, and part of one all that contain it.
    fn selected(&self) -> Vec<Cell> {
        let all = Cell::all();
        let whole = |name: &String| all.iter().any(|cell| cell.name() == *name);
        let fits = |cell: &Cell, name: &String| {
            if whole(name) { cell.name() == *name } else { cell.name().contains(name.as_str()) }
        };
        let named = |cell: &&Cell| self.cells.is_empty() || self.cells.iter().any(|name| fits(cell, name));
        all.iter().filter(named).copied().collect()
    }

    fn pairs(&self) -> u64 {
        self.pairs.unwrap_or(if self.quick { 3 } else { 5 })
    }
}

/// Measures the cells; an error if one of them could not be measured or does not reach its bound.
pub fn run(args: &Args) -> Result<()> {
    let cells = args.selected();
    if cells.is_empty() {
        bail!("no cell has a name that contains `{}`; `--list` shows them all", args.cells.join("` or `"));
    }
    if args.list {
        for cell in &cells {
            println!(
                "{:<28} {:>8}, at least {}",
                cell.name(),
                cell.amount(args.quick).to_string(),
                cell.bound()
            );
        }
        return Ok(());
    }
    // While the process has a single thread: the kernel asks for that.
    Privilege::obtain()?;
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let started = Instant::now();
    let progress = Progress::new(Terminal::stderr(), cells.len() as u64 * args.pairs());
    let rows: Vec<Row> = cells.iter().map(|cell| measure(args, cell, &progress)).collect();
    progress.finish();

    let manifest = manifest(args.seed);
    print!("{}", show::table(&rows).render(Terminal::stdout()));
    for (row, failure) in rows.iter().filter_map(|row| Some((row, row.failure.as_ref()?))) {
        println!("{}: {failure}", row.cell.name());
    }
    let write = |name: &str, text: &str| {
        let file = args.out.join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
    };
    write("parity.md", &show::markdown(&rows, &manifest))?;
    write("parity.json", &format!("{:#}\n", show::json(&rows, &manifest)))?;
    show::csv(&rows, &manifest)?.save(&args.out.join("parity.csv"))?;
    show::trace(&rows, &manifest)?.save(&args.out.join("trace.csv"))?;
    show::figure(&rows).save(&args.out.join("parity"), &manifest)?;
    let failing: Vec<String> = rows.iter().filter(|row| !row.holds()).map(|row| row.cell.name()).collect();
    println!(
        "\n{} of {} cells reach their bound. Tables and pictures: {}/parity.md, .csv, .json, .svg, .png and trace.csv ({})",
        rows.len() - failing.len(),
        rows.len(),
        args.out.display(),
        format_duration(started.elapsed())
    );
    println!("{}", show::summary(&rows));
    if !failing.is_empty() {
        bail!("below the bound, or not measured: {}", failing.join(", "));
    }
    Ok(())
}

fn measure(args: &Args, cell: &Cell, progress: &Progress) -> Row {
    let bytes = cell.amount(args.quick);
    let mut row = Row { cell: *cell, bytes: bytes.0, pairs: Vec::new(), failure: None };
    for number in 0..args.pairs() {
        let seed = Seed(args.seed).derive(&cell.name_of_path()).nth(number);
        match run_undisturbed(cell, bytes, seed, number) {
            Ok(pair) => {
                let show = |who| Unit::BitsPerSecond.format(pair.by(who).goodput_bit_per_s);
                progress.ended(&format!(
                    "{:<28} ours {}, kernel {}: {:.2}",
                    cell.name(),
                    show(Who::Ours),
                    show(Who::Kernel),
                    pair.ratio()
                ));
                row.pairs.push(pair);
            }
            Err(error) => {
                let failure = format!("pair {number}: {error:#}");
                progress.warn(&format!("{}: {failure}", cell.name()));
                progress.ended(&cell.name());
                row.failure.get_or_insert(failure);
            }
        }
    }
    row
}

/// How often a pair is repeated because the machine was busy otherwise.
const REPEATS: u32 = 2;

/// The first pair that nobody disturbed, or else the least disturbed of several.
fn run_undisturbed(cell: &Cell, bytes: Bytes, seed: Seed, number: u64) -> Result<Pair> {
    let mut best = run_pair(cell, bytes, seed, number)?;
    for _ in 0..REPEATS {
        if !best.is_disturbed() {
            break;
        }
        let pair = run_pair(cell, bytes, seed, number)?;
        if pair.others < best.others {
            best = pair;
        }
    }
    Ok(best)
}

/// Both at once, so that what disturbs the machine disturbs both; one after the other where it could
/// not bear both, beginning with each of them in turn.
fn run_pair(cell: &Cell, bytes: Bytes, seed: Seed, number: u64) -> Result<Pair> {
    let before = ProcessorTime::now();
    let run = |who| transfer::run(cell, who, bytes, seed).with_context(|| format!("{} sender", who.name()));
    let (ours, kernel) = if !cell.is_fast() {
        std::thread::scope(|scope| {
            let ours = scope.spawn(|| run(Who::Ours));
            let kernel = run(Who::Kernel);
            (ours.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), kernel)
        })
    } else if number.is_multiple_of(2) {
        (run(Who::Ours), run(Who::Kernel))
    } else {
        let kernel = run(Who::Kernel);
        (run(Who::Ours), kernel)
    };
    let others = before.zip(ProcessorTime::now()).map_or(0.0, |(before, after)| before.others_until(&after));
    Ok(Pair { ours: ours?, kernel: kernel?, others })
}

fn manifest(seed: u64) -> Manifest {
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    let mut manifest = Manifest::new("shorthaul", env!("CARGO_PKG_VERSION")).arguments(arguments).seed(seed);
    if let Ok(kernel) = std::fs::read_to_string("/proc/sys/kernel/osrelease") {
        manifest = manifest.fact("kernel", kernel.trim());
    }
    if let Ok(cores) = std::thread::available_parallelism() {
        manifest = manifest.fact("cores", &cores.to_string());
    }
    manifest
}
