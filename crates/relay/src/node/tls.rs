//! TLS of clients: how it is accepted, and whom they show to be by it.
use super::Shared;
use crate::authority::Holder;
use crate::secret::{Identity, SecretError};
use crate::socket::Leg;
use crate::validity::{AGAIN, Validity};
use rustls_pki_types::UnixTime;
use std::sync::Arc;
use std::time::Duration;
use time::OffsetDateTime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;

/// A wait for the end of a certificate is no shorter.
const LEAST_WAIT: Duration = Duration::from_secs(1);

/// How TLS is accepted, by the identity that the node has at the moment.
pub struct Accepting {
    pub acceptor: TlsAcceptor,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// When our own certificate is good, if it does not follow from a secret.
    own: Option<Validity>,
    /// Whether certificates are those that a network's secret gives.
    by_secret: bool,
}

/// Who a client has shown to be by a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Nobody: it has none.
    Nobody,
    /// Somebody who was believed when the connection was made, and is not any more.
    Former,
    /// A member of the network, of which nothing else is known.
    Member,
    /// Who it was issued to.
    Holder(Holder),
}

impl Shared {
    /// Says that the node's certificate ends, from when that is soon on, and each day; for ever.
    pub(super) async fn watch_certificate(&self) {
        let mut reloaded = self.reloaded.subscribe();
        loop {
            let now = OffsetDateTime::now_utc();
            let own = self.tls().and_then(|tls| tls.own);
            let mut wait = AGAIN;
            if let Some(own) = own {
                // Those of `--certificate` are read once.
                let is_read_again = self.config.credential.is_some();
                own.warning(now, is_read_again).iter().for_each(|warning| tracing::warn!("{warning}"));
                wait = Some(own.until_soon(now)).filter(|soon| !soon.is_zero()).unwrap_or(AGAIN);
            }
            tokio::select! {
                // It fails when the node is gone, and this with it.
                _ = reloaded.changed() => {}
                // A clock may be set meanwhile.
                () = tokio::time::sleep(wait.clamp(LEAST_WAIT, AGAIN)) => {}
            }
        }
    }
}

impl Accepting {
    /// Nothing without a certificate of our own.
    pub fn of(identity: &Identity) -> Result<Option<Arc<Accepting>>, SecretError> {
        let Some(server) = identity.server()? else { return Ok(None) };
        let (verifier, by_secret) = (identity.verifier()?, identity.is_member());
        Ok(Some(Arc::new(Accepting {
            acceptor: server.into(),
            verifier,
            own: identity.validity(),
            by_secret,
        })))
    }

    /// Who a client was believed to be when the connection was made.
    pub fn shown_at_first(&self, leg: &Leg) -> Shown {
        match leg.certificates().first() {
            None => Shown::Nobody,
            Some(_) if self.by_secret => Shown::Member,
            // Of whom nobody can say who it is, nobody can say that it is not revoked either.
            Some(certificate) => Holder::of(certificate).map_or(Shown::Former, Shown::Holder),
        }
    }

    /// Who it is believed to be now: authorities may be others since the connection was made, and the certificate may have expired.
    pub fn shown(&self, leg: &Leg) -> Shown {
        let Some((own, others)) = leg.certificates().split_first() else { return Shown::Nobody };
        let verifies = |verifier: &Arc<dyn ClientCertVerifier>| {
            verifier.verify_client_cert(own, others, UnixTime::now()).is_ok()
        };
        if self.verifier.as_ref().is_some_and(verifies) { self.shown_at_first(leg) } else { Shown::Former }
    }
}
