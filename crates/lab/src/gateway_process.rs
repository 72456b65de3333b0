//! `shorthaul gateway` as a program of its own, in a host of a lab.
use crate::child::{Child, ChildError, Ready, Usage};
use crate::host::Host;
use shorthaul_dataplane::{BandwidthReport, Config, control_path};
use shorthaul_os::process::ProcessHandle;
use shorthaul_types::BitRate;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A running `shorthaul gateway`; ends when dropped.
#[derive(Debug)]
pub struct GatewayProcess {
    child: Child,
    /// For its control socket and journal; of its own, as several run at once.
    directory: PathBuf,
    control: GatewayControl,
}

/// Asks a gateway, and whoever goes on in its place.
#[derive(Clone, Debug)]
pub struct GatewayControl {
    socket: PathBuf,
}

impl GatewayControl {
    /// The flows that it knows; `None` if nobody answers.
    pub fn flows(&self) -> Option<serde_json::Value> {
        serde_json::from_str(&self.ask("flows-json")?).ok()
    }

    fn ask(&self, request: &str) -> Option<String> {
        const TIMEOUT: Duration = Duration::from_secs(10);
        let mut socket = UnixStream::connect(&self.socket).ok()?;
        socket.set_read_timeout(Some(TIMEOUT)).ok()?;
        socket.write_all(request.as_bytes()).ok()?;
        let mut text = String::new();
        socket.read_to_string(&mut text).ok()?;
        Some(text)
    }
}

/// Numbers the gateways of this process.
static COUNT: AtomicU32 = AtomicU32::new(0);

impl GatewayProcess {
    /// Starts this same program as a gateway in `host`, with this configuration but for its run directory,
    /// and waits until it intercepts.
    ///
    /// # Errors
    /// If its configuration cannot be written, or it does not start.
    pub fn start(host: &Host, config: Config) -> Result<GatewayProcess, ChildError> {
        let failed = |source| ChildError::Start { name: "the gateway".into(), source };
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // What survives it is written for every packet: in memory, where there is such a place.
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let directory = place.join(format!("shorthaul-gateway-{}-{number}", std::process::id()));
        let file = directory.join("gateway.toml");
        let config = Config { run_dir: directory.clone(), ..config };
        std::fs::create_dir_all(&directory)
            .and_then(|()| std::fs::write(&file, toml::to_string(&config).map_err(std::io::Error::other)?))
            .map_err(failed)?;
        match start_with(host, &file, false) {
            Ok(child) => {
                let control = GatewayControl { socket: control_path(&directory, &config.name.to_string()) };
                Ok(GatewayProcess { child, directory, control })
            }
            Err(error) => {
                let _ = std::fs::remove_dir_all(directory);
                Err(error)
            }
        }
    }

    /// Kills it, as a crash does.
    pub fn crash(&mut self) {
        self.child.kill();
    }

    /// Starts it again as it was, after it has ended, and waits until it intercepts.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_again(&mut self, host: &Host) -> Result<(), ChildError> {
        self.child = start_with(host, &self.directory.join("gateway.toml"), false)?;
        Ok(())
    }

    /// Starts another that takes over from it, and waits until that intercepts and this one has ended. Says whether it ended in
    /// good order.
    ///
    /// # Errors
    /// If it does not start, or this one does not end.
    pub fn take_over(&mut self, host: &Host) -> Result<bool, ChildError> {
        const ENDS: Duration = Duration::from_secs(5);
        let next = start_with(host, &self.directory.join("gateway.toml"), true)?;
        let mut former = std::mem::replace(&mut self.child, next);
        Ok(former.wait(Instant::now() + ENDS)?.success())
    }

    /// Starts another that would take over, prepares all, asks for it and is refused: it has another table. This one goes on.
    ///
    /// # Errors
    /// If that was not refused.
    pub fn take_over_in_vain(&self, host: &Host) -> Result<(), ChildError> {
        let failed = |source| ChildError::Start { name: "the gateway".into(), source };
        let other = self.directory.join("other.toml");
        let text = std::fs::read_to_string(self.directory.join("gateway.toml")).map_err(failed)?;
        let table = |line: &str| line.starts_with("table =");
        let text: String =
            text.lines().filter(|line| !table(line)).fold(String::new(), |all, line| all + line + "\n");
        std::fs::write(&other, format!("table = 7777\n{text}")).map_err(failed)?;
        match start_with(host, &other, true) {
            Ok(_) => Err(failed(std::io::Error::other("it was not refused"))),
            Err(ChildError::Ended { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A handle on it, to signal it from elsewhere while it runs.
    ///
    /// # Errors
    /// If it has ended.
    pub fn handle(&self) -> std::io::Result<ProcessHandle> {
        self.child.handle()
    }

    /// How long its threads have stood waiting for a processor, the one that waited longest.
    pub fn waited(&self) -> Duration {
        self.child.waited()
    }

    /// How long the thread that has the packets has been on a processor.
    pub fn worked(&self) -> Duration {
        self.child.worked()
    }

    /// Where its control socket is.
    pub fn run_dir(&self) -> &Path {
        &self.directory
    }

    /// Payload that it holds at this moment, by its own account.
    pub fn held(&self) -> Option<u64> {
        let flows = self.flows()?;
        let legs = flows
            .as_array()?
            .iter()
            .flat_map(|flow| [&flow["to_server"]["held"], &flow["to_client"]["held"]]);
        Some(legs.filter_map(serde_json::Value::as_u64).sum())
    }

    /// The flows that it knows.
    pub fn flows(&self) -> Option<serde_json::Value> {
        self.control.flows()
    }

    /// What asks it from elsewhere while it runs.
    pub fn control(&self) -> GatewayControl {
        self.control.clone()
    }

    /// Memory and descriptors of it and its keeper.
    pub fn usage(&self) -> Usage {
        self.child.usage()
    }

    /// Its counters, by name.
    pub fn counters(&self) -> Option<serde_json::Value> {
        serde_json::from_str(&self.control.ask("counters-json")?).ok()
    }

    /// Tells it what the access side carries, as a radio controller does.
    pub fn tell_bandwidth(&self, cell: Option<&str>, bandwidth: BitRate) {
        let report = BandwidthReport { cell: cell.map(str::to_owned), bandwidth };
        self.control.ask(&format!("bandwidth {report}"));
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.is_running()
    }
}

/// Starts this same program as a gateway, and waits until it intercepts.
fn start_with(host: &Host, file: &Path, take_over: bool) -> Result<Child, ChildError> {
    let failed = |source| ChildError::Start { name: "the gateway".into(), source };
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.arg("gateway").arg("--config").arg(file);
    if take_over {
        command.arg("--take-over");
    }
    Child::start("the gateway", host, &mut command, Ready::Says("ready".into()))
}

impl Drop for GatewayProcess {
    fn drop(&mut self) {
        // Its device and rules are in the lab's namespaces and vanish with them.
        self.child.kill();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
