//! Nodes that do not answer: whoever asks for one hears so at once, while it is asked again in the background.
use super::Links;
use crate::answer::{Failure, Refusal};
use crate::route::Endpoint;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long until a node is asked again that did not answer; twice as long each time.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest of these waits.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How long a node is asked again that nobody wants any more.
const WANTED_FOR: Duration = Duration::from_secs(600);
/// The most that are remembered. Whoever asks names them: of more, no news are kept.
const MOST: usize = 64;

/// Those that did not answer.
#[derive(Debug, Default)]
pub(super) struct Dead {
    nodes: Mutex<HashMap<Endpoint, Silent>>,
}

#[derive(Debug)]
struct Silent {
    refusal: Refusal,
    since: Instant,
    wanted: Instant,
}

impl Dead {
    /// What whoever wants such a node is told.
    pub fn refusal(&self, node: &Endpoint) -> Option<Refusal> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = nodes.get_mut(node)?;
        silent.wanted = Instant::now();
        let mut refusal = silent.refusal.clone();
        let ago = silent.since.elapsed().as_secs();
        refusal.hop.details = Some(format!("nor {ago} s ago; it is asked every now and then"));
        Some(refusal)
    }

    /// A node could not be connected to; whether it is to be asked again in the background from now on.
    pub fn on_failure(&self, node: &Endpoint, refusal: &Refusal) -> bool {
        // What answers at once costs nobody any time.
        if !matches!(refusal.failure, Failure::ConnectionTimeout | Failure::Unroutable) {
            return false;
        }
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if nodes.contains_key(node) || nodes.len() >= MOST {
            return false;
        }
        let now = Instant::now();
        nodes.insert(node.clone(), Silent { refusal: refusal.clone(), since: now, wanted: now });
        true
    }

    fn is_wanted(&self, node: &Endpoint) -> bool {
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.get(node).is_some_and(|silent| silent.wanted.elapsed() < WANTED_FOR)
    }

    fn forget(&self, node: &Endpoint) {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).remove(node);
    }
}

/// Asks a node that did not answer until it does, or nobody wants it any more.
pub(super) async fn ask_again(links: Arc<Links>, node: Endpoint) {
    let mut wait = FIRST_WAIT;
    loop {
        tokio::time::sleep(wait).await;
        if !links.dead.is_wanted(&node) {
            break;
        }
        match links.connect_node(&node, None).await {
            // It says why, and so it is there.
            Ok(_) => break,
            Err(refusal) if !matches!(refusal.failure, Failure::ConnectionTimeout | Failure::Unroutable) => {
                break;
            }
            Err(_) => wait = (wait * 2).min(LONGEST_WAIT),
        }
    }
    links.dead.forget(&node);
}
