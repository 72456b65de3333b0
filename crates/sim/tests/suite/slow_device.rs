//! A household behind one address, one of whose devices is on a slow network of its own: the others have the line.
use shorthaul_scenario::Study;
use shorthaul_sim::{Recording, simulate};
use std::path::Path;

#[test]
fn a_device_on_a_slow_network_leaves_the_line_to_the_others_of_its_address() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/slow-device.toml");
    let study = Study::from_file(&file).unwrap_or_else(|error| panic!("{error}"));
    let seed = 1;
    // By the rate of the line: how long files took, and how many there were, by case.
    let mut seen = std::collections::BTreeMap::<String, Vec<(String, f64, usize)>>::new();
    for point in study.points() {
        let scenario = study.scenario(point).expect("it was checked");
        let outcome =
            simulate(&scenario, seed, Recording::default()).unwrap_or_else(|error| panic!("{error}"));
        assert!(outcome.problems.is_empty(), "{:?}", outcome.problems);
        let files = &outcome.flows.iter().find(|flow| flow.name == "files").unwrap().transfers;
        let mean = files.iter().sum::<f64>() / files.len() as f64;
        println!("seed {seed}, {point:?}: {} files, {mean:.2} s each", files.len());
        let rate = point.values.last().map(|(_, value)| value.to_string()).unwrap_or_default();
        seen.entry(rate).or_default().push((point.case.clone().unwrap_or_default(), mean, files.len()));
    }
    assert_eq!(seen.len(), 2);
    for (rate, cases) in seen {
        let of = |case: &str| {
            cases.iter().find(|(name, ..)| name == case).map(|(_, mean, count)| (*mean, *count)).unwrap()
        };
        let (auto, direct) = (of("auto"), of("direct"));
        assert!(auto.1 >= direct.1 && auto.0 < 1.05 * direct.0, "{rate}: {auto:?}, directly {direct:?}");
    }
}
