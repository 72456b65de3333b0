//! A gateway's policies between kernels: what the ends see of each, and that what they send arrives whole. Needs root, or a
//! host that allows user namespaces.
use crate::relays::{Running, SHORTHAUL};
use serde_json::Value;
use shorthaul_lab::{Lab, LinkDescription, Topology};
use shorthaul_link::{Direction, LinkConfig, LossModel};
use shorthaul_os::TcpInfo;
use shorthaul_types::{Bytes, Seed};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// When to give up on a machine that is busy with other things.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The delay of the access link, each way.
const DELAY: Duration = Duration::from_millis(60);

/// A server, a gateway with policies, and a client behind a slow link.
struct Site {
    // Before the lab, so that it goes first.
    _gateway: Running,
    directory: PathBuf,
    lab: Lab,
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn access_link() -> LinkConfig {
    LinkConfig { delay: DELAY, ..LinkConfig::default() }
}

impl Site {
    /// Unless `policies` say otherwise, every flow that can be split is split: by default, a few drawn ones stay whole.
    fn new(policies: &str) -> Site {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("shorthaul-policies-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let config = directory.join("gateway.toml");
        let run_dir = directory.display();
        let interfaces = "access = [\"to-client\"]\nwan = [\"to-server\"]";
        let all_split = if policies.contains("control_group") { "" } else { "control_group = 0.0\n" };
        std::fs::write(&config, format!("{interfaces}\nrun_dir = \"{run_dir}\"\n{all_split}{policies}"))
            .expect("writing");
        let mut topology = Topology::new(Seed(1));
        topology.add_link(LinkDescription::symmetric("client", "gateway", access_link()));
        topology.add_link(LinkDescription::direct("gateway", "server"));
        let lab = Lab::start(&topology).unwrap_or_else(|error| panic!("this test needs a lab: {error}"));
        let mut command = Command::new(SHORTHAUL);
        command.arg("gateway").arg("--config").arg(&config);
        let gateway = Running::start_in(lab.host("gateway"), &mut command, 1);
        Site { _gateway: gateway, directory, lab }
    }

    /// A connection to a port of the server: the client's socket and the server's.
    fn connect(&self, port: u16) -> [TcpStream; 2] {
        let server = self.lab.host("server");
        let address = server.address_v4();
        let listener = server.run(|| TcpListener::bind((address, port))).expect("listening");
        let near = self.lab.host("client").run(|| TcpStream::connect((address, port))).expect("connecting");
        let (far, _) = listener.accept().expect("accepting");
        for socket in [&near, &far] {
            socket.set_read_timeout(Some(TIMEOUT)).expect("SO_RCVTIMEO");
            socket.set_write_timeout(Some(TIMEOUT)).expect("SO_SNDTIMEO");
            socket.set_nodelay(true).expect("TCP_NODELAY");
        }
        [near, far]
    }

    /// What the gateway answers to `shorthaul flows` with these options.
    fn ask(&self, what: &[&str]) -> Value {
        self.answer("flows", what)
    }

    fn answer(&self, to: &str, what: &[&str]) -> Value {
        let mut command = Command::new(SHORTHAUL);
        command.args([to, "--json", "--run-dir"]).arg(&self.directory).args(what);
        let output = command.stdin(Stdio::null()).output().expect("it starts");
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    fn counter(&self, name: &str) -> u64 {
        self.ask(&["--counters"])[name].as_u64().expect(name)
    }

    /// What the gateway knows of the flow to this port.
    fn flow(&self, port: u16) -> Value {
        let flows = self.ask(&[]);
        let of_port = |flow: &&Value| {
            flow["server"].as_str().is_some_and(|server| server.ends_with(&format!(":{port}")))
        };
        flows.as_array().expect("a list").iter().find(of_port).expect("the flow").clone()
    }
}

/// Bytes of which each depends on its place.
fn content(length: usize) -> Vec<u8> {
    (0..length as u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()).take(length).collect()
}

/// Sends from the server to the client, which must receive the very same; `look` is called with the sender's state all the while.
fn download([near, far]: &mut [TcpStream; 2], length: usize, mut look: impl FnMut(TcpInfo)) {
    let sent = content(length);
    let done = AtomicBool::new(false);
    let mut received = vec![0; length];
    let watched = far.try_clone().expect("a descriptor");
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| far.write_all(&sent));
        let receiving = scope.spawn(|| {
            let read = near.read_exact(&mut received);
            done.store(true, Ordering::Relaxed);
            read
        });
        while !done.load(Ordering::Relaxed) {
            look(TcpInfo::of(&watched).expect("TCP_INFO"));
            std::thread::sleep(Duration::from_millis(1));
        }
        sending.join().expect("no panic").expect("sending");
        receiving.join().expect("no panic").expect("receiving");
    });
    assert!(received == sent, "what was received is not what was sent");
}

