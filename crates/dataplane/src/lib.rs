//! The live loop: the gateway's machine between two TUN devices, and an endpoint behind one.
//!
//! Reading order: [`Driver`] (bytes into a machine
//! and out of it), [`EventLoop`] (one `now` a round), [`Routes`] (what is sent into the devices), `attach` and `bridge` (the same
//! by programs at interfaces),
//! [`Journal`] (what survives a crash), [`Recorder`] and [`replay()`] (a live run, again), [`Config`],
//! [`run_gateway`], [`Steering`] (which of several workers has a host) and `crew` (the workers beside the first), [`keep()`]. [`HostLoop`] is for the other kind of machine: an endpoint behind one device.

#![forbid(unsafe_code)]

mod activation;
mod attach;
mod bandwidth;
mod behind;
mod bridge;
mod config;
mod control;
mod crew;
mod daemon;
mod daemon_error;
mod desk;
mod doctor;
mod driver;
mod event_loop;
mod exchange;
mod flow_json;
mod forwarder;
mod host;
mod host_loop;
mod journal;
mod journal_cells;
mod journal_files;
mod keeper;
mod leading;
mod notice;
mod preflight;
mod priority;
mod record;
mod replay;
mod request;
mod reread;
mod rounds;
mod routes;
mod steering;
mod take_over;
mod vanished;

pub use attach::{AttachError, Way};
pub use bandwidth::{BandwidthReport, ParseBandwidthError};
pub use bridge::BridgeError;
pub use config::{Attach, Config, ConfigError, Memory, Name, number_of_workers, routing_table};
pub use control::control_path;
pub use daemon::{Giving, ReadAgain, run_forwarder, run_gateway};
pub use daemon_error::DaemonError;
pub use desk::Controlled;
pub use doctor::{Finding, Health, examine};
pub use driver::{Driven, Driver, Outlet};
pub use event_loop::{EventLoop, LoopStats};
pub use forwarder::Forwarder;
pub use host_loop::HostLoop;
pub use journal::{Former, Journal};
pub use keeper::{Estate, keep};
pub use notice::Notice;
pub use preflight::{LargerMtu, check_gateway, remove_remains};
pub use priority::{Granted, Priority, prepare_promptly};
pub use record::{Mark, Recorder, Session};
pub use replay::{Difference, Output, Replay, ReplayError, replay};
pub use request::Request;
pub use routes::{Interception, RouteError, Routes};
pub use steering::Steering;
pub use take_over::Last;
