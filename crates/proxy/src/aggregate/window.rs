//! The window that a mobile host's connections share, fixed or found.
use super::config::Clamp;
use alloc::boxed::Box;
use core::time::Duration;
use shorthaul_congestion::{AutoClamp, Delivery};
use shorthaul_types::{BitRate, Time};

/// Windows of ten segments until more is known (RFC 6928).
const INITIAL_SEGMENTS: u64 = 10;
/// Bursts leave at this many percent of the window a round trip, so that pacing never holds the clock back.
const PACING_PERCENT: u128 = 125;

#[derive(Clone, Debug)]
pub(crate) enum SharedWindow {
    Fixed(u64),
    Auto(Box<AutoClamp>),
}

impl SharedWindow {
    pub fn new(now: Time, clamp: Clamp, mss: u32) -> Self {
        match clamp {
            Clamp::Fixed(bytes) => SharedWindow::Fixed(bytes.0),
            Clamp::Auto => {
                SharedWindow::Auto(Box::new(AutoClamp::new(now, mss, INITIAL_SEGMENTS * u64::from(mss))))
            }
        }
    }

    /// In bytes; at least a segment of `mss` bytes.
    pub fn get(&self, mss: u32) -> u64 {
        let window = match self {
            SharedWindow::Fixed(bytes) => *bytes,
            SharedWindow::Auto(auto) => auto.window(),
        };
        window.max(u64::from(mss))
    }

    /// How fast a burst may leave.
    pub fn pace(&self, mss: u32, rtt: Option<Duration>) -> Option<BitRate> {
        let bits = u128::from(self.get(mss)) * 8 * PACING_PERCENT * 10_000_000 / rtt?.as_nanos().max(1);
        Some(BitRate::from_bits_per_sec(u64::try_from(bits).unwrap_or(u64::MAX).max(1)))
    }

    pub fn on_send(&mut self, now: Time, in_flight: u64) {
        if let SharedWindow::Auto(auto) = self {
            auto.on_send(now, in_flight);
        }
    }

    /// Less is in flight than could be, for want of data.
    pub fn on_limited(&mut self, in_flight: u64) {
        if let SharedWindow::Auto(auto) = self {
            auto.on_limited(in_flight);
        }
    }

    /// The window holds something back.
    pub fn on_full(&mut self) {
        if let SharedWindow::Auto(auto) = self {
            auto.on_full();
        }
    }

    pub fn on_delivery(&mut self, delivery: Delivery) {
        if let SharedWindow::Auto(auto) = self {
            auto.on_delivery(delivery);
        }
    }

    pub fn on_link_back(&mut self, now: Time) {
        if let SharedWindow::Auto(auto) = self {
            auto.on_link_back(now);
        }
    }
}
