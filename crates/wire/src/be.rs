//! Big-endian fields at fixed places of a header.
//!
//! The place must be within the slice: callers check a header's length once and then read.

/// The 16-bit field at byte `at`.
#[inline]
pub(crate) fn u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The 32-bit field at byte `at`.
#[inline]
pub(crate) fn u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Writes a 16-bit field at byte `at`.
#[inline]
pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Writes a 32-bit field at byte `at`.
#[inline]
pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}
