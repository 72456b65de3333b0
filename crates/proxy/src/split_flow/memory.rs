//! Whether there is memory for what arrives.
use super::Budget;
use shorthaul_tcp::Receiver;

/// Whether there is memory for a segment of `size` bytes at `offset`, packet buffer counted, beside
/// `queued` bytes in order. What came early makes room for what is in order, as it was never
/// acknowledged (RFC 2018 §8); what finds no room is sent again. A segment in order always fits into
/// an empty direction.
pub(super) fn make_room(
    receiver: &mut Receiver,
    queued: usize,
    offset: u64,
    size: usize,
    budget: Budget,
) -> bool {
    let fits = |early: usize, freed: usize| {
        let held = (queued + early) as u64;
        let size = size as u64;
        (held == 0 || held + size <= budget.direction) && size <= budget.free + freed as u64
    };
    let early = receiver.allocated();
    if size == 0 || fits(early, 0) {
        return true;
    }
    if offset > receiver.data_end() || !fits(0, early) {
        return false;
    }
    receiver.discard();
    true
}
