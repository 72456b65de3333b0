use crate::conformance::case::{Family, Fault, Tuning};
use crate::conformance::failure::{Failure, While};
use crate::conformance::gateway::Gateway;
use crate::conformance::place::{
    ACCESS, CLIENT, GATEWAY, LINKS, NARROW_MTU, NEIGHBOUR, Place, SERVER, next_hop, silent, unreachable,
};
use ipnet::IpNet;
use shorthaul_lab::{Child, Host, Lab, LinkDescription, Topology};
use shorthaul_link::{LinkConfig, LossModel, Reordering};
use shorthaul_os::Netlink;
use shorthaul_os::netlink::{self, Action, LOOPBACK, NextHop, Route, Rule, RulePriority};
use shorthaul_types::Seed;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Packets with this firewall mark never leave a client or the server, see [`crate::conformance::end::End::silence`].
pub(crate) const SILENCED: u32 = 0x5107;

/// A laboratory with a gateway in it:
///
/// ```text
/// client ────┐
///            access ──(faults)── gateway ──── server ──── nobody: unreachable, or silent
/// neighbour ─┘
/// ```
pub(crate) struct Site {
    // Before the laboratory, so that the gateway goes first.
    running: Mutex<Option<Child>>,
    gateway: Gateway,
    /// The gateway's own files; removed at the end.
    run_dir: PathBuf,
    lab: Lab,
}

impl Site {
    /// Builds the laboratory, without the gateway.
    pub(crate) fn build(
        gateway: &Gateway,
        fault: Fault,
        tuning: &Tuning,
        seed: Seed,
    ) -> Result<Site, Failure> {
        let lab = Lab::start(&topology(fault, seed)).map_err(|error| Failure::new(error.to_string()))?;
        let run_dir = new_run_dir().doing("making a directory for the gateway")?;
        let site = Site { running: Mutex::new(None), gateway: gateway.clone(), run_dir, lab };
        for family in [Family::V4, Family::V6] {
            site.add_routes(family).doing(format!("adding routes for {family}"))?;
        }
        for place in [Place::Client, Place::Neighbour, Place::Server] {
            site.at(place, || tune(tuning)).doing(format!("setting up TCP at the {place:?}"))?;
        }
        for family in [Family::V4, Family::V6] {
            for place in [Place::Client, Place::Neighbour] {
                site.wait_for_path(place, family)?;
            }
        }
        Ok(site)
    }

    /// Waits until a datagram passes from `place` to the server and back. After that the addresses
    /// of all neighbours on the path are known, too.
    fn wait_for_path(&self, place: Place, family: Family) -> Result<(), Failure> {
        const LIMIT: Duration = Duration::from_secs(10);
        let bind = |place| {
            let socket = self.at(place, || UdpSocket::bind((place.address(family), 0)))?;
            socket.set_read_timeout(Some(Duration::from_millis(20)))?;
            Ok(socket)
        };
        let client = bind(place).doing("a datagram socket")?;
        let server = bind(Place::Server).doing("a datagram socket")?;
        let server_address = server.local_addr().doing("getsockname")?;
        let deadline = Instant::now() + LIMIT;
        let passes = || {
            client.send_to(b"there?", server_address)?;
            let (_, from) = server.recv_from(&mut [0; 16])?;
            server.send_to(b"here", from)?;
            client.recv_from(&mut [0; 16])
        };
        while passes().is_err() {
            if Instant::now() > deadline {
                return Err(Failure::new(format!(
                    "nothing passes from {place:?} to the server and back over {family}"
                )));
            }
        }
        Ok(())
    }

    /// A host of the site.
    pub(crate) fn host(&self, place: Place) -> &Host {
        self.host_named(place.host())
    }

    fn host_named(&self, name: &str) -> &Host {
        self.lab.host(name)
    }

    /// Runs `task` in the host at `place`: the sockets that it opens are that host's.
    pub(crate) fn at<R: Send>(&self, place: Place, task: impl FnOnce() -> R + Send) -> R {
        self.host(place).run(task)
    }

