//! The window that a mobile host's connections share, fixed or found.
use super::competition::Competition;
use super::config::{AggregateConfig, Clamp};
use alloc::boxed::Box;
use core::time::Duration;
use shorthaul_congestion::{AutoClamp, AutoClampConfig, Delivery};
use shorthaul_types::{BitRate, Time};

/// Windows of ten segments for each connection until more is known (RFC 6928).
const INITIAL_SEGMENTS: u64 = 10;
/// The most connections that begin with [`INITIAL_SEGMENTS`]: as many as browsers open to a server at once.
const INITIAL_CONNECTIONS: usize = 6;
/// A handshake that takes this long is that of a slow link (RFC 6298 §2.1 expects it of none): one connection begins then.
const SLOW: Duration = Duration::from_secs(1);
/// Bursts leave at this many percent of the window a round trip, so that pacing never holds the clock back.
const PACING_PERCENT: u128 = 125;
/// Bursts leave at this many percent of the window while it doubles: who waits for the first segments waits no longer than for a third of a round
/// trip.
const STARTING_PERCENT: u128 = 300;

/// The thousandths of the window that a congestion mark leaves (RFC 8511 §3.1, for marks that come early).
const MARKED: u64 = 800;
/// The thousandths that each round trip without a mark gives back.
const GIVEN_BACK: u64 = 50;
/// The least that marks leave of the window, in thousandths.
const LEAST: u64 = 100;

/// The window, and the part of it that congestion marks have left.
#[derive(Debug)]
pub(crate) struct SharedWindow {
    clamp: Size,
    /// Whether it competes.
    competes: bool,
    /// The window beside somebody who cannot be shaped, while there is one.
    competition: Option<Competition>,
    connections: u64,
    /// In thousandths.
    left: u64,
    /// When that last changed.
    changed_at: Time,
}

#[derive(Clone, Debug)]
enum Size {
    Fixed(u64),
    Auto(Box<AutoClamp>),
}

impl SharedWindow {
    pub fn new(now: Time, config: &AggregateConfig, mss: u32) -> Self {
        let headroom = (config.headroom * 1000.0) as u32;
        let clamp = match config.clamp {
            Clamp::Fixed(bytes) => Size::Fixed(bytes.0),
            Clamp::Auto => Size::Auto(Box::new(AutoClamp::new(
                now,
                AutoClampConfig { mss, initial: INITIAL_SEGMENTS * u64::from(mss), headroom },
            ))),
        };
        SharedWindow {
            clamp,
            competes: config.compete,
            competition: None,
            connections: 1,
            left: 1000,
            changed_at: now,
        }
    }

    /// Sets the segment size.
    pub fn set_mss(&mut self, mss: u32) {
        if let Size::Auto(auto) = &mut self.clamp {
            auto.set_mss(mss);
        }
    }

    /// A predecessor had found a window of this many bytes.
    pub fn take_over(&mut self, window: u64) {
        if let Size::Auto(auto) = &mut self.clamp {
            auto.take_over(window);
        }
    }

    /// In bytes; at least a segment of `mss` bytes.
    pub fn get(&self, mss: u32) -> u64 {
        let clamp = match (&self.clamp, &self.competition) {
            (Size::Fixed(bytes), _) => *bytes,
            (Size::Auto(_), Some(competition)) => competition.window(),
            (Size::Auto(auto), None) => auto.window(),
        };
        (clamp / 1000 * self.left + clamp % 1000 * self.left / 1000).max(u64::from(mss))
    }

    /// A queue on the way marked something, or (at `marked` false) did not: told with every acknowledgment, where
    /// round trips take `rtt`.
    pub fn on_mark(&mut self, now: Time, marked: bool, rtt: Duration) {
        if now.saturating_since(self.changed_at) < rtt {
            return;
        }
        if marked {
            self.left = (self.left * MARKED / 1000).max(LEAST);
            self.changed_at = now;
        } else if self.left < 1000 {
            self.left = (self.left + GIVEN_BACK).min(1000);
            self.changed_at = now;
        }
    }

