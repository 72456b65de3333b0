//! What must hold for any bytes as what a gateway that crashed has left.
use shorthaul_proxy::{FlowRecord, Gateway, GatewayConfig, Inherited};
use shorthaul_testkit::Vault;
use shorthaul_types::Time;
use shorthaul_wire::{Machine, TxBatch};
use std::time::Duration;

/// One file's worth, as it is and with a right checksum: what a record says, whoever wrote it, is to do no harm. Says whether a flow was in
/// it as it is.
pub fn run(input: &[u8]) -> bool {
    if let Some(record) = FlowRecord::sealed(input) {
        let rest = input.get(record.len()..).unwrap_or_default();
        go_on(&[&record[..], rest].concat());
    }
    go_on(input)
}

fn go_on(input: &[u8]) -> bool {
    if let Some((record, rest)) = FlowRecord::decode(input) {
        assert_eq!(
            record.encode()[..],
            input[..input.len() - rest.len()],
            "what was read is what was written"
        );
    }
    let Some(left) = Inherited::decode(input) else { return false };
    assert_eq!(left.encode(), input, "what was read is what was written");
    let mut gateway = Gateway::new(GatewayConfig::default());
    let mut now = Time::from_secs(1);
    gateway.adopt(now, &left);
    let (mut out, mut vault) = (TxBatch::new(), Vault::default());
    for _ in 0..50 {
        while gateway.poll_transmit(now, &mut out) {}
        gateway.save(&mut vault);
        let Some(deadline) = gateway.poll_timeout() else { break };
        now = deadline.at.max(now + Duration::from_millis(1));
        gateway.handle_timeout(now);
        out.clear();
    }
    true
}
