//! Whether somebody else fills the bottleneck's queue: what our rate does when our window changes a little.
//!
//! Alone behind a bottleneck that is full, a window that is a little smaller has a shorter queue and the same rate. Beside somebody who fills
//! the queue whatever we do, rates are shares of it: with the window falls the rate. Of who has the part s of a link, the rate follows the
//! window by 1 - s. So the window is larger and smaller by turns, in an order drawn at random, and the rates of both are compared. (Goyal et al., "Elasticity detection", SIGCOMM 2022, ask the traffic
//! of others, by its answer to pulses of ours.) A link whose rate varies, a window that follows it, the saw teeth of competitors: none of these
//! keeps time with the draw, so all that they do is that it takes longer to be certain. Without a queue a rate follows the window, too: a set of
//! turns counts as the link's own answer only where round trips show one.
//!
//! Where several hosts are busy nothing is looked for: each would take the others for competitors.
use alloc::vec::Vec;
use core::time::Duration;
use shorthaul_types::Time;

/// By how much the window changes, and what follows from that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Swing {
    /// It is larger by so many thousandths, a segment at least, or smaller by so many.
    above: u64,
    below: u64,
    /// What it follows stays the same for a set: its rates would make it larger.
    stays: bool,
    /// So many round trips after a change the rate shows it.
    shows_after: u32,
    /// Of a turn, the first round trip shows what was sent before. What is delivered in the rest is at least so many segments.
    segments: u64,
    /// The part of a change that the rate follows where others count; less is nothing.
    shared: f64,
    /// How far from that it is at least.
    margin: f64,
}

/// To find out whether somebody has more than half of the link: the window is large enough for the link all the time, even where it varies.
pub(super) const RAISED: Swing =
    Swing { above: 500, below: 0, stays: true, shows_after: 1, segments: 16, shared: 0.5, margin: 0.1 };
/// The same of a window that others are offered: what they make of an offer arrives a round trip after what left before it.
pub(super) const OFFERED: Swing = Swing { shows_after: 2, ..RAISED };
/// To find out whether somebody is there still: a longer queue harms, so the larger part is below, where the link is full without others.
pub(super) const AROUND: Swing =
    Swing { above: 40, below: 120, stays: false, shows_after: 1, segments: 48, shared: 0.25, margin: 0.1 };

/// How long it is either: so long, or half as long again, and all that doubled, so often that it is two round trips or more.
const TURN: Duration = Duration::from_millis(8);
const LENGTHS: u32 = 20;
/// Turns that are compared with each other: what becomes larger or smaller all the time is the same in both kinds.
const SET: usize = 4;
/// Windows of fewer segments cannot change by so little.
const LEAST: u64 = 8;
/// They may be made larger where that takes less, in seconds.
const MOST_TAKES: f64 = 0.25;
/// A set counts only if the window that follows the path differed by less than this many thousandths.
const STEADY: u64 = 400;
/// Of the window, in thousandths, that is on its way on average where it is the window that limits.
const LIMITED: u64 = 800;
/// Sets until something is believed, and those that are remembered, about.
const LEAST_SETS: f64 = 3.0;
const MOST_SETS: f64 = 24.0;
/// There is a queue where a round trip is this many percent of the path's own, and this longer.
const QUEUE: u32 = 120;
const UNNOTICED: Duration = Duration::from_millis(2);
/// A set says no more than this.
const CLIP: f64 = 4.0;
/// How far from what is in doubt the mean of the sets is at least, in standard errors.
const CERTAIN: f64 = 2.0;

/// A time in which the window is larger, or smaller.
#[derive(Clone, Copy, Debug)]
struct Turn {
    number: u64,
    length: Duration,
    is_larger: bool,
    /// Its rate shows from here on.
    from: Time,
    /// The window that follows the path, then and at last.
    windows: Option<(u64, u64)>,
    /// The first delivery and the last one; bytes of all but the first.
    times: Option<(Time, Time)>,
    bytes: u64,
    /// What was on its way, added up over so many deliveries.
    in_flight: u64,
    deliveries: u64,
    /// Round trips, added up the same.
    waited: Duration,
}

