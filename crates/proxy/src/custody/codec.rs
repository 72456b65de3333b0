//! A flow's record as bytes: as few as it needs.
//!
//! What is nearly always small takes a byte for seven bits of it; what an end has said of the other one is told by how far it is from what was delivered,
//! which is zero where all is silent. So a flow of IPv4 that says nothing takes about 110 bytes, and no flow more than [`FlowRecord::MOST`].
use super::{DirectionRecord, FlowRecord};
use crate::end::End;
use crate::handshake::Agreed;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::Deref;
use core::time::Duration;
use shorthaul_types::{Keep, Numbers, PortId, SeqNum, SeqSpace, keeps};
use shorthaul_wire::{IpHeader, Ipv4Header, Ipv6Header};

/// The first byte of a record: another one with each change of what follows.
const VERSION: u8 = 0x55;
/// No stream is longer. What is larger was not written by us.
const LONGEST: u64 = (1 << 56) - 1;
/// No window is larger (RFC 7323 §2.3).
const LARGEST_WINDOW: u64 = 1 << 30;

/// What tells a record that was written whole from one that a crash has torn, or that somebody garbled by mistake.
fn checksum(bytes: &[u8]) -> [u8; 8] {
    let fold = |a: u64, b: u64| {
        let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xd1b5_4a32_d192_ed03);
        product as u64 ^ (product >> 64) as u64
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let mut sums = [1, bytes.len() as u64];
    for (number, word) in words.iter().chain([&last]).enumerate() {
        sums[number % 2] = fold(sums[number % 2], u64::from_ne_bytes(*word));
    }
    (sums[0] ^ sums[1].rotate_left(32)).to_ne_bytes()
}

/// Bytes in order: to be written, or read. `None` where there are none to be read, or not such.
trait Fields {
    /// Writes the lowest `SIZE` bytes of `value`, or puts in its place what is read.
    fn field<const SIZE: usize>(&mut self, value: &mut u64) -> Option<()>;

    /// The same for one that is small: a byte for seven bits of it, the lowest first, and the highest bit where more follow.
    fn small(&mut self, value: &mut u64) -> Option<()>;

    /// The same for one that is near another, which is known: by how far it is from that.
    fn near(&mut self, value: &mut u64, known: u64) -> Option<()> {
        let apart = value.wrapping_sub(known) as i64;
        let mut apart = (apart << 1 ^ apart >> 63) as u64;
        self.small(&mut apart)?;
        *value = known.wrapping_add(apart >> 1 ^ (apart & 1).wrapping_neg());
        Some(())
    }
}

struct Writing<'a>(&'a mut Encoded);

impl Fields for Writing<'_> {
    #[inline]
    fn field<const SIZE: usize>(&mut self, value: &mut u64) -> Option<()> {
        self.0.append(&value.to_le_bytes()[..SIZE])
    }

    #[inline]
    fn small(&mut self, value: &mut u64) -> Option<()> {
        let mut rest = *value;
        while rest >= 0x80 {
            self.0.append(&[rest as u8 | 0x80])?;
            rest >>= 7;
        }
        self.0.append(&[rest as u8])
    }
}

struct Reading<'a>(&'a [u8]);

impl Fields for Reading<'_> {
    #[inline]
    fn field<const SIZE: usize>(&mut self, value: &mut u64) -> Option<()> {
        let (head, rest) = self.0.split_at_checked(SIZE)?;
        let mut bytes = [0; 8];
        bytes[..SIZE].copy_from_slice(head);
        *value = u64::from_le_bytes(bytes);
        self.0 = rest;
        Some(())
    }

    #[inline]
    fn small(&mut self, value: &mut u64) -> Option<()> {
        *value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            *value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Some(());
            }
        }
        None
    }
}

/// A record as bytes.
#[derive(Clone, Copy, Debug)]
pub struct Encoded {
    bytes: [u8; FlowRecord::MOST],
    len: usize,
}

impl Encoded {
    const fn empty() -> Self {
        Encoded { bytes: [0; FlowRecord::MOST], len: 0 }
    }

    /// `None` where there is no room: no record is as long.
    fn append(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len + bytes.len();
        self.bytes.get_mut(self.len..end)?.copy_from_slice(bytes);
        self.len = end;
        Some(())
    }

    fn seal(&mut self) -> Option<()> {
        self.append(&checksum(self))
    }
}

