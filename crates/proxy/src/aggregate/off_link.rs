//! What a connection has in flight that is not on the link: its peer has it and says so late, it waits in a network of the peer's own, or its way is longer.
use super::served::FIRST_WINDOW;
use core::time::Duration;
use shorthaul_types::{Time, keeps};

/// So often round trips have to be longer than others', one time after the other.
const SURE: u8 = 8;

/// What was sent and not delivered at a look, and how much of it still is not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub since: Time,
    pub bytes: u64,
    pub left: u64,
}

/// By how much longer the round trips of a connection are than others' that share the link, whenever they are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lag {
    /// On average.
    pub mean: Duration,
    /// How often it was so, one time after the other.
    pub count: u8,
}

keeps!(Lag { mean, count });

/// A connection's own peer is slower than the link: what it has in flight takes no place in the window, and is limited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowPeer {
    /// What it may have in flight.
    pub limit: u64,
    /// Since when its rate is measured, and what was delivered of it since.
    pub since: Time,
    pub delivered: u64,
    /// At so many looks, one after the other, it was not slow.
    pub on_time: u8,
    /// When it last was.
    pub at: Time,
    /// The limit does not grow before: a queue on its way has marked something.
    pub held_until: Time,
}

/// What the acknowledgments of a connection say of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// All: what they acknowledge came by it, and they came at once.
    All,
    /// All but this part of each round trip, by which its way is longer.
    But(Duration),
    /// How long its host's packets wait, at most: others' deliveries had overtaken what they acknowledge.
    Little,
    /// Nothing but that it carries something: the peer is slow.
    Nothing,
}

/// What a connection has in flight that is not on the link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OffLink {
    /// When the newest of what was delivered of it was sent.
    pub newest: Time,
    pub flight: Option<Flight>,
    /// Of what is in flight, what others' deliveries have overtaken: it has passed the link.
    pub passed: u64,
    /// Of what is in flight, what is elsewhere than on the link, for its way is longer.
    pub elsewhere: u64,
    /// The larger of these, as its group counts it.
    pub counted: u64,
    pub lag: Lag,
    /// By how much longer than the link what is sent to it takes at least.
    pub extra: Duration,
    /// Since when it waits to be looked at: whether others' deliveries have overtaken it.
    pub followed: Option<Time>,
    /// Since when most of what it had in flight was overtaken, look after look.
    pub late_since: Option<Time>,
    pub slow: Option<SlowPeer>,
}

// But for what the other connections of the host are compared with.
keeps!(OffLink { lag });

impl OffLink {
    /// Whether others' deliveries have overtaken what it has in flight, or it is known to be slow.
    pub fn is_late(&self) -> bool {
        self.counted > 0 || self.slow.is_some()
    }

    /// What its acknowledgments say of the link, where it was late before they came.
    pub fn says(&self, was_late: bool) -> Says {
        match self.extra {
            Duration::ZERO if self.slow.is_some() => Says::Nothing,
            Duration::ZERO if was_late => Says::Little,
            Duration::ZERO => Says::All,
            extra => Says::But(extra),
        }
    }

    /// By how much longer its round trips are than others', on average, if they always are.
    pub fn surely_later(&self) -> Option<Duration> {
        (self.lag.count >= SURE).then_some(self.lag.mean)
    }

    /// How much more than this window it may have in flight, for it is not on the link.
    pub fn most(&self, window: u64) -> u64 {
        let most = window.saturating_add(self.elsewhere);
        self.slow.map_or(most, |slow| slow.limit.min(most))
    }

    /// A slow peer may have so much in flight, but no more than before for a round trip after a mark.
    pub fn limited(&self, now: Time, limit: u64) -> u64 {
        self.slow.filter(|slow| now < slow.held_until).map_or(limit, |slow| limit.min(slow.limit))
    }

    /// A queue on its way marked something, where its round trips take `rtt`: a slow peer has half on its way for as long,
    /// `least` bytes at least.
    pub fn on_mark(&mut self, now: Time, rtt: Duration, least: u64) {
        if let Some(slow) = self.slow.as_mut().filter(|slow| now >= slow.held_until) {
            *slow = SlowPeer { limit: (slow.limit / 2).max(least), held_until: now + rtt, ..*slow };
        }
    }

    /// What its sender is to be offered at most, where its peer is slow.
    pub fn enough(&self) -> u64 {
        self.slow.map_or(u64::MAX, |slow| (2 * slow.limit).max(FIRST_WINDOW))
    }
}
