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
    /// A SYN or SYN-ACK was seen twice: its round trip says nothing (Karn).
    pub ambiguous: bool,
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
            ambiguous: false,
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
            return Step::Forget("refused");
        }
        match (side, flags.contains(TcpFlags::SYN), flags.contains(TcpFlags::ACK)) {
            (Side::Client, true, false) => {
                if self.client.space.seq(0) != header.seq {
                    return Step::Forget("opened anew");
                }
                self.ambiguous = true;
                Step::Listen
            }
            (Side::Server, true, true) => self.on_syn_ack(now, from, ip, segment),
            (Side::Client, false, true) => match &self.server {
                Some(server)
                    if header.ack == server.space.seq(1) && header.seq == self.client.space.seq(1) =>
                {
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
            // A SYN that crosses ours opens the connection from both sides (RFC 9293 §3.5).
            _ => Step::Forget("simultaneous open"),
        }
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
        if !needs_nothing(&options.unknown) || !segment.payload.is_empty() {
            return Step::Forget("unknown option");
        }
        if self.server.is_some() {
            self.ambiguous = true;
            return Step::Listen;
        }
        let ecn = header.flags.intersects(TcpFlags::ECE | TcpFlags::CWR | TcpFlags::AE);
        if ecn && header.flags.intersects(TcpFlags::CWR | TcpFlags::AE) {
            return Step::Forget("accurate ECN");
        }
        self.agreed.sack &= options.sack_permitted;
        self.agreed.timestamps &= options.timestamps.is_some();
        self.agreed.window_scaling &= options.window_scale.is_some();
        self.agreed.ecn &= ecn;
        self.syn_ack_at = now;
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
}
