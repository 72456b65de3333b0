//! The planner as a person uses it.
use std::path::PathBuf;
use std::process::{Command, Output};

/// A directory that is removed at the end, also of a failed test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("shorthaul-plan-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        Scratch(directory)
    }

    fn plan(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shorthaul"));
        command.current_dir(&self.0).arg("plan").args(arguments).output().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn printed(run: &Output) -> String {
    let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{stdout}\n{stderr}");
    stdout.into_owned()
}

#[test]
fn a_path_from_flags_becomes_table_sentence_figure_and_data() {
    let scratch = Scratch::new("flags");
    let said = printed(&scratch.plan(&[
        "--rtt", "128ms", "--loss", "0.1%", "--rate", "32Mbit/s", "--size", "100MB", "--relays", "0..3",
        "--model", "reno", "--out", "out/plan",
    ]));
    assert!(said.contains("Use 3 relays: 100 MB in "), "{said}");
    assert!(said.contains("what binds") && !said.contains('\x1b'), "{said}");
    for file in ["out/plan.svg", "out/plan.png"] {
        assert!(std::fs::metadata(scratch.0.join(file)).unwrap().len() > 10_000, "{file}");
    }
    let csv = std::fs::read_to_string(scratch.0.join("out/plan.csv")).unwrap();
    let rows: Vec<&str> = csv.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(rows.len(), 5, "{csv}");
    assert!(rows[4].ends_with("true") && rows[1].ends_with("false"), "{csv}");
}

#[test]
fn nothing_is_written_unasked_and_programs_are_told_in_json() {
    let scratch = Scratch::new("json");
    let said = printed(
        &scratch
            .plan(&["--rtt", "128ms", "--loss", "0.1%", "--rate", "32Mbit/s", "--size", "100MB", "--json"]),
    );
    let plan: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(plan["ways"][0]["relays"], 0, "{plan}");
    assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 0);
}

#[test]
fn a_tiny_transfer_is_told_to_go_direct() {
    let said = printed(
        &Scratch::new("tiny")
            .plan(&["--rtt", "128ms", "--loss", "0.1%", "--rate", "32Mbit/s", "--size", "10kB"]),
    );
    assert!(said.contains("Go direct: 10 kB"), "{said}");
}

#[test]
fn the_file_of_the_documentation_is_planned() {
    let scratch = Scratch::new("sites");
    let documentation = include_str!("../../../../docs/planner.md");
    let example = documentation.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    std::fs::write(scratch.0.join("sites.toml"), example).unwrap();
    let said = printed(&scratch.plan(&["--sites", "sites.toml", "--size", "10GB"]));
    assert!(said.contains("lab → frankfurt → singapore → archive"), "{said}");
    assert!(said.contains("Buffers: frankfurt ") && said.contains("none is forecast to be faster"), "{said}");
    // 0.11 for each gigabyte that passes both.
    let cheap = printed(&scratch.plan(&["--sites", "sites.toml", "--size", "10GB", "--max-price", "1"]));
    assert!(cheap.contains("Go direct") || !cheap.contains("singapore"), "{cheap}");
}

