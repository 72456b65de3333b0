//! One sentence a line: what is seen, from the numbers that were measured.
use std::time::Duration;

use shorthaul_report::Unit;
use shorthaul_types::{Bytes, format_duration};

use super::outcome::{Outcome, Pair};
use super::phone::Phone;
use super::plan::{Congestion, Transfer};

/// A single run wavers by this much; what is nearer to one is no difference.
const NOTABLE: f64 = 1.15;
/// A link used to this share leaves nothing to gain.
const FULL: f64 = 0.8;
/// Queueing below this nobody notices, in seconds.
const NOTABLE_QUEUEING: f64 = 0.02;

/// What is seen of one transfer, direct against split.
pub fn for_pair(pair: &Pair) -> String {
    let subject = format!("{} on {}, {}", pair.congestion.name(), pair.path, pair.transfer.name());
    format!("{subject}: {}.", finding(pair))
}

fn finding(pair: &Pair) -> String {
    for (outcome, way) in [(&pair.direct, "direct"), (&pair.split, "split")] {
        if let Some(failure) = &outcome.failure {
            return format!("the {way} transfer failed ({failure}), so there is nothing to compare");
        }
    }
    let Some(gain) = pair.gain() else {
        let still = if pair.direct.bytes == 0 { "direct" } else { "split" };
        return format!(
            "the {still} transfer moved nothing in the time it had, so there is nothing to compare"
        );
    };
    let numbers = numbers(pair);
    if let Some(doubt) = pair.doubt() {
        return format!("{doubt}, so nothing is concluded ({numbers})");
    }
    let main = if gain >= NOTABLE {
        format!("split was {gain:.1} × as fast{} ({numbers}){}", between(pair), reason_of_gain(pair))
    } else if gain <= 1.0 / NOTABLE {
        format!(
            "splitting made it slower, {gain:.2} × as fast{} ({numbers}){}",
            between(pair),
            reason_of_loss(pair)
        )
    } else {
        let runs = match pair.runs.len() {
            0 | 1 => "one run".to_owned(),
            runs => format!("{runs} runs"),
        };
        format!("splitting made no difference that {runs} can show ({numbers}){}", reason_of_neither(pair))
    };
    main + &queueing_remark(pair)
}

/// How far the repeats were apart, if there were any.
fn between(pair: &Pair) -> String {
    match pair.spread(|run| run.gain) {
        Some([least, most]) => {
            let count = pair.runs.iter().filter(|run| run.trusted).count();
            format!(", {least:.2} to {most:.2} in {count} runs")
        }
        None => String::new(),
    }
}

/// `100 kB in 0.80 s instead of 1.50 s`, or rates where not all came.
fn numbers(pair: &Pair) -> String {
    let (direct, split) = (&pair.direct, &pair.split);
    if pair.transfer == Transfer::Short && direct.complete() && split.complete() {
        let size = Bytes(split.bytes);
        return format!("{size} in {}, direct {}", seconds(split.seconds), seconds(direct.seconds));
    }
    let rate = |outcome: &Outcome| {
        let rate = Unit::BitsPerSecond.format(outcome.goodput());
        if outcome.complete() {
            return rate;
        }
        let (bytes, asked) = (Bytes(outcome.bytes), Bytes(outcome.asked));
        format!("{rate}, stopped after {} with {bytes} of {asked}", seconds(outcome.seconds))
    };
    format!("{}, direct {}", rate(split), rate(direct))
}

/// Why split was faster: the first explanation that the measurement bears out.
fn reason_of_gain(pair: &Pair) -> String {
    let facts = &pair.facts;
    let longest_half = facts.access_round_trip_s.max(facts.wan_round_trip_s);
    let shorter_loops = longest_half < 0.8 * facts.round_trip_s;
    if pair.transfer == Transfer::Long
        && shorter_loops
        && pair.direct.lost > 0
        && pair.congestion.slows_at_every_loss()
        && pair.direct_share() < FULL
    {
        return format!(
            ", because after each loss the window grows back over {} instead of {}",
            nominal(longest_half),
            nominal(facts.round_trip_s)
        );
    }
    if pair.transfer == Transfer::Short && facts.initial_window > 10 {
        return format!(
            ", because the gateway, which knows its link, begins with {} segments instead of 10",
            facts.initial_window
        );
    }
    if let Some((split, direct)) = ramps(pair).filter(|(split, direct)| split * NOTABLE < *direct) {
        return format!(
            ", because it had half the link's rate after {} instead of {}",
            seconds(split),
            seconds(direct)
        );
    }
    if pair.transfer == Transfer::Short && shorter_loops {
        return format!(
            ", because slow start doubles every {} on each half instead of every {}",
            nominal(longest_half),
            nominal(facts.round_trip_s)
        );
    }
    if pair.direct.overflowed > 2 * pair.split.overflowed + 2 {
        return format!(
            ", because {} packets found the bottleneck's queue full instead of {}",
            pair.split.overflowed, pair.direct.overflowed
        );
    }
    "; neither loss, start-up nor overflow accounts for it, so another run may differ".to_string()
}

