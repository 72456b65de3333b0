//! A gateway with several workers: who has which host, and what becomes of connections when it is killed, taken over, drained, or told
//! something. Needs root, or user namespaces.
use crate::gateway::{signal, transfer};
use crate::program::program;
use crate::relays::{Running, SHORTHAUL};
use serde_json::Value;
use shorthaul_dataplane::{Config, Steering};
use shorthaul_lab::{Lab, LinkDescription, Topology};
use shorthaul_link::LinkConfig;
use shorthaul_types::Seed;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(60);
pub const PHONES: usize = 6;

/// A gateway between phones and a server.
pub struct Site {
    pub folder: PathBuf,
    pub lab: Lab,
}

/// A connection of a phone: its end, and the server's.
pub struct Connection {
    ends: [TcpStream; 2],
}

impl Site {
    pub fn new(name: &str) -> Site {
        let folder = std::env::temp_dir().join(format!("shorthaul-workers-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let delay = LinkConfig { delay: Duration::from_millis(2), ..LinkConfig::default() };
        let mut topology = Topology::new(Seed(1));
        for phone in 0..PHONES {
            let name = format!("phone-{phone}");
            topology.add_link(LinkDescription::symmetric(name.as_str(), "gateway", delay.clone()));
        }
        topology.add_link(LinkDescription::symmetric("gateway", "server", delay));
        let lab = Lab::start(&topology).unwrap_or_else(|error| panic!("this test needs a lab: {error}"));
        let site = Site { folder, lab };
        site.configure("workers = 2\n");
        site
    }

    pub fn configure(&self, text: &str) {
        let phones: Vec<String> = (0..PHONES).map(|phone| format!("\"to-phone-{phone}\"")).collect();
        let ours = format!("access = [{}]\nwan = [\"to-server\"]\ncontrol_group = 0.0\n", phones.join(", "));
        std::fs::write(self.folder.join("gateway.toml"), ours + text).unwrap();
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(SHORTHAUL);
        command.arg("gateway").arg("--config").arg(self.folder.join("gateway.toml"));
        command.arg("--run-dir").arg(&self.folder).stderr(Stdio::piped());
        command
    }

    pub fn start(&self) -> Running {
        self.start_with(&[])
    }

    pub fn start_with(&self, more: &[&str]) -> Running {
        Running::start_in(self.lab.host("gateway"), self.command().args(more), 1)
    }

    /// What a command that ends by itself says.
    fn refused(&self, more: &[&str]) -> String {
        let said = self.lab.host("gateway").run(|| self.command().args(more).output().unwrap());
        assert!(!said.status.success());
        String::from_utf8_lossy(&said.stderr).into_owned()
    }

    fn ask(&self, arguments: &[&str]) -> Value {
        let mut command = Command::new(SHORTHAUL);
        command.args(["flows", "--json", "--run-dir"]).arg(&self.folder).args(arguments);
        let said = command.output().unwrap();
        serde_json::from_slice(&said.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&said.stderr)))
    }

    /// A counter of each worker.
    pub fn counts(&self, name: &str) -> Vec<u64> {
        let workers = self.ask(&["--workers"]);
        workers.as_array().unwrap().iter().map(|counters| counters[name].as_u64().unwrap()).collect()
    }

    fn metrics(&self) -> String {
        self.lab.host("gateway").run(|| {
            let mut stream = TcpStream::connect("127.0.0.1:7090").unwrap();
            stream
                .write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:7090\r\nConnection: close\r\n\r\n")
                .unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        })
    }

    fn address(&self, host: &str, is_v6: bool) -> IpAddr {
        let host = self.lab.host(host);
        if is_v6 { host.address_v6().into() } else { host.address_v4().into() }
    }

