//! A relay's buffer between two legs of uneven speed: how often it is empty, how often full, how large it should be.
//!
//! Both legs' throughput wanders, since losses come at random. What the buffer holds beyond what TCP needs in it is
//! taken for a Brownian motion between two walls, empty and full, with drift `in − out` and the sum of both
//! variances (Harrison 1985, *Brownian Motion and Stochastic Flow Systems*, chapter 5). Where walls are so close
//! that nothing is held at all, both legs go in step, at each moment's slower speed. Between the two extremes losses of
//! throughput combine as `1/(1/a + 1/b)`; two Reno senders simulated in tandem agree within 2 % when they are equally
//! fast and within 7 % when one is up to half as fast again (`tests/suite/tandem.rs`).

use shorthaul_types::Bytes;

/// One leg's throughput as seen over a long time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Mean, in bytes a second.
    pub rate: f64,
    /// How fast the variance of what has been carried grows, in bytes² a second.
    ///
    /// Of a sender that answers losses it is `rate·(e/p)·e·mss`, with `e` the elasticity of its rate to loss: over `n`
    /// losses the throughput has a relative standard deviation of `e/√n`.
    pub variance: f64,
    /// The standard deviation of the speed at one moment, in bytes a second.
    ///
    /// Of Reno under random loss it is 0.4 of the mean: 0.8 times its elasticity (the stationary window of the same chain).
    pub deviation: f64,
}

impl Flow {
    /// Speed that does not vary, in bytes a second.
    pub const fn steady(rate: f64) -> Self {
        Flow { rate, variance: 0.0, deviation: 0.0 }
    }

    /// The flow at `share` of its rate, with the same relative variation.
    #[must_use]
    pub fn scaled(self, share: f64) -> Self {
        Flow {
            rate: share * self.rate,
            variance: share * share * self.variance,
            deviation: share * self.deviation,
        }
    }
}

/// What happens at a relay in the long run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coupling {
    /// Bytes a second that pass.
    pub rate: f64,
    /// *Drought*: the share of its possible throughput that the outgoing leg loses because the buffer is empty.
    pub drought: f64,
    /// *Overflow*: the share that the incoming leg loses because the buffer is full and its window closed.
    pub overflow: f64,
    /// Whether the buffer is smaller than TCP needs even between two legs without any variation.
    pub too_small: bool,
}

/// Throughput across a relay that holds at most `buffer` bytes between `incoming` and `outgoing`.
///
/// `round_trips` is the sum of both legs' round-trip times in seconds: a byte's place is promised to the sender one
/// incoming round trip before it comes, and freed one outgoing round trip after it is first sent. So no more than
/// `buffer/round_trips` can pass, and only what is left over that absorbs variation.
pub fn couple(incoming: Flow, outgoing: Flow, buffer: Bytes, round_trips: f64) -> Coupling {
    let least = incoming.rate.min(outgoing.rate);
    let passes = |rate: f64| through(incoming, outgoing, buffer.0 as f64 - rate * round_trips);
    let mut rate = passes(least);
    if rate < least {
        // What passes and what is in flight depend on each other: the more in flight, the less room.
        let (mut low, mut high) = (0.0, least);
        for _ in 0..60 {
            rate = 0.5 * (low + high);
            if passes(rate) >= rate { low = rate } else { high = rate }
        }
    }
    Coupling {
        rate,
        drought: (1.0 - rate / outgoing.rate).max(0.0),
        overflow: (1.0 - rate / incoming.rate).max(0.0),
        too_small: (buffer.0 as f64) < least * round_trips,
    }
}

/// What a relay sends on, for the relay after it: it varies as the slower of both legs does.
pub(crate) fn passed_on(incoming: Flow, outgoing: Flow, coupling: &Coupling) -> Flow {
    let slower = if incoming.rate < outgoing.rate { incoming } else { outgoing };
    slower.scaled(coupling.rate / slower.rate)
}

/// Bytes a second that pass when `room` bytes absorb variation.
fn through(incoming: Flow, outgoing: Flow, room: f64) -> f64 {
    let least = incoming.rate.min(outgoing.rate);
    let in_step = in_step(incoming, outgoing);
    if room < 0.0 {
        return 0.0;
    }
    if in_step <= 0.0 {
        return least;
    }
    // The regulators' rates of Harrison 1985 §5.5: drought μ/(e^{2μ·room/σ²} − 1), overflow the same and μ more.
    let drift = (incoming.rate - outgoing.rate).abs();
    let variance = incoming.variance + outgoing.variance;
    let between_walls = variance / (2.0 * room) * ratio(2.0 * drift * room / variance);
    (least - 1.0 / (1.0 / between_walls + 1.0 / in_step)).max(0.0)
}

