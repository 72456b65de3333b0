//! Sessions that survive the nodes on their way: nodes are killed and started again, ways stall, clients lie.
use crate::place::{Place, read_all, secret};
use shorthaul_relay::request::SetUp;
use shorthaul_relay::{
    Client, ClientOptions, Credentials, FixedRoute, Forwarding, LinkOptions, Links, LocalConfig, LocalProxy,
    MoveOptions, NameService, NetworkSecret, Node, NodeConfig, NodeHandle, Protection, Route, Service,
    Settings, Snapshot,
};
use shorthaul_types::{BitRate, Bytes, Seed};
use socket2::SockRef;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Longer than anything here takes, however busy the host is.
const TIMEOUT: Duration = Duration::from_secs(90);

/// Nodes that can be killed and started again, where they were.
struct Chain {
    configs: Vec<NodeConfig>,
    running: Vec<Option<(NodeHandle, JoinHandle<io::Result<()>>)>>,
    protection: Protection,
    runtime: Runtime,
}

impl Chain {
    fn new(nodes: usize, protection: Protection, change: impl Fn(usize, &mut NodeConfig)) -> Chain {
        let mut chain = Chain {
            configs: Vec::new(),
            running: Vec::new(),
            protection,
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap(),
        };
        for number in 0..nodes {
            let local = "127.0.0.0/8".parse().unwrap();
            let mut config = NodeConfig {
                listen: vec!["127.0.0.1:0".parse().unwrap()],
                name: Some(format!("node{}", number + 1)),
                secret: Some(secret(1)),
                protection: Some(protection),
                threads: Some(1),
                drain: Duration::ZERO,
                more: Settings { allow: vec![local], allow_destinations: vec![local], ..Settings::default() },
                ..NodeConfig::default()
            };
            change(number, &mut config);
            chain.configs.push(config);
            chain.running.push(None);
            chain.start(number);
        }
        chain
    }

    fn start(&mut self, at: usize) {
        let since = Instant::now();
        let node = loop {
            match Node::bind(self.configs[at].clone()) {
                Ok(node) => break node,
                // What it was killed with may still be closing.
                Err(error) => assert!(since.elapsed() < TIMEOUT, "{error}"),
            }
            thread::yield_now();
        };
        self.configs[at].listen = node.addresses().to_vec();
        let handle = node.handle();
        self.running[at] = Some((handle, thread::spawn(move || node.run())));
    }

    /// All its connections are reset, as by `kill -9`.
    fn kill(&mut self, at: usize) {
        if let Some((handle, thread)) = self.running[at].take() {
            handle.stop();
            thread.join().unwrap().unwrap();
        }
    }

    fn last(&self) -> Snapshot {
        self.running.last().unwrap().as_ref().unwrap().0.snapshot()
    }

    fn hops(&self) -> Vec<SocketAddr> {
        self.configs.iter().map(|config| config.listen[0]).collect()
    }

