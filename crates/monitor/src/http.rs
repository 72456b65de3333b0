//! The page, live, and metrics over HTTP, for this host alone.
//!
//! Threads of their own listen and answer. They see samples, which are bounded, and are few.
use crate::monitor::Monitor;
use crate::openmetrics::as_text;
use socket2::{Domain, Socket, Type};
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Connections at once; whoever comes then is sent away.
const AT_ONCE: usize = 32;
/// How long one may take to ask, and to read each part of the answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A request is at most this long.
const MAX_HEAD: usize = 4096;
/// Whoever watches is sent something at least this often, so that one who is gone is noticed.
const PING: Duration = Duration::from_secs(12);

/// Nothing but what stands in the page itself, and what this server says.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const PAGE: &str = include_str!("page.html");
const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const NOBODY: &str = "the gateway does not answer\n";

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// Others than this host could read it.
    #[error(
        "metrics: {0} could be read from elsewhere, and the page names who talks with whom: use a loopback address such as \
         \"127.0.0.1:7090\"; from elsewhere, `ssh -L 7090:127.0.0.1:7090 HOST`"
    )]
    Public(SocketAddr),
    /// The address cannot be had.
    #[error("metrics: cannot listen at {address}: {error} (give another address or port)")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
}

/// A socket at which the page is asked for. It can be had before the process gives up its privileges.
#[derive(Debug)]
pub struct Pages(TcpListener);

impl Pages {
    /// Takes a loopback address; beside a predecessor that listens there until it has handed all over, if `takes_over`.
    ///
    /// # Errors
    /// It is no loopback address, or cannot be had.
    pub fn bind(address: SocketAddr, takes_over: bool) -> Result<Pages, PageError> {
        if !address.ip().is_loopback() {
            return Err(PageError::Public(address));
        }
        let listen = || {
            if !takes_over {
                // Whoever shares the port by itself would have half of the questions.
                drop(TcpListener::bind(address)?);
            }
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
            socket.set_reuse_address(true)?;
            // So that a successor can listen, too.
            socket.set_reuse_port(true)?;
            socket.bind(&address.into())?;
            socket.listen(128)?;
            Ok(Pages(socket.into()))
        };
        listen().map_err(|error| PageError::Listen { address, error })
    }

    /// Takes a socket that a service manager has made.
    ///
    /// # Errors
    /// It is not at a loopback address.
    pub fn adopt(listener: TcpListener) -> Result<Pages, PageError> {
        let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
        let address = listener.local_addr().unwrap_or(unspecified);
        if !address.ip().is_loopback() {
            return Err(PageError::Public(address));
        }
        let listen = listener.set_nonblocking(false).map(|()| Pages(listener));
        listen.map_err(|error| PageError::Listen { address, error })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// None are known.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Answers from now on, in threads of its own.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn serve(self, monitor: Arc<Monitor>) -> io::Result<()> {
        monitor.watch_always();
        let run = move || {
            let busy = Arc::new(AtomicUsize::new(0));
            for stream in self.0.incoming() {
                let Ok(stream) = stream else {
                    // No descriptors are left, perhaps: there will be.
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                };
                let Some(place) = Place::take(&busy) else { continue };
                let monitor = Arc::clone(&monitor);
                let answer = move || {
                    let _place = place;
                    let _ = serve(stream, &monitor);
                };
                let _ = std::thread::Builder::new().name("page".into()).spawn(answer);
            }
        };
        std::thread::Builder::new().name("pages".into()).spawn(run).map(drop)
    }
}

/// One of [`AT_ONCE`] places, given back however the thread that has it ends.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(busy: &Arc<AtomicUsize>) -> Option<Self> {
        let place = Place(Arc::clone(busy));
        (busy.fetch_add(1, Ordering::Relaxed) < AT_ONCE).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is asked for, such as `/metrics`.
    pub path: String,
    /// What stands behind the question mark.
    pub query: String,
    /// OpenMetrics is understood.
    pub openmetrics: bool,
    /// The head of the answer is enough (`HEAD`).
    pub head_only: bool,
}

