//! Hosts that are found to share a bottleneck are served together, and by themselves again where that was wrong.
use super::Gateway;
use crate::shared_bottleneck::Finding;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use shorthaul_types::Time;

impl Gateway {
    /// A connection of a host in a group measured a round trip, if it did. What is found out by that is done. Returns the group that the connection is of now.
    pub(super) fn look_for_sharing(
        &mut self,
        now: Time,
        (host, group): (u32, u32),
        measured: Option<Duration>,
    ) -> u32 {
        let (Some(rtt), Some(aggregate)) = (measured, self.access.aggregate(group)) else { return group };
        if !aggregate.config.find_bottlenecks || !self.access.is_free(group) {
            return group;
        }
        match self.detector.on_round_trip(now, (group, aggregate.since), rtt) {
            Some(Finding::Hold { group: held, until }) => {
                if let Some(aggregate) = self.access.aggregate_mut(held) {
                    aggregate.hold(until);
                }
            }
            Some(Finding::Shared { into, from }) => {
                self.merge(now, into, from);
                return if group == from { into } else { group };
            }
            None => {}
        }
        self.split_off(now, host, group).unwrap_or(group)
    }

    /// What belongs to one group belongs to another from now on.
    fn merge(&mut self, now: Time, into: u32, from: u32) {
        let (Some(former), true) = (self.access.aggregate(from), self.access.is_free(into)) else { return };
        let (window, rtt) = (former.window(), former.rtt.clone());
        let hosts = self.access.hosts_of(from).to_vec();
        let Some(aggregate) = self.access.aggregate_mut(into) else { return };
        let window = window + aggregate.window();
        aggregate.on_merge(&rtt, window);
        for host in hosts {
            self.move_to(now, host, into);
        }
        self.access.remove_group_if_empty(from);
        self.counters.bottlenecks_found += 1;
        self.access.wake(into);
        self.access.arm(into);
    }

    /// A host that waits in another queue than the others of its group has a group of its own again. Returns which, if one has.
    fn split_off(&mut self, now: Time, host: u32, group: u32) -> Option<u32> {
        let part = self.access.host(host)?.part?;
        if !self.access.aggregate_mut(group)?.parts.differs(now, part) {
            return None;
        }
        let aggregate = self.access.aggregate(group)?;
        let (config, mss, rtt) = (Arc::clone(&aggregate.config), aggregate.mss, aggregate.rtt.clone());
        let window = aggregate.window() / self.access.hosts_of(group).len() as u64;
        let own = self.access.new_group();
        self.access.begin_aggregate(now, own, mss, &config);
        self.access.aggregate_mut(own)?.on_merge(&rtt, window);
        self.move_to(now, host, own);
        self.detector.on_apart(now, group, own);
        self.counters.bottlenecks_parted += 1;
        for group in [group, own] {
            self.access.wake(group);
            self.access.arm(group);
        }
        Some(own)
    }

    /// A host, and all that is served of it, belongs to another group from now on.
    fn move_to(&mut self, now: Time, host: u32, into: u32) {
        let members = self.access.host(host).map(|host| host.members.all().to_vec()).unwrap_or_default();
        let mut were_active = Vec::with_capacity(members.len());
        for &index in &members {
            let Gateway { access, table, .. } = self;
            let active = table.aggregated(index).zip(access.served(host)).map(|((_, member), served)| {
                let active = member.is_active();
                served.aggregate.on_leave(now, member);
                active
            });
            were_active.push(active.unwrap_or(false));
        }
        self.access.move_host(now, host, into);
        for (&index, active) in members.iter().zip(were_active) {
            let Gateway { access, table, .. } = self;
            let Some((flow, member)) = table.aggregated(index) else { continue };
            let Some(served) = access.served(host) else { continue };
            let part = served.host.part_in(now, served.aggregate);
            let class = served.aggregate.config.class_of(flow.ports(), flow.managed_dscp());
            let Some(sender) = flow.managed_sender() else { continue };
            served.aggregate.on_move(now, member, part, sender, active);
            if sender.has_backlog() && !member.is_silent() {
                served.aggregate.wait(index, member, class);
            }
        }
        // What is not split and waits has a turn in the new group.
        for queue in self.unsplit.waiting_of(host) {
            if let Some(known) = self.unsplit.get_mut(queue) {
                known.waiting = false;
            }
            self.await_turn(now, queue);
        }
    }
}
