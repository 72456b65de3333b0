//! Hosts of whose traffic nothing is acknowledged here. What goes to them passes as it comes, for nothing measures their link; and whoever keeps the queue
//! short of a link that they share yields to them.
//!
//! So it is asked: what goes to one of them is held for a moment. If the queue of a group becomes shorter by what would have come meanwhile, and is as
//! long as before when it has come, they wait in the same one.
//!
//! ```text
//! asked     when a group has a queue of 4 ms, and the host half of the rate that a host of it has, or more: the heaviest first
//! held      what takes a quarter of a round trip to send at the rate of all (40 ms at most), for 10 to 60 ms
//! drop      the shortest round trip of twice as long a time before, and that of after it has come, whichever is less − the shortest in between
//! shares    drop from ½ to 2½ of what would have come            not   the greater of the two − the shortest in between ≤ ¼ of that, and they differ by no more
//! ```
//! Two tests more for than against make the host one of the group, as of hosts that both are measured ([`shared_bottleneck`](crate::shared_bottleneck)); two more
//! against leave it alone for two seconds, and twice as long each time, up to a minute.
//!
//! Whoever shares a link has together what they had before. A host with a link of its own that is served with a slower one has less: so it is looked at what both have from half a second to one and a half
//! after, and below 0.7 of what they had it was wrong, and nobody asks for a minute. Nothing else corrects what was found of a host that nothing measures: so it holds for a minute,
//! and twice as long each time it is found again.
use crate::recent_round_trips::{BIN, RecentRoundTrips};
use crate::shared_bottleneck::Evidence;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use shorthaul_types::Time;
use shorthaul_wire::Packet;

/// So many hosts are watched at most: those to which the most goes.
const MOST: usize = 32;
/// So many groups.
const MOST_GROUPS: usize = 64;
/// Rates are counted for so long a time each.
const INTERVAL: Duration = Duration::from_millis(200);
/// Without a round trip for so long, nobody is asked, and nothing is counted.
const LISTENING: Duration = Duration::from_secs(1);
/// The part of a round trip that is to be missing, the least that shows anything, and the most.
const PART: u32 = 4;
const DROP: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(40)];
/// How long packets are held at most, and at least.
const LONGEST: Duration = Duration::from_millis(60);
const SHORTEST: Duration = Duration::from_millis(10);
/// What is held takes this much memory at most, in bytes.
const MEMORY: usize = 4 << 20;
/// How long after a test the next one begins.
const REST: Duration = Duration::from_millis(250);
/// How long a host is not held again of which a test showed nothing; twice as long each time after that, up to the second.
const FUTILE: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(10)];
/// For how long it is taken for granted that a host does not share a group's queue, at first and at most: while windows double, a queue is no shorter for what is
/// held.
const APART: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(60)];
/// How long a host is of a group that it was found to share a queue with, at first and at most.
const JOINED: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(960)];

/// What a host and its group have together is compared with what they had before: from then to then after it was joined.
const COMPARED: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(1500)];
/// The least of that, in percent, of those who share a link.
const KEPT: u64 = 70;
/// The weight of a round trip in the moving average of a group's rate.
const RATE_GAIN: u64 = 32;

/// A host to which something passes.
#[derive(Clone, Copy, Debug)]
struct Passing {
    host: IpAddr,
    /// What came in this interval; of one that others were counted against, less.
    bytes: u64,
    /// The rate of the last one, in bit/s.
    rate: u64,
    /// Until when it is not held again, and for how long the next time that a test shows nothing.
    futile_until: Time,
    futile: Duration,
}

/// A group whose round trips are measured.
#[derive(Debug)]
struct Measured {
    began: Time,
    round_trips: RecentRoundTrips,
    /// Its rate of late in bit/s, on average, and the number of its hosts.
    rate: u64,
    hosts: u64,
}

/// What tests said of a host and a group.
#[derive(Clone, Copy, Debug)]
struct Pair {
    evidence: Evidence,
    /// For how long they are taken not to share a queue, the next time.
    apart: Duration,
}

