//! Clients and nodes: each node shares what it can do evenly among its sessions, and tells now and then how many they are.
use crate::bench::plan::draw::{Draw, Range};
use crate::error::{Result, TrialError};
use shorthaul_planner::sharing::{self, Load};
use shorthaul_planner::ways::Learning;
use shorthaul_relay::Endpoint;
use shorthaul_relay::learning::{Candidate, Knowledge, Past};
use shorthaul_types::{BitRate, Seed, Time};
use std::ops::Range as Span;
use std::time::Duration;

/// What nodes can do, in units of [`UNIT`].
pub const STRENGTHS: [f64; 5] = [1.0, 2.0, 3.0, 5.0, 9.0];
/// Bytes a second: 10 Mbit/s.
const UNIT: f64 = 1.25e6;
/// The node that is overloaded where one is: the strongest. It does a tenth of what it can.
pub const OVERLOADED: usize = 4;
/// Seconds of a step.
const STEP: f64 = 0.02;
/// The round trips of all ways, and what set-up takes.
const LEG: f64 = 0.02;
const SET_UP: f64 = 0.06;

/// How clients choose among the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// As `shorthaul proxy` does: by what each client has learnt, and of nodes about as good by what they told.
    Client,
    /// What was told alone: the less loaded of two that are drawn by their strength, with what was told counting less as it becomes older.
    TwoChoices,
    /// By strength alone: nothing is told of sessions.
    Strength,
    /// The best of what was told.
    BestTold,
    /// Who knows how all nodes are at this moment, and takes the best.
    Optimum,
}

/// What there is to choose in.
#[derive(Clone, Debug)]
pub struct Setting {
    pub clients: usize,
    /// Seconds that are simulated.
    pub seconds: f64,
    /// Seconds between a client's sessions, on average.
    pub pause: f64,
    /// Nodes tell how they are each so many seconds.
    pub tells: f64,
    /// When a node is overloaded.
    pub overload: Span<f64>,
}

/// A session that is over, or has begun.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    pub asked: f64,
    /// Seconds; infinite while it goes on.
    pub took: f64,
    pub node: usize,
}

struct Client {
    knowledge: Knowledge,
    wakes: Option<f64>,
}

/// A session that goes on: whose, its number, its size, and how much of it is left.
struct Going {
    client: usize,
    session: usize,
    size: f64,
    left: f64,
    /// Seconds that were spent on asking nodes before it began.
    asking: f64,
}

fn endpoint(text: &str) -> Result<Endpoint> {
    text.parse().map_err(|error| TrialError::asked(format!("{error}")))
}

