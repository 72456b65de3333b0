//! The same networks between kernels: nodes and `shorthaul proxy --choose` as people run them, on emulated links that change each minute. Each session is made by
//! turns three times: by the proxy's own choice, directly, and by the way that is best by simulation of the links as they are.
use super::network::{Link, Minute, NODES, SIZES};
use super::regret::Choosers;
use super::{BESIDE_DIRECT, BESIDE_ORACLE, Times, Ways, failures};
use crate::bench::nodes::{late, secret, shorthaul};
use crate::bench::plan::draw::Draw;
use crate::error::{Result, TrialError, While};
use crate::trial::Judgement;
use serde_json::json;
use shorthaul_lab::{Child, Host, Lab, LinkDescription, LinkKind, Ready, Topology};
use shorthaul_link::{Direction, LinkConfig, LossModel, QueueLimit, Rate};
use shorthaul_observe::Summary;
use shorthaul_os::ProcessorTime;
use shorthaul_planner::Framing;
use shorthaul_relay::learning::{History, Overview, now};
use shorthaul_report::{Column, Console, Progress, Table, Unit, make_directory};
use shorthaul_types::{Bytes, Seed};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The port of the first size at the server, and of the proxy that chooses at the client.
const SERVER_PORT: u16 = 8000;
const CHOOSING_PORT: u16 = 5000;
/// Of the proxy that goes by a node: so many ports for each.
const BY_NODE_PORT: u16 = 6000;
const PORTS_OF_NODE: u16 = 10;
/// Where nodes listen, and answer probes.
const NODE_PORT: u16 = 7080;
const PROBE_PORT: u16 = 7007;
/// No session takes so long.
const LIMIT: Duration = Duration::from_secs(300);
/// How long the links are as they are.
const MINUTE: Duration = Duration::from_secs(60);
/// Packets of a link that came later than this say that the machine did not keep up (of a hundred, the latest but one).
const LATE: Duration = Duration::from_millis(1);
/// Buffers that bind nowhere here: at 200 Mbit/s and 400 ms twice the product.
const BUFFERS: &str = "4096 131072 33554432";
/// Who makes a session: the proxy's choice, nobody's, and who knows the links.
const WHO: [&str; 3] = ["the proxy's choice", "directly", "who knows the links"];

/// What came of a network.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Network {
    /// Seconds of each session by [`WHO`], and of all of them by simulation of the last two.
    took: Vec<[f64; 3]>,
    simulated: [f64; 2],
    /// How many the proxy sent by a node.
    by_nodes: usize,
    /// How far forecasts were off, in the middle, and of how many sessions.
    forecast_error: Option<f64>,
    judged: usize,
    /// The lateness of the latest packet of a hundred, in seconds, on the link where that is worst, and the stolen share of the processors.
    late: f64,
    steal: f64,
}

impl Network {
    fn sum(&self, who: usize) -> f64 {
        self.took.iter().map(|took| took[who]).sum()
    }

    /// How many times as long the proxy's choice took as another's, and the standard error of that: of a ratio of sums over pairs.
    fn beside(&self, other: usize) -> (f64, f64) {
        let (sum, count) = (self.sum(other), self.took.len() as f64);
        let ratio = self.sum(0) / sum;
        let squares: f64 = self.took.iter().map(|took| (took[0] - ratio * took[other]).powi(2)).sum();
        (ratio, (squares * count / (count - 1.0)).sqrt() / sum)
    }
}

/// When a session began, and its last byte arrived.
struct Session {
    began: Instant,
    arrived: Instant,
}

/// Hosts, links, nodes and proxies of a network. They end with it.
struct Site {
    lab: Lab,
    server: IpAddr,
    arrivals: Receiver<(usize, Instant)>,
    history: PathBuf,
    _running: Vec<Child>,
}

