//! A gateway crashes, and the next one goes on with what it left: nobody notices but by the time that it took.
use crate::pair::{Setup, plain};
use shorthaul_proxy::{Delivered, Freeze, Gateway, GatewayConfig, SenderControl};
use shorthaul_testkit::{Chance, DELAY, Faults, Opening, Twin, World, draw::Draw, each_seed, packets};
use shorthaul_types::{Bytes, PortId, Time};
use shorthaul_wire::{Payload, TcpFlags, TcpHeader};
use std::time::Duration;

/// The bounds of the gateways here.
fn frame() -> GatewayConfig {
    GatewayConfig { flow_buffer: Bytes(100_000), ..GatewayConfig::default() }
}

/// Runs to the end; at each of `crashes` the gateway is gone, and the next one is there this much later. Returns how many flows were
/// taken over.
fn survives(world: &mut World, config: &GatewayConfig, crashes: &[(Time, Duration)]) -> u64 {
    let mut resumed = 0;
    let mut crashes = crashes.iter().copied().peekable();
    let mut back = None;
    for _ in 0..400_000 {
        if let Some((at, time)) = crashes.peek().copied()
            && world.now >= at
            && back.is_none()
        {
            world.crash();
            back = Some(world.now + time);
            crashes.next();
        }
        if back.is_some_and(|back| world.now >= back) {
            back = None;
            world.restart(config.clone());
            resumed += world.gateway.counters().flows_resumed;
        }
        let is_over = (0..world.flows.len()).all(|flow| world.is_whole(flow));
        if is_over && crashes.peek().is_none() && back.is_none() {
            assert_eq!(world.gateway.counters().flows_lost_in_crash, 0);
            return resumed;
        }
        let next = crashes.peek().map(|(at, _)| *at);
        let limit = back.or(next).unwrap_or(Time::MAX);
        assert!(world.step(limit), "nothing happens any more: {}", world.describe());
    }
    panic!("stuck: {}", world.describe());
}

/// When the gateway crashes, and for how long: once or twice, sometimes for no time at all.
fn crashes(chance: &mut Chance) -> Vec<(Time, Duration)> {
    let mut at = Time::from_millis(1_000);
    let count = 1 + chance.below(3);
    (0..count)
        .map(|_| {
            at += Duration::from_micros(chance.below(1_500_000));
            let time = *chance.pick(&[Duration::ZERO, DELAY / 2, 10 * DELAY, 100 * DELAY, 300 * DELAY]);
            let crash = (at, time);
            at += time;
            crash
        })
        .collect()
}

#[test]
fn a_crash_at_any_moment_loses_nothing() {
    let mut resumed = 0;
    each_seed(0..300, |seed| {
        let mut chance = Chance(seed);
        let totals = [chance.below(150_000), chance.below(150_000)];
        let faults = Faults::of(*chance.pick(&[0, 0, 20, 60]), chance.below(50), chance.below(20));
        let crashes = crashes(&mut chance);
        println!("{totals:?} {faults:?} {crashes:?}");
        let mut world = Setup { faults, ..Setup::new(seed, totals) }.with(frame());
        resumed += survives(&mut world, &frame(), &crashes);
    });
    assert!(resumed > 0, "no flow was open in any crash");
}

/// Whatever is registered, in whatever combination can be worked with; the next gateway may work in another way.
#[test]
fn whatever_is_configured_a_crash_loses_nothing() {
    let mut resumed = 0;
    each_seed(0..200, |seed| {
        let mut draw = Draw::new(seed);
        let config = draw.gateway(&frame(), &[]);
        let next = if draw.chance.once_in(2) { config.clone() } else { draw.gateway(&frame(), &[]) };
        let mut setup = Setup::new(seed, [draw.chance.below(50_000), draw.chance.below(100_000)]);
        setup.faults = Faults::of(draw.chance.below(40), draw.chance.below(50), draw.chance.below(20));
        setup.configs = [draw.end(), draw.end()];
        let crashes = crashes(&mut draw.chance);
        println!("{}{config:#?}\n{setup:#?}\n{crashes:?}", draw.rows);
        let mut world = setup.with(config);
        resumed += survives(&mut world, &next, &crashes);
    });
    assert!(resumed > 0, "no flow was open in any crash");
}

