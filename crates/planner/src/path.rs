use std::time::Duration;

use shorthaul_types::Bytes;

use crate::{Leg, PlanError};

/// A chain of TCP connections from source to destination, with a relay between each and the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// The connections, from the source on.
    pub legs: Vec<Leg>,
    /// The relays between them: one fewer.
    pub relays: Vec<Relay>,
}

/// A relay, as far as speed depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relay {
    /// What it holds at most, received and not yet acknowledged further on; `None` for as much as there is.
    pub buffer: Option<Bytes>,
}

/// More parallel connections than this are no transfer.
const MOST_STREAMS: u32 = 256;

/// What is to be moved, and how the relays go about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Payload.
    pub size: Bytes,
    /// When relays send on what they have received.
    pub forwarding: Forwarding,
    /// In which order connections are made.
    pub set_up: SetUp,
    /// Connections that share the size and the legs, each with relays' buffers of its own: at least 1.
    pub streams: u32,
}

/// When a relay sends on what it has received (section III-B of Kalim et al.).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// As it comes, after having waited for this many round trips of its outgoing leg.
    ///
    /// The paper waits [16](crate::kalim::WAIT_WINDOWS), so that the buffer does not run dry. That makes droughts rarer, but
    /// no transfer faster: what would have been sent before the drought is sent after the wait. So the default is 0.
    Pipelined {
        /// `W`.
        wait_windows: u32,
    },
    /// All of it first: each leg begins when the one before has ended.
    Stored,
}

/// How a chain's connections are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetUp {
    /// All relays are triggered at once: the first payload arrives after 1.5 round trips between the ends, by way of
    /// the relays (equation 7).
    #[default]
    Parallel,
    /// The source triggers one relay after the other, each in 1.5 round trips to it; from the last one, the rest of the
    /// way is set up as in [`SetUp::Parallel`]. With one relay both are the same.
    Sequential,
}

impl Transfer {
    /// Pipelined without waiting, set up in parallel.
    pub fn new(size: Bytes) -> Self {
        Transfer {
            size,
            forwarding: Forwarding::Pipelined { wait_windows: 0 },
            set_up: SetUp::Parallel,
            streams: 1,
        }
    }

    /// Whether there is anything to move.
    ///
    /// # Errors
    /// [`PlanError::OutOfRange`] for an empty transfer, or one by no connection or by too many.
    pub fn check(&self) -> Result<(), PlanError> {
        let wrong = |quantity, found, wanted| Err(PlanError::OutOfRange { quantity, found, wanted });
        if self.size.0 == 0 {
            return wrong("size", self.size.to_string(), "at least one byte");
        }
        if !(1..=MOST_STREAMS).contains(&self.streams) {
            return wrong("number of streams", self.streams.to_string(), "1 to 256");
        }
        Ok(())
    }

    /// What one of the streams moves.
    pub(crate) fn of_one_stream(&self) -> Transfer {
        Transfer { size: Bytes(self.size.0.div_ceil(u64::from(self.streams))), streams: 1, ..*self }
    }
}

impl Path {
    /// One connection, no relay.
    pub fn direct(leg: Leg) -> Self {
        Path { legs: vec![leg], relays: Vec::new() }
    }

    /// `relays` equal relays at equal distances on `leg`, each part with its share of round trip and loss.
    pub fn evenly_split(leg: &Leg, relays: usize, relay: Relay) -> Self {
        let part = leg.share(1.0 / (relays + 1) as f64);
        Path { legs: vec![part; relays + 1], relays: vec![relay; relays] }
    }

    /// One relay at `position` (0 at the source, 1 at the destination) of `leg`.
    ///
    /// # Errors
    /// [`PlanError::OutOfRange`] where the position is not between the ends.
    pub fn split_at(leg: &Leg, position: f64, relay: Relay) -> Result<Self, PlanError> {
        if !(position > 0.0 && position < 1.0) {
            return Err(PlanError::OutOfRange {
                quantity: "relay position",
                found: position.to_string(),
                wanted: "more than 0 and less than 1",
            });
        }
        Ok(Path { legs: vec![leg.share(position), leg.share(1.0 - position)], relays: vec![relay] })
    }

    /// The sum of the legs' round-trip times.
    pub fn round_trip(&self) -> Duration {
        self.legs.iter().map(|leg| leg.rtt).sum()
    }

    /// Whether models are defined for it.
    ///
    /// # Errors
    /// [`PlanError::Shape`], and those of [`Leg::check`].
    pub fn check(&self) -> Result<(), PlanError> {
        if self.legs.is_empty() || self.relays.len() + 1 != self.legs.len() {
            return Err(PlanError::Shape { legs: self.legs.len(), relays: self.relays.len() });
        }
        self.legs.iter().try_for_each(Leg::check)
    }

    /// Seconds until the first payload segment arrives.
    pub(crate) fn set_up_time(&self, set_up: SetUp) -> f64 {
        let whole = 1.5 * self.round_trip().as_secs_f64();
        match set_up {
            SetUp::Parallel => whole,
            SetUp::Sequential => {
                // Of N relays the first N − 1 are waited for; the last one's trigger is the parallel case.
                let mut to_relay = 0.0;
                let waited_for = self.relays.len().saturating_sub(1);
                whole
                    + self.legs[..waited_for]
                        .iter()
                        .map(|leg| {
                            to_relay += leg.rtt.as_secs_f64();
                            1.5 * to_relay
                        })
                        .sum::<f64>()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use shorthaul_types::BitRate;

    use super::*;

    fn path(rtts_ms: &[u64]) -> Path {
        let leg = |ms: &u64| Leg::new(Duration::from_millis(*ms), 0.0, BitRate::from_bits_per_sec(1_000_000));
        Path { legs: rtts_ms.iter().map(leg).collect(), relays: vec![Relay::default(); rtts_ms.len() - 1] }
    }

    #[test]
    fn set_up_takes_one_and_a_half_round_trips_and_in_sequence_those_to_the_relays_too() {
        let three = path(&[40, 20, 60]);
        assert!((three.set_up_time(SetUp::Parallel) - 0.18).abs() < 1e-12);
        // 1.5 · 40 ms to the first relay before the second is triggered.
        assert!((three.set_up_time(SetUp::Sequential) - 0.24).abs() < 1e-12);
        let four = path(&[40, 20, 60, 10]);
        assert!((four.set_up_time(SetUp::Sequential) - 1.5 * (0.13 + 0.04 + 0.06)).abs() < 1e-12);
        for short in [path(&[50]), path(&[20, 30])] {
            assert_eq!(short.set_up_time(SetUp::Sequential), short.set_up_time(SetUp::Parallel));
        }
    }

    #[test]
    fn a_path_has_one_relay_fewer_than_legs() {
        assert!(path(&[10, 20]).check().is_ok());
        let odd = Path { relays: Vec::new(), ..path(&[10, 20]) };
        assert_eq!(odd.check(), Err(PlanError::Shape { legs: 2, relays: 0 }));
        let leg = path(&[10]).legs[0];
        assert!(Path::split_at(&leg, 1.0, Relay::default()).unwrap_err().to_string().contains("position"));
    }
}