    /// A local port that leads to a target by way of some nodes.
    fn port(&self, hops: &[SocketAddr], target: SocketAddr, moves: Option<MoveOptions>) -> SocketAddr {
        let secret = NetworkSecret::read(&secret(1)).unwrap();
        let links = LinkOptions {
            name: "client".into(),
            protection: self.protection,
            identity: secret.identity(&[]).unwrap(),
            credentials: Credentials::Secret(secret),
            congestion: None,
            paced: false,
            timeout: TIMEOUT,
            ready: 0,
            names: NameService::System,
            gone_after: Duration::from_secs(600),
        };
        let client = Client::new(ClientOptions {
            routes: Arc::new(FixedRoute::only(Route::via(hops.iter().map(|hop| (*hop).into()).collect()))),
            links: Arc::new(Links::new(links).unwrap()),
            set_up: SetUp::Parallel,
            forwarding: Forwarding::Pipelined { wait_windows: 0 },
            buffer: None,
            moves,
            patience: TIMEOUT,
        });
        let listen = "127.0.0.1:0".parse().unwrap();
        let ports = vec![LocalConfig { listen, service: Service::Forward(target.into()) }];
        let proxy = LocalProxy::bind(client, ports, Vec::new()).unwrap();
        let address = proxy.addresses()[0];
        self.runtime.spawn(proxy.run());
        address
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.running.iter().flatten().for_each(|(handle, _)| handle.stop());
    }
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mix = |at: u64| ((at ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
    (0..len as u64).map(mix).collect()
}

fn connect(to: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(to).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket.set_write_timeout(Some(TIMEOUT)).unwrap();
    socket
}

/// What one sends there and gets back, in both directions at once.
fn exchange(near: &TcpStream, there: &[u8]) -> io::Result<Vec<u8>> {
    thread::scope(|scope| {
        let sending = scope.spawn(move || {
            let mut near = near;
            near.write_all(there)?;
            near.shutdown(Shutdown::Write)
        });
        let heard = read_all(near);
        sending.join().unwrap()?;
        heard
    })
}

const LEN: usize = 1_200_000;

/// A server that sends back the pattern of a number that it is told first, while it takes as much, which it checks.
fn serve(listener: &TcpListener) {
    let (mut socket, _) = listener.accept().unwrap();
    thread::spawn(move || {
        let mut number = [0; 8];
        if socket.read_exact(&mut number).is_err() {
            return;
        }
        let number = u64::from_be_bytes(number);
        let (socket, back) = (&socket, pattern(number, LEN));
        thread::scope(|scope| {
            let all = scope.spawn(move || read_all(socket));
            let mut sending = socket;
            let sent = sending.write_all(&back).and_then(|()| socket.shutdown(Shutdown::Write));
            if let Ok(all) = all.join().unwrap() {
                assert!(all == pattern(!number, LEN), "it ended, and it was not all");
                sent.unwrap();
            } else {
                SockRef::from(socket).set_linger(Some(Duration::ZERO)).unwrap();
            }
        });
    });
}

/// Sessions through three nodes, of which the two in the middle are killed and started again all the while. How many came to
/// their end, how many broke, and how often one moved.
fn under_fire(moves: Option<MoveOptions>, sessions: u64) -> (usize, usize, u64) {
    let mut chain = Chain::new(3, Protection::Tls, |number, config| {
        if number == 2 {
            config.more.others.rate = Some(BitRate::from_bits_per_sec(60_000_000));
        }
    });
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = chain.port(&chain.hops(), server.local_addr().unwrap(), moves);
    thread::spawn(move || {
        loop {
            serve(&server);
        }
    });
    // Of a node that has just begun nobody can tell what the one before it was told.
    let first = [&77u64.to_be_bytes()[..], &pattern(!77, LEN)].concat();
    assert!(exchange(&connect(port), &first).unwrap() == pattern(77, LEN));
    let is_over = AtomicBool::new(false);
    let seed = Seed(7);
    println!("seed {}", seed.0);
    let (finished, broken) = thread::scope(|scope| {
        let all: Vec<_> = (0..sessions)
            .map(|number| {
                scope.spawn(move || {
                    let near = connect(port);
                    let there = [&number.to_be_bytes()[..], &pattern(!number, LEN)].concat();
                    exchange(&near, &there).map(|back| {
                        assert!(
                            back == pattern(number, LEN),
                            "{number}: a clean end, and not all: {}",
                            back.len()
                        );
                    })
                })
            })
            .collect();
        let (chain, is_over) = (&mut chain, &is_over);
        scope.spawn(move || {
            let mut random = seed.0;
            while !is_over.load(Ordering::Relaxed) {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                thread::sleep(Duration::from_millis(100 + (random >> 40) % 300));
                let at = (random >> 60) as usize % 2;
                chain.kill(at);
                thread::sleep(Duration::from_millis((random >> 50) % 100));
                chain.start(at);
            }
        });
        let ended: Vec<io::Result<()>> = all.into_iter().map(|one| one.join().unwrap()).collect();
        is_over.store(true, Ordering::Relaxed);
        for error in ended.iter().filter_map(|ended| ended.as_ref().err()) {
            let reset = [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
            assert!(reset.contains(&error.kind()), "{error}");
        }
        let finished = ended.iter().filter(|ended| ended.is_ok()).count();
        (finished, ended.len() - finished)
    });
    (finished, broken, chain.last().sessions_moved)
}

#[test]
fn all_arrives_while_nodes_in_the_middle_are_killed() {
    let (finished, broken, moved) = under_fire(Some(MoveOptions::default()), 12);
    assert_eq!((finished, broken), (12, 0));
    assert!(moved >= 12, "only {moved} times a session had to move");
}

#[test]
fn what_does_not_move_is_reset_and_never_looks_complete() {
    let (_, broken, moved) = under_fire(None, 12);
    assert!(broken >= 6, "only {broken} were affected");
    assert_eq!(moved, 0);
}

#[test]
fn what_never_arrives_does_not_look_complete() {
    for protection in [Protection::Plain, Protection::Tls] {
        let place = Place::new(2, protection);
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = place.forward(server.local_addr().unwrap(), SetUp::Parallel);
        SockRef::from(&server).set_recv_buffer_size(4096).unwrap();
        let (far, _) = server.accept().unwrap();
        // It has nothing to say, and takes nothing either.
        far.shutdown(Shutdown::Write).unwrap();
        let sending = near.try_clone().unwrap();
        let sent = thread::spawn(move || {
            (&sending).write_all(&pattern(1, 20_000_000)).and_then(|()| sending.shutdown(Shutdown::Write))
        });
        near.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let early = (&near).read(&mut [0]);
        // It may end while the application has not: that has said nothing of an end yet.
        if let Ok(0) = early {
            assert!(!sent.is_finished(), "a clean end, and nothing has arrived");
        }
        SockRef::from(&far).set_linger(Some(Duration::ZERO)).unwrap();
        drop(far);
        assert!(
            sent.join().unwrap().is_err() || read_all(&near).is_err(),
            "{protection:?}: lost without a word"
        );
    }
}

#[test]
fn a_half_close_is_followed_by_an_end_only_once_all_has_arrived() {
    let place = Place::new(2, Protection::Tls);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    SockRef::from(&server).set_recv_buffer_size(4096).unwrap();
    let near = place.forward(server.local_addr().unwrap(), SetUp::Parallel);
    let (far, _) = server.accept().unwrap();
    // Less than the way takes, so that the application has said all; more than the server's kernel does.
    (&near).write_all(&pattern(1, 600_000)).unwrap();
    near.shutdown(Shutdown::Write).unwrap();
    far.shutdown(Shutdown::Write).unwrap();
    near.set_read_timeout(Some(Duration::from_millis(700))).unwrap();
    let error = (&near).read(&mut [0]).expect_err("a clean end, and it has not arrived");
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    assert!(read_all(&far).unwrap() == pattern(1, 600_000));
    near.set_read_timeout(Some(TIMEOUT)).unwrap();
    assert_eq!((&near).read(&mut [0]).unwrap(), 0, "now it has");
}

/// Between a client and a node: the first connection stalls once some bytes have passed, as one whose client has another address
/// does; the others pass.
fn stalling(to: SocketAddr, after: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut kept = Vec::new();
        for number in 0.. {
            let (near, _) = listener.accept().unwrap();
            let far = TcpStream::connect(to).unwrap();
            kept.push((near.try_clone().unwrap(), far.try_clone().unwrap()));
            for (mut from, mut into) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                thread::spawn(move || {
                    let (mut passed, mut bytes) = (0, [0; 16384]);
                    while let Ok(len @ 1..) = from.read(&mut bytes) {
                        passed += len;
                        if number == 0 && passed > after {
                            return;
                        }
                        if into.write_all(&bytes[..len]).is_err() {
                            break;
                        }
                    }
                    let _ = into.shutdown(Shutdown::Write);
                });
            }
        }
    });
    address
}

