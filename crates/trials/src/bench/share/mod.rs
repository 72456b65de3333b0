//! How clients share nodes of unequal strength: with their own code, beside other rules, and beside who knows at each moment how all nodes are.
mod network;

use crate::error::{Result, TrialError};
use crate::trial::{Judgement, Trial};
use network::{OVERLOADED, Rule, Session, Setting, run};
use serde_json::json;
use shorthaul_report::{Column, Console, Progress, Table, Unit};
use shorthaul_types::Seed;

/// How long sessions take where clients share nodes, beside what they would with somebody who knows all at each moment
///
/// Five nodes of strengths 1, 2, 3, 5 and 9 (times 10 Mbit/s), and clients that fetch about a megabyte, pause, and fetch the next. Each node shares evenly what it can do.
/// Clients choose with the code of `shorthaul proxy`; other rules stand beside it, to show why. Then the strongest node does a tenth of what it can for 40 s:
/// how soon do sessions leave it, and come back? The last line is the result as JSON.
#[derive(clap::Args)]
pub struct Share {
    /// Clients
    #[arg(long, default_value_t = 200)]
    clients: usize,
    /// Nodes tell how they are each so many seconds
    #[arg(long, default_value_t = 1.0)]
    tells: f64,
    /// Runs of each
    #[arg(long, default_value_t = 3)]
    runs: u64,
    /// What chance is drawn from
    #[arg(long, default_value_t = 23)]
    seed: u64,
}

/// The slowest tenth takes so many times as long as the optimum's at most.
const BESIDE_OPTIMUM: f64 = 1.3;
/// Sessions leave an overloaded node within so many seconds.
const LEAVES: f64 = 10.0;
/// And come back within so many, once it is as strong as before.
const RETURNS: f64 = 10.0;
/// Seconds that are simulated, before any is counted, and in which a node is overloaded.
const SECONDS: f64 = 150.0;
const SETTLES: f64 = 20.0;
const OVERLOAD: std::ops::Range<f64> = 60.0..100.0;
/// Seconds between sessions: all nodes always busy, and not.
const PAUSES: [f64; 2] = [4.0, 9.0];
const RULES: [(Rule, &str); 5] = [
    (Rule::Client, "the clients' own"),
    (Rule::TwoChoices, "the less loaded of two"),
    (Rule::Strength, "by strength alone"),
    (Rule::BestTold, "the best of what was told"),
    (Rule::Optimum, "who knows all nodes now"),
];

/// What came of a rule.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
struct Outcome {
    /// Seconds of the slowest tenth on average, by [`PAUSES`].
    slowest: [f64; 2],
    /// The overloaded node's share of sessions: before, in its last 30 s, and from 30 s after it.
    before: f64,
    during: f64,
    after: f64,
    /// Seconds until its share is less than half of what it was, and until it is more than half again.
    leaves: f64,
    returns: f64,
}

impl Trial for Share {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        if self.clients == 0 || self.runs == 0 || self.tells.is_nan() || self.tells <= 0.0 {
            return Err(TrialError::asked("without clients, runs or news of nodes nothing is measured"));
        }
        let progress = Progress::begin(console, RULES.len() * self.runs as usize);
        let mut outcomes = Vec::new();
        for (rule, name) in RULES {
            let mut runs = Vec::new();
            for number in 0..self.runs {
                runs.push(self.outcome(Seed(self.seed).nth(number), rule)?);
                progress.step(name);
            }
            outcomes.push((name, mean(&runs)));
        }
        drop(progress);
        Ok(self.verdict(&outcomes, console))
    }
}

