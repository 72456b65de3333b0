//! Which way a session takes: what a client of `shorthaul proxy --discover` expects of ways before any was measured.
use shorthaul_planner::ways::{Learning, Ways};
use shorthaul_relay::learning::ABOUT_AS_GOOD;
use shorthaul_types::Bytes;
use std::time::Duration;

/// Seconds of a session of one size by a way, from its round trips. What [`Ways`] expects is the set-up, which is proportional to the sum of the legs, and
/// what the slowest leg takes: so a table of the latter serves all ways.
#[derive(Debug)]
pub struct Forecasts {
    /// By millisecond of the slowest leg.
    slowest: Vec<f64>,
    /// Round trips of all legs that the set-up takes.
    set_up: f64,
    least_gain: f64,
}

/// The longest round trip that is in the table, in milliseconds.
const LONGEST: usize = 6000;

impl Forecasts {
    pub fn new(size: Bytes) -> Forecasts {
        let learning = Learning::default();
        let unknown = Ways::new(learning, 1);
        let expected = |legs: &[f64]| {
            let legs: Vec<Duration> = legs.iter().map(|leg| Duration::from_secs_f64(*leg)).collect();
            unknown.expected(0, &legs, size).seconds
        };
        // A second leg that is no slower adds its set-up alone.
        let set_up = (expected(&[0.1, 0.1]) - expected(&[0.1])) / 0.1;
        let slowest = (0..=LONGEST).map(|ms| {
            let leg = (ms as f64 / 1e3).max(1e-4);
            expected(&[leg]) - set_up * leg
        });
        Forecasts { slowest: slowest.collect(), set_up, least_gain: learning.least_gain }
    }

    fn moving(&self, leg: f64) -> f64 {
        let at = (leg * 1e3).clamp(0.0, LONGEST as f64 - 1.0);
        let (below, part) = (at as usize, at.fract());
        self.slowest[below] * (1.0 - part) + self.slowest[below + 1] * part
    }

    /// Directly.
    pub fn direct(&self, whole: f64) -> f64 {
        self.set_up * whole + self.moving(whole)
    }

    /// By one node.
    pub fn by(&self, near: f64, far: f64) -> f64 {
        self.set_up * (near + far) + self.moving(near.max(far))
    }

    /// Whether a node that takes so long is used beside the direct way.
    pub fn pays(&self, by: f64, direct: f64) -> bool {
        direct >= by * self.least_gain
    }

    /// Whether one node is about as good as the best: then both share sessions.
    pub fn is_alike(seconds: f64, best: f64) -> bool {
        seconds <= best * ABOUT_AS_GOOD
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_planner::ways::Why;
    use shorthaul_types::Time;

    #[test]
    fn sessions_are_forecast_and_relays_taken_as_clients_do() {
        for size in [Bytes(20_000), Bytes(1_000_000), Bytes(10_000_000)] {
            let (forecasts, unknown) = (Forecasts::new(size), Ways::new(Learning::default(), 2));
            let ms = Duration::from_millis;
            let mut relays = 0;
            for (whole, near, far) in
                [(200, 90, 120), (200, 195, 10), (80, 40, 45), (20, 15, 40), (300, 151, 150)]
            {
                let direct = unknown.expected(0, &[ms(whole)], size).seconds;
                let by = unknown.expected(1, &[ms(near), ms(far)], size).seconds;
                let [whole_s, near_s, far_s] = [whole, near, far].map(|time| time as f64 / 1e3);
                let ours = (forecasts.direct(whole_s), forecasts.by(near_s, far_s));
                assert!(
                    (ours.0 / direct - 1.0).abs() < 0.01 && (ours.1 / by - 1.0).abs() < 0.01,
                    "{ours:?} {direct} {by}"
                );
                // Nothing is explored, so that the choice is the forecast's.
                let mut ways = Ways::new(Learning { purse: 0.0, ..Learning::default() }, 2);
                let all = [Some(vec![ms(whole)]), Some(vec![ms(near), ms(far)])];
                let choice = ways.choose(Time::ZERO, &all, size, &[size]).unwrap();
                assert_eq!(
                    choice.why == Why::Fastest,
                    forecasts.pays(ours.1, ours.0),
                    "{whole} {near} {far} {size:?}"
                );
                relays += u32::from(choice.why == Why::Fastest);
            }
            assert!(size.0 < 100_000 || (1..5).contains(&relays), "some pay and some do not: {relays}");
        }
    }
}
