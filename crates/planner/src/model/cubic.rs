use super::{Limit, Rate, Response, ThroughputModel, backoff_series};
use crate::Leg;

/// How losses are spread over the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossPattern {
    /// Every `1/p`th, as RFC 9438 assumes.
    Periodic,
    /// Each with probability `p`, as links do.
    Random,
}

/// CUBIC (RFC 9438).
///
/// *Periodic* loss: the average window of §5, equation 5,
/// `(C(3+β)/4(1−β))^¼ · (RTT/p)^¾` segments, or that of Reno, `√(3/2p)`, where it is larger (the Reno-friendly
/// region, §4.3).
///
/// *Random* loss: the window at which losses fall is a Markov chain, as in Poojary and Sharma 2015 ("An asymptotic
/// approximation of TCP CUBIC"), who find `1.3004·(RTT/p)^¾` where the RFC has 1.0538. The chain is solved here on
/// a grid, with the Reno-friendly window, the link's rate, its queue and the window limit in the growth itself.
/// Recovery costs one round trip at the reduced window. Fast convergence (§4.7) is not modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cubic {
    /// How losses are spread.
    pub losses: LossPattern,
}

/// `C` in segments per second cubed (§5.1).
const C: f64 = 0.4;
/// `β_cubic`, the share of the window that is kept (§4.6).
const KEPT: f64 = 0.7;
/// `α_cubic`, the Reno-friendly window's growth in a round trip (§4.3).
const ALPHA: f64 = 3.0 * (1.0 - KEPT) / (1.0 + KEPT);
/// Cells of the grid of windows.
const GRID: usize = 40;
/// Steps in which a cycle is integrated.
const STEPS: usize = 80;

impl Cubic {
    /// The average window in segments of RFC 9438 §5 equation 5, or Reno's where that is larger.
    pub fn periodic_window(leg: &Leg) -> f64 {
        let cubic =
            (C * (3.0 + KEPT) / (4.0 * (1.0 - KEPT))).powf(0.25) * (leg.round_trip() / leg.loss).powf(0.75);
        cubic.max((1.5 / leg.loss).sqrt())
    }
}

impl ThroughputModel for Cubic {
    fn name(&self) -> &'static str {
        match self.losses {
            LossPattern::Periodic => "cubic-rfc",
            LossPattern::Random => "cubic",
        }
    }

    fn source(&self) -> &'static str {
        match self.losses {
            LossPattern::Periodic => "RFC 9438 section 5, eq. 5, and section 4.3",
            LossPattern::Random => "RFC 9438 under random loss (Poojary, Sharma 2015), with drop-tail queue",
        }
    }

    fn rate(&self, leg: &Leg) -> Rate {
        match self.losses {
            LossPattern::Periodic => {
                super::limited(leg, Cubic::periodic_window(leg) / leg.round_trip(), Limit::Loss)
            }
            LossPattern::Random => random(leg),
        }
    }

    fn relative_error(&self) -> f64 {
        match self.losses {
            LossPattern::Periodic => 0.2,
            LossPattern::Random => 0.1,
        }
    }

    fn response(&self) -> Response {
        Response::keeps(KEPT)
    }
}

/// A cycle from just after one loss to the next.
#[derive(Clone, Copy, Default)]
struct Cycle {
    seconds: f64,
    segments: f64,
    overflow: f64,
}

fn random(leg: &Leg) -> Rate {
    let rtt = leg.round_trip();
    let clamp = leg.window_segments();
    let overflow = leg.bdp_segments() + leg.queue_segments();
    let p = leg.loss.max(1e-12);
    // Well beyond what random losses let it reach: four times the asymptotic mean of either law.
    let reached = 4.0 * (1.3 * (rtt / p).powf(0.75)).max((1.5 / p).sqrt());
    let top = overflow.min(clamp).min(reached).max(2.0);
    let edge = |i: usize| top * i as f64 / GRID as f64;
    let middle = |i: usize| if i == GRID { top } else { (edge(i) + edge(i + 1)) / 2.0 };

    let mut cycles = vec![Cycle::default(); GRID + 1];
    let mut moves = vec![vec![0.0; GRID + 1]; GRID + 1];
    for i in 0..=GRID {
        cycles[i] = integrate(leg, middle(i), top, |window, chance| {
            let j = ((window / top * GRID as f64) as usize).min(GRID);
            moves[i][j] += chance;
        });
        let repair = rtt.max(middle(i) / leg.capacity_segments());
        let timeout = if middle(i) < 4.0 { 1.0 } else { leg.loss };
        let timeout_time = leg.rto() * backoff_series(leg.loss) / (1.0 - leg.loss);
        cycles[i].seconds += (1.0 - timeout) * repair + timeout * timeout_time;
        cycles[i].segments += (1.0 - timeout) * KEPT * middle(i);
    }
    let mut at = vec![0.0; GRID + 1];
    at[GRID] = 1.0;
    // What is left of the start shrinks by about 0.7 each time.
    for _ in 0..60 {
        let mut next = vec![0.0; GRID + 1];
        for (weight, row) in at.iter().zip(&moves) {
            for (cell, chance) in next.iter_mut().zip(row) {
                *cell += weight * chance;
            }
        }
        let moved: f64 = at.iter().zip(&next).map(|(before, after)| (before - after).abs()).sum();
        at = next;
        if moved < 1e-6 {
            break;
        }
    }
    let (mut seconds, mut segments, mut overflows) = (0.0, 0.0, 0.0);
    for (weight, cycle) in at.iter().zip(&cycles) {
        seconds += weight * cycle.seconds;
        segments += weight * cycle.segments;
        overflows += weight * cycle.overflow;
    }
    let arriving = 1.0 - leg.loss;
    let rate = (segments / seconds).min(leg.capacity_segments()) * arriving;
    let limit = if rate >= 0.95 * leg.capacity_segments() * arriving {
        Limit::Capacity
    } else if clamp < f64::INFINITY && rate >= 0.9 * clamp / rtt.max(clamp / leg.capacity_segments()) {
        Limit::Window
    } else if overflows > 0.5 {
        Limit::Queue
    } else {
        Limit::Loss
    };
    Rate { segments_per_sec: rate, limit }
}

