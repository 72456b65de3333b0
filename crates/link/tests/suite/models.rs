//! Links of the papers against what the papers say about them, with fixed seeds.
use std::time::Duration;

use shorthaul_link::{
    Arq, Distribution, DropReason, GprsPhone, GprsRadio, Jitter, Link, LinkConfig, LossModel, Offered,
    Outages, QueueLimit, Rate,
};
use shorthaul_types::{BitRate, Bytes, Seed, Time};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Delivery times and items of packets of `size` pushed every `spacing`.
fn run(
    config: LinkConfig,
    seed: u64,
    count: u64,
    spacing: Duration,
    size: u64,
) -> (Vec<(Time, u64)>, Link<u64>) {
    let mut link = Link::new(config, Seed(seed));
    let mut out = Vec::new();
    for i in 0..count {
        let now = Time::from_nanos(i * spacing.as_nanos() as u64);
        let _ = link.push(now, Bytes(size), i);
        out.extend(std::iter::from_fn(|| link.pop(now)));
    }
    out.extend(std::iter::from_fn(|| link.pop(Time::from_secs(10_000_000))));
    (out, link)
}

/// What single packets of AGG Fig. 1 see: 1024 bytes, far apart, serialization taken off.
fn single_packet_latencies(config: LinkConfig) -> Vec<Duration> {
    let Rate::Fixed(rate) = config.rate else { panic!("GPRS has a fixed rate") };
    let spacing = Duration::from_secs(60);
    let (out, _) = run(config, 17, 1000, spacing, 1024);
    assert_eq!(out.len(), 1000);
    let serialization = rate.time_to_send(Bytes(1024));
    let latency = |(time, i): (Time, u64)| time.saturating_since(Time::from_secs(60 * i)) - serialization;
    out.into_iter().map(latency).collect()
}

#[test]
fn gprs_latencies_span_the_ranges_of_the_paper() {
    let phone = GprsPhone::ThreePlusOne;
    let directions = [
        (LinkConfig::gprs_downlink(phone, GprsRadio::Ideal), ms(600), ms(3_000), ms(850)),
        (LinkConfig::gprs_uplink(phone, GprsRadio::Ideal), ms(400), ms(1_300), ms(550)),
    ];
    for (config, low, high, typical) in directions {
        let mut latencies = single_packet_latencies(config);
        latencies.sort();
        assert!(latencies[0] >= low && latencies[0] < low + ms(20), "{:?}", latencies[0]);
        assert!(latencies[999] <= high && latencies[999] > low + (high - low) / 4, "{:?}", latencies[999]);
        let mean = latencies.iter().sum::<Duration>() / 1000;
        assert!(mean.abs_diff(typical) < ms(30), "{mean:?}");
    }
}

#[test]
fn gprs_carries_the_rates_of_the_paper_and_queues_120_kb() {
    let ideal = GprsRadio::Ideal;
    let links = [
        (LinkConfig::gprs_downlink(GprsPhone::ThreePlusOne, ideal), 4_150.0),
        (LinkConfig::gprs_downlink(GprsPhone::FourPlusOne, ideal), 5_500.0),
        (LinkConfig::gprs_uplink(GprsPhone::ThreePlusOne, ideal), 1_400.0),
    ];
    for (config, bytes_per_sec) in links {
        let limit = config.queue;
        let (out, link) = run(config, 17, 2_000, ms(150), 1_400);
        let carried = (out.len() as f64 - 100.0) * 1_400.0;
        let rate = carried / (out.last().unwrap().0.as_secs_f64() - out[99].0.as_secs_f64());
        assert!((rate / bytes_per_sec - 1.0).abs() < 0.02, "{rate} for {bytes_per_sec}");
        assert!(out.windows(2).all(|pair| pair[0].1 < pair[1].1), "no reordering");
        let QueueLimit::Bytes(limit) = limit else { panic!("GPRS queues bytes") };
        assert_eq!(link.stats().max_queue_bytes.0, limit / 1_400 * 1_400);
        assert_eq!(link.stats().dropped.loss + link.stats().dropped.outage, 0);
    }
}

