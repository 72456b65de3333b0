use shorthaul_types::Seed;

const WORD: usize = 8;

/// Bytes that depend on a seed and on their place: any change, gap or repetition shows at once, and nothing
/// has to be kept to find it.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    seed: u64,
}

impl Content {
    /// The bytes that belong to `seed`.
    pub const fn new(seed: Seed) -> Self {
        Content { seed: seed.0 }
    }

    /// Writes the bytes from `position` on into `out`.
    pub fn fill(&self, position: u64, out: &mut [u8]) {
        let first = position / WORD as u64;
        let skipped = (position % WORD as u64) as usize;
        let head = out.len().min((WORD - skipped) % WORD);
        let (before, rest) = out.split_at_mut(head);
        before.copy_from_slice(&self.word(first)[skipped..skipped + head]);
        let first = position.div_ceil(WORD as u64);
        let (words, after) = rest.as_chunks_mut::<WORD>();
        let mut index = first;
        for word in words {
            *word = self.word(index);
            index += 1;
        }
        let len = after.len();
        after.copy_from_slice(&self.word(index)[..len]);
    }

    /// Checks bytes that should be those from `position` on.
    ///
    /// # Errors
    /// The place of the first that is wrong.
    pub fn check(&self, position: u64, bytes: &[u8]) -> Result<(), u64> {
        let mut right = [0; 4096];
        let mut at = position;
        for part in bytes.chunks(right.len()) {
            let right = &mut right[..part.len()];
            self.fill(at, right);
            if right != part {
                let same = right.iter().zip(part).take_while(|(a, b)| a == b).count();
                return Err(at + same as u64);
            }
            at += part.len() as u64;
        }
        Ok(())
    }

    /// SplitMix64 of the place.
    #[inline]
    fn word(&self, index: u64) -> [u8; WORD] {
        let mut z = self.seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_depends_on_its_place_only() {
        let content = Content::new(Seed(5));
        let mut whole = [0; 200];
        content.fill(0, &mut whole);
        for from in 0..40 {
            for to in from..60 {
                let mut part = vec![0; to - from];
                content.fill(from as u64, &mut part);
                assert_eq!(part, whole[from..to], "{from}..{to}");
            }
        }
        assert_ne!(whole[..100], whole[100..]);
    }

    #[test]
    fn the_first_wrong_byte_is_found() {
        let content = Content::new(Seed(5));
        let mut bytes = vec![0; 20_000];
        content.fill(7, &mut bytes);
        assert_eq!(content.check(7, &bytes), Ok(()));
        bytes[12_345] ^= 1;
        assert_eq!(content.check(7, &bytes), Err(7 + 12_345));
        assert_eq!(Content::new(Seed(6)).check(7, &bytes), Err(7));
    }
}
