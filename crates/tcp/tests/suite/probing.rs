//! Probe cycles: what begins one, what leaves while it lasts, what ends it, and what it says (PRB §2 to §4).
use crate::half::{Fate, Half, MSS};
use shorthaul_congestion::{Algorithm, ControlParams};
use shorthaul_tcp::{
    Acknowledged, ByteQueue, Discrimination, Discriminator, LossDetection, LossEvidence, LossResponse,
    LossSign, Probe, ProbeAnswer, ProbeForm, ProbeName, ProbeStage, ProbedPeer, Probing, ProbingConfig,
    ProbingRule, SenderConfig,
};
use shorthaul_types::Time;
use shorthaul_wire::Payload;
use std::time::Duration;

const BEST: Duration = Duration::from_millis(100);

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn evidence(sign: LossSign) -> LossEvidence {
    LossEvidence { sign, flight: 10_000, in_slow_start: false, min_rtt: None, srtt: None }
}

/// A discriminator that has measured a best round trip of 100 ms, at the time 100 ms.
fn discriminator(rule: ProbingRule, peer: ProbedPeer) -> Probing {
    let mut discriminator = Probing::new(Time::ZERO, ProbingConfig::new(rule), peer);
    measure(&mut discriminator, at(50), BEST * 2);
    measure(&mut discriminator, at(100), BEST);
    discriminator
}

/// A round trip was measured with data; of what was acknowledged, a hundred bytes were the last.
fn measure(discriminator: &mut Probing, now: Time, rtt: Duration) {
    let mut queue = ByteQueue::new(1);
    queue.push(Payload::copy_of(&[7; 100]));
    discriminator.on_ack(&Acknowledged { now, acked: 1..101, queue: &queue, rtt: Some(rtt) });
}

/// An answer that names the probe, in the manner of its form.
fn named(probe: &Probe) -> ProbeAnswer {
    let name = match probe.form {
        ProbeForm::Octet(octet) => ProbeName::Octet(octet.offset),
        ProbeForm::Numbered | ProbeForm::Timed | ProbeForm::Empty => ProbeName::Number(probe.number),
    };
    ProbeAnswer { name: Some(name), duplicate: false, arrived: None }
}

/// An acknowledgment that names no probe.
const PLAIN: ProbeAnswer = ProbeAnswer { name: None, duplicate: true, arrived: None };

/// What the discriminator says when its two probes take this many milliseconds.
fn response(rule: ProbingRule, evidence: LossEvidence, first: u64, second: u64) -> LossResponse {
    let mut discriminator = discriminator(rule, ProbedPeer::Willing);
    assert_eq!(discriminator.respond(at(1_000), &evidence), LossResponse::Waiting);
    let probe = discriminator.poll_probe(at(1_000)).expect("PROBE1");
    assert_eq!((probe.stage, probe.form), (ProbeStage::First, ProbeForm::Numbered));
    assert_eq!(discriminator.poll_probe(at(1_000)), None, "one at a time");
    let then = 1_000 + first;
    assert_eq!(discriminator.on_probe_answer(at(then), named(&probe)), LossResponse::Waiting);
    let probe = discriminator.poll_probe(at(then)).expect("PROBE2");
    assert_eq!(probe.stage, ProbeStage::Second);
    discriminator.on_probe_answer(at(then + second), named(&probe))
}

#[test]
fn the_rules_are_those_of_figures_1_8_and_11() {
    use LossResponse::{Decrease, Mild, Severe, Transient};
    use LossSign::{Acknowledgments, Timeout};
    let often = ProbingRule::Selective { round_trips: 0, interval: Duration::ZERO };
    let (tahoe, reno, adaptive) = (ProbingRule::Tahoe, ProbingRule::Reno, ProbingRule::Adaptive);
    // The best round trip is 100 ms; "close to" it is up to 125 ms.
    for (rule, sign, first, second, verdict) in [
        (tahoe, Acknowledgments, 110, 125, Transient),
        (tahoe, Timeout, 110, 125, Transient),
        (tahoe, Acknowledgments, 126, 100, Severe),
        (tahoe, Timeout, 100, 126, Severe),
        (reno, Acknowledgments, 110, 125, Transient),
        (reno, Timeout, 110, 125, Transient),
        (reno, Acknowledgments, 100, 126, Mild),
        (reno, Timeout, 126, 100, Severe),
        (adaptive, Acknowledgments, 100, 99, Transient),
        (adaptive, Timeout, 100, 99, Transient),
        (adaptive, Acknowledgments, 101, 99, Mild),
        (adaptive, Timeout, 101, 99, Mild),
        (adaptive, Acknowledgments, 101, 101, Severe),
        (adaptive, Acknowledgments, 99, 101, Severe),
        (often, Acknowledgments, 99, 99, Transient),
        (often, Timeout, 150, 99, Mild),
    ] {
        let got = response(rule, evidence(sign), first, second);
        assert_eq!(got, verdict, "{rule:?}, {sign:?}, {first} ms, {second} ms");
    }
    let starting = LossEvidence { in_slow_start: true, ..evidence(Timeout) };
    assert_eq!(
        response(adaptive, starting, 90, 90),
        Decrease { percent: 75 },
        "three quarters in slow start"
    );
    assert_eq!(response(reno, starting, 90, 90), Transient, "which the simple rules do not know");
}

