use crate::Gateway;
use crate::end::{End, Side};
use core::net::IpAddr;
use core::time::Duration;
use shorthaul_types::{PortId, Time};
use shorthaul_wire::{IpHeader, TcpFlags, TcpSegment};

/// How long a SYN may go unanswered. Whoever answers does so within a round trip, and a SYN that is retransmitted begins anew.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long we listen to a handshake that was answered: as long as Linux tries to complete one.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(130);

/// Whoever takes no more in a segment is not split: what is known of each segment under way would take more than its bytes. (CVE-2019-11479
/// is the same; no path is known that takes so little, RFC 1191 §5.)
const LEAST_MSS: u16 = 216;

/// The option of TCP Fast Open (RFC 7413 §4.1.1). In a segment without data it asks for a cookie, brings one, or is not used: all of that is between
/// the ends, and over with the handshake.
const FAST_OPEN: u8 = 34;

/// Whether options that we do not read need nothing of us, as they say nothing of what is behind the handshake.
fn needs_nothing(mut options: &[u8]) -> bool {
    while let [kind, len, ..] = *options {
        let len = usize::from(len);
        if kind != FAST_OPEN || len < 2 || len > options.len() {
            return false;
        }
        options = &options[len..];
    }
    options.is_empty()
}

/// A connection that is being opened: the ends talk, we listen.
#[derive(Debug)]
pub(crate) struct Handshake {
    pub client: End,
    pub server: Option<End>,
    pub agreed: Agreed,
    pub syn_at: Time,
    pub syn_ack_at: Time,
    /// The round trips to the server and to the client say nothing: the SYN, or the SYN-ACK, was seen twice (Karn), and timestamps do not tell
    /// which of them was answered.
    pub ambiguous: [bool; 2],
    /// It was seen twice before it was answered, with other timestamps.
    repeated: [bool; 2],
    /// The TSval of the first SYN-ACK.
    syn_ack_val: Option<u32>,
    /// The client was offered less at first than the server offered.
    limited: bool,
}

/// What the SYNs agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub sack: bool,
    pub timestamps: bool,
    pub window_scaling: bool,
    pub ecn: bool,
}

/// What to do about a segment of a connection that is being opened.
pub(crate) enum Step {
    /// Pass it on and go on listening.
    Listen,
    /// The third segment: the connection is open. (Pass nothing on; the split flow answers.)
    Open,
    /// Data that overtook the third segment: do not pass it on. The server would acknowledge what we, once
    /// we have stepped in, do not know to have been sent. Its sender has it still, and will retransmit it.
    Withhold,
    /// This will not become a flow that we split.
    Forget(&'static str),
}

impl Handshake {
    /// When it is taken to have failed.
    pub(crate) fn expires_at(&self) -> Time {
        self.syn_at + if self.server.is_some() { HANDSHAKE_TIMEOUT } else { ANSWER_TIMEOUT }
    }

    /// A SYN came. `Err` says why its connection must pass unsplit.
    pub(crate) fn begin(
        now: Time,
        from: PortId,
        ip: IpHeader,
        syn: &TcpSegment,
    ) -> Result<Handshake, &'static str> {
        let options = &syn.header.options;
        if !needs_nothing(&options.unknown) {
            return Err("unknown option");
        }
        if !syn.payload.is_empty() {
            return Err("data in the SYN");
        }
        if options.mss.is_some_and(|mss| mss < LEAST_MSS) {
            return Err("tiny segments");
        }
        let ecn_flags = TcpFlags::ECE | TcpFlags::CWR;
        Ok(Handshake {
            client: End::new(ip, syn, from),
            server: None,
            agreed: Agreed {
                sack: options.sack_permitted,
                timestamps: options.timestamps.is_some(),
                window_scaling: options.window_scale.is_some(),
                ecn: syn.header.flags.contains(ecn_flags),
            },
            syn_at: now,
            syn_ack_at: now,
            ambiguous: [false; 2],
            repeated: [false; 2],
            syn_ack_val: None,
            limited: false,
        })
    }

