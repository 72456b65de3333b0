//! A host whose connections are served by the aggregate of its group.
use super::config::INTERACTIVE;
use super::control_block::{Aggregate, Answering};
use super::member::{Member, PROBE};
use super::memory::Promise;
use super::stride::{Turn, advance};
use super::uplink::{Counted, Uplink};
use super::window_share::{Progress, SlidingRate, WindowShare};
use crate::SplitFlow;
use crate::access_side::Host;
use core::net::IpAddr;
use core::time::Duration;
use shorthaul_congestion::{EACH, Trip};
use shorthaul_tcp::Sender;
use shorthaul_types::{Blank as _, Time, keeps};

/// Of what a connection is offered without using it, at most this counts as promised: what servers are offered at first,
/// mostly.
pub(super) const FIRST_WINDOW: u64 = 64 << 10;

/// A host and the aggregate that serves it.
#[derive(Debug)]
pub(crate) struct Served<'a> {
    pub aggregate: &'a mut Aggregate,
    pub host: &'a mut Host,
    /// What the gateway may hold in all, in bytes.
    pub memory: u64,
}

/// How far those were with their shares that a connection has a part of: its host's uplink, and the window of who sends to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shared {
    uplink: Counted,
    source: Counted,
}

keeps!(Shared { uplink, source });

impl Host {
    /// How far the shares are that this connection of it has a part of.
    pub fn shared_with(&self, member: &Member) -> Shared {
        let source = member.source.and_then(|number| self.sources.get(number));
        Shared {
            uplink: self.uplink.as_ref().map(Uplink::counted).unwrap_or_default(),
            source: source.map(|source| source.window.counted()).unwrap_or_default(),
        }
    }

    /// A connection of it was away since then: it is told what was shared meanwhile.
    pub fn tell_what_was_missed(&self, now: Time, member: &Member, (flow, since): (&mut SplitFlow, Shared)) {
        if let (Some(uplink), Some(upload)) = (&self.uplink, flow.upload_mut()) {
            uplink.catch_up(since.uplink, upload, |upload| uplink.allot(now, upload));
        }
        let source = member.source.and_then(|number| self.sources.get(number));
        if let (Some(source), Some(download)) = (source, flow.download_mut()) {
            source.window.catch_up(since.source, download, |download| source.allot(now, download));
        }
    }
}

/// Which connection joins, and what it is served as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joining {
    /// Its slot in the gateway's table.
    pub slot: u32,
    /// Its host in the registry of the access side.
    pub host: u32,
    /// Tells it from others that have its slot at other times.
    pub serial: u64,
}

