//! `shorthaul reproduce`: the figures of a paper, from its scenario files to plots.
use crate::console::{AsJson, Screen};
use shorthaul_papers::Papers;

/// Run what a paper has measured, and draw its figures from the results
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    paper: Papers,
    /// Print JSON and nothing else: what the paper states beside what came out, and tables cell by cell
    #[arg(long, global = true)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let screen = Screen::new();
    if args.json {
        let json = AsJson::new(&screen);
        let findings = args.paper.reproduce(&json)?;
        json.print(serde_json::json!({ "findings": findings }));
    } else {
        args.paper.reproduce(&screen)?;
    }
    Ok(())
}
