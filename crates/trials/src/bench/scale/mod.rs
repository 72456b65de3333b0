//! Scale: many connections through one gateway that say nothing, what each takes of its memory, and how soon it answers questions.
pub(super) mod ends;
mod made;

use crate::error::{Result, TrialError, While};
use crate::trial::{Judgement, Trial};
use ends::IdleConnections;
use made::{DEVICES, MadeConnections, PORTS};
use serde_json::json;
use shorthaul_dataplane::{Config, Memory, control_path};
use shorthaul_lab::{GatewayProcess, Host, Lab, Privilege, Topology, Usage};
use shorthaul_report::Console;
use shorthaul_types::Bytes;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Nobody waits longer for metrics.
const TIMEOUT: Duration = Duration::from_secs(10);
/// What was freed is given back, and what was asked is over.
const SETTLES: Duration = Duration::from_secs(3);
/// By then all that say nothing are put away: it is done with 64 a millisecond at most, after 3 s of silence.
const PUT_AWAY: Duration = Duration::from_secs(60);
const METRICS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7090);

/// Idle connections: the memory that each takes, and how long `flows` and metrics take with all of them
///
/// Connections are opened through a gateway and say nothing; then each has 64 bytes answered by 64. It holds if every one was split and
/// answered. Needs root, or a host that allows user namespaces. The last line is the result as JSON.
#[derive(clap::Args)]
pub struct Scale {
    /// How many connections
    #[arg(long, value_name = "NUMBER", default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(100..=4_000_000))]
    flows: u64,
    /// Make them of packets, of so many hosts, instead of the kernel's sockets of one host: a million of those take 8 GB
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=2_000_000))]
    hosts: Option<u64>,
    /// Be the ends that are connected to
    #[arg(long, hide = true)]
    serve: bool,
    /// Be the ends that connect to it
    #[arg(long, hide = true, value_name = "ADDRESS")]
    connect: Option<SocketAddr>,
}

impl Trial for Scale {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        match (self.serve, self.connect) {
            (true, _) => ends::serve(self.flows).doing("serving").map(|()| Judgement::nothing()),
            (false, Some(to)) => {
                ends::connect(self.flows, to).doing("connecting").map(|()| Judgement::nothing())
            }
            (false, None) => self.measure(console),
        }
    }
}

impl Scale {
    fn measure(&self, console: &dyn Console) -> Result<Judgement> {
        // First of all, while the process has a single thread: the kernel asks for that.
        Privilege::obtain()?;
        let count = self.flows;
        let text = "[hosts.client]\n[hosts.gateway]\n[hosts.server]\n\
             [[links]]\nbetween = [\"client\", \"gateway\"]\nkind = \"veth\"\n\
             [[links]]\nbetween = [\"gateway\", \"server\"]\nkind = \"veth\"\n";
        let lab = Lab::start(&Topology::from_toml("scale", text)?)?;
        let config = Config {
            access: vec![if self.hosts.is_some() { DEVICES[0].into() } else { "to-client".into() }],
            wan: vec![if self.hosts.is_some() { DEVICES[1].into() } else { "to-server".into() }],
            // All of them are split.
            control_group: Some(0.0),
            // Of the last quarter of the table, one host gets no more than is free.
            memory: Memory { max_flows: count as usize * 2 + 100, ..Memory::default() },
            metrics: Some(METRICS),
            ..Config::default()
        };
        let made = self.hosts.map(|hosts| {
            if count > hosts * PORTS {
                let why = format!("{hosts} hosts have {} ports: ask for more --hosts", hosts * PORTS);
                return Err(TrialError::Failed(why));
            }
            MadeConnections::new(lab.host("gateway"), count, hosts)
        });
        let made = made.transpose()?;
        let gateway = GatewayProcess::start(lab.host("gateway"), config)?;
        let watch = Watch::begin(lab.host("gateway"))?;
        let look = |what: &str, away: u64| {
            let since = Instant::now();
            while put_away(&gateway) < away && since.elapsed() < PUT_AWAY {
                std::thread::sleep(SETTLES / 10);
            }
            std::thread::sleep(SETTLES);
            let usage = gateway.usage();
            console.say(&format!("{what}: {} resident", Bytes(usage.resident_kib << 10)));
            usage
        };
        let empty = look("no connection", 0);
        let begun = Instant::now();
        let mut idle_ones = match made {
            Some(mut made) => {
                made.open()?;
                Idle::Made(Box::new(made))
            }
            None => Idle::Sockets(IdleConnections::open(lab.host("client"), lab.host("server"), count)?),
        };
        let opening = begun.elapsed();
        let idle = look("all open, silent and put away", count);
        let begun = Instant::now();
        idle_ones.echo()?;
        let echoing = begun.elapsed();
        let echoed = look("each has had an echo, and is put away again", count);
        let busiest = watch.end();
        let watch = Watch::begin(lab.host("gateway"))?;
        let split = gateway.counters().and_then(|all| all["flows_split"].as_u64()).unwrap_or(0);
        let listing = Listing::ask(&gateway, "flows-json").doing("listing flows")?;
        let page = Listing::ask(&gateway, "flows-json 0 1000").doing("listing some flows")?;
        let snapshot = Listing::ask(&gateway, "snapshot").doing("asking as `top` does")?;
        let (listed, away) = (listing.flows, put_away(&gateway));
        let (scrape, late) = metrics(lab.host("gateway"))?;
        let latest = watch.end().max(late);
        let each = |of: fn(&Usage) -> u64, usage: &Usage| {
            (of(usage).saturating_sub(of(&empty)) << 10) as f64 / count as f64
        };
        let [resident, anonymous]: [fn(&Usage) -> u64; 2] =
            [|usage| usage.resident_kib, |usage| usage.anonymous_kib];
        console.say(&format!(
            "{count} connections, {:.0} B each idle, {:.0} after an echo; `flows --json` begins in {:.3} s and takes {:.2}, a page of a thousand {:.3}, what `top` shows {:.3}, metrics {:.3}; the latest timer {:.1} ms meanwhile, and {:.1} while they opened and spoke",
            each(resident, &idle),
            each(resident, &echoed),
            listing.first.as_secs_f64(),
            listing.all.as_secs_f64(),
            page.all.as_secs_f64(),
            snapshot.all.as_secs_f64(),
            scrape.as_secs_f64(),
            latest * 1e3,
            busiest * 1e3,
        ));
        let failure = (split < count || listed < count)
            .then(|| format!("of {count} connections {split} were split, and {listed} are listed"));
        let json = json!({
            "bench": "scale", "flows": count, "split": split, "listed": listed, "put_away": away, "resident_before": empty.resident_kib << 10,
            "bytes_per_idle_flow": each(resident, &idle), "anonymous_per_idle_flow": each(anonymous, &idle),
            "bytes_per_flow_after_echo": each(resident, &echoed), "anonymous_per_flow_after_echo": each(anonymous, &echoed),
            "opened_per_s": count as f64 / opening.as_secs_f64(), "echoes_per_s": count as f64 / echoing.as_secs_f64(),
            "hosts": self.hosts,
            "flows_json_s": listing.all.as_secs_f64(), "flows_json_first_byte_s": listing.first.as_secs_f64(), "flows_json_bytes": listing.bytes,
            "flows_json_page_s": page.all.as_secs_f64(), "top_s": snapshot.all.as_secs_f64(), "metrics_s": scrape.as_secs_f64(),
            "lateness_s": latest, "lateness_while_busy_s": busiest,
        });
        Ok(Judgement::holds(json).unless(failure))
    }
}

