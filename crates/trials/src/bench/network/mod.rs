//! A relay network of many nodes and very many clients, simulated and on paper: what discovery asks of each, how soon a dead node is avoided, and where it
//! breaks first.
//!
//! Reading order: `scenario` (what is simulated), `costs` (what messages cost, measured; `etcd` for that), `world` (who is where, and dies when), `round` (a round of
//! probing), `directory` (its queue), `choosing` (which way a session takes), `model` (all of it, event by event), `outcome` (the figures), `paper` (the same in
//! closed form), `breaks` (what there is enough of), `show`.
mod breaks;
mod choosing;
pub mod costs;
mod directory;
mod etcd;
mod model;
mod outcome;
mod paper;
mod round;
mod scenario;
mod show;
mod world;

#[cfg(test)]
mod tests;

use crate::error::{Result, TrialError};
use crate::trial::{Judgement, Trial};
use breaks::{Part, breaks_at, loads};
use costs::Costs;
use model::Model;
use outcome::{Figures, Outcome};
use paper::Paper;
use scenario::Scenario;
use serde_json::{Value, json};
use shorthaul_report::{Column, Console, Manifest, Progress, Table, Unit, make_directory, write_file};
use shorthaul_types::Time;
use show::{Beside, Swept};
use std::path::PathBuf;

/// A relay network of thousands of nodes and a million clients, simulated: traffic, tables, how soon a dead node is avoided, and what breaks first
///
/// Clients keep their tables, and nodes limit their answers, with the program's own code; what a message costs was measured by `bench network-costs`. The same
/// quantities stand beside, on paper. It holds if everybody avoids a dead node as soon as the program's timers say. The last line is the result as JSON.
#[derive(clap::Args)]
pub struct Network {
    /// What is simulated
    #[arg(default_value = "bench/network/network.toml")]
    scenario: PathBuf,
    /// Simulate one client of so many, with limits to match, instead of what the scenario says
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=1000))]
    thin: Option<u64>,
    /// Say how far this is from the same with one client of so many
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(2..=1000))]
    beside_thin: Option<u64>,
    /// Also with more and fewer clients and nodes, and more nodes that change: what breaks first
    #[arg(long)]
    sweep: bool,
    /// In the sweep, simulate no more clients than this
    #[arg(long, value_name = "NUMBER", default_value_t = 50_000)]
    most: usize,
    /// Another seed than the scenario's
    #[arg(long)]
    seed: Option<u64>,
    /// Where results are kept: results.json, network.svg, network.png
    #[arg(long, default_value = "out/bench-network")]
    out: PathBuf,
}

/// What is more or less in a sweep, and how much.
const SWEPT: [(&str, &[f64]); 3] = [
    ("clients", &[0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0]),
    ("nodes", &[0.01, 0.1, 0.3, 1.0, 3.0]),
    ("changing nodes", &[1.0, 10.0, 100.0]),
];

/// What is swept, and the scenarios for each factor.
type ToSweep = (&'static str, Vec<(f64, Scenario)>);

/// What came of a scenario.
struct Ran {
    figures: Figures,
    paper: Paper,
    outcome: Outcome,
}

fn run(scenario: &Scenario, costs: &Costs, progress: &Progress<'_>) -> Ran {
    let world = world::World::new(scenario, Time::ZERO);
    let paper = Paper::of(scenario, costs, |destination| world.popularity(destination));
    let outcome = Model::new(scenario, costs).run(progress);
    Ran { figures: outcome.figures(scenario, costs), paper, outcome }
}

impl Trial for Network {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        let (mut scenario, costs) = Scenario::read(&self.scenario)?;
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        scenario.clients.thin = self.thin.map_or(scenario.clients.thin, |thin| thin as usize);
        let checked = |scenario: Scenario| scenario.check().map(|()| scenario).map_err(TrialError::asked);
        let scenario = checked(scenario)?;
        let thinned = self.beside_thin.map(|thin| {
            let mut thinned = scenario.clone();
            thinned.clients.thin = thin as usize;
            checked(thinned)
        });
        let thinned = thinned.transpose()?;
        let swept = if self.sweep { self.swept(&scenario)? } else { Vec::new() };
        let steps =
            1 + usize::from(thinned.is_some()) + swept.iter().map(|(_, runs)| runs.len()).sum::<usize>();
        let progress = Progress::begin(console, steps);
        let base = run(&scenario, &costs, &progress);
        progress.note("the scenario itself");
        let thinned = thinned.map(|thinned| {
            let ran = run(&thinned, &costs, &progress);
            progress.note(&format!("with one client of {}", thinned.clients.thin));
            ran.figures
        });
        let mut all = Vec::new();
        for (what, runs) in swept {
            let mut ran = Vec::new();
            for (factor, scenario) in runs {
                let figures = run(&scenario, &costs, &progress).figures;
                progress.note(&format!("{factor} × {what}"));
                ran.push((factor, scenario, figures));
            }
            all.push(Swept { what, runs: ran });
        }
        drop(progress);
        self.tell(console, &scenario, &costs, &base, thinned.as_ref(), &all)
    }
}

