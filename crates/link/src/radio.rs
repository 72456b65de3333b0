//! Radio networks by name: block size, repetition and errors of the order that is usual in each.
use core::time::Duration;

use shorthaul_types::{BitRate, Bytes};

use crate::{Arq, LinkConfig, QueueLimit, Rate};

/// A kind of radio network, as one user meets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RadioNetwork {
    /// GPRS with coding scheme 2 on three time slots: blocks of 30 bytes every 20 ms in each (3GPP TS
    /// 43.064), acknowledged until they arrive, in effect; the round trip of the RLC makes a repetition
    /// cost about a block period of all slots.
    Gprs,
    /// UMTS with a dedicated channel of 384 kbit/s: protocol data units of 40 bytes in intervals of 10 ms,
    /// retransmitted up to ten times (MaxDAT of 3GPP TS 25.322), with 1 % to 10 % of them in error by the
    /// target of the power control.
    Umts,
    /// LTE-like: transport blocks of 1500 bytes, hybrid ARQ after 8 ms with up to three repetitions and
    /// another by the RLC (3GPP TS 36.321, 36.322), 10 % of the first transmissions in error.
    Lte,
}

impl LinkConfig {
    /// The downlink of a user of `network`: errors come from a two-state channel with fades of a second
    /// or less, order is kept.
    pub fn radio_downlink(network: RadioNetwork) -> LinkConfig {
        let millis = Duration::from_millis;
        let radio = |block, retry, retries, errors: [f64; 2], phases: [u64; 2]| Arq::RadioBlocks {
            block: Bytes(block),
            retry,
            retries,
            error_good: errors[0],
            error_bad: errors[1],
            good: millis(phases[0]),
            bad: millis(phases[1]),
        };
        let (kbit, delay, queue, arq) = match network {
            RadioNetwork::Gprs => (36, 250, 30_000, radio(30, millis(20), None, [0.02, 0.4], [8000, 1000])),
            RadioNetwork::Umts => (384, 60, 60_000, radio(40, millis(2), Some(10), [0.02, 0.5], [4000, 400])),
            RadioNetwork::Lte => {
                (20_000, 10, 250_000, radio(1500, millis(2), Some(4), [0.1, 0.5], [2000, 200]))
            }
        };
        LinkConfig {
            rate: Rate::Fixed(BitRate::from_bits_per_sec(kbit * 1000)),
            delay: millis(delay),
            queue: QueueLimit::Bytes(queue),
            arq: Some(arq),
            ..LinkConfig::default()
        }
    }

    /// The uplink of a user of `network`: slower by what is usual, with the same channel.
    pub fn radio_uplink(network: RadioNetwork) -> LinkConfig {
        let kbit = match network {
            RadioNetwork::Gprs => 12,
            RadioNetwork::Umts => 64,
            RadioNetwork::Lte => 5_000,
        };
        let rate = Rate::Fixed(BitRate::from_bits_per_sec(kbit * 1000));
        LinkConfig { rate, ..LinkConfig::radio_downlink(network) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Link, Offered};
    use shorthaul_types::{Seed, Time};

    /// What a saturated downlink carries of its rate, and the share of packets that it loses.
    fn saturated(network: RadioNetwork) -> (f64, f64) {
        let config = LinkConfig { queue: QueueLimit::Unlimited, ..LinkConfig::radio_downlink(network) };
        let Rate::Fixed(rate) = config.rate else { panic!("a fixed rate") };
        let mut link = Link::new(config, Seed(1));
        // offered as it is sent, so that the phases of the channel are met in time
        let (mut carried, mut lost, count) = (0.0, 0, 20_000_u32);
        let mut now = Time::ZERO;
        for number in 0..count {
            match link.push(now, Bytes(1500), number) {
                Offered::Queued => carried += 1500.0 * 8.0,
                Offered::Dropped { .. } => lost += 1,
            }
            now = now + link.queue_delay(now);
            while link.pop(now).is_some() {}
        }
        (carried / now.as_secs_f64() / rate.bits_per_sec() as f64, f64::from(lost) / f64::from(count))
    }

    #[test]
    fn each_network_carries_most_of_its_rate_and_loses_little() {
        for (network, most, losses) in [
            (RadioNetwork::Gprs, 0.2..0.9, 0.0..1e-9),
            (RadioNetwork::Umts, 0.3..0.95, 0.0..0.02),
            (RadioNetwork::Lte, 0.5..0.95, 1e-4..0.02),
        ] {
            let (carried, lost) = saturated(network);
            assert!(most.contains(&carried), "{network:?} carries {carried}");
            assert!(losses.contains(&lost), "{network:?} loses {lost}");
        }
    }
}
