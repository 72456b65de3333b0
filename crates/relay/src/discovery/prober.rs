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
    /// When the distance of the target is measured by a handshake with it.
    pub handshake: Handshake,
    /// A cookie from an earlier round.
    pub cookie: Option<[u8; MAC_LEN]>,
}

/// When a round measures how far its target is by a TCP handshake, beside asking the destination's responder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handshake {
    /// Never: the responder tells it, or nobody asks for it.
    #[default]
    Never,
    /// When the first attempt has failed: a responder is known to be there.
    IfSilent,
    /// At once: nobody waits for a responder that is not there.
    AtOnce,
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
    /// The round-trip time to the destination; `None` if it did not answer.
    pub rtt: Option<Duration>,
    /// What told that. Relays on the way count only where the responder did.
    pub by: Option<By>,
    /// Relays, nearest first, each once.
    pub relays: Vec<Found>,
    /// Those that were asked themselves and did not answer.
    pub silent: Vec<SocketAddr>,
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

/// What told a round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A responder, which acknowledged a probe.
    Responder,
    /// A TCP handshake with the target itself.
    Handshake,
}

/// The side of discovery that asks: one round of it, without socket or clock (section 4 of the paper: "PTS
/// Node Discovery").
///
/// The round ends when the destination has acknowledged a probe and a moment has passed for those whose answers were
/// overtaken. If it does not in time, what was collected on the way is discarded and the probe retransmitted. Where a handshake
/// measures the distance meanwhile, the responder has a round trip to answer in, and what relays beside the way said counts
/// without it.
///
/// A driver sends what [`poll_transmit`](Self::poll_transmit) gives, shakes hands with what [`poll_handshake`](Self::poll_handshake)
/// gives, hands in what comes, and calls [`handle_timeout`](Self::handle_timeout) when [`poll_timeout`](Self::poll_timeout) has
/// passed, until there are [`findings`](Self::findings).
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
    /// When the questions of this attempt were queued.
    asked_at: Time,
    acknowledged: Option<Duration>,
    handshake: Shaking,
    found: Vec<Found>,
    asked: Vec<Asked>,
    outbox: VecDeque<(SocketAddr, Body)>,
    /// When the attempt has failed, or the round is over.
    deadline: Time,
    done: bool,
}

/// How far the handshake of a round is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shaking {
    /// It has not begun, and may never.
    NotYet,
    /// It is to begin.
    Wanted,
    UnderWay,
    Took(Duration),
    Failed,
}

/// How long a round goes on after the destination, which is `rtt` away, has answered: a moment for those whose answers were overtaken, and twice its round
/// trip if relays that were asked themselves are still waited for.
pub fn lingering(rtt: Duration, is_waiting: bool) -> Duration {
    match is_waiting {
        false => (rtt / 16).clamp(Duration::from_millis(1), Duration::from_millis(20)),
        true => (rtt * 2).max(Duration::from_millis(200)),
    }
}

