use crate::{Bytes, Time};
use alloc::vec::Vec;
use core::time::Duration;

/// Less than this share of the time is not worth a buffer.
const WORTH: f64 = 0.01;

/// What a buffer between two legs is like at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Something is in it, or the leg behind it could not have carried anything; and there is room for a segment.
    #[default]
    Between,
    /// Nothing is in it that was not sent, its source has not ended, and the leg behind it could carry a segment more.
    Empty,
    /// There is no room for another segment beside those on their way, so that the leg before it has no window to send.
    Full,
}

/// How long a buffer between two legs was empty, and how long full, from its first byte until its source ended.
///
/// *Cascaded TCP* names both: "packet drought in the buffer — when a relay does not have enough data to send", and, where the sender
/// is faster than the relay, "a buffer overflow problem" (Kalim et al., §III-B and §VII). A drought is time that the leg behind the
/// buffer loses, an overflow time that the leg before it loses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "Seconds", into = "Seconds"))]
pub struct BufferTimes {
    /// From the first byte until the source ended, or until now.
    pub watched: Duration,
    /// While it was [`Level::Empty`].
    pub drought: Duration,
    /// While it was [`Level::Full`].
    pub overflow: Duration,
    /// The longest drought.
    pub longest_drought: Duration,
    /// The longest overflow.
    pub longest_overflow: Duration,
}

/// The same in seconds, as files have it.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct Seconds {
    watched: f64,
    drought: f64,
    overflow: f64,
    longest_drought: f64,
    longest_overflow: f64,
}

#[cfg(feature = "serde")]
impl From<BufferTimes> for Seconds {
    fn from(times: BufferTimes) -> Self {
        Seconds {
            watched: times.watched.as_secs_f64(),
            drought: times.drought.as_secs_f64(),
            overflow: times.overflow.as_secs_f64(),
            longest_drought: times.longest_drought.as_secs_f64(),
            longest_overflow: times.longest_overflow.as_secs_f64(),
        }
    }
}

#[cfg(feature = "serde")]
impl From<Seconds> for BufferTimes {
    /// What is no time is none.
    fn from(seconds: Seconds) -> Self {
        let time = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        BufferTimes {
            watched: time(seconds.watched),
            drought: time(seconds.drought),
            overflow: time(seconds.overflow),
            longest_drought: time(seconds.longest_drought),
            longest_overflow: time(seconds.longest_overflow),
        }
    }
}

impl BufferTimes {
    /// The share of the time in which the leg behind it had nothing to send, 0 to 1.
    pub fn drought_share(&self) -> f64 {
        share(self.drought, self.watched)
    }

    /// The share of the time in which the leg before it might not send, 0 to 1.
    pub fn overflow_share(&self) -> f64 {
        share(self.overflow, self.watched)
    }

    /// That of another buffer at the same place, or of another session, in addition.
    pub fn add(&mut self, other: &BufferTimes) {
        self.watched += other.watched;
        self.drought += other.drought;
        self.overflow += other.overflow;
        self.longest_drought = self.longest_drought.max(other.longest_drought);
        self.longest_overflow = self.longest_overflow.max(other.longest_overflow);
    }

    /// The share of the time that a larger buffer could win at most, 0 to 1.
    ///
    /// What both legs lose is lost to their variation: the one could have sent ahead while the other waited. What
    /// only one of them loses, it loses because the other is slower, and no buffer mends that. More room takes about as much from both.
    pub fn mendable_share(&self) -> f64 {
        self.drought_share().min(self.overflow_share())
    }

    /// How much more the buffer would have to hold for the rarer of droughts and overflows to be over before it begins, where
    /// `rate` bytes a second pass: as much as passes in the longest of them; and where it may hold `held` bytes, so many more as the share that is lost
    /// asks for, since what is in flight has its place in it, too. Nothing, if less than 1 % could be won.
    pub fn more_room(&self, rate: f64, held: Option<Bytes>) -> Bytes {
        let share = self.mendable_share();
        if share < WORTH {
            return Bytes(0);
        }
        let rarer = if self.drought < self.overflow { self.longest_drought } else { self.longest_overflow };
        let by_time = rate.max(0.0) * rarer.as_secs_f64();
        let by_share = held.map_or(0.0, |held| held.0 as f64 * share / (1.0 - share).max(0.1));
        Bytes(by_time.max(by_share) as u64)
    }
}

fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 0.0 } else { (part.as_secs_f64() / whole.as_secs_f64()).min(1.0) }
}

/// What each leg of a chain loses to the others, from the buffers between them in the order of the data: the share of the time in which it
/// had nothing to send, and that in which it might not send, 0 to 1. There is one leg more than there are buffers.
///
/// The leg that binds loses least: it is the one that was hardly ever kept waiting. What the first leg's
/// source does not give in time counts as the first leg's slowness.
pub fn lost_by_legs(buffers: &[BufferTimes]) -> Vec<f64> {
    let starved = |leg: usize| leg.checked_sub(1).map_or(0.0, |before| buffers[before].drought_share());
    let blocked = |leg: usize| buffers.get(leg).map_or(0.0, BufferTimes::overflow_share);
    (0..=buffers.len()).map(|leg| starved(leg) + blocked(leg)).collect()
}

