//! BBR, version 1: the sending rate follows the measured bandwidth of the path, and the window only
//! bounds what is in flight. Loss is not an answer to anything.
//!
//! ```text
//! BtlBw        = max(delivery rate, last 10 rounds)                                      §4.1.1
//! RTprop       = min(round-trip time, last 10 s)                                         §4.1.2
//! pacing rate  = pacing_gain · BtlBw · 0.99                                              §4.2.1
//! Inflight(g)  = g · BtlBw · RTprop + 3 · send_quantum                                 §4.2.3.2
//! cwnd        → Inflight(cwnd_gain), 4 segments at least                               §4.2.3.6
//!
//! Startup      gains 2/ln 2, until three rounds bring less than a quarter more           §4.3.2
//! Drain        gains (ln 2)/2 and 2/ln 2, until Inflight(1) is in flight                 §4.3.3
//! ProbeBW      pacing gains 5/4, 3/4, 1, 1, 1, 1, 1, 1, each for RTprop; cwnd gain 2     §4.3.4
//! ProbeRTT     after 10 s without a new minimum: 4 segments for 200 ms and a round       §4.3.5
//! ```
//! Sections are those of draft-cardwell-iccrg-bbr-congestion-control-00; the paper is N. Cardwell
//! et al., "BBR: congestion-based congestion control", ACM Queue 14(5), 2016.
//!
//! As in Linux's `tcp_bbr`, and unlike that draft: the pacing rate stays 1 % below the gain, and the
//! window is enlarged by what aggregated ACKs need (at most 100 ms of the bandwidth). Not
//! taken over from there is the detection of policers (`lt_bw`), which the draft does not have.
//! What acknowledgments are known to have waited on their way ([`AckSample::waited`]) is no part of RTprop, and the window has
//! room for it: a queue of the other direction would leave the flow a part of its rate otherwise.
//! Before the first round-trip time there is no pacing rate: the initial window leaves at once.
use alloc::vec::Vec;
use core::time::Duration;

use shorthaul_types::{BitRate, Time};

use crate::ack_aggregation::{AckAggregation, Expectation};
use crate::arrival_delay::mean_toward;
use crate::draws::Draws;
use crate::full_pipe::FullPipe;
use crate::recent_max::RecentMax;
use crate::rounds::Rounds;
use crate::snapshot::{Keep, Numbers, keeps, number_of, restored, snapshot};
use crate::volume::{self, Gain};
use crate::window::MAX_WINDOW;
use crate::{AckSample, CongestionEvent, Control, ControlParams, KnownPath};

/// 2/ln 2: the least gain at which the rate doubles each round (§4.3.2).
const HIGH_GAIN: Gain = Gain(2885);
/// Empties in one round the queue that [`HIGH_GAIN`] made (§4.3.3).
const DRAIN_GAIN: Gain = Gain(347);
/// Room for delayed and stretched ACKs (§4.2.3.2).
const CWND_GAIN: Gain = Gain(2000);
/// The same where it is known how long acknowledgments have waited: the window has room for that, and needs no other but for
/// the probes of [`CYCLE`].
const CWND_GAIN_KNOWN: Gain = Gain(1250);
/// And that between two probes.
const CWND_GAIN_CRUISING: Gain = Gain(1100);
/// A queue of this length nobody notices.
const UNNOTICED: Duration = Duration::from_millis(2);
/// Over paths with shorter round trips what is under way is less than one burst of a pacer, which holds what a millisecond earns. Where that is more than
/// a super-segment, too, nothing is spread, and who waits for credit has a receiver sleep that could have been served.
const LEAST_SPREAD: Duration = Duration::from_millis(1);
/// What leaves in one piece at most: a super-segment.
const MOST_AT_ONCE: u64 = 64 * 1024;
/// A round trip longer than this many thousandths of the shortest has waited in a queue of this sender's.
const QUEUED: u64 = 1250;
/// After this many rounds in which a queue of this sender's stands ([`QUEUED`]), the pipe is full.
const QUEUED_ROUNDS: u32 = 3;
/// The cycle of ProbeBW (§4.3.4.3).
const CYCLE: [Gain; 8] =
    [Gain(1250), Gain(750), Gain::ONE, Gain::ONE, Gain::ONE, Gain::ONE, Gain::ONE, Gain::ONE];
