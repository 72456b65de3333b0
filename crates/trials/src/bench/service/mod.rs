//! Figure 6 of the proxy transport service on a node of ours: what sessions gain by it, against its service time, one and several at once.
//!
//! A node that does nothing else has a service time of microseconds. So its process is stopped and let go on, again and again, for as long each: what comes to it waits for a
//! quarter of that on average, and this is what its service time has to say.
mod site;

use crate::error::{Result, TrialError};
use crate::trial::{Judgement, Trial};
use serde_json::json;
use shorthaul_lab::Privilege;
use shorthaul_observe::Summary;
use shorthaul_os::ProcessorTime;
use shorthaul_report::plot::{Axis, Figure, Hue, Panel, Point, Series};
use shorthaul_report::{Column, Console, Manifest, Progress, Table, Unit, make_directory};
use shorthaul_types::{Bytes, format_duration};
use site::{Site, Way};
use std::path::PathBuf;
use std::time::Duration;

/// What sessions by a node gain, one and several at once, against its service time: Figure 6 of the proxy transport service, live
///
/// A client, a node half-way, and a server; windows bind, so that a session by the node is twice as fast as a direct one. The node's process is stopped and let go on for as
/// long each, which is what makes its service time. What it tells of that stands beside what it has to be. Needs root, or a host that allows user namespaces. The last line
/// is the result as JSON.
#[derive(clap::Args)]
pub struct Service {
    /// Sessions at once
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS", default_value = "1,4,16,64")]
    sessions: Vec<usize>,
    /// How long the node is stopped, in milliseconds, and then goes on for
    #[arg(long, value_delimiter = ',', value_name = "MS", default_value = "0,2,4,10,20,40,80,160")]
    stops: Vec<u64>,
    /// The round trip between client and server
    #[arg(long, value_name = "TIME", default_value = "160 ms", value_parser = shorthaul_types::parse_duration)]
    rtt: Duration,
    /// Receive buffers, of which about half is offered
    #[arg(long, value_name = "SIZE", default_value = "64 kB")]
    buffer: Bytes,
    /// Runs of each
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Seconds of each run, after one that is not counted
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    seconds: u64,
    /// Where results are kept
    #[arg(long, value_name = "DIR", default_value = "out/bench-service")]
    out: PathBuf,
}

/// A gain below this is none.
const GAINS: f64 = 1.05;
/// What a node tells of its service time may differ from what it has to be by this part of that, and by so much.
const TOLD: f64 = 0.5;
const AT_LEAST: f64 = 0.5e-3;
const WAYS: [Way; 2] = [Way::Plain, Way::Tls];

/// What came of a number of sessions by a node that is stopped for so long.
#[derive(Clone, Debug, serde::Serialize)]
struct Measured {
    way: &'static str,
    sessions: usize,
    /// How long the node is stopped each time, in seconds.
    stop: f64,
    /// Its service time as it tells it, and as it has to be, in seconds.
    told: f64,
    expected: f64,
    /// Bit/s of all sessions, of each run; and the same directly, by turns.
    by_node: Vec<f64>,
    direct: Vec<f64>,
}

impl Measured {
    fn gains(&self) -> Option<Summary> {
        Summary::of(self.by_node.iter().zip(&self.direct).map(|(by_node, direct)| by_node / direct))
    }

    fn gain(&self) -> f64 {
        self.gains().map_or(f64::NAN, |gains| gains.mean)
    }
}

impl Trial for Service {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        // First of all, while the process has a single thread: the kernel asks for that.
        Privilege::obtain()?;
        if self.sessions.is_empty() || self.sessions.contains(&0) || self.stops.is_empty() {
            return Err(TrialError::asked(
                "without sessions or stops nothing is measured: give --sessions 1,4 --stops 0,10",
            ));
        }
        make_directory(&self.out)?;
        let before = ProcessorTime::now();
        let mut site = Site::start(self.rtt, self.buffer, &self.out)?;
        let cells = WAYS.len() * self.sessions.len() * self.stops.len();
        let progress = Progress::begin(console, cells);
        let mut all = Vec::new();
        for way in WAYS {
            for &sessions in &self.sessions {
                for &stop in &self.stops {
                    let measured = self.measure(&mut site, way, sessions, Duration::from_millis(stop))?;
                    progress.step(&format!(
                        "{sessions} sessions, {}, stopped for {stop} ms: {:.2} times as fast as directly",
                        way.name(),
                        measured.gain()
                    ));
                    all.push(measured);
                }
            }
        }
        drop(progress);
        let late = site.late()?;
        let steal = before.zip(ProcessorTime::now()).map_or(0.0, |(then, now)| then.stolen_until(&now));
        self.verdict(&all, (late, steal), console)
    }
}

