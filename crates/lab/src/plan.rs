use crate::summary::link_in_words;
use crate::topology::{LinkDescription, LinkKind, Topology};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest name of a host: with `to-` before it, it names an interface, which Linux limits to 15.
const HOST_NAME_MAX: usize = 12;
/// The most links that automatic addresses suffice for: their number is a byte of the address.
const LINKS_MAX: usize = 254;

/// Everything about a topology that was left open, decided: addresses, interfaces, routes, names.
///
/// The same topology always gives the same plan. Printed, it is what a person wants to know of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The hosts, ordered by name.
    pub hosts: Vec<HostPlan>,
    /// The links, ordered as in the topology.
    pub links: Vec<LinkPlan>,
}

/// One host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostPlan {
    /// Its name, which every host can resolve.
    pub name: String,
    /// Its ends of links, in the order of the links.
    pub interfaces: Vec<InterfacePlan>,
    /// How it reaches networks that it has no interface in.
    pub routes: Vec<RoutePlan>,
    /// Whether it forwards packets.
    pub forwards: bool,
    /// The initial window on these routes, in segments, if it is not the kernel's own.
    pub initial_window: Option<u32>,
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct InterfacePlan {
    /// `to-` and the name of the host at the other end.
    pub name: String,
    /// Which of the links.
    pub link: usize,
    /// The number of the host at the other end.
    pub peer: usize,
    /// Its IPv4 address.
    pub v4: Ipv4Net,
    /// Its IPv6 address.
    pub v6: Ipv6Net,
}

/// A route through a neighbour.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutePlan {
    /// The destination network.
    pub network: IpNet,
    /// The neighbour's address.
    pub via: IpAddr,
}

/// One link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkPlan {
    /// The numbers of its hosts.
    pub ends: [usize; 2],
    /// What the topology says.
    pub description: LinkDescription,
}

/// Why a topology cannot be made: which part of it, and what is wrong with that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// Which part.
    pub part: Part,
    /// The key of that part.
    pub key: &'static str,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// A part of a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The host of that name.
    Host(String),
    /// The link of that number, from 0.
    Link(usize),
    /// All of it.
    Whole,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.part {
            Part::Host(name) => write!(f, "hosts.{name}")?,
            Part::Link(index) => write!(f, "links, number {}", index + 1)?,
            Part::Whole => {}
        }
        let separator = if self.part == Part::Whole { "" } else { ", " };
        write!(f, "{separator}{}: {}", self.key, self.problem)
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    /// Decides what `topology` leaves open.
    ///
    /// # Errors
    /// What makes no sense in it.
    pub fn of(topology: &Topology) -> Result<Plan, PlanError> {
        if topology.links.len() > LINKS_MAX {
            let problem = format!("{} links; a lab has at most {LINKS_MAX}", topology.links.len());
            return Err(PlanError { part: Part::Whole, key: "links", problem });
        }
        if topology.hosts.is_empty() {
            let problem = "there are no hosts; name at least one, as in `[hosts.client]`".into();
            return Err(PlanError { part: Part::Whole, key: "hosts", problem });
        }
        topology.hosts.keys().try_for_each(|name| check_host_name(name))?;
        let names: Vec<&String> = topology.hosts.keys().collect();
        let mut links: Vec<LinkPlan> = Vec::new();
        for (index, description) in topology.links.iter().enumerate() {
            let ends = check_link(index, description, &names, &links)?;
            links.push(LinkPlan { ends, description: description.clone() });
        }
        let mut hosts: Vec<HostPlan> = names.iter().map(|name| HostPlan::named(name)).collect();
        for (index, link) in links.iter().enumerate() {
            let (v4, v6) = addresses(index, &link.description)?;
            for (end, host) in link.ends.into_iter().enumerate() {
                let peer = link.ends[1 - end];
                let name = format!("to-{}", names[peer]);
                hosts[host].interfaces.push(InterfacePlan {
                    name,
                    link: index,
                    peer,
                    v4: v4[end],
                    v6: v6[end],
                });
            }
        }
        check_networks(&hosts, links.len())?;
        for (host, description) in topology.hosts.values().enumerate() {
            let forwards = description.forward.unwrap_or(hosts[host].interfaces.len() > 1);
            hosts[host].forwards = forwards;
            hosts[host].initial_window = description.initial_window;
        }
        for host in 0..hosts.len() {
            hosts[host].routes = routes(&hosts, host);
        }
        Ok(Plan { hosts, links })
    }

    /// The number of the host `name`.
    pub fn host(&self, name: &str) -> Option<usize> {
        self.hosts.iter().position(|host| host.name == name)
    }

    /// The number of the link between two hosts, in whichever order they are named.
    pub fn link(&self, one: &str, other: &str) -> Option<usize> {
        let ends = [self.host(one)?, self.host(other)?];
        self.links.iter().position(|link| link.ends == ends || link.ends == [ends[1], ends[0]])
    }

    /// The content of `/etc/hosts` in `host`. A host with several addresses is named with the one that
    /// faces `host`.
    pub fn hosts_file(&self, host: usize) -> String {
        let mut text = String::from("127.0.0.1 localhost\n::1 localhost\n");
        for (other, plan) in self.hosts.iter().enumerate() {
            let facing = interface_toward(&self.hosts, other, host).or(plan.interfaces.first());
            if let Some(interface) = facing {
                let name = &plan.name;
                text += &format!("{} {name}\n{} {name}\n", interface.v4.addr(), interface.v6.addr());
            }
        }
        text
    }
}