/// All sessions, in the order in which they began.
pub fn run(seed: Seed, rule: Rule, setting: &Setting) -> Result<Vec<Session>> {
    let destination = endpoint("192.0.2.1:80")?;
    let nodes: Vec<Endpoint> = (1..=STRENGTHS.len())
        .map(|node| endpoint(&format!("198.51.100.{node}:7080")))
        .collect::<Result<_>>()?;
    let leg = Duration::from_secs_f64(LEG);
    let mut draws = 0;
    let mut uniform = move || {
        draws += 1;
        Draw(seed).nth(draws).share("share")
    };
    let new = || Knowledge::new(Learning::default());
    let mut clients: Vec<Client> = (0..setting.clients)
        .map(|_| Client { knowledge: new(), wakes: Some(setting.pause * uniform()) })
        .collect();
    let mut going: Vec<Vec<Going>> = (0..STRENGTHS.len()).map(|_| Vec::new()).collect();
    let mut sessions: Vec<Session> = Vec::new();
    let (mut told, mut told_at) = (Vec::new(), f64::NEG_INFINITY);
    let mut now = 0.0;
    while now < setting.seconds {
        let mut strengths = STRENGTHS;
        if setting.overload.contains(&now) {
            strengths[OVERLOADED] /= 10.0;
        }
        let real = |going: &[Vec<Going>], age: f64| -> Vec<Load> {
            let of = |(strength, going): (&f64, &Vec<Going>)| {
                let rate = BitRate::from_bits_per_sec((8.0 * UNIT * strength) as u64);
                Load::of_rate(rate, going.len() as f64, Duration::from_secs_f64(age))
            };
            strengths.iter().zip(going).map(of).collect()
        };
        if now - told_at >= setting.tells {
            (told, told_at) = (real(&going, 0.0), now);
        }
        told.iter_mut().for_each(|load: &mut Load| load.age = Duration::from_secs_f64(now - told_at));
        for (node, going) in going.iter_mut().enumerate() {
            let share = UNIT * strengths[node] * STEP / going.len().max(1) as f64;
            going.retain_mut(|one| {
                one.left -= share;
                if one.left > 0.0 {
                    return true;
                }
                let session = &mut sessions[one.session];
                session.took = now + STEP - session.asked + SET_UP + one.asking;
                let client = &mut clients[one.client];
                client.wakes = Some(now - setting.pause * (1.0 - uniform()).ln());
                if rule == Rule::Client {
                    let share = client.knowledge.loads().share_had(std::slice::from_ref(&nodes[node]));
                    let share = share.map(|share| share.bits_per_sec() as f64);
                    let took = session.took - one.asking;
                    client.knowledge.learn(&Past { share, ..past(now, &nodes[node], one.size, took) });
                }
                false
            });
        }
        for (number, client) in clients.iter_mut().enumerate() {
            if client.wakes.is_none_or(|at| at > now) {
                continue;
            }
            let mut asking = 0.0;
            let node = match rule {
                Rule::Client => {
                    let by = nodes.iter().zip(&told).map(|(node, load)| Candidate {
                        hops: vec![node.clone()],
                        legs: vec![leg, leg],
                        load: Some(*load),
                    });
                    let mut candidates: Vec<Candidate> = by.collect();
                    let time = Time::ZERO + Duration::from_secs_f64(now);
                    let decision = client.knowledge.decide(time, &destination, &candidates, &mut uniform);
                    let decision = match decision {
                        // It asks some nodes how they are, which takes a round trip to them.
                        Some(decision) if !decision.ask.is_empty() => {
                            asking = LEG;
                            let loads = real(&going, 0.0);
                            for at in 0..candidates.len() {
                                candidates[at].load = decision.ask.contains(&at).then_some(loads[at]);
                            }
                            Some(client.knowledge.settle(time, &destination, &candidates, decision))
                        }
                        decision => decision,
                    };
                    decision.map(|decision| decision.order[0])
                }
                Rule::TwoChoices => sharing::choose(&told, &mut uniform),
                Rule::Strength => draw_by_strength(&told, uniform()),
                Rule::BestTold => best(&told),
                Rule::Optimum => best(&real(&going, 0.0)),
            };
            let size = Draw(seed).nth(sessions.len() as u64).uniform("size", Range { from: 5e5, to: 1.5e6 });
            let node = node.ok_or_else(|| TrialError::asked("no node was chosen"))?;
            going[node].push(Going { client: number, session: sessions.len(), size, left: size, asking });
            sessions.push(Session { asked: now, took: f64::INFINITY, node });
            client.wakes = None;
        }
        now += STEP;
    }
    Ok(sessions)
}

fn best(loads: &[Load]) -> Option<usize> {
    let expected = |load: &Load| (load.sessions + 1.0) / load.strength;
    (0..loads.len()).min_by(|a, b| expected(&loads[*a]).total_cmp(&expected(&loads[*b])))
}

fn draw_by_strength(loads: &[Load], uniform: f64) -> Option<usize> {
    let mut left = uniform * loads.iter().map(|load| load.strength).sum::<f64>();
    loads.iter().position(|load| {
        left -= load.strength;
        left < 0.0
    })
}

/// What a client remembers of a session.
fn past(now: f64, node: &Endpoint, size: f64, took: f64) -> Past {
    Past {
        at: now,
        to: "192.0.2.1:80".into(),
        by: vec![node.to_string()],
        given: size as u64,
        received: 0,
        set_up: 0.0,
        busy: took,
        pauses: 0,
        near: Some(LEG),
        far: vec![LEG],
        loss: None,
        forecast: None,
        share: None,
        arrived: true,
        moved: false,
    }
}
