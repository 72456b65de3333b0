//! Scenario files as people write them: what they mean, and what is said where they make no sense.
use serde_json::Value;
use shorthaul_link::{Direction, QueueLimit, Rate};
use shorthaul_proxy::SenderSpec;
use shorthaul_scenario::{Metric, Role, Study, Workload, schema};
use shorthaul_types::{BitRate, Bytes, Seed};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const PTS: &str = r#"
about = "eight hops, with a relay in the middle"
seed = 7
repeats = 3
duration = "100 s"
warm_up = "10 s"

[hosts.source]
scheme = { profile = "newreno", ack = "immediate", rto = "1 s" }
[hosts.sink]

[[chains]]
between = ["source", "sink"]
hops = 8
link = { rate = "10 Mbit/s", delay = "10 ms", queue = "50 packets" }
relays = [4]
relay = { buffer = "1024 packets", service_time = "exponential 100 us" }
hop.2 = { rate = "10 Mbit/s", delay = "10 ms", loss = "1 %" }

[[flows]]
name = "ftp"
from = "source"
to = "sink"
unlimited = "100 s"

[measure]
metrics = ["goodput", "queue-length"]
series = ["cwnd"]

[sweep]
"chains.source-sink.relays" = [[], [2], [4], [2, 4]]
"#;

fn error(text: &str) -> String {
    Study::from_toml("s.toml", text).expect_err("this makes no sense").to_string()
}

#[test]
fn a_chain_is_spelled_out() {
    let study = Study::from_toml("pts.toml", PTS).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((study.name(), study.points().len()), ("pts", 4));
    assert_eq!(study.seeds().collect::<Vec<_>>(), [7, 8, 9]);
    let scenario = study.scenario(&study.points()[2]).unwrap();
    assert_eq!((scenario.nodes.len(), scenario.links.len()), (9, 8));
    let relay = scenario.node("source-sink.4").unwrap();
    let Role::Relay(relay_spec) = &scenario.nodes[relay.0].role else { panic!("a relay") };
    assert_eq!(relay_spec.buffer, Bytes(1_024_000));
    assert_eq!(scenario.flows[0].via, [relay]);
    assert_eq!(scenario.flows[0].workload, Workload::Unlimited(Duration::from_secs(100)));
    assert!(scenario.flows[0].sender_opens);
    assert_eq!(scenario.measure.metrics, [Metric::Goodput, Metric::QueueLength]);
    let config = scenario.links[0].config(Direction::Up, Seed(1));
    assert_eq!(config.rate, Rate::Fixed(BitRate::from_bits_per_sec(10_000_000)));
    assert_eq!(config.queue, QueueLimit::Packets(50));
    assert_ne!(scenario.links[1].config(Direction::Up, Seed(1)).loss, config.loss);
    let direct = study.scenario(&study.points()[0]).unwrap();
    assert!(direct.flows[0].via.is_empty());
    assert_eq!(
        direct.links[3].seed(Seed(5)),
        scenario.links[3].seed(Seed(5)),
        "schemes meet the same faults"
    );
}

