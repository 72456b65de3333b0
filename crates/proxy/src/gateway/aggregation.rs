//! Where the gateway and the aggregates of mobile hosts meet.
use super::{Entry, Gateway, Phase};
use crate::FlowInfo;
use crate::aggregate::{Expired, Host, HostInfo, Hosts};
use crate::split_flow::{Budget, Fate, SplitFlow};
use alloc::boxed::Box;
use alloc::vec::Vec;
use shorthaul_types::{Deadline, Time};
use shorthaul_wire::TxBatch;

/// Segments that one host sends before another has its turn.
const TURN: usize = 64;

impl Gateway {
    /// The mobile hosts that are known, where there is aggregation.
    pub fn hosts(&self) -> impl Iterator<Item = HostInfo> + '_ {
        self.hosts.iter().flat_map(Hosts::iter).map(HostInfo::of)
    }

    /// What there is to know of a flow, with what it shares with the others of its mobile host.
    pub(super) fn with_host(&self, mut info: FlowInfo, flow: &SplitFlow, entry: &Entry) -> FlowInfo {
        let host =
            self.hosts.as_ref().zip(entry.member.as_ref()).and_then(|(hosts, member)| hosts.get(member.host));
        if let (Some(host), Some(legs), Some(side)) = (host, &mut info.legs, flow.mobile_side()) {
            let leg = &mut legs[side.other().index()];
            leg.control = "aggregate";
            leg.window = host.window();
            leg.srtt = host.srtt();
        }
        info
    }

    /// A flow was split: it joins its mobile host's aggregate.
    pub(super) fn join(&mut self, now: Time, index: u32) {
        let Gateway { hosts: Some(hosts), entries, .. } = self else { return };
        let Some(entry) = entries[index as usize].as_mut() else { return };
        let Phase::Split(flow) = &mut entry.phase else { return };
        let Some((address, sender)) = flow.mobile_address().zip(flow.governed()) else { return };
        let slot = hosts.of(now, address, sender.mss());
        let serial = hosts.serial();
        if let Some((host, config)) = hosts.with_config(slot) {
            entry.member = Some(Box::new(host.join(now, index, slot, serial, flow, config)));
            if let (Some(uplink), Some(upload)) = (&host.uplink, flow.upload_mut()) {
                uplink.join(upload);
            }
        }
    }

    /// Something happened to a flow: its host looks at it.
    pub(super) fn sync(&mut self, index: u32) {
        let now = self.now;
        let Gateway { hosts: Some(hosts), entries, .. } = self else { return };
        let Some(Entry { phase: Phase::Split(flow), member: Some(member), .. }) =
            entries[index as usize].as_mut()
        else {
            return;
        };
        let slot = member.host;
        let Some((host, config)) = hosts.with_config(slot) else { return };
        let back = host.sync(now, index, member, flow, config);
        if back {
            self.thaw(now, slot);
        }
        self.repair_skipped(now, slot);
        if let Some(hosts) = &mut self.hosts {
            hosts.wake(slot);
            hosts.arm(slot);
        }
    }

    /// The link to a host is back: its senders' former windows are theirs again.
    fn thaw(&mut self, now: Time, slot: u32) {
        let Gateway { hosts: Some(hosts), entries, ready, .. } = self else { return };
        let Some((host, config)) = hosts.with_config(slot) else { return };
        for position in 0..host.members.len() {
            let index = host.members[position];
            let Some(entry) = entries[index as usize].as_mut() else { continue };
            if let (Phase::Split(flow), Some(member)) = (&mut entry.phase, &mut entry.member) {
                host.on_link_back(now, member, flow);
                host.invite(member, flow, config);
                if !core::mem::replace(&mut entry.ready, true) {
                    ready.push_back(index);
                }
            }
        }
    }

    /// Connections of which something is lost, as the deliveries of others show, repair it.
    fn repair_skipped(&mut self, now: Time, slot: u32) {
        loop {
            let Gateway { hosts: Some(hosts), entries, .. } = self else { return };
            let Some((host, config)) = hosts.with_config(slot) else { return };
            let Some((index, before)) = host.next_skipped(now) else { return };
            let Some(Entry { phase: Phase::Split(flow), member: Some(member), .. }) =
                entries.get_mut(index as usize).and_then(Option::as_mut)
            else {
                continue;
            };
            if member.host != slot {
                continue;
            }
            let Some(sender) = flow.governed_mut() else { continue };
            if let Some(share) = sender.share_mut() {
                share.lost_before = Some(before);
            }
            let in_flight = sender.in_flight();
            sender.on_others_delivered(now);
            if sender.in_flight() < in_flight {
                host.on_lost(now, member, flow);
            }
            host.sync(now, index, member, flow, config);
        }
    }

    /// A flow was polled: if something left of which its host does not know, the host looks at it.
    pub(super) fn sync_if_behind(&mut self, index: u32) {
        if let Some(Entry { phase: Phase::Split(flow), member: Some(member), .. }) =
            &self.entries[index as usize]
            && Host::is_behind(member, flow)
        {
            self.sync(index);
        }
    }

    /// A flow is no more.
    pub(super) fn leave(&mut self, entry: &mut Entry) {
        let now = self.now;
        let Gateway { hosts: Some(hosts), entries, .. } = self else { return };
        let Some(mut member) = entry.member.take() else { return };
        let Some(host) = hosts.get_mut(member.host) else { return };
        host.leave(now, &mut member);
        host.members.swap_remove(member.place);
        if let Some(&moved) = host.members.get(member.place)
            && let Some(Some(Entry { member: Some(other), .. })) = entries.get_mut(moved as usize)
        {
            other.place = member.place;
        }
        hosts.wake(member.host);
    }

    /// What a flow may take, with what is left for its host.
    pub(super) fn within_host(&self, index: u32, budget: Budget) -> Budget {
        let entry = self.entries[index as usize].as_ref();
        let Some((hosts, member)) = self.hosts.as_ref().zip(entry.and_then(|entry| entry.member.as_ref()))
        else {
            return budget;
        };
        let room = hosts.get(member.host).map_or(u64::MAX, |host| host.room_for(member, &hosts.config));
        Budget { free: budget.free.min(room), ..budget }
    }

    /// Serves the hosts that may have something to send; whether there may be more.
    pub(super) fn serve_hosts(&mut self, now: Time, out: &mut TxBatch) -> bool {
        let rounds = self.hosts.as_ref().map_or(0, |hosts| hosts.ready.len());
        for _ in 0..rounds {
            let Some(slot) = self.hosts.as_mut().and_then(|hosts| hosts.ready.pop_front()) else { break };
            if let Some(host) = self.hosts.as_mut().and_then(|hosts| hosts.get_mut(slot)) {
                host.ready = false;
            }
            let mut turns = 0;
            while turns < TURN && self.serve_turn(now, slot, out) {
                turns += 1;
            }
            if let Some(hosts) = &mut self.hosts {
                if turns == TURN {
                    hosts.wake(slot);
                }
                hosts.arm(slot);
            }
        }
        self.hosts.as_ref().is_some_and(|hosts| !hosts.ready.is_empty())
    }

    /// One connection's turn; `false` if none may send now.
    fn serve_turn(&mut self, now: Time, slot: u32, out: &mut TxBatch) -> bool {
        let Gateway { hosts: Some(hosts), entries, ready, .. } = self else { return false };
        let Some((host, config)) = hosts.with_config(slot) else { return false };
        let Some((turn, credit)) = host.next_turn(now, config) else { return false };
        let Some(Entry { phase: Phase::Split(flow), member: Some(member), ready: ready_mark, .. }) =
            entries.get_mut(turn.flow as usize).and_then(Option::as_mut)
        else {
            return true;
        };
        if member.host != slot || !Host::takes(&turn, member) {
            return true;
        }
        let sent = flow.send_governed(now, credit, out);
        host.on_sent(now, &turn, sent, member, flow, config);
        // Its server may have been told of no room, for all of it was taken by what has left now.
        if sent > 0 && !core::mem::replace(ready_mark, true) {
            ready.push_back(turn.flow);
        }
        if let Some(Deadline { at, .. }) = flow.poll_timeout() {
            self.arm(turn.flow, at);
        }
        true
    }

    /// Timers of hosts may have expired.
    pub(super) fn on_host_timeouts(&mut self, now: Time) {
        while let Some(slot) = self.hosts.as_mut().and_then(|hosts| hosts.pop_due(now)) {
            let Some(host) = self.hosts.as_mut().and_then(|hosts| hosts.get_mut(slot)) else { continue };
            match host.on_timeout(now) {
                Expired::Look => self.repair_skipped(now, slot),
                Expired::Probe => self.probe(now, slot),
                Expired::Ask => self.ask_silent(now, slot),
                Expired::Gone => self.give_up(slot),
            }
            if let Some(hosts) = &mut self.hosts {
                hosts.wake(slot);
                hosts.arm(slot);
            }
        }
    }

    /// One connection finds out whether the link carries anything.
    fn probe(&mut self, now: Time, slot: u32) {
        let Gateway { hosts: Some(hosts), entries, .. } = self else { return };
        let Some((host, config)) = hosts.with_config(slot) else { return };
        let order = |&index: &u32| {
            let Some(Entry { phase: Phase::Split(flow), member: Some(member), .. }) =
                entries[index as usize].as_ref()
            else {
                return None;
            };
            Some((host.probe_order(member, flow)?, index))
        };
        let Some((_, index)) = host.members.iter().filter_map(order).min() else {
            host.resume(now);
            return self.thaw(now, slot);
        };
        for position in 0..host.members.len() {
            let member_index = host.members[position];
            let Some(Entry { phase: Phase::Split(flow), member: Some(member), .. }) =
                entries[member_index as usize].as_mut()
            else {
                continue;
            };
            if member_index == index {
                host.ask_with(now, index, member, flow);
                host.sync(now, index, member, flow, config);
            }
            host.invite(member, flow, config);
        }
    }

    /// Silent connections are asked again, each at its time; one that was silent for too long is reset.
    fn ask_silent(&mut self, now: Time, slot: u32) {
        let Gateway { hosts: Some(hosts), entries, .. } = self else { return };
        let Some((host, config)) = hosts.with_config(slot) else { return };
        let mut gone = Vec::new();
        for position in 0..host.members.len() {
            let index = host.members[position];
            let Some(Entry { phase: Phase::Split(flow), member: Some(member), .. }) =
                entries[index as usize].as_mut()
            else {
                continue;
            };
            match host.asks(now, member) {
                Some(Expired::Gone) => gone.push(index),
                Some(_) => {
                    host.ask_with(now, index, member, flow);
                    host.sync(now, index, member, flow, config);
                }
                None => {}
            }
        }
        self.reset(gone);
    }

    /// A mobile host has not answered for a quarter of an hour: its connections are reset.
    fn give_up(&mut self, slot: u32) {
        let members = self.hosts.as_ref().and_then(|hosts| hosts.get(slot)).map(|host| host.members.clone());
        self.reset(members.unwrap_or_default());
    }

    fn reset(&mut self, flows: Vec<u32>) {
        for index in flows {
            if let Some(Entry { phase: Phase::Split(flow), .. }) = self.entries[index as usize].as_mut() {
                let fate = SplitFlow::reset_both(flow, &mut self.passing);
                debug_assert_eq!(fate, Fate::GivenUp);
                self.settle(index, fate);
            }
        }
    }
}
