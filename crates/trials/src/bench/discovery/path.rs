use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use shorthaul_lab::{Lab, LinkDescription, Topology};
use shorthaul_link::{LinkConfig, QueueLimit, Rate};
use shorthaul_os::TcpInfo;
use shorthaul_planner::{Leg, Path, Policy, Relay, Transfer, model};
use shorthaul_relay::discovery::{
    Answering, AnsweringConfig, Choice, Facts, Finder, FinderConfig, Handshake, Identity, Key, Keyring, Load,
    ResponderConfig, Retry, Selection, Survey, median,
};
use shorthaul_types::{BitRate, Bytes, Seed};
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::{Result, TrialError, While};

/// Links of the path.
pub const HOPS: usize = 8;
/// What the paper's receivers let be in flight: 20 packets of 1000 bytes, which is what ns-2 has where nothing is said.
pub const WINDOW: Bytes = Bytes(20_000);
/// `LC`.
pub const RATE: BitRate = BitRate::from_bits_per_sec(10_000_000);
/// `Ld`.
const DELAY: Duration = Duration::from_millis(5);
/// `Cmax`: 1024 packets of 1000 bytes.
const BUFFER: Bytes = Bytes(1_024_000);
/// `Ts`.
const SERVICE_TIME: Duration = Duration::from_micros(100);

const SINK_PORT: u16 = 5201;
const RELAY_PORT: u16 = 7001;
const CONGESTION: &str = "reno";
/// Far more than any transfer takes.
const LIMIT: Duration = Duration::from_secs(120);

/// The hosts of the path, a sink at its end, and a relay at every hop.
pub struct Line {
    lab: Lab,
    arrivals: Mutex<Receiver<Arrival>>,
    sink: SocketAddr,
    /// What receivers really offer.
    pub window: Bytes,
    /// The round-trip time as probes find it.
    pub rtt: Duration,
    _sink_answers: Answering,
}

/// What the sink saw of one connection.
pub struct Arrival {
    pub first_byte: Option<Instant>,
    pub end: Instant,
    pub bytes: u64,
}

fn keys() -> Keyring {
    // Nobody but the hosts of the lab can reach each other.
    Keyring::single(Key::new([5; 32]))
}

fn name(hop: usize) -> String {
    match hop {
        0 => "source".into(),
        HOPS => "sink".into(),
        hop => format!("hop{hop}"),
    }
}

impl Line {
    pub fn start(seed: Seed) -> Result<Self> {
        let mut topology = Topology::new(seed);
        let link = LinkConfig {
            rate: Rate::Fixed(RATE),
            delay: DELAY,
            queue: QueueLimit::Packets(50),
            ..LinkConfig::default()
        };
        for hop in 0..HOPS {
            topology.add_link(LinkDescription::symmetric(&name(hop), &name(hop + 1), link.clone()));
        }
        for host in topology.hosts.values_mut() {
            host.congestion = Some(CONGESTION.into());
            // What one transfer learns of the path is not to help the next.
            host.sysctl.insert("net.ipv4.tcp_no_metrics_save".into(), "1".into());
        }
        let lab = Lab::start(&topology)?;
        let (arrivals, sink) = start_sink(&lab)?;
        for hop in 1..HOPS {
            start_relay(&lab, hop, sink)?;
        }
        let config = AnsweringConfig::new(ResponderConfig::new(keys(), None), false);
        let answers = lab.host("sink").run(|| Answering::start(config, load)).map_err(TrialError::of)?;
        let (arrivals, rtt) = (Mutex::new(arrivals), 2 * DELAY * HOPS as u32);
        let mut line = Line { lab, arrivals, sink, window: WINDOW, rtt, _sink_answers: answers };
        let socket = line.on_source(|| connect(sink))?;
        line.window = line.send_on(socket, Bytes(300_000))?.1;
        let survey = line.on_source(|| -> Result<Survey> {
            let (finder, mut survey) = (line.finder()?, Survey::default());
            for _ in 0..20 {
                finder.round(sink, &mut survey)?;
            }
            Ok(survey)
        })?;
        line.rtt = median(&survey.rtts).doing("the sink answers no probe")?;
        Ok(line)
    }

