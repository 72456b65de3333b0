use super::costs::{Costs, DirectoryCosts, Measured, ProbeCosts, TableCosts};
use super::outcome::{Figures, Spread};
use super::paper::longest_look;
use super::round::{Host, Hosts, Question, Relay, Round};
use super::scenario::{DirectoryKind, Scenario};
use super::world::{Draws, World, target};
use super::{Ran, run};
use shorthaul_relay::discovery::{
    Arrival, Body, Bound, By, Datagram, Findings, Found, Handshake, Identity, Key, Keyring, Limits, Load,
    Message, Onward, PORT, Prober, Question as Asked, Rations, Responder, ResponderConfig, Retry, lingering,
};
use shorthaul_report::{Progress, Silence};
use shorthaul_types::{Bytes, Seed, Time};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

fn costs() -> Costs {
    let us = Duration::from_micros;
    Costs {
        measured: Measured {
            by: "a test".into(),
            program: String::new(),
            processor: String::new(),
            kernel: String::new(),
            etcd: String::new(),
        },
        probe: ProbeCosts { answered: us(20), refused: us(5), asked: us(20) },
        directory: DirectoryCosts {
            server_per_1000: us(5000),
            client_per_1000: us(5000),
            bytes_per_1000: Bytes(400_000),
            server_per_write: us(200),
            file_per_1000: us(5000),
        },
        table: TableCosts { lookup: us(1) },
    }
}

/// A thousand clients that ask a hundred nodes, and lose nothing.
const SMALL: &str = r#"
costs = "costs.toml"
seed = 5
time = "40 min"
settles = "15 min"
[nodes]
count = 100
changing = 0.5
[clients]
count = 1000
per_network = 4
visits = 3
sessions = 5
gap = "15 s"
size = "1 MB"
rate = "100 Mbit/s"
[destinations]
count = 200
popularity = 1.0
responders = 1.0
[ways]
farthest = "250 ms"
access = "15 ms"
loss = 0.0
[bootstrap]
on_path = 0.0
directory = "etcd"
members = 3
cores = 8
rate = "10 Gbit/s"
"#;

fn small(changes: &[(&str, &str)]) -> Scenario {
    let text = changes.iter().fold(SMALL.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    Scenario::parse(&text).unwrap()
}

fn ran(scenario: &Scenario) -> Ran {
    run(scenario, &costs(), &Progress::begin(&Silence, 1))
}

fn is_about(what: &str, simulated: f64, expected: f64, within: f64) {
    assert!((simulated / expected - 1.0).abs() < within, "{what}: {simulated}, and {expected} was expected");
}

#[test]
fn what_makes_no_sense_is_said_of_a_scenario() {
    for (from, to, word) in [
        ("count = 100\n", "count = 0\n", "nodes.count"),
        ("count = 100\n", "count = 100000\n", "65536"),
        ("changing = 0.5", "changing = nan", "nodes.changing"),
        ("changing = 0.5", "changing = -1", "nodes.changing"),
        ("changing = 0.5", "", "changing"),
        ("count = 1000\n", "count = 1000000000\n", "clients.count"),
        ("count = 1000\n", "count = 100000000\n", "clients.count / clients.thin"),
        ("per_network = 4", "per_network = 4\nthin = 0", "clients.thin"),
        ("visits = 3", "visits = 0", "clients.visits"),
        ("visits = 3", "visits = inf", "clients.visits"),
        ("visits = 3", "visits = 70", "longer than an hour"),
        ("sessions = 5", "sessions = 0.5", "clients.sessions"),
        ("gap = \"15 s\"", "gap = 15", "15"),
        ("gap = \"15 s\"", "gap = \"-1 s\"", "-1 s"),
        ("size = \"1 MB\"", "size = \"1 GB\"", "clients.size"),
        ("count = 200", "count = 0", "destinations.count"),
        ("popularity = 1.0", "popularity = 30", "destinations.popularity"),
        ("responders = 1.0", "responders = 1.1", "destinations.responders"),
        ("farthest = \"250 ms\"", "farthest = \"0 s\"", "ways.farthest"),
        ("loss = 0.0", "loss = 1.0", "ways.loss"),
        ("directory = \"etcd\"", "directory = \"none\"", "nobody would find a node"),
        ("directory = \"etcd\"", "directory = \"zookeeper\"", "zookeeper"),
        ("members = 3", "membres = 3", "membres"),
        ("time = \"40 min\"", "time = \"1 s\"", "time"),
        ("seed = 5", "seed = -5", "seed"),
    ] {
        assert!(SMALL.contains(from), "{from}");
        let error = Scenario::parse(&SMALL.replacen(from, to, 1)).expect_err(to);
        assert!(error.contains(word), "{to}: {error}");
    }
}

#[test]
fn a_file_that_is_not_there_and_one_without_costs_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("network.toml");
    let error = |path| Scenario::read(path).map(|_| ()).unwrap_err().to_string();
    assert!(error(&path).contains("network.toml"));
    std::fs::write(&path, SMALL).unwrap();
    let said = error(&path);
    assert!(said.contains("costs.toml") && said.contains("bench network-costs"), "{said}");
    std::fs::write(folder.path().join("costs.toml"), toml::to_string(&costs()).unwrap()).unwrap();
    assert_eq!(Scenario::read(&path).unwrap().1, costs());
    let free = toml::to_string(&Costs {
        probe: ProbeCosts { answered: Duration::ZERO, ..costs().probe },
        ..costs()
    })
    .unwrap();
    std::fs::write(folder.path().join("costs.toml"), free).unwrap();
    assert!(error(&path).contains("costs no time"));
}

