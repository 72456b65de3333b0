//! Which leg of a chain of nodes binds, by what the nodes wrote of their buffers.
use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use shorthaul_report::{Column, Table, Unit};
use shorthaul_types::{BufferTimes, Bytes, binding_leg};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;

/// What matters here of a line of an access log.
#[derive(Deserialize)]
struct Entry {
    target: String,
    bytes_up: u64,
    bytes_down: u64,
    buffers: Option<Buffers>,
}

#[derive(Deserialize)]
struct Buffers {
    up: BufferTimes,
    down: BufferTimes,
}

/// Of one node, in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    bytes: u64,
    sessions: u64,
    times: BufferTimes,
}

impl Sum {
    fn add(&mut self, bytes: u64, times: &BufferTimes) {
        if !times.watched.is_zero() {
            self.bytes += bytes;
            self.sessions += 1;
            self.times.add(times);
        }
    }

    fn more_room(&self) -> Bytes {
        let seconds = self.times.watched.as_secs_f64();
        self.times.more_room(if seconds > 0.0 { self.bytes as f64 / seconds } else { 0.0 }, None)
    }
}

/// The chains to destinations, by what their nodes wrote.
#[derive(Debug, Default)]
pub struct Legs {
    /// The nodes' names, the one next to the client first.
    nodes: Vec<String>,
    /// By destination: of each node, up and down.
    of: BTreeMap<String, Vec<[Sum; 2]>>,
}

impl Legs {
    /// From the access logs of the nodes on the way, the one next to the client first; a line that is none is left out.
    pub fn read(files: &[PathBuf], wanted: Option<&str>) -> Result<Legs> {
        let mut legs = Legs::default();
        for (at, path) in files.iter().enumerate() {
            let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
            legs.nodes.push(name.into_owned());
            let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
            for line in BufReader::new(file).lines() {
                let line = line.with_context(|| format!("cannot read {}", path.display()))?;
                let Ok(Entry { target, bytes_up, bytes_down, buffers: Some(buffers) }) =
                    serde_json::from_str(&line)
                else {
                    continue;
                };
                if wanted.is_none_or(|part| target.contains(part)) {
                    let nodes =
                        legs.of.entry(target).or_insert_with(|| vec![Default::default(); files.len()]);
                    nodes[at][0].add(bytes_up, &buffers.up);
                    nodes[at][1].add(bytes_down, &buffers.down);
                }
            }
        }
        Ok(legs)
    }

    /// Of a destination and direction, the nodes that carried anything, in the order of the data.
    fn chains(&self) -> impl Iterator<Item = (&str, &'static str, Vec<(&str, Sum)>)> {
        self.of.iter().flat_map(move |(target, nodes)| {
            ["up", "down"].into_iter().enumerate().filter_map(move |(way, direction)| {
                let all = self.nodes.iter().map(String::as_str).zip(nodes.iter().map(|sums| sums[way]));
                let mut chain: Vec<(&str, Sum)> = all.filter(|(_, sum)| sum.sessions > 0).collect();
                if direction == "down" {
                    chain.reverse();
                }
                (!chain.is_empty()).then_some((target.as_str(), direction, chain))
            })
        })
    }

