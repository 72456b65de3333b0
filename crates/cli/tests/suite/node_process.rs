//! What a node is as a process: the sockets that it is handed, what it tells who started it, and the privileges
//! that its threads have.
use crate::relays::{Running, SHORTHAUL};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(60);

/// A folder that vanishes with its test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("shorthaul-node-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn secret(&self) -> PathBuf {
        let secret = self.0.join("secret");
        let made = Command::new(SHORTHAUL).arg("secret").arg(&secret).stdout(Stdio::null()).status();
        assert!(made.unwrap().success());
        secret
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a node answers to a request for a session to `target`.
pub fn ask(node: SocketAddr, target: &str) -> (TcpStream, String) {
    let mut socket = TcpStream::connect(node).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket.write_all(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    (socket, String::from_utf8(head).unwrap())
}

/// A name and a port at which nobody listens.
fn nobody_there() -> String {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    format!("localhost:{}", closed.port())
}

fn signal(name: &str, process: u32) {
    let sent = Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// A process that ends with its test, however that ends.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_service_whose_output_cannot_be_written_goes_on() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    for (command, asked) in [
        (&["node", "--allow", "127.0.0.0/8", "--allow-destination", "127.0.0.0/8"][..], "--listen"),
        (&["proxy"], "--listen"),
    ] {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut service = Command::new(SHORTHAUL);
        service.args(command).args([asked, &free.to_string()]).stdin(Stdio::null());
        service.stderr(full.try_clone().unwrap());
        let mut service = Service(service.stdout(full).spawn().unwrap());
        let since = Instant::now();
        while TcpStream::connect(free).is_err() {
            assert!(
                since.elapsed() < TIMEOUT && service.0.try_wait().unwrap().is_none(),
                "{command:?} ended"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        let (_near, answer) = ask(free, &target.to_string());
        assert!(answer.starts_with("HTTP/1.1 200"), "{command:?}: {answer}");
        signal("TERM", service.0.id());
        service.0.wait().unwrap();
    }
}

#[test]
fn sockets_of_systemd_are_used_and_it_is_told_how_things_stand() {
    let folder = Scratch::new("systemd");
    let notified = UnixDatagram::bind(folder.0.join("notify")).unwrap();
    notified.set_read_timeout(Some(TIMEOUT)).unwrap();
    let hears = |wanted: &str| {
        let mut bytes = [0; 256];
        let said = notified.recv(&mut bytes).map(|len| String::from_utf8_lossy(&bytes[..len]).into_owned());
        assert!(said.as_ref().is_ok_and(|said| said.contains(wanted)), "{wanted}: {said:?}");
    };
    // Two that listen, as descriptors 3 and 4 (sd_listen_fds(3)), and the process id that only the process itself
    // knows. A connection that waits already is served, too.
    let handed = [0, 0].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = handed.each_ref().map(|listener| listener.local_addr().unwrap());
    let [first, second] = handed.map(OwnedFd::from);
    let hand_over = "exec 3<&0 4<&1 0</dev/null 1>&2; LISTEN_PID=$$ LISTEN_FDS=2 exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", hand_over, "sh", SHORTHAUL, "node", "--allow", "127.0.0.0/8"]);
    command.args(["--allow-destination", "127.0.0.0/8", "--drain", "60s"]);
    command.env("NOTIFY_SOCKET", folder.0.join("notify"));
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let early = TcpStream::connect(addresses[1]).unwrap();
    let mut node = command.stdin(Stdio::from(first)).stdout(Stdio::from(second)).spawn().unwrap();
    hears("READY=1");
    let open: Vec<TcpStream> = addresses
        .iter()
        .map(|address| {
            let (socket, answer) = ask(*address, &target.to_string());
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            socket
        })
        .collect();
    (&early).write_all(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
    let mut status = [0; 12];
    (&early).read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    signal("TERM", node.id());
    hears("STOPPING=1");
    assert!(node.try_wait().unwrap().is_none(), "sessions have the time of --drain");
    let mut ended: Vec<TcpStream> = (0..3).map(|_| server.accept().unwrap().0).collect();
    for socket in open.iter().chain([&early]) {
        socket.shutdown(std::net::Shutdown::Write).unwrap();
    }
    ended.clear();
    assert!(node.wait().unwrap().success());
}

/// Fields of every thread's status (proc(5)).
fn threads(process: u32, fields: &[&str]) -> Vec<(String, Vec<String>)> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let status = |task: std::io::Result<std::fs::DirEntry>| {
        // One that has ended meanwhile has nothing.
        let text = std::fs::read_to_string(task.unwrap().path().join("status")).ok()?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
            line.map(|value| value.split_whitespace().collect::<Vec<_>>().join(" ")).unwrap_or_default()
        };
        Some((field("Name"), fields.iter().map(|name| field(name)).collect()))
    };
    tasks.filter_map(status).collect()
}

