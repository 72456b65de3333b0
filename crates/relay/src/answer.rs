//! The head of an answer, and what each node on the way says of itself in it: `Proxy-Status` (RFC 9209).
use crate::request::MAX_HEAD;
use crate::route::Endpoint;
use shorthaul_types::Bytes;
use std::fmt::{self, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

/// Why a node could not do what was asked: the error types of RFC 9209 §2.3 that a relay has use for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Failure {
    /// The name has no address, or its server does not answer.
    Dns,
    /// Nobody there is to be connected to from here.
    DestinationProhibited,
    /// There is no way there.
    Unroutable,
    /// It refused.
    ConnectionRefused,
    /// It did not answer.
    ConnectionTimeout,
    /// The connection ended before there was an answer.
    ConnectionTerminated,
    /// The next node's TLS is wrong.
    Tls,
    /// Its certificate is not one of those that are trusted.
    TlsCertificate,
    /// The way leads back to where it came from.
    LoopDetected,
    /// The node has as many sessions as it takes, or the user has.
    ConnectionLimit,
    /// The request makes no sense.
    RequestError,
    /// The one who asks may not.
    RequestDenied,
    /// Something else went wrong at the node.
    Internal,
}

impl Failure {
    const ALL: [Failure; 13] = [
        Failure::Dns,
        Failure::DestinationProhibited,
        Failure::Unroutable,
        Failure::ConnectionRefused,
        Failure::ConnectionTimeout,
        Failure::ConnectionTerminated,
        Failure::Tls,
        Failure::TlsCertificate,
        Failure::LoopDetected,
        Failure::ConnectionLimit,
        Failure::RequestError,
        Failure::RequestDenied,
        Failure::Internal,
    ];

    /// Its name in RFC 9209.
    pub fn name(self) -> &'static str {
        match self {
            Failure::Dns => "dns_error",
            Failure::DestinationProhibited => "destination_ip_prohibited",
            Failure::Unroutable => "destination_ip_unroutable",
            Failure::ConnectionRefused => "connection_refused",
            Failure::ConnectionTimeout => "connection_timeout",
            Failure::ConnectionTerminated => "connection_terminated",
            Failure::Tls => "tls_protocol_error",
            Failure::TlsCertificate => "tls_certificate_error",
            Failure::LoopDetected => "proxy_loop_detected",
            Failure::ConnectionLimit => "connection_limit_reached",
            Failure::RequestError => "http_request_error",
            Failure::RequestDenied => "http_request_denied",
            Failure::Internal => "proxy_internal_error",
        }
    }

    /// The status of the answer, as RFC 9209 recommends it for the error.
    pub fn status(self) -> u16 {
        match self {
            Failure::RequestError => 400,
            Failure::DestinationProhibited | Failure::RequestDenied => 403,
            Failure::Internal => 500,
            Failure::ConnectionLimit => 503,
            Failure::ConnectionTimeout => 504,
            _ => 502,
        }
    }
}

/// What one node says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HopStatus {
    /// The node's name.
    pub node: String,
    /// Where it connected to, or tried to.
    pub next_hop: Option<String>,
    /// What went wrong.
    pub error: Option<Failure>,
    /// More words about it.
    pub details: Option<String>,
    /// Its service time.
    pub service_time: Option<Duration>,
    /// What was reserved for a direction.
    pub buffer: Option<Bytes>,
    /// How long it took to connect to the next hop.
    pub connect_time: Option<Duration>,
    /// Of a session that can move: below which offset it has received all.
    pub received: Option<u64>,
    /// How long the node has been there, if that matters.
    pub up: Option<Duration>,
    /// The same may be asked again after so long, signed anew.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for HopStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(&self.node))?;
        if let Some(next_hop) = &self.next_hop {
            write!(f, ";next-hop={}", quoted(next_hop))?;
        }
        if let Some(error) = self.error {
            write!(f, ";error={}", error.name())?;
        }
        if let Some(details) = &self.details {
            write!(f, ";details={}", quoted(details))?;
        }
        if let Some(time) = self.service_time {
            write!(f, ";service-time={}", time.as_nanos() / 1000)?;
        }
        if let Some(buffer) = self.buffer {
            write!(f, ";buffer={}", buffer.0)?;
        }
        if let Some(time) = self.connect_time {
            write!(f, ";connect-time={}", time.as_micros())?;
        }
        if let Some(received) = self.received {
            write!(f, ";received={received}")?;
        }
        if let Some(up) = self.up {
            write!(f, ";up={}", up.as_millis())?;
        }
        if let Some(time) = self.retry_after {
            write!(f, ";retry-after={}", time.as_millis())?;
        }
        Ok(())
    }
}

