//! Scenarios live: the same file on kernels and in the simulator. They need root, or a host that allows user
//! namespaces; without, they fail and say why.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory that is removed at the end, also of a failed test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let directory = std::env::temp_dir().join(format!("shorthaul-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        Scratch(directory)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.join(name);
        std::fs::write(&file, text).unwrap();
        file
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(file: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shorthaul"));
    command.arg("run").arg(file).arg("--no-cache").args(arguments).output().unwrap()
}

/// Whatever the machine is busy with meanwhile.
const PATIENT: [&str; 8] =
    ["--max-late", "1 h", "--max-dropped", "1000000", "--max-busy", "100", "--max-starved", "100"];

/// Runs a scenario once in each engine; the simulated run and the live one.
fn in_both_engines(name: &str, scenario: &str) -> [serde_json::Value; 2] {
    let scratch = Scratch::new(name);
    let file = scratch.file("scenario.toml", scenario);
    let out = scratch.0.join("out");
    let mut arguments = vec!["--engine", "sim,live", "--out", out.to_str().unwrap()];
    arguments.extend(PATIENT);
    let done = run(&file, &arguments);
    let (stdout, stderr) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{stdout}\n{stderr}");
    let text = std::fs::read_to_string(out.join("runs.jsonl")).unwrap();
    let runs: Vec<_> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    runs.try_into().unwrap_or_else(|_| panic!("one run in each engine\n{stdout}"))
}

/// Three kinds of flows through a gateway.
const SCENARIO: &str = r#"
about = "every <workload> that runs live"
seed = 5
duration = "6 s"
[hosts.server]
scheme = { profile = "sack-reno", pacing = false }
[hosts.client]
scheme = { profile = "cubic", send_buffer = "64 kB" }
[gateways.gateway]
access = "client"
to_access = { congestion = "reno" }
[[links]]
between = ["server", "gateway"]
link = { rate = "50 Mbit/s", delay = "10 ms", queue = "200 packets" }
[[links]]
between = ["gateway", "client"]
link = { rate = "10 Mbit/s", delay = "5 ms", queue = "60 packets" }
[[flows]]
name = "bulk"
from = "server"
to = "client"
opened_by = "client"
bulk = "500 kB"
[[flows]]
name = "files"
from = "server"
to = "client"
downloads = { size = "30 kB", repeats = 3, pause = "50 ms" }
[[flows]]
name = "stream"
from = "client"
to = "server"
start = "1 s"
unlimited = "800 ms"
[[flows]]
name = "endless"
from = "server"
to = "client"
start = "2 s"
bulk = "50 MB"
[measure]
metrics = ["goodput", "completion", "set-up", "wire-bytes", "overhead", "retransmitted", "rtt", "queue-length",
  "queue-delay", "fairness", "utilization", "unfinished"]
series = ["cwnd", "delivered", "queue", "rtt"]
"#;

#[test]
fn a_scenario_runs_on_kernels_and_fills_what_a_simulation_fills() {
    let scratch = Scratch::new("live-test");
    let file = scratch.file("mixed.toml", SCENARIO);
    let out = scratch.0.join("out");
    let mut arguments = vec!["--engine", "sim,live", "--out", out.to_str().unwrap()];
    arguments.extend(PATIENT);
    let done = run(&file, &arguments);
    let (stdout, stderr) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.contains("live / sim"), "{stdout}");

    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let runs: Vec<serde_json::Value> =
        read("runs.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [sim, live] = &runs[..] else { panic!("one run in each engine, not {}", runs.len()) };
    assert_eq!((&sim["engine"], &live["engine"]), (&"sim".into(), &"live".into()));
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&sim["outcome"]["metrics"]), keys(&live["outcome"]["metrics"]));
    for outcome in [&sim["outcome"], &live["outcome"]] {
        let flow = |name: &str| {
            let flows = outcome["flows"].as_array().unwrap();
            flows.iter().find(|flow| flow["name"] == name).unwrap_or_else(|| panic!("no {name}")).clone()
        };
        assert_eq!(flow("bulk")["delivered"], 500_000);
        assert_eq!(flow("files")["delivered"], 90_000);
        assert_eq!(flow("files")["transfers"].as_array().unwrap().len(), 3);
        assert!(flow("stream")["delivered"].as_u64().unwrap() > 100_000, "{outcome}");
        // 50 MB do not go through 10 Mbit/s in four seconds
        assert_eq!(flow("endless")["ended"], false);
        assert!(flow("endless")["delivered"].as_u64().unwrap() > 100_000, "{outcome}");
        assert_eq!(outcome["metrics"]["unfinished"], 1.0);
        let series = outcome["series"].as_array().unwrap();
        for kind in ["cwnd", "delivered", "queue", "rtt"] {
            assert!(series.iter().any(|series| series["series"] == kind), "no {kind}");
        }
        let names: Vec<_> = outcome["links"].as_array().unwrap().iter().map(|link| &link["name"]).collect();
        assert_eq!(names, ["server>gateway", "gateway>server", "gateway>client", "client>gateway"]);
    }
    assert!(live["outcome"]["fidelity"]["late_p99"].as_f64().unwrap() > 0.0);

    let json: serde_json::Value = serde_json::from_str(&read("results.json")).unwrap();
    assert_eq!(json["results"].as_array().unwrap().len(), 2);
    let html = read("report.html");
    assert!(html.contains("every &lt;workload&gt; that runs live") && html.contains("[hosts.server]"));
    assert!(html.contains("<svg") && html.contains("live / sim") && html.contains("seed"));
    for svg in ["metrics.svg", "series.svg"] {
        assert!(read(svg).starts_with("<svg"), "{svg}");
    }
    assert!(std::fs::read(out.join("metrics.png")).unwrap().starts_with(b"\x89PNG"));
    assert!(read("results.csv").contains(",live,") && read("series.csv").contains("cwnd"));
}

