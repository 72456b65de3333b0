//! What a mobile host sends, kept to what its link carries: one receive window for all of its uploads (AGG-12).
//!
//! Mobile hosts are unmodified, and what they send first of all is limited by the window that they are offered. To
//! whom the gateway offers it, a window is like a flight of segments: bytes are offered room, and one round trip later they
//! are here. So the clamp that finds the window toward a mobile host finds the one from it too ([`AutoClamp`]): an
//! offer is what is sent, an arrival what is delivered.
//!
//! Reading order: `upload` (one connection: what was offered when, and what came of it), `share` (who needs how much
//! of the window), this file (the host).
mod share;
mod upload;

pub(crate) use upload::{Arrival, Landing, Upload};

use super::config::{AggregateConfig, UplinkWindow};
use crate::custody::SharedMomentum;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use shorthaul_congestion::{
    AutoClamp, AutoClampConfig, Delivery, KnownRtt, PathEstimate, Waited, mean_toward,
};
use shorthaul_types::{Time, keeps};

/// The segments of a window until more is known, and of who has not shown that it needs more: what an
/// unmodified host sends at once (RFC 6928).
const FIRST_SEGMENTS: u64 = 10;
/// No connection has less: with it, three duplicate acknowledgments follow a loss (RFC 5681 §3.2).
const LEAST_SEGMENTS: u64 = 4;
/// Silent for longer than two round trips and this, an upload may pause: what it was offered before then says
/// nothing of the link.
const PAUSE: Duration = Duration::from_millis(50);
/// The round trip of a host of which nothing is known, for that purpose.
const UNKNOWN: Duration = Duration::from_secs(1);
/// Shares are computed anew once a round trip, but not more often than this.
const SHORTEST_ROUND: Duration = Duration::from_millis(10);
/// How often shares are computed in between, where somebody begins to need more.
const URGENT: u32 = 64;
/// While the link was never full, the window grows by this part of it at a time.
const GROWS: u64 = 32;
/// For each multiple of this number of connections, the shares are computed more seldom.
const CROWD: usize = 256;
/// After so many round trips without anything of it, an upload's part of the window does not change any more.
const MISSED: u32 = 64;
/// An arrival that took longer than this share of the shortest round trip, in percent, has waited.
const WAITED: u32 = 125;

/// How many bytes the uploads of one host are offered, all together.
#[derive(Debug)]
enum Size {
    Fixed(u64),
    Auto(Box<AutoClamp>),
}

/// Why shares are computed anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// A round trip is over.
    Round,
    /// Somebody cannot wait until then.
    Between,
}

/// The uplink of one mobile host.
#[derive(Debug)]
pub(crate) struct Uplink {
    size: Size,
    mss: u64,
    /// The smoothed round-trip time of what is uploaded.
    rtt: Duration,
    /// When something last arrived.
    arrived_at: Time,
    /// What has arrived in this round trip: a sender in slow start has grown its own window by as much.
    flight: u64,
    /// The same when the shares were computed last.
    flight_shared: u64,
    /// When an upload last had no more room than it used.
    full_at: Time,
    /// What each upload may have of the window, if it needs as much.
    level: u64,
    shared_at: Time,
    /// Somebody needs more than it has.
    urgent: bool,
    /// How often the shares were computed between two rounds.
    in_between: u32,
    /// Uploads that are not silent.
    active: u64,
    /// What each of them needs: kept for its memory.
    needs: Vec<u64>,
    /// When a round trip was last measured.
    measured_at: Time,
    /// How often round trips were over, and how often shares were computed.
    counted: Counted,
    /// So much more is offered than the path needs, to see what comes of it.
    raised: u64,
}

/// Whether others may fill the path's queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contested {
    /// The window that follows the path.
    pub window: u64,
    /// The shortest round trip of late.
    pub own_rtt: Duration,
    /// Round trips stay longer than the window explains.
    pub may_be: bool,
}

/// How far an uplink has come with its shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    rounds: u32,
    shares: u32,
}

keeps!(Counted { rounds, shares });

