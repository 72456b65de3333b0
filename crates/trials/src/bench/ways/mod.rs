//! Ways that are chosen by what came of former sessions, in random networks that change every minute: against who knows all links, and
//! against who never uses a node. The choice is the clients' own ([`Knowledge`]); what a session takes is simulated, packet by packet.
mod live;
mod network;
mod regret;

use crate::bench::plan::draw::Draw;
use crate::error::{Result, TrialError};
use crate::trial::{Judgement, Trial};
use network::{Minute, NODES, SIZES, minutes, normal, scenario};
use regret::{CAUSES, Choosers, MINUTES, cause, when};
use serde_json::json;
use shorthaul_lab::Privilege;
use shorthaul_observe::{Ledger, Summary};
use shorthaul_planner::sharing::Load;
use shorthaul_planner::ways::{Learning, Why};
use shorthaul_relay::Endpoint;
use shorthaul_relay::learning::{Candidate, Knowledge, Past};
use shorthaul_report::{Column, Console, Table, Unit};
use shorthaul_sim::{ENGINE, slowest_transfer};
use shorthaul_types::{BitRate, Seed, Time};
use std::path::PathBuf;
use std::time::Duration;

/// Times of sessions by ways that are learnt, in random networks, beside those of who knows all links.
///
/// In each network two ends have eight nodes to choose from; round trip, loss and load of every leg change each minute. Sessions go one after the other.
/// Two bounds stand beside: who knows what each way takes by other samples than the session's own, and who knew all links a minute ago. A second table says
/// where the time goes. What each would take by each way is simulated, and written down, so that a benchmark that was interrupted goes on where it was. The last line is
/// the result as JSON.
#[derive(clap::Args)]
pub struct Ways {
    /// Random networks: 60, or 10 of them live
    #[arg(long)]
    networks: Option<u64>,
    /// How many minutes of each: 12, or 5 live
    #[arg(long)]
    minutes: Option<u64>,
    /// Sessions in each minute
    #[arg(long, default_value_t = 12)]
    sessions: u64,
    /// Simulations of a session of each size by each way in each minute; one of them is drawn
    #[arg(long, default_value_t = 4)]
    samples: u64,
    /// What the networks are drawn from
    #[arg(long, default_value_t = 23)]
    seed: u64,
    /// Nodes tell that they can forward 1 Gbit/s and have a few sessions, which matters to none; without it, they tell nothing
    #[arg(long)]
    nodes_tell: bool,
    /// Between kernels: nodes and a proxy that chooses as people run them, on emulated links, by turns with who goes directly and who knows the links. Needs root, or
    /// a host that allows user namespaces
    #[arg(long)]
    live: bool,
    /// Live, the proxy asks for the nodes' round trips (`proxy --discover`); without it, it knows what comes of sessions alone
    #[arg(long, requires = "live")]
    discover: bool,
    /// So many networks at once, live
    #[arg(long, default_value_t = 3)]
    at_once: usize,
    /// Where results are kept
    #[arg(long, default_value = "out/bench-ways")]
    out: PathBuf,
}

/// Above this, the mean time of the closed loop is too long: beside who knows all links, and beside who never uses a node.
const BESIDE_ORACLE: f64 = 1.10;
const BESIDE_DIRECT: f64 = 1.05;
/// Before so many sessions, forecasts are not judged.
const LEARNING_TAKES: u64 = 10;

/// Seconds by minute, size, way and sample.
type Times = Vec<Vec<Vec<Vec<f64>>>>;

/// What came of a network: sums of seconds, and counts of sessions. A session counts with the mean of the samples by its way: what chance did to it is not
/// the choice's.
#[derive(Clone, Debug, Default, serde::Serialize)]
struct Outcome {
    closed: f64,
    oracle: f64,
    other_samples: f64,
    minute_ago: f64,
    one_way: f64,
    direct: f64,
    /// What sessions that went another way to stay informed were expected to lose.
    explored_seconds: f64,
    explored: f64,
    by_nodes: f64,
    sessions: f64,
    /// What was taken longer than by the oracle, by [`CAUSES`] and [`MINUTES`].
    causes: [f64; CAUSES.len()],
    minutes: [f64; MINUTES.len()],
    #[serde(skip)]
    errors: Vec<f64>,
}

