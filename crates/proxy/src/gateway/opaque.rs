//! Packets that are not read as they come: pieces of segments, and what no flow of ours can be in.
use super::Gateway;
use crate::fragments::Joined;
use shorthaul_types::{PortId, Time};
use shorthaul_wire::{Packet, TcpFlags, Transport};

impl Gateway {
    /// A piece of a TCP segment. It is looked into once the others are there, for nothing else says which flow it is of.
    pub(super) fn handle_fragment(&mut self, now: Time, port: PortId, packet: Packet) {
        if self.table.len() == 0 {
            self.counters.count_reason("passed-fragment"); // there is no flow that it could be of
            return self.forward(port, packet);
        }
        let free = self.free_memory();
        let joined = self.fragments.add(now, port, packet, free);
        for _ in 0..self.fragments.take_evicted() {
            self.counters.count_reason("fragment-evicted");
        }
        match joined {
            Joined::Waiting => {}
            Joined::Dropped(reason) => self.counters.count_reason(reason),
            Joined::Whole(Ok(packet), fragments) => {
                let known = packet.flow().and_then(|key| self.table.find(key)).is_some();
                let opens =
                    packet.as_tcp().is_some_and(|segment| segment.header.flags.contains(TcpFlags::SYN));
                if known && !opens {
                    self.counters.segments_reassembled += 1;
                    return self.handle_tcp(now, port, packet);
                }
                for fragment in fragments {
                    self.counters.count_reason("passed-fragment");
                    self.forward(port, fragment);
                }
            }
            Joined::Whole(Err(reason), _) => self.counters.count_reason(reason.as_str()),
        }
    }

    /// Pieces whose others never came are forgotten.
    pub(super) fn expire_fragments(&mut self, now: Time) {
        for _ in 0..self.fragments.expire(now) {
            self.counters.count_reason("fragment-incomplete");
        }
    }

    /// What cannot be of a flow that is split passes, and is counted.
    pub(super) fn pass_unseen(&mut self, port: PortId, packet: Packet) {
        self.counters.count_reason(match &packet.transport {
            Transport::Udp { .. } => "passed-udp",
            Transport::Opaque { protocol, .. } => match protocol {
                0 | 43 | 44 | 60 => "passed-extension-headers",
                1 | 58 => "passed-icmp",
                17 => "passed-udp",
                50 | 51 => "passed-ipsec",
                _ => "passed-other-protocol",
            },
            _ => "passed-unread",
        });
        self.forward(port, packet);
    }
}
