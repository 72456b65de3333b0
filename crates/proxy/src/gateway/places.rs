//! How flows come to their places at the access side, and leave them.
use super::Gateway;
use super::table::{Entry, Phase};
use crate::access_side::Place;
use crate::aggregate::Joining;
use crate::path_tail::LinkUser;
use alloc::boxed::Box;
use shorthaul_types::Time;

impl Gateway {
    /// A flow was split: it takes its place, if its policy needs one.
    pub(super) fn take_place(&mut self, now: Time, index: u32) {
        let number = self.counters.flows_split; // unlike that of any other
        let Gateway { config, access, links, table, .. } = self;
        let Some(Entry { phase: Phase::Split(flow), place, policy, .. }) = table.get_mut(index) else {
            return;
        };
        let policy_index = usize::from(*policy);
        let policy = &config.policies[policy_index];
        let links = links[policy_index].as_mut();
        let (follows_queue, aggregate) = (policy.senders.follows_host_queue(), policy.aggregate.as_ref());
        if links.is_none() && !follows_queue && aggregate.is_none() {
            return;
        }
        let Some(side) = flow.access_side() else { return };
        let address = flow.address_of(side);
        let delivered = flow.delivered_to(side);
        let host = access.join(now, address);
        let link = links.map(|links| links.join(now, &LinkUser { host, address, number }, delivered));
        let queue = access.host(host).filter(|_| follows_queue).map(|host| host.queue.join(delivered));
        let serial = access.serial();
        let member =
            aggregate.zip(flow.managed_sender().map(|sender| sender.mss())).and_then(|(aggregate, mss)| {
                let mut served = access.aggregate_for(now, host, mss, aggregate)?;
                let member = served.join(now, Joining { slot: index, host, serial }, flow);
                if let (Some(uplink), Some(upload)) = (&served.host.uplink, flow.upload_mut()) {
                    uplink.join(upload);
                }
                Some(Box::new(member))
            });
        *place = Some(Box::new(Place { host, queue, link, member }));
    }

    /// A flow is no more.
    pub(super) fn leave(&mut self, place: Place, policy: u16) {
        let now = self.now;
        let Place { host, queue, link, member } = place;
        if let Some(mut member) = member
            && let Some(mut served) = self.access.served(host)
        {
            served.leave(now, &mut member);
            served.host.members.swap_remove(member.place);
            let (moved, group) = (served.host.members.get(member.place).copied(), served.host.group);
            if let Some((_, other)) = moved.and_then(|moved| self.table.aggregated(moved)) {
                other.place = member.place;
            }
            self.access.wake(group);
        }
        if let (Some(link), Some(links)) = (&link, &mut self.links[usize::from(policy)]) {
            links.leave(link);
        }
        if let (Some(queue), Some(host)) = (&queue, self.access.host_mut(host)) {
            host.queue.leave(queue);
        }
        self.access.leave(now, host);
    }

    /// Something happened to a flow: what it holds and has delivered is booked in what it shares.
    pub(super) fn book(&mut self, index: u32) {
        let now = self.now;
        let Gateway { access, links, table, .. } = self;
        let Some(Entry { phase: Phase::Split(flow), place: Some(place), policy, .. }) = table.get_mut(index)
        else {
            return;
        };
        let Some(side) = flow.access_side() else { return };
        if let (Some(link), Some(links)) = (&mut place.link, &mut links[usize::from(*policy)])
            && flow.is_released_to(side)
        {
            links.book(now, link, flow.held_for(side), flow.delivered_to(side));
        }
        if let (Some(queue), Some(host)) = (&mut place.queue, access.host_mut(place.host))
            && let Some(share) = host.queue.book(now, queue, flow.queued_for(side), flow.delivered_to(side))
        {
            flow.on_shared(now, side, share);
        }
    }
}
