//! What a loss means. Recovery finds losses, an arbiter rules on them, congestion control answers.
use core::fmt::Debug;
use core::time::Duration;
use shorthaul_types::{Deadline, Time};

/// How a loss was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossSign {
    /// Acknowledgments showed it: duplicates, reports, or the times of delivery.
    Acknowledgments,
    /// The retransmission timer expired.
    Timeout,
}

/// What an arbiter is told of a loss.
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

/// What is to be done about a loss. Whatever it is, what was lost is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The link lost it: the window stays as it is.
    Transient,
    /// The link lost it, but the window was still growing exponentially: it stops at three quarters.
    Gentle,
    /// Congestion: the window is reduced, as after duplicate acknowledgments.
    Mild,
    /// Heavy congestion: the window falls to one segment, as after a timeout.
    Severe,
    /// Not known yet: nothing but probes is sent until it is.
    Waiting,
}

/// A probe that an arbiter wants to be sent: a segment without new data that draws an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Its number, for probes that carry one and whose answers name it.
    pub number: u32,
    /// Which of the two questions of a cycle it asks.
    pub stage: ProbeStage,
    /// What it looks like.
    pub form: ProbeForm,
    /// The first unacknowledged segment leaves before it, as after a timeout.
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
    /// One of the last acknowledged bytes once more, by the number which: answered like
    /// [`ProbeForm::Empty`], and reported as a duplicate (RFC 2883), so that the answer names it.
    Octet,
    /// A segment without payload that carries the probing option, for a peer that agreed to answer it.
    Numbered,
}

/// How many of the last acknowledged bytes take turns in probes.
pub const OCTETS: u32 = 64;

/// The answer to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeAnswer {
    /// The number that it names, for a reported [`ProbeForm::Octet`] the remainder by [`OCTETS`]; `None` where
    /// it is an ordinary acknowledgment.
    pub number: Option<u32>,
    /// It is a duplicate acknowledgment: one more segment has left the network.
    pub duplicate: bool,
}

/// Rules on losses, one at a time. While its verdict is [`Verdict::Waiting`], the sender sends its
/// probes, hands it the answers, and asks again; data and the retransmission timer wait.
pub trait Arbiter: Debug + Send {
    /// A loss was noticed.
    fn judge(&mut self, now: Time, evidence: &LossEvidence) -> Verdict;

    /// A round-trip time was measured with data.
    fn on_rtt_sample(&mut self, now: Time, rtt: Duration) {
        let _ = (now, rtt);
    }

    /// While waiting: the next probe to send, if one is due.
    fn poll_probe(&mut self, now: Time) -> Option<Probe> {
        let _ = now;
        None
    }

    /// While waiting: an answer arrived. Returns the verdict by now.
    fn on_probe_answer(&mut self, now: Time, answer: ProbeAnswer) -> Verdict {
        let _ = (now, answer);
        Verdict::Waiting
    }

    /// While waiting: a deadline may have passed. Returns the verdict by now.
    fn on_timeout(&mut self, now: Time) -> Verdict {
        let _ = now;
        Verdict::Waiting
    }

    /// Whether it may ask for a [`ProbeForm::Octet`]: the sender then remembers the last acknowledged bytes.
    fn wants_octets(&self) -> bool {
        false
    }

    /// When to call [`Arbiter::on_timeout`] next, or to ask for a probe.
    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }
}

/// Every loss is congestion (RFC 5681): mild where acknowledgments show it, severe where only the
/// timer does.
#[derive(Clone, Copy, Debug, Default)]
pub struct EveryLossIsCongestion;

impl Arbiter for EveryLossIsCongestion {
    fn judge(&mut self, _now: Time, evidence: &LossEvidence) -> Verdict {
        match evidence.sign {
            LossSign::Acknowledgments => Verdict::Mild,
            LossSign::Timeout => Verdict::Severe,
        }
    }
}
