use super::{Connection, State};
use crate::{Outgoing, Probe, ProbeForm, ProbeStage};
use alloc::boxed::Box;
use core::num::NonZeroU16;
use shorthaul_types::{PortId, SeqNum, Time};
use shorthaul_wire::{
    Packet, PayloadList, ProbeOption, RateOption, SackBlock, SackBlocks, TcpFlags, TcpHeader, TcpOptions,
    TcpSegment, Timestamps, TxBatch,
};

/// Segments that one connection sends before another has its turn.
const TURN: usize = 32;
/// ECT(0): this packet may be marked instead of dropped (RFC 3168 §5).
const ECN_CAPABLE: u8 = 2;

impl Connection {
    /// Puts out what may leave now, at most a turn's worth; returns whether there may be more.
    pub(super) fn transmit(&mut self, now: Time, out: &mut TxBatch) -> bool {
        if let Some(reset) = self.reset.take() {
            self.put(out, TcpSegment { header: *reset, ..TcpSegment::default() }, 0);
        }
        match self.state {
            State::Closed | State::Listen => return false,
            State::SynSent | State::SynReceived => {
                if core::mem::take(&mut self.opening.due) {
                    let header = self.syn(now);
                    self.opening.sent_at = now;
                    self.timers.start_syn(now, &self.config, self.opening.retransmissions);
                    self.receiver.on_ack_sent();
                    self.put(out, TcpSegment { header, ..TcpSegment::default() }, 0);
                } else if self.state == State::SynReceived && self.receiver.wants_ack(now) {
                    self.acknowledge(now, out);
                }
                return false;
            }
            _ => {}
        }
        if core::mem::take(&mut self.timers.probe_due) {
            // RFC 9293 §3.8.4: from below the window, so that it draws an acknowledgment.
            let header = self.header(now, self.sender.nxt() - 1, TcpFlags::ACK);
            self.put(out, TcpSegment { header, ..TcpSegment::default() }, 0);
        }
        // SACK blocks do not fit beside a full segment, and they are more urgent.
        if self.receiver.wants_ack(now) && self.agreed.sack && !self.receiver.sack_ranges().is_empty() {
            self.acknowledge(now, out);
        }
        if let Some(answer) = self.probed.as_mut().and_then(|probed| probed.answer.take()) {
            self.put_probe(now, answer, out);
        }
        let mut turns = TURN;
        while turns > 0 {
            let Some(outgoing) = self.sender.poll_segment(now) else { break };
            self.put_data(now, outgoing, out);
            turns -= 1;
        }
        if self.timers.waiting_since.is_none() && !self.sender.is_idle() {
            self.timers.waiting_since = Some(now);
        }
        if self.receiver.wants_ack(now) {
            self.acknowledge(now, out);
        }
        turns == 0
    }

    fn put(&self, out: &mut TxBatch, segment: TcpSegment, ecn: u8) {
        let mut ip = self.path.ip_header();
        ip.set_ecn(ecn);
        out.push((PortId(0), Packet::tcp(ip, segment)));
    }

    fn acknowledge(&mut self, now: Time, out: &mut TxBatch) {
        let mut header = self.header(now, self.sender.nxt(), TcpFlags::ACK);
        header.options.sack = self.sack_blocks();
        if let Some(rate) = self.meter.as_ref().and_then(|meter| meter.rate()) {
            header.options.unknown = RateOption::report(rate).to_options();
        }
        self.on_ack_sent();
        self.put(out, TcpSegment { header, ..TcpSegment::default() }, 0);
    }

    /// The SACK blocks to send, as many as fit beside the timestamps (RFC 2018 §3).
    fn sack_blocks(&self) -> SackBlocks {
        if !self.agreed.sack {
            return SackBlocks::new();
        }
        let room = match (self.agreed.timestamps, self.meter.is_some()) {
            (false, _) => 4,
            (true, false) => 3,
            // Each takes eight bytes, as the report of a rate does.
            (true, true) => 2,
        };
        let block =
            |(left, right)| SackBlock { left: self.peer.space.seq(left), right: self.peer.space.seq(right) };
        self.receiver.sack_ranges().into_iter().take(room).map(block).collect()
    }

