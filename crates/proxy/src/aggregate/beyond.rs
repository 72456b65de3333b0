//! Senders whose queue stands beyond the gateway.
//!
//! What is held here makes no queue shorter that stands on the way to here: at the bottleneck of an operator's network, where
//! the gateway is a router in a home, a ship or a train. That queue is seen in the round trips to the senders and in the
//! timestamps of what they send. Where it stands there and not here, the senders of one address to one host are offered,
//! together, what their path carries: by the same window that uploads have ([`Uplink`]), in the other direction.
//!
//! ```text
//! queue seen   the mean round trip of a round is longer than the shortest by an eighth, and by 2 ms
//! edge binds   more than two segments for the host were queued here all the round
//! hold         a queue is seen and the edge does not bind
//! let go       no queue is seen for eight rounds, or the edge binds for two
//! not ours     held for four rounds, round trips are still 1.25 times what the window makes, for 16 rounds; or the window
//!              was drained, and the round trip of the path seems longer, three times in a row; or it seems longer once, and rates follow
//!              the window when that is larger by turns (`rivals`): let go for 30 s, then for twice as long, 8 min at most
//! ```
//! A queue that does not drain although we hold back is somebody else's. Who goes on holding back then leaves the path to him.
use super::config::AggregateConfig;
use super::rivals::{Advice, Delivered, Rivals};
use super::uplink::{Arrival, Uplink, Upload};
use alloc::collections::BTreeMap;
use core::net::IpAddr;
use core::time::Duration;
use shorthaul_congestion::Waited;
use shorthaul_types::Time;
use slab::Slab;

/// A mean round trip that is longer than the shortest by one part of so many has waited in a queue,
const PART: u32 = 8;
/// if that is not less than this: a queue that nobody notices.
const UNNOTICED: Duration = Duration::from_millis(2);
/// With this many segments queued here all the time, it is the edge that binds.
const QUEUED: u64 = 2;
/// Rounds with a queue here after which it is the edge that binds.
const ROUNDS: u32 = 2;
/// Rounds without a queue after which nobody is held. Held windows grow while there is none; a sender that is let go because the link's rate has just
/// become a little higher fills its queue.
const EMPTY_ROUNDS: u32 = 8;
/// A path that becomes longer so many times in a row has somebody else's queue in it, and each time by what he has added. A path that is another one, as
/// a satellite's every fifteen seconds, becomes longer once; whose queue that is, is asked.
const LONGER: u32 = 3;
/// In a row are times that lie less than this apart.
const IN_A_ROW: Duration = Duration::from_secs(8);
/// Rounds in which a queue of ours drains.
const DRAINING: u32 = 4;
/// Rounds after that in which a queue that stays is shown to be another's.
const STUCK: u32 = 16;
/// How long a path is let go of whose queue is another's, at first and at most.
const LET_GO: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(480)];
/// A queue that was kept short for so long was ours.
const OURS: Duration = Duration::from_secs(30);

/// Senders that are not held are offered so many times what came of them in a round trip,
const FREELY: u64 = 4;
/// at least this many bytes: who was silent may begin with the window that it had.
const FREE: u64 = 256 << 10;

/// The part that a held sender yields in a round trip.
const YIELDS: u64 = 8;

/// What a round trip has shown.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    least: Option<Duration>,
    sum: Duration,
    count: u32,
    /// The least that was queued here, in bytes.
    queued: Option<u64>,
    /// A sender used up what it was offered.
    full: bool,
}

/// Whether senders are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// They are offered what there is room for, and nothing is known against holding them.
    Free,
    /// Since then, for so many rounds; of these the last `stuck` had too long a queue.
    Held { since: Time, rounds: u32, stuck: u32 },
    /// The queue is another's.
    LetGo { until: Time },
}

