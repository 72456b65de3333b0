//! What arrives from an end.
use super::first_retransmission::FirstRetransmission;
use super::memory::make_room;
use super::resumed::Bearing;
use super::{Budget, Direction, Fate, SplitFlow};
use crate::ack_release::{Event, Progress};
use crate::end::Side;
use arrayvec::ArrayVec;
use shorthaul_tcp::{Ack, Segment};
use shorthaul_types::Time;
use shorthaul_wire::{Packet, TcpFlags, TcpHeader, TcpSegment, TxBatch};

/// Segments in a row that are none of an end's, after which nobody believes that it is that end which sends them.
pub(super) const MOST_STRAYS: u8 = 8;
/// So many do where nothing of it was taken yet.
pub(super) const FIRST_STRAYS: u8 = 3;

impl SplitFlow {
    /// A TCP packet of this flow arrived, from `side`. What it makes pass goes to `out`.
    pub(crate) fn on_packet(
        &mut self,
        now: Time,
        side: Side,
        packet: Packet,
        budget: Budget,
        out: &mut TxBatch,
    ) -> Fate {
        let Some(segment) = packet.as_tcp() else { return Fate::Alive };
        let header = &segment.header;
        let (near, far) = (side.index(), side.other().index());
        match self.look_back(now, side, segment) {
            Bearing::Usual => {}
            Bearing::Stranger => {
                out.push((self.ends[far].attachment, packet));
                return Fate::Alive;
            }
            Bearing::Lost => {
                // Where it must be (RFC 9293 §3.10.7.4): this end has not come as far as we would go on.
                let reset = self.header_toward(side, 0, TcpFlags::RST | TcpFlags::ACK);
                out.push(self.bare_toward(side, TcpHeader { seq: header.ack, ..reset }));
                out.push(self.reset_toward(side.other()));
                return Fate::Lost;
            }
        }
        let Some(offset) =
            self.ends[near].space.offset(header.seq, self.directions[near].receiver.data_end())
        else {
            // Nobody shall reset the ends by resets that we did not believe.
            if header.flags.intersects(TcpFlags::SYN | TcpFlags::RST) {
                self.challenge(now, side);
                return Fate::Alive;
            }
            return self.on_stray(now, side, packet, out);
        };
        if header.flags.contains(TcpFlags::SYN) {
            // A SYN-ACK retransmitted, or a stranger's SYN (RFC 5961 §4): say what we have.
            self.challenge(now, side);
            return Fate::Alive;
        }
        if header.flags.contains(TcpFlags::RST) {
            return self.on_reset(now, side, offset, out);
        }
        let receiver = &mut self.directions[near].receiver;
        // Beyond the window, nothing of a segment counts (RFC 9293 §3.10.7.4): its window would be
        // taken for the latest ever after. While draining, the windows are the ends' own.
        let own = if self.draining { self.ends[far].advertised } else { 0 };
        // A FIN is taken at the edge itself; what follows it lies one behind.
        let beyond = offset > receiver.edge().max(own) + 1;
        let fin = u64::from(header.flags.contains(TcpFlags::FIN));
        let end = offset + segment.payload.len() as u64 + fin;
        // Nor of one from below, where everything was acknowledged: who believed it would take the word of whoever knows what has passed. A probe is just below
        // (RFC 9293 §3.8.4), and what ends say who have spoken past us is looked at before.
        let is_probe = offset + 1 == receiver.next() && segment.payload.len() <= 1 && fin == 0;
        let acknowledged = receiver.last_ack().min(self.directions[near].ack());
        let below = end < acknowledged && !is_probe && !self.may_have_spoken_past_us(now);
        let receiver = &mut self.directions[near].receiver;
        let old = self.agreed.timestamps && receiver.is_old_duplicate(now, header.options.timestamps);
        if beyond || below || old {
            self.rejected.unacceptable += 1;
            if beyond {
                self.ask_soon(now);
                return self.on_stray(now, side, packet, out);
            }
            if segment.payload.is_empty() && fin == 0 {
                self.challenge(now, side);
            } else {
                self.say_again(now, near, offset, segment, below && !old);
            }
            return Fate::Alive;
        }
        self.sent[near].note(now, end);
        if !header.flags.contains(TcpFlags::ACK) {
            return Fate::Alive;
        }
        let Some(ack) = self.ends[far].space.offset(header.ack, self.directions[far].sender.una()) else {
            return self.on_stray(now, side, packet, out);
        };
        // What nobody has sent cannot be acknowledged; while draining, the ends also send themselves,
        // what comes behind all that we hold, and has passed; but nothing comes behind a FIN.
        let Direction { receiver, sender, .. } = &self.directions[far];
        let direct = self.draining
            && !receiver.is_finished()
            && (sender.queue().end() + 1..=self.passed_most[far]).contains(&ack);
        // Nor does who has acknowledged a byte say, more than a window later, that it is missing (RFC 5961 §5.2).
        let outdated = ack + sender.max_window().max(1) < sender.una();
        if (ack > sender.nxt() && !direct) || outdated {
            return self.on_stray(now, side, packet, out);
        }
        if end > 1 || ack > 1 {
            self.strays[near] = 0;
        }
        self.ends[near].observe(packet.ip, segment);
        if self.agreed.timestamps {
            let receiver = &mut self.directions[near].receiver;
            let before = receiver.ts_recent();
            receiver.note_timestamps(now, offset, header.options.timestamps);
            // While it was silent, its clock has gone round: what is said in its name goes on from there.
            if let (Some(before), Some(val)) = (before, receiver.ts_recent())
                && (val.wrapping_sub(before) as i32) < 0
            {
                self.ends[near].set_clock(val);
            }
        }
        if self.managed == Some(side) && self.agreed.timestamps {
            self.stamp = header.options.timestamps.map(|timestamps| timestamps.val);
        }
        self.take_ack(now, side, offset, ack, segment);
        if packet.ip.ecn() == 3 && self.agreed.ecn {
            self.directions[near].echo_congestion = true;
        }
        if header.flags.contains(TcpFlags::CWR) {
            self.directions[near].echo_congestion = packet.ip.ecn() == 3;
        }
        if self.draining {
            return self.pass_while_draining(now, side, offset, ack, packet, out);
        }
        if self.is_keep_alive(side, offset, segment) {
            self.directions[far].keep_alive = true;
            out.push(self.pass_keep_alive(side, packet));
            return Fate::Alive;
        }
        let bare = segment.payload.is_empty() && !header.flags.contains(TcpFlags::FIN);
        if bare && core::mem::take(&mut self.directions[near].keep_alive) {
            out.push(self.pass_keep_alive(side, packet)); // the answer
            return Fate::Alive;
        }
        if bare {
            if offset < self.directions[near].receiver.next() {
                self.challenge(now, side); // a window probe
            }
        } else {
            self.pass_piece(now, side, offset, segment, out);
            self.take_data(now, side, offset, segment, budget);
        }
        self.offer_windows(budget.windows);
        Fate::Alive
    }