    /// The worker that a phone's packets are for.
    fn worker_of(&self, phone: usize, is_v6: bool) -> usize {
        let config = Config { access: vec!["a".into()], wan: vec!["b".into()], ..Config::default() };
        let steering = Steering::of(&config.gateway(0).unwrap(), 2);
        steering.of_host(self.address(&format!("phone-{phone}"), is_v6))
    }

    fn connect(&self, phone: usize, is_v6: bool) -> Connection {
        let server = self.address("server", is_v6);
        let listener = self.lab.host("server").run(|| TcpListener::bind((server, 0))).unwrap();
        let to = listener.local_addr().unwrap();
        let client = self.lab.host(&format!("phone-{phone}")).run(|| TcpStream::connect(to)).unwrap();
        let (server, _) = listener.accept().unwrap();
        for end in [&client, &server] {
            end.set_read_timeout(Some(TIMEOUT)).unwrap();
            end.set_write_timeout(Some(TIMEOUT)).unwrap();
        }
        Connection { ends: [client, server] }
    }

    /// A connection of each phone.
    pub fn connect_all(&self) -> Vec<Connection> {
        (0..PHONES).map(|phone| self.connect(phone, phone % 2 == 1)).collect()
    }

    /// How many journals there are.
    pub fn journals(&self) -> usize {
        let files = std::fs::read_dir(&self.folder).unwrap();
        files.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|e| e == "custody")).count()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// What a stream has at each place.
fn pattern(from: usize, length: usize) -> Vec<u8> {
    (from..from + length).map(|at| (at * 31 % 251) as u8 ^ (at >> 16) as u8).collect()
}

/// Sends `length` bytes each way on all of these at once. When half of them are there everywhere, something happens.
pub fn exchange(connections: &mut [Connection], length: usize, meanwhile: impl FnOnce()) {
    let halfway = std::sync::Barrier::new(2 * connections.len() + 1);
    std::thread::scope(|scope| {
        for (connection, number) in connections.iter().zip(0..) {
            for way in [0, 1] {
                let [from, to] = [&connection.ends[way], &connection.ends[1 - way]];
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                let bytes = pattern(number * 1000 + way, length);
                let expected = bytes.clone();
                let halfway = &halfway;
                scope.spawn(move || from.write_all(&bytes).unwrap());
                scope.spawn(move || {
                    let (first, second) = expected.split_at(length / 2);
                    let mut got = vec![0; first.len()];
                    to.read_exact(&mut got).unwrap();
                    assert!(got == first, "other bytes than were sent");
                    halfway.wait();
                    let mut got = vec![0; second.len()];
                    to.read_exact(&mut got).unwrap();
                    assert!(got == second, "other bytes than were sent");
                });
            }
        }
        halfway.wait();
        meanwhile();
    });
}

#[test]
fn all_packets_of_a_host_are_one_workers_and_arrive_as_they_were_sent() {
    let site = Site::new("steering");
    let gateway = site.start_with(&["--metrics", "127.0.0.1:7090"]);
    let mut used = [0, 0];
    let mut all = Vec::new();
    for (phone, is_v6) in (0..PHONES).flat_map(|phone| [(phone, false), (phone, true)]) {
        let worker = site.worker_of(phone, is_v6);
        used[worker] += 1;
        let before = [site.counts("packets_in"), site.counts("flows_split")];
        let mut connection = [site.connect(phone, is_v6)];
        exchange(&mut connection, 300_000, || {});
        let [packets, flows] = [site.counts("packets_in"), site.counts("flows_split")];
        assert!(packets[worker] > before[0][worker] + 100, "{packets:?}");
        // Of the other one there may be late acknowledgments of connections before.
        assert!(packets[1 - worker] < before[0][1 - worker] + 20, "phone {phone}: {before:?} {packets:?}");
        assert_eq!(flows[worker], before[1][worker] + 1);
        all.extend(connection);
    }
    assert!(used[0] > 1 && used[1] > 1, "{used:?}: the phones' addresses should be some of each worker");
    // Now all at once.
    exchange(&mut all, 1 << 20, || {});
    let flows = site.ask(&[]);
    let states = flows.as_array().unwrap().iter().map(|flow| flow["state"].as_str().unwrap());
    assert_eq!(states.collect::<Vec<_>>(), vec!["split"; 2 * PHONES]);
    assert_eq!(site.counts("flows_split").iter().sum::<u64>(), 2 * PHONES as u64);
    assert_eq!(site.ask(&["--counters"])["flows_split"], 2 * PHONES);
    assert_eq!(site.counts("dropped_handed_on"), [0, 0]);
    let expected: Vec<String> = (used.iter().enumerate())
        .map(|(worker, flows)| format!("shorthaul_gateway_worker_flows{{worker=\"{worker}\"}} {flows}\n"))
        .chain([format!("shorthaul_gateway_flows{{state=\"split\"}} {}\n", 2 * PHONES)])
        .collect();
    // Samples are taken once a second: the first that is given may be from before the last connection.
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let metrics = site.metrics();
        if expected.iter().all(|line| metrics.contains(line)) {
            break;
        }
        assert!(Instant::now() < deadline, "{expected:?}\n{metrics}");
    }
    signal(&gateway, "TERM");
}

