//! Ways on that are connected before their session is there (CAS-5), and telling others to do that.
use super::Shared;
use super::session::{Far, announcements, connect_next};
use crate::account::{Account, Share};
use crate::answer::Refusal;
use crate::request::{Request, SessionId};
use crate::route::Endpoint;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

/// How long a prepared way waits for its session.
const WAITS: Duration = Duration::from_secs(10);
/// Most of them at once, for all users together; more are not prepared.
const MAX_PREPARED: usize = 4096;
/// Most of them at once for one user.
const MAX_PER_USER: usize = 256;
/// Nodes that are being told of sessions at once, for all users together; more are not told.
const MAX_ANNOUNCED: usize = 1024;

type Connected = Result<Far, Refusal>;

/// All of them.
#[derive(Debug)]
pub struct Prepared {
    ways: Mutex<Ways>,
    announced: Arc<Semaphore>,
}

impl Default for Prepared {
    fn default() -> Prepared {
        Prepared { ways: Mutex::default(), announced: Arc::new(Semaphore::new(MAX_ANNOUNCED)) }
    }
}

#[derive(Debug, Default)]
struct Ways(HashMap<SessionId, PreparedHop>);

#[derive(Debug)]
struct PreparedHop {
    user: String,
    /// Of the account; nothing if its session was there first.
    share: Option<Share>,
    next: Endpoint,
    /// Nothing if its session was there first: then there is nothing to prepare either.
    connected: Option<oneshot::Receiver<Connected>>,
}

impl Ways {
    /// Whether there is room for one more, which is none that is there.
    fn add(&mut self, id: SessionId, way: PreparedHop) -> bool {
        let of_user = self.0.values().filter(|other| other.user == way.user).count();
        if self.0.len() >= MAX_PREPARED || of_user >= MAX_PER_USER || self.0.contains_key(&id) {
            return false;
        }
        self.0.insert(id, way);
        true
    }
}

/// Nodes that are being told of a session: they are told no more when it is dropped.
#[derive(Debug)]
pub(super) struct Announcing {
    _session: oneshot::Sender<()>,
}

impl Shared {
    /// Begins to connect for a session that is about to come.
    pub(super) fn prepare(self: &Arc<Self>, request: Request, account: &Arc<Account>) {
        let Some(id) = request.session else { return };
        if self.is_stopping() || self.status.sessions() >= self.config.most_sessions {
            return;
        }
        let Some(share) = account.prepare() else { return };
        let (tell, connected) = oneshot::channel();
        {
            let mut ways = self.prepared.ways.lock().unwrap_or_else(PoisonError::into_inner);
            let next = request.next_hop().clone();
            let (user, share) = (account.name().into(), Some(share));
            if !ways.add(id, PreparedHop { user, share, next, connected: Some(connected) }) {
                return;
            }
        }
        let (shared, account) = (Arc::clone(self), Arc::clone(account));
        tokio::spawn(async move {
            // If nobody wants it any more, it is closed here.
            let _ = tell.send(connect_next(&shared, &request, &account).await);
            shared.forget_later(id).await;
        });
    }

    /// What was prepared for a session, which may still be connecting.
    pub(super) fn take_prepared(
        self: &Arc<Self>,
        request: &Request,
        account: &Account,
    ) -> Option<oneshot::Receiver<Connected>> {
        let id = request.session?;
        let mut ways = self.prepared.ways.lock().unwrap_or_else(PoisonError::into_inner);
        match ways.0.get_mut(&id) {
            Some(way) if way.user == account.name() && way.next == *request.next_hop() => {
                way.share = None;
                way.connected.take()
            }
            Some(_) => None,
            None => {
                // It came before it was announced: so that the announcement does nothing any more.
                let (user, next) = (account.name().into(), request.next_hop().clone());
                if ways.add(id, PreparedHop { user, share: None, next, connected: None }) {
                    let shared = Arc::clone(self);
                    tokio::spawn(async move { shared.forget_later(id).await });
                }
                None
            }
        }
    }

    async fn forget_later(&self, id: SessionId) {
        tokio::time::sleep(WAITS).await;
        self.prepared.ways.lock().unwrap_or_else(PoisonError::into_inner).0.remove(&id);
    }

    /// Tells all nodes behind the next one that a session is about to come, as many as the account may have announcements.
    pub(super) fn announce(&self, request: &Request, account: &Arc<Account>) -> Announcing {
        let mut told = JoinSet::new();
        for (hop, request) in announcements(request, &request.via) {
            let Some(share) = account.prepare() else { break };
            let Ok(place) = Arc::clone(&self.prepared.announced).try_acquire_owned() else { break };
            let (links, account) = (Arc::clone(&self.links), Arc::clone(account));
            told.spawn(async move {
                let _taken = (share, place);
                links.prepare(&hop, &request, Some(&account)).await;
            });
        }
        let (session, gone) = oneshot::channel();
        // What is not over ends with the set.
        tokio::spawn(async move {
            tokio::select! {
                _ = gone => {}
                () = async { while told.join_next().await.is_some() {} } => {}
            }
        });
        Announcing { _session: session }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_were_not_announced_leave_room_to_others() {
        let mut ways = Ways::default();
        let mut comes = |user: &str, id| {
            let next = "server:80".parse().unwrap();
            ways.add(SessionId(id), PreparedHop { user: user.into(), share: None, next, connected: None })
        };
        assert_eq!((0..10_000).filter(|id| comes("alice", *id)).count(), MAX_PER_USER);
        assert!(comes("bob", 10_000) && !comes("bob", 10_000), "once");
    }
}
