//! The relays that are compared, each in a process of its own.
use crate::idle;
use crate::load::Servers;
use shorthaul_relay::{Forwarding, Node, NodeConfig, RelayConfig, Settings};
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Direct,
    Ours,
    HaProxy,
    Socat,
    CopyBidirectional,
}

impl Kind {
    pub const ALL: [Kind; 5] =
        [Kind::Direct, Kind::Ours, Kind::HaProxy, Kind::Socat, Kind::CopyBidirectional];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Direct => "direct",
            Kind::Ours => "shorthaul",
            Kind::HaProxy => "haproxy",
            Kind::Socat => "socat",
            Kind::CopyBidirectional => "copy_bidirectional",
        }
    }
}

/// One of those that are compared.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub name: String,
    /// As it was asked for.
    pub asked: String,
    kind: Kind,
    /// Another build of this program.
    program: Option<PathBuf>,
}

/// Those that were asked for, or all.
pub fn candidates(asked: &[&str]) -> Vec<Candidate> {
    let is_asked = |kind: &Kind| asked.contains(&kind.name());
    let none = Kind::ALL.iter().all(|kind| !is_asked(kind));
    let all = Kind::ALL.into_iter().filter(|kind| none || is_asked(kind));
    let known = all.map(|kind| Candidate {
        name: kind.name().into(),
        asked: kind.name().into(),
        kind,
        program: None,
    });
    let builds = asked.iter().filter_map(|word| word.split_once('='));
    let others = builds.map(|(name, path)| Candidate {
        name: name.into(),
        asked: format!("{name}={path}"),
        kind: Kind::Ours,
        program: Some(path.into()),
    });
    known.chain(others).collect()
}

/// How a session is set up.
#[derive(Clone, Debug)]
pub struct SetUpBy {
    pub address: SocketAddr,
    pub until: Until,
}

/// When a session is there.
#[derive(Clone, Debug)]
pub enum Until {
    /// This request has been answered.
    Answered(String),
    /// A byte has come back.
    Echoed,
    /// It has been accepted; by the relay, not by what it leads to.
    Accepted,
}

/// A relay that runs.
pub struct Running {
    /// Leads to the sink.
    pub bulk: SocketAddr,
    /// Leads to the echo.
    pub echo: SocketAddr,
    pub set_up: SetUpBy,
    /// Leads to the server that only accepts.
    pub idle: SetUpBy,
    /// Whether it holds thousands of connections at all.
    pub holds_many: bool,
    children: Vec<Child>,
}

