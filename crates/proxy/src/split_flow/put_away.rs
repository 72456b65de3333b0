//! A flow that says nothing is put away as numbers, and brought back as if it never had been: sequence numbers, windows, timestamps, round
//! trips, and all that its parts know go on where they were.
//!
//! Only what has no timer and owes nobody anything is put away, of a policy whose parts can be built anew: nothing happens to it until a
//! packet of it comes.
use super::direction::{Direction, Ends, Standing};
use super::first_retransmission::FirstRetransmission;
use super::managed::is_managed;
use super::resumed::Resumed;
use super::stepping_out::Sent;
use super::{Rejected, SplitFlow};
use crate::Policy;
use crate::aggregate::{AllottedWindow, Upload};
use crate::end::{End, Side};
use crate::handshake::Agreed;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;
use shorthaul_types::{Blank, FlowKey, Keep, Numbers, Time, keeps};

keeps!(Agreed { sack, timestamps, window_scaling, ecn });
keeps!(AllottedWindow { bytes });
keeps!(FirstRetransmission { val, at, until });
keeps!(Sent { end, since });

impl Blank for AllottedWindow {
    fn blank() -> Self {
        AllottedWindow::default()
    }
}

impl Blank for FirstRetransmission {
    fn blank() -> Self {
        FirstRetransmission { val: 0, at: Time::ZERO, until: 0 }
    }
}

impl Direction {
    /// Appends all that it knows beyond what its policy says. Says whether it can.
    fn put_away(&self, to: &mut Vec<u64>) -> bool {
        let Direction {
            receiver,
            sender,
            keep_alive,
            echo_congestion,
            first_retransmission,
            kept,
            buffer,
            ..
        } = self;
        keep_alive.put(to);
        echo_congestion.put(to);
        first_retransmission.put(to);
        kept.put(to);
        buffer.put(to);
        self.has_no_parts() && receiver.put_away(to) && sender.put_away(to)
    }

    fn bring_back(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        let Direction {
            receiver,
            sender,
            keep_alive,
            echo_congestion,
            first_retransmission,
            kept,
            buffer,
            ..
        } = self;
        keep_alive.take(from)?;
        echo_congestion.take(from)?;
        Keep::take(first_retransmission, from)?;
        kept.take(from)?;
        buffer.take(from)?;
        receiver.bring_back(from)?;
        sender.bring_back(from)
    }
}

impl SplitFlow {
    /// Appends all that is known of it beyond what its policy says, for [`SplitFlow::bring_back`]. Says whether it can be put away.
    ///
    /// `segments` are the sizes of segments that its host's uplink and the window of its wired sender count with.
    pub(crate) fn put_away(&self, now: Time, segments: [u64; 2], to: &mut Vec<u64>) -> bool {
        let SplitFlow {
            key: _,
            ends,
            directions,
            agreed,
            opened,
            draining,
            passed_most,
            sent,
            rejected,
            strays,
            challenges,
            managed: _,
            allotted,
            upload,
            download,
            resumed,
            stamp,
            watches,
        } = self;
        let is_still = self.is_idle() && !self.needs_us(now) && self.poll_timeout().is_none();
        let has_settled = |upload: &Option<Box<Upload>>, of: u64| {
            upload.as_ref().is_none_or(|upload| upload.has_settled(now, 2 * of))
        };
        let is_waited_for = !has_settled(upload, segments[0]) || !has_settled(download, segments[1]);
        if !is_still || *draining || *rejected != Rejected::default() || watches.is_some() || is_waited_for {
            return false;
        }
        End::put_both(ends, to);
        agreed.put(to);
        opened.put(to);
        passed_most.put(to);
        sent.put(to);
        strays.put(to);
        challenges.put(to);
        allotted.put(to);
        stamp.put(to);
        resumed.put(to);
        if !directions.iter().all(|direction| direction.put_away(to)) {
            return false;
        }
        [upload, download].into_iter().flatten().for_each(|upload| upload.put(to));
        true
    }

    /// The flow that was put away, with the policy that it had.
    pub(crate) fn bring_back(now: Time, from: &mut Numbers<'_>, policy: &Policy) -> Option<SplitFlow> {
        let ends = End::take_both(from)?;
        let [client, server] = ends.map(|end| SocketAddr::new(end.ip.src(), end.port));
        let mut agreed = Agreed::default();
        agreed.take(from)?;
        let directions = Side::BOTH.map(|side| {
            let both = Ends { from: &ends[side.index()], to: &ends[side.other().index()] };
            let managed = is_managed(&ends, side.other(), policy);
            Direction::new(now, both, &agreed, policy, managed, Standing::default())
        });
        let mut flow = SplitFlow {
            key: FlowKey { src: client, dst: server },
            managed: Side::BOTH.into_iter().find(|side| is_managed(&ends, *side, policy)),
            ends,
            directions,
            agreed,
            opened: now,
            draining: false,
            passed_most: [0; 2],
            sent: [Sent { end: 1, since: now }; 2],
            rejected: Rejected::default(),
            strays: [0; 2],
            challenges: Default::default(),
            allotted: None,
            upload: None,
            download: None,
            resumed: None,
            stamp: None,
            watches: None,
        };
        flow.opened.take(from)?;
        flow.passed_most.take(from)?;
        flow.sent.take(from)?;
        flow.strays.take(from)?;
        flow.challenges.take(from)?;
        Keep::take(&mut flow.allotted, from)?;
        Keep::take(&mut flow.stamp, from)?;
        Keep::take(&mut flow.resumed, from)?;
        for direction in &mut flow.directions {
            direction.bring_back(from)?;
        }
        if let Some(aggregate) = &policy.aggregate {
            flow.limit(now, now, aggregate);
        }
        for upload in [&mut flow.upload, &mut flow.download].into_iter().flatten() {
            Keep::take(&mut **upload, from)?;
        }
        Some(flow)
    }
}

impl Blank for Resumed {
    fn blank() -> Self {
        Resumed {
            until: Time::ZERO,
            ask_at: None,
            asked: 0,
            heard: [false; 2],
            agreed: false,
            said: [None; 2],
            sent: [0; 2],
            missing: [false; 2],
            pieces: [0; 2],
        }
    }
}
