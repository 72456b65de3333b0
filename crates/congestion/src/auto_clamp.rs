//! A clamped window that finds its own size: the effective bandwidth-delay product, estimated all the
//! time (the future work of "TCP flow aggregation", §IX).
//!
//! ```text
//! product = rate · min_rtt        window = (1.2 + headroom · variation²) · product + (½ to 1) · aggregated
//!                   the surplus is what the link carries in 2 ms, where that is more; of what others are offered it grows while no
//!                   queue is seen
//! at least              2 segments a connection, or twice what the link carries in min_rtt + 200 ms if that is less; none where connections take turns
//! ```
//! `rate` is the best of the last four round trips, `min_rtt` the path's own delay, and `aggregated`
//! what acknowledgments deliver at a time beyond the rate: links that gather acknowledgments, or serve a phone
//! every so often, need that much more to stay busy. `variation` is the mean change of the rate from one round trip to
//! the next: a window that just fills a link whose rate doubles and halves runs dry at each doubling. It counts by its square, for
//! a change that the surplus covers costs nothing, and what a steady link seems to vary is the error of measurement. Half of one
//! burst is enough where one is like the other; where the rate varies, silences do, and all of it is needed.
//!
//! Nobody else uses the link, so a queue is our own doing and shows at once in the round-trip time. While
//! there is none, rate = window / min_rtt, and the window grows by that surplus a round trip; when the link is
//! full, the rate no longer follows, and a queue of the surplus remains, as the paper has it.
//! No phase of probing is needed: the surplus that keeps the link busy is the probe. When the link's rate falls,
//! deliveries slow down at once, and the window follows within a round trip of the empty link.
//!
//! A receiver that has a single segment may keep its acknowledgment for a while, which looks like a slow link. Where
//! many connections share a small window, each has only one on its way, all wait so, and the rate that results asks for
//! no larger window. Hence the two for each.
//!
//! Whether a long round trip is a queue or a longer path (after a handover), no arithmetic can tell. So now and
//! then, and when round trips stay long although the window has followed, the window is drained for two round
//! trips: what is measured then is the path's own. If that is longer than before, it may still be that the link has just
//! then stood still, so a few more are waited for; and what was taken for a longer path is soon put to the test again, with
//! the window of the shorter one, for a window that follows a delay of its own making never ends it.
//!
//! And whether round trips are long since there is a queue, or since packets wait for each other under load, is looked at in the same
//! way: see `under_load`.
mod contested;
mod drain;
mod handover;
mod others;
mod round_trips;
mod under_load;

use core::time::Duration;

use shorthaul_types::{BitRate, Bytes, Time};

use crate::ack_aggregation::{AckAggregation, Expectation};
use crate::min_filter::MinFilter;
use crate::rate_variation::RateVariation;
use crate::recent_max::RecentMax;
use crate::volume::{self, Gain};
use crate::window::MAX_WINDOW;
use crate::{Delivery, PathEstimate};
use contested::Contested;
use drain::Phase;
pub use others::Others;
use round_trips::RoundTrips;
use under_load::{Doubled, UnderLoad};

