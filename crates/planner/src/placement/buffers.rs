//! How large each relay's buffer is to be, within what each site and all together have.
use shorthaul_types::Bytes;

use crate::buffer::{FLIGHTS, Flow, couple, is_lossy, passed_on, room};
use crate::{Path, Relay, TOLERANCE};

/// With a share of lost throughput as large as this no room is needed beyond what is in flight.
const ALL: f64 = 0.999;

/// How far above the slowest leg's rate legs are kept that could be faster, so that they do not delay it.
const HEADROOM: f64 = 1.25;

/// Gives each relay of `path` a buffer for what is in flight, twice where losses are to be repaired, and room with which
/// variation costs [`TOLERANCE`]; or for its `excess`, what slow start brings, where that is more.
///
/// Where that is more than `total`, there is less room at all relays, for the same larger share of lost throughput; where even what
/// is in flight is more, the same part of it everywhere: then all pass the same rate, which is the best there is.
pub(super) fn fill(path: &mut Path, flows: &[Flow], excess: &[f64], most: &[Bytes], total: Option<Bytes>) {
    let slowest = flows.iter().map(|flow| flow.rate).fold(f64::INFINITY, f64::min);
    let sizes = |share: f64, part_of_flight: f64| -> Vec<Bytes> {
        // The less room there is for variation, the less for repairs and for slow start.
        let ease = (ALL - share) / (ALL - TOLERANCE);
        let repairs = (FLIGHTS - 1.0) * ease;
        // What comes to a relay is what the one before lets pass, as in the forecast of a chain.
        let mut so_far = flows[0];
        // And what it would be if all were held that is in flight.
        let mut least = so_far.rate;
        (0..most.len())
            .map(|i| {
                let round_trips = path.legs[i].round_trip() + path.legs[i + 1].round_trip();
                let outgoing = flows[i + 1];
                least = least.min(outgoing.rate);
                // Legs that are far faster than the slowest may lose more: what is well above that one's rate.
                let wanted = (HEADROOM * slowest / least).min(1.0);
                let flights = if is_lossy(so_far, outgoing) { 1.0 + repairs } else { 1.0 };
                let in_flight = part_of_flight * flights * wanted * least * round_trips;
                let room = room(so_far, outgoing, 1.0 - (1.0 - share) * wanted);
                let buffer = Bytes((in_flight + room).max(ease * excess[i]) as u64).min(most[i]);
                so_far = passed_on(so_far, outgoing, &couple(so_far, outgoing, buffer, round_trips));
                buffer
            })
            .collect()
    };
    let fits = |sizes: &[Bytes]| {
        let sum = sizes.iter().fold(0u64, |sum, size| sum.saturating_add(size.0));
        total.is_none_or(|total| sum <= total.0)
    };
    let mut chosen = sizes(TOLERANCE, 1.0);
    if !fits(&chosen) {
        let less_room = fits(&sizes(ALL, 1.0));
        // From what does not fit to what does.
        let (mut too_much, mut enough) = if less_room { (TOLERANCE, ALL) } else { (1.0, 0.0) };
        for _ in 0..50 {
            let middle = 0.5 * (too_much + enough);
            let tried = if less_room { sizes(middle, 1.0) } else { sizes(ALL, middle) };
            if fits(&tried) { enough = middle } else { too_much = middle }
        }
        chosen = if less_room { sizes(enough, 1.0) } else { sizes(ALL, enough) };
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
        fill(&mut path, &[flow; 3], &[0.0; 2], &most, total);
        path.relays.iter().map(|relay| relay.buffer.unwrap().0).collect()
    }

    #[test]
    fn steady_legs_get_what_is_in_flight() {
        let found = filled(None, [Bytes(u64::MAX); 2]);
        // 1 MB/s times 40 and 50 ms.
        assert!(found[0].abs_diff(40_000) < 50 && found[1].abs_diff(50_000) < 50, "{found:?}");
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
