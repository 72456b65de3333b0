//! What the paper's Tables 1 to 4 say.
use crate::error::{PaperError, Result, While};
use serde::Serialize;

/// The tables, by the mean length of the on phase in seconds.
const TABLES: [(u32, &str); 4] = [
    (1, include_str!("../../../../papers/probing/prb-on1-off5.csv")),
    (2, include_str!("../../../../papers/probing/prb-on2-off5.csv")),
    (3, include_str!("../../../../papers/probing/prb-on3-off5.csv")),
    (4, include_str!("../../../../papers/probing/prb-on4-off5.csv")),
];

/// The protocols, as the tables call them.
pub const PROTOCOLS: [&str; 6] =
    ["Tahoe", "Tahoe-Probing", "Reno", "Reno-Probing", "Adaptive-TCP", "Skip-Probing"];
/// The error rates of the tables, in percent.
pub const RATES: [u32; 7] = [0, 1, 10, 20, 33, 50, 99];

/// One number of a table, and the one below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PaperCell {
    /// The mean length of the on phase, in seconds; that of the off phase is always five.
    pub on: u32,
    /// By its place in [`PROTOCOLS`].
    pub protocol: usize,
    /// The error rate during the on phase, in percent.
    pub rate: u32,
}

impl PaperCell {
    /// For people: `Reno, 4/5 s, 99 %`.
    pub fn name(self) -> String {
        format!("{}, {}/5 s, {} %", PROTOCOLS[self.protocol], self.on, self.rate)
    }
}

/// What the paper states of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stated {
    /// Task completion time, in seconds.
    pub time: f64,
    /// Overhead, in percent.
    pub overhead: f64,
}

/// All cells of all tables.
///
/// # Errors
/// If a table is not what it was.
pub fn tables() -> Result<std::collections::BTreeMap<PaperCell, Stated>> {
    let mut cells = std::collections::BTreeMap::new();
    for (on, text) in TABLES {
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let [name, rate, time, overhead] = fields[..] else {
                return Err(PaperError::failed(format!("`{line}` has no four fields")));
            };
            let protocol = PROTOCOLS.iter().position(|known| *known == name);
            let protocol = protocol.doing(format!("`{name}` is no protocol of the paper"))?;
            let number = |text: &str| text.parse::<f64>().ok().doing(format!("`{text}` is no number"));
            let stated = Stated { time: number(time)?, overhead: number(overhead)? };
            cells.insert(PaperCell { on, protocol, rate: number(rate)? as u32 }, stated);
        }
    }
    match cells.len() {
        168 => Ok(cells),
        count => Err(PaperError::failed(format!("there are {count} cells instead of 168"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_there() {
        let tables = tables().unwrap();
        for on in 1..=4 {
            for protocol in 0..PROTOCOLS.len() {
                assert!(RATES.iter().all(|&rate| tables.contains_key(&PaperCell { on, protocol, rate })));
            }
        }
        // Table 4, the worst case of Tahoe and of Tahoe-Probing.
        let cell = |protocol| tables[&PaperCell { on: 4, protocol, rate: 99 }];
        assert_eq!(cell(0), Stated { time: 296.4, overhead: 2.16 });
        assert_eq!(cell(1), Stated { time: 41.9, overhead: 1.89 });
    }
}
