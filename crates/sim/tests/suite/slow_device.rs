//! A household behind one address, one of whose devices is on a network of its own: the others have the line, or their part of it.
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

/// A device that is farther away downloads all the time, and from half of the time on so does one on the line itself. What each had then, in Mbit/s, and the
/// first one alone before.
fn beside_far_device(is_split: bool, seed: u64) -> [f64; 3] {
    let text = format!(
        "duration = \"30 s\"\nrouters = [\"home\"]\n\
         [hosts.server]\nscheme = \"cubic\"\n[hosts.near]\nscheme = \"cubic\"\n[hosts.far]\nscheme = \"cubic\"\n\
         [gateways.gateway]\naccess = \"home\"\nsplit = {is_split}\nhosts = {{ prefix_v4 = 8 }}\n\
         [[links]]\nbetween = [\"server\", \"gateway\"]\nlink = {{ delay = \"1 ms\" }}\n\
         [[links]]\nbetween = [\"home\", \"gateway\"]\nlink = {{ rate = \"20 Mbit/s\", delay = \"15 ms\", queue = \"300 kB\" }}\n\
         [[links]]\nbetween = [\"home\", \"near\"]\nlink = {{ delay = \"100 us\" }}\n\
         [[links]]\nbetween = [\"home\", \"far\"]\nlink = {{ delay = \"30 ms\" }}\n\
         [[flows]]\nname = \"far\"\nfrom = \"server\"\nto = \"far\"\nunlimited = \"30 s\"\n\
         [[flows]]\nname = \"pages\"\nfrom = \"server\"\nto = \"near\"\nstart = \"500 ms\"\n\
         downloads = {{ size = \"60 kB\", repeats = 1000, pause = \"1 s\" }}\n\
         [[flows]]\nname = \"near\"\nfrom = \"server\"\nto = \"near\"\nstart = \"15 s\"\nunlimited = \"15 s\"\n\
         [measure]\nseries = [\"delivered\"]\nevery = \"50 ms\"\n"
    );
    let study = Study::from_toml("test.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let scenario = study.scenario(&study.points()[0]).expect("it was checked");
    let outcome = simulate(&scenario, seed, Recording::default()).unwrap_or_else(|error| panic!("{error}"));
    let rate = |name: &str, (from, until): (f64, f64)| {
        let series = outcome.series.iter().find(|series| series.subject == name).unwrap();
        let at = |time| {
            series.points.iter().take_while(|(at, _)| *at <= time).last().map_or(0.0, |(_, bytes)| *bytes)
        };
        (at(until) - at(from)) * 8.0 / (until - from) / 1e6
    };
    [rate("near", (18.0, 30.0)), rate("far", (18.0, 30.0)), rate("far", (3.0, 15.0))]
}

#[test]
fn who_is_farther_away_has_its_part_of_the_line_and_the_line_alone() {
    for seed in [1, 2] {
        let [direct, gateway] = [false, true].map(|is_split| beside_far_device(is_split, seed));
        println!("seed {seed}: {gateway:.1?} Mbit/s, directly {direct:.1?}");
        let [near, far, alone] = gateway;
        assert!(near.min(far) > 0.9 * near.max(far), "they share the line: {gateway:?}");
        assert!(near + far > 0.93 * (direct[0] + direct[1]), "{gateway:?}, directly {direct:?}");
        assert!(alone > 0.85 * direct[2], "{gateway:?}, directly {direct:?}");
    }
}
