//! A round of probing as a [`Prober`](shorthaul_relay::discovery::Prober) makes it, without bytes: who is asked how often, who answers, and when it is over.
//! Who answers is decided by the responders' own [`Rations`]; a test holds it beside rounds of the program itself.
use super::world::{Draws, NodeId, target};
use shorthaul_relay::discovery::{
    ASKED_MAX, Handshake, Limits, ONWARD_TRIES, Onward, Rations, Retry, beyond_handshake, lingering,
    while_it_measures,
};
use shorthaul_types::{Seed, Time};
use std::net::IpAddr;
use std::time::Duration;

/// A node that is asked, or that the way passes.
#[derive(Clone, Copy, Debug)]
pub struct Relay {
    pub node: NodeId,
    pub slot: u32,
    pub is_alive: bool,
    /// The round trip to it, in seconds.
    pub near: f64,
    /// From it to the target.
    pub far: f64,
}

/// What is to be found out.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub now: Time,
    pub source: IpAddr,
    /// Where sessions would go, and its round trip.
    pub destination: u32,
    pub whole: f64,
    /// Whether the destination's responder is asked, and waited for.
    pub asks_destination: bool,
    /// When a handshake with the destination begins, which always comes about.
    pub handshake: Handshake,
    /// Nodes that the way passes.
    pub on_way: &'a [Relay],
    /// Nodes that are asked.
    pub relays: &'a [Relay],
    pub retry: Retry,
}

/// A node that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    pub node: NodeId,
    /// The round trip to it, in seconds.
    pub near: f32,
    /// From it to the target, if that is known.
    pub far: Option<f32>,
    pub on_path: bool,
    /// Seconds until the way was told, or else the node had answered.
    pub told: f32,
}

/// What came of a round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    /// Whether the destination answered, or a handshake did.
    pub answered: bool,
    /// Whether its responder did.
    pub by_responder: bool,
    /// Seconds until its distance was known, and until its responder had told it, if it was.
    pub distance_at: f64,
    pub acknowledged_at: f64,
    /// Nodes that answered, nearest first.
    pub seen: Vec<Seen>,
    /// Seconds until it was over.
    pub took: f64,
    /// Probes that were sent, and answers that came.
    pub probes: u32,
    pub answers: u32,
    /// Whether there is a cookie now.
    pub cookie: bool,
}

impl Round {
    /// The nodes that count after some seconds.
    pub fn seen_by(&self, seconds: f64) -> impl Iterator<Item = &Seen> {
        let counts = move |seen: &&Seen| {
            f64::from(seen.told) <= seconds && (!seen.on_path || self.acknowledged_at <= seconds)
        };
        self.seen.iter().filter(counts)
    }
}

/// A relay that is asked itself, in a round.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    /// When it knows the way that this round has begun to measure.
    known_at: Option<f64>,
    /// Whether it has told all that it is asked.
    is_settled: bool,
}

/// What a host has heard and said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub probes: u64,
    pub answers: u64,
    /// Probes that nothing was said to because the sender's network asks too often.
    pub too_often: u64,
    /// Senders without a cookie, and those of them that could not be challenged.
    pub unproven: u64,
    pub unchallenged: u64,
    /// Questions for a way, each counted once in a round; those of them to which it was not known, ways that were measured, and questions for which there was
    /// neither place nor allowance to.
    pub asked: u64,
    pub unknown: u64,
    pub measured: u64,
    pub unmeasured: u64,
}

impl Traffic {
    /// Adds those of another host.
    pub fn add(&mut self, other: &Traffic) {
        self.probes += other.probes;
        self.answers += other.answers;
        self.too_often += other.too_often;
        self.unproven += other.unproven;
        self.unchallenged += other.unchallenged;
        self.asked += other.asked;
        self.unknown += other.unknown;
        self.measured += other.measured;
        self.unmeasured += other.unmeasured;
    }
}

/// A host that answers.
#[derive(Debug)]
pub struct Host {
    rations: Rations,
    pub traffic: Traffic,
}

impl Host {
    pub fn new(now: Time, limits: Limits, seed: Seed) -> Host {
        Host { rations: Rations::seeded(now, limits, seed), traffic: Traffic::default() }
    }