/// The connections between one host and one address beyond the gateway.
#[derive(Debug)]
pub(crate) struct Source {
    /// The window that their senders share while they are held.
    pub window: Uplink,
    pub(super) hold: Hold,
    round: Round,
    /// Rounds in a row without a queue there, and with one here.
    pub(super) without: u32,
    pub(super) bound_here: u32,
    /// The shortest round trip when a round last ended.
    pub(super) known: Option<Duration>,
    /// How long the next letting go lasts.
    pub(super) let_go: Duration,
    /// When a drained window last left the path longer than it was, and how often in a row.
    longer: Option<(Time, u32)>,
    /// A sender used up what it was offered, in the last round.
    is_used_up: bool,
    /// Whether others fill the queue, and have more of the path than we.
    rivals: Rivals,
    /// Its connections.
    flows: u32,
    server: IpAddr,
}

/// What has changed for the senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    Nothing,
    /// They are held from now on, or not any more.
    Hold,
}

/// All sources of one host.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    by_server: BTreeMap<IpAddr, u32>,
    sources: Slab<Source>,
}

impl Sources {
    /// A connection to `server` begins, with segments of `mss` bytes, whose handshake measured `rtt`. Returns the number of
    /// its source.
    pub fn join(
        &mut self,
        now: Time,
        server: IpAddr,
        (mss, rtt): (u32, Option<Duration>),
        config: &AggregateConfig,
    ) -> u32 {
        let Sources { by_server, sources } = self;
        let number = *by_server
            .entry(server)
            .or_insert_with(|| sources.insert(Source::new(server, Uplink::found(now, mss, config))) as u32);
        let source = &mut sources[number as usize];
        source.flows += 1;
        source.window.set_mss(mss);
        if let Some(rtt) = rtt {
            source.window.on_round_trip(now, rtt);
        }
        number
    }

    /// A connection is no more; with the last one its source is forgotten.
    pub fn leave(&mut self, number: u32) {
        let Some(source) = self.sources.get_mut(number as usize) else { return };
        source.flows -= 1;
        if source.flows == 0 {
            self.by_server.remove(&source.server);
            self.sources.remove(number as usize);
        }
    }

    /// A source by its number.
    pub fn get(&self, number: u32) -> Option<&Source> {
        self.sources.get(number as usize)
    }

    /// The same, to change.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Source> {
        self.sources.get_mut(number as usize)
    }
}

impl Source {
    fn new(server: IpAddr, window: Uplink) -> Self {
        Source {
            window,
            hold: Hold::Free,
            round: Round::default(),
            without: 0,
            bound_here: 0,
            known: None,
            let_go: LET_GO[0],
            longer: None,
            is_used_up: false,
            rivals: Rivals::of_offers(),
            flows: 0,
            server,
        }
    }

    /// Whether senders are held.
    pub fn is_held(&self) -> bool {
        matches!(self.hold, Hold::Held { .. })
    }

    /// What a connection is offered from now on, where its part of the window is computed anew.
    ///
    /// Senders that are not held have a bound, too, that holds nobody up: what was promised cannot be taken back, and must
    /// be used up before a hold is one. It is lifted where the edge binds, for what is queued here is for the edge.
    pub fn allot(&self, now: Time, download: &mut Upload) -> bool {
        download.limit(self.is_held() || self.bound_here == 0, self.is_held());
        match self.is_held() {
            // Who yielded to a page at once would leave the path idle for a round trip when it is over.
            true => {
                let before = download.allotment_before;
                self.window.allot_at_least(now, (before - before / YIELDS).min(self.window.size()), download)
            }
            false => download.allot((FREELY * download.counted_lately()).max(FREE)),
        }
    }

    /// Something has arrived from there, after it `waited` on its way, where `queued` bytes wait here for the host.
    pub fn on_arrival(
        &mut self,
        now: Time,
        arrival: &Arrival,
        waited: Option<Waited>,
        queued: u64,
        download: &mut Upload,
    ) -> Changed {
        let full = arrival.used_up && download.is_held_back();
        let rtt = self.window.on_arrival(now, arrival, waited, download);
        let round = &mut self.round;
        round.full |= full;
        round.queued = Some(round.queued.map_or(queued, |least| least.min(queued)));
        if let Some(rtt) = rtt {
            round.least = Some(round.least.map_or(rtt, |least| least.min(rtt)));
            round.sum += rtt;
            round.count += 1;
        }
        let changed = match self.window.path() {
            Some(path) if path.round_ended() => self.on_round(now),
            _ => Changed::Nothing,
        };
        if changed == Changed::Nothing && self.is_held() {
            return self.ask(now, arrival.bytes, rtt);
        }
        if self.rivals.asks() {
            self.rivals.rest(now);
            self.window.raise(0);
        }
        changed
    }