    /// The hop that has an address.
    pub fn hop_of(&self, address: IpAddr) -> Result<usize> {
        let has = |hop: &usize| {
            let host = self.lab.host(&name(*hop));
            host.interfaces().iter().any(|interface| IpAddr::from(interface.v4.addr()) == address)
        };
        (0..=HOPS).find(has).doing(format!("no host of the path has the address {address}"))
    }

    /// Where to connect to get to the sink: directly, or by way of the relay at a hop.
    fn entrance(&self, hop: Option<usize>) -> SocketAddr {
        match hop {
            None => self.sink,
            Some(hop) => SocketAddr::new(self.lab.host(&name(hop)).address_v4().into(), RELAY_PORT),
        }
    }

    /// The throughput of a transfer, from the first SYN to the last byte.
    pub fn transfer(&self, hop: Option<usize>, size: Bytes) -> Result<BitRate> {
        let (began, arrival) = self.send(hop, size)?;
        let took = arrival.end - began;
        Ok(BitRate::from_bits_per_sec((size.0 as f64 * 8.0 / took.as_secs_f64()) as u64))
    }

    /// Sends `size` from the source; when it began, and what the sink saw.
    pub fn send(&self, hop: Option<usize>, size: Bytes) -> Result<(Instant, Arrival)> {
        let began = Instant::now();
        let socket = self.on_source(|| connect(self.entrance(hop)))?;
        Ok((began, self.send_on(socket, size)?.0))
    }

    /// Sends `size` on a connection; what the sink saw, and the largest window that the peer advertised.
    pub fn send_on(&self, mut socket: TcpStream, size: Bytes) -> Result<(Arrival, Bytes)> {
        let chunk = [7; 16 << 10];
        let mut left = size.0 as usize;
        let mut offered = Bytes(0);
        while left > 0 {
            let len = left.min(chunk.len());
            socket.write_all(&chunk[..len]).doing("sending")?;
            left -= len;
            let window = TcpInfo::of(&socket)?.peer_window.doing("this kernel does not tell windows")?;
            offered = offered.max(window);
        }
        socket.shutdown(Shutdown::Write)?;
        // Until the sink has closed, too: the next transfer is to find an empty path.
        socket.read_to_end(&mut Vec::new()).doing("waiting for the end")?;
        let arrivals = self.arrivals.lock().map_err(|_| TrialError::failed("a transfer panicked"))?;
        let arrival = arrivals.recv_timeout(LIMIT).ok().doing("the sink heard of no transfer")?;
        if arrival.bytes != size.0 {
            return Err(TrialError::failed(format!("{} of {size} arrived", Bytes(arrival.bytes))));
        }
        Ok((arrival, offered))
    }

    /// What a client that knows nothing yet chooses when these hops offer relays.
    pub fn choose(&self, offered: &[usize], size: Bytes) -> Result<Choice> {
        let _answering = self.offer(offered)?;
        self.lab.host("source").run(|| Ok(Arc::new(self.finder()?).best_route(self.sink, Some(size))))
    }

    /// Relays at these hops answer what passes, as long as what is returned lives.
    pub fn offer(&self, hops: &[usize]) -> Result<Vec<Answering>> {
        let start = |hop: &usize| {
            let session = SocketAddr::from(([0, 0, 0, 0], RELAY_PORT));
            let relay = Identity::relay(session, &name(*hop));
            let config = AnsweringConfig::new(ResponderConfig::new(keys(), Some(relay)), true);
            self.lab.host(&name(*hop)).run(|| Answering::start(config, load)).map_err(TrialError::of)
        };
        hops.iter().map(start).collect()
    }

    /// A client that knows what a measurement would tell of the path. To be called on the source.
    pub fn finder(&self) -> Result<Finder> {
        Ok(Finder::new(FinderConfig {
            facts: self.facts(),
            // The paper's single node, also where it gains little: which one is what is asked here.
            selection: Selection { relays: 1, policy: Policy::Gain(1.0) },
            retry: Retry::default(),
            // There is a responder, and the sink counts connections.
            unknown: Handshake::IfSilent,
            ..FinderConfig::new(keys())
        })?)
    }

    fn facts(&self) -> Facts {
        Facts { loss: Some(0.0), rate: Some(RATE), window: Some(self.window), model: CONGESTION.into() }
    }

