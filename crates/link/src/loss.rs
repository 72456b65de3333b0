//! Random loss: the models, how they are written, and which packets they lose.
use core::fmt;
use core::time::Duration;

use shorthaul_types::{Bytes, Seed, Time, format_duration};
#[cfg(feature = "serde")]
use shorthaul_types::{schema, serde_duration};

use crate::ConfigError;
use crate::distribution::seconds;
use crate::draw::Draw;
#[cfg(feature = "serde")]
use crate::spec_parts::{Probability, Scalar, probability, probability_from, scalar_or_table};
use crate::validate::{positive, probability as is_probability};

/// Which packets are lost at random.
///
/// In files a model is a table such as `{ model = "on-off", on = "1 s", off = "5 s", rate = 0.33 }`; a plain probability
/// is [`LossModel::Bernoulli`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize, schemars::JsonSchema),
    serde(tag = "model", rename_all = "kebab-case", deny_unknown_fields)
)]
pub enum LossModel {
    /// None.
    #[default]
    None,
    /// Every packet with the same probability, independently.
    Bernoulli {
        /// The loss probability, 0 to 1.
        #[cfg_attr(
            feature = "serde",
            serde(deserialize_with = "probability"),
            schemars(with = "Probability")
        )]
        probability: f64,
    },
    /// The classical Gilbert–Elliott chain, which moves once per packet offered. A burst in the bad state
    /// lasts `1 / to_good` packets on average; the share of packets that meet the bad state is
    /// `to_bad / (to_bad + to_good)`.
    GilbertElliott {
        /// The probability of going from good to bad between two packets.
        #[cfg_attr(
            feature = "serde",
            serde(deserialize_with = "probability"),
            schemars(with = "Probability")
        )]
        to_bad: f64,
        /// The probability of going from bad to good between two packets.
        #[cfg_attr(
            feature = "serde",
            serde(deserialize_with = "probability"),
            schemars(with = "Probability")
        )]
        to_good: f64,
        /// The loss probability in the good state (Gilbert's model: 0).
        #[cfg_attr(
            feature = "serde",
            serde(default, deserialize_with = "probability"),
            schemars(with = "Probability")
        )]
        loss_good: f64,
        /// The loss probability in the bad state.
        #[cfg_attr(
            feature = "serde",
            serde(default = "certain", deserialize_with = "probability"),
            schemars(with = "Probability")
        )]
        loss_bad: f64,
    },
    /// Every bit of a packet is wrong with the same probability, independently, and one wrong bit loses the packet: long
    /// packets are lost more often. All bits count that the packet takes of the link, the link layer's own included.
    BitErrors {
        /// The bit error rate, 0 to 1.
        #[cfg_attr(
            feature = "serde",
            serde(deserialize_with = "probability"),
            schemars(with = "Probability")
        )]
        rate: f64,
    },
    /// A two-state Markov chain in continuous time (VDELDROP, PRB §3): errors happen in the on phase
    /// only. The phase that counts is the one in which the packet's serialization ends.
    OnOff {
        /// The mean length of the phase with errors; exponentially distributed.
        #[cfg_attr(feature = "serde", serde(with = "serde_duration"), schemars(with = "schema::Duration"))]
        on: Duration,
        /// The mean length of the phase without errors; exponentially distributed.
        #[cfg_attr(feature = "serde", serde(with = "serde_duration"), schemars(with = "schema::Duration"))]
        off: Duration,
        /// The loss probability during the on phase (the paper's error rate), 0 to 1.
        #[cfg_attr(
            feature = "serde",
            serde(default = "certain", deserialize_with = "probability"),
            schemars(with = "Probability")
        )]
        rate: f64,
        /// Packets share their fate within slots of this length: the rate is then that of lossy time. Zero
        /// decides about every packet anew.
        #[cfg_attr(
            feature = "serde",
            serde(default, with = "serde_duration"),
            schemars(with = "schema::Duration")
        )]
        slot: Duration,
    },
}

impl LossModel {
    /// The share of packets that are lost in the long run, of those that take `on_link` bytes of the link each.
    pub fn mean(&self, on_link: Bytes) -> f64 {
        match *self {
            LossModel::None => 0.0,
            LossModel::Bernoulli { probability } => probability,
            LossModel::BitErrors { rate } => any_bit(rate, on_link),
            LossModel::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                let bad = if to_bad > 0.0 { to_bad / (to_bad + to_good) } else { 0.0 };
                bad * loss_bad + (1.0 - bad) * loss_good
            }
            LossModel::OnOff { on, off, rate, .. } => {
                let (on, off) = (on.as_secs_f64(), off.as_secs_f64());
                if on > 0.0 { rate * on / (on + off) } else { 0.0 }
            }
        }
    }

    /// Whether it decides about each packet by itself, so that losses do not come in bursts.
    pub fn is_independent(&self) -> bool {
        !matches!(self, LossModel::GilbertElliott { .. } | LossModel::OnOff { .. })
    }

    /// Checks what the types leave open.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match *self {
            LossModel::None => Ok(()),
            LossModel::Bernoulli { probability: p } => is_probability("loss", p),
            LossModel::BitErrors { rate } => is_probability("loss.rate", rate),
            LossModel::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                is_probability("loss.to_bad", to_bad)?;
                is_probability("loss.to_good", to_good)?;
                is_probability("loss.loss_good", loss_good)?;
                is_probability("loss.loss_bad", loss_bad)
            }
            LossModel::OnOff { on, off, rate, .. } => {
                positive("loss.on", on)?;
                positive("loss.off", off)?;
                is_probability("loss.rate", rate)
            }
        }
    }
}

