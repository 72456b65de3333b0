//! Discovery: relays found and chosen by themselves on the path of Figure 5 of the proxy transport
//! service, live.
//!
//! Reading order: `path` (the hosts, and one transfer over them), `set_up` (how long until the first byte), `verdict` (tables,
//! figure, JSON).
mod path;
mod set_up;
mod verdict;

use std::path::PathBuf;
use std::time::Duration;

use shorthaul_lab::Privilege;
use shorthaul_report::{Console, Manifest, Progress, make_directory};
use shorthaul_types::{Bytes, Seed, format_duration};

use crate::error::{Result, TrialError, While};
use crate::trial::{Judgement, Trial};
use path::{HOPS, Line};
use verdict::{Placement, Recheck, Results};

/// Automatic selection on the path of Figure 5: eight hops of 10 Mbit/s and 5 ms, windows of 20 kB, kernel reno.
///
/// First the throughput directly and by way of a relay at each hop; then random sets of relays that
/// are offered, one of which discovery chooses; then how long set-up takes. Needs root, or a host
/// that allows user namespaces. The last line is the result as JSON.
#[derive(clap::Args)]
pub struct Discovery {
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

impl Trial for Discovery {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        // First of all, while the process has a single thread: the kernel asks for that.
        Privilege::obtain()?;
        if self.size.0 < 100_000 {
            let size = self.size;
            return Err(TrialError::asked(format!(
                "--size {size} is over before a window binds: give 100kB or more"
            )));
        }
        make_directory(&self.out)?;
        let results = self.measure(console)?;
        let manifest = Manifest::of_this_command().seed(self.seed);
        for table in [results.truth_table(), results.set_up_table()] {
            console.table(&table);
            console.say("\n");
        }
        results.sentences().iter().for_each(|sentence| console.say(sentence));
        results.csv(&manifest)?.save(&self.out.join("placements.csv"))?;
        results.figure().save(&self.out.join("positions"), &manifest)?;
        Ok(Judgement::holds(results.json(&manifest)))
    }
}

impl Discovery {
    /// First every hop, then random placements, then what was chosen wrongly once more, then how long set-up takes.
    fn measure(&self, console: &dyn Console) -> Result<Results> {
        let line = Line::start(Seed(self.seed)).doing("building the path")?;
        let forecasts = (0..HOPS).map(|hop| line.forecast(hop, self.size));
        let mut results = Results::new(&line, forecasts.collect());
        console.warn(&format!("round trip {}, windows of {}", format_duration(line.rtt), line.window));
        let transfers = self.repeats as usize * HOPS;
        let progress =
            Progress::begin(console, transfers + self.placements as usize + set_up::ContactKind::ALL.len());
        for repeat in 0..self.repeats {
            for hop in 0..HOPS {
                let rate = line.transfer((hop > 0).then_some(hop), self.size)?;
                progress.step(&format!("by hop {hop}, {} of {}: {rate}", repeat + 1, self.repeats));
                results.truth[hop].push(rate);
            }
        }
        for number in 0..self.placements {
            let offered = draw(Seed(self.seed).derive("placement").nth(number.into()));
            let placement = place(&line, self.size, &offered)?;
            progress.step(&format!("{:3}/{}: {placement}", number + 1, self.placements));
            results.placements.push(placement);
        }
        let mistakes = results.mistakes();
        console.extend(mistakes.len());
        for (chosen, best) in mistakes {
            let mut recheck = Recheck { chosen, best, rates: [Vec::new(), Vec::new()] };
            for _ in 0..self.rechecks {
                for (hop, rates) in [chosen, best].into_iter().zip(&mut recheck.rates) {
                    rates.push(line.transfer((hop > 0).then_some(hop), self.size)?);
                }
            }
            progress.step(&recheck.to_string());
            results.rechecks.push(recheck);
        }
        results.set_ups = set_up::measure(&line, self.set_ups, &progress)?;
        Ok(results)
    }
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
fn place(line: &Line, size: Bytes, offered: &[usize]) -> Result<Placement> {
    let choice = line.choose(offered, size)?;
    let ranking = choice.ranking.as_ref().doing(format!("nothing was found: {}", choice.why))?;
    let chosen = choice.hops.first().map(|session| line.hop_of(session.ip())).transpose()?;
    let best = ranking.relays.first().doing("no relay answered")?;
    let predicted = ranking.gain(&best.forecast);
    let rate = line.transfer(chosen, size)?;
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
