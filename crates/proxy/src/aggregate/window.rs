//! The window that a mobile host's connections share, fixed or found.
use super::competition::Competition;
use super::config::{AggregateConfig, Clamp};
use super::losses::Losses;
use super::rivals::{Advice, Delivered, Rivals};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use shorthaul_congestion::{AutoClamp, AutoClampConfig, Delivery, EACH, Others};
use shorthaul_types::{BitRate, Time};

/// Windows of ten segments for each connection until more is known (RFC 6928).
const INITIAL_SEGMENTS: u64 = 10;
/// The most connections that begin with [`INITIAL_SEGMENTS`]: as many as browsers open to a server at once.
const INITIAL_CONNECTIONS: usize = 6;
/// A handshake that takes this long is that of a slow link (RFC 6298 §2.1 expects it of none): one connection begins then.
const SLOW: Duration = Duration::from_secs(1);
/// Bursts leave at this many percent of the window a round trip, so that pacing never holds the clock back.
const PACING_PERCENT: u128 = 125;
/// Bursts leave at this many percent of the window while it doubles: who waits for the first segments waits no longer than for a third of a round
/// trip.
const STARTING_PERCENT: u128 = 300;

/// The link's queue grows with a fixed window until one is delivered; by then two more, the smoothed round trip says so (RFC 6298 §2.3: 0.9 of it after 18 samples).
const GROWING_WINDOWS: u64 = 3;

/// The thousandths of the window that a congestion mark leaves (RFC 8511 §3.1, for marks that come early).
const MARKED: u64 = 800;
/// The thousandths that each round trip without a mark gives back.
const GIVEN_BACK: u64 = 50;
/// The least that marks leave of the window, in thousandths.
const LEAST: u64 = 100;

/// A window that losses have made one of losses is looked at after this time, and after this at the longest, if they come back.
const FIRST_LOOK: Duration = Duration::from_secs(1);
const LONGEST_LOOK: Duration = Duration::from_secs(32);

/// The host counts as uploading where round trips wait in the uplink's queue for more than 1/16 of the path's own round trip. A question that is under
/// way is given up at four times that.
const UPLOADS: u32 = 16;

/// So often losses that do not end are answered by a drain of all alone.
const MOST_DRAINS: u32 = 1;

/// The window, and the part of it that congestion marks have left.
#[derive(Debug)]
pub(crate) struct SharedWindow {
    clamp: Size,
    /// Whether it competes.
    competes: bool,
    /// Whether anybody does.
    rivals: Rivals,
    /// The window beside somebody who cannot be shaped, while there is one.
    competition: Option<Competition>,
    losses: Losses,
    /// When losses last did not end.
    lost_at: Time,
    /// A window of losses is looked at after this time, the next time.
    look_after: Duration,
    connections: u64,
    /// Its connections are of several hosts.
    takes_turns: bool,
    /// Others are busy who may share the link.
    has_others: bool,
    /// A drain of all may end losses; so often it was asked for; and whether it is now.
    can_drain: bool,
    asked: u32,
    asks_drain: bool,
    /// In thousandths.
    left: u64,
    /// When that last changed.
    changed_at: Time,
    of_outage: OfOutage,
}

/// What an outage may have taken of what was on its way.
#[derive(Clone, Copy, Debug, Default)]
struct OfOutage {
    /// So many bytes more may turn out to be lost.
    lost: u64,
    /// Until so many are delivered: it is known by then.
    delivered: u64,
}

impl OfOutage {
    fn on_delivery(&mut self, bytes: u64) {
        self.delivered = self.delivered.saturating_sub(bytes);
        if self.delivered == 0 {
            self.lost = 0;
        }
    }
}

#[derive(Clone, Debug)]
enum Size {
    Fixed {
        bytes: u64,
        /// The link's queue grows with it, and round trips are still averaged, until so much is delivered.
        growing: u64,
    },
    Auto(Box<AutoClamp>),
}

