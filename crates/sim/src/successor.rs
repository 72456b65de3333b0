//! Another process goes on in the place of a gateway: one that has handed over, as `shorthaul gateway --take-over` does, or one that
//! was killed.
use shorthaul_proxy::{Custody, FlowMomentum, FlowRecord, Gateway, GatewayConfig, Holding, Inherited};
use shorthaul_types::Time;
use shorthaul_wire::Payload;
use std::collections::{BTreeMap, VecDeque};

/// What is left of a flow.
#[derive(Default)]
struct Left {
    serial: u64,
    record: Option<FlowRecord>,
    pieces: [VecDeque<(u64, Payload)>; 2],
}

/// What survives a gateway: how each flow stands, and bytes where there is room for them.
#[derive(Default)]
pub(crate) struct Survivors {
    /// By slot, in the order in which they were told of.
    flows: Vec<(u32, Left)>,
    /// There is room for bytes. Without it, a gateway that hands over has to say them itself.
    has_room: bool,
}

impl Survivors {
    /// Nothing yet; there is room for bytes, or for records alone.
    pub fn new(has_room: bool) -> Self {
        Survivors { has_room, ..Survivors::default() }
    }

    fn of(&mut self, slot: u32, serial: u64) -> &mut Left {
        let known = self.flows.iter().position(|(of, _)| *of == slot);
        let at = known.unwrap_or_else(|| {
            self.flows.push((slot, Left::default()));
            self.flows.len() - 1
        });
        let left = &mut self.flows[at].1;
        if left.serial != serial {
            *left = Left { serial, ..Left::default() };
        }
        left
    }

    /// Each flow, as the next gateway is told of it. Nothing is left then.
    fn take(&mut self) -> impl Iterator<Item = Inherited> {
        std::mem::take(&mut self.flows)
            .into_iter()
            .filter_map(|(_, left)| Some(Inherited::assemble(left.record?, left.pieces.map(Vec::from))))
    }
}

impl Custody for Survivors {
    fn hold(&mut self, holding: Holding, bytes: &Payload) -> usize {
        if !self.has_room {
            return 0;
        }
        let left = self.of(holding.slot, holding.serial);
        left.pieces[usize::from(holding.direction)].push_back((holding.offset, bytes.clone()));
        bytes.len()
    }

    fn store(&mut self, slot: u32, record: &FlowRecord) {
        let left = self.of(slot, record.serial);
        left.record = Some(*record);
        for (side, pieces) in left.pieces.iter_mut().enumerate() {
            let delivered = record.held(side).start;
            while pieces.front().is_some_and(|(at, bytes)| at + bytes.len() as u64 <= delivered) {
                pieces.pop_front();
            }
        }
    }

    fn free(&mut self, slot: u32) {
        self.flows.retain(|(of, _)| *of != slot);
    }
}

/// A gateway that goes on at `now` with what survived one that was killed.
pub(crate) fn restarted(now: Time, survivors: &mut Survivors, config: &GatewayConfig) -> Gateway {
    let mut next = Gateway::new(config.clone());
    survivors.take().for_each(|inherited| next.adopt(now, &inherited));
    next
}

/// A gateway that goes on at `now` with all that `former` says of its flows.
pub(crate) fn successor(
    now: Time,
    former: &mut Gateway,
    survivors: &mut Survivors,
    config: &GatewayConfig,
) -> Gateway {
    former.save(survivors);
    let mut momenta: BTreeMap<u64, FlowMomentum> = former.momenta().collect();
    let mut unkept: BTreeMap<u64, Inherited> =
        former.unkept().map(|inherited| (inherited.record.serial, inherited)).collect();
    let mut next = Gateway::new(config.clone());
    for left in survivors.take() {
        let serial = left.record.serial;
        let mut inherited = unkept.remove(&serial).unwrap_or(left);
        // As bytes, as it comes from another process.
        let momentum = momenta.remove(&serial).and_then(|momentum| FlowMomentum::decode(&momentum.encode()));
        inherited.momentum = momentum.map(Box::new);
        next.adopt(now, &inherited);
    }
    next
}
