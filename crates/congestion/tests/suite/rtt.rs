//! The RTO against the rules of RFC 6298.
use std::time::Duration;

use shorthaul_congestion::{MIN_RTT_WINDOW, RtoFloor, RttConfig, RttEstimator};
use shorthaul_types::Time;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn exact() -> RttConfig {
    RttConfig { floor: RtoFloor::Whole(Duration::ZERO), ..RttConfig::RFC6298 }
}

#[test]
fn before_a_sample_the_timeout_is_one_second() {
    let rtt = RttEstimator::new(RttConfig::RFC6298);
    assert_eq!(rtt.rto(), Duration::from_secs(1));
    assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.min_rtt(), rtt.latest()), (None, None, None, None));
}

#[test]
fn after_a_syn_that_was_retransmitted_it_is_three_until_the_first_sample() {
    let mut rtt = RttEstimator::new(exact());
    rtt.on_syn_retransmitted();
    assert_eq!(rtt.rto(), Duration::from_secs(3));
    rtt.on_sample(Time::ZERO, ms(100));
    assert_eq!(rtt.rto(), ms(300));
}

#[test]
fn samples_are_smoothed_by_the_rules_2_2_and_2_3() {
    let mut rtt = RttEstimator::new(exact());
    rtt.on_sample(Time::ZERO, ms(800));
    assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.rto()), (Some(ms(800)), Some(ms(400)), ms(2400)));
    // RTTVAR before SRTT: 3/4·400 + 1/4·|800 − 1600| = 500; SRTT = 7/8·800 + 1/8·1600 = 900.
    rtt.on_sample(Time::from_secs(1), ms(1600));
    assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.rto()), (Some(ms(900)), Some(ms(500)), ms(2900)));
    // 3/4·500 + 1/4·|900 − 500| = 475; 7/8·900 + 1/8·500 = 850.
    rtt.on_sample(Time::from_secs(3), ms(500));
    assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.rto()), (Some(ms(850)), Some(ms(475)), ms(2750)));
    assert_eq!((rtt.latest(), rtt.min_rtt()), (Some(ms(500)), Some(ms(500))));
}

#[test]
fn the_clock_granularity_is_the_least_margin() {
    let mut rtt = RttEstimator::new(RttConfig { granularity: ms(10), ..exact() });
    for s in 0..100 {
        rtt.on_sample(Time::from_secs(s), ms(50));
    }
    assert_eq!(rtt.rto().as_millis(), 60);
}

#[test]
fn the_timeout_is_at_least_one_second_by_rule_2_4() {
    let mut rtt = RttEstimator::new(RttConfig::RFC6298);
    rtt.on_sample(Time::ZERO, ms(20));
    assert_eq!(rtt.rto(), Duration::from_secs(1));
}

#[test]
fn every_expiry_doubles_the_timeout_until_a_sample_ends_that() {
    let mut rtt = RttEstimator::new(RttConfig::LINUX);
    let mut expected = 1;
    for _ in 0..40 {
        assert_eq!(rtt.rto().as_secs(), expected.min(120));
        rtt.back_off();
        expected *= 2;
    }
    rtt.on_sample(Time::from_secs(5), ms(100));
    assert_eq!(rtt.rto(), ms(300));
    rtt.back_off();
    assert_eq!((rtt.rto(), rtt.backoff()), (ms(600), 1));
    rtt.reset_backoff();
    assert_eq!(rtt.rto(), ms(300));
}

#[test]
fn a_steady_path_still_leaves_200_ms_for_a_delayed_acknowledgment() {
    let mut rtt = RttEstimator::new(RttConfig::LINUX);
    for n in 0..10_000 {
        rtt.on_sample(Time::from_millis(n), ms(30));
    }
    assert!(rtt.rttvar().unwrap() < ms(1));
    assert_eq!(rtt.rto().as_millis(), 230);
}

#[test]
fn a_peak_holds_for_its_round_though_many_samples_follow() {
    let mut rtt = RttEstimator::new(RttConfig::LINUX);
    let mut now = Time::ZERO;
    for _ in 0..100 {
        now += ms(600);
        rtt.on_sample(now, ms(600));
    }
    now += ms(600);
    rtt.on_sample(now, ms(1600));
    let at_peak = rtt.rto();
    // RTTVAR rose to a quarter of the second; its margin is 4·RTTVAR = 1 s over SRTT = 725 ms.
    assert_eq!(at_peak.as_millis(), 1725);
    for _ in 0..200 {
        now += ms(1);
        rtt.on_sample(now, ms(600));
    }
    assert!(rtt.rttvar().unwrap() < ms(10), "RTTVAR itself is washed away");
    assert!(rtt.rto() > ms(1300), "{:?}", rtt.rto());
    for _ in 0..40 {
        now += ms(600);
        rtt.on_sample(now, ms(600));
    }
    assert!(rtt.rto() < ms(810), "and wears off: {:?}", rtt.rto());
}

#[test]
fn the_minimum_lives_as_long_as_its_window() {
    let mut rtt = RttEstimator::new(RttConfig::LINUX);
    let window = MIN_RTT_WINDOW.as_secs();
    rtt.on_sample(Time::ZERO, ms(20));
    for s in (1..=window).step_by(10).chain([window]) {
        rtt.on_sample(Time::from_secs(s), ms(70));
        assert_eq!(rtt.min_rtt(), Some(ms(20)));
    }
    rtt.on_sample(Time::from_secs(window + 1), ms(70));
    assert_eq!(rtt.min_rtt(), Some(ms(70)));
}

#[test]
fn absurd_samples_do_no_harm() {
    let mut rtt = RttEstimator::new(RttConfig::LINUX);
    rtt.on_sample(Time::MAX, Duration::MAX);
    rtt.on_sample(Time::ZERO, Duration::ZERO);
    rtt.on_sample(Time::MAX, Duration::MAX);
    assert_eq!(rtt.rto(), Duration::from_secs(120));
}

#[test]
fn whoever_takes_over_has_the_same_timeout_and_goes_on_measuring() {
    let mut before = RttEstimator::new(RttConfig::LINUX);
    for (at, rtt) in [(100, 300), (400, 20), (450, 700), (900, 25)] {
        before.on_sample(Time::from_millis(at), ms(rtt));
    }
    let mut after = RttEstimator::new(RttConfig::LINUX);
    after.take_over(Time::from_millis(1_000), &before.known().unwrap());
    assert_eq!((after.srtt(), after.min_rtt(), after.rto()), (before.srtt(), Some(ms(20)), before.rto()));
    for at in 0..1_000 {
        after.on_sample(Time::from_millis(1_000 + at), ms(30));
    }
    assert!(after.rto() < ms(300), "{:?}", after.rto());
}
