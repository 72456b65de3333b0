//! What an endpoint does, one behaviour a script, from the examples and rules of the RFCs.

mod acks;
mod close;
mod ecn;
mod fast_start;
mod handshake;
mod idle;
mod loss;
mod path_mtu;
mod probing;
mod rate_report;
mod reset;
mod sack;
mod script;
mod states;
mod timestamps;
mod window;

use script::Script;
use shorthaul_congestion::{Algorithm, RttConfig};
use shorthaul_tcp::{
    AckPolicy, ConnectionConfig, Discrimination, LossDetection, RateReporting, SenderProfile, Starting,
};
use std::time::Duration;

/// A host that offers no option but its segment size, acknowledges every second segment or after
/// 40 ms, sends ten segments first, is neither paced nor polite about small segments, and whose
/// retransmission timer waits for a second at least.
fn plain() -> ConnectionConfig {
    ConnectionConfig {
        profile: SenderProfile {
            name: "plain",
            congestion: Algorithm::Reno,
            loss_detection: LossDetection::RACK_TLP,
            discriminator: Discrimination::EVERY_LOSS,
            f_rto: false,
            undo: true,
            persist_on_shrink: false,
            rttm: false,
            rate_report: RateReporting::NONE,
            black_hole_probing: false,
            pacing: false,
            ack: AckPolicy::Delayed { wait: Duration::from_millis(40), quick: 0 },
            rto: RttConfig::RFC6298,
            sack: false,
            timestamps: false,
            window_scaling: false,
            ecn: false,
            initial_window: 10,
            initial_ssthresh: None,
            window_validation: true,
            idle_restart: true,
            start: Starting::SLOW,
            nagle: false,
        },
        ..ConnectionConfig::default()
    }
}

/// The same with one thing changed.
fn plain_but(change: impl FnOnce(&mut SenderProfile)) -> ConnectionConfig {
    let mut config = plain();
    change(&mut config.profile);
    config
}
