//! All that the papers state in one table: `shorthaul reproduce all`.
//!
//! A row is a figure, a table or a claim of a paper: what is stated, what model, simulator and kernels say, and why they differ.
use crate::error::{PaperError, Result};
use crate::{Found, Papers};
use serde::{Deserialize, Serialize};
use serde_json::json;
use shorthaul_observe::{EngineName, Finding, Verdict};
use shorthaul_report::{Console, Manifest, Unit, write_file};
use shorthaul_sim::ENGINE;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Which engines, how often, and where the results go.
#[derive(clap::Args, Clone, Debug)]
pub struct All {
    /// The directory for results; what is in it is not run again
    #[arg(long, default_value = "reproduce-all")]
    out: PathBuf,
    /// How many seeds each point is run with, instead of the scenarios' own numbers
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: Option<u32>,
    /// Also between this machine's kernels, in real time: which of the papers, by the names of their commands, separated by commas.
    /// All that can are `aggregation,cascade,pte,table2`: an hour more, which hardly needs a processor
    #[arg(long, value_name = "PAPERS", value_delimiter = ',', value_parser = ["aggregation", "cascade", "pte", "table2"])]
    live: Vec<String>,
    /// Where the page goes [default: fidelity.md among the results]
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

/// A figure, a table or a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    pub paper: &'static str,
    pub item: String,
    pub stated: String,
    pub model: Option<String>,
    pub sim: Option<String>,
    pub live: Option<String>,
    pub difference: String,
    /// Which experiment shows why it differs, or `open`; what is to be known where it does not differ.
    pub cause: String,
    #[serde(skip)]
    pub differs: bool,
    /// It differs, and no experiment shows why.
    #[serde(skip)]
    pub is_open: bool,
}

impl All {
    /// The directory of a paper's results.
    pub(crate) fn directory(&self, paper: &str) -> PathBuf {
        self.out.join(paper)
    }

    /// How many seeds each point is run with, if not as the scenarios say.
    pub(crate) fn repeats(&self) -> Option<u32> {
        self.repeats
    }

    /// Whether kernels run what they can of a paper.
    pub(crate) fn is_live(&self, paper: &str) -> bool {
        self.live.iter().any(|own| own == paper)
    }

    /// Runs every paper, and writes the table.
    ///
    /// # Errors
    /// If an experiment could not be run, or its results not be written. What was done is not done again by the next command.
    pub(crate) fn reproduce(&self, console: &dyn Console) -> Result<Vec<Found>> {
        let papers = Papers::whole(self);
        let (count, began) = (papers.len(), Instant::now());
        let mut rows = Vec::new();
        let mut took = Took::before(&self.out);
        for (place, (name, paper)) in papers.into_iter().enumerate() {
            let minutes = began.elapsed().as_secs() / 60;
            console.note(&format!("{name}: paper {} of {count}, after {minutes} min", place + 1));
            let begun = Instant::now();
            rows.extend(rows_of(name, &paper.reproduce(console)?));
            took.add(name, begun.elapsed().as_secs_f64());
            took.keep(&self.out)?;
        }
        let page = self.page.clone().unwrap_or_else(|| self.out.join("fidelity.md"));
        let manifest = Manifest::of_this_command();
        write_file(&page, self.page_of(&rows, &took))?;
        let json = json!({ "manifest": manifest, "rows": rows });
        write_file(&page.with_extension("json"), serde_json::to_string_pretty(&json)?)?;
        console.say(&format!("{} The table is in {}.", counted(&rows), page.display()));
        Ok(Vec::new())
    }

    /// The page, in Markdown. Of each paper it says how long it took.
    fn page_of(&self, rows: &[Row], took: &Took) -> String {
        let repeats = match self.repeats {
            None => "each point with the number of seeds that its scenario names".to_owned(),
            Some(1) => "each point with a single seed".to_owned(),
            Some(seeds) => format!("each point with {seeds} seeds"),
        };
        let live = match self.live.as_slice() {
            [] => "Nothing was run live.".to_owned(),
            papers => format!("The column *live* is from kernels: of {}.", papers.join(", ")),
        };
        let mut page = format!(
            "# How true the papers are reproduced\n\nA row for each figure, table and claim of the five papers: what is stated beside what came \
             out. Written by `shorthaul reproduce all`, {repeats}. {live} *open*: no experiment shows the cause yet. What is asked of us, and not \
             stated by a paper, says so.\n\n{}\n\n{}\n",
            counted(rows),
            took.in_minutes()
        );
        let mut paper = "";
        for row in rows {
            if row.paper != paper {
                paper = row.paper;
                page += &format!(
                    "\n## {paper}\n\n| item | stated | model | sim | live | difference | cause |\n|---|---|---|---|---|---|---|\n"
                );
            }
            let or_dash = |text: &Option<String>| text.as_deref().unwrap_or("–").to_owned();
            let cells = [
                row.item.clone(),
                row.stated.clone(),
                or_dash(&row.model),
                or_dash(&row.sim),
                or_dash(&row.live),
                row.difference.clone(),
                row.cause.clone(),
            ];
            page += &format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
        }
        page
    }
}