impl SharedWindow {
    pub fn new(now: Time, config: &AggregateConfig, mss: u32) -> Self {
        let headroom = (config.headroom * 1000.0) as u32;
        let clamp = match config.clamp {
            Clamp::Fixed(bytes) => Size::Fixed { bytes: bytes.0, growing: GROWING_WINDOWS * bytes.0 },
            Clamp::Auto => {
                let initial = INITIAL_SEGMENTS * u64::from(mss);
                let clamp = AutoClampConfig { mss, initial, headroom };
                let auto = AutoClamp::new(now, clamp).growing_beside();
                // Where hosts are held back to see whose queue becomes shorter, no window may become smaller by itself.
                Size::Auto(Box::new(if config.find_bottlenecks { auto } else { auto.looking() }))
            }
        };
        SharedWindow {
            clamp,
            competes: config.compete,
            rivals: Rivals::default(),
            competition: None,
            losses: Losses::default(),
            lost_at: Time::ZERO,
            look_after: FIRST_LOOK,
            connections: 1,
            takes_turns: false,
            has_others: false,
            can_drain: false,
            asked: 0,
            asks_drain: false,
            left: 1000,
            changed_at: now,
            of_outage: OfOutage::default(),
        }
    }

    /// Sets the segment size.
    pub fn set_mss(&mut self, mss: u32) {
        if let Size::Auto(auto) = &mut self.clamp {
            auto.set_mss(mss);
        }
    }

    /// What it knows, for another process; nothing where its size is not found, or contested just now.
    pub fn snapshot(&self) -> Vec<u64> {
        match (&self.clamp, &self.competition) {
            (Size::Auto(auto), None) => auto.snapshot(),
            _ => Vec::new(),
        }
    }

    /// Goes on with what another process knew, if that fits.
    pub fn restore(&mut self, now: Time, known: &[u64]) -> bool {
        match &mut self.clamp {
            Size::Fixed { .. } => false,
            Size::Auto(auto) => auto.restore(now, known),
        }
    }

    /// Another had found a window of this many bytes.
    pub fn take_over(&mut self, window: u64) {
        if let Size::Auto(auto) = &mut self.clamp {
            auto.take_over(window);
        }
    }

    /// Whether a single connection competes with others for the queue.
    pub fn is_of_one_that_competes(&self) -> bool {
        self.competition.as_ref().is_some_and(Competition::is_of_one)
    }

    /// Whether it is found. Of a fixed one nobody knows whether it is right.
    pub fn is_found(&self) -> bool {
        matches!(&self.clamp, Size::Auto(auto) if !auto.is_starting())
    }

    /// Whether the queue of the link does not grow with it any more.
    pub fn is_steady(&self) -> bool {
        match &self.clamp {
            Size::Fixed { growing, .. } => *growing == 0,
            Size::Auto(auto) => !auto.is_starting(),
        }
    }

    /// In bytes; at least a segment of `mss` bytes.
    pub fn get(&self, mss: u32) -> u64 {
        let clamp = self.rivals.of(self.followed());
        (clamp / 1000 * self.left + clamp % 1000 * self.left / 1000).max(u64::from(mss))
    }

    /// Whether connections take turns: they are of several hosts, and the window is too small for two segments of `mss` bytes of each. Those a receiver
    /// acknowledges at once; for a single one of each connection the window would wait.
    pub fn takes_turns(&self, mss: u32) -> bool {
        let is_found = matches!(self.clamp, Size::Auto(_));
        self.takes_turns && is_found && self.get(mss) < EACH * u64::from(mss) * self.connections
    }

    /// What a connection sends in its turn at least, if it has as much.
    pub fn least_turn(&self, mss: u32) -> u64 {
        let each = EACH * u64::from(mss);
        // A window that has no room for two would let nothing out.
        if self.takes_turns(mss) && self.get(mss) >= each { each } else { u64::from(mss) }
    }

