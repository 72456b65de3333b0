//! Ways that fail while sessions go by others: said once each, until they work again.
use crate::answer::Refusal;
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
            if !self.fails(route) {
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

fn name(route: &Route) -> String {
    if route.is_direct() { "the direct way".into() } else { format!("the way by {route}") }
}

#[cfg(test)]
mod tests {
    use super::*;

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
