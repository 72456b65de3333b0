//! Table II of "Using TCP Flow-Aggregation to Enhance Data Experience of Cellular Wireless Users", measured: the systems that it
//! compares by ticks and crosses, on the same links, with the same work.
//!
//! Reading order: `rows` (the systems, and what the paper claims of them), `links`, `world` (the scenario of a link, a work and a
//! kind of ends, with a case for every system), `measures` (numbers out of runs), `aspects` (the paper's seven rows as numbers with
//! thresholds), `verdict` (where each idea pays), `headlines` (what each system's own paper claims first), `causes` (why what differs does), `live` (a part of it between kernels), `costs` (what a packet
//! costs a processor).
mod aspects;
mod causes;
mod costs;
mod headlines;
mod links;
mod live;
mod measures;
mod rows;
mod verdict;
mod world;

use crate::error::{Result, While};
use crate::experiment::{all_sound, records};
use crate::{All, Found, Paper, PaperError, fidelity};
use headlines::Headline;
use links::{GPRS, LINKS};
use measures::Board;
use rows::{ASPECTS, ROWS, Row};
use serde_json::json;
use shorthaul_lab::Privilege;
use shorthaul_live::Bounds;
use shorthaul_observe::{EngineName, Finding, Store};
use shorthaul_report::{Column, Console, Manifest, Page, Table, make_directory, write_file};
use shorthaul_sim::Simulator;
use std::path::{Path, PathBuf};
use world::{Ends, Place, Work};

/// What is run, and where the results go.
#[derive(clap::Args)]
pub struct Table2 {
    /// The directory for results and figures
    #[arg(long, default_value = "reproduce-table2")]
    out: PathBuf,
    /// How many seeds each point is run with, instead of three (five over GPRS)
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: Option<u32>,
    /// A single seed
    #[arg(long, conflicts_with = "repeats")]
    quick: bool,
    /// Only these places, such as gprs-download-then, and headlines, such as headline-snoop, or parts of their names
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only these systems, such as wtcp, beside nothing: what was run of the others is left out, and may be run later
    #[arg(long, value_name = "NAME")]
    system: Vec<String>,
    /// Also between this machine's kernels, in real time, with one seed: a part of it, or the places that are named by `--only`. Each
    /// run is kept in DIRECTORY/live when it is done; runs that are there are not done again
    #[arg(long)]
    live: bool,
    /// How many live runs at once
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64), requires = "live")]
    jobs: u16,
    /// Instead of all that, what a packet costs this machine's processor on the way with each system, beside forwarding: at three places, or at those
    /// that are named by `--only`. In costs.json, apart from results
    #[arg(long, conflicts_with_all = ["live", "repeats", "quick"])]
    costs: bool,
    #[command(flatten)]
    bounds: Bounds,
}

impl Paper for Table2 {
    const TITLE: &'static str = "Table II of TCP flow aggregation";

    fn whole(options: &All) -> Self {
        Table2 {
            out: options.directory("table2"),
            repeats: options.repeats(),
            quick: false,
            only: Vec::new(),
            system: Vec::new(),
            live: options.is_live("table2"),
            jobs: 4,
            costs: false,
            bounds: Bounds::default(),
        }
    }

    fn reproduce(&self, console: &dyn Console) -> Result<Vec<Found>, PaperError> {
        if self.live {
            // First of all, while the process has a single thread: the kernel asks for that.
            Privilege::obtain()?;
        }
        let places: Vec<Place> = places().into_iter().filter(|place| self.wants(place)).collect();
        if places.is_empty() && !headlines::all().iter().any(|headline| self.wants_headline(headline)) {
            let names: Vec<&str> = LINKS.iter().map(|link| link.name).collect();
            let why = format!("there is no such place or headline; links are {}", names.join(", "));
            return Err(PaperError::asked(why));
        }
        if self.costs {
            return self.measure_costs(&places, console);
        }
        let store = fidelity::store(&self.out)?;
        let scenarios = self.out.join("scenarios");
        make_directory(&scenarios)?;
        let rows = self.rows()?;
        let run = |name: &str, place: &Place, rows: &[&Row]| {
            let scored = self.run(name, place, rows, &store, &scenarios, console);
            scored.doing(format!("{name} cannot be run"))
        };
        let mut board = Board::default();
        for place in &places {
            board.0.extend(run(&place.name(), place, &rows)?.0);
        }
        let between_kernels = if self.live { Some(self.between_kernels(&places, console)?) } else { None };
        let mut findings = aspects::findings(&board);
        findings.extend(verdict::findings(&board));
        for headline in headlines::all().iter().filter(|headline| self.wants_headline(headline)) {
            findings.extend(headline.run(self.seeds(), &store, &scenarios, console)?);
        }
        let (findings, causes) = causes::explain(findings, &board, run)?;
        self.report(&board, findings, causes.as_ref(), between_kernels.as_ref(), console)
    }
}

