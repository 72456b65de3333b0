//! Equations 1 to 9 of Kalim, Gardner, Brown, Feng, "Cascaded TCP", as they are printed.
//!
//! They are here to be compared with. Forecasts use [`crate::Path`], which knows the link's rate, slow start,
//! recovery and buffers. Where the printed equation cannot be meant, the deviation stands beside it.

use std::time::Duration;

use shorthaul_types::Bytes;

use crate::Leg;
use crate::model::Mathis;

/// The default of `W`: the round trips in which the authors' senders grew their windows to 64 KB (section III-B).
pub const WAIT_WINDOWS: u32 = 16;

/// Equation 5, `T_lh = S·RTT·√p / (c·MSS)`, in seconds: the transfer without relays. Zero without loss.
pub fn long_haul_time(leg: &Leg, size: Bytes) -> f64 {
    segments(leg, size) / Mathis::law(leg)
}

/// Which leg is the slowest: `k` of equation 6, the first of equals.
///
/// The paper prints `arg min{RTT_i·√p_i}` and adds "that is the link with the lowest available bandwidth". By
/// equation 4 the slowest leg has the *largest* `RTT·√p`, so `arg max` is meant, and implemented.
/// `None` where there are no legs.
pub fn slowest_leg(legs: &[Leg]) -> Option<usize> {
    let slowness = |leg: &Leg| 1.0 / Mathis::law(leg);
    // The last of equal maxima wins in `max_by`, the first of equals is wanted.
    (0..legs.len()).rev().max_by(|a, b| slowness(&legs[*a]).total_cmp(&slowness(&legs[*b])))
}

/// Equation 6, `T_pc`, in seconds: the slowest leg's time and `W` round trips of every leg.
pub fn pipelined_time(legs: &[Leg], size: Bytes, wait_windows: u32) -> f64 {
    let slowest = slowest_leg(legs).map_or(0.0, |k| long_haul_time(&legs[k], size));
    slowest + f64::from(wait_windows) * legs.iter().map(|leg| leg.rtt.as_secs_f64()).sum::<f64>()
}

/// Equation 7, `T_setup = 1.5·RTT`, in seconds: all relays are triggered in parallel. `rtt` is that between the ends.
pub fn parallel_set_up(rtt: Duration) -> f64 {
    1.5 * rtt.as_secs_f64()
}

/// Section III-C, `T_setup = Σ 1.5·RTT_i`, in seconds: one relay after the other.
///
/// What `RTT_i` is remains open. Were it the legs', the sum would be that of equation 7 and parallel triggering
/// would gain nothing; so give the round trips from the source to each relay.
pub fn sequential_set_up(rtts: &[Duration]) -> f64 {
    rtts.iter().map(|rtt| 1.5 * rtt.as_secs_f64()).sum()
}

/// Equation 1 with 6 and 7, in seconds: everything, set up in parallel.
pub fn cascaded_time(legs: &[Leg], size: Bytes, wait_windows: u32) -> f64 {
    parallel_set_up(legs.iter().map(|leg| leg.rtt).sum()) + pipelined_time(legs, size, wait_windows)
}

/// Equations 2 and 3, `T_overhead < T_lh − T_transfer`: whether relays pay.
pub fn worthwhile(direct: &Leg, legs: &[Leg], size: Bytes, wait_windows: u32) -> bool {
    cascaded_time(legs, size, wait_windows) < long_haul_time(direct, size)
}

/// Equation 8, `R^{3/2}·K` with `R = N + 1`: segments a second with `relays` at equal distances.
///
/// The paper leaves out Mathis's constant; it is in here (`K` is equation 4 whole), since a throughput without it is
/// a bound that nothing reaches for.
pub fn equal_relays_rate(leg: &Leg, relays: u32) -> f64 {
    f64::from(relays + 1).powf(1.5) * Mathis::law(leg)
}