/// Round trips under load are taken to be no longer than twice the shortest, and this.
const MOST_UNDER_LOAD: Duration = Duration::from_millis(100);
/// What the window has beyond the product on a steady link: "around 20 % larger than the effective link BDP" (AGG
/// §IV-C).
const SURPLUS: Gain = Gain(200);
/// The surplus of who has much more than the others, in thousandths, and of who has much less.
const LEAST_SURPLUS: u64 = 100;
const LARGEST_SURPLUS: u64 = 1000;
/// What others are offered grows by this part of the product with each round trip that shows no queue, and by this at most: a sender that has
/// lost something, or that probes, has its own reasons not to use an offer, and what it can use of a larger one makes no queue that stays.
const UNUSED: u32 = 400;
const MOST_UNUSED: u32 = 800;
/// A queue of this length nobody notices. On links whose round trip is shorter than five of them it is more than the surplus,
/// and what hosts need that send and acknowledge 64 KiB at a time, and are woken when it suits the machine.
const UNNOTICED: Duration = Duration::from_millis(2);
/// However much the rate varies, the surplus is not more than this.
const MOST_SURPLUS: u32 = 2000;
/// Where the rate varies by less than this, one burst of acknowledgments is like another: a segment waits for half of its time,
/// and half of it is enough.
const ALIKE: Gain = Gain(70);
/// Where the rate varies by more than this, a burst of acknowledgments may be followed by a longer silence than any before. All of the
/// burst is needed.
const UNLIKE: Gain = Gain(110);
/// At the start, the link is full when the mean round-trip time of a round is this many times the shortest.
const FULL: Gain = Gain(1200);
/// At the start, the link is full when this many round trips in a row are [`FULL`], before the round is over (as in HyStart++,
/// RFC 9406 §4.2): the window has doubled by then, but what it lets out has not. Fewer may be a burst.
const WAITING: u32 = 64;
/// Beside others, a quarter of a round trip or this is the longest time that acknowledgments of one aggregate are taken to be apart.
const AGGREGATE: Duration = Duration::from_millis(10);
/// A round in which the window overflowed the queue lost at least this many segments, and at least 1/[`LOST_PART`] of what was sent.
const LOST_SEGMENTS: u64 = 8;
/// See [`LOST_SEGMENTS`]. Random loss on a radio link is below 1/12.
const LOST_PART: u64 = 12;
/// For this many rounds after an overflow, the window has no reserve for a rate that varies, nor for aggregated acknowledgments: where others
/// share the queue the rate varies with their load, and a reserve would make it vary more.
const NO_RESERVE: u32 = 64;
/// Above this many times the shortest, more than a second window is in the queue, and there is no doubt.
const OVERFULL: Gain = Gain(2500);
/// Rounds in a row with hardly any growth after which the pipe is full, as in BBR.
const FULL_ROUNDS: u32 = 3;
/// The first rounds after the start do not count for the variation of the rate: the window is smaller than what is in flight, and
/// the silence until it fits again is our own doing.
const SETTLING_ROUNDS: u32 = 5;
/// The shortest round-trip time is remembered until another one is measured with an empty queue.
const MEMORY: Duration = Duration::from_secs(3600);
/// How often that is done, unless the queue is empty by itself: so that a path that has become longer is
/// not taken for a queue for ever.
const CONFIRM_EVERY: Duration = Duration::from_secs(10);
/// The least number of round trips in between, with the window's own queue: draining costs about one of them of the link's time, a hundredth.
const CONFIRM_ROUND_TRIPS: u32 = 100;
/// How long the shortest round trip is remembered that a longer path was seen after. Until then, the longer one is in
/// doubt.
const DOUBT: Duration = Duration::from_secs(60);
/// How often a path in doubt is confirmed.
const CONFIRM_DOUBTED: Duration = Duration::from_secs(2);
/// After how many round trips a path in doubt is confirmed, if that is later.
const DOUBTED_ROUND_TRIPS: u32 = 16;
/// What is sent first after silence is no more than this many times the window that the path asked for before.
const FIRST: u64 = 2;
/// How many rounds the beginning lasts after silence.
const BEGINNING: u32 = 2;
/// A round-trip time that is not longer than the shortest by more than this confirms it.
const SAME: Gain = Gain(1125);
/// Round-trip times above this many times what the window itself makes on a full link are another path's, if they stay so.
const LONGER: Gain = Gain(1250);
/// For how many rounds they have to be [`LONGER`].
const LONGER_ROUNDS: u32 = 16;
/// The rate is the highest of this many rounds.
const RECENT: usize = 4;
/// If every round-trip time of a round is above this many times the shortest, the link has become slower: earlier rates do not
/// count any more.
const FALLEN: Gain = Gain(4000);
/// The least window, in segments: with a smaller one delayed acknowledgments stop the clock.
const FLOOR: u64 = 4;
/// The same while all hold back: two that are acknowledged at once.
const DRAINED: u64 = 2;
/// The least window of each connection, in segments: a receiver acknowledges every second one at once (RFC 5681 §4.2), and
/// a single one within 200 ms (RFC 8985 §7.2). Connections that take turns have so much on their way, or nothing.
pub const EACH: u64 = 2;
/// How long an acknowledgment is delayed, as a rule (RFC 8985 §7.2, WCDelAckT). A rate that was measured while connections waited for
/// that is not the link's, and a window that follows it proves it right. Twice what is carried in this time (so that it
/// doubles, as at the start) is the most that the connections may ask for: a slow link, whose segments take longer than
/// that, needs nothing of it.
const DELAYED_ACK: Duration = Duration::from_millis(200);