/// In words, such as `loss 0.1 %`; empty without loss.
impl fmt::Display for LossModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| libm::round(share * 1e6) / 1e4;
        match *self {
            LossModel::None => Ok(()),
            LossModel::Bernoulli { probability } => write!(f, "loss {} %", percent(probability)),
            LossModel::BitErrors { rate } => write!(f, "bit errors at a rate of {rate:e}"),
            LossModel::GilbertElliott { .. } => {
                write!(f, "loss {} % in bursts (Gilbert-Elliott)", percent(self.mean(Bytes(0))))
            }
            LossModel::OnOff { on, off, rate, .. } => {
                let (on, off) = (format_duration(on), format_duration(off));
                write!(f, "loss {} % in phases of {on}, none in phases of {off}", percent(rate))
            }
        }
    }
}

/// The probability that any bit is wrong: 1 - (1 - rate)^bits, exact for rates that are tiny beside 1.
fn any_bit(rate: f64, on_link: Bytes) -> f64 {
    let bits = 8.0 * on_link.0 as f64;
    if bits > 0.0 { -libm::expm1(bits * libm::log1p(-rate)) } else { 0.0 }
}

/// The share of a table that leaves it out.
#[cfg(feature = "serde")]
fn certain() -> f64 {
    1.0
}

/// How a file's `loss` is read: a probability, or a table.
#[cfg(feature = "serde")]
pub(crate) fn read<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<LossModel>, D::Error> {
    scalar_or_table(
        d,
        "a loss probability such as 0.001 or \"0.1 %\", or a table such as \
         { model = \"on-off\", on = \"1 s\", off = \"5 s\", rate = 0.33 }",
        |scalar| match scalar {
            Scalar::Text("none") => Ok(Some(LossModel::None)),
            scalar => Ok(Some(LossModel::Bernoulli { probability: probability_from(scalar)? })),
        },
        |model| Ok(Some(model)),
    )
}

/// How it is written: a probability, `"none"`, or a table.
#[cfg(feature = "serde")]
pub(crate) fn written(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schema::any_of([
        generator.subschema_for::<Probability>(),
        schema::words(["none"]),
        generator.subschema_for::<LossModel>(),
    ])
}

/// A two-state Markov chain in continuous time, as a function of time. It starts in its stationary
/// distribution, so that a short run is not biased.
#[derive(Clone, Debug)]
pub(crate) struct Phases {
    on: Duration,
    off: Duration,
    draw: Draw,
    origin: Time,
    number: u64,
    is_on: bool,
    since: Time,
    until: Time,
}

impl Phases {
    pub(crate) fn new(on: Duration, off: Duration, draw: Draw, origin: Time) -> Self {
        let mut phases =
            Phases { on, off, draw, origin, number: 0, is_on: false, since: origin, until: origin };
        phases.rewind();
        phases
    }

    fn rewind(&mut self) {
        let (on, off) = (self.on.as_secs_f64(), self.off.as_secs_f64());
        self.number = 0;
        self.is_on = self.draw.happens(0, on / (on + off));
        self.since = self.origin;
        self.until = self.origin;
        self.lengthen();
    }

    /// Draws how long the current phase lasts.
    fn lengthen(&mut self) {
        self.number += 1;
        let mean = if self.is_on { self.on } else { self.off };
        self.until += seconds(mean.as_secs_f64() * self.draw.exponential(self.number));
    }

    /// Whether the chain is in the on state at `t`.
    pub(crate) fn is_on_at(&mut self, t: Time) -> bool {
        if t < self.since && self.since > self.origin {
            self.rewind();
        }
        while t >= self.until && self.until < Time::MAX {
            self.since = self.until;
            self.is_on = !self.is_on;
            self.lengthen();
        }
        self.is_on
    }
}

/// Decides which packets are lost at random.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    model: LossModel,
    /// Whether a packet is lost, given the state.
    draw: Draw,
    /// The transitions of the per-packet chain.
    transitions: Draw,
    /// The state of the per-packet chain; `None` before the first packet.
    is_bad: Option<bool>,
    phases: Option<Phases>,
}