#[test]
fn a_lost_probe_is_retried_and_a_lost_second_begins_the_cycle_anew() {
    let mut discriminator = discriminator(ProbingRule::Reno, ProbedPeer::Willing);
    discriminator.respond(at(1_000), &evidence(LossSign::Timeout));
    let first = discriminator.poll_probe(at(1_000)).unwrap();
    let again = discriminator.poll_timeout().unwrap().at;
    // A probe has two of the best round trips.
    assert_eq!(again, at(1_200));
    assert_eq!(discriminator.on_timeout(again), LossResponse::Waiting);
    let second = discriminator.poll_probe(again).unwrap();
    assert!(second.number != first.number && second.stage == ProbeStage::First);
    // The answer to the earlier one came late: it counts, as the round trip that it took.
    assert_eq!(discriminator.on_probe_answer(at(1_400), named(&first)), LossResponse::Waiting);
    let probe = discriminator.poll_probe(at(1_400)).unwrap();
    assert_eq!(probe.stage, ProbeStage::Second);
    // Twice what the first one took, which is more than usual.
    let given_up = discriminator.poll_timeout().unwrap().at;
    assert_eq!(given_up, at(2_200));
    assert_eq!(discriminator.on_timeout(given_up), LossResponse::Waiting);
    assert_eq!(discriminator.poll_probe(given_up).unwrap().stage, ProbeStage::First);
    assert_eq!(discriminator.on_probe_answer(at(2_201), named(&probe)), LossResponse::Waiting, "too late");
}

#[test]
fn a_cycle_ends_at_its_limit_and_no_other_begins_before_something_is_measured() {
    let mut discriminator = discriminator(ProbingRule::Reno, ProbedPeer::Willing);
    let mut now = at(1_000);
    assert_eq!(discriminator.respond(now, &evidence(LossSign::Timeout)), LossResponse::Waiting);
    let mut probes = 0;
    let response = loop {
        probes += u32::from(discriminator.poll_probe(now).is_some());
        now = discriminator.poll_timeout().unwrap().at;
        let response = discriminator.on_timeout(now);
        if response != LossResponse::Waiting {
            break response;
        }
    };
    assert_eq!((response, now), (LossResponse::Severe, at(121_000)));
    assert_eq!(probes, 600, "one in 200 ms");
    assert_eq!(discriminator.respond(now, &evidence(LossSign::Timeout)), LossResponse::Severe);
    assert_eq!(discriminator.respond(now, &evidence(LossSign::Acknowledgments)), LossResponse::Mild);
    measure(&mut discriminator, now, BEST);
    assert_eq!(discriminator.respond(now, &evidence(LossSign::Timeout)), LossResponse::Waiting);
}

#[test]
fn a_selective_discriminator_probes_after_duplicates_only_now_and_then() {
    let rule = ProbingRule::Selective { round_trips: 3, interval: Duration::from_secs(1) };
    let duplicates = evidence(LossSign::Acknowledgments);
    let mut discriminator = Probing::new(Time::ZERO, ProbingConfig::new(rule), ProbedPeer::Willing);
    for sample in 1..=3 {
        measure(&mut discriminator, at(100 * sample), BEST);
        measure(&mut discriminator, at(100 * sample + 10), BEST); // the same round trip
    }
    assert_eq!(
        discriminator.respond(at(400), &duplicates),
        LossResponse::Mild,
        "three estimates are not above three"
    );
    measure(&mut discriminator, at(410), BEST);
    assert_eq!(discriminator.respond(at(420), &duplicates), LossResponse::Waiting);
    assert_eq!(discriminator.respond(at(430), &duplicates), LossResponse::Mild, "the count begins anew");
    assert_eq!(
        discriminator.respond(at(1_421), &duplicates),
        LossResponse::Waiting,
        "more than a second later"
    );
    assert_eq!(
        discriminator.respond(at(1_430), &evidence(LossSign::Timeout)),
        LossResponse::Waiting,
        "always"
    );
}

