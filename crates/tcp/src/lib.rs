//! TCP in two layers. Below, one direction of it, cut in the middle: a [`Receiver`] that faces
//! whoever sends the bytes and a [`Sender`] that faces whoever is to have them. Above, an endpoint
//! made of one of each, with the states of RFC 9293 around them: a [`Connection`], and a [`Host`]
//! that has many.
//!
//! Reading order: [`ByteQueue`] (bytes held), [`Reassembly`] (bytes that came too early),
//! [`Receiver`] (what to acknowledge and what window to advertise), [`Scoreboard`] (what became of each
//! transmission), [`LossDetector`] (which transmissions are lost), [`Discriminator`] (what that means),
//! [`Sender`] (what to send next, and when to give up waiting), [`Start`] (with which window it begins), [`RateMeter`] (at which rate the peer should send), [`SenderProfile`] (which parts an endpoint
//! is made of), [`Connection`], [`Host`].
//!
//! Everything is counted in `u64` stream offsets (see [`shorthaul_types::SeqSpace`]): 0 is the
//! SYN, 1 the first byte. `no_std`, no clock, no randomness.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod byte_queue;
mod congestion_manager;
mod connection;
mod detector;
mod discriminator;
mod host;
mod isn;
mod loss_detector;
mod loss_discriminator;
mod notation;
mod profile;
mod prr;
mod rate_report;
mod reassembly;
mod receiver;
mod scoreboard;
mod sender;
mod start;
mod timers;

pub use byte_queue::ByteQueue;
pub use congestion_manager::{CongestionManager, Feedback, Grant, RetransmissionTimer};
pub use connection::{
    Addresses, Agreed, ChallengeLimit, Connection, ConnectionConfig, Event, Failure, KeepAlive, State,
    WindowShifts,
};
pub use detector::{LossDetection, UnknownLossDetection};
pub use discriminator::{
    Discrimination, EveryLossIsCongestion, ProbeTimer, ProbedPeer, Probing, ProbingConfig, ProbingRule,
    UnknownDiscrimination,
};
pub use host::{ConnectError, ConnectionId, Host, HostConfig, HostStats};
pub use loss_detector::{
    AckEvent, Delivered, Detection, Duplicate, Event as SenderEvent, Flight, LossDetector, Phase, Repair,
    Transmission,
};
pub use loss_discriminator::{
    Acknowledged, Discriminator, LossEvidence, LossResponse, LossSign, Octet, Probe, ProbeAnswer, ProbeForm,
    ProbeName, ProbeStage,
};
pub use notation::UnknownAckPolicy;
pub use profile::{ProfilePatch, SenderProfile, SenderStart, UnknownProfile};
pub use rate_report::{Arrival, RateMeter, RateReporting, UnknownRateReporting};
pub use reassembly::Reassembly;
pub use receiver::{AckPolicy, Receiver, Segment};
pub use scoreboard::{Record, Scoreboard, Transmitted};
pub use sender::{Ack, Momentum, Outgoing, Sender, SenderConfig, SenderStats, SentBefore};
pub use start::{Again, FastStart, PathMemory, SlowStart, Standing, Start, Starting, UnknownStarting};
pub use timers::Timers;
