//! The probes of a discriminator: how they leave, and which acknowledgments answer them.
use super::segment_size::last_try;
use super::{Ack, Outgoing, Sender, State};
use crate::loss_detector::Duplicate;
use crate::loss_discriminator::{ProbeAnswer, ProbeForm, ProbeName};
use shorthaul_types::Time;
use shorthaul_wire::Payload;

/// What has to be known of probes that were sent.
#[derive(Debug, Default)]
pub(super) struct Probes {
    /// Some of them repeated an acknowledged byte: D-SACKs of single bytes answer them.
    octets_sent: bool,
}

shorthaul_types::keeps!(Probes { octets_sent });

impl Sender {
    /// The next probe of the discriminator, if one is due, and before it the segment that it brings.
    pub(super) fn discriminators_probe(&mut self, now: Time) -> Option<Outgoing> {
        let State::Waiting { sign, behind_head } = self.state else { return None };
        let probe = match behind_head {
            Some(probe) => {
                self.state = State::Waiting { sign, behind_head: None };
                probe
            }
            None => {
                let probe = self.discriminator.poll_probe(now)?;
                if probe.brings_head && !self.board.is_empty() {
                    self.state = State::Waiting { sign, behind_head: Some(probe) };
                    let len = self.flight_size().min(self.segment.bytes());
                    let head = self.transmit(now, self.snd.una, len);
                    self.timers.rto_at = None; // the probe behind it has its own time
                    return Some(head);
                }
                probe
            }
        };
        self.stats.probes += 1;
        let mut out = Outgoing { probe: Some(probe), ..Outgoing::empty(self.snd.una - 1) };
        if let ProbeForm::Octet(octet) = probe.form {
            self.probes.octets_sent = true;
            out.offset = octet.offset;
            out.payload = Payload::copy_of(&[octet.byte]).into();
        }
        Some(out)
    }

    /// An answer to one of the discriminator's probes that names its number, and may say when it arrived there.
    pub fn on_probe_answer(&mut self, now: Time, number: u32, arrived: Option<u32>) {
        if let State::Waiting { sign, .. } = self.state {
            self.note_answer();
            let answer = ProbeAnswer { name: Some(ProbeName::Number(number)), duplicate: false, arrived };
            let response = self.discriminator.on_probe_answer(now, answer);
            self.answer_loss(now, sign, response, self.flight_size());
        }
    }

    /// The peer answers the discriminator's probes: it is there, however often what follows is lost. Smaller segments are tried all the
    /// same, for probes are small.
    pub(super) fn note_answer(&mut self) {
        self.timers.timeouts = self.timers.timeouts.min(last_try());
    }

    /// What arrived twice, by D-SACK; and the probe that it names, where it was one with an acknowledged byte.
    pub(super) fn read_dsack(&self, ack: &Ack<'_>) -> (Duplicate, Option<ProbeName>) {
        let first = ack.sack.first().filter(|&&(left, right)| is_dsack(left, right, ack));
        match first.filter(|_| self.options.sack) {
            None => (Duplicate::None, None),
            Some(&(left, right)) if self.probes.octets_sent && right - left == 1 => {
                (Duplicate::Probe, Some(ProbeName::Octet(left)))
            }
            Some(_) => (Duplicate::Data, None),
        }
    }
}

/// Whether the first block of an option is a D-SACK (RFC 2883 §4): it lies below the acknowledgment or within the second
/// block.
fn is_dsack(left: u64, right: u64, ack: &Ack<'_>) -> bool {
    right <= ack.ack || ack.sack.get(1).is_some_and(|&(l, r)| l <= left && right <= r)
}
