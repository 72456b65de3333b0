//! What is known of a flow that says nothing, as bytes: a fraction of what it takes while it is served.
//!
//! It is a list of numbers ([`Keep`](shorthaul_types::Keep)). Most are zero or one, or have been there shortly before: a time, a size of segments, the end of a
//! stream. So a number is told by one of those that were there last, if it can be ([`Recent`]), in units of four bits:
//!
//! ```text
//! 0, 1        this number
//! 2 n         n + 3 zeros
//! 3 n         the number that was there n + 8 others ago
//! 4, 5        the number, in two or four units, the lowest first
//! 6 n         the number, in n + 1 units
//! 7 k n       the number that was there k others ago and a difference, in n + 1 units, the sign in the lowest bit
//! 8 ... 15    the number that was there so many others ago, less 8
//! ```
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Codes with more behind them.
const ZEROS: u8 = 2;
const OLDER: u8 = 3;
const SHORT: u8 = 4;
const LONGER: u8 = 5;
const LONG: u8 = 6;
const NEAR: u8 = 7;
/// The code of the number that was there last.
const SAME: u8 = 8;
/// From so many zeros on they have one code, and so many have one at most.
const FEW: usize = 3;
const MANY: usize = FEW + UNIT;
/// What a unit can say.
const UNIT: usize = 15;
/// The numbers with a code of one unit, those with one of two, and those that others may be near.
const LATEST: usize = 8;
const KNOWN: usize = LATEST + UNIT + 1;
const NEARBY: usize = UNIT + 1;

/// Flows rarely take more numbers.
pub(crate) const USUAL: usize = 512;

/// Numbers, packed.
#[derive(Debug)]
pub(crate) struct Packed(Box<[u8]>);

/// How many units a number takes.
fn units_of(number: u64) -> usize {
    (u64::BITS - number.leading_zeros()).div_ceil(4).max(1) as usize
}

/// A difference with its sign in the lowest bit.
fn difference(from: u64, to: u64) -> u64 {
    let difference = to.wrapping_sub(from) as i64;
    (difference << 1 ^ difference >> 63) as u64
}

fn added(from: u64, difference: u64) -> u64 {
    from.wrapping_add(difference >> 1 ^ (difference & 1).wrapping_neg())
}

/// The numbers above one that were there last, each once, the latest first.
struct Recent {
    numbers: [u64; KNOWN],
    len: usize,
}

impl Recent {
    fn new() -> Self {
        Recent { numbers: [0; KNOWN], len: 0 }
    }

    fn known(&self) -> &[u64] {
        &self.numbers[..self.len]
    }

    /// One of them is there again.
    fn again(&mut self, place: usize) -> Option<u64> {
        let number = *self.known().get(place)?;
        // Most are among the first few, where this is sooner done than by copying memory.
        for at in (0..place).rev() {
            self.numbers[at + 1] = self.numbers[at];
        }
        self.numbers[0] = number;
        Some(number)
    }

    /// Another one is there; the oldest is forgotten.
    fn add(&mut self, number: u64) {
        self.len = (self.len + 1).min(KNOWN);
        self.numbers.copy_within(..KNOWN - 1, 1);
        self.numbers[0] = number;
    }
}

struct Packing {
    out: Vec<u8>,
    /// The last byte has room for a unit.
    is_half: bool,
    recent: Recent,
}

impl Packing {
    fn unit(&mut self, unit: u8) {
        if self.is_half
            && let Some(last) = self.out.last_mut()
        {
            *last |= unit << 4;
        } else {
            self.out.push(unit);
        }
        self.is_half = !self.is_half;
    }

    fn units(&mut self, number: u64, units: usize) {
        (0..units).for_each(|place| self.unit((number >> (4 * place)) as u8 & 0xf));
    }

    /// A number that is neither zero nor one.
    fn number(&mut self, number: u64) {
        if let Some(place) = self.recent.known().iter().position(|known| *known == number) {
            self.recent.again(place);
            return match place {
                0..LATEST => self.unit(SAME + place as u8),
                _ => {
                    self.unit(OLDER);
                    self.unit((place - LATEST) as u8);
                }
            };
        }
        let own = units_of(number);
        let apart = self.recent.known().iter().take(NEARBY).map(|known| difference(*known, number));
        let nearest = apart.enumerate().min_by_key(|(_, apart)| units_of(*apart));
        match (own, nearest) {
            (..=2, _) => {
                self.unit(SHORT);
                self.units(number, 2);
            }
            (3 | 4, _) => {
                self.unit(LONGER);
                self.units(number, 4);
            }
            (_, Some((place, apart))) if units_of(apart) + 1 < own => {
                let units = units_of(apart);
                [NEAR, place as u8, units as u8 - 1].into_iter().for_each(|unit| self.unit(unit));
                self.units(apart, units);
            }
            _ => {
                [LONG, own as u8 - 1].into_iter().for_each(|unit| self.unit(unit));
                self.units(number, own);
            }
        }
        self.recent.add(number);
    }
}

