//! `shorthaul reproduce`: the figures of a paper, from its scenario files to plots.
use crate::console::Screen;
use shorthaul_papers::Papers;

/// Run what a paper has measured, and draw its figures from the results
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    paper: Papers,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.paper.reproduce(&Screen::new())?;
    Ok(())
}
