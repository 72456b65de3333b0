use super::{Again, PathMemory, Standing, Start};
use core::time::Duration;
use shorthaul_congestion::KnownRtt;
use shorthaul_types::BitRate;

/// TCP fast start: a sender begins with the window that its path had before, paced over the round trip that it had, instead of slow start.
///
/// ```text
/// window      half of what was, where that still grew exponentially; a segment less, where not
/// at once     the initial window, as slow start would send it
/// paced       the rest, at window / SRTT
/// over        when all of that window is acknowledged
/// timer       SRTT + 4·RTTVAR without a lower bound, once the first segment has been acknowledged
/// let go      when that expires, or when more than one segment of the window was lost: slow start over
///             what is outstanding, from the initial window, no RTO counted and none doubled
/// ```
///
/// Sources: V. N. Padmanabhan and R. H. Katz, "TCP Fast Start: A Technique for Speeding Up Web Transfers", IEEE GLOBECOM 1998, by its abstract, and
/// its first author's own `Agent/TCP/FS` of the simulator ns 2. The window, the timer and what is let go are those of ns, which does so
/// after an idle time.
///
/// Guessed: that a new connection to the same host begins by the same rule, with what the last one knew as it ended; that what leaves at once is
/// the initial window and not one segment, as hosts of today have larger ones; that a window that is no larger than the initial one is none to
/// begin with; that the threshold of before holds again when it is let go of.
///
/// Left out: the higher drop priority of what is sent in fast start. No router here knows one.
#[derive(Clone, Copy, Debug)]
pub struct FastStart {
    /// In bytes.
    initial_window: u64,
    untried: Option<Untried>,
}

/// A window that the path has not yet been seen to carry. Offsets are of the stream.
#[derive(Clone, Copy, Debug)]
struct Untried {
    /// Its first byte, what leaves at once, and behind its last byte.
    begin: u64,
    burst_end: u64,
    end: u64,
    mss: u64,
    rate: BitRate,
    /// The threshold of before.
    ssthresh: u64,
    una: u64,
    /// What of it was lost.
    lost: u64,
}

impl FastStart {
    /// Of a sender with this initial window, in bytes.
    pub fn new(initial_window: u64) -> Self {
        FastStart { initial_window, untried: None }
    }

    /// Begins with the initial window again.
    fn let_go(&mut self) -> Option<Again> {
        let Untried { ssthresh, .. } = self.untried.take()?;
        Some(Again { window: self.initial_window, ssthresh })
    }
}

/// What sends `window` bytes in `srtt`, at least one bit a second.
fn rate_over(window: u64, srtt: Duration) -> BitRate {
    let bits = u128::from(window) * 8 * 1_000_000_000 / srtt.as_nanos().max(1);
    BitRate::from_bits_per_sec(u64::try_from(bits).unwrap_or(u64::MAX).max(1))
}

impl Start for FastStart {
    fn begin(&mut self, at: &Standing, known: &PathMemory) -> Option<u64> {
        if let Some(unsent) = self.untried.filter(|untried| untried.begin == at.una) {
            return Some(unsent.end - unsent.begin); // there was nothing to send yet
        }
        self.untried = None;
        let mss = at.mss.max(1);
        let safe = if known.in_slow_start { known.window / 2 } else { known.window.saturating_sub(mss) };
        let window = safe / mss * mss;
        if at.has_rate || window <= self.initial_window {
            return None;
        }
        let burst = (self.initial_window / mss).max(1) * mss;
        self.untried = Some(Untried {
            begin: at.una,
            burst_end: at.una + burst,
            end: at.una + window,
            mss,
            rate: rate_over(window, known.rtt.srtt),
            ssthresh: known.ssthresh,
            una: at.una,
            lost: 0,
        });
        Some(window)
    }

    fn on_refused(&mut self) {
        self.untried = None;
    }

    fn on_acknowledged(&mut self, una: u64) {
        if let Some(untried) = &mut self.untried {
            untried.una = una;
        }
        self.untried = self.untried.filter(|untried| una < untried.end);
    }

    fn on_lost(&mut self, bytes: u64) -> Option<Again> {
        let untried = self.untried.as_mut()?;
        untried.lost += bytes;
        // One loss is repaired as ever: several show that the window was not this path's.
        if untried.lost <= untried.mss { None } else { self.let_go() }
    }

    fn on_timer(&mut self) -> Option<Again> {
        let is_begun = self.untried.is_some_and(|untried| untried.una > untried.begin);
        // Where not even the first segment was acknowledged, it is an RTO: slow start would have sent that as well.
        self.let_go().filter(|_| is_begun)
    }