/// Bytes a second by which the slower of two speeds is, on average, below the slower mean: `s·(φ(z) − z·Φ(−z))` for
/// normal speeds whose means are `z·s` apart.
fn in_step(incoming: Flow, outgoing: Flow) -> f64 {
    let s = incoming.deviation.hypot(outgoing.deviation);
    if s <= 0.0 {
        return 0.0;
    }
    let z = (incoming.rate - outgoing.rate).abs() / s;
    let (density, above) = normal(z);
    // A normal speed can be negative, which counts when one leg is far faster: then it is as if both were equally slow.
    let least = incoming.rate.min(outgoing.rate);
    let equal = least * (incoming.deviation / incoming.rate).hypot(outgoing.deviation / outgoing.rate);
    (s * (density - z * above)).clamp(0.0, (equal * normal(0.0).0).min(0.9 * least))
}

/// `x/(eˣ − 1)`, 1 at zero.
fn ratio(x: f64) -> f64 {
    if x < 1e-9 { 1.0 } else { x / x.exp_m1() }
}

/// The buffer that holds what is in flight, and room enough that variation costs no more than the share `tolerance` of
/// the slower leg's throughput.
pub fn needed(incoming: Flow, outgoing: Flow, round_trips: f64, tolerance: f64) -> Bytes {
    let in_flight = incoming.rate.min(outgoing.rate) * round_trips;
    Bytes((in_flight + room(incoming, outgoing, tolerance)).ceil() as u64)
}

/// The buffer that is advised: [`needed`], and as much again as is in flight where segments are lost.
///
/// While a loss of the outgoing leg is repaired nothing is acknowledged beyond it, and while one of the incoming leg is,
/// what came after it waits in its place: either takes a round trip, and the other leg goes on meanwhile only if there is
/// that much room.
pub(crate) fn advised(incoming: Flow, outgoing: Flow, round_trips: f64, tolerance: f64) -> Bytes {
    let in_flight = incoming.rate.min(outgoing.rate) * round_trips;
    let repairs = (FLIGHTS - 1.0) * if is_lossy(incoming, outgoing) { in_flight } else { 0.0 };
    Bytes(needed(incoming, outgoing, round_trips, tolerance).0 + repairs as u64)
}

/// How many times what is in flight a relay holds while a loss is repaired.
pub(crate) const FLIGHTS: f64 = 2.0;

/// Whether either leg loses anything, so that its speed varies.
pub(crate) fn is_lossy(incoming: Flow, outgoing: Flow) -> bool {
    incoming.variance + outgoing.variance > 0.0
}

/// Bytes beyond what is in flight with which the share `tolerance` is lost.
///
/// What passes in such room solved for it: `σ²/2|μ|·ln(1 + |μ|/lost)`, where `lost` is between walls what is to be lost
/// together with going in step.
pub(crate) fn room(incoming: Flow, outgoing: Flow, tolerance: f64) -> f64 {
    let least = incoming.rate.min(outgoing.rate);
    let (drift, variance) = ((incoming.rate - outgoing.rate).abs(), incoming.variance + outgoing.variance);
    let (lost, in_step) = (tolerance * least, in_step(incoming, outgoing));
    if lost >= in_step {
        return 0.0;
    }
    let between_walls = 1.0 / (1.0 / lost - 1.0 / in_step);
    // ln(1 + x)/x → 1.
    let x = drift / between_walls;
    variance / (2.0 * between_walls) * if x < 1e-9 { 1.0 } else { x.ln_1p() / x }
}

/// How much longer than the slower leg alone a transfer takes, in seconds, when both legs' speed varies and the buffer
/// has no bound: `E[max(m·x + s·B(x))] − max(m, 0)·S` over `0 ≤ x ≤ S`.
///
/// Nor can it be more than going in step would cost. It is what one leg has not delivered in its slow moments when the other has its fast ones. It grows as `√S`
/// between equal legs and stays bounded between unequal ones.
pub(crate) fn waiting(incoming: Flow, outgoing: Flow, size: f64) -> f64 {
    // Seconds for each byte, and the variance of that: var/rate³ (renewal theory).
    let m = 1.0 / incoming.rate - 1.0 / outgoing.rate;
    let s2 = incoming.variance / incoming.rate.powi(3) + outgoing.variance / outgoing.rate.powi(3);
    let deviation = (s2 * size).sqrt();
    if deviation <= 0.0 || deviation.is_nan() {
        return 0.0;
    }
    // The maximum of a Brownian motion with drift; by symmetry in time the same for either sign, once m·S is off.
    let z = m.abs() * size / deviation;
    let (density, above) = normal(z);
    let m = m.abs();
    // σ√S·φ(z) − m·S·Φ(−z) + (s²/2m)·(1 − 2Φ(−z)), for z → 0 σ√S·√(2/π).
    let last = if z < 1e-6 { density * deviation } else { s2 / (2.0 * m) * (1.0 - 2.0 * above) };
    let free = (deviation * density - m * size * above + last).max(0.0);
    let least = incoming.rate.min(outgoing.rate);
    let in_step = in_step(incoming, outgoing);
    let bound = size / (least - in_step) - size / least;
    if free <= 0.0 || bound <= 0.0 { 0.0 } else { 1.0 / (1.0 / free + 1.0 / bound) }
}

