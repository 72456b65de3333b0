//! What is said on a connection to a node, and what it says.
use super::{Credentials, Links, NODE_ANSWERS, dead, failure_of, words_of};
use crate::account::Account;
use crate::answer::{self, Answer, Failure, Refusal};
use crate::request::{MAX_HEAD, Method, Request};
use crate::route::Endpoint;
use crate::sign::Signature;
use crate::socket::Leg;
use std::io;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_rustls::rustls;

/// How long is waited for the last words of whoever has ended a connection: they are there already, or do not come.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Links {
    /// The head of a request for the node at the other end of a leg.
    pub(crate) fn head(&self, leg: &Leg, request: &Request) -> io::Result<Vec<u8>> {
        if leg.is_tls() {
            return Ok(match &self.options.credentials {
                Credentials::Token { token, .. } => request.to_head(None, Some(&format!("Bearer {token}"))),
                _ => request.to_head(None, None),
            });
        }
        let signing = self.signing.read().unwrap_or_else(PoisonError::into_inner);
        let Some((user, key)) = &*signing else { return Ok(request.to_head(None, None)) };
        let node = leg.socket().0.peer_addr()?;
        let signature = Signature::sign(key, user, request.signed_part(Some(node)).as_bytes());
        Ok(request.to_head(Some(node), Some(&format!("Shorthaul {signature}"))))
    }

    /// Asks the node at the other end, with the first bytes of the session behind the request.
    pub(crate) async fn ask(
        &self,
        leg: &mut Leg,
        to: &Endpoint,
        request: &Request,
        early: &[u8],
    ) -> Result<(), Refusal> {
        let ask = async {
            let mut bytes = self.head(leg, request)?;
            bytes.extend_from_slice(early);
            leg.write_all(&bytes).await?;
            leg.flush().await
        };
        let Err(error) = ask.await else { return Ok(()) };
        // Whoever ended the connection may have said why before: TLS says behind the handshake that we are not believed.
        let said = timeout(LAST_WORDS, self.read_answer(leg, to)).await;
        match said {
            Ok(Err(refusal)) if refusal.failure == Failure::TlsCertificate => Err(refusal),
            _ => Err(Refusal::at(self.name(), failure_of(&error), words_of(&error)).toward(to)),
        }
    }

    /// Reads what a node answers, and what of the session came right behind it. One that takes long is asked by itself, within the limits of
    /// the account that wants it.
    pub(crate) async fn answer<R: AsyncRead + Unpin>(
        self: &Arc<Self>,
        from: &mut R,
        to: &Endpoint,
        asker: Option<&Arc<Account>>,
    ) -> Result<(Answer, Vec<u8>), Refusal> {
        let mut reading = pin!(self.read_answer(from, to));
        if let Ok(read) = timeout(self.answers_within(), &mut reading).await {
            return read;
        }
        if self.dead.suspect(to, asker) {
            tokio::spawn(dead::ask_again(Arc::clone(self), to.clone()));
        }
        // A chain behind it has to connect as well, each part with the same timeout.
        let left = (self.options.timeout * 2).saturating_sub(self.answers_within());
        timeout(left, reading).await.unwrap_or_else(|_| Err(self.no_answer(to)))
    }

    /// How long a node takes to answer that waits for nobody else.
    fn answers_within(&self) -> Duration {
        NODE_ANSWERS.min(self.options.timeout)
    }

    fn no_answer(&self, to: &Endpoint) -> Refusal {
        Refusal::at(self.name(), Failure::ConnectionTimeout, "it did not answer").toward(to)
    }

    async fn read_answer<R: AsyncRead + Unpin>(
        &self,
        from: &mut R,
        to: &Endpoint,
    ) -> Result<(Answer, Vec<u8>), Refusal> {
        let refuse = |failure, details: String| Refusal::at(self.name(), failure, details).toward(to);
        let mut bytes = Vec::with_capacity(512);
        loop {
            match from.read_buf(&mut bytes).await {
                Ok(0) => {
                    return Err(refuse(Failure::ConnectionTerminated, "it closed before it answered".into()));
                }
                Ok(_) => {}
                Err(error) => {
                    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
                    return Err(match inner.and_then(|inner| self.unbelieved(inner)) {
                        Some(why) => refuse(Failure::TlsCertificate, why),
                        None => refuse(Failure::ConnectionTerminated, words_of(&error)),
                    });
                }
            }
            match answer::read(&bytes) {
                Ok(Some((answer, len))) => return Ok((answer, bytes.split_off(len))),
                Ok(None) if bytes.len() <= MAX_HEAD => {}
                Ok(None) => return Err(refuse(Failure::Internal, "its answer has no end".into())),
                Err(error) => return Err(refuse(Failure::Internal, error.to_string())),
            }
        }
    }

    /// Whether a node answers at all: it is asked for what takes nobody else, and may say what it likes.
    pub(super) async fn greet(&self, node: &Endpoint) -> Result<(), Refusal> {
        let mut leg = self.connect_node(node, None).await?;
        // An announcement of no session.
        let request = Request { method: Method::Prepare, ..Request::connect(node.clone()) };
        self.ask(&mut leg, node, &request, &[]).await?;
        match timeout(self.answers_within(), self.read_answer(&mut leg, node)).await {
            Ok(answered) => answered.map(drop),
            Err(_) => Err(self.no_answer(node)),
        }
    }

    /// Reads what the first node of a way answers, which is a session or why there is none.
    pub(crate) async fn answered(
        self: &Arc<Self>,
        from: &mut Leg,
        hops: &[Endpoint],
    ) -> Result<(Answer, Vec<u8>), Refusal> {
        let nobody = || Refusal::at(self.name(), Failure::Internal, "no node is on the way");
        let (answer, rest) = self.answer(from, hops.first().ok_or_else(nobody)?, None).await?;
        if answer.is_success() { Ok((answer, rest)) } else { Err(answer.into_refusal(hops)) }
    }

    /// Tells a node of a session that is about to come, so that its way on is there when it does. That
    /// this fails is no harm: the session finds its way by itself. Names are looked up within the limits of the account that wants it.
    pub(crate) async fn prepare(
        self: &Arc<Self>,
        at: &Endpoint,
        request: &Request,
        asker: Option<&Arc<Account>>,
    ) {
        let told = async {
            let mut leg = self.node(at, asker).await?;
            self.ask(&mut leg, at, request, &[]).await?;
            let (mut source, sink) = leg.into_halves();
            let answered = self.answer(&mut source, at, asker).await;
            drop(sink);
            answered.map(|(answer, _)| answer.status)
        };
        match told.await {
            Ok(status) => tracing::debug!(%at, status, "told of a session"),
            Err(refusal) => tracing::debug!(%at, %refusal, "not told of a session"),
        }
    }
}
