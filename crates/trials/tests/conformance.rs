//! The control: what the suite asks for, the kernel alone must do. And what the suite must notice.
use shorthaul_report::Silence;
use shorthaul_trials::conformance::{Case, CaseVerdict, Fault, Gateway, Report, Suite, cases};
use shorthaul_types::Seed;

fn run(gateway: Gateway, faults: &[Fault], names: &[&str]) -> Report {
    let cases: Vec<Case> = cases().into_iter().filter(|case| names.contains(&case.name)).collect();
    assert_eq!(cases.len(), names.len(), "every name is that of a case");
    Suite { gateway, faults: faults.to_vec(), cases, seed: Seed(1) }
        .run(&Silence)
        .expect("a network can be built")
}

#[test]
fn the_kernel_passes_with_and_without_faults() {
    let report = run(
        Gateway::None,
        &[Fault::None, Fault::Lossy],
        &[
            "closed-port-refused",
            "half-close-by-client",
            "half-close-by-server",
            "rst-by-client-behind-data",
            "rst-by-server-after-half-close",
            "simultaneous-close",
            "urgent-byte-inline",
            "sequence-wrap-upload",
            "true-addresses",
            "without-any-option",
            "fragments-pass",
        ],
    );
    assert_eq!(report.failed(), 0, "{report}");
}

#[test]
fn a_gateway_that_drops_everything_is_found_out() {
    let gateway = Gateway::Command {
        line: "echo 0 >/proc/sys/net/ipv4/ip_forward; echo ready; exec sleep 60".to_string(),
        ready: Some("ready".to_string()),
    };
    let report = run(gateway, &[Fault::None], &["udp-passes", "ping-passes"]);
    // Over IPv6 it does no harm.
    assert_eq!((report.passed(), report.failed()), (2, 2), "{report}");
    for outcome in report.outcomes {
        assert_eq!(outcome.verdict == CaseVerdict::Passed, outcome.family == "IPv6");
    }
}

#[test]
fn a_gateway_that_does_not_start_fails_every_case_and_says_why() {
    let gateway = Gateway::Command { line: "echo no such key; exit 3".to_string(), ready: None };
    let report = run(gateway, &[Fault::None], &["true-addresses"]);
    assert_eq!(report.passed(), 0);
    for outcome in &report.outcomes {
        let CaseVerdict::Failed { reason } = &outcome.verdict else { panic!("{outcome}") };
        assert!(reason.contains("no such key"), "{reason}");
    }
}

#[test]
fn the_last_line_for_people_says_how_many_passed_and_so_does_the_one_for_programs() {
    let report = run(Gateway::None, &[Fault::None], &["server-speaks-first"]);
    assert_eq!(report.to_string().lines().last(), Some("2 passed, 0 failed"));
    let summary = report.summary();
    assert_eq!((summary["passed"].as_u64(), summary["failed"].as_u64()), (Some(2), Some(0)));
    assert!(report.to_json().contains("\"verdict\": \"passed\""), "{}", report.to_json());
}
