//! What a receiver acknowledges, when, and which window it advertises.
use shorthaul_tcp::{AckPolicy, ByteQueue, Receiver, Segment};
use shorthaul_types::Time;
use shorthaul_wire::{Payload, PayloadList, Timestamps};
use std::time::Duration;

const MSS: u64 = 1_000;
const DELAYED: AckPolicy = AckPolicy::Delayed { wait: Duration::from_millis(40), quick: 0 };

/// A receiver whose window ends behind its tenth segment.
struct Trace {
    receiver: Receiver,
    queue: ByteQueue,
}

impl Trace {
    fn new(policy: AckPolicy) -> Self {
        let receiver = Receiver::new(1, 1 + 10 * MSS, MSS as u32, policy);
        Trace { receiver, queue: ByteQueue::new(1) }
    }

    /// `len` bytes from `offset` on arrive at `ms`; returns whether that is acknowledged at once.
    fn bytes(&mut self, ms: u64, offset: u64, len: usize) -> bool {
        let payload = PayloadList::from(Payload::copy_of(&vec![7; len]));
        self.segment(ms, Segment { offset, payload, fin: false, push: false, timestamps: None })
    }

    fn segment(&mut self, ms: u64, segment: Segment) -> bool {
        let now = Time::from_millis(ms);
        self.receiver.on_segment(now, segment, &mut self.queue, 1 << 20);
        self.receiver.wants_ack(now)
    }

    fn fin(&mut self, ms: u64, offset: u64) -> bool {
        let payload = PayloadList::new();
        self.segment(ms, Segment { offset, payload, fin: true, push: false, timestamps: None })
    }

    fn stamped(&mut self, offset: u64, len: usize, val: u32) {
        let payload = PayloadList::from(Payload::copy_of(&vec![7; len]));
        let timestamps = Some(Timestamps { val, ecr: 0 });
        self.segment(0, Segment { offset, payload, fin: false, push: false, timestamps });
    }

    /// The acknowledgment leaves; returns its number, window and blocks.
    fn acknowledge(&mut self) -> (u64, u64, Vec<(u64, u64)>) {
        let ack = (self.receiver.ack(), self.receiver.window(), self.receiver.sack_ranges().to_vec());
        self.receiver.on_ack_sent();
        ack
    }
}

#[test]
fn one_segment_waits_for_the_timer() {
    let mut t = Trace::new(DELAYED);
    assert!(!t.bytes(0, 1, 1_000));
    assert_eq!(t.receiver.poll_timeout().unwrap().at, Time::from_millis(40));
    assert!(!t.receiver.wants_ack(Time::from_millis(39)));
    assert!(t.receiver.wants_ack(Time::from_millis(40)));
}

#[test]
fn every_second_full_segment_is_acknowledged_at_once() {
    let mut t = Trace::new(DELAYED);
    assert!(!t.bytes(0, 1, 1_000));
    assert!(t.bytes(1, 1_001, 1_000));
    assert_eq!(t.acknowledge(), (2_001, 8_000, vec![]));
    assert!(!t.bytes(2, 2_001, 1_000));
    // The wait counts from this segment, not from the first.
    assert_eq!(t.receiver.poll_timeout().unwrap().at, Time::from_millis(42));
}

#[test]
fn small_segments_are_counted_by_their_bytes() {
    let mut t = Trace::new(DELAYED);
    for i in 0..19 {
        assert!(!t.bytes(i, 1 + i * 100, 100));
    }
    assert!(t.bytes(19, 1_901, 100));
}

#[test]
fn the_first_segments_are_acknowledged_quickly() {
    let mut t = Trace::new(AckPolicy::Delayed { wait: Duration::from_millis(40), quick: 2 });
    for i in 0..2 {
        assert!(t.bytes(i, 1 + i * MSS, 1_000));
        t.acknowledge();
    }
    assert!(!t.bytes(2, 2_001, 1_000));
}

#[test]
fn data_ahead_of_a_gap_is_reported_at_once() {
    let mut t = Trace::new(DELAYED);
    assert!(t.bytes(0, 2_001, 1_000));
    assert_eq!(t.acknowledge(), (1, 10_000, vec![(2_001, 3_001)]));
}

#[test]
fn data_that_fills_a_gap_is_acknowledged_at_once() {
    let mut t = Trace::new(DELAYED);
    t.bytes(0, 1_001, 1_000);
    t.acknowledge();
    assert!(t.bytes(1, 1, 1_000));
    assert_eq!(t.acknowledge(), (2_001, 8_000, vec![]));
}

