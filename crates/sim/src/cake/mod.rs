//! CAKE, common applications kept enhanced: what people put before a slow link today, as a model to compare with.
//!
//! The sources are "Piece of CAKE: A Comprehensive Queue Management Solution for Home Gateways" (Høiland-Jørgensen, Täht, Morton; LANMAN
//! 2018, arXiv:1804.07617), tc-cake(8), and how Linux's `sch_cake` behaves. What is here: the shaper in deficit mode with overhead, and with
//! `ingress`; flow isolation by DRR++ over an 8-way set-associative hash, with priority for sparse flows; host isolation; COBALT; drops
//! from the longest queue beyond the memory. What is not: tins by DSCP (all is best effort), the ACK filter, ATM cells. Memory is counted
//! as bytes of packets, where the kernel counts what its buffers take.
//!
//! Reading order: [`Cake`] (the queue); `table` (which flow waits where, and which flows a host has); `cobalt` (what is dropped or marked);
//! [`Controller`] (cake-autorate, which sets its rate).
mod autorate;
mod cobalt;
mod queue;
mod table;

pub(crate) use autorate::{Controller, MONITOR_INTERVAL, PING_INTERVAL, PINGERS};
pub(crate) use queue::Cake;
