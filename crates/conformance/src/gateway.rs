use crate::failure::{Failure, While};
use crate::sys;
use serde::Deserialize;
use shorthaul_lab::Host;
use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// The interface of the gateway's host toward the clients.
pub const EDGE: &str = "to-access";
/// The interface of the gateway's host toward the server.
pub const WAN: &str = "to-server";

/// What stands between client and server.
#[derive(Clone, Debug)]
pub enum Gateway {
    /// Nothing but the kernel's own forwarding: the control. What fails here says nothing about
    /// gateways.
    None,
    /// `shorthaul gateway`.
    Shorthaul {
        /// The `shorthaul` binary.
        program: PathBuf,
        /// More arguments for `shorthaul gateway`.
        options: Vec<String>,
    },
    /// Any other.
    Command {
        /// A shell command that runs in the gateway's host until it is killed. `{edge}` and `{wan}`
        /// stand for the interfaces toward client and server; the environment has them too, as
        /// `EDGE` and `WAN`.
        line: String,
        /// The gateway is ready when it has printed a line that contains this. Without it, it is
        /// taken to be ready when it has run for a second.
        ready: Option<String>,
    },
}

impl Gateway {
    /// For the report.
    pub fn name(&self) -> String {
        match self {
            Gateway::None => "none (control)".to_string(),
            Gateway::Shorthaul { options, .. } if options.is_empty() => "shorthaul".to_string(),
            Gateway::Shorthaul { options, .. } => format!("shorthaul {}", options.join(" ")),
            Gateway::Command { line, .. } => line.clone(),
        }
    }

    /// Whether there is a process that can be killed, restarted and measured.
    pub(crate) fn is_process(&self) -> bool {
        !matches!(self, Gateway::None)
    }

    /// The flows that a gateway in `run_dir` knows; `None` if it cannot be asked.
    pub(crate) fn flows(&self, run_dir: &Path) -> Result<Option<BTreeSet<String>>, Failure> {
        let Gateway::Shorthaul { program, .. } = self else { return Ok(None) };
        let answer = Command::new(program)
            .args(["flows", "--json", "--run-dir"])
            .arg(run_dir)
            .output()
            .doing("asking `shorthaul flows`")?;
        let listing: Vec<Flow> = serde_json::from_slice(&answer.stdout).map_err(|error| {
            let said = String::from_utf8_lossy(&answer.stderr);
            let said = said.lines().next().unwrap_or("it said nothing");
            Failure::new(format!("`shorthaul flows --json` gave no list of flows: {error}; {said}"))
        })?;
        Ok(Some(listing.into_iter().map(|flow| format!("{} to {}", flow.client, flow.server)).collect()))
    }

    fn command(&self, run_dir: &Path) -> Option<(Command, Option<&str>)> {
        match self {
            Gateway::None => None,
            Gateway::Shorthaul { program, options } => {
                let mut command = Command::new(program);
                command
                    .args(["gateway", "--edge", EDGE, "--wan", WAN, "--run-dir"])
                    .arg(run_dir)
                    .args(options);
                Some((command, Some("ready")))
            }
            Gateway::Command { line, ready } => {
                let mut command = Command::new("sh");
                let line = line.replace("{edge}", EDGE).replace("{wan}", WAN);
                command.arg("-c").arg(line).env("EDGE", EDGE).env("WAN", WAN);
                Some((command, ready.as_deref()))
            }
        }
    }
}

/// An element of what `shorthaul flows --json` prints.
#[derive(Deserialize)]
struct Flow {
    client: String,
    server: String,
}

/// A gateway that runs in its host. It is killed when this is dropped.
pub(crate) struct Running {
    child: Child,
    output: Arc<Output>,
}

/// The last lines that the gateway printed, and whether one of them said that it is ready.
struct Output {
    ready_text: Option<String>,
    /// Pipes that are still open.
    open: AtomicUsize,
    lines: Mutex<(VecDeque<String>, bool)>,
    changed: Condvar,
}

/// What the gateway's processes use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) resident_kib: u64,
    pub(crate) descriptors: usize,
}

impl Running {
    /// Starts `gateway` in `host` and waits until it is ready; `None` if there is nothing to start.
    pub(crate) fn start(gateway: &Gateway, host: &Host, run_dir: &Path) -> Result<Option<Running>, Failure> {
        let Some((mut command, ready)) = gateway.command(run_dir) else { return Ok(None) };
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, so that a script is killed together with what it has started.
        command.process_group(0);
        let mut child = host.spawn(&mut command).doing("starting the gateway")?;
        let output = Arc::new(Output {
            ready_text: ready.map(str::to_string),
            open: AtomicUsize::new(0),
            lines: Mutex::default(),
            changed: Condvar::new(),
        });
        follow(child.stdout.take(), &output);
        follow(child.stderr.take(), &output);
        let mut running = Running { child, output };
        running.wait_until_ready()?;
        Ok(Some(running))
    }

