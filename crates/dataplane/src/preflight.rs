//! What a gateway needs of a host, before it runs and when it is gone: what is checked, what would be done, and what is undone.
use crate::attach::obstacle::obstacles;
use crate::behind::{describe, name_hosts};
use crate::control::control_path;
use crate::daemon_error::{DaemonError, LONGEST_SOCKET_PATH, file, in_run_dir, system};
use crate::journal_files::JournalFiles;
use crate::routes::{RouteError, exists, is_forwarding};
use crate::{Config, Interception, Way, attach, bridge};
use shorthaul_monitor::Pages;
use shorthaul_os::files::{may_make_files, open_privately};
use shorthaul_os::monotonic;
use shorthaul_os::netlink::{Family, interfaces};
use shorthaul_os::{Errno, Netlink};
use shorthaul_proxy::LegSpec;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where it stands what to do about a firewall.
pub(crate) const SEE: &str =
    "docs/gateway.md, of a package in /usr/share/doc/shorthaul, What it changes on the host";
/// This long a keeper takes to clear up at most, on a busy machine.
const CLEARING: Duration = Duration::from_millis(500);

/// The configuration with what only this host knows filled in: the hosts behind interfaces, and the MTU of each leg, the least of its interfaces'. The
/// kernel splits super-segments as we say, and drops what does not fit without our hearing of it: an MTU that is written can only be a smaller one.
pub(crate) fn on_this_host(config: &Config) -> Result<Config, DaemonError> {
    let present = interfaces().map_err(system("asking for the interfaces"))?;
    let mut config = config.clone();
    name_hosts(&mut config)?;
    // An interface that is not there is complained of later, with the names of those that are.
    let [access, wan] = config.interfaces().map(|names| {
        let of_side = present.iter().filter(|interface| names.contains(&interface.0));
        of_side.map(|(_, mtu)| (*mtu).clamp(576, 65_535)).min()
    });
    for (leg, least) in [(&mut config.to_access, access), (&mut config.to_wan, wan)] {
        leg.mtu = leg.mtu.into_iter().chain(least).min();
    }
    for policy in &mut config.policy {
        for (leg, least) in [(&mut policy.to_access, access), (&mut policy.to_wan, wan)] {
            if let (Some(leg), Some(least)) = (leg, least) {
                leg.mtu = leg.mtu.map(|written| written.min(least));
            }
        }
    }
    Ok(config)
}

/// An MTU that was written and is larger than what interfaces take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargerMtu {
    /// The leg, and of which policy.
    pub leg: String,
    /// What was written.
    pub written: u32,
    /// What is used.
    pub used: u32,
}

impl std::fmt::Display for LargerMtu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let LargerMtu { leg, written, used } = self;
        write!(
            f,
            "{leg} mtu = {written} is more than an interface of that side takes: it is {used}, as if nothing were written"
        )
    }
}

/// Those of a configuration, as it was written and with what this host knows.
pub(crate) fn larger_mtus(written: &Config, used: &Config) -> Vec<LargerMtu> {
    let larger = |leg: String, written: Option<u32>, used: Option<u32>| {
        let (written, used) = (written?, used?);
        (written > used).then_some(LargerMtu { leg, written, used })
    };
    let of_all = [
        larger("[to_access]".into(), written.to_access.mtu, used.to_access.mtu),
        larger("[to_wan]".into(), written.to_wan.mtu, used.to_wan.mtu),
    ];
    let pairs = written.policy.iter().zip(&used.policy).zip(1..);
    let of_policies = pairs.flat_map(|((written, used), number)| {
        let mtu = |leg: &Option<LegSpec>| leg.as_ref().and_then(|leg| leg.mtu);
        [
            larger(format!("policy {number}, to_access:"), mtu(&written.to_access), mtu(&used.to_access)),
            larger(format!("policy {number}, to_wan:"), mtu(&written.to_wan), mtu(&used.to_wan)),
        ]
    });
    of_all.into_iter().chain(of_policies).flatten().collect()
}