#[test]
fn a_peer_with_d_sack_is_asked_by_bytes_that_name_themselves() {
    let mut discriminator = Probing::new(Time::ZERO, ProbingConfig::ONE_SIDED, ProbedPeer::SendsDSack);
    measure(&mut discriminator, at(100), BEST);
    for sign in [LossSign::Timeout, LossSign::Acknowledgments] {
        discriminator.respond(at(1_000), &evidence(sign));
        let sent: Vec<Probe> =
            (0..12).map(|i| discriminator.poll_probe(at(1_000 + 50 * i)).unwrap()).collect();
        assert!(sent.iter().all(|probe| matches!(probe.form, ProbeForm::Octet(_)) && !probe.brings_head));
        assert_eq!(discriminator.poll_probe(at(1_599)), None, "no more than one in half a round trip");
        assert_eq!(
            discriminator.on_probe_answer(at(1_599), PLAIN),
            LossResponse::Waiting,
            "it may be of data"
        );
        // The third from the end: 100 ms ago, though two were sent since.
        let named_by_byte = named(&sent[9]);
        assert_eq!(discriminator.on_probe_answer(at(1_550), named_by_byte), LossResponse::Waiting);
        let probe = discriminator.poll_probe(at(1_550)).unwrap();
        assert_eq!((probe.stage, probe.brings_head), (ProbeStage::Second, true));
        let stale = named(&sent[11]);
        assert_eq!(
            discriminator.on_probe_answer(at(1_650), stale),
            LossResponse::Waiting,
            "an answer to PROBE1"
        );
        let response = discriminator.on_probe_answer(at(1_660), named(&probe));
        assert_eq!(response, LossResponse::Transient, "{sign:?}");
    }
}

#[test]
fn a_queue_is_seen_however_many_probes_were_sent_into_it() {
    let mut discriminator = Probing::new(Time::ZERO, ProbingConfig::ONE_SIDED, ProbedPeer::SendsDSack);
    measure(&mut discriminator, at(100), BEST);
    discriminator.respond(at(1_000), &evidence(LossSign::Acknowledgments));
    let first = discriminator.poll_probe(at(1_000)).unwrap();
    for i in 1..4 {
        discriminator.poll_probe(at(1_000 + 50 * i)).unwrap();
    }
    // Twice the best round trip: not good, though the last probe is 50 ms old.
    discriminator.on_probe_answer(at(1_200), named(&first));
    let second = discriminator.poll_probe(at(1_200)).unwrap();
    assert_eq!(discriminator.on_probe_answer(at(1_300), named(&second)), LossResponse::Mild);
}

#[test]
fn a_peer_without_d_sack_is_asked_after_timeouts_only_by_empty_segments() {
    let mut discriminator = Probing::new(Time::ZERO, ProbingConfig::ONE_SIDED, ProbedPeer::Plain);
    measure(&mut discriminator, at(100), BEST);
    let duplicates = evidence(LossSign::Acknowledgments);
    assert_eq!(
        discriminator.respond(at(1_000), &duplicates),
        LossResponse::Mild,
        "answers could not be told apart"
    );
    assert_eq!(discriminator.respond(at(2_000), &evidence(LossSign::Timeout)), LossResponse::Waiting);
    assert_eq!(discriminator.poll_probe(at(2_000)).unwrap().form, ProbeForm::Empty);
    assert_eq!(discriminator.poll_timeout().unwrap().at, at(2_300), "three round trips");
    assert_eq!(
        discriminator.on_probe_answer(at(2_070), PLAIN),
        LossResponse::Waiting,
        "no answer is so young"
    );
    assert_eq!(discriminator.on_probe_answer(at(2_100), PLAIN), LossResponse::Waiting);
    assert_eq!(discriminator.poll_probe(at(2_100)).unwrap().stage, ProbeStage::Second);
    assert_eq!(discriminator.on_probe_answer(at(2_200), PLAIN), LossResponse::Transient);
}

