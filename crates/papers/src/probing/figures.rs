//! Figures 2 to 7, 9, 10 and 12 to 25: time and overhead against the error rate.
use super::measured::{Measured, Tables};
use super::paper::{PROTOCOLS, PaperCell, RATES, Stated};
use shorthaul_observe::Summary;
use shorthaul_report::Unit;
use shorthaul_report::plot::{Axis, Dash, Figure, Hue, Mark, Marker, Panel, Point, Series};

const CAPTION: &str = "Dots and solid lines: simulation, mean and 95 % confidence. Squares and dashed lines: the paper's tables.";

const SIMPLE: &[usize] = &[0, 1, 2, 3];
const ADAPTIVE: &[usize] = &[1, 3, 4];
const SELECTIVE: &[usize] = &[4, 5];

/// What a figure of the paper shows: its number, the on phase, the protocols, and whether time or overhead.
pub const FIGURES: [(u32, u32, &[usize], Shows); 22] = [
    (2, 1, SIMPLE, Shows::Time),
    (3, 3, SIMPLE, Shows::Time),
    (4, 4, SIMPLE, Shows::Time),
    (5, 1, SIMPLE, Shows::Overhead),
    (6, 3, SIMPLE, Shows::Overhead),
    (7, 4, SIMPLE, Shows::Overhead),
    (9, 1, ADAPTIVE, Shows::Time),
    (10, 2, ADAPTIVE, Shows::Time),
    (12, 3, ADAPTIVE, Shows::Time),
    (13, 4, ADAPTIVE, Shows::Time),
    (14, 1, ADAPTIVE, Shows::Overhead),
    (15, 2, ADAPTIVE, Shows::Overhead),
    (16, 3, ADAPTIVE, Shows::Overhead),
    (17, 4, ADAPTIVE, Shows::Overhead),
    (18, 1, SELECTIVE, Shows::Time),
    (19, 2, SELECTIVE, Shows::Time),
    (20, 3, SELECTIVE, Shows::Time),
    (21, 4, SELECTIVE, Shows::Time),
    (22, 1, SELECTIVE, Shows::Overhead),
    (23, 2, SELECTIVE, Shows::Overhead),
    (24, 3, SELECTIVE, Shows::Overhead),
    (25, 4, SELECTIVE, Shows::Overhead),
];

#[derive(Clone, Copy)]
pub enum Shows {
    /// Task completion time.
    Time,
    /// Overhead, in percent.
    Overhead,
}

impl Shows {
    /// Ours and the paper's.
    pub fn of<'a>(self, measured: &'a Measured, stated: &Stated) -> (&'a Summary, f64) {
        match self {
            Shows::Time => (&measured.time, stated.time),
            Shows::Overhead => (&measured.overhead, stated.overhead),
        }
    }

    fn axis(self) -> Axis {
        match self {
            Shows::Time => Axis::new("task completion time", Unit::Seconds).logarithmic(),
            Shows::Overhead => Axis::new("overhead", Unit::Plain("%")).from(0.0),
        }
    }
}

/// "Energy / throughput": the bytes that both hosts send for the task, against the time it takes; a dot for each error rate.
fn energy(tables: &Tables, on: u32) -> (String, Figure) {
    let title = format!("Energy and time, on/off phases of {on}/5 s");
    let mut panel = Panel::new("")
        .x(Axis::new("task completion time", Unit::Seconds).logarithmic())
        .y(Axis::new("sent by both hosts", Unit::Bytes));
    for (protocol, name) in PROTOCOLS.iter().enumerate() {
        let cells = RATES.iter().filter_map(|rate| tables.get(PaperCell { on, protocol, rate: *rate }));
        let points = cells.map(|(measured, _)| (measured.time.mean, measured.wire.mean));
        panel = panel.series(Series::new(name, Mark::LineAndDots, Hue::nth(protocol)).points(points));
    }
    let caption = "Simulation: means of all IP bytes with headers, probes and acknowledgments; 0, 1, 10, 20, 33, 50 and 99 % from left to right.";
    (format!("energy-{on}"), Figure::new(&title).caption(caption).panel(panel))
}

/// File names and figures.
pub fn all(tables: &Tables) -> Vec<(String, Figure)> {
    let energy = (1..=4).map(|on| energy(tables, on));
    FIGURES
        .iter()
        .map(|(number, on, protocols, shows)| {
            let what = match shows {
                Shows::Time => "task completion time",
                Shows::Overhead => "overhead",
            };
            let title = format!("Figure {number}: {what}, on/off phases of {on}/5 s");
            let names = RATES.map(|rate| format!("{rate} %"));
            let mut panel = Panel::new("").x(Axis::categories("error rate", names)).y(shows.axis());
            for (place, protocol) in protocols.iter().enumerate() {
                let cells = RATES.iter().enumerate().filter_map(|(x, rate)| {
                    let (measured, stated) =
                        tables.get(PaperCell { on: *on, protocol: *protocol, rate: *rate })?;
                    let (ours, papers) = shows.of(measured, stated);
                    let half = ours.confidence().unwrap_or(0.0);
                    let low = (ours.mean - half).max(ours.mean / 10.0);
                    Some((Point::new(x as f64, ours.mean).within(low, ours.mean + half), (x as f64, papers)))
                });
                let (ours, papers): (Vec<Point>, Vec<(f64, f64)>) = cells.unzip();
                let hue = Hue::nth(place);
                panel = panel
                    .series(Series::new(PROTOCOLS[*protocol], Mark::LineAndDots, hue).points(ours))
                    .series(
                        Series::new("", Mark::LineAndDots, hue)
                            .marker(Marker::Square)
                            .dash(Dash::Dashed)
                            .points(papers),
                    );
            }
            (format!("figure-{number}"), Figure::new(&title).caption(CAPTION).panel(panel))
        })
        .chain(energy)
        .collect()
}
