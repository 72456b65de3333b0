//! What must hold for every loss detector, with every congestion control and every loss discriminator.
use crate::half::{DELAY, Fate, Half, MSS, Sent, losing};
use crate::model::{controls, fate};
use shorthaul_congestion::{Algorithm, ControlParams};
use shorthaul_tcp::{
    CongestionManager, Discrimination, LossDetection, ProbedPeer, RetransmissionTimer, SenderConfig,
};
use shorthaul_testkit::{Chance, each_seed};
use shorthaul_types::{Bytes, Time};
use std::time::Duration;

/// A sender of these parts, with a window of forty segments.
fn config(
    algorithm: Algorithm,
    detection: LossDetection,
    discrimination: Discrimination,
    sack: bool,
) -> SenderConfig {
    let params = ControlParams {
        initial_window: 40 * MSS,
        paced: false,
        ..ControlParams::new(MSS as u32, Time::ZERO)
    };
    let peer = if sack { ProbedPeer::SendsDSack } else { ProbedPeer::Plain };
    SenderConfig {
        loss_detection: detection,
        discriminator: discrimination.build(Time::ZERO, peer),
        sack,
        pacing: false,
        ..SenderConfig::new(MSS as u32, algorithm.build(params))
    }
}

/// Every detector with and without SACK, with every control and every discriminator.
fn all_parts() -> impl Iterator<Item = (String, SenderConfig)> {
    let detections = LossDetection::ALL.iter().copied();
    let all = detections.flat_map(|detection| [true, false].map(|sack| (detection, sack)));
    all.flat_map(|(detection, sack)| {
        controls().flat_map(move |algorithm| {
            Discrimination::ALL.iter().map(move |&discrimination| {
                let what = format!("{algorithm}, {detection}, {discrimination}, sack {sack}");
                (what, config(algorithm, detection, discrimination, sack))
            })
        })
    })
}

#[test]
fn nothing_is_taken_for_lost_on_a_path_that_loses_nothing() {
    for (what, config) in all_parts() {
        let mut half = Half::new(config, 1 << 20);
        half.write(300);
        half.run_to_the_end(Duration::from_secs(60));
        let stats = half.sender.stats();
        assert_eq!((stats.retransmitted, stats.recoveries, stats.timeouts), (0, 0, 0), "{what}");
        assert_eq!((stats.tail_probes, stats.probes), (0, 0), "{what}");
    }
}

#[test]
fn a_hole_in_a_large_window_is_found_before_the_timer_expires() {
    for &detection in LossDetection::ALL {
        for algorithm in controls() {
            for sack in [true, false] {
                let mut half =
                    Half::new(config(algorithm, detection, Discrimination::EVERY_LOSS, sack), 1 << 20);
                half.data = losing(&[(5, 1)]);
                half.write(40);
                half.run_to_the_end(Duration::from_secs(60));
                let what = format!("{algorithm}, {detection}, sack {sack}: {:?}", half.retransmitted());
                assert_eq!(half.retransmitted().first(), Some(&5), "{what}");
                assert_eq!(half.sender.stats().timeouts, 0, "{what}");
            }
        }
    }
}

/// What is outstanding and lost altogether shows in nothing but a timer.
#[test]
fn the_timer_repairs_what_no_acknowledgment_shows() {
    for (what, config) in all_parts() {
        let mut half = Half::new(config, 1 << 20);
        half.data = Box::new(|n, _| if (30..45).contains(&n) { Fate::Drop } else { Fate::Pass });
        half.write(40);
        half.run_to_the_end(Duration::from_secs(120));
        assert!(half.sender.stats().retransmitted > 0, "{what}");
        assert_eq!(half.receiver.data_end(), 1 + 40 * MSS, "{what}");
    }
}

