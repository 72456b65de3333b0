//! The pacer: exact in the long run, bounded in the short.
use std::time::Duration;

use proptest::prelude::*;
use shorthaul_congestion::Pacer;
use shorthaul_types::{BitRate, Time};

const MSS: u64 = 1448;

fn pacer(bits_per_sec: u64) -> Pacer {
    let mut pacer = Pacer::new(MSS as u32);
    pacer.set_rate(Some(BitRate::from_bits_per_sec(bits_per_sec)));
    pacer
}

/// Sends whole segments for `length`, woken `late` after each asked-for time, and gives the bytes.
fn send_for(pacer: &mut Pacer, from: Time, length: Duration, late: Duration) -> u64 {
    let mut now = from;
    let mut sent = 0;
    while now < from + length {
        match pacer.next_send(now, MSS) {
            None => {
                pacer.on_send(now, MSS);
                sent += MSS;
            }
            Some(at) => {
                assert!(at > now, "a time to wait for lies ahead");
                now = at + late;
            }
        }
    }
    sent
}

#[test]
fn the_rate_is_exact_over_time() {
    for rate in [9_600, 1_000_003, 32_000_000, 999_999_937, 25_000_000_000] {
        let mut pacer = pacer(rate);
        let quantum = pacer.quantum();
        // The bucket was full to begin with.
        let sent =
            send_for(&mut pacer, Time::from_secs(1), Duration::from_secs(10), Duration::ZERO) - quantum;
        let due = rate / 8 * 10;
        assert!(sent.abs_diff(due) <= 2 * MSS, "{sent} bytes at {rate} bit/s instead of {due}");
    }
}

#[test]
fn a_late_timer_loses_nothing() {
    // At 100 Mbit/s the quantum is 12.5 kB, so a lateness of 0.8 ms is caught up with.
    let mut pacer = pacer(100_000_000);
    let quantum = pacer.quantum();
    assert_eq!(quantum, 12_500);
    let sent = send_for(&mut pacer, Time::from_secs(1), Duration::from_secs(10), Duration::from_micros(800))
        - quantum;
    assert!(sent.abs_diff(125_000_000) <= quantum, "{sent}");
}

#[test]
fn a_timer_that_is_served_later_loses_nothing_where_that_is_known() {
    let late = Duration::from_millis(10);
    let send = |known: Option<Duration>| {
        let mut pacer = pacer(100_000_000);
        pacer.set_lateness(known.unwrap_or_default());
        let quantum = pacer.quantum();
        send_for(&mut pacer, Time::from_secs(1), Duration::from_secs(10), late).saturating_sub(quantum)
    };
    let known = send(Some(late));
    assert!(known.abs_diff(125_000_000) <= 150_000, "{known}");
    assert!(send(None) < 15_000_000, "a bucket of a millisecond loses nine tenths");
}

#[test]
fn an_idle_sender_has_no_claim_to_what_lateness_allows() {
    let mut pacer = pacer(80_000_000);
    pacer.on_send(Time::from_secs(1), 10_000);
    pacer.set_lateness(Duration::from_millis(10));
    let later = Time::from_secs(100);
    let whole = 110_000 + MSS;
    assert_eq!((pacer.quantum(), pacer.budget(later)), (whole, whole));
    pacer.on_transmit_start(later);
    assert_eq!(pacer.budget(later), 10_000);
    assert_eq!(pacer.budget(later + Duration::from_millis(20)), whole, "what follows counts");
}

#[test]
fn the_quantum_is_a_millisecond_but_two_segments_at_least() {
    assert_eq!(pacer(1_000_000).quantum(), 2 * MSS);
    assert_eq!(pacer(80_000_000).quantum(), 10_000);
    assert_eq!(pacer(10_000_000_000).quantum(), 1_250_000);
}

#[test]
fn an_idle_sender_bursts_by_one_quantum_only() {
    let mut pacer = pacer(80_000_000);
    pacer.on_send(Time::from_secs(1), 10_000);
    let later = Time::from_secs(100);
    assert_eq!(pacer.budget(later), 10_000);
    pacer.on_send(later, 10_000);
    assert_eq!(pacer.budget(later), 0);
    assert_eq!(pacer.next_send(later, 1000), Some(later + Duration::from_micros(100)));
    assert_eq!(pacer.budget(later + Duration::from_micros(100)), 1000);
}

