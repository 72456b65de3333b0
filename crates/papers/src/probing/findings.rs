//! What must hold, and whether it does.
use super::errors::{Changes, LOW_RATES, LargerWindow, Otherwise, RUNS, SHORT_PHASES};
use super::figures::{FIGURES, Shows};
use super::measured::{Measured, Tables};
use super::paper::{PROTOCOLS, PaperCell, RATES, Stated};
use shorthaul_observe::{Finding, Summary, Verdict};
use shorthaul_report::Unit;
use std::collections::BTreeMap;

/// A probing protocol and what it is built upon, by their places in [`PROTOCOLS`].
const BASES: [(usize, usize); 4] = [(1, 0), (3, 2), (4, 2), (5, 2)];

/// All of them.
pub fn all(tables: &Tables, tried: &[Otherwise]) -> Vec<Finding> {
    let timers: Vec<Finding> = tried.iter().filter_map(|other| timer(tables, other)).collect();
    // A timer that is worse elsewhere is not the paper's, and so no cause anywhere.
    let fits = |other: &&Otherwise| timer(tables, other).is_none_or(|found| found.verdict == Verdict::Holds);
    let otherwise: Vec<&Otherwise> = tried.iter().filter(fits).collect();
    let otherwise = otherwise.as_slice();
    let mut found = vec![agreement(tables), ranks(tables), far_off(tables, otherwise)];
    found.extend(timers);
    found.extend((1..=4).map(|on| table(tables, on)));
    found.extend(
        FIGURES.iter().map(|(number, on, protocols, shows)| figure(tables, *number, *on, protocols, *shows)),
    );
    found.extend(SAVED.iter().map(|claim| saves(tables, claim)));
    found.push(beats_its_base(tables));
    found.extend(BASES.into_iter().map(|(probing, base)| at_the_worst(tables, probing, base)));
    found.push(costs_little(tables));
    found.push(saved_bytes(tables));
    found.push(adaptive_lies_between(tables));
    found.push(apart(tables, otherwise));
    found.extend(SHORT_PHASES.map(|on| selective(tables, otherwise, on)));
    found.extend(
        tables
            .iter()
            .filter(|(_, ours, stated)| is_far(ours, *stated))
            .map(|(cell, ours, stated)| beside_its_like(far(cell, ours, stated, otherwise), tables, cell)),
    );
    found
}

/// At small error rates probing may cost a little. "Larger windows … cancel this effect", says §4, and its footnote 8: "Our experiments with
/// larger windows drop the level of TCT 4% and the level of overhead 2%." Of what, it does not say: of the protocol that probing is built upon,
/// beside which the sentence speaks of an effect, or of the same protocol's with a smaller window.
pub fn larger_windows(found: &[LargerWindow]) -> Vec<Finding> {
    let Some((first, _)) = found.split_first() else { return Vec::new() };
    let number = |what: &str, of: &str, stated: f64, left: f64| {
        Finding::number(
            format!("§4, footnote 8: with a window of {}, {what} of that {of}", first.window),
            Unit::Percent.format(stated),
            left,
            Unit::Percent,
        )
    };
    let percent = |share: f64| Unit::Percent.format(share);
    let by_window = |of: &dyn Fn(&LargerWindow) -> f64| {
        let words: Vec<String> =
            found.iter().map(|own| format!("{} with {}", percent(of(own)), own.window)).collect();
        format!("{}; Tahoe-Probing and Reno-Probing, 1 to 33 %, {} cells", words.join(", "), first.cells)
    };
    let beside = |what: &str, stated: f64, at: usize| {
        number(what, "of Tahoe and Reno", stated, first.of_base[at]).at_most(stated + NEAR_WINDOW).because(
            format!(
                "{} with the usual 10 KB, {}",
                percent(first.usual_of_base[at]),
                by_window(&|own| own.of_base[at])
            ),
        )
    };
    let own = |what: &str, stated: f64, at: usize| {
        let (left, each_packet) = (first.left[at], first.each_packet[at]);
        number(what, "with 10 KB", stated, left)
            .within(NEAR_WINDOW, stated)
            .because(by_window(&|own| own.left[at]))
            .explained(
                format!(
                    "the slots: a window that is sent within a lossy one is lost as a whole, the larger the more; with errors decided for each packet it leaves {}",
                    percent(each_packet)
                ),
                // It takes away most of the difference.
                (each_packet / stated - 1.0).abs()
                    <= f64::max(NEAR_WINDOW, (left / stated - 1.0).abs() / 2.0),
            )
            .explained(
                format!(
                    "the reading: of Tahoe's and Reno's with the same window it is {}",
                    percent(first.of_base[at])
                ),
                first.of_base[at] <= stated + NEAR_WINDOW,
            )
    };
    vec![
        beside("the completion time", 0.96, 0),
        beside("the overhead", 0.98, 1),
        own("the completion time", 0.96, 0),
        own("the overhead", 0.98, 1),
    ]
}

