//! Plain HTTP through a local port (RFC 9110 §7, RFC 9112 §3.2.2): what `http_proxy=` asks for. A request that names a whole
//! address goes to that host as a request for its path, on a session that is kept for the next one.
use super::{Client, Early, OpenError, SessionStream};
use crate::answer::{Failure, HopStatus};
use crate::route::Endpoint;
use crate::socket::Socket;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, VIA};
use hyper::http::uri::{PathAndQuery, Scheme};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Mutex;

/// How long the head of a request may take, and how long a connection is kept on which nothing is asked.
const PATIENCE: Duration = Duration::from_secs(30);

/// What holds between two neighbours only (RFC 9110 §7.6.1), besides what `Connection` names.
const OF_ONE_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "transfer-encoding",
    "upgrade",
];

type Body = BoxBody<Bytes, hyper::Error>;
type Sending = SendRequest<Incoming>;

/// Our name in `Via`: another for each process, so that one that hears it again knows of a circle.
static PSEUDONYM: LazyLock<String> = LazyLock::new(|| {
    let mut bytes = [0; 4];
    // Without random numbers, two proxies in a row could take each other for themselves; nothing else.
    let _ = getrandom::fill(&mut bytes);
    format!("shorthaul-{:08x}", u32::from_ne_bytes(bytes))
});

/// Serves a client's requests until it has no more. What breaks on the way is a reset.
pub(super) async fn serve(client: Arc<Client>, socket: Socket, peer: SocketAddr, said: Vec<u8>) {
    let kept: Mutex<Option<(Endpoint, Sending)>> = Mutex::new(None);
    let answer = |request: Request<Incoming>| {
        let (client, kept) = (&client, &kept);
        async move {
            let mut kept = kept.lock().await;
            match pass(client, peer, &mut kept, request).await {
                Ok(response) => Ok(response),
                Err(Failed::Told(status, words, hops)) => Ok(said_by_us(status, &words, &hops)),
                Err(Failed::Broken(error)) => Err(error),
            }
        }
    };
    let io = TokioIo::new(Said { said, socket: socket.clone() });
    let mut http = Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).half_close(true).preserve_header_case(true);
    match http.serve_connection(io, service_fn(answer)).await {
        Ok(()) => {
            let _ = socket.end_well();
        }
        // The socket is reset when it is dropped.
        Err(error) => tracing::debug!(%error, "plain HTTP of a client broke"),
    }
}

/// Why there is no response of the other side.
enum Failed {
    /// The client can be told.
    Told(StatusCode, String, Vec<HopStatus>),
    /// It can only be reset: some of the request has gone, and what became of it is not known.
    Broken(hyper::Error),
}

fn wrong(status: StatusCode, words: &str) -> Failed {
    Failed::Told(status, words.to_owned(), Vec::new())
}

impl From<OpenError> for Failed {
    fn from(error: OpenError) -> Failed {
        let status = StatusCode::from_u16(error.failure().status()).unwrap_or(StatusCode::BAD_GATEWAY);
        let words = error.to_string();
        Failed::Told(status, words, error.attempts.into_iter().map(|(_, refusal)| *refusal.hop).collect())
    }
}

async fn pass(
    client: &Client,
    peer: SocketAddr,
    kept: &mut Option<(Endpoint, Sending)>,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Failed> {
    let target = prepare(&mut request)?;
    let mut asked = request;
    loop {
        let again = match kept.take() {
            Some((of, sending)) if of == target && !sending.is_closed() => Some(sending),
            _ => None,
        };
        let is_again = again.is_some();
        let mut sending = match again {
            Some(sending) => sending,
            None => begin(client, peer, &target).await?,
        };
        // One that was kept may have been closed by the other side meanwhile.
        if sending.ready().await.is_err() && is_again {
            continue;
        }
        match sending.try_send_request(asked).await {
            Ok(mut response) => {
                strip(response.headers_mut());
                name_us(response.version(), response.headers_mut());
                *kept = Some((target, sending));
                return Ok(response.map(|body| body.boxed()));
            }
            // It was not sent, not even in part.
            Err(mut error) => match error.take_message() {
                Some(unsent) if is_again => asked = unsent,
                _ => {
                    let error = error.into_error();
                    let words = format!("{target} broke the connection before it answered");
                    tracing::warn!(%target, %error, "no answer");
                    return Err(
                        match error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
                            true => Failed::Told(StatusCode::BAD_GATEWAY, words, Vec::new()),
                            false => Failed::Broken(error),
                        },
                    );
                }
            },
        }
    }
}

