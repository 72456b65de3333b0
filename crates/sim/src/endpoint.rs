//! From a scenario's scheme to what the endpoint takes.
use shorthaul_scenario::Scheme;
use shorthaul_tcp::ConnectionConfig;
use shorthaul_types::Bytes;
use std::sync::Arc;

/// How a connection of a node with `scheme` works, on a link with this MTU.
pub(crate) fn connection_config(scheme: &Scheme, mtu: u32, buffers: Buffers) -> Arc<ConnectionConfig> {
    Arc::new(ConnectionConfig {
        profile: scheme.profile.clone(),
        send_buffer: buffers.send,
        receive_buffer: buffers.receive,
        autotuning: false,
        first_window: scheme.first_window,
        mss: scheme.mss.unwrap_or(mtu - 40),
        mtu,
        ..ConnectionConfig::default()
    })
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
