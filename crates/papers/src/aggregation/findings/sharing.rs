//! How flows share what the proxy sends: Figures 5 and 10.
use super::super::measures::*;
use super::{percent, seconds};
use shorthaul_observe::{Finding, Outcome, RunRecord};
use shorthaul_report::Unit;
use shorthaul_scenario::Series;

/// When all three of `fig5-classes` run: after the first windows, until the shorter of the long flows ends, in seconds.
const BOTH: [f64; 2] = [60.0, 290.0];
/// Strict priority has an effect if an answer takes this share less with it.
const SOONER: f64 = 0.05;
/// A ratio or a share that is off by no more than this agrees.
const SHARED: f64 = 0.15;

/// What a flow of a case gets of what the long ones get while both run.
fn share(records: &[RunRecord], case: &str, flow: &str) -> Option<f64> {
    let of = |outcome: &Outcome, flow: &str| {
        Some(gain(points(outcome, Series::Delivered, flow)?, BOTH[0], BOTH[1]))
    };
    let shares = outcomes(records, case)
        .filter_map(|(_, outcome)| Some(of(outcome, flow)? / (of(outcome, "www")? + of(outcome, "ftp")?)));
    mean(&shares.collect::<Vec<_>>())
}

/// "Strict priority to interactive flows (such as Telnet) while … sharing out the remaining bandwidth in a fixed ratio between WWW and FTP
/// flows" (§IV-B).
pub(super) fn classes(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let answer = |case| mean(&transfers_of(records, case, "telnet"));
    let of_www = |what: &str, case: &str, stated: f64| {
        let found = Finding::number(
            format!("§IV-B: {what}, the share of WWW beside FTP"),
            percent(stated),
            share(records, case, "www")?,
            Unit::Percent,
        );
        Some(found.within(SHARED, stated).model(format!("{}: tickets", percent(stated))))
    };
    let (first, last) = (answer("priority")?, answer("tickets")?);
    // Answers of several turns: live, and of old records, there are none.
    let long = answer("long-priority").zip(answer("long-tickets"));
    Some(vec![
        of_www("equal tickets", "equal", 0.5)?,
        of_www("three tickets to one", "tickets", 0.75)?,
        of_www("three tickets to one beside Telnet, which is served first", "priority", 0.75)?,
        Finding::judged(
            "§IV-B: an answer of Telnet beside both, with strict priority",
            format!("before what others have to send (≥ {} sooner is asked)", percent(SOONER)),
            format!("{}, {} without priority, {} directly", seconds(first), seconds(last), seconds(answer("direct")?)),
            first <= (1.0 - SOONER) * last && first < 0.5 * answer("direct")?,
        )
        .because("what a flow of small packets has to send has its turn at once by tickets, too: the window's round trip is what is left")
        .explained(
            format!(
                "an answer of 100 B is a single turn, which who was silent has at once by tickets, too: one of 4 kB takes {} with strict priority and {} without (cases `long`)",
                long.map_or("none".to_owned(), |(first, _)| seconds(first)),
                long.map_or("none".to_owned(), |(_, last)| seconds(last)),
            ),
            long.is_some_and(|(first, last)| first <= (1.0 - SOONER) * last),
        ),
    ])
}

pub(super) fn joining(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let set_up = |case| mean(&set_ups(records, case, "second"));
    let times = |case| mean(&transfers_of(records, case, "second"));
    let instead = |ours: f64, direct: f64| format!("{} instead of {}", seconds(ours), seconds(direct));
    let fairness = shared_fairness(records, "aggregate")?;
    let mut found = vec![
        Finding::judged(
            "Fig. 10: the second flow's connection",
            "quickly, instead of a long time",
            instead(set_up("aggregate")?, set_up("direct")?),
            set_up("aggregate")? < 0.5 * set_up("direct")?,
        ),
        Finding::judged(
            "Fig. 10: 50 kB of the second flow take",
            "its fair share, instead of little progress",
            instead(times("aggregate")?, times("direct")?),
            times("aggregate")? < 0.9 * times("direct")?,
        ),
        Finding::number("Fig. 10: Jain's index while both run, by the proxy", "fair", fairness, Unit::None)
            .at_least(0.95)
            .because(format!("{:.3} directly", shared_fairness(records, "direct")?)),
    ];
    found.push(
        Finding::number(
            "Fig. 10: when the first flow terminates, direct",
            "about 60 s",
            mean(&transfers_of(records, "direct", "first"))?,
            Unit::Seconds,
        )
        .within(0.1, 60.0),
    );
    if let Some([alone, shared]) = outstanding_of_first(records, "aggregate") {
        found.push(
            Finding::number(
                "Fig. 10: the first flow's outstanding data beside the second, of that alone",
                "about half",
                shared / alone,
                Unit::Percent,
            )
            .within(0.2, 0.5)
            .model(format!("{}: equal tickets", percent(0.5)))
            .because(format!(
                "{}, then {}",
                Unit::Bytes.format(alone),
                Unit::Bytes.format(shared)
            )),
        );
    }
    Some(found)
}

