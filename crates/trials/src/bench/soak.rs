//! A soak: connections come and go in all manners, and the gateway's memory must not grow.
use crate::error::{Result, TrialError};
use crate::trial::{Judgement, Trial};
use serde_json::json;
use shorthaul_dataplane::Config;
use shorthaul_lab::{GatewayProcess, Lab, Privilege, Topology};
use shorthaul_observe::Summary;
use shorthaul_os::socket::abort;
use shorthaul_proxy::GatewayMode;
use shorthaul_report::{Console, Progress};
use shorthaul_types::{Bytes, Seed};
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The resident memory at the end may be so much more than that of the first minute.
const GROWS: f64 = 1.05;
/// The first minute counts from here on: before, caches fill.
const SETTLED: Duration = Duration::from_secs(30);
const MINUTE: Duration = Duration::from_secs(60);
/// Nobody waits longer for a byte.
const TIMEOUT: Duration = Duration::from_secs(10);
/// An address of the client's that is taken away now and then.
const MOVES: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// Churn for minutes: connections that load, stall, half-close, reset and change their address, and what that does to the gateway's memory
///
/// It holds if the resident memory at the end is within 5 % of that of the first minute, and no connection fails that was not made to.
/// Needs root, or a host that allows user namespaces. The last line is the result as JSON.
#[derive(clap::Args)]
pub struct Soak {
    /// How long: whole minutes, two at least
    #[arg(long, value_name = "TIME", default_value = "15 min", value_parser = minutes)]
    time: Duration,
    /// Connections at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=500))]
    at_once: u64,
    /// The gateway's mode: auto or split
    #[arg(long, value_name = "MODE", default_value = "auto")]
    mode: GatewayMode,
    /// Seed of what is drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn minutes(text: &str) -> Result<Duration, String> {
    match shorthaul_types::parse_duration(text) {
        Ok(time) if time.as_secs() >= 120 => Ok(time),
        Ok(_) => Err("two minutes at least: what grows is compared with the first".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// What a connection does.
#[derive(Clone, Copy, Debug)]
enum Life {
    Loads,
    Uploads,
    Stalls,
    HalfCloses,
    Resets,
    Moves,
}

impl Life {
    fn drawn(number: u64) -> Life {
        match number % 12 {
            0..=4 => Life::Loads,
            5 | 6 => Life::Uploads,
            7 | 8 => Life::Stalls,
            9 => Life::HalfCloses,
            10 => Life::Resets,
            _ => Life::Moves,
        }
    }
}

/// Serves one: as many bytes as are asked for, once the other has sent as many as it says.
fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(2 * TIMEOUT))?;
    stream.set_write_timeout(Some(2 * TIMEOUT))?;
    let mut asked = [0; 16];
    stream.read_exact(&mut asked)?;
    let number = |at: usize| asked[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let (sends, takes) = (number(0), number(8));
    io::copy(&mut (&mut stream).take(takes), &mut io::sink())?;
    io::copy(&mut io::repeat(7).take(sends), &mut stream)?;
    Ok(())
}

fn ask(stream: &mut TcpStream, loads: u64, uploads: u64) -> io::Result<()> {
    let mut asked = loads.to_be_bytes().to_vec();
    asked.extend(uploads.to_be_bytes());
    stream.write_all(&asked)?;
    io::copy(&mut io::repeat(7).take(uploads), stream)?;
    Ok(())
}

/// Reads to the end, which must come after this many bytes.
fn read_to_end(stream: &mut TcpStream, loads: u64) -> io::Result<()> {
    let read = io::copy(stream, &mut io::sink())?;
    if read == loads { Ok(()) } else { Err(io::Error::other(format!("{read} bytes came, of {loads}"))) }
}

/// What went wrong with a connection, where it can be found again.
#[derive(Debug)]
struct Fault {
    error: io::Error,
    /// Its port at the client, if it came so far.
    port: Option<u16>,
    /// How long it had lived.
    age: Duration,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { error, age, .. } = self;
        match self.port {
            Some(port) => write!(f, "{error}, from port {port} after {age:.1?}"),
            None => write!(f, "{error}, not open after {age:.1?}"),
        }
    }
}

/// What the gateway knows of the connection from this port of the client.
fn known_of(gateway: &GatewayProcess, port: Option<u16>) -> String {
    let flows = gateway.flows();
    let all = flows.as_ref().and_then(serde_json::Value::as_array).map_or(&[][..], Vec::as_slice);
    let ending = port.map(|port| format!(":{port}"));
    let is_its = |flow: &&serde_json::Value| {
        ending.as_ref().is_some_and(|ending| flow["client"].as_str().is_some_and(|end| end.ends_with(ending)))
    };
    match all.iter().find(is_its) {
        Some(flow) => format!("the gateway has {flow}"),
        None => "the gateway does not know it".into(),
    }
}

/// The life of a connection, and where it was if it went wrong.
fn live(life: Life, server: SocketAddr, drawn: u64) -> std::result::Result<(), Fault> {
    let begun = Instant::now();
    let mut port = None;
    act(life, server, drawn, &mut port).map_err(|error| Fault { error, port, age: begun.elapsed() })
}

fn act(life: Life, server: SocketAddr, drawn: u64, port: &mut Option<u16>) -> io::Result<()> {
    let size = 1_000 << (drawn >> 8 & 7);
    if matches!(life, Life::Moves) {
        // Its address is taken away in its midst: it may never hear of its end.
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
        socket.set_read_timeout(Some(Duration::from_millis(500)))?;
        socket.set_write_timeout(Some(Duration::from_millis(500)))?;
        let from: SocketAddr = (MOVES, 0).into();
        if socket.bind(&from.into()).is_ok() && socket.connect_timeout(&server.into(), TIMEOUT).is_ok() {
            let mut stream = TcpStream::from(socket);
            let _ = ask(&mut stream, 1_000_000, 1_000).and_then(|()| read_to_end(&mut stream, 1_000_000));
        }
        return Ok(());
    }
    let mut stream = TcpStream::connect_timeout(&server, TIMEOUT)?;
    *port = Some(stream.local_addr()?.port());
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    match life {
        Life::Loads => {
            ask(&mut stream, size, 10)?;
            read_to_end(&mut stream, size)
        }
        Life::Uploads => {
            ask(&mut stream, 10, size)?;
            read_to_end(&mut stream, 10)
        }
        Life::Stalls => {
            ask(&mut stream, 500_000, 10)?;
            std::thread::sleep(Duration::from_millis(1_500));
            read_to_end(&mut stream, 500_000)
        }
        Life::HalfCloses => {
            ask(&mut stream, size, 100)?;
            stream.shutdown(Shutdown::Write)?;
            read_to_end(&mut stream, size)
        }
        Life::Resets => {
            ask(&mut stream, 500_000, 10)?;
            stream.read_exact(&mut [0; 1_000])?;
            abort(&stream)
        }
        Life::Moves => Ok(()),
    }
}

/// Connections that come and go, and who serves them.
struct Churn<'a> {
    listener: &'a TcpListener,
    at_once: u64,
    seed: Seed,
}

