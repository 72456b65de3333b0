//! Delivery rate estimation (draft-cheng-iccrg-delivery-rate-estimation-02).
//!
//! Each transmission remembers how much had been delivered when it left, and when. Once it is
//! delivered itself, the data delivered meanwhile over the time that took is a sample of the rate
//! of the path:
//!
//! ```text
//! send_elapsed = P.sent_time − P.first_sent_time          how long the flight took to leave    §3.3
//! ack_elapsed  = C.delivered_time − P.delivered_time      how long it took to be acknowledged
//! rate         = (C.delivered − P.delivered) / max(send_elapsed, ack_elapsed)
//! ```
//! The longer of the two is taken because acknowledgments may be compressed on their way and
//! then arrive faster than the path can carry data.
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use shorthaul_types::{BitRate, Time};

use crate::LossSample;
use crate::snapshot::{Blank, Keep, Numbers, keeps, restored, snapshot};

/// A delivery rate, measured over about one round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// The rate.
    pub rate: BitRate,
    /// Bytes delivered on this connection when the sample ended.
    pub delivered: u64,
    /// Bytes delivered on this connection when the newest transmission that the sample covers was
    /// sent. A round trip has passed when this reaches what [`delivered`](Self::delivered) was.
    pub prior_delivered: u64,
    /// The time that the sample covers.
    pub interval: Duration,
    /// The sender had too little to send, so the path can carry this much at least.
    pub app_limited: bool,
    /// Bytes lost over the interval.
    pub lost: u64,
    /// Bytes in flight when that newest transmission was sent, itself not included.
    pub in_flight_at_send: u64,
}

/// What a transmission remembers from when it was sent; the sender keeps it with the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendState {
    sent_at: Time,
    first_sent_at: Time,
    delivered: u64,
    delivered_at: Time,
    lost: u64,
    in_flight: u64,
    app_limited: bool,
}

/// Of [`DeliveryRate::snapshot`]: another one with each change of what is handed over.
const VERSION: u64 = 1;

keeps!(SendState { sent_at, first_sent_at, delivered, delivered_at, lost, in_flight, app_limited });

impl SendState {
    /// How many numbers [`SendState::numbers`] are.
    pub const NUMBERS: usize = 7;

    /// It, as numbers for another process.
    pub fn numbers(&self) -> [u64; Self::NUMBERS] {
        let mut numbers = Vec::with_capacity(Self::NUMBERS);
        self.put(&mut numbers);
        numbers.try_into().unwrap_or_default()
    }

    /// What [`SendState::numbers`] said; `None` for numbers that it does not say.
    pub fn from_numbers(numbers: [u64; Self::NUMBERS]) -> Option<Self> {
        let mut state = SendState::blank();
        state.take(&mut Numbers(&numbers))?;
        Some(state)
    }

    /// When it was sent.
    pub fn sent_at(&self) -> Time {
        self.sent_at
    }

    /// Whether this one was sent after `other`.
    fn is_newer_than(&self, other: &SendState) -> bool {
        (self.delivered, self.sent_at) > (other.delivered, other.sent_at)
    }
}

impl Blank for SendState {
    fn blank() -> Self {
        DeliveryRate::new(Time::ZERO).on_send(Time::ZERO, 0)
    }
}

keeps!(DeliveryRate { delivered, delivered_at, first_sent_at, lost, app_limited_until });

/// The delivery rate of one connection.
#[derive(Clone, Debug)]
pub struct DeliveryRate {
    delivered: u64,
    delivered_at: Time,
    /// When the flight that is being measured began to leave.
    first_sent_at: Time,
    lost: u64,
    /// Samples are application-limited until more than this is delivered.
    app_limited_until: Option<u64>,
    /// The newest transmission delivered since the last sample was taken.
    newest: Option<SendState>,
}

impl DeliveryRate {
    /// What it knows, as numbers for another process that goes on, between two acknowledgments.
    pub fn snapshot(&self) -> Vec<u64> {
        snapshot(VERSION, self)
    }

