//! Hosts that are found to share a bottleneck are served together, and by themselves again where that was wrong.
use super::Gateway;
use crate::aggregate::{Aggregate, Joined};
use crate::common_drain::PathSeen;
use crate::shared_bottleneck::Finding;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use shorthaul_congestion::Others;
use shorthaul_types::{BitRate, Keep, Numbers, Time};

/// A host that was served with others, wrongly, is not for so long, whatever it loses.
const APART: Duration = Duration::from_secs(60);

impl Gateway {
    /// A connection of a host in a group measured a round trip, if it did. What is found out by that is done. Returns the group that the connection is of now.
    pub(super) fn look_for_sharing(
        &mut self,
        now: Time,
        (host, group): (u32, u32),
        measured: Option<Duration>,
    ) -> u32 {
        let (Some(rtt), true) = (measured, self.access.is_free(group)) else { return group };
        self.look_at_all(now, group);
        self.look_at_unmeasured(now, group, rtt);
        let group = self.access.group_of(host).unwrap_or(group);
        if let Some(own) = self.split_off(now, host, group) {
            return own;
        }
        let Some(aggregate) =
            self.access.aggregate(group).filter(|aggregate| aggregate.config.find_bottlenecks)
        else {
            return group;
        };
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
        group
    }

    /// A group had something delivered: all that may share a queue with it hold back, or are served together, if there is reason to.
    fn look_at_all(&mut self, now: Time, group: u32) {
        let Gateway { access, common_drain, .. } = self;
        let Some(aggregate) = access.aggregate_mut(group) else { return };
        if common_drain.on_delivery(now, (group, aggregate.since)) {
            aggregate.unsure = 0;
        }
        let path = |group| {
            let aggregate = access.aggregate(group)?;
            let (shortest, rate) = aggregate.window.path()?;
            Some(PathSeen {
                shortest,
                rate,
                for_certain: aggregate.unsure == 0,
                asks: aggregate.window.asks_drain(),
                hosts: aggregate.parts.active_hosts().max(1),
                connections: aggregate.parts.active(),
            })
        };
        let Some(look) = common_drain.look(now, path) else { return };
        let mut losing = Vec::new();
        let mut joined = None;
        for group in common_drain.busy() {
            let Some(aggregate) = access.aggregate_mut(group) else { continue };
            if aggregate.joined.is_some() {
                joined = joined.or(aggregate.srtt().map(|srtt| (group, srtt)));
            } else if aggregate.window.answers_losses() && now >= aggregate.apart_until {
                losing.push((group, aggregate.srtt().unwrap_or_default()));
            }
            let path_is_known = aggregate.knows_path(look.nearest);
            // A group is due what its hosts are.
            let mean_rate =
                look.mean_rate.map(|mean| mean.saturating_mul(aggregate.parts.active_hosts().max(1) as u64));
            let others = mean_rate.map(|mean_rate| Others { mean_rate, path_is_known });
            aggregate.window.set_others(now, others, look.connections, look.can_drain);
            if look.drain {
                aggregate.drain(now, look.nearest);
            }
        }
        // Where the least windows are too large, others that have waited as long share that queue, too.
        if look.is_crowded && (joined.is_some() || losing.len() > 1) {
            let of = joined.as_slice().iter().chain(&losing);
            let waited = of.clone().map(|(_, srtt)| *srtt).sum::<Duration>() / of.count() as u32;
            let alike = |srtt: Duration| srtt >= waited * 3 / 4 && srtt <= waited * 4 / 3;
            losing = common_drain
                .busy()
                .filter_map(|group| Some((group, access.aggregate(group)?)))
                .filter(|(_, aggregate)| aggregate.joined.is_none() && now >= aggregate.apart_until)
                .filter_map(|(group, aggregate)| Some((group, aggregate.srtt()?)))
                .filter(|(_, srtt)| alike(*srtt))
                .collect();
        }
        self.join_by_losses(
            now,
            joined.map(|(group, _)| group),
            losing.into_iter().map(|(group, _)| group).collect(),
        );
    }