/// Figure 10 with a window that the gateway finds itself (`fig10-auto`).
pub(super) fn joining_auto(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let connects = mean(&set_ups(records, "auto", "second"))?;
    Some(vec![
        Finding::number(
            "Fig. 10, auto: Jain's index while both run",
            "fair",
            shared_fairness(records, "auto")?,
            Unit::None,
        )
        .at_least(0.95)
        .because(format!(
            "the second flow's connection takes {}, its 50 kB {}",
            seconds(connects),
            seconds(mean(&transfers_of(records, "auto", "second"))?)
        )),
    ])
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;
    use crate::testing::{Having, holds, run};

    /// Two flows, of which the second gets `share` of each second.
    fn two(case: Option<&str>, share: f64, set_up: f64, takes: f64) -> RunRecord {
        let curve = |share: f64| (0..60).map(|at| (f64::from(at), share * f64::from(at))).collect::<Vec<_>>();
        let subject = if case == Some("aggregate") { "first@proxy" } else { "first" };
        let in_flight: Vec<(f64, f64)> =
            (0..60).map(|at| (f64::from(at), if at < 31 { 14e3 } else { 14e3 * (1.0 - share) })).collect();
        run(case, &[])
            .flow("first", 1.0, &[60.0], &[1.0])
            .flow("second", 1.0, &[takes], &[set_up])
            .series(Series::Delivered, "first", &curve(1.0 - share))
            .series(Series::Delivered, "second", &curve(share))
            .series(Series::InFlight, subject, &in_flight)
    }

    #[test]
    fn joining_is_judged_beside_that_without_the_proxy() {
        let with = |share, set_up, takes| {
            found(
                joining,
                &[two(Some("aggregate"), share, set_up, takes), two(Some("direct"), 0.02, 16.0, 44.0)],
            )
        };
        assert!(holds(&with(0.5, 4.0, 31.0), "Fig. 10"));
        assert!(!holds(&with(0.5, 16.0, 31.0), "connection") && !holds(&with(0.5, 4.0, 44.0), "50 kB"));
        assert!(holds(&found(joining_auto, &[two(Some("auto"), 0.5, 4.0, 31.0)]), "auto"));
        assert!(!holds(&found(joining_auto, &[two(Some("auto"), 0.1, 4.0, 31.0)]), "auto"));
        assert!(!holds(&with(0.1, 4.0, 31.0), "Jain") && !holds(&with(0.1, 4.0, 31.0), "outstanding"));
    }

    #[test]
    fn classes_are_judged_by_their_tickets_and_their_priority() {
        let of = |www: f64, answers: [f64; 3]| {
            let curve =
                |share: f64| (0..300).map(|at| (f64::from(at), share * f64::from(at))).collect::<Vec<_>>();
            let case = |name: &str, www: f64, answer: f64| {
                run(Some(name), &[])
                    .flow("telnet", 1.0, &[answer], &[])
                    .series(Series::Delivered, "www", &curve(www))
                    .series(Series::Delivered, "ftp", &curve(1.0 - www))
            };
            let [direct, last, first] = answers;
            found(
                classes,
                &[
                    case("direct", 0.5, direct),
                    case("equal", 0.5, last),
                    case("tickets", www, last),
                    case("priority", www, first),
                ],
            )
        };
        assert!(holds(&of(0.75, [14.0, 5.0, 3.0]), "§IV-B"));
        assert!(!holds(&of(0.5, [14.0, 5.0, 3.0]), "three tickets"), "equal shares are none of three to one");
        assert!(!holds(&of(0.75, [14.0, 5.0, 6.0]), "strict priority"), "later than without");
        assert!(!holds(&of(0.75, [14.0, 9.0, 8.0]), "strict priority"), "hardly sooner than directly");
        assert!(!holds(&of(0.75, [24.0, 3.55, 3.55]), "strict priority"), "a tie");
        assert_eq!(of(0.75, [24.0, 3.55, 3.55])[3].cause, None, "nothing longer was tried");
    }

    #[test]
    fn a_single_turn_is_the_cause_only_where_more_turns_come_sooner_by_priority() {
        let cause = |long: f64| {
            let case = |name: &str, answer: f64| {
                let both = [(0.0, 0.0), (100.0, 5e5), (300.0, 1e6)];
                run(Some(name), &[])
                    .flow("telnet", 1.0, &[answer], &[])
                    .series(Series::Delivered, "www", &both)
                    .series(Series::Delivered, "ftp", &both)
            };
            let records = [
                case("direct", 24.0),
                case("equal", 3.5),
                case("tickets", 3.5),
                case("priority", 3.5),
                case("long-tickets", 7.0),
                case("long-priority", long),
            ];
            found(classes, &records)[3].cause.clone()
        };
        assert!(cause(4.4).is_some_and(|cause| cause.contains("4.40 s")));
        assert_eq!(cause(7.0), None);
    }
}
