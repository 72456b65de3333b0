//! What a message costs on this machine: measured on the program's own parts, over sockets, and written into a file that scenarios name.
use super::etcd::EtcdServer;
use crate::error::{Result, TrialError, While};
use crate::trial::{Judgement, Trial};
use serde::{Deserialize, Serialize};
use serde_json::json;
use shorthaul_relay::discovery::directory::{Directory, List, Registration};
use shorthaul_relay::discovery::{
    ASKED_MAX, AnsweringConfig, AnsweringSockets, Found, Handshake, Identity, Key, Keyring, Load, Name,
    Offer, Onward, Question, ResponderConfig, Retry, Service, Table, TableConfig, View, probe,
};
use shorthaul_relay::discovery::{Allowance, Limits};
use shorthaul_report::{Column, Console, Manifest, Progress, Table as Rows, Unit, write_file};
use shorthaul_types::{BitRate, Bytes, Seed, Time};
use std::hint::black_box;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a message costs, where that was measured, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    pub measured: Measured,
    pub probe: ProbeCosts,
    pub directory: DirectoryCosts,
    pub table: TableCosts,
}

/// Where it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The command that measures it again.
    pub by: String,
    /// The program, the processor and the kernel.
    pub program: String,
    pub processor: String,
    pub kernel: String,
    /// The etcd that was measured; empty if there is none on the machine, and what is said of it means nothing.
    pub etcd: String,
}

/// Processor time, kernel and program together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeCosts {
    /// Of the thread that answers, for a probe that it answers: from the socket, checked, signed, to the socket.
    #[serde(with = "shorthaul_types::serde_duration")]
    pub answered: Duration,
    /// The same for one that is not signed by the network.
    #[serde(with = "shorthaul_types::serde_duration")]
    pub refused: Duration,
    /// Of a client, for each probe of a round, its answer included.
    #[serde(with = "shorthaul_types::serde_duration")]
    pub asked: Duration,
}

/// Of a directory, for a thousand relays.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectoryCosts {
    /// Processor time of etcd for reading a thousand relays.
    #[serde(with = "shorthaul_types::serde_duration")]
    pub server_per_1000: Duration,
    /// The same of the client that reads them.
    #[serde(with = "shorthaul_types::serde_duration")]
    pub client_per_1000: Duration,
    /// Bytes of the answer, headers of HTTP not counted.
    pub bytes_per_1000: Bytes,
    /// Processor time of etcd for a relay that prolongs its lease and writes its load.
    #[serde(with = "shorthaul_types::serde_duration")]
    pub server_per_write: Duration,
    /// Processor time of a client that reads a thousand relays from a file.
    #[serde(with = "shorthaul_types::serde_duration")]
    pub file_per_1000: Duration,
}

/// Of a client's table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableCosts {
    /// Processor time of a lookup of one of 64 destinations, each with as many relays as a round asks.
    #[serde(with = "shorthaul_types::serde_duration")]
    pub lookup: Duration,
}

impl Costs {
    /// Reads what was measured.
    ///
    /// # Errors
    /// The file cannot be read, or says something else.
    pub fn read(path: &Path) -> Result<Costs> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let how = "`shorthaul bench network-costs` measures what it should say";
            TrialError::asked(format!("cannot read {}: {error}; {how}", path.display()))
        })?;
        let costs: Costs = toml::from_str(&text)
            .map_err(|error| TrialError::asked(format!("{}: {error}", path.display())))?;
        if costs.probe.answered.is_zero() || costs.directory.server_per_1000.is_zero() {
            return Err(TrialError::asked(format!("{}: nothing costs no time", path.display())));
        }
        Ok(costs)
    }
}

/// What answering a probe, reading a directory and looking into a table cost: processor time on the program's own code
///
/// A responder answers over the loopback, an etcd of this machine (`etcd` in the path) has relays written and read, a file the same. What is found is
/// written into a file for `bench network`. The last line is the result as JSON.
#[derive(clap::Args)]
pub struct NetworkCosts {
    /// Probes that are answered
    #[arg(long, default_value_t = 20_000)]
    probes: u32,
    /// Relays in the directory
    #[arg(long, default_value_t = 2_000)]
    relays: u32,
    /// Readings of it
    #[arg(long, default_value_t = 20)]
    readings: u32,
    /// Where it is written
    #[arg(long, default_value = "bench/network/costs.toml")]
    out: PathBuf,
}