impl Request {
    /// The answer to it: a whole one, or its head (RFC 9110 §9.3.2).
    pub fn answer(&self, status: &str, kind: &str, body: &str) -> String {
        let whole = response(status, kind, body);
        match self.head_only {
            true => whole[..whole.len() - body.len()].to_owned(),
            false => whole,
        }
    }
}

/// Reads a request; what is wrong with it is said with a status.
fn read(stream: &mut TcpStream) -> io::Result<Result<Request, &'static str>> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let length = stream.read(&mut part)?;
        if length == 0 || head.len() > MAX_HEAD {
            return Ok(Err("400 Bad Request"));
        }
        head.extend_from_slice(&part[..length]);
    }
    Ok(parse(&head))
}

/// Reads the head of a request that is for this host alone: a `GET` or `HEAD` with a `Host` of this host.
///
/// # Errors
/// The status that says what is wrong with it.
pub fn parse(head: &[u8]) -> Result<Request, &'static str> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        _ => return Err("400 Bad Request"),
    }
    let head_only = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err("405 Method Not Allowed"),
    };
    // A name that leads here is another site's, which would read what we say (DNS rebinding).
    let host = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("host"));
    if !host.is_some_and(|host| is_local(host.value)) {
        return Err("403 Forbidden");
    }
    let accepts = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("accept"));
    let openmetrics = accepts
        .map(|header| String::from_utf8_lossy(header.value))
        .any(|kinds| kinds.contains("openmetrics"));
    let target = request.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Ok(Request { path: path.into(), query: query.into(), openmetrics, head_only })
}