/// Why split was slower.
fn reason_of_loss(pair: &Pair) -> String {
    if pair.split.overflowed > 2 * pair.direct.overflowed + 2 {
        return format!(
            ": the gateway overran the bottleneck's queue ({} packets dropped there, direct {})",
            pair.split.overflowed, pair.direct.overflowed
        );
    }
    if let Some((split, direct)) = ramps(pair).filter(|(split, direct)| *split > direct * NOTABLE) {
        return format!(
            ": it had half the link's rate only after {}, direct after {}",
            seconds(split),
            seconds(direct)
        );
    }
    if pair.direct_share() >= FULL {
        return format!(": the direct transfer already used {} of the link", per_cent(pair.direct_share()));
    }
    if pair.split.lost > 2 * pair.direct.lost + 2 {
        return format!(": chance dropped {} of its packets, direct {}", pair.split.lost, pair.direct.lost);
    }
    // A tenth of the time is more than what such a difference takes.
    if pair.split.gateway_waited_s > pair.split.seconds / 10.0 {
        return format!(
            ": the gateway stood waiting for a processor for {}",
            seconds(pair.split.gateway_waited_s)
        );
    }
    "; neither loss, overflow, start-up nor want of a processor accounts for it, so another run may differ"
        .to_string()
}

/// Why it made no difference.
fn reason_of_neither(pair: &Pair) -> String {
    let facts = &pair.facts;
    if pair.direct_share() >= FULL {
        return format!(": the direct transfer already used {} of the link", per_cent(pair.direct_share()));
    }
    if pair.transfer == Transfer::Short && pair.direct.complete() {
        let trips = pair.direct.seconds / facts.round_trip_s;
        return format!(": it is over after {trips:.1} round trips, and splitting saves none of them");
    }
    let longest_half = facts.access_round_trip_s.max(facts.wan_round_trip_s);
    if longest_half >= 0.8 * facts.round_trip_s {
        return format!(
            ": one half still has {} of the {} round trip",
            nominal(longest_half),
            nominal(facts.round_trip_s)
        );
    }
    if pair.congestion == Congestion::Bbr && facts.loss > 0.0 {
        return ": bbr does not take single losses for congestion, so shorter loops repair little"
            .to_string();
    }
    String::new()
}

/// What splitting did to those who share the bottleneck's queue.
fn queueing_remark(pair: &Pair) -> String {
    if pair.transfer == Transfer::Short {
        return String::new();
    }
    let (Some(direct), Some(split)) = (pair.direct.median_queueing(), pair.split.median_queueing()) else {
        return String::new();
    };
    if direct.max(split) < NOTABLE_QUEUEING {
        return String::new();
    }
    if split > 1.5 * direct {
        format!(
            "; its packets waited longer in the links' queues, {} against {}",
            seconds(split),
            seconds(direct)
        )
    } else if direct > 1.5 * split {
        format!(
            "; its packets waited less in the links' queues, {} against {}",
            seconds(split),
            seconds(direct)
        )
    } else {
        String::new()
    }
}

/// When half of the link's rate was reached, split and direct.
fn ramps(pair: &Pair) -> Option<(f64, f64)> {
    // Long enough that a burst of a window is not taken for the rate.
    let window = pair.facts.round_trip_s.max(0.2);
    let reached = |outcome: &Outcome| outcome.time_to_reach(pair.facts.rate_bit_per_s / 2.0, window);
    Some((reached(&pair.split)?, reached(&pair.direct)?))
}

