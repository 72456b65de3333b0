//! BBR, versions 1 and 3, over a bottleneck.
use std::time::Duration;

use crate::bottleneck::{Bottleneck, Link, MSS};
use shorthaul_types::{Seed, Time};

const STEP: Duration = Duration::from_millis(5);
const BOTH: [&str; 2] = ["bbr", "bbr3"];

/// The mean queue in bandwidth-delay products until `end`.
fn mean_queue(path: &mut Bottleneck, end: Time) -> f64 {
    let (mut sum, mut count) = (0, 0);
    path.watch(end, STEP, |path| {
        sum += path.queue();
        count += 1;
    });
    sum as f64 / count as f64 / path.link.bdp() as f64
}

#[test]
fn startup_doubles_the_rate_each_round_and_ends_when_the_pipe_is_full() {
    for name in BOTH {
        let link = Link { buffer: 4.0, ..Link::new(20, 50) };
        let mut path = Bottleneck::with(name, link);
        let (mut ended, mut filled, mut highest) = (None, None, 0);
        path.watch(Time::from_secs(3), Duration::from_millis(1), |path| {
            let flow = &path.flows[0];
            highest = highest.max(path.queue());
            if path.queue() > 0 && flow.in_flight() > path.link.bdp() {
                filled = filled.or(Some(path.now));
            }
            if !flow.control.in_slow_start() {
                ended = ended.or(Some(path.now));
            }
        });
        // From 10 segments to a pipe of 125 it is four doublings; three rounds more show the plateau.
        let (filled, ended) = (filled.unwrap(), ended.expect("Startup ends"));
        assert!(filled < Time::from_millis(350), "{name}: full at {filled}");
        assert!(ended > filled, "{name}: Startup ended at {ended}, but the pipe was full at {filled}");
        // A round is as long as what is in flight is large, which the cwnd gain bounds.
        let (gain, rounds) = (if name == "bbr" { 2.885 } else { 2.0 }, 4.0);
        let latest = filled + link.rtt.mul_f64(gain * rounds);
        assert!(ended < latest, "{name}: full at {filled}, ended at {ended} and not by {latest}");
        assert_eq!(path.flows[0].lost, 0, "{name}");
        // Inflight(gain), of which one product is on the wire: min_rtt holds a segment's own time, and
        // three quanta are milliseconds at the pacing rate.
        let quanta = 3.0 * gain * link.rate.bytes_in(Duration::from_millis(1)).0 as f64;
        let bound = gain * (link.bdp() + MSS) as f64 + quanta - link.bdp() as f64;
        assert!((highest as f64) < bound, "{name}: {highest} queued, {bound} at most");
        // Drained, at 1 s: what stands now is the probing of ProbeBW.
        assert!(mean_queue(&mut path, Time::from_secs(5)) < 0.3, "{name}");
    }
}

/// The share of the link that `name` delivers and the mean queue in bandwidth-delay products, over
/// 30 s with a buffer of four of them: means of ten seeds.
fn with_loss(name: &str, loss: f64, rtt_ms: u64) -> (f64, f64) {
    let (mut share, mut queue) = (0.0, 0.0);
    for seed in 0..10 {
        let link = Link { loss, seed: Seed(seed), buffer: 4.0, ..Link::new(20, rtt_ms) };
        let mut path = Bottleneck::with(name, link);
        path.run_until(Time::from_secs(2));
        let before = path.flows[0].delivered;
        queue += mean_queue(&mut path, Time::from_secs(32)) / 10.0;
        let bits = (path.flows[0].delivered - before) as f64 * 8.0;
        share += bits / 30.0 / link.rate.bits_per_sec() as f64 / 10.0;
    }
    (share, queue)
}

#[test]
fn one_per_cent_of_random_loss_costs_version_1_next_to_nothing() {
    for rtt in [20, 40, 100] {
        let (share, queue) = with_loss("bbr", 0.01, rtt);
        let (reno, _) = with_loss("reno", 0.01, rtt);
        // Of what leaves the bottleneck, 1 % is lost behind it.
        assert!(share / 0.99 > 0.95, "{share} of the link at {rtt} ms");
        assert!(queue < 1.0, "{queue} products wait at {rtt} ms");
        assert!(reno < 0.3, "reno {reno} at {rtt} ms");
    }
}