impl Service {
    /// By turns by the node and directly.
    fn measure(&self, site: &mut Site, way: Way, sessions: usize, stop: Duration) -> Result<Measured> {
        let time = Duration::from_secs(self.seconds);
        let mut measured = Measured {
            way: way.name(),
            sessions,
            stop: stop.as_secs_f64(),
            told: 0.0,
            expected: stop.as_secs_f64() / 4.0,
            by_node: Vec::new(),
            direct: Vec::new(),
        };
        for _ in 0..self.runs {
            let by_node = site.run(way, sessions, stop, time)?;
            measured.by_node.push(by_node.rate);
            measured.told += by_node.told / f64::from(self.runs);
            measured.direct.push(site.run(Way::Direct, sessions, Duration::ZERO, time)?.rate);
        }
        Ok(measured)
    }

    /// The shortest service time, as it has to be, at which nothing is gained any more; in seconds.
    fn lost_at<'a>(&self, all: impl Iterator<Item = &'a Measured>) -> Option<f64> {
        all.filter(|measured| measured.gain() < GAINS).map(|measured| measured.expected).reduce(f64::min)
    }

    fn verdict(
        &self,
        all: &[Measured],
        (late, steal): (Duration, f64),
        console: &dyn Console,
    ) -> Result<Judgement> {
        let right =
            ["sessions", "stopped for", "service time, told", "has to be", "directly", "by the node", "gain"];
        let mut table = Table::new([Column::left("links")].into_iter().chain(right.map(Column::right)));
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        for measured in all {
            let half = measured.gains().and_then(|gains| gains.confidence());
            table.row([
                measured.way.to_owned(),
                measured.sessions.to_string(),
                Unit::Seconds.format(measured.stop),
                Unit::Seconds.format(measured.told),
                Unit::Seconds.format(measured.expected),
                Unit::BitsPerSecond.format(mean(&measured.direct)),
                Unit::BitsPerSecond.format(mean(&measured.by_node)),
                half.map_or_else(
                    || format!("{:.2}", measured.gain()),
                    |half| format!("{:.2} ± {half:.2}", measured.gain()),
                ),
            ]);
        }
        console.table(&table);
        let leg = self.rtt / 2;
        let mut lost = Vec::new();
        for way in WAYS {
            for &sessions in &self.sessions {
                let of = |measured: &&Measured| measured.way == way.name() && measured.sessions == sessions;
                let at = self.lost_at(all.iter().filter(of));
                let said = at.map_or_else(
                    || "at none of these service times".to_owned(),
                    |at| {
                        format!(
                            "from a service time of {} on, {:.2} of a leg's round trip",
                            Unit::Seconds.format(at),
                            at / leg.as_secs_f64()
                        )
                    },
                );
                console.say(&format!("{sessions} sessions, {}: the gain is lost {said}.", way.name()));
                lost.push(json!({ "way": way.name(), "sessions": sessions, "lost_at": at, "of_leg": at.map(|at| at / leg.as_secs_f64()) }));
            }
        }
        let wrong: Vec<String> = all
            .iter()
            .filter(|measured| {
                (measured.told - measured.expected).abs() > AT_LEAST.max(TOLD * measured.expected)
            })
            .map(|measured| {
                format!(
                    "{} sessions, {}, stopped for {}: it tells {}, and should {}",
                    measured.sessions,
                    measured.way,
                    Unit::Seconds.format(measured.stop),
                    Unit::Seconds.format(measured.told),
                    Unit::Seconds.format(measured.expected)
                )
            })
            .collect();
        let manifest = Manifest::of_this_command();
        self.figure(all).save(&self.out.join("service"), &manifest)?;
        let json = json!({
            "rtt": self.rtt.as_secs_f64(), "buffer": self.buffer.0, "runs": self.runs, "seconds": self.seconds, "late_p99": late.as_secs_f64(), "steal": steal,
            "lost": lost, "each": all, "told_wrongly": wrong.len(),
        });
        Ok(Judgement::holds(json).unless((!wrong.is_empty()).then(|| wrong.join("; "))))
    }

    fn figure(&self, all: &[Measured]) -> Figure {
        let hues = [Hue::Blue, Hue::Orange, Hue::Green, Hue::Vermillion, Hue::Purple, Hue::Sky, Hue::Black];
        let panels = WAYS.map(|way| {
            let mut panel = Panel::new(way.name())
                .x(Axis::new("service time, as the node tells it", Unit::Seconds).from(0.0))
                .y(Axis::new("times as fast as directly", Unit::Times).from(0.0));
            for (&sessions, hue) in self.sessions.iter().zip(hues.iter().cycle()) {
                let of =
                    all.iter().filter(|measured| measured.way == way.name() && measured.sessions == sessions);
                let points = of.map(|measured| Point::new(measured.told, measured.gain()));
                panel = panel.series(Series::line(&format!("{sessions} at once"), *hue).points(points));
            }
            panel
        });
        let figure = Figure::new("Figure 6 live: what sessions gain by a node against its service time")
            .subtitle(&format!(
                "{} between client and server, the node half-way, receive buffers of {}",
                format_duration(self.rtt),
                self.buffer
            ))
            .caption("The node is stopped and let go on, for as long each.")
            .columns(2)
            .panel_height(120.0);
        panels.into_iter().fold(figure, Figure::panel)
    }
}
