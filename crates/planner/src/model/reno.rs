use super::{Limit, Rate, Response, ThroughputModel, backoff_series, loss_is_timeout};
use crate::Leg;

/// How a sender repairs what was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossRepair {
    /// RFC 6582: one hole each round trip; what a window loses beyond that costs a round trip each.
    NewReno,
    /// RFC 2018 and 6937: all holes in one round trip, while the sender goes on at the reduced window.
    Sack,
}

/// Reno under random loss, on a link with a rate and a queue: the stationary mean of its sawtooth.
///
/// Mathis and PFTK put losses at equal distances. Here each segment is lost with probability `p`, so the square
/// `y` of the window at which a loss falls is a Markov chain, `y' = min(y/4 + E, y_max)`, with `E` exponential of
/// mean `2/(bp)`; `y_max` is where the queue overflows. For small `p` and a fast link this gives
/// `1.31/√p` segments per round trip, the constant of Ott, Kemperman and Mathis 1996, in place of Mathis's 1.22.
/// Each cycle adds what its recovery costs. A closed form exists only without the limits; the chain
/// is solved on a grid, which takes microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reno {
    /// How losses are repaired.
    pub recovery: LossRepair,
}

/// Points of the grid on which the chain is solved.
const GRID: usize = 160;
/// The share of the window that Reno keeps after a loss (RFC 5681 §3.1).
const KEPT: f64 = 0.5;

impl ThroughputModel for Reno {
    fn name(&self) -> &'static str {
        match self.recovery {
            LossRepair::NewReno => "newreno",
            LossRepair::Sack => "reno",
        }
    }

    fn source(&self) -> &'static str {
        "AIMD under random loss (Ott, Kemperman, Mathis 1996) with recovery, timeouts (PFTK) and drop-tail queue"
    }

    fn rate(&self, leg: &Leg) -> Rate {
        sawtooth(leg, self.recovery)
    }

    fn relative_error(&self) -> f64 {
        0.05
    }

    fn response(&self) -> Response {
        let holes_per_round_trip = match self.recovery {
            LossRepair::NewReno => 1.0,
            LossRepair::Sack => f64::INFINITY,
        };
        Response::KeepsShare { kept: KEPT, holes_per_round_trip }
    }
}

