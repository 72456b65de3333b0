//! What holds for every link, whatever its configuration and whatever is pushed.
use std::time::Duration;

use proptest::prelude::*;
use shorthaul_link::{
    Arq, Distribution, Drx, FrameAggregation, Jitter, Link, LinkConfig, LossModel, NakRounds, Offered,
    OutageTimes, Outages, QueueLimit, Rate, Reordering, RouteChanges, Trace,
};
use shorthaul_types::{BitRate, Bytes, Seed, Time};

fn micros(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_micros)
}

fn distributions() -> impl Strategy<Value = Distribution> {
    prop_oneof![
        micros(0..20_000).prop_map(Distribution::Constant),
        (micros(0..10_000), micros(0..10_000))
            .prop_map(|(min, width)| Distribution::Uniform { min, max: min + width }),
        (micros(1..10_000), micros(1..50_000))
            .prop_map(|(mean, max)| Distribution::Exponential { mean, max }),
        (micros(0..10_000), micros(0..10_000))
            .prop_map(|(mean, std_dev)| Distribution::Normal { mean, std_dev }),
        micros(0..10_000).prop_map(Distribution::pareto),
    ]
}

fn bit_rates() -> impl Strategy<Value = BitRate> {
    (1_000_u64..2_000_000_000).prop_map(BitRate::from_bits_per_sec)
}

fn rates() -> impl Strategy<Value = Rate> {
    prop_oneof![
        Just(Rate::Unlimited),
        bit_rates().prop_map(Rate::Fixed),
        (prop::collection::vec((micros(1..30_000), bit_rates()), 1..5), any::<bool>())
            .prop_map(|(phases, repeats)| Rate::Schedule { phases, repeats }),
        prop::collection::vec(0_u32..5, 1..50).prop_map(|gaps| {
            let mut now = 0;
            let mut millis = Vec::new();
            for gap in gaps {
                now += gap;
                millis.push(now);
            }
            millis.push(now + 1);
            Rate::Trace(Trace::from_millis(millis).unwrap().into())
        }),
    ]
}

fn losses() -> impl Strategy<Value = LossModel> {
    prop_oneof![
        Just(LossModel::None),
        (0.0..1.0).prop_map(|probability| LossModel::Bernoulli { probability }),
        (0.0..1.0, 0.0..1.0, 0.0..1.0, 0.0..1.0).prop_map(|(to_bad, to_good, loss_good, loss_bad)| {
            LossModel::GilbertElliott { to_bad, to_good, loss_good, loss_bad }
        }),
        (micros(1_000..100_000), micros(1_000..100_000), 0.0..1.0)
            .prop_map(|(on, off, rate)| LossModel::OnOff { on, off, rate, slot: Duration::ZERO }),
    ]
}

fn arqs() -> impl Strategy<Value = Arq> {
    prop_oneof![
        (distributions(), 0.0..1.0).prop_map(|(distribution, share)| Arq::Delay { distribution, share }),
        (1_u64..200, micros(0..1_000), 0.0..0.9, 0.0..0.9, micros(1_000..50_000), micros(1_000..50_000))
            .prop_map(|(block, retry, error_good, error_bad, good, bad)| Arq::RadioBlocks {
                block: Bytes(block),
                retry,
                // some give up, some go on until a block arrives
                retries: (block % 2 == 0).then_some(block as u32 % 16),
                error_good,
                error_bad,
                good,
                bad
            }),
        (
            1_u64..200,
            micros(0..5_000),
            prop::collection::vec(1_u8..4, 0..5),
            prop::option::of(1_u32..200),
            (0.0..0.9, 0.0..0.9, micros(1_000..50_000), micros(1_000..50_000))
        )
            .prop_map(|(frame, round_trip, rounds, window, (error_good, error_bad, good, bad))| {
                Arq::SelectiveRepeat {
                    frame: Bytes(frame),
                    round_trip,
                    rounds: NakRounds::new(&rounds).unwrap(),
                    window,
                    error_good,
                    error_bad,
                    good,
                    bad,
                }
            }),
    ]
}

fn outages() -> impl Strategy<Value = Outages> {
    prop_oneof![
        Just(Outages::default()),
        (micros(5_000..200_000), distributions(), micros(0..20_000)).prop_map(|(mean_gap, lasts, hold)| {
            Outages { when: OutageTimes::Random { mean_gap, lasts, shared: None }, hold }
        }),
        (micros(5_000..200_000), distributions(), micros(0..20_000)).prop_map(|(every, lasts, hold)| {
            Outages { when: OutageTimes::Regular { every, lasts, shared: None }, hold }
        }),
    ]
}

