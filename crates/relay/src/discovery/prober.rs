use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use shorthaul_types::{Seed, Time};

use super::key::{Keyring, MAC_LEN};
use super::message::{Body, Datagram, HOP_LIMIT, Message, Offer, Onward, Unreadable};
use super::responder::NO_COOKIE;

/// Relays that are asked in one round, at most: traffic is bounded whatever a directory says.
pub const ASKED_MAX: usize = 16;
/// Offers that are kept of one round, at most.
const OFFERS_MAX: usize = 64;
/// How often a relay is asked again for the way on from it, while it measures that.
pub const ONWARD_TRIES: u32 = 4;

/// What one round of probing is to find out.
#[derive(Clone, Debug)]
pub struct Question {
    /// Where probes go, to find relays on the way: the destination's responder. `None` if it has none.
    pub destination: Option<SocketAddr>,
    /// Relays beside the way, which are asked themselves: the first [`ASKED_MAX`] are.
    pub relays: Vec<SocketAddr>,
    /// Where sessions would go: relays that are asked are to measure the way to there.
    pub target: Option<SocketAddr>,
    /// A cookie from an earlier round.
    pub cookie: Option<[u8; MAC_LEN]>,
}

/// How patient a round is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The timeout of the first attempt (RFC 8961 §4: a second where nothing is known); each next has twice as much.
    pub timeout: Duration,
    /// Attempts.
    pub tries: u32,
}

impl Default for Retry {
    fn default() -> Self {
        Retry { timeout: Duration::from_secs(1), tries: 3 }
    }
}

/// A relay that answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it offers.
    pub offer: Offer,
    /// The round-trip time to it.
    pub rtt: Duration,
    /// Hops to it, if it was on the way.
    pub hops: Option<u8>,
    /// Whether it is on the way to the destination.
    pub on_path: bool,
}

/// What a round found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// The round-trip time to the destination; `None` if it did not answer (then nothing on the way counts either).
    pub rtt: Option<Duration>,
    /// Relays, nearest first, each once.
    pub relays: Vec<Found>,
    /// The cookie for the next round.
    pub cookie: Option<[u8; MAC_LEN]>,
    /// Attempts that it took.
    pub tries: u32,
}

impl Findings {
    /// Whether only the destination answered, so that there is nothing but the direct way.
    pub fn is_direct_only(&self) -> bool {
        self.rtt.is_some() && self.relays.is_empty()
    }
}

/// Why a datagram was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ignored {
    /// It is no message of this network.
    Unreadable(Unreadable),
    /// It answers an attempt that was given up, or none of ours.
    Stale,
    /// It claims a time that has not come yet, or is a probe.
    Senseless,
    /// The round is over, or there are too many.
    Late,
}

/// The side of discovery that asks: one round of it, without socket or clock (section 4 of the paper: "PTS
/// Node Discovery").
///
/// The round ends when the destination has acknowledged a probe and a moment has passed for those whose answers were
/// overtaken. If it does not in time, what was collected is discarded and the probe retransmitted.
///
/// A driver sends what [`poll_transmit`](Self::poll_transmit) gives, hands in what comes, and calls
/// [`handle_timeout`](Self::handle_timeout) when [`poll_timeout`](Self::poll_timeout) has passed, until there are
/// [`findings`](Self::findings).
#[derive(Debug)]
pub struct Prober {
    keys: Keyring,
    question: Question,
    retry: Retry,
    seed: Seed,
    cookie: Option<[u8; MAC_LEN]>,
    challenged: u32,
    /// Attempts so far; the current one has this number.
    tries: u32,
    /// What makes messages of this attempt ours: changes with every attempt and challenge.
    attempt: u64,
    attempts: u64,
    acknowledged: Option<Duration>,
    found: Vec<Found>,
    asked: Vec<Asked>,
    outbox: VecDeque<(SocketAddr, Body)>,
    /// When the attempt has failed, or the round is over.
    deadline: Time,
    done: bool,
}

/// How long a round goes on after the destination, which is `rtt` away, has answered: a moment for those whose answers were overtaken, and twice its round
/// trip if relays that were asked themselves are still waited for.
pub fn lingering(rtt: Duration, is_waiting: bool) -> Duration {
    match is_waiting {
        false => (rtt / 16).clamp(Duration::from_millis(1), Duration::from_millis(20)),
        true => (rtt * 2).max(Duration::from_millis(200)),
    }
}

