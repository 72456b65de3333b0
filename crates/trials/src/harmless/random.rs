//! Paths that nobody chose: drawn from a seed, to judge the gateway where nobody has tuned it.
use super::matrix::{self, Path};
use crate::error::Result;
use shorthaul_types::Seed;
use std::fmt::Write as _;

/// Rates of the two links, in Mbit/s.
const RATES: [(f64, f64); 2] = [(2.0, 300.0), (2.0, 1000.0)];
/// Delays, one way, in ms.
const DELAY: (f64, f64) = (1.0, 80.0);
/// What queues hold, in ms of their link's rate, but at least [`LEAST_QUEUE`].
const QUEUE: (f64, f64) = (10.0, 400.0);
/// Bytes that a queue holds at least.
const LEAST_QUEUE: f64 = 20_000.0;
/// How much slower the access link is upward.
const SLOWER: [f64; 5] = [1.0, 1.0, 2.0, 4.0, 10.0];
/// What the two links lose, in percent.
const LOSSES: [[f64; 5]; 2] = [[0.0, 0.0, 0.05, 0.3, 1.0], [0.0, 0.0, 0.0, 0.0, 0.1]];

/// What is drawn by name, so that one thing more leaves the others as they are.
struct Draw(Seed);

impl Draw {
    /// From 0 to 1.
    fn part(&self, name: &str) -> f64 {
        self.0.derive(name).0 as f64 / u64::MAX as f64
    }

    /// Between two bounds, each doubling as likely as any other.
    fn between(&self, name: &str, (least, most): (f64, f64)) -> f64 {
        least * (most / least).powf(self.part(name))
    }

    fn pick(&self, name: &str, from: &[f64]) -> f64 {
        from[((self.part(name) * from.len() as f64) as usize).min(from.len() - 1)]
    }

    /// The link of this name, with what else belongs to it.
    fn link(&self, name: &str, number: usize, rest: impl FnOnce(f64) -> String) -> String {
        let of = |what: &str| format!("{name} {what}");
        let rate = self.between(&of("rate"), RATES[number]);
        let delay = self.between(&of("delay"), DELAY);
        let queue = (rate * 125.0 * self.between(&of("queue"), QUEUE)).max(LEAST_QUEUE);
        let loss = self.pick(&of("loss"), &LOSSES[number]);
        format!(
            "{name} = {{ rate = \"{:.0} kbit/s\", delay = \"{:.0} us\", queue = \"{queue:.0} B\", loss = \"{loss} %\"{} }}\n",
            rate * 1e3,
            delay * 1e3,
            rest(rate),
        )
    }
}

/// This many paths, and the file that says what they are.
pub(super) fn paths(count: u32, seed: u64) -> Result<(Vec<Path>, String)> {
    let mut text = String::new();
    for number in 0..count {
        let draw = Draw(Seed(seed).derive("harmless path").nth(u64::from(number)));
        let access = draw.link("access", 0, |rate| {
            format!(", up = {{ rate = \"{:.0} kbit/s\" }}", rate / draw.pick("slower", &SLOWER) * 1e3)
        });
        let wan = draw.link("wan", 1, |_| String::new());
        let _ =
            write!(text, "[[path]]\nname = \"random-{seed}-{number}\"\nabout = \"drawn\"\n{access}{wan}\n");
    }
    Ok((matrix::read("drawn paths", &text)?, text))
}

#[cfg(test)]
mod tests {
    use super::super::runs::Cell as _;
    use super::*;

    #[test]
    fn drawn_paths_make_sense_and_are_the_same_again() {
        let (drawn, text) = paths(40, 7).unwrap();
        for cell in matrix::cells(&drawn) {
            cell.check(&[]).unwrap();
        }
        assert_eq!(paths(40, 7).unwrap().1, text);
        let (first, second) = (text.split("[[path]]").nth(1), text.split("[[path]]").nth(2));
        assert_ne!(first, second, "each is another one");
        assert_ne!(paths(40, 8).unwrap().1, text);
    }
}
