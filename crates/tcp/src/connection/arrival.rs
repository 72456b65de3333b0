use super::{Connection, Event, Failure, State};
use crate::{Ack, Arrival, Segment};
use alloc::boxed::Box;
use arrayvec::ArrayVec;
use core::time::Duration;
use shorthaul_types::Time;
use shorthaul_wire::{IpHeader, ProbeOption, RateOption, TcpFlags, TcpHeader, TcpSegment};

/// An echo of what was sent longer ago measures nothing: nothing lives longer in the network.
const LONGEST_ECHO: Duration = Duration::from_secs(600);

impl Connection {
    /// A segment arrived (RFC 9293 §3.10.7).
    pub(super) fn on_segment(&mut self, now: Time, ip: IpHeader, segment: &TcpSegment) {
        match self.state {
            State::Closed | State::Listen => {}
            State::SynSent => self.on_segment_in_syn_sent(now, ip, segment),
            _ => self.on_segment_in_sequence(now, ip, segment),
        }
    }

    /// Every state in which the peer's sequence numbers are known (RFC 9293 §3.10.7.4), in its
    /// order but for PAWS, which comes first (RFC 7323 §5.3).
    fn on_segment_in_sequence(&mut self, now: Time, ip: IpHeader, segment: &TcpSegment) {
        let header = &segment.header;
        let flags = header.flags;
        let Some(offset) = self.peer.space.offset(header.seq, self.receiver.next()) else {
            if !flags.contains(TcpFlags::RST) {
                self.challenge(now);
            }
            return;
        };
        if flags.contains(TcpFlags::RST) {
            return self.on_reset(now, offset);
        }
        if flags.contains(TcpFlags::SYN) {
            if self.state == State::SynReceived {
                return self.on_syn_in_syn_received(now, header);
            }
            return self.challenge(now); // RFC 5961 §4, whatever the sequence number
        }
        let fin = flags.contains(TcpFlags::FIN);
        let len = segment.payload.len() as u64 + u64::from(fin);
        if !self.passes_timestamps(now, header, len == 0 && offset < self.receiver.next()) {
            return;
        }
        if !self.is_acceptable(offset, len) {
            return self.on_unacceptable(now, ip, offset, len, segment);
        }
        if !flags.contains(TcpFlags::ACK) {
            return;
        }
        let Some(ack) = self.own.offset(header.ack, self.sender.una()) else {
            return self.challenge(now);
        };
        if self.state == State::SynReceived {
            if ack != 1 {
                return self.reset_for(header.ack);
            }
            self.take_handshake_rtt(now, header);
            self.establish(now);
        }
        // RFC 5961 §5: an acknowledgment of what was never sent, or one that is older than any
        // window, was not made by this peer for this connection.
        if ack > self.sender.nxt() || ack + self.sender.max_window().max(1) < self.sender.una() {
            return self.challenge(now);
        }
        self.timers.on_heard(now);
        self.take_ack(now, offset, ack, segment);
        if self.state != State::Closed {
            self.take_text(now, ip, offset, segment);
        }
    }

    /// RFC 9293 §3.4, with two exceptions: a segment without data may lie at the very edge, where
    /// a peer that has filled the window stands; and what comes to a closed window at its start is
    /// looked at for its acknowledgment.
    fn is_acceptable(&self, offset: u64, len: u64) -> bool {
        let (next, edge) = (self.receiver.next(), self.receiver.edge().max(self.receiver.next()));
        if len == 0 {
            return offset >= next && offset <= edge;
        }
        offset + len > next && (offset < edge || offset == next)
    }

    fn on_unacceptable(&mut self, now: Time, ip: IpHeader, offset: u64, len: u64, segment: &TcpSegment) {
        if len > 0 && offset + len <= self.receiver.next() {
            // It was here before; the acknowledgment must have been lost. Report it (RFC 2883).
            self.take_text(now, ip, offset, segment);
            if self.state == State::TimeWait && segment.header.flags.contains(TcpFlags::FIN) {
                self.timers.start_time_wait(now, self.config.time_wait);
            }
        } else {
            self.challenge(now); // window probes and keep-alive probes come here, too
        }
    }

    /// Timestamps are there, where they must be, and are not old (RFC 7323 §3.2, §5.3). A segment with old ones is answered, but for a
    /// mere acknowledgment from below the window (`is_old`): networks reorder those, and Linux drops them in silence
    /// (`TCP_RFC7323_PAWS_ACK`).
    fn passes_timestamps(&mut self, now: Time, header: &TcpHeader, is_old: bool) -> bool {
        if !self.agreed.timestamps {
            return true;
        }
        let Some(timestamps) = header.options.timestamps else { return false };
        if !self.receiver.is_old_duplicate(now, Some(timestamps)) {
            return true;
        }
        if !is_old {
            self.challenge(now);
        }
        false
    }