/// What the text of §4 says that probing saves of the time, in percent: the figure, the on phase, the protocol and its base, and error rates
/// with what is saved. They are those of its tables, but for a list of Reno-Probing's at 3 s that stands one rate off its figure's; that is left
/// out.
struct Saved {
    figure: u32,
    on: u32,
    protocols: (usize, usize),
    at: &'static [(u32, f64)],
}

const SAVED: [Saved; 3] = [
    Saved {
        figure: 2,
        on: 1,
        protocols: (1, 0),
        at: &[(1, 2.0), (20, 3.0), (33, 9.0), (50, 24.0), (99, 18.0)],
    },
    Saved { figure: 2, on: 1, protocols: (3, 2), at: &[(20, 3.5), (33, 1.2), (50, 8.0), (99, 36.0)] },
    Saved {
        figure: 3,
        on: 3,
        protocols: (1, 0),
        at: &[(10, 2.3), (20, 14.0), (33, 27.0), (50, 62.0), (99, 67.0)],
    },
];
/// Savings agree if they are apart by so many points at most, on average.
const POINTS: f64 = 10.0;

fn saves(tables: &Tables, claim: &Saved) -> Finding {
    let Saved { figure, on, protocols: (probing, base), at } = *claim;
    let is_far_off = |rate| {
        [probing, base].iter().any(|protocol| {
            let cell = PaperCell { on, protocol: *protocol, rate };
            tables.get(cell).is_some_and(|(ours, stated)| is_far(ours, *stated))
        })
    };
    let ours = |rate| (1.0 - tables.time(on, probing, rate) / tables.time(on, base, rate)) * 100.0;
    let apart = |rates: &mut dyn Iterator<Item = &(u32, f64)>| {
        Summary::of(rates.map(|(rate, stated)| (ours(*rate) - stated).abs())).map(|all| all.mean)
    };
    let list = |value: &dyn Fn(&(u32, f64)) -> f64| {
        at.iter().map(|own| format!("{:.1}", value(own))).collect::<Vec<_>>().join(", ")
    };
    let rates = at.iter().map(|(rate, _)| rate.to_string()).collect::<Vec<_>>().join(", ");
    let all = apart(&mut at.iter());
    let near = apart(&mut at.iter().filter(|(rate, _)| !is_far_off(*rate)));
    let number = |points: Option<f64>| points.map_or("no".to_owned(), |points| format!("{points:.1}"));
    Finding::judged(
        format!(
            "§4, text, Fig. {figure}: what {} saves of {}'s time at {rates} %, in percent",
            PROTOCOLS[probing], PROTOCOLS[base]
        ),
        list(&|(_, stated)| *stated),
        list(&|(rate, _)| ours(*rate)),
        all.is_some_and(|points| points <= POINTS),
    )
    .because(format!("apart by {} points on average", number(all)))
    .explained(
        format!(
            "the cells that are far off, each with its cause below: without them it is {} points on average",
            number(near)
        ),
        near.is_some_and(|points| points <= POINTS),
    )
}

/// "Tahoe-Probing has … 8% less overhead at 99% error rate (see Figure 5). In absolute terms the latter represents 8908 bytes" (§4).
fn saved_bytes(tables: &Tables) -> Finding {
    const TASK: f64 = 5_242_880.0;
    let overhead = |protocol| {
        let cell = PaperCell { on: 1, protocol, rate: 99 };
        tables.get(cell).map_or(f64::NAN, |(measured, _)| measured.overhead.mean)
    };
    let saved = (overhead(0) - overhead(1)) / 100.0 * TASK;
    Finding::number(
        "§4, energy: bytes that Tahoe-Probing sends less than Tahoe at 99 %, 1/5 s",
        "8908",
        saved,
        Unit::None,
    )
    .within(0.5, 8908.0)
}