/// How long the sender waits for the acknowledgment of one segment; the data arrives whole, too.
fn time_to_ack([near, far]: &mut [TcpStream; 2]) -> Duration {
    let segment = content(1000);
    let wait_until = |holds: &dyn Fn(TcpInfo) -> bool| {
        let start = Instant::now();
        while !holds(TcpInfo::of(far).expect("TCP_INFO")) {
            assert!(start.elapsed() < TIMEOUT, "no acknowledgment");
            std::thread::sleep(Duration::from_micros(200));
        }
    };
    wait_until(&|info| info.unacked == 0); // of what was sent before
    let before = TcpInfo::of(far).expect("TCP_INFO").acked.0;
    let start = Instant::now();
    (&*far).write_all(&segment).expect("sending");
    wait_until(&|info| info.acked.0 >= before + segment.len() as u64);
    let time = start.elapsed();
    let mut received = vec![0; segment.len()];
    near.read_exact(&mut received).expect("receiving");
    assert!(received == segment, "what was received is not what was sent");
    time
}

/// The shortest of several, which a machine that is busy now and then does not make longer.
fn shortest_time_to_ack(ends: &mut [TcpStream; 2]) -> Duration {
    (0..20).map(|_| time_to_ack(ends)).min().expect("some")
}

const SIZE: usize = 2_000_000;

#[test]
fn an_observed_flow_is_counted_and_stays_whole() {
    let site = Site::new("[[policy]]\nmatch = { ports = [5001] }\nmode = \"observe\"\n");
    let mut ends = site.connect(5001);
    download(&mut ends, SIZE, |_| {});
    let flow = site.flow(5001);
    assert_eq!(flow["state"], "observed", "{flow}");
    assert!(flow["to_client"].is_null(), "{flow}");
    assert_eq!(flow["observed"]["to_client"]["bytes"], SIZE, "{flow}");
    // From the gateway to the client and back, and it can only take longer.
    let round_trip = flow["observed"]["to_client"]["min_rtt_us"].as_u64().expect("a time");
    assert!(u128::from(round_trip) >= 2 * DELAY.as_micros(), "{flow}");
    assert_eq!((site.counter("flows_observed"), site.counter("flows_split")), (1, 0));
    // The acknowledgment is the client's own.
    assert!(time_to_ack(&mut ends) >= 2 * DELAY);
    // Beside it, other flows are split, and acknowledged by the gateway, which waits 40 ms for more.
    let mut split = site.connect(5002);
    download(&mut split, SIZE, |_| {});
    assert_eq!(site.flow(5002)["state"], "split");
    assert_eq!((site.counter("flows_observed"), site.counter("flows_split")), (1, 1));
    let acked = shortest_time_to_ack(&mut split);
    assert!(acked < 2 * DELAY, "{acked:?}");
}

#[test]
fn an_interceptor_lowers_what_the_sender_of_a_whole_flow_is_offered() {
    const WINDOW: u64 = 16_000;
    let site = Site::new(
        "[[policy]]\nmatch = { ports = [5001] }\nmode = \"pass\"\nintercept = [{ kind = \"explicit-window\", window = \"16 kB\" }]\n\
         [[policy]]\nmatch = { ports = [5002] }\nmode = \"observe\"\n",
    );
    // Until the first acknowledgment of data, the window is that of the handshake, which no interceptor takes back.
    let offered = |port: u16| {
        let mut ends = site.connect(port);
        let (mut most, mut looks) = (0, 0);
        download(&mut ends, SIZE, |info| {
            if info.acked > Bytes(100_000) {
                most = most.max(info.peer_window.expect("Linux 5.4").0);
                looks += 1;
            }
        });
        assert!(looks > 0, "nobody looked");
        (most, site.flow(port)["state"].clone())
    };
    let (most, state) = offered(5001);
    assert_eq!(state, "passed");
    assert!(most > 0 && most <= WINDOW, "{most}");
    assert!(site.counter("intercepted") > 0);
    let (most, state) = offered(5002);
    assert_eq!(state, "observed");
    assert!(most > 2 * WINDOW, "{most}");
    assert_eq!((site.counter("flows_observed"), site.counter("flows_split")), (2, 0));
}

