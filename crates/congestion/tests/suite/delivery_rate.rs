//! Delivery rate samples in the situations that the draft describes.
use std::time::Duration;

use proptest::prelude::*;
use shorthaul_congestion::{DeliveryRate, RateSample, SendState};
use shorthaul_types::Time;

const SEGMENT: u64 = 1000;

fn ms(n: u64) -> Time {
    Time::from_millis(n)
}

/// Sends `count` segments, one a millisecond from `start`, with `in_flight` bytes before.
fn send(rate: &mut DeliveryRate, start: u64, count: u64, in_flight: u64) -> Vec<SendState> {
    (0..count).map(|n| rate.on_send(ms(start + n), in_flight + n * SEGMENT)).collect()
}

fn deliver(rate: &mut DeliveryRate, at: Time, sent: &SendState) -> Option<RateSample> {
    rate.on_delivered(at, SEGMENT, sent);
    rate.take_sample(at, None)
}

#[test]
fn a_steady_flow_measures_its_rate() {
    // One segment of 1000 bytes a millisecond, 8 Mbit/s, and a round trip of 20 ms.
    let mut rate = DeliveryRate::new(Time::ZERO);
    let mut sent = send(&mut rate, 0, 20, 0);
    for n in 0..200 {
        let sample = deliver(&mut rate, ms(20 + n), &sent[n as usize]);
        sent.push(rate.on_send(ms(20 + n), 19 * SEGMENT));
        if n >= 20 {
            let sample = sample.unwrap();
            assert_eq!(sample.rate.bits_per_sec(), 8_000_000);
            assert_eq!(sample.interval, Duration::from_millis(20));
            assert_eq!(sample.delivered - sample.prior_delivered, 20 * SEGMENT);
            assert_eq!(sample.in_flight_at_send, 19 * SEGMENT);
            assert!(!sample.app_limited);
        }
    }
    assert_eq!(rate.delivered(), 200 * SEGMENT);
}

#[test]
fn compressed_acknowledgments_do_not_look_like_a_faster_path() {
    let mut rate = DeliveryRate::new(Time::ZERO);
    let sent = send(&mut rate, 0, 40, 0);
    for (n, sent) in sent[..20].iter().enumerate() {
        deliver(&mut rate, ms(40 + n as u64), sent);
    }
    let next = send(&mut rate, 60, 20, 20 * SEGMENT);
    for (n, sent) in sent[20..].iter().enumerate() {
        deliver(&mut rate, ms(60 + n as u64), sent);
    }
    // The acknowledgments of what was sent over 20 ms arrive within one.
    for (n, sent) in next.iter().enumerate() {
        let at = ms(100) + Duration::from_micros(50 * n as u64);
        let sample = deliver(&mut rate, at, sent).unwrap();
        assert!(sample.rate.bits_per_sec() <= 8_000_000, "{sample:?}");
    }
}

#[test]
fn samples_are_marked_until_what_was_short_of_data_has_left_the_path() {
    let mut rate = DeliveryRate::new(Time::ZERO);
    let before = send(&mut rate, 0, 2, 0);
    rate.on_app_limited(2 * SEGMENT);
    let during = send(&mut rate, 2, 1, 2 * SEGMENT);
    assert!(!deliver(&mut rate, ms(20), &before[0]).unwrap().app_limited);
    assert!(!deliver(&mut rate, ms(21), &before[1]).unwrap().app_limited);
    assert!(rate.is_app_limited());
    assert!(deliver(&mut rate, ms(22), &during[0]).unwrap().app_limited);
    assert!(!rate.is_app_limited());
    let after = send(&mut rate, 22, 1, 0);
    assert!(!deliver(&mut rate, ms(42), &after[0]).unwrap().app_limited);
}

