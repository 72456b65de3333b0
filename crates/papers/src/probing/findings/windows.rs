//! What larger windows change (§4, footnote 8).
use super::super::chance::within;
use super::super::errors::{LargerWindow, SendingWindow};
use super::percent;
use shorthaul_observe::{Finding, Summary};
use shorthaul_report::Unit;

/// "Our experiments with larger windows drop the level of TCT 4% and the level of overhead 2%": time, and overhead.
const DROPS: [(&str, f64); 2] = [("completion time", 0.04), ("overhead", 0.02)];

/// At small error rates probing may cost a little. "Larger windows … cancel this effect", says §4, and its footnote has by how much. Of what,
/// it does not say: of what is above the protocol that probing is built upon, beside which the sentence speaks of an effect, or of the same
/// protocol's with a smaller window. Nor does it say how large the windows were: the mean of all that were tried is judged, and not the best.
pub fn larger_windows(found: &[LargerWindow]) -> Vec<Finding> {
    let Some(first) = found.first() else { return Vec::new() };
    let mean = |of: &dyn Fn(&LargerWindow) -> f64| {
        Summary::of(found.iter().map(of)).map_or(f64::NAN, |all| all.mean)
    };
    let by_window = |of: &dyn Fn(&LargerWindow) -> f64| {
        let words: Vec<String> =
            found.iter().map(|own| format!("{} with {}", percent(of(own)), own.window)).collect();
        words.join(", ")
    };
    let row = |(what, stated): (&str, f64), of: &str, drop: f64| {
        Finding::number(
            format!("§4, footnote 8: larger windows drop the {what} {of} by"),
            format!("{} (half of that is asked)", percent(stated)),
            drop,
            Unit::Percent,
        )
        .at_least(stated / 2.0)
    };
    let cells = format!("Tahoe-Probing and Reno-Probing, 1 to 33 %, {} cells", first.cells);
    let mut all = Vec::new();
    // The paper does not say how large the windows were: what is stated is had if it is with one of them.
    let luck = |at: usize, stated: f64| found.iter().find(|own| within(stated, own.by_luck[at]));
    for (at, drop) in DROPS.into_iter().enumerate() {
        let of_base = mean(&|own| own.usual_of_base[at] - own.of_base[at]);
        let row = row(drop, "beside Tahoe and Reno", of_base).because(format!(
            "{} of theirs with 10 KB, {}; {cells}",
            percent(first.usual_of_base[at]),
            by_window(&|own| own.of_base[at])
        ));
        all.push(match luck(at, drop.1) {
            Some(own) => row.explained(had_by(own, at, drop.1), true),
            None => row,
        });
    }
    for (at, drop) in DROPS.into_iter().enumerate() {
        let own = mean(&|own| 1.0 - own.left[at]);
        let each_packet = mean(&|own| 1.0 - own.each_packet[at]);
        let row = row(drop, "of that with 10 KB", own)
            .because(format!("{} of that with 10 KB; {cells}", by_window(&|own| own.left[at])))
            .explained(
                format!(
                    "the slots: a window that is sent within a lossy one is lost as a whole, the larger the more; with errors for each packet it drops by {}",
                    percent(each_packet)
                ),
                each_packet >= drop.1 / 2.0,
            );
        all.push(match luck(at, drop.1) {
            Some(own) => row.explained(
                format!("the reading: beside Tahoe and Reno it is had; {}", had_by(own, at, drop.1)),
                true,
            ),
            None => row,
        });
    }
    all
}

/// "We measured the average sending window at this stage to be 2KB" (§4), in bytes, and what that may be off by.
const SENT: f64 = 2048.0;
const SENT_NEAR: f64 = 0.5;

/// The sending window, with the window of the scenario first.
pub fn sending_window(found: &[SendingWindow]) -> Option<Finding> {
    let (usual, others) = found.split_first()?;
    let words = |own: &SendingWindow| format!("{} of {}", Unit::Bytes.format(own.mean), own.window);
    let is_near = |own: &&SendingWindow| (own.mean / SENT - 1.0).abs() <= SENT_NEAR;
    Some(
        Finding::number(
            "§4: the average sending window at small error rates, phases of 3 s",
            "2 KB",
            usual.mean,
            Unit::Bytes,
        )
        .within(SENT_NEAR, SENT)
        .because(format!("at 1 and 10 %; {}", found.iter().map(words).collect::<Vec<_>>().join(", ")))
        .explained(
            format!(
                "the receiver's window, which the paper does not state: it is {} (4 KB are what x-kernel's TCP has if nobody sets more, `TCP_BUFFER_SPACE` of its version 3.3)",
                others.iter().map(words).collect::<Vec<_>>().join(", ")
            ),
            others.iter().any(|own| is_near(&own)),
        ),
    )
}

