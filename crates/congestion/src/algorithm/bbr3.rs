//! BBR, version 3 (draft-ietf-ccwg-bbr-06): the sending rate follows the measured bandwidth, and what
//! is in flight follows what the path was seen to bear without losing more than 2 %.
//!
//! ```text
//! bw           = min(max delivery rate of two ProbeBW cycles, bw_shortterm)             §5.5.5, §5.5.10.3
//! min_rtt      = min(round-trip time, last 10 s)                                        §5.5.7
//! pacing rate  = pacing_gain · bw · 0.99                                                §5.6.2
//! max_inflight = max(cwnd_gain · bw · min_rtt + extra_acked, 3 · send_quantum, 4 SMSS)   §5.6.4.2
//! cwnd        → min(max_inflight, inflight_longterm, inflight_shortterm)                 §5.6.4.6, §5.6.4.7
//!
//! Startup   gains 2.77 and 2; until three rounds bring less than a quarter more, or a round in
//!           recovery loses more than 2 % in six places                                  §5.3.1
//! Drain     gains 0.5 and 2; until bw · min_rtt is in flight, or three rounds passed     §5.3.2
//! ProbeBW   Down 0.9, Cruise 1, Refill 1, Up 1.25; cwnd gain 2, Up 2.25                  §5.3.3
//! ProbeRTT  cwnd gain 0.5 for 200 ms and a round, 5 s after the last minimum             §5.3.4
//!
//! a probe loses > 2 %    inflight_longterm = max(in flight then, 0.7 · target)            §5.5.10.2
//! other rounds with loss bw_shortterm = max(bw_latest, 0.7 · bw_shortterm), the same for inflight
//! RTO                    cwnd = SMSS; restored when repaired                             §5.6.4.4
//! ```
//! [`model`] holds the beliefs, [`probe_bw`] and [`probe_rtt`] the two steady states; here are the
//! beginning, losses, and what follows for rate and window.
//!
//! Deviations. Before the first round-trip time there is no pacing rate, where the draft takes it
//! for 1 ms: the initial window leaves at once. The state to go back to after a spurious recovery is
//! saved once for the whole episode, when its first loss is found, not anew in each round: otherwise
//! a long episode could be undone only in part. A congestion mark, which the draft does not
//! treat, counts like a single lost segment (RFC 3168 §5). C.send_quantum only enters the window; what
//! leaves in one piece is up to the pacer.
mod model;
mod probe_bw;
mod probe_rtt;

use alloc::vec::Vec;
use core::num::NonZeroU64;
use core::time::Duration;

use shorthaul_types::{BitRate, Time};

use self::model::{Flight, INFINITE, Model};
use self::probe_bw::{Phase, Probe};
use self::probe_rtt::MinRtt;
use crate::ack_aggregation::{AckAggregation, Expectation};
use crate::draws::Draws;
use crate::full_pipe::FullPipe;
use crate::rounds::Rounds;
use crate::snapshot::{Blank, Keep, Numbers, keeps, number_of, restored, snapshot};
use crate::volume::{self, Gain};
use crate::window::MAX_WINDOW;
use crate::{AckSample, CongestionEvent, Control, ControlParams, LossSample};

/// BBR.StartupPacingGain: 4·ln 2, the least at which the rate doubles each round with a cwnd gain of 2.
const STARTUP_PACING_GAIN: Gain = Gain(2770);
/// BBR.DrainPacingGain.
const DRAIN_PACING_GAIN: Gain = Gain(500);
/// Pacing gains of ProbeBW (§5.6.1).
const DOWN_PACING_GAIN: Gain = Gain(900);
const UP_PACING_GAIN: Gain = Gain(1250);
/// BBR.DefaultCwndGain, and that of ProbeBW_UP and ProbeRTT (§5.6.1).
const CWND_GAIN: Gain = Gain(2000);
const UP_CWND_GAIN: Gain = Gain(2250);
const PROBE_RTT_CWND_GAIN: Gain = Gain(500);
/// All but BBR.PacingMarginPercent.
const PACING_MARGIN: Gain = Gain(990);
/// BBR.MinPipeCwnd (§5.6.4.3).
const MIN_PIPE_SEGMENTS: u64 = 4;
/// BBRStartupFullLossCnt (§5.3.1.3).
const STARTUP_LOSS_RANGES: u8 = 6;
/// Drain takes no more rounds (§5.3.2).
const DRAIN_ROUNDS: u32 = 3;

/// Of [`Control::snapshot`]: another one with each change of what is handed over.
const VERSION: u64 = 1;

