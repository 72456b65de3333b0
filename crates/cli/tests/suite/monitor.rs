//! What people see of a running gateway: metrics, the page, `top` in a terminal, and the first six commands. Needs root, or user
//! namespaces; Debian's `promtool` and `tmux` where they are, otherwise what takes them is checked as far as it goes.
use crate::program::program;
use crate::relays::{Running, SHORTHAUL};
use shorthaul_lab::{Lab, Topology};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(60);

/// A gateway between two phones and a server, as `topologies/first-gateway.toml` says.
struct Site {
    folder: PathBuf,
    lab: Lab,
}

impl Site {
    fn new(name: &str) -> Site {
        let folder = std::env::temp_dir().join(format!("shorthaul-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let topology = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies/first-gateway.toml");
        let topology = Topology::from_file(&topology).unwrap();
        Site {
            folder,
            lab: Lab::start(&topology).unwrap_or_else(|error| panic!("this test needs a lab: {error}")),
        }
    }

    fn gateway(&self, more: &[&str]) -> Command {
        let mut command = Command::new(SHORTHAUL);
        command.args(["gateway", "--access", "to-phone-1", "--access", "to-phone-2", "--wan", "to-server"]);
        command.arg("--run-dir").arg(&self.folder).args(more);
        command
    }

    /// In the gateway's namespace: what a command says, and whether it was content.
    fn said(&self, command: &mut Command) -> (bool, String) {
        let said = self.lab.host("gateway").run(|| command.output().unwrap());
        let text =
            String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
        (said.status.success(), text)
    }

    /// A download that is under way: both its ends.
    fn connect(&self, phone: &str) -> (TcpStream, TcpStream) {
        let address = self.lab.host("server").address_v4();
        let listener = self.lab.host("server").run(|| TcpListener::bind((address, 0))).unwrap();
        let to = listener.local_addr().unwrap();
        let client = self.lab.host(phone).run(|| TcpStream::connect(to)).unwrap();
        let (server, _) = listener.accept().unwrap();
        for end in [&client, &server] {
            end.set_read_timeout(Some(TIMEOUT)).unwrap();
            end.set_write_timeout(Some(TIMEOUT)).unwrap();
        }
        (client, server)
    }

    /// What `GET` of the gateway's own page answers.
    fn get(&self, path: &str) -> String {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", 7090))?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        };
        let answer = self.lab.host("gateway").run(ask).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Reads and forgets, while the other end sends, until `enough`.
fn download(client: &mut TcpStream, server: &mut TcpStream, enough: impl FnMut() -> bool) {
    let mut enough = enough;
    let (over, mut piece) = (AtomicBool::new(false), vec![0; 64 << 10]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                if over.load(Ordering::Relaxed) || server.write_all(&[7; 16 << 10]).is_err() {
                    return;
                }
            }
        });
        let deadline = Instant::now() + TIMEOUT;
        client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        while !enough() {
            assert!(Instant::now() < deadline, "it never came");
            let until = Instant::now() + Duration::from_millis(200);
            while Instant::now() < until {
                let _ = client.read(&mut piece);
            }
        }
        over.store(true, Ordering::Relaxed);
        // Whoever still writes has room again, or is told that nobody reads.
        let _ = client.shutdown(std::net::Shutdown::Both);
    });
}

/// What idle connections take, of a few: both ends are processes of their own, and each connection is split and answered.
#[test]
fn what_idle_connections_take_is_measured() {
    let measured = Command::new(SHORTHAUL).args(["bench", "scale", "--flows", "120"]).output().unwrap();
    let said = String::from_utf8_lossy(&measured.stdout);
    assert!(measured.status.success(), "{measured:?}");
    let json: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    for (key, wanted) in [("flows", 120), ("split", 120), ("listed", 120)] {
        assert_eq!(json[key], wanted, "{key} in {json}");
    }
    assert!(json["bytes_per_idle_flow"].as_f64().is_some_and(|bytes| bytes > 500.0), "{json}");
}