/// The number of the leg that binds: that which loses least of [`lost_by_legs`]; the first of equals.
pub fn binding_leg(buffers: &[BufferTimes]) -> usize {
    let lost = lost_by_legs(buffers);
    (1..lost.len()).fold(0, |least, leg| if lost[leg] < lost[least] { leg } else { least })
}

/// Keeps [`BufferTimes`]. It is told of each change.
#[derive(Clone, Copy, Debug, Default)]
pub struct BufferWatch {
    level: Level,
    began: Option<Time>,
    ended: Option<Time>,
    /// Since when it is at this level.
    since: Time,
    // In nanoseconds: there is one of these in each direction of each flow.
    drought: u64,
    overflow: u64,
    longest_drought: u64,
    longest_overflow: u64,
}

impl BufferWatch {
    /// The first byte is there.
    pub fn begin(&mut self, now: Time) {
        if self.began.is_none() {
            self.began = Some(now);
            self.since = now;
        }
    }

    /// Whether it is being watched: the first byte was there, and the source has not ended.
    pub fn is_on(&self) -> bool {
        self.began.is_some() && self.ended.is_none()
    }

    /// The level is this one from now on. Before the first byte, and after the end, it is nobody's loss.
    pub fn set(&mut self, now: Time, level: Level) {
        if !self.is_on() || level == self.level {
            return;
        }
        self.close(now);
        self.level = level;
        self.since = now;
    }

    /// The source has ended: nothing more will come.
    pub fn end(&mut self, now: Time) {
        self.set(now, Level::Between);
        if self.is_on() {
            self.ended = Some(now);
        }
    }

    fn close(&mut self, now: Time) {
        let (sum, longest) = match self.level {
            Level::Between => return,
            Level::Empty => (&mut self.drought, &mut self.longest_drought),
            Level::Full => (&mut self.overflow, &mut self.longest_overflow),
        };
        let passed = now.as_nanos().saturating_sub(self.since.as_nanos());
        *sum = sum.saturating_add(passed);
        *longest = passed.max(*longest);
    }

    /// What was seen until now.
    pub fn times(&self, now: Time) -> BufferTimes {
        let mut all = *self;
        if all.is_on() {
            all.close(now);
        }
        let until = self.ended.unwrap_or(now);
        BufferTimes {
            watched: self.began.map_or(Duration::ZERO, |began| until.saturating_since(began)),
            drought: Duration::from_nanos(all.drought),
            overflow: Duration::from_nanos(all.overflow),
            longest_drought: Duration::from_nanos(all.longest_drought),
            longest_overflow: Duration::from_nanos(all.longest_overflow),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn times(drought: u32, overflow: u32) -> BufferTimes {
        BufferTimes {
            watched: S * 10,
            drought: S * drought,
            overflow: S * overflow,
            longest_drought: S * drought / 2,
            longest_overflow: S * overflow / 2,
        }
    }

    #[test]
    fn time_counts_from_the_first_byte_until_the_source_has_ended() {
        let at = Time::from_secs;
        let mut watch = BufferWatch::default();
        watch.set(at(1), Level::Empty);
        watch.begin(at(2));
        watch.begin(at(3));
        for (second, level) in [(4, Level::Empty), (5, Level::Empty), (6, Level::Between), (7, Level::Full)] {
            watch.set(at(second), level);
        }
        // What goes on counts as far as it has come.
        assert_eq!(watch.times(at(10)).overflow, S * 3);
        watch.set(at(10), Level::Empty);
        watch.end(at(15));
        watch.set(at(16), Level::Full);
        let expected = BufferTimes {
            watched: S * 13,
            drought: S * 7,
            overflow: S * 3,
            longest_drought: S * 5,
            longest_overflow: S * 3,
        };
        assert_eq!(watch.times(at(20)), expected);
        assert!(!watch.is_on());
    }

    #[test]
    fn the_leg_that_waits_least_binds() {
        // The middle one of three is slow: the buffer before it is full, the one behind it empty.
        assert_eq!(binding_leg(&[times(0, 8), times(9, 0)]), 1);
        assert_eq!(lost_by_legs(&[times(0, 8), times(9, 0)]), [0.8, 0.0, 0.9]);
        assert_eq!(binding_leg(&[times(9, 0), times(9, 0)]), 0);
        assert_eq!(binding_leg(&[times(0, 9), times(0, 9)]), 2);
        assert_eq!(binding_leg(&[]), 0);
    }

    #[test]
    fn a_buffer_mends_what_both_legs_lose_and_not_that_one_is_slower() {
        assert_eq!(times(4, 0).more_room(1e6, None), Bytes(0));
        assert_eq!(times(0, 4).more_room(1e6, None), Bytes(0));
        let both = times(4, 2);
        assert!((both.mendable_share() - 0.2).abs() < 1e-9);
        assert_eq!(both.more_room(1e6, None), Bytes(1_000_000), "the longest overflow is a second");
        assert_eq!(both.more_room(1e3, Some(Bytes(80_000))), Bytes(20_000), "a fifth is lost");
        assert_eq!(times(2, 4).more_room(1e6, None), Bytes(1_000_000));
        let mut sum = times(1, 2);
        sum.add(&times(3, 1));
        assert_eq!((sum.watched, sum.drought, sum.longest_overflow), (S * 20, S * 4, S));
        assert_eq!(BufferTimes::default().drought_share(), 0.0);
    }
}
