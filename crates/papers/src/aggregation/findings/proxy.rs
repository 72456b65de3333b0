//! What the proxy does for short downloads and windows: Figures 9 and 11.
use super::super::measures::*;
use super::auto::{auto_on, kept_back, within_its_interval};
use super::problem::range;
use super::{
    DOWN, DOWNLINK, Link, NEAR, UP, WAITS, acks_at_a_time, is_four, links, of_link, percent, seconds,
};
use shorthaul_observe::{Finding, RunRecord, Summary};
use shorthaul_report::Unit;

pub(super) fn short_downloads(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let gain = |case: &str, kb| {
        let time = |case| mean(&transfers(records, case, Some(kb)));
        Some(1.0 - time(case)? / time("direct")?)
    };
    let mut found = Vec::new();
    for kb in SIZES {
        let times = |case| {
            let all = transfers(records, case, Some(kb));
            Some(format!("{} ± {}", seconds(mean(&all)?), seconds(deviation(&all)?)))
        };
        let saved = gain("aggregate", kb)?;
        let what = format!("Fig. 9: {kb} kB, saved of the time of a direct download");
        found.push(Finding::number(what, "clear benefits", saved, Unit::Percent).at_least(0.1).because(
            format!(
                "{} instead of {}; {} with auto",
                times("aggregate")?,
                times("direct")?,
                percent(gain("auto", kb)?)
            ),
        ));
    }
    Some(found)
}

/// The sizes of Figure 9, in kilobytes.
const SIZES: [f64; 7] = [5.0, 10.0, 15.0, 17.0, 20.0, 25.0, 30.0];

/// The times of a case, in seconds: means by size.
fn times(records: &[RunRecord], case: &str, sizes: &[f64]) -> Option<Vec<f64>> {
    sizes.iter().map(|kb| mean(&transfers(records, case, Some(*kb)))).collect()
}

/// The mean share that times save of others, size by size.
fn saved_of(ours: &[f64], of: &[f64]) -> Option<f64> {
    mean(&ours.iter().zip(of).map(|(ours, of)| 1.0 - ours / of).collect::<Vec<_>>())
}

/// The mean share that a case saves of another one's times, over all sizes.
fn saved(records: &[RunRecord], case: &str, of: &str) -> Option<f64> {
    saved_of(&times(records, case, &SIZES)?, &times(records, of, &SIZES)?)
}

/// What is saved of each size, in words.
fn by_size(ours: &[f64], of: &[f64], what: &str) -> String {
    let each = SIZES.iter().zip(ours.iter().zip(of));
    let each: Vec<String> =
        each.map(|(kb, (ours, of))| format!("{kb} kB {}", percent(1.0 - ours / of))).collect();
    format!("{what}{}", each.join(", "))
}