/// Sockets of a service manager's (sd_listen_fds(3)) are the page's and the one for questions; and one that is for all the world is refused.
#[test]
fn a_gateway_takes_sockets_that_are_handed_to_it() {
    let site = Site::new("activated");
    let (path, gateway) = (site.folder.join("gw.sock"), site.lab.host("gateway"));
    let hand_over = "exec 3<&0 4<&1 0</dev/null 1>&2; LISTEN_PID=$$ LISTEN_FDS=2 exec \"$@\"";
    let start = |pages: TcpListener| {
        let control = UnixListener::bind(&path).unwrap();
        let given = site.gateway(&[]);
        let mut command = Command::new("sh");
        command.args(["-c", hand_over, "sh"]).arg(given.get_program()).args(given.get_args());
        command.stdin(OwnedFd::from(pages)).stdout(OwnedFd::from(control)).stderr(Stdio::piped());
        gateway.spawn(&mut command).unwrap()
    };
    let mut running = start(gateway.run(|| TcpListener::bind(("127.0.0.1", 7090))).unwrap());
    // Who asks before it runs waits for it.
    assert!(site.get("/metrics").contains("shorthaul_gateway_flows"));
    let (content, said) =
        site.said(Command::new(SHORTHAUL).args(["flows", "--json", "--run-dir"]).arg(&site.folder));
    assert!(content && said.trim() == "[]", "{said}");
    let stopped = Command::new("kill").args(["-s", "TERM", &running.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    assert!(running.wait().unwrap().success());
    assert!(path.exists(), "the service manager's file is its own");
    std::fs::remove_file(&path).unwrap();
    let refused =
        start(gateway.run(|| TcpListener::bind(("0.0.0.0", 7090))).unwrap()).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("0.0.0.0:7090"), "{said}");
}

#[test]
fn metrics_and_page_tell_of_a_flow_while_it_is_there() {
    let site = Site::new("metrics");
    let mut command = site.gateway(&["--metrics", "--control-group", "0"]);
    let mut running = Running::start_in(site.lab.host("gateway"), command.stderr(Stdio::null()), 1);
    let (mut client, mut server) = site.connect("phone-2");
    let mut busy = String::new();
    download(&mut client, &mut server, || {
        let status: serde_json::Value = serde_json::from_str(&site.get("/status.json")).unwrap();
        let host = &status["hosts"][0];
        let is_busy = host["down"].as_f64().is_some_and(|rate| rate > 1e6) && host["queue_ms"].is_number();
        if is_busy {
            assert_eq!(
                (host["host"].as_str(), host["split"].as_u64()),
                (Some("10.2.0.1"), Some(1)),
                "{status}"
            );
            assert!(
                host["rtt_ms"].as_f64().is_some_and(|rtt| rtt >= 49.0),
                "the phone is 50 ms away: {status}"
            );
            assert!(
                status["top_flows"][0]["wan"]["rtt_ms"].as_f64().is_some_and(|rtt| rtt >= 59.0),
                "{status}"
            );
            busy = site.get("/metrics");
        }
        is_busy
            && busy.contains("access_queueing_delay_seconds_count")
            && !busy.contains("delay_seconds_count 0")
    });
    assert!(busy.contains("shorthaul_gateway_flows{state=\"split\"} 1"), "{busy}");
    let page = site.get("/");
    // It asks nobody else: the only address in it is the name of a format.
    let elsewhere =
        page.match_indices("://").filter(|(at, _)| !page[at + 3..].starts_with("www.w3.org/2000/svg"));
    assert!(page.contains("What it gives you") && elsewhere.count() == 0, "{page}");
    // What Debian's own tool makes of them.
    let mut promtool = Command::new(program("promtool"));
    let mut checking =
        promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    checking.stdin.take().unwrap().write_all(busy.as_bytes()).unwrap();
    let said = checking.wait_with_output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    // A successor serves the page at the same address.
    let mut successor = site.gateway(&["--metrics", "--control-group", "0", "--take-over"]);
    let mut successor = Running::start_in(site.lab.host("gateway"), successor.stderr(Stdio::null()), 1);
    assert!(running.child.wait().unwrap().success());
    assert!(site.get("/").contains("What it gives you"));
    Command::new("kill").arg(successor.child.id().to_string()).status().unwrap();
    assert!(successor.child.wait().unwrap().success());
}

#[test]
fn a_second_gateway_on_the_same_interfaces_is_refused_and_what_is_left_is_removed() {
    let site = Site::new("second");
    // Routes, rules, devices and sysctls. What the kernel itself enters for addresses comes when it comes.
    let dump = "ip rule; ip -6 rule; (ip route show table all; ip -6 route show table all) | grep -v 'table local'; ls /sys/class/net; \
                grep -r . /proc/sys/net/ipv4/conf /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf 2>/dev/null | sort";
    let state = || site.said(Command::new("sh").args(["-c", dump])).1;
    let before = state();
    let mut first = site.gateway(&["--metrics"]);
    let mut running = Running::start_in(site.lab.host("gateway"), first.stderr(Stdio::null()), 1);
    assert_ne!(state(), before);
    let (started, said) = site.said(&mut site.gateway(&["--name", "other", "--table", "7101"]));
    assert!(
        !started && said.contains("`gw` splits what comes in there") && said.contains("to-phone-1"),
        "{said}"
    );
    let (started, said) = site.said(&mut site.gateway(&[]));
    assert!(!started && said.contains("--take-over goes on in its place"), "{said}");
    let (content, said) = site.said(&mut site.gateway(&["--check", "--metrics"]));
    assert!(content && said.contains("`gw` is running: SIGHUP") && said.contains("/metrics"), "{said}");
    let (content, said) = site.said(&mut site.gateway(&["--remove"]));
    assert!(!content && said.contains("is running already"), "{said}");
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    let (content, said) = site.said(&mut site.gateway(&["--remove"]));
    assert!(content && said.contains("gw.custody"), "{said}");
    assert_eq!(state(), before);
    assert!(!site.folder.exists(), "its directory is empty, and goes");
    let (content, said) = site.said(&mut site.gateway(&["--remove"]));
    assert!(content && said.contains("nothing was left"), "{said}");
}

#[test]
fn what_would_keep_a_gateway_from_starting_is_said_by_its_check() {
    let site = Site::new("check");
    let host = site.lab.host("gateway");
    let sh = |script: &str| {
        let done = host.run(|| Command::new("sh").args(["-ec", script]).output().unwrap());
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    };
    let sealed = site.folder.join("sealed");
    let sealed = sealed.to_str().unwrap();
    sh(&format!("mkdir {sealed} && mount -t tmpfs -o ro sealed {sealed}"));
    let refused = |command: &mut Command, words: &[&str]| {
        let (content, said) = site.said(command);
        assert!(!content && words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
        said
    };
    let record = format!("{sealed}/run.pcapng");
    let said = refused(&mut site.gateway(&["--check", "--record", &record]), &[sealed, "Read-only"]);
    assert!(!said.contains("--run-dir"), "that is of no use here: {said}");
    let folder = site.folder.to_str().unwrap();
    refused(&mut site.gateway(&["--check", "--record", folder]), &[folder, "directory"]);
    let in_directory = |directory: &str| {
        let mut command = Command::new(SHORTHAUL);
        command.args(["gateway", "--access", "to-phone-1", "--wan", "to-server", "--check", "--run-dir"]);
        command.arg(directory);
        command
    };
    refused(&mut in_directory(&format!("{sealed}/a/b")), &[sealed, "Read-only", "--run-dir"]);
    let long = format!("{folder}/{}", "x".repeat(100));
    refused(&mut in_directory(&long), &["107 at most", "--run-dir"]);
    // What an interface does not take is not taken, and told.
    let config = site.folder.join("mtu.toml");
    std::fs::write(&config, "[to_wan]\nmtu = 9000\n").unwrap();
    let mut command = site.gateway(&["--check", "--config"]);
    let (content, said) = site.said(command.arg(&config));
    assert!(content && said.contains("warning: [to_wan] mtu = 9000 is more"), "{said}");
    sh("ip route add blackhole default table 7002");
    refused(&mut site.gateway(&["--check"]), &["the routing table 7002 is in use", "--table"]);
    let (content, said) = site.said(&mut site.gateway(&["--check", "--table", "7101"]));
    assert!(content, "{said}");
}

/// A link for each phone's interface.
const OF_INTERFACES: &str = "[[bottleneck]]\nname = \"radio\"\ninterface = \"to-phone-1\"\n[[bottleneck]]\nname = \"wire\"\ninterface = \"to-phone-2\"\n";

#[test]
fn a_gateway_that_reads_its_configuration_again_says_whether_other_hosts_are_behind_an_interface() {
    let site = Site::new("behind");
    let config = site.folder.join("gateway.toml");
    std::fs::write(&config, OF_INTERFACES).unwrap();
    let gateway = site.lab.host("gateway");
    let mut command = site.gateway(&[]);
    command.arg("--config").arg(&config).stderr(Stdio::piped());
    let mut running = Running::start_in(gateway, &mut command, 1);
    let said = BufReader::new(running.child.stderr.take().unwrap()).lines();
    let mut said = said.map_while(Result::ok).filter(|line| line.starts_with("configuration"));
    let pid = running.child.id().to_string();
    let mut again = || {
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
        said.next().unwrap()
    };
    let line = again();
    assert!(line.contains("changed: nothing") && !line.contains("started again"), "{line}");
    let phone = site.lab.host("phone-1").address_v4().to_string();
    let (routed, text) = site.said(Command::new("ip").args(["route", "add", "10.77.0.0/16", "via", &phone]));
    assert!(routed, "{text}");
    let line = again();
    assert!(line.contains("changed: nothing") && line.contains("started again: bottleneck"), "{line}");
}

#[test]
fn a_check_says_what_would_be_done_and_does_nothing() {
    let site = Site::new("check");
    let state = || {
        site.said(Command::new("sh").args(["-c", "ip rule; ip -6 rule; ip link; ip route show table all"])).1
    };
    let before = state();
    let (content, said) = site.said(&mut site.gateway(&["--check", "--attach", "rules"]));
    for words in
        ["device sh-gw-e", "from to-phone-2, TCP and ICMP", "look into table 7002", "gw.custody", "537 MB"]
    {
        assert!(content && said.contains(words), "{words} is not in {said}");
    }
    assert_eq!(state(), before);
    let (content, said) =
        site.said(&mut site.gateway(&["--check", "--senders", "path-tail", "--bandwidth", "100 Mbit/s"]));
    assert!(!content && said.contains("100 Mbit/s") && said.contains("`per_flow`, 33.6 MB"), "{said}");
    let (content, said) = site.said(&mut site.gateway(&["--check", "--record", "/nowhere/at/all"]));
    assert!(!content && said.contains("/nowhere/at"), "{said}");
    let config = site.folder.join("gateway.toml");
    std::fs::write(&config, OF_INTERFACES).unwrap();
    let (content, said) = site.said(site.gateway(&["--check"]).arg("--config").arg(&config));
    for (name, host, interface) in [("radio", "phone-1", "to-phone-1"), ("wire", "phone-2", "to-phone-2")]
        .map(|(name, host, interface)| (name, site.lab.host(host), interface))
    {
        let line = said
            .lines()
            .find(|line| line.contains(&format!("bottleneck {name}: ")))
            .unwrap_or_else(|| panic!("{said}"));
        assert!(content && line.contains(&format!("behind {interface}")), "{said}");
        let hosts =
            line.split(": ").last().unwrap().split(", ").filter_map(|net| net.parse::<ipnet::IpNet>().ok());
        let hosts: Vec<_> = hosts.collect();
        for address in [host.address_v4().into(), std::net::IpAddr::from(host.address_v6())] {
            assert!(hosts.iter().any(|net| net.contains(&address)), "{address} is not in {line}");
        }
    }
    std::fs::remove_file(&config).unwrap();
    let mut without = Command::new(program("setpriv"));
    without.args(["--inh-caps", "-net_admin", "--bounding-set", "-net_admin"]).arg(SHORTHAUL);
    without.args(site.gateway(&["--check", "--attach", "rules"]).get_args());
    let (content, said) = site.said(&mut without);
    assert!(!content && said.contains("CAP_NET_ADMIN"), "{said}");
}

/// The screen of a real terminal, by tmux.
struct Screen(PathBuf);

impl Screen {
    fn tmux(&self, arguments: &[&str]) -> String {
        let said = Command::new(program("tmux")).arg("-S").arg(&self.0).args(arguments).output().unwrap();
        String::from_utf8_lossy(&said.stdout).into_owned()
    }

    fn until(&self, is_it: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let text = self.tmux(&["capture-pane", "-p"]);
            if is_it(&text) {
                return text;
            }
            assert!(Instant::now() < deadline, "the screen stays\n{text}");
            std::thread::yield_now();
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn top_shows_a_flow_in_a_terminal_of_80_columns() {
    let site = Site::new("top");
    let mut command = site.gateway(&["--control-group", "0"]);
    let running = Running::start_in(site.lab.host("gateway"), command.stderr(Stdio::null()), 1);
    let (mut client, mut server) = site.connect("phone-1");
    let screen = Screen(site.folder.join("tmux"));
    let top = format!("{SHORTHAUL} top --run-dir {}", site.folder.display());
    screen.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", &top]);
    let mut seen = String::new();
    download(&mut client, &mut server, || {
        seen = screen.tmux(&["capture-pane", "-p"]);
        seen.lines().any(|line| line.starts_with("10.1.0.1") && line.contains("Mbit/s"))
    });
    // As the snapshot has it, but for numbers.
    let shape: Vec<String> = seen.lines().map(shape_of).collect();
    let kept: Vec<String> = include_str!("top.screen").lines().map(shape_of).collect();
    for (line, (shape, kept)) in shape.iter().zip(&kept).enumerate() {
        // The first lines have times, sparklines, and what there is to gain; the seventh is the host.
        assert!(matches!(line, 0..=3 | 6) || shape == kept, "{shape}\n{kept}\n{seen}");
    }
    assert!(seen.starts_with("shorthaul gw  1 hosts  watched for "), "{seen}");
    assert!(seen.lines().all(|line| line.chars().count() <= 80), "{seen}");
    screen.tmux(&["send-keys", "?"]);
    screen.until(|text| text.contains("sort by rate, queue, held or name"));
    screen.tmux(&["send-keys", "Escape"]);
    screen.tmux(&["send-keys", "q"]);
    drop(running);
}

/// Words without numbers.
fn shape_of(line: &str) -> String {
    let words = line.split_whitespace().filter(|word| !word.contains(|letter: char| letter.is_ascii_digit()));
    words.collect::<Vec<_>>().join(" ")
}

/// From a package to the first split flow in `top` and on the page: the commands of docs/install.md.
#[test]
fn six_commands_lead_from_a_configuration_to_a_flow_in_top_and_on_the_page() {
    let site = Site::new("six");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/first-flow.sh");
    let mut command = Command::new("bash");
    command
        .arg(&script)
        .env("SHORTHAUL", SHORTHAUL)
        .env("RUN_DIR", &site.folder)
        .env("OPTIONS", "--control-group 0")
        .env("TMUX", program("tmux"));
    command.env("ACCESS", "to-phone-1").env("WAN", "to-server").env("FOLDER", &site.folder);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut script = site.lab.host("gateway").spawn(&mut command).unwrap();
    let mut lines = BufReader::new(script.stdout.take().unwrap()).lines();
    // It asks for traffic once the gateway is there.
    let asks = lines.by_ref().map(Result::unwrap).find(|line| line.contains("now open something"));
    if asks.is_none() {
        let mut said = String::new();
        script.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        panic!("the gateway never came: {said}");
    }
    let (mut client, mut server) = site.connect("phone-1");
    let mut said = Vec::new();
    download(&mut client, &mut server, || script.try_wait().unwrap().is_some());
    said.extend(lines.map(Result::unwrap));
    let said = said.join("\n");
    let mut errors = String::new();
    script.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(script.wait().unwrap().success(), "{said}\n{errors}");
    assert!(
        said.contains("in top:")
            && said.contains("on the page: \"client\"")
            && said.contains("removed without a trace"),
        "{said}"
    );
}