/// Whether a `Host` header says that this host was asked for.
fn is_local(value: &[u8]) -> bool {
    let Ok(value) = std::str::from_utf8(value) else { return false };
    let name = match value.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => value.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// What stands behind `q=` in a query.
fn sought(query: &str) -> String {
    let value = query.split('&').find_map(|pair| pair.strip_prefix("q=")).unwrap_or_default();
    let mut bytes = Vec::new();
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => match (digit(rest.next()), digit(rest.next())) {
                (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
                _ => return String::new(),
            },
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn serve(mut stream: TcpStream, monitor: &Monitor) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    let request = match read(&mut stream)? {
        Ok(request) => request,
        Err(status) => return write_whole(&mut stream, &response(status, TEXT, &format!("{status}\n"))),
    };
    let say = |stream: &mut TcpStream, status, kind, body: &str| {
        write_whole(stream, &request.answer(status, kind, body))
    };
    let found = match request.path.as_str() {
        "/" => Some((HTML, PAGE.to_owned())),
        "/metrics" => monitor.openmetrics().map(|text| metrics(&request, text)),
        "/status.json" => monitor.json().map(|json| (JSON, json.to_string())),
        "/flows.json" => {
            let rows = monitor.flows(&sought(&request.query));
            Some((JSON, serde_json::to_string(&rows).map_err(io::Error::other)?))
        }
        "/events" if request.head_only => Some((EVENTS, String::new())),
        "/events" => return follow(&mut stream, monitor),
        _ => {
            let here = "/, /metrics, /status.json, /flows.json?q=… and /events are here\n";
            return say(&mut stream, "404 Not Found", TEXT, here);
        }
    };
    match found {
        Some((kind, body)) => say(&mut stream, "200 OK", kind, &body),
        None => say(&mut stream, "503 Service Unavailable", TEXT, NOBODY),
    }
}

fn write_whole(stream: &mut TcpStream, answer: &str) -> io::Result<()> {
    stream.write_all(answer.as_bytes())
}

/// A whole answer.
pub fn response(status: &str, kind: &str, body: &str) -> String {
    let mut answer = head(status, kind);
    let _ = write!(answer, "Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    answer
}

/// Metrics in OpenMetrics as the request understands them: their kind and their text.
pub fn metrics(request: &Request, openmetrics: String) -> (&'static str, String) {
    if request.openmetrics { (OPENMETRICS, openmetrics) } else { (METRICS, as_text(&openmetrics)) }
}

fn head(status: &str, kind: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\nContent-Security-Policy: {POLICY}\r\n"
    )
}

/// Each sample, as long as somebody reads (server-sent events).
fn follow(stream: &mut TcpStream, monitor: &Monitor) -> io::Result<()> {
    let mut answer = head("200 OK", EVENTS);
    answer.push_str("Connection: close\r\n\r\nretry: 2000\n\n");
    stream.write_all(answer.as_bytes())?;
    let mut number = 0;
    loop {
        match monitor.json_after(number, PING) {
            Some((next, json)) => {
                number = next;
                stream.write_all(format!("id: {number}\ndata: {json}\n\n").as_bytes())?;
            }
            None => stream.write_all(b": nothing new\n\n")?,
        }
    }
}

/// What a server on this host answers to `GET`, such as a node with its `/status.json`.
///
/// # Errors
/// Nobody answers, or not with 200.
pub fn fetch(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = Vec::new();
    stream.take(16 << 20).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    match head.lines().next() {
        Some(status) if status.split(' ').nth(1) == Some("200") => Ok(body.to_owned()),
        status => Err(io::Error::other(format!("it says `{}`", status.unwrap_or_default()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_ask_for_this_host_is_refused() {
        let ask = |host: &str| parse(format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        for host in ["localhost:7090", "127.0.0.1", "[::1]:7090"] {
            assert_eq!(ask(host).map(|request| request.path), Ok("/metrics".into()), "{host}");
        }
        for host in ["evil.example:7090", "192.0.2.1", "", "127.0.0.1.evil.example"] {
            assert_eq!(ask(host), Err("403 Forbidden"), "{host}");
        }
        assert_eq!(parse(b"GET / HTTP/1.1\r\n\r\n"), Err("403 Forbidden"));
        assert_eq!(parse(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n"), Err("405 Method Not Allowed"));
        assert_eq!(parse(b"\x16\x03\x01\r\n\r\n"), Err("400 Bad Request"));
    }

    #[test]
    fn a_head_is_that_of_the_whole_answer() {
        let asked = |method: &str| {
            parse(format!("{method} / HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap()
        };
        let [whole, head] = ["GET", "HEAD"].map(|method| asked(method).answer("200 OK", TEXT, "8 bytes."));
        assert_eq!(whole.strip_prefix(&head), Some("8 bytes."));
        assert!(head.contains("Content-Length: 8\r\n"), "{head}");
    }

    #[test]
    fn what_is_sought_is_decoded() {
        let cases =
            [("q=10.0.0.7", "10.0.0.7"), ("a=1&q=fd00%3A%3A7", "fd00::7"), ("q=a+b", "a b"), ("q=%4", "")];
        for (query, expected) in cases {
            assert_eq!(sought(query), expected);
        }
    }

    #[test]
    fn others_than_this_host_are_not_served() {
        let error = Pages::bind(([0, 0, 0, 0], 0).into(), false).unwrap_err().to_string();
        assert!(error.contains("127.0.0.1:7090") && error.contains("ssh -L"), "{error}");
        let public = std::net::TcpListener::bind(("0.0.0.0", 0)).unwrap();
        assert!(matches!(Pages::adopt(public), Err(PageError::Public(_))));
        let first = Pages::bind(([127, 0, 0, 1], 0).into(), false).unwrap();
        let address = first.address().unwrap();
        let error = Pages::bind(address, false).unwrap_err().to_string();
        assert!(error.contains(&address.to_string()) && error.contains("another"), "{error}");
        assert_eq!(Pages::bind(address, true).unwrap().address().unwrap(), address);
    }
}
