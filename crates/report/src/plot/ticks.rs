//! Where an axis is marked, and what is written there.

/// A mark on an axis, in the unit that is shown.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    /// Where, in the unit shown.
    pub value: f64,
    /// What is written.
    pub label: String,
}

/// Multiples of 1, 2 or 5 × 10ⁿ between `low` and `high`, at most `at_most` of them (but two
/// where the range holds them).
pub(super) fn linear(low: f64, high: f64, at_most: usize) -> Vec<Tick> {
    multiples(low, high, at_most, i32::MIN)
}

/// The same, of whole numbers alone.
pub(super) fn whole(low: f64, high: f64, at_most: usize) -> Vec<Tick> {
    multiples(low, high, at_most, 0)
}

/// Multiples of 1, 2 or 5 × 10ⁿ, where n is at least `least`.
fn multiples(low: f64, high: f64, at_most: usize, least: i32) -> Vec<Tick> {
    let span = high - low;
    if !(span > 0.0 && span.is_finite()) {
        return vec![tick(low, 0)];
    }
    let at_most = at_most.max(2);
    let mut exponent = (span / at_most as f64).log10().floor() as i32;
    exponent = exponent.max(least);
    loop {
        for mantissa in [1.0, 2.0, 5.0] {
            let step = mantissa * 10f64.powi(exponent);
            // Half of a millionth of a step decides what still counts as inside.
            let first = (low / step - 5e-7).ceil();
            let last = (high / step + 5e-7).floor();
            if last - first + 1.0 <= at_most as f64 {
                let decimals = (-exponent).max(0) as usize;
                let count = (last - first).max(-1.0) as i64;
                return (0..=count).map(|i| tick((first + i as f64) * step, decimals)).collect();
            }
        }
        exponent += 1;
    }
}

/// Powers of ten between `low` and `high` (both above zero), thinned to `at_most`; with 2 and 5
/// between them where the range is short.
pub(super) fn logarithmic(low: f64, high: f64, at_most: usize) -> Vec<Tick> {
    let at_most = at_most.max(2);
    let (first, last) = ((low.log10() - 1e-9).ceil() as i32, (high.log10() + 1e-9).floor() as i32);
    let inside = |v: f64| v >= low * (1.0 - 1e-9) && v <= high * (1.0 + 1e-9);
    let with = |mantissas: &[f64]| -> Vec<(f64, i32)> {
        (first - 1..=last)
            .flat_map(|e| mantissas.iter().map(move |m| (m * 10f64.powi(e), e)))
            .filter(|(v, _)| inside(*v))
            .collect()
    };
    let decades = (last - first + 1).max(0) as usize;
    let mut values = with(&[1.0]);
    for mantissas in [&[1.0, 3.0][..], &[1.0, 2.0, 5.0]] {
        let candidate = with(mantissas);
        if decades <= 3 && candidate.len() <= at_most {
            values = candidate;
        }
    }
    if values.len() < 2 {
        // Less than a decade without two of those: as on a linear axis.
        return linear(low, high, at_most).into_iter().filter(|t| t.value > 0.0).collect();
    }
    let stride = values.len().div_ceil(at_most);
    values.into_iter().step_by(stride).map(|(v, e)| Tick { value: v, label: power_label(v, e) }).collect()
}

/// Unlabelled marks at 2 to 9 × 10ⁿ.
pub(super) fn minor(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    if last - first > 6 {
        return Vec::new();
    }
    (first..=last)
        .flat_map(|e| (2..10).map(move |m| f64::from(m) * 10f64.powi(e)))
        .filter(|v| *v >= low && *v <= high)
        .collect()
}

fn tick(value: f64, decimals: usize) -> Tick {
    // A zero that came out of a subtraction.
    let value = if value.abs() < 1e-12 { 0.0 } else { value };
    Tick { value, label: number(value, decimals) }
}

/// From 0.001 to 10 000 written out, beyond that as a power.
fn power_label(value: f64, exponent: i32) -> String {
    if (-3..=4).contains(&exponent) {
        return number(value, (-exponent).max(0) as usize);
    }
    let mantissa = (value / 10f64.powi(exponent)).round() as u32;
    let power: String = exponent.to_string().chars().map(superscript).collect();
    if mantissa == 1 { format!("10{power}") } else { format!("{mantissa}·10{power}") }
}

fn superscript(c: char) -> char {
    match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '0' => '⁰',
        digit @ '4'..='9' => char::from_u32('⁴' as u32 + (digit as u32 - '4' as u32)).unwrap_or(digit),
        other => other,
    }
}

/// A number with a true minus sign and thin spaces between thousands from 10 000 on (ISO 80000-1).
fn number(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut out = String::new();
    if value < 0.0 {
        out.push('−');
    }
    for (i, digit) in whole.chars().enumerate() {
        if whole.len() > 4 && i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push('\u{2009}');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|t| t.label.as_str()).collect()
    }

    #[test]
    fn linear_ticks_are_round_numbers() {
        assert_eq!(labels(&linear(0.0, 32.0, 5)), ["0", "10", "20", "30"]);
        assert_eq!(labels(&linear(0.0, 1.0, 6)), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&linear(-1.0, 1.0, 5)), ["−1.0", "−0.5", "0.0", "0.5", "1.0"]);
        assert_eq!(labels(&linear(0.0, 40_000.0, 3)), ["0", "20\u{2009}000", "40\u{2009}000"]);
        assert_eq!(labels(&linear(3.0, 3.0, 5)), ["3"]);
    }

    #[test]
    fn what_is_counted_has_no_halves() {
        assert_eq!(labels(&linear(0.0, 2.1, 6)), ["0.0", "0.5", "1.0", "1.5", "2.0"]);
        assert_eq!(labels(&whole(0.0, 2.1, 6)), ["0", "1", "2"]);
        assert_eq!(labels(&whole(0.0, 32.0, 5)), ["0", "10", "20", "30"]);
    }

    #[test]
    fn logarithmic_ticks_are_powers_and_fill_short_ranges() {
        assert_eq!(labels(&logarithmic(1.0, 1000.0, 5)), ["1", "10", "100", "1000"]);
        assert_eq!(labels(&logarithmic(0.01, 1.0, 8)), ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1"]);
        assert_eq!(labels(&logarithmic(1e-6, 1e6, 4)), ["10⁻⁶", "0.01", "100", "10⁶"]);
        assert_eq!(labels(&logarithmic(2.1, 2.9, 5)), ["2.2", "2.4", "2.6", "2.8"]);
    }

    proptest! {
        #[test]
        fn ticks_lie_inside_in_order_and_are_few(low in -1e6f64..1e6, span in 1e-3f64..1e6, n in 2usize..12) {
            let high = low + span;
            let ticks = linear(low, high, n);
            prop_assert!(ticks.len() <= n, "{:?}", ticks);
            let slack = span * 1e-6;
            prop_assert!(ticks.iter().all(|t| t.value >= low - slack && t.value <= high + slack));
            prop_assert!(ticks.windows(2).all(|w| w[0].value < w[1].value && w[0].label != w[1].label));
        }

        #[test]
        fn logarithmic_ticks_too(low in 1e-6f64..1e3, factor in 1.05f64..1e9, n in 2usize..9) {
            let high = low * factor;
            let ticks = logarithmic(low, high, n);
            prop_assert!(ticks.len() <= n && !ticks.is_empty(), "{:?}", ticks);
            prop_assert!(ticks.iter().all(|t| t.value >= low * 0.999 && t.value <= high * 1.001));
            prop_assert!(ticks.windows(2).all(|w| w[0].value < w[1].value));
        }
    }
}