    /// What the planner expects of a relay at a hop (0: direct), with the round trip in equal parts.
    pub fn forecast(&self, hop: usize, size: Bytes) -> Option<BitRate> {
        let whole = Leg { window_limit: Some(self.window), ..Leg::new(self.rtt, 0.0, RATE) };
        let path = match hop {
            0 => Path::direct(whole),
            hop => {
                let relay = Relay { buffer: Some(BUFFER) };
                Path::split_at(&whole, hop as f64 / HOPS as f64, relay).ok()?
            }
        };
        let model = model::by_name(CONGESTION).ok()?;
        Some(path.forecast(&*model, &Transfer::new(size)).ok()?.throughput())
    }

    pub fn on_source<R: Send>(&self, task: impl FnOnce() -> R + Send) -> R {
        self.lab.host("source").run(task)
    }

    pub fn sink(&self) -> SocketAddr {
        self.sink
    }
}

fn load() -> Load {
    Load { service_time: SERVICE_TIME, buffer: BUFFER.0, sessions: 0, capacity: None, overloaded: false }
}

/// A socket as the ends and relays have it. Without `TCP_NODELAY`, so that all of them send whole segments: with it, relays'
/// short ones filled what whole ones leave of the small window, and legs from relays were faster than legs to them.
fn socket() -> Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).doing("making a socket")?;
    socket.set_tcp_congestion(CONGESTION.as_bytes()).doing("setting reno")?;
    Ok(socket)
}

/// Opens a connection from the host that the thread is in.
pub fn connect(to: SocketAddr) -> Result<TcpStream> {
    let socket = socket()?;
    socket.connect_timeout(&to.into(), LIMIT).doing("connecting")?;
    Ok(socket.into())
}

/// Accepts one connection after the other, and says what came.
fn start_sink(lab: &Lab) -> Result<(Receiver<Arrival>, SocketAddr)> {
    let (sender, arrivals) = mpsc::channel();
    let address = SocketAddr::new(lab.host("sink").address_v4().into(), SINK_PORT);
    let listener = lab.host("sink").run(|| listen(address))?;
    thread::Builder::new().name("sink".into()).spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        for mut socket in listener.incoming().flatten() {
            let mut arrival = Arrival { first_byte: None, end: Instant::now(), bytes: 0 };
            while let Ok(len @ 1..) = socket.read(&mut buffer) {
                arrival.first_byte.get_or_insert_with(Instant::now);
                arrival.bytes += len as u64;
            }
            arrival.end = Instant::now();
            drop(socket);
            if sender.send(arrival).is_err() {
                return;
            }
        }
    })?;
    Ok((arrivals, address))
}

/// A relay that does nothing but relay: a connection comes in, another goes on to the sink.
fn start_relay(lab: &Lab, hop: usize, sink: SocketAddr) -> Result<()> {
    let host = lab.host(&name(hop)).clone();
    let listener = host.run(|| listen(SocketAddr::from(([0, 0, 0, 0], RELAY_PORT))))?;
    thread::Builder::new().name(format!("relay {hop}")).spawn(move || {
        // Sockets that it makes belong to the host that it is in; it ends with the process.
        if host.enter().is_err() {
            return;
        }
        for near in listener.incoming().flatten() {
            // What breaks is seen by the ends.
            let _ = carry(&near, sink);
        }
    })?;
    Ok(())
}

/// One connection at a time is all that there is. The standard library splices.
fn carry(near: &TcpStream, sink: SocketAddr) -> Result<()> {
    let far = socket()?;
    far.set_send_buffer_size(BUFFER.0 as usize / 2)?;
    far.connect_timeout(&sink.into(), LIMIT)?;
    let far = TcpStream::from(far);
    std::io::copy(&mut &*near, &mut &far)?;
    far.shutdown(Shutdown::Write)?;
    std::io::copy(&mut &far, &mut &*near)?;
    Ok(())
}

/// Connections that come in are offered about the paper's window.
fn listen(address: SocketAddr) -> Result<TcpListener> {
    let socket = socket()?;
    // The kernel offers what it thinks that payload takes of twice this: about the paper's window, and it is measured.
    socket.set_recv_buffer_size(WINDOW.0 as usize * 4 / 5)?;
    socket.bind(&address.into())?;
    socket.listen(16)?;
    Ok(socket.into())
}
