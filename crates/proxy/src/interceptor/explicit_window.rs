use super::{Interceptor, InterceptorKind};
use crate::end::Side;
use alloc::boxed::Box;
use shorthaul_types::{Bytes, SeqSpace, Time};
use shorthaul_wire::{Packet, TcpFlags, Transport};

/// The windows that the end at the access side advertises are lowered as they pass, so that its sender has at most a fixed amount under way.
///
/// After Kalampoukas, Varma and Ramakrishnan, "Explicit Window Adaptation: A Method to Enhance TCP Performance", INFOCOM
/// 1998, who compute the amount from the room in the router's buffer ([`AdaptedWindow`](super::AdaptedWindow) does); here it is set. The right edge of
/// a window that has passed never moves left (RFC 9293 §3.8.6): the window shrinks as data is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, schemars::JsonSchema), serde(deny_unknown_fields))]
pub struct ExplicitWindow {
    /// The amount.
    pub window: Bytes,
}

/// The windows of one flow.
#[derive(Debug)]
pub(super) struct Lowered {
    /// The largest window, in bytes.
    pub(super) most: u64,
    /// The end whose windows are lowered.
    access: Side,
    /// The sequence numbers of the other end, from its SYN.
    other: Option<SeqSpace>,
    /// What each end's SYN says of window scaling (RFC 7323 §2.2).
    shifts: [Option<u8>; 2],
    /// The highest acknowledgment that passed, and the right edge of the windows: offsets of what the other end sends.
    acknowledged: u64,
    told: u64,
}

impl InterceptorKind for ExplicitWindow {
    fn open(&self, access: Side) -> Box<dyn Interceptor> {
        Box::new(Lowered::new(self.window.0, access))
    }
}

impl Lowered {
    /// Windows of at most so many bytes that the end at `access` advertises.
    pub(super) fn new(most: u64, access: Side) -> Self {
        Lowered { most, access, other: None, shifts: [None; 2], acknowledged: 1, told: 1 }
    }

    /// The sequence numbers of the end whose windows are not lowered, and what of them is acknowledged, as an offset; none before its SYN.
    pub(super) fn acknowledged(&self) -> Option<(SeqSpace, u64)> {
        Some((self.other?, self.acknowledged))
    }

    /// What to say for the window field `field` of an acknowledgment up to `ack`, in units of 1 << `shift`.
    fn lowered(&mut self, field: u16, ack: u64, shift: u8) -> u16 {
        let unit = 1 << shift;
        let promised = self.told.saturating_sub(ack).div_ceil(unit);
        // A window of less than a unit would be none, for ever.
        let most = (self.most >> shift).max(1).max(promised);
        let units = u64::from(field).min(most);
        self.told = self.told.max(ack + (units << shift));
        units as u16 // at most `field`
    }

    /// The shift of the windows behind the handshake.
    fn shift(&self) -> u8 {
        match self.shifts {
            [Some(_), Some(_)] => self.shifts[self.access.index()].unwrap_or(0).min(14),
            _ => 0,
        }
    }
}

