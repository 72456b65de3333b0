use crate::host::Host;
use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A shell command that runs in the background in a host, until the lab ends.
#[derive(Debug)]
pub struct Service {
    host: Host,
    command: String,
    child: Child,
    /// The sockets that awaited peers in the host before.
    before: BTreeSet<String>,
}

impl Service {
    pub(crate) fn start(host: &Host, command: &str) -> io::Result<Self> {
        let before = listening(host);
        let child = host.spawn(
            Command::new("/bin/sh")
                .args(["-c", command])
                .process_group(0)
                .stdin(Stdio::null())
                .stdout(io::stderr()),
        )?;
        Ok(Service { host: host.clone(), command: command.to_owned(), child, before })
    }

    /// The host in which it runs.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The shell command.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits until a program in its host listens on a TCP port, or is bound to a UDP port, that was free
    /// before; gives up after `timeout`, or when the command has ended. Says whether it came to that.
    pub fn await_listening(&mut self, timeout: Duration) -> bool {
        const PAUSE: Duration = Duration::from_millis(5);
        let deadline = Instant::now() + timeout;
        loop {
            if listening(&self.host).difference(&self.before).next().is_some() {
                return true;
            }
            if Instant::now() >= deadline || self.ended().is_some() {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended already. What it has started ends with the PID namespace.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sockets in `host` that await peers, by protocol and address.
fn listening(host: &Host) -> BTreeSet<String> {
    host.run(|| {
        let tables = ["tcp", "tcp6", "udp", "udp6"];
        let read = |table: &str| {
            let text = std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
            waiting(table, &text)
        };
        tables.into_iter().flat_map(read).collect()
    })
}

/// The entries of a table of sockets (`proc(5)`, `/proc/net/tcp`) that await peers.
fn waiting(table: &str, text: &str) -> Vec<String> {
    const LISTEN: &str = "0A";
    const UNCONNECTED: &str = "07";
    let wanted = if table.starts_with("tcp") { LISTEN } else { UNCONNECTED };
    let entry = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, _, state) = (fields.next()?, fields.next()?, fields.next()?);
        (state == wanted).then(|| format!("{table} {local}"))
    };
    text.lines().skip(1).filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_that_await_peers_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue\n   \
            0: 0100007F:1451 00000000:0000 0A 00000000:00000000 00:00000000 00000000\n   \
            1: 0100007F:1451 0100007F:A07C 01 00000000:00000000 00:00000000 00000000\n";
        assert_eq!(waiting("tcp", table), ["tcp 0100007F:1451"]);
        assert!(waiting("udp", table).is_empty());
    }
}
