use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitRate(u64);

impl BitRate {
    /// A rate of `bits` per second.
    pub const fn from_bits_per_sec(bits: u64) -> Self {
        BitRate(bits)
    }

    /// A rate of `bytes` per second.
    pub const fn from_bytes_per_sec(bytes: u64) -> Self {
        BitRate(bytes.saturating_mul(8))
    }

    /// Bits per second.
    pub const fn bits_per_sec(self) -> u64 {
        self.0
    }

    /// Whole bytes per second.
    pub const fn bytes_per_sec(self) -> u64 {
        self.0 / 8
    }

    /// How long `size` takes to pass at this rate, rounded up to a nanosecond.
    ///
    /// A rate of zero never finishes: `Duration::MAX`.
    pub fn time_to_send(self, size: Bytes) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let nanos = (u128::from(size.0) * 8 * 1_000_000_000).div_ceil(u128::from(self.0));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// How many whole bytes pass in `time`.
    pub fn bytes_in(self, time: Duration) -> Bytes {
        let bytes = u128::from(self.0) * time.as_nanos() / (8 * 1_000_000_000);
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

/// Why a written quantity was not understood: it names what was found and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseUnitError {
    found: String,
    wanted: &'static str,
}

impl fmt::Display for ParseUnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.found, self.wanted)
    }
}

impl core::error::Error for ParseUnitError {}

/// Splits `text` into a non-negative number and its unit.
fn number_and_unit<'a>(text: &'a str, wanted: &'static str) -> Result<(f64, &'a str), ParseUnitError> {
    let error = || ParseUnitError { found: text.to_string(), wanted };
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(trimmed.len());
    let digits = trimmed[..end].replace('_', "");
    let number: f64 = digits.parse().map_err(|_| error())?;
    if !number.is_finite() {
        return Err(error());
    }
    Ok((number, trimmed[end..].trim()))
}

const BYTES_WANTED: &str = "a size: write a number and a unit, such as \"1500 B\", \"120 kB\" or \"4 MiB\"";
const RATE_WANTED: &str =
    "a rate: write a number and a unit, such as \"32 Mbit/s\", \"9600 bit/s\" or \"4.15 kB/s\"";
const DURATION_WANTED: &str =
    "a duration: write a number and a unit, such as \"64 ms\", \"1.5 s\" or \"250 us\"";
const SIZE_TOO_LARGE: &str = "a size that there can be: write \"18000000000 GB\" at most";
const RATE_TOO_LARGE: &str = "a rate that there can be: write \"18000000000 Gbit/s\" at most";
const DURATION_TOO_LARGE: &str = "a duration that there can be: write \"5000000 h\" at most";

/// `amount`, rounded to a whole number; what is more than there can be is refused.
fn whole(text: &str, amount: f64, too_large: &'static str) -> Result<u64, ParseUnitError> {
    let rounded = amount + 0.5;
    // The nearest number to the largest one is beyond it.
    if rounded >= u64::MAX as f64 {
        return Err(ParseUnitError { found: text.to_string(), wanted: too_large });
    }
    Ok(rounded as u64)
}

impl FromStr for Bytes {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let (number, unit) = number_and_unit(text, BYTES_WANTED)?;
        let factor = match unit {
            "B" | "" => 1.0,
            "kB" | "KB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            "KiB" => 1024.0,
            "MiB" => 1024.0 * 1024.0,
            "GiB" => 1024.0 * 1024.0 * 1024.0,
            _ => return Err(ParseUnitError { found: text.to_string(), wanted: BYTES_WANTED }),
        };
        whole(text, number * factor, SIZE_TOO_LARGE).map(Bytes)
    }
}

impl FromStr for BitRate {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let (number, unit) = number_and_unit(text, RATE_WANTED)?;
        let factor = match unit {
            "bit/s" | "bps" => 1.0,
            "kbit/s" | "kb/s" | "kbps" => 1e3,
            "Mbit/s" | "Mb/s" | "Mbps" => 1e6,
            "Gbit/s" | "Gb/s" | "Gbps" => 1e9,
            "B/s" => 8.0,
            "kB/s" => 8e3,
            "MB/s" => 8e6,
            "GB/s" => 8e9,
            _ => return Err(ParseUnitError { found: text.to_string(), wanted: RATE_WANTED }),
        };
        whole(text, number * factor, RATE_TOO_LARGE).map(BitRate)
    }
}

/// Reads a duration as people write it: `64 ms`, `1.5 s`, `250 us`, `2 min`; 584 years at most.
pub fn parse_duration(text: &str) -> Result<Duration, ParseUnitError> {
    let (number, unit) = number_and_unit(text, DURATION_WANTED)?;
    let nanos = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 60e9,
        "h" => 3600e9,
        _ => return Err(ParseUnitError { found: text.to_string(), wanted: DURATION_WANTED }),
    };
    whole(text, number * nanos, DURATION_TOO_LARGE).map(Duration::from_nanos)
}

