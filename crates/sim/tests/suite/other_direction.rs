//! The queue of the other direction is none of a found window's own, for connections that begin while it stands, too.
use shorthaul_observe::Outcome;
use shorthaul_scenario::Study;
use shorthaul_sim::{Recording, simulate};

/// A host whose uplink has a tenth of the downlink's rate, and a queue of 1.4 s; and the way to the server.
const DEEP: [&str; 2] = [
    "{ rate = \"8 Mbit/s\", delay = \"3 ms\", queue = \"150 kB\", up = { rate = \"800 kbit/s\" } }",
    "{ rate = \"100 Mbit/s\", delay = \"5 ms\" }",
];
/// The same with queues of 36 ms down and 0.36 s up, and a server that is far away.
const SHALLOW: [&str; 2] = [
    "{ rate = \"4500 kbit/s\", delay = \"12 ms\", queue = \"20 kB\", up = { rate = \"450 kbit/s\" } }",
    "{ rate = \"12 Mbit/s\", delay = \"60 ms\", queue = \"68 kB\" }",
];

/// For half a minute, two uploads; four downloads that begin after them, the last of them in the midst of it; and thirty short ones. Returns
/// what arrived of all downloads, in bit/s.
fn downloads([access, wan]: [&str; 2], gateway: &str, scheme: &str, seed: u64) -> f64 {
    let text = format!(
        "duration = \"30 s\"\n[hosts.server]\nscheme = \"{scheme}\"\n[hosts.phone]\nscheme = \"{scheme}\"\n\
         [gateways.gateway]\naccess = \"phone\"\n{gateway}\n\
         [[links]]\nbetween = [\"phone\", \"gateway\"]\nlink = {access}\n\
         [[links]]\nbetween = [\"gateway\", \"server\"]\nlink = {wan}\n\
         [[flows]]\nname = \"up\"\nfrom = \"phone\"\nto = \"server\"\nopened_by = \"phone\"\nunlimited = \"30 s\"\ncount = 2\n\
         [[flows]]\nname = \"down\"\nfrom = \"server\"\nto = \"phone\"\nopened_by = \"phone\"\nstart = \"1 s\"\n\
         unlimited = \"30 s\"\ncount = 4\nspacing = \"exponential 4 s\"\n\
         [[flows]]\nname = \"page\"\nfrom = \"server\"\nto = \"phone\"\nopened_by = \"phone\"\nstart = \"2 s\"\n\
         count = 30\nspacing = \"exponential 800 ms\"\ndownloads = {{ size = \"50 kB\" }}\n"
    );
    let study = Study::from_toml("test.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let scenario = study.scenario(&study.points()[0]).expect("it was checked");
    let outcome: Outcome =
        simulate(&scenario, seed, Recording::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.problems.is_empty(), "{:?}", outcome.problems);
    let downloads = outcome.flows.iter().filter(|flow| !flow.name.starts_with("up"));
    downloads.map(|flow| flow.delivered as f64 * 8.0 / 30.0).sum()
}

#[test]
fn downloads_that_begin_beside_uploads_have_what_they_have_without_a_gateway() {
    for scheme in ["cubic", "bbr3"] {
        for seed in 1..=3 {
            let direct = downloads(DEEP, "split = false", scheme, seed);
            let split = downloads(DEEP, "control_group = 0.0", scheme, seed);
            assert!(split >= 0.98 * direct, "{scheme}, seed {seed}: {split} of {direct} bit/s");
        }
    }
}

/// What acknowledgments wait for varies by more than the path is long here, and many begin right behind one that has waited.
#[test]
fn so_it_is_where_the_queues_are_shallow_and_the_server_far() {
    for seed in 1..=3 {
        let direct = downloads(SHALLOW, "split = false", "cubic", seed);
        let split = downloads(SHALLOW, "control_group = 0.0", "cubic", seed);
        assert!(split >= 0.98 * direct, "seed {seed}: {split} of {direct} bit/s");
    }
}
