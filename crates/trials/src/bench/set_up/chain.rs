use std::fmt;
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use shorthaul_lab::{Child, Lab, LinkDescription, Topology};
use shorthaul_link::LinkConfig;
use shorthaul_relay::request::SetUp;
use shorthaul_relay::{
    Client, ClientOptions, Credentials, Endpoint, FixedRoute, Forwarding, LinkOptions, Links, NameService,
    NetworkSecret, Protection, Route,
};
use shorthaul_types::Seed;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::error::{Result, TrialError, While};

const PORT: u16 = 7080;
const SINK_PORT: u16 = 5201;
const CONGESTION: &str = "reno";
/// Far more than any session takes.
const LIMIT: Duration = Duration::from_secs(30);
/// Round trips after which every connection that is to be ready is: a handshake of TCP and one of TLS, and room.
const SETTLED: u32 = 5;

/// What there is before a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    Nothing,
    /// Connections from each to the next, as clients and nodes keep them.
    Connections,
}

/// How a session is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionKind {
    pub protection: Protection,
    pub set_up: SetUp,
    pub ready: Ready,
}

impl SessionKind {
    pub const fn protection(self) -> &'static str {
        match self.protection {
            Protection::Plain => "plain",
            Protection::Tls => "TLS",
        }
    }

    pub const fn set_up(self) -> &'static str {
        match self.set_up {
            SetUp::Parallel => "parallel",
            SetUp::Sequential => "sequential",
        }
    }

    pub const fn ready(self) -> &'static str {
        match self.ready {
            Ready::Nothing => "nothing",
            Ready::Connections => "connections",
        }
    }
}

impl fmt::Display for SessionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {} ready", self.protection(), self.set_up(), self.ready())
    }
}

/// A client, nodes and a server in a row, and when the server got the first byte of each connection.
pub struct Line {
    lab: Lab,
    nodes: usize,
    rtt: Duration,
    server: SocketAddr,
    arrivals: Mutex<UnboundedReceiver<Instant>>,
}

impl Line {
    pub fn start(nodes: usize, rtt: Duration) -> Result<Line> {
        let mut topology = Topology::new(Seed(1));
        let hosts: Vec<String> = std::iter::once("client".to_owned())
            .chain((1..=nodes).map(name))
            .chain(["server".to_owned()])
            .collect();
        let link = LinkConfig { delay: rtt / 2 / (nodes as u32 + 1), ..LinkConfig::default() };
        for pair in hosts.windows(2) {
            topology.add_link(LinkDescription::symmetric(&pair[0], &pair[1], link.clone()));
        }
        for host in topology.hosts.values_mut() {
            host.congestion = Some(CONGESTION.into());
            host.sysctl.insert("net.ipv4.tcp_no_metrics_save".into(), "1".into());
        }
        let lab = Lab::start(&topology)?;
        let server = SocketAddr::new(lab.host("server").address_v4().into(), SINK_PORT);
        let listener = lab.host("server").run(|| TcpListener::bind(server))?;
        let (send, arrivals) = unbounded_channel();
        thread::Builder::new().name("server".into()).spawn(move || {
            for mut socket in listener.incoming().flatten() {
                let send = send.clone();
                thread::spawn(move || {
                    if socket.read_exact(&mut [0]).is_ok() && send.send(Instant::now()).is_ok() {
                        // Until the client has gone.
                        let _ = socket.read(&mut [0]);
                    }
                });
            }
        })?;
        Ok(Line { lab, nodes, rtt, server, arrivals: Mutex::new(arrivals) })
    }

    /// What a handshake with the server takes: the median.
    pub fn round_trip(&self, times: u32) -> Result<Duration> {
        let handshake = || -> Result<Duration> {
            let began = Instant::now();
            TcpStream::connect_timeout(&self.server, LIMIT)?;
            Ok(began.elapsed())
        };
        let took: Result<Vec<Duration>> =
            self.lab.host("client").run(|| (0..times).map(|_| handshake()).collect());
        Ok(median(took?))
    }

