//! The demonstration: real kernel TCP on a phone's 5G link and across three bad paths, direct and through the gateway.
//!
//! Reading order: `phone` (an update and pages), `plan` (what else is run), `facts` (what the paths are like), `live`
//! (running it), `outcome` (the few numbers that say it), `sentence`, `show`, `figures`.
mod facts;
mod figures;
mod live;
mod outcome;
mod phone;
mod plan;
mod sentence;
mod show;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use shorthaul_lab::Privilege;
use shorthaul_report::{Console, Manifest, Progress, Terminal, make_directory, write_file};
use shorthaul_types::{BitRate, Seed, format_duration};

use crate::error::Result;
use crate::kernel;
use crate::trial::{Judgement, Trial};
use facts::PathFacts;
use outcome::Pair;
use phone::Phone;
use plan::{Congestion, PATHS, Path, Transfer};

/// How long repetitions may take before no other begins.
const AGAIN: Duration = Duration::from_secs(30);

/// Show what splitting does: real TCP over a phone's 5G link and three bad paths, direct and split.
///
/// Takes about two minutes. What the machine was too slow for runs once more, with less beside it; if it still is, nothing is
/// concluded from it, and the exit status is 3 where that is more than half of all. Prints a table and one sentence for each
/// line of it, and writes figures (SVG, PNG) and data (CSV, JSON). Needs root, or a kernel that allows user namespaces.
#[derive(clap::Args)]
pub struct Demo {
    /// Where figures and data go.
    #[arg(long, value_name = "DIR", default_value = "out/demo")]
    out: PathBuf,

    /// Seed of everything that the links draw by chance, and of the data sent.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Move a quarter as much in the long transfers: faster, and less exact.
    #[arg(long)]
    quick: bool,

    /// How often each transfer is run; three times, or once with --quick.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=20))]
    repeats: Option<u64>,

    /// Only this path. Can be given several times.
    #[arg(long, value_name = "NAME", value_parser = PATHS.map(|path| path.name))]
    path: Vec<String>,
}

impl Trial for Demo {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        // First of all, while the process has a single thread: the kernel asks for that.
        Privilege::obtain()?;
        let started = Instant::now();
        let seed = Seed(self.seed);
        let paths: Vec<Path> = PATHS
            .into_iter()
            .filter(|path| self.path.is_empty() || self.path.iter().any(|name| name == path.name))
            .map(|path| if self.quick { path.quick() } else { path })
            .collect();
        live::rehearse(&paths[0], seed)?;
        // What cannot be written should be known before the minute, not after it.
        make_directory(&self.out)?;
        let (controls, missing) = congestion_controls()?;
        if let Some(first) = missing.first() {
            let missing = missing.join(", ");
            console.warn(&format!(
                "This kernel does not have {missing}; try `modprobe tcp_{first}`. Going on without."
            ));
        }
        let plan = describe(&paths, &controls, seed)?;
        console.say(&plan);
        let phones = if self.path.is_empty() { self.phones(seed, console)? } else { Vec::new() };
        let repeats = self.repeats.unwrap_or(if self.quick { 1 } else { 3 });
        let pairs = run_paths(&paths, &controls, repeats, seed, console)?;
        let json = self.show(&paths, &plan, (&phones, &pairs), console)?;
        console.say(&format!(
            "\nFigures and data: {dir}/phone.svg, phone.png, demo.svg, demo.png, details.svg, details.png, demo.csv, demo.json, demo.txt ({time})",
            dir = self.out.display(),
            time = format_duration(started.elapsed())
        ));
        if let Some(sentence) = sentence::to_remember(&phones, &pairs) {
            console.say(&format!(
                "\n{sentence}\nNext: docs/install.md, or `shorthaul doctor` on the host beside your bad link."
            ));
        }
        let failed = pairs.iter().filter(|pair| pair.gain().is_none()).count();
        let failure = (failed > 0).then(|| {
            format!("{failed} of {} comparisons could not be made; the sentences above say why", pairs.len())
        });
        let late = pairs.iter().filter(|pair| pair.gain().is_some() && pair.doubt().is_some()).count()
            + phones.iter().filter(|phone| phone.doubt().is_some()).count();
        let all = pairs.len() + phones.len();
        let said = format!(
            "this machine was too slow for {late} of {all} comparisons: nothing is concluded from them"
        );
        // What the others show, they show.
        let is_shown = 2 * late <= all;
        if late > 0 && is_shown {
            console.warn(&said);
        }
        let doubt = (!is_shown).then_some(said);
        Ok(Judgement { doubt, ..Judgement::of(json, failure) })
    }
}

impl Demo {
    /// The phone, and once more with less at once if the machine was too slow for it.
    fn phones(&self, seed: Seed, console: &dyn Console) -> Result<Vec<Phone>> {
        let time = Duration::from_secs(if self.quick { 8 } else { 16 });
        let run = |at_once| {
            let progress = Progress::begin(console, phone::SERVERS.len());
            phone::run(time, at_once, seed, &progress)
        };
        let phones = run(true)?;
        if phones.iter().all(|phone| phone.doubt().is_none()) { Ok(phones) } else { run(false) }
    }