    /// RFC 5961 §3: a reset counts if it is exactly where it must be; one that is merely within
    /// the window draws an acknowledgment, which a real sender answers with an exact one.
    fn on_reset(&mut self, now: Time, offset: u64) {
        let next = self.receiver.next();
        if offset == next {
            // Without error by RFC 9293 §3.10.7.4, but for a user whose data may not have arrived, as in Linux.
            let has_arrived = self.sender.una() >= self.sender.queue().end();
            match self.state {
                State::TimeWait => self.end(now, Event::Closed),
                State::LastAck | State::Closing if has_arrived => self.end(now, Event::Closed),
                State::SynReceived if !self.passive => self.fail(now, Failure::Refused),
                _ => self.fail(now, Failure::Reset),
            }
        } else if offset > next && offset <= self.receiver.edge() {
            self.challenge(now);
        }
    }

    /// Says what we have, but not too often (RFC 5961 §7).
    pub(super) fn challenge(&mut self, now: Time) {
        if self.challenges.admits(now) {
            self.receiver.request_ack();
        }
    }

    /// The part of a segment that is about what we sent.
    fn take_ack(&mut self, now: Time, offset: u64, ack: u64, segment: &TcpSegment) {
        let header = &segment.header;
        let una = self.sender.una();
        let sack: ArrayVec<(u64, u64), 4> = header
            .options
            .sack
            .iter()
            .filter_map(|block| Some((self.own.offset(block.left, una)?, self.own.offset(block.right, una)?)))
            .filter(|(left, right)| left < right)
            .collect();
        let fin = header.flags.contains(TcpFlags::FIN);
        let probe = ProbeOption::find(&header.options.unknown).filter(|_| self.agreed.probes);
        let window = u64::from(header.window) << self.peer.shift;
        let elapsed = self.echoed_after(now, header);
        // The clock ticks in milliseconds: never less than it was, lest it be taken for the minimum.
        let echo = elapsed.map(|elapsed| elapsed + Duration::from_millis(1));
        self.sender.on_ack(
            now,
            &Ack {
                ack,
                window,
                seq: offset,
                sack: &sack,
                // Nor is a probe or its answer a duplicate: nothing has left the network.
                has_data: !segment.payload.is_empty() || fin || probe.is_some(),
                ecn_echo: self.agreed.ecn && header.flags.contains(TcpFlags::ECE),
                echo,
                sent_before: None,
                waited: None,
                reported: RateOption::find(&header.options.unknown)
                    .filter(|_| self.agreed.rate_report)
                    .and_then(RateOption::rate),
            },
        );
        match probe {
            Some(ProbeOption::Probe1Ack(number) | ProbeOption::Probe2Ack(number)) => {
                self.sender.on_probe_answer(now, number, None);
            }
            Some(ProbeOption::TimedAck { number, arrived }) => {
                self.sender.on_probe_answer(now, number, Some(arrived));
            }
            Some(question) => {
                // A clock of this connection alone: it tells nobody since when this machine runs.
                let probed =
                    self.probed.get_or_insert_with(|| Box::new(super::Probed { since: now, answer: None }));
                probed.answer = question.answer(now.saturating_since(probed.since).as_micros() as u32);
            }
            None => {}
        }
        let progress = self.sender.una() > una || window == 0;
        if progress {
            self.unreachable = false;
            self.timers.waiting_since = (!self.sender.is_idle()).then_some(now);
        }
        if let Some(elapsed) = elapsed.filter(|_| !segment.payload.is_empty()) {
            self.window.on_rtt(elapsed);
        }
        self.offer_room();
        if !self.sender.is_finished() {
            return;
        }
        match self.state {
            State::FinWait1 => self.state = State::FinWait2,
            State::Closing => self.enter_time_wait(now),
            State::LastAck => self.end(now, Event::Closed),
            _ => {}
        }
    }

    /// How long ago the timestamp was sent that a segment echoes, in ticks of our clock; `None` if that
    /// cannot be.
    fn echoed_after(&self, now: Time, header: &TcpHeader) -> Option<Duration> {
        let timestamps = header.options.timestamps.filter(|_| self.agreed.timestamps)?;
        let elapsed = Duration::from_millis(u64::from(self.timestamp(now).wrapping_sub(timestamps.ecr)));
        (elapsed < LONGEST_ECHO).then_some(elapsed)
    }

