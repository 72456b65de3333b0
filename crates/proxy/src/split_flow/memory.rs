//! Whether there is memory for what arrives.
use super::Room;
use shorthaul_tcp::Receiver;
use shorthaul_wire::PayloadList;

/// What to keep of a segment's `payload` at `offset`, beside `queued` bytes in order, packet buffers counted; `None` if there is
/// no memory for it. What came early makes room for what is in order, as it was never acknowledged (RFC 2018 §8); what finds no
/// room is retransmitted. A segment in order always fits into an empty direction.
///
/// Bytes are copied only where their packet buffer is too large for what is left, and they are not: their sender was offered room
/// for them, and cannot know how the kernel puts them together. Of a super-segment in order that does not fit, the segments of
/// `mss` bytes are kept that do: it may come in one piece each time that it is retransmitted.
pub(super) fn make_room(
    receiver: &mut Receiver,
    queued: usize,
    offset: u64,
    payload: &PayloadList,
    room: Room,
    mss: u32,
) -> Option<PayloadList> {
    let fits = |early: usize, freed: usize, size: usize| {
        let held = (queued + early) as u64;
        let size = size as u64;
        (held == 0 || held + size <= room.direction) && size <= room.free + freed as u64
    };
    let early = receiver.allocated();
    if payload.is_empty() || fits(early, 0, payload.allocated()) {
        return Some(payload.clone());
    }
    if fits(early, 0, payload.len()) {
        return payload.compact();
    }
    if offset > receiver.data_end() {
        return None;
    }
    let kept = if fits(0, early, payload.allocated()) {
        Some(payload.clone())
    } else {
        let compact = payload.compact().filter(|payload| fits(0, early, payload.allocated()));
        compact.or_else(|| first_segments(payload, mss, |size| fits(0, early, size)))
    };
    if kept.is_some() {
        receiver.discard();
    }
    kept
}

/// The first segments of `mss` bytes of a super-segment, as many as fit.
fn first_segments(payload: &PayloadList, mss: u32, fits: impl Fn(usize) -> bool) -> Option<PayloadList> {
    let mss = mss.max(1) as usize;
    let count = (1..=(payload.len() - 1) / mss).rev().find(|count| fits(count * mss))?;
    let mut first = payload.clone();
    first.truncate(count * mss);
    first.compact()
}
