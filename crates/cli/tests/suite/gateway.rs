//! `shorthaul gateway` as whoever runs it meets it: signals, its configuration, who may ask it. Needs root, or user namespaces.
use crate::relays::{Running, SHORTHAUL};
use shorthaul_lab::{Lab, LinkDescription, Topology};
use shorthaul_link::LinkConfig;
use shorthaul_types::Seed;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(60);

fn lab() -> Lab {
    let delay = LinkConfig { delay: Duration::from_millis(2), ..LinkConfig::default() };
    let mut topology = Topology::new(Seed(1));
    for pair in ["client", "gateway", "server"].windows(2) {
        topology.add_link(LinkDescription::symmetric(pair[0], pair[1], delay.clone()));
    }
    Lab::start(&topology).unwrap_or_else(|error| panic!("this test needs a lab: {error}"))
}

/// A directory for the gateway's files, with a configuration.
pub struct Site {
    folder: PathBuf,
    pub lab: Lab,
}

impl Site {
    pub fn new(name: &str, config: &str) -> Site {
        Site::in_lab(name, config, lab())
    }

    /// In a lab that has a client, a gateway and a server.
    pub fn in_lab(name: &str, config: &str, lab: Lab) -> Site {
        let folder = std::env::temp_dir().join(format!("shorthaul-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let site = Site { folder, lab };
        site.configure(config);
        site
    }

    /// Every flow that can be split is split: by default, a few drawn ones stay whole.
    fn configure(&self, text: &str) {
        let ours = "access = [\"to-client\"]\nwan = [\"to-server\"]\n";
        let all_split = if text.contains("control_group") { "" } else { "control_group = 0.0\n" };
        let text = format!("{ours}{all_split}{text}");
        std::fs::write(self.folder.join("gateway.toml"), text).unwrap();
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(SHORTHAUL);
        command.arg("gateway").arg("--config").arg(self.folder.join("gateway.toml"));
        command.arg("--run-dir").arg(&self.folder);
        command
    }

    pub fn start(&self) -> Running {
        Running::start_in(self.lab.host("gateway"), self.command().stderr(Stdio::piped()), 1)
    }

    /// What `shorthaul flows` says.
    pub fn ask(&self, arguments: &[&str]) -> serde_json::Value {
        let mut command = Command::new(SHORTHAUL);
        let said = command
            .args(["flows", "--json", "--run-dir"])
            .arg(&self.folder)
            .args(arguments)
            .output()
            .unwrap();
        serde_json::from_slice(&said.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&said.stderr)))
    }

    /// A connection from the client to the server, both its ends.
    pub fn connect(&self) -> (TcpStream, TcpStream) {
        let listener = self.lab.host("server").run(|| TcpListener::bind((self.server(), 0))).unwrap();
        let to = listener.local_addr().unwrap();
        let client = self.lab.host("client").run(|| TcpStream::connect(to)).unwrap();
        let (server, _) = listener.accept().unwrap();
        for end in [&client, &server] {
            end.set_read_timeout(Some(TIMEOUT)).unwrap();
            end.set_write_timeout(Some(TIMEOUT)).unwrap();
        }
        (client, server)
    }

    fn server(&self) -> std::net::Ipv4Addr {
        self.lab.host("server").address_v4()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub fn signal(running: &Running, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &running.child.id().to_string()]).status().unwrap();
    assert!(sent.success(), "SIG{name}");
}

/// Sends `length` bytes from one end to the other, with something in between.
pub fn transfer(from: &mut TcpStream, to: &mut TcpStream, length: usize, meanwhile: impl FnOnce()) {
    std::thread::scope(|scope| {
        scope.spawn(|| from.write_all(&vec![7; length]).unwrap());
        let mut bytes = vec![0; length / 2];
        to.read_exact(&mut bytes).unwrap();
        meanwhile();
        to.read_exact(&mut bytes).unwrap();
    });
}

