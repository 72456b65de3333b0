//! What sessions to one destination, or to its neighbours, have shown.
use crate::route::Endpoint;
use shorthaul_planner::ways::{Learning, Ways};
use shorthaul_types::{Bytes, Time};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

/// Of so many sessions the middle one's size is predicted.
pub(super) const SIZES: usize = 16;
/// Ways to a destination that are known at the same time.
pub(super) const WAYS: usize = 64;

/// A number of which the least counts, and which is believed to have risen after a while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Least(f64);

impl Least {
    pub fn add(known: &mut Option<Least>, seen: f64) {
        let least = match *known {
            Some(Least(least)) if seen > least => least + (seen - least) / 8.0,
            _ => seen,
        };
        *known = Some(Least(least));
    }

    pub fn time(self) -> Duration {
        Duration::from_secs_f64(self.0)
    }
}

/// Sizes of the latest sessions.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes(VecDeque<u64>);

impl Sizes {
    pub fn add(&mut self, size: Bytes) {
        self.0.truncate(SIZES - 1);
        self.0.push_front(size.0);
    }

    pub fn middle(&self) -> Option<Bytes> {
        let mut sorted: Vec<u64> = self.0.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().map(Bytes)
    }

    pub fn iter(&self) -> impl Iterator<Item = Bytes> {
        self.0.iter().copied().map(Bytes)
    }
}

/// Destinations that are near each other: a /24 or /48, or a name.
#[derive(Debug)]
pub(super) struct Place {
    /// Number 0 is the direct one.
    pub ways: Vec<Vec<Endpoint>>,
    pub known: Ways,
    pub round_trip: Option<Least>,
    /// What sessions to it carried.
    pub sizes: Sizes,
    /// Of each way, the legs behind the first.
    pub far: Vec<Vec<Option<Least>>>,
    pub used: Time,
}

impl Place {
    pub fn new(learning: Learning) -> Place {
        Place {
            ways: vec![Vec::new()],
            known: Ways::new(learning, 1),
            round_trip: None,
            sizes: Sizes::default(),
            far: vec![Vec::new()],
            used: Time::ZERO,
        }
    }

    /// The number of a way; one that has none gets one, as long as there are not too many.
    pub fn number(&mut self, hops: &[Endpoint]) -> Option<usize> {
        let known = self.ways.iter().position(|way| way == hops);
        known.or_else(|| {
            (self.ways.len() < WAYS).then(|| {
                self.ways.push(hops.to_vec());
                self.far.push(vec![None; hops.len()]);
                self.ways.len() - 1
            })
        })
    }
}

/// What is known of one address is believed of its neighbours.
pub(super) fn place_of(destination: &Endpoint) -> String {
    match destination.address().map(|address| address.ip().to_canonical()) {
        Some(IpAddr::V4(ip)) => {
            let [a, b, c, _] = ip.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        Some(IpAddr::V6(ip)) => {
            let [a, b, c, ..] = ip.segments();
            format!("{a:x}:{b:x}:{c:x}::/48")
        }
        None => destination.host().to_owned(),
    }
}