/// That what is stated lies within what a window has by luck.
fn had_by(own: &LargerWindow, at: usize, stated: f64) -> String {
    let [low, high] = own.by_luck[at].map(percent);
    format!(
        "the window, which the paper does not state, and a run's luck: with {} it is {}, and {low} to {high} where ten of our runs are drawn in each cell (95 %), which has {}",
        own.window,
        percent(own.usual_of_base[at] - own.of_base[at]),
        percent(stated)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_observe::Verdict;

    fn window(left: [f64; 2], of_base: [f64; 2], each_packet: [f64; 2]) -> LargerWindow {
        LargerWindow {
            window: "15 KiB",
            left,
            each_packet,
            of_base,
            usual_of_base: [1.0; 2],
            by_luck: [[f64::NAN; 2]; 2],
            cells: 32,
        }
    }

    #[test]
    fn a_drop_is_judged_by_both_numbers_in_both_readings() {
        let verdicts = |left, of_base| -> Vec<bool> {
            let found = larger_windows(&[window(left, of_base, [1.0; 2])]);
            found.iter().map(|own| own.verdict == Verdict::Holds).collect()
        };
        let stated = [0.96, 0.98];
        assert_eq!(verdicts(stated, stated), [true; 4]);
        assert_eq!(verdicts([0.99, 0.98], stated), [true, true, false, true]);
        assert_eq!(verdicts(stated, [0.96, 0.995]), [true, false, true, true]);
        assert_eq!(verdicts([f64::NAN; 2], [f64::NAN; 2]), [false; 4]);
    }

    #[test]
    fn what_the_usual_window_has_is_no_drop_and_the_best_window_is_not_all_of_them() {
        // 92 % of the base's time with a larger window are no drop where they are 92 % with the usual one.
        let same = LargerWindow { usual_of_base: [0.92, 0.97], ..window([1.0; 2], [0.92, 0.97], [1.0; 2]) };
        assert!(larger_windows(&[same]).iter().all(|own| own.verdict == Verdict::Differs));
        let with = |other: f64| {
            let windows = [window([0.96; 2], [0.96; 2], [1.0; 2]), window([other; 2], [other; 2], [1.0; 2])];
            larger_windows(&windows)[0].verdict
        };
        assert_eq!((with(0.97), with(1.03)), (Verdict::Holds, Verdict::Differs));
    }

    #[test]
    fn the_slots_are_a_cause_only_if_windows_help_without_them() {
        let causes = |each_packet| -> Vec<bool> {
            let found = larger_windows(&[window([1.06, 1.1], [1.0; 2], each_packet)]);
            found.iter().map(|own| own.cause.is_some()).collect()
        };
        assert_eq!(causes([0.95, 1.6]), [false, false, true, false]);
        assert_eq!(causes([1.0, 0.98]), [false, false, false, true]);
    }

    #[test]
    fn a_window_that_has_what_is_stated_by_luck_is_a_cause_in_both_readings() {
        let causes = |by_luck: [f64; 2]| -> Vec<bool> {
            let usual = window([1.1; 2], [1.0; 2], [1.1; 2]);
            let lucky =
                LargerWindow { by_luck: [[f64::NAN; 2], by_luck], ..window([1.1; 2], [1.0; 2], [1.1; 2]) };
            larger_windows(&[usual, lucky]).iter().map(|own| own.cause.is_some()).collect()
        };
        assert_eq!(causes([-0.01, 0.03]), [false, true, false, true], "2 % of overhead, and nothing of time");
        assert_eq!(causes([-0.01, 0.01]), [false; 4]);
    }

    #[test]
    fn another_window_is_a_cause_only_if_it_has_the_papers() {
        let of = |usual: f64, other: f64| {
            let own = |window, mean| SendingWindow { window, mean };
            sending_window(&[own("10240 B", usual), own("4096 B", other)]).unwrap()
        };
        assert!(of(2_800.0, 9e3).verdict == Verdict::Holds && of(9e3, 9e3).verdict == Verdict::Differs);
        assert!(of(9e3, 2_800.0).cause.is_some_and(|cause| cause.contains("2.80 kB of 4096 B")));
        assert_eq!(of(9e3, 3_900.0).cause, None);
        assert!(sending_window(&[]).is_none());
    }
}
