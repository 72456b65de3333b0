//! Cells of the whole link: hosts that share a bottleneck, with and without others that have their own, and traffic that is not
//! split beside traffic that is. What comes of them is judged by `shares`.
use super::runs::Cell;
use super::shares::Shares;
use crate::direct_or_split::DirectOrSplit;
use shorthaul_types::Seed;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Shares count from here on: all have begun, and what begins a transfer is over, mostly. In seconds.
pub(super) const WARM_UP: f64 = 3.0;
/// What a page has.
const PAGE: &str = "60 kB";
/// Of a bottleneck, there and back, in ms; and what its queue holds.
const ROUND_TRIP: u64 = 30;
const HOSTS_QUEUE: u64 = 120;
const BESIDE_QUEUE: u64 = 60;
/// Mbit/s of the link on which something is not split.
const BESIDE_RATE: u64 = 20;
/// The server whose flows are not split.
const ANOTHER: &str = "another";
/// Of a household, who is on the link itself, and whose network is another one.
pub(super) const QUICK: &str = "quick";
pub(super) const DEVICE: &str = "device";
/// The link that is shared, from the gateway on.
pub(super) const BOTTLENECK: &str = "hub>cell";
/// What the names of links begin with that are queues of a host's own.
pub(super) const OWN: &str = "hub>own";

/// Who is on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// This many hosts share it, at this many Mbit/s. Each has one to three downloads; every third comes when a third of the time is
    /// over, and goes when another is.
    Shared { hosts: u64, rate: u64 },
    /// Three share it, and as many have one of their own each.
    BesideOwn { rate: u64 },
    /// A download that is split, and one of another server that is not.
    Beside { other: &'static str, at: Place },
    /// Devices behind one address: one on the link itself, which loads pages and from half of the time on downloads, too, and one with a network of
    /// its own, which downloads all the time.
    Household { device: Device, rate: u64 },
}

/// The network that a device of a household has of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Device {
    /// 1 Mbit/s, behind a queue of 0.8 s.
    Slow,
    /// As fast as the link, and 60 ms farther away.
    Far,
    /// A radio link: round trips grow by up to 20 ms under way, and one packet of a hundred is lost.
    Lossy,
}

impl Device {
    const ALL: [Device; 3] = [Device::Slow, Device::Far, Device::Lossy];

    const fn name(self) -> &'static str {
        match self {
            Device::Slow => "slow",
            Device::Far => "far",
            Device::Lossy => "lossy",
        }
    }

    /// Its link, beside one of this rate.
    fn link(self, rate: u64) -> String {
        match self {
            Device::Slow => "rate = \"1 Mbit/s\", delay = \"5 ms\", queue = \"100 kB\"".into(),
            Device::Far => format!("rate = \"{rate} Mbit/s\", delay = \"30 ms\""),
            Device::Lossy => format!(
                "rate = \"{rate} Mbit/s\", delay = \"2 ms\", loss = \"1 %\", jitter = {{ delay = \"10 ms\", order = \"kept\" }}"
            ),
        }
    }
}

/// Where the flow is that is not split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At the same host; the gateway shapes it.
    Host,
    /// At another host; the gateway shapes it.
    Neighbour,
    /// At another host, by a way that does not lead through the gateway.
    Elsewhere,
}

/// A cell of the whole link.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkCell(pub Link);

/// All cells.
pub(super) fn cells() -> Vec<LinkCell> {
    let shared =
        [2, 6, 50].into_iter().flat_map(|hosts| [10, 30, 300].map(|rate| Link::Shared { hosts, rate }));
    let own = [10, 30].map(|rate| Link::BesideOwn { rate });
    let beside = ["cubic", "bbr"].into_iter().flat_map(|other| {
        [Place::Host, Place::Neighbour, Place::Elsewhere].map(|at| Link::Beside { other, at })
    });
    let household =
        Device::ALL.into_iter().flat_map(|device| [10, 50].map(|rate| Link::Household { device, rate }));
    shared.chain(own).chain(beside).chain(household).map(LinkCell).collect()
}

/// What is drawn from a seed by name.
fn below(seed: u64, name: &str, bound: u64) -> u64 {
    Seed(seed).derive(name).0 % bound
}

impl Link {
    /// Mbit/s of the bottleneck.
    pub fn rate(self) -> u64 {
        match self {
            Link::Shared { rate, .. } | Link::BesideOwn { rate } | Link::Household { rate, .. } => rate,
            Link::Beside { .. } => BESIDE_RATE,
        }
    }

    /// For which part of the time that counts somebody downloads beside another.
    pub fn part_beside(self) -> f64 {
        let seconds = self.seconds() as f64;
        match self {
            Link::Household { .. } => seconds / 2.0 / (seconds - WARM_UP),
            _ => 1.0,
        }
    }

    pub fn seconds(self) -> u64 {
        if self.rate() >= 300 { 20 } else { 40 }
    }
}