const SMALL: &str = r#"
duration = "5 s"
[hosts.server]
scheme = "cubic"
[hosts.client]
scheme = "cubic"
[[links]]
between = ["server", "client"]
link = { rate = "10 Mbit/s", delay = "5 ms", queue = "60 packets" }
[[flows]]
from = "server"
to = "client"
bulk = "200 kB"
"#;

#[test]
fn a_run_beyond_its_bounds_is_shown_and_not_trusted() {
    let scratch = Scratch::new("live-judgement");
    let file = scratch.file("small.toml", SMALL);
    let mut arguments = vec!["--engine", "live"];
    arguments.extend(PATIENT);
    arguments[3] = "0 s"; // nothing is ever delivered on the nanosecond
    let done = run(&file, &arguments);
    let (stdout, stderr) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.status.code(), Some(3), "{stdout}\n{stderr}");
    assert!(stdout.contains("goodput") && stdout.contains("1 runs not to be trusted"), "{stdout}");
    assert!(stderr.contains("do not trust: 1 % of the packets were late by more than"), "{stderr}");
}

#[test]
fn what_cannot_run_live_is_said_with_its_reasons() {
    let scratch = Scratch::new("live-unsupported");
    let text = SMALL
        .replacen("scheme = \"cubic\"", "scheme = \"tahoe\"", 1)
        .replace("queue = \"60 packets\" }", "queue = \"60 packets\" }\nmtu = 1000");
    let file = scratch.file("tahoe.toml", &text);
    let done = run(&file, &["--engine", "sim,live", "--repeats", "3"]);
    let (stdout, stderr) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.status.code(), Some(1), "{stdout}\n{stderr}");
    for words in [
        "live cannot run this",
        "host `server`: the profile `tahoe` has `loss_detection = \"tahoe\"`",
        "its MTU of 1000 bytes is below the 1280",
    ] {
        assert_eq!(stderr.matches(words).count(), 1, "{words}: {stderr}");
    }
    assert!(
        stdout.contains("3 runs failed") && stdout.contains("goodput"),
        "the simulations are there: {stdout}"
    );
}

/// Our own TCP with probes on one way, kernels on another, and datagrams that compete with both.
const OWN: &str = r#"
about = "our own TCP, live"
seed = 5
duration = "20 s"
routers = ["left", "right"]
[hosts.server]
scheme = { profile = "selective-probing", stack = "own" }
[hosts.client]
scheme = { profile = "selective-probing", stack = "own" }
[hosts.other]
scheme = "cubic"
[hosts.sink]
scheme = "cubic"
[[links]]
between = ["server", "left"]
link = { delay = "1 ms" }
[[links]]
between = ["other", "left"]
link = { delay = "1 ms" }
[[links]]
between = ["left", "right"]
link = { rate = "20 Mbit/s", delay = "5 ms", queue = "100 packets", loss = { model = "on-off", on = "200 ms", off = "400 ms", rate = 0.2 } }
[[links]]
between = ["right", "client"]
link = { delay = "1 ms" }
[[links]]
between = ["right", "sink"]
link = { delay = "1 ms" }
[[flows]]
name = "bulk"
from = "server"
to = "client"
opened_by = "server"
bulk = "1 MB"
[[flows]]
name = "files"
from = "server"
to = "client"
downloads = { size = "30 kB", repeats = 3, pause = "50 ms" }
[[flows]]
name = "web"
from = "client"
to = "server"
requests = { request = "300 B", response = "20 kB", count = 5, pause = "20 ms" }
[[flows]]
name = "kernels"
from = "other"
to = "sink"
bulk = "300 kB"
[[cross]]
name = "noise"
from = "left"
to = "right"
rate = "2 Mbit/s"
packet = "500 B"
lasts = "1 s"
[measure]
metrics = ["goodput", "completion", "set-up", "retransmitted", "timeouts", "unfinished"]
series = ["cwnd", "delivered", "rtt"]
"#;

