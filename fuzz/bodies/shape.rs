//! A fuzz input read as a script, and the parts that the scripts of all TCP targets share: what a
//! segment looks like, and how much time passes. The steps are each target's own.

use std::time::Duration;

/// The bytes that are left of a script.
pub struct Script<'a>(&'a [u8]);

/// A place in a stream, told by what is known of it, so that short scripts reach the interesting
/// ones: a landmark (interpreted by who uses it) and a distance.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub landmark: u8,
    pub delta: i64,
}

/// What a segment is to look like.
#[derive(Debug)]
pub struct Shape {
    /// The control bits.
    pub flags: u16,
    pub seq: Place,
    pub ack: Place,
    pub window: u16,
    pub len: usize,
    /// Which of several contents for the same sequence numbers.
    pub variant: u8,
    pub timestamps: Stamp,
    pub sack: Vec<(Place, u16)>,
    pub urgent: u16,
    pub ecn: u8,
    /// Payload in a packet buffer that is much larger than it.
    pub roomy: bool,
    pub unknown_options: bool,
}

/// Timestamps of a segment, compared with what its sender used last.
#[derive(Clone, Copy, Debug)]
pub enum Stamp {
    Current,
    Later,
    Old,
    Absent,
    Ahead,
}

impl Shape {
    /// Nothing special about it: what an honest segment is packed like.
    #[allow(dead_code, reason = "not every target sends honest segments so")]
    pub fn plain() -> Self {
        let here = Place { landmark: 0, delta: 0 };
        Shape {
            flags: 0x010,
            seq: here,
            ack: here,
            window: 0,
            len: 0,
            variant: 0,
            timestamps: Stamp::Current,
            sack: Vec::new(),
            urgent: 0,
            ecn: 0,
            roomy: false,
            unknown_options: false,
        }
    }
}

impl<'a> Script<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Script(bytes)
    }

    /// The next byte of the script; `None` at its end.
    pub fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// The next two bytes, as a number.
    pub fn word(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes([self.byte()?, self.byte()?]))
    }

    /// Four bytes as a sequence number, or one of those next to the wrap.
    pub fn isn(&mut self) -> Option<u32> {
        let byte = self.byte()?;
        Some(match byte >> 6 {
            0 => u32::from(byte),
            1 => u32::MAX - u32::from(byte & 63),
            2 => u32::MAX - u32::from(byte & 63) * 1024,
            _ => (1 << 31) - 32 + u32::from(byte & 63),
        })
    }

    /// A time between a microsecond and five hours.
    pub fn duration(&mut self) -> Option<Duration> {
        let byte = self.byte()?;
        let unit = [1, 1_000, 10_000, 40_000, 250_000, 1_000_000, 30_000_000, 600_000_000];
        Some(Duration::from_micros(unit[usize::from(byte & 7)] * u64::from(1 + (byte >> 3))))
    }

    /// A place in a stream.
    pub fn place(&mut self) -> Option<Place> {
        let byte = self.byte()?;
        let delta = match byte >> 2 & 15 {
            0..=5 => 0,
            6 => 1,
            7 => -1,
            8 => 1_000,
            9 => -1_000,
            10 => i64::from(self.byte()?),
            11 => -i64::from(self.byte()?),
            12 => i64::from(self.word()?),
            13 => -i64::from(self.word()?),
            14 => i64::from(i32::from_be_bytes([self.byte()?, self.byte()?, self.byte()?, self.byte()?])),
            _ => i64::from(i32::MAX) - 2 + i64::from(byte & 3),
        };
        Some(Place { landmark: byte & 3, delta })
    }

    /// What a segment looks like.
    pub fn shape(&mut self) -> Option<Shape> {
        let kind = self.byte()?;
        let flags = match kind & 15 {
            0..=6 => 0x010,  // ACK
            7 | 8 => 0x018,  // and PSH
            9 | 10 => 0x011, // and FIN
            11 => 0x030,     // and URG
            12 => 0x0d0,     // and ECE and CWR
            13 => 0x014,     // and RST
            14 => 0x012,     // and SYN
            _ => self.word()? & 0xfff,
        };
        let bits = self.byte()?;
        let timestamps = match bits & 7 {
            0..=2 => Stamp::Current,
            3 | 4 => Stamp::Later,
            5 => Stamp::Old,
            6 => Stamp::Absent,
            _ => Stamp::Ahead,
        };
        let blocks = if bits & 8 == 0 { 0 } else { usize::from(1 + (bits >> 4 & 3)) };
        let seq = self.place()?;
        let ack = self.place()?;
        let size = self.byte()?;
        let len = match size & 7 {
            0 | 1 => 0,
            2 => 1,
            3 => usize::from(size >> 3),
            4 => 1_000,
            5 => 1_460,
            6 => 8 * 1_460,
            _ => usize::from(self.word()?).min(60_000),
        };
        let window = match kind >> 4 & 7 {
            0 => 0,
            1 => 1,
            2 => 2_000,
            3 | 4 => 20_000,
            5 => u16::MAX,
            _ => self.word()?,
        };
        let mut sack = Vec::new();
        for _ in 0..blocks {
            sack.push((self.place()?, u16::from(self.byte()?) << 3));
        }
        Some(Shape {
            flags,
            seq,
            ack,
            window,
            len,
            variant: if bits & 0xc0 == 0xc0 { size >> 6 } else { 0 },
            timestamps,
            sack,
            urgent: if flags & 0x020 != 0 { self.word()? } else { 0 },
            ecn: if flags & 0x0c0 != 0 { 3 } else { 0 },
            roomy: bits & 0x80 != 0,
            unknown_options: kind & 0x8f == 0x80,
        })
    }
}
