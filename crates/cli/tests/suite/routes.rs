//! Ways that are chosen by what came of former sessions, on an emulated network.
use crate::relays::{Running, SHORTHAUL};
use serde_json::Value;
use shorthaul_lab::{Lab, LinkDescription, Topology};
use shorthaul_link::{LinkConfig, Rate};
use shorthaul_types::{BitRate, Seed};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// What a session downloads, or uploads.
const SIZE: usize = 400_000;

/// A server at 20 ms and 10 Mbit/s, and a node aside, at the end of a link of 2 Mbit/s that its sessions pass twice.
struct Site {
    lab: Lab,
    node: Running,
    folder: PathBuf,
    server: SocketAddr,
    /// Where uploads go: it says a byte when it has all.
    sink: SocketAddr,
}

impl Site {
    fn new(name: &str) -> Site {
        let folder = std::env::temp_dir().join(format!("shorthaul-routes-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let made =
            Command::new(SHORTHAUL).arg("secret").arg(folder.join("secret")).stdout(Stdio::null()).status();
        assert!(made.unwrap().success());
        let near = LinkConfig { delay: Duration::from_millis(5), ..LinkConfig::default() };
        let slow = LinkConfig { rate: Rate::Fixed(BitRate::from_bits_per_sec(2_000_000)), ..near.clone() };
        let mut topology = Topology::new(Seed(1));
        topology.add_link(LinkDescription::symmetric("client", "router", near.clone()));
        let far = LinkConfig { rate: Rate::Fixed(BitRate::from_bits_per_sec(10_000_000)), ..near.clone() };
        topology.add_link(LinkDescription::symmetric("router", "server", far));
        topology.add_link(LinkDescription::symmetric("router", "aside", slow));
        let lab = Lab::start(&topology).unwrap_or_else(|error| panic!("this test needs a lab: {error}"));
        let mut node = Command::new(SHORTHAUL);
        node.args(["node", "--listen", "0.0.0.0:7080", "--allow-destination", "0.0.0.0/0", "--secret"]);
        node.arg(folder.join("secret"));
        let node = Running::start_in(lab.host("aside"), &mut node, 1);
        let listener = lab.host("server").run(|| TcpListener::bind("0.0.0.0:0")).unwrap();
        let server =
            SocketAddr::new(lab.host("server").address_v4().into(), listener.local_addr().unwrap().port());
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let Ok(mut connection) = connection else { return };
                let bytes: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
                std::thread::spawn(move || connection.write_all(&bytes));
            }
        });
        let listener = lab.host("server").run(|| TcpListener::bind("0.0.0.0:0")).unwrap();
        let sink = SocketAddr::new(server.ip(), listener.local_addr().unwrap().port());
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let Ok(mut connection) = connection else { return };
                std::thread::spawn(move || {
                    let mut got = Vec::new();
                    connection.read_to_end(&mut got)?;
                    if got.len() == SIZE { connection.write_all(b".") } else { Ok(()) }
                });
            }
        });
        Site { lab, node, folder, server, sink }
    }

    /// A command at the client that chooses between the node and the direct way, and remembers.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(SHORTHAUL);
        let aside = self.lab.host("aside").address_v4();
        command.arg(name).args(["--choose", "--via", &format!("{aside}:7080"), "--secret"]);
        command.arg(self.folder.join("secret")).arg("--history").arg(self.folder.join("state/sessions"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A download; by which way.
    fn connect(&self) -> String {
        let mut command = self.command("connect");
        command.arg(self.server.to_string()).arg("--verbose");
        let done = self.lab.host("client").spawn(&mut command).unwrap().wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && done.stdout.len() == SIZE, "{} bytes: {said}", done.stdout.len());
        way(&said)
    }

    /// An upload; by which way.
    fn upload(&self) -> String {
        let mut command = self.command("connect");
        command.arg(self.sink.to_string()).arg("--verbose").stdin(Stdio::piped());
        let mut process = self.lab.host("client").spawn(&mut command).unwrap();
        process.stdin.take().unwrap().write_all(&[7; SIZE]).unwrap();
        let done = process.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && done.stdout == b".", "{} bytes: {said}", done.stdout.len());
        way(&said)
    }

    fn routes(&self, more: &[&str]) -> Output {
        let mut command = Command::new(SHORTHAUL);
        command
            .arg("routes")
            .args(more)
            .arg("--history")
            .arg(self.folder.join("state/sessions"))
            .output()
            .unwrap()
    }

    /// What is known of the ways: sessions that were measured directly and by the node, and what is said of each.
    fn known(&self) -> [(u64, String); 2] {
        let json = self.routes(&["--json"]).stdout;
        let known: Value =
            serde_json::from_slice(&json).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&json)));
        assert_eq!(known[0]["destination"], self.server.to_string(), "{known}");
        [0, 1].map(|way| {
            let way = &known[0]["ways"][way];
            (way["sessions"].as_u64().unwrap_or(0), way["why"].as_str().unwrap_or("").to_owned())
        })
    }
}