/// What is seen of a path as a whole.
pub fn for_path(pairs: &[Pair]) -> Option<String> {
    let first = pairs.first()?;
    let of = |transfer: Transfer| -> Option<String> {
        let gains: Vec<String> = pairs
            .iter()
            .filter(|pair| pair.transfer == transfer)
            .filter_map(|pair| Some(format!("{:.1} × for {}", pair.trusted_gain()?, pair.congestion.name())))
            .collect();
        (!gains.is_empty()).then(|| format!("{} transfers {}", transfer.name(), gains.join(", ")))
    };
    let parts: Vec<String> = [Transfer::Long, Transfer::Short].into_iter().filter_map(of).collect();
    let gains: Vec<f64> = pairs.iter().filter_map(Pair::trusted_gain).collect();
    let most = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let verdict = if gains.is_empty() {
        return Some(format!("{}: nothing to conclude.", first.title));
    } else if most < NOTABLE {
        "splitting gains nothing here"
    } else if gains.iter().all(|gain| *gain >= NOTABLE) {
        "splitting pays here"
    } else {
        "splitting pays for some"
    };
    Some(format!("{}: {verdict}. Speed against direct: {}.", first.title, parts.join("; ")))
}

/// What a newcomer should remember of all of it, from what was measured: where it helped most, and where not.
pub fn to_remember(phones: &[Phone], pairs: &[Pair]) -> Option<String> {
    let mut parts = Vec::new();
    let trusted = phones.iter().filter(|phone| phone.doubt().is_none()).map(Phone::half_within);
    let best = trusted.max_by(|a, b| (a[0] / a[1]).total_cmp(&(b[0] / b[1])));
    if let Some([direct, split]) = best.filter(|[direct, split]| *direct > NOTABLE * split) {
        let (direct, split) = (seconds(direct), seconds(split));
        parts.push(format!("beside a download, a phone's pages came within {split} instead of {direct}"));
    }
    let long = pairs.iter().filter(|pair| pair.transfer == Transfer::Long);
    let gains = long.filter_map(|pair| Some((pair.trusted_gain()?, pair)));
    let best = gains.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(gain, _)| *gain >= NOTABLE);
    if let Some((gain, pair)) = best {
        parts.push(format!(
            "a {} download on the path \"{}\" was {gain:.1} × as fast",
            pair.congestion.name(),
            pair.title
        ));
    }
    let gains_nothing = |path: &&[Pair]| {
        let gains: Vec<f64> = path.iter().filter_map(Pair::trusted_gain).collect();
        !gains.is_empty() && gains.iter().all(|gain| *gain < NOTABLE)
    };
    let idle: Vec<&str> =
        pairs.chunk_by(|a, b| a.path == b.path).filter(gains_nothing).map(|path| path[0].title).collect();
    if !idle.is_empty() {
        parts.push(format!("\"{}\" gained nothing", idle.join("\" and \"")));
    }
    (!parts.is_empty()).then(|| {
        format!(
            "In one sentence: with a gateway beside the bad link, and both ends as they were, {}.",
            parts.join("; ")
        )
    })
}

/// What a scenario says, without digits that it does not say.
fn nominal(seconds: f64) -> String {
    format_duration(Duration::from_secs_f64(seconds))
}

/// What was measured.
fn seconds(value: f64) -> String {
    Unit::Seconds.format(value)
}

