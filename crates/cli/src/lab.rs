//! `shorthaul lab`: programs on emulated paths.
mod folder;
mod run;

use crate::ending::asked;
use anyhow::Context as _;
use clap::Subcommand;
use folder::Folder;
use shorthaul_lab::accuracy::{self, Accuracy};
use shorthaul_lab::{
    DirectionReport, HostPlan, InterfacePlan, Lab, LinkDescription, LinkHandle, LinkKind, LinkPlan, Plan,
    Privilege, RoutePlan, Topology, link_in_words,
};
use shorthaul_os::signals::leave_interrupts_to_children;
use shorthaul_report::{Column, Table, Terminal};
use shorthaul_types::format_duration;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// Put programs on an emulated path.
///
/// Hosts are network namespaces, with links emulated between them. Everything vanishes when the command
/// ends, however it ends. Needs root, or a host that allows user namespaces.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Subcommand)]
enum LabCommand {
    /// Build a topology, start what its hosts are to run, say how to get into it, and stay until Ctrl-C.
    Run(run::RunArgs),
    /// Start a shell in a host.
    Shell {
        #[command(flatten)]
        place: Place,
    },
    /// Run a command in a host, and exit with its status.
    ///
    /// The hosts have names: `shorthaul lab exec halfway client --also server 'iperf3 -s' -- iperf3 -c server`.
    Exec {
        #[command(flatten)]
        place: Place,
        /// The command and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Show hosts, addresses, routes and links, and build nothing.
    Check {
        /// A TOML file, or the name of a built-in topology.
        topology: String,
        /// Print JSON and nothing else.
        #[arg(long)]
        json: bool,
    },
    /// List the built-in topologies.
    List {
        /// Print JSON and nothing else.
        #[arg(long)]
        json: bool,
    },
    /// Measure how exact the emulator is on this machine.
    Accuracy {
        /// How long each of the eleven measurements takes.
        #[arg(long, value_name = "TIME", default_value = "2 s", value_parser = shorthaul_types::parse_duration)]
        time: Duration,
        /// Print JSON: rates in bit/s, times in microseconds.
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
struct Place {
    /// A TOML file, or the name of a built-in topology (`shorthaul lab list`).
    topology: String,

    /// The host.
    host: String,

    /// Also run a shell command in a host, in the background. Can be given several times. It has a second to
    /// begin to listen on a port, before the main command starts.
    #[arg(long, num_args = 2, value_names = ["HOST", "COMMAND"], action = clap::ArgAction::Append)]
    also: Vec<String>,

    /// At the end, show on standard error what the links did.
    #[arg(long)]
    stats: bool,

    /// Record what passes a link into a pcapng file: with `client-gateway`, as the client sees it, with
    /// `gateway-client`, as the gateway does. Once for each link.
    #[arg(long, num_args = 2, value_names = ["LINK", "FILE"], action = clap::ArgAction::Append)]
    pcap: Vec<String>,
}

/// Runs the subcommand. `shell` and `exec` end the process with the status of what they ran.
pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        LabCommand::Run(args) => run::run(args)?,
        LabCommand::Shell { place } => exit_as(in_host(place, shell(&place.host))?),
        LabCommand::Exec { place, command } => {
            let (program, arguments) = command.split_first().context("there is no command after `--`")?;
            let mut command = Command::new(program);
            command.args(arguments);
            exit_as(in_host(place, command)?)
        }
        LabCommand::Check { topology, json } => {
            let plan = Plan::of(&Topology::load(topology)?)?;
            if *json { println!("{:#}", plan_json(&plan)) } else { print!("{plan}") }
        }
        LabCommand::List { json: true } => {
            let all =
                Topology::built_in().map(|(name, about)| serde_json::json!({ "name": name, "path": about }));
            println!("{:#}", serde_json::Value::Array(all.collect()));
        }
        LabCommand::List { json: false } => {
            let mut table = Table::new([Column::left("name"), Column::left("path")]);
            for (name, about) in Topology::built_in() {
                table.row([name, about]);
            }
            print!("{}", table.render(Terminal::stdout()));
        }
        LabCommand::Accuracy { time, json } => {
            if !(Duration::from_millis(200)..=Duration::from_secs(60)).contains(time) {
                return Err(asked!("--time {}: give 200 ms to 60 s", format_duration(*time)).into());
            }
            Privilege::obtain()?;
            let accuracy = accuracy::measure(*time)?;
            if *json {
                println!("{}", accuracy_json(&accuracy));
            } else {
                print_accuracy(&accuracy);
            }
        }
    }
    Ok(())
}

/// Hosts, addresses, routes and links.
fn plan_json(plan: &Plan) -> serde_json::Value {
    let host = |host: &HostPlan| {
        let interface =
            |own: &InterfacePlan| serde_json::json!({ "name": own.name, "v4": own.v4, "v6": own.v6 });
        let route = |own: &RoutePlan| serde_json::json!({ "network": own.network, "via": own.via });
        serde_json::json!({
            "name": host.name, "forwards": host.forwards,
            "interfaces": host.interfaces.iter().map(interface).collect::<Vec<_>>(),
            "routes": host.routes.iter().map(route).collect::<Vec<_>>(),
        })
    };
    let link = |link: &LinkPlan| {
        let LinkDescription { between, mtu, kind, .. } = &link.description;
        let (up, down) = match kind {
            LinkKind::Direct => (None, None),
            LinkKind::Emulated { up, down } => (Some(link_in_words(up)), Some(link_in_words(down))),
        };
        serde_json::json!({ "between": between, "mtu": mtu, "there": up, "back": down })
    };
    serde_json::json!({
        "hosts": plan.hosts.iter().map(host).collect::<Vec<_>>(),
        "links": plan.links.iter().map(link).collect::<Vec<_>>(),
    })
}

/// The user's shell, with a prompt that begins with the name of the host.
fn shell(host: &str) -> Command {
    let mut command = Command::new(std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into()));
    command.env("PS1", format!("({host}) $ "));
    // bash reads its own PS1 from a file after that.
    command.env("PROMPT_COMMAND", format!("PS1=\"({host}) ${{PS1#({host}) }}\""));
    command
}

