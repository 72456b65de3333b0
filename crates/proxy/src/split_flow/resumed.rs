//! A flow that a predecessor left: it goes on where it stood.
//!
//! While nobody stood in it, its ends spoke with each other. Each may have had more from the other than we know of, and says so in
//! what it acknowledges: that is believed for a time, once the other end says that it has sent as much. One segment alone may be
//! forged by somebody who knows no sequence number. What had been sent and was not acknowledged is retransmitted; what arrives twice
//! harms nobody. Both ends are asked what they have, until they have answered.
use super::direction::{Direction, Ends, Standing};
use super::managed::is_managed;
use super::stepping_out::Sent;
use super::{Fate, SplitFlow};
use crate::ack_release::{Event, Progress};
use crate::aggregate::AllottedWindow;
use crate::custody::{
    DirectionMomentum, DirectionRecord, FlowMomentum, FlowRecord, GroupMomentum, Held, Inherited,
};
use crate::end::Side;
use crate::{Custody, Holding, Policy};
use alloc::boxed::Box;
use core::time::Duration;
use shorthaul_tcp::AckPolicy;
use shorthaul_types::{Blank, Deadline, PortId, SeqNum, Time, keeps};
use shorthaul_wire::{Payload, PayloadList, TcpFlags, TcpHeader, TcpSegment, TxBatch};

/// How often the ends are asked, and how many times at most.
const ASK_INTERVAL: Duration = Duration::from_secs(1);
const QUESTIONS: u32 = 20;
/// How often the ends are asked before anything is taken for lost: what was under way may still arrive.
const CERTAIN: u32 = 2;
/// How long an end may acknowledge what the other sent it past us: no connection waits longer for an answer.
const PAST_US: Duration = Duration::from_secs(15 * 60);
/// No window is larger (RFC 7323 §2.3): what lies further away is of another connection that has these ports by now.
const WINDOW: u64 = 1 << 30;

/// What is known of the time before, of a flow that a predecessor left.
#[derive(Debug)]
pub(super) struct Resumed {
    pub(super) until: Time,
    pub(super) ask_at: Option<Time>,
    pub(super) asked: u32,
    /// The ends that have spoken since.
    pub(super) heard: [bool; 2],
    /// What they said was of one connection.
    pub(super) agreed: bool,
    /// What they said last.
    pub(super) said: [Option<Statement>; 2],
    /// Up to where each direction had been sent, SND.NXT then.
    pub(super) sent: [u64; 2],
    /// The directions of which bytes are missing that may not have been delivered.
    pub(super) missing: [bool; 2],
    /// Up to where the receiver of each direction has said that it has pieces that we have not sent (SACK).
    pub(super) pieces: [u64; 2],
}

/// What an end says of both streams with a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Statement {
    /// It has sent so much at least.
    sent: u64,
    /// It has received so much, and takes more up to `edge`.
    ack: u64,
    edge: u64,
    /// Its clock, if it has one (TSval).
    clock: Option<u32>,
}

keeps!(Resumed { until, ask_at, asked, heard, agreed, said, sent, missing, pieces });
keeps!(Statement { sent, ack, edge, clock });

impl Blank for Statement {
    fn blank() -> Self {
        Statement { sent: 0, ack: 0, edge: 0, clock: None }
    }
}

impl Statement {
    /// Whether `other` can have sent what this one has received, and was allowed to send what it has sent. `offered` is the right
    /// edge of what we offered in this one's name. A FIN and the probe of a closed window lie one behind the edge.
    fn agrees_with(&self, other: &Statement, offered: u64) -> bool {
        (self.ack..=self.edge.max(offered) + 1).contains(&other.sent)
    }
}

/// What a segment is to a flow that a predecessor left.
pub(super) enum Bearing {
    /// One like any other.
    Usual,
    /// Of another connection, or forged: it passes as it is.
    Stranger,
    /// Bytes are lost that their sender believes delivered.
    Lost,
}