impl Uplink {
    /// The uplink of a new host, if it is to be limited, that sends segments of `mss` bytes.
    pub fn new(now: Time, mss: u32, config: &AggregateConfig) -> Option<Self> {
        match config.uplink {
            UplinkWindow::None => None,
            UplinkWindow::Fixed(bytes) => Some(Uplink::of(now, mss, Size::Fixed(bytes.0))),
            // A radio may make round trips long under load.
            UplinkWindow::Auto => {
                Some(Uplink::of(now, mss, Size::Auto(Box::new(clamp(now, mss, config).looking().offered()))))
            }
        }
    }

    /// A window that finds its own size, of whoever sends from farther away.
    pub fn found(now: Time, mss: u32, config: &AggregateConfig) -> Self {
        Uplink::of(now, mss, Size::Auto(Box::new(clamp(now, mss, config))))
    }

    fn of(now: Time, mss: u32, size: Size) -> Self {
        Uplink {
            size,
            mss: u64::from(mss),
            rtt: UNKNOWN,
            arrived_at: now,
            flight: 0,
            flight_shared: 0,
            full_at: now,
            level: FIRST_SEGMENTS * u64::from(mss),
            shared_at: now,
            urgent: false,
            in_between: 0,
            active: 0,
            needs: Vec::new(),
            measured_at: now,
            counted: Counted::default(),
            raised: 0,
        }
    }

    /// How far it has come with its shares.
    pub fn counted(&self) -> Counted {
        self.counted
    }

    /// What the path is known to be like, where the window finds its own size.
    pub fn path(&self) -> Option<&PathEstimate> {
        match &self.size {
            Size::Fixed(_) => None,
            Size::Auto(auto) => Some(auto.path()),
        }
    }

    /// The path is full, as its queue shows.
    pub fn on_queue(&mut self, now: Time) {
        if let Size::Auto(auto) = &mut self.size {
            auto.on_queue(now);
        }
    }

    /// The round trip that a window of this size makes on a full path.
    pub fn full_rtt(&self) -> Duration {
        match &self.size {
            Size::Fixed(_) => Duration::ZERO,
            Size::Auto(auto) => auto.full_rtt(),
        }
    }

    /// The segment size, in bytes.
    pub fn mss(&self) -> u64 {
        self.mss
    }

