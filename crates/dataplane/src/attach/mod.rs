//! A gateway between a router's access interfaces and its kernel.
//!
//! What comes from the access side is taken before the host sees it, and what the host sends there when the host is done with it. What the
//! gateway says toward the rest of the world, the host sees as come in by the access interface. So the host's firewall, its address
//! translation, its routes and its hop count are asked about each packet once, and see the interfaces that they would see without us.
//!
//! What is for the host itself, and what it says in its own name, passes untouched. The programs are attached by descriptors of this
//! process: when it is gone, so are they, and the host has everything. Where that cannot be, rules and routes lead packets to the gateway
//! (`Routes`).
mod firewall;
pub(crate) mod obstacle;
mod program;
mod unfit;
mod watch;
mod whereabouts;

use self::obstacle::obstacles;
use self::unfit::access_interfaces;
use crate::bridge::program::HEADER_KEY;
use crate::bridge::{Lost, headers, kept_path, remedy};
use crate::config::Attach;
use crate::daemon_error::DaemonError;
use crate::host::gateway_rules;
use crate::routes::{set_up_device, set_up_routing};
use crate::vanished::Vanished;
use crate::{Config, Interception};
use program::{Devices, Maps, REMEMBERED, coming_in, leaving, own, to_access, to_the_host};
use shorthaul_os::Netlink;
use shorthaul_os::bpf::{Attached, Counters, Instruction, NEXT, Program, RecentMap, Register};
use shorthaul_os::netlink::links::Interface;
use shorthaul_os::netlink::{LOOPBACK, interface_index};
use shorthaul_proxy::Traffic;
use std::io;
use std::sync::Arc;
use watch::{Told, Watch};

/// Why a gateway cannot be at its access interfaces, in sentences that say what to do.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// It was asked for or chosen, and cannot be.
    #[error("cannot attach to the access interfaces: {why}; write `attach = \"rules\"` to use routing rules")]
    Impossible {
        /// Why not.
        why: String,
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

fn refused(step: impl Into<String>) -> impl FnOnce(io::Error) -> AttachError {
    move |error| AttachError::Refused { step: step.into(), error }
}

/// What leads packets to a gateway that routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Programs at the access interfaces.
    Interfaces,
    /// Rules and routes; and why not the former, unless it was asked for.
    Rules(Option<String>),
}

/// Which way a gateway with this configuration goes: what is asked for; otherwise rules, and programs where something is found that does not
/// go together with rules. One that takes over goes the way of the one that runs.
///
/// # Errors
/// What is asked for cannot be.
pub(crate) fn choose(config: &Config, take_over: bool) -> Result<Way, AttachError> {
    let has_rules = || {
        take_over
            && gateway_rules()
                .is_ok_and(|rules| rules.iter().any(|(_, priority, _)| *priority == config.table))
    };
    match config.attach {
        Some(Attach::Rules) => Ok(Way::Rules(None)),
        // Both at once would lead packets round and round.
        Some(Attach::Interface) if has_rules() => {
            Err(AttachError::Impossible { why: "the gateway that is taken over has routing rules".into() })
        }
        Some(Attach::Interface) => {
            possible(config).map(|_| Way::Interfaces).map_err(|why| AttachError::Impossible { why })
        }
        None if has_rules() => Ok(Way::Rules(None)),
        None if !take_over && obstacles(config).is_empty() => Ok(Way::Rules(None)),
        None => Ok(possible(config).map_or_else(|why| Way::Rules(Some(why)), |_| Way::Interfaces)),
    }
}

/// The access interfaces, if programs can be attached to them; otherwise why not.
fn possible(config: &Config) -> Result<Vec<Interface>, String> {
    let found = access_interfaces(config)?;
    try_out(config, &found).map_err(|error| format!("programs cannot be attached: {error}"))?;
    Ok(found)
}

