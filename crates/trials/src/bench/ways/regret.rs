//! Where the time goes that the closed loop takes longer than who knows the links, and what others would take who know less than that.
use super::Times;
use shorthaul_planner::ways::Why;
use shorthaul_relay::learning::Decision;

/// Why a session did not take the way that was best, each by its row of the table.
pub const CAUSES: [&str; 7] = [
    "explored on purpose",
    "by a way that was never tried, taken for the best",
    "best a minute ago, and no more",
    "direct, since too little was to be gained",
    "wrong forecast: 0.1 MB",
    "wrong forecast: 1 MB",
    "wrong forecast: 5 MB",
];
/// When that was.
pub const MINUTES: [&str; 3] = ["in the first minute", "in the three after it", "later"];

/// The minutes' part of [`MINUTES`].
pub fn when(minute: usize) -> usize {
    match minute {
        0 => 0,
        1..4 => 1,
        _ => 2,
    }
}

/// Who chooses, of a minute and a size, by what they know; the way, by its number.
#[derive(Debug)]
pub struct Choosers<'a>(pub &'a Times);

impl Choosers<'_> {
    /// Seconds on average.
    pub fn mean(&self, minute: usize, size: usize, way: usize) -> f64 {
        let samples = &self.0[minute][size][way];
        samples.iter().sum::<f64>() / samples.len() as f64
    }

    fn least(&self, minute: usize, size: usize, seconds: impl Fn(usize) -> f64) -> usize {
        let ways = 0..self.0[minute][size].len();
        ways.min_by(|a, b| seconds(*a).total_cmp(&seconds(*b))).unwrap_or(0)
    }

    /// Knows the links, and so what each way takes on average: of few samples, and so a part of the luck as well.
    pub fn oracle(&self, minute: usize, size: usize) -> usize {
        self.least(minute, size, |way| self.mean(minute, size, way))
    }

    /// Knows what each way takes from all samples but the one that the session is.
    pub fn other_samples(&self, minute: usize, size: usize, sample: usize) -> usize {
        self.least(minute, size, |way| {
            let samples = &self.0[minute][size][way];
            let others = samples.iter().enumerate().filter(|(at, _)| *at != sample);
            others.map(|(_, seconds)| seconds).sum()
        })
    }

    /// Knows the links of the minute before, all of them; in the first minute goes directly.
    pub fn minute_ago(&self, minute: usize, size: usize) -> usize {
        minute.checked_sub(1).map_or(0, |before| self.oracle(before, size))
    }

    /// Knows beforehand which way will be best on average of all minutes, and stays there.
    pub fn one_way(&self, size: usize) -> usize {
        let all = |way| (0..self.0.len()).map(|minute| self.mean(minute, size, way)).sum();
        self.least(0, size, all)
    }
}

/// Why this decision, by its number in [`CAUSES`], was not the oracle's. `measured` sessions had been measured by the way that was taken.
pub fn cause(decision: &Decision, measured: u32, was_best: bool, size: usize) -> usize {
    let least = decision.expected.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    match decision.choice.why {
        Why::Explores => 0,
        _ if measured == 0 => 1,
        _ if was_best => 2,
        Why::NotWorthIt if decision.choice.expected > least => 3,
        _ => 4 + size,
    }
}