    /// A later segment of the opening, sent by `side`.
    pub(crate) fn on_segment(
        &mut self,
        now: Time,
        from: PortId,
        side: Side,
        ip: IpHeader,
        segment: &TcpSegment,
    ) -> Step {
        let header = &segment.header;
        let flags = header.flags;
        if flags.contains(TcpFlags::RST) {
            return if self.is_refused_by(side, segment) { Step::Forget("refused") } else { Step::Listen };
        }
        match (side, flags.contains(TcpFlags::SYN), flags.contains(TcpFlags::ACK)) {
            (Side::Client, true, false) => {
                if self.client.space.seq(0) != header.seq {
                    return Step::Forget("opened anew");
                }
                if self.server.is_none() {
                    self.note_repeated(
                        0,
                        self.client.ts_val,
                        header.options.timestamps.map(|stamps| stamps.val),
                    );
                }
                Step::Listen
            }
            (Side::Server, true, true) => self.on_syn_ack(now, from, ip, segment),
            (Side::Client, false, true) => match &self.server {
                Some(server)
                    if header.ack == server.space.seq(1) && header.seq == self.client.space.seq(1) =>
                {
                    let first = self.syn_ack_val;
                    self.note_answered(1, first, header.options.timestamps.map(|stamps| stamps.ecr));
                    Step::Open
                }
                Some(_)
                    if header.seq.after(self.client.space.seq(1))
                        && (!segment.payload.is_empty() || flags.contains(TcpFlags::FIN)) =>
                {
                    Step::Withhold
                }
                _ => Step::Listen,
            },
            // What the client sent first is lost, and an acknowledgment that stands behind that has opened the server. Nothing of either stream has
            // passed: what is lost will be sent again, and opens it for us.
            (Side::Server, false, true) if self.is_of_nothing(segment) => {
                self.tell_server_clock(segment);
                Step::Listen
            }
            // A SYN that crosses ours opens the connection from both sides (RFC 9293 §3.5).
            _ => Step::Forget("simultaneous open"),
        }
    }

    /// Whether a reset of `side` stands where the other end believes it (RFC 9293 §3.10.7.3, RFC 5961 §3): in answer to the SYN, or as the first that follows.
    fn is_refused_by(&self, side: Side, segment: &TcpSegment) -> bool {
        let header = &segment.header;
        let client = self.client.space;
        match (side, &self.server) {
            (Side::Client, _) => header.seq == client.seq(1) || header.seq == client.seq(0),
            (Side::Server, Some(server)) if header.seq == server.space.seq(1) => true,
            (Side::Server, _) => header.flags.contains(TcpFlags::ACK) && header.ack == client.seq(1),
        }
    }

    /// Whether a segment of the server has nothing of its stream, and acknowledges nothing of the client's.
    fn is_of_nothing(&self, segment: &TcpSegment) -> bool {
        let header = &segment.header;
        self.server.as_ref().is_some_and(|server| header.seq == server.space.seq(1))
            && header.ack == self.client.space.seq(1)
            && segment.payload.is_empty()
            && !header.flags.contains(TcpFlags::FIN)
    }

    /// A segment of the server passes. What we say in its name later is no older, or the client would discard it (RFC 7323 §5.3).
    fn tell_server_clock(&mut self, segment: &TcpSegment) {
        if let (Some(server), Some(stamps)) = (&mut self.server, segment.header.options.timestamps) {
            server.tell_clock(stamps.val);
        }
    }

    /// A SYN (0) or SYN-ACK (1) was seen again, with this timestamp, where the first had that one.
    fn note_repeated(&mut self, which: usize, first: Option<u32>, again: Option<u32>) {
        self.repeated[which] = true;
        self.ambiguous[which] |= first.is_none() || first == again;
    }

