use sha2::{Digest, Sha256};
use shorthaul_types::Seed;

/// A reproducible stream of bytes: every flow and direction has its own, and any byte of it can
/// be computed from its position. So a byte that belongs elsewhere, in another place of the same
/// flow or in another flow, is told from the right one.
#[derive(Clone, Copy, Debug)]
pub struct Pattern(Seed);

impl Pattern {
    /// The stream that belongs to `seed`.
    pub fn new(seed: Seed) -> Self {
        Pattern(seed)
    }

    /// Writes the bytes from `offset` on into `buffer`.
    pub(crate) fn fill(self, offset: u64, buffer: &mut [u8]) {
        let mut word = offset / 8;
        let skip = (offset % 8) as usize;
        let (head, rest) = buffer.split_at_mut(buffer.len().min((8 - skip) % 8));
        if !head.is_empty() {
            let bytes = self.word(word);
            head.copy_from_slice(&bytes[skip..skip + head.len()]);
            word += 1;
        }
        for chunk in rest.chunks_mut(8) {
            chunk.copy_from_slice(&self.word(word)[..chunk.len()]);
            word += 1;
        }
    }

    fn word(self, index: u64) -> [u8; 8] {
        self.0.nth(index).0.to_le_bytes()
    }
}

/// One direction of one flow as one end sees it: how far it has come, and the hash of what passed.
#[derive(Clone)]
pub struct Tape {
    pattern: Pattern,
    position: u64,
    hash: Sha256,
    scratch: Vec<u8>,
}

/// Bytes are produced and checked in pieces of this size.
pub const CHUNK: usize = 64 * 1024;

impl Tape {
    /// The beginning of a stream.
    pub fn new(pattern: Pattern) -> Self {
        Tape { pattern, position: 0, hash: Sha256::new(), scratch: Vec::new() }
    }

    /// How many bytes have passed.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next `len` bytes (at most [`CHUNK`]) to send; [`Tape::advance`] says how many went.
    pub fn upcoming(&mut self, len: usize) -> &[u8] {
        self.scratch.resize(len.min(CHUNK), 0);
        self.pattern.fill(self.position, &mut self.scratch);
        &self.scratch
    }

    /// The first `len` bytes of [`Tape::upcoming`] went out.
    pub fn advance(&mut self, len: usize) {
        self.hash.update(&self.scratch[..len]);
        self.position += len as u64;
    }

    /// Takes in what arrived.
    ///
    /// # Errors
    /// The position of the first byte that is not the right one.
    pub fn check(&mut self, arrived: &[u8]) -> Result<(), u64> {
        self.hash.update(arrived);
        for chunk in arrived.chunks(CHUNK) {
            self.scratch.resize(chunk.len(), 0);
            self.pattern.fill(self.position, &mut self.scratch);
            if self.scratch != chunk {
                let wrong = self.scratch.iter().zip(chunk).take_while(|(a, b)| a == b).count();
                return Err(self.position + wrong as u64);
            }
            self.position += chunk.len() as u64;
        }
        Ok(())
    }

    /// SHA-256 of all that has passed.
    pub fn digest(&self) -> [u8; 32] {
        self.hash.clone().finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_depends_only_on_its_position() {
        let pattern = Pattern::new(Seed(3));
        let mut whole = [0; 100];
        pattern.fill(0, &mut whole);
        for offset in 0..100 {
            for len in 0..100 - offset {
                let mut part = vec![0; len];
                pattern.fill(offset as u64, &mut part);
                assert_eq!(part, whole[offset..offset + len], "{len} bytes from {offset} on");
            }
        }
    }

    #[test]
    fn a_byte_out_of_place_is_found() {
        let mut sent = Tape::new(Pattern::new(Seed(3)));
        let mut bytes = sent.upcoming(5000).to_vec();
        sent.advance(5000);
        let mut arrived = Tape::new(Pattern::new(Seed(3)));
        assert_eq!(arrived.check(&bytes), Ok(()));
        assert_eq!(arrived.digest(), sent.digest());
        bytes.swap(4000, 4001);
        let mut arrived = Tape::new(Pattern::new(Seed(3)));
        assert_eq!(arrived.check(&bytes), Err(4000));
        assert_ne!(arrived.digest(), sent.digest());
    }
}
