//! `shorthaul merge`: the parts of a study that several machines have run, put together.
use crate::ending::asked;
use shorthaul_observe::{Shard, results};
use shorthaul_report::{Manifest, Terminal};
use std::path::PathBuf;

/// Missing parts that are named, at most.
const NAMED: usize = 20;

/// Put together the results that several `shorthaul run --shard` have written
#[derive(clap::Args)]
pub struct Args {
    /// The `runs.jsonl` files, or the directories that hold them
    #[arg(required = true)]
    parts: Vec<PathBuf>,
    /// Write the whole to this directory
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print JSON and nothing else: what results.json has
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut records = Vec::new();
    for part in &args.parts {
        let file = if part.is_dir() { part.join("runs.jsonl") } else { part.clone() };
        records.extend(results::read(&file)?);
    }
    let first = records.first().ok_or_else(|| asked!("the files hold no runs"))?.scenario.clone();
    if let Some(other) = records.iter().find(|record| record.scenario != first) {
        let other = &other.scenario;
        return Err(asked!(
            "these are runs of two scenarios, `{first}` and `{other}`: merge each for itself"
        )
        .into());
    }
    records.sort_by_key(|record| (record.point, record.engine, record.seed));
    let before = records.len();
    records.dedup_by_key(|record| (record.point, record.engine, record.seed));
    let mut missing: Vec<String> =
        Shard::missing(&records).take(NAMED + 1).map(|part| part.to_string()).collect();
    if missing.len() > NAMED {
        missing[NAMED] = "others".into();
    }
    // Of those that do not say what part they are, nobody knows which they bring.
    let is = if records.iter().any(|record| record.part.is_none()) { "may not be" } else { "is not" };
    if missing.is_empty() {
        // Together they are a whole, and none of them a part of anything.
        records.iter_mut().for_each(|record| record.part = None);
    }
    let manifest = Manifest::of_this_command();
    if args.json {
        println!("{:#}", results::json(&manifest, &records)?);
    } else {
        print!("{}", results::table(&records).render(Terminal::stdout()));
    }
    for remark in results::unended_sentences(&records) {
        eprintln!("{remark}");
    }
    if !missing.is_empty() {
        eprintln!("this {is} the whole: nothing of part {} is among these", missing.join(", "));
    }
    if before > records.len() {
        eprintln!("{} runs were in more than one part", before - records.len());
    }
    if let Some(out) = &args.out {
        let about = results::About { title: &first, ..results::About::default() };
        results::write(out, &manifest, &about, &records)?;
    }
    Ok(())
}
