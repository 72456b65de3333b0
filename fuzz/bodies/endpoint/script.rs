//! What happens to an endpoint: a few bytes set the stage, then steps follow until the script is used
//! up.

use super::shape::{Place, Script, Shape};
use std::time::Duration;

/// One thing that happens, on the wire or on the owner's side.
#[derive(Debug)]
pub enum Step {
    /// The peer sends a segment, whatever it looks like.
    Segment(Shape),
    /// The peer sends this many bytes in order, as an honest one would.
    Send(u16),
    /// The peer acknowledges all that it was sent, as an honest one would.
    Acknowledge,
    /// The peer closes: its FIN follows what it sent in order.
    PeerCloses,
    /// From now on what the endpoint sends is lost, or is no more.
    Deafen(bool),
    /// A router says that a packet was too big.
    TooBig(Place, u16),
    /// A router says that the peer cannot be reached.
    Unreachable(Place, u8),
    /// The owner writes so many bytes.
    Write(u16),
    /// The owner reads so many bytes.
    Read(u16),
    /// The owner closes.
    Close,
    /// The owner gives the connection up.
    Abort,
    /// The owner is gone.
    Release,
    /// Time passes.
    Wait(Duration),
    /// Time passes up to the next deadline.
    Sleep,
    /// What is to leave now leaves (else the next segment comes before it does).
    Flush,
}

impl Script<'_> {
    /// The next step; `None` at the end of the script.
    pub fn step(&mut self) -> Option<Step> {
        let byte = self.byte()?;
        Some(match byte & 31 {
            0..=10 => Step::Segment(self.shape()?),
            11 | 12 => Step::Send(self.word()?),
            13..=15 => Step::Acknowledge,
            16..=18 => Step::Write(self.word()?),
            19 | 20 => Step::Read(self.word()?),
            21 => Step::TooBig(self.place()?, self.word()?),
            22 => Step::Unreachable(self.place()?, byte >> 5),
            23 => Step::Deafen(byte & 0x40 == 0),
            24 | 25 => Step::Sleep,
            26 | 27 => Step::Wait(self.duration()?),
            28 if byte >> 5 < 2 => Step::PeerCloses,
            28 if byte >> 5 < 4 => Step::Close,
            // Rare, since little is left to look at afterwards.
            29 if self.byte()? & 0xf0 == 0xd0 => {
                if byte & 0x80 == 0 {
                    Step::Abort
                } else {
                    Step::Release
                }
            }
            _ => Step::Flush,
        })
    }
}
