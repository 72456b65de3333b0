//! Who holds how much of the memory: what is on its way to a host waits for that host to read it.
//!
//! A host may hold as much as is still free (a dynamic threshold, Choudhury and Hahne 1998, with a factor of one). One that reads
//! nothing gets half of all memory, of two each gets a third, and there is always room for one more. Nothing has to be known of
//! how many there are. What exceeds the threshold when others come is given back by reading: nothing more is taken for it.
//!
//! One who has many addresses is many hosts. So the last eighth of the memory goes by reading, too: there a host may hold what it
//! has read within a second, and an eighth of what is free at most, or little. While that lasts, connections for whose end even this is
//! used up pass whole as soon as nothing of them is held (`Gateway::is_better_whole`).
use crate::gateway::Keyed;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use hashbrown::HashMap;
use shorthaul_types::Time;

/// What each flow of a host below its threshold may hold beside what it does: less would cost round trips.
const LEAST: u64 = 16 * 1024;
/// Of a small memory less than that is no shortage: than one of so many parts.
const LEAST_PART: u64 = 64;
/// What a host may hold of the reserve that reads nothing; and what a new flow finds at least, or it stays whole.
pub(crate) const LEAST_ROOM: u64 = 64 * 1024;
/// The reserve is one of so many parts of the memory.
const RESERVE: u64 = 8;
/// The memory that a byte takes at most, with packet buffers that are not full.
pub(crate) const MEMORY_PER_BYTE: u64 = 2;
/// A host of the reserve may hold what it has read within this time: more than a round trip of any path.
const READ_WITHIN: Duration = Duration::from_secs(1);
/// The share of a flow that has none.
pub(crate) const NO_SHARE: u32 = u32::MAX;

/// A host, on the access side or beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    pub on_access_side: bool,
    pub address: IpAddr,
}

/// The memory that there is, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Supply {
    pub now: Time,
    pub total: u64,
    pub free: u64,
}

impl Supply {
    /// Whether nothing but the reserve is left.
    pub fn is_down_to_the_reserve(&self) -> bool {
        self.free < self.total / RESERVE
    }
}

/// What a host has read, by periods of [`READ_WITHIN`].
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    since: Time,
    in_this: u64,
    in_last: u64,
}

impl Reading {
    fn at(mut self, now: Time) -> Reading {
        let passed = now.saturating_since(self.since);
        if passed >= READ_WITHIN {
            let in_last = if passed < 2 * READ_WITHIN { self.in_this } else { 0 };
            self = Reading { since: now, in_this: 0, in_last };
        }
        self
    }
}

/// What waits for one host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    holder: Holder,
    /// Flows that it is an end of.
    flows: u32,
    /// Of those, flows of which something waits for it.
    busy: u32,
    /// Memory that this takes, in bytes.
    held: u64,
    reading: Reading,
}

impl Share {
    /// Whether there is room for one more flow of the host.
    pub fn has_room_for_one(&self, supply: Supply) -> bool {
        self.held + LEAST_ROOM <= supply.free && !self.is_used_up(supply)
    }

    /// What may be held of a flow of which `own` bytes wait.
    pub fn window(&self, own: u64, supply: Supply) -> u64 {
        let left = self.left(supply);
        if left == 0 {
            return 0;
        }
        // Half of the memory of a buffer may be empty, so that what is held is at least half of it.
        own / 2 + (left / u64::from(self.busy.max(1))).max(LEAST.min(left))
    }

    /// What may be held beside what is.
    fn left(&self, supply: Supply) -> u64 {
        self.most(supply).saturating_sub(self.held)
    }

    fn most(&self, supply: Supply) -> u64 {
        if !supply.is_down_to_the_reserve() {
            return supply.free;
        }
        let Reading { in_this, in_last, .. } = self.reading.at(supply.now);
        // Who reads may stop to. So nobody has more of it than leaves as much to others, one after the other.
        let read = in_this.max(in_last).min(supply.free / RESERVE);
        supply.free.min(read.max(LEAST_ROOM))
    }