#[test]
fn gprs_acks_come_in_fours() {
    // one ACK for every packet of 1400 bytes at 4.15 kB/s
    let config = LinkConfig::gprs_uplink(GprsPhone::ThreePlusOne, GprsRadio::Ideal);
    let (out, _) = run(config, 17, 2_000, Duration::from_micros(337_350), 40);
    let mut runs = vec![1];
    for pair in out.windows(2) {
        if pair[0].0 == pair[1].0 {
            *runs.last_mut().unwrap() += 1;
        } else {
            runs.push(1);
        }
    }
    let mean = 2_000.0 / runs.len() as f64;
    assert!((3.5..=4.5).contains(&mean), "{mean}");
}

#[test]
fn gprs_outages_hit_both_directions_and_the_long_ones_lose_bursts() {
    let radio = GprsRadio::Outages(Seed(4));
    let run_one = |config| {
        let mut link = Link::new(config, Seed(5));
        let dropped = |i: u64| {
            let verdict = link.push(Time::from_millis(i * 500), Bytes(100), i);
            matches!(verdict, Offered::Dropped { reason: DropReason::Outage, .. })
        };
        (0..20_000).map(dropped).collect::<Vec<bool>>()
    };
    let down = run_one(LinkConfig::gprs_downlink(GprsPhone::ThreePlusOne, radio));
    let up = run_one(LinkConfig::gprs_uplink(GprsPhone::ThreePlusOne, radio));
    let bursts = |lost: &[bool]| lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
    let lost = |lost: &[bool]| lost.iter().filter(|lost| **lost).count();
    // 10,000 s with an outage every 142.5 s, of which 30 in 35 last longer than 10 s
    assert!((40..=80).contains(&bursts(&down)), "{}", bursts(&down));
    assert!(bursts(&down).abs_diff(bursts(&up)) <= 2, "{} and {}", bursts(&down), bursts(&up));
    // a burst is 15 s of packets on average, and what waited
    let mean = lost(&down) as f64 / bursts(&down) as f64;
    assert!((30.0..=60.0).contains(&mean), "{mean}");
}

/// PTE §4: 1 Mbit/s, 1 ms, ARQ delay with a mean of 0.5 s, order kept. The service rate must be that of
/// serialization and mean ARQ delay together, which is what the paper's proxy assumes.
#[test]
fn pte_arq_slows_the_link_to_the_mean_service_time() {
    let arq = |distribution| Some(Arq::Delay { distribution, share: 1.0 });
    for (distribution, tolerance) in [
        (Distribution::Uniform { min: Duration::ZERO, max: ms(1_000) }, 0.02),
        (Distribution::Pareto { mean: ms(500), shape: 2.5 }, 0.03),
    ] {
        let config = LinkConfig {
            rate: Rate::Fixed(BitRate::from_bits_per_sec(1_000_000)),
            delay: ms(1),
            arq: arq(distribution),
            ..LinkConfig::default()
        };
        let (out, _) = run(config, 3, 10_000, Duration::ZERO, 1000);
        let per_packet = out.last().unwrap().0.as_secs_f64() / 10_000.0;
        assert!((per_packet / 0.508 - 1.0).abs() < tolerance, "{per_packet} with {distribution:?}");
        assert!(out.windows(2).all(|pair| pair[0].1 < pair[1].1 && pair[0].0 < pair[1].0));
    }
}