/// What a window that finds its own size begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoClampConfig {
    /// The size of a full segment, in bytes.
    pub mss: u32,
    /// The first window, in bytes.
    pub initial: u64,
    /// What the window has in reserve for a link whose rate varies, as a part of the product, in thousandths of the square of the
    /// variation. Zero keeps the queue shortest, and loses the more of the link the more it varies.
    pub headroom: u32,
}

/// A window that follows the product of bandwidth and delay.
#[derive(Clone, Debug)]
pub struct AutoClamp {
    path: PathEstimate,
    /// The shortest round trip of late, of whichever path.
    shortest: MinFilter,
    headroom: u32,
    variation: RateVariation,
    aggregation: AckAggregation,
    /// The shortest mean of a round's round trips, of rounds that the window limited: without a queue, but with the waiting
    /// for acknowledgments that come aggregated.
    base: MinFilter,
    mss: u64,
    window: u64,
    /// The least window for what is sent first after silence, as far as the path is not known to be narrower.
    first: u64,
    /// What the path asks for.
    target: u64,
    /// What it asked for when the window, and not the data, last limited a round.
    filled_target: u64,
    /// The last round in which `first` holds.
    begun_until: u32,
    /// The link was never full yet: the window doubles each round.
    starting: bool,
    full: u32,
    /// Round-trip times in a row that were that long.
    waiting: u32,
    /// Rounds until what the start left on its way is gone.
    settling: u32,
    /// Rounds in a row that filled the link, whether or not the window.
    filled: u32,
    best: u64,
    /// The window, not the data, limited what was sent in this round.
    round_limited: bool,
    round: RoundTrips,
    /// Bytes that were delivered in this round, and lost.
    round_delivered: u64,
    round_lost: u64,
    /// The highest rate at which the shortest round trip was seen.
    min_rtt_rate: u64,
    /// Rounds in a row whose round-trip times were long.
    longer: u32,
    /// The round-trip time that the window makes on a full link.
    full_rtt: Duration,
    /// When the shortest round-trip time was last seen.
    confirmed_at: Time,
    phase: Phase,
    /// The rates of the last rounds.
    recent: RecentMax<u64, RECENT>,
    /// How many connections share the window.
    connections: u64,
    /// It is larger than the path asks for, for their sake.
    at_least: bool,
    /// What a round trip waits in queues that are not this window's.
    beside: Duration,
    /// Who may share the link.
    others: Option<Others>,
    /// For so many rounds the window has no reserve: with it, it was more than the queue holds.
    overflown: u32,
    /// The path is to be seen without a queue.
    asks_drain: bool,
    /// Round trips were no longer than the shortest in the last round, on average: there is no queue of this window's.
    is_empty: bool,
    /// While there is none, it grows by a part of what waits beside, too.
    grows_beside: bool,
    /// Long round trips may be the path's own.
    looks: bool,
    /// Others send what they are offered of it.
    is_offered: bool,
    /// Connections that share it take turns where it is too small for [`EACH`] of all.
    takes_turns: bool,
    /// By how much the surplus of an offer has grown while there was no queue, in thousandths.
    unused: u32,
    /// The window is drained to find that out.
    is_look: bool,
    under_load: UnderLoad,
    /// The round trips of the start, while the window doubles.
    doubled: Doubled,
    /// What the surplus makes of a round trip.
    surplus_rtt: Duration,
    contested: Contested,
}

impl AutoClamp {
    /// A window on a path of which nothing is known.
    pub fn new(now: Time, config: AutoClampConfig) -> Self {
        let AutoClampConfig { mss, initial, headroom } = config;
        AutoClamp {
            path: PathEstimate::new(now, MEMORY),
            shortest: MinFilter::default(),
            headroom,
            variation: RateVariation::default(),
            aggregation: AckAggregation::new(now),
            base: MinFilter::default(),
            mss: u64::from(mss.max(1)),
            first: initial,
            target: MAX_WINDOW,
            filled_target: MAX_WINDOW,
            begun_until: BEGINNING,
            window: initial.max(FLOOR * u64::from(mss)).min(MAX_WINDOW),
            starting: true,
            full: 0,
            waiting: 0,
            settling: SETTLING_ROUNDS,
            filled: 0,
            best: 0,
            round_limited: false,
            round: RoundTrips::default(),
            round_delivered: 0,
            round_lost: 0,
            min_rtt_rate: 0,
            longer: 0,
            full_rtt: Duration::ZERO,
            confirmed_at: now,
            phase: Phase::Follow,
            recent: RecentMax::new(),
            connections: 1,
            at_least: false,
            beside: Duration::ZERO,
            others: None,
            overflown: 0,
            asks_drain: false,
            is_empty: false,
            grows_beside: false,
            looks: false,
            is_offered: false,
            takes_turns: false,
            unused: 0,
            is_look: false,
            under_load: UnderLoad::default(),
            doubled: Doubled::default(),
            surplus_rtt: Duration::ZERO,
            contested: Contested::default(),
        }
    }

