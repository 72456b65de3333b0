//! The results as a table for people, and as CSV and JSON for programs.
use crate::direct_or_split::DirectOrSplit;
use serde_json::{Value, json};
use shorthaul_report::{Column, Csv, Manifest, ReportError, Table, TableCell, Tone, Unit};
use shorthaul_types::Bytes;

use super::outcome::{Outcome, Pair};
use super::phone::{self, Phone};
use super::plan::{Path, Transfer};
use super::sentence;

/// A gain from here on is shown as one; below the inverse it is shown as a loss.
const NOTABLE: f64 = 1.15;

/// Path × congestion control × transfer: direct, split, gain.
pub fn table(pairs: &[Pair]) -> Table {
    let mut table = Table::new([
        Column::left("path"),
        Column::left("congestion").unit("control"),
        Column::left("transfer"),
        Column::right("direct"),
        Column::right("split"),
        Column::right("gain").unit("direct = 1"),
        Column::right("queueing, direct").unit("median"),
        Column::right("queueing, split").unit("median"),
    ]);
    let mut previous: Option<&Pair> = None;
    for pair in pairs {
        let new_path = previous.is_none_or(|p| p.path != pair.path);
        if new_path && previous.is_some() {
            table.rule();
        }
        let new_control = new_path || previous.is_none_or(|p| p.congestion != pair.congestion);
        let size = Bytes(pair.direct.asked.max(pair.split.asked));
        table.row([
            TableCell::from(if new_path { pair.path } else { "" }),
            TableCell::from(if new_control { pair.congestion.name() } else { "" }),
            TableCell::from(format!("{} {size}", pair.transfer.name())),
            result(&pair.direct, pair.transfer),
            result(&pair.split, pair.transfer),
            gain(pair),
            queueing(&pair.direct),
            queueing(&pair.split),
        ]);
        previous = Some(pair);
    }
    table
}

/// Time for a short transfer, rate for a long one; `>` where it did not end in its time.
fn result(outcome: &Outcome, transfer: Transfer) -> TableCell {
    if outcome.failure.is_some() {
        return TableCell::toned("failed", Tone::Bad);
    }
    match (transfer, outcome.complete()) {
        (Transfer::Short, true) => Unit::Seconds.format(outcome.seconds).into(),
        (Transfer::Short, false) => {
            TableCell::toned(format!("> {}", Unit::Seconds.format(outcome.seconds)), Tone::Bad)
        }
        (Transfer::Long, _) => Unit::BitsPerSecond.format(outcome.goodput()).into(),
    }
}

fn gain(pair: &Pair) -> TableCell {
    match pair.trusted_gain() {
        None if pair.gain().is_some() => TableCell::toned("not trusted", Tone::Quiet),
        None => TableCell::toned("–", Tone::Quiet),
        Some(gain) => {
            let tone = if gain >= NOTABLE {
                Tone::Good
            } else if gain <= 1.0 / NOTABLE {
                Tone::Bad
            } else {
                Tone::Plain
            };
            TableCell::toned(format!("{gain:.2} ×"), tone)
        }
    }
}

fn queueing(outcome: &Outcome) -> TableCell {
    let median = outcome.median_queueing().map(|delay| Unit::Seconds.format(delay));
    TableCell::toned(median.unwrap_or_else(|| "–".to_string()), Tone::Quiet)
}

/// How far the emulation itself may have distorted the results.
pub fn fidelity(pairs: &[Pair]) -> String {
    let late: Vec<String> = pairs
        .chunk_by(|a, b| a.path == b.path)
        .map(|path| {
            let late = outcomes(path).map(|outcome| outcome.late_s).fold(0.0, f64::max);
            format!("{} on {}", Unit::Seconds.format(late), path[0].path)
        })
        .collect();
    let missed: u64 = outcomes(pairs).map(|outcome| outcome.missed).sum();
    let verdict = if missed > 0 {
        format!("The machine was too slow for {missed} packets, which were lost without the links' doing")
    } else {
        "No packet was lost but by the links' own models".to_string()
    };
    format!(
        "Emulation: at most 1 % of the packets came later than they should by more than {}. {verdict}.\n",
        late.join(", ")
    )
}

fn outcomes(pairs: &[Pair]) -> impl Iterator<Item = &Outcome> {
    pairs.iter().flat_map(|pair| [&pair.direct, &pair.split])
}