/// The stationary mean of the sawtooth.
fn sawtooth(leg: &Leg, recovery: LossRepair) -> Rate {
    let rtt = leg.round_trip();
    let (b, bdp, clamp) = (leg.segments_per_ack, leg.bdp_segments(), leg.window_segments());
    let overflow = bdp + leg.queue_segments();
    // Without loss of its own, a way still loses when its queue overflows; the chain needs a mean all the same.
    let p = leg.loss.max(1e-12);
    let mean = 2.0 / (b * p);
    // Beyond this the chance of no loss is e⁻³⁰: no window gets there.
    let reached = (30.0 * mean).sqrt();
    let top = overflow.min(clamp).min(reached).max(2.0);

    // Equal steps of y, so that the exponential is equally well sampled everywhere.
    let step = top * top / GRID as f64;
    let survival: Vec<f64> = (0..=GRID).map(|i| (-(i as f64) * step / mean).exp()).collect();
    let start_of = |i: usize| KEPT * KEPT * (i as f64 + 0.5) * step;
    let lost_at = stationary(&survival, start_of, step, mean);

    // ∫ S dw, the weighted growth below the bandwidth-delay product, where a round lasts one RTT.
    let below = top.min(bdp);
    let growth = |w0: f64| -> f64 {
        if w0 >= below {
            return 0.0;
        }
        let n = 24;
        let h = (below - w0) / n as f64;
        let s = |w: f64| (-(w * w - w0 * w0) / mean).exp();
        let inner: f64 = (1..n).map(|k| s(w0 + k as f64 * h) * if k % 2 == 1 { 4.0 } else { 2.0 }).sum();
        (s(w0) + s(below) + inner) * h / 3.0
    };
    let survive = |w: f64, w0: f64| (-(w * w - w0 * w0).max(0.0) / mean).exp();
    let (mut time, mut segments, mut overflows) = (0.0, 0.0, 0.0);
    for (i, weight) in lost_at.iter().enumerate() {
        let peak = if i == GRID { top } else { ((i as f64 + 0.5) * step).sqrt() };
        // A window is never below one segment, whatever it is halved to.
        let w0 = (KEPT * peak).max(1.0).min(top);
        let at_top = survive(top, w0);
        let to_loss = (1.0 - at_top) / p;
        let in_queue = (survive(below.max(w0), w0) - at_top) / p;
        let mut t = b * rtt * growth(w0) + in_queue / leg.capacity_segments();
        let mut n = to_loss;
        if clamp <= overflow {
            // At the window limit it stays until a loss comes.
            n += at_top / p;
            t += at_top / p * rtt.max(clamp / leg.capacity_segments()) / clamp;
        } else {
            overflows += weight * at_top;
        }
        let (repair_time, repair_segments) = repair(leg, recovery, peak);
        time += weight * (t + repair_time);
        segments += weight * (n + repair_segments);
    }
    let rate = (segments / time * (1.0 - leg.loss)).min(leg.capacity_segments() * (1.0 - leg.loss));
    let limit = if rate >= 0.95 * leg.capacity_segments() * (1.0 - leg.loss) {
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

/// The stationary distribution of the window (squared, by grid cell) at which losses fall. The last entry is
/// the chance that it gets to the top.
fn stationary(survival: &[f64], start_of: impl Fn(usize) -> f64, step: f64, mean: f64) -> Vec<f64> {
    let mut now = vec![0.0; GRID + 1];
    now[GRID] = 1.0;
    // y/4 forgets where it started by a factor of four each time: fourteen times is 2⁻²⁸.
    for _ in 0..14 {
        // From a start y0 the next loss is beyond z with probability S(z)/S(y0). What starts in a cell adds to
        // all cells above it alike, but for that factor, so one pass with a running sum does it.
        let mut next = vec![0.0; GRID + 1];
        let mut starting = vec![0.0; GRID + 1];
        for (i, weight) in now.iter().enumerate() {
            let start = if i == GRID { KEPT * KEPT * GRID as f64 * step } else { start_of(i) };
            let cell = (start / step) as usize;
            let scale = weight / (-start / mean).exp();
            next[cell] += weight - scale * survival[cell + 1];
            starting[cell + 1] += scale;
        }
        let mut scale = 0.0;
        for j in 0..GRID {
            scale += starting[j];
            next[j] += scale * (survival[j] - survival[j + 1]);
        }
        next[GRID] += (scale + starting[GRID]) * survival[GRID];
        now = next;
    }
    now
}

/// Seconds that a mean recovery from a window of `w` takes, and new segments that it sends meanwhile.
fn repair(leg: &Leg, recovery: LossRepair, w: f64) -> (f64, f64) {
    let (p, rtt) = (leg.loss, leg.round_trip().max(w / leg.capacity_segments()));
    let timeout_time = leg.rto() * backoff_series(p) / (1.0 - p);
    match recovery {
        LossRepair::NewReno => {
            // A lost retransmission, or too few duplicate ACKs for the first of the window's losses.
            let timeout = (p + few_duplicates(p, w)).min(1.0);
            let rounds = 1.0 + p * w;
            ((1.0 - timeout) * rtt * rounds + timeout * timeout_time, 0.0)
        }
        LossRepair::Sack => {
            let timeout = (p + few_duplicates(p, w)).min(1.0);
            ((1.0 - timeout) * rtt + timeout * timeout_time, (1.0 - timeout) * KEPT * w)
        }
    }
}

/// The chance that fewer than three segments of a window arrive after its first loss. PFTK's `Q̂` also counts
/// a second loss in the last round as fatal, which it is neither for NewReno nor for SACK: the part of it that
/// vanishes with `p` is theirs, the window's tail is covered by limited transmit (RFC 3042).
fn few_duplicates(p: f64, w: f64) -> f64 {
    if w < 4.0 { loss_is_timeout(p, w) } else { (p * w).powi(2).min(1.0) * loss_is_timeout(p, w) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shorthaul_types::{BitRate, Bytes};

    use super::*;

    const FAST: BitRate = BitRate::from_bits_per_sec(1_000_000_000_000);

    fn rate(leg: &Leg) -> Rate {
        Reno { recovery: LossRepair::Sack }.rate(leg)
    }

    #[test]
    fn random_loss_gives_the_constant_of_ott_kemperman_and_mathis() {
        let leg = Leg::new(Duration::from_secs(1), 1e-6, FAST);
        let constant = rate(&leg).segments_per_sec * leg.loss.sqrt() * leg.round_trip();
        assert!((constant - 1.31).abs() < 0.01, "{constant}");
    }

    #[test]
    fn a_queue_of_one_product_fills_the_link_without_loss() {
        let leg = Leg::new(Duration::from_millis(50), 0.0, BitRate::from_bits_per_sec(500_000_000));
        let full = rate(&leg);
        assert_eq!(full.limit, Limit::Capacity);
        assert!(full.segments_per_sec > 0.99 * leg.capacity_segments());
        // A sawtooth between one half and one: three quarters.
        let none = rate(&Leg { queue_bdp: 0.0, ..leg });
        let share = none.segments_per_sec / leg.capacity_segments();
        assert!((share - 0.75).abs() < 0.02 && none.limit == Limit::Queue, "{share} {:?}", none.limit);
    }

    #[test]
    fn a_window_limit_is_what_it_says() {
        let leg = Leg { window_limit: Some(Bytes(65536)), ..Leg::new(Duration::from_millis(100), 0.0, FAST) };
        let found = rate(&leg);
        assert_eq!(found.limit, Limit::Window);
        assert!((found.segments_per_sec / (65536.0 / 1448.0 / 0.1) - 1.0).abs() < 0.01);
    }

    #[test]
    fn more_loss_is_never_faster() {
        let mut before = f64::INFINITY;
        for k in 0..60 {
            let loss = 1e-7 * 10f64.powf(f64::from(k) / 10.0);
            let now =
                rate(&Leg::new(Duration::from_millis(80), loss, BitRate::from_bits_per_sec(100_000_000)))
                    .segments_per_sec;
            assert!(now <= before * 1.005, "{loss}: {now} after {before}");
            before = now;
        }
    }
}
