//! Which of several nodes that would do a client takes, so that many clients share them: no clock, no I/O, and chance is given.
use shorthaul_types::BitRate;
use std::time::Duration;

/// What a node told of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// How much it can do, in any unit that all have in common: such as packets a second, the inverse of a service time.
    pub strength: f64,
    /// What it can forward in all, if it tells that; `strength` is then that number for all nodes that are compared.
    pub rate: Option<BitRate>,
    /// Sessions that it has: those on which something moves, where it tells that.
    pub sessions: f64,
    /// How long ago it told that.
    pub age: Duration,
}

impl Load {
    /// Of a node that tells what it can forward in all.
    pub fn of_rate(rate: BitRate, sessions: f64, age: Duration) -> Load {
        Load { strength: rate.bits_per_sec() as f64, rate: Some(rate), sessions, age }
    }

    /// What one more session gets of what the node can forward, if all have the same part, and `more` have come since it told that.
    /// `None` where it does not tell what it can.
    pub fn share(&self, more: u32) -> Option<BitRate> {
        let sessions = if self.sessions.is_finite() { self.sessions.max(0.0) } else { 0.0 };
        let share = |rate: BitRate| rate.bits_per_sec() as f64 / (sessions + f64::from(more) + 1.0);
        self.rate.map(|rate| BitRate::from_bits_per_sec(share(rate) as u64))
    }
}

/// After this time, what was told of sessions counts for 1/e, and the mean of all nodes for the rest.
const FADES: Duration = Duration::from_secs(10);

/// The number of the node to take; `None` without any. `uniform` draws from 0 to below 1.
///
/// Two are drawn, each with a probability proportional to its strength, and the one is taken at which a session is expected to be done
/// earlier: "the power of two choices" (Mitzenmacher 2001, IEEE Transactions on Parallel and Distributed Systems 12), for nodes of unequal strength.
/// That all take the best of all is right only as long as what they know is new: what was told a second ago sends
/// everybody to the same node. Two draws spread what is known and old about as well as what is new; drawing two alike, whatever their strength, would leave
/// the slow ones with too much.
pub fn choose(nodes: &[Load], mut uniform: impl FnMut() -> f64) -> Option<usize> {
    let strength = usable;
    let all: f64 = nodes.iter().map(strength).sum();
    if nodes.len() < 2 || all <= 0.0 {
        return (!nodes.is_empty()).then_some(0);
    }
    let mean: f64 = nodes.iter().map(|node| node.sessions.max(0.0)).sum::<f64>() / all;
    // Sessions for what it can do: how long one takes there, beside the others.
    let expected = |node: &Load| {
        let counts = (-node.age.as_secs_f64() / FADES.as_secs_f64()).exp();
        let strength = strength(node).max(f64::MIN_POSITIVE);
        (counts * node.sessions.max(0.0) / strength + (1.0 - counts) * mean) + 1.0 / strength
    };
    let weights: Vec<f64> = nodes.iter().map(strength).collect();
    let mut draw = || draw(&weights, uniform());
    let (first, second) = (draw()?, draw()?);
    Some(if expected(&nodes[second]) < expected(&nodes[first]) { second } else { first })
}

fn usable(node: &Load) -> f64 {
    if node.strength.is_finite() { node.strength.max(0.0) } else { 0.0 }
}

/// The number of a weight, as probable as it is large.
fn draw(weights: &[f64], uniform: f64) -> Option<usize> {
    let mut left = uniform.clamp(0.0, 1.0) * weights.iter().sum::<f64>();
    let at = weights.iter().position(|weight| {
        left -= weight;
        left < 0.0
    });
    at.or_else(|| weights.iter().rposition(|weight| *weight > 0.0))
}

/// Two nodes to compare, by their numbers, each drawn with a probability proportional to its strength; or one, or none, where there are no two
/// that can do anything.
///
/// They are two different ones: whoever asks both how they are, and draws the strong one twice, has not compared.
pub fn two(nodes: &[Load], mut uniform: impl FnMut() -> f64) -> Vec<usize> {
    let mut weights: Vec<f64> = nodes.iter().map(usable).collect();
    let mut drawn = Vec::with_capacity(2);
    while drawn.len() < 2
        && let Some(at) = draw(&weights, uniform())
    {
        drawn.push(at);
        weights[at] = 0.0;
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_what_one_more_session_gets() {
        let load = Load::of_rate(BitRate::from_bits_per_sec(90_000_000), 7.0, Duration::ZERO);
        assert_eq!(load.share(1), Some(BitRate::from_bits_per_sec(10_000_000)));
        assert_eq!(Load { rate: None, ..load }.share(1), None);
        assert_eq!(Load { sessions: f64::NAN, ..load }.share(0), load.rate);
    }

    #[test]
    fn two_that_are_compared_are_two() {
        let load = |strength| Load { strength, rate: None, sessions: 0.0, age: Duration::ZERO };
        assert!(two(&[], || 0.5).is_empty());
        assert_eq!(two(&[load(0.0), load(2.0), load(f64::NAN)], || 0.999), [1]);
        for uniform in [0.0, 0.3, 0.6, 0.999_999, 1.0] {
            let drawn = two(&[load(1.0), load(9.0), load(0.0)], || uniform);
            assert!(drawn == [0, 1] || drawn == [1, 0], "{uniform}: {drawn:?}");
        }
    }

    #[test]
    fn the_weak_and_the_busy_have_less() {
        let load = |strength, sessions| Load { strength, rate: None, sessions, age: Duration::ZERO };
        assert_eq!(choose(&[], || 0.5), None);
        assert_eq!(choose(&[load(0.0, 3.0)], || 0.5), Some(0));
        let nodes = [load(1.0, 0.0), load(9.0, 0.0), load(9.0, 90.0)];
        let mut counts = [0; 3];
        let mut drawn = 0u32;
        for _ in 0..1000 {
            let taken = choose(&nodes, || {
                drawn = drawn.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
                f64::from(drawn >> 8) / f64::from(1u32 << 24)
            });
            counts[taken.unwrap()] += 1;
        }
        assert!(counts[1] > 600 && counts[0] < 150 && counts[2] < 300, "{counts:?}");
    }
}