/// What a group shows with a round trip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub rtt: Duration,
    /// The shortest round trip of its path.
    pub shortest: Duration,
    /// Its rate in bit/s.
    pub rate: u64,
    /// The number of its hosts.
    pub hosts: usize,
}

/// A test under way.
#[derive(Clone, Copy, Debug)]
struct Test {
    host: IpAddr,
    /// The rate of what is held, and that of all, in bit/s.
    rate: u64,
    of_all: u64,
    began: Time,
    held: Duration,
    judged_at: Time,
}

/// A host that was found to share the queue of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub host: IpAddr,
    pub group: u32,
    began: Time,
    /// What both had together, in bit/s.
    rate: u64,
}

#[cfg(test)]
impl Found {
    pub fn of(host: IpAddr, group: u32) -> Self {
        Found { host, group, began: Time::ZERO, rate: 0 }
    }
}

/// One that was joined to it.
#[derive(Clone, Copy, Debug)]
struct Joined {
    found: Found,
    /// Its place in the registry of the access side.
    index: u32,
    at: Time,
    until: Time,
    /// What both had since, as it was told so many times, added up. Nothing once that was looked at.
    since: Option<(u128, u32)>,
}

/// Finds out with whom unmeasured hosts share a queue.
#[derive(Debug, Default)]
pub(crate) struct Unmeasured {
    passing: Vec<Passing>,
    interval_from: Time,
    groups: BTreeMap<u32, Measured>,
    pairs: BTreeMap<(IpAddr, u32), Pair>,
    test: Option<Test>,
    /// What is held of it until then, and the memory of that.
    held_host: Option<IpAddr>,
    held_until: Time,
    held: VecDeque<Packet>,
    memory: usize,
    next_at: Time,
    listening_until: Time,
    joined: Vec<Joined>,
    /// For how long a host is joined, the next time that it is.
    lasts: BTreeMap<IpAddr, Duration>,
}

impl Unmeasured {
    /// A packet to this host passes, for nothing of it is measured. It comes back unless it is held.
    pub fn on_packet(&mut self, now: Time, host: IpAddr, packet: Packet) -> Option<Packet> {
        if now < self.listening_until {
            self.count(now, host, packet.wire_len() as u64);
        }
        // What comes when the others of its host should have left stays behind them.
        if self.held_host != Some(host) || now >= self.held_until && self.held.is_empty() {
            return Some(packet);
        }
        self.memory += packet.allocated();
        self.held.push_back(packet);
        if self.memory > MEMORY {
            self.stop(now);
        }
        None
    }