    /// Tells how long round trips wait in queues that are not this window's, such as that of the other direction. The window has
    /// room for it; the round trips of deliveries are told without it.
    pub fn set_beside(&mut self, beside: Duration) {
        self.beside = beside;
    }

    /// While it has no queue of its own, the window grows by the surplus of that room, too: a round trip lasts as long as all that waits.
    #[must_use]
    pub fn growing_beside(mut self) -> Self {
        self.grows_beside = true;
        self
    }

    /// It finds out, with a smaller window now and then, whether long round trips are the path's own.
    #[must_use]
    pub fn looking(mut self) -> Self {
        self.looks = true;
        self
    }

    /// The window is what others are offered. What was offered before stays so (RFC 9293 §3.8.6), so a look takes a round more; and while it
    /// doubles, round trips tell nothing: who has just been taken over may use what another offered.
    #[must_use]
    pub fn offered(mut self) -> Self {
        self.is_offered = true;
        self
    }

    /// Whether the connections that share it take turns where it is too small for [`EACH`] of all: some have so much on their way, and the others
    /// nothing. So it need not be larger for their sake.
    pub fn set_turns(&mut self, takes_turns: bool) {
        self.takes_turns = takes_turns;
    }

    /// How long round trips wait in other queues, as it was told.
    pub fn beside(&self) -> Duration {
        self.beside
    }

    /// The surplus on a steady link.
    fn surplus(&self) -> Gain {
        let (Some(others), rate @ 1..) = (self.others, self.recent.get()) else {
            return Gain(SURPLUS.0 + self.unused);
        };
        Gain(volume::share(SURPLUS.0.into(), others.mean_rate, rate).clamp(LEAST_SURPLUS, LARGEST_SURPLUS)
            as u32)
    }

