//! Flows that say nothing are put away, and brought back when a packet of them comes: what they know stays, and takes a fraction of the
//! memory.
//!
//! Who is to be put away is found in the order in which flows were heard of, so that it costs nothing of those that have been. Of a flow
//! that is away there is its key, its place in the table and its [`Packed`] numbers: the host and its part in the aggregate of
//! that, and the flow itself. Among the connections of its host it is counted, and nobody goes through it when something is shared anew;
//! what it missed of that it is told when it is brought back.
use super::Gateway;
use super::table::{Entry, Phase};
use crate::FlowInfo;
use crate::access_side::{AccessSide, Place};
use crate::aggregate::{Member, Shared, Uplink};
use crate::end::Side;
use crate::put_away::Packed;
use crate::split_flow::SplitFlow;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use shorthaul_types::{Blank, Deadline, Keep, Numbers, Time};

/// Flows that are looked at, at once and before others have their turn.
const AT_ONCE: usize = 64;
/// The time for which others have their turn.
const TURN: Duration = Duration::from_millis(1);
/// A flow that cannot be put away is looked at again after so many times the time of silence, and after this time at least.
const LATER: u32 = 4;
const AGAIN: Duration = Duration::from_millis(100);

/// Flows that may have fallen silent.
#[derive(Debug, Default)]
pub(super) struct Silent {
    /// When each is looked at, by its slot and its serial number.
    heard: VecDeque<(Time, u32, u64)>,
    /// None is looked at before.
    not_before: Option<Time>,
    /// How many flows are away.
    away: usize,
}

/// Flows, for who only wants to know of those that say nothing that they are there.
#[derive(Clone, Debug, Default)]
pub struct Brief {
    /// The others, and some of those.
    pub flows: Vec<FlowInfo>,
    /// Those that are put away: the address at the access side of each.
    pub silent: Vec<IpAddr>,
}

/// So many places of the table are told of in full in any case: who has few flows sees them all.
const IN_FULL: usize = 64;

/// What of a flow that is away is kept of its place at the access side.
struct KeptPlace {
    host: u32,
    member: Option<(Box<Member>, Shared)>,
}

impl KeptPlace {
    fn put(place: Option<&Place>, shared: impl FnOnce(&Member) -> Shared, to: &mut Vec<u64>) {
        place.is_some().put(to);
        let Some(Place { host, member, .. }) = place else { return };
        host.put(to);
        member.is_some().put(to);
        if let Some(member) = member {
            member.put(to);
            shared(member).put(to);
        }
    }

    /// The place, if it had one; `None` outside where the numbers say nothing.
    fn take(from: &mut Numbers<'_>) -> Option<Option<KeptPlace>> {
        let (mut is_some, mut host, mut has_member) = (false, 0, false);
        is_some.take(from)?;
        if !is_some {
            return Some(None);
        }
        host.take(from)?;
        has_member.take(from)?;
        let mut member = has_member.then(|| (Box::new(Member::blank()), Shared::default()));
        if let Some((member, shared)) = &mut member {
            member.take(from)?;
            shared.take(from)?;
            member.host = host;
        }
        Some(Some(KeptPlace { host, member }))
    }
}

impl Gateway {
    /// How many of the flows that are known are away: they say nothing.
    pub fn flows_put_away(&self) -> usize {
        self.silent.away
    }

    /// Something was heard of a split flow.
    pub(super) fn note_heard(&mut self, index: u32) {
        let Some(after) = self.config.put_away else { return };
        let at = self.now + after;
        if let Some(entry) = self.table.get_mut(index)
            && !core::mem::replace(&mut entry.is_looked_at, true)
        {
            self.silent.heard.push_back((at, index, entry.serial));
        }
    }

    /// When a flow is to be looked at whether it says nothing.
    pub(super) fn next_look_for_silence(&self) -> Option<Deadline> {
        let &(at, ..) = self.silent.heard.front()?;
        let at = self.silent.not_before.map_or(at, |not_before| at.max(not_before));
        Some(Deadline { at, timer: "put-away" })
    }

