//! How a host's memory is shared out among its connections: what may be promised, and what is taken.
use super::{AggregateConfig, Host, MEMORY_PER_BYTE, Member};

/// So many connections a host is expected to have.
const EXPECTED: usize = 8;

impl Host {
    /// The largest window that a connection's sender can be offered, counted from what has left: for that, and for what is on
    /// its way to the mobile host, there is memory.
    pub(super) fn most_for(&self, member: &Member, mss: u32, config: &AggregateConfig) -> u64 {
        self.most_beside(self.promised - member.promised, member.in_flight, mss, config)
    }

    /// The same, where the others were promised so much memory: a connection can be promised twice what is left then, so that
    /// whoever comes later finds a part that is half of any other's (a dynamic threshold, Choudhury and Hahne 1998).
    pub(super) fn most_beside(&self, others: u64, in_flight: u64, mss: u32, config: &AggregateConfig) -> u64 {
        let part = config.host_buffer.0.saturating_sub(others) / 3 * 2 / MEMORY_PER_BYTE;
        // So much has everybody: a window that closes before anything was sent would never be opened again.
        let least = (2 * u64::from(mss)).min(self.half(config).1 / MEMORY_PER_BYTE);
        part.saturating_sub(in_flight).max(least)
    }

    /// Memory that is left for what a connection sends, in bytes. What we invited is taken. Of what the mobile host itself had
    /// invited, before we did, half of the memory takes what comes first, and of the other half each has its part, so
    /// that those whose peers do not read leave something to the others. Nobody has more than is there, but for a segment, which
    /// everybody may have.
    pub fn room_for(&self, member: &Member, config: &AggregateConfig) -> u64 {
        let (all, own) = (self.held as u64, member.held as u64);
        let (half, part) = self.half(config);
        let promised = if member.invited { member.promised.saturating_sub(own) } else { 0 };
        let room = promised.max(half.saturating_sub(all)).max(part.saturating_sub(own));
        let segment = if own == 0 { MEMORY_PER_BYTE * u64::from(self.mss) } else { 0 };
        room.min(config.host_buffer.0.saturating_sub(all)).max(segment)
    }

    /// Half of a host's memory, and the part that each connection has of that: no more than if there were some others, which
    /// may still come.
    fn half(&self, config: &AggregateConfig) -> (u64, u64) {
        let half = config.host_buffer.0 / 2;
        (half, half / self.members.len().max(EXPECTED) as u64)
    }

    /// Memory held for it, in bytes.
    pub fn held(&self) -> usize {
        self.held
    }
}