    /// Another host takes its place: it has limits of its own, and is counted with the one before.
    pub fn replace(&mut self, now: Time, limits: Limits, seed: Seed) {
        self.rations = Rations::seeded(now, limits, seed);
    }

    /// Targets in its table of ways.
    pub fn ways(&self) -> usize {
        self.rations.ways()
    }

    fn challenge(&mut self, now: Time) -> bool {
        self.traffic.probes += 1;
        self.traffic.unproven += 1;
        let challenged = self.rations.challenge(now);
        self.traffic.unchallenged += u64::from(!challenged);
        self.traffic.answers += u64::from(challenged);
        challenged
    }

    /// Whether it answers somebody who asks for no way.
    fn answer(&mut self, now: Time, source: IpAddr) -> bool {
        self.traffic.probes += 1;
        let answers = self.rations.ask(now, source, None).is_some();
        self.traffic.too_often += u64::from(!answers);
        self.traffic.answers += u64::from(answers);
        answers
    }
}

/// All hosts that answer.
#[derive(Debug)]
pub struct Hosts {
    pub nodes: Vec<Host>,
    /// Those of destinations that have a responder.
    pub destinations: Vec<Option<Host>>,
    pub loss: f64,
    pub draws: Draws,
}

impl Hosts {
    fn is_lost(&mut self) -> bool {
        let loss = self.loss;
        self.draws.happens(loss)
    }

    /// A whole round of a client that has a `cookie`, or has none; of no more relays than a round asks.
    pub fn round(&mut self, question: &Question<'_>, cookie: bool) -> Round {
        let mut round = Round { cookie, ..Round::default() };
        let mut asked = [Asked::default(); ASKED_MAX];
        let mut shaken = None;
        for attempt in 0..question.retry.tries {
            let timeout = (question.retry.timeout * 2u32.saturating_pow(attempt)).as_secs_f64();
            let begins = match question.handshake {
                Handshake::Never => false,
                Handshake::IfSilent => attempt > 0 || !question.asks_destination,
                Handshake::AtOnce => true,
            };
            if begins {
                shaken.get_or_insert(round.took + question.whole);
            }
            let deadline = round.took + timeout;
            if self.attempt(question, deadline, shaken.filter(|at| *at < deadline), &mut asked, &mut round) {
                break;
            }
            round.took = deadline;
        }
        let is_found = match question.asks_destination || question.handshake != Handshake::Never {
            true => round.answered,
            false => !round.seen.is_empty(),
        };
        if !is_found {
            // Nothing counts without the destination's distance.
            round.seen.clear();
        } else if question.asks_destination && !round.by_responder {
            // Nothing on the way counts without its responder's answer.
            round.seen.retain(|seen| !seen.on_path);
        }
        round.seen.sort_by(|a, b| a.near.total_cmp(&b.near).then(a.node.cmp(&b.node)));
        round
    }