impl Trial for Ways {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        if self.live {
            // First of all, while the process has a single thread: the kernel asks for that.
            Privilege::obtain()?;
        }
        if [self.networks(), self.minutes(), self.sessions, self.samples].contains(&0) {
            return Err(TrialError::asked(
                "without networks, minutes, sessions or samples nothing is measured",
            ));
        }
        let seed = Seed(self.seed);
        let networks: Vec<(Seed, Vec<Minute>)> = (0..self.networks())
            .map(|number| seed.derive("network").nth(number))
            .map(|seed| (seed, minutes(seed, self.minutes())))
            .collect();
        let ledger = Ledger::open(&self.out.join("runs"), ENGINE)?;
        let jobs = networks.iter().flat_map(|(_, minutes)| minutes).flatten().flat_map(|links| {
            let scenarios = SIZES.map(|size| scenario(links, size));
            scenarios.into_iter().flat_map(|text| (0..self.samples).map(move |seed| (text.clone(), seed)))
        });
        ledger.fill(jobs, slowest_transfer, console)?;
        let times: Vec<Times> =
            networks.iter().map(|(_, minutes)| self.times(minutes, &ledger)).collect::<Result<_>>()?;
        if self.live {
            return live::run(self, &networks, &times, console);
        }
        let numbered = networks.iter().zip(&times);
        let outcomes = numbered
            .map(|((seed, minutes), times)| self.sessions(*seed, minutes, times))
            .collect::<Result<Vec<_>>>()?;
        Ok(self.verdict(&outcomes, console))
    }
}

/// What was asked and is not so: of the mean time beside who knows the links, and of that beside direct in the worst network.
fn failures(beside_oracle: f64, worst: f64) -> Vec<String> {
    let mut failures = Vec::new();
    if beside_oracle.is_nan() || beside_oracle > BESIDE_ORACLE {
        failures.push(format!(
            "{beside_oracle:.3} times as long as who knows the links, where {BESIDE_ORACLE} was asked"
        ));
    }
    if worst.is_nan() || worst > BESIDE_DIRECT {
        failures.push(format!(
            "in one network {worst:.3} times as long as directly, where {BESIDE_DIRECT} was asked"
        ));
    }
    failures
}

/// Nodes that are asked tell what they told before.
fn asked(candidates: &[Candidate]) -> Vec<Candidate> {
    let mut asked = candidates.to_vec();
    asked.iter_mut().filter_map(|one| one.load.as_mut()).for_each(|load| load.age = Duration::ZERO);
    asked
}

impl Ways {
    fn networks(&self) -> u64 {
        self.networks.unwrap_or(if self.live { 10 } else { 60 })
    }

    fn minutes(&self) -> u64 {
        self.minutes.unwrap_or(if self.live { 5 } else { 12 })
    }

    /// What sessions of each size take by each way in each minute, as it was simulated.
    fn times(&self, minutes: &[Minute], ledger: &Ledger) -> Result<Times> {
        let mut times: Times = Vec::new();
        for minute in minutes {
            let mut of_sizes = Vec::new();
            for size in SIZES {
                let of = |links: &Vec<_>| ledger.all(&scenario(links, size), 0, self.samples);
                of_sizes.push(minute.iter().map(of).collect::<std::result::Result<_, _>>()?);
            }
            times.push(of_sizes);
        }
        Ok(times)
    }

