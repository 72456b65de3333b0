//! Where the gateway and hosts meet of which nothing is measured.
use super::Gateway;
use crate::unsplit::{Found, Shown, Traffic};
use core::time::Duration;
use shorthaul_types::Time;
use shorthaul_wire::Packet;

impl Gateway {
    /// A packet passes whose host has no part in what a group measures: at once, or when it is seen whose queue became shorter without it.
    pub(super) fn pass_unmeasured(&mut self, now: Time, packet: Packet) -> Option<Packet> {
        let host = self.access.prefix_of(packet.ip.dst());
        self.unmeasured.on_packet(now, host, packet)
    }

    /// What was held leaves when it is time, and so does a host a group, of which it was found to be.
    pub(super) fn serve_unmeasured(&mut self, now: Time) {
        let Gateway { unmeasured, passing, counters, .. } = self;
        for packet in unmeasured.released(now) {
            counters.bytes_untouched += packet.wire_len() as u64;
            passing.push((Gateway::ACCESS, packet));
        }
        while let Some(host) = self.unmeasured.next_expired(now) {
            self.part_unmeasured(now, host);
        }
    }

    /// A group measured this round trip.
    pub(super) fn look_at_unmeasured(&mut self, now: Time, group: u32, rtt: Duration) {
        if self.config.traffic != Traffic::All {
            return;
        }
        let Some(aggregate) = self.access.aggregate(group) else { return };
        let Some((shortest, rate)) = aggregate.window.path() else { return };
        let shown = Shown { rtt, shortest, rate, hosts: aggregate.parts.len() };
        if let Some(found) = self.unmeasured.on_round_trip(now, (group, aggregate.since), shown) {
            self.join_unmeasured(now, found);
        }
    }

    /// A host of which nothing is measured is served with a group whose queue it was found to share.
    fn join_unmeasured(&mut self, now: Time, found: Found) {
        let Found { host: address, group: into, .. } = found;
        let policies = &self.config.policies[..self.in_force];
        let Some(aggregated) = policies.iter().position(|policy| policy.aggregate.is_some()) else { return };
        // The group may have become part of another one since it was last heard of.
        if !self.access.is_free(into) || self.access.aggregate(into).is_none() {
            return;
        }
        let host = self.access.join(now, address, aggregated as u16);
        let from = self.access.group_of(host).filter(|from| self.access.is_free(*from));
        let Some(from) = from.filter(|from| *from != into) else { return self.access.leave(now, host) };
        self.move_to(now, host, into);
        self.access.remove_group_if_empty(from);
        if let Some(aggregate) = self.access.aggregate_mut(into) {
            aggregate.make_room();
        }
        self.counters.bottlenecks_found += 1;
        if let Some(gone) = self.unmeasured.join(now, found, host) {
            self.part_unmeasured(now, gone);
        }
        self.access.wake(into);
        self.access.arm(into);
    }

    /// What was found of a host is not taken for granted any more. If nothing of it is measured by now, it passes as it comes again, until it is found
    /// again.
    fn part_unmeasured(&mut self, now: Time, host: u32) {
        let Some(known) = self.access.host(host) else { return };
        if known.members.is_empty() {
            let group = known.group;
            let Gateway { unsplit, passing, counters, .. } = self;
            unsplit.release(
                |of| of == host,
                |packet| {
                    counters.bytes_untouched += packet.wire_len() as u64;
                    passing.push((Gateway::ACCESS, packet));
                },
            );
            let own = self.access.new_group();
            self.move_to(now, host, own);
            self.access.wake(group);
            self.access.arm(group);
        }
        self.access.leave(now, host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::AggregateConfig;
    use crate::{GatewayConfig, Policy};
    use alloc::sync::Arc;

    fn gateway() -> Gateway {
        let policy = Policy { aggregate: Some(Arc::new(AggregateConfig::default())), ..Policy::default() };
        Gateway::new(GatewayConfig { traffic: Traffic::All, ..GatewayConfig::of(policy) })
    }

    /// A host with a group of its own that serves it.
    fn served(gateway: &mut Gateway, now: Time) -> u32 {
        let host = gateway.access.join(now, [10, 0, 0, 1].into(), 0);
        gateway.access.aggregate_for(now, host, 1448, &Arc::default());
        gateway.access.group_of(host).unwrap()
    }

    #[test]
    fn a_host_is_of_a_group_for_as_long_as_that_holds_and_leaves_nothing_there() {
        let (mut gateway, now) = (gateway(), Time::from_secs(1));
        let group = served(&mut gateway, now);
        let window = |gateway: &Gateway| gateway.access.aggregate(group).unwrap().window();
        let before = window(&gateway);
        gateway.join_unmeasured(now, Found::of([10, 0, 0, 9].into(), group));
        assert_eq!(gateway.access.hosts_of(group).len(), 2);
        assert!(window(&gateway) > before, "there is room for it");
        assert_eq!(gateway.counters.bottlenecks_found, 1);
        // It has a part of what the group has, as soon as something of it waits.
        let host = gateway.access.hosts_of(group)[1];
        let served = gateway.access.served(host).unwrap();
        served.host.part_in(now, served.aggregate);
        let parts = |gateway: &Gateway| gateway.access.aggregate(group).unwrap().parts.len();
        assert_eq!(parts(&gateway), 1);
        gateway.serve_unmeasured(now + Duration::from_secs(61));
        assert_eq!(gateway.access.hosts_of(group).len(), 1);
        assert_eq!(parts(&gateway), 0, "its part is gone as well");
        assert!(gateway.access.find([10, 0, 0, 9].into()).is_none(), "nothing is known of it any more");
    }

    #[test]
    fn nobody_joins_a_group_that_is_no_more() {
        let (mut gateway, now) = (gateway(), Time::from_secs(1));
        let group = served(&mut gateway, now);
        gateway.join_unmeasured(now, Found::of([10, 0, 0, 9].into(), group + 7));
        assert!(gateway.access.find([10, 0, 0, 9].into()).is_none());
        assert_eq!(gateway.counters.bottlenecks_found, 0);
    }
}
