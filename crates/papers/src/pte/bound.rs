//! What the mobile link itself allows: the straight line of Figure 3, with the delays that were drawn.
use crate::error::{Result, While};
use shorthaul_link::{Direction, Link, Offered, QueueLimit};
use shorthaul_scenario::Scenario;
use shorthaul_types::{Bytes, Seed, Time};

/// When how many bytes have come over a link, if it never waits for a packet: seconds and bytes of
/// payload. The packets meet the delays that the same link draws in a run with `seed`.
pub(super) fn curve(scenario: &Scenario, link: &str, seed: u64, packets: Packets) -> Result<Vec<(f64, f64)>> {
    let description = scenario.links.iter().find(|known| known.name == link).doing("the link is gone")?;
    let mut config = description.config(Direction::Up, Seed(seed));
    config.queue = QueueLimit::Unlimited;
    let mut link = Link::new(config, description.seed(Seed(seed)).derive("up"));
    let mut curve = vec![(0.0, 0.0)];
    for number in 1..=packets.count {
        if link.push(Time::ZERO, packets.size, number) != Offered::Queued {
            continue;
        }
        let Some((at, _)) = link.pop(Time::MAX) else { continue };
        curve.push((at.as_secs_f64(), (number * packets.payload.0) as f64));
    }
    Ok(curve)
}

/// Packets all alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packets {
    pub count: u64,
    /// From the IP header on.
    pub size: Bytes,
    pub payload: Bytes,
}

impl Packets {
    /// This many bytes in packets of `payload` bytes with 40 bytes of headers.
    pub fn of(total: Bytes, payload: Bytes) -> Self {
        Packets { count: total.0.div_ceil(payload.0), size: Bytes(payload.0 + 40), payload }
    }
}
