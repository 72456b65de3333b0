//! The others: users who set sessions up over TLS, one after the other.
use crate::error::{Result, TrialError};
use shorthaul_relay::{
    Client, ClientOptions, Credentials, Endpoint, FixedRoute, Forwarding, Identity, LinkOptions, Links,
    NameService, Protection, Route, request::SetUp,
};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Nobody waits longer for a session.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A user with a token, who believes the network's authority.
pub struct User {
    client: Client,
    target: Endpoint,
    runtime: tokio::runtime::Runtime,
}

impl User {
    /// One that asks `node` for sessions to `target`.
    pub fn new(
        node: &Endpoint,
        target: &Endpoint,
        (name, token): (&str, &str),
        authority: &Path,
    ) -> Result<User> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let links = Links::new(LinkOptions {
            name: name.to_owned(),
            protection: Protection::Tls,
            identity: Identity::from_files(None, Some(authority)).map_err(TrialError::of)?,
            credentials: Credentials::Token { user: name.to_owned(), token: token.to_owned() },
            congestion: None,
            paced: false,
            timeout: TIMEOUT,
            // Each begins with a handshake.
            ready: 0,
            names: NameService::System,
            gone_after: Duration::from_secs(600),
        });
        let client = Client::new(ClientOptions {
            routes: Arc::new(FixedRoute::only(Route::via(vec![node.clone()]))),
            links: Arc::new(links.map_err(TrialError::of)?),
            set_up: SetUp::Sequential,
            forwarding: Forwarding::Pipelined { wait_windows: 0 },
            buffer: None,
            moves: None,
            patience: Duration::ZERO,
        });
        Ok(User { client, target: target.clone(), runtime })
    }

    /// Sets sessions up until then: how long each took, in seconds, and why some could not be.
    pub fn ask(&self, until: Instant) -> (Vec<f64>, Vec<String>) {
        let (mut took, mut failed) = (Vec::new(), Vec::new());
        self.runtime.block_on(async {
            while Instant::now() < until {
                let begun = Instant::now();
                match self.client.open(&self.target).await {
                    Ok(_) => took.push(begun.elapsed().as_secs_f64()),
                    Err(error) => failed.push(error.to_string()),
                }
            }
        });
        (took, failed)
    }
}
