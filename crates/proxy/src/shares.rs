//! Who holds how much of the memory: what is on its way to a host waits for that host to read it.
//!
//! A host may hold as much as is still free (a dynamic threshold, Choudhury and Hahne 1998, with a factor of one). One that reads
//! nothing gets half of all memory, of two each gets a third, and there is always room for one more. Nothing has to be known of
//! how many there are. What exceeds the threshold when others come is given back by reading: nothing more is taken for it.
use crate::gateway::Keyed;
use alloc::vec::Vec;
use core::net::IpAddr;
use hashbrown::HashMap;

/// What each flow of a host below its threshold may hold beside what it does: less would cost round trips.
const LEAST: u64 = 16 * 1024;
/// The share of a flow that has none.
pub(crate) const NO_SHARE: u32 = u32::MAX;

/// A host, on the access side or beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    pub on_access_side: bool,
    pub address: IpAddr,
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
    pub held: u64,
}

impl Share {
    /// What may be held of a flow of which `own` bytes wait, where `free` bytes of memory are.
    pub fn window(&self, own: u64, free: u64) -> u64 {
        let left = free.saturating_sub(self.held);
        if left == 0 {
            return 0;
        }
        // Half of the memory of a buffer may be empty, so that what is held is at least half of it.
        own / 2 + (left / u64::from(self.busy.max(1))).max(LEAST.min(left))
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
            let share = Share { holder, flows: 0, busy: 0, held: 0 };
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

    pub fn get(&self, place: u32) -> Option<&Share> {
        self.shares.get(place as usize)
    }

    /// How many flows a host is an end of.
    pub fn flows_of(&self, holder: Holder) -> u32 {
        self.places.get(&holder).map_or(0, |place| self.shares[*place as usize].flows)
    }

    /// What waits for a host.
    pub fn held_by(&self, holder: Holder) -> u64 {
        self.places.get(&holder).map_or(0, |place| self.shares[*place as usize].held)
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
        assert_eq!((shares.held_by(holder(1)), shares.held_by(holder(2))), (30, 0));
        shares.book(a, 30, 0);
        shares.leave(a);
        shares.leave(a);
        assert_eq!(shares.join(holder(3)), a);
        assert_ne!(a, b);
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
                    let (own, window) = (share.held, share.window(share.held, memory - held));
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