    /// Asks everybody once who has not told all yet, from `round.took` on; whether that was enough. `shaken` is when a handshake has measured the distance, if it
    /// does within the attempt.
    fn attempt(
        &mut self,
        question: &Question<'_>,
        deadline: f64,
        shaken: Option<f64>,
        asked: &mut [Asked; ASKED_MAX],
        round: &mut Round,
    ) -> bool {
        let seconds = |duration: Duration| duration.as_secs_f64();
        let whole = Duration::from_secs_f64(question.whole);
        let (lingers, moment) = (seconds(lingering(whole, true)), seconds(lingering(whole, false)));
        let asked = &mut asked[..question.relays.len()];
        let kept = |seen: &Seen| {
            let of = |(relay, asked): (&Relay, &Asked)| asked.is_settled && relay.node == seen.node;
            question.relays.iter().zip(asked.iter()).any(of)
        };
        round.seen.retain(kept);
        round.seen.iter_mut().for_each(|seen| seen.on_path = false);
        let is_waiting = asked.iter().any(|asked| !asked.is_settled);
        // How long the responder has, that was asked at some time, where a handshake has told how far it is.
        let responder_until = |from: f64| match question.asks_destination {
            true => from + question.whole + seconds(beyond_handshake(whole)),
            false => 0.0,
        };
        let after_handshake = |shaken: f64, from: f64| {
            let lingers = if is_waiting { lingers } else { moment };
            // Those that are asked again after it have as long.
            (shaken.max(from) + lingers).max(responder_until(from))
        };
        let mut begins = round.took;
        if !round.cookie {
            let until = shaken.map_or(deadline, |shaken| after_handshake(shaken, begins));
            match self.prove(question, asked, round).map(|after| begins + after).filter(|at| *at < until) {
                Some(at) => begins = at,
                None => {
                    round.answered = shaken.is_some();
                    (round.distance_at, round.acknowledged_at) =
                        (shaken.unwrap_or(f64::INFINITY), f64::INFINITY);
                    round.took = until;
                    return round.answered;
                }
            }
            round.cookie = true;
        }
        let acknowledged =
            if question.asks_destination { self.ask_path(question, begins, round) } else { None };
        let acknowledged = acknowledged.filter(|at| shaken.is_some() || *at < deadline);
        let by_handshake = shaken.map(|shaken| after_handshake(shaken, begins));
        let ends = match (acknowledged, by_handshake) {
            (Some(at), Some(ends)) => ends.min(at + lingers).max(at + moment),
            (Some(at), None) => at + lingers,
            (None, ends) => ends.unwrap_or(deadline),
        };
        let known = match (acknowledged, shaken) {
            (Some(at), Some(shaken)) => Some(at.min(shaken)),
            (at, shaken) => at.or(shaken),
        };
        let (mut all, mut last) = (true, begins);
        for (relay, asked) in question.relays.iter().zip(&mut *asked) {
            if asked.is_settled {
                continue;
            }
            match self.ask_relay(question, relay, (begins, known, ends), &mut asked.known_at, round) {
                Some(at) => (asked.is_settled, last) = (true, last.max(at)),
                None => all = false,
            }
        }
        round.by_responder = acknowledged.is_some();
        round.answered = known.is_some();
        (round.distance_at, round.acknowledged_at) =
            (known.unwrap_or(f64::INFINITY), acknowledged.unwrap_or(f64::INFINITY));
        round.took = match (acknowledged, shaken) {
            (Some(at), _) if all => ends.min(last.max(at) + moment),
            (None, Some(shaken)) if all && !question.asks_destination => last.max(shaken),
            (None, Some(shaken)) if all => ends.min(last.max(shaken) + moment).max(responder_until(begins)),
            (None, None) if all && !question.asks_destination && question.handshake == Handshake::Never => {
                last
            }
            _ => ends,
        };
        match question.asks_destination || question.handshake != Handshake::Never {
            true => round.answered,
            false => all || !round.seen.is_empty(),
        }
    }

    /// Asks without a cookie; how many seconds until there is one.
    fn prove(&mut self, question: &Question<'_>, asked: &[Asked], round: &mut Round) -> Option<f64> {
        let mut first: Option<f64> = None;
        let mut hear = |hosts: &mut Hosts, host: &mut dyn FnMut(&mut Hosts) -> Option<bool>, after: f64| {
            round.probes += 1;
            if !hosts.is_lost() && host(hosts) == Some(true) && !hosts.is_lost() {
                round.answers += 1;
                first = Some(first.map_or(after, |first| first.min(after)));
            }
        };
        if question.asks_destination {
            let destination = question.destination as usize;
            let mut challenge =
                |hosts: &mut Hosts| Some(hosts.destinations[destination].as_mut()?.challenge(question.now));
            hear(self, &mut challenge, question.whole);
        }
        let unsettled = question.relays.iter().zip(asked).filter(|(_, asked)| !asked.is_settled);
        for (relay, _) in unsettled {
            let mut challenge = |hosts: &mut Hosts| {
                relay.is_alive.then(|| hosts.nodes[relay.slot as usize].challenge(question.now))
            };
            hear(self, &mut challenge, relay.near);
        }
        first
    }