/// A node with a thread of every kind.
fn node_with_everything(folder: &Scratch, more: &[&str]) -> Running {
    let mut command = Command::new(SHORTHAUL);
    command.args(["node", "--listen", "127.0.0.1:0", "--secret"]).arg(folder.secret());
    command.args(["--metrics", "127.0.0.1:0", "--echo", "127.0.0.1:0", "--probes", "127.0.0.1:0"]);
    command.args(["--allow", "127.0.0.0/8", "--allow-destination", "127.0.0.0/8"]);
    command.args(["--allow-destination", "::1"]).args(more);
    // Sessions, metrics (a URL), probes, echo.
    Running::start(&mut command, 3)
}

#[test]
fn every_thread_has_given_up_its_privileges() {
    let folder = Scratch::new("threads");
    let fields = ["Seccomp_filters", "NoNewPrivs", "CapEff", "CapPrm", "CapInh"];
    let of = |node: &Running| {
        // Threads that look names up come when they are needed.
        let (_, answer) = ask(node.addresses[0], &nobody_there());
        assert!(answer.contains("connection_refused"), "{answer}");
        threads(node.child.id(), &fields)
    };
    let kept = Scratch::new("kept");
    let keeps = of(&node_with_everything(&kept, &["--keep-privileges"]));
    // Containers have filters of their own.
    let own = threads(std::process::id(), &fields)[0].1[0].clone();
    assert!(keeps.iter().all(|(_, values)| values[0] == own), "{keeps:?}");
    let node = node_with_everything(&folder, &[]);
    // A thread takes its name a moment after it has begun, which on a machine with much to do is a while.
    let missing = |seen: &[(String, Vec<String>)]| {
        ["answering", "echo", "signals", "node-0"]
            .into_iter()
            .find(|name| !seen.iter().any(|(thread, _)| thread == name))
    };
    let mut gives_up = of(&node);
    for _ in 0..1000 {
        if missing(&gives_up).is_none() {
            break;
        }
        gives_up = of(&node);
    }
    assert_eq!(missing(&gives_up), None, "{gives_up:?}");
    let nothing = "0000000000000000";
    // That there is no `clone3`, and the list of calls.
    let two_more = (own.parse::<u32>().unwrap() + 2).to_string();
    for (thread, values) in &gives_up {
        // Files are given up before system calls, by the same thread.
        assert_eq!(values, &[two_more.as_str(), "1", nothing, nothing, nothing], "{thread}");
    }
}

#[test]
fn root_becomes_the_user_that_is_named() {
    let folder = Scratch::new("user");
    let unknown = Command::new(SHORTHAUL)
        .args(["node", "--listen", "127.0.0.1:0", "--run-as", "no-such-user"])
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&unknown.stderr);
    assert!(
        !unknown.status.success() && words.contains("useradd") && words.contains("no-such-user"),
        "{words}"
    );
    let table = std::fs::read_to_string("/etc/passwd").unwrap();
    let nobody = table.lines().find_map(|line| line.strip_prefix("nobody:")).expect("a user `nobody`");
    let ids: Vec<&str> = nobody.split(':').skip(1).take(2).collect();
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| {
        use std::os::unix::fs::MetadataExt as _;
        own.uid() == 0
    });
    if !is_root {
        eprintln!("not root: that root becomes another user was not tested");
        return;
    }
    let node = node_with_everything(&folder, &["--run-as", "nobody"]);
    let (_, answer) = ask(node.addresses[0], &nobody_there());
    assert!(answer.contains("connection_refused"), "it works on: {answer}");
    let four = |id: &str| [id; 4].join(" ");
    for (thread, values) in threads(node.child.id(), &["Uid", "Gid", "Groups", "CapEff", "CapPrm"]) {
        let nothing = "0000000000000000".to_owned();
        assert_eq!(values, [four(ids[0]), four(ids[1]), String::new(), nothing.clone(), nothing], "{thread}");
    }
}