    /// Tells the owner of room to write, when there is enough to be worth it.
    fn offer_room(&mut self) {
        if self.write_blocked && self.writable() >= (self.config.send_buffer.0 / 3).max(1) {
            self.write_blocked = false;
            self.events.push(Event::Writable);
        }
    }

    /// The part of a segment that is about what the peer sent: timestamps, marks, data and FIN.
    pub(super) fn take_text(&mut self, now: Time, ip: IpHeader, offset: u64, segment: &TcpSegment) {
        let header = &segment.header;
        if self.agreed.ecn {
            let marked = ip.ecn() == 3;
            if header.flags.contains(TcpFlags::CWR) {
                self.echo_congestion = false;
            }
            if marked && !self.echo_congestion {
                self.echo_congestion = true;
                self.receiver.request_ack(); // what is new should not wait
            }
        }
        let size = segment.gso_size.map_or(segment.payload.len(), |size| usize::from(size.get()));
        self.receiver.expect_segments_of((size as u32).min(self.config.mss));
        self.measure(now, offset, size as u32, segment);
        let new = self.receiver.on_segment(
            now,
            Segment {
                offset,
                payload: segment.payload.clone(),
                fin: header.flags.contains(TcpFlags::FIN),
                push: header.flags.contains(TcpFlags::PSH),
                timestamps: header.options.timestamps.filter(|_| self.agreed.timestamps),
            },
            &mut self.inbox,
            self.window.memory() as usize,
        );
        if new > 0 {
            self.window.on_bytes(new);
            self.window.on_arrival(
                now,
                self.receiver.data_end(),
                self.receiver.edge(),
                self.agreed.timestamps,
            );
            self.events.push(Event::Readable);
            self.refuse_unread(now);
            if self.state == State::Closed {
                return;
            }
        }
        if self.receiver.is_finished() {
            self.on_fin(now);
        } else {
            self.offer_window();
        }
    }

    /// Looks at when a segment came, and when it was sent.
    fn measure(&mut self, now: Time, start: u64, mss: u32, segment: &TcpSegment) {
        let elapsed = self.echoed_after(now, &segment.header);
        let (Some(meter), Some(timestamps)) = (&mut self.meter, segment.header.options.timestamps) else {
            return;
        };
        if segment.payload.is_empty() {
            return;
        }
        meter.on_segment(&Arrival {
            now,
            start,
            end: start + segment.payload.len() as u64,
            mss,
            sent: timestamps.val,
            heard: elapsed
                .map(|elapsed| Time::from_nanos(now.as_nanos().saturating_sub(elapsed.as_nanos() as u64))),
        });
    }

    /// Everything up to the peer's FIN has arrived.
    fn on_fin(&mut self, now: Time) {
        self.receiver.confirm_fin();
        let next = match self.state {
            State::Established => State::CloseWait,
            State::FinWait1 => State::Closing,
            State::FinWait2 => State::TimeWait,
            _ => return,
        };
        self.events.push(Event::PeerClosed);
        match next {
            State::TimeWait => self.enter_time_wait(now),
            state => self.state = state,
        }
    }

    fn enter_time_wait(&mut self, now: Time) {
        self.state = State::TimeWait;
        self.timers.start_time_wait(now, self.config.time_wait);
    }

    /// Moves the right edge of the window, when what is free makes a step worth a segment
    /// (RFC 9293 §3.8.6.2.2), and asks for an acknowledgment where the peer should hear of it.
    pub(super) fn offer_window(&mut self) {
        if self.receiver.is_finished() {
            return;
        }
        let limit = self.window.limit();
        let memory = (self.inbox.allocated() + self.receiver.allocated()) as u64 / 2;
        let free = limit.saturating_sub(self.inbox.len().max(memory));
        let step = u64::from(self.config.mss).min(self.window.buffer() / 2).max(1);
        if self.receiver.data_end() + free >= self.receiver.edge() + step {
            self.receiver.offer(free);
        }
        // A scaled window is coarse: what the peer sees of it may lag far behind.
        let visible = self.receiver.ack() + (u64::from(self.window_field()) << self.own_shift);
        if visible >= self.advertised + (2 * step).min(self.window.buffer() / 2).max(1) && self.is_pinched() {
            self.receiver.request_ack();
        }
    }

    /// The peer, as far as it knows, has room for less than two segments.
    fn is_pinched(&self) -> bool {
        self.advertised < self.receiver.data_end() + 2 * u64::from(self.config.mss)
    }
}