/// What a gateway with this configuration would do to this host, line by line, and whether it could start.
///
/// # Errors
/// Why it could not.
pub fn check_gateway(config: &Config) -> Result<Vec<String>, DaemonError> {
    let written = config;
    let config = &on_this_host(config)?;
    let machine = config.gateway(0)?;
    check_host(config)?;
    let interception = Interception::chosen(config, false)?;
    let has_rules = interception.has_rules();
    let Interception { interfaces, devices, tables, priority, way, .. } = interception;
    check_privilege(&devices[0])?;
    check_run_dir(config)?;
    config.record.as_deref().map_or(Ok(()), check_place)?;
    let mut lines = Vec::new();
    let is_running = is_running(config)?;
    if has_rules && !is_running {
        check_tables(tables)?;
    }
    if is_running {
        lines.push(format!(
            "a gateway named `{}` is running: SIGHUP has it read its configuration again, --take-over goes on in its place; this would not start beside it",
            config.name
        ));
    }
    let queues = if config.workers == 1 { String::new() } else { format!(" with {} queues", config.workers) };
    if let Some(names) = &config.bridge {
        lines.extend(bridge::describe(config, names, &devices, &queues)?);
    } else if way == Way::Interfaces {
        lines.extend(attach::describe(config, &devices, &queues));
    } else {
        for (device, table) in devices.iter().zip(tables) {
            lines.push(format!(
                "device {device}: a TUN device{queues}, with rp_filter = 2 and forwarding = 1"
            ));
            lines.push(format!("table {table}: everything by {device}"));
        }
        for (interfaces, table) in interfaces.iter().zip(tables) {
            for interface in interfaces {
                lines.push(format!(
                    "rules {}: from {interface}, TCP and ICMP (IPv4 and IPv6), look into table {table}",
                    priority.0
                ));
            }
        }
        if let Way::Rules(Some(why)) = way {
            lines.push(format!("rules, and no programs at the access interfaces: {why}"));
        }
        lines.extend(obstacles(config).into_iter().map(|found| format!("warning: {found} ({SEE})")));
    }
    if config.bridge.is_none() {
        for (family, name, key) in [
            (Family::V4, "IPv4", "net.ipv4.ip_forward"),
            (Family::V6, "IPv6", "net.ipv6.conf.all.forwarding"),
        ] {
            if exists(family) && !is_forwarding(family) {
                lines.push(format!("{name} does not pass: this host does not forward it ({key} is not 1)"));
            }
        }
    }
    lines.extend(larger_mtus(written, config).into_iter().map(|larger| format!("warning: {larger}")));
    lines.extend(describe(&written.bottleneck, &config.bottleneck));
    let present = JournalFiles::find(config).map_err(in_run_dir(config.run_dir.clone()))?;
    let kept = if config.custody { present.next(config.workers) } else { Vec::new() };
    let files = [control_path(&config.run_dir, &config.name.to_string()), lock_path(config)];
    for path in files.into_iter().chain(kept) {
        lines.push(format!("file {}", path.display()));
    }
    if let Some(address) = config.metrics {
        // The one that runs is at it.
        if !is_running {
            drop(Pages::bind(address, false)?);
        }
        lines.push(format!("http://{address}/ and /metrics, for this host alone"));
    }
    let each =
        if config.workers == 1 { String::new() } else { format!("for each of {} workers ", config.workers) };
    lines.push(format!(
        "memory: {each}up to {} for {} flows, {} of each direction of one",
        machine.memory, machine.max_flows, machine.flow_buffer
    ));
    Ok(lines)
}

