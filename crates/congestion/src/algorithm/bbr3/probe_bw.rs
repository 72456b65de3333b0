//! ProbeBW of BBRv3: when to probe for bandwidth, and what follows from a probe
//! (draft-ietf-ccwg-bbr-06 §5.3.3 and §5.5.10.2).
use crate::snapshot::{keeps, number_of};
use core::time::Duration;

use shorthaul_types::Time;

use super::model::{BETA, Flight, INFINITE, LOSS_THRESHOLD};
use super::{Bbr3, MIN_PIPE_SEGMENTS, Probing, State};
use crate::full_pipe::FullPipe;
use crate::volume::Gain;
use crate::{AckSample, Control, RateSample};

/// BBR.Headroom: the share of inflight_longterm that is left to others between probes.
const HEADROOM: Gain = Gain(150);
/// Never more rounds than this between probes: T_reno_bound (§5.3.3.8).
const MOST_ROUNDS: u64 = 63;

/// The four tactics (§5.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Slower than the path delivers, until the queue is gone and headroom is left.
    Down,
    /// As fast as the path delivers.
    Cruise,
    /// The same, with the bounds that losses set between probes lifted, for a round.
    Refill,
    /// Faster, until bandwidth no longer grows or losses exceed 2 %.
    Up,
}

/// Which probe the ACKs that arrive belong to: BBR.ack_phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

number_of!(Phase { Down, Cruise, Refill, Up });
number_of!(AckPhase { Init, Refilling, ProbeStarting, ProbeFeedback, ProbeStopping });
keeps!(Probe {
    ack_phase,
    rounds_since,
    due_at,
    is_sample,
    too_high,
    precautionary,
    up_rounds,
    up_acked,
    up_acked_per_segment,
});

/// The memory of probing.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    ack_phase: AckPhase,
    /// BBR.rounds_since_probe_up, and the random share of it.
    pub rounds_since: u32,
    /// The next probe is due then at the latest: BBR.cycle_stamp + BBR.bw_probe_wait.
    due_at: Time,
    /// ACKs are of data sent while probing, and no answer was given to their losses yet.
    pub is_sample: bool,
    /// The last probe lost too much.
    too_high: bool,
    /// This one ends where that one lost.
    precautionary: bool,
    up_rounds: u32,
    up_acked: u64,
    up_acked_per_segment: u64,
}

impl Probe {
    pub(super) fn new(now: Time) -> Self {
        Probe {
            ack_phase: AckPhase::Init,
            rounds_since: 0,
            due_at: now,
            is_sample: false,
            too_high: false,
            precautionary: false,
            up_rounds: 0,
            up_acked: 0,
            up_acked_per_segment: INFINITE,
        }
    }

    /// Probing is over: what is acknowledged until the round ends belongs to it still.
    pub(super) fn stop(&mut self) {
        self.ack_phase = AckPhase::ProbeStopping;
    }
}

impl Bbr3 {
    /// StartProbeBW_DOWN().
    pub(super) fn start_down(&mut self, now: Time) {
        self.model.reset_signals();
        self.probe.up_acked_per_segment = INFINITE;
        // PickProbeWait(): two to three seconds, and up to one round less.
        self.probe.rounds_since = self.draws.below(2) as u32;
        self.probe.due_at = now + Duration::from_micros(2_000_000 + self.draws.below(1_000_001));
        self.probe.stop();
        self.rounds.restart();
        self.state = State::ProbeBw(Phase::Down);
    }

    /// StartProbeBW_CRUISE().
    pub(super) fn start_cruise(&mut self) {
        self.state = State::ProbeBw(Phase::Cruise);
    }

    /// StartProbeBW_REFILL().
    pub(super) fn start_refill(&mut self) {
        self.model.reset_shortterm();
        self.probe.up_rounds = 0;
        self.probe.up_acked = 0;
        self.probe.precautionary = false;
        self.probe.ack_phase = AckPhase::Refilling;
        self.rounds.restart();
        self.state = State::ProbeBw(Phase::Refill);
    }

    /// StartProbeBW_UP().
    fn start_up(&mut self, sample: Option<&RateSample>) {
        self.probe.ack_phase = AckPhase::ProbeStarting;
        self.rounds.restart();
        self.full_pipe = FullPipe::from(rate(sample));
        self.state = State::ProbeBw(Phase::Up);
        self.raise_slope();
    }

    /// UpdateProbeBWCyclePhase() (§5.3.3.9).
    pub(super) fn update_cycle_phase(&mut self, ack: &AckSample) {
        if !self.full_bandwidth_reached || self.adapt_longterm(ack) {
            return;
        }
        let State::ProbeBw(phase) = self.state else { return };
        match phase {
            Phase::Down | Phase::Cruise if self.is_time_to_probe(ack.now) => self.start_refill(),
            Phase::Down if self.is_time_to_cruise(ack) => self.start_cruise(),
            Phase::Refill if self.rounds.started() => {
                self.probe.is_sample = true;
                self.start_up(ack.rate.as_ref());
            }
            Phase::Up if self.is_time_to_go_down(ack) => {
                self.probe.too_high = false;
                self.start_down(ack.now);
            }
            _ => {}
        }
    }