/// BBR version 3 (draft-ietf-ccwg-bbr-06).
#[derive(Clone, Debug)]
pub struct Bbr3 {
    // Windows in bytes, which 32 bits hold, as no window has 4 GiB: idle connections are many.
    mss: u32,
    initial_window: u32,
    window: u32,
    /// The window before recovery or ProbeRTT narrowed it.
    prior_window: u32,
    selective_acks: bool,
    pacing_rate: Option<NonZeroU64>,
    state: State,
    recovery: LossEpisode,
    model: Model,
    rounds: Rounds,
    /// The search for the end of the rise, in Startup or in ProbeBW_UP.
    full_pipe: FullPipe,
    full_bandwidth_reached: bool,
    aggregation: AckAggregation,
    probe: Probe,
    min_rtt: MinRtt,
    idle_restart: bool,
    /// Ranges of the stream lost in this loss round, and where the last one ended.
    lost_ranges: u8,
    last_lost_end: u64,
    undo: Option<Undo>,
    /// Losses are being repaired that began when `undo` was saved.
    in_episode: bool,
    draws: Draws,
}

// An undo of losses that another process saw is no longer possible.
keeps!(Bbr3 {
    window,
    prior_window,
    pacing_rate,
    state,
    recovery,
    model,
    rounds,
    full_pipe,
    full_bandwidth_reached,
    aggregation,
    probe,
    min_rtt,
    idle_restart,
    lost_ranges,
    last_lost_end,
    in_episode,
});

/// The states of §5.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain { since_round: u32 },
    ProbeBw(Phase),
    ProbeRtt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LossEpisode {
    None,
    Fast,
    TimedOut,
}

number_of!(LossEpisode { None, Fast, TimedOut });

impl Keep for State {
    fn put(&self, to: &mut Vec<u64>) {
        match self {
            State::Startup => to.push(0),
            State::Drain { since_round } => {
                to.push(1);
                since_round.put(to);
            }
            State::ProbeBw(phase) => {
                to.push(2);
                phase.put(to);
            }
            State::ProbeRtt => to.push(3),
        }
    }

    fn take(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        *self = match from.next()? {
            0 => State::Startup,
            1 => State::Drain { since_round: u32::try_from(from.next()?).ok()? },
            2 => {
                let mut phase = Phase::Down;
                phase.take(from)?;
                State::ProbeBw(phase)
            }
            3 => State::ProbeRtt,
            _ => return None,
        };
        Some(())
    }
}

/// What losses ended, and a spurious recovery takes up again: BBR.undo_state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probing {
    Startup,
    Up,
}

number_of!(Probing { Startup, Up });

impl Blank for Probing {
    fn blank() -> Self {
        Probing::Startup
    }
}

/// What a spurious recovery is undone to (§5.5.11.1).
#[derive(Clone, Copy, Debug)]
struct Undo {
    /// Losses ended this.
    probing: Option<Probing>,
    bandwidth_shortterm: u64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
}

keeps!(Undo { probing, bandwidth_shortterm, inflight_shortterm, inflight_longterm });

impl Blank for Undo {
    fn blank() -> Self {
        Undo { probing: None, bandwidth_shortterm: 0, inflight_shortterm: 0, inflight_longterm: 0 }
    }
}

impl Bbr3 {
    /// Starts in Startup from the initial window.
    pub fn new(params: ControlParams) -> Self {
        let mss = params.mss.max(1);
        let initial_window = window_of(params.initial_window, mss);
        Bbr3 {
            mss,
            initial_window,
            selective_acks: params.selective_acks,
            window: initial_window,
            prior_window: 0,
            pacing_rate: None,
            state: State::Startup,
            recovery: LossEpisode::None,
            model: Model::new(),
            rounds: Rounds::default(),
            full_pipe: FullPipe::default(),
            full_bandwidth_reached: false,
            aggregation: AckAggregation::new(params.now),
            probe: Probe::new(params.now),
            min_rtt: MinRtt::new(params.now),
            idle_restart: false,
            lost_ranges: 0,
            last_lost_end: u64::MAX,
            undo: None,
            in_episode: false,
            draws: Draws::new(params.seed.derive("bbr3")),
        }
    }

    /// BBR.bw, the bandwidth that is paced by; zero before the first sample.
    pub fn bandwidth(&self) -> BitRate {
        BitRate::from_bits_per_sec(self.model.bandwidth())
    }

