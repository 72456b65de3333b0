//! What must survive a crash of the gateway, and where it is kept.
//!
//! Reading order: [`Custody`] (a store, which the driver gives), [`FlowRecord`] (the state of a flow, as few bytes),
//! [`Inherited`] (what a predecessor left of a flow), [`FlowMomentum`] (what it says besides if it hands over on purpose).
mod codec;
mod momentum;

pub use codec::Encoded;
pub use momentum::FlowMomentum;
pub(crate) use momentum::{DirectionMomentum, GroupMomentum, SharedMomentum};

use crate::end::{End, Side};
use crate::handshake::Agreed;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use shorthaul_types::{FlowKey, PortId, SeqNum};
use shorthaul_wire::{Payload, have_same_bytes};

/// The largest piece that bytes are read into.
const PIECE: usize = 65_536;

/// Which bytes are held: those of a direction of a flow, from an offset on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The slot of the flow.
    pub slot: u32,
    /// Tells the flow from others that have its slot at other times.
    pub serial: u64,
    /// Whose bytes they are: 0 for what the client sends, 1 for what the server sends.
    pub direction: u8,
    /// The offset of the first byte in its stream.
    pub offset: u64,
}

/// A store that outlives the gateway, as the driver has it.
///
/// All that [`Gateway::save`](crate::Gateway::save) tells it is to be there before the packets of the same round leave.
pub trait Custody {
    /// These bytes are held from now on, until a record of the flow says that they were delivered. Says of how many of them, from the
    /// first on, that is true: there may be no room for more. The others are told again when the flow has changed.
    fn hold(&mut self, holding: Holding, bytes: &Payload) -> usize;

    /// How a flow stands, in the place of what was said of this slot before. The gateway splits no flow in a slot without
    /// [room](crate::Gateway::set_record_room).
    fn store(&mut self, slot: u32, record: &FlowRecord);

    /// The flow of this slot needs nobody any more.
    fn free(&mut self, slot: u32);
}

/// Nothing survives a crash.
impl Custody for () {
    fn hold(&mut self, _: Holding, bytes: &Payload) -> usize {
        bytes.len()
    }

    fn store(&mut self, _: u32, _: &FlowRecord) {}
    fn free(&mut self, _: u32) {}
}

/// How a split flow stands: all that the next gateway must know to go on with it, but for the bytes.
///
/// What is not in it begins anew: timers, what is known of losses, congestion windows; but for a [`FlowMomentum`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// Tells the flow from others that have its slot at other times.
    pub serial: u64,
    /// The gateway was about to step out.
    pub(crate) draining: bool,
    pub(crate) agreed: Agreed,
    /// The client and the server.
    pub(crate) ends: [End; 2],
    /// What they send, in this order.
    pub(crate) directions: [DirectionRecord; 2],
}

/// How one direction stands; offsets are of its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DirectionRecord {
    /// Up to where we acknowledged it to its sender: what lies below and is not delivered is held.
    pub received: u64,
    /// Up to where its receiver acknowledged it to us: SND.UNA.
    pub delivered: u64,
    /// Up to where it was sent to its receiver: SND.NXT.
    pub sent: u64,
    /// The right edge of the window that its sender was offered.
    pub edge: u64,
    /// The right edge of the window that its receiver offers.
    pub peer_edge: u64,
    /// A FIN follows what was received.
    pub finished: bool,
    /// That FIN was acknowledged to its sender.
    pub fin_confirmed: bool,
    /// Its packets were marked, and its sender does not know that we know of its answer.
    pub echo_congestion: bool,
    /// The timestamp to echo.
    pub ts_recent: Option<u32>,
    /// The smoothed round trip to its receiver.
    pub srtt: Option<Duration>,
}

impl FlowRecord {
    /// From the client to the server.
    pub fn flow(&self) -> FlowKey {
        let [client, server] = self.ends.map(|end| core::net::SocketAddr::new(end.ip.src(), end.port));
        FlowKey { src: client, dst: server }
    }

    /// Our port that leads to the client.
    pub fn client_port(&self) -> PortId {
        self.ends[0].attachment
    }

