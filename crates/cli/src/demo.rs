//! `shorthaul demo`: real kernel TCP across three bad paths, direct and through the gateway.
//!
//! Reading order: `plan` (what is run), `facts` (what the paths are like), `live`
//! (running it), `outcome` (the few numbers that say it), `sentence`, `show`, `figures`.
mod facts;
mod figures;
mod live;
mod outcome;
mod plan;
mod progress;
mod sentence;
mod show;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use shorthaul_lab::Privilege;
use shorthaul_report::{Manifest, Terminal};
use shorthaul_types::{BitRate, Seed, format_duration};

use facts::PathFacts;
use outcome::Pair;
use plan::{Congestion, PATHS, Path, Transfer};
use progress::Progress;

/// Show what splitting does: real TCP across three emulated paths, directly and through the gateway.
///
/// Takes about a minute. Prints a table and one sentence for each line of it, and writes figures
/// (SVG, PNG) and data (CSV, JSON). Needs root, or a kernel that allows user namespaces.
#[derive(clap::Args)]
pub struct Args {
    /// Where figures and data go.
    #[arg(long, value_name = "DIR", default_value = "out/demo")]
    out: PathBuf,

    /// Seed of everything that the links draw by chance, and of the data sent.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Move a quarter as much in the long transfers: faster, and less exact.
    #[arg(long)]
    quick: bool,

    /// Only this path. Can be given several times.
    #[arg(long, value_name = "NAME", value_parser = PATHS.map(|path| path.name))]
    path: Vec<String>,
}

/// Runs the demonstration; an error if anything could not be run or compared.
pub fn run(args: &Args) -> Result<()> {
    // First of all, while the process has a single thread: the kernel asks for that.
    Privilege::obtain()?;
    let started = Instant::now();
    let seed = Seed(args.seed);
    let paths: Vec<Path> = PATHS
        .into_iter()
        .filter(|path| args.path.is_empty() || args.path.iter().any(|name| name == path.name))
        .map(|path| if args.quick { path.quick() } else { path })
        .collect();
    live::rehearse(&paths[0], seed)?;
    // What cannot be written should be known before the minute, not after it.
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let (controls, missing) = congestion_controls()?;
    if !missing.is_empty() {
        eprintln!(
            "This kernel does not have {}; try `modprobe tcp_{}`. Going on without.",
            missing.join(", "),
            missing[0]
        );
    }
    let plan = describe(&paths, &controls, seed)?;
    print!("{plan}");

    let pairs = run_paths(&paths, &controls, seed)?;

    let manifest = manifest(&paths, args.seed);
    let table = show::table(&pairs);
    let mut seen = String::new();
    for path in pairs.chunk_by(|a, b| a.path == b.path) {
        let _ = writeln!(seen, "\n{}", sentence::for_path(path).unwrap_or_default());
        for pair in path {
            let _ = writeln!(seen, "  {}", sentence::for_pair(pair));
        }
    }
    let _ = write!(seen, "\n{}", show::fidelity(&pairs));
    print!("\n{}{seen}", table.render(Terminal::stdout()));

    let text = format!("{}\n\n{plan}\n{}{seen}", manifest.lines().join("\n"), table.render(Terminal::PLAIN));
    let write = |name: &str, content: &str| {
        let file = args.out.join(name);
        std::fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))
    };
    write("demo.txt", &text)?;
    write("demo.json", &format!("{:#}\n", show::json(&pairs, &paths, &manifest)))?;
    show::csv(&pairs, &manifest)?.save(&args.out.join("demo.csv"))?;
    figures::overview(&pairs).save(&args.out.join("demo"), &manifest)?;
    figures::details(&pairs).save(&args.out.join("details"), &manifest)?;
    println!(
        "\nFigures and data: {dir}/demo.svg, demo.png, details.svg, details.png, demo.csv, demo.json, demo.txt ({time})",
        dir = args.out.display(),
        time = format_duration(started.elapsed())
    );
    let failed = pairs.iter().filter(|pair| pair.gain().is_none()).count();
    if failed > 0 {
        bail!("{failed} of {} comparisons could not be made; the sentences above say why", pairs.len());
    }
    Ok(())
}

/// All paths side by side, each on a thread of its own.
fn run_paths(paths: &[Path], controls: &[Congestion], seed: Seed) -> Result<Vec<Pair>> {
    let transfers = (controls.len() * Transfer::ALL.len() * 2) as u64;
    let counted: Vec<(Path, u64)> = paths.iter().map(|path| (*path, transfers)).collect();
    let progress = Progress::new(Terminal::stderr(), &counted);
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let run = |path: &Path| {
            let (path, progress) = (*path, &progress);
            scope.spawn(move || live::run(path, controls, seed, progress))
        };
        let threads: Vec<_> = paths.iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("a path's thread does not panic")).collect()
    });
    progress.finish();
    let mut pairs = Vec::new();
    for (path, outcomes) in paths.iter().zip(outcomes) {
        pairs.extend(Pair::of(&PathFacts::of(&live::topology(path, seed)?, path), outcomes));
    }
    Ok(pairs)
}

/// What will be run, for people.
fn describe(paths: &[Path], controls: &[Congestion], seed: Seed) -> Result<String> {
    let names: Vec<&str> = controls.iter().map(|c| c.name()).collect();
    let mut text = format!(
        "Downloads over kernel TCP ({}), each directly and through `shorthaul gateway`. Every byte is checked.\n",
        names.join(", ")
    );
    let time = |seconds: f64| format_duration(Duration::from_secs_f64(seconds));
    for path in paths {
        let facts = PathFacts::of(&live::topology(path, seed)?, path);
        let _ = writeln!(
            text,
            "  {:8} {}, round trip {} ({} to the gateway and {} behind it), loss {} %; short {}, long {}, each in at most {}{}",
            path.name,
            BitRate::from_bits_per_sec(facts.rate_bit_per_s as u64),
            time(facts.round_trip_s),
            time(facts.edge_round_trip_s),
            time(facts.wan_round_trip_s),
            (facts.loss * 1e6).round() / 1e4,
            path.short,
            path.long,
            format_duration(path.limit),
            if path.initial_window > 10 {
                format!("; the gateway begins with {} segments", path.initial_window)
            } else {
                String::new()
            },
        );
    }
    Ok(text)
}

/// Those that this kernel has, and the names of those that it has not.
fn congestion_controls() -> Result<(Vec<Congestion>, Vec<&'static str>)> {
    const FILE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let available = std::fs::read_to_string(FILE).with_context(|| format!("cannot read {FILE}"))?;
    let (here, missing): (Vec<Congestion>, Vec<Congestion>) =
        Congestion::ALL.into_iter().partition(|c| available.split_whitespace().any(|name| name == c.name()));
    if here.is_empty() {
        bail!("this kernel has none of reno, cubic and bbr, but only {}", available.trim());
    }
    Ok((here, missing.into_iter().map(Congestion::name).collect()))
}

fn manifest(paths: &[Path], seed: u64) -> Manifest {
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    let mut manifest = Manifest::new("shorthaul", env!("CARGO_PKG_VERSION")).arguments(arguments).seed(seed);
    for path in paths {
        manifest = manifest.scenario(path.name, path.topology);
    }
    if let Ok(kernel) = std::fs::read_to_string("/proc/sys/kernel/osrelease") {
        manifest = manifest.fact("kernel", kernel.trim());
    }
    if let Ok(cores) = std::thread::available_parallelism() {
        manifest = manifest.fact("cores", &cores.to_string());
    }
    manifest
}