    /// Groups that go on losing much at the same time share a queue that has no room for a window of each: one serves them all from now on, of what
    /// they were delivered together in the shortest of their round trips.
    fn join_by_losses(&mut self, now: Time, joined: Option<u32>, losing: Vec<u32>) {
        let Some(into) = joined.or((losing.len() > 1).then(|| losing.first().copied()).flatten()) else {
            return;
        };
        let from: Vec<u32> = losing.into_iter().filter(|from| *from != into).collect();
        if from.is_empty() {
            return;
        }
        let all: Vec<&Aggregate> =
            from.iter().chain([&into]).filter_map(|group| self.access.aggregate(*group)).collect();
        let in_flight = all.iter().map(|aggregate| aggregate.in_flight()).sum();
        let paths: Vec<(Duration, u64)> =
            all.iter().filter_map(|aggregate| aggregate.window.path()).collect();
        let rate = paths.iter().map(|(_, rate)| *rate).fold(0, u64::saturating_add);
        let nearest = paths.iter().map(|(shortest, _)| *shortest).min();
        if let (Some(aggregate), Some(nearest)) = (self.access.aggregate_mut(into), nearest) {
            // Of a group that was joined before, what it has now is the link's as far as that was found; newcomers have taken from it since.
            let least = if aggregate.joined.is_some() { aggregate.window.get(aggregate.mss) } else { 0 };
            if aggregate.joined.get_or_insert(Joined::new(now)).begins_anew(now) {
                let soon = now + 2 * aggregate.srtt().unwrap_or_default();
                aggregate.parts.forget_queues(soon);
            }
            aggregate.window.join(now, (nearest, BitRate::from_bits_per_sec(rate), least), in_flight);
        }
        for from in from {
            self.detector.forget(from);
            self.serve_with(now, into, from);
            self.counters.bottlenecks_found += 1;
        }
    }

    /// With whom a host is served that is not by itself, though nothing was configured: for a successor.
    pub(super) fn served_with(&self, host: u32) -> Vec<u64> {
        let Some(group) = self.access.group_of(host).filter(|group| self.access.is_free(*group)) else {
            return Vec::new();
        };
        match self.access.aggregate(group) {
            Some(aggregate) if self.access.hosts_of(group).len() > 1 || aggregate.apart_until > self.now => {
                let mut numbers = [u64::from(group), aggregate.since.as_nanos()].to_vec();
                aggregate.apart_until.put(&mut numbers);
                aggregate.joined.put(&mut numbers);
                numbers
            }
            _ => Vec::new(),
        }
    }

    /// A predecessor served a host with others: it is so again.
    pub(super) fn serve_as_before(&mut self, now: Time, host: u32, with: &[u64]) {
        let mut numbers = Numbers(with);
        let (Some(number), Some(since)) = (numbers.next(), numbers.next()) else { return };
        let (mut apart_until, mut joined) = (Time::ZERO, None);
        if apart_until.take(&mut numbers).and_then(|()| Keep::take(&mut joined, &mut numbers)).is_none()
            || !numbers.0.is_empty()
        {
            return;
        }
        let Some(own) = self.access.group_of(host).filter(|own| self.access.is_free(*own)) else { return };
        let key = (number, since);
        let known = self.inherited_groups.get(&key).copied();
        let into = known.filter(|(group, since)| {
            self.access.is_free(*group)
                && self.access.aggregate(*group).is_some_and(|aggregate| aggregate.since == *since)
        });
        // A host here may be several there: then it is served as the first of them was.
        let is_one = || self.access.hosts_of(own).len() == 1;
        let is_another = || self.inherited_groups.iter().any(|(of, (group, _))| *of != key && *group == own);
        match into {
            Some((into, _)) if into == own => {}
            _ if !is_one() || is_another() => {}
            Some((into, _)) => self.serve_with(now, into, own),
            None => {
                let Some(aggregate) = self.access.aggregate_mut(own) else { return };
                (aggregate.apart_until, aggregate.joined) = (apart_until, joined);
                self.inherited_groups.insert(key, (own, aggregate.since));
            }
        }
    }

    /// What belongs to one group belongs to another from now on.
    fn merge(&mut self, now: Time, into: u32, from: u32) {
        let (Some(former), true) = (self.access.aggregate(from), self.access.is_free(into)) else { return };
        let (window, rtt) = (former.window(), former.rtt.clone());
        let Some(aggregate) = self.access.aggregate_mut(into) else { return };
        let window = window + aggregate.window();
        aggregate.on_merge(&rtt, window);
        self.serve_with(now, into, from);
        self.counters.bottlenecks_found += 1;
    }

