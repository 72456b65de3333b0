use serde::Serialize;
use shorthaul_planner::chain::{Chain, Ends};
use shorthaul_planner::{Leg, Limit, Path, Relay, Transfer, model};
use shorthaul_types::{BitRate, Bytes};
use std::time::Duration;

/// One combination of Table I's values, and how many relays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub(super) struct PathPoint {
    /// Round trip between the ends.
    pub rtt_ms: u64,
    /// Of every link.
    pub kbit: u64,
    /// Lost packets in 100 000, of all legs together; 0 in Figure 3.
    pub loss_per_100k: u64,
    /// Relays at equal distances; 0: long-haul.
    pub relays: usize,
}

/// Table I.
pub(super) const RTTS_MS: [u64; 7] = [8, 16, 32, 64, 128, 256, 512];
/// Table I.
pub(super) const KBITS: [u64; 10] =
    [512, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000];
/// Table I: 0.001 to 1 %.
pub(super) const LOSSES_PER_100K: [u64; 4] = [1, 10, 100, 1_000];
const RELAYS: [usize; 3] = [0, 1, 2];

/// Segments of a transfer at most. With 0.001 % of loss a steady state takes a million, which costs a second a
/// run and more; what is cut off is marked as such.
const MOST_SEGMENTS: f64 = 150_000.0;
/// And at least.
const LEAST_SEGMENTS: f64 = 500.0;
/// Losses that a steady state has at least, where losses bind. With ten, the mean is that of the few samples whose slow
/// start met no loss for long.
const LOSSES: f64 = 100.0;
/// Packets that Dummynet's queue holds, unless it is told otherwise.
const DUMMYNET_QUEUE: f64 = 50.0;

/// FreeBSD 9: NewReno with SACK, ACKs delayed by 100 ms, no pacing, and an initial window of three segments (RFC 3390).
const FREEBSD: &str = ", pacing = false, ack = \"delayed 100 ms\", initial_window = 3";

/// How ends and relays speak TCP: as FreeBSD 9 with another congestion control.
pub(super) fn ends(name: &str, streams: u32) -> Option<Ends> {
    let (profile, differences, model) = match name {
        "reno" => ("sack-reno", FREEBSD, "reno"),
        "cubic" => ("cubic", FREEBSD, "cubic"),
        // BBR without pacing is not BBR.
        "bbr" => ("bbr", ", ack = \"delayed 100 ms\", initial_window = 3", "bbr"),
        _ => return None,
    };
    Some(Ends { profile, differences, model, streams })
}

impl PathPoint {
    /// All of Table I with 0, 1 and 2 relays: 840 cells.
    pub fn all() -> Vec<PathPoint> {
        let mut all = Vec::new();
        for rtt_ms in RTTS_MS {
            for kbit in KBITS {
                for loss_per_100k in LOSSES_PER_100K {
                    all.extend(RELAYS.map(|relays| PathPoint { rtt_ms, kbit, loss_per_100k, relays }));
                }
            }
        }
        all
    }

    /// Figure 3's cells without any loss, which Table I does not have.
    pub fn without_loss() -> Vec<PathPoint> {
        let of = |rtt_ms| RELAYS.map(|relays| PathPoint { rtt_ms, kbit: 32_000, loss_per_100k: 0, relays });
        [64, 128].into_iter().flat_map(of).collect()
    }

    /// Those of Table I that are in the figures, or of which the paper states something.
    pub fn in_figures() -> Vec<PathPoint> {
        let mut all = PathPoint::all();
        all.retain(|cell| {
            let figure_2 =
                cell.loss_per_100k == 100 && (4_000..=128_000).contains(&cell.kbit) && cell.relays < 2;
            let figure_3 = cell.kbit == 32_000 && [64, 128].contains(&cell.rtt_ms);
            let figure_5 = cell.kbit == 128_000 && cell.relays < 2;
            let small =
                cell.loss_per_100k == 100 && cell.kbit <= 2_000 && cell.rtt_ms <= 64 && cell.relays < 2;
            figure_2 || figure_3 || figure_5 || small
        });
        all
    }

    /// The way between the ends, without relays.
    ///
    /// Its queue holds a bandwidth-delay product, or Dummynet's 50 packets where that is more.
    pub fn long_haul(&self) -> Leg {
        let leg = Leg::new(
            Duration::from_millis(self.rtt_ms),
            self.loss_per_100k as f64 / 1e5,
            BitRate::from_bits_per_sec(self.kbit * 1_000),
        );
        Leg { initial_window: 3, ..leg }
    }

    /// The bandwidth-delay product in bytes.
    pub fn product(&self) -> f64 {
        self.kbit as f64 * self.rtt_ms as f64 / 8.0
    }