#[test]
fn more_than_the_budget_is_paid_back_at_the_rate_of_the_day() {
    let mut pacer = pacer(8_000_000);
    let now = Time::from_secs(1);
    let quantum = pacer.quantum();
    pacer.on_send(now, quantum + 10_000);
    assert_eq!(pacer.next_send(now, 1000), Some(now + Duration::from_millis(11)));
    pacer.set_rate(Some(BitRate::from_bits_per_sec(80_000_000)));
    assert_eq!(pacer.next_send(now, 1000), Some(now + Duration::from_micros(1100)));
}

#[test]
fn without_a_rate_everything_may_leave() {
    let mut pacer = Pacer::new(MSS as u32);
    let now = Time::from_secs(1);
    pacer.on_send(now, 1 << 40);
    assert_eq!((pacer.budget(now), pacer.next_send(now, 1 << 40)), (u64::MAX, None));
    pacer.set_rate(Some(BitRate::from_bits_per_sec(80_000_000)));
    assert_eq!(pacer.budget(now), 10_000);
}

#[test]
fn a_rate_of_zero_sends_its_quantum_and_then_never() {
    let mut pacer = pacer(0);
    let now = Time::from_secs(1);
    pacer.on_send(now, 2 * MSS);
    assert_eq!(pacer.next_send(now, 1), Some(Time::MAX));
    assert_eq!(pacer.budget(Time::MAX), 0);
}

proptest! {
    /// Between any two instants no more leaves than the rate allows and one quantum.
    #[test]
    fn bursts_are_bounded(
        rate in 1_000u64..40_000_000_000,
        waits in prop::collection::vec((0u64..3_000_000, 1u64..40_000), 1..200),
    ) {
        let mut pacer = pacer(rate);
        let mut now = Time::from_secs(5);
        let mut sends: Vec<(Time, u64)> = Vec::new();
        for (wait, want) in waits {
            now += Duration::from_nanos(wait);
            let bytes = want.min(pacer.budget(now));
            prop_assert!(bytes == 0 || pacer.next_send(now, bytes).is_none());
            pacer.on_send(now, bytes);
            sends.push((now, bytes));
        }
        for first in 0..sends.len() {
            let mut total = 0;
            for &(at, bytes) in &sends[first..] {
                total += bytes;
                let elapsed = at.saturating_since(sends[first].0);
                let allowed = BitRate::from_bits_per_sec(rate).bytes_in(elapsed).0 + 1 + pacer.quantum();
                prop_assert!(total <= allowed, "{} bytes in {:?}, {} allowed", total, elapsed, allowed);
            }
        }
    }

    /// The time that `next_send` names is the first at which the bytes may leave.
    #[test]
    fn the_time_to_send_is_exact(rate in 1_000u64..40_000_000_000, debt in 0u64..100_000, bytes in 1u64..70_000) {
        let mut pacer = pacer(rate);
        let now = Time::from_secs(5);
        pacer.on_send(now, pacer.budget(now) + debt);
        let bytes = bytes.min(pacer.quantum());
        let at = pacer.next_send(now, bytes).unwrap();
        prop_assert!(pacer.budget(at) >= bytes);
        prop_assert!(pacer.budget(at - Duration::from_nanos(1)) < bytes);
    }

    #[test]
    fn extremes_do_no_harm(rate: u64, mss: u32, calls in prop::collection::vec((any::<u64>(), any::<u64>()), 0..50)) {
        let mut pacer = Pacer::new(mss);
        for (n, (at, bytes)) in calls.into_iter().enumerate() {
            pacer.set_rate((n % 5 != 0).then_some(BitRate::from_bits_per_sec(rate)));
            let now = Time::from_nanos(at);
            prop_assert!(pacer.budget(now) <= pacer.quantum());
            pacer.next_send(now, bytes);
            pacer.on_send(now, bytes);
        }
    }
}
