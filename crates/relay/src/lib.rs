//! The relay network on the kernel's TCP: a connection comes in, another goes on, and bytes are moved
//! from one to the other within the kernel. And what it takes to find out whether a relay would help:
//! the round-trip time, loss and rate of the way to a peer.
//!
//! Reading order: [`Endpoint`] and [`Route`], [`request`] and [`answer`] (what is said to a node, and
//! what it says), `sign`, `seen`, `secret`, `private`, [`authority`], `validity`, `policy` and `account` (who may do what), `socket` and `pump` (legs,
//! and bytes between them), `links` (connecting onward), [`Node`] (accepting), [`Client`]; [`Echo`] and
//! [`measure()`]; [`discovery`] (finding nodes); [`learning`] (which way to take, by what came of former sessions).

#![forbid(unsafe_code)]

mod accept;
mod account;
pub mod answer;
pub mod authority;
mod client;
pub mod discovery;
mod echo;
mod giving_back;
pub mod learning;
mod links;
mod measure;
mod node;
mod policy;
mod private;
mod progress;
pub mod proxy_header;
mod pump;
pub mod request;
mod resume;
mod route;
mod secret;
mod seen;
mod sign;
mod socket;
mod status;
mod take_over;
mod throttle;
mod validity;

pub use account::{Account, Limits};
pub use answer::{Answer, Failure, HopStatus, Refusal};
pub use client::{
    Client, ClientOptions, GoesOn, LocalConfig, LocalError, LocalProxy, MoveOptions, OnMove, OpenError,
    Service, Session,
};
pub use echo::Echo;
pub use links::{Credentials, LinkError, LinkOptions, Links, NODE_ANSWERS, NameService, Protection};
pub use measure::{MeasureError, MeasureOptions, Measurement, measure};
pub use node::{
    Node, NodeConfig, NodeError, NodeHandle, RelayConfig, Settings, SettingsError, Snapshot, User,
    UserSnapshot, metrics_of_everything, network,
};
pub use policy::DestinationPolicy;
pub use private::read_private;
pub use proxy_header::{ProxyHeader, ProxyVersion};
pub use pump::Forwarding;
pub use route::{
    Endpoint, EndpointError, FixedRoute, MAX_HOPS, Outcome, Route, RouteForecast, RouteProvider,
};
pub use secret::{Identity, NetworkSecret, SecretError};
pub use seen::Seen;
pub use shorthaul_os::confine::{ConfineError, Confined, Confinement, Extent};
pub use sign::Signature;
pub use status::NodeStatus;
pub use take_over::{Control, Former, Inherited, Listening, TakeOverError};
