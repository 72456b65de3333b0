//! Relays on the kernel's TCP: a connection comes in, another goes on, and bytes are moved from one to
//! the other within the kernel. And what it takes to find out whether a relay would help: the
//! round-trip time, loss and rate of the way to a peer.
//!
//! Reading order: [`Relay`] (accepting, and going on), `session` (one connection and its other half),
//! [`Echo`] (what a measurement talks to), [`measure()`], [`discovery`] (finding relays).
pub mod discovery;
mod echo;
mod measure;
mod relay;
mod route;
mod session;
mod status;
mod sys;

pub use echo::Echo;
pub use measure::{MeasureError, MeasureOptions, Measurement, measure};
pub use relay::{Forwarding, Relay, RelayConfig, RelayError, RelayStats};
pub use route::{Endpoint, EndpointError, FixedRoute, MAX_HOPS, Route, RouteForecast, RouteProvider};
pub use status::NodeStatus;
pub use sys::window::limit_window;
