use super::challenge::ChallengeLimit;
use super::receive_window::ReceiveWindow;
use super::state::Events;
use super::timers::Timers;
use super::{Addresses, Connection, ConnectionConfig, Event, Failure, State};
use crate::{ByteQueue, ProbedPeer, Receiver, Sender, SenderConfig, SenderStart};
use alloc::sync::Arc;
use core::time::Duration;
use shorthaul_types::{SeqNum, SeqSpace, Time};
use shorthaul_wire::{
    IpHeader, ProbeOption, RateOption, TcpFlags, TcpHeader, TcpOptions, TcpSegment, Timestamps,
    UnknownOptions,
};

/// What the peer's SYN said.
#[derive(Debug)]
pub(super) struct Peer {
    pub space: SeqSpace,
    /// The largest segment that it takes, options included (RFC 9293 §3.7.1).
    pub mss: u32,
    /// Its windows are shifted by this.
    pub shift: u8,
}

/// What the SYNs agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// Selective acknowledgments (RFC 2018).
    pub sack: bool,
    /// Timestamps (RFC 7323 §3).
    pub timestamps: bool,
    /// Scaled windows (RFC 7323 §2).
    pub window_scaling: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// The probing option (PRB §2.1).
    pub probes: bool,
    /// Reports of the rate at which to send.
    pub rate_report: bool,
}

/// The shifts of window fields, 0…14 (RFC 7323 §2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowShifts {
    /// Of the windows that we offer.
    pub own: u8,
    /// Of those that the peer offers.
    pub peer: u8,
}

/// Our SYN or SYN-ACK, until it is acknowledged.
#[derive(Debug, Default)]
pub(super) struct Opening {
    /// It is to leave.
    pub due: bool,
    pub sent_at: Time,
    /// How often it was retransmitted.
    pub retransmissions: u32,
}

impl Connection {
    /// A connection of which only our side is known.
    pub(super) fn new(now: Time, path: Addresses, isn: SeqNum, config: Arc<ConnectionConfig>) -> Self {
        let own_shift = config.own_shift();
        let buffer = config.receive_buffer.0.max(4 << own_shift);
        let mut window = ReceiveWindow::new(now, buffer, config.mss, config.autotuning);
        window.cap(65_535 << own_shift);
        if let Some(first) = config.first_window {
            window.begin_small(first.0);
        }
        let ack = config.profile.ack;
        let mut connection = Connection {
            path,
            state: State::SynSent,
            passive: false,
            own: SeqSpace::new(isn),
            own_shift,
            peer: Peer { space: SeqSpace::new(SeqNum(0)), mss: 0, shift: 0 },
            agreed: Agreed::default(),
            opening: Opening { due: true, ..Opening::default() },
            sender: Sender::new(
                now,
                1,
                1,
                sender_config(now, &config, 536, Agreed::default(), &Opening::default(), isn),
            ),
            receiver: Receiver::new(1, 1, 536, ack),
            inbox: ByteQueue::new(1),
            window,
            advertised: 1,
            meter: None,
            timestamp_offset: 0,
            timers: Timers::new(now),
            challenges: ChallengeLimit::default(),
            probed: None,
            reset: None,
            close_wanted: false,
            abandoned: false,
            write_blocked: false,
            echo_congestion: false,
            unreachable: false,
            events: Events::default(),
            config,
        };
        connection.timers.on_open(now, &connection.config);
        connection
    }

    /// The SYN that opens a connection of which we know nothing (LISTEN, RFC 9293 §3.10.7.2).
    /// Returns whether it was one. Data in it is not taken: it will come again.
    pub(super) fn on_first_syn(&mut self, now: Time, syn: &TcpSegment) -> bool {
        let flags = syn.header.flags;
        if !flags.contains(TcpFlags::SYN) || flags.intersects(TcpFlags::ACK | TcpFlags::RST | TcpFlags::FIN) {
            return false;
        }
        self.passive = true;
        self.meet(now, &syn.header);
        self.state = State::SynReceived;
        true
    }