/// Builds the topology and runs `command` in it.
fn in_host(place: &Place, mut command: Command) -> anyhow::Result<ExitStatus> {
    let mut topology = Topology::load(&place.topology)?;
    let hosts = || topology.hosts.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let wanted = std::iter::once(&place.host).chain(place.also.iter().step_by(2));
    for name in wanted {
        if !topology.hosts.contains_key(name) {
            return Err(
                asked!("there is no host `{name}` in {}; there are: {}", place.topology, hosts()).into()
            );
        }
    }
    // Before anything starts a thread.
    Privilege::obtain()?;
    let folder = Folder::new()?;
    folder.tell(&mut topology)?;
    let mut lab = Lab::start(&topology)?;
    for pair in place.pcap.chunks_exact(2) {
        let (link, host) = named_link(&lab, &pair[0])?;
        link.record(host, Path::new(&pair[1]))?;
    }
    for pair in place.also.chunks_exact(2) {
        lab.run_in_background(&pair[0], &pair[1])?;
    }
    for service in lab.services() {
        service.await_listening(Duration::from_secs(1));
    }
    leave_interrupts_to_children()?;
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = lab.host(&place.host).spawn(&mut command).with_context(|| {
        format!("starting `{program}` in {}; is it installed, and spelt right?", place.host)
    })?;
    let status = child.wait()?;
    for service in lab.services() {
        if let Some(status) = service.ended().filter(|status| !status.success()) {
            eprintln!(
                "shorthaul: `{}` in {} had ended with {status}",
                service.command(),
                service.host().name()
            );
        }
    }
    for pair in place.pcap.chunks_exact(2) {
        named_link(&lab, &pair[0])?.0.stop_recording()?;
    }
    if place.stats {
        print_stats(lab.links())?;
    }
    Ok(status)
}

/// The link `one-other`, and the host `one`.
fn named_link<'a>(lab: &'a Lab, name: &str) -> anyhow::Result<(&'a LinkHandle, &'a str)> {
    for link in lab.links() {
        let [first, second] = link.hosts().each_ref().map(|host| host.name());
        if name == format!("{first}-{second}") {
            return Ok((link, first));
        }
        if name == format!("{second}-{first}") {
            return Ok((link, second));
        }
    }
    let names: Vec<&str> = lab.links().iter().map(LinkHandle::name).collect();
    Err(asked!("there is no link `{name}`; there are: {}", names.join(", ")).into())
}

/// Ends this process as a shell would report `status`.
fn exit_as(status: ExitStatus) -> ! {
    std::process::exit(status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1))
}

