//! The gateway as a child process, in a host of a lab.
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use shorthaul_dataplane::{BandwidthReport, Config, control_path};
use shorthaul_lab::{Host, waited_of};
use shorthaul_types::BitRate;

/// How long it may take to set up its device and rules.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running `shorthaul gateway`; ends when dropped.
pub struct Gateway {
    child: Child,
    /// For its control socket and journal; of its own, as several run at once.
    directory: PathBuf,
    name: String,
}

/// Numbers the gateways of this process.
static COUNT: AtomicU32 = AtomicU32::new(0);

impl Gateway {
    /// Starts this same program as a gateway in `host`, with this configuration but for its run directory,
    /// and waits until it intercepts.
    pub fn start(host: &Host, config: Config) -> Result<Gateway> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(program);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("shorthaul-gateway-{}-{number}", std::process::id()));
        let file = directory.join("gateway.toml");
        let config = Config { run_dir: directory.clone(), ..config };
        std::fs::create_dir_all(&directory)
            .and_then(|()| std::fs::write(&file, toml::to_string(&config).map_err(std::io::Error::other)?))
            .with_context(|| format!("cannot write {}", file.display()))?;
        command.arg("gateway").arg("--config").arg(&file);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = host.spawn(&mut command).context("cannot start the gateway")?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let gateway = Gateway { child, directory, name: config.name.to_string() };
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

    /// How long its threads have stood waiting for a processor, the one that waited longest.
    pub fn waited(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten();
        tasks.flatten().map(|task| waited_of(&task.path())).max().unwrap_or_default()
    }

    /// Payload that it holds at this moment, by its own account.
    pub fn held(&self) -> Option<u64> {
        let flows: serde_json::Value = serde_json::from_str(&self.ask("flows-json")?).ok()?;
        let legs = flows
            .as_array()?
            .iter()
            .flat_map(|flow| [&flow["to_server"]["held"], &flow["to_client"]["held"]]);
        Some(legs.filter_map(serde_json::Value::as_u64).sum())
    }

    /// Tells it what the edge carries, as a radio controller does.
    pub fn tell_bandwidth(&self, cell: Option<&str>, bandwidth: BitRate) {
        let report = BandwidthReport { cell: cell.map(str::to_owned), bandwidth };
        self.ask(&format!("bandwidth {report}"));
    }

    fn ask(&self, request: &str) -> Option<String> {
        let mut socket = UnixStream::connect(control_path(&self.directory, &self.name)).ok()?;
        socket.set_read_timeout(Some(PATIENCE)).ok()?;
        socket.write_all(request.as_bytes()).ok()?;
        let mut text = String::new();
        socket.read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
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
