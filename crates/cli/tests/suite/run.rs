//! Scenario files from the command line: checked, run, kept, sharded, merged, recorded.
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A directory that is removed at the end, also of a failed test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("shorthaul-run-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory of our own");
        Scratch(directory)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs the program: whether it succeeded, and what it said on both outputs.
fn shorthaul(arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shorthaul"));
    command.stdin(Stdio::null()).args(arguments);
    let output = command.output().expect("running shorthaul");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

const SCENARIO: &str = r#"
about = "a small sweep"
repeats = 2
duration = "60 s"
[hosts.client]
[hosts.server]
[[links]]
between = ["client", "server"]
link = { rate = "5 Mbit/s", delay = "20 ms", queue = "30 packets", loss = "1 %" }
[[flows]]
name = "download"
from = "server"
to = "client"
bulk = "200 kB"
[measure]
metrics = ["goodput", "completion", "retransmitted"]
series = ["cwnd"]
[sweep]
"flows.download.bulk" = ["200 kB", "400 kB", "600 kB"]
"#;

/// A file without the lines that say which command wrote it.
fn data(path: &str) -> String {
    let text = fs::read_to_string(path).expect("the file that was written");
    text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n")
}

/// Runs as they were written before each said of which part it is.
fn data_without_parts(path: &str) -> String {
    fs::read_to_string(path).expect("runs").replace(",\"part\":\"2/2\"", "")
}

#[test]
fn parts_that_are_merged_are_the_whole_and_nothing_is_run_twice() {
    let scratch = Scratch::new("parts");
    let (file, cache) = (scratch.path("small.toml"), scratch.path("cache"));
    fs::write(&file, SCENARIO).expect("writing the scenario");
    let run = |more: &[&str]| {
        let (succeeded, said) = shorthaul(&[&["run", &file, "--cache", &cache], more].concat());
        assert!(succeeded, "{said}");
        said
    };
    let whole = run(&["--out", &scratch.path("whole")]);
    assert!(whole.contains("goodput") && whole.contains("400 kB") && whole.contains("Mbit/s"), "{whole}");
    let known = fs::read_dir(&cache).expect("the cache").count();
    assert_eq!(known, 6, "three points with two seeds");
    run(&["--shard", "1/2", "--out", &scratch.path("one")]);
    run(&["--shard", "2/2", "--out", &scratch.path("two")]);
    assert_eq!(fs::read_dir(&cache).expect("the cache").count(), known, "all of it was known");
    let parts = [scratch.path("two"), scratch.path("one")];
    let merged = shorthaul(&["merge", &parts[0], &parts[1], "--out", &scratch.path("merged")]);
    assert_eq!(merged, (true, whole));
    let (succeeded, said) = shorthaul(&["merge", &parts[1], "--out", &scratch.path("half")]);
    assert!(succeeded && said.contains("not the whole: nothing of part 2/2 is among these"), "{said}");
    // Of those that say nothing of parts, nobody knows.
    let unsaid = data_without_parts(&scratch.path("two/runs.jsonl"));
    fs::write(scratch.path("unsaid.jsonl"), unsaid).expect("writing runs");
    let (succeeded, said) = shorthaul(&["merge", &parts[1], &scratch.path("unsaid.jsonl")]);
    assert!(succeeded && said.contains("may not be the whole: nothing of part 2/2"), "{said}");
    // What was merged and is not the whole still is a part.
    let (succeeded, said) = shorthaul(&["merge", &scratch.path("half"), &parts[0]]);
    assert!(succeeded && !said.contains("not the whole"), "{said}");
    for name in ["results.csv", "series.csv", "transfers.csv", "runs.jsonl"] {
        let [one, other] = ["whole", "merged"].map(|part| data(&scratch.path(&format!("{part}/{name}"))));
        assert!(one.lines().count() >= 6 && one == other, "{name}");
    }
    // and what was kept is what a fresh run gives
    let (succeeded, said) = shorthaul(&["run", &file, "--no-cache", "--out", &scratch.path("fresh")]);
    assert!(succeeded, "{said}");
    assert_eq!(data(&scratch.path("fresh/runs.jsonl")), data(&scratch.path("whole/runs.jsonl")));
}

#[test]
fn more_seeds_are_run_until_the_mean_is_known_well_enough() {
    let scratch = Scratch::new("confidence");
    let file = scratch.path("small.toml");
    fs::write(&file, SCENARIO).expect("writing the scenario");
    let runs = |share: &str, at_most: &str| {
        let out = scratch.path("out");
        let target =
            ["--point", "1", "--confidence", share, "--at-most", at_most, "--no-cache", "--out", &out];
        let (succeeded, said) = shorthaul(&[&["run", &file], target.as_slice()].concat());
        assert!(succeeded, "{said}");
        fs::read_to_string(format!("{out}/runs.jsonl")).expect("the runs").lines().count()
    };
    let (coarse, fine) = (runs("80 %", "100"), runs("3 %", "500"));
    assert!((5..10).contains(&coarse) && coarse < fine && fine < 500, "{coarse}, {fine}");
    assert_eq!(runs("0.1 %", "7"), 7);
    let (succeeded, said) = shorthaul(&["run", &file, "--confidence", "much"]);
    assert!(!succeeded && said.contains("5 %"), "{said}");
}

#[test]
fn one_run_is_recorded_for_wireshark_and_as_events() {
    let scratch = Scratch::new("recording");
    let (file, pcap, trace) = (scratch.path("s.toml"), scratch.path("p.pcapng"), scratch.path("t.jsonl"));
    fs::write(&file, SCENARIO).expect("writing the scenario");
    let capture = format!("client-server={pcap}");
    let (succeeded, said) = shorthaul(&["run", &file, "--pcap", &capture]);
    assert!(!succeeded && said.contains("single run") && said.contains("--point"), "{said}");
    let one = ["run", &file, "--point", "2", "--repeats", "1", "--pcap", &capture, "--trace", &trace];
    let (succeeded, said) = shorthaul(&one);
    assert!(succeeded, "{said}");
    assert!(fs::metadata(&pcap).expect("the capture").len() > 400_000);
    let first = fs::read_to_string(&trace).expect("the trace").lines().next().map(str::to_owned);
    let first: serde_json::Value = serde_json::from_str(&first.expect("an event")).expect("JSON");
    assert_eq!((&first["event"], &first["flags"]), (&"sent".into(), &"S".into()));
    let (succeeded, said) = shorthaul(&["run", &file, "--point", "1", "--repeats", "1", "--pcap", "lan=x"]);
    assert!(!succeeded && said.contains("no link `lan`") && said.contains("client-server"), "{said}");
}

#[test]
fn a_scenario_is_checked_and_explained_without_running() {
    let scratch = Scratch::new("check");
    let (good, bad) = (scratch.path("good.toml"), scratch.path("bad.toml"));
    fs::write(&good, SCENARIO).expect("writing");
    fs::write(&bad, SCENARIO.replace("20 ms", "20 parsecs")).expect("writing");
    let (succeeded, said) = shorthaul(&["scenario", "check", &good, &bad]);
    assert!(!succeeded && said.contains("good.toml: sound, 6 runs"), "{said}");
    assert!(said.contains("bad.toml, line 9") && said.contains("20 parsecs"), "{said}");
    // A flow that would begin when the run is over.
    fs::write(&bad, SCENARIO.replace("bulk = \"200 kB\"", "bulk = \"200 kB\"\nstart = \"60 s\""))
        .expect("writing");
    let (succeeded, said) = shorthaul(&["scenario", "check", &bad]);
    assert!(!succeeded && said.contains("bad.toml, line 10: `[[flows]]`"), "{said}");
    assert!(said.contains("`start` is 60 s") && said.contains("over at 60 s"), "{said}");
    let (succeeded, said) = shorthaul(&["scenario", "explain", &good]);
    assert!(
        succeeded && said.contains("6 runs: 3 points") && said.contains("200 kB from server to client"),
        "{said}"
    );
    let (succeeded, said) = shorthaul(&["scenario", "schema"]);
    let schema: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert!(succeeded && schema["properties"]["flows"].is_object());
}

/// The runs that were over first do not stand for those that were not.
#[test]
fn transfers_that_do_not_end_are_not_left_out_without_a_word() {
    let scratch = Scratch::new("unended");
    let file = scratch.path("short.toml");
    let out = scratch.path("out");
    let short = |duration: &str| {
        fs::write(&file, SCENARIO.replace("60 s", duration)).expect("writing");
        let run = shorthaul(&["run", &file, "--no-cache", "--point", "3", "--out", &out]);
        let merged = shorthaul(&["merge", &out]);
        assert_eq!(run, merged);
        run
    };
    let (succeeded, said) = short("200 ms");
    let sentence =
        "2 of 2 runs had transfers that had not ended; so there is no `completion`: lengthen `duration`";
    assert!(succeeded && said.contains("2 of 2 runs not ended"), "{said}");
    assert!(said.contains(&format!("bulk 600 kB: {sentence}")), "{said}");
    let page = fs::read_to_string(format!("{out}/report.html")).expect("a page");
    assert!(page.contains("2 of 2 runs had transfers that had not ended"), "{page}");
    let (succeeded, said) = short("60 s");
    assert!(succeeded && !said.contains("not ended"), "{said}");
}

#[test]
fn a_run_that_fails_names_its_seed_and_the_command_that_repeats_it() {
    let scratch = Scratch::new("failure");
    let file = scratch.path("dead.toml");
    // nothing gets through: the connection is given up
    let dead = SCENARIO.replace("loss = \"1 %\"", "loss = 1.0").replace("60 s", "1000 s");
    fs::write(&file, dead).expect("writing");
    let (succeeded, said) =
        shorthaul(&["run", &file, "--point", "1", "--repeats", "1", "--seed", "5", "--no-cache"]);
    assert!(!succeeded && said.contains("seed 5 of point 1 failed"), "{said}");
    assert!(said.contains("--point 1 --seed 5 --repeats 1"), "{said}");
    assert!(said.contains("1 of 1 runs failed"), "{said}");
}
