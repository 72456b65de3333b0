//! A lab made by an ordinary user, in a user namespace. Only a process with one thread can move into one, and
//! the usual test harness has several: this is a program of its own.
use shorthaul_lab::workload::Transfer;
use shorthaul_lab::{Lab, LinkDescription, Privilege, Topology};
use shorthaul_link::LinkConfig;
use shorthaul_types::{Bytes, Seed};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A test: its name, whether `/dev/net/tun` may be opened (distributions and containers differ), and what an ordinary
/// user does.
type Test = (&'static str, bool, fn());

const TESTS: [Test; 2] = [
    ("an_ordinary_user_gets_a_lab", true, an_ordinary_user_gets_a_lab),
    ("what_is_missing_is_said", false, what_is_missing_is_said),
];

/// Set in the process of the ordinary user, to the name of its test.
const ROLE: &str = "SHORTHAUL_LAB_ROOTLESS_TEST";

fn main() {
    if let Ok(role) = std::env::var(ROLE) {
        let (_, _, test) = TESTS.into_iter().find(|(name, ..)| *name == role).expect("a test of this name");
        return test();
    }
    // As the usual harness does, so that `cargo test <name>` selects here, too.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    for (name, tun, _) in TESTS {
        if filter.as_ref().is_some_and(|filter| !name.contains(filter.as_str())) {
            continue;
        }
        let program = std::env::current_exe().expect("this program");
        let root = std::fs::metadata("/proc/self").expect("/proc").uid() == 0;
        let mut command = if root { by_root(&program, tun) } else { by_an_ordinary_user(&program, tun) };
        let output = command.env(ROLE, name).output().expect("running unshare (of util-linux)");
        let text =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(output.status.success(), "{name}: {}\n{text}", output.status);
        println!("test {name} ... ok");
    }
}

/// Root runs this program again as the user "nobody".
fn by_root(program: &Path, tun: bool) -> Command {
    const SCRIPT: &str = r#"
        mount -t tmpfs none /dev/net && mknod -m "$2" /dev/net/tun c 10 200 || exit 70
        cp "$1" /dev/net/test && cd / || exit 71
        exec setpriv --reuid 65534 --regid 65534 --clear-groups /dev/net/test
    "#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", SCRIPT, "sh"]).arg(program).arg(if tun { "666" } else { "600" });
    command
}

/// Anybody else runs it again. Only root may make devices: in the place of one that may not be opened is a file of
/// root's that may not be read.
fn by_an_ordinary_user(program: &Path, tun: bool) -> Command {
    if tun {
        return Command::new(program);
    }
    const SCRIPT: &str = r#"mount --bind /etc/shadow /dev/net/tun && exec "$1""#;
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", SCRIPT, "sh"]).arg(program);
    command
}

fn an_ordinary_user_gets_a_lab() {
    assert_eq!(Privilege::obtain().unwrap_or_else(|error| panic!("{error}")), Privilege::UserNamespace);
    let mut topology = Topology::new(Seed(1));
    let slow = LinkConfig { delay: Duration::from_millis(5), ..LinkConfig::default() };
    topology.add_link(LinkDescription::symmetric("client", "gateway", slow));
    topology.add_link(LinkDescription::direct("gateway", "server"));
    for host in ["client", "gateway", "server"] {
        // Some machines forbid ordinary users the usual one.
        topology.host(host).congestion = Some("reno".into());
    }
    let lab = Lab::start(&topology).unwrap_or_else(|error| panic!("{error}"));
    let report = Transfer::default().with_congestion("reno").run(lab.host("client"), lab.host("server"));
    assert_eq!(report.unwrap_or_else(|error| panic!("{error}")).received, Bytes(1_000_000));
    let mut shell = Command::new("sh");
    let status =
        lab.host("client").spawn(shell.args(["-c", "grep -q server /etc/hosts && test -d /proc/$$"]));
    assert!(status.expect("starting sh").wait().expect("waiting for sh").success());
}

fn what_is_missing_is_said() {
    let mut topology = Topology::new(Seed(1));
    topology.add_link(LinkDescription::symmetric("client", "server", LinkConfig::default()));
    let error = Lab::start(&topology).expect_err("the device may not be opened").to_string();
    assert!(error.contains("/dev/net/tun") && error.contains("chmod 0666"), "{error}");
}
