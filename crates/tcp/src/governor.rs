//! Who gives credit: how much may be sent, beyond what a connection's own window says.
use core::time::Duration;
use shorthaul_types::Time;

/// Gives credit to a sender.
///
/// A connection of its own has all that its congestion window allows, and its own retransmission timer.
/// One that shares a path with others is governed from outside: it may send what it is granted, is told
/// of losses that show in the deliveries of others, and leaves news of its own deliveries. It does not
/// know who the others are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Governor {
    /// The sender governs itself.
    #[default]
    Solo,
    /// Whoever governs it writes into the share, and reads from it.
    Shared(Share),
}

/// What a governed sender and its governor tell each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Bytes that may leave now; used up by sending.
    pub credit: u64,
    /// Transmissions that were sent before this are lost, by what others show.
    pub lost_before: Option<Time>,
    /// What was delivered since the governor last looked.
    pub news: News,
}

/// What a governor learns from the acknowledgments of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Acknowledgments that delivered something, cumulatively or selectively, or opened the window.
    pub acknowledgments: u32,
    /// Bytes that they delivered.
    pub delivered: u64,
    /// When the newest transmission was sent that certainly arrived.
    pub newest: Option<Time>,
    /// The last round-trip time that was measured.
    pub rtt: Option<Duration>,
    /// The peer has told of a congestion mark (RFC 3168), at most once a round trip.
    pub marked: bool,
}

impl Governor {
    /// A share with nothing in it: without credit, nothing leaves.
    pub fn shared() -> Self {
        Governor::Shared(Share::default())
    }

    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Governor::Shared(_))
    }

    /// How much may leave, where the sender's own window allows `own`.
    pub(crate) fn credit(&self, own: u64) -> u64 {
        match self {
            Governor::Solo => own,
            Governor::Shared(share) => own.min(share.credit),
        }
    }

    pub(crate) fn on_send(&mut self, bytes: u64) {
        if let Governor::Shared(share) = self {
            share.credit = share.credit.saturating_sub(bytes);
        }
    }

    pub(crate) fn on_delivered(&mut self, bytes: u64, newest: Option<Time>, rtt: Option<Duration>) {
        if let Governor::Shared(Share { news, .. }) = self {
            news.acknowledgments += 1;
            news.delivered += bytes;
            news.newest = news.newest.max(newest);
            news.rtt = rtt.or(news.rtt);
        }
    }

    pub(crate) fn on_marked(&mut self) {
        if let Governor::Shared(Share { news, .. }) = self {
            news.marked = true;
        }
    }

    pub(crate) fn lost_before(&self) -> Option<Time> {
        match self {
            Governor::Solo => None,
            Governor::Shared(share) => share.lost_before,
        }
    }
}
