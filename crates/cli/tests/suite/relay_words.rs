//! What nodes and their clients say when something is wrong with the network or with how they are run: each time a person, or the log of
//! a service, hears of it.
use crate::node_process::ask;
use crate::program::program;
use crate::relays::{Network, Running, SHORTHAUL};
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < TIMEOUT, "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A process whose standard error is a file.
fn logging(command: &mut Command, log: &Path, lines: usize) -> Running {
    Running::start(command.stderr(File::create(log).unwrap()), lines)
}

/// The lines of a log that have all these words.
fn lines(log: &Path, words: &[&str]) -> Vec<String> {
    let said = fs::read_to_string(log).unwrap();
    said.lines().filter(|line| words.iter().all(|word| line.contains(word))).map(str::to_owned).collect()
}

/// Sends back what it hears.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            thread::spawn(move || {
                let _ = std::io::copy(&mut &socket, &mut &socket);
                let _ = socket.shutdown(Shutdown::Write);
            });
        }
    });
    address
}

/// Says something by a connection, and hears it again.
fn say(mut socket: &TcpStream, word: &[u8]) {
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket.write_all(word).unwrap();
    let mut heard = vec![0; word.len()];
    socket.read_exact(&mut heard).unwrap();
    assert_eq!(heard, word);
}

/// An address at which nobody listens.
fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn node_at(network: &Network, listen: SocketAddr) -> Command {
    let mut node = Command::new(SHORTHAUL);
    node.args(["node", "--listen", &listen.to_string(), "--allow-destination", "127.0.0.0/8"]);
    node.args(["--threads", "1", "--secret"]).arg(&network.secret);
    node
}

#[test]
fn a_relay_that_fails_is_named_once_until_it_works_again() {
    let network = Network::start("or-direct", 0, &[]);
    let (log, relay, target) = (network.folder().join("log"), nobody(), echo());
    let forward = format!("127.0.0.1:0={target}");
    let mut proxy = Command::new(SHORTHAUL);
    proxy.args(["proxy", "--via", &relay.to_string(), "--or-direct", "--ready", "0", "--forward", &forward]);
    let proxy = logging(proxy.arg("--secret").arg(&network.secret), &log, 1);
    let session = || say(&TcpStream::connect(proxy.addresses[0]).unwrap(), b"word");
    let named =
        || lines(&log, &[&format!("the way by {relay} failed, sessions go direct"), "refuses connections"]);
    (0..3).for_each(|_| session());
    assert_eq!(named().len(), 1, "{:?}", named());
    let node = Running::start(&mut node_at(&network, relay), 1);
    session();
    drop(node);
    (0..3).for_each(|_| session());
    assert_eq!(named().len(), 2, "it failed anew: {:?}", named());
}

#[test]
fn a_destination_that_nobody_may_go_to_is_no_fault_of_the_way() {
    let (network, target) = (Network::start("forbidden", 0, &[]), echo());
    let log = network.folder().join("log");
    let mut node = Command::new(SHORTHAUL);
    node.args(["node", "--listen", "127.0.0.1:0", "--allow-destination", "10.0.0.0/8", "--secret"]);
    let node = Running::start(node.arg(&network.secret), 1);
    let forward = format!("127.0.0.1:0={target}");
    let mut proxy = Command::new(SHORTHAUL);
    proxy.args(["proxy", "--via", &node.addresses[0].to_string(), "--or-direct", "--forward", &forward]);
    let proxy = logging(proxy.arg("--secret").arg(&network.secret), &log, 1);
    (0..3).for_each(|_| say(&TcpStream::connect(proxy.addresses[0]).unwrap(), b"word"));
    assert_eq!(lines(&log, &["failed"]), [""; 0]);
}