    /// The legs, each with its share of round trip and loss (equation 8).
    pub fn path(&self) -> Path {
        let mut path = Path::evenly_split(&self.long_haul(), self.relays, Relay::default());
        for leg in &mut path.legs {
            *leg = with_queue(*leg);
        }
        path
    }

    /// What is moved: the same whatever the number of relays.
    ///
    /// Slow start is to take at most a tenth of the time, and where losses bind there are to be at least
    /// [`LOSSES`] of them. Returns whether that is so, or [`MOST_SEGMENTS`] came before it.
    pub fn size(&self) -> (Bytes, bool) {
        let leg = with_queue(self.long_haul());
        let Ok(reno) = model::by_name("reno") else { return (Bytes(0), false) };
        let rate = reno.rate(&leg);
        let window = rate.segments_per_sec * leg.rtt.as_secs_f64();
        let rounds = (window / f64::from(leg.initial_window)).log2().max(1.0) + 1.0;
        let settled = match rate.limit {
            // Losses make no difference, but the queue must have had the time to fill.
            Limit::Capacity | Limit::Queue => 3.0 * (window + leg.queue_packets() as f64),
            _ => LOSSES / leg.loss,
        };
        let wanted = (10.0 * rounds * window).max(settled).max(LEAST_SEGMENTS);
        let segments = wanted.min(MOST_SEGMENTS);
        (Bytes((segments * f64::from(leg.framing.mss())) as u64), wanted <= MOST_SEGMENTS)
    }

    /// What is simulated and forecast.
    pub fn chain(&self, ends: Ends) -> Chain {
        Chain { path: self.path(), transfer: Transfer::new(self.size().0), ends }
    }
}

/// Dummynet's queue as a part of a leg's product.
fn dummynet(leg: &Leg) -> f64 {
    let product =
        leg.capacity.bits_per_sec() as f64 / 8.0 * leg.rtt.as_secs_f64() / f64::from(leg.framing.frame());
    // The model rounds its queue up from a product that is a packet larger.
    DUMMYNET_QUEUE / (product + 1.0)
}

/// The leg with a queue of one product, or of Dummynet's 50 packets.
pub(super) fn with_queue(leg: Leg) -> Leg {
    Leg { queue_bdp: dummynet(&leg).max(1.0), ..leg }
}

/// The leg with a queue of 50 packets, which Dummynet has unless it is told otherwise, whatever the product.
pub(super) fn with_queue_of_dummynet(leg: Leg) -> Leg {
    Leg { queue_bdp: dummynet(&leg), ..leg }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_is_table_ones() {
        assert_eq!(PathPoint::all().len(), 7 * 10 * 4 * 3);
        let quick = PathPoint::in_figures();
        assert!(quick.len() < 220, "{}", quick.len());
        // No relayed cell without the long-haul one that it is compared with.
        assert!(quick.iter().all(|cell| quick.contains(&PathPoint { relays: 0, ..*cell })));
    }

    #[test]
    fn legs_share_round_trip_and_loss() {
        let cell = PathPoint { rtt_ms: 64, kbit: 32_000, loss_per_100k: 100, relays: 1 };
        let path = cell.path();
        assert_eq!(path.legs.len(), 2);
        assert!(path.legs.iter().all(|leg| leg.rtt == Duration::from_millis(32)));
        assert!((path.legs.iter().map(|leg| leg.loss).sum::<f64>() - 0.001).abs() < 1e-12);
        let tiny = PathPoint { rtt_ms: 8, kbit: 512, loss_per_100k: 100, relays: 0 };
        assert!((49..=51).contains(&tiny.path().legs[0].queue_packets()));
    }

    #[test]
    fn dummynets_queue_is_short_beside_a_large_product() {
        let whole = PathPoint { rtt_ms: 256, kbit: 32_000, loss_per_100k: 0, relays: 0 }.long_haul();
        let packets = |leg: Leg| leg.queue_packets();
        assert!((49..=51).contains(&packets(with_queue_of_dummynet(whole))));
        assert!(packets(with_queue(whole)) > 600, "a product: {}", packets(with_queue(whole)));
    }

    #[test]
    fn what_figure_3_has_without_loss_can_be_run() {
        let cells = PathPoint::without_loss();
        assert_eq!(cells.len(), 6);
        for cell in cells {
            assert!(cell.path().legs.iter().all(|leg| leg.loss == 0.0));
            assert!(cell.size().1, "{cell:?}");
        }
    }

    #[test]
    fn sizes_are_steady_or_marked() {
        for cell in PathPoint::all() {
            let (size, steady) = cell.size();
            assert!(size.0 >= 500 * 1448 && size.0 <= 150_000 * 1448, "{cell:?}");
            assert!(steady || cell.loss_per_100k <= 10 || cell.product() > 4e6, "{cell:?}");
        }
    }
}
