//! Whom a client asks that chooses ways by what came of former sessions.
use super::history::{History, Past, now};
use super::knowledge::{Candidate, Decision, Knowledge};
use super::remembering::Remembering;
use crate::discovery::Finder;
use crate::route::{Endpoint, Outcome, Route, RouteForecast, RouteProvider};
use shorthaul_planner::sharing::Load;
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
                let (size, patience) = {
                    let knowledge = &self.state().knowledge;
                    let size = knowledge.predicted(destination);
                    let patience = size.map(|size| knowledge.worth_waiting(now(), destination, size));
                    (size, patience.unwrap_or_default())
                };
                let (finder, destination) = (Arc::clone(finder), destination.to_string());
                // Resolving a name blocks, and so does looking for relays.
                let found =
                    tokio::task::spawn_blocking(move || finder.candidates(&destination, size, patience))
                        .await;
                found.unwrap_or_else(|_| vec![Candidate::by(Vec::new())])
            }
        }
    }

    /// Asks the nodes between which it is undecided how they are.
    async fn settle(&self, destination: &Endpoint, candidates: &[Candidate], decision: Decision) -> Decision {
        if decision.ask.is_empty() {
            return decision;
        }
        let mut candidates = candidates.to_vec();
        // Where they cannot be asked, what they told before decides.
        if let Some(loads) = self.loads(&candidates, &decision.ask).await {
            candidates.iter_mut().for_each(|candidate| candidate.load = None);
            for (at, load) in decision.ask.iter().zip(loads) {
                candidates[*at].load = load;
            }
        }
        self.state().knowledge.settle(now(), destination, &candidates, decision)
    }

    /// How the nodes of some candidates are now. `None` where nobody can ask them all.
    async fn loads(&self, candidates: &[Candidate], ask: &[usize]) -> Option<Vec<Option<Load>>> {
        let Source::Found(finder) = &self.source else { return None };
        let node = |at: &usize| {
            let candidate = &candidates[*at];
            let session = candidate.hops.first().and_then(Endpoint::address)?;
            Some((session, candidate.legs.first().copied().unwrap_or_default()))
        };
        let nodes: Vec<_> = ask.iter().map(node).collect::<Option<_>>()?;
        let (finder, count) = (Arc::clone(finder), nodes.len());
        let loads = tokio::task::spawn_blocking(move || finder.loads(&nodes)).await;
        Some(loads.unwrap_or_else(|_| vec![None; count]))
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
            let mut decision = self.settle(destination, &candidates, decision).await;
            // What decided goes with the session: when it is over, more is known.
            let route = |&way: &usize| Route {
                believed: decision.believed[way].take().map(Arc::new),
                ..Route::via(candidates[way].hops.clone())
            };
            let routes: Vec<Route> = decision.order.iter().map(route).collect();
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
            let mut ways = state.knowledge.ways_at(now(), destination, &candidates, size);
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
                ..Route::via(way.hops)
            };
            ways.into_iter().map(route).collect()
        })
    }

    fn goes_by(&self, chosen: &Route, taken: Option<&Route>) {
        self.state().knowledge.goes_by(&chosen.hops, taken.map(|taken| &taken.hops[..]));
    }

    fn learn(&self, outcome: Outcome) {
        let mut state = self.state();
        let size = outcome.given.max(outcome.received);
        let believed = outcome.route.believed.as_ref();
        let forecast = believed.map(|believed| state.knowledge.forecast(believed, size));
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
    use crate::discovery::{FinderConfig, Key, Keyring, Refreshing, Retry};
    use shorthaul_types::BitRate;
    use std::net::UdpSocket;

    const SOME: Duration = Duration::from_millis(10);

    fn outcome(route: Route, received: u64, busy: Duration) -> Outcome {
        Outcome {
            destination: "127.0.0.1:5001".parse().unwrap(),
            route,
            given: Bytes(0),
            received: Bytes(received),
            set_up: Duration::ZERO,
            busy,
            pauses: 0,
            near: Some(SOME),
            far: Vec::new(),
            loss: None,
            has_arrived: true,
            has_moved: false,
        }
    }

    /// Ten megabytes that ended just now.
    fn past(route: &Route, seconds: u64) -> Past {
        Past::of(&outcome(route.clone(), 10_000_000, Duration::from_secs(seconds)), None)
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn what_was_expected_is_told_as_it_was_when_the_way_was_chosen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions");
        let (history, _) = History::open(&path).unwrap();
        let known: Vec<Past> = (0..10).map(|_| past(&Route::direct(), 6)).collect();
        let routes = LearntRoutes::new(Source::Listed(Vec::new()), &known, Some(history)).unwrap();
        let destination = "127.0.0.1:5001".parse().unwrap();
        let mut chosen = run(routes.routes(&destination));
        // While it goes on, others become ten times as slow; and it turns out to be half as large as was predicted.
        for _ in 0..10 {
            routes.learn(outcome(Route::direct(), 10_000_000, Duration::from_secs(60)));
        }
        routes.learn(outcome(chosen.remove(0), 5_000_000, Duration::from_secs(30)));
        drop(routes);
        let forecasts: Vec<_> = History::look(&path).unwrap().iter().map(|past| past.forecast).collect();
        let Some([model, expected]) = forecasts[10] else { panic!("{forecasts:?}") };
        assert!((2.7..3.6).contains(&expected) && model < expected, "{model} {expected}");
        assert_eq!(forecasts[..10], [None; 10], "nobody chose their way");
    }

    #[test]
    fn a_session_is_counted_where_nodes_cannot_be_asked() {
        let routes = LearntRoutes::new(Source::Listed(Vec::new()), &[], None).unwrap();
        let destination = "127.0.0.1:5001".parse().unwrap();
        let by = |node: &str| Candidate {
            hops: vec![node.parse().unwrap()],
            legs: vec![SOME, SOME],
            load: Some(Load::of_rate(BitRate::from_bits_per_sec(10_000_000), 0.0, Duration::from_secs(30))),
        };
        let candidates = [by("a:7080"), by("b:7080")];
        let decision = routes.decide(&destination, &candidates).unwrap();
        assert_eq!(decision.ask.len(), 2);
        let settled = run(routes.settle(&destination, &candidates, decision));
        let left = |at: usize| {
            routes.state().knowledge.loads().share(&candidates[at].hops).map(|share| share.bits_per_sec())
        };
        let left = [0, 1].map(|at| left(settled.order[at]));
        assert_eq!(left, [Some(5_000_000), Some(10_000_000)]);
    }

    #[test]
    fn nobody_waits_for_discovery_where_relays_do_not_pay() {
        // A responder that says nothing; who asks it is seen.
        let responder = UdpSocket::bind("0.0.0.0:0").unwrap();
        let port = responder.local_addr().unwrap().port();
        let asked = |within: Option<Duration>| {
            responder.set_nonblocking(within.is_none()).unwrap();
            responder.set_read_timeout(within).unwrap();
            responder.recv_from(&mut [0; 512]).is_ok()
        };
        let by_node = Route::via(vec!["127.0.0.2:7080".parse().unwrap()]);
        // Two seconds directly, and so many by the node; whoever chooses, and who looks for relays.
        let choosing = |by_node_it_took: u64| {
            let retry = Retry { timeout: SOME, tries: 1 };
            let config = FinderConfig::new(Keyring::single(Key::new([7; 32])));
            let finder = Arc::new(Finder::new(FinderConfig { port, retry, ..config }).unwrap());
            let direct = (0..5).map(|_| past(&Route::direct(), 2));
            let known: Vec<Past> = direct.chain((0..3).map(|_| past(&by_node, by_node_it_took))).collect();
            let routes = LearntRoutes::new(Source::Found(Arc::clone(&finder)), &known, None).unwrap();
            let ways = run(routes.routes(&"127.0.0.1:5001".parse().unwrap()));
            assert!(ways[0].is_direct(), "nobody answers: {ways:?}");
            finder
        };
        // More relays may be as good as a fast one.
        choosing(1);
        assert!(asked(Some(Duration::from_secs(60))));
        while asked(None) {}
        let finder = choosing(40);
        assert!(!asked(None));
        // They are looked for meanwhile, so that the next session has them.
        let _refreshing = Refreshing::start(&finder).unwrap();
        assert!(asked(Some(Duration::from_secs(60))));
    }

    #[test]
    fn nobody_waits_for_the_file_and_what_is_forgotten_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions");
        let (history, _) = History::open(&path).unwrap();
        let routes = LearntRoutes::new(Source::Listed(Vec::new()), &[], Some(history)).unwrap();
        // Another process writes, and does not come to an end.
        let theirs = std::fs::File::open(&path).unwrap();
        theirs.lock().unwrap();
        const TOLD: u64 = 2_000;
        for number in 0..TOLD {
            routes.learn(Outcome { given: Bytes(number), ..outcome(Route::direct(), 0, SOME) });
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
