//! What a phone uploads, kept to what its uplink carries: over links with large queues, with the phone's own TCP
//! unmodified.
mod world;

use shorthaul_link::{GprsPhone, GprsRadio, LinkConfig, LossModel, Rate};
use shorthaul_proxy::UplinkWindow::{self, Auto, None};
use shorthaul_tcp::{ConnectionConfig, SenderProfile};
use shorthaul_types::{BitRate, Bytes, Time};
use std::time::Duration;
use world::{World, bbr, cubic, link, mbit};

const FOREVER: u64 = u64::MAX / 4;

fn plain() -> ConnectionConfig {
    let profile = SenderProfile { timestamps: false, ..SenderProfile::default() };
    ConnectionConfig { profile, ..ConnectionConfig::default() }
}

/// `flows` uploads over 10 Mbit/s and 30 ms.
fn bulk(flows: usize, uplink: UplinkWindow, config: ConnectionConfig) -> World {
    let mut world = World::new(link(Rate::Fixed(mbit(10.0)), 30), uplink, config);
    for _ in 0..flows {
        world.upload(FOREVER);
    }
    world.run(20.0);
    world
}

#[test]
fn uploads_fill_the_link_and_hardly_its_queue() {
    let product = 10e6 / 8.0 * 0.03;
    for config in [cubic(), bbr(), plain()] {
        for flows in [1, 4] {
            let world = bulk(flows, Auto, config.clone());
            let (used, wait) = (world.used(3.0, 20.0, mbit(10.0)), world.wait_p95(3.0, 20.0));
            let name = (config.profile.name, config.profile.timestamps, flows);
            println!("{name:?}: {used:.3} used, {wait:.1} ms, {} in flight", world.in_flight());
            assert!(used > 0.95, "{name:?}: {used} of the link is used");
            assert!(wait < 20.0, "{name:?}: 95 % wait {wait} ms at most");
            assert!((world.in_flight() as f64) < 1.8 * product, "{name:?}: {}", world.in_flight());
            assert_eq!(world.closed, 0, "{name:?}: a window was closed");
        }
    }
}

#[test]
fn without_a_limit_the_queue_is_what_it_was() {
    let world = bulk(1, None, cubic());
    assert!(world.wait_p95(3.0, 20.0) > 500.0, "the tests have a queue to prevent");
}

#[test]
fn a_rate_that_falls_and_rises_tenfold_is_followed() {
    let phase = Duration::from_secs(8);
    let rate = Rate::Schedule {
        phases: vec![(phase, mbit(10.0)), (phase, mbit(1.0)), (phase, mbit(10.0))],
        repeats: false,
    };
    for config in [cubic(), plain()] {
        let mut world = World::new(link(rate.clone(), 30), Auto, config);
        world.upload(FOREVER);
        world.run(24.0);
        for (from, to, rate, most) in
            [(2.0, 8.0, 10.0, 20.0), (9.0, 16.0, 1.0, 120.0), (18.0, 24.0, 10.0, 20.0)]
        {
            let (used, wait) = (world.used(from, to, mbit(rate)), world.wait_p95(from, to));
            println!("{rate} Mbit/s: {used:.3} used, {wait:.1} ms");
            assert!(used > 0.95, "{used} of {rate} Mbit/s");
            assert!(wait < most, "95 % wait {wait} ms at most at {rate} Mbit/s");
        }
    }
}

/// How long an upload of `bytes` takes, until its last byte is acknowledged.
fn time(bytes: u64, rtt_ms: u64, uplink: UplinkWindow, config: ConnectionConfig) -> f64 {
    let mut world = World::new(link(Rate::Fixed(mbit(10.0)), rtt_ms), uplink, config);
    world.upload(bytes);
    world.run_until(Time::from_secs(60), |world| world.uploads[0].finished.is_some());
    let upload = &world.uploads[0];
    upload.finished.unwrap().saturating_since(upload.opened).as_secs_f64()
}

#[test]
fn small_uploads_are_not_slower() {
    for config in [cubic(), plain()] {
        for rtt_ms in [30, 550] {
            for bytes in [3_000, 30_000, 100_000, 1_000_000] {
                let [with, without] = [Auto, None].map(|uplink| time(bytes, rtt_ms, uplink, config.clone()));
                println!("{bytes} B over {rtt_ms} ms: {with:.3} s, without {without:.3} s");
                assert!(with < 1.05 * without + 0.002, "{bytes} B over {rtt_ms} ms: {with} s, {without} s");
            }
        }
    }
}

#[test]
fn a_small_upload_beside_a_large_one_is_much_faster() {
    let times = [Auto, None].map(|uplink| {
        let mut world = bulk(1, uplink, cubic());
        world.upload(30_000);
        world.run_until(Time::from_secs(60), |world| world.uploads[1].finished.is_some());
        let upload = &world.uploads[1];
        upload.finished.unwrap().saturating_since(upload.opened).as_secs_f64()
    });
    println!("{times:?}");
    assert!(times[0] < 0.4 && times[0] < times[1] / 4.0, "{times:?}");
}

