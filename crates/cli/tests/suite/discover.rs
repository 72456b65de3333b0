//! `shorthaul respond`, `gateway --answer-probes` and `shorthaul discover` on an emulated path, as people use them.
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use shorthaul_lab::{Lab, LinkDescription, Topology};
use shorthaul_link::LinkConfig;
use shorthaul_types::Seed;

fn shorthaul() -> Command {
    Command::new(env!("CARGO_BIN_EXE_shorthaul"))
}

/// A command that says "ready" and runs until this is dropped.
struct Running(Child);

impl Running {
    fn start(lab: &Lab, host: &str, arguments: &[&str]) -> Running {
        let mut command = shorthaul();
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = lab.host(host).spawn(&mut command).expect("starting shorthaul");
        let mut ready = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut ready).expect("a line");
        let running = Running(child);
        assert!(ready.starts_with("ready"), "{arguments:?} on {host} says: {ready}");
        running
    }
}

impl Running {
    /// Tells it to read its files again, and waits until it says that it has.
    fn read_again(&mut self, says: &str) {
        let pid = self.0.id().to_string();
        let mut said = BufReader::new(self.0.stderr.take().expect("a pipe"));
        assert!(Command::new("kill").args(["-HUP", &pid]).status().expect("kill").success());
        let mut line = String::new();
        while !line.contains(says) {
            line.clear();
            assert!(said.read_line(&mut line).expect("a line") > 0, "it ended without saying `{says}`");
        }
        self.0.stderr = Some(said.into_inner());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Files of this test, which vanish with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("shorthaul-discover-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Scratch(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("an ordinary path").to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn lab() -> Lab {
    let delay = LinkConfig { delay: Duration::from_millis(5), ..LinkConfig::default() };
    let mut topology = Topology::new(Seed(1));
    for pair in ["client", "edge", "middle", "server"].windows(2) {
        topology.add_link(LinkDescription::symmetric(pair[0], pair[1], delay.clone()));
    }
    Lab::start(&topology).unwrap_or_else(|error| panic!("this test needs a lab: {error}"))
}

fn discover(lab: &Lab, arguments: &[&str]) -> (bool, String, String) {
    let mut command = shorthaul();
    command
        .arg("discover")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output =
        lab.host("client").spawn(&mut command).expect("starting").wait_with_output().expect("its end");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.success(), text(output.stdout), text(output.stderr))
}

fn make_key(path: &str) {
    let made = shorthaul().args(["discover", "--make-key", path]).output().expect("starting");
    assert!(made.status.success(), "{made:?}");
}

#[test]
fn the_way_is_shown_with_its_relays_and_the_best_of_them_is_chosen() {
    let files = Scratch::new("way");
    let (key, other_key) = (files.path("network.key"), files.path("other.key"));
    make_key(&key);
    make_key(&other_key);
    let again = shorthaul().args(["discover", "--make-key", &key]).output().expect("starting");
    assert!(!again.status.success(), "a key is never overwritten");
    let lab = lab();
    let _server = Running::start(&lab, "server", &["respond", "--key", &key]);
    let offer = ["--relay", "0.0.0.0:7001", "--name", "halfway", "--on-path", "--buffer", "2MB"];
    let middle = Running::start(&lab, "middle", &[&["respond", "--key", &key][..], &offer].concat());
    let facts =
        ["--loss", "1%", "--rate", "20Mbit/s", "--model", "reno", "--rounds", "3", "--interval", "1ms"];
    let with = |key: &str, more: &[&str]| {
        discover(&lab, &[&["server:5201", "--key", key][..], &facts, more].concat())
    };
    let (good, json, said) = with(&key, &["--json"]);
    assert!(good, "{said}");
    let found: Value = serde_json::from_str(&json).expect("JSON");
    assert!(found["rtt"].as_f64().expect("a number") >= 0.03, "{json}");
    let relay = &found["relays"][0];
    assert_eq!((relay["name"].as_str(), relay["hops"].as_u64()), (Some("halfway"), Some(2)), "{json}");
    assert_eq!((relay["buffer"].as_u64(), relay["answered"].as_u64()), (Some(2_000_000), Some(3)), "{json}");
    assert!(relay["gain"].as_f64().expect("a number") > 1.1, "{json}");
    assert_eq!(found["chosen"][0], relay["session"], "{json}");
    // As a table, with the picture and the reason.
    let (_, table, _) = with(&key, &[]);
    assert!(
        table.contains("◀ chosen") && table.contains("here ├") && table.contains("halfway is"),
        "{table}"
    );
    // A transfer that is over at once goes direct.
    let (_, table, _) = with(&key, &["--size", "5kB"]);
    assert!(table.contains("◀ direct") && table.contains("go direct"), "{table}");
    drop(middle);
    let (_, json, _) = with(&key, &["--json"]);
    let found: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (found["relays"].as_array().map(Vec::len), &found["chosen"]),
        (Some(0), &Value::Array(vec![]))
    );
    // Who has another key learns nothing, and is told what may be wrong.
    let (good, _, said) = with(&other_key, &[]);
    assert!(!good && said.contains("same key"), "{said}");
}

