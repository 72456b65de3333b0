//! What each loss detector does with the same losses: one behaviour a test. The round trip is 100 ms,
//! the window twelve segments and fixed but where congestion control shrinks it.
use crate::half::{DELAY, DataPath, Fate, Half, MSS, losing};
use shorthaul_congestion::{Algorithm, Control, ControlParams, RtoFloor, RttConfig};
use shorthaul_tcp::{
    Discriminator, LossDetection, LossEvidence, LossResponse, LossSign, Probe, ProbeAnswer, SenderConfig,
};
use shorthaul_types::{Deadline, Time};
use std::sync::mpsc;
use std::time::Duration;

fn reno() -> Box<dyn Control> {
    let params = ControlParams {
        initial_window: 12 * MSS,
        paced: false,
        ..ControlParams::new(MSS as u32, Time::ZERO)
    };
    Algorithm::Reno.build(params)
}

fn config(detection: LossDetection) -> SenderConfig {
    SenderConfig {
        loss_detection: detection,
        sack: detection.uses_sack(),
        f_rto: false,
        pacing: false,
        ..SenderConfig::new(MSS as u32, reno())
    }
}

/// Twelve segments have left, and `losses` of them are lost.
fn half(detection: LossDetection, losses: &'static [(u64, u32)]) -> Half {
    let mut half = Half::new(config(detection), 1 << 20);
    half.data = losing(losses);
    half.write(40);
    half
}

/// NCR waits for about a window of duplicates instead (RFC 4653).
#[test]
fn the_third_duplicate_sends_the_head_again_at_once() {
    let by_three =
        |detection: &&LossDetection| ![LossDetection::NCR, LossDetection::NCR_AGGRESSIVE].contains(detection);
    for &detection in LossDetection::ALL.iter().filter(by_three) {
        let mut half = half(detection, &[(2, 1)]);
        half.run_until(100);
        assert_eq!(half.retransmitted(), [2], "{detection}");
        assert_eq!(half.sender.stats().timeouts, 0);
    }
}

#[test]
fn tahoe_begins_again_with_one_segment() {
    let mut half = half(LossDetection::TAHOE, &[(2, 1)]);
    half.run_until(100);
    assert_eq!(half.sender.control().window(), MSS);
    // Half of what was in flight: ten segments and the two that the first ACKs let go, each twice.
    assert_eq!(half.sender.control().ssthresh(), 7 * MSS);
    half.run_to_the_end(Duration::from_secs(5));
    assert_eq!(half.sender.stats().timeouts, 0);
}

#[test]
fn reno_leaves_recovery_with_the_first_new_acknowledgment() {
    let mut half = half(LossDetection::RENO, &[(2, 1), (6, 1)]);
    half.run_until(100);
    let window = half.sender.control().window();
    half.run_until(201);
    assert_eq!(half.sender.una(), 1 + 6 * MSS, "a partial acknowledgment");
    assert!(
        !half.retransmitted().contains(&6),
        "it does not see the second hole in it: {:?}",
        half.retransmitted()
    );
    half.run_to_the_end(Duration::from_secs(10));
    // The second hole costs it a second reduction, or a timeout.
    let stats = half.sender.stats();
    assert!(stats.recoveries + stats.timeouts >= 2, "{stats:?} from {window}");
}

#[test]
fn newreno_repairs_a_hole_a_round_trip() {
    let mut half = half(LossDetection::NEW_RENO, &[(2, 1), (5, 1), (8, 1)]);
    half.run_to_the_end(Duration::from_secs(5));
    let times: Vec<(u64, u64)> = half
        .sent
        .iter()
        .filter(|sent| sent.retransmission)
        .map(|sent| (sent.segment, sent.at.as_nanos() / 1_000_000))
        .collect();
    assert_eq!(times, [(2, 100), (5, 200), (8, 300)]);
    assert_eq!((half.sender.stats().recoveries, half.sender.stats().timeouts), (1, 0));
}

#[test]
fn a_partial_acknowledgment_lets_one_new_segment_leave() {
    // RFC 6582 §3.2 step 3: deflated by what was acknowledged, plus one segment.
    let mut half = half(LossDetection::NEW_RENO, &[(2, 1), (5, 1)]);
    half.run_until(199);
    let before = half.sender.in_flight();
    half.run_until(200);
    assert_eq!(half.sender.una(), 1 + 5 * MSS);
    assert!(half.sender.in_flight() <= before + MSS, "{} after {before}", half.sender.in_flight());
}

