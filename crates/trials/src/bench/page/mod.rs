//! What it costs the packets that somebody looks at a gateway with many idle flows, and how soon a new sample is seen.
mod browser;
mod onlooker;

use super::scale::ends::IdleConnections;
use crate::error::{Result, TrialError, While};
use crate::trial::{Judgement, Trial};
use onlooker::{Pages, TopScreen};
use serde_json::{Value, json};
use shorthaul_dataplane::{Config, Memory};
use shorthaul_lab::{GatewayProcess, Host, Lab, Privilege, Topology};
use shorthaul_monitor::fetch;
use shorthaul_os::ProcessorTime;
use shorthaul_report::Console;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Looking may take this share of the thread that has the packets, and so of what it can pass.
const MOST: f64 = 0.02;
/// A redraw may take this long, in the median.
const SOON: Duration = Duration::from_millis(200);
const PAGE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7090);
/// What was opened or closed has come to rest.
const SETTLES: Duration = Duration::from_secs(2);
/// Redraws of `top` in each turn, so far apart.
const KEYS: u32 = 5;
const BETWEEN_KEYS: Duration = Duration::from_millis(230);

/// The page in two browsers and `top`, beside many idle connections: what looking takes of the thread that has the packets, and how soon it is drawn
///
/// Connections are opened through a gateway and say nothing. By turns nobody looks, and two browsers have the page open while `top` runs; first
/// with nothing else to do, then beside a download that takes all it can get. What the thread with the packets uses while all look and nothing
/// moves is what it would lack when it is busy: it holds if that is 2 % of a processor at most, and redraws take 200 ms at most, in the median.
/// Without Chromium two clients read the page's stream instead, and no redraw is measured. Needs root, or a host that allows user namespaces,
/// and script(1). The last line is the result as JSON.
#[derive(clap::Args)]
pub struct Page {
    /// How many idle connections
    #[arg(long, value_name = "NUMBER", default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    flows: u64,
    /// Turns, each once unseen and once looked at
    #[arg(long, value_name = "NUMBER", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=100))]
    turns: u32,
    /// How long each takes
    #[arg(long, value_name = "TIME", default_value = "6 s", value_parser = shorthaul_types::parse_duration)]
    time: Duration,
}

/// What a part of a turn came to.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Of a processor, what the thread with the packets used.
    share: f64,
    /// Bits a second that the download got.
    rate: f64,
    /// Bytes of the download for each second of that thread.
    bytes_a_second: f64,
}

/// A download that takes all it can get, until this is dropped.
struct Download {
    received: Arc<AtomicU64>,
    client: TcpStream,
}

impl Download {
    fn start(phone: &Host, server: &Host) -> Result<Self> {
        let listener = server.run(|| TcpListener::bind((server.address_v4(), 0))).doing("listening")?;
        let to = listener.local_addr().doing("listening")?;
        let client = phone.run(|| TcpStream::connect(to)).doing("connecting")?;
        let (mut sender, _) = listener.accept().doing("accepting")?;
        std::thread::spawn(move || while sender.write_all(&[7; 256 << 10]).is_ok() {});
        let received = Arc::new(AtomicU64::new(0));
        let (counted, mut reader) = (Arc::clone(&received), client.try_clone().doing("connecting")?);
        std::thread::spawn(move || {
            let mut piece = vec![0; 256 << 10];
            while let Some(length) = reader.read(&mut piece).ok().filter(|length| *length > 0) {
                counted.fetch_add(length as u64, Ordering::Relaxed);
            }
        });
        Ok(Download { received, client })
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        let _ = self.client.shutdown(Shutdown::Both);
    }
}

/// The gateway, those who look at it, and what was seen of both.
struct Stage {
    lab: Lab,
    gateway: GatewayProcess,
    pages: Pages,
    received: OnceLock<Arc<AtomicU64>>,
    part: Duration,
    page_redraws: Vec<Duration>,
    top_redraws: Vec<Duration>,
}

