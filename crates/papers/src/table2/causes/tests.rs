//! Causes that hold, and that do not.
use super::*;
use std::collections::BTreeSet;

#[test]
fn every_experiment_is_about_a_finding_and_can_be_run() {
    let claims = |row: &&Row| row.claims.is_some();
    let known: BTreeSet<String> = ROWS
        .iter()
        .filter(claims)
        .flat_map(|row| ASPECTS.map(|aspect| aspects::title(row.title, aspect)))
        .chain(Ends::ALL.map(|ends| verdict::worst("flow aggregation (auto)", ends)))
        .chain(Ends::ALL.into_iter().flat_map(|ends| {
            let places = LINKS.iter().flat_map(|link| Work::BOARD.map(|work| (link.name, work.name())));
            places.map(move |(link, work)| {
                verdict::behind_best("flow aggregation (auto)", ends, &format!("{link} {work}"))
            })
        }))
        .collect();
    for own in experiments() {
        assert!(known.contains(&own.about), "{}", own.about);
        assert!(!own.rows.is_empty() && !own.places.is_empty(), "{}", own.about);
        for place in &own.places {
            let study = place.study(&own.rows, 1).unwrap_or_else(|error| panic!("{}: {error}", place.name()));
            for point in study.points() {
                study.scenario(point).unwrap_or_else(|error| panic!("{}: {error}", place.name()));
            }
        }
    }
}

#[test]
fn every_experiment_changes_something() {
    let on_board = |own: &Experiment, place: &Place| {
        let usual = super::super::places().iter().any(|usual| usual.name() == place.name());
        usual && own.rows.iter().all(|row| ROWS.iter().any(|usual| usual.name == row.name))
    };
    for own in experiments() {
        let repeats = own.places.iter().all(|place| on_board(&own, place));
        // WTCP's fairness is set beside that of the same link with windows instead of rates, which is on the board, too.
        assert!(!repeats || own.about == "WTCP: fairness among flows", "{}", own.about);
    }
}

fn of(about: &str) -> Experiment {
    experiments().into_iter().find(|own| own.about == about).unwrap()
}

#[test]
fn who_is_behind_is_looked_into_where_it_is_behind() {
    let asked = |place: &str| {
        let what = verdict::behind_best("flow aggregation (auto)", Ends::Today, place);
        let finding = Finding::judged(what, "1.25", "1.5", false);
        let mut names = Vec::new();
        let run = |name: &str, _: &Place, _: &[&Row]| -> Result<Board> {
            names.push(name.to_owned());
            Ok(Board::default())
        };
        explain(vec![finding], &Board::default(), run).unwrap();
        names
    };
    let geo = asked("geo users");
    assert_eq!(geo, ["geo-users-today-auto-told", "geo-download-today-auto-told"]);
    assert_eq!(asked("geo download"), ["geo-download-today-auto-told"]);
    assert_eq!(asked("gprs pages"), ["gprs-pages-today-auto-told", "gprs-download-today-auto-told"]);
    assert_eq!(asked("5g-blockage pages"), ["5g-blockage-pages-today-auto-five-first"]);
    assert!(asked("lte upload").is_empty());
    assert!(asked("lte pages").is_empty(), "the cause is of WTCP alone, and nobody says that it is ahead");
}

fn tried(own: &Experiment, each: impl Fn(usize) -> Fared) -> Board {
    use super::super::measures::Score;
    let score = |(number, place): (usize, &Place)| Score {
        link: place.link.name,
        work: place.work.name(),
        ends: place.ends.name(),
        row: own.system(),
        fared: each(number),
    };
    Board(own.places.iter().enumerate().map(score).collect())
}

#[test]
fn a_timer_is_the_cause_only_where_nothing_is_sent() {
    let own = of("M-TCP: handles disconnections");
    let shown = |silent: f64| {
        let fared = Fared { resumed: Some(8.0), silent: Some(silent), ..Fared::default() };
        (own.judge)(&own, &Board::default(), &tried(&own, |_| fared.clone())).unwrap().holds
    };
    assert!(shown(6.0));
    assert!(!shown(1.0), "what was sent a second after the link was back took seven more");
}

#[test]
fn lost_acknowledgments_are_the_cause_only_where_it_resumes_in_time_without() {
    use super::super::measures::Score;
    let own = of("flow aggregation (paper): handles disconnections");
    let score = Score {
        link: GPRS,
        work: Work::Disconnection.name(),
        ends: Ends::Then.name(),
        row: own.system(),
        fared: Fared { resumed: Some(4.0), ..Fared::default() },
    };
    let board = Board(vec![score]);
    let shown = |each: [f64; 5]| {
        let tried = tried(&own, |place| Fared { resumed: Some(each[place]), ..Fared::default() });
        (own.judge)(&own, &board, &tried).unwrap().holds
    };
    assert!(shown([2.6, 2.0, 2.8, 2.25, 1.75]));
    assert!(!shown([4.5, 4.5, 3.5, 4.8, 4.3]), "as late without");
    assert!((own.judge)(&own, &board, &Board::default()).is_none(), "nothing was tried");
}

