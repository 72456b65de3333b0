//! What relays are loaded with, and what is measured.
use crate::relays::{Running, SetUpBy, Until};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Connections that are kept by a server that only accepts: more than there are clients at a time.
const KEPT: usize = 1024;

/// So many flows at once.
pub const FLOWS: [usize; 3] = [1, 8, 64];

/// What was measured of one relay.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// With 1, 8 and 64 flows.
    pub gbit_per_s: [f64; 3],
    /// The same; nothing of no relay.
    pub cpu_s_per_gb: [Option<f64>; 3],
    /// The median round trip of one byte.
    pub echo_us: f64,
    /// Sessions from the client's SYN to an answer by way of the relay.
    pub set_ups_per_s: f64,
    /// Of an idle session.
    pub idle_kib: Option<f64>,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, flows) in FLOWS.into_iter().enumerate() {
            write!(f, "{flows} flows {:5.1} Gbit/s", self.gbit_per_s[at])?;
            match self.cpu_s_per_gb[at] {
                Some(cpu) => write!(f, " {cpu:.3} s/GB, ")?,
                None => write!(f, "            , ")?,
            }
        }
        write!(f, "echo {:5.1} us, {:6.0} set-ups/s", self.echo_us, self.set_ups_per_s)?;
        self.idle_kib.map_or(Ok(()), |idle| write!(f, ", {idle:.1} KiB idle"))
    }
}

impl Figures {
    /// The median of each.
    pub fn median(of: &[Figures]) -> Figures {
        let median = |value: &dyn Fn(&Figures) -> Option<f64>| {
            let mut values: Vec<f64> = of.iter().filter_map(value).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        };
        let one =
            |value: &dyn Fn(&Figures) -> f64| median(&|figures| Some(value(figures))).unwrap_or(f64::NAN);
        Figures {
            gbit_per_s: [0, 1, 2].map(|at| one(&|figures| figures.gbit_per_s[at])),
            cpu_s_per_gb: [0, 1, 2].map(|at| median(&|figures| figures.cpu_s_per_gb[at])),
            echo_us: one(&|figures| figures.echo_us),
            set_ups_per_s: one(&|figures| figures.set_ups_per_s),
            idle_kib: median(&|figures| figures.idle_kib),
        }
    }

    pub fn to_json(self) -> String {
        let list = |all: [Option<f64>; 3]| all.map(|one| json(one, 4)).join(",");
        format!(
            "{{\"flows\":{FLOWS:?},\"gbit_per_s\":[{}],\"cpu_s_per_gb\":[{}],\"echo_us\":{},\"set_ups_per_s\":{},\"idle_kib\":{}}}",
            list(self.gbit_per_s.map(Some)),
            list(self.cpu_s_per_gb),
            json(Some(self.echo_us), 2),
            json(Some(self.set_ups_per_s), 0),
            json(self.idle_kib, 2)
        )
    }
}

/// A number, or nothing.
fn json(value: Option<f64>, digits: usize) -> String {
    value.filter(|value| value.is_finite()).map_or("null".into(), |value| format!("{value:.digits$}"))
}

/// Of two relays, what one has as a share of what the other has: the middle one of the rounds' ratios. What else the machine does changes from round to
/// round, and is nearly the same for both of a round.
pub struct Compared {
    pub middle: f64,
    /// With 95 %; nothing, of fewer than six rounds.
    pub within: Option<[f64; 2]>,
}

impl Compared {
    pub fn of(
        ours: &[Figures],
        theirs: &[Figures],
        what: impl Fn(&Figures) -> Option<f64>,
    ) -> Option<Compared> {
        let pairs = ours.iter().zip(theirs);
        Compared::of_ratios(pairs.filter_map(|(ours, theirs)| Some(what(ours)? / what(theirs)?)))
    }

    /// Of what the rounds' ratios are.
    pub fn of_ratios(ratios: impl Iterator<Item = f64>) -> Option<Compared> {
        let summary = shorthaul_observe::Summary::of(ratios)?;
        Some(Compared { middle: summary.percentile(0.5), within: summary.median_confidence() })
    }

    /// What that says of a bound that it must not be below, or above.
    pub fn against(&self, bound: f64, is_least: bool) -> &'static str {
        let sign = if is_least { 1.0 } else { -1.0 };
        match self.within {
            Some([low, high]) if (sign * (low - bound)).min(sign * (high - bound)) >= 0.0 => "holds",
            Some([low, high]) if (sign * (low - bound)).max(sign * (high - bound)) < 0.0 => "does not hold",
            _ => "cannot be told by these rounds",
        }
    }

    pub fn to_json(&self) -> String {
        let [low, high] = self.within.map_or([None; 2], |within| within.map(Some));
        format!("[{},{},{}]", json(Some(self.middle), 3), json(low, 3), json(high, 3))
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2}", self.middle)?;
        self.within.map_or(Ok(()), |[low, high]| write!(f, " ({low:.2} to {high:.2})"))
    }
}