#[test]
fn later_acknowledges_so_much_later_and_what_does_not_match_at_once() {
    const LATER: Duration = Duration::from_millis(300);
    let site =
        Site::new("[[policy]]\nmatch = { ports = [5001] }\nack = { kind = \"later\", after = \"300 ms\" }\n");
    let mut matched = site.connect(5001);
    for _ in 0..3 {
        let acked = time_to_ack(&mut matched);
        assert!(acked >= LATER, "{acked:?}");
    }
    download(&mut matched, SIZE, |_| {});
    let mut other = site.connect(5002);
    let acked = shortest_time_to_ack(&mut other);
    assert!(acked < LATER / 2, "{acked:?}");
    download(&mut other, SIZE, |_| {});
    assert_eq!(site.counter("flows_split"), 2);
}

#[test]
fn a_legs_own_timer_waits_out_a_black_hole() {
    let site = Site::new("[[policy]]\nmatch = { ports = [5001] }\nto_access = { rto = \"4 s\" }\n");
    let (mut coarse, mut usual) = (site.connect(5001), site.connect(5002));
    let link = site.lab.link("client", "gateway");
    let black_hole = LinkConfig { loss: LossModel::Bernoulli { probability: 1.0 }, ..access_link() };
    let timeouts = |port| site.flow(port)["to_client"]["timeouts"].as_u64().expect("a number");
    let whole = std::thread::scope(|scope| {
        // Both have an estimate of the round trip before anything is lost.
        for ends in [&mut coarse, &mut usual] {
            download(ends, 100_000, |_| {});
        }
        // Toward the client: what comes from it still passes.
        link.reconfigure(Direction::Down, black_hole).expect("an emulated link");
        let before = [timeouts(5001), timeouts(5002)];
        let transfers = [&mut coarse, &mut usual].map(|ends| scope.spawn(|| download(ends, SIZE, |_| {})));
        let start = Instant::now();
        // The usual timer runs out after 200 ms and some, and again after twice that.
        while timeouts(5002) < before[1] + 2 {
            assert!(start.elapsed() < TIMEOUT, "no timeout");
        }
        assert_eq!(timeouts(5001), before[0], "the coarse timer has run out as early as the usual one");
        while timeouts(5001) == before[0] {
            assert!(start.elapsed() < TIMEOUT, "no timeout");
        }
        let waited = start.elapsed();
        link.reconfigure(Direction::Down, access_link()).expect("an emulated link");
        let whole = transfers.map(|transfer| transfer.join().is_ok());
        assert!(waited >= Duration::from_secs(3), "{waited:?}");
        whole
    });
    assert_eq!(whole, [true, true]);
}

#[test]
fn what_splitting_gains_is_told_against_a_control_group() {
    let site = Site::new("control_group = 0.5\n");
    let of = |gains: &Value| {
        let first = &gains[0]["first"][0];
        ["split_flows", "whole_flows"].map(|key| first[key].as_u64().unwrap_or(0))
    };
    // What a host opens within a second counts once, and is of one group.
    let start = Instant::now();
    let (mut flows, mut gains) = (0, Value::Null);
    while of(&gains).iter().any(|compared| *compared < 3) {
        assert!(start.elapsed() < TIMEOUT, "{gains}");
        download(&mut site.connect(6000 + flows), 60_000, |_| {});
        flows += 1;
        gains = site.answer("gain", &[]);
    }
    // With this server, and with all that there are.
    let classes = gains.as_array().expect("a list");
    assert_eq!(classes.len(), 2, "{gains}");
    for class in classes {
        let first = &class["first"].as_array().expect("a list")[0];
        assert_eq!((&first["direction"], &first["bytes"]), (&"down".into(), &30_000.into()), "{gains}");
        let [split, whole] = ["split_flows", "whole_flows"].map(|key| first[key].as_u64().expect(key));
        let [all_split, all_whole] = ["flows_split", "flows_control"].map(|name| site.counter(name));
        assert!((3..=all_split).contains(&split) && (3..=all_whole).contains(&whole), "{gains}");
        assert_eq!(all_split + all_whole, u64::from(flows), "{gains}");
        assert!(split + whole <= start.elapsed().as_secs() + 2, "{gains}");
        assert!(first["gain"].as_f64().is_some_and(|gain| gain > 0.0), "{gains}");
        // Two round trips at least until 30 kB are acknowledged.
        assert!(
            first["whole_us"].as_u64().is_some_and(|time| u128::from(time) >= 4 * DELAY.as_micros()),
            "{gains}"
        );
    }
}
