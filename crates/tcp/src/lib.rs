//! TCP in two layers. Below, one direction of it, cut in the middle: a [`Receiver`] that faces
//! whoever sends the bytes and a [`Sender`] that faces whoever is to have them. Above, an endpoint
//! made of one of each, with the states of RFC 9293 around them: a [`Connection`], and a [`Host`]
//! that has many.
//!
//! Reading order: [`ByteQueue`] (bytes held), [`Reassembly`] (bytes that came too early),
//! [`Receiver`] (what to acknowledge and how much to invite), [`Scoreboard`] (what became of each
//! transmission), [`Sender`] (what to send next, and when to give up waiting), [`Profile`] (which
//! parts an endpoint is made of), [`Connection`], [`Host`].
//!
//! Everything is counted in `u64` stream offsets (see [`shorthaul_types::SeqSpace`]): 0 is the
//! SYN, 1 the first byte. `no_std`, no clock, no randomness.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod arbiter;
mod arbitration;
mod byte_queue;
mod connection;
mod governor;
mod host;
mod isn;
mod probing;
mod profile;
mod prr;
mod rack;
mod reassembly;
mod receiver;
mod recovery;
mod scoreboard;
mod sender;
mod timers;

pub use arbiter::{
    Arbiter, EveryLossIsCongestion, LossEvidence, LossSign, OCTETS, Probe, ProbeAnswer, ProbeForm,
    ProbeStage, Verdict,
};
pub use arbitration::{Arbitration, UnknownArbitration};
pub use byte_queue::ByteQueue;
pub use connection::{
    Addresses, Agreed, Connection, ConnectionConfig, Event, Failure, KeepAlive, State, WindowShifts,
};
pub use governor::{Governor, News, Share};
pub use host::{ConnectError, ConnectionId, Host, HostConfig, HostStats};
pub use probing::{ProbeTimer, ProbedPeer, Probing, ProbingConfig, ProbingRule};
pub use profile::{Profile, UnknownProfile};
pub use reassembly::Reassembly;
pub use receiver::{AckPolicy, Receiver, Segment};
pub use recovery::{Recovery, UnknownRecovery};
pub use scoreboard::{Record, Scoreboard};
pub use sender::{Ack, Outgoing, Sender, SenderConfig, SenderStats};
pub use timers::Timers;