/// What a host downloads.
struct Downloads {
    /// Flows begin with it, and pages with `page-` and it.
    name: String,
    host: String,
    server: &'static str,
    downloads: u64,
    /// Seconds.
    from: u64,
    until: u64,
    /// Between two of its pages, on average, in ms; if it loads any.
    pages_every: Option<u64>,
}

impl Downloads {
    fn write(&self, seed: u64, text: &mut String) {
        let Downloads { name, host, server, downloads, from, until, pages_every } = self;
        let of = format!("from = \"{server}\"\nto = \"{host}\"\nopened_by = \"{host}\"");
        // Writing to a string does not fail.
        if *downloads > 0 {
            let _ = write!(
                text,
                "[[flows]]\nname = \"{name}\"\n{of}\nunlimited = \"{} s\"\ncount = {downloads}\nstart = \"{} ms\"\n\
                 spacing = \"exponential 300 ms\"\n",
                until - from,
                from * 1000 + below(seed, &format!("{name} start"), 500),
            );
        }
        let Some(pages_every) = pages_every else { return };
        let mut at = from * 1000 + 2000 + below(seed, &format!("{name} page"), *pages_every);
        while at + 1000 < until * 1000 {
            let _ = write!(
                text,
                "[[flows]]\nname = \"page-{name}-{at}\"\n{of}\nstart = \"{at} ms\"\ndownloads = {{ size = \"{PAGE}\" }}\n"
            );
            at += pages_every / 2 + below(seed, &format!("{name} page {at}"), *pages_every);
        }
    }
}

impl LinkCell {
    /// Names of hosts that are there all the time and share the bottleneck: those that are to have the same.
    pub fn equals(&self) -> Vec<String> {
        match self.0 {
            Link::Shared { hosts, .. } => {
                (0..hosts).filter(|host| !self.is_passing(*host)).map(|host| format!("h{host:02}")).collect()
            }
            Link::BesideOwn { .. } => (0..3).map(|host| format!("h{host:02}")).collect(),
            Link::Beside { .. } | Link::Household { .. } => Vec::new(),
        }
    }

    /// Whether a host comes later, and goes again.
    fn is_passing(&self, host: u64) -> bool {
        matches!(self.0, Link::Shared { hosts, .. } if hosts > 2 && host % 3 == 2)
    }

    fn is_beside(&self) -> bool {
        matches!(self.0, Link::Beside { .. })
    }

    /// What the gateway is told.
    fn gateway(&self, with: &[String]) -> String {
        let with = with.join("\n");
        if matches!(self.0, Link::Household { .. }) {
            // They are one host to the gateway: all simulated addresses are in 10.0.0.0/8.
            return format!("hosts = {{ prefix_v4 = 8 }}\n{with}");
        }
        if !matches!(self.0, Link::Beside { at: Place::Host | Place::Neighbour, .. }) {
            return with;
        }
        // The first host by name has the first address.
        format!(
            "traffic = \"all\"\n{with}\n\
             [[gateways.gateway.policy]]\nmatch = {{ servers = [\"10.0.0.1\"] }}\nmode = \"pass\""
        )
    }

    fn downloads(&self, seed: u64) -> Vec<Downloads> {
        let seconds = self.0.seconds();
        let count = |name: &str| 1 + below(seed, &format!("{name} downloads"), 3);
        let host = |name: String, server, (from, until), pages_every| {
            let downloads = count(&name);
            let pages_every = Some(pages_every);
            Downloads { host: name.clone(), name, server, downloads, from, until, pages_every }
        };
        match self.0 {
            Link::Shared { hosts, .. } => (0..hosts)
                .map(|number| {
                    let times =
                        if self.is_passing(number) { (seconds / 3, seconds * 2 / 3) } else { (0, seconds) };
                    host(format!("h{number:02}"), "server", times, if hosts >= 50 { 8000 } else { 1000 })
                })
                .collect(),
            Link::BesideOwn { .. } => ["h00", "h01", "h02", "own0", "own1", "own2"]
                .map(|name| host(name.into(), "server", (0, seconds), 1000))
                .into(),
            Link::Beside { at, .. } => ["split", "whole"]
                .map(|name| Downloads {
                    name: name.into(),
                    host: if at == Place::Host { "split" } else { name }.into(),
                    server: if name == "split" { "server" } else { ANOTHER },
                    downloads: 1,
                    from: 0,
                    until: seconds,
                    pages_every: Some(4000),
                })
                .into(),
            Link::Household { .. } => {
                let (half, pages) = (seconds / 2, Some(1000));
                [
                    ("pages", QUICK, 0, (0, half), pages),
                    (QUICK, QUICK, 1, (half, seconds), pages),
                    (DEVICE, DEVICE, 1, (0, seconds), None),
                ]
                .map(|(name, host, downloads, (from, until), pages_every)| {
                    let (name, host) = (name.to_owned(), host.to_owned());
                    Downloads { name, host, server: "server", downloads, from, until, pages_every }
                })
                .into()
            }
        }
    }
}

