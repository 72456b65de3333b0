//! A gateway between two boxes, with no address and no route to change.
//!
//! A bridge of the kernel's joins two interfaces, and forwards whether we are there or not. While we are, a program at each port takes
//! TCP, and the errors about it, out of what comes in, and hands it to our two devices; a program at each of these gives what we write a
//! frame's header again, and has it leave by the port. The programs are attached by descriptors of this process: when it is gone, however
//! it went, so are they, and the bridge has everything. Nothing is to be cleared up for that.
mod look;
pub(crate) mod program;
mod watch;

use crate::daemon_error::DaemonError;
use crate::routes::set_up_device;
use crate::vanished::Vanished;
use crate::{Config, Interception};
use program::{
    HEADER, HEADER_KEY, Maps, SOURCE_ELSEWHERE, STATION, STATION_KEY, Taking, WITHOUT_HEADER, at_device,
    at_port,
};
use shorthaul_os::bpf::{Attached, Counters, Program, RecentMap};
use shorthaul_os::netlink::interface_index;
use shorthaul_os::netlink::links::{Interface, list};
use shorthaul_os::{Errno, Netlink, files};
use shorthaul_proxy::{Gateway, Traffic};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use look::{Ports, look};
use watch::{Joined, Watch};

/// Where maps outlive processes.
const KEPT: &str = "/sys/fs/bpf";
/// Hardware addresses whose side is remembered.
const STATIONS: u32 = 16_384;
/// Pairs of addresses, in each direction, whose header is remembered: at least, and at most, which takes about 500 MB of the kernel's memory.
const HEADERS: std::ops::RangeInclusive<usize> = 16_384..=4_194_304;

/// Why there is no bridge, in sentences that say what to do.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// It has no frames of Ethernet.
    #[error("`{name}` cannot be a port of a bridge: it is no Ethernet interface of its own")]
    NotEthernet {
        /// The interface.
        name: String,
    },
    /// It is switched off.
    #[error("`{name}` is down: run `ip link set {name} up`")]
    Down {
        /// The interface.
        name: String,
    },
    /// The host is reached by it.
    #[error(
        "`{name}` has the address {address}, which nobody would reach any more in a bridge: take it away (`ip addr flush dev {name}`); \
         to reach this host by the same cable, make a bridge of both interfaces and give it the address (docs/gateway.md, of a package in /usr/share/doc/shorthaul, A bridge)"
    )]
    HasAddress {
        /// The interface.
        name: String,
        /// Its address.
        address: IpAddr,
    },
    /// It is a port of something, and the other one is not.
    #[error(
        "`{name}` is a part of `{of}` already, and the other interface is not: take it out with `ip link set {name} nomaster`, or make \
         both the ports of one bridge"
    )]
    PartOf {
        /// The interface.
        name: String,
        /// Of what it is a part.
        of: String,
    },
    /// There are more ports than two.
    #[error(
        "`{bridge}` has `{more}` as a port, too: a gateway stands between two; take it out with `ip link set {more} nomaster`"
    )]
    MorePorts {
        /// The bridge.
        bridge: String,
        /// A third port.
        more: String,
    },
    /// It may close a port, which packets that go through the gateway would not heed.
    #[error(
        "`{bridge}` speaks STP, and may close a port that the gateway sends to: run `ip link set {bridge} type bridge stp_state 0`; STP of \
         others passes"
    )]
    SpeaksStp {
        /// The bridge.
        bridge: String,
    },
    /// Nothing would pass without the gateway.
    #[error(
        "the bridge `{bridge}` is down, and would not forward without the gateway: run `ip link set {bridge} up`"
    )]
    BridgeDown {
        /// The bridge.
        bridge: String,
    },
    /// Something else has the name of our bridge.
    #[error(
        "there is an interface `{name}` that does not join these two: remove it with `ip link del {name}`, or give another --name"
    )]
    OurName {
        /// The name.
        name: String,
    },
    /// The successor would not know the hardware addresses of silent hosts.
    #[error(
        "a bridge cannot be taken over where the headers of frames are not kept ({why}): end the gateway that runs, and leave out \
         --take-over"
    )]
    NotKept {
        /// Why not.
        why: io::Error,
    },
    /// What was gone is there again, and a process that has given up its privileges cannot be at it.
    #[error(
        "`{names}` is there again, which was a part of the bridge `{bridge}` and is another interface now: a gateway that runs has given up the \
         privileges to be there, so this one ends; the next one is, and goes on with the connections"
    )]
    Back {
        /// The interfaces.
        names: String,
        /// The bridge.
        bridge: String,
    },
    /// The kernel refused.
    #[error("{step}: {error}{}", remedy(.error))]
    Refused {
        /// What was tried.
        step: String,
        /// Why.
        error: io::Error,
    },
}

