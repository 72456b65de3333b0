use super::*;
use alloc::vec::Vec;
use core::f64::consts::TAU;
use libm::{cos, log, sqrt};
use shorthaul_types::Seed;

/// The `nth` draw of a seed, normally distributed (Box and Muller 1958).
pub fn normal(seed: Seed, nth: u64) -> f64 {
    let uniform = |index| (seed.nth(index).0 as f64 + 1.0) / (u64::MAX as f64 + 2.0);
    sqrt(-2.0 * log(uniform(2 * nth))) * cos(TAU * uniform(2 * nth + 1))
}

fn at(ms: u64) -> Time {
    Time::from_secs(100) + Duration::from_millis(ms)
}

/// The `n`th host of a network, with a server.
fn ends(n: u8) -> Ends {
    Ends { policy: 0, host: [10, 0, 0, n].into(), server: [192, 0, 2, 1].into() }
}

/// Feeds `flows` flows, one a second from `start` on: what is split takes `split` times as long. Returns after how many the verdict was
/// harm.
fn feed(gains: &mut Gains, seed: u64, start: u64, flows: u64, split: f64) -> Option<u64> {
    let seed = Seed(seed).derive("gain");
    (0..flows).find(|flow| {
        let now = at(1000 * (start + flow));
        let group = gains.assign(now, ends(1), 0.02);
        let factor = if group == Group::Split { split } else { 1.0 };
        let elapsed = Duration::from_secs_f64(0.3 * factor * libm::exp(0.4 * normal(seed, *flow)));
        gains.record(now, ends(1), group, 0..1, elapsed)
    })
}

#[test]
fn the_control_group_is_the_share_that_was_asked_for() {
    let mut gains = Gains::new(7);
    // Fifty flows a second, of other hosts each.
    let chosen =
        (0..50_000).filter(|n| gains.assign(at(20 * n), ends((n % 251) as u8), 0.02) == Group::Control);
    let share = chosen.count() as f64 / 50_000.0;
    assert!((0.015..0.025).contains(&share), "{share}");
}

#[test]
fn where_few_flows_come_some_a_minute_are_in_it() {
    let mut gains = Gains::new(7);
    let chosen = (0..3600).filter(|s| gains.assign(at(1000 * s), ends(1), 0.02) == Group::Control).count();
    assert!((90..300).contains(&chosen), "{chosen} in an hour of one flow a second");
}

#[test]
fn a_flow_now_and_then_is_split_all_but_always() {
    for seed in 0..50 {
        let mut gains = Gains::new(seed);
        // One in a minute.
        let groups: Vec<_> = (0..600).map(|n| gains.assign(at(60_000 * n), ends(1), 0.02)).collect();
        assert!(groups[..10].iter().all(|group| *group == Group::Split), "whoever tries it sees it work");
        let turns: Vec<_> = (0..600).filter(|n| groups[*n] == Group::Control).collect();
        assert!((20..60).contains(&turns.len()), "seed {seed}: {} of 600", turns.len());
        assert!(turns.windows(2).all(|pair| pair[1] - pair[0] > 10), "seed {seed}: {turns:?}");
    }
}

#[test]
fn what_a_host_opens_together_is_of_one_group() {
    // With a small share, and after silence, too, when the control group has a larger one until its turn.
    for (share, every) in [(0.3, 1), (0.02, 1), (0.02, 30)] {
        let (mut gains, mut controls) = (Gains::new(3), 0);
        for turn in 0..400 {
            let begun = 1000 * every * turn;
            let mut groups = (0..10).map(|n| gains.assign(at(begun + 100 * n), ends(1), share));
            let first = groups.next().unwrap();
            controls += u32::from(first == Group::Control);
            assert!(groups.all(|group| group == first), "{share}, every {every} s, at {begun} ms");
        }
        assert!(controls > 2, "{controls} of 400");
    }
}

