//! Nodes that go on in the place of others: what comes is served by one or the other, and what is open goes on.
use crate::relays::{Running, SHORTHAUL};
use shorthaul_relay::request::Request;
use shorthaul_relay::{NetworkSecret, Signature};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(60);
/// How often nodes are exchanged.
const EXCHANGES: usize = 5;

/// A folder with a secret, and a server that says what it hears, until it hears no more.
struct Site {
    folder: PathBuf,
    /// How long nodes serve what they have when others have taken over.
    drain: &'static str,
    server: SocketAddr,
}

impl Site {
    fn new(name: &str) -> Site {
        let folder = std::env::temp_dir().join(format!("shorthaul-exchanged-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut secret = Command::new(SHORTHAUL);
        let made = secret.arg("secret").arg(folder.join("secret")).stdout(Stdio::null()).status();
        assert!(made.unwrap().success());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                thread::spawn(move || {
                    let _ = std::io::copy(&mut &socket, &mut &socket);
                    let _ = socket.shutdown(Shutdown::Write);
                });
            }
        });
        Site { folder, drain: "60 s", server }
    }

    fn control(&self) -> PathBuf {
        self.folder.join("control")
    }

    /// A node that listens there.
    fn command(&self, name: &str, listen: SocketAddr, more: &[&str]) -> Command {
        let mut command = Command::new(SHORTHAUL);
        command.args(["node", "--name", name, "--listen", &listen.to_string(), "--drain", self.drain]);
        command.args(["--allow", "127.0.0.0/8", "--allow-destination", "127.0.0.0/8"]);
        command.arg("--secret").arg(self.folder.join("secret"));
        command.arg("--control").arg(self.control()).args(more);
        command
    }

    fn node(&self, name: &str, listen: SocketAddr, more: &[&str]) -> Running {
        Running::start(&mut self.command(name, listen, more), 1)
    }

    /// The head of a request for the server, signed.
    fn signed(&self, node: SocketAddr) -> String {
        let key = NetworkSecret::read(&self.folder.join("secret")).unwrap().signing_key();
        let request = Request::connect(self.server.into());
        let signature = Signature::sign(&key, "", request.signed_part(Some(node)).as_bytes());
        String::from_utf8(request.to_head(Some(node), Some(&format!("Shorthaul {signature}")))).unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// What a node answers.
fn ask(node: SocketAddr, head: &str) -> std::io::Result<(TcpStream, String)> {
    let mut socket = TcpStream::connect(node)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte)?;
        answer.push(byte[0]);
    }
    Ok((socket, String::from_utf8_lossy(&answer).into_owned()))
}

