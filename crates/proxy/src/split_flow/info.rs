//! What others see of a flow.
use super::{Direction, SplitFlow};
use crate::end::Side;
use crate::{FlowInfo, Gateway, LegInfo};
use shorthaul_types::{BufferTimes, Time};

impl SplitFlow {
    /// Whether this end is at the access side.
    pub(crate) fn is_at_access(&self, side: Side) -> bool {
        self.ends[side.index()].attachment == Gateway::ACCESS
    }

    /// What people see of it.
    pub fn info(&self, now: Time) -> FlowInfo {
        let closing = self.directions.iter().any(|d| d.receiver.is_finished());
        let state = match (self.draining, closing) {
            (true, _) => "draining",
            _ if self.is_unheard() => "inherited",
            (_, true) => "closing",
            _ => "split",
        };
        let watches = self.watches.as_deref();
        let legs = Side::BOTH.map(|side| {
            let Direction { receiver, sender, .. } = &self.directions[side.index()];
            let stats = sender.stats();
            LegInfo {
                control: sender.control().name(),
                window: sender.control().window(),
                ssthresh: sender.control().ssthresh(),
                in_flight: sender.in_flight(),
                buffered: sender.queue().len() + receiver.allocated() as u64,
                srtt: sender.rtt().srtt(),
                min_rtt: sender.rtt().min_rtt(),
                mss: sender.mss(),
                peer_window: sender.peer_window(),
                delivered: sender.una().saturating_sub(1),
                retransmitted: stats.retransmitted,
                timeouts: u64::from(stats.timeouts),
                buffer: watches.map_or_else(BufferTimes::default, |watches| watches[side.index()].times(now)),
            }
        });
        FlowInfo {
            key: self.key,
            state,
            client_at_access: self.is_at_access(Side::Client),
            policy: 0,
            age: now.saturating_since(self.opened),
            legs: Some(legs),
            observed: None,
        }
    }
}