/// The cells that are far off.
pub fn far_cells(tables: &Tables) -> Vec<PaperCell> {
    tables.iter().filter(|(_, ours, stated)| is_far(ours, *stated)).map(|(cell, ..)| cell).collect()
}

/// What a larger window leaves may be off by this much of the whole.
const NEAR_WINDOW: f64 = 0.03;
/// From here on a cell is far off.
const FAR: f64 = 0.5;

fn is_far(ours: &Measured, stated: Stated) -> bool {
    (ours.time.mean / stated.time - 1.0).abs() > FAR
}

/// A cell has come nearer to the paper, or gone farther from it, where its difference changes by more than this part of the paper's time.
const MOVED: f64 = 0.05;

/// What another timer does to all cells, those that are not far off among them: with the same seeds, so that luck is the same. A cause in one cell is
/// a claim about the paper's stack, which was one for all of them. None for what is no timer.
fn timer(tables: &Tables, other: &Otherwise) -> Option<Finding> {
    if other.changes != Changes::Doubling {
        return None;
    }
    let off = |time: f64, stated: Stated| (time / stated.time - 1.0).abs();
    let [mut cells, mut nearer, mut farther, mut far_before, mut far_then] = [0; 5];
    for (cell, ours, stated) in tables.iter() {
        let then = other.time(cell.on, cell.protocol, cell.rate);
        let same_seeds = &ours.times[..ours.times.len().min(RUNS as usize)];
        let Some(before) = Summary::of(same_seeds.iter().copied()).filter(|_| !then.is_nan()) else {
            continue;
        };
        let (before, then) = (off(before.mean, stated), off(then, stated));
        cells += 1;
        nearer += usize::from(then < before - MOVED);
        farther += usize::from(then > before + MOVED);
        far_before += usize::from(before > FAR);
        far_then += usize::from(then > FAR);
    }
    Some(
        Finding::judged(
            format!("another timer, RTOs that {}: cells of {cells} that come nearer to the paper, and that go farther from it", other.how),
            "more nearer than farther, and fewer far off, are asked of a cause",
            format!("{nearer} nearer, {farther} farther; {far_then} off by more than 50 %, {far_before} without"),
            // As many as there are: what is tried where it is known to help cannot fail.
            cells == tables.iter().count() && nearer > farther && far_then < far_before,
        )
        .because(format!("by more than {} of the paper's time; {RUNS} runs of each cell, the same seeds", Unit::Percent.format(MOVED)))
    )
}

/// A cell that is far off, and whether the luck of ten runs can be why.
fn far(cell: PaperCell, ours: &Measured, stated: Stated, otherwise: &[&Otherwise]) -> Finding {
    let luck = ours.means_of_ten();
    let [low, high] = luck.unwrap_or([f64::NAN; 2]);
    let ten = format!("{} to {}", Unit::Seconds.format(low), Unit::Seconds.format(high));
    let found = Finding::number(cell.name(), Unit::Seconds.format(stated.time), ours.time.mean, Unit::Seconds)
        .within(FAR, stated.time)
        .because(format!("means of ten of our {} runs: {ten}", ours.times.len()))
        .explained(
            format!("a run's luck: of ten of our {} runs, 95 % of the means lie within {ten} (bootstrap), and the paper's number does", ours.times.len()),
            low <= stated.time && stated.time <= high,
        );
    otherwise.iter().fold(found, |found, other| {
        let time = other.time(cell.on, cell.protocol, cell.rate);
        // It takes away most of the difference, not just enough to be below the bound.
        let off = |time: f64| (time / stated.time - 1.0).abs();
        let agrees = off(time) <= FAR.min(off(ours.time.mean) / 2.0);
        found.explained(format!("{} it takes {}", other.what(), Unit::Seconds.format(time)), agrees)
    })
}

/// Tahoe and Reno, which do the same where there are timeouts alone.
const ALIKE: [usize; 2] = [0, 2];

