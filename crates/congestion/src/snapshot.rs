//! What a part knows, as numbers: one process hands them to another that goes on in its place. Times are those of one clock.
//!
//! A struct says with [`keeps!`] which of its fields are handed over, in which order; the others stay what they are in the
//! process that goes on. What does not fit, for another version wrote it, is refused as a whole.
use crate::volume::Gain;
use alloc::vec::Vec;
use core::num::NonZeroU64;
use core::time::Duration;
use shorthaul_types::{BitRate, Time};

/// The numbers that are left of a snapshot.
pub(crate) struct Numbers<'a>(pub &'a [u64]);

impl Numbers<'_> {
    pub fn next(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }
}

/// What can be handed over.
pub(crate) trait Keep {
    /// Appends what it knows.
    fn put(&self, to: &mut Vec<u64>);

    /// Knows what the next numbers say. `None` where they say nothing that can be: it may be changed in part then.
    fn take(&mut self, from: &mut Numbers<'_>) -> Option<()>;
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

/// Says which fields of a struct are handed over.
macro_rules! keeps {
    ($of:ty { $($field:ident),* $(,)? }) => {
        impl crate::snapshot::Keep for $of {
            fn put(&self, to: &mut alloc::vec::Vec<u64>) {
                $(crate::snapshot::Keep::put(&self.$field, to);)*
            }

            fn take(&mut self, from: &mut crate::snapshot::Numbers<'_>) -> Option<()> {
                $(crate::snapshot::Keep::take(&mut self.$field, from)?;)*
                Some(())
            }
        }
    };
}
pub(crate) use keeps;

/// The same for an enum without fields: the place of a variant in this list.
macro_rules! number_of {
    ($of:ident { $($variant:ident),* $(,)? }) => {
        impl crate::snapshot::Keep for $of {
            fn put(&self, to: &mut alloc::vec::Vec<u64>) {
                let all = [$($of::$variant),*];
                to.push(all.iter().position(|variant| variant == self).unwrap_or(all.len()) as u64);
            }

            fn take(&mut self, from: &mut crate::snapshot::Numbers<'_>) -> Option<()> {
                *self = *[$($of::$variant),*].get(usize::try_from(from.next()?).ok()?)?;
                Some(())
            }
        }
    };
}
pub(crate) use number_of;

/// The same for what is a number, and for one that may be missing.
macro_rules! number {
    ($($of:ty: |$value:ident| $put:expr, |$number:ident| $take:expr;)*) => {
        $(impl Keep for $of {
            fn put(&self, to: &mut Vec<u64>) {
                let $value = *self;
                to.push($put);
            }

            fn take(&mut self, from: &mut Numbers<'_>) -> Option<()> {
                let $number = from.next()?;
                *self = $take;
                Some(())
            }
        }

        impl Keep for Option<$of> {
            fn put(&self, to: &mut Vec<u64>) {
                to.push(self.is_some().into());
                if let Some(value) = self {
                    value.put(to);
                }
            }

            fn take(&mut self, from: &mut Numbers<'_>) -> Option<()> {
                *self = match from.next()? {
                    0 => None,
                    1 => {
                        let $number = from.next()?;
                        Some($take)
                    }
                    _ => return None,
                };
                Some(())
            }
        })*
    };
}

number! {
    u64: |value| value, |number| number;
    u32: |value| value.into(), |number| u32::try_from(number).ok()?;
    u8: |value| value.into(), |number| u8::try_from(number).ok()?;
    usize: |value| value as u64, |number| usize::try_from(number).ok()?;
    bool: |value| value.into(), |number| match number { 0 => false, 1 => true, _ => return None };
    Time: |value| value.as_nanos(), |number| Time::from_nanos(number);
    Duration: |value| u64::try_from(value.as_nanos()).unwrap_or(u64::MAX), |number| Duration::from_nanos(number);
    NonZeroU64: |value| value.get(), |number| NonZeroU64::new(number)?;
    BitRate: |value| value.bits_per_sec(), |number| BitRate::from_bits_per_sec(number);
    Gain: |value| value.0.into(), |number| Gain(u32::try_from(number).ok()?);
    f64: |value| value.to_bits(), |number| Some(f64::from_bits(number)).filter(|value| value.is_finite())?;
}

impl<T: Keep, const N: usize> Keep for [T; N] {
    fn put(&self, to: &mut Vec<u64>) {
        self.iter().for_each(|value| value.put(to));
    }

    fn take(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        self.iter_mut().try_for_each(|value| value.take(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