    /// How fast a burst may leave.
    pub fn pace(&self, mss: u32, rtt: Option<Duration>) -> Option<BitRate> {
        let starting = matches!(&self.clamp, Size::Auto(auto) if auto.is_starting());
        let percent = if starting { STARTING_PERCENT } else { PACING_PERCENT };
        let bits = u128::from(self.get(mss)) * 8 * percent * 10_000_000 / rtt?.as_nanos().max(1);
        Some(BitRate::from_bits_per_sec(u64::try_from(bits).unwrap_or(u64::MAX).max(1)))
    }

    /// Sets how many connections share it, with segments of `mss` bytes and round trips of `rtt`.
    pub fn set_connections(&mut self, now: Time, connections: usize, mss: u32, rtt: Option<Duration>) {
        self.connections = connections as u64;
        if let Some(competition) = &mut self.competition {
            competition.set_connections(now, self.connections);
        }
        if let Size::Auto(auto) = &mut self.clamp {
            let slow = rtt.is_none_or(|rtt| rtt >= SLOW);
            let beginning = if slow { 1 } else { connections.min(INITIAL_CONNECTIONS) };
            auto.set_connections(connections, beginning as u64 * INITIAL_SEGMENTS * u64::from(mss));
        }
    }

    pub fn on_send(&mut self, now: Time, in_flight: u64) {
        if in_flight == 0
            && self.competition.as_ref().is_some_and(|competition| competition.is_forgotten(now))
        {
            self.competition = None;
        }
        if let Size::Auto(auto) = &mut self.clamp {
            auto.on_send(now, in_flight);
        }
    }

    /// Less is in flight than could be, for want of data.
    pub fn on_limited(&mut self, in_flight: u64) {
        if let Size::Auto(auto) = &mut self.clamp {
            auto.on_limited(in_flight);
        }
    }

    /// The window holds something back.
    pub fn on_full(&mut self) {
        if let Some(competition) = &mut self.competition {
            competition.on_full();
        }
        if let Size::Auto(auto) = &mut self.clamp {
            auto.on_full();
        }
    }

    /// Something was delivered, with segments of `mss` bytes, of `in_flight` bytes that were on their way.
    pub fn on_delivery(&mut self, mss: u32, delivery: Delivery, in_flight: u64) {
        let Size::Auto(auto) = &mut self.clamp else { return };
        if let Some(competition) = &mut self.competition {
            if let Some(rtt) = competition.on_delivery(delivery, in_flight) {
                auto.on_uncontested(delivery.now, rtt, competition.window());
                self.competition = None;
            }
            return;
        }
        auto.on_delivery(delivery);
        if let (Some(own_rtt), true) = (auto.take_contested(), self.competes) {
            let window = auto.window();
            self.competition = Some(Competition::new(delivery.now, own_rtt, window, (self.connections, mss)));
        }
    }

    /// A connection lost something, where round trips take `rtt`. A window that is found has no answer to that.
    pub fn on_lost(&mut self, now: Time, rtt: Duration) {
        if let Some(competition) = &mut self.competition {
            competition.on_lost(now, rtt);
        }
    }

    /// Tells how long round trips wait in queues of others.
    pub fn set_beside(&mut self, beside: Duration) {
        if let Size::Auto(auto) = &mut self.clamp {
            auto.set_beside(beside);
        }
    }

    /// The same, as it was told; nothing where the window is fixed.
    pub fn beside(&self) -> Duration {
        match &self.clamp {
            Size::Fixed(_) => Duration::ZERO,
            Size::Auto(auto) => auto.beside(),
        }
    }

    pub fn on_link_back(&mut self, now: Time) {
        self.competition = None;
        if let Size::Auto(auto) = &mut self.clamp {
            auto.on_link_back(now);
        }
    }
}
