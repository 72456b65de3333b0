//! What a series of transfers has covered.
use shorthaul_report::{Column, Table, TableCell, Tone, Unit};
use shorthaul_tcp::SenderProfile;

use super::Outcome;
use super::case::{Case, Role};
use super::script::Stream;

/// A property of transfers, with the values that it can have, and its value of one transfer.
type Property = (&'static str, Vec<&'static str>, fn(&Outcome) -> &'static str);

fn on_or_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn shift(shift: u8) -> &'static str {
    match shift {
        0 => "0",
        1..=6 => "1…6",
        7..=13 => "7…13",
        _ => "14",
    }
}

fn our_shift(outcome: &Outcome) -> &'static str {
    if !outcome.case.scales() {
        return "off";
    }
    outcome
        .result
        .as_ref()
        .map_or_else(|_| shift(outcome.case.shift.unwrap_or(0)), |seen| shift(seen.shifts.own))
}

fn kernel_shift(outcome: &Outcome) -> &'static str {
    if !outcome.case.scales() {
        return "off";
    }
    outcome
        .result
        .as_ref()
        .map_or_else(|_| shift(outcome.case.kernel_shift.unwrap_or(0)), |seen| shift(seen.shifts.peer))
}

fn segment_size(case: &Case) -> &'static str {
    match case.mss {
        ..=536 => "536",
        537..=1459 => "537…1459",
        1460 => "1460",
        1461..=8959 => "1461…8959",
        8960.. => "8960",
    }
}

fn properties() -> Vec<Property> {
    let shifts = vec!["off", "0", "1…6", "7…13", "14"];
    vec![
        ("our endpoint is", vec!["client", "server"], |o| match o.case.role {
            Role::Client => "client",
            Role::Server => "server",
        }),
        ("profile", SenderProfile::names().collect(), |o| o.case.profile),
        ("kernel's control", vec!["reno", "cubic", "bbr"], |o| o.case.kernel_control),
        ("stream", [Stream::Upload, Stream::Download, Stream::Both].map(Stream::name).to_vec(), |o| {
            o.case.stream.name()
        }),
        ("half-close", vec!["on", "off"], |o| on_or_off(o.case.half_close)),
        (
            "trouble",
            vec!["none", "loss", "reordering", "duplication", "ACK loss", "ACK aggregation", "everything"],
            |o| o.case.trouble.kind(),
        ),
        ("SACK", vec!["on", "off"], |o| on_or_off(o.case.sack.agreed())),
        ("timestamps", vec!["on", "off"], |o| on_or_off(o.case.timestamps.agreed())),
        ("our window shift", shifts.clone(), our_shift),
        ("kernel's window shift", shifts, kernel_shift),
        ("segment size", vec!["536", "537…1459", "1460", "1461…8959", "8960"], |o| segment_size(&o.case)),
        ("super-segments", vec!["on", "off"], |o| on_or_off(o.case.super_segments)),
        ("version", vec!["IPv4", "IPv6"], |o| if o.case.v6 { "IPv6" } else { "IPv4" }),
    ]
}

/// Property × value: how many transfers, how many of them failed, how long half of them took at most.
pub fn table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new([
        Column::left("what"),
        Column::left("value"),
        Column::right("transfers"),
        Column::right("failed"),
        Column::right("time").unit("median"),
    ]);
    for (number, (name, values, value_of)) in properties().into_iter().enumerate() {
        if number > 0 {
            table.rule();
        }
        for (place, value) in values.into_iter().enumerate() {
            let with: Vec<&Outcome> = outcomes.iter().filter(|outcome| value_of(outcome) == value).collect();
            let mut times: Vec<f64> =
                with.iter().filter_map(|o| o.result.as_ref().ok()).map(|s| s.time.as_secs_f64()).collect();
            times.sort_by(f64::total_cmp);
            let failed = with.len() - times.len();
            let median = times.get(times.len() / 2).map(|&time| Unit::Seconds.format(time));
            table.row([
                TableCell::from(if place == 0 { name } else { "" }),
                value.into(),
                TableCell::toned(
                    with.len().to_string(),
                    if with.is_empty() { Tone::Quiet } else { Tone::Plain },
                ),
                TableCell::toned(failed.to_string(), if failed > 0 { Tone::Bad } else { Tone::Quiet }),
                TableCell::toned(median.unwrap_or_else(|| "–".to_owned()), Tone::Quiet),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::interop::transfer::Seen;
    use shorthaul_report::Terminal;
    use shorthaul_tcp::WindowShifts;
    use shorthaul_types::Seed;
    use std::time::Duration;

    fn outcome(number: u64) -> Outcome {
        let case = Case::draw(Seed(1), number, &["cubic"]);
        let shifts = if case.scales() { WindowShifts { own: 7, peer: 14 } } else { WindowShifts::default() };
        let seen = Seen { time: Duration::from_secs(1), shifts, lost: 0, reordered: 0, duplicated: 0 };
        let result = if number == 3 { Err("stuck".to_owned()) } else { Ok(seen) };
        Outcome { case, result }
    }

    #[test]
    fn every_transfer_is_counted_once_under_every_property() {
        let outcomes: Vec<Outcome> = (0..50).map(outcome).collect();
        for (name, values, value_of) in properties() {
            let known = outcomes.iter().filter(|o| values.contains(&value_of(o))).count();
            assert_eq!(known, outcomes.len(), "{name}");
        }
        let text = table(&outcomes).render(Terminal::PLAIN);
        let failures: usize =
            text.lines().filter_map(|line| line.split_whitespace().rev().nth(2)?.parse::<usize>().ok()).sum();
        assert_eq!(failures, properties().len(), "one failure in each property\n{text}");
    }
}