    /// Goes on where another process was that has said so, with transmissions outstanding of which these are the states; `None` where
    /// the numbers do not fit, or not each other.
    pub fn restored<'a>(numbers: &[u64], mut sent: impl Iterator<Item = &'a SendState>) -> Option<Self> {
        let rate = restored(VERSION, &DeliveryRate::new(Time::ZERO), numbers)?;
        sent.all(|sent| sent.delivered <= rate.delivered && sent.lost <= rate.lost).then_some(rate)
    }

    /// Appends all that it knows, for [`bring_back`](DeliveryRate::bring_back).
    pub fn put_away(&self, to: &mut Vec<u64>) {
        self.put(to);
        self.newest.put(to);
    }

    /// Knows what was [put away](DeliveryRate::put_away).
    pub fn bring_back(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        self.take(from)?;
        Keep::take(&mut self.newest, from)
    }

    /// A connection that has sent nothing.
    pub fn new(now: Time) -> Self {
        DeliveryRate {
            delivered: 0,
            delivered_at: now,
            first_sent_at: now,
            lost: 0,
            app_limited_until: None,
            newest: None,
        }
    }

    /// Data, new or again, is being sent while `in_flight` bytes, itself not included, are in
    /// flight (§3.2). The answer replaces that of an earlier transmission of the same data.
    pub fn on_send(&mut self, now: Time, in_flight: u64) -> SendState {
        if in_flight == 0 {
            // What follows begins a new flight: the idle time before it says nothing.
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        SendState {
            sent_at: now,
            first_sent_at: self.first_sent_at,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            lost: self.lost,
            in_flight,
            app_limited: self.app_limited_until.is_some(),
        }
    }

    /// `bytes` of the transmission `sent` were acknowledged, cumulatively or selectively, for the
    /// first time (§3.3). Called for each that one ACK covers, in any order; then
    /// [`take_sample`](Self::take_sample) once.
    pub fn on_delivered(&mut self, now: Time, bytes: u64, sent: &SendState) {
        self.delivered = self.delivered.saturating_add(bytes);
        self.delivered_at = now;
        if self.newest.is_none_or(|newest| sent.is_newer_than(&newest)) {
            self.newest = Some(*sent);
            self.first_sent_at = sent.sent_at;
        }
    }

    /// The bytes `lost` of the stream, of the transmission `sent`, are believed lost.
    pub fn on_lost(&mut self, now: Time, lost: Range<u64>, sent: &SendState) -> LossSample {
        let bytes = lost.end.saturating_sub(lost.start);
        self.lost = self.lost.saturating_add(bytes);
        LossSample {
            now,
            offset: lost.start,
            bytes,
            lost: self.lost - sent.lost,
            delivered: self.delivered - sent.delivered,
            in_flight_at_send: sent.in_flight,
            app_limited: sent.app_limited,
        }
    }

    /// The application, the peer's window or the algorithm itself, but not the congestion window,
    /// leaves room in the path now, with `in_flight` bytes on their way (§3.4).
    pub fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = Some(self.delivered.saturating_add(in_flight));
    }

    /// The sample of what was delivered since the last one was taken.
    ///
    /// `None` if nothing was, or if the interval is shorter than `min_rtt`: then a retransmission
    /// was taken for delivered though it was the original that arrived, and the rate would be far
    /// too high.
    pub fn take_sample(&mut self, now: Time, min_rtt: Option<Duration>) -> Option<RateSample> {
        if self.app_limited_until.is_some_and(|until| self.delivered > until) {
            self.app_limited_until = None;
        }
        let sent = self.newest.take()?;
        let send_elapsed = sent.sent_at.saturating_since(sent.first_sent_at);
        let ack_elapsed = now.saturating_since(sent.delivered_at);
        let interval = send_elapsed.max(ack_elapsed);
        if interval.is_zero() || interval < min_rtt.unwrap_or_default() {
            return None;
        }
        let delivered = self.delivered - sent.delivered;
        let bits = u128::from(delivered) * 8 * 1_000_000_000 / interval.as_nanos();
        Some(RateSample {
            rate: BitRate::from_bits_per_sec(u64::try_from(bits).unwrap_or(u64::MAX)),
            delivered: self.delivered,
            prior_delivered: sent.delivered,
            interval,
            app_limited: sent.app_limited,
            lost: self.lost - sent.lost,
            in_flight_at_send: sent.in_flight,
        })
    }

    /// Bytes delivered on this connection so far.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Bytes lost on this connection so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether transmissions are at present marked as application-limited.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until.is_some()
    }
}
