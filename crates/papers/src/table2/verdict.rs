//! For which link and work each idea pays: how long the work takes, beside what it takes with nothing between the ends.
use super::links::LINKS;
use super::measures::Board;
use super::rows::{ROWS, row};
use super::world::{Ends, Work};
use shorthaul_observe::Finding;
use shorthaul_report::plot::{Axis, Figure, Hue, Marker, Panel, Series};
use shorthaul_report::{Column, Table, TableCell, Tone, Unit};

/// A system pays where it saves this share of the time, and harms where it costs as much.
const MATTERS: f64 = 0.1;
/// What a gateway that does no harm may cost by chance.
pub(super) const HARMLESS: f64 = 1.05;

/// A line for each link and work, a column for each system: its time as a share of that with nothing between the ends.
pub(super) fn table(board: &Board, ends: Ends) -> Table {
    let first = [Column::left("link"), Column::left("work"), Column::right("with nothing")];
    let mut table = Table::new(first.into_iter().chain(ROWS[1..].iter().map(|row| Column::right(row.title))));
    for link in &LINKS {
        for work in Work::BOARD {
            let Some(whole) = board.fared(link.name, work, ends, ROWS[0].name).time else { continue };
            let mut line: Vec<TableCell> =
                vec![link.name.into(), work.name().into(), Unit::Seconds.format(whole).as_str().into()];
            line.extend(ROWS[1..].iter().map(|row| {
                let Some(share) = board.share(link.name, work, ends, row.name) else { return "–".into() };
                let tone = match share {
                    share if share <= 1.0 - MATTERS => Tone::Good,
                    share if share >= 1.0 + MATTERS => Tone::Bad,
                    _ => Tone::Quiet,
                };
                TableCell::toned(format!("{share:.2}"), tone)
            }));
            table.row(line);
        }
    }
    table
}

/// Where each system pays, and where it harms.
pub(super) fn where_it_pays(board: &Board, ends: Ends) -> Table {
    let headings = ["system", "pays (10 % sooner)", "best at", "harms (10 % later)"];
    let mut table = Table::new(headings.map(Column::left));
    for row in &ROWS[1..] {
        let places = shares(board, ends, row.name);
        if places.is_empty() {
            continue;
        }
        let named = |is_meant: &dyn Fn(f64) -> bool| {
            let names: Vec<String> = places
                .iter()
                .filter(|(_, share)| is_meant(*share))
                .map(|(place, share)| format!("{place} {share:.2}"))
                .collect();
            if names.is_empty() { "nowhere".to_owned() } else { names.join(", ") }
        };
        let best: Vec<String> = places
            .iter()
            .filter(|(place, share)| *share <= 1.0 - MATTERS && best_at(board, ends, place) == Some(row.name))
            .map(|(place, _)| place.clone())
            .collect();
        let best = if best.is_empty() { "nothing".to_owned() } else { best.join(", ") };
        let line = [
            row.title.to_owned(),
            named(&|share| share <= 1.0 - MATTERS),
            best,
            named(&|share| share >= 1.0 + MATTERS),
        ];
        table.row(line.iter().map(String::as_str));
    }
    table
}

/// The shares of a system's times, by `link work`.
fn shares(board: &Board, ends: Ends, name: &str) -> Vec<(String, f64)> {
    let places = LINKS.iter().flat_map(|link| Work::BOARD.map(|work| (link, work)));
    places
        .filter_map(|(link, work)| {
            let share = board.share(link.name, work, ends, name)?;
            Some((format!("{} {}", link.name, work.name()), share))
        })
        .collect()
}

/// Which system is the fastest there.
fn best_at(board: &Board, ends: Ends, place: &str) -> Option<&'static str> {
    let own = |name| shares(board, ends, name).into_iter().find(|(own, _)| own == place);
    let all = ROWS.iter().filter_map(|row| Some((row.name, own(row.name)?.1)));
    all.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, _)| name)
}

/// What the finding about the worst place is called.
pub(super) fn worst(system: &str, ends: Ends) -> String {
    format!("{system}, ends of {}: its time at the worst place", ends.name())
}

/// What the finding about a place is called where another system is ahead.
pub(super) fn behind_best(system: &str, ends: Ends, place: &str) -> String {
    format!("{system}, ends of {}: its time beside the best system's, {place}", ends.name())
}

/// What a system may take of the best one's time.
pub(super) const NEAR_BEST: f64 = 1.25;

