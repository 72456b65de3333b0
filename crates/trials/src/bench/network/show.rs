//! What is found, as tables and pictures.
use super::breaks::{Part, loads};
use super::costs::Costs;
use super::outcome::{CAME, Figures, Spread};
use super::paper::Paper;
use super::scenario::Scenario;
use shorthaul_report::plot::{Axis, Figure, Hue, Panel, Series};
use shorthaul_report::{Column, Console, Table, TableCell, Tone, Unit};

/// What paper and simulation differ by is shown from here on.
pub const DIFFERS: f64 = 0.25;

const A_SECOND: Unit = Unit::Plain("/s");

/// A figure with what it is measured in.
type Row<'a> = (&'a str, &'a Spread, Unit);

/// What clients and nodes send, hear and keep.
pub fn traffic(console: &dyn Console, figures: &Figures) {
    let mut table = Table::new(
        [Column::left("of each client and node")]
            .into_iter()
            .chain(["mean", "middle", "99 of 100 below", "most"].map(Column::right)),
    );
    let rows: [Row<'_>; 12] = [
        ("a client's probes", &figures.probes_of_client, A_SECOND),
        ("its bytes, both ways", &figures.bytes_of_client, Unit::Plain("B/s")),
        ("its readings of the directory", &figures.reads_of_client, A_SECOND),
        ("destinations in its table", &figures.destinations_of_client, Unit::None),
        ("bytes of its table", &figures.table_bytes_of_client, Unit::Bytes),
        ("a node's probes", &figures.probes_of_node, A_SECOND),
        ("its bytes, both ways", &figures.bytes_of_node, Unit::Plain("B/s")),
        ("ways that it measures", &figures.measured_of_node, A_SECOND),
        ("targets in its table", &figures.ways_of_node, Unit::None),
        ("bytes of its tables", &figures.table_bytes_of_node, Unit::Bytes),
        ("its sessions", &figures.sessions_of_node, A_SECOND),
        ("probes of a destination's responder", &figures.probes_of_responder, A_SECOND),
    ];
    for (name, spread, unit) in rows {
        let cells = [spread.mean, spread.median, spread.p99, spread.most].map(|value| unit.format(value));
        table.row([name.to_owned()].into_iter().chain(cells));
    }
    console.table(&table);
    console.say(&format!(
        "the directory: {:.0} readings a second of {}, {} a second in all, {:.1} processors; {} of readings failed, the longest took {}; a client's list has {}",
        figures.reads,
        Unit::Bytes.format(figures.bytes_of_reading),
        Unit::Bytes.format(figures.bytes_read),
        figures.directory_processors,
        Unit::Percent.format(figures.failed_reads),
        Unit::Seconds.format(figures.longest_read),
        Unit::Bytes.format(figures.list_bytes_of_client),
    ));
}

/// What becomes of sessions, and of those who used a node that died.
pub fn sessions(console: &dyn Console, figures: &Figures) {
    let mut table = Table::new([Column::left("sessions"), Column::right("share")]);
    let said = [
        "by a node",
        "that waited for a dead node",
        "directly: nothing known of the way",
        "directly: no node answered",
        "directly: nodes do not know the way on",
        "directly: no known node gains enough",
        "directly: no node had told its way while that was worth waiting for",
    ];
    for ((_, share), name) in CAME.iter().zip(figures.came).zip(said) {
        table.row([name.to_owned(), Unit::Percent.format(share)]);
    }
    table.row([
        "that waited for the directory for more than a tenth of a second".to_owned(),
        Unit::Percent.format(figures.held_up),
    ]);
    table.rule();
    table.row([
        "within 5 % of the best node of all, or rightly direct".to_owned(),
        Unit::Percent.format(figures.best),
    ]);
    table.row(["by a node that is worse than that".to_owned(), Unit::Percent.format(figures.worse)]);
    table.row(["directly, though a node would gain".to_owned(), Unit::Percent.format(figures.missed)]);
    table.row(["slower than directly".to_owned(), Unit::Percent.format(figures.wrong)]);
    console.table(&table);
    console.say(&format!(
        "{} sessions a second, {:.2} times as fast as directly by what was expected, {:.2} by the best node; {} waited for a dead node in an hour, {:.0} had their node die meanwhile",
        figures.sessions.round(),
        figures.gain,
        figures.gain_of_best,
        figures.hurt.round(),
        figures.broken,
    ));
    let waited = [figures.looked.mean, figures.looked.p99, figures.looked.most];
    let [mean, p99, most] = waited.map(|seconds| Unit::Seconds.format(seconds));
    console.say(&format!(
        "a session that waits until nodes were looked for waits {mean} on average, 99 of 100 no longer than {p99}, and none longer than {most}",
    ));
    console.say(&format!(
        "a dead node is avoided after {:.0} s by half of those who used it, by 99 of 100 after {:.0} s, by all {} after {:.0} s",
        figures.avoided.median, figures.avoided.p99, figures.avoided_count, figures.avoided.most,
    ));
}