/// Another gateway goes on in the place of this one, again and again, while links lose and reorder: nothing is lost. Where the ends are
/// acknowledged what has come, nothing is asked of them either, and what was under way is not sent once more. Returns how many flows
/// were handed over.
fn goes_on_in_the_midst_of_it(seed: u64) -> u64 {
    let mut handed_over = 0;
    let mut draw = Draw::new(seed);
    let is_plain = seed.is_multiple_of(2);
    let config = if is_plain { frame() } else { draw.gateway(&frame(), &[]) };
    let totals = [draw.chance.below(150_000), draw.chance.below(150_000)];
    let clean = draw.chance.once_in(2);
    let loss = *draw.chance.pick(&[0, 20, 60]);
    let faults = if clean { Faults::default() } else { Faults::of(loss, draw.chance.below(50), 20) };
    let every = Duration::from_millis(20 + draw.chance.below(400));
    println!("{}{config:#?}\n{totals:?} {faults:?} every {every:?}", draw.rows);
    let mut world = Setup { faults, ..Setup::new(seed, totals) }.with(config.clone());
    // Timers begin anew each time: if it happened for ever, nothing would ever be retransmitted.
    let mut next = world.now + every;
    let last = world.now + 10 * every;
    for step in 0.. {
        assert!(step < 400_000, "stuck: {}", world.describe());
        if world.now >= next {
            world.take_over(config.clone());
            next = if world.now < last { world.now + every } else { Time::MAX };
            handed_over += world.gateway.counters().flows_resumed;
            let unknown = world.gateway.inherited_flows();
            assert!(!is_plain || unknown == 0, "it knows all of them: {}", world.describe());
        }
        if (0..world.flows.len()).all(|flow| world.is_whole(flow)) {
            break;
        }
        assert!(world.step(next), "nothing happens any more: {}", world.describe());
        let legs = world.known(0).and_then(|info| info.legs).filter(|_| clean && is_plain);
        let retransmitted = legs.map_or(0, |legs| legs[0].retransmitted + legs[1].retransmitted);
        assert_eq!(retransmitted, 0, "of what was lost nowhere: {}", world.describe());
    }
    assert_eq!(world.gateway.counters().flows_lost_in_crash, 0);
    handed_over
}

#[test]
fn whoever_takes_over_goes_on_in_the_midst_of_it() {
    let (mut seeds, mut handed_over) = (0, 0);
    each_seed(0..200, |seed| {
        seeds += 1;
        handed_over += goes_on_in_the_midst_of_it(seed);
    });
    assert!(handed_over > seeds, "{handed_over} flows were handed over in {seeds} runs");
}

/// Two gateways ago more was sent than the last one sent again: what is acknowledged of it is no lie, and the connection goes on.
#[test]
fn what_the_gateway_before_the_last_had_sent_is_acknowledged() {
    // The seeds that found it drew other configurations, before there were more rows to draw from.
    let mut twice = 0;
    each_seed(1_600..1_800, |seed| twice += u32::from(goes_on_in_the_midst_of_it(seed) > 1));
    assert!(twice >= 20, "in {twice} runs a flow was handed over more than once");
}

/// The receiver reads nothing at first: what its sender believes delivered is in the gateway alone when it crashes.
#[test]
fn what_was_acknowledged_and_not_delivered_is_delivered_by_the_next_gateway() {
    let mut world = Setup::new(7, [0, 90_000]).with(frame());
    world.flows[0].apps[0].appetite = 0;
    let only_here =
        |world: &World| world.known(0).and_then(|info| info.legs).map_or(0, |legs| legs[1].buffered);
    assert!(world.run_until(|world| only_here(world) > 20_000), "{}", world.describe());
    let (acknowledged, held) = (world.sender(0, 1).unwrap().una(), only_here(&world));
    assert!(acknowledged > held, "{acknowledged} of which {held}");
    world.crash();
    world.restart(frame());
    assert_eq!((world.gateway.counters().flows_resumed, only_here(&world)), (1, held));
    world.flows[0].apps[0].appetite = usize::MAX;
    survives(&mut world, &frame(), &[]);
}

