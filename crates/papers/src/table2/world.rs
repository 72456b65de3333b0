//! A scenario of a link, what is done over it, and who the ends are: with a case for every system.
use super::links::Link;
use super::rows::{self, Row};
use crate::error::Result;
use shorthaul_observe::EngineName;
use shorthaul_scenario::Study;
use std::fmt::Write;

/// Live, a host that no kernel can be.
const OWN_STACK: (&str, &str) = ("stack", "\"own\"");

/// Who the ends are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ends {
    /// As of the paper's time: Reno with selective acknowledgments, two segments first, windows of 64 KiB.
    Then,
    /// CUBIC with SACK and RACK, ten segments first, paced.
    Today,
}

impl Ends {
    pub(super) const ALL: [Ends; 2] = [Ends::Then, Ends::Today];

    pub(super) fn name(self) -> &'static str {
        match self {
            Ends::Then => "then",
            Ends::Today => "today",
        }
    }

    /// How a host speaks TCP, with what a system changes.
    fn scheme(self, changes: &[(&str, &str)], engine: EngineName) -> String {
        let usual: &[(&str, &str)] = match self {
            Ends::Then => &[
                ("profile", "\"sack-reno\""),
                ("pacing", "false"),
                ("initial_window", "2"),
                ("f_rto", "false"),
                ("ack", "\"delayed 200 ms\""),
                ("window_scaling", "false"),
                ("receive_buffer", "\"64 kB\""),
            ],
            Ends::Today => &[("profile", "\"cubic\"")],
        };
        let is_own = changes.contains(&OWN_STACK);
        let stays = |(key, _): &&(&str, &str)| {
            let is_changed = changes.iter().any(|(changed, _)| changed == key);
            // A kernel decides by itself when to acknowledge.
            !is_changed && (*key != "ack" || engine == EngineName::Sim || is_own)
        };
        let keys = usual.iter().filter(stays).chain(changes);
        let keys: Vec<String> = keys.map(|(key, value)| format!("{key} = {value}")).collect();
        format!("{{ {} }}", keys.join(", "))
    }
}

/// What is done over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    /// One download.
    Download,
    /// A page of three files beside bulk, again and again.
    Pages,
    /// One upload.
    Upload,
    /// Twenty users, each downloading and reading in turn.
    Users,
    /// Files of 18 kB, one after the other: what the start costs.
    Start,
    /// A download that joins another.
    Joining,
    /// A download over stalls of 0.5 to 8 s that lose nothing.
    Stalls,
    /// A download that the link leaves for 15 s, with all that was under way.
    Disconnection,
}

/// How many users there are where there are many.
pub(super) const USERS: u32 = 20;
/// When the second download joins, in seconds.
pub(super) const JOINS: f64 = 40.0;
/// The stalls: when, and how long, in seconds.
pub(super) const STALLS: [(f64, f64); 5] = [(20.0, 0.5), (30.0, 1.0), (41.0, 2.0), (53.0, 4.0), (67.0, 8.0)];
/// The disconnection: when, and how long, in seconds.
pub(super) const DISCONNECTION: [(f64, f64); 1] = [(30.0, 15.0)];

impl Work {
    /// What every link is tried with.
    pub(super) const BOARD: [Work; 4] = [Work::Download, Work::Pages, Work::Upload, Work::Users];
    /// What the rows of the paper's table are tried with, beside a download, over the paper's link.
    pub(super) const ASPECTS: [Work; 4] = [Work::Start, Work::Joining, Work::Stalls, Work::Disconnection];

