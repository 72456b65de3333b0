//! What follows from former sessions: how much the next one will carry, and how long it will take by each way. No clock, no I/O, and
//! chance is given.
use super::history::Past;
use super::loads::Loads;
use super::place::{Least, Place, Sizes, place_of};
use crate::route::Endpoint;
use shorthaul_planner::sharing::{self, Load};
use shorthaul_planner::ways::{Believed, Choice, Expected, Learning, Ways, Why};
use shorthaul_types::{BitRate, Bytes, Time};
use std::collections::HashMap;
use std::time::Duration;

/// What a session is taken for of which nothing is known.
const UNKNOWN_SIZE: Bytes = Bytes(1_000_000);
/// A smaller session says more of the server than of the way.
const LEAST: Bytes = Bytes(10_000);
/// A session with more pauses than one in so many bytes is a conversation: what it took says nothing of the way.
const A_PAUSE: u64 = 1_000_000;
/// A round trip of which nothing is known.
const UNKNOWN_ROUND_TRIP: Duration = Duration::from_millis(100);
/// Destinations that are known at the same time.
const PLACES: usize = 4096;
/// Ways that are expected to be about as good: of these, the load of their nodes decides.
pub const ABOUT_AS_GOOD: f64 = 1.1;
/// What a node told of its load longer ago than this is no news: it is asked anew before a session is sent there.
pub const NEWS: Duration = Duration::from_millis(100);
/// Asking may take one part in this many of the time that the session is expected to take.
pub const ASKING: f64 = 10.0;
/// So many times as long as directly every known relay has to take, so that nobody waits until more of them are looked for: less may be a matter of luck.
const NOT_WORTH_WAITING: f64 = 1.25;
/// What a relay half-way leaves of the time of a session whose rate the round trip decides.
const HALF_WAY: f64 = 0.5;

/// A way that may be taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The nodes, the first first; none on the direct way.
    pub hops: Vec<Endpoint>,
    /// The round-trip times of its legs, if they are known from elsewhere.
    pub legs: Vec<Duration>,
    /// What its only node says of its load.
    pub load: Option<Load>,
}

impl Candidate {
    /// By way of these nodes, of which nothing is known but what comes of sessions.
    pub fn by(hops: Vec<Endpoint>) -> Candidate {
        Candidate { hops, legs: Vec::new(), load: None }
    }
}

/// What is known of a way to a destination, for a session of some size.
#[derive(Clone, Debug, PartialEq)]
pub struct WayKnown {
    /// The nodes.
    pub hops: Vec<Endpoint>,
    /// Sessions by it that were measured.
    pub measured: u32,
    /// Seconds that are expected where only round trips are known.
    pub forecast: f64,
    /// The same, with what was measured.
    pub expected: f64,
    /// The standard deviation of that, as a logarithm.
    pub deviation: f64,
    /// The same for a session of any size.
    pub believed: Believed,
}

/// What was decided for a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What it is expected to carry.
    pub size: Bytes,
    /// The candidates by their numbers, the one to take first, then by what is expected of them.
    pub order: Vec<usize>,
    /// Seconds that each candidate is expected to take.
    pub expected: Vec<Option<f64>>,
    /// What that follows from, for a session of any size.
    pub believed: Vec<Option<Believed>>,
    /// The choice.
    pub choice: Choice,
    /// Candidates whose nodes should be asked how they are before it is settled ([`Knowledge::settle`]); none where what they told is new, or asking takes too
    /// long. The first two share the session; a third is one that is to be explored.
    pub ask: Vec<usize>,
}

/// What is known of all destinations.
#[derive(Debug)]
pub struct Knowledge {
    learning: Learning,
    places: HashMap<String, Place>,
    /// The round trips to first nodes.
    near: HashMap<Endpoint, Least>,
    /// What ways by the same nodes have shown, wherever they led: the legs up to the last node are the same ones.
    by_nodes: HashMap<Vec<Endpoint>, Ways>,
    loads: Loads,
    sizes: HashMap<Endpoint, Sizes>,
    of_ports: HashMap<u16, Sizes>,
}