/// What came of it.
struct Churned<T> {
    /// What was seen meanwhile.
    watched: T,
    /// Connections that did what they were to do.
    lived: u64,
    /// What was wrong with the others.
    faults: Vec<String>,
}

impl Churn<'_> {
    /// Lets connections come and go until `watch` is over, and then lets those that are there come to their end: the server goes last. `at_client` does its work where the client is; `look` says more about one that failed.
    fn run<T>(
        &self,
        at_client: impl Fn(&mut (dyn FnMut() + Send)) + Sync,
        look: impl Fn(&Fault) -> String + Sync,
        watch: impl FnOnce() -> T,
    ) -> io::Result<Churned<T>> {
        let address = self.listener.local_addr()?;
        let (stop, closed) = (AtomicBool::new(false), AtomicBool::new(false));
        let (lived, faults) = (AtomicU64::new(0), Mutex::new(Vec::new()));
        let work = |worker: u64| {
            let seed = self.seed.nth(worker);
            for number in 0.. {
                let drawn = seed.nth(number).0;
                let life = Life::drawn(drawn);
                match live(life, address, drawn) {
                    Ok(()) => {
                        lived.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(fault) => {
                        let known = look(&fault);
                        lock(&faults).push(format!("one that {life:?}: {fault}; {known}"));
                    }
                }
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        };
        let (at_client, work) = (&at_client, &work);
        let watched = std::thread::scope(|serving| {
            serving.spawn(|| {
                while !closed.load(Ordering::Relaxed) {
                    let Ok((stream, _)) = self.listener.accept() else { continue };
                    std::thread::spawn(move || serve(stream));
                }
            });
            let watched = std::thread::scope(|working| {
                for worker in 0..self.at_once {
                    working.spawn(move || at_client(&mut || work(worker)));
                }
                let watched = watch();
                stop.store(true, Ordering::Relaxed);
                watched
            });
            closed.store(true, Ordering::Relaxed);
            // It waits for another one (accept returns EINVAL then).
            socket2::SockRef::from(self.listener).shutdown(Shutdown::Both)?;
            Ok::<_, io::Error>(watched)
        })?;
        let faults = std::mem::take(&mut *lock(&faults));
        Ok(Churned { watched, lived: lived.into_inner(), faults })
    }
}

impl Trial for Soak {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        // First of all, while the process has a single thread: the kernel asks for that.
        Privilege::obtain()?;
        let link = "{ rate = \"50 Mbit/s\", delay = \"5 ms\" }";
        let text = format!(
            "[hosts.client]\n[hosts.gateway]\n[hosts.server]\n\
             [[links]]\nbetween = [\"client\", \"gateway\"]\nlink = {link}\n\
             [[links]]\nbetween = [\"gateway\", \"server\"]\nlink = {link}\n"
        );
        let mut topology = Topology::from_toml("soak", &text)?;
        topology.seed = Seed(self.seed);
        let lab = Lab::start(&topology)?;
        let (client, server) = (lab.host("client"), lab.host("server"));
        let config = Config {
            access: vec!["to-client".into()],
            wan: vec!["to-server".into()],
            mode: Some(self.mode),
            ..Config::default()
        };
        let gateway = GatewayProcess::start(lab.host("gateway"), config)?;
        let listener = server.run(|| TcpListener::bind((server.address_v4(), 0)))?;
        // What is sent to the address that comes and goes is for the client.
        let to = format!("{MOVES}/32");
        let via = client.address_v4().to_string();
        ip(lab.host("gateway"), &["route", "add", &to, "via", &via])?;
        let hop = lab.host("gateway").interfaces().iter().find(|interface| interface.name == "to-server");
        let hop = hop.map(|interface| interface.v4.addr().to_string()).unwrap_or_default();
        ip(server, &["route", "add", &to, "via", &hop])?;
        let churn = Churn { listener: &listener, at_once: self.at_once, seed: Seed(self.seed) };
        let Churned { watched: resident, lived, faults } = churn.run(
            |work| client.run(work),
            |fault| known_of(&gateway, fault.port),
            || self.watch(console, &lab, &gateway),
        )?;
        let resident = resident?;
        let (settled, minute) = (SETTLED.as_secs() as usize, MINUTE.as_secs() as usize);
        let mean = |seconds: &[f64]| Summary::of(seconds.iter().copied()).map_or(f64::NAN, |all| all.mean);
        let first = mean(&resident[settled.min(resident.len())..minute.min(resident.len())]);
        let last = mean(&resident[resident.len().saturating_sub(settled)..]);
        let failed = faults.len();
        console.say(&format!(
            "{lived} connections, {failed} failed that should not; resident {} in the first minute, {} at the end ({:.3} of it)",
            Bytes(first as u64),
            Bytes(last as u64),
            last / first
        ));
        let failure = match last / first <= GROWS {
            true if failed == 0 => None,
            true => Some(format!("{failed} connections failed that should not: {}", faults.join("; "))),
            false => Some(format!("its memory grew to {:.3} of that of the first minute", last / first)),
        };
        let json = json!({
            "bench": "soak", "minutes": self.minutes(), "connections": lived, "failed": failed, "faults": faults, "first": first,
            "last": last, "ratio": last / first,
            "resident_each_minute": resident.chunks(60).map(mean).collect::<Vec<_>>(),
        });
        Ok(Judgement::holds(json).unless(failure))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ip(host: &shorthaul_lab::Host, arguments: &[&str]) -> Result<()> {
    let mut child = host.spawn(Command::new("ip").args(arguments))?;
    match child.wait()?.success() {
        true => Ok(()),
        false => Err(TrialError::Failed(format!("`ip {}` did not work", arguments.join(" ")))),
    }
}

impl Soak {
    fn minutes(&self) -> u64 {
        self.time.as_secs() / 60
    }

    /// The resident memory of the gateway in bytes, each second. The address that moves is there for two seconds of three.
    fn watch(&self, console: &dyn Console, lab: &Lab, gateway: &GatewayProcess) -> Result<Vec<f64>> {
        let progress = Progress::begin(console, self.minutes() as usize);
        let address = format!("{MOVES}/32");
        let mut resident = Vec::new();
        let begun = Instant::now();
        for second in 1..=self.minutes() * 60 {
            match second % 3 {
                0 => ip(lab.host("client"), &["addr", "del", &address, "dev", "lo"])?,
                1 => ip(lab.host("client"), &["addr", "add", &address, "dev", "lo"])?,
                _ => {}
            }
            std::thread::sleep((Duration::from_secs(second)).saturating_sub(begun.elapsed()));
            resident.push((gateway.usage().resident_kib << 10) as f64);
            if second % 60 == 0 {
                let flows = gateway.flows().and_then(|flows| Some(flows.as_array()?.len()));
                let now = Bytes(resident.last().map_or(0, |bytes| *bytes as u64));
                progress.step(&format!("{now} resident, {} flows", flows.unwrap_or(0)));
            }
        }
        Ok(resident)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    /// Whoever opens a connection when the time is just over is served all the same.
    #[test]
    fn the_last_connections_are_served_as_the_first_ones() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let churn = Churn { listener: &listener, at_once: 24, seed: Seed(1) };
        let is_over = Barrier::new(24 + 1);
        let late = |work: &mut (dyn FnMut() + Send)| {
            is_over.wait();
            work();
        };
        let churned = churn.run(late, |_| String::new(), || is_over.wait()).unwrap();
        assert_eq!(churned.faults, Vec::<String>::new());
        assert!(churned.lived >= 24, "{} lived", churned.lived);
    }
}