#[test]
fn the_projects_own_scenario_and_costs_are_read() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/network/network.toml");
    let (scenario, costs) = Scenario::read(&path).unwrap();
    assert_eq!(
        (scenario.nodes.count, scenario.clients.count, scenario.nodes.changing),
        (10_000, 1_000_000, 0.01)
    );
    assert!(costs.measured.by.contains("network-costs"));
    // The other one differs by its directory alone.
    let (file, _) = Scenario::read(&path.with_file_name("file.toml")).unwrap();
    assert_eq!(file.bootstrap.directory, DirectoryKind::File);
    let bootstrap = super::scenario::Bootstrap { on_path: file.bootstrap.on_path, ..scenario.bootstrap };
    assert_eq!(Scenario { bootstrap, ..file }, scenario);
}

#[test]
fn the_same_seed_says_the_same_and_another_one_something_else() {
    let scenario = small(&[
        ("count = 1000\n", "count = 200\n"),
        ("loss = 0.0", "loss = 0.02"),
        ("on_path = 0.0", "on_path = 0.5"),
    ]);
    let figures = ran(&scenario).figures;
    assert_eq!(figures, ran(&scenario).figures);
    assert_ne!(figures, ran(&Scenario { seed: 6, ..scenario }).figures);
}

/// Everything that both say: with a responder at each destination, and place for all ways.
#[test]
fn what_is_simulated_is_what_stands_on_paper() {
    let scenario = small(&[("changing = 0.5", "changing = 5"), ("count = 1000\n", "count = 2000\n")]);
    let Ran { figures, paper, .. } = ran(&scenario);
    assert!(figures.measured_of_node.mean < 1.0 && figures.unmeasured == 0.0, "there is place for all ways");
    is_about("visits", figures.visits, 3.0, 0.03);
    is_about("destinations", figures.destinations_of_client.mean, paper.destinations, 0.05);
    is_about("looks", figures.looks, paper.looks, 0.05);
    is_about("unknown", figures.unknown, paper.unknown, 0.1);
    is_about("ways", figures.measured_of_node.mean, paper.wanted_of_node, 0.15);
    is_about("probes of a look", figures.probes_a_look, paper.probes_a_look, 0.15);
    is_about("readings", figures.reads_of_client.mean, paper.reads_of_client, 0.1);
    is_about("half", figures.avoided.median, paper.avoided_median, 0.15);
    assert_eq!(figures.failed_reads, 0.0);
    // What clients send to nodes, which is one probe of a look less than all, is what nodes hear, but for those that are dead.
    let to_nodes = (figures.probes_of_client.mean - figures.looks) * 2000.0;
    is_about("both ends", figures.probes_of_node.mean * 100.0, to_nodes, 0.05);
}