/// Where a cell is far off and the other of two protocols that do the same there is not: the paper's two numbers differ by luck.
fn beside_its_like(finding: Finding, tables: &Tables, cell: PaperCell) -> Finding {
    let Some(other) =
        ALIKE.into_iter().find(|other| ALIKE.contains(&cell.protocol) && *other != cell.protocol)
    else {
        return finding;
    };
    let ours = [cell.protocol, other].map(|protocol| tables.time(cell.on, protocol, cell.rate));
    let stated = tables.stated(cell.on, other, cell.rate);
    finding.explained(
        format!(
            "the paper's own luck: {} does the same there, takes {} here and {} in the paper",
            PROTOCOLS[other],
            Unit::Seconds.format(ours[1]),
            Unit::Seconds.format(stated)
        ),
        (ours[0] / ours[1] - 1.0).abs() <= 0.02 && (ours[1] / stated - 1.0).abs() <= FAR,
    )
}

/// The median of the absolute differences, as a share; not a number where there is nothing to compare.
fn median(differences: impl Iterator<Item = f64>) -> f64 {
    Summary::of(differences.map(f64::abs)).map_or(f64::NAN, |all| all.percentile(0.5))
}

fn table(tables: &Tables, on: u32) -> Finding {
    let differences = tables.differences().filter(|(cell, _)| cell.on == on).map(|(_, share)| share);
    Finding::number(
        format!("Table {on}, 42 completion times with phases of {on}/5 s: the median is off by"),
        asked_of_medians(),
        median(differences),
        Unit::Percent,
    )
    .at_most(NEAR)
}

fn figure(tables: &Tables, number: u32, on: u32, protocols: &[usize], shows: Shows) -> Finding {
    let shown = tables.iter().filter(|(cell, ..)| cell.on == on && protocols.contains(&cell.protocol));
    let differences = shown.map(|(_, measured, stated)| {
        let (ours, papers) = shows.of(measured, &stated);
        ours.mean / papers - 1.0
    });
    let what = match shows {
        Shows::Time => "times",
        Shows::Overhead => "overheads",
    };
    Finding::number(
        format!("Fig. {number}, {what} with phases of {on}/5 s: the median point is off by"),
        asked_of_medians(),
        median(differences),
        Unit::Percent,
    )
    .at_most(NEAR)
}

/// What a median may be off by.
const NEAR: f64 = 0.25;

