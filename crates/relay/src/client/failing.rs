//! Ways that fail while sessions go by others: said once each, until they work again.
use crate::answer::{Failure, Refusal};
use crate::route::Route;
use crate::throttle::Throttle;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Of more ways that fail at once, some are said again.
const MOST: usize = 256;

/// Those of which it was said.
#[derive(Debug, Default)]
pub struct FailingWays {
    said: Mutex<BTreeSet<String>>,
    /// Ways that fail by turns do not fill the log.
    throttle: Throttle,
}

impl FailingWays {
    /// A session goes by `taken`, and by none of those that were tried before.
    pub fn on_session(&self, taken: &Route, failed: &[(Route, Refusal)]) {
        let goes = if taken.is_direct() { "direct".to_owned() } else { format!("by {taken}") };
        for (route, refusal) in failed {
            if !is_of_the_way(route, refusal) || !self.fails(route) {
                continue;
            }
            match self.throttle.passes(Instant::now()) {
                Some(left_out) => {
                    let way = name(route);
                    tracing::warn!(left_out, "{way} failed, sessions go {goes} until it works: {refusal}");
                }
                // It is still to be said.
                None => {
                    self.works(route);
                }
            }
        }
        if self.works(taken) {
            tracing::info!("{} works again", name(taken));
        }
    }

    /// Whether that is new.
    fn fails(&self, route: &Route) -> bool {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= MOST {
            said.clear();
        }
        said.insert(route.to_string())
    }

    /// Whether it had failed.
    fn works(&self, route: &Route) -> bool {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).remove(&route.to_string())
    }
}

/// Whether the way itself fails: a node on it cannot be reached, or does not let us in. What is wrong with a destination, or that nobody may go
/// there, says nothing of the sessions to others.
fn is_of_the_way(route: &Route, refusal: &Refusal) -> bool {
    use Failure::{
        ConnectionLimit, Internal, LoopDetected, RequestDenied, RequestError, Tls, TlsCertificate,
    };
    match &refusal.hop.next_hop {
        _ if matches!(refusal.failure, RequestDenied | Tls | TlsCertificate) => true,
        Some(next) => route.hops.iter().any(|hop| hop.to_string() == *next),
        // The node itself takes nothing, or understands nothing.
        None => matches!(refusal.failure, ConnectionLimit | Internal | LoopDetected | RequestError),
    }
}

fn name(route: &Route) -> String {
    if route.is_direct() { "the direct way".into() } else { format!("the way by {route}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::Endpoint;

    #[test]
    fn a_destination_that_fails_is_no_fault_of_the_way() {
        let hop = |text: &str| text.parse::<Endpoint>().unwrap();
        let (paris, oslo, target) = (hop("paris:7080"), hop("oslo:7080"), hop("target:443"));
        let way = Route::via(vec![paris.clone(), oslo.clone()]);
        let named = |refusal: Refusal| {
            let ways = FailingWays::default();
            ways.on_session(&Route::direct(), &[(way.clone(), refusal)]);
            ways.works(&way)
        };
        let toward = |failure, next| named(Refusal::at("oslo", failure, "").toward(next));
        for failure in [
            Failure::ConnectionTimeout,
            Failure::DestinationProhibited,
            Failure::Dns,
            Failure::Unroutable,
            Failure::ConnectionTerminated,
            Failure::Internal,
        ] {
            assert!(!toward(failure, &target), "{failure:?}");
            assert!(toward(failure, &paris) && toward(failure, &oslo), "{failure:?}");
        }
        for failure in [Failure::RequestDenied, Failure::TlsCertificate, Failure::ConnectionLimit] {
            assert!(named(Refusal::at("paris", failure, "")), "{failure:?}");
        }
    }

    #[test]
    fn a_way_that_fails_is_news_until_it_works_again() {
        let (ways, paris) = (FailingWays::default(), Route::via(vec!["paris:7080".parse().unwrap()]));
        assert_eq!([ways.fails(&paris), ways.fails(&paris)], [true, false]);
        assert_eq!([ways.works(&paris), ways.works(&paris)], [true, false]);
        assert!(ways.fails(&paris), "it fails anew");
        for port in 1..2000 {
            ways.fails(&Route::via(vec![format!("a:{port}").parse().unwrap()]));
        }
        assert!(ways.said.lock().unwrap().len() <= MOST);
    }
}
