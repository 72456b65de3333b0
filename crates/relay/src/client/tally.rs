//! What came of a session, told to whoever knows ways when it ends.
use crate::answer::HopStatus;
use crate::progress::{Progress, Sum};
use crate::route::{Endpoint, Outcome, Route, RouteProvider};
use crate::socket::Socket;
use shorthaul_os::TcpInfo;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Of fewer segments, the share that was lost says little.
const SEGMENTS: u32 = 100;

/// Counts a session, and tells of it when it is dropped.
pub(crate) struct Tally {
    routes: Arc<dyn RouteProvider>,
    /// The first leg that it had.
    socket: Socket,
    destination: Endpoint,
    route: Route,
    far: Vec<Duration>,
    set_up: Duration,
    pub progress: Progress,
    /// It went on by another way, so that what it took is no way's.
    pub has_moved: AtomicBool,
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tally").field("progress", &self.progress).finish_non_exhaustive()
    }
}

impl Tally {
    /// Of a session that is there, and was `set_up` in so much time. `hops` are what the nodes said, the last of them first.
    pub fn new(
        (routes, socket): (Arc<dyn RouteProvider>, Socket),
        (destination, route): (&Endpoint, &Route),
        hops: &[HopStatus],
        set_up: Duration,
    ) -> Tally {
        let far: Vec<Duration> = hops.iter().rev().filter_map(|hop| hop.connect_time).collect();
        Tally {
            routes,
            socket,
            destination: destination.clone(),
            route: route.clone(),
            far,
            set_up,
            progress: Progress::new(set_up),
            has_moved: AtomicBool::new(false),
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let info = TcpInfo::of(&self.socket).unwrap_or_default();
        let Sum { given, received, busy, pauses, is_acknowledged } = self.progress.sum();
        let is_direct = self.route.is_direct();
        let lost = info.retransmits.saturating_sub(info.dsack_duplicates);
        let loss =
            (info.data_segments_out >= SEGMENTS).then(|| f64::from(lost) / f64::from(info.data_segments_out));
        self.routes.learn(Outcome {
            destination: self.destination.clone(),
            route: std::mem::take(&mut self.route),
            given,
            received,
            set_up: self.set_up,
            // A kernel's buffers take much before it has arrived.
            busy: if is_direct { busy.max(info.busy) } else { busy },
            pauses,
            has_arrived: is_direct || is_acknowledged,
            near: Some(info.min_rtt).filter(|rtt| !rtt.is_zero()),
            far: std::mem::take(&mut self.far),
            loss,
            has_moved: self.has_moved.load(Ordering::Relaxed),
        });
    }
}
