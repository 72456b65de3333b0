//! How large each relay's buffer is to be, within what each site and all together have.
use shorthaul_types::Bytes;

use crate::buffer::{Flow, couple, needed, passed_on};
use crate::{Path, Relay, TOLERANCE};

/// Beyond this share of lost throughput smaller buffers make no sense to look for.
const LARGEST_LOSS: f64 = 0.999;

/// How far above the slowest leg's rate legs are kept that could be faster, so that they do not delay it.
const HEADROOM: f64 = 1.25;

/// Gives each relay of `path` the buffer with which all lose the same share of throughput: at most [`TOLERANCE`]
/// where memory allows, or else the least share with which all fit into `total`.
///
/// For legs that do not vary and are alike this is the best there is: every relay passes the same rate, `buffer/round trips`.
pub(super) fn fill(path: &mut Path, flows: &[Flow], most: &[Bytes], total: Option<Bytes>) {
    let slowest = flows.iter().map(|flow| flow.rate).fold(f64::INFINITY, f64::min);
    let sizes = |share: f64| -> Vec<Bytes> {
        // What comes to a relay is what the one before lets pass, as in the forecast of a chain.
        let mut so_far = flows[0];
        (0..most.len())
            .map(|i| {
                let round_trips = path.legs[i].round_trip() + path.legs[i + 1].round_trip();
                let outgoing = flows[i + 1];
                // Legs that are far faster than the slowest may lose more: what is well above that one's rate.
                let wanted = (HEADROOM * slowest / so_far.rate.min(outgoing.rate)).min(1.0);
                let tolerance = 1.0 - (1.0 - share) * wanted;
                let buffer = needed(so_far, outgoing, round_trips, tolerance).min(most[i]);
                so_far = passed_on(so_far, outgoing, &couple(so_far, outgoing, buffer, round_trips));
                buffer
            })
            .collect()
    };
    let fits = |sizes: &[Bytes]| {
        let sum = sizes.iter().fold(0u64, |sum, size| sum.saturating_add(size.0));
        total.is_none_or(|total| sum <= total.0)
    };
    let mut chosen = sizes(TOLERANCE);
    if !fits(&chosen) {
        let (mut low, mut high) = (TOLERANCE, LARGEST_LOSS);
        for _ in 0..50 {
            let middle = 0.5 * (low + high);
            if fits(&sizes(middle)) { high = middle } else { low = middle }
        }
        chosen = sizes(high);
    }
    path.relays = chosen.into_iter().map(|buffer| Relay { buffer: Some(buffer) }).collect();
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shorthaul_types::BitRate;

    use super::*;
    use crate::Leg;

    fn filled(total: Option<Bytes>, most: [Bytes; 2]) -> Vec<u64> {
        let leg = |ms| Leg::new(Duration::from_millis(ms), 0.0, BitRate::from_bits_per_sec(80_000_000_000));
        let mut path = Path { legs: vec![leg(10), leg(30), leg(20)], relays: vec![Relay::default(); 2] };
        let flow = Flow::steady(1e6);
        fill(&mut path, &[flow; 3], &most, total);
        path.relays.iter().map(|relay| relay.buffer.unwrap().0).collect()
    }

    #[test]
    fn steady_legs_get_what_is_in_flight() {
        let found = filled(None, [Bytes(u64::MAX); 2]);
        // 95 % of 1 MB/s times 40 and 50 ms.
        assert!(found[0].abs_diff(38_000) < 50 && found[1].abs_diff(47_500) < 50, "{found:?}");
    }

    #[test]
    fn scarce_memory_is_shared_so_that_all_pass_the_same_rate() {
        let found = filled(Some(Bytes(36_000)), [Bytes(u64::MAX); 2]);
        assert!(found.iter().sum::<u64>() <= 36_000);
        assert!(found[0].abs_diff(16_000) < 50 && found[1].abs_diff(20_000) < 50, "{found:?}");
    }

    #[test]
    fn no_site_gives_more_than_it_has() {
        assert_eq!(filled(None, [Bytes(10_000), Bytes(u64::MAX)])[0], 10_000);
    }
}
