//! Another process goes on in the place of a gateway, as `shorthaul gateway --take-over` does.
use shorthaul_proxy::{Custody, FlowMomentum, FlowRecord, Gateway, GatewayConfig, Holding, Inherited};
use shorthaul_types::Time;
use shorthaul_wire::Payload;
use std::collections::BTreeMap;

/// How each flow stands. There is no room for bytes: the gateway hands them over itself.
#[derive(Default)]
struct Records(Vec<FlowRecord>);

impl Custody for Records {
    fn hold(&mut self, _: Holding, _: &Payload) -> usize {
        0
    }

    fn store(&mut self, _: u32, record: &FlowRecord) {
        self.0.push(*record);
    }

    fn free(&mut self, _: u32) {}
}

/// A gateway that goes on at `now` with all that `former` says of its flows.
pub(crate) fn successor(now: Time, former: &mut Gateway, config: &GatewayConfig) -> Gateway {
    let mut records = Records::default();
    former.save(&mut records);
    let mut momenta: BTreeMap<u64, FlowMomentum> = former.momenta().collect();
    let mut unkept: BTreeMap<u64, Inherited> =
        former.unkept().map(|inherited| (inherited.record.serial, inherited)).collect();
    let mut next = Gateway::new(config.clone());
    for record in records.0 {
        let serial = record.serial;
        let mut inherited =
            unkept.remove(&serial).unwrap_or_else(|| Inherited::assemble(record, Default::default()));
        // As bytes, as it comes from another process.
        let momentum = momenta.remove(&serial).and_then(|momentum| FlowMomentum::decode(&momentum.encode()));
        inherited.momentum = momentum.map(Box::new);
        next.adopt(now, &inherited);
    }
    next
}
