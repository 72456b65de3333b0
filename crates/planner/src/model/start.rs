//! How a transfer begins: slow start, the loss that ends it, and the way from there to the steady rate.
//!
//! Cardwell et al. 2000 let the rest of a transfer go at the steady rate at once. That is wrong by far where slow
//! start ends high above the steady window: with a loss of 0.1 % it ends at some 500 segments, the steady window
//! is 41, and it takes several losses to get there, during which a short transfer is over. So here the
//! window after slow start approaches the steady one by the share that a loss leaves of it, loss by loss.
use super::{Rate, Response, backoff_series, loss_is_timeout};
use crate::Leg;

/// Quantiles of the first loss that are averaged.
const QUANTILES: usize = 12;
/// Losses after which nothing is left of slow start: 0.7³² is 10⁻⁵.
const LOSSES: usize = 32;

/// Of how many senders in twenty slow start's end is looked at: 19, whose first loss comes within 3/p segments.
const LATE: f64 = 3.0;
/// What is left of slow start when the window is this many times the steady one is not counted any more.
const SETTLED: f64 = 1.1;

/// How far slow start takes a connection above its steady rate: what buffers on its way have to hold for it to be of use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Overshoot {
    /// The largest window, in segments.
    pub window: f64,
    /// Segments until losses have brought it down to the steady one; 0 where it does not get above that.
    pub segments: f64,
}

/// The [`Overshoot`] of a connection whose first loss is late: later than that of nineteen in twenty.
pub(crate) fn overshoot(leg: &Leg, steady: Rate, response: Response) -> Overshoot {
    let usual = steady.segments_per_sec * leg.round_trip();
    let Response::KeepsShare { kept, .. } = response else {
        return Overshoot { window: usual, segments: 0.0 };
    };
    let top = leg.window_segments().min(leg.bdp_segments() + leg.queue_segments());
    let first_loss = if leg.loss > 0.0 { LATE / leg.loss } else { f64::INFINITY };
    let window = window_after(leg, first_loss.min(segments_until(leg, top))).min(top);
    if window <= SETTLED * usual {
        return Overshoot { window: window.max(usual), segments: 0.0 };
    }
    let losses = (window / (SETTLED * usual)).ln() / (1.0 / kept).ln();
    Overshoot { window, segments: if leg.loss > 0.0 { first_loss + losses / leg.loss } else { 0.0 } }
}

/// Seconds until each of `sizes` segments has arrived, counted from the arrival of the first.
pub(super) fn times(leg: &Leg, steady: Rate, response: Response, sizes: &[f64]) -> Vec<f64> {
    let Response::KeepsShare { kept, holes_per_round_trip } = response else {
        return sizes.iter().map(|n| without_loss(leg, steady, *n)).collect();
    };
    let top = leg.window_segments().min(leg.bdp_segments() + leg.queue_segments());
    let overflows = leg.window_segments() > leg.bdp_segments() + leg.queue_segments();
    let mut sum = vec![0.0; sizes.len()];
    let quantiles = if leg.loss > 0.0 { QUANTILES } else { 1 };
    for i in 0..quantiles {
        // The segments before the first loss are as good as exponential, with mean 1/p.
        let first_loss = -((i as f64 + 0.5) / quantiles as f64).ln() / leg.loss.max(1e-15);
        let until_overflow = if overflows { segments_until(leg, top) } else { f64::INFINITY };
        // A loss is noticed a round trip later, when the window has grown once more.
        let growth = 1.0 + 1.0 / leg.segments_per_ack;
        let noticed = first_loss + growth * window_after(leg, first_loss);
        let end = if quantiles == 1 { until_overflow } else { noticed.min(until_overflow) };
        let overflowed = end == until_overflow;
        // While the window grows past what link and queue hold, as much as it grows by in a round trip is lost.
        let burst = if overflowed { top / leg.segments_per_ack } else { 0.0 };
        // The repair of the first comes a round trip later, behind all that waits in the queue; the queue is empty when further
        // rounds of repairs are needed.
        let full = leg.round_trip().max(window_after(leg, end).min(top) / leg.capacity_segments());
        let repairs = if overflowed { full + burst / holes_per_round_trip * leg.round_trip() } else { 0.0 };
        let repaired = slow_start(leg, end) + repairs;
        for (total, n) in sum.iter_mut().zip(sizes) {
            let time = one_course(leg, steady, kept, end, *n);
            // Data go on meanwhile, but what comes behind a hole is delivered when the last hole is filled.
            let waits = if *n > end {
                repaired
            } else if *n > first_loss {
                slow_start(leg, end)
            } else {
                0.0
            };
            *total += time.max(waits);
        }
    }
    sum.iter().map(|total| total / quantiles as f64).collect()
}

