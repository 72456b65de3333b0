//! A sender watched from outside, in virtual time: what it sends, and when. Segments are counted
//! from zero; each has [`MSS`] bytes.
use shorthaul_congestion::{Algorithm, ControlParams};
use shorthaul_tcp::{
    Ack, CongestionManager, LossDetection, Outgoing, RetransmissionTimer, Sender, SenderConfig,
};
use shorthaul_types::{Bytes, Time};
use shorthaul_wire::Payload;
use std::ops::Range;
use std::time::Duration;

/// Bytes of a segment.
pub const MSS: u64 = 1_000;

/// A window that no test fills.
pub const WIDE: Algorithm = Algorithm::Fixed(Bytes(1_000 * MSS));

/// A sender that has measured a round trip of 100 ms, so that its RTO is 300 ms.
pub struct Trace {
    pub sender: Sender,
    now: Time,
    window: u64,
    seq: u64,
    /// How long ago the timestamp was sent that acknowledgments echo.
    pub echo: Option<Duration>,
    /// When that was sent at the latest, in milliseconds, which the next acknowledgments are for.
    pub sent_before: Option<u64>,
}

impl Trace {
    /// To a receiver with SACK.
    pub fn with_sack(control: Algorithm) -> Self {
        Trace::new(control, true)
    }

    /// To a receiver without SACK.
    pub fn without_sack(control: Algorithm) -> Self {
        Trace::new(control, false)
    }

    /// To a receiver without SACK, with a congestion manager that grants this many segments.
    pub fn managed_without_sack(credit: u64) -> Self {
        let mut trace =
            Trace::managed_by(CongestionManager::shared(RetransmissionTimer::Probes), WIDE, false);
        trace.sender.grant_mut().unwrap().bytes = credit * MSS;
        trace
    }

    /// To a receiver with SACK, with a congestion manager that grants this many segments.
    pub fn managed_with_sack(credit: u64) -> Self {
        let mut trace = Trace::managed_by(CongestionManager::shared(RetransmissionTimer::Probes), WIDE, true);
        trace.sender.grant_mut().unwrap().bytes = credit * MSS;
        trace
    }

    /// The manager's timer expires at `ms`; returns what leaves.
    pub fn manager_expires(&mut self, ms: u64) -> Vec<Range<u64>> {
        assert_eq!(self.run_until(ms), [], "sent by a timer before {ms} ms");
        self.sender.on_manager_timeout(self.now);
        self.send()
    }

    /// To a receiver with SACK, with this loss detection.
    pub fn with_detection(loss_detection: LossDetection, control: Algorithm) -> Self {
        Trace::start(control, |config| SenderConfig { loss_detection, ..config })
    }

    fn new(control: Algorithm, sack: bool) -> Self {
        Trace::managed_by(CongestionManager::Own, control, sack)
    }

    fn managed_by(manager: CongestionManager, control: Algorithm, sack: bool) -> Self {
        Trace::start(control, |config| SenderConfig { manager, sack, ..config })
    }

    fn start(control: Algorithm, change: impl FnOnce(SenderConfig) -> SenderConfig) -> Self {
        let mss = MSS as u32;
        let control = control.build(ControlParams { paced: false, ..ControlParams::new(mss, Time::ZERO) });
        let config = change(SenderConfig { pacing: false, ..SenderConfig::new(mss, control) });
        let window = 1_000 * MSS;
        let mut sender = Sender::new(Time::ZERO, 1, 1 + window, config);
        sender.on_rtt_sample(Time::ZERO, Duration::from_millis(100));
        Trace { sender, now: Time::ZERO, window, seq: 1, echo: None, sent_before: None }
    }

    /// The application writes whole segments; returns what leaves.
    pub fn write(&mut self, segments: u64) -> Vec<Range<u64>> {
        for _ in 0..segments {
            self.sender.queue_mut().push(Payload::copy_of(&[7; MSS as usize]));
        }
        self.send()
    }

    /// The window that the receiver offers from now on, in bytes.
    pub fn window(&mut self, bytes: u64) {
        self.window = bytes;
    }

    /// Nothing happens until `ms`, but for timers; returns what leaves and when.
    pub fn run_until(&mut self, ms: u64) -> Vec<(u64, Range<u64>)> {
        let mut sent = Vec::new();
        while let Some(deadline) = self.sender.poll_timeout().filter(|due| due.at <= Time::from_millis(ms)) {
            self.now = self.now.max(deadline.at);
            self.sender.on_timeout(self.now);
            let at = self.now.as_nanos() / 1_000_000;
            sent.extend(self.send().into_iter().map(|segments| (at, segments)));
        }
        self.now = Time::from_millis(ms);
        sent
    }

    /// At `ms` everything before segment `next` is acknowledged, and `sack` SACKed; returns what
    /// leaves. No timer may have sent anything until then.
    pub fn ack(&mut self, ms: u64, next: u64, sack: &[Range<u64>]) -> Vec<Range<u64>> {
        assert_eq!(self.run_until(ms), [], "sent by a timer before {ms} ms");
        self.on_ack(next, sack, false);
        self.send()
    }

    /// As [`Trace::ack`], in a segment that carries data.
    pub fn ack_with_data(&mut self, ms: u64, next: u64) -> Vec<Range<u64>> {
        assert_eq!(self.run_until(ms), [], "sent by a timer before {ms} ms");
        self.on_ack(next, &[], true);
        self.seq += 1;
        self.send()
    }

    fn on_ack(&mut self, next: u64, sack: &[Range<u64>], has_data: bool) {
        let sack: Vec<(u64, u64)> =
            sack.iter().map(|range| (offset(range.start), offset(range.end))).collect();
        let ack = offset(next);
        let ack = Ack {
            ack,
            window: self.window,
            seq: self.seq,
            sack: &sack,
            has_data,
            ecn_echo: false,
            echo: self.echo,
            sent_before: self.sent_before.map(Time::from_millis),
            waited: None,
            reported: None,
        };
        self.sender.on_ack(self.now, &ack);
        assert!(self.sender.scoreboard().audit());
    }

    /// What leaves now, in whole segments.
    pub fn send(&mut self) -> Vec<Range<u64>> {
        let mut sent = Vec::new();
        while let Some(out) = self.poll() {
            let end = out.offset + out.payload.len() as u64 + u64::from(out.fin);
            sent.push(segment(out.offset)..segment(end));
        }
        sent
    }

    /// The next segment as it is.
    pub fn poll(&mut self) -> Option<Outgoing> {
        let out = self.sender.poll_segment(self.now);
        assert!(self.sender.scoreboard().audit());
        out
    }

    /// The congestion window, in whole segments.
    pub fn congestion_window(&self) -> u64 {
        self.sender.control().window() / MSS
    }
}

/// The offset of the first byte of a segment.
pub fn offset(segment: u64) -> u64 {
    1 + segment * MSS
}

/// The segment that begins at `offset`; a probe lies one byte below.
fn segment(offset: u64) -> u64 {
    (offset.max(1) - 1).div_ceil(MSS)
}
