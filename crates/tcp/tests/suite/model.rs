//! Every recovery with every discriminator and every congestion control on paths that lose, delay and
//! duplicate by chance, and then heal: the sums are right at each step, nothing leaves that may not,
//! and everything arrives.
use crate::half::{Fate, Half, MSS};
use shorthaul_congestion::{Algorithm, ControlParams};
use shorthaul_tcp::{
    Discrimination, Discriminator, LossDetection, LossEvidence, LossResponse, Probe, ProbeAnswer, ProbedPeer,
    SenderConfig,
};
use shorthaul_testkit::{Chance, each_seed};
use shorthaul_types::{Bytes, Deadline, Time};
use std::time::Duration;

const SEGMENTS: u64 = 400;
/// When the path heals.
const HEALED: Time = Time::from_millis(4_000);

/// What a path does by chance.
pub fn fate(chance: &mut Chance, loss: u64) -> Fate {
    if chance.happens(loss) {
        Fate::Drop
    } else if chance.happens(30) {
        Fate::Late(Duration::from_millis(chance.below(400)))
    } else if chance.happens(20) {
        Fate::Twice
    } else {
        Fate::Pass
    }
}

/// Responds by chance, and probes before some of its responses.
#[derive(Debug)]
struct ByChance {
    chance: Chance,
    due: bool,
    at: Option<Time>,
}

impl ByChance {
    fn rule(&mut self) -> LossResponse {
        match self.chance.number() % 5 {
            0 => LossResponse::Transient,
            1 => LossResponse::Mild,
            2 => LossResponse::Severe,
            3 => LossResponse::Decrease { percent: 75 },
            _ => {
                self.due = true;
                LossResponse::Waiting
            }
        }
    }
}

impl Discriminator for ByChance {
    fn respond(&mut self, _now: Time, _evidence: &LossEvidence) -> LossResponse {
        self.rule()
    }

    fn poll_probe(&mut self, now: Time) -> Option<Probe> {
        std::mem::take(&mut self.due).then(|| {
            self.at = Some(now + Duration::from_millis(250));
            Probe::default()
        })
    }

    fn on_probe_answer(&mut self, _now: Time, _answer: ProbeAnswer) -> LossResponse {
        self.rule()
    }

    fn on_timeout(&mut self, now: Time) -> LossResponse {
        if self.at.is_some_and(|at| at <= now) {
            self.at = None;
            self.due = true;
        }
        LossResponse::Waiting
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.at.map(|at| Deadline { at, timer: "probe" })
    }
}

/// Says what the losses of a run mean.
#[derive(Clone, Copy, Debug)]
enum Judge {
    Real(Discrimination),
    Chance,
}

/// Every congestion control by name, and a fixed window.
pub fn controls() -> impl Iterator<Item = Algorithm> {
    Algorithm::NAMED.iter().copied().chain([Algorithm::Fixed(Bytes(30_000))])
}

fn run(algorithm: Algorithm, detection: LossDetection, sack: bool, judge: Judge, seed: u64) {
    let what = format!("{algorithm}, {detection}, sack {sack}, {judge:?}, seed {seed}");
    let mut chance = Chance(seed);
    let paced = chance.happens(500);
    let peer = if sack { ProbedPeer::SendsDSack } else { ProbedPeer::Plain };
    let discriminator: Box<dyn Discriminator> = match judge {
        Judge::Chance => Box::new(ByChance { chance: Chance(seed ^ 1), due: false, at: None }),
        Judge::Real(discrimination) => discrimination.build(Time::ZERO, peer),
    };
    let params = ControlParams { paced, ..ControlParams::new(MSS as u32, Time::ZERO) };
    let config = SenderConfig {
        loss_detection: detection,
        discriminator,
        sack,
        pacing: paced,
        f_rto: chance.happens(500),
        nagle: chance.happens(500),
        ..SenderConfig::new(MSS as u32, algorithm.build(params))
    };
    let window = 20_000 + chance.number() % 200_000;
    let mut half = Half::new(config, window);
    half.write(SEGMENTS);
    let loss = [0, 5, 50, 300][(chance.number() % 4) as usize];
    let mut there = chance.clone();
    half.data = Box::new(move |_, sent| if sent.at < HEALED { fate(&mut there, loss) } else { Fate::Pass });
    let mut back = Chance(seed ^ 2);
    let dropped = 100;
    half.acks = Box::new(move |n| if n < dropped { fate(&mut back, loss) } else { Fate::Pass });

    let deadline = Time::from_millis(900_000);
    let mut seen = 0;
    while !half.sender.is_idle() {
        assert!(half.step(deadline), "{what}: stuck at {}: {:#?}", half.now, half.sender);
        let mss = u64::from(half.sender.mss());
        assert!(half.sender.control().window() >= mss, "{what}: the window is below one segment");
        for sent in &half.sent[seen..] {
            let end = sent.segment * MSS + sent.bytes;
            assert!(end <= half.receiver.edge(), "{what}: sent beyond the window: {sent:?}");
        }
        seen = half.sent.len();
        assert!(half.sender.una() <= half.receiver.next(), "{what}: acknowledged without having arrived");
        assert!(seen < 100_000, "{what}: {seen} segments for {SEGMENTS}");
    }
    assert_eq!(half.receiver.data_end(), 1 + SEGMENTS * MSS, "{what}");
    assert!(!half.sender.has_given_up(), "{what}");
}

/// Every control with every detector, with SACK and without.
fn each_combination(mut run: impl FnMut(Algorithm, LossDetection, bool)) {
    for algorithm in controls() {
        for &detection in LossDetection::ALL {
            for sack in [true, false] {
                run(algorithm, detection, sack);
            }
        }
    }
}

#[test]
fn everything_arrives_whatever_the_parts() {
    each_seed(1..7, |seed| {
        each_combination(|algorithm, detection, sack| {
            run(algorithm, detection, sack, Judge::Chance, seed);
            run(algorithm, detection, sack, Judge::Real(Discrimination::EVERY_LOSS), seed);
        });
    });
}

#[test]
fn everything_arrives_whatever_the_discriminator() {
    each_seed(1..4, |seed| {
        each_combination(|algorithm, detection, sack| {
            for &discrimination in Discrimination::ALL {
                run(algorithm, detection, sack, Judge::Real(discrimination), seed);
            }
        });
    });
}
