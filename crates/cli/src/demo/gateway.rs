//! The gateway as a child process, in the host between client and server.
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use shorthaul_lab::Host;

use super::plan::Congestion;

/// How long it may take to set up its device and rules.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running `shorthaul gateway`; ends when dropped.
pub struct Gateway {
    child: Child,
    /// For its control socket and journal; of its own, as several run at once.
    directory: PathBuf,
}

/// Numbers the gateways of this process.
static COUNT: AtomicU32 = AtomicU32::new(0);

impl Gateway {
    /// Starts this same program as a gateway in `host`, with the congestion control of the ends and a
    /// first window of `initial_window` segments toward the client, and waits until it intercepts.
    pub fn start(host: &Host, ends: Congestion, initial_window: u32) -> Result<Gateway> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(program);
        command.args(["gateway", "--edge", "to-client", "--wan", "to-server"]);
        command.args(["--congestion", ends.name()]);
        command.args(["--initial-window", &initial_window.to_string()]);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("shorthaul-demo-{}-{number}", std::process::id()));
        command.arg("--run-dir").arg(&directory);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = host.spawn(&mut command).context("cannot start the gateway")?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let gateway = Gateway { child, directory };
        let (Some(stdout), Some(stderr)) = (stdout, stderr) else { bail!("the gateway has no output") };

        let (say, said) = mpsc::channel();
        thread::spawn(move || {
            // Read to the end, so that the gateway never waits for us.
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if line.starts_with("ready") {
                    let _ = say.send(());
                }
            }
        });
        let complaints = thread::spawn(move || {
            let mut text = Vec::new();
            let mut stderr = stderr;
            // What it says at its start is enough to know why it did not start.
            let _ = stderr.by_ref().take(16 << 10).read_to_end(&mut text);
            let _ = std::io::copy(&mut stderr, &mut std::io::sink());
            String::from_utf8_lossy(&text).trim().to_string()
        });
        if said.recv_timeout(PATIENCE).is_err() {
            drop(gateway);
            let complaint = complaints.join().unwrap_or_default();
            let first = complaint.lines().next().unwrap_or("it said nothing");
            bail!("the gateway did not start: {first}");
        }
        Ok(gateway)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Its device and rules are in the lab's namespaces and vanish with them.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