    /// Sets the segment size in bytes: the smallest windows are counted in segments.
    pub fn set_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss.max(1));
        self.window = self.window.max(FLOOR * self.mss).min(MAX_WINDOW);
    }

    /// Sets how many of the connections that share the window have something to send or in flight. After silence they may
    /// begin with `first` bytes.
    pub fn set_connections(&mut self, connections: usize, first: u64) {
        self.connections = connections as u64;
        self.first = first.min(MAX_WINDOW);
        if self.is_beginning() {
            self.window = self.window.max(self.first());
        }
    }

    /// The least window for what is sent first after silence. A path that is known needs no more than it carries: twice, for it may
    /// carry more by now.
    fn first(&self) -> u64 {
        self.first.min(self.filled_target.saturating_mul(FIRST))
    }

    /// Whether what was sent first after silence is not delivered yet.
    fn is_beginning(&self) -> bool {
        self.path.rounds() < self.begun_until
    }

    /// What the path is known to be like.
    pub fn path(&self) -> &PathEstimate {
        &self.path
    }

    /// Another process had found a window of this many bytes: begins with no less.
    pub fn take_over(&mut self, window: u64) {
        self.window = self.window.max(window).min(MAX_WINDOW);
        self.first = self.first.max(self.window);
    }

    /// The window, in bytes.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Whether the link was never full yet.
    pub fn is_starting(&self) -> bool {
        self.starting
    }

    /// Something is sent while `in_flight` bytes, itself not included, are on their way.
    pub fn on_send(&mut self, now: Time, in_flight: u64) {
        self.path.on_send(now, in_flight);
        if in_flight == 0 {
            self.filled = 0;
            self.aggregation.restart(now);
            self.begun_until = self.path.rounds().saturating_add(BEGINNING);
        }
    }

    /// The window is not used up, for want of data, with `in_flight` bytes on their way.
    pub fn on_limited(&mut self, in_flight: u64) {
        self.path.on_limited(in_flight);
    }

    /// So many bytes were found to be lost.
    pub fn on_lost(&mut self, bytes: u64) {
        self.round_lost = self.round_lost.saturating_add(bytes);
    }

    /// The window held something back.
    pub fn on_full(&mut self) {
        self.round_limited = true;
    }

    /// The path is known to be full, by what others measured: the window does not double any more.
    pub fn on_queue(&mut self, now: Time) {
        if self.starting {
            self.end_start(now);
        }
    }

    /// The round trip that the window makes on a full path; zero before one was full.
    pub fn full_rtt(&self) -> Duration {
        self.full_rtt
    }

    /// Something was delivered.
    pub fn on_delivery(&mut self, delivery: Delivery) {
        let Delivery { now, bytes, rtt, .. } = delivery;
        let known = self.path.min_rtt();
        self.path.on_delivery(delivery);
        self.round_delivered = self.round_delivered.saturating_add(bytes);
        if let Some(rtt) = rtt {
            self.round.add(rtt);
            self.shortest.update(now, rtt, DOUBT);
            let waited = known.is_some_and(|known| rtt > self.full_at_start(known));
            self.waiting = if waited { self.waiting.saturating_add(1) } else { 0 };
            if self.starting && self.round_limited && self.waiting >= WAITING {
                self.end_start(now);
            }
            if known.is_none_or(|known| rtt <= scaled(self.own_rtt(known, self.best_rate()), SAME)) {
                self.confirmed_at = now;
            }
            if known.is_none_or(|known| rtt < known) {
                self.min_rtt_rate = self.best_rate();
            } else if known.is_some_and(|known| rtt <= scaled(known, SAME)) {
                self.min_rtt_rate = self.min_rtt_rate.max(self.best_rate());
            }
        }
        let (Some(rate), Some(min_rtt)) = (self.path.bandwidth(), self.path.min_rtt()) else { return };
        let path =
            Expectation { bandwidth: rate.bits_per_sec(), window: self.window, round: self.path.rounds() };
        self.aggregation.on_ack(now, bytes, path);
        if self.path.round_ended() {
            // A burst of acknowledgments lasts no longer than a round trip. Over more of them, a bandwidth that is a little less than the
            // link's would look like one that never ends, as large as the window, which then is twice what it should be.
            self.aggregation.restart(now);
            self.on_round(now, min_rtt);
        }
        self.follow(now);
    }

    fn on_round(&mut self, now: Time, min_rtt: Duration) {
        let limited = core::mem::take(&mut self.round_limited);
        let round = core::mem::take(&mut self.round);
        let delivered = core::mem::take(&mut self.round_delivered);
        let lost = core::mem::take(&mut self.round_lost);
        let overflows = lost >= LOST_SEGMENTS * self.mss && lost >= (delivered + lost) / LOST_PART;
        self.overflown = if overflows { NO_RESERVE } else { self.overflown.saturating_sub(1) };
        if !self.starting {
            self.settling = self.settling.saturating_sub(1);
        }
        self.variation.on_round(limited && self.phase == Phase::Follow && self.settling == 0);
        let Some((least, mean)) = round.least.zip(round.mean()) else { return };
        let unqueued = self.unqueued(min_rtt);
        // Where acknowledgments wait for longer than the path is long, and come in clumps behind what is uploaded, a mean says little of a queue here. That one
        // round trip is the path's own says that none stands.
        let is_noisy = self.grows_beside && self.beside > unqueued;
        self.is_empty = (if is_noisy { least } else { mean }) <= scaled(unqueued, SAME);
        if self.is_offered {
            self.unused = if self.is_empty { (self.unused + UNUSED).min(MOST_UNUSED) } else { 0 };
        }
        if limited && round.count > 1 {
            self.base.update(now, mean, MEMORY);
        }
        if least > scaled(unqueued, FALLEN) {
            self.recent = RecentMax::new();
        }
        let own_rtt = self.own_rtt(min_rtt, self.best_rate());
        match &mut self.phase {
            Phase::Follow => {}
            // Once there is a queue, the rates are the link's own, whatever the window.
            Phase::Refill { rounds } if *rounds > 1 && mean < scaled(unqueued, FALLEN) => {
                *rounds -= 1;
                return;
            }
            Phase::Refill { .. } => self.phase = Phase::Follow,
            Phase::Drain { .. } => return self.on_drained(now, (least, mean), (min_rtt, unqueued, own_rtt)),
        }
        if self.starting {
            // A queue that was full before never makes a round trip longer (RFC 5681 §3.1: a slow start ends with a loss; but radio links lose
            // something, too).
            if overflows {
                self.end_start(now);
                return;
            }
            let rate = self.best_rate();
            // No round trip tells when the link is full.
            if self.others.is_some_and(|others| !others.path_is_known && rate >= others.mean_rate) {
                self.end_start(now);
                return;
            }
            let grows = rate > Gain(1250).of(self.best);
            self.best = self.best.max(rate);
            // A sender that cannot use all of the window may have filled the link all the same: if it goes on so, for a
            // short answer says nothing of the link.
            let waits = mean > self.full_at_start(min_rtt);
            self.filled = match waits && delivered.saturating_mul(2) > self.window {
                true if mean > scaled(unqueued, OVERFULL) => FULL_ROUNDS,
                true => self.filled + 1,
                false => 0,
            };
            if (waits && limited) || self.filled >= FULL_ROUNDS {
                self.end_start(now);
            } else if limited {
                self.full = if grows { 0 } else { self.full + 1 };
                if self.full >= FULL_ROUNDS {
                    self.end_start(now);
                } else {
                    self.doubled.on_round(mean);
                    self.window = (2 * self.window).min(MAX_WINDOW);
                }
            }
            return;
        }
        // A window that is larger than the product has a queue, which says nothing of the path.
        self.longer = if least > scaled(self.full_rtt.max(min_rtt), LONGER) && !self.at_least {
            self.longer + 1
        } else {
            0
        };
        if limited {
            self.filled_target = self.target;
            self.watch_round(now, mean, min_rtt);
        }
        let looks = limited && self.is_time_to_look(mean, unqueued);
        let shortest = self.shortest().unwrap_or(min_rtt);
        let interval = if min_rtt > scaled(shortest, SAME) {
            CONFIRM_DOUBTED.max(min_rtt * DOUBTED_ROUND_TRIPS)
        } else {
            CONFIRM_EVERY.max(self.full_rtt.max(min_rtt) * CONFIRM_ROUND_TRIPS)
        };
        if self.longer >= LONGER_ROUNDS || now.saturating_since(self.confirmed_at) >= interval {
            if self.others.is_some() {
                // Alone, it would see what the others leave in the queue, and take that for the path.
                (self.longer, self.asks_drain) = (0, true);
            } else {
                self.begin_drain(min_rtt, self.unqueued(min_rtt.min(shortest)), FLOOR);
            }
        } else if looks {
            self.begin_drain(min_rtt, unqueued, FLOOR);
            self.is_look = true;
        }
    }

    /// The link is full. What was acknowledged at a time until now was what was sent at a time, and says nothing of the link.
    fn end_start(&mut self, now: Time) {
        self.starting = false;
        self.aggregation = AckAggregation::new(now);
        if let (Some(mean), Some(min_rtt)) = (self.doubled.without_queue(), self.path.min_rtt())
            && !self.is_offered
            && self.can_look()
            && mean > scaled(min_rtt, LONGER)
        {
            self.under_load.on_start(mean.min(2 * min_rtt + MOST_UNDER_LOAD));
        }
    }

    /// The round-trip time of the path itself where the link has this rate: a segment takes longer than when the shortest was
    /// measured, if the link was faster then.
    fn own_rtt(&self, min_rtt: Duration, rate: u64) -> Duration {
        let segment = |rate| BitRate::from_bits_per_sec(rate).time_to_send(Bytes(self.mss));
        match rate > 0 && rate < self.min_rtt_rate {
            true => min_rtt + segment(rate).saturating_sub(segment(self.min_rtt_rate)),
            false => min_rtt,
        }
    }

    fn best_rate(&self) -> u64 {
        self.path.bandwidth().map_or(0, BitRate::bits_per_sec)
    }

    fn follow(&mut self, now: Time) {
        let (Some(rate), Some(min_rtt)) = (self.path.latest_rate(), self.path.min_rtt()) else { return };
        self.recent.update(self.path.rounds(), rate.bits_per_sec());
        self.variation.on_rate(rate.bits_per_sec());
        self.contested.on_rate(now, rate);
        let own_rtt = self.unqueued(self.own_rtt(min_rtt, self.recent.get()));
        let product = volume::in_time(self.recent.get(), own_rtt);
        if self.phase == Phase::Follow && !self.starting {
            let variation = self.variation.get();
            let reserve = match self.overflown {
                0 => Gain(self.headroom).of(variation.of(u64::from(variation.0))),
                _ => 0,
            };
            // Beside others a rate varies by what they do: who makes room for that makes it vary more.
            let most = if self.others.is_some() { LARGEST_SURPLUS } else { u64::from(MOST_SURPLUS) };
            let surplus = (u64::from(self.surplus().0) + reserve).min(most);
            let surplus = Gain(surplus as u32);
            self.surplus_rtt = own_rtt + scaled(own_rtt, surplus).max(UNNOTICED);
            let unnoticed = volume::in_time(self.recent.get(), UNNOTICED);
            let aggregated = match self.overflown {
                0 => of_aggregated(variation).of(self.aggregated(self.unqueued(min_rtt))),
                _ => 0,
            };
            let target = product + surplus.of(product).max(unnoticed) + aggregated;
            self.full_rtt = Duration::from_nanos(volume::share(nanos(own_rtt), target, product));
            let carried = volume::in_time(self.recent.get(), min_rtt + DELAYED_ACK);
            let each = match self.takes_turns {
                true => 0,
                false => (EACH * self.connections * self.mss).min(carried.saturating_mul(2)),
            };
            self.target = target;
            let first = if self.is_beginning() { self.first() } else { 0 };
            let least = each.max(FLOOR * self.mss).max(first);
            self.at_least = target < least;
            // Acknowledgments that have waited come together: half of what both say is the same.
            let beside = volume::in_time(self.recent.get(), self.beside);
            // A round trip is as long as all that is under way: by a fifth of the product alone the window would grow by little of that in one.
            let probe = if self.is_empty && self.grows_beside && self.others.is_none() {
                surplus.of(beside)
            } else {
                0
            };
            let beside = (beside - beside.min(aggregated) / 2).saturating_add(probe);
            self.window = target.saturating_add(beside).max(least).min(MAX_WINDOW);
        }
    }

    /// What is delivered at a time where acknowledgments come aggregated. How long that is shows where there is no queue: in
    /// the mean round trip beyond the shortest one. What is delivered at a time, beyond the rate, says it too, but is measured with a queue or without, and is
    /// the most of many rounds. (By the latter alone a window that is too small has aggregates that are too small, and stays so.)
    fn aggregated(&self, min_rtt: Duration) -> u64 {
        let waiting =
            self.base.get().map_or(Duration::ZERO, |base| base.saturating_sub(min_rtt)).min(min_rtt);
        let aggregated = volume::in_time(self.recent.get(), waiting).max(self.aggregation.extra());
        match self.others {
            // When others take less, acknowledgments come faster for a while; that is no aggregate.
            Some(_) => aggregated.min(volume::in_time(self.recent.get(), AGGREGATE.max(min_rtt / 4))),
            None => aggregated,
        }
    }

    /// The link is back after it carried nothing for a while: it may be another cell.
    pub fn on_link_back(&mut self, now: Time) {
        self.path.on_gap(now);
        self.aggregation.restart(now);
        self.round = RoundTrips::default();
        self.longer = 0;
        self.under_load = UnderLoad::default();
        self.recent = RecentMax::new();
        self.filled_target = MAX_WINDOW;
        // The window is what it was, before it was drained if it was, until it shows what the link carries now.
        if let Phase::Drain { before, .. } = self.phase {
            self.window = self.window.max(before);
        }
        self.phase = Phase::Refill { rounds: 3 };
    }
}

/// The part of a burst of acknowledgments that the window has room for, at this variation of the rate.
fn of_aggregated(variation: Gain) -> Gain {
    let half = u64::from(variation.0.saturating_sub(ALIKE.0).min(UNLIKE.0 - ALIKE.0));
    Gain(500 + volume::share(500, half, u64::from(UNLIKE.0 - ALIKE.0)) as u32)
}

fn scaled(time: Duration, gain: Gain) -> Duration {
    Duration::from_nanos(gain.of(nanos(time)))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
