//! BBR step by step: what single ACKs, losses and undone losses do.
use std::time::Duration;

use crate::path::{MSS, params};
use shorthaul_congestion::{
    AckSample, Bbr, Bbr3, CongestionEvent, Control, ControlParams, KnownPath, LossSample, RateSample,
};
use shorthaul_types::{BitRate, Time};

const RTT: Duration = Duration::from_millis(100);

/// A path of 100 ms that delivers at a rate of its own, one round at a time.
struct Rounds {
    now: Time,
    delivered: u64,
    /// What is acknowledged was sent with no more than this in flight.
    at_send: u64,
}

impl Rounds {
    fn new() -> Self {
        Rounds { now: Time::ZERO, delivered: 0, at_send: u64::MAX }
    }

    /// One ACK for a whole round at `rate`, of whose `in_flight` bytes `lost` were lost.
    fn ack(&mut self, control: &mut dyn Control, rate: u64, in_flight: u64, lost: u64, in_recovery: bool) {
        control.on_ack(&self.round(rate, in_flight, lost, in_recovery));
    }

    fn round(&mut self, rate: u64, in_flight: u64, lost: u64, in_recovery: bool) -> AckSample {
        let rate = BitRate::from_bits_per_sec(rate);
        let delivered = rate.bytes_in(RTT).0;
        let prior_delivered = self.delivered;
        self.now += RTT;
        self.delivered += delivered;
        AckSample {
            now: self.now,
            delivered,
            newly_acked: delivered,
            in_flight_before: in_flight,
            in_flight,
            rtt: Some(RTT),
            waited: None,
            reported: None,
            rate: Some(RateSample {
                rate,
                delivered: self.delivered,
                prior_delivered,
                interval: RTT,
                app_limited: false,
                lost,
                in_flight_at_send: in_flight.min(self.at_send),
            }),
            cwnd_limited: true,
            in_recovery,
        }
    }

    fn lose(&self, control: &mut dyn Control, segment: u64, lost: u64, in_flight: u64) {
        control.on_loss(&LossSample {
            now: self.now,
            offset: segment * MSS,
            bytes: MSS,
            lost,
            delivered: self.delivered,
            in_flight_at_send: in_flight,
            app_limited: false,
        });
    }
}

#[test]
fn the_first_round_trip_sets_the_pace_of_the_initial_window() {
    // 10 kB in 100 ms are 800 kbit/s.
    for (mut control, expected) in [
        (Box::new(Bbr::new(params())) as Box<dyn Control>, 2_308_000),
        (Box::new(Bbr3::new(params())), 2_216_000),
    ] {
        assert_eq!(control.pacing_rate(), None);
        Rounds::new().ack(control.as_mut(), 100_000, 10 * MSS, 0, false);
        let rate = control.pacing_rate().map(BitRate::bits_per_sec);
        assert_eq!(rate, Some(expected), "{}", control.name());
    }
}

#[test]
fn samples_that_the_application_limited_do_not_slow_the_start_down() {
    for mut control in [Box::new(Bbr::new(params())) as Box<dyn Control>, Box::new(Bbr3::new(params()))] {
        let mut rounds = Rounds::new();
        rounds.ack(control.as_mut(), 4_000_000, 10 * MSS, 0, false);
        let pace = control.pacing_rate();
        rounds.ack(control.as_mut(), 1_000_000, 10 * MSS, 0, false);
        assert_eq!(control.pacing_rate(), pace);
    }
}

/// A version 1 in ProbeBW at 8 Mbit/s: 100 kB fill the path.
fn steady(rounds: &mut Rounds) -> Bbr {
    let mut bbr = Bbr::new(params());
    for _ in 0..8 {
        rounds.ack(&mut bbr, 8_000_000, 100 * MSS, 0, false);
    }
    assert!(!bbr.in_slow_start());
    // Twice the product, three quanta of two segments, and the product again, since it is acknowledged
    // in one piece.
    assert_eq!(bbr.window(), (200 + 6 + 100) * MSS);
    bbr
}

#[test]
fn version_1_conserves_packets_for_the_first_round_of_recovery() {
    let mut rounds = Rounds::new();
    let mut bbr = steady(&mut rounds);
    let before = bbr.window();
    bbr.on_congestion(rounds.now, CongestionEvent::Loss, 100 * MSS);
    // Of what was in flight, 40 segments are left: as much may leave as this ACK delivered.
    bbr.on_ack(&AckSample {
        now: rounds.now,
        delivered: MSS,
        newly_acked: 0,
        in_flight_before: 41 * MSS,
        in_flight: 40 * MSS,
        rtt: None,
        waited: None,
        reported: None,
        rate: None,
        cwnd_limited: true,
        in_recovery: true,
    });
    assert_eq!(bbr.window(), 41 * MSS);
    bbr.on_recovered(rounds.now);
    assert_eq!(bbr.window(), before);
}