/// A string of RFC 8941 §3.3.3: printable ASCII in quotation marks.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars().take(200) {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='~' => quoted.push(c),
            _ => quoted.push('?'),
        }
    }
    quoted.push('"');
    quoted
}

/// An answer: what the nodes say, the last of them first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The nodes, the one next to the target first (RFC 9209 §2).
    pub hops: Vec<HopStatus>,
}

impl Answer {
    /// Whether the session is there.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The node that failed, if one did.
    pub fn failed(&self) -> Option<&HopStatus> {
        self.hops.iter().find(|hop| hop.error.is_some())
    }

    /// Why there is no session, as the first of the nodes of a way says it, which were asked for by these names.
    pub(crate) fn into_refusal(self, hops: &[Endpoint]) -> Refusal {
        if let Some(at) = self.hops.iter().position(|hop| hop.error.is_some()) {
            let mut hop = self.hops[at].clone();
            // One without a name calls itself by the address that it listens at, by which nobody knows it.
            let asked = hops.get(self.hops.len() - 1 - at);
            if let Some(asked) = asked.filter(|_| hop.node.parse::<SocketAddr>().is_ok()) {
                hop.node = asked.to_string();
            }
            return Refusal { failure: hop.error.unwrap_or(Failure::Internal), hop: Box::new(hop) };
        }
        let (failure, details) = match self.status {
            407 => (Failure::RequestDenied, "it wants to know who asks: give --secret, or --user".into()),
            status => (Failure::Internal, format!("it answers {status}, and not why")),
        };
        let first = hops.first().map_or_else(|| "the first node".to_owned(), Endpoint::to_string);
        Refusal::at(&first, failure, details)
    }

    /// The whole head.
    pub fn to_head(&self) -> Vec<u8> {
        let reason = match self.status {
            200 => "Connection established",
            204 => "Prepared",
            400 => "Bad Request",
            403 => "Forbidden",
            405 => "Method Not Allowed",
            407 => "Proxy Authentication Required",
            500 => "Internal Server Error",
            502 => "Bad Gateway",
            503 => "Service Unavailable",
            504 => "Gateway Timeout",
            _ => "Answer",
        };
        let mut head = format!("HTTP/1.1 {} {reason}\r\n", self.status);
        for (at, hop) in self.hops.iter().enumerate() {
            // Writing to a string does not fail.
            let _ = write!(head, "{}{hop}", if at == 0 { "Proxy-Status: " } else { ", " });
        }
        if !self.hops.is_empty() {
            head.push_str("\r\n");
        }
        if self.status == 407 {
            head.push_str("Proxy-Authenticate: Basic realm=\"shorthaul\"\r\n");
        }
        if !self.is_success() {
            head.push_str("Content-Length: 0\r\nConnection: close\r\n");
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

/// Why bytes are no answer of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// Not HTTP.
    #[error("this is no HTTP/1.1 answer: {0}")]
    Syntax(String),
    /// Longer than [`MAX_HEAD`].
    #[error("the head of the answer is longer than {MAX_HEAD} bytes")]
    TooLong,
}

/// Reads an answer, and how long its head is. `None`: the rest is still to come.
///
/// # Errors
/// If it is none, whatever follows. What cannot be understood of `Proxy-Status` is left out.
pub fn read(bytes: &[u8]) -> Result<Option<(Answer, usize)>, AnswerError> {
    let mut headers = [httparse::EMPTY_HEADER; 48];
    let mut parsed = httparse::Response::new(&mut headers);
    let len = match parsed.parse(&bytes[..bytes.len().min(MAX_HEAD)]) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if bytes.len() >= MAX_HEAD => return Err(AnswerError::TooLong),
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(AnswerError::Syntax(error.to_string())),
    };
    let mut hops = Vec::new();
    for header in parsed.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("proxy-status")) {
        if let Ok(value) = std::str::from_utf8(header.value) {
            hops.extend(Members(value));
        }
    }
    Ok(Some((Answer { status: parsed.code.unwrap_or(0), hops }, len)))
}