/// Writes a duration with three or four significant digits and the unit that fits.
pub fn format_duration(d: Duration) -> String {
    let s = d.as_secs_f64();
    let (value, unit) = if s >= 1.0 {
        (s, "s")
    } else if s >= 1e-3 {
        (s * 1e3, "ms")
    } else {
        (s * 1e6, "us")
    };
    scaled(value, unit)
}

/// Writes a duration so that [`parse_duration`] reads back the very same: rounded only where that loses nothing.
pub fn exact_duration(d: Duration) -> String {
    let rounded = format_duration(d);
    if parse_duration(&rounded) == Ok(d) { rounded } else { format!("{} ns", d.as_nanos()) }
}

/// `value unit` with as many decimals as three significant digits need, without trailing zeros.
fn scaled(value: f64, unit: &str) -> String {
    let decimals = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    let mut text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    format!("{text} {unit}")
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1_000 => (b, "B"),
            1_000..1_000_000 => (b / 1e3, "kB"),
            1_000_000..1_000_000_000 => (b / 1e6, "MB"),
            _ => (b / 1e9, "GB"),
        };
        f.pad(&scaled(value, unit))
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1_000 => (b, "bit/s"),
            1_000..1_000_000 => (b / 1e3, "kbit/s"),
            1_000_000..1_000_000_000 => (b / 1e6, "Mbit/s"),
            _ => (b / 1e9, "Gbit/s"),
        };
        f.pad(&scaled(value, unit))
    }
}

/// Reads what is written as a text, and says what to write where it is none.
#[cfg(feature = "serde")]
pub(crate) struct Quantity<T> {
    wanted: &'static str,
    parse: fn(&str) -> Result<T, ParseUnitError>,
}

#[cfg(feature = "serde")]
pub(crate) const DURATION: Quantity<Duration> = Quantity { wanted: DURATION_WANTED, parse: parse_duration };

#[cfg(feature = "serde")]
impl<T> serde::de::Visitor<'_> for Quantity<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.wanted)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_str(Quantity { wanted: BYTES_WANTED, parse: str::parse })
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for BitRate {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_str(Quantity { wanted: RATE_WANTED, parse: str::parse })
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&format!("{} B", self.0))
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for BitRate {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&format!("{} bit/s", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_people_write_them() {
        assert_eq!("32 Mbit/s".parse(), Ok(BitRate::from_bits_per_sec(32_000_000)));
        assert_eq!("4.15kB/s".parse(), Ok(BitRate::from_bytes_per_sec(4150)));
        assert_eq!("120 kB".parse(), Ok(Bytes(120_000)));
        assert_eq!("4 MiB".parse(), Ok(Bytes(4 << 20)));
        assert_eq!(parse_duration("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("250us"), Ok(Duration::from_micros(250)));
    }

    #[test]
    fn a_wrong_quantity_names_itself_and_the_remedy() {
        let error = "32 Mbit".parse::<BitRate>().unwrap_err().to_string();
        assert!(error.contains("`32 Mbit`") && error.contains("32 Mbit/s"), "{error}");
        assert!("-3 ms".parse::<Bytes>().is_err());
        assert!(parse_duration("64").is_err());
    }

    #[test]
    fn more_than_there_can_be_is_refused_and_what_there_can_be_is_named() {
        let said = |error: ParseUnitError| error.to_string();
        for (error, most) in [
            ("20000000000 GB".parse::<Bytes>().map_err(said).unwrap_err(), "18000000000 GB"),
            (
                "99999999999999999999 Gbit/s".parse::<BitRate>().map_err(said).unwrap_err(),
                "18000000000 Gbit/s",
            ),
            ("3000000000 GB/s".parse::<BitRate>().map_err(said).unwrap_err(), "18000000000 Gbit/s"),
            (parse_duration("99999999999999 h").map_err(said).unwrap_err(), "5000000 h"),
        ] {
            assert!(error.contains("there can be") && error.contains(most), "{error}");
        }
        assert_eq!("18000000000 GB".parse(), Ok(Bytes(18_000_000_000_000_000_000)));
        assert_eq!("18000000000 Gbit/s".parse(), Ok(BitRate(18_000_000_000_000_000_000)));
        assert_eq!(parse_duration("5000000 h"), Ok(Duration::from_secs(18_000_000_000)));
    }

    #[test]
    fn sending_time_is_rounded_up_and_inverts() {
        let rate = BitRate::from_bits_per_sec(100_000_000);
        assert_eq!(rate.time_to_send(Bytes(1500)), Duration::from_micros(120));
        assert_eq!(rate.bytes_in(Duration::from_micros(120)), Bytes(1500));
        assert_eq!(BitRate::from_bits_per_sec(3).time_to_send(Bytes(1)).as_nanos(), 2_666_666_667);
        assert_eq!(BitRate::default().time_to_send(Bytes(1)), Duration::MAX);
    }

    #[test]
    fn quantities_are_shown_with_three_digits() {
        assert_eq!(BitRate::from_bits_per_sec(31_400_000).to_string(), "31.4 Mbit/s");
        assert_eq!(Bytes(120_000).to_string(), "120 kB");
        assert_eq!(format_duration(Duration::from_micros(64_500)), "64.5 ms");
    }
}
