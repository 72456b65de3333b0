use shorthaul_congestion::Control;

/// Proportional rate reduction (RFC 6937, slow-start reduction bound): how much may leave for
/// each delivery while the window shrinks to what congestion control wants.
#[derive(Debug)]
pub struct Prr {
    recover_flight: u64,
    delivered: u64,
    out: u64,
    /// What slow start would let leave for the ACKs since something left: several can come before there is
    /// a chance to send, and each counts.
    slow_start: u64,
    allowance: u64,
}

impl Prr {
    /// Recovery begins with `flight` bytes outstanding. One segment may leave at once.
    pub fn new(flight: u64, mss: u32) -> Self {
        Prr { recover_flight: flight.max(1), delivered: 0, out: 0, slow_start: 0, allowance: u64::from(mss) }
    }

    /// An ACK delivered `delivered` bytes and left `pipe` in flight (§3).
    pub fn on_ack(&mut self, delivered: u64, pipe: u64, control: &dyn Control, mss: u32) {
        self.delivered += delivered;
        let target = control.ssthresh().min(control.window());
        let allowance = if pipe > target {
            self.slow_start = 0;
            let due = u128::from(self.delivered) * u128::from(target);
            (due.div_ceil(u128::from(self.recover_flight)) as u64).saturating_sub(self.out)
        } else {
            let room = target - pipe;
            self.slow_start = (self.slow_start + delivered + u64::from(mss)).min(room);
            let owed = self.delivered.saturating_sub(self.out) + u64::from(mss);
            self.slow_start.max(owed).min(room)
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
        self.slow_start = self.slow_start.saturating_sub(bytes);
        self.allowance = self.allowance.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;
    use alloc::vec::Vec;
    use shorthaul_congestion::{Algorithm, CongestionEvent, ControlParams};
    use shorthaul_types::Time;

    const MSS: u64 = 1_000;

    const FLIGHT: u64 = 10;

    /// Reno after a loss at ten segments: it wants five.
    fn halved() -> Box<dyn Control> {
        let mut control = Algorithm::Reno.build(ControlParams::new(MSS as u32, Time::ZERO));
        control.on_congestion(Time::ZERO, CongestionEvent::Loss, FLIGHT * MSS);
        control
    }

    /// The segments that leave, ACK by ACK: each delivers one segment of ten, of which the first
    /// `lost` are lost. What leaves arrives much later.
    fn sent_by_ack(lost: u64, acks: u64) -> Vec<u64> {
        let control = halved();
        let mut prr = Prr::new(FLIGHT * MSS, MSS as u32);
        let mut pipe = (FLIGHT - lost) * MSS;
        (0..acks)
            .map(|_| {
                pipe -= MSS;
                prr.on_ack(MSS, pipe, &*control, MSS as u32);
                let leaves = prr.allowance() / MSS;
                prr.on_send(leaves * MSS);
                pipe += leaves * MSS;
                leaves
            })
            .collect()
    }

    /// As in the first example of RFC 6937 §3.2: one loss. The first segment leaves at once, and is
    /// counted; in all a segment leaves for every other ACK.
    #[test]
    fn while_too_much_is_in_flight_every_second_delivery_lets_a_segment_leave() {
        assert_eq!(sent_by_ack(1, 4), [1, 0, 0, 1]);
    }

    /// As in the second: most is lost, so less than the target is in flight from the first ACK on.
    /// Two segments leave for each delivery, as in slow start, until the target is reached.
    #[test]
    fn when_too_little_is_in_flight_it_grows_as_in_slow_start() {
        assert_eq!(sent_by_ack(7, 4), [2, 2, 1, 1]);
    }

    /// A host that reads several packets before it sends must not send less for them: two ACKs a round trip,
    /// answered as one, would never become more than two.
    #[test]
    fn every_acknowledgment_counts_that_comes_before_there_is_a_chance_to_send() {
        let mut prr = Prr::new(1_000 * MSS, MSS as u32);
        prr.on_send(MSS);
        prr.on_ack(MSS, 0, &*halved(), MSS as u32);
        prr.on_send(2 * MSS);
        prr.on_ack(MSS, MSS, &*halved(), MSS as u32);
        prr.on_ack(MSS, 0, &*halved(), MSS as u32);
        assert_eq!(prr.allowance(), 4 * MSS);
        prr.on_send(4 * MSS);
        prr.on_ack(MSS, 3 * MSS, &*halved(), MSS as u32);
        assert_eq!(prr.allowance(), 2 * MSS, "what has left is not counted again");
    }

    #[test]
    fn slow_start_ends_at_the_target() {
        let mut prr = Prr::new(FLIGHT * MSS, MSS as u32);
        // One ACK that delivers eight segments opens up to the five that are wanted, no further.
        prr.on_ack(8 * MSS, 0, &*halved(), MSS as u32);
        assert_eq!(prr.allowance(), 5 * MSS);
    }

    #[test]
    fn a_segment_leaves_at_once_when_recovery_begins() {
        assert_eq!(Prr::new(FLIGHT * MSS, MSS as u32).allowance(), MSS);
    }

    #[test]
    fn what_leaves_is_taken_from_the_allowance() {
        let mut prr = Prr::new(FLIGHT * MSS, MSS as u32);
        prr.on_send(400);
        assert_eq!(prr.allowance(), 600);
        prr.on_send(MSS);
        assert_eq!(prr.allowance(), 0);
    }
}
