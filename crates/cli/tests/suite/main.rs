//! The command line as its users run it.

mod cluster;
mod conformance;
mod demo;
mod discover;
mod endpoint;
mod errors;
mod gateway;
mod lab;
mod live;
mod mixed;
mod monitor;
mod node_exchanged;
mod node_process;
mod plan;
mod policies;
mod program;
mod relay_faults;
mod relay_tools;
mod relays;
mod replay;
mod routes;
mod run;
mod schemas;
mod transparent;
mod tutorial;
mod whole_link;