    /// Sets the segment size.
    pub fn set_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss);
        if let Size::Auto(auto) = &mut self.size {
            auto.set_mss(mss);
        }
    }

    /// The window that a connection is offered in the SYN-ACK, where `known` is its host's uplink.
    pub fn first_offer(known: Option<&Uplink>, mss: u32, config: &AggregateConfig) -> u64 {
        let most = FIRST_SEGMENTS * u64::from(mss);
        let size = match (known, config.uplink) {
            (Some(uplink), _) => uplink.size() / (uplink.active + 1),
            (None, UplinkWindow::Fixed(bytes)) => bytes.0,
            (None, _) => most,
        };
        size.clamp(LEAST_SEGMENTS * u64::from(mss), most)
    }

    /// What a connection with segments of `mss` bytes may be offered at once.
    pub fn burst(mss: u32) -> u64 {
        FIRST_SEGMENTS * u64::from(mss)
    }

    /// What its uploads share, for another process that goes on with them.
    pub fn momentum(&self) -> SharedMomentum {
        let rtt = (self.rtt != UNKNOWN).then_some(KnownRtt {
            srtt: self.rtt,
            rttvar: Duration::ZERO,
            min: self.rtt,
        });
        let known = match &self.size {
            Size::Fixed(_) => Vec::new(),
            Size::Auto(auto) => auto.snapshot(),
        };
        SharedMomentum { window: self.size(), rtt, known }
    }

    /// Goes on with what another process had found.
    pub fn take_over(&mut self, now: Time, momentum: &SharedMomentum) {
        self.rtt = momentum.rtt.map_or(self.rtt, |rtt| rtt.srtt);
        self.level = self.level.max(momentum.window);
        if let Size::Auto(auto) = &mut self.size
            && !auto.restore(now, &momentum.known)
        {
            auto.take_over(momentum.window);
        }
    }

    /// The shared window, in bytes.
    pub fn size(&self) -> u64 {
        match &self.size {
            Size::Fixed(bytes) => *bytes,
            Size::Auto(auto) => auto.window() + self.raised,
        }
    }

    /// More is offered than the path needs, to see what comes of it.
    pub fn raise(&mut self, by: u64) {
        self.raised = by;
    }

    /// The window that follows the path, and the shortest round trip of late, where others may fill the path's queue; nothing where the window is fixed,
    /// or not found yet.
    pub fn contested(&self) -> Option<Contested> {
        match &self.size {
            Size::Auto(auto) if !auto.is_starting() => Some(Contested {
                window: auto.window(),
                own_rtt: auto.shortest()?,
                may_be: auto.has_become_longer(),
            }),
            _ => None,
        }
    }

    /// What is to be shared: the window, while it grows also what came in this round trip, and a segment for each
    /// upload, since the second of two brings the acknowledgment. One alone gets two, unless the path holds less than the least window: it waits
    /// until there is room for a whole segment (RFC 9293 §3.8.6.2.1), and a window of a few leaves the link idle then.
    fn total(&self) -> u64 {
        let grown = if self.is_starting() { self.flight } else { 0 };
        let product = self.path().and_then(PathEstimate::product).map_or(0, |product| product.0);
        let least = if product >= (LEAST_SEGMENTS - 1) * self.mss { 2 } else { 1 };
        self.size() + grown + self.mss * self.active.max(least)
    }

    /// Whether the link was never full yet: the window grows as that of a sender in slow start does.
    fn is_starting(&self) -> bool {
        matches!(&self.size, Size::Auto(auto) if auto.is_starting())
    }

    /// A round-trip time to the host that was measured by other means: of a handshake, or of what is sent to it.
    pub fn on_round_trip(&mut self, now: Time, rtt: Duration) {
        if self.rtt == UNKNOWN {
            self.rtt = rtt;
        }
        if let Size::Auto(auto) = &mut self.size
            && auto.path().min_rtt().is_none_or(|known| rtt < known)
        {
            auto.on_delivery(Delivery { now, bytes: 0, sent_at: Time::ZERO, rtt: Some(rtt) });
        }
    }

    /// For how long an upload is silent before it pauses.
    fn pause_after(&self) -> Duration {
        2 * self.rtt + PAUSE
    }

    /// An upload begins: what is known of the round trip holds for it too.
    pub fn join(&self, upload: &mut Upload) {
        if self.rtt != UNKNOWN {
            upload.expect(self.pause_after(), self.rtt);
        }
    }

    /// Whether something is uploaded: its queue is one that acknowledgments wait in.
    pub fn is_used(&self, now: Time) -> bool {
        now.saturating_since(self.arrived_at) <= self.pause_after()
    }

    /// Something of an upload has arrived. On its way it has waited this long, if that is known. Returns the round trip that it
    /// measured, without what it waited the other way.
    pub fn on_arrival(
        &mut self,
        now: Time,
        arrival: &Arrival,
        waited: Option<Waited>,
        upload: &mut Upload,
    ) -> Option<Duration> {
        let Arrival { bytes, sent_at, rtt, echoed, used_up, resumed } = *arrival;
        let paused = resumed && now.saturating_since(self.arrived_at) > self.pause_after();
        self.arrived_at = now;
        if paused {
            (self.flight, self.flight_shared) = (0, 0);
        }
        self.flight += bytes;
        let full = used_up && upload.is_held_back();
        if full {
            self.full_at = now;
        }
        self.urgent |= upload.count(now, bytes, full);
        if let Some(rtt) = rtt {
            self.rtt = if self.rtt == UNKNOWN { rtt } else { self.rtt * 7 / 8 + rtt / 8 };
        }
        let rtt = self.without_others(now, rtt, echoed || full, waited);
        if let Size::Auto(auto) = &mut self.size {
            if paused {
                auto.on_send(now, 0);
            }
            let known = auto.path().min_rtt();
            let behind = rtt.zip(known).is_some_and(|(rtt, known)| rtt > known * WAITED / 100);
            if full {
                auto.on_full();
            } else if !behind && now.saturating_since(self.full_at) > self.rtt {
                auto.on_limited(bytes);
            }
            auto.on_delivery(Delivery { now, bytes, sent_at, rtt });
            if auto.path().round_ended() {
                (self.flight, self.flight_shared) = (bytes, 0);
            }
        }
        upload.expect(self.pause_after(), self.rtt);
        rtt
    }

    /// A round trip without what it has waited on the way to the host, behind what is sent there: all that is longer than the
    /// shortest one and what has `waited` on the way back.
    fn without_others(
        &mut self,
        now: Time,
        rtt: Option<Duration>,
        exact: bool,
        waited: Option<Waited>,
    ) -> Option<Duration> {
        let (Size::Auto(auto), Some(rtt), Some(waited)) = (&mut self.size, rtt, waited) else { return rtt };
        let Some(least) = auto.path().min_rtt() else { return Some(rtt.saturating_sub(waited.at_least)) };
        let own = rtt.min(least + waited.about);
        if !exact {
            return Some(own); // it may just not have used what it was told of
        }
        let passed = now.saturating_since(core::mem::replace(&mut self.measured_at, now));
        auto.set_beside(mean_toward(auto.beside(), rtt - own, passed, self.rtt));
        Some(own)
    }

    /// An upload was away since then, and is told what it missed: `allot` gives it its part of the window.
    pub fn catch_up(&self, since: Counted, upload: &mut Upload, mut allot: impl FnMut(&mut Upload) -> bool) {
        let rounds = self.counted.rounds.wrapping_sub(since.rounds).min(MISSED);
        for _ in 0..rounds {
            upload.end_round();
            allot(upload);
        }
        if rounds == 0 && self.counted.shares != since.shares {
            allot(upload);
        }
    }

    /// Whether the shares are to be computed anew, among `members` connections: because a round trip is over, or because
    /// somebody cannot wait until then.
    pub fn is_due(&mut self, now: Time, members: usize) -> Option<Due> {
        let crowd = 1 + (members / CROWD) as u32;
        if now.saturating_since(self.shared_at) >= self.rtt.max(SHORTEST_ROUND) * crowd {
            self.shared_at = now;
            self.in_between = 0;
            self.counted.rounds = self.counted.rounds.wrapping_add(1);
            return Some(Due::Round);
        }
        let step = (self.size() / GROWS).max(self.mss);
        let grown = self.is_starting() && self.flight >= self.flight_shared + step;
        let urgent = self.urgent || grown;
        (urgent && self.in_between < URGENT / crowd).then(|| {
            self.in_between += 1;
            Due::Between
        })
    }

    /// The shares are computed anew now. Returns where to put what each upload needs.
    pub fn begin_sharing(&mut self) -> Vec<u64> {
        self.urgent = false;
        self.counted.shares = self.counted.shares.wrapping_add(1);
        self.flight_shared = self.flight;
        self.needs.clear();
        core::mem::take(&mut self.needs)
    }

    /// Each upload that does not pause has its need among `needs`. To be followed by [`Uplink::allot`] for each.
    pub fn share(&mut self, needs: Vec<u64>) {
        self.needs = needs;
        self.active = self.needs.len() as u64;
        let total = self.total();
        self.level = share::level(total, &mut self.needs);
    }

    /// Gives an upload its part of the window. Whether its sender is to hear of that at once: because it has become larger, and
    /// the sender uses up what it has. Any other hears of it with the next acknowledgment: a packet would only wake its radio,
    /// and where the host has forgotten the connection, draw a reset.
    pub fn allot(&self, now: Time, upload: &mut Upload) -> bool {
        self.allot_at_least(now, 0, upload)
    }

    /// The same, where it has this much in any case.
    pub fn allot_at_least(&self, now: Time, least: u64, upload: &mut Upload) -> bool {
        let need = upload.need(now).unwrap_or_default().max(upload.at_once());
        let larger = upload.allot(need.min(self.level).max(LEAST_SEGMENTS * self.mss).max(least));
        larger && upload.may_wait(now, 2 * self.mss)
    }
}

fn clamp(now: Time, mss: u32, config: &AggregateConfig) -> AutoClamp {
    let initial = FIRST_SEGMENTS * u64::from(mss);
    let headroom = (config.headroom * 1000.0) as u32;
    AutoClamp::new(now, AutoClampConfig { mss, initial, headroom })
}
