//! Who gives credit: how much may be sent, beyond what a connection's own window says.
use core::fmt::Debug;
use shorthaul_types::{Deadline, Time};

/// A transmission, as a governor logs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// The offset of the first byte in its stream.
    pub offset: u64,
    /// Bytes of the stream, FIN counted.
    pub bytes: u64,
    /// It was sent before.
    pub retransmission: bool,
}

/// Gives credit to a sender. A connection of its own has all that its congestion window allows; the
/// members of an aggregate share a window, are told by a scheduler whose turn it is, and leave their
/// transmissions in one log, in which the loss of one shows through the deliveries of another.
pub trait Governor: Debug + Send {
    /// How many bytes may leave now, of which the sender's own window allows `own` with `in_flight`
    /// bytes in flight.
    fn credit(&mut self, now: Time, own: u64, in_flight: u64) -> u64 {
        let _ = (now, in_flight);
        own
    }

    /// Something left.
    fn on_send(&mut self, now: Time, sent: Transmission) {
        let _ = (now, sent);
    }

    /// `bytes` were delivered and `lost` found lost, with one acknowledgment.
    fn on_ack(&mut self, now: Time, bytes: u64, lost: u64) {
        let _ = (now, bytes, lost);
    }

    /// Up to which offset transmissions are lost by what others in the log show, if by any.
    fn poll_lost(&mut self, now: Time) -> Option<u64> {
        let _ = now;
        None
    }

    /// When credit may come that was refused.
    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }
}

/// A connection that shares with nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Solo;

impl Governor for Solo {}
