//! The head of a request for a session: HTTP/1.1 `CONNECT` (RFC 9110 §9.3.6), so that any program that
//! can use an HTTP proxy can use a node, with what is ours in headers of its own.
use crate::proxy_header::ProxyVersion;
use crate::pump::Forwarding;
use crate::route::{Endpoint, MAX_HOPS};
use crate::sign::{Signature, SignatureError, from_hex};
use data_encoding::BASE64;
use shorthaul_types::Bytes;
use std::fmt;
use std::net::SocketAddr;

/// The longest head of a request or an answer, in bytes.
pub const MAX_HEAD: usize = 8 << 10;
/// The most headers in a head.
const MAX_HEADERS: usize = 48;

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// A session.
    Connect,
    /// That the way on is connected already, for the session that follows with the same id: the
    /// parallel trigger of CAS-5.
    Prepare,
    /// A session that survives the nodes on its way: what follows are frames, which the client and the last node
    /// understand. A method of its own, so that a node that does not know of them refuses it.
    Session,
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Method::Connect => "CONNECT",
            Method::Session => "SESSION",
            Method::Prepare => "PREPARE",
        }
    }
}

/// How the nodes of a route are told of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetUp {
    /// All at the same time, by whoever begins.
    #[default]
    Parallel,
    /// Each by the one before it.
    Sequential,
}

/// Names a session to all nodes on its route: random, so that nobody guesses one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId(pub u128);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Which session is meant of those that survive the nodes on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    /// What nobody guesses, and only who has it may go on with the session.
    pub key: SessionId,
    /// The session is there, and all below this offset has been received of what it sends back. `None`: it begins.
    pub from: Option<u64>,
}

impl fmt::Display for Resume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.key)?;
        self.from.map_or(Ok(()), |from| write!(f, "; from={from}"))
    }
}

/// How somebody says who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presented {
    /// Not at all: the certificate or the address must do.
    Nothing,
    /// `Bearer` (RFC 6750), for use over TLS only.
    Token(String),
    /// `Basic` (RFC 7617), for use over TLS only: what curl and browsers send.
    Password {
        /// The user's name.
        user: String,
        /// The user's token.
        password: String,
    },
    /// A signature of the request that is good once, for a short time, at one node.
    Signed(Signature),
}

/// A request for a session, as it is understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is wanted.
    pub method: Method,
    /// The end of the route.
    pub target: Endpoint,
    /// The nodes behind this one, the next first.
    pub via: Vec<Endpoint>,
    /// What a direction may hold here; the node's own choice if nothing is said.
    pub buffer: Option<Bytes>,
    /// How bytes go on.
    pub forwarding: Forwarding,
    /// How the nodes behind this one are told.
    pub set_up: SetUp,
    /// The session's name, if nodes were told of it already.
    pub session: Option<SessionId>,
    /// A PROXY header that the last node sends to the target first.
    pub send_proxy: Option<ProxyVersion>,
    /// Where the session comes from, as the first node saw it.
    pub client: Option<SocketAddr>,
    /// Which session it is: with [`Method::Session`], and only with that.
    pub resume: Option<Resume>,
}

impl Request {
    /// A session with a target and nothing special about it.
    pub fn connect(target: Endpoint) -> Request {
        Request {
            method: Method::Connect,
            target,
            via: Vec::new(),
            buffer: None,
            forwarding: Forwarding::Pipelined { wait_windows: 0 },
            set_up: SetUp::default(),
            session: None,
            send_proxy: None,
            client: None,
            resume: None,
        }
    }

    /// What is next: a node, or the target itself.
    pub fn next_hop(&self) -> &Endpoint {
        self.via.first().unwrap_or(&self.target)
    }