impl Turn {
    fn on_delivery(&mut self, now: Time, (bytes, in_flight): (u64, u64), window: u64, rtt: Duration) {
        if now < self.from {
            return;
        }
        match &mut self.times {
            None => self.times = Some((now, now)),
            Some((_, last)) => {
                *last = now;
                self.bytes += bytes;
            }
        }
        self.windows = Some((self.windows.map_or(window, |(first, _)| first), window));
        self.in_flight += in_flight;
        self.deliveries += 1;
        self.waited += rtt;
    }

    /// Bytes a second, if the window limited it and stayed about the same.
    fn rate(&self) -> Option<f64> {
        let ((first, last), (began, window)) = (self.times?, self.windows?);
        let is_limited = self.in_flight / self.deliveries.max(1) >= window / 1000 * LIMITED;
        let time = last.saturating_since(first).as_secs_f64();
        (is_limited && is_near(began, window) && self.bytes > 0 && time > 0.0)
            .then(|| self.bytes as f64 / time)
    }
}

fn is_near(a: u64, b: u64) -> bool {
    a.abs_diff(b) <= a.max(b) / 1000 * STEADY
}

/// A turn that is over.
#[derive(Clone, Copy, Debug)]
struct Over {
    is_larger: bool,
    /// Bytes a second.
    rate: f64,
    window: u64,
    /// How much larger it is in one kind of turn than in the other, as a part of it.
    swing: f64,
    /// A round trip, on average.
    rtt: Duration,
}

/// The length of a turn, of which there are [`LENGTHS`].
fn length_of(place: u32) -> Duration {
    TURN * (1 << (place / 2)) * (2 + place % 2) / 2
}

/// What is known of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Elasticity {
    swing: Option<Swing>,
    /// How long turns are: [`length_of`] it.
    length: u32,
    /// How much larger it is in the one kind, and smaller in the other, in bytes.
    above: u64,
    below: u64,
    /// What the window follows in this set, where that stays.
    base: Option<u64>,
    turn: Option<Turn>,
    /// The turns of this set that are over: their rates, and windows.
    over: Vec<Over>,
    /// Of the sets: how many there are, their mean, and the sum of squares of the differences from it (Welford).
    sets: f64,
    mean: f64,
    squares: f64,
}

/// What the sets say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// Others fill the queue.
    Shared,
    /// Nobody does.
    Alone,
    Unknown,
}

impl Elasticity {
    /// A window as it is now.
    pub fn of(&self, window: u64) -> u64 {
        let window = self.base.unwrap_or(window);
        match &self.turn {
            Some(turn) if turn.is_larger => window.saturating_add(self.above),
            Some(_) => window.saturating_sub(self.below),
            None => window,
        }
    }

    /// Nothing is looked for: the window is what it follows. What was found counts no more.
    pub fn rest(&mut self) {
        *self = Elasticity { length: self.length, ..Elasticity::default() };
    }

    /// The part of a change of the window that the rate follows, as far as the sets say.
    pub fn follows(&self) -> f64 {
        self.mean.clamp(0.0, 1.0)
    }