/// The time of `n` segments when the first loss comes after `end` of them.
fn one_course(leg: &Leg, steady: Rate, kept: f64, end: f64, n: f64) -> f64 {
    if n <= end {
        return slow_start(leg, n);
    }
    let (rtt, cap) = (leg.round_trip(), leg.capacity_segments());
    let window =
        window_after(leg, end).min(leg.bdp_segments() + leg.queue_segments()).min(leg.window_segments());
    // Equation 21 of Cardwell et al.: one round trip, or a timeout where too few ACKs follow.
    let timeout = loss_is_timeout(leg.loss, window).min(if window < 4.0 { 1.0 } else { leg.loss });
    let timeout_time = backoff_series(leg.loss) * leg.rto() / (1.0 - leg.loss);
    // The segments of the lost one's window that are not lost arrive in that round trip all the same.
    let repair = (1.0 - timeout) * (1.0 - kept) * rtt + timeout * timeout_time;
    let mut time = slow_start(leg, end) + repair;
    let mut left = n - end;
    let steady_window = steady.segments_per_sec * rtt;
    let mut excess = kept * window - steady_window;
    let between_losses = if leg.loss > 0.0 { 1.0 / leg.loss } else { f64::INFINITY };
    if excess > 0.0 && between_losses.is_finite() {
        for _ in 0..LOSSES {
            // Lost segments take up the link as well.
            let rate =
                ((steady_window + excess) / rtt).min(cap * (1.0 - leg.loss)).max(steady.segments_per_sec);
            let sent = left.min(between_losses);
            time += sent / rate;
            left -= sent;
            excess *= kept;
            if left <= 0.0 {
                return time;
            }
        }
    }
    time + left / steady.segments_per_sec
}

/// Slow start for `n` segments, and then the steady rate: for those who do not leave it for a loss.
fn without_loss(leg: &Leg, steady: Rate, n: f64) -> f64 {
    let full = segments_until(leg, steady.segments_per_sec * leg.round_trip());
    if n <= full {
        return slow_start(leg, n);
    }
    slow_start(leg, full) + (n - full) / steady.segments_per_sec
}

/// Seconds from the first arrival to the `n`th in slow start.
///
/// Each round trip brings a window larger by `1 + 1/b` than the last, its segments as close together as the link
/// lets them, until windows are as long as the round trip or at the window limit.
fn slow_start(leg: &Leg, n: f64) -> f64 {
    let (rtt, cap, growth) = (leg.round_trip(), leg.capacity_segments(), 1.0 + 1.0 / leg.segments_per_ack);
    let limit = leg.window_segments();
    let mut window = f64::from(leg.initial_window).min(limit);
    let (mut time, mut left) = (0.0, n);
    loop {
        if window >= cap * rtt {
            return time + left / cap;
        }
        // The first of the window is there already.
        if left <= window {
            return time + (left - 1.0).max(0.0) / cap;
        }
        if window >= limit {
            // From here on one window each round trip.
            let rounds = (left / window).ceil() - 1.0;
            return time + rounds * rtt + (left - rounds * window - 1.0).max(0.0) / cap;
        }
        left -= window;
        time += rtt;
        window = (window * growth).min(limit);
    }
}

/// Segments that have been sent when the window reaches `window` (Cardwell et al., equation 11 solved for d).
fn segments_until(leg: &Leg, window: f64) -> f64 {
    let growth = 1.0 + 1.0 / leg.segments_per_ack;
    ((window * growth - f64::from(leg.initial_window)) / (growth - 1.0)).max(1.0)
}