    /// The table and its sentences, on the console and in files; all of it as JSON.
    fn show(
        &self,
        paths: &[Path],
        plan: &str,
        (phones, pairs): (&[Phone], &[Pair]),
        console: &dyn Console,
    ) -> Result<Value> {
        let manifest = manifest(paths, self.seed);
        let table = show::table(pairs);
        let mut seen = String::new();
        if !phones.is_empty() {
            console.say("\nA phone on 5G (100 Mbit/s, for half a second of four 8; round trip 36 ms) loads pages of 200 kB while it downloads an update:");
            console.table(&phone::table(phones));
            let _ = writeln!(seen, "\n5G phone, an update and pages");
            for phone in phones {
                let _ = writeln!(seen, "  {}", phone.sentence());
            }
        }
        for path in pairs.chunk_by(|a, b| a.path == b.path) {
            let _ = writeln!(seen, "\n{}", sentence::for_path(path).unwrap_or_default());
            for pair in path {
                let _ = writeln!(seen, "  {}", sentence::for_pair(pair));
            }
        }
        let _ = write!(seen, "\n{}", show::fidelity(pairs));
        console.table(&table);
        console.say(seen.trim_end_matches('\n'));

        let table = table.render(Terminal::PLAIN);
        let text = format!("{}\n\n{plan}\n{table}{seen}", manifest.lines().join("\n"));
        write_file(&self.out.join("demo.txt"), &text)?;
        let json = show::json(pairs, phones, paths, &manifest);
        write_file(&self.out.join("demo.json"), format!("{json:#}\n"))?;
        show::csv(pairs, &manifest)?.save(&self.out.join("demo.csv"))?;
        if !phones.is_empty() {
            figures::phone(phones).save(&self.out.join("phone"), &manifest)?;
        }
        figures::overview(pairs).save(&self.out.join("demo"), &manifest)?;
        figures::details(pairs).save(&self.out.join("details"), &manifest)?;
        Ok(json)
    }
}

/// All paths side by side, each on a thread of its own.
fn run_paths(
    paths: &[Path],
    controls: &[Congestion],
    repeats: u64,
    seed: Seed,
    console: &dyn Console,
) -> Result<Vec<Pair>> {
    let count = paths.len() * controls.len() * Transfer::ALL.len() * 2 * repeats as usize;
    let progress = Progress::begin(console, count);
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let run = |path: &Path| {
            let (path, progress) = (*path, &progress);
            scope.spawn(move || live::run(path, controls, repeats, seed, progress))
        };
        let threads: Vec<_> = paths.iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("a path's thread does not panic")).collect()
    });
    drop(progress);
    let mut pairs = Vec::new();
    for (path, outcomes) in paths.iter().zip(outcomes) {
        pairs.extend(Pair::of(&PathFacts::of(&live::topology(path, seed)?, path), outcomes));
    }
    repeat_doubtful(paths, &mut pairs, seed, console)?;
    Ok(pairs)
}

/// What the machine was too slow for runs once more, with nothing else beside it, as long as there is time for that.
fn repeat_doubtful(paths: &[Path], pairs: &mut [Pair], seed: Seed, console: &dyn Console) -> Result<()> {
    let started = Instant::now();
    let mut late: Vec<&Pair> =
        pairs.iter().filter(|pair| pair.gain().is_some() && pair.doubt().is_some()).collect();
    // What takes least first: so that most of it has its turn.
    late.sort_by(|a, b| a.direct.seconds.total_cmp(&b.direct.seconds));
    let mut doubtful: Vec<(&'static str, Congestion)> = Vec::new();
    for pair in late {
        if !doubtful.contains(&(pair.path, pair.congestion)) {
            doubtful.push((pair.path, pair.congestion));
        }
    }
    if doubtful.is_empty() {
        return Ok(());
    }
    console.say("The machine was too slow for some of it. That runs once more, with nothing beside it:");
    let progress = Progress::begin(console, doubtful.len() * Transfer::ALL.len() * 2);
    for (name, congestion) in doubtful {
        let Some(path) = paths.iter().find(|path| path.name == name) else { continue };
        if started.elapsed() > AGAIN {
            break;
        }
        let outcomes = live::run(*path, &[congestion], 1, seed, &progress);
        for again in Pair::of(&PathFacts::of(&live::topology(path, seed)?, path), outcomes) {
            let same = |pair: &&mut Pair| {
                (pair.path, pair.congestion, pair.transfer) == (again.path, again.congestion, again.transfer)
            };
            if let Some(pair) = pairs.iter_mut().find(same) {
                *pair = again;
            }
        }
    }
    Ok(())
}

/// What will be run, for people.
fn describe(paths: &[Path], controls: &[Congestion], seed: Seed) -> Result<String> {
    let names: Vec<&str> = controls.iter().map(|c| c.name()).collect();
    let mut text = format!(
        "A gateway beside a bad link splits TCP connections into short ones; neither end changes. Is that better?\n\
         The kernel's own TCP ({}) over emulated links, each transfer directly and through `shorthaul gateway`. Every byte is checked.\n",
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
            time(facts.access_round_trip_s),
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
    let available = kernel::congestion_controls()?;
    let (here, missing): (Vec<Congestion>, Vec<Congestion>) =
        Congestion::ALL.into_iter().partition(|control| available.contains(&control.name()));
    Ok((here, missing.into_iter().map(Congestion::name).collect()))
}

fn manifest(paths: &[Path], seed: u64) -> Manifest {
    let manifest = Manifest::of_this_command().seed(seed).with_machine();
    paths.iter().fold(manifest, |manifest, path| manifest.scenario(path.name, path.topology))
}