    /// BBR.min_rtt; `None` before the first sample.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.get()
    }

    /// BBR.inflight_longterm, the bytes beyond which a probe lost more than 2 %; `None` before one did.
    pub fn inflight_longterm(&self) -> Option<u64> {
        Some(self.model.inflight_longterm).filter(|&bytes| bytes != INFINITE)
    }

    fn mss(&self) -> u64 {
        u64::from(self.mss)
    }

    /// Pacing gain and cwnd gain (§5.6.1).
    fn gains(&self) -> (Gain, Gain) {
        match self.state {
            State::Startup => (STARTUP_PACING_GAIN, CWND_GAIN),
            State::Drain { .. } => (DRAIN_PACING_GAIN, CWND_GAIN),
            State::ProbeBw(Phase::Down) => (DOWN_PACING_GAIN, CWND_GAIN),
            State::ProbeBw(Phase::Cruise | Phase::Refill) => (Gain::ONE, CWND_GAIN),
            State::ProbeBw(Phase::Up) => (UP_PACING_GAIN, UP_CWND_GAIN),
            State::ProbeRtt => (Gain::ONE, PROBE_RTT_CWND_GAIN),
        }
    }

    /// BBR.bdp at `bandwidth`; the initial window before the first round-trip time.
    fn bdp(&self, bandwidth: u64) -> u64 {
        self.min_rtt.get().map_or(u64::from(self.initial_window), |rtt| volume::in_time(bandwidth, rtt))
    }

    /// Inflight(1.0) at `bandwidth` (§5.6.4.2).
    fn inflight(&self, bandwidth: u64) -> u64 {
        self.with_quantization(self.bdp(bandwidth))
    }

    /// QuantizationBudget() (§5.6.4.2), with the offload budget of §5.5.8.1 and the send quantum of §5.6.3.
    fn with_quantization(&self, inflight: u64) -> u64 {
        let millisecond =
            volume::in_time(self.pacing_rate.map_or(0, NonZeroU64::get), Duration::from_millis(1));
        let quantum = millisecond.min(64 * 1024).max(2 * self.mss());
        let more = if self.state == State::ProbeBw(Phase::Up) { 2 * self.mss() } else { 0 };
        inflight.max(3 * quantum).max(MIN_PIPE_SEGMENTS * self.mss()).saturating_add(more)
    }

    /// ProbeRTTCwnd() (§5.6.4.5).
    fn probe_rtt_window(&self) -> u64 {
        PROBE_RTT_CWND_GAIN.of(self.bdp(self.model.bandwidth())).max(MIN_PIPE_SEGMENTS * self.mss())
    }

    /// UpdateCongestionSignals() (§5.5.10.3).
    fn update_signals(&mut self, ack: &AckSample) {
        self.rounds.on_ack(ack.rate.as_ref());
        if self.rounds.started() {
            self.probe.rounds_since = self.probe.rounds_since.saturating_add(1);
        }
        self.model.on_sample(ack.rate.as_ref());
        if !self.model.loss_round_started {
            return;
        }
        let probing = matches!(self.state, State::Startup | State::ProbeBw(Phase::Refill | Phase::Up));
        if self.model.loss_in_round && !probing {
            self.model.lower_bounds(self.window());
        }
        self.model.loss_in_round = false;
    }

    /// CheckFullBWReached() (§5.3.1.2).
    fn check_full_bandwidth(&mut self, ack: &AckSample) {
        let Some(sample) = &ack.rate else { return };
        if self.rounds.started() && !sample.app_limited {
            self.full_pipe.on_round(sample.rate.bits_per_sec());
            self.full_bandwidth_reached |= self.full_pipe.is_full();
        }
    }

    /// CheckStartupDone() and CheckDrainDone() (§5.3.1, §5.3.2).
    fn check_startup_and_drain(&mut self, ack: &AckSample) {
        if self.state == State::Startup {
            self.check_startup_losses(ack);
            if self.full_bandwidth_reached {
                self.state = State::Drain { since_round: self.rounds.count() };
            }
        }
        if self.model.loss_round_started {
            self.lost_ranges = 0;
        }
        if let State::Drain { since_round } = self.state
            && (ack.in_flight <= self.inflight(self.model.bandwidth())
                || self.rounds.count().saturating_sub(since_round) > DRAIN_ROUNDS)
        {
            self.start_down(ack.now);
        }
    }

    /// CheckStartupHighLoss() (§5.3.1.3).
    fn check_startup_losses(&mut self, ack: &AckSample) {
        let Some(sample) = &ack.rate else { return };
        if !self.model.loss_round_started || !ack.in_recovery {
            return;
        }
        let ranges = if self.selective_acks { STARTUP_LOSS_RANGES } else { 1 };
        if self.lost_ranges >= ranges && self.is_too_high(&Flight::of(sample, self.mss())) {
            self.undo_to(Probing::Startup);
            self.full_bandwidth_reached = true;
            self.model.inflight_longterm =
                self.bdp(self.model.max_bandwidth()).max(self.model.inflight_latest);
        }
    }

    /// SetPacingRateWithGain() (§5.6.2): before the pipe is full, the rate only rises.
    fn set_pacing_rate(&mut self, gain: Gain) {
        let Some(rtt) = self.min_rtt.get() else { return };
        let mut rate = PACING_MARGIN.of(gain.of(self.model.bandwidth()));
        match self.pacing_rate {
            None => {
                rate = rate.max(STARTUP_PACING_GAIN.of(volume::rate(u64::from(self.initial_window), rtt)))
            }
            Some(present) if !self.full_bandwidth_reached && rate <= present.get() => return,
            Some(_) => {}
        }
        // A segment a second at least: at a rate of zero nothing would be measured any more.
        self.pacing_rate = NonZeroU64::new(rate.max(8 * self.mss()));
    }

    /// SetCwnd() (§5.6.4.6).
    fn set_window(&mut self, ack: &AckSample) {
        let (_, gain) = self.gains();
        let extra = match self.full_bandwidth_reached {
            true => self.aggregation.extra(),
            false => self.aggregation.extra_of_round(),
        };
        let wanted = gain.of(self.bdp(self.model.bandwidth())).saturating_add(extra);
        let most = self.with_quantization(wanted);
        let mut window = self.window();
        let grown = window.saturating_add(ack.delivered);
        if self.full_bandwidth_reached {
            window = grown.min(most);
        } else if window < most || self.rounds.delivered() < u64::from(self.initial_window) {
            window = grown;
        }
        window = window.max(MIN_PIPE_SEGMENTS * self.mss());
        if self.state == State::ProbeRtt {
            window = window.min(self.probe_rtt_window());
        }
        self.window = window_of(window.min(self.volume_cap()), self.mss);
    }

    /// BoundCwndForModel() (§5.6.4.7).
    fn volume_cap(&self) -> u64 {
        let longterm = match self.state {
            State::ProbeBw(Phase::Cruise) | State::ProbeRtt => self.inflight_with_headroom(),
            State::ProbeBw(_) => self.model.inflight_longterm,
            State::Startup | State::Drain { .. } => INFINITE,
        };
        longterm.min(self.model.inflight_shortterm).max(MIN_PIPE_SEGMENTS * self.mss())
    }

    /// SaveCwnd() (§5.6.4.4).
    fn save_window(&mut self) {
        let narrowed = self.recovery != LossEpisode::None || self.state == State::ProbeRtt;
        self.prior_window = if narrowed { self.prior_window.max(self.window) } else { self.window };
    }

    /// RestoreCwnd() (§5.6.4.4).
    fn restore_window(&mut self) {
        self.window = window_of(u64::from(self.window.max(self.prior_window)), self.mss);
    }

    /// SaveStateUponLoss() (§5.5.11.1), once for each episode.
    fn save_state(&mut self) {
        if !self.in_episode {
            self.in_episode = true;
            self.save_window();
            self.undo = Some(Undo {
                probing: None,
                bandwidth_shortterm: self.model.bandwidth_shortterm,
                inflight_shortterm: self.model.inflight_shortterm,
                inflight_longterm: self.model.inflight_longterm,
            });
        }
    }

    /// Losses end `probing`: if they were none, it is to begin again.
    fn undo_to(&mut self, probing: Probing) {
        if let Some(undo) = &mut self.undo {
            undo.probing = Some(probing);
        }
    }
}

