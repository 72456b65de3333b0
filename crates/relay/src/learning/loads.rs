//! What nodes told of their load, and what was sent there since.
use super::knowledge::Candidate;
use crate::route::Endpoint;
use shorthaul_planner::sharing::Load;
use shorthaul_types::{BitRate, Time};
use std::collections::HashMap;
use std::time::Duration;

/// Words of a node that are this near each other are one: round trips differ.
const A_WORD: Duration = Duration::from_millis(5);
/// Nodes that are known at the same time.
const NODES: usize = 4096;

/// What a node told of its load, and how many sessions went there from here since then, and are not over.
#[derive(Clone, Copy, Debug)]
struct Told {
    load: Load,
    at: Time,
    sent: u32,
}

/// What each node told last.
#[derive(Debug, Default)]
pub struct Loads {
    told: HashMap<Endpoint, Told>,
}

impl Loads {
    /// What the node of a way leaves of what it can forward for one more session from here, as far as it told.
    pub fn share(&self, hops: &[Endpoint]) -> Option<BitRate> {
        let [node] = hops else { return None };
        self.told.get(node).and_then(|told| told.load.share(told.sent))
    }

    /// The same for one that went there from here already.
    pub fn share_had(&self, hops: &[Endpoint]) -> Option<BitRate> {
        let [node] = hops else { return None };
        let told = self.told.get(node)?;
        // Either it is one of those that were sent since the node told, or the node counted it.
        let sessions = (told.load.sessions + f64::from(told.sent) - 1.0).max(0.0);
        Load { sessions, ..told.load }.share(0)
    }

    /// What nodes tell of their load, unless what is known is as new.
    pub(super) fn hear(&mut self, now: Time, candidates: &[Candidate]) {
        for candidate in candidates {
            let ([node], Some(load)) = (&candidate.hops[..], candidate.load) else { continue };
            let at = Time::from_nanos(now.as_nanos().saturating_sub(load.age.as_nanos() as u64));
            // The same word comes with each session until there is another one.
            if self.told.get(node).is_none_or(|told| at.saturating_since(told.at) > A_WORD) {
                if self.told.len() >= NODES {
                    self.told.clear();
                }
                self.told.insert(node.clone(), Told { load, at, sent: 0 });
            }
        }
    }

    /// A session goes by these nodes: until its node tells how it is, it counts beside what it told.
    pub(super) fn send(&mut self, hops: &[Endpoint]) {
        if let [node] = hops
            && let Some(told) = self.told.get_mut(node)
        {
            told.sent = told.sent.saturating_add(1);
        }
    }

    /// A session that went by these nodes is over.
    pub(super) fn end(&mut self, hops: &[Endpoint]) {
        if let [node] = hops
            && let Some(told) = self.told.get_mut(node)
        {
            told.sent = told.sent.saturating_sub(1);
        }
    }
}
