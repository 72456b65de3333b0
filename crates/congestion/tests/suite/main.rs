//! Congestion controls, estimators and pacing, seen from outside.

mod auto_clamp;
mod bbr;
mod bbr_loop;
mod bottleneck;
mod closed_loop;
mod cubic;
mod delivery_rate;
mod hystart;
mod illinois;
mod invariants;
mod pacer;
mod path;
mod reno;
mod rtt;
