//! Flows that stay whole: what passes is seen, and interceptors change what they are for.
use crate::pair::Setup;
use shorthaul_proxy::{ExplicitWindow, INTERCEPTORS, Mode, Policy};
use shorthaul_testkit::{Chance, DELAY, Faults, each_seed};
use shorthaul_types::{Bytes, Time};
use std::sync::Arc;

/// A flow passes these kinds of interceptors, by their places in the registry, or is observed.
fn whole(intercept: &[usize]) -> Policy {
    let mode = if intercept.is_empty() { Mode::Observe } else { Mode::Pass };
    let intercept = intercept.iter().map(|row| (INTERCEPTORS[*row].example)()).collect();
    Policy { mode, intercept, ..Policy::default() }
}

#[test]
fn a_flow_that_stays_whole_arrives_whole_and_is_seen() {
    each_seed(0..60, |seed| {
        let mut chance = Chance(seed);
        let [up, down] = [chance.below(50_000), chance.below(200_000)];
        let faults = Faults::of(chance.below(60), chance.below(100), chance.below(50));
        let drain = Time::from_millis(1_000 + chance.below(3_000));
        let drain = chance.happens(500).then_some(drain);
        let intercept: Vec<usize> =
            (0..chance.below(3)).map(|_| chance.below(INTERCEPTORS.len() as u64) as usize).collect();
        let state = if intercept.is_empty() { "observed" } else { "passed" };
        let mut world = Setup { faults, ..Setup::new(seed, [up, down]) }.behind(whole(&intercept));
        let (mut drained, mut seen) = (false, [0, 0]);
        let finished = world.run(|world| {
            for flow in world.gateway.flows() {
                assert_eq!((flow.state, flow.legs.is_none()), (state, true));
                let [to_server, to_client] = flow.observed.unwrap().directions;
                seen = [to_server.bytes, to_client.bytes];
            }
            if !drained && drain.is_some_and(|at| world.now >= at) {
                drained = true;
                world.gateway.drain(world.now);
                assert_eq!(world.gateway.flows().count(), 0);
            }
        });
        assert!(finished, "stuck: {}", world.describe());
        let counters = world.gateway.counters();
        assert_eq!((counters.flows_split, world.gateway.allocated()), (0, 0));
        if !drained {
            // The last acknowledgments may be on their way still, or lost.
            assert!(counters.observed_finished == 1 || seen == [up, down], "{seen:?} of {up} and {down}");
            assert_eq!(counters.observed_bytes, up + down);
        }
    });
}

#[test]
fn a_flow_that_stays_whole_is_measured_on_both_sides() {
    let mut world = Setup::new(1, [20_000, 300_000]).behind(whole(&[]));
    let mut seen = None;
    assert!(world.run(|world| {
        seen = world.gateway.flows().next().and_then(|flow| flow.observed).or(seen.take());
    }));
    let seen = seen.unwrap();
    for direction in &seen.directions {
        assert_eq!(direction.retransmitted, 0);
        assert_eq!(direction.min_rtt, Some(2 * DELAY), "to the end and back");
    }
    // From the SYN on: the SYN-ACK passes 2 ways later, the third segment 4. The server has it after 5, its first byte passes
    // after 6.
    assert_eq!(seen.first_byte, Some(6 * DELAY));
    assert!(seen.duration > 8 * DELAY, "{seen:?}");
}

#[test]
fn what_is_lost_behind_the_gateway_is_seen_again() {
    let faults = Faults { loss: 20, ..Faults::default() };
    let mut world = Setup { faults, ..Setup::new(3, [0, 500_000]) }.behind(whole(&[]));
    let mut retransmitted = 0;
    assert!(world.run(|world| {
        retransmitted = world.sender(0, 1).map_or(retransmitted, |sender| sender.stats().retransmitted);
    }));
    let seen_again = world.gateway.counters().observed_retransmitted;
    assert!(seen_again > 0 && seen_again <= retransmitted, "{seen_again} of {retransmitted}");
}

#[test]
fn an_explicit_window_bounds_what_a_sender_has_under_way() {
    let kind = ExplicitWindow { window: Bytes(5_000) };
    let policy = Policy { mode: Mode::Pass, intercept: vec![Arc::new(kind)], ..Policy::default() };
    let mut world = Setup::new(1, [50_000, 500_000]).behind(policy);
    let (mut most, mut other) = (0, 0);
    assert!(world.run(|world| {
        most = most.max(world.sender(0, 1).map_or(0, |server| server.in_flight()));
        other = other.max(world.sender(0, 0).map_or(0, |client| client.in_flight()));
    }));
    assert!((4_000..=5_000).contains(&most), "{most} bytes toward the access side");
    assert!(other > 5_000, "{other} bytes from there, whose windows pass as they come");
}
