//! What a node refuses, in its log: who wanted what, and why not. Of each kind a few lines in a while, and how many more there were.
use super::Shared;
use crate::answer::{Failure, Refusal};
use crate::route::Endpoint;
use crate::throttle::Throttle;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Whoever is refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker<'a> {
    /// Where the session comes from.
    pub client: SocketAddr,
    /// Whose account it is; nobody's before somebody was let in.
    pub account: Option<&'a str>,
    /// Where to, if that was understood.
    pub target: Option<&'a Endpoint>,
}

impl<'a> Asker<'a> {
    /// Somebody of whom only the address is known.
    pub fn at(client: SocketAddr) -> Asker<'a> {
        Asker { client, account: None, target: None }
    }
}

/// Keeps those who are refused from filling the log: each kind by itself, so that none hides another.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<BTreeMap<&'static str, Throttle>>);

/// What the node itself refuses, and not somebody behind it.
fn is_ours(refusal: &Refusal, name: &str) -> bool {
    match refusal.failure {
        // Such as a node without descriptors, be it this one.
        Failure::Internal => refusal.hop.node == name,
        Failure::RequestDenied
        | Failure::RequestError
        | Failure::ConnectionLimit
        | Failure::DestinationProhibited
        | Failure::LoopDetected => true,
        _ => false,
    }
}

impl Refusals {
    fn passes(&self, kind: &'static str, now: Instant) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(kind).or_default().passes(now)
    }

    /// What was left out and is not followed by a line of its kind.
    fn rests(&self, now: Instant) -> Vec<(&'static str, u64)> {
        let kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.iter().filter_map(|(kind, throttle)| Some((*kind, throttle.rest(now)?))).collect()
    }
}

impl Shared {
    /// Says what is refused, unless that was said often.
    pub(super) fn log_refusal(&self, asker: Asker<'_>, refusal: &Refusal) {
        if is_ours(refusal, &self.name) {
            let details = refusal.hop.details.as_deref().unwrap_or_default();
            self.log_refused(asker, refusal.failure.name(), details);
        }
    }

    /// Says that a fixed relay leads nowhere: nobody else hears why its clients are reset.
    pub(super) fn log_unreached(&self, client: SocketAddr, target: &Endpoint, refusal: &Refusal) {
        let asker = Asker { client, account: None, target: Some(target) };
        self.log_refused(asker, refusal.failure.name(), &refusal.to_string());
    }

    /// The same, of whoever has come to no request.
    pub(super) fn log_refused(&self, asker: Asker<'_>, error: &'static str, reason: &str) {
        let Some(left_out) = self.refusals.passes(error, Instant::now()) else { return };
        let Asker { client, account, target } = asker;
        let (account, target) =
            (account.unwrap_or("-"), target.map_or_else(|| "-".to_owned(), Endpoint::to_string));
        let target = target.as_str();
        // In quotation marks: nothing that others say ends the line.
        tracing::warn!(%client, account, target, error, reason, left_out, "refused");
    }

    /// A connection is closed at once: too many of its source came to nothing.
    pub(super) fn on_stranger(&self, client: SocketAddr) {
        self.counters.strangers.fetch_add(1, Ordering::Relaxed);
        let why = "too many connections of its source have come to nothing, or are waiting";
        self.log_refused(Asker::at(client), "stranger", why);
    }

    /// Says how many were left out, when nobody is refused any more for that.
    pub(super) fn log_refusals_left_out(&self) {
        for (error, left_out) in self.refusals.rests(Instant::now()) {
            tracing::warn!(error, left_out, "refused, and not said one by one");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_wrong_at_the_next_node_is_not_ours() {
        let of = |node: &str, failure| is_ours(&Refusal::at(node, failure, ""), "here");
        assert!(of("here", Failure::Internal) && !of("next", Failure::Internal));
        assert!(of("here", Failure::DestinationProhibited) && !of("here", Failure::ConnectionRefused));
    }

    #[test]
    fn each_kind_has_lines_of_its_own_and_what_is_left_out_is_counted() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        let said = |kind, at| (0..1000).filter(|_| refusals.passes(kind, at).is_some()).count();
        let few = said("http_request_denied", now);
        assert!((1..100).contains(&few));
        assert_eq!(said("connection_limit_reached", now), few, "one kind does not hide another");
        assert_eq!(refusals.rests(now), [], "more may follow");
        let later = now + Duration::from_secs(60);
        let left_out = 1000 - few as u64;
        let all = [("connection_limit_reached", left_out), ("http_request_denied", left_out)];
        assert_eq!(refusals.rests(later), all);
        assert_eq!(refusals.rests(later), [], "said once");
    }
}