    /// It is answered, with the echo of this timestamp, where the first had that one.
    fn note_answered(&mut self, which: usize, first: Option<u32>, echo: Option<u32>) {
        self.ambiguous[which] |= self.repeated[which] && first != echo;
    }

    /// The client, on the access side, is offered at first what `offer` says of its address and its segments, and not more
    /// than the server offers. Returns that window.
    pub(crate) fn limit_first_offer(&mut self, offer: impl FnOnce(IpAddr, u32) -> u64) -> Option<u16> {
        let server = self.server.as_mut()?;
        if self.client.attachment != Gateway::ACCESS || server.attachment == Gateway::ACCESS {
            return None;
        }
        // Once it is told, it holds.
        if !core::mem::replace(&mut self.limited, true) {
            let options = if self.agreed.timestamps { 12 } else { 0 };
            let mss = u32::from(self.client.mss.min(server.mss)) - options;
            let offer = offer(self.client.ip.src(), mss).min(u64::from(u16::MAX));
            server.window = server.window.min(offer as u16);
        }
        Some(server.window)
    }

    fn on_syn_ack(&mut self, now: Time, from: PortId, ip: IpHeader, segment: &TcpSegment) -> Step {
        let header = &segment.header;
        let options = &header.options;
        if header.ack != self.client.space.seq(1) {
            return Step::Listen; // not an answer to this SYN; the client will say so
        }
        if from == self.client.attachment {
            // Nobody shall speak for both ends from one side; and where both are there, no link lies between them that we could help.
            return Step::Forget("handshake-one-sided");
        }
        let is_tiny = options.mss.is_some_and(|mss| mss < LEAST_MSS);
        if is_tiny || !needs_nothing(&options.unknown) || !segment.payload.is_empty() {
            return Step::Forget("unknown option");
        }
        if self.server.is_some() {
            self.note_repeated(1, self.syn_ack_val, options.timestamps.map(|stamps| stamps.val));
            self.tell_server_clock(segment);
            return Step::Listen;
        }
        self.note_answered(0, self.client.ts_val, options.timestamps.map(|stamps| stamps.ecr));
        let ecn = header.flags.intersects(TcpFlags::ECE | TcpFlags::CWR | TcpFlags::AE);
        if ecn && header.flags.intersects(TcpFlags::CWR | TcpFlags::AE) {
            return Step::Forget("accurate ECN");
        }
        self.agreed.sack &= options.sack_permitted;
        self.agreed.timestamps &= options.timestamps.is_some();
        self.agreed.window_scaling &= options.window_scale.is_some();
        self.agreed.ecn &= ecn;
        self.syn_ack_at = now;
        self.syn_ack_val = options.timestamps.map(|stamps| stamps.val);
        self.server = Some(End::new(ip, segment, from));
        Step::Listen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_options_of_the_handshake_alone_need_nothing_of_us() {
        assert!(needs_nothing(&[]));
        assert!(needs_nothing(&[34, 2]), "a cookie is asked for");
        assert!(needs_nothing(&[34, 10, 1, 2, 3, 4, 5, 6, 7, 8]));
        for other in [&[30, 4, 0, 0][..], &[34, 2, 30, 4, 0, 0], &[34, 9, 1], &[34, 0], &[34]] {
            assert!(!needs_nothing(other), "{other:?}");
        }
    }

    /// A SYN at 0, repeated at 1 s; answered at 3 s, which is repeated at 4 s; the client's acknowledgment, at 10 s, echoes `echo`. Which round
    /// trips say nothing, to the server and to the client.
    fn ambiguous(answered: u32, echo: u32) -> [bool; 2] {
        use shorthaul_types::SeqNum;
        use shorthaul_wire::{Ipv4Header, TcpHeader, TcpOptions, Timestamps};
        let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let ip = IpHeader::V4(Ipv4Header { src, dst, tos: 0, ttl: 64, id: 0, dont_fragment: true });
        let at = Time::from_secs;
        let segment = |flags: TcpFlags, seq: u32, ack: u32, val: u32, ecr: u32| {
            let options = TcpOptions { timestamps: Some(Timestamps { val, ecr }), ..TcpOptions::default() };
            let header =
                TcpHeader { seq: SeqNum(seq), ack: SeqNum(ack), flags, options, ..TcpHeader::default() };
            TcpSegment { header, ..TcpSegment::default() }
        };
        let (client, server) = (Gateway::ACCESS, PortId(1));
        let mut handshake =
            Handshake::begin(at(0), client, ip, &segment(TcpFlags::SYN, 5, 0, 100, 0)).ok().unwrap();
        handshake.on_segment(at(1), client, Side::Client, ip, &segment(TcpFlags::SYN, 5, 0, 1100, 0));
        let syn_ack = TcpFlags::SYN | TcpFlags::ACK;
        handshake.on_segment(at(3), server, Side::Server, ip, &segment(syn_ack, 9, 6, 700, answered));
        handshake.on_segment(at(4), server, Side::Server, ip, &segment(syn_ack, 9, 6, 1700, answered));
        // Behind a long queue the SYN is repeated once more: its answer has passed.
        handshake.on_segment(at(5), client, Side::Client, ip, &segment(TcpFlags::SYN, 5, 0, 5100, 0));
        let ack = segment(TcpFlags::ACK, 6, 10, 9000, echo);
        let step = handshake.on_segment(at(10), client, Side::Client, ip, &ack);
        assert!(matches!(step, Step::Open));
        handshake.ambiguous
    }

    /// Who knows no sequence number does not end what the ends are about to open.
    #[test]
    fn a_reset_counts_where_the_other_end_believes_it() {
        use shorthaul_types::SeqNum;
        use shorthaul_wire::{Ipv4Header, TcpHeader};
        let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let ip = IpHeader::V4(Ipv4Header { src, dst, tos: 0, ttl: 64, id: 0, dont_fragment: true });
        let segment = |flags: TcpFlags, seq: u32, ack: u32| {
            let header = TcpHeader { seq: SeqNum(seq), ack: SeqNum(ack), flags, ..TcpHeader::default() };
            TcpSegment { header, ..TcpSegment::default() }
        };
        let both = TcpFlags::RST | TcpFlags::ACK;
        let is_refused = |answered: bool, side: Side, reset: TcpSegment| {
            let (now, client, server) = (Time::from_secs(1), Gateway::ACCESS, PortId(1));
            let mut handshake =
                Handshake::begin(now, client, ip, &segment(TcpFlags::SYN, 5, 0)).ok().unwrap();
            if answered {
                handshake.on_segment(
                    now,
                    server,
                    Side::Server,
                    ip,
                    &segment(TcpFlags::SYN | TcpFlags::ACK, 9, 6),
                );
            }
            let from = if side == Side::Client { client } else { server };
            matches!(handshake.on_segment(now, from, side, ip, &reset), Step::Forget("refused"))
        };
        assert!(is_refused(false, Side::Server, segment(both, 0, 6)));
        assert!(!is_refused(false, Side::Server, segment(both, 0, 7)));
        assert!(!is_refused(false, Side::Server, segment(TcpFlags::RST, 6, 6)));
        assert!(is_refused(true, Side::Server, segment(TcpFlags::RST, 10, 0)));
        assert!(!is_refused(true, Side::Server, segment(TcpFlags::RST, 12, 0)));
        assert!(is_refused(true, Side::Client, segment(TcpFlags::RST, 6, 0)));
        assert!(!is_refused(true, Side::Client, segment(TcpFlags::RST, 900, 0)));
    }

    #[test]
    fn timestamps_tell_which_of_two_syns_was_answered() {
        assert_eq!(ambiguous(100, 700), [false, false]);
        assert_eq!(ambiguous(1100, 700), [true, false]);
        assert_eq!(ambiguous(100, 1700), [false, true]);
    }
}
