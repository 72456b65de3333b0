//! Programs that people use, through one, two and three nodes: as without any.
use crate::program::program;
use crate::relays::{Network, Running, SHORTHAUL};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

fn succeeds(command: &mut Command) -> Output {
    let output = command.output().expect("it starts");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{words}", output.status);
    output
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Answers every request with the same bytes, on connections that stay open for more; how many of them there were.
fn web(body: Vec<u8>) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let body = body.clone();
            count.fetch_add(1, Ordering::Relaxed);
            thread::spawn(move || -> Option<()> {
                loop {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        let mut byte = [0];
                        socket.read_exact(&mut byte).ok()?;
                        head.push(byte[0]);
                    }
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                    socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(&body)).ok()?;
                }
            });
        }
    });
    (address, connections)
}

#[test]
fn curl_and_programs_like_browsers() {
    let (curl, network) = (program("curl"), Network::start("curl", 3, &[]));
    let body = pattern(3_000_000);
    let (server, connections) = web(body.clone());
    let url = format!("http://{server}/");
    for nodes in 1..=3 {
        let proxy = Running::start(network.client("proxy", nodes).args(["--listen", "127.0.0.1:0"]), 1);
        for kind in ["socks4a", "socks5h", "http"] {
            let by = format!("{kind}://{}", proxy.addresses[0]);
            let got = succeeds(Command::new(&curl).args(["-sSp", "-m", "60", "-x", &by, &url]));
            assert!(got.stdout == body, "{kind} by {nodes} nodes: {} bytes", got.stdout.len());
            // Four times eight fetches at once, each eight on a connection that is kept alive, as browsers do.
            let before = connections.load(Ordering::Relaxed);
            let fetches: Vec<Child> = (0..4)
                .map(|_| {
                    let mut fetch = Command::new(&curl);
                    fetch.args(["-sSp", "-m", "60", "-x", &by]).stdout(Stdio::null());
                    for _ in 0..8 {
                        fetch.args([url.as_str(), "-o", "/dev/null"]);
                    }
                    fetch.spawn().unwrap()
                })
                .collect();
            for mut fetch in fetches {
                assert!(fetch.wait().unwrap().success(), "{kind} by {nodes} nodes");
            }
            assert_eq!(connections.load(Ordering::Relaxed) - before, 4, "{kind} by {nodes} nodes");
            // And all in parallel.
            let mut many = Command::new(&curl);
            many.args(["-sSpv", "-m", "60", "-x", &by, "--parallel", "--no-progress-meter"]);
            for _ in 0..12 {
                many.args([url.as_str(), "-o", "/dev/null"]);
            }
            succeeds(&mut many);
            // A port that refuses looks like one.
            let closed = format!("http://127.0.0.1:{}/", free_port());
            let refused =
                Command::new(&curl).args(["-sSpv", "-m", "60", "-x", &by, &closed]).output().unwrap();
            let words = String::from_utf8_lossy(&refused.stderr);
            assert!(!refused.status.success(), "{kind}: {words}");
            // curl's words for reply 5 of SOCKS5; our name for it.
            let said = match kind {
                "http" => "connection_refused",
                "socks4a" => "(91)",
                _ => "(5)",
            };
            assert!(words.contains(said), "{kind}: {words}");
        }
    }
}

