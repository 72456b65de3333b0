//! Probing devices (Lahanas and Tsaoussidis): before a loss is answered, the path is asked twice.
//!
//! ```text
//! a loss → PROBE1 → its answer: RTT 1 → PROBE2 → its answer: RTT 2 → the rule decides
//!            ↑ no answer in time ↓           ↑ no answer in time: PROBE1 again
//! ```
//! No data leaves meanwhile. While the path is dead or loses much, the cycle goes on; when it is clear
//! again, the cycle ends within two round trips, and the round trips that it measured, beside the best one
//! ever measured with data, say what the loss meant.
use crate::loss_discriminator::{
    Acknowledged, Discriminator, LossEvidence, LossResponse, LossSign, Octet, Probe, ProbeAnswer, ProbeForm,
    ProbeName, ProbeStage,
};
use alloc::boxed::Box;
use arrayvec::ArrayVec;
use core::time::Duration;
use shorthaul_types::{Deadline, Time};

/// What an adaptive rule leaves of the window, in percent, where a clear path lost something in slow start (PRB §4.1).
const IN_SLOW_START: u64 = 75;
/// How many of the last acknowledged bytes take turns in probes: a probe is named by the remainder of its byte's offset.
const OCTETS: u32 = 64;
/// How many of the last probes are remembered, so that a late answer still counts.
const REMEMBERED: usize = OCTETS as usize;
/// Toward peers whose answers all look alike, a probe is taken for lost after this share of the best round trip,
/// in percent: then few answers can be taken for that of a later probe. Also, Linux answers one empty segment
/// in 500 ms only (`tcp_invalid_ratelimit`).
const PLAIN_INTERVAL: u32 = 300;
/// An answer cannot be younger than this share of the best round trip, in percent. Probes are small, so
/// their round trip may be somewhat shorter than any that data has measured.
const YOUNGEST_ANSWER: u32 = 75;
/// After duplicate ACKs, a peer that answers none of this many probes by D-SACK is not waited for any longer.
const UNANSWERED_LIMIT: u32 = 8;

/// What becomes of a loss, by the two round trips that were measured. A round trip is good if it is close
/// to the best one ([`ProbingConfig::tolerance`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProbingRule {
    /// Both good: the window stays. Otherwise it starts from one segment (PRB §2.1, Figure 1).
    Tahoe,
    /// Both good: the window stays. Otherwise fast recovery after duplicates, and one segment after a
    /// timeout (PRB §2.1, Figure 1).
    Reno,
    /// Both good: the window stays, or stops at three quarters if it was in slow start. Only the second
    /// good: fast recovery. Otherwise one segment (PRB §4.1, Figure 8).
    Adaptive,
    /// As [`ProbingRule::Reno`], but by the throughput of probes in the forward direction (PRB §2, footnote 4: "a subject of ongoing
    /// investigation"; this rule is ours): the window stays if they arrived about as fast as they were sent. What happens to the answers
    /// on their way back does not count.
    Forward,
    /// As [`ProbingRule::Adaptive`], but duplicates begin a cycle only now and then; in between, they are
    /// answered by fast recovery (PRB §4.2, Figure 11).
    Selective {
        /// A cycle begins if round trips were estimated more often than this since the last one.
        round_trips: u32,
        /// A cycle begins if the last one is longer ago than this.
        interval: Duration,
    },
}

/// When a probe is taken for lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbeTimer {
    /// In percent of the best round trip: while nothing else leaves, there is no queue of our own.
    pub round_trip_percent: u32,
    /// The least time.
    pub at_least: Duration,
}

/// How a discriminator probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbingConfig {
    /// What the answers mean.
    pub rule: ProbingRule,
    /// By how much, in percent, a good round trip may exceed the best one; or the time between probes that arrive that between probes
    /// that are sent.
    pub tolerance: u32,
    /// When an unanswered PROBE1 is repeated.
    pub timer: ProbeTimer,
    /// How long a cycle lasts at most. Then the loss is answered as without probes, and no other cycle
    /// begins before a round trip was measured with data.
    pub limit: Duration,
}

impl ProbingConfig {
    /// Between two ends that both know the probing option. A round trip is good if it is "close to the best"
    /// in the simple rules, which a quarter more still is, and no worse than the best in the adaptive ones.
    /// PROBE1 is repeated after two round trips, and cycles are given up after two minutes.
    pub const fn new(rule: ProbingRule) -> Self {
        let tolerance = match rule {
            ProbingRule::Tahoe | ProbingRule::Reno | ProbingRule::Forward => 25,
            ProbingRule::Adaptive | ProbingRule::Selective { .. } => 0,
        };
        let timer = ProbeTimer { round_trip_percent: 200, at_least: Duration::from_millis(100) };
        ProbingConfig { rule, tolerance, timer, limit: Duration::from_secs(120) }
    }

