//! What is believed of the rate of a way, as weights on a grid of rates.
use super::Learning;
use shorthaul_types::Time;

/// Rates of the grid.
pub(super) const RATES: usize = 48;
/// The least and the largest of them, in bit/s of payload.
const LEAST: f64 = 1e5;
const LARGEST: f64 = 1e9;
/// Of a random walk in the grid, a step's variance at most, in cells².
const A_STEP: f64 = 0.5;
/// After so many steps it has come everywhere.
const STEPS: usize = 100;
/// What a session can take that nothing explains, as a part of the likelihood of what explains it: a host that slept says nothing of the way.
const UNEXPLAINED: f64 = 1e-3;

/// A number for each rate of the grid.
pub(super) type Rates = [f64; RATES];

/// The logarithm of one rate over that before.
fn cell() -> f64 {
    (LARGEST / LEAST).ln() / (RATES - 1) as f64
}

/// The rates, in bit/s.
pub(super) fn rates() -> Rates {
    std::array::from_fn(|at| LEAST * (cell() * at as f64).exp())
}

/// How likely each rate of a way is: one number for what loss, link and load of all its legs come to. A session's own rate scatters about it.
#[derive(Clone, Debug)]
pub(super) struct Belief {
    weights: Rates,
    /// What it was before anything was measured, and is again after a change.
    begun: Rates,
    at: Time,
    pub measured: u32,
}

impl Belief {
    /// Log-normal.
    pub fn new(learning: &Learning) -> Belief {
        let middle = learning.rate.bits_per_sec() as f64;
        let begun =
            normalized(rates().map(|rate| (-0.5 * ((rate / middle).ln() / learning.spread).powi(2)).exp()));
        Belief { weights: begun, begun, at: Time::ZERO, measured: 0 }
    }

    /// Nothing is measured yet; what others have shown counts for half of what it begins with.
    pub fn like(&self, others: &Belief) -> Belief {
        let begun: Rates = std::array::from_fn(|at| 0.5 * (self.begun[at] + others.weights[at]));
        Belief { weights: begun, begun, at: others.at, measured: 0 }
    }

    /// Time passes: the rate walks at random, and may have changed altogether (a hidden Markov model; the change of Adams and MacKay 2007,
    /// "Bayesian Online Changepoint Detection", with a constant hazard). What is not measured is known less and less.
    pub fn pass(&mut self, now: Time, learning: &Learning) {
        let minutes = now.saturating_since(self.at).as_secs_f64() / 60.0;
        self.at = self.at.max(now);
        if self.measured == 0 || minutes <= 0.0 {
            return;
        }
        let variance = learning.drift.powi(2) * minutes / cell().powi(2);
        let steps = ((variance / A_STEP).ceil() as usize).clamp(1, STEPS);
        let moves = (variance / steps as f64).min(A_STEP);
        for _ in 0..steps {
            let before = self.weights;
            for (at, weight) in self.weights.iter_mut().enumerate() {
                // At the ends of the grid what would go beyond it stays.
                let (below, above) = (before[at.saturating_sub(1)], before[(at + 1).min(RATES - 1)]);
                *weight += 0.5 * moves * (below + above - 2.0 * before[at]);
            }
        }
        let keeps = (-learning.changes * minutes).exp();
        for (weight, begun) in self.weights.iter_mut().zip(&self.begun) {
            *weight = keeps * *weight + (1.0 - keeps) * begun;
        }
    }

    /// How likely each rate is for the next session, whose luck is its own; each weighted with `worth`.
    pub fn of_sessions(&self, luck: &Luck, worth: &Rates) -> Rates {
        luck.scatter(&std::array::from_fn(|at| self.weights[at] * worth[at]))
    }

    /// A session has taken so many seconds, which would be `times` with each rate, give or take `errors` (as logarithms).
    pub fn on_measured(&mut self, luck: &Luck, took: f64, times: &Rates, errors: &Rates) {
        let likely = |at: usize| density((took / times[at]).ln(), errors[at]);
        self.weigh(luck, &std::array::from_fn(likely));
    }

    /// The same of a session that something else than the way may have held up: it says no more than that the way is not slower than that.
    pub fn on_held_up(&mut self, luck: &Luck, took: f64, times: &Rates, errors: &Rates) {
        let likely = |at: usize| at_least((times[at] / took).ln(), errors[at]);
        self.weigh(luck, &std::array::from_fn(likely));
    }

    fn weigh(&mut self, luck: &Luck, likely: &Rates) {
        let likely = likely.map(|likely| likely + UNEXPLAINED);
        let likely = luck.gather(&likely);
        self.weights = normalized(std::array::from_fn(|at| self.weights[at] * likely[at]));
        self.measured = self.measured.saturating_add(1);
    }
}

/// Of a normal distribution: how likely something is no less than so far off.
pub(super) fn at_least(off: f64, deviation: f64) -> f64 {
    // Within 1 % of the integral (Bowling and others 2009, "A logistic approximation to the cumulative normal distribution").
    1.0 / (1.0 + (1.702 * off / deviation).exp())
}

/// Of a normal distribution, without what all have in common.
pub(super) fn density(off: f64, deviation: f64) -> f64 {
    (-0.5 * (off / deviation).powi(2)).exp() / deviation
}

fn normalized(weights: Rates) -> Rates {
    let all: f64 = weights.iter().sum();
    weights.map(|weight| weight / all)
}

/// How a session's rate scatters about its way's: losses come, or do not.
#[derive(Clone, Debug)]
pub(super) struct Luck {
    /// By the distance in cells.
    density: Rates,
    /// Of each rate of the way, the sum over those that a session can have.
    sums: Rates,
}

impl Luck {
    /// Log-normal.
    pub fn new(deviation: f64) -> Luck {
        let density: Rates = std::array::from_fn(|cells| density(cell() * cells as f64, deviation));
        let sum = |way: usize| (0..RATES).map(|session| density[way.abs_diff(session)]).sum();
        Luck { density, sums: std::array::from_fn(sum) }
    }

    fn likely(&self, way: usize, session: usize) -> f64 {
        self.density[way.abs_diff(session)] / self.sums[way]
    }

    /// From what is likely of the way to what is likely of a session.
    fn scatter(&self, of_way: &Rates) -> Rates {
        std::array::from_fn(|session| (0..RATES).map(|way| of_way[way] * self.likely(way, session)).sum())
    }

    /// From a number for each rate of a session to what is expected of it with each rate of the way.
    pub fn gather(&self, of_session: &Rates) -> Rates {
        std::array::from_fn(|way| (0..RATES).map(|at| of_session[at] * self.likely(way, at)).sum())
    }
}