/// Says something, ends, and hears all of it and the end.
fn echoed(mut socket: &TcpStream) -> std::io::Result<()> {
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.write_all(b"all of it")?;
    socket.shutdown(Shutdown::Write)?;
    let mut heard = Vec::new();
    socket.read_to_end(&mut heard)?;
    if heard == b"all of it" { Ok(()) } else { Err(std::io::Error::other(format!("{heard:?}"))) }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < TIMEOUT, "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn nodes_are_exchanged_and_no_connection_is_refused() {
    let site = Site::new("loop");
    let first = site.node("node0", "127.0.0.1:0".parse().unwrap(), &[]);
    let address = first.addresses[0];
    let plain = format!("CONNECT {} HTTP/1.1\r\n\r\n", site.server);
    let mut proxy = Command::new(SHORTHAUL);
    proxy.args(["proxy", "--via", &address.to_string(), "--no-moves", "--secret"]);
    proxy.arg(site.folder.join("secret")).args(["--forward", &format!("127.0.0.1:0={}", site.server)]);
    let proxy = Running::start(&mut proxy, 1);
    // One session of each kind that goes on all the while.
    let (mut open, answer) = ask(address, &plain).unwrap();
    assert!(answer.contains("node0"), "{answer}");
    let mut by_tls = TcpStream::connect(proxy.addresses[0]).unwrap();
    by_tls.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut both_answer = || {
        for socket in [&mut open, &mut by_tls] {
            let mut heard = [0; 2];
            socket.write_all(b"on").unwrap();
            socket.read_exact(&mut heard).unwrap();
            assert_eq!(&heard, b"on");
        }
    };
    both_answer();
    let is_over = AtomicBool::new(false);
    let newest = Mutex::new("node0".to_owned());
    let (asked, of_newest) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut nodes = vec![first];
    thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|number| {
                let (site, is_over, newest, plain) = (&site, &is_over, &newest, &plain);
                let (asked, of_newest, proxy) = (&asked, &of_newest, proxy.addresses[0]);
                scope.spawn(move || -> std::io::Result<()> {
                    while !is_over.load(Ordering::Relaxed) {
                        asked.fetch_add(1, Ordering::Relaxed);
                        let socket = match number {
                            0 | 1 => {
                                let signed = site.signed(address);
                                let head = if number == 0 { plain } else { &signed };
                                let now = newest.lock().unwrap().clone();
                                let (socket, answer) = ask(address, head)?;
                                if !answer.starts_with("HTTP/1.1 200") {
                                    return Err(std::io::Error::other(answer));
                                }
                                of_newest.fetch_add(u64::from(answer.contains(&now)), Ordering::Relaxed);
                                socket
                            }
                            _ => TcpStream::connect(proxy)?,
                        };
                        echoed(&socket)?;
                    }
                    Ok(())
                })
            })
            .collect();
        let exchange = || {
            for number in 1..=EXCHANGES {
                // What was signed and accepted is not accepted by the next one either.
                let spent = site.signed(address);
                assert!(ask(address, &spent).unwrap().1.starts_with("HTTP/1.1 200"));
                let name = format!("node{number}");
                nodes.push(site.node(&name, address, &["--take-over"]));
                newest.lock().unwrap().clone_from(&name);
                of_newest.store(0, Ordering::Relaxed);
                until("the new one is asked", || {
                    of_newest.load(Ordering::Relaxed) >= 20 || clients.iter().any(|one| one.is_finished())
                });
                assert!(ask(address, &spent).unwrap().1.starts_with("HTTP/1.1 403"));
                both_answer();
            }
        };
        let exchanged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(exchange));
        is_over.store(true, Ordering::Relaxed);
        for (number, client) in clients.into_iter().enumerate() {
            if let Err(error) = client.join().unwrap() {
                panic!("client {number}, one of {}: {error}", asked.load(Ordering::Relaxed));
            }
        }
        exchanged.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    assert!(asked.load(Ordering::Relaxed) > 40 * EXCHANGES as u64);
    // Sessions end right, and then all processes but the last have nothing to do any more.
    assert!(nodes[0].child.try_wait().unwrap().is_none(), "it has sessions");
    echoed(&open).unwrap();
    echoed(&by_tls).unwrap();
    drop(proxy);
    let mut last = nodes.pop().unwrap();
    for node in &mut nodes {
        assert!(node.child.wait().unwrap().success());
    }
    assert!(last.child.try_wait().unwrap().is_none());
    echoed(&ask(address, &plain).unwrap().0).unwrap();
}