    /// Toward peers that know nothing of probes: PROBE1 is repeated twice in the best round trip, forty times a second
    /// at most, so that a link that returns is noticed at once.
    pub const ONE_SIDED: ProbingConfig = ProbingConfig {
        timer: ProbeTimer { round_trip_percent: 50, at_least: Duration::from_millis(25) },
        ..ProbingConfig::new(ProbingRule::Reno)
    };
}

/// Whom a discriminator probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbedPeer {
    /// It agreed to answer the probing option.
    Willing,
    /// It knows nothing of probes, and sends D-SACK (RFC 2883), so that its answers can be told apart.
    SendsDSack,
    /// It knows nothing of probes and sends no D-SACK: an answer cannot be told from an acknowledgment of
    /// data, so only RTOs, when no acknowledgment is under way, begin a cycle.
    Plain,
}

impl ProbedPeer {
    /// By what the SYNs agreed on: whether it answers the probing option, and whether it sends selective
    /// acknowledgments, and D-SACK with them.
    pub(crate) const fn of(willing: bool, sack: bool) -> Self {
        match (willing, sack) {
            (true, _) => ProbedPeer::Willing,
            (false, true) => ProbedPeer::SendsDSack,
            (false, false) => ProbedPeer::Plain,
        }
    }
}

/// A discriminator that probes before it says what a loss means.
#[derive(Debug)]
pub struct Probing {
    config: ProbingConfig,
    peer: ProbedPeer,
    best: Option<Duration>,
    smoothed: Option<Duration>,
    /// Estimates of the round trip since the last cycle, one a round trip.
    estimates: u32,
    estimate_until: Time,
    last_cycle: Time,
    next_number: u32,
    /// Boxed, as most of the time there is none.
    cycle: Option<Box<Cycle>>,
    /// A cycle reached the limit, and nothing was measured since.
    exhausted: bool,
    /// The peer has answered by D-SACK.
    has_dsacked: bool,
    /// The last acknowledged bytes, for a peer that is probed with them.
    acked: Option<Box<AckedBytes>>,
}

/// The last acknowledged bytes, by the remainder of their offsets.
#[derive(Debug)]
struct AckedBytes {
    bytes: [u8; OCTETS as usize],
    /// SND.UNA.
    end: u64,
}

impl AckedBytes {
    fn on_ack(&mut self, ack: &Acknowledged<'_>) {
        let Acknowledged { acked, queue, .. } = ack;
        let first = acked.end.saturating_sub(u64::from(OCTETS)).max(acked.start);
        let mut recent = [0; OCTETS as usize];
        let list = queue.gather(first, (acked.end - first) as usize);
        list.copy_to(&mut recent);
        for (offset, byte) in (first..).zip(&recent[..list.len()]) {
            self.bytes[(offset % u64::from(OCTETS)) as usize] = *byte;
        }
        self.end = acked.end;
    }

    /// The last offset below SND.UNA that the number names.
    fn named(&self, number: u32) -> Octet {
        let turns = u64::from(OCTETS);
        let back = (self.end - 1 + turns - u64::from(number) % turns) % turns;
        let offset = (self.end - 1).saturating_sub(back);
        Octet { offset, byte: self.bytes[(offset % turns) as usize] }
    }
}

#[derive(Debug)]
struct Cycle {
    sign: LossSign,
    in_slow_start: bool,
    began: Time,
    stage: ProbeStage,
    first_is_good: bool,
    /// When the first one that was answered was sent, and when it arrived, if its answer says that.
    first: Option<(Time, u32)>,
    /// Probes of this stage, the last ones.
    sent: ArrayVec<(u32, Time), REMEMBERED>,
    unanswered: u32,
    /// An acknowledgment has come without D-SACK.
    acknowledged: bool,
    /// When the next probe is due; at once if `None`.
    next_at: Option<Time>,
    /// How long PROBE2 is waited for at least: what PROBE1 took may be far more than usual.
    second_wait: Duration,
}

impl Probing {
    /// A discriminator for a connection that begins now, to such a peer.
    pub fn new(now: Time, config: ProbingConfig, peer: ProbedPeer) -> Self {
        Probing {
            config,
            peer,
            best: None,
            smoothed: None,
            estimates: 0,
            estimate_until: now,
            last_cycle: now,
            next_number: 0,
            cycle: None,
            exhausted: false,
            has_dsacked: false,
            acked: (peer == ProbedPeer::SendsDSack)
                .then(|| Box::new(AckedBytes { bytes: [0; OCTETS as usize], end: 1 })),
        }
    }

