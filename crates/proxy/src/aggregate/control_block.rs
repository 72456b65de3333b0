//! The aggregate control block (AGG §IV-B, Fig. 6): what the connections to the hosts of a bottleneck group share in
//! sending.
mod farther;
mod overtaking;
mod stall;
mod tail_probe;
mod turns;

use super::config::{AggregateConfig, INTERACTIVE};
use super::joined::Joined;
use super::member::{Member, Silence};
use super::off_link::Says;
use super::part::Parts;
use super::skipack::{DELAYED_ACK, SkipackLog, Skipped};
use super::stride::Turn;
use super::window::SharedWindow;
use super::window_share::{Situation, moved};
use crate::common_drain::is_farther;
use crate::unsplit::UnderWay;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::sync::Arc;
use core::cmp::Reverse;
use core::time::Duration;
pub(super) use overtaking::Delivered;
use overtaking::Followed;
use shorthaul_congestion::{Delivery, Pacer, RttConfig, RttEstimator};
use shorthaul_tcp::{Feedback, Sender};
use shorthaul_types::{BitRate, Time};
pub(crate) use stall::Patience;
use stall::Question;
use tail_probe::TailProbe;

/// By how much longer than RFC 6298 says the timer runs where the window is found, at most; and by no more than that time again.
const SPARED: Duration = Duration::from_secs(2);
/// A rate of all connections is the mean over this many segments.
const AVERAGED: u32 = 16;
/// The peak falls toward the window by this part with each acknowledgment.
const PEAK_FALLS: u64 = 1000;
/// The headers of a segment: IPv4, TCP and timestamps.
const HEADERS: u64 = 52;
/// A bottleneck of which nothing was acknowledged for this long is not measured.
const MEASURED: Duration = Duration::from_secs(1);

/// For so long nobody needs to be asked who is farther away.
const CLEAN: Duration = Duration::from_millis(200);
/// Whoever is still farther away after so many drains is.
const UNSURE: u8 = 8;

/// The wireless link carries nothing: one segment at a time probes it.
#[derive(Clone, Copy, Debug)]
struct Stall {
    since: Time,
    probes: u32,
    probed_at: Time,
}

/// What a timer of an aggregate asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expired {
    /// Nothing is due but to look again whether something may leave.
    Look,
    /// The retransmission timer: a connection is to be chosen that probes the link.
    Probe,
    /// A tail loss probe is due: a connection is to be chosen that sends something new, or, where nobody has any, its last segment again.
    TailProbe,
    /// Silent connections are to be asked again.
    Ask,
}

/// Of which connection acknowledgments have come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answering {
    pub slot: u32,
    /// The part of its host.
    pub part: u32,
    /// What they say of the link.
    pub says: Says,
    /// Whether a mark is the link's: that of a slow peer may be its own network's.
    pub marks: bool,
    /// Whether they came as soon as what they acknowledge: a receiver may keep that of a single segment (RFC 5681 §4.2).
    pub at_once: bool,
}

/// What the connections to the hosts of one group share: window, round-trip time, pacer, transmission log, turns.
#[derive(Debug)]
pub(crate) struct Aggregate {
    pub config: Arc<AggregateConfig>,
    pub window: SharedWindow,
    /// The largest window of late: what is queued here must not run out when a link becomes faster again.
    peak: u64,
    pub rtt: RttEstimator,
    pub pacer: Pacer,
    pub log: SkipackLog,
    /// What its hosts have of their own, and whose turn it is.
    pub parts: Parts,
    /// When the newest of what was delivered was sent, of two hosts.
    delivered: Delivered,
    pub mss: u32,
    in_flight: u64,
    /// Of that, what is not on the link.
    off_link: u64,
    /// What is queued here of all connections.
    queued: u64,
    stall: Option<Stall>,
    /// Who is to send one segment, whatever the window says: to probe the link, or its own peer.
    asking: VecDeque<u32>,
    /// When silent connections are to be asked again, the next one first. Some may have answered meanwhile.
    questions: BinaryHeap<Reverse<Question>>,
    /// When the last stall began.
    stalled_at: Time,
    /// When the link was last back from a stall.
    back_at: Time,
    pub rto_at: Option<Time>,
    tail_probe: TailProbe,
    followed: Followed,
    pace_at: Option<Time>,
    /// How late timers are served.
    late: Duration,
    /// What is under way of what is not split.
    unsplit: UnderWay,
    /// When to look again whether that is through.
    look_at: Option<Time>,
    /// When the last acknowledgment came.
    fed_at: Time,
    /// When a connection last measured a round trip that is no farther away than the others.
    clean_at: Time,
    /// When a connection last sent something in its turn.
    sent_at: Time,
    /// What the bottleneck is known to carry, IP headers counted.
    most: Option<BitRate>,
    /// When it began.
    pub since: Time,
    /// Nothing leaves before, so that it is seen who shares the queue.
    held_until: Time,
    /// The round trip that the last acknowledgment measured, as it would be of the nearest host.
    pub measured: Option<Duration>,
    /// After so many drains of all groups its shortest round trip is taken to be without a queue of theirs.
    pub unsure: u8,
    /// Its hosts were not said to share a bottleneck: they lost too much without, and are served together since then.
    pub joined: Option<Joined>,
    /// It is not served together with others before.
    pub apart_until: Time,
    /// That round trip, when there was no doubt of it.
    known: Duration,
}