#[test]
fn our_own_tcp_runs_live_beside_kernels_and_competing_datagrams() {
    let runs = in_both_engines("live-own", OWN);
    for (engine, outcome) in runs.iter().map(|run| (&run["engine"], &run["outcome"])) {
        let flow = |name: &str| {
            let flows = outcome["flows"].as_array().unwrap();
            flows.iter().find(|flow| flow["name"] == name).unwrap_or_else(|| panic!("no {name}")).clone()
        };
        for (name, bytes, transfers) in
            [("bulk", 1_000_000, 1), ("files", 90_000, 3), ("web", 100_000, 5), ("kernels", 300_000, 1)]
        {
            let flow = flow(name);
            assert_eq!(flow["delivered"], bytes, "{engine} {name}: {flow}");
            assert_eq!(flow["transfers"].as_array().unwrap().len(), transfers, "{engine} {name}");
            // 14 ms of round trip and no timeout of a second
            let set_up = flow["set_ups"][0].as_f64().unwrap();
            assert!(set_up > 0.014, "{engine} {name}: {flow}");
        }
        assert!(
            outcome["metrics"]["retransmitted"].as_f64().unwrap() > 0.0,
            "{engine}: the link loses packets"
        );
        let series = outcome["series"].as_array().unwrap();
        let of_bulk = |kind: &str| {
            let mut all = series.iter().filter(|series| series["series"] == kind);
            all.find(|series| series["subject"] == "bulk")
                .map(|series| series["points"].as_array().unwrap().len())
        };
        for kind in ["cwnd", "delivered", "rtt"] {
            assert!(of_bulk(kind).is_some_and(|points| points > 3), "{engine}: {kind}");
        }
    }
    // 2 Mbit/s for a second in datagrams of 500 bytes, beside acknowledgments and data of a thousand packets
    let offered = |run: &serde_json::Value| {
        let links = run["outcome"]["links"].as_array().unwrap();
        links.iter().find(|link| link["name"] == "left>right").unwrap()["offered"].as_u64().unwrap()
    };
    assert!(
        runs.iter().all(|run| offered(run) > 1_400),
        "{:?}",
        runs.iter().map(offered).collect::<Vec<_>>()
    );
}

/// Two downloads, of which the second is of a class that is known by its port.
const CLASSES: &str = r#"
about = "a class of flows by its port"
duration = "12 s"
[hosts.server]
scheme = "cubic"
[hosts.client]
scheme = "cubic"
[gateways.gateway]
access = "client"
mode = "split"
policy = [{ match = { ports = [1025] }, mode = "split", window = [{ kind = "clamp", window = "6 kB" }] }]
[[links]]
between = ["server", "gateway"]
link = { rate = "50 Mbit/s", delay = "40 ms", queue = "200 packets" }
[[links]]
between = ["gateway", "client"]
link = { rate = "10 Mbit/s", delay = "10 ms", queue = "60 packets" }
[[flows]]
name = "free"
from = "server"
to = "client"
downloads = { size = "200 kB", repeats = 2, pause = "50 ms" }
[[flows]]
name = "limited"
from = "server"
to = "client"
downloads = { size = "200 kB", repeats = 2, pause = "50 ms" }
[measure]
metrics = ["goodput"]
"#;

#[test]
fn flows_have_the_ports_of_the_simulator_so_that_policies_match_them() {
    for run in in_both_engines("live-classes", CLASSES) {
        let transfers = |flow: usize| -> Vec<f64> {
            let all = run["outcome"]["flows"][flow]["transfers"].as_array().unwrap();
            all.iter().map(|time| time.as_f64().unwrap()).collect()
        };
        let (free, limited) = (transfers(0), transfers(1));
        assert!(free.len() == 2 && limited.len() == 2, "{} {free:?} {limited:?}", run["engine"]);
        // 64 kB were offered by the phone itself; 136 kB in windows of 6 kB are 22 round trips of 80 ms toward the server.
        assert!(limited.iter().all(|time| *time > 1.7), "{} {limited:?}", run["engine"]);
        // One of them at least is not held up by a machine that is busy.
        assert!(free.iter().any(|time| *time < 1.5), "{} {free:?}", run["engine"]);
    }
}

