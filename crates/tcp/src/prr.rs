use shorthaul_congestion::Control;

/// Proportional rate reduction (RFC 6937, slow-start reduction bound): how much may leave for
/// each delivery while the window shrinks to what congestion control wants.
#[derive(Debug)]
pub struct Prr {
    recover_flight: u64,
    delivered: u64,
    out: u64,
    allowance: u64,
}

impl Prr {
    /// Recovery begins with `flight` bytes outstanding. One segment may leave at once.
    pub fn new(flight: u64, mss: u32) -> Self {
        Prr { recover_flight: flight.max(1), delivered: 0, out: 0, allowance: u64::from(mss) }
    }

    /// An ACK delivered `delivered` bytes and left `pipe` in flight (§3).
    pub fn on_ack(&mut self, delivered: u64, pipe: u64, control: &dyn Control, mss: u32) {
        self.delivered += delivered;
        let target = control.ssthresh().min(control.window());
        let allowance = if pipe > target {
            let due = u128::from(self.delivered) * u128::from(target);
            (due.div_ceil(u128::from(self.recover_flight)) as u64).saturating_sub(self.out)
        } else {
            let bound = self.delivered.saturating_sub(self.out).max(delivered) + u64::from(mss);
            (target - pipe).min(bound)
        };
        // The retransmission that recovery begins with waits for nothing (RFC 5681 §3.2).
        let first = if self.out == 0 { u64::from(mss) } else { 0 };
        self.allowance = allowance.max(first);
    }

    /// What may leave now.
    pub fn allowance(&self) -> u64 {
        self.allowance
    }

    /// `bytes` left.
    pub fn on_send(&mut self, bytes: u64) {
        self.out += bytes;
        self.allowance = self.allowance.saturating_sub(bytes);
    }
}
