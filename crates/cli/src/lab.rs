//! `shorthaul lab`: programs on emulated paths.

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use shorthaul_lab::{Lab, Plan, Privilege, Topology};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus};

/// Put programs on an emulated path: hosts as network namespaces, links emulated between them
#[derive(Args)]
pub struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Subcommand)]
enum LabCommand {
    /// Start a shell in a host
    Shell {
        #[command(flatten)]
        place: Place,
    },
    /// Run a command in a host and pass its exit status on
    ///
    /// Example: shorthaul lab exec halfway client --also server 'iperf3 -s' -- iperf3 -c server
    Exec {
        #[command(flatten)]
        place: Place,
        /// The command and its arguments
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Print hosts, addresses, links and routes, and build nothing
    Check {
        /// A TOML file, or the name of a built-in topology
        topology: String,
    },
    /// List the built-in topologies
    List,
}

#[derive(Args)]
struct Place {
    /// A TOML file, or the name of a built-in topology (see `shorthaul lab list`)
    topology: String,
    /// The host
    host: String,
    /// Also run a shell command in another host, in the background
    #[arg(long, num_args = 2, value_names = ["HOST", "COMMAND"], action = clap::ArgAction::Append)]
    also: Vec<String>,
    /// Print what the links did, at the end, on standard error
    #[arg(long)]
    stats: bool,
    /// Record a link (named as in `lab check`) into a pcapng file
    #[arg(long, num_args = 2, value_names = ["LINK", "FILE"], action = clap::ArgAction::Append)]
    pcap: Vec<String>,
}

/// Runs the command.
pub fn run(args: LabArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        LabCommand::Shell { place } => {
            let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
            let mut command = Command::new(shell);
            let prompt = format!("{}:\\w\\$ ", place.host);
            command.env("PS1", prompt);
            run_in(&place, command)
        }
        LabCommand::Exec { place, command } => {
            let mut words = command.iter();
            let mut program = Command::new(words.next().context("a command is needed")?);
            program.args(words);
            run_in(&place, program)
        }
        LabCommand::Check { topology } => {
            print!("{}", Plan::of(&Topology::load(&topology)?)?);
            Ok(ExitCode::SUCCESS)
        }
        LabCommand::List => {
            for (name, about) in Topology::built_in() {
                println!("{name:<10} {about}");
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn run_in(place: &Place, mut command: Command) -> anyhow::Result<ExitCode> {
    let topology = Topology::load(&place.topology)?;
    Privilege::obtain()?;
    let mut lab = Lab::start(&topology)?;
    for pair in place.also.chunks_exact(2) {
        lab.run_in_background(&pair[0], &pair[1])?;
    }
    let host = lab.host(&place.host);
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = host.spawn(&mut command).with_context(|| format!("starting `{program}` in {}", place.host))?;
    let status = child.wait()?;
    if place.stats {
        for link in lab.links() {
            eprintln!("{} {:#?}", link.name(), link.report());
        }
    }
    Ok(exit_code(status))
}

/// The exit code by which a shell would report `status`.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
