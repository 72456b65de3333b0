//! Two ends, a gateway between them, and links that lose, reorder and duplicate: the stream must arrive whole and in order,
//! and nothing may be acknowledged to its sender that is neither held nor delivered.
use crate::pair::{Setup, toward_access};
use shorthaul_proxy::{
    AggregateConfig, Clamp, Delivered, Freeze, GatewayConfig, PathTailConfig, Policy, Regulated,
    SenderControl, TailScope, WINDOW_LIMITS,
};
use shorthaul_testkit::{Chance, DELAY, Faults, World, draw::Draw, each_seed};
use shorthaul_types::{BitRate, Bytes, Time};
use std::sync::Arc;

/// No aggregation, or a window.
fn clamp(chance: &mut Chance) -> Option<Clamp> {
    let size = Bytes(1_000 + chance.below(49_000));
    *chance.pick(&[None, Some(Clamp::Auto), Some(Clamp::Fixed(size))])
}

/// The client is a mobile host whose connections are served with this shared window, if with any.
fn aggregating(clamp: Option<Clamp>) -> Policy {
    let aggregate = clamp.map(|clamp| Arc::new(AggregateConfig { clamp, ..AggregateConfig::default() }));
    Policy { aggregate, ..Policy::default() }
}

fn behind(senders: SenderControl) -> Policy {
    Policy { senders, ..Policy::default() }
}

/// Draws faults up to these, per mille.
fn faults(chance: &mut Chance, loss: u64, reorder: u64, duplicate: u64) -> Faults {
    Faults::of(chance.below(loss), chance.below(reorder), chance.below(duplicate))
}

/// Every second time, a moment in the first three seconds.
fn sometimes(chance: &mut Chance) -> Option<Time> {
    let at = Time::from_millis(1_000 + chance.below(3_000));
    chance.happens(500).then_some(at)
}

/// Runs to the end; the gateway steps out of everything at `drain`. `each` hears whether it has.
fn arrives(world: &mut World, drain: Option<Time>, mut each: impl FnMut(&World, bool)) {
    let mut drained = false;
    let finished = world.run(|world| {
        each(world, drained);
        if !drained && drain.is_some_and(|at| world.now >= at) {
            drained = true;
            world.gateway.drain(world.now);
        }
    });
    assert!(finished, "stuck: {}", world.describe());
    assert!(!drained || world.gateway.held_flows() == 0);
}

/// The second of the two segments that F-RTO sends is lost, too, before a round trip was ever measured: nothing is on its
/// way that could answer.
#[test]
fn a_loss_after_a_timeout_does_not_end_an_aggregated_stream() {
    let faults = Faults::of(190, 7, 15);
    let setup = Setup { faults, from_the_start: true, ..Setup::new(1845, [42_000, 60_000]) };
    let mut world = setup.behind(aggregating(Some(Clamp::Auto)));
    arrives(&mut world, None, |_, _| ());
}

#[test]
fn whatever_the_links_do_the_stream_arrives_whole() {
    each_seed(0..120, |seed| {
        let mut chance = Chance(seed);
        let totals = [chance.below(200_000), chance.below(200_000)];
        let faults = faults(&mut chance, 80, 100, 50);
        let policy = aggregating(clamp(&mut chance));
        let mut world = Setup { faults, ..Setup::new(seed, totals) }.behind(policy);
        arrives(&mut world, None, |world, _| {
            let held = world.gateway.allocated();
            assert!(held < 2_000_000, "{held} bytes held for buffers of 2 × 100 kB");
        });
    });
}

fn steps_out(seed: u64) {
    let mut chance = Chance(seed);
    let totals = [1 + chance.below(200_000), 1 + chance.below(200_000)];
    let faults = Faults::of(chance.below(30), 10, 10);
    let policy = aggregating(clamp(&mut chance));
    let when = Time::from_millis(1_000 + chance.below(3_000));
    let mut world = Setup { faults, ..Setup::new(seed, totals) }.behind(policy);
    arrives(&mut world, Some(when), |_, _| ());
}

#[test]
fn a_gateway_that_steps_out_breaks_nothing() {
    each_seed(0..120, steps_out);
}

/// Both ends have sent more than the other takes by itself: where their acknowledgments are lost, too, neither would hear the other for
/// ever.
#[test]
fn a_gateway_that_steps_out_stays_until_one_end_takes_what_the_other_says() {
    steps_out(167);
}

/// The far end acknowledged what had passed in another order: an acknowledgment of ours that says much less is dropped with its data.
#[test]
fn a_gateway_that_steps_out_says_no_less_than_was_said() {
    steps_out(1_790);
}

/// Whatever is registered, in whatever combination can be worked with, between ends that work in whatever way.
#[test]
fn every_configuration_carries_the_stream() {
    each_seed(0..250, |seed| {
        let mut draw = Draw::new(seed);
        let frame = GatewayConfig { flow_buffer: Bytes(100_000), ..GatewayConfig::default() };
        let config = draw.gateway(&frame, &[]);
        let mut setup = Setup::new(seed, [draw.chance.below(50_000), draw.chance.below(100_000)]);
        setup.faults = faults(&mut draw.chance, 60, 100, 50);
        setup.configs = [draw.end(), draw.end()];
        let drain = sometimes(&mut draw.chance);
        println!("seed {seed}:\n{}{config:#?}\n{setup:#?}", draw.rows);
        let mut world = setup.with(config);
        arrives(&mut world, drain, |_, _| ());
    });
}