impl HostPlan {
    fn named(name: &str) -> Self {
        HostPlan {
            name: name.to_owned(),
            interfaces: Vec::new(),
            routes: Vec::new(),
            forwards: false,
            initial_window: None,
        }
    }
}

fn check_host_name(name: &str) -> Result<(), PlanError> {
    let fits = (1..=HOST_NAME_MAX).contains(&name.len());
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if fits && plain && name != "localhost" {
        return Ok(());
    }
    let problem = format!(
        "`{name}` cannot be the name of a host; use 1 to {HOST_NAME_MAX} of a-z, 0-9 and `-` (and not `localhost`)"
    );
    Err(PlanError { part: Part::Host(name.to_owned()), key: "name", problem })
}

/// Checks what can be said of one link without its addresses; returns its ends.
fn check_link(
    index: usize,
    link: &LinkDescription,
    names: &[&String],
    before: &[LinkPlan],
) -> Result<[usize; 2], PlanError> {
    let error = |key, problem| Err(PlanError { part: Part::Link(index), key, problem });
    let mut ends = [0; 2];
    for (end, name) in ends.iter_mut().zip(&link.between) {
        let Some(host) = names.iter().position(|n| *n == name) else {
            let known: Vec<&str> = names.iter().map(|n| n.as_str()).collect();
            return error("between", format!("there is no host `{name}`; there are {}", known.join(", ")));
        };
        *end = host;
    }
    let [a, b] = &link.between;
    if a == b {
        return error("between", format!("a link from `{a}` to itself; name two different hosts"));
    }
    if before.iter().any(|l| l.ends == ends || l.ends == [ends[1], ends[0]]) {
        let problem =
            format!("a second link between `{a}` and `{b}`; put a host between them on one of the two");
        return error("between", problem);
    }
    if !(1280..=65_535).contains(&link.mtu) {
        let problem = format!("{} is not an MTU that IPv6 works with; write 1280 to 65535", link.mtu);
        return error("mtu", problem);
    }
    if let LinkKind::Emulated { up, down } = &link.kind {
        for config in [up, down] {
            if let Err(problem) = config.validate() {
                return error("link", problem.to_string());
            }
        }
    }
    Ok(ends)
}

/// The addresses of a link's ends.
fn addresses(index: usize, link: &LinkDescription) -> Result<([Ipv4Net; 2], [Ipv6Net; 2]), PlanError> {
    let number = (index + 1) as u8; // at most LINKS_MAX
    let v4 = [1, 2].map(|end| Ipv4Net::new_assert(Ipv4Addr::new(10, number, 0, end), 24));
    let v4 = link.v4.unwrap_or(v4);
    let decimal = number.to_string().chars().fold(0, |n, digit| n << 4 | digit as u16 & 0xf);
    let v6 = [1, 2].map(|end| Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, decimal, 0, 0, 0, 0, 0, end), 64));
    let v6 = link.v6.unwrap_or(v6);
    let error = |key, a: &dyn fmt::Display, b: &dyn fmt::Display| {
        let problem = format!("{a} and {b} have to be two addresses of one network");
        Err(PlanError { part: Part::Link(index), key, problem })
    };
    if v4[0].trunc() != v4[1].trunc() || v4[0].addr() == v4[1].addr() {
        return error("v4", &v4[0], &v4[1]);
    }
    if v6[0].trunc() != v6[1].trunc() || v6[0].addr() == v6[1].addr() {
        return error("v6", &v6[0], &v6[1]);
    }
    Ok((v4, v6))
}