    /// Asks the destination; when it has acknowledged. Nodes on the way answer, too.
    fn ask_path(&mut self, question: &Question<'_>, begins: f64, round: &mut Round) -> Option<f64> {
        round.probes += 1;
        for relay in question.on_way.iter().filter(|relay| relay.is_alive) {
            if !self.is_lost()
                && self.nodes[relay.slot as usize].answer(question.now, question.source)
                && !self.is_lost()
            {
                round.answers += 1;
                // One that was asked itself, too, in an attempt before, is one.
                match round.seen.iter_mut().find(|seen| seen.node == relay.node) {
                    Some(seen) => seen.on_path = true,
                    None => round.seen.push(Seen {
                        node: relay.node,
                        near: relay.near as f32,
                        far: Some(relay.far as f32),
                        on_path: true,
                        told: (begins + relay.near) as f32,
                    }),
                }
            }
        }
        if self.is_lost() {
            return None;
        }
        let destination = self.destinations[question.destination as usize].as_mut()?;
        if !destination.answer(question.now, question.source) || self.is_lost() {
            return None;
        }
        round.answers += 1;
        Some(begins + question.whole)
    }

    /// Asks a node, again while it measures; when it is settled.
    fn ask_relay(
        &mut self,
        question: &Question<'_>,
        relay: &Relay,
        (begins, known, ends): (f64, Option<f64>, f64),
        known_at: &mut Option<f64>,
        round: &mut Round,
    ) -> Option<f64> {
        let (now, source) = (question.now, question.source);
        let (mut at, mut found) = (begins, None::<usize>);
        let (mut settled, mut begun) = (None, false);
        for tries in 1..=ONWARD_TRIES {
            round.probes += 1;
            if !relay.is_alive || self.is_lost() {
                break;
            }
            let arrives = at + relay.near / 2.0;
            let host = &mut self.nodes[relay.slot as usize];
            host.traffic.probes += 1;
            // What this round has begun to measure is known when that is done, and not before.
            let is_measuring = known_at.is_some();
            let asked = (!is_measuring).then(|| target(question.destination));
            let Some(told) = host.rations.ask(now, source, asked) else {
                host.traffic.too_often += 1;
                break;
            };
            host.traffic.answers += 1;
            host.traffic.asked += u64::from(tries == 1);
            let is_known = match *known_at {
                Some(known_at) => arrives >= known_at,
                None => told.way != Onward::Unknown,
            };
            if !is_measuring && !is_known {
                host.traffic.measured += u64::from(told.measure);
                // However often the same is asked in a round.
                host.traffic.unknown += u64::from(tries == 1);
                host.traffic.unmeasured += u64::from(tries == 1 && !told.measure);
                if told.measure {
                    *known_at = Some(arrives + relay.far);
                    begun = true;
                }
            }
            if self.is_lost() {
                break;
            }
            let answered = at + relay.near;
            if answered >= ends {
                break;
            }
            round.answers += 1;
            let far = is_known.then_some(relay.far as f32);
            match found {
                Some(index) => {
                    let seen = &mut round.seen[index];
                    if let (None, Some(_)) = (seen.far, far) {
                        (seen.far, seen.told) = (far, answered as f32);
                    }
                }
                None => {
                    // A node that the way passes, too, is one.
                    let known = round.seen.iter().position(|seen| seen.node == relay.node);
                    found = known.or_else(|| {
                        round.seen.push(Seen {
                            node: relay.node,
                            near: relay.near as f32,
                            far,
                            on_path: false,
                            told: answered as f32,
                        });
                        Some(round.seen.len() - 1)
                    });
                }
            }
            if is_known || tries == ONWARD_TRIES {
                settled = Some(answered);
                break;
            }
            let whole = match known {
                Some(known) if answered >= known => question.whole,
                _ => relay.near,
            };
            at = answered + while_it_measures(Duration::from_secs_f64(whole)).as_secs_f64();
            if at >= ends {
                break;
            }
        }
        if let Some(known_at) = known_at.filter(|_| begun) {
            let far = Duration::from_secs_f64(relay.far);
            self.nodes[relay.slot as usize].rations.learn(
                now + Duration::from_secs_f64(known_at),
                target(question.destination),
                Some(far),
            );
        }
        settled
    }
}

impl Hosts {
    /// Asks a node for its load, once.
    pub fn ask_load(&mut self, now: Time, source: IpAddr, relay: &Relay) -> Round {
        let is_heard = relay.is_alive && !self.is_lost();
        let answers = is_heard && self.nodes[relay.slot as usize].answer(now, source) && !self.is_lost();
        Round {
            probes: 1,
            answers: u32::from(answers),
            took: relay.near,
            cookie: answers,
            ..Round::default()
        }
    }
}