    /// Whether this loss begins a cycle.
    fn probes(&self, now: Time, sign: LossSign) -> bool {
        if self.exhausted {
            return false;
        }
        match (sign, self.config.rule) {
            (LossSign::Timeout, _) => true,
            (LossSign::Acknowledgments, _) if self.peer == ProbedPeer::Plain => false,
            (LossSign::Acknowledgments, ProbingRule::Selective { round_trips, interval }) => {
                self.estimates > round_trips || now.saturating_since(self.last_cycle) > interval
            }
            (LossSign::Acknowledgments, _) => true,
        }
    }

    /// The answer to a loss of which probes say nothing, or nothing good.
    fn congested(&self, sign: LossSign) -> LossResponse {
        match (self.config.rule, sign) {
            (ProbingRule::Tahoe, _) | (_, LossSign::Timeout) => LossResponse::Severe,
            _ => LossResponse::Mild,
        }
    }

    fn decide(&self, cycle: &Cycle, second_is_good: bool) -> LossResponse {
        let adaptive = matches!(self.config.rule, ProbingRule::Adaptive | ProbingRule::Selective { .. });
        match (cycle.first_is_good, second_is_good) {
            (true, true) if adaptive && cycle.in_slow_start => {
                LossResponse::Decrease { percent: IN_SLOW_START }
            }
            (true, true) => LossResponse::Transient,
            (false, true) if adaptive => LossResponse::Mild,
            // The paper leaves open what a good first and a bad second mean: it is getting worse.
            _ if adaptive => LossResponse::Severe,
            _ => self.congested(cycle.sign),
        }
    }

    fn is_good(&self, rtt: Duration) -> bool {
        self.best.is_some_and(|best| rtt <= best + best * self.config.tolerance / 100)
    }

    /// Whether a probe went well: by its round trip, or by how far apart it and the first one arrived, beside how far apart they were sent.
    fn went_well(&self, cycle: &Cycle, sent: Time, rtt: Duration, arrived: Option<u32>) -> bool {
        if self.config.rule != ProbingRule::Forward {
            return self.is_good(rtt);
        }
        match (cycle.first, arrived) {
            (Some((first_sent, first_arrived)), Some(arrived)) => {
                let apart = Duration::from_micros(u64::from(arrived.wrapping_sub(first_arrived)));
                let sent_apart = sent.saturating_since(first_sent);
                apart <= sent_apart + sent_apart * self.config.tolerance / 100
            }
            // There is nothing yet to compare it with.
            (None, Some(_)) => true,
            // Of a peer that does not agree to the option, round trips are all that there is.
            (_, None) => self.is_good(rtt),
        }
    }

    fn interval(&self) -> Duration {
        let ProbeTimer { mut round_trip_percent, at_least } = self.config.timer;
        if self.peer == ProbedPeer::Plain {
            round_trip_percent = round_trip_percent.max(PLAIN_INTERVAL);
        }
        self.best.map_or(at_least, |rtt| (rtt * round_trip_percent / 100).max(at_least))
    }

    /// What a probe looks like. Only those that name themselves can be told from each other.
    fn form(&self, number: u32) -> ProbeForm {
        match (self.peer, &self.acked) {
            (ProbedPeer::Willing, _) if self.config.rule == ProbingRule::Forward => ProbeForm::Timed,
            (ProbedPeer::Willing, _) => ProbeForm::Numbered,
            (ProbedPeer::SendsDSack, Some(acked)) => ProbeForm::Octet(acked.named(number)),
            (ProbedPeer::SendsDSack, None) | (ProbedPeer::Plain, _) => ProbeForm::Empty,
        }
    }

    /// How long ago the probe was sent that this answers, if it answers one.
    fn round_trip(&self, now: Time, cycle: &Cycle, answer: ProbeAnswer) -> Option<Duration> {
        let mut ages = cycle.sent.iter().rev().map(|(number, at)| (*number, now.saturating_since(*at)));
        let found = match (self.peer, answer.name) {
            (ProbedPeer::Willing, Some(ProbeName::Number(asked))) => {
                ages.find(|(number, _)| *number == asked)
            }
            (ProbedPeer::SendsDSack, Some(ProbeName::Octet(offset))) => {
                ages.find(|(number, _)| u64::from(number % OCTETS) == offset % u64::from(OCTETS))
            }
            (ProbedPeer::Plain, _) => {
                let youngest = self.best.map_or(Duration::ZERO, |best| best * YOUNGEST_ANSWER / 100);
                ages.find(|(_, age)| *age >= youngest)
            }
            _ => None,
        };
        found.map(|(_, age)| age)
    }
}