#[test]
fn one_per_cent_of_random_loss_costs_version_3_its_loss_rate_each_round_between_probes() {
    // A round with loss lowers bw_shortterm by what was lost, 1 %, until a probe lifts the bound
    // (§5.3.3.8.3): over n such rounds the mean is (1 − 0.99^n)/(0.01·n). Of the 62 rounds of 40 ms in
    // 2.5 s, with 100 segments each, 39 have a loss; of 12 rounds of 200 ms all.
    for (rtt, rounds) in [(40, 39), (200, 12)] {
        let (share, queue) = with_loss("bbr3", 0.01, rtt);
        let decay = (1.0 - 0.99_f64.powi(rounds)) / (0.01 * f64::from(rounds));
        // The margin of pacing, headroom, Down and ProbeRTT take a few per cent more.
        assert!(share < decay && share > decay - 0.08, "{share} of the link at {rtt} ms, not {decay}");
        assert!(queue < 1.0, "{queue} products wait at {rtt} ms");
    }
}

#[test]
fn a_long_flow_fills_a_clean_path_with_a_short_queue() {
    for name in BOTH {
        let link = Link { buffer: 4.0, ..Link::new(10, 40) };
        let mut path = Bottleneck::with(name, link);
        path.run_until(Time::from_secs(2));
        let before = path.flows[0].delivered;
        let queue = mean_queue(&mut path, Time::from_secs(32));
        let share = (path.flows[0].delivered - before) as f64 * 8.0 / 30.0 / link.rate.bits_per_sec() as f64;
        assert!(share > 0.95, "{name}: {share}");
        assert!(queue < 0.5, "{name}: {queue} products wait");
        assert_eq!(path.flows[0].lost, 0, "{name}");
    }
}

#[test]
fn probe_rtt_comes_every_ten_seconds_in_version_1_and_every_five_in_version_3() {
    for (name, period) in [("bbr", 10.0), ("bbr3", 5.0)] {
        let mut path = Bottleneck::with(name, Link { buffer: 4.0, ..Link::new(10, 40) });
        let (mut begun, mut ended, mut inside) = (Vec::new(), Vec::new(), false);
        let mut smallest = u64::MAX;
        path.watch(Time::from_secs(45), STEP, |path| {
            let flow = &path.flows[0];
            let now_inside = flow.control.holds_back();
            if now_inside != inside {
                if now_inside { &mut begun } else { &mut ended }.push(path.now);
                inside = now_inside;
            }
            if now_inside {
                smallest = smallest.min(flow.in_flight());
            }
        });
        assert!(begun.len() >= 3, "{name}: {begun:?}");
        for pair in begun.windows(2) {
            let apart = pair[1].saturating_since(pair[0]).as_secs_f64();
            // The interval begins when the last ProbeRTT ends, 200 ms and some rounds later.
            assert!(apart > period && apart < period + 0.6, "{name}: {begun:?}");
        }
        for (begun, ended) in begun.iter().zip(&ended) {
            let lasted = ended.saturating_since(*begun);
            assert!(
                lasted > Duration::from_millis(200) && lasted < Duration::from_millis(500),
                "{name}: {lasted:?}"
            );
        }
        let bdp = path.link.bdp();
        let floor = if name == "bbr" { 4 * MSS } else { bdp / 2 };
        assert!(smallest <= floor + MSS && smallest + 6 * MSS > floor, "{name}: {smallest}, not {floor}");
    }
}

