//! The `shorthaul` command: one binary, one subcommand a job.
//!
//! What a command does is in the crates below; here are its options, and how its results are printed. Reading order: this file,
//! `groups` (the help), `console` (where results and progress go), `ending` (errors and exit status), then a file for each command.

#![forbid(unsafe_code)]

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
#[cfg(feature = "study")]
use shorthaul_trials::Trials;
use std::process::ExitCode;
use tracing_subscriber::filter::LevelFilter;

mod config;
mod confine;
mod connect;
#[cfg(feature = "study")]
mod console;
mod discover;
mod doctor;
mod ending;
mod flows;
mod gain;
mod gateway;
#[cfg(feature = "package")]
mod generate;
mod groups;
#[cfg(feature = "study")]
mod lab;
mod measure;
#[cfg(feature = "study")]
mod merge;
mod node;
#[cfg(feature = "study")]
mod plan;
#[cfg(feature = "study")]
mod prove;
mod proxy;
#[cfg(feature = "package")]
mod reference;
mod replay;
#[cfg(feature = "study")]
mod reproduce;
mod respond;
mod route;
mod routes;
#[cfg(feature = "study")]
mod run;
#[cfg(feature = "study")]
mod scenario;
mod secret;
mod service;
mod top;

/// The version, and the commit that this was built from.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("SHORTHAUL_COMMIT"), ")");

/// TCP made fast where distance or a bad link makes it slow.
#[derive(Parser)]
#[command(name = "shorthaul", version = VERSION, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

// One line and one file (src/<command>.rs with `Args` and `run`) for each subcommand, and a place in `groups`.
#[derive(Subcommand)]
enum Command {
    Config(config::Args),
    Connect(connect::Args),
    Discover(discover::Args),
    Doctor(doctor::Args),
    Flows(flows::Args),
    Gain(gain::Args),
    Gateway(gateway::Args),
    #[cfg(feature = "package")]
    #[command(hide = true)]
    Generate(generate::Args),
    #[cfg(feature = "study")]
    Lab(lab::Args),
    Measure(measure::Args),
    #[cfg(feature = "study")]
    Merge(merge::Args),
    Node(node::Args),
    #[cfg(feature = "study")]
    Plan(plan::Args),
    Proxy(proxy::Args),
    Replay(replay::Args),
    #[cfg(feature = "study")]
    Reproduce(reproduce::Args),
    Respond(respond::Args),
    Routes(routes::Args),
    #[cfg(feature = "study")]
    Run(run::Args),
    #[cfg(feature = "study")]
    Scenario(scenario::Args),
    Secret(secret::Args),
    Top(top::Args),
    #[cfg(feature = "study")]
    #[command(flatten)]
    Trial(Trials),
}

impl Command {
    fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Command::Config(args) => config::run(&args),
            Command::Connect(args) => connect::run(&args),
            Command::Discover(args) => discover::run(&args),
            Command::Flows(args) => flows::run(&args),
            Command::Gain(args) => gain::run(&args),
            Command::Gateway(args) => gateway::run(args),
            #[cfg(feature = "package")]
            Command::Generate(args) => generate::run(&args),
            #[cfg(feature = "study")]
            Command::Lab(args) => lab::run(&args),
            Command::Measure(args) => measure::run(&args),
            #[cfg(feature = "study")]
            Command::Merge(args) => merge::run(&args),
            Command::Node(args) => node::run(&args),
            #[cfg(feature = "study")]
            Command::Plan(args) => plan::run(&args),
            Command::Proxy(args) => proxy::run(&args),
            Command::Replay(args) => replay::run(&args),
            #[cfg(feature = "study")]
            Command::Reproduce(args) => reproduce::run(&args),
            Command::Respond(args) => respond::run(&args),
            Command::Routes(args) => routes::run(&args),
            #[cfg(feature = "study")]
            Command::Run(args) => return run::run(&args),
            Command::Doctor(args) => return doctor::run(&args),
            #[cfg(feature = "study")]
            Command::Scenario(args) => scenario::run(&args),
            Command::Secret(args) => secret::run(&args),
            Command::Top(args) => top::run(&args),
            #[cfg(feature = "study")]
            Command::Trial(trial) => return prove::run(&trial),
        }?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What happens beside a command's results goes to standard error, with the time: warnings, and with `SHORTHAUL_LOG=info`, or
/// `debug`, more.
fn tell_what_happens() {
    let level = std::env::var("SHORTHAUL_LOG").ok().and_then(|level| level.parse().ok());
    let lines = tracing_subscriber::fmt()
        .with_max_level(level.unwrap_or(LevelFilter::WARN))
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(false);
    // The journal of systemd has times of its own (systemd.exec(5)).
    if std::env::var_os("JOURNAL_STREAM").is_some() { lines.without_time().init() } else { lines.init() }
}

fn main() -> ExitCode {
    // Another gateway waits for these: on a machine that is busy, from their first instruction on.
    let is_gateway = std::env::args_os().nth(1).is_some_and(|command| command == "gateway");
    if is_gateway && std::env::args_os().any(|argument| argument == "--take-over" || argument == "--keeper") {
        shorthaul_dataplane::prepare_promptly();
    }
    ending::end_when_unread();
    tell_what_happens();
    let parsed = groups::grouped(Cli::command()).try_get_matches();
    match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli.command.run().unwrap_or_else(|error| ending::failed(&error)),
        Err(error) => ending::refused(&error),
    }
}