    /// Adds the routes that lead to dead ends and through narrow places.
    fn add_routes(&self, family: Family) -> io::Result<()> {
        let prefix_len = if family == Family::V4 { 24 } else { 48 };
        // Toward the server, and then no further.
        let dead_ends = [(unreachable(family), NextHop::Unreachable), (silent(family), NextHop::Blackhole)];
        for (dead_end, end) in dead_ends {
            let network = IpNet::new_assert(dead_end, prefix_len).trunc();
            self.lead(&[CLIENT, ACCESS, GATEWAY, SERVER], family, network, None)?;
            self.add_route(SERVER, &Route::new(network, end))?;
        }
        // Narrow behind the gateway, in both directions.
        let (client, server) = (Place::Client.narrow_address(family), Place::Server.narrow_address(family));
        self.lead(&[CLIENT, ACCESS, GATEWAY, SERVER], family, server.into(), Some(GATEWAY))?;
        self.lead(&[SERVER, GATEWAY, ACCESS, CLIENT], family, client.into(), Some(ACCESS))?;
        if family == Family::V4 {
            let fragmenting = Place::fragmenting_address();
            self.lead(&[CLIENT, ACCESS, GATEWAY, SERVER], family, fragmenting.into(), Some(ACCESS))?;
            self.host_named(SERVER).run(|| Netlink::open()?.add_address(LOOPBACK, fragmenting.into()))?;
        }
        for (host, address) in [(SERVER, server), (CLIENT, client)] {
            self.host_named(host).run(|| Netlink::open()?.add_address(LOOPBACK, address.into()))?;
        }
        Ok(())
    }

    /// Leads another address to the second client's host.
    pub(crate) fn lead_to_neighbour(&self, address: IpAddr) -> io::Result<()> {
        let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
        self.lead(&[SERVER, GATEWAY, ACCESS, NEIGHBOUR], family, address.into(), None)
    }

    fn add_route(&self, host: &str, route: &Route) -> io::Result<()> {
        self.host_named(host).run(|| Netlink::open()?.add_route(route))
    }

    /// Routes `destination` along `path`, from each host to the next; narrow after `narrow_after`.
    fn lead(
        &self,
        path: &[&str],
        family: Family,
        destination: IpNet,
        narrow_after: Option<&str>,
    ) -> io::Result<()> {
        for hop in path.windows(2) {
            let next = next_hop(hop[1], hop[0], family);
            let mtu = (narrow_after == Some(hop[0])).then_some(NARROW_MTU);
            self.add_route(hop[0], &Route { mtu, ..Route::new(destination, NextHop::Router(next)) })?;
        }
        Ok(())
    }

    /// Starts the gateway, if there is one and it does not run.
    pub(crate) fn start_gateway(&self) -> Result<(), Failure> {
        let mut running = self.running.lock().expect("no holder panics");
        if running.is_none() {
            *running = self.gateway.start(self.host_named(GATEWAY), &self.run_dir)?;
        }
        Ok(())
    }

    /// Starts the gateway as it would be this much later: by its own clocks the machine has run for so much longer.
    pub(crate) fn start_gateway_later(&self, by: Duration) -> Result<(), Failure> {
        let mut running = self.running.lock().expect("no holder panics");
        *running = self.gateway.start_later(self.host_named(GATEWAY), &self.run_dir, by)?;
        Ok(())
    }

    /// How many TCP segments the host at `place` has received.
    pub(crate) fn segments_in(&self, place: Place) -> Result<u64, Failure> {
        let read = || std::fs::read_to_string("/proc/thread-self/net/snmp");
        let text = self.at(place, read).doing("reading the counters")?;
        let mut rows = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
        let [names, counts] = [(); 2].map(|()| rows.next().unwrap_or_default().split_whitespace());
        let found = names.zip(counts).find(|(name, _)| *name == "InSegs");
        let count = found.and_then(|(_, count)| count.parse().ok());
        count.ok_or_else(|| Failure::new("the kernel does not count segments"))
    }

