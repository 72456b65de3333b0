//! Nodes and local proxies as processes, as people start them.
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The binary under test.
pub const SHORTHAUL: &str = env!("CARGO_BIN_EXE_shorthaul");

/// A process that ends with its test.
pub struct Running {
    pub child: Child,
    /// Where it said that it listens, in the order in which it did.
    pub addresses: Vec<SocketAddr>,
    /// What it says later must have somewhere to go.
    _output: BufReader<ChildStdout>,
}

impl Running {
    /// Starts a command, and waits until it has said `lines` times that it is ready.
    pub fn start(command: &mut Command, lines: usize) -> Running {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
        Running::when_ready(child, lines)
    }

    /// The same in a host of a lab.
    pub fn start_in(host: &shorthaul_lab::Host, command: &mut Command, lines: usize) -> Running {
        let child = host.spawn(command.stdin(Stdio::null()).stdout(Stdio::piped())).expect("it starts");
        Running::when_ready(child, lines)
    }

    fn when_ready(mut child: Child, lines: usize) -> Running {
        let mut addresses = Vec::new();
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        for _ in 0..lines {
            let mut line = String::new();
            output.read_line(&mut line).expect("text");
            assert!(line.starts_with("ready:"), "{line}");
            addresses.extend(line.split_whitespace().find_map(|word| word.parse::<SocketAddr>().ok()));
        }
        Running { child, addresses, _output: output }
    }

    /// What is resident of its own memory, in KiB.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("RssAnon")).expect("its memory");
        line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Nodes of one network on this host.
pub struct Network {
    pub nodes: Vec<Running>,
    pub secret: PathBuf,
    folder: PathBuf,
}

impl Network {
    pub fn start(test: &str, count: usize, more: &[&str]) -> Network {
        let folder = std::env::temp_dir().join(format!("shorthaul-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let secret = folder.join("secret");
        let made = Command::new(SHORTHAUL).arg("secret").arg(&secret).stdout(Stdio::null()).status();
        assert!(made.expect("it starts").success());
        let node = |number: usize| {
            let mut command = Command::new(SHORTHAUL);
            command.args([
                "node",
                "--listen",
                "127.0.0.1:0",
                "--allow-destination",
                "127.0.0.0/8",
                "--secret",
            ]);
            command.arg(&secret).args(["--name", &format!("node{number}")]).args(more);
            Running::start(&mut command, 1)
        };
        Network { nodes: (1..=count).map(node).collect(), secret, folder }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The first this many nodes, as `--via` wants them.
    pub fn via(&self, count: usize) -> String {
        let hops: Vec<String> =
            self.nodes[..count].iter().map(|node| node.addresses[0].to_string()).collect();
        hops.join(",")
    }

    /// A command that goes by the first this many nodes.
    pub fn client(&self, command: &str, count: usize) -> Command {
        let mut client = Command::new(SHORTHAUL);
        client.arg(command).arg("--via").arg(self.via(count)).arg("--secret").arg(&self.secret);
        client
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