#[test]
fn sack_repairs_all_holes_in_one_round_trip() {
    for detection in [LossDetection::SACK, LossDetection::RACK_TLP] {
        let mut half = half(detection, &[(2, 1), (5, 1), (8, 1)]);
        half.run_to_the_end(Duration::from_secs(5));
        let last = half.sent.iter().filter(|sent| sent.retransmission).map(|sent| sent.at).max();
        assert!(last < Some(Time::from_millis(210)), "{detection}: {last:?}");
        assert_eq!(half.retransmitted(), [2, 5, 8], "{detection}");
        assert_eq!((half.sender.stats().recoveries, half.sender.stats().timeouts), (1, 0), "{detection}");
    }
}

#[test]
fn two_sacked_segments_are_not_yet_a_loss() {
    let mut half = half(LossDetection::SACK, &[(2, 1)]);
    half.write(0);
    half.acks = Box::new(|n| if n < 4 { Fate::Pass } else { Fate::Drop });
    half.run_until(101);
    assert_eq!(half.retransmitted(), [] as [u64; 0], "0 and 1 acknowledged, 3 and 4 SACKed");
}

#[test]
fn a_retransmission_that_is_lost_is_found_by_time_but_not_by_sack() {
    let mut by_time = half(LossDetection::RACK_TLP, &[(2, 2)]);
    by_time.run_to_the_end(Duration::from_secs(5));
    assert_eq!(by_time.sender.stats().timeouts, 0, "{:?}", by_time.retransmitted());
    let mut by_sack = half(LossDetection::SACK, &[(2, 2)]);
    by_sack.run_to_the_end(Duration::from_secs(5));
    assert_eq!(by_sack.sender.stats().timeouts, 1, "{:?}", by_sack.retransmitted());
}

#[test]
fn without_sack_the_detectors_that_need_them_are_newreno() {
    for detection in [LossDetection::SACK, LossDetection::RACK_TLP] {
        let config = SenderConfig { sack: false, ..config(detection) };
        let mut half = Half::new(config, 1 << 20);
        half.data = losing(&[(2, 1), (5, 1)]);
        half.write(40);
        half.run_to_the_end(Duration::from_secs(5));
        assert_eq!(half.retransmitted(), [2, 5], "{detection}");
        assert_eq!(half.sender.stats().timeouts, 0);
    }
}

/// The path stands still until 0.7 s, for all that leaves after 50 ms: longer than the timer waits.
fn stalled() -> DataPath {
    let end = Time::from_millis(700);
    Box::new(move |_, sent| match sent.at {
        at if at > Time::from_millis(50) && at + DELAY < end => Fate::Late(end.saturating_since(at + DELAY)),
        _ => Fate::Pass,
    })
}

#[test]
fn a_delay_that_fires_the_timer_is_seen_and_undone() {
    let mut half = Half::new(SenderConfig { f_rto: true, ..config(LossDetection::SACK) }, 1 << 20);
    half.data = stalled();
    half.write(200);
    half.run_until(150);
    let window = half.sender.control().window();
    half.run_to_the_end(Duration::from_secs(10));
    let stats = half.sender.stats();
    assert!(stats.timeouts >= 1 && stats.undone == 1, "{stats:?}");
    assert!(
        half.retransmitted().len() <= 2,
        "what was on its way is not retransmitted: {:?}",
        half.retransmitted()
    );
    assert!(half.sender.control().window() >= window, "the window is as before");
}

#[test]
fn without_f_rto_the_same_delay_sends_everything_again() {
    let mut half = Half::new(config(LossDetection::NEW_RENO), 1 << 20);
    half.data = stalled();
    half.write(200);
    half.run_to_the_end(Duration::from_secs(10));
    assert!(half.retransmitted().len() > 5, "{:?}", half.retransmitted());
    assert_eq!(half.sender.stats().undone, 0);
}