#[test]
fn the_latest_block_comes_first() {
    let mut t = Trace::new(DELAYED);
    for offset in [2_001, 6_001, 4_001] {
        t.bytes(0, offset, 1_000);
    }
    let blocks = vec![(4_001, 5_001), (6_001, 7_001), (2_001, 3_001)];
    assert_eq!(t.acknowledge(), (1, 10_000, blocks));
}

#[test]
fn what_came_twice_is_reported_once_and_first() {
    let mut t = Trace::new(DELAYED);
    t.bytes(0, 1, 1_000);
    t.bytes(0, 2_001, 1_000);
    t.acknowledge();
    assert!(t.bytes(1, 1, 1_000));
    assert_eq!(t.acknowledge(), (1_001, 9_000, vec![(1, 1_001), (2_001, 3_001)]));
    assert_eq!(t.acknowledge(), (1_001, 9_000, vec![(2_001, 3_001)]));
}

#[test]
fn a_duplicate_beyond_a_gap_is_reported_before_the_block_that_holds_it() {
    let mut t = Trace::new(DELAYED);
    t.bytes(0, 2_001, 2_000);
    t.acknowledge();
    t.bytes(1, 2_001, 1_000);
    assert_eq!(t.acknowledge(), (1, 10_000, vec![(2_001, 3_001), (2_001, 4_001)]));
}

#[test]
fn of_a_segment_that_overlaps_only_the_old_part_is_a_duplicate() {
    let mut t = Trace::new(DELAYED);
    t.bytes(0, 1, 1_000);
    t.acknowledge();
    t.bytes(1, 501, 1_000);
    assert_eq!(t.acknowledge(), (1_501, 8_500, vec![(501, 1_001)]));
    assert_eq!(t.queue.len(), 1_500);
}

#[test]
fn what_lies_beyond_the_window_is_cut_off_and_answered() {
    let mut t = Trace::new(DELAYED);
    t.bytes(0, 1, 9_500);
    t.acknowledge();
    assert!(t.bytes(1, 9_501, 1_000));
    assert_eq!(t.acknowledge(), (10_001, 0, vec![]));
    assert!(t.bytes(2, 10_002, 1));
    assert_eq!(t.queue.len(), 10_000);
}

#[test]
fn a_fin_is_acknowledged_when_its_owner_says_so() {
    let mut t = Trace::new(AckPolicy::Immediate);
    t.bytes(0, 1, 1_000);
    t.fin(0, 1_001);
    assert!(t.receiver.is_finished());
    assert_eq!(t.acknowledge().0, 1_001);
    t.receiver.confirm_fin();
    assert!(t.receiver.wants_ack(Time::ZERO));
    assert_eq!(t.acknowledge().0, 1_002);
}

#[test]
fn a_fin_ahead_of_a_gap_waits_for_what_is_missing() {
    let mut t = Trace::new(AckPolicy::Immediate);
    t.fin(0, 1_001);
    assert!(!t.receiver.is_finished());
    t.bytes(1, 1, 1_000);
    assert!(t.receiver.is_finished());
}

/// Whoever guesses a sequence number within the window could end the stream there.
#[test]
fn a_fin_that_came_early_ends_nothing_that_data_goes_on_behind() {
    let mut t = Trace::new(AckPolicy::Immediate);
    t.fin(0, 501); // forged
    t.bytes(1, 1, 1_000);
    assert_eq!((t.queue.len(), t.receiver.is_finished()), (1_000, false));
    t.bytes(2, 2_001, 1_000);
    t.fin(3, 1_501); // behind it there is data already
    t.fin(3, 9_001); // and here there is none
    t.fin(4, 3_001); // the sender's own
    t.bytes(5, 1_001, 1_000);
    assert_eq!((t.queue.len(), t.receiver.is_finished()), (3_000, true));
}

#[test]
fn a_fin_that_came_early_is_sacked() {
    let mut t = Trace::new(AckPolicy::Immediate);
    t.bytes(0, 2_001, 1_000);
    t.fin(0, 3_001);
    assert_eq!(t.acknowledge().2, [(2_001, 3_002)]);
    let mut t = Trace::new(AckPolicy::Immediate);
    t.bytes(0, 2_001, 500);
    t.fin(0, 3_001);
    assert_eq!(t.acknowledge().2, [(2_001, 2_501), (3_001, 3_002)], "what is before it is missing");
}

#[test]
fn nothing_follows_a_fin() {
    let mut t = Trace::new(AckPolicy::Immediate);
    t.fin(0, 1);
    t.bytes(1, 2, 100);
    t.bytes(1, 1, 100);
    assert_eq!((t.queue.len(), t.receiver.next()), (0, 2));
}

