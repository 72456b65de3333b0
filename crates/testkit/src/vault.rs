//! What a gateway keeps for the case that it crashes, in memory.
use shorthaul_proxy::{Custody, Encoded, FlowRecord, Holding, Inherited};
use shorthaul_wire::Payload;
use std::collections::BTreeMap;

/// What is kept of a flow: its record as bytes, and pieces of its two streams by offset.
#[derive(Clone, Debug)]
struct Kept {
    serial: u64,
    record: Option<Encoded>,
    pieces: [BTreeMap<u64, Vec<u8>>; 2],
}

/// A store that outlives a simulated gateway.
#[derive(Clone, Debug, Default)]
pub struct Vault {
    kept: BTreeMap<u32, Kept>,
    /// There is no room for bytes.
    pub is_full: bool,
}

impl Vault {
    fn kept(&mut self, slot: u32, serial: u64) -> &mut Kept {
        let new = || Kept { serial, record: None, pieces: Default::default() };
        let kept = self.kept.entry(slot).or_insert_with(new);
        if kept.serial != serial {
            *kept = new();
        }
        kept
    }

    /// The record of each flow.
    pub fn records(&self) -> impl Iterator<Item = FlowRecord> + '_ {
        self.kept.values().filter_map(|kept| Some(FlowRecord::decode(kept.record.as_ref()?)?.0))
    }

    /// How many bytes are kept.
    pub fn bytes(&self) -> usize {
        self.kept.values().flat_map(|kept| &kept.pieces).flat_map(BTreeMap::values).map(Vec::len).sum()
    }

    /// Each flow as it is left to the next gateway.
    pub fn left(&self) -> Vec<Inherited> {
        let of = |kept: &Kept| {
            let (record, _) = FlowRecord::decode(kept.record.as_ref()?)?;
            let pieces = kept
                .pieces
                .each_ref()
                .map(|pieces| pieces.iter().map(|(at, bytes)| (*at, Payload::copy_of(bytes))).collect());
            Some(Inherited::assemble(record, pieces))
        };
        self.kept.values().filter_map(of).collect()
    }
}

impl Custody for Vault {
    fn hold(&mut self, holding: Holding, bytes: &Payload) -> usize {
        if self.is_full {
            return 0;
        }
        let kept = self.kept(holding.slot, holding.serial);
        kept.pieces[usize::from(holding.direction)].insert(holding.offset, bytes.as_slice().to_vec());
        bytes.len()
    }

    fn store(&mut self, slot: u32, record: &FlowRecord) {
        let kept = self.kept(slot, record.serial);
        kept.record = Some(record.encode());
        for (side, pieces) in kept.pieces.iter_mut().enumerate() {
            let delivered = record.held(side).start;
            pieces.retain(|at, bytes| at + bytes.len() as u64 > delivered);
        }
    }

    fn free(&mut self, slot: u32) {
        self.kept.remove(&slot);
    }
}