    /// The sessions of a network, one after the other.
    fn sessions(&self, seed: Seed, minutes: &[Minute], times: &Times) -> Result<Outcome> {
        let mut knowledge = Knowledge::new(Learning::default());
        let mut outcome = Outcome::default();
        let choosers = Choosers(times);
        // A destination for each size, on one host: what a session will carry has to be found out, what a way is like is the same for all.
        let destinations: Vec<Endpoint> = (0..SIZES.len())
            .map(|size| format!("192.0.2.1:{}", 8000 + size).parse())
            .collect::<std::result::Result<_, _>>()
            .map_err(|error| TrialError::asked(format!("{error}")))?;
        let hops: Vec<Vec<Endpoint>> = (0..=NODES)
            .map(|way| {
                way.checked_sub(1)
                    .map(|node| format!("198.51.100.{}:7080", node + 1).parse())
                    .into_iter()
                    .collect()
            })
            .collect::<std::result::Result<_, _>>()
            .map_err(|error| TrialError::asked(format!("{error}")))?;
        for (at, minute) in minutes.iter().enumerate() {
            let probed = Draw(seed.derive("probes")).nth(at as u64);
            // Round trips are probed once a minute, five per cent off; nothing else is told.
            let candidates: Vec<Candidate> = minute
                .iter()
                .enumerate()
                .map(|(way, links)| Candidate {
                    hops: hops[way].clone(),
                    legs: links
                        .iter()
                        .enumerate()
                        .map(|(leg, link)| {
                            let off = 0.05 * normal(probed.nth(2 * way as u64 + leg as u64), "rtt");
                            Duration::from_secs_f64(link.rtt * off.exp())
                        })
                        .collect(),
                    load: (self.nodes_tell && way > 0).then(|| {
                        let sessions = probed.nth(100 + way as u64).choice("sessions", 6) as f64;
                        Load::of_rate(
                            BitRate::from_bits_per_sec(1_000_000_000),
                            sessions,
                            Duration::from_secs(30),
                        )
                    }),
                })
                .collect();
            for number in 0..self.sessions {
                let session = at as u64 * self.sessions + number;
                let draw = Draw(seed.derive("session")).nth(session);
                let size = draw.choice("size", SIZES.len() as u64) as usize;
                let sample = draw.choice("sample", self.samples) as usize;
                let now = 60.0 * at as f64 + 60.0 * number as f64 / self.sessions as f64;
                let time = Time::ZERO + Duration::from_secs_f64(now);
                let mut draws = 0;
                let uniform = || {
                    draws += 1;
                    Draw(draw.0.derive("choice")).nth(draws).share("uniform")
                };
                let decision = knowledge
                    .decide(time, &destinations[size], &candidates, uniform)
                    .ok_or_else(|| TrialError::asked("nothing can be forecast of a network"))?;
                let decision = match decision.ask.is_empty() {
                    true => decision,
                    false => knowledge.settle(time, &destinations[size], &asked(&candidates), decision),
                };
                let way = decision.order[0];
                let known = knowledge.ways(&destinations[size], &candidates, SIZES[size]);
                let known = known.iter().find(|known| known.hops == hops[way]);
                let took = times[at][size][way][sample];
                let mean = |way| choosers.mean(at, size, way);
                let best = choosers.oracle(at, size);
                outcome.closed += mean(way);
                outcome.oracle += mean(best);
                // Of the samples that it does not know.
                outcome.other_samples += times[at][size][choosers.other_samples(at, size, sample)][sample];
                outcome.minute_ago += mean(choosers.minute_ago(at, size));
                outcome.one_way += mean(choosers.one_way(size));
                outcome.direct += mean(0);
                let measured = known.map_or(0, |known| known.measured);
                let was_best = choosers.minute_ago(at, size) == way && at > 0;
                outcome.causes[cause(&decision, measured, was_best, size)] += mean(way) - mean(best);
                outcome.minutes[when(at)] += mean(way) - mean(best);
                outcome.sessions += 1.0;
                outcome.by_nodes += f64::from(u8::from(way > 0));
                if decision.choice.why == Why::Explores {
                    outcome.explored += 1.0;
                    let least = decision.expected.iter().flatten().copied().fold(f64::INFINITY, f64::min);
                    outcome.explored_seconds += (decision.choice.expected - least).max(0.0);
                }
                if let Some(known) = known
                    && session >= LEARNING_TAKES
                {
                    outcome.errors.push((known.expected / took - 1.0).abs());
                }
                knowledge.learn(&self.past(seed, session, now, &minute[way], &hops[way], (size, took)));
            }
        }
        Ok(outcome)
    }

    /// What a client remembers of a session: an upload.
    fn past(
        &self,
        seed: Seed,
        session: u64,
        now: f64,
        links: &[network::Link],
        hops: &[Endpoint],
        (size, took): (usize, f64),
    ) -> Past {
        let draw = Draw(seed.derive("past")).nth(session);
        // Of so many segments so many are lost: a binomial draw, as a normal one.
        let segments = SIZES[size].0 as f64 / 1448.0;
        let deviation = (links[0].loss * segments).sqrt();
        let lost = (links[0].loss * segments + deviation * normal(draw, "lost")).round().max(0.0);
        Past {
            at: now + took,
            to: format!("192.0.2.1:{}", 8000 + size),
            by: hops.iter().map(ToString::to_string).collect(),
            given: SIZES[size].0,
            received: 0,
            set_up: 0.0,
            busy: took,
            pauses: 0,
            near: Some(links[0].rtt),
            far: links[1..].iter().map(|link| link.rtt).collect(),
            loss: (segments >= 100.0).then_some((lost / segments).min(1.0)),
            forecast: None,
            share: None,
            arrived: true,
            moved: false,
        }
    }