/// Runs all networks, some at once, and says what came of them.
pub fn run(
    ways: &Ways,
    networks: &[(Seed, Vec<Minute>)],
    times: &[Times],
    console: &dyn Console,
) -> Result<Judgement> {
    let folder = ways.out.join("live");
    make_directory(&folder)?;
    let progress = Progress::begin(console, networks.len());
    let mut outcomes = Vec::new();
    let numbered: Vec<_> = networks.iter().zip(times).enumerate().collect();
    for some in numbered.chunks(ways.at_once.max(1)) {
        let done: Vec<Result<Network>> = thread::scope(|scope| {
            let begun = some.iter().map(|(number, ((seed, minutes), times))| {
                let folder = folder.join(number.to_string());
                scope.spawn(move || network(ways, *seed, minutes, times, &folder))
            });
            let begun: Vec<_> = begun.collect();
            begun
                .into_iter()
                .map(|one| one.join().unwrap_or_else(|_| Err(TrialError::failed("a network panicked"))))
                .collect()
        });
        for ((number, _), outcome) in some.iter().zip(done) {
            let outcome = outcome.doing(format!("network {}", number + 1))?;
            progress.step(&format!("network {}: {} sessions", number + 1, outcome.took.len()));
            outcomes.push(outcome);
        }
    }
    drop(progress);
    Ok(verdict(ways, &outcomes, console))
}

fn name(node: usize) -> String {
    format!("node{node}")
}

/// What the emulator makes of a link, in the direction of the data and back: as the simulator's, which loses no acknowledgments.
fn configs(link: &Link) -> [LinkConfig; 2] {
    let leg = link.leg();
    let back = LinkConfig {
        rate: Rate::Fixed(leg.capacity),
        delay: leg.rtt / 2,
        overhead: Bytes(leg.framing.link.into()),
        queue: QueueLimit::Packets(leg.queue_packets() as usize),
        ..LinkConfig::default()
    };
    [LinkConfig { loss: LossModel::Bernoulli { probability: leg.loss }, ..back.clone() }, back]
}

/// The links of a network in a minute, from the client toward the server: the direct one, then those of each node, the one to the server first, so that it has the
/// node's first address and the node's way to the server.
fn links(minute: &Minute) -> Vec<([String; 2], &Link)> {
    let (client, server) = ("client".to_owned(), "server".to_owned());
    let mut links = vec![([client.clone(), server.clone()], &minute[0][0])];
    for (node, legs) in minute.iter().enumerate().skip(1) {
        links.push(([name(node), server.clone()], &legs[1]));
        links.push(([client.clone(), name(node)], &legs[0]));
    }
    links
}

impl Site {
    fn start(seed: Seed, minute: &Minute, discover: bool, folder: &Path) -> Result<Site> {
        let mut topology = Topology::new(seed);
        for ([from, to], link) in links(minute) {
            let [up, down] = configs(link);
            let description = LinkDescription::new([&from, &to], LinkKind::Emulated { up, down });
            topology.add_link(description.with_mtu(Framing::ETHERNET.mtu));
        }
        for host in topology.hosts.values_mut() {
            // Nobody else's packets pass a host, as on the Internet.
            host.forward = Some(false);
            host.congestion = Some("cubic".into());
            for (key, value) in [("tcp_no_metrics_save", "1"), ("tcp_rmem", BUFFERS), ("tcp_wmem", BUFFERS)] {
                host.sysctl.insert(format!("net.ipv4.{key}"), value.into());
            }
        }
        let lab = Lab::start(&topology)?;
        let server = IpAddr::from(lab.host("server").address_v4());
        let arrivals = listen(lab.host("server"))?;
        make_directory(folder)?;
        let (secret, history) = (secret(folder)?, folder.join("sessions"));
        // What another run has learnt is none of this one's.
        match std::fs::remove_file(&history) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let mut running = Vec::new();
        for node in 1..=NODES {
            let mut command = shorthaul()?;
            command.args(["node", "--listen", &format!("0.0.0.0:{NODE_PORT}")]);
            command.args(["--allow-destination", &format!("{server}/32"), "--secret"]).arg(&secret);
            command.args(["--probes", &format!("0.0.0.0:{PROBE_PORT}")]);
            let host = lab.host(&name(node));
            running.push(Child::start(&name(node), host, &mut command, Ready::Says("ready".into()))?);
        }
        let client = lab.host("client");
        let mut start = |name: &str, port: u16, command: &mut Command| -> Result<()> {
            command.arg("--secret").arg(&secret);
            for at in 0..SIZES.len() as u16 {
                let forward = format!("127.0.0.1:{}={server}:{}", port + at, SERVER_PORT + at);
                command.args(["--forward", &forward]);
            }
            running.push(Child::start(name, client, command, Ready::Says("ready".into()))?);
            Ok(())
        };
        let via: Vec<String> =
            (1..=NODES).map(|node| format!("{}:{NODE_PORT}", near_address(&lab, node))).collect();
        let mut choosing = shorthaul()?;
        choosing.args(["proxy", "--history"]).arg(&history);
        if discover {
            let file = folder.join("relays.toml");
            let relays: String =
                (1..=NODES).map(|node| relay(&name(node), near_address(&lab, node))).collect();
            std::fs::write(&file, relays).doing("writing the list of relays")?;
            choosing.args(["--discover", "--relays"]).arg(&file);
        } else {
            choosing.arg("--choose");
            for (at, via) in via.iter().enumerate() {
                choosing.args([if at == 0 { "--via" } else { "--or-via" }, via]);
            }
        }
        start("the proxy that chooses", CHOOSING_PORT, &mut choosing)?;
        for (at, via) in via.iter().enumerate() {
            let port = BY_NODE_PORT + PORTS_OF_NODE * at as u16;
            start("a proxy", port, shorthaul()?.args(["proxy", "--no-history", "--via", via]))?;
        }
        Ok(Site { lab, server, arrivals, history, _running: running })
    }

