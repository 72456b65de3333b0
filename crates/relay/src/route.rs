use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use shorthaul_planner::ways::Believed;
use shorthaul_types::Bytes;

/// Most nodes on a route: a request that names more is refused.
pub const MAX_HOPS: usize = 8;

/// A host, by name or address, and a port: a node or the end of a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    host: String,
    port: u16,
}

/// Why a text is no [`Endpoint`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no host:port, such as `node.example:7080`, `192.0.2.1:7080` or `[2001:db8::1]:7080`")]
pub struct EndpointError {
    text: String,
}

impl Endpoint {
    /// The host: a name, or an address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address, if the host is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.host.parse().ok().map(|ip| SocketAddr::new(ip, self.port))
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Endpoint { host: address.ip().to_string(), port: address.port() }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let error = || EndpointError { text: text.chars().take(300).collect() };
        let (host, port) = text.rsplit_once(':').ok_or_else(error)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(error)?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match bracketed {
            Some(host) if host.parse::<std::net::Ipv6Addr>().is_ok() => host,
            Some(_) => return Err(error()),
            None => host,
        };
        // RFC 1035 §2.3.4 allows 255 bytes; RFC 952 and practice letters, digits, `-`, `_` and dots.
        let is_name = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
        let fits = !host.is_empty() && host.len() <= 255;
        if !fits || (bracketed.is_none() && !host.bytes().all(is_name)) {
            return Err(error());
        }
        Ok(Endpoint { host: host.to_ascii_lowercase(), port })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A way to a destination: the nodes on it, the first first. None of them is the direct way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Route {
    /// The nodes, from the client's side on; at most [`MAX_HOPS`].
    pub hops: Vec<Endpoint>,
    /// What is expected of it, if anybody knows.
    pub forecast: Option<RouteForecast>,
    /// What was believed of it when it was chosen, by whoever learns of sessions.
    pub believed: Option<Arc<Believed>>,
}

impl Route {
    /// Without any node.
    pub fn direct() -> Route {
        Route::default()
    }

    /// By way of some nodes.
    pub fn via(hops: Vec<Endpoint>) -> Route {
        Route { hops, ..Route::default() }
    }

    /// Whether no node is on it.
    pub fn is_direct(&self) -> bool {
        self.hops.is_empty()
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_direct() {
            return f.write_str("direct");
        }
        for (at, hop) in self.hops.iter().enumerate() {
            write!(f, "{}{hop}", if at > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

/// What is expected of a route.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RouteForecast {
    /// Throughput of a long transfer, in bit/s.
    pub throughput: f64,
    /// The time until the first byte is delivered.
    pub set_up: Duration,
}

/// What came of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Where it led.
    pub destination: Endpoint,
    /// The way that it began by.
    pub route: Route,
    /// What the application gave.
    pub given: Bytes,
    /// What came back.
    pub received: Bytes,
    /// How long it took to have it.
    pub set_up: Duration,
    /// How long bytes moved after that, without the application's pauses.
    pub busy: Duration,
    /// How often the application paused.
    pub pauses: u32,
    /// Whether it was said when what the application gave had arrived.
    pub has_arrived: bool,
    /// The shortest round trip of the first leg, if the kernel knows it.
    pub near: Option<Duration>,
    /// How long each node took to connect to the next, or to the destination.
    pub far: Vec<Duration>,
    /// The share of segments that were lost of those that we sent; `None` if they were few.
    pub loss: Option<f64>,
    /// Whether it went on by another way.
    pub has_moved: bool,
}

/// Who knows ways to destinations: a list, discovery, a directory.
pub trait RouteProvider: Send + Sync {
    /// The ways to a destination, the best first; the direct one is among them where it ranks. Nothing
    /// at all means that nobody answered: go directly. It answers from what is known already wherever it
    /// can, for the session waits.
    fn routes<'a>(
        &'a self,
        destination: &'a Endpoint,
    ) -> Pin<Box<dyn Future<Output = Vec<Route>> + Send + 'a>>;

    /// The ways for a session that is there, and may move: what is expected to be best, and nothing tried out.
    fn routes_to_move<'a>(
        &'a self,
        destination: &'a Endpoint,
    ) -> Pin<Box<dyn Future<Output = Vec<Route>> + Send + 'a>> {
        self.routes(destination)
    }

    /// A session for which `chosen` was the first of the ways goes by `taken`, or by none: it did not come about. It must not block.
    fn goes_by(&self, _chosen: &Route, _taken: Option<&Route>) {}

    /// What came of a session by one of the ways. It must not block.
    fn learn(&self, _outcome: Outcome) {}

    /// Whether the next way is taken even where a node was not believed, or did not believe us. Otherwise that is the
    /// end: somebody may stand in the way who wants the session to go without the nodes.
    fn goes_on_unbelieved(&self) -> bool {
        false
    }
}

/// One way to everywhere, with others behind it, and the direct way last if that is allowed.
#[derive(Clone, Debug)]
pub struct FixedRoute {
    route: Route,
    others: Vec<Route>,
    or_direct: bool,
}

impl FixedRoute {
    /// Always this route.
    pub fn only(route: Route) -> FixedRoute {
        FixedRoute { route, others: Vec::new(), or_direct: false }
    }

    /// This route, or the direct way when it fails.
    pub fn or_direct(route: Route) -> FixedRoute {
        FixedRoute { route, others: Vec::new(), or_direct: true }
    }

    /// These, in this order, when it fails.
    #[must_use]
    pub fn or(mut self, others: Vec<Route>) -> FixedRoute {
        self.others.extend(others);
        self
    }
}

impl RouteProvider for FixedRoute {
    fn routes<'a>(
        &'a self,
        _destination: &'a Endpoint,
    ) -> Pin<Box<dyn Future<Output = Vec<Route>> + Send + 'a>> {
        let mut routes = vec![self.route.clone()];
        routes.extend_from_slice(&self.others);
        if self.or_direct && !self.route.is_direct() {
            routes.push(Route::direct());
        }
        Box::pin(std::future::ready(routes))
    }

    fn goes_on_unbelieved(&self) -> bool {
        self.or_direct
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_reads_as_it_is_written() {
        for text in ["node.example:7080", "192.0.2.1:1", "[2001:db8::1]:65535", "a_b-c:22"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        assert_eq!("[::1]:80".parse::<Endpoint>().unwrap().address(), Some("[::1]:80".parse().unwrap()));
        for wrong in
            ["", "a", ":80", "a:", "a:0", "a:65536", "::1:80", "[a]:80", "[::1]", "a b:80", "a\r\n:80"]
        {
            assert!(wrong.parse::<Endpoint>().is_err(), "{wrong}");
        }
    }
}
