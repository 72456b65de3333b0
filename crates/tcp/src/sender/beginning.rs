//! With which window a sender begins, where its path is known, and letting go of it.
use super::{Sender, State};
use crate::loss_detector::Event;
use crate::start::{Again, PathMemory, Standing};
use shorthaul_congestion::KnownPath;
use shorthaul_types::Time;

impl Sender {
    /// What it has found out of its path; `None` before a round trip was measured.
    pub fn path_memory(&self) -> Option<PathMemory> {
        Some(PathMemory {
            window: self.control.window(),
            ssthresh: self.control.ssthresh(),
            in_slow_start: self.control.in_slow_start(),
            rtt: self.rtt.known()?,
        })
    }

    /// An earlier connection to the same host knew this of the path. To be called before anything is sent.
    pub fn recall(&mut self, now: Time, known: &PathMemory) {
        if self.begin(now, known) {
            self.rtt.take_over(now, &known.rtt);
        }
    }

    /// Data will be sent after nothing was for longer than the RTO.
    pub(super) fn begin_after_idle(&mut self, now: Time) {
        let known = self.path_memory();
        if !known.is_some_and(|known| self.begin(now, &known)) {
            self.control.on_idle_restart(now);
        }
        self.set_pace();
    }

    /// Asks with which window to begin. Says whether it is another than the initial one.
    fn begin(&mut self, now: Time, known: &PathMemory) -> bool {
        let standing = Standing {
            una: self.snd.una,
            mss: self.segment.bytes(),
            has_rate: self.control.pacing_rate().is_some(),
        };
        let Some(window) = self.start.begin(&standing, known) else { return false };
        self.set_window(now, window, known.ssthresh);
        if self.control.window() < window {
            self.start.on_refused();
            return false;
        }
        true
    }

    fn set_window(&mut self, now: Time, window: u64, ssthresh: u64) {
        let min_rtt = self.rtt.min_rtt();
        self.control.take_over(now, &KnownPath { window, ssthresh, rate: None, min_rtt });
    }

    /// What was begun with was not this path's: all that is outstanding is sent again by a slow start. It is no RTO, and none is doubled.
    pub(super) fn begin_again(&mut self, now: Time, again: Again) {
        self.set_window(now, again.window, again.ssthresh);
        self.mark_lost(now, self.snd.una, self.snd.nxt);
        self.undo.clear();
        self.stats.recoveries += 1;
        self.state = State::Loss { end: self.snd.nxt, f_rto: None };
        self.tell_detector(now, Event::Restarted);
        self.timers.rto_at = Some(self.rto_deadline(now));
        self.set_pace();
    }
}