impl Knowledge {
    /// Nothing yet.
    pub fn new(learning: Learning) -> Knowledge {
        Knowledge {
            learning,
            places: HashMap::new(),
            near: HashMap::new(),
            by_nodes: HashMap::new(),
            loads: Loads::default(),
            sizes: HashMap::new(),
            of_ports: HashMap::new(),
        }
    }

    /// What a session to a destination will carry: as the sessions before did, or those to the same port elsewhere. `None` without any.
    pub fn predicted(&self, destination: &Endpoint) -> Option<Bytes> {
        let of_port = || self.of_ports.get(&destination.port());
        self.sizes.get(destination).or_else(of_port).and_then(Sizes::middle)
    }

    /// What came of a session.
    pub fn learn(&mut self, past: &Past) {
        let Ok(destination) = past.to.parse::<Endpoint>() else { return };
        let Ok(hops) = past.by.iter().map(|hop| hop.parse()).collect::<Result<Vec<Endpoint>, _>>() else {
            return;
        };
        if self.sizes.len() >= PLACES {
            self.sizes.clear(); // ports know about as much
        }
        self.sizes.entry(destination.clone()).or_default().add(past.size());
        self.of_ports.entry(destination.port()).or_default().add(past.size());
        self.loads.end(&hops);
        if past.moved {
            return;
        }
        let (now, learning) = (past.time(), self.learning);
        if let (Some(first), Some(rtt)) = (hops.first(), past.near) {
            if self.near.len() >= PLACES {
                self.near.clear();
            }
            let mut known = self.near.get(first).copied();
            Least::add(&mut known, rtt);
            self.near.extend(known.map(|known| (first.clone(), known)));
        }
        self.make_room();
        let place = self.places.entry(place_of(&destination)).or_insert_with(|| Place::new(learning));
        place.used = place.used.max(now);
        let Some(way) = place.number(&hops) else { return };
        for (known, seen) in place.far[way].iter_mut().zip(&past.far) {
            Least::add(known, *seen);
        }
        if let (true, Some(rtt)) = (hops.is_empty(), past.near) {
            Least::add(&mut place.round_trip, rtt);
        }
        place.sizes.add(past.size());
        let legs: Option<Vec<Duration>> = (past.far.len() == hops.len())
            .then(|| past.near.iter().chain(&past.far).map(|rtt| Duration::from_secs_f64(*rtt)).collect());
        let seen = Candidate { legs: legs.unwrap_or_default(), ..Candidate::by(hops) };
        if tells_of_its_way(past)
            && let Some(legs) = self.legs(&destination, &seen)
            && let Some(place) = self.places.get_mut(&place_of(&destination))
        {
            let share = past.share.map(|share| BitRate::from_bits_per_sec(share as u64));
            begin_like_elsewhere(&mut place.known, way, self.by_nodes.get(&seen.hops), now);
            place.known.on_measured_sharing(now, way, &legs, past.size(), past.took(), share);
            if !seen.hops.is_empty() {
                if self.by_nodes.len() >= PLACES {
                    self.by_nodes.clear();
                }
                let by_nodes = self.by_nodes.entry(seen.hops).or_insert_with(|| Ways::new(learning, 1));
                by_nodes.on_measured_sharing(now, 0, &legs, past.size(), past.took(), share);
            }
        }
    }

    /// Forgets the destination that was not gone to for the longest time, if there are too many.
    fn make_room(&mut self) {
        if self.places.len() >= PLACES {
            let oldest = self.places.iter().min_by_key(|(_, place)| place.used).map(|(name, _)| name.clone());
            oldest.and_then(|name| self.places.remove(&name));
        }
    }

    /// The direct round trip: where nobody has gone that way, that of the shortest way by nodes.
    fn round_trip(&self, place: &Place) -> Option<Duration> {
        let by_nodes = place.ways.iter().zip(&place.far).filter_map(|(hops, far)| {
            let near = self.near.get(hops.first()?)?.time();
            far.iter().try_fold(near, |sum, leg| Some(sum + (*leg)?.time()))
        });
        place.round_trip.map(Least::time).or_else(|| by_nodes.min())
    }

