//! The links, and what is done over them.

/// A link to users, behind which a wired path of 50 ms leads to the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub name: &'static str,
    /// The link, from the users' side: `up` is toward the server.
    pub link: &'static str,
    /// When it is away, and for how long, in seconds.
    pub fades: &'static [(f64, f64)],
    /// Whether what is under way then goes on afterwards.
    pub holds: bool,
    /// Whether only the way toward users is away then, and what they send arrives.
    pub only_down: bool,
    pub mtu: u32,
    /// What it carries toward users, in bytes a second, on average.
    pub rate: f64,
    /// Its own round trip without load, in seconds.
    pub round_trip: f64,
    /// The effective product of bandwidth and delay that the paper measured, in bytes (AGG §III and §VI-C); none where it measured none.
    pub effective: Option<f64>,
    /// After which silence M-TCP takes a user to be disconnected.
    pub silence: &'static str,
    /// A download, and an upload, in bytes.
    pub download: u64,
    pub upload: u64,
    /// One of the files of a page.
    pub page: u64,
    /// For how long there is bulk beside pages, and when the pages begin, in seconds.
    pub bulk: [u32; 2],
    /// What each of many users downloads at a time, and the mean pause between two, in seconds.
    pub user: (u64, u32),
}

/// The round trip of the path behind the gateway, in seconds.
const WIRED: f64 = 0.05;
/// What is allowed above the product of bandwidth and delay where a window is set (AGG §IV).
const SURPLUS: f64 = 1.2;

/// Hand-offs with a silence of 0.5 to 8 s: when, and how long.
const HAND_OFFS: [(f64, f64); 5] = [(4.0, 0.5), (9.0, 1.0), (15.0, 2.0), (22.0, 4.0), (32.0, 8.0)];

/// The link that the paper measured its own proxy on.
pub(super) const GPRS: &str = "gprs";

/// Every link.
pub(super) const LINKS: [Link; 8] = [
    Link {
        name: GPRS,
        link: "{ preset = \"gprs\" }",
        fades: &[],
        holds: false,
        only_down: false,
        mtu: 1452,
        rate: 4150.0,
        round_trip: 1.6,
        effective: Some(10e3),
        silence: "3 s",
        download: 300_000,
        upload: 50_000,
        page: 8_000,
        bulk: [240, 40],
        user: (8_000, 20),
    },
    Link {
        name: "random-loss",
        link: "{ rate = \"2 Mbit/s\", delay = \"20 ms\", queue = \"100 packets\", loss = \"1 %\" }",
        download: 4_000_000,
        upload: 4_000_000,
        page: 30_000,
        bulk: [40, 8],
        user: (60_000, 2),
        ..WIRELESS
    },
    Link {
        name: "bursty-loss",
        // One percent, too, in bursts of five packets.
        link: "{ rate = \"2 Mbit/s\", delay = \"20 ms\", queue = \"100 packets\", loss = { model = \"gilbert-elliott\", to_bad = 0.002, to_good = 0.2 } }",
        ..WIRELESS
    },
    Link {
        name: "lte",
        link: "{ rate = { cellular = { mean = \"10 Mbit/s\", variation = 0.7 } }, delay = \"20 ms\", queue = \"4 MB\", up = { rate = \"5 Mbit/s\" } }",
        rate: 1.25e6,
        download: 15_000_000,
        upload: 6_000_000,
        bulk: [25, 6],
        user: (300_000, 2),
        ..WIRELESS
    },
    Link {
        name: "5g-blockage",
        // Somebody walks through the beam; what waits goes on afterwards.
        link: "{ rate = \"40 Mbit/s\", delay = \"10 ms\", queue = \"4 MB\", up = { rate = \"10 Mbit/s\" }, outages = { every = \"4 s\", lasts = \"100 ms to 1 s\", hold = \"10 s\" } }",
        rate: 5e6,
        round_trip: 0.02,
        download: 40_000_000,
        upload: 10_000_000,
        bulk: [20, 5],
        user: (1_000_000, 2),
        ..WIRELESS
    },
    Link {
        name: "hand-off",
        link: "{ rate = \"2 Mbit/s\", delay = \"50 ms\", queue = \"100 packets\" }",
        fades: &HAND_OFFS,
        holds: true,
        round_trip: 0.1,
        download: 9_000_000,
        upload: 9_000_000,
        bulk: [60, 3],
        ..WIRELESS
    },
    Link {
        name: "hand-off-lossy",
        link: "{ rate = \"2 Mbit/s\", delay = \"50 ms\", queue = \"100 packets\" }",
        fades: &HAND_OFFS,
        round_trip: 0.1,
        download: 9_000_000,
        upload: 9_000_000,
        bulk: [60, 3],
        ..WIRELESS
    },
    Link {
        name: "geo",
        link: "{ rate = \"20 Mbit/s\", delay = \"275 ms\", queue = \"4 MB\", up = { rate = \"5 Mbit/s\" } }",
        rate: 2.5e6,
        round_trip: 0.55,
        silence: "3 s",
        download: 25_000_000,
        upload: 6_000_000,
        bulk: [30, 8],
        user: (300_000, 2),
        ..WIRELESS
    },
];

/// What most have in common.
const WIRELESS: Link = Link {
    name: "",
    link: "",
    fades: &[],
    holds: false,
    only_down: false,
    mtu: 1500,
    rate: 250e3,
    round_trip: 0.04,
    effective: None,
    silence: "1 s",
    download: 4_000_000,
    upload: 4_000_000,
    page: 30_000,
    bulk: [40, 8],
    user: (60_000, 2),
};

impl Link {
    /// The window that keeps the link busy, with what is allowed above it, in bytes.
    pub(super) fn window(&self) -> u64 {
        (self.rate * self.round_trip * SURPLUS) as u64
    }

    /// The paper's fixed window: a fifth above its effective product, and where it measured none above that of the link, in bytes.
    pub(super) fn clamp(&self) -> u64 {
        (self.effective.unwrap_or(self.rate * self.round_trip) * SURPLUS) as u64
    }

    /// The product of the whole path, in bytes.
    pub(super) fn path_product(&self) -> u64 {
        (self.rate * self.path_round_trip()) as u64
    }

    /// The window that keeps the whole path busy, with what is allowed above it.
    pub(super) fn path_window(&self) -> u64 {
        (self.rate * (self.round_trip + WIRED) * SURPLUS) as u64
    }

    /// The round trip of the whole path without load, in seconds.
    pub(super) fn path_round_trip(&self) -> f64 {
        self.round_trip + WIRED
    }
}

/// The link of this name.
pub(super) fn link(name: &str) -> &'static Link {
    LINKS.iter().find(|link| link.name == name).unwrap_or(&LINKS[0])
}
