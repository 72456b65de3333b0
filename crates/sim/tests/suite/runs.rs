//! Whole runs: what applications get, and what must hold whatever they do.
use shorthaul_observe::Outcome;
use shorthaul_scenario::{Metric, Series, Study};
use shorthaul_sim::{Recording, simulate};
use shorthaul_tcp::SenderProfile;
use std::sync::{Arc, Mutex};

/// Runs the first point of a scenario, and wants nothing to have gone wrong.
fn run(text: &str, seed: u64) -> Outcome {
    let outcome = run_anyhow(text, seed);
    assert!(outcome.problems.is_empty(), "seed {seed}: {:?}\n{text}", outcome.problems);
    outcome
}

fn run_anyhow(text: &str, seed: u64) -> Outcome {
    let study = Study::from_toml("test.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let scenario = study.scenario(&study.points()[0]).expect("it was checked");
    simulate(&scenario, seed, Recording::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Two hosts, `hops` equal hops between them, and `rest`.
fn chain(hops: u32, link: &str, rest: &str) -> String {
    format!(
        "duration = \"300 s\"\n[hosts.a]\nscheme = \"sack-reno\"\n[hosts.b]\nscheme = \"sack-reno\"\n\
         [[chains]]\nbetween = [\"a\", \"b\"]\nhops = {hops}\nlink = {link}\n{rest}"
    )
}

const LINK: &str = "{ rate = \"10 Mbit/s\", delay = \"5 ms\", queue = \"50 packets\" }";
const BULK: &str = "[[flows]]\nname = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n";

#[test]
fn a_bulk_transfer_takes_as_long_as_the_bottleneck_needs() {
    let outcome = run(&chain(2, LINK, &format!("{BULK}bulk = \"5 MB\"")), 1);
    assert_eq!(outcome.flows[0].delivered, 5_000_000);
    // 5 MB in segments of 1448 bytes, each 1500 on the link, at 10 Mbit/s: 4.144 s, and a slow start of
    // a few round trips of 20 ms
    let time = outcome.metrics[&Metric::Completion];
    assert!((4.15..4.5).contains(&time), "{time} s");
    let goodput = outcome.metrics[&Metric::Goodput];
    assert!((9.0e6..9.66e6).contains(&goodput), "{goodput} bit/s");
}

#[test]
fn the_same_seed_is_the_same_run_and_another_is_another() {
    let link = "{ rate = \"10 Mbit/s\", delay = \"5 ms\", queue = \"50 packets\", loss = \"1 %\", \
                jitter = { delay = \"5 ms\", order = \"free\" }, duplicate = 0.01 }";
    let text = chain(3, link, &format!("relays = [2]\n{BULK}bulk = \"2 MB\""));
    let (one, again, other) = (run(&text, 7), run(&text, 7), run(&text, 8));
    assert_eq!(one, again);
    assert_ne!(one.trace_hash, other.trace_hash);
}

#[test]
fn every_workload_comes_to_its_end() {
    for (workload, bytes, transfers) in [
        ("bulk = \"100 kB\"", Some(100_000), 1),
        ("unlimited = \"3 s\"", None, 1),
        ("downloads = { size = \"30 kB\", repeats = 25, pause = \"exponential 200 ms\" }", Some(750_000), 25),
        (
            "requests = { request = \"300 B\", response = \"10 kB\", count = 40, pause = \"50 ms\" }",
            Some(400_000),
            40,
        ),
        (
            "on_off = { rate = \"2 Mbit/s\", on = \"exponential 500 ms\", off = \"1 s\", lasts = \"10 s\" }",
            None,
            1,
        ),
        ("persistent = { burst = \"20 kB\", idle = \"5 s\", count = 6 }", Some(120_000), 1),
    ] {
        for relays in ["", "relays = [1, 2]\n"] {
            let outcome = run(&chain(3, LINK, &format!("{relays}{BULK}{workload}")), 3);
            let flow = &outcome.flows[0];
            assert!(flow.ended, "{workload}");
            assert!(bytes.is_none_or(|bytes| flow.delivered == bytes), "{workload}: {}", flow.delivered);
            assert_eq!(flow.transfers.len(), transfers, "{workload}");
            assert!(flow.delivered > 0 && flow.transfers.iter().all(|time| *time > 0.0), "{workload}");
            assert!(outcome.ended_at < 100.0, "{workload}: {}", outcome.ended_at);
        }
    }
}

#[test]
fn an_on_off_source_keeps_its_rate() {
    let workload = "on_off = { rate = \"2 Mbit/s\", on = \"1 s\", off = \"1 s\", lasts = \"20 s\" }";
    let outcome = run(&chain(1, LINK, &format!("{BULK}{workload}")), 1);
    // ten seconds on at 250 kB/s
    assert!((outcome.flows[0].delivered as f64 / 2_500_000.0 - 1.0).abs() < 0.01, "{:?}", outcome.flows[0]);
}

#[test]
fn a_relay_never_holds_more_than_cmax_and_never_stalls() {
    // the second half is ten times slower, so the relay's buffer is full most of the time
    for (buffer, service) in [("8 packets", "0 s"), ("100 packets", "exponential 1 ms"), ("3 kB", "0 s")] {
        let rest = format!(
            "relays = [2]\nrelay = {{ scheme = \"sack-reno\", buffer = \"{buffer}\", service_time = \"{service}\" }}\n\
             hop.3 = {{ rate = \"1 Mbit/s\", delay = \"20 ms\", queue = \"20 packets\" }}\n{BULK}bulk = \"1 MB\"\n\
             [measure]\nseries = [\"buffer\"]\nevery = \"10 ms\""
        );
        let outcome = run(&chain(4, LINK, &rest), 5);
        assert_eq!(outcome.flows[0].delivered, 1_000_000);
        let buffer_series =
            outcome.series.iter().find(|series| series.series == Series::Buffer).expect("asked for");
        let most = buffer_series.points.iter().map(|(_, held)| *held).fold(0.0, f64::max);
        let cmax = match buffer {
            "8 packets" => 8_000.0,
            "3 kB" => 3_000.0,
            _ => 100_000.0,
        };
        assert!(most <= cmax && most > 0.7 * cmax, "{most} of {cmax}");
        if buffer == "100 packets" {
            // enough for a bandwidth-delay product: the slow half is busy all the time
            assert!(outcome.metrics[&Metric::Completion] < 1.15 * 8.3, "{:?}", outcome.metrics);
        }
    }
}

#[test]
fn the_service_time_bounds_the_packets_a_second() {
    let with = |service: &str| {
        let relay =
            format!("relays = [1]\nrelay = {{ service_time = \"{service}\", scheme = \"sack-reno\" }}\n");
        run(&chain(2, LINK, &format!("{relay}{BULK}bulk = \"1 MB\"")), 2).metrics[&Metric::Goodput]
    };
    // 1000 bytes every 8 ms are 1 Mbit/s
    let slow = with("exponential 8 ms");
    assert!((0.85e6..1.1e6).contains(&slow), "{slow}");
    assert!(with("exponential 100 us") > 5.0 * slow);
}

#[test]
fn splitting_a_lossy_path_pays_and_a_gateway_splits_it_unasked() {
    let lossy = "{ rate = \"32 Mbit/s\", delay = \"16 ms\", queue = \"200 packets\", loss = \"0.1 %\" }";
    let goodput = |rest: &str| {
        let text = chain(4, lossy, &format!("{rest}{BULK}unlimited = \"60 s\""));
        run(&text, 4).metrics[&Metric::Goodput]
    };
    let direct = goodput("");
    let relay = goodput("relays = [2]\nrelay = { scheme = \"sack-reno\", buffer = \"4 MB\" }\n");
    let gateway = run(
        &format!(
            "duration = \"100 s\"\nrouters = [\"r\", \"q\"]\n[hosts.a]\nscheme = \"sack-reno\"\n[hosts.b]\nscheme = \"sack-reno\"\n\
             [gateways.g]\naccess = \"q\"\nto_access = {{ congestion = \"reno\" }}\nto_wan = {{ congestion = \"reno\" }}\n\
             {}[[flows]]\nfrom = \"a\"\nto = \"b\"\nunlimited = \"60 s\"",
            [("a", "r"), ("r", "g"), ("g", "q"), ("q", "b")]
                .map(|(x, y)| format!("[[links]]\nbetween = [\"{x}\", \"{y}\"]\nlink = {lossy}\n"))
                .concat()
        ),
        4,
    );
    let gateway = gateway.metrics[&Metric::Goodput];
    // half the round trip and half the loss: √2·2 times the throughput, by the square-root law
    assert!(relay > 2.0 * direct, "{relay} against {direct}");
    assert!(gateway > 2.0 * direct, "{gateway} against {direct}");
}

#[test]
fn competing_traffic_comes_at_the_same_times_whatever_the_scheme() {
    let text = |scheme: &str| {
        chain(
            2,
            LINK,
            &format!(
                "{BULK}bulk = \"2 MB\"\nscheme = \"{scheme}\"\n[[cross]]\nname = \"x\"\nfrom = \"a-b.1\"\n\
             to = \"b\"\nrate = \"3 Mbit/s\"\nlasts = \"2 s\""
            ),
        )
    };
    let arrivals = |scheme: &str| -> Vec<String> {
        let study = Study::from_toml("test.toml", &text(scheme)).unwrap_or_else(|error| panic!("{error}"));
        let scenario = study.scenario(&study.points()[0]).expect("checked");
        let trace = Shared::default();
        let recording = Recording::default().trace(Box::new(trace.clone()));
        let outcome = simulate(&scenario, 9, recording).expect("a run");
        assert!(outcome.problems.is_empty(), "{:?}", outcome.problems);
        let text = String::from_utf8(trace.0.lock().expect("one thread").clone()).expect("JSON");
        let datagrams =
            text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
        datagrams
            .filter(|event| {
                event["size"] == 1000 && event.get("flow").is_none() && event["event"] != "delivered"
            })
            .map(|event| event["t"].to_string())
            .collect()
    };
    let (reno, cubic) = (arrivals("sack-reno"), arrivals("cubic"));
    assert!(reno.len() > 500, "{}", reno.len());
    assert_eq!(reno, cubic);
}

/// A file in memory that can be read while the recording has it.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("one thread").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_capture_holds_every_packet_of_the_link_and_says_which_were_dropped() {
    let lossy = "{ rate = \"10 Mbit/s\", delay = \"5 ms\", queue = \"10 packets\", loss = \"1 %\" }";
    let text = chain(2, lossy, &format!("{BULK}bulk = \"500 kB\""));
    let study = Study::from_toml("test.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let scenario = study.scenario(&study.points()[0]).expect("checked");
    let file = Shared::default();
    let recording = Recording::default().capture("a-a-b.1", Box::new(file.clone()));
    let outcome = simulate(&scenario, 2, recording).expect("a run");
    let bytes = file.0.lock().expect("one thread").clone();
    let reader = shorthaul_wire::pcapng::Reader::new(&bytes);
    let (mut packets, mut dropped, mut payload) = (0, 0, 0);
    for record in reader {
        let record = record.expect("a sound recording");
        packets += 1;
        dropped += u64::from(record.comment.starts_with("dropped"));
        let bytes = shorthaul_wire::Payload::copy_of(record.bytes);
        let datagram = shorthaul_wire::Datagram { bytes, offload: shorthaul_wire::Offload::default() };
        let packet = shorthaul_wire::parse(datagram).expect("a sound packet");
        payload += packet.as_tcp().map_or(0, |segment| segment.payload.len() as u64);
    }
    let [up, down] = [&outcome.links[0], &outcome.links[1]];
    assert_eq!(packets, up.offered + down.offered);
    assert_eq!(dropped, up.lost + up.queue_full + down.lost + down.queue_full);
    assert!(dropped > 0 && payload >= 500_000);
}

#[test]
fn a_queue_is_exactly_what_the_scenario_says() {
    for (limit, most) in [("7 packets", 7), ("50 packets", 50)] {
        let link = format!("{{ rate = \"10 Mbit/s\", delay = \"20 ms\", queue = \"{limit}\" }}");
        let outcome = run(&chain(1, &link, &format!("{BULK}bulk = \"3 MB\"")), 1);
        assert_eq!(outcome.links[0].max_queue, most);
        assert!(outcome.links[0].queue_full > 0);
    }
}

#[test]
fn nothing_times_out_where_nothing_is_lost() {
    // Small writes, delayed acknowledgments and a round trip of 2 ms: without a floor under the margin of the
    // RTO, every acknowledgment would come too late.
    for profile in SenderProfile::names() {
        let text = chain(
            1,
            "{ rate = \"10 Mbit/s\", delay = \"1 ms\" }",
            &format!(
                "{BULK}scheme = {{ profile = \"{profile}\", ack = \"delayed 40 ms\" }}\n\
                requests = {{ request = \"100 B\", response = \"400 B\", count = 50, pause = \"30 ms\" }}\n\
                [measure]\nmetrics = [\"retransmitted\", \"timeouts\"]"
            ),
        );
        let metrics = run(&text, 1).metrics;
        assert_eq!((metrics[&Metric::Retransmitted], metrics[&Metric::Timeouts]), (0.0, 0.0), "{profile}");
    }
}

#[test]
fn set_up_takes_one_and_a_half_round_trips_whoever_is_on_the_way() {
    let set_up = |relays: &str| {
        let link = "{ delay = \"10 ms\" }";
        let text =
            chain(4, link, &format!("{relays}{BULK}bulk = \"1 kB\"\n[measure]\nmetrics = [\"set-up\"]"));
        run(&text, 1).metrics[&Metric::SetUp]
    };
    // the round trip is 80 ms; a node opens its leg when the one before is established (PTS §4)
    for relays in ["", "relays = [1]\n", "relays = [1, 2, 3]\n"] {
        assert!((set_up(relays) - 0.12).abs() < 1e-6, "{relays}: {}", set_up(relays));
    }
}

/// How long 2 MB take over two legs of 40 ms by way of a relay that forwards in the way `forward`.
fn relayed_in(forward: &str) -> f64 {
    let text = format!(
        r#"
        duration = "100 s"
        [hosts.source]
        scheme = "cubic"
        [hosts.sink]
        scheme = "cubic"
        [relays.node]
        scheme = "cubic"
        buffer = "4 MB"
        forward = "{forward}"
        [[links]]
        between = ["source", "node"]
        link = {{ rate = "8 Mbit/s", delay = "20 ms", queue = "100 packets" }}
        [[links]]
        between = ["node", "sink"]
        link = {{ rate = "8 Mbit/s", delay = "20 ms", queue = "100 packets" }}
        [[flows]]
        from = "source"
        to = "sink"
        bulk = "2 MB"
        "#
    );
    run(&text, 1).metrics[&Metric::Completion]
}

#[test]
fn a_relay_forwards_when_it_is_told_to() {
    let at_once = relayed_in("at once");
    let waited = relayed_in("after 16 round trips") - at_once;
    // 16 round trips of 40 ms, less what the second leg would have waited for the first one's slow start
    assert!((0.4..0.64).contains(&waited), "{waited}");
    // Stored, the legs are one after the other: the size takes its time twice.
    let stored = relayed_in("when complete");
    assert!((1.8..2.1).contains(&(stored / at_once)), "{stored} and {at_once}");
}

/// Seconds from the first SYN until 3 kB have come through two relays, 10 ms from each other and from the ends.
fn small_by_two_relays(set_up: &str) -> f64 {
    let links: String = [("a", "r1"), ("r1", "r2"), ("r2", "b")]
        .map(|(from, to)| {
            format!("[[links]]\nbetween = [\"{from}\", \"{to}\"]\nlink = {{ delay = \"10 ms\" }}\n")
        })
        .concat();
    let text = format!(
        "duration = \"10 s\"\n[hosts.a]\n[hosts.b]\n[relays.r1]\n[relays.r2]\n{links}{BULK}opened_by = \"a\"\nset_up = \"{set_up}\"\nbulk = \"2 kB\""
    );
    run(&text, 1).flows[0].transfers[0]
}

#[test]
fn a_transfer_begins_with_the_first_syn_and_relays_can_be_set_up_one_after_the_other() {
    // 1.5 round trips of 60 ms; the first window holds all of it
    let parallel = small_by_two_relays("parallel");
    assert!((parallel - 0.09).abs() < 0.002, "{parallel} s");
    // and 1.5 round trips of 20 ms to the first relay before that
    let sequential = small_by_two_relays("sequential");
    assert!((sequential - parallel - 0.03).abs() < 1e-6, "{sequential} s, in parallel {parallel} s");
}

/// Bits a second through a relay after one of two links of 10 ms, with a window of 20 kB, each packet served for 20 ms.
fn served(how: &str) -> f64 {
    let scheme = "{ profile = \"newreno\", mss = 1000, ack = \"immediate\", receive_buffer = \"20 kB\" }";
    let text = format!(
        "duration = \"60 s\"\n[hosts.a]\nscheme = {scheme}\n[hosts.b]\nscheme = {scheme}\n\
         [[chains]]\nbetween = [\"a\", \"b\"]\nhops = 2\nlink = {{ delay = \"10 ms\" }}\nrelays = [1]\n\
         relay = {{ scheme = {scheme}, service_time = \"20 ms\", served = \"{how}\" }}\n{BULK}unlimited = \"50 s\""
    );
    run(&text, 1).metrics[&Metric::Goodput]
}

#[test]
fn what_a_service_time_holds_up_is_the_scenarios_choice() {
    // one packet of 1000 bytes each 20 ms, acknowledged before or after
    for how in ["after the acknowledgment", "before the acknowledgment"] {
        let goodput = served(how);
        assert!((goodput / 0.4e6 - 1.0).abs() < 0.03, "{how}: {goodput} bit/s");
    }
    // a window of 20 packets each 20 ms + 20 ms
    let goodput = served("all at once");
    assert!((goodput / 4e6 - 1.0).abs() < 0.05, "{goodput} bit/s");
}

#[test]
fn users_of_a_cell_share_its_channel_block_by_block() {
    let user = |name: &str| {
        format!(
            "[[links]]\nbetween = [\"mast\", \"{name}\"]\nlink = {{ delay = \"20 ms\", queue = \"60 kB\", down = {{ rate = \"1 Mbit/s\" }} }}\n\
             [[flows]]\nname = \"{name}\"\nfrom = \"server\"\nto = \"{name}\"\nunlimited = \"60 s\"\n"
        )
    };
    let text = |channel: &str| {
        format!(
            "duration = \"60 s\"\nwarm_up = \"10 s\"\nrouters = [\"mast\"]\n[hosts.server]\nscheme = \"sack-reno\"\n\
             [hosts.near]\nscheme = \"sack-reno\"\n[hosts.far]\nscheme = \"sack-reno\"\n\
             [[links]]\nbetween = [\"server\", \"mast\"]\nlink = {{ rate = \"100 Mbit/s\", delay = \"10 ms\" }}\n{}{}\
             [[cells]]\nname = \"cell\"\nfrom = \"mast\"\nusers = [\"near\", \"far\"]\nchannel = {channel}\n\
             [measure]\nmetrics = [\"goodput\", \"fairness\", \"queue-delay\"]\n",
            user("near"),
            user("far")
        )
    };
    // 1000 bytes every 2 ms are 4 Mbit/s, of which 1448 of 1500 are payload
    let clean =
        "{ network = \"umts\", block = \"1 kB\", error_good = 0.0, error_bad = 0.0, coding = [1.0, 0.5] }";
    let outcome = run(&text(clean), 1);
    let goodput = |outcome: &Outcome| [0, 1].map(|flow| outcome.flows[flow].goodput / 1e6);
    let [near, far] = goodput(&outcome);
    // equal slots: two halves of 3.86 Mbit/s, one of them halved again by its coding
    assert!((1.8..2.0).contains(&near) && (0.9..1.0).contains(&far), "{near} and {far} Mbit/s");
    // errors cost as many slots as they hit, and nobody's bytes
    let noisy = "{ network = \"umts\", block = \"1 kB\", error_good = 0.2, error_bad = 0.2, scheduler = \"proportional-fair\" }";
    let [near, far] = goodput(&run(&text(noisy), 1));
    assert!((2.97..3.21).contains(&(near + far)), "{near} and {far} Mbit/s of 3.09");
    assert!((near / far - 1.0).abs() < 0.1, "{near} and {far} Mbit/s");
    // what is given up is lost to TCP, and no packet is forgotten
    let lossy = "{ network = \"umts\", retries = 1, error_good = 0.1, error_bad = 0.1 }";
    let lost: u64 = run(&text(lossy), 1).links.iter().map(|link| link.lost).sum();
    assert!(lost > 20, "{lost}");
}

/// A relay before a half that is ten times slower: the outcome, and the most that it held.
fn before_a_slow_half(overflow: &str, buffer: &str) -> (Outcome, f64) {
    let scheme = "{ profile = \"sack-reno\", receive_buffer = \"400 kB\", mss = 1000 }";
    let rest = format!(
        "relays = [2]\nrelay = {{ scheme = {scheme}, buffer = \"{buffer}\", overflow = \"{overflow}\" }}\n\
         hop.3 = {{ rate = \"1 Mbit/s\", delay = \"20 ms\", queue = \"20 packets\" }}\n{BULK}bulk = \"1 MB\"\n\
         [measure]\nmetrics = [\"goodput\", \"relay-drops\", \"retransmitted\"]\nseries = [\"buffer\"]\nevery = \"10 ms\""
    );
    let outcome = run(&chain(4, LINK, &rest), 5);
    let held = outcome.series.iter().find(|series| series.series == Series::Buffer).expect("asked for");
    let most = held.points.iter().map(|(_, held)| *held).fold(0.0, f64::max);
    (outcome, most)
}

#[test]
fn a_relay_that_drops_keeps_to_cmax_and_its_sender_finds_out() {
    for buffer in ["8 packets", "100 packets"] {
        let (closed, _) = before_a_slow_half("close", buffer);
        assert_eq!(closed.metrics[&Metric::RelayDrops], 0.0);
        let (dropping, most) = before_a_slow_half("drop", buffer);
        let cmax = if buffer == "8 packets" { 8_000.0 } else { 100_000.0 };
        assert_eq!(
            dropping.flows[0].delivered, 1_000_000,
            "{buffer}: everything arrives, and what follows a gap never shuts it out"
        );
        assert!(most <= cmax && most > 0.7 * cmax, "{most} of {cmax}");
        let [drops, retransmitted] =
            [Metric::RelayDrops, Metric::Retransmitted].map(|metric| dropping.metrics[&metric]);
        assert!(drops > 5.0 && retransmitted > 900.0 * drops, "{drops} drops, {retransmitted} bytes again");
    }
}

/// When the one packet of a flow has arrived at a relay that serves 100 packets of another first, each for 20 ms.
fn beside_a_busy_session(queues: &str) -> [f64; 2] {
    let text = format!(
        "duration = \"60 s\"\n[hosts.a]\n[hosts.b]\n[[chains]]\nbetween = [\"a\", \"b\"]\nhops = 2\nlink = {{ delay = \"10 ms\" }}\nrelays = [1]\n\
         relay = {{ service_time = \"20 ms\", queues = \"{queues}\" }}\n\
         [[flows]]\nname = \"busy\"\nfrom = \"a\"\nto = \"b\"\nbulk = \"100 kB\"\n\
         [[flows]]\nname = \"small\"\nfrom = \"a\"\nto = \"b\"\nbulk = \"1000 B\"\nstart = \"500 ms\"\n"
    );
    let outcome = run(&text, 1);
    [0, 1].map(|flow| outcome.flows[flow].transfers[0])
}

#[test]
fn sessions_wait_for_each_other_as_the_relays_queues_say() {
    // One queue: what the busy session has there goes first, 100 packets in two seconds.
    let [busy, small] = beside_a_busy_session("one");
    assert!((2.0..2.3).contains(&busy) && (1.4..1.8).contains(&small), "{busy} s and {small} s");
    // In turn: one packet of the other session at most.
    let [busy, small] = beside_a_busy_session("per session");
    assert!((2.0..2.3).contains(&busy) && (0.06..0.13).contains(&small), "{busy} s and {small} s");
    let [_, beside] = beside_a_busy_session("per session, served at once");
    assert!(beside < small, "{beside} s and {small} s in turn");
}

/// The window of a source whose receiver takes 20 packets, and the time it has to grow.
fn windows_of(more: &str) -> Vec<(f64, f64)> {
    let scheme = format!(
        "{{ profile = \"tahoe\", mss = 1000, initial_window = 1, ack = \"immediate\", receive_buffer = \"20 kB\"{more} }}"
    );
    let text = format!(
        "duration = \"10 s\"\n[hosts.a]\nscheme = {scheme}\n[hosts.b]\nscheme = {scheme}\n\
         [[links]]\nbetween = [\"a\", \"b\"]\nlink = {{ rate = \"10 Mbit/s\", delay = \"50 ms\", queue = \"50 packets\" }}\n{BULK}unlimited = \"10 s\"\n\
         [measure]\nseries = [\"cwnd\"]\nevery = \"100 ms\""
    );
    run(&text, 1).series.remove(0).points
}

#[test]
fn a_window_that_is_not_validated_grows_past_what_is_used_and_slow_start_ends_where_it_was_told_to() {
    let last = |points: &[(f64, f64)]| points.last().expect("samples").1;
    let usual = windows_of("");
    assert!(last(&usual) <= 42_000.0, "twice what was in flight and a segment at most: {usual:?}");
    // From 20 packets on, one more for each round trip of 101 ms in which 20 packets pass: n(n+1)/2 − 20·21/2 = 20·(rounds).
    let grown = windows_of(", initial_ssthresh = 20, window_validation = false");
    let at_two = grown.iter().find(|(at, _)| *at >= 2.0).expect("a sample").1;
    assert!((last(&grown) / 1000.0 - 63.0).abs() < 4.0 && at_two < 36_000.0, "{grown:?}");
    // Without a threshold it is slow start all along.
    assert!(last(&windows_of(", window_validation = false")) > 1_000_000.0);
    let held = windows_of(", initial_ssthresh = 8");
    assert!(held.iter().any(|(at, window)| *at > 1.0 && *at < 1.3 && *window < 20_000.0), "{held:?}");
}