#[test]
fn sighup_reads_the_configuration_again_and_no_signal_kills() {
    let site = Site::new("hangup", "");
    let mut gateway = site.start();
    let said = BufReader::new(gateway.child.stderr.take().unwrap()).lines();
    let mut said = said.filter(|line| line.as_ref().is_ok_and(|line| line.starts_with("configuration")));
    let (mut client, mut server) = site.connect();
    transfer(&mut server, &mut client, 4 << 20, || {
        for name in ["USR1", "USR2", "HUP"] {
            signal(&gateway, name);
        }
        let line = said.next().unwrap().unwrap();
        assert!(line.contains("read again") && line.contains("changed: nothing"), "{line}");
    });
    assert_eq!(site.ask(&[])[0]["state"], "split");
    // What new flows are treated by changes; the table of routes cannot.
    site.configure("table = 7100\n[[policy]]\nmatch = { servers = [\"10.0.0.0/8\"] }\nmode = \"observe\"\n");
    signal(&gateway, "HUP");
    let line = said.next().unwrap().unwrap();
    assert!(line.contains("changed: policy") && line.contains("started again: table"), "{line}");
    let second = site.connect();
    let flows = site.ask(&[]);
    let mut states: Vec<_> =
        flows.as_array().unwrap().iter().map(|flow| flow["state"].as_str().unwrap()).collect();
    states.sort_unstable();
    assert_eq!(states, ["observed", "split"]);
    // A mistake changes nothing.
    site.configure("\nmemry = 5\n");
    signal(&gateway, "HUP");
    let line = said.next().unwrap().unwrap();
    let whole = line.contains("line 5") && line.contains("unknown field `memry`");
    assert!(line.contains("not taken") && whole, "one line says it: {line}");
    transfer(&mut client, &mut server, 1 << 20, || {});
    drop(second);
    signal(&gateway, "TERM");
    assert!(gateway.child.wait().unwrap().success());
}

#[test]
fn a_router_of_one_family_has_a_gateway_and_one_of_none_has_not() {
    let site = Site::new("families", "");
    let router = site.lab.host("gateway");
    let write = |key: &str, value: &str| {
        router.run(|| std::fs::write(format!("/proc/sys/net/{key}"), value)).unwrap()
    };
    let check = || {
        let said = router.run(|| site.command().arg("--check").output().unwrap());
        let text =
            String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
        (said.status.success(), text)
    };
    write("ipv6/conf/all/forwarding", "0");
    let (content, said) = check();
    assert!(content && said.contains("IPv6 does not pass"), "{said}");
    write("ipv4/ip_forward", "0");
    let (content, said) = check();
    assert!(!content && said.contains("this host does not forward packets"), "{said}");
    write("ipv6/conf/all/forwarding", "1");
    let (content, said) = check();
    assert!(content && said.contains("IPv4 does not pass") && !said.contains("IPv6 does not pass"), "{said}");
    let mut gateway = site.start();
    let server = site.lab.host("server");
    let listener = server.run(|| TcpListener::bind((server.address_v6(), 0))).unwrap();
    let to = listener.local_addr().unwrap();
    let mut client = site.lab.host("client").run(|| TcpStream::connect_timeout(&to, TIMEOUT)).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    transfer(&mut client, &mut far, 1 << 20, || {});
    assert_eq!(site.ask(&[])[0]["state"], "split");
    signal(&gateway, "TERM");
    assert!(gateway.child.wait().unwrap().success());
}

#[test]
fn a_service_manager_is_told_for_how_long_a_gateway_may_drain() {
    let site = Site::new("notified", "drain_timeout = \"60 s\"\n");
    let path = site.folder.join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(TIMEOUT)).unwrap();
    let hears = || {
        let mut bytes = [0; 256];
        let length = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    let mut command = site.command();
    command.env("NOTIFY_SOCKET", &path).stderr(Stdio::null());
    let mut gateway = Running::start_in(site.lab.host("gateway"), &mut command, 1);
    assert_eq!(hears(), "READY=1");
    signal(&gateway, "TERM");
    assert_eq!(hears(), "STOPPING=1\nEXTEND_TIMEOUT_USEC=75000000");
    assert!(gateway.child.wait().unwrap().success());
}

#[test]
fn a_gateway_that_nobody_listens_to_drains_all_the_same() {
    let site = Site::new("closed-error", "");
    let mut gateway = site.start();
    drop(gateway.child.stderr.take());
    let (mut client, mut server) = site.connect();
    transfer(&mut server, &mut client, 4 << 20, || {
        signal(&gateway, "HUP");
        signal(&gateway, "TERM");
    });
    let since = Instant::now();
    while gateway.child.try_wait().unwrap().is_none() {
        assert!(since.elapsed() < TIMEOUT, "it does not end");
        std::thread::yield_now();
    }
    assert_eq!(gateway.child.wait().unwrap().code(), Some(0));
    transfer(&mut server, &mut client, 1 << 20, || {});
}