    /// For people.
    pub fn table(&self) -> Table {
        let mut table = Table::new([
            Column::left("destination"),
            Column::left("bytes go"),
            Column::left("buffer of"),
            Column::right("sessions"),
            Column::right("drought").unit("leg behind"),
            Column::right("overflow").unit("leg before"),
            Column::right("longest").unit("drought"),
            Column::right("longest").unit("overflow"),
            Column::left("leg that binds"),
            Column::right("would take").unit("more room"),
        ]);
        for (target, direction, chain) in self.chains() {
            let times: Vec<BufferTimes> = chain.iter().map(|(_, sum)| sum.times).collect();
            for (at, (node, sum)) in chain.iter().enumerate() {
                let first = |text: String| if at == 0 { text } else { String::new() };
                table.row([
                    first(target.to_owned()),
                    first(direction.to_owned()),
                    (*node).to_owned(),
                    sum.sessions.to_string(),
                    Unit::Percent.format(sum.times.drought_share()),
                    Unit::Percent.format(sum.times.overflow_share()),
                    Unit::Seconds.format(sum.times.longest_drought.as_secs_f64()),
                    Unit::Seconds.format(sum.times.longest_overflow.as_secs_f64()),
                    first(leg_name(&chain, binding_leg(&times))),
                    match sum.more_room() {
                        Bytes(0) => "nothing to mend".to_owned(),
                        room => room.to_string(),
                    },
                ]);
            }
        }
        table
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let of_chain = |(target, direction, chain): (&str, &str, Vec<(&str, Sum)>)| {
            let times: Vec<BufferTimes> = chain.iter().map(|(_, sum)| sum.times).collect();
            let nodes: Vec<Value> = chain
                .iter()
                .map(|(node, sum)| {
                    json!({
                        "node": node, "sessions": sum.sessions, "bytes": sum.bytes, "seconds": sum.times,
                        "more_room_bytes": sum.more_room().0,
                    })
                })
                .collect();
            json!({ "destination": target, "bytes_go": direction, "leg_that_binds": binding_leg(&times) + 1, "buffers": nodes })
        };
        Value::Array(self.chains().map(of_chain).collect())
    }
}

/// A leg by what it is between.
fn leg_name(chain: &[(&str, Sum)], leg: usize) -> String {
    match (leg.checked_sub(1).map(|before| chain[before].0), chain.get(leg).map(|node| node.0)) {
        (None, Some(to)) => format!("to {to}, or its source"),
        (Some(from), Some(to)) => format!("{from} to {to}"),
        (Some(from), None) => format!("from {from} on"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn line(target: &str, [drought, overflow]: [f64; 2]) -> String {
        let times = json!({
            "watched": 10.0, "drought": drought, "overflow": overflow,
            "longest_drought": drought / 2.0, "longest_overflow": overflow / 2.0,
        });
        let none = BufferTimes::default();
        json!({ "target": target, "bytes_up": 0, "bytes_down": 1_000_000, "buffers": { "up": none, "down": times } })
            .to_string()
    }

    #[test]
    fn the_leg_that_binds_is_named_from_what_two_nodes_wrote() {
        let folder = tempfile::tempdir().unwrap();
        // Downloads: from the target by tokyo, then paris. Tokyo's buffer is full, so what is behind it is slow; paris has a drought.
        let logs = [("paris", [[9.0, 0.0], [1.0, 2.0]]), ("tokyo", [[0.0, 8.0], [1.0, 2.0]])];
        let files = logs.map(|(name, sessions)| {
            let path = folder.path().join(format!("{name}.log"));
            let mut file = File::create(&path).unwrap();
            for session in sessions {
                writeln!(file, "{}", line("server:80", session)).unwrap();
            }
            writeln!(file, "{}\n{{\"target\":\"other:80\"}}\ntorn", line("other:80", [0.0, 0.0])).unwrap();
            path
        });
        let legs = Legs::read(&files, Some("server")).unwrap();
        let [chain] = &legs.chains().collect::<Vec<_>>()[..] else { panic!("{legs:?}") };
        assert_eq!((chain.0, chain.1, chain.2.len()), ("server:80", "down", 2));
        assert_eq!((chain.2[0].0, chain.2[0].1.sessions), ("tokyo", 2));
        let told = legs.json();
        assert_eq!(told[0]["leg_that_binds"], 2, "{told}");
        assert_eq!(leg_name(&chain.2, 1), "tokyo to paris");
        // Of tokyo's two sessions: a second of drought in twenty, half a second of it at once, at 100 kB/s.
        assert_eq!(told[0]["buffers"][0]["more_room_bytes"], 50_000, "{told}");
        assert!(Legs::read(&[folder.path().join("none")], None).is_err());
    }
}
