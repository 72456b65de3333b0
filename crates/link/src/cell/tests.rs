use super::*;
use crate::{QueueLimit, RadioNetwork};

const SLOT: Duration = Duration::from_millis(1);

fn clean() -> CellUser {
    CellUser {
        coding: 1.0,
        error_good: 0.0,
        error_bad: 0.0,
        good: Duration::from_secs(1),
        bad: Duration::from_secs(1),
        queue: QueueLimit::Unlimited,
    }
}

fn cell(scheduler: Scheduler, users: Vec<CellUser>) -> Cell<u64> {
    let config = CellConfig {
        block: Bytes(1000),
        slot: SLOT,
        scheduler,
        retry: Duration::from_millis(5),
        retries: None,
        users,
    };
    Cell::starting_at(Time::ZERO, config, Seed(3))
}

fn came(at: Time, item: u64) -> Departure<u64> {
    Departure { at, user: 0, item, is_lost: false }
}

/// Everything that comes out, if each user always has so many packets of 1500 bytes waiting.
fn saturated(mut cell: Cell<u64>, until: Time) -> (Vec<u64>, Vec<(Time, usize, u64)>) {
    let users = cell.config().users.len();
    let mut number = vec![20; users];
    let mut all = Vec::new();
    for user in 0..users {
        for packet in 0..20 {
            assert_eq!(cell.push(Time::ZERO, user, Bytes(1500), packet), Offered::Queued);
        }
    }
    while let Some(at) = cell.next_event().filter(|at| *at <= until) {
        while let Some(Departure { at: out, user, item, is_lost }) = cell.pop(at) {
            assert_eq!(out, at);
            if !is_lost {
                all.push((out, user, item));
            }
            let _ = cell.push(at, user, Bytes(1500), number[user]);
            number[user] += 1;
        }
    }
    let delivered = (0..users).map(|user| cell.stats(user).delivered_bytes.0).collect();
    (delivered, all)
}

#[test]
fn a_packet_takes_the_slots_that_it_needs() {
    let mut cell = cell(Scheduler::RoundRobin, vec![clean()]);
    let at = |micros: u64| Time::from_nanos(micros * 1000);
    // 2500 bytes are three blocks, the last of which has room for the 400 of the next packet
    assert_eq!(cell.push(at(300), 0, Bytes(2500), 1), Offered::Queued);
    assert_eq!(cell.push(at(300), 0, Bytes(400), 2), Offered::Queued);
    assert_eq!(cell.next_event(), Some(at(2000)), "slots begin at whole milliseconds");
    assert_eq!(cell.pop(at(3999)), None);
    assert_eq!(cell.pop(at(4000)), Some(came(at(4000), 1)));
    assert_eq!(cell.pop(at(4000)), Some(came(at(4000), 2)));
    assert_eq!((cell.pop(at(9000)), cell.next_event()), (None, None));
}

#[test]
fn what_comes_at_the_start_of_a_slot_is_in_time_for_it() {
    let mut cell = cell(Scheduler::RoundRobin, vec![clean()]);
    assert_eq!(cell.push(Time::from_millis(2), 0, Bytes(500), 1), Offered::Queued);
    assert_eq!(cell.pop(Time::from_millis(2)), None);
    assert_eq!(cell.push(Time::from_millis(2), 0, Bytes(500), 2), Offered::Queued);
    assert_eq!(cell.pop(Time::from_millis(3)), Some(came(Time::from_millis(3), 1)));
    assert_eq!(cell.pop(Time::from_millis(3)), Some(came(Time::from_millis(3), 2)));
}

#[test]
fn round_robin_gives_equal_slots_and_the_one_who_is_alone_all() {
    let far = CellUser { coding: 0.5, ..clean() };
    let until = Time::from_secs(10);
    let (delivered, _) = saturated(cell(Scheduler::RoundRobin, vec![clean(), far]), until);
    let share = delivered[1] as f64 / delivered[0] as f64;
    assert!((share - 0.5).abs() < 0.01, "equal slots are half the bytes for who is far: {delivered:?}");
    let (alone, _) = saturated(cell(Scheduler::RoundRobin, vec![clean()]), until);
    assert!(alone[0] > 9_990_000, "{alone:?} of 10 MB");
}

