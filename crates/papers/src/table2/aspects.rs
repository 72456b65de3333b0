//! The seven rows of the paper's table, each a number with a threshold. The thresholds were stated before anything was run.
use super::links::{self, GPRS};
use super::measures::{Board, Fared};
use super::rows::{ASPECTS, Claim, ROWS, Row};
use super::world::{Ends, STALLS, Work};
use serde::Serialize;
use shorthaul_observe::Finding;
use shorthaul_report::{Column, Table, TableCell, Tone, Unit};

/// The start is fast if 18 kB take no more than this share of what they take with nothing between the ends.
pub(super) const START: f64 = 0.8;
/// Flows are treated fairly if Jain's index of two downloads that share the link is this at least.
pub(super) const FAIR: f64 = 0.95;
/// Stalls are handled if they cost at most this many times their own length, and if [`SPURIOUS`] holds.
const STALLED: f64 = 1.25;
/// The most retransmission timeouts of the sender in a stall. It loses no packet, so that each of them is spurious.
pub(super) const SPURIOUS: f64 = 1.0;
/// A disconnection is handled if data arrives within so many round trips of the unloaded path after it.
pub(super) const RESUMED: f64 = 2.0;

/// The thresholds in words, in the order of the table's rows.
pub(super) const THRESHOLDS: [&str; 7] = [
    "yes, if a scenario has to change the sender or the receiver",
    "yes, if packets of a download wait no longer than the unloaded round trip on average",
    "yes, if 18 kB take no more than 0.8 of what they take with nothing between the ends",
    "yes, if Jain's index of a download and one that joins it is 0.95 or more while both run",
    "yes, if stalls of 0.5 to 8 s that lose nothing cost a download no more than 1.25 of their length, and the sender no more than one RTO",
    "yes, if data arrives within two unloaded round trips after 15 s in which all was lost",
    "yes, if the sender is never told of a byte that the receiver does not have: none is lost with the box",
];

/// What came out for one cell of the paper's table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cell {
    /// The number, in words.
    pub ours: String,
    /// On which side of its threshold it is; none where it was not measured.
    pub yes: Option<bool>,
}

impl Cell {
    fn of(value: Option<f64>, show: impl Fn(f64) -> String, holds: impl Fn(f64) -> bool) -> Self {
        match value {
            Some(value) => Cell { ours: show(value), yes: Some(holds(value)) },
            None => Cell { ours: "not measured".into(), yes: None },
        }
    }
}

/// The seven rows of the paper's table for a system, measured over the paper's link.
pub(super) fn cells(board: &Board, row: &Row, ends: Ends) -> [Cell; 7] {
    let link = links::link(GPRS);
    let seconds = |value: f64| Unit::Seconds.format(value);
    let of = |work| board.fared(GPRS, work, ends, row.name);
    let alone = of(Work::Download);
    let changed = row.ends_changed();
    let stalled = stalled(&of(Work::Stalls), &alone);
    let lost = at_risk(board, ends, row.name);
    [
        Cell { ours: format!("{changed} of 2"), yes: Some(changed > 0) },
        Cell::of(alone.queue, seconds, |wait| wait <= link.path_round_trip()),
        Cell::of(
            board.share(GPRS, Work::Start, ends, row.name),
            |share| format!("{share:.2}"),
            |share| share <= START,
        ),
        Cell::of(of(Work::Joining).fairness, |index| format!("{index:.3}"), |index| index >= FAIR),
        match stalled {
            Some([share, spurious]) => Cell {
                ours: format!("{share:.2}, {spurious:.1} RTOs"),
                yes: Some(handles_stalls([share, spurious])),
            },
            None => Cell { ours: "not measured".into(), yes: None },
        },
        Cell::of(of(Work::Disconnection).resumed, seconds, |time| time <= RESUMED * link.path_round_trip()),
        Cell::of(lost, |bytes| Unit::Bytes.format(bytes), |bytes| bytes < 1.0),
    ]
}

/// The most that dies with the box, of a download and over a disconnection.
fn at_risk(board: &Board, ends: Ends, name: &str) -> Option<f64> {
    let of = |work| board.fared(GPRS, work, ends, name).at_risk;
    [of(Work::Download), of(Work::Disconnection)].into_iter().flatten().reduce(f64::max)
}

/// "Mitigates" the loss of the connection's semantics: less is at risk than with I-TCP, and where a FIN is acknowledged all has arrived. None
/// where it was not measured.
fn mitigates(board: &Board, ends: Ends, name: &str) -> Option<(String, bool)> {
    let [ours, i_tcp] = [name, "i-tcp"].map(|name| at_risk(board, ends, name));
    let (ours, i_tcp) = (ours?, i_tcp?);
    let of = |work| board.fared(GPRS, work, ends, name).fin_early;
    let fin = [of(Work::Download), of(Work::Disconnection)].into_iter().flatten().reduce(f64::max);
    let bytes = |bytes| Unit::Bytes.format(bytes);
    let fins =
        fin.map_or("no FIN was seen".to_owned(), |missing| format!("{} missing at a FIN", bytes(missing)));
    let said = format!("{} at risk, {} with I-TCP; {fins}", bytes(ours), bytes(i_tcp));
    Some((said, ours < i_tcp && fin.is_none_or(|missing| missing < 1.0)))
}