    /// The hosts of one group are of another from now on.
    fn serve_with(&mut self, now: Time, into: u32, from: u32) {
        let hosts = self.access.hosts_of(from).to_vec();
        let asking = self.access.aggregate_mut(from).map(Aggregate::take_asking).unwrap_or_default();
        for host in hosts {
            self.move_to(now, host, into);
        }
        if let Some(aggregate) = self.access.aggregate_mut(into) {
            aggregate.ask_too(asking);
        }
        self.access.remove_group_if_empty(from);
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
        let parted = self.access.aggregate_mut(own)?;
        parted.on_merge(&rtt, window);
        parted.apart_until = now + APART;
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
    pub(super) fn move_to(&mut self, now: Time, host: u32, into: u32) {
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
            served.aggregate.on_move(now, (index, part), member, sender, active);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::AggregateConfig;
    use crate::{GatewayConfig, Policy};
    use alloc::vec;
    use shorthaul_congestion::Delivery;

    /// A gateway that serves so many hosts, each by itself.
    fn gateway(now: Time, hosts: u8) -> (Gateway, Vec<u32>) {
        let policy = Policy { aggregate: Some(Arc::new(AggregateConfig::default())), ..Policy::default() };
        let mut gateway = Gateway::new(GatewayConfig::of(policy));
        let begin = |last| {
            let host = gateway.access.join(now, [10, 0, 0, last].into(), 0);
            gateway.access.aggregate_for(now, host, 1448, &Arc::default());
            host
        };
        let hosts = (1..=hosts).map(begin).collect();
        (gateway, hosts)
    }

    fn groups(gateway: &Gateway, hosts: &[u32]) -> Vec<u32> {
        hosts.iter().map(|host| gateway.access.group_of(*host).unwrap()).collect()
    }

    #[test]
    fn who_is_served_with_whom_is_known_to_the_next_process() {
        let now = Time::from_secs(1);
        let (mut before, hosts) = gateway(now, 4);
        let [one, two, _, four] = groups(&before, &hosts)[..] else { unreachable!() };
        // As if they had lost too much for long: a path is known of them.
        let rtt = Duration::from_millis(30);
        for group in [one, two] {
            let window = &mut before.access.aggregate_mut(group).unwrap().window;
            window.on_send(now, 0);
            let delivery = Delivery { now: now + rtt, bytes: 14_480, sent_at: now, rtt: Some(rtt) };
            window.on_delivery(1448, delivery, 14_480);
            assert!(window.path().is_some());
        }
        before.join_by_losses(now + rtt, None, vec![one, two]);
        assert!(before.access.aggregate(one).unwrap().joined.is_some());
        // 14 kB in 30 ms each.
        assert_eq!(before.access.aggregate(one).unwrap().window() * 10 / 14_480, 24);
        before.access.aggregate_mut(four).unwrap().apart_until = now + APART;
        before.now = now;
        assert_eq!(groups(&before, &hosts)[..2], [one, one]);
        let told: Vec<Vec<u64>> = hosts.iter().map(|host| before.served_with(*host)).collect();
        assert!(told[2].is_empty(), "it is by itself");

        let (mut after, hosts) = gateway(now, 4);
        for _ in 0..2 {
            // As often as there are flows.
            hosts.iter().zip(&told).for_each(|(host, told)| after.serve_as_before(now, *host, told));
        }
        let now_in = groups(&after, &hosts);
        assert_eq!(now_in[0], now_in[1]);
        assert!(now_in[2] != now_in[0] && now_in[3] != now_in[0] && now_in[2] != now_in[3]);
        let of = |host: usize| after.access.aggregate(now_in[host]).unwrap();
        assert_eq!([0, 2, 3].map(|host| of(host).joined.is_some()), [true, false, false]);
        assert_eq!([0, 2, 3].map(|host| of(host).apart_until > now), [false, false, true]);
        assert_eq!(after.counters.bottlenecks_found, 0, "nothing was found here");

        // Nor is a host moved again that was several before.
        after.serve_as_before(now, hosts[0], &told[3]);
        after.serve_as_before(now, hosts[3], &told[0]);
        assert_eq!(groups(&after, &hosts), now_in);

        // What is garbled says nothing.
        for told in [vec![1], vec![1, 2, 3], [told[0].as_slice(), &[0]].concat()] {
            after.serve_as_before(now, hosts[2], &told);
            assert_eq!(groups(&after, &hosts), now_in);
        }
    }
}