/// The standard normal density at `z ≥ 0`, and the probability of more (Abramowitz and Stegun 26.2.17).
fn normal(z: f64) -> (f64, f64) {
    let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let series = t
        * (0.319_381_530
            + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    (density, density * series)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flow whose momentary speed varies so wildly that walls alone count.
    fn flow(rate: f64, variance: f64) -> Flow {
        Flow { rate, variance, deviation: if variance > 0.0 { 1e9 * rate } else { 0.0 } }
    }

    #[test]
    fn steady_legs_need_their_round_trips_and_no_more() {
        let (a, b) = (flow(1e6, 0.0), flow(2e6, 0.0));
        let just = couple(a, b, Bytes(100_001), 0.1);
        assert!((just.rate - 1e6).abs() < 20.0 && just.overflow < 1e-4, "{just:?}");
        // The faster outgoing leg idles half of the time whatever the buffer.
        assert!((just.drought - 0.5).abs() < 1e-4);
        let half = couple(a, b, Bytes(50_000), 0.1);
        assert!((half.rate - 5e5).abs() < 20.0 && half.too_small, "{half:?}");
    }

    #[test]
    fn between_equal_legs_the_loss_is_variance_over_twice_the_room() {
        let equal = flow(1e6, 1e9);
        let found = couple(equal, equal, Bytes(1_000_000), 0.0);
        assert!((1e6 - found.rate - 2e9 / 2e6).abs() < 2.0, "{found:?}");
        assert!((found.drought - found.overflow).abs() < 1e-12);
    }

    #[test]
    fn the_needed_buffer_loses_the_tolerated_share_and_a_smaller_one_more() {
        let equal = (flow(1e6, 3e10), flow(1e6, 1e10));
        for (a, b) in [equal, (flow(1.3e6, 2e10), flow(1e6, 1e10))] {
            let least = a.rate.min(b.rate);
            let buffer = needed(a, b, 0.12, 0.03);
            let found = couple(a, b, buffer, 0.12);
            assert!((0.97 * least..0.975 * least).contains(&found.rate), "{buffer}: {found:?}");
            let smaller = couple(a, b, Bytes(buffer.0 * 9 / 10), 0.12);
            assert!(smaller.rate < 0.97 * least, "{smaller:?}");
        }
        // Nothing varies: what is in flight is enough, and nothing is lost.
        let (a, b) = (flow(1e6, 0.0), flow(3e6, 0.0));
        assert_eq!(needed(a, b, 0.12, 0.03), Bytes(120_000));
        assert!(couple(a, b, Bytes(120_000), 0.12).rate > 0.999_99e6);
    }

    #[test]
    fn drought_falls_and_overflow_grows_with_the_rate_ratio() {
        let mut before = couple(flow(0.5e6, 1e10), flow(1e6, 1e10), Bytes(300_000), 0.05);
        for k in 6..=20 {
            let now = couple(flow(f64::from(k) * 1e5, 1e10), flow(1e6, 1e10), Bytes(300_000), 0.05);
            assert!(now.drought < before.drought && now.overflow > before.overflow, "{k}: {now:?}");
            before = now;
        }
    }

    /// A random walk with the same moments, many times.
    #[test]
    fn waiting_is_the_expected_maximum_of_a_random_walk() {
        let mut state = 42u64;
        let mut sign = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if state >> 63 == 0 { 1.0 } else { -1.0 }
        };
        let (steps, trials) = (4000, 2000);
        for m in [0.0, 0.01, 0.05] {
            // Per byte: a mean difference of m seconds, and a variance of ½ from each.
            let (a, b) = (flow(1.0 / (1.0 + m), 0.5 / (1.0f64 + m).powi(3)), flow(1.0, 0.5));
            let mut total = 0.0;
            for _ in 0..trials {
                let (mut at, mut highest) = (0.0f64, 0.0f64);
                for _ in 0..steps {
                    at += m + sign();
                    highest = highest.max(at);
                }
                total += highest - m * f64::from(steps);
            }
            let (simulated, found) = (total / f64::from(trials), waiting(a, b, f64::from(steps)));
            // A walk in steps stays below the continuous maximum by 0.58 of a step.
            assert!((found - simulated).abs() < 0.6 + 0.08 * found, "{m}: {found}, walked {simulated}");
        }
    }
}
