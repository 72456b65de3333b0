//! Random networks that change every minute: two ends, and nodes that could stand between them.
use crate::bench::plan::draw::{Draw, Range};
use shorthaul_planner::chain::{Chain, Ends};
use shorthaul_planner::{Leg, Path, Relay, Transfer};
use shorthaul_types::{BitRate, Bytes, Seed};
use std::time::Duration;

/// Nodes of a network.
pub const NODES: usize = 8;
/// What sessions carry.
pub const SIZES: [Bytes; 3] = [Bytes(100_000), Bytes(1_000_000), Bytes(5_000_000)];
/// How ends and nodes speak TCP.
pub const ENDS: Ends = Ends { profile: "cubic", differences: "", model: "cubic", streams: 1 };

/// A connection's way as it is for a minute, and what others take of its rate.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub rtt: f64,
    pub loss: f64,
    pub rate: f64,
    /// Others' sessions for each of ours.
    pub load: f64,
}

/// What all ways of a network are like in a minute: the direct one, then the two legs by each node.
pub type Minute = Vec<Vec<Link>>;

/// Draws from the standard normal distribution (Box and Muller 1958).
pub fn normal(draw: Draw, name: &str) -> f64 {
    let radius = (-2.0 * (1.0 - draw.nth(1).share(name)).ln()).sqrt();
    radius * (std::f64::consts::TAU * draw.nth(2).share(name)).cos()
}

impl Link {
    /// A minute later: back to where it began in a few minutes, but for what chance does meanwhile.
    fn later(&self, begun: &Link, draw: Draw) -> Link {
        let drift = |name: &str, now: f64, begun: f64, by: f64| {
            (0.7 * now.ln() + 0.3 * begun.ln() + by * normal(draw, name)).exp()
        };
        Link {
            rtt: drift("rtt", self.rtt, begun.rtt, 0.08),
            loss: drift("loss", self.loss, begun.loss, 0.4).min(0.05),
            rate: self.rate,
            load: drift("load", self.load, begun.load, 0.5).min(50.0),
        }
    }

    pub fn leg(&self) -> Leg {
        let rate = BitRate::from_bits_per_sec((self.rate / (1.0 + self.load)) as u64);
        Leg::new(Duration::from_secs_f64(self.rtt), self.loss, rate)
    }
}

/// The minutes of a network.
pub fn minutes(seed: Seed, count: u64) -> Vec<Minute> {
    let range = |from, to| Range { from, to };
    let whole = Draw(seed);
    let rtt = whole.decades("rtt", range(0.03, 0.25));
    let loss = whole.decades("loss", range(1e-5, 5e-3));
    let direct = Link { rtt, loss, rate: whole.decades("rate", range(10e6, 200e6)), load: 0.1 };
    let mut begun: Minute = vec![vec![direct]];
    for node in 0..NODES as u64 {
        let draw = Draw(seed.derive("node")).nth(node);
        let (near, detour) = (draw.uniform("near", range(0.1, 0.9)), draw.decades("detour", range(1.0, 1.6)));
        let rate = draw.decades("rate", range(10e6, 400e6));
        let link = |name: &str, part: f64| {
            let draw = Draw(draw.0.derive(name));
            Link {
                rtt: rtt * detour * part,
                loss: loss * part * draw.decades("loss", range(0.3, 3.0)),
                rate,
                load: draw.decades("load", range(0.05, 3.0)),
            }
        };
        begun.push(vec![link("near", near), link("far", 1.0 - near)]);
    }
    let mut all = vec![begun.clone()];
    for minute in 1..count {
        let before = &all[minute as usize - 1];
        let draw = Draw(seed.derive("minute")).nth(minute);
        let next = before.iter().zip(&begun).enumerate().map(|(way, (links, begun))| {
            let links = links.iter().zip(begun).enumerate();
            links
                .map(|(leg, (link, begun))| link.later(begun, draw.nth(2 * way as u64 + leg as u64)))
                .collect()
        });
        all.push(next.collect());
    }
    all
}

/// A session by a way as the simulator runs it.
pub fn scenario(links: &[Link], size: Bytes) -> String {
    let legs: Vec<Leg> = links.iter().map(Link::leg).collect();
    let path = Path { relays: vec![Relay::default(); legs.len() - 1], legs };
    Chain { path, transfer: Transfer::new(size), ends: ENDS }.scenario()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_delay_and_load_of_every_link_change_each_minute() {
        let all = minutes(Seed(23), 12);
        let mut changes = [Vec::new(), Vec::new(), Vec::new()];
        for pair in all.windows(2) {
            for (before, after) in pair[0].iter().flatten().zip(pair[1].iter().flatten()) {
                let of = [(before.rtt, after.rtt), (before.loss, after.loss), (before.load, after.load)];
                for (changes, (before, after)) in changes.iter_mut().zip(of) {
                    changes.push((after / before).ln().abs());
                }
                assert_eq!(before.rate, after.rate, "links stay as wide as they are");
            }
        }
        // Of eleven changes of 17 links each: none stays as it was, and half change by so much.
        for (mut changes, half) in changes.into_iter().zip([0.05, 0.25, 0.3]) {
            changes.sort_by(f64::total_cmp);
            assert_eq!(changes.len(), 11 * (1 + 2 * NODES));
            assert!(
                changes[0] > 0.0 && changes[changes.len() / 2] > half,
                "{:?} {half}",
                changes[changes.len() / 2]
            );
        }
    }
}
