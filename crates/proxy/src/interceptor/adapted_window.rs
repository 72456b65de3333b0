use super::explicit_window::Lowered;
use super::{Interceptor, InterceptorKind};
use crate::end::Side;
use alloc::boxed::Box;
use core::time::Duration;
use shorthaul_types::{Bytes, Time};
use shorthaul_wire::Packet;

/// Explicit window adaptation: the windows that the end at the access side advertises are lowered as they pass, by the room that is free in the
/// buffer before its link.
///
/// ```text
/// window   max(segment, α·log2(free)·segment)      free: segments that the buffer still has room for
/// each step   α = α + 1/8       where the mean queue is at most a fifth of the buffer
///             α = 31/32·α       where it is more
/// ```
///
/// Sources: Kalampoukas, Varma and Ramakrishnan, "Explicit Window Adaptation: A Method to Enhance TCP Performance", INFOCOM 1998, by its abstract. The
/// law is quoted from memory of it and of what later work says of it; its text was not at hand. Guessed: the three constants of α; the time of a
/// step, which theirs has in milliseconds, for links of ATM; that the mean is one of exponential weights of 1/8 for each packet.
///
/// Theirs is in the device whose buffer it is. Here the queue is what has passed toward the access side and is not acknowledged, so it has in it what is
/// under way over the link, and each connection has a buffer of its own. The right edge of a window that has passed never moves left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, schemars::JsonSchema), serde(deny_unknown_fields))]
pub struct AdaptedWindow {
    /// The buffer, in bytes of payload.
    pub buffer: Bytes,
    /// How long a step takes.
    #[cfg_attr(
        feature = "serde",
        serde(with = "shorthaul_types::serde_duration"),
        schemars(with = "shorthaul_types::schema::Duration")
    )]
    pub every: Duration,
}

/// α is counted in so many parts.
const ALPHA: u64 = 1 << 10;
/// What a step adds to α, and the share of it that another leaves.
const UP: u64 = ALPHA / 8;
const DOWN: [u64; 2] = [31, 32];
/// The queue is low up to this part of the buffer.
const LOW: u64 = 5;
/// log2 is counted in so many parts.
const LOG: u64 = 1 << 8;
/// What a segment is taken to carry before one has passed, in bytes.
const SEGMENT: u64 = 1460;

/// One flow.
#[derive(Debug)]
struct Adapted {
    windows: Lowered,
    access: Side,
    buffer: u64,
    every: Duration,
    /// In parts of [`ALPHA`].
    alpha: u64,
    /// The mean queue, in bytes.
    mean: u64,
    /// Behind the last byte that has passed toward the access side, as an offset.
    passed: u64,
    /// Payload of the largest segment.
    segment: u64,
    /// When the last step was taken.
    stepped: Time,
}

impl InterceptorKind for AdaptedWindow {
    fn open(&self, access: Side) -> Box<dyn Interceptor> {
        let mut flow = Adapted {
            windows: Lowered::new(0, access),
            access,
            buffer: self.buffer.0,
            every: self.every,
            alpha: ALPHA,
            mean: 0,
            passed: 1,
            segment: SEGMENT,
            stepped: Time::ZERO,
        };
        flow.windows.most = flow.window(0);
        Box::new(flow)
    }
}

/// The binary logarithm in parts of [`LOG`], rounded down; of less than two it is zero.
fn log2(value: u64) -> u64 {
    if value < 2 {
        return 0;
    }
    let whole = u64::from(value.ilog2());
    // Between 1 and 2, in parts of 1 << 31: its square says the next digit.
    let mut rest = if whole > 31 { value >> (whole - 31) } else { value << (31 - whole) };
    let mut log = whole * LOG;
    let mut digit = LOG / 2;
    while digit > 0 {
        rest = (rest * rest) >> 31;
        if rest >= 1 << 32 {
            rest >>= 1;
            log += digit;
        }
        digit /= 2;
    }
    log
}

impl Adapted {
    /// The largest window where so many bytes wait.
    fn window(&self, queue: u64) -> u64 {
        let free = self.buffer.saturating_sub(queue) / self.segment;
        let segments = u128::from(self.alpha) * u128::from(log2(free)) * u128::from(self.segment);
        let window = segments / u128::from(ALPHA * LOG);
        u64::try_from(window).unwrap_or(u64::MAX).clamp(self.segment, self.buffer.max(self.segment))
    }