impl Packed {
    pub fn of(numbers: &[u64]) -> Packed {
        let out = Vec::with_capacity(numbers.len());
        let mut packing = Packing { out, is_half: false, recent: Recent::new() };
        let mut rest = numbers;
        while let Some(&number) = rest.first() {
            let zeros = rest.iter().take(MANY).take_while(|number| **number == 0).count();
            let told = if zeros >= FEW {
                packing.unit(ZEROS);
                packing.unit((zeros - FEW) as u8);
                zeros
            } else {
                match number {
                    0 | 1 => packing.unit(number as u8),
                    _ => packing.number(number),
                }
                1
            };
            rest = &rest[told..];
        }
        // In a place of its own: were the list made shorter, what is behind it would be free between those that stay.
        Packed(packing.out.as_slice().into())
    }

    /// All of the numbers.
    pub fn to_numbers(&self) -> Vec<u64> {
        let mut numbers = Vec::with_capacity(USUAL);
        numbers.extend(self.numbers());
        numbers
    }

    /// The numbers, one after the other.
    pub fn numbers(&self) -> Unpacking<'_> {
        Unpacking { bytes: &self.0, second: None, zeros: 0, recent: Recent::new() }
    }
}

/// What is left to unpack.
pub(crate) struct Unpacking<'a> {
    bytes: &'a [u8],
    /// The second unit of the last byte.
    second: Option<u8>,
    zeros: u8,
    recent: Recent,
}

impl Unpacking<'_> {
    fn unit(&mut self) -> Option<u8> {
        if let Some(unit) = self.second.take() {
            return Some(unit);
        }
        let (byte, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        self.second = Some(byte >> 4);
        Some(byte & 0xf)
    }

    fn units(&mut self, units: u8) -> Option<u64> {
        (0..units).try_fold(0, |number, place| Some(number | u64::from(self.unit()?) << (4 * place)))
    }

    fn one_more(&mut self) -> Option<u8> {
        Some(self.unit()? + 1)
    }
}

impl Iterator for Unpacking<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.zeros > 0 {
            self.zeros -= 1;
            return Some(0);
        }
        let number = match self.unit()? {
            code @ (0 | 1) => return Some(code.into()),
            ZEROS => {
                self.zeros = self.unit()? + FEW as u8 - 1;
                return Some(0);
            }
            OLDER => {
                let place = usize::from(self.unit()?) + LATEST;
                return self.recent.again(place);
            }
            SHORT => self.units(2)?,
            LONGER => self.units(4)?,
            LONG => {
                let units = self.one_more()?;
                self.units(units)?
            }
            NEAR => {
                let place = usize::from(self.unit()?);
                let known = *self.recent.known().get(place)?;
                let units = self.one_more()?;
                added(known, self.units(units)?)
            }
            code => return self.recent.again(usize::from(code - SAME)),
        };
        self.recent.add(number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_they_were() {
        let now = 1_234_567_890_123_456_u64;
        let mut numbers = Vec::new();
        for shift in 0..64 {
            numbers.extend([
                1 << shift,
                (1 << shift) - 1,
                0,
                now,
                now + (1 << shift >> 8),
                now.wrapping_sub(1 << shift),
            ]);
            numbers.extend((0..shift).map(|_| 0));
        }
        numbers.extend([u64::MAX, 0, u64::MAX, 1, i64::MAX as u64, i64::MIN as u64, 7]);
        numbers.extend([0; 600]);
        for end in 0..numbers.len() {
            let packed = Packed::of(&numbers[..end]);
            // An odd number of codes leaves one that is none: a zero.
            let back: Vec<u64> = packed.numbers().take(end).collect();
            assert_eq!(back, numbers[..end]);
        }
    }

    #[test]
    fn what_was_there_before_is_small() {
        let now = 1_234_567_890_123_456;
        let len = |numbers: &[u64]| Packed::of(numbers).0.len();
        let near: Vec<u64> = (0..20).map(|i| now + i * 1_000_000).collect();
        assert!(len(&near) < 9 + 20 * 5, "{}", len(&near));
        assert!(len(&[now; 20]) <= 9 + 10);
        assert!(len(&[0; 180]) <= 10);
        // So many others lie between two times that it is there.
        let others: Vec<u64> = (0..KNOWN as u64).map(|i| 1_000 + i).collect();
        let [known, forgotten] = [KNOWN - 1, KNOWN]
            .map(|between| [&[now], &others[..between]].concat())
            .map(|before| len(&[&before[..], &[now]].concat()) - len(&before));
        assert!(known <= 1 && forgotten >= 5, "{known} and {forgotten} bytes");
    }

    #[test]
    fn any_bytes_are_numbers_and_end() {
        let mut noise = 1_u64;
        for len in 0..2_000 {
            let mut next = || {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (noise >> 56) as u8
            };
            let packed = Packed((0..len % 50).map(|_| next()).collect());
            assert!(packed.numbers().count() <= 50 * 2 * MANY);
        }
    }
}
