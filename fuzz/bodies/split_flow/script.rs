//! A fuzz input read as a script: a few bytes that set the stage, then steps until it is used up.

use std::time::Duration;

/// The bytes that are left of a script.
pub struct Script<'a>(&'a [u8]);

/// One thing that happens to the gateway.
#[derive(Debug)]
pub enum Step {
    /// An end sends a segment, whatever it looks like.
    Segment(Target, Shape),
    /// An end sends this many bytes in order, as an honest one would.
    Send(Target, u16),
    /// An end acknowledges all that it was sent, as an honest one would.
    Acknowledge(Target),
    /// An end closes: its FIN follows what it sent in order.
    Close(Target),
    /// A router says that a packet toward an end was too big.
    TooBig(Target, Place, u16),
    /// Time passes.
    Wait(Duration),
    /// Time passes up to the next deadline.
    Sleep,
    /// The gateway is told to step out of everything.
    Drain,
    /// What was handed in so far is worked off (else the next packet joins its batch).
    Flush,
}

/// Which flow and which end of it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub flow: usize,
    pub side: usize,
    /// Its packet comes in by the port that leads to the other end.
    pub wrong_port: bool,
}

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

    fn word(&mut self) -> Option<u16> {
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

    /// The next step; `None` at the end of the script.
    pub fn step(&mut self) -> Option<Step> {
        let byte = self.byte()?;
        let target = Target {
            flow: usize::from(byte >> 6 & 1),
            side: usize::from(byte >> 5 & 1),
            wrong_port: byte >> 7 == 1 && byte & 0x40 != 0,
        };
        Some(match byte & 31 {
            0..=13 => Step::Segment(target, self.shape()?),
            14..=17 => Step::Send(target, self.word()?),
            18..=21 => Step::Acknowledge(target),
            22 => Step::Close(target),
            23 => Step::TooBig(target, self.place()?, self.word()?),
            24 | 25 => Step::Sleep,
            26 | 27 => Step::Wait(self.duration()?),
            // Rare, since little of the machine is left to look at afterwards.
            28 if self.byte()? == 0xdd => Step::Drain,
            _ => Step::Flush,
        })
    }

    fn duration(&mut self) -> Option<Duration> {
        let byte = self.byte()?;
        let unit = [1, 1_000, 10_000, 40_000, 250_000, 1_000_000, 30_000_000, 600_000_000];
        Some(Duration::from_micros(unit[usize::from(byte & 7)] * u64::from(1 + (byte >> 3))))
    }

    fn place(&mut self) -> Option<Place> {
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

    fn shape(&mut self) -> Option<Shape> {
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