fn print_stats(links: &[LinkHandle]) -> anyhow::Result<()> {
    let mut table = Table::new([
        Column::left("direction"),
        Column::right("offered").unit("packets"),
        Column::right("delivered").unit("packets"),
        Column::right("delivered").unit("bytes"),
        Column::right("lost").unit("packets"),
        Column::right("queue full").unit("packets"),
        Column::right("outage").unit("packets"),
        Column::right("longest queue").unit("bytes"),
        Column::right("late").unit("median"),
        Column::right("late").unit("99 %"),
        Column::right("late").unit("worst"),
    ]);
    let mut remarks = Vec::new();
    for link in links.iter().filter(|link| link.is_emulated()) {
        let report = link.report()?;
        let [first, second] = link.hosts();
        for (from, to, way) in [(first, second, &report.up), (second, first, &report.down)] {
            table.row(stats_row(&format!("{} to {}", from.name(), to.name()), way));
            if way.refused + way.not_captured > 0 {
                remarks.push(format!(
                    "{} to {}: {} packets refused by the receiving kernel, {} left out of the recording",
                    from.name(),
                    to.name(),
                    way.refused,
                    way.not_captured
                ));
            }
        }
        if report.missed > 0 {
            remarks.push(format!(
                "{}: {} packets lost because this machine was too busy",
                link.name(),
                report.missed
            ));
        }
        if !report.runs_first {
            remarks.push(format!(
                "{}: without permission for SCHED_FIFO, so packets may be late on a busy machine",
                link.name()
            ));
        }
    }
    eprint!("{}", table.render(Terminal::stderr()));
    for remark in remarks {
        eprintln!("{remark}");
    }
    Ok(())
}

fn stats_row(name: &str, way: &DirectionReport) -> Vec<String> {
    let link = &way.link;
    vec![
        name.to_owned(),
        link.offered.to_string(),
        link.delivered.to_string(),
        link.delivered_bytes.to_string(),
        link.dropped.loss.to_string(),
        link.dropped.queue_full.to_string(),
        link.dropped.outage.to_string(),
        link.max_queue_bytes.to_string(),
        format_duration(way.lateness.p50),
        format_duration(way.lateness.p99),
        format_duration(way.lateness.max),
    ]
}

fn print_accuracy(accuracy: &Accuracy) {
    let mut rates =
        Table::new([Column::right("rate"), Column::right("measured"), Column::right("error").unit("%")]);
    for result in &accuracy.rates {
        let error = format!("{:+.3}", result.error() * 100.0);
        rates.row([result.configured.to_string(), result.measured.to_string(), error]);
    }
    let mut delays = Table::new([
        Column::right("load").unit("of 100 Mbit/s"),
        Column::right("too late").unit("median"),
        Column::right("too late").unit("99 %"),
        Column::right("too late").unit("99.9 %"),
        Column::right("worst"),
    ]);
    for result in &accuracy.delays {
        let error = &result.error;
        let late = [error.p50, error.p99, error.p999, error.max].map(format_duration);
        delays.row(std::iter::once(result.load.to_string()).chain(late));
    }
    let mut throughputs = Table::new([Column::right("link"), Column::right("one TCP connection")]);
    for result in &accuracy.throughputs {
        let configured = result.configured.map_or("no rate".to_owned(), |rate| rate.to_string());
        throughputs.row([configured, result.measured.to_string()]);
    }
    let terminal = Terminal::stdout();
    println!("{}\n{}\n{}", rates.render(terminal), delays.render(terminal), throughputs.render(terminal));
    if !accuracy.runs_first {
        println!("The kernel did not permit SCHED_FIFO: packets are late when the machine is busy.");
    }
}

/// Rates in bit/s, times in microseconds.
fn accuracy_json(accuracy: &Accuracy) -> serde_json::Value {
    let micros = |duration: Duration| duration.as_nanos() as f64 / 1e3;
    let rate = |r: &accuracy::RateResult| serde_json::json!({ "configured": r.configured.bits_per_sec(), "measured": r.measured.bits_per_sec() });
    let delay = |d: &accuracy::DelayResult| {
        let lateness = |l: &shorthaul_lab::LatenessStats| {
            serde_json::json!({
                "count": l.count, "p50_us": micros(l.p50), "p99_us": micros(l.p99),
                "p999_us": micros(l.p999), "max_us": micros(l.max),
            })
        };
        serde_json::json!({
            "load": d.load.bits_per_sec(), "error": lateness(&d.error), "emulator": lateness(&d.lateness),
        })
    };
    let throughput = |t: &accuracy::ThroughputResult| {
        serde_json::json!({
            "configured": t.configured.map(|rate| rate.bits_per_sec()), "measured": t.measured.bits_per_sec(),
        })
    };
    serde_json::json!({
        "rates": accuracy.rates.iter().map(rate).collect::<Vec<_>>(),
        "delays": accuracy.delays.iter().map(delay).collect::<Vec<_>>(),
        "throughputs": accuracy.throughputs.iter().map(throughput).collect::<Vec<_>>(),
        "runs_first": accuracy.runs_first,
    })
}
