//! How long a session takes if its rate is known: set-up, slow start of the slowest leg, then that rate.
use super::belief::{RATES, Rates, rates};
use shorthaul_types::{BitRate, Bytes};
use std::time::Duration;

/// Payload bytes of a segment, and how many of them are sent at first (RFC 6928).
const SEGMENT: f64 = 1448.0;
const INITIAL_WINDOW: f64 = 10.0;
/// Handshakes, and the last byte's way: round trips of all legs together.
const SET_UP: f64 = 1.5;

/// Seconds with each rate of the grid.
pub(super) fn times(legs: &[Duration], size: Bytes) -> Rates {
    rates().map(|rate| time(legs, size, rate))
}

/// The same by a node that leaves a session no more than its share.
pub(super) fn shared_times(legs: &[Duration], size: Bytes, share: Option<BitRate>) -> Rates {
    let Some(share) = share else { return times(legs, size) };
    let least = time(legs, size, bits_per_sec(share));
    times(legs, size).map(|time| time.max(least))
}

/// Of a share that is nothing, a session takes very long.
pub(super) fn bits_per_sec(share: BitRate) -> f64 {
    (share.bits_per_sec() as f64).max(1.0)
}

/// Seconds with this rate, in bit/s.
pub(super) fn time(legs: &[Duration], size: Bytes, rate: f64) -> f64 {
    let segments = (size.0 as f64 / SEGMENT).ceil().max(1.0);
    let whole: Duration = legs.iter().sum();
    let per_second = rate / (8.0 * SEGMENT);
    let slowest = legs.iter().map(|leg| moving(leg.as_secs_f64(), per_second, segments));
    SET_UP * whole.as_secs_f64() + slowest.fold(0.0, f64::max)
}

/// Seconds from the first arrival to the last: windows that double each round trip, until they are as long as the round trip.
fn moving(round_trip: f64, per_second: f64, segments: f64) -> f64 {
    let (mut window, mut seconds, mut left) = (INITIAL_WINDOW, 0.0, segments);
    loop {
        if window >= per_second * round_trip {
            return seconds + left / per_second;
        }
        if left <= window {
            return seconds + (left - 1.0).max(0.0) / per_second;
        }
        left -= window;
        seconds += round_trip;
        window *= 2.0;
    }
}

/// How far off that is, as a logarithm: `relative`, and a part of the round trip, as servers think and set-ups differ.
pub(super) fn errors(legs: &[Duration], times: &Rates, relative: f64, of_round_trip: f64) -> Rates {
    let whole = legs.iter().sum::<Duration>().as_secs_f64();
    let errors: [f64; RATES] = times.map(|time| relative.hypot(of_round_trip * whole / time));
    errors
}
