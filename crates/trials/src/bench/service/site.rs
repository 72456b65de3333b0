//! A client, a node half-way, and a server; and sessions that send as fast as they can.
use crate::bench::nodes::{late, secret, shorthaul};
use crate::error::{Result, TrialError, While};
use shorthaul_lab::{Child, Lab, LinkDescription, Ready, Topology};
use shorthaul_link::LinkConfig;
use shorthaul_monitor::fetch;
use shorthaul_os::process::ProcessHandle;
use shorthaul_os::schedule;
use shorthaul_types::{Bytes, Seed};
use socket2::SockRef;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const SERVER_PORT: u16 = 5201;
const RELAY_PORT: u16 = 7001;
const NODE_PORT: u16 = 7080;
const PROXY_PORT: u16 = 5000;
const METRICS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7090);
/// Before it is measured: sessions are set up, and windows are open.
const BEGINNING: Duration = Duration::from_secs(1);
/// What the node tells is an average over some seconds.
const SETTLES: Duration = Duration::from_secs(5);
/// How often the node is asked for its service time while it is measured.
const LOOKS: u32 = 10;
/// Far more than any connection takes.
const LIMIT: Duration = Duration::from_secs(30);

/// How sessions go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The node's host forwards their packets.
    Direct,
    /// By the node.
    Plain,
    /// The same, with TLS between a proxy of the client's and the node.
    Tls,
}

impl Way {
    pub const fn name(self) -> &'static str {
        match self {
            Way::Direct => "direct",
            Way::Plain => "plain",
            Way::Tls => "TLS",
        }
    }
}

/// What came of a run: bit/s, and what the node told of its service time, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ran {
    pub rate: f64,
    pub told: f64,
}

/// The hosts and what runs on them. It ends with this.
pub struct Site {
    lab: Lab,
    node: Child,
    _proxy: Child,
    server: SocketAddr,
    received: Arc<AtomicU64>,
}

impl Site {
    pub fn start(rtt: Duration, buffer: Bytes, folder: &Path) -> Result<Site> {
        let mut topology = Topology::new(Seed(6));
        let link = LinkConfig { delay: rtt / 4, ..LinkConfig::default() };
        for pair in [["client", "node"], ["node", "server"]] {
            topology.add_link(LinkDescription::symmetric(pair[0], pair[1], link.clone()));
        }
        for host in topology.hosts.values_mut() {
            host.congestion = Some("reno".into());
            let Bytes(buffer) = buffer;
            host.sysctl.insert("net.ipv4.tcp_rmem".into(), format!("4096 {buffer} {buffer}"));
            // What one session learns of the path is not to help the next.
            host.sysctl.insert("net.ipv4.tcp_no_metrics_save".into(), "1".into());
        }
        let lab = Lab::start(&topology)?;
        let server = SocketAddr::new(lab.host("server").address_v4().into(), SERVER_PORT);
        let received = Arc::new(AtomicU64::new(0));
        let listener = lab.host("server").run(|| TcpListener::bind(server))?;
        let counter = Arc::clone(&received);
        thread::Builder::new().name("server".into()).spawn(move || {
            for mut socket in listener.incoming().flatten() {
                let counter = Arc::clone(&counter);
                thread::spawn(move || {
                    let mut buffer = vec![0; 64 << 10];
                    while let Ok(length @ 1..) = socket.read(&mut buffer) {
                        counter.fetch_add(length as u64, Ordering::Relaxed);
                    }
                });
            }
        })?;
        let secret = secret(folder)?;
        let mut command = shorthaul()?;
        command.args([
            "node",
            "--relay",
            &format!("0.0.0.0:{RELAY_PORT}={server}"),
            "--metrics",
            &METRICS.to_string(),
        ]);
        command.args([
            "--listen",
            &format!("0.0.0.0:{NODE_PORT}"),
            "--allow-destination",
            &format!("{}/32", server.ip()),
        ]);
        command.arg("--secret").arg(&secret);
        let node = Child::start("the node", lab.host("node"), &mut command, Ready::Says("ready".into()))?;
        let mut command = shorthaul()?;
        command.args([
            "proxy",
            "--no-history",
            "--via",
            &format!("{}:{NODE_PORT}", lab.host("node").address_v4()),
        ]);
        command.args(["--forward", &format!("127.0.0.1:{PROXY_PORT}={server}"), "--secret"]).arg(&secret);
        let proxy = Child::start("the proxy", lab.host("client"), &mut command, Ready::Says("ready".into()))?;
        Ok(Site { lab, node, _proxy: proxy, server, received })
    }