#[test]
fn a_gateway_on_the_way_says_that_it_splits() {
    let files = Scratch::new("gateway");
    let key = files.path("network.key");
    make_key(&key);
    let lab = lab();
    let _server = Running::start(&lab, "server", &["respond", "--key", &key]);
    let host = lab.host("middle");
    let [edge, wan] = ["edge", "server"].map(|peer| host.interface_to(peer).expect("a link").to_owned());
    let run_dir = files.path("run");
    let arguments =
        ["gateway", "--access", &edge, "--wan", &wan, "--run-dir", &run_dir, "--answer-probes", &key];
    let mut gateway = Running::start(&lab, "middle", &arguments);
    let (good, json, said) = discover(&lab, &["server", "--key", &key, "--rounds", "1", "--json"]);
    assert!(good, "{said}");
    let found: Value = serde_json::from_str(&json).expect("JSON");
    let relay = &found["relays"][0];
    assert_eq!((relay["name"].as_str(), relay["gateway"].as_bool()), (Some("gw"), Some(true)), "{json}");
    assert_eq!(found["chosen"], Value::Array(vec![]), "nothing needs to be asked of it: {json}");
    // Whoever answers probes beside the gateway takes no signal from it: it still drains when it is told to stop.
    let pid = gateway.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
    let status = gateway.0.wait().expect("its end");
    assert!(status.success(), "{status}");
    assert!(Path::new(&key).exists());
}

/// Exchanges the secret of a file for another one by `steps`.
fn exchange(key: &str, steps: &[&str]) {
    for step in steps {
        let done = shorthaul().args(["secret", key, "--exchange", step]).output().expect("starting");
        assert!(done.status.success(), "{done:?}");
    }
}

#[test]
fn responders_and_gateways_read_an_exchanged_secret_again() {
    let files = Scratch::new("exchange");
    let (key, new) = (files.path("network.key"), files.path("new.key"));
    assert!(shorthaul().args(["secret", &key]).status().expect("starting").success());
    let lab = lab();
    let mut server = Running::start(&lab, "server", &["respond", "--secret", &key]);
    let host = lab.host("middle");
    let [edge, wan] = ["edge", "server"].map(|peer| host.interface_to(peer).expect("a link").to_owned());
    let run_dir = files.path("run");
    let arguments =
        ["gateway", "--access", &edge, "--wan", &wan, "--run-dir", &run_dir, "--answer-probes", &key];
    let mut gateway = Running::start(&lab, "middle", &arguments);
    // Somebody is there, so that a handshake tells how far it is.
    let _listener = lab.host("server").run(|| std::net::TcpListener::bind("0.0.0.0:5201")).expect("a port");
    let found = |key: &str| discover(&lab, &["server:5201", "--secret", key, "--rounds", "1", "--json"]);
    let has_gateway = |json: &str| json.contains("\"gateway\": true");
    let (good, json, said) = found(&key);
    assert!(good && has_gateway(&json), "{json}{said}");
    // One that has the other secret alone is nobody yet: it is announced to no one.
    std::fs::copy(&key, &new).expect("a copy");
    exchange(&new, &["announce", "switch", "retire"]);
    let (good, json, said) = found(&new);
    assert!(!good && said.contains("is the secret the network's") && json.is_empty(), "{json}{said}");
    // The file that is there is replaced by another one, as `mv` does it.
    std::fs::rename(&new, &key).expect("replaced");
    server.read_again("the secret was read again");
    gateway.read_again("read again");
    let (good, json, said) = found(&key);
    assert!(good && has_gateway(&json), "{json}{said}");
    // What holds no secret changes nothing.
    std::fs::write(&new, "nothing\n").expect("written");
    let good_key = files.path("good.key");
    std::fs::copy(&key, &good_key).expect("a copy");
    std::fs::rename(&new, &key).expect("replaced");
    server.read_again("stays as it is");
    gateway.read_again("as before");
    let (good, json, said) = found(&good_key);
    assert!(good && has_gateway(&json), "{json}{said}");
}
