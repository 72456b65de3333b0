//! Two Reno senders in tandem with a bounded buffer between them, simulated window by window, against the closed form.
use shorthaul_planner::buffer::{Flow, couple};
use shorthaul_testkit::Chance;
use shorthaul_types::{Bytes, Seed};

/// Reno in a fluid link: grows by one segment a round trip, halves at losses, which fall on segments at random.
struct Sender {
    window: f64,
    loss: f64,
    until_loss: f64,
    chance: Chance,
}

impl Sender {
    fn new(loss: f64, seed: Seed) -> Self {
        let mut sender = Sender { window: 1.3 / loss.sqrt(), loss, until_loss: 0.0, chance: Chance(seed.0) };
        sender.until_loss = sender.draw();
        sender
    }

    /// Segments until the next loss: exponential.
    fn draw(&mut self) -> f64 {
        let uniform = ((self.chance.number() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        -uniform.ln() / self.loss
    }

    /// `sent` of the `possible` segments were sent in `step` round trips.
    fn sent(&mut self, sent: f64, possible: f64, step: f64) {
        if sent >= self.until_loss {
            self.until_loss = self.draw();
            self.window = (self.window / 2.0).max(1.0);
            return;
        }
        self.until_loss -= sent;
        // RFC 7661: a window that is not used does not grow.
        if sent > 0.999 * possible {
            self.window += step;
        }
    }
}

/// Segments a round trip that pass, with room for `room` segments; the second sender is `ratio` times as fast.
fn simulated(loss: f64, room: f64, ratio: f64) -> f64 {
    let (mut first, mut second) = (Sender::new(loss, Seed(7)), Sender::new(loss / ratio.powi(2), Seed(8)));
    let (steps, step) = (800_000, 0.25);
    let (mut held, mut passed) = (0.0f64, 0.0);
    for _ in 0..steps {
        let (can_in, can_out) = (first.window * step, second.window * step);
        let out = can_out.min(held + can_in);
        let into = can_in.min(room - held + out);
        held += into - out;
        passed += out;
        first.sent(into, can_in, step);
        second.sent(out, can_out, step);
    }
    passed / (f64::from(steps) * step)
}

#[test]
fn drought_and_overflow_are_those_of_two_simulated_senders() {
    let loss: f64 = 1e-3;
    // Segments per round trip as bytes per second: elasticity ½, so variance ¼/p for each segment.
    let flow = |rate: f64, loss: f64| Flow { rate, variance: rate * 0.25 / loss, deviation: 0.4 * rate };
    for (ratio, error) in [(1.0, 0.04), (1.25, 0.08), (1.5, 0.08)] {
        for room in [5.0, 75.0, 250.0, 750.0, 2500.0, 7500.0] {
            let first = 1.31 / loss.sqrt();
            let (a, b) = (flow(first, loss), flow(ratio * first, loss / f64::powi(ratio, 2)));
            let forecast = couple(a, b, Bytes(room as u64), 0.0).rate;
            let found = simulated(loss, room, ratio);
            assert!(
                (forecast / found - 1.0).abs() < error,
                "ratio {ratio}, room {room}: {forecast:.1} segments a round trip, simulated {found:.1}"
            );
        }
    }
}
