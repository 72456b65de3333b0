use super::ticks::{self, Tick};
use crate::Unit;
use crate::quantity::ScaledUnit;

/// One side of a panel: what it shows, in which unit, how far.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    pub(super) label: String,
    pub(super) unit: Unit,
    pub(super) scale: Scale,
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
    pub(super) tight: bool,
    pub(super) counts: bool,
    pub(super) categories: Vec<String>,
}

/// How values become lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equally long.
    #[default]
    Linear,
    /// Equal ratios are equally long; what is not above zero is not shown.
    Logarithmic,
}

impl Axis {
    /// An axis of `label` in `unit`, as long as its data. A vertical linear axis starts at zero
    /// unless the data are negative or [`tight`](Self::tight) is asked for.
    pub fn new(label: &str, unit: Unit) -> Self {
        Axis {
            label: label.to_string(),
            unit,
            scale: Scale::Linear,
            low: None,
            high: None,
            tight: false,
            counts: false,
            categories: Vec::new(),
        }
    }

    /// A horizontal axis of names instead of numbers; the `i`th name stands at x = i.
    pub fn categories<S: Into<String>>(label: &str, names: impl IntoIterator<Item = S>) -> Self {
        Axis { categories: names.into_iter().map(Into::into).collect(), ..Axis::new(label, Unit::None) }
    }

    /// Makes the axis logarithmic.
    #[must_use]
    pub fn logarithmic(mut self) -> Self {
        self.scale = Scale::Logarithmic;
        self
    }

    /// Fixes where the axis begins, in base units.
    #[must_use]
    pub fn from(mut self, low: f64) -> Self {
        self.low = Some(low);
        self
    }

    /// Fixes where the axis ends, in base units.
    #[must_use]
    pub fn to(mut self, high: f64) -> Self {
        self.high = Some(high);
        self
    }

    /// Says that what is shown is counted: only whole numbers are marked, and the axis reaches over one at least.
    #[must_use]
    pub fn counts(mut self) -> Self {
        self.counts = true;
        self
    }

    /// Shows only the range of the data, zero or not.
    #[must_use]
    pub fn tight(mut self) -> Self {
        self.tight = true;
        self
    }
}

/// No measured quantity is larger, or (above zero) smaller than its inverse.
const LARGEST: f64 = 1e100;

/// What the data of an axis reach over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Extent {
    pub low: f64,
    pub high: f64,
    /// The smallest value above zero, for logarithmic axes.
    pub least_positive: f64,
}

impl Extent {
    pub const NONE: Extent =
        Extent { low: f64::INFINITY, high: f64::NEG_INFINITY, least_positive: f64::INFINITY };

    /// Takes in a value, unless it is beyond what an axis can span without overflow.
    pub fn include(&mut self, value: f64) {
        if value.abs() <= LARGEST && (value == 0.0 || value.abs() >= 1.0 / LARGEST) {
            self.low = self.low.min(value);
            self.high = self.high.max(value);
            if value > 0.0 {
                self.least_positive = self.least_positive.min(value);
            }
        }
    }

    pub fn union(self, other: Extent) -> Extent {
        Extent {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            least_positive: self.least_positive.min(other.least_positive),
        }
    }
}

/// How an axis treats the ends of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// Ends where the data end (time).
    Flush,
    /// Leaves a little room on both sides (scatter).
    Padded,
    /// Starts at zero and leaves room above (heights).
    FromZero,
}

/// An axis that knows its range: it places values and is marked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ruler {
    scale: Scale,
    unit: ScaledUnit,
    /// The ends, in the unit shown.
    pub low: f64,
    pub high: f64,
    label: String,
    counts: bool,
}

impl Ruler {
    pub fn new(axis: &Axis, extent: Extent, ends: Ends) -> Ruler {
        let (low, high) = match axis.scale {
            _ if !axis.categories.is_empty() => (-0.5, axis.categories.len() as f64 - 0.5),
            Scale::Linear => linear_range(axis, extent, ends),
            Scale::Logarithmic => logarithmic_range(axis, extent),
        };
        let high = if axis.counts && axis.high.is_none() { high.max(low + 1.0) } else { high };
        let unit = axis.unit.scaled_for(low.abs().max(high.abs()));
        let label = match (axis.label.as_str(), unit.symbol) {
            (label, "") => label.to_string(),
            ("", symbol) => symbol.to_string(),
            (label, symbol) => format!("{label} ({symbol})"),
        };
        let (low, high) = (low / unit.divisor, high / unit.divisor);
        Ruler { scale: axis.scale, unit, low, high, label, counts: axis.counts }
    }

