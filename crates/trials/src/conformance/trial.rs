//! The suite as a trial: which cases, against which gateway.
use super::{Case, Fault, Gateway, Suite, cases};
use crate::error::{Result, While};
use crate::trial::{Judgement, Trial, select};
use clap::ValueEnum;
use serde_json::json;
use shorthaul_report::{Console, write_file};
use shorthaul_types::Seed;
use std::path::PathBuf;

/// Test a transparent TCP gateway against the Linux kernel on both sides.
///
/// Builds small networks (client, gateway, server), runs the gateway in them, and checks case by
/// case that TCP keeps its promises. Exits with status 0 only if every case passes.
#[derive(clap::Args)]
pub struct Conformance {
    /// What to test: `none` (the kernel's own forwarding: the control), `shorthaul`, or a shell
    /// command that runs another gateway until it is killed. `{access}` and `{wan}` in it (also $ACCESS
    /// and $WAN) are the interfaces toward client and server.
    #[arg(long, default_value = "shorthaul", value_name = "none|shorthaul|COMMAND")]
    gateway: String,

    /// An option for `shorthaul gateway`, such as `--gateway-option=--aggregate=auto`. Can be given several times.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    gateway_option: Vec<String>,

    /// Change the configuration of `shorthaul gateway` about seven times a second while the cases run: split, observed, `auto`,
    /// and half of the flows in the control group
    #[arg(long)]
    changing: bool,

    /// A command is ready when it prints a line that contains this (without: after a second).
    #[arg(long, value_name = "TEXT")]
    ready_line: Option<String>,

    /// Only the cases whose name contains this. Can be given several times.
    #[arg(long, alias = "filter", value_name = "NAME")]
    only: Vec<String>,

    /// Only with this fault on the link between client and gateway.
    #[arg(long)]
    fault: Option<FaultName>,

    /// Also the cases that take minutes.
    #[arg(long)]
    long: bool,

    /// Write the report to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

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

impl Conformance {
    fn selected(&self) -> Result<Vec<Case>> {
        let usual = cases().into_iter().filter(|case| self.long || !case.is_long()).collect();
        select(usual, &self.only, |case| case.name.to_owned())
    }

    fn gateway(&self) -> Result<Gateway> {
        Ok(match self.gateway.as_str() {
            "none" => Gateway::None,
            "shorthaul" => Gateway::Shorthaul {
                program: std::env::current_exe().doing("looking for this program, to run it as gateway")?,
                options: self.gateway_option.clone(),
                changing: self.changing,
            },
            line => Gateway::Command { line: line.to_string(), ready: self.ready_line.clone() },
        })
    }
}

impl Trial for Conformance {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        let selected = self.selected()?;
        if self.list {
            for case in &selected {
                console.say(&format!("{:<32} {}  [{}]", case.name, case.about, case.reference));
            }
            let listed =
                |case: &Case| json!({ "name": case.name, "about": case.about, "reference": case.reference });
            return Ok(Judgement::listed(selected.iter().map(listed).collect()));
        }
        let suite = Suite {
            gateway: self.gateway()?,
            faults: match self.fault {
                None => vec![Fault::None, Fault::Lossy],
                Some(FaultName::None) => vec![Fault::None],
                Some(FaultName::Lossy) => vec![Fault::Lossy],
            },
            cases: selected,
            seed: Seed(self.seed),
        };
        let report = suite.run(console)?;
        if let Some(file) = &self.report {
            write_file(file, report.to_json())?;
        }
        console.say(&report.to_string());
        let failure = (report.failed() > 0)
            .then(|| format!("{} of {} cases failed", report.failed(), report.outcomes.len()));
        Ok(Judgement::holds(report.summary()).with(json!(report)).unless(failure))
    }
}
