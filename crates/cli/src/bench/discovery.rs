//! `shorthaul bench discovery`: relays found and chosen by themselves on the path of Figure 5 of the proxy transport
//! service, live.
//!
//! Reading order: `path` (the hosts, and one transfer over them), `set_up` (how long until the first byte), `verdict` (tables,
//! figure, JSON).
mod path;
mod set_up;
mod verdict;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use shorthaul_lab::Privilege;
use shorthaul_report::{Manifest, Terminal};
use shorthaul_types::{Bytes, Seed, format_duration};

use path::{HOPS, Line};
use verdict::{Placement, Recheck, Results};

/// Automatic selection on the path of Figure 5: eight hops of 10 Mbit/s and 5 ms, windows of 20 kB, kernel reno.
///
/// First the throughput directly and by way of a relay at each hop; then random sets of relays that
/// are offered, one of which discovery chooses; then how long set-up takes. Needs root, or a host
/// that allows user namespaces. The last line is the result as JSON.
#[derive(clap::Args)]
pub struct DiscoveryArgs {
    /// Random placements of relays
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=1000))]
    placements: u32,
    /// Transfers by way of each hop that decide which relay is really the best; their median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// How much is moved in each transfer
    #[arg(long, value_name = "SIZE", default_value = "1500kB")]
    size: Bytes,
    /// Transfers by way of the relay that was chosen and of the best one, in turns, wherever the best one was not chosen:
    /// what the mistake costs
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=100))]
    rechecks: u32,
    /// Times that each way of setting up is measured
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(0..=1000))]
    set_ups: u32,
    /// What the placements are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where results are kept
    #[arg(long, value_name = "DIR", default_value = "out/bench-discovery")]
    out: PathBuf,
}

/// Runs the benchmark.
pub fn run(args: &DiscoveryArgs) -> Result<()> {
    // First of all, while the process has a single thread: the kernel asks for that.
    Privilege::obtain()?;
    ensure!(args.size.0 >= 100_000, "--size {} is over before a window binds: give 100kB or more", args.size);
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let line = Line::start(Seed(args.seed)).context("this machine cannot emulate the path")?;
    let forecasts = (0..HOPS).map(|hop| line.forecast(hop, args.size));
    let mut results = Results::new(&line, forecasts.collect());
    eprintln!("round trip {}, windows of {}", format_duration(line.rtt), line.window);
    for repeat in 0..args.repeats {
        for hop in 0..HOPS {
            let rate = line.transfer((hop > 0).then_some(hop), args.size)?;
            eprintln!("by hop {hop}, {} of {}: {rate}", repeat + 1, args.repeats);
            results.truth[hop].push(rate);
        }
    }
    for number in 0..args.placements {
        let offered = draw(Seed(args.seed).derive("placement").nth(number.into()));
        let placement = place(&line, args, &offered)?;
        eprintln!("{:3}/{}: {placement}", number + 1, args.placements);
        results.placements.push(placement);
    }
    for (chosen, best) in results.mistakes() {
        let mut recheck = Recheck { chosen, best, rates: [Vec::new(), Vec::new()] };
        for _ in 0..args.rechecks {
            for (hop, rates) in [chosen, best].into_iter().zip(&mut recheck.rates) {
                rates.push(line.transfer((hop > 0).then_some(hop), args.size)?);
            }
        }
        eprintln!("{recheck}");
        results.rechecks.push(recheck);
    }
    results.set_ups = set_up::measure(&line, args.set_ups)?;
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    let manifest = Manifest::new("shorthaul", env!("CARGO_PKG_VERSION")).arguments(arguments).seed(args.seed);
    for table in [results.truth_table(), results.set_up_table()] {
        println!("{}\n", table.render(Terminal::stdout()));
    }
    for sentence in results.sentences() {
        println!("{sentence}");
    }
    results.csv(&manifest)?.save(&args.out.join("placements.csv"))?;
    results.figure().save(&args.out.join("positions"), &manifest)?;
    println!("{}", results.json(&manifest));
    Ok(())
}

/// One to seven of the hops between the ends.
fn draw(seed: Seed) -> Vec<usize> {
    let inner = HOPS - 1;
    let mut hops: Vec<usize> = (1..=inner).collect();
    // Fisher and Yates.
    for last in (1..inner).rev() {
        let other = seed.nth(last as u64).0 as usize % (last + 1);
        hops.swap(last, other);
    }
    hops.truncate(1 + seed.derive("number").0 as usize % inner);
    hops.sort_unstable();
    hops
}

/// Relays offer themselves, discovery chooses, and a transfer goes as it says.
fn place(line: &Line, args: &DiscoveryArgs, offered: &[usize]) -> Result<Placement> {
    let choice = line.choose(offered, args.size)?;
    let ranking = choice.ranking.as_ref().with_context(|| format!("nothing was found: {}", choice.why))?;
    let chosen = choice.hops.first().map(|session| line.hop_of(session.ip())).transpose()?;
    let best = ranking.relays.first().context("no relay answered")?;
    let predicted = ranking.gain(&best.forecast);
    let rate = line.transfer(chosen, args.size)?;
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let relays = ranking.relays.iter().map(|relay| -> Result<String> {
        let hop = line.hop_of(relay.found.offer.session.ip())?;
        Ok(format!("{hop}: {:.1}+{:.1} ms", millis(relay.near), millis(relay.far)))
    });
    let relays: Vec<String> = relays.collect::<Result<_>>()?;
    Ok(Placement {
        seen: format!("{:.1} ms; {}", millis(ranking.rtt), relays.join(", ")),
        offered: offered.to_vec(),
        found: ranking.relays.len(),
        chosen,
        forecast: chosen.map_or(ranking.direct.throughput(), |_| best.forecast.throughput()),
        forecast_gain: if chosen.is_some() { predicted } else { 1.0 },
        rate,
    })
}
