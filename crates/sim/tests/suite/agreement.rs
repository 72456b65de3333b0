//! Our endpoint against ns-3's on the same chain: means over five seeds, given in Mbit/s.
use shorthaul_observe::{Run, Summary, run_all};
use shorthaul_report::{Progress, Silence};
use shorthaul_scenario::{Metric, Study};
use shorthaul_sim::Simulator;
use std::path::Path;

/// Case, swept relays, and what ns-3 has: mean and standard deviation over five seeds.
const NS3: [(&str, &str, f64, f64); 6] = [
    ("newreno-64", "[]", 6.94, 0.54),
    ("newreno-128", "[]", 3.54, 0.28),
    ("newreno-128", "[3]", 7.04, 0.37),
    ("newreno-128", "[2, 4]", 10.67, 0.43),
    ("newreno-256", "[2, 4]", 5.38, 0.21),
    ("cubic-128", "[]", 4.46, 0.46),
];

#[test]
fn goodputs_on_the_chain_are_those_of_ns_3() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/ns3-chain.toml");
    let study = Study::from_file(&file).unwrap_or_else(|error| panic!("{error}"));
    for (case, relays, mean, std_dev) in NS3 {
        let is_meant = |point: &&shorthaul_scenario::Point| {
            point.case.as_deref() == Some(case) && point.values[0].1 == relays
        };
        let point = study.points().iter().position(|point| is_meant(&point)).expect("a point of the file");
        let runs: Vec<Run> = study.seeds().map(|seed| Run { point, seed }).collect();
        let records =
            run_all(&Simulator::default(), &study, &runs, None, &Progress::begin(&Silence, 0), |_| ())
                .unwrap_or_else(|error| panic!("{error}"));
        let goodputs = records.iter().map(|record| {
            assert_eq!(record.failure, None, "{case}, {relays}, seed {}", record.seed);
            record.outcome.as_ref().map_or(f64::NAN, |outcome| outcome.metrics[&Metric::Goodput] / 1e6)
        });
        let ours = Summary::of(goodputs).expect("five runs");
        // within a tenth, or not further away than the two means are uncertain (95 %, Student's t for five)
        let uncertain = ours.confidence().unwrap_or(0.0).hypot(2.776 * std_dev / 5f64.sqrt());
        let apart = (ours.mean - mean).abs();
        assert!(
            apart < (0.1 * mean).max(uncertain),
            "{case}, relays {relays}: {} ± {:?} against {mean} ± {std_dev}",
            ours.mean,
            ours.confidence()
        );
        // and never a wholly different regime
        assert!(apart < 0.2 * mean, "{case}, relays {relays}: {} against {mean}", ours.mean);
    }
}