#[test]
fn cases_and_sweeps_multiply() {
    let text = format!(
        "{PTS}[cases.plain]\n\"hosts.source.scheme\" = \"newreno\"\n[cases.slow]\n\
         \"hosts.source.scheme\" = {{ profile = \"newreno\", rto = \"rfc6298\" }}\n\"flows.ftp.unlimited\" = \"9 s\"\n"
    );
    let study = Study::from_toml("s.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let labels: Vec<String> = study.points().iter().map(|point| point.label()).collect();
    assert_eq!(labels.len(), 8);
    assert_eq!(labels[0], "plain, chains.source-sink.relays = []");
    let slow = study.scenario(&study.points()[7]).unwrap();
    assert_eq!(slow.flows[0].workload, Workload::Unlimited(Duration::from_secs(9)));
    assert_eq!(slow.flows[0].via.len(), 2);
    assert!(study.explain().contains("24 runs: 8 points, each with 3 seeds"), "{}", study.explain());
}

#[test]
fn points_are_in_the_order_of_the_file() {
    let text = format!(
        "{PTS}\"hosts.source.scheme.rto\" = [\"2 s\", \"1 s\"]\n\"duration\" = [\"200 s\", \"100 s\"]\n\
         [cases.second]\n[cases.first]\n\"warm_up\" = \"9 s\"\n"
    );
    let study = Study::from_toml("s.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let labels: Vec<String> = study.points().iter().map(|point| point.label()).collect();
    let relays = "chains.source-sink.relays = []";
    assert_eq!(
        labels[..3],
        [
            format!("second, {relays}, hosts.source.scheme.rto = \"2 s\", duration = \"200 s\""),
            format!("second, {relays}, hosts.source.scheme.rto = \"2 s\", duration = \"100 s\""),
            format!("second, {relays}, hosts.source.scheme.rto = \"1 s\", duration = \"200 s\""),
        ]
    );
    assert!(labels.len() == 32 && labels[16].starts_with("first, "), "{labels:?}");
}

#[test]
fn the_way_with_the_fewest_hops_is_taken_and_never_through_a_host() {
    let text = r#"
duration = "1 s"
routers = ["r", "q"]
[hosts]
a = {}
b = {}
c = {}
[[links]]
between = ["a", "c"]
link = {}
[[links]]
between = ["c", "b"]
link = {}
[[links]]
between = ["a", "r"]
link = {}
[[links]]
between = ["r", "q"]
link = {}
[[links]]
between = ["b", "q"]
link = {}
[[flows]]
from = "a"
to = "b"
bulk = "1 kB"
"#;
    let study = Study::from_toml("s.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let scenario = study.scenario(&study.points()[0]).unwrap();
    let way = scenario.way(scenario.node("a").unwrap(), scenario.node("b").unwrap()).unwrap();
    assert_eq!(way, [(2, Direction::Up), (3, Direction::Up), (4, Direction::Down)]);
}

#[test]
fn errors_name_file_line_text_and_remedy() {
    let says = |from: &str, to: &str, parts: &[&str]| {
        assert!(PTS.contains(from), "`{from}` is not in the example");
        let error = error(&PTS.replace(from, to));
        for part in ["s.toml, line "].iter().chain(parts) {
            assert!(error.contains(part), "`{part}` is not in: {error}");
        }
    };
    says(
        "from = \"source\"",
        "from = \"sorce\"",
        &["line 22: `from = \"sorce\"`", "no node `sorce`", "source"],
    );
    says(
        "[hosts.sink]",
        "[hosts.sink]\n[hosts.other]",
        &["line 11", "no link leads to `other`", "[[links]]"],
    );
    says("\"newreno\", ack", "\"neworeno\", ack", &["line 9", "`neworeno` is not a profile", "newreno, "]);
    says("from = \"source\"", "from = \"source-sink.1\"", &["line 22", "is no host"]);
    says(
        "link = { rate = \"10 Mbit/s",
        "link = { rate = \"10 Mbit",
        &["line 15: `link", "`10 Mbit` is not a rate", "32 Mbit/s"],
    );
    says("unlimited = \"100 s\"", "", &["line 20: `[[flows]]`", "exactly one of", "bulk = \"5 MB\""]);
    says("relays = [4]", "relays = [8]", &["line 16: `relays = [8]`", "1 to 7 hops"]);
    says("hops = 8", "hops = 2", &["line 16", "1 to 1 hops"]);
    says("ack = \"immediate\"", "ack = \"at once\"", &["line 9", "delayed 40 ms"]);
    says("\"queue-length\"", "\"queue\"", &["line 27", "queue-length"]);
    says("warm_up", "warmup", &["line 6: `warmup", "unknown field", "warm_up"]);
    says(
        ".relays\" = [[]",
        ".relay_at\" = [[]",
        &["line 31", "no `chains.source-sink.relay_at`", "usual value"],
    );
    says(
        "[], [2]",
        "[9], [2]",
        &["line 16: `relays = [9]` (with chains.source-sink.relays = [9])", "1 to 7 hops"],
    );
    says("exponential 100 us", "exponential 0 us", &["line 17", "mean must be above zero"]);
    says("\"1024 packets\"", "\"1024\"x", &["line 17"]);
    says("duration = \"100 s\"", "duration = \"100\"", &["line 5", "1.5 s"]);
    assert!(error(&PTS.replace("warm_up = \"10 s\"", "warm_up = \"200 s\"")).contains("leaves nothing"));
    let aside = "[gateways.aside]\naccess = \"sink\"\n[[links]]\nbetween = [\"aside\", \"sink\"]\n\
                 link = { rate = \"1 Mbit/s\", delay = \"1 ms\", queue = \"9 packets\" }\n[[flows]]";
    says("[[flows]]", aside, &["line 20", "one link alone leads to `aside`"]);
    assert!(error("duration = \"1 s\"").contains("[[flows]]"));
    let missing = Study::from_file(std::path::Path::new("no/such.toml")).unwrap_err().to_string();
    assert!(missing.starts_with("no/such.toml: cannot be read"), "{missing}");
}

/// Every key that the reader takes, as it names them itself when it meets one that it does not know.
fn keys(text: &str) -> BTreeSet<String> {
    let error = error(text);
    let list = error.split("expected").nth(1).unwrap_or_else(|| panic!("no list of keys in: {error}"));
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Names that keys had, which are read but not recommended.
const OLD: [&str; 2] = ["arbiter", "recovery"];

/// Most of the schema is derived from the types that are read. This is what is not.
#[test]
fn the_schema_knows_exactly_the_keys_that_are_read() {
    let schema = schema().to_value();
    let of = |pointer: &str| -> BTreeSet<String> {
        let object = schema.pointer(pointer).and_then(Value::as_object);
        object.unwrap_or_else(|| panic!("{pointer} is not in the schema")).keys().cloned().collect()
    };
    for (pointer, text) in [
        ("/properties", "x = 1"),
        ("/$defs/Scheme/anyOf/1/properties", "[hosts.a]\nscheme = { x = 1 }"),
        ("/$defs/Leg/properties", "[gateways.a]\nto_access = { x = 1 }"),
    ] {
        let read: BTreeSet<String> = keys(text).into_iter().filter(|key| !OLD.contains(&&**key)).collect();
        assert_eq!(of(pointer), read, "{pointer}");
    }
    let ways = schema.pointer("/$defs/SenderControl/anyOf").and_then(Value::as_array).expect("ways");
    let of_schema: BTreeMap<&str, BTreeSet<&str>> = ways
        .iter()
        .filter_map(|way| {
            let keys = way.get("properties")?.as_object()?;
            let name = keys["policy"]["const"].as_str()?;
            Some((name, keys.keys().map(String::as_str).filter(|key| *key != "policy").collect()))
        })
        .collect();
    assert_eq!(of_schema.len(), SenderSpec::policies().count());
    for policy in SenderSpec::policies() {
        let text = format!("[gateways.a]\naccess = \"b\"\nsenders = {{ policy = \"{policy}\", x = 1 }}");
        let read = if error(&text).contains("expected") { keys(&text) } else { BTreeSet::new() };
        let read: BTreeSet<&str> = read.iter().map(String::as_str).collect();
        assert_eq!(of_schema[policy], read, "{policy}");
    }
    let metrics = schema.pointer("/$defs/Metric/oneOf").and_then(Value::as_array).expect("metrics");
    let names: Vec<&str> = metrics.iter().filter_map(|metric| metric["const"].as_str()).collect();
    assert_eq!(names, Metric::ALL.map(|(_, name, _)| name));
}

#[test]
fn the_example_in_the_documentation_is_sound() {
    let page = include_str!("../../../docs/scenarios.md");
    let example = page.split("```toml").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let study = Study::from_toml("docs/scenarios.md", example).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((study.points().len(), study.seeds().count()), (8, 10));
    let scenario = study.scenario(&study.points()[0]).unwrap();
    assert_eq!(scenario.flows.len(), 4);
    assert_eq!(scenario.flows[0].via.len(), 1, "the relay of the chain is on the way, the other is not");
    // Its client downloads over the faster direction.
    let way = scenario.way(scenario.node("gw").unwrap(), scenario.node("client").unwrap()).unwrap();
    let rate = |direction| scenario.links[way[0].0].config(direction, Seed(1)).rate;
    let mbit = |n: u64| Rate::Fixed(BitRate::from_bits_per_sec(n * 1_000_000));
    assert_eq!((way.len(), way[0].1), (1, Direction::Down));
    assert_eq!((rate(Direction::Down), rate(Direction::Up)), (mbit(10), mbit(2)));
}

#[test]
fn what_is_wrong_within_a_gateways_policies_is_said() {
    let gateway = |rest: &str| {
        error(&format!(
            "duration = \"1 s\"\nrouters = [\"r\"]\nhosts = {{ h = {{}} }}\nlinks = [{{ between = [\"g\", \"h\"], link = {{}} }}]\n[gateways.g]\naccess = \"h\"\n{rest}\n"
        ))
    };
    for (rest, line, part) in [
        ("policy = [{ window = [{ kind = \"clamp\" }] }]", 7, "such as \"12 kB\""),
        ("policy = [{ match = { hosts = [\"x\"] } }]", 7, "10.1.0.0/16"),
        (
            "policy = [\n  { match = { ports = [1] }, mode = \"observe\", ack = \"delivered\" },\n]",
            8,
            "policy 1: mode:",
        ),
        (
            "aggregate = \"auto\"\nsenders = { policy = \"path-tail\", bandwidth = \"1 Mbit/s\" }",
            5,
            "aggregate: a host",
        ),
        ("senders = { policy = \"clamp\", window = \"much\" }", 7, "window: `much`"),
        ("hosts = { prefix_v4 = 33 }", 7, "0 to 32"),
        (
            "aggregate = { classes = [{ name = \"web\", priority = 1 }] }",
            5,
            "no connection is in the class `web`",
        ),
        (
            "hosts = { prefix_v4 = 24 }\naggregate = { prefix_v4 = 28 }",
            5,
            "write it once, as `hosts = { prefix_v4 = 24 }`",
        ),
    ] {
        let error = gateway(rest);
        assert!(error.contains(&format!("line {line}")) && error.contains(part), "{rest}: {error}");
    }
}

#[test]
fn what_is_wrong_within_an_aggregate_is_said() {
    let of = |aggregate: &str| error(&format!("[gateways.g]\naggregate = {aggregate}\n"));
    for (aggregate, part) in [
        ("{ host_buffer = \"0 B\" }", "write at least \"20 kB\""),
        ("{ headroom = -1.0 }", "`headroom` is -1"),
        ("{ invitations = { b = nan } }", "`b` is NaN"),
        ("{ hedroom = 1.0 }", "hedroom"),
        ("7", "a window such as \"10 kB\""),
    ] {
        let error = of(aggregate);
        assert!(error.contains("line 2") && error.contains(part), "{aggregate}: {error}");
    }
}

#[test]
fn queues_of_a_relay_that_serves_before_tcp_are_refused() {
    let with = |keys: &str| PTS.replace("service_time = \"exponential 100 us\"", keys);
    let refused = error(&with("queues = \"per session\", served = \"all at once\""));
    assert!(refused.contains("`queues`") && refused.contains("line 17"), "{refused}");
    assert!(Study::from_toml("s.toml", &with("queues = \"per session\", overflow = \"drop\"")).is_ok());
    assert!(error(&with("overflow = \"spill\"")).contains("drop"));
}

#[test]
fn a_threshold_that_is_none_is_refused() {
    let error = error(&PTS.replace("ack = \"immediate\"", "initial_ssthresh = 1"));
    assert!(error.contains("2 to 1000000"), "{error}");
}

#[test]
fn every_file_that_comes_with_the_program_is_sound() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = ["scenarios", "papers", "bench/sim"].map(|folder| root.join(folder)).to_vec();
    let mut read = 0;
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "toml") {
                Study::from_file(&path).unwrap_or_else(|error| panic!("{error}"));
                read += 1;
            }
        }
    }
    assert!(read > 80, "{read}");
}