#[test]
fn a_table_of_ways_that_is_too_small_is_as_empty_as_on_paper() {
    // All ask as many nodes as a look asks, for very many destinations: hardly anything is asked twice in a minute.
    let scenario = small(&[
        ("count = 100\n", "count = 17\n"),
        ("count = 200", "count = 20000"),
        ("popularity = 1.0", "popularity = 0.6"),
        ("changing = 0.5", "changing = 0.0"),
        ("per_network = 4", "per_network = 1"),
        ("time = \"40 min\"", "time = \"10 min\""),
    ]);
    let Ran { figures, paper, .. } = ran(&scenario);
    let places = Limits::default().ways as f64;
    is_about("places", figures.ways_of_node.mean, places, 0.02);
    assert!(figures.unmeasured > 0.3 && paper.unknown > 0.7, "{} {}", figures.unmeasured, paper.unknown);
    // On paper nobody asks the same node again; here all do, within a minute every other time.
    assert!(
        (0.6 * paper.unknown..paper.unknown).contains(&figures.unknown),
        "{} {}",
        figures.unknown,
        paper.unknown
    );
    // A place is free when its target has become too old.
    is_about("ways", figures.measured_of_node.mean, places / 60.0, 0.1);
}

#[test]
fn everybody_avoids_a_dead_node_as_soon_as_the_timers_say() {
    for (directory, loss) in [("etcd", "0.0"), ("file", "0.0"), ("etcd", "0.05")] {
        let scenario = small(&[
            ("changing = 0.5", "changing = 5"),
            ("directory = \"etcd\"", &format!("directory = \"{directory}\"")),
            ("loss = 0.0", &format!("loss = {loss}")),
        ]);
        let Ran { figures, paper, outcome, .. } = ran(&scenario);
        assert!(outcome.avoided.len() > 300, "{}", outcome.avoided.len());
        // 60 s and a quarter, and a look.
        assert!(
            (75.0..86.0).contains(&paper.avoided_most)
                && paper.avoided_most == 75.0 + longest_look(&scenario)
        );
        assert!(
            figures.avoided.most <= paper.avoided_most,
            "{directory} {loss}: {:?} {}",
            figures.avoided,
            paper.avoided_most
        );
        assert!(figures.avoided.p99 > 55.0, "nobody is told of a death: {:?}", figures.avoided);
    }
}

#[test]
fn a_directory_that_cannot_answer_all_leaves_sessions_without_relays() {
    let cramped = small(&[("members = 3\ncores = 8\nrate = \"10 Gbit/s\"", "rate = \"1 Mbit/s\"")]);
    let (cramped, roomy) = (ran(&cramped).figures, ran(&small(&[])).figures);
    assert_eq!((roomy.failed_reads, roomy.held_up), (0.0, 0.0));
    assert!(
        cramped.failed_reads > 0.3 && cramped.held_up > 0.02,
        "{} {}",
        cramped.failed_reads,
        cramped.held_up
    );
    assert!(
        cramped.longest_read > 4.0 && cramped.came[0] < roomy.came[0],
        "{} {:?} {:?}",
        cramped.longest_read,
        cramped.came,
        roomy.came
    );
}

#[test]
fn one_client_of_four_says_about_the_same_as_all() {
    let all = ran(&small(&[("count = 1000\n", "count = 2000\n")])).figures;
    let thin = ran(&small(&[
        ("count = 1000\n", "count = 2000\n"),
        ("per_network = 4", "per_network = 4\nthin = 4"),
    ]))
    .figures;
    let same = |what: &str, of: fn(&Figures) -> f64, within| is_about(what, of(&thin), of(&all), within);
    // Of what is asked in a minute less is asked twice, so that nodes know fewer ways, and are asked again.
    same("a client's probes", |figures| figures.probes_of_client.mean, 0.2);
    same("a node's probes", |figures| figures.probes_of_node.mean, 0.2);
    assert!(thin.unknown > all.unknown, "{} {}", thin.unknown, all.unknown);
    same("readings", |figures| figures.reads, 0.1);
    same("sessions", |figures| figures.sessions, 0.1);
    same("by nodes", |figures| figures.came[0], 0.1);
}

#[test]
fn a_spread_has_its_quantiles() {
    let spread = Spread::of((1..=1000).map(f64::from));
    assert_eq!(spread, Spread { mean: 500.5, median: 501.0, p99: 991.0, most: 1000.0 });
    assert_eq!(Spread::of([]), Spread::default());
}