/// One row a transfer.
pub fn csv(pairs: &[Pair], manifest: &Manifest) -> Result<Csv, ReportError> {
    let columns = [
        "path",
        "congestion_control",
        "transfer",
        "way",
        "asked_bytes",
        "received_bytes",
        "seconds",
        "complete",
        "verified",
        "goodput_bit_per_s",
        "median_queueing_s",
        "packets_lost",
        "packets_overflowed",
        "packets_retransmitted",
        "packets_missed",
        "emulation_late_p99_s",
        "failure",
    ];
    let mut csv = Csv::new(manifest, &columns);
    for pair in pairs {
        for way in DirectOrSplit::ALL {
            let outcome = pair.way(way);
            csv.row([
                pair.path.into(),
                pair.congestion.name().into(),
                pair.transfer.name().into(),
                way.name().into(),
                outcome.asked.into(),
                outcome.bytes.into(),
                outcome.seconds.into(),
                outcome.complete().into(),
                outcome.verified.into(),
                outcome.goodput().into(),
                outcome.median_queueing().into(),
                outcome.lost.into(),
                outcome.overflowed.into(),
                outcome.retransmitted.into(),
                outcome.missed.into(),
                outcome.late_s.into(),
                outcome.failure.clone().into(),
            ])?;
        }
    }
    Ok(csv)
}

/// Everything: the manifest, the paths, each pair with its gain, its sentence and its samples.
pub fn json(pairs: &[Pair], phones: &[Phone], paths: &[Path], manifest: &Manifest) -> Value {
    let path = |path: &Path| {
        let facts = pairs.iter().find(|pair| pair.path == path.name).map(|pair| pair.facts);
        json!({
            "name": path.name,
            "title": path.title,
            "short_bytes": path.short.0,
            "long_bytes": path.long.0,
            "limit_s": path.limit.as_secs_f64(),
            "links": facts,
        })
    };
    let pair = |pair: &Pair| {
        json!({
            "path": pair.path,
            "congestion_control": pair.congestion,
            "transfer": pair.transfer,
            "gain": pair.gain(),
            "runs": pair.runs,
            "trusted": pair.doubt().is_none(),
            "seen": sentence::for_pair(pair),
            "direct": outcome(&pair.direct),
            "split": outcome(&pair.split),
        })
    };
    json!({
        "manifest": manifest,
        "phone": phone::json(phones),
        "paths": paths.iter().map(path).collect::<Vec<_>>(),
        "transfers": pairs.iter().map(pair).collect::<Vec<_>>(),
    })
}

fn outcome(outcome: &Outcome) -> Value {
    let mut value = json!(outcome);
    value["complete"] = outcome.complete().into();
    value["goodput_bit_per_s"] = outcome.goodput().into();
    value["median_queueing_s"] = outcome.median_queueing().into();
    value
}

#[cfg(test)]
mod tests {
    use shorthaul_report::Terminal;

    use super::super::figures::tests::invented;
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_pair_and_says_what_it_is_in() {
        let pairs = invented();
        let text = table(&pairs).render(Terminal::PLAIN);
        let lines: Vec<&str> = text.lines().collect();
        // Two lines of heading and a rule, a rule between paths.
        assert_eq!(lines.len(), 3 + pairs.len() + 2, "{text}");
        let row = lines.iter().find(|line| line.starts_with("halfway")).unwrap();
        assert!(row.contains("reno") && row.contains("short 100 kB") && row.contains(" ×"), "{row}");
        assert!(text.contains("Mbit/s") && text.contains("ms"));
    }

    #[test]
    fn a_failure_and_a_stop_are_seen_in_the_table() {
        let mut pairs = invented();
        pairs[0].split.failure = Some("refused".to_string());
        pairs[0].direct.bytes -= 1;
        let text = table(&pairs[..1]).render(Terminal::PLAIN);
        assert!(text.contains("failed") && text.contains("> ") && text.contains('–'), "{text}");
    }

    #[test]
    fn csv_and_json_hold_every_transfer() {
        let pairs = invented();
        let manifest = Manifest::new("shorthaul", "0");
        let text = csv(&pairs, &manifest).unwrap().text().to_string();
        assert_eq!(text.lines().filter(|line| !line.starts_with('#')).count(), 1 + 2 * pairs.len());
        let json = json(&pairs, &[], &[], &manifest);
        assert_eq!(json["transfers"].as_array().unwrap().len(), pairs.len());
        assert!(json["transfers"][0]["gain"].as_f64().unwrap() > 0.0);
        assert!(json["transfers"][0]["seen"].as_str().unwrap().starts_with("reno on gprs"));
    }
}
