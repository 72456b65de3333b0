//! A small process beside a gateway that keeps what takes privileges: the right to take its routing rules back.
//!
//! The gateway itself gives up all privileges once it is set up, for it reads packets of strangers. The keeper reads no packets. It
//! waits until the gateway asks for the rules to be removed, or is gone, however it went.
use crate::priority::is_prepared;
use crate::{Config, Interception, control_path};
use serde::{Deserialize, Serialize};
use shorthaul_os::Netlink;
use shorthaul_os::confine::keep_network_administration;
use shorthaul_os::files::open_privately;
use shorthaul_os::netlink::{Family, RulePriority};
use shorthaul_os::signals::Signals;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What a keeper is told, and answers when it is done: that the rules are this gateway's from now on...
const OWN: u8 = b'o';
/// ... that they are another one's...
const LEAVE: u8 = b'l';
/// ... that they are to be removed.
const REMOVE_RULES: u8 = b'r';
/// A keeper answers at once. If it is stopped, nobody waits for it longer than this.
const ANSWER: Duration = Duration::from_secs(5);
/// For this long a gateway may take to vanish from the lock, once it is gone from the socket.
const VANISHING: Duration = Duration::from_secs(2);

/// What a gateway leaves behind when it is gone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Estate {
    /// Locked while a gateway of this name runs.
    pub lock: PathBuf,
    /// Its control socket, unless a service manager sees to that.
    pub socket: Option<PathBuf>,
    /// The tables that its rules lead to, if it has rules.
    pub tables: Vec<u32>,
    /// The priority of its rules.
    pub priority: u32,
}

impl Estate {
    /// That of a gateway with this configuration.
    pub fn of(config: &Config, interception: &Interception) -> Self {
        Estate {
            lock: config.run_dir.join(format!("{}.lock", config.name)),
            socket: Some(control_path(&config.run_dir, &config.name.to_string())),
            tables: if interception.has_rules() { interception.tables.to_vec() } else { Vec::new() },
            priority: config.table,
        }
    }

    fn remove_rules(&self, netlink: &Netlink) {
        for &table in &self.tables {
            for family in [Family::V4, Family::V6] {
                netlink.remove_rules(family, RulePriority(self.priority), table);
            }
        }
    }

    /// Removes what a gateway has left, unless another one of its name is there already, whose it is now.
    fn clear(&self, netlink: &Netlink) -> io::Result<()> {
        let lock = open_privately(&self.lock)?;
        let give_up = Instant::now() + VANISHING;
        while lock.try_lock().is_err() {
            if Instant::now() > give_up {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.remove_rules(netlink);
        if let Some(socket) = &self.socket {
            let _ = std::fs::remove_file(socket);
        }
        Ok(())
    }
}

/// The gateway's side of its keeper.
#[derive(Debug)]
pub(crate) struct Keeper {
    stream: UnixStream,
    /// It has said that it is there.
    is_ready: bool,
}

impl Keeper {
    /// Starts a keeper: this program once more, with `gateway --keeper`. It is there when it has been told something.
    pub fn start(estate: &Estate) -> io::Result<Keeper> {
        let (ours, its) = UnixStream::pair()?;
        ours.set_read_timeout(Some(ANSWER))?;
        Command::new("/proc/self/exe")
            .args(["gateway", "--keeper", &serde_json::to_string(estate)?])
            .stdin(Stdio::from(OwnedFd::from(its)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What a terminal sends to us is not for it.
            .process_group(0)
            .spawn()?;
        Ok(Keeper { stream: ours, is_ready: false })
    }

    /// The rules are this gateway's: until then, there is nothing to clear up.
    pub fn own(&mut self) -> io::Result<()> {
        if !self.is_ready {
            self.heard()?;
            self.is_ready = true;
        }
        self.tell(OWN)
    }

    /// The rules are a successor's.
    pub fn leave(&self) -> io::Result<()> {
        self.tell(LEAVE)
    }

    /// Has the rules removed, and waits until they are.
    pub fn remove_rules(&self) -> io::Result<()> {
        self.tell(REMOVE_RULES)
    }

    fn tell(&self, what: u8) -> io::Result<()> {
        (&self.stream).write_all(&[what])?;
        self.heard()
    }

    fn heard(&self) -> io::Result<()> {
        (&self.stream).read_exact(&mut [0])
    }
}

/// Keeps what `text` says, an [`Estate`] in JSON, for the gateway at standard input, until it is gone.
///
/// # Errors
/// It was not started by a gateway.
pub fn keep(text: &str) -> io::Result<()> {
    let estate: Estate = serde_json::from_str(text)?;
    // It ends when the gateway does, and not before.
    let _signals = Signals::take_over()?;
    let netlink = Netlink::open()?;
    keep_network_administration()?;
    // It was started promptly, for a gateway waits for it. From now on it waits.
    is_prepared();
    let mut gateway = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut told = [LEAVE];
    gateway.write_all(&told)?;
    let mut owns = false;
    loop {
        match gateway.read(&mut told) {
            Ok(1) => {
                match told[0] {
                    OWN => owns = true,
                    LEAVE => owns = false,
                    _ => estate.remove_rules(&netlink),
                }
                // It may be gone by now.
                let _ = gateway.write_all(&told);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ if owns => return estate.clear(&netlink),
            _ => return Ok(()),
        }
    }
}