/// A congestion manager that grants by chance, knows of losses by chance, and probes when nothing comes back.
fn managed(detection: LossDetection, discrimination: Discrimination, sack: bool, seed: u64) {
    let what = format!("{detection}, {discrimination}, sack {sack}, seed {seed}");
    let unlimited = Algorithm::Fixed(Bytes(u64::MAX));
    let config = config(unlimited, detection, discrimination, sack);
    let mut half = Half::new(
        SenderConfig { manager: CongestionManager::shared(RetransmissionTimer::Probes), ..config },
        200_000,
    );
    let mut chance = Chance(seed);
    let loss = [0, 20, 200][chance.below(3) as usize];
    let (mut there, mut back) = (Chance(seed ^ 3), Chance(seed ^ 4));
    let healed = Time::from_millis(4_000);
    half.data = Box::new(move |_, sent| if sent.at < healed { fate(&mut there, loss) } else { Fate::Pass });
    half.acks = Box::new(move |n| if n < 100 { fate(&mut back, loss) } else { Fate::Pass });
    half.write(200);
    let (mut delivered, mut silent_since) = (0, Time::ZERO);
    while !half.sender.is_idle() {
        let grant = chance.below(6) * MSS;
        let now = half.now;
        let known_lost = chance.once_in(16) && now > Time::from_millis(500);
        let state = half.sender.grant_mut().expect("a manager");
        state.bytes = grant;
        state.lost_before = known_lost.then(|| Time::from_millis(now.as_nanos() / 1_000_000 - 400));
        if known_lost {
            half.sender.on_others_delivered(now);
        }
        let sent_before = half.sent.len();
        half.step(now + Duration::from_millis(10));
        let (probes, data): (Vec<&Sent>, Vec<&Sent>) =
            half.sent[sent_before..].iter().partition(|sent| sent.probe);
        let sent: u64 = data.iter().map(|sent| sent.bytes).sum();
        // A probe may bring the first segment along.
        let brought = probes.len() as u64 * MSS;
        assert!(sent <= grant + brought, "{what}: {sent} bytes of {grant} that were granted: {data:?}");
        let feedback = std::mem::take(&mut half.sender.grant_mut().expect("a manager").feedback);
        delivered += feedback.delivered;
        if feedback.acknowledgments > 0 {
            silent_since = half.now;
        }
        if half.now.saturating_since(silent_since) > Duration::from_millis(600) {
            half.sender.on_manager_timeout(half.now);
            silent_since = half.now;
        }
        assert!(half.now < Time::from_millis(900_000), "{what}: stuck: {:#?}", half.sender);
    }
    assert_eq!(half.receiver.data_end(), 1 + 200 * MSS, "{what}");
    assert_eq!(delivered, 200 * MSS, "{what}: every byte is fed back once");
}

#[test]
fn a_managed_sender_sends_what_it_is_granted_and_everything_arrives() {
    each_seed(1..5, |seed| {
        for &detection in LossDetection::ALL {
            for &discrimination in Discrimination::ALL {
                for sack in [true, false] {
                    managed(detection, discrimination, sack, seed);
                }
            }
        }
    });
}

/// A flight that is lost altogether, of a connection whose every round trip waited in the queue of others: with one expiry of its manager's timer.
fn repaired_after_one_expiry(min_rtt: Option<Duration>) -> bool {
    let unlimited = Algorithm::Fixed(Bytes(u64::MAX));
    let config = config(unlimited, LossDetection::default(), Discrimination::EVERY_LOSS, true);
    let manager = CongestionManager::shared(RetransmissionTimer::Probes);
    let mut half = Half::new(SenderConfig { manager, ..config }, 200_000);
    half.data = Box::new(|n, _| match n {
        0..2 => Fate::Late(Duration::from_secs(1)),
        2..8 => Fate::Drop,
        _ => Fate::Pass,
    });
    let grant = |half: &mut Half| {
        let grant = half.sender.grant_mut().expect("a manager");
        (grant.bytes, grant.min_rtt) = (10 * MSS, min_rtt);
    };
    half.write(2);
    grant(&mut half);
    while half.step(Time::from_millis(2_000)) {}
    assert!(half.sender.is_idle(), "the first two have arrived");
    half.write(6);
    grant(&mut half);
    while half.step(Time::from_millis(4_000)) {}
    half.sender.on_manager_timeout(half.now);
    for _ in 0..10 {
        grant(&mut half);
        let end = half.now + 2 * DELAY;
        while half.step(end) {}
    }
    half.receiver.data_end() == 1 + 8 * MSS
}

#[test]
fn an_answer_is_too_soon_by_the_shortest_round_trip_that_anybody_has_measured() {
    assert!(repaired_after_one_expiry(Some(2 * DELAY)));
    assert!(!repaired_after_one_expiry(None), "by its own round trips alone the answer came too soon");
}
