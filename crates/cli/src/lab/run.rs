//! `shorthaul lab run`: a lab that stays, and how to get into it.
use super::folder::Folder;
use anyhow::Result;
use shorthaul_lab::{Lab, Privilege, Topology};
use shorthaul_report::{Column, Table, Terminal};
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
}

/// Builds the lab, says how to get into it, and waits for the end.
pub fn run(args: &RunArgs) -> Result<()> {
    let mut topology = Topology::load(&args.topology)?;
    // Before anything starts a thread.
    let privilege = Privilege::obtain()?;
    let folder = Folder::new()?;
    folder.tell(&mut topology)?;
    let mut lab = Lab::start(&topology)?;
    println!("{}", hosts(&mut lab).render(Terminal::stdout()));
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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(stay(&mut lab, args.lasts))?;
    if args.stats {
        super::print_stats(lab.links())?;
    }
    Ok(())
}

/// Hosts, addresses and what runs in them.
fn hosts(lab: &mut Lab) -> Table {
    let mut table = Table::new([
        Column::left("host"),
        Column::left("addresses"),
        Column::left("runs"),
        Column::left("").unit(""),
    ]);
    let mut running: Vec<(String, String, bool)> = Vec::new();
    for service in lab.services() {
        let listens = service.await_listening(LIMIT);
        running.push((service.host().name().to_owned(), service.command().to_owned(), listens));
    }
    for host in lab.hosts() {
        let addresses: Vec<String> =
            host.interfaces().iter().map(|interface| interface.v4.addr().to_string()).collect();
        let mut first = [host.name().to_owned(), addresses.join(", ")];
        let mut programs = running.iter().filter(|(on, ..)| on == host.name()).peekable();
        if programs.peek().is_none() {
            table.row(first.clone().into_iter().chain(["–".into(), String::new()]));
        }
        for (_, command, listens) in programs {
            let state = if *listens { "listens" } else { "does not listen" };
            table.row(std::mem::take(&mut first).into_iter().chain([command.clone(), state.into()]));
        }
    }
    table
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