    fn wait_until_ready(&mut self) -> Result<(), Failure> {
        let patience = match self.output.ready_text {
            Some(_) => Duration::from_secs(10),
            None => Duration::from_secs(1),
        };
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.exited() {
                self.await_last_words();
                return Err(Failure::new(format!(
                    "the gateway exited ({status}) before it was ready: {}",
                    self.last_words()
                )));
            }
            let lines = self.output.lines.lock().expect("no holder panics");
            if lines.1 {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now()).min(Duration::from_millis(50));
            if left.is_zero() {
                break;
            }
            drop(self.output.changed.wait_timeout(lines, left));
        }
        match &self.output.ready_text {
            None => Ok(()),
            Some(text) => Err(Failure::new(format!(
                "the gateway did not print `{text}` within {} s: {}",
                patience.as_secs(),
                self.last_words()
            ))),
        }
    }

    /// The exit status, if the gateway is no more.
    pub(crate) fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits until everything that the gateway printed has been read, for a second at most: a child
    /// of its own may have its pipes.
    fn await_last_words(&self) {
        let lines = self.output.lines.lock().expect("no holder panics");
        let patience = Duration::from_secs(1);
        let unread = |_: &mut _| self.output.open.load(Ordering::Acquire) > 0;
        drop(self.output.changed.wait_timeout_while(lines, patience, unread));
    }

    /// The last lines that it printed.
    pub(crate) fn last_words(&self) -> String {
        let lines = self.output.lines.lock().expect("no holder panics");
        let tail: Vec<&str> = lines.0.iter().map(String::as_str).collect();
        if tail.is_empty() { "it printed nothing".to_string() } else { tail.join(" | ") }
    }

    /// `kill -9`: no chance to tidy up.
    pub(crate) fn kill(mut self) {
        self.kill_and_reap();
    }

    /// Asks the gateway to stop, without waiting for it.
    pub(crate) fn ask_to_stop(&self) {
        sys::signal_group(self.child.id(), libc::SIGTERM);
    }

    /// Waits until the gateway has exited by itself.
    pub(crate) fn wait(&mut self, deadline: Instant) -> Result<ExitStatus, Failure> {
        loop {
            if let Some(status) = self.exited() {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                return Err(Failure::new(format!(
                    "the gateway did not exit after SIGTERM: {}",
                    self.last_words()
                )));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Memory and descriptors of all the processes of the gateway's group.
    pub(crate) fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        let Ok(processes) = fs::read_dir("/proc") else { return usage };
        for process in processes.flatten() {
            let path = process.path();
            let Ok(stat) = fs::read_to_string(path.join("stat")) else { continue };
            // "pid (name) state parent group …"; the name may contain anything, even parentheses.
            let group = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(2));
            if group.and_then(|g| g.parse().ok()) != Some(self.child.id()) {
                continue;
            }
            let status = fs::read_to_string(path.join("status")).unwrap_or_default();
            let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let kib = resident.and_then(|r| r.trim().trim_end_matches(" kB").parse::<u64>().ok());
            usage.resident_kib += kib.unwrap_or(0);
            usage.descriptors += fs::read_dir(path.join("fd")).map_or(0, Iterator::count);
        }
        usage
    }

    fn kill_and_reap(&mut self) {
        sys::signal_group(self.child.id(), libc::SIGKILL);
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.exited().is_none() {
            self.kill_and_reap();
        }
    }
}

/// Reads the gateway's output in a thread of its own, so that the pipe never fills up.
fn follow(pipe: Option<impl Read + Send + 'static>, output: &Arc<Output>) {
    const KEPT: usize = 5;
    let Some(pipe) = pipe else { return };
    let output = Arc::clone(output);
    output.open.fetch_add(1, Ordering::Release);
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let mut lines = output.lines.lock().expect("no holder panics");
            lines.1 |= output.ready_text.as_ref().is_some_and(|text| line.contains(text.as_str()));
            lines.0.push_back(line);
            if lines.0.len() > KEPT {
                lines.0.pop_front();
            }
            output.changed.notify_all();
        }
        let _lines = output.lines.lock().expect("no holder panics");
        output.open.fetch_sub(1, Ordering::Release);
        output.changed.notify_all();
    });
}
