//! Scale: many connections through one gateway that say nothing, what each takes of its memory, and how soon it answers questions.
pub(super) mod ends;

use crate::error::{Result, TrialError, While};
use crate::trial::{Judgement, Trial};
use ends::IdleConnections;
use serde_json::json;
use shorthaul_dataplane::{Config, Memory};
use shorthaul_lab::{GatewayProcess, Host, Lab, Privilege, Topology, Usage};
use shorthaul_report::Console;
use shorthaul_types::Bytes;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Nobody waits longer for metrics.
const TIMEOUT: Duration = Duration::from_secs(10);
/// What was freed is given back, and what was asked is over.
const SETTLES: Duration = Duration::from_secs(3);
const METRICS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7090);

/// Idle connections: the memory that each takes, and how long `flows` and metrics take with all of them
///
/// Connections are opened through a gateway and say nothing; then each has 64 bytes answered by 64. It holds if every one was split and
/// answered. Needs root, or a host that allows user namespaces. The last line is the result as JSON.
#[derive(clap::Args)]
pub struct Scale {
    /// How many connections
    #[arg(long, value_name = "NUMBER", default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    flows: u64,
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
            access: vec!["to-client".into()],
            wan: vec!["to-server".into()],
            // All of them are split.
            control_group: Some(0.0),
            // Of the last quarter of the table, one host gets no more than is free.
            memory: Memory { max_flows: count as usize * 2 + 100, ..Memory::default() },
            metrics: Some(METRICS),
            ..Config::default()
        };
        let gateway = GatewayProcess::start(lab.host("gateway"), config)?;
        let look = |what: &str| {
            std::thread::sleep(SETTLES);
            let usage = gateway.usage();
            console.say(&format!("{what}: {} resident", Bytes(usage.resident_kib << 10)));
            usage
        };
        let empty = look("no connection");
        let begun = Instant::now();
        let mut idle_ones = IdleConnections::open(lab.host("client"), lab.host("server"), count)?;
        let opening = begun.elapsed();
        let idle = look("all open, and silent");
        let begun = Instant::now();
        idle_ones.echo()?;
        let echoing = begun.elapsed();
        let echoed = look("each has had an echo");
        let split = gateway.counters().and_then(|all| all["flows_split"].as_u64()).unwrap_or(0);
        let asked = Instant::now();
        let listed = gateway.flows().and_then(|flows| Some(flows.as_array()?.len() as u64)).unwrap_or(0);
        let listing = asked.elapsed();
        let (scrape, late) = metrics(lab.host("gateway"))?;
        let each = |of: fn(&Usage) -> u64, usage: &Usage| {
            (of(usage).saturating_sub(of(&empty)) << 10) as f64 / count as f64
        };
        let [resident, anonymous]: [fn(&Usage) -> u64; 2] =
            [|usage| usage.resident_kib, |usage| usage.anonymous_kib];
        console.say(&format!(
            "{count} connections, {:.0} B each idle, {:.0} after an echo; `flows --json` in {:.2} s, metrics in {:.3} s, the latest timer {:.1} ms",
            each(resident, &idle),
            each(resident, &echoed),
            listing.as_secs_f64(),
            scrape.as_secs_f64(),
            late * 1e3,
        ));
        let failure = (split < count || listed < count)
            .then(|| format!("of {count} connections {split} were split, and {listed} are listed"));
        let json = json!({
            "bench": "scale", "flows": count, "split": split, "listed": listed, "resident_before": empty.resident_kib << 10,
            "bytes_per_idle_flow": each(resident, &idle), "anonymous_per_idle_flow": each(anonymous, &idle),
            "bytes_per_flow_after_echo": each(resident, &echoed), "anonymous_per_flow_after_echo": each(anonymous, &echoed),
            "opened_per_s": count as f64 / opening.as_secs_f64(), "echoes_per_s": count as f64 / echoing.as_secs_f64(),
            "flows_json_s": listing.as_secs_f64(), "metrics_s": scrape.as_secs_f64(), "lateness_s": late,
        });
        Ok(Judgement::holds(json).unless(failure))
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