#[test]
fn a_timeout_that_was_none_is_not_undone() {
    // All of a window and the head's first retransmission are lost.
    let mut half = Half::new(SenderConfig { f_rto: true, ..config(LossDetection::RACK_TLP) }, 1 << 20);
    half.data = Box::new(|n, _| if (12..40).contains(&n) { Fate::Drop } else { Fate::Pass });
    half.write(60);
    half.run_to_the_end(Duration::from_secs(20));
    let stats = half.sender.stats();
    assert!(stats.timeouts >= 1 && stats.undone == 0, "{stats:?}");
}

#[test]
fn a_reduction_that_reordering_caused_is_undone_by_d_sack() {
    // Segment 2 comes 60 ms late: long enough to be retransmitted.
    let mut half = half(LossDetection::SACK, &[]);
    half.data = Box::new(|n, _| if n == 2 { Fate::Late(Duration::from_millis(60)) } else { Fate::Pass });
    half.run_until(110);
    assert_eq!(half.retransmitted(), [2]);
    let reduced = half.sender.control().window();
    half.run_to_the_end(Duration::from_secs(5));
    assert_eq!(half.sender.stats().undone, 1);
    assert!(half.sender.control().window() > reduced && half.sender.control().ssthresh() > 12 * MSS);
}

#[test]
fn what_pacing_holds_back_is_not_lost_with_the_half_of_the_flight() {
    // A window that is spread over the round trip, in slow start, when segment 300 is lost.
    let mut half = Half::new(SenderConfig { pacing: true, ..config(LossDetection::SACK) }, 1 << 20);
    half.data = losing(&[(300, 1)]);
    half.write(2_000);
    let mut before = (0, 0);
    while half.sender.stats().recoveries == 0 {
        before = (half.sender.control().window(), half.sender.nxt() - half.sender.una());
        assert!(half.step(Time::from_millis(5_000)), "the loss is found");
    }
    let (window, flight) = before;
    assert!(flight < window * 9 / 10, "the case is what it should be: {flight} of {window}");
    assert!(half.sender.control().ssthresh() >= window / 2, "{}", half.sender.control().ssthresh());
}

/// RFC 4015, without timestamps: the original's acknowledgment comes before the repair's can.
#[test]
fn a_reduction_is_undone_when_the_original_arrives() {
    let mut half = half(LossDetection::SACK, &[]);
    half.data = Box::new(|n, _| if n == 2 { Fate::Late(Duration::from_millis(60)) } else { Fate::Pass });
    half.run_until(155);
    let reduced = half.sender.control().ssthresh();
    assert_eq!((half.retransmitted(), half.sender.stats().undone), (vec![2], 0));
    half.run_until(165);
    assert_eq!(half.sender.stats().undone, 1, "the repair is answered at 200 ms");
    assert!(half.sender.control().ssthresh() > reduced);
    half.run_to_the_end(Duration::from_secs(5));
    assert_eq!(half.sender.stats().undone, 1, "its D-SACK changes nothing any more");
}

#[test]
fn a_d_sack_of_the_same_duplicate_does_not_excuse_another_loss() {
    // Segment 2 is late, segment 4 is lost. The former is seen twice, by its acknowledgment and by D-SACK.
    let mut half = half(LossDetection::SACK, &[(4, 1)]);
    let mut lost = half.data;
    half.data = Box::new(move |n, sent| match n {
        2 => Fate::Late(Duration::from_millis(60)),
        _ => lost(n, sent),
    });
    half.run_to_the_end(Duration::from_secs(5));
    assert!(
        half.retransmitted().contains(&2) && half.retransmitted().contains(&4),
        "{:?}",
        half.retransmitted()
    );
    assert_eq!(half.sender.stats().undone, 0);
}

#[test]
fn a_retransmission_in_vain_shows_that_the_path_reorders() {
    // Every tenth segment comes 20 ms late, a fifth of the round trip: less than RACK waits for once it
    // knows that the path reorders.
    let mut half = half(LossDetection::RACK_TLP, &[]);
    half.data = Box::new(|n, sent| match n % 10 {
        2 if !sent.retransmission => Fate::Late(Duration::from_millis(20)),
        _ => Fate::Pass,
    });
    half.write(2_000);
    half.run_to_the_end(Duration::from_secs(20));
    let stats = half.sender.stats();
    assert!(half.retransmitted().len() <= 4, "it learns: {:?}", half.retransmitted());
    assert!(stats.undone >= 1 && stats.timeouts == 0, "{stats:?}");
    assert!(
        half.sender.control().window() > 50 * MSS,
        "slow start goes on: {}",
        half.sender.control().window()
    );
}