/// Follows the window from the loss at `peak` and tells `lost` at which windows the next one falls, and how
/// probably. What has not been lost at the `top` is lost there: by overflow, or later at the window limit.
fn integrate(leg: &Leg, peak: f64, top: f64, mut lost: impl FnMut(f64, f64)) -> Cycle {
    let (rtt, p) = (leg.round_trip(), leg.loss.max(1e-12));
    let start = (KEPT * peak).max(1.0).min(top);
    // Equation 2 of §4.2.
    let k = (peak * (1.0 - KEPT) / C).cbrt();
    // When this way of growing reaches the top, or a window without loss has become as good as impossible.
    let cubic_end = k + ((top - peak).max(0.0) / C).cbrt();
    let reno_end = reno_time(start, peak, top, rtt);
    let grown = cubic_end.min(reno_end);
    let unlikely = 12.0 / p * rtt / start;
    let clamped = leg.window_segments() <= leg.bdp_segments() + leg.queue_segments();
    let end = grown.min(unlikely);
    let h = end / STEPS as f64;
    let mut alive = 1.0;
    let mut cycle = Cycle::default();
    for n in 0..STEPS {
        let t = (n as f64 + 0.5) * h;
        let cubic = C * (t - k).powi(3) + peak;
        let window = cubic.max(reno_window(start, peak, t, rtt)).clamp(start, top);
        let rate = (window / rtt).min(leg.capacity_segments());
        let loses = -(-p * rate * h).exp_m1();
        lost(window, alive * loses);
        // Within a step the mean of what is sent before a loss is exact for a constant rate.
        let sent = alive * loses / p;
        cycle.segments += sent;
        cycle.seconds += sent / rate;
        alive *= 1.0 - loses;
    }
    lost(top, alive);
    if clamped || end < grown {
        let rate = (top / rtt).min(leg.capacity_segments());
        cycle.segments += alive / p;
        cycle.seconds += alive / p / rate;
    } else {
        cycle.overflow = alive;
    }
    cycle
}

/// The Reno-friendly window `W_est` after `t` seconds: α a round trip until the last peak, then 1 (§4.3).
fn reno_window(start: f64, peak: f64, t: f64, rtt: f64) -> f64 {
    let until_peak = (peak - start) / ALPHA * rtt;
    if t <= until_peak { start + ALPHA * t / rtt } else { peak + (t - until_peak) / rtt }
}

/// When `W_est` reaches `window`.
fn reno_time(start: f64, peak: f64, window: f64, rtt: f64) -> f64 {
    if window <= peak {
        (window - start).max(0.0) / ALPHA * rtt
    } else {
        ((peak - start) / ALPHA + (window - peak)) * rtt
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shorthaul_types::BitRate;

    use super::*;

    const FAST: BitRate = BitRate::from_bits_per_sec(10_000_000_000_000);

    #[test]
    fn periodic_loss_gives_the_table_of_the_rfc() {
        // RFC 9438 section 5.2, table 2 (RTT 0.1 s): average windows of Reno and CUBIC with C = 0.4.
        for (loss, window) in [(1e-3, 38.7), (1e-4, 187.0), (1e-5, 1054.0), (1e-6, 5926.0)] {
            let leg = Leg::new(Duration::from_millis(100), loss, FAST);
            let found = Cubic::periodic_window(&leg);
            assert!((found / window - 1.0).abs() < 0.02, "{loss}: {found}, not {window}");
        }
    }

    #[test]
    fn random_loss_gives_the_constant_of_poojary_and_sharma() {
        // A long round trip and little loss: far from the Reno-friendly region.
        let leg = Leg::new(Duration::from_secs(1), 1e-5, FAST);
        let rate = Cubic { losses: LossPattern::Random }.rate(&leg).segments_per_sec;
        let constant = rate * leg.round_trip() / (leg.round_trip() / leg.loss).powf(0.75);
        assert!((constant / 1.3004 - 1.0).abs() < 0.03, "{constant}");
    }

    #[test]
    fn a_short_queue_costs_less_than_with_reno() {
        // From 0.7 up again along a cubic curve: RFC 9438's W_cubic averages (3 + β)/4 of its peak.
        let leg = Leg {
            queue_bdp: 0.0,
            ..Leg::new(Duration::from_millis(100), 0.0, BitRate::from_bits_per_sec(1_000_000_000))
        };
        let found = Cubic { losses: LossPattern::Random }.rate(&leg);
        let share = found.segments_per_sec / leg.capacity_segments();
        assert!((share - 0.925).abs() < 0.02 && found.limit == Limit::Queue, "{share}");
    }
}
