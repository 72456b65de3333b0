//! The algorithms that answer loss or delay, each over the same kind of bottleneck: what the
//! textbook says of them.
use std::time::Duration;

use crate::bottleneck::{Bottleneck, Link, MSS};
use shorthaul_types::{Seed, Time};

const STEP: Duration = Duration::from_millis(10);

/// The mean of what `see` gives between `from` and `end`.
fn mean(path: &mut Bottleneck, end: Time, see: impl Fn(&Bottleneck) -> f64) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    path.watch(end, STEP, |path| {
        sum += see(path);
        count += 1.0;
    });
    sum / count
}

#[test]
fn the_window_of_reno_is_a_saw() {
    // With a buffer of one product the tooth goes from one to two products, and the link never idles.
    let link = Link::new(10, 40);
    let mut path = Bottleneck::with("reno", link);
    path.run_until(Time::from_secs(20));
    let recoveries = path.flows[0].recoveries;
    let (mut low, mut high) = (u64::MAX, 0);
    let mean = mean(&mut path, Time::from_secs(80), |path| path.flows[0].control.window() as f64);
    path.watch(Time::from_secs(120), STEP, |path| {
        low = low.min(path.flows[0].control.window());
        high = high.max(path.flows[0].control.window());
    });
    let (peak, share) = (high as f64, mean / high as f64);
    // A round trip is as long as its window is large, W/rate, and there are as many of each size: the
    // mean over time is not 3/4 of the peak but ∫W²/∫W from 1/2 to 1, which is 7/9.
    assert!((share - 7.0 / 9.0).abs() < 0.02, "{share} of a peak of {peak}");
    assert!((low as f64 / peak - 0.5).abs() < 0.03, "from {low} to {high}");
    assert!((peak / link.bdp() as f64 - 2.0).abs() < 0.1, "peak {high}, bdp {}", link.bdp());
    // A segment a round trip, which the queue lengthens from 40 to 80 ms: 50 segments take 3 s.
    let teeth = path.flows[0].recoveries - recoveries;
    assert!((28..=40).contains(&teeth), "{teeth} teeth in 100 s");
    assert_eq!(path.flows[0].timeouts, 0);
    assert!(path.share_until(0, Time::from_secs(140)) > 0.995);
}

#[test]
fn reno_obeys_the_square_root_law() {
    // Mathis et al. 1997: W = √(3/(2p)) segments, here 38.7 at p = 0.1 %, on a path that never fills.
    let link = Link { loss: 0.001, seed: Seed(7), ..Link::new(40, 100) };
    let mut path = Bottleneck::with("reno", link);
    path.run_until(Time::from_secs(30));
    let (before, dropped) = (path.flows[0].delivered, path.dropped);
    path.run_until(Time::from_secs(430));
    let window = (path.flows[0].delivered - before) as f64 / MSS as f64 / 4000.0;
    let law = (1.5_f64 / 0.001).sqrt();
    assert_eq!(path.dropped, dropped, "the path fills");
    assert!((window / law - 1.0).abs() < 0.15, "{window} segments, the law says {law}");
}

#[test]
fn cubic_follows_its_curve_to_the_plateau_at_k_and_beyond() {
    let mut path = Bottleneck::with("cubic", Link::new(100, 100));
    while path.flows[0].control.window() < 400 * MSS {
        path.run_until(path.now + Duration::from_millis(1));
    }
    path.lose_next = true;
    let mut w_max = 0;
    while path.flows[0].recoveries == 0 {
        w_max = path.flows[0].control.window();
        path.run_until(path.now + Duration::from_millis(1));
    }
    assert!((path.flows[0].control.window() as f64 / w_max as f64 - 0.7).abs() < 0.001);
    while path.flows[0].in_recovery() {
        path.run_until(path.now + Duration::from_millis(1));
    }
    let start = path.now;
    // RFC 9438 equations 1 and 2: K = ∛(W_max·(1 − β)/C), and C·(t − K)³ around the plateau at W_max.
    let plateau = w_max as f64 / MSS as f64;
    let k = (plateau * 0.3 / 0.4).cbrt();
    path.watch(start + Duration::from_secs_f64(k + 3.0), STEP, |path| {
        let t = path.now.saturating_since(start).as_secs_f64();
        let (window, curve) =
            (path.flows[0].control.window() as f64 / MSS as f64, 0.4 * (t - k).powi(3) + plateau);
        assert!(
            t < 0.5 || (window - curve).abs() < 2.0,
            "{window} segments after {t} s, not {curve}; K is {k} s"
        );
    });
    assert_eq!(path.flows[0].recoveries, 1);
}