/// Whether this kernel takes the programs that a gateway with this configuration would have, and has programs at these interfaces. Nothing
/// is taken meanwhile.
fn try_out(config: &Config, access: &[Interface]) -> Result<(), AttachError> {
    let headers = RecentMap::create(HEADER_KEY, REMEMBERED, 1_024);
    let made = Made::create(headers.map_err(refused("making a map of headers"))?, access.len())?;
    // Any device will do for programs that are attached nowhere.
    let devices = Devices { access: LOOPBACK, wan: LOOPBACK };
    Programs::load(config, access, &made, devices)?;
    let nothing = [Instruction::number(Register::R0, NEXT), Instruction::exit()];
    let nothing = Program::load_for_frames(&nothing).map_err(refused("loading a program"))?;
    for Interface { name, index, .. } in access {
        for attach in [Attached::at_ingress, Attached::at_egress] {
            attach(*index, &nothing).map_err(refused(format!("attaching a program to `{name}`")))?;
        }
    }
    Ok(())
}

/// The interfaces that a device of a gateway is at, by what is said of the device: the access interfaces, or those toward the rest of the
/// world.
pub(crate) fn interfaces_of(device: &Interface) -> Vec<&str> {
    let alias = device.alias.as_deref().and_then(|alias| alias.strip_prefix(AT));
    alias.map(|names| names.split(',').collect()).unwrap_or_default()
}

/// What begins what is said of a device.
const AT: &str = "at ";

/// What leads packets to a gateway's devices, and back.
#[derive(Debug)]
pub(crate) struct Attachment {
    /// What takes packets.
    taking: Vec<Attached>,
    /// What has them go on.
    _going_on: Vec<Attached>,
    counters: Arc<Counters>,
    watch: Option<Watch>,
    /// An access interface that is not there any more, or another one of its name.
    pub vanished: Arc<Vanished>,
    /// Why the headers of frames go with the process.
    pub not_kept: Option<io::Error>,
}

impl Attachment {
    /// Leads packets of the access interfaces to the devices, which are there. Where the gateway that runs is to hand them over, it goes on
    /// meanwhile: both lead to the same devices.
    ///
    /// # Errors
    /// What is in the way. What was done is undone.
    pub fn install(
        config: &Config,
        interception: &Interception,
        take_over: bool,
    ) -> Result<Self, DaemonError> {
        let access = possible(config).map_err(|why| AttachError::Impossible { why })?;
        let netlink = Netlink::open().map_err(refused("connecting to the kernel's interfaces"))?;
        if !take_over {
            for device in &interception.devices {
                // Of whom no header is known, the host routes what is written there.
                set_up_device(&netlink, device)
                    .and_then(|()| set_up_routing(&netlink, device, interception))
                    .map_err(refused(format!("setting up `{device}`")))?;
            }
            // Another gateway sees by it where this one is. There is no room for the names of dozens of interfaces, which is no reason to do nothing.
            for (device, names) in interception.devices.iter().zip([&config.access, &config.wan]) {
                let _ = interface_index(device)
                    .and_then(|index| netlink.describe(index, &format!("{AT}{}", names.join(","))));
            }
        }
        lead(config, interception, &access)
            .map_err(|error| AttachError::Impossible { why: error.to_string() }.into())
    }

    /// Goes on to learn what changes at the host, with no more privileges than the calling thread has now.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn begin(&mut self) -> io::Result<()> {
        let Some(watch) = self.watch.take() else { return Ok(()) };
        std::thread::Builder::new().name("addresses".into()).spawn(move || watch.watch()).map(drop)
    }

    /// Nothing more is led to the devices; what the gateway still says goes on as before.
    pub fn release(&mut self) {
        self.taking.clear();
    }

    /// What is lost in it.
    pub fn lost(&self) -> Lost {
        Lost(Arc::clone(&self.counters))
    }
}