impl SplitFlow {
    /// Goes on with a flow that a predecessor left.
    pub(crate) fn resume(now: Time, inherited: &Inherited, policy: &Policy) -> SplitFlow {
        let FlowRecord { draining, agreed, ends, directions, .. } = inherited.record;
        let directions = Side::BOTH.map(|side| {
            let both = Ends { from: &ends[side.index()], to: &ends[side.other().index()] };
            let managed = is_managed(&ends, side.other(), policy);
            let standing = Standing::of(&directions[side.index()]);
            let mut direction = Direction::new(now, both, &agreed, policy, managed, standing);
            direction.buffer.go_on(now, standing.delivered, standing.edge);
            direction.go_on(now, &directions[side.index()], &inherited.held[side.index()]);
            direction
        });
        let mut flow = SplitFlow {
            key: inherited.record.flow(),
            managed: Side::BOTH.into_iter().find(|side| is_managed(&ends, *side, policy)),
            ends,
            directions,
            agreed,
            opened: now,
            draining,
            passed_most: ends.map(|end| end.passed),
            sent: ends.map(|end| Sent { end: end.passed, since: now }),
            rejected: Default::default(),
            strays: [0; 2],
            challenges: Default::default(),
            allotted: policy.aggregate.is_some().then(AllottedWindow::default),
            upload: None,
            download: None,
            stamp: None,
            watches: None,
            resumed: Some(Box::new(Resumed {
                until: now + PAST_US,
                ask_at: Some(now),
                asked: 0,
                heard: [false; 2],
                agreed: false,
                said: [None; 2],
                sent: inherited.record.directions.map(|direction| direction.sent),
                missing: Side::BOTH.map(|side| inherited.is_missing_bytes(side)),
                pieces: [0; 2],
            })),
        };
        let whole = inherited.momentum.as_ref().filter(|momentum| flow.take_over(now, momentum));
        if let Some(aggregate) = &policy.aggregate {
            flow.limit(now, now, aggregate);
        }
        if let Some(momentum) = whole {
            flow.nothing_went_past();
            flow.watch_on(&momentum.watched);
        }
        flow
    }

    /// Goes on with what a predecessor was doing that has handed it over. Says whether all of it was to be had: if not, nobody knows
    /// what has reached the ends, and they are asked.
    fn take_over(&mut self, now: Time, momentum: &FlowMomentum) -> bool {
        let is_whole = self.resumed.as_ref().is_some_and(|resumed| resumed.missing == [false; 2]);
        let each = self.directions.iter_mut().zip(&momentum.directions);
        is_whole
            && each.fold(true, |is_whole, (direction, before)| direction.take_over(now, before) && is_whole)
    }

    /// All that the ends said since the predecessor began was heard: nobody is asked. What the one before it had sent may still be
    /// acknowledged.
    fn nothing_went_past(&mut self) {
        let has_sent = Side::BOTH.iter().all(|side| {
            let direction = &self.directions[side.index()];
            self.sent_to(side.other()) <= direction.sender.nxt()
        });
        if has_sent {
            self.resumed = None;
        } else if let Some(resumed) = &mut self.resumed {
            resumed.ask_at = None;
            resumed.heard = [true; 2];
            resumed.agreed = true;
        }
    }

    /// What it does at the moment, for a successor; but for a flow of which it is not known what its ends have said past us.
    pub(crate) fn momentum(&self, group: GroupMomentum) -> Option<FlowMomentum> {
        let of = |direction: &Direction| DirectionMomentum {
            sender: direction.sender.momentum(),
            early: direction
                .receiver
                .early_pieces()
                .map(|(at, piece)| (at, piece.as_slice().to_vec()))
                .collect(),
        };
        let is_known = self.resumed.as_ref().is_none_or(|resumed| resumed.ask_at.is_none());
        let directions = || self.directions.each_ref().map(of);
        is_known.then(|| FlowMomentum { directions: directions(), group, watched: self.watched_so_far() })
    }

    /// Whether it was left by a predecessor, and not both of its ends have spoken since.
    pub(crate) fn is_unheard(&self) -> bool {
        self.resumed.as_ref().is_some_and(|resumed| resumed.heard != [true; 2])
    }

    /// Whether bytes are held, or missing, that their sender believes delivered.
    pub(crate) fn owes_bytes(&self) -> bool {
        self.holds_bytes() || self.resumed.as_ref().is_some_and(|resumed| resumed.missing != [false; 2])
    }

    /// Whether a segment of `side` that came in at `port` is none of that end's, of a flow that a predecessor left. What both
    /// ends say is believed of such a flow: nobody shall speak for both from one side.
    pub(crate) fn is_astray(&self, side: Side, port: PortId) -> bool {
        self.resumed.is_some() && self.ends[side.index()].attachment != port
    }

    /// What must survive a crash, but for the bytes.
    pub(crate) fn record(&self, serial: u64) -> FlowRecord {
        FlowRecord {
            serial,
            draining: self.draining,
            agreed: self.agreed,
            ends: self.ends,
            directions: Side::BOTH.map(|side| DirectionRecord {
                sent: self.sent_to(side.other()),
                ..self.directions[side.index()].record()
            }),
        }
    }

