//! Asking and answering together, over a path in virtual time that loses, repeats and reorders.
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use shorthaul_types::{Seed, Time};

use super::*;

const TODAY: Duration = Duration::from_secs(1_800_000_000);

fn keys() -> Keyring {
    Keyring::single(Key::new([7; 32]))
}

fn client() -> SocketAddr {
    "192.0.2.9:40000".parse().unwrap()
}

/// Where node `n` accepts sessions; its responder has the same address and [`PORT`].
fn session(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n], 7001))
}

fn responder_of(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n], PORT))
}

fn destination() -> SocketAddr {
    responder_of(200)
}

fn target() -> SocketAddr {
    "10.0.0.200:443".parse().unwrap()
}

/// A host that answers, and how far it is.
struct Place {
    address: SocketAddr,
    one_way: Duration,
    on_path: bool,
    responder: Responder,
    load: Load,
    /// How long the way on from it takes to measure, and is.
    onward: Option<Duration>,
}

enum Event {
    Reaches(usize, Vec<u8>, Bound),
    Returns(Vec<u8>),
    Measured(usize, SocketAddr),
    Shaken(Option<Duration>),
}

/// What happens to a datagram in flight.
#[derive(Clone, Copy, Default)]
struct Trouble {
    loss: f64,
    duplicates: f64,
    /// Longest extra delay.
    jitter: Duration,
    seed: u64,
}

struct World {
    places: Vec<Place>,
    trouble: Trouble,
    drawn: u64,
    events: BTreeMap<(Time, u64), Event>,
    count: u64,
    /// Bytes from the client, and to it.
    sent: usize,
    returned: usize,
    /// Probes that the destination never hears.
    deaf: usize,
    /// How long a handshake with the target takes, and whether it comes about; and when handshakes began.
    handshake: (Duration, bool),
    shaken: Vec<Time>,
}

impl World {
    fn new() -> World {
        World {
            places: Vec::new(),
            trouble: Trouble::default(),
            drawn: 0,
            events: BTreeMap::new(),
            count: 0,
            sent: 0,
            returned: 0,
            deaf: 0,
            handshake: (Duration::from_millis(80), true),
            shaken: Vec::new(),
        }
    }

    /// Nodes on the way at these distances, and the destination.
    fn path(nodes: &[u64], end: u64) -> World {
        let mut world = World::new();
        for (n, millis) in (1..).zip(nodes) {
            world.place(n, *millis, true);
        }
        world.place(200, end, true);
        world
    }

    fn place(&mut self, n: u8, one_way: u64, on_path: bool) -> &mut Place {
        let relay = (n < 200).then(|| Identity::relay(session(n), &format!("n{n}")));
        self.places.push(Place {
            address: responder_of(n),
            one_way: Duration::from_millis(one_way),
            on_path,
            responder: Responder::new(Time::ZERO, ResponderConfig::new(keys(), relay)),
            load: Load {
                service_time: Duration::from_micros(100),
                buffer: 1 << 20,
                sessions: 0,
                capacity: None,
                overloaded: false,
            },
            onward: None,
        });
        self.places.last_mut().unwrap()
    }