impl Running {
    /// Starts it, or nothing if it is not installed.
    pub fn start(candidate: &Candidate, servers: &Servers) -> io::Result<Option<Running>> {
        let kind = candidate.kind;
        let targets: Vec<SocketAddr> = vec![servers.sink, servers.echo, servers.accepting];
        let by = |address, until| SetUpBy { address, until };
        if kind == Kind::Direct {
            return Ok(Some(Running {
                bulk: servers.sink,
                echo: servers.echo,
                set_up: by(servers.echo, Until::Echoed),
                idle: by(servers.accepting, Until::Accepted),
                holds_many: false,
                children: Vec::new(),
            }));
        }
        // Ports that were free a moment ago.
        let ports: Vec<SocketAddr> = targets.iter().map(|_| free_port()).collect::<io::Result<_>>()?;
        let ways: Vec<String> = ports.iter().zip(&targets).map(|(from, to)| format!("{from}={to}")).collect();
        let this = candidate.program.clone().map_or_else(std::env::current_exe, Ok)?;
        let mut commands = Vec::new();
        let (mut set_up, mut idle) = (by(ports[1], Until::Echoed), by(ports[2], Until::Accepted));
        match kind {
            Kind::Direct => {}
            Kind::Ours => {
                let address = free_port()?;
                let mut command = Command::new(this);
                command.args(["serve", "shorthaul", &format!("{address},{}", ways.join(","))]);
                commands.push(command);
                let request = format!("CONNECT {} HTTP/1.1\r\n\r\n", servers.accepting);
                set_up = by(address, Until::Answered(request));
                idle = set_up.clone();
            }
            Kind::CopyBidirectional => {
                let mut command = Command::new(this);
                command.args(["serve", "copy_bidirectional", &ways.join(",")]);
                commands.push(command);
            }
            Kind::HaProxy => {
                let file = std::env::temp_dir().join(format!("relay-bench-{}.cfg", std::process::id()));
                std::fs::File::create(&file)?.write_all(haproxy(&ports, &targets).as_bytes())?;
                let mut command = Command::new("haproxy");
                command.arg("-db").arg("-f").arg(file);
                commands.push(command);
            }
            Kind::Socat => {
                for (from, to) in ports.iter().zip(&targets) {
                    let mut command = Command::new("socat");
                    // 256 KiB at once: its default of 8 KiB is no measure of what it can do.
                    command.args(["-b", "262144"]);
                    command.arg(format!(
                        "TCP-LISTEN:{},bind={},fork,reuseaddr,nodelay,backlog=1024",
                        from.port(),
                        from.ip()
                    ));
                    command.arg(format!("TCP:{to},nodelay"));
                    commands.push(command);
                }
            }
        }
        let mut children = Vec::new();
        for mut command in commands {
            match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
                Ok(child) => children.push(child),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let running = Running {
            bulk: ports[0],
            echo: ports[1],
            set_up,
            idle,
            holds_many: kind != Kind::Socat,
            children,
        };
        for port in ports {
            until_it_listens(port)?;
        }
        Ok(Some(running))
    }

    /// One that was started, of which only the processors are asked for.
    pub fn of(child: Child, address: SocketAddr) -> Running {
        let nowhere = || SetUpBy { address, until: Until::Accepted };
        let (set_up, idle) = (nowhere(), nowhere());
        Running { bulk: address, echo: address, set_up, idle, holds_many: false, children: vec![child] }
    }

    /// What its processes and those that they started have had of the processors.
    pub fn cpu(&self) -> Option<Duration> {
        let ticks: u64 = self.processes().iter().filter_map(|id| ticks_of(*id)).sum();
        (!self.children.is_empty()).then(|| Duration::from_millis(ticks * 10))
    }

    /// What is resident of its processes' own memory, in KiB.
    pub fn memory(&self) -> u64 {
        let of = |id: &u32| -> Option<u64> {
            let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
            let line = status.lines().find(|line| line.starts_with("RssAnon"))?;
            line.split_whitespace().nth(1)?.parse().ok()
        };
        self.processes().iter().filter_map(of).sum()
    }

    fn processes(&self) -> Vec<u32> {
        let mut found: Vec<u32> = self.children.iter().map(Child::id).collect();
        let mut at = 0;
        while at < found.len() {
            let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", found[at]));
            found.extend(
                children.unwrap_or_default().split_whitespace().filter_map(|id| id.parse::<u32>().ok()),
            );
            at += 1;
        }
        found
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// User and system time, with that of ended children, in hundredths of a second.
fn ticks_of(id: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    (11..15).map(|at| fields.get(at)?.parse::<u64>().ok()).sum()
}

pub fn free_port() -> io::Result<SocketAddr> {
    std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()
}

pub fn until_it_listens(at: SocketAddr) -> io::Result<()> {
    let since = Instant::now();
    loop {
        match TcpStream::connect(at) {
            Ok(socket) => return socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO)),
            Err(error) if since.elapsed() > Duration::from_secs(10) => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// How many files a process may have open.
pub fn open_files() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let row = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    row.and_then(|row| row.split_whitespace().next()?.parse().ok()).unwrap_or(1_024)
}

fn haproxy(ports: &[SocketAddr], targets: &[SocketAddr]) -> String {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let most = idle::most_of_a_process() + 200;
    let mut text = format!(
        "global\n  maxconn {most}\n  nbthread {threads}\n  tune.pipesize 1048576\n  tune.maxaccept 500\n\
         defaults\n  mode tcp\n  maxconn {most}\n  option splice-request\n  option splice-response\n  option splice-auto\n  \
         timeout connect 10s\n  timeout client 1h\n  timeout server 1h\n"
    );
    for (at, (from, to)) in ports.iter().zip(targets).enumerate() {
        text += &format!("listen way{at}\n  bind {from}\n  server s{at} {to}\n");
    }
    text
}

/// One of the relays that are written in Rust, in a process of its own.
pub fn serve(kind: &str, config: &str) -> io::Result<()> {
    let mut words = config.split(',');
    let way = |text: &str| -> io::Result<(SocketAddr, SocketAddr)> {
        let (from, to) = text.split_once('=').ok_or(io::ErrorKind::InvalidInput)?;
        let address = |text: &str| text.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
        Ok((address(from)?, address(to)?))
    };
    if kind == "shorthaul" {
        let listen = words.next().and_then(|text| text.parse().ok()).ok_or(io::ErrorKind::InvalidInput)?;
        let relays: io::Result<Vec<RelayConfig>> = words
            .map(|text| {
                let (listen, to) = way(text)?;
                let forwarding = Forwarding::Pipelined { wait_windows: 0 };
                Ok(RelayConfig { listen, to: to.into(), forwarding, buffer: None, send_proxy: None })
            })
            .collect();
        let local = "127.0.0.0/8".parse().map_err(io::Error::other)?;
        let node = Node::bind(NodeConfig {
            listen: vec![listen],
            relays: relays?,
            more: Settings { allow: vec![local], allow_destinations: vec![local], ..Settings::default() },
            ..NodeConfig::default()
        });
        return node.map_err(io::Error::other)?.run();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut accepting = tokio::task::JoinSet::new();
        for text in words {
            let (from, to) = way(text)?;
            let listener = tokio::net::TcpListener::bind(from).await?;
            accepting.spawn(async move {
                loop {
                    let Ok((mut near, _)) = listener.accept().await else { continue };
                    tokio::spawn(async move {
                        let mut far = tokio::net::TcpStream::connect(to).await?;
                        near.set_nodelay(true)?;
                        far.set_nodelay(true)?;
                        tokio::io::copy_bidirectional(&mut near, &mut far).await
                    });
                }
            });
        }
        accepting.join_next().await;
        Ok(())
    })
}
