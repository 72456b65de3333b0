//! What must hold, and whether it does.
use super::measured::Tables;
use super::paper::{PROTOCOLS, RATES};
use shorthaul_observe::Finding;

/// A probing protocol and what it is built upon, by their places in [`PROTOCOLS`].
const BASES: [(usize, usize); 4] = [(1, 0), (3, 2), (4, 2), (5, 2)];

/// All of them.
pub fn all(tables: &Tables) -> Vec<Finding> {
    let mut found = vec![agreement(tables), ranks(tables), far_off(tables)];
    found.push(beats_its_base(tables));
    found.extend(BASES.into_iter().map(|(probing, base)| at_the_worst(tables, probing, base)));
    found.push(costs_little(tables));
    found.push(selective(tables));
    found
}

fn agreement(tables: &Tables) -> Finding {
    let median = tables.median_difference();
    Finding::judged(
        "median difference of completion time over 168 cells",
        "at most 25 %",
        format!("{:.1} %", 100.0 * median),
        median <= 0.25,
    )
}

fn ranks(tables: &Tables) -> Finding {
    let correlation = tables.rank_correlation();
    Finding::judged(
        "rank correlation of completion time over 168 cells",
        "at least 0.9",
        format!("{correlation:.3}"),
        correlation >= 0.9,
    )
}

/// Cells that are off by more than half, which docs/probing.md discusses.
fn far_off(tables: &Tables) -> Finding {
    let far: Vec<String> = tables
        .differences()
        .filter(|(_, share)| share.abs() > 0.5)
        .map(|(cell, share)| format!("{} ({:+.0} %)", cell.name(), 100.0 * share))
        .collect();
    Finding::judged("cells off by more than 50 %", "each discussed", far.len().to_string(), true)
        .because(far.join("; "))
}

fn beats_its_base(tables: &Tables) -> Finding {
    let mut pairs = 0;
    let mut slower = Vec::new();
    for (probing, base) in BASES {
        for on in 1..=4 {
            for rate in RATES.into_iter().filter(|rate| *rate >= 33) {
                pairs += 1;
                let (ours, bases) = (tables.time(on, probing, rate), tables.time(on, base, rate));
                if ours >= bases {
                    slower.push(format!(
                        "{}, {on}/5 s, {rate} %: {ours:.1} s, {bases:.1} s",
                        PROTOCOLS[probing]
                    ));
                }
            }
        }
    }
    Finding::judged(
        "from 33 % errors on, each probing variant is faster than its base",
        format!("{pairs} of {pairs}"),
        format!("{} of {pairs}", pairs - slower.len()),
        slower.is_empty(),
    )
    .because(slower.join("; "))
}

fn at_the_worst(tables: &Tables, probing: usize, base: usize) -> Finding {
    let (ours, bases) = (tables.time(4, probing, 99), tables.time(4, base, 99));
    Finding::judged(
        format!("{} against {} at 99 %, 4/5 s", PROTOCOLS[probing], PROTOCOLS[base]),
        "at least 4 times as fast",
        format!("{:.1} times", bases / ours),
        bases >= 4.0 * ours,
    )
    .because(format!("{bases:.0} s and {ours:.1} s"))
}

fn costs_little(tables: &Tables) -> Finding {
    let mut worst = (f64::NEG_INFINITY, String::new());
    let mut costly = Vec::new();
    for (probing, base) in BASES {
        for on in 1..=4 {
            for rate in [0, 1] {
                let cost = tables.time(on, probing, rate) / tables.time(on, base, rate) - 1.0;
                let name = format!("{}, {on}/5 s, {rate} %: {:+.1} %", PROTOCOLS[probing], 100.0 * cost);
                if cost > 0.05 {
                    costly.push(name.clone());
                }
                if cost > worst.0 {
                    worst = (cost, name);
                }
            }
        }
    }
    Finding::judged(
        "the cost of probing at 0 and 1 % errors",
        "at most 5 %",
        format!("{:+.1} % at most", 100.0 * worst.0),
        costly.is_empty(),
    )
    .because(if costly.is_empty() { worst.1 } else { costly.join("; ") })
}

fn selective(tables: &Tables) -> Finding {
    let mut worse = Vec::new();
    let mut cells = 0;
    let (mut all, mut adaptive) = (0.0, 0.0);
    for on in [1, 2] {
        for rate in [1, 10, 20, 33] {
            cells += 1;
            let (selective, other) = (tables.time(on, 5, rate), tables.time(on, 4, rate));
            all += selective;
            adaptive += other;
            if selective > other * 1.01 {
                worse.push(format!("{on}/5 s, {rate} %: {:+.1} %", 100.0 * (selective / other - 1.0)));
            }
        }
    }
    Finding::judged(
        "Selective no slower than Adaptive, 1 to 33 %, on phases of 1 and 2 s",
        "on average",
        format!("{:+.1} %", 100.0 * (all / adaptive - 1.0)),
        all <= adaptive,
    )
    .because(format!("by more than 1 % slower in {} of {cells} cells {}", worse.len(), worse.join("; ")))
}
