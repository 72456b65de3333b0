//! A sender goes on in another process, in the midst of what it does.
use super::{Sender, State};
use crate::Transmitted;
use crate::loss_detector::Event;
use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;
use shorthaul_congestion::{DeliveryRate, KnownPath, KnownRtt};
use shorthaul_types::{BitRate, Time};

/// What a sender does at the moment, beyond what it holds. Times are those of one clock for both processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Momentum {
    /// What is outstanding, in the order of the stream: from SND.UNA to SND.NXT.
    pub sent: Vec<Transmitted>,
    /// Holes are repaired, up to this offset.
    pub repairs_to: Option<u64>,
    /// The congestion window and the slow start threshold, in bytes.
    pub window: u64,
    /// See `window`.
    pub ssthresh: u64,
    /// The rate that the congestion control paced at, if it has one of its own and is past its start.
    pub rate: Option<BitRate>,
    /// What is known of round trips.
    pub rtt: Option<KnownRtt>,
    /// The name of the congestion control, and all that it knows ([`Control::snapshot`](shorthaul_congestion::Control::snapshot)).
    pub algorithm: String,
    /// See `algorithm`.
    pub known: Vec<u64>,
    /// What delivery rates are counted from ([`DeliveryRate::snapshot`]).
    pub delivery: Vec<u64>,
}

impl Momentum {
    /// Where the first byte lies and where the last one ends that is outstanding, if the ranges follow each other.
    fn span(&self) -> Option<(u64, u64)> {
        let mut at = self.sent.first()?.start;
        let start = at;
        for range in &self.sent {
            if range.start != at || range.end <= at {
                return None;
            }
            at = range.end;
        }
        Some((start, at))
    }
}

impl Sender {
    /// What it does at the moment.
    pub fn momentum(&self) -> Momentum {
        let repairs_to = match self.state {
            State::Recovery { end, .. } | State::Loss { end, .. } => Some(end),
            State::Waiting { .. } => Some(self.snd.nxt),
            State::Open => None,
        };
        Momentum {
            sent: self.board.transmitted().collect(),
            repairs_to,
            window: self.control.window(),
            ssthresh: self.control.ssthresh(),
            rate: self.control.pacing_rate().filter(|_| !self.control.in_slow_start()),
            rtt: self.rtt.known(),
            algorithm: self.control.name().to_owned(),
            known: self.control.snapshot(),
            delivery: self.rate.snapshot(),
        }
    }

    /// Goes on with what another process had begun, where nothing has been sent yet by this one. Says whether that fits what is
    /// held here. If not, all begins anew.
    pub fn take_over(&mut self, now: Time, momentum: &Momentum) -> bool {
        let (start, end) = momentum.span().unwrap_or((self.snd.una, self.snd.una));
        if !self.board.is_empty() || start != self.snd.una || end > self.end() {
            return false;
        }
        if let Some(rtt) = &momentum.rtt {
            self.rtt.take_over(now, rtt);
        }
        let delivery =
            DeliveryRate::restored(&momentum.delivery, momentum.sent.iter().map(|range| &range.sent));
        // The algorithm counts its rounds by what was delivered.
        let is_same = delivery.is_some() && momentum.algorithm == self.control.name();
        if !(is_same && self.control.restore(&momentum.known)) {
            let Momentum { window, ssthresh, rate, .. } = *momentum;
            let min_rtt = momentum.rtt.map(|rtt| rtt.min);
            self.control.take_over(now, &KnownPath { window, ssthresh, rate, min_rtt });
        }
        let mut sent = momentum.sent.clone();
        self.rate = delivery.unwrap_or_else(|| {
            // What is delivered from now on was sent before: rates count from there.
            let oldest = sent.iter().map(|range| range.sent.sent_at()).min().unwrap_or(now).min(now);
            let mut rate = DeliveryRate::new(oldest);
            let mut before = 1;
            for range in &mut sent {
                range.sent = rate.on_send(range.sent.sent_at().min(now), before);
                before += range.end - range.start;
            }
            rate
        });
        self.board.take_over(&sent);
        self.snd.nxt = end;
        self.snd.window_limited_until = end;
        self.ecn.end = end;
        if let Some(to) = momentum.repairs_to.filter(|_| end > start) {
            self.state = State::Recovery { end: to.clamp(start, end), prr: None };
            self.tell_detector(now, Event::RecoveryBegun);
        }
        if end > start {
            self.timers.rto_at = Some(self.rto_deadline(now));
            self.tell_detector(now, Event::Acknowledged);
        }
        self.set_pace();
        true
    }
}
