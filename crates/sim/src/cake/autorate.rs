//! cake-autorate: rates of CAKE that follow the load and the one-way delays to reflectors.
//!
//! The rule is that of the script cake-autorate (github.com/lynxthecat/cake-autorate, its main loop and the defaults of its settings;
//! their names are given here). With one-way delays, as its pinger `tsping` measures them. What is not here: that pings rest when the
//! link does, stalls, bad reflectors that are replaced, and `sss_compensation`, which is off by default.
use shorthaul_scenario::{Autorate, RateRange};
use shorthaul_types::{BitRate, Bytes, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// `no_pingers`.
pub(crate) const PINGERS: u16 = 6;
/// Each of them asks so often: `reflector_ping_interval_s`.
pub(crate) const PING_INTERVAL: Duration = Duration::from_millis(300);
/// `monitor_achieved_rates_interval_ms`.
pub(crate) const MONITOR_INTERVAL: Duration = Duration::from_millis(200);
/// `bufferbloat_detection_thr` of the last `bufferbloat_detection_window` samples are late.
const WINDOW: usize = 6;
const LATE_OF_WINDOW: usize = 3;
/// `alpha_baseline_increase`, `alpha_baseline_decrease`.
const BASELINE_RISES: f64 = 0.001;
const BASELINE_FALLS: f64 = 0.9;
/// `high_load_thr`.
const HIGH_LOAD: f64 = 0.75;
/// `shaper_rate_min_adjust_down_bufferbloat`, `shaper_rate_max_adjust_down_bufferbloat`.
const FALL: [f64; 2] = [0.99, 0.75];
/// `shaper_rate_min_adjust_up_load_high`, `shaper_rate_max_adjust_up_load_high`.
const RISE: [f64; 2] = [1.0, 1.04];
/// `avg_owd_delta_max_adjust_up_thr_ms`.
const RISES_MOST_AT: Duration = Duration::from_millis(10);
/// `shaper_rate_adjust_down_load_low`, `shaper_rate_adjust_up_load_low`.
const RETURN: [f64; 2] = [0.99, 1.01];
/// `bufferbloat_refractory_period_ms`, `decay_refractory_period_ms`.
const AFTER_BLOAT: Duration = Duration::from_millis(300);
const AFTER_RETURN: Duration = Duration::from_millis(1000);
/// The longest packet: what is sent of it is no delay.
const PACKET: Bytes = Bytes(1514);

/// One direction.
#[derive(Debug)]
struct Way {
    range: RateRange,
    rate: f64,
    baselines: [Option<f64>; PINGERS as usize],
    /// Delays above the baseline, the last of all pingers.
    deltas: VecDeque<f64>,
    /// What left since it was last looked.
    bytes: u64,
    /// The share of the rate that is used.
    load: f64,
    is_load_new: bool,
    bloat_at: Option<Time>,
    returned_at: Time,
}

/// Both directions.
#[derive(Debug)]
pub(crate) struct Controller {
    config: Autorate,
    ways: [Way; 2],
}

impl Controller {
    pub fn new(config: Autorate) -> Self {
        let way = |range: RateRange| Way {
            range,
            rate: range.base.bits_per_sec() as f64,
            baselines: [None; PINGERS as usize],
            deltas: VecDeque::from([0.0; WINDOW]),
            bytes: 0,
            load: 0.0,
            is_load_new: false,
            bloat_at: None,
            returned_at: Time::ZERO,
        };
        Controller { ways: [way(config.down), way(config.up)], config }
    }

    /// The rates, down and up.
    pub fn rates(&self) -> [BitRate; 2] {
        self.ways.each_ref().map(|way| BitRate::from_bits_per_sec(way.rate as u64))
    }

    /// So many bytes have left, down (0) or up (1).
    pub fn on_bytes(&mut self, way: usize, bytes: u64) {
        self.ways[way].bytes += bytes;
    }

    /// A monitor interval is over.
    pub fn on_interval(&mut self) {
        for way in &mut self.ways {
            let achieved = way.bytes as f64 * 8.0 / MONITOR_INTERVAL.as_secs_f64();
            way.bytes = 0;
            way.load = achieved / way.rate;
            way.is_load_new = true;
        }
    }

    /// A pinger has an answer: how long it took, down and up.
    pub fn on_answer(&mut self, now: Time, pinger: usize, delays: [Duration; 2]) {
        for (way, delay) in self.ways.iter_mut().zip(delays) {
            way.on_delay(pinger, delay.as_secs_f64());
            way.adjust(now, &self.config);
        }
    }
}

impl Way {
    fn on_delay(&mut self, pinger: usize, delay: f64) {
        let Some(baseline) = self.baselines.get_mut(pinger) else { return };
        let before = baseline.unwrap_or(delay);
        let alpha = if delay >= before { BASELINE_RISES } else { BASELINE_FALLS };
        let after = alpha * delay + (1.0 - alpha) * before;
        *baseline = Some(after);
        self.deltas.pop_front();
        self.deltas.push_back(delay - after);
    }

    fn adjust(&mut self, now: Time, config: &Autorate) {
        let own = PACKET.0 as f64 * 8.0 / self.rate;
        let with_own = |threshold: Duration| threshold.as_secs_f64() + own;
        let late = with_own(config.delay_threshold);
        let late_count = self.deltas.iter().filter(|delta| **delta > late).count();
        let mean = self.deltas.iter().sum::<f64>() / WINDOW as f64;
        let rests = self.bloat_at.is_some_and(|at| now.saturating_since(at) <= AFTER_BLOAT);
        let between = |[least, most]: [f64; 2], share: f64| least + share.clamp(0.0, 1.0) * (most - least);
        if late_count >= LATE_OF_WINDOW {
            if !rests {
                let most_at = with_own(config.falls_most_at);
                let share = if most_at <= late { 1.0 } else { (mean - late) / (most_at - late) };
                self.rate *= between(FALL, share);
                self.bloat_at = Some(now);
                self.returned_at = now;
            }
        } else if self.load > HIGH_LOAD {
            if self.is_load_new && !rests {
                let most_at = with_own(RISES_MOST_AT);
                let share = if late <= most_at { 1.0 } else { (late - mean) / (late - most_at) };
                self.rate *= between(RISE, share);
                self.is_load_new = false;
                self.returned_at = now;
            }
        } else if now.saturating_since(self.returned_at) > AFTER_RETURN {
            let base = self.range.base.bits_per_sec() as f64;
            self.rate = if self.rate > base {
                (self.rate * RETURN[0]).max(base)
            } else {
                (self.rate * RETURN[1]).min(base)
            };
            self.returned_at = now;
        }
        let [min, max] = [self.range.min, self.range.max].map(|rate| rate.bits_per_sec() as f64);
        self.rate = self.rate.clamp(min, max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(50);

    fn mbit(rate: u64) -> BitRate {
        BitRate::from_bits_per_sec(rate * 1_000_000)
    }

    fn controller() -> Controller {
        let range = |min, base, max| RateRange { min: mbit(min), base: mbit(base), max: mbit(max) };
        Controller::new(Autorate {
            reflectors: Vec::new(),
            down: range(5, 20, 80),
            up: range(1, 2, 4),
            delay_threshold: Duration::from_millis(30),
            falls_most_at: Duration::from_millis(60),
        })
    }

    /// Answers each 50 ms from `from` on, for `seconds`, with a download that takes `load` of the rate and answers that take `delay` ms.
    fn run(controller: &mut Controller, from: f64, seconds: f64, load: f64, delay: u64) -> f64 {
        let mut now = Time::ZERO + Duration::from_secs_f64(from);
        for step in 0..(seconds / STEP.as_secs_f64()) as usize {
            let rate = controller.ways[0].rate;
            controller.on_bytes(0, (rate * load * STEP.as_secs_f64() / 8.0) as u64);
            if step % 4 == 3 {
                controller.on_interval();
            }
            let delay = Duration::from_millis(delay);
            controller.on_answer(now, step % usize::from(PINGERS), [delay, Duration::from_millis(10)]);
            now += STEP;
        }
        controller.ways[0].rate * 1e-6
    }

    #[test]
    fn it_rises_while_the_load_is_high_and_nothing_is_late() {
        let mut controller = controller();
        let rate = run(&mut controller, 0.0, 4.0, 0.95, 10);
        // Once a monitor interval, by 4 %.
        let expected = 20.0 * 1.04_f64.powi(19);
        assert!((rate / expected - 1.0).abs() < 0.05, "{rate} of {expected}");
        assert_eq!(run(&mut controller, 4.0, 60.0, 0.95, 10), 80.0, "no further than the maximum");
        assert_eq!(controller.rates()[1], mbit(2), "the other direction is by itself");
        let mut slow = self::controller();
        let [fast, slow] = [10, 35].map(|delay| {
            run(&mut slow, 0.0, 1.0, 0.1, 10);
            let rate = run(&mut slow, 1.0, 3.0, 0.95, delay);
            slow = self::controller();
            rate
        });
        assert!(
            slow < 0.8 * fast,
            "with delays of 25 ms, below the threshold, it rises by less: {slow} {fast}"
        );
    }

    #[test]
    fn three_late_of_six_make_it_fall_and_more_so_the_later_they_are() {
        let after = |delay, samples: f64| {
            let mut controller = controller();
            run(&mut controller, 0.0, 1.0, 0.1, 10);
            run(&mut controller, 1.0, samples * 0.05, 0.1, delay)
        };
        assert_eq!(after(80, 2.0), 20.0, "two are not enough");
        let first = after(80, 3.0);
        assert!((0.95..0.995).contains(&(first / 20.0)), "the mean of the window is only half late: {first}");
        let (some, much) = (after(50, 14.0), after(200, 14.0));
        assert!(much < 20.0 * 0.75 * 0.76 && some > 1.3 * much, "{some} {much}");
        let mut controller = controller();
        run(&mut controller, 0.0, 1.0, 0.1, 10);
        assert_eq!(run(&mut controller, 1.0, 20.0, 0.9, 500), 5.0, "no further than the minimum");
    }

    #[test]
    fn it_falls_once_in_the_refractory_period() {
        let mut controller = controller();
        run(&mut controller, 0.0, 1.0, 0.1, 10);
        let rates: Vec<f64> =
            (0..40).map(|n| run(&mut controller, 1.0 + 0.05 * f64::from(n), 0.05, 0.1, 100)).collect();
        let falls = rates.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!((4..=6).contains(&falls), "in 2 s, one each 350 ms: {falls}");
    }

    #[test]
    fn with_little_load_it_returns_to_the_base() {
        let mut controller = controller();
        run(&mut controller, 0.0, 10.0, 0.95, 10);
        let high = controller.ways[0].rate * 1e-6;
        let after = run(&mut controller, 10.0, 10.5, 0.2, 10);
        assert!((after / high - 0.99_f64.powi(9)).abs() < 0.02, "1 % a second: {after} of {high}");
        assert_eq!(run(&mut controller, 21.0, 400.0, 0.2, 10), 20.0);
        controller.ways[0].rate = 10e6;
        assert_eq!(run(&mut controller, 421.0, 200.0, 0.2, 10), 20.0, "from below, too");
    }

    #[test]
    fn a_path_that_becomes_longer_is_bloat_for_long_and_one_that_becomes_shorter_at_once_the_baseline() {
        let mut controller = controller();
        run(&mut controller, 0.0, 5.0, 0.5, 20);
        run(&mut controller, 5.0, 1.0, 0.5, 10);
        assert!(controller.ways[0].baselines[0].unwrap() < 0.012);
        // 60 ms longer: no queue, and it goes down to the minimum all the same.
        assert_eq!(run(&mut controller, 6.0, 30.0, 0.9, 70), 5.0);
    }
}
