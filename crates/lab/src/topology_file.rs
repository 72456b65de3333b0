//! Topologies as people write them, in TOML.
use crate::plan::{Part, Plan, PlanError};
use crate::topology::{HostDescription, LinkDescription, LinkKind, Suggestion, Topology};
use serde::Deserialize;
use shorthaul_link::{Direction, LinkSpec, Trace};
use shorthaul_types::Seed;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use toml::Spanned;

/// The topologies that come with the program: name, what it is, file.
const BUILT_IN: [(&str, &str, &str); 3] = [
    (
        "gprs",
        "a GPRS phone behind a gateway, and a fast wired network of 20 ms",
        include_str!("../../../topologies/gprs.toml"),
    ),
    (
        "halfway",
        "32 Mbit/s, 128 ms, 0.1 % loss in all, with the gateway half-way",
        include_str!("../../../topologies/halfway.toml"),
    ),
    (
        "geo",
        "a geostationary satellite, 600 ms, with the gateway at the ground station",
        include_str!("../../../topologies/geo.toml"),
    ),
];

/// Why a topology could not be read: file, line, what stands there, what is wrong and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyError {
    source: String,
    /// The line, from 1, and what is written in it.
    line: Option<(usize, String)>,
    problem: String,
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some((number, text)) = &self.line {
            write!(f, ", line {number}: `{text}`")?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl std::error::Error for TopologyError {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    seed: u64,
    hosts: BTreeMap<Spanned<String>, HostSection>,
    #[serde(default)]
    links: Vec<Spanned<LinkSection>>,
    #[serde(default, rename = "try")]
    suggestions: Vec<SuggestionSection>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SuggestionSection {
    on: Spanned<String>,
    command: String,
    about: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostSection {
    congestion: Option<String>,
    #[serde(default)]
    sysctl: BTreeMap<String, SysctlValue>,
    #[serde(default)]
    run: Vec<String>,
    forward: Option<bool>,
    initial_window: Option<u32>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum SysctlValue {
    Number(i64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkSection {
    between: Spanned<[String; 2]>,
    #[serde(default)]
    kind: Kind,
    link: Option<Spanned<LinkSpec>>,
    mtu: Option<Spanned<u32>>,
    v4: Option<Spanned<[String; 2]>>,
    v6: Option<Spanned<[String; 2]>>,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Emulated,
    Veth,
}

/// A text with its name and the directory that file names in it are relative to.
struct Source<'a> {
    name: &'a str,
    text: &'a str,
    directory: Option<&'a Path>,
}

impl Topology {
    /// Reads the topology that comes with the program under the name `name_or_path`, or else the file.
    ///
    /// # Errors
    /// If there is no such file, or if it makes no sense.
    pub fn load(name_or_path: &str) -> Result<Self, TopologyError> {
        match BUILT_IN.iter().find(|(name, ..)| *name == name_or_path) {
            Some((name, _, text)) => read(&Source { name, text, directory: None }),
            None => Self::from_file(Path::new(name_or_path)),
        }
    }

    /// Names and descriptions of the topologies that come with the program.
    pub fn built_in() -> impl Iterator<Item = (&'static str, &'static str)> {
        BUILT_IN.iter().map(|(name, about, _)| (*name, *about))
    }

    /// Reads a topology from a file.
    ///
    /// # Errors
    /// If it cannot be read, or makes no sense.
    pub fn from_file(path: &Path) -> Result<Self, TopologyError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            let known: Vec<&str> = BUILT_IN.iter().map(|(name, ..)| *name).collect();
            let problem =
                format!("{error}; give a file, or one of the built-in topologies {}", known.join(", "));
            TopologyError { source: name.clone(), line: None, problem }
        })?;
        read(&Source { name: &name, text: &text, directory: path.parent() })
    }

    /// Reads a topology from a text; `name` is what errors call it. It may not refer to trace files.
    ///
    /// ```
    /// let text = r#"
    /// seed = 1                                # of all randomness of the links; 0 if left out
    ///
    /// [hosts.client]                          # everything in a host may be left out
    /// congestion = "reno"                     # default of its TCP; "cubic" if left out
    /// sysctl = { "net.ipv4.tcp_rmem" = "4096 131072 6291456" }
    /// [hosts.gateway]
    /// forward = true                          # automatic with more than one link
    /// [hosts.server]
    /// run = ["iperf3 -s"]                     # shell commands, from start to end
    /// initial_window = 2                      # segments; the kernel's 10 if left out
    ///
    /// [[links]]
    /// between = ["client", "gateway"]         # `up` goes from the first to the second, `down` back
    /// mtu = 1400                              # 1500 if left out
    /// link = { rate = "32 Mbit/s", delay = "32 ms", loss = "0.05 %", queue = "256 kB", up = { rate = "4 Mbit/s" } }
    /// v4 = ["192.168.1.1/24", "192.168.1.2/24"]    # 10.1.0.1/24 and 10.1.0.2/24 for the first link if left out
    /// v6 = ["fd12::1/64", "fd12::2/64"]            # fd00:1::1/64 and fd00:1::2/64 if left out
    ///
    /// [[links]]
    /// between = ["gateway", "server"]
    /// kind = "veth"                           # inside the kernel, at full speed, instead of `link`
    ///
    /// [[try]]                                 # told to whoever does `shorthaul lab run`
    /// on = "client"
    /// command = "iperf3 -c server"
    /// about = "how fast it is"
    /// "#;
    /// let topology = shorthaul_lab::Topology::from_toml("example", text)?;
    /// assert_eq!(topology.links[0].name(), "client-gateway");
    /// # Ok::<(), shorthaul_lab::TopologyError>(())
    /// ```
    ///
    /// What `link` may say is described at [`LinkSpec`].
    ///
    /// # Errors
    /// If it makes no sense.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, TopologyError> {
        read(&Source { name, text, directory: None })
    }
}

fn read(source: &Source<'_>) -> Result<Topology, TopologyError> {
    let file: File = toml::from_str(source.text)
        .map_err(|error| source.error(error.span(), error.message().replace('\n', ", ")))?;
    let mut topology = Topology::new(Seed(file.seed));
    let mut places = Places { hosts: BTreeMap::new(), links: Vec::new() };
    for (name, section) in file.hosts {
        places.hosts.insert(name.get_ref().clone(), name.span());
        topology.hosts.insert(name.into_inner(), section.into());
    }
    for section in file.links {
        places.links.push(LinkPlace::of(&section));
        let seed = topology.seed.derive(&section.get_ref().between.get_ref().join("-"));
        topology.links.push(link(source, section.into_inner(), seed)?);
    }
    for section in file.suggestions {
        let host = section.on.get_ref();
        if !topology.hosts.contains_key(host) {
            let names: Vec<&str> = topology.hosts.keys().map(String::as_str).collect();
            let problem = format!("there is no host `{host}`; there are: {}", names.join(", "));
            return Err(source.error(Some(section.on.span()), problem));
        }
        let SuggestionSection { on, command, about } = section;
        topology.suggestions.push(Suggestion { host: on.into_inner(), command, about });
    }
    match Plan::of(&topology) {
        Ok(_) => Ok(topology),
        Err(PlanError { part, key, problem }) => Err(source.error(places.of(&part, key), problem)),
    }
}

/// Where the parts of a topology stand in its text.
struct Places {
    hosts: BTreeMap<String, Range<usize>>,
    links: Vec<LinkPlace>,
}

struct LinkPlace {
    whole: Range<usize>,
    keys: Vec<(&'static str, Range<usize>)>,
}

impl LinkPlace {
    fn of(section: &Spanned<LinkSection>) -> Self {
        let link = section.get_ref();
        let keys = [
            ("between", Some(link.between.span())),
            ("mtu", link.mtu.as_ref().map(Spanned::span)),
            ("link", link.link.as_ref().map(Spanned::span)),
            ("v4", link.v4.as_ref().map(Spanned::span)),
            ("v6", link.v6.as_ref().map(Spanned::span)),
        ];
        let keys = keys.into_iter().filter_map(|(key, span)| Some((key, span?))).collect();
        LinkPlace { whole: section.span(), keys }
    }
}

impl Places {
    fn of(&self, part: &Part, key: &str) -> Option<Range<usize>> {
        match part {
            Part::Host(name) => self.hosts.get(name).cloned(),
            Part::Link(index) => {
                let place = self.links.get(*index)?;
                let span = place.keys.iter().find(|(k, _)| *k == key).map_or(&place.whole, |(_, span)| span);
                Some(span.clone())
            }
            Part::Whole => None,
        }
    }
}

impl Source<'_> {
    fn error(&self, span: Option<Range<usize>>, problem: impl Into<String>) -> TopologyError {
        let line = span.map(|span| {
            let before = &self.text[..span.start.min(self.text.len())];
            let number = before.matches('\n').count() + 1;
            let text = self.text.lines().nth(number - 1).unwrap_or_default().trim();
            (number, text.to_owned())
        });
        TopologyError { source: self.name.to_owned(), line, problem: problem.into() }
    }

    fn load_trace(&self, file: &str) -> Result<Arc<Trace>, String> {
        let path: PathBuf = match self.directory {
            Some(directory) => directory.join(file),
            None => return Err("only a topology in a file can name a trace file".into()),
        };
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        text.parse::<Trace>().map(Arc::new).map_err(|error| error.to_string())
    }
}

impl From<HostSection> for HostDescription {
    fn from(section: HostSection) -> Self {
        let text = |value| match value {
            SysctlValue::Number(number) => number.to_string(),
            SysctlValue::Text(text) => text,
        };
        HostDescription {
            congestion: section.congestion,
            sysctl: section.sysctl.into_iter().map(|(key, value)| (key, text(value))).collect(),
            run: section.run,
            forward: section.forward,
            initial_window: section.initial_window,
        }
    }
}

fn link(source: &Source<'_>, section: LinkSection, seed: Seed) -> Result<LinkDescription, TopologyError> {
    let kind = match (section.kind, section.link) {
        (Kind::Veth, None) => LinkKind::Direct,
        (Kind::Veth, Some(spec)) => {
            let problem = "a link of kind \"veth\" is not emulated; remove `kind` or `link`";
            return Err(source.error(Some(spec.span()), problem));
        }
        (Kind::Emulated, None) => {
            let problem = "`link` is missing: write what the link is like, as in \
                `link = { rate = \"32 Mbit/s\", delay = \"32 ms\" }`, or `kind = \"veth\"` for one that is not emulated";
            return Err(source.error(Some(section.between.span()), problem));
        }
        (Kind::Emulated, Some(spec)) => {
            let resolve = |direction| {
                let config = spec.get_ref().resolve(direction, seed, |file| source.load_trace(file));
                config.map_err(|error| source.error(Some(spec.span()), error.to_string()))
            };
            LinkKind::Emulated { up: resolve(Direction::Up)?, down: resolve(Direction::Down)? }
        }
    };
    let v4 = section.v4.map(|pair| interfaces(source, pair)).transpose()?;
    let v6 = section.v6.map(|pair| interfaces(source, pair)).transpose()?;
    let mtu = section.mtu.map_or(LinkDescription::DEFAULT_MTU, Spanned::into_inner);
    Ok(LinkDescription { between: section.between.into_inner(), kind, mtu, v4, v6 })
}

fn interfaces<T: FromStr>(source: &Source<'_>, pair: Spanned<[String; 2]>) -> Result<[T; 2], TopologyError> {
    let [first, second] = pair.get_ref();
    match (first.parse(), second.parse()) {
        (Ok(a), Ok(b)) => Ok([a, b]),
        (a, _) => {
            let wrong = if a.is_err() { first } else { second };
            let problem = format!(
                "`{wrong}` is not an address of this family with a prefix length, such as \"10.1.0.1/24\" or \"fd00:1::1/64\""
            );
            Err(source.error(Some(pair.span()), problem))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_link::{LossModel, Rate};
    use shorthaul_types::BitRate;
    use std::time::Duration;

    const HOSTS: &str = "[hosts.a]\n[hosts.b]\n";

    fn error(rest: &str) -> String {
        let text = format!("{HOSTS}{rest}");
        Topology::from_toml("lab.toml", &text).expect_err("this makes no sense").to_string()
    }

    #[test]
    fn both_directions_come_from_one_description() {
        let text = format!(
            "{HOSTS}[[links]]\nbetween = [\"a\", \"b\"]\n\
             link = {{ rate = \"8 Mbit/s\", delay = \"3 ms\", up = {{ rate = \"1 Mbit/s\", loss = \"1 %\" }} }}"
        );
        let topology = Topology::from_toml("lab.toml", &text).expect("a sound topology");
        let [link] = topology.links.as_slice() else { panic!("one link") };
        let (up, down) =
            (link.config(Direction::Up).expect("up"), link.config(Direction::Down).expect("down"));
        assert_eq!((up.delay, down.delay), (Duration::from_millis(3), Duration::from_millis(3)));
        assert_eq!(up.rate, Rate::Fixed(BitRate::from_bits_per_sec(1_000_000)));
        assert_eq!(down.rate, Rate::Fixed(BitRate::from_bits_per_sec(8_000_000)));
        assert_eq!((up.loss, down.loss), (LossModel::Bernoulli { probability: 0.01 }, LossModel::None));
        assert_eq!(link.mtu, 1500);
    }

    #[test]
    fn what_comes_with_the_program_is_sound() {
        for (name, about) in Topology::built_in() {
            let topology = Topology::load(name).unwrap_or_else(|error| panic!("{error}"));
            assert!(!about.is_empty());
            let plan = Plan::of(&topology).expect("a plan");
            assert!(plan.link("client", "gateway").is_some() && plan.link("gateway", "server").is_some());
        }
    }

    #[test]
    fn errors_name_file_line_text_and_remedy() {
        let says = |rest: &str, parts: &[&str]| {
            let error = error(rest);
            for part in ["lab.toml, line "].iter().chain(parts) {
                assert!(error.contains(part), "`{part}` is not in: {error}");
            }
        };
        says(
            "[[links]]\nbetween = [\"a\", \"c\"]\nkind = \"veth\"",
            &["line 4: `between", "no host `c`", "a, b"],
        );
        says("[[links]]\nbetween = [\"a\", \"a\"]\nkind = \"veth\"", &["line 4: `between", "to itself"]);
        says("[[links]]\nbetween = [\"a\", \"b\"]", &["line 4: `between", "`link` is missing", "32 Mbit/s"]);
        says(
            "[[links]]\nbetween = [\"a\", \"b\"]\nkind = \"veth\"\nlink = {}",
            &["line 6: `link = {}`", "not emulated"],
        );
        says(
            "[[links]]\nbetween = [\"a\", \"b\"]\nlink = { rate = \"32 Mbit\" }",
            &["line 5: `link", "`32 Mbit` is not a rate", "32 Mbit/s"],
        );
        says(
            "[[links]]\nbetween = [\"a\", \"b\"]\nlink = { dely = \"3 ms\" }",
            &["line 5: `link", "unknown field `dely`", "`delay`"],
        );
        says("[[links]]\nbetween = [\"a\", \"b\"]\nlink = {}\nmtu = 100", &["line 6: `mtu = 100`", "1280"]);
        says(
            "[[links]]\nbetween = [\"a\", \"b\"]\nlink = {}\nv4 = [\"10.0.0.1\", \"10.0.0.2/24\"]",
            &["line 6: `v4", "`10.0.0.1` is not", "10.1.0.1/24"],
        );
        says(
            "[[links]]\nbetween = [\"a\", \"b\"]\nlink = {}\nv6 = [\"fd00::1/64\", \"fd01::1/64\"]",
            &["line 6: `v6", "one network"],
        );
        says(
            "[[try]]\non = \"c\"\ncommand = \"true\"\nabout = \"\"",
            &["line 4: `on = ", "no host `c`", "a, b"],
        );
        says("[hosts.Gateway]", &["line 3: `[hosts.Gateway]`", "a-z"]);
        says("[hosts.c]\ncongstion = \"reno\"", &["line 4: `congstion", "`congestion`"]);
        says(
            "[[links]]\nbetween = [\"a\", \"b\"]\nlink = { rate = { trace = \"x\" } }",
            &["line 5", "trace"],
        );
    }

    #[test]
    fn a_file_that_is_not_there_leads_to_the_built_in_ones() {
        let error = Topology::load("no-such.toml").expect_err("no such file").to_string();
        assert!(error.starts_with("no-such.toml: ") && error.contains("halfway"), "{error}");
    }
}