fn counted(rows: &[Row]) -> String {
    let differing = rows.iter().filter(|row| row.differs).count();
    let open = rows.iter().filter(|row| row.is_open).count();
    format!("{} rows: {differing} differ, the cause of {open} of these is open.", rows.len())
}

/// The file of it, among the results.
const TOOK: &str = "took.json";

/// How long each paper took, in seconds: by all runs of this command that have worked on these results with the same engine, but for papers that were
/// interrupted. Who goes on has hardly anything left to do, and that is not what all of it takes.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Took {
    engine: String,
    seconds: BTreeMap<String, f64>,
}

impl Took {
    /// What is among the results; nothing where they are of another engine, whose runs are not taken over either.
    fn before(out: &Path) -> Took {
        let text = std::fs::read_to_string(out.join(TOOK)).unwrap_or_default();
        let known = serde_json::from_str(&text).ok().filter(|known: &Took| known.engine == ENGINE);
        known.unwrap_or_else(|| Took { engine: ENGINE.to_owned(), ..Took::default() })
    }

    fn add(&mut self, paper: &str, seconds: f64) {
        *self.seconds.entry(paper.to_owned()).or_default() += seconds;
    }

    fn keep(&self, out: &Path) -> Result<()> {
        Ok(write_file(&out.join(TOOK), serde_json::to_string_pretty(self)?)?)
    }

    fn in_minutes(&self) -> String {
        let minutes = |seconds: f64| format!("{:.0} min", seconds / 60.0);
        let each: Vec<String> =
            self.seconds.iter().map(|(name, seconds)| format!("{name} {}", minutes(*seconds))).collect();
        format!(
            "This command has taken {} with these results (what it had done of a paper when it was interrupted, and what the papers' own commands or earlier versions did, is not counted): {}.",
            minutes(self.seconds.values().sum()),
            each.join(", ")
        )
    }
}

/// Why a row has no model where no finding says one: the paper, how the item begins, and the reason. The first that fits holds.
const WITHOUT_MODEL: [(&str, &str, &str); 33] = [
    (
        "TCP flow aggregation",
        "Fig. 10",
        "two flows that begin at other times have no closed form beyond their shares",
    ),
    ("TCP flow aggregation", "Fig. 11", "it is looked for in a sweep"),
    (
        "TCP flow aggregation",
        "Fig. 12 and 3",
        "what a stall costs a transfer depends on its queue and its timer",
    ),
    ("TCP flow aggregation", "Fig. 12", "the timer is 1.5 round trips: a bound, and no time"),
    ("TCP flow aggregation", "Fig. 1", "what it measures is what the link model is told"),
    ("TCP flow aggregation", "Fig. 2", "the planner's slow start knows no wake-up and no bunching"),
    ("TCP flow aggregation", "Fig. 4", "two connections in a queue that fills have no closed form"),
    ("TCP flow aggregation", "Fig. 9", "the planner's times know no wake-up and no bunching"),
    ("TCP flow aggregation", "auto", "an estimator has none"),
    (
        "TCP flow aggregation",
        "outages of the uplink",
        "a silence lasts until a timer expires, and losses say which one",
    ),
    (
        "TCP flow aggregation",
        "§IV-B: an answer",
        "the shares by tickets say nothing of how long a turn is waited for",
    ),
    ("TCP flow aggregation", "", "nothing of the planner's is about it"),
    ("Cascaded TCP", "", "equations 1 to 9 know no such thing"),
    ("Probing devices", "", "there is no closed form of TCP over two hosts' phases of loss"),
    ("Path tail emulation", "Figure 3: bound", "it is the link alone"),
    ("Path tail emulation", "Figure 3", "a sender whose round trips are Pareto has no closed form"),
    ("Path tail emulation", "§5, 3a", "how senders of other round trips share a queue depends on its losses"),
    (
        "Path tail emulation",
        "§5, 3b: Jain",
        "how senders of other round trips share a queue depends on its losses",
    ),
    ("Path tail emulation", "§2, handover", "how long a window is closed depends on what was under way"),
    ("Path tail emulation", "§2, number 1", "how a window follows a queue is a rule, and no rate"),
    ("Path tail emulation", "§2, number 3", "how long a window is closed depends on what was under way"),
    (
        "Path tail emulation",
        "§2, number 4: wired",
        "what several senders lose in one queue depends on when they meet in it",
    ),
    ("Path tail emulation", "§2: the ACK Regulator", "what a drop costs depends on what was held back"),
    (
        "Path tail emulation",
        "§3, interruptions of 1 to 3 s: throughput",
        "a link that is away now and then has no rate of its own",
    ),
    (
        "Path tail emulation",
        "§5, 2: throughput",
        "the row of what the link carries has it; a sender's losses are not in that",
    ),
    ("Path tail emulation", "kernel's", "the planner's senders are not those of a kernel"),
    ("Path tail emulation", "", "a timer that expires is an event, and no rate"),
    (
        "Proxy transport service",
        "Fig. 2",
        "the paper has none; both windows double each round trip of their leg",
    ),
    ("Proxy transport service", "Fig. 3", "it is an event"),
    ("Proxy transport service", "Fig. 4", "it is the moment of a timeout after losses in a queue"),
    ("Proxy transport service", "", "the paper's inequality knows neither queues nor buffers"),
    (
        "Table II of TCP flow aggregation",
        "flow aggregation (auto), ends of",
        "it is what was measured where that is worst",
    ),
    ("Table II of TCP flow aggregation", "", "a threshold is asked of what was measured"),
];

