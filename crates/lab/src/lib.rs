//! Hosts as network namespaces, links emulated between them, workloads on real kernels.
//!
//! Reading order: [`Topology`] (what there is to be; in TOML or in code), [`Plan`] (addresses and routes
//! decided), [`Privilege`] (what the machine must allow), [`Lab`] (all of it running), [`Host`] (where
//! programs and closures run), [`LinkHandle`] (what a link does, live) and [`watch()`], [`Child`] (a
//! program that is waited for), [`GatewayProcess`] and [`RelayChain`] (our own), [`workload`] (transfers over kernel
//! sockets), [`accuracy`] (how exact the emulator is on this machine).
//!
//! Nothing here shells out or leaves anything behind: namespaces, devices and processes vanish with the
//! process that made them, however it ends.

#![forbid(unsafe_code)]

pub mod accuracy;
mod capture;
mod child;
mod congestion_permission;
mod counters;
mod emulator;
mod error;
mod gateway_process;
mod host;
mod lab;
mod lateness;
mod link_handle;
mod plan;
mod privilege;
mod relay_process;
mod service;
mod summary;
mod topology;
mod topology_file;
mod watch;
pub mod workload;

pub use child::{Child, ChildError, Ready, Usage, is_installed};
pub use counters::TcpCounters;
pub use emulator::DirectionReport;
pub use error::LabError;
pub use gateway_process::{GatewayControl, GatewayProcess};
pub use host::{Guest, Host};
pub use lab::Lab;
pub use lateness::LatenessStats;
pub use link_handle::{LinkHandle, LinkReport};
pub use plan::{HostPlan, InterfacePlan, LinkPlan, Part, Plan, PlanError, RoutePlan};
pub use privilege::Privilege;
pub use relay_process::{RelayChain, RelayProcess, RelaySettings};
pub use service::Service;
pub use summary::link_in_words;
pub use topology::{HostDescription, LinkDescription, LinkKind, Suggestion, Topology};
pub use topology_file::TopologyError;
pub use watch::{Look, watch};