impl Stage {
    fn bytes(&self) -> u64 {
        self.received.get().map_or(0, |received| received.load(Ordering::Relaxed))
    }

    fn measure(&mut self, mut meanwhile: impl FnMut(&mut Self) -> Result<()>) -> Result<Part> {
        std::thread::sleep(SETTLES);
        let (begun, worked, bytes) = (Instant::now(), self.gateway.worked(), self.bytes());
        meanwhile(self)?;
        std::thread::sleep(self.part.saturating_sub(begun.elapsed()));
        let (took, worked) = (begun.elapsed().as_secs_f64(), (self.gateway.worked() - worked).as_secs_f64());
        let bytes = (self.bytes() - bytes) as f64;
        Ok(Part { share: worked / took, rate: bytes * 8.0 / took, bytes_a_second: bytes / worked.max(1e-9) })
    }

    fn unseen(&mut self) -> Result<Part> {
        self.measure(|_| Ok(()))
    }

    fn looked_at(&mut self) -> Result<Part> {
        let gateway = self.lab.host("gateway").clone();
        self.pages.open(&gateway, PAGE)?;
        let mut top = TopScreen::start(&gateway, self.gateway.run_dir())?;
        let part = self.measure(|stage| {
            for _ in 0..KEYS {
                stage.top_redraws.push(top.redraw()?);
                std::thread::sleep(BETWEEN_KEYS);
            }
            Ok(())
        })?;
        self.page_redraws.extend(self.pages.redraws()?);
        self.pages.close()?;
        Ok(part)
    }

    /// Turns, each of one part unseen and one looked at, in an order that changes.
    fn turns(&mut self, turns: u32, console: &dyn Console, what: &str) -> Result<Vec<[Part; 2]>> {
        let mut all = Vec::new();
        for turn in 0..turns {
            let (unseen, seen) = if turn % 2 == 0 {
                let unseen = self.unseen()?;
                (unseen, self.looked_at()?)
            } else {
                let seen = self.looked_at()?;
                (self.unseen()?, seen)
            };
            console.say(&format!(
                "{what}, turn {}: the thread with the packets used {:.2} % of a processor unseen and {:.2} % looked at; {:.0} and {:.0} Mbit/s",
                turn + 1,
                unseen.share * 100.0,
                seen.share * 100.0,
                unseen.rate / 1e6,
                seen.rate / 1e6,
            ));
            all.push([unseen, seen]);
        }
        Ok(all)
    }
}

/// The least, the middle one and the most.
fn spread(values: impl IntoIterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    [0, values.len() / 2, last].map(|at| values.get(at).copied().unwrap_or(f64::NAN))
}

fn spread_json([least, median, most]: [f64; 3]) -> Value {
    json!({ "median": median, "least": least, "most": most })
}

fn millis(times: &[Duration]) -> [f64; 3] {
    spread(times.iter().map(|time| time.as_secs_f64() * 1e3))
}