#[test]
fn a_peer_that_never_sends_d_sack_is_not_asked_after_duplicates_again() {
    let mut discriminator = Probing::new(Time::ZERO, ProbingConfig::ONE_SIDED, ProbedPeer::SendsDSack);
    measure(&mut discriminator, at(100), BEST);
    let duplicates = evidence(LossSign::Acknowledgments);
    assert_eq!(discriminator.respond(at(1_000), &duplicates), LossResponse::Waiting);
    let mut now = at(1_000);
    let mut probes = 0;
    while discriminator.on_timeout(now) == LossResponse::Waiting {
        probes += u32::from(discriminator.poll_probe(now).is_some());
        now = discriminator.poll_timeout().unwrap().at;
    }
    assert_eq!((probes, now), (8, at(1_400)));
    assert_eq!(discriminator.respond(at(2_000), &duplicates), LossResponse::Mild);
    assert_eq!(discriminator.respond(at(3_000), &evidence(LossSign::Timeout)), LossResponse::Waiting);
}

/// A sender with probes that the receiver of [`Half`] answers as an unmodified one does.
fn half(discrimination: Discrimination, detection: LossDetection, sack: bool) -> Half {
    let params = ControlParams { paced: false, ..ControlParams::new(MSS as u32, Time::ZERO) };
    let control = "reno".parse::<Algorithm>().unwrap().build(params);
    let peer = if sack { ProbedPeer::SendsDSack } else { ProbedPeer::Plain };
    let discriminator = discrimination.build(Time::ZERO, peer);
    Half::new(
        SenderConfig {
            discriminator,
            sack,
            loss_detection: detection,
            pacing: false,
            ..SenderConfig::new(MSS as u32, control)
        },
        1 << 20,
    )
}

/// The path is dead for `outage` from 500 ms on; when the first new byte arrived after it.
fn resumed_after(mut half: Half, outage: Duration) -> (Duration, Half) {
    let dead = at(500)..at(500) + outage;
    let inside = dead.clone();
    half.data = Box::new(move |_, sent| if inside.contains(&sent.at) { Fate::Drop } else { Fate::Pass });
    half.write(400);
    half.run_until(500);
    let end = dead.end;
    while half.step(end) {}
    let before = half.receiver.next();
    while half.receiver.next() == before {
        assert!(half.step(end + Duration::from_secs(200)), "stuck: {:#?}", half.sender);
    }
    (half.now.saturating_since(end), half)
}

#[test]
fn delivery_resumes_within_two_round_trips_of_the_links_return() {
    for sack in [true, false] {
        for seconds in [5, 20, 40] {
            let detection = if sack { LossDetection::RACK_TLP } else { LossDetection::NEW_RENO };
            let outage = Duration::from_secs(seconds);
            let (waited, _) = resumed_after(half(Discrimination::EVERY_LOSS, detection, sack), outage);
            assert!(waited > Duration::from_secs(1), "without probes it takes {waited:?}");
            let (waited, mut half) =
                resumed_after(half(Discrimination::ONE_SIDED_PROBING, detection, sack), outage);
            // Without D-SACK, a probe leaves only every three round trips.
            let most = Duration::from_millis(if sack { 200 } else { 450 });
            assert!(waited <= most, "{waited:?} after {seconds} s, SACK {sack}");
            let probes = half.sent.iter().filter(|sent| sent.probe).count() as u64;
            assert!(probes <= 2 + seconds * 20, "{probes} probes in {seconds} s");
            half.run_to_the_end(Duration::from_secs(400));
        }
    }
}

#[test]
fn the_window_survives_an_outage_and_the_timer_too() {
    let mut half = half(Discrimination::ONE_SIDED_PROBING, LossDetection::RACK_TLP, true);
    half.write(400);
    half.run_until(499);
    let window = half.sender.control().window();
    let (_, mut half) = {
        let mut fresh = self::half(Discrimination::ONE_SIDED_PROBING, LossDetection::RACK_TLP, true);
        fresh.write(0);
        resumed_after(fresh, Duration::from_secs(10))
    };
    half.run_until(11_500);
    assert!(half.sender.control().window() >= window, "the path had its best round trip again");
    assert_eq!(half.sender.rtt().backoff(), 0);
}