/// The reason, in the words of the column.
fn without_model(paper: &str, item: &str) -> Option<String> {
    let is_its = |(own, begins, _): &&(&str, &str, &str)| *own == paper && item.starts_with(begins);
    WITHOUT_MODEL.iter().find(is_its).map(|(.., why)| format!("none: {why}"))
}

/// No experiment shows the cause.
const OPEN: &str = "open";

/// The rows of a paper: what it states, with what each engine found of it. What nobody states is left out.
pub(crate) fn rows_of(paper: &'static str, found: &[Found]) -> Vec<Row> {
    let mut items: Vec<&str> = Vec::new();
    for Found { finding, .. } in found.iter().filter(|found| !found.finding.stated.is_empty()) {
        if !items.contains(&finding.what.as_str()) {
            items.push(&finding.what);
        }
    }
    items.into_iter().map(|item| row(paper, item, found)).collect()
}

fn row(paper: &'static str, item: &str, found: &[Found]) -> Row {
    let is = |own: &Found, engine: EngineName| own.engine == engine && own.finding.what == item;
    let by = |engine: EngineName| found.iter().find(|own| is(own, engine)).map(|own| &own.finding);
    let (sim, live) = (by(EngineName::Sim), by(EngineName::Live));
    let both = || sim.into_iter().chain(live);
    let verdicts: Vec<(&str, &Finding)> = [("sim", sim), ("live", live)]
        .into_iter()
        .filter_map(|(engine, finding)| Some((engine, finding?)))
        .collect();
    let alike = verdicts.windows(2).all(|pair| in_words(pair[0].1) == in_words(pair[1].1));
    let difference = match (verdicts.as_slice(), alike) {
        ([], _) => "not run".to_owned(),
        ([(_, one), ..], true) => in_words(one),
        (several, false) => several
            .iter()
            .map(|(engine, finding)| format!("{engine}: {}", in_words(finding)))
            .collect::<Vec<_>>()
            .join("; "),
    };
    let differs = both().any(|finding| finding.verdict == Verdict::Differs);
    let known: Option<String> = both().find_map(|finding| finding.cause.clone());
    let note = both().map(|finding| finding.reason.clone()).find(|reason| !reason.is_empty());
    let is_open = differs && known.is_none();
    let cause = match (differs, known, note) {
        (true, Some(cause), _) => cause,
        (true, None, Some(note)) => format!("{OPEN}; {note}"),
        (true, None, None) => OPEN.to_owned(),
        (false, _, note) => note.unwrap_or_default(),
    };
    Row {
        paper,
        item: item.to_owned(),
        stated: both().next().map(|finding| finding.stated.clone()).unwrap_or_default(),
        model: both().find_map(|finding| finding.model.clone()).or_else(|| without_model(paper, item)),
        sim: sim.map(|finding| finding.ours.clone()),
        live: live.map(|finding| {
            match found.iter().find_map(|own| own.doubt.as_ref().filter(|_| is(own, EngineName::Live))) {
                Some(doubt) => format!("{} ({doubt})", finding.ours),
                None => finding.ours.clone(),
            }
        }),
        difference,
        cause,
        differs,
        is_open,
    }
}

fn in_words(finding: &Finding) -> String {
    match finding.difference() {
        Some(share) => {
            let sign = if share < 0.0 { "−" } else { "+" };
            format!("{}, {sign}{}", finding.verdict, Unit::Percent.format(share.abs()))
        }
        None => finding.verdict.to_string(),
    }
}

