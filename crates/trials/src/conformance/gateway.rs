use crate::conformance::failure::{Failure, While};
use serde::Deserialize;
use shorthaul_lab::{Child, Host, Ready};
use shorthaul_os::process::ProcessHandle;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A gateway that does not say that it is ready is taken to be so after this.
const UNTOLD: Duration = Duration::from_secs(1);
/// The interface of the gateway's host toward the clients.
pub const ACCESS: &str = "to-access";
/// The interface of the gateway's host toward the server.
pub const WAN: &str = "to-server";

/// The configuration that changes.
const CONFIGURATION: &str = "changing.toml";
/// What it is, one after the other.
const MODES: [&str; 4] =
    ["", "[[policy]]\nmode = \"observe\"\n", "aggregate = \"auto\"\n", "control_group = 0.5\n"];
/// How long each of them holds: less than most cases take.
const MODE_LASTS: Duration = Duration::from_millis(150);

/// Changes the configuration of a gateway until that ends.
fn change_modes(gateway: &ProcessHandle, file: &Path) {
    let mut written = file.to_owned();
    written.set_extension("new");
    for mode in MODES.iter().cycle().skip(1) {
        if !matches!(gateway.ends_within(MODE_LASTS), Ok(false)) {
            return;
        }
        let changed = std::fs::write(&written, mode).and_then(|()| std::fs::rename(&written, file));
        // Where its directory is gone, it has ended.
        if changed.and_then(|()| gateway.hang_up()).is_err() {
            return;
        }
    }
}

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
        /// Its configuration changes all the time: flows are split, observed, and some of each.
        changing: bool,
    },
    /// Any other.
    Command {
        /// A shell command that runs in the gateway's host until it is killed. `{access}` and `{wan}`
        /// stand for the interfaces toward client and server; the environment has them too, as
        /// `ACCESS` and `WAN`. The names before, `edge` and `EDGE`, stand for the same.
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
            Gateway::Shorthaul { options, changing, .. } => {
                let changing = changing.then_some("(changing)");
                let words =
                    ["shorthaul"].into_iter().chain(options.iter().map(String::as_str)).chain(changing);
                words.collect::<Vec<_>>().join(" ")
            }
            Gateway::Command { line, .. } => line.clone(),
        }
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

    /// Starts it in `host` and waits until it is ready; `None` if there is nothing to start.
    pub(crate) fn start(&self, host: &Host, run_dir: &Path) -> Result<Option<Child>, Failure> {
        if let Gateway::Shorthaul { changing: true, .. } = self {
            std::fs::write(run_dir.join(CONFIGURATION), MODES[0]).doing("writing a configuration")?;
        }
        let Some((mut command, ready)) = self.command(run_dir) else { return Ok(None) };
        let ready = ready.map_or(Ready::RunsFor(UNTOLD), |text| Ready::Says(text.to_owned()));
        let child = Child::start("the gateway", host, &mut command, ready);
        let child = child.map_err(|error| Failure::new(error.to_string()))?;
        if let Gateway::Shorthaul { changing: true, .. } = self {
            let handle = child.handle().doing("looking for the gateway's process")?;
            let file = run_dir.join(CONFIGURATION);
            std::thread::spawn(move || change_modes(&handle, &file));
        }
        Ok(Some(child))
    }

    /// Starts it in a time namespace in which the machine has run for `by` longer than it has (time_namespaces(7)).
    pub(crate) fn start_later(
        &self,
        host: &Host,
        run_dir: &Path,
        by: Duration,
    ) -> Result<Option<Child>, Failure> {
        let Some((command, ready)) = self.command(run_dir) else { return Ok(None) };
        let ready = ready.map_or(Ready::RunsFor(UNTOLD), |text| Ready::Says(text.to_owned()));
        let mut later = Command::new("unshare");
        let seconds = by.as_secs().to_string();
        later.args([
            "--time",
            "--fork",
            "--kill-child",
            "--monotonic",
            &seconds,
            "--boottime",
            &seconds,
            "--",
        ]);
        later.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                later.env(name, value);
            }
        }
        let child = Child::start("the gateway", host, &mut later, ready);
        child.map(Some).map_err(|error| Failure::new(error.to_string()))
    }

    /// Starts another that goes on in the place of the one that runs there.
    pub(crate) fn take_over(&self, host: &Host, run_dir: &Path) -> Result<Option<Child>, Failure> {
        let Some((mut command, ready)) = self.command(run_dir) else { return Ok(None) };
        let ready = ready.map_or(Ready::RunsFor(UNTOLD), |text| Ready::Says(text.to_owned()));
        let child = Child::start("the next gateway", host, command.arg("--take-over"), ready);
        child.map(Some).map_err(|error| Failure::new(error.to_string()))
    }

    fn command(&self, run_dir: &Path) -> Option<(Command, Option<&str>)> {
        match self {
            Gateway::None => None,
            Gateway::Shorthaul { program, options, changing } => {
                let mut command = Command::new(program);
                command
                    .args(["gateway", "--access", ACCESS, "--wan", WAN, "--run-dir"])
                    .arg(run_dir)
                    .args(options);
                if *changing {
                    command.arg("--config").arg(run_dir.join(CONFIGURATION));
                }
                Some((command, Some("ready")))
            }
            Gateway::Command { line, ready } => {
                let mut command = Command::new("sh");
                let line = line.replace("{access}", ACCESS).replace("{edge}", ACCESS).replace("{wan}", WAN);
                command.arg("-c").arg(line).envs([("ACCESS", ACCESS), ("EDGE", ACCESS), ("WAN", WAN)]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_told_its_interfaces_by_their_old_names_too() {
        for line in ["echo {access} $ACCESS {wan} $WAN", "echo {edge} $EDGE {wan} $WAN"] {
            let gateway = Gateway::Command { line: line.to_owned(), ready: None };
            let (mut command, _) = gateway.command(Path::new("/")).unwrap();
            let said = command.output().unwrap().stdout;
            assert_eq!(said, format!("{ACCESS} {ACCESS} {WAN} {WAN}\n").as_bytes());
        }
    }
}
