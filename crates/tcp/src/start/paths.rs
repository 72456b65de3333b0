use super::PathMemory;
use alloc::collections::BTreeMap;
use core::net::IpAddr;

/// So many hosts are remembered; what was noted first goes first.
const HOSTS: usize = 1024;

/// What ended connections of a host knew of their paths, by the address of the other end (RFC 9040). It does not grow old: whoever begins
/// by it has to find out whether it is still true.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    known: BTreeMap<IpAddr, (u64, PathMemory)>,
    noted: u64,
}

impl Paths {
    /// What the last connection that ended knew of the path to this host.
    pub fn to(&self, host: IpAddr) -> Option<PathMemory> {
        self.known.get(&host).map(|(_, memory)| *memory)
    }

    /// A connection to this host has ended.
    pub fn note(&mut self, host: IpAddr, memory: PathMemory) {
        self.noted += 1;
        self.known.insert(host, (self.noted, memory));
        if self.known.len() > HOSTS {
            let first = self.known.iter().min_by_key(|(_, (noted, _))| *noted).map(|(host, _)| *host);
            first.map(|host| self.known.remove(&host));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use core::time::Duration;
    use shorthaul_congestion::KnownRtt;

    fn memory(window: u64) -> PathMemory {
        let rtt = KnownRtt { srtt: Duration::ZERO, rttvar: Duration::ZERO, min: Duration::ZERO };
        PathMemory { window, ssthresh: u64::MAX, in_slow_start: true, rtt }
    }

    #[test]
    fn the_last_of_each_host_is_known_and_the_oldest_of_too_many_is_not() {
        let host = |number: usize| IpAddr::V4(Ipv4Addr::from(number as u32));
        let window = |paths: &Paths, number| paths.to(host(number)).map(|memory| memory.window);
        let mut paths = Paths::default();
        (0..HOSTS).for_each(|number| paths.note(host(number), memory(1)));
        paths.note(host(0), memory(2));
        assert_eq!((window(&paths, 0), window(&paths, 1)), (Some(2), Some(1)));
        paths.note(host(HOSTS), memory(3));
        assert_eq!((window(&paths, 0), window(&paths, 1)), (Some(2), None), "0 was noted again since");
        assert_eq!((window(&paths, HOSTS), paths.known.len()), (Some(3), HOSTS));
    }
}