/// "Even with the Linux 2.4 receiver, the proxy provides significant performance gains", though "the performance improvement was not
/// better than using Windows 2000 or WinCE clients … due to Linux offering an initial receive window of just 5392 bytes" (§VI-A). Beside the direct
/// download of `fig9`: "when used with a normal TCP sender, Linux expands the window sufficiently quickly for it to never be the limiting factor".
/// In `fig9` that window stays, which is no Linux 2.4; in `fig9-window` it grows.
pub(super) fn small_window(records: &[RunRecord], growing: &[RunRecord]) -> Option<Vec<Finding>> {
    let direct = times(records, "direct", &SIZES)?;
    let usual = saved_of(&times(records, "aggregate", &SIZES)?, &direct)?;
    let fixed = saved_of(&times(records, "small-aggregate", &SIZES)?, &direct)?;
    let what = "Fig. 9, a receive window of 5392 bytes";
    let mut found = Vec::new();
    if let (Some(ours), Some(alone)) =
        (times(growing, "growing-aggregate", &SIZES), times(growing, "growing-direct", &SIZES))
    {
        let share = saved_of(&ours, &direct)?;
        found.extend([
            Finding::number(
                format!("{what} that grows: saved, mean of all sizes"),
                "significant gains",
                share,
                Unit::Percent,
            )
            .at_least(0.1)
            .because(by_size(&ours, &direct, "")),
            Finding::judged(
                format!("{what} that grows: saved, beside that with 64 kB"),
                "not better",
                format!("{} and {}", percent(share), percent(usual)),
                share <= usual,
            ),
            Finding::number(
                format!("{what} that grows: what it costs a direct download, mean of all sizes"),
                "never the limiting factor",
                -saved_of(&alone, &direct)?,
                Unit::Percent,
            )
            .at_most(NEAR),
        ]);
    }
    found.push(
        Finding::number(
            format!("{what} that never grows: saved, mean of all sizes"),
            "none: theirs grows (a gain is asked)",
            fixed,
            Unit::Percent,
        )
        .at_least(0.0)
        .because(by_size(
            &times(records, "small-aggregate", &SIZES)?,
            &times(records, "small-direct", &SIZES)?,
            "of a direct download with that window: ",
        ))
        .explained(
            format!(
                "the window, which does not grow: with one that does {} are saved (`fig9-window`)",
                percent(found.first().and_then(|grown| grown.value).unwrap_or(f64::NAN))
            ),
            found.first().and_then(|grown| grown.value).is_some_and(|grown| grown > 0.0),
        ),
    );
    Some(found)
}

/// "If smaller MSSs are used, the speedup is more marked" (§VI-A): packets of 588 bytes beside those of 1452.
pub(super) fn small_segments(small: &[RunRecord], usual: &[RunRecord]) -> Option<Vec<Finding>> {
    let sizes = [5.0, 10.0, 20.0, 30.0];
    let share = |records: &[RunRecord], sizes: &[f64]| {
        saved_of(&times(records, "aggregate", sizes)?, &times(records, "direct", sizes)?)
    };
    let (all, beside) = (share(small, &sizes)?, share(usual, &sizes)?);
    let each: Vec<String> = sizes
        .iter()
        .filter_map(|kb| {
            Some(format!("{kb} kB {} and {}", percent(share(small, &[*kb])?), percent(share(usual, &[*kb])?)))
        })
        .collect();
    Some(vec![
        Finding::judged(
            "Fig. 9, text: saved with segments of 536 bytes, beside those of 1400",
            "more marked",
            format!("{} and {}", percent(all), percent(beside)),
            all > beside,
        )
        .because(each.join(", ")),
    ])
}

/// "This benefit is maintained and even enhanced when using HTTP/1.1 persistent TCP connections … more pronounced due to the lack of connection
/// establishment and termination phases" (§VI-A).
pub(super) fn persistent_connections(records: &[RunRecord], each: &[RunRecord]) -> Option<Vec<Finding>> {
    let share = saved(records, "aggregate", "direct")?;
    let beside = saved(each, "aggregate", "direct")?;
    let less = |records: &[RunRecord]| {
        let (direct, ours) = (times(records, "direct", &SIZES)?, times(records, "aggregate", &SIZES)?);
        Summary::of(direct.iter().zip(&ours).map(|(direct, ours)| direct - ours))
    };
    let (persistent, single) = (less(records)?, less(each)?);
    let set_up = |case| mean(&set_ups(each, case, "files")).map_or("?".to_owned(), seconds);
    let in_words =
        |saved: &Summary| format!("{} to {}", seconds(saved.percentile(0.0)), seconds(saved.percentile(1.0)));
    Some(vec![
        Finding::judged(
            "Fig. 9, text: share saved on persistent connections, beside a connection each",
            "maintained and even enhanced",
            format!("{} and {}", percent(share), percent(beside)),
            share > beside,
        ),
        Finding::judged(
            "Fig. 9, text: seconds saved on persistent connections, beside a connection each",
            "maintained and even enhanced",
            format!(
                "{} and {} (mean {} and {})",
                in_words(&persistent),
                in_words(&single),
                seconds(persistent.mean),
                seconds(single.mean)
            ),
            persistent.mean >= single.mean,
        )
        .because(format!(
            "a handshake takes {} directly and {} with the proxy",
            set_up("direct"),
            set_up("aggregate")
        )),
    ])
}