pub(crate) fn remedy(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => {
            " (it takes the capabilities CAP_NET_ADMIN and CAP_BPF, outside of user namespaces: run as root)"
        }
        Some(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => {
            " (it takes Linux 6.6, with CONFIG_BRIDGE, CONFIG_BPF_SYSCALL and CONFIG_NET_XGRESS)"
        }
        _ => "",
    }
}

fn refused(step: impl Into<String>) -> impl FnOnce(io::Error) -> BridgeError {
    move |error| BridgeError::Refused { step: step.into(), error }
}

/// The name of the bridge that a gateway makes.
pub(crate) fn bridge_name(config: &Config) -> String {
    format!("sh-{}-b", config.name)
}

/// Where the headers of frames outlive the gateway: bpffs has no dots in names.
pub(crate) fn kept_path(config: &Config) -> PathBuf {
    let place: String = config.run_dir.to_string_lossy().replace('/', "-").replace('.', "_");
    Path::new(KEPT).join("shorthaul").join(format!("{}-{}", place.trim_start_matches('-'), config.name))
}

/// What leads packets to a gateway's devices, and back.
#[derive(Debug)]
pub(crate) struct Bridge {
    /// At the ports.
    ports: Vec<Attached>,
    /// At the devices.
    _devices: Vec<Attached>,
    counters: Arc<Counters>,
    watch: Option<Watch>,
    /// A port that is not there any more, or no port of the bridge.
    pub vanished: Arc<Vanished>,
    /// Why the headers of frames go with the process.
    pub not_kept: Option<io::Error>,
}

/// How many packets programs have dropped.
#[derive(Clone, Debug)]
pub(crate) struct Lost(pub Arc<Counters>);

impl Lost {
    /// So many found no header.
    pub fn without_header(&self) -> u64 {
        self.0.get(WITHOUT_HEADER)
    }

    /// Of so many the source may not be where they came in.
    pub fn source_elsewhere(&self) -> u64 {
        self.0.get(SOURCE_ELSEWHERE)
    }
}

impl Bridge {
    /// Joins the ports, unless they are, and leads packets to the devices, which are there. Where the gateway that runs is to hand them over, it
    /// goes on meanwhile: both lead to the same devices.
    ///
    /// # Errors
    /// What is in the way. What was done is undone.
    pub fn install(config: &Config, names: &[String; 2], take_over: bool) -> Result<Self, DaemonError> {
        let found = look(config, names)?;
        let interception = Interception::of(config);
        let netlink = Netlink::open().map_err(refused("connecting to the kernel's interfaces"))?;
        if !take_over {
            for device in &interception.devices {
                // The host says nothing by it: what is written there has no header. Where there is no IPv6, it cannot.
                let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"), "1");
                set_up_device(&netlink, device).map_err(refused(format!("setting up `{device}`")))?;
            }
        }
        let bridge = join(&netlink, config, &found)?;
        let led = lead(config, &interception, &found.ports, &bridge, take_over);
        if led.is_err() {
            undo(&netlink, &found, bridge.index);
        }
        Ok(led?)
    }

