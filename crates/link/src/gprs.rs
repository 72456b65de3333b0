use core::time::Duration;

use shorthaul_types::{BitRate, Seed};

use crate::{
    Distribution, Drx, FrameAggregation, Jitter, LinkConfig, OutageTimes, Outages, QueueLimit, Rate,
};

/// A GPRS handset, named by its time slots in the two directions (AGG §II, "Fluctuating Bandwidth").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GprsPhone {
    /// Three slots down, one up, such as the Ericsson T39: 4.15 kB/s down, 1.4 kB/s up.
    #[default]
    ThreePlusOne,
    /// Four slots down, one up, such as the Motorola T280: 5.5 kB/s down. The paper gives no figure for its
    /// one slot up; it is taken to be that of the other phone.
    FourPlusOne,
}

/// How the radio conditions are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GprsRadio {
    /// Ideal, as in the transfers of AGG Fig. 11: no outages.
    #[default]
    Ideal,
    /// Outages of 5 to 40 s (AGG §II, "Link Outages"), which both directions suffer together when they are
    /// given the same seed here.
    ///
    /// The paper does not say how often they come, nor from which length on packets are lost. We take
    /// one every two minutes, and loss after 10 s.
    Outages(Seed),
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Waking up costs the time to set up a temporary block flow, "approximately 100–200 ms" (AGG §II).
/// Terminals of the 1997 release let go of it at once; 100 ms is the time of a few radio blocks.
const DRX: Drx = Drx { idle: ms(100), penalty: Distribution::Uniform { min: ms(100), max: ms(200) } };

impl LinkConfig {
    /// The direction toward a GPRS phone (AGG §II, AGG-13).
    ///
    /// - rate: 4.15 kB/s (3+1) or 5.5 kB/s (4+1);
    /// - latency of a single packet, besides its serialization: 600–3000 ms (Fig. 1a), of which the first
    ///   100–200 ms are the wake-up, 500 ms are constant, and the rest is exponential with a mean of 200 ms,
    ///   so that most packets are near the lower end and some far from it;
    /// - queue: 120 kB at the gateway ("Excess Queueing");
    /// - no loss but in long outages, no reordering ("Packet Loss": the link layer repeats until it arrives).
    pub fn gprs_downlink(phone: GprsPhone, radio: GprsRadio) -> LinkConfig {
        let rate = match phone {
            GprsPhone::ThreePlusOne => BitRate::from_bytes_per_sec(4_150),
            GprsPhone::FourPlusOne => BitRate::from_bytes_per_sec(5_500),
        };
        LinkConfig {
            rate: Rate::Fixed(rate),
            queue: QueueLimit::Bytes(120_000),
            delay: ms(500),
            jitter: Some(Jitter {
                distribution: Distribution::Exponential { mean: ms(200), max: ms(2_300) },
                keeps_order: true,
            }),
            outages: outages(radio),
            drx: Some(DRX),
            ..LinkConfig::default()
        }
    }

    /// The direction from a GPRS phone (AGG §II, AGG-13).
    ///
    /// - rate: 1.4 kB/s;
    /// - latency of a single packet, besides its serialization: 400–1300 ms (Fig. 1b), of which the first
    ///   100–200 ms are the wake-up, 300 ms are constant, and the rest is exponential with a mean of 100 ms;
    /// - aggregation: packets in a row come out about four at a time (§III). 1.2 s is the time in which a 3+1
    ///   phone receives, and acknowledges, four packets of 1400 bytes at full rate;
    /// - queue: the phone's, which the paper does not give; 20 kB is 14 s of it;
    /// - no loss but in long outages, no reordering.
    pub fn gprs_uplink(phone: GprsPhone, radio: GprsRadio) -> LinkConfig {
        let rate = match phone {
            GprsPhone::ThreePlusOne | GprsPhone::FourPlusOne => BitRate::from_bytes_per_sec(1_400),
        };
        LinkConfig {
            rate: Rate::Fixed(rate),
            queue: QueueLimit::Bytes(20_000),
            delay: ms(300),
            jitter: Some(Jitter {
                distribution: Distribution::Exponential { mean: ms(100), max: ms(800) },
                keeps_order: true,
            }),
            outages: outages(radio),
            aggregation: Some(FrameAggregation { size: 4, wait: ms(1_200) }),
            drx: Some(DRX),
            ..LinkConfig::default()
        }
    }
}

fn outages(radio: GprsRadio) -> Outages {
    match radio {
        GprsRadio::Ideal => Outages::default(),
        GprsRadio::Outages(seed) => Outages {
            when: OutageTimes::Random {
                mean_gap: Duration::from_secs(120),
                lasts: Distribution::Uniform { min: Duration::from_secs(5), max: Duration::from_secs(40) },
                shared: Some(seed),
            },
            hold: Duration::from_secs(10),
        },
    }
}