    /// Has another gateway go on in the place of the one that runs, where it can; of others, each is stopped before the next one starts.
    pub(crate) fn take_over_gateway(&self, deadline: Instant) -> Result<(), Failure> {
        let Some(mut former) = self.take_gateway() else { return self.start_gateway() };
        if !matches!(self.gateway, Gateway::Shorthaul { .. }) {
            former.ask_to_stop();
            former.wait(deadline)?;
            return self.start_gateway();
        }
        let next = self.gateway.take_over(self.host_named(GATEWAY), &self.run_dir)?;
        *self.running.lock().expect("no holder panics") = next;
        let status = former.wait(deadline)?;
        match status.success() {
            true => Ok(()),
            false => Err(Failure::new(format!("the gateway that was taken over ended with {status}"))),
        }
    }

    /// `kill -9`.
    pub(crate) fn kill_gateway(&self) {
        // Killed when dropped.
        drop(self.take_gateway());
    }

    /// Takes the running gateway, to do with it whatever the case is about.
    pub(crate) fn take_gateway(&self) -> Option<Child> {
        self.running.lock().expect("no holder panics").take()
    }

    /// Does `look` with the running gateway, if there is one.
    pub(crate) fn with_gateway<R>(&self, look: impl FnOnce(&mut Child) -> R) -> Option<R> {
        self.running.lock().expect("no holder panics").as_mut().map(look)
    }

    /// Fails if a gateway that was running has gone; the next [`Site::start_gateway`] starts another.
    pub(crate) fn check_gateway(&self) -> Result<(), Failure> {
        let mut running = self.running.lock().expect("no holder panics");
        let gone = running.as_mut().and_then(|r| r.ended().map(|status| (status, r.last_words())));
        match gone {
            None => Ok(()),
            Some((status, words)) => {
                *running = None;
                Err(Failure::new(format!("the gateway died in this case ({status}): {words}")))
            }
        }
    }

    /// The flows that the gateway knows; `None` if it cannot be asked.
    pub(crate) fn flows(&self) -> Result<Option<BTreeSet<String>>, Failure> {
        self.gateway.flows(&self.run_dir)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.kill_gateway();
        // What cannot be removed from the directory for temporary files does no harm there.
        let _ = std::fs::remove_dir_all(&self.run_dir);
    }
}

/// A directory that no other site has.
fn new_run_dir() -> io::Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("shorthaul-conformance-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&path)?;
    Ok(path)
}

/// The hosts and links of a site. Only the link with the faults is not the kernel's own.
fn topology(fault: Fault, seed: Seed) -> Topology {
    let mut topology = Topology::new(seed);
    for [a, b] in LINKS {
        let faulty = fault == Fault::Lossy && [a, b] == [ACCESS, GATEWAY];
        topology.add_link(match faulty {
            true => LinkDescription::symmetric(a, b, lossy_link()),
            false => LinkDescription::direct(a, b),
        });
    }
    // It stands for the last router too, which answers for hosts that are not there.
    topology.host(SERVER).forward = Some(true);
    topology
}

/// 2 % loss, 1 % duplicates, and 2 % that are overtaken.
fn lossy_link() -> LinkConfig {
    LinkConfig {
        delay: Duration::from_millis(1),
        loss: LossModel::Bernoulli { probability: 0.02 },
        duplicate: 0.01,
        reordering: Some(Reordering { share: 0.02, by: Duration::from_millis(2) }),
        ..LinkConfig::default()
    }
}

/// Sets up the calling thread's host.
fn tune(tuning: &Tuning) -> std::io::Result<()> {
    const EVERYWHERE: &[(&str, &str)] = &[
        // Both as client and as server.
        ("ipv4/tcp_fastopen", "3"),
        // Thousands of connections from one address to one port.
        ("ipv4/ip_local_port_range", "10000 65000"),
        // Cases run side by side, and one may not use up the ICMP errors of another.
        ("ipv4/icmp_ratelimit", "0"),
        ("ipv6/icmp/ratelimit", "0"),
    ];
    for (name, value) in EVERYWHERE.iter().chain(tuning.sysctls) {
        std::fs::write(format!("/proc/sys/net/{name}"), value)?;
    }
    let netlink = Netlink::open()?;
    for family in [netlink::Family::V4, netlink::Family::V6] {
        netlink.add_rule(&Rule {
            family,
            priority: RulePriority(1),
            interface: None,
            protocol: None,
            mark: Some(SILENCED),
            action: Action::Blackhole,
        })?;
    }
    Ok(())
}