    /// What was held, if it is time that it leaves.
    pub fn released(&mut self, now: Time) -> impl Iterator<Item = Packet> + '_ {
        let count = if now < self.held_until { 0 } else { self.held.len() };
        if count > 0 {
            self.memory = 0;
            // Who is woken late holds for longer than was meant, and sees more of the queue missing.
            if let Some(test) = &mut self.test {
                let late = now.saturating_since(self.held_until);
                test.held += late;
                test.judged_at += late;
            }
        }
        self.held.drain(..count)
    }

    /// Nobody is held any more.
    pub fn stop(&mut self, now: Time) {
        self.test = None;
        self.held_until = self.held_until.min(now);
    }

    /// When something is to be done without a packet or a round trip.
    pub fn deadline(&self) -> Option<Time> {
        let held = (!self.held.is_empty()).then_some(self.held_until);
        held.into_iter().chain(self.joined.iter().map(|joined| joined.until)).min()
    }

    /// The memory of what is held, in bytes.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Counts what goes to the hosts to which the most goes (Misra and Gries 1982: who is new where all places are taken takes as much from the least; the least by the
    /// last interval, for when one begins all have nothing).
    fn count(&mut self, now: Time, host: IpAddr, bytes: u64) {
        let since = now.saturating_since(self.interval_from);
        if since >= INTERVAL {
            let nanos = since.as_nanos();
            for passing in &mut self.passing {
                passing.rate =
                    u64::try_from(u128::from(passing.bytes) * 8_000_000_000 / nanos).unwrap_or(u64::MAX);
                passing.bytes = 0;
            }
            self.passing.retain(|passing| passing.rate > 0 || now < passing.futile_until);
            self.interval_from = now;
        }
        if let Some(known) = self.passing.iter_mut().find(|passing| passing.host == host) {
            known.bytes += bytes;
            return;
        }
        let new = Passing { host, bytes, rate: 0, futile_until: Time::ZERO, futile: FUTILE[0] };
        if self.passing.len() < MOST {
            return self.passing.push(new);
        }
        if let Some(least) = self.passing.iter_mut().min_by_key(|passing| (passing.rate, passing.bytes)) {
            match least.bytes.checked_sub(bytes) {
                Some(rest) => least.bytes = rest,
                None => *least = new,
            }
        }
    }

    /// A group that began then measured a round trip. Returns a host that was found to share its queue with a group.
    pub fn on_round_trip(&mut self, now: Time, (group, began): (u32, Time), shown: Shown) -> Option<Found> {
        self.listening_until = now + LISTENING;
        self.compare(now, (group, began), shown.rate);
        if self.passing.is_empty() && self.test.is_none() {
            return None;
        }
        self.hear(now, (group, began), shown);
        match self.test {
            Some(test) if now < test.judged_at => None,
            Some(test) => {
                self.test = None;
                self.next_at = now + REST;
                self.judge(now, &test)
            }
            None => {
                if now >= self.next_at && self.held.is_empty() {
                    self.begin(now);
                }
                None
            }
        }
    }

    /// A group has this rate: hosts that were joined to it may have had more before.
    fn compare(&mut self, now: Time, group: (u32, Time), rate: u64) {
        for Joined { found, at, until, since, .. } in &mut self.joined {
            let Some((sum, count)) = since else { continue };
            let lasts = now.saturating_since(*at);
            if (found.group, found.began) != group || lasts < COMPARED[0] {
                continue;
            }
            (*sum, *count) = (*sum + u128::from(rate), *count + 1);
            if lasts < COMPARED[1] {
                continue;
            }
            let mean = *sum / u128::from(*count);
            *since = None;
            if mean * 100 < u128::from(found.rate) * u128::from(KEPT) {
                *until = now;
                self.lasts.remove(&found.host);
                let apart = Pair { evidence: Evidence::apart(now), apart: APART[1] };
                self.pairs.insert((found.host, found.group), apart);
            }
        }
    }

    fn hear(&mut self, now: Time, (group, began): (u32, Time), shown: Shown) {
        if self.groups.get(&group).is_some_and(|known| known.began != began) {
            // Another one has its place in the registry.
            self.groups.remove(&group);
            self.pairs.retain(|(_, of), _| *of != group);
        }
        if self.groups.len() >= MOST_GROUPS && !self.groups.contains_key(&group) {
            self.groups.retain(|_, known| now.saturating_since(known.round_trips.heard_at()) < LISTENING);
            if self.groups.len() >= MOST_GROUPS {
                return;
            }
        }
        let Shown { rtt, shortest, rate, hosts } = shown;
        let known = self.groups.entry(group).or_insert_with(|| Measured {
            began,
            round_trips: RecentRoundTrips::new(now, rtt),
            rate,
            hosts: 1,
        });
        known.round_trips.on_round_trip(now, rtt);
        known.round_trips.is_no_longer_than(shortest);
        known.rate = known.rate - known.rate / RATE_GAIN + rate / RATE_GAIN;
        known.hosts = hosts.max(1) as u64;
    }

    /// Holds the heaviest host that may wait in the queue of a group, if one has a queue.
    fn begin(&mut self, now: Time) {
        self.next_at = now + BIN;
        let busy = || self.groups.iter().filter(|(_, known)| known.round_trips.is_busy(now));
        let queued = || busy().filter(|(_, known)| known.round_trips.queue(now).is_some());
        let Some(least) = queued().map(|(_, known)| known.rate / known.hosts).min() else { return };
        let measured: u64 = busy().map(|(_, known)| known.rate).sum();
        let heavy = || self.passing.iter().filter(|passing| passing.rate >= (least / 2).max(1));
        let of_all = heavy().map(|passing| passing.rate).fold(measured, u64::saturating_add);
        let is_open = |host: IpAddr| {
            queued().any(|(group, _)| {
                self.pairs.get(&(host, *group)).is_none_or(|known| known.evidence.is_open(now))
            })
        };
        let due = heavy().filter(|passing| now >= passing.futile_until && is_open(passing.host));
        let Some(Passing { host, rate, .. }) = due.max_by_key(|passing| passing.rate).copied() else {
            return;
        };
        let longest = busy().map(|(_, known)| known.round_trips.srtt()).max().unwrap_or_default();
        let drop = (longest / PART).clamp(DROP[0], DROP[1]);
        let held = drop.mul_f64(of_all as f64 / rate as f64).clamp(SHORTEST, LONGEST);
        if queue_of(rate, held, of_all) < DROP[0] {
            return;
        }
        let judged_at = now + held + longest + after(held);
        self.test = Some(Test { host, rate, of_all, began: now, held, judged_at });
        (self.held_host, self.held_until) = (Some(host), now + held);
    }

    /// What a test has shown.
    fn judge(&mut self, now: Time, test: &Test) -> Option<Found> {
        let mut shared = None;
        let mut says = None;
        for (group, known) in self.groups.iter().filter(|(_, known)| known.round_trips.is_busy(now)) {
            let shares = shares(known, test, now);
            says = says.or(shares);
            let new = Pair { evidence: Evidence::default(), apart: APART[0] };
            let pair = self.pairs.entry((test.host, *group)).or_insert(new);
            if pair.evidence.on_test(now, shares, pair.apart) {
                let rate = test.rate.saturating_add(known.rate);
                shared = shared.or(Some(Found { host: test.host, group: *group, began: known.began, rate }));
            } else if !pair.evidence.is_open(now) {
                pair.apart = (2 * pair.apart).min(APART[1]);
            }
        }
        if let Some(passing) = self.passing.iter_mut().find(|passing| passing.host == test.host) {
            match says {
                Some(_) => passing.futile = FUTILE[0],
                None => {
                    passing.futile_until = now + passing.futile;
                    passing.futile = (2 * passing.futile).min(FUTILE[1]);
                }
            }
        }
        // Many hosts and groups come and go.
        if self.pairs.len() > MOST * MOST_GROUPS {
            self.pairs.clear();
        }
        shared
    }

    /// A host of which nothing is measured is of a group from now on: its place in the registry. Returns another one that is not any more, where there are
    /// too many.
    pub fn join(&mut self, now: Time, found: Found, index: u32) -> Option<u32> {
        let Found { host, .. } = found;
        self.passing.retain(|passing| passing.host != host);
        self.pairs.retain(|(of, _), _| *of != host);
        if self.lasts.len() >= MOST {
            self.lasts.clear();
        }
        let lasts = self.lasts.entry(host).or_insert(JOINED[0]);
        let until = now + *lasts;
        *lasts = (2 * *lasts).min(JOINED[1]);
        let gone = (self.joined.len() >= MOST).then(|| self.joined.remove(0).index);
        self.joined.push(Joined { found, index, at: now, until, since: Some((0, 0)) });
        gone
    }

    /// Whether this host is of a group by what was found.
    pub fn is_joined(&self, host: IpAddr) -> bool {
        self.joined.iter().any(|joined| joined.found.host == host)
    }

    /// A host that was of a group for long enough: its place in the registry.
    pub fn next_expired(&mut self, now: Time) -> Option<u32> {
        let place = self.joined.iter().position(|joined| now >= joined.until)?;
        Some(self.joined.remove(place).index)
    }
}