    /// The links become those of another minute.
    fn change(&self, minute: &Minute) -> Result<()> {
        for ([from, to], link) in links(minute) {
            let [up, down] = configs(link);
            let handle = self.lab.link(&from, &to);
            handle.reconfigure(Direction::Up, up)?;
            handle.reconfigure(Direction::Down, down)?;
        }
        Ok(())
    }

    /// An upload of that size to the server, by what listens there.
    fn upload(&self, size: usize, to: SocketAddr) -> Result<Session> {
        let began = Instant::now();
        let mut socket = self.lab.host("client").run(|| TcpStream::connect_timeout(&to, LIMIT))?;
        socket.set_write_timeout(Some(LIMIT))?;
        socket.set_read_timeout(Some(LIMIT))?;
        socket.write_all(&vec![7; SIZES[size].0 as usize]).doing("sending")?;
        socket.shutdown(Shutdown::Write)?;
        let (bytes, arrived) =
            self.arrivals.recv_timeout(LIMIT).map_err(|_| TrialError::failed("an upload did not arrive"))?;
        if bytes != SIZES[size].0 as usize {
            return Err(TrialError::failed(format!("of {} {bytes} bytes arrived", SIZES[size])));
        }
        // The server's end is the session's.
        socket.read_to_end(&mut Vec::new()).doing("waiting for the server")?;
        Ok(Session { began, arrived })
    }

    /// Where to connect for an upload of that size, by the way with that number; by the proxy's choice if there is none.
    fn entrance(&self, size: usize, way: Option<usize>) -> SocketAddr {
        let size = size as u16;
        let local = |port: u16| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port + size);
        match way {
            None => local(CHOOSING_PORT),
            Some(0) => SocketAddr::new(self.server, SERVER_PORT + size),
            Some(node) => local(BY_NODE_PORT + PORTS_OF_NODE * (node as u16 - 1)),
        }
    }
}

/// A node in a list of relays.
fn relay(name: &str, address: Ipv4Addr) -> String {
    format!(
        "[[relay]]\nname = \"{name}\"\nsession = \"{address}:{NODE_PORT}\"\nprobe = \"{address}:{PROBE_PORT}\"\n\n"
    )
}

/// The address of a node on its link with the client, which is its second.
fn near_address(lab: &Lab, node: usize) -> Ipv4Addr {
    lab.host(&name(node)).interfaces()[1].v4.addr()
}

/// A server on each of the ports: when all of an upload had arrived, and how much that was.
fn listen(host: &Host) -> Result<Receiver<(usize, Instant)>> {
    let (send, arrivals) = channel();
    for size in 0..SIZES.len() as u16 {
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, SERVER_PORT + size));
        let listener = host.run(|| TcpListener::bind(address))?;
        let send = send.clone();
        thread::Builder::new().name("server".into()).spawn(move || {
            for socket in listener.incoming().flatten() {
                let send = send.clone();
                thread::spawn(move || receive(socket, &send));
            }
        })?;
    }
    Ok(arrivals)
}

