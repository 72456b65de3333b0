use core::time::Duration;
use shorthaul_types::{Blank, Time, keeps};

/// After this many RTOs in a row, segments shrink to this many bytes: full-size ones may be what does not pass, and the error
/// that says so may not reach us (RFC 2923 §2.1, RFC 4821). The first size fits every IPv6 path with timestamps, the
/// second every IPv4 host.
const BLACK_HOLE: [(u32, u32); 2] = [(3, 1_208), (6, 536)];

/// How long a path MTU holds that a router told: routes change (RFC 8201 §4 and §5.3).
const PATH_MTU_LIFETIME: Duration = Duration::from_secs(600);

/// How much payload a segment carries: what the peer takes, or less where the path does not.
#[derive(Debug)]
pub(super) struct SegmentSize {
    mss: u32,
    told: Option<PathMtu>,
    black_hole_probing: bool,
}

/// A router has told of a smaller path MTU.
#[derive(Clone, Copy, Debug)]
struct PathMtu {
    /// What the peer takes, in bytes of payload.
    full: u32,
    until: Time,
}

keeps!(SegmentSize { mss, told });
keeps!(PathMtu { full, until });

impl Blank for PathMtu {
    fn blank() -> Self {
        PathMtu { full: 0, until: Time::ZERO }
    }
}

impl SegmentSize {
    /// The size that the peer takes.
    pub fn new(mss: u32, black_hole_probing: bool) -> Self {
        SegmentSize { mss, told: None, black_hole_probing }
    }

    /// Payload bytes of a full segment.
    pub fn mss(&self) -> u32 {
        self.mss
    }

    /// The same, to count with.
    pub fn bytes(&self) -> u64 {
        u64::from(self.mss)
    }

    /// The path takes segments of `mss` bytes only (RFC 8201). Returns whether that is less than before.
    pub fn reduce(&mut self, now: Time, mss: u32) -> bool {
        if mss >= self.mss {
            return false;
        }
        let full = self.told.map_or(self.mss, |told| told.full);
        self.told = Some(PathMtu { full, until: now + PATH_MTU_LIFETIME });
        self.mss = mss;
        true
    }

    /// Tries the full size again, when what was told of the path has aged. Returns whether it does.
    pub fn restore(&mut self, now: Time) -> bool {
        let Some(told) = self.told.take_if(|told| told.until <= now) else { return false };
        self.mss = told.full;
        true
    }

    /// There were `timeouts` RTOs in a row: tries a smaller size after several. Returns whether it does.
    pub fn probe_black_hole(&mut self, timeouts: u32) -> bool {
        let size = BLACK_HOLE.iter().find(|(after, _)| *after == timeouts).map(|(_, size)| *size);
        let Some(size) = size.filter(|size| self.black_hole_probing && *size < self.mss) else {
            return false;
        };
        self.told = None; // nobody tells of a black hole: to try again would cost these timeouts again
        self.mss = size;
        true
    }

    /// Whether nothing of full size ever arrived, of `delivered` bytes that did, and smaller sizes are left to be tried.
    pub fn is_untried(&self, timeouts: u32, delivered: u64) -> bool {
        delivered < self.bytes() && timeouts < last_try()
    }
}

/// How many RTOs in a row there are when the last size is tried.
pub(super) fn last_try() -> u32 {
    BLACK_HOLE.iter().map(|(after, _)| *after).max().unwrap_or(0)
}