fn per_cent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::super::facts::PathFacts;
    use super::super::outcome::Queueing;
    use super::super::outcome::tests::steady;
    use super::*;

    fn pair(direct: Outcome, split: Outcome) -> Pair {
        Pair {
            path: "halfway",
            title: "Half-way",
            facts: PathFacts {
                rate_bit_per_s: 32e6,
                round_trip_s: 0.128,
                access_round_trip_s: 0.064,
                wan_round_trip_s: 0.064,
                initial_window: 10,
                loss: 0.001,
            },
            congestion: Congestion::Reno,
            transfer: Transfer::Long,
            direct,
            split,
            runs: Vec::new(),
        }
    }

    fn lossy(rates: &[f64]) -> Outcome {
        Outcome { lost: 12, ..steady(rates) }
    }

    #[test]
    fn a_gain_under_loss_is_put_down_to_the_shorter_loops() {
        let text = for_pair(&pair(lossy(&[4e6; 10]), lossy(&[8e6; 5])));
        assert_eq!(
            text,
            "reno on halfway, long: split was 2.0 × as fast (8.00 Mbit/s, direct 4.00 Mbit/s), because after \
             each loss the window grows back over 64 ms instead of 128 ms."
        );
    }

    #[test]
    fn without_a_loss_it_is_not_put_down_to_loss() {
        let text = for_pair(&pair(steady(&[1e6, 1e6, 1e6, 30e6]), steady(&[30e6, 30e6])));
        assert!(text.contains("half the link's rate after"), "{text}");
        let unexplained = for_pair(&pair(steady(&[4e6; 4]), steady(&[8e6; 2])));
        assert!(unexplained.contains("another run may differ"), "{unexplained}");
    }

    #[test]
    fn bbr_is_not_said_to_suffer_from_single_losses() {
        let mut pair = pair(lossy(&[20e6; 4]), lossy(&[20e6; 4]));
        pair.congestion = Congestion::Bbr;
        let text = for_pair(&pair);
        assert!(text.contains("no difference") && text.contains("bbr does not take"), "{text}");
    }

    #[test]
    fn a_full_link_and_a_slower_split_are_said_so() {
        let full = for_pair(&pair(lossy(&[30e6; 4]), lossy(&[31e6; 4])));
        assert!(full.contains("already used 94 % of the link"), "{full}");
        let slower = Outcome { overflowed: 40, ..steady(&[5e6; 8]) };
        let slower = for_pair(&pair(steady(&[10e6; 4]), slower));
        assert!(slower.contains("slower, 0.50 ×") && slower.contains("40 packets dropped"), "{slower}");
    }

    #[test]
    fn a_short_transfer_speaks_of_time() {
        let mut pair = pair(steady(&[100e3]), steady(&[100e3]));
        pair.transfer = Transfer::Short;
        let same = for_pair(&pair);
        assert!(
            same.contains("12.5 kB in 1.00 s, direct 1.00 s") && same.contains("7.8 round trips"),
            "{same}"
        );
        pair.split.seconds = 0.5;
        let faster = for_pair(&pair);
        assert!(faster.contains("2.0 ×") && faster.contains("every 64 ms on each half"), "{faster}");
        pair.facts.initial_window = 64;
        assert!(for_pair(&pair).contains("begins with 64 segments"));
    }

    #[test]
    fn what_was_stopped_or_failed_is_said() {
        let stopped = Outcome { asked: 1 << 30, ..lossy(&[4e6; 10]) };
        let text = for_pair(&pair(stopped, lossy(&[8e6; 10])));
        assert!(text.contains("stopped after 10.0 s with 5 MB of 1.07 GB"), "{text}");
        let failed = Outcome { failure: Some("refused".to_string()), ..Outcome::default() };
        let text = for_pair(&pair(lossy(&[4e6; 10]), failed));
        assert!(text.contains("split transfer failed (refused)"), "{text}");
        let nothing = for_pair(&pair(Outcome::default(), lossy(&[4e6; 10])));
        assert!(nothing.contains("direct transfer moved nothing"), "{nothing}");
    }

    #[test]
    fn queueing_is_mentioned_when_it_changes() {
        let waiting = |delay_s: f64| Outcome {
            queueing: vec![Queueing { seconds: 0.0, delay_s }; 3],
            ..steady(&[30e6; 4])
        };
        let longer = for_pair(&pair(waiting(0.1), waiting(0.3)));
        assert!(longer.contains("waited longer") && longer.contains("300 ms against 100 ms"), "{longer}");
        assert!(for_pair(&pair(waiting(0.3), waiting(0.1))).contains("waited less"));
        assert!(!for_pair(&pair(waiting(0.001), waiting(0.01))).contains("waited"));
    }

    #[test]
    fn what_helped_most_and_what_did_not_is_remembered() {
        let mut all =
            vec![pair(lossy(&[4e6; 10]), lossy(&[8e6; 5])), pair(lossy(&[4e6; 4]), lossy(&[4e6; 4]))];
        all[1].path = "gprs";
        all[1].title = "GPRS";
        let text = to_remember(&[], &all).unwrap();
        assert!(text.contains("\"Half-way\" was 2.0 × as fast; \"GPRS\" gained nothing."), "{text}");
        assert_eq!(to_remember(&[], &[]), None);
    }

    #[test]
    fn a_path_is_summed_up_by_its_gains() {
        let both = [pair(lossy(&[4e6; 10]), lossy(&[8e6; 5])), pair(lossy(&[4e6; 4]), lossy(&[4e6; 4]))];
        let text = for_path(&both).unwrap();
        assert!(
            text.starts_with("Half-way: splitting pays for some.") && text.contains("2.0 × for reno"),
            "{text}"
        );
        assert!(for_path(&both[..1]).unwrap().contains("splitting pays here"));
        assert!(for_path(&both[1..]).unwrap().contains("gains nothing"));
        assert_eq!(for_path(&[]), None);
    }
}
