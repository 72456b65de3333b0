//! What a packet costs the processor on the way, with each system: the gateways of a simulated run are given the same packets again, by
//! themselves, and their thread's processor time is read before and after. Beside forwarding by the same gateway, on the same machine.
//!
//! Times are of one machine and one moment: they are kept apart from what a run comes to, which is the same everywhere.
use super::rows::{Row, UNTOLD, row};
use super::world::Place;
use crate::error::{PaperError, Result};
use serde::Serialize;
use shorthaul_os::clock;
use shorthaul_report::{Column, Console, Table, Unit};
use shorthaul_scenario::Study;
use shorthaul_sim::{Handled, simulate_noting};
use std::time::Duration;

/// Each system's packets are handled so often; the least counts, for whatever else the machine does only adds to it.
const TIMES: u32 = 9;
/// In one measurement so many packets are handled at least, so that the clock's resolution is nothing beside it.
const PACKETS: u64 = 50_000;

/// Where it is measured if no places are named: few losses and one connection, a queue, and many users.
pub(super) const PLACES: [&str; 3] = ["random-loss-download-then", "lte-download-today", "lte-users-today"];

/// The gateway, which lets everything pass: what the others are compared with.
static FORWARDING: Row = Row {
    name: "forwarding",
    title: "forwarding",
    gateway: |_| vec![("policy", "[{ mode = \"pass\" }]".into())],
    ..UNTOLD
};

/// What a system costs at a place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Cost {
    place: String,
    row: &'static str,
    /// Packets that its gateways were given, each counted at each gateway, and their bytes.
    packets: u64,
    bytes: u64,
    /// Processor time for a packet, in nanoseconds.
    nanos: f64,
    /// As a share of that of forwarding.
    of_forwarding: f64,
}