/// What relays lead to.
pub struct Servers {
    pub sink: SocketAddr,
    pub echo: SocketAddr,
    /// Accepts, and says nothing.
    pub accepting: SocketAddr,
}

impl Servers {
    pub fn start() -> io::Result<Servers> {
        Servers::start_keeping(KEPT)
    }

    /// With one that keeps this many connections open.
    pub fn start_keeping(kept: usize) -> io::Result<Servers> {
        let serve = |serve: fn(TcpStream)| -> io::Result<SocketAddr> {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            SockRef::from(&listener).listen(4096)?;
            let address = listener.local_addr()?;
            thread::spawn(move || {
                for socket in listener.incoming().flatten() {
                    let _ = socket.set_nodelay(true);
                    let _ = thread::Builder::new().stack_size(64 << 10).spawn(move || serve(socket));
                }
            });
            Ok(address)
        };
        Ok(Servers { sink: serve(discard)?, echo: echo_server()?, accepting: accepting(kept)? })
    }
}

/// Takes what comes, without looking at it.
fn discard(socket: TcpStream) {
    while matches!(shorthaul_os::socket::discard(&socket, 1 << 20), Ok(1..)) {}
}

/// One thread for all: a thread for each would cost more than the relay.
fn echo_server() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    SockRef::from(&listener).listen(4096)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    thread::spawn(move || -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            loop {
                let Ok((mut socket, _)) = listener.accept().await else { continue };
                tokio::spawn(async move {
                    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
                    socket.set_nodelay(true)?;
                    let mut bytes = [0; 64];
                    loop {
                        match socket.read(&mut bytes).await? {
                            0 => return Ok::<(), io::Error>(()),
                            len => socket.write_all(&bytes[..len]).await?,
                        }
                    }
                });
            }
        })
    });
    Ok(address)
}

/// Accepts, and keeps what came last: nothing else, so that it is never slower than what it is loaded with.
/// Were it, connections would wait for a place in its queue, a second and more each.
fn accepting(kept: usize) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    SockRef::from(&listener).listen(4096)?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        let mut latest = VecDeque::new();
        for socket in listener.incoming().flatten() {
            if latest.len() == kept {
                latest.pop_front();
            }
            latest.push_back(socket);
        }
    });
    Ok(address)
}

/// Everything but idle sessions, once.
pub fn measure(relay: &Running, spell: Duration, echoes: usize) -> io::Result<Figures> {
    let mut figures = Figures::default();
    for (at, flows) in FLOWS.into_iter().enumerate() {
        let before = relay.cpu();
        let moved = throughput(relay.bulk, flows, spell)?;
        figures.gbit_per_s[at] = moved.in_spell as f64 * 8.0 / spell.as_secs_f64() / 1e9;
        let cpu = relay.cpu().zip(before).map(|(after, before)| (after - before).as_secs_f64());
        figures.cpu_s_per_gb[at] = cpu.map(|cpu| cpu / (moved.in_all as f64 / 1e9));
    }
    figures.echo_us = echo(relay.echo, echoes)?;
    figures.set_ups_per_s = set_ups(&relay.set_up, spell)?;
    Ok(figures)
}

/// Bytes that some flows moved.
struct Moved {
    in_spell: u64,
    /// With those of slow start.
    in_all: u64,
}

/// Bytes that some flows move in some time.
fn throughput(to: SocketAddr, flows: usize, spell: Duration) -> io::Result<Moved> {
    let (over, moved) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut sockets = Vec::new();
    for _ in 0..flows {
        sockets.push(TcpStream::connect(to)?);
    }
    let mut threads = Vec::new();
    for mut socket in sockets {
        SockRef::from(&socket).set_linger(Some(Duration::ZERO))?;
        let (over, moved) = (Arc::clone(&over), Arc::clone(&moved));
        threads.push(thread::Builder::new().stack_size(64 << 10).spawn(move || {
            let bytes = vec![0x55; 256 << 10];
            while !over.load(Ordering::Relaxed) {
                match socket.write(&bytes) {
                    Ok(written) => moved.fetch_add(written as u64, Ordering::Relaxed),
                    Err(_) => return,
                };
            }
        })?);
    }
    // The first moments are slow start.
    thread::sleep(Duration::from_millis(300));
    let before = moved.load(Ordering::Relaxed);
    thread::sleep(spell);
    let in_spell = moved.load(Ordering::Relaxed) - before;
    over.store(true, Ordering::Relaxed);
    for thread in threads {
        let _ = thread.join();
    }
    Ok(Moved { in_spell, in_all: moved.load(Ordering::Relaxed) })
}