/// Somebody who knows addresses and ports, but no sequence numbers, forges segments of a connection that the next gateway has just taken over:
/// a SYN, or acknowledgments that are far off. In the name of one end from its own side, or of both from one.
#[test]
fn what_is_forged_once_the_next_gateway_is_there_loses_nothing() {
    let ack = TcpFlags::ACK;
    let forgeries: [&[(usize, PortId, TcpFlags)]; 4] = [
        &[(0, Gateway::ACCESS, TcpFlags::SYN)],
        &[(0, Gateway::ACCESS, ack)],
        &[(1, Gateway::WAN, ack)],
        &[(1, Gateway::WAN, ack), (0, Gateway::WAN, ack)],
    ];
    for forgery in forgeries {
        let mut world = Setup::new(7, [0, 90_000]).with(frame());
        world.flows[0].apps[0].appetite = 0;
        let held =
            |world: &World| world.known(0).and_then(|info| info.legs).map_or(0, |legs| legs[1].buffered);
        assert!(world.run_until(|world| held(world) > 20_000), "{}", world.describe());
        world.crash();
        world.restart(frame());
        let before = held(&world);
        for &(from, port, flags) in forgery {
            let key = world.flows[0].key;
            let key = if from == 0 { key } else { key.reversed() };
            let [seq, ack] = [from, 1 - from].map(|end| world.isn(0, end).expect("it is open") + (1 << 24));
            let header = TcpHeader { seq, ack, flags, window: 1_000, ..TcpHeader::default() };
            let packet = packets::segment(key.src, key.dst, header, packets::filler(0));
            world.gateway.handle_packet(world.now, port, packet);
        }
        world.settle();
        assert_eq!(held(&world), before, "after {forgery:?}");
        world.flows[0].apps[0].appetite = usize::MAX;
        survives(&mut world, &frame(), &[]);
    }
}

/// What the ends sent each other past a crashed gateway opens a window that was closed because the receiver was silent.
#[test]
fn what_went_past_a_crashed_gateway_opens_the_window() {
    let mut frozen = frame();
    frozen.policies[0].senders =
        SenderControl::acknowledging(Delivered {}).limited_by(Freeze { after: DELAY / 10 });
    for step in 0..60 {
        let mut world = Setup::new(7, [0, 150_000]).with(frame());
        let crash = Time::from_secs(1) + 3 * DELAY + step * DELAY / 8;
        survives(&mut world, &frozen, &[(crash, 3 * DELAY)]);
    }
}

/// When a connection is over, nothing of it is kept.
#[test]
fn nothing_is_kept_of_what_is_over() {
    let mut world = Setup::new(3, [50_000, 50_000]).with(frame());
    let mut most = 0;
    assert!(world.run(|world| most = most.max(world.custody.bytes())));
    let end = world.now + Duration::from_secs(10);
    while world.now < end {
        world.step(end);
    }
    assert!(most > 10_000, "{most}");
    assert_eq!((world.custody.records().count(), world.custody.bytes()), (0, 0));
}