    /// Whether so little may be held that a flow would be slower split than whole.
    pub fn is_used_up(&self, supply: Supply) -> bool {
        self.left(supply) < LEAST.min(supply.total / LEAST_PART)
    }

    /// Whether more is held than may be.
    pub fn is_exceeded(&self, supply: Supply) -> bool {
        self.held > self.most(supply)
    }

    /// What is free of the memory for what comes for this host. It was offered before, perhaps when there was more: who holds more than it
    /// may leaves the reserve to others even so.
    pub fn room(&self, supply: Supply) -> u64 {
        let Supply { total, free, .. } = supply;
        if self.is_exceeded(supply) { free.saturating_sub(total / RESERVE) } else { free }
    }
}

/// All hosts of which there are flows.
#[derive(Debug)]
pub(crate) struct Shares {
    places: HashMap<Holder, u32, Keyed>,
    shares: Vec<Share>,
    free: Vec<u32>,
}

impl Shares {
    pub fn new(hash_seed: u64) -> Self {
        Shares { places: HashMap::with_hasher(Keyed(hash_seed)), shares: Vec::new(), free: Vec::new() }
    }

    /// A flow begins of which `holder` is an end; where its share is.
    pub fn join(&mut self, holder: Holder) -> u32 {
        let Shares { places, shares, free } = self;
        let place = *places.entry(holder).or_insert_with(|| {
            let share = Share { holder, flows: 0, busy: 0, held: 0, reading: Reading::default() };
            match free.pop() {
                Some(place) => {
                    shares[place as usize] = share;
                    place
                }
                None => {
                    shares.push(share);
                    shares.len() as u32 - 1
                }
            }
        });
        shares[place as usize].flows += 1;
        place
    }

    /// A flow is no more of which nothing waits.
    pub fn leave(&mut self, place: u32) {
        let Some(share) = self.shares.get_mut(place as usize) else { return };
        share.flows -= 1;
        if share.flows == 0 {
            self.places.remove(&share.holder);
            self.free.push(place);
        }
    }

    /// What waits of a flow has changed.
    pub fn book(&mut self, place: u32, before: usize, now: usize) {
        let Some(share) = self.shares.get_mut(place as usize) else { return };
        share.held = share.held + now as u64 - before as u64;
        share.busy = share.busy + u32::from(now > 0) - u32::from(before > 0);
    }

    /// A host has read so many bytes of what waited for it.
    pub fn note_read(&mut self, now: Time, place: u32, bytes: u64) {
        let Some(share) = self.shares.get_mut(place as usize) else { return };
        share.reading = share.reading.at(now);
        share.reading.in_this += MEMORY_PER_BYTE * bytes;
    }

    pub fn get(&self, place: u32) -> Option<&Share> {
        self.shares.get(place as usize)
    }

    /// How many flows a host is an end of.
    pub fn flows_of(&self, holder: Holder) -> u32 {
        self.places.get(&holder).map_or(0, |place| self.shares[*place as usize].flows)
    }

