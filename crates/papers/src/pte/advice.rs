//! Which policy for what: what the comparison comes to for practice, by its numbers alone.
use super::matrix::PolicyScore;
use shorthaul_report::{Column, Table, Unit};

/// Of a plain split's throughput, what counts as all of it.
const WHOLE: f64 = 0.99;
/// What is enough of it where something else counts.
const ENOUGH: f64 = 0.95;
/// The share of its time for which a sender may wait for a closed window, if it is to be called open.
const OPEN: f64 = 0.001;

/// What counts, the policies that have it, and the numbers that say so.
#[derive(Debug, PartialEq)]
struct Advice {
    counts: &'static str,
    policies: Vec<&'static str>,
    numbers: String,
}

/// Which policies are there to choose from: what does not split, or does nothing to senders, is what they are compared with.
fn choice(scores: &[PolicyScore]) -> impl Iterator<Item = &PolicyScore> + Clone {
    scores.iter().filter(|score| !["direct", "split"].contains(&score.policy))
}

fn listed<'a>(
    counts: &'static str,
    chosen: impl Iterator<Item = &'a PolicyScore>,
    number: fn(&PolicyScore) -> String,
) -> Advice {
    let chosen: Vec<&PolicyScore> = chosen.collect();
    let numbers: Vec<String> = chosen.iter().map(|score| number(score)).collect();
    Advice {
        counts,
        policies: chosen.iter().map(|score| score.policy).collect(),
        numbers: numbers.join(", "),
    }
}

fn advice(scores: &[PolicyScore]) -> Vec<Advice> {
    let all = choice(scores);
    let enough = || all.clone().filter(|score| score.throughput[0] >= ENOUGH);
    let least = |of: fn(&PolicyScore) -> f64| enough().min_by(|a, b| of(a).total_cmp(&of(b))).into_iter();
    let throughput = |score: &PolicyScore| format!("{:.3} in its worst cell", score.throughput[1]);
    vec![
        listed(
            "all of a split's throughput, in every cell",
            all.clone().filter(|score| score.throughput[1] >= WHOLE),
            throughput,
        ),
        listed("windows that are never closed", enough().filter(|score| score.closed < OPEN), |score| {
            Unit::Percent.format(score.closed)
        }),
        listed("little memory", least(|score| score.held_most), |score| Unit::Bytes.format(score.held_most)),
        listed("senders without RTOs", least(|score| score.timeouts), |score| {
            format!("{:.2} of a flow in 100 s", score.timeouts)
        }),
        listed("flows that share", enough().filter(|score| score.least_fair >= ENOUGH), |score| {
            format!("{:.3}", score.least_fair)
        }),
    ]
}

/// The table of advice.
pub(super) fn table(scores: &[PolicyScore]) -> Table {
    let mut table =
        Table::new([Column::left("if this counts"), Column::left("senders ="), Column::left("measured")]);
    for Advice { counts, policies, numbers } in advice(scores) {
        let policies = if policies.is_empty() { "none of them".to_owned() } else { policies.join(", ") };
        table.row([counts.to_owned(), policies, numbers]);
    }
    table
}

/// What to mind with any of them, by how they work.
pub(super) const REMARKS: [&str; 3] = [
    "The bandwidth told must not be above what the access side carries: what comes too fast is dropped when the buffer is full.",
    "Path tail emulation takes the place of the queue, not of the repair: give the side toward the access side an RTO above its interruptions (to_access.rto), or it retransmits what is on its way.",
    "ack-regulator and m-tcp keep the ends' acknowledgments end to end: nothing that is acknowledged is lost in a crash of the gateway, and senders see the delay of the access side.",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn score(policy: &'static str, throughput: [f64; 2], closed: f64, held_most: f64) -> PolicyScore {
        PolicyScore {
            policy,
            cells: 1,
            throughput,
            held_most,
            timeouts: held_most / 1e6,
            spurious: 0.0,
            closed,
            least_fair: 1.0 - closed,
        }
    }

    #[test]
    fn advice_goes_by_the_numbers() {
        let of =
            |scores: &[PolicyScore]| advice(scores).into_iter().map(|own| own.policies).collect::<Vec<_>>();
        let scores = [
            score("split", [1.0, 1.0], 0.0, 1.0),
            score("path-tail", [1.0, 0.995], 0.0, 170e3),
            score("clamp", [0.8, 0.4], 0.3, 30e3),
            score("constant-queue", [0.97, 0.6], 0.4, 40e3),
        ];
        // What loses a fifth is no choice, however little it holds, and a split is what all are compared with.
        assert_eq!(
            of(&scores),
            [
                vec!["path-tail"],
                vec!["path-tail"],
                vec!["constant-queue"],
                vec!["constant-queue"],
                vec!["path-tail"]
            ]
        );
        let worse = [score("path-tail", [0.9, 0.5], 0.2, 170e3)];
        assert!(of(&worse).iter().all(Vec::is_empty), "{:?}", advice(&worse));
    }
}
