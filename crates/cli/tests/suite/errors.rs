//! What a user reads when something is wrong, with `RUST_BACKTRACE=1` in the environment.
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A file that is removed at the end, also of a failed test.
struct Written(PathBuf);

impl Written {
    fn new(name: &str, text: &str) -> Written {
        let path = std::env::temp_dir().join(format!("shorthaul-errors-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("writing");
        Written(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path in UTF-8")
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The exit status and what is on standard error: one paragraph, that of the error, and no backtrace.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_shorthaul"))
        .args(arguments)
        .env("RUST_BACKTRACE", "1")
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(said.starts_with("error: "), "{arguments:?}: {said}");
    assert!(!said.contains("\n\n") && said.ends_with('\n'), "{arguments:?}: {said}");
    assert!(!said.to_lowercase().contains("backtrace"), "{arguments:?}: {said}");
    (run.status.code(), said)
}

#[test]
fn a_typo_in_a_scenario_names_file_line_key_and_remedy() {
    let scenario = Written::new("typo.toml", "[hosts.a]\n[hosts.b]\nschem = \"reno\"\n");
    let file = scenario.path().rsplit('/').next().unwrap_or_default();
    for arguments in [&["run", scenario.path()][..], &["scenario", "explain", scenario.path()]] {
        let (status, said) = refused(arguments);
        assert_eq!(status, Some(2), "{said}");
        for part in [file, "line 3", "schem", "scheme"] {
            assert!(said.contains(part), "`{part}` is missing: {said}");
        }
    }
}

#[test]
fn a_typo_in_a_configuration_names_file_line_key_and_remedy() {
    let config = Written::new("gateway.toml", "access = [\"a\"]\nwan = [\"b\"]\ndrain_timeot = \"1s\"\n");
    let (status, said) = refused(&["gateway", "--config", config.path()]);
    assert_eq!(status, Some(2), "{said}");
    for part in [config.path(), "line 3", "drain_timeot", "drain_timeout"] {
        assert!(said.contains(part), "`{part}` is missing: {said}");
    }
    let settings = Written::new("node.toml", "alow = [\"10.0.0.0/8\"]\n");
    let (status, said) = refused(&["node", "--listen", "127.0.0.1:0", "--settings", settings.path()]);
    assert_eq!(status, Some(2), "{said}");
    for part in [settings.path(), "line 1", "alow", "allow"] {
        assert!(said.contains(part), "`{part}` is missing: {said}");
    }
}

#[test]
fn the_old_name_of_the_flag_for_the_access_side_is_read() {
    let (status, said) = refused(&["gateway", "--edge", "lo", "--wan", "lo"]);
    assert!(status == Some(2) && said.contains("`lo` is named in `access` too"), "{said}");
}

/// Values of the wrong kind: the answer says what to write, and nothing of types.
#[test]
fn a_value_of_the_wrong_kind_is_answered_with_what_to_write() {
    let path = "duration = \"1 s\"\n[hosts.a]\n[hosts.b]\n[[links]]\nbetween = [\"a\", \"b\"]\n";
    for (text, parts) in [
        (format!("{path}link = {{ delay = 5 }}\n"), ["line 6", "`5`", "\"64 ms\""]),
        (format!("{path}link = {{ overhead = true }}\n"), ["line 6", "`true`", "\"1500 B\""]),
        (format!("{path}mtu = -1\nlink = {{}}\n"), ["line 6", "`-1`", "a whole number"]),
        (format!("routers = \"r\"\n{path}link = {{}}\n"), ["line 1", "\"r\"", "a list, such as"]),
    ] {
        let scenario = Written::new("kind.toml", &text);
        let (status, said) = refused(&["run", scenario.path()]);
        assert_eq!(status, Some(2), "{said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{parts:?}: {said}");
    }
    let config = Written::new("ports.toml", "[[policy]]\nmatch = { ports = [70000] }\n");
    let (status, said) = refused(&["gateway", "--config", config.path()]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("`70000`") && said.contains("0 to 65535") && said.contains("line 2"), "{said}");
}

/// More runs than there is memory to count them in.
#[test]
fn more_runs_than_a_study_can_have_are_none() {
    let text = "duration = \"1 s\"\n[hosts.a]\n[hosts.b]\n[[links]]\nbetween = [\"a\", \"b\"]\nlink = {}\n\
                [[flows]]\nfrom = \"a\"\nto = \"b\"\nbulk = \"1 kB\"\n";
    let few = Written::new("few.toml", text);
    let many = Written::new("many.toml", &format!("repeats = 4000000000\n{text}"));
    for arguments in [
        &["run", few.path(), "--repeats", "4000000000", "--no-cache"][..],
        &["run", many.path(), "--no-cache"],
        &["scenario", "explain", many.path(), "--json"],
    ] {
        let (status, said) = refused(arguments);
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains("1000000 runs at most") && said.contains("repeats"), "{said}");
    }
}

/// Where results are to be kept is tried before anything is run.
#[test]
fn results_that_cannot_be_kept_are_not_computed() {
    let text = "duration = \"1 s\"\n[hosts.a]\n[hosts.b]\n[[links]]\nbetween = [\"a\", \"b\"]\nlink = {}\n\
                [[flows]]\nfrom = \"a\"\nto = \"b\"\nbulk = \"1 kB\"\n";
    let scenario = Written::new("out.toml", text);
    let file = Written::new("in-the-way", "");
    let below = format!("{}/results", file.path());
    let mut run = Command::new(env!("CARGO_BIN_EXE_shorthaul"));
    let run = run.args(["run", scenario.path(), "--no-cache", "--out", &below]).output().expect("it runs");
    let said = String::from_utf8_lossy(&run.stderr);
    assert_eq!((run.status.code(), run.stdout.as_slice()), (Some(1), &[][..]), "{said}");
    assert!(said.starts_with("error: ") && said.contains(&below), "{said}");
}

#[test]
fn what_makes_no_sense_has_status_2() {
    let one_site = Written::new("sites.toml", "[[site]]\nname = \"a\"\n");
    for arguments in [
        &["run"][..],
        &["run", "no-such-file.toml"],
        &["reproduce", "pte", "--only", "no-such-study"],
        &["reproduce", "cascade", "--repeats", "0"],
        &["reproduce", "cascade", "--live", "no-such-file.json"],
        &["bench", "plan", "--paths", "0"],
        &["conformance", "--only", "no-such-case"],
        &["endpoint", "parity", "--only", "no-such-cell"],
        &["agreement", "no-such-file.toml"],
        &["plan", "--rtt", "128ms"],
        &["plan", "--size", "1MB", "--sites", one_site.path()],
        &["lab", "check", "no-such-topology"],
        &["node", "--listen", "0.0.0.0:0"],
        &["secret", "--authority", "no-such-file"],
        &["merge", "no-such-file.jsonl"],
        &["replay", "no-such-file.pcapng"],
        &["endpoint", "interop", "--transfers", "0"],
        &["gatway"],
    ] {
        let (status, said) = refused(arguments);
        assert_eq!(status, Some(2), "{arguments:?}: {said}");
    }
}

#[test]
fn what_fails_when_it_runs_has_status_1() {
    for arguments in [&["flows", "--run-dir", "/nonexistent"][..], &["measure", "a=127.0.0.1:1"]] {
        let run = Command::new(env!("CARGO_BIN_EXE_shorthaul"))
            .args(arguments)
            .env("RUST_BACKTRACE", "1")
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.lines().any(|line| line.starts_with("error: ")), "{arguments:?}: {said}");
        assert!(!said.to_lowercase().contains("backtrace"), "{arguments:?}: {said}");
    }
}

#[test]
fn output_that_nobody_reads_ends_without_a_word() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let run = Command::new(env!("CARGO_BIN_EXE_shorthaul"))
        .args(["conformance", "--list"])
        .env("RUST_BACKTRACE", "1")
        .stdout(writer)
        .output()
        .expect("it runs");
    assert_eq!((run.status.code(), run.stderr.as_slice()), (Some(141), &[][..]));
}

#[test]
fn output_that_cannot_be_written_is_an_error_in_one_line() {
    for arguments in [&["lab", "list"][..], &["--help"], &["--version"], &["node", "--help"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("a disk that is full");
        let mut run = Command::new(env!("CARGO_BIN_EXE_shorthaul"));
        let run = run.args(arguments).env("RUST_BACKTRACE", "1").stdout(full).output().expect("it runs");
        let said = String::from_utf8_lossy(&run.stderr);
        assert_eq!((run.status.code(), said.lines().count()), (Some(1), 1), "{arguments:?}: {said}");
        assert!(
            said.starts_with("error: cannot write to standard output: No space"),
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn the_help_has_the_commands_in_groups() {
    let help = Command::new(env!("CARGO_BIN_EXE_shorthaul")).arg("--help").output().expect("it runs");
    let text = String::from_utf8_lossy(&help.stdout);
    assert_eq!(help.status.code(), Some(0), "{text}");
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("`{part}` is missing in\n{text}"));
    let order =
        ["Serve", "  gateway ", "Use", "  connect ", "Study", "  run ", "Prove", "  conformance ", "Options"];
    assert!(order.windows(2).all(|pair| place(pair[0]) < place(pair[1])), "{text}");
    assert!(!text.contains('\x1b'), "no colour into a pipe: {text}");
}
