/// What several runs of the same thing say: mean, spread, and how sure one can be of the mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The values, in ascending order.
    sorted: Vec<f64>,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation (of a sample: the sum of squares is divided by one less than the number);
    /// zero for a single value.
    pub std_dev: f64,
}

impl Summary {
    /// Summarizes values, of which those that are not finite are left out; `None` if none is left.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        if sorted.is_empty() {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len() as f64;
        let mean = sorted.iter().sum::<f64>() / n;
        let squares: f64 = sorted.iter().map(|value| (value - mean) * (value - mean)).sum();
        let std_dev = if sorted.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
        Some(Summary { sorted, mean, std_dev })
    }

    /// How many values there are.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// Half the width of the 95 % confidence interval of the mean, by Student's t; `None` for a single
    /// value, which says nothing about its own error.
    pub fn confidence(&self) -> Option<f64> {
        let freedom = self.count().checked_sub(1).filter(|freedom| *freedom > 0)?;
        Some(student_t(freedom) * self.std_dev / (self.count() as f64).sqrt())
    }

    /// The value below which `share` (0 to 1) of the values lie, interpolated between neighbours
    /// (Hyndman and Fan's type 7, as in R and NumPy).
    pub fn percentile(&self, share: f64) -> f64 {
        let place = share.clamp(0.0, 1.0) * (self.sorted.len() - 1) as f64;
        let (low, high) = (place.floor() as usize, place.ceil() as usize);
        self.sorted[low] + (self.sorted[high] - self.sorted[low]) * place.fract()
    }

    /// What the median of all values that there could be is between, with 95 % at least: the sign test's interval. Its ends are two of the values, as many
    /// from below as from above, so that it is right whatever their distribution is, and a few wild ones do not move it. `None` for fewer than six.
    pub fn median_confidence(&self) -> Option<[f64; 2]> {
        // Each value is below the median with a chance of a half: how many of the lowest can be left out (binomial distribution).
        let count = self.count();
        let (mut chance, mut sum, mut left_out) = (0.5f64.powf(count as f64), 0.0, None);
        for below in 0..count {
            sum += chance;
            if 2.0 * sum > 0.05 {
                break;
            }
            left_out = Some(below);
            chance *= (count - below) as f64 / (below + 1) as f64;
        }
        left_out.map(|below| [self.sorted[below], self.sorted[count - 1 - below]])
    }
}

/// The 97.5 % quantile of Student's t distribution.
fn student_t(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    match TABLE.get(freedom.saturating_sub(1)) {
        Some(quantile) => *quantile,
        None => {
            // the first two terms of its expansion about the normal quantile (Abramowitz and Stegun 26.7.5)
            let (z, n) = (1.959_964_f64, freedom as f64);
            z + (z.powi(3) + z) / (4.0 * n) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_what_a_textbook_says() {
        // by hand: squares sum to 40.8, divided by 4; the interval is 2.776 · 3.194 / √5 wide to each side
        let summary = Summary::of([4.0, 7.0, 1.0, 9.0, 3.0, f64::NAN]).unwrap();
        assert_eq!((summary.count(), summary.mean), (5, 4.8));
        assert!((summary.std_dev - 3.193_744).abs() < 1e-6);
        assert!((summary.confidence().unwrap() - 3.9655).abs() < 1e-3);
        assert_eq!(
            (summary.percentile(0.0), summary.percentile(0.5), summary.percentile(1.0)),
            (1.0, 4.0, 9.0)
        );
        assert!((summary.percentile(0.9) - 8.2).abs() < 1e-12);
    }

    #[test]
    fn one_value_is_not_sure_of_itself_and_none_is_nothing() {
        let one = Summary::of([2.0]).unwrap();
        assert_eq!((one.mean, one.std_dev, one.confidence()), (2.0, 0.0, None));
        assert_eq!(Summary::of([f64::NAN]), None);
    }

    #[test]
    fn a_few_wild_values_do_not_move_the_interval_of_the_median() {
        let of = |values: &[f64]| Summary::of(values.iter().copied()).unwrap().median_confidence();
        // The chance that all of six are on one side of the median is 2/64; that eight or nine of nine are, 20/512.
        assert_eq!((of(&[1.0; 5]), of(&[2.0, 1.0, 6.0, 3.0, 5.0, 4.0])), (None, Some([1.0, 6.0])));
        assert_eq!(of(&[1.0, 1.1, 0.9, 1.0, 90.0, 1.05, 1.1, 0.01, 1.0]), Some([0.9, 1.1]));
        // Tables of the sign test: at 5 %, 5 of 20 and 7 of 25 are few enough.
        let up_to = |count: i32| of(&(1..=count).map(f64::from).collect::<Vec<_>>());
        assert_eq!((up_to(20), up_to(25)), (Some([6.0, 15.0]), Some([8.0, 18.0])));
    }

    #[test]
    fn the_quantiles_go_on_smoothly_beyond_the_table() {
        assert!((student_t(40) - 2.021).abs() < 1e-3 && (student_t(120) - 1.980).abs() < 1e-3);
        assert!(student_t(30) > student_t(31) && student_t(31) > 1.96);
    }
}
