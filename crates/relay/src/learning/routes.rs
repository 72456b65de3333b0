//! Whom a client asks that chooses ways by what came of former sessions.
use super::history::{History, Past, now};
use super::knowledge::{Candidate, Decision, Knowledge};
use super::remembering::Remembering;
use crate::discovery::Finder;
use crate::route::{Endpoint, Outcome, Route, RouteForecast, RouteProvider};
use shorthaul_planner::ways::{Learning, Why};
use shorthaul_types::{Bytes, Seed};
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Who knows the ways from which one is chosen.
#[derive(Clone, Debug)]
pub enum Source {
    /// These, and the direct one.
    Listed(Vec<Route>),
    /// Discovery.
    Found(Arc<Finder>),
}

/// Ways, chosen by what came of former sessions.
pub struct LearntRoutes {
    source: Source,
    state: Mutex<State>,
    remembering: Option<Remembering>,
}

struct State {
    knowledge: Knowledge,
    seed: Seed,
    draws: u64,
}

impl State {
    fn uniform(&mut self) -> impl FnMut() -> f64 + use<> {
        self.draws += 1;
        let (seed, mut draws) = (self.seed.nth(self.draws), 0);
        move || {
            draws += 1;
            // 53 bits, which are all that fit.
            (seed.nth(draws).0 >> 11) as f64 / (1u64 << 53) as f64
        }
    }
}

impl fmt::Debug for LearntRoutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LearntRoutes").field("source", &self.source).finish_non_exhaustive()
    }
}