    fn draw(&mut self) -> f64 {
        self.drawn += 1;
        (Seed(self.trouble.seed).nth(self.drawn).0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.count += 1;
        self.events.insert((at, self.count), event);
    }

    /// Lets a datagram cross a way: perhaps never, perhaps twice, each time later than it should.
    fn fly(&mut self, now: Time, way: Duration, event: impl Fn() -> Event) {
        let copies = if self.draw() < self.trouble.loss {
            0
        } else {
            1 + usize::from(self.draw() < self.trouble.duplicates)
        };
        for _ in 0..copies {
            let late = self.trouble.jitter.mul_f64(self.draw());
            self.schedule(now + way + late, event());
        }
    }

    fn send(&mut self, now: Time, to: SocketAddr, bytes: &[u8]) {
        self.sent += bytes.len();
        let through = to == destination();
        for index in 0..self.places.len() {
            let place = &self.places[index];
            let bound = if place.address == to { Bound::Here } else { Bound::Onward };
            if bound == Bound::Here || (through && place.on_path) {
                if through && bound == Bound::Here && self.deaf > 0 {
                    self.deaf -= 1;
                    continue;
                }
                let way = place.one_way;
                self.fly(now, way, || Event::Reaches(index, bytes.to_vec(), bound));
            }
        }
    }

    fn happen(&mut self, now: Time, event: Event, prober: &mut Prober) {
        match event {
            Event::Reaches(index, bytes, bound) => {
                let place = &mut self.places[index];
                let arrival = Arrival {
                    from: client(),
                    bytes: &bytes,
                    bound,
                    hop_limit: Some(HOP_LIMIT - index as u8),
                    local: place.address.ip(),
                    since_1970: TODAY,
                };
                let Ok(answer) = place.responder.answer(now, &place.load, &arrival) else { return };
                let (way, onward) = (place.one_way, place.onward);
                let datagram = answer.datagram;
                self.returned += datagram.as_slice().len();
                self.fly(now, way, || Event::Returns(datagram.as_slice().to_vec()));
                if let (Some(target), Some(onward)) = (answer.measure, onward) {
                    self.schedule(now + onward, Event::Measured(index, target));
                }
            }
            Event::Returns(bytes) => {
                let _ = prober.handle_datagram(now, &bytes);
            }
            Event::Measured(index, target) => {
                let place = &mut self.places[index];
                place.responder.learn(now, target, place.onward);
            }
            Event::Shaken(took) => prober.handle_handshake(now, took),
        }
    }

    /// A whole round; what it found and when it was over.
    fn round(&mut self, question: Question) -> (Findings, Time) {
        let seed = Seed(self.trouble.seed).derive("prober");
        let mut now = Time::ZERO;
        let mut prober = Prober::new(now, keys(), question, Retry::default(), seed);
        loop {
            if let Some(to) = prober.poll_handshake() {
                assert_eq!(to, target());
                self.shaken.push(now);
                let (takes, comes_about) = self.handshake;
                self.schedule(now + takes, Event::Shaken(comes_about.then_some(takes)));
            }
            while let Some((to, datagram)) = prober.poll_transmit(now) {
                self.send(now, to, datagram.as_slice());
            }
            if let Some(findings) = prober.findings() {
                return (findings, now);
            }
            let timeout = prober.poll_timeout().expect("a round that goes on has a deadline");
            match self.events.first_key_value().map(|(at, _)| *at) {
                Some(at) if at.0 <= timeout => {
                    let event = self.events.remove(&at).unwrap();
                    now = at.0;
                    self.happen(now, event, &mut prober);
                }
                _ => {
                    assert!(timeout >= now, "time goes on");
                    now = timeout;
                    prober.handle_timeout(now);
                }
            }
            assert!(now < Time::from_secs(60), "the round ends");
        }
    }
}

/// A question about the way to the destination, by somebody who has been here before.
fn known() -> Question {
    let cookie =
        Responder::new(Time::ZERO, ResponderConfig::new(keys(), None)).cookie_for(client().ip(), TODAY);
    Question {
        destination: Some(destination()),
        relays: Vec::new(),
        target: None,
        handshake: Handshake::Never,
        cookie: Some(cookie),
    }
}

fn sessions(findings: &Findings) -> Vec<SocketAddr> {
    findings.relays.iter().map(|found| found.offer.session).collect()
}

fn millis(findings: &Findings) -> Vec<u128> {
    findings.relays.iter().map(|found| found.rtt.as_millis()).collect()
}

#[test]
fn a_relay_that_answered_an_attempt_before_is_not_silent() {
    let mut world = World::new();
    world.place(1, 5, false);
    let relays = vec![responder_of(1), responder_of(2)];
    let question = Question { relays, target: Some(target()), ..known() };
    let mut prober = Prober::new(Time::ZERO, keys(), question, Retry::default(), Seed(1));
    let mut now = Time::ZERO;
    while let Some((to, datagram)) = prober.poll_transmit(now) {
        world.send(now, to, datagram.as_slice());
    }
    while let Some((at, event)) = world.events.pop_first() {
        now = at.0;
        world.happen(now, event, &mut prober);
    }
    assert_eq!(prober.so_far().len(), 1);
    // The destination does not answer: everybody is asked anew, and it knows nothing of the way on yet.
    while prober.findings_so_far().tries == 1 {
        now = prober.poll_timeout().unwrap();
        prober.handle_timeout(now);
    }
    assert_eq!(prober.findings_so_far().silent, [responder_of(2)]);
}

#[test]
fn nodes_on_the_way_are_found_with_their_distances_in_one_round_trip() {
    let (findings, took) = World::path(&[5, 20, 35], 40).round(known());
    assert_eq!(sessions(&findings), [session(1), session(2), session(3)]);
    assert_eq!(millis(&findings), [10, 40, 70]);
    assert_eq!(
        findings.relays.iter().map(|found| found.hops).collect::<Vec<_>>(),
        [Some(1), Some(2), Some(3)]
    );
    assert_eq!(findings.rtt, Some(Duration::from_millis(80)));
    assert_eq!((findings.tries, took), (1, Time::from_millis(85)), "a little more for those that are late");
}

#[test]
fn the_first_contact_with_a_network_costs_one_more_round_trip() {
    let (findings, took) = World::path(&[20], 40).round(Question { cookie: None, ..known() });
    assert_eq!(sessions(&findings), [session(1)]);
    assert_eq!(findings.rtt, Some(Duration::from_millis(80)));
    assert_eq!(took, Time::from_millis(165));
    assert!(findings.cookie.is_some());
}

#[test]
fn where_only_the_destination_answers_the_way_is_direct() {
    let mut world = World::path(&[20], 40);
    world.places[0].load.overloaded = true;
    let (findings, _) = world.round(known());
    assert!(findings.is_direct_only(), "{findings:?}");
}

#[test]
fn without_the_destinations_answer_what_was_collected_is_discarded_and_the_probe_sent_again() {
    let mut world = World::path(&[20, 30], 40);
    world.deaf = 1;
    // The first node answers the first attempt only.
    let seen = std::mem::replace(&mut world.places[0].responder, {
        let mut config = ResponderConfig::new(keys(), Some(Identity::relay(session(1), "n1")));
        config.limits.per_network = Allowance { per_second: 0.0, burst: 1.0 };
        Responder::new(Time::ZERO, config)
    });
    drop(seen);
    let (findings, took) = world.round(known());
    assert_eq!(findings.tries, 2);
    assert_eq!(sessions(&findings), [session(2)], "what came before was discarded");
    assert_eq!(took, Time::from_secs(1) + Duration::from_millis(85));
}

#[test]
fn a_destination_that_never_answers_ends_the_round_with_nothing() {
    let mut world = World::path(&[20], 40);
    world.deaf = usize::MAX;
    let (findings, took) = world.round(known());
    assert_eq!((findings.rtt, findings.relays.len(), findings.tries), (None, 0, 3));
    assert_eq!(took, Time::from_secs(1 + 2 + 4));
}

#[test]
fn relays_beside_the_way_are_asked_and_measure_the_way_on() {
    let mut world = World::path(&[], 40);
    world.place(50, 15, false).onward = Some(Duration::from_millis(50));
    world.place(51, 30, false).load.overloaded = true;
    let question =
        Question { relays: vec![responder_of(50), responder_of(51)], target: Some(target()), ..known() };
    let (findings, took) = world.round(question);
    assert_eq!(sessions(&findings), [session(50)]);
    let found = findings.relays[0];
    assert_eq!((found.rtt, found.on_path, found.hops), (Duration::from_millis(30), false, None));
    assert_eq!(found.offer.onward, Onward::RoundTrip(Duration::from_millis(50)));
    assert!(took <= Time::from_millis(280), "the silent one is not waited for long: {took}");
}

#[test]
fn a_destination_without_responder_is_no_obstacle_for_asking() {
    let mut world = World::path(&[], 40);
    world.place(50, 15, false).onward = Some(Duration::from_millis(50));
    let question =
        Question { destination: None, relays: vec![responder_of(50)], target: Some(target()), ..known() };
    let (findings, took) = world.round(question);
    assert_eq!(sessions(&findings), [session(50)]);
    assert!(findings.rtt.is_none() && took < Time::from_millis(200), "{took}");
}

/// About a target that may have no responder, with a relay beside the way.
fn unknown() -> Question {
    let relays = vec![responder_of(50)];
    Question { relays, target: Some(target()), handshake: Handshake::AtOnce, ..known() }
}

/// A node on the way, one beside it, and a destination whose responder never answers.
fn silent() -> World {
    let mut world = World::path(&[20], 40);
    world.place(50, 15, false).onward = Some(Duration::from_millis(50));
    world.deaf = usize::MAX;
    world
}

#[test]
fn a_responder_that_is_not_there_is_not_waited_for_where_a_handshake_measures() {
    let (findings, took) = silent().round(unknown());
    assert_eq!((findings.rtt, findings.by), (Some(Duration::from_millis(80)), Some(By::Handshake)));
    // It has a round trip more than the handshake.
    assert_eq!((findings.tries, took), (1, Time::from_millis(160)));
    assert_eq!(sessions(&findings), [session(50)], "what is on the way counts with the responder alone");
    assert_eq!(findings.relays[0].offer.onward, Onward::RoundTrip(Duration::from_millis(50)));
    // Without a relay beside the way it takes no longer.
    let (findings, took) = silent().round(Question { relays: Vec::new(), ..unknown() });
    assert!(findings.is_direct_only() && took == Time::from_millis(160), "{took}");
    // At first contact, relays that challenge after the handshake are asked again, and waited for.
    let mut world = silent();
    world.handshake.0 = Duration::from_millis(10);
    let (findings, took) = world.round(Question { cookie: None, ..unknown() });
    assert_eq!(sessions(&findings), [session(50)]);
    assert_eq!(findings.relays[0].offer.onward, Onward::RoundTrip(Duration::from_millis(50)));
    assert!(took < Time::from_millis(250), "{took}");
}

#[test]
fn a_responder_that_answers_after_the_handshake_counts() {
    for cookie in [None, known().cookie] {
        let mut world = silent();
        (world.deaf, world.handshake.0) = (0, Duration::from_millis(70));
        let (findings, took) = world.round(Question { cookie, ..unknown() });
        assert_eq!((findings.rtt, findings.by), (Some(Duration::from_millis(80)), Some(By::Responder)));
        let mut found = sessions(&findings);
        found.sort();
        assert_eq!(found, [session(1), session(50)]);
        assert!(took < Time::from_millis(250), "{took}");
    }
}

#[test]
fn where_a_responder_is_known_to_be_the_handshake_waits_until_it_was_silent() {
    let question = Question { handshake: Handshake::IfSilent, ..unknown() };
    let mut world = silent();
    world.deaf = 0;
    let (findings, _) = world.round(question.clone());
    assert_eq!((findings.by, world.shaken.len()), (Some(By::Responder), 0));
    let mut world = silent();
    let (findings, took) = world.round(question);
    assert_eq!((findings.by, world.shaken), (Some(By::Handshake), vec![Time::from_secs(1)]));
    assert_eq!((findings.tries, took), (2, Time::from_millis(1160)));
    assert_eq!(sessions(&findings), [session(50)]);
}

#[test]
fn relays_that_have_told_all_are_not_asked_again_when_the_destination_is() {
    let mut world = silent();
    world.handshake = (Duration::from_millis(100), false);
    let relays = Question { handshake: Handshake::Never, ..unknown() };
    // Asked once for the way, and once more when it was measured; the destination three times.
    let (findings, _) = world.round(relays);
    assert_eq!((findings.rtt, findings.tries, world.sent), (None, 3, (2 + 3) * PROBE_LEN));
    assert!(findings.relays.is_empty(), "nothing counts without a distance");
}

#[test]
fn where_nobody_can_tell_the_distance_the_round_is_over() {
    let without = Question { destination: None, ..unknown() };
    let mut world = silent();
    world.handshake = (Duration::from_millis(5), false);
    let (findings, took) = world.round(without.clone());
    assert_eq!((findings.rtt, findings.relays.len(), took), (None, 0, Time::from_millis(5)));
    // Where it can be told, relays are waited for, and no longer.
    let (findings, took) = silent().round(without);
    assert_eq!((findings.by, sessions(&findings)), (Some(By::Handshake), vec![session(50)]));
    assert!(took < Time::from_millis(160), "{took}");
    // Who never answers is not waited for until the attempt is over.
    let mut world = silent();
    let relays = vec![responder_of(50), responder_of(99)];
    let (findings, took) = world.round(Question { destination: None, relays, ..unknown() });
    assert_eq!((sessions(&findings), took), (vec![session(50)], Time::from_millis(280)));
}

#[test]
fn however_bad_the_path_each_node_is_found_once_or_not_and_no_farther_than_it_can_be() {
    for seed in 0..500 {
        let mut world = World::path(&[5, 20, 35], 40);
        world.place(50, 15, false).onward = Some(Duration::from_millis(50));
        let jitter = Duration::from_millis(30);
        world.trouble = Trouble { loss: 0.2, duplicates: 0.2, jitter, seed };
        let question = Question { relays: vec![responder_of(50)], target: Some(target()), ..known() };
        let (findings, _) = world.round(question);
        let mut sessions = sessions(&findings);
        sessions.sort();
        sessions.dedup();
        assert_eq!(sessions.len(), findings.relays.len(), "seed {seed}");
        for found in &findings.relays {
            let n = findings.relays.iter().find(|f| f.offer.session == found.offer.session).unwrap();
            let octets = match n.offer.session.ip() {
                std::net::IpAddr::V4(v4) => v4.octets()[3],
                std::net::IpAddr::V6(_) => unreachable!("all are IPv4"),
            };
            let least = [(1, 10), (2, 40), (3, 70), (50, 30)].iter().find(|(n, _)| *n == octets).unwrap().1;
            let rtt = found.rtt.as_millis();
            assert!((least..=least + 60).contains(&rtt), "seed {seed}: {rtt} ms to node {octets}");
        }
        if findings.rtt.is_none() {
            assert!(findings.relays.is_empty(), "seed {seed}: nothing counts without the destination");
        }
        assert!(world.sent <= 3 * (1 + 1 + 4) * PROBE_LEN, "seed {seed}: {} bytes", world.sent);
    }
}

#[test]
fn forged_replayed_and_foreign_answers_change_nothing() {
    let question = known();
    let mut prober = Prober::new(Time::ZERO, keys(), question.clone(), Retry::default(), Seed(1));
    let mut former = Prober::new(Time::ZERO, keys(), question, Retry::default(), Seed(2));
    let (_, probe) = prober.poll_transmit(Time::ZERO).unwrap();
    let (_, old) = former.poll_transmit(Time::ZERO).unwrap();
    let now = Time::from_millis(10);
    let offer = Offer {
        session: "203.0.113.66:7001".parse().unwrap(),
        service_time: Duration::ZERO,
        buffer: u64::MAX,
        sessions: 0,
        capacity: None,
        onward: Onward::Unknown,
        name: Name::new("evil"),
        service: Service::Sessions,
    };
    let answer = |to: &Datagram, keys: &Keyring| {
        let probe = Message::read(to.as_slice(), &super::tests::keys()).unwrap();
        Message { body: Body::Available(offer), ..probe }.sign(keys)
    };
    let foreign = answer(&probe, &Keyring::single(Key::new([66; 32])));
    let stale = answer(&old, &keys());
    let mut changed = answer(&probe, &keys()).as_slice().to_vec();
    changed[41] ^= 1;
    let mut early = Message::read(answer(&probe, &keys()).as_slice(), &keys()).unwrap();
    early.timestamp = Time::from_secs(9).as_nanos();
    let ignored = |prober: &mut Prober, bytes: &[u8]| prober.handle_datagram(now, bytes).unwrap_err();
    assert_eq!(ignored(&mut prober, foreign.as_slice()), Ignored::Unreadable(Unreadable::Forged));
    assert_eq!(ignored(&mut prober, &changed), Ignored::Unreadable(Unreadable::Forged));
    assert_eq!(ignored(&mut prober, stale.as_slice()), Ignored::Stale);
    assert_eq!(ignored(&mut prober, early.sign(&keys()).as_slice()), Ignored::Senseless);
    assert_eq!(ignored(&mut prober, probe.as_slice()), Ignored::Senseless);
    let acknowledge =
        Message { body: Body::Acknowledge, ..Message::read(probe.as_slice(), &keys()).unwrap() }
            .sign(&keys());
    prober.handle_datagram(now, acknowledge.as_slice()).unwrap();
    let end = prober.poll_timeout().unwrap();
    // Played back as often as one likes, it keeps the round from ending no longer.
    for _ in 0..100 {
        let _ = prober.handle_datagram(now + Duration::from_millis(1), acknowledge.as_slice());
    }
    assert_eq!(prober.poll_timeout(), Some(end));
    prober.handle_timeout(end);
    assert!(prober.findings().unwrap().is_direct_only());
}

#[test]
fn a_destination_that_only_challenges_is_not_asked_for_ever() {
    let mut prober =
        Prober::new(Time::ZERO, keys(), Question { cookie: None, ..known() }, Retry::default(), Seed(1));
    let mut probes = 0u8;
    for n in 1..100u8 {
        let now = Time::from_millis(n.into());
        while let Some((_, probe)) = prober.poll_transmit(now) {
            probes += 1;
            let probe = Message::read(probe.as_slice(), &keys()).unwrap();
            let challenge = Message { body: Body::Challenge, cookie: [probes; 16], ..probe }.sign(&keys());
            let _ = prober.handle_datagram(now, challenge.as_slice());
        }
    }
    assert_eq!(probes, 3);
}

#[test]
fn nobody_gets_back_more_than_was_sent_in_their_name() {
    // Twenty nodes on the way, and somebody who plays back another's probe with no cookie for the victim.
    let mut world = World::path(&[1; 20], 40);
    let mut prober = Prober::new(
        Time::ZERO,
        keys(),
        Question { cookie: Some([1; 16]), ..known() },
        Retry::default(),
        Seed(1),
    );
    let (to, probe) = prober.poll_transmit(Time::ZERO).unwrap();
    world.send(Time::ZERO, to, probe.as_slice());
    while let Some((at, event)) = world.events.pop_first() {
        world.happen(at.0, event, &mut Prober::new(Time::ZERO, keys(), known(), Retry::default(), Seed(3)));
    }
    assert!(world.returned < world.sent, "{} bytes for {}", world.returned, world.sent);
}
