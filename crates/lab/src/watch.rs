//! The links of a lab, looked at again and again while something runs.
use crate::{Lab, LinkReport};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How all links of a lab stood at one moment.
#[derive(Clone, Debug)]
pub struct Look {
    /// When, since the watch began.
    pub seconds: f64,
    /// The links, in the lab's order.
    pub links: Vec<LinkReport>,
}

impl Look {
    /// How they stand now, at the beginning of a watch; `None` if a link is gone.
    pub fn take(lab: &Lab) -> Option<Look> {
        let links = lab.links().iter().map(|link| link.report().ok()).collect::<Option<_>>()?;
        Some(Look { seconds: 0.0, links })
    }
}

/// Looks at the links at intervals of `every` until `ended` is closed.
pub fn watch(lab: &Lab, every: Duration, ended: &Receiver<()>) -> Vec<Look> {
    let start = Instant::now();
    let mut seen = Vec::new();
    let mut next = start;
    loop {
        if let Some(look) = Look::take(lab) {
            seen.push(Look { seconds: start.elapsed().as_secs_f64(), ..look });
        }
        next += every;
        let wait = next.saturating_duration_since(Instant::now());
        if ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            return seen;
        }
    }
}
