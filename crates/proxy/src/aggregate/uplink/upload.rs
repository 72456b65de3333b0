//! What one mobile sender was offered, and when; and what its arrival says of the link.
use crate::window_limit::{Occupancy, WindowLimit};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;
use shorthaul_congestion::{ArrivalDelay, HostClock, Waited};
use shorthaul_types::{Blank, Keep, Numbers, Time, keeps};

/// Of [`Upload::momentum`]: another one with each change of what is handed over.
const VERSION: u64 = 1;
/// Right edges that are remembered; more are thinned out.
const EDGES: usize = 96;
/// Timestamps that are remembered.
const ECHOES: usize = 48;
/// What is told within this part of a round trip counts as told at once.
const PARTS: u32 = 32;
/// A sender whose room is smaller than this part of its window uses it up.
const LITTLE: u64 = 4;

/// The time that a link of which nothing is known may need for a segment.
const STALL: Duration = Duration::from_secs(10);

/// A right edge that its sender was told.
#[derive(Clone, Copy, Debug)]
struct Edge {
    edge: u64,
    at: Time,
}

/// A timestamp that its sender was told, and when for the first time.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    val: u32,
    at: Time,
}

/// Something new has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Bytes that were not here before.
    pub bytes: u64,
    /// That began with the first echo of a timestamp.
    pub echoed: bool,
    /// The acknowledgment that its sender had when it sent this left here at that time, or later.
    pub sent_at: Time,
    /// The round trip from that acknowledgment on; `None` where it would be longer than one.
    pub rtt: Option<Duration>,
    /// Its sender had been told of hardly any more room.
    pub used_up: bool,
    /// Its sender had paused before.
    pub resumed: bool,
}

/// Where a segment lies, and what it brings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Landing {
    /// The offset behind its last byte.
    pub end: u64,
    /// All bytes that have come so far, in order or not.
    pub arrived: u64,
    /// The timestamp that it echoes.
    pub echo: Option<u32>,
    /// It is as long as it can be, so that more is likely to follow.
    pub full: bool,
}

/// The direction of a connection that a mobile host sends.
///
/// A segment was sent after its sender had been told of the room for it, and after it had been sent the timestamp that
/// the segment echoes (RFC 7323 §4). The later of the two began the round trip that ends with its arrival. That holds with
/// and without timestamps; with them, also for a sender whose own window is smaller than what it is offered. (Without
/// them, its round trips seem longer than they are: at most the time in which it uses what it is offered.)
#[derive(Debug)]
pub(crate) struct Upload {
    /// What it was told and has not used, in order.
    edges: VecDeque<Edge>,
    stamps: VecDeque<Stamp>,
    /// The timestamp that it was told last.
    told_val: Option<u32>,
    /// The last packet of its handshake passed by itself: the next timestamp may have been told with it.
    pub saw_handshake: bool,
    /// The highest edge told.
    told: u64,
    /// What had arrived when it was told.
    arrived_when_told: u64,
    /// What it may be offered at once, whatever has arrived.
    burst: u64,
    /// The highest offset that has come.
    highest: u64,
    arrived: u64,
    arrived_at: Time,
    /// More was likely to follow then.
    more: bool,
    /// The longest time of late between two segments of which the first was full.
    gap: Duration,
    /// When it last sent something after a pause: what it was told before says nothing.
    resumed_at: Time,
    /// After a silence of this length it has paused.
    pause_after: Duration,
    /// What is told so soon after something else counts as told with it.
    spacing: Duration,
    /// What has arrived and was not asked for yet.
    arrival: Option<Arrival>,
    allotment: u64,
    /// The same when the last round trip was over.
    pub allotment_before: u64,
    /// Its allotment bounds what it is offered.
    limited: bool,
    /// That is no more than its path carries: room was told when it became free.
    is_tight: bool,
    /// The allotment, not memory, is what it has no more room for.
    held_back: bool,
    /// Bytes that came since the shares were computed last.
    counted: u64,
    /// Bytes that came between the last two times that shares were computed.
    counted_before: u64,
    /// It uses up what it has, until then.
    needy_until: Time,
    /// How long that lasts: a round trip.
    round: Duration,
    /// The clock of the server that it is for, and how long its answers are on their way.
    server: (HostClock, ArrivalDelay),
    /// How long what arrived last has waited on its way, if that is known.
    pub waited: Option<Waited>,
}