/// A window of `bytes`, or the next that may be: a segment at least, a GiB at most.
fn window_of(bytes: u64, mss: u32) -> u32 {
    (bytes.min(MAX_WINDOW) as u32).max(mss)
}

impl Control for Bbr3 {
    fn on_ack(&mut self, ack: &AckSample) {
        self.update_signals(ack);
        let path = Expectation {
            bandwidth: self.model.bandwidth(),
            window: self.window(),
            round: self.rounds.count(),
        };
        self.aggregation.on_ack(ack.now, ack.delivered, path);
        self.check_full_bandwidth(ack);
        self.check_startup_and_drain(ack);
        self.update_cycle_phase(ack);
        self.update_min_rtt(ack);
        self.model.end_ack(ack.rate.as_ref());
        let (pacing_gain, _) = self.gains();
        self.set_pacing_rate(pacing_gain);
        self.set_window(ack);
    }

    /// HandleLostPacket() (§5.5.10.2).
    fn on_loss(&mut self, loss: &LossSample) {
        if self.model.note_loss(self.rounds.delivered()) {
            self.save_state();
        }
        if self.last_lost_end != loss.offset {
            self.lost_ranges = self.lost_ranges.saturating_add(1);
        }
        self.last_lost_end = loss.offset.saturating_add(loss.bytes);
        if !self.probe.is_sample {
            return;
        }
        let mut flight = Flight {
            in_flight: loss.in_flight_at_send.saturating_add(loss.bytes),
            lost: loss.lost,
            app_limited: loss.app_limited,
        };
        if self.is_too_high(&flight) {
            flight.in_flight = flight.at_threshold(loss.bytes);
            self.on_inflight_too_high(flight, loss.now);
        }
    }

