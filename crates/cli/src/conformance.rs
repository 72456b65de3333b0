//! `shorthaul conformance`: what a transparent gateway must not break, tried out live.
use anyhow::{Context as _, bail};
use clap::ValueEnum;
use shorthaul_conformance::{Case, Fault, Gateway, Outcome, Suite, cases};
use shorthaul_types::Seed;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

/// Test a transparent TCP gateway against the Linux kernel on both sides.
///
/// Builds small networks (client, gateway, server), runs the gateway in them, and checks case by
/// case that TCP keeps its promises. Exits with status 0 only if every case passes.
#[derive(clap::Args)]
pub struct Args {
    /// What to test: `none` (the kernel's own forwarding: the control), `shorthaul`, or a shell
    /// command that runs another gateway until it is killed. `{edge}` and `{wan}` in it (also $EDGE
    /// and $WAN) are the interfaces toward client and server.
    #[arg(long, default_value = "shorthaul", value_name = "none|shorthaul|COMMAND")]
    gateway: String,

    /// An option for `shorthaul gateway`, such as `--gateway-option=--aggregate=auto`. Can be given several times.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    gateway_option: Vec<String>,

    /// A command is ready when it prints a line that contains this (without: after a second).
    #[arg(long, value_name = "TEXT")]
    ready_line: Option<String>,

    /// Only the cases whose name contains this. Can be given several times.
    #[arg(long, value_name = "NAME")]
    filter: Vec<String>,

    /// Only with this fault on the link between client and gateway.
    #[arg(long)]
    fault: Option<FaultName>,

    /// Also the cases that take minutes.
    #[arg(long)]
    long: bool,

    /// Write the report to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Seed of all data and faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// List the cases, and run nothing.
    #[arg(long)]
    list: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum FaultName {
    /// None.
    None,
    /// 2 % loss, with duplicates and reordering, both ways.
    Lossy,
}

impl Args {
    fn selected(&self) -> Vec<Case> {
        let named = |case: &Case| {
            self.filter.is_empty() || self.filter.iter().any(|f| case.name.contains(f.as_str()))
        };
        cases().into_iter().filter(|case| named(case) && (self.long || !case.is_long())).collect()
    }

    fn gateway(&self) -> anyhow::Result<Gateway> {
        Ok(match self.gateway.as_str() {
            "none" => Gateway::None,
            "shorthaul" => Gateway::Shorthaul {
                program: std::env::current_exe()
                    .context("cannot tell where this program is, to run it as gateway")?,
                options: self.gateway_option.clone(),
            },
            line => Gateway::Command { line: line.to_string(), ready: self.ready_line.clone() },
        })
    }
}

/// Runs the suite and prints the report.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let selected = args.selected();
    if selected.is_empty() {
        bail!("no case has a name that contains `{}`; `--list` shows them all", args.filter.join("` or `"));
    }
    if args.list {
        for case in selected {
            println!("{:<32} {}  [{}]", case.name, case.about, case.reference);
        }
        return Ok(());
    }
    let suite = Suite {
        gateway: args.gateway()?,
        faults: match args.fault {
            None => vec![Fault::None, Fault::Lossy],
            Some(FaultName::None) => vec![Fault::None],
            Some(FaultName::Lossy) => vec![Fault::Lossy],
        },
        cases: selected,
        seed: Seed(args.seed),
    };
    let report = suite.run(show_progress)?;
    if let Some(file) = &args.json {
        std::fs::write(file, report.to_json()).with_context(|| format!("cannot write {}", file.display()))?;
    }
    println!("{report}");
    if report.failed() > 0 {
        std::process::exit(1);
    }
    Ok(())
}

/// Tells a person who waits what has just been found; the report on standard output has it all.
fn show_progress(outcome: &Outcome) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        // Nothing is lost if this cannot be written.
        let _ = writeln!(stderr, "{outcome}");
    }
}