    /// From the wish to send until the server has the first byte, this many times.
    pub fn measure(&self, way: SessionKind, times: u32) -> Result<Vec<Duration>> {
        let folder = Folder::new()?;
        let mut took = Vec::new();
        match way.ready {
            Ready::Nothing => {
                for _ in 0..times {
                    // Nodes that have seen no session yet keep nothing ready.
                    let _nodes = self.start_nodes(way, &folder)?;
                    took.extend(self.sessions(way, &folder, 1, 0)?);
                }
            }
            Ready::Connections => {
                let _nodes = self.start_nodes(way, &folder)?;
                // After the first it is known which nodes are used; by the second, connections are ready.
                took = self.sessions(way, &folder, times + 2, 2)?.split_off(2);
            }
        }
        Ok(took)
    }

    fn start_nodes(&self, way: SessionKind, folder: &Folder) -> Result<Vec<Child>> {
        (1..=self.nodes).map(|number| start_node(&self.lab, number, way.protection, folder)).collect()
    }

    /// This many sessions of one client, one after the other, with a pause in which what is to be ready becomes so.
    fn sessions(&self, way: SessionKind, folder: &Folder, count: u32, ready: usize) -> Result<Vec<Duration>> {
        let client = self.client(way, folder, ready)?;
        let target = Endpoint::from(self.server);
        let arrivals = &self.arrivals;
        self.lab.host("client").run(|| -> Result<Vec<Duration>> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let mut took = Vec::new();
                for _ in 0..count {
                    let began = Instant::now();
                    let session = client.open_saying(&target, b"first byte").await.map_err(TrialError::of)?;
                    if session.route.hops.len() != self.nodes {
                        return Err(TrialError::failed(format!("it went by {}", session.route)));
                    }
                    let mut arrivals = arrivals.lock().await;
                    let arrived = tokio::time::timeout(LIMIT, arrivals.recv()).await.ok().flatten();
                    took.push(arrived.doing("the server has gone")? - began);
                    drop(session);
                    if count > 1 {
                        tokio::time::sleep(self.rtt * SETTLED).await;
                    }
                }
                Ok(took)
            })
        })
    }

    fn client(&self, way: SessionKind, folder: &Folder, ready: usize) -> Result<Client> {
        let secret = NetworkSecret::read(&folder.secret()).map_err(TrialError::of)?;
        let links = Links::new(LinkOptions {
            name: "client".into(),
            protection: way.protection,
            identity: secret.identity(&[]).map_err(TrialError::of)?,
            credentials: Credentials::Secret(secret),
            congestion: Some(CONGESTION.into()),
            paced: false,
            timeout: LIMIT,
            ready,
            names: NameService::System,
            gone_after: LIMIT,
        })
        .map_err(TrialError::of)?;
        let address = |number| SocketAddr::new(self.lab.host(&name(number)).address_v4().into(), PORT).into();
        let route = Route::via((1..=self.nodes).map(address).collect());
        Ok(Client::new(ClientOptions {
            routes: Arc::new(FixedRoute::only(route)),
            links: Arc::new(links),
            set_up: way.set_up,
            forwarding: Forwarding::Pipelined { wait_windows: 0 },
            buffer: None,
            moves: None,
            patience: Duration::ZERO,
        }))
    }
}

fn name(node: usize) -> String {
    format!("node{node}")
}

/// The one in the middle.
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Where the network's secret is, as long as this lives.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder> {
        let path = std::env::temp_dir().join(format!("shorthaul-set-up-{}", std::process::id()));
        std::fs::create_dir_all(&path).doing(format!("cannot make {}", path.display()))?;
        let folder = Folder(path);
        std::fs::write(folder.secret(), NetworkSecret::generate()?.to_text())?;
        Ok(folder)
    }

    fn secret(&self) -> PathBuf {
        self.0.join("secret")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts `shorthaul node` on a host of the path; it ends with what is returned.
fn start_node(lab: &Lab, number: usize, protection: Protection, folder: &Folder) -> Result<Child> {
    let links = match protection {
        Protection::Plain => "plain",
        Protection::Tls => "tls",
    };
    let name = name(number);
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["node", "--allow-destination", "10.0.0.0/8", "--congestion", CONGESTION]);
    command.args(["--links", links, "--name", &name, "--listen", &format!("0.0.0.0:{PORT}")]);
    command.arg("--secret").arg(folder.secret());
    Ok(Child::start(&name, lab.host(&name), &mut command, shorthaul_lab::Ready::Says("ready".into()))?)
}