    /// Data was retransmitted in vain: its sender waits for this. What was here before is reported as such (RFC 2883 §4).
    fn say_again(&mut self, now: Time, near: usize, offset: u64, segment: &TcpSegment, was_here: bool) {
        let Direction { receiver, sender, .. } = &mut self.directions[near];
        if was_here {
            let payload = segment.payload.clone();
            let again = Segment { offset, payload, fin: false, push: false, timestamps: None };
            receiver.on_segment(now, again, sender.queue_mut(), 0);
        }
        receiver.request_ack();
    }

    /// A segment that no end of this connection can have sent. Whoever sends it is told what could be; but where an end sends nothing else,
    /// or never sent anything that was taken, the connection is another one than its handshake said, which somebody may have forged: its
    /// ends go on by themselves, if nothing is owed to them.
    fn on_stray(&mut self, now: Time, side: Side, packet: Packet, out: &mut TxBatch) -> Fate {
        let (near, far) = (side.index(), side.other().index());
        self.strays[near] = self.strays[near].saturating_add(1);
        let owes_nothing = !self.owes_bytes() && self.directions.iter().all(|d| d.sender.is_idle());
        if self.strays[near] >= MOST_STRAYS && owes_nothing && !self.draining {
            out.push((self.ends[far].attachment, packet));
            return Fate::SteppedOut;
        }
        self.challenge(now, side);
        Fate::Alive
    }

    fn take_data(&mut self, now: Time, side: Side, offset: u64, segment: &TcpSegment, budget: Budget) {
        let header = &segment.header;
        if header.flags.contains(TcpFlags::URG) && header.urgent > 0 {
            let end = offset + u64::from(header.urgent);
            let urgent = &mut self.ends[side.index()].urgent;
            *urgent = (*urgent).max(Some(end));
        }
        let direction = &mut self.directions[side.index()];
        let Direction { receiver, sender, .. } = direction;
        let had_gap = receiver.has_gap();
        let queued = sender.queue().allocated();
        let Some(payload) =
            make_room(receiver, queued, offset, &segment.payload, budget.of(side), sender.mss())
        else {
            return receiver.request_ack();
        };
        let end = offset + payload.len() as u64;
        let is_whole = payload.len() == segment.payload.len();
        if had_gap && !receiver.has_gap() {
            direction.on_event(now, Event::Reneged);
        }
        let Direction { receiver, sender, .. } = direction;
        let taken = Segment {
            offset,
            payload,
            fin: header.flags.contains(TcpFlags::FIN) && is_whole,
            push: header.flags.contains(TcpFlags::PSH),
            timestamps: header.options.timestamps.filter(|_| self.agreed.timestamps),
        };
        let before = receiver.data_end();
        receiver.on_segment(now, taken, sender.queue_mut(), 2 * budget.windows[side.index()] as usize);
        if receiver.is_finished() {
            sender.finish();
        }
        let in_order = receiver.data_end();
        let gap = !receiver.sack_ranges().is_empty();
        let ts_recent = receiver.ts_recent();
        direction.on_event(now, Event::Received { bytes: in_order - before, in_order, ts_recent, gap });
        self.note_arrival(now, side, end, segment);
    }