/// How many flows are put away.
fn put_away(gateway: &GatewayProcess) -> u64 {
    let count = |all: &serde_json::Value, name: &str| all[name].as_u64().unwrap_or(0);
    let away = |all| count(&all, "flows_put_away").saturating_sub(count(&all, "flows_brought_back"));
    gateway.counters().map_or(0, away)
}

/// Whoever has the ends of the connections.
enum Idle {
    Sockets(IdleConnections),
    Made(Box<MadeConnections>),
}

impl Idle {
    fn echo(&mut self) -> Result<()> {
        match self {
            Idle::Sockets(sockets) => sockets.echo(),
            Idle::Made(made) => made.echo(),
        }
    }
}

/// What the control socket says to a question, and when.
struct Listing {
    first: Duration,
    all: Duration,
    bytes: u64,
    flows: u64,
}

impl Listing {
    /// Asks, and keeps nothing of the answer: that of a million flows is half a gigabyte.
    fn ask(gateway: &GatewayProcess, question: &str) -> io::Result<Listing> {
        const FLOW: &[u8] = b"\"client\":";
        let asked = Instant::now();
        let mut socket = UnixStream::connect(control_path(gateway.run_dir(), "gw"))?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.write_all(question.as_bytes())?;
        let mut listing = Listing { first: Duration::ZERO, all: Duration::ZERO, bytes: 0, flows: 0 };
        let (mut buffer, mut kept) = (vec![0; 1 << 18], 0);
        loop {
            let read = socket.read(&mut buffer[kept..])?;
            if read == 0 {
                break;
            }
            if listing.bytes == 0 {
                listing.first = asked.elapsed();
            }
            listing.bytes += read as u64;
            let end = kept + read;
            listing.flows += buffer[..end].windows(FLOW.len()).filter(|part| *part == FLOW).count() as u64;
            // One may lie across two pieces.
            kept = end.min(FLOW.len() - 1);
            buffer.copy_within(end - kept..end, 0);
        }
        listing.all = asked.elapsed();
        Ok(listing)
    }
}

/// Looks every second how late the gateway's timers are served.
struct Watch {
    over: Arc<AtomicBool>,
    thread: JoinHandle<f64>,
}

impl Watch {
    fn begin(gateway: &Host) -> Result<Watch> {
        let over = Arc::new(AtomicBool::new(false));
        let (host, ended) = (gateway.clone(), Arc::clone(&over));
        let watch = move || {
            let mut latest: f64 = 0.0;
            while !ended.load(Ordering::Relaxed) {
                latest = latest.max(metrics(&host).map_or(0.0, |(_, late)| late));
                std::thread::sleep(Duration::from_secs(1));
            }
            latest
        };
        let thread = std::thread::Builder::new().name("watch".into()).spawn(watch).doing("watching")?;
        Ok(Watch { over, thread })
    }

    /// The latest timer that it saw, in seconds.
    fn end(self) -> f64 {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or(f64::NAN)
    }
}

/// How long a scrape takes, and what it says of the latest timer, in seconds.
fn metrics(gateway: &Host) -> Result<(Duration, f64)> {
    let asked = Instant::now();
    let scraped = gateway.run(|| -> io::Result<String> {
        let mut stream = TcpStream::connect(METRICS)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(format!("GET /metrics HTTP/1.1\r\nHost: {METRICS}\r\n\r\n").as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map(|_| text)
    });
    let text = scraped.doing("asking for metrics")?;
    let late =
        text.lines().find_map(|line| line.strip_prefix("shorthaul_gateway_lateness_seconds ")?.parse().ok());
    let late = late.ok_or_else(|| TrialError::Failed("the metrics have no lateness".into()))?;
    Ok((asked.elapsed(), late))
}