    /// Puts away what has been silent for long, of some flows.
    pub(super) fn put_silent_away(&mut self, now: Time) {
        let Some(after) = self.config.put_away else { return };
        if self.silent.not_before.is_some_and(|at| at > now) {
            return;
        }
        self.silent.not_before = None;
        for looked_at in 0.. {
            let due = self.silent.heard.front().filter(|(at, ..)| *at <= now);
            let Some(&(_, index, serial)) = due else { return };
            if looked_at == AT_ONCE {
                self.silent.not_before = Some(now + TURN);
                return;
            }
            self.silent.heard.pop_front();
            let Some(entry) = self.table.get_mut(index).filter(|entry| entry.serial == serial) else {
                continue;
            };
            if !matches!(entry.phase, Phase::Split(_)) {
                entry.is_looked_at = false;
                continue;
            }
            let silent_at = entry.last_active + after;
            let again = if silent_at > now {
                silent_at
            } else if self.put_away(now, index) {
                continue;
            } else {
                now + (LATER * after).max(AGAIN)
            };
            self.silent.heard.push_back((again, index, serial));
        }
    }

    /// Puts a flow away, if nothing happens to it until a packet comes. Says whether that is so.
    fn put_away(&mut self, now: Time, index: u32) -> bool {
        let Gateway { config, access, table, .. } = self;
        let Some(entry) = table.get_mut(index) else { return false };
        let Entry { phase: Phase::Split(flow), place, policy, .. } = entry else { return false };
        let place = place.as_deref();
        let is_alone = place.is_none_or(|place| place.queue.is_none() && place.link.is_none());
        let is_served =
            place.and_then(|place| place.member.as_deref()).is_some_and(|member| !member.is_still());
        let is_due = entry.ready || entry.custody_due || entry.is_short_of_custody;
        if !is_alone || is_served || is_due || entry.allocated != [0; 2] {
            return false;
        }
        let mut numbers = Vec::with_capacity(crate::put_away::USUAL);
        flow.access_side().map(|side| side == Side::Client).put(&mut numbers);
        KeptPlace::put(place, |member| access.shared_with(member), &mut numbers);
        let segments = place.map_or([0; 2], |place| access.segments_of(place));
        if !flow.put_away(now, segments, &mut numbers) {
            return false;
        }
        let policy = &config.policies[usize::from(*policy)];
        if Self::unpacked(now, &numbers, policy).is_none() {
            return false;
        }
        let place = entry.place.take();
        entry.phase = Phase::Away(Packed::of(&numbers));
        entry.is_looked_at = false;
        self.silent.away += 1;
        self.counters.flows_put_away += 1;
        if let Some(mut member) = place.and_then(|place| place.member)
            && let Some(host) = self.access.host_mut(member.host)
        {
            let moved = host.members.put_away(&mut member);
            if let Some((_, other)) = moved.and_then(|moved| self.table.aggregated(moved)) {
                other.place = member.place;
            }
        }
        true
    }

    /// What was put away as these numbers.
    fn unpacked(
        now: Time,
        numbers: &[u64],
        policy: &crate::Policy,
    ) -> Option<(Option<KeptPlace>, SplitFlow)> {
        let mut from = Numbers(numbers);
        Self::take_access_side(&mut from)?;
        let place = KeptPlace::take(&mut from)?;
        Some((place, SplitFlow::bring_back(now, &mut from, policy)?))
    }

    /// The end at the access side, if one is.
    fn take_access_side(from: &mut Numbers<'_>) -> Option<Option<Side>> {
        let mut is_client = None;
        Keep::take(&mut is_client, from)?;
        Some(is_client.map(|is_client: bool| if is_client { Side::Client } else { Side::Server }))
    }

    /// The flows in `most` places of the table from `from` on, those that are away in brief, and where to go on, if there are more.
    pub fn flows_in_brief(&self, from: usize, most: usize) -> (Brief, Option<usize>) {
        let entries = self.table.entries.get(from..).unwrap_or_default();
        let mut brief = Brief::default();
        for (place, entry) in (from..).zip(entries.iter().take(most)) {
            let Some(entry) = entry else { continue };
            match &entry.phase {
                Phase::Away(packed) if place >= IN_FULL => {
                    let numbers: Vec<u64> = packed.numbers().take(2).collect();
                    let key = entry.key();
                    let ends = [key.src.ip(), key.dst.ip()];
                    let side = Self::take_access_side(&mut Numbers(&numbers)).flatten();
                    brief.silent.push(ends[side.unwrap_or(Side::Client).index()]);
                }
                _ => brief.flows.push(self.flow_info(entry)),
            }
        }
        (brief, (entries.len() > most).then_some(from + most))
    }

