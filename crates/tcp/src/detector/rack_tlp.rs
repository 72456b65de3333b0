use super::rack::Rack;
use super::tail_loss_probe::TailLossProbe;
use crate::Scoreboard;
use crate::loss_detector::{AckEvent, Delivered, Detection, Duplicate, Event, Flight, LossDetector, Repair};
use alloc::vec::Vec;
use core::ops::Range;
use shorthaul_types::{Deadline, Keep, Numbers};

/// RACK-TLP (RFC 8985): loss by time, and a probe for the tail.
#[derive(Debug, Default)]
pub(super) struct RackTlp {
    rack: Rack,
    probe: TailLossProbe,
}

impl LossDetector for RackTlp {
    fn on_delivered(&mut self, delivered: &Delivered<'_>) {
        self.rack.on_delivered(delivered);
    }

    fn on_ack(&mut self, detection: &mut Detection<'_>, ack: &AckEvent) {
        // A tail loss probe that was not needed says nothing about the order.
        if ack.dsack == Duplicate::Data && !self.probe.is_outstanding() {
            self.rack.on_duplicate(detection.flight.una, detection.flight.nxt);
        }
        self.probe.on_ack(detection, ack);
        self.rack.detect(detection);
    }

    fn on_timeout(&mut self, detection: &mut Detection<'_>) {
        let probe_is_due = detection.flight.is_due(self.probe.at());
        if detection.flight.is_due(self.rack.reordering_at()) || !probe_is_due {
            self.rack.detect(detection);
        }
        if probe_is_due && detection.board().lost() == 0 {
            self.probe.on_timeout(detection);
        }
    }

    fn on_event(&mut self, flight: &Flight, board: &Scoreboard, event: Event) {
        match event {
            Event::Sent(sent) => self.probe.on_sent(flight, board, sent.retransmission),
            Event::Acknowledged => self.probe.arm(flight, board),
            Event::RecoveryBegun | Event::WaitBegun => self.probe.disarm(),
            Event::Restarted => {
                self.rack.on_restart();
                self.probe.on_restart();
            }
            Event::Recovered => self.rack.on_recovered(),
            Event::Undone => {}
        }
    }

    fn ask_probe(&mut self, flight: &Flight, board: &Scoreboard) -> bool {
        self.probe.ask(flight, board)
    }

    fn poll_probe(&mut self, flight: &Flight, board: &Scoreboard) -> Option<Range<u64>> {
        self.probe.poll(flight, board)
    }

    fn put_away(&self, to: &mut Vec<u64>) -> bool {
        self.rack.put(to);
        self.probe.put(to);
        true
    }

    fn bring_back(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        Keep::take(&mut self.rack, from)?;
        Keep::take(&mut self.probe, from)
    }

    fn repair(&self) -> Repair {
        Repair::ProportionalRate
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let reordering = self.rack.reordering_at().map(|at| Deadline { at, timer: "rack" });
        let probe = self.probe.at().map(|at| Deadline { at, timer: "tail-loss-probe" });
        // Of two at once, the probe's is named: it is the more telling.
        probe.into_iter().chain(reordering).min_by_key(|deadline| deadline.at)
    }
}