    /// The window that follows the path, in bytes.
    fn followed(&self) -> u64 {
        match (&self.clamp, &self.competition) {
            (Size::Fixed { bytes, .. }, _) => *bytes,
            (Size::Auto(_), Some(competition)) => competition.window(),
            (Size::Auto(auto), None) => auto.window(),
        }
    }

    /// Looks whether somebody else fills the queue, and competes if so.
    fn watch(&mut self, mss: u32, delivery: Delivery, in_flight: u64) {
        let Delivery { now, bytes, rtt, .. } = delivery;
        let window = self.followed();
        let Size::Auto(auto) = &mut self.clamp else { return };
        // Where the host uploads, its rate varies with the queue of that, too. Several hosts would take each other for competitors.
        let uploads = |own: Duration| auto.beside() > own / UPLOADS;
        if let Some(competition) = self.competition.as_mut().filter(|competition| competition.is_of_losses())
        {
            competition.may_take =
                self.competes && !self.has_others && auto.shortest().is_some_and(|own| !uploads(own));
            return self.rivals.rest(now);
        }
        if !self.competes {
            return self.rivals.rest(now);
        }
        let may_ask = |own: &Duration| !auto.is_starting() && !self.has_others && !uploads(*own * 4);
        let advice = match auto.shortest().filter(may_ask) {
            Some(own_rtt) => {
                let delivered = Delivered { now, bytes, in_flight, rtt, own_rtt, window, mss };
                self.rivals.on_delivery(delivered, auto.is_contested() && !uploads(own_rtt))
            }
            None => {
                self.rivals.rest(now);
                Advice::End
            }
        };
        match (advice, auto.shortest()) {
            (Advice::Compete(larger), Some(own_rtt)) => {
                let windows = (window, (window as f64 * larger) as u64);
                self.competition = Some(Competition::new(now, own_rtt, windows, (self.connections, mss)));
            }
            (Advice::End, Some(own_rtt)) if self.competition.take().is_some() => {
                auto.on_uncontested(now, rtt.unwrap_or(own_rtt), window);
            }
            _ => {}
        }
    }

    /// A queue on the way marked something, or (at `marked` false) did not: told with every acknowledgment, where
    /// round trips take `rtt`.
    pub fn on_mark(&mut self, now: Time, marked: bool, rtt: Duration) {
        if now.saturating_since(self.changed_at) < rtt {
            return;
        }
        if marked {
            self.left = (self.left * MARKED / 1000).max(LEAST);
            self.changed_at = now;
        } else if self.left < 1000 {
            self.left = (self.left + GIVEN_BACK).min(1000);
            self.changed_at = now;
        }
    }

    /// How fast a burst may leave.
    pub fn pace(&self, mss: u32, rtt: Option<Duration>) -> Option<BitRate> {
        let starting = matches!(&self.clamp, Size::Auto(auto) if auto.is_starting());
        let percent = if starting { STARTING_PERCENT } else { PACING_PERCENT };
        let bits = u128::from(self.get(mss)) * 8 * percent * 10_000_000 / rtt?.as_nanos().max(1);
        Some(BitRate::from_bits_per_sec(u64::try_from(bits).unwrap_or(u64::MAX).max(1)))
    }

    /// Sets how many connections of so many hosts share it, with segments of `mss` bytes and round trips of `rtt`. Those of several hosts take turns
    /// where it is small; those of one keep a part each, so that none of its peers has to wait for what another does not acknowledge.
    pub fn set_connections(
        &mut self,
        now: Time,
        (connections, hosts): (usize, usize),
        mss: u32,
        rtt: Option<Duration>,
    ) {
        self.connections = connections as u64;
        self.takes_turns = hosts > 1;
        if let (Some(competition), false) = (&mut self.competition, self.has_others) {
            competition.set_connections(now, self.connections);
        }
        if let Size::Auto(auto) = &mut self.clamp {
            let slow = rtt.is_none_or(|rtt| rtt >= SLOW);
            let beginning = if slow { 1 } else { connections.min(INITIAL_CONNECTIONS) };
            auto.set_turns(hosts > 1);
            auto.set_connections(connections, beginning as u64 * INITIAL_SEGMENTS * u64::from(mss));
        }
    }