impl Loss {
    pub(crate) fn new(model: LossModel, seed: Seed, origin: Time) -> Self {
        let phases = match model {
            LossModel::OnOff { on, off, .. } => {
                Some(Phases::new(on, off, Draw::of(seed, "loss phases"), origin))
            }
            _ => None,
        };
        let transitions = Draw::of(seed, "loss transitions");
        Loss { model, draw: Draw::of(seed, "loss"), transitions, is_bad: None, phases }
    }

    /// The loss probability of packet `index`, which takes `on_link` bytes of the link, where the model does not go by time.
    /// Called once for every packet offered, in order, so that the chain does not depend on what the queue accepts.
    pub(crate) fn step(&mut self, index: u64, on_link: Bytes) -> f64 {
        match self.model {
            LossModel::None | LossModel::OnOff { .. } => 0.0,
            LossModel::Bernoulli { probability } => probability,
            LossModel::BitErrors { rate } => any_bit(rate, on_link),
            LossModel::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                let turn_bad = match self.is_bad {
                    // the first packet meets the stationary distribution
                    None if to_bad > 0.0 => to_bad / (to_bad + to_good),
                    None => 0.0,
                    Some(false) => to_bad,
                    Some(true) => 1.0 - to_good,
                };
                let is_bad = self.transitions.happens(index, turn_bad);
                self.is_bad = Some(is_bad);
                if is_bad { loss_bad } else { loss_good }
            }
        }
    }

    /// Whether packet `index` is lost, for which [`step`](Self::step) said `per_packet`, and whose
    /// serialization ends at `departure`.
    pub(crate) fn loses(&mut self, index: u64, per_packet: f64, departure: Time) -> bool {
        let mut index = index;
        let probability = match (&mut self.phases, self.model) {
            (Some(phases), LossModel::OnOff { rate, slot, .. }) => {
                if slot > Duration::ZERO {
                    index = (u128::from(departure.as_nanos()) / slot.as_nanos()) as u64;
                }
                if phases.is_on_at(departure) { rate } else { 0.0 }
            }
            _ => per_packet,
        };
        probability > 0.0 && self.draw.happens(index, probability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(model: LossModel, n: u64, spacing: Duration) -> impl Iterator<Item = bool> {
        let mut loss = Loss::new(model, Seed(11), Time::ZERO);
        (0..n).map(move |i| {
            let p = loss.step(i, Bytes(1500));
            loss.loses(i, p, Time::from_nanos(i * spacing.as_nanos() as u64))
        })
    }

    fn share(lost: impl Iterator<Item = bool>, n: u64) -> f64 {
        lost.filter(|lost| *lost).count() as f64 / n as f64
    }

    /// The mean length of the runs of `true`.
    fn mean_burst(lost: impl Iterator<Item = bool>) -> f64 {
        let (mut bursts, mut total, mut before) = (0u64, 0u64, false);
        for now in lost {
            total += u64::from(now);
            bursts += u64::from(now && !before);
            before = now;
        }
        total as f64 / bursts as f64
    }

    #[test]
    fn bernoulli_loses_its_share_independently() {
        for p in [0.0, 0.001, 0.02, 0.33, 1.0] {
            let n = 1_000_000;
            let model = LossModel::Bernoulli { probability: p };
            let got = share(losses(model, n, Duration::ZERO), n);
            let sigma = (p * (1.0 - p) / n as f64).sqrt();
            assert!((got - p).abs() <= 4.0 * sigma, "{got} for {p}");
        }
        let burst = mean_burst(losses(LossModel::Bernoulli { probability: 0.2 }, 500_000, Duration::ZERO));
        assert!((burst - 1.0 / 0.8).abs() < 0.02, "{burst}");
    }

    #[test]
    fn long_packets_meet_more_bit_errors_than_short_ones() {
        // One bit in 64 KiB: 1 - (1 - rate)^11200 and 1 - (1 - rate)^320.
        let rate = 1.0 / (65_536.0 * 8.0);
        let lost = |bytes, rate| {
            let mut loss = Loss::new(LossModel::BitErrors { rate }, Seed(3), Time::ZERO);
            let n = 400_000;
            (0..n)
                .filter(|&i| {
                    let p = loss.step(i, Bytes(bytes));
                    loss.loses(i, p, Time::ZERO)
                })
                .count() as f64
                / n as f64
        };
        let within =
            |got: f64, expected: f64| assert!((got - expected).abs() < 0.001, "{got} for {expected}");
        within(lost(1400, rate), 0.02114);
        within(lost(40, rate), 0.00061);
        within(lost(0, rate), 0.0);
        within(lost(1, 1.0), 1.0);
        within(lost(1, 0.5), 1.0 - 1.0 / 256.0);
    }

    #[test]
    fn the_mean_share_is_what_is_lost_in_the_long_run() {
        let secs = Duration::from_secs;
        for (model, words) in [
            (LossModel::None, ""),
            (LossModel::Bernoulli { probability: 0.02 }, "loss 2 %"),
            (LossModel::BitErrors { rate: 1e-6 }, "bit errors at a rate of 1e-6"),
            (
                LossModel::GilbertElliott { to_bad: 0.02, to_good: 0.08, loss_good: 0.01, loss_bad: 0.5 },
                "loss 10.8 % in bursts (Gilbert-Elliott)",
            ),
            (
                LossModel::OnOff { on: secs(1), off: secs(5), rate: 0.33, slot: Duration::ZERO },
                "loss 33 % in phases of 1 s, none in phases of 5 s",
            ),
        ] {
            let n = 2_000_000;
            let got = share(losses(model, n, Duration::from_millis(20)), n);
            let expected = model.mean(Bytes(1500));
            assert!((got - expected).abs() < 0.002, "{model:?}: {got} for {expected}");
            assert_eq!(alloc::string::ToString::to_string(&model), words);
        }
    }

    #[test]
    fn gilbert_elliott_has_its_burst_length_and_share() {
        let n = 2_000_000;
        let gilbert =
            LossModel::GilbertElliott { to_bad: 0.01, to_good: 0.25, loss_good: 0.0, loss_bad: 1.0 };
        let got = share(losses(gilbert, n, Duration::ZERO), n);
        assert!((got - 0.01 / 0.26).abs() < 0.001, "{got}");
        let burst = mean_burst(losses(gilbert, n, Duration::ZERO));
        assert!((burst - 4.0).abs() < 0.1, "{burst}");
        let elliott =
            LossModel::GilbertElliott { to_bad: 0.02, to_good: 0.08, loss_good: 0.01, loss_bad: 0.5 };
        let got = share(losses(elliott, n, Duration::ZERO), n);
        assert!((got - (0.8 * 0.01 + 0.2 * 0.5)).abs() < 0.002, "{got}");
    }

    #[test]
    fn on_off_is_on_for_its_share_of_the_time() {
        // PRB's 1/5 phases with an error rate of 33 %
        let (on, off) = (Duration::from_secs(1), Duration::from_secs(5));
        let n = 10_000_000;
        let model = LossModel::OnOff { on, off, rate: 0.33, slot: Duration::ZERO };
        let got = share(losses(model, n, Duration::from_millis(10)), n);
        assert!((got - 0.33 / 6.0).abs() < 0.001, "{got}");

        let certain = LossModel::OnOff { on, off, rate: 1.0, slot: Duration::ZERO };
        let burst = mean_burst(losses(certain, n, Duration::from_millis(10)));
        // a phase of mean 1 s, sampled every 10 ms and seen only when at least one sample falls into it
        assert!((burst - 100.0).abs() < 2.5, "{burst}");
    }

    #[test]
    fn packets_of_a_slot_share_their_fate() {
        let secs = Duration::from_secs;
        let slot = Duration::from_millis(100);
        let model = LossModel::OnOff { on: secs(4), off: secs(5), rate: 0.1, slot };
        let n = 2_000_000;
        let lost: alloc::vec::Vec<bool> = losses(model, n, Duration::from_millis(10)).collect();
        let got = share(lost.iter().copied(), n);
        assert!((got - 0.1 * 4.0 / 9.0).abs() < 0.003, "{got}");
        // Ten packets a slot; a phase may end within one, and a tenth is followed by another.
        let burst = mean_burst(lost.into_iter());
        assert!((10.0..11.5).contains(&burst), "{burst}");
    }

    #[test]
    fn phases_start_in_their_stationary_distribution() {
        let secs = Duration::from_secs;
        let starts_on =
            |i| Phases::new(secs(1), secs(5), Draw::of(Seed(i), "test"), Time::ZERO).is_on_at(Time::ZERO);
        let share = (0..20_000).filter(|i| starts_on(*i)).count() as f64 / 20_000.0;
        assert!((share - 1.0 / 6.0).abs() < 0.01, "{share}");
    }

    #[test]
    fn phases_are_a_function_of_time() {
        let secs = Duration::from_secs;
        let new = || Phases::new(secs(1), secs(2), Draw::of(Seed(4), "test"), Time::from_secs(50));
        let mut forward = new();
        let states: alloc::vec::Vec<bool> =
            (0..1000).map(|i| forward.is_on_at(Time::from_millis(50_000 + i * 100))).collect();
        let mut any_order = new();
        for i in (0..1000).rev().step_by(7) {
            assert_eq!(any_order.is_on_at(Time::from_millis(50_000 + i * 100)), states[i as usize], "{i}");
        }
    }
}
