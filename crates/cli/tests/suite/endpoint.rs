//! `shorthaul endpoint` as its users run it: a few transfers of the long series, live.
use std::path::PathBuf;
use std::process::{Command, Output};

fn endpoint(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_shorthaul")).arg("endpoint").args(args).output().expect("it runs")
}

/// A directory that is removed at the end, also of a failed test.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn our_endpoint_and_the_kernel_understand_each_other() {
    let run = endpoint(&["interop", "--transfers", "12", "--seed", "1"]);
    let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{stdout}\n{stderr}");
    let mut lines = stdout.lines().rev();
    let summary: serde_json::Value = serde_json::from_str(lines.next().unwrap_or_default()).expect("JSON");
    assert_eq!((summary["passed"].as_u64(), summary["failed"].as_u64()), (Some(12), Some(0)), "{stdout}");
    let verdict = lines.next().unwrap_or_default();
    assert!(verdict.starts_with("12 transfers, seed 1, "), "{stdout}");
    assert!(verdict.ends_with("12 with the right SHA-256 at both ends, 0 failed"), "{stdout}");
}

#[test]
fn json_has_the_table_and_the_result() {
    let run = endpoint(&["interop", "--transfers", "1", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    assert_eq!((json["passed"].as_u64(), json["seed"].as_u64()), (Some(1), Some(1)), "{json}");
    let table = &json["tables"][0];
    let columns = table["columns"].as_array().expect("a list").len();
    let rows = table["rows"].as_array().expect("a list");
    assert!(
        !rows.is_empty() && rows.iter().all(|row| row.as_array().is_some_and(|row| row.len() == columns)),
        "{json}"
    );
}

#[test]
fn a_transfer_can_be_listed_by_its_number() {
    let run = endpoint(&["interop", "--only", "37", "--list"]);
    let list = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && list.starts_with(" 37  ") && list.contains("SACK"), "{list}");
    assert_eq!(list.lines().count(), 1, "{list}");
}

#[test]
fn a_cell_that_is_not_there_is_an_error_that_says_how_to_find_one() {
    let run = endpoint(&["parity", "--only", "no-such-cell"]);
    let message = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(2));
    assert!(message.contains("no-such-cell") && message.contains("--list"), "{message}");
}

#[test]
fn both_senders_are_measured_and_every_form_is_written() {
    let out = Scratch(std::env::temp_dir().join(format!("shorthaul-parity-test-{}", std::process::id())));
    let directory = out.0.to_str().expect("a path in UTF-8");
    let cell = "reno-100M-100ms-loss1";
    let run = endpoint(&["parity", "--quick", "--pairs", "1", "--only", cell, "--out", directory]);
    let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    // Whether the bound is reached is for a quiet machine to say.
    let json: serde_json::Value = serde_json::from_str(stdout.lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}\n{stdout}\n{stderr}"));
    assert_eq!(json["cells"], 1);
    assert!(json["ratios"][cell].as_f64().is_some_and(|ratio| ratio > 0.0), "{stdout}\n{stderr}");
    for name in ["parity.md", "parity.csv", "parity.json", "parity.svg", "parity.png", "trace.csv"] {
        assert!(out.0.join(name).exists(), "{name}");
    }
    let whole: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.0.join("parity.json")).expect("it is there"))
            .expect("it is JSON");
    let pair = &whole["cells"][0]["pairs"][0];
    for who in ["ours", "kernel"] {
        assert!(pair[who]["lost"].as_u64().is_some_and(|lost| lost > 0), "{pair}");
        assert!(pair[who]["retransmitted_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{pair}");
    }
}
