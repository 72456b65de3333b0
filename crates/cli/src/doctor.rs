//! `shorthaul doctor`: what of this host helps or hinders.
use crate::ending::FAILED;
use shorthaul_dataplane::{Config, Finding, Health, examine};
use shorthaul_report::{Column, Table, TableCell, Terminal, Tone};
use std::path::PathBuf;
use std::process::ExitCode;

/// Say what of this host is well for gateways and nodes, what is not, and the command that mends it
///
/// Nothing is changed. The exit status is 1 if something is wrong.
#[derive(clap::Args)]
pub struct Args {
    /// The gateway's configuration file, for its interfaces, memory and tables
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where control socket and crash journal are to be, if not where the configuration says
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// Print JSON and nothing else
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut config = args.config.as_deref().map_or_else(|| Ok(Config::default()), Config::read)?;
    config.run_dir = args.run_dir.clone().unwrap_or(config.run_dir);
    let found = examine(&config);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&found)?);
    } else {
        let mut table = Table::new([Column::left(""), Column::left("what"), Column::left("seen")]);
        for Finding { what, health, seen, .. } in &found {
            let (word, tone) = match health {
                Health::Well => ("well", Tone::Good),
                Health::Note => ("note", Tone::Plain),
                Health::Wrong => ("WRONG", Tone::Bad),
            };
            table.row([TableCell::toned(word, tone), (*what).into(), seen.as_str().into()]);
        }
        print!("{}", table.render(Terminal::stdout()));
        for Finding { what, mend, .. } in &found {
            if let Some(mend) = mend {
                println!("{what}: {mend}");
            }
        }
    }
    let wrong = found.iter().any(|finding| finding.health == Health::Wrong);
    Ok(if wrong { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}