/// The systems of which anything stands on the way, forwarding first. What changes ends alone costs nothing there.
fn on_the_way(place: &Place, wanted: &[&'static Row]) -> Vec<&'static Row> {
    let stands = |row: &&&'static Row| !row.works_encrypted(place.link) || row.mobile.is_some();
    [&FORWARDING].into_iter().chain(wanted.iter().filter(stands).copied()).collect()
}

/// Measures the wanted systems at a place, in turns.
pub(super) fn measure(place: &Place, wanted: &[&'static Row], console: &dyn Console) -> Result<Vec<Cost>> {
    let rows = on_the_way(place, wanted);
    let study = place.study(&rows, 1)?;
    console.say(&format!("{}: what a packet costs", study.about()));
    let mut all = Vec::new();
    for row in rows {
        let handled = noted(&study, row)?;
        // Where many users are, nothing stands before each.
        if given(&handled).0 > 0 {
            all.push((row, handled));
        }
    }
    let mut least = vec![Duration::MAX; all.len()];
    for _ in 0..TIMES {
        for (least, (_, handled)) in least.iter_mut().zip(&all) {
            *least = (*least).min(once(handled));
        }
    }
    let rows: Vec<&'static Row> = all.iter().map(|(row, _)| *row).collect();
    let given: Vec<(u64, u64)> = all.iter().map(|(_, handled)| given(handled)).collect();
    Ok(shares(&place.name(), &rows, &given, &least))
}

/// What the gateways are given in a run with this system. Points are not in the order of the systems.
fn noted(study: &Study, row: &Row) -> Result<Vec<Handled>> {
    let named = study.points().iter().find(|point| point.case.as_deref() == Some(row.name));
    let point =
        named.ok_or_else(|| PaperError::failed(format!("{} has no case {}", study.name(), row.name)))?;
    let seed = study.seeds().next().unwrap_or(1);
    let (_, handled) = simulate_noting(&study.scenario(point)?, seed)
        .map_err(|error| PaperError::failed(error.to_string()))?;
    Ok(handled)
}

/// Packets that all of these were given, and their bytes.
fn given(handled: &[Handled]) -> (u64, u64) {
    handled.iter().map(Handled::packets).fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1))
}

/// The processor time in which new gateways handle the same once.
fn once(handled: &[Handled]) -> Duration {
    let runs = PACKETS.div_ceil(given(handled).0.max(1)).max(1) as u32;
    let mut spent = Duration::ZERO;
    for own in handled {
        for _ in 0..runs {
            let again = own.again();
            let before = clock::processor();
            let left = again.run();
            spent += clock::processor() - before;
            debug_assert_eq!(left, own.left(), "a gateway did something else");
        }
    }
    spent / runs
}

/// The costs of rows, the first of which is compared with.
fn shares(place: &str, rows: &[&'static Row], given: &[(u64, u64)], spent: &[Duration]) -> Vec<Cost> {
    let each =
        |((packets, _), spent): (&(u64, u64), &Duration)| spent.as_nanos() as f64 / (*packets).max(1) as f64;
    let nanos: Vec<f64> = given.iter().zip(spent).map(each).collect();
    let costs = rows.iter().zip(given).zip(&nanos).map(|((row, (packets, bytes)), own)| Cost {
        place: place.to_owned(),
        row: row.name,
        packets: *packets,
        bytes: *bytes,
        nanos: *own,
        of_forwarding: own / nanos[0],
    });
    costs.collect()
}

/// A line for each system at each place.
pub(super) fn table(costs: &[Cost]) -> Table {
    let left = ["place", "system"].map(Column::left);
    let right = ["packets", "time for a packet", "of forwarding", "time for a megabyte"].map(Column::right);
    let mut table = Table::new(left.into_iter().chain(right));
    for cost in costs {
        let title = row(cost.row).map_or(cost.row, |row| row.title);
        let of_megabyte = cost.nanos * cost.packets as f64 * 1e-9 / (cost.bytes.max(1) as f64 / 1e6);
        let line = [
            cost.place.clone(),
            title.to_owned(),
            cost.packets.to_string(),
            Unit::Seconds.format(cost.nanos * 1e-9),
            format!("{:.2}", cost.of_forwarding),
            Unit::Seconds.format(of_megabyte),
        ];
        table.row(line.iter().map(String::as_str));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::links::link;
    use super::super::rows::ROWS;
    use super::super::world::{Ends, Work};
    use super::*;
    use shorthaul_report::Silence;

    const PLACE: fn() -> Place = || Place { link: link("gprs"), work: Work::Start, ends: Ends::Then };

    #[test]
    fn what_stands_on_the_way_is_measured_and_what_changes_ends_is_not() {
        let names: Vec<&str> =
            on_the_way(&PLACE(), &ROWS.iter().collect::<Vec<_>>()).iter().map(|row| row.name).collect();
        assert_eq!(names[0], "forwarding");
        for on_the_way in ["i-tcp", "m-tcp", "snoop", "freeze-tcp", "aggregation", "auto"] {
            assert!(names.contains(&on_the_way), "{names:?}");
        }
        for at_ends in ["whole", "wtcp", "westwood", "westwood-plus"] {
            assert!(!names.contains(&at_ends), "{names:?}");
        }
    }

    #[test]
    fn a_cost_is_a_share_of_what_forwarding_takes_for_a_packet() {
        let rows: Vec<&Row> = ["snoop", "auto"].into_iter().filter_map(row).collect();
        let spent = [Duration::from_micros(100), Duration::from_micros(400)];
        let costs = shares("somewhere", &rows, &[(1000, 500_000), (2000, 900_000)], &spent);
        assert_eq!((costs[0].nanos, costs[0].of_forwarding), (100.0, 1.0));
        assert_eq!((costs[1].nanos, costs[1].of_forwarding), (200.0, 2.0));
    }

    #[test]
    fn every_gateway_on_the_way_is_given_what_it_was_given() {
        // Not in the order of their names, as cases are.
        let rows: Vec<&'static Row> = ["w-tcp", "freeze-tcp"].into_iter().filter_map(row).collect();
        let study = PLACE().study(&on_the_way(&PLACE(), &rows), 1).unwrap();
        let names =
            |row: &Row| noted(&study, row).unwrap().iter().map(|own| own.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&FORWARDING), ["station"]);
        assert_eq!(names(rows[0]), ["station"]);
        assert_eq!(names(rows[1]), ["mast"], "the mobile host's part stands before it");
        let costs = measure(&PLACE(), &rows, &Silence).unwrap();
        assert_eq!(
            costs.iter().map(|cost| cost.row).collect::<Vec<_>>(),
            ["forwarding", "w-tcp", "freeze-tcp"]
        );
        // A download of 18 kB is 13 segments, and the gateway sees all of ten.
        assert!(costs.iter().all(|cost| cost.packets > 200 && cost.nanos > 0.0), "{costs:?}");
        assert!(costs[0].bytes > 180_000, "{costs:?}");
    }
}