/// How long after its answer a relay is asked again that begins to measure: that takes a round trip of the way on, which is hardly longer than the whole
/// direct way, `whole`.
pub fn while_it_measures(whole: Duration) -> Duration {
    whole.max(Duration::from_millis(20)).mul_f64(1.2)
}

/// A relay that is asked itself.
#[derive(Clone, Copy, Debug)]
struct Asked {
    address: SocketAddr,
    /// Questions sent in this attempt.
    tries: u32,
    /// When to ask again for the way on from it.
    again_at: Option<Time>,
    settled: bool,
    /// Distinguishes its answers from those of other relays.
    attempt: u64,
}

impl Prober {
    /// Begins a round at `now`. `seed` must be another one each time.
    pub fn new(now: Time, keys: Keyring, question: Question, retry: Retry, seed: Seed) -> Self {
        let asked = question.relays.iter().take(ASKED_MAX).map(|address| Asked {
            address: *address,
            tries: 0,
            again_at: None,
            settled: false,
            attempt: 0,
        });
        let mut prober = Prober {
            asked: asked.collect(),
            cookie: question.cookie,
            keys,
            question,
            retry,
            seed,
            challenged: 0,
            tries: 0,
            attempt: 0,
            attempts: 0,
            acknowledged: None,
            found: Vec::new(),
            outbox: VecDeque::new(),
            deadline: now,
            done: false,
        };
        prober.next_try(now);
        prober
    }

    /// Relays that have answered this attempt so far, in the order in which they did: some may be of no use in the end.
    pub fn so_far(&self) -> &[Found] {
        &self.found
    }

    /// What the round found; `None` as long as it goes on.
    pub fn findings(&self) -> Option<Findings> {
        if !self.done {
            return None;
        }
        let mut relays = self.found.clone();
        relays.sort_by_key(|found| (found.rtt, found.offer.session));
        Some(Findings { rtt: self.acknowledged, relays, cookie: self.cookie, tries: self.tries })
    }

    fn new_attempt(&mut self) -> u64 {
        self.attempts += 1;
        self.seed.nth(self.attempts).0
    }

    /// Asks everybody (again), with a timeout of its own.
    fn next_try(&mut self, now: Time) {
        if self.tries == self.retry.tries || (self.question.destination.is_none() && self.asked.is_empty()) {
            self.done = true;
            return;
        }
        self.deadline = now + self.retry.timeout * 2u32.saturating_pow(self.tries);
        self.tries += 1;
        self.ask_all();
    }

    /// Discards what was collected, and queues the questions.
    fn ask_all(&mut self) {
        self.attempt = self.new_attempt();
        self.acknowledged = None;
        self.found.clear();
        self.outbox.clear();
        if let Some(destination) = self.question.destination {
            self.outbox.push_back((destination, Body::Path));
        }
        for index in 0..self.asked.len() {
            let attempt = self.new_attempt();
            self.asked[index] =
                Asked { tries: 0, again_at: None, settled: false, attempt, ..self.asked[index] };
            self.ask(index);
        }
    }

    fn ask(&mut self, index: usize) {
        let asked = &mut self.asked[index];
        asked.tries += 1;
        asked.again_at = None;
        self.outbox.push_back((asked.address, Body::Ask { target: self.question.target }));
    }

    /// The next datagram to send, and where to.
    pub fn poll_transmit(&mut self, now: Time) -> Option<(SocketAddr, Datagram)> {
        let (to, body) = self.outbox.pop_front()?;
        let attempt = match body {
            Body::Ask { .. } => self
                .asked
                .iter()
                .find(|asked| asked.address == to)
                .map_or(self.attempt, |asked| asked.attempt),
            _ => self.attempt,
        };
        let message = Message {
            hop_limit: HOP_LIMIT,
            attempt,
            timestamp: now.as_nanos(),
            cookie: self.cookie.unwrap_or(NO_COOKIE),
            body,
        };
        Some((to, message.sign(&self.keys)))
    }