#[test]
fn a_timeout_leaves_one_segment_and_its_repair_gives_the_window_back() {
    let mut rounds = Rounds::new();
    let mut bbr = steady(&mut rounds);
    let before = bbr.window();
    bbr.on_timeout(rounds.now, 100 * MSS);
    bbr.on_timeout(rounds.now + RTT, 100 * MSS);
    assert_eq!(bbr.window(), MSS);
    bbr.on_recovered(rounds.now);
    assert_eq!(bbr.window(), before);
}

#[test]
fn version_1_forgets_a_bandwidth_after_ten_rounds() {
    let mut rounds = Rounds::new();
    let mut bbr = steady(&mut rounds);
    for _ in 0..9 {
        rounds.ack(&mut bbr, 2_000_000, 100 * MSS, 0, false);
        assert_eq!(bbr.bandwidth().bits_per_sec(), 8_000_000);
    }
    rounds.ack(&mut bbr, 2_000_000, 100 * MSS, 0, false);
    assert_eq!(bbr.bandwidth().bits_per_sec(), 2_000_000);
}

#[test]
fn a_pause_paces_at_the_bandwidth_and_probes_for_no_round_trip_time() {
    let mut rounds = Rounds::new();
    let mut bbr = steady(&mut rounds);
    let before = bbr.window();
    rounds.now += Duration::from_secs(60);
    bbr.on_idle_restart(rounds.now);
    bbr.on_transmit_start(rounds.now);
    assert_eq!(bbr.window(), before);
    assert_eq!(bbr.pacing_rate(), Some(BitRate::from_bits_per_sec(7_920_000)));
    rounds.ack(&mut bbr, 8_000_000, 100 * MSS, 0, false);
    assert!(!bbr.holds_back());
}

/// A version 3 in Startup, in the first round of a recovery with `ranges` separate losses.
fn losing(params: ControlParams, ranges: u64) -> (Bbr3, Rounds) {
    let (mut bbr, mut rounds) = (Bbr3::new(params), Rounds::new());
    for rate in [1_000_000, 2_000_000, 4_000_000] {
        rounds.ack(&mut bbr, rate, 100 * MSS, 0, false);
    }
    for range in 0..ranges {
        rounds.lose(&mut bbr, 10 * range, (range + 1) * MSS, 100 * MSS);
    }
    bbr.on_congestion(rounds.now, CongestionEvent::Loss, 100 * MSS);
    (bbr, rounds)
}

#[test]
fn version_3_leaves_startup_when_a_round_of_recovery_loses_six_ranges_and_two_per_cent() {
    for (ranges, lost, leaves) in [(6, 2 * MSS + 21, true), (5, 6 * MSS, false), (6, 2 * MSS + 20, false)] {
        let (mut bbr, mut rounds) = losing(params(), ranges);
        rounds.ack(&mut bbr, 8_000_000, 100 * MSS, lost, true);
        assert_eq!(!bbr.in_slow_start(), leaves, "{ranges} ranges, {lost} bytes");
        // What was delivered in the round, 100 kB, is the safe volume.
        assert_eq!(bbr.inflight_longterm(), leaves.then_some(100 * MSS));
    }
}

#[test]
fn six_losses_in_one_piece_are_one_range() {
    let (mut bbr, mut rounds) = losing(params(), 0);
    for segment in 0..6 {
        rounds.lose(&mut bbr, segment, (segment + 1) * MSS, 100 * MSS);
    }
    rounds.ack(&mut bbr, 8_000_000, 100 * MSS, 6 * MSS, true);
    assert!(bbr.in_slow_start());
}

#[test]
fn without_selective_acknowledgments_any_loss_in_recovery_ends_startup() {
    let (mut bbr, mut rounds) = losing(ControlParams { selective_acks: false, ..params() }, 1);
    rounds.ack(&mut bbr, 8_000_000, 100 * MSS, MSS, true);
    assert!(!bbr.in_slow_start());
}