impl Network {
    /// What the scenario becomes with more and less.
    fn swept(&self, scenario: &Scenario) -> Result<Vec<ToSweep>> {
        let times = |count: usize, factor: f64| ((count as f64 * factor).round() as usize).max(1);
        let of = |what: &str, factor: f64| {
            let mut other = scenario.clone();
            match what {
                "clients" => other.clients.count = times(other.clients.count, factor),
                "nodes" => other.nodes.count = times(other.nodes.count, factor),
                _ => other.nodes.changing *= factor,
            }
            other.clients.thin = other.clients.count.div_ceil(self.most.max(1));
            other
                .check()
                .map(|()| (factor, other))
                .map_err(|why| TrialError::asked(format!("{factor} × {what}: {why}")))
        };
        SWEPT
            .iter()
            .map(|(what, factors)| {
                Ok((*what, factors.iter().map(|factor| of(what, *factor)).collect::<Result<_>>()?))
            })
            .collect()
    }

    fn tell(
        &self,
        console: &dyn Console,
        scenario: &Scenario,
        costs: &Costs,
        base: &Ran,
        thinned: Option<&Figures>,
        swept: &[Swept<'_>],
    ) -> Result<Judgement> {
        let Ran { figures, paper, outcome } = base;
        show::traffic(console, figures);
        show::sessions(console, figures);
        let beside = show::beside(paper, figures);
        show::on_paper(console, &beside);
        show::parts(console, figures, scenario, costs);
        let error = thinned.map(|thinned| thinning(console, figures, thinned));
        let broken: Vec<Value> = swept.iter().map(|swept| breaking(console, swept, costs)).collect();
        make_directory(&self.out)?;
        let text = std::fs::read_to_string(&self.scenario).unwrap_or_default();
        let manifest = costs::told(
            Manifest::of_this_command()
                .with_machine()
                .seed(scenario.seed)
                .scenario(&self.scenario.display().to_string(), &text),
            costs,
        );
        let title = format!("{} clients, {} nodes", figures.clients, figures.nodes);
        show::picture(&title, &outcome.avoided, figures, paper, swept, costs)
            .save(&self.out.join("network"), &manifest)?;
        let differing: Vec<&str> =
            beside.iter().filter(|one| show::differs(one)).map(|one| one.name).collect();
        let of_parts = |figures: &Figures, scenario: &Scenario| {
            let loads = loads(figures, scenario, costs);
            loads.iter().map(|(part, load)| json!({ "part": part, "load": load })).collect::<Vec<_>>()
        };
        let told = |all: &[Beside]| {
            all.iter()
                .map(|one| json!({ "what": one.name, "paper": one.paper, "simulated": one.simulated }))
                .collect::<Vec<_>>()
        };
        let runs: Vec<Value> = swept
            .iter()
            .map(|swept| {
                let runs = swept.runs.iter().map(|(factor, scenario, figures)| {
                    json!({ "factor": factor, "figures": figures, "loads": of_parts(figures, scenario) })
                });
                json!({ "what": swept.what, "runs": runs.collect::<Vec<_>>() })
            })
            .collect();
        let details = json!({
            "bench": "network", "scenario": self.scenario, "seed": scenario.seed, "costs": costs, "figures": figures, "paper": paper,
            "beside": told(&beside), "differs": differing, "loads": of_parts(figures, scenario), "thinning": error, "breaks": broken, "sweep": runs,
        });
        write_file(&self.out.join("results.json"), format!("{details:#}\n"))?;
        let most_asked = loads(figures, scenario, costs)[0];
        let summary = json!({
            "bench": "network", "clients": figures.clients, "nodes": figures.nodes, "thin": figures.thin,
            "probes_of_client": figures.probes_of_client.mean, "probes_of_node": figures.probes_of_node.mean,
            "probes_of_busiest_node": figures.probes_of_node.most, "bytes_of_client": figures.bytes_of_client.mean,
            "directory_bytes_per_s": figures.bytes_read, "failed_reads": figures.failed_reads, "by_node": figures.came[0],
            "avoided_median_s": figures.avoided.median, "avoided_p99_s": figures.avoided.p99, "avoided_most_s": figures.avoided.most,
            "hurt_per_hour": figures.hurt, "best": figures.best, "missed": figures.missed, "wrong": figures.wrong,
            "most_asked": most_asked.0, "load": most_asked.1, "differs": differing, "breaks": broken, "out": self.out,
        });
        // One thread looks at all that a client's table has, one after the other.
        let others = (figures.destinations_of_client.most - 1.0).max(0.0);
        let bound = paper.avoided_most + others * paper::longest_look(scenario);
        let failure = (figures.avoided.most > bound).then(|| {
            format!(
                "somebody avoided a dead node only after {:.0} s, where the timers of the program say {bound:.0} s at most",
                figures.avoided.most
            )
        });
        Ok(Judgement::holds(summary).with(details).unless(failure))
    }
}

/// How far one client of so many is from all of them.
fn thinning(console: &dyn Console, all: &Figures, thinned: &Figures) -> Value {
    type Of = fn(&Figures) -> f64;
    let rows: [(&str, Of, Unit); 9] = [
        ("a client's probes a second", |figures| figures.probes_of_client.mean, Unit::None),
        ("a node's probes a second", |figures| figures.probes_of_node.mean, Unit::None),
        ("the same of the busiest", |figures| figures.probes_of_node.most, Unit::None),
        ("readings of the directory a second", |figures| figures.reads, Unit::None),
        ("ways that nodes do not know", |figures| figures.unknown, Unit::Percent),
        ("sessions by a node", |figures| figures.came[0], Unit::Percent),
        ("a dead node avoided by half after", |figures| figures.avoided.median, Unit::Seconds),
        ("by 99 of 100 after", |figures| figures.avoided.p99, Unit::Seconds),
        ("sessions an hour that waited for a dead one", |figures| figures.hurt, Unit::None),
    ];
    let heading = format!("one of {}", thinned.thin);
    let mut table = Table::new(
        [Column::left("simulated clients")]
            .into_iter()
            .chain([format!("one of {}", all.thin).as_str(), &heading, "off by"].map(Column::right)),
    );
    let mut told = serde_json::Map::new();
    for (name, of, unit) in rows {
        let (whole, part) = (of(all), of(thinned));
        let off = if whole == 0.0 { 0.0 } else { part / whole - 1.0 };
        told.insert(name.to_owned(), json!(off));
        table.row([name.to_owned(), unit.format(whole), unit.format(part), Unit::Percent.format(off)]);
    }
    console.table(&table);
    Value::Object(told)
}

/// Where each part breaks, and what becomes of sessions then.
fn breaking(console: &dyn Console, swept: &Swept<'_>, costs: &Costs) -> Value {
    let mut table = Table::new(
        [Column::left(&format!("× {}", swept.what)), Column::left("most is asked of")].into_iter().chain(
            [
                "beside what it can",
                "by a node",
                "way on unknown",
                "no node",
                "waited for the directory",
                "failed readings",
                "times as fast",
            ]
            .map(Column::right),
        ),
    );
    for (factor, scenario, figures) in &swept.runs {
        let (part, load) = loads(figures, scenario, costs)[0];
        let share = |share: f64| Unit::Percent.format(share);
        table.row([
            format!("{factor}"),
            part.name().to_owned(),
            share(load),
            share(figures.came[0]),
            share(figures.came[4]),
            share(figures.without_nodes()),
            share(figures.held_up),
            share(figures.failed_reads),
            format!("{:.2}", figures.gain),
        ]);
    }
    console.table(&table);
    let found = |part: &Part| -> Vec<(f64, f64)> {
        swept
            .runs
            .iter()
            .map(|(factor, scenario, figures)| (*factor, part.load(figures, scenario, costs)))
            .collect()
    };
    let mut at: Vec<(Part, f64)> =
        Part::ALL.iter().filter_map(|part| Some((*part, breaks_at(&found(part))?))).collect();
    at.sort_by(|a, b| a.1.total_cmp(&b.1));
    let said: Vec<String> =
        at.iter().map(|(part, factor)| format!("{} at {factor:.3}", part.name())).collect();
    console.say(&match said.is_empty() {
        true => format!(
            "nothing breaks with up to {} × {}",
            swept.runs.last().map_or(1.0, |run| run.0),
            swept.what
        ),
        false => format!("{} × breaks: {}", swept.what, said.join("; ")),
    });
    json!({ "what": swept.what, "breaks": at.iter().map(|(part, factor)| json!({ "part": part, "factor": factor })).collect::<Vec<_>>() })
}
