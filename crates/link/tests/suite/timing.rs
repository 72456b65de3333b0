//! When packets come out, to the nanosecond.
use std::sync::Arc;
use std::time::Duration;

use shorthaul_link::{
    Arq, Distribution, DropReason, Drx, FrameAggregation, Jitter, Link, LinkConfig, LossModel, Offered,
    Outage, OutageTimes, Outages, QueueLimit, Rate, Reordering,
};
use shorthaul_types::{BitRate, Bytes, Seed, Time};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(n: u64) -> Time {
    Time::from_millis(n)
}

/// 1 Mbit/s: 1000 bytes take 8 ms.
fn one_mbit() -> Rate {
    Rate::Fixed(BitRate::from_bits_per_sec(1_000_000))
}

fn push(link: &mut Link<u32>, now: Time, size: u64, item: u32) -> Option<DropReason> {
    match link.push(now, Bytes(size), item) {
        Offered::Queued => None,
        Offered::Dropped { item: given_back, reason } => {
            assert_eq!(given_back, item);
            Some(reason)
        }
    }
}

fn drain(link: &mut Link<u32>) -> Vec<(u64, u32)> {
    let end = Time::from_secs(1_000_000);
    std::iter::from_fn(|| link.pop(end)).map(|(time, item)| (time.as_nanos(), item)).collect()
}

const MS: u64 = 1_000_000;

#[test]
fn the_default_link_does_nothing() {
    let mut link = Link::new(LinkConfig::default(), Seed(1));
    assert_eq!(push(&mut link, at(5), 1_000_000, 7), None);
    assert_eq!(link.next_delivery(), Some(at(5)));
    assert_eq!(link.pop(at(5)), Some((at(5), 7)));
    assert_eq!((link.next_delivery(), link.pop(Time::MAX)), (None, None));
}

#[test]
fn serialization_overhead_and_delay_add_up() {
    let config =
        LinkConfig { rate: one_mbit(), delay: ms(50), overhead: Bytes(250), ..LinkConfig::default() };
    let mut link = Link::new(config, Seed(1));
    for (now, item) in [(0, 0), (0, 1), (19, 2), (100, 3)] {
        assert_eq!(push(&mut link, at(now), 1000, item), None);
    }
    // 10 ms each; the third finds the link busy until 20, the fourth finds it idle
    assert_eq!(drain(&mut link), [(60 * MS, 0), (70 * MS, 1), (80 * MS, 2), (160 * MS, 3)]);
}

#[test]
fn when_the_driver_pops_does_not_matter() {
    let config = LinkConfig {
        rate: one_mbit(),
        delay: ms(3),
        jitter: Some(Jitter { distribution: "0 ms to 9 ms".parse().unwrap(), keeps_order: false }),
        queue: QueueLimit::Packets(5),
        ..LinkConfig::default()
    };
    let run = |pop_every: u64| {
        let mut link = Link::new(config.clone(), Seed(1));
        let mut out = Vec::new();
        for i in 0..1000 {
            let now = Time::from_micros(u64::from(i) * 7_900);
            let _ = push(&mut link, now, 1000, i);
            if u64::from(i) % pop_every == 0 {
                out.extend(std::iter::from_fn(|| link.pop(now)));
            }
        }
        out.extend(std::iter::from_fn(|| link.pop(Time::from_secs(100))));
        out
    };
    assert_eq!(run(1), run(2000));
    assert!(run(1).len() > 900);
}

#[test]
fn pops_follow_what_next_delivery_says() {
    let config = LinkConfig { rate: one_mbit(), delay: ms(50), ..LinkConfig::default() };
    let mut link = Link::new(config, Seed(1));
    let _ = push(&mut link, at(0), 1000, 0);
    assert_eq!(link.next_delivery(), Some(at(58)));
    assert_eq!(link.pop(Time::from_nanos(58 * MS - 1)), None);
    assert_eq!(link.pop(at(58)), Some((at(58), 0)));
}

