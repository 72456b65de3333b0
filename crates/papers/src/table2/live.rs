//! A part of the board between kernels, beside the simulator.
//!
//! What changes no end, or only what stands on the way, meets the kernel's own TCP at both ends. Systems that change ends have our
//! own TCP at both, live; what is known by a gateway's clock is left out ([`Row::runs_live`]).
use super::aspects;
use super::measures::{self, Board};
use super::rows::{self, ASPECTS, ROWS, Row};
use super::world::Place;
use crate::Found;
use crate::error::{Result, While};
use crate::experiment::records;
use shorthaul_live::Live;
use shorthaul_observe::{EngineName, Store};
use shorthaul_report::{Column, Console, Table, Unit};

/// What is measured live where no places are named: two minutes each at most, and one of each kind.
const PART: [&str; 4] =
    ["gprs-start-then", "random-loss-download-then", "lte-pages-today", "hand-off-lossy-upload-today"];

/// Whether a place is measured live where none is named.
pub(super) fn is_part(place: &Place) -> bool {
    PART.contains(&place.name().as_str())
}

/// What kernels came to.
pub(super) struct Measured {
    pub board: Board,
    /// Where runs are not to be trusted, or could not be.
    pub doubts: Vec<String>,
    runs: usize,
    doubtful: usize,
}

/// Runs these places between kernels, with one seed.
pub(super) fn measure(
    live: &Live,
    places: &[Place],
    store: &Store,
    console: &dyn Console,
) -> Result<Measured> {
    let rows: Vec<&Row> = ROWS.iter().filter(|row| row.runs_live()).collect();
    let mut measured = Measured { board: Board::default(), doubts: Vec::new(), runs: 0, doubtful: 0 };
    for place in places {
        let study = place.study_for(EngineName::Live, &rows, 1)?;
        console.say(&format!("{}, live", study.about()));
        let records =
            records(live, &study, Some(store), console).doing(format!("{} cannot be run", place.name()))?;
        measured.runs += records.len();
        for record in &records {
            let Some(failure) = &record.failure else { continue };
            let case = record.case.as_deref().unwrap_or_default();
            measured.doubts.push(format!("{} {case}, live: {failure}", place.name()));
            measured.doubtful += 1;
        }
        measured.board.0.extend(measures::scores(place, &rows, &records));
    }
    Ok(measured)
}

impl Measured {
    /// A line for each place and system: times, and shares of those with nothing between the ends.
    pub(super) fn table(&self, simulated: &Board) -> Table {
        let right = ["sim", "live", "sim, of nothing", "live, of nothing", "queue: sim", "live"];
        let left = ["place", "system"].map(Column::left);
        let mut table = Table::new(left.into_iter().chain(right.map(Column::right)));
        for score in &self.board.0 {
            let same = |board: &Board, row: &str| {
                let is_same = |own: &&measures::Score| {
                    (own.link, own.work, own.ends, own.row) == (score.link, score.work, score.ends, row)
                };
                board.0.iter().find(is_same).map(|own| own.fared.clone()).unwrap_or_default()
            };
            let share = |board: &Board| {
                let (own, whole) = (same(board, score.row).time?, same(board, ROWS[0].name).time?);
                Some(own / whole)
            };
            let seconds =
                |value: Option<f64>| value.map_or("–".to_owned(), |value| Unit::Seconds.format(value));
            let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.2}"));
            let sim = same(simulated, score.row);
            let line = [
                format!("{}-{}-{}", score.link, score.work, score.ends),
                rows::row(score.row).map_or(score.row, |row| row.title).to_owned(),
                seconds(sim.time),
                seconds(score.fared.time),
                number(share(simulated)),
                number(share(&self.board)),
                seconds(sim.queue),
                seconds(score.fared.queue),
            ];
            table.row(line.iter().map(String::as_str));
        }
        table
    }

    /// What the paper claims beside what kernels came to, of what they were asked.
    pub(super) fn found(&self) -> Vec<Found> {
        let doubt = (self.doubtful > 0)
            .then(|| format!("{} of {} runs are not to be trusted", self.doubtful, self.runs));
        // Which ends a system changes is read off its scenario, whoever runs it.
        let read_off: Vec<String> = ROWS.iter().map(|row| aspects::title(row.title, ASPECTS[0])).collect();
        let findings = aspects::findings(&self.board).into_iter().filter(|own| !read_off.contains(&own.what));
        findings.map(|finding| Found { engine: EngineName::Live, finding, doubt: doubt.clone() }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::measures::{Fared, Score};
    use super::super::places;
    use super::super::world::Ends;
    use super::*;

    #[test]
    fn every_part_is_a_place_and_every_system_but_what_knows_the_future_can_be_there() {
        assert_eq!(places().iter().filter(|place| is_part(place)).count(), PART.len());
        let left_out: Vec<&str> = ROWS.iter().filter(|row| !row.runs_live()).map(|row| row.name).collect();
        assert_eq!(left_out, ["freeze-tcp", "freeze-tcp-persist"]);
    }

    #[test]
    fn kernels_are_asked_for_nothing_that_they_are_not() {
        let place = places().into_iter().find(|place| place.ends == Ends::Then).unwrap();
        let rows: Vec<&Row> = ROWS.iter().filter(|row| row.runs_live()).collect();
        let study = place.study_for(EngineName::Live, &rows, 1).unwrap();
        for line in study.text().lines().filter(|line| line.contains("scheme")) {
            assert_eq!(line.contains("ack = "), line.contains("stack = \"own\""), "{line}");
        }
    }

    #[test]
    fn what_was_not_measured_is_neither_found_nor_a_number() {
        let score = |row, fared| Score { link: "gprs", work: "start", ends: "then", row, fared };
        let fared = |time| Fared { time: Some(time), ..Fared::default() };
        let board = Board(vec![
            score("whole", fared(10.0)),
            score("auto", fared(7.0)),
            score("snoop", Fared::default()),
        ]);
        let measured = Measured { board, doubts: Vec::new(), runs: 3, doubtful: 1 };
        let found = measured.found();
        let [one] = found.as_slice() else { panic!("{found:?}") };
        assert!(one.finding.what.contains("auto") && one.finding.ours.contains("0.70"), "{one:?}");
        assert_eq!(one.doubt.as_deref(), Some("1 of 3 runs are not to be trusted"));
    }
}