    /// Some sessions at once for so long, by a node that is stopped for `stop` and then goes on for as long, again and again.
    pub fn run(&mut self, way: Way, sessions: usize, stop: Duration, time: Duration) -> Result<Ran> {
        let to = match way {
            Way::Direct => self.server,
            Way::Plain => SocketAddr::new(self.lab.host("node").address_v4().into(), RELAY_PORT),
            Way::Tls => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PROXY_PORT),
        };
        let client = self.lab.host("client");
        let connect = |_| client.run(|| TcpStream::connect_timeout(&to, LIMIT));
        let sockets: Vec<TcpStream> = (0..sessions).map(connect).collect::<Result<_, _>>()?;
        for socket in &sockets {
            // What is still on its way when a run is over would be counted in the next one.
            SockRef::from(socket).set_linger(Some(Duration::ZERO))?;
        }
        let node = self.node.handle()?;
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for socket in sockets {
                scope.spawn(|| send(socket, &done));
            }
            if !stop.is_zero() {
                scope.spawn(|| stop_again_and_again(&node, stop, &done));
            }
            let ran = self.measured(way, time, !stop.is_zero());
            done.store(true, Ordering::Relaxed);
            ran
        })
    }

    fn measured(&self, way: Way, time: Duration, is_stopped: bool) -> Result<Ran> {
        thread::sleep(if is_stopped { SETTLES } else { BEGINNING });
        let (began, bytes) = (Instant::now(), self.received.load(Ordering::Relaxed));
        let mut told = 0.0;
        for look in 1..=LOOKS {
            thread::sleep((time * look / LOOKS).saturating_sub(began.elapsed()));
            if way != Way::Direct {
                told += self.service_time()? / f64::from(LOOKS);
            }
        }
        let bytes = (self.received.load(Ordering::Relaxed) - bytes) as f64;
        let took = began.elapsed().as_secs_f64();
        Ok(Ran { rate: 8.0 * bytes / took, told })
    }

    /// What the node tells.
    fn service_time(&self) -> Result<f64> {
        let text = self.lab.host("node").run(|| fetch(METRICS, "/status.json")).doing("asking the node")?;
        let status: serde_json::Value = serde_json::from_str(&text)
            .map_err(|error| TrialError::failed(format!("the node's status: {error}")))?;
        let micros = status["service_time_us"].as_f64().doing("the node tells no service time")?;
        Ok(micros / 1e6)
    }

    /// How late packets are on the links.
    pub fn late(&self) -> Result<Duration> {
        late(&self.lab)
    }
}

/// Sends as fast as it can.
fn send(mut socket: TcpStream, done: &AtomicBool) {
    let chunk = [7; 64 << 10];
    let _ = socket.set_write_timeout(Some(Duration::from_millis(100)));
    while !done.load(Ordering::Relaxed) {
        match socket.write(&chunk) {
            Ok(1..) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            // What it sent until then counts.
            Ok(0) | Err(_) => return,
        }
    }
}

/// For as long as it is stopped it goes on, until it is done.
fn stop_again_and_again(node: &ProcessHandle, stop: Duration, done: &AtomicBool) {
    // So that stops are as long as they are said to be.
    let _ = schedule::run_first();
    let mut next = Instant::now();
    while !done.load(Ordering::Relaxed) {
        next += stop;
        if node.pause().is_ok() {
            thread::sleep(next.saturating_duration_since(Instant::now()));
            let _ = node.resume();
        }
        next += stop;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}