impl Aggregate {
    pub fn new(now: Time, mss: u32, config: Arc<AggregateConfig>) -> Self {
        Aggregate {
            window: SharedWindow::new(now, &config, mss),
            config,
            peak: 0,
            rtt: RttEstimator::new(RttConfig::LINUX),
            pacer: Pacer::new(mss),
            log: SkipackLog::default(),
            parts: Parts::default(),
            delivered: Delivered::default(),
            mss,
            in_flight: 0,
            off_link: 0,
            queued: 0,
            stall: None,
            asking: VecDeque::new(),
            questions: BinaryHeap::new(),
            stalled_at: Time::ZERO,
            back_at: Time::ZERO,
            rto_at: None,
            tail_probe: TailProbe::default(),
            followed: Followed::default(),
            pace_at: None,
            late: Duration::ZERO,
            unsplit: UnderWay::default(),
            look_at: None,
            fed_at: Time::ZERO,
            clean_at: Time::ZERO,
            sent_at: Time::ZERO,
            most: None,
            since: now,
            held_until: Time::ZERO,
            measured: None,
            unsure: UNSURE,
            known: Duration::MAX,
            joined: None,
            apart_until: Time::ZERO,
        }
    }

    /// Whether the shortest round trip of its path was measured without a queue of other groups, of which the nearest is so far away.
    pub fn knows_path(&mut self, nearest: Duration) -> bool {
        let Some((shortest, _)) = self.window.path() else { return false };
        if !is_farther(shortest, nearest) {
            (self.unsure, self.known) = (0, shortest);
        } else if self.unsure == 0 && is_farther(shortest, self.known) {
            self.unsure = UNSURE;
        }
        self.unsure == 0
    }

    /// All groups that may share a queue hold back now; the path of one of them takes no longer than `nearest`.
    pub fn drain(&mut self, now: Time, nearest: Duration) {
        // Who knows its path may be farther away.
        let nearest = if self.unsure == 0 { Duration::MAX } else { nearest };
        self.unsure = self.unsure.saturating_sub(1);
        self.window.drain(now, nearest);
        self.pace();
    }

    /// Nothing leaves until then.
    pub fn hold(&mut self, until: Time) {
        self.held_until = until;
    }

    /// A connection comes from another group to the host with this part, as it stands.
    pub fn on_move(
        &mut self,
        now: Time,
        (slot, part): (u32, u32),
        member: &mut Member,
        sender: &Sender,
        active: bool,
    ) {
        self.mss = self.mss.max(sender.mss());
        self.pacer.set_mss(self.mss);
        self.window.set_mss(self.mss);
        member.part = part;
        member.waiting = false;
        (member.off_link.followed, member.kept_at) = (None, None);
        member.active = active;
        if active {
            self.parts.set_active(part, true);
        }
        // What it has on its way is in the former group's log: here it is taken to have been sent now, or nobody would miss it.
        if sender.in_flight() > 0 {
            self.log.on_send(now, slot);
        }
        if let Some(Silence { ask_at, .. }) = member.silence {
            self.questions.push(Reverse(Question { at: ask_at, slot, serial: member.serial }));
        } else {
            // That nothing was answered by the former link says nothing of this one.
            member.unanswered = member.unanswered.map(|_| now);
        }
        self.count(now, member, sender);
        self.on_active(now);
    }