    /// Up to where the client (0) or the server (1) is acknowledged in whatever is sent to it.
    pub fn acknowledged(&self, side: usize) -> SeqNum {
        let (near, far) = (&self.ends[side], &self.ends[1 - side]);
        let own = if self.draining { far.acknowledges.min(near.passed) } else { 0 };
        let direction = &self.directions[side];
        let fin = u64::from(direction.fin_confirmed);
        near.space.seq((direction.received + fin).max(own))
    }

    /// The bytes that must be there of what the client (0) or the server (1) sends: acknowledged, and not delivered.
    pub fn held(&self, side: usize) -> core::ops::Range<u64> {
        let DirectionRecord { received, delivered, .. } = self.directions[side];
        delivered.min(received)..received
    }
}

/// The last bytes of a stream that were received in order.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// The offset of the first.
    pub start: u64,
    /// The bytes, one piece after the other.
    pub pieces: Vec<Payload>,
}

impl Held {
    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(Payload::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of the bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        self.pieces.iter().for_each(|piece| bytes.extend_from_slice(piece.as_slice()));
        bytes
    }
}

impl PartialEq for Held {
    /// The same bytes, in whatever pieces.
    fn eq(&self, other: &Self) -> bool {
        self.start == other.start && have_same_bytes(&self.pieces, &other.pieces)
    }
}

impl Eq for Held {}

/// A flow as a predecessor left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// How it stood.
    pub record: FlowRecord,
    /// What was held of what the client and the server send, in this order, up to where the record says that they are acknowledged.
    /// If it begins later than the record says, its receiver has acknowledged what is missing, or it is lost.
    pub held: [Held; 2],
    /// What it was doing, where the predecessor had the time to say so.
    pub momentum: Option<Box<FlowMomentum>>,
}

impl Inherited {
    /// Puts a flow together from its record and from pieces of its two streams, `(offset, bytes)` in any order.
    ///
    /// A piece goes from the store when it was delivered, and may be gone before the next record is there: what is kept are
    /// the last bytes, as far as they are without a gap.
    pub fn assemble(record: FlowRecord, mut pieces: [Vec<(u64, Payload)>; 2]) -> Self {
        let held = [0, 1].map(|side| {
            let wanted = record.held(side);
            let pieces = &mut pieces[side];
            pieces.sort_unstable_by_key(|(at, bytes)| (*at, bytes.len()));
            let mut start = wanted.end;
            let mut parts = Vec::new();
            for (at, bytes) in pieces.iter().rev() {
                if start <= wanted.start {
                    break;
                }
                let end = at.saturating_add(bytes.len() as u64);
                let from = (*at).max(wanted.start);
                if from < start && end >= start {
                    parts.push(bytes.slice((from - at) as usize..(start - at) as usize));
                    start = from;
                }
            }
            parts.reverse();
            Held { start, pieces: parts }
        });
        Inherited { record, held, momentum: None }
    }

    /// Whether bytes are missing that were not yet known to be delivered.
    pub(crate) fn is_missing_bytes(&self, side: Side) -> bool {
        self.held[side.index()].start > self.record.held(side.index()).start
    }

    /// As bytes, for a recording.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.record.encode().to_vec();
        for held in &self.held {
            out.extend(held.start.to_be_bytes());
            out.extend((held.len() as u64).to_be_bytes());
            out.extend(held.bytes());
        }
        if let Some(momentum) = &self.momentum {
            out.extend(momentum.encode());
        }
        out
    }

    /// Reads what [`Inherited::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (record, mut rest) = FlowRecord::decode(bytes)?;
        let mut held = [Held::default(), Held::default()];
        for (side, held) in held.iter_mut().enumerate() {
            let (start, after) = rest.split_first_chunk()?;
            let (len, after) = after.split_first_chunk()?;
            let (bytes, after) = after.split_at_checked(usize::try_from(u64::from_be_bytes(*len)).ok()?)?;
            let (start, wanted) = (u64::from_be_bytes(*start), record.held(side));
            if start < wanted.start || start.checked_add(bytes.len() as u64)? != wanted.end {
                return None;
            }
            *held = Held { start, pieces: bytes.chunks(PIECE).map(Payload::copy_of).collect() };
            rest = after;
        }
        let momentum = match rest {
            [] => None,
            rest => Some(Box::new(FlowMomentum::decode(rest)?)),
        };
        Some(Inherited { record, held, momentum })
    }
}