/// The windows of `fig11-delays`, smallest first.
pub(super) const WINDOWS: [&str; 5] = ["7kB", "10kB", "12kB", "14kB", "32kB"];

/// The smallest window with which 600 kB take the paper's time.
fn knee(records: &[RunRecord]) -> Option<&'static str> {
    let time = |case: &str| mean(&transfers(records, case, None));
    WINDOWS.into_iter().find(|case| time(case).is_some_and(|time| time <= (1.0 + NEAR) * FULL))
}

/// On which links the effective product is the paper's 10 kB and acknowledgments come four at a time, as in its Figure 2(b), and what `auto` does there
/// and where packets of Figure 1a take as long at least as in the paper.
pub(super) fn knee_by_delays(
    records: &[RunRecord],
    bunching: &[RunRecord],
    single: &[RunRecord],
) -> Option<Vec<Finding>> {
    let all: Vec<(Link, &str, f64)> = links(records)
        .into_iter()
        .filter_map(|link| {
            Some((link, knee(&of_link(records, &link))?, acks_at_a_time(&of_link(bunching, &link))?))
        })
        .collect();
    let fours: Vec<_> = all.iter().filter(|(_, _, acks)| is_four(*acks)).collect();
    // The longest delays, which are nearest to Figure 1's.
    let both = fours.iter().find(|(_, knee, _)| *knee == "10kB").map(|(link, ..)| *link);
    let of_fours: Vec<String> = fours
        .iter()
        .map(|(link, knee, _)| format!("{knee} with {} down and {} up", link.down, link.up))
        .collect();
    // The one that bunches most of those whose knee is there without four at a time.
    let others = all.iter().filter(|(_, knee, acks)| *knee == "10kB" && !is_four(*acks));
    let nearest = others.max_by(|one, other| one.2.total_cmp(&other.2));
    let begins =
        |case: &str| range(single, case, "down", 0.0).map_or("?".to_owned(), |[least, ..]| seconds(least));
    let mut found = vec![
        Finding::judged(
            "Fig. 11 and 2b: the window from which 600 kB take 155 s, where four acknowledgments come at a time",
            "10 kB",
            of_fours.join(", "),
            both.is_some(),
        )
        .because(format!(
            "a packet of Fig. 1a takes {} at least with the shortest delays, {} with 200 and 150 ms, and 600 ms in the paper; where the uplink waits less the knee is at 10 kB, too, but acknowledgments come {} (sweeps `fig11-delays` and `fig2-bunching`)",
            begins("shortest"),
            begins("short"),
            nearest.map_or("otherwise nowhere".to_owned(), |(link, _, acks)| format!("{acks:.1} at a time at most ({link})"))
        )),
    ];
    if let Some(link) = both {
        let own = of_link(records, &link);
        found.push(
            Finding::number(
                format!("Fig. 11: 600 kB with 10 kB, {link}"),
                "155 s",
                mean(&transfers(&own, "10kB", None))?,
                Unit::Seconds,
            )
            .within(NEAR, FULL),
        );
    }
    for link in both.into_iter().chain([Link::SHORT]) {
        let own = of_link(records, &link);
        found.extend(auto_on(&own, &format!("auto, {link}")).unwrap_or_default());
    }
    let throughput = |link: &Link| {
        let own = of_link(records, link);
        let time = |case: &str| mean(&transfers(&own, case, None));
        Some(WINDOWS.into_iter().filter_map(time).reduce(f64::min)? / time("auto")?)
    };
    let worst = all.iter().filter_map(|(link, ..)| Some((throughput(link)?, link)));
    if let Some((share, link)) = worst.min_by(|one, other| one.0.total_cmp(&other.0)) {
        let own = Finding::number(
            "auto, the worst of the links of that sweep: throughput of the best fixed window",
            "≥ 0.97 is asked",
            share,
            Unit::None,
        );
        let own = own.at_least(0.97).because(format!("{link}, of {} links", all.len()));
        found.push(within_its_interval(own, &of_link(records, link), share));
    }
    if let Some(alone) = rtt(&of_link(records, &Link::PRESET), "one-segment") {
        let products: Vec<(f64, Link)> = links(records)
            .into_iter()
            .filter_map(|link| Some((rtt(&of_link(records, &link), "one-segment")? * DOWNLINK, link)))
            .collect();
        let at_a_time = |link: &Link| acks_at_a_time(&of_link(bunching, link)).unwrap_or(f64::NAN);
        let shortest = products.iter().copied().min_by(|one, other| one.0.total_cmp(&other.0));
        let of_fours = products.iter().filter(|(_, link)| is_four(at_a_time(link)));
        let of_fours = of_fours.map(|(product, _)| *product).fold(f64::INFINITY, f64::min);
        found.push(
            Finding::number("§III: the product of rate and round trip without a queue", "around 5 kB", alone * DOWNLINK, Unit::Bytes)
                .within(AROUND, PRODUCT_ALONE)
                .because(shortest.map_or(String::new(), |(product, link)| {
                    format!(
                        "round trips of one segment, {}, with the 200 ms that a phone delays acknowledgments; tried: {} at least, {link}",
                        seconds(alone),
                        Unit::Bytes.format(product)
                    )
                }))
                .explained(
                    shortest.map_or(String::new(), |(product, link)| {
                        format!(
                            "the round trip, above all what the uplink waits for packets to send together: it is {}, {link} (sweep `fig11-delays`), where acknowledgments come {:.1} at a time and not four as in Figure 2(b); where they do it is {} at least",
                            Unit::Bytes.format(product),
                            at_a_time(&link),
                            Unit::Bytes.format(of_fours)
                        )
                    }),
                    shortest.is_some_and(|(product, _)| (product / PRODUCT_ALONE - 1.0).abs() <= AROUND),
                ),
        );
    }
    Some(found)
}