/// A session on which requests are sent.
async fn begin(client: &Client, peer: SocketAddr, target: &Endpoint) -> Result<Sending, Failed> {
    let opened = client.open_plain(target, Some(peer), &mut Early::new(&mut Vec::new)).await;
    let session = opened.inspect_err(|error| tracing::warn!("{error}"))?;
    tracing::info!(%target, route = %session.route, took = ?session.took, "session");
    let stream: SessionStream = session.into_stream();
    let (sending, driving) = handshake(TokioIo::new(stream)).await.map_err(Failed::Broken)?;
    let target = target.clone();
    tokio::spawn(async move {
        if let Err(error) = driving.await {
            tracing::debug!(%target, %error, "a session broke");
        }
    });
    Ok(sending)
}

/// Makes a request to a proxy one to the host itself; which host that is.
fn prepare(request: &mut Request<Incoming>) -> Result<Endpoint, Failed> {
    let uri = request.uri();
    if request.method() == Method::CONNECT {
        return Err(wrong(
            StatusCode::METHOD_NOT_ALLOWED,
            "CONNECT needs a connection of its own: this one carries plain requests",
        ));
    }
    let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
        return Err(wrong(
            StatusCode::BAD_REQUEST,
            "this is a proxy: ask for a whole address, such as GET http://server/, or CONNECT server:443",
        ));
    };
    if *scheme != Scheme::HTTP {
        return Err(wrong(
            StatusCode::BAD_REQUEST,
            "a proxy takes http:// addresses, and CONNECT for all others",
        ));
    }
    let host = authority.host();
    let target = format!("{host}:{}", authority.port_u16().unwrap_or(80));
    let target: Endpoint =
        target.parse().map_err(|error| wrong(StatusCode::BAD_REQUEST, &format!("{error}")))?;
    let names_us = |value: &HeaderValue| value.to_str().is_ok_and(|value| value.contains(PSEUDONYM.as_str()));
    if request.headers().get_all(VIA).iter().any(names_us) {
        return Err(wrong(StatusCode::LOOP_DETECTED, "the request has come back to this proxy"));
    }
    // Without who the user says to be there: that is not for everybody on the way.
    let host = match authority.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let host = HeaderValue::from_str(&host)
        .map_err(|_| wrong(StatusCode::BAD_REQUEST, "the host's name is no text"))?;
    let path = uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
    let version = request.version();
    *request.uri_mut() = Uri::from(path);
    strip(request.headers_mut());
    name_us(version, request.headers_mut());
    request.headers_mut().insert(HOST, host);
    *request.version_mut() = Version::HTTP_11;
    Ok(target)
}

fn strip(headers: &mut HeaderMap) {
    let listed: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in listed {
        headers.remove(name);
    }
    for name in OF_ONE_HOP {
        headers.remove(name);
    }
}

fn name_us(version: Version, headers: &mut HeaderMap) {
    let protocol = if version == Version::HTTP_10 { "1.0" } else { "1.1" };
    if let Ok(value) = HeaderValue::from_str(&format!("{protocol} {}", *PSEUDONYM)) {
        headers.append(VIA, value);
    }
}

/// A response of ours: one line of words, and what the nodes said.
fn said_by_us(status: StatusCode, words: &str, hops: &[HopStatus]) -> Response<Body> {
    let body = Full::new(Bytes::from(format!("{words}\n"))).map_err(|never| match never {}).boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(hyper::header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    let us = HopStatus {
        node: PSEUDONYM.clone(),
        error: Some(Failure::RequestError),
        details: Some(words.to_owned()),
        ..HopStatus::default()
    };
    let hops = if hops.is_empty() { std::slice::from_ref(&us) } else { hops };
    for hop in hops {
        if let Ok(value) = HeaderValue::from_str(&hop.to_string()) {
            headers.append("proxy-status", value);
        }
    }
    response
}

/// A socket of which some was read already.
struct Said {
    said: Vec<u8>,
    socket: Socket,
}

impl AsyncRead for Said {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.said.is_empty() {
            return Pin::new(&mut self.socket).poll_read(cx, buf);
        }
        let len = self.said.len().min(buf.remaining());
        buf.put_slice(&self.said[..len]);
        self.said.drain(..len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Said {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