impl LearntRoutes {
    /// With what is remembered already, and where to remember more.
    ///
    /// # Errors
    /// The kernel gives no random bytes.
    pub fn new(source: Source, past: &[Past], history: Option<History>) -> io::Result<LearntRoutes> {
        let mut knowledge = Knowledge::new(Learning::default());
        past.iter().for_each(|past| knowledge.learn(past));
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        let seed = Seed(u64::from_ne_bytes(seed));
        let remembering = history.map(Remembering::new);
        Ok(LearntRoutes { source, state: Mutex::new(State { knowledge, seed, draws: 0 }), remembering })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What it holds is whole whenever the lock is free.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ways that there are to a destination.
    async fn candidates(&self, destination: &Endpoint) -> Vec<Candidate> {
        match &self.source {
            Source::Listed(routes) => {
                let direct = Candidate::by(Vec::new());
                let listed = routes.iter().map(|route| Candidate::by(route.hops.clone()));
                std::iter::once(direct).chain(listed).collect()
            }
            Source::Found(finder) => {
                let size = self.state().knowledge.predicted(destination);
                let (finder, destination) = (Arc::clone(finder), destination.to_string());
                // Resolving a name blocks, and so does looking for relays.
                let found = tokio::task::spawn_blocking(move || finder.candidates(&destination, size)).await;
                found.unwrap_or_else(|_| vec![Candidate::by(Vec::new())])
            }
        }
    }

    /// Asks the nodes between which it is undecided how they are.
    async fn settle(&self, destination: &Endpoint, candidates: &[Candidate], decision: Decision) -> Decision {
        let Source::Found(finder) = &self.source else { return decision };
        if decision.ask.is_empty() {
            return decision;
        }
        let node = |at: &usize| {
            let candidate = &candidates[*at];
            let session = candidate.hops.first().and_then(Endpoint::address)?;
            Some((session, candidate.legs.first().copied().unwrap_or_default()))
        };
        let Some(nodes) = decision.ask.iter().map(node).collect::<Option<Vec<_>>>() else { return decision };
        let finder = Arc::clone(finder);
        let loads = tokio::task::spawn_blocking(move || finder.loads(&nodes)).await;
        let loads = loads.unwrap_or_else(|_| vec![None; decision.ask.len()]);
        let mut candidates = candidates.to_vec();
        candidates.iter_mut().for_each(|candidate| candidate.load = None);
        for (at, load) in decision.ask.iter().zip(loads) {
            candidates[*at].load = load;
        }
        self.state().knowledge.settle(now(), destination, &candidates, decision)
    }

    fn decide(&self, destination: &Endpoint, candidates: &[Candidate]) -> Option<Decision> {
        let mut state = self.state();
        let uniform = state.uniform();
        state.knowledge.decide(now(), destination, candidates, uniform)
    }
}

impl RouteProvider for LearntRoutes {
    fn routes<'a>(
        &'a self,
        destination: &'a Endpoint,
    ) -> Pin<Box<dyn Future<Output = Vec<Route>> + Send + 'a>> {
        Box::pin(async move {
            let candidates = self.candidates(destination).await;
            let Some(decision) = self.decide(destination, &candidates) else { return vec![Route::direct()] };
            let decision = self.settle(destination, &candidates, decision).await;
            let routes: Vec<Route> =
                decision.order.iter().map(|&way| Route::via(candidates[way].hops.clone())).collect();
            let explores = decision.choice.why == Why::Explores;
            tracing::debug!(%destination, size = %decision.size, way = %routes[0], expected = decision.choice.expected, explores, "chosen");
            routes
        })
    }

    fn routes_to_move<'a>(
        &'a self,
        destination: &'a Endpoint,
    ) -> Pin<Box<dyn Future<Output = Vec<Route>> + Send + 'a>> {
        Box::pin(async move {
            let candidates = self.candidates(destination).await;
            let state = self.state();
            let size = state.knowledge.predicted(destination).unwrap_or(Bytes(1));
            let mut ways = state.knowledge.ways(destination, &candidates, size);
            ways.sort_by(|a, b| a.expected.total_cmp(&b.expected));
            // What was never measured is no reason to leave what works.
            let forecast = |seconds: f64, measured| {
                (measured > 0).then(|| RouteForecast {
                    throughput: size.0 as f64 * 8.0 / seconds.max(1e-9),
                    set_up: Duration::ZERO,
                })
            };
            let route = |way: super::WayKnown| Route {
                forecast: forecast(way.expected, way.measured),
                hops: way.hops,
            };
            ways.into_iter().map(route).collect()
        })
    }

    fn learn(&self, outcome: Outcome) {
        let mut state = self.state();
        let size = outcome.given.max(outcome.received);
        let known =
            state.knowledge.ways(&outcome.destination, &[Candidate::by(outcome.route.hops.clone())], size);
        let forecast = known.first().map(|way| [way.forecast, way.expected]);
        let share =
            state.knowledge.loads().share_had(&outcome.route.hops).map(|share| share.bits_per_sec() as f64);
        let past = Past { share, ..Past::of(&outcome, forecast) };
        state.knowledge.learn(&past);
        drop(state);
        tracing::info!(
            to = past.to, way = %outcome.route, bytes = size.0, took = past.took(),
            forecast = forecast.map(|[_, corrected]| corrected), "session over"
        );
        if let Some(remembering) = &self.remembering {
            remembering.add(past);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_the_file_and_what_is_forgotten_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions");
        let (history, _) = History::open(&path).unwrap();
        let routes = LearntRoutes::new(Source::Listed(Vec::new()), &[], Some(history)).unwrap();
        // Another process writes, and does not come to an end.
        let theirs = std::fs::File::open(&path).unwrap();
        theirs.lock().unwrap();
        let (destination, route): (Endpoint, _) = ("server:80".parse().unwrap(), Route::direct());
        let some = Duration::from_millis(10);
        const TOLD: u64 = 2_000;
        for number in 0..TOLD {
            routes.learn(Outcome {
                destination: destination.clone(),
                route: route.clone(),
                given: Bytes(number),
                received: Bytes(0),
                set_up: some,
                busy: some,
                pauses: 0,
                near: None,
                far: Vec::new(),
                loss: None,
                has_moved: false,
            });
        }
        let lost = routes.remembering.as_ref().unwrap().lost();
        assert!(lost > 0 && lost < TOLD, "{lost}");
        theirs.unlock().unwrap();
        // Whoever ends waits for the rest.
        drop(routes);
        let written: Vec<u64> = History::look(&path).unwrap().iter().map(|past| past.given).collect();
        assert_eq!(written.len() as u64, TOLD - lost);
        assert!(written.is_sorted() && written[..1_000].iter().copied().eq(0..1_000), "{written:?}");
    }
}
