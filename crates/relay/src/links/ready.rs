//! Connections to nodes that are there before anybody asks.
use super::Links;
use crate::route::Endpoint;
use crate::socket::Leg;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead as _, ReadBuf};

/// A connection that is kept ready is used up to this age; nodes wait longer for a request.
const READY_FOR: Duration = Duration::from_secs(40);
/// Nodes that were not asked for longer are no longer kept ready for.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);
/// Most nodes that connections are kept ready to; of more, those that were asked longest ago are forgotten. Whoever
/// asks names them.
const REMEMBERED_MOST: usize = 64;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct ReadyLegs {
    of_nodes: Mutex<HashMap<Endpoint, OfNode>>,
    /// How often all were closed: what was begun before is none of them.
    closed: AtomicU64,
}

/// Those to one node.
#[derive(Debug)]
struct OfNode {
    asked: Instant,
    legs: Vec<(Instant, Leg)>,
    /// Those that are being made: whoever takes one has another made, and no more than there is room for.
    coming: usize,
}

impl ReadyLegs {
    fn all(&self) -> MutexGuard<'_, HashMap<Endpoint, OfNode>> {
        self.of_nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nodes are kept ready for as before, by new connections.
    pub fn close_all(&self) {
        let mut all = self.all();
        self.closed.fetch_add(1, Ordering::Relaxed);
        all.values_mut().for_each(|one| one.legs.clear());
    }
}

impl Links {
    /// One that is ready; another takes its place soon.
    pub(super) fn take_ready(self: &Arc<Self>, to: &Endpoint) -> Option<Leg> {
        let now = Instant::now();
        let mut ready = self.ready.all();
        let entry = ready.get_mut(to)?;
        entry.asked = now;
        let taken = loop {
            match entry.legs.pop() {
                Some((since, mut leg)) => {
                    if now - since < READY_FOR && is_silent(&mut leg) {
                        break Some(leg);
                    }
                }
                None => break None,
            }
        };
        drop(ready);
        let (links, to) = (Arc::clone(self), to.clone());
        tokio::spawn(async move { links.fill(&to).await });
        taken
    }

    /// Keeps connections ready to a node from now on.
    pub async fn keep_ready(self: &Arc<Self>, to: &Endpoint) {
        {
            let mut ready = self.ready.all();
            if !ready.contains_key(to) {
                if ready.len() >= REMEMBERED_MOST {
                    let longest_ago = ready.iter().min_by_key(|(_, entry)| entry.asked);
                    let longest_ago = longest_ago.map(|(node, _)| node.clone());
                    longest_ago.and_then(|node| ready.remove(&node));
                }
                ready.insert(to.clone(), OfNode { asked: Instant::now(), legs: Vec::new(), coming: 0 });
            }
        }
        self.fill(to).await;
    }

    async fn fill(self: &Arc<Self>, to: &Endpoint) {
        loop {
            let closed = {
                let mut ready = self.ready.all();
                match ready.get_mut(to) {
                    Some(entry) if entry.legs.len() + entry.coming < self.options.ready => entry.coming += 1,
                    _ => return,
                }
                self.ready.closed.load(Ordering::Relaxed)
            };
            let made = self.connect_node(to, None).await;
            let mut ready = self.ready.all();
            // It may have been forgotten, and asked for again.
            let Some(entry) = ready.get_mut(to) else { return };
            entry.coming = entry.coming.saturating_sub(1);
            match made {
                // As somebody else, or to somebody who is not believed any more.
                Ok(_) if self.ready.closed.load(Ordering::Relaxed) != closed => {}
                Ok(leg) if entry.legs.len() < self.options.ready => entry.legs.push((Instant::now(), leg)),
                _ => return,
            }
        }
    }

    /// Replaces what has become too old, for ever.
    pub async fn maintain(self: Arc<Self>) {
        loop {
            tokio::time::sleep(READY_FOR / 4).await;
            let now = Instant::now();
            let wanted: Vec<Endpoint> = {
                let mut ready = self.ready.all();
                ready.retain(|_, entry| now - entry.asked < REMEMBERED_FOR);
                for entry in ready.values_mut() {
                    entry.legs.retain_mut(|(since, leg)| now - *since < READY_FOR / 2 && is_silent(leg));
                }
                ready.keys().cloned().collect()
            };
            // All at the same time: one that has gone keeps nobody waiting.
            for node in wanted {
                let links = Arc::clone(&self);
                tokio::spawn(async move { links.fill(&node).await });
            }
        }
    }
}

/// Whether a connection that nobody uses is still open, with nothing said on it.
fn is_silent(leg: &mut Leg) -> bool {
    let mut byte = [0; 1];
    let mut cx = Context::from_waker(Waker::noop());
    matches!(Pin::new(leg).poll_read(&mut cx, &mut ReadBuf::new(&mut byte)), Poll::Pending)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::{Credentials, LinkOptions, NameService, Protection};
    use crate::secret::Identity;

    fn links() -> Arc<Links> {
        let links = Links::new(LinkOptions {
            name: "test".into(),
            protection: Protection::Plain,
            identity: Identity::from_files(None, None).unwrap(),
            credentials: Credentials::None,
            congestion: None,
            paced: false,
            timeout: Duration::from_secs(10),
            ready: 1,
            names: NameService::System,
            gone_after: Duration::from_secs(600),
        });
        Arc::new(links.unwrap())
    }

    #[tokio::test]
    async fn who_is_somebody_else_now_has_no_connections_of_before() {
        let (links, listener) = (links(), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let node = Endpoint::from(listener.local_addr().unwrap());
        links.keep_ready(&node).await;
        let ready = || links.ready.all()[&node].legs.len();
        assert_eq!(ready(), 1);
        links.set_identity(&Identity::from_files(None, None).unwrap()).unwrap();
        assert_eq!(ready(), 0);
    }

    #[tokio::test]
    async fn only_so_many_nodes_are_kept_ready_for() {
        let links = links();
        let kept = |links: &Links| links.ready.all().keys().cloned().collect::<Vec<_>>();
        // Nobody listens there, so that nothing is opened.
        let nodes: Vec<Endpoint> =
            (1..=100).map(|port| format!("127.0.0.1:{port}").parse().unwrap()).collect();
        for node in &nodes {
            links.keep_ready(node).await;
        }
        let kept = kept(&links);
        assert_eq!(kept.len(), REMEMBERED_MOST);
        assert!(kept.contains(&nodes[99]) && !kept.contains(&nodes[0]), "{kept:?}");
    }
}
