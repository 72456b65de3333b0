//! What is compared: a congestion control on a path.
use std::collections::BTreeMap;
use std::time::Duration;

use shorthaul_link::{LinkConfig, LossModel, QueueLimit, Rate, Reordering};
use shorthaul_planner::Leg;
use shorthaul_planner::model::by_name;
use shorthaul_types::{BitRate, Bytes, Seed, format_duration};

use crate::endpoint::place::Path;

/// A congestion control that both have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Control {
    Cubic,
    Reno,
}

impl Control {
    pub const ALL: [Control; 2] = [Control::Cubic, Control::Reno];

    /// The kernel's name, which is also that of the planner's model.
    pub fn kernel(self) -> &'static str {
        match self {
            Control::Cubic => "cubic",
            Control::Reno => "reno",
        }
    }

    /// Our profile.
    pub fn profile(self) -> &'static str {
        match self {
            Control::Cubic => "cubic",
            Control::Reno => "sack-reno",
        }
    }
}

/// What happens to packets beyond queueing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    /// This share of the data packets is lost at random.
    Loss(f64),
    /// This share of the data packets is overtaken by those that follow within a tenth of the round trip.
    Reordering(f64),
}

impl Trouble {
    /// For people.
    pub fn label(self) -> String {
        let percent = |share: f64| format!("{} %", (share * 1e6).round() / 1e4);
        match self {
            Trouble::Loss(share) => format!("loss {}", percent(share)),
            Trouble::Reordering(share) => format!("reordering {}", percent(share)),
        }
    }
}

/// One cell of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParityCase {
    pub control: Control,
    pub rate: BitRate,
    /// Without queueing.
    pub round_trip: Duration,
    pub trouble: Trouble,
}

/// How long a transfer should take: start-up is part of it, and not most of it.
const TARGET: Duration = Duration::from_secs(8);
const MBIT: u64 = 1_000_000;

impl ParityCase {
    /// All cells, in the order of the table.
    pub fn all() -> Vec<ParityCase> {
        let troubles =
            [0.0, 0.0001, 0.001, 0.01].map(Trouble::Loss).into_iter().chain([Trouble::Reordering(0.01)]);
        let slow = [20, 100, 300].into_iter().flat_map(|millis| {
            let round_trip = Duration::from_millis(millis);
            troubles.clone().map(move |trouble| (BitRate::from_bits_per_sec(100 * MBIT), round_trip, trouble))
        });
        let fast = (BitRate::from_bits_per_sec(1000 * MBIT), Duration::from_millis(100), Trouble::Loss(0.0));
        let paths: Vec<_> = slow.chain([fast]).collect();
        let with = |control| {
            let cell =
                move |&(rate, round_trip, trouble): &_| ParityCase { control, rate, round_trip, trouble };
            paths.iter().map(cell).collect::<Vec<_>>()
        };
        Control::ALL.into_iter().flat_map(with).collect()
    }

    /// As on the command line: `cubic-100M-20ms-loss0.1`.
    pub fn name(&self) -> String {
        let percent = |share: f64| (share * 1e6).round() / 1e4;
        let trouble = match self.trouble {
            Trouble::Loss(share) => format!("loss{}", percent(share)),
            Trouble::Reordering(share) => format!("reordering{}", percent(share)),
        };
        let rate = self.rate.bits_per_sec() / MBIT;
        format!("{}-{rate}M-{}ms-{trouble}", self.control.kernel(), self.round_trip.as_millis())
    }

    /// Path and trouble: what cells of different controls may share.
    pub fn name_of_path(&self) -> String {
        ParityCase { control: Control::Cubic, ..*self }.name()
    }

    /// The path, for people.
    pub fn path_label(&self) -> String {
        format!("{}, {}", self.rate, format_duration(self.round_trip))
    }

    /// This much of the kernel's goodput should ours be at least.
    pub fn bound(&self) -> f64 {
        if self.is_fast() { 0.9 } else { 0.95 }
    }

    /// Too fast for two transfers at the same time on a small machine.
    pub fn is_fast(&self) -> bool {
        self.rate.bits_per_sec() > 500 * MBIT
    }