/// No two links may share addresses: a packet could not be routed.
fn check_networks(hosts: &[HostPlan], links: usize) -> Result<(), PlanError> {
    let ends: Vec<&InterfacePlan> = hosts.iter().flat_map(|host| &host.interfaces).collect();
    for link in 0..links {
        for other in 0..link {
            let Some(a) = ends.iter().find(|end| end.link == link) else { continue };
            let Some(b) = ends.iter().find(|end| end.link == other) else { continue };
            let overlap4 = a.v4.contains(&b.v4.trunc()) || b.v4.contains(&a.v4.trunc());
            let overlap6 = a.v6.contains(&b.v6.trunc()) || b.v6.contains(&a.v6.trunc());
            let key = match (overlap4, overlap6) {
                (true, _) => "v4",
                (_, true) => "v6",
                _ => continue,
            };
            let problem = format!("the network of this link overlaps that of link number {}", other + 1);
            return Err(PlanError { part: Part::Link(link), key, problem });
        }
    }
    Ok(())
}

/// The hosts that `from` can reach, the nearest first, and the number of the interface by which it does.
/// Among several shortest paths, the one that takes earlier links first counts.
fn reachable(hosts: &[HostPlan], from: usize) -> Vec<(usize, usize)> {
    let mut reached: Vec<(usize, usize)> = Vec::new();
    let mut waiting = VecDeque::from([(from, None)]);
    while let Some((host, first_step)) = waiting.pop_front() {
        if host != from && !hosts[host].forwards {
            continue;
        }
        for (index, interface) in hosts[host].interfaces.iter().enumerate() {
            let step = first_step.unwrap_or(index);
            if interface.peer != from && reached.iter().all(|(host, _)| *host != interface.peer) {
                reached.push((interface.peer, step));
                waiting.push_back((interface.peer, Some(step)));
            }
        }
    }
    reached
}

/// The interface by which `from` reaches `to`.
fn interface_toward(hosts: &[HostPlan], from: usize, to: usize) -> Option<&InterfacePlan> {
    let (_, step) = reachable(hosts, from).into_iter().find(|(host, _)| *host == to)?;
    Some(&hosts[from].interfaces[step])
}

