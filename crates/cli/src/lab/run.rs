//! `shorthaul lab run`: a lab that stays, and how to get into it.
use super::folder::Folder;
use anyhow::Result;
use serde_json::{Value, json};
use shorthaul_lab::{Host, Lab, Privilege, Topology};
use shorthaul_report::{Column, Table, Terminal};
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How long the programs of a topology have to begin to listen.
const LIMIT: Duration = Duration::from_secs(5);
/// How often it is looked whether they still run.
const LOOK: Duration = Duration::from_millis(200);

#[derive(clap::Args)]
pub struct RunArgs {
    /// A TOML file, or the name of a built-in topology (`shorthaul lab list`)
    topology: String,

    /// Stay so long, and not until Ctrl-C, such as `60s`
    #[arg(long = "for", value_name = "TIME", value_parser = shorthaul_types::parse_duration)]
    lasts: Option<Duration>,

    /// At the end, show on standard error what the links did
    #[arg(long)]
    stats: bool,

    /// Print JSON and nothing else, once all is there: hosts, what leads into them, and what runs in them
    #[arg(long)]
    json: bool,
}

/// Builds the lab, says how to get into it, and waits for the end.
pub fn run(args: &RunArgs) -> Result<()> {
    let mut topology = Topology::load(&args.topology)?;
    // Before anything starts a thread.
    let privilege = Privilege::obtain()?;
    let folder = Folder::new()?;
    folder.tell(&mut topology)?;
    let mut lab = Lab::start(&topology)?;
    let running = running(&mut lab);
    if args.json {
        println!("{:#}", json(&lab, &running, |host| folder.way_into(host, privilege))?);
    } else {
        println!("{}", hosts(&lab, &running).render(Terminal::stdout()));
        println!("In another terminal:\n");
        let mut ways = Table::new([Column::left("to type"), Column::left("what it does")]);
        for host in lab.hosts() {
            let way = folder.way_into(host, privilege)?;
            ways.row([way.display().to_string(), format!("a shell in {}", host.name())]);
        }
        for suggestion in &topology.suggestions {
            let way = folder.way_into(lab.host(&suggestion.host), privilege)?;
            let command = folder.spelt_out(&suggestion.command);
            ways.row([format!("{} {command}", way.display()), suggestion.about.clone()]);
        }
        println!("{}", ways.render(Terminal::stdout()));
        match args.lasts {
            Some(time) => println!("ready: all of it vanishes in {} s, or with Ctrl-C", time.as_secs_f64()),
            None => println!("ready: all of it vanishes with Ctrl-C"),
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(stay(&mut lab, args.lasts))?;
    if args.stats {
        super::print_stats(lab.links())?;
    }
    Ok(())
}

/// A program of a topology.
struct Running {
    host: String,
    command: String,
    listens: bool,
}

/// What runs, once it has had its time to begin to listen.
fn running(lab: &mut Lab) -> Vec<Running> {
    let of = |service: &mut shorthaul_lab::Service| Running {
        listens: service.await_listening(LIMIT),
        host: service.host().name().to_owned(),
        command: service.command().to_owned(),
    };
    lab.services().iter_mut().map(of).collect()
}

fn addresses(host: &Host) -> Vec<String> {
    host.interfaces().iter().map(|interface| interface.v4.addr().to_string()).collect()
}

/// Hosts, addresses and what runs in them.
fn hosts(lab: &Lab, running: &[Running]) -> Table {
    let mut table = Table::new([
        Column::left("host"),
        Column::left("addresses"),
        Column::left("runs"),
        Column::left("").unit(""),
    ]);
    for host in lab.hosts() {
        let mut first = [host.name().to_owned(), addresses(host).join(", ")];
        let mut programs = running.iter().filter(|own| own.host == host.name()).peekable();
        if programs.peek().is_none() {
            table.row(first.clone().into_iter().chain(["–".into(), String::new()]));
        }
        for Running { command, listens, .. } in programs {
            let state = if *listens { "listens" } else { "does not listen" };
            table.row(std::mem::take(&mut first).into_iter().chain([command.clone(), state.into()]));
        }
    }
    table
}

/// The same, with the command that leads into each.
fn json(lab: &Lab, running: &[Running], way_into: impl Fn(&Host) -> Result<PathBuf>) -> Result<Value> {
    let host = |host: &Host| {
        let runs = running.iter().filter(|own| own.host == host.name());
        let runs = runs.map(|own| json!({ "command": own.command, "listens": own.listens }));
        Ok(json!({
            "name": host.name(), "addresses": addresses(host), "way_into": way_into(host)?,
            "runs": runs.collect::<Vec<_>>(),
        }))
    };
    Ok(Value::Array(lab.hosts().iter().map(host).collect::<Result<_>>()?))
}

/// Until the time is over or somebody ends it; what ends by itself is told.
async fn stay(lab: &mut Lab, lasts: Option<Duration>) -> Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let over = async {
        match lasts {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(over);
    let mut told = vec![false; lab.services().len()];
    loop {
        for (service, told) in lab.services().iter_mut().zip(&mut told) {
            if let (Some(status), false) = (service.ended(), *told) {
                *told = true;
                eprintln!("`{}` in {} has ended with {status}", service.command(), service.host().name());
            }
        }
        tokio::select! {
            () = &mut over => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}