/// Undoes what a gateway with this configuration has left that is gone: rules and files. What it held of connections is lost with
/// them. Says what was there.
///
/// # Errors
/// It runs; or the kernel's.
pub fn remove_remains(config: &Config) -> Result<Vec<String>, DaemonError> {
    let mut removed = Vec::new();
    let socket = control_path(&config.run_dir, &config.name.to_string());
    let held = if config.run_dir.exists() { Some(lock(config)?) } else { None };
    removed.extend(match config.bridge {
        Some(_) => bridge::remove(config).map_err(system("removing the bridge"))?,
        None => {
            let mut removed = crate::host::remove_rules(config).map_err(system("removing routing rules"))?;
            removed.extend(bridge::remove_headers(config).map_err(system("removing the headers of frames"))?);
            removed
        }
    });
    let journals = JournalFiles::find(config).map_err(in_run_dir(config.run_dir.clone()))?;
    for path in journals.present().cloned().chain([socket, lock_path(config)]) {
        match std::fs::remove_file(&path) {
            Ok(()) => removed.push(format!("file {}", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(DaemonError::RunDir { path, error }),
        }
    }
    drop(held);
    // Whatever else is in there keeps it.
    if std::fs::remove_dir(&config.run_dir).is_ok() {
        removed.push(format!("directory {}", config.run_dir.display()));
    }
    Ok(removed)
}

pub(crate) fn check_host(config: &Config) -> Result<(), DaemonError> {
    let path = control_path(&config.run_dir, &config.name.to_string());
    if path.as_os_str().len() > LONGEST_SOCKET_PATH {
        return Err(DaemonError::SocketPath { path });
    }
    if let Some(names) = &config.bridge {
        return bridge::look(config, names).map(drop);
    }
    let present = interfaces().map_err(system("asking for the interfaces"))?;
    let present: Vec<String> = present.into_iter().map(|(name, _)| name).collect();
    if let Some(name) = config.access.iter().chain(&config.wan).find(|name| !present.contains(name)) {
        return Err(DaemonError::NoInterface { name: name.clone(), present: present.join(", ") });
    }
    if ![Family::V4, Family::V6].into_iter().any(is_forwarding) {
        return Err(DaemonError::NotForwarding);
    }
    match crate::host::taken(config).map_err(system("asking for routing rules"))? {
        Some((interface, name)) => Err(DaemonError::InterfaceTaken { interface, name }),
        None => Ok(()),
    }
}

/// Whether this process may make devices and rules.
pub(crate) fn may_administer() -> bool {
    /// CAP_NET_ADMIN, number 12 of capabilities(7).
    const CAP_NET_ADMIN: u32 = 12;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    bits >> CAP_NET_ADMIN & 1 == 1
}

fn check_privilege(device: &str) -> Result<(), DaemonError> {
    match may_administer() {
        true => Ok(()),
        false => Err(DaemonError::Device { name: device.into(), error: Errno::PERM.into() }),
    }
}

/// A file can be made at this path.
fn check_place(path: &Path) -> Result<(), DaemonError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    may_make_files(directory).map_err(file(directory.to_owned()))?;
    match path.is_dir() {
        true => Err(file(path.to_owned())(io::ErrorKind::IsADirectory.into())),
        false => Ok(()),
    }
}

/// Files can be made in the run directory, or it can be made.
fn check_run_dir(config: &Config) -> Result<(), DaemonError> {
    let is_there = |path: &&Path| path.as_os_str().is_empty() || path.symlink_metadata().is_ok();
    let there = config.run_dir.ancestors().find(is_there).unwrap_or(Path::new("/"));
    let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
    may_make_files(there).map_err(in_run_dir(there.to_owned()))
}

/// Nobody else's routes are in the tables.
fn check_tables(tables: [u32; 2]) -> Result<(), DaemonError> {
    let netlink = Netlink::open().map_err(system("asking for routes"))?;
    let is_in_use = |table: &u32| {
        // A kernel without IPv6 has no routes of it.
        [Family::V4, Family::V6]
            .into_iter()
            .any(|family| netlink.leads_everywhere(family, *table).unwrap_or(false))
    };
    match tables.into_iter().find(is_in_use) {
        Some(table) => Err(RouteError::TableInUse { table }.into()),
        None => Ok(()),
    }
}

/// Whether a gateway of this name runs, whose files are where ours would be.
fn is_running(config: &Config) -> Result<bool, DaemonError> {
    let path = lock_path(config);
    match File::open(&path) {
        Ok(lock) => match lock.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(in_run_dir(path)(error)),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(in_run_dir(path)(error)),
    }
}

/// Keeps a second gateway of this name from taking our files. The lock goes with the process.
pub(crate) fn lock(config: &Config) -> Result<File, DaemonError> {
    std::fs::create_dir_all(&config.run_dir).map_err(in_run_dir(config.run_dir.clone()))?;
    let path = lock_path(config);
    let lock = open_privately(&path).map_err(in_run_dir(path.clone()))?;
    let give_up = monotonic() + CLEARING;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            // The keeper of one that is gone may be clearing up.
            Err(TryLockError::WouldBlock) if monotonic() < give_up => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(DaemonError::Running { name: config.name.to_string() });
            }
            Err(TryLockError::Error(error)) => return Err(DaemonError::RunDir { path, error }),
        }
    }
}

fn lock_path(config: &Config) -> PathBuf {
    config.run_dir.join(format!("{}.lock", config.name))
}
