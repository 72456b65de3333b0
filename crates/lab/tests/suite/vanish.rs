//! A lab leaves nothing behind, however its process ends.
#![allow(clippy::zombie_processes)] // what is started here, the lab has to end, and nobody else
use shorthaul_lab::{Lab, LinkDescription, Topology};
use shorthaul_link::LinkConfig;
use shorthaul_types::Seed;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Set in the process that is to be killed. All that it starts inherits it.
const MARK: &str = "SHORTHAUL_LAB_VANISH_TEST";

/// The lab that is to vanish: `a` has a link of either kind.
fn topology() -> Topology {
    let mut topology = Topology::new(Seed(1));
    topology.add_link(LinkDescription::symmetric("a", "b", LinkConfig::default()));
    topology.add_link(LinkDescription::direct("a", "c"));
    // Daemons that nobody waits for, also in sessions of their own.
    topology.host("b").run.push("sleep 600 & setsid sleep 600 & sleep 600".into());
    topology
}

/// What the process does that is to be killed. It prints the number of a process that is not part of its
/// lab, but in the network namespace of `a`, and so sees what becomes of the devices there.
fn be_the_victim() {
    let lab = Lab::start(&topology()).unwrap_or_else(|error| panic!("this test needs a lab: {error}"));
    let mut sleep = Command::new("sleep");
    let witness = lab.host("a").run(|| sleep.arg("600").env_remove(MARK).stdout(Stdio::null()).spawn());
    let mut out = std::io::stdout();
    writeln!(out, "\nwitness {}", witness.expect("starting sleep").id()).expect("writing to the test");
    out.flush().expect("writing to the test");
    loop {
        std::thread::park();
    }
}

struct Witness(u32);

impl Witness {
    fn devices(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/net/dev", self.0)).expect("the witness is alive")
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        signal(self.0, "KILL");
    }
}

fn signal(process: u32, name: &str) {
    let status = Command::new("kill").args(["-s", name, &process.to_string()]).status();
    assert!(status.expect("running kill").success(), "kill -s {name} {process}");
}

/// The processes that bear the mark `mark`.
fn marked(mark: &str) -> Vec<String> {
    let wanted = format!("{MARK}={mark}");
    let processes = std::fs::read_dir("/proc").expect("/proc").filter_map(|entry| Some(entry.ok()?.path()));
    let bears = |path: &Path| {
        let environment = std::fs::read(path.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    processes.filter(|path| bears(path)).map(|path| path.display().to_string()).collect()
}

fn victim(mark: &str, test: &str) -> (Child, Witness) {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .args([test, "--exact", "--nocapture"])
        .env(MARK, mark)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starting this program again");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let witness = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("witness ")?.parse().ok());
    match witness {
        Some(witness) => (child, Witness(witness)),
        None => panic!("the lab did not start: {:?}; see above for the reason", child.wait()),
    }
}

#[test]
fn nothing_is_left_of_a_lab_whose_process_is_killed() {
    if std::env::var_os(MARK).is_some() {
        return be_the_victim();
    }
    for name in ["KILL", "INT", "TERM"] {
        let mark = format!("{}-{name}", std::process::id());
        let (mut child, witness) = victim(&mark, "vanish::nothing_is_left_of_a_lab_whose_process_is_killed");
        let devices = witness.devices();
        assert!(devices.contains("to-b:") && devices.contains("to-c:"), "{devices}");
        let deadline = Instant::now() + Duration::from_secs(20);
        // The victim, the first process of its PID namespace, and in `b` the shell and three sleeps.
        while marked(&mark).len() < 6 {
            assert!(Instant::now() < deadline, "only {:?} run", marked(&mark));
            std::thread::yield_now();
        }
        signal(child.id(), name);
        child.wait().expect("waiting for the victim");
        // The TUN device of `a` goes with the process. Its end of the veth pair goes when the namespace of
        // `c` does, which nobody holds any more.
        loop {
            let devices = witness.devices();
            let processes = marked(&mark);
            if !devices.contains("to-") && processes.is_empty() {
                break;
            }
            assert!(Instant::now() < deadline, "after SIG{name} are left: {processes:?} and {devices}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn nothing_is_left_of_a_lab_that_is_dropped() {
    let lab = Lab::start(&topology()).unwrap_or_else(|error| panic!("this test needs a lab: {error}"));
    let mark = format!("{}-dropped", std::process::id());
    let mut sleep = Command::new("sleep");
    let witness = lab.host("a").run(|| sleep.arg("600").stdout(Stdio::null()).spawn());
    let mut witness = witness.expect("starting sleep");
    let devices = Witness(witness.id());
    let mut shell = Command::new("sh");
    let shell = lab.host("b").spawn(shell.args(["-c", "sleep 600 & sleep 600"]).env(MARK, &mark));
    let mut shell = shell.expect("starting sh");
    assert!(devices.devices().contains("to-c:"));
    // Not even a child that nobody has waited for yet holds the lab up.
    drop(lab);
    let deadline = Instant::now() + Duration::from_secs(20);
    while devices.devices().contains("to-") || !marked(&mark).is_empty() {
        assert!(Instant::now() < deadline, "left: {:?} and {}", marked(&mark), devices.devices());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!shell.wait().expect("waiting for sh").success());
    drop(devices);
    witness.wait().expect("waiting for sleep");
}
