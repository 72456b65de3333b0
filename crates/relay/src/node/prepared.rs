//! Ways on that are connected before their session is there (CAS-5).
use super::Shared;
use super::session::{Far, connect_next};
use crate::account::{Account, Share};
use crate::answer::Refusal;
use crate::request::{Request, SessionId};
use crate::route::Endpoint;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a prepared way waits for its session.
const WAITS: Duration = Duration::from_secs(10);
/// Most of them at once, for all users together; more are not prepared.
const MAX_PREPARED: usize = 4096;
/// Most of them at once for one user.
const MAX_PER_USER: usize = 256;

type Connected = Result<Far, Refusal>;

/// All of them.
#[derive(Debug, Default)]
pub struct Prepared {
    ways: Mutex<HashMap<SessionId, PreparedHop>>,
}

#[derive(Debug)]
struct PreparedHop {
    user: String,
    /// Of the account; nothing if its session was there first.
    share: Option<Share>,
    next: Endpoint,
    /// Nothing if its session was there first: then there is nothing to prepare either.
    connected: Option<oneshot::Receiver<Connected>>,
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
            let of_user = ways.values().filter(|way| way.user == account.name()).count();
            if ways.len() >= MAX_PREPARED || of_user >= MAX_PER_USER || ways.contains_key(&id) {
                return;
            }
            let next = request.next_hop().clone();
            let (user, share) = (account.name().into(), Some(share));
            ways.insert(id, PreparedHop { user, share, next, connected: Some(connected) });
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
        match ways.get_mut(&id) {
            Some(way) if way.user == account.name() && way.next == *request.next_hop() => {
                way.share = None;
                way.connected.take()
            }
            Some(_) => None,
            None => {
                // It came before it was announced: so that the announcement does nothing any more.
                if ways.len() < MAX_PREPARED {
                    let next = request.next_hop().clone();
                    let user = account.name().into();
                    ways.insert(id, PreparedHop { user, share: None, next, connected: None });
                    let shared = Arc::clone(self);
                    tokio::spawn(async move { shared.forget_later(id).await });
                }
                None
            }
        }
    }

    async fn forget_later(&self, id: SessionId) {
        tokio::time::sleep(WAITS).await;
        self.prepared.ways.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}
