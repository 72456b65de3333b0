//! `shorthaul scenario`: look at scenario files without running them.
use crate::ending::{asked, in_words};
use clap::Subcommand;
use shorthaul_scenario::Study;
use std::path::PathBuf;

/// Check scenario files, say what they would run, or print the schema of their format
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Read scenario files and say what is wrong with them, with line and remedy
    Check {
        /// The scenario files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Say in words what a scenario file would run
    Explain {
        /// The scenario file
        file: PathBuf,
        /// Print JSON and nothing else
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON schema of scenario files, for editors
    Schema,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.action {
        Action::Check { files } => check(files),
        Action::Explain { file, json } => {
            let study = Study::from_file(file)?;
            if *json {
                println!("{:#}", study.explain_to_programs());
            } else {
                print!("{}", study.explain());
            }
            Ok(())
        }
        Action::Schema => {
            println!("{}", serde_json::to_string_pretty(&shorthaul_scenario::schema())?);
            Ok(())
        }
    }
}

fn check(files: &[PathBuf]) -> anyhow::Result<()> {
    let mut wrong = 0;
    for file in files {
        match Study::from_file(file) {
            Ok(study) => {
                let runs = study.points().len() * study.seeds().count();
                println!("{}: sound, {runs} runs", file.display());
            }
            Err(error) => {
                eprintln!("{}", in_words(&error.to_string()));
                wrong += 1;
            }
        }
    }
    match wrong {
        0 => Ok(()),
        _ => Err(asked!("{wrong} of {} files cannot be run", files.len()).into()),
    }
}