impl Deref for Encoded {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A record as plain numbers, in the order of its bytes.
#[derive(Clone, Copy, Default)]
struct Raw {
    version: u64,
    flags: u64,
    serial: u64,
    ends: [RawEnd; 2],
    directions: [RawDirection; 2],
}

#[derive(Clone, Copy, Default)]
struct RawEnd {
    flags: u64,
    attachment: u64,
    port: u64,
    address: [u64; 2],
    traffic_class: u64,
    hops: u64,
    /// The identification of IPv4, or the flow label.
    label: u64,
    isn: u64,
    mss: u64,
    shift: u64,
    window: u64,
    ts_val: u64,
    ts_ecr: u64,
    acknowledges: u64,
    passed: u64,
    advertised: u64,
    urgent: u64,
}

/// All but `delivered` are told by how much they are beyond that; what was received and may be sent, by one more, as a FIN that was delivered is not
/// among what was received.
#[derive(Clone, Copy, Default)]
struct RawDirection {
    flags: u64,
    delivered: u64,
    received: u64,
    sent: u64,
    edge: u64,
    peer_edge: u64,
    ts_recent: u64,
    srtt: u64,
}

impl Raw {
    /// What the bytes say that a record begins with, and those behind that.
    fn read(bytes: &[u8]) -> Option<(Raw, &[u8])> {
        let (mut raw, mut reading) = (Raw::default(), Reading(bytes));
        // Of another version, what follows is something else.
        (bytes.first() == Some(&VERSION)).then(|| raw.pass(&mut reading))??;
        Some((raw, reading.0))
    }

    #[inline]
    fn pass(&mut self, fields: &mut impl Fields) -> Option<()> {
        fields.field::<1>(&mut self.version)?;
        fields.field::<1>(&mut self.flags)?;
        fields.small(&mut self.serial)?;
        self.directions.iter_mut().try_for_each(|direction| direction.pass(fields))?;
        let [up, down] = &self.directions;
        let [client, server] = &mut self.ends;
        client.pass(fields, up, down)?;
        server.pass(fields, down, up)
    }
}

impl RawDirection {
    #[inline]
    fn pass(&mut self, fields: &mut impl Fields) -> Option<()> {
        fields.field::<1>(&mut self.flags)?;
        let offsets = [&mut self.delivered, &mut self.received, &mut self.sent];
        let edges = [&mut self.edge, &mut self.peer_edge];
        offsets.into_iter().chain(edges).try_for_each(|offset| fields.small(offset))?;
        if has(self.flags, 3) {
            fields.field::<4>(&mut self.ts_recent)?;
        }
        if has(self.flags, 4) {
            fields.small(&mut self.srtt)?;
        }
        Some(())
    }
}

impl RawEnd {
    /// What it sends, and what it is sent, is known.
    #[inline]
    fn pass(&mut self, fields: &mut impl Fields, from: &RawDirection, to: &RawDirection) -> Option<()> {
        fields.field::<1>(&mut self.flags)?;
        let mut attachment_and_shift = self.attachment << 4 | self.shift;
        fields.field::<1>(&mut attachment_and_shift)?;
        (self.attachment, self.shift) = (attachment_and_shift >> 4, attachment_and_shift & 0xf);
        fields.field::<2>(&mut self.port)?;
        if has(self.flags, 0) {
            fields.field::<8>(&mut self.address[0])?;
            fields.field::<8>(&mut self.address[1])?;
            fields.field::<3>(&mut self.label)?;
        } else {
            fields.field::<4>(&mut self.address[0])?;
            fields.field::<2>(&mut self.label)?;
        }
        fields.field::<1>(&mut self.traffic_class)?;
        fields.field::<1>(&mut self.hops)?;
        fields.field::<4>(&mut self.isn)?;
        fields.field::<2>(&mut self.mss)?;
        fields.field::<2>(&mut self.window)?;
        if has(self.flags, 2) {
            fields.near(&mut self.ts_val, from.ts_recent)?;
        }
        if has(self.flags, 3) {
            fields.near(&mut self.ts_ecr, to.ts_recent)?;
        }
        fields.near(&mut self.acknowledges, to.delivered)?;
        fields.near(&mut self.advertised, to.delivered.wrapping_add(to.peer_edge))?;
        fields.small(&mut self.passed)?;
        if has(self.flags, 4) {
            fields.small(&mut self.urgent)?;
        }
        Some(())
    }
}

/// The largest number of so many bytes.
const fn most(bytes: u32) -> u64 {
    (1 << (8 * bytes)) - 1
}

/// Numbered truths as one number.
fn flags<const N: usize>(truths: [bool; N]) -> u64 {
    truths.iter().enumerate().map(|(bit, truth)| u64::from(*truth) << bit).sum()
}

fn has(flags: u64, bit: u32) -> bool {
    flags >> bit & 1 == 1
}

keeps!(RawEnd {
    flags,
    attachment,
    port,
    address,
    traffic_class,
    hops,
    label,
    isn,
    mss,
    shift,
    window,
    ts_val,
    ts_ecr,
    acknowledges,
    passed,
    advertised,
    urgent
});

impl End {
    /// Appends what is known of the client and the server.
    pub(crate) fn put_both(ends: &[End; 2], to: &mut Vec<u64>) {
        ends.iter().for_each(|end| RawEnd::of(end).put(to));
    }

