//! What is in flight and not on the link: its peer has it and says so late, has it wait in a network of its own, or means harm. It would fill the window
//! that all share.
//!
//! On one way, what was sent first arrives first, however long the queue is. So when other peers at the host have acknowledged what was sent after a look at a
//! connection, what it had sent before is not on the link any more: it takes no place in the window, and when it is acknowledged after all, that says
//! nothing of the link. If it is most of what the connection had sent, look after look, its peer is slower than the link: it is served beside the window,
//! and until the next look may have in flight twice what was delivered since the last one, as in slow start.
use super::Aggregate;
use crate::SplitFlow;
use crate::aggregate::member::Member;
use crate::aggregate::off_link::{Flight, OffLink, SlowPeer};
use crate::aggregate::window_share::moved;
use alloc::collections::VecDeque;
use core::time::Duration;
use shorthaul_congestion::RttEstimator;
use shorthaul_tcp::Sender;
use shorthaul_types::Time;

/// By this part of a round trip, and by so much at least, what was sent first may arrive later (RACK.reo_wnd, RFC 8985 §6.2).
const REORDERING: u32 = 4;
pub(super) const LEAST_REORDERING: Duration = Duration::from_millis(5);
/// A peer is slow that was late at all looks for so long: others may only be in a shorter queue of the same link.
const SLOW_AFTER: Duration = Duration::from_millis(100);
/// Only if it was late by so many round trips of the link.
const FAR: u32 = 2;
/// So many segments for each connection are little.
const CROWDED: u64 = 8;
/// A slow peer has this many segments on their way at least (RFC 6928).
const LEAST: u64 = 10;
/// A peer is slow no more that was not at so many looks, one after the other.
const ON_TIME: u8 = 3;
/// The acknowledgment of so many segments may be delayed (RFC 9293 §3.8.6.3).
const DELAYED: u64 = 2;
/// After so long it is taken for one as others.
const FORGOTTEN: Duration = Duration::from_secs(1);
/// After so long at no look, too.
const ALONE: Duration = Duration::from_secs(10);

/// The connections that have something in flight: who is to be looked at, with its serial number and since when it waits for that, the longest first.
#[derive(Debug, Default)]
pub(super) struct Followed(VecDeque<(Time, u32, u64)>);

/// The newest of what was delivered of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newest {
    /// When it was sent, and when its acknowledgment came.
    pub sent: Time,
    pub came: Time,
    slot: u32,
}

/// The newest of what was delivered to a host, of two connections, since hosts of one group may be in different queues; or to a group, of two hosts.
#[derive(Debug, Default)]
pub(crate) struct Delivered([Option<Newest>; 2]);

impl Delivered {
    /// Something was delivered of the connection in `slot`, that was sent at `sent`.
    pub(super) fn on_delivered(&mut self, now: Time, slot: u32, sent: Time) {
        let new = Newest { sent, came: now, slot };
        let Delivered([first, second]) = self;
        match first {
            Some(newest) if newest.slot == slot => *newest = if sent < newest.sent { *newest } else { new },
            Some(newest) if newest.sent >= sent => {
                if second.is_none_or(|newest| newest.sent < sent) {
                    *second = Some(new);
                }
            }
            _ => self.0 = [Some(new), *first],
        }
    }

    /// The newest of what was delivered of others.
    pub(super) fn newest_but_of(&self, slot: u32) -> Option<Newest> {
        self.0.into_iter().flatten().find(|newest| newest.slot != slot)
    }
}

impl Aggregate {
    /// Of the connection in `slot` so much was delivered now, and so much is not.
    pub fn follow(&mut self, now: Time, slot: u32, member: &mut Member, (delivered, sender): (u64, &Sender)) {
        let (not_yet, serial, of) = (self.not_yet(sender), member.serial, &mut member.off_link);
        if delivered > 0 && of.surely_later().is_some() {
            let slow = of.slow.map(|slow| self.limited(now, slow, (delivered, sender.rtt())));
            of.slow = slow.map(|slow| SlowPeer { limit: of.limited(now, slow.limit), ..slow });
        }
        of.passed = of.passed.saturating_sub(delivered);
        if of.flight.is_none() {
            of.slow = of.slow.filter(|slow| now.saturating_since(slow.at) < FORGOTTEN);
        }
        of.flight = match of.flight {
            _ if not_yet == 0 => None,
            Some(flight) => Some(Flight { left: flight.left.saturating_sub(delivered), ..flight }),
            None => Some(Flight { since: now, bytes: not_yet, left: not_yet }),
        };
        if of.flight.is_some() && of.followed.is_none() {
            of.followed = Some(now);
            self.followed.0.push_back((now, slot, serial));
        }
    }