    /// So much waits now.
    fn observe(&mut self, now: Time, queue: u64) {
        self.mean = (self.mean * 7 + queue) / 8;
        if now.saturating_since(self.stepped) >= self.every {
            // One step at a time: in silence nothing is learned.
            self.stepped = now;
            self.alpha =
                if self.mean <= self.buffer / LOW { self.alpha + UP } else { self.alpha * DOWN[0] / DOWN[1] };
            // More than the whole buffer is never offered.
            self.alpha = self.alpha.min(ALPHA.saturating_mul(self.buffer / self.segment).max(ALPHA));
        }
        self.windows.most = self.window(queue);
    }
}

impl Interceptor for Adapted {
    fn on_packet(&mut self, now: Time, side: Side, packet: Packet) -> Option<Packet> {
        if side != self.access
            && let Some((space, acknowledged)) = self.windows.acknowledged()
            && let Some(segment) = packet.as_tcp()
            && let Some(start) = space.offset(segment.header.seq, self.passed)
        {
            let length = segment.payload.len() as u64;
            self.segment = self.segment_of(segment.gso_size.map_or(length, |size| u64::from(size.get())));
            self.passed = self.passed.max(start + length);
            self.observe(now, self.passed.saturating_sub(acknowledged));
            return self.windows.on_packet(now, side, packet);
        }
        if side == self.access
            && let Some((space, acknowledged)) = self.windows.acknowledged()
            && let Some(segment) = packet.as_tcp()
            && let Some(ack) = space.offset(segment.header.ack, acknowledged)
        {
            self.observe(now, self.passed.saturating_sub(ack.max(acknowledged)));
        }
        self.windows.on_packet(now, side, packet)
    }
}