    /// What was known of both.
    pub(crate) fn take_both(from: &mut Numbers<'_>) -> Option<[End; 2]> {
        let mut raw = [RawEnd::default(); 2];
        raw.take(from)?;
        Some([raw[0].read(&raw[1])?, raw[1].read(&raw[0])?])
    }
}

impl RawEnd {
    fn of(end: &End) -> RawEnd {
        let (is_v6, dont_fragment, traffic_class, hops, label) = match end.ip {
            IpHeader::V4(ip) => (false, ip.dont_fragment, ip.tos, ip.ttl, u64::from(ip.id)),
            IpHeader::V6(ip) => (true, false, ip.traffic_class, ip.hop_limit, u64::from(ip.flow_label)),
        };
        let address = match end.ip.src() {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        let present = [end.ts_val.is_some(), end.ts_ecr.is_some(), end.urgent.is_some()];
        RawEnd {
            flags: flags([is_v6, dont_fragment, present[0], present[1], present[2]]),
            attachment: u64::from(end.attachment.0),
            port: u64::from(end.port),
            address: [address as u64, (address >> 64) as u64],
            traffic_class: u64::from(traffic_class),
            hops: u64::from(hops),
            label,
            isn: u64::from(end.space.seq(0).0),
            mss: u64::from(end.mss),
            shift: u64::from(end.window_shift),
            window: u64::from(end.window),
            ts_val: u64::from(end.ts_val.unwrap_or(0)),
            ts_ecr: u64::from(end.ts_ecr.unwrap_or(0)),
            acknowledges: end.acknowledges.min(LONGEST),
            passed: end.passed.min(LONGEST),
            advertised: end.advertised.min(LONGEST),
            urgent: end.urgent.unwrap_or(0).min(LONGEST),
        }
    }

    fn source(&self) -> IpAddr {
        if has(self.flags, 0) {
            IpAddr::from((u128::from(self.address[1]) << 64 | u128::from(self.address[0])).to_be_bytes())
        } else {
            IpAddr::from((self.address[0] as u32).to_be_bytes())
        }
    }

    /// The end, if one can be like this, which talks to another.
    fn read(&self, other: &RawEnd) -> Option<End> {
        let (traffic_class, hops) = (self.traffic_class as u8, self.hops as u8);
        let ip = match (self.source(), other.source()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => IpHeader::V4(Ipv4Header {
                src,
                dst,
                tos: traffic_class,
                ttl: hops,
                id: self.label as u16,
                dont_fragment: has(self.flags, 1),
            }),
            (IpAddr::V6(src), IpAddr::V6(dst)) => IpHeader::V6(Ipv6Header {
                src,
                dst,
                traffic_class,
                hop_limit: hops,
                flow_label: self.label as u32 & 0xf_ffff,
            }),
            _ => return None,
        };
        let offsets = [self.acknowledges, self.passed, self.advertised, self.urgent];
        if self.mss < 64 || self.shift > 14 || self.attachment > 1 || offsets.iter().any(|at| *at >= LONGEST)
        {
            return None;
        }
        Some(End {
            space: SeqSpace::new(SeqNum(self.isn as u32)),
            ip,
            port: self.port as u16,
            attachment: PortId(self.attachment as u8),
            mss: self.mss as u16,
            window_shift: self.shift as u8,
            ts_val: has(self.flags, 2).then_some(self.ts_val as u32),
            ts_ecr: has(self.flags, 3).then_some(self.ts_ecr as u32),
            window: self.window as u16,
            acknowledges: self.acknowledges,
            passed: self.passed,
            advertised: self.advertised,
            urgent: has(self.flags, 4).then_some(self.urgent),
        })
    }
}

impl RawDirection {
    fn of(direction: &DirectionRecord) -> RawDirection {
        let DirectionRecord { finished, fin_confirmed, echo_congestion, ts_recent, srtt, .. } = *direction;
        let delivered = direction.delivered;
        // What cannot be is told as more than can be.
        let beyond = |at: u64, bytes: u32| at.wrapping_sub(delivered).min(most(bytes));
        RawDirection {
            flags: flags([finished, fin_confirmed, echo_congestion, ts_recent.is_some(), srtt.is_some()]),
            delivered: delivered.min(LONGEST),
            received: beyond(direction.received.wrapping_add(1), 5),
            sent: beyond(direction.sent, 4),
            edge: beyond(direction.edge.wrapping_add(1), 5),
            peer_edge: beyond(direction.peer_edge, 4),
            ts_recent: u64::from(ts_recent.unwrap_or(0)),
            srtt: srtt.map_or(0, |srtt| (srtt.as_nanos() as u64).min(most(6))),
        }
    }