    /// Goes on to learn whether the ports are there, with no more privileges than the calling thread has now.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn begin(&mut self) -> io::Result<()> {
        let Some(watch) = self.watch.take() else { return Ok(()) };
        std::thread::Builder::new().name("ports".into()).spawn(move || watch.watch()).map(drop)
    }

    /// Nothing more is led to the devices; what the gateway still says leaves as before.
    pub fn release(&mut self) {
        self.ports.clear();
    }

    /// What is lost in it.
    pub fn lost(&self) -> Lost {
        Lost(Arc::clone(&self.counters))
    }
}

/// Joins the ports that are apart, by a bridge that is made unless there is one.
fn join(netlink: &Netlink, config: &Config, found: &Ports) -> Result<Interface, BridgeError> {
    let index = match &found.bridge {
        Some(bridge) => bridge.index,
        None => {
            let name = bridge_name(config);
            netlink.add_bridge(&name).map_err(refused(format!("making the bridge `{name}`")))?;
            interface_index(&name).map_err(refused(format!("finding `{name}`")))?
        }
    };
    let join = || {
        if found.bridge.is_none() {
            // Where there is no IPv6, there is none to be switched off.
            let _ = netlink.set_no_automatic_address(index);
            netlink.set_up(index)?;
        }
        found.apart().try_for_each(|port| netlink.join(port.index, index))?;
        // It has the hardware address of a port, perhaps of one that it has only now.
        let all = list()?;
        all.into_iter().find(|interface| interface.index == index).ok_or_else(|| Errno::NODEV.into())
    };
    join().map_err(|error| {
        undo(netlink, found, index);
        refused(format!("joining `{}` and `{}`", found.ports[0].name, found.ports[1].name))(error)
    })
}

/// All is as it was found.
fn undo(netlink: &Netlink, found: &Ports, bridge: u32) {
    match &found.bridge {
        None => drop(netlink.remove(bridge)),
        Some(_) => found.apart().for_each(|port| drop(netlink.part(port.index))),
    }
}

fn lead(
    config: &Config,
    interception: &Interception,
    ports: &[Interface; 2],
    bridge: &Interface,
    take_over: bool,
) -> Result<Bridge, BridgeError> {
    let vanished = Arc::new(Vanished::of_bridge(&bridge.name));
    let joined = Joined {
        bridge: (bridge.name.clone(), bridge.index),
        is_own: bridge.name == bridge_name(config),
        ports: ports.each_ref().map(|port| (port.name.clone(), port.index)),
    };
    let watch = Watch::create(joined, Arc::clone(&vanished))
        .map_err(refused("asking the kernel to tell of changes at interfaces"))?;
    let (headers, not_kept) = headers(config, HEADER)
        .map_err(|error| BridgeError::Refused { step: "making a map of headers".into(), error })?;
    if let (true, Some(why)) = (take_over, not_kept.as_ref()) {
        return Err(BridgeError::NotKept { why: io::Error::new(why.kind(), why.to_string()) });
    }
    let stations =
        RecentMap::create(STATION_KEY, STATION, STATIONS).map_err(refused("making a map of stations"))?;
    let counters = Counters::create().map_err(refused("making counters"))?;
    let maps = Maps {
        headers: headers.descriptor(),
        stations: stations.descriptor(),
        counters: counters.descriptor(),
    };
    let load = |name: &str, program: &[_]| {
        Program::load_for_frames(program).map_err(refused(format!("loading the program for `{name}`")))
    };
    let attach = |name: &str, index, program: &Program| {
        Attached::at_ingress(index, program).map_err(refused(format!("attaching a program to `{name}`")))
    };
    let (mut at_devices, mut at_ports) = (Vec::new(), Vec::new());
    let sides = [Gateway::ACCESS, Gateway::WAN].into_iter().zip(&interception.devices).zip(ports);
    let mut programs = Vec::new();
    for ((port, device), interface) in sides {
        let index = interface_index(device).map_err(refused(format!("finding `{device}`")))?;
        let taking = Taking {
            port,
            device: index,
            all: config.traffic == Traffic::All && port == Gateway::WAN,
            bridge: bridge.ethernet.unwrap_or_default(),
        };
        programs.push((&interface.name, interface.index, load(&interface.name, &at_port(maps, taking))?));
        // What is written has a way before anything is read.
        let program = load(device, &at_device(maps, port, interface.index))?;
        at_devices.push(attach(device, index, &program)?);
    }
    for (name, index, program) in &programs {
        at_ports.push(attach(name, *index, program)?);
    }
    let counters = Arc::new(counters);
    Ok(Bridge { ports: at_ports, _devices: at_devices, counters, watch: Some(watch), vanished, not_kept })
}