    /// Something was delivered over a path of this round trip, which was `own_rtt` at its shortest, with `in_flight` bytes on their way
    /// before; the window that follows the path is `window`, with segments of `mss` bytes, and changes by `swing`. Says what the sets do, once for
    /// each.
    pub fn on_delivery(
        &mut self,
        now: Time,
        swing: Swing,
        (bytes, in_flight): (u64, u64),
        (window, mss): (u64, u32),
        (rtt, own_rtt): (Duration, Duration),
    ) -> Link {
        if self.swing != Some(swing) {
            self.rest();
            self.swing = Some(swing);
        }
        let mss = u64::from(mss.max(1));
        // Who has yielded nearly all is asked with a window that can change, where that is no queue that anybody notices long.
        let least = LEAST * mss;
        let least_takes = rtt.as_secs_f64() * least as f64 / window.max(1) as f64;
        let followed = if swing.stays && least_takes < MOST_TAKES { window.max(least) } else { window };
        let window = self.base.unwrap_or(followed);
        let segments = (window / mss).max(1);
        let needed =
            rtt * swing.shows_after + (rtt * swing.segments as u32 / segments.min(swing.segments) as u32);
        // It stays, unless it is too short, or twice as long as it has to be.
        while self.length + 1 < LENGTHS && length_of(self.length) < needed {
            self.length += 1;
        }
        while self.length > 1 && length_of(self.length - 2) >= needed {
            self.length -= 1;
        }
        let length = length_of(self.length);
        if segments < LEAST || length < needed {
            self.turn = None;
            return Link::Unknown;
        }
        (self.above, self.below) = ((window * swing.above / 1000).max(mss), window * swing.below / 1000);
        let number = now.as_nanos() / length.as_nanos() as u64;
        let mut found = Link::Unknown;
        if self.turn.is_none_or(|turn| (turn.number, turn.length) != (number, length)) {
            found = self.end_turn(number, length, own_rtt, swing);
            if self.over.is_empty() {
                let begins = swing.stays && number.is_multiple_of(SET as u64);
                // Who yields while it is asked has nothing left to compare.
                let kept = self.base.map_or(0, |base| base / 4 * 3);
                self.base = if begins { Some(followed.max(kept)) } else { self.base };
            }
            let from = now + rtt * swing.shows_after;
            self.turn = Some(Turn {
                number,
                length,
                is_larger: is_larger(number, length),
                from,
                windows: None,
                times: None,
                bytes: 0,
                in_flight: 0,
                deliveries: 0,
                waited: Duration::ZERO,
            });
        }
        if let Some(turn) = &mut self.turn {
            turn.on_delivery(now, (bytes, in_flight), window, rtt);
        }
        found
    }

    fn end_turn(&mut self, next: u64, length: Duration, own_rtt: Duration, by: Swing) -> Link {
        let place = (next.wrapping_sub(1) % SET as u64) as usize;
        let turn = self.turn.take().filter(|turn| turn.length == length && turn.number + 1 == next);
        let over = turn.filter(|_| place == self.over.len()).and_then(|turn| {
            let window = turn.windows?.1;
            // Of the mean of both kinds.
            let swing = (self.above + self.below) as f64
                / (window as f64 + self.above as f64 / 2.0 - self.below as f64 / 2.0).max(1.0);
            let rtt = turn.waited.checked_div(turn.deliveries as u32)?;
            Some(Over { is_larger: turn.is_larger, rate: turn.rate()?, window, swing, rtt })
        });
        match over {
            Some(over) => self.over.push(over),
            None => self.over.clear(),
        }
        if self.over.len() < SET {
            return Link::Unknown;
        }
        let (mut sum, mut difference, mut swings, mut least, mut most) = (0.0, 0.0, 0.0, u64::MAX, 0);
        let mut mean_rtt = Duration::ZERO;
        for Over { is_larger, rate, window, swing, rtt } in self.over.drain(..) {
            sum += rate;
            difference += if is_larger { rate } else { -rate };
            swings += swing / SET as f64;
            mean_rtt += rtt / SET as u32;
            (least, most) = (least.min(window), most.max(window));
        }
        if !is_near(least, most) {
            return Link::Unknown;
        }
        let follows = difference / sum / (swings / 2.0);
        // Without a queue a rate is what the window makes it, and nobody fills anything.
        let stands = mean_rtt > own_rtt * QUEUE / 100 + UNNOTICED;
        self.add(if stands { follows.clamp(-CLIP, CLIP) } else { 0.0 });
        self.says(by)
    }

    fn add(&mut self, value: f64) {
        if self.sets >= MOST_SETS {
            (self.sets, self.squares) = (self.sets / 2.0, self.squares / 2.0);
        }
        self.sets += 1.0;
        let before = value - self.mean;
        self.mean += before / self.sets;
        self.squares += before * (value - self.mean);
    }

