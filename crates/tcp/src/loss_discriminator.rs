//! What a loss means. A detector finds losses, a discriminator says what they mean, congestion control answers.
use crate::ByteQueue;
use core::fmt::Debug;
use core::ops::Range;
use core::time::Duration;
use shorthaul_types::{Deadline, Time};

/// How a loss was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossSign {
    /// Acknowledgments showed it: duplicate ACKs, SACK, or the times of delivery.
    Acknowledgments,
    /// The retransmission timer expired.
    Timeout,
}

/// What a discriminator is told of a loss.
#[derive(Clone, Copy, Debug)]
pub struct LossEvidence {
    /// How it was noticed.
    pub sign: LossSign,
    /// Bytes sent and not cumulatively acknowledged, the lost ones included (FlightSize, RFC 5681).
    pub flight: u64,
    /// The window still grows exponentially.
    pub in_slow_start: bool,
    /// The smallest round-trip time measured with data.
    pub min_rtt: Option<Duration>,
    /// The smoothed round-trip time.
    pub srtt: Option<Duration>,
}

/// What is to be done about a loss. Whatever it is, what was lost is retransmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossResponse {
    /// The link lost it: the window stays as it is.
    Transient,
    /// The link lost it, but the window is to be smaller: it becomes this share of what it was.
    Decrease {
        /// From 1 to 100.
        percent: u64,
    },
    /// Congestion: the window is reduced, as after duplicate ACKs.
    Mild,
    /// Heavy congestion: the window falls to one segment, as after an RTO.
    Severe,
    /// Not known yet: nothing but probes is sent until it is.
    Waiting,
}

/// A probe that a discriminator wants to be sent: a segment without new data that draws an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Its number, for probes that carry one and whose answers name it.
    pub number: u32,
    /// Which of the two questions of a cycle it asks.
    pub stage: ProbeStage,
    /// What it looks like.
    pub form: ProbeForm,
    /// The first unacknowledged segment leaves before it, as after an RTO.
    pub brings_head: bool,
}

/// The two questions of a probe cycle (PRB §2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProbeStage {
    /// PROBE1.
    #[default]
    First,
    /// PROBE2.
    Second,
}

/// What a probe looks like on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProbeForm {
    /// A segment without payload below the window, which any stack answers with an acknowledgment
    /// (RFC 9293 §3.10.7.4).
    #[default]
    Empty,
    /// One of the last acknowledged bytes once more: answered like [`ProbeForm::Empty`] and by D-SACK (RFC 2883), so that
    /// the answer names it.
    Octet(Octet),
    /// A segment without payload that carries the probing option, for a peer that agreed to answer it.
    Numbered,
    /// The same, whose answer says when it arrived.
    Timed,
}

/// An acknowledged byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Octet {
    /// Its offset in the stream.
    pub offset: u64,
    /// Its value.
    pub byte: u8,
}

/// By what an answer names the probe that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeName {
    /// By the number of a [`ProbeForm::Numbered`] or a [`ProbeForm::Timed`].
    Number(u32),
    /// By the offset of a [`ProbeForm::Octet`], in a D-SACK.
    Octet(u64),
}

/// The answer to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeAnswer {
    /// The probe that it names; `None` for an ordinary acknowledgment.
    pub name: Option<ProbeName>,
    /// It is a duplicate ACK: one more segment has left the network.
    pub duplicate: bool,
    /// When a [`ProbeForm::Timed`] arrived: microseconds of the peer's clock.
    pub arrived: Option<u32>,
}

/// What an acknowledgment shows of a path on which nothing may be wrong: what losses are compared with.
#[derive(Clone, Debug)]
pub struct Acknowledged<'a> {
    /// When it arrived.
    pub now: Time,
    /// What it acknowledged cumulatively. Empty where it did not.
    pub acked: Range<u64>,
    /// The bytes of that, which leave the queue next.
    pub queue: &'a ByteQueue,
    /// The round-trip time that it measured with data.
    pub rtt: Option<Duration>,
}

/// Says what losses mean, one at a time. While its response is [`LossResponse::Waiting`], the sender sends its probes, hands
/// it the answers, and asks again; data and the retransmission timer wait.
pub trait Discriminator: Debug + Send {
    /// A loss was noticed.
    fn respond(&mut self, now: Time, evidence: &LossEvidence) -> LossResponse;

    /// An acknowledgment moved SND.UNA, or measured a round-trip time.
    fn on_ack(&mut self, ack: &Acknowledged<'_>) {
        let _ = ack;
    }

    /// While waiting: the next probe to send, if one is due.
    fn poll_probe(&mut self, now: Time) -> Option<Probe> {
        let _ = now;
        None
    }

    /// While waiting: an answer arrived. Returns the response by now.
    fn on_probe_answer(&mut self, now: Time, answer: ProbeAnswer) -> LossResponse {
        let _ = (now, answer);
        LossResponse::Waiting
    }

    /// While waiting: a deadline may have passed. Returns the response by now.
    fn on_timeout(&mut self, now: Time) -> LossResponse {
        let _ = now;
        LossResponse::Waiting
    }

    /// Whether it has no state of its own, so that its sender can be put away as numbers and built anew.
    fn knows_nothing(&self) -> bool {
        false
    }

    /// When to call [`Discriminator::on_timeout`] next, or to ask for a probe.
    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }
}