const CALM: Load = Load {
    service_time: Duration::from_micros(100),
    buffer: 1 << 20,
    sessions: 3,
    capacity: None,
    overloaded: false,
};

fn keys() -> Keyring {
    Keyring::single(Key::new([7; 32]))
}

impl Trial for NetworkCosts {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        if self.probes < 100 || self.relays < 10 || self.readings == 0 {
            return Err(TrialError::asked(
                "fewer than 100 probes, 10 relays or one reading say nothing about what each costs",
            ));
        }
        let progress = Progress::begin(console, 4);
        let (answered, asked) = self.answered().doing("measuring what a probe costs")?;
        progress.step("probes answered");
        let refused = self.refused().doing("measuring what a foreign probe costs")?;
        progress.step("probes refused");
        let file_per_1000 = self.file().doing("measuring what a list in a file costs")?;
        let lookup = lookup();
        progress.step("lists and tables read");
        let etcd = EtcdServer::version();
        let measured = match &etcd {
            Some(_) => self.etcd().doing("measuring what etcd costs")?,
            None => {
                progress.warn(
                    "there is no etcd here: its costs are taken for those of a file, which means little",
                );
                OfEtcd {
                    server: file_per_1000,
                    client: file_per_1000,
                    bytes: 0,
                    write: Duration::from_micros(100),
                }
            }
        };
        progress.step("etcd read and written");
        drop(progress);
        let costs = Costs {
            measured: Measured {
                by: "shorthaul bench network-costs".into(),
                program: format!("shorthaul {} {}", env!("CARGO_PKG_VERSION"), build()),
                processor: processor(),
                kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")
                    .unwrap_or_default()
                    .trim()
                    .to_owned(),
                etcd: etcd.unwrap_or_default(),
            },
            probe: ProbeCosts { answered, refused, asked },
            directory: DirectoryCosts {
                server_per_1000: measured.server,
                client_per_1000: measured.client,
                bytes_per_1000: Bytes(measured.bytes),
                server_per_write: measured.write,
                file_per_1000,
            },
            table: TableCosts { lookup },
        };
        let text = toml::to_string(&costs).map_err(TrialError::of)?;
        let head = "# What messages of a relay network cost. Written by `shorthaul bench network-costs`, for scenarios of `shorthaul bench network`.\n";
        write_file(&self.out, format!("{head}\n{text}"))?;
        let mut table = Rows::new([Column::left("processor time of"), Column::right("each")]);
        let rows = [
            ("a probe that is answered, at the node", answered),
            ("one of a foreigner", refused),
            ("a probe of a round and its answer, at the client", asked),
            ("reading 1,000 relays, of etcd", measured.server),
            ("the same, of the client", measured.client),
            ("the same from a file", file_per_1000),
            ("a relay that writes itself, of etcd", measured.write),
            ("a lookup in a client's table", lookup),
        ];
        for (what, time) in rows {
            table.row([what.to_owned(), Unit::Seconds.format(time.as_secs_f64())]);
        }
        console.table(&table);
        let seconds = |time: Duration| time.as_secs_f64();
        Ok(Judgement::holds(json!({
            "bench": "network-costs", "out": self.out, "answered_s": seconds(answered), "refused_s": seconds(refused), "asked_s": seconds(asked),
            "etcd_read_1000_s": seconds(measured.server), "client_read_1000_s": seconds(measured.client), "bytes_per_1000": measured.bytes,
            "etcd_write_s": seconds(measured.write), "file_read_1000_s": seconds(file_per_1000), "lookup_s": seconds(lookup),
            "etcd": costs.measured.etcd, "processor": costs.measured.processor,
        })))
    }
}

/// Processor time of etcd and its client.
struct OfEtcd {
    server: Duration,
    client: Duration,
    bytes: u64,
    write: Duration,
}