/// How `from` reaches the networks that it is not in.
fn routes(hosts: &[HostPlan], from: usize) -> Vec<RoutePlan> {
    let mut routes = Vec::new();
    let mut known: Vec<usize> = hosts[from].interfaces.iter().map(|interface| interface.link).collect();
    for (host, step) in reachable(hosts, from) {
        let out = &hosts[from].interfaces[step];
        let Some(gateway) = hosts[out.peer].interfaces.iter().find(|i| i.link == out.link) else { continue };
        for interface in &hosts[host].interfaces {
            if known.contains(&interface.link) {
                continue;
            }
            known.push(interface.link);
            routes.push(RoutePlan { network: interface.v4.trunc().into(), via: gateway.v4.addr().into() });
            routes.push(RoutePlan { network: interface.v6.trunc().into(), via: gateway.v6.addr().into() });
        }
    }
    routes
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for host in &self.hosts {
            writeln!(f, "{}{}", host.name, if host.forwards { " (forwards)" } else { "" })?;
            for interface in &host.interfaces {
                writeln!(f, "    {:<15} {:<18} {}", interface.name, interface.v4.to_string(), interface.v6)?;
            }
            for route in &host.routes {
                writeln!(f, "    route {} via {}", route.network, route.via)?;
            }
        }
        for link in &self.links {
            let description = &link.description;
            writeln!(f, "{}, MTU {}", description.name(), description.mtu)?;
            let [first, second] = &description.between;
            match &description.kind {
                LinkKind::Direct => writeln!(f, "    inside the kernel, as fast as it can")?,
                LinkKind::Emulated { up, down } => {
                    writeln!(f, "    {first} to {second}: {}", link_in_words(up))?;
                    writeln!(f, "    {second} to {first}: {}", link_in_words(down))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::HostDescription;
    use shorthaul_types::Seed;

    /// A topology of direct links.
    fn topology(links: &[[&str; 2]]) -> Topology {
        let mut topology = Topology::new(Seed(0));
        for [first, second] in links {
            topology.add_link(LinkDescription::direct(first, second));
        }
        topology
    }

    fn plan(links: &[[&str; 2]]) -> Plan {
        Plan::of(&topology(links)).expect("a sound topology")
    }

    /// The hosts that a packet passes from `from` to `to`, by the routes of the plan.
    fn path<'a>(plan: &'a Plan, from: &str, to: IpAddr) -> Vec<&'a str> {
        let mut host = plan.host(from).expect("a host");
        let mut path = vec![plan.hosts[host].name.as_str()];
        let has = |host: usize, address: IpAddr| {
            plan.hosts[host]
                .interfaces
                .iter()
                .any(|i| [IpAddr::V4(i.v4.addr()), i.v6.addr().into()].contains(&address))
        };
        while !has(host, to) {
            assert!(path.len() <= plan.hosts.len(), "a loop: {path:?}");
            let here = &plan.hosts[host];
            let direct = here.interfaces.iter().find(|i| has(i.peer, to) && same_network(i, to));
            let next = match direct {
                Some(interface) => interface.peer,
                None => {
                    let route =
                        here.routes.iter().find(|route| route.network.contains(&to)).expect("a route");
                    let hop = here.interfaces.iter().find(|i| has(i.peer, route.via));
                    hop.expect("the gateway of a route is a neighbour").peer
                }
            };
            host = next;
            path.push(&plan.hosts[host].name);
        }
        path
    }

    fn same_network(interface: &InterfacePlan, to: IpAddr) -> bool {
        match to {
            IpAddr::V4(to) => interface.v4.contains(&to),
            IpAddr::V6(to) => interface.v6.contains(&to),
        }
    }

    #[test]
    fn packets_take_a_shortest_path_in_both_families() {
        // A line with a detour: a - b - c - d, and b - x - y - d.
        let plan = plan(&[["a", "b"], ["b", "c"], ["c", "d"], ["b", "x"], ["x", "y"], ["y", "d"]]);
        for family in [0, 1] {
            let address = |host: &str| {
                let interface = &plan.hosts[plan.host(host).expect("a host")].interfaces[0];
                if family == 0 { IpAddr::V4(interface.v4.addr()) } else { interface.v6.addr().into() }
            };
            assert_eq!(path(&plan, "a", address("d")), ["a", "b", "c", "d"]);
            assert_eq!(path(&plan, "d", address("a")), ["d", "c", "b", "a"]);
            assert_eq!(path(&plan, "a", address("y")), ["a", "b", "x", "y"]);
            // Everyone reaches everyone.
            for from in &plan.hosts {
                for to in &plan.hosts {
                    path(&plan, &from.name, address(&to.name));
                }
            }
        }
    }

    #[test]
    fn addresses_follow_the_number_of_the_link() {
        let links: Vec<[String; 2]> = (0..20).map(|n| [format!("h{n}"), format!("h{}", n + 1)]).collect();
        let links: Vec<[&str; 2]> = links.iter().map(|[a, b]| [a.as_str(), b.as_str()]).collect();
        let plan = plan(&links);
        let h16 = &plan.hosts[plan.host("h16").expect("a host")];
        let [left, right] = h16.interfaces.as_slice() else { panic!("two interfaces") };
        assert_eq!((left.name.as_str(), right.name.as_str()), ("to-h15", "to-h17"));
        assert_eq!(
            (left.v4.to_string(), right.v4.to_string()),
            ("10.16.0.2/24".into(), "10.17.0.1/24".into())
        );
        assert_eq!(
            (left.v6.to_string(), right.v6.to_string()),
            ("fd00:16::2/64".into(), "fd00:17::1/64".into())
        );
        assert!(h16.forwards && !plan.hosts[plan.host("h0").expect("a host")].forwards);
    }

    #[test]
    fn names_stand_for_the_address_that_faces_the_asker() {
        let plan = plan(&[["client", "gateway"], ["gateway", "server"]]);
        let file = |host| plan.hosts_file(plan.host(host).expect("a host"));
        assert!(file("client").contains("10.1.0.2 gateway\nfd00:1::2 gateway\n"), "{}", file("client"));
        assert!(file("server").contains("10.2.0.1 gateway\n"), "{}", file("server"));
        assert!(
            file("server").contains("10.1.0.1 client\n") && file("server").contains("127.0.0.1 localhost")
        );
    }

    #[test]
    fn a_host_that_does_not_forward_is_no_way() {
        let mut topology = topology(&[["a", "b"], ["b", "c"], ["c", "d"]]);
        let routes = |topology: &Topology| {
            let plan = Plan::of(topology).expect("a sound topology");
            let routes = plan.hosts[plan.host("a").expect("a host")].routes.iter();
            routes
                .filter(|route| route.via.is_ipv4())
                .map(|route| route.network.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(routes(&topology), ["10.2.0.0/24", "10.3.0.0/24"]);
        topology.hosts.insert("b".into(), HostDescription { forward: Some(false), ..Default::default() });
        // It still answers to its own address in the network behind it.
        assert_eq!(routes(&topology), ["10.2.0.0/24"]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |topology: &Topology, text: &str| {
            let error = Plan::of(topology).expect_err("this makes no sense").to_string();
            assert!(error.contains(text), "`{text}` is not in: {error}");
        };
        refused(&Topology::new(Seed(0)), "no hosts");
        refused(&topology(&[["a", "b"], ["b", "a"]]), "second link");
        refused(&topology(&[["a", "a-name-too-long"]]), "a-name-too-long");
        let mut overlapping = topology(&[["a", "b"], ["b", "c"]]);
        overlapping.links[1].v4 =
            Some(["10.1.7.1/8", "10.1.7.2/8"].map(|text| text.parse().expect("a network")));
        refused(&overlapping, "links, number 2, v4: the network of this link overlaps that of link number 1");
    }
}