/// Takes an upload to its end. A connection that says nothing was kept ready, and is none.
fn receive(mut socket: TcpStream, send: &Sender<(usize, Instant)>) {
    let mut buffer = vec![0; 64 << 10];
    let (mut bytes, mut last) = (0, Instant::now());
    while let Ok(len @ 1..) = socket.read(&mut buffer) {
        (bytes, last) = (bytes + len, Instant::now());
    }
    if bytes > 0 {
        let _ = send.send((bytes, last));
        let _ = socket.write_all(&[1]);
    }
}

/// The sessions of a network, one after the other.
fn network(ways: &Ways, seed: Seed, minutes: &[Minute], times: &Times, folder: &Path) -> Result<Network> {
    let site = Site::start(seed, &minutes[0], ways.discover, folder)?;
    let choosers = Choosers(times);
    let mut outcome = Network::default();
    let (began, processors) = (Instant::now(), ProcessorTime::now());
    for (at, minute) in minutes.iter().enumerate() {
        if at > 0 {
            site.change(minute)?;
        }
        let begins = began + MINUTE * at as u32;
        for number in 0..ways.sessions {
            let due = begins + MINUTE.mul_f64(number as f64 / ways.sessions as f64);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if Instant::now() >= begins + MINUTE {
                break;
            }
            let session = at as u64 * ways.sessions + number;
            let size = Draw(seed.derive("session")).nth(session).choice("size", SIZES.len() as u64) as usize;
            let best = choosers.oracle(at, size);
            let mut took = [0.0; WHO.len()];
            for turn in 0..WHO.len() {
                // Who is first changes from session to session.
                let who = (turn + session as usize) % WHO.len();
                let way = [None, Some(0), Some(best)][who];
                let done = site.upload(size, site.entrance(size, way))?;
                took[who] = (done.arrived - done.began).as_secs_f64();
            }
            outcome.took.push(took);
            outcome.simulated[0] += choosers.mean(at, size, 0);
            outcome.simulated[1] += choosers.mean(at, size, best);
        }
    }
    outcome.late = late(&site.lab)?.as_secs_f64();
    outcome.steal = processors.zip(ProcessorTime::now()).map_or(0.0, |(then, now)| then.stolen_until(&now));
    let past = History::look(&site.history).map_err(TrialError::of)?;
    outcome.by_nodes = past.iter().filter(|past| !past.by.is_empty()).count();
    let overview = Overview::new(&past, now());
    (outcome.forecast_error, outcome.judged) = (overview.median_error, overview.judged);
    Ok(outcome)
}