/// The way that a session took, as it said.
fn way(said: &str) -> String {
    let line = said.lines().next();
    line.and_then(|line| Some(line.split_once(" by ")?.1.split_once(", in")?.0.to_owned()))
        .unwrap_or_else(|| panic!("{said}"))
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.node.child.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn a_relay_that_does_not_pay_is_given_up_and_what_was_learnt_outlives_the_process() {
    let site = Site::new("downloads");
    let said = site.routes(&[]).stdout;
    assert!(
        String::from_utf8_lossy(&said).contains("knows nothing yet"),
        "{}",
        String::from_utf8_lossy(&said)
    );
    // A node that nobody knows may well have more than 10 Mbit/s; this one takes ten times as long. Each session is a process of its own.
    let ways: Vec<String> = (0..6).map(|_| site.connect()).collect();
    assert!(ways.iter().any(|way| way != "direct"), "{ways:?}");
    assert_eq!(ways[4..], ["direct", "direct"], "{ways:?}");
    let [direct, aside] = site.known();
    assert_eq!(direct.0 + aside.0, 6, "{direct:?} {aside:?}");
    assert_eq!((direct.1.as_str(), aside.1.as_str()), ("taken: no relay gains enough", "slower than direct"));

    // A proxy, which has given up its privileges by then, goes on with it.
    let mut proxy = site.command("proxy");
    proxy
        .args(["--ready", "0", "--forward", &format!("127.0.0.1:5000={}", site.server)])
        .stderr(Stdio::null());
    let proxy = Running::start_in(site.lab.host("client"), &mut proxy, 1);
    let mut got = Vec::new();
    let mut socket = site.lab.host("client").run(|| TcpStream::connect("127.0.0.1:5000")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket.read_to_end(&mut got).unwrap();
    assert_eq!(got.len(), SIZE);
    drop(socket);
    // It remembers when the session is over there, too.
    let began = Instant::now();
    while site.known()[0].0 + site.known()[1].0 < 7 {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", site.known());
        std::thread::yield_now();
    }
    drop(proxy);
    let table = site.routes(&[&site.server.to_string()]).stdout;
    let table = String::from_utf8_lossy(&table);
    assert!(
        table.contains("direct") && table.contains("400 kB") && table.contains("slower than direct"),
        "{table}"
    );
    let other = site.routes(&["nowhere"]).stdout;
    assert!(String::from_utf8_lossy(&other).contains("knows nothing of nowhere"));
}

#[test]
fn an_upload_takes_as_long_as_it_takes_to_arrive_and_not_until_buffers_have_it() {
    let site = Site::new("uploads");
    // Buffers on the way to the node have all of it at once; it takes 1.6 s by the node, and 0.4 s directly.
    let ways: Vec<String> = (0..6).map(|_| site.upload()).collect();
    assert!(ways.iter().any(|way| way != "direct"), "{ways:?}");
    assert_eq!(ways[4..], ["direct", "direct"], "{ways:?}");
    let past = std::fs::read_to_string(site.folder.join("state/sessions")).unwrap();
    let took = |by_node: bool| {
        let past = past.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of = past.filter(move |past| (past["by"] != Value::Array(Vec::new())) == by_node);
        of.map(|past| past["busy"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    assert!(took(true).into_iter().all(|busy| busy > 1.5), "{past}");
    assert!(took(false).into_iter().all(|busy| busy > 0.3), "{past}");
}