    /// The round trips of a way's legs. Nodes of which none is known stand at equal distances on the direct way. `None` by nodes to
    /// a destination of which nothing is known: the direct way tells how far it is.
    fn legs(&self, destination: &Endpoint, candidate: &Candidate) -> Option<Vec<Duration>> {
        let hops = &candidate.hops;
        if candidate.legs.len() == hops.len() + 1 {
            return Some(candidate.legs.clone());
        }
        let place = self.places.get(&place_of(destination));
        let known = place.and_then(|place| self.round_trip(place));
        let Some(first) = hops.first() else { return Some(vec![known.unwrap_or(UNKNOWN_ROUND_TRIP)]) };
        let (whole, count) = (known?, hops.len() as u32);
        let near = self.near.get(first).map_or(whole / (count + 1), |near| near.time());
        let rest = whole.saturating_sub(near) / count;
        let far = place.and_then(|place| {
            let way = place.ways.iter().position(|way| way == hops)?;
            Some(&place.far[way])
        });
        let far = |at: usize| far.and_then(|far| far[at]).map_or(rest, Least::time);
        Some(std::iter::once(near).chain((0..hops.len()).map(far)).collect())
    }

    /// What is known of the ways to a destination for a session of this size: those that were taken, or are candidates. It is as it was when something
    /// was last measured or decided there.
    pub fn ways(&self, destination: &Endpoint, candidates: &[Candidate], size: Bytes) -> Vec<WayKnown> {
        self.ways_at(Time::ZERO, destination, candidates, size)
    }

    /// The same as it is now: what was measured long ago is known less and less.
    pub fn ways_at(
        &self,
        now: Time,
        destination: &Endpoint,
        candidates: &[Candidate],
        size: Bytes,
    ) -> Vec<WayKnown> {
        let place = self.places.get(&place_of(destination));
        let taken = place
            .iter()
            .flat_map(|place| &place.ways)
            .filter(|way| !candidates.iter().any(|candidate| candidate.hops == **way));
        let all: Vec<Candidate> =
            candidates.iter().cloned().chain(taken.cloned().map(Candidate::by)).collect();
        let unknown = Ways::new(self.learning, 1);
        let mut known = place.map_or_else(|| unknown.clone(), |place| place.known.clone());
        known.pass(now);
        let numbered = place.map_or(&[][..], |place| &place.ways);
        let mut next = numbered.len();
        let known = all.into_iter().filter_map(|candidate| {
            let legs = self.legs(destination, &candidate)?;
            let number = numbered.iter().position(|way| *way == candidate.hops).unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            begin_like_elsewhere(&mut known, number, self.by_nodes.get(&candidate.hops), now);
            let measured = known.measured(number);
            let forecast = unknown.expected(0, &legs, size).seconds;
            let believed = known.believed(number, &legs, self.loads.share(&candidate.hops));
            let Expected { seconds: expected, deviation } = believed.expected(size);
            Some(WayKnown { hops: candidate.hops, measured, forecast, expected, deviation, believed })
        });
        known.collect()
    }

    /// Seconds of a session of this size by a way of which so much was believed: by round trips alone, and with what was measured.
    pub fn forecast(&self, believed: &Believed, size: Bytes) -> [f64; 2] {
        let unknown = Ways::new(self.learning, 1).expected(0, believed.legs(), size);
        [unknown.seconds, believed.expected(size).seconds]
    }

    /// How long a session may wait until relays are looked for, by what was measured: not at all where by each relay that is known it would take much longer
    /// than directly, and no longer than one half-way could save, which would halve the time. As long as nothing was measured directly, nothing bounds it here.
    pub fn worth_waiting(&self, now: Time, destination: &Endpoint, size: Bytes) -> Duration {
        let ways = self.ways_at(now, destination, &[], size);
        let (direct, relays): (Vec<_>, Vec<_>) = ways.iter().partition(|way| way.hops.is_empty());
        let Some(direct) = direct.first().filter(|direct| direct.measured > 0) else { return Duration::MAX };
        if !relays.is_empty()
            && relays.iter().all(|relay| relay.expected > direct.expected * NOT_WORTH_WAITING)
        {
            return Duration::ZERO;
        }
        let saved = direct.expected * (1.0 / self.learning.least_gain - HALF_WAY);
        Duration::try_from_secs_f64(saved).unwrap_or_default()
    }