/// A store of runs among the results of a paper.
pub(crate) fn store(out: &Path) -> Result<shorthaul_observe::Store> {
    shorthaul_observe::Store::open(&out.join("runs")).map_err(PaperError::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(engine: EngineName, finding: Finding) -> Found {
        Found { engine, finding, doubt: None }
    }

    #[test]
    fn a_row_has_what_each_engine_says() {
        let number = |value: f64| Finding::number("gain", "2", value, Unit::Times).within(0.1, 2.0);
        let rows = rows_of(
            "a paper",
            &[
                found(EngineName::Sim, number(2.1).model("1.90 times")),
                found(EngineName::Live, number(3.0)),
                found(EngineName::Sim, Finding::shown("nobody states it", "", "7")),
            ],
        );
        assert_eq!(rows.len(), 1, "{rows:?}");
        let row = &rows[0];
        assert_eq!(row.model.as_deref(), Some("1.90 times"));
        assert!(row.sim.is_some() && row.live.is_some() && row.differs);
        assert_eq!(row.cause, OPEN);
        assert!(
            row.difference.starts_with("sim: holds") && row.difference.contains("live: differs"),
            "{row:?}"
        );
        let known = number(3.0).explained("a queue: experiment 7", true);
        let row = &rows_of("a paper", &[found(EngineName::Sim, known)])[0];
        assert_eq!((row.cause.as_str(), row.live.as_deref()), ("a queue: experiment 7", None));
        let doubtful =
            Found { doubt: Some("1 of 3 runs".to_owned()), ..found(EngineName::Live, number(3.0)) };
        let live = rows_of("a paper", &[doubtful])[0].live.clone();
        assert!(live.is_some_and(|live| live.ends_with("(1 of 3 runs)")));
        let noted = &rows_of("a paper", &[found(EngineName::Sim, number(3.0).because("a note"))])[0];
        assert!(noted.cause == "open; a note" && noted.is_open && !row.is_open, "{noted:?}");
        let held = number(2.0).because("as it should");
        assert_eq!(rows_of("a paper", &[found(EngineName::Sim, held)])[0].cause, "as it should");
    }

    #[test]
    fn a_row_without_a_model_says_why() {
        let model = |paper, item: &str| {
            rows_of(paper, &[found(EngineName::Sim, Finding::judged(item, "yes", "yes", true))])[0]
                .model
                .clone()
        };
        let why = |paper, item| model(paper, item).unwrap_or_default();
        assert!(why("Probing devices", "Fig. 5").starts_with("none: there is no closed form"));
        assert!(why("TCP flow aggregation", "auto: round trips").contains("estimator"));
        assert!(why("TCP flow aggregation", "Fig. 12: a stall").contains("timer"), "not that of Fig. 1");
        assert!(!why("TCP flow aggregation", "outages of the uplink alone, auto").contains("two flows"));
        assert!(why("Table II of TCP flow aggregation", "I-TCP: fast start-up").contains("threshold"));
        assert_eq!(model("a paper", "Fig. 1"), None);
        let papers = [
            "TCP flow aggregation",
            "Cascaded TCP",
            "Probing devices",
            "Path tail emulation",
            "Proxy transport service",
            "Table II of TCP flow aggregation",
        ];
        assert!(papers.iter().all(|paper| model(paper, "anything").is_some()));
    }

    #[test]
    fn who_goes_on_adds_to_what_it_took_and_another_engine_begins_anew() {
        let out = std::env::temp_dir().join(format!("shorthaul-took-{}", std::process::id()));
        std::fs::create_dir_all(&out).unwrap();
        let mut took = Took::before(&out);
        took.add("a paper", 60.0);
        took.keep(&out).unwrap();
        let mut again = Took::before(&out);
        again.add("a paper", 3.0);
        assert_eq!(again.seconds["a paper"], 63.0);
        Took { engine: "another".to_owned(), ..again }.keep(&out).unwrap();
        assert_eq!(Took::before(&out).seconds, BTreeMap::new());
        std::fs::remove_dir_all(out).unwrap();
    }

    #[test]
    fn the_page_has_a_line_for_each_row_and_counts_what_differs() {
        let all = All { out: "x".into(), repeats: Some(3), live: Vec::new(), page: None };
        let rows = rows_of(
            "a paper",
            &[
                found(EngineName::Sim, Finding::judged("a|b", "yes", "no", false)),
                found(EngineName::Sim, Finding::judged("c", "yes", "yes", true)),
            ],
        );
        let mut took = Took::default();
        for (name, time) in [("a paper", 120.0), ("another", 3_600.0), ("a paper", 60.0)] {
            took.add(name, time);
        }
        let page = all.page_of(&rows, &took);
        assert!(page.contains("has taken 63 min") && page.contains("another 60 min."), "{page}");
        assert!(page.contains("with 3 seeds") && page.contains("2 rows: 1 differ, the cause of 1"), "{page}");
        assert!(page.contains("| a\\|b | yes | – | no | – | differs | open |"), "{page}");
        assert!(page.contains("| c | yes | – | yes | – | holds |  |"), "{page}");
    }
}