/// The median round trip of one byte, in microseconds.
fn echo(to: SocketAddr, rounds: usize) -> io::Result<f64> {
    let mut socket = TcpStream::connect(to)?;
    socket.set_nodelay(true)?;
    let mut took = Vec::with_capacity(rounds);
    for _ in 0..rounds + rounds / 10 {
        let since = Instant::now();
        socket.write_all(b"x")?;
        socket.read_exact(&mut [0])?;
        took.push(since.elapsed());
    }
    let mut took = took.split_off(rounds / 10);
    took.sort_unstable();
    Ok(took[took.len() / 2].as_nanos() as f64 / 1000.0)
}

/// How much longer an echo of a byte takes by way of a relay: what pairs of measurements say, one directly and one by the relay, each with
/// connections of its own. Which processors threads are on, and what else the machine does, is chance, and the same for both of a pair.
pub struct Added {
    /// Microseconds, in the mean of the pairs.
    pub mean: f64,
    /// Half of the 95 % confidence interval of that.
    pub within: f64,
}

impl Added {
    /// The differences of pairs, in microseconds.
    pub fn of(differences: &[f64]) -> Option<Added> {
        let summary = shorthaul_observe::Summary::of(differences.iter().copied())?;
        Some(Added { mean: summary.mean, within: summary.confidence()? })
    }

    /// So many pairs; every other one begins with the relay.
    pub fn measure(
        direct: SocketAddr,
        by: SocketAddr,
        pairs: usize,
        echoes: usize,
    ) -> io::Result<Option<Added>> {
        let mut differences = Vec::with_capacity(pairs);
        for pair in 0..pairs {
            let (first, second) = if pair % 2 == 0 { (direct, by) } else { (by, direct) };
            let (first, second) = (echo(first, echoes)?, echo(second, echoes)?);
            differences.push(if pair % 2 == 0 { second - first } else { first - second });
        }
        Ok(Added::of(&differences))
    }

    /// What that says of a bound.
    pub fn against(&self, most: f64) -> &'static str {
        if self.mean + self.within <= most {
            "holds"
        } else if self.mean - self.within > most {
            "does not hold"
        } else {
            "cannot be told on this machine"
        }
    }
}

/// Connections that were not accepted at once since the network began, by a queue that was full.
fn turned_away() -> u64 {
    let all = std::fs::read_to_string("/proc/net/netstat").unwrap_or_default();
    let mut rows = all.lines().filter_map(|line| line.strip_prefix("TcpExt: ")).map(str::split_whitespace);
    let (Some(names), Some(values)) = (rows.next(), rows.next()) else { return 0 };
    let found = names.zip(values).find(|(name, _)| *name == "ListenOverflows");
    found.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

/// Sessions per second, by as many clients as keep the relay busy.
fn set_ups(by: &SetUpBy, spell: Duration) -> io::Result<f64> {
    const CLIENTS: usize = 32;
    let turned_away_before = turned_away();
    let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let threads: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (by, over, done) = (by.clone(), Arc::clone(&over), Arc::clone(&done));
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    if set_up(&by).is_ok() {
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(300));
    let before = done.load(Ordering::Relaxed);
    thread::sleep(spell);
    let count = done.load(Ordering::Relaxed) - before;
    over.store(true, Ordering::Relaxed);
    for thread in threads {
        let _ = thread.join();
    }
    let turned_away = turned_away() - turned_away_before;
    if turned_away > 0 {
        println!(
            "{turned_away} connections found a full queue, and waited a second: too few set-ups were counted"
        );
    }
    Ok(count as f64 / spell.as_secs_f64())
}

/// One session, until it is there. It ends with a reset, so that no ports are kept from the next.
pub fn set_up(by: &SetUpBy) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_linger(Some(Duration::ZERO))?;
    socket.set_tcp_nodelay(true)?;
    socket.connect(&by.address.into())?;
    match &by.until {
        Until::Answered(request) => {
            (&socket).write_all(request.as_bytes())?;
            let mut answer = [0; 256];
            let len = (&socket).read(&mut answer)?;
            if !answer[..len].starts_with(b"HTTP/1.1 200") {
                let answer = String::from_utf8_lossy(&answer[..len]).into_owned();
                return Err(io::Error::new(io::ErrorKind::InvalidData, answer));
            }
        }
        Until::Echoed => {
            (&socket).write_all(b"x")?;
            (&socket).read_exact(&mut [0])?;
        }
        Until::Accepted => {}
    }
    Ok(socket)
}
