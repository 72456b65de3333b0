//! What larger windows change (§4, footnote 8).
use super::super::errors::LargerWindow;
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
    for (at, drop) in DROPS.into_iter().enumerate() {
        let of_base = mean(&|own| own.usual_of_base[at] - own.of_base[at]);
        all.push(row(drop, "beside Tahoe and Reno", of_base).because(format!(
            "{} of theirs with 10 KB, {}; {cells}",
            percent(first.usual_of_base[at]),
            by_window(&|own| own.of_base[at])
        )));
    }
    for (at, drop) in DROPS.into_iter().enumerate() {
        let own = mean(&|own| 1.0 - own.left[at]);
        let each_packet = mean(&|own| 1.0 - own.each_packet[at]);
        all.push(
            row(drop, "of that with 10 KB", own)
                .because(format!("{} of that with 10 KB; {cells}", by_window(&|own| own.left[at])))
                .explained(
                    format!(
                        "the slots: a window that is sent within a lossy one is lost as a whole, the larger the more; with errors for each packet it drops by {}",
                        percent(each_packet)
                    ),
                    each_packet >= drop.1 / 2.0,
                ),
        );
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_observe::Verdict;

    fn window(left: [f64; 2], of_base: [f64; 2], each_packet: [f64; 2]) -> LargerWindow {
        LargerWindow { window: "15 KiB", left, each_packet, of_base, usual_of_base: [1.0; 2], cells: 32 }
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
}
