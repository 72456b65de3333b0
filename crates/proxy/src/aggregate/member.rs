//! What a connection has of its own in its aggregate.
use super::memory::Account;
use super::off_link::OffLink;
use super::stride::Turn;
use super::window_share::{SlidingRate, WindowShare};
use crate::SplitFlow;
use core::time::Duration;
use shorthaul_congestion::ArrivalDelay;
use shorthaul_tcp::Sender;
use shorthaul_types::{Blank, Time, keeps};

/// The serial number of a turn that is a probe.
pub(super) const PROBE: u64 = u64::MAX;

/// A connection's own peer does not answer, and the link does: what it has on its way takes no place in the
/// window, and it is asked by itself, less and less often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    pub ask_at: Time,
    pub wait: Duration,
}

/// What a connection has of its own.
#[derive(Debug)]
pub(crate) struct Member {
    /// The host in the registry of the access side.
    pub host: u32,
    /// The part of its host in the aggregate of its group.
    pub part: u32,
    /// Where it stands among the connections of its host.
    pub place: usize,
    /// Tells it from others that have its slot in the table at other times.
    pub serial: u64,
    pub(super) in_flight: u64,
    pub(super) queued: u64,
    /// Memory for what is sent to the host, and for what it sends.
    pub(super) to: Account,
    pub(super) from: Account,
    /// The right edge that the host itself had advertised to its sender, before we did.
    pub(super) first_edge: u64,
    /// Its sender has been offered more than that.
    pub(super) offered_more: bool,
    /// It was offered nothing more last, for the link carries nothing.
    pub(super) halted: bool,
    pub(super) received: u64,
    pub(super) waiting: bool,
    pub(super) active: bool,
    /// It is among those of its host that are not silent.
    pub talking: bool,
    /// When it last was active.
    pub(super) active_at: Time,
    pub(super) pass: u64,
    pub(super) tickets: u32,
    /// Bytes that it may send before all classes.
    pub(super) interactive: u64,
    /// Bytes that were lost of it so far.
    pub(super) lost: u64,
    pub(super) rate: SlidingRate,
    pub(super) share: WindowShare,
    /// Since when something is retransmitted and nothing of it was answered.
    pub(super) unanswered: Option<Time>,
    /// When it last probed the link.
    pub(super) probed_at: Time,
    pub(super) silence: Option<Silence>,
    pub(super) off_link: OffLink,
    /// Since when one entry of the transmission log waits to be looked at again.
    pub kept_at: Option<Time>,
    /// Where its sender stands among those of its host, if it may be held.
    pub source: Option<u32>,
    /// How long what its host sends is on its way.
    pub(super) arrivals: ArrivalDelay,
}

// But for where it stands, which others decide.
keeps!(Member {
    serial,
    in_flight,
    queued,
    to,
    from,
    first_edge,
    offered_more,
    received,
    active_at,
    pass,
    tickets,
    interactive,
    lost,
    rate,
    share,
    probed_at,
    off_link,
    source,
    arrivals
});

impl Blank for Member {
    fn blank() -> Self {
        Member {
            host: 0,
            part: 0,
            place: 0,
            serial: 0,
            in_flight: 0,
            queued: 0,
            to: Account::default(),
            from: Account::default(),
            first_edge: 0,
            offered_more: false,
            halted: false,
            received: 0,
            waiting: false,
            active: false,
            talking: false,
            active_at: Time::ZERO,
            pass: 0,
            tickets: 0,
            interactive: 0,
            lost: 0,
            rate: SlidingRate::new(Time::ZERO),
            share: WindowShare::blank(),
            unanswered: None,
            probed_at: Time::ZERO,
            silence: None,
            off_link: OffLink::default(),
            kept_at: None,
            source: None,
            arrivals: ArrivalDelay::default(),
        }
    }
}

impl Member {
    /// Whether it has nothing to send, waits for no turn, and is not asked for an answer.
    pub fn is_still(&self) -> bool {
        let holds_nothing = self.to.held == 0 && self.from.held == 0;
        !self.minds_link() && !self.waiting && self.in_flight == 0 && self.queued == 0 && holds_nothing
    }

    /// Whether a link that carries nothing, or is back, means something to it: it is active, or was told of that.
    pub fn minds_link(&self) -> bool {
        self.active || self.halted || self.unanswered.is_some() || self.silence.is_some()
    }

    /// Whether it has something to send or in flight.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Whether its own peer does not answer.
    pub fn is_silent(&self) -> bool {
        self.silence.is_some()
    }

    /// Whether a turn is this connection's, and not one's that is no more; and whether it may take it.
    pub fn takes(&mut self, turn: &Turn) -> bool {
        if turn.serial == PROBE {
            return true;
        }
        if turn.serial != self.serial {
            return false;
        }
        // Without its turn, it waits again when its peer answers.
        self.waiting &= self.silence.is_none();
        self.waiting
    }

    /// Whether others' deliveries have overtaken what it has in flight, or it is known to be slow.
    pub fn is_late(&self) -> bool {
        self.off_link.is_late()
    }

    /// Whether its own peer is slower than the link.
    pub fn is_slow(&self) -> bool {
        self.off_link.slow.is_some()
    }

    /// How much more it may have in flight, when it is its turn: no more on the link than this window.
    pub fn left(&self, turn: &Turn, window: u64) -> u64 {
        if turn.serial == PROBE {
            return u64::MAX;
        }
        self.off_link.most(window).saturating_sub(self.in_flight)
    }

    /// It does not use its turn. It waits for the next one when something of what it has in flight is acknowledged.
    pub fn pass_on(&mut self) {
        self.waiting = false;
    }

    /// Whether something of a connection is on its way of which its group does not know: a probe of a small window leaves without
    /// a turn (RFC 9293 §3.8.6.1), and its loss is for the group to find.
    pub fn is_behind(&self, flow: &SplitFlow) -> bool {
        let unknown = |sender: &Sender| sender.in_flight() != self.in_flight;
        self.silence.is_none() && flow.managed_sender().is_some_and(unknown)
    }
}
