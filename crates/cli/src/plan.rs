//! `shorthaul plan`: whether a transfer should use relays, how many, which, and what comes of it.
//!
//! Reading order: `line` (relays anywhere on one path), `flow` (a scenario file's path and relays), `sites` (the file of
//! measured sites), `network` (relays at those sites); each makes a table, a figure, rows for programs and the sentence that a
//! person would say.
mod flow;
mod line;
mod map;
mod network;
mod row;
mod sites;

use crate::ending::asked;
use std::path::PathBuf;
use std::time::Duration;

use crate::route::loss;
use anyhow::{Context as _, Result};
use shorthaul_planner::{Forwarding, Leg, Limits, Policy, SetUp, ThroughputModel, Transfer, model};
use shorthaul_report::plot::Figure;
use shorthaul_report::{Manifest, Table, Terminal};
use shorthaul_types::{BitRate, Bytes, parse_duration};

use row::Row;

pub use sites::SitesError;

/// Say whether a transfer should use relays, how many, where, with what buffers, and what is gained.
///
/// Either describe one path (`--rtt 128ms --loss 0.1% --rate 32Mbit/s --size 100MB`), on which relays can stand anywhere;
/// or give a file of measured sites (`--sites sites.toml --size 10GB`), of which the best are chosen; or a scenario file
/// (`--scenario my.toml`), of whose relays the best are chosen.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("file").args(["sites", "scenario"]))]
pub struct Args {
    /// How much is to be moved, by all streams together; a scenario's flows may say it themselves.
    #[arg(long, value_name = "SIZE", required_unless_present = "scenario")]
    size: Option<Bytes>,

    /// Connections that share the size.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, conflicts_with = "sites")]
    streams: u32,

    /// The round-trip time between the ends.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true, required_unless_present = "file")]
    rtt: Option<Duration>,

    /// The share of packets that the path loses, all of it together.
    #[arg(long, value_name = "SHARE", value_parser = loss, allow_hyphen_values = true, required_unless_present = "file")]
    loss: Option<f64>,

    /// The rate of the narrowest link, headers included.
    #[arg(long, value_name = "RATE", required_unless_present = "file")]
    rate: Option<BitRate>,

    /// What the narrowest link's queue holds, in bandwidth-delay products.
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0, conflicts_with = "file")]
    queue: f64,

    /// The smaller of both ends' TCP buffers, if they bind.
    #[arg(long, value_name = "SIZE", conflicts_with = "file")]
    window: Option<Bytes>,

    /// A TOML file of sites and what was measured between them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rtt", "loss", "rate"])]
    sites: Option<PathBuf>,

    /// A scenario file, as `shorthaul run` takes it: its path, its relays, and what its hosts speak.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rtt", "loss", "rate", "buffer", "sequential"])]
    scenario: Option<PathBuf>,

    /// The flow to be planned; without, the scenario's first. With `--scenario`.
    #[arg(long, value_name = "NAME", requires = "scenario")]
    flow: Option<String>,

    /// The point of the scenario's sweep, counted from 1; without, the first. With `--scenario`.
    #[arg(long, value_name = "NUMBER", requires = "scenario")]
    point: Option<usize>,

    /// How many relays are thought of: `0..4` is none to four, `2` is up to two.
    #[arg(long, value_name = "NUMBERS", default_value = "0..4", value_parser = parse_relays)]
    relays: RelayRange,

    /// How TCP behaves; without, as a scenario's hosts and relays do, or else by `cubic`.
    #[arg(long, value_name = "MODEL", value_parser = model_names())]
    model: Option<String>,

    #[command(flatten)]
    map: map::MapArgs,

    /// Use relays only if that is at least this many times as fast; 0 for always.
    #[arg(long, value_name = "TIMES", default_value_t = 1.1)]
    min_gain: f64,

    /// What each relay can hold; without, as much as it needs.
    #[arg(long, value_name = "SIZE", conflicts_with = "sites")]
    buffer: Option<Bytes>,

    /// Round trips that each relay waits before it sends on.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, alias = "wait-windows")]
    wait: u32,

    /// Relays store everything before they send it on.
    #[arg(long, alias = "stored", conflicts_with = "wait")]
    store: bool,

    /// Relays are set up one after the other.
    #[arg(long)]
    sequential: bool,

    /// The sum of the legs' round-trip times is to be no longer. With `--sites`.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "sites")]
    max_rtt: Option<Duration>,

    /// The transfer is to cost no more. With `--sites`.
    #[arg(long, value_name = "PRICE", requires = "sites")]
    max_price: Option<f64>,

    /// All relays together are to hold no more. With `--sites`.
    #[arg(long, value_name = "SIZE", requires = "sites")]
    max_memory: Option<Bytes>,

    /// Write figure and data, too: `<STEM>.svg`, `<STEM>.png`, `<STEM>.csv`.
    #[arg(long, value_name = "STEM")]
    out: Option<PathBuf>,

    /// Print JSON and nothing else.
    #[arg(long)]
    json: bool,
}

/// From how many relays to how many, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RelayRange {
    least: usize,
    most: usize,
}

/// More relays than this nobody has.
const MOST_RELAYS: usize = 64;