    /// Data, cut into segments where the driver does not.
    fn put_data(&mut self, now: Time, outgoing: Outgoing, out: &mut TxBatch) {
        let Outgoing { offset, mut payload, fin, push, retransmission, cwr, probe } = outgoing;
        if let Some(Probe { number, stage, form: form @ (ProbeForm::Numbered | ProbeForm::Timed), .. }) =
            probe
        {
            let question = match (form, stage) {
                (ProbeForm::Timed, _) => ProbeOption::Timed(number),
                (_, ProbeStage::First) => ProbeOption::Probe1(number),
                (_, ProbeStage::Second) => ProbeOption::Probe2(number),
            };
            return self.put_probe(now, question, out);
        }
        let mss = self.sender.mss() as usize;
        let mut at = offset;
        loop {
            let mut rest = PayloadList::new();
            if !self.config.super_segments && payload.len() > mss {
                rest = payload.clone();
                rest.advance(mss);
                payload.truncate(mss);
            }
            let len = payload.len();
            let last = rest.is_empty();
            let mut flags = TcpFlags::ACK;
            for (wanted, flag) in [
                (fin && last, TcpFlags::FIN),
                (push && last && len > 0, TcpFlags::PSH),
                (cwr && at == offset && self.agreed.ecn, TcpFlags::CWR),
            ] {
                if wanted {
                    flags |= flag;
                }
            }
            let mut header = self.header(now, at, flags);
            // The options of a segment count as its data does (RFC 6691 §3): blocks only where
            // there is room for them.
            let sack = self.sack_blocks();
            if !sack.is_empty() && len + 4 + 8 * sack.len() <= mss {
                header.options.sack = sack;
            }
            let gso_size = (len > mss).then(|| NonZeroU16::new(mss as u16)).flatten();
            let ecn = if self.agreed.ecn && len > 0 && !retransmission { ECN_CAPABLE } else { 0 };
            self.put(out, TcpSegment { header, payload, gso_size }, ecn);
            at += len as u64;
            if last {
                break;
            }
            payload = rest;
        }
        self.on_ack_sent();
    }

    /// A probe of ours, or the answer to one of the peer's.
    fn put_probe(&mut self, now: Time, option: ProbeOption, out: &mut TxBatch) {
        let mut header = self.header(now, self.sender.nxt(), TcpFlags::ACK);
        header.options.unknown = option.to_options();
        self.on_ack_sent();
        self.put(out, TcpSegment { header, ..TcpSegment::default() }, 0);
    }

    fn on_ack_sent(&mut self) {
        self.receiver.on_ack_sent();
        let visible = self.receiver.ack() + (u64::from(self.window_field()) << self.own_shift);
        self.advertised = self.advertised.max(visible);
    }

    /// The window as it stands in a header.
    pub(super) fn window_field(&self) -> u16 {
        (self.receiver.window() >> self.own_shift).min(65_535) as u16
    }

    /// TSval: milliseconds (RFC 7323 §4.1).
    pub(super) fn timestamp(&self, now: Time) -> u32 {
        ((now.as_nanos() / 1_000_000) as u32).wrapping_add(self.timestamp_offset)
    }

    fn header(&self, now: Time, offset: u64, flags: TcpFlags) -> TcpHeader {
        let echo = if self.echo_congestion { TcpFlags::ECE } else { TcpFlags::default() };
        let timestamps = self
            .agreed
            .timestamps
            .then(|| Timestamps { val: self.timestamp(now), ecr: self.receiver.ts_recent().unwrap_or(0) });
        TcpHeader {
            src_port: self.path.local.port(),
            dst_port: self.path.remote.port(),
            seq: self.own.seq(offset),
            ack: self.peer.space.seq(self.receiver.ack()),
            flags: flags | echo,
            window: self.window_field(),
            options: TcpOptions { timestamps, ..TcpOptions::default() },
            ..TcpHeader::default()
        }
    }

    /// A reset for the peer as it stands (RFC 9293 §3.10.5).
    pub(super) fn reset_header(&self) -> TcpHeader {
        TcpHeader {
            src_port: self.path.local.port(),
            dst_port: self.path.remote.port(),
            seq: self.own.seq(self.sender.nxt()),
            ack: self.peer.space.seq(self.receiver.ack()),
            flags: TcpFlags::RST | TcpFlags::ACK,
            ..TcpHeader::default()
        }
    }

    /// A reset that answers an acknowledgment of something that was never sent, in its own numbers
    /// (RFC 9293 §3.5.2). The connection goes on.
    pub(super) fn reset_for(&mut self, ack: SeqNum) {
        self.reset = Some(Box::new(TcpHeader {
            src_port: self.path.local.port(),
            dst_port: self.path.remote.port(),
            seq: ack,
            flags: TcpFlags::RST,
            ..TcpHeader::default()
        }));
    }
}