    /// Who was to send one segment in another group is to do so in this one.
    pub fn ask_too(&mut self, asking: VecDeque<u32>) {
        self.asking.extend(asking);
    }

    /// Who is to send one segment, whatever the window says. They are nobody's any more.
    pub fn take_asking(&mut self) -> VecDeque<u32> {
        core::mem::take(&mut self.asking)
    }

    /// Hosts come from a group that served them with this window, where round trips are known: it is more than the own one.
    pub fn on_merge(&mut self, from: &RttEstimator, window: u64) {
        if self.rtt.srtt().is_none() {
            self.rtt = from.clone();
        }
        self.window.take_over(window);
        self.pace();
    }

    /// A host is served, too, of which nothing was measured: each has as much of the window as before.
    pub fn make_room(&mut self) {
        let hosts = self.parts.len().max(1) as u64;
        self.window.take_over(self.window().saturating_mul(hosts + 1) / hosts);
        self.pace();
    }

    /// Segments of `mss` bytes are sent, too. What a handshake measured is all that is known of a new host's round trip.
    pub fn on_join(&mut self, now: Time, mss: u32, handshake: Option<Duration>) {
        self.mss = self.mss.max(mss);
        self.pacer.set_mss(self.mss);
        self.window.set_mss(self.mss);
        match (self.rtt.srtt(), handshake) {
            (None, Some(rtt)) => self.rtt.on_sample(now, rtt),
            (None, None) => self.rtt.on_syn_retransmitted(), // it measured nothing: the path may be a long one
            _ => {}
        }
        self.pace();
    }

    /// A connection is gone, and what was in flight of it with it.
    pub fn on_leave(&mut self, now: Time, member: &mut Member) {
        moved(&mut self.in_flight, &mut member.in_flight, 0);
        moved(&mut self.off_link, &mut member.off_link.counted, 0);
        self.set_queued(now, member, 0);
        if core::mem::take(&mut member.active) {
            self.parts.set_active(member.part, false);
        }
        self.on_active(now);
        self.settle_timer(now);
    }

    /// How things stand for a connection of the host with this part, whose window is at most `most`.
    pub fn situation(&self, now: Time, part: u32, most: u64) -> Situation {
        let surplus = self.config.window_share.map_or(1.0, |parameters| parameters.surplus);
        let (due, active, rate, queued_time) = self.parts.share(part, now);
        let active = active.max(1);
        Situation {
            mean_rate: rate / active as f64,
            queued_time,
            target: surplus * self.peak.max(self.window()) as f64 * due,
            active,
            most,
        }
    }

    /// What is queued here of all connections, in bytes.
    pub fn queued(&self) -> u64 {
        self.queued
    }

    fn set_queued(&mut self, now: Time, member: &mut Member, queued: u64) {
        if let Some(part) = self.parts.get_mut(member.part) {
            self.queued = self.queued - member.queued + queued;
            part.backlog.moved(now, &mut member.queued, queued);
        }
    }

    /// What a connection has on its way and in its queue counts for its group, unless its peer is silent.
    pub fn count(&mut self, now: Time, member: &mut Member, sender: &Sender) {
        let counts = u64::from(member.silence.is_none());
        moved(&mut self.in_flight, &mut member.in_flight, counts * sender.in_flight());
        self.count_overtaken(member, sender);
        // What the connection's own peer has no room for, or is too slow for, does not wait for the link.
        let waits = counts * u64::from(!member.is_slow());
        self.set_queued(now, member, waits * sender.sendable());
        self.settle_timer(now);
    }

    pub fn set_active(&mut self, now: Time, member: &mut Member, active: bool) {
        if active && !member.active {
            self.parts.set_active(member.part, true);
            let silent = now.saturating_since(member.active_at);
            if self.rtt.srtt().is_none_or(|srtt| silent >= srtt) {
                member.interactive = self.config.interactive.0;
            }
        } else if member.active && !active {
            self.parts.set_active(member.part, false);
        }
        if active {
            member.active_at = now;
        }
        if core::mem::replace(&mut member.active, active) != active {
            self.on_active(now);
        }
    }

    /// The bottleneck is known to carry no more than this, IP headers counted.
    pub fn set_most(&mut self, most: Option<BitRate>) {
        self.most = most;
        self.pace();
    }