    pub(super) fn name(self) -> &'static str {
        match self {
            Work::Download => "download",
            Work::Pages => "pages",
            Work::Upload => "upload",
            Work::Users => "users",
            Work::Start => "start",
            Work::Joining => "joining",
            Work::Stalls => "stalls",
            Work::Disconnection => "disconnection",
        }
    }

    /// In whose transfers' times it is measured: the flows whose names begin so, and how many transfers each has.
    pub(super) fn measured(self) -> (&'static str, usize) {
        match self {
            Work::Pages => ("page", 5),
            Work::Users => ("user", 3),
            Work::Start => ("file", 10),
            Work::Joining => ("second", 1),
            _ => ("file", 1),
        }
    }

    /// Whether each flow has a connection of its own for all that it does, so that what was acknowledged can be told of the flow.
    pub(super) fn has_one_connection(self) -> bool {
        !matches!(self, Work::Pages | Work::Users | Work::Start)
    }

    fn users(self) -> u32 {
        if self == Work::Users { USERS } else { 1 }
    }

    fn flows(self, link: &Link) -> String {
        let flow = |name: &str, from: &str, to: &str, what: String| {
            format!("[[flows]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\n{what}\n")
        };
        let download = |name: &str, what: String| {
            flow(name, "server", "user1", format!("opened_by = \"user1\"\n{what}"))
        };
        let size = link.download;
        let repeats = self.measured().1;
        match self {
            Work::Download | Work::Stalls | Work::Disconnection => {
                download("file", format!("bulk = \"{size} B\""))
            }
            Work::Upload => flow("file", "user1", "server", format!("bulk = \"{} B\"", link.upload)),
            Work::Pages => {
                let [lasts, from] = link.bulk;
                let page = format!(
                    "start = \"{from} s\"\ncount = 3\ndownloads = {{ size = \"{} B\", repeats = {repeats}, pause = \"1 s\" }}",
                    link.page
                );
                download("bulk", format!("unlimited = \"{lasts} s\""))
                    + &flow("page", "server", "user1", page)
            }
            Work::Users => {
                let (size, pause) = link.user;
                let user = |number| {
                    let what = format!(
                        "start = \"{} ms\"\ndownloads = {{ size = \"{size} B\", repeats = {repeats}, pause = \"exponential {pause} s\" }}",
                        number * 200
                    );
                    flow(&format!("user{number}"), "server", &format!("user{number}"), what)
                };
                (1..=USERS).map(user).collect()
            }
            Work::Start => {
                let what =
                    format!("downloads = {{ size = \"18 kB\", repeats = {repeats}, pause = \"20 s\" }}");
                flow("file", "server", "user1", what)
            }
            Work::Joining => {
                let second = format!("start = \"{JOINS} s\"\nbulk = \"100 kB\"");
                download("first", format!("bulk = \"{size} B\"")) + &download("second", second)
            }
        }
    }

    /// When the link is away meanwhile, and for how long.
    pub(super) fn fades(self, link: &Link) -> &'static [(f64, f64)] {
        match self {
            Work::Stalls => &STALLS,
            Work::Disconnection => &DISCONNECTION,
            _ => link.fades,
        }
    }

    /// The link, with what happens to it.
    fn link(self, link: &Link) -> String {
        let fades = self.fades(link);
        if fades.is_empty() {
            return link.link.to_owned();
        }
        let hold = if self == Work::Stalls || link.holds { "10 s" } else { "0 s" };
        let fade = |(at, lasts): &(f64, f64)| format!("{{ at = \"{at} s\", lasts = \"{lasts} s\" }}");
        let list: Vec<String> = fades.iter().map(fade).collect();
        let inside = link.link.trim_end_matches('}').trim_end();
        let outages = format!("outages = {{ list = [{}], hold = \"{hold}\" }}", list.join(", "));
        match link.only_down {
            true => format!("{inside}, down = {{ {outages} }} }}"),
            false => format!("{inside}, {outages} }}"),
        }
    }
}

/// A scenario's place on the board.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub link: &'static Link,
    pub work: Work,
    pub ends: Ends,
}

impl Place {
    pub(super) fn name(&self) -> String {
        format!("{}-{}-{}", self.link.name, self.work.name(), self.ends.name())
    }

    /// The scenario, with this many seeds and a case for each of these systems.
    pub(super) fn study(&self, rows: &[&Row], repeats: u32) -> Result<Study> {
        self.study_for(EngineName::Sim, rows, repeats)
    }