    /// Tells a store of the bytes that it does not have. Says whether it has all of them now.
    pub(crate) fn hold(&mut self, slot: u32, serial: u64, custody: &mut impl Custody) -> bool {
        let mut has_all = true;
        for (number, direction) in (0..).zip(&mut self.directions) {
            let queue = direction.sender.queue();
            if direction.kept >= queue.end() {
                continue;
            }
            for (offset, payload) in queue.slices_from(direction.kept) {
                let kept = custody.hold(Holding { slot, serial, direction: number, offset }, &payload);
                direction.kept = offset + kept as u64;
                if kept < payload.len() {
                    has_all = false;
                    break;
                }
            }
        }
        has_all
    }

    /// All that is held, with how it stands: for a successor, of a flow that the store has no room for.
    pub(crate) fn inheritance(&self, serial: u64) -> Inherited {
        let pieces = self.directions.each_ref().map(|direction| {
            let queue = direction.sender.queue();
            queue.slices_from(queue.start()).collect()
        });
        Inherited::assemble(self.record(serial), pieces)
    }

    /// Whether its ends may have spoken past us so lately that what they say is behind what a predecessor knew.
    pub(super) fn may_have_spoken_past_us(&self, now: Time) -> bool {
        self.resumed.as_ref().is_some_and(|resumed| now < resumed.until)
    }

    /// Where SND.NXT is of what is sent to `side`, what a predecessor had sent counted.
    pub(super) fn sent_to(&self, side: Side) -> u64 {
        let far = side.other().index();
        let before = self.resumed.as_ref().map_or(0, |resumed| resumed.sent[far]);
        self.directions[far].sender.nxt().max(before)
    }

    /// Looks at a segment of `side`, at `seq` and `ack` of the two streams, before anything is made of it.
    pub(super) fn look_back(&mut self, now: Time, side: Side, segment: &TcpSegment) -> Bearing {
        let Some(resumed) = self.resumed.as_deref_mut() else { return Bearing::Usual };
        let header = &segment.header;
        if !header.flags.contains(TcpFlags::ACK) || header.flags.intersects(TcpFlags::SYN | TcpFlags::RST) {
            let is_other = header.flags.contains(TcpFlags::SYN) && !resumed.heard[side.index()];
            return if is_other { Bearing::Stranger } else { Bearing::Usual };
        }
        let (near, far) = (side.index(), side.other().index());
        let [seq, ack] = [(near, header.seq), (far, header.ack)].map(|(of, number): (usize, SeqNum)| {
            let reference = self.directions[of].receiver.data_end();
            let at = self.ends[of].space.offset(number, reference)?;
            (at.abs_diff(reference) <= WINDOW).then_some(at)
        });
        let Some((seq, ack)) = seq.zip(ack) else {
            return if resumed.heard[near] { Bearing::Usual } else { Bearing::Stranger };
        };
        let is_first = !core::mem::replace(&mut resumed.heard[near], true);
        let fin = u64::from(header.flags.contains(TcpFlags::FIN));
        let shift = if self.agreed.window_scaling { self.ends[near].window_shift } else { 0 };
        resumed.said[near] = Some(Statement {
            sent: seq + segment.payload.len() as u64 + fin,
            ack,
            edge: ack + (u64::from(header.window) << shift),
            clock: header.options.timestamps.map(|timestamps| timestamps.val),
        });
        let (space, sent) = (self.ends[far].space, self.directions[far].sender.nxt());
        let rights = header.options.sack.iter().filter_map(|block| space.offset(block.right, ack));
        let furthest = rights.filter(|right| (sent + 1..=sent + WINDOW).contains(right)).max();
        resumed.pieces[far] = resumed.pieces[far].max(furthest.unwrap_or(0));
        let is_certain =
            resumed.is_agreed(self.directions.each_ref().map(|direction| direction.receiver.edge()));
        let is_first_agreement = is_certain && !core::mem::replace(&mut resumed.agreed, true);
        if is_first {
            self.directions[near].sender.may_have_passed(seq);
        }
        let direction = &mut self.directions[far];
        if resumed.missing[far] && (is_certain || resumed.asked >= QUESTIONS) {
            if ack >= direction.sender.una() {
                resumed.missing[far] = false;
            } else if resumed.asked >= CERTAIN {
                return Bearing::Lost;
            }
        }
        if ack > direction.sender.nxt() && now < resumed.until {
            // What a predecessor had sent may be acknowledged, as ever, by a segment that stands in the window.
            let is_usual = ack <= resumed.sent[far] && seq <= self.directions[near].receiver.edge() + 1;
            if is_certain || is_usual {
                self.directions[far].skip_to(now, ack);
                self.note_passed(side.other());
            } else {
                self.ask_soon(now);
            }
        }
        if is_certain {
            self.believe_earlier(now, side);
        }
        if is_first_agreement {
            Side::BOTH.into_iter().for_each(|side| self.believe_offer(side));
        }
        let claims = Side::BOTH.map(|side| self.claims_more(side));
        if let Some(resumed) = self.resumed.as_deref_mut()
            && resumed.heard == [true; 2]
            && resumed.missing == [false; 2]
            && claims == [false; 2]
        {
            resumed.ask_at = None;
        }
        Bearing::Usual
    }