    /// The direction, if one can be like this.
    fn read(&self) -> Option<DirectionRecord> {
        let delivered = self.delivered;
        let [received, edge] =
            [self.received, self.edge].map(|beyond| delivered.saturating_add(beyond).saturating_sub(1));
        let [sent, peer_edge] = [self.sent, self.peer_edge].map(|beyond| delivered.saturating_add(beyond));
        let (finished, fin_confirmed) = (has(self.flags, 0), has(self.flags, 1));
        let fin = u64::from(finished);
        let ordered = delivered <= sent && delivered <= received.saturating_add(fin) && received <= edge;
        let bounded = edge < LONGEST && sent < LONGEST && sent.saturating_sub(delivered) <= LARGEST_WINDOW;
        let windows = edge - delivered.min(edge) <= 4 * LARGEST_WINDOW
            && peer_edge < LONGEST
            && peer_edge.saturating_sub(delivered) <= LARGEST_WINDOW;
        (ordered && bounded && windows && delivered > 0 && (finished || !fin_confirmed)).then_some(
            DirectionRecord {
                received,
                delivered,
                sent,
                edge,
                peer_edge,
                finished,
                fin_confirmed,
                echo_congestion: has(self.flags, 2),
                ts_recent: has(self.flags, 3).then_some(self.ts_recent as u32),
                srtt: has(self.flags, 4).then_some(Duration::from_nanos(self.srtt)),
            },
        )
    }
}

impl FlowRecord {
    /// No record takes more bytes.
    pub const MOST: usize = 260;

    /// The record that these bytes begin with, with the checksum that is theirs: for tests that change what a record says. `None` where they
    /// are none.
    pub fn sealed(bytes: &[u8]) -> Option<Encoded> {
        let says = bytes.len() - Raw::read(bytes)?.1.len();
        let mut out = Encoded::empty();
        out.append(&bytes[..says])?;
        out.seal()?;
        Some(out)
    }

    /// The record as bytes. The first byte is never zero.
    pub fn encode(&self) -> Encoded {
        let Agreed { sack, timestamps, window_scaling, ecn } = self.agreed;
        let mut raw = Raw {
            version: u64::from(VERSION),
            flags: flags([sack, timestamps, window_scaling, ecn, self.draining]),
            serial: self.serial,
            ends: self.ends.each_ref().map(RawEnd::of),
            directions: self.directions.each_ref().map(RawDirection::of),
        };
        let mut out = Encoded::empty();
        let is_whole = raw.pass(&mut Writing(&mut out)).is_some() && out.seal().is_some();
        debug_assert!(is_whole, "there is room for any record");
        out
    }

