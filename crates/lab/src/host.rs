use crate::error::LabError;
use crate::plan::{HostPlan, InterfacePlan};
use crate::privilege;
use crate::topology::HostDescription;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use shorthaul_os::namespace::{self, Kind};
use shorthaul_os::netlink::{LOOPBACK, NextHop, Route, interface_index};
use shorthaul_os::process::{self, FirstProcess};
use shorthaul_os::{Netlink, Tun};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;

/// A host of a [`Lab`](crate::Lab): a network namespace with interfaces, addresses and routes of its own,
/// and an `/etc/hosts` in which the lab's hosts have names. Clones are the same host.
#[derive(Clone, Debug)]
pub struct Host(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    plan: HostPlan,
    network: OwnedFd,
    mounts: OwnedFd,
    processes: Arc<FirstProcess>,
    environment: Arc<BTreeMap<String, OsString>>,
}

/// The addresses of a TCP/IP stack that a program brings along, see [`Host::attach`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guest {
    /// Its IPv4 address.
    pub v4: Ipv4Addr,
    /// Its IPv6 address.
    pub v6: Ipv6Addr,
}

impl Guest {
    /// The addresses for a guest of `host` in the network of its first link: two above the host's own, which
    /// leaves room for one at the link's other end.
    pub fn beside(host: &Host) -> Guest {
        Guest {
            v4: Ipv4Addr::from_bits(host.address_v4().to_bits() + 2),
            v6: Ipv6Addr::from_bits(host.address_v6().to_bits() + 2),
        }
    }
}

/// The transmit queue of every interface, in packets: long enough for what TCP sends at once.
const TRANSMIT_QUEUE: u32 = 1000;

impl Host {
    /// Makes the namespaces; the host has no interface but the loopback.
    pub(crate) fn create(
        plan: &HostPlan,
        description: &HostDescription,
        hosts_file: &str,
        processes: &Arc<FirstProcess>,
        environment: &Arc<BTreeMap<String, OsString>>,
    ) -> Result<Self, LabError> {
        let name = plan.name.as_str();
        // On a thread of its own, since the caller stays where it is.
        let made = on_new_thread(name, || {
            namespace::unshare(&[Kind::Net, Kind::Mount])
                .map_err(|error| privilege::why_no_namespace(&error))?;
            set_up_files(hosts_file).map_err(LabError::host(name, "mounting its /etc/hosts"))?;
            set_up_kernel(plan, description)?;
            let held = || -> io::Result<_> {
                Netlink::open()?.set_up(LOOPBACK)?;
                Ok((namespace::current(Kind::Net)?, namespace::current(Kind::Mount)?))
            };
            held().map_err(LabError::host(name, "switching its loopback on"))
        });
        let (network, mounts) = made?;
        Ok(Host(Arc::new(Inner {
            plan: plan.clone(),
            network,
            mounts,
            processes: Arc::clone(processes),
            environment: Arc::clone(environment),
        })))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.plan.name
    }

    /// Its interfaces, in the order of the links.
    pub fn interfaces(&self) -> &[InterfacePlan] {
        &self.0.plan.interfaces
    }

    /// The name of its interface to the host `peer`, if there is a link.
    pub fn interface_to(&self, peer: &str) -> Option<&str> {
        let name = format!("to-{peer}");
        self.interfaces().iter().find(|interface| interface.name == name).map(|i| i.name.as_str())
    }

    /// The IPv4 address of its first interface; that of the loopback if it has none.
    pub fn address_v4(&self) -> Ipv4Addr {
        self.interfaces().first().map_or(Ipv4Addr::LOCALHOST, |interface| interface.v4.addr())
    }

    /// The IPv6 address of its first interface; that of the loopback if it has none.
    pub fn address_v6(&self) -> Ipv6Addr {
        self.interfaces().first().map_or(Ipv6Addr::LOCALHOST, |interface| interface.v6.addr())
    }

    /// Runs `task` in the host, on a thread of its own, and waits for it: sockets that it makes belong to
    /// the host, and names resolve as they do there. Threads that it starts are in the host too.
    ///
    /// # Panics
    /// If `task` does, and if the thread cannot be started or moved.
    pub fn run<R: Send>(&self, task: impl FnOnce() -> R + Send) -> R {
        on_new_thread(self.name(), || {
            self.enter().expect("a host can be entered as long as its lab is there");
            task()
        })
    }