#[test]
fn while_it_probes_no_new_data_leaves() {
    let mut half = half(Discrimination::ONE_SIDED_PROBING, LossDetection::SACK, true);
    half.data = crate::half::losing(&[(20, 1)]);
    half.write(200);
    half.run_to_the_end(Duration::from_secs(60));
    let first = half.sent.iter().position(|sent| sent.probe).expect("a probe");
    let last = half.sent.iter().rposition(|sent| sent.probe).unwrap();
    let data: Vec<_> = half.sent[first..last].iter().filter(|sent| !sent.probe).collect();
    assert!(data.iter().all(|sent| sent.segment == 20), "only the head, with PROBE2: {data:?}");
    assert_eq!(half.sender.stats().timeouts, 0);
    assert_eq!(half.sender.stats().undone, 0, "the byte of a probe is no needless retransmission");
}

#[test]
fn a_probe_is_the_default_zero_length_segment_unless_it_says_otherwise() {
    assert_eq!(Probe::default().form, ProbeForm::Empty);
}

/// What is sent is lost for a minute, but for the probes. They are answered: the peer is there.
#[test]
fn an_end_whose_probes_are_answered_is_not_given_up() {
    let healed = at(60_000);
    for discrimination in [Discrimination::RENO_PROBING, Discrimination::TAHOE_PROBING] {
        let config = SenderConfig {
            discriminator: discrimination.build(Time::ZERO, ProbedPeer::SendsDSack),
            loss_detection: LossDetection::RENO,
            ..SenderConfig::new(MSS as u32, Algorithm::Reno.build(ControlParams::new(MSS as u32, Time::ZERO)))
        };
        let mut half = Half::new(config, 100_000);
        half.data = Box::new(move |_, sent| {
            let lost = !sent.probe && (at(1_000)..healed).contains(&sent.at);
            if lost { Fate::Drop } else { Fate::Pass }
        });
        half.write(20);
        half.run_until(1_500);
        half.write(20);
        while half.now < healed {
            assert!(half.step(healed + BEST) && !half.sender.has_given_up(), "given up at {}", half.now);
        }
        assert!(half.sender.stats().timeouts > 0);
        half.run_to_the_end(Duration::from_secs(600));
        assert_eq!(half.receiver.data_end(), 1 + 40 * MSS);
    }
}

/// Finds that no loss was congestion.
#[derive(Debug)]
struct AlwaysClear;

impl Discriminator for AlwaysClear {
    fn respond(&mut self, _now: Time, _evidence: &LossEvidence) -> LossResponse {
        LossResponse::Transient
    }
}

/// "Immediate Recovery will also expand the window in response to further DACKs" (PRB §2.1), in both of its protocols.
#[test]
fn immediate_recovery_expands_the_window_by_the_duplicates_that_arrive() {
    for loss_detection in [LossDetection::TAHOE, LossDetection::RENO] {
        let params = ControlParams { paced: false, ..ControlParams::new(MSS as u32, Time::ZERO) };
        let config = SenderConfig {
            discriminator: Box::new(AlwaysClear),
            loss_detection,
            sack: false,
            pacing: false,
            ..SenderConfig::new(MSS as u32, Algorithm::Reno.build(params))
        };
        let mut half = Half::new(config, 1 << 20);
        half.data = crate::half::losing(&[(40, 1)]);
        half.write(400);
        half.run_to_the_end(Duration::from_secs(60));
        let again = half.sent.iter().position(|sent| sent.segment == 40 && sent.retransmission);
        let again = again.expect("it is retransmitted");
        let highest = half.sent[..again].iter().map(|sent| sent.segment).max().expect("something was sent");
        let new = half.sent[again..].iter().filter(|sent| {
            sent.segment > highest && sent.at.saturating_since(half.sent[again].at) < BEST * 9 / 10
        });
        // What was sent behind the lost segment arrives, each for a new one, as the window is as it was: more than half of it before a round
        // trip is over.
        let (behind, new) = (highest - 40, new.count() as u64);
        assert!(
            behind > 10 && 2 * new > behind,
            "{loss_detection}: {new} new segments, {behind} were behind it"
        );
        assert_eq!(half.sender.stats().timeouts, 0, "{loss_detection}");
    }
}
