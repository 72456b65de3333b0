//! How flows come to their places at the access side, and leave them.
use super::Gateway;
use super::table::{Entry, Phase};
use crate::access_side::Place;
use crate::aggregate::Joining;
use alloc::boxed::Box;
use shorthaul_types::Time;

impl Gateway {
    /// A flow was split: it takes its place, if its policy needs one.
    pub(super) fn take_place(&mut self, now: Time, index: u32) {
        let number = self.counters.flows_split + self.counters.flows_resumed; // unlike that of any other
        let Gateway { config, access, table, .. } = self;
        let Some(Entry { phase: Phase::Split(flow), place, policy, .. }) = table.get_mut(index) else {
            return;
        };
        let number_of_policy = *policy;
        let policy = &config.policies[usize::from(number_of_policy)];
        let (follows_queue, aggregate) = (policy.senders.follows_host_queue(), policy.aggregate.as_ref());
        if !access.has_links(number_of_policy) && !follows_queue && aggregate.is_none() {
            return;
        }
        let Some(side) = flow.access_side() else { return };
        let address = flow.address_of(side);
        let delivered = flow.delivered_to(side);
        let host = access.join(now, address, number_of_policy);
        let link = access.join_link(now, host, number_of_policy, (number, delivered));
        let queue = access.host(host).filter(|_| follows_queue).map(|host| host.queue.join(delivered));
        let serial = access.serial();
        let member =
            aggregate.zip(flow.managed_sender().map(|sender| sender.mss())).and_then(|(aggregate, mss)| {
                let mut served = access.aggregate_for(now, host, mss, aggregate)?;
                let mut member = served.join(now, Joining { slot: index, host, serial }, flow);
                served.join_source(now, flow.address_of(side.other()), &mut member, flow);
                if let (Some(uplink), Some(upload)) = (&served.host.uplink, flow.upload_mut()) {
                    uplink.join(upload);
                }
                Some(Box::new(member))
            });
        *place = Some(Box::new(Place { host, queue, link, member }));
    }

    /// A flow is no more.
    pub(super) fn leave(&mut self, place: Place) {
        let now = self.now;
        let Place { host, queue, link, member } = place;
        if let Some(mut member) = member
            && let Some(mut served) = self.access.served(host)
        {
            served.leave(now, &mut member);
            let (moved, group) = (served.host.members.leave(&member), served.host.group);
            if let Some((_, other)) = moved.and_then(|moved| self.table.aggregated(moved)) {
                other.place = member.place;
            }
            self.access.wake(group);
        }
        if let Some(link) = &link {
            self.access.leave_link(link);
        }
        if let (Some(queue), Some(host)) = (&queue, self.access.host_mut(host)) {
            host.queue.leave(queue);
        }
        self.access.leave(now, host);
    }

    /// Something happened to a flow: what it holds and has delivered is booked in what it shares.
    pub(super) fn book(&mut self, index: u32) {
        let now = self.now;
        let Gateway { access, table, .. } = self;
        let Some(Entry { phase: Phase::Split(flow), place: Some(place), .. }) = table.get_mut(index) else {
            return;
        };
        let Some(side) = flow.access_side() else { return };
        if let Some(link) = &mut place.link
            && flow.is_released_to(side)
        {
            access.links.book(now, link, flow.held_for(side), flow.delivered_to(side));
        }
        if let (Some(queue), Some(host)) = (&mut place.queue, access.host_mut(place.host))
            && let Some(share) = host.queue.book(now, queue, flow.queued_for(side), flow.delivered_to(side))
        {
            flow.on_shared(now, side, share);
        }
    }
}