    /// Takes from the peer's SYN what both sides agree on, and makes the two halves anew by it.
    fn meet(&mut self, now: Time, syn: &TcpHeader) {
        let options = &syn.options;
        let profile = &self.config.profile;
        let default_mss = if self.path.ip_header().len() == 20 { 536 } else { 1220 };
        self.peer = Peer {
            space: SeqSpace::new(syn.seq),
            mss: u32::from(options.mss.unwrap_or(default_mss)).max(64),
            shift: options.window_scale.unwrap_or(0).min(14),
        };
        let both = TcpFlags::ECE | TcpFlags::CWR;
        let ecn = if syn.flags.contains(TcpFlags::ACK) {
            // RFC 3168 §6.1.1: ECE without CWR; some hosts reflect whatever they get.
            syn.flags.contains(TcpFlags::ECE)
                && !syn.flags.contains(TcpFlags::CWR)
                && self.opening.retransmissions == 0
        } else {
            syn.flags.contains(both)
        };
        self.agreed = Agreed {
            sack: profile.sack && options.sack_permitted,
            timestamps: profile.timestamps && options.timestamps.is_some(),
            window_scaling: profile.window_scaling && options.window_scale.is_some(),
            ecn: profile.ecn && ecn,
            // Whoever offers it is answered: that costs nothing, whatever we do ourselves.
            probes: ProbeOption::find(&options.unknown) == Some(ProbeOption::Offered)
                && (self.passive || profile.discriminator.offers_option()),
            rate_report: profile.rate_report.offers_option()
                && RateOption::find(&options.unknown) == Some(RateOption::Offered)
                && profile.timestamps
                && options.timestamps.is_some(),
        };
        self.meter = profile.rate_report.build().filter(|_| self.agreed.rate_report);
        if !self.agreed.window_scaling {
            self.own_shift = 0;
            self.peer.shift = 0;
            self.window.cap(65_535);
        }
        let mss = self.segment_size(self.config.mtu);
        // The window of a SYN is never scaled (RFC 7323 §2.2).
        let edge = 1 + u64::from(syn.window);
        let config = sender_config(now, &self.config, mss, self.agreed, &self.opening, self.own.seq(0));
        let mut sender = Sender::new(now, 1, edge, config);
        *sender.queue_mut() = core::mem::replace(self.sender.queue_mut(), ByteQueue::new(1));
        self.sender = sender;
        let edge = 1 + u64::from(self.syn_window());
        let expected = 536.min(self.config.mss);
        self.receiver = Receiver::new(1, edge, expected, profile.ack);
        self.advertised = edge;
        if let Some(timestamps) = options.timestamps.filter(|_| self.agreed.timestamps) {
            self.receiver.set_ts_recent(now, timestamps.val);
        }
    }

    /// Payload of a full segment on a path that takes packets of `mtu` bytes: the options that
    /// every segment has are deducted (RFC 9293 §3.7.1, RFC 6691).
    pub(super) fn segment_size(&self, mtu: u32) -> u32 {
        let headers = self.path.ip_header().len() as u32 + 20;
        let options = if self.agreed.timestamps { 12 } else { 0 };
        self.peer.mss.min(mtu.saturating_sub(headers)).max(options + 24) - options
    }

    /// The window field of our SYN: not scaled.
    fn syn_window(&self) -> u16 {
        self.window.limit().min(65_535) as u16
    }

    /// Our SYN, or the SYN-ACK where the peer's has come.
    pub(super) fn syn(&mut self, now: Time) -> TcpHeader {
        let answer = self.state == State::SynReceived;
        let profile = &self.config.profile;
        let offer = |offered: bool, agreed: bool| if answer { agreed } else { offered };
        let agreed = &self.agreed;
        let scale = offer(profile.window_scaling, agreed.window_scaling);
        let ecr = self.receiver.ts_recent().filter(|_| answer).unwrap_or(0);
        let timestamps = offer(profile.timestamps, agreed.timestamps)
            .then(|| Timestamps { val: self.timestamp(now), ecr });
        let mut flags = TcpFlags::SYN;
        if answer {
            flags |= TcpFlags::ACK;
        }
        // A SYN that was lost may have been lost for its ECN bits (RFC 3168 §6.1.1.1).
        match (answer, self.opening.retransmissions) {
            (true, 0) if agreed.ecn => flags |= TcpFlags::ECE,
            (false, 0) if profile.ecn => flags |= TcpFlags::ECE | TcpFlags::CWR,
            _ => {}
        }
        let probes = offer(profile.discriminator.offers_option(), agreed.probes);
        let reports = offer(profile.rate_report.offers_option() && profile.timestamps, agreed.rate_report);
        let mut unknown = if probes { ProbeOption::Offered.to_options() } else { UnknownOptions::new() };
        if reports {
            unknown.extend(RateOption::Offered.to_options());
        }
        TcpHeader {
            src_port: self.path.local.port(),
            dst_port: self.path.remote.port(),
            seq: self.own.seq(0),
            ack: if answer { self.peer.space.seq(1) } else { SeqNum(0) },
            flags,
            window: self.syn_window(),
            options: TcpOptions {
                mss: Some(self.config.mss.min(65_535) as u16),
                window_scale: scale.then_some(self.own_shift),
                sack_permitted: offer(profile.sack, agreed.sack),
                timestamps,
                unknown,
                ..TcpOptions::default()
            },
            ..TcpHeader::default()
        }
    }