    /// Reads the record that these bytes begin with, and says what is behind it; `None` for none, for one that was torn or is of another version, and
    /// for what no gateway can have written.
    pub fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (raw, rest) = Raw::read(bytes)?;
        let says = &bytes[..bytes.len() - rest.len()];
        let rest = rest.strip_prefix(&checksum(says))?;
        let [client, server] = &raw.ends;
        let ends = [client.read(server)?, server.read(client)?];
        let [up, down] = &raw.directions;
        let record = FlowRecord {
            serial: raw.serial,
            draining: has(raw.flags, 4),
            agreed: Agreed {
                sack: has(raw.flags, 0),
                timestamps: has(raw.flags, 1),
                window_scaling: has(raw.flags, 2),
                ecn: has(raw.flags, 3),
            },
            ends,
            directions: [up.read()?, down.read()?],
        };
        // Nor in other words than ours.
        (record.encode()[..] == bytes[..bytes.len() - rest.len()]).then_some((record, rest))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A record of a flow between two addresses.
    pub fn record(client: &str, server: &str) -> FlowRecord {
        let ip = |src: IpAddr, dst: IpAddr| match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                IpHeader::V4(Ipv4Header { src, dst, tos: 3, ttl: 61, id: 0xfffe, dont_fragment: true })
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                IpHeader::V6(Ipv6Header { src, dst, traffic_class: 7, hop_limit: 60, flow_label: 0xf_fff1 })
            }
            _ => panic!("two families"),
        };
        let [client, server]: [IpAddr; 2] = [client.parse().unwrap(), server.parse().unwrap()];
        let end = |src, dst, port: u16| End {
            space: SeqSpace::new(SeqNum(u32::MAX - 7)),
            ip: ip(src, dst),
            port,
            attachment: PortId(u8::from(port == 80)),
            mss: 1460,
            window_shift: 14,
            ts_val: Some(u32::MAX),
            ts_ecr: None,
            window: 65_535,
            acknowledges: 1 << 40,
            passed: 0,
            advertised: 77,
            urgent: Some(5_000_000_000),
        };
        let direction = DirectionRecord {
            received: 5_000_000_000,
            delivered: 4_999_000_000,
            sent: 4_999_500_000,
            edge: 5_000_100_000,
            peer_edge: 4_999_600_000,
            finished: true,
            fin_confirmed: false,
            echo_congestion: true,
            ts_recent: Some(9),
            srtt: Some(Duration::from_nanos(123_456_789)),
        };
        FlowRecord {
            serial: u64::MAX,
            draining: true,
            agreed: Agreed { sack: true, timestamps: false, window_scaling: true, ecn: false },
            ends: [end(client, server, 5000), end(server, client, 80)],
            directions: [direction, DirectionRecord { finished: false, srtt: None, ..direction }],
        }
    }

    #[test]
    fn a_record_survives_its_bytes_and_every_byte_counts() {
        for (client, server) in [("10.0.0.1", "10.255.0.2"), ("fd00::1", "2001:db8::2")] {
            let record = record(client, server);
            let bytes = record.encode();
            assert_eq!(FlowRecord::decode(&bytes), Some((record, &[][..])));
            let behind = [&bytes[..], &[1, 2]].concat();
            assert_eq!(FlowRecord::decode(&behind), Some((record, &[1, 2][..])));
            for torn in 0..bytes.len() {
                assert_eq!(FlowRecord::decode(&bytes[..torn]), None, "{torn} bytes");
                for bit in [0x01, 0x80] {
                    let mut bytes = bytes.to_vec();
                    bytes[torn] ^= bit;
                    assert_eq!(FlowRecord::decode(&bytes), None, "byte {torn}");
                }
            }
        }
        assert_eq!(FlowRecord::decode(&[0; FlowRecord::MOST]), None);
        assert_eq!(FlowRecord::decode(&[VERSION; FlowRecord::MOST]), None);
    }