impl Share {
    fn outcome(&self, seed: Seed, rule: Rule) -> Result<Outcome> {
        let setting = |pause, overload| Setting {
            clients: self.clients,
            seconds: SECONDS,
            pause,
            tells: self.tells,
            overload,
        };
        let mut outcome = Outcome::default();
        for (slowest, pause) in outcome.slowest.iter_mut().zip(PAUSES) {
            *slowest = slowest_tenth(&run(seed, rule, &setting(pause, 0.0..0.0))?);
        }
        let sessions = run(seed, rule, &setting(PAUSES[1], OVERLOAD))?;
        let share = |from: f64, to: f64| share(&sessions, from, to);
        outcome.before = share(SETTLES, OVERLOAD.start);
        outcome.during = share(OVERLOAD.end - 30.0, OVERLOAD.end);
        outcome.after = share(OVERLOAD.end + 30.0, SECONDS);
        let half = outcome.before / 2.0;
        // By the sessions of two seconds.
        let until = |from: f64, is_so: &dyn Fn(f64) -> bool| {
            let seconds = (0..).map(f64::from).take_while(|at| from + at + 2.0 <= SECONDS);
            let mut so = seconds.filter(|at| is_so(share(from + at, from + at + 2.0)));
            so.next().map_or(f64::INFINITY, |at| at + 2.0)
        };
        outcome.leaves = until(OVERLOAD.start, &|share| share < half);
        outcome.returns = until(OVERLOAD.end, &|share| share > half);
        Ok(outcome)
    }

    fn verdict(&self, outcomes: &[(&str, Outcome)], console: &dyn Console) -> Judgement {
        let optimum = outcomes.last().map_or([f64::NAN; 2], |(_, optimum)| optimum.slowest);
        let beside = |outcome: &Outcome, at: usize| outcome.slowest[at] / optimum[at];
        let right =
            ["busy", "beside optimum", "not busy", "beside optimum", "share before", "overloaded", "after"];
        let right = right.into_iter().chain(["leaves within", "back within"]).map(Column::right);
        let mut table = Table::new([Column::left("slowest tenth")].into_iter().chain(right));
        for (name, outcome) in outcomes {
            let seconds = |seconds: f64| {
                if seconds.is_finite() { Unit::Seconds.format(seconds) } else { "never".to_owned() }
            };
            let mut row = vec![(*name).to_owned()];
            for at in 0..PAUSES.len() {
                row.extend([seconds(outcome.slowest[at]), Unit::Times.format(beside(outcome, at))]);
            }
            row.extend(
                [outcome.before, outcome.during, outcome.after].map(|share| Unit::Percent.format(share)),
            );
            row.extend([outcome.leaves, outcome.returns].map(seconds));
            table.row(row);
        }
        console.table(&table);
        let Some((_, ours)) = outcomes.first() else { return Judgement::holds(json!({})) };
        let mut failures = Vec::new();
        for (at, pause) in PAUSES.iter().enumerate() {
            let times = beside(ours, at);
            if times.is_nan() || times > BESIDE_OPTIMUM {
                failures.push(format!(
                    "with pauses of {pause} s the slowest tenth takes {times:.2} times as long as the optimum's, where {BESIDE_OPTIMUM} was asked"
                ));
            }
        }
        if ours.leaves > LEAVES {
            failures.push(format!(
                "sessions left an overloaded node within {} s, where {LEAVES} s was asked",
                ours.leaves
            ));
        }
        if ours.returns > RETURNS {
            failures.push(match ours.returns.is_finite() {
                true => format!(
                    "sessions came back to a node that was overloaded within {} s, where {RETURNS} s was asked",
                    ours.returns
                ),
                false => "sessions did not come back to a node that was overloaded".to_owned(),
            });
        }
        let each: Vec<_> =
            outcomes.iter().map(|(name, outcome)| json!({ "rule": name, "outcome": outcome })).collect();
        let json = json!({
            "clients": self.clients, "tells": self.tells, "runs": self.runs, "seed": self.seed, "pauses": PAUSES,
            "beside_optimum": [beside(ours, 0), beside(ours, 1)], "leaves": ours.leaves, "returns": ours.returns, "each": each,
        });
        Judgement::holds(json).unless((!failures.is_empty()).then(|| failures.join("; ")))
    }
}

/// How long the slowest tenth takes on average. What is not done yet counts with what it has taken.
fn slowest_tenth(sessions: &[Session]) -> f64 {
    let counted =
        sessions.iter().filter(|session| session.asked > SETTLES && session.asked < SECONDS - SETTLES);
    let mut times: Vec<f64> = counted.map(|session| session.took.min(SECONDS - session.asked)).collect();
    times.sort_by(f64::total_cmp);
    let slowest = &times[times.len() * 9 / 10..];
    slowest.iter().sum::<f64>() / slowest.len() as f64
}

