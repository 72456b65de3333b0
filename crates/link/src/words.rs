//! Links in words, for people who look at what they have written.
use crate::{Distribution, LinkConfig, LossModel, OutageTimes, QueueLimit, Rate};
use core::fmt;
use core::time::Duration;
use shorthaul_types::{Bytes, exact_duration, format_duration};

/// As it is written in files: `exponential 200 ms up to 2.3 s`.
impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = exact_duration;
        match *self {
            Distribution::Constant(value) => write!(f, "{}", time(value)),
            Distribution::Uniform { min, max } => write!(f, "{} to {}", time(min), time(max)),
            Distribution::Exponential { mean, max: Duration::MAX } => write!(f, "exponential {}", time(mean)),
            Distribution::Exponential { mean, max } => {
                write!(f, "exponential {} up to {}", time(mean), time(max))
            }
            Distribution::Normal { mean, std_dev } => {
                write!(f, "normal {} +- {}", time(mean), time(std_dev))
            }
            Distribution::Pareto { mean, shape } => write!(f, "pareto {} shape {shape}", time(mean)),
        }
    }
}

/// One direction, such as `10 Mbit/s, 20 ms, a queue of 50 packets, loss 0.1 %`.
impl fmt::Display for LinkConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.rate, self.rate.mean()) {
            (Rate::Fixed(rate), _) => write!(f, "{rate}")?,
            (_, Some(mean)) => write!(f, "{mean} on average")?,
            (_, None) => f.write_str("any rate")?,
        }
        write!(f, ", {}", format_duration(self.delay))?;
        match self.queue {
            QueueLimit::Unlimited => f.write_str(", a queue without limit")?,
            QueueLimit::Packets(count) => write!(f, ", a queue of {count} packets")?,
            QueueLimit::Bytes(bytes) => write!(f, ", a queue of {}", Bytes(bytes))?,
        }
        if self.loss != LossModel::None {
            write!(f, ", {}", self.loss)?;
        }
        let parts = [
            (self.jitter.is_some(), "jitter"),
            (self.route_changes.is_some(), "changes of the route"),
            (self.duplicate > 0.0, "duplicates"),
            (self.arq.is_some(), "ARQ"),
            (self.outages.when != OutageTimes::Never, "outages"),
            (self.reordering.is_some(), "reordering"),
            (self.aggregation.is_some(), "frame aggregation"),
            (self.drx.is_some(), "DRX"),
        ];
        parts.into_iter().filter(|(is_there, _)| *is_there).try_for_each(|(_, name)| write!(f, ", {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;
    use shorthaul_types::BitRate;

    #[test]
    fn a_distribution_is_shown_as_it_is_written() {
        for text in [
            "64 ms",
            "5 s to 40 s",
            "exponential 200 ms",
            "exponential 200 ms up to 2.3 s",
            "normal 50 ms +- 5 ms",
            "pareto 500 ms shape 1.5",
        ] {
            let read: Distribution = text.parse().unwrap();
            assert_eq!(read.to_string().parse(), Ok(read), "{read}");
        }
        assert_eq!("exponential 100 us".parse::<Distribution>().unwrap().to_string(), "exponential 100 us");
    }

    #[test]
    fn what_a_link_loses_is_seen() {
        let loss = LossModel::Bernoulli { probability: 1.0 };
        let rate = Rate::Fixed(BitRate::from_bits_per_sec(10_000_000));
        let queue = QueueLimit::Packets(50);
        let config =
            LinkConfig { rate, queue, delay: Duration::from_millis(20), loss, ..LinkConfig::default() };
        assert_eq!(config.to_string(), "10 Mbit/s, 20 ms, a queue of 50 packets, loss 100 %");
    }
}
