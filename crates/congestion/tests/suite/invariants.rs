//! What every algorithm must hold, whatever it is told.
use std::time::Duration;

use crate::path::{MSS, Path, ack, build, params};
use proptest::prelude::*;
use shorthaul_congestion::{
    AckSample, Algorithm, ByteCounting, CongestionEvent, Control, ControlParams, LossSample, RateSample,
};
use shorthaul_types::{BitRate, Bytes, Time};

/// Those that have a name, and a fixed window.
fn all() -> Vec<Algorithm> {
    Algorithm::NAMED.iter().copied().chain([Algorithm::Fixed(Bytes(50 * MSS))]).collect()
}

/// Those whose window only congestion lowers.
const RISING: [Algorithm; 4] = [Algorithm::Reno, Algorithm::Cubic, Algorithm::Westwood, Algorithm::Hybla];

#[derive(Clone, Debug)]
enum Event {
    Ack {
        wait: u64,
        acked: u64,
        in_flight: u64,
        rtt: u64,
        limited: bool,
        recovery: bool,
        rate: Option<[u64; 4]>,
        reported: Option<u64>,
    },
    Loss {
        offset: u64,
        bytes: u64,
        lost: u64,
        in_flight: u64,
        app_limited: bool,
    },
    Congestion {
        loss: bool,
        flight: u64,
    },
    Timeout {
        flight: u64,
    },
    Recovered,
    Spurious,
    IdleRestart {
        wait: u64,
    },
    TransmitStart {
        wait: u64,
    },
    Mss(u32),
}

/// Sizes and times of every order of magnitude.
fn any_size() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), (0u32..64).prop_map(|bits| 1 << bits), 0u64..1_000_000]
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (
            (any_size(), any_size(), any_size(), any_size(), any::<bool>(), any::<bool>()),
            prop::option::of([any_size(), any_size(), any_size(), any_size()]),
            prop::option::weighted(0.2, any_size()),
        ).prop_map(|((wait, acked, in_flight, rtt, limited, recovery), rate, reported)| {
            Event::Ack { wait, acked, in_flight, rtt, limited, recovery, rate, reported }
        }),
        2 => (any_size(), any_size(), any_size(), any_size(), any::<bool>()).prop_map(
            |(offset, bytes, lost, in_flight, app_limited)| Event::Loss { offset, bytes, lost, in_flight, app_limited }
        ),
        2 => (any::<bool>(), any_size()).prop_map(|(loss, flight)| Event::Congestion { loss, flight }),
        1 => any_size().prop_map(|flight| Event::Timeout { flight }),
        1 => Just(Event::Recovered),
        1 => Just(Event::Spurious),
        1 => any_size().prop_map(|wait| Event::IdleRestart { wait }),
        1 => any_size().prop_map(|wait| Event::TransmitStart { wait }),
        1 => prop_oneof![Just(0), Just(1), Just(u32::MAX), 500u32..9000].prop_map(Event::Mss),
    ]
}

/// Tells `control` of `event` and gives the time after it.
fn apply(control: &mut dyn Control, now: Time, event: &Event) -> Time {
    match *event {
        Event::Ack { wait, acked, in_flight, rtt, limited, recovery, rate, reported } => {
            let now = now + Duration::from_nanos(wait);
            control.on_ack(&AckSample {
                now,
                delivered: acked,
                newly_acked: acked,
                in_flight_before: in_flight,
                in_flight: in_flight.saturating_sub(acked),
                rtt: Some(Duration::from_nanos(rtt)),
                waited: None,
                reported: reported.map(BitRate::from_bits_per_sec),
                rate: rate.map(|[rate, delivered, prior_delivered, lost]| RateSample {
                    rate: BitRate::from_bits_per_sec(rate),
                    delivered,
                    prior_delivered,
                    interval: Duration::from_nanos(rtt),
                    app_limited: !limited,
                    lost,
                    in_flight_at_send: in_flight,
                }),
                cwnd_limited: limited,
                in_recovery: recovery,
            });
            return now;
        }
        Event::Loss { offset, bytes, lost, in_flight, app_limited } => control.on_loss(&LossSample {
            now,
            offset,
            bytes,
            lost,
            delivered: lost,
            in_flight_at_send: in_flight,
            app_limited,
        }),
        Event::Congestion { loss, flight } => {
            let event = if loss { CongestionEvent::Loss } else { CongestionEvent::EcnEcho };
            control.on_congestion(now, event, flight);
        }
        Event::Timeout { flight } => control.on_timeout(now, flight),
        Event::Recovered => control.on_recovered(now),
        Event::Spurious => control.on_spurious(now),
        Event::IdleRestart { wait } => {
            let now = now + Duration::from_nanos(wait);
            control.on_idle_restart(now);
            return now;
        }
        Event::TransmitStart { wait } => {
            let now = now + Duration::from_nanos(wait);
            control.on_transmit_start(now);
            return now;
        }
        Event::Mss(mss) => control.set_mss(mss),
    }
    now
}

