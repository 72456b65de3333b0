//! QUIC beside TCP over 20 Mbit/s and 30 ms, between kernels and simulated; directly, past a gateway, and through its scheduler.
//! `cargo run -p shorthaul --example quic_beside_tcp -- [SECONDS [TURNS]]`, after `cargo build -p shorthaul`. It needs root, or user namespaces.
//! What is simulated is CUBIC in both, and objects of 60 kB by one connection each, as here. Ends with a line of JSON.
#[path = "../tests/suite/mixed.rs"]
mod mixed;

use mixed::{OBJECT, PAGE_EVERY, Seen, Servers, Transport, Work};
use serde_json::json;
use shorthaul_lab::{Child, Lab, Ready};
use shorthaul_os::ProcessorTime;
use shorthaul_scenario::{Series, Study};
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const ALL: &str = "traffic = \"all\"\n";
/// What runs.
const WORKS: [(&str, &[Transport], Transport); 4] = [
    ("TCP bulk, QUIC pages", &[Transport::Tcp], Transport::Quic),
    ("QUIC bulk, TCP pages", &[Transport::Quic], Transport::Tcp),
    ("both bulk, QUIC pages", &[Transport::Tcp, Transport::Quic], Transport::Quic),
    ("both bulk, TCP pages", &[Transport::Tcp, Transport::Quic], Transport::Tcp),
];
/// Through what; `None` is the kernel's own forwarding.
const WAYS: [(&str, Option<&str>); 3] = [("direct", None), ("tcp", Some("")), ("all", Some(ALL))];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let lasts = Duration::from_secs(arguments.next().transpose()?.unwrap_or(15));
    let turns = arguments.next().transpose()?.unwrap_or(3);
    shorthaul_lab::Privilege::obtain()?;
    let program =
        std::env::current_exe()?.parent().and_then(Path::parent).ok_or("no directory")?.join("shorthaul");
    let mut seen = vec![Vec::new(); WORKS.len() * WAYS.len()];
    let before = ProcessorTime::now();
    for turn in 0..turns {
        for (place, known) in seen.iter_mut().enumerate() {
            let (_, bulk, pages) = WORKS[place / WAYS.len()];
            let run = live(&program, WAYS[place % WAYS.len()].1, &Work { bulk, pages, lasts })?;
            eprintln!("{turn} {place}: {run:?}");
            known.push(run);
        }
    }
    let stolen = before.zip(ProcessorTime::now()).map_or(0.0, |(then, now)| then.stolen_until(&now));
    println!("{:24} {:8} {:6} {:>8} {:>8} {:>8} {:>8}", "", "", "", "TCP", "QUIC", "page", "queue");
    let mut rows = Vec::new();
    for (place, runs) in seen.iter().enumerate() {
        let ((name, bulk, pages), (way, config)) = (WORKS[place / WAYS.len()], WAYS[place % WAYS.len()]);
        let simulated = simulate(config, &Work { bulk, pages, lasts });
        for (engine, all) in [("kernels", &runs[..]), ("sim", &[simulated][..])] {
            let median = |of: &dyn Fn(&Seen) -> f64| {
                let mut values: Vec<f64> = all.iter().map(of).collect();
                values.sort_by(f64::total_cmp);
                values[values.len() / 2]
            };
            let rate = |by: Transport| {
                bulk.iter().position(|it| *it == by).map_or(0.0, |place| median(&|seen| seen.bulk[place]))
            };
            let (tcp, quic) = (rate(Transport::Tcp), rate(Transport::Quic));
            let (page, queue) = (median(&|seen| mixed::mean(&seen.pages)), median(&|seen| seen.queue));
            let late = all.iter().map(|seen| seen.late).fold(0.0, f64::max);
            println!("{name:24} {way:8} {engine:8} {tcp:6.2} {quic:8.2} {page:6.3} s {queue:5.1} ms");
            rows.push(json!({
                "work": name, "way": way, "engine": engine, "tcp": tcp, "quic": quic, "page": page, "queue_ms": queue, "late_p99_ms": late,
            }));
        }
    }
    println!("{}", json!({ "rows": rows, "turns": turns, "seconds": lasts.as_secs(), "steal": stolen }));
    Ok(())
}

fn live(program: &Path, config: Option<&str>, work: &Work) -> Result<Seen, Box<dyn Error>> {
    let lab = mixed::lab();
    let _gateway = config.map(|config| start(program, &lab, config)).transpose()?;
    let servers = Servers::start(&lab);
    Ok(mixed::run(&lab, &servers, work))
}

