//! The live loop: the gateway's machine between two TUN devices.
//!
//! Reading order: [`sys`] (devices, netlink, signals), [`BufferPool`], [`EventLoop`] (one `now` a
//! round), [`Routes`] (what is sent into the devices), [`Journal`] (what survives a crash),
//! [`Config`], [`run_gateway`].

mod config;
mod daemon;
mod event_loop;
mod forwarder;
mod journal;
mod pool;
mod routes;
pub mod sys;

pub use config::{Config, ConfigError, Leg, Memory};
pub use daemon::{Controlled, DaemonError, control_path, run_forwarder, run_gateway};
pub use event_loop::{Driven, EventLoop, LoopStats};
pub use forwarder::Forwarder;
pub use journal::Journal;
pub use pool::BufferPool;
pub use routes::{Interception, Routes};
