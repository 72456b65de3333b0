//! A relay as a process of its own, on a host of a lab: `shorthaul node`.
use std::io::{self, BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use shorthaul_lab::Host;
use shorthaul_scenario::Forward;
use shorthaul_types::Bytes;

/// What a relay does.
#[derive(Clone, Debug)]
pub struct Settings<'a> {
    /// Where it takes connections.
    pub listen: SocketAddr,
    /// Where it carries them on to.
    pub target: SocketAddr,
    /// The kernel's congestion control for what leaves it.
    pub congestion: &'a str,
    /// What it may hold of each direction; the kernel's own sizes if `None`.
    pub buffer: Option<Bytes>,
    /// When it sends on.
    pub forward: Forward,
}

/// A relay that runs, and ends with this.
#[derive(Debug)]
pub struct Relay(Child);

impl Relay {
    /// Starts it on a host, and returns when it listens.
    ///
    /// # Errors
    /// If it cannot be started, or ends before it listens.
    pub fn start(host: &Host, settings: &Settings<'_>) -> io::Result<Relay> {
        let Settings { listen, target, congestion, buffer, forward } = settings;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("node")
            .arg("--relay")
            .arg(format!("{listen}={target}"))
            .args(["--congestion", congestion]);
        if let Some(Bytes(buffer)) = buffer {
            command.arg("--buffer").arg(format!("{buffer}B"));
        }
        match forward {
            Forward::AtOnce => {}
            Forward::AfterRoundTrips(windows) => {
                command.arg("--wait-windows").arg(windows.to_string());
            }
            Forward::WhenComplete => {
                command.arg("--store");
            }
        }
        let child = host.spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
        let mut relay = Relay(child);
        let mut ready = String::new();
        if let Some(stdout) = relay.0.stdout.take() {
            BufReader::new(stdout).read_line(&mut ready)?;
        }
        if ready.starts_with("ready") {
            return Ok(relay);
        }
        Err(io::Error::other("a relay did not start: `shorthaul node` ended before it listened"))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