    /// Moves the calling thread into the host, for good.
    ///
    /// # Errors
    /// Only if the process has lost the privilege that it made the lab with.
    pub fn enter(&self) -> io::Result<()> {
        let directory = std::env::current_dir();
        namespace::enter(&self.0.network, Kind::Net)?;
        namespace::unshare_working_directory()?;
        namespace::enter(&self.0.mounts, Kind::Mount)?;
        // Entering leads to the root directory. A working directory that is gone was no use before.
        directory.and_then(std::env::set_current_dir).or(Ok(()))
    }

    /// Starts a program in the host. It is killed when the lab ends, with all that it has started.
    ///
    /// It runs in the lab's PID namespace. Do not ask for a signal at the death of its parent
    /// (`PR_SET_PDEATHSIG`): that is a thread which ends before this returns.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        on_new_thread(self.name(), || {
            self.enter()?;
            namespace::enter(self.0.processes.namespace(), Kind::Pid)?;
            process::see_own_processes(command);
            command.envs(self.0.environment.iter()).spawn()
        })
    }

    /// Its network and its mount namespace as files that other processes of this machine can open as long as
    /// the lab is there: what `nsenter(1)` wants. Who opens them needs the same privileges as this process.
    pub fn namespace_files(&self) -> [PathBuf; 2] {
        let file = |namespace: &OwnedFd| {
            PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd()))
        };
        [file(&self.0.network), file(&self.0.mounts)]
    }

    /// Its network namespace.
    pub(crate) fn network(&self) -> &OwnedFd {
        &self.0.network
    }

    /// Sets up the interface of one end of a link, which is there already. To be called in the host.
    pub(crate) fn configure_interface(interface: &InterfacePlan, mtu: u32, end: usize) -> io::Result<()> {
        let netlink = Netlink::open()?;
        let index = interface_index(&interface.name)?;
        netlink.configure(index, mtu, TRANSMIT_QUEUE)?;
        netlink.set_no_automatic_address(index)?;
        netlink.set_up(index)?;
        netlink.add_address(index, interface.v4.into())?;
        netlink.add_address(index, interface.v6.into())?;
        // A router asks for its neighbours' hardware addresses with this as the sender.
        let link_local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, end as u16 + 1);
        netlink.add_address(index, Ipv6Net::new_assert(link_local, 64).into())
    }

    /// Makes a TUN device in the host for a TCP/IP stack of a program's own, which then answers at
    /// `guest` on the network of the host's first link: the neighbours there reach it as they reach
    /// this host, which forwards. The host must be told to (see
    /// [`HostDescription::forward`](crate::HostDescription::forward)). The device takes packets of up to
    /// `mtu` bytes and vanishes with the returned value.
    ///
    /// # Errors
    /// If the device cannot be made, or has been made before.
    pub fn attach(&self, guest: Guest, mtu: u32) -> Result<Tun, LabError> {
        const DEVICE: &str = "to-guest";
        // A network of the two sides of the device alone, in ranges that no link has of itself.
        const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 255, 0, 1), Ipv4Addr::new(10, 255, 0, 2)];
        const V6: [Ipv6Addr; 2] =
            [Ipv6Addr::new(0xfd00, 0x255, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xfd00, 0x255, 0, 0, 0, 0, 0, 2)];
        let make = || {
            let tun = Tun::create(DEVICE)?;
            let netlink = Netlink::open()?;
            let index = interface_index(DEVICE)?;
            netlink.configure(index, mtu, TRANSMIT_QUEUE)?;
            netlink.set_no_automatic_address(index)?;
            netlink.set_up(index)?;
            netlink.add_address(index, Ipv4Net::new_assert(V4[0], 30).into())?;
            netlink.add_address(index, Ipv6Net::new_assert(V6[0], 64).into())?;
            for (guest, inner) in [(IpAddr::V4(guest.v4), IpAddr::V4(V4[1])), (guest.v6.into(), V6[1].into())]
            {
                netlink.add_route(&Route::new(IpNet::from(guest), NextHop::Router(inner)))?;
            }
            Ok(tun)
        };
        self.run(make).map_err(LabError::host(self.name(), "attaching a TUN device"))
    }

    /// Adds the routes to the networks that are further away.
    pub(crate) fn add_routes(&self) -> Result<(), LabError> {
        let add = || {
            let netlink = Netlink::open()?;
            let plan = &self.0.plan;
            plan.routes.iter().try_for_each(|route| {
                let through = Route::new(route.network, NextHop::Router(route.via));
                netlink.add_route(&Route { initial_window: plan.initial_window, ..through })
            })
        };
        self.run(add).map_err(LabError::host(self.name(), "adding its routes"))
    }
}