proptest! {
    #[test]
    fn the_window_stays_between_a_segment_and_a_gibibyte(
        mss in 1u32..70_000,
        initial_window: u64,
        paced: bool,
        selective_acks: bool,
        byte_counting in prop_oneof![
            Just(ByteCounting::ByPacing), Just(ByteCounting::Conservative), Just(ByteCounting::Aggressive)
        ],
        events in prop::collection::vec(any_event(), 1..200),
    ) {
        for algorithm in all() {
            let mut control = algorithm.build(ControlParams {
                initial_window,
                paced,
                selective_acks,
                byte_counting,
                ..ControlParams::new(mss, Time::ZERO)
            });
            let mut now = Time::ZERO;
            let mut mss = u64::from(mss);
            for event in &events {
                let before = control.window();
                now = apply(control.as_mut(), now, event);
                if let Event::Mss(size) = event {
                    mss = u64::from(*size).max(1);
                }
                let window = control.window();
                prop_assert!(window >= mss, "{algorithm}: {window} after {event:?}");
                prop_assert!(window <= mss.max(1 << 30), "{algorithm}: {window} after {event:?}");
                prop_assert!(control.ssthresh() > 0);
                match event {
                    Event::Ack { .. } if RISING.contains(&algorithm) =>
                        prop_assert!(window >= before, "{algorithm}: an ACK took the window from {before} to {window}"),
                    Event::Congestion { .. } | Event::IdleRestart { .. } =>
                        prop_assert!(window <= before, "{algorithm}: {event:?} took the window from {before} to {window}"),
                    Event::Timeout { .. } => prop_assert_eq!(window, mss, "{} after an RTO", algorithm),
                    _ => {}
                }
                control.pacing_rate_over(Some(Duration::ZERO));
                let pace = control.pacing_rate().map(BitRate::bits_per_sec);
                prop_assert!(pace != Some(0), "{algorithm} would never send again after {event:?}");
            }
        }
    }

    /// The same history gives the same window, and a spurious event leaves no trace of itself.
    #[test]
    fn an_undone_event_leaves_the_window_and_the_threshold(
        events in prop::collection::vec(any_event(), 1..100),
        timeout: bool,
        flight in any_size(),
    ) {
        for algorithm in all() {
            let mut control = algorithm.build(params());
            let mut twin = algorithm.build(params());
            let mut now = Time::ZERO;
            for event in &events {
                apply(twin.as_mut(), now, event);
                now = apply(control.as_mut(), now, event);
                prop_assert_eq!(control.window(), twin.window());
            }
            // Progress first, so that an RTO is the first of its data.
            let progress = AckSample { newly_acked: 1, in_recovery: true, ..ack(control.as_ref(), now, 0) };
            control.on_ack(&progress);
            let before = (control.window(), control.ssthresh());
            let event = if timeout { Event::Timeout { flight } } else { Event::Congestion { loss: true, flight } };
            now = apply(control.as_mut(), now, &event);
            control.on_spurious(now);
            let after = (control.window(), control.ssthresh());
            if matches!(algorithm, Algorithm::Bbr | Algorithm::Bbr3) {
                // What recovery took before is given back too.
                prop_assert!(after.0 >= before.0, "{algorithm}: {before:?} -> {after:?} after {event:?}");
            } else {
                prop_assert_eq!(after.0, before.0, "{} after {:?}", algorithm, event);
            }
            prop_assert!(after.1 >= before.1, "{}: ssthresh {} -> {}", algorithm, before.1, after.1);
        }
    }
}

#[test]
fn without_congestion_the_window_fills_the_path_and_never_shrinks() {
    for name in ["reno", "cubic", "westwood", "hybla"] {
        let mut path =
            Path::new(build(name), BitRate::from_bits_per_sec(20_000_000), Duration::from_millis(80));
        let mut before = path.control.window();
        while path.now < Time::from_secs(3) {
            path.step(Duration::ZERO);
            assert!(path.control.window() >= before, "{name}");
            before = path.control.window();
        }
        assert!(before >= path.bdp(), "{name}: {before}");
    }
}

#[test]
fn a_fixed_window_narrows_only_to_probe_after_a_timeout() {
    let mut fixed = build("fixed:50 kB");
    let now = Time::from_millis(1);
    fixed.on_congestion(now, CongestionEvent::Loss, 50 * MSS);
    assert_eq!((fixed.window(), fixed.in_slow_start(), fixed.uses_prr()), (50 * MSS, false, false));
    fixed.on_timeout(now, 50 * MSS);
    assert_eq!(fixed.window(), MSS);
    let selective = AckSample { newly_acked: 0, ..ack(fixed.as_ref(), now, MSS) };
    fixed.on_ack(&selective);
    assert_eq!(fixed.window(), MSS);
    let cumulative = ack(fixed.as_ref(), now, MSS);
    fixed.on_ack(&cumulative);
    assert_eq!(fixed.window(), 50 * MSS);
}

#[test]
fn the_pacing_rate_leads_the_window() {
    let mut reno = build("reno");
    let srtt = Some(Duration::from_millis(100));
    assert_eq!(reno.pacing_rate_over(None), None);
    // 10 kB in 100 ms are 800 kbit/s: twice that in slow start, 1.2 times that later.
    assert_eq!(reno.pacing_rate_over(srtt), Some(BitRate::from_bits_per_sec(1_600_000)));
    reno.on_congestion(Time::from_millis(1), CongestionEvent::Loss, 10 * MSS);
    assert_eq!(reno.pacing_rate_over(srtt), Some(BitRate::from_bits_per_sec(480_000)));
    // However long the round trip: at a rate of zero nothing would leave ever again.
    let day = Duration::from_secs(86_400);
    assert_eq!(reno.pacing_rate_over(Some(day)), Some(BitRate::from_bits_per_sec(1)));
}

#[test]
fn the_initial_window_is_that_of_rfc_6928() {
    for (mss, window) in [(536, 5360), (1460, 14_600), (4000, 14_600), (8960, 17_920)] {
        assert_eq!(ControlParams::new(mss, Time::ZERO).initial_window, window);
    }
}
