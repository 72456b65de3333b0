//! Whether this machine was up to a run.
use std::time::Duration;

use shorthaul_observe::Fidelity;
use shorthaul_report::Unit;
use shorthaul_types::format_duration;

/// Beyond these a live run is not to be trusted.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Bounds {
    /// A live run is not trusted if 1 % of its packets came later than the link models say by more than this
    #[arg(long, value_name = "TIME", default_value = "1 ms", value_parser = shorthaul_types::parse_duration)]
    pub max_late: Duration,
    /// A live run is not trusted if more packets than this were dropped that no link model dropped
    #[arg(long, value_name = "PACKETS", default_value_t = 0)]
    pub max_dropped: u64,
    /// A live run is not trusted if the processors were busy for more than this share of the time, in percent, not counting
    /// what runs at low priority
    #[arg(long, value_name = "PERCENT", default_value_t = 90.0)]
    pub max_busy: f64,
    /// A live run is not trusted if a program that sends, receives or splits stood waiting for a processor for more than this
    /// share of its time, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 20.0)]
    pub max_starved: f64,
}

/// What the options say by themselves.
impl Default for Bounds {
    fn default() -> Self {
        Bounds { max_late: Duration::from_millis(1), max_dropped: 0, max_busy: 90.0, max_starved: 20.0 }
    }
}

impl Bounds {
    /// What speaks against a run, in sentences; nothing if it is within the bounds.
    pub fn judge(&self, fidelity: &Fidelity) -> Vec<String> {
        let mut doubts = Vec::new();
        if fidelity.late_p99 > self.max_late.as_secs_f64() {
            doubts.push(format!(
                "do not trust: 1 % of the packets were late by more than {} (bound: {})",
                Unit::Seconds.format(fidelity.late_p99),
                format_duration(self.max_late)
            ));
        }
        if fidelity.dropped > self.max_dropped {
            doubts.push(format!(
                "do not trust: the emulator dropped {} packets of its own (bound: {})",
                fidelity.dropped, self.max_dropped
            ));
        }
        if fidelity.busy * 100.0 > self.max_busy {
            doubts.push(format!(
                "do not trust: the processors were busy for {} of the time (bound: {} %)",
                Unit::Percent.format(fidelity.busy),
                self.max_busy
            ));
        }
        if fidelity.starved * 100.0 > self.max_starved {
            doubts.push(format!(
                "do not trust: a program of the run waited for a processor for {} of its time (bound: {} %)",
                Unit::Percent.format(fidelity.starved),
                self.max_starved
            ));
        }
        doubts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds =
        Bounds { max_late: Duration::from_millis(1), max_dropped: 0, max_busy: 90.0, max_starved: 20.0 };

    #[test]
    fn a_run_within_all_bounds_is_trusted() {
        assert!(BOUNDS.judge(&Fidelity { late_p99: 0.001, dropped: 0, busy: 0.9, starved: 0.2 }).is_empty());
    }

    #[test]
    fn each_bound_has_its_own_sentence_with_value_and_bound() {
        let good = Fidelity { late_p99: 0.0001, dropped: 0, busy: 0.2, starved: 0.001 };
        for (fidelity, words) in [
            (Fidelity { late_p99: 0.0042, ..good }, ["4.20 ms", "1 ms"]),
            (Fidelity { dropped: 3, ..good }, ["3 packets", "bound: 0"]),
            (Fidelity { busy: 0.97, ..good }, ["97.0 %", "90 %"]),
            (Fidelity { starved: 0.32, ..good }, ["32.0 %", "20 %"]),
        ] {
            let doubts = BOUNDS.judge(&fidelity);
            assert_eq!(doubts.len(), 1, "{doubts:?}");
            assert!(doubts[0].starts_with("do not trust"), "{doubts:?}");
            assert!(words.iter().all(|word| doubts[0].contains(word)), "{doubts:?}");
        }
    }
}