#[cfg(test)]
mod tests {
    use super::codec::tests::record;
    use super::*;

    /// A direction of which these bytes are held.
    fn between(delivered: u64, received: u64) -> DirectionRecord {
        let edge = received + 1_000;
        DirectionRecord {
            received,
            delivered,
            sent: received,
            edge,
            peer_edge: edge,
            ..DirectionRecord::default()
        }
    }

    /// The bytes of a stream.
    fn stream(range: core::ops::Range<u64>) -> Vec<u8> {
        range.map(|at| at as u8).collect()
    }

    #[test]
    fn the_last_bytes_without_a_gap_are_what_was_held() {
        let mut record = record("10.0.0.1", "10.0.0.2");
        record.directions = [between(50, 50), between(100, 400)];
        let [a, b, c, d] = [90..200, 200..310, 300..405, 500..600].map(stream);
        let all = vec_of(&[(300, &c), (500, &d), (90, &a), (200, &b)]);
        let whole = Inherited::assemble(record, [Vec::new(), all]);
        assert_eq!((whole.held[1].start, whole.held[1].bytes()), (100, stream(100..400)));
        assert_eq!(whole.held[0], Held { start: 50, pieces: Vec::new() });
        assert!(!whole.is_missing_bytes(Side::Server));
        assert_eq!(Inherited::decode(&whole.encode()), Some(whole.clone()));
        // The first piece went when it was delivered.
        let released = Inherited::assemble(record, [Vec::new(), vec_of(&[(300, &c), (200, &b)])]);
        assert_eq!(released.held[1].start, 200);
        assert!(released.is_missing_bytes(Side::Server));
        // Behind a gap there is nothing that could be used.
        let torn = Inherited::assemble(record, [Vec::new(), vec_of(&[(90, &a), (300, &c)])]);
        assert_eq!(torn.held[1].start, 300);
        let nothing = Inherited::assemble(record, [Vec::new(), vec_of(&[(90, &a), (200, &b)])]);
        assert_eq!(nothing.held[1], Held { start: 400, pieces: Vec::new() });
    }

    fn vec_of(pieces: &[(u64, &Vec<u8>)]) -> Vec<(u64, Payload)> {
        pieces.iter().map(|(at, bytes)| (*at, Payload::copy_of(bytes))).collect()
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init)] // a list of what is held, of one item
    fn bytes_are_the_same_in_whatever_pieces() {
        let held = |start, pieces: &[core::ops::Range<u64>]| Held {
            start,
            pieces: pieces.iter().map(|piece| Payload::copy_of(&stream(piece.clone()))).collect(),
        };
        let whole = held(7, &[0..100]);
        assert_eq!(whole, held(7, &[0..1, 1..1, 1..60, 60..100]));
        assert_eq!(held(7, &[0..30, 30..100]), held(7, &[0..60, 60..100]));
        assert_eq!(held(7, &[]), held(7, &[5..5]));
        assert_ne!(whole, held(8, &[0..100]));
        assert_ne!(whole, held(7, &[0..99]));
        assert_ne!(whole, held(7, &[0..60, 61..101]));
    }

    #[test]
    fn what_is_garbled_is_no_flow() {
        let mut record = record("10.0.0.1", "10.0.0.2");
        record.directions = [between(40, 50), between(100, 100)];
        let bytes = stream(0..50);
        let whole = Inherited::assemble(record, [vec_of(&[(0, &bytes)]), Vec::new()]).encode();
        assert!(Inherited::decode(&whole).is_some());
        for len in 0..whole.len() {
            assert_eq!(Inherited::decode(&whole[..len]), None);
        }
        let len = record.encode().len();
        for at in len..len + 16 {
            let mut garbled = whole.clone();
            garbled[at] ^= 0x81;
            assert_eq!(Inherited::decode(&garbled), None, "byte {at}");
        }
    }
}
