//! How fast one TCP connection goes on one leg: one interface, many authors.

mod bbr;
mod cubic;
mod mathis;
mod pftk;
mod reno;

use std::fmt;

use shorthaul_types::BitRate;

pub use bbr::{Bbr, BbrVersion};
pub use cubic::{Cubic, LossPattern};
pub use mathis::Mathis;
pub use pftk::Pftk;
pub(crate) use pftk::{backoff_series, loss_is_timeout};
pub use reno::{Recovery, Reno};

use crate::Leg;

/// What keeps a connection from being faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// The losses of the way: less loss or a shorter round trip would help.
    Loss,
    /// The buffers of the ends: `window / RTT`.
    Window,
    /// The narrowest link, less headers.
    Capacity,
    /// The narrowest link's queue is too short to keep the link busy between one overflow and the next.
    Queue,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Limit::Loss => "loss",
            Limit::Window => "window",
            Limit::Capacity => "link rate",
            Limit::Queue => "queue",
        })
    }
}

/// A steady-state rate, and what keeps it from being more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Segments a second that arrive and are new.
    pub segments_per_sec: f64,
    /// What binds.
    pub limit: Limit,
}

impl Rate {
    /// The payload that the segments carry.
    pub fn goodput(self, leg: &Leg) -> BitRate {
        BitRate::from_bits_per_sec((self.segments_per_sec * leg.segment_bits()).round() as u64)
    }
}

/// A model of TCP's steady-state throughput.
pub trait ThroughputModel: fmt::Debug + Send + Sync {
    /// The name by which it can be asked for.
    fn name(&self) -> &'static str;

    /// Whose it is: authors, year, equation.
    fn source(&self) -> &'static str;

    /// The rate of a long transfer over `leg`, which has passed [`Leg::check`].
    fn rate(&self, leg: &Leg) -> Rate;

    /// The relative error (one standard deviation) that remains when the leg is known exactly and the transfer
    /// is long. `docs/planner.md` says where each comes from.
    fn relative_error(&self) -> f64;

    /// How sensitive the rate is to loss: `−d ln rate / d ln p`. 0.5 for Reno far from the link's rate, 0 at it.
    ///
    /// Over `n` loss events the number that really happens has the relative standard deviation `1/√n`, and the
    /// throughput this many times as much.
    fn loss_elasticity(&self, leg: &Leg) -> f64 {
        if leg.loss <= 0.0 {
            return 0.0;
        }
        // A factor of 1.5 either way smooths over the kinks of models that are a minimum of two laws.
        let at = |factor: f64| self.rate(&Leg { loss: (leg.loss * factor).min(0.5), ..*leg }).segments_per_sec;
        ((at(1.0 / 1.5) / at(1.5)).ln() / (2.0 * 1.5f64.ln())).max(0.0)
    }
}

/// The least of a rate, the window limit and the link's rate.
fn limited(leg: &Leg, rate: f64, limit: Limit) -> Rate {
    let window = leg.window_segments() / leg.round_trip();
    // Lost segments take up the link too, unless they were lost before it; assume the worse.
    let capacity = leg.capacity_segments() * (1.0 - leg.loss);
    let mut found = Rate { segments_per_sec: rate, limit };
    for (other, limit) in [(window, Limit::Window), (capacity, Limit::Capacity)] {
        if other < found.segments_per_sec {
            found = Rate { segments_per_sec: other, limit };
        }
    }
    found
}