/// Equation 9, `∂B/∂R = (3/2)·R^{1/2}·K`: segments a second that one more relay adds.
pub fn equal_relays_slope(leg: &Leg, relays: u32) -> f64 {
    1.5 * f64::from(relays + 1).sqrt() * Mathis::law(leg)
}

fn segments(leg: &Leg, size: Bytes) -> f64 {
    size.0 as f64 / f64::from(leg.framing.mss())
}

#[cfg(test)]
mod tests {
    use shorthaul_types::BitRate;

    use super::*;

    fn leg(rtt_ms: u64, loss: f64) -> Leg {
        Leg::new(Duration::from_millis(rtt_ms), loss, BitRate::from_bits_per_sec(1_000_000_000_000))
    }

    #[test]
    fn the_slowest_leg_is_the_largest_of_rtt_times_root_p() {
        assert_eq!(slowest_leg(&[leg(10, 0.001), leg(40, 0.001), leg(20, 0.001)]), Some(1));
        assert_eq!(slowest_leg(&[leg(10, 0.09), leg(20, 0.01)]), Some(0), "30·0.1 against 20·0.1");
        assert_eq!(slowest_leg(&[]), None);
    }

    #[test]
    fn one_relay_in_the_middle_is_two_to_the_three_halves_as_fast() {
        let whole = leg(128, 0.001);
        let gain = equal_relays_rate(&whole, 1) / equal_relays_rate(&whole, 0);
        assert!((gain - 2.828).abs() < 0.001);
        // Equation 8 is what equation 6 says of legs with equal shares of round trip and loss, without waiting.
        let size = Bytes(1_000_000_000);
        for relays in 0..8u32 {
            let legs = vec![whole.share(1.0 / f64::from(relays + 1)); relays as usize + 1];
            let rate = segments(&whole, size) / pipelined_time(&legs, size, 0);
            assert!((rate / equal_relays_rate(&whole, relays) - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn equation_nine_is_the_slope_of_equation_eight() {
        let whole = leg(128, 0.001);
        let (h, k) = (1e-6f64, Mathis::law(&whole));
        let difference = ((3.0 + h).powf(1.5) - (3.0 - h).powf(1.5)) / (2.0 * h) * k;
        assert!((equal_relays_slope(&whole, 2) / difference - 1.0).abs() < 1e-6);
    }

    #[test]
    fn mathis_by_hand() {
        // 1448·8 bit · √1.5 / (0.064 s · √0.001) = 7.01 Mbit/s.
        let rate = Mathis::law(&leg(64, 0.001)) * 1448.0 * 8.0;
        assert!((rate / 7.01e6 - 1.0).abs() < 1e-3, "{rate}");
        // b = 2, delayed ACKs: c = 0.87.
        let delayed = Leg { segments_per_ack: 2.0, ..leg(64, 0.001) };
        assert!((Mathis::law(&leg(64, 0.001)) / Mathis::law(&delayed) - 2f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn waiting_costs_sixteen_round_trips_and_can_outweigh_the_gain() {
        let (whole, half) = (leg(128, 0.001), leg(128, 0.001).share(0.5));
        let legs = [half, half];
        let wait = pipelined_time(&legs, Bytes(1), WAIT_WINDOWS) - pipelined_time(&legs, Bytes(1), 0);
        assert!((wait - 16.0 * 0.128).abs() < 1e-9);
        assert!(worthwhile(&whole, &legs, Bytes(100_000_000), WAIT_WINDOWS));
        assert!(!worthwhile(&whole, &legs, Bytes(100_000), WAIT_WINDOWS));
    }

    #[test]
    fn set_up_in_sequence_is_never_shorter() {
        let to_relays = [Duration::from_millis(40), Duration::from_millis(80), Duration::from_millis(128)];
        assert!((sequential_set_up(&to_relays) - 0.372).abs() < 1e-9);
        assert!((parallel_set_up(to_relays[2]) - 0.192).abs() < 1e-9);
    }
}
