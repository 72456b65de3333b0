//! A point of the map: a path, what is fetched across it, and by which way.
use std::time::Duration;

use shorthaul_types::{BitRate, Bytes};

use crate::model::by_name;
use crate::{Leg, Path, PlanError, Relay, Transfer};

/// A path between two ends, what is fetched across it, and where it could be split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MapPoint {
    /// Of the bad link, the narrowest, in bit/s: 1 Mbit/s to 500 Mbit/s.
    pub rate: f64,
    /// Of the whole path without queueing, in seconds: 10 ms to 600 ms.
    pub rtt: f64,
    /// The share of packets that the bad link loses on the way to the client: 0 to 0.03.
    pub loss: f64,
    /// How long a burst of losses lasts on average, in packets at the link's rate: 1, for losses that know nothing of each other, to 20.
    pub burst: f64,
    /// What the bad link's queue holds, in bandwidth-delay products of the whole path: 0.1 to 4, and ten packets at least.
    pub queue: f64,
    /// Congestion control of both ends.
    pub ends: Ends,
    /// The bad link's share of the round trip: 0.02 to 0.5. The gateway, or the only relay, stands at its server's side.
    pub position: f64,
    /// What is fetched, in bytes: 30 kB to 100 MB.
    pub size: f64,
}

/// Congestion control of the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "names of congestion controls")]
pub enum Ends {
    Reno,
    Cubic,
    Bbr,
    Bbr3,
}

impl Ends {
    /// All, by name.
    pub const ALL: [(&'static str, Ends); 4] =
        [("reno", Ends::Reno), ("cubic", Ends::Cubic), ("bbr", Ends::Bbr), ("bbr3", Ends::Bbr3)];
}

/// By which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One connection.
    Direct,
    /// Through a transparent gateway of which nothing is configured.
    Gateway,
    /// By one relay.
    Relay,
    /// By two: the other stands half-way between the first and the server.
    TwoRelays,
}

impl Way {
    /// All, those with less in them first.
    pub const ALL: [Way; 4] = [Way::Direct, Way::Gateway, Way::Relay, Way::TwoRelays];

    /// Its name in tables and in the survey.
    pub fn name(self) -> &'static str {
        match self {
            Way::Direct => "direct",
            Way::Gateway => "gateway",
            Way::Relay => "relay",
            Way::TwoRelays => "two relays",
        }
    }
}

/// What the trees are told, by name.
pub const FEATURES: [&str; 14] = [
    "log rate",
    "log round trip",
    "log loss",
    "log burst",
    "log queue",
    "position",
    "log size",
    "ends",
    "way",
    "log product in packets",
    "log flights",
    "log losses expected",
    "log ideal time",
    "log closed form",
];

const MTU: f64 = 1500.0;
const MSS: f64 = 1448.0;
/// For logarithms of what may be none.
const LEAST_LOSS: f64 = 1e-6;
const LEAST_LOSSES: f64 = 1e-4;

impl MapPoint {
    /// Seconds that the transfer takes at the link's rate, after two round trips.
    pub fn ideal(&self) -> f64 {
        2.0 * self.rtt + self.size * 8.0 / (self.rate * MSS / MTU)
    }

    /// Whether it lies where was simulated.
    ///
    /// # Errors
    /// [`PlanError::OutOfRange`] names what does not.
    pub fn check(&self) -> Result<(), PlanError> {
        let bounds = [
            ("rate in bit/s", self.rate, 1e6, 500e6, "1e6 to 5e8 bit/s"),
            ("round-trip time in seconds", self.rtt, 0.010, 0.600, "0.01 to 0.6 s"),
            ("loss", self.loss, 0.0, 0.03, "0 to 0.03"),
            ("burst of losses", self.burst, 1.0, 20.0, "1 to 20 packets"),
            ("queue in bandwidth-delay products", self.queue, 0.1, 4.0, "0.1 to 4"),
            ("share of the round trip", self.position, 0.02, 0.5, "0.02 to 0.5"),
            ("size in bytes", self.size, 30e3, 100e6, "3e4 to 1e8 bytes"),
        ];
        for (quantity, found, least, most, wanted) in bounds {
            // Not `found < least`: what is no number is outside, too. A tenth of a percent is rounding.
            if !(found >= 0.999 * least && found <= 1.001 * most) {
                return Err(PlanError::OutOfRange { quantity, found: found.to_string(), wanted });
            }
        }
        Ok(())
    }

    /// What the trees are told of a way over this path: [`FEATURES`], in their order.
    ///
    /// # Errors
    /// Those of [`check`](MapPoint::check).
    pub fn features(&self, way: Way) -> Result<[f64; FEATURES.len()], PlanError> {
        self.check()?;
        let segments = self.size / MSS;
        let product = self.rate * self.rtt / 8.0 / MTU;
        Ok([
            self.rate.ln(),
            self.rtt.ln(),
            self.loss.max(LEAST_LOSS).ln(),
            self.burst.ln(),
            self.queue.ln(),
            self.position,
            self.size.ln(),
            f64::from(self.ends as u8),
            f64::from(way as u8),
            product.ln(),
            (segments / product).ln(),
            (self.loss * segments).max(LEAST_LOSSES).ln(),
            self.ideal().ln(),
            self.closed_form(way)?.ln(),
        ])
    }

    /// Seconds by a closed form: of ends without one, by that of CUBIC.
    fn closed_form(&self, way: Way) -> Result<f64, PlanError> {
        let model = by_name(if self.ends == Ends::Reno { "reno" } else { "cubic" })?;
        let rtt = Duration::from_secs_f64(self.rtt);
        let rate = BitRate::from_bits_per_sec(self.rate as u64);
        let leg = Leg { queue_bdp: self.queue, ..Leg::new(rtt, self.loss, rate) };
        let path = match way {
            Way::Direct => Path::direct(leg),
            Way::Gateway | Way::Relay => self.split_once(leg),
            Way::TwoRelays => {
                let mut path = self.split_once(leg);
                let far = path.legs[0].share(0.5);
                path.legs.splice(0..1, [far, far]);
                path.relays.push(Relay::default());
                path
            }
        };
        let transfer = Transfer::new(Bytes(self.size.round() as u64));
        Ok(path.forecast_as_needed(&*model, &transfer)?.time.expected.as_secs_f64())
    }

    /// All of the loss is on the bad link.
    fn split_once(&self, leg: Leg) -> Path {
        let far = Leg { loss: 0.0, ..leg.share(1.0 - self.position) };
        let bad = Leg { loss: leg.loss, ..leg.share(self.position) };
        Path { legs: vec![far, bad], relays: vec![Relay::default()] }
    }
}
