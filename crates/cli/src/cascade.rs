//! `shorthaul cascade`: a transfer over kernel TCP, directly and by way of relays, on emulated paths.
//!
//! Reading order: `cell` (the path, and one transfer over it), `chain` (the relays, ours and netcat's),
//! `show` (table, picture, JSON).
mod cell;
mod chain;
mod show;

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use shorthaul_lab::Privilege;
use shorthaul_report::{Manifest, Terminal};
use shorthaul_types::Seed;

use cell::{Buffers, CELLS, Cell, Setting};
use chain::Way;
use show::Measured;

/// Measure live what relays gain: kernel TCP directly, through one and two relays, and through netcat
///
/// Every cell of a matrix of round trip, rate and loss is a chain of network namespaces with emulated
/// links between them; the relays are `shorthaul node`. The path and its loss are shared by the legs.
/// Prints a table with the planner's forecast beside what was measured, and writes figure, CSV and
/// JSON. Needs root, or a host that allows user namespaces.
#[derive(clap::Args)]
pub struct Args {
    /// Only cells whose name contains this, such as `64ms` or `32Mbit/s`
    #[arg(long, value_name = "TEXT", default_value = "")]
    cells: String,
    /// Congestion control of ends and relays
    #[arg(long, value_name = "NAME", default_value = "reno")]
    congestion: String,
    /// Transfers of each kind in each cell; the median counts
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// Cells that are measured at the same time
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=16))]
    lanes: u32,
    /// How long a transfer is to take by way of two relays; it takes longer directly
    #[arg(long, value_name = "TIME", default_value = "12s", value_parser = shorthaul_types::parse_duration)]
    aim: std::time::Duration,
    /// What each of our relays may hold: `planned` (what the planner advises), `kernel` (what the kernel's own tuning
    /// comes to, as netcat has it), or a size
    #[arg(long, value_name = "SIZE", default_value = "planned")]
    buffer: Buffers,
    /// Seed of what the links lose
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where figure and data go
    #[arg(long, value_name = "DIR", default_value = "out/cascade")]
    out: PathBuf,
}

/// Runs the command; an error if a transfer failed.
pub fn run(args: &Args) -> Result<()> {
    // First of all, while the process has a single thread: the kernel asks for that.
    Privilege::obtain()?;
    let cells: Vec<Cell> = CELLS.into_iter().filter(|cell| cell.name().contains(&args.cells)).collect();
    if cells.is_empty() {
        let names = CELLS.map(|cell| cell.name()).join(", ");
        bail!("no cell has `{}` in its name; there are: {names}", args.cells);
    }
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let ways: Vec<Way> = Way::ALL.into_iter().filter(|way| way.is_installed()).collect();
    if ways.len() < Way::ALL.len() {
        eprintln!("netcat is not measured: it is not installed (`nc`, of netcat-openbsd)");
    }
    let setting = Setting { congestion: args.congestion.clone(), aim: args.aim, buffers: args.buffer };
    let started = Instant::now();
    let total = cells.len() * ways.len() * args.repeats as usize;
    let waiting = Mutex::new(cells.iter().enumerate().collect::<Vec<_>>());
    let (done, measured) = (Mutex::new(0), Mutex::new(vec![None; cells.len()]));
    std::thread::scope(|scope| {
        for _ in 0..args.lanes {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().map(|mut waiting| waiting.pop()).unwrap_or_default();
                    let Some((number, cell)) = next else { break };
                    let mut results = Measured::new(*cell, &setting);
                    for repeat in 0..args.repeats {
                        let seed = Seed(args.seed).derive(&cell.name()).derive(&repeat.to_string());
                        for way in &ways {
                            let result = cell.transfer(*way, &setting, seed);
                            if let Ok(mut done) = done.lock() {
                                *done += 1;
                                let said = match &result {
                                    Ok(rate) => rate.to_string(),
                                    Err(error) => format!("failed: {error:#}"),
                                };
                                let time = started.elapsed().as_secs();
                                eprintln!(
                                    "{time:4} s  {done:3}/{total}  {:24} {:13} {said}",
                                    cell.name(),
                                    way.name()
                                );
                            }
                            results.add(*way, result);
                        }
                    }
                    if let Ok(mut measured) = measured.lock() {
                        measured[number] = Some(results);
                    }
                }
            });
        }
    });
    let measured: Vec<Measured> = measured
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .into_iter()
        .flatten()
        .collect();
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    let manifest = Manifest::new("shorthaul", env!("CARGO_PKG_VERSION")).arguments(arguments).seed(args.seed);
    println!("{}", show::table(&measured).render(Terminal::stdout()));
    for sentence in show::sentences(&measured) {
        println!("{sentence}");
    }
    let json = show::json(&measured, &manifest);
    let file = args.out.join("cascade.json");
    std::fs::write(&file, format!("{json:#}\n"))
        .with_context(|| format!("cannot write {}", file.display()))?;
    show::csv(&measured, &manifest)?.save(&args.out.join("cascade.csv"))?;
    show::figure(&measured, &args.congestion).save(&args.out.join("cascade"), &manifest)?;
    println!("\nFigure and data: {}/cascade.svg, cascade.png, cascade.csv, cascade.json", args.out.display());
    println!("{json}");
    let failed: usize = measured.iter().map(Measured::failures).sum();
    if failed > 0 {
        bail!("{failed} of {total} transfers failed; the lines above say why");
    }
    Ok(())
}