/// What connections notice of a gateway that is killed, or taken over: a pause.
#[test]
fn a_killed_gateway_and_one_that_is_taken_over_lose_no_byte_and_no_connection() {
    for more in [&[][..], &["--take-over"]] {
        let mut command = Command::new(SHORTHAUL);
        command.args(["bench", "survive", "--flows", "12", "--busy", "4", "--times", "2", "--there", "1s"]);
        let said = command.args(more).output().unwrap();
        let text = String::from_utf8_lossy(&said.stdout);
        let last = text.lines().last().unwrap_or_default();
        let result: serde_json::Value = serde_json::from_str(last)
            .unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&said.stderr)));
        // How long a pause is, is for a machine with nothing else to do.
        assert_eq!((&result["broken_streams"], &result["broken_idle"]), (&0.into(), &0.into()), "{result}");
        assert_eq!(result["pauses_s"].as_array().map(Vec::len), Some(2), "{result}");
        assert!(result["goodput"].as_f64().is_some_and(|rate| rate > 1e6), "{result}");
    }
}

/// A host sends what no kernel sends: floods, SACKs by the byte, readers that never read, fragments, forgeries. Others do not notice.
#[test]
fn attacks_break_nothing_of_others_and_take_no_more_memory_than_there_is() {
    let mut command = Command::new(SHORTHAUL);
    let said = command.args(["bench", "attack", "--turns", "2", "--time", "0.5 s"]).output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout);
    // How long pages of others take is for a machine with nothing else to do: whether it says that it holds is not asked.
    let last = text.lines().last().unwrap_or_default();
    let result: serde_json::Value = serde_json::from_str(last)
        .unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&said.stderr)));
    assert_eq!(result["broken"], 0, "{result}");
    let number =
        |of: &serde_json::Value, key: &str| of[key].as_u64().unwrap_or_else(|| panic!("{key}: {of}"));
    let allowed = number(&result, "resident_before") + number(&result, "memory") + (16 << 20);
    let attacks = result["attacks"].as_array().unwrap();
    assert!(attacks.len() >= 10, "{result}");
    let (mut looked, mut sent) = (0, 0);
    for attack in attacks {
        // How many in half a second, the machine decides.
        assert!(number(attack, "packets") > 0, "nobody attacked: {attack}");
        sent += number(attack, "packets");
        assert_eq!(number(attack, "failed"), 0, "{attack}");
        looked += number(attack, "looked_at");
        // Some are the control group, and some are over before it is looked.
        let others = attack["instead_of_split"].as_array().unwrap();
        assert!(others.iter().all(|state| state == "control" || state == "unknown"), "{attack}");
        assert!(number(attack, "flows") <= number(&result, "max_flows"), "{attack}");
        assert!(number(attack, "resident") <= allowed, "{attack}, of {allowed}");
    }
    assert!(looked >= 10 && sent >= 1_000, "at {looked} connections, beside {sent} packets");
}

#[test]
fn who_takes_over_from_nobody_is_told_so() {
    let site = Site::new("nobody", "");
    let said = site.lab.host("gateway").run(|| site.command().arg("--take-over").output().unwrap());
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(!said.status.success() && text.contains("leave out --take-over"), "{text}");
}

#[test]
fn without_custody_nothing_is_kept_and_nobody_takes_over() {
    let site = Site::new("no-custody", "custody = false\n");
    let gateway = site.start();
    let (mut client, mut server) = site.connect();
    transfer(&mut server, &mut client, 1 << 20, || {
        assert!(!site.folder.join("gw.custody").exists(), "nothing that is held is written");
    });
    let refused = || {
        let said = site.lab.host("gateway").run(|| site.command().arg("--take-over").output().unwrap());
        assert!(!said.status.success());
        String::from_utf8_lossy(&said.stderr).into_owned()
    };
    let text = refused();
    assert!(text.contains("custody:") && text.contains("leave `custody = false` out"), "{text}");
    // The next one would keep what is held, and this one does not.
    site.configure("");
    let text = refused();
    assert!(text.contains("keeps nothing") && text.contains("end it first"), "{text}");
    transfer(&mut client, &mut server, 1 << 20, || {});
    signal(&gateway, "TERM");
}