fn lead(
    config: &Config,
    interception: &Interception,
    access: &[Interface],
) -> Result<Attachment, AttachError> {
    let (headers, not_kept) = headers(config, REMEMBERED).map_err(refused("making a map of headers"))?;
    let made = Made::create(headers, access.len())?;
    let [access_device, wan_device] = &interception.devices;
    let index = |device: &str| interface_index(device).map_err(refused(format!("finding `{device}`")));
    let devices = Devices { access: index(access_device)?, wan: index(wan_device)? };
    let Programs { to_access, to_the_host, own, coming_in, leaving } =
        Programs::load(config, access, &made, devices)?;
    let vanished = Arc::new(Vanished::default());
    let watch = Watch::create(made.told, access, Arc::clone(&vanished))
        .map_err(refused("asking for the host's addresses and interfaces"))?;
    let attached = |name: &str, attached: io::Result<Attached>| {
        attached.map_err(refused(format!("attaching a program to `{name}`")))
    };
    // What is written has a way before anything is read.
    let mut going_on = vec![
        attached(access_device, Attached::at_ingress(devices.access, &to_access))?,
        attached(wan_device, Attached::at_ingress(devices.wan, &to_the_host))?,
    ];
    let mut taking = Vec::new();
    // The last one that is attached is the first one that sees a packet.
    for (Interface { name, index, .. }, (taken, left)) in access.iter().zip(coming_in.iter().zip(&leaving)) {
        let taken = attached(name, Attached::at_ingress(*index, taken))?;
        going_on.push(attached(name, Attached::at_ingress(*index, &own))?);
        taking.push(taken);
        taking.push(attached(name, Attached::at_egress(*index, left))?);
    }
    let counters = Arc::new(made.counters);
    Ok(Attachment { taking, _going_on: going_on, counters, watch: Some(watch), vanished, not_kept })
}

/// What programs remember, count and are told.
struct Made {
    headers: RecentMap,
    counters: Counters,
    told: Told,
}

impl Made {
    fn create(headers: RecentMap, interfaces: usize) -> Result<Made, AttachError> {
        let counters = Counters::create().map_err(refused("making counters"))?;
        let told = Told::create(interfaces).map_err(refused("making what programs are told"))?;
        Ok(Made { headers, counters, told })
    }

    fn maps(&self) -> Maps {
        Maps {
            headers: self.headers.descriptor(),
            local: self.told.local.place(),
            counters: self.counters.descriptor(),
            there: self.told.there.descriptor(),
        }
    }
}

/// All programs of a gateway, which the kernel has accepted.
struct Programs {
    to_access: Program,
    to_the_host: Program,
    own: Program,
    /// At each access interface.
    coming_in: Vec<Program>,
    /// The same.
    leaving: Vec<Program>,
}

impl Programs {
    fn load(
        config: &Config,
        access: &[Interface],
        made: &Made,
        devices: Devices,
    ) -> Result<Programs, AttachError> {
        let load = |name: &str, program: &[_]| {
            Program::load_for_frames(program).map_err(refused(format!("loading the program {name}")))
        };
        let all = config.traffic == Traffic::All;
        let (maps, places) = (made.maps(), &made.told.places(access));
        let at = |direction: &str, number: usize, program: &[_]| {
            load(&format!("for what {direction} by `{}`", access[number].name), program)
        };
        let numbers = || 0..access.len();
        Ok(Programs {
            to_access: load("toward the access side", &to_access(maps, places))?,
            to_the_host: load("toward the host", &to_the_host(maps, places))?,
            own: load("for what the gateway says", &own())?,
            coming_in: numbers()
                .map(|here| at("comes in", here, &coming_in(maps, places, here, devices)))
                .collect::<Result<_, _>>()?,
            leaving: numbers()
                .map(|here| at("leaves", here, &leaving(maps, places, here, devices, all)))
                .collect::<Result<_, _>>()?,
        })
    }
}

/// What a gateway would do to this host, line by line.
pub(crate) fn describe(config: &Config, devices: &[String; 2], queues: &str) -> Vec<String> {
    let mut lines: Vec<String> = devices
        .iter()
        .map(|device| format!("device {device}: a TUN device{queues}, with rp_filter = 2 and forwarding = 1"))
        .collect();
    let toward = match config.traffic {
        Traffic::All => "IPv4 and IPv6",
        Traffic::Tcp => "TCP, and ICMP errors (IPv4 and IPv6)",
    };
    for name in &config.access {
        lines.push(format!(
            "programs at {name}, as long as it runs: TCP, and ICMP errors (IPv4 and IPv6), that come in for others than this host go to {}, \
             and then to this host's firewall and routes; {toward} of others than this host that leave go to {}",
            devices[0], devices[1]
        ));
    }
    if config.custody {
        lines.push(format!("map {}, for the headers of frames", kept_path(config).display()));
    }
    lines
}

#[cfg(test)]
mod tests;