#[test]
fn a_startup_that_losses_ended_is_resumed_if_they_were_none() {
    let (mut bbr, mut rounds) = losing(params(), 6);
    rounds.ack(&mut bbr, 8_000_000, 100 * MSS, 6 * MSS, true);
    assert!(!bbr.in_slow_start());
    bbr.on_spurious(rounds.now);
    assert!(bbr.in_slow_start());
    assert_eq!(bbr.inflight_longterm(), None);
    bbr.on_spurious(rounds.now);
    assert!(bbr.in_slow_start(), "it is undone once");
}

#[test]
fn a_round_with_loss_lowers_the_pace_to_what_is_delivered_but_not_below_seven_tenths() {
    for (delivered, expected) in [(7_600_000, 7_600_000), (2_000_000, 5_600_000)] {
        let (mut bbr, mut rounds) = (Bbr3::new(params()), Rounds::new());
        // Startup, Drain, and Down to Cruise with little in flight.
        for _ in 0..8 {
            rounds.ack(&mut bbr, 8_000_000, 50 * MSS, 0, false);
        }
        assert_eq!(bbr.bandwidth().bits_per_sec(), 8_000_000);
        rounds.lose(&mut bbr, 0, MSS, 100 * MSS);
        bbr.on_congestion(rounds.now, CongestionEvent::Loss, 100 * MSS);
        // The round in which the loss was found began at 8 Mbit/s; the next is all at the new rate.
        rounds.ack(&mut bbr, delivered, 50 * MSS, MSS, true);
        rounds.lose(&mut bbr, 10, MSS, 100 * MSS);
        rounds.ack(&mut bbr, delivered, 50 * MSS, MSS, true);
        assert_eq!(bbr.bandwidth().bits_per_sec(), expected);
        bbr.on_spurious(rounds.now);
        rounds.ack(&mut bbr, delivered, 50 * MSS, 0, false);
        assert_eq!(bbr.bandwidth().bits_per_sec(), 8_000_000);
    }
}

/// Paces of version 3 at 8 Mbit/s.
const DOWN: u64 = 7_128_000;
const CRUISE: u64 = 7_920_000;
const UP: u64 = 9_900_000;

fn pace(bbr: &Bbr3) -> u64 {
    bbr.pacing_rate().unwrap().bits_per_sec()
}

/// Runs rounds of 8 Mbit/s with half the product in flight until it probes; gives their number.
fn until_up(bbr: &mut Bbr3, rounds: &mut Rounds) -> u32 {
    for n in 1..=60 {
        rounds.ack(bbr, 8_000_000, 50 * MSS, 0, false);
        if pace(bbr) == UP {
            return n;
        }
    }
    panic!("no probe within 6 s, though ProbeRTT delays one by 3 s at most");
}

#[test]
fn a_probe_that_loses_more_than_two_per_cent_sets_a_bound_that_the_next_one_touches_only() {
    let (mut bbr, mut rounds) = (Bbr3::new(params()), Rounds::new());
    for _ in 0..8 {
        rounds.ack(&mut bbr, 8_000_000, 50 * MSS, 0, false);
    }
    let waited = until_up(&mut bbr, &mut rounds);
    assert!((10..=31).contains(&waited), "{waited} rounds of 100 ms for 2 to 3 s");
    assert_eq!(bbr.inflight_longterm(), None);

    // Three of 100 segments are lost, where two are borne. The bound is where they crossed that.
    for (segment, lost) in [(0, MSS), (10, 2 * MSS), (20, 3 * MSS)] {
        assert_eq!(bbr.inflight_longterm(), None);
        rounds.lose(&mut bbr, segment, lost, 99 * MSS);
    }
    assert_eq!(bbr.inflight_longterm(), Some(99 * MSS));
    rounds.lose(&mut bbr, 30, 50 * MSS, 99 * MSS);
    assert_eq!(bbr.inflight_longterm(), Some(99 * MSS), "a probe is answered once");

    // Down at once, and then Cruise with headroom.
    rounds.ack(&mut bbr, 8_000_000, 90 * MSS, 0, false);
    assert_eq!(pace(&bbr), DOWN, "{} are more than 0.85 of the bound", 90 * MSS);
    rounds.ack(&mut bbr, 8_000_000, 80 * MSS, 0, false);
    assert_eq!((pace(&bbr), bbr.window()), (CRUISE, 84_150));

    // The next probe turns back where the last one lost, and as nothing is lost now, goes on at once.
    until_up(&mut bbr, &mut rounds);
    rounds.at_send = 50 * MSS;
    rounds.ack(&mut bbr, 8_000_000, 101 * MSS, 0, false);
    assert_eq!(pace(&bbr), DOWN);
    rounds.ack(&mut bbr, 8_000_000, 99 * MSS, 0, false);
    assert_eq!(pace(&bbr), CRUISE, "Refill");
    rounds.at_send = u64::MAX;
    for _ in 0..3 {
        rounds.ack(&mut bbr, 8_000_000, 99 * MSS, 0, false);
        assert_eq!(pace(&bbr), UP);
    }
    assert!(bbr.inflight_longterm() > Some(99 * MSS), "the bound is raised");
}