    /// A datagram came.
    ///
    /// # Errors
    /// It changes nothing, and why.
    pub fn handle_datagram(&mut self, now: Time, bytes: &[u8]) -> Result<(), Ignored> {
        let message = Message::read(bytes, &self.keys).map_err(Ignored::Unreadable)?;
        if message.body.is_probe() || message.timestamp > now.as_nanos() {
            return Err(Ignored::Senseless);
        }
        if self.done {
            return Err(Ignored::Late);
        }
        let asked = self.asked.iter().position(|asked| asked.attempt == message.attempt);
        if asked.is_none() && message.attempt != self.attempt {
            return Err(Ignored::Stale);
        }
        let rtt = now.saturating_since(Time::from_nanos(message.timestamp));
        match message.body {
            Body::Challenge => self.on_challenge(&message)?,
            Body::Acknowledge => {
                let first = self.acknowledged.is_none();
                self.acknowledged = Some(self.acknowledged.map_or(rtt, |first| first.min(rtt)));
                self.cookie = Some(message.cookie);
                self.linger(now, first);
            }
            Body::Available(offer) => {
                self.cookie = Some(message.cookie);
                match asked {
                    Some(index) => self.on_answer(now, index, offer, rtt),
                    None => {
                        let hops = Some(message.hop_limit).filter(|left| (1..=HOP_LIMIT).contains(left));
                        let hops = hops.map(|left| HOP_LIMIT - left + 1);
                        self.add(Found { offer, rtt, hops, on_path: true })?;
                    }
                }
                self.linger(now, false);
            }
            Body::Path | Body::Ask { .. } => return Err(Ignored::Senseless),
        }
        self.finish_if_settled(now);
        Ok(())
    }

    /// Everything is asked again, with the cookie: that is the same attempt, only proven. Twice in a round, since the
    /// cookie may have become stale meanwhile, and no more.
    fn on_challenge(&mut self, message: &Message) -> Result<(), Ignored> {
        if self.cookie == Some(message.cookie) || self.challenged >= 2 {
            return Err(Ignored::Late);
        }
        self.challenged += 1;
        self.cookie = Some(message.cookie);
        self.ask_all();
        Ok(())
    }

    /// A relay that was asked itself answered.
    fn on_answer(&mut self, now: Time, index: usize, offer: Offer, rtt: Duration) {
        let wants_way = self.question.target.is_some() && offer.onward == Onward::Unknown;
        let asked = &mut self.asked[index];
        if wants_way && asked.tries < ONWARD_TRIES {
            asked.again_at = Some(now + while_it_measures(self.acknowledged.unwrap_or(rtt)));
        } else {
            asked.settled = true;
            asked.again_at = None;
        }
        // With too many there would have been no question.
        let _ = self.add(Found { offer, rtt, hops: None, on_path: false });
    }

    /// Keeps each relay once, with its shortest round trip: queues add to that, nothing takes away.
    fn add(&mut self, found: Found) -> Result<(), Ignored> {
        let full = self.found.len() == OFFERS_MAX;
        match self.found.iter_mut().find(|known| known.offer.session == found.offer.session) {
            Some(known) => {
                let onward = match found.offer.onward {
                    Onward::Unknown => known.offer.onward,
                    way => way,
                };
                known.offer = Offer { onward, ..found.offer };
                known.rtt = known.rtt.min(found.rtt);
                known.hops = known.hops.or(found.hops);
                known.on_path |= found.on_path;
            }
            None if full => return Err(Ignored::Late),
            None => self.found.push(found),
        }
        Ok(())
    }

    /// The destination has answered: those whose answers were overtaken have a moment left, and those that were asked
    /// themselves twice its round trip.
    fn linger(&mut self, now: Time, first: bool) {
        let Some(rtt) = self.acknowledged else { return };
        let wait = lingering(rtt, self.is_waiting());
        // Only the first answer sets the time: whoever plays back the others draws nothing out.
        self.deadline = if first { now + wait } else { self.deadline.min(now + wait) };
    }

    fn is_waiting(&self) -> bool {
        self.asked.iter().any(|asked| !asked.settled)
    }

    /// Without a destination to wait for, the round is over when all have answered.
    fn finish_if_settled(&mut self, now: Time) {
        if self.question.destination.is_none() && !self.is_waiting() {
            self.deadline = now;
            self.done = true;
        }
    }

    /// A deadline may have passed.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.done {
            return;
        }
        for index in 0..self.asked.len() {
            if self.asked[index].again_at.is_some_and(|at| at <= now) {
                self.ask(index);
            }
        }
        if now < self.deadline {
            return;
        }
        let answered = match self.question.destination {
            Some(_) => self.acknowledged.is_some(),
            None => !self.found.is_empty(),
        };
        if answered {
            self.done = true;
        } else {
            self.next_try(now);
            if self.done {
                // Nothing on the way counts without the destination's answer.
                self.found.clear();
            }
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if nothing happens before; `None` when the round is over.
    pub fn poll_timeout(&self) -> Option<Time> {
        let again = self.asked.iter().filter_map(|asked| asked.again_at).min();
        (!self.done).then(|| again.map_or(self.deadline, |again| again.min(self.deadline)))
    }
}