fn verdict(ways: &Ways, outcomes: &[Network], console: &dyn Console) -> Judgement {
    let right = [
        "sessions",
        "by nodes",
        "beside who knows",
        "beside direct",
        "forecasts off by",
        "late, p99",
        "steal",
    ];
    let mut table = Table::new([Column::right("network")].into_iter().chain(right.map(Column::right)));
    for (number, outcome) in outcomes.iter().enumerate() {
        let beside = |other| {
            let (ratio, error) = outcome.beside(other);
            format!("{} ± {:.2}", Unit::Times.format(ratio), 2.0 * error)
        };
        table.row([
            (number + 1).to_string(),
            outcome.took.len().to_string(),
            Unit::Percent.format(outcome.by_nodes as f64 / outcome.took.len() as f64),
            beside(2),
            beside(1),
            outcome.forecast_error.map_or_else(String::new, |error| Unit::Percent.format(error)),
            Unit::Seconds.format(outcome.late),
            Unit::Percent.format(outcome.steal),
        ]);
    }
    console.table(&table);
    let summary = |of: &dyn Fn(&Network) -> f64| Summary::of(outcomes.iter().map(of));
    let mean = |of: &dyn Fn(&Network) -> f64| summary(of).map_or(f64::NAN, |summary| summary.mean);
    let half =
        |of: &dyn Fn(&Network) -> f64| summary(of).and_then(|summary| summary.confidence()).unwrap_or(0.0);
    let [oracle, direct] = [2, 1].map(|other| move |outcome: &Network| outcome.beside(other).0);
    let worst = summary(&direct).map_or(f64::NAN, |summary| summary.percentile(1.0));
    let mut errors: Vec<f64> = outcomes.iter().filter_map(|outcome| outcome.forecast_error).collect();
    errors.sort_by(f64::total_cmp);
    let simulated = [0, 1].map(|at| mean(&|outcome| outcome.sum(1 + at) / outcome.simulated[at]));
    console.say(&format!(
        "The proxy's choice took {} ± {:.2} as long as who knows the links, and {} ± {:.2} as directly. Sessions that went directly took {} as long as simulated, those of \
         who knows the links {}.",
        Unit::Times.format(mean(&oracle)),
        half(&oracle),
        Unit::Times.format(mean(&direct)),
        half(&direct),
        Unit::Times.format(simulated[0]),
        Unit::Times.format(simulated[1]),
    ));
    let json = json!({
        "networks": outcomes.len(), "minutes": ways.minutes(), "sessions_a_minute": ways.sessions, "seed": ways.seed,
        "beside_oracle": mean(&oracle), "beside_oracle_interval": half(&oracle), "beside_direct": mean(&direct),
        "beside_direct_interval": half(&direct), "beside_direct_most": worst,
        "direct_beside_simulated": simulated[0], "oracle_beside_simulated": simulated[1],
        "median_forecast_error": errors.get(errors.len() / 2), "each": outcomes,
    });
    // What lies beyond a bound by more than its interval does not hold; what lies within it is open.
    let surely = |outcome: &Network| outcome.beside(1).0 - 2.0 * outcome.beside(1).1;
    let failures =
        failures(mean(&oracle) - half(&oracle), summary(&surely).map_or(f64::NAN, |s| s.percentile(1.0)));
    let failure = (!failures.is_empty()).then(|| failures.join("; "));
    let few = outcomes.iter().any(|outcome| outcome.took.len() < 2) || outcomes.len() < 2;
    let few = few.then(|| {
        "one network, or one session of a network, tells nothing: more --networks or --minutes would"
            .to_owned()
    });
    let open = open_questions(mean(&oracle), half(&oracle), outcomes);
    let late = outcomes.iter().filter(|outcome| outcome.late > LATE.as_secs_f64()).count();
    let late = (late > 0).then(|| {
        format!("1 % of the packets of a link came more than 1 ms late in {late} of {} networks: run fewer --at-once", outcomes.len())
    });
    Judgement { doubt: late.or(few).or(open), ..Judgement::holds(json).unless(failure) }
}

/// What more sessions would have to tell: which side of its bound a figure is on.
fn open_questions(oracle: f64, half: f64, outcomes: &[Network]) -> Option<String> {
    let within = |value: f64, half: f64, bound: f64| value + half > bound && value - half <= bound;
    let direct = outcomes.iter().map(|outcome| outcome.beside(1));
    let open = direct.filter(|(ratio, error)| within(*ratio, 2.0 * error, BESIDE_DIRECT)).count();
    if !within(oracle, half, BESIDE_ORACLE) && open == 0 {
        return None;
    }
    Some(format!(
        "beside who knows the links {oracle:.2} ± {half:.2} ({BESIDE_ORACLE} was asked), and in {open} networks it is open whether direct is slower than the choice \
         ({BESIDE_DIRECT} was asked): more --minutes would tell"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::network::minutes;
    use super::*;

    #[test]
    fn a_link_loses_what_goes_to_the_server_and_no_answers() {
        let minute = &minutes(Seed(23), 1)[0];
        let links = links(minute);
        assert_eq!(links.len(), 1 + 2 * NODES);
        // The server's first address is on the direct link, and a node's first link leads to the server.
        assert_eq!(links[0].0, ["client", "server"]);
        assert_eq!((links[1].0[1].as_str(), links[2].0[0].as_str()), ("server", "client"));
        for (_, link) in links {
            let [up, down] = configs(link);
            assert_eq!((up.delay, up.rate.clone()), (down.delay, down.rate.clone()));
            assert!(matches!(up.loss, LossModel::Bernoulli { probability } if probability == link.loss));
            assert_eq!(down.loss, LossModel::None);
        }
    }
}