/// A quantity on paper and as it was simulated.
pub struct Beside {
    pub name: &'static str,
    pub paper: f64,
    pub simulated: f64,
    pub unit: Unit,
}

/// The quantities of which there are both.
pub fn beside(paper: &Paper, figures: &Figures) -> Vec<Beside> {
    let one = |name, paper, simulated, unit| Beside { name, paper, simulated, unit };
    vec![
        one(
            "destinations in a client's table",
            paper.destinations,
            figures.destinations_of_client.mean,
            Unit::None,
        ),
        one("looks of a client", paper.looks, figures.looks, A_SECOND),
        one("probes of a look", paper.probes_a_look, figures.probes_a_look, Unit::None),
        one("probes of a client", paper.probes_of_client, figures.probes_of_client.mean, A_SECOND),
        one("probes of a node", paper.probes_of_node, figures.probes_of_node.mean, A_SECOND),
        one("ways that a node does not know", paper.unknown, figures.unknown, Unit::Percent),
        one("readings of a client", paper.reads_of_client, figures.reads_of_client.mean, A_SECOND),
        one("bytes of the directory", paper.bytes_read, figures.bytes_read, Unit::Plain("B/s")),
        one("half avoid a dead node after", paper.avoided_median, figures.avoided.median, Unit::Seconds),
        one("99 of 100 after", paper.avoided_p99, figures.avoided.p99, Unit::Seconds),
    ]
}

/// Whether the two differ by more than they should.
pub fn differs(beside: &Beside) -> bool {
    let (paper, simulated) = (beside.paper, beside.simulated);
    paper.max(simulated) > 0.0 && (paper - simulated).abs() > DIFFERS * paper.max(simulated)
}

/// On paper, and as it was simulated.
pub fn on_paper(console: &dyn Console, all: &[Beside]) {
    let mut table = Table::new(
        [Column::left("")].into_iter().chain(["on paper", "simulated", "beside it"].map(Column::right)),
    );
    for one in all {
        let ratio = Unit::Times.format(one.simulated / one.paper);
        let ratio = if differs(one) { TableCell::toned(ratio, Tone::Bad) } else { ratio.into() };
        table.row([
            one.name.into(),
            one.unit.format(one.paper).into(),
            one.unit.format(one.simulated).into(),
            ratio,
        ]);
    }
    console.table(&table);
}

/// What is asked of each part, beside what it can.
pub fn parts(console: &dyn Console, figures: &Figures, scenario: &Scenario, costs: &Costs) {
    let mut table = Table::new([
        Column::left("what there is enough of"),
        Column::right("asked of it, beside what it can"),
    ]);
    for (part, load) in loads(figures, scenario, costs) {
        let tone = if load >= 1.0 { Tone::Bad } else { Tone::Plain };
        table.row([part.name().into(), TableCell::toned(Unit::Percent.format(load), tone)]);
    }
    console.table(&table);
}

/// What was found where one thing was more or less.
pub struct Swept<'a> {
    pub what: &'a str,
    pub runs: Vec<(f64, Scenario, Figures)>,
}

const HUES: [Hue; 7] =
    [Hue::Vermillion, Hue::Blue, Hue::Green, Hue::Orange, Hue::Purple, Hue::Sky, Hue::Black];