    /// SYN-SENT (RFC 9293 §3.10.7.3).
    pub(super) fn on_segment_in_syn_sent(&mut self, now: Time, ip: IpHeader, segment: &TcpSegment) {
        let header = &segment.header;
        let acknowledges = header.flags.contains(TcpFlags::ACK);
        if acknowledges && header.ack != self.own.seq(1) {
            if !header.flags.contains(TcpFlags::RST) {
                self.reset_for(header.ack);
            }
            return;
        }
        if header.flags.contains(TcpFlags::RST) {
            if acknowledges {
                self.fail(now, Failure::Refused);
            }
            return;
        }
        if !header.flags.contains(TcpFlags::SYN) {
            return;
        }
        self.meet(now, header);
        if acknowledges {
            self.take_handshake_rtt(now, header);
            self.establish(now);
            self.receiver.request_ack();
            self.take_text(now, ip, 1, segment);
        } else {
            // Two SYNs crossed: both ends answer as if they had listened (RFC 9293 §3.5, figure 7).
            self.state = State::SynReceived;
            self.opening = Opening { due: true, ..Opening::default() };
        }
    }

    /// A SYN in SYN-RECEIVED: the peer has not got our answer, or its own answer crossed ours.
    pub(super) fn on_syn_in_syn_received(&mut self, now: Time, header: &TcpHeader) {
        if header.seq != self.peer.space.seq(0) {
            return self.challenge(now); // another SYN (RFC 5961 §4)
        }
        if header.flags.contains(TcpFlags::ACK) && header.ack == self.own.seq(1) {
            self.take_handshake_rtt(now, header);
            self.establish(now);
            self.receiver.request_ack();
        } else if self.challenges.admits(now) {
            self.opening.due = true;
        }
    }

    /// The handshake is complete.
    pub(super) fn establish(&mut self, now: Time) {
        self.state = State::Established;
        self.opening.due = false;
        self.timers.on_established(now);
        self.events.push(Event::Connected);
        if self.close_wanted {
            self.close_wanted = false;
            self.close(now);
        }
        self.offer_window();
    }

    /// The handshake measured a round trip; not if it cannot be known of which transmission
    /// (Karn), unless timestamps tell.
    pub(super) fn take_handshake_rtt(&mut self, now: Time, header: &TcpHeader) {
        let rtt = if self.opening.retransmissions == 0 {
            now.saturating_since(self.opening.sent_at)
        } else if let Some(timestamps) = header.options.timestamps.filter(|_| self.agreed.timestamps) {
            Duration::from_millis(u64::from(self.timestamp(now).wrapping_sub(timestamps.ecr)))
        } else {
            self.sender.on_syn_retransmitted();
            return;
        };
        if rtt > Duration::ZERO && rtt < Duration::from_secs(600) {
            self.sender.on_rtt_sample(now, rtt);
            self.window.on_rtt(rtt);
        }
    }
}

fn sender_config(
    now: Time,
    config: &ConnectionConfig,
    mss: u32,
    agreed: Agreed,
    opening: &Opening,
    isn: SeqNum,
) -> SenderConfig {
    let peer = ProbedPeer::of(agreed.probes, agreed.sack);
    let start =
        SenderStart { now, mss, sack: agreed.sack, peer, syn_retransmissions: opening.retransmissions, isn };
    config.profile.sender(&start)
}