impl Adapted {
    /// The largest segment, where one of so many bytes passes. What a segment is taken to carry gives way to what it does.
    fn segment_of(&self, length: u64) -> u64 {
        let largest = if self.passed == 1 { 0 } else { self.segment };
        if length == 0 { self.segment } else { largest.max(length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use shorthaul_testkit::packets;
    use shorthaul_types::SeqNum;
    use shorthaul_wire::{Payload, TcpFlags, TcpHeader, TcpSegment};

    const ISN: u32 = u32::MAX - 5000;
    const MSS: u64 = 1000;

    #[test]
    fn the_logarithm_is_counted_in_parts() {
        // log2 of 3 is 1.58496, of 10 3.32193, of 1000 9.96578, of 2⁴⁰ + 2³⁹ 40.58496.
        let exact = [(3, 405), (5, 594), (10, 850), (24, 1173), (100, 1700), (1000, 2551), (3 << 39, 10_389)];
        for (value, parts) in exact {
            assert!((parts - 1..=parts).contains(&log2(value)), "{value}: {}", log2(value));
        }
        assert_eq!((log2(0), log2(1), log2(2), log2(1 << 63)), (0, 0, LOG, 63 * LOG));
    }

    struct Flow {
        part: Box<dyn Interceptor>,
        now: Time,
    }

    impl Flow {
        fn open(buffer: u64) -> Flow {
            let kind = AdaptedWindow { buffer: Bytes(buffer), every: Duration::from_millis(10) };
            let mut flow = Flow { part: kind.open(Side::Client), now: Time::from_secs(1) };
            flow.passes(Side::Client, TcpFlags::SYN, (0, 0), 0);
            flow.passes(Side::Server, TcpFlags::SYN | TcpFlags::ACK, (ISN, 1), 0);
            flow
        }

        /// What becomes of the window field of 65535 bytes.
        fn passes(&mut self, side: Side, flags: TcpFlags, (seq, ack): (u32, u32), len: usize) -> u64 {
            let header = TcpHeader {
                seq: SeqNum(seq),
                ack: SeqNum(ack),
                flags,
                window: u16::MAX,
                ..TcpHeader::default()
            };
            let payload = Payload::copy_of(&vec![0; len]).into();
            let segment = TcpSegment { header, payload, ..TcpSegment::default() };
            let ends = if side == Side::Client { [1, 2] } else { [2, 1] };
            let [src, dst] = ends.map(|end| [10, 0, 0, end]);
            let packet = Packet::tcp(packets::ip(src, dst), segment);
            let passed = self.part.on_packet(self.now, side, packet).expect("nothing is kept");
            u64::from(passed.as_tcp().unwrap().header.window)
        }

        /// A segment that begins `offset` bytes behind the SYN passes.
        fn data(&mut self, offset: u64) {
            self.passes(Side::Server, TcpFlags::ACK, (ISN.wrapping_add(offset as u32), 1), MSS as usize);
        }

        /// An acknowledgment up to there passes; the window that it says.
        fn ack(&mut self, offset: u64) -> u64 {
            self.passes(Side::Client, TcpFlags::ACK, (1, ISN.wrapping_add(offset as u32)), 0)
        }
    }

    #[test]
    fn the_window_is_alpha_times_the_logarithm_of_the_free_segments() {
        let flow = Adapted {
            windows: Lowered::new(0, Side::Client),
            access: Side::Client,
            buffer: 65 * MSS,
            every: Duration::from_millis(10),
            alpha: ALPHA * 3 / 2,
            mean: 0,
            passed: 1,
            segment: MSS,
            stepped: Time::ZERO,
        };
        assert_eq!(flow.window(MSS), 9 * MSS, "64 are free, of which the logarithm is 6");
        assert_eq!(flow.window(57 * MSS), 4_500);
        assert_eq!([64, 65, 100].map(|queue| flow.window(queue * MSS)), [MSS; 3]);
        assert_eq!(
            Adapted { alpha: 100 * ALPHA, ..flow }.window(MSS),
            65 * MSS,
            "never more than the buffer"
        );
    }

    #[test]
    fn a_queue_above_the_threshold_makes_it_smaller_and_a_short_one_larger_again() {
        let mut flow = Flow::open(50 * MSS);
        let mut window = 0;
        let mut sent = 1;
        let mut step = |flow: &mut Flow, queue: u64| {
            flow.now += Duration::from_millis(10);
            flow.data(sent);
            sent += MSS;
            flow.ack(sent - queue.min(sent - 1))
        };
        for _ in 0..40 {
            window = step(&mut flow, 4 * MSS);
        }
        let grown = window;
        for _ in 0..80 {
            window = step(&mut flow, 30 * MSS);
        }
        let shrunk = window;
        for _ in 0..40 {
            window = step(&mut flow, 4 * MSS);
        }
        assert!(shrunk < grown / 2 && window > shrunk * 2, "{grown} {shrunk} {window}");
    }

    #[test]
    fn a_full_buffer_still_offers_a_segment() {
        let mut flow = Flow::open(10 * MSS);
        (0..30).for_each(|segment| flow.data(1 + segment * MSS));
        // What was told before stays told: the right edge is where the handshake had it, until data is acknowledged beyond.
        let windows: Vec<u64> = (20..29).map(|segment| flow.ack(1 + segment * MSS)).collect();
        assert_eq!(windows[0], MSS, "{windows:?}");
        assert!(windows.iter().all(|window| *window >= MSS), "{windows:?}");
    }

    proptest! {
        /// Whatever passes and whenever, nothing that was told is taken back, and no more than the buffer is told.
        #[test]
        fn the_right_edge_never_moves_left(
            buffer in 1u64..60, steps in prop::collection::vec((0u64..40, 0u64..5, 0u64..5), 1..60),
        ) {
            let mut flow = Flow::open(buffer * MSS);
            let (mut sent, mut acked, mut told) = (1, 1, 0);
            for (ms, segments, acks) in steps {
                flow.now += Duration::from_millis(ms);
                for _ in 0..segments {
                    flow.data(sent);
                    sent += MSS;
                }
                acked = (acked + acks * MSS).min(sent);
                let window = flow.ack(acked);
                prop_assert!(acked + window >= told, "{window} at {acked}: {told} was told");
                prop_assert!(window <= (buffer * MSS).max(told.saturating_sub(acked)).max(SEGMENT));
                told = acked + window;
            }
        }
    }
}
