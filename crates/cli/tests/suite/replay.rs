//! A live run is recorded, and replayed into the same machine. Needs root, or a host that allows
//! user namespaces.
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A directory that is removed at the end, also of a failed test.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn shorthaul() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shorthaul"));
    command.stdin(Stdio::null());
    command
}

fn replay(recording: &Path) -> (Output, String) {
    let output = shorthaul().arg("replay").arg(recording).output().expect("running shorthaul");
    let said = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    (output, String::from_utf8_lossy(&said).into_owned())
}

/// Sends 300 kB, of which each byte depends on its place, to whoever connects.
const SERVE: &str = "exec perl -MIO::Socket::INET -e 'my $l = IO::Socket::INET->new(LocalPort => 7, \
    Listen => 1) or die; my $c = $l->accept; print $c pack(\"N*\", 1 .. 75000)'";

/// Splits a download across a lossy path with a gateway that records and ends in good order.
fn record(directory: &Path) -> PathBuf {
    let at = directory.display();
    let recording = directory.join("run.pcapng");
    for fifo in ["start", "done"] {
        let made = Command::new("mkfifo").arg(directory.join(fifo)).status();
        assert!(made.expect("running mkfifo").success());
    }
    let program = env!("CARGO_BIN_EXE_shorthaul");
    let gateway = format!(
        "{program} gateway --access to-client --wan to-server --control-group 0 --run-dir {at} --record {at}/run.pcapng & \
         read x < {at}/done; kill -TERM $!; wait $!"
    );
    let ask = format!(
        "read x < {at}/start; until exec 3<>/dev/tcp/server/7; do :; done 2>/dev/null; \
         cat <&3 > {at}/received; exec 3<&-; echo > {at}/done"
    );
    let mut lab = shorthaul()
        .args(["lab", "exec", "halfway", "gateway", "--also", "server", SERVE, "--also", "client"])
        .arg(format!("exec bash -c '{ask}'"))
        .args(["--", "sh", "-c", &gateway])
        .stdout(Stdio::piped())
        .spawn()
        .expect("running shorthaul");
    let mut ready = String::new();
    BufReader::new(lab.stdout.take().expect("its output")).read_line(&mut ready).expect("reading");
    assert!(ready.starts_with("ready: splitting"), "{ready}");
    fs::write(directory.join("start"), "\n").expect("starting the client");
    assert!(lab.wait().expect("waiting").success());
    let sent: Vec<u8> = (1..=75_000u32).flat_map(u32::to_be_bytes).collect();
    assert!(fs::read(directory.join("received")).expect("what arrived") == sent, "the download was damaged");
    recording
}

#[test]
fn a_recorded_run_replays_to_the_byte_and_a_changed_one_does_not() {
    let scratch = Scratch(std::env::temp_dir().join(format!("shorthaul-replay-test-{}", std::process::id())));
    fs::create_dir_all(&scratch.0).expect("a directory");
    let recording = record(&scratch.0);

    let (output, said) = replay(&recording);
    assert!(output.status.success() && said.starts_with("identical: "), "{said}");
    assert!(!said.contains("no end"), "it ended in good order: {said}");
    let packets: u32 = said.split_whitespace().nth(1).expect("a number").parse().expect("a number");
    // 300 kB in segments of a 1500-byte path, and at least an acknowledgment for two of them.
    assert!(packets > 200, "{said}");

    // One byte of the download is changed, where it was recorded as it left.
    let mut bytes = fs::read(&recording).expect("the recording");
    let value = 40_000u32.to_be_bytes();
    let last = bytes.windows(4).rposition(|window| window == value).expect("the value is in it");
    bytes[last] ^= 1;
    let changed = scratch.0.join("changed.pcapng");
    fs::write(&changed, &bytes).expect("writing");
    let (output, said) = replay(&changed);
    assert!(!output.status.success() && said.contains("different"), "{said}");

    let cut = scratch.0.join("cut.pcapng");
    fs::write(&cut, &bytes[..bytes.len() / 3]).expect("writing");
    let (_, said) = replay(&cut);
    assert!(!said.contains("panicked"), "{said}");
    let (output, said) = replay(&scratch.0.join("received"));
    assert!(!output.status.success() && said.contains("cannot replay"), "{said}");
}