#[test]
fn plain_http_as_programs_ask_proxies_for_it() {
    let (curl, wget) = (program("curl"), program("wget"));
    let network = Network::start("plain", 2, &[]);
    let body = pattern(3_000_000);
    let (server, connections) = web(body.clone());
    let proxy = Running::start(network.client("proxy", 2).args(["--listen", "127.0.0.1:0"]), 1);
    let by = format!("http://{}", proxy.addresses[0]);
    let url = format!("http://{server}/a?b");
    // Eight pages, one after the other: one connection to us, and one session.
    let mut fetch = Command::new(&curl);
    fetch.args(["-sSv", "-m", "60", "-x", &by]);
    for _ in 0..8 {
        fetch.args([url.as_str(), "-o", "-"]);
    }
    let got = succeeds(&mut fetch);
    assert!(got.stdout == body.repeat(8), "{} bytes", got.stdout.len());
    assert_eq!(connections.load(Ordering::Relaxed), 1);
    let words = String::from_utf8_lossy(&got.stderr);
    assert!(words.to_lowercase().contains("via: 1.1 shorthaul-"), "{words}");
    let got = succeeds(Command::new(&wget).env("http_proxy", &by).args(["-qO-", "-t1", &url]));
    assert!(got.stdout == body, "{} bytes", got.stdout.len());
    // Why there is no page is in the page.
    let closed = format!("http://127.0.0.1:{}/", free_port());
    let refused = succeeds(Command::new(&curl).args(["-sSv", "-m", "60", "-x", &by, &closed]));
    let (page, head) = (String::from_utf8_lossy(&refused.stdout), String::from_utf8_lossy(&refused.stderr));
    assert!(page.contains("refuses connections") && page.lines().count() == 1, "{page}");
    assert!(head.contains(" 502 ") && head.contains("error=connection_refused"), "{head}");
    // A request that is for no proxy says so.
    let page = succeeds(Command::new(&curl).args(["-sS", "-m", "60", &by])).stdout;
    assert!(String::from_utf8_lossy(&page).contains("this is a proxy"));
}