/// A tail of 2 Mbit/s to each host: a segment of 1040 bytes takes 4.16 ms.
fn tail() -> SenderControl {
    let tail = PathTailConfig {
        bandwidth: BitRate::from_bits_per_sec(2_000_000),
        is_estimated: false,
        queue: Bytes(12_000),
        buffer: Bytes(25_000),
        scope: TailScope::Host,
    };
    SenderControl::acknowledging(tail)
}

#[test]
fn an_emulated_tail_acknowledges_only_what_is_held_and_holds_only_so_much() {
    each_seed(0..60, |seed| {
        let mut chance = Chance(seed);
        let totals = [chance.below(50_000), chance.below(200_000)];
        let faults = faults(&mut chance, 60, 100, 50);
        let drain = sometimes(&mut chance);
        let mut world = Setup { faults, ..Setup::new(seed, totals) }.behind(behind(tail()));
        // That nothing else is acknowledged, the world checks by itself.
        arrives(&mut world, drain, |world, _| {
            if let Some((held, _)) = toward_access(world) {
                // What is out of order is not counted against what fills its gap.
                assert!(held <= 2 * 25_000 + 1000, "{held} bytes held");
            }
        });
    });
}

#[test]
fn however_senders_are_kept_back_the_stream_arrives_whole() {
    each_seed(0..120, |seed| {
        let mut draw = Draw::new(seed);
        let senders = draw.senders();
        let totals = [draw.chance.below(50_000), draw.chance.below(200_000)];
        let faults = faults(&mut draw.chance, 60, 100, 50);
        let drain = sometimes(&mut draw.chance);
        let mut world = Setup { faults, ..Setup::new(seed, totals) }.behind(behind(senders));
        arrives(&mut world, drain, |_, _| ());
    });
}

#[test]
fn what_waits_for_the_receiver_is_acknowledged_when_it_is_delivered() {
    each_seed(0..60, |seed| {
        let mut chance = Chance(seed);
        let total = chance.below(200_000);
        let faults = faults(&mut chance, 60, 100, 1);
        let control = if chance.happens(500) {
            SenderControl::acknowledging(Regulated { queue: Bytes(10_000) })
        } else {
            SenderControl::acknowledging(Delivered {}).limited_by(Freeze { after: 8 * DELAY })
        };
        let mut world = Setup { faults, ..Setup::new(seed, [0, total]) }.behind(behind(control));
        arrives(&mut world, None, |world, _| {
            let (Some((_, delivered)), Some(server)) = (toward_access(world), world.sender(0, 1)) else {
                return;
            };
            let acknowledged = server.una() - 1;
            assert!(acknowledged <= delivered + 1, "{acknowledged} of {delivered} acknowledged");
        });
    });
}

#[test]
fn a_sender_keeps_to_the_rate_of_the_emulated_tail() {
    let mut world = Setup::new(1, [0, 1_000_000]).behind(behind(tail()));
    let start = world.now;
    let (mut most, mut stats, mut end) = (0, None, start);
    arrives(&mut world, None, |world, _| {
        most = most.max(toward_access(world).map_or(0, |(held, _)| held));
        if world.flows[0].apps[0].read < 1_000_000 {
            end = world.now;
        }
        if let Some(server) = world.sender(0, 1) {
            assert!(server.peer_window() >= 25_000, "the window was closed");
            stats = Some(server.stats());
        }
    });
    // 1000 segments of 1040 bytes at 2 Mbit/s, and the handful of round trips at both ends
    let time = end.saturating_since(start).as_secs_f64();
    assert!((4.16..4.5).contains(&time), "took {time} s");
    assert!(world.gateway.counters().path_tail_dropped > 0, "a full queue drops");
    let stats = stats.unwrap();
    assert!(stats.retransmitted > 0, "and its sender reacts");
    assert_eq!(stats.timeouts, 0);
    // 25 kB, and what fills a gap besides: it finds room beside what waits behind the gap.
    assert!(most <= 2 * 25_000, "{most} bytes held");
}

/// The client's windows count in units of 16 KiB: 10 kB is none of them.
#[test]
fn a_window_that_is_less_than_a_unit_of_its_field_is_not_closed_for_ever() {
    let limits = [
        WINDOW_LIMITS.iter().find(|row| row.name == "clamp"),
        WINDOW_LIMITS.iter().find(|row| row.name == "constant-queue"),
    ];
    for limit in limits {
        let senders = SenderControl { ack: None, window: vec![(limit.unwrap().example)()] };
        let mut setup = Setup::new(1, [0, 100_000]);
        setup.configs.iter_mut().for_each(|end| end.profile.window_scaling = true);
        setup.configs[0].window_shift = Some(14);
        let mut world = setup.behind(behind(senders));
        arrives(&mut world, None, |_, _| ());
    }
}

#[test]
fn the_stream_crosses_the_wrap_of_the_sequence_numbers() {
    for end in 0..2 {
        let faults = Faults::of(10, 10, 10);
        let setup = Setup { faults, ..Setup::new(1, [150_000, 150_000]) };
        let mut world = setup.beginning_at(end, u32::MAX - 50_000);
        arrives(&mut world, None, |_, _| ());
    }
}

#[test]
fn without_faults_nothing_is_sent_twice_and_nothing_is_left_behind() {
    let mut world = Setup::new(1, [500_000, 500_000]).behind(Policy::default());
    arrives(&mut world, None, |world, _| {
        for flow in world.gateway.flows() {
            assert!(flow.legs.unwrap().iter().all(|leg| leg.retransmitted == 0));
        }
    });
    assert_eq!((world.gateway.flows().count(), world.gateway.allocated()), (0, 0));
    assert_eq!(world.gateway.counters().flows_finished, 1);
}