/// Of the sessions that began in this time, how many began at the node that is overloaded.
fn share(sessions: &[Session], from: f64, to: f64) -> f64 {
    let of: Vec<&Session> = sessions.iter().filter(|session| (from..to).contains(&session.asked)).collect();
    of.iter().filter(|session| session.node == OVERLOADED).count() as f64 / of.len().max(1) as f64
}

/// Means of all; what never came in one run is never.
fn mean(runs: &[Outcome]) -> Outcome {
    let of = |what: &dyn Fn(&Outcome) -> f64| runs.iter().map(what).sum::<f64>() / runs.len() as f64;
    Outcome {
        slowest: [of(&|o| o.slowest[0]), of(&|o| o.slowest[1])],
        before: of(&|o| o.before),
        during: of(&|o| o.during),
        after: of(&|o| o.after),
        leaves: of(&|o| o.leaves),
        returns: of(&|o| o.returns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_learn_ways_share_nodes_as_well_as_who_knows_all() {
        let setting =
            |pause, overload| Setting { clients: 200, seconds: SECONDS, pause, tells: 1.0, overload };
        for pause in PAUSES {
            let slowest = |rule| slowest_tenth(&run(Seed(3), rule, &setting(pause, 0.0..0.0)).unwrap());
            let (ours, optimum) = (slowest(Rule::Client), slowest(Rule::Optimum));
            assert!(ours <= BESIDE_OPTIMUM * optimum, "pause {pause}: {ours} {optimum}");
        }
        let sessions = run(Seed(3), Rule::Client, &setting(PAUSES[1], OVERLOAD)).unwrap();
        let share = |from, to| share(&sessions, from, to);
        let (before, during, after) = (share(40.0, 60.0), share(60.0 + LEAVES, 100.0), share(110.0, SECONDS));
        assert!(before > 0.35 && during < 0.15 && after > 0.35, "{before} {during} {after}");
        let bench = Share { clients: 200, tells: 1.0, runs: 1, seed: 3 };
        let outcome = bench.outcome(Seed(3), Rule::Client).unwrap();
        assert!(outcome.leaves <= LEAVES && outcome.returns <= RETURNS, "{outcome:?}");
    }

    #[test]
    fn who_comes_back_late_or_never_is_a_failure() {
        let bench = Share { clients: 200, tells: 1.0, runs: 1, seed: 3 };
        let outcome = |returns| Outcome {
            slowest: [1.0; 2],
            before: 0.5,
            during: 0.1,
            after: 0.5,
            leaves: 2.0,
            returns,
        };
        let failure = |returns| {
            let outcomes = [("ours", outcome(returns)), ("optimum", outcome(2.0))];
            bench.verdict(&outcomes, &shorthaul_report::Silence).failure
        };
        assert_eq!(failure(RETURNS), None);
        assert!(failure(12.0).is_some_and(|why| why.contains("within 12 s")));
        assert!(failure(f64::INFINITY).is_some_and(|why| why.contains("did not come back")));
    }

    #[test]
    fn two_choices_share_nodes_where_the_best_of_what_was_told_is_where_all_go() {
        let setting =
            |overload| Setting { clients: 200, seconds: SECONDS, pause: PAUSES[0], tells: 1.0, overload };
        let slowest = |rule| slowest_tenth(&run(Seed(3), rule, &setting(0.0..0.0)).unwrap());
        let (ours, optimum, herd) =
            (slowest(Rule::TwoChoices), slowest(Rule::Optimum), slowest(Rule::BestTold));
        assert!(ours <= BESIDE_OPTIMUM * optimum && herd > 1.5 * ours, "{ours} {optimum} {herd}");
        let sessions = run(Seed(3), Rule::TwoChoices, &setting(OVERLOAD)).unwrap();
        let share = |from, to| share(&sessions, from, to);
        let (before, during, after) = (share(40.0, 60.0), share(60.0 + LEAVES, 100.0), share(110.0, SECONDS));
        assert!(before > 0.35 && during < 0.15 && after > 0.35, "{before} {during} {after}");
    }
}