    /// IsTimeToProbeBW() (§5.3.3.8): after the wait, or as many rounds as Reno would need to regain
    /// its window, so that Reno keeps up where it can.
    fn is_time_to_probe(&self, now: Time) -> bool {
        let reno_rounds = (self.target_inflight() / self.mss()).min(MOST_ROUNDS);
        now > self.probe.due_at || u64::from(self.probe.rounds_since) >= reno_rounds
    }

    /// TargetInflight().
    fn target_inflight(&self) -> u64 {
        self.bdp(self.model.bandwidth()).min(self.window())
    }

    /// IsTimeToCruise().
    fn is_time_to_cruise(&self, ack: &AckSample) -> bool {
        ack.in_flight <= self.inflight_with_headroom()
            && ack.in_flight <= self.inflight(self.model.max_bandwidth())
    }

    /// InflightWithHeadroom().
    pub(super) fn inflight_with_headroom(&self) -> u64 {
        let most = self.model.inflight_longterm;
        if most == INFINITE {
            return INFINITE;
        }
        let headroom = HEADROOM.of(most).max(self.mss());
        most.saturating_sub(headroom).max(MIN_PIPE_SEGMENTS * self.mss())
    }

    /// IsTimeToGoDown().
    fn is_time_to_go_down(&mut self, ack: &AckSample) -> bool {
        let most = self.model.inflight_longterm;
        if self.probe.too_high && ack.in_flight >= most {
            self.probe.precautionary = true;
            return true;
        }
        if ack.cwnd_limited && self.window() >= most {
            // The bound, not the path, holds the rate down.
            self.full_pipe = FullPipe::from(rate(ack.rate.as_ref()));
            return false;
        }
        self.full_pipe.is_full()
    }

    /// RaiseInflightLongtermSlope(): 1, 2, 4, … segments in each further round.
    fn raise_slope(&mut self) {
        let growth = 1_u64 << self.probe.up_rounds;
        self.probe.up_rounds = (self.probe.up_rounds + 1).min(30);
        self.probe.up_acked_per_segment = (self.window() / growth).max(self.mss());
    }

    /// ProbeInflightLongtermUpward().
    fn probe_upward(&mut self, ack: &AckSample) {
        if !ack.cwnd_limited || self.window() < self.model.inflight_longterm {
            return;
        }
        self.probe.up_acked = self.probe.up_acked.saturating_add(ack.delivered);
        let segments = self.probe.up_acked / self.probe.up_acked_per_segment;
        self.probe.up_acked -= segments * self.probe.up_acked_per_segment;
        let growth = segments.saturating_mul(self.mss());
        self.model.inflight_longterm = self.model.inflight_longterm.saturating_add(growth);
        if self.rounds.started() {
            self.raise_slope();
        }
    }

    /// AdaptLongTermModel() (§5.3.3.9). Tells whether it began another phase.
    fn adapt_longterm(&mut self, ack: &AckSample) -> bool {
        let probing = matches!(self.state, State::ProbeBw(_));
        if self.rounds.started() {
            match self.probe.ack_phase {
                AckPhase::ProbeStarting => self.probe.ack_phase = AckPhase::ProbeFeedback,
                AckPhase::ProbeStopping => {
                    self.probe.is_sample = false;
                    self.probe.ack_phase = AckPhase::Init;
                    if probing && ack.rate.is_some_and(|sample| !sample.app_limited) {
                        self.model.next_cycle();
                    }
                    if probing && self.probe.precautionary && !self.probe.too_high {
                        self.start_refill();
                        return true;
                    }
                }
                AckPhase::Init | AckPhase::Refilling | AckPhase::ProbeFeedback => {}
            }
        }
        let Some(sample) = &ack.rate else { return false };
        let flight = Flight::of(sample, self.mss());
        if self.is_too_high(&flight) || self.model.inflight_longterm == INFINITE {
            return false;
        }
        self.model.inflight_longterm = self.model.inflight_longterm.max(flight.in_flight);
        if self.state == State::ProbeBw(Phase::Up) {
            self.probe_upward(ack);
        }
        false
    }

    /// IsInflightTooHigh() (§5.5.10.2): the loss rate is above the threshold. Without selective
    /// acknowledgments one loss hides the others, so any is too much.
    pub(super) fn is_too_high(&self, flight: &Flight) -> bool {
        flight.lost > flight.in_flight / LOSS_THRESHOLD || (flight.lost > 0 && !self.selective_acks)
    }

    /// HandleInflightTooHigh() (§5.5.10.2).
    pub(super) fn on_inflight_too_high(&mut self, flight: Flight, now: Time) {
        self.probe.too_high = true;
        self.probe.is_sample = false;
        if !flight.app_limited {
            self.model.inflight_longterm = flight.in_flight.max(BETA.of(self.target_inflight()));
        }
        if self.state == State::ProbeBw(Phase::Up) {
            self.undo_to(Probing::Up);
            self.start_down(now);
        }
    }
}

fn rate(sample: Option<&RateSample>) -> u64 {
    sample.map_or(0, |sample| sample.rate.bits_per_sec())
}