/// "The actual value of BDP … may be somewhat less, around 5 kB" (§III), in bytes, and what that may be off by.
const PRODUCT_ALONE: f64 = 5e3;
const AROUND: f64 = 0.2;

/// How long the paper's 600 kB take with a window that fills the link.
pub(in crate::aggregation) const FULL: f64 = 155.0;
/// Their size.
const SIZE: f64 = 600e3;

/// The link on which 10 kB fill it and four acknowledgments come at a time.
const SHORTEST: Link = Link { down: DOWN[2], up: UP[2], ..Link::PRESET };

/// The figure with the model's own link, beside links with other delays (`fig11-delays`) and direct downloads with other windows (`fig11-direct`).
pub(super) fn windows(
    records: &[RunRecord],
    delays: &[RunRecord],
    direct: &[RunRecord],
) -> Option<Vec<Finding>> {
    let time = |case: &str| mean(&transfers(records, case, None));
    let beside = |case: &str| {
        let round_trips = rtt(records, case).map(|rtt| format!("round trips of {}", seconds(rtt)));
        let queue = queue(records, case).map(|queue| format!("a queue of {}", seconds(queue)));
        [round_trips, queue].into_iter().flatten().collect::<Vec<_>>().join(", ")
    };
    let mut found = Vec::new();
    // Where round trips are shorter, a smaller window fills the link.
    let shorter = of_link(delays, &SHORTEST);
    let there = |case: &str| mean(&transfers(&shorter, case, None));
    // A window a round trip, or the link's rate: round trips as they are with one segment.
    let alone = rtt(records, "one-segment");
    let model = |case: &str| {
        let window =
            if case == "direct" { 64.0 } else { case.trim_end_matches("kB").parse().unwrap_or(f64::NAN) };
        alone.map_or("none: no round trip was measured".to_owned(), |alone| {
            seconds(SIZE / f64::min(1e3 * window / alone, DOWNLINK))
        })
    };
    for case in ["5kB", "7kB"] {
        found.push(
            Finding::number(
                format!("Fig. 11: 600 kB, {case}"),
                "slower than 155 s",
                time(case)?,
                Unit::Seconds,
            )
            .at_least((1.0 + NEAR) * FULL)
            .model(model(case))
            .because(beside(case)),
        );
    }
    for case in ["10kB", "12kB", "13kB", "14kB", "16kB", "20kB", "32kB", "direct"] {
        found.push(
            Finding::number(format!("Fig. 11: 600 kB, {case}"), "155 s", time(case)?, Unit::Seconds)
                .within(NEAR, FULL)
                .model(model(case))
                .because(beside(case))
                .explained(
                    format!(
                        "the round trip: with delays of {} down and {} up, instead of {} and {}, and as many acknowledgments at a time, it takes {} (sweep `fig11-delays`)",
                        SHORTEST.down,
                        SHORTEST.up,
                        Link::PRESET.down,
                        Link::PRESET.up,
                        seconds(there(case).unwrap_or(f64::NAN))
                    ),
                    there(case).is_some_and(|time| (time / FULL - 1.0).abs() <= NEAR),
                ),
        );
    }
    if let (Some(large), Some(alone)) = (rtt(records, "32kB"), rtt(records, "direct")) {
        let beside = |case: &str| rtt(direct, case).map(|trip| large / trip);
        let words = |case: &str| beside(case).map_or("not measured".to_owned(), percent);
        found.push(
            Finding::number("Fig. 11: round trips of 32 kB, of those without proxy", "approaching", large / alone, Unit::Percent)
                .at_least(0.75)
                .model(format!("{}: queues go with windows", percent(0.5)))
                .because(format!("{} and {}", seconds(large), seconds(alone)))
                .explained(
                    format!(
                        "the direct connection's window, which is 64 kB here: they are {} of those with the 40 kB that are outstanding in Fig. 3b, and {} of those with 32 kB (`fig11-direct`)",
                        words("direct-40kB"),
                        words("direct-32kB")
                    ),
                    beside("direct-40kB").is_some_and(|share| share >= 0.75),
                ),
        );
    }
    let best = ["14kB", "16kB", "20kB", "32kB"].into_iter().filter_map(time).reduce(f64::min)?;
    found.push(
        Finding::number(
            "auto: throughput of the best fixed window",
            "≥ 0.97 is asked",
            best / time("auto")?,
            Unit::None,
        )
        .at_least(0.97),
    );
    // The fixed windows that do both; each is run with whole segments.
    let alone = rtt(records, "one-segment");
    let both: Vec<&str> = ["10kB", "12kB", "13kB", "14kB", "16kB", "20kB", "32kB"]
        .into_iter()
        .filter(|case| {
            let quick = time(case).is_some_and(|time| best / time >= 0.97);
            quick && rtt(records, case).zip(alone).is_some_and(|(trip, alone)| trip / alone <= 1.5)
        })
        .collect();
    let remark = match both.as_slice() {
        [] => "no fixed window has both 0.97 of the throughput and such round trips".to_owned(),
        some => format!("of the fixed windows {} have both that and 0.97 of the throughput", some.join(", ")),
    };
    // Where the uplink waits for fewer packets.
    let less = of_link(delays, &Link { wait: WAITS[0], ..Link::PRESET });
    for (window, name, remark) in [
        ("one-segment", "one segment at a time", remark),
        (
            "5kB",
            "three segments",
            "they leave two thirds of the link idle, and their acknowledgments are kept back, too".to_owned(),
        ),
    ] {
        if let (Some(unloaded), Some(auto)) = (rtt(records, window), rtt(records, "auto")) {
            let what = format!("auto: round trip of that of {name}");
            let own = Finding::number(what, "≤ 1.5 is asked", auto / unloaded, Unit::None);
            found.push(kept_back(own.at_most(1.5).because(remark), &less));
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::super::{SEGMENT, found};
    use super::*;
    use crate::testing::{Having, holds, run};
    use shorthaul_observe::Verdict;
    use shorthaul_scenario::Series;

    #[test]
    fn short_downloads_are_judged_size_by_size() {
        let of = |share: f64| {
            let mut records = Vec::new();
            for kb in [5, 10, 15, 17, 20, 25, 30] {
                let size = format!("\"{kb} kB\"");
                for (case, time) in [("direct", 10.0), ("aggregate", 10.0 * share), ("auto", 10.0 * share)] {
                    records.push(run(Some(case), &[("size", &size)]).flow(
                        "file",
                        1.0,
                        &[time, time + 0.1],
                        &[],
                    ));
                }
            }
            found(short_downloads, &records)
        };
        assert!(holds(&of(0.7), "Fig. 9") && !holds(&of(1.0), "Fig. 9") && of(0.7).len() == 7);
    }

    /// Downloads of all sizes, with the time that each case takes.
    fn downloads(cases: &[(&str, f64)], handshake: f64) -> Vec<RunRecord> {
        let mut records = Vec::new();
        for kb in SIZES {
            let size = format!("\"{kb} kB\"");
            for (case, time) in cases {
                records.push(run(Some(case), &[("size", &size)]).flow("files", 1.0, &[*time], &[handshake]));
            }
        }
        records
    }

    #[test]
    fn a_small_window_is_judged_beside_the_usual_direct_download() {
        let of = |fixed: f64, grown: f64, alone: f64| {
            let records = downloads(
                &[("direct", 10.0), ("aggregate", 7.0), ("small-direct", 20.0), ("small-aggregate", fixed)],
                1.0,
            );
            let growing = downloads(&[("growing-direct", alone), ("growing-aggregate", grown)], 1.0);
            found(|records| small_window(records, &growing), &records)
        };
        let good = of(13.0, 8.0, 10.0);
        assert!(holds(&good, "that grows"), "{good:#?}");
        let fixed = good.last().unwrap();
        assert!(fixed.verdict == Verdict::Differs && fixed.cause.is_some(), "slower than direct: {fixed:?}");
        assert_eq!(of(13.0, 11.0, 10.0).last().unwrap().cause, None, "the window is not why");
        assert!(!holds(&of(13.0, 9.5, 10.0), "that grows: saved, mean"));
        assert!(!holds(&of(13.0, 6.0, 10.0), "that grows: saved, beside"), "better than with 64 kB");
        assert!(!holds(&of(13.0, 8.0, 11.0), "costs a direct download"));
        assert!(holds(&of(9.0, 8.0, 10.0), "never grows"));
    }

    #[test]
    fn persistent_connections_and_small_segments_are_judged_beside_the_usual() {
        let each = downloads(&[("direct", 10.0), ("aggregate", 7.0)], 1.0);
        let of = |direct: f64, ours: f64| {
            found(
                |records| persistent_connections(records, &each),
                &downloads(&[("direct", direct), ("aggregate", ours)], 0.0),
            )
        };
        assert!(holds(&of(9.0, 5.5), "persistent"), "{:#?}", of(9.0, 5.5));
        assert!(!holds(&of(9.0, 7.0), "share") && !holds(&of(7.0, 4.5), "seconds"));
        let small = |ours: f64| {
            found(
                |records| small_segments(records, &each),
                &downloads(&[("direct", 10.0), ("aggregate", ours)], 1.0),
            )
        };
        assert!(holds(&small(6.0), "536") && !holds(&small(8.0), "536"));
    }

    /// Runs of `fig11-delays` and `fig2-bunching`: a link's product is what `knee_of` says, in kilobytes, and it bunches as many as `acks` says.
    fn sweeps(
        knee_of: &dyn Fn(&Link) -> f64,
        acks: &dyn Fn(&Link) -> f64,
        auto: f64,
    ) -> (Vec<RunRecord>, Vec<RunRecord>) {
        let (mut windows, mut bunches) = (Vec::new(), Vec::new());
        for wait in WAITS {
            for (down, up) in DOWN.into_iter().flat_map(|down| UP.into_iter().map(move |up| (down, up))) {
                let link = Link { down, up, wait };
                let quoted = [down, up, wait].map(|value| format!("\"{value}\""));
                let paths = ["down.delay", "up.delay", "up.aggregation.wait"];
                let values: Vec<(&str, &str)> =
                    paths.into_iter().zip(quoted.iter().map(String::as_str)).collect();
                let cases = [
                    ("one-segment", 1.4),
                    ("7kB", 7.0),
                    ("10kB", 10.0),
                    ("12kB", 12.0),
                    ("14kB", 14.0),
                    ("32kB", 32.0),
                    ("auto", auto),
                ];
                let knee = knee_of(&link);
                for (case, window) in cases {
                    let trip = 2.0 * f64::max(window / knee, 1.0);
                    windows.push(
                        run(Some(case), &values)
                            .flow("file", 1.0, &[155.0 * f64::max(knee / window, 1.0)], &[])
                            .series(Series::Rtt, "file@proxy", &[(30.0, trip)]),
                    );
                }
                let sums: Vec<(f64, f64)> =
                    (0..20).map(|at| (f64::from(at), SEGMENT * acks(&link) * f64::from(at))).collect();
                bunches.push(run(None, &values).series(Series::Acknowledged, "file", &sums));
            }
        }
        (windows, bunches)
    }

    #[test]
    fn the_knee_counts_only_where_acknowledgments_come_in_fours() {
        let at = |knee_of: &dyn Fn(&Link) -> f64, acks: &dyn Fn(&Link) -> f64, auto: f64| {
            let (windows, bunches) = sweeps(knee_of, acks, auto);
            found(|records| knee_by_delays(records, &bunches, &[]), &windows)
        };
        let four = |link: &Link| if link.wait == "1200 ms" { 4.0 } else { 1.4 };
        let short = |link: &Link| if link.down == "100 ms" { 10.0 } else { 14.0 };
        let good = at(&short, &four, 10.0);
        assert!(holds(&good, "Fig. 11") && holds(&good, "auto, 100 ms down, 300 ms up"), "{good:#?}");
        assert!(!holds(&good, "auto, 200 ms down"), "10 kB are too little there");
        assert!(!holds(&at(&short, &four, 32.0), "round trip of that of 10 kB"), "a queue of three windows");
        assert!(!holds(&at(&short, &four, 5.0), "300 ms up, a wait of 1200 ms: throughput"));
        assert!(
            holds(&at(&short, &four, 14.0), "the worst") && !holds(&good, "the worst"),
            "10 kB, where 14 are needed"
        );
        let quick = |link: &Link| if link.wait == "300 ms" { 10.0 } else { 14.0 };
        let none = at(&quick, &four, 14.0);
        assert!(!holds(&none, "Fig. 11 and 2b"), "the knee without the bunching");
        assert!(none[0].reason.contains("1.4 at a time at most"), "{:?}", none[0]);
        assert!(!holds(&at(&|_| 14.0, &four, 14.0), "Fig. 11 and 2b"));
    }

    #[test]
    fn why_a_product_or_autos_round_trips_are_longer_has_to_be_shown() {
        let four = |link: &Link| if link.wait == "1200 ms" { 4.0 } else { 1.4 };
        // Every window has its round trips, of which a single segment's are 2 s, and fills the link from 10 kB on.
        let causes = |trip: f64| {
            let (mut windows, bunches) = sweeps(&|_| 10.0, &four, 16.0);
            for own in
                windows.iter_mut().filter(|own| own.case.as_deref().is_some_and(|case| case.ends_with("kB")))
            {
                if let Some(outcome) = &mut own.outcome {
                    outcome.series[0].points = vec![(30.0, trip)];
                }
            }
            let found = found(|records| knee_by_delays(records, &bunches, &[]), &windows);
            let own = found.into_iter().filter(|own| own.what.contains("round trip of that of one segment"));
            own.map(|own| own.cause.is_some()).collect::<Vec<_>>()
        };
        assert_eq!((causes(3.1), causes(2.9)), (vec![true; 2], vec![false; 2]));
        let of_product = |trip: f64| {
            let (mut windows, bunches) = sweeps(&|_| 14.0, &four, 14.0);
            for own in &mut windows {
                let is_short =
                    own.values.iter().any(|(path, value)| path.ends_with("wait") && value.contains("300"));
                if is_short && let Some(outcome) = &mut own.outcome {
                    outcome.series[0].points = vec![(30.0, trip)];
                }
            }
            let found = found(|records| knee_by_delays(records, &bunches, &[]), &windows);
            found.into_iter().find(|own| own.what.starts_with("§III: the product")).unwrap().cause
        };
        assert!(of_product(1.3).is_some_and(|cause| cause.contains("8.30 kB at least")));
        assert_eq!(of_product(1.6), None);
    }

    #[test]
    fn windows_are_judged_and_the_knee_is_a_cause_only_where_there_is_one() {
        const CASES: [(&str, f64); 12] = [
            ("5kB", 5.0),
            ("7kB", 7.0),
            ("10kB", 10.0),
            ("12kB", 12.0),
            ("13kB", 13.0),
            ("14kB", 14.0),
            ("16kB", 16.0),
            ("20kB", 20.0),
            ("32kB", 32.0),
            ("auto", 14.0),
            ("direct", 64.0),
            ("one-segment", 1.4),
        ];
        let over = |knee: f64, full: f64, shortest: f64| {
            let of = |(case, window): (&str, f64)| {
                let trip = (window / knee).max(1.0) * 2.0;
                run(Some(case), &[]).flow("file", 1.0, &[full * (knee / window).max(1.0)], &[]).series(
                    Series::Rtt,
                    if case == "direct" { "file" } else { "file@proxy" },
                    &[(30.0, trip)],
                )
            };
            let (delays, _) = sweeps(&|link| if *link == SHORTEST { shortest } else { 14.0 }, &|_| 4.0, 14.0);
            let direct = ["direct-32kB", "direct-40kB"]
                .map(|case| run(Some(case), &[]).series(Series::Rtt, "file", &[(30.0, 2.0 * 32.0 / knee)]));
            found(|records| windows(records, &delays, &direct), &CASES.map(of))
        };
        let with = |knee: f64, full: f64| over(knee, full, 10.0);
        let papers = with(10.0, 155.0);
        for case in ["5kB", "10kB", "14kB", "32kB", "direct", "best fixed"] {
            assert!(holds(&papers, case), "{case}");
        }
        let later = with(14.0, 155.0);
        let ten = later.iter().find(|own| own.what.ends_with("10kB")).unwrap();
        assert!(
            ten.verdict == Verdict::Differs
                && ten.cause.as_ref().is_some_and(|cause| cause.contains("155 s")),
            "{ten:?}"
        );
        let nowhere = over(14.0, 155.0, 14.0);
        let ten = nowhere.iter().find(|own| own.what.ends_with("10kB")).unwrap();
        assert_eq!(ten.cause, None, "shorter delays are not why");
        let queues = later.iter().find(|own| own.what.contains("without proxy")).unwrap();
        assert!(queues.verdict == Verdict::Differs && queues.cause.is_some(), "{queues:?}");
        assert!(!holds(&with(4.0, 155.0), "5kB"), "no slower");
    }
}