    /// A session was decided to go by the nodes of `chosen`, and does go by those of `taken`, or by none: it did not come about.
    pub fn goes_by(&mut self, chosen: &[Endpoint], taken: Option<&[Endpoint]>) {
        if taken != Some(chosen) {
            self.loads.end(chosen);
            taken.iter().for_each(|taken| self.loads.send(taken));
        }
    }

    /// What nodes told of their load, and what was sent there since.
    pub fn loads(&self) -> &Loads {
        &self.loads
    }

    /// Which of the candidates a session takes. `uniform` draws from 0 to below 1.
    ///
    /// `None` without a candidate of which anything can be forecast.
    pub fn decide(
        &mut self,
        now: Time,
        destination: &Endpoint,
        candidates: &[Candidate],
        uniform: impl FnMut() -> f64,
    ) -> Option<Decision> {
        self.loads.hear(now, candidates);
        let shares: Vec<Option<BitRate>> =
            candidates.iter().map(|candidate| self.loads.share(&candidate.hops)).collect();
        let size = self.predicted(destination).unwrap_or(UNKNOWN_SIZE);
        let legs: Vec<Option<Vec<Duration>>> =
            candidates.iter().map(|candidate| self.legs(destination, candidate)).collect();
        self.make_room();
        let learning = self.learning;
        let place = self.places.entry(place_of(destination)).or_insert_with(|| Place::new(learning));
        place.used = place.used.max(now);
        // By the numbers that ways have here, which are others than the candidates'.
        let numbers: Vec<Option<usize>> =
            candidates.iter().map(|candidate| place.number(&candidate.hops)).collect();
        let mut by_number = vec![None; place.ways.len()];
        let mut shares_by_number = vec![None; place.ways.len()];
        for (((number, legs), candidate), share) in numbers.iter().zip(&legs).zip(candidates).zip(&shares) {
            let Some(number) = *number else { continue };
            by_number[number].clone_from(legs);
            shares_by_number[number] = *share;
            begin_like_elsewhere(&mut place.known, number, self.by_nodes.get(&candidate.hops), now);
        }
        let later: Vec<Bytes> = place.sizes.iter().chain([size]).collect();
        let choice = place.known.choose_sharing(now, &by_number, &shares_by_number, size, &later)?;
        let believed = |at: usize, share| Some(place.known.believed(numbers[at]?, legs[at].as_ref()?, share));
        let seconds =
            |believed: &Option<Believed>| believed.as_ref().map(|believed| believed.expected(size).seconds);
        let all = 0..candidates.len();
        let known: Vec<Option<Believed>> = all.clone().map(|at| believed(at, shares[at])).collect();
        let expected: Vec<Option<f64>> = known.iter().map(seconds).collect();
        let chosen = numbers.iter().position(|number| *number == Some(choice.way))?;
        let (mut taken, mut ask) = (chosen, Vec::new());
        let is_by_node = matches!(choice.why, Why::Fastest | Why::Explores);
        if let (true, Some(time), Some(load)) = (is_by_node, expected[chosen], candidates[chosen].load) {
            // Nodes that would do: their ways are no slower than what is expected, or than they are themselves with nothing else to do.
            let is_alike = |at: &usize| {
                let alike = |seconds: f64, than: f64| seconds <= than * ABOUT_AS_GOOD;
                let alone = || {
                    let rate = candidates[*at].load?.rate?;
                    Some(Ways::seconds_at(legs[*at].as_ref()?, size, rate))
                };
                match load.rate {
                    Some(_) => alone()
                        .zip(seconds(&believed(*at, None)))
                        .is_some_and(|(alone, way)| alike(way, time.max(alone))),
                    None => {
                        candidates[*at].load.is_some_and(|load| load.rate.is_none())
                            && expected[*at].is_some_and(|seconds| alike(seconds, time))
                    }
                }
            };
            let alike: Vec<usize> = all.clone().filter(is_alike).collect();
            let loads: Vec<Load> = alike.iter().filter_map(|at| candidates[*at].load).collect();
            if load.rate.is_some() {
                let drawn: Vec<usize> = sharing::two(&loads, uniform).iter().map(|at| alike[*at]).collect();
                if choice.why == Why::Fastest {
                    let least =
                        |a: &&usize, b: &&usize| time_of(&expected, **a).total_cmp(&time_of(&expected, **b));
                    taken = drawn.iter().min_by(least).copied().unwrap_or(chosen);
                }
                ask = drawn;
                if !ask.contains(&chosen) && choice.why == Why::Explores {
                    ask.push(chosen);
                }
                let is_old = |at: &usize| candidates[*at].load.is_some_and(|load| load.age > NEWS);
                let asking = |at: &usize| legs[*at].as_ref().and_then(|legs| legs.first()).copied();
                let asking = ask.iter().filter_map(asking).max().unwrap_or_default().as_secs_f64();
                if ask.len() < 2 || asking * ASKING > time || !ask.iter().any(is_old) {
                    ask.clear();
                }
            } else if choice.why == Why::Fastest {
                taken = sharing::choose(&loads, uniform).map_or(chosen, |at| alike[at]);
            }
        }
        let mut order: Vec<usize> = all.collect();
        put_in_order(&mut order, &expected, taken);
        if ask.is_empty() {
            self.loads.send(&candidates[taken].hops);
        }
        Some(Decision { size, order, expected, believed: known, choice, ask })
    }