/// The window when `segments` have been sent.
fn window_after(leg: &Leg, segments: f64) -> f64 {
    let growth = 1.0 + 1.0 / leg.segments_per_ack;
    (segments * (growth - 1.0) + f64::from(leg.initial_window)) / growth
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shorthaul_types::{BitRate, Bytes};

    use super::super::{LossRepair, Reno, ThroughputModel};
    use super::*;

    const RENO: Reno = Reno { recovery: LossRepair::Sack };
    const FAST: BitRate = BitRate::from_bits_per_sec(1_000_000_000_000);

    fn leg(loss: f64) -> Leg {
        Leg::new(Duration::from_millis(100), loss, FAST)
    }

    #[test]
    fn what_fits_the_initial_window_arrives_at_once() {
        let times = RENO.times(&leg(0.0), &[10.0, 11.0, 30.0, 31.0]);
        for (found, wanted) in times.iter().zip([0.0, 0.1, 0.1, 0.2]) {
            assert!((found - wanted).abs() < 1e-6, "{times:?}");
        }
    }

    #[test]
    fn a_window_limit_is_one_window_a_round_trip() {
        let limited = Leg { window_limit: Some(Bytes(20 * 1448)), ..leg(0.0) };
        // 10, 20, 20, 20: the last of 70 arrives three round trips after the first.
        assert!((RENO.times(&limited, &[70.0])[0] - 0.3).abs() < 1e-6);
    }

    #[test]
    fn a_long_transfer_takes_its_length_over_the_rate() {
        let leg = leg(0.001);
        let (n, rate) = (1e8, RENO.rate(&leg).segments_per_sec);
        assert!((RENO.times(&leg, &[n])[0] * rate / n - 1.0).abs() < 1e-3);
    }

    #[test]
    fn the_first_losses_find_a_larger_window_than_the_later_ones() {
        let leg = leg(0.001);
        let steady = RENO.rate(&leg).segments_per_sec;
        let mean = 3000.0 / RENO.times(&leg, &[3000.0])[0];
        assert!(mean > 1.2 * steady, "three losses after slow start: {mean} against {steady}");
    }

    #[test]
    fn what_slow_start_left_is_forgotten_loss_by_loss() {
        // Slow start ends at 1000 segments, of which a half is kept; the steady window is 40, 1000 segments from loss to loss.
        let leg = Leg { loss: 1e-3, ..leg(0.0) };
        let steady = Rate { segments_per_sec: 400.0, limit: super::super::Limit::Loss };
        let at = |n| one_course(&leg, steady, 0.5, segments_until(&leg, 1000.0), n);
        let end = segments_until(&leg, 1000.0);
        // The windows after the first losses are 500, 40 + 230, 40 + 115.
        for (cycle, window) in [(0.0, 500.0), (1.0, 270.0), (2.0, 155.0)] {
            let from = end + cycle * 1000.0 + 1.0;
            let rate = 900.0 / (at(from + 900.0) - at(from));
            assert!((rate / (10.0 * window) - 1.0).abs() < 0.01, "{cycle}: {rate}");
        }
    }

    #[test]
    fn newreno_repairs_what_slow_start_lost_hole_by_hole() {
        let leg = Leg { capacity: BitRate::from_bits_per_sec(32_000_000), ..leg(0.0) };
        // Twice 32 Mbit/s · 100 ms, of 1538 bytes each.
        let lost = 2.0 * leg.bdp_segments();
        let newreno = Reno { recovery: LossRepair::NewReno }.times(&leg, &[2000.0])[0];
        assert!((newreno / (lost * leg.round_trip()) - 1.0).abs() < 0.05, "{newreno} s for {lost} segments");
        assert!(RENO.times(&leg, &[2000.0])[0] < 2.0);
    }

    #[test]
    fn more_takes_longer() {
        let sizes: Vec<f64> = (0..60).map(|k| 10f64.powf(f64::from(k) / 10.0)).collect();
        for loss in [0.0, 1e-4, 1e-2] {
            let times =
                RENO.times(&Leg { capacity: BitRate::from_bits_per_sec(32_000_000), ..leg(loss) }, &sizes);
            assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{loss}: {times:?}");
        }
    }
}