#[test]
fn a_queue_of_packets_holds_exactly_so_many() {
    let config = LinkConfig { rate: one_mbit(), queue: QueueLimit::Packets(3), ..LinkConfig::default() };
    let mut link = Link::new(config, Seed(1));
    for item in 0..3 {
        assert_eq!(push(&mut link, at(0), 1000, item), None);
    }
    assert_eq!(push(&mut link, at(0), 1, 3), Some(DropReason::QueueFull));
    assert_eq!(push(&mut link, Time::from_nanos(8 * MS - 1), 1, 3), Some(DropReason::QueueFull));
    // the first has been sent at 8 ms sharp
    assert_eq!(link.queue_len(at(8)), 2);
    assert_eq!(push(&mut link, at(8), 1000, 4), None);
    assert_eq!(push(&mut link, at(8), 1000, 5), Some(DropReason::QueueFull));
    assert_eq!(link.queue_delay(at(8)), ms(24));
    assert_eq!(link.stats().max_queue, 3);
    assert_eq!(link.stats().dropped.queue_full, 3);
    assert_eq!(drain(&mut link), [(8 * MS, 0), (16 * MS, 1), (24 * MS, 2), (32 * MS, 4)]);
}

#[test]
fn a_queue_of_bytes_holds_exactly_so_many() {
    let config = LinkConfig {
        rate: one_mbit(),
        queue: QueueLimit::Bytes(2500),
        overhead: Bytes(100),
        ..LinkConfig::default()
    };
    let mut link = Link::new(config, Seed(1));
    assert_eq!(push(&mut link, at(0), 1000, 0), None);
    assert_eq!(push(&mut link, at(0), 1000, 1), None);
    assert_eq!(push(&mut link, at(0), 501, 2), Some(DropReason::QueueFull));
    assert_eq!(push(&mut link, at(0), 500, 3), None);
    assert_eq!(link.queue_bytes(at(0)), Bytes(2500));
    assert_eq!(link.queue_bytes(at(9)), Bytes(1500), "1100 bytes take 8.8 ms");
    assert_eq!(link.stats().max_queue_bytes, Bytes(2500));
}

#[test]
fn a_lost_packet_takes_its_time() {
    let config = LinkConfig {
        rate: one_mbit(),
        loss: LossModel::Bernoulli { probability: 1.0 },
        queue: QueueLimit::Packets(1),
        ..LinkConfig::default()
    };
    let mut link = Link::new(config, Seed(1));
    assert_eq!(push(&mut link, at(0), 1000, 0), Some(DropReason::Loss));
    assert_eq!(push(&mut link, at(7), 1000, 1), Some(DropReason::QueueFull));
    assert_eq!(push(&mut link, at(8), 1000, 1), Some(DropReason::Loss));
    assert_eq!(link.queue_delay(at(8)), ms(8));
}

#[test]
fn arq_adds_to_serialization_and_holds_up_those_behind() {
    let config = LinkConfig {
        rate: one_mbit(),
        delay: ms(1),
        arq: Some(Arq::Delay { distribution: Distribution::Constant(ms(500)), share: 1.0 }),
        ..LinkConfig::default()
    };
    let mut link = Link::new(config, Seed(1));
    for item in 0..3 {
        let _ = push(&mut link, at(0), 1000, item);
    }
    assert_eq!(drain(&mut link), [(509 * MS, 0), (1017 * MS, 1), (1525 * MS, 2)]);
}

#[test]
fn waking_up_costs_the_first_packet_after_idle() {
    let config = LinkConfig {
        rate: one_mbit(),
        drx: Some(Drx { idle: ms(20), penalty: Distribution::Constant(ms(100)) }),
        ..LinkConfig::default()
    };
    let mut link = Link::new(config, Seed(1));
    for (now, item) in [(0, 0), (0, 1), (116 + 19, 2), (143 + 20, 3)] {
        let _ = push(&mut link, at(now), 1000, item);
    }
    assert_eq!(drain(&mut link), [(108 * MS, 0), (116 * MS, 1), (143 * MS, 2), (271 * MS, 3)]);
}

#[test]
fn aggregates_leave_when_full_or_when_their_time_is_over() {
    let config = LinkConfig {
        delay: ms(5),
        aggregation: Some(FrameAggregation { size: 3, wait: ms(100) }),
        ..LinkConfig::default()
    };
    let mut link = Link::new(config, Seed(1));
    // the first goes at once; 1, 2, 3 fill an aggregate; 4 and 5 wait for a third that does not come in time
    for (now, item) in [(0, 0), (10, 1), (20, 2), (50, 3), (60, 4), (70, 5)] {
        let _ = push(&mut link, at(now), 40, item);
    }
    let first: Vec<_> = std::iter::from_fn(|| link.pop(at(70))).collect();
    assert_eq!(first, [(at(5), 0), (at(55), 1), (at(55), 2), (at(55), 3)]);
    assert_eq!(link.next_delivery(), Some(at(165)));
    assert_eq!(link.len(), 2);
    // 6 comes too late for them, and opens an aggregate of its own; 7 comes after a pause
    for (now, item) in [(160, 6), (400, 7)] {
        let _ = push(&mut link, at(now), 40, item);
    }
    assert_eq!(drain(&mut link), [(165 * MS, 4), (165 * MS, 5), (265 * MS, 6), (405 * MS, 7)]);
}