#[test]
fn nodes_die_as_often_as_is_said_and_lists_tell_of_them_until_leases_end() {
    let scenario = small(&[("changing = 0.5", "changing = 5"), ("count = 100\n", "count = 1000\n")]);
    let ends = Time::from_secs(3600);
    let world = World::new(&scenario, ends);
    let deaths = world.nodes.iter().filter(|node| node.dies < ends).count();
    assert!((4600..5400).contains(&deaths), "{deaths}");
    for number in 0..world.nodes.len() as u32 {
        let node = world.nodes[number as usize];
        if node.dies + Duration::from_secs(20) >= ends {
            continue;
        }
        let listed = |seconds: f64| {
            world.listed(node.slot as usize, node.dies + Duration::from_secs_f64(seconds)) == number
        };
        assert!(
            !world.is_alive(number, node.dies) && listed(0.0) && listed(9.9) && !listed(15.1),
            "{number}"
        );
    }
    // A file tells of it until it is brought up to date.
    let file = Scenario {
        bootstrap: super::scenario::Bootstrap { directory: DirectoryKind::File, ..scenario.bootstrap },
        ..scenario
    };
    let world = World::new(&file, ends);
    assert!(
        (0..1000).all(|slot| world.listed(slot, Time::from_secs(3599)) == world.listed(slot, Time::ZERO))
    );
}

// A round of the model, beside one of the program: real messages, keys, limits and timers, in virtual time.

const TODAY: Duration = Duration::from_secs(1_800_000_000);

fn keys() -> Keyring {
    Keyring::single(Key::new([7; 32]))
}

fn client() -> SocketAddr {
    "192.0.2.9:40000".parse().unwrap()
}

enum Event {
    Reaches(SocketAddr, Vec<u8>),
    Returns(Vec<u8>),
    Measured(SocketAddr),
    Shaken(Duration),
}

/// Hosts that answer with the program's own code.
struct Program {
    /// Each with its round trip to the client, and to the destination.
    hosts: HashMap<SocketAddr, (Responder, f64, f64)>,
    events: BTreeMap<(Time, u64), Event>,
    count: u64,
    probes: u32,
    answers: u32,
}

const CALM: Load =
    Load { service_time: Duration::ZERO, buffer: 1, sessions: 0, capacity: None, overloaded: false };

impl Program {
    fn schedule(&mut self, at: Time, event: Event) {
        self.count += 1;
        self.events.insert((at, self.count), event);
    }

    /// A round, where a handshake with the target takes `whole`.
    fn round(&mut self, question: Asked, retry: Retry, whole: Duration) -> (Findings, f64, Findings) {
        let sent_to = question.target.unwrap();
        let mut now = Time::from_secs(1);
        let mut prober = Prober::new(now, keys(), question, retry, Seed(3));
        let (mut known, mut by_then): (Option<Time>, Option<Findings>) = (None, None);
        loop {
            if prober.poll_handshake().is_some() {
                self.schedule(now + whole, Event::Shaken(whole));
            }
            while let Some((to, datagram)) = prober.poll_transmit(now) {
                self.probes += 1;
                if let Some((_, near, _)) = self.hosts.get(&to) {
                    let at = now + Duration::from_secs_f64(near / 2.0);
                    self.schedule(at, Event::Reaches(to, datagram.as_slice().to_vec()));
                }
            }
            if let Some(findings) = prober.findings() {
                let by_then = by_then.unwrap_or_else(|| findings.clone());
                return (findings, now.saturating_since(Time::from_secs(1)).as_secs_f64(), by_then);
            }
            let timeout = prober.poll_timeout().unwrap();
            // What is known a moment after the distance, when a small session is decided.
            if prober.distance().is_some() {
                let cut = *known.get_or_insert(now) + lingering(whole, false);
                let next = self.events.first_key_value().map_or(timeout, |(at, _)| at.0.min(timeout));
                if next > cut && by_then.is_none() {
                    by_then = Some(prober.findings_so_far());
                }
            }
            match self.events.first_key_value().map(|(at, _)| *at) {
                Some(at) if at.0 <= timeout => {
                    now = at.0;
                    match self.events.remove(&at).unwrap() {
                        Event::Reaches(to, bytes) => {
                            let (responder, near, far) = self.hosts.get_mut(&to).unwrap();
                            let (near, far) = (*near, *far);
                            let arrival = Arrival {
                                from: client(),
                                bytes: &bytes,
                                bound: Bound::Here,
                                hop_limit: None,
                                local: to.ip(),
                                since_1970: TODAY,
                            };
                            let Ok(answer) = responder.answer(now, &CALM, &arrival) else { continue };
                            self.schedule(
                                now + Duration::from_secs_f64(near / 2.0),
                                Event::Returns(answer.datagram.as_slice().to_vec()),
                            );
                            if answer.measure.is_some() {
                                self.schedule(now + Duration::from_secs_f64(far), Event::Measured(to));
                            }
                        }
                        Event::Returns(bytes) => {
                            if prober.handle_datagram(now, &bytes).is_ok() {
                                self.answers += 1;
                            }
                        }
                        Event::Shaken(took) => prober.handle_handshake(now, Some(took)),
                        Event::Measured(at) => {
                            let (responder, _, far) = self.hosts.get_mut(&at).unwrap();
                            let far = Duration::from_secs_f64(*far);
                            responder.learn(now, sent_to, Some(far));
                        }
                    }
                }
                _ => {
                    now = timeout;
                    prober.handle_timeout(now);
                }
            }
        }
    }
}