fn parse_relays(text: &str) -> Result<RelayRange, String> {
    let wrong = || format!("write a range such as `0..4` or a number from 0 to {MOST_RELAYS}");
    let number = |part: &str| part.trim().parse::<usize>().map_err(|_| wrong());
    let range = match text.split_once("..") {
        Some((least, most)) => {
            RelayRange { least: number(least)?, most: number(most.trim_start_matches('='))? }
        }
        None => RelayRange { least: 0, most: number(text)? },
    };
    if range.least <= range.most && range.most <= MOST_RELAYS { Ok(range) } else { Err(wrong()) }
}

fn model_names() -> clap::builder::PossibleValuesParser {
    use clap::builder::PossibleValue;
    model::all()
        .iter()
        .map(|model| PossibleValue::new(model.name()).help(model.source()))
        .chain([PossibleValue::new(map::NAME)
            .help("what simulations of other paths say; a gateway is among the ways")])
        .collect::<Vec<_>>()
        .into()
}

/// What was found out, ready to be shown.
struct Answer {
    /// What was asked, in a line.
    question: String,
    table: Table,
    /// What a person would say.
    sentences: Vec<String>,
    figure: Figure,
    rows: Vec<Row>,
    /// What the plan was made from, by name and text.
    file: Option<(String, String)>,
}

impl Answer {
    fn json(&self) -> serde_json::Value {
        let rows: Vec<serde_json::Value> = self.rows.iter().map(Row::json).collect();
        serde_json::json!({ "question": self.question, "sentences": self.sentences, "ways": rows })
    }
}

/// Plans, prints, draws.
pub fn run(args: &Args) -> Result<()> {
    if args.model.as_deref() == Some(map::NAME) {
        return map::run(args);
    }
    let model = model::by_name(args.model.as_deref().unwrap_or("cubic"))?;
    let answer = match (&args.sites, &args.scenario) {
        (Some(file), _) => network::answer(args, file, &*model)?,
        (None, Some(file)) => flow::answer(args, file)?,
        (None, None) => line::answer(args, &*model)?,
    };
    let manifest = args.manifest(&answer, &*model);
    let files = args.out.as_ref().map(|out| -> Result<_> {
        let [svg, png] = answer.figure.save(out, &manifest)?;
        let csv = svg.with_extension("csv");
        row::csv(&answer.rows, &manifest)?.save(&csv)?;
        Ok([svg, png, csv])
    });
    let files = files.transpose()?;
    if args.json {
        println!("{:#}", answer.json());
        return Ok(());
    }
    println!("{}\n", answer.question);
    print!("{}", answer.table.render(Terminal::stdout()));
    println!();
    for sentence in &answer.sentences {
        println!("{sentence}");
    }
    if let Some([svg, png, csv]) = files {
        println!("\nFigure and data: {}, {}, {}", svg.display(), png.display(), csv.display());
    }
    Ok(())
}

impl Args {
    /// The path that the flags describe.
    fn leg(&self) -> Result<Leg> {
        let (Some(rtt), Some(loss), Some(rate)) = (self.rtt, self.loss, self.rate) else {
            let wanted = "describe the path: --rtt 128ms --loss 0.1% --rate 32Mbit/s, or give --sites FILE";
            return Err(asked!("{wanted}").into());
        };
        let leg = Leg { queue_bdp: self.queue, window_limit: self.window, ..Leg::new(rtt, loss, rate) };
        leg.check().context("the path described by the flags")?;
        Ok(leg)
    }

    fn transfer(&self) -> Result<Transfer> {
        let transfer = Transfer {
            size: self.size.ok_or_else(|| asked!("say how much is to be moved: --size"))?,
            forwarding: if self.store {
                Forwarding::Stored
            } else {
                Forwarding::Pipelined { wait_windows: self.wait }
            },
            set_up: if self.sequential { SetUp::Sequential } else { SetUp::Parallel },
            streams: self.streams,
        };
        transfer.check().context("--size")?;
        Ok(transfer)
    }

    fn limits(&self) -> Limits {
        Limits {
            relays: self.relays.most,
            round_trip: self.max_rtt,
            price: self.max_price,
            memory: self.max_memory,
        }
    }

    fn policy(&self) -> Policy {
        if self.min_gain > 0.0 { Policy::Gain(self.min_gain) } else { Policy::Always }
    }

    fn manifest(&self, answer: &Answer, model: &dyn ThroughputModel) -> Manifest {
        let manifest = Manifest::of_this_command();
        // A scenario's legs may each have their own, which the question names.
        let manifest = match (&self.scenario, &self.model) {
            (Some(_), None) => manifest,
            _ => manifest.fact("model", &format!("{}: {}", model.name(), model.source())),
        };
        match &answer.file {
            Some((name, text)) => manifest.scenario(name, text),
            None => manifest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relays_are_a_range_or_a_number() {
        let range = |least, most| Ok(RelayRange { least, most });
        assert_eq!(parse_relays("0..4"), range(0, 4));
        assert_eq!(parse_relays("1..=3"), range(1, 3));
        assert_eq!(parse_relays("2"), range(0, 2));
        for wrong in ["4..1", "many", "0..100", "-1"] {
            assert!(parse_relays(wrong).unwrap_err().contains("0..4"), "{wrong}");
        }
    }
}