/// Bytes of the store are gone, against all that was promised: both ends are reset, and not left to wait for ever.
#[test]
fn where_bytes_are_lost_both_ends_are_told() {
    let mut world = Setup::new(7, [0, 90_000]).with(frame());
    world.flows[0].apps[0].appetite = 0;
    // Nothing is under way: the client has no room.
    let waits = |world: &World| {
        let legs = world.known(0).and_then(|info| info.legs);
        legs.is_some_and(|legs| legs[1].in_flight == 0 && legs[1].buffered > 20_000)
    };
    assert!(world.run_until(waits), "{}", world.describe());
    let mut left = world.custody.left();
    let held = &mut left[0].held[1];
    let kept = held.bytes().split_off(held.len() / 2);
    held.start += (held.len() - kept.len()) as u64;
    held.pieces = vec![Payload::copy_of(&kept)];
    world.crash();
    world.restart(frame());
    world.gateway = Twin::new(&frame());
    world.gateway.adopt(world.now, &left[0]);
    world.flows[0].was_cut = true;
    let end = world.now + Duration::from_secs(10);
    while world.now < end {
        world.step(end);
    }
    let [client, server] = &world.flows[0].apps;
    // Who has closed and waits for nothing but the answer to that is not told of a failure.
    assert!(client.failure().is_some() && server.is_over(), "{}", world.describe());
    assert_eq!(world.gateway.counters().flows_lost_in_crash, 1);
    assert_eq!(world.gateway.flows_known(), 0);
}

/// Another connection like the first one of this world.
fn open_another(world: &mut World, totals: [u64; 2]) {
    let stations = world.flows[0].stations;
    world.open(Opening { stations, port: 80, configs: [plain(), plain()], totals });
}

/// Were it split and a crash to come, nobody would know of it, and its ends would wait for ever.
#[test]
fn a_connection_whose_record_has_no_room_stays_whole() {
    let mut world = Setup::new(7, [0, 90_000]).with(frame());
    world.gateway.set_record_room(1);
    open_another(&mut world, [0, 90_000]);
    world.flows.iter_mut().for_each(|flow| flow.apps[0].appetite = 0);
    let only_here = |world: &World, flow| world.known(flow).and_then(|info| info.legs);
    let holds = |world: &World| only_here(world, 0).is_some_and(|legs| legs[1].buffered > 20_000);
    assert!(world.run_until(holds), "{}", world.describe());
    assert!(only_here(&world, 1).is_none(), "{}", world.describe());
    assert_eq!(world.gateway.counters().unsplit_unkept, 1);
    world.crash();
    world.restart(frame());
    world.flows.iter_mut().for_each(|flow| flow.apps[0].appetite = usize::MAX);
    survives(&mut world, &frame(), &[]);
}

/// Whoever hands over on purpose hands over what the store had no room for as well.
#[test]
fn what_the_store_has_no_room_for_is_handed_over() {
    let mut world = Setup::new(7, [0, 90_000]).with(frame());
    world.custody.is_full = true;
    world.flows[0].apps[0].appetite = 0;
    let held = |world: &World| world.known(0).and_then(|info| info.legs).map_or(0, |legs| legs[1].buffered);
    assert!(world.run_until(|world| held(world) > 20_000), "{}", world.describe());
    let before = held(&world);
    world.take_over(frame());
    assert_eq!(held(&world), before);
    assert_eq!(world.gateway.unkept().count(), 0, "the next one's store has room");
    world.flows[0].apps[0].appetite = usize::MAX;
    survives(&mut world, &frame(), &[]);
}

/// What had no room has it once there is some: a crash loses none of it then.
#[test]
fn what_had_no_room_is_kept_when_there_is_some() {
    let mut world = Setup::new(7, [0, 90_000]).with(frame());
    world.custody.is_full = true;
    world.flows[0].apps[0].appetite = 0;
    let held = |world: &World| world.known(0).and_then(|info| info.legs).map_or(0, |legs| legs[1].buffered);
    assert!(world.run_until(|world| held(world) > 20_000), "{}", world.describe());
    assert_eq!((world.gateway.unkept().count(), world.custody.bytes()), (1, 0));
    world.custody.is_full = false;
    assert!(world.run_until(|world| world.gateway.unkept().next().is_none()), "{}", world.describe());
    assert!(world.custody.bytes() as u64 >= held(&world));
    world.crash();
    world.restart(frame());
    world.flows[0].apps[0].appetite = usize::MAX;
    survives(&mut world, &frame(), &[]);
}
