//! A round of probing as a [`Prober`](shorthaul_relay::discovery::Prober) makes it, without bytes: who is asked how often, who answers, and when it is over.
//! Who answers is decided by the responders' own [`Rations`]; a test holds it beside rounds of the program itself.
use super::world::{Draws, NodeId, target};
use shorthaul_relay::discovery::{
    ASKED_MAX, Limits, ONWARD_TRIES, Onward, Rations, Retry, lingering, while_it_measures,
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
}

/// What came of a round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    /// Whether the destination answered.
    pub answered: bool,
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
        let mut measuring = [None; ASKED_MAX];
        for attempt in 0..question.retry.tries {
            let timeout = (question.retry.timeout * 2u32.saturating_pow(attempt)).as_secs_f64();
            let deadline = round.took + timeout;
            round.seen.clear();
            if self.attempt(question, deadline, &mut measuring, &mut round) {
                break;
            }
            round.took = deadline;
        }
        let is_found = match question.asks_destination {
            true => round.answered,
            false => !round.seen.is_empty(),
        };
        if !is_found {
            // Nothing on the way counts without the destination's answer.
            round.seen.clear();
        }
        round.seen.sort_by(|a, b| a.near.total_cmp(&b.near).then(a.node.cmp(&b.node)));
        round
    }

    /// Asks everybody once, from `round.took` on; whether that was enough.
    fn attempt(
        &mut self,
        question: &Question<'_>,
        deadline: f64,
        measuring: &mut [Option<f64>; ASKED_MAX],
        round: &mut Round,
    ) -> bool {
        let mut begins = round.took;
        if !round.cookie {
            let Some(challenged) = self.prove(question, round) else { return false };
            begins += challenged;
            if begins >= deadline {
                return false;
            }
            round.cookie = true;
        }
        let acknowledged =
            if question.asks_destination { self.ask_path(question, begins, round) } else { None };
        let acknowledged = acknowledged.filter(|at| *at < deadline);
        let (whole, seconds) =
            (Duration::from_secs_f64(question.whole), |duration: Duration| duration.as_secs_f64());
        let ends = acknowledged.map_or(deadline, |at| at + seconds(lingering(whole, true)));
        let (mut settled, mut last) = (0, begins);
        for (relay, measuring) in question.relays.iter().zip(measuring) {
            if let Some(at) = self.ask_relay(question, relay, (begins, acknowledged, ends), measuring, round)
            {
                settled += 1;
                last = f64::max(last, at);
            }
        }
        let all = settled == question.relays.len();
        match (question.asks_destination, acknowledged) {
            (true, None) => return false,
            (true, Some(at)) if all => {
                round.took = ends.min(last.max(at) + seconds(lingering(whole, false)));
            }
            (true, Some(_)) => round.took = ends,
            (false, _) if all => round.took = last,
            (false, _) => {
                if round.seen.is_empty() {
                    return false;
                }
                round.took = deadline;
            }
        }
        round.answered = question.asks_destination;
        true
    }

    /// Asks without a cookie; how many seconds until there is one.
    fn prove(&mut self, question: &Question<'_>, round: &mut Round) -> Option<f64> {
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
        for relay in question.relays {
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
                round.seen.push(Seen {
                    node: relay.node,
                    near: relay.near as f32,
                    far: Some(relay.far as f32),
                    on_path: true,
                });
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
        (begins, acknowledged, ends): (f64, Option<f64>, f64),
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
                Some(index) => round.seen[index].far = round.seen[index].far.or(far),
                None => {
                    // A node that the way passes, too, is one.
                    let known = round.seen.iter().position(|seen| seen.node == relay.node);
                    found = known.or_else(|| {
                        round.seen.push(Seen {
                            node: relay.node,
                            near: relay.near as f32,
                            far,
                            on_path: false,
                        });
                        Some(round.seen.len() - 1)
                    });
                }
            }
            if is_known || tries == ONWARD_TRIES {
                settled = Some(answered);
                break;
            }
            let whole = match acknowledged {
                Some(acknowledged) if answered >= acknowledged => question.whole,
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
