//! Nodes that do not answer: whoever asks for one hears so at once, while it is asked again in the background.
use super::Links;
use crate::account::Account;
use crate::answer::{Failure, Refusal};
use crate::route::Endpoint;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long until a node is asked again that did not answer; twice as long each time.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest of these waits.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How long a node is asked again that nobody wants any more.
const WANTED_FOR: Duration = Duration::from_secs(600);
/// The most that are remembered. Whoever asks names them: of more, no news are kept.
const MOST: usize = 64;
/// The most that one account has named.
const MOST_OF_ACCOUNT: usize = MOST / 4;

/// Those that did not answer.
#[derive(Debug, Default)]
pub(super) struct Dead {
    nodes: Mutex<HashMap<Endpoint, Silent>>,
}

#[derive(Debug)]
struct Silent {
    /// What whoever wants it is told; nothing as long as it is only suspected.
    refusal: Option<Refusal>,
    /// Who has named it, if somebody else than whose process this is.
    named_by: Option<Arc<Account>>,
    since: Instant,
    wanted: Instant,
}

impl Dead {
    fn nodes(&self) -> MutexGuard<'_, HashMap<Endpoint, Silent>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What whoever wants such a node is told.
    pub fn refusal(&self, node: &Endpoint) -> Option<Refusal> {
        let mut nodes = self.nodes();
        let silent = nodes.get_mut(node)?;
        silent.wanted = Instant::now();
        let mut refusal = silent.refusal.clone()?;
        let ago = silent.since.elapsed().as_secs();
        refusal.hop.details = Some(format!("nor {ago} s ago; it is asked every now and then"));
        Some(refusal)
    }

    /// A node could not be connected to; whether it is to be asked again in the background from now on.
    pub fn on_failure(&self, node: &Endpoint, refusal: &Refusal, asker: Option<&Arc<Account>>) -> bool {
        // What answers at once costs nobody any time.
        is_silence(refusal) && self.add(node, Some(refusal.clone()), asker)
    }

    /// A node takes long to answer a request, for which somebody behind it may be the reason; whether it is to be asked in the background
    /// from now on.
    pub fn suspect(&self, node: &Endpoint, asker: Option<&Arc<Account>>) -> bool {
        self.add(node, None, asker)
    }

    fn add(&self, node: &Endpoint, refusal: Option<Refusal>, asker: Option<&Arc<Account>>) -> bool {
        let mut nodes = self.nodes();
        let is_askers = |silent: &&Silent| {
            silent.named_by.as_ref().zip(asker).is_some_and(|(by, asker)| Arc::ptr_eq(by, asker))
        };
        let of_asker = nodes.values().filter(is_askers).count();
        if nodes.contains_key(node) || nodes.len() >= MOST || of_asker >= MOST_OF_ACCOUNT {
            return false;
        }
        let now = Instant::now();
        let named_by = asker.map(Arc::clone);
        nodes.insert(node.clone(), Silent { refusal, named_by, since: now, wanted: now });
        true
    }

    /// It did not answer when it was asked by itself.
    fn on_silence(&self, node: &Endpoint, refusal: Refusal) {
        if let Some(silent) = self.nodes().get_mut(node) {
            silent.refusal.get_or_insert(refusal);
        }
    }

    fn is_suspected(&self, node: &Endpoint) -> bool {
        self.nodes().get(node).is_some_and(|silent| silent.refusal.is_none())
    }

    fn is_wanted(&self, node: &Endpoint) -> bool {
        self.nodes().get(node).is_some_and(|silent| silent.wanted.elapsed() < WANTED_FOR)
    }

    fn forget(&self, node: &Endpoint) {
        self.nodes().remove(node);
    }
}

fn is_silence(refusal: &Refusal) -> bool {
    matches!(refusal.failure, Failure::ConnectionTimeout | Failure::Unroutable)
}

/// Asks a node that did not answer until it does, or nobody wants it any more.
pub(super) async fn ask_again(links: Arc<Links>, node: Endpoint) {
    let mut wait = FIRST_WAIT;
    loop {
        // One that is only suspected is asked at once.
        if !links.dead.is_suspected(&node) {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
            if !links.dead.is_wanted(&node) {
                break;
            }
        }
        match links.greet(&node).await {
            Err(refusal) if is_silence(&refusal) => links.dead.on_silence(&node, refusal),
            // It says something, and so it is there.
            _ => break,
        }
    }
    links.dead.forget(&node);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Limits;

    #[test]
    fn who_names_many_that_are_silent_leaves_places_to_others() {
        let dead = Dead::default();
        let [alice, bob] = ["alice", "bob"].map(|name| Arc::new(Account::new(name, Limits::default())));
        let node =
            |number: usize| Endpoint::from(std::net::SocketAddr::from(([192, 0, 2, 1], number as u16)));
        let silence = Refusal::at("test", Failure::ConnectionTimeout, "");
        let hers = (1..1000).filter(|number| dead.on_failure(&node(*number), &silence, Some(&alice))).count();
        assert_eq!(hers, MOST_OF_ACCOUNT);
        assert!(dead.on_failure(&node(2000), &silence, Some(&bob)) && dead.suspect(&node(2001), None));
        assert!(dead.refusal(&node(2000)).is_some(), "whoever names it hears so at once");
        assert!(dead.refusal(&node(2001)).is_none(), "a suspicion is held against nobody");
        dead.on_silence(&node(2001), silence.clone());
        assert!(dead.refusal(&node(2001)).is_some());
        // What answers, however it does, costs nobody any time.
        let refuses = Refusal::at("test", Failure::ConnectionRefused, "");
        assert!(!dead.on_failure(&node(2002), &refuses, None));
    }
}