#[test]
fn a_session_that_moves_outlives_an_exchange_on_its_way_and_at_its_end() {
    let (mut last, mut middle) = (Site::new("last"), Site::new("middle"));
    std::fs::copy(last.folder.join("secret"), middle.folder.join("secret")).unwrap();
    (last.drain, middle.drain) = ("1 s", "1 s");
    let anywhere = "127.0.0.1:0".parse().unwrap();
    let last0 = last.node("last0", anywhere, &[]);
    let mut middle0 = middle.node("middle0", anywhere, &[]);
    let [to_last, to_middle] = [last0.addresses[0], middle0.addresses[0]];
    let mut proxy = Command::new(SHORTHAUL);
    proxy.args(["proxy", "--via", &format!("{to_middle},{to_last}"), "--secret"]);
    proxy.arg(last.folder.join("secret")).args(["--forward", &format!("127.0.0.1:0={}", last.server)]);
    let proxy = Running::start(&mut proxy, 1);
    let mut session = TcpStream::connect(proxy.addresses[0]).unwrap();
    session.set_read_timeout(Some(TIMEOUT)).unwrap();
    let answers = |session: &mut TcpStream| {
        let mut heard = [0; 2];
        session.write_all(b"on").unwrap();
        session.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"on");
    };
    answers(&mut session);
    // A node on its way: the one before ends when its time is over, and the session goes on by the next one.
    let _middle1 = middle.node("middle1", to_middle, &["--take-over"]);
    assert!(middle0.child.wait().unwrap().success());
    answers(&mut session);
    // Its last node: the session goes over to the next one, and that again; what is under way then arrives once, though the one before
    // ends when its time is over.
    let mut lasts = vec![last0];
    let mut given = Vec::new();
    for number in 1..=3 {
        let writer = session.try_clone().unwrap();
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 7 + number) as u8).collect();
        given.extend_from_slice(&bytes);
        let writing = thread::spawn(move || (&writer).write_all(&bytes));
        // Half of it is on its way back when the next one begins.
        let mut heard = vec![0; 1_500_000];
        session.read_exact(&mut heard).unwrap();
        lasts.push(last.node(&format!("last{number}"), to_last, &["--take-over"]));
        assert!(lasts[number as usize - 1].child.wait().unwrap().success());
        let mut rest = vec![0; 1_500_000];
        session.read_exact(&mut rest).unwrap();
        writing.join().unwrap().unwrap();
        assert!([heard, rest].concat() == given[given.len() - 3_000_000..], "it is something else");
    }
    // The end is one in both directions, too.
    echoed(&session).unwrap();
}

#[test]
fn a_session_that_the_next_node_does_not_take_goes_on_with_the_one_before() {
    let site = Site::new("refused");
    let node = site.node("node0", "127.0.0.1:0".parse().unwrap(), &[]);
    let address = node.addresses[0];
    let mut proxy = Command::new(SHORTHAUL);
    proxy.args(["proxy", "--via", &address.to_string(), "--secret"]).arg(site.folder.join("secret"));
    let proxy = Running::start(proxy.args(["--forward", &format!("127.0.0.1:0={}", site.server)]), 1);
    let answers = |mut session: &TcpStream| -> std::io::Result<()> {
        let mut heard = [0; 2];
        session.write_all(b"on")?;
        session.read_exact(&mut heard)
    };
    let sessions = [(); 2].map(|()| {
        let session = TcpStream::connect(proxy.addresses[0]).unwrap();
        session.set_read_timeout(Some(TIMEOUT)).unwrap();
        answers(&session).unwrap();
        session
    });
    // The next one has a place for one of them.
    let (settings, log) = (site.folder.join("settings.toml"), site.folder.join("log"));
    std::fs::write(&settings, "others = { sessions = 1 }\n").unwrap();
    let mut next = site.command("node1", address, &["--take-over", "--settings", settings.to_str().unwrap()]);
    let _next = Running::start(next.stderr(std::fs::File::create(&log).unwrap()), 1);
    until("one is refused", || {
        std::fs::read_to_string(&log).unwrap().contains("of the process before cannot go on here")
    });
    for _ in 0..10 {
        sessions.iter().for_each(|session| answers(session).unwrap());
    }
    // When the one before is gone, so is the session that stayed with it; and no other.
    drop(node);
    let is_there = sessions.each_ref().map(|session| answers(session).is_ok());
    assert_eq!(is_there.iter().filter(|is_there| **is_there).count(), 1);
}