    fn bdp(&self) -> u64 {
        self.rate.bytes_in(self.round_trip).0
    }

    /// How much is sent: what the planner's model of this control moves in [`TARGET`].
    pub fn amount(&self, quick: bool) -> Bytes {
        let loss = match self.trouble {
            Trouble::Loss(share) => share,
            Trouble::Reordering(_) => 0.0,
        };
        let leg = Leg::new(self.round_trip, loss, self.rate);
        let model = by_name(self.control.kernel()).expect("the planner has a model of this control");
        let time = |segments: f64| model.times(&leg, &[segments]).first().copied().unwrap_or(f64::MAX);
        let target = TARGET.as_secs_f64() / if quick { 2.0 } else { 1.0 };
        let (mut low, mut high) = (1.0, 2e6);
        while high - low > 1.0 {
            let middle = f64::midpoint(low, high);
            if time(middle) < target { low = middle } else { high = middle }
        }
        // To two digits, which is as exact as the model.
        let bytes = low * f64::from(leg.framing.mss());
        let unit = 10f64.powf(bytes.log10().floor() - 1.0);
        Bytes(((bytes / unit).round() * unit) as u64)
    }

    /// More than the path can hold, for the buffers of both ends.
    pub fn buffer(&self) -> Bytes {
        Bytes((6 * self.bdp()).max(8 << 20))
    }

    /// The lab; the same `seed` loses the same packets.
    pub fn path(&self, seed: Seed) -> Path {
        let delay = self.round_trip / 2;
        let rate = Rate::Fixed(self.rate);
        let queue = QueueLimit::Bytes(self.bdp());
        let up = LinkConfig { rate: rate.clone(), delay, queue, ..LinkConfig::default() };
        let up = match self.trouble {
            Trouble::Loss(share) if share > 0.0 => {
                LinkConfig { loss: LossModel::Bernoulli { probability: share }, ..up }
            }
            Trouble::Loss(_) => up,
            Trouble::Reordering(share) => {
                LinkConfig { reordering: Some(Reordering { share, by: self.round_trip / 10 }), ..up }
            }
        };
        let down = LinkConfig { rate, delay, queue, ..LinkConfig::default() };
        let most = self.buffer().0;
        // The kernel counts its own bookkeeping as received: twice is enough.
        let sysctl = BTreeMap::from([
            ("net.ipv4.tcp_rmem".to_owned(), format!("4096 {most} {}", 2 * most)),
            ("net.ipv4.tcp_wmem".to_owned(), format!("4096 1048576 {}", 2 * most)),
        ]);
        Path { up, down, mtu: 1500, sysctl, seed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_promised_one() {
        let cells = ParityCase::all();
        assert_eq!(cells.len(), 2 * (3 * 5 + 1));
        let mut names: Vec<String> = cells.iter().map(ParityCase::name).collect();
        assert_eq!(names[2], "cubic-100M-20ms-loss0.1");
        assert!(names.contains(&"reno-1000M-100ms-loss0".to_owned()));
        assert!(names.contains(&"reno-100M-300ms-reordering1".to_owned()));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), cells.len());
    }

    #[test]
    fn amounts_fit_the_path_and_are_halved_when_it_has_to_be_quick() {
        for cell in ParityCase::all() {
            let (whole, half) = (cell.amount(false).0, cell.amount(true).0);
            assert!(half < whole, "{}", cell.name());
            let line = cell.rate.bytes_in(TARGET).0;
            assert!((line / 400..line).contains(&whole), "{}: {whole}", cell.name());
        }
    }

    #[test]
    fn only_data_is_troubled_and_the_queue_is_one_bandwidth_delay_product() {
        for cell in ParityCase::all() {
            let path = cell.path(Seed(1));
            assert_eq!(path.down.loss, LossModel::None);
            assert_eq!(path.down.reordering, None);
            let bdp = cell.rate.bits_per_sec() / 8 * cell.round_trip.as_millis() as u64 / 1000;
            assert_eq!(path.up.queue, QueueLimit::Bytes(bdp), "{}", cell.name());
        }
    }
}
