use std::ops::Range;

/// Seeded chance: SplitMix64 (Steele, Lea, Flood 2014). The same seed gives the same numbers, for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chance(pub u64);

impl Chance {
    /// The next number, of 64 bits.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `n − 1`; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.number() % n.max(1)
    }

    /// True `per_mille` times of a thousand.
    pub fn happens(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of them.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        assert!(!from.is_empty(), "there is nothing to pick from");
        &from[self.below(from.len() as u64) as usize]
    }

    /// Another source, which goes on by itself: what is drawn there changes nothing here.
    pub fn split(&mut self) -> Chance {
        Chance(self.number())
    }
}

/// The seeds of a test: `usual`, or those that the environment variable `SEEDS` names, such as `1000..2000` or `377`.
///
/// # Panics
/// If `SEEDS` is neither a number nor a range, or a range of nothing.
pub fn seeds(usual: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var("SEEDS") else { return usual };
    parse(&text).unwrap_or_else(|| {
        panic!("SEEDS is {text:?}: write a seed such as 377, or a range such as 1000..2000")
    })
}

fn parse(text: &str) -> Option<Range<u64>> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let range = match text.split_once("..") {
        Some((from, to)) => number(from)?..number(to)?,
        None => number(text)?..number(text)?.checked_add(1)?,
    };
    (!range.is_empty()).then_some(range)
}

/// Runs a test once for each of its seeds. A seed that fails is printed, with what to type to see it again.
///
/// # Panics
/// As [`seeds`] does.
pub fn each_seed(usual: Range<u64>, mut run: impl FnMut(u64)) {
    for seed in seeds(usual) {
        let told = Told(seed);
        run(seed);
        drop(told);
    }
}

/// Prints the seed if what happens in its time panics.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {} failed; SEEDS={} before the same command runs it alone", self.0, self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        // The first three of the reference implementation with the seed 1234567.
        let mut chance = Chance(1_234_567);
        let numbers = [chance.number(), chance.number(), chance.number()];
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn seeds_are_a_number_or_a_range() {
        assert_eq!((parse("7"), parse("3 .. 9")), (Some(7..8), Some(3..9)));
        for wrong in ["", "x", "3..", "9..3", "5..5"] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
