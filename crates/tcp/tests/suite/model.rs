//! Every recovery with every discriminator and every congestion control on paths that lose, delay and
//! duplicate by chance, and then heal: the sums are right at each step, nothing leaves that may not,
//! and everything arrives.
use crate::half::{Fate, Half, MSS};
use shorthaul_congestion::{Algorithm, ControlParams};
use shorthaul_tcp::{
    Discrimination, Discriminator, LossDetection, LossEvidence, LossResponse, Probe, ProbeAnswer, ProbedPeer,
    SenderConfig,
};
use shorthaul_types::{Bytes, Deadline, Time};
use std::time::Duration;

const SEGMENTS: u64 = 400;
/// When the path heals.
const HEALED: Time = Time::from_millis(4_000);

/// Seeded chance: SplitMix64.
#[derive(Clone, Debug)]
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn draw(&mut self, per_mille: u64) -> bool {
        self.next() % 1000 < per_mille
    }

    pub fn fate(&mut self, loss: u64) -> Fate {
        if self.draw(loss) {
            Fate::Drop
        } else if self.draw(30) {
            Fate::Late(Duration::from_millis(self.next() % 400))
        } else if self.draw(20) {
            Fate::Twice
        } else {
            Fate::Pass
        }
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
        match self.chance.next() % 5 {
            0 => LossResponse::Transient,
            1 => LossResponse::Mild,
            2 => LossResponse::Severe,
            3 => LossResponse::Gentle,
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
    let paced = chance.draw(500);
    let peer = if sack { ProbedPeer::Reporting } else { ProbedPeer::Plain };
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
        f_rto: chance.draw(500),
        nagle: chance.draw(500),
        ..SenderConfig::new(MSS as u32, algorithm.build(params))
    };
    let window = 20_000 + chance.next() % 200_000;
    let mut half = Half::new(config, window);
    half.write(SEGMENTS);
    let loss = [0, 5, 50, 300][(chance.next() % 4) as usize];
    let mut there = chance.clone();
    half.data = Box::new(move |_, sent| if sent.at < HEALED { there.fate(loss) } else { Fate::Pass });
    let mut back = Chance(seed ^ 2);
    let dropped = 100;
    half.acks = Box::new(move |n| if n < dropped { back.fate(loss) } else { Fate::Pass });

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

/// The first of the seeds that are drawn.
pub fn first_seed() -> u64 {
    let first = match std::env::var("SEED") {
        Ok(seed) => seed.parse().expect("SEED is a number"),
        Err(_) => 1,
    };
    println!("seeds from {first}; SEED=<number> chooses others");
    first
}

#[test]
fn everything_arrives_whatever_the_parts() {
    let first = first_seed();
    for algorithm in controls() {
        for &detection in LossDetection::ALL {
            for sack in [true, false] {
                for seed in first..first + 6 {
                    run(algorithm, detection, sack, Judge::Chance, seed);
                    run(algorithm, detection, sack, Judge::Real(Discrimination::EveryLoss), seed);
                }
                for (_, discrimination) in Discrimination::ALL {
                    for seed in first..first + 3 {
                        run(algorithm, detection, sack, Judge::Real(discrimination), seed);
                    }
                }
            }
        }
    }
}