/// What stalls cost: time beyond that of a download without, as a share of their length; RTOs beyond those without.
pub(super) fn stalled(stalls: &Fared, alone: &Fared) -> Option<[f64; 2]> {
    let length: f64 = STALLS.iter().map(|(_, lasts)| lasts).sum();
    let time = (stalls.time? - alone.time?) / length;
    Some([time, (stalls.timeouts? - alone.timeouts?).max(0.0)])
}

/// Whether stalls are handled, by what they cost.
pub(super) fn handles_stalls([share, spurious]: [f64; 2]) -> bool {
    share <= STALLED && spurious <= SPURIOUS
}

/// What a finding about a row of the table is called.
pub(super) fn title(system: &str, aspect: &str) -> String {
    format!("{system}: {aspect}")
}

/// What the paper claims of each cell, beside ours.
pub(super) fn findings(board: &Board) -> Vec<Finding> {
    let mut found = Vec::new();
    for row in ROWS {
        let Some(claims) = row.claims else { continue };
        let cells = cells(board, row, Ends::Then);
        for ((aspect, claim), (cell, threshold)) in
            ASPECTS.iter().zip(claims).zip(cells.iter().zip(THRESHOLDS))
        {
            let Some(yes) = cell.yes else { continue };
            let what = title(row.title, aspect);
            let ours = format!("{}: {}", cell.ours, if yes { "yes" } else { "no" });
            found.push(match claim {
                Claim::Partly => match mitigates(board, Ends::Then, row.name) {
                    Some((ours, holds)) => Finding::judged(what, "mitigates", ours, holds)
                        .because("yes, if less is at risk than with I-TCP, and no FIN is acknowledged before all has arrived"),
                    None => Finding::shown(what, "mitigates", ours),
                },
                Claim::Yes | Claim::No => {
                    let (stated, holds) = if claim == Claim::Yes { ("yes", yes) } else { ("no", !yes) };
                    Finding::judged(what, stated, ours, holds).because(threshold)
                }
            });
        }
    }
    found
}

/// The paper's table, measured: a system a line, a row of the paper a column.
pub(super) fn table(board: &Board, ends: Ends) -> Table {
    let columns =
        [Column::left("system")].into_iter().chain(ASPECTS.iter().map(|aspect| Column::right(aspect)));
    let more = ["under IPsec", "held of a flow"].map(Column::right);
    let mut table = Table::new(columns.chain(more));
    let link = links::link(GPRS);
    for row in ROWS {
        let mut line = vec![TableCell::from(row.title)];
        for (place, cell) in cells(board, row, ends).into_iter().enumerate() {
            let claim = row.claims.map(|claims| claims[place]);
            let mark = match cell.yes {
                Some(true) => "✓ ",
                Some(false) => "✗ ",
                None => "",
            };
            let stated = match claim {
                Some(Claim::Yes) => " (paper ✓)",
                Some(Claim::No) => " (paper ✗)",
                Some(Claim::Partly) => " (paper: mitigates)",
                None => "",
            };
            let tone = match (cell.yes, claim) {
                (Some(true), Some(Claim::No)) | (Some(false), Some(Claim::Yes)) => Tone::Bad,
                (Some(_), Some(Claim::Yes | Claim::No)) => Tone::Good,
                _ => Tone::Quiet,
            };
            line.push(TableCell::toned(format!("{mark}{}{stated}", cell.ours), tone));
        }
        let held = board.fared(GPRS, Work::Download, ends, row.name).held;
        line.push(if row.works_encrypted(link) { "yes" } else { "no" }.into());
        line.push(held.map_or(String::new(), |held| Unit::Bytes.format(held)).as_str().into());
        table.row(line);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::measures::Score;
    use super::*;
    use crate::testing::holds;

    #[test]
    fn what_mitigates_is_judged_beside_i_tcp_and_by_its_fins() {
        let found = |auto: f64, i_tcp: f64, fin: Option<f64>| {
            let score = |row, at_risk, fin_early| Score {
                link: GPRS,
                work: Work::Download.name(),
                ends: Ends::Then.name(),
                row,
                fared: Fared { at_risk: Some(at_risk), fin_early, ..Fared::default() },
            };
            findings(&Board(vec![score("auto", auto, fin), score("i-tcp", i_tcp, Some(0.0))]))
        };
        let what = "(auto): connection semantics";
        assert!(holds(&found(115e3, 300e3, Some(0.0)), what) && holds(&found(115e3, 300e3, None), what));
        assert!(!holds(&found(300e3, 300e3, Some(0.0)), what), "as much is at risk");
        assert!(!holds(&found(115e3, 300e3, Some(5e3)), what), "a FIN is acknowledged early");
    }
}