    /// The same for an engine. Live, ends that a system changes are our own TCP, and the others the kernel's.
    pub(super) fn study_for(&self, engine: EngineName, rows: &[&Row], repeats: u32) -> Result<Study> {
        Ok(Study::from_toml(&format!("{}.toml", self.name()), &self.text(engine, rows, repeats))?)
    }

    fn text(&self, engine: EngineName, rows: &[&Row], repeats: u32) -> String {
        let Place { link, work, ends } = self;
        let usual = ends.scheme(&[], engine);
        let every = if link.rate < 10_000.0 { "250 ms" } else { "100 ms" };
        let mut text = format!(
            "about = \"{}\"\nseed = 1\nrepeats = {repeats}\nduration = \"{} s\"\n{}\n\
             [hosts.server]\nscheme = {usual}\n\n",
            self.name(),
            if link.rate < 10_000.0 { 1500 } else { 300 },
            if self.has_mobile() { "" } else { "routers = [\"mast\"]\n" },
        );
        if self.has_mobile() {
            text += "[gateways.mast]\naccess = \"user1\"\nsplit = false\nmode = \"split\"\npolicy = []\n\n";
        }
        for user in 1..=work.users() {
            // A text cannot fail to be written to.
            let _ = write!(
                text,
                "[hosts.user{user}]\nscheme = {usual}\n\n[[links]]\nbetween = [\"user{user}\", \"mast\"]\nmtu = {}\nlink = {{}}\n\n",
                link.mtu
            );
        }
        text += &format!(
            "[gateways.station]\naccess = \"mast\"\nsplit = true\nmode = \"split\"\nto_access = {{}}\npolicy = []\n\n\
             [[links]]\nbetween = [\"mast\", \"station\"]\nmtu = {mtu}\nlink = {radio}\n\n\
             [[links]]\nbetween = [\"station\", \"server\"]\nmtu = {mtu}\nlink = {{ rate = \"100 Mbit/s\", delay = \"25 ms\" }}\n\n\
             {flows}\n[measure]\nmetrics = [\"goodput\", \"retransmitted\", \"timeouts\", \"spurious-timeouts\", \"fairness\", \"held\", \"held-most\"]\n\
             series = [\"queue-delay\", \"delivered\", \"acknowledged\"]\nevery = \"{every}\"\n\n",
            mtu = link.mtu,
            radio = work.link(link),
            flows = work.flows(link),
        );
        text + &rows.iter().map(|row| self.case(row, engine)).collect::<String>()
    }

    /// Whether what belongs to a mobile host can stand before it: where there is one, and not many.
    fn has_mobile(&self) -> bool {
        self.work != Work::Users
    }

    fn case(&self, row: &Row, engine: EngineName) -> String {
        let mut text = format!("[cases.{}]\n", row.name);
        // Both ends of a flow have one kind of TCP.
        let own_stack = (engine == EngineName::Live && !row.sender.is_empty()).then_some(OWN_STACK);
        let mut hosts = |host: String, changes: &[(&str, &str)]| {
            let changes: Vec<(&str, &str)> = changes.iter().copied().chain(own_stack).collect();
            if !changes.is_empty() {
                text += &format!("\"hosts.{host}.scheme\" = {}\n", self.ends.scheme(&changes, engine));
            }
        };
        let (at_server, at_users) = match self.work {
            Work::Upload => (row.receiver, row.sender),
            _ => (row.sender, row.receiver),
        };
        hosts("server".into(), at_server);
        (1..=self.work.users()).for_each(|user| hosts(format!("user{user}"), at_users));
        for (key, value) in (row.gateway)(self.link) {
            text += &format!("\"gateways.station.{key}\" = {value}\n");
        }
        if let Some(mobile) = row.mobile.filter(|_| self.has_mobile()) {
            let policy = rows::intercepted(&mobile(self.link, self.work));
            text += &format!("\"gateways.mast.split\" = true\n\"gateways.mast.policy\" = {policy}\n");
        }
        text + "\n"
    }
}
