//! What the mobile link itself allows: the straight line of Figure 3, with the delays that were drawn.
use crate::error::{Result, While};
use shorthaul_link::{Direction, Link, Offered, QueueLimit};
use shorthaul_scenario::Scenario;
use shorthaul_types::{Bytes, Seed, Time};
use std::time::Duration;

/// When how many bytes have come over a link, if it never waits for a packet: seconds and bytes of
/// payload. The packets meet the delays that the same link draws in a run with `seed`.
pub(super) fn curve(scenario: &Scenario, link: &str, seed: u64, packets: Packets) -> Result<Vec<(f64, f64)>> {
    behind(scenario, link, seed, packets, Duration::ZERO)
}

/// The same behind another link that brings a packet each time `apart` has passed. What no gateway can beat: while a long recovery holds the
/// link up, the other one goes on, but what it has not brought by the end of a late recovery cannot be caught up.
pub(super) fn behind(
    scenario: &Scenario,
    link: &str,
    seed: u64,
    packets: Packets,
    apart: Duration,
) -> Result<Vec<(f64, f64)>> {
    let description = scenario.links.iter().find(|known| known.name == link).doing("the link is gone")?;
    let mut config = description.config(Direction::Up, Seed(seed));
    config.queue = QueueLimit::Unlimited;
    let mut link = Link::new(config, description.seed(Seed(seed)).derive("up"));
    let mut curve = vec![(0.0, 0.0)];
    for number in 1..=packets.count {
        let arrives = Time::ZERO + apart * u32::try_from(number).unwrap_or(u32::MAX);
        if link.push(arrives, packets.size, number) != Offered::Queued {
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

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_scenario::Study;

    /// A mobile link of 1 Mbit/s and 1 ms, of whose packets this share is late by 500 ms, always.
    fn scenario(share: &str) -> Scenario {
        let arq = format!("{{ arq = {{ model = \"delay\", delay = \"500 ms\", share = {share} }} }}");
        let text = format!(
            "duration = \"1 s\"\nhosts = {{ a = {{}}, b = {{}} }}\nflows = [{{ from = \"a\", to = \"b\", bulk = \"1 kB\" }}]\n\
             links = [{{ between = [\"a\", \"b\"], link = {{ rate = \"1 Mbit/s\", delay = \"1 ms\", up = {arq} }} }}]\n"
        );
        let study = Study::from_toml("bound.toml", &text).unwrap();
        study.scenario(&study.points()[0]).unwrap()
    }

    const PACKETS: Packets = Packets { count: 10, size: Bytes(1000), payload: Bytes(960) };

    fn last(curve: &[(f64, f64)]) -> (f64, f64) {
        *curve.last().unwrap()
    }

    #[test]
    fn a_link_takes_what_its_rate_and_its_recoveries_take() {
        let (at, bytes) = last(&curve(&scenario("0.0"), "a-b", 1, PACKETS).unwrap());
        assert!((at - 0.081).abs() < 1e-6 && bytes == 9600.0, "{at} s: ten times 8 ms, and 1 ms");
        let (at, _) = last(&curve(&scenario("1.0"), "a-b", 1, PACKETS).unwrap());
        assert!((at - 5.081).abs() < 1e-6, "{at} s: each is held up for half a second");
    }

    #[test]
    fn behind_another_link_it_waits_for_what_has_not_come_yet() {
        let at = |share, apart| {
            last(&behind(&scenario(share), "a-b", 1, PACKETS, Duration::from_millis(apart)).unwrap()).0
        };
        assert!((at("0.0", 100) - 1.009).abs() < 1e-6, "the last packet comes after a second");
        assert!((at("1.0", 100) - 5.181).abs() < 1e-6, "recoveries go on while the others come");
        assert_eq!(at("1.0", 0), last(&curve(&scenario("1.0"), "a-b", 1, PACKETS).unwrap()).0);
    }
}
