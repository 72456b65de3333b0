//! What a part knows, as numbers: another process goes on with them in its place, or the same one later.
//!
//! Times are those of one clock. A struct says with [`keeps!`](crate::keeps) which of its fields are handed over, in which order; the others
//! stay what they are in the part that goes on.
use crate::{BitRate, SeqNum, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::num::NonZeroU64;
use core::time::Duration;

/// The numbers that are left.
#[derive(Debug)]
pub struct Numbers<'a>(pub &'a [u64]);

impl Numbers<'_> {
    /// The next one.
    #[allow(clippy::should_implement_trait)] // it would be the only thing of an iterator that is wanted
    pub fn next(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }
}

/// What can be handed over.
pub trait Keep {
    /// Appends what it knows.
    fn put(&self, to: &mut Vec<u64>);

    /// Knows what the next numbers say. `None` where they say nothing that can be: it may be changed in part then.
    fn take(&mut self, from: &mut Numbers<'_>) -> Option<()>;
}

/// A value to read another one into.
pub trait Blank {
    /// Any value.
    fn blank() -> Self;
}

/// Says which fields of a struct are handed over.
#[macro_export]
macro_rules! keeps {
    ($of:ty { $($field:ident),* $(,)? }) => {
        impl $crate::Keep for $of {
            fn put(&self, to: &mut alloc::vec::Vec<u64>) {
                $($crate::Keep::put(&self.$field, to);)*
            }

            fn take(&mut self, from: &mut $crate::Numbers<'_>) -> Option<()> {
                $($crate::Keep::take(&mut self.$field, from)?;)*
                Some(())
            }
        }
    };
}

/// The same for an enum without fields: the place of a variant in this list.
#[macro_export]
macro_rules! number_of {
    ($of:ident { $($variant:ident),* $(,)? }) => {
        impl $crate::Keep for $of {
            fn put(&self, to: &mut alloc::vec::Vec<u64>) {
                let all = [$($of::$variant),*];
                to.push(all.iter().position(|variant| variant == self).unwrap_or(all.len()) as u64);
            }

            fn take(&mut self, from: &mut $crate::Numbers<'_>) -> Option<()> {
                *self = *[$($of::$variant),*].get(usize::try_from(from.next()?).ok()?)?;
                Some(())
            }
        }
    };
}

/// The same for what is a number.
macro_rules! number {
    ($($of:ty: |$value:ident| $put:expr, |$number:ident| $take:expr, $blank:expr;)*) => {
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

        impl Blank for $of {
            fn blank() -> Self {
                $blank
            }
        })*
    };
}

number! {
    u64: |value| value, |number| number, 0;
    u32: |value| value.into(), |number| u32::try_from(number).ok()?, 0;
    u16: |value| value.into(), |number| u16::try_from(number).ok()?, 0;
    u8: |value| value.into(), |number| u8::try_from(number).ok()?, 0;
    usize: |value| value as u64, |number| usize::try_from(number).ok()?, 0;
    bool: |value| value.into(), |number| match number { 0 => false, 1 => true, _ => return None }, false;
    Time: |value| value.as_nanos(), |number| Time::from_nanos(number), Time::ZERO;
    Duration: |value| u64::try_from(value.as_nanos()).unwrap_or(u64::MAX), |number| Duration::from_nanos(number), Duration::ZERO;
    NonZeroU64: |value| value.get(), |number| NonZeroU64::new(number)?, NonZeroU64::MIN;
    BitRate: |value| value.bits_per_sec(), |number| BitRate::from_bits_per_sec(number), BitRate::default();
    SeqNum: |value| value.0.into(), |number| SeqNum(u32::try_from(number).ok()?), SeqNum(0);
    f64: |value| value.to_bits(), |number| Some(f64::from_bits(number)).filter(|value| value.is_finite())?, 0.0;
}

impl Keep for i128 {
    fn put(&self, to: &mut Vec<u64>) {
        to.extend([*self as u64, (*self >> 64) as u64]);
    }

    fn take(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        let (low, high) = (from.next()?, from.next()?);
        *self = (u128::from(high) << 64 | u128::from(low)) as i128;
        Some(())
    }
}

impl<T: Keep, const N: usize> Keep for [T; N] {
    fn put(&self, to: &mut Vec<u64>) {
        self.iter().for_each(|value| value.put(to));
    }

    fn take(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        self.iter_mut().try_for_each(|value| value.take(from))
    }
}

impl<T: Blank, const N: usize> Blank for [T; N] {
    fn blank() -> Self {
        core::array::from_fn(|_| T::blank())
    }
}

impl<A: Keep, B: Keep> Keep for (A, B) {
    fn put(&self, to: &mut Vec<u64>) {
        self.0.put(to);
        self.1.put(to);
    }

    fn take(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        self.0.take(from)?;
        self.1.take(from)
    }
}

impl<A: Blank, B: Blank> Blank for (A, B) {
    fn blank() -> Self {
        (A::blank(), B::blank())
    }
}

impl<T: Keep + ?Sized> Keep for Box<T> {
    fn put(&self, to: &mut Vec<u64>) {
        (**self).put(to);
    }

    fn take(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        (**self).take(from)
    }
}

impl<T: Blank> Blank for Box<T> {
    fn blank() -> Self {
        Box::new(T::blank())
    }
}

impl<T: Keep + Blank> Keep for Option<T> {
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
                let mut value = T::blank();
                value.take(from)?;
                Some(value)
            }
            _ => return None,
        };
        Some(())
    }
}

impl<T: Keep + Blank> Keep for VecDeque<T> {
    fn put(&self, to: &mut Vec<u64>) {
        to.push(self.len() as u64);
        self.iter().for_each(|value| value.put(to));
    }

    fn take(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        self.clear();
        for _ in 0..from.next()? {
            let mut value = T::blank();
            value.take(from)?;
            self.push_back(value);
        }
        Some(())
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
        full: bool,
        rounds: [u64; 2],
        edges: VecDeque<(u64, bool)>,
        credit: i128,
        own: u64,
    }

    keeps!(Known { window, rate, at, full, rounds, edges, credit });

    #[test]
    fn what_was_put_is_taken_and_what_cannot_be_is_refused() {
        let known = Known {
            window: 9,
            rate: Some(7),
            at: None,
            full: true,
            rounds: [3, u64::MAX],
            edges: [(1, true), (2, false)].into(),
            credit: -(1 << 100),
            own: 1,
        };
        let mut numbers = Vec::new();
        known.put(&mut numbers);
        let mut here = Known { own: 2, ..Known::default() };
        let mut from = Numbers(&numbers);
        assert_eq!(here.take(&mut from), Some(()));
        assert_eq!(here, Known { own: 2, ..known });
        assert!(from.0.is_empty());
        for length in 0..numbers.len() {
            assert_eq!(here.take(&mut Numbers(&numbers[..length])), None);
        }
        numbers[2] = 1 << 40; // no u32
        assert_eq!(here.take(&mut Numbers(&numbers)), None);
    }
}