    fn verdict(&self, outcomes: &[Outcome], console: &dyn Console) -> Judgement {
        let summary = |of: &dyn Fn(&Outcome) -> f64| Summary::of(outcomes.iter().map(of));
        type Row<'a> = (&'a str, &'a dyn Fn(&Outcome) -> f64, Unit);
        let rows: [Row<'_>; 10] = [
            ("mean time beside who knows the links", &|o| o.closed / o.oracle, Unit::Times),
            ("beside who knows them by other samples", &|o| o.closed / o.other_samples, Unit::Times),
            ("beside who knew them a minute ago", &|o| o.closed / o.minute_ago, Unit::Times),
            (
                "who knows them by other samples, beside the first",
                &|o| o.other_samples / o.oracle,
                Unit::Times,
            ),
            ("who knew them a minute ago, beside the first", &|o| o.minute_ago / o.oracle, Unit::Times),
            ("the best way for all minutes, beside the first", &|o| o.one_way / o.oracle, Unit::Times),
            ("mean time beside direct", &|o| o.closed / o.direct, Unit::Times),
            ("who knows the links, beside direct", &|o| o.oracle / o.direct, Unit::Times),
            ("sessions that explored", &|o| o.explored / o.sessions, Unit::Percent),
            ("sessions by nodes", &|o| o.by_nodes / o.sessions, Unit::Percent),
        ];
        let mut table = Table::new(
            [Column::left("of the networks")]
                .into_iter()
                .chain(["mean", "±", "middle", "nine of ten below", "most"].map(Column::right)),
        );
        for (name, of, unit) in &rows {
            let Some(summary) = summary(of) else { continue };
            table.row([
                (*name).to_owned(),
                unit.format(summary.mean),
                summary.confidence().map_or_else(String::new, |half| unit.format(half)),
                unit.format(summary.percentile(0.5)),
                unit.format(summary.percentile(0.9)),
                unit.format(summary.percentile(1.0)),
            ]);
        }
        console.table(&table);
        let mut regret = Table::new(
            [Column::left("longer than who knows the links")]
                .into_iter()
                .chain([Column::right("of their time")]),
        );
        let lost =
            |of: &dyn Fn(&Outcome) -> f64| Summary::of(outcomes.iter().map(of)).map_or(0.0, |s| s.mean);
        let causes: Vec<f64> = (0..CAUSES.len()).map(|at| lost(&|o| o.causes[at] / o.oracle)).collect();
        let of_minutes: Vec<f64> = (0..MINUTES.len()).map(|at| lost(&|o| o.minutes[at] / o.oracle)).collect();
        for (name, part) in CAUSES.iter().zip(&causes).chain(MINUTES.iter().zip(&of_minutes)) {
            regret.row([(*name).to_owned(), Unit::Percent.format(*part)]);
        }
        console.table(&regret);
        let mean = |of: &dyn Fn(&Outcome) -> f64| summary(of).map_or(f64::NAN, |summary| summary.mean);
        let beside_oracle = mean(&|o| o.closed / o.oracle);
        let worst = summary(&|o| o.closed / o.direct).map_or(f64::NAN, |summary| summary.percentile(1.0));
        let explored_time = mean(&|o| o.explored_seconds / o.closed);
        let errors = Summary::of(outcomes.iter().flat_map(|outcome| outcome.errors.iter().copied()));
        let error = errors.map_or(f64::NAN, |errors| errors.percentile(0.5));
        console.say(&format!(
            "Exploring was expected to cost {} of the time; forecasts were off by {} in the middle, after {LEARNING_TAKES} sessions.",
            Unit::Percent.format(explored_time),
            Unit::Percent.format(error),
        ));
        let failures = failures(beside_oracle, worst);
        let json = json!({
            "networks": self.networks(), "minutes": self.minutes(), "sessions_a_minute": self.sessions, "samples": self.samples,
            "seed": self.seed, "nodes_tell": self.nodes_tell, "beside_oracle": beside_oracle, "beside_direct": mean(&|o| o.closed / o.direct),
            "beside_direct_most": worst, "oracle_beside_direct": mean(&|o| o.oracle / o.direct),
            "explored_share": mean(&|o| o.explored / o.sessions), "explored_time_share": explored_time,
            "beside_other_samples": mean(&|o| o.closed / o.other_samples), "beside_minute_ago": mean(&|o| o.closed / o.minute_ago),
            "other_samples_beside_oracle": mean(&|o| o.other_samples / o.oracle), "minute_ago_beside_oracle": mean(&|o| o.minute_ago / o.oracle),
            "one_way_beside_oracle": mean(&|o| o.one_way / o.oracle), "causes": causes, "when": of_minutes,
            "by_nodes": mean(&|o| o.by_nodes / o.sessions), "median_forecast_error": error, "each": outcomes,
        });
        Judgement::holds(json).unless((!failures.is_empty()).then(|| failures.join("; ")))
    }
}