/// Every link with every work, and over the paper's link what its table asks; with ends of then, and of today.
fn places() -> Vec<Place> {
    let mut places = Vec::new();
    for ends in Ends::ALL {
        for link in &LINKS {
            let asked: &[Work] = if link.name == GPRS { &Work::ASPECTS } else { &[] };
            let works = Work::BOARD.iter().chain(asked);
            places.extend(works.map(|&work| Place { link, work, ends }));
        }
    }
    places
}

impl Table2 {
    fn wants(&self, place: &Place) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| place.name().contains(part.as_str()))
    }

    /// Of all headlines, or of those that are named by a part of `headline-` and the name of their scenario; of a system, if that is named.
    fn wants_headline(&self, headline: &Headline) -> bool {
        let name = format!("headline-{}", headline.scenario);
        let is_named = self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()));
        is_named && (self.system.is_empty() || self.system.iter().any(|system| system == headline.row))
    }

    /// How many seeds are asked for.
    fn seeds(&self) -> Option<u32> {
        if self.quick { Some(1) } else { self.repeats }
    }

    /// The systems that are wanted, and nothing, which all are compared with.
    fn rows(&self) -> Result<Vec<&'static Row>> {
        if let Some(unknown) = self.system.iter().find(|name| rows::row(name).is_none()) {
            let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
            let why = format!("there is no system `{unknown}`; there are {}", names.join(", "));
            return Err(PaperError::asked(why));
        }
        let is_wanted = |(place, row): &(usize, &Row)| {
            *place == 0 || self.system.is_empty() || self.system.iter().any(|name| name == row.name)
        };
        Ok(ROWS.iter().enumerate().filter(is_wanted).map(|(_, row)| row).collect())
    }

    /// Links that are slow are cheap to simulate.
    fn repeats(&self, place: &Place) -> u32 {
        match self.seeds() {
            Some(repeats) => repeats,
            None if place.link.name.starts_with(GPRS) => 5,
            None => 3,
        }
    }

    fn run(
        &self,
        name: &str,
        place: &Place,
        rows: &[&Row],
        store: &Store,
        scenarios: &Path,
        console: &dyn Console,
    ) -> Result<Board> {
        let study = place.study(rows, self.repeats(place))?;
        write_file(&scenarios.join(format!("{name}.toml")), study.text())?;
        console.say(study.about());
        let records = all_sound(records(&Simulator::default(), &study, Some(store), console)?)?;
        Ok(Board(measures::scores(place, rows, &records)))
    }

    /// What a packet costs on the way. Nothing is found: times are of this machine.
    fn measure_costs(&self, places: &[Place], console: &dyn Console) -> Result<Vec<Found>, PaperError> {
        let is_usual =
            |place: &&Place| !self.only.is_empty() || costs::PLACES.contains(&place.name().as_str());
        let rows = self.rows()?;
        let mut measured = Vec::new();
        for place in places.iter().filter(is_usual) {
            measured.extend(costs::measure(place, &rows, console)?);
        }
        console.table(&costs::table(&measured));
        if cfg!(debug_assertions) {
            console.say("This is a debug build: what it takes says nothing of what is deployed.");
        }
        make_directory(&self.out)?;
        let results =
            json!({ "manifest": Manifest::of_this_command().seed(1), "measured on this machine": measured });
        write_file(&self.out.join("costs.json"), serde_json::to_string_pretty(&results)?)?;
        Ok(Vec::new())
    }

    /// A part of it between kernels.
    fn between_kernels(&self, places: &[Place], console: &dyn Console) -> Result<live::Measured> {
        let store = Store::open(&self.out.join("live"))?;
        let engine = shorthaul_live::Live { bounds: self.bounds.clone(), jobs: self.jobs.into() };
        let chosen: Vec<Place> =
            places.iter().filter(|place| !self.only.is_empty() || live::is_part(place)).copied().collect();
        live::measure(&engine, &chosen, &store, console)
    }

    /// Says what came of it, and writes it down.
    fn report(
        &self,
        board: &Board,
        findings: Vec<Finding>,
        causes: Option<&Table>,
        between_kernels: Option<&live::Measured>,
        console: &dyn Console,
    ) -> Result<Vec<Found>> {
        let manifest = Manifest::of_this_command().seed(1);
        let mut page = Page::new("Table II of TCP flow aggregation, measured", &manifest);
        Finding::show(&mut page, "What the paper claims, and what is asked, beside ours", &findings);
        if let Some(causes) = causes {
            page.table("Why it differs: what was taken away, and what came of it", causes);
        }
        page.table("The thresholds, stated before anything was run", &thresholds());
        for ends in Ends::ALL {
            if !board.0.iter().any(|score| score.ends == ends.name()) {
                continue;
            }
            let name = ends.name();
            let table = aspects::table(board, ends);
            console.say(&format!("\nTable II, measured over GPRS, ends of {name}:"));
            console.table(&table);
            page.heading(&format!("Ends of {name}")).table("Table II, measured over GPRS", &table);
            let table = verdict::table(board, ends);
            console
                .say(&format!("\nTimes as a share of those with nothing between the ends, ends of {name}:"));
            console.table(&table);
            page.table("Times as a share of those with nothing between the ends", &table);
            let table = verdict::where_it_pays(board, ends);
            page.table("Where each system pays, and where it harms", &table);
            let figure = verdict::figure(board, ends);
            page.figure(&figure);
            figure.save(&self.out.join(format!("times-{name}")), &manifest)?;
            page.table("All numbers", &numbers(board, ends));
        }
        console.say("\nWhat the paper claims, and what is asked, beside ours:");
        console.table(&Finding::table(&findings));
        let mut found = Found::by(EngineName::Sim, findings);
        if let Some(live) = between_kernels {
            let table = live.table(board);
            console.say("\nBetween kernels, beside the simulator: times of transfers, and their shares of those with nothing between the ends:");
            console.table(&table);
            page.table("Between kernels, beside the simulator", &table);
            page.remarks(&live.doubts);
            live.doubts.iter().for_each(|doubt| console.say(doubt));
            found.extend(live.found());
        }
        let live = between_kernels.map(|live| &live.board);
        let results = json!({ "manifest": manifest, "findings": found, "scores": board, "live": live });
        write_file(&self.out.join("results.json"), serde_json::to_string_pretty(&results)?)?;
        page.save(&self.out.join("report.html"))?;
        console.say(&format!("Results, figures and every scenario are in {}.", self.out.display()));
        Ok(found)
    }
}