#[test]
fn a_gateway_that_is_to_leave_flows_whole_is_not_blamed_for_it() {
    // One flow, and round trips that tell the first leg from the whole way.
    let text = CLASSES.replace("{ match = { ports = [1025] }, mode = \"split\", window = [{ kind = \"clamp\", window = \"6 kB\" }] }", "{ mode = \"pass\", intercept = [\"snoop\"] }");
    let limited = text.find("[[flows]]\nname = \"limited\"").unwrap();
    let measured = text.find("[measure]").unwrap();
    let one = format!("{}{}", &text[..limited], &text[measured..])
        .replace("delay = \"10 ms\"", "delay = \"30 ms\"");
    let [simulated, live] = in_both_engines("live-whole", &one);
    for run in [&simulated, &live] {
        assert_eq!(run["outcome"]["flows"][0]["transfers"].as_array().unwrap().len(), 2, "{run}");
    }
}

#[test]
fn a_flow_has_one_kind_of_tcp_at_both_ends() {
    let scratch = Scratch::new("live-mixed");
    let text = SMALL.replacen("scheme = \"cubic\"", "scheme = { profile = \"cubic\", stack = \"own\" }", 1);
    let done = run(&scratch.file("mixed.toml", &text), &["--engine", "live"]);
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("the ends of a flow have one kind of TCP"), "{stderr}");
}

#[test]
fn an_engine_that_there_is_not_is_answered_with_those_that_there_are() {
    let done = run(Path::new("any.toml"), &["--engine", "moon"]);
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("`moon`") && stderr.contains("model, sim, live"), "{stderr}");
}

/// Two relays, one of which stands beside the way, and a flow in each direction.
const RELAYED: &str = r#"
about = "relays on kernels"
seed = 3
duration = "20 s"
[hosts.server]
scheme = "sack-reno"
[hosts.client]
scheme = "sack-reno"
[relays.near]
scheme = "cubic"
buffer = "1 MB"
[relays.beside]
scheme = "sack-reno"
buffer = "1 MB"
forward = "when complete"
[[links]]
between = ["server", "near"]
link = { rate = "20 Mbit/s", delay = "5 ms", queue = "100 packets" }
[[links]]
between = ["near", "client"]
link = { rate = "20 Mbit/s", delay = "5 ms", queue = "100 packets" }
[[links]]
between = ["near", "beside"]
link = { rate = "20 Mbit/s", delay = "20 ms", queue = "100 packets" }
[[flows]]
name = "down"
from = "server"
to = "client"
opened_by = "client"
bulk = "400 kB"
[[flows]]
name = "up"
from = "client"
to = "server"
opened_by = "client"
via = ["near", "beside"]
bulk = "300 kB"
[[flows]]
name = "web"
from = "server"
to = "client"
requests = { request = "300 B", response = "20 kB", count = 5, pause = "20 ms" }
[[flows]]
name = "stream"
from = "server"
to = "client"
on_off = { rate = "1 Mbit/s", on = "200 ms", off = "100 ms", lasts = "850 ms" }
[[flows]]
name = "bursts"
from = "client"
to = "server"
persistent = { burst = "10 kB", idle = "50 ms", count = 3 }
[[flows]]
name = "around"
from = "client"
to = "server"
opened_by = "client"
via = []
bulk = "300 kB"
[measure]
metrics = ["completion"]
"#;

#[test]
fn relays_carry_on_what_a_scenario_sends_through_them() {
    let runs = in_both_engines("live-relays", RELAYED);
    for run in &runs {
        let delivered: Vec<u64> =
            (0..6).map(|flow| run["outcome"]["flows"][flow]["delivered"].as_u64().unwrap()).collect();
        // Of the stream: 25 pieces of 1000 bytes in each phase of 200 ms.
        assert_eq!(delivered, [400_000, 300_000, 100_000, 75_000, 30_000, 300_000], "{}", run["engine"]);
        assert_eq!(
            run["outcome"]["flows"][2]["transfers"].as_array().unwrap().len(),
            5,
            "one for each response"
        );
        // Its bytes leave for the relay that stands beside and come back, once each: no other flow's are on that link.
        for name in ["near>beside", "beside>near"] {
            let links = run["outcome"]["links"].as_array().unwrap();
            let link = links.iter().find(|link| link["name"] == name).unwrap();
            let carried = link["delivered_bytes"].as_u64().unwrap();
            assert!((300_000..600_000).contains(&carried), "{} {name}: {carried}", run["engine"]);
        }
        // It forwards when complete: twice 120 ms to serialize and four delays, whoever else is there or late.
        let up = run["outcome"]["flows"][1]["transfers"][0].as_f64().unwrap();
        assert!(up > 0.29, "{}: {up}", run["engine"]);
    }
}