fn start(program: &Path, lab: &Lab, config: &str) -> Result<Child, Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("shorthaul-quic-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("gateway.toml");
    let around = "access = [\"to-phone\"]\nwan = [\"to-server\"]\ncontrol_group = 0.0\n";
    std::fs::write(&file, format!("{around}{config}"))?;
    let mut command = Command::new(program);
    command.arg("gateway").arg("--config").arg(&file).arg("--run-dir").arg(&folder);
    Ok(Child::start("the gateway", lab.host("gateway"), &mut command, Ready::Says("ready".into()))?)
}

/// The same work in the simulator, where what is QUIC here comes from a server whose connections stay whole.
fn simulate(config: Option<&str>, work: &Work) -> Seen {
    let seconds = work.lasts.as_secs_f64();
    let gateway = match config {
        None => "split = false".to_owned(),
        Some(config) => format!(
            "{config}[[gateways.gateway.policy]]\nmatch = {{ servers = [\"10.0.0.1\"] }}\nmode = \"pass\"\n"
        ),
    };
    let mut text = format!(
        "duration = \"{seconds} s\"\n[hosts.0quic]\nscheme = \"cubic\"\n[hosts.phone]\nscheme = \"cubic\"\n\
         [hosts.server]\nscheme = \"cubic\"\n[gateways.gateway]\naccess = \"phone\"\n{gateway}\n\
         [[links]]\nbetween = [\"phone\", \"gateway\"]\nlink = {{ rate = \"20 Mbit/s\", delay = \"15 ms\", queue = \"150 kB\" }}\n\
         [[links]]\nbetween = [\"gateway\", \"server\"]\nlink = {{ rate = \"10 Gbit/s\", delay = \"50 us\" }}\n\
         [[links]]\nbetween = [\"gateway\", \"0quic\"]\nlink = {{ rate = \"10 Gbit/s\", delay = \"50 us\" }}\n\
         [measure]\nseries = [\"queue-delay\"]\nevery = \"20 ms\"\n"
    );
    let from = |by: Transport| if by == Transport::Tcp { "server" } else { "0quic" };
    for (number, by) in work.bulk.iter().enumerate() {
        let _ = write!(
            text,
            "[[flows]]\nname = \"bulk{number}\"\nfrom = \"{}\"\nto = \"phone\"\nopened_by = \"phone\"\nunlimited = \"{seconds} s\"\n",
            from(*by)
        );
    }
    let mut at = 2.0 * PAGE_EVERY.as_secs_f64();
    while at + PAGE_EVERY.as_secs_f64() <= seconds {
        let _ = write!(
            text,
            "[[flows]]\nname = \"page\"\nfrom = \"{}\"\nto = \"phone\"\nopened_by = \"phone\"\nstart = \"{} ms\"\n\
             count = 4\ndownloads = {{ size = \"{OBJECT} B\" }}\n",
            from(work.pages),
            (at * 1e3) as u64
        );
        at += PAGE_EVERY.as_secs_f64();
    }
    // Each page is a group of flows with a name of its own.
    let mut pages = 0;
    while let Some(place) = text.find("name = \"page\"") {
        text.replace_range(place..place + 13, &format!("name = \"page-{pages}\""));
        pages += 1;
    }
    let study = Study::from_toml("quic", &text).unwrap_or_else(|error| panic!("{error}"));
    let scenario = study.scenario(&study.points()[0]).unwrap_or_else(|error| panic!("{error}"));
    let outcome = shorthaul_sim::simulate(&scenario, 1, shorthaul_sim::Recording::default())
        .unwrap_or_else(|error| panic!("{error}"));
    let of = |name: &str| {
        let name = name.to_owned();
        outcome.flows.iter().filter(move |flow| flow.name.starts_with(&name))
    };
    let bulk = (0..work.bulk.len())
        .map(|number| of(&format!("bulk{number}")).map(|flow| flow.delivered as f64 * 8e-6 / seconds).sum())
        .collect();
    let series = outcome.series.iter();
    let mut queue: Vec<f64> = series
        .filter(|series| series.series == Series::QueueDelay && series.subject.contains("gateway>phone"))
        .flat_map(|series| &series.points)
        .filter(|(at, _)| *at > 3.0)
        .map(|(_, delay)| delay * 1e3)
        .collect();
    queue.sort_by(f64::total_cmp);
    Seen {
        bulk,
        pages: of("page").map(|flow| flow.transfers.first().copied().unwrap_or(seconds)).collect(),
        queue: queue.get(queue.len() * 95 / 100).copied().unwrap_or_default(),
        late: 0.0,
    }
}