/// Pacing stays this far below the gain, so that queues shrink rather than grow (Linux).
const PACING_MARGIN: Gain = Gain(990);
/// Smallest window that keeps a receiver that acknowledges every other segment busy (§4.2.3.3).
const MIN_PIPE_SEGMENTS: u64 = 4;
/// RTpropFilterLen (§4.1.2.3).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// ProbeRTTDuration (§4.3.5).
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// No more than this of the bandwidth is added for aggregated ACKs (Linux).
const LONGEST_AGGREGATION: Duration = Duration::from_millis(100);

/// Of [`Control::snapshot`]: another one with each change of what is handed over.
const VERSION: u64 = 1;

/// BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00).
#[derive(Clone, Debug)]
pub struct Bbr {
    mss: u64,
    initial_window: u64,
    window: u64,
    /// The window before recovery or ProbeRTT narrowed it.
    prior_window: u64,
    pacing_rate: Option<u64>,
    mode: Mode,
    recovery: PacketConservation,
    rounds: Rounds,
    bandwidth: RecentMax<u64, 10>,
    full_pipe: FullPipe,
    aggregation: AckAggregation,
    min_rtt: Option<Duration>,
    min_rtt_at: Time,
    /// What acknowledgments wait on their way, in queues that are not this sender's.
    beside: Duration,
    cwnd_gain: Gain,
    /// The shortest round trip of this round, without what its acknowledgment has waited.
    round_least: Option<Duration>,
    /// Rounds in a row whose shortest round trip was long.
    queued_rounds: u32,
    acked_at: Time,
    /// Nothing was in flight, and no ACK has come since.
    idle_restart: bool,
    /// Bytes lost since the last ACK.
    lost: u64,
    /// The last congestion event or RTO can still turn out spurious.
    undoable: bool,
    draws: Draws,
}

keeps!(Bbr {
    window,
    prior_window,
    pacing_rate,
    mode,
    recovery,
    rounds,
    bandwidth,
    full_pipe,
    aggregation,
    min_rtt,
    min_rtt_at,
    beside,
    cwnd_gain,
    round_least,
    queued_rounds,
    acked_at,
    idle_restart,
    lost,
    undoable,
});

/// The states of §4.3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw { phase: usize, since: Time },
    ProbeRtt(ProbeRtt),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ProbeRtt {
    /// Set when the flight is small enough.
    done_at: Option<Time>,
    round_done: bool,
}

keeps!(ProbeRtt { done_at, round_done });

impl Keep for Mode {
    fn put(&self, to: &mut Vec<u64>) {
        match self {
            Mode::Startup => to.push(0),
            Mode::Drain => to.push(1),
            Mode::ProbeBw { phase, since } => {
                to.push(2);
                phase.put(to);
                since.put(to);
            }
            Mode::ProbeRtt(probe) => {
                to.push(3);
                probe.put(to);
            }
        }
    }

    fn take(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        *self = match from.next()? {
            0 => Mode::Startup,
            1 => Mode::Drain,
            2 => {
                let (mut phase, mut since) = (0, Time::ZERO);
                phase.take(from)?;
                since.take(from)?;
                Mode::ProbeBw { phase: Some(phase).filter(|phase| *phase < CYCLE.len())?, since }
            }
            3 => {
                let mut probe = ProbeRtt::default();
                probe.take(from)?;
                Mode::ProbeRtt(probe)
            }
            _ => return None,
        };
        Some(())
    }
}

/// How losses narrow the window for a while (§4.2.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacketConservation {
    None,
    /// Fast recovery was entered since the last ACK.
    Entering,
    /// Its first round: as much leaves as is delivered.
    Conserving,
    /// Further rounds: at most twice as much.
    Growing,
    TimedOut,
}

number_of!(PacketConservation { None, Entering, Conserving, Growing, TimedOut });

