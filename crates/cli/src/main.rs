//! The `shorthaul` command: one binary, one subcommand a job.

use clap::{Parser, Subcommand};
use tracing_subscriber::filter::LevelFilter;

mod agreement;
mod bench;
mod cascade;
mod conformance;
mod connect;
mod demo;
mod discover;
mod endpoint;
mod flows;
mod gateway;
mod lab;
mod measure;
mod merge;
mod node;
mod plan;
mod proxy;
mod replay;
mod reproduce;
mod respond;
mod route;
mod run;
mod scenario;
mod secret;

/// TCP made fast where distance or a bad link makes it slow.
#[derive(Parser)]
#[command(name = "shorthaul", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

// One line and one file (src/<command>.rs with `Args` and `run`) for each subcommand.
#[derive(Subcommand)]
enum Command {
    Agreement(agreement::Args),
    Bench(bench::Args),
    Cascade(cascade::Args),
    Conformance(conformance::Args),
    Connect(connect::Args),
    Demo(demo::Args),
    Discover(discover::Args),
    Endpoint(endpoint::Args),
    Flows(flows::Args),
    Gateway(gateway::Args),
    Lab(lab::Args),
    Measure(measure::Args),
    Merge(merge::Args),
    Node(node::Args),
    Plan(plan::Args),
    Proxy(proxy::Args),
    Replay(replay::Args),
    Reproduce(reproduce::Args),
    Respond(respond::Args),
    Run(run::Args),
    Scenario(scenario::Args),
    Secret(secret::Args),
}

/// What happens beside a command's results goes to standard error: warnings, and with `SHORTHAUL_LOG=info`, or
/// `debug`, more.
fn tell_what_happens() {
    let level = std::env::var("SHORTHAUL_LOG").ok().and_then(|level| level.parse().ok());
    tracing_subscriber::fmt()
        .with_max_level(level.unwrap_or(LevelFilter::WARN))
        .with_writer(std::io::stderr)
        .with_target(false)
        .without_time()
        .with_ansi(false)
        .init();
}

fn main() -> anyhow::Result<()> {
    tell_what_happens();
    match Cli::parse().command {
        Command::Agreement(args) => agreement::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Cascade(args) => cascade::run(&args),
        Command::Conformance(args) => conformance::run(&args),
        Command::Connect(args) => connect::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Discover(args) => discover::run(&args),
        Command::Endpoint(args) => endpoint::run(&args),
        Command::Flows(args) => flows::run(args),
        Command::Gateway(args) => gateway::run(args),
        Command::Lab(args) => lab::run(&args),
        Command::Measure(args) => measure::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Node(args) => node::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Proxy(args) => proxy::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Respond(args) => respond::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Scenario(args) => scenario::run(&args),
        Command::Secret(args) => secret::run(&args),
    }
}
