//! Programs that run in a host of a lab, are waited for until they are ready, and end with their owner.
use crate::host::Host;
use shorthaul_os::process::{ProcessHandle, kill_group, terminate_group};
use shorthaul_os::schedule::{waited_of, worked_of};
use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child as Process, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// When a program is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// When it has printed a line that contains this text.
    Says(String),
    /// When it has run for this time.
    RunsFor(Duration),
}

/// How long a program may take until it says that it is ready: on a machine whose processors are all busy that is not soon. One that ends is
/// noticed at once.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A program that runs in a host of a lab; it is killed, with all that it has started, when this is dropped.
#[derive(Debug)]
pub struct Child {
    process: Process,
    name: String,
    output: Arc<Output>,
}

/// Why a program is not there, or not any more.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// It could not be started.
    #[error("cannot start {name}: {source}")]
    Start {
        /// The program.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// It ended before it was ready.
    #[error("{name} did not start ({status}): {said}")]
    Ended {
        /// The program.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// The last that it printed.
        said: String,
    },
    /// It did not become ready.
    #[error("{name} did not print `{text}` within {} s: {said}", TIMEOUT.as_secs())]
    NotReady {
        /// The program.
        name: String,
        /// What was waited for.
        text: String,
        /// The last that it printed.
        said: String,
    },
    /// It was asked to stop and did not.
    #[error("{name} did not exit after SIGTERM: {said}")]
    Lingers {
        /// The program.
        name: String,
        /// The last that it printed.
        said: String,
    },
}

/// Memory and descriptors of a program and of all that it has started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Memory that is in RAM.
    pub resident_kib: u64,
    /// The part of it that is no file's: of what outlives a crash, nothing is in it.
    pub anonymous_kib: u64,
    /// Open files.
    pub descriptors: usize,
}

/// What a program prints.
#[derive(Debug, Default)]
struct Output {
    wanted: Option<String>,
    printed: Mutex<Printed>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Printed {
    /// Pipes that are still open.
    open: usize,
    /// The last lines.
    last: VecDeque<String>,
    is_ready: bool,
}

impl Child {
    /// Starts a program in `host`, in a process group of its own and without input, and waits until it is ready.
    /// `name` is what errors call it.
    ///
    /// # Errors
    /// If it cannot be started, ends, or does not become ready.
    pub fn start(name: &str, host: &Host, command: &mut Command, ready: Ready) -> Result<Child, ChildError> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, so that a script is killed together with what it has started.
        command.process_group(0);
        let mut process =
            host.spawn(command).map_err(|source| ChildError::Start { name: name.to_owned(), source })?;
        let (wanted, timeout) = match ready {
            Ready::Says(text) => (Some(text), TIMEOUT),
            Ready::RunsFor(time) => (None, time),
        };
        let output = Arc::new(Output { wanted, ..Output::default() });
        follow(process.stdout.take(), &output);
        follow(process.stderr.take(), &output);
        let mut child = Child { process, name: name.to_owned(), output };
        child.wait_until_ready(Instant::now() + timeout)?;
        Ok(child)
    }