    pub fn on_send(&mut self, now: Time, in_flight: u64) {
        if in_flight == 0
            && self.competition.as_ref().is_some_and(|competition| competition.is_forgotten(now))
        {
            self.competition = None;
            self.rivals.forget(now);
        }
        // What was asked says nothing of the path after silence.
        if in_flight == 0 && self.rivals.asks() {
            self.rivals.rest(now);
        }
        if let Size::Auto(auto) = &mut self.clamp {
            auto.on_send(now, in_flight);
        }
    }

    /// Less is in flight than could be, for want of data.
    pub fn on_limited(&mut self, in_flight: u64) {
        if let Size::Auto(auto) = &mut self.clamp {
            auto.on_limited(in_flight);
        }
    }

    /// The window holds something back.
    pub fn on_full(&mut self) {
        if let Some(competition) = &mut self.competition {
            competition.on_full();
        }
        if let Size::Auto(auto) = &mut self.clamp {
            auto.on_full();
        }
    }

    /// Something was delivered, with segments of `mss` bytes, of `in_flight` bytes that were on their way.
    pub fn on_delivery(&mut self, mss: u32, delivery: Delivery, in_flight: u64) {
        let window = self.get(mss);
        self.of_outage.on_delivery(delivery.bytes);
        self.watch(mss, delivery, in_flight);
        let auto = match &mut self.clamp {
            Size::Fixed { growing, .. } => return *growing = growing.saturating_sub(delivery.bytes),
            Size::Auto(auto) => auto,
        };
        let lasting = self.losses.on_delivery(delivery.bytes, window, mss);
        if let Some(competition) = &mut self.competition {
            auto.on_delivery_beside(delivery);
            if let Some(rtt) = competition.on_delivery(delivery, in_flight) {
                auto.on_uncontested(delivery.now, rtt, competition.window());
                self.competition = None;
            }
            return;
        }
        auto.on_delivery(delivery);
        if let (true, Some(own_rtt)) = (lasting, auto.path().min_rtt()) {
            self.on_lasting_losses(delivery.now, own_rtt, window, mss);
        }
    }

    /// Losses do not end. All who may share the queue hold back, where that may end them; or the window becomes one of losses, as each of its
    /// connections would have.
    fn on_lasting_losses(&mut self, now: Time, own_rtt: Duration, window: u64, mss: u32) {
        self.losses = Losses::default();
        let again = now.saturating_since(self.lost_at) < 2 * LONGEST_LOOK;
        self.lost_at = now;
        if !again {
            self.asked = 0;
        }
        if self.can_drain && self.asked < MOST_DRAINS {
            self.asked += 1;
            self.asks_drain = true;
            return;
        }
        self.look_after = if again { (2 * self.look_after).min(LONGEST_LOOK) } else { FIRST_LOOK };
        let connections = (self.connections, mss);
        self.competition =
            Some(Competition::after_losses(now, own_rtt, window, connections, self.look_after));
    }

    /// So many bytes were lost. What an outage took says nothing of a queue.
    pub fn on_lost_bytes(&mut self, bytes: u64) {
        let excused = bytes.min(self.of_outage.lost);
        self.of_outage.lost -= excused;
        let bytes = bytes - excused;
        self.losses.on_lost(bytes);
        if let Size::Auto(auto) = &mut self.clamp {
            auto.on_lost(bytes);
        }
    }

    /// All who may share the path's queue hold back now; the path of one of them takes no longer than `nearest`.
    pub fn drain(&mut self, now: Time, nearest: Duration) {
        self.asks_drain = false;
        // Others would fill what is left to them.
        if self.competition.as_ref().is_some_and(|competition| !competition.is_of_losses()) {
            return;
        }
        let Size::Auto(auto) = &mut self.clamp else { return };
        if let (Some(competition), Some(rtt)) = (self.competition.take(), auto.path().min_rtt()) {
            auto.on_uncontested(now, rtt, competition.window());
        }
        auto.drain(nearest);
    }