impl Trial for Page {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        // First of all, while the process has a single thread: the kernel asks for that.
        Privilege::obtain()?;
        let text = "[hosts.crowd]\n[hosts.phone]\n[hosts.gateway]\n[hosts.server]\n\
             [[links]]\nbetween = [\"crowd\", \"gateway\"]\nkind = \"veth\"\n\
             [[links]]\nbetween = [\"phone\", \"gateway\"]\nkind = \"veth\"\n\
             [[links]]\nbetween = [\"gateway\", \"server\"]\nkind = \"veth\"\n";
        let lab = Lab::start(&Topology::from_toml("page", text)?)?;
        let config = Config {
            access: vec!["to-crowd".into(), "to-phone".into()],
            wan: vec!["to-server".into()],
            control_group: Some(0.0),
            // Of the last quarter of the table, one host gets no more than is free.
            memory: Memory { max_flows: self.flows as usize * 2 + 100, ..Memory::default() },
            metrics: Some(PAGE),
            ..Config::default()
        };
        let gateway = GatewayProcess::start(lab.host("gateway"), config)?;
        let idle_ones = IdleConnections::open(lab.host("crowd"), lab.host("server"), self.flows)?;
        let pages = Pages::new(lab.host("gateway"))?;
        let mut stage = Stage {
            lab,
            gateway,
            pages,
            received: OnceLock::new(),
            part: self.time,
            page_redraws: Vec::new(),
            top_redraws: Vec::new(),
        };
        std::thread::sleep(SETTLES);
        let split = stage.gateway.counters().and_then(|all| all["flows_split"].as_u64()).unwrap_or(0);
        console.say(&format!("{split} of {} connections are split, and say nothing", self.flows));
        let before = ProcessorTime::now();
        let idle = stage.turns(self.turns, console, "idle")?;
        let download = Download::start(stage.lab.host("phone"), stage.lab.host("server"))?;
        let _ = stage.received.set(Arc::clone(&download.received));
        let busy = stage.turns(self.turns, console, "busy")?;
        drop(download);
        let steal = before.zip(ProcessorTime::now()).map_or(0.0, |(then, now)| then.stolen_until(&now));
        let status =
            stage.lab.host("gateway").run(|| fetch(PAGE, "/status.json")).doing("asking for a sample")?;
        drop(idle_ones);
        let status: Value = serde_json::from_str(&status).map_err(TrialError::of)?;
        Ok(self.judge(console, &stage, split, [&idle, &busy], &status, steal))
    }
}

impl Page {
    fn judge(
        &self,
        console: &dyn Console,
        stage: &Stage,
        split: u64,
        [idle, busy]: [&[[Part; 2]]; 2],
        status: &Value,
        steal: f64,
    ) -> Judgement {
        let share = [0, 1].map(|side| spread(idle.iter().map(|turn| turn[side].share)));
        let ratio = spread(busy.iter().map(|[unseen, seen]| seen.bytes_a_second / unseen.bytes_a_second));
        let rate = spread(busy.iter().map(|[unseen, seen]| seen.rate / unseen.rate));
        let (page, top) = (millis(&stage.page_redraws), millis(&stage.top_redraws));
        console.say(&format!(
            "looking takes {:.2} % of the thread with the packets ({:.2} to {:.2}); a second of it passes {:.2} times as many bytes as unseen ({:.2} to {:.2}); \
             a redraw of the page {:.0} ms ({:.0} at most), of `top` {:.0} ms ({:.0} at most)",
            share[1][1] * 100.0,
            share[1][0] * 100.0,
            share[1][2] * 100.0,
            ratio[1],
            ratio[0],
            ratio[2],
            page[1],
            page[2],
            top[1],
            top[2],
        ));
        let soon = SOON.as_secs_f64() * 1e3;
        let late = |what: &str, [_, median, _]: [f64; 3]| {
            (median > soon).then(|| format!("{what} is drawn again within {median:.0} ms, not {soon:.0}"))
        };
        let failure = if split < self.flows {
            Some(format!("of {} connections {split} were split", self.flows))
        } else if share[1][1] > MOST {
            let [used, most] = [share[1][1], MOST].map(|share| share * 100.0);
            Some(format!(
                "looking takes {used:.2} % of the thread with the packets, and may take {most:.0} %"
            ))
        } else {
            late("the page", page).or_else(|| late("`top`", top))
        };
        let summary = json!({
            "bench": "page", "flows": self.flows, "split": split, "pages": stage.pages.kind(), "turns": self.turns, "part_s": self.time.as_secs_f64(),
            "share_unseen": spread_json(share[0]), "share_looked_at": spread_json(share[1]),
            "bytes_per_processor_ratio": spread_json(ratio), "throughput_ratio": spread_json(rate),
            "page_redraw_ms": spread_json(page), "page_redraws": stage.page_redraws.len(),
            "top_redraw_ms": spread_json(top), "top_redraws": stage.top_redraws.len(),
            "listing_ms": status["listing_ms"], "interval_s": status["interval_s"], "steal": steal,
        });
        Judgement::holds(summary).unless(failure)
    }
}