    /// What waits for a host, if there are flows that it is an end of.
    pub fn of(&self, holder: Holder) -> Option<&Share> {
        self.places.get(&holder).map(|place| &self.shares[*place as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(last: u8) -> Holder {
        Holder { on_access_side: true, address: IpAddr::from([10, 0, 0, last]) }
    }

    #[test]
    fn a_share_is_there_while_there_are_flows_and_places_are_used_again() {
        let mut shares = Shares::new(1);
        let (a, b) = (shares.join(holder(1)), shares.join(holder(2)));
        assert_eq!(shares.join(holder(1)), a);
        shares.book(a, 0, 100);
        shares.book(a, 100, 30);
        let held = |number| shares.of(holder(number)).map(|share| share.held);
        assert_eq!([1, 2, 3].map(held), [Some(30), Some(0), None]);
        shares.book(a, 30, 0);
        shares.leave(a);
        shares.leave(a);
        assert_eq!(shares.join(holder(3)), a);
        assert_ne!(a, b);
    }

    #[test]
    fn the_reserve_is_for_those_who_read() {
        let (total, second) = (64 << 20, Duration::from_secs(1));
        let mut shares = Shares::new(1);
        let place = shares.join(holder(1));
        let at = |seconds: u32| Supply { now: Time::ZERO + second * seconds, total, free: total / 10 };
        let most = |shares: &Shares, seconds| shares.get(place).unwrap().window(0, at(seconds));
        assert_eq!(most(&shares, 1), LEAST_ROOM, "who has read nothing");
        shares.note_read(at(1).now, place, 200_000);
        assert_eq!((most(&shares, 1), most(&shares, 2)), (400_000, 400_000), "who has read");
        assert_eq!(most(&shares, 3), LEAST_ROOM, "who has read no more since");
        shares.note_read(at(3).now, place, 1 << 30);
        assert_eq!(most(&shares, 3), total / 80, "nobody has all of it");
        shares.book(place, 0, 1 << 20);
        let share = shares.get(place).unwrap();
        assert_eq!((share.window(0, at(3)), share.room(at(3)), share.is_used_up(at(3))), (0, 0, true));
        let plenty = Supply { free: total / 4, ..at(3) };
        assert_eq!((share.window(0, plenty), share.is_used_up(plenty)), ((15 << 20), false));
    }

    /// They read as much as they like for a second, take what they may, and read nothing any more.
    #[test]
    fn who_reads_and_stops_leaves_something_of_the_reserve() {
        let (total, now) = (512 << 20, Time::from_secs(1));
        let mut shares = Shares::new(1);
        let mut free = total / RESERVE - 1;
        for number in 0..30 {
            let place = shares.join(holder(number));
            shares.note_read(now, place, total);
            let taken = shares.get(place).unwrap().window(0, Supply { now, total, free });
            shares.book(place, 0, taken as usize);
            free -= taken;
        }
        let place = shares.join(holder(99));
        assert!(shares.get(place).unwrap().window(0, Supply { now, total, free }) == LEAST_ROOM, "{free}");
        assert!(free >= 1 << 20, "{free}");
    }

    #[test]
    fn a_small_memory_is_no_shortage() {
        let mut shares = Shares::new(1);
        let place = shares.join(holder(1));
        let is_used_up = |free| {
            let supply = Supply { now: Time::ZERO, total: LEAST_ROOM, free };
            shares.get(place).unwrap().is_used_up(supply)
        };
        assert_eq!([4096, 1024, 1000].map(is_used_up), [false, false, true]);
    }

    #[test]
    fn whoever_reads_nothing_leaves_as_much_as_it_has() {
        let memory = 1 << 30;
        for greedy in [1, 2, 5, 100] {
            let mut shares = Shares::new(1);
            let places: Vec<_> = (0..greedy).map(|i| shares.join(holder(i))).collect();
            let mut held = 0;
            for _ in 0..200_000 {
                for place in &places {
                    let share = shares.get(*place).unwrap();
                    let supply = Supply { now: Time::ZERO, total: 0, free: memory - held };
                    let (own, window) = (share.held, share.window(share.held, supply));
                    let more = window.saturating_sub(own).min(65_536);
                    shares.book(*place, own as usize, (own + more) as usize);
                    held += more;
                }
            }
            let free = memory - held;
            assert!(free >= memory / (u64::from(greedy) + 2), "{greedy} of them leave {free} bytes");
            // Full buffers count half, so that each takes two thirds of what is free.
            let expected = memory * 3 / (2 * u64::from(greedy) + 3);
            assert!(free <= expected + memory / 100, "{greedy} of them leave {free} bytes");
        }
    }
}