    /// The pacer counts bytes of payload in full segments. They are this much of what is on the wire.
    fn payload_of(&self, wire: u64) -> u64 {
        let mss = u64::from(self.mss);
        (u128::from(wire) * u128::from(mss) / u128::from(mss + HEADERS)) as u64
    }

    /// What the pacer counts of `bytes` in segments of `mss`: where the link's rate is known, the headers of short ones take a part of it.
    fn paced(&self, bytes: u64, mss: u32) -> u64 {
        if self.most.is_none() || mss >= self.mss {
            return bytes;
        }
        self.payload_of(bytes + bytes.div_ceil(u64::from(mss.max(1))) * HEADERS)
    }

    /// There are more active connections now, or fewer.
    fn on_active(&mut self, now: Time) {
        let shared_by = (self.parts.active(), self.busy_hosts());
        self.window.set_connections(now, shared_by, self.mss, self.rtt.srtt());
        self.pace();
    }

    pub fn wait(&mut self, slot: u32, member: &mut Member, (priority, tickets): (u8, u32)) {
        member.waiting = true;
        member.tickets = tickets;
        // Among what is interactive nobody has a share: one after the other they end sooner, on average, than all at the end.
        let (priority, pass) = match member.interactive {
            0 => (priority, member.pass),
            _ => (INTERACTIVE, 0),
        };
        let turn = Turn { flow: slot, serial: member.serial, priority, pass, unsplit: false };
        self.parts.wait(member.part, turn);
    }

    /// Acknowledgments have come. Returns the round trip that they measured, and whether the link has come back from a stall.
    /// They have waited this long on their way at most, if that is known: that is no queue of ours. The round trip is without it.
    pub fn on_feedback(
        &mut self,
        now: Time,
        from: Answering,
        feedback: &Feedback,
        waited: Option<Duration>,
    ) -> (Option<Duration>, bool) {
        let back = self.stall.take().is_some();
        if back {
            // The first answer restores the window (AGG §IV-E). What was on its way meanwhile says how long the
            // stall was, and nothing of the link's round trip.
            self.back_at = now;
            self.window.on_link_back(now, self.in_flight);
        }
        let Answering { slot, part, says, marks, at_once } = from;
        let is_behind = feedback.newest.is_some_and(|sent| self.is_behind((slot, part), sent));
        let (extra, is_of_link) = match says {
            Says::All => (Duration::ZERO, !is_behind),
            // It may have a queue of its own: others that have none are asked first.
            Says::But(extra) => (extra, !is_behind && now.saturating_since(self.clean_at) > CLEAN),
            Says::Little | Says::Nothing => (Duration::ZERO, false),
        };
        let trip = feedback.rtt.filter(|_| feedback.newest.is_some_and(|sent| sent >= self.back_at));
        let trip = trip.filter(|_| says != Says::Nothing).map(|rtt| rtt.saturating_sub(extra));
        if let Some(rtt) = trip.filter(|_| is_of_link) {
            if says == Says::All {
                self.clean_at = now;
            }
            self.rtt.on_sample(now, rtt);
        }
        let trip = trip.map(|rtt| rtt.saturating_sub(waited.unwrap_or_default()));
        if let Some(sent_at) = feedback.newest {
            self.on_unsplit_through(now, sent_at);
        }
        self.fed_at = now;
        self.tail_probe.on_answer();
        let of_window = feedback.delivered as f64 / self.window() as f64;
        // Where a host waits in another queue than the others of its group, its round trips tell it.
        let of_nearest = trip.map(|rtt| self.parts.on_round_trip(now, part, (rtt, at_once), of_window));
        self.measured = of_nearest.or(self.measured);
        if let Some(sent_at) = feedback.newest {
            self.log.on_ack(sent_at);
            self.delivered.on_delivered(now, part, sent_at);
            if let Some(part) = self.parts.get_mut(part) {
                part.delivered.on_delivered(now, slot, sent_at);
            }
        }
        if matches!(says, Says::All | Says::But(_)) {
            if let Some(sent_at) = feedback.newest {
                let bytes = feedback.delivered;
                let before = self.under_way() + if says == Says::All { bytes } else { 0 };
                let rtt = of_nearest.filter(|_| is_of_link);
                let delivery = Delivery { now, bytes, sent_at, rtt };
                self.window.on_delivery(self.mss, delivery, before);
            }
            if marks {
                self.window.on_mark(now, feedback.marked, self.rtt.srtt().unwrap_or_default());
            }
        }
        self.pace();
        let window = self.window();
        self.peak = window.max(self.peak - self.peak.saturating_sub(window) / PEAK_FALLS);
        self.rto_at = None;
        self.settle_timer(now);
        (trip.filter(|_| is_of_link), back)
    }