/// How long a queue of what comes at `rate` meanwhile would last at `of_all`.
fn queue_of(rate: u64, meanwhile: Duration, of_all: u64) -> Duration {
    meanwhile.mul_f64(rate as f64 / of_all.max(1) as f64)
}

/// For how long after a queue was shorter it is seen whether it is as long as before.
fn after(held: Duration) -> Duration {
    held.max(4 * BIN) + 4 * BIN
}

/// Whether the host that was held shares the queue of a group, if that was seen.
fn shares(known: &Measured, test: &Test, now: Time) -> Option<bool> {
    let Measured { round_trips, rate, .. } = known;
    let let_go = test.began + test.held;
    let full_again = let_go + round_trips.srtt() + 2 * BIN;
    let before = round_trips.least(test.began - 2 * test.held, test.began)?;
    let shortest = round_trips.least(let_go, full_again)?;
    let after = round_trips.least(full_again + BIN, now)?;
    let drop = before.min(after).saturating_sub(shortest);
    // Not all of whom it is known need be behind the same link.
    let least = queue_of(test.rate, test.held, test.of_all);
    let most = queue_of(test.rate, test.held, test.rate.saturating_add(*rate));
    if 2 * drop >= least && 2 * drop <= 5 * most {
        return Some(true);
    }
    // Where a queue varies by itself, that it did not become shorter says little.
    let calm = 4 * before.abs_diff(after) <= least;
    (calm && 4 * before.max(after).saturating_sub(shortest) <= least).then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use shorthaul_wire::{IpHeader, Ipv4Header, Payload, Transport, UdpHeader};

    const MEASURED: (u32, Time) = (7, Time::ZERO);
    const PATH: u64 = 30;
    /// Bytes a millisecond of each link.
    const RATE: u64 = 2500;

    fn packet(host: u8, number: u64) -> Packet {
        let ip = Ipv4Header {
            src: Ipv4Addr::new(192, 0, 2, 1),
            dst: Ipv4Addr::new(10, 0, 0, host),
            tos: 0,
            ttl: 60,
            id: number as u16,
            dont_fragment: true,
        };
        let header = UdpHeader { src_port: 443, dst_port: 5000 };
        let transport = Transport::Udp { header, payload: Payload::copy_of(&[0; 1222]) };
        Packet { ip: IpHeader::V4(ip), transport, original: None }
    }

    fn number(packet: &Packet) -> u16 {
        match packet.ip {
            IpHeader::V4(ip) => ip.id,
            IpHeader::V6(_) => panic!("it was another"),
        }
    }

    /// What came of some seconds.
    struct Outcome {
        /// When, in milliseconds.
        found: Option<u64>,
        /// By how much a packet was late, at most; milliseconds.
        late: u64,
        numbers: Vec<u16>,
    }

    /// A group keeps 1000 bytes a millisecond on its way, over a link whose queue is `queue` bytes beside; a host of which nothing is measured has `theirs` bytes a
    /// millisecond, over the same link or over one of its own. What a millisecond brings varies by chance.
    fn run(seconds: u64, (theirs, queue): (u64, u64), is_shared: bool) -> Outcome {
        let host = IpAddr::from([10, 0, 0, 9]);
        let mut unmeasured = Unmeasured::default();
        let mut outcome = Outcome { found: None, late: 0, numbers: Vec::new() };
        let (mut queued, mut sent, mut owed, mut draw) = (queue, 0, 0, 1_u64);
        let mut coming: VecDeque<(u64, Duration)> = VecDeque::new();
        let mut began = VecDeque::new();
        for ms in 1000..1000 * (1 + seconds) {
            let now = Time::from_millis(ms);
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let noise = (draw >> 33) % 600;
            let mut arrived = 0;
            owed += theirs;
            let mut leave = |packet: &Packet, began: &mut VecDeque<u64>| {
                arrived += packet.wire_len() as u64;
                outcome.late = outcome.late.max(ms - began.pop_front().unwrap());
                outcome.numbers.push(number(packet));
            };
            for packet in unmeasured.released(now) {
                leave(&packet, &mut began);
            }
            while owed >= 1250 {
                owed -= 1250;
                began.push_back(ms);
                sent += 1;
                if let Some(packet) = unmeasured.on_packet(now, host, packet(9, sent)) {
                    leave(&packet, &mut began);
                }
            }
            // The group fills what is left, as a sender would whose window is full.
            let others = if is_shared { arrived } else { theirs };
            let served = RATE + if queue == 0 { 600 } else { 300 };
            queued = (queued + others + RATE - theirs + noise).saturating_sub(served);
            let rtt = Duration::from_millis(PATH) + Duration::from_micros(queued * 1000 / RATE);
            coming.push_back((ms + rtt.as_millis() as u64, rtt));
            while let Some((_, rtt)) = coming.pop_front_if(|(at, _)| *at <= ms) {
                let shown = Shown {
                    rtt,
                    shortest: Duration::from_millis(PATH),
                    rate: (RATE - theirs) * 8000,
                    hosts: 1,
                };
                if let Some(found) = unmeasured.on_round_trip(now, MEASURED, shown) {
                    assert_eq!((found.host, found.group), (host, MEASURED.0));
                    outcome.found.get_or_insert(ms);
                }
            }
        }
        outcome
    }

    #[test]
    fn who_waits_in_the_queue_of_a_group_is_found_and_who_does_not_is_not() {
        for theirs in [1200, 2000] {
            let shared = run(20, (theirs, 100_000), true);
            let at = shared.found.expect("it shares the queue");
            assert!(at < 1000 + 4000, "after {} ms", at - 1000);
            assert!(run(60, (theirs, 100_000), false).found.is_none(), "{theirs}: its own link");
        }
    }

    #[test]
    fn what_is_held_leaves_in_order_and_soon() {
        let shared = run(20, (2000, 100_000), true);
        assert!(shared.numbers.is_sorted() && shared.numbers.len() > 30_000);
        assert!((10..=61).contains(&shared.late), "{} ms", shared.late);
    }

    #[test]
    fn nobody_is_held_without_a_queue_or_with_a_small_part() {
        assert_eq!(run(20, (2000, 0), false).late, 0);
        assert_eq!(run(20, (200, 100_000), true).late, 0);
    }

    #[test]
    fn without_a_round_trip_nothing_is_counted_and_what_memory_does_not_hold_leaves() {
        let mut unmeasured = Unmeasured::default();
        let host = IpAddr::from([10, 0, 0, 9]);
        let now = Time::from_secs(1);
        assert!(unmeasured.on_packet(now, host, packet(9, 1)).is_some() && unmeasured.passing.is_empty());
        // Somebody is held, and 5000 packets come at once.
        (unmeasured.held_host, unmeasured.held_until) = (Some(host), now + LONGEST);
        let held = (0..5000).filter(|number| unmeasured.on_packet(now, host, packet(9, *number)).is_none());
        assert_eq!(held.count(), 5000, "they keep their order");
        assert_eq!(unmeasured.deadline(), Some(now), "it is too much");
        assert!(unmeasured.memory() > MEMORY);
        assert_eq!(unmeasured.released(now).count(), 5000);
        assert_eq!((unmeasured.memory(), unmeasured.deadline()), (0, None));
        assert!(unmeasured.on_packet(now, host, packet(9, 0)).is_some());
    }

    #[test]
    fn of_very_many_addresses_those_are_known_to_which_the_most_goes() {
        let mut unmeasured = Unmeasured { listening_until: Time::from_secs(9), ..Unmeasured::default() };
        for number in 0..20_000_u32 {
            let now = Time::from_micros(1_000_000 + 50 * u64::from(number));
            let host = if number % 4 == 0 { 0x0a00_0001 } else { 0x0b00_0000 + number };
            unmeasured.count(now, Ipv4Addr::from_bits(host).into(), 1250);
        }
        assert_eq!(unmeasured.passing.len(), MOST);
        let host = IpAddr::from(Ipv4Addr::from_bits(0x0a00_0001));
        let known = unmeasured.passing.iter().find(|passing| passing.host == host);
        let rate = known.expect("a quarter of all goes there").rate;
        assert!((40_000_000..=52_000_000).contains(&rate), "{rate} bit/s of 50,000,000");
    }

    #[test]
    fn when_an_interval_begins_the_heaviest_are_known_still() {
        let mut unmeasured = Unmeasured { listening_until: Time::from_secs(9), ..Unmeasured::default() };
        let address = |number: u32| IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + number));
        let begins = Time::from_secs(1);
        unmeasured.count(begins, address(0), 100_000);
        (1..MOST as u32).for_each(|number| unmeasured.count(begins, address(number), 1000));
        // Others come first.
        (100..110).for_each(|number| unmeasured.count(begins + INTERVAL, address(number), 1000));
        assert_eq!((unmeasured.passing[0].host, unmeasured.passing[0].rate), (address(0), 4_000_000));
    }

    #[test]
    fn a_test_lasts_as_long_as_packets_were_held_however_late_that_was() {
        let mut unmeasured = Unmeasured::default();
        let host = IpAddr::from([10, 0, 0, 9]);
        let ms = Duration::from_millis;
        let began = Time::from_secs(1);
        let (held, judged_at) = (ms(20), began + ms(120));
        unmeasured.test = Some(Test { host, rate: 1, of_all: 1, began, held, judged_at });
        (unmeasured.held_host, unmeasured.held_until) = (Some(host), began + held);
        assert!(unmeasured.on_packet(began, host, packet(9, 1)).is_none());
        assert_eq!(unmeasured.released(began + ms(19)).count(), 0);
        assert_eq!(unmeasured.released(began + ms(55)).count(), 1);
        let test = unmeasured.test.expect("it goes on");
        assert_eq!((test.held, test.judged_at), (ms(55), began + ms(155)));
    }

    #[test]
    fn who_has_less_together_than_before_does_not_share_a_link() {
        let host = IpAddr::from([10, 0, 0, 9]);
        let began = Time::from_secs(1);
        let shown = |rate| {
            let rtt = Duration::from_millis(PATH);
            Shown { rtt, shortest: rtt, rate, hosts: 2 }
        };
        for (rate, stays) in [(8_000_000, true), (6_000_000, false)] {
            let mut unmeasured = Unmeasured::default();
            unmeasured.join(began, Found { host, group: 7, began: Time::ZERO, rate: 10_000_000 }, 3);
            for ms in (0..4000).step_by(10) {
                // At first it is in disorder.
                let rate = if ms < 500 { 20_000_000 - rate } else { rate };
                unmeasured.on_round_trip(began + Duration::from_millis(ms), MEASURED, shown(rate));
            }
            let now = began + Duration::from_secs(4);
            assert_eq!(unmeasured.next_expired(now), (!stays).then_some(3), "{rate}");
            let asked = unmeasured.pairs.get(&(host, 7)).is_none_or(|pair| pair.evidence.is_open(now));
            assert_eq!(asked, stays, "nobody asks for a while");
        }
    }

    #[test]
    fn what_was_found_holds_twice_as_long_each_time() {
        let mut unmeasured = Unmeasured::default();
        let host = IpAddr::from([10, 0, 0, 9]);
        let mut now = Time::from_secs(1);
        for seconds in [60, 120, 240, 480, 960, 960] {
            let found = Found { host, group: 7, began: Time::ZERO, rate: 10_000_000 };
            assert_eq!(unmeasured.join(now, found, 3), None);
            assert!(unmeasured.is_joined(host));
            let until = now + Duration::from_secs(seconds);
            assert_eq!(unmeasured.deadline(), Some(until));
            assert_eq!(unmeasured.next_expired(until - BIN), None);
            assert_eq!(unmeasured.next_expired(until), Some(3));
            assert!(!unmeasured.is_joined(host));
            now = until;
        }
    }
}
