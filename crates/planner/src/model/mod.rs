//! How fast one TCP connection goes on one leg: one interface, many authors.

mod bbr;
mod cardwell;
mod cubic;
mod mathis;
mod pftk;
mod reno;
mod start;

use std::fmt;

use shorthaul_congestion::Algorithm;
use shorthaul_tcp::SenderProfile;
use shorthaul_types::BitRate;

pub use bbr::{Bbr, BbrVersion};
pub use cardwell::Cardwell;
pub use cubic::{Cubic, LossPattern};
pub use mathis::Mathis;
pub use pftk::Pftk;
pub(crate) use pftk::{backoff_series, loss_is_timeout};
pub use reno::{LossRepair, Reno};
pub(crate) use start::{Overshoot, overshoot};

use crate::{Leg, PlanError};

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
    /// The buffer of the relay at the leg's far end: it bounds what is in flight, and runs dry or full.
    Buffer,
    /// Set-up and slow start: the transfer is over before anything else can bind.
    Start,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Limit::Loss => "loss",
            Limit::Window => "window",
            Limit::Capacity => "link rate",
            Limit::Queue => "queue",
            Limit::Buffer => "relay buffer",
            Limit::Start => "set-up and slow start",
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

/// What a sender does about a loss, as far as the start of a transfer depends on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Response {
    /// It leaves slow start.
    KeepsShare {
        /// The share of its window that it keeps.
        kept: f64,
        /// How many lost segments it repairs in a round trip: 1 for NewReno, infinitely many with SACK.
        holes_per_round_trip: f64,
    },
    /// It goes by the delivery rate and does not care for single losses.
    GoesByRate,
}

impl Response {
    /// Keeps this share of its window and repairs all losses in a round trip.
    pub const fn keeps(kept: f64) -> Self {
        Response::KeepsShare { kept, holes_per_round_trip: f64::INFINITY }
    }
}

/// A model of TCP's throughput: at what rate a long transfer goes, and how long any transfer takes.
///
/// Everything else in this crate is built on this trait alone, so a model of one's own takes part in
/// forecasts, placement and comparisons with a simulation like those that are here.
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

    /// How the sender answers a loss.
    fn response(&self) -> Response;

    /// Seconds from the arrival of the first segment to that of the last, for each of `sizes` (in segments,
    /// ascending), on a connection that has just been set up and whose sender never waits for data.
    ///
    /// By default slow start, its end, and the way from there to [`rate`](Self::rate): see `docs/planner.md`.
    fn times(&self, leg: &Leg, sizes: &[f64]) -> Vec<f64> {
        start::times(leg, self.rate(leg), self.response(), sizes)
    }

    /// How sensitive the rate is to loss: `−d ln rate / d ln p`. 0.5 for Reno far from the link's rate, 0 at it.
    ///
    /// Over `n` loss events the number that really happens has the relative standard deviation `1/√n`, and the
    /// throughput this many times as much.
    fn loss_elasticity(&self, leg: &Leg) -> f64 {
        if leg.loss <= 0.0 {
            return 0.0;
        }
        // A factor of 1.5 either way smooths over the kinks of models that are a minimum of two laws.
        let at =
            |factor: f64| self.rate(&Leg { loss: (leg.loss * factor).min(0.5), ..*leg }).segments_per_sec;
        ((at(1.0 / 1.5) / at(1.5)).ln() / (2.0 * 1.5f64.ln())).max(0.0)
    }
}

/// The models by their names: the most exact for its congestion control first.
pub fn all() -> Vec<Box<dyn ThroughputModel>> {
    vec![
        Box::new(Reno { recovery: LossRepair::Sack }),
        Box::new(Reno { recovery: LossRepair::NewReno }),
        Box::new(Cubic { losses: LossPattern::Random }),
        Box::new(Cubic { losses: LossPattern::Periodic }),
        Box::new(Bbr { version: BbrVersion::V3 }),
        Box::new(Bbr { version: BbrVersion::V1 }),
        Box::new(Mathis),
        Box::new(Pftk),
        Box::new(Cardwell),
    ]
}

/// The model of that [name](ThroughputModel::name).
///
/// # Errors
/// Says which names there are.
pub fn by_name(name: &str) -> Result<Box<dyn ThroughputModel>, PlanError> {
    let found = all().into_iter().find(|model| model.name() == name);
    found.ok_or_else(|| PlanError::NoModel {
        found: name.to_string(),
        names: all().iter().map(|model| model.name()).collect::<Vec<_>>().join(", "),
    })
}

/// The name of the model that goes with such a sender, whose connections have selective acknowledgments or not.
///
/// Congestion controls without a model of their own are taken for Reno: all of them halve about their window.
pub fn name_for(sender: &SenderProfile, sack: bool) -> &'static str {
    match sender.congestion {
        Algorithm::Cubic => "cubic",
        Algorithm::Bbr => "bbr",
        Algorithm::Bbr3 => "bbr3",
        _ if sender.loss_detection.for_peer(sack).uses_sack() => "reno",
        _ => "newreno",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_has_a_model_and_a_name_means_the_same_everywhere() {
        for name in SenderProfile::names() {
            let profile = SenderProfile::named(name).unwrap();
            let model = by_name(name_for(&profile, profile.sack)).unwrap();
            // A model that is called like a congestion control is the one of that control.
            if by_name(profile.congestion.name()).is_ok() && profile.sack {
                assert_eq!(model.name(), profile.congestion.name(), "{name}");
            }
        }
        let version = |name: &str| by_name(name).unwrap().source();
        assert_eq!(version("bbr"), version("bbr3"));
        let lossy = Leg {
            loss: 0.1,
            ..Leg::new(std::time::Duration::from_millis(50), 0.0, BitRate::from_bits_per_sec(10_000_000))
        };
        let rate = |name: &str| by_name(name).unwrap().rate(&lossy).segments_per_sec;
        assert!(rate("bbr") > 5.0 * rate("bbr3"), "version 1 does not mind a loss of 10 %, version 3 does");
    }
}
