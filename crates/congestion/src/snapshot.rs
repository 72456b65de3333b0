//! What a part knows, as numbers ([`Keep`]): one process hands them to another that goes on in its place. What does not fit, for another version
//! wrote it, is refused as a whole.
use crate::volume::Gain;
use alloc::vec::Vec;
pub(crate) use shorthaul_types::{Blank, Keep, Numbers, keeps, number_of};

impl Keep for Gain {
    fn put(&self, to: &mut Vec<u64>) {
        self.0.put(to);
    }

    fn take(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        *self = Gain(u32::try_from(from.next()?).ok()?);
        Some(())
    }
}

/// All that `part` knows, behind a number that changes with each change of what follows.
pub(crate) fn snapshot(version: u64, part: &impl Keep) -> Vec<u64> {
    let mut numbers = [version].to_vec();
    part.put(&mut numbers);
    numbers
}

/// `part`, with what the numbers say; `None` where they are not of this version, or not as many as it takes.
pub(crate) fn restored<T: Keep + Clone>(version: u64, part: &T, numbers: &[u64]) -> Option<T> {
    let mut from = Numbers(numbers);
    if from.next()? != version {
        return None;
    }
    let mut next = part.clone();
    next.take(&mut from)?;
    from.0.is_empty().then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Known {
        window: u64,
        rate: Option<u32>,
        at: Option<Duration>,
        own: u64,
        full: bool,
        rounds: [u64; 2],
    }

    keeps!(Known { window, rate, at, full, rounds });

    #[test]
    fn what_was_handed_over_is_known_and_what_does_not_fit_is_refused() {
        let known = Known { window: 9, rate: Some(7), at: None, own: 1, full: true, rounds: [3, u64::MAX] };
        let numbers = snapshot(4, &known);
        let here = Known { own: 2, ..Known::default() };
        assert_eq!(restored(4, &here, &numbers), Some(Known { own: 2, ..known.clone() }));
        assert_eq!(restored(5, &here, &numbers), None, "another version");
        for length in 0..numbers.len() {
            assert_eq!(restored(4, &here, &numbers[..length]), None);
        }
        assert_eq!(restored(4, &here, &[&numbers[..], &[0]].concat()), None);
        let mut wrong = numbers.clone();
        wrong[3] = 1 << 40; // no u32
        assert_eq!(restored(4, &here, &wrong), None);
    }
}
