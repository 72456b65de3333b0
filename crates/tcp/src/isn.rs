use crate::Addresses;
use core::hash::{BuildHasher, Hash, Hasher};
use core::net::IpAddr;
use shorthaul_types::{Seed, SeqNum, Time};
use siphasher::sip::SipHasher24;

/// What a host keeps secret, and what it draws from it so that nobody can guess: initial sequence
/// numbers (RFC 6528), timestamps (RFC 7323 §5.4), ports (RFC 6056) and the hash of its table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Secret(Seed);

impl Secret {
    pub(crate) fn new(seed: Seed) -> Self {
        Secret(seed)
    }

    fn hash(&self, purpose: &str, path: &Addresses) -> u64 {
        let mut hasher = self.keyed(purpose).build_hasher();
        for end in [path.local, path.remote] {
            match end.ip() {
                IpAddr::V4(ip) => ip.octets().hash(&mut hasher),
                IpAddr::V6(ip) => ip.octets().hash(&mut hasher),
            }
            end.port().hash(&mut hasher);
        }
        hasher.finish()
    }

    /// RFC 6528 §3: a clock of 4 µs ticks, plus a secret function of the two ends.
    pub(crate) fn isn(&self, now: Time, path: &Addresses) -> SeqNum {
        SeqNum(self.hash("isn", path) as u32) + (now.as_nanos() / 4_000) as u32
    }

    /// Constant for one pair of ends, so that timestamps go on where an earlier connection of
    /// theirs left off.
    pub(crate) fn timestamp_offset(&self, path: &Addresses) -> u32 {
        self.hash("timestamps", path) as u32
    }

    /// Where the search for a free port begins, for one peer (RFC 6056 §3.3.3).
    pub(crate) fn port_offset(&self, path: &Addresses) -> u16 {
        self.hash("ports", path) as u16
    }

    /// The hasher of a table that strangers fill.
    pub(crate) fn keyed(&self, purpose: &str) -> Keyed {
        let seed = self.0.derive(purpose);
        Keyed(seed.nth(0).0, seed.nth(1).0)
    }
}

/// SipHash under a secret key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keyed(u64, u64);

impl BuildHasher for Keyed {
    type Hasher = SipHasher24;
    fn build_hasher(&self) -> SipHasher24 {
        SipHasher24::new_with_keys(self.0, self.1)
    }
}