#[test]
fn a_timestamp_that_runs_backwards_marks_an_old_duplicate() {
    let mut t = Trace::new(DELAYED);
    t.receiver.set_ts_recent(Time::ZERO, 1_000);
    let old = |val| t.receiver.is_old_duplicate(Time::ZERO, Some(Timestamps { val, ecr: 0 }));
    assert!(old(999) && !old(1_000) && !old(1_001));
    assert!(!t.receiver.is_old_duplicate(Time::ZERO, None));
}

#[test]
fn a_clock_of_microseconds_may_have_gone_half_round() {
    let mut t = Trace::new(DELAYED);
    t.receiver.set_ts_recent(Time::from_secs(10), 1_000);
    let behind = Some(Timestamps { val: 1_000u32.wrapping_add(1 << 31), ecr: 0 });
    let half_round = 10 + (1 << 31) / 1_000_000;
    assert!(t.receiver.is_old_duplicate(Time::from_secs(half_round - 1), behind));
    assert!(!t.receiver.is_old_duplicate(Time::from_secs(half_round), behind));
    // It is the one to compare with from then on.
    t.receiver.note_timestamps(Time::from_secs(half_round), 1, behind);
    assert_eq!(t.receiver.ts_recent(), behind.map(|timestamps| timestamps.val));
    let before = behind.map(|timestamps| Timestamps { val: timestamps.val - 1, ..timestamps });
    assert!(t.receiver.is_old_duplicate(Time::from_secs(half_round + 1), before));
}

#[test]
fn timestamps_compare_across_their_wrap() {
    let mut t = Trace::new(DELAYED);
    t.receiver.set_ts_recent(Time::ZERO, u32::MAX);
    assert!(!t.receiver.is_old_duplicate(Time::ZERO, Some(Timestamps { val: 5, ecr: 0 })));
    t.receiver.set_ts_recent(Time::ZERO, 5);
    assert!(t.receiver.is_old_duplicate(Time::ZERO, Some(Timestamps { val: u32::MAX, ecr: 0 })));
}

#[test]
fn the_echo_is_that_of_the_segment_that_the_acknowledgment_is_due_to() {
    let mut t = Trace::new(DELAYED);
    t.receiver.set_ts_recent(Time::ZERO, 100);
    t.stamped(1, 1_000, 110);
    assert_eq!(t.receiver.ts_recent(), Some(110));
    t.stamped(1_001, 1_000, 120); // of two segments, the first: the delay of its ACK counts
    assert_eq!(t.receiver.ts_recent(), Some(110));
    t.acknowledge();
    t.stamped(3_001, 1_000, 130); // ahead of a gap: not the one that was awaited
    assert_eq!(t.receiver.ts_recent(), Some(110));
    t.stamped(2_001, 1_000, 125);
    assert_eq!(t.receiver.ts_recent(), Some(125));
}

#[test]
fn the_window_moves_by_a_segment_at_least() {
    let mut t = Trace::new(DELAYED);
    t.bytes(0, 1, 10_000);
    assert_eq!(t.acknowledge(), (10_001, 0, vec![]));
    t.receiver.offer(0);
    assert_eq!(t.receiver.window(), 0);
    t.bytes(0, 10_001, 1);
    t.acknowledge();
    // A large buffer from which little was read.
    let mut t = Trace::new(DELAYED);
    t.bytes(0, 1, 2_000);
    t.acknowledge();
    t.receiver.offer(8_999);
    assert_eq!(t.receiver.edge(), 10_001);
    t.receiver.offer(9_000);
    assert_eq!(t.receiver.edge(), 11_001);
}

#[test]
fn a_window_that_opens_again_is_announced() {
    let mut t = Trace::new(DELAYED);
    t.bytes(0, 1, 10_000);
    t.acknowledge();
    assert!(!t.receiver.wants_ack(Time::ZERO));
    t.receiver.offer(5_000);
    assert!(t.receiver.wants_ack(Time::ZERO));
    assert_eq!(t.acknowledge(), (10_001, 5_000, vec![]));
}

#[test]
fn the_window_is_never_taken_back() {
    let mut t = Trace::new(DELAYED);
    t.receiver.offer(100);
    assert_eq!(t.receiver.edge(), 10_001);
}

#[test]
fn what_was_reported_and_then_forgotten_is_taken_again() {
    let mut t = Trace::new(DELAYED);
    t.bytes(0, 1_001, 1_000);
    t.receiver.discard();
    assert_eq!((t.receiver.allocated(), t.acknowledge().2), (0, vec![]));
    t.bytes(1, 1, 2_000);
    assert_eq!(t.receiver.next(), 2_001);
}
