//! The TOML form of a link.
#![cfg(feature = "serde")]
use std::sync::Arc;
use std::time::Duration;

use shorthaul_link::{
    Arq, Direction, Distribution, Drx, FrameAggregation, GprsPhone, GprsRadio, Jitter, LinkConfig, LinkSpec,
    LossModel, Outage, OutageTimes, Outages, QueueLimit, Rate, Reordering, RouteChanges, Trace,
};
use shorthaul_types::{BitRate, Bytes, Seed};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn mbit(n: u64) -> BitRate {
    BitRate::from_bits_per_sec(n * 1_000_000)
}

fn no_file(_: &str) -> Result<Arc<Trace>, String> {
    Err("there are no files here".to_string())
}

fn down(text: &str) -> LinkConfig {
    let spec: LinkSpec = toml::from_str(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    spec.resolve(Direction::Down, Seed(1), no_file).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn parse_error(text: &str) -> String {
    toml::from_str::<LinkSpec>(text).expect_err(text).to_string()
}

fn resolve_error(text: &str) -> String {
    let spec: LinkSpec = toml::from_str(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    spec.resolve(Direction::Down, Seed(1), no_file).expect_err(text).to_string()
}

#[test]
fn nothing_written_is_a_link_that_does_nothing() {
    assert_eq!(down(""), LinkConfig::default());
}

#[test]
fn a_loss_model_is_written_by_its_name() {
    for (text, loss) in [
        ("0.001", LossModel::Bernoulli { probability: 0.001 }),
        ("\"none\"", LossModel::None),
        ("{ model = \"bernoulli\", probability = \"2 %\" }", LossModel::Bernoulli { probability: 0.02 }),
        ("{ model = \"bit-errors\", rate = 1e-6 }", LossModel::BitErrors { rate: 1e-6 }),
    ] {
        assert_eq!(down(&format!("loss = {text}")).loss, loss, "{text}");
    }
}

#[test]
fn every_key_reaches_its_part() {
    let text = r#"
        rate = "32 Mbit/s"
        overhead = "38 B"
        queue = "100 packets"
        delay = "64 ms"
        jitter = { delay = "normal 20 ms +- 5 ms", order = "free" }
        route_changes = { every = "15 s", delay = "0 ms to 20 ms" }
        loss = { model = "on-off", on = "1 s", off = "5 s", rate = "33 %" }
        duplicate = 0.01
        arq = { model = "delay", delay = "pareto 500 ms", share = 0.05 }
        outages = { list = [{ at = "10 s", lasts = "5 s" }], hold = "2 s" }
        reorder = { share = 0.01, by = "10 ms" }
        aggregation = { size = 4, wait = "500 ms" }
        drx = { idle = "100 ms", penalty = "100 ms to 200 ms" }
    "#;
    let expected = LinkConfig {
        rate: Rate::Fixed(mbit(32)),
        overhead: Bytes(38),
        queue: QueueLimit::Packets(100),
        delay: ms(64),
        jitter: Some(Jitter {
            distribution: Distribution::Normal { mean: ms(20), std_dev: ms(5) },
            keeps_order: false,
        }),
        route_changes: Some(RouteChanges {
            every: ms(15_000),
            delay: Distribution::Uniform { min: ms(0), max: ms(20) },
        }),
        loss: LossModel::OnOff { on: ms(1000), off: ms(5000), rate: 0.33, slot: Duration::ZERO },
        duplicate: 0.01,
        arq: Some(Arq::Delay { distribution: Distribution::pareto(ms(500)), share: 0.05 }),
        outages: Outages {
            when: OutageTimes::Listed(vec![Outage { at: ms(10_000), lasts: ms(5_000) }]),
            hold: ms(2_000),
        },
        reordering: Some(Reordering { share: 0.01, by: ms(10) }),
        aggregation: Some(FrameAggregation { size: 4, wait: ms(500) }),
        drx: Some(Drx { idle: ms(100), penalty: Distribution::Uniform { min: ms(100), max: ms(200) } }),
    };
    assert_eq!(down(text), expected);
}

#[test]
fn paths_and_regular_outages_are_read_and_both_directions_of_the_preset_fail_together() {
    let written = "rate = { paths = { least = \"20 Mbit/s\", most = \"250 Mbit/s\", every = \"10 s\", length = \"60 s\" } }\n\
                   outages = { period = \"10 s\", lasts = \"40 ms to 140 ms\", hold = \"60 ms\" }";
    let config = down(written);
    let Rate::Schedule { phases, repeats: true } = &config.rate else { panic!("{:?}", config.rate) };
    assert_eq!(phases.iter().map(|(lasts, _)| *lasts).sum::<Duration>(), ms(60_000));
    let lasts = Distribution::Uniform { min: ms(40), max: ms(140) };
    let when = OutageTimes::Regular { every: ms(10_000), lasts, shared: Some(Seed(1)) };
    assert_eq!(config.outages, Outages { when, hold: ms(60) });
    let preset: LinkSpec = toml::from_str("preset = \"starlink\"\nqueue = \"2 MB\"").unwrap();
    let [down, up] =
        [Direction::Down, Direction::Up].map(|way| preset.resolve(way, Seed(1), no_file).unwrap());
    assert_eq!(
        down,
        LinkConfig { queue: QueueLimit::Bytes(2_000_000), ..LinkConfig::starlink_downlink(Seed(1)) }
    );
    assert_eq!(down.outages, up.outages);
    assert!(down.rate != up.rate && down.route_changes == up.route_changes);
    assert!(
        resolve_error("rate = { paths = { least = \"20 Mbit/s\", most = \"2 Mbit/s\" } }")
            .starts_with("rate.paths")
    );
    assert!(parse_error("rate = { paths = { least = \"20 Mbit/s\" } }").contains("most"));
    assert!(parse_error("outages = { period = \"10 s\" }").contains("period ="));
}

#[test]
fn the_old_names_of_arq_aggregation_and_drx_are_read() {
    let text = "arq = \"pareto 500 ms\"\naggregation = { size = 4, wait = \"500 ms\" }\n\
                drx = { idle = \"100 ms\", penalty = \"100 ms\" }";
    let old = text.replace("arq", "recovery").replace("aggregation", "bunching").replace("drx", "wakeup");
    assert!(down(text).arq.is_some() && down(text).aggregation.is_some() && down(text).drx.is_some());
    assert_eq!(down(&old), down(text));
}

#[test]
fn short_forms_are_understood() {
    assert_eq!(down("loss = 0.001").loss, LossModel::Bernoulli { probability: 0.001 });
    assert_eq!(down("loss = \"0.1 %\"").loss, LossModel::Bernoulli { probability: 0.001 });
    assert_eq!(down("loss = 0").loss, LossModel::Bernoulli { probability: 0.0 });
    assert_eq!(
        down("loss = { model = \"gilbert-elliott\", to_bad = 0.01, to_good = 0.2 }").loss,
        LossModel::GilbertElliott { to_bad: 0.01, to_good: 0.2, loss_good: 0.0, loss_bad: 1.0 }
    );
    let jitter =
        Jitter { distribution: Distribution::Uniform { min: Duration::ZERO, max: ms(5) }, keeps_order: true };
    assert_eq!(down("jitter = \"5 ms\"").jitter, Some(jitter));
    assert_eq!(down("queue = \"120 kB\"").queue, QueueLimit::Bytes(120_000));
    let arq = Arq::Delay { distribution: Distribution::pareto(ms(500)), share: 1.0 };
    assert_eq!(down("arq = \"pareto 500 ms\"").arq, Some(arq));
    let schedule = "rate = { schedule = [{ lasts = \"10 s\", rate = \"1 Mbit/s\" }], repeats = true }";
    let phases = vec![(ms(10_000), mbit(1))];
    assert_eq!(down(schedule).rate, Rate::Schedule { phases, repeats: true });
    let radio = "arq = { model = \"radio-blocks\", block = \"50 B\", retry = \"20 ms\", error_good = 0.01, \
                 error_bad = 0.5, good = \"10 s\", bad = \"1 s\" }";
    assert!(matches!(down(radio).arq, Some(Arq::RadioBlocks { block: Bytes(50), .. })));
    let repeat = "arq = { model = \"selective-repeat\", frame = \"24 B\", round_trip = \"80 ms\", error_good = 0.01, \
                  error_bad = 0.5, good = \"10 s\", bad = \"1 s\" }";
    let Some(Arq::SelectiveRepeat { rounds, window: None, .. }) = down(repeat).arq else { panic!() };
    assert_eq!(rounds.copies(), [1, 2, 3], "the usual scheme");
    let nothing = repeat.replace("frame", "rounds = [1, 0], frame");
    let error = toml::from_str::<LinkSpec>(&nothing).unwrap_err().to_string();
    assert!(error.contains("[1, 0] is no scheme of requests"), "{error}");
}

#[test]
fn directions_differ_where_they_say_so() {
    let text = "delay = \"10 ms\"\nrate = \"32 Mbit/s\"\n[up]\nrate = \"5 Mbit/s\"\n";
    let spec: LinkSpec = toml::from_str(text).unwrap();
    let rate = |direction| spec.resolve(direction, Seed(1), no_file).unwrap().rate;
    assert_eq!(rate(Direction::Down), Rate::Fixed(mbit(32)));
    assert_eq!(rate(Direction::Up), Rate::Fixed(mbit(5)));
    assert_eq!(spec.resolve(Direction::Up, Seed(1), no_file).unwrap().delay, ms(10));
    assert!(resolve_error("[up]\ndelay = \"1 ms\"\n[up.down]\ndelay = \"1 ms\"\n").contains("inside"));
}

#[test]
fn it_is_known_whether_the_ends_of_a_link_can_be_exchanged() {
    for (text, differs) in [
        ("rate = \"1 Mbit/s\"\nloss = 0.1", false),
        ("preset = \"gprs\"", true),
        ("preset = \"radio-lte\"", true),
        ("preset = \"starlink\"", true),
    ] {
        let spec: LinkSpec = toml::from_str(text).unwrap();
        assert_eq!(spec.has_preset_directions(), differs, "{text}");
    }
}

#[test]
fn presets_are_filled_in_and_overridden() {
    let spec: LinkSpec = toml::from_str("preset = \"gprs\"").unwrap();
    let resolve = |direction| spec.resolve(direction, Seed(1), no_file).unwrap();
    let phone = GprsPhone::ThreePlusOne;
    assert_eq!(resolve(Direction::Down), LinkConfig::gprs_downlink(phone, GprsRadio::Ideal));
    assert_eq!(resolve(Direction::Up), LinkConfig::gprs_uplink(phone, GprsRadio::Ideal));
    let changed = down("preset = \"gprs-4+1-moving\"\njitter = \"none\"\nqueue = \"10 packets\"");
    let gprs = LinkConfig::gprs_downlink(GprsPhone::FourPlusOne, GprsRadio::Outages(Seed(1)));
    assert_eq!(changed, LinkConfig { jitter: None, queue: QueueLimit::Packets(10), ..gprs });
    let moving: LinkSpec =
        toml::from_str("outages = { every = \"1 min\", lasts = \"2 s\" }\nup = { preset = \"gprs\" }")
            .unwrap();
    let resolve = |direction| moving.resolve(direction, Seed(1), no_file).unwrap();
    assert_eq!(resolve(Direction::Down).outages, resolve(Direction::Up).outages);
    let OutageTimes::Random { shared, .. } = resolve(Direction::Up).outages.when else {
        panic!("random outages")
    };
    assert_eq!(shared, Some(Seed(1)), "both directions fail together");
    assert_eq!(resolve(Direction::Down).rate, Rate::Unlimited);
    assert_eq!(resolve(Direction::Up).queue, QueueLimit::Bytes(20_000));
    let calm = down("preset = \"gprs-moving\"\noutages = \"none\"\nwakeup = \"none\"\nloss = \"none\"");
    assert_eq!((calm.outages, calm.drx), (Outages::default(), None));
}

#[test]
fn traces_are_loaded_by_the_caller_or_generated() {
    let spec: LinkSpec = toml::from_str("rate = { trace = \"lte.down\" }").unwrap();
    let load = |file: &str| {
        assert_eq!(file, "lte.down");
        "1\n2\nx\n".parse().map(Arc::new).map_err(|error: shorthaul_link::TraceError| error.to_string())
    };
    let error = spec.resolve(Direction::Down, Seed(1), load).unwrap_err().to_string();
    assert!(error.starts_with("rate.trace: lte.down: line 3: `x` is not a whole number"), "{error}");
    let spec: LinkSpec =
        toml::from_str("rate = { cellular = { mean = \"5 Mbit/s\", outages = \"none\" } }").unwrap();
    let generated = |direction, seed| spec.resolve(direction, Seed(seed), no_file).unwrap().rate;
    assert_eq!(generated(Direction::Down, 1), generated(Direction::Down, 1));
    assert_ne!(generated(Direction::Down, 1), generated(Direction::Down, 2));
    assert_ne!(generated(Direction::Down, 1), generated(Direction::Up, 1));
}

#[test]
fn errors_say_where_and_what_would_be_right() {
    for nothing in ["rate = \"0 Mbit/s\"", "rate = { schedule = [{ lasts = \"1 s\", rate = \"0 bit/s\" }] }"]
    {
        let said = parse_error(nothing);
        assert!(said.contains("carries nothing") && said.contains("10 Mbit/s"), "{said}");
    }
    // each with what the message must contain
    let cases: [(&str, &[&str]); 16] = [
        ("rat = \"1 Mbit/s\"", &["unknown field `rat`", "`rate`"]),
        ("rate = 5", &["`5` has no unit", "32 Mbit/s"]),
        ("rate = \"5\"", &["`5` is not a rate", "32 Mbit/s"]),
        ("rate = { trac = \"x\" }", &["unknown field `trac`", "`trace`"]),
        ("rate = { trace = \"x\", repeats = true }", &["a trace always repeats"]),
        ("rate = {}", &["exactly one of `trace`, `schedule`, `cellular` and `paths`"]),
        ("delay = \"64\"", &["`64` is not a duration", "64 ms"]),
        ("queue = \"100\"", &["`100` is not a queue limit", "100 packets"]),
        ("loss = 5", &["`5` is not a probability", "0.1 %"]),
        ("loss = { model = \"onoff\", on = \"1 s\" }", &["unknown variant `onoff`", "`on-off`"]),
        ("loss = { model = \"on-off\", on = \"1 s\" }", &["missing field `off`"]),
        ("loss = true", &["a loss probability such as 0.001"]),
        ("jitter = { delay = \"5 ms\", order = \"maybe\" }", &["unknown variant `maybe`", "`kept`"]),
        ("outages = { every = \"1 s\" }", &["lasts = \"5 s to 40 s\""]),
        ("drx = \"100 ms\"", &["`100 ms` is not understood", "idle"]),
        ("preset = \"umts\"", &["unknown variant `umts`", "`gprs`"]),
    ];
    for (text, wanted) in cases {
        let error = parse_error(text);
        assert!(error.contains("line 1"), "{text}: {error}");
        for part in wanted {
            assert!(error.contains(part), "{text}: no `{part}` in: {error}");
        }
    }
    assert!(resolve_error("queue = \"0 packets\"").starts_with("queue: "));
    assert!(resolve_error("jitter = \"5 ms to 1 ms\"").starts_with("jitter: min is greater than max"));
    assert!(resolve_error("rate = { trace = \"x\" }").contains("x: there are no files here"));
}