fn queues() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        Just(QueueLimit::Unlimited),
        (1_usize..20).prop_map(QueueLimit::Packets),
        (1_500_u64..20_000).prop_map(QueueLimit::Bytes),
    ]
}

prop_compose! {
    fn configs()(
        (rate, queue, loss, outages) in (rates(), queues(), losses(), outages()),
        delay in micros(0..50_000),
        jitter in prop::option::of((distributions(), any::<bool>())),
        route_changes in prop::option::of((micros(1..100_000), distributions())),
        duplicate in prop_oneof![Just(0.0), 0.0..1.0],
        arq in prop::option::of(arqs()),
        reordering in prop::option::of((0.0..1.0, micros(0..20_000))),
        aggregation in prop::option::of((1_usize..6, micros(0..20_000))),
        drx in prop::option::of((micros(0..5_000), distributions())),
        overhead in 0_u64..50,
    ) -> LinkConfig {
        LinkConfig {
            rate,
            overhead: Bytes(overhead),
            queue,
            delay,
            jitter: jitter.map(|(distribution, keeps_order)| Jitter { distribution, keeps_order }),
            route_changes: route_changes.map(|(every, delay)| RouteChanges { every, delay }),
            loss,
            duplicate,
            arq,
            outages,
            reordering: reordering.map(|(share, by)| Reordering { share, by }),
            aggregation: aggregation.map(|(size, wait)| FrameAggregation { size, wait }),
            drx: drx.map(|(idle, penalty)| Drx { idle, penalty }),
        }
    }
}

/// One step of a driver.
#[derive(Clone, Debug)]
enum Step {
    Push { size: u64 },
    Pop,
    Reconfigure(Box<LinkConfig>),
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let step = prop_oneof![
        12 => (0_u64..1_501).prop_map(|size| Step::Push { size }),
        6 => Just(Step::Pop),
        1 => configs().prop_map(|config| Step::Reconfigure(Box::new(config))),
    ];
    prop::collection::vec((0_u64..3_000, step), 1..150)
}

/// What a packet knows about itself.
#[derive(Clone, Debug, PartialEq)]
struct Sent {
    number: usize,
    at: Time,
    size: u64,
}

/// Drives a link and returns everything that came out, checking the books at every step.
fn drive(config: &LinkConfig, seed: u64, steps: &[(u64, Step)]) -> Vec<(Time, Sent)> {
    let mut link = Link::new(config.clone(), Seed(seed));
    let mut now = Time::ZERO;
    let mut out = Vec::new();
    for (number, (wait, step)) in steps.iter().enumerate() {
        now += Duration::from_micros(*wait);
        match step {
            Step::Push { size } => {
                let sent = Sent { number, at: now, size: *size };
                if let Offered::Dropped { item, .. } = link.push(now, Bytes(*size), sent.clone()) {
                    assert_eq!(item, sent);
                }
            }
            Step::Pop => {
                while let Some(next) = link.next_delivery().filter(|next| *next <= now) {
                    let (time, sent) = link.pop(now).expect("next_delivery has announced it");
                    assert_eq!(time, next);
                    out.push((time, sent));
                }
                assert_eq!(link.pop(now), None);
            }
            Step::Reconfigure(config) => link.reconfigure(now, (**config).clone()),
        }
        let stats = link.stats();
        let accounted = stats.delivered + stats.dropped.total() + link.len() as u64;
        assert_eq!(stats.offered + stats.duplicated, accounted, "conservation");
        if let QueueLimit::Packets(limit) = link.config().queue
            && !steps[..=number].iter().any(|(_, step)| matches!(step, Step::Reconfigure(_)))
        {
            assert!(link.queue_len(now) <= limit && stats.max_queue <= limit);
        }
    }
    out.extend(std::iter::from_fn(|| link.pop(Time::from_secs(1_000_000_000))));
    assert!(link.is_empty(), "everything comes out in the end");
    assert!(out.windows(2).all(|pair| pair[0].0 <= pair[1].0), "deliveries are in order of time");
    out
}

fn without_changes(steps: &[(u64, Step)]) -> Vec<(u64, Step)> {
    steps.iter().filter(|(_, step)| !matches!(step, Step::Reconfigure(_))).cloned().collect()
}