    /// `side` has told the other end of the room that it says it has, past us: what comes there is taken, as far as there is memory.
    fn believe_offer(&mut self, side: Side) {
        let said = self.resumed.as_ref().and_then(|resumed| resumed.said[side.index()]);
        let Some(Statement { edge, .. }) = said else { return };
        self.directions[side.other().index()].receiver.accept_up_to(edge);
        if let Some(upload) = self.watched(side.other()) {
            upload.may_know(edge);
        }
    }

    /// Whether an end has said last that it has more than we have sent to it.
    fn claims_more(&self, side: Side) -> bool {
        let said = self.resumed.as_ref().and_then(|resumed| resumed.said[side.index()]);
        said.is_some_and(|said| said.ack > self.directions[side.other().index()].sender.nxt())
    }

    /// What the other end of `side` acknowledged before this one bore it out is believed now: it may say nothing more by itself.
    fn believe_earlier(&mut self, now: Time, side: Side) {
        let near = side.index();
        let Some(resumed) = self.resumed.as_deref().filter(|resumed| now < resumed.until) else { return };
        let Some(said) = resumed.said[1 - near] else { return };
        if said.ack > self.directions[near].sender.nxt() {
            self.directions[near].skip_to(now, said.ack);
            self.note_passed(side);
        }
        // What we send in its name has its clock: one that `near` takes for old is dropped in silence (RFC 7323 §5.3).
        if let Some(clock) = said.clock {
            self.ends[1 - near].tell_clock(clock);
        }
    }

    /// What `side` sends out of order at `offset` goes on at once, if the other end lacks it for a piece that it has had past us: we have all
    /// of neither, and while each waits for the other in order, they would come together by one gap in a round trip.
    pub(super) fn pass_piece(
        &mut self,
        now: Time,
        side: Side,
        offset: u64,
        segment: &TcpSegment,
        out: &mut TxBatch,
    ) {
        let Direction { receiver, sender, .. } = &self.directions[side.index()];
        let ends_at = offset + segment.payload.len() as u64;
        let is_between = self.resumed.as_ref().is_some_and(|resumed| {
            now < resumed.until && (receiver.data_end() + 1..resumed.pieces[side.index()]).contains(&offset)
        });
        if !is_between || ends_at > sender.una() + sender.peer_window() {
            return;
        }
        let header = self.header_toward(side.other(), offset, TcpFlags::ACK);
        let header = TcpHeader { options: self.options_toward(side.other()), ..header };
        let TcpSegment { payload, gso_size, .. } = segment;
        let piece = TcpSegment { header, payload: payload.clone(), gso_size: *gso_size };
        out.push(self.packet_toward(side.other(), piece, 0));
    }

    /// What is received beyond all windows may be what the far end has acknowledged past us: it is asked.
    pub(super) fn ask_soon(&mut self, now: Time) {
        if let Some(resumed) = self.resumed.as_deref_mut().filter(|resumed| now < resumed.until) {
            resumed.asked = resumed.asked.min(QUESTIONS - 1);
            resumed.ask_at.get_or_insert(now + ASK_INTERVAL / 50);
        }
    }

    /// When the ends are asked again.
    pub(super) fn next_question(&self) -> Option<Deadline> {
        let at = self.resumed.as_ref()?.ask_at?;
        Some(Deadline { at, timer: "ask-inherited" })
    }