    /// What was sent and not delivered yet, as far as it matters: what is lost is not late, and where it is more probable, only what is not known to be is looked at.
    fn not_yet(&self, sender: &Sender) -> u64 {
        if self.is_crowded() { sender.in_flight() } else { sender.undelivered() }
    }

    /// Something of a connection is lost: what it sends again leaves later than what it had on its way at the last look.
    pub fn on_lost_of_flight(&mut self, member: &mut Member) {
        if self.is_crowded() {
            member.off_link.flight = None;
        }
    }

    /// By how much what was sent first may arrive later.
    pub(super) fn reordered(&self) -> Duration {
        (self.rtt.min_rtt().unwrap_or_default() / REORDERING).max(LEAST_REORDERING) + self.late
    }

    /// What a connection has in flight that is not on the link. What is sent again is.
    pub(super) fn count_overtaken(&mut self, member: &mut Member, sender: &Sender) {
        let (in_flight, of) = (member.in_flight, &mut member.off_link);
        of.passed = if of.slow.is_some() { in_flight } else { of.passed.min(in_flight) };
        of.elsewhere = 0;
        if !of.extra.is_zero() {
            // A part of its round trip is spent elsewhere, and so is that part of what it has in flight.
            let own = sender.rtt().srtt().unwrap_or_default().max(of.extra).as_nanos();
            of.elsewhere = (of.extra.as_nanos() * u128::from(in_flight) / own) as u64;
        }
        moved(&mut self.off_link, &mut of.counted, of.passed.max(of.elsewhere));
    }

    /// When the newest was sent of what was delivered to the host with this part, of others than the connection in `slot`.
    fn newest_but_of(&self, (slot, part): (u32, u32)) -> Option<Time> {
        Some(self.parts.get(part)?.delivered.newest_but_of(slot)?.sent)
    }

    /// Whether what the connection in `slot` of the host with this part sent then has waited elsewhere than on the link: others' deliveries have
    /// overtaken it by more than is reordered.
    pub(super) fn is_behind(&self, whose: (u32, u32), sent: Time) -> bool {
        self.newest_but_of(whose).is_some_and(|newest| sent + self.reordered() < newest)
    }

    /// Whether other hosts of the group have what was sent so much later than this that no way explains it: they wait in the same queue.
    fn is_overtaken_by_others(&self, part: u32, since: Time) -> bool {
        let after = since + self.parts.distance(part) + self.reordered();
        self.delivered.newest_but_of(part).is_some_and(|newest| newest.sent > after)
    }

    /// How long a connection waits to be looked at. By the shortest round trip: the smoothed one may be what slow peers make it.
    fn pause(&self) -> Duration {
        self.rtt.min_rtt().unwrap_or_default() + self.reordered()
    }

    /// The slot and the serial number of a connection that is to be looked at, and since when it waits for that.
    pub fn next_followed(&mut self, now: Time) -> Option<(Time, u32, u64)> {
        let pause = self.pause();
        self.followed.0.pop_front_if(|(since, ..)| *since + pause <= now)
    }

    /// Looks what others' deliveries have overtaken of a connection that waits for that since then.
    pub fn look_at(&mut self, now: Time, (since, slot): (Time, u32), member: &mut Member, flow: &SplitFlow) {
        if member.off_link.followed != Some(since) {
            return;
        }
        member.off_link.followed = None;
        let (Some(flight), Some(sender)) = (member.off_link.flight, flow.managed_sender()) else { return };
        let not_yet = self.not_yet(sender);
        let next = Flight { since: now, bytes: not_yet, left: not_yet };
        if self.newest_but_of((slot, member.part)).is_some_and(|sent| sent > flight.since)
            && !self.is_crowded()
        {
            // What it lacks itself before what was delivered of it is lost, and not late.
            let left = if member.off_link.newest > flight.since { 0 } else { flight.left };
            self.judge(now, &mut member.off_link, Flight { left, ..flight });
            member.off_link.passed = member.off_link.passed.max(left.min(member.in_flight));
            member.off_link.flight = Some(next);
            self.count(now, member, sender);
        } else if self.is_crowded() && self.is_overtaken_by_others(member.part, flight.since) {
            // Lost or late, it is not on the link, and nobody has to wait for it.
            member.off_link.passed = member.off_link.passed.max(flight.left.min(member.in_flight));
            member.off_link.flight = Some(next);
            self.count(now, member, sender);
        } else if let Some(slow) = member.off_link.slow {
            // Nobody else is there to compare with: it is not slow if all arrives within the shortest round trip, or after a while. Until then it has twice as much
            // on its way each time that all has arrived.
            let at_first_look = now.saturating_since(flight.since) < 2 * self.pause();
            if now.saturating_since(slow.at) >= ALONE {
                member.off_link.slow = None;
            } else if flight.left == 0 && at_first_look {
                self.judge(now, &mut member.off_link, flight);
            } else if flight.left == 0 {
                let limit = slow.limit.max(self.at_first(flight.bytes));
                let limit = member.off_link.limited(now, limit);
                member.off_link.slow = Some(SlowPeer { limit, ..slow });
            }
            if flight.left == 0 {
                member.off_link.flight = Some(next);
            }
            self.count(now, member, sender);
        }
        self.follow(now, slot, member, (0, sender));
    }