/// The members of a list of RFC 8941 §4.2.1, as far as they can be read.
struct Members<'a>(&'a str);

impl Iterator for Members<'_> {
    type Item = HopStatus;

    fn next(&mut self) -> Option<HopStatus> {
        self.0 = self.0.trim_start_matches([' ', '\t', ',']);
        let mut hop = HopStatus { node: self.value()?, ..HopStatus::default() };
        loop {
            self.0 = self.0.trim_start();
            let Some(rest) = self.0.strip_prefix(';') else { break };
            self.0 = rest.trim_start();
            let end = self.0.find(['=', ';', ',']).unwrap_or(self.0.len());
            let name = &self.0[..end];
            self.0 = &self.0[end..];
            let Some(rest) = self.0.strip_prefix('=') else { continue };
            self.0 = rest;
            let value = self.value()?;
            let number = || value.parse::<u64>().ok();
            match name {
                "next-hop" => hop.next_hop = Some(value),
                "details" => hop.details = Some(value),
                "error" => {
                    let known = Failure::ALL.into_iter().find(|failure| failure.name() == value);
                    hop.error = Some(known.unwrap_or(Failure::Internal));
                }
                "service-time" => hop.service_time = number().map(Duration::from_micros),
                "buffer" => hop.buffer = number().map(Bytes),
                "connect-time" => hop.connect_time = number().map(Duration::from_micros),
                "received" => hop.received = number(),
                "up" => hop.up = number().map(Duration::from_millis),
                "retry-after" => hop.retry_after = number().map(Duration::from_millis),
                _ => {}
            }
        }
        Some(hop)
    }
}

impl Members<'_> {
    /// A string, a token or a number, without its quotation marks.
    fn value(&mut self) -> Option<String> {
        let Some(rest) = self.0.strip_prefix('"') else {
            let end = self.0.find([';', ',', ' ']).unwrap_or(self.0.len());
            let (value, rest) = self.0.split_at(end);
            self.0 = rest;
            return (!value.is_empty()).then(|| value.to_owned());
        };
        let mut value = String::new();
        let mut chars = rest.char_indices();
        loop {
            match chars.next()? {
                (at, '"') => {
                    self.0 = &rest[at + 1..];
                    return Some(value);
                }
                (_, '\\') => value.push(chars.next()?.1),
                (_, c) => value.push(c),
            }
        }
    }
}

/// Why there is no session: where it failed, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What went wrong.
    pub failure: Failure,
    /// Where, and on the way to what.
    pub hop: Box<HopStatus>,
}

impl std::error::Error for Refusal {}

/// One sentence for people. Names of nodes and details come from others: nothing in them ends the line.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on_a_line = |text: &str| text.replace(char::is_control, " ");
        let node = on_a_line(&self.hop.node);
        let to = on_a_line(self.hop.next_hop.as_deref().unwrap_or("what is next"));
        // What the client itself finds needs no name of who found it.
        let (is_own, details) = (node == CLIENT, self.hop.details.as_deref().map(on_a_line));
        let seen_by = if is_own { String::new() } else { format!(", as {node} sees it") };
        let because = details.as_ref().map(|details| format!(": {details}")).unwrap_or_default();
        match self.failure {
            Failure::Dns => write!(f, "there is no address of {to}{seen_by}{because}"),
            Failure::DestinationProhibited => write!(f, "{node} may not go to {to}{because}"),
            Failure::Unroutable => write!(f, "no way leads to {to}{seen_by}"),
            Failure::ConnectionRefused => write!(f, "{to} refuses connections{seen_by}"),
            Failure::ConnectionTimeout => write!(f, "{to} does not answer{seen_by}{because}"),
            Failure::ConnectionTerminated => write!(f, "{to} broke the connection{seen_by}{because}"),
            Failure::Tls => write!(f, "{to} does not speak TLS as it must{seen_by}{because}"),
            Failure::TlsCertificate => write!(f, "{to} is not believed{seen_by}{because}"),
            Failure::LoopDetected => write!(f, "the way to {to} leads in a circle{seen_by}{because}"),
            Failure::ConnectionLimit => write!(f, "{node} takes no more{because}"),
            Failure::RequestError => write!(f, "{node} does not understand what is asked{because}"),
            Failure::RequestDenied => write!(f, "{node} does not let us in{because}"),
            Failure::Internal => write!(f, "{node} failed on the way to {to}{because}"),
        }
    }
}