impl Interceptor for Lowered {
    fn on_packet(&mut self, _now: Time, side: Side, mut packet: Packet) -> Option<Packet> {
        let Transport::Tcp(segment) = &mut packet.transport else { return Some(packet) };
        let header = &mut segment.header;
        let opens = header.flags.contains(TcpFlags::SYN);
        if opens {
            self.shifts[side.index()] = header.options.window_scale;
        }
        if side != self.access {
            if opens {
                self.other = Some(SeqSpace::new(header.seq));
            }
            return Some(packet);
        }
        if header.flags.contains(TcpFlags::RST) {
            return Some(packet);
        }
        let field = if opens {
            // The window of a SYN is not scaled, and counts from the first byte.
            self.lowered(header.window, 1, 0)
        } else {
            let Some(ack) = self.other.and_then(|space| space.offset(header.ack, self.acknowledged)) else {
                return Some(packet);
            };
            self.acknowledged = self.acknowledged.max(ack);
            let shift = self.shift();
            self.lowered(header.window, ack, shift)
        };
        if field != header.window {
            header.window = field;
            packet.original = None;
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use shorthaul_testkit::packets;
    use shorthaul_types::SeqNum;
    use shorthaul_wire::{TcpHeader, TcpOptions, TcpSegment};

    const ISN: u32 = u32::MAX - 5000;

    fn segment(flags: TcpFlags, (seq, ack): (u32, u32), window: u16, shift: Option<u8>) -> Packet {
        let header = TcpHeader {
            seq: SeqNum(seq),
            ack: SeqNum(ack),
            flags,
            window,
            options: TcpOptions { window_scale: shift, ..TcpOptions::default() },
            ..TcpHeader::default()
        };
        Packet::tcp(packets::ip([10, 0, 0, 1], [10, 0, 0, 2]), TcpSegment { header, ..TcpSegment::default() })
    }

    /// An interceptor after a handshake that the end at the access side opened, with the window of its SYN.
    fn opened(most: u64, shifts: [Option<u8>; 2]) -> (Box<dyn Interceptor>, u16) {
        let mut flow = ExplicitWindow { window: Bytes(most) }.open(Side::Client);
        let syn = flow.on_packet(Time::ZERO, Side::Client, segment(TcpFlags::SYN, (0, 0), 64_240, shifts[0]));
        let syn_ack = segment(TcpFlags::SYN | TcpFlags::ACK, (ISN, 1), 65_160, shifts[1]);
        assert_eq!(flow.on_packet(Time::ZERO, Side::Server, syn_ack.clone()), Some(syn_ack), "the other's");
        (flow, syn.unwrap().as_tcp().unwrap().header.window)
    }

    /// What becomes of the window field of an acknowledgment up to `offset`.
    fn acknowledge(flow: &mut Box<dyn Interceptor>, offset: u32, window: u16) -> u16 {
        let ack = segment(TcpFlags::ACK, (1, ISN.wrapping_add(offset)), window, None);
        flow.on_packet(Time::ZERO, Side::Client, ack).unwrap().as_tcp().unwrap().header.window
    }

    #[test]
    fn windows_are_lowered_and_what_was_told_stays_true() {
        let (mut flow, first) = opened(20_000, [Some(7), Some(7)]);
        assert_eq!(first, 20_000);
        assert_eq!(
            acknowledge(&mut flow, 1, 502),
            157,
            "20 kB in units of 128, told before in full: rounded up"
        );
        assert_eq!(acknowledge(&mut flow, 10_001, 502), 156);
        assert_eq!(acknowledge(&mut flow, 10_001, 100), 100, "a smaller window passes as it is");
        assert_eq!(acknowledge(&mut flow, 12_001, 0), 0);
        assert_eq!(acknowledge(&mut flow, 12_001, 502), 156);
    }

    #[test]
    fn without_scaling_at_both_ends_the_field_is_bytes() {
        let (mut flow, _) = opened(5_000, [Some(7), None]);
        assert_eq!(acknowledge(&mut flow, 1, 60_000), 5_000);
    }

    #[test]
    fn what_needs_no_change_passes_as_it_came() {
        let (mut flow, _) = opened(5_000, [None, None]);
        let mut packet = segment(TcpFlags::ACK, (1, ISN.wrapping_add(1)), 4_000, None);
        packet.original = None;
        assert_eq!(flow.on_packet(Time::ZERO, Side::Client, packet.clone()), Some(packet));
        let reset = segment(TcpFlags::RST, (1, 0), 60_000, None);
        assert_eq!(flow.on_packet(Time::ZERO, Side::Client, reset.clone()), Some(reset));
    }

    proptest! {
        /// Whatever an end advertises that takes nothing back itself, nothing is taken back for it.
        #[test]
        fn the_right_edge_never_moves_left(
            most in 1u64..100_000, shift in 0u8..10, acks in prop::collection::vec((0u32..3000, 0u64..500_000), 1..50),
        ) {
            let (mut flow, first) = opened(most, [Some(shift), Some(0)]);
            let unit = 1u64 << shift;
            let mut told = 1 + u64::from(first);
            let (mut ack, mut advertised) = (1u64, 1 + 64_240u64);
            for (step, grown) in acks {
                ack = (ack + u64::from(step)).min(told);
                advertised = advertised.max(ack + grown);
                let field = ((advertised - ack).div_ceil(unit)).min(65_535) as u16;
                prop_assume!(ack + u64::from(field) * unit >= advertised);
                advertised = ack + u64::from(field) * unit;
                let said = acknowledge(&mut flow, ack as u32, field);
                let edge = ack + u64::from(said) * unit;
                prop_assert!(said <= field && edge >= told, "{said} of {field} at {ack}: {edge} after {told}");
                prop_assert!(edge <= told.max(ack + most.max(unit)) + unit);
                told = edge;
            }
        }
    }
}
