//! `shorthaul conformance` as its users run it.
use std::process::{Command, Output};

fn conformance(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_shorthaul")).arg("conformance").args(args).output().expect("it runs")
}

#[test]
fn a_filtered_control_run_passes_and_ends_with_the_count() {
    let output = conformance(&["--gateway", "none", "--fault", "none", "--only", "half-close-by-server"]);
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}");
    let mut lines = report.lines().rev();
    let summary: serde_json::Value = serde_json::from_str(lines.next().unwrap_or_default()).expect("JSON");
    assert_eq!((summary["passed"].as_u64(), summary["failed"].as_u64()), (Some(2), Some(0)), "{report}");
    assert_eq!(lines.next(), Some("2 passed, 0 failed"), "{report}");
}

#[test]
fn a_filter_that_fits_nothing_is_an_error() {
    let output = conformance(&["--only", "no-such-case"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("no-such-case") && message.contains("--list"), "{message}");
}

#[test]
fn the_cases_are_listed_with_their_references() {
    let output = conformance(&["--list", "--only", "urgent"]);
    let list = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success());
    assert_eq!(list.lines().count(), 3, "{list}");
    assert!(list.lines().all(|line| line.contains("[RFC ")), "{list}");
    let output = conformance(&["--list", "--json", "--only", "urgent"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let references = json.as_array().expect("a list").iter().map(|case| case["reference"].as_str());
    assert_eq!(
        references.filter(|reference| reference.is_some_and(|text| text.contains("RFC "))).count(),
        3,
        "{json}"
    );
}

#[test]
fn json_is_all_that_is_printed_where_it_is_asked_for() {
    let output =
        conformance(&["--gateway", "none", "--fault", "none", "--only", "half-close-by-server", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (json["outcomes"].as_array().map(Vec::len), json["seed"].as_u64()),
        (Some(2), Some(1)),
        "{json}"
    );
    // Progress is for those who look.
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