/// The headers of frames, each with what makes this length: those that a predecessor has left, where they can be kept; and why not.
pub(crate) fn headers(config: &Config, length: u32) -> io::Result<(RecentMap, Option<io::Error>)> {
    let entries = (2 * config.memory.max_flows).clamp(*HEADERS.start(), *HEADERS.end()) as u32;
    let path = kept_path(config);
    let kept = || {
        files::mount_bpf(Path::new(KEPT))?;
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        RecentMap::kept_at(&path, HEADER_KEY, length, entries)
    };
    match config.custody.then(kept) {
        Some(Ok(map)) => Ok((map, None)),
        without => Ok((RecentMap::create(HEADER_KEY, length, entries)?, without.and_then(Result::err))),
    }
}

/// What a gateway would do to this host, line by line.
///
/// # Errors
/// What is in the way.
pub(crate) fn describe(
    config: &Config,
    names: &[String; 2],
    devices: &[String; 2],
    queues: &str,
) -> Result<Vec<String>, DaemonError> {
    let [access, wan] = names;
    let found = look(config, names)?;
    let apart: Vec<&str> = found.apart().map(|port| &*port.name).collect();
    let mut lines = vec![match (&found.bridge, apart.as_slice()) {
        (Some(bridge), []) => {
            format!("bridge {}: {access} and {wan} are its ports, and stay so", bridge.name)
        }
        (Some(bridge), [one]) => {
            format!("bridge {}: {one} becomes its port again, and stays so", bridge.name)
        }
        _ => format!("bridge {}: {access} and {wan} become its ports, and stay so", bridge_name(config)),
    }];
    for ((port, device), is_wan) in names.iter().zip(devices).zip([false, true]) {
        lines.push(format!("device {device}: a TUN device{queues}"));
        let taken = match config.traffic == Traffic::All && is_wan {
            true => "IPv4 and IPv6",
            false => "TCP, and ICMP errors (IPv4 and IPv6)",
        };
        lines.push(format!("program at {port}, as long as it runs: {taken} for others go to {device}, all else over the bridge"));
    }
    if config.custody {
        lines.push(format!("map {}, for the headers of frames", kept_path(config).display()));
    }
    Ok(lines)
}

/// Removes what a bridge gateway has left: the bridge that it made, and the headers of frames. Says what was there.
pub(crate) fn remove(config: &Config) -> io::Result<Vec<String>> {
    let mut removed = Vec::new();
    let name = bridge_name(config);
    if let Some(bridge) = list()?.into_iter().find(|interface| interface.name == name && interface.is_bridge)
    {
        Netlink::open()?.remove(bridge.index)?;
        removed.push(format!("bridge {name}: what it joined is apart now"));
    }
    removed.extend(remove_headers(config)?);
    Ok(removed)
}

/// Removes the headers of frames, and says where they were.
pub(crate) fn remove_headers(config: &Config) -> io::Result<Option<String>> {
    let path = kept_path(config);
    match std::fs::remove_file(&path) {
        Ok(()) => Ok(Some(format!("map {}", path.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