/// How much longer than a handshake with its host a responder may take: it is a program, and perhaps a busy one, and whoever has no cookie yet is challenged first.
pub fn beyond_handshake(rtt: Duration) -> Duration {
    rtt.max(Duration::from_millis(20))
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
    /// Where it accepts sessions, once it has answered.
    session: Option<SocketAddr>,
    /// Whether it has answered in this round, be it an attempt before.
    answered: bool,
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
            session: None,
            answered: false,
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
            asked_at: now,
            acknowledged: None,
            handshake: Shaking::NotYet,
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
        self.done.then(|| self.findings_so_far())
    }

    /// What it would have found if it were over now.
    pub fn findings_so_far(&self) -> Findings {
        let mut relays = self.counting();
        relays.sort_by_key(|found| (found.rtt, found.offer.session));
        let by = match self.acknowledged {
            Some(_) => Some(By::Responder),
            None => self.distance().map(|_| By::Handshake),
        };
        let silent = self.asked.iter().filter(|asked| !asked.answered);
        let silent = silent.map(|asked| asked.address).collect();
        Findings { rtt: self.distance(), by, relays, silent, cookie: self.cookie, tries: self.tries }
    }

    /// The relays that count: none without the destination's distance, and none on the way without its responder's answer.
    fn counting(&self) -> Vec<Found> {
        let asks_responder = self.question.destination.is_some();
        if (asks_responder || self.measures()) && self.distance().is_none() {
            return Vec::new();
        }
        let mut relays = self.found.clone();
        if asks_responder && self.acknowledged.is_none() {
            forget_the_way(&mut relays, &self.asked, |asked| asked.session.is_some());
        }
        relays
    }

    /// How far the destination is, as far as that is known by now.
    pub fn distance(&self) -> Option<Duration> {
        match self.handshake {
            Shaking::Took(rtt) => self.acknowledged.or(Some(rtt)),
            _ => self.acknowledged,
        }
    }

    fn new_attempt(&mut self) -> u64 {
        self.attempts += 1;
        self.seed.nth(self.attempts).0
    }

    /// Asks everybody (again), with a timeout of its own.
    fn next_try(&mut self, now: Time) {
        let asks_nobody = self.question.destination.is_none() && self.asked.is_empty();
        if self.tries == self.retry.tries || (asks_nobody && !self.measures()) {
            self.done = true;
            return;
        }
        self.deadline = now + self.retry.timeout * 2u32.saturating_pow(self.tries);
        self.tries += 1;
        let begins = match self.question.handshake {
            Handshake::Never => false,
            Handshake::IfSilent => self.tries > 1 || self.question.destination.is_none(),
            Handshake::AtOnce => true,
        };
        if begins && self.measures() && self.handshake == Shaking::NotYet {
            self.handshake = Shaking::Wanted;
        }
        self.ask_all(now);
    }

    /// Whether the distance is, or will be, measured by a handshake.
    fn measures(&self) -> bool {
        self.question.handshake != Handshake::Never && self.question.target.is_some()
    }

    /// Discards what was collected on the way, and queues the questions. Relays that were asked themselves and have told all that they know are
    /// not asked again.
    fn ask_all(&mut self, now: Time) {
        self.asked_at = now;
        self.attempt = self.new_attempt();
        self.acknowledged = None;
        self.outbox.clear();
        forget_the_way(&mut self.found, &self.asked, |asked| asked.settled);
        if let Some(destination) = self.question.destination {
            self.outbox.push_back((destination, Body::Path));
        }
        for index in 0..self.asked.len() {
            if self.asked[index].settled {
                continue;
            }
            let attempt = self.new_attempt();
            self.asked[index] =
                Asked { tries: 0, again_at: None, session: None, attempt, ..self.asked[index] };
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

    /// The target to shake hands with now, if the round wants that: what came of it is handed to
    /// [`handle_handshake`](Self::handle_handshake).
    pub fn poll_handshake(&mut self) -> Option<SocketAddr> {
        if self.done || self.handshake != Shaking::Wanted {
            return None;
        }
        self.handshake = Shaking::UnderWay;
        self.question.target
    }

    /// The handshake took so long, or came to nothing.
    pub fn handle_handshake(&mut self, now: Time, took: Option<Duration>) {
        if self.done {
            return;
        }
        let first = self.distance().is_none();
        self.handshake = took.map_or(Shaking::Failed, Shaking::Took);
        if took.is_some() {
            self.linger(now, first);
        }
        self.finish_if_settled(now);
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
            Body::Challenge => self.on_challenge(now, &message)?,
            Body::Acknowledge => {
                let (known, first) = (self.distance().is_some(), self.acknowledged.is_none());
                self.acknowledged = Some(self.acknowledged.map_or(rtt, |first| first.min(rtt)));
                self.cookie = Some(message.cookie);
                self.linger(now, !known);
                if first {
                    // What it overtook is waited for, also where a handshake was there before.
                    self.deadline = self.deadline.max(now + lingering(rtt, false));
                }
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
    fn on_challenge(&mut self, now: Time, message: &Message) -> Result<(), Ignored> {
        if self.cookie == Some(message.cookie) || self.challenged >= 2 {
            return Err(Ignored::Late);
        }
        self.challenged += 1;
        self.cookie = Some(message.cookie);
        self.ask_all(now);
        // Where a handshake was sooner, those that are asked again have as long as they would have had.
        self.linger(now, true);
        Ok(())
    }

    /// A relay that was asked itself answered.
    fn on_answer(&mut self, now: Time, index: usize, offer: Offer, rtt: Duration) {
        let wants_way = self.question.target.is_some() && offer.onward == Onward::Unknown;
        let whole = self.distance();
        let asked = &mut self.asked[index];
        (asked.session, asked.answered) = (Some(offer.session), true);
        if wants_way && asked.tries < ONWARD_TRIES {
            asked.again_at = Some(now + while_it_measures(whole.unwrap_or(rtt)));
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

    /// The destination has answered, or a handshake has: those whose answers were overtaken have a moment left, and those that were asked
    /// themselves twice its round trip.
    fn linger(&mut self, now: Time, first: bool) {
        let Some(rtt) = self.distance() else { return };
        let until = now + lingering(rtt, self.is_waiting());
        // Only the first answer sets the time: whoever plays back the others draws nothing out.
        self.deadline = if first { until } else { self.deadline.min(until) };
        if self.question.destination.is_some() && self.acknowledged.is_none() {
            self.deadline = self.deadline.max(self.asked_at + rtt + beyond_handshake(rtt));
        }
    }

    fn is_waiting(&self) -> bool {
        self.asked.iter().any(|asked| !asked.settled)
    }

    /// Without a responder to wait for, the round is over when all have answered, or nothing of that can count any more.
    fn finish_if_settled(&mut self, now: Time) {
        if self.question.destination.is_some() {
            return;
        }
        let is_over = match self.handshake {
            Shaking::Wanted | Shaking::UnderWay => false,
            Shaking::Failed => true,
            Shaking::NotYet | Shaking::Took(_) => !self.is_waiting(),
        };
        if is_over {
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
        let answered = match self.question.destination.is_some() || self.measures() {
            true => self.distance().is_some(),
            false => !self.found.is_empty(),
        };
        if answered {
            self.done = true;
        } else {
            self.next_try(now);
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if nothing happens before; `None` when the round is over.
    pub fn poll_timeout(&self) -> Option<Time> {
        let again = self.asked.iter().filter_map(|asked| asked.again_at).min();
        (!self.done).then(|| again.map_or(self.deadline, |again| again.min(self.deadline)))
    }
}

/// Keeps nothing but what relays have said that were asked themselves, if they are `kept`.
fn forget_the_way(found: &mut Vec<Found>, asked: &[Asked], kept: impl Fn(&Asked) -> bool) {
    found.retain_mut(|found| {
        (found.on_path, found.hops) = (false, None);
        asked.iter().any(|asked| kept(asked) && asked.session == Some(found.offer.session))
    });
}