    fn says(&self, by: Swing) -> Link {
        if self.sets < LEAST_SETS {
            return Link::Unknown;
        }
        let square_error = self.squares / (self.sets - 1.0) / self.sets;
        let beyond = self.mean - by.shared;
        // A few sets may agree by chance.
        let within = (CERTAIN * CERTAIN * square_error).max(by.margin * by.margin);
        match beyond * beyond > within {
            true if beyond > 0.0 => Link::Shared,
            true => Link::Alone,
            false => Link::Unknown,
        }
    }
}

/// Whether the window is larger in this turn: the outer two of a set have the same, the inner two the other, by a draw.
fn is_larger(number: u64, length: Duration) -> bool {
    // SplitMix64 (Steele et al. 2014): the order is drawn, and the same in all windows.
    let set = number / SET as u64;
    let mut drawn = set.wrapping_add(length.as_nanos() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let outer_are_larger = (drawn ^ (drawn >> 31)) & 1 == 1;
    matches!(number % SET as u64, 0 | 3) == outer_are_larger
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;

    const MSS: u32 = 1000;
    const OWN_RTT: f64 = 0.030;

    /// A link of `rate` bytes a second, in whose queue somebody else keeps `others` bytes, which vary by `noise` of the whole; our window follows
    /// the path at `window` bytes. What is said in the first `seconds`, and when.
    fn said(rate: f64, window: u64, seconds: u64, others: impl Fn(f64) -> f64) -> Vec<(f64, Link)> {
        asked(AROUND, rate, window, seconds, others).0
    }

    /// The same with another swing, and the part of a change that the rate follows at last.
    fn asked(
        swing: Swing,
        rate: f64,
        window: u64,
        seconds: u64,
        others: impl Fn(f64) -> f64,
    ) -> (Vec<(f64, Link)>, f64) {
        let step = 0.001;
        let mut elasticity = Elasticity::default();
        let (mut sent, mut found, mut rest): (VecDeque<u64>, _, _) = (VecDeque::new(), Vec::new(), 0.0);
        let mut rtt = OWN_RTT;
        for number in 0..seconds * 1000 {
            let at = number as f64 * step;
            let ours = elasticity.of(window);
            assert!(swing.below > 0 || ours >= window, "{ours}");
            sent.push_back(ours);
            // What is delivered now is of the window a round trip ago.
            let then = sent[sent.len().saturating_sub((rtt / step) as usize + 1)];
            let all = then as f64 + others(at);
            rtt = OWN_RTT.max(all / rate);
            rest += then as f64 / rtt * step;
            let bytes = rest as u64 / u64::from(MSS) * u64::from(MSS);
            rest -= bytes as f64;
            let now = Time::from_nanos(1_000_000_000 + (at * 1e9) as u64);
            let rtt = Duration::from_nanos((rtt * 1e9) as u64);
            let own_rtt = Duration::from_nanos((OWN_RTT * 1e9) as u64);
            match elasticity.on_delivery(now, swing, (bytes, then), (window, MSS), (rtt, own_rtt)) {
                Link::Unknown => {}
                link => found.push((at, link)),
            }
        }
        (found, elasticity.follows())
    }

    /// Between 0 and 1, as if by chance, another one every 40 ms.
    fn chance(at: f64) -> f64 {
        ((at / 0.040).floor() * 12.9898).sin().mul_add(43758.5453, 0.0).rem_euclid(1.0)
    }

    #[test]
    fn who_is_alone_is_told_so_and_who_is_not_as_well() {
        let (rate, product) = (2_500_000.0, 75_000);
        let window = product * 12 / 10;
        let alone = said(rate, window, 30, |_| 0.0);
        assert!(alone.iter().all(|(_, link)| *link == Link::Alone) && alone[0].0 < 3.0, "{alone:?}");
        // Somebody has as much on the way, whatever we do, more or less.
        let beside = said(rate, window, 30, |at| 80_000.0 + 20_000.0 * chance(at));
        assert!(beside.iter().all(|(_, link)| *link == Link::Shared) && beside[0].0 < 6.0, "{beside:?}");
        // Saw teeth of 5 s do not keep time with us.
        let teeth = said(rate, window, 60, |at| 60_000.0 + 15_000.0 * (at % 5.0));
        assert!(teeth.iter().all(|(_, link)| *link == Link::Shared) && !teeth.is_empty(), "{teeth:?}");
        // They are gone after 20 s.
        let gone = said(rate, window, 40, |at| if at < 20.0 { 80_000.0 } else { 0.0 });
        let alone = gone.iter().find(|(_, link)| *link == Link::Alone).expect("it is told in the end");
        assert!((20.0..32.0).contains(&alone.0), "{gone:?}");
    }

    #[test]
    fn a_queue_that_varies_by_itself_is_nobody_else() {
        // Datagrams at a rate of their own take a tenth of the link to a third of it; they do not answer us.
        let said = said(2_500_000.0, 110_000, 120, |at| 7_500.0 + 17_500.0 * chance(at));
        assert!(said.iter().all(|(_, link)| *link != Link::Shared) || said.is_empty(), "{said:?}");
    }

    #[test]
    fn a_larger_window_shows_the_part_of_the_link_that_we_have() {
        let rate = 2_500_000.0;
        for (ours, others, says) in [
            (90_000, 0.0, Link::Alone),
            (120_000, 40_000.0, Link::Alone),
            (30_000, 90_000.0, Link::Shared),
            (10_000, 110_000.0, Link::Shared),
        ] {
            let noise = 0.1 * others;
            let (said, follows) =
                asked(RAISED, rate, ours, 30, |at| others + noise * (2.0 * chance(at) - 1.0));
            assert!(!said.is_empty() && said.iter().all(|(_, link)| *link == says), "{ours}: {said:?}");
            // On average over both windows, a quarter of a swing apart.
            let part = 1.0 - ours as f64 * 1.25 / (ours as f64 * 1.25 + others);
            assert!((follows - part).abs() < 0.15, "{ours} beside {others}: {follows}, {part}");
        }
    }

    #[test]
    fn who_yields_while_it_is_asked_keeps_most_of_the_window() {
        let mut elasticity = Elasticity::default();
        let rtt = Duration::from_millis(100);
        let base = 100 * u64::from(MSS);
        let mut of = |step: u32, window: u64| {
            let now = Time::from_secs(1) + Duration::from_millis(10) * step;
            elasticity.on_delivery(now, RAISED, (u64::from(MSS), window), (window, MSS), (rtt, rtt));
            elasticity.of(window)
        };
        let windows: Vec<u64> = (0..400).map(|step| of(step, base)).collect();
        assert!(windows.contains(&base) && windows.contains(&(base * 3 / 2)), "{windows:?}");
        // A set later three quarters are left, and no less in the next one than three quarters of these.
        let windows: Vec<u64> = (400..600).map(|step| of(step, base / 10)).collect();
        assert!(windows[0] >= base && windows.contains(&(base * 3 / 4)), "{windows:?}");
        assert!(windows.iter().all(|window| *window >= base * 9 / 16), "{windows:?}");
    }

    #[test]
    fn small_windows_are_what_they_follow() {
        let mut elasticity = Elasticity::default();
        let now = Time::from_secs(1);
        for round in 0..1000 {
            let now = now + Duration::from_millis(30) * round;
            let window = (LEAST - 1) * u64::from(MSS);
            let rtt = Duration::from_millis(30);
            let said = elasticity.on_delivery(now, AROUND, (window, window), (window, MSS), (rtt, rtt));
            assert_eq!(said, Link::Unknown);
            assert_eq!(elasticity.of(window), window);
        }
    }

    #[test]
    fn both_kinds_of_turn_are_as_many_and_their_order_is_drawn() {
        let larger = |set: u64| (0..4).map(move |turn| is_larger(4 * set + turn, TURN));
        let mut outer = 0;
        for set in 0..1000 {
            assert_eq!(larger(set).filter(|larger| *larger).count(), 2);
            outer += usize::from(is_larger(4 * set, TURN));
        }
        assert!((400..600).contains(&outer), "{outer}");
    }
}
