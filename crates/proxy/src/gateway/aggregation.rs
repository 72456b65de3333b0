//! Where the gateway and the aggregates of hosts meet.
use super::table::{Entry, Phase};
use super::{Fate, Gateway};
use crate::FlowInfo;
use crate::access_side::HostInfo;
use crate::aggregate::{Aggregate, Expired, Member, Patience, Source, Uplink};
use crate::custody::GroupMomentum;
use crate::split_flow::{Budget, SplitFlow};
use alloc::vec::Vec;
use shorthaul_tcp::SentBefore;
use shorthaul_types::{Deadline, Time};
use shorthaul_wire::TxBatch;

/// Segments that one group sends before another has its turn.
const TURN: usize = 64;

impl Gateway {
    /// The mobile hosts that are known, where there is aggregation.
    pub fn hosts(&self) -> impl Iterator<Item = HostInfo> + '_ {
        self.access.aggregated().map(|(host, aggregate)| HostInfo::of(host, aggregate))
    }

    /// What a connection shares with others of its mobile host, and what it has of its own in that.
    pub(super) fn momentum_in_group(&self, member: Option<&Member>) -> GroupMomentum {
        let Some(member) = member else { return GroupMomentum::default() };
        let host = self.access.host(member.host);
        let source = host.and_then(|host| host.sources.get(member.source?));
        let down = self.aggregate_of(member.host).map(Aggregate::momentum);
        let up = host.and_then(|host| host.uplink.as_ref()).map(Uplink::momentum);
        let from = source.map(|source| source.window.momentum());
        GroupMomentum {
            shared: [down, up, from].map(Option::unwrap_or_default),
            hold: source.map(Source::momentum).unwrap_or_default(),
            own: member.momentum(),
            with: self.served_with(member.host),
        }
    }

    /// A predecessor had found this for a flow and the others of its mobile host.
    pub(super) fn take_group_over(&mut self, now: Time, index: u32, momentum: &GroupMomentum) {
        let GroupMomentum { shared: [down, up, from], hold, own, with } = momentum;
        let Some(host) = self.table.aggregated(index).map(|(_, member)| member.host) else { return };
        self.serve_as_before(now, host, with);
        let Gateway { access, table, .. } = self;
        let Some((flow, member)) = table.aggregated(index) else { return };
        let Some(served) = access.served(member.host) else { return };
        served.aggregate.take_over(now, down);
        let situation = served.aggregate.situation(now, member.part, 0);
        member.take_over(now, situation.queued_time, own);
        if let Some(uplink) = &mut served.host.uplink {
            uplink.take_over(now, up);
            flow.upload_mut().into_iter().for_each(|upload| uplink.join(upload));
        }
        let source = member.source.and_then(|number| served.host.sources.get_mut(number));
        if let Some((source, download)) = source.zip(flow.download_mut()) {
            source.take_over(now, from, hold);
            source.window.join(download);
        }
    }

    /// What serves the connections of a host.
    fn aggregate_of(&self, host: u32) -> Option<&Aggregate> {
        self.access.aggregate(self.access.group_of(host)?)
    }

    /// What there is to know of a flow, with what it shares with the others of its group.
    pub(super) fn with_group(&self, mut info: FlowInfo, flow: &SplitFlow, host: Option<u32>) -> FlowInfo {
        let aggregate = host.and_then(|host| self.aggregate_of(host));
        if let (Some(aggregate), Some(legs), Some(side)) = (aggregate, &mut info.legs, flow.mobile_side()) {
            let leg = &mut legs[side.other().index()];
            leg.control = "aggregate";
            leg.window = aggregate.window();
            leg.srtt = aggregate.srtt();
            leg.min_rtt = aggregate.min_rtt();
        }
        info
    }

    /// Something happened to a flow: its group looks at it.
    pub(super) fn sync(&mut self, index: u32) {
        let now = self.now;
        let Gateway { access, table, .. } = self;
        let Some((flow, member)) = table.aggregated(index) else { return };
        let Some(mut served) = access.served(member.host) else { return };
        let (host, group) = (member.host, served.host.group);
        served.aggregate.set_lateness(self.lateness.recent());
        let back = served.sync(now, index, member, flow);
        let measured = served.aggregate.measured.take();
        if back {
            self.thaw(now, group);
            self.ask_others(now, group, index);
        }
        let group = self.look_for_sharing(now, (host, group), measured);
        self.look_who_is_overtaken(now, group);
        self.repair_skipped(now, group);
        self.access.wake(group);
        self.access.arm(group);
    }

    /// The link to a group is back: its senders' former windows are theirs again.
    fn thaw(&mut self, now: Time, group: u32) {
        for index in self.access.members_of(group) {
            let Gateway { access, table, .. } = self;
            // Who says nothing has what it was offered before.
            if let Some((flow, member)) = table.aggregated(index)
                && member.minds_link()
                && let Some(mut served) = access.served(member.host)
            {
                served.aggregate.on_link_back(now, index, member, flow);
                served.offer(member, flow);
                table.wake(index);
            }
        }
    }

    /// The link to a group is back, as the connection in `answered` says: if the way up was away, the acknowledgments of the others are lost as well, and
    /// nothing of them is under way that would be answered. Some of them send a segment more, those first that have waited for the longest.
    fn ask_others(&mut self, now: Time, group: u32, answered: u32) {
        let members = self.access.members_of(group);
        let Gateway { access, table, .. } = self;
        let Some(aggregate) = access.aggregate_mut(group) else { return };
        let waits_since = |&index: &u32| {
            let (flow, _) = table.aggregated(index).filter(|(_, member)| !member.is_silent())?;
            Some((flow.managed_sender()?.oldest_in_flight()?, index))
        };
        let mut waiting: Vec<_> =
            members.iter().filter(|index| **index != answered).filter_map(waits_since).collect();
        waiting.sort_unstable();
        let most = aggregate.may_ask_at_once();
        for (_, index) in waiting.into_iter().take(most) {
            let Some((flow, member)) = table.aggregated(index) else { continue };
            let Some(mut served) = access.served(member.host) else { continue };
            served.aggregate.ask_once_more(now, index, member, flow);
            served.sync(now, index, member, flow);
        }
    }

    /// Looks what others' deliveries have overtaken.
    fn look_who_is_overtaken(&mut self, now: Time, group: u32) {
        loop {
            let Gateway { access, table, .. } = self;
            let Some(aggregate) = access.aggregate_mut(group) else { return };
            let Some((since, index, serial)) = aggregate.next_followed(now) else { return };
            let Some((flow, member)) = table.aggregated(index).filter(|(_, of)| of.serial == serial) else {
                continue;
            };
            if let Some(served) = access.served(member.host).filter(|served| served.host.group == group) {
                served.aggregate.look_at(now, (since, index), member, flow);
            }
        }
    }

    /// Connections of which something is lost, as the deliveries of others show, repair it.
    fn repair_skipped(&mut self, now: Time, group: u32) {
        loop {
            let Gateway { access, table, .. } = self;
            let Some(aggregate) = access.aggregate_mut(group) else { return };
            let Some(mut skipped) = aggregate.next_skipped(now) else { return };
            let index = skipped.slot;
            let Some((flow, member)) = table.aggregated(index) else { continue };
            let Some(mut served) = access.served(member.host).filter(|served| served.host.group == group)
            else {
                continue;
            };
            let Some(sender) = flow.managed_sender_mut() else { continue };
            let was_kept = skipped.was_kept_at(member.kept_at);
            if was_kept {
                member.kept_at = None;
            }
            if was_kept || member.is_late() {
                // It is not on the link any more, and its peer may have it. Its own round trips say when it does not.
                skipped.wait_for(now, sender.rtt());
                if matches!(sender.sent_before(skipped.before), SentBefore::Nothing) {
                    if sender.in_flight() > 0 && served.aggregate.is_to_be_kept(now, member) {
                        member.kept_at = Some(now);
                        served.aggregate.log.keep_from(now, skipped);
                    }
                    continue;
                }
            }
            let may_come = match sender.sent_before(skipped.before) {
                SentBefore::Nothing => continue,
                SentBefore::OneSegment => true,
                // While the queue of the link still grows with the window, what is sent again at once is lost in it as well.
                SentBefore::More if !served.aggregate.window.is_found() => true,
                // Behind one address there may be several hosts, of which one is farther away.
                SentBefore::More => {
                    let rtt = sender.rtt();
                    let own = rtt.srtt().max(rtt.latest());
                    own.is_none_or(|own| skipped.is_too_early(now, own))
                }
            };
            if may_come && !skipped.is_overdue {
                served.aggregate.log.keep(skipped);
                continue;
            }
            if let Some(grant) = sender.grant_mut() {
                grant.lost_before = Some(skipped.before);
            }
            let in_flight = sender.in_flight();
            sender.on_others_delivered(now);
            if sender.in_flight() < in_flight {
                served.aggregate.on_lost(now, index, member, flow);
            }
            served.sync(now, index, member, flow);
        }
    }

    /// A flow was polled: if something left of which its group does not know, the group looks at it.
    pub(super) fn sync_if_behind(&mut self, index: u32) {
        if let Some((flow, member)) = self.table.aggregated(index)
            && member.is_behind(flow)
        {
            self.sync(index);
        }
    }

    /// What a flow may take, with what is left for its host.
    pub(super) fn within_host(&mut self, index: u32, budget: Budget) -> Budget {
        let Gateway { access, table, .. } = self;
        let Some((flow, member)) = table.aggregated(index) else { return budget };
        let (Some(mobile), Some(served)) = (flow.mobile_side(), access.served(member.host)) else {
            return budget;
        };
        let (from, to) = (mobile.index(), mobile.other().index());
        let mut budget = budget;
        budget.windows[from] = budget.windows[from].min(served.most_from(member));
        budget.free[from] = budget.free[from].min(served.room_from(member));
        budget.free[to] = budget.free[to].min(served.room_for(member));
        budget
    }

    /// Serves the groups that may have something to send; whether there may be more.
    pub(super) fn serve_groups(&mut self, now: Time, out: &mut TxBatch) -> bool {
        for _ in 0..self.access.ready.len() {
            let Some(group) = self.access.ready.pop_front() else { break };
            if let Some(group) = self.access.group_mut(group) {
                group.ready = false;
            }
            self.release_unsplit(now, group, out);
            let mut turns = 0;
            while turns < TURN && self.serve_turn(now, group, out) {
                turns += 1;
            }
            if turns == TURN {
                self.access.wake(group);
            }
            self.access.arm(group);
        }
        !self.access.ready.is_empty()
    }

    /// One connection's turn; `false` if none may send now.
    fn serve_turn(&mut self, now: Time, group: u32, out: &mut TxBatch) -> bool {
        let Gateway { access, table, .. } = self;
        let Some(aggregate) = access.aggregate_mut(group) else { return false };
        let Some((turn, credit)) = aggregate.next_turn(now) else { return false };
        if turn.unsplit {
            self.serve_unsplit(now, group, (&turn, credit), out);
            return true;
        }
        let Some((flow, member)) = table.aggregated(turn.flow) else { return true };
        let Some(mut served) = access.served(member.host).filter(|served| served.host.group == group) else {
            return true;
        };
        if !member.takes(&turn) {
            return true;
        }
        let left = member.left(&turn, served.aggregate.window());
        if left == 0 {
            member.pass_on();
            return true;
        }
        let credit = credit.min(left.max(u64::from(served.aggregate.mss)));
        let sent = flow.send_managed(now, credit, out);
        served.on_sent(now, &turn, sent, member, flow);
        let deadline = flow.poll_timeout();
        // Its server may have been told of no room, for all of it was taken by what has left now.
        if sent > 0 {
            table.wake(turn.flow);
        }
        if let Some(Deadline { at, .. }) = deadline {
            table.arm(turn.flow, at);
        }
        true
    }

    /// Timers of groups may have expired.
    pub(super) fn on_group_timeouts(&mut self, now: Time) {
        while let Some(group) = self.access.pop_due(now) {
            let Some(aggregate) = self.access.aggregate_mut(group) else { continue };
            aggregate.set_lateness(self.lateness.recent());
            match aggregate.on_timeout(now) {
                Expired::Look => self.repair_skipped(now, group),
                Expired::Probe => self.probe(now, group),
                Expired::TailProbe => {
                    self.repair_skipped(now, group);
                    self.probe_tail(now, group);
                }
                Expired::Ask => self.ask_silent(now, group),
            }
            self.access.wake(group);
            self.access.arm(group);
        }
    }

    /// One connection sends something new, if there is any that its receiver takes, or the last segment that it sent again: the one that has waited
    /// for an answer for the longest.
    fn probe_tail(&mut self, now: Time, group: u32) {
        let members = self.access.members_of(group);
        let Gateway { access, table, .. } = self;
        let waits_since = |&index: &u32| {
            let (flow, _) = table.aggregated(index).filter(|(_, member)| !member.is_silent())?;
            let sender = flow.managed_sender()?;
            match sender.sendable() {
                0 => Some((sender.oldest_in_flight()?, index)),
                _ => Some((Time::ZERO, index)),
            }
        };
        let mut waiting: Vec<_> = members.iter().filter_map(waits_since).collect();
        waiting.sort_unstable();
        let asks = |&(_, index): &(Time, u32)| {
            let sender = table.aggregated(index).and_then(|(flow, _)| flow.managed_sender_mut());
            sender.is_some_and(|sender| sender.sendable() > 0 || sender.on_manager_tail_probe(now))
        };
        if let (Some((_, index)), Some(aggregate)) =
            (waiting.into_iter().find(asks), access.aggregate_mut(group))
        {
            aggregate.probe_tail_with(now, index);
        }
    }

    /// One connection finds out whether the link carries anything. Those of which nothing was answered for a quarter of an hour are reset.
    fn probe(&mut self, now: Time, group: u32) {
        let members = self.access.members_of(group);
        let Gateway { access, table, .. } = self;
        let Some(aggregate) = access.aggregate_mut(group) else { return };
        let mut gone = Vec::new();
        let mut order = |&index: &u32| {
            let (flow, member) = table.aggregated(index)?;
            if aggregate.gives_up(now, member, flow) {
                gone.push(index);
                return None;
            }
            Some((aggregate.probe_order(member, flow)?, index))
        };
        let Some((_, chosen)) = members.iter().filter_map(&mut order).min() else {
            aggregate.resume(now);
            self.reset(gone);
            return self.thaw(now, group);
        };
        for index in members {
            let Some((flow, member)) = table.aggregated(index) else { continue };
            let Some(mut served) = access.served(member.host) else { continue };
            if index == chosen {
                served.aggregate.ask_with(now, index, member, flow);
                served.sync(now, index, member, flow);
            }
            if member.minds_link() {
                served.offer(member, flow);
            }
        }
        self.reset(gone);
    }

    /// Silent connections are asked again, each at its time; one that was silent for too long is reset.
    fn ask_silent(&mut self, now: Time, group: u32) {
        let mut gone = Vec::new();
        loop {
            let Gateway { access, table, .. } = self;
            let Some((index, serial)) =
                access.aggregate_mut(group).and_then(|aggregate| aggregate.pop_question(now))
            else {
                break;
            };
            let Some((flow, member)) = table.aggregated(index).filter(|(_, of)| of.serial == serial) else {
                continue;
            };
            let Some(mut served) = access.served(member.host).filter(|served| served.host.group == group)
            else {
                continue;
            };
            match served.aggregate.asks(now, index, member) {
                Some(Patience::GivesUp) => gone.push(index),
                Some(Patience::Asks) => {
                    served.aggregate.ask_with(now, index, member, flow);
                    served.sync(now, index, member, flow);
                }
                None => {}
            }
        }
        self.reset(gone);
    }

    fn reset(&mut self, flows: Vec<u32>) {
        for index in flows {
            if let Some(Entry { phase: Phase::Split(flow), .. }) = self.table.get_mut(index) {
                let fate = flow.reset_both(&mut self.passing);
                debug_assert_eq!(fate, Fate::GivenUp);
                self.settle(index, fate);
            }
        }
    }
}