#[test]
fn a_way_that_falls_silent_is_left() {
    // Signed requests are for one address, and this client asks at another.
    let chain = Chain::new(1, Protection::Tls, |_, _| {});
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let first = stalling(chain.hops()[0], 300_000);
    let moves = MoveOptions { quiet: Duration::from_millis(100), ..MoveOptions::default() };
    let port = chain.port(&[first], server.local_addr().unwrap(), Some(moves));
    thread::spawn(move || serve(&server));
    let near = connect(port);
    let there = [&5u64.to_be_bytes()[..], &pattern(!5, LEN)].concat();
    assert!(exchange(&near, &there).unwrap() == pattern(5, LEN));
    assert!(chain.last().sessions_moved >= 1);
}

#[test]
fn ways_that_break_as_soon_as_they_are_there_are_not_asked_for_without_end() {
    // It knows every session, and ends every connection.
    let liar = TcpListener::bind("127.0.0.1:0").unwrap();
    let node = liar.local_addr().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    thread::spawn(move || {
        for mut near in liar.incoming().flatten() {
            counted.fetch_add(1, Ordering::Relaxed);
            let mut head = [0; 1024];
            while !head.windows(4).any(|four| four == b"\r\n\r\n") {
                let _ = near.read(&mut head).unwrap();
            }
            let _ = near.write_all(b"HTTP/1.1 200 OK\r\nProxy-Status: liar;received=0\r\n\r\n");
            let _ = near.shutdown(Shutdown::Write);
        }
    });
    let chain = Chain::new(0, Protection::Plain, |_, _| {});
    let within = Duration::from_secs(2);
    let moves = MoveOptions { within, ..MoveOptions::default() };
    let near = connect(chain.port(&[node], "127.0.0.1:9".parse().unwrap(), Some(moves)));
    let since = Instant::now();
    assert_eq!(read_all(&near).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert!(since.elapsed() < within * 3, "{:?}", since.elapsed());
    // 50 ms, 100, 200, 400, 800.
    let asked = asked.load(Ordering::Relaxed);
    assert!((2..=7).contains(&asked), "asked {asked} times");
}

fn frame(kind: u8, numbers: &[u64], bytes: &[u8]) -> Vec<u8> {
    let mut frame = ((8 * numbers.len() + bytes.len()) as u32).to_be_bytes().to_vec();
    frame.push(kind);
    numbers.iter().for_each(|number| frame.extend(number.to_be_bytes()));
    frame.extend_from_slice(bytes);
    frame
}

fn session(target: SocketAddr, key: u128, from: &str) -> String {
    format!("SESSION {target} HTTP/1.1\r\nShorthaul-Resume: {key:032x}{from}\r\n\r\n")
}

#[test]
fn what_clients_must_not_say_breaks_their_session_and_is_counted() {
    let place = Place::new(1, Protection::Plain);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let lies: [(&str, Vec<u8>); 8] = [
        ("frame", frame(9, &[], b"")),
        ("frame", vec![0xff; 64]),
        ("offset", frame(0, &[1], b"x")),
        ("behind_end", [frame(2, &[0], b""), frame(0, &[0], b"x")].concat()),
        ("acknowledged", frame(1, &[1, 1 << 20], b"")),
        ("acknowledged", frame(1, &[0, 1], b"")),
        ("done", frame(3, &[0], b"")),
        ("offset", frame(2, &[7], b"")),
    ];
    for (number, (what, lie)) in lies.iter().enumerate() {
        let before = place.nodes[0].snapshot().sessions_violated.get(what).copied().unwrap_or(0);
        let near = place.ask(&session(target, number as u128, ""));
        let (far, _) = server.accept().unwrap();
        (&near).write_all(lie).unwrap();
        assert_eq!(read_all(&far).unwrap_err().kind(), io::ErrorKind::ConnectionReset, "{what}");
        assert!(read_all(&near).is_err(), "{what}");
        place.until("it is counted", |snapshot| {
            snapshot.sessions_violated.get(what).copied().unwrap_or(0) == before + 1 && snapshot.sessions == 0
        });
    }
    // More than it was allowed.
    let near = place.ask(&session(target, 99, ""));
    let (far, _) = server.accept().unwrap();
    let mut sent = 0;
    let chunk = vec![7; 60_000];
    // The target takes nothing, so the limit stays where it is.
    while (&near).write_all(&frame(0, &[sent], &chunk)).is_ok() && sent < 1 << 30 {
        sent += chunk.len() as u64;
    }
    place.until("it is counted", |snapshot| snapshot.sessions_violated.get("limit") == Some(&1));
    drop(far);
}

#[test]
fn only_who_has_the_key_goes_on_with_a_session_and_only_where_it_was() {
    let place = Place::new(1, Protection::Plain);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let first = place.ask(&session(target, 7, ""));
    let (mut far, _) = server.accept().unwrap();
    far.set_read_timeout(Some(TIMEOUT)).unwrap();
    (&first).write_all(&frame(0, &[0], b"some")).unwrap();
    far.read_exact(&mut [0; 4]).unwrap();
    far.write_all(b"words").unwrap();
    for (key, from, why) in [
        (7, "", "is there already"),
        (8, "; from=0", "no such session"),
        (7, "; from=6", "what was not sent"),
        (7, "; from=18446744073709551615", "what was not sent"),
    ] {
        let mut last = String::new();
        let since = Instant::now();
        // It may not have sent the words yet.
        while !last.contains(why) {
            assert!(since.elapsed() < TIMEOUT, "{key} {from}: {last}");
            last = place.say(&session(target, key, from));
        }
    }
    let other = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(place.say(&session(other, 7, "; from=0")).contains("no such session"));
    // By another way, from where it was: what was not acknowledged comes again, what was sent twice is refused.
    let again = place.ask_without_answer(&session(target, 7, "; from=2"));
    let mut said = vec![0; 4096];
    let mut heard = Vec::new();
    while !heard.ends_with(b"rds") {
        let len = (&again).read(&mut said).unwrap();
        assert!(len > 0);
        heard.extend(&said[..len]);
    }
    let head = String::from_utf8_lossy(&heard);
    assert!(head.contains("received=4"), "{head}");
    (&again).write_all(&frame(0, &[4], b"more")).unwrap();
    let mut more = [0; 4];
    far.read_exact(&mut more).unwrap();
    assert_eq!(&more, b"more");
    assert!(place.nodes[0].snapshot().sessions_moved >= 1);
}

#[test]
fn who_does_not_come_back_in_time_has_lost_it() {
    let place = Place::with(1, Protection::Plain, |config| config.moves_within = Duration::from_millis(300));
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = place.ask(&session(server.local_addr().unwrap(), 7, ""));
    let (far, _) = server.accept().unwrap();
    SockRef::from(&near).set_linger(Some(Duration::ZERO)).unwrap();
    drop(near);
    assert_eq!(read_all(&far).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    place.until("it is lost", |snapshot| snapshot.sessions_lost == 1 && snapshot.sessions == 0);
    let none = Place::with(1, Protection::Plain, |config| config.moves_within = Duration::ZERO);
    assert!(none.say(&session(server.local_addr().unwrap(), 7, "")).contains("not for here"));
}

#[test]
fn what_sessions_keep_is_bounded_and_comes_back() {
    const ALL: u64 = 4 << 20;
    let place = Place::with(1, Protection::Plain, |config| {
        config.all_buffers = Bytes(ALL);
        config.moves_within = Duration::from_millis(300);
    });
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let mut ends = Vec::new();
    for key in 0..16 {
        let near = place.ask(&session(target, key, ""));
        let (far, _) = server.accept().unwrap();
        // Nobody reads: what the node keeps until it is acknowledged is all that there is.
        far.set_nonblocking(true).unwrap();
        let full = Instant::now();
        while full.elapsed() < Duration::from_millis(20) {
            let _ = (&far).write(&[7; 65_536]);
        }
        ends.push((near, far));
    }
    let free = || place.nodes[0].snapshot().buffer_free_bytes;
    // One account has a quarter of all.
    place.until("some is kept", |snapshot| snapshot.buffer_free_bytes < ALL);
    assert!(free() >= ALL * 3 / 4, "{}", free());
    // Others go on.
    let other = place.forward(target, SetUp::Parallel);
    let (mut far, _) = server.accept().unwrap();
    (&other).write_all(b"ping").unwrap();
    let mut heard = [0; 4];
    far.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"ping");
    for (near, far) in ends {
        (&near).write_all(&frame(5, &[], b"")).unwrap();
        drop((near, far));
    }
    drop((other, far));
    place.until("all of it is free", |snapshot| snapshot.buffer_free_bytes == ALL && snapshot.sessions == 0);
}
