use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use shorthaul_types::Time;

use super::key::{Cookies, Key, Keyring, MAC_LEN};
use super::message::{Body, Capacity, Datagram, Message, Name, Offer, Onward, PORT, Service, Unreadable};
use super::rations::{Limits, Rations};
use crate::status::NodeStatus;

/// Who answers, and how much.
#[derive(Clone, Debug)]
pub struct ResponderConfig {
    /// The network's keys.
    pub keys: Keyring,
    /// What cookies are made with: by default [`Keyring::cookie_key`].
    pub cookie_key: Key,
    /// The relay that is offered; `None` for a host that is only a destination.
    pub relay: Option<Identity>,
    /// How much it answers and measures.
    pub limits: Limits,
}

impl ResponderConfig {
    /// With the usual [`Limits`].
    pub fn new(keys: Keyring, relay: Option<Identity>) -> Self {
        ResponderConfig { cookie_key: keys.cookie_key(), keys, relay, limits: Limits::default() }
    }
}

/// A relay, as others know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Where it accepts sessions. With an unspecified address, whichever of the host's own addresses leads to the asker.
    pub session: SocketAddr,
    /// What people call it.
    pub name: Name,
    /// How it is used.
    pub service: Service,
}

impl Identity {
    /// A relay that takes session requests.
    pub fn relay(session: SocketAddr, name: &str) -> Self {
        Identity { session, name: Name::new(name), service: Service::Sessions }
    }

    /// A gateway that splits what passes it.
    pub fn gateway(name: &str) -> Self {
        let nobody = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORT);
        Identity { session: nobody, name: Name::new(name), service: Service::Transparent }
    }
}

/// How a relay is doing now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// `Ts`: how long an average packet stays, waiting and processing.
    pub service_time: Duration,
    /// `Cmax`: bytes of buffer that one more session could have.
    pub buffer: u64,
    /// Sessions that are carried.
    pub sessions: u32,
    /// What it can forward in all, and how many share that, if that is known.
    pub capacity: Option<Capacity>,
    /// Whether it wants no more: then it keeps silent.
    pub overloaded: bool,
}

impl From<&NodeStatus> for Load {
    fn from(status: &NodeStatus) -> Self {
        Load {
            service_time: status.service_time(),
            buffer: status.buffer_free().0,
            sessions: u32::try_from(status.sessions()).unwrap_or(u32::MAX),
            capacity: status.capacity(),
            overloaded: status.is_overloaded(),
        }
    }
}

/// A datagram that came by.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Its sender.
    pub from: SocketAddr,
    /// Its payload.
    pub bytes: &'a [u8],
    /// Whether it was for us, or for somebody further on.
    pub bound: Bound,
    /// The hop limit that it came with, if that is known.
    pub hop_limit: Option<u8>,
    /// The address of ours that leads to its sender.
    pub local: IpAddr,
    /// The time since 1970, for cookies.
    pub since_1970: Duration,
}

/// Where a datagram was going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// To this host.
    Here,
    /// Past it: it goes on by itself, this is a copy.
    Onward,
}

/// What to do for an [`Arrival`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What to send to its sender: never longer than what came.
    pub datagram: Datagram,
    /// A way that should be measured, and told with [`Responder::learn`].
    pub measure: Option<SocketAddr>,
}

/// Why nothing is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Silence {
    /// The bytes say nothing to us.
    Unreadable(Unreadable),
    /// It is an answer itself.
    NoProbe,
    /// It passes, and its sender has not proved yet that it receives what is sent to its address: the
    /// destination challenges it.
    Unproven,
    /// It asks for a relay, and there is none here.
    NoRelay,
    /// The relay wants no more sessions.
    Overloaded,
    /// Its network asks too often.
    TooOften,
}

/// The side of discovery that answers: in a relay on the way or beside it, and at a destination. It owns no
/// socket and no clock.
#[derive(Debug)]
pub struct Responder {
    config: ResponderConfig,
    cookies: Cookies,
    rations: Rations,
    counters: Counters,
}

/// What a responder has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Offers sent.
    pub offers: u64,
    /// Probes acknowledged.
    pub acknowledged: u64,
    /// Challenges sent.
    pub challenges: u64,
    /// Datagrams that were not answered, by reason.
    pub silent: HashMap<Silence, u64>,
}