/// PRB §3: the phases are a function of time, so how much is sent does not change when they come.
#[test]
fn on_off_loss_does_not_depend_on_the_traffic() {
    let loss = LossModel::OnOff {
        on: Duration::from_secs(1),
        off: Duration::from_secs(5),
        rate: 1.0,
        slot: Duration::ZERO,
    };
    let lost_at = |spacing: u64| {
        let mut link = Link::new(LinkConfig { loss, ..LinkConfig::default() }, Seed(8));
        (0..600_000 / spacing)
            .map(|i| i * spacing)
            .filter(|t| matches!(link.push(Time::from_millis(*t), Bytes(1), ()), Offered::Dropped { .. }))
            .collect::<std::collections::BTreeSet<u64>>()
    };
    let (dense, sparse) = (lost_at(10), lost_at(70));
    let expected: Vec<u64> = (0..600_000 / 70).map(|i| i * 70).filter(|t| dense.contains(t)).collect();
    assert!(expected.len() > 500);
    assert_eq!(sparse.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn jitter_keeps_order_or_does_not_as_asked() {
    let config = |keeps_order| LinkConfig {
        delay: ms(20),
        jitter: Some(Jitter {
            distribution: Distribution::Uniform { min: Duration::ZERO, max: ms(10) },
            keeps_order,
        }),
        ..LinkConfig::default()
    };
    let (kept, link) = run(config(true), 1, 10_000, ms(1), 100);
    assert!(kept.windows(2).all(|pair| pair[0].1 < pair[1].1));
    assert_eq!(link.stats().reordered, 0);
    let (free, link) = run(config(false), 1, 10_000, ms(1), 100);
    assert!(link.stats().reordered > 5_000, "{}", link.stats().reordered);
    let delay = |(time, i): &(Time, u64)| time.saturating_since(Time::from_millis(*i));
    assert!(free.iter().all(|packet| (ms(20)..=ms(30)).contains(&delay(packet))));
    let mean = free.iter().map(delay).sum::<Duration>() / 10_000;
    assert!(mean.abs_diff(ms(25)) < Duration::from_micros(100), "{mean:?}");
    // the same draws: where nobody waits for the one before, the two agree
    let mut by_number = free.clone();
    by_number.sort_by_key(|(_, i)| *i);
    assert!(kept.iter().zip(&by_number).all(|(kept, free)| kept.0 >= free.0));
    assert!(kept.iter().zip(&by_number).filter(|(kept, free)| kept.0 == free.0).count() > 1_000);
}

#[test]
fn changing_the_delay_does_not_change_what_is_lost() {
    let bursts = LossModel::GilbertElliott { to_bad: 0.01, to_good: 0.02, loss_good: 0.0, loss_bad: 1.0 };
    let fates = |change_every: u64| {
        let mut link = Link::new(LinkConfig { loss: bursts, ..LinkConfig::default() }, Seed(2));
        (0..10_000)
            .map(|i| {
                let now = Time::from_millis(i);
                if i % change_every == 0 {
                    link.reconfigure(
                        now,
                        LinkConfig { loss: bursts, delay: ms(i % 7), ..LinkConfig::default() },
                    );
                }
                matches!(link.push(now, Bytes(1), i), Offered::Queued)
            })
            .collect::<Vec<bool>>()
    };
    assert_eq!(fates(100_000), fates(3));
}

#[test]
fn changing_the_configuration_keeps_the_outages_where_they_are() {
    let outages = |text: &str| Outages {
        when: shorthaul_link::OutageTimes::Random {
            mean_gap: ms(2_000),
            lasts: text.parse().unwrap(),
            shared: None,
        },
        hold: Duration::ZERO,
    };
    let config = LinkConfig { outages: outages("100 ms to 900 ms"), ..LinkConfig::default() };
    let fates = |change_every: u64| {
        let mut link = Link::new(config.clone(), Seed(2));
        (0..10_000)
            .map(|i| {
                let now = Time::from_millis(i * 10);
                if i % change_every == 0 {
                    // the overhead costs no time here, but makes everything be serialized again
                    link.reconfigure(now, LinkConfig { overhead: Bytes(i % 7), ..config.clone() });
                }
                matches!(link.push(now, Bytes(1), i), Offered::Queued)
            })
            .collect::<Vec<bool>>()
    };
    let fixed = fates(100_000);
    assert!(fixed.iter().filter(|arrives| !**arrives).count() > 1_000);
    assert_eq!(fixed, fates(13));
}