    /// Asks the ends what they have, if it is time: a segment from below the window draws an acknowledgment (RFC 9293 §3.10.7.4). It
    /// has an octet of data, which was acknowledged long since (§3.8.4): where the ends have spoken past us, the timestamp that we
    /// know is an old one, and Linux drops an old acknowledgment without data in silence.
    pub(super) fn ask(&mut self, now: Time, out: &mut TxBatch) -> Fate {
        let Some(resumed) = self.resumed.as_deref_mut() else { return Fate::Alive };
        if resumed.ask_at.is_none_or(|at| at > now) {
            return Fate::Alive;
        }
        resumed.asked += 1;
        resumed.ask_at = (resumed.asked < QUESTIONS).then(|| now + ASK_INTERVAL);
        let is_over = resumed.ask_at.is_none() && resumed.heard == [false; 2];
        if is_over && !self.holds_bytes() {
            return Fate::SteppedOut; // nobody is there any more
        }
        for side in Side::BOTH {
            let una = self.directions[side.other().index()].sender.una();
            let header = self.header_toward(side, una - 1, TcpFlags::ACK);
            let octet = PayloadList::from(Payload::copy_of(&[0]));
            out.push(self.small_toward(side, header, octet));
        }
        Fate::Alive
    }
}

impl Resumed {
    /// Whether both ends have spoken, and what they say can be of one connection. `offered` are the right edges of what we
    /// offered to the client and the server.
    fn is_agreed(&self, offered: [u64; 2]) -> bool {
        let [Some(client), Some(server)] = &self.said else { return false };
        client.agrees_with(server, offered[1]) && server.agrees_with(client, offered[0])
    }
}

impl Standing {
    /// Where a direction stood.
    fn of(record: &DirectionRecord) -> Standing {
        Standing {
            next: record.received,
            edge: record.edge,
            delivered: record.delivered.min(record.received),
            peer_edge: record.peer_edge,
            ts_recent: record.ts_recent,
        }
    }
}

impl Direction {
    /// How it stands. What was received and not acknowledged is its sender's still.
    fn record(&self) -> DirectionRecord {
        let Direction { receiver, sender, .. } = self;
        let received = self.ack().max(sender.una()).min(receiver.data_end());
        let finished = receiver.is_finished() && received == receiver.data_end();
        DirectionRecord {
            received,
            delivered: sender.una(),
            sent: sender.nxt(),
            edge: receiver.edge(),
            peer_edge: sender.una() + sender.peer_window(),
            finished,
            fin_confirmed: finished && receiver.ack() > received,
            echo_congestion: self.echo_congestion,
            ts_recent: self.ts_recent(),
            srtt: sender.rtt().srtt(),
        }
    }

    /// Takes over what was held, and what else was known.
    fn go_on(&mut self, now: Time, record: &DirectionRecord, held: &Held) {
        let Direction { receiver, sender, .. } = self;
        self.echo_congestion = record.echo_congestion;
        sender.skip_to(now, held.start);
        sender.queue_mut().skip_to(held.start.min(record.received));
        sender.was_sent(record.sent);
        for piece in &held.pieces {
            sender.queue_mut().push(piece.clone());
        }
        if record.finished {
            receiver.ends_here(record.fin_confirmed);
            sender.finish();
            sender.skip_to(now, record.delivered);
        }
        if let Some(srtt) = record.srtt.filter(|srtt| !srtt.is_zero()) {
            sender.on_rtt_sample(now, srtt);
        }
        receiver.request_ack();
    }

    /// Goes on with what a predecessor was doing. Says whether that fits what is held.
    fn take_over(&mut self, now: Time, momentum: &DirectionMomentum) -> bool {
        for (at, bytes) in &momentum.early {
            self.receiver.take_over(*at, Payload::copy_of(bytes));
        }
        self.sender.take_over(now, &momentum.sender)
    }

    /// Everything before `ack`, which is more than we have sent, reached its receiver on another way.
    fn skip_to(&mut self, now: Time, ack: u64) {
        let Direction { receiver, sender, .. } = self;
        if ack > receiver.data_end() && self.release.take().is_some() {
            // What released its acknowledgments does not know of what went past us.
            receiver.acknowledge_by(AckPolicy::default());
        }
        receiver.skip_to(ack, sender.queue_mut());
        if receiver.is_finished() {
            sender.finish();
        }
        let received = receiver.data_end();
        sender.skip_to(now, ack.min(received + u64::from(receiver.is_finished())));
        let (delivered, held) = (sender.una().min(received), sender.queue().len());
        self.kept = self.kept.max(sender.queue().start());
        // Its receiver was heard: a window that was closed because it was silent opens.
        self.on_event(now, Event::Delivered(Progress { delivered, received, held }));
    }
}