keeps!(Edge { edge, at });
keeps!(Stamp { val, at });
keeps!(Arrival { bytes, echoed, sent_at, rtt, used_up, resumed });
keeps!(Upload {
    edges,
    stamps,
    told_val,
    saw_handshake,
    told,
    arrived_when_told,
    burst,
    highest,
    arrived,
    arrived_at,
    more,
    gap,
    resumed_at,
    pause_after,
    spacing,
    arrival,
    allotment,
    allotment_before,
    limited,
    is_tight,
    held_back,
    counted,
    counted_before,
    needy_until,
    round,
    server,
    waited
});

impl Blank for Edge {
    fn blank() -> Self {
        Edge { edge: 0, at: Time::ZERO }
    }
}

impl Blank for Stamp {
    fn blank() -> Self {
        Stamp { val: 0, at: Time::ZERO }
    }
}

impl Blank for Arrival {
    fn blank() -> Self {
        Arrival { bytes: 0, echoed: false, sent_at: Time::ZERO, rtt: None, used_up: false, resumed: false }
    }
}

impl Upload {
    /// Whether it pauses, and has more room than `little`: whatever its part of the window becomes, its sender need not hear of that.
    pub fn has_settled(&self, now: Time, little: u64) -> bool {
        self.has_paused(now) && (!self.limited || !self.may_wait(now, little))
    }

    /// An upload that has been told, at `at`, of room up to `edge`, with the timestamp `val`. It may be offered
    /// `burst` bytes at once.
    pub fn new(at: Time, edge: u64, val: Option<u32>, burst: u64) -> Self {
        let mut upload = Upload {
            edges: VecDeque::new(),
            stamps: VecDeque::new(),
            told_val: None,
            saw_handshake: false,
            told: 0,
            arrived_when_told: 1,
            burst,
            highest: 1,
            arrived: 1,
            arrived_at: at,
            more: false,
            gap: Duration::ZERO,
            resumed_at: Time::ZERO,
            pause_after: STALL,
            spacing: Duration::ZERO,
            arrival: None,
            allotment: edge.saturating_sub(1),
            allotment_before: 0,
            limited: true,
            is_tight: true,
            held_back: true,
            counted: 0,
            counted_before: 0,
            needy_until: Time::ZERO,
            round: Duration::ZERO,
            server: Default::default(),
            waited: None,
        };
        upload.on_told(at, edge, val);
        upload
    }

    /// The same in the midst of a stream, of which so much had `arrived`, up to `highest`, before anybody watched it. Since when it has
    /// known what it was told nobody knows: that measures no round trip. It is taken to use what it was offered, until one shows; who has used
    /// that up is offered what a new one is, as nothing would ever show of one that may send nothing.
    #[must_use]
    pub fn in_midst(mut self, arrived: u64, highest: u64) -> Self {
        if arrived <= 1 {
            return self;
        }
        (self.arrived, self.arrived_when_told, self.highest) = (arrived, arrived, highest);
        self.allotment = self.told.saturating_sub(highest).max(self.burst);
        self.counted_before = self.allotment / 2;
        self.resumed_at = self.arrived_at;
        self.edges.iter_mut().for_each(|edge| edge.at = Time::ZERO);
        self.stamps.iter_mut().for_each(|stamp| stamp.at = Time::ZERO);
        self
    }

    /// All that is known of it, for another process.
    pub fn momentum(&self) -> Vec<u64> {
        let mut to = [VERSION].to_vec();
        self.put(&mut to);
        to
    }

    /// What another process knew; `None` where that does not fit.
    pub fn of_momentum(numbers: &[u64]) -> Option<Upload> {
        let (mut from, mut upload) = (Numbers(numbers), Upload::new(Time::ZERO, 0, None, 0));
        let is_ours = from.next()? == VERSION;
        upload.take(&mut from)?;
        (is_ours && from.0.is_empty()).then_some(upload)
    }

    /// Others have told it of room up to `edge`, who knows when.
    pub fn may_know(&mut self, edge: u64) {
        if edge > self.told {
            self.told = edge;
            self.edges.clear();
            self.edges.push_back(Edge { edge, at: Time::ZERO });
        }
    }

    /// So much has `arrived`, up to `highest`, part of it while nobody looked: that part is no delivery of now, nor does it answer
    /// anything that was told.
    pub fn skip_to(&mut self, arrived: u64, highest: u64) {
        if highest <= self.highest {
            return;
        }
        self.arrived_when_told += arrived.saturating_sub(self.arrived);
        (self.arrived, self.highest) = (self.arrived.max(arrived), highest);
        self.edges.iter_mut().for_each(|edge| edge.at = Time::ZERO);
    }