    /// The part of a segment from `side` that is about what the other end sent.
    fn take_ack(&mut self, now: Time, side: Side, seq: u64, ack: u64, segment: &TcpSegment) {
        let header = &segment.header;
        let (near, far) = (side.index(), side.other().index());
        let space = self.ends[far].space;
        let shift = if self.agreed.window_scaling { self.ends[near].window_shift } else { 0 };
        let window = u64::from(header.window) << shift;
        let end = &mut self.ends[near];
        end.acknowledges = end.acknowledges.max(ack);
        end.advertised = end.advertised.max(ack + window);
        let direction = &mut self.directions[far];
        let Direction { sender, first_retransmission, .. } = direction;
        // What goes to the server beside a queue on the way from it is no longer on its way than without.
        let stamp = header.options.timestamps.filter(|_| self.agreed.timestamps);
        let is_wired = self.managed == Some(side.other());
        let watched = self.upload.as_deref_mut().or(self.download.as_deref_mut()).filter(|_| is_wired);
        let waited = watched.zip(stamp).and_then(|(watched, stamp)| {
            watched.on_answer(now, stamp.val, sender.rtt().srtt().unwrap_or_default())
        });
        if let Some(download) = self.download.as_deref_mut().filter(|_| is_wired) {
            download.waited = waited;
        }
        let una = sender.una();
        let sack: ArrayVec<(u64, u64), 4> = header
            .options
            .sack
            .iter()
            .filter_map(|block| Some((space.offset(block.left, una)?, space.offset(block.right, una)?)))
            .filter(|(left, right)| left < right)
            .collect();
        sender.on_ack(
            now,
            &Ack {
                ack: ack.min(sender.nxt()),
                window,
                seq,
                sack: &sack,
                has_data: !segment.payload.is_empty() || header.flags.contains(TcpFlags::FIN),
                ecn_echo: self.agreed.ecn && header.flags.contains(TcpFlags::ECE),
                echo: None, // the timestamps are the ends' own, and so are their clocks
                sent_before: FirstRetransmission::on_ack(
                    first_retransmission,
                    ack,
                    header.options.timestamps.map(|ts| ts.ecr),
                ),
                waited: waited.map(|waited| waited.at_least),
                reported: None, // it is for the ends
            },
        );
        if sender.una() > una {
            let (received, held) = (direction.receiver.data_end(), sender.queue().len());
            let delivered = sender.una().min(received);
            direction.on_event(now, Event::Delivered(Progress { delivered, received, held }));
        }
        let Direction { sender, .. } = &self.directions[far];
        let delivered = sender.una() + sender.scoreboard().sacked();
        let legs = sender.rtt().min_rtt().zip(self.directions[near].sender.rtt().min_rtt());
        let direction = &mut self.directions[far];
        if let Some((to_near, to_far)) = legs {
            direction.buffer.on_delivered(now, delivered, to_near + to_far);
        }
        if direction.sender.is_finished() {
            direction.receiver.confirm_fin();
            direction.on_event(now, Event::Finished(direction.receiver.data_end()));
        }
    }

    /// RFC 5961 §3: a reset counts if it is exactly where it must be; one that is merely within
    /// the window draws an acknowledgment, which a real sender answers with an exact one.
    fn on_reset(&mut self, now: Time, side: Side, offset: u64, out: &mut TxBatch) -> Fate {
        let receiver = &self.directions[side.index()].receiver;
        let (next, edge) = (receiver.next(), receiver.edge());
        if offset == next || offset == receiver.ack() {
            out.push(self.reset_toward(side.other()));
            return Fate::Reset;
        }
        // While draining it may have sent more by itself than we have taken, and be acknowledged by the other end for it: there its reset stands.
        if self.draining && (offset == self.ends[side.index()].passed || offset == self.acknowledged_to(side))
        {
            out.push(self.reset_from(side, offset));
            return Fate::Reset;
        }
        self.rejected.challenged += 1;
        if offset > next && offset < edge {
            self.challenge(now, side);
        }
        Fate::Alive
    }

    /// The path from `side` to the other end takes packets of `mtu` bytes at most: one that
    /// carried our data from `seq` on was too big.
    pub(crate) fn on_packet_too_big(
        &mut self,
        now: Time,
        side: Side,
        seq: shorthaul_types::SeqNum,
        mtu: u32,
    ) {
        let end = &self.ends[side.index()];
        let sender = &mut self.directions[side.index()].sender;
        let sent = end.space.offset(seq, sender.una());
        if !sent.is_some_and(|offset| offset >= sender.una() && offset < sender.nxt()) {
            return; // not about anything outstanding: forged or old (RFC 5927)
        }
        let overhead = end.ip.len() as u32 + 20 + if self.agreed.timestamps { 12 } else { 0 };
        let floor = if end.ip.len() == 20 { 552 } else { 1280 };
        sender.reduce_mss(now, mtu.max(floor) - overhead);
    }
}
