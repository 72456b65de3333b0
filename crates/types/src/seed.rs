/// Where randomness comes from: a number that is printed, and from which named ones are derived.
///
/// Deriving by name instead of drawing one after the other keeps a component's randomness the
/// same when another component is added beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seed(pub u64);

impl Seed {
    /// The seed of the component `name`: FNV-1a over the name, mixed with SplitMix64's finalizer.
    pub const fn derive(self, name: &str) -> Seed {
        let bytes = name.as_bytes();
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut i = 0;
        while i < bytes.len() {
            hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
            i += 1;
        }
        Seed(Self::mix(self.0 ^ Self::mix(hash)))
    }

    /// The seed of the `index`th of several alike.
    pub const fn nth(self, index: u64) -> Seed {
        Seed(Self::mix(self.0.wrapping_add(Self::mix(index.wrapping_add(1)))))
    }

    const fn mix(mut z: u64) -> u64 {
        z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::Seed;

    #[test]
    fn names_and_numbers_give_different_seeds() {
        let seed = Seed(7);
        assert_ne!(seed.derive("loss"), seed.derive("jitter"));
        assert_ne!(seed.nth(0), seed.nth(1));
        assert_ne!(Seed(7).derive("loss"), Seed(8).derive("loss"));
    }
}