#[test]
fn proxies_and_responders_give_up_their_privileges_too() {
    let folder = Scratch::new("others");
    let secret = folder.secret();
    let fields = ["Seccomp_filters", "NoNewPrivs", "CapEff", "CapPrm", "CapInh"];
    let own = threads(std::process::id(), &fields)[0].1[0].clone();
    let two_more = (own.parse::<u32>().unwrap() + 2).to_string();
    for arguments in [["proxy", "--listen", "127.0.0.1:0"], ["respond", "--listen", "127.0.0.1:0"]] {
        let mut command = Command::new(SHORTHAUL);
        command.args(arguments).arg("--secret").arg(&secret);
        let running = Running::start(&mut command, 1);
        let none = "0000000000000000";
        for (thread, values) in threads(running.child.id(), &fields) {
            assert_eq!(values, [two_more.as_str(), "1", none, none, none], "{arguments:?} {thread}");
        }
    }
}

#[test]
fn settings_that_are_replaced_are_read_again() {
    let folder = Scratch::new("replaced");
    let (settings, new, log) = (folder.0.join("users.toml"), folder.0.join("new"), folder.0.join("log"));
    std::fs::write(&settings, "").unwrap();
    let mut command = Command::new(SHORTHAUL);
    command.args(["node", "--listen", "127.0.0.1:0", "--secret"]).arg(folder.secret());
    command.args(["--allow-destination", "127.0.0.0/8", "--settings"]).arg(&settings);
    let node = Running::start(command.stderr(std::fs::File::create(&log).unwrap()), 1);
    let target = nobody_there();
    assert!(ask(node.addresses[0], &target).1.contains(" 407 "));
    for round in 1..=3 {
        std::fs::write(&new, "allow = [\"127.0.0.0/8\"]\n").unwrap();
        std::fs::rename(&new, &settings).unwrap();
        signal("HUP", node.child.id());
        let since = std::time::Instant::now();
        let said = || std::fs::read_to_string(&log).unwrap();
        while said().matches("were read again").count() < round {
            assert!(!said().contains("stay as they are"), "{}", said());
            assert!(since.elapsed() < TIMEOUT, "{}", said());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let (_, answer) = ask(node.addresses[0], &target);
    assert!(answer.contains("connection_refused"), "{answer}");
}

#[test]
fn sessions_that_wait_for_a_first_byte_cost_nothing() {
    let mut command = Command::new(SHORTHAUL);
    command.args(["node", "--listen", "127.0.0.1:0", "--allow-destination", "127.0.0.0/8"]);
    let node = Running::start(&mut command, 1);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let sessions: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut socket = TcpStream::connect(node.addresses[0]).unwrap();
            let head = format!("CONNECT {target} HTTP/1.1\r\nShorthaul-Forward: wait=16\r\n\r\n");
            socket.write_all(head.as_bytes()).unwrap();
            let mut status = [0; 12];
            socket.read_exact(&mut status).unwrap();
            assert_eq!(&status, b"HTTP/1.1 200");
            socket
        })
        .collect();
    // Ticks of its processor time, a hundredth of a second each (proc(5)).
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", node.child.id())).unwrap();
        let after_name = stat.rsplit_once(')').unwrap().1;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let before = ticks();
    std::thread::sleep(Duration::from_secs(2));
    let took = ticks() - before;
    // It was half a second a second; there are other things to look after, ten times a second.
    assert!(took <= 20, "{took} hundredths of a second in two seconds");
    drop(sessions);
}

