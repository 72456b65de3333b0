//! What is known of a flow that says nothing, as bytes: a fraction of what it takes while it is served.
//!
//! It is a list of numbers ([`Keep`](shorthaul_types::Keep)). Most are zero or small; of the others most are times, of which many are the same or near
//! each other:
//!
//! ```text
//! code of four bits, two in a byte; then what the codes say follows
//! 0 … 8     the number, in so many bytes, the lowest first
//! 9 … 14    what is to be added to the last number of four bytes or more, in 0 … 5 bytes, the sign in the lowest bit
//! 15        zeros: how many, in a byte
//! ```
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A number of so many bytes is one that others are told by.
const LARGE: usize = 4;
/// The code of the first difference, and the most bytes of one.
const DIFFERENCE: u8 = 9;
const MOST: usize = 5;
/// The code of zeros, and from how many on they have one.
const ZEROS: u8 = 15;
const FEW: usize = 3;

/// Numbers, packed.
#[derive(Debug)]
pub(crate) struct Packed(Box<[u8]>);

/// How many bytes a number takes.
fn bytes_of(number: u64) -> usize {
    8 - number.leading_zeros() as usize / 8
}

/// A difference with its sign in the lowest bit.
fn difference(from: u64, to: u64) -> u64 {
    let difference = to.wrapping_sub(from) as i64;
    (difference << 1 ^ difference >> 63) as u64
}

fn added(from: u64, difference: u64) -> u64 {
    from.wrapping_add(difference >> 1 ^ (difference & 1).wrapping_neg())
}

struct Packing {
    out: Vec<u8>,
    /// Where the byte with the next code is, if that is the second of two.
    second: Option<usize>,
    large: u64,
}

impl Packing {
    fn code(&mut self, code: u8, number: u64, bytes: usize) {
        match self.second.take() {
            Some(at) => self.out[at] |= code << 4,
            None => {
                self.second = Some(self.out.len());
                self.out.push(code);
            }
        }
        self.out.extend_from_slice(&number.to_le_bytes()[..bytes]);
    }

    fn number(&mut self, number: u64) {
        let bytes = bytes_of(number);
        if bytes < LARGE {
            return self.code(bytes as u8, number, bytes);
        }
        let difference = difference(self.large, number);
        let shorter = bytes_of(difference);
        self.large = number;
        if shorter <= MOST && shorter < bytes {
            self.code(DIFFERENCE + shorter as u8, difference, shorter);
        } else {
            self.code(bytes as u8, number, bytes);
        }
    }
}

impl Packed {
    pub fn of(numbers: &[u64]) -> Packed {
        let mut packing = Packing { out: Vec::with_capacity(numbers.len() * 2), second: None, large: 0 };
        let mut rest = numbers;
        while let Some(&number) = rest.first() {
            let zeros = rest.iter().take(usize::from(u8::MAX)).take_while(|number| **number == 0).count();
            if zeros >= FEW {
                packing.code(ZEROS, zeros as u64, 1);
                rest = &rest[zeros..];
            } else {
                packing.number(number);
                rest = &rest[1..];
            }
        }
        Packed(packing.out.into_boxed_slice())
    }

    /// The numbers, one after the other.
    pub fn numbers(&self) -> Unpacking<'_> {
        Unpacking { bytes: &self.0, second: None, zeros: 0, large: 0 }
    }
}

/// What is left to unpack.
pub(crate) struct Unpacking<'a> {
    bytes: &'a [u8],
    second: Option<u8>,
    zeros: u64,
    large: u64,
}

impl Unpacking<'_> {
    fn taken(&mut self, bytes: usize) -> Option<u64> {
        let (head, rest) = self.bytes.split_at_checked(bytes)?;
        self.bytes = rest;
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(head);
        Some(u64::from_le_bytes(number))
    }
}

impl Iterator for Unpacking<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.zeros > 0 {
            self.zeros -= 1;
            return Some(0);
        }
        let code = match self.second.take() {
            Some(code) => code,
            None => {
                let (codes, rest) = self.bytes.split_first()?;
                self.bytes = rest;
                self.second = Some(codes >> 4);
                codes & 15
            }
        };
        let number = match code {
            0..DIFFERENCE => self.taken(usize::from(code))?,
            DIFFERENCE..ZEROS => added(self.large, self.taken(usize::from(code - DIFFERENCE))?),
            _ => {
                self.zeros = self.taken(1)?.checked_sub(1)?;
                return Some(0);
            }
        };
        if bytes_of(number) >= LARGE {
            self.large = number;
        }
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
    fn times_that_are_near_each_other_are_small() {
        let now = 1_234_567_890_123_456;
        let near: Vec<u64> = (0..20).map(|i| now + i * 1_000_000).collect();
        assert!(Packed::of(&near).0.len() < 7 + 20 * 4, "{}", Packed::of(&near).0.len());
        assert!(Packed::of(&[now; 20]).0.len() < 7 + 20);
        assert!(Packed::of(&[0; 200]).0.len() <= 2);
    }
}