    /// A flow of which something comes goes on as if it never had been away. Nothing happens to any other.
    pub(super) fn bring_back(&mut self, now: Time, index: u32) {
        let Gateway { config, access, table, .. } = self;
        let Some(entry) = table.get_mut(index).filter(|entry| matches!(entry.phase, Phase::Away(_))) else {
            return;
        };
        let Phase::Away(packed) = core::mem::replace(&mut entry.phase, Phase::Closed) else { return };
        self.silent.away -= 1;
        let numbers = packed.to_numbers();
        let policy = &config.policies[usize::from(entry.policy)];
        let Some((place, flow)) = Self::unpacked(now, &numbers, policy) else {
            debug_assert!(false, "what was put away was looked at");
            entry.phase = Phase::Away(packed);
            self.silent.away += 1;
            return self.remove(index); // its ends go on with each other
        };
        let mut flow = Box::new(flow);
        entry.place = place.map(|KeptPlace { host, member }| {
            let member = member.and_then(|(mut member, shared)| {
                access.served(host)?.bring_back(now, index, &mut member, (&mut flow, shared));
                Some(member)
            });
            Box::new(Place { host, queue: None, link: None, member })
        });
        entry.phase = Phase::Split(flow);
        self.counters.flows_brought_back += 1;
        self.note_heard(index);
    }

    /// A flow that is away is no more: it leaves its place at the access side.
    pub(super) fn forget_put_away(&mut self, packed: &Packed) {
        self.silent.away -= 1;
        let now = self.now;
        let numbers: Vec<u64> = packed.numbers().take(MOST_OF_PLACE).collect();
        let mut from = Numbers(&numbers);
        let place = Self::take_access_side(&mut from).and_then(|_| KeptPlace::take(&mut from));
        let Some(Some(KeptPlace { host, member })) = place else { return };
        if let Some((mut member, _)) = member
            && let Some(mut served) = self.access.served(host)
        {
            served.leave(now, &mut member);
            served.host.members.forget_put_away();
            let group = served.host.group;
            self.access.wake(group);
        }
        self.access.leave(now, host);
    }

    /// A flow that is away, as it would be if it were brought back.
    pub(super) fn as_brought_back<R>(
        &self,
        entry: &Entry,
        see: impl FnOnce(&SplitFlow, Option<&Member>) -> R,
    ) -> Option<R> {
        let Phase::Away(packed) = &entry.phase else { return None };
        let numbers = packed.to_numbers();
        let policy = &self.config.policies[usize::from(entry.policy)];
        let (place, mut flow) = Self::unpacked(self.now, &numbers, policy)?;
        let Some((member, since)) = place.and_then(|place| place.member) else {
            return Some(see(&flow, None));
        };
        if let Some(host) = self.access.host(member.host) {
            host.tell_what_was_missed(self.now, &member, (&mut flow, since));
        }
        Some(see(&flow, Some(&member)))
    }

    /// What people see of a flow that is away.
    pub(super) fn info_of_put_away(&self, entry: &Entry) -> Option<FlowInfo> {
        self.as_brought_back(entry, |flow, member| {
            let info = self.with_group(flow.info(self.now), flow, member.map(|member| member.host));
            FlowInfo { policy: entry.policy, ..info }
        })
    }
}

/// Segments are no larger on nearly all paths.
const USUAL: u64 = 1460;
/// No place takes more numbers.
const MOST_OF_PLACE: usize = 256;

impl AccessSide {
    /// The sizes of segments that the uplink of a flow's host and the window of its wired sender count with, now or when others have joined.
    fn segments_of(&self, place: &Place) -> [u64; 2] {
        let Some(host) = self.host(place.host) else { return [0; 2] };
        let source = place.member.as_ref().and_then(|member| host.sources.get(member.source?));
        let mss = [host.uplink.as_ref().map(Uplink::mss), source.map(|source| source.window.mss())];
        mss.map(|mss| mss.map_or(0, |mss| mss.max(USUAL)))
    }

    /// What the senders of a connection have shared anew so far.
    fn shared_with(&self, member: &Member) -> Shared {
        self.host(member.host).map_or_else(Shared::default, |host| host.shared_with(member))
    }
}