/// Also where the next one has another number of workers, so that hosts go to others.
#[test]
fn a_gateway_of_several_workers_that_is_killed_loses_no_byte_and_no_connection() {
    let site = Site::new("killed");
    let mut gateway = site.start();
    let mut connections = site.connect_all();
    assert!(site.counts("flows_split").iter().all(|count| *count > 0));
    for workers in ["2", "3", "1", "2"] {
        exchange(&mut connections, 4 << 20, || {
            gateway.child.kill().unwrap();
            gateway.child.wait().unwrap();
            gateway = site.start_with(&["--workers", workers]);
        });
        let resumed = site.counts("flows_resumed");
        assert_eq!(resumed.len().to_string(), workers);
        assert_eq!(resumed.iter().sum::<u64>(), PHONES as u64, "{resumed:?}");
        assert_eq!(site.ask(&["--counters"])["flows_lost_in_crash"], 0);
        assert_eq!(site.journals().to_string(), workers, "one a worker, and none of those before");
    }
    let again = site.counts("flows_resumed");
    assert!(again.iter().all(|count| *count > 0), "{again:?}");
    drop(connections);
    signal(&gateway, "TERM");
    assert!(gateway.child.wait().unwrap().success());
    assert_eq!(site.journals(), 0);
}

#[test]
fn several_workers_are_taken_over_together_and_as_many_as_they_are() {
    let site = Site::new("taken-over");
    let mut gateway = site.start();
    let mut connections = site.connect_all();
    let said = site.refused(&["--take-over", "--workers", "3"]);
    assert!(said.contains("another number of workers") && said.contains("end it first"), "{said}");
    for _ in 0..2 {
        exchange(&mut connections, 4 << 20, || {
            let next = site.start_with(&["--take-over"]);
            assert_eq!(gateway.child.wait().unwrap().code(), Some(0));
            gateway = next;
        });
        let resumed = site.counts("flows_resumed");
        assert!(
            resumed.iter().sum::<u64>() == PHONES as u64 && resumed.iter().all(|n| *n > 0),
            "{resumed:?}"
        );
        assert_eq!(site.journals(), 2);
    }
    // One who dies on the way changes nothing.
    exchange(&mut connections, 1 << 20, || {
        let said = site.refused(&["--take-over", "--table", "7200"]);
        assert!(said.contains("with another table"), "{said}");
    });
    assert_eq!(site.ask(&["--counters"])["flows_lost_in_crash"], 0);
    signal(&gateway, "TERM");
}