#[test]
fn what_a_proxy_passes_is_what_was_asked_of_it() {
    let network = Network::start("passes", 1, &[]);
    let proxy = Running::start(network.client("proxy", 1).args(["--listen", "127.0.0.1:0"]), 1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    let say = |words: &str| {
        let mut socket = TcpStream::connect(proxy.addresses[0]).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        socket.write_all(words.as_bytes()).unwrap();
        socket
    };
    let mut near = say(&format!(
        "POST http://user:word@{target}/x?y HTTP/1.1\r\nHost: other\r\nProxy-Authorization: Basic eA==\r\n\
         Proxy-Connection: keep-alive\r\nConnection: X-Private\r\nX-Private: 1\r\nX-Public: 2\r\n\
         Content-Length: 4\r\n\r\nbody"
    ));
    let (mut far, _) = listener.accept().unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(b"body") {
        let mut byte = [0];
        far.read_exact(&mut byte).unwrap();
        heard.push(byte[0]);
    }
    let heard = String::from_utf8(heard).unwrap().to_lowercase();
    assert!(heard.starts_with("post /x?y http/1.1\r\n"), "{heard}");
    for there in [format!("host: {target}\r\n").as_str(), "x-public: 2\r\n", "via: 1.1 shorthaul-"] {
        assert!(heard.contains(there), "{there}{heard}");
    }
    for gone in ["proxy-", "x-private", "user", "other"] {
        assert!(!heard.contains(gone), "{gone}: {heard}");
    }
    // What is cut off is a reset, not an end.
    far.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").unwrap();
    let mut page = Vec::new();
    while !page.ends_with(b"half") {
        let mut byte = [0];
        near.read_exact(&mut byte).unwrap();
        page.push(byte[0]);
    }
    socket2::SockRef::from(&far).set_linger(Some(Duration::ZERO)).unwrap();
    drop(far);
    assert_eq!(near.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    // One that comes back to us is told of the circle.
    let via = heard.lines().find_map(|line| line.strip_prefix("via: ")).unwrap();
    let mut near = say(&format!("GET http://{target}/ HTTP/1.1\r\nVia: {via}\r\nConnection: close\r\n\r\n"));
    let mut answer = String::new();
    near.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 508"), "{answer}");
}

#[test]
fn a_way_that_was_asked_for_and_fails_is_an_error_on_one_line() {
    let network = Network::start("asked", 1, &[]);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap().to_string();
    let wrong = network.folder().join("wrong");
    succeeds(Command::new(SHORTHAUL).arg("secret").arg(&wrong));
    let connect = |via: &str, secret: &Path, more: &[&str]| {
        let mut command = Command::new(SHORTHAUL);
        command.args(["connect", &target, "--via", via, "--secret"]).arg(secret).args(more);
        let output = command.stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let dead = format!("127.0.0.1:{}", free_port());
    for (via, secret, reason) in [
        (network.via(1), &wrong, "the secret differs".to_owned()),
        (dead.clone(), &network.secret, format!("{dead} refuses connections")),
    ] {
        let (code, words) = connect(&via, secret, &[]);
        assert_eq!(code, Some(1), "{words}");
        assert!(words.contains(&reason) && words.lines().count() == 1, "{words}");
    }
    server.set_nonblocking(true).unwrap();
    assert_eq!(server.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "it went directly");
    server.set_nonblocking(false).unwrap();
    thread::spawn(move || drop(server.accept()));
    let (code, words) = connect(&dead, &network.secret, &["--or-direct", "--verbose"]);
    assert!(code == Some(0) && words.contains("by direct"), "{words}");
    assert!(words.contains(&format!("{dead} failed")) && words.contains("refuses connections"), "{words}");
}

/// A node that everybody can reach, who it is not told, and its log.
fn logging_node(network: &Network, more: &[&str]) -> (Running, PathBuf) {
    let log = network.folder().join("log");
    let mut node = Command::new(SHORTHAUL);
    node.args(["node", "--listen", "0.0.0.0:0", "--secret"]).arg(&network.secret).args(more);
    (Running::start(node.stderr(std::fs::File::create(&log).unwrap()), 1), log)
}

#[test]
fn who_is_refused_is_in_the_log_with_what_was_asked_and_why() {
    let network = Network::start("refused-log", 0, &[]);
    let (node, log) = logging_node(&network, &["--sessions", "1", "--allow-destination", "127.0.0.0/8"]);
    let port = node.addresses[0].port();
    let ask = |request: &str| {
        let mut near = TcpStream::connect(("127.0.0.1", port)).unwrap();
        near.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        near.read_to_string(&mut answer).unwrap();
        (answer, near.local_addr().unwrap().to_string())
    };
    // What is in the log of somebody, once it is there.
    let said_of = |words: &[&str]| {
        let since = Instant::now();
        loop {
            let said = std::fs::read_to_string(&log).unwrap();
            if let Some(line) = said.lines().find(|line| words.iter().all(|word| line.contains(word))) {
                break line.to_owned();
            }
            assert!(since.elapsed() < Duration::from_secs(60), "{words:?}: {said}");
            thread::sleep(Duration::from_millis(10));
        }
    };
    let token = "CONNECT a.example:1 HTTP/1.1\r\nProxy-Authorization: Bearer wrong\r\n\r\n";
    for (request, status, target, error) in [
        (token, "403", "\"a.example:1\"", "http_request_denied"),
        ("CONNECT b.example:2 HTTP/1.1\r\n\r\n", "407", "\"b.example:2\"", "http_request_denied"),
        ("NO REQUEST\r\n\r\n", "400", "\"-\"", "http_request_error"),
    ] {
        let (answer, client) = ask(request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        let line = said_of(&["refused", &client]);
        assert!(line.contains(target) && line.contains(error) && !line.contains("wrong"), "{line}");
        assert!(line.starts_with("20"), "no time: {line}");
    }
    let wrong = network.folder().join("wrong");
    succeeds(Command::new(SHORTHAUL).arg("secret").arg(&wrong));
    let via = format!("127.0.0.1:{port}");
    let connect = |secret: &Path| {
        let mut command = Command::new(SHORTHAUL);
        command.args(["connect", "127.0.0.1:9", "--via", &via, "--secret"]).arg(secret);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    connect(&wrong);
    said_of(&["refused", "127.0.0.1:", "tls_certificate_error"]);
    // One has all that there is for one; the node is called as it was asked for, not by where it listens.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = Command::new(SHORTHAUL);
    command.args(["connect", &server.local_addr().unwrap().to_string(), "--via", &via, "--secret"]);
    let mut first = command.arg(&network.secret).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let (_far, _) = server.accept().unwrap();
    let words = connect(&network.secret);
    assert!(words.contains(&format!("{via} takes no more")) && !words.contains("0.0.0.0"), "{words}");
    said_of(&[
        "refused",
        "\"members\"",
        "\"127.0.0.1:9\"",
        "connection_limit_reached",
        "sessions that it takes",
    ]);
    first.kill().unwrap();
    first.wait().unwrap();
    // Nobody fills the disk.
    (0..50).for_each(|_| drop(ask("NO REQUEST\r\n\r\n")));
    let said = std::fs::read_to_string(&log).unwrap();
    let lines = said.lines().filter(|line| line.contains("http_request_error")).count();
    assert!(lines < 30, "{lines}");
}

#[test]
fn a_destination_that_is_forbidden_is_in_the_log_and_named_to_who_asked() {
    let network = Network::start("forbidden-log", 0, &[]);
    let (node, log) = logging_node(&network, &[]);
    let via = format!("127.0.0.1:{}", node.addresses[0].port());
    let mut command = Command::new(SHORTHAUL);
    command.args(["connect", "127.0.0.1:9", "--via", &via, "--secret"]).arg(&network.secret);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains(&format!("{via} may not go to 127.0.0.1:9")), "{words}");
    let said = std::fs::read_to_string(&log).unwrap();
    let is_it = |line: &str| line.contains("destination_ip_prohibited") && line.contains("\"127.0.0.1:9\"");
    assert!(said.lines().any(is_it), "{said}");
}

#[test]
fn curl_uses_a_node_as_it_is() {
    let curl = program("curl");
    let settings = std::env::temp_dir().join(format!("shorthaul-users-{}", std::process::id()));
    std::fs::write(&settings, "[users.alice]\ntoken = \"0123456789abcdef\"\n").unwrap();
    let network = Network::start("curl-direct", 2, &["--settings", settings.to_str().unwrap()]);
    // One that listens at all addresses has the names that it is called by in its certificate.
    let mut named = Command::new(SHORTHAUL);
    named.args(["node", "--listen", "0.0.0.0:0", "--name", "paris", "--reached-by", "relay.example:7080"]);
    named.args(["--allow-destination", "127.0.0.0/8", "--settings", settings.to_str().unwrap(), "--secret"]);
    let named = Running::start(named.arg(&network.secret), 1);
    let authority = network.folder().join("authority.pem");
    let pem = succeeds(Command::new(SHORTHAUL).args(["secret", "--authority"]).arg(&network.secret)).stdout;
    std::fs::write(&authority, pem).unwrap();
    let body = pattern(1_000_000);
    let url = format!("http://{}/", web(body.clone()).0);
    let by = |user: &str| {
        let mut command = Command::new(&curl);
        command.args(["-sSp", "-m", "60", "--proxy-cacert"]).arg(&authority);
        command.arg("-x").arg(format!("https://{user}@{}", network.nodes[0].addresses[0])).arg(&url);
        command
    };
    let second = format!("Shorthaul-Via: {}", network.nodes[1].addresses[0]);
    assert!(succeeds(&mut by("alice:0123456789abcdef")).stdout == body);
    assert!(succeeds(by("alice:0123456789abcdef").args(["--proxy-header", &second])).stdout == body);
    assert!(!by("alice:wrong").output().unwrap().status.success());
    for name in ["paris", "relay.example"] {
        let port = named.addresses[0].port();
        let mut fetch = Command::new(&curl);
        fetch.args(["-sSp", "-m", "60", "--proxy-cacert"]).arg(&authority).args(["--resolve"]);
        fetch.arg(format!("{name}:{port}:127.0.0.1"));
        fetch.arg("-x").arg(format!("https://alice:0123456789abcdef@{name}:{port}")).arg(&url);
        assert!(succeeds(&mut fetch).stdout == body);
    }
    std::fs::remove_file(settings).unwrap();
}

/// An ssh server for this user alone.
struct Ssh {
    port: u16,
    folder: PathBuf,
    server: std::process::Child,
}

impl Ssh {
    fn start(folder: &Path) -> Ssh {
        let sshd = program("sshd");
        for key in ["host", "user"] {
            let file = folder.join(key);
            succeeds(
                Command::new(program("ssh-keygen")).args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file),
            );
        }
        std::fs::copy(folder.join("user.pub"), folder.join("authorized")).unwrap();
        // Where root's gives up its privileges; Debian's unit makes it.
        if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
            std::fs::create_dir_all("/run/sshd").unwrap();
        }
        let port = free_port();
        let server = Command::new(sshd)
            .args(["-D", "-e", "-f", "/dev/null", "-p", &port.to_string(), "-o", "ListenAddress=127.0.0.1"])
            .args(["-o", "UsePAM=no", "-o", "StrictModes=no", "-o", "PidFile=none", "-o", "MaxStartups=100"])
            .arg("-o")
            .arg(format!("HostKey={}", folder.join("host").display()))
            .arg("-o")
            .arg(format!("AuthorizedKeysFile={}", folder.join("authorized").display()))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until_it_listens(port);
        Ssh { port, folder: folder.to_owned(), server }
    }

    /// ssh by way of some nodes, as one command.
    fn by(&self, network: &Network, nodes: usize) -> String {
        format!(
            "ssh -F /dev/null -i {} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \
             -o BatchMode=yes -o 'ProxyCommand={SHORTHAUL} connect %h:%p --via {} --secret {}' -p {}",
            self.folder.join("user").display(),
            network.via(nodes),
            network.secret.display(),
            self.port
        )
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn until_it_listens(port: u16) {
    let since = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(since.elapsed() < Duration::from_secs(30), "nothing listens at port {port}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn git_and_rsync_over_ssh() {
    let (git, rsync) = (program("git"), program("rsync"));
    let network = Network::start("ssh", 3, &[]);
    let ssh = Ssh::start(network.folder());
    let source = network.folder().join("source");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("data"), pattern(2_000_000)).unwrap();
    let in_source = |args: &[&str]| {
        let who = ["-c", "user.name=test", "-c", "user.email=test@example.org"];
        succeeds(Command::new(&git).arg("-C").arg(&source).args(who).args(args));
    };
    in_source(&["init", "-q"]);
    in_source(&["add", "data"]);
    in_source(&["commit", "-qm", "data"]);
    for nodes in 1..=3 {
        let by = ssh.by(&network, nodes);
        let clone = network.folder().join(format!("clone{nodes}"));
        let url = format!("ssh://localhost{}", source.display());
        succeeds(Command::new(&git).env("GIT_SSH_COMMAND", &by).args(["clone", "-q", &url]).arg(&clone));
        assert!(std::fs::read(clone.join("data")).unwrap() == pattern(2_000_000));
        let copy = network.folder().join(format!("copy{nodes}"));
        let from = format!("localhost:{}/", source.display());
        succeeds(Command::new(&rsync).args(["-a", "-e", &by, &from]).arg(&copy));
        assert!(std::fs::read(copy.join("data")).unwrap() == pattern(2_000_000));
    }
}

#[test]
fn iperf3_in_both_directions() {
    let (iperf3, network) = (program("iperf3"), Network::start("iperf3", 3, &[]));
    for nodes in 1..=3 {
        for backwards in [false, true] {
            let port = free_port();
            let mut server = Command::new(&iperf3)
                .args(["-s", "-1", "-B", "127.0.0.1", "-p", &port.to_string()])
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let forward = format!("127.0.0.1:0=127.0.0.1:{port}");
            let proxy = Running::start(network.client("proxy", nodes).args(["--forward", &forward]), 1);
            let local = proxy.addresses[0].port().to_string();
            let since = Instant::now();
            loop {
                let mut client = Command::new(&iperf3);
                client.args(["-c", "127.0.0.1", "-p", &local, "-n", "20M", "-P", "4"]);
                client.args(backwards.then_some("-R"));
                let output = client.output().unwrap();
                if output.status.success() {
                    break;
                }
                // It says by no sign that it listens, and a connection to find out would be its only one.
                let words = String::from_utf8_lossy(&output.stderr);
                assert!(since.elapsed() < Duration::from_secs(30), "{words}");
            }
            assert!(server.wait().unwrap().success());
        }
    }
}

#[test]
fn half_closes_and_resets_of_standard_output() {
    let network = Network::start("connect", 2, &[]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let start = || {
        let mut client = network.client("connect", 2);
        client.arg(&target).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        client.spawn().unwrap()
    };
    // The end of the input arrives, and only then the answer is given.
    let mut client = start();
    client.stdin.take().unwrap().write_all(&pattern(500_000)).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    let mut heard = Vec::new();
    far.read_to_end(&mut heard).unwrap();
    assert!(heard == pattern(500_000));
    far.write_all(&pattern(300_000)).unwrap();
    drop(far);
    let output = client.wait_with_output().unwrap();
    assert!(output.status.success() && output.stdout == pattern(300_000));
    // The destination ends first, and hears the rest all the same: it reads when the input has waited.
    let mut client = start();
    let (mut far, _) = listener.accept().unwrap();
    far.shutdown(std::net::Shutdown::Write).unwrap();
    let mut nothing = Vec::new();
    client.stdout.take().unwrap().read_to_end(&mut nothing).unwrap();
    assert!(nothing.is_empty(), "standard output ends with what the destination says");
    client.stdin.take().unwrap().write_all(&pattern(3_000_000)).unwrap();
    let mut heard = Vec::new();
    far.read_to_end(&mut heard).unwrap();
    assert!(heard == pattern(3_000_000), "{} of 3,000,000 bytes", heard.len());
    drop(far);
    assert!(client.wait().unwrap().success());
    // It has closed, and not ended: what it does not take is an error.
    let mut client = start();
    let (far, _) = listener.accept().unwrap();
    drop(far);
    let mut stdin = client.stdin.take().unwrap();
    // As long as that is not known, it is taken.
    while stdin.write_all(&pattern(100_000)).is_ok() {}
    drop(stdin);
    let output = client.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("what was sent has not all arrived"), "{said}");
    // What is cut off is an error.
    let mut client = start();
    let (mut far, _) = listener.accept().unwrap();
    far.write_all(b"half").unwrap();
    let mut came = [0; 4];
    client.stdout.as_mut().unwrap().read_exact(&mut came).unwrap();
    assert_eq!(&came, b"half");
    socket2::SockRef::from(&far).set_linger(Some(Duration::ZERO)).unwrap();
    drop(far);
    let output = client.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("what came is not all"), "{said}");
}

#[test]
fn at_a_terminal_the_end_of_the_destination_is_the_end() {
    let network = Network::start("terminal", 1, &[]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    let by_node = format!("--via {} --secret {}", network.via(1), network.secret.display());
    for way in ["", &format!("{by_node} --no-moves"), &by_node] {
        // A terminal of its own, at which nobody ever types anything.
        let mut terminal = Command::new(program("script"));
        terminal.args(["-qec", &format!("{SHORTHAUL} connect {target} {way}"), "/dev/null"]);
        let mut terminal = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let _nobody_types = terminal.stdin.take().unwrap();
        let (mut far, _) = listener.accept().unwrap();
        far.write_all(b"last words").unwrap();
        far.shutdown(std::net::Shutdown::Write).unwrap();
        let mut shown = String::new();
        terminal.stdout.take().unwrap().read_to_string(&mut shown).unwrap();
        assert!(terminal.wait().unwrap().success(), "{way}: {shown}");
        assert_eq!(shown, "last words", "{way}");
    }
}