    /// A flow that says nothing is to take little, and any flow no more than there is room for.
    #[test]
    fn a_record_is_as_small_as_what_it_says() {
        let mut idle = record("10.0.0.1", "10.255.0.2");
        idle.serial = 1_000_000;
        for (side, clock) in [(0, 0x8765_4321), (1, 0x1234_5678)] {
            let (received, delivered) = (100_000, 100_000);
            idle.directions[side] = DirectionRecord {
                received,
                delivered,
                sent: delivered,
                edge: received + (1 << 20),
                peer_edge: delivered + (1 << 20),
                ts_recent: Some(clock),
                srtt: Some(Duration::from_millis(200)),
                ..DirectionRecord::default()
            };
            let end = &mut idle.ends[side];
            (end.ts_val, end.ts_ecr, end.urgent) =
                (Some(clock), Some(0x1234_5678 ^ 0x8765_4321 ^ clock), None);
            (end.acknowledges, end.advertised) = (100_000, 100_000 + (1 << 20));
        }
        let v4 = idle.encode().len();
        assert!(v4 <= 112, "{v4} bytes");
        for (end, address) in idle.ends.iter_mut().zip(["fd00::1", "fd00::2"]) {
            end.ip = record(address, address).ends[0].ip;
        }
        let v6 = idle.encode().len();
        assert!(v6 <= v4 + 26, "{v6} bytes");

        let mut longest = record("fd00::1", "2001:db8::2");
        for side in 0..2 {
            let delivered = if side == 0 { LONGEST } else { LONGEST - 1 };
            longest.directions[side] = DirectionRecord {
                received: u64::MAX,
                delivered,
                sent: u64::MAX,
                edge: u64::MAX,
                peer_edge: u64::MAX,
                ts_recent: Some(side as u32 * 0x8000_0000),
                srtt: Some(Duration::MAX),
                ..DirectionRecord::default()
            };
            let end = &mut longest.ends[side];
            (end.ts_val, end.ts_ecr) = (Some(0xffff_ffff), Some(0xffff_ffff));
            (end.acknowledges, end.advertised) = (0, 0);
            (end.passed, end.urgent) = (u64::MAX, Some(u64::MAX));
        }
        let most = longest.encode().len();
        assert!(most <= FlowRecord::MOST && most + 8 > FlowRecord::MOST, "{most} bytes");
    }

    #[test]
    fn other_words_for_the_same_are_not_ours() {
        let good = record("10.0.0.1", "10.0.0.2");
        let bytes = FlowRecord { serial: 1, ..good }.encode();
        // Its serial number, a one in one byte, in two.
        let other = [&bytes[..2], &[0x81, 0], &bytes[3..]].concat();
        let sealed = FlowRecord::sealed(&other).unwrap();
        assert_eq!(sealed.len(), bytes.len() + 1);
        assert_eq!(FlowRecord::decode(&sealed), None);
        // One of before, and one of another layout, are none.
        for version in [VERSION - 1, VERSION + 1] {
            assert!(FlowRecord::sealed(&[&[version], &bytes[1..]].concat()).is_none());
        }
    }

    #[test]
    fn any_bytes_are_a_record_or_none() {
        let good = record("10.0.0.1", "10.0.0.2").encode();
        let mut noise = 1_u64;
        for _ in 0..200_000 {
            let mut bytes = good.to_vec();
            for _ in 0..1 + (noise >> 60) {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = 1 + (noise >> 33) as usize % (bytes.len() - 1);
                bytes[at] = if noise >> 24 & 1 == 0 { 0xff } else { (noise >> 16) as u8 };
            }
            if let Some(sealed) = FlowRecord::sealed(&bytes)
                && let Some((record, rest)) = FlowRecord::decode(&sealed)
            {
                assert_eq!((&record.encode()[..], rest), (&sealed[..], &[][..]));
            }
        }
    }

    #[test]
    fn what_no_gateway_can_have_written_is_not_believed_even_with_a_checksum() {
        let good = record("10.0.0.1", "10.0.0.2");
        let direction = |change: fn(&mut DirectionRecord)| {
            let mut record = good;
            change(&mut record.directions[1]);
            FlowRecord::decode(&record.encode()).map(|(record, _)| record)
        };
        assert!(direction(|_| ()).is_some());
        assert_eq!(direction(|d| d.delivered = d.received + 1), None, "delivered and never received");
        assert_eq!(direction(|d| d.delivered = 0), None);
        assert_eq!(direction(|d| d.sent = d.delivered - 1), None);
        assert_eq!(direction(|d| d.sent = u64::MAX), None);
        assert_eq!(direction(|d| d.edge = u64::MAX), None);
        assert_eq!(direction(|d| d.edge = d.received - 1), None);
        assert_eq!(direction(|d| d.peer_edge = u64::MAX - 1), None);
        assert_eq!(direction(|d| d.fin_confirmed = true), None, "of a stream that goes on");
        let mut mixed = good;
        mixed.ends[1] = record("fd00::1", "fd00::2").ends[1];
        assert_eq!(FlowRecord::decode(&mixed.encode()), None);
        let mut small = good;
        small.ends[0].mss = 0;
        assert_eq!(FlowRecord::decode(&small.encode()), None);
    }
}
