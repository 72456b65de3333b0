use alloc::collections::VecDeque;

use shorthaul_types::{Bytes, Time};

use crate::QueueLimit;

/// A packet's place in the queue, which it holds until its serialization ends. A packet that will be lost
/// holds one too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub key: u64,
    pub size: Bytes,
    pub start: Time,
    pub departure: Time,
}

/// Who is in the queue. The packets themselves are elsewhere: their delivery is known from the start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backlog {
    places: VecDeque<Place>,
    bytes: u64,
}

impl Backlog {
    /// Forgets those whose serialization has ended by `now`.
    pub(crate) fn advance(&mut self, now: Time) {
        while let Some(place) = self.places.front().filter(|place| place.departure <= now) {
            self.bytes -= place.size.0;
            self.places.pop_front();
        }
    }

    pub(crate) fn has_room(&self, limit: QueueLimit, size: Bytes) -> bool {
        match limit {
            QueueLimit::Unlimited => true,
            QueueLimit::Packets(packets) => self.places.len() < packets,
            QueueLimit::Bytes(bytes) => self.bytes.saturating_add(size.0) <= bytes,
        }
    }

    /// Adds a packet behind the others; its departure is not before theirs.
    pub(crate) fn push(&mut self, place: Place) {
        self.bytes += place.size.0;
        self.places.push_back(place);
    }

    /// How many packets there were at the last `advance`, and have come since.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// How many bytes that is.
    pub(crate) fn bytes(&self) -> Bytes {
        Bytes(self.bytes)
    }

    /// How many packets there are at `now`, which is not before the last `advance`.
    pub(crate) fn len_at(&self, now: Time) -> usize {
        self.places.len() - self.gone_by(now)
    }

    /// How many bytes there are at `now`, which is not before the last `advance`.
    pub(crate) fn bytes_at(&self, now: Time) -> Bytes {
        let gone: u64 = self.places.iter().take(self.gone_by(now)).map(|place| place.size.0).sum();
        Bytes(self.bytes - gone)
    }

    fn gone_by(&self, now: Time) -> usize {
        self.places.partition_point(|place| place.departure <= now)
    }

    /// Takes everything out, in order.
    pub(crate) fn take_all(&mut self) -> VecDeque<Place> {
        self.bytes = 0;
        core::mem::take(&mut self.places)
    }
}
