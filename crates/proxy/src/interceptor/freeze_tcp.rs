use super::{Interceptor, InterceptorKind};
use crate::end::Side;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use shorthaul_types::{Deadline, Time};
use shorthaul_wire::{Packet, TcpFlags, Transport};

/// How often the last acknowledgment is sent again when the link is back: as many duplicates start a fast retransmission.
const COPIES: u8 = 3;

/// Freeze-TCP, the part of a mobile host that knows of fades before they come: its sender is told of a window of zero, which
/// makes it persist instead of time out. When the link is back, the last acknowledgment is sent three times with the window as it
/// was, so that the sender goes on at once, with the congestion window that it had.
///
/// Goff, Moronski, Phatak and Gupta, "Freeze-TCP: A True End-to-End TCP Enhancement Mechanism for Mobile Environments", INFOCOM
/// 2000, §3, from public descriptions of it. The mobile host is changed there; here an interceptor that stands directly before the
/// mobile host, on its side of the bad link, does it in its place. How a host learns of a fade is not the paper's matter, and is
/// given here: it makes sense where fades are part of an experiment. The paper finds one round trip to be the best warning.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, schemars::JsonSchema), serde(deny_unknown_fields))]
pub struct FreezeTcp {
    /// The fades, in order of time.
    pub fades: Vec<Fade>,
    /// How long before a fade it is known.
    #[cfg_attr(
        feature = "serde",
        serde(with = "shorthaul_types::serde_duration"),
        schemars(with = "shorthaul_types::schema::Duration")
    )]
    pub warning: Duration,
}

/// A time without a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, schemars::JsonSchema), serde(deny_unknown_fields))]
pub struct Fade {
    /// When it begins, by the gateway's clock; in a simulation from its start.
    #[cfg_attr(
        feature = "serde",
        serde(with = "shorthaul_types::serde_duration"),
        schemars(with = "shorthaul_types::schema::Duration")
    )]
    pub at: Duration,
    /// How long it lasts.
    #[cfg_attr(
        feature = "serde",
        serde(with = "shorthaul_types::serde_duration"),
        schemars(with = "shorthaul_types::schema::Duration")
    )]
    pub lasts: Duration,
}

/// One connection of the mobile host.
#[derive(Debug)]
struct Frozen {
    /// When the window is closed, and when it is opened again; the next one last.
    fades: Vec<(Time, Time)>,
    access: Side,
    /// The last acknowledgment of the mobile host, without data.
    last: Option<Packet>,
    /// The window is closed.
    frozen: bool,
    /// So many copies are still to be sent.
    copies: u8,
}

impl InterceptorKind for FreezeTcp {
    fn open(&self, access: Side) -> Box<dyn Interceptor> {
        let at = |fade: &Fade| {
            let closes = Time::ZERO + fade.at.saturating_sub(self.warning);
            (closes, Time::ZERO + fade.at + fade.lasts)
        };
        let mut fades: Vec<(Time, Time)> = self.fades.iter().map(at).collect();
        fades.sort_by_key(|(closes, _)| core::cmp::Reverse(*closes));
        Box::new(Frozen { fades, access, last: None, frozen: false, copies: 0 })
    }
}

/// The same with this window.
fn with_window(mut packet: Packet, window: u16) -> Packet {
    if let Transport::Tcp(segment) = &mut packet.transport {
        segment.header.window = window;
    }
    packet.original = None;
    packet
}

impl Frozen {
    /// What has begun, or ended, by now.
    fn pass_time(&mut self, now: Time) {
        while let Some(&(closes, opens)) = self.fades.last() {
            let due = if self.frozen { opens } else { closes };
            if due > now {
                return;
            }
            if self.frozen || opens <= now {
                self.fades.pop();
                self.copies = if self.frozen { COPIES } else { 0 };
                self.frozen = false;
            } else {
                self.frozen = true;
                self.copies = 1;
            }
        }
    }
}

impl Interceptor for Frozen {
    fn on_packet(&mut self, now: Time, side: Side, packet: Packet) -> Option<Packet> {
        if side != self.access {
            return Some(packet);
        }
        let Some(segment) = packet.as_tcp() else { return Some(packet) };
        let flags = segment.header.flags;
        if flags.intersects(TcpFlags::SYN | TcpFlags::RST) || !flags.contains(TcpFlags::ACK) {
            return Some(packet);
        }
        // Fades that ended before the connection began are none of its own.
        if self.last.is_none() {
            self.pass_time(now);
            self.copies = 0;
        }
        let mut last = packet.clone();
        if let Transport::Tcp(segment) = &mut last.transport {
            let length = segment.payload.len() as u32 + u32::from(flags.contains(TcpFlags::FIN));
            segment.header.seq = segment.header.seq + length;
            segment.header.flags = TcpFlags::ACK;
            segment.payload = Default::default();
            segment.gso_size = None;
        }
        last.original = None;
        self.last = Some(last);
        Some(if self.frozen { with_window(packet, 0) } else { packet })
    }

    fn poll_packet(&mut self, now: Time) -> Option<(Side, Packet)> {
        self.pass_time(now);
        let last = self.last.clone()?;
        self.copies = self.copies.checked_sub(1)?;
        let packet = if self.frozen { with_window(last, 0) } else { last };
        Some((self.access.other(), packet))
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.last.as_ref()?;
        let (closes, opens) = *self.fades.last()?;
        Some(Deadline { at: if self.frozen { opens } else { closes }, timer: "freeze-tcp" })
    }

    fn memory(&self) -> usize {
        self.last.as_ref().map_or(0, |_| size_of::<Packet>())
            + self.fades.capacity() * size_of::<(Time, Time)>()
    }

    fn step_out(&mut self) {
        // A window that stayed closed would be closed for ever.
        self.copies = if self.frozen { COPIES } else { 0 };
        (self.frozen, self.fades) = (false, Vec::new());
    }
}