/// What is asked of the gateway as it is when nothing is written: that nobody has to pick a system by link and work.
pub(super) fn findings(board: &Board) -> Vec<Finding> {
    let mut found = Vec::new();
    let Some(own) = row("auto") else { return found };
    for ends in Ends::ALL {
        let shares = shares(board, ends, own.name);
        let Some((place, most)) = shares.iter().max_by(|a, b| a.1.total_cmp(&b.1)) else { continue };
        found.push(
            Finding::number(
                worst(own.title, ends),
                "≤ 1.05 of that with nothing is asked",
                *most,
                Unit::None,
            )
            .at_most(HARMLESS)
            .because(place.clone()),
        );
        let mut behind = Vec::new();
        for (place, share) in &shares {
            let best = ROWS.iter().filter_map(|row| {
                let all = self::shares(board, ends, row.name);
                let (_, share) = all.into_iter().find(|(own, _)| own == place)?;
                Some((row.title, share))
            });
            let best = best.min_by(|a, b| a.1.total_cmp(&b.1));
            behind.extend(best.map(|(title, best)| (share / best, place, title)));
        }
        behind.sort_by(|a, b| b.0.total_cmp(&a.0));
        // Every place where it is too far behind, for each may have a cause of its own; the worst place if there is none.
        let too_far = behind.iter().filter(|(ratio, ..)| *ratio > NEAR_BEST).count();
        found.extend(behind.iter().take(too_far.max(1)).map(|(ratio, place, title)| {
            let what = behind_best(own.title, ends, place);
            Finding::number(what, "≤ 1.25 is asked", *ratio, Unit::None)
                .at_most(NEAR_BEST)
                .because(format!("behind {title}"))
        }));
    }
    found
}

/// The shares as dots, a panel for each kind of work.
pub(super) fn figure(board: &Board, ends: Ends) -> Figure {
    let title =
        format!("Time with each system, of that with nothing between the ends (ends of {})", ends.name());
    let mut figure = Figure::new(&title).caption("Below 1 is sooner. Means over the seeds.").columns(2);
    for work in Work::BOARD {
        let mut panel = Panel::new(work.name())
            .x(Axis::categories("", LINKS.iter().map(|link| link.name)))
            .y(Axis::new("share of the time", Unit::None).logarithmic());
        for (place, row) in ROWS[1..].iter().enumerate() {
            let dots = LINKS
                .iter()
                .enumerate()
                .filter_map(|(x, link)| Some((x as f64, board.share(link.name, work, ends, row.name)?)));
            let marker = if place < 7 { Marker::Circle } else { Marker::Triangle };
            panel = panel.series(Series::dots(row.title, Hue::nth(place)).marker(marker).points(dots));
        }
        figure = figure.panel(panel);
    }
    figure
}

#[cfg(test)]
mod tests {
    use super::super::measures::{Fared, Score};
    use super::*;

    #[test]
    fn a_system_pays_and_harms_at_every_place_where_it_does() {
        let score = |row, work: Work, time| Score {
            link: LINKS[0].name,
            work: work.name(),
            ends: Ends::Today.name(),
            row,
            fared: Fared { time: Some(time), ..Fared::default() },
        };
        let board = Board(vec![
            score("whole", Work::Pages, 100.0),
            score("snoop", Work::Pages, 20.0),
            score("auto", Work::Pages, 10.0),
            score("whole", Work::Download, 100.0),
            score("snoop", Work::Download, 200.0),
            score("auto", Work::Download, 95.0),
        ]);
        let table = where_it_pays(&board, Ends::Today).to_json().to_string();
        let has = |line: &[&str]| line.iter().all(|cell| table.contains(cell));
        assert!(has(&["gprs pages 0.20", "gprs download 2.00", "gprs pages 0.10"]), "{table}");
        assert!(!has(&["gprs download 0.95"]), "5 % do not matter: {table}");
    }

    #[test]
    fn every_place_is_found_where_another_system_is_too_far_ahead() {
        let score = |link, row, work: Work, time| Score {
            link,
            work: work.name(),
            ends: Ends::Today.name(),
            row,
            fared: Fared { time: Some(time), ..Fared::default() },
        };
        let behind = |times: &[(Work, f64)]| -> Vec<(String, String)> {
            let link = LINKS[1].name;
            let scores = times.iter().flat_map(|&(work, ratio)| {
                [("whole", 200.0), ("clamp", 100.0), ("auto", 100.0 * ratio)]
                    .map(|(row, time)| score(link, row, work, time))
            });
            findings(&Board(scores.collect()))
                .into_iter()
                .filter(|found| found.what.contains("beside the best"))
                .map(|found| (found.what.rsplit(", ").next().unwrap().to_owned(), found.reason))
                .collect()
        };
        let place = |work: Work| (format!("{} {}", LINKS[1].name, work.name()), "behind CLAMP".to_owned());
        let two = behind(&[(Work::Download, 1.3), (Work::Pages, 1.5), (Work::Users, 1.2)]);
        assert_eq!(two, [place(Work::Pages), place(Work::Download)], "the worst first");
        let none = behind(&[(Work::Download, 1.1), (Work::Pages, 1.2)]);
        assert_eq!(none, [place(Work::Pages)], "the worst, where it is near enough everywhere");
    }
}