#[test]
fn a_timer_is_what_is_left_only_where_what_it_sends_is_soon_there() {
    let own = of("I-TCP: handles disconnections");
    let shown = |resumed: f64, silent: f64| {
        let fared = Fared { resumed: Some(resumed), silent: Some(silent), ..Fared::default() };
        (own.judge)(&own, &Board::default(), &tried(&own, |_| fared.clone())).unwrap().holds
    };
    assert!(shown(5.2, 3.9));
    assert!(!shown(5.2, 0.3), "what was sent at once took five seconds");
    assert!(!shown(3.0, 1.8), "it is in time");
}

#[test]
fn a_window_that_is_told_is_the_cause_only_where_it_comes_near_the_best() {
    use super::super::measures::Score;
    let own = of(&verdict::behind_best("flow aggregation (auto)", Ends::Then, "gprs pages"));
    let score = |row, work: Work, time| Score {
        link: GPRS,
        work: work.name(),
        ends: Ends::Then.name(),
        row,
        fared: Fared { time: Some(time), ..Fared::default() },
    };
    let board = Board(vec![
        score("auto", Work::Pages, 11.6),
        score("queue-price", Work::Pages, 8.5),
        score("auto", Work::Download, 76.0),
    ]);
    let shown = |pages: f64| {
        let times = [pages, 95.0];
        let tried = tried(&own, |place| Fared { time: Some(times[place]), ..Fared::default() });
        (own.judge)(&own, &board, &tried).unwrap()
    };
    assert!(shown(9.4).holds && shown(9.4).cause.contains("1.11"), "{}", shown(9.4).cause);
    assert!(shown(9.4).cause.contains("1.25 of its time"), "{}", shown(9.4).cause);
    assert!(!shown(11.0).holds, "as long without");
}

#[test]
fn the_first_segments_are_the_cause_only_where_as_many_come_near_the_best() {
    use super::super::measures::Score;
    let own = of(&verdict::behind_best("flow aggregation (auto)", Ends::Then, "5g-blockage pages"));
    let best = Score {
        link: "5g-blockage",
        work: Work::Pages.name(),
        ends: Ends::Then.name(),
        row: "wtcp",
        fared: Fared { time: Some(0.22), ..Fared::default() },
    };
    let board = Board(vec![best]);
    let shown = |time: f64| {
        let tried = tried(&own, |_| Fared { time: Some(time), ..Fared::default() });
        (own.judge)(&own, &board, &tried).unwrap()
    };
    assert!(shown(0.25).holds && shown(0.25).cause.contains("1.14"), "{}", shown(0.25).cause);
    assert!(!shown(0.30).holds);
}

#[test]
fn an_idle_link_is_the_cause_only_where_bulk_leaves_it_and_pages_alone_are_as_soon() {
    use super::super::measures::Score;
    let own = of(&verdict::behind_best("flow aggregation (auto)", Ends::Today, "lte pages"));
    let score = |link, work: Work, row, time| Score {
        link,
        work: work.name(),
        ends: Ends::Today.name(),
        row,
        fared: Fared { time: Some(time), ..Fared::default() },
    };
    let shown = |bulk: f64, alone: f64| {
        let board = Board(vec![
            score("lte", Work::Download, "whole", 20.0),
            score("lte", Work::Download, "wtcp", 20.0 * bulk),
        ]);
        let tried = Board(vec![
            score("lte-alone", Work::Pages, "wtcp", 0.3),
            score("lte-alone", Work::Pages, "auto", 0.3 * alone),
        ]);
        (own.judge)(&own, &board, &tried).unwrap()
    };
    assert!(shown(1.9, 1.05).holds && shown(1.9, 1.05).cause.contains("1.05"), "{}", shown(1.9, 1.05).cause);
    assert!(!shown(1.1, 1.05).holds, "its bulk uses the link");
    assert!(!shown(1.9, 1.3).holds, "pages alone are as late");
}

#[test]
fn what_an_experiment_does_not_show_stays_open() {
    let finding = |ours: &str| Finding::judged("Freeze-TCP: handles disconnections", "yes", ours, false);
    let run = |resumed: f64| {
        move |name: &str, _: &Place, rows: &[&Row]| -> Result<Board> {
            let own = of("Freeze-TCP: handles disconnections");
            assert_eq!((name, rows.len()), ("gprs-disconnection-then-freeze-tcp-warned", 1));
            Ok(tried(&own, |_| Fared { resumed: Some(resumed), ..Fared::default() }))
        }
    };
    let cause = |resumed| {
        let (found, _) = explain(vec![finding("no")], &Board::default(), run(resumed)).unwrap();
        found[0].cause.clone()
    };
    assert!(cause(2.0).is_some_and(|cause| cause.contains("gprs-disconnection-then")));
    assert_eq!(cause(9.0), None);
}

#[test]
fn what_holds_is_not_looked_into() {
    let finding = Finding::judged("Freeze-TCP: handles disconnections", "yes", "yes", true);
    let never = |_: &str, _: &Place, _: &[&Row]| -> Result<Board> { panic!("run") };
    assert!(explain(vec![finding], &Board::default(), never).is_ok());
}