    /// An acknowledgment leaves that tells of room up to `edge`.
    pub fn on_told(&mut self, now: Time, edge: u64, val: Option<u32>) {
        if edge > self.told {
            self.told = edge;
            self.arrived_when_told = self.arrived;
            match self.edges.back_mut() {
                // It has more room than it uses, and has had it for longer than we know.
                _ if !self.is_tight => self.edges.clear(),
                Some(last) if now.saturating_since(last.at) < self.spacing => last.edge = edge,
                _ => self.edges.push_back(Edge { edge, at: now }),
            }
            if self.edges.len() > EDGES {
                self.thin_out();
            }
        }
        let is_new = val.is_some() && core::mem::replace(&mut self.told_val, val) != val;
        if let Some(val) = val.filter(|_| is_new)
            && self.stamps.back().is_none_or(|last| now.saturating_since(last.at) >= self.spacing)
        {
            if self.stamps.len() == ECHOES {
                self.stamps.pop_front();
            }
            let at = match self.stamps.front() {
                Some(first) if self.saw_handshake => first.at,
                _ => now,
            };
            self.saw_handshake = false;
            self.stamps.push_back(Stamp { val, at });
        }
    }

    /// The server has answered, with the timestamp `val`, where round trips to it take `rtt`. Returns how long the answer has
    /// waited on its way, if that is known.
    pub fn on_answer(&mut self, now: Time, val: u32, rtt: Duration) -> Option<Waited> {
        let (clock, arrivals) = &mut self.server;
        clock.on_arrival(now, val, rtt, arrivals)
    }

    /// Every two edges become one, as if both had been told when the first was: round trips must not seem shorter than
    /// they are.
    fn thin_out(&mut self) {
        let mut into = 0;
        for from in (0..self.edges.len()).step_by(2) {
            let second = self.edges.get(from + 1).copied().unwrap_or(self.edges[from]);
            self.edges[into] = Edge { edge: second.edge, at: self.edges[from].at };
            into += 1;
        }
        self.edges.truncate(into);
    }

    /// A segment has come.
    pub fn on_segment(&mut self, now: Time, landing: Landing) {
        let Landing { end, arrived, echo, full } = landing;
        let bytes = arrived.saturating_sub(self.arrived);
        self.arrived = self.arrived.max(arrived);
        if bytes == 0 {
            return;
        }
        let resumed = self.has_paused(now);
        if resumed {
            self.resumed_at = now;
        } else if self.more {
            self.gap = now.saturating_since(self.arrived_at).max(self.gap * 7 / 8);
        }
        self.arrived_at = now;
        self.more = full;
        let is_new = end > self.highest;
        let offered = is_new.then(|| self.offered_at(end)).flatten();
        self.highest = self.highest.max(end);
        let (echoed, fresh) = echo.map_or((None, false), |val| self.echoed_at(val));
        let sent_at = offered.unwrap_or(Time::ZERO).max(echoed.unwrap_or(Time::ZERO));
        // The first echo of a timestamp answers the acknowledgment that brought it; later ones perhaps a later one.
        let by_room = offered.is_some() && offered >= echoed;
        let is_sample = sent_at >= self.resumed_at && (fresh || by_room);
        let known = self.edges.partition_point(|edge| edge.at <= sent_at);
        let room = known.checked_sub(1).map_or(0, |last| self.edges[last].edge.saturating_sub(end));
        let room = if self.edges.is_empty() { u64::MAX } else { room };
        let arrival = Arrival {
            bytes: bytes + self.arrival.map_or(0, |earlier| earlier.bytes),
            sent_at,
            rtt: is_sample.then(|| now.saturating_since(sent_at)),
            echoed: is_sample && fresh && echoed.is_some(),
            used_up: is_new && room <= self.allotment / LITTLE,
            resumed: resumed || self.arrival.is_some_and(|earlier| earlier.resumed),
        };
        self.arrival = Some(arrival);
    }

    /// Whether it was silent for so long that it had nothing to send, or the link carried nothing. A segment that was not
    /// full was the last; after a full one the link may just be slow, unless it never was that slow.
    fn has_paused(&self, now: Time) -> bool {
        let silent = now.saturating_since(self.arrived_at);
        let slow = if self.gap.is_zero() { STALL } else { 4 * self.gap };
        silent > self.pause_after && (!self.more || silent > slow)
    }