#[test]
fn credentials_of_an_authority_open_sessions() {
    let folder = Scratch::new("authority");
    let path = |name: &str| folder.0.join(name);
    let secret = |arguments: &[&str]| {
        let output = Command::new(SHORTHAUL).arg("secret").args(arguments).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {words}");
        String::from_utf8(output.stdout).unwrap()
    };
    let (net, node, alice) = (path("net"), path("paris.pem"), path("alice.pem"));
    let [net, node, alice] = [&net, &node, &alice].map(|path| path.to_str().unwrap());
    secret(&["authority", net]);
    secret(&["issue", net, "--node", "paris", "--reached-by", "127.0.0.1", "--to", node]);
    let said = secret(&["issue", net, "--client", "alice", "--days", "30", "--to", alice]);
    // What cannot be written is not on record as issued.
    for to in [alice, "/nowhere/at/all/alice.pem"] {
        let again = Command::new(SHORTHAUL)
            .args(["secret", "issue", net, "--client", "mallory", "--to", to])
            .output()
            .unwrap();
        assert!(!again.status.success(), "{to}");
    }
    let on_record = Command::new(SHORTHAUL).args(["secret", "list", net]).output().unwrap();
    let on_record = String::from_utf8_lossy(&on_record.stdout).into_owned();
    assert!(on_record.contains("alice") && !on_record.contains("mallory"), "{on_record}");
    let serial = said.split_whitespace().last().unwrap();
    assert!(secret(&["list", net]).contains(&format!("{serial} client alice ")), "{said}");
    let mut command = Command::new(SHORTHAUL);
    command.args([
        "node",
        "--listen",
        "127.0.0.1:0",
        "--allow-destination",
        "127.0.0.0/8",
        "--credential",
        node,
    ]);
    let running = Running::start(&mut command, 1);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap().to_string();
    let via = running.addresses[0].to_string();
    let client = Command::new(SHORTHAUL)
        .args(["connect", &target, "--via", &via, "--credential", alice])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    server.accept().unwrap().0.write_all(b"hello").unwrap();
    let output = client.wait_with_output().unwrap();
    assert!(output.status.success() && output.stdout == b"hello", "{output:?}");
    // Without one, nobody is let in; and a key is never written over.
    let (_, answer) = ask(running.addresses[0], &target);
    assert!(answer.contains(" 407 "), "{answer}");
    let again = Command::new(SHORTHAUL).args(["secret", "authority", net]).output().unwrap();
    assert_eq!(again.status.code(), Some(2), "{}", String::from_utf8_lossy(&again.stderr));
}

#[test]
fn a_secret_is_exchanged_in_files_that_confined_processes_read_again() {
    let folder = Scratch::new("exchange");
    let secret = folder.secret();
    let former = folder.0.join("former");
    std::fs::copy(&secret, &former).unwrap();
    let exchange = |step: &str| {
        Command::new(SHORTHAUL).arg("secret").arg(&secret).args(["--exchange", step]).output().unwrap()
    };
    assert_eq!(exchange("switch").status.code(), Some(2), "it is not announced");
    let mut node = Command::new(SHORTHAUL);
    node.args(["node", "--listen", "127.0.0.1:0", "--allow-destination", "127.0.0.0/8", "--secret"])
        .arg(&secret);
    let node = Running::start(&mut node, 1);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for socket in server.incoming().flatten() {
            std::thread::spawn(move || std::io::copy(&mut &socket, &mut &socket));
        }
    });
    let via = node.addresses[0].to_string();
    let mut proxy = Command::new(SHORTHAUL);
    proxy.args([
        "proxy",
        "--via",
        &via,
        "--no-moves",
        "--forward",
        &format!("127.0.0.1:0={target}"),
        "--secret",
    ]);
    let (said, says) = UnixStream::pair().unwrap();
    let proxy = Running::start(proxy.arg(&secret).stderr(OwnedFd::from(says)), 1);
    let mut said = BufReader::new(said);
    let answers = |mut session: &TcpStream| {
        session.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut heard = [0; 2];
        session.write_all(b"on").unwrap();
        session.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"on");
    };
    let through_all = TcpStream::connect(proxy.addresses[0]).unwrap();
    answers(&through_all);
    let connect = |secret: &std::path::Path| {
        let mut command = Command::new(SHORTHAUL);
        command.args(["connect", &target, "--via", &via, "--secret"]).arg(secret).stdin(Stdio::null());
        command.output().unwrap()
    };
    for (number, step) in ["announce", "switch", "retire"].into_iter().enumerate() {
        let done = exchange(step);
        assert!(done.status.success(), "{step}: {}", String::from_utf8_lossy(&done.stderr));
        let text = std::fs::read_to_string(&secret).unwrap();
        assert_eq!(text.lines().count(), [2, 2, 1][number], "{step}");
        assert_eq!(text.contains(std::fs::read_to_string(&former).unwrap().trim()), step != "retire");
        assert_eq!(std::fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
        for process in [&node, &proxy] {
            signal("HUP", process.child.id());
        }
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains("was read again"), "{line}");
        // The node may not have read it yet, but is a step behind at most.
        answers(&TcpStream::connect(proxy.addresses[0]).unwrap());
        answers(&through_all);
        let met = connect(&secret);
        assert!(met.status.success(), "{step}: {}", String::from_utf8_lossy(&met.stderr));
    }
    let since = Instant::now();
    while connect(&former).status.success() {
        assert!(since.elapsed() < TIMEOUT, "what is retired is believed");
    }
    answers(&through_all);
}