impl Responder {
    /// A responder that has heard nothing yet.
    pub fn new(now: Time, config: ResponderConfig) -> Self {
        Responder {
            cookies: Cookies::new(config.cookie_key.clone()),
            rations: Rations::new(now, config.limits),
            counters: Counters::default(),
            config,
        }
    }

    /// The keys of its network.
    pub fn keys(&self) -> &Keyring {
        &self.config.keys
    }

    /// The network has these keys from now on. Whoever has a cookie is given another one.
    pub fn set_keys(&mut self, keys: Keyring) {
        self.cookies = Cookies::new(keys.cookie_key());
        self.config.keys = keys;
    }

    /// What was done so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What to answer to a datagram.
    ///
    /// # Errors
    /// Nothing is to be answered; that is counted, and not a failure.
    pub fn answer(&mut self, now: Time, load: &Load, arrival: &Arrival<'_>) -> Result<Answer, Silence> {
        let answer = self.consider(now, load, arrival);
        if let Err(silence) = &answer {
            *self.counters.silent.entry(*silence).or_default() += 1;
        }
        answer
    }

    fn consider(&mut self, now: Time, load: &Load, arrival: &Arrival<'_>) -> Result<Answer, Silence> {
        let probe = Message::read(arrival.bytes, &self.config.keys).map_err(Silence::Unreadable)?;
        if !probe.body.is_probe() {
            return Err(Silence::NoProbe);
        }
        let source = arrival.from.ip();
        if !self.cookies.accept(&probe.cookie, source, arrival.since_1970) {
            // One challenge for a probe, however many nodes it passes.
            if arrival.bound == Bound::Onward {
                return Err(Silence::Unproven);
            }
            if !self.rations.challenge(now) {
                return Err(Silence::TooOften);
            }
            self.counters.challenges += 1;
            return Ok(self.reply(arrival, &probe, Body::Challenge));
        }
        let (offer, target) = match (probe.body, arrival.bound) {
            (Body::Path, Bound::Here) => (None, None),
            (Body::Path, Bound::Onward) => (Some(self.offer(load, arrival)?), None),
            (Body::Ask { .. }, Bound::Onward) => return Err(Silence::NoRelay), // it asks another one
            (Body::Ask { target }, _) => (Some(self.offer(load, arrival)?), target),
            (Body::Available(_) | Body::Acknowledge | Body::Challenge, _) => return Err(Silence::NoProbe),
        };
        let told = self.rations.ask(now, source, target).ok_or(Silence::TooOften)?;
        let body = match offer {
            Some(offer) => {
                self.counters.offers += 1;
                Body::Available(Offer { onward: told.way, ..offer })
            }
            None => {
                self.counters.acknowledged += 1;
                Body::Acknowledge
            }
        };
        Ok(Answer { measure: target.filter(|_| told.measure), ..self.reply(arrival, &probe, body) })
    }

    fn reply(&self, arrival: &Arrival<'_>, probe: &Message, body: Body) -> Answer {
        let cookie = self.cookies.bake(arrival.from.ip(), arrival.since_1970);
        let hop_limit = arrival.hop_limit.unwrap_or(0);
        let message = Message { hop_limit, cookie, body, ..*probe };
        Answer { datagram: message.sign(&self.config.keys), measure: None }
    }

    fn offer(&self, load: &Load, arrival: &Arrival<'_>) -> Result<Offer, Silence> {
        let identity = self.config.relay.ok_or(Silence::NoRelay)?;
        if load.overloaded {
            return Err(Silence::Overloaded);
        }
        let mut session = identity.session;
        if session.ip().is_unspecified() {
            session.set_ip(arrival.local);
        }
        Ok(Offer {
            session,
            service_time: load.service_time,
            buffer: load.buffer,
            sessions: load.sessions,
            capacity: load.capacity,
            onward: Onward::Unknown,
            name: identity.name,
            service: identity.service,
        })
    }

    /// The way to a target was measured: its round-trip time, or `None` if nobody answers there.
    pub fn learn(&mut self, now: Time, target: SocketAddr, round_trip: Option<Duration>) {
        self.rations.learn(now, target, round_trip);
    }