#[test]
fn a_smaller_path_mtu_is_no_congestion() {
    let mut half = half(LossDetection::RACK_TLP, &[]);
    half.flush();
    let window = half.sender.control().window();
    half.sender.reduce_mss(half.now, 500);
    half.flush();
    assert_eq!(half.sender.control().window(), window);
    assert!(half.sent.iter().any(|sent| sent.retransmission), "what was too big is retransmitted");
    assert_eq!(half.sender.mss(), 500);
}

#[test]
fn a_coarse_timer_expires_on_its_tick() {
    let tick = Duration::from_millis(500);
    let rtt = RttConfig { tick, floor: RtoFloor::Whole(Duration::from_secs(1)), ..RttConfig::RFC6298 };
    let mut half = Half::new(SenderConfig { rto: rtt, ..config(LossDetection::TAHOE) }, 1 << 20);
    half.data = losing(&[(12, 1), (13, 1), (14, 1), (15, 1), (16, 1), (17, 1), (18, 1), (19, 1)]);
    half.write(20);
    half.run_to_the_end(Duration::from_secs(10));
    let first = half.sent.iter().find(|sent| sent.retransmission).expect("a retransmission");
    assert_eq!(first.at.as_nanos() % tick.as_nanos() as u64, 0, "{first:?}");
    // A round trip of 100 ms reads as one tick, always the same: the RTO is its minimum of 1 s,
    // counted from 0.1 s on and rounded up to the grid.
    assert_eq!(first.at, Time::from_millis(1500), "{first:?}");
}

/// Waits for this many answers to probes before it says that the link was to blame.
#[derive(Debug)]
struct Prober {
    answers: u32,
    due: bool,
    number: u32,
    at: Option<Time>,
    signs: mpsc::Sender<LossSign>,
}

impl Discriminator for Prober {
    fn respond(&mut self, _now: Time, evidence: &LossEvidence) -> LossResponse {
        self.signs.send(evidence.sign).expect("the test listens");
        self.due = true;
        LossResponse::Waiting
    }

    fn poll_probe(&mut self, now: Time) -> Option<Probe> {
        self.number += u32::from(self.due);
        self.at = Some(now + Duration::from_millis(300));
        std::mem::take(&mut self.due).then_some(Probe { number: self.number, ..Probe::default() })
    }

    fn on_probe_answer(&mut self, _now: Time, _answer: ProbeAnswer) -> LossResponse {
        self.answers -= 1;
        self.due = true;
        if self.answers == 0 { LossResponse::Transient } else { LossResponse::Waiting }
    }

    fn on_timeout(&mut self, now: Time) -> LossResponse {
        self.due |= self.at.is_some_and(|at| at <= now);
        LossResponse::Waiting
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.at.map(|at| Deadline { at, timer: "probe" })
    }
}

#[test]
fn while_a_discriminator_waits_only_probes_leave_and_a_transient_loss_leaves_the_window() {
    let (signs, noticed) = mpsc::channel();
    // The acknowledgments of what is on its way answer too: eight of them, then two of probes.
    let discriminator = Prober { answers: 10, due: false, number: 0, at: None, signs };
    let mut half = Half::new(
        SenderConfig { discriminator: Box::new(discriminator), ..config(LossDetection::SACK) },
        1 << 20,
    );
    half.data = losing(&[(2, 1)]);
    half.write(40);
    half.run_until(101);
    let window = half.sender.control().window();
    half.run_to_the_end(Duration::from_secs(10));
    assert_eq!(noticed.try_recv(), Ok(LossSign::Acknowledgments));
    let first_probe = half.sent.iter().position(|sent| sent.probe).expect("a probe");
    let repaired =
        half.sent.iter().position(|sent| sent.segment == 2 && sent.retransmission).expect("a repair");
    assert!(half.sent[first_probe..repaired].iter().all(|sent| sent.probe), "nothing but probes leaves");
    assert!(half.sender.control().window() >= window, "the window stays");
    assert_eq!(half.sender.stats().timeouts, 0);
    assert!(half.sent[repaired].at >= Time::ZERO + DELAY * 2);
}