#[test]
fn uploads_that_began_at_different_times_come_to_equal_shares() {
    let mut world = bulk(1, Auto, cubic());
    world.upload(FOREVER);
    world.run(5.0);
    let sent = |world: &World| -> Vec<u64> {
        world.phone.connections().map(|(_, connection)| connection.sender().una()).collect()
    };
    let before = sent(&world);
    world.run(10.0);
    let gains: Vec<u64> = sent(&world).iter().zip(before).map(|(after, before)| after - before).collect();
    let (least, most) = (gains.iter().min().unwrap(), gains.iter().max().unwrap());
    assert!(*least as f64 > 0.9 * *most as f64, "{gains:?}");
}

#[test]
fn what_is_lost_is_found_by_duplicate_acknowledgments() {
    for config in [cubic(), bbr()] {
        let measured = [Auto, None].map(|uplink| {
            let up = link_with_loss(0.003);
            let mut world = World::new(up, uplink, config.clone());
            world.upload(5_000_000);
            world.run_until(Time::from_secs(120), |world| world.uploads[0].finished.is_some());
            let upload = &world.uploads[0];
            (upload.finished.unwrap().saturating_since(upload.opened).as_secs_f64(), world.timeouts())
        });
        let [(with, timeouts), (without, before)] = measured;
        println!(
            "{}: {with:.2} s, {timeouts} timeouts; without {without:.2} s, {before}",
            config.profile.name
        );
        assert!(with < 1.1 * without, "{with} s, without {without} s");
        assert!(timeouts <= before + 1, "{timeouts} timeouts, without {before}");
    }
}

fn link_with_loss(probability: f64) -> LinkConfig {
    LinkConfig { loss: LossModel::Bernoulli { probability }, ..link(Rate::Fixed(mbit(10.0)), 30) }
}

#[test]
fn windows_in_coarse_units_are_neither_closed_nor_taken_back() {
    for shift in [0, 7, 12, 14] {
        let config = ConnectionConfig {
            window_shift: Some(shift),
            receive_buffer: Bytes(4 << shift.max(14)),
            ..cubic()
        };
        let mut world = World::new(link(Rate::Fixed(mbit(0.2)), 60), Auto, config);
        world.upload(FOREVER);
        world.upload(FOREVER);
        world.run(60.0);
        let used = world.used(5.0, 60.0, mbit(0.2));
        println!("{shift}: {used:.3} used, {:.0} ms", world.wait_p95(5.0, 60.0));
        assert!(used > 0.95, "{used} with a shift of {shift}");
        assert_eq!(world.closed, 0, "with a shift of {shift}");
    }
}

#[test]
fn after_a_pause_an_upload_goes_on_as_fast() {
    let mut world = World::new(link(Rate::Fixed(mbit(10.0)), 100), Auto, cubic());
    world.upload(5_000_000);
    world.run(20.0);
    assert!(world.uploads[0].finished.is_some());
    world.more(0, 3_000_000);
    world.run_until(Time::from_secs(60), |world| world.uploads[0].finished.is_some());
    let took = world.uploads[0].finished.unwrap().saturating_since(Time::from_secs(20)).as_secs_f64();
    println!("{took:.2} s");
    assert!(took < 3.2, "3 MB over 10 Mbit/s take {took} s");
}

/// A window that it does not use is not worth a packet that wakes its radio, and to a phone that has forgotten the connection
/// says that the gateway has not.
#[test]
fn an_idle_connection_hears_nothing_when_its_share_grows() {
    let mut world =
        World::new(link(Rate::Fixed(mbit(10.0)), 30), UplinkWindow::Fixed(Bytes(60_000)), cubic());
    for _ in 0..12 {
        world.upload(FOREVER);
    }
    world.run(3.0);
    world.upload(0);
    world.run(0.5);
    let idle = |world: &World| *world.to_phone.values().min().unwrap();
    assert_eq!((world.to_phone.len(), idle(&world)), (13, 1), "a SYN-ACK is all that it was sent");
    (1..12).for_each(|upload| world.abort(upload));
    world.run(5.0);
    assert_eq!(idle(&world), 1);
    // When it begins, it has what is due to it after a round trip.
    world.more(12, 300_000);
    world.run_until(Time::from_secs(60), |world| world.uploads[12].finished.is_some());
    let took = world.uploads[12].finished.unwrap().saturating_since(world.uploads[12].opened);
    assert!(took.as_secs_f64() < 0.7, "300 kB of half of 10 Mbit/s take {took:?}");
}

#[test]
fn a_fixed_window_is_what_all_uploads_share() {
    let world = bulk(4, UplinkWindow::Fixed(Bytes(60_000)), cubic());
    assert!(world.in_flight() < 60_000 + 5 * 1448, "{}", world.in_flight());
    assert!(world.used(3.0, 20.0, mbit(10.0)) > 0.95);
}

#[test]
fn over_gprs_a_phone_has_a_few_segments_on_their_way() {
    let up = LinkConfig::gprs_uplink(GprsPhone::ThreePlusOne, GprsRadio::Ideal);
    let rate = BitRate::from_bytes_per_sec(1_400);
    let measured = [Auto, None].map(|uplink| {
        let mut world = World::new(up.clone(), uplink, cubic());
        world.upload(FOREVER);
        world.run(260.0);
        (world.used(60.0, 260.0, rate), world.wait_p95(60.0, 260.0))
    });
    println!("{measured:?}");
    let [(used, wait), (_, before)] = measured;
    assert!(used > 0.95, "{used} of the link is used");
    assert!(wait < 0.8 * before, "95 % wait {wait} ms at most, without a limit {before}");
}
