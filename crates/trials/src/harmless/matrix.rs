//! The cells of the matrix, and the scenario of each.
use super::figures::{self, Figures};
use super::runs::Cell;
use crate::direct_or_split::DirectOrSplit;
use crate::error::{Result, TrialError};
use serde::Deserialize;
use shorthaul_link::{Direction, LinkSpec};
use shorthaul_types::{Bytes, Seed};
use std::fmt::Write as _;
use std::time::Duration;

/// The project's own paths.
const OWN: &str = include_str!("paths.toml");
/// Connections of a page.
const PARALLEL: usize = 6;
/// A page begins this long after the start, as a part of the run: the start of a bulk transfer is over by then, mostly.
const FIRST_PAGE: f64 = 0.25;
/// It may be late by this part of the time between two pages.
const LATE: f64 = 0.5;
/// How often queues are looked at.
const EVERY: &str = "50 ms";

/// Congestion controls, with the profile of both ends.
const SERVERS: [(&str, &str); 4] =
    [("reno", "sack-reno"), ("cubic", "cubic"), ("bbr", "bbr"), ("bbr3", "bbr3")];

/// What the hosts do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// A download without an end, and pages.
    Bulk,
    /// Pages alone.
    Pages,
    /// An upload without an end, and pages.
    Upload,
    /// Fifty flows: four downloads and two uploads without an end, and 44 of three sizes.
    Mixed,
}

const WORK: [(Work, &str); 4] =
    [(Work::Bulk, "bulk"), (Work::Pages, "pages"), (Work::Upload, "upload"), (Work::Mixed, "mixed")];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    path: Vec<Path>,
}

/// A path, as the file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Path {
    pub name: String,
    /// For people who read the file.
    #[serde(rename = "about")]
    _about: String,
    access: toml::Table,
    wan: toml::Table,
    #[serde(default = "twenty")]
    seconds: u32,
    #[serde(default = "one")]
    every: f64,
    #[serde(default = "page")]
    page: Bytes,
    #[serde(default = "unit")]
    unit: Bytes,
    #[serde(default)]
    gain: Vec<Gain>,
}

/// What has to be kept.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Gain {
    server: String,
    work: String,
    pub of: Figure,
    /// This many times better than direct.
    pub at_least: f64,
}

/// What of a run counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Figure {
    Throughput,
    Page,
    Queue,
}

const fn twenty() -> u32 {
    20
}

const fn one() -> f64 {
    1.0
}

const fn page() -> Bytes {
    Bytes(30_000)
}

const fn unit() -> Bytes {
    Bytes(10_000)
}

/// A path, a server and a kind of work.
#[derive(Clone, Copy, Debug)]
pub(super) struct MatrixCell<'a> {
    pub path: &'a Path,
    server: (&'static str, &'static str),
    work: (Work, &'static str),
}

/// The project's own paths.
pub(super) fn own() -> Result<Vec<Path>> {
    read("paths.toml", OWN)
}

/// The paths of a file.
pub(super) fn read(name: &str, text: &str) -> Result<Vec<Path>> {
    let file: File = toml::from_str(text).map_err(|error| TrialError::asked(format!("{name}: {error}")))?;
    Ok(file.path)
}

/// All cells of these paths.
pub(super) fn cells(paths: &[Path]) -> Vec<MatrixCell<'_>> {
    let of = |path| {
        SERVERS.into_iter().flat_map(move |server| WORK.map(move |work| MatrixCell { path, server, work }))
    };
    paths.iter().flat_map(of).collect()
}

