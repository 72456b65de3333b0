//! Which of several nodes that would do a client takes, so that many clients share them: no clock, no I/O, and chance is given.
use std::time::Duration;

/// What a node told of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// How much it can do, in any unit that all have in common: such as packets a second, the inverse of a service time.
    pub strength: f64,
    /// Sessions that it has.
    pub sessions: f64,
    /// How long ago it told that.
    pub age: Duration,
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
    let strength = |node: &Load| if node.strength.is_finite() { node.strength.max(0.0) } else { 0.0 };
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
    let mut draw = || {
        let mut left = uniform().clamp(0.0, 1.0) * all;
        let at = nodes.iter().position(|node| {
            left -= strength(node);
            left < 0.0
        });
        at.unwrap_or(nodes.len() - 1)
    };
    let (first, second) = (draw(), draw());
    Some(if expected(&nodes[second]) < expected(&nodes[first]) { second } else { first })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weak_and_the_busy_have_less() {
        let load = |strength, sessions| Load { strength, sessions, age: Duration::ZERO };
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