/// What a client calls itself in what it says of failures.
pub const CLIENT: &str = "client";

impl Refusal {
    /// A failure at a node, or at the client itself.
    pub fn at(node: &str, failure: Failure, details: impl fmt::Display) -> Refusal {
        let details = Some(details.to_string()).filter(|details| !details.is_empty());
        let hop = HopStatus { node: node.into(), error: Some(failure), details, ..HopStatus::default() };
        Refusal { failure, hop: Box::new(hop) }
    }

    /// On the way to a next hop.
    pub fn toward(mut self, next: &Endpoint) -> Refusal {
        self.hop.next_hop = Some(next.to_string());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let answer = Answer {
            status: 502,
            hops: vec![
                HopStatus {
                    node: "c \"x\\\", y".into(),
                    next_hop: Some("[::1]:443".into()),
                    error: Some(Failure::ConnectionRefused),
                    details: Some("a; b".into()),
                    ..HopStatus::default()
                },
                HopStatus {
                    node: "a".into(),
                    service_time: Some(Duration::from_micros(12)),
                    buffer: Some(Bytes(4096)),
                    connect_time: Some(Duration::from_micros(3)),
                    received: Some(5),
                    up: Some(Duration::from_millis(7)),
                    retry_after: Some(Duration::from_millis(8)),
                    ..HopStatus::default()
                },
            ],
        };
        let mut bytes = answer.to_head();
        let len = bytes.len();
        bytes.push(b'x');
        assert_eq!(read(&bytes), Ok(Some((answer, len))));
        for end in 0..len {
            assert_eq!(read(&bytes[..end]), Ok(None));
        }
    }

    #[test]
    fn a_node_without_a_name_is_called_as_it_was_asked_for() {
        let hops = ["a.example:7080", "10.1.2.3:7080"].map(|hop| hop.parse::<Endpoint>().unwrap());
        let refused_by = |names: &[&str]| {
            let failed = HopStatus { error: Some(Failure::ConnectionRefused), ..HopStatus::default() };
            let others = std::iter::repeat(HopStatus::default());
            let said = std::iter::once(failed).chain(others).zip(names);
            let said = said.map(|(hop, name)| HopStatus { node: (*name).into(), ..hop });
            let answer = Answer { status: 502, hops: said.collect() };
            answer.into_refusal(&hops).hop.node
        };
        assert_eq!(refused_by(&["0.0.0.0:7080"]), "a.example:7080");
        assert_eq!(refused_by(&["[::]:7080", "first"]), "10.1.2.3:7080");
        assert_eq!(refused_by(&["paris"]), "paris");
        assert_eq!(refused_by(&["0.0.0.0:1", "more", "than", "asked"]), "0.0.0.0:1");
    }

    #[test]
    fn what_others_say_is_read_as_far_as_it_goes() {
        let head =
            b"HTTP/1.1 503 No\r\nProxy-Status: squid; error=future_error;x, \"cdn\"; next-hop=b.example\r\n\
            proxy-status: \"open\r\n\r\n";
        let (answer, _) = read(head).unwrap().unwrap();
        assert_eq!(answer.hops.len(), 2);
        assert_eq!(answer.failed().unwrap().node, "squid");
        assert_eq!(answer.hops[1].next_hop.as_deref(), Some("b.example"));
    }
}
