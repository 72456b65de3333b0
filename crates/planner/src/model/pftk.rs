use super::{Limit, Rate, Response, ThroughputModel, limited};
use crate::Leg;

/// Padhye, Firoiu, Towsley, Kurose 1998 ("PFTK"): Reno with timeouts and a largest window.
///
/// A loss indication ends every round's rest (losses in a round are correlated), and its windows are those of
/// periodic losses. `W_max` here is the smaller of the window limit and what link and queue hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pftk;

/// The probability that a loss in a window of `w` segments leads to a timeout (equation 24, `Q̂`).
pub(crate) fn loss_is_timeout(p: f64, w: f64) -> f64 {
    if w <= 3.0 || p <= 0.0 {
        // The limit for p → 0 is 3/w.
        return if w <= 3.0 { 1.0 } else { 3.0 / w };
    }
    let q = 1.0 - p;
    let q3 = q.powi(3);
    let numerator = (1.0 - q3) * (1.0 + q3 * (1.0 - q.powf(w - 3.0)));
    (numerator / (1.0 - q.powf(w))).min(1.0)
}

/// `f(p)` (equation 28): the mean length of a sequence of timeouts, doubled six times, is `T0·f(p)/(1 − p)`.
pub(crate) fn backoff_series(p: f64) -> f64 {
    1.0 + p + 2.0 * p.powi(2) + 4.0 * p.powi(3) + 8.0 * p.powi(4) + 16.0 * p.powi(5) + 32.0 * p.powi(6)
}

/// The quantities that both rates are made of.
struct Cycle {
    /// `(1 − p)/p`: segments before the first loss.
    before_loss: f64,
    /// The window when a loss is found.
    window: f64,
    /// Round trips of a cycle without its timeouts.
    rounds: f64,
    timeout: f64,
    /// Seconds of timeouts in a mean cycle.
    timeout_time: f64,
}

fn cycle(leg: &Leg) -> Cycle {
    let (p, b) = (leg.loss, leg.segments_per_ack);
    let before_loss = (1.0 - p) / p;
    // Equation 13.
    let a = (2.0 + b) / (3.0 * b);
    let unlimited = a + (8.0 * (1.0 - p) / (3.0 * b * p) + a * a).sqrt();
    let largest = leg.window_segments().min(leg.bdp_segments() + leg.queue_segments()).max(1.0);
    let (window, rounds) = if unlimited < largest {
        (unlimited, b / 2.0 * unlimited + 1.0)
    } else {
        (largest, b / 8.0 * largest + before_loss / largest + 2.0)
    };
    let timeout = loss_is_timeout(p, window);
    let timeout_time = timeout * backoff_series(p) * leg.rto() / (1.0 - p);
    Cycle { before_loss, window, rounds, timeout, timeout_time }
}

impl Pftk {
    /// Segments a second that are sent, retransmissions among them: equation 31, the full model.
    pub fn send_rate(leg: &Leg) -> f64 {
        if leg.loss <= 0.0 {
            return f64::INFINITY;
        }
        let c = cycle(leg);
        (c.before_loss + c.window + c.timeout / (1.0 - leg.loss))
            / (leg.round_trip() * c.rounds + c.timeout_time)
    }

    /// Segments a second that arrive: the same with half of the last round and one segment of a timeout
    /// sequence, as in the journal version (2000, "throughput") and in equation 23 of Cardwell et al. 2000.
    pub fn throughput(leg: &Leg) -> f64 {
        if leg.loss <= 0.0 {
            return f64::INFINITY;
        }
        let c = cycle(leg);
        (c.before_loss + c.window / 2.0 + c.timeout) / (leg.round_trip() * c.rounds + c.timeout_time)
    }
}

impl ThroughputModel for Pftk {
    fn name(&self) -> &'static str {
        "pftk"
    }

    fn source(&self) -> &'static str {
        "Padhye, Firoiu, Towsley, Kurose 1998, eq. 13, 24, 28, 31, as throughput"
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
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shorthaul_types::{BitRate, Bytes};

    use super::*;

    fn leg(loss: f64) -> Leg {
        Leg::new(Duration::from_millis(100), loss, BitRate::from_bits_per_sec(100_000_000_000))
    }

    #[test]
    fn small_losses_without_timeouts_give_mathis() {
        // RTT large against the timeout, so that timeouts do not matter.
        let leg = Leg { rtt: Duration::from_secs(10), ..leg(1e-6) };
        let ratio = Pftk::throughput(&leg) / super::super::Mathis::law(&leg);
        assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
    }

    #[test]
    fn the_full_model_by_hand() {
        // p = 0.01, b = 2, RTT = 0.1 s, T0 = 0.2 s: E[W] = 12.175, Q̂ = 0.280, f(p) = 1.0102.
        let leg = Leg { segments_per_ack: 2.0, ..leg(0.01) };
        assert!((Pftk::send_rate(&leg) / 81.08 - 1.0).abs() < 1e-3, "{}", Pftk::send_rate(&leg));
        assert!((Pftk::throughput(&leg) / 76.65 - 1.0).abs() < 1e-3, "{}", Pftk::throughput(&leg));
        // W_max = 8: 16.375 rounds, Q̂ = 0.403.
        let limited = Leg { window_limit: Some(Bytes(8 * 1448)), ..leg };
        assert!((Pftk::send_rate(&limited) / 62.45 - 1.0).abs() < 1e-3, "{}", Pftk::send_rate(&limited));
    }

    #[test]
    fn sending_is_never_slower_than_arriving() {
        for loss in [1e-4, 1e-3, 1e-2, 0.1, 0.3] {
            assert!(Pftk::send_rate(&leg(loss)) >= Pftk::throughput(&leg(loss)));
        }
    }

    #[test]
    fn a_window_limit_binds_where_losses_are_rare() {
        let leg = Leg { window_limit: Some(Bytes(14480)), ..leg(1e-6) };
        let rate = Pftk.rate(&leg).segments_per_sec;
        assert!((rate / 100.0 - 1.0).abs() < 0.01, "ten segments each 100 ms, not {rate}");
    }

    #[test]
    fn a_loss_in_a_window_of_three_is_a_timeout() {
        assert_eq!(loss_is_timeout(0.01, 3.0), 1.0);
        assert!((loss_is_timeout(1e-9, 30.0) - 0.1).abs() < 1e-3);
    }
}