/// The cookie that the client would get.
fn cookie() -> [u8; 16] {
    let mut responder = Responder::new(Time::ZERO, ResponderConfig::new(keys(), None));
    let probe: Datagram =
        Message { hop_limit: 64, attempt: 1, timestamp: 0, cookie: [0; 16], body: Body::Path }.sign(&keys());
    let local = [10, 0, 0, 1].into();
    let arrival = Arrival {
        from: client(),
        bytes: probe.as_slice(),
        bound: Bound::Here,
        hop_limit: None,
        local,
        since_1970: TODAY,
    };
    let answer = responder.answer(Time::ZERO, &CALM, &arrival).unwrap();
    Message::read(answer.datagram.as_slice(), &keys()).unwrap().cookie
}

#[test]
fn a_round_of_the_model_is_a_round_of_the_program() {
    let address = |node: u32| SocketAddr::from(([10, 0, 1, node as u8], PORT));
    let mut draws = Draws::new(Seed(11));
    let (mut asked_again, mut unanswered, mut shaken, mut some_by_then) = (0, 0, 0, 0);
    for case in 0..1200 {
        let whole = 0.005 + 0.3 * draws.uniform();
        // Some destinations have no responder; some clients have no cookie; some nodes are dead, some may measure nothing.
        let (answers, proven, asks) = (draws.uniform() < 0.7, draws.uniform() < 0.7, draws.uniform() < 0.7);
        let handshake = match (draws.uniform() * 3.0) as u32 {
            0 => Handshake::Never,
            1 => Handshake::IfSilent,
            _ => Handshake::AtOnce,
        };
        let relays: Vec<Relay> = (0..1 + (draws.uniform() * 16.0) as u32)
            .map(|node| Relay {
                node,
                slot: node,
                is_alive: draws.uniform() < 0.9,
                near: 0.002 + 0.3 * draws.uniform().powi(2),
                far: 0.002 + 0.4 * draws.uniform().powi(2),
            })
            .collect();
        let limits: Vec<Limits> = relays
            .iter()
            .map(|_| Limits { ways: usize::from(draws.uniform() < 0.8), ..Limits::default() })
            .collect();
        let retry = Retry { timeout: Duration::from_millis(500), tries: 2 };
        let begins = Time::from_secs(1);
        let mut hosts = Hosts {
            nodes: limits.iter().map(|limits| Host::new(begins, *limits, Seed(1))).collect(),
            destinations: vec![answers.then(|| Host::new(begins, Limits::default(), Seed(2)))],
            loss: 0.0,
            draws: Draws::new(Seed(1)),
        };
        let question = Question {
            now: begins,
            source: client().ip(),
            destination: 0,
            whole,
            asks_destination: asks,
            handshake,
            on_way: &[],
            relays: &relays,
            retry,
        };
        let round: Round = hosts.round(&question, proven);
        let destination = SocketAddr::new(target(0).ip(), PORT);
        let responder = |limits: Limits, relay: Option<SocketAddr>| {
            let relay = relay.map(|at| Identity::relay(SocketAddr::new(at.ip(), 7080), "n"));
            Responder::new(begins, ResponderConfig { limits, ..ResponderConfig::new(keys(), relay) })
        };
        let mut program =
            Program { hosts: HashMap::new(), events: BTreeMap::new(), count: 0, probes: 0, answers: 0 };
        for (relay, limits) in relays.iter().zip(&limits).filter(|(relay, _)| relay.is_alive) {
            let at = address(relay.node);
            program.hosts.insert(at, (responder(*limits, Some(at)), relay.near, relay.far));
        }
        if answers {
            program.hosts.insert(destination, (responder(Limits::default(), None), whole, 0.0));
        }
        let asked = Asked {
            destination: asks.then_some(destination),
            relays: relays.iter().map(|relay| address(relay.node)).collect(),
            target: Some(target(0)),
            handshake,
            cookie: proven.then(cookie),
        };
        let (findings, took, by_then) = program.round(asked, retry, Duration::from_secs_f64(whole));
        let found: Vec<(u32, bool)> = findings
            .relays
            .iter()
            .map(|found| {
                let SocketAddr::V4(session) = found.offer.session else { panic!("{found:?}") };
                (u32::from(session.ip().octets()[3]), found.offer.onward != Onward::Unknown)
            })
            .collect();
        let number = |found: &Found| match found.offer.session {
            SocketAddr::V4(session) => u32::from(session.ip().octets()[3]),
            SocketAddr::V6(_) => panic!("{found:?}"),
        };
        let usable = by_then.relays.iter().filter(|found| found.offer.onward != Onward::Unknown);
        let mut usable: Vec<u32> = usable.map(number).collect();
        let moment = lingering(Duration::from_secs_f64(whole), false).as_secs_f64();
        let at = round.seen_by(round.distance_at + moment).filter(|seen| seen.far.is_some());
        let mut counted: Vec<u32> = at.map(|seen| seen.node).collect();
        usable.sort_unstable();
        counted.sort_unstable();
        if round.answered {
            assert_eq!(counted, usable, "case {case}: {question:?}");
            some_by_then += u32::from(!usable.is_empty() && usable.len() < round.seen.len());
        }
        let seen: Vec<(u32, bool)> = round.seen.iter().map(|seen| (seen.node, seen.far.is_some())).collect();
        assert_eq!(seen, found, "case {case}: {question:?}");
        assert_eq!(
            (round.probes, round.cookie),
            (program.probes, findings.cookie.is_some()),
            "case {case}: {question:?}"
        );
        assert!((round.took - took).abs() < 1e-6, "case {case}: {} {took} {question:?}", round.took);
        let by_responder = findings.by == Some(By::Responder);
        assert_eq!(
            (round.answered, round.by_responder),
            (findings.rtt.is_some(), by_responder),
            "case {case}"
        );
        shaken += u32::from(round.answered && !by_responder);
        asked_again += u32::from(round.probes > 1 + relays.len() as u32);
        unanswered += u32::from(!round.answered);
    }
    assert!(some_by_then > 100, "{some_by_then}");
    assert!(asked_again > 300 && unanswered > 150 && shaken > 150, "{asked_again} {unanswered} {shaken}");
}

