use alloc::format;
use alloc::string::String;
use core::fmt;
use core::time::Duration;

use crate::{Arq, LinkConfig, OutageTimes, QueueLimit, Rate};

/// Why a [`LinkConfig`] makes no sense: which part, what is wrong with it, what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    part: &'static str,
    problem: String,
}

impl ConfigError {
    pub(crate) fn new(part: &'static str, problem: impl Into<String>) -> Self {
        ConfigError { part, problem: problem.into() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.part, self.problem)
    }
}

impl core::error::Error for ConfigError {}

/// A probability must lie in 0..=1 (which also refuses NaN).
pub(crate) fn probability(part: &'static str, value: f64) -> Result<(), ConfigError> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::new(
        part,
        format!("{value} is not a probability; write a number from 0 to 1 (1 % is 0.01)"),
    ))
}

pub(crate) fn positive(part: &'static str, value: Duration) -> Result<(), ConfigError> {
    if value.is_zero() { Err(ConfigError::new(part, "must be longer than zero")) } else { Ok(()) }
}

pub(crate) fn distribution(part: &'static str, value: &crate::Distribution) -> Result<(), ConfigError> {
    value.problem().map_or(Ok(()), |problem| Err(ConfigError::new(part, problem)))
}

impl LinkConfig {
    /// Checks every value that the types leave open.
    ///
    /// # Errors
    /// The first part that makes no sense.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if let Rate::Schedule { phases, .. } = &self.rate {
            if phases.is_empty() {
                return Err(ConfigError::new("rate.schedule", "is empty; give at least one phase"));
            }
            phases.iter().try_for_each(|(lasts, _)| positive("rate.schedule", *lasts))?;
        }
        if matches!(self.queue, QueueLimit::Packets(0) | QueueLimit::Bytes(0)) {
            return Err(ConfigError::new(
                "queue",
                "a queue of zero lets nothing through (the packet being sent counts); allow at least one packet",
            ));
        }
        if let Some(jitter) = &self.jitter {
            distribution("jitter", &jitter.distribution)?;
        }
        self.route_changes.map_or(Ok(()), |route| route.validate())?;
        self.loss.validate()?;
        probability("duplicate", self.duplicate)?;
        self.validate_arq()?;
        self.validate_outages()?;
        if let Some(reordering) = &self.reordering {
            probability("reordering.share", reordering.share)?;
        }
        if self.aggregation.is_some_and(|aggregation| aggregation.size == 0) {
            return Err(ConfigError::new("aggregation.size", "must be at least 1"));
        }
        if let Some(drx) = &self.drx {
            distribution("drx.penalty", &drx.penalty)?;
        }
        Ok(())
    }

    fn validate_arq(&self) -> Result<(), ConfigError> {
        match &self.arq {
            None => Ok(()),
            Some(Arq::Delay { distribution: delay, share }) => {
                distribution("arq", delay)?;
                probability("arq.share", *share)
            }
            Some(Arq::RadioBlocks { block, error_good, error_bad, good, bad, .. }) => {
                if block.0 == 0 {
                    return Err(ConfigError::new("arq.block", "must be at least one byte"));
                }
                radio_errors([*error_good, *error_bad], [*good, *bad])
            }
            Some(Arq::SelectiveRepeat { frame, window, error_good, error_bad, good, bad, .. }) => {
                if frame.0 == 0 {
                    return Err(ConfigError::new("arq.frame", "must be at least one byte"));
                }
                if *window == Some(0) {
                    return Err(ConfigError::new(
                        "arq.window",
                        "must be at least one frame, or nothing is ever sent",
                    ));
                }
                radio_errors([*error_good, *error_bad], [*good, *bad])
            }
        }
    }

    fn validate_outages(&self) -> Result<(), ConfigError> {
        match &self.outages.when {
            OutageTimes::Never => Ok(()),
            OutageTimes::Random { mean_gap, lasts, .. } => {
                positive("outages.every", *mean_gap)?;
                distribution("outages.lasts", lasts)
            }
            OutageTimes::Regular { every, lasts, .. } => {
                positive("outages.period", *every)?;
                distribution("outages.lasts", lasts)
            }
            OutageTimes::Listed(list) => {
                let overlap =
                    list.windows(2).any(|pair| pair[1].at < pair[0].at.saturating_add(pair[0].lasts));
                if overlap {
                    return Err(ConfigError::new(
                        "outages.list",
                        "must be in order of time and must not overlap; sort it and join what overlaps",
                    ));
                }
                Ok(())
            }
        }
    }
}

/// The errors of a radio channel with two phases, good and bad, and how long these last.
fn radio_errors(errors: [f64; 2], lasts: [Duration; 2]) -> Result<(), ConfigError> {
    positive("arq.good", lasts[0])?;
    positive("arq.bad", lasts[1])?;
    for (part, rate) in ["arq.error_good", "arq.error_bad"].into_iter().zip(errors) {
        probability(part, rate)?;
        if rate > 0.999 {
            return Err(ConfigError::new(part, "must be at most 0.999, or nothing ever gets through"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LossModel;
    use crate::{Distribution, Jitter, Outage, Outages, Reordering};
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn the_default_and_sensible_values_pass() {
        assert_eq!(LinkConfig::default().validate(), Ok(()));
    }

    #[test]
    fn nonsense_is_named() {
        let ms = Duration::from_millis;
        let base = LinkConfig::default;
        let outage = |at, lasts| Outage { at: ms(at), lasts: ms(lasts) };
        let listed = |list| Outages { when: OutageTimes::Listed(list), hold: Duration::MAX };
        let backwards = Distribution::Uniform { min: ms(2), max: ms(1) };
        let cases = [
            ("duplicate", LinkConfig { duplicate: 1.5, ..base() }),
            ("duplicate", LinkConfig { duplicate: f64::NAN, ..base() }),
            ("loss", LinkConfig { loss: LossModel::Bernoulli { probability: -0.1 }, ..base() }),
            ("queue", LinkConfig { queue: QueueLimit::Packets(0), ..base() }),
            (
                "rate.schedule",
                LinkConfig { rate: Rate::Schedule { phases: vec![], repeats: true }, ..base() },
            ),
            (
                "jitter",
                LinkConfig { jitter: Some(Jitter { distribution: backwards, keeps_order: true }), ..base() },
            ),
            ("reordering", LinkConfig { reordering: Some(Reordering { share: 2.0, by: ms(1) }), ..base() }),
            ("outages", LinkConfig { outages: listed(vec![outage(10, 10), outage(15, 10)]), ..base() }),
            (
                "loss.off",
                LinkConfig {
                    loss: LossModel::OnOff { on: ms(1), off: ms(0), rate: 0.5, slot: Duration::ZERO },
                    ..base()
                },
            ),
        ];
        for (part, config) in cases {
            let error = config.validate().expect_err(part).to_string();
            assert!(error.starts_with(part), "{error} does not name {part}");
        }
    }
}
