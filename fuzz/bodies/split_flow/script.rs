//! What happens to the gateway: a few bytes set the stage, then steps follow until the script is
//! used up.

use super::shape::{Place, Script, Shape};
use std::time::Duration;

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

impl Script<'_> {
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
}