fn asked_of_medians() -> String {
    format!("0 % (≤ {} is asked)", Unit::Percent.format(NEAR))
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

/// How many cells are off by more than half: one in twenty would be by chance.
fn far_off(tables: &Tables, otherwise: &[&Otherwise]) -> Finding {
    let far: Vec<_> = tables.iter().filter(|(_, ours, stated)| is_far(ours, *stated)).collect();
    let by_luck = far
        .iter()
        .filter(|(cell, ours, stated)| self::far(*cell, ours, *stated, &[]).cause.is_some())
        .count();
    let cells = tables.iter().count() as f64;
    let causes: Vec<Option<String>> = far
        .iter()
        .map(|(cell, ours, stated)| {
            beside_its_like(self::far(*cell, ours, *stated, otherwise), tables, *cell).cause
        })
        .collect();
    Finding::number("cells off by more than 50 %, of 168", "none", far.len() as f64, Unit::None)
        .and(cells > 0.0)
        .at_most(0.05 * cells)
        .because(format!("in {by_luck} of them the paper's number lies within the means of ten of our runs"))
        .explained(
            format!("a run's luck: in each of {by_luck} the paper's number lies within the means of ten of our runs (bootstrap)"),
            by_luck == far.len(),
        )
        .explained(
            format!("each has a cause of its own, below: {}", counted(&causes)),
            causes.iter().all(Option::is_some),
        )
}

/// How many cells have each kind of cause: what stands before its colon.
fn counted(causes: &[Option<String>]) -> String {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for cause in causes.iter().flatten() {
        let kind = cause.split_once(':').map_or(cause.as_str(), |(kind, _)| kind);
        *kinds.entry(kind).or_default() += 1;
    }
    kinds.into_iter().map(|(kind, count)| format!("{kind} in {count}")).collect::<Vec<_>>().join(", ")
}

fn beats_its_base(tables: &Tables) -> Finding {
    let mut pairs = 0;
    let mut slower = Vec::new();
    for (probing, base) in BASES {
        for on in 1..=4 {
            for rate in RATES.into_iter().filter(|rate| *rate >= 33) {
                pairs += 1;
                let (ours, bases) = (tables.time(on, probing, rate), tables.time(on, base, rate));
                // A cell that was not run is not faster.
                if ours >= bases || ours.is_nan() || bases.is_nan() {
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
                if cost > 0.05 || cost.is_nan() {
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

/// "Figures 9, 10, 12 show that the Task Completion Time of A-TCP has an upper and lower limit the time of Tahoe-Probing and
/// Reno-Probing" (§4.1): how many of those 21 cells lie so, or off by a twentieth, in the paper's own tables and in ours.
fn adaptive_lies_between(tables: &Tables) -> Finding {
    let between = |time: &dyn Fn(u32, usize, u32) -> f64| {
        let lies = |on: u32, rate: u32| {
            let (tahoe, reno, adaptive) = (time(on, 1, rate), time(on, 3, rate), time(on, 4, rate));
            (0.95 * tahoe.min(reno)..=1.05 * tahoe.max(reno)).contains(&adaptive)
        };
        (1..=3).flat_map(|on| RATES.map(|rate| lies(on, rate))).filter(|lies| *lies).count() as f64
    };
    let stated = between(&|on, protocol, rate| tables.stated(on, protocol, rate));
    let ours = between(&|on, protocol, rate| tables.time(on, protocol, rate));
    Finding::number(
        "Figs 9, 10, 12: cells of 21 in which Adaptive lies between Tahoe-Probing and Reno-Probing, within 5 %",
        format!("{stated} in its tables"),
        ours,
        Unit::None,
    )
    .at_least(stated)
}

/// How far two protocols are apart, the median of the cells in which duplicates are likelier than timeouts.
fn distance(time: &dyn Fn(u32, usize, u32) -> f64, protocols: [usize; 2]) -> f64 {
    let of = |on, rate| time(on, protocols[0], rate) / time(on, protocols[1], rate) - 1.0;
    median(SHORT_PHASES.into_iter().flat_map(|on| LOW_RATES.map(|rate| of(on, rate))))
}

/// How far two means of a protocol's runs are apart, those of the first half of the seeds and of the second, the median of the same cells; not
/// a number with fewer than twenty runs.
fn distance_by_luck(tables: &Tables, protocol: usize) -> f64 {
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
    let of = |on, rate| {
        let (measured, _) = tables.get(PaperCell { on, protocol, rate })?;
        let times = measured.times.get(..20)?;
        Some(mean(&times[..10]) / mean(&times[10..]) - 1.0)
    };
    median(SHORT_PHASES.into_iter().flat_map(|on| LOW_RATES.map(|rate| of(on, rate).unwrap_or(f64::NAN))))
}

/// Slow start or fast recovery after a bad cycle is all that tells Tahoe-Probing from Reno-Probing.
fn apart(tables: &Tables, otherwise: &[&Otherwise]) -> Finding {
    const TWO: [usize; 2] = [1, 3];
    let stated = distance(&|on, protocol, rate| tables.stated(on, protocol, rate), TWO);
    let ours = distance(&|on, protocol, rate| tables.time(on, protocol, rate), TWO);
    let found = Finding::number(
        "Figs 2 and 10: Tahoe-Probing and Reno-Probing are apart, 1 to 33 %, phases of 1 and 2 s, in the median",
        format!("{} in its tables", Unit::Percent.format(stated)),
        ours,
        Unit::Percent,
    )
    .at_least(stated / 2.0);
    let luck = distance_by_luck(tables, TWO[0]);
    let found = found.explained(
        format!(
            "a run's luck: our two protocols meet the same errors, the paper's did not, and two means of ten runs of one and the same protocol are {} apart",
            Unit::Percent.format(luck)
        ),
        luck >= stated / 2.0,
    );
    let slots = otherwise.iter().filter(|other| other.changes == Changes::Slots);
    slots.fold(found, |found, other| {
        let theirs = distance(&|on, protocol, rate| other.time(on, protocol, rate), TWO);
        let cause = format!(
            "the slots: after a lossy one too few segments follow for three duplicates; with errors decided {} they are {} apart",
            other.how,
            Unit::Percent.format(theirs)
        );
        found.explained(cause, theirs >= stated / 2.0)
    })
}

/// Figures 18 and 19: "A-TCP yields worse performance than SP-TCP especially at lower error rates (1%, 10%, 20%, and 33%)".
fn selective(tables: &Tables, otherwise: &[&Otherwise], on: u32) -> Finding {
    let saved = |time: &dyn Fn(usize, u32) -> f64| {
        let sum = |protocol| LOW_RATES.into_iter().map(|rate| time(protocol, rate)).sum::<f64>();
        1.0 - sum(5) / sum(4)
    };
    let stated = saved(&|protocol, rate| tables.stated(on, protocol, rate));
    let ours = saved(&|protocol, rate| tables.time(on, protocol, rate));
    let found = Finding::number(
        format!("Fig. {}: Selective saves of Adaptive's time, 1 to 33 %, phases of {on}/5 s", 17 + on),
        format!("{} in its tables", Unit::Percent.format(stated)),
        ours,
        Unit::Percent,
    )
    .at_least(stated / 2.0);
    let slots = otherwise.iter().filter(|other| other.changes == Changes::Slots);
    slots.fold(found, |found, other| {
        let theirs = saved(&|protocol, rate| other.time(on, protocol, rate));
        let said = match theirs.is_nan() || found.reason.contains(other.how) {
            true => found.reason.clone(),
            false => format!("with errors decided {}: {}", other.how, Unit::Percent.format(theirs)),
        };
        let cause = format!(
            "the slots: after a lossy one too few segments follow for three duplicates; with errors decided {} it saves {}",
            other.how,
            Unit::Percent.format(theirs)
        );
        found.because(said).explained(cause, theirs >= stated / 2.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Having, holds, run};
    use shorthaul_scenario::Metric;

    fn with(change: impl Fn(PaperCell, f64) -> f64) -> Vec<Finding> {
        all(&tables(change), &[])
    }

    /// Tables whose times are the paper's, but for a change.
    fn tables(change: impl Fn(PaperCell, f64) -> f64) -> Tables {
        let paper = super::super::paper::tables().unwrap();
        let record = |(cell, stated): (&PaperCell, &Stated)| {
            let (on, rate) = (format!("\"{} s\"", cell.on), (f64::from(cell.rate) / 100.0).to_string());
            let mut record = run(
                Some(PROTOCOLS[cell.protocol]),
                &[("links.source-sink.link.loss.on", &on), ("links.source-sink.link.loss.rate", &rate)],
            );
            record = record.metric(Metric::Completion, change(*cell, stated.time));
            record.metric(Metric::SenderOverhead, stated.overhead).metric(Metric::WireBytes, 5e6)
        };
        let records: Vec<_> = paper.iter().map(record).collect();
        Tables::of(&records, &paper).unwrap()
    }

    fn fails(what: &str, change: impl Fn(PaperCell, f64) -> f64) {
        assert!(!holds(&with(change), what), "{what}");
    }

    #[test]
    fn the_papers_own_tables_agree_with_themselves() {
        let found = with(|_, time| time);
        for what in ["median difference", "rank correlation", "Table", "Fig", "cells off"] {
            assert!(holds(&found, what), "{what}");
        }
        assert!(found.iter().all(|finding| finding.verdict != Verdict::Shown));
    }

    #[test]
    fn every_finding_can_fail() {
        fails("median difference", |_, time| 1.3 * time);
        fails("rank correlation", |_, time| 1.0 / time);
        fails("Table 3", |cell, time| if cell.on == 3 { 1.4 * time } else { time });
        fails("Fig. 13", |cell, time| if cell.on == 4 { 0.6 * time } else { time });
        fails("cells off", |cell, time| if cell.on == 1 && cell.rate > 0 { 2.0 * time } else { time });
        fails("faster than its base", |cell, time| if cell.protocol == 1 { 20.0 * time } else { time });
        fails("Adaptive-TCP against Reno", |cell, time| if cell.protocol == 4 { 5.0 * time } else { time });
        fails("what Tahoe-Probing saves", |cell, time| if cell.protocol == 1 { 1.4 * time } else { time });
        fails("what Reno-Probing saves", |cell, time| if cell.protocol == 2 { 1.4 * time } else { time });
        fails(
            "cost of probing",
            |cell, time| if cell.protocol == 3 && cell.rate < 2 { 1.2 * time } else { time },
        );
        fails("lies between", |cell, time| if cell.protocol == 4 { 2.0 * time } else { time });
        // What equals Adaptive saves nothing of its time.
        let paper = super::super::paper::tables().unwrap();
        let adaptive = |cell: PaperCell, time| {
            if cell.protocol == 5 { paper[&PaperCell { protocol: 4, ..cell }].time } else { time }
        };
        fails("Fig. 18", adaptive);
        fails("Fig. 19", adaptive);
        let tahoe = |cell: PaperCell, time| {
            if cell.protocol == 3 { paper[&PaperCell { protocol: 1, ..cell }].time } else { time }
        };
        fails("are apart", tahoe);
    }

    #[test]
    fn luck_is_the_cause_only_where_the_runs_scatter_so_far() {
        let found =
            with(
                |cell, time| {
                    if cell.on == 4 && cell.protocol == 0 && cell.rate == 99 { 2.0 * time } else { time }
                },
            );
        let far = found.iter().find(|finding| finding.what == "Tahoe, 4/5 s, 99 %").unwrap();
        assert!(far.verdict == Verdict::Differs && far.cause.is_none(), "one run has no luck: {far:?}");
        let measured = |times: &[f64]| Measured {
            time: Summary::of(times.iter().copied()).unwrap(),
            times: times.to_vec(),
            overhead: Summary::of([1.0]).unwrap(),
            wire: Summary::of([1.0]).unwrap(),
        };
        let cell = PaperCell { on: 4, protocol: 0, rate: 50 };
        let stated = Stated { time: 50.0, overhead: 1.8 };
        let scattered = [20.0, 20.0, 25.0, 30.0, 30.0, 40.0, 40.0, 60.0, 150.0, 385.0];
        assert!(far_cause(cell, &measured(&scattered), stated).is_some());
        assert!(far_cause(cell, &measured(&[80.0; 10]), stated).is_none());
    }

    #[test]
    fn kinds_of_causes_are_counted() {
        let causes = ["the timer: it takes 31.4 s", "a run's luck: of ten", "the timer: it takes 28.2 s"];
        let causes: Vec<_> = causes.into_iter().map(|cause| Some(cause.to_owned())).collect();
        assert_eq!(counted(&causes), "a run's luck in 1, the timer in 2");
    }

    #[test]
    fn what_is_far_off_has_as_many_causes_as_are_said() {
        let paper = super::super::paper::tables().unwrap();
        let times = paper.iter().map(|(cell, stated)| (*cell, stated.time)).collect();
        let never = Otherwise { changes: Changes::Doubling, how: "are never doubled", times };
        let slow = |cell: PaperCell, time| if cell.protocol == 0 { 2.0 * time } else { time };
        let found = all(&tables(slow), &[never]);
        let off = found.iter().find(|own| own.what.starts_with("cells off")).unwrap();
        let cells = paper.keys().filter(|cell| cell.protocol == 0).count();
        let said = format!("the timer in {cells}");
        assert!(off.cause.as_ref().is_some_and(|cause| cause.ends_with(&said)), "{off:?}");
    }

    #[test]
    fn a_timer_that_is_worse_elsewhere_is_no_cause() {
        let paper = super::super::paper::tables().unwrap();
        // Tahoe is far off, and another timer has the paper's times of it: of the other protocols' cells it makes some half as long again.
        let with = |worse: &dyn Fn(PaperCell) -> bool| {
            let time = |(cell, stated): (&PaperCell, &Stated)| {
                (*cell, stated.time * if worse(*cell) { 1.5 } else { 1.0 })
            };
            let times = paper.iter().map(time).collect();
            let never = Otherwise { changes: Changes::Doubling, how: "are never doubled", times };
            let slow = |cell: PaperCell, time| if cell.protocol == 0 { 2.0 * time } else { time };
            let found = all(&tables(slow), &[never]);
            let causes =
                found.iter().filter(|own| own.what.starts_with("Tahoe, ") && own.cause.is_some()).count();
            (holds(&found, "another timer"), causes)
        };
        assert_eq!(with(&|_| false), (true, 28));
        assert_eq!(with(&|cell| cell.protocol == 2), (false, 0), "as many are farther as are nearer");
        assert_eq!(with(&|cell| cell.protocol == 2 && cell.on > 1), (true, 28));
    }

    #[test]
    fn a_timer_that_is_tried_on_what_is_far_off_alone_is_no_cause() {
        let paper = super::super::paper::tables().unwrap();
        let slow = |cell: PaperCell, time| if cell.protocol == 0 { 2.0 * time } else { time };
        let far = paper.iter().filter(|(cell, _)| cell.protocol == 0);
        let times = far.map(|(cell, stated)| (*cell, stated.time)).collect();
        let never = Otherwise { changes: Changes::Doubling, how: "are never doubled", times };
        let found = all(&tables(slow), &[never]);
        assert!(!holds(&found, "another timer"));
        assert!(found.iter().all(|own| !own.what.starts_with("Tahoe, ") || own.cause.is_none()));
    }

    #[test]
    fn another_way_to_decide_errors_is_a_cause_only_if_it_has_what_is_stated() {
        let paper = super::super::paper::tables().unwrap();
        let times = |change: f64| Otherwise {
            changes: Changes::Slots,
            how: "for each packet",
            times: paper.iter().map(|(cell, stated)| (*cell, change * stated.time)).collect(),
        };
        let cell = PaperCell { on: 4, protocol: 0, rate: 50 };
        let measured = Measured {
            time: Summary::of([200.0]).unwrap(),
            times: vec![200.0; 10],
            overhead: Summary::of([1.0]).unwrap(),
            wire: Summary::of([1.0]).unwrap(),
        };
        let cause = |change| far(cell, &measured, paper[&cell], &[&times(change)]).cause;
        assert!(cause(1.2).is_some_and(|cause| cause.contains("for each packet")) && cause(2.0).is_none());
        let near = Measured { time: Summary::of([1.55 * paper[&cell].time]).unwrap(), ..measured.clone() };
        let slight = far(cell, &near, paper[&cell], &[&times(1.49)]).cause;
        assert!(slight.is_none(), "hardly any nearer: {slight:?}");
    }

    #[test]
    fn a_larger_window_is_judged_by_both_numbers_in_both_readings() {
        let found = |left, of_base| {
            larger_windows(&[LargerWindow {
                window: "15 KiB",
                left,
                each_packet: [0.97, 1.6],
                of_base,
                usual_of_base: [1.0; 2],
                cells: 32,
            }])
        };
        let stated = [0.96, 0.98];
        let verdicts = |left, of_base| -> Vec<bool> {
            found(left, of_base).iter().map(|own| own.verdict == Verdict::Holds).collect()
        };
        assert_eq!(verdicts(stated, stated), [true; 4]);
        assert_eq!(verdicts([1.0, 0.98], stated), [true, true, false, true]);
        assert_eq!(verdicts(stated, [0.96, 1.05]), [true, false, true, true]);
        assert_eq!(verdicts([f64::NAN; 2], [f64::NAN; 2]), [false; 4]);
        // Only what takes away most of the difference is why.
        let causes = |overhead, of_base: f64| -> Vec<bool> {
            let found = found([1.03, overhead], [of_base; 2]);
            found[2..].iter().map(|own| own.cause.is_some()).collect()
        };
        assert_eq!((causes(2.5, 1.2), causes(2.0, 1.2)), (vec![true, true], vec![true, false]));
        assert_eq!(causes(2.0, 0.97), vec![true, true], "beside its base it has what is stated");
    }

    #[test]
    fn bytes_saved_are_those_of_the_overheads() {
        // 2.00 and 1.83 % of 5,242,880 bytes in the paper's own Table 1
        let own = with(|_, time| time);
        let saved = own.iter().find(|found| found.what.contains("energy")).unwrap();
        assert!(holds(&own, "energy") && (saved.value.unwrap() - 8913.0).abs() < 1.0, "{saved:?}");
    }

    fn far_cause(cell: PaperCell, ours: &Measured, stated: Stated) -> Option<String> {
        far(cell, ours, stated, &[]).cause
    }
}
