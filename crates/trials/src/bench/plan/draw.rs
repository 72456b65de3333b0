use shorthaul_types::Seed;

/// Random numbers, each by its name: one more does not change the others.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Draw(pub Seed);

/// From where to where.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Range {
    pub from: f64,
    pub to: f64,
}

impl Draw {
    /// Of several alike, the `index`th.
    pub fn nth(self, index: u64) -> Draw {
        Draw(self.0.nth(index))
    }

    /// From 0 to below 1.
    pub fn share(self, name: &str) -> f64 {
        (self.0.derive(name).0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform.
    pub fn uniform(self, name: &str, range: Range) -> f64 {
        range.from + (range.to - range.from) * self.share(name)
    }

    /// Uniform in its logarithm, as quantities are that vary over decades.
    pub fn decades(self, name: &str, range: Range) -> f64 {
        range.from * (range.to / range.from).powf(self.share(name))
    }

    /// One of the whole numbers from 0 to below `count`.
    pub fn choice(self, name: &str, count: u64) -> u64 {
        ((self.share(name) * count as f64) as u64).min(count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_in_their_range_and_go_all_over_it() {
        let draws: Vec<f64> =
            (0..1000).map(|i| Draw(Seed(3)).nth(i).decades("loss", Range { from: 1e-5, to: 2e-2 })).collect();
        assert!(draws.iter().all(|loss| (1e-5..2e-2).contains(loss)));
        let below = draws.iter().filter(|loss| **loss < 4.47e-4).count();
        assert!((420..580).contains(&below), "half of them below the geometric mean: {below}");
        assert!((0..1000).all(|i| Draw(Seed(3)).nth(i).choice("relays", 3) < 3));
    }
}
