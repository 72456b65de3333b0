//! A flow's record as bytes.
use super::{DirectionRecord, FlowRecord};
use crate::end::End;
use crate::handshake::Agreed;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use shorthaul_types::{Keep, Numbers, PortId, SeqNum, SeqSpace, keeps};
use shorthaul_wire::{IpHeader, Ipv4Header, Ipv6Header};

/// The first byte of a record: another one with each change of what follows.
const VERSION: u8 = 0x54;
/// Where the checksum lies, over all that is before it.
const CHECKSUM: usize = FlowRecord::SIZE - 8;
/// No stream is longer, and seven bytes hold it. What is larger was not written by us.
const LONGEST: u64 = (1 << 56) - 1;
/// No window is larger (RFC 7323 §2.3).
const LARGEST_WINDOW: u64 = 1 << 30;

/// What tells a record that was written whole from one that a crash has torn, or that somebody garbled by mistake.
fn checksum(bytes: &[u8]) -> [u8; 8] {
    let fold = |a: u64, b: u64| {
        let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xd1b5_4a32_d192_ed03);
        product as u64 ^ (product >> 64) as u64
    };
    let (pairs, _) = bytes.as_chunks::<16>();
    let (mut even, mut odd) = (1, 2);
    for pair in pairs {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&pair[at..at + 8]);
            u64::from_ne_bytes(word)
        };
        (even, odd) = (fold(even, word(0)), fold(odd, word(8)));
    }
    (even ^ odd.rotate_left(32)).to_ne_bytes()
}

/// Bytes in order: to be written, or read.
trait Fields {
    /// Writes `value`, or puts in its place what is read, in the lowest `SIZE` bytes.
    fn field<const SIZE: usize>(&mut self, value: &mut u64);
}

struct Writing<'a>(&'a mut [u8]);

impl Fields for Writing<'_> {
    #[inline]
    fn field<const SIZE: usize>(&mut self, value: &mut u64) {
        let bytes = core::mem::take(&mut self.0);
        let (head, rest) = bytes.split_at_mut(SIZE);
        head.copy_from_slice(&value.to_le_bytes()[..SIZE]);
        self.0 = rest;
    }
}

struct Reading<'a>(&'a [u8]);

impl Fields for Reading<'_> {
    #[inline]
    fn field<const SIZE: usize>(&mut self, value: &mut u64) {
        let (head, rest) = self.0.split_at(SIZE);
        let mut bytes = [0; 8];
        bytes[..SIZE].copy_from_slice(head);
        *value = u64::from_le_bytes(bytes);
        self.0 = rest;
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
    #[inline]
    fn pass(&mut self, fields: &mut impl Fields) {
        fields.field::<1>(&mut self.version);
        fields.field::<1>(&mut self.flags);
        fields.field::<8>(&mut self.serial);
        for end in &mut self.ends {
            fields.field::<1>(&mut end.flags);
            fields.field::<1>(&mut end.attachment);
            fields.field::<2>(&mut end.port);
            fields.field::<8>(&mut end.address[0]);
            fields.field::<8>(&mut end.address[1]);
            fields.field::<1>(&mut end.traffic_class);
            fields.field::<1>(&mut end.hops);
            fields.field::<3>(&mut end.label);
            fields.field::<4>(&mut end.isn);
            fields.field::<2>(&mut end.mss);
            fields.field::<1>(&mut end.shift);
            fields.field::<2>(&mut end.window);
            fields.field::<4>(&mut end.ts_val);
            fields.field::<4>(&mut end.ts_ecr);
            fields.field::<7>(&mut end.acknowledges);
            fields.field::<7>(&mut end.passed);
            fields.field::<7>(&mut end.advertised);
            fields.field::<7>(&mut end.urgent);
        }
        for direction in &mut self.directions {
            fields.field::<1>(&mut direction.flags);
            fields.field::<7>(&mut direction.delivered);
            fields.field::<5>(&mut direction.received);
            fields.field::<4>(&mut direction.sent);
            fields.field::<5>(&mut direction.edge);
            fields.field::<4>(&mut direction.peer_edge);
            fields.field::<4>(&mut direction.ts_recent);
            fields.field::<6>(&mut direction.srtt);
        }
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
            [self.received, self.edge].map(|beyond| (delivered + beyond).saturating_sub(1));
        let [sent, peer_edge] = [self.sent, self.peer_edge].map(|beyond| delivered + beyond);
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
    /// Bytes of an encoded record.
    pub const SIZE: usize = 232;

    /// The same bytes with the checksum that is theirs: for tests that change what a record says.
    pub fn sealed(mut bytes: [u8; Self::SIZE]) -> [u8; Self::SIZE] {
        let (says, sum) = bytes.split_at_mut(CHECKSUM);
        sum.copy_from_slice(&checksum(says));
        bytes
    }

    /// The record as bytes. The first byte is never zero.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let Agreed { sack, timestamps, window_scaling, ecn } = self.agreed;
        let mut raw = Raw {
            version: u64::from(VERSION),
            flags: flags([sack, timestamps, window_scaling, ecn, self.draining]),
            serial: self.serial,
            ends: self.ends.each_ref().map(RawEnd::of),
            directions: self.directions.each_ref().map(RawDirection::of),
        };
        let mut out = [0; Self::SIZE];
        raw.pass(&mut Writing(&mut out[..CHECKSUM]));
        let sum = checksum(&out[..CHECKSUM]);
        out[CHECKSUM..].copy_from_slice(&sum);
        out
    }

    /// Reads a record; `None` for a free slot, for one that was torn, and for what no gateway can have written.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        if bytes[0] != VERSION || bytes[CHECKSUM..] != checksum(&bytes[..CHECKSUM]) {
            return None;
        }
        let mut raw = Raw::default();
        raw.pass(&mut Reading(&bytes[..CHECKSUM]));
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
        // Nor with anything where nothing is to be.
        (record.encode() == *bytes).then_some(record)
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
            assert_eq!(FlowRecord::decode(&bytes), Some(record));
            for torn in 0..FlowRecord::SIZE {
                for bit in [0x01, 0x80] {
                    let mut bytes = bytes;
                    bytes[torn] ^= bit;
                    assert_eq!(FlowRecord::decode(&bytes), None, "byte {torn}");
                }
            }
        }
        assert_eq!(FlowRecord::decode(&[0; FlowRecord::SIZE]), None);
        assert_eq!(FlowRecord::decode(&[VERSION; FlowRecord::SIZE]), None);
    }

    #[test]
    fn what_no_gateway_can_have_written_is_not_believed_even_with_a_checksum() {
        let good = record("10.0.0.1", "10.0.0.2");
        let direction = |change: fn(&mut DirectionRecord)| {
            let mut record = good;
            change(&mut record.directions[1]);
            FlowRecord::decode(&record.encode())
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