impl Discriminator for Probing {
    fn respond(&mut self, now: Time, evidence: &LossEvidence) -> LossResponse {
        if self.best.is_none() {
            self.best = evidence.min_rtt; // of the handshake: no data was acknowledged yet
            self.smoothed = evidence.srtt;
        }
        if !self.probes(now, evidence.sign) {
            return self.congested(evidence.sign);
        }
        self.estimates = 0;
        self.last_cycle = now;
        self.cycle = Some(Box::new(Cycle {
            sign: evidence.sign,
            in_slow_start: evidence.in_slow_start,
            began: now,
            stage: ProbeStage::First,
            first_is_good: false,
            first: None,
            sent: ArrayVec::new(),
            unanswered: 0,
            acknowledged: false,
            next_at: None,
            second_wait: Duration::ZERO,
        }));
        LossResponse::Waiting
    }

    fn on_ack(&mut self, ack: &Acknowledged<'_>) {
        if let Some(kept) = self.acked.as_mut().filter(|_| !ack.acked.is_empty()) {
            kept.on_ack(ack);
        }
        let (now, Some(rtt)) = (ack.now, ack.rtt) else { return };
        self.exhausted = false;
        self.best = Some(self.best.map_or(rtt, |best| best.min(rtt)));
        self.smoothed = Some(self.smoothed.map_or(rtt, |smoothed| (smoothed * 7 + rtt) / 8));
        if now >= self.estimate_until {
            self.estimates = self.estimates.saturating_add(1);
            self.estimate_until = now + rtt;
        }
    }

    fn poll_probe(&mut self, now: Time) -> Option<Probe> {
        let interval = self.interval();
        let number = self.next_number;
        let form = self.form(number);
        let one_sided = self.peer != ProbedPeer::Willing;
        let cycle = self.cycle.as_mut()?;
        if cycle.next_at.is_some_and(|at| at > now) {
            return None;
        }
        if cycle.stage == ProbeStage::Second && !cycle.sent.is_empty() {
            // It or its answer was lost: the fault lasts, and so does the cycle.
            cycle.stage = ProbeStage::First;
            cycle.first = None;
            cycle.sent.clear();
        }
        if cycle.sent.is_full() {
            cycle.sent.remove(0);
        }
        self.next_number = number.wrapping_add(1);
        cycle.sent.push((number, now));
        cycle.unanswered += 1;
        let wait = match cycle.stage {
            ProbeStage::First => interval,
            ProbeStage::Second => cycle.second_wait.max(interval),
        };
        cycle.next_at = Some(now + wait);
        let brings_head = one_sided && cycle.stage == ProbeStage::Second;
        Some(Probe { number, stage: cycle.stage, form, brings_head })
    }

    fn on_probe_answer(&mut self, now: Time, answer: ProbeAnswer) -> LossResponse {
        let Some(mut cycle) = self.cycle.take() else { return LossResponse::Mild };
        self.has_dsacked |= answer.name.is_some();
        let Some(rtt) = self.round_trip(now, &cycle, answer) else {
            cycle.acknowledged |= answer.name.is_none();
            self.cycle = Some(cycle);
            return LossResponse::Waiting;
        };
        let sent = now - rtt;
        let good = self.went_well(&cycle, sent, rtt, answer.arrived);
        if cycle.stage == ProbeStage::Second {
            return self.decide(&cycle, good);
        }
        cycle.first_is_good = good;
        cycle.first = answer.arrived.map(|arrived| (sent, arrived));
        cycle.stage = ProbeStage::Second;
        cycle.sent.clear();
        cycle.unanswered = 0;
        cycle.next_at = None;
        cycle.second_wait = rtt.max(self.smoothed.unwrap_or(rtt)) * 2;
        self.cycle = Some(cycle);
        LossResponse::Waiting
    }

    fn on_timeout(&mut self, now: Time) -> LossResponse {
        let Some(cycle) = &self.cycle else { return LossResponse::Mild };
        let sign = cycle.sign;
        let silent = self.peer == ProbedPeer::SendsDSack
            && (sign == LossSign::Acknowledgments || (!self.has_dsacked && cycle.acknowledged))
            && cycle.unanswered >= UNANSWERED_LIMIT
            && cycle.next_at.is_some_and(|at| at <= now);
        if silent && !self.has_dsacked {
            self.peer = ProbedPeer::Plain;
        }
        let over = now >= cycle.began + self.config.limit;
        self.exhausted |= over;
        if silent || over {
            self.cycle = None;
            self.congested(sign)
        } else {
            LossResponse::Waiting
        }
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let cycle = self.cycle.as_ref()?;
        let at = (cycle.began + self.config.limit).min(cycle.next_at?);
        Some(Deadline { at, timer: "probe" })
    }
}
