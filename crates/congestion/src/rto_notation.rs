//! How people write a retransmission timer.
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use shorthaul_types::{exact_duration, parse_duration};

use crate::{Doubling, RtoFloor, RttConfig};

/// Those that have a name.
const NAMED: [(&str, RttConfig); 3] =
    [("linux", RttConfig::LINUX), ("rfc6298", RttConfig::RFC6298), ("coarse", RttConfig::COARSE)];
/// Between the tick and the least timeout.
const FROM: &str = ", at least ";
/// Behind a timer: how long it stays doubled, where that is not until a round trip is measured.
const DOUBLING: [(&str, Doubling); 2] =
    [(", doubled until acknowledged", Doubling::UntilAcknowledged), (", never doubled", Doubling::Never)];
/// Before the tick of a timer whose clock ticks.
const TICKS: &str = "ticks of ";

impl RttConfig {
    /// RFC 6298 with another least timeout.
    pub const fn at_least(least: Duration) -> Self {
        RttConfig { floor: RtoFloor::Whole(least), ..RttConfig::RFC6298 }
    }

    /// RFC 6298 by a clock that ticks.
    pub const fn ticking(tick: Duration) -> Self {
        RttConfig { tick, ..RttConfig::RFC6298 }
    }
}

impl fmt::Display for RttConfig {
    /// Writes what [`FromStr`] reads back as the same value, if it can be written at all.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((words, _)) = DOUBLING.iter().find(|(_, doubling)| *doubling == self.doubling) {
            let usual = RttConfig { doubling: Doubling::UntilMeasured, ..*self };
            return f.pad(&format!("{usual}{words}"));
        }
        if let Some((name, _)) = NAMED.iter().find(|(_, config)| config == self) {
            return f.pad(name);
        }
        match self.floor {
            RtoFloor::Whole(least) if *self == RttConfig::at_least(least) => f.pad(&exact_duration(least)),
            _ if *self == RttConfig::ticking(self.tick) => {
                f.pad(&format!("{TICKS}{}", exact_duration(self.tick)))
            }
            RtoFloor::Whole(least)
                if *self == (RttConfig { tick: self.tick, ..RttConfig::at_least(least) }) =>
            {
                f.pad(&format!("{TICKS}{}{FROM}{}", exact_duration(self.tick), exact_duration(least)))
            }
            _ => f.pad("its own"),
        }
    }
}

impl FromStr for RttConfig {
    type Err = UnknownTimer;

    /// `linux`, `rfc6298`, `coarse`, `ticks of 500 ms`, `ticks of 100 ms, at least 200 ms`, or the least timeout, such as `200 ms`; behind
    /// each, perhaps, `, doubled until acknowledged` or `, never doubled`.
    fn from_str(text: &str) -> Result<Self, UnknownTimer> {
        let written = text.trim();
        for (words, doubling) in DOUBLING {
            if let Some(timer) = written.strip_suffix(words) {
                return Ok(RttConfig { doubling, ..timer.parse()? });
            }
        }
        if let Some((_, config)) = NAMED.iter().find(|(name, _)| *name == written) {
            return Ok(*config);
        }
        let parsed = match written.strip_prefix(TICKS) {
            Some(clock) => match clock.split_once(FROM) {
                Some((tick, least)) => parse_duration(tick)
                    .and_then(|tick| Ok(RttConfig { tick, ..RttConfig::at_least(parse_duration(least)?) })),
                None => parse_duration(clock).map(RttConfig::ticking),
            },
            None => parse_duration(written).map(RttConfig::at_least),
        };
        parsed.map_err(|_| UnknownTimer { text: text.to_string() })
    }
}

/// No retransmission timer is written like this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTimer {
    text: String,
}

impl fmt::Display for UnknownTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no retransmission timeout: write \"linux\", \"rfc6298\", \"coarse\", \"ticks of 500 ms\" or the smallest one, such as \"200 ms\"",
            self.text
        )
    }
}

impl core::error::Error for UnknownTimer {}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for RttConfig {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "serde")]
shorthaul_types::written_as!(RttConfig, "RetransmissionTimer", |_| shorthaul_types::schema::text(
    "a retransmission timer: by name, by the tick of its clock, or by its least timeout",
    &["linux", "rfc6298", "coarse", "ticks of 500 ms", "200 ms"]
));

#[cfg(feature = "serde")]
impl serde::Serialize for RttConfig {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_read_as_they_are_written() {
        let half = Duration::from_millis(500);
        for (text, timer) in [
            ("linux", RttConfig::LINUX),
            ("rfc6298", RttConfig::RFC6298),
            ("coarse", RttConfig::COARSE),
            ("ticks of 500 ms", RttConfig::ticking(half)),
            ("500 ms", RttConfig::at_least(half)),
            (
                "coarse, doubled until acknowledged",
                RttConfig { doubling: Doubling::UntilAcknowledged, ..RttConfig::COARSE },
            ),
            (
                "200 ms, never doubled",
                RttConfig { doubling: Doubling::Never, ..RttConfig::at_least(half * 2 / 5) },
            ),
            (
                "ticks of 100 ms, at least 200 ms",
                RttConfig {
                    tick: Duration::from_millis(100),
                    ..RttConfig::at_least(2 * Duration::from_millis(100))
                },
            ),
        ] {
            assert_eq!(text.parse(), Ok(timer));
            assert_eq!(timer.to_string(), text);
        }
        // 1 s is what RFC 6298 has.
        assert_eq!("1 s".parse(), Ok(RttConfig::RFC6298));
        let error = "ticks of it".parse::<RttConfig>().unwrap_err().to_string();
        assert!(error.contains("`ticks of it`") && error.contains("\"200 ms\""), "{error}");
    }
}