#[test]
fn idle_time_does_not_dilute_the_next_sample() {
    let mut rate = DeliveryRate::new(Time::ZERO);
    for sent in send(&mut rate, 0, 10, 0) {
        deliver(&mut rate, ms(20), &sent);
    }
    let sent = send(&mut rate, 60_000, 10, 0);
    for sent in &sent {
        rate.on_delivered(ms(60_020), SEGMENT, sent);
    }
    let sample = rate.take_sample(ms(60_020), None).unwrap();
    assert_eq!(sample.interval, Duration::from_millis(20));
    assert_eq!(sample.rate.bits_per_sec(), 4_000_000);
}

#[test]
fn one_ack_of_many_takes_the_newest_in_whatever_order_they_are_told() {
    let mut forwards = DeliveryRate::new(Time::ZERO);
    let first = send(&mut forwards, 0, 4, 0);
    deliver(&mut forwards, ms(20), &first[0]);
    let mut sent = first[1..].to_vec();
    sent.extend(send(&mut forwards, 20, 4, 3 * SEGMENT));
    let mut backwards = forwards.clone();
    for s in &sent {
        forwards.on_delivered(ms(40), SEGMENT, s);
    }
    for s in sent.iter().rev() {
        backwards.on_delivered(ms(40), SEGMENT, s);
    }
    let sample = forwards.take_sample(ms(40), None).unwrap();
    assert_eq!(Some(sample), backwards.take_sample(ms(40), None));
    assert_eq!((sample.prior_delivered, sample.interval), (SEGMENT, Duration::from_millis(23)));
    assert_eq!(forwards.take_sample(ms(41), None), None, "a sample is taken once");
}

#[test]
fn a_retransmission_that_seems_delivered_at_once_gives_no_sample() {
    let mut rate = DeliveryRate::new(Time::ZERO);
    let sent = send(&mut rate, 0, 10, 0);
    for sent in &sent[1..] {
        deliver(&mut rate, ms(20), sent);
    }
    rate.on_lost(ms(20), 0..SEGMENT, &sent[0]);
    let again = rate.on_send(ms(20), 0);
    rate.on_delivered(ms(21), SEGMENT, &again);
    assert_eq!(rate.take_sample(ms(21), Some(Duration::from_millis(20))), None);
}

#[test]
fn losses_are_counted_over_the_interval() {
    let mut rate = DeliveryRate::new(Time::ZERO);
    let sent = send(&mut rate, 0, 10, 0);
    let first = rate.on_lost(ms(15), 0..SEGMENT, &sent[0]);
    assert_eq!((first.lost, first.in_flight_at_send), (SEGMENT, 0));
    deliver(&mut rate, ms(20), &sent[1]);
    let second = rate.on_lost(ms(21), 5 * SEGMENT..6 * SEGMENT, &sent[5]);
    assert_eq!(
        (second.lost, second.delivered, second.in_flight_at_send),
        (2 * SEGMENT, SEGMENT, 5 * SEGMENT)
    );
    let after = rate.on_send(ms(21), 7 * SEGMENT);
    assert_eq!(deliver(&mut rate, ms(22), &sent[6]).unwrap().lost, 2 * SEGMENT);
    assert_eq!(deliver(&mut rate, ms(41), &after).unwrap().lost, 0);
}

proptest! {
    #[test]
    fn extremes_do_no_harm(events in prop::collection::vec((0u8..5, any::<u64>(), any::<u64>()), 0..100)) {
        let mut rate = DeliveryRate::new(Time::from_secs(1));
        let mut sent = rate.on_send(Time::ZERO, 0);
        for (kind, at, bytes) in events {
            let now = Time::from_nanos(at);
            match kind {
                0 => sent = rate.on_send(now, bytes),
                1 => rate.on_delivered(now, bytes, &sent),
                2 => _ = rate.on_lost(now, 0..bytes, &sent),
                3 => rate.on_app_limited(bytes),
                _ => {
                    if let Some(sample) = rate.take_sample(now, None) {
                        prop_assert!(sample.delivered >= sample.prior_delivered && !sample.interval.is_zero());
                    }
                }
            }
        }
    }
}