/// Loads of those parts that anything is asked of, and the shares of sessions.
pub fn picture(
    title: &str,
    times: &[f32],
    figures: &Figures,
    paper: &Paper,
    swept: &[Swept<'_>],
    costs: &Costs,
) -> Figure {
    let share = |label: &str| Axis::new(label, Unit::Percent).from(0.0).to(1.0);
    let mut sorted = times.to_vec();
    sorted.sort_by(f32::total_cmp);
    let step = (sorted.len() / 400).max(1);
    let all = sorted.len().max(1) as f64;
    let avoided = sorted
        .iter()
        .enumerate()
        .step_by(step)
        .map(|(at, seconds)| (f64::from(*seconds), (at + 1) as f64 / all));
    let on_paper = [(paper.avoided_median, 0.5), (paper.avoided_p99, 0.99)];
    let mut figure = Figure::new(title).columns(2).panel(
        Panel::new("A dead node is avoided by those who used it")
            .x(Axis::new("after its death", Unit::Seconds).from(0.0))
            .y(share("share of them"))
            .series(Series::line("simulated", Hue::Blue).points(avoided))
            .series(Series::dots("on paper", Hue::Vermillion).points(on_paper)),
    );
    let spreads = [
        ("a node's probes", &figures.probes_of_node, Hue::Blue),
        ("a responder's", &figures.probes_of_responder, Hue::Vermillion),
        ("ways that a node measures", &figures.measured_of_node, Hue::Green),
    ];
    let mut panel = Panel::new("What a host is asked")
        .x(Axis::categories("", ["mean", "99 of 100 below", "most"]))
        .y(Axis::new("a second", A_SECOND).logarithmic());
    for (name, spread, hue) in spreads {
        let points = [spread.mean, spread.p99, spread.most].into_iter().enumerate();
        panel = panel.series(Series::dots(name, hue).points(points.map(|(at, value)| (at as f64, value))));
    }
    figure = figure.panel(panel);
    for Swept { what, runs } in swept {
        let mut panel = Panel::new(&format!("More or fewer {what}: what is asked, beside what there is"))
            .x(Axis::new(&format!("{what}, beside the scenario's"), Unit::Times).logarithmic())
            .y(Axis::new("load", Unit::Times).logarithmic())
            .reference("all that there is", 1.0);
        let series = Part::ALL.iter().map(|part| {
            let points: Vec<(f64, f64)> = runs
                .iter()
                .map(|(factor, scenario, figures)| (*factor, part.load(figures, scenario, costs)))
                .collect();
            (part, points)
        });
        // What is asked of them most, and no more lines than can be told apart.
        let mut series: Vec<_> =
            series.filter(|(_, points)| points.iter().all(|(_, load)| *load > 1e-4)).collect();
        let most = |points: &[(f64, f64)]| points.iter().map(|(_, load)| *load).fold(0.0, f64::max);
        series.sort_by(|a, b| most(&b.1).total_cmp(&most(&a.1)));
        for ((part, points), hue) in series.into_iter().zip(HUES) {
            panel = panel.series(Series::line(part.name(), hue).points(points));
        }
        figure = figure.panel(panel);
        let of = |name: &str, hue: Hue, of: &dyn Fn(&Figures) -> f64| {
            Series::line(name, hue)
                .points(runs.iter().map(|(factor, _, figures)| (*factor, of(figures))).collect::<Vec<_>>())
        };
        figure = figure.panel(
            Panel::new(&format!("More or fewer {what}: what becomes of sessions"))
                .x(Axis::new(&format!("{what}, beside the scenario's"), Unit::Times).logarithmic())
                .y(share("share of sessions"))
                .series(of("by a node", Hue::Blue, &|figures| figures.came[0]))
                .series(of("nodes do not know the way on", Hue::Vermillion, &|figures| figures.came[4]))
                .series(of("no node is known in time, or answered", Hue::Orange, &|figures| {
                    figures.without_nodes()
                }))
                .series(of("waited for the directory", Hue::Black, &|figures| figures.held_up)),
        );
    }
    figure
}
