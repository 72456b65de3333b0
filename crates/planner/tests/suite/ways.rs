//! The closed loop in random networks that change: against who knows them, and against who never uses a relay.
use shorthaul_planner::ways::{Learning, Ways, Why};
use shorthaul_planner::{Leg, Path, Relay, ThroughputModel, Transfer, model};
use shorthaul_types::{BitRate, Bytes, Seed, Time};
use std::time::Duration;

const RELAYS: usize = 8;
const MINUTES: u64 = 20;
const SESSIONS_A_MINUTE: u64 = 12;
const SIZES: [u64; 3] = [200_000, 2_000_000, 20_000_000];

/// Draws by number, so that each is the same whatever else is drawn.
struct Draws(Seed, u64);

impl Draws {
    fn uniform(&mut self) -> f64 {
        self.1 += 1;
        (self.0.nth(self.1).0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// At equal distances of the logarithm.
    fn scale(&mut self, low: f64, high: f64) -> f64 {
        (self.between(low.ln(), high.ln())).exp()
    }

    /// Box and Muller (1958).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().max(1e-300).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// A connection's way as it is now, and what there is of load at its end.
#[derive(Clone, Copy)]
struct Link {
    rtt: f64,
    loss: f64,
    rate: f64,
    load: f64,
}

impl Link {
    /// A minute later.
    fn change(&mut self, begun: &Link, draws: &mut Draws) {
        let mut drift = |now: f64, begun: f64, by: f64| {
            // Back to where it began, in a few minutes, but for what chance does meanwhile.
            (0.7 * now.ln() + 0.3 * begun.ln() + by * draws.normal()).exp()
        };
        self.rtt = drift(self.rtt, begun.rtt, 0.08);
        self.loss = drift(self.loss, begun.loss, 0.4).min(0.05);
        self.load = drift(self.load, begun.load, 0.5).min(50.0);
    }

    fn leg(&self) -> Leg {
        let rate = BitRate::from_bits_per_sec((self.rate / (1.0 + self.load)) as u64);
        Leg::new(Duration::from_secs_f64(self.rtt), self.loss, rate)
    }

    /// As it is known: round trips are probed; nothing is told of losses and load.
    fn known(&self, draws: &mut Draws) -> Duration {
        Duration::from_secs_f64(self.rtt * (0.05 * draws.normal()).exp())
    }
}

fn seconds(links: &[Link], size: u64, model: &dyn ThroughputModel) -> f64 {
    let legs: Vec<Leg> = links.iter().map(Link::leg).collect();
    let path = Path { relays: vec![Relay::default(); legs.len() - 1], legs };
    path.forecast(model, &Transfer::new(Bytes(size))).unwrap().time.expected.as_secs_f64()
}

/// What came of a network: mean times, and what was spent.
#[derive(Default)]
struct Outcome {
    closed: f64,
    oracle: f64,
    /// By the ways that were best a minute ago.
    minute_ago: f64,
    direct: f64,
    explored: f64,
    errors: Vec<f64>,
    relayed: f64,
}

fn run(seed: Seed) -> Outcome {
    let model = model::by_name("cubic").unwrap();
    let mut draws = Draws(seed.derive("network"), 0);
    let whole = draws.scale(0.03, 0.25);
    let loss = draws.scale(1e-5, 5e-3);
    let rate = draws.scale(10e6, 200e6);
    let mut begun: Vec<Vec<Link>> = vec![vec![Link { rtt: whole, loss, rate, load: 0.1 }]];
    for _ in 0..RELAYS {
        let (near, detour) = (draws.between(0.1, 0.9), draws.scale(1.0, 1.6));
        let rates = draws.scale(10e6, 400e6);
        let mut link = |part: f64| Link {
            rtt: whole * detour * part,
            loss: loss * part * draws.scale(0.3, 3.0),
            rate: rates,
            load: draws.scale(0.05, 3.0),
        };
        begun.push(vec![link(near), link(1.0 - near)]);
    }
    // What a forecast does not see: of all ways, and of each.
    let off = 0.2 * draws.normal();
    let hidden: Vec<f64> = (0..=RELAYS).map(|_| (off + 0.15 * draws.normal()).exp()).collect();
    let mut now = begun.clone();
    let mut ways = Ways::new(Learning::default(), RELAYS + 1);
    let mut luck = Draws(seed.derive("luck"), 0);
    let mut outcome = Outcome::default();
    let mut session = 0;
    let mut former: Vec<Vec<f64>> = Vec::new();
    for minute in 0..MINUTES {
        let known: Vec<Option<Vec<Duration>>> =
            now.iter().map(|links| Some(links.iter().map(|link| link.known(&mut draws)).collect())).collect();
        let real: Vec<Vec<f64>> =
            SIZES.iter().map(|size| now.iter().map(|of| seconds(of, *size, &*model)).collect()).collect();
        for of_minute in 0..SESSIONS_A_MINUTE {
            let size = (luck.uniform() * 3.0) as usize;
            let of_session = (0.15 * luck.normal()).exp();
            let at = Time::ZERO + Duration::from_secs(60 * minute + 60 * of_minute / SESSIONS_A_MINUTE);
            let choice = ways.choose(at, &known, Bytes(SIZES[size]), &SIZES.map(Bytes)).unwrap();
            let took = |way: usize| real[size][way] * hidden[way] * of_session;
            let legs = known[choice.way].as_ref().unwrap();
            ways.on_measured(at, choice.way, legs, Bytes(SIZES[size]), took(choice.way));
            let best = (0..=RELAYS).map(took).fold(f64::INFINITY, f64::min);
            outcome.closed += took(choice.way);
            outcome.oracle += best;
            let seconds = |way: &usize| former.get(size).map_or(*way as f64, |of| of[*way] * hidden[*way]);
            let was_best = (0..=RELAYS).min_by(|a, b| seconds(a).total_cmp(&seconds(b))).unwrap();
            outcome.minute_ago += took(was_best);
            outcome.direct += took(0);
            outcome.relayed += f64::from(u8::from(choice.way > 0));
            if choice.why == Why::Explores {
                outcome.explored += 1.0;
            }
            if session >= 10 {
                outcome.errors.push((choice.expected / took(choice.way) - 1.0).abs());
            }
            session += 1;
        }
        former = real;
        for (links, begun) in now.iter_mut().zip(&begun) {
            links.iter_mut().zip(begun).for_each(|(link, begun)| link.change(begun, &mut draws));
        }
    }
    let sessions = f64::from(session);
    for sum in [&mut outcome.explored, &mut outcome.relayed] {
        *sum /= sessions;
    }
    outcome
}

#[test]
fn the_closed_loop_is_near_who_knew_all_a_minute_ago_and_never_far_behind_the_direct_way() {
    const NETWORKS: u64 = 10;
    let seed = Seed(23);
    println!("seed {}", seed.0);
    let outcomes: Vec<Outcome> = (0..NETWORKS).map(|at| run(seed.nth(at))).collect();
    let mean = |of: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(of).sum::<f64>() / NETWORKS as f64;
    let beside_oracle = mean(&|outcome| outcome.closed / outcome.oracle);
    let beside_direct = |outcome: &Outcome| outcome.closed / outcome.direct;
    let worst = outcomes.iter().map(beside_direct).fold(0.0, f64::max);
    let mut errors: Vec<f64> = outcomes.iter().flat_map(|outcome| outcome.errors.iter().copied()).collect();
    errors.sort_by(f64::total_cmp);
    let median = errors[errors.len() / 2];
    let (explored, relayed) = (mean(&|outcome| outcome.explored), mean(&|outcome| outcome.relayed));
    let ago = mean(&|outcome| outcome.minute_ago / outcome.oracle);
    println!(
        "beside the oracle {beside_oracle:.3}, who knew all a minute ago {ago:.3}; beside direct {:.3}, {worst:.3} at worst; explored {explored:.3}, by \
         relays {relayed:.3}; the forecast's error {median:.3} in the median",
        mean(&beside_direct)
    );
    // Whoever has to measure cannot know what changes from one minute to the next.
    assert!(beside_oracle <= 1.10 * ago, "{beside_oracle} {ago}");
    assert!(worst <= 1.05, "{worst}");
    assert!(median <= 0.25, "{median}");
    assert!(explored > 0.01 && explored < 0.25, "{explored}");
    assert!(mean(&beside_direct) < 0.95, "relays were of no use");
}