    /// When its sender was told of room up to `end`, or a little earlier.
    fn offered_at(&mut self, end: u64) -> Option<Time> {
        while self.edges.len() > 1 && self.edges.front().is_some_and(|front| front.edge < end) {
            self.edges.pop_front();
        }
        self.edges.front().map(|front| front.at)
    }

    /// When its sender was first sent the timestamp `val`, or one before it; and whether this is its first echo.
    fn echoed_at(&mut self, val: u32) -> (Option<Time>, bool) {
        let mut fresh = false;
        while self.stamps.get(1).is_some_and(|next| val.wrapping_sub(next.val) as i32 >= 0) {
            self.stamps.pop_front();
            fresh = true;
        }
        let front = self.stamps.front().filter(|front| val.wrapping_sub(front.val) as i32 >= 0);
        (front.map(|front| front.at), fresh && front.is_some_and(|front| front.val == val))
    }

    /// What has arrived since the last call.
    pub fn take_arrival(&mut self) -> Option<Arrival> {
        self.arrival.take()
    }

    /// Round trips take `rtt`, and who is silent for longer than `pause_after` pauses.
    pub fn expect(&mut self, pause_after: Duration, rtt: Duration) {
        self.pause_after = pause_after;
        self.round = rtt;
        self.spacing = rtt / PARTS;
    }

    /// Bytes have come, and they used up what there was or not. Whether it is needier than it was.
    pub fn count(&mut self, now: Time, bytes: u64, used_up: bool) -> bool {
        let began = self.counted + self.counted_before == 0;
        self.counted += bytes;
        let needier = used_up && now > self.needy_until;
        if used_up {
            self.needy_until = now + 2 * self.round;
        }
        began || needier
    }

    /// How much of the window it needs: all that it can get, if it uses up what it has; or as much as a slow start may
    /// come to, from what came in this round trip and the last; `None` if it pauses.
    ///
    /// What it may send at once after a silence is not part of it: most uploads are requests, of which nothing more comes, and
    /// what was set aside for them the others would not have.
    pub fn need(&self, now: Time) -> Option<u64> {
        if self.has_paused(now) {
            return None;
        }
        let grown = 2 * self.counted.max(self.counted_before);
        Some(if now <= self.needy_until { u64::MAX } else { grown })
    }

    /// Bytes that came in this round trip, or in the last one if that were more.
    pub fn counted_lately(&self) -> u64 {
        self.counted.max(self.counted_before)
    }

    /// What it may have at once, whatever it needs.
    pub fn at_once(&self) -> u64 {
        self.burst + self.counted
    }

    /// Whether its sender may be waiting for room: it uses up what it has, or has no more than `little`.
    pub fn may_wait(&self, now: Time, little: u64) -> bool {
        now <= self.needy_until || self.told.saturating_sub(self.highest) < little
    }

    /// A round trip is over.
    pub fn end_round(&mut self) {
        self.allotment_before = self.allotment;
        self.counted_before = core::mem::take(&mut self.counted);
    }

    /// Sets how many bytes may be offered and not yet here. Returns whether that is more than before.
    pub fn allot(&mut self, bytes: u64) -> bool {
        bytes > core::mem::replace(&mut self.allotment, bytes)
    }

    /// Its allotment bounds what it is offered, from now on, or does not; and is no more than its path carries, or more.
    pub fn limit(&mut self, limited: bool, is_tight: bool) {
        (self.limited, self.is_tight) = (limited, is_tight);
        if !is_tight {
            self.edges.clear();
        } else if self.edges.is_empty() {
            self.edges.push_back(Edge { edge: self.told, at: Time::ZERO }); // nobody knows since when
        }
    }

    /// Whether it would be offered more, but for its allotment.
    pub fn is_held_back(&self) -> bool {
        self.held_back
    }

    /// The highest right edge that its sender was told.
    pub fn told(&self) -> u64 {
        self.told
    }
}