fn keeping_order(mut config: LinkConfig) -> LinkConfig {
    if let Some(jitter) = &mut config.jitter {
        jitter.keeps_order = true;
    }
    config.reordering = None;
    config.route_changes = None;
    assert!(config.keeps_order());
    config
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_pushes_have_the_same_outcome(config in configs(), seed: u64, steps in steps()) {
        let out = drive(&config, seed, &steps);
        prop_assert_eq!(&out, &drive(&config, seed, &steps));
        // and it does not matter when the driver pops, while the configuration stays
        let pushes = without_changes(&steps);
        let lazy: Vec<_> = pushes
            .iter()
            .map(|(wait, step)| (*wait, if matches!(step, Step::Pop) { Step::Push { size: 0 } } else { step.clone() }))
            .collect();
        let eager: Vec<_> = lazy.iter().flat_map(|step| [step.clone(), (0, Step::Pop)]).collect();
        let renumber = |out: Vec<(Time, Sent)>, factor| {
            out.into_iter().map(|(time, sent)| (time, sent.number / factor, sent.at)).collect::<Vec<_>>()
        };
        prop_assert_eq!(renumber(drive(&config, seed, &lazy), 1), renumber(drive(&config, seed, &eager), 2));
    }

    #[test]
    fn order_is_kept_where_it_is_promised(config in configs(), seed: u64, steps in steps()) {
        let steps: Vec<_> = steps
            .into_iter()
            .map(|(wait, step)| match step {
                Step::Reconfigure(config) => (wait, Step::Reconfigure(Box::new(keeping_order(*config)))),
                step => (wait, step),
            })
            .collect();
        let out = drive(&keeping_order(config), seed, &steps);
        prop_assert!(out.windows(2).all(|pair| pair[0].1.number <= pair[1].1.number), "{:?}", out);
    }

    #[test]
    fn nothing_comes_before_serialization_and_delay(config in configs(), seed: u64, steps in steps()) {
        for (time, sent) in drive(&config, seed, &without_changes(&steps)) {
            let serialization = match &config.rate {
                Rate::Fixed(rate) => rate.time_to_send(Bytes(sent.size) ) ,
                _ => Duration::ZERO,
            };
            // a packet may share its first nanosecond with the end of the one before it
            let earliest = sent.at + serialization.saturating_sub(Duration::from_nanos(1)) + config.delay;
            prop_assert!(time >= earliest, "{:?} came out at {:?}", sent, time);
        }
    }

    /// What the change does not concern stays as it is, to the nanosecond.
    #[test]
    fn a_change_of_the_queue_limit_alone_moves_nothing(config in configs(), seed: u64, steps in steps()) {
        let config = LinkConfig { queue: QueueLimit::Unlimited, aggregation: None, ..config };
        let roomy = LinkConfig { queue: QueueLimit::Packets(1_000_000), ..config.clone() };
        let mut flip = false;
        let changing: Vec<_> = steps
            .into_iter()
            .map(|(wait, step)| match step {
                Step::Reconfigure(_) => {
                    flip = !flip;
                    (wait, Step::Reconfigure(Box::new(if flip { roomy.clone() } else { config.clone() })))
                }
                step => (wait, step),
            })
            .collect();
        let still: Vec<_> = changing
            .iter()
            .map(|(wait, step)| match step {
                Step::Reconfigure(_) => (*wait, Step::Pop),
                step => (*wait, step.clone()),
            })
            .collect();
        prop_assert_eq!(drive(&config, seed, &changing), drive(&config, seed, &still));
    }

    /// Paired comparisons rest on this: one component's randomness does not move with another's.
    #[test]
    fn a_component_does_not_shift_the_fate_of_others(
        config in configs(), seed: u64, delay in micros(0..50_000), jitter in distributions(), duplicate in 0.0..1.0,
    ) {
        let fates = |config: LinkConfig| {
            let mut link = Link::new(config, Seed(seed));
            (0..100_u64)
                .map(|i| matches!(link.push(Time::from_millis(i), Bytes(100), i), Offered::Queued))
                .collect::<Vec<_>>()
        };
        let base = LinkConfig { queue: QueueLimit::Unlimited, duplicate: 0.0, ..config };
        let other = LinkConfig {
            delay,
            jitter: Some(Jitter { distribution: jitter, keeps_order: false }),
            ..base.clone()
        };
        prop_assert_eq!(fates(base.clone()), fates(other.clone()));
        // with models that count packets, not even the timing matters
        let goes_by_time = matches!(base.loss, LossModel::OnOff { .. })
            || matches!(base.arq, Some(Arq::RadioBlocks { retries: Some(_), .. } | Arq::SelectiveRepeat { .. }));
        if !goes_by_time {
            let calm = |config: LinkConfig| LinkConfig { outages: Outages::default(), ..config };
            let slow = Rate::Fixed(BitRate::from_bits_per_sec(9_600));
            prop_assert_eq!(fates(calm(base)), fates(calm(LinkConfig { duplicate, rate: slow, ..other })));
        }
    }
}