impl Served<'_> {
    /// A connection joins.
    pub fn join(&mut self, now: Time, joining: Joining, flow: &SplitFlow) -> Member {
        let Served { aggregate, host, .. } = self;
        let (mss, handshake) = flow
            .managed_sender()
            .map_or((aggregate.mss, None), |sender| (sender.mss(), sender.rtt().latest()));
        aggregate.on_join(now, mss, handshake);
        if let Some(uplink) = &mut host.uplink {
            uplink.set_mss(aggregate.mss);
            if let Some(rtt) = handshake {
                uplink.on_round_trip(now, rtt);
            }
        }
        let place = host.members.join(joining.slot);
        let most = self.most_with(Promise::default(), 0, mss);
        let part = self.host.part_in(now, self.aggregate);
        let mut situation = self.aggregate.situation(now, part, most);
        situation.active += 1;
        Member {
            host: joining.host,
            part,
            place,
            serial: joining.serial,
            first_edge: flow.managed_edge(),
            received: flow.managed_received(),
            active_at: now,
            tickets: 1,
            interactive: self.aggregate.config.interactive.0,
            lost: flow.managed_sender().map_or(0, Sender::bytes_lost),
            rate: SlidingRate::new(now),
            share: WindowShare::new(now, mss, FIRST_WINDOW, &situation),
            ..Member::blank()
        }
    }

    /// The sender of a connection, at `server`, may be held: it takes its place among those of its host.
    pub fn join_source(&mut self, now: Time, server: IpAddr, member: &mut Member, flow: &mut SplitFlow) {
        let measured = (self.aggregate.mss, flow.server_rtt());
        let Some(download) = flow.download_mut() else { return };
        let number = self.host.sources.join(now, server, measured, &self.aggregate.config);
        member.source = Some(number);
        if let Some(source) = self.host.sources.get_mut(number) {
            source.window.join(download);
            source.allot(now, download);
        }
    }

    /// A connection that was away is served again: it stands among the others of its host, and is told what was shared meanwhile.
    pub fn bring_back(
        &mut self,
        now: Time,
        slot: u32,
        member: &mut Member,
        (flow, since): (&mut SplitFlow, Shared),
    ) {
        member.place = self.host.members.bring_back(slot);
        member.part = self.host.part_in(now, self.aggregate);
        self.host.tell_what_was_missed(now, member, (flow, since));
    }

    /// A connection is gone. The caller takes it from [`Host::members`].
    pub fn leave(&mut self, now: Time, member: &mut Member) {
        if let Some(source) = member.source {
            self.host.sources.leave(source);
        }
        self.host.memory.to.leave(&mut member.to);
        self.host.memory.from.leave(&mut member.from);
        self.aggregate.on_leave(now, member);
    }

    /// Looks at a connection that something happened to. Returns whether the link has come back from a
    /// stall.
    pub fn sync(&mut self, now: Time, slot: u32, member: &mut Member, flow: &mut SplitFlow) -> bool {
        let Served { aggregate, host, .. } = self;
        let Some(mobile) = flow.mobile_side() else { return false };
        let held = flow.allocated();
        host.memory.to.hold(&mut member.to, held[mobile.other().index()]);
        host.memory.from.hold(&mut member.from, held[mobile.index()]);
        host.memory.needs(flow.buffers());
        let (received, server_rtt) = (flow.managed_received(), flow.server_rtt());
        let class = aggregate.config.class_of(flow.ports(), flow.managed_dscp());
        let stamp = flow.take_stamp();
        let Some(sender) = flow.managed_sender_mut() else { return false };
        let feedback =
            sender.grant_mut().map(|grant| core::mem::take(&mut grant.feedback)).unwrap_or_default();
        host.waited = None;
        let mut waited = None;
        if let Some(stamp) = stamp {
            let rtt = aggregate.srtt().unwrap_or_default();
            host.waited = host.clock.on_arrival(now, stamp, rtt, &mut member.arrivals);
            waited = host.waited.map(|waited| waited.at_least);
            if aggregate.is_of_one() {
                let shortest = aggregate.window.shortest();
                let trip = feedback.rtt.map(|took| Trip { took, shortest });
                waited = host.clock.at_most(now, rtt, trip, &mut member.arrivals);
            } else if let Some(waited) = host.waited {
                // What stands on the way there is others' queue as well, and no drain of one window ends it.
                host.clock.count(now, rtt, waited.about);
            }
        }
        // Where nothing is uploaded, an acknowledgment waits for the link and not behind others: that is part of the round trip.
        let uploads = host.uplink.as_ref().is_some_and(|uplink| uplink.is_used(now));
        let beside = if uploads { host.clock.mean() } else { Duration::ZERO };
        aggregate.window.set_beside(beside + aggregate.parts.beyond());
        let is_late = member.is_late();
        if feedback.lost {
            aggregate.on_loss_found(now);
        }
        let lost = sender.bytes_lost() - member.lost;
        member.lost += lost;
        if lost > 0 {
            aggregate.on_lost_of_flight(member);
        }
        // An outage loses all that was on its way; but where others are busy, it may be that their windows leave no room.
        if lost > 0 && (!aggregate.is_stalled() || aggregate.window.has_others()) {
            aggregate.window.on_lost_bytes(lost);
        }
        if feedback.acknowledgments > 0 {
            member.unanswered = None;
            member.silence = None;
        }
        if sender.in_flight() == 0 && !sender.may_send() {
            // It owes no answer: a receiver may keep its window closed for as long as it likes.
            member.unanswered = None;
            member.silence = None;
        }
        member.off_link.newest = feedback.newest.unwrap_or_default().max(member.off_link.newest);
        aggregate.compare(now, (slot, member.part), &mut member.off_link, &feedback);
        member.off_link.extra = aggregate.extra(&member.off_link, sender.rtt());
        let says = member.off_link.says(is_late);
        let is_slow = member.is_slow();
        if feedback.marked && is_slow {
            let own = sender.rtt().srtt().unwrap_or_default();
            member.off_link.on_mark(now, own, 2 * u64::from(sender.mss()));
        }
        aggregate.follow(now, slot, member, (feedback.delivered, sender));
        aggregate.count(now, member, sender);
        let backlog = sender.has_backlog() && member.silence.is_none();
        let (mss, peer_is_full) = (sender.mss(), sender.unsent() > sender.sendable());
        aggregate.set_active(now, member, backlog || member.in_flight > 0);
        let (rtt, back) = if feedback.acknowledgments > 0 {
            let at_once = feedback.delivered >= EACH * u64::from(mss);
            let from = Answering { slot, part: member.part, says, marks: !is_slow, at_once };
            aggregate.on_feedback(now, from, &feedback, waited.filter(|_| uploads))
        } else {
            (None, false)
        };
        if let (Some(uplink), Some(rtt)) = (&mut host.uplink, rtt) {
            uplink.on_round_trip(now, rtt);
        }
        if let Some(grant) = flow.managed_sender_mut().and_then(Sender::grant_mut) {
            grant.min_rtt = aggregate.min_rtt();
        }
        if backlog && !member.waiting {
            aggregate.wait(slot, member, class);
        }
        if backlog {
            aggregate.probe_soon(member);
        }
        if received > member.received {
            member.received = received;
            let is_held_up = peer_is_full || member.is_slow();
            if let (Some(parameters), false) = (aggregate.config.window_share, is_held_up) {
                let situation = self.aggregate.situation(now, member.part, self.most_for(member, mss));
                let (rate, queued, rtt) =
                    (member.rate.get(now), member.queued, server_rtt.unwrap_or(Duration::MAX));
                let own = Progress { rate, queued, received, rtt };
                member.share.on_segment(now, mss, &own, &situation, &parameters);
            }
        }
        self.offer(member, flow);
        back
    }

    /// Tells a connection how much its sender may be offered: nothing more while the link is stalled. (What
    /// was offered is never taken back, RFC 9293 §3.8.6: the sender's window runs out by itself.) And never more
    /// than there is memory for, together with what the others were promised.
    pub fn offer(&mut self, member: &mut Member, flow: &mut SplitFlow) {
        let mss = flow.managed_sender().map_or(self.aggregate.mss, Sender::mss);
        let most = self.most_for(member, mss);
        let halted = self.aggregate.is_stalled() || member.silence.is_some();
        member.halted = halted;
        flow.allot(match self.aggregate.config.window_share {
            _ if halted => 0,
            Some(_) if member.is_slow() => member.share.window().min(most).min(member.off_link.enough()),
            Some(_) => member.share.window().min(most),
            None => most,
        });
        let room = flow.managed_promised();
        // Who is idle may keep a large window, for it cannot be taken back; but not all who are idle begin at once.
        let room = if member.active { room } else { room.min(FIRST_WINDOW) };
        self.host.memory.to.promise(&mut member.to, room, !member.active);
        // Of what the host itself sends, the same.
        let sends = member.from.held > 0;
        let room = flow.promised_to_mobile();
        let room = if sends { room } else { room.min(FIRST_WINDOW) };
        self.host.memory.from.promise(&mut member.from, room, !sends);
        member.offered_more = flow.managed_edge() > member.first_edge;
    }

    /// A connection had its turn and sent `bytes`.
    pub fn on_sent(&mut self, now: Time, turn: &Turn, bytes: u64, member: &mut Member, flow: &mut SplitFlow) {
        let aggregate = &mut *self.aggregate;
        let class = aggregate.config.class_of(flow.ports(), flow.managed_dscp());
        let Some(sender) = flow.managed_sender_mut() else { return };
        let in_flight = aggregate.under_way();
        aggregate.count(now, member, sender);
        let mss = sender.mss();
        // Where connections wait for each other, nobody is to wait for what a peer keeps to itself, from the beginning.
        if bytes > 0 && aggregate.takes_turns() {
            aggregate.follow(now, turn.flow, member, (0, sender));
        }
        // A probe is no turn: it may still wait for one.
        member.waiting &= turn.serial == PROBE;
        if bytes == 0 {
            return; // its receiver has no room: it waits again when that changes
        }
        aggregate.on_send(now, (turn, member.part), (bytes, mss), in_flight);
        let averaged = aggregate.config.window_share.map_or(8, |parameters| parameters.averaged);
        member.rate.on_send(now, bytes, averaged);
        if turn.priority != INTERACTIVE {
            // Who joined began with the others' pass, not with the one it left with.
            member.pass = advance(member.pass.max(turn.pass), bytes, member.tickets);
        }
        member.interactive = member.interactive.saturating_sub(bytes);
        if sender.has_backlog() && !member.waiting && member.silence.is_none() {
            aggregate.wait(turn.flow, member, class);
        }
        self.offer(member, flow);
        self.aggregate.settle_timer(now);
    }
}