impl NetworkCosts {
    /// Processor time of a responder for each probe that it answers, and of the client for each of a round.
    fn answered(&self) -> Result<(Duration, Duration)> {
        let without_limits = Allowance { per_second: 1e9, burst: 1e9 };
        let limits = Limits { per_network: without_limits, ..Limits::default() };
        let relay = Identity::relay(([127, 0, 0, 1], 7080).into(), "measured");
        let responder = ResponderConfig { limits, ..ResponderConfig::new(keys(), Some(relay)) };
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = AnsweringConfig { listen, ..AnsweringConfig::new(responder, false) };
        let answering = AnsweringSockets::bind(config).map_err(TrialError::of)?.answer(|| CALM)?;
        let address = answering.address();
        let thread = Thread::named("answering")?;
        let mut cookie = None;
        let retry = Retry { timeout: Duration::from_secs(5), tries: 1 };
        let mut ask = |destination| -> Result<()> {
            // A destination and a relay at once: half of the answers are of each kind.
            let question = Question {
                destination: Some(destination),
                relays: vec![destination],
                target: None,
                handshake: Handshake::Never,
                cookie,
            };
            let findings = probe(&keys(), question, retry)?;
            if findings.rtt.is_none() || findings.relays.is_empty() {
                return Err(TrialError::failed("a responder on the loopback did not answer"));
            }
            cookie = findings.cookie;
            Ok(())
        };
        ask(address)?;
        let own = Thread::own()?;
        let (server, client) = (thread.time()?, own.time()?);
        for _ in 0..self.probes.div_ceil(2) {
            ask(address)?;
        }
        let probes = self.probes.div_ceil(2) * 2;
        Ok(((thread.time()? - server) / probes, (own.time()? - client) / probes))
    }

    /// The same for probes of another network, which are not answered.
    fn refused(&self) -> Result<Duration> {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let responder = ResponderConfig::new(Keyring::single(Key::new([8; 32])), None);
        let config = AnsweringConfig { listen, ..AnsweringConfig::new(responder, false) };
        let answering = AnsweringSockets::bind(config).map_err(TrialError::of)?.answer(|| CALM)?;
        let thread = Thread::named("answering")?;
        let socket = std::net::UdpSocket::bind(("127.0.0.1", 0))?;
        let message = shorthaul_relay::discovery::Message {
            hop_limit: 64,
            attempt: 1,
            timestamp: 1,
            cookie: [0; 16],
            body: shorthaul_relay::discovery::Body::Path,
        };
        let datagram = message.sign(&keys());
        let seen = || answering.counters().silent.values().sum::<u64>();
        let begun = thread.time()?;
        for number in 1..=u64::from(self.probes) {
            socket.send_to(datagram.as_slice(), answering.address())?;
            // No more on their way than a socket holds.
            let asked = Instant::now();
            while number.is_multiple_of(32)
                && seen() + 16 < number
                && asked.elapsed() < Duration::from_secs(5)
            {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        std::thread::sleep(Duration::from_millis(300));
        let seen = seen();
        if seen < u64::from(self.probes) / 2 {
            return Err(TrialError::failed(format!(
                "of {} foreign probes {seen} were looked at",
                self.probes
            )));
        }
        Ok((thread.time()? - begun) / u32::try_from(seen).unwrap_or(u32::MAX))
    }

    /// Processor time for a thousand relays of a file.
    fn file(&self) -> Result<Duration> {
        use std::fmt::Write as _;
        let path = std::env::temp_dir().join(format!("shorthaul-relays-{}.toml", std::process::id()));
        let mut text = String::new();
        for number in 0..self.relays {
            let address = address(number);
            let _ = writeln!(text, "[[relay]]\nname = \"relay-{number}\"\nsession = \"{address}:7080\"\n");
        }
        write_file(&path, text)?;
        let list = List::new(&path);
        let own = Thread::own()?;
        let begun = own.time()?;
        for _ in 0..self.readings {
            black_box(list.relays().map_err(TrialError::of)?);
        }
        let took = own.time()? - begun;
        std::fs::remove_file(&path)?;
        Ok(took.div_f64(f64::from(self.readings) * f64::from(self.relays) / 1000.0))
    }

    fn etcd(&self) -> Result<OfEtcd> {
        let server = EtcdServer::start()?;
        let etcd = server.client()?;
        for number in 0..self.relays {
            // As relays write themselves, with all that they tell.
            let load = Load {
                capacity: Some(shorthaul_relay::discovery::Capacity {
                    rate: BitRate::from_bits_per_sec(900_000_000),
                    active: 12,
                }),
                ..CALM
            };
            let address = address(number);
            let registration = Registration {
                name: format!("relay-{number}"),
                session: SocketAddr::new(address, 7080),
                probe: SocketAddr::new(address, 7007),
                lease: Duration::from_secs(3600),
            };
            etcd.register_once(&registration, &load).map_err(TrialError::of)?;
        }
        // What was written is put in order.
        std::thread::sleep(Duration::from_secs(1));
        let bytes = server.bytes_of_all()?;
        let own = Thread::own()?;
        let (served, read) = (server.time()?, own.time()?);
        for _ in 0..self.readings {
            let relays = etcd.relays().map_err(TrialError::of)?;
            if relays.len() != self.relays as usize {
                return Err(TrialError::failed(format!(
                    "of {} relays etcd tells {}",
                    self.relays,
                    relays.len()
                )));
            }
        }
        let thousands = f64::from(self.readings) * f64::from(self.relays) / 1000.0;
        let (served, read) = (server.time()? - served, own.time()? - read);
        let write = server.writes((self.relays / 2).max(100))?;
        Ok(OfEtcd {
            server: served.div_f64(thousands),
            client: read.div_f64(thousands),
            bytes: bytes * 1000 / u64::from(self.relays),
            write,
        })
    }
}

fn address(number: u32) -> std::net::IpAddr {
    std::net::Ipv4Addr::from(0xc612_0000 + number).into()
}

/// How the program was built: what costs so much costs less when it is optimized.
fn build() -> &'static str {
    if cfg!(debug_assertions) { "(not optimized)" } else { "(optimized)" }
}

fn processor() -> String {
    let all = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = all.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| std::env::consts::ARCH.into(), |(_, name)| name.trim().to_owned())
}

