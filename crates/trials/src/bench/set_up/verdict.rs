use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use shorthaul_relay::Protection;
use shorthaul_relay::request::SetUp;
use shorthaul_report::plot::{Axis, Figure, Hue, Panel, Point, Series};
use shorthaul_report::{Column, Csv, Field, Manifest, ReportError, Table, Unit};
use shorthaul_types::format_duration;

use super::NODES;
use super::chain::{Ready, SessionKind, median};

/// What a chain of three nodes that are told in parallel, with connections ready, is to need at most: round trips.
const ASK: f64 = 1.6;
/// Directly (PTS-7).
const DIRECT: f64 = 1.5;
/// By a node half-way that is looked for first: 2 rtt + 1/2 rttX (PTS-7, less the service time).
const FOUND: f64 = 2.25;

/// Sessions of one kind.
pub struct Measured {
    nodes: usize,
    way: SessionKind,
    median: Duration,
    /// The least and the most, in round trips.
    range: [f64; 2],
    round_trips: f64,
}

impl Measured {
    pub fn new(nodes: usize, way: SessionKind, mut times: Vec<Duration>, rtt: Duration) -> Measured {
        times.sort_unstable();
        let trips = |time: Duration| time.as_secs_f64() / rtt.as_secs_f64();
        let range = [times.first(), times.last()].map(|time| time.copied().map_or(f64::NAN, trips));
        let median = median(times);
        Measured { nodes, way, median, range, round_trips: trips(median) }
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measured { nodes, way, round_trips, range: [least, most], .. } = self;
        write!(f, "{nodes} nodes, {way}: {round_trips:.2} round trips ({least:.2} to {most:.2})")
    }
}

/// All of them.
pub struct Results {
    /// The round trip of each path, by its number of nodes.
    pub rtt: Vec<Duration>,
    pub measured: Vec<Measured>,
}

impl Results {
    fn of(&self, nodes: usize, way: SessionKind) -> Option<&Measured> {
        self.measured.iter().find(|measured| measured.nodes == nodes && measured.way == way)
    }

    /// A row for each way, a column for each number of nodes.
    pub fn table(&self) -> Table {
        let mut columns = vec![Column::left("ready"), Column::left("links"), Column::left("nodes are told")];
        columns
            .extend(["no node", "one", "two", "three"].map(|nodes| Column::right(nodes).unit("round trips")));
        let mut table = Table::new(columns);
        let trips = |measured: &Measured| format!("{:.2}", measured.round_trips);
        let direct = self.measured.iter().find(|measured| measured.nodes == 0).map(trips);
        let mut first: Vec<String> = ["nothing", "plain", "–"].map(str::to_owned).to_vec();
        first.extend(direct);
        first.resize(4 + NODES, String::new());
        table.row(first);
        for way in super::ways(1) {
            let cells = (1..=NODES).map(|nodes| self.of(nodes, way).map_or("–".to_owned(), trips));
            let names = [way.ready(), way.protection(), way.set_up(), ""].map(str::to_owned);
            table.row(names.into_iter().chain(cells));
        }
        table
    }

    fn asked(&self, protection: Protection) -> Option<f64> {
        let way = SessionKind { protection, set_up: SetUp::Parallel, ready: Ready::Connections };
        self.of(NODES, way).map(|measured| measured.round_trips)
    }

    pub fn sentence(&self) -> String {
        let [plain, tls] =
            [Protection::Plain, Protection::Tls].map(|links| self.asked(links).unwrap_or(f64::NAN));
        let verdict = if self.is_met() { "met" } else { "NOT met" };
        format!(
            "Three nodes that are told in parallel, with connections ready: {plain:.2} round trips over plain TCP, {tls:.2} \
             over TLS. At most {ASK} are asked: {verdict}. PTS-7 states {DIRECT} directly, and {FOUND} by a node half-way that \
             is looked for first."
        )
    }

    fn is_met(&self) -> bool {
        let meets = |links: &Protection| self.asked(*links).is_some_and(|trips| trips <= ASK);
        [Protection::Plain, Protection::Tls].iter().all(meets)
    }

    pub fn csv(&self, manifest: &Manifest) -> Result<Csv, ReportError> {
        let columns =
            ["nodes", "links", "set_up", "ready", "rtt_s", "median_s", "round_trips", "least", "most"];
        let mut csv = Csv::new(manifest, &columns);
        for measured in &self.measured {
            csv.row([
                Field::from(measured.nodes as f64),
                Field::from(measured.way.protection()),
                Field::from(measured.way.set_up()),
                Field::from(measured.way.ready()),
                Field::from(self.rtt[measured.nodes].as_secs_f64()),
                Field::from(measured.median.as_secs_f64()),
                Field::from(measured.round_trips),
                Field::from(measured.range[0]),
                Field::from(measured.range[1]),
            ])?;
        }
        Ok(csv)
    }

    /// Round trips against nodes, for each way; what the paper states as lines across.
    pub fn figure(&self) -> Figure {
        let mut figure = Figure::new("Until the destination has the first byte")
            .subtitle(&format!(
                "chains of equal legs, {} in all; data right behind the request",
                format_duration(self.rtt.first().copied().unwrap_or_default())
            ))
            .caption("Medians. PTS: Proxy Transport Service, section 4, set-up time comparison.")
            .columns(2)
            .panel_height(130.0);
        for (ready, title) in [(Ready::Nothing, "nothing ready"), (Ready::Connections, "connections ready")] {
            let mut panel = Panel::new(title)
                .x(Axis::categories("nodes", (1..=NODES).map(|nodes| nodes.to_string())))
                .y(Axis::new("round trips", Unit::None).from(0.0).to(3.5))
                .reference("PTS, direct", DIRECT)
                .reference("PTS, one node found", FOUND);
            let kinds = [
                (Protection::Plain, SetUp::Parallel, Hue::Blue),
                (Protection::Plain, SetUp::Sequential, Hue::Sky),
                (Protection::Tls, SetUp::Parallel, Hue::Vermillion),
                (Protection::Tls, SetUp::Sequential, Hue::Orange),
            ];
            for (protection, set_up, hue) in kinds {
                let way = SessionKind { protection, set_up, ready };
                let points = (1..=NODES).filter_map(|nodes| {
                    let measured = self.of(nodes, way)?;
                    let [least, most] = measured.range;
                    Some(Point::new((nodes - 1) as f64, measured.round_trips).within(least, most))
                });
                let name = format!("{}, {}", way.protection(), way.set_up());
                panel = panel.series(Series::line(&name, hue).points(points));
            }
            figure = figure.panel(panel);
        }
        figure
    }

    pub fn json(&self, manifest: &Manifest) -> Value {
        let manifest: Value = serde_json::from_str(&manifest.to_json()).unwrap_or_default();
        let measured: Vec<Value> = self
            .measured
            .iter()
            .map(|measured| {
                json!({
                    "nodes": measured.nodes,
                    "links": measured.way.protection(),
                    "set_up": measured.way.set_up(),
                    "ready": measured.way.ready(),
                    "seconds": measured.median.as_secs_f64(),
                    "round_trips": measured.round_trips,
                    "least": measured.range[0],
                    "most": measured.range[1],
                })
            })
            .collect();
        json!({
            "manifest": manifest,
            "rtt": self.rtt.iter().map(Duration::as_secs_f64).collect::<Vec<_>>(),
            "measured": measured,
            "asked": ASK,
            "met": self.is_met(),
        })
    }
}