    /// The request line and our headers: what a signature covers.
    pub fn signed_part(&self, node: Option<SocketAddr>) -> String {
        use fmt::Write as _;
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method.name(), self.target);
        // Writing to a string does not fail.
        let mut add = |name: &str, value: &dyn fmt::Display| {
            let _ = write!(head, "shorthaul-{name}: {value}\r\n");
        };
        if !self.via.is_empty() {
            add("via", &List(&self.via));
        }
        if let Some(buffer) = self.buffer {
            add("buffer", &buffer.0);
        }
        match self.forwarding {
            Forwarding::Pipelined { wait_windows: 0 } => {}
            Forwarding::Pipelined { wait_windows } => add("forward", &format_args!("wait={wait_windows}")),
            Forwarding::Store => add("forward", &"store"),
        }
        if self.set_up == SetUp::Sequential {
            add("set-up", &"sequential");
        }
        if let Some(session) = self.session {
            add("session", &session);
        }
        if let Some(version) = self.send_proxy {
            add("send-proxy", &version);
        }
        if let Some(client) = self.client {
            add("client", &client);
        }
        if let Some(resume) = self.resume {
            add("resume", &resume);
        }
        if let Some(node) = node {
            add("node", &node);
        }
        head
    }

    /// The whole head. `authorization` is the value of `Proxy-Authorization`, if there is to be one.
    pub fn to_head(&self, node: Option<SocketAddr>, authorization: Option<&str>) -> Vec<u8> {
        let mut head = self.signed_part(node);
        head.push_str(&format!("Host: {}\r\n", self.target));
        if let Some(authorization) = authorization {
            head.push_str(&format!("Proxy-Authorization: {authorization}\r\n"));
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

/// A request that was read, and what was said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// What is wanted.
    pub request: Request,
    /// Who asks.
    pub presented: Presented,
    /// The node that the request says it is for.
    pub node: Option<SocketAddr>,
    /// What a signature must cover, as it came.
    pub signed_part: Vec<u8>,
    /// How long the head was; the session's first bytes may follow it.
    pub len: usize,
}

/// Why bytes are no request that can be answered with a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Not HTTP, or not as it must be.
    #[error("this is no HTTP/1.1 request: {0}")]
    Syntax(String),
    /// Longer than [`MAX_HEAD`], or too many headers.
    #[error("the head of the request is longer than {MAX_HEAD} bytes or {MAX_HEADERS} headers")]
    TooLong,
    /// Another method.
    #[error("`{0}` is not for a relay: it understands CONNECT host:port")]
    Method(String),
    /// A header that makes no sense.
    #[error("the header `{name}` is wrong: {reason}")]
    Header {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
}

/// Reads a request. `None`: the rest of the head is still to come.
///
/// # Errors
/// If no session can come of it, whatever follows.
pub fn read(bytes: &[u8]) -> Result<Option<ReadRequest>, RequestError> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let len = match parsed.parse(&bytes[..bytes.len().min(MAX_HEAD)]) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if bytes.len() >= MAX_HEAD => return Err(RequestError::TooLong),
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(RequestError::TooLong),
        Err(error) => return Err(RequestError::Syntax(error.to_string())),
    };
    let method = match parsed.method.unwrap_or_default() {
        "CONNECT" => Method::Connect,
        "PREPARE" => Method::Prepare,
        "SESSION" => Method::Session,
        other => return Err(RequestError::Method(other.chars().take(32).collect())),
    };
    let path = parsed.path.unwrap_or_default();
    let target: Endpoint =
        path.parse().map_err(|error| RequestError::Syntax(format!("the target {error}")))?;
    let mut read = ReadRequest {
        request: Request { method, ..Request::connect(target) },
        presented: Presented::Nothing,
        node: None,
        // The request line as it came, up to and with its end.
        signed_part: bytes[..len]
            .split_inclusive(|b| *b == b'\n')
            .find(|line| line.len() > 2)
            .map_or_else(Vec::new, <[u8]>::to_vec),
        len,
    };
    let mut seen: Vec<String> = Vec::new();
    for header in parsed.headers.iter() {
        let name = header.name.to_ascii_lowercase();
        let ours = name.starts_with("shorthaul-");
        if !ours && name != "proxy-authorization" {
            continue;
        }
        let wrong = |reason: String| RequestError::Header { name: name.clone(), reason };
        if seen.contains(&name) {
            return Err(wrong("it is there twice".into()));
        }
        let value = std::str::from_utf8(header.value).map_err(|_| wrong("it is no text".into()))?.trim();
        if ours {
            read.signed_part.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        apply(&mut read, &name, value).map_err(wrong)?;
        seen.push(name);
    }
    let Request { method, resume, forwarding, .. } = read.request;
    let wrong =
        |reason: &str| RequestError::Header { name: "shorthaul-resume".into(), reason: reason.into() };
    if (method == Method::Session) != resume.is_some() {
        return Err(wrong("it is for SESSION, and that has it"));
    }
    if resume.is_some() && forwarding != (Forwarding::Pipelined { wait_windows: 0 }) {
        return Err(wrong("such a session goes on as it comes: without Shorthaul-Forward"));
    }
    Ok(Some(read))
}