    /// The cookie that a client at `address` would get now.
    #[cfg(test)]
    pub(crate) fn cookie_for(&self, address: IpAddr, since_1970: Duration) -> [u8; MAC_LEN] {
        self.cookies.bake(address, since_1970)
    }
}

/// No cookie yet.
pub(crate) const NO_COOKIE: [u8; MAC_LEN] = [0; MAC_LEN];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::ONWARD_MAX;
    use crate::discovery::message::{HOP_LIMIT, PROBE_LEN};

    const TODAY: Duration = Duration::from_secs(1_800_000_000);
    const CALM: Load = Load {
        service_time: Duration::from_micros(100),
        buffer: 1_000_000,
        sessions: 2,
        capacity: None,
        overloaded: false,
    };

    fn keys() -> Keyring {
        Keyring::single(Key::new([7; 32]))
    }

    fn client() -> SocketAddr {
        "192.0.2.9:40000".parse().unwrap()
    }

    fn node() -> Responder {
        let relay = Identity::relay("0.0.0.0:7001".parse().unwrap(), "n1");
        Responder::new(Time::ZERO, ResponderConfig::new(keys(), Some(relay)))
    }

    fn probe(body: Body, cookie: [u8; MAC_LEN]) -> Datagram {
        Message { hop_limit: HOP_LIMIT, attempt: 1, timestamp: 2, cookie, body }.sign(&keys())
    }

    fn arrival(bytes: &[u8], bound: Bound) -> Arrival<'_> {
        let local = [10, 0, 0, 1].into();
        Arrival { from: client(), bytes, bound, hop_limit: Some(60), local, since_1970: TODAY }
    }

    fn said(answer: Result<Answer, Silence>) -> Result<Message, Silence> {
        answer.map(|answer| Message::read(answer.datagram.as_slice(), &keys()).unwrap())
    }

    #[test]
    fn a_node_on_the_way_offers_itself_and_a_destination_acknowledges() {
        let mut node = node();
        let datagram = probe(Body::Path, node.cookie_for(client().ip(), TODAY));
        let offer =
            said(node.answer(Time::ZERO, &CALM, &arrival(datagram.as_slice(), Bound::Onward))).unwrap();
        assert_eq!((offer.timestamp, offer.attempt, offer.hop_limit), (2, 1, 60));
        let Body::Available(offer) = offer.body else { panic!("{offer:?}") };
        assert_eq!(offer.session, "10.0.0.1:7001".parse().unwrap());
        assert_eq!((offer.service_time, offer.buffer, offer.sessions), (CALM.service_time, CALM.buffer, 2));
        let mut destination = Responder::new(Time::ZERO, ResponderConfig::new(keys(), None));
        let here = arrival(datagram.as_slice(), Bound::Here);
        assert_eq!(said(destination.answer(Time::ZERO, &CALM, &here)).unwrap().body, Body::Acknowledge);
        let passing = arrival(datagram.as_slice(), Bound::Onward);
        assert_eq!(destination.answer(Time::ZERO, &CALM, &passing), Err(Silence::NoRelay));
    }

    #[test]
    fn an_overloaded_node_is_silent_and_as_a_destination_still_answers() {
        let mut node = node();
        let busy = Load { overloaded: true, ..CALM };
        let cookie = node.cookie_for(client().ip(), TODAY);
        let (path, ask) = (probe(Body::Path, cookie), probe(Body::Ask { target: None }, cookie));
        let mut hear = |bytes, bound| node.answer(Time::ZERO, &busy, &arrival(bytes, bound));
        assert_eq!(hear(path.as_slice(), Bound::Onward), Err(Silence::Overloaded));
        assert_eq!(hear(ask.as_slice(), Bound::Here), Err(Silence::Overloaded));
        assert!(hear(path.as_slice(), Bound::Here).is_ok());
        assert_eq!(node.counters().silent[&Silence::Overloaded], 2);
    }

    #[test]
    fn who_has_not_proved_its_address_gets_one_short_challenge_from_the_destination_only() {
        let mut node = node();
        for cookie in [NO_COOKIE, node.cookie_for([192, 0, 2, 10].into(), TODAY)] {
            let datagram = probe(Body::Path, cookie);
            let passing = arrival(datagram.as_slice(), Bound::Onward);
            assert_eq!(node.answer(Time::ZERO, &CALM, &passing), Err(Silence::Unproven));
            let answer = node.answer(Time::ZERO, &CALM, &arrival(datagram.as_slice(), Bound::Here)).unwrap();
            assert!(answer.datagram.as_slice().len() < PROBE_LEN);
            let challenge = said(Ok(answer)).unwrap();
            assert_eq!(challenge.body, Body::Challenge);
            let proven = probe(Body::Path, challenge.cookie);
            let again = node.answer(Time::ZERO, &CALM, &arrival(proven.as_slice(), Bound::Onward));
            assert!(matches!(said(again).unwrap().body, Body::Available(_)));
        }
    }

    #[test]
    fn whatever_comes_no_more_goes_back_than_came_and_floods_dry_up() {
        let mut node = node();
        let (mut came, mut went) = (0, 0);
        let spoofed = probe(Body::Path, NO_COOKIE);
        for _ in 0..10_000 {
            came += spoofed.as_slice().len();
            if let Ok(answer) =
                node.answer(Time::from_secs(1), &CALM, &arrival(spoofed.as_slice(), Bound::Here))
            {
                went += answer.datagram.as_slice().len();
            }
        }
        assert!(went * 10 < came, "{went} bytes for {came}");
        let honest = probe(Body::Path, node.cookie_for(client().ip(), TODAY));
        let answered = (0..1000)
            .filter(|_| {
                let arrival = arrival(honest.as_slice(), Bound::Onward);
                node.answer(Time::from_secs(1), &CALM, &arrival).is_ok()
            })
            .count();
        assert_eq!(answered, 100, "a network has its burst");
    }

    #[test]
    fn a_way_that_is_asked_for_is_measured_once_and_then_told_for_a_minute() {
        let mut node = node();
        let target: SocketAddr = "198.51.100.1:443".parse().unwrap();
        let ask = probe(Body::Ask { target: Some(target) }, node.cookie_for(client().ip(), TODAY));
        let hear = |node: &mut Responder, secs| {
            let answer =
                node.answer(Time::from_secs(secs), &CALM, &arrival(ask.as_slice(), Bound::Here)).unwrap();
            let Body::Available(offer) = said(Ok(answer)).unwrap().body else { panic!("no offer") };
            (offer.onward, answer.measure)
        };
        assert_eq!(hear(&mut node, 0), (Onward::Unknown, Some(target)));
        assert_eq!(hear(&mut node, 1), (Onward::Unknown, None), "it is under way");
        node.learn(Time::from_secs(1), target, Some(Duration::from_millis(30)));
        assert_eq!(hear(&mut node, 2), (Onward::RoundTrip(Duration::from_millis(30)), None));
        assert_eq!(hear(&mut node, 62), (Onward::Unknown, Some(target)), "it is stale");
        node.learn(Time::from_secs(63), target, None);
        assert_eq!(hear(&mut node, 64), (Onward::Unreachable, None));
    }

    #[test]
    fn nobody_makes_a_node_measure_without_end() {
        let mut node = node();
        let cookie = node.cookie_for(client().ip(), TODAY);
        let mut measured = 0;
        for port in 1..5000u16 {
            let target = SocketAddr::from(([198, 51, 100, 1], port));
            let ask = probe(Body::Ask { target: Some(target) }, cookie);
            let now = Time::from_millis(u64::from(port) * 20); // as often as its network may ask
            let answer = node.answer(now, &CALM, &arrival(ask.as_slice(), Bound::Here));
            measured += u32::from(answer.is_ok_and(|answer| answer.measure.is_some()));
        }
        assert!(measured <= 20 + 1000 && node.rations.ways() <= ONWARD_MAX, "{measured} in 100 s");
    }

    #[test]
    fn answers_are_not_answered() {
        let mut node = node();
        let datagram = probe(Body::Acknowledge, NO_COOKIE);
        let answer = node.answer(Time::ZERO, &CALM, &arrival(datagram.as_slice(), Bound::Here));
        assert_eq!(answer, Err(Silence::NoProbe));
    }
}
