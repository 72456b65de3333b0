use core::ops::Range;

/// The bytes of a stream that are delivered, in each of its directions, when the time since the SYN is taken: what a small page
/// takes, a larger one, a picture or a song, and what only long flows come to.
pub(crate) const BYTES: [u64; 4] = [30_000, 100_000, 1_000_000, 10_000_000];
/// How much is measured: toward the host at the access side, and from it.
pub(crate) const METRICS: usize = 2 * BYTES.len();

/// How far a flow has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Milestones {
    passed: [u8; 2],
}

impl Milestones {
    /// The receiving end has acknowledged `delivered` bytes, toward the host or from it. Returns the numbers of what was
    /// passed now, of [`METRICS`].
    pub fn pass(&mut self, toward_host: bool, delivered: u64) -> Range<usize> {
        let direction = usize::from(!toward_host);
        let before = usize::from(self.passed[direction]);
        if BYTES.get(before).is_none_or(|next| delivered < *next) {
            return 0..0;
        }
        let now = before + BYTES[before..].iter().take_while(|bytes| delivered >= **bytes).count();
        self.passed[direction] = now as u8;
        let first = direction * BYTES.len();
        first + before..first + now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_milestone_is_passed_once_in_each_direction() {
        let mut milestones = Milestones::default();
        assert_eq!(milestones.pass(true, 29_999), 0..0);
        assert_eq!(milestones.pass(true, 30_000), 0..1);
        assert_eq!(milestones.pass(true, 99_999), 0..0);
        assert_eq!(milestones.pass(false, 30_000), 4..5);
        assert_eq!(milestones.pass(true, 20_000_000), 1..4);
        assert_eq!(milestones.pass(true, u64::MAX), 0..0);
    }
}