    /// Whether the window is one of losses, for their sake.
    pub fn answers_losses(&self) -> bool {
        self.competition.as_ref().is_some_and(Competition::is_of_losses)
    }

    /// Others are served with this window, too: together they have `rate`, the nearest is so far away, and `in_flight` bytes are on their way. What was
    /// found for each may not be right for all. No less than `least` bytes.
    pub fn join(&mut self, now: Time, (nearest, rate, least): (Duration, BitRate, u64), in_flight: u64) {
        self.competition = None;
        self.rivals.rest(now);
        self.losses = Losses::default();
        self.of_outage = OfOutage { lost: in_flight, delivered: 2 * in_flight };
        let Size::Auto(auto) = &mut self.clamp else { return };
        auto.on_joined(now, nearest, rate, least);
    }

    /// Whether all who may share the queue are to hold back: losses do not end, or the path is to be seen without it.
    pub fn asks_drain(&self) -> bool {
        self.asks_drain || matches!(&self.clamp, Size::Auto(auto) if auto.asks_drain())
    }

    /// Whether others may share the link.
    pub fn has_others(&self) -> bool {
        self.has_others
    }

    /// Tells who may share the link, where there are others; how many connections of a host are active on average; and whether a drain of all may end
    /// losses.
    pub fn set_others(&mut self, now: Time, others: Option<Others>, connections: usize, can_drain: bool) {
        self.has_others = others.is_some();
        self.can_drain = can_drain;
        if let (Some(competition), Some(others)) = (&mut self.competition, others) {
            competition.set_connections(now, connections as u64);
            competition.path_is_known = others.path_is_known;
        }
        if let Size::Auto(auto) = &mut self.clamp {
            auto.set_others(others);
        }
    }

    /// The shortest round trip of the path, and its rate in bit/s; of a window that is found.
    pub fn path(&self) -> Option<(Duration, u64)> {
        match &self.clamp {
            Size::Fixed { .. } => None,
            Size::Auto(auto) => {
                let (rtt, rate) = (auto.path().min_rtt()?, auto.path().latest_rate()?);
                Some((rtt, rate.bits_per_sec()))
            }
        }
    }

    /// The shortest round trip of the path, as far as it is known.
    pub fn shortest(&self) -> Option<Duration> {
        match &self.clamp {
            Size::Fixed { .. } => None,
            Size::Auto(auto) => auto.path().min_rtt(),
        }
    }

    /// A connection lost something, where round trips take `rtt`. A window that is found has no answer to that, unless it lasts.
    pub fn on_lost(&mut self, now: Time, rtt: Duration) {
        if let Some(competition) = &mut self.competition {
            competition.on_lost(now, rtt);
        }
    }

    /// Tells how long round trips wait in queues of others.
    pub fn set_beside(&mut self, beside: Duration) {
        if let Size::Auto(auto) = &mut self.clamp {
            auto.set_beside(beside);
        }
    }

    /// The same, as it was told; nothing where the window is fixed.
    pub fn beside(&self) -> Duration {
        match &self.clamp {
            Size::Fixed { .. } => Duration::ZERO,
            Size::Auto(auto) => auto.beside(),
        }
    }

    /// The link is back, and these bytes were on their way before. Whoever was gone meanwhile does not compete any more; but a window that losses made
    /// begins anew, as after any timeout.
    pub fn on_link_back(&mut self, now: Time, in_flight: u64) {
        let lost = if self.has_others { 0 } else { in_flight };
        self.of_outage = OfOutage { lost, delivered: 2 * in_flight };
        match &mut self.competition {
            Some(competition) if competition.is_of_losses() => competition.on_timeout(now),
            _ => {
                self.competition = None;
                self.rivals.forget(now);
            }
        }
        if let Size::Auto(auto) = &mut self.clamp {
            auto.on_link_back(now);
        }
    }
}