fn apply(read: &mut ReadRequest, name: &str, value: &str) -> Result<(), String> {
    let request = &mut read.request;
    match name {
        "shorthaul-via" => {
            for hop in value.split(',').map(str::trim).filter(|hop| !hop.is_empty()) {
                if request.via.len() == MAX_HOPS {
                    return Err(format!("it names more than {MAX_HOPS} nodes"));
                }
                request.via.push(hop.parse().map_err(|error| format!("{error}"))?);
            }
        }
        "shorthaul-buffer" => {
            request.buffer = Some(Bytes(value.parse().map_err(|_| "it is a number of bytes".to_owned())?));
        }
        "shorthaul-forward" => {
            let windows = value.strip_prefix("wait=").and_then(|number| number.parse().ok());
            request.forwarding = match (value, windows) {
                ("store", _) => Forwarding::Store,
                (_, Some(wait_windows)) if wait_windows <= 1000 => Forwarding::Pipelined { wait_windows },
                _ => return Err("it is `store`, or `wait=` and up to 1000 round trips".into()),
            };
        }
        "shorthaul-set-up" => {
            request.set_up = match value {
                "parallel" => SetUp::Parallel,
                "sequential" => SetUp::Sequential,
                _ => return Err("it is `parallel` or `sequential`".into()),
            };
        }
        "shorthaul-session" => {
            let id = from_hex(value).ok_or("it is 32 hexadecimal digits")?;
            request.session = Some(SessionId(u128::from_be_bytes(id)));
        }
        "shorthaul-resume" => {
            let (key, from) = match value.split_once(';') {
                Some((key, from)) => (key.trim(), Some(from.trim())),
                None => (value, None),
            };
            let key = from_hex(key).ok_or("it begins with 32 hexadecimal digits")?;
            let from = from.map(|from| from.strip_prefix("from=").and_then(|from| from.parse().ok()));
            if from == Some(None) {
                return Err("behind the key there is `; from=` and a number of bytes".into());
            }
            request.resume = Some(Resume { key: SessionId(u128::from_be_bytes(key)), from: from.flatten() });
        }
        "shorthaul-send-proxy" => request.send_proxy = Some(value.parse()?),
        "shorthaul-client" => {
            request.client = Some(value.parse().map_err(|_| "it is an address and a port".to_owned())?);
        }
        "shorthaul-node" => {
            read.node = Some(value.parse().map_err(|_| "it is an address and a port".to_owned())?);
        }
        "proxy-authorization" => read.presented = presented(value)?,
        // What a later version may say, and what this one need not know.
        _ => {}
    }
    Ok(())
}