#[test]
fn mistakes_are_named_with_their_remedy() {
    let scratch = Scratch::new("mistakes");
    std::fs::write(scratch.0.join("bad.toml"), "from = \"a\"\nto = \"b\"\n[[leg]]\nfrom = \"a\"\nto = \"c\"\nrtt = \"1 ms\"\nloss = \"0 %\"\nrate = \"1 Gbit/s\"\n").unwrap();
    for (arguments, words) in [
        (vec!["--sites", "bad.toml", "--size", "1GB"], ["bad.toml, line 5", "[[site]]"]),
        (vec!["--sites", "none.toml", "--size", "1GB"], ["none.toml", "cannot read"]),
        (vec!["--size", "1GB"], ["--rtt", "required"]),
        (vec!["--rtt", "1ms", "--loss", "90%", "--rate", "1Mbit/s", "--size", "1GB"], ["loss", "0 to 0.5"]),
        (vec!["--rtt", "1ms", "--loss", "0", "--rate", "1Mbit", "--size", "1GB"], ["--rate", "32 Mbit/s"]),
        (vec!["--rtt", "1ms", "--loss", "0.1", "--rate", "1Mbit/s", "--size", "1GB"], ["0.1%", "10%"]),
        (vec!["--rtt", "-5ms", "--loss", "0", "--rate", "1Mbit/s", "--size", "1GB"], ["--rtt", "-5ms"]),
    ] {
        let run = scratch.plan(&arguments);
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(
            !run.status.success() && words.iter().all(|word| said.contains(word)),
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn a_scenarios_own_path_and_relays_are_planned() {
    let scratch = Scratch::new("scenario");
    let scheme = "{ profile = \"sack-reno\", receive_buffer = \"8 MB\", send_buffer = \"8 MB\" }";
    let text = format!(
        "duration = \"100 s\"\n[hosts.a]\nscheme = {scheme}\n[hosts.b]\nscheme = {scheme}\n\
         [[chains]]\nbetween = [\"a\", \"b\"]\nhops = 4\nlink = {{ rate = \"100 Mbit/s\", delay = \"10 ms\", queue = \"700 packets\" }}\n\
         hop.1 = {{ rate = \"100 Mbit/s\", delay = \"10 ms\", queue = \"700 packets\", loss = \"0.1 %\" }}\n\
         relays = [1, 2]\nrelay = {{ scheme = {scheme}, buffer = \"8 MB\", service_time = \"10 us\" }}\n\
         [[flows]]\nname = \"data\"\nfrom = \"a\"\nto = \"b\"\nbulk = \"50 MB\"\n"
    );
    std::fs::write(scratch.0.join("path.toml"), text).unwrap();
    let said = printed(&scratch.plan(&["--scenario", "path.toml", "--out", "out/plan"]));
    // All of the loss is on the first hop: a relay behind that alone is best, a second one adds nothing.
    assert!(said.contains("50 MB from a to b (data)") && said.contains("the model `reno`"), "{said}");
    assert!(said.contains("Use one relay") && said.contains("Way: a → a-b.1 → b."), "{said}");
    assert!(said.contains("Not in the forecast: the relays' service times."), "{said}");
    let csv = std::fs::read_to_string(scratch.0.join("out/plan.csv")).unwrap();
    assert_eq!(
        csv.lines().filter(|line| !line.starts_with('#')).count(),
        4,
        "none, one and two relays: {csv}"
    );
    let wrong = scratch.plan(&["--scenario", "path.toml", "--flow", "video"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("there are data"), "{wrong:?}");
}

#[test]
fn the_map_knows_gateways_and_refuses_what_it_was_not_made_with() {
    let folder = Scratch::new("map");
    let question =
        ["--rtt", "200ms", "--loss", "0.3%", "--rate", "20Mbit/s", "--size", "20MB", "--model", "map"];
    let told = folder.plan(&[&question[..], &["--ends", "reno", "--bad-link", "0.2", "--json"]].concat());
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    let ways = told["ways"].as_array().unwrap();
    assert_eq!(ways.len(), 4);
    assert!(ways[1]["gain"].as_f64().unwrap() > 1.5, "{told:#}");
    assert_eq!(ways.iter().filter(|way| way["advised"] == true).count(), 1);
    let shown = folder.plan(&question);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("gateway") && shown.contains("two relays"), "{shown}");
    let advised = |options: &[&str]| {
        let told = folder.plan(&[&question[..], &["--ends", "reno", "--json"], options].concat());
        let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
        let ways = told["ways"].as_array().unwrap().clone();
        let best = ways.iter().find(|way| way["advised"] == true).unwrap()["way"].clone();
        (ways.len(), best)
    };
    assert_eq!(advised(&["--relays", "0"]), (2, "gateway".into()));
    assert_eq!(advised(&["--min-gain", "100"]), (4, "direct".into()));
    for (wrong, named) in [
        (&["--streams", "4"][..], "--streams"),
        (&["--relays", "3..4"], "--relays"),
        (&["--out", "x"], "--out"),
        (&["--bad-link", "0.9"], "0.02 to 0.5"),
    ] {
        let refused = folder.plan(&[&question[..], wrong].concat());
        assert!(!refused.status.success());
        let why = String::from_utf8(refused.stderr).unwrap();
        assert!(why.contains(named), "{why}");
    }
}
