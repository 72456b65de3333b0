use core::time::Duration;
use shorthaul_types::Time;

/// What is offered before anything is known of the path.
const FIRST: u64 = 64 * 1024;

/// How much of the buffer is offered: it grows with what the owner reads in a round trip (dynamic
/// right-sizing; Fisk and Feng, "Dynamic Right-Sizing in TCP", 2001; in Linux
/// `tcp_rcv_space_adjust`).
///
/// A peer doubles its window each round trip in slow start, so the offer must always be twice what
/// came in the last one, and more where that grew.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiveWindow {
    limit: u64,
    buffer: u64,
    segment: u64,
    /// It grows with what arrives, without a look at the round trip.
    grows: bool,
    /// What was read in the best round trip so far.
    space: u64,
    read: u64,
    round_start: Time,
    rtt: Option<Duration>,
    /// Where a window's worth of data will have arrived, and since when we wait for it.
    mark: Option<(u64, Time)>,
}

impl ReceiveWindow {
    /// The window of a buffer of `buffer` bytes, for segments of about `segment` bytes.
    pub(super) fn new(now: Time, buffer: u64, segment: u32, autotuning: bool) -> Self {
        let limit = if autotuning { FIRST.min(buffer) } else { buffer };
        let segment = u64::from(segment);
        ReceiveWindow {
            limit,
            buffer,
            segment,
            grows: false,
            space: (10 * segment).min(limit).max(1),
            read: 0,
            round_start: now,
            rtt: None,
            mark: None,
        }
    }

    /// The most that is offered now.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// The whole buffer, of which [`Self::limit`] is what may be offered now.
    pub(super) fn buffer(&self) -> u64 {
        self.buffer
    }

    /// How much of the buffer the owner has a use for.
    pub(super) fn restrict(&mut self, limit: u64) {
        self.limit = limit.min(self.buffer);
        self.round_start = Time::MAX;
    }

    /// Begins with so much, and grows by twice what arrives: by two segments with each full one, as `tcp_grow_window` of Linux 2.4.
    pub(super) fn begin_small(&mut self, first: u64) {
        self.restrict(first);
        self.grows = true;
    }

    /// So many bytes have arrived in order.
    pub(super) fn on_bytes(&mut self, bytes: u64) {
        if self.grows {
            self.limit = (self.limit + 2 * bytes).min(self.buffer);
        }
    }

    /// Whether the owner sets the limit: no round trip in which it could grow will ever begin.
    fn is_restricted(&self) -> bool {
        self.round_start == Time::MAX
    }

    /// How many bytes may lie in memory: an offer that was made holds, though the limit is lower now.
    pub(super) fn memory(&self) -> u64 {
        2 * if self.is_restricted() { self.buffer } else { self.limit }
    }

    /// The buffer is no larger than this: what the header can express.
    pub(super) fn cap(&mut self, bytes: u64) {
        self.buffer = self.buffer.min(bytes);
        self.limit = self.limit.min(bytes);
    }

    /// A round-trip time, measured by a timestamp that the peer echoed.
    pub(super) fn on_rtt(&mut self, sample: Duration) {
        let sample = sample.max(Duration::from_millis(1));
        self.rtt = Some(self.rtt.map_or(sample, |rtt| rtt * 7 / 8 + sample / 8));
    }

    /// Data up to `next` has arrived, in a window that ends at `edge`. A whole window takes the
    /// peer a round trip at least: an estimate without timestamps, of which the least is the best.
    pub(super) fn on_arrival(&mut self, now: Time, next: u64, edge: u64, timestamps: bool) {
        if timestamps {
            return;
        }
        if let Some((mark, since)) = self.mark {
            if next < mark {
                return;
            }
            let sample = now.saturating_since(since).max(Duration::from_millis(1));
            self.rtt = Some(self.rtt.map_or(sample, |rtt| rtt.min(sample)));
        }
        self.mark = Some((edge, now));
    }

    /// The owner has read `bytes`.
    pub(super) fn on_read(&mut self, now: Time, bytes: u64) {
        if self.is_restricted() {
            return;
        }
        self.read += bytes;
        let Some(rtt) = self.rtt else { return };
        if now.saturating_since(self.round_start) < rtt {
            return;
        }
        let read = core::mem::take(&mut self.read);
        self.round_start = now;
        if read <= self.space {
            return;
        }
        let base = 2 * read + 16 * self.segment;
        let growth = u128::from(base) * u128::from(read - self.space) / u128::from(self.space);
        let wanted = base.saturating_add(u64::try_from(2 * growth).unwrap_or(u64::MAX));
        self.limit = self.limit.max(wanted.min(self.buffer));
        self.space = read;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_follows_what_is_read_in_a_round_trip() {
        let mut window = ReceiveWindow::new(Time::ZERO, 4 << 20, 1448, true);
        assert_eq!(window.limit(), 64 * 1024);
        window.on_rtt(Duration::from_millis(100));
        for (round, read) in [(1u64, 20_000u64), (2, 40_000), (3, 80_000), (4, 160_000)] {
            window.on_read(Time::from_millis(100 * round), read);
            assert!(window.limit() >= 2 * read, "{} after {read}", window.limit());
        }
        let limit = window.limit();
        window.on_read(Time::from_millis(500), 1_000);
        assert_eq!(window.limit(), limit, "a slow reader does not shrink what was offered");
        window.on_read(Time::from_millis(600), 1 << 30);
        assert_eq!(window.limit(), 4 << 20);
    }

    #[test]
    fn a_window_that_begins_small_grows_by_twice_what_arrives() {
        let mut window = ReceiveWindow::new(Time::ZERO, 16_000, 1400, false);
        window.on_bytes(1400);
        assert_eq!(window.limit(), 16_000, "one that does not is the whole buffer from the start");
        window.begin_small(5392);
        assert_eq!(window.limit(), 5392);
        window.on_bytes(1400);
        assert_eq!(window.limit(), 5392 + 2800);
        window.on_bytes(14_000);
        assert_eq!(window.limit(), 16_000);
    }

    #[test]
    fn an_owner_that_sets_the_limit_is_obeyed() {
        let mut window = ReceiveWindow::new(Time::ZERO, 4 << 20, 1448, false);
        window.on_rtt(Duration::from_millis(100));
        window.restrict(10_000);
        window.on_read(Time::from_millis(200), 1 << 20);
        assert_eq!((window.limit(), window.memory()), (10_000, 8 << 20));
    }

    #[test]
    fn without_timestamps_a_window_is_a_round_trip() {
        let mut window = ReceiveWindow::new(Time::ZERO, 4 << 20, 1448, true);
        window.on_arrival(Time::from_millis(10), 1, 60_000, false);
        window.on_arrival(Time::from_millis(50), 30_000, 90_000, false);
        window.on_arrival(Time::from_millis(90), 60_000, 120_000, false);
        assert_eq!(window.rtt, Some(Duration::from_millis(80)));
    }
}