#[test]
fn a_node_goes_on_if_whoever_wanted_to_take_over_does_not() {
    let site = Site::new("vain");
    let node = site.node("node0", "127.0.0.1:0".parse().unwrap(), &[]);
    let address = node.addresses[0];
    let plain = format!("CONNECT {} HTTP/1.1\r\n\r\n", site.server);
    let serves = || {
        let (socket, answer) = ask(address, &plain).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("node0"), "{answer}");
        echoed(&socket).unwrap();
        assert!(ask(address, &site.signed(address)).unwrap().1.starts_with("HTTP/1.1 200"));
    };
    // They break off: at once, having heard all, and having said that they are prepared.
    for words in [&b""[..], b"nonsense\n\n", b"take-over\n", b"take-over\nprepared\n"] {
        let mut stream = UnixStream::connect(site.control()).unwrap();
        stream.write_all(words).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        // It says all that it has to say, or nothing, and closes.
        let _ = stream.read_to_end(&mut Vec::new());
        serves();
    }
    // One that cannot run: there are no such settings.
    let mut wrong = site.command("node1", address, &["--take-over", "--settings", "/nowhere/users.toml"]);
    let output = wrong.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && words.contains("/nowhere/users.toml"), "{words}");
    serves();
    // One that would be beside it.
    let output = site.command("node1", "127.0.0.1:0".parse().unwrap(), &[]).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && words.contains("`--take-over` goes on in its place"), "{words}");
    serves();
}

#[test]
fn a_control_socket_that_nobody_listens_at_is_nobodys() {
    let site = Site::new("stale");
    let anywhere: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let output = site.command("node0", anywhere, &["--take-over"]).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && words.contains("leave out --take-over"), "{words}");
    let mut node = site.node("node0", anywhere, &[]);
    node.child.kill().unwrap();
    node.child.wait().unwrap();
    assert!(site.control().exists());
    drop(site.node("node1", anywhere, &[]));
    // A file that is none is not removed.
    std::fs::remove_file(site.control()).unwrap();
    std::fs::write(site.control(), "precious").unwrap();
    let output = site.command("node2", anywhere, &[]).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && words.contains("is no socket"), "{words}");
    assert_eq!(std::fs::read_to_string(site.control()).unwrap(), "precious");
}

#[test]
fn metrics_echo_and_probes_are_taken_over_too() {
    let site = Site::new("all");
    let anywhere: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let more = ["--metrics", "127.0.0.1:0", "--probes", "127.0.0.1:0", "--echo", "127.0.0.1:0"];
    let mut node = Running::start(&mut site.command("node0", anywhere, &more), 4);
    // In the order in which it says so; a URL is no address.
    let [session, probes, echo] = node.addresses[..] else { panic!("{:?}", node.addresses) };
    let metrics = listening_of(&node).into_iter().find(|port| ![session.port(), echo.port()].contains(port));
    let metrics = format!("127.0.0.1:{}", metrics.unwrap());
    let [echo_at, probes_at] = [echo, probes].map(|address| address.to_string());
    let more = ["--take-over", "--metrics", &metrics, "--probes", &probes_at, "--echo", &echo_at];
    let second = Running::start(&mut site.command("node1", session, &more), 4);
    // The first has nothing to serve.
    assert!(node.child.wait().unwrap().success());
    let mut page = TcpStream::connect(&metrics).unwrap();
    page.write_all(b"GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    page.read_to_string(&mut text).unwrap();
    assert!(text.contains("node1"), "{text}");
    echoed(&TcpStream::connect(echo).unwrap()).unwrap();
    drop(second);
}

/// The TCP ports at which a process listens on this host (proc_net_tcp(5)), by the inodes of its descriptors.
fn listening_of(node: &Running) -> Vec<u16> {
    let pid = node.child.id();
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let links: Vec<String> = links
        .filter_map(|entry| Some(std::fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned()))
        .collect();
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
    let listens = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_ours = links.contains(&format!("socket:[{}]", fields[9]));
        (fields[3] == "0A" && is_ours).then(|| u16::from_str_radix(&fields[1][9..], 16).unwrap())
    });
    listens.collect()
}