/// Acknowledgments wait for 300 ms behind what others send here, and are known to.
#[test]
fn version_1_has_room_for_what_waits_beside_others_and_takes_it_for_no_path() {
    let mut rounds = Rounds::new();
    let mut bbr = Bbr::new(params());
    for rate in [1_000_000, 2_000_000, 4_000_000, 8_000_000].into_iter().chain([8_000_000; 40]) {
        let waited = Duration::from_millis(300);
        let sample = rounds.round(rate, 100 * MSS, 0, false);
        bbr.on_ack(&AckSample { rtt: Some(RTT + waited), waited: Some(waited), ..sample });
    }
    assert_eq!(bbr.min_rtt(), Some(RTT));
    // 5/4 of the product of 100 segments and three of it beside; and what comes in one piece.
    let segments = bbr.window() / MSS;
    assert!((415..=540).contains(&segments), "{segments}");
}

/// What arrives is passed on as fast as the path carries it: that is always what limits it, beside a queue of a round trip.
#[test]
fn version_1_ends_its_startup_before_a_queue_of_its_own_where_that_can_be_told() {
    for (waited, starts) in [(None, true), (Some(Duration::ZERO), false)] {
        let mut rounds = Rounds::new();
        let mut bbr = Bbr::new(params());
        for number in 0..12 {
            let mut sample = rounds.round(8_000_000, 200 * MSS, 0, false);
            sample.rate.as_mut().unwrap().app_limited = true;
            let rtt = if number == 0 { RTT } else { 2 * RTT };
            bbr.on_ack(&AckSample { rtt: Some(rtt), waited, ..sample });
        }
        assert_eq!(bbr.in_slow_start(), starts, "{waited:?}");
    }
}

#[test]
fn whoever_takes_over_probes_from_what_is_known_and_does_not_start_anew() {
    let mut control = Bbr::new(params());
    let rate = Some(BitRate::from_bits_per_sec(10_000_000));
    let known = KnownPath { window: 250_000, ssthresh: u64::MAX, rate, min_rtt: Some(RTT) };
    control.take_over(Time::ZERO, &known);
    assert!(!control.in_slow_start());
    assert_eq!((control.window(), control.pacing_rate(), control.min_rtt()), (250_000, rate, Some(RTT)));
    let mut rounds = Rounds::new();
    for _ in 0..20 {
        rounds.ack(&mut control, 10_000_000, 125_000, 0, false);
    }
    let paced = control.pacing_rate().unwrap().bits_per_sec();
    assert!((7_000_000..13_000_000).contains(&paced), "{paced} bit/s");
}

#[test]
fn over_a_path_too_short_to_be_paced_version_1_is_bound_by_its_window() {
    let pace_and_window = |rtt: Duration, rate: u64| {
        let (mut bbr, mut rounds) = (Bbr::new(params()), Rounds::new());
        for _ in 0..20 {
            let sample = rounds.round(rate, 10 * MSS, 0, false);
            bbr.on_ack(&AckSample { rtt: Some(rtt), ..sample });
        }
        (bbr.pacing_rate().unwrap().bits_per_sec(), bbr.window())
    };
    const GIGABIT: u64 = 1_000_000_000;
    let rtt = Duration::from_micros(200);
    for (rtt, rate) in [(Duration::from_millis(1), GIGABIT), (rtt, GIGABIT / 10)] {
        let (pace, _) = pace_and_window(rtt, rate);
        assert!(pace <= rate * 5 / 4, "{pace} bit/s of {rate} over {rtt:?}");
    }
    let (pace, window) = pace_and_window(rtt, GIGABIT);
    // Twice the window leaves in a round trip.
    let in_a_round_trip = BitRate::from_bits_per_sec(pace).bytes_in(rtt).0;
    assert!((2 * window - 2..=2 * window).contains(&in_a_round_trip), "{in_a_round_trip} of {window} bytes");
}