impl Cell for LinkCell {
    type Figures = Shares;
    const VERSION: &'static str = "whole link 1";

    fn name(&self) -> String {
        match self.0 {
            Link::Shared { hosts, rate } => format!("whole-link/{hosts}-hosts/{rate}"),
            Link::BesideOwn { rate } => format!("whole-link/beside-own/{rate}"),
            Link::Beside { other, at } => {
                let at = match at {
                    Place::Host => "same-host",
                    Place::Neighbour => "neighbour",
                    Place::Elsewhere => "elsewhere",
                };
                format!("whole-link/beside-{other}/{at}")
            }
            Link::Household { device, rate } => format!("whole-link/household-{}/{rate}", device.name()),
        }
    }

    fn scenario(&self, way: DirectOrSplit, with: &[String], seed: u64) -> String {
        let (rate, seconds) = (self.0.rate(), self.0.seconds());
        let queue = |rate: u64| rate * 125 * if self.is_beside() { BESIDE_QUEUE } else { HOSTS_QUEUE };
        let gateway = match way {
            DirectOrSplit::Direct => "split = false".to_owned(),
            DirectOrSplit::Split => self.gateway(with),
        };
        let mut text = format!(
            "duration = \"{seconds} s\"\nwarm_up = \"{WARM_UP} s\"\nrouters = [\"cell\", \"hub\"]\n\
             [hosts.server]\nscheme = \"cubic\"\n[gateways.gateway]\naccess = \"hub\"\n{gateway}\n\
             [[links]]\nbetween = [\"cell\", \"hub\"]\n\
             link = {{ rate = \"{rate} Mbit/s\", delay = \"{} us\", queue = \"{} B\" }}\n\
             [[links]]\nbetween = [\"hub\", \"gateway\"]\nlink = {{ rate = \"10 Gbit/s\", delay = \"100 us\" }}\n\
             [[links]]\nbetween = [\"gateway\", \"server\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"1 ms\" }}\n\
             [measure]\nseries = [\"queue-delay\", \"delivered\"]\nevery = \"50 ms\"\n",
            ROUND_TRIP * 500,
            queue(rate),
        );
        // Writing to a string does not fail.
        if let Link::Beside { other, at } = self.0 {
            // Whoever passes the gateway by comes to the link from its other side.
            let at = if at == Place::Elsewhere { "hub" } else { "gateway" };
            let _ = write!(
                text,
                "[hosts.{ANOTHER}]\nscheme = \"{other}\"\n\
                 [[links]]\nbetween = [\"{at}\", \"{ANOTHER}\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"1 ms\" }}\n"
            );
        }
        let mut hosts = BTreeSet::new();
        for downloads in self.downloads(seed) {
            let name = &downloads.host;
            // One to three times as fast as what is shared, and farther away each time.
            let own = name.strip_prefix("own").and_then(|number| number.parse::<u64>().ok());
            let (at, link) = match own {
                Some(number) => {
                    let (rate, delay) = (rate * (1 + number), 5 + 7 * number);
                    let queue = queue(rate);
                    (
                        "hub",
                        format!("rate = \"{rate} Mbit/s\", delay = \"{delay} ms\", queue = \"{queue} B\""),
                    )
                }
                None => match self.0 {
                    Link::Household { device, rate } if name == DEVICE => ("cell", device.link(rate)),
                    _ => ("cell", "rate = \"1 Gbit/s\", delay = \"100 us\"".to_owned()),
                },
            };
            if hosts.insert(name.clone()) {
                let _ = write!(
                    text,
                    "[hosts.{name}]\nscheme = \"cubic\"\n\
                     [[links]]\nbetween = [\"{at}\", \"{name}\"]\nlink = {{ {link} }}\n"
                );
            }
            downloads.write(seed, &mut text);
        }
        text
    }

    fn run(&self, text: &str, seed: u64) -> Result<Shares, String> {
        let (scenario, outcome) = super::figures::simulated(text, seed)?;
        Ok(Shares::of(self, &scenario, seed, &outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_makes_sense() {
        let cells = cells();
        assert_eq!(cells.len(), 9 + 2 + 6 + 6);
        for cell in &cells {
            cell.check(&[]).unwrap();
        }
    }

    #[test]
    fn who_passes_the_gateway_by_is_on_the_link_all_the_same() {
        let text = |at| LinkCell(Link::Beside { other: "bbr", at }).scenario(DirectOrSplit::Split, &[], 1);
        let elsewhere = text(Place::Elsewhere);
        assert!(elsewhere.contains("between = [\"hub\", \"another\"]") && !elsewhere.contains("traffic"));
        for shaped in [text(Place::Host), text(Place::Neighbour)] {
            assert!(
                shaped.contains("between = [\"gateway\", \"another\"]")
                    && shaped.contains("traffic = \"all\"")
            );
        }
        assert!(
            text(Place::Neighbour).contains("[hosts.whole]") && !text(Place::Host).contains("[hosts.whole]")
        );
    }
}