    fn on_congestion(&mut self, _now: Time, event: CongestionEvent, _flight_size: u64) {
        match event {
            CongestionEvent::Loss => {
                self.save_state();
                self.recovery = LossEpisode::Fast;
            }
            CongestionEvent::EcnEcho => _ = self.model.note_loss(self.rounds.delivered()),
        }
    }

    fn on_timeout(&mut self, _now: Time, _flight_size: u64) {
        self.save_state();
        self.save_window();
        self.recovery = LossEpisode::TimedOut;
        self.window = self.mss;
    }

    fn on_recovered(&mut self, _now: Time) {
        self.in_episode = false;
        if self.recovery != LossEpisode::None {
            self.recovery = LossEpisode::None;
            self.restore_window();
        }
    }

    /// HandleSpuriousLossDetection() (§5.5.11.2).
    fn on_spurious(&mut self, _now: Time) {
        self.in_episode = false;
        let Some(undo) = self.undo.take() else { return };
        self.recovery = LossEpisode::None;
        self.restore_window();
        self.model.loss_in_round = false;
        self.full_pipe = FullPipe::default();
        let model = &mut self.model;
        model.bandwidth_shortterm = model.bandwidth_shortterm.max(undo.bandwidth_shortterm);
        model.inflight_shortterm = model.inflight_shortterm.max(undo.inflight_shortterm);
        model.inflight_longterm = model.inflight_longterm.max(undo.inflight_longterm);
        match undo.probing {
            Some(Probing::Startup) if self.state != State::Startup => {
                self.full_bandwidth_reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(Probing::Up) if !matches!(self.state, State::ProbeBw(Phase::Up) | State::ProbeRtt) => {
                self.start_refill();
            }
            _ => {}
        }
    }

    /// The window stays: pacing at the bandwidth sets off no burst (§5.4.1).
    fn on_idle_restart(&mut self, _now: Time) {}

    /// HandleRestartFromIdle() (§5.4.1).
    fn on_transmit_start(&mut self, now: Time) {
        self.idle_restart = true;
        self.aggregation.restart(now);
        match self.state {
            State::ProbeBw(_) => self.set_pacing_rate(Gain::ONE),
            State::ProbeRtt => self.check_probe_rtt_done(now),
            State::Startup | State::Drain { .. } => {}
        }
    }

    fn snapshot(&self) -> Vec<u64> {
        snapshot(VERSION, self)
    }

    fn restore(&mut self, numbers: &[u64]) -> bool {
        let Some(next) = restored(VERSION, self, numbers) else { return false };
        *self = Bbr3 { window: window_of(next.window(), self.mss), ..next };
        true
    }

    fn set_mss(&mut self, mss: u32) {
        self.mss = mss.max(1);
        self.window = window_of(self.window(), self.mss);
    }

    fn window(&self) -> u64 {
        u64::from(self.window)
    }

    fn ssthresh(&self) -> u64 {
        u64::MAX
    }

    fn in_slow_start(&self) -> bool {
        self.state == State::Startup
    }

    fn pacing_rate(&self) -> Option<BitRate> {
        self.pacing_rate.map(|rate| BitRate::from_bits_per_sec(rate.get()))
    }

    fn holds_back(&self) -> bool {
        self.state == State::ProbeRtt
    }

    fn uses_prr(&self) -> bool {
        false
    }

    fn put_away(&self, to: &mut Vec<u64>) -> bool {
        self.put(to);
        self.undo.put(to);
        self.draws.put(to);
        true
    }

    fn bring_back(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        self.take(from)?;
        Keep::take(&mut self.undo, from)?;
        Keep::take(&mut self.draws, from)
    }

    fn name(&self) -> &'static str {
        "bbr3"
    }
}
