//! From a scenario's scheme to what the endpoint takes.
use shorthaul_scenario::{Ack, Scheme};
use shorthaul_tcp::{AckPolicy, ConnectionConfig, Profile, UnknownProfile};
use shorthaul_types::Bytes;
use std::sync::Arc;

/// How a connection of a node with `scheme` works, on a link with this MTU.
pub(crate) fn connection_config(
    scheme: &Scheme,
    mtu: u32,
    buffers: Buffers,
) -> Result<Arc<ConnectionConfig>, UnknownProfile> {
    let mut profile = Profile::named(&scheme.profile)?;
    set(&mut profile.control, scheme.congestion);
    set(&mut profile.arbiter, scheme.arbiter);
    set(&mut profile.pacing, scheme.pacing);
    set(&mut profile.sack, scheme.sack);
    set(&mut profile.timestamps, scheme.timestamps);
    set(&mut profile.window_scaling, scheme.window_scaling);
    set(&mut profile.ecn, scheme.ecn);
    set(&mut profile.initial_window, scheme.initial_window);
    set(&mut profile.rtt, scheme.rto);
    set(&mut profile.f_rto, scheme.f_rto);
    set(&mut profile.idle_restart, scheme.idle_restart);
    set(&mut profile.nagle, scheme.nagle);
    set(&mut profile.ack, scheme.ack.map(ack_policy));
    Ok(Arc::new(ConnectionConfig {
        profile,
        send_buffer: buffers.send,
        receive_buffer: buffers.receive,
        autotuning: false,
        mss: scheme.mss.unwrap_or(mtu - 40),
        mtu,
        ..ConnectionConfig::default()
    }))
}

/// What a connection holds at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffers {
    pub send: Bytes,
    pub receive: Bytes,
}

impl Buffers {
    pub fn of(scheme: &Scheme) -> Self {
        Buffers { send: scheme.send_buffer, receive: scheme.receive_buffer }
    }
}

/// How received data is acknowledged. A scenario that asks for delayed acknowledgments gets them from the
/// first segment on.
pub(crate) fn ack_policy(ack: Ack) -> AckPolicy {
    match ack {
        Ack::Immediate => AckPolicy::Immediate,
        Ack::Delayed(wait) => AckPolicy::Delayed { wait, quick: 0 },
    }
}

fn set<T>(to: &mut T, from: Option<T>) {
    if let Some(value) = from {
        *to = value;
    }
}
