use ipnet::{Ipv4Net, Ipv6Net};
use shorthaul_link::{Direction, LinkConfig};
use shorthaul_types::Seed;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// Hosts and the links between them: what [`Lab::start`](crate::Lab::start) makes.
///
/// ```
/// use shorthaul_lab::{LinkDescription, Topology};
/// use shorthaul_types::Seed;
///
/// let mut topology = Topology::new(Seed(1));
/// topology.add_link(LinkDescription::direct("client", "gateway"));
/// topology.add_link(LinkDescription::direct("gateway", "server"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// Where the links' randomness comes from: every link derives its own seed from this and its name.
    pub seed: Seed,
    /// The hosts by name.
    pub hosts: BTreeMap<String, HostDescription>,
    /// The links. Their order decides about automatic addresses.
    pub links: Vec<LinkDescription>,
    /// Variables that all its programs find in their environment, besides those of this process.
    pub environment: BTreeMap<String, OsString>,
    /// What is worth trying in it, for people.
    pub suggestions: Vec<Suggestion>,
}

/// Something to try in a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// The host to try it in.
    pub host: String,
    /// A shell command.
    pub command: String,
    /// What it shows, in a few words.
    pub about: String,
}

/// What is special about a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostDescription {
    /// The default congestion control of its TCP, by the kernel's name: "cubic" unless told otherwise.
    pub congestion: Option<String>,
    /// Kernel settings, as in `sysctl(8)`: `net.ipv4.tcp_rmem` = `4096 131072 6291456`.
    pub sysctl: BTreeMap<String, String>,
    /// Shell commands that run in it from the start to the end of the lab.
    pub run: Vec<String>,
    /// Whether it forwards packets; `None` means if it has more than one link.
    pub forward: Option<bool>,
    /// The initial window of its connections, in segments, to hosts that are not its neighbours; `None` is the
    /// kernel's own, 10.
    pub initial_window: Option<u32>,
}

impl HostDescription {
    /// The default congestion control of its TCP.
    pub fn congestion(&self) -> &str {
        self.congestion.as_deref().unwrap_or("cubic")
    }
}

/// A link between two hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkDescription {
    /// The hosts at its ends. [`Direction::Up`] goes from the first to the second.
    pub between: [String; 2],
    /// How packets cross it.
    pub kind: LinkKind,
    /// The longest IP packet that passes, in bytes (1280 to 65,535).
    pub mtu: u32,
    /// The addresses of the ends; `None` means the `n`th link has `10.n.0.1/24` and `10.n.0.2/24`.
    pub v4: Option<[Ipv4Net; 2]>,
    /// The same for IPv6; `None` means `fd00:n::1/64` and `fd00:n::2/64`, with `n` in decimal digits.
    pub v6: Option<[Ipv6Net; 2]>,
}

/// How packets cross a link.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)] // there are a handful of them
pub enum LinkKind {
    /// Through our emulator, in user space.
    Emulated {
        /// From the first host to the second.
        up: LinkConfig,
        /// From the second host to the first.
        down: LinkConfig,
    },
    /// Inside the kernel, as fast as it can (a veth pair).
    Direct,
}

impl Topology {
    /// A topology with nothing in it.
    pub fn new(seed: Seed) -> Self {
        Topology {
            seed,
            hosts: BTreeMap::new(),
            links: Vec::new(),
            environment: BTreeMap::new(),
            suggestions: Vec::new(),
        }
    }

    /// The host `name`, which is added if it is not there yet.
    pub fn host(&mut self, name: &str) -> &mut HostDescription {
        self.hosts.entry(name.to_owned()).or_default()
    }

    /// Adds a link, and its hosts if they are not there yet.
    pub fn add_link(&mut self, link: LinkDescription) -> &mut Self {
        for name in &link.between {
            self.host(name);
        }
        self.links.push(link);
        self
    }
}

impl LinkDescription {
    /// The MTU of a link for which none is given: that of Ethernet.
    pub const DEFAULT_MTU: u32 = 1500;

    /// A link that the kernel makes, as fast as it can.
    pub fn direct(first: &str, second: &str) -> Self {
        Self::new([first, second], LinkKind::Direct)
    }

    /// A link that is the same in both directions.
    pub fn symmetric(first: &str, second: &str, both: LinkConfig) -> Self {
        Self::new([first, second], LinkKind::Emulated { up: both.clone(), down: both })
    }

    /// A link of the given kind with default MTU and automatic addresses.
    pub fn new(between: [&str; 2], kind: LinkKind) -> Self {
        LinkDescription {
            between: between.map(str::to_owned),
            kind,
            mtu: Self::DEFAULT_MTU,
            v4: None,
            v6: None,
        }
    }

    /// The same with another MTU.
    pub fn with_mtu(self, mtu: u32) -> Self {
        LinkDescription { mtu, ..self }
    }

    /// Its name: `client-gateway`.
    pub fn name(&self) -> String {
        self.between.join("-")
    }

    /// What it is like in one direction, if it is emulated.
    pub fn config(&self, direction: Direction) -> Option<&LinkConfig> {
        match (&self.kind, direction) {
            (LinkKind::Direct, _) => None,
            (LinkKind::Emulated { up, .. }, Direction::Up) => Some(up),
            (LinkKind::Emulated { down, .. }, Direction::Down) => Some(down),
        }
    }
}