impl WindowLimit for Upload {
    /// Its allotment, beyond what lies behind a gap.
    ///
    /// Where that is suddenly more, the edge moves by three bytes for each that arrives until it is there: so what is
    /// offered is spaced as what arrives, and not a burst; and a slow start, which needs two, is not held up.
    fn bound(&mut self, occupancy: &Occupancy, room: u64) -> u64 {
        if !self.limited {
            self.held_back = false;
            return room;
        }
        let grown = (self.told + 2 * self.arrived).saturating_sub(3 * self.arrived_when_told);
        let allotted = self.allotment.min(grown.max(self.burst)) + occupancy.early;
        self.held_back = allotted < room;
        allotted.min(room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Time = Time::from_millis;

    fn early(early: u64) -> Occupancy {
        Occupancy { held: early, unsent: 0, early }
    }

    fn landing(end: u64, echo: Option<u32>) -> Landing {
        Landing { end, arrived: end, echo, full: true }
    }

    #[test]
    fn without_timestamps_a_round_trip_begins_when_the_room_was_told() {
        let mut upload = Upload::new(MS(0), 10_001, None, 10_000);
        upload.on_segment(MS(40), landing(1001, None));
        let arrival = upload.take_arrival().unwrap();
        assert_eq!((arrival.bytes, arrival.rtt), (1000, Some(Duration::from_millis(40))));
        assert!(!arrival.used_up, "there was room for nine more");
        upload.on_segment(MS(45), landing(10_001, None));
        assert!(upload.take_arrival().unwrap().used_up);
        upload.on_told(MS(50), 12_001, None);
        upload.on_told(MS(70), 14_001, None);
        upload.on_segment(MS(100), landing(12_001, None));
        let arrival = upload.take_arrival().unwrap();
        assert_eq!((arrival.sent_at, arrival.rtt), (MS(50), Some(Duration::from_millis(50))));
        assert!(arrival.used_up);
        upload.on_segment(MS(101), landing(12_001, None));
        assert_eq!(upload.take_arrival(), None, "it came twice");
    }

    #[test]
    fn a_timestamp_tells_when_a_sender_with_room_to_spare_sent() {
        let mut upload = Upload::new(MS(0), 100_001, Some(7), 10_000);
        upload.on_told(MS(100), 102_001, Some(8));
        upload.on_told(MS(101), 104_001, Some(8));
        upload.on_segment(MS(130), landing(2001, Some(8)));
        let arrival = upload.take_arrival().unwrap();
        assert_eq!((arrival.sent_at, arrival.rtt), (MS(100), Some(Duration::from_millis(30))));
        assert!(!arrival.used_up);
        upload.on_segment(MS(150), landing(4001, Some(8)));
        assert_eq!(upload.take_arrival().unwrap().rtt, None, "it may answer the second one");
    }

    #[test]
    fn what_was_told_before_a_pause_is_no_sample() {
        let mut upload = Upload::new(MS(0), 10_001, Some(7), 10_000);
        upload.on_segment(MS(40), Landing { full: false, ..landing(1001, Some(7)) });
        upload.expect(Duration::from_millis(100), Duration::from_millis(40));
        upload.on_told(MS(41), 11_001, Some(8));
        upload.on_segment(MS(5000), landing(2001, Some(8)));
        assert_eq!(upload.take_arrival().unwrap().rtt, None);
        upload.on_told(MS(5001), 12_001, Some(9));
        upload.on_segment(MS(5041), landing(3001, Some(9)));
        assert_eq!(upload.take_arrival().unwrap().rtt, Some(Duration::from_millis(40)));
    }

    #[test]
    fn a_slow_link_is_no_pause_and_a_stall_is() {
        let mut upload = Upload::new(MS(0), 20_001, None, 20_000);
        upload.expect(Duration::from_millis(100), Duration::from_millis(40));
        for i in 1..5 {
            upload.on_segment(MS(1000 * i), landing(1 + i * 1000, None));
            assert_eq!(upload.take_arrival().unwrap().resumed, i == 1, "at {i} s");
        }
        assert!(upload.need(MS(6000)).is_some() && upload.need(MS(9000)).is_none());
        upload.on_segment(MS(9000), landing(5001, None));
        assert!(upload.take_arrival().unwrap().resumed);
    }

    #[test]
    fn edges_that_are_thinned_out_make_round_trips_longer_not_shorter() {
        let mut upload = Upload::new(MS(0), 1001, None, 10_000);
        for i in 1..1000 {
            upload.on_told(MS(i), 1001 + i * 1000, None);
        }
        assert!(upload.edges.len() <= EDGES);
        for i in (1..1000).step_by(7) {
            upload.on_segment(MS(1000 + i), landing(1001 + i * 1000, None));
            let rtt = upload.take_arrival().unwrap().rtt.unwrap().as_millis() as u64;
            assert!((1000..1000 + i + 64).contains(&rtt), "{rtt} of {i}");
        }
    }

    #[test]
    fn a_larger_share_is_offered_as_what_was_offered_before_arrives() {
        let mut upload = Upload::new(MS(0), 20_001, None, 10_000);
        upload.allot(100_000);
        assert_eq!(upload.bound(&early(0), 1_000_000), 20_000, "nothing has arrived");
        upload.on_segment(MS(40), landing(3001, None));
        assert_eq!(upload.bound(&early(0), 1_000_000), 26_000, "9000 for 3000");
        upload.on_told(MS(40), 29_001, None);
        upload.on_segment(MS(50), landing(29_001, None));
        assert_eq!(upload.bound(&early(0), 1_000_000), 78_000);
        upload.allot(30_000);
        assert_eq!(upload.bound(&early(0), 1_000_000), 30_000);
    }

    /// What came before was no delivery of now: with it, rates would be those of whole streams. What was told before was not told now: round
    /// trips would be none.
    #[test]
    fn a_stream_that_was_long_before_brings_what_comes_now() {
        let mut upload = Upload::new(MS(1000), 50_060_001, Some(7), 10_000).in_midst(50_000_001, 50_000_001);
        assert_eq!(upload.need(MS(1001)), Some(60_000), "what it was offered");
        assert_eq!(upload.bound(&early(0), 1_000_000), 60_000, "and no window of the whole stream");
        upload.on_segment(MS(1002), landing(50_001_001, Some(7)));
        let arrival = upload.take_arrival().unwrap();
        assert_eq!((arrival.bytes, arrival.rtt, arrival.sent_at), (1000, None, Time::ZERO));
        upload.on_told(MS(1003), 50_070_001, Some(8));
        upload.on_segment(MS(1043), landing(50_002_001, Some(8)));
        assert_eq!(upload.take_arrival().unwrap().rtt, Some(Duration::from_millis(40)));
    }

    #[test]
    fn a_stream_in_its_midst_that_has_used_up_its_room_is_offered_more() {
        let mut upload = Upload::new(MS(1000), 50_000_001, None, 10_000).in_midst(50_000_001, 50_000_001);
        assert_eq!(upload.need(MS(1001)), Some(10_000));
        assert_eq!(upload.bound(&early(0), 1_000_000), 10_000);
    }

    #[test]
    fn what_went_past_is_no_delivery_and_what_others_told_measures_no_round_trip() {
        let mut upload = Upload::new(MS(1000), 50_060_001, None, 10_000).in_midst(50_000_001, 50_000_001);
        upload.skip_to(50_300_001, 50_300_001);
        upload.may_know(50_400_001);
        upload.on_segment(MS(1001), landing(50_301_001, None));
        let arrival = upload.take_arrival().unwrap();
        assert_eq!((arrival.bytes, arrival.rtt, arrival.used_up), (1000, None, false));
        upload.on_told(MS(1002), 50_390_001, None);
        upload.on_segment(MS(1003), landing(50_390_001, None));
        assert_eq!(upload.take_arrival().unwrap().rtt, None, "its sender knew of more");
        upload.on_told(MS(1004), 50_410_001, None);
        upload.on_segment(MS(1014), landing(50_410_001, None));
        assert_eq!(upload.take_arrival().unwrap().rtt, Some(Duration::from_millis(10)));
    }

    #[test]
    fn what_it_needs_is_twice_what_came_or_all() {
        let mut upload = Upload::new(MS(0), 10_001, None, 10_000);
        assert!(upload.count(MS(1), 3000, false), "it begins");
        assert!(!upload.count(MS(1), 1000, false));
        upload.on_segment(MS(1), Landing { full: false, ..landing(4001, None) });
        assert_eq!(
            (upload.need(MS(2)), upload.at_once()),
            (Some(8000), 14_000),
            "after ten segments at once"
        );
        upload.expect(Duration::from_millis(100), Duration::from_millis(40));
        assert!(upload.count(MS(3), 1000, true));
        assert_eq!(upload.need(MS(4)), Some(u64::MAX));
        assert!(!upload.count(MS(5), 1000, true), "it was needy before");
        upload.end_round();
        assert_eq!(upload.need(MS(90)), Some(12_000), "it did not use up what it had for two round trips");
        assert!(upload.allot(20_000) && !upload.allot(20_000));
        assert_eq!(upload.need(MS(10_000)), None);
        upload.on_told(MS(10_000), 24_001, None);
        assert_eq!((upload.bound(&early(2000), 50_000), upload.is_held_back()), (22_000, true));
        assert_eq!((upload.bound(&early(2000), 5000), upload.is_held_back()), (5000, false));
    }
}