    /// What left at `acknowledged` has been acknowledged: what is not split and left before is through as well. It came as much earlier as it
    /// was sent earlier; told all at once, it would look as if acknowledgments came aggregated.
    fn on_unsplit_through(&mut self, now: Time, acknowledged: Time) {
        while let Some((sent_at, bytes)) = self.unsplit.next_through(acknowledged) {
            let earlier = acknowledged.saturating_since(sent_at).as_nanos() as u64;
            let came = Time::from_nanos(now.as_nanos().saturating_sub(earlier)).max(self.fed_at);
            let before = self.under_way() + bytes;
            self.window.on_delivery(self.mss, Delivery { now: came, bytes, sent_at, rtt: None }, before);
            self.fed_at = came;
        }
    }

    /// A connection has found that something was lost: at most once a round trip of each.
    pub fn on_loss_found(&mut self, now: Time) {
        self.window.on_lost(now, self.rtt.srtt().unwrap_or_default());
        self.pace();
    }

    /// By the shortest round trip, and what answers wait in queues of others: the smoothed one remembers what a queue or an outage was long after
    /// the link is faster again, and would keep back what the acknowledgments let out. But in a queue that others fill bursts are what is lost:
    /// a single connection leaves as fast as the queue goes on. (Fifty have less so, where the queue is their own.)
    pub(super) fn pace(&mut self) {
        let (shortest, smoothed) = (self.rtt.min_rtt(), self.rtt.srtt());
        let shortest = shortest.or(smoothed);
        // What is smoothed has waited already.
        let rtt = match self.window.is_of_one_that_competes() {
            true => smoothed,
            false => shortest.map(|rtt| rtt + self.window.beside()),
        };
        let pace = self.window.pace(self.mss, rtt);
        let most = self.most.map(|most| BitRate::from_bits_per_sec(self.payload_of(most.bits_per_sec())));
        self.pacer.set_rate(most.map_or(pace, |most| Some(pace.map_or(most, |pace| pace.min(most)))));
        self.pacer.set_lateness(self.late.min(shortest.unwrap_or_default() / 2));
    }

    /// Timers are served up to `late` after they are due. What that time earns leaves at once, but no more than half of
    /// the shortest round trip; and what the window lets out is what the queue of the link takes.
    pub fn set_lateness(&mut self, late: Duration) {
        if core::mem::replace(&mut self.late, late) != late {
            self.pace();
        }
    }

    /// The retransmission timer runs while something is in flight, or the link is being probed.
    pub fn settle_timer(&mut self, now: Time) {
        if self.in_flight == 0 {
            self.log.clear(now);
            self.tail_probe.disarm();
            if self.stall.is_none() {
                self.rto_at = None;
            }
        } else if self.rto_at.is_none() {
            self.rto_at = Some(now + self.rto());
            self.arm_tail_probe(now);
        }
    }

    /// Conservative (AGG §IV-E): skipack finds what a burst of errors has lost, and most of these are over sooner. While the queue of the link
    /// still grows with the window, round trips were all shorter than the next one.
    fn rto(&self) -> Duration {
        let rto = self.rtt.rto();
        rto + if self.window.is_found() { rto.min(SPARED) } else { rto }
    }

    /// Whether it serves one host, and no others are busy who may share its link.
    pub fn is_of_one(&self) -> bool {
        self.parts.len() == 1 && !self.window.has_others()
    }

    /// How many hosts have something on the link just now. What is not split may be anybody's.
    fn busy_hosts(&self) -> usize {
        if self.unsplit.bytes() > 0 { self.parts.len() } else { self.parts.active_hosts() }
    }

    /// Whether several hosts have something on the link just now.
    fn is_shared(&self) -> bool {
        self.busy_hosts() > 1 || self.window.has_others()
    }

    /// The shared window, in bytes.
    pub fn window(&self) -> u64 {
        self.window.get(self.mss)
    }

    /// The smoothed round-trip time of all connections together.
    pub fn srtt(&self) -> Option<Duration> {
        self.rtt.srtt()
    }