#[test]
fn version_3_heeds_more_than_two_per_cent_of_loss_and_version_1_does_not() {
    // A buffer of a fifth of a product: every overshoot is loss.
    let lost = |name: &str, loss: f64| {
        let link = Link { buffer: 0.2, loss, seed: Seed(5), ..Link::new(20, 40) };
        let mut path = Bottleneck::with(name, link);
        path.run_until(Time::from_secs(3));
        let (lost, before, dropped) = (path.flows[0].lost, path.flows[0].delivered, path.dropped);
        path.run_until(Time::from_secs(23));
        let flow = &path.flows[0];
        let sent = flow.lost - lost + (flow.delivered - before) / MSS;
        let share = (flow.delivered - before) as f64 * 8.0 / 20.0 / link.rate.bits_per_sec() as f64;
        ((path.dropped - dropped) as f64 / sent as f64, share)
    };
    let ((first, _), (third, share)) = (lost("bbr", 0.0), lost("bbr3", 0.0));
    assert!(third < 0.01 && third < first / 2.0, "version 1 drops {first}, version 3 {third}");
    assert!(share > 0.85, "version 3 delivers {share}");
    // Random loss of 5 %, above the threshold, makes version 3 yield; version 1 goes on.
    let ((_, first), (_, third)) = (lost("bbr", 0.05), lost("bbr3", 0.05));
    assert!(first > 0.85, "version 1 delivers {first} at 5 %");
    assert!(third < 0.75 * first, "version 3 delivers {third} at 5 %, version 1 {first}");
}

#[test]
fn two_flows_share_the_bottleneck() {
    for name in BOTH {
        let mut path = Bottleneck::new(Link { buffer: 4.0, seed: Seed(2), ..Link::new(20, 40) });
        path.add(name, Time::ZERO);
        path.add(name, Time::from_secs(5));
        path.run_until(Time::from_secs(30));
        let before = [path.flows[0].delivered, path.flows[1].delivered];
        let queue = mean_queue(&mut path, Time::from_secs(90));
        let got = [0, 1].map(|i| (path.flows[i].delivered - before[i]) as f64);
        let fairness = (got[0] + got[1]).powi(2) / (2.0 * (got[0].powi(2) + got[1].powi(2)));
        let share = (got[0] + got[1]) * 8.0 / 60.0 / path.link.rate.bits_per_sec() as f64;
        assert!(fairness > 0.95, "{name}: {got:?}, Jain's index {fairness}");
        assert!(share > 0.95, "{name}: {share} of the link");
        assert!(queue < 1.5, "{name}: {queue} products wait");
    }
}

#[test]
fn version_3_leaves_cubic_its_share() {
    // What the time scale of its probes is for (§5.3.3.8.1); the mean of ten seeds.
    for buffer in [0.2, 1.0, 4.0] {
        let mut share = 0.0;
        for seed in 0..10 {
            let mut path = Bottleneck::new(Link { buffer, seed: Seed(seed), ..Link::new(20, 40) });
            path.add("bbr3", Time::ZERO);
            path.add("cubic", Time::from_millis(500));
            path.run_until(Time::from_secs(20));
            let before = [0, 1].map(|flow: usize| path.flows[flow].delivered);
            path.run_until(Time::from_secs(60));
            let [bbr, cubic] = [0, 1].map(|flow| (path.flows[flow].delivered - before[flow]) as f64);
            share += bbr / (bbr + cubic) / 10.0;
        }
        assert!((0.4..0.6).contains(&share), "{share} with a buffer of {buffer}");
    }
}

#[test]
fn a_faster_path_is_found_within_seconds() {
    for name in BOTH {
        let mut path = Bottleneck::with(name, Link { buffer: 8.0, ..Link::new(5, 40) });
        path.run_until(Time::from_secs(12));
        path.link = Link { buffer: 2.0, ..Link::new(20, 40) };
        path.run_until(Time::from_secs(20));
        let share = path.share_until(0, Time::from_secs(30));
        assert!(share > 0.9, "{name}: {share} of the faster link");
        // And a slower one: the old bandwidth is forgotten.
        path.link = Link { buffer: 8.0, ..Link::new(5, 40) };
        path.run_until(Time::from_secs(45));
        let queue = mean_queue(&mut path, Time::from_secs(60));
        assert!(queue < 1.5, "{name}: {queue} products wait before the slower link");
        assert!(path.share_until(0, Time::from_secs(70)) > 0.9, "{name}");
    }
}