fn presented(value: &str) -> Result<Presented, String> {
    let (scheme, rest) = value.split_once(' ').unwrap_or((value, ""));
    let rest = rest.trim();
    match scheme.to_ascii_lowercase().as_str() {
        "bearer" => Ok(Presented::Token(rest.to_owned())),
        "basic" => {
            let text = BASE64.decode(rest.as_bytes()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let (user, password) = text
                .as_deref()
                .and_then(|text| text.split_once(':'))
                .ok_or("`Basic` is followed by user:token in base64")?;
            Ok(Presented::Password { user: user.into(), password: password.into() })
        }
        "shorthaul" => rest.parse().map(Presented::Signed).map_err(|error: SignatureError| error.to_string()),
        _ => Err("a node knows `Bearer`, `Basic` and `Shorthaul`".into()),
    }
}

struct List<'a>(&'a [Endpoint]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .enumerate()
            .try_for_each(|(at, hop)| write!(f, "{}{hop}", if at > 0 { ", " } else { "" }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Request {
        Request {
            via: vec!["b:7080".parse().unwrap(), "[::1]:7081".parse().unwrap()],
            buffer: Some(Bytes(65536)),
            forwarding: Forwarding::Pipelined { wait_windows: 16 },
            set_up: SetUp::Sequential,
            session: Some(SessionId(7)),
            send_proxy: Some(ProxyVersion::V2),
            client: Some("192.0.2.7:99".parse().unwrap()),
            ..Request::connect("example.org:443".parse().unwrap())
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let node = Some("10.0.0.1:7080".parse().unwrap());
        let mut bytes = full().to_head(node, Some("Bearer abc"));
        let len = bytes.len();
        bytes.extend_from_slice(b"early data");
        let read = read(&bytes).unwrap().unwrap();
        assert_eq!(read.request, full());
        assert_eq!((read.presented, read.node, read.len), (Presented::Token("abc".into()), node, len));
        assert_eq!(String::from_utf8(read.signed_part).unwrap(), full().signed_part(node));
        for end in 0..len {
            assert_eq!(super::read(&bytes[..end]), Ok(None), "{end}");
        }
    }

    #[test]
    fn sessions_that_move_have_a_key() {
        for from in [None, Some(0), Some(u64::MAX)] {
            let resume = Some(Resume { key: SessionId(u128::MAX >> 9), from });
            let request =
                Request { method: Method::Session, resume, ..Request::connect("a:1".parse().unwrap()) };
            assert_eq!(read(&request.to_head(None, None)).unwrap().unwrap().request, request);
        }
        let key = "0123456789abcdef0123456789abcdef";
        for (method, headers) in [
            ("SESSION", String::new()),
            ("CONNECT", format!("Shorthaul-Resume: {key}\r\n")),
            ("SESSION", "Shorthaul-Resume: 0123\r\n".into()),
            ("SESSION", format!("Shorthaul-Resume: {key}; from=-1\r\n")),
            ("SESSION", format!("Shorthaul-Resume: {key}; to=1\r\n")),
            ("SESSION", format!("Shorthaul-Resume: {key}\r\nShorthaul-Forward: store\r\n")),
        ] {
            let head = format!("{method} a:1 HTTP/1.1\r\n{headers}\r\n");
            assert!(matches!(read(head.as_bytes()), Err(RequestError::Header { .. })), "{head}");
        }
    }

    #[test]
    fn curl_is_understood() {
        let head =
            b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\nProxy-Authorization: Basic \
            YWxpY2U6c2VjcmV0\r\nUser-Agent: curl/8\r\nProxy-Connection: Keep-Alive\r\n\r\n";
        let read = read(head).unwrap().unwrap();
        assert_eq!(read.request, Request::connect("example.org:443".parse().unwrap()));
        let expected = Presented::Password { user: "alice".into(), password: "secret".into() };
        assert_eq!(read.presented, expected);
    }

    #[test]
    fn bombs_are_refused() {
        let mut long = b"CONNECT a:1 HTTP/1.1\r\nX: ".to_vec();
        long.resize(MAX_HEAD, b'a');
        assert_eq!(read(&long), Err(RequestError::TooLong));
        let many = format!("CONNECT a:1 HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(MAX_HEADERS + 1));
        assert_eq!(read(many.as_bytes()), Err(RequestError::TooLong));
        let hops = format!("CONNECT a:1 HTTP/1.1\r\nShorthaul-Via: {}\r\n\r\n", "b:1,".repeat(9));
        assert!(matches!(read(hops.as_bytes()), Err(RequestError::Header { .. })));
        for wrong in [
            "GET / HTTP/1.1\r\n\r\n",
            "CONNECT nowhere HTTP/1.1\r\n\r\n",
            "CONNECT a:1 HTTP/1.1\r\nShorthaul-Buffer: lots\r\n\r\n",
            "CONNECT a:1 HTTP/1.1\r\nShorthaul-Buffer: 1\r\nShorthaul-Buffer: 2\r\n\r\n",
            "CONNECT a:1 HTTP/1.1\r\nProxy-Authorization: Digest x\r\n\r\n",
            "\x16\x03\x01 tls",
        ] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
