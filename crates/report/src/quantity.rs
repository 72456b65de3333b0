/// What a number counts, so that it is shown with a prefix that fits: `32 Mbit/s`, `41 ms`.
///
/// Values are kept in the base unit everywhere (seconds, bytes, bits per second); only showing
/// them scales them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// A bare number.
    #[default]
    None,
    /// Seconds.
    Seconds,
    /// Bits per second.
    BitsPerSecond,
    /// Bytes.
    Bytes,
    /// A ratio shown as per cent.
    Percent,
    /// A ratio shown as a factor, `2.1 ×`.
    Times,
    /// A unit that takes no prefix, such as `"packets"`.
    Plain(&'static str),
}

/// A unit with its prefix: divide by `divisor`, write `symbol` behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ScaledUnit {
    pub divisor: f64,
    pub symbol: &'static str,
}

impl Unit {
    /// The prefix with which `largest` is at least one, where there is such a prefix.
    pub(crate) fn scaled_for(self, largest: f64) -> ScaledUnit {
        const RATES: &[(f64, &str)] = &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")];
        const SIZES: &[(f64, &str)] = &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")];
        const TIMES: &[(f64, &str)] = &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];
        let steps = match self {
            Unit::BitsPerSecond => RATES,
            Unit::Bytes => SIZES,
            Unit::Seconds => TIMES,
            Unit::None => return ScaledUnit { divisor: 1.0, symbol: "" },
            Unit::Percent => return ScaledUnit { divisor: 0.01, symbol: "%" },
            Unit::Times => return ScaledUnit { divisor: 1.0, symbol: "×" },
            Unit::Plain(symbol) => return ScaledUnit { divisor: 1.0, symbol },
        };
        let largest = largest.abs();
        let base = (1.0, steps.iter().find(|(divisor, _)| *divisor == 1.0).map_or("", |(_, s)| s));
        let fits = |&&(divisor, _): &&(f64, &'static str)| largest >= divisor * (1.0 - 1e-9);
        let chosen = if largest > 0.0 { steps.iter().find(fits).or(steps.last()) } else { None };
        let (divisor, symbol) = *chosen.unwrap_or(&base);
        ScaledUnit { divisor, symbol }
    }

    /// What is less is nothing: the error of a computation, such as the spread of values that are all the same.
    fn least(self) -> f64 {
        match self {
            Unit::Seconds => 1e-12,
            Unit::BitsPerSecond | Unit::Bytes => 1e-3,
            Unit::None | Unit::Percent | Unit::Times | Unit::Plain(_) => 0.0,
        }
    }

    /// The number with three significant digits, prefix and unit: `1.52 Mbit/s`, `0 s`.
    ///
    /// ```
    /// use shorthaul_report::Unit;
    /// assert_eq!(Unit::BitsPerSecond.format(1_523_000.0), "1.52 Mbit/s");
    /// assert_eq!(Unit::Seconds.format(0.0415), "41.5 ms");
    /// assert_eq!(Unit::Times.format(2.0), "2.00 ×");
    /// ```
    pub fn format(self, value: f64) -> String {
        let value = if value.abs() < self.least() { 0.0 } else { value };
        // Rounding first decides the prefix: 999.9 kbit/s is 1.00 Mbit/s.
        let scaled = self.scaled_for(round_to_three_digits(value));
        let number = three_digits(value / scaled.divisor);
        if scaled.symbol.is_empty() { number } else { format!("{number} {}", scaled.symbol) }
    }
}

/// `value` rounded to three significant digits.
fn round_to_three_digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(2 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

/// `value` with three significant digits, as far as a decimal point reaches: `1.52`, `15.2`, `1520`.
pub(crate) fn three_digits(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_string();
    }
    let rounded = round_to_three_digits(value);
    if rounded == 0.0 {
        return "0".to_string();
    }
    let decimals = (2 - rounded.abs().log10().floor() as i32).clamp(0, 12) as usize;
    // Whole numbers above a thousand keep all their digits.
    let shown = if decimals == 0 { value } else { rounded };
    format!("{shown:.decimals$}").replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_whatever_the_size() {
        for (value, text) in [
            (0.0, "0"),
            (0.000_123_4, "0.000123"),
            (9.996, "10.0"),
            (0.9996, "1.00"),
            (15.24, "15.2"),
            (1234.0, "1234"),
            (-2.5, "−2.50"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(three_digits(value), text);
        }
    }

    #[test]
    fn the_prefix_follows_the_rounded_value() {
        assert_eq!(Unit::BitsPerSecond.format(999_900.0), "1.00 Mbit/s");
        assert_eq!(Unit::BitsPerSecond.format(999_000.0), "999 kbit/s");
        assert_eq!(Unit::BitsPerSecond.format(0.0), "0 bit/s");
        assert_eq!(Unit::Seconds.format(0.000_25), "250 µs");
        assert_eq!(Unit::Seconds.format(75.0), "75.0 s");
        assert_eq!(Unit::Percent.format(0.031), "3.10 %");
        assert_eq!(Unit::Bytes.format(100_000.0), "100 kB");
        assert_eq!(Unit::None.format(3.0), "3.00");
        // The spread of values that are the same, as far as a computer knows.
        assert_eq!(Unit::Seconds.format(4.32e-14), "0 s");
        assert_eq!(Unit::BitsPerSecond.format(-1.2e-7), "0 bit/s");
        assert_eq!(Unit::Seconds.format(4.32e-10), "0.432 ns");
    }
}