    /// Asks whether somebody else fills the queue, while senders are held.
    fn ask(&mut self, now: Time, bytes: u64, rtt: Option<Duration>) -> Changed {
        let Some(contested) = self.window.contested() else { return Changed::Nothing };
        let window = contested.window;
        // Held senders have all of their offers on their way, or they are not asked.
        let in_flight = if self.is_used_up { self.rivals.of(window) } else { 0 };
        let mss = self.window.mss() as u32;
        let own_rtt = contested.own_rtt;
        let delivered = Delivered { now, bytes, in_flight, rtt, own_rtt, window, mss };
        let advice = self.rivals.on_delivery(delivered, contested.may_be);
        self.window.raise(self.rivals.of(window).saturating_sub(window));
        match advice {
            Advice::Compete(_) => self.let_go(now),
            Advice::GoOn | Advice::End => Changed::Nothing,
        }
    }

    /// The queue is another's.
    fn let_go(&mut self, now: Time) -> Changed {
        self.longer = None;
        self.hold = Hold::LetGo { until: now + self.let_go };
        self.let_go = (2 * self.let_go).min(LET_GO[1]);
        self.rivals.rest(now);
        self.window.raise(0);
        Changed::Hold
    }

    fn on_round(&mut self, now: Time) -> Changed {
        let Some(min) = self.window.path().and_then(|path| path.min_rtt()) else { return Changed::Nothing };
        if self.round.count == 0 {
            return Changed::Nothing;
        }
        let round = core::mem::take(&mut self.round);
        let (Some(least), Some(mean)) = (round.least, round.sum.checked_div(round.count)) else {
            return Changed::Nothing;
        };
        let known = self.known.replace(min);
        self.is_used_up = round.full;
        let is_seen = mean > min + (min / PART).max(UNNOTICED);
        let binds = round.queued.is_some_and(|queued| queued > QUEUED * self.window.mss());
        self.without = if is_seen { 0 } else { self.without + 1 };
        self.bound_here = if binds { self.bound_here + 1 } else { 0 };
        match self.hold {
            Hold::LetGo { until } if now < until => Changed::Nothing,
            Hold::LetGo { .. } => {
                self.hold = Hold::Free;
                Changed::Nothing
            }
            Hold::Free if is_seen && !binds => {
                self.window.on_queue(now);
                self.hold = Hold::Held { since: now, rounds: 0, stuck: 0 };
                Changed::Hold
            }
            Hold::Free => Changed::Nothing,
            Hold::Held { .. } if self.without >= EMPTY_ROUNDS || self.bound_here >= ROUNDS => {
                self.hold = Hold::Free;
                Changed::Hold
            }
            Hold::Held { since, rounds, stuck } => {
                let most = self.window.full_rtt().max(min);
                let is_stuck = rounds >= DRAINING && least > most + most / 4 + UNNOTICED;
                let stuck = if is_stuck { stuck + 1 } else { 0 };
                if known.is_some_and(|known| min > known + known / PART + UNNOTICED) {
                    self.longer = match self.longer {
                        Some((last, times)) if now.saturating_since(last) < IN_A_ROW => {
                            Some((now, times + 1))
                        }
                        _ => Some((now, 1)),
                    };
                }
                let is_longer = self.longer.is_some_and(|(_, times)| times >= LONGER);
                if stuck >= STUCK || is_longer {
                    return self.let_go(now);
                }
                if now.saturating_since(since) >= OURS {
                    self.let_go = LET_GO[0];
                }
                // Before they have used up what they were offered before, nobody holds them.
                let rounds = rounds + u32::from(round.full);
                self.hold = Hold::Held { since, rounds, stuck };
                Changed::Nothing
            }
        }
    }
}