#[test]
fn westwood_keeps_the_pipe_full_where_reno_gives_up_half() {
    let link = Link { loss: 0.0005, seed: Seed(3), ..Link::new(10, 100) };
    let share = |name: &str| {
        let mut path = Bottleneck::with(name, link);
        path.run_until(Time::from_secs(20));
        path.share_until(0, Time::from_secs(80))
    };
    let (westwood, reno) = (share("westwood"), share("reno"));
    assert!(westwood > 0.85 && westwood > 1.5 * reno, "westwood {westwood}, reno {reno}");
}

#[test]
fn westwood_empties_a_full_queue_and_no_more() {
    // Without random loss, what it falls to is the pipe: from the first loss on.
    let link = Link { buffer: 2.0, ..Link::new(10, 50) };
    let mut path = Bottleneck::with("westwood", link);
    while path.flows[0].recoveries == 0 {
        path.run_until(path.now + Duration::from_millis(1));
    }
    let mut low = u64::MAX;
    path.watch(Time::from_secs(120), STEP, |path| low = low.min(path.flows[0].control.window()));
    let bdp = link.bdp() as f64;
    assert!((low as f64 / bdp - 1.0).abs() < 0.1, "lowest {low}, pipe {bdp}");
    assert!(path.share_until(0, Time::from_secs(140)) > 0.99);
}

#[test]
fn vegas_keeps_two_to_four_segments_in_the_queue_and_loses_none() {
    let link = Link::new(10, 50);
    let mut path = Bottleneck::with("vegas", link);
    path.run_until(Time::from_secs(2));
    assert!(!path.flows[0].control.in_slow_start());
    let queue = mean(&mut path, Time::from_secs(3), |path| path.queue() as f64) / MSS as f64;
    assert!(queue < 8.0, "{queue} segments wait after slow start");
    path.run_until(Time::from_secs(10));
    let window = path.flows[0].control.window();
    let queue = mean(&mut path, Time::from_secs(40), |path| path.queue() as f64) / MSS as f64;
    assert!((1.5..=4.5).contains(&queue), "{queue} segments wait");
    assert_eq!(path.flows[0].lost, 0, "not even by slow start");
    assert!(path.flows[0].control.window().abs_diff(window) <= 2 * MSS);
    assert!(path.share_until(0, Time::from_secs(50)) > 0.99);
}

#[test]
fn hybla_over_500_ms_grows_as_reno_over_25_ms() {
    // Congestion avoidance from the same loss: W/RTT over time is the same, so over a path that
    // never fills, Hybla's window is ρ = 20 times that of Reno, at every time.
    let grow = |name: &str, rtt_ms: u64| {
        let mut path = Bottleneck::with(name, Link { loss: 0.0, ..Link::new(400, rtt_ms) });
        let flow = &mut path.flows[0];
        flow.control.on_ack(&first_ack(Duration::from_millis(rtt_ms), flow.control.window()));
        let flight = flow.control.window();
        flow.control.on_congestion(Time::ZERO, shorthaul_congestion::CongestionEvent::Loss, flight);
        flow.control.on_recovered(Time::ZERO);
        let rate = |path: &Bottleneck| path.flows[0].control.window() as f64 / rtt_ms as f64;
        path.run_until(Time::from_secs(2));
        let early = rate(&path);
        path.run_until(Time::from_secs(10));
        (rate(&path) - early) / 8.0
    };
    let (hybla, reno) = (grow("hybla", 500), grow("reno", 25));
    assert!((hybla / reno - 1.0).abs() < 0.1, "hybla gains {hybla}, reno {reno}");
    assert!(hybla > 100.0 * grow("reno", 500));
}

fn first_ack(rtt: Duration, window: u64) -> shorthaul_congestion::AckSample {
    shorthaul_congestion::AckSample {
        now: Time::ZERO,
        delivered: 0,
        newly_acked: 0,
        in_flight_before: window,
        in_flight: window,
        rtt: Some(rtt),
        waited: None,
        reported: None,
        rate: None,
        cwnd_limited: true,
        in_recovery: false,
    }
}

#[test]
fn the_slow_start_of_hybla_fills_a_satellite_path_sooner() {
    let filled = |name: &str| {
        let link = Link { buffer: 1.0, ..Link::new(20, 500) };
        let mut path = Bottleneck::with(name, link);
        let mut at = None;
        path.watch(Time::from_secs(30), STEP, |path| {
            if path.flows[0].delivered >= 4_000_000 {
                at = at.or(Some(path.now));
            }
        });
        (at.unwrap().as_secs_f64(), path.flows[0].lost)
    };
    let ((hybla, _), (reno, _)) = (filled("hybla"), filled("reno"));
    assert!(hybla < 0.8 * reno, "4 MB after {hybla} s, reno {reno} s");
}