    /// The name and the unit that is shown.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Where `value` (in the base unit) lies: 0 at the low end, 1 at the high end. `None` where
    /// it cannot be shown.
    pub fn place(&self, value: f64) -> Option<f32> {
        self.place_shown(value / self.unit.divisor)
    }

    pub fn place_shown(&self, value: f64) -> Option<f32> {
        let fraction = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic if value > 0.0 => (value / self.low).ln() / (self.high / self.low).ln(),
            Scale::Logarithmic => return None,
        };
        // Far outside is still outside, and does not overflow the painter.
        fraction.is_finite().then(|| fraction.clamp(-10.0, 11.0) as f32)
    }

    pub fn ticks(&self, at_most: usize) -> Vec<Tick> {
        match self.scale {
            Scale::Linear if self.counts => ticks::whole(self.low, self.high, at_most),
            Scale::Linear => ticks::linear(self.low, self.high, at_most),
            Scale::Logarithmic => ticks::logarithmic(self.low, self.high, at_most),
        }
    }

    pub fn minor_ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => Vec::new(),
            Scale::Logarithmic => ticks::minor(self.low, self.high),
        }
    }
}

fn linear_range(axis: &Axis, extent: Extent, ends: Ends) -> (f64, f64) {
    let (mut low, mut high) = if extent.low <= extent.high { (extent.low, extent.high) } else { (0.0, 1.0) };
    let from_zero = ends == Ends::FromZero && !axis.tight;
    if from_zero {
        low = low.min(0.0);
        high = high.max(0.0);
    }
    if high <= low {
        let pad = if low == 0.0 { 1.0 } else { low.abs() * 0.1 };
        (low, high) = if from_zero { (low, high + pad) } else { (low - pad, high + pad) };
    }
    let pad = (high - low) * 0.05;
    if ends != Ends::Flush {
        high += if high == 0.0 && from_zero { 0.0 } else { pad };
        low -= if low == 0.0 && from_zero { 0.0 } else { pad };
    }
    fixed(axis, low, high)
}

fn logarithmic_range(axis: &Axis, extent: Extent) -> (f64, f64) {
    let (low, high) =
        if extent.least_positive <= extent.high { (extent.least_positive, extent.high) } else { (1.0, 10.0) };
    let pad = (high / low).max(1.2).powf(0.04);
    let (low, high) = fixed(axis, low / pad, high * pad);
    if low > 0.0 { (low, high) } else { (high / 1e3, high) }
}

/// Puts in what the description fixes, and keeps the range from vanishing.
fn fixed(axis: &Axis, low: f64, high: f64) -> (f64, f64) {
    let (low, high) = (axis.low.unwrap_or(low), axis.high.unwrap_or(high));
    if high > low { (low, high) } else { (low, low + low.abs().max(1.0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(values: &[f64]) -> Extent {
        let mut extent = Extent::NONE;
        values.iter().for_each(|v| extent.include(*v));
        extent
    }

    #[test]
    fn the_axis_picks_the_prefix_and_places_base_units() {
        let axis = Axis::new("throughput", Unit::BitsPerSecond).to(32e6);
        let ruler = Ruler::new(&axis, extent(&[1e6, 30e6]), Ends::FromZero);
        assert_eq!(ruler.label(), "throughput (Mbit/s)");
        assert_eq!(ruler.place(16e6), Some(0.5));
        assert_eq!((ruler.low, ruler.high), (0.0, 32.0));
    }

    #[test]
    fn a_logarithmic_axis_shows_only_what_is_above_zero() {
        let axis = Axis::new("delay", Unit::Seconds).logarithmic().from(1e-3).to(1.0);
        let ruler = Ruler::new(&axis, extent(&[0.0, 0.5]), Ends::Padded);
        assert_eq!(ruler.place(0.0), None);
        assert!((ruler.place(0.0316).unwrap() - 0.5).abs() < 0.001);
    }

    #[test]
    fn no_data_or_one_value_still_gives_an_axis() {
        for (data, ends) in [(&[][..], Ends::Flush), (&[0.0][..], Ends::FromZero), (&[5.0][..], Ends::Padded)]
        {
            for axis in [Axis::new("x", Unit::None), Axis::new("x", Unit::None).logarithmic()] {
                let ruler = Ruler::new(&axis, extent(data), ends);
                assert!(ruler.high > ruler.low && !ruler.ticks(5).is_empty(), "{ruler:?}");
            }
        }
    }
}