/// The fields of all threads of a process.
pub fn status_of_threads(process: u32, fields: &[&str]) -> Vec<(String, Vec<String>)> {
    let folder = format!("/proc/{process}/task");
    let threads = std::fs::read_dir(folder).unwrap().map(|thread| thread.unwrap().path());
    let status = threads.filter_map(|path| std::fs::read_to_string(path.join("status")).ok());
    let value = |status: &str, field: &str| {
        let mut lines = status.lines().filter_map(|line| line.strip_prefix(field)?.strip_prefix(":"));
        lines.next().unwrap_or_default().trim().to_owned()
    };
    status
        .map(|status| (value(&status, "Name"), fields.iter().map(|field| value(&status, field)).collect()))
        .collect()
}

impl Site {
    /// The routing rules of the gateway's host that lead anywhere but to the usual tables.
    fn rules(&self) -> String {
        let said =
            self.lab.host("gateway").run(|| Command::new("ip").args(["rule", "show"]).output()).unwrap();
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        said.lines().filter(|rule| rule.contains("ipproto")).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn a_gateway_gives_up_what_it_does_not_need_and_works() {
    let site = Site::new("confined", "attach = \"rules\"\n");
    let mut command = site.command();
    command.arg("--record").arg(site.folder.join("run.pcapng")).stderr(Stdio::piped());
    let mut gateway = Running::start_in(site.lab.host("gateway"), &mut command, 1);
    let said = BufReader::new(gateway.child.stderr.take().unwrap()).lines();
    let mut said = said.filter(|line| line.as_ref().is_ok_and(|line| line.starts_with("configuration")));
    let (mut client, mut server) = site.connect();
    transfer(&mut server, &mut client, 4 << 20, || {
        // A file that is replaced is read again, too.
        let new = site.folder.join("new.toml");
        let text =
            "access = [\"to-client\"]\nwan = [\"to-server\"]\ncontrol_group = 0\nidle_timeout = \"1 h\"\n";
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, site.folder.join("gateway.toml")).unwrap();
        signal(&gateway, "HUP");
        let line = said.next().unwrap().unwrap();
        assert!(line.contains("changed: idle_timeout"), "{line}");
    });
    assert_eq!(site.ask(&["--counters"])["flows_split"], 1);
    let nothing = "0000000000000000";
    let threads = status_of_threads(gateway.child.id(), &["CapEff", "CapPrm", "NoNewPrivs", "Seccomp"]);
    for name in ["shorthaul", "control", "recording"] {
        assert!(threads.iter().any(|(thread, _)| thread == name), "{name}: {threads:?}");
    }
    for (thread, values) in &threads {
        assert_eq!(values, &[nothing, nothing, "1", "2"], "{thread}");
    }
    // It has its rules removed, though it may not any more.
    assert!(!site.rules().is_empty());
    drop((client, server));
    signal(&gateway, "TERM");
    assert!(gateway.child.wait().unwrap().success());
    assert_eq!(site.rules(), "");
    assert!(!site.folder.join("default.sock").exists());
}

#[test]
fn a_gateway_that_is_killed_leaves_no_rules_and_the_next_one_has_its_own() {
    let site = Site::new("killed", "attach = \"rules\"\n");
    for _ in 0..5 {
        let mut gateway = site.start();
        assert!(!site.rules().is_empty());
        signal(&gateway, "KILL");
        gateway.child.wait().unwrap();
        let deadline = Instant::now() + TIMEOUT;
        while !site.rules().is_empty() {
            assert!(Instant::now() < deadline, "rules are left: {}", site.rules());
            std::thread::yield_now();
        }
    }
    // At once, where the last one's keeper may be at work still.
    let mut former = site.start();
    for _ in 0..5 {
        signal(&former, "KILL");
        former.child.wait().unwrap();
        former = site.start();
        let (mut client, mut server) = site.connect();
        transfer(&mut server, &mut client, 1 << 20, || ());
        assert_eq!(site.ask(&["--counters"])["flows_split"], 1);
    }
}