#[test]
fn what_a_gateway_is_told_all_workers_do() {
    let site = Site::new("told");
    let mut gateway = site.start();
    let said = BufReader::new(gateway.child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut said = said.filter(|line| line.starts_with("configuration"));
    let mut connections = site.connect_all();
    exchange(&mut connections, 1 << 20, || {});
    site.configure("workers = 3\n[[policy]]\nmode = \"observe\"\n");
    signal(&gateway, "HUP");
    let line = said.next().unwrap();
    assert!(line.contains("changed: policy") && line.contains("started again: workers"), "{line}");
    let later = site.connect_all();
    let flows = site.ask(&[]);
    let count = |state: &str| flows.as_array().unwrap().iter().filter(|flow| flow["state"] == state).count();
    assert_eq!((count("split"), count("observed")), (PHONES, PHONES), "{flows}");
    assert!(site.counts("flows_observed").iter().all(|count| *count > 0));
    drop(later);
    // Told to end, with something to deliver everywhere.
    exchange(&mut connections, 4 << 20, || signal(&gateway, "TERM"));
    assert_eq!(gateway.child.wait().unwrap().code(), Some(0));
    assert_eq!(site.journals(), 0);
    for connection in &mut connections {
        let [client, server] = &mut connection.ends;
        transfer(server, client, 1 << 20, || {});
    }
}

#[test]
fn what_each_worker_did_is_recorded_and_replayed_by_itself() {
    let site = Site::new("recorded");
    let recording = site.folder.join("run.pcapng");
    let mut gateway = site.start_with(&["--record", recording.to_str().unwrap()]);
    let mut connections = site.connect_all();
    exchange(&mut connections, 300_000, || {});
    drop(connections);
    signal(&gateway, "TERM");
    assert!(gateway.child.wait().unwrap().success());
    for worker in [0, 1] {
        let recording = site.folder.join(format!("run-{worker}.pcapng"));
        let replayed = Command::new(SHORTHAUL).arg("replay").arg(&recording).output().unwrap();
        let said = String::from_utf8_lossy(&replayed.stdout).into_owned();
        assert!(replayed.status.success() && said.starts_with("identical: "), "{said}");
        let packets: u32 = said.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(packets > 200 && !said.contains("no end"), "{said}");
    }
}

/// Where the kernel takes no program, for a user namespace has no say in that, packets find their workers all the same.
#[test]
fn without_a_program_in_the_kernel_workers_hand_packets_on() {
    let everybody = std::fs::read_to_string("/proc/sys/kernel/unprivileged_bpf_disabled");
    if everybody.is_ok_and(|text| text.trim() == "0") {
        return; // this kernel takes programs of everybody
    }
    let site = Site::new("handing-on");
    // CAP_BPF, and CAP_SYS_ADMIN, which means it, are not to be had.
    let (own, mut without) = (site.command(), Command::new(program("setpriv")));
    without.args(["--bounding-set", "-bpf,-sys_admin", "--inh-caps", "-bpf,-sys_admin", "--"]);
    without.arg(own.get_program()).args(own.get_args()).stderr(Stdio::piped());
    let mut gateway = Running::start_in(site.lab.host("gateway"), &mut without, 1);
    let mut said = BufReader::new(gateway.child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("CAP_BPF")));
    // Of so many some come to the wrong worker.
    let mut connections: Vec<Connection> = (0..4).flat_map(|_| site.connect_all()).collect();
    exchange(&mut connections, 300_000, || {});
    let workers: Vec<usize> = (0..PHONES).map(|phone| site.worker_of(phone, phone % 2 == 1)).collect();
    let split = site.counts("flows_split");
    for worker in [0, 1] {
        assert_eq!(split[worker], 4 * workers.iter().filter(|of| **of == worker).count() as u64);
    }
    let (handed_on, packets) = (site.counts("packets_handed_on"), site.counts("packets_in"));
    let [handed_on, packets] = [handed_on, packets].map(|counts| counts.iter().sum::<u64>());
    assert!(handed_on > 0 && handed_on < packets / 10, "{handed_on} of {packets}: the device learns");
    signal(&gateway, "TERM");
}