#[test]
fn a_nodes_tables_take_no_more_than_is_said() {
    const { assert!(Rations::BYTES < 8192 && Rations::WAY_BYTES < 100) };
}

#[test]
fn who_reads_no_directory_finds_the_nodes_on_the_way() {
    let scenario =
        small(&[("directory = \"etcd\"", "directory = \"none\""), ("on_path = 0.0", "on_path = 1.5")]);
    let Ran { figures, paper, .. } = ran(&scenario);
    assert_eq!((figures.reads, figures.list_bytes_of_client), (0.0, 0.0));
    assert!(figures.came[0] > 0.2, "{:?}", figures.came);
    is_about("probes of a look", figures.probes_a_look, paper.probes_a_look, 0.3);
}

#[test]
fn a_destination_without_a_responder_holds_sessions_up_no_longer_than_one_with() {
    let with = ran(&small(&[("changing = 0.5", "changing = 0.0")]));
    let without =
        ran(&small(&[("changing = 0.5", "changing = 0.0"), ("responders = 1.0", "responders = 0.0")]));
    for Ran { figures, paper, .. } in [&with, &without] {
        // Each destination is looked at once when a client first goes there.
        is_about("looks", figures.looks, paper.looks, 0.05);
        is_about("probes of a look", figures.probes_a_look, paper.probes_a_look, 0.15);
    }
    let [with, without] = [with.figures, without.figures];
    assert!(with.looked.mean > 0.05, "{:?}", with.looked);
    assert!(without.looked.mean < 1.2 * with.looked.mean, "{:?} {:?}", with.looked, without.looked);
    assert!(without.looked.most < 1.0, "{:?}", without.looked);
    is_about("sessions by a node", without.came[0], with.came[0], 0.1);
}