impl MatrixCell<'_> {
    /// What has to be kept here.
    pub fn gains(&self) -> impl Iterator<Item = &Gain> {
        let is_here = |gain: &&Gain| gain.server == self.server.0 && gain.work == self.work.1;
        self.path.gain.iter().filter(is_here)
    }

    /// The round trip of the path without any queue.
    pub fn round_trip(&self) -> Duration {
        let delays = |link: &toml::Table| -> Duration {
            let spec: Option<LinkSpec> = link.clone().try_into().ok();
            let of = |direction| {
                let spec = spec.as_ref()?;
                Some(spec.resolve(direction, Seed(1), |_| Err(String::new())).ok()?.delay)
            };
            [Direction::Up, Direction::Down].into_iter().filter_map(of).sum()
        };
        delays(&self.path.access) + delays(&self.path.wan)
    }

    fn flows(&self, seed: u64) -> Vec<String> {
        let Path { seconds, page, every, .. } = self.path;
        let mut flows = Vec::new();
        let mut flow = |name: &str, from: &str, rest: &str| {
            let to = if from == "server" { "phone" } else { "server" };
            let mut text = String::new();
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "[[flows]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nopened_by = \"phone\"\n{rest}\n"
            );
            flows.push(text);
        };
        let endless = format!("unlimited = \"{seconds} s\"");
        match self.work.0 {
            Work::Bulk => flow("bulk", "server", &endless),
            Work::Upload => flow("bulk", "phone", &endless),
            Work::Pages => {}
            Work::Mixed => {
                flow("down", "server", &format!("{endless}\ncount = 4\nspacing = \"exponential 200 ms\""));
                flow("up", "phone", &format!("{endless}\ncount = 2\nspacing = \"exponential 200 ms\""));
                // They come over two thirds of the run.
                for (name, times, count) in
                    [("page-small", 1, 20), ("page-middle", 5, 16), ("page-large", 25, 8)]
                {
                    let spacing = f64::from(*seconds) * 0.66 / f64::from(count);
                    let rest = format!(
                        "start = \"1 s\"\ncount = {count}\nspacing = \"exponential {} ms\"\ndownloads = {{ size = \"{} B\" }}",
                        (spacing * 1e3) as u64,
                        self.path.unit.0 * times,
                    );
                    flow(name, "server", &rest);
                }
            }
        }
        if self.work.0 != Work::Mixed {
            let first = FIRST_PAGE * f64::from(*seconds);
            // The last page has time to come.
            let count = ((f64::from(*seconds) * 0.9 - first) / every).floor().max(1.0) as u64;
            for number in 0..count {
                // When exactly a page begins is chance: a bulk transfer is here or there in its course then.
                let late = Seed(seed).derive("page").nth(number).0 as f64 / u64::MAX as f64 * LATE;
                let rest = format!(
                    "start = \"{} ms\"\ncount = {PARALLEL}\ndownloads = {{ size = \"{} B\" }}",
                    ((first + (number as f64 + late) * every) * 1e3) as u64,
                    page.0,
                );
                flow(&format!("page-{number}"), "server", &rest);
            }
        }
        flows
    }
}

impl Cell for MatrixCell<'_> {
    type Figures = Figures;
    const VERSION: &'static str = "1";

    fn name(&self) -> String {
        format!("{}/{}/{}", self.path.name, self.server.0, self.work.1)
    }

    fn scenario(&self, way: DirectOrSplit, with: &[String], seed: u64) -> String {
        let Path { access, wan, seconds, .. } = self.path;
        let (_, profile) = self.server;
        let gateway = match way {
            DirectOrSplit::Direct => "split = false".to_owned(),
            DirectOrSplit::Split => with.join("\n"),
        };
        let mut text = format!(
            "duration = \"{seconds} s\"\n\
             [hosts.phone]\nscheme = \"{profile}\"\n[hosts.server]\nscheme = \"{profile}\"\n\
             [gateways.gateway]\naccess = \"phone\"\n{gateway}\n\
             [[links]]\nbetween = [\"phone\", \"gateway\"]\nlink = {}\n\
             [[links]]\nbetween = [\"gateway\", \"server\"]\nlink = {}\n\
             [measure]\nseries = [\"queue-delay\"]\nevery = \"{EVERY}\"\n",
            toml::Value::Table(access.clone()),
            toml::Value::Table(wan.clone()),
        );
        for flow in self.flows(seed) {
            text.push_str(&flow);
        }
        text
    }

    fn run(&self, text: &str, seed: u64) -> Result<Figures, String> {
        figures::run(text, seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_makes_sense_and_gains_are_of_cells_that_there_are() {
        let paths = own().unwrap();
        assert!(paths.len() >= 14);
        let cells = cells(&paths);
        let mut gains = 0;
        for cell in &cells {
            cell.check(&[]).unwrap();
            assert!(cell.round_trip() > Duration::ZERO, "{}", cell.name());
            gains += cell.gains().count();
        }
        assert_eq!(gains, paths.iter().map(|path| path.gain.len()).sum::<usize>());
        assert_eq!(cells.len(), 16 * paths.len());
    }

    #[test]
    fn only_the_gateway_differs() {
        let paths = own().unwrap();
        let cell = cells(&paths)[0];
        let [direct, gateway] = [DirectOrSplit::Direct, DirectOrSplit::Split]
            .map(|way| cell.scenario(way, &["split = true".into()], 1));
        assert_eq!(direct.replace("split = false", ""), gateway.replace("split = true", ""));
    }

    #[test]
    fn the_round_trip_is_all_delays() {
        let text = "[[path]]\nname = \"a\"\nabout = \"\"\naccess = { delay = \"10 ms\", up = { delay = \"5 ms\" } }\nwan = { delay = \"1 ms\" }";
        let paths = read("a", text).unwrap();
        assert_eq!(cells(&paths)[0].round_trip(), Duration::from_millis(17));
        let said = read("a.toml", "[[path]]\nname = \"a\"").unwrap_err();
        assert!(said.to_string().starts_with("a.toml: ") && said.is_asked(), "{said}");
    }
}