    fn wait_until_ready(&mut self, deadline: Instant) -> Result<(), ChildError> {
        // An exit is seen when the pipes close; one whose own children keep them open, by looking.
        const LOOK: Duration = Duration::from_millis(50);
        loop {
            if let Some(status) = self.ended() {
                self.await_last_words();
                return Err(ChildError::Ended { name: self.name.clone(), status, said: self.last_words() });
            }
            let printed = self.output.lock();
            if printed.is_ready {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            drop(self.output.changed.wait_timeout(printed, left.min(LOOK)));
        }
        match &self.output.wanted {
            None => Ok(()),
            Some(text) => Err(ChildError::NotReady {
                name: self.name.clone(),
                text: text.clone(),
                said: self.last_words(),
            }),
        }
    }

    /// Its process id, as this process sees it.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// A handle on it, to signal it from elsewhere while it runs.
    ///
    /// # Errors
    /// If it has ended and was waited for.
    pub fn handle(&self) -> io::Result<ProcessHandle> {
        ProcessHandle::of(self.process.id())
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.ended().is_none()
    }

    /// Waits until everything that it printed has been read, for a second at most: what it has started may have
    /// its pipes.
    fn await_last_words(&self) {
        let unread = |printed: &mut Printed| printed.open > 0;
        drop(self.output.changed.wait_timeout_while(self.output.lock(), Duration::from_secs(1), unread));
    }

    /// Waits until `read` makes something of one of the last lines that it printed, for so long at most.
    pub fn await_line<T>(&self, timeout: Duration, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let found = |printed: &Printed| printed.last.iter().find_map(|line| read(line));
        let missing = |printed: &mut Printed| found(printed).is_none() && printed.open > 0;
        let printed = self.output.changed.wait_timeout_while(self.output.lock(), timeout, missing);
        let (printed, _) = printed.unwrap_or_else(PoisonError::into_inner);
        found(&printed)
    }

    /// The last lines that it printed.
    pub fn last_words(&self) -> String {
        let printed = self.output.lock();
        let lines: Vec<&str> = printed.last.iter().map(String::as_str).collect();
        if lines.is_empty() { "it printed nothing".to_owned() } else { lines.join(" | ") }
    }

    /// Asks it to stop (SIGTERM), without waiting for it.
    pub fn ask_to_stop(&self) {
        terminate_group(self.process.id());
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    /// If it has not by `deadline`.
    pub fn wait(&mut self, deadline: Instant) -> Result<ExitStatus, ChildError> {
        const LOOK: Duration = Duration::from_millis(10);
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                return Err(ChildError::Lingers { name: self.name.clone(), said: self.last_words() });
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Kills it and all that it has started (SIGKILL): no chance to tidy up.
    pub fn kill(&mut self) {
        if self.is_running() {
            kill_group(self.process.id());
            let _ = self.process.wait();
        }
    }

    /// Memory and descriptors of it and of all that it has started.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        let Ok(processes) = std::fs::read_dir("/proc") else { return usage };
        for process in processes.flatten() {
            let path = process.path();
            let Ok(stat) = std::fs::read_to_string(path.join("stat")) else { continue };
            // "pid (name) state parent group …"; the name may contain anything, even parentheses.
            let group = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(2));
            if group.and_then(|group| group.parse().ok()) != Some(self.process.id()) {
                continue;
            }
            let status = std::fs::read_to_string(path.join("status")).unwrap_or_default();
            let kib = |name: &str| -> Option<u64> {
                let value = status.lines().find_map(|line| line.strip_prefix(name))?;
                value.trim().trim_end_matches(" kB").parse().ok()
            };
            usage.resident_kib += kib("VmRSS:").unwrap_or(0);
            usage.anonymous_kib += kib("RssAnon:").unwrap_or(0);
            usage.descriptors += std::fs::read_dir(path.join("fd")).map_or(0, Iterator::count);
        }
        usage
    }

    /// How long its threads have stood waiting for a processor, the one that waited longest.
    pub fn waited(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process.id())).into_iter().flatten();
        tasks.flatten().map(|task| waited_of(&task.path())).max().unwrap_or_default()
    }

    /// How long its first thread has been on a processor.
    pub fn worked(&self) -> Duration {
        let first = self.process.id();
        worked_of(Path::new(&format!("/proc/{first}/task/{first}")))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Output {
    fn lock(&self) -> MutexGuard<'_, Printed> {
        // A thread that panicked while it noted a line has left at worst that line out.
        self.printed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads what a program prints in a thread of its own, to the end, so that it never waits for us.
fn follow(pipe: Option<impl Read + Send + 'static>, output: &Arc<Output>) {
    const KEPT: usize = 5;
    let Some(pipe) = pipe else { return };
    let output = Arc::clone(output);
    output.lock().open += 1;
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let mut printed = output.lock();
            printed.is_ready |= output.wanted.as_ref().is_some_and(|text| line.contains(text.as_str()));
            printed.last.push_back(line);
            if printed.last.len() > KEPT {
                printed.last.pop_front();
            }
            output.changed.notify_all();
        }
        output.lock().open -= 1;
        output.changed.notify_all();
    });
}

/// Whether a program of this name is in the search path.
pub fn is_installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|directory| Path::new(&directory).join(program).exists())
}