/// Runs `task` on a thread of its own, and waits for it.
fn on_new_thread<R: Send>(name: &str, task: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name(name.to_owned());
        let thread = builder.spawn_scoped(scope, task).expect("the machine has room for one more thread");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Gives the calling thread's mount namespace its own view of the files that name hosts, and of the
/// network's devices. Nothing of that touches a disk, or outlives the namespace.
fn set_up_files(hosts_file: &str) -> io::Result<()> {
    namespace::make_mounts_private()?;
    let workshop = Path::new("/tmp");
    namespace::mount_new(c"tmpfs", workshop)?;
    for (name, target, content) in
        [("hosts", "/etc/hosts", hosts_file), ("resolv.conf", "/etc/resolv.conf", "# no name servers here\n")]
    {
        let source = workshop.join(name);
        std::fs::write(&source, content)?;
        match namespace::bind(&source, Path::new(target)) {
            // Without the file, the name servers of the machine are asked, and not reached.
            Err(error) if error.kind() == io::ErrorKind::NotFound && name == "resolv.conf" => {}
            result => result?,
        }
    }
    namespace::unmount(workshop)?;
    // Shows this namespace's interfaces. Where it is forbidden, netlink still tells the truth.
    let _ = namespace::mount_new(c"sysfs", Path::new("/sys"));
    Ok(())
}

/// Makes the kernel's settings for the calling thread's network namespace independent of the machine's.
fn set_up_kernel(plan: &HostPlan, description: &HostDescription) -> Result<(), LabError> {
    let forwards = if plan.forwards { "1" } else { "0" };
    let always = [
        ("net.ipv4.conf.all.rp_filter", "0"),
        ("net.ipv4.conf.default.rp_filter", "0"),
        ("net.ipv4.ip_forward", forwards),
        ("net.ipv6.conf.all.disable_ipv6", "0"),
        ("net.ipv6.conf.default.disable_ipv6", "0"),
        // Addresses are to work at once, and to be those given.
        ("net.ipv6.conf.all.accept_dad", "0"),
        ("net.ipv6.conf.default.accept_dad", "0"),
        ("net.ipv6.conf.default.accept_ra", "0"),
        ("net.ipv6.conf.default.router_solicitations", "0"),
        ("net.ipv6.conf.all.forwarding", forwards),
        // A connection must not inherit the slow-start threshold of the one before it.
        ("net.ipv4.tcp_no_metrics_save", "1"),
        ("net.ipv4.tcp_congestion_control", description.congestion()),
    ];
    let given = description.sysctl.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    always.into_iter().chain(given).try_for_each(|(key, value)| set_kernel_parameter(&plan.name, key, value))
}

fn set_kernel_parameter(host: &str, key: &str, value: &str) -> Result<(), LabError> {
    let path = format!("/proc/sys/{}", key.replace('.', "/"));
    std::fs::write(&path, value).map_err(|error| {
        let hint = match (key, error.kind()) {
            ("net.ipv4.tcp_congestion_control", io::ErrorKind::PermissionDenied) => {
                let remedy = " (this machine forbids it; as root, add it to net.ipv4.tcp_allowed_congestion_control, or give the host another `congestion`)";
                remedy.to_owned()
            }
            ("net.ipv4.tcp_congestion_control", _) => {
                let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
                format!(" (this kernel has {})", known.unwrap_or_default().trim())
            }
            (_, io::ErrorKind::ReadOnlyFilesystem) => {
                " (/proc/sys is read-only here; give the container --privileged)".into()
            }
            (_, io::ErrorKind::NotFound) => " (no such setting in a network namespace of this kernel)".into(),
            _ => String::new(),
        };
        LabError::host(host, &format!("setting {key} to `{value}`{hint}"))(error)
    })
}