    /// Whether hosts share a link of which each connection has so little that what was overtaken is probably lost.
    fn is_crowded(&self) -> bool {
        self.is_shared() && self.is_little()
    }

    /// Whether each connection has so little of the window that it may wait behind others' for more than a round trip.
    pub(super) fn is_little(&self) -> bool {
        self.window() < CROWDED * u64::from(self.mss) * self.parts.active() as u64
    }

    /// Twice what was delivered, and ten segments: what a slow peer may have in flight, and no more than all have.
    fn at_first(&self, delivered: u64) -> u64 {
        (2 * delivered + LEAST * u64::from(self.mss)).min(self.window())
    }

    /// Others' deliveries have overtaken what is left of this.
    fn judge(&self, now: Time, of: &mut OffLink, flight: Flight) {
        let most_is = 2 * flight.left > flight.bytes && flight.left > DELAYED * u64::from(self.mss);
        // Who is only a little farther away has a part of the link as others.
        let late_by = now.saturating_since(of.newest).saturating_sub(of.extra);
        let is_far = self.is_little() || late_by > FAR * self.rtt.srtt().unwrap_or_default();
        let is_late = most_is && (is_far || of.slow.is_some());
        of.late_since = is_late.then(|| of.late_since.unwrap_or(now));
        let lasts = of.late_since.is_some_and(|since| now.saturating_since(since) >= SLOW_AFTER);
        let (at, on_time) = match of.slow {
            _ if lasts => (now, 0),
            Some(slow) if is_late => (slow.at, 0),
            Some(slow) if slow.on_time + 1 < ON_TIME => (slow.at, slow.on_time + 1),
            _ => return of.slow = None,
        };
        of.slow = Some(match of.slow {
            Some(slow) if of.surely_later().is_some() => SlowPeer { on_time, at, ..slow },
            _ => {
                let limit = of.limited(now, self.at_first(flight.bytes - flight.left));
                let held_until = of.slow.map_or(Time::ZERO, |slow| slow.held_until);
                SlowPeer { limit, since: now, delivered: 0, on_time, at, held_until }
            }
        });
    }

    /// So much was delivered to a slow peer that is always later than others. It may have in flight twice what it is delivered in its shortest round trip.
    /// Its rate is that from one delivery to another, however seldom they are.
    fn limited(&self, now: Time, slow: SlowPeer, (delivered, own): (u64, &RttEstimator)) -> SlowPeer {
        let slow = SlowPeer { delivered: slow.delivered + delivered, ..slow };
        let took = now.saturating_since(slow.since);
        if took < own.srtt().unwrap_or_default().max(self.pause()) {
            return slow;
        }
        let rounds = own.min_rtt().unwrap_or_default().as_secs_f64() / took.as_secs_f64();
        let limit = (2.0 * slow.delivered as f64 * rounds) as u64 + LEAST * u64::from(self.mss);
        SlowPeer { limit: limit.min(self.window()), since: now, delivered: 0, ..slow }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_others_is_known_of_whomever() {
        let at = Time::from_millis;
        let mut delivered = Delivered::default();
        assert!(delivered.newest_but_of(1).is_none());
        for (slot, sent) in [(1, 10), (1, 30), (2, 20), (3, 15), (2, 25), (2, 22)] {
            delivered.on_delivered(at(sent), slot, at(sent));
        }
        let newest = |delivered: &Delivered| {
            [1, 2, 3].map(|slot| delivered.newest_but_of(slot).map(|newest| newest.sent))
        };
        assert_eq!(newest(&delivered), [25, 30, 30].map(|sent| Some(at(sent))));
        delivered.on_delivered(at(41), 3, at(40));
        assert_eq!(newest(&delivered), [40, 40, 30].map(|sent| Some(at(sent))));
    }
}