#[test]
fn held_back_packets_are_overtaken() {
    let config = LinkConfig {
        delay: ms(10),
        reordering: Some(Reordering { share: 0.2, by: ms(5) }),
        ..LinkConfig::default()
    };
    let mut link = Link::new(config, Seed(3));
    for item in 0..1000 {
        let _ = push(&mut link, at(item.into()), 100, item);
    }
    let out = drain(&mut link);
    let late = out.iter().filter(|(time, item)| *time == (u64::from(*item) + 15) * MS).count();
    let in_time = out.iter().filter(|(time, item)| *time == (u64::from(*item) + 10) * MS).count();
    assert_eq!(late + in_time, 1000);
    assert!((150..250).contains(&late), "{late}");
    // one that is held back for five packets' time is reordered unless those were held back too
    assert!(link.stats().reordered as usize > late * 9 / 10, "{} of {late}", link.stats().reordered);
}

#[test]
fn a_short_outage_delays_and_a_long_one_loses_in_a_burst() {
    let list = vec![Outage { at: ms(100), lasts: ms(50) }, Outage { at: ms(300), lasts: ms(200) }];
    let config = LinkConfig {
        rate: one_mbit(),
        outages: Outages { when: OutageTimes::Listed(list), hold: ms(80) },
        ..LinkConfig::default()
    };
    let mut link = Link::new(config, Seed(1));
    let dropped: Vec<u32> =
        (0..60).filter(|&item| push(&mut link, at(u64::from(item) * 10), 1000, item).is_some()).collect();
    let out = drain(&mut link);
    assert_eq!(dropped.len() + out.len(), 60);
    assert!(out.contains(&(158 * MS, 10)), "came at 100, sent at 150");
    // held from 300 to 380, then sent into the void until 500
    assert_eq!(dropped, (dropped[0]..=*dropped.last().unwrap()).collect::<Vec<_>>(), "one burst");
    // 28 came at 280, behind what the short outage had left: 10 to 28 take 152 ms from 150 on
    assert_eq!(dropped[0], 28);
    assert!(out.iter().all(|(time, _)| !(300 * MS..500 * MS).contains(time)), "{out:?}");
    assert_eq!(link.stats().dropped.outage as usize, dropped.len());
}

#[test]
fn a_trace_sets_the_pace() {
    let trace = Arc::new("4\n8\n12\n20\n".parse().unwrap());
    let config = LinkConfig { rate: Rate::Trace(trace), delay: ms(1), ..LinkConfig::default() };
    // the link starts at 1 s
    let mut link = Link::starting_at(at(1000), config, Seed(1));
    for item in 0..5 {
        let _ = push(&mut link, at(1000), 1500, item);
    }
    let expected = [5, 9, 13, 21, 25].map(|t| (1000 + t) * MS);
    assert_eq!(drain(&mut link).into_iter().map(|(time, _)| time).collect::<Vec<_>>(), expected);
}

#[test]
fn a_new_rate_counts_for_what_is_in_the_queue() {
    let config = LinkConfig { rate: one_mbit(), delay: ms(10), ..LinkConfig::default() };
    let mut link = Link::new(config.clone(), Seed(1));
    for item in 0..4 {
        let _ = push(&mut link, at(0), 1000, item);
    }
    // 0 has been sent, 1 is half-way
    let ten = Rate::Fixed(BitRate::from_bits_per_sec(100_000));
    link.reconfigure(at(12), LinkConfig { rate: ten, delay: ms(20), ..config.clone() });
    // 1 finishes at 16; 2 and 3 take 80 ms each; the delay is new for all of them
    assert_eq!(link.queue_delay(at(12)), ms(164));
    assert_eq!(link.queue_len(at(12)), 3);
    assert_eq!(link.pop(at(18)), Some((at(18), 0)));
    link.reconfigure(at(20), LinkConfig { rate: one_mbit(), ..config });
    // 2 has begun at 16 and is sent anew as a whole within 8 ms; 1 is under way with the longer delay
    assert_eq!(drain(&mut link), [(36 * MS, 1), (38 * MS, 2), (46 * MS, 3)]);
}