    /// The decision, after the nodes that it wants asked have told how they are: `candidates` have their loads, or none where a node did not answer. Such a
    /// node is the last to be tried.
    pub fn settle(
        &mut self,
        now: Time,
        destination: &Endpoint,
        candidates: &[Candidate],
        mut decision: Decision,
    ) -> Decision {
        self.loads.hear(now, candidates);
        let place = self.places.get(&place_of(destination));
        for &at in &decision.ask {
            let candidate = &candidates[at];
            let number = place.and_then(|place| place.ways.iter().position(|way| *way == candidate.hops));
            let legs = self.legs(destination, candidate);
            let believed = match (place, number, legs) {
                (Some(place), Some(number), Some(legs)) => {
                    Some(place.known.believed(number, &legs, self.loads.share(&candidate.hops)))
                }
                _ => None,
            };
            let answered = believed.as_ref().filter(|_| candidate.load.is_some());
            decision.expected[at] = answered.map(|believed| believed.expected(decision.size).seconds);
            decision.believed[at] = believed;
        }
        let time = |at: usize| time_of(&decision.expected, at);
        let explored = decision.order.first().copied().filter(|at| {
            // What was to be explored still costs no more than it was thought to.
            decision.choice.why == Why::Explores && time(*at) <= decision.choice.expected * ABOUT_AS_GOOD
        });
        let sharing = decision.ask.iter().take(2).copied().min_by(|&a, &b| time(a).total_cmp(&time(b)));
        // Where none of them answered, the next best is as good as any.
        let answered = sharing.filter(|at| decision.expected[*at].is_some());
        let best = (0..candidates.len()).min_by(|&a, &b| time(a).total_cmp(&time(b)));
        if let Some(taken) = explored.or(answered).or(best) {
            put_in_order(&mut decision.order, &decision.expected, taken);
            self.loads.send(&candidates[taken].hops);
        }
        decision
    }
}

/// Whether what a session took says something of its way.
pub(super) fn tells_of_its_way(past: &Past) -> bool {
    let is_bulk = past.size() >= LEAST && u64::from(past.pauses) <= past.size().0 / A_PAUSE;
    let is_seen = past.arrived || past.given <= past.received;
    is_bulk && !past.moved && is_seen
}

/// A way that was not measured yet begins with what its nodes have shown elsewhere.
fn begin_like_elsewhere(known: &mut Ways, way: usize, elsewhere: Option<&Ways>, now: Time) {
    if let (0, Some(elsewhere)) = (known.measured(way), elsewhere) {
        let mut elsewhere = elsewhere.clone();
        elsewhere.pass(now);
        known.begins_like(way, &elsewhere, 0);
    }
}

fn time_of(expected: &[Option<f64>], at: usize) -> f64 {
    expected[at].unwrap_or(f64::MAX)
}

/// What is taken first, then the others by what is expected of them.
fn put_in_order(order: &mut [usize], expected: &[Option<f64>], taken: usize) {
    let time = |at| time_of(expected, at);
    order.sort_by(|&a, &b| (b == taken).cmp(&(a == taken)).then(time(a).total_cmp(&time(b))));
}

#[cfg(test)]
mod tests;
