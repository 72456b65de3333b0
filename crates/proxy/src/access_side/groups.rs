//! The groups of hosts that share a bottleneck, and their timers.
use super::{AccessSide, Common, Group};
use crate::aggregate::{Aggregate, AggregateConfig};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use shorthaul_types::Time;

impl AccessSide {
    /// The group of a host.
    pub fn group_of(&self, host: u32) -> Option<u32> {
        self.host(host).map(|host| host.group)
    }

    pub fn group_mut(&mut self, group: u32) -> Option<&mut Group> {
        self.groups.get_mut(group as usize)
    }

    /// What serves the aggregated flows of a group.
    pub fn aggregate(&self, group: u32) -> Option<&Aggregate> {
        self.groups.get(group as usize)?.aggregate.as_deref()
    }

    /// The same, to change.
    pub fn aggregate_mut(&mut self, group: u32) -> Option<&mut Aggregate> {
        self.groups.get_mut(group as usize)?.aggregate.as_deref_mut()
    }

    /// The slots of the aggregated flows of a group.
    pub fn members_of(&self, group: u32) -> Vec<u32> {
        let hosts = self.groups.get(group as usize).into_iter().flat_map(|group| &group.hosts);
        hosts.filter_map(|host| self.host(*host)).flat_map(|host| host.members.all()).copied().collect()
    }

    /// The group of hosts that have this in common, or a new one for a host by itself.
    pub(super) fn group_for(&mut self, common: Option<Common>) -> u32 {
        if let Some(&group) = common.and_then(|common| self.shared.get(&common)) {
            return group;
        }
        let group =
            Group { common, hosts: Vec::new(), link: None, aggregate: None, ready: false, armed: None };
        let group = self.groups.insert(group) as u32;
        if let Some(common) = common {
            self.shared.insert(common, group);
        }
        group
    }

    /// Whether the hosts of a group were not said to belong together, nor by themselves.
    pub fn is_free(&self, group: u32) -> bool {
        self.groups.get(group as usize).is_some_and(|group| group.common.is_none() && group.link.is_none())
    }

    /// The hosts of a group.
    pub fn hosts_of(&self, group: u32) -> &[u32] {
        self.groups.get(group as usize).map_or(&[], |group| &group.hosts)
    }

    /// A group without hosts.
    pub fn new_group(&mut self) -> u32 {
        self.group_for(None)
    }

    /// A group begins to serve hosts, with segments of `mss` bytes.
    pub fn begin_aggregate(&mut self, now: Time, group: u32, mss: u32, config: &Arc<AggregateConfig>) {
        if let Some(group) = self.groups.get_mut(group as usize) {
            group.aggregate = Some(Box::new(Aggregate::new(now, mss, Arc::clone(config))));
        }
    }

    /// A host belongs to another group from now on. Its connections are the caller's to move.
    pub fn move_host(&mut self, now: Time, host: u32, into: u32) {
        let Some(known) = self.hosts.get_mut(host as usize) else { return };
        let (from, in_group, part) = (known.group, known.in_group, known.part.take());
        known.group = into;
        let known = &mut self.groups[from as usize];
        known.hosts.swap_remove(in_group);
        if let Some(moved) = known.hosts.get(in_group) {
            self.hosts[*moved as usize].in_group = in_group;
        }
        let hosts = &mut self.groups[into as usize].hosts;
        self.hosts[host as usize].in_group = hosts.len();
        hosts.push(host);
        let Some((former, next)) = self.groups.get2_mut(from as usize, into as usize) else { return };
        let (Some(former), Some(part)) = (&mut former.aggregate, part) else { return };
        if let Some(next) = &mut next.aggregate {
            let new = self.hosts[host as usize].part_in(now, next);
            next.parts.take_over(new, &former.parts, part);
        }
        former.parts.remove(part);
    }

    /// Forgets a group that has no hosts any more.
    pub fn remove_group_if_empty(&mut self, group: u32) {
        if self.groups.get(group as usize).is_some_and(|group| group.hosts.is_empty()) {
            self.groups.remove(group as usize);
        }
    }

    /// The group may have something to send.
    pub fn wake(&mut self, index: u32) {
        if let Some(group) = self.groups.get_mut(index as usize)
            && !core::mem::replace(&mut group.ready, true)
        {
            self.ready.push_back(index);
        }
    }

    /// Puts the next deadline of a group into the heap.
    pub fn arm(&mut self, index: u32) {
        if let Some(group) = self.groups.get_mut(index as usize)
            && let Some(at) = group.aggregate.as_ref().and_then(|aggregate| aggregate.deadline())
            && group.armed.is_none_or(|armed| at < armed)
        {
            group.armed = Some(at);
            self.timers.arm(index, at);
        }
    }

    /// The next group whose deadline has passed.
    pub fn pop_due(&mut self, now: Time) -> Option<u32> {
        while let Some((at, index)) = self.timers.pop_due(now) {
            let Some(group) = self.groups.get_mut(index as usize) else { continue };
            if group.armed != Some(at) {
                continue;
            }
            group.armed = None;
            let deadline = group.aggregate.as_ref().and_then(|aggregate| aggregate.deadline());
            if deadline.is_some_and(|at| at <= now) {
                return Some(index);
            }
            self.arm(index);
        }
        None
    }
}
