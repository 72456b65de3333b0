//! How long a session waits until relays were looked for.
use std::time::Duration;

use shorthaul_planner::{Path, PlanError, Policy, Relay, Transfer, model};
use shorthaul_types::Bytes;

use super::prober::lingering;
use super::ranking::Facts;

/// How far a destination is taken to be before that is known.
pub const ASSUMED_DISTANCE: Duration = Duration::from_millis(100);

/// The longest that a transfer of this size may wait for a relay to a destination whose round trip is `whole`: a relay half-way would have to save more than
/// that.
///
/// Section 4 of the paper: "use of PTS for short sessions (small data transfer) is not justified" if nodes are looked for
/// first, since direct takes 3/2 round trips to set up, and probing and then going direct 5/2.
pub fn worth_waiting(size: Bytes, whole: Duration, facts: &Facts, policy: Policy) -> Duration {
    let least = match policy {
        Policy::Always => return Duration::MAX,
        Policy::Never => return Duration::ZERO,
        Policy::Gain(least) => least,
    };
    let transfer = Transfer::new(Bytes(size.0.max(1)));
    let gain = || -> Result<f64, PlanError> {
        let model = model::by_name(&facts.model)?;
        let seconds = |path: Path| Ok(path.forecast(&*model, &transfer)?.time.expected.as_secs_f64());
        let leg = facts.leg(whole, whole);
        let direct = seconds(Path::direct(leg))?;
        Ok(direct / least - seconds(Path::evenly_split(&leg, 1, Relay::default()))?)
    };
    // Where no forecast can be made, nothing says that it pays.
    gain().map_or(Duration::ZERO, |gain| Duration::try_from_secs_f64(gain).unwrap_or(Duration::ZERO))
}

/// What relays gain that are found, beside one half-way: as many times more must that be worth than all of a look takes, for a session to wait for all.
const HALF_WAY_BESIDE_FOUND: u32 = 2;

/// How long a transfer waits for which that is worth at most `worth`, where it became known `known` after it began to wait that the destination is `whole` away: for
/// all that can be found where that pays, or else for what was found by then. Relays that have yet to measure their way take about as long again as all the others, and are for
/// the next transfer.
pub fn waits_after(worth: Duration, whole: Duration, known: Duration) -> Duration {
    let all = whole + lingering(whole, true);
    match worth >= all.saturating_mul(HALF_WAY_BESIDE_FOUND) {
        true => worth,
        // A moment for what the destination's answer has overtaken.
        false => worth.min(known + lingering(whole, false)),
    }
}

/// Whether a round of probing first, which takes a round trip, can pay for a transfer of this size. The distance does not matter much, since all of it is
/// counted in round trips.
pub fn is_worth_probing(size: Bytes, facts: &Facts, policy: Policy) -> bool {
    worth_waiting(size, ASSUMED_DISTANCE, facts, policy) >= ASSUMED_DISTANCE
}

#[cfg(test)]
mod tests {
    use super::super::ranking::tests::figure_5;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn short_transfers_are_not_worth_a_probe_and_a_megabyte_is() {
        for facts in [Facts::default(), figure_5()] {
            let worth = |size| is_worth_probing(Bytes(size), &facts, Policy::default());
            assert!(!worth(5_000) && !worth(30_000), "{facts:?}");
            assert!(worth(10_000_000), "{facts:?}");
            assert!(is_worth_probing(Bytes(1), &facts, Policy::Always));
            assert!(!is_worth_probing(Bytes(10_000_000), &facts, Policy::Never));
        }
        let worth = |size: &u64| is_worth_probing(Bytes(*size), &Facts::default(), Policy::default());
        let least = (1..1_000).map(|kilobytes| kilobytes * 1_000).find(worth);
        assert!(least.is_some_and(|least| (100_000..1_000_000).contains(&least)), "{least:?}");
    }

    #[test]
    fn large_transfers_wait_for_all_relays_and_small_ones_for_what_is_there() {
        let after = |size, whole: u32| {
            let worth = worth_waiting(Bytes(size), whole * MS, &Facts::default(), Policy::default());
            (waits_after(worth, whole * MS, whole * MS), worth)
        };
        let (megabyte, worth) = after(1_000_000, 100);
        assert!(megabyte == 106_250 * MS / 1000 && megabyte < worth, "{megabyte:?} {worth:?}");
        let (ten, worth) = after(10_000_000, 100);
        assert!(ten == worth && ten > 600 * MS, "{ten:?}");
        let waits_for_all = |size: &u64| {
            let (waits, worth) = after(*size, 100);
            waits == worth
        };
        let least = (5..100).map(|tenths| tenths * 100_000).find(waits_for_all);
        assert!(least.is_some_and(|least| (2_500_000..4_000_000).contains(&least)), "{least:?}");
        // Who cannot gain as much as was waited already waits no longer.
        let (small, worth) = after(20_000, 100);
        assert!(small == worth && small < 100 * MS, "{small:?}");
    }

    #[test]
    fn a_session_waits_no_longer_than_a_relay_could_save() {
        let facts = Facts::default();
        let waits = |size, whole: u32| worth_waiting(Bytes(size), whole * MS, &facts, Policy::default());
        // Round trips, of which a relay half-way takes half.
        let megabyte = waits(1_000_000, 100);
        assert!((200 * MS..500 * MS).contains(&megabyte), "{megabyte:?}");
        // In round trips it is about the same however far it is, and it grows with the size.
        let far = waits(1_000_000, 200).as_secs_f64() / megabyte.as_secs_f64();
        assert!((1.8..2.2).contains(&far), "{far}");
        let sizes: Vec<Duration> =
            [1_000, 100_000, 1_000_000, 10_000_000].map(|size| waits(size, 100)).into();
        let more = waits(5_000_000, 100).as_secs_f64() / megabyte.as_secs_f64();
        assert!((3.0..4.2).contains(&more), "{more}");
        assert!(sizes.is_sorted() && sizes[0] < 100 * MS && sizes[3] > 1_000 * MS, "{sizes:?}");
    }
}