    fn burst(&self, nxt: u64) -> Option<u64> {
        let untried = self.untried.filter(|untried| nxt + untried.mss <= untried.burst_end)?;
        Some(untried.burst_end - nxt)
    }

    fn pace(&self, nxt: u64) -> Option<BitRate> {
        let untried = self.untried.filter(|untried| nxt + untried.mss > untried.burst_end)?;
        Some(untried.rate)
    }

    fn patience(&self, rtt: Option<KnownRtt>) -> Option<Duration> {
        self.untried.filter(|untried| untried.una > untried.begin)?;
        let KnownRtt { srtt, rttvar, .. } = rtt?;
        Some(srtt + rttvar * 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    fn memory(window: u64, in_slow_start: bool) -> PathMemory {
        let ms = Duration::from_millis;
        let rtt = KnownRtt { srtt: ms(100), rttvar: ms(10), min: ms(90) };
        PathMemory { window, ssthresh: 30_000, in_slow_start, rtt }
    }

    fn begun(window: u64, in_slow_start: bool) -> (FastStart, Option<u64>) {
        let mut start = FastStart::new(2 * MSS);
        let window =
            start.begin(&Standing { una: 1, mss: MSS, has_rate: false }, &memory(window, in_slow_start));
        (start, window)
    }

    #[test]
    fn the_window_is_a_safe_one_and_no_smaller_than_the_initial_one() {
        assert_eq!(begun(20_500, true).1, Some(10_000), "half of one that still grew");
        assert_eq!(
            begun(20_500, false).1,
            Some(19_000),
            "a segment less than one that has met its threshold"
        );
        assert_eq!(begun(5_900, true).1, None, "the initial window is as large");
        let standing = Standing { una: 1, mss: MSS, has_rate: true };
        assert_eq!(FastStart::new(2 * MSS).begin(&standing, &memory(20_000, false)), None);
    }

    #[test]
    fn a_window_of_which_nothing_was_sent_stays() {
        let (mut start, window) = begun(21_000, true);
        let standing = Standing { una: 1, mss: MSS, has_rate: false };
        assert_eq!(
            start.begin(&standing, &memory(window.unwrap(), true)),
            Some(10_000),
            "it is not halved again"
        );
        start.on_acknowledged(9_001);
        let standing = Standing { una: 9_001, ..standing };
        assert_eq!(start.begin(&standing, &memory(18_000, true)), Some(9_000));
    }

    #[test]
    fn what_slow_start_would_send_leaves_at_once_and_the_rest_over_a_round_trip() {
        let (start, _) = begun(21_000, false);
        assert_eq!((start.burst(1), start.pace(1)), (Some(2_000), None));
        assert_eq!((start.burst(1001), start.burst(1501)), (Some(1_000), None), "no whole segment is left");
        // 20 kB in 100 ms.
        assert_eq!(start.pace(2001), Some(BitRate::from_bits_per_sec(1_600_000)));
    }

    #[test]
    fn it_is_over_when_its_window_is_acknowledged() {
        let (mut start, _) = begun(21_000, false);
        start.on_acknowledged(20_000);
        assert!(start.pace(20_001).is_some());
        start.on_acknowledged(20_001);
        assert!(start.pace(20_001).is_none() && start.on_timer().is_none());
    }

    #[test]
    fn the_timer_is_short_once_the_first_segment_has_arrived() {
        let (mut start, _) = begun(21_000, false);
        let rtt = Some(memory(0, false).rtt);
        assert_eq!(start.patience(rtt), None);
        start.on_acknowledged(1001);
        assert_eq!(start.patience(rtt), Some(Duration::from_millis(140)));
        assert_eq!(start.on_timer(), Some(Again { window: 2_000, ssthresh: 30_000 }));
        assert_eq!(start.patience(rtt), None, "it is over");
    }

    #[test]
    fn a_timer_before_that_is_an_rto_and_ends_it() {
        let (mut start, _) = begun(21_000, false);
        assert_eq!(start.on_timer(), None);
        assert!(start.pace(5_001).is_none());
    }

    #[test]
    fn one_loss_is_repaired_and_a_second_one_ends_it() {
        let (mut start, _) = begun(21_000, false);
        assert_eq!(start.on_lost(MSS), None);
        assert_eq!(start.on_lost(MSS), Some(Again { window: 2_000, ssthresh: 30_000 }));
        assert_eq!(start.on_lost(MSS), None);
    }
}
