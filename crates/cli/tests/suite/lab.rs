//! `shorthaul lab`, as a person uses it. Needs root, or a host that allows user namespaces.
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shorthaul"));
    command.arg("lab").args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    lab(arguments).output().expect("running shorthaul")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_status_and_streams_of_a_command_pass_through() {
    let output = run(&["exec", "halfway", "client", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(
        (output.status.code(), text(&output.stdout), text(&output.stderr)),
        (Some(7), "out\n".into(), "err\n".into())
    );
    let output = run(&["exec", "halfway", "client", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(output.status.code(), Some(128 + 9), "{output:?}");

    let mut child = lab(&["exec", "halfway", "server", "--", "cat"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("running shorthaul");
    child.stdin.take().expect("its input").write_all(b"in").expect("writing");
    let output = child.wait_with_output().expect("waiting");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "in".into()));
}

#[test]
fn a_service_in_another_host_is_reached_by_name() {
    let serve = "exec perl -MIO::Socket::INET -e 'my $l = IO::Socket::INET->new(LocalPort => 7, Listen => 1) \
                 or die; my $c = $l->accept; print $c scalar <$c>'";
    let ask = "until exec 3<>/dev/tcp/server/7; do :; done 2>/dev/null; echo hello >&3; cat <&3";
    let output =
        run(&["exec", "halfway", "client", "--stats", "--also", "server", serve, "--", "bash", "-c", ask]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert!(out == "hello\n" && err.contains("gateway to server"), "{out}{err}");
}

#[test]
fn the_shell_is_in_the_host() {
    let mut shell = lab(&["shell", "geo", "gateway"]);
    shell.env("SHELL", "/bin/sh").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = shell.spawn().expect("running shorthaul");
    shell.stdin.take().expect("its input").write_all(b"ls /sys/class/net\nexit 3\n").expect("writing");
    let output = shell.wait_with_output().expect("waiting");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(3), "lo\nto-client\nto-server\n".into()));
}

#[test]
fn an_interrupt_ends_everything() {
    let mut child = lab(&[
        "exec",
        "halfway",
        "client",
        "--also",
        "server",
        "sleep 600",
        "--",
        "sh",
        "-c",
        "echo up; exec sleep 600",
    ]);
    // As a terminal does with Ctrl-C, the signal goes to a whole process group.
    let mut child = child.process_group(0).stdout(Stdio::piped()).spawn().expect("running shorthaul");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("reading");
    assert_eq!(line, "up\n");
    let kill = Command::new("kill").args(["-s", "INT", "--", &format!("-{}", child.id())]).status();
    assert!(kill.expect("running kill").success());
    assert_eq!(child.wait().expect("waiting").code(), Some(128 + 2));
}

#[test]
fn mistakes_are_answered_with_the_remedy() {
    let says = |arguments: &[&str], part: &str| {
        let output = run(arguments);
        let error = text(&output.stderr);
        assert!(!output.status.success() && error.contains(part), "`{part}` is not in: {error}");
    };
    says(&["exec", "halfway", "nobody", "--", "true"], "there are: client, gateway, server");
    says(&["exec", "no-such.toml", "client", "--", "true"], "halfway");
    says(&["exec", "halfway", "client", "--", "no-such-program"], "is it installed");
    says(
        &["exec", "halfway", "client", "--pcap", "client-server", "/dev/null", "--", "true"],
        "client-gateway, gateway-server",
    );
    says(&["check", "no-such.toml"], "no-such.toml");
}

#[test]
fn check_shows_the_plan() {
    for topology in ["gprs", "halfway", "geo"] {
        let output = run(&["check", topology]);
        assert!(output.status.success(), "{output:?}");
        assert!(text(&output.stdout).contains("route 10.2.0.0/24 via 10.1.0.2"), "{output:?}");
    }
    assert!(text(&run(&["list"]).stdout).contains("halfway"));
}

/// Lines of a command's output, and then the command, which still runs.
fn until_ready(command: &mut Command) -> (Vec<String>, std::process::Child) {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("running shorthaul");
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.take().expect("its output")).lines() {
        lines.push(line.expect("text"));
        if lines.last().is_some_and(|line| line.starts_with("ready")) {
            return (lines, child);
        }
    }
    panic!("it ended: {:?}, {lines:?}", child.wait());
}

#[test]
fn a_chain_of_relays_stays_can_be_entered_and_vanishes() {
    let topology = concat!(env!("CARGO_MANIFEST_DIR"), "/../../topologies/relay-chain.toml");
    let (lines, mut child) = until_ready(&mut lab(&["run", topology]));
    let suggestion = lines.iter().find(|line| line.contains(" shorthaul connect server:7000 "));
    let suggestion = suggestion.unwrap_or_else(|| panic!("{lines:#?}"));
    // Typed as it stands there, up to what it is about.
    let typed = suggestion.split("--verbose").next().expect("a command").to_owned() + "--verbose";
    let mut connect = Command::new("sh");
    connect.args(["-c", &typed]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut connect = connect.spawn().expect("running a shell");
    connect.stdin.take().expect("its input").write_all(b"there and back").expect("writing");
    let output = connect.wait_with_output().expect("waiting");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out == "there and back", "{typed}: {out}{err}");
    for node in ["paris", "tokyo"] {
        assert!(err.contains(node) && lines.iter().any(|line| line.starts_with(node)), "{err}\n{lines:#?}");
    }
    let way = typed.split_whitespace().next().expect("a program").to_owned();
    let kill = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status();
    assert!(kill.expect("running kill").success());
    assert_eq!(child.wait().expect("waiting").code(), Some(0));
    assert!(!std::path::Path::new(&way).exists(), "{way} is left over");
}

#[test]
fn a_lab_stays_as_long_as_it_is_told_to() {
    let output = run(&["run", "halfway", "--for", "10ms", "--stats"]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out.contains("a shell in gateway"), "{out}{err}");
    assert!(out.contains("vanishes in 0.01 s") && err.contains("gateway to server"), "{out}{err}");
}