#[test]
fn the_packet_being_sent_does_not_use_the_new_trace() {
    let rate = |text: &str| Rate::Trace(Arc::new(text.parse().unwrap()));
    let config = |text| LinkConfig { rate: rate(text), ..LinkConfig::default() };
    let mut link = Link::new(config("4\n8\n12\n"), Seed(1));
    for (item, size) in [(0, 3000), (1, 1500)] {
        let _ = push(&mut link, at(0), size, item);
    }
    // 0 has had its first half at 4 and gets its second at 8 as before, not at 6 and 10
    link.reconfigure(at(5), config("6\n10\n16\n"));
    assert_eq!(drain(&mut link), [(8 * MS, 0), (10 * MS, 1)]);
}

#[test]
fn a_link_that_is_waking_up_goes_on_waking_up() {
    let config = |rate| LinkConfig {
        rate,
        drx: Some(Drx { idle: ms(20), penalty: Distribution::Constant(ms(100)) }),
        ..LinkConfig::default()
    };
    let mut link = Link::new(config(Rate::Unlimited), Seed(1));
    let _ = push(&mut link, at(0), 1000, 0);
    link.reconfigure(at(50), config(one_mbit()));
    assert_eq!(drain(&mut link), [(108 * MS, 0)]);
}

#[test]
fn a_dead_link_comes_to_life_again() {
    let dead = LinkConfig { rate: Rate::Fixed(BitRate::default()), ..LinkConfig::default() };
    let mut link = Link::new(dead, Seed(1));
    for item in 0..2 {
        assert_eq!(push(&mut link, at(0), 1000, item), None);
    }
    assert_eq!((link.next_delivery(), link.pop(Time::MAX), link.len()), (None, None, 2));
    link.reconfigure(at(50), LinkConfig { rate: one_mbit(), ..LinkConfig::default() });
    assert_eq!(drain(&mut link), [(58 * MS, 0), (66 * MS, 1)]);
}

#[test]
fn order_is_kept_across_a_shorter_delay() {
    let config = |delay| LinkConfig { delay: ms(delay), ..LinkConfig::default() };
    let mut link = Link::new(config(100), Seed(1));
    let _ = push(&mut link, at(0), 1, 0);
    link.reconfigure(at(10), config(5));
    let _ = push(&mut link, at(10), 1, 1);
    assert_eq!(drain(&mut link), [(100 * MS, 0), (100 * MS, 1)]);
}

#[test]
fn a_copy_follows_its_original() {
    let config = LinkConfig { rate: one_mbit(), duplicate: 1.0, ..LinkConfig::default() };
    let mut link = Link::new(config, Seed(1));
    let _ = push(&mut link, at(0), 1000, 0);
    let _ = push(&mut link, at(0), 1000, 1);
    assert_eq!(drain(&mut link), [(8 * MS, 0), (16 * MS, 0), (24 * MS, 1), (32 * MS, 1)]);
    assert_eq!(link.stats().duplicated, 2);
}

#[test]
fn a_copy_has_a_jitter_of_its_own() {
    let jitter = Jitter { distribution: "0 ms to 9 ms".parse().unwrap(), keeps_order: false };
    let config = LinkConfig { duplicate: 1.0, jitter: Some(jitter), ..LinkConfig::default() };
    let mut link = Link::new(config, Seed(1));
    for item in 0..100 {
        let _ = push(&mut link, at(0), 1000, item);
    }
    let mut out = drain(&mut link);
    out.sort_by_key(|(time, item)| (*item, *time));
    assert_eq!(out.len(), 200);
    assert!(out.chunks(2).all(|pair| pair[0].1 == pair[1].1 && pair[0].0 != pair[1].0));
}

#[test]
fn the_same_configuration_again_changes_nothing() {
    let config = LinkConfig {
        aggregation: Some(FrameAggregation { size: 3, wait: ms(100) }),
        ..LinkConfig::default()
    };
    let mut link = Link::new(config.clone(), Seed(1));
    for (now, item) in [(0, 0), (10, 1), (20, 2), (30, 3)] {
        let _ = push(&mut link, at(now), 40, item);
        link.reconfigure(at(now), config.clone());
    }
    assert_eq!(drain(&mut link), [(0, 0), (30 * MS, 1), (30 * MS, 2), (30 * MS, 3)]);
}

#[test]
fn nothing_that_cannot_be_copied_is_needed() {
    struct Unique;
    let mut link = Link::new(LinkConfig { duplicate: 1.0, ..LinkConfig::default() }, Seed(1));
    assert!(matches!(link.push_once(at(0), Bytes(1), Unique), Offered::Queued));
    assert!(link.pop(at(0)).is_some() && link.is_empty());
}