fn thresholds() -> Table {
    let mut table = Table::new(["row of the table", "threshold"].map(Column::left));
    for (aspect, threshold) in ASPECTS.iter().zip(aspects::THRESHOLDS) {
        table.row([*aspect, threshold]);
    }
    table
}

/// All that was measured with ends of one kind.
fn numbers(board: &Board, ends: Ends) -> Table {
    use shorthaul_report::Unit;
    let left = ["link", "work", "system"].map(Column::left);
    let right = [
        "time",
        "goodput",
        "queue, mean",
        "queue, 95 %",
        "radio bytes a byte",
        "radio in use",
        "data after a hand-off",
        "sent again by ends",
        "RTOs",
        "found spurious",
        "Jain",
        "held at most",
        "at risk",
    ];
    let mut table = Table::new(left.into_iter().chain(right.map(Column::right)));
    for score in board.0.iter().filter(|score| score.ends == ends.name()) {
        let fared = &score.fared;
        let text = |value: Option<f64>, unit: Unit| value.map_or(String::new(), |value| unit.format(value));
        let title = rows::row(score.row).map_or(score.row, |row| row.title);
        let line = [
            score.link.to_owned(),
            score.work.to_owned(),
            title.to_owned(),
            text(fared.time, Unit::Seconds),
            text(fared.goodput, Unit::BitsPerSecond),
            text(fared.queue, Unit::Seconds),
            text(fared.queue_p95, Unit::Seconds),
            text(fared.radio, Unit::None),
            text(fared.active, Unit::Seconds),
            text(fared.hand_off, Unit::Seconds),
            text(fared.again, Unit::None),
            text(fared.timeouts, Unit::None),
            text(fared.spurious, Unit::None),
            text(fared.fairness, Unit::None),
            text(fared.held, Unit::Bytes),
            text(fared.at_risk, Unit::Bytes),
        ];
        table.row(line.iter().map(String::as_str));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_report::Silence;

    fn board(work: &[Work], ends: Ends) -> Board {
        let mut board = Board::default();
        for &work in work {
            let place = Place { link: links::link(GPRS), work, ends };
            let rows: Vec<&Row> = ROWS.iter().collect();
            let study = place.study(&rows, 1).unwrap();
            let records = all_sound(records(&Simulator::default(), &study, None, &Silence).unwrap()).unwrap();
            board.0.extend(measures::scores(&place, &rows, &records));
        }
        board
    }

    #[test]
    fn every_place_is_a_scenario_with_a_case_for_every_system() {
        let rows: Vec<&Row> = ROWS.iter().collect();
        for (place, engine) in places()
            .into_iter()
            .flat_map(|place| [EngineName::Sim, EngineName::Live].map(|engine| (place, engine)))
        {
            let study =
                place.study_for(engine, &rows, 1).unwrap_or_else(|error| panic!("{}: {error}", place.name()));
            assert_eq!(study.points().len(), ROWS.len(), "{}", place.name());
            for point in study.points() {
                study.scenario(point).unwrap_or_else(|error| panic!("{}: {error}", place.name()));
            }
        }
    }

    #[test]
    fn only_what_splits_and_answers_early_puts_bytes_at_risk() {
        let board = board(&[Work::Download], Ends::Then);
        let lost = |row| board.fared(GPRS, Work::Download, Ends::Then, row).at_risk.unwrap();
        for row in [
            "whole",
            "snoop",
            "fda",
            "delayed-duplicates",
            "ack-regulator",
            "westwood-plus",
            "m-tcp",
            "w-tcp",
            "wtcp",
        ] {
            assert!(lost(row) < 1.0, "{row}: {}", lost(row));
        }
        assert!(lost("i-tcp") > 10_000.0, "{}", lost("i-tcp"));
    }

    #[test]
    fn windows_that_fit_keep_the_queue_short_and_nothing_does_not() {
        let board = board(&[Work::Download], Ends::Then);
        let wait = |row| board.fared(GPRS, Work::Download, Ends::Then, row).queue.unwrap();
        let unloaded = links::link(GPRS).path_round_trip();
        assert!(
            wait("whole") > 2.0 * unloaded && wait("auto") < wait("whole") / 3.0,
            "{} {}",
            wait("whole"),
            wait("auto")
        );
    }

    #[test]
    fn the_papers_own_system_stands_beside_its_rivals_with_a_claim_in_every_cell() {
        let own = rows::row("aggregation").expect("the paper's eighth column");
        let [(_, told)] = (own.gateway)(links::link(GPRS)).try_into().expect("one policy");
        // A fifth above the 10 kB that the paper measured, and nothing that it does not have.
        for has in ["clamp = \"12000 B\"", "interactive = \"0 B\"", "pacing = false", "uplink = \"none\""] {
            assert!(told.contains(has), "{told}");
        }
        let board = board(&[Work::Download], Ends::Then);
        let found = aspects::findings(&board);
        let of = |aspect| found.iter().find(|found| found.what == aspects::title(own.title, aspect));
        // What a download alone is asked, by the registry: which ends it changes, its queue, and its semantics.
        let stated = [0, 1, 6].map(|aspect| of(ASPECTS[aspect]).map(|found| found.stated.as_str()));
        assert_eq!(stated, [Some("no"), Some("yes"), Some("mitigates")]);
        let wait = |row| board.fared(GPRS, Work::Download, Ends::Then, row).queue.unwrap();
        assert!(wait("aggregation") < wait("auto"), "{} {}", wait("aggregation"), wait("auto"));
        assert!(
            own.claims.is_some_and(|claims| claims[3] == rows::Claim::Yes && claims[5] == rows::Claim::Yes)
        );
    }

    #[test]
    fn ends_that_a_row_changes_are_counted_by_what_it_writes() {
        let changed = |name| rows::row(name).unwrap().ends_changed();
        assert_eq!(
            ["snoop", "fda", "aggregation", "auto", "westwood-plus", "freeze-tcp", "wtcp"].map(changed),
            [0, 0, 0, 0, 1, 1, 2]
        );
        let encrypted = |name| rows::row(name).unwrap().works_encrypted(links::link(GPRS));
        assert_eq!(["whole", "wtcp", "snoop", "i-tcp"].map(encrypted), [true, true, false, false]);
    }
}