#[test]
fn a_node_without_descriptors_says_so_and_goes_on_when_it_has_some() {
    let (prlimit, network) = (program("prlimit"), Network::start("descriptors", 0, &[]));
    let (log, target) = (network.folder().join("log"), echo());
    let mut command = node_at(&network, "127.0.0.1:0".parse().unwrap());
    let node = logging(command.args(["--allow", "127.0.0.0/8"]), &log, 1);
    let process = node.child.id().to_string();
    let limit = |descriptors: usize| {
        let set = Command::new(&prlimit)
            .args(["--pid", &process, &format!("--nofile={descriptors}:1000")])
            .status();
        assert!(set.unwrap().success());
    };
    let open = || -> BTreeSet<usize> {
        let all = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
        all.map(|one| one.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect()
    };
    // The limit is the first number that a descriptor may not have.
    let room_for = |more: usize, open: &BTreeSet<usize>| {
        limit((0..).filter(|number| !open.contains(number)).nth(more).unwrap());
    };
    let ask = || {
        let mut socket = TcpStream::connect(node.addresses[0]).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket.write_all(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
        let mut status = [0; 12];
        socket.read_exact(&mut status).unwrap();
        (String::from_utf8_lossy(&status).into_owned(), socket)
    };
    // All of it has started when it serves a session, which has two.
    let (answer, first) = ask();
    assert_eq!(answer, "HTTP/1.1 200");
    let serving = open().len();
    drop(first);
    until("it is idle", || open().len() == serving - 2);
    // Enough for the client's side, and not for the target's.
    let idle = open();
    room_for(1, &idle);
    assert_eq!(ask().0, "HTTP/1.1 500");
    until("what it could not do is said", || {
        !lines(&log, &["refused", "proxy_internal_error", "open files"]).is_empty()
    });
    until("the client is gone", || open() == idle);
    room_for(0, &idle);
    let waiting = TcpStream::connect(node.addresses[0]).unwrap();
    let said = || lines(&log, &["connections cannot be accepted", "Too many open files", "ulimit -n"]);
    until("it is said", || !said().is_empty());
    limit(1000);
    drop(waiting);
    let (answer, _socket) = ask();
    assert_eq!(answer, "HTTP/1.1 200", "it goes on");
    assert!(said().len() < 5, "nobody fills the disk: {}", said().len());
}

#[test]
fn a_fixed_relay_says_why_it_leads_nowhere() {
    let network = Network::start("nowhere", 0, &[]);
    let (log, target) = (network.folder().join("log"), nobody());
    let mut node = Command::new(SHORTHAUL);
    node.args(["node", "--relay", &format!("127.0.0.1:0={target}")]);
    let node = logging(&mut node, &log, 1);
    let began = Instant::now();
    for _ in 0..100 {
        let mut socket = TcpStream::connect(node.addresses[0]).unwrap();
        assert!(socket.read(&mut [0]).is_err(), "it is reset, as the target would do");
    }
    let said =
        lines(&log, &["refused", &format!("\"{target}\""), "connection_refused", "refuses connections"]);
    // Ten in ten seconds, however long it takes.
    let most = 10 * (2 + began.elapsed().as_secs() as usize / 10);
    assert!((1..=most).contains(&said.len()), "{said:?}");
}

#[test]
fn a_credential_that_nobody_would_believe_is_refused_at_the_start() {
    let network = Network::start("unbelieved", 0, &[]);
    let path = |name: &str| network.folder().join(name).display().to_string();
    let shorthaul = |arguments: &[&str]| {
        let mut command = Command::new(SHORTHAUL);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let since = Instant::now();
        while process.try_wait().unwrap().is_none() {
            if since.elapsed() > TIMEOUT {
                process.kill().unwrap();
            }
            thread::sleep(Duration::from_millis(5));
        }
        let output = process.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (net, alice, past) = (path("net"), path("alice.pem"), path("past.pem"));
    assert_eq!(shorthaul(&["secret", "authority", &net]).0, Some(0));
    assert_eq!(shorthaul(&["secret", "issue", &net, "--client", "alice", "--to", &alice]).0, Some(0));
    let (status, said) = shorthaul(&["node", "--listen", "127.0.0.1:0", "--credential", &alice]);
    assert!(status == Some(2) && said.contains(&alice) && said.contains("a client's"), "{said}");
    credential(Path::new(&past), (2001, 2001));
    for command in
        [&["node", "--listen", "127.0.0.1:0"][..], &["connect", "127.0.0.1:9", "--via", "127.0.0.1:9"]]
    {
        let (status, said) = shorthaul(&[command, &["--credential", &past]].concat());
        assert!(
            status == Some(2) && said.contains(&past) && said.contains("expired on 2001-09-09"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn a_node_says_that_its_credential_ends_before_it_does() {
    let network = Network::start("ends", 0, &[]);
    let (log, path) = (network.folder().join("log"), network.folder().join("node.pem"));
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let next_year = 1971 + i32::try_from(since_1970.as_secs() / (365 * 24 * 3600)).unwrap();
    // Of decades, no more than a year is left.
    credential(&path, (1990, next_year));
    let mut node = Command::new(SHORTHAUL);
    let _node = logging(node.args(["node", "--listen", "127.0.0.1:0", "--credential"]).arg(&path), &log, 1);
    let said = format!("the certificate of this process ends on {next_year}-09-09");
    until("it is said", || lines(&log, &[&said, "SIGHUP"]).len() == 1);
}

/// Writes a credential that is good from the first of January of one year to the ninth of September of another.
fn credential(path: &Path, (from, until): (i32, i32)) {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
    let (mut authority, authority_key) =
        (CertificateParams::new(Vec::new()).unwrap(), KeyPair::generate().unwrap());
    authority.distinguished_name.push(DnType::CommonName, "authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = authority.self_signed(&authority_key).unwrap().pem();
    let (mut own, key) =
        (CertificateParams::new(vec!["127.0.0.1".into()]).unwrap(), KeyPair::generate().unwrap());
    own.distinguished_name.push(DnType::CommonName, "own");
    (own.not_before, own.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(until, 9, 9));
    let signed = own.signed_by(&key, &Issuer::new(authority, authority_key)).unwrap();
    let mut file = File::create(path).unwrap();
    file.set_permissions(Permissions::from_mode(0o600)).unwrap();
    file.write_all((key.serialize_pem() + &signed.pem() + &root).as_bytes()).unwrap();
}

#[test]
fn a_secret_that_everybody_can_read_is_named_with_the_remedy() {
    let network = Network::start("mode", 0, &[]);
    let log = network.folder().join("log");
    let secret = network.secret.display().to_string();
    let folder = |mode: u32| fs::set_permissions(network.folder(), Permissions::from_mode(mode)).unwrap();
    folder(0o755);
    let said = |mode: u32| {
        fs::set_permissions(&network.secret, Permissions::from_mode(mode)).unwrap();
        // The probes' keys are of the same file.
        let mut node = node_at(&network, "127.0.0.1:0".parse().unwrap());
        drop(logging(node.args(["--probes", "127.0.0.1:0"]), &log, 2));
        lines(&log, &[&format!("chmod o= {secret}")])
    };
    assert_eq!(said(0o600), [""; 0]);
    let open = said(0o644);
    assert!(
        open.len() == 1 && open[0].contains("its mode (644) lets every user of this host have it"),
        "{open:?}"
    );
    folder(0o700);
    assert_eq!(said(0o644), [""; 0], "nobody else comes to it");
}

#[test]
fn all_addresses_of_ipv4_and_of_ipv6_can_be_listened_at_together() {
    let (network, target) = (Network::start("both", 0, &[]), echo());
    let port = nobody().port();
    let both: [SocketAddr; 2] = [(Ipv4Addr::UNSPECIFIED, port).into(), (Ipv6Addr::UNSPECIFIED, port).into()];
    for order in [[0, 1], [1, 0]] {
        let listen = order.map(|at: usize| both[at].to_string());
        let mut node = node_at(&network, both[order[0]]);
        node.args(["--listen", &listen[1], "--allow", "127.0.0.0/8", "--allow", "::1"]);
        let node = Running::start(&mut node, 2);
        for host in ["127.0.0.1", "::1"] {
            let mut socket = TcpStream::connect((host, port)).unwrap();
            socket.write_all(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
            let mut status = [0; 12];
            socket.read_exact(&mut status).unwrap();
            assert_eq!(&status, b"HTTP/1.1 200", "{host}");
        }
        drop(node);
        let mut proxy = Command::new(SHORTHAUL);
        proxy.args(["proxy", "--allow", "127.0.0.0/8", "--listen", &listen[0], "--listen", &listen[1]]);
        let proxy = Running::start(&mut proxy, 2);
        for host in ["127.0.0.1", "::1"] {
            let mut socket = TcpStream::connect((host, port)).unwrap();
            socket.write_all(&[5, 1, 0]).unwrap();
            let mut welcome = [9; 2];
            socket.read_exact(&mut welcome).unwrap();
            assert_eq!(welcome, [5, 0], "{host}");
        }
        drop(proxy);
    }
}

/// A `connect` whose standard input and output are a session with an echo.
struct Talking {
    client: Child,
    there: ChildStdin,
    back: ChildStdout,
}

impl Talking {
    fn start(command: &mut Command, log: &Path) -> Talking {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(log).unwrap());
        let mut client = command.spawn().unwrap();
        let (there, back) = (client.stdin.take().unwrap(), client.stdout.take().unwrap());
        Talking { client, there, back }
    }

    fn say(&mut self, word: &[u8]) {
        self.there.write_all(word).unwrap();
        let mut heard = vec![0; word.len()];
        self.back.read_exact(&mut heard).unwrap();
        assert_eq!(heard, word);
    }

    fn end(mut self) {
        drop(self.there);
        assert!(self.client.wait().unwrap().success());
    }
}

#[test]
fn who_asks_for_words_hears_that_a_session_goes_on_by_another_way() {
    let mut network = Network::start("words", 3, &[]);
    let by: Vec<String> = network.nodes.iter().map(|node| node.addresses[0].to_string()).collect();
    let log = network.folder().join("log");
    let mut client = Command::new(SHORTHAUL);
    client.args(["connect", &echo().to_string(), "--via", &format!("{},{}", by[0], by[2])]);
    client.args(["--or-via", &format!("{},{}", by[1], by[2]), "-v", "--secret"]).arg(&network.secret);
    let mut client = Talking::start(&mut client, &log);
    client.say(b"first");
    drop(network.nodes.remove(0));
    client.say(b"later");
    assert_eq!(lines(&log, &[&format!("by {}, {} from now on", by[1], by[2])]).len(), 1);
    client.end();
}

#[test]
fn who_asks_for_words_hears_how_long_a_session_stood_that_goes_on_by_the_same_way() {
    let mut network = Network::start("stood", 2, &[]);
    let by: Vec<SocketAddr> = network.nodes.iter().map(|node| node.addresses[0]).collect();
    let log = network.folder().join("log");
    let mut client = Command::new(SHORTHAUL);
    client.args(["connect", &echo().to_string(), "--via", &format!("{},{}", by[0], by[1]), "-v", "--secret"]);
    let mut client = Talking::start(client.arg(&network.secret), &log);
    client.say(b"first");
    drop(network.nodes.remove(0));
    thread::sleep(Duration::from_millis(600));
    let _again = Running::start(&mut node_at(&network, by[0]), 1);
    client.say(b"later");
    let said = lines(&log, &[&format!("by {}, {} again, after it stood for ", by[0], by[1])]);
    let stood = said.first().and_then(|line| line.rsplit(' ').nth(1)?.parse::<f64>().ok());
    assert!(said.len() == 1 && stood.is_some_and(|stood| stood > 300.0), "{said:?}");
    assert!(lines(&log, &["from now on"]).is_empty());
    client.end();
}

/// Endless data for whoever connects.
#[cfg(target_env = "gnu")]
fn source() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            thread::spawn(move || while socket.write_all(&[7; 64 << 10]).is_ok() {});
        }
    });
    address
}

// Elsewhere it stays with the C library.
#[cfg(target_env = "gnu")]
#[test]
fn a_proxy_gives_back_what_clients_had_that_read_nothing() {
    const DOWNLOADS: usize = 40;
    const MIB: u64 = 1 << 10; // of KiB
    let network = Network::start("unread", 1, &[]);
    let forward = format!("127.0.0.1:0={}", source());
    let proxy = Running::start(network.client("proxy", 1).args(["--forward", &forward]), 1);
    let downloads: Vec<TcpStream> =
        (0..DOWNLOADS).map(|_| TcpStream::connect(proxy.addresses[0]).unwrap()).collect();
    // A window of 4 MiB each, as documented.
    until("all of it is held", || proxy.memory() > DOWNLOADS as u64 * 3 * MIB);
    drop(downloads);
    until("it is given back", || proxy.memory() < 24 * MIB);
}

/// A responder, and where it answers.
fn responder(network: &Network, more: &[&str]) -> Running {
    let mut respond = Command::new(SHORTHAUL);
    respond
        .args(["respond", "--listen", "127.0.0.1:0", "--measure-private", "--secret"])
        .arg(&network.secret);
    Running::start(respond.args(more), 1)
}

fn discover(network: &Network, port: u16, relays: &[&Path]) -> (Option<i32>, String) {
    let mut discover = Command::new(SHORTHAUL);
    discover.args([
        "discover",
        "127.0.0.1:9",
        "--port",
        &port.to_string(),
        "--rounds",
        "2",
        "--interval",
        "1ms",
    ]);
    discover.arg("--secret").arg(&network.secret);
    for file in relays {
        discover.arg("--relays").arg(file);
    }
    let output = discover.stdin(Stdio::null()).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn directories_and_relays_that_cannot_be_asked_are_told() {
    let network = Network::start("directories", 0, &[]);
    let (missing, list): (PathBuf, PathBuf) =
        (network.folder().join("none.toml"), network.folder().join("list.toml"));
    let destination = responder(&network, &[]);
    let port = destination.addresses[0].port();
    // Nobody could be asked, and so nothing is known.
    let (status, said) = discover(&network, port, &[&missing]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("none.toml") && said.contains("nobody could be asked"), "{said}");
    let empty = network.folder().join("empty.toml");
    fs::write(&empty, "").unwrap();
    let (status, said) = discover(&network, port, &[&empty, &missing]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("none of the directories that could be asked has a relay"), "{said}");
    assert!(!said.contains("nobody could be asked"), "{said}");
    // One of two relays answers.
    let relay = responder(&network, &["--relay", "127.0.0.2:7001", "--name", "there"]);
    let silent = nobody();
    let section = |session: &str, probe: SocketAddr| {
        format!("[[relay]]\nsession = \"{session}\"\nprobe = \"{probe}\"\n")
    };
    let both = section("127.0.0.2:7001", relay.addresses[0]) + &section("127.0.0.3:7001", silent);
    fs::write(&list, both).unwrap();
    let (status, said) = discover(&network, port, &[&list, &missing]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("none.toml") && said.contains(&format!("at {silent} did not answer")), "{said}");
    assert!(!said.contains(&relay.addresses[0].to_string()), "{said}");
    // A service says so once, before anybody asks it for a way.
    let log = network.folder().join("log");
    let mut proxy = Command::new(SHORTHAUL);
    proxy.args(["proxy", "--listen", "127.0.0.1:0", "--discover", "--no-history", "--relays"]).arg(&missing);
    let proxy = logging(proxy.arg("--secret").arg(&network.secret), &log, 1);
    let told = || lines(&log, &["none.toml", "of no use"]).len();
    until("it is told", || told() > 0);
    let target = echo();
    for _ in 0..3 {
        let (socket, _) = ask(proxy.addresses[0], &target.to_string());
        say(&socket, b"word");
    }
    assert_eq!(told(), 1, "once");
}
