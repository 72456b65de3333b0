use super::{Limit, Pftk, Rate, Response, ThroughputModel, backoff_series, limited, loss_is_timeout};
use crate::Leg;

/// Cardwell, Savage, Anderson 2000, "Modeling TCP latency": short transfers, with slow start in front of PFTK.
///
/// Equation 1 adds up set-up, slow start, what its first loss costs, the rest at PFTK's rate, and the first delayed
/// ACK. Set-up is not counted here (a path's set-up is), nor the delayed ACK, which is a receiver's choice.
/// It measures until the last ACK; what is returned is one round trip less: until the last segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cardwell;

impl Cardwell {
    /// `E[L_h]`, seconds of a three-way handshake that loses a share `forward` and `back` of its packets, each time
    /// `timeout` seconds (equation 4).
    pub fn handshake(leg: &Leg, back: f64, timeout: f64) -> f64 {
        let forward = leg.loss;
        let retries = (1.0 - back) / (1.0 - 2.0 * back) + (1.0 - forward) / (1.0 - 2.0 * forward) - 2.0;
        leg.round_trip() + timeout * retries
    }

    /// `E[d_ss]`, segments of `d` that are sent before the first loss, itself among them (equation 5).
    pub fn slow_start_segments(leg: &Leg, d: f64) -> f64 {
        let p = leg.loss;
        if p <= 0.0 {
            return d;
        }
        // 1 − (1 − p)^d, without the cancellation for small p.
        ((-(d * (-p).ln_1p()).exp_m1()) * (1.0 - p) / p + 1.0).min(d)
    }

    /// Seconds of slow start for `segments` with initial window `w1` (equations 11 and 15).
    pub fn slow_start_time(leg: &Leg, segments: f64) -> f64 {
        let (rtt, w1) = (leg.round_trip(), f64::from(leg.initial_window));
        let gamma = 1.0 + 1.0 / leg.segments_per_ack;
        let largest = largest_window(leg);
        if exit_window(leg, segments) > largest {
            let grown = (largest / w1).max(1.0).ln() / gamma.ln() + 1.0;
            let rest = segments - ((gamma * largest - w1) / (gamma - 1.0)).max(0.0);
            rtt * (grown + rest / largest)
        } else {
            rtt * (segments * (gamma - 1.0) / w1 + 1.0).ln() / gamma.ln()
        }
    }

    /// Seconds from the first segment's sending to the last one's ACK, `d` segments (equations 16 to 24).
    pub fn transfer_time(leg: &Leg, d: f64) -> f64 {
        let p = leg.loss;
        let in_slow_start = Cardwell::slow_start_segments(leg, d);
        let slow_start = Cardwell::slow_start_time(leg, in_slow_start);
        if p <= 0.0 {
            return slow_start;
        }
        let loses = -(d * (-p).ln_1p()).exp_m1();
        let timeout = loss_is_timeout(p, exit_window(leg, in_slow_start).min(largest_window(leg)));
        let timeout_time = backoff_series(p) * leg.rto() / (1.0 - p);
        let recovery = loses * (timeout * timeout_time + (1.0 - timeout) * leg.round_trip());
        slow_start + recovery + (d - in_slow_start).max(0.0) / Cardwell.rate(leg).segments_per_sec
    }
}

/// `E[W_ss]`, the window after `segments` of slow start (equation 11).
fn exit_window(leg: &Leg, segments: f64) -> f64 {
    let gamma = 1.0 + 1.0 / leg.segments_per_ack;
    segments * (gamma - 1.0) / gamma + f64::from(leg.initial_window) / gamma
}

/// `W_max`: the window limit, or what keeps the link busy, beyond which a window is not faster.
fn largest_window(leg: &Leg) -> f64 {
    leg.window_segments().min(leg.bdp_segments()).max(1.0)
}

impl ThroughputModel for Cardwell {
    fn name(&self) -> &'static str {
        "cardwell"
    }

    fn source(&self) -> &'static str {
        "Cardwell, Savage, Anderson 2000, eq. 5, 11, 15 to 24, over PFTK"
    }

    fn rate(&self, leg: &Leg) -> Rate {
        limited(leg, Pftk::throughput(leg), Limit::Loss)
    }

    fn relative_error(&self) -> f64 {
        0.15
    }

    fn response(&self) -> Response {
        Response::keeps(0.5)
    }

    fn times(&self, leg: &Leg, sizes: &[f64]) -> Vec<f64> {
        sizes.iter().map(|d| (Cardwell::transfer_time(leg, *d) - leg.round_trip()).max(0.0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shorthaul_types::BitRate;

    use super::*;

    fn leg(loss: f64) -> Leg {
        Leg::new(Duration::from_millis(100), loss, BitRate::from_bits_per_sec(1_000_000_000_000))
    }

    #[test]
    fn without_loss_windows_double_each_round_trip() {
        // 10 + 20 + 40 + 80 segments: four round trips.
        assert!((Cardwell::transfer_time(&leg(0.0), 150.0) - 0.4).abs() < 1e-6);
        // With one ACK for two segments a window grows by a half: 10 + 15 + 22.5.
        let delayed = Leg { segments_per_ack: 2.0, ..leg(0.0) };
        assert!((Cardwell::transfer_time(&delayed, 47.5) - 0.3).abs() < 1e-6);
    }

    #[test]
    fn one_over_p_segments_pass_before_the_first_loss() {
        // Equation 5 for d → ∞ is (1 − p)/p + 1 = 1/p.
        assert!((Cardwell::slow_start_segments(&leg(0.01), 1e9) - 100.0).abs() < 1e-6);
        // A transfer of 1/p segments: (1 − 1/e)/p in the limit of small p.
        let found = Cardwell::slow_start_segments(&leg(1e-5), 1e5);
        assert!((found / 1e5 - 0.632).abs() < 1e-3, "{found}");
    }

    #[test]
    fn a_long_transfer_goes_at_the_rate_of_pftk() {
        let (leg, d) = (leg(0.001), 1e7);
        let ratio = d / Cardwell::transfer_time(&leg, d) / Cardwell.rate(&leg).segments_per_sec;
        assert!((ratio - 1.0).abs() < 1e-3, "{ratio}");
    }

    #[test]
    fn a_handshake_waits_for_its_lost_packets() {
        assert!((Cardwell::handshake(&leg(0.0), 0.0, 3.0) - 0.1).abs() < 1e-6);
        // 0.99/0.98 − 1 for each direction, 3 s each.
        let lossy = Cardwell::handshake(&leg(0.01), 0.01, 3.0);
        assert!((lossy - 0.1 - 6.0 * (0.99 / 0.98 - 1.0)).abs() < 1e-6);
    }
}