#[test]
fn harm_is_found_within_two_hundred_flows_and_flows_stay_whole_then() {
    let found = (0..200).filter(|seed| {
        let mut gains = Gains::new(*seed);
        let found = feed(&mut gains, *seed, 0, 200, 2.0);
        let after = at(1000 * (found.unwrap_or(0) + 1));
        found.is_some() == (gains.assign(after, ends(1), 0.02) == Group::Withdrawn) && found.is_some()
    });
    let found = found.count();
    assert!(found >= 190, "in {found} of 200 seeds");
}

#[test]
fn without_harm_none_is_found() {
    for factor in [1.0, 0.5] {
        let found =
            (0..400).filter(|seed| feed(&mut Gains::new(*seed), *seed, 0, 400, factor).is_some()).count();
        assert!(found <= 20, "{factor}: in {found} of 400 seeds");
    }
}

#[test]
fn splitting_is_tried_again_and_given_up_for_longer_if_it_still_does_harm() {
    let mut gains = Gains::new(1);
    let first = feed(&mut gains, 1, 0, 1000, 3.0).unwrap();
    let back = first + 601;
    assert!(gains.is_harmed(at(1000 * (back - 2)), ends(1)));
    let again = feed(&mut gains, 2, back, 100, 3.0).expect("found sooner, with every other flow");
    let second = back + again;
    assert!(gains.is_harmed(at(1000 * (second + 1100)), ends(1)), "twice as long");
    // Now it does good.
    let third = second + 1201;
    assert_eq!(feed(&mut gains, 3, third, 300, 0.3), None);
    let info = gains.known().info();
    assert!(info.iter().all(|info| info.verdict == GainVerdict::Gains), "{info:?}");
}

#[test]
fn a_narrow_class_that_gains_is_split_though_all_others_are_harmed() {
    let mut gains = Gains::new(1);
    let other = Ends { server: [198, 51, 100, 1].into(), ..ends(1) };
    let seed = Seed(4);
    for flow in 0..300 {
        let group = if flow % 3 == 0 { Group::Control } else { Group::Split };
        let noise = libm::exp(0.2 * normal(seed, flow));
        let took =
            |factor: f64| Duration::from_secs_f64(noise * if group == Group::Split { factor } else { 1.0 });
        // Of four batches one is of what gains.
        let (whose, factor) = if flow / 3 % 4 == 0 { (ends(1), 0.5) } else { (other, 4.0) };
        gains.record(at(1000 * flow), whose, group, 0..1, took(factor));
    }
    let now = at(400_000);
    assert!(gains.is_harmed(now, other));
    assert!(!gains.is_harmed(now, ends(1)));
    let elsewhere = Ends { server: [203, 0, 113, 1].into(), ..ends(1) };
    assert!(gains.is_harmed(now, elsewhere), "nothing is known of them but what holds for its host");
}

#[test]
fn the_number_of_classes_is_bounded() {
    let mut gains = Gains::new(1);
    for n in 0..3000_u32 {
        let ends = Ends { host: core::net::Ipv4Addr::from_bits(n << 8).into(), ..ends(1) };
        gains.record(at(u64::from(n)), ends, Group::Split, 0..1, Duration::from_millis(100));
    }
    assert_eq!(gains.classes.len(), CLASSES);
}

#[test]
fn what_is_known_stays_with_policies_that_stay() {
    let mut gains = Gains::new(7);
    assert!(feed(&mut gains, 1, 0, 600, 3.0).is_some());
    let (now, moved) = (at(600_000), Ends { policy: 2, ..ends(1) });
    let [harmed, withdrawn] = [ends(1), moved].map(|ends| gains.is_harmed(now, ends));
    assert!(harmed && !withdrawn);
    gains.keep(&[Some(2), None]);
    let [former, today] = [ends(1), moved].map(|ends| gains.is_harmed(now, ends));
    assert!(!former && today);
    gains.keep(&[None, None, None]);
    assert!(!gains.is_harmed(now, moved) && gains.classes.is_empty());
}