impl Bbr {
    /// Starts in Startup from the initial window.
    pub fn new(params: ControlParams) -> Self {
        let mss = u64::from(params.mss.max(1));
        let initial_window = params.initial_window.clamp(mss, MAX_WINDOW.max(mss));
        Bbr {
            mss,
            initial_window,
            window: initial_window,
            prior_window: 0,
            pacing_rate: None,
            mode: Mode::Startup,
            recovery: PacketConservation::None,
            rounds: Rounds::default(),
            bandwidth: RecentMax::new(),
            full_pipe: FullPipe::default(),
            aggregation: AckAggregation::new(params.now),
            min_rtt: None,
            min_rtt_at: params.now,
            beside: Duration::ZERO,
            cwnd_gain: CWND_GAIN,
            round_least: None,
            queued_rounds: 0,
            acked_at: params.now,
            idle_restart: false,
            lost: 0,
            undoable: false,
            draws: Draws::new(params.seed.derive("bbr")),
        }
    }

    /// BtlBw, the bandwidth of the bottleneck; zero before the first sample.
    pub fn bandwidth(&self) -> BitRate {
        BitRate::from_bits_per_sec(self.bandwidth.get())
    }

    /// RTprop, the round-trip time without queues; `None` before the first sample.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }

    fn gains(&self) -> (Gain, Gain) {
        match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            // Where nothing has to be kept for acknowledgments that wait, more than this only stands in the queue, but for a probe.
            Mode::ProbeBw { phase: phase @ 1.., .. } if self.knows_waiting() => {
                (CYCLE[phase], CWND_GAIN_CRUISING)
            }
            Mode::ProbeBw { phase, .. } => (CYCLE[phase], self.cwnd_gain),
            Mode::ProbeRtt(_) => (Gain::ONE, Gain::ONE),
        }
    }

    /// Inflight(`gain`) (§4.2.3.2).
    fn inflight(&self, gain: Gain) -> u64 {
        let Some(rtt) = self.min_rtt else { return self.initial_window };
        let beside = volume::in_time(self.bandwidth.get(), self.beside);
        let own = gain.of(volume::in_time(self.bandwidth.get(), rtt));
        // Where a path is known this well, what leaves in pieces has less room, which nobody notices; but for short paths, where pieces are
        // most of what is under way.
        let room = match self.knows_waiting() && (rtt >= 5 * UNNOTICED || self.send_quantum() <= 2 * self.mss)
        {
            true => (3 * self.mss).max(volume::in_time(self.bandwidth.get(), UNNOTICED)),
            false => 3 * self.send_quantum(),
        };
        own.saturating_add(beside).saturating_add(room)
    }

    /// Whether it is known how long acknowledgments have waited.
    fn knows_waiting(&self) -> bool {
        self.cwnd_gain == CWND_GAIN_KNOWN
    }

    /// What leaves in one piece: a millisecond's worth (§4.2.2).
    fn send_quantum(&self) -> u64 {
        match self.pacing_rate.unwrap_or(0) {
            0..1_200_000 => self.mss,
            1_200_000..24_000_000 => 2 * self.mss,
            rate => volume::in_time(rate, Duration::from_millis(1)).min(MOST_AT_ONCE),
        }
    }

    fn update_bandwidth(&mut self, ack: &AckSample) {
        self.rounds.on_ack(ack.rate.as_ref());
        let Some(sample) = &ack.rate else { return };
        let rate = sample.rate.bits_per_sec();
        self.bandwidth.advance(self.rounds.count());
        // What the application limited tells a lower bound only (§4.1.1.4).
        if !sample.app_limited || rate >= self.bandwidth.get() {
            self.bandwidth.update(self.rounds.count(), rate);
        }
    }

    /// §4.3.2.2 and §4.3.3.
    fn check_full_pipe(&mut self, ack: &AckSample) {
        if self.rounds.started() && ack.rate.is_some_and(|sample| !sample.app_limited) {
            self.full_pipe.on_round(self.bandwidth.get());
        }
        if self.mode == Mode::Startup && self.keeps_a_queue(ack) {
            self.full_pipe.fill();
        }
        if self.mode == Mode::Startup && self.full_pipe.is_full() {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && ack.in_flight <= self.inflight(Gain::ONE) {
            self.enter_probe_bw(ack.now);
        }
    }

    /// Whether round trips show a queue of this sender's own, round for round. Who passes on what arrives as fast as the path
    /// carries it is limited by that all the time: its rates would never say that the pipe is full, and a queue that is there
    /// would stay. It can be told only where it is known how long acknowledgments have waited.
    fn keeps_a_queue(&mut self, ack: &AckSample) -> bool {
        let Some((waited, min_rtt)) = ack.waited.zip(self.min_rtt) else { return false };
        if let Some(rtt) = ack.rtt.map(|rtt| rtt.saturating_sub(waited)) {
            self.round_least = Some(self.round_least.map_or(rtt, |least| least.min(rtt)));
        }
        if self.rounds.started()
            && let Some(least) = self.round_least.take()
        {
            let queued = volume::share(1000, least.as_nanos() as u64, min_rtt.as_nanos() as u64) > QUEUED;
            self.queued_rounds = if queued { self.queued_rounds + 1 } else { 0 };
        }
        self.queued_rounds >= QUEUED_ROUNDS
    }

    /// Begins anywhere in the cycle but with the drain of a probe that was not made (§4.3.4.3).
    fn enter_probe_bw(&mut self, now: Time) {
        let phase = (2 + self.draws.below(7) as usize) % CYCLE.len();
        self.mode = Mode::ProbeBw { phase, since: now };
    }

    /// §4.3.4.3.
    fn advance_cycle(&mut self, ack: &AckSample, lost: u64) {
        let Mode::ProbeBw { phase, since } = self.mode else { return };
        let gain = CYCLE[phase];
        let round_trip = self.min_rtt.unwrap_or_default() + self.beside;
        let full_length = ack.now.saturating_since(since) > round_trip;
        let done = if gain > Gain::ONE {
            // Long enough to have put the gain into flight, unless the buffer has no room for it.
            full_length && (lost > 0 || ack.in_flight_before >= self.inflight(gain))
        } else if gain < Gain::ONE {
            full_length || ack.in_flight_before <= self.inflight(Gain::ONE)
        } else {
            full_length
        };
        if done {
            self.mode = Mode::ProbeBw { phase: (phase + 1) % CYCLE.len(), since: ack.now };
        }
    }

    /// §4.1.2.3 and §4.3.5.
    fn update_min_rtt(&mut self, ack: &AckSample) {
        let expired = ack.now.saturating_since(self.min_rtt_at) > MIN_RTT_WINDOW;
        let passed = ack.now.saturating_since(core::mem::replace(&mut self.acked_at, ack.now));
        if let Some(waited) = ack.waited {
            self.beside = mean_toward(self.beside, waited, passed, self.min_rtt.unwrap_or_default());
            self.cwnd_gain = CWND_GAIN_KNOWN;
        }
        if let Some(rtt) = ack.rtt.map(|rtt| rtt.saturating_sub(ack.waited.unwrap_or_default()))
            && (expired || self.min_rtt.is_none_or(|min| rtt <= min))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = ack.now;
        }
        if expired && !self.idle_restart && !matches!(self.mode, Mode::ProbeRtt(_)) {
            self.save_window();
            self.mode = Mode::ProbeRtt(ProbeRtt::default());
        }
        if let Mode::ProbeRtt(mut probe) = self.mode {
            if probe.done_at.is_some() {
                probe.round_done |= self.rounds.started();
            } else if ack.in_flight <= MIN_PIPE_SEGMENTS * self.mss {
                probe.done_at = Some(ack.now + PROBE_RTT_DURATION);
                self.rounds.restart();
            }
            self.mode = Mode::ProbeRtt(probe);
            self.leave_probe_rtt(ack.now);
        }
        self.idle_restart = false;
    }

    fn leave_probe_rtt(&mut self, now: Time) {
        let Mode::ProbeRtt(ProbeRtt { done_at: Some(done_at), round_done: true }) = self.mode else { return };
        if now <= done_at {
            return;
        }
        self.min_rtt_at = now;
        self.restore_window();
        if self.full_pipe.is_full() {
            self.enter_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    /// §4.2.1: before the pipe is full, the rate only rises.
    fn set_pacing_rate(&mut self, gain: Gain) {
        let Some(rtt) = self.min_rtt else { return };
        let first = HIGH_GAIN.of(volume::rate(self.initial_window, rtt));
        let rate = PACING_MARGIN.of(gain.of(self.bandwidth.get()));
        let rises = self.pacing_rate.is_none_or(|present| rate > present);
        if self.pacing_rate.is_none() {
            self.pacing_rate = Some(first.max(rate));
        } else if rises || (self.full_pipe.is_full() && self.bandwidth.get() > 0) {
            self.pacing_rate = Some(rate);
        }
    }

    /// §4.2.3.4 to §4.2.3.6.
    fn set_window(&mut self, ack: &AckSample, lost: u64) {
        if matches!(self.recovery, PacketConservation::Conserving | PacketConservation::Growing) {
            if self.recovery == PacketConservation::Conserving && self.rounds.started() {
                self.recovery = PacketConservation::Growing;
            }
            self.window = self.window.saturating_sub(lost).max(self.mss);
        }
        if self.recovery == PacketConservation::Entering {
            self.recovery = PacketConservation::Conserving;
            self.rounds.restart();
            self.window = ack.in_flight.saturating_add(ack.delivered.max(self.mss));
        }
        if self.recovery == PacketConservation::Conserving {
            self.window = self.window.max(ack.in_flight.saturating_add(ack.delivered));
        } else {
            let grown = self.window.saturating_add(ack.delivered);
            let target = self.target();
            if self.full_pipe.is_full() {
                self.window = grown.min(target);
            } else if self.window < target || self.rounds.delivered() < self.initial_window {
                self.window = grown;
            }
            self.window = self.window.max(MIN_PIPE_SEGMENTS * self.mss);
        }
        if matches!(self.mode, Mode::ProbeRtt(_)) {
            self.window = self.window.min(MIN_PIPE_SEGMENTS * self.mss);
        }
        self.window = self.window.min(MAX_WINDOW).max(self.mss);
    }

    fn target(&self) -> u64 {
        let (_, gain) = self.gains();
        let mut target = self.inflight(gain);
        if self.full_pipe.is_full() {
            let most = volume::in_time(self.bandwidth.get(), LONGEST_AGGREGATION);
            let extra = self.aggregation.extra().min(most);
            // Acknowledgments that have waited come together: half of what both say is the same.
            let beside = volume::in_time(self.bandwidth.get(), self.beside);
            target = target.saturating_add(extra - extra.min(beside) / 2);
            if matches!(self.mode, Mode::ProbeBw { phase: 0, .. }) {
                target = target.saturating_add(2 * self.mss); // so that a small flight grows at all (Linux)
            }
        }
        target
    }

    fn save_window(&mut self) {
        let narrowed = self.recovery != PacketConservation::None || matches!(self.mode, Mode::ProbeRtt(_));
        self.prior_window = if narrowed { self.prior_window.max(self.window) } else { self.window };
    }

    fn restore_window(&mut self) {
        self.window = self.window.max(self.prior_window.min(MAX_WINDOW));
    }
}

impl Control for Bbr {
    fn on_ack(&mut self, ack: &AckSample) {
        let lost = core::mem::take(&mut self.lost);
        self.update_bandwidth(ack);
        let path =
            Expectation { bandwidth: self.bandwidth.get(), window: self.window, round: self.rounds.count() };
        self.aggregation.on_ack(ack.now, ack.delivered, path);
        if self.knows_waiting() && self.rounds.started() {
            // A burst lasts no longer than a round trip. Over more of them a bandwidth that is a little less than the path's would look like one
            // that never ends.
            self.aggregation.restart(ack.now);
        }
        self.advance_cycle(ack, lost);
        self.check_full_pipe(ack);
        self.update_min_rtt(ack);
        let (pacing_gain, _) = self.gains();
        self.set_pacing_rate(pacing_gain);
        self.set_window(ack, lost);
    }

    fn on_loss(&mut self, loss: &crate::LossSample) {
        self.lost = self.lost.saturating_add(loss.bytes);
    }

    /// Marks are no sign of anything to version 1 (as in Linux).
    fn on_congestion(&mut self, _now: Time, event: CongestionEvent, _flight_size: u64) {
        if event == CongestionEvent::Loss {
            self.save_window();
            self.recovery = PacketConservation::Entering;
            self.undoable = true;
        }
    }

    fn on_timeout(&mut self, _now: Time, _flight_size: u64) {
        self.save_window();
        self.recovery = PacketConservation::TimedOut;
        self.undoable = true;
        self.window = self.mss;
    }

    fn on_recovered(&mut self, _now: Time) {
        if self.recovery != PacketConservation::None {
            self.recovery = PacketConservation::None;
            self.restore_window();
        }
    }

    fn on_spurious(&mut self, _now: Time) {
        if core::mem::take(&mut self.undoable) {
            self.recovery = PacketConservation::None;
            self.restore_window();
            if !self.full_pipe.is_full() {
                self.full_pipe = FullPipe::default();
            }
        }
    }

    /// The window stays: pacing at the bandwidth sets off no burst (§4.3.4.4).
    fn on_idle_restart(&mut self, _now: Time) {
        self.undoable = false;
    }

    fn on_transmit_start(&mut self, now: Time) {
        self.idle_restart = true;
        self.aggregation.restart(now);
        match self.mode {
            Mode::ProbeBw { .. } => self.set_pacing_rate(Gain::ONE),
            Mode::ProbeRtt(_) => self.leave_probe_rtt(now),
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn snapshot(&self) -> Vec<u64> {
        snapshot(VERSION, self)
    }

    fn restore(&mut self, numbers: &[u64]) -> bool {
        let Some(next) = restored(VERSION, self, numbers) else { return false };
        *self = Bbr { window: next.window.min(MAX_WINDOW).max(self.mss), ..next };
        true
    }

    /// What was found out is the model; it is probed from there. Many connections in Startup at once would fill every queue.
    fn take_over(&mut self, now: Time, known: &KnownPath) {
        let (Some(rate), Some(min_rtt)) = (known.rate, known.min_rtt) else { return };
        self.bandwidth.update(self.rounds.count(), rate.bits_per_sec());
        (self.min_rtt, self.min_rtt_at) = (Some(min_rtt), now);
        self.full_pipe.fill();
        self.window = known.window.max(self.mss * MIN_PIPE_SEGMENTS);
        self.enter_probe_bw(now);
        self.pacing_rate = Some(rate.bits_per_sec());
    }

    fn set_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss.max(1));
        self.window = self.window.min(MAX_WINDOW).max(self.mss);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn ssthresh(&self) -> u64 {
        u64::MAX
    }

    fn in_slow_start(&self) -> bool {
        self.mode == Mode::Startup
    }

    /// A segment a second at least: at a rate of zero nothing would be measured any more. Over a path that is too short to be paced it is
    /// the window that binds.
    fn pacing_rate(&self) -> Option<BitRate> {
        let unspread = self.min_rtt.filter(|rtt| *rtt < LEAST_SPREAD && self.send_quantum() == MOST_AT_ONCE);
        let unspread = unspread.map_or(0, |rtt| volume::rate(2 * self.window(), rtt));
        self.pacing_rate.map(|rate| BitRate::from_bits_per_sec(rate.max(8 * self.mss).max(unspread)))
    }

    fn holds_back(&self) -> bool {
        matches!(self.mode, Mode::ProbeRtt(_))
    }

    fn uses_prr(&self) -> bool {
        false
    }

    fn put_away(&self, to: &mut Vec<u64>) -> bool {
        self.put(to);
        self.draws.put(to);
        true
    }

    fn bring_back(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        self.take(from)?;
        Keep::take(&mut self.draws, from)
    }

    fn name(&self) -> &'static str {
        "bbr"
    }
}