#[test]
fn proportional_fair_serves_who_is_not_in_a_fade() {
    // half of the time 90 % of the blocks fail: alone, each would get (0.9 + 0.1 · …) of half the slots
    let fading = CellUser { error_bad: 0.9, ..clean() };
    let until = Time::from_secs(200);
    let total = |scheduler| {
        let (delivered, _) = saturated(cell(scheduler, vec![fading; 4]), until);
        let sum: u64 = delivered.iter().sum();
        let fair = delivered.iter().all(|bytes| (*bytes as f64 * 4.0 / sum as f64 - 1.0).abs() < 0.15);
        assert!(fair, "{scheduler:?}: {delivered:?}");
        sum as f64
    };
    let gain = total(Scheduler::ProportionalFair { slots: 1000 }) / total(Scheduler::RoundRobin);
    // of four users all are in a fade a sixteenth of the time; in turn, 0.55 of the slots bring something
    assert!(gain > 1.3, "multiuser diversity gains only {gain}");
}

#[test]
fn blocks_are_repeated_and_order_is_kept() {
    let noisy = CellUser { error_good: 0.3, error_bad: 0.3, ..clean() };
    let until = Time::from_secs(20);
    let (delivered, all) = saturated(cell(Scheduler::RoundRobin, vec![noisy; 2]), until);
    for user in 0..2 {
        let numbers: Vec<u64> =
            all.iter().filter(|(_, of, _)| *of == user).map(|(.., number)| *number).collect();
        assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "in order, and none is missing");
    }
    let carried: u64 = delivered.iter().sum();
    assert!((carried as f64 / 20e6 - 0.7).abs() < 0.01, "{carried} of 20 MB at 30 % of errors");
}

#[test]
fn a_block_that_is_given_up_loses_its_packets() {
    let noisy = CellUser { error_good: 0.5, error_bad: 0.5, ..clean() };
    let mut lossy = cell(Scheduler::RoundRobin, vec![noisy]);
    lossy.config.retries = Some(3);
    let mut sent = 0_u64;
    let mut now = Time::ZERO;
    while sent < 20_000 {
        now += Duration::from_millis(4);
        let _ = lossy.push(now, 0, Bytes(1000), sent);
        sent += 1;
        while lossy.pop(now).is_some() {}
    }
    let lost = lossy.stats(0).dropped.loss as f64 / sent as f64;
    assert!((lost / 0.0625 - 1.0).abs() < 0.1, "{lost}: four failures in a row");
    assert!(lossy.queue_len(0) < 20);
}

#[test]
fn a_full_queue_drops_at_the_tail_and_for_its_user_alone() {
    let small = CellUser { queue: QueueLimit::Bytes(3000), ..clean() };
    let mut cell = cell(Scheduler::RoundRobin, vec![small, clean()]);
    assert_eq!(cell.push(Time::ZERO, 0, Bytes(1500), 1), Offered::Queued);
    assert_eq!(cell.push(Time::ZERO, 0, Bytes(1500), 2), Offered::Queued);
    let full = Offered::Dropped { item: 3, reason: DropReason::QueueFull };
    assert_eq!(cell.push(Time::ZERO, 0, Bytes(1500), 3), full);
    assert_eq!(cell.push(Time::ZERO, 1, Bytes(1500), 4), Offered::Queued);
    assert_eq!((cell.queue_len(0), cell.stats(0).dropped.queue_full), (2, 1));
}

#[test]
fn popping_seldom_changes_nothing() {
    let noisy = CellUser { error_good: 0.2, ..clean() };
    let pf = Scheduler::ProportionalFair { slots: 100 };
    let run = |step: u64| {
        let mut cell = cell(pf, vec![noisy, clean(), noisy]);
        let mut all = Vec::new();
        for tick in 0..2000_u64 {
            let now = Time::from_nanos(tick * 700_000);
            let _ = cell.push(now, (tick % 3) as usize, Bytes(900), tick);
            if tick % step == 0 {
                while let Some(out) = cell.pop(now) {
                    all.push(out);
                }
            }
        }
        while let Some(out) = cell.pop(Time::from_secs(1000)) {
            all.push(out);
        }
        all
    };
    assert_eq!(run(1), run(50));
}

#[test]
fn the_named_networks_carry_most_of_their_rate() {
    for (network, kbit) in
        [(RadioNetwork::Gprs, 48.0), (RadioNetwork::Umts, 3584.0), (RadioNetwork::Lte, 20_000.0)]
    {
        let config = CellConfig::of(network, 3);
        assert_eq!(config.check(), Ok(()));
        let cell = Cell::starting_at(Time::ZERO, config, Seed(1));
        let until = Time::from_secs(200);
        let (delivered, _) = saturated(cell, until);
        let carried = delivered.iter().sum::<u64>() as f64 * 8.0 / 200e3;
        assert!((0.7..1.0).contains(&(carried / kbit)), "{network:?}: {carried} of {kbit} kbit/s");
    }
}