/// Whether a verdict of harm comes within `seconds`: each of `hosts` loads a page each second or so, of as many objects as `page` says, all as fast for
/// having one number of a draw of their own, and nothing is gained or lost by splitting.
fn false_verdict(seed: u64, hosts: u8, seconds: u64, page: &[u64]) -> bool {
    let (mut gains, draws) = (Gains::new(seed), Seed(seed).derive("pages"));
    (0..seconds).any(|second| {
        (1..=hosts).any(|host| {
            let of_page = second * u64::from(hosts) + u64::from(host);
            let objects = page[(draws.derive("objects").nth(of_page).0 % page.len() as u64) as usize];
            (0..objects).any(|object| {
                let now = at(1000 * second + 10 * u64::from(host) + object % 5);
                let group = gains.assign(now, ends(host), 0.02);
                // Objects of one page share a link: all take as long as there are.
                let took = 0.1 * objects as f64 * libm::exp(0.1 * normal(draws, of_page * 64 + object));
                gains.record(
                    now + Duration::from_secs_f64(took),
                    ends(host),
                    group,
                    0..1,
                    Duration::from_secs_f64(took),
                )
            })
        })
    })
}

#[test]
fn pages_of_many_objects_are_no_evidence_by_their_number() {
    for (hosts, page) in [(1, &[1, 2, 3, 24][..]), (1, &[6]), (5, &[1, 2, 3, 24])] {
        let wrong = (0..200).filter(|seed| false_verdict(*seed, hosts, 400, page)).count();
        assert!(wrong <= 10, "{hosts} hosts with pages of {page:?}: in {wrong} of 200 seeds");
    }
}

#[test]
fn a_host_that_makes_splitting_look_bad_harms_itself() {
    for seed in 0..20 {
        let (mut gains, draws) = (Gains::new(seed), Seed(seed).derive("poison"));
        for second in 0..600 {
            for host in 1..=4_u8 {
                let now = at(1000 * second + 10 * u64::from(host));
                let group = gains.assign(now, ends(host), 0.02);
                // The first waits if it is split.
                let waits = if host == 1 && group == Group::Split { 2.5 } else { 0.0 };
                let noise = libm::exp(0.3 * normal(draws, 8 * second + u64::from(host)));
                let took = Duration::from_secs_f64(0.3 * noise + waits);
                gains.record(now + took, ends(host), group, 0..1, took);
            }
        }
        let now = at(600_000);
        assert!(
            (2..=4).all(|host| !gains.is_harmed(now, ends(host))),
            "seed {seed}: {:?}",
            gains.known().info()
        );
    }
}

#[test]
fn harm_to_many_hosts_is_found_for_those_too_that_were_not_seen() {
    let found = (0..50).filter(|seed| {
        let (mut gains, draws) = (Gains::new(*seed), Seed(*seed).derive("many"));
        for flow in 0..1000_u64 {
            let (host, now) = ((flow % 20) as u8, at(250 * flow));
            let group = gains.assign(now, ends(host), 0.02);
            let factor = if group == Group::Split { 2.0 } else { 1.0 };
            let took = Duration::from_secs_f64(0.3 * factor * libm::exp(0.4 * normal(draws, flow)));
            gains.record(now + took, ends(host), group, 0..1, took);
        }
        gains.is_harmed(at(251_000), ends(99))
    });
    let found = found.count();
    assert!(found >= 48, "in {found} of 50 seeds");
}

#[test]
fn each_of_a_few_devices_is_judged_alone() {
    let found = (0..50).filter(|seed| {
        let (mut gains, draws) = (Gains::new(*seed), Seed(*seed).derive("few"));
        for flow in 0..600_u64 {
            let (host, now) = ((flow % 2) as u8, at(500 * flow));
            let group = gains.assign(now, ends(host), 0.02);
            let factor = if group == Group::Split { 2.5 } else { 1.0 };
            let took = Duration::from_secs_f64(0.3 * factor * libm::exp(0.3 * normal(draws, flow)));
            gains.record(now + took, ends(host), group, 0..1, took);
        }
        (0..2).all(|host| gains.is_harmed(at(301_000), ends(host)))
    });
    let found = found.count();
    assert!(found >= 45, "in {found} of 50 seeds");
}