/// Processor time of a lookup in a table that is full.
fn lookup() -> Duration {
    const ROUNDS: u32 = 2_000;
    let relay = |number: u32| Found {
        offer: Offer {
            session: SocketAddr::new(address(number), 7080),
            service_time: Duration::ZERO,
            buffer: 1,
            sessions: 0,
            capacity: None,
            onward: Onward::Unknown,
            name: Name::default(),
            service: Service::Sessions,
        },
        rtt: Duration::from_millis(20),
        hops: None,
        on_path: false,
    };
    let view =
        View { rtt: Some(Duration::from_millis(80)), relays: (0..ASKED_MAX as u32).map(relay).collect() };
    let config = TableConfig::default();
    let target = |number: usize| SocketAddr::from(([10, 0, 0, number as u8], 443));
    let mut table = Table::new(Time::ZERO, config, Seed(1));
    (0..config.destinations).for_each(|number| table.store(Time::ZERO, target(number), view.clone()));
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        for number in 0..config.destinations {
            black_box(table.look_up(Time::from_secs(1), target(number)));
        }
    }
    begun.elapsed() / (ROUNDS * config.destinations as u32)
}

/// A thread of this process, whose processor time the kernel tells.
struct Thread(PathBuf);

impl Thread {
    /// The latest one of this name.
    fn named(name: &str) -> Result<Thread> {
        let begun = Instant::now();
        loop {
            let mut latest: Option<(u64, PathBuf)> = None;
            for task in std::fs::read_dir("/proc/self/task")?.flatten() {
                let number = task.file_name().to_string_lossy().parse().unwrap_or(0);
                let is_it =
                    std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name);
                if is_it && latest.as_ref().is_none_or(|(before, _)| *before < number) {
                    latest = Some((number, task.path()));
                }
            }
            match latest {
                Some((_, path)) => return Ok(Thread(path)),
                None if begun.elapsed() > Duration::from_secs(5) => {
                    return Err(TrialError::failed(format!("there is no thread `{name}`")));
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn own() -> Result<Thread> {
        Ok(Thread(std::fs::canonicalize("/proc/thread-self")?))
    }

    fn time(&self) -> Result<Duration> {
        on_processor(&self.0.join("schedstat"))
    }
}

/// What the kernel says of the time that a thread was on a processor: the first number, in nanoseconds.
pub(super) fn on_processor(schedstat: &Path) -> Result<Duration> {
    let text = std::fs::read_to_string(schedstat)?;
    let nanos = text.split_whitespace().next().and_then(|first| first.parse().ok());
    let nanos = nanos.ok_or_else(|| TrialError::failed(format!("{} says no time", schedstat.display())))?;
    Ok(Duration::from_nanos(nanos))
}

/// Facts of costs for a report.
pub(super) fn told(manifest: Manifest, costs: &Costs) -> Manifest {
    manifest
        .fact("costs measured by", &costs.measured.by)
        .fact("costs measured with", &costs.measured.program)
        .fact("costs measured on", &format!("{}, kernel {}", costs.measured.processor, costs.measured.kernel))
}