    /// The shortest round trip of late, of all connections together.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.rtt.min_rtt()
    }

    /// Bytes on the link, of all connections and of what is not split.
    pub fn under_way(&self) -> u64 {
        self.in_flight - self.off_link + self.unsplit.bytes()
    }

    /// After how long something that is not split is taken to be through, where nothing is acknowledged that left after it.
    fn unsplit_round_trip(&self) -> Duration {
        self.rtt.srtt().map_or(Duration::from_secs(1), |srtt| srtt * 5 / 4)
    }

    /// Whether acknowledgments tell of the bottleneck.
    fn is_measured(&self, now: Time) -> bool {
        let recent = MEASURED.max(2 * self.rtt.srtt().unwrap_or_default());
        self.stall.is_none() && self.rtt.srtt().is_some() && now.saturating_since(self.fed_at) <= recent
    }

    /// Whether traffic that is not split is to wait for its turn: where the bottleneck is measured, or its rate is known.
    pub fn governs(&self, now: Time) -> bool {
        self.most.is_some() && self.stall.is_none() || self.is_measured(now)
    }

    /// A queue of packets that are not split waits for its turn, with its place and serial number, its priority, its pass and the bytes
    /// that it may send before all classes. So may one that has used less than the others: it is sparse.
    pub fn await_turn(
        &mut self,
        part: u32,
        (flow, serial): (u32, u64),
        priority: u8,
        (pass, interactive): (u64, u64),
    ) {
        let first = interactive > 0 || pass < self.parts.now(part, priority);
        let (priority, pass) = if first { (INTERACTIVE, 0) } else { (priority, pass) };
        self.parts.wait(part, Turn { flow, serial, priority, pass, unsplit: true });
    }

    /// A queue of packets that are not split had its turn: `bytes` left, IP headers counted.
    pub fn on_unsplit_sent(&mut self, now: Time, part: u32, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.sent_at = now;
        self.window.on_send(now, self.under_way());
        let is_first = self.unsplit.bytes() == 0;
        self.unsplit.on_send(now, bytes);
        if is_first {
            self.on_active(now);
        }
        self.pacer.on_send(now, self.payload_of(bytes));
        self.parts.charge(part, bytes);
    }

    /// Bytes in flight, of all connections.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// A connection of the host with this part had its turn and sent `bytes` in segments of `mss`, where `in_flight` bytes were on their
    /// way before.
    pub fn on_send(
        &mut self,
        now: Time,
        (turn, part): (&Turn, u32),
        (bytes, mss): (u64, u32),
        in_flight: u64,
    ) {
        self.sent_at = now;
        self.window.on_send(now, in_flight);
        self.pacer.on_send(now, self.paced(bytes, mss));
        self.log.on_send(now, turn.flow);
        self.parts.charge(part, bytes);
        if let Some(part) = self.parts.get_mut(part) {
            part.rate.on_send(now, bytes, AVERAGED);
        }
        self.on_last_sent(now);
    }

    /// A connection that has something in the log that others' deliveries show to be lost.
    pub fn next_skipped(&mut self, now: Time) -> Option<Skipped> {
        // What arrives late was not sent late: nothing is missed before what waited has been looked at.
        self.log.pop_lost(now, self.rack_rtt()? + self.late)
    }

    /// Whether an entry of the log is to be kept for a connection: one is enough; one that is long overdue, or was there when the log was cleared, is gone.
    pub fn is_to_be_kept(&self, now: Time, member: &Member) -> bool {
        let overdue = 2 * (self.rack_rtt().unwrap_or_default() + DELAYED_ACK + self.late);
        member.kept_at.is_none_or(|at| now.saturating_since(at) > overdue || at <= self.log.cleared_at())
    }

    /// The longer of the smoothed and the latest round trip (RACK.rtt, for all connections), and what the farthest host may be
    /// beyond those.
    fn rack_rtt(&self) -> Option<Duration> {
        Some(self.rtt.srtt()?.max(self.rtt.latest()?) + self.parts.reach())
    }

    /// When something is to be done next.
    pub fn deadline(&self) -> Option<Time> {
        let skipack =
            self.rack_rtt().and_then(|rtt| self.log.deadline(rtt + self.late)).filter(|_| self.in_flight > 0);
        [self.rto_at, self.tail_probe.at(), self.pace_at, self.next_question(), skipack, self.look_at]
            .into_iter()
            .flatten()
            .min()
    }
}
