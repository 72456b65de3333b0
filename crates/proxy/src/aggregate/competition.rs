//! Competition that cannot be shaped: somebody else fills the bottleneck's queue, on another way into it.
//!
//! A window that keeps the queue short yields to whoever does not. Where [`elasticity`](super::elasticity) shows that somebody else fills the queue,
//! the window is one of losses, CUBIC's (RFC 9438), a part of it for each connection, as Copa's competitive mode is one of losses (Arun and
//! Balakrishnan 2018, §2.2), until it shows that nobody does.
//!
//! Losses that last make such a window, too. Then it is smaller for two round trips once in a while. If the rate stays and round trips become
//! shorter, twice in a row, the queue is our own: the losses were not of somebody else's, or they are gone. Once is not enough: a BBR that drains the
//! queue for its own sake (ProbeRTT) looks the same. A look takes from our part, so it waits while answers to losses, which make the window smaller
//! anyway, show that others are there. That nobody is they cannot show alone: others lose when we do, and answer as well.
use alloc::boxed::Box;
use core::time::Duration;
use shorthaul_congestion::{AckSample, Algorithm, CongestionEvent, Control, ControlParams, Delivery};
use shorthaul_types::Time;

/// The first time until it is looked whether anybody competes still, and the longest: the time doubles.
const FIRST_LOOK: Duration = Duration::from_secs(1);
const LONGEST_LOOK: Duration = Duration::from_secs(4);
/// At least so many rounds lie between two looks.
const ROUNDS: u32 = 8;
/// The window of a look, in percent, and its rounds: in the first what was on its way is still of the larger window.
const LOOK_PERCENT: u64 = 75;
const LOOK_ROUNDS: u32 = 2;
/// The same after an answer to a loss, which takes a round to make the window smaller.
const ANSWER_ROUNDS: u32 = LOOK_ROUNDS + 1;
/// The second look that shows that the queue is our own comes so much later: ProbeRTT takes 200 ms (draft-ietf-ccwg-bbr).
const APART: Duration = Duration::from_millis(500);
/// A look waits for this long at most while answers show that others are there.
const LATEST: Duration = Duration::from_secs(16);
/// Percent of the rate that has to stay, and of the round trip that may, where the queue is our own.
const SAME_RATE: u64 = 90;
const SHORTER: u32 = 87;
/// So many looks say what part of the link we have.
const ENOUGH: u32 = 3;
/// It takes so many times its window at most, at once.
const MOST_TAKEN: f64 = 4.0;
/// With less than this part it takes what it yielded: near a half, chance decides.
const LITTLE: f64 = 0.4;
/// A round trip up to this many percent of the path's own has no queue in it.
const NO_QUEUE: u32 = 120;
/// What CUBIC leaves of its window, in percent (RFC 9438 §4.6).
const LEFT: u64 = 70;
/// The least window of a connection, in segments (RFC 5681 equation 4): where it is lost from still, fewer connections send at once.
const LEAST: u64 = 2;
/// Connections beyond this many count no more.
const MOST: u64 = 64;
/// After this time without a delivery, competitors may have come or gone.
const FORGET: Duration = Duration::from_secs(1);

/// What a round has shown.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    began: Time,
    bytes: u64,
    sum: Duration,
    count: u32,
    least: Option<Duration>,
}

impl Round {
    fn mean(&self) -> Option<Duration> {
        self.sum.checked_div(self.count)
    }

    /// Bytes a second.
    fn rate(&self, now: Time) -> u64 {
        let nanos = now.saturating_since(self.began).as_nanos().max(1);
        u64::try_from(u128::from(self.bytes) * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
    }
}

/// A round before a look.
#[derive(Clone, Copy, Debug)]
struct Before {
    /// Bytes a second.
    rate: u64,
    /// A round trip, on average.
    rtt: Duration,
}

/// What is done.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The last round, if the window limited it.
    Compete { last: Option<Before> },
    /// It is seen what a smaller window does: one that was made smaller for it, or one that has just answered a loss.
    Look { rounds: u32, before: Before, of_answer: bool },
}

impl Phase {
    const COMPETE: Phase = Phase::Compete { last: None };
}

/// What looks have shown of others.
#[derive(Clone, Copy, Debug, Default)]
struct Looks {
    /// Bytes a second, of all looks: before, and with the smaller window.
    before: u64,
    smaller: u64,
    count: u32,
}

impl Looks {
    /// The part of the link that we have, once that is known. Of who has the part s, a window of x times the former one has x / (1 - (1 - x) s) times
    /// the rate, where the others stay as they are.
    fn part(&self) -> Option<f64> {
        let kept = LOOK_PERCENT as f64 / 100.0;
        let ratio = self.smaller as f64 / self.before.max(1) as f64;
        let part = (1.0 - kept / ratio.max(kept / 2.0)) / (1.0 - kept);
        (self.count >= ENOUGH).then_some(part.clamp(0.0, 1.0))
    }
}

/// A window that competes.
#[derive(Debug)]
pub(super) struct Competition {
    /// The round trip of the path itself.
    own_rtt: Duration,
    mss: u32,
    connections: u64,
    of_losses: bool,
    /// The round trip of the path was measured without a queue.
    pub path_is_known: bool,
    /// Whoever takes the queue is none of ours: a window of losses may take what it yielded to them.
    pub may_take: bool,
    looks: Looks,
    /// So many of them send at once: fewer, where the least window of each is too much together.
    at_once: u64,
    /// Rounds without an answer to a loss.
    clean: u32,
    /// The window of each connection.
    control: Box<dyn Control>,
    /// Until something is lost, the window grows as in slow start, up to this: it had yielded.
    starting: Option<(u64, u64)>,
    /// Losses since the last one that was answered: with n connections, each answers for a n-th.
    losses: u64,
    answered_at: Time,
    limited: bool,
    /// What of the former window an answer has still to take. It takes as much as is lost to it of each delivery, as in Proportional Rate Reduction
    /// (RFC 9937): who stops for a third of a round trip leaves the queue to others.
    to_take: u64,
    /// The last look has shown that the queue is our own.
    is_own: bool,
    /// One has shown that it is not.
    has_seen_others: bool,
    /// The last look was then, and so many rounds ago.
    looked_at: Time,
    rounds: u32,
    phase: Phase,
    round: Round,
    look_at: Time,
    wait: Duration,
    delivered_at: Time,
}

impl Competition {
    /// Somebody competes on a path whose own round trip is `own_rtt`; the window is this many bytes, and grows as in slow start up to `most`, of so
    /// many connections with such segments.
    pub fn new(
        now: Time,
        own_rtt: Duration,
        (window, most): (u64, u64),
        (connections, mss): (u64, u32),
    ) -> Self {
        let connections = connections.clamp(1, MOST);
        Competition {
            own_rtt,
            mss,
            connections,
            of_losses: false,
            path_is_known: true,
            may_take: false,
            looks: Looks::default(),
            clean: 0,
            at_once: connections,
            control: control(now, window / connections, mss),
            starting: Some((window, most.max(window))),
            losses: 0,
            answered_at: now,
            limited: false,
            to_take: 0,
            is_own: false,
            has_seen_others: false,
            looked_at: now,
            rounds: 0,
            phase: Phase::COMPETE,
            round: Round { began: now, ..Round::default() },
            look_at: now + FIRST_LOOK,
            wait: FIRST_LOOK,
            delivered_at: now,
        }
    }

    /// The same after losses that last: the window answers them at once, and it is seen after `look_after` whether it still has to.
    pub fn after_losses(
        now: Time,
        own_rtt: Duration,
        window: u64,
        (connections, mss): (u64, u32),
        look_after: Duration,
    ) -> Self {
        let window = window * LEFT / 100;
        let mut competition = Competition::new(now, own_rtt, (window, window), (connections, mss));
        competition.starting = None;
        competition.of_losses = true;
        competition.wait = look_after;
        competition.look_at = now + look_after;
        competition
    }

    /// Whether a single connection competes.
    pub fn is_of_one(&self) -> bool {
        self.connections == 1
    }

    /// Whether losses were the reason.
    pub fn is_of_losses(&self) -> bool {
        self.of_losses
    }

    /// The retransmission timer expired: the window begins again as after a timeout (RFC 5681 §3.1).
    pub fn on_timeout(&mut self, now: Time) {
        self.control.on_timeout(now, self.control.window());
        // What was seen before says nothing of the time since.
        (self.starting, self.to_take) = (None, 0);
        (self.phase, self.is_own) = (Phase::COMPETE, false);
        self.round = Round { began: now, ..Round::default() };
        self.answered_at = now;
        self.losses = 0;
    }

    /// The window, in bytes.
    pub fn window(&self) -> u64 {
        match self.phase {
            Phase::Look { of_answer: false, .. } => self.whole_window() / 100 * LOOK_PERCENT,
            Phase::Look { .. } | Phase::Compete { .. } => self.whole_window(),
        }
    }

    /// The same without a look.
    fn whole_window(&self) -> u64 {
        match self.starting {
            Some((window, _)) => window,
            None => self.control.window().saturating_mul(self.at_once) + self.to_take,
        }
    }

    /// So many connections share the window from now on. It stays as large as it is.
    pub fn set_connections(&mut self, now: Time, connections: u64) {
        let connections = connections.clamp(1, MOST);
        if self.of_losses {
            // One that is new has a window of its own, one that is gone takes its with it.
            self.connections = connections;
            self.at_once = self.at_once.min(connections);
        } else if connections != self.connections {
            let window = self.control.window().saturating_mul(self.connections);
            self.connections = connections;
            self.at_once = connections;
            self.control = control(now, window / connections, self.mss);
        }
    }

    /// The window held something back.
    pub fn on_full(&mut self) {
        self.limited = true;
    }

    /// A connection lost something. Told at most once a round trip of each.
    pub fn on_lost(&mut self, now: Time, rtt: Duration) {
        let before = self.whole_window();
        if let Some((window, _)) = self.starting.take() {
            self.control = control(now, window / self.connections * LEFT / 100, self.mss);
            self.answered_at = now;
            return self.take_from(before);
        }
        self.losses += 1;
        if self.losses >= self.connections || now.saturating_since(self.answered_at) > 16 * rtt {
            self.losses = 0;
            self.answered_at = now;
            let window = self.control.window();
            if window <= LEAST * u64::from(self.mss) {
                self.at_once = (self.at_once - 1).max(1);
            }
            self.clean = 0;
            self.control.on_congestion(now, CongestionEvent::Loss, window);
            self.control.on_recovered(now);
            self.take_from(before);
            // One that is nearly the least does not stay smaller, and shows nothing.
            let shows = self.of_losses && window > 4 * LEAST * u64::from(self.mss);
            if let (true, Phase::Compete { last: Some(before) }) = (shows, self.phase) {
                self.phase = Phase::Look { rounds: 0, before, of_answer: true };
            }
        }
    }

    /// The window was this large before an answer. Of several connections some go on meanwhile, and what is lost in that round counts for others of them.
    fn take_from(&mut self, before: u64) {
        self.to_take = 0;
        if self.is_of_one() {
            self.to_take = before.saturating_sub(self.whole_window());
        }
    }

    /// Whether the last delivery was so long ago that competitors may have come or gone.
    pub fn is_forgotten(&self, now: Time) -> bool {
        now.saturating_since(self.delivered_at) >= FORGET
    }

    /// Something was delivered, with `in_flight` bytes on their way before. Returns the shortest round trip of late once it shows that nobody
    /// competes.
    pub fn on_delivery(&mut self, delivery: Delivery, in_flight: u64) -> Option<Duration> {
        let Delivery { now, bytes, sent_at, rtt } = delivery;
        self.delivered_at = now;
        self.to_take = self.to_take.saturating_sub(bytes * (100 - LEFT) / 100);
        if let Some((window, most)) = &mut self.starting {
            *window += bytes;
            if *window >= *most {
                self.control = control(now, *most / self.connections, self.mss);
                self.starting = None;
            }
        } else if !matches!(self.phase, Phase::Look { of_answer: false, .. }) {
            let delivered = bytes / self.connections;
            let in_flight = in_flight / self.connections;
            self.control.on_ack(&AckSample {
                now,
                delivered,
                newly_acked: delivered,
                in_flight_before: in_flight,
                in_flight: in_flight.saturating_sub(delivered),
                rtt,
                waited: None,
                reported: None,
                rate: None,
                cwnd_limited: self.limited,
                in_recovery: false,
            });
        }
        self.round.bytes += bytes;
        if let Some(rtt) = rtt {
            self.round.sum += rtt;
            self.round.count += 1;
            self.round.least = Some(self.round.least.map_or(rtt, |least| least.min(rtt)));
        }
        if sent_at < self.round.began {
            return None;
        }
        let round = core::mem::replace(&mut self.round, Round { began: now, ..Round::default() });
        self.on_round(now, &round)
    }

    fn on_round(&mut self, now: Time, round: &Round) -> Option<Duration> {
        let limited = core::mem::take(&mut self.limited);
        let (Some(mean), Some(least)) = (round.mean(), round.least) else { return None };
        let seen = Before { rate: round.rate(now), rtt: mean };
        self.rounds += 1;
        match &mut self.phase {
            Phase::Compete { last } => {
                *last = limited.then_some(seen);
                self.clean += 1;
                if self.clean >= ROUNDS && self.at_once < self.connections {
                    (self.at_once, self.clean) = (self.at_once + 1, 0);
                }
                if self.of_losses && limited && self.rounds >= ROUNDS && now >= self.look_at {
                    self.phase = Phase::Look { rounds: 0, before: seen, of_answer: false };
                }
                None
            }
            Phase::Look { rounds, before, of_answer } => {
                *rounds += 1;
                if *rounds < if *of_answer { ANSWER_ROUNDS } else { LOOK_ROUNDS } {
                    return None;
                }
                let (before, of_answer) = (*before, *of_answer);
                self.phase = Phase::COMPETE;
                let same_rate = seen.rate >= before.rate / 100 * SAME_RATE;
                let shorter = mean <= before.rtt * SHORTER / 100;
                let empty = self.path_is_known && mean <= self.own_rtt * NO_QUEUE / 100;
                let was_own = core::mem::replace(&mut self.is_own, same_rate && shorter || empty);
                if of_answer {
                    self.on_answer_seen(now);
                    return None;
                }
                (self.looked_at, self.rounds) = (now, 0);
                if self.is_own {
                    self.look_at = now + APART;
                    return (was_own || !self.has_seen_others).then_some(least);
                }
                self.has_seen_others = true;
                self.wait = (2 * self.wait).min(LONGEST_LOOK.max(self.wait));
                self.look_at = now + self.wait;
                self.looks.before += before.rate;
                self.looks.smaller += seen.rate;
                self.looks.count += 1;
                self.take();
                None
            }
        }
    }

    /// It was seen what an answer to a loss has done: whether it is time for a look.
    fn on_answer_seen(&mut self, now: Time) {
        if !self.has_seen_others {
            return;
        }
        self.look_at = if self.is_own {
            now + APART
        } else {
            let latest = self.looked_at + self.wait.max(LATEST);
            self.look_at.max((now + self.wait).min(latest))
        };
    }

    /// Takes what it yielded, where looks have shown that others have most of the link: with the part s of it, half is (1 - s) / s times the window.
    fn take(&mut self) {
        let Some(part) = self.looks.part() else { return };
        self.looks = Looks::default();
        if self.may_take && part < LITTLE {
            let window = self.window();
            let most = (window as f64 * ((1.0 - part) / part.max(0.01)).min(MOST_TAKEN)) as u64;
            self.starting = Some((window, most));
        }
    }
}

/// CUBIC with this window, as after a loss.
fn control(now: Time, window: u64, mss: u32) -> Box<dyn Control> {
    let initial_window = (window * 100 / LEFT).max(4 * u64::from(mss));
    let mut control =
        Algorithm::Cubic.build(ControlParams { initial_window, ..ControlParams::new(mss, now) });
    control.on_congestion(now, CongestionEvent::Loss, initial_window);
    control.on_recovered(now);
    control
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;

    /// A link of `rate` bytes a second whose own round trip is 30 ms, and `others` bytes of somebody else in its queue; a step is a
    /// round. Returns after how many seconds nobody was thought to compete, if within 60 s.
    fn alone_after(rate: u64, others: impl Fn(f64) -> u64) -> Option<f64> {
        let own = Duration::from_millis(30);
        let start = Time::from_secs(1);
        let second = Duration::from_secs(1);
        let mut competition = Competition::after_losses(start, own, 60_000, (1, MSS), second);
        let mut now = start;
        while now < start + Duration::from_secs(60) {
            let window = competition.window();
            let theirs = others(now.saturating_since(start).as_secs_f64());
            let bytes = window + theirs;
            let round = own.max(Duration::from_nanos(bytes * 1_000_000_000 / rate));
            let sent_at = now;
            now += round;
            competition.on_full();
            // A queue of 100 kB beyond what is on its way loses something.
            if bytes > rate * 30 / 1000 + 100_000 {
                competition.on_lost(now, round);
            }
            let delivery = Delivery { now, bytes: window, sent_at, rtt: Some(round) };
            if competition.on_delivery(delivery, window).is_some() {
                return Some(now.saturating_since(start).as_secs_f64());
            }
        }
        None
    }

    #[test]
    fn who_is_alone_notices_within_seconds_and_who_is_not_goes_on() {
        let rate = 2_500_000;
        let alone = alone_after(rate, |_| 0).unwrap();
        assert!(alone < 2.0, "{alone} s");
        // Somebody keeps as much in the queue, however much we take back.
        assert_eq!(alone_after(rate, |_| 90_000), None);
        let left = alone_after(rate, |at| if at < 20.0 { 90_000 } else { 0 }).unwrap();
        assert!((20.0..25.0).contains(&left), "{left} s");
    }

    #[test]
    fn who_drains_the_queue_for_a_moment_is_not_gone() {
        // As a BBR does that looks for the path's own round trip; ours may look at the same time.
        let others = |period: f64| move |at: f64| if at > 2.0 && at % period < 0.2 { 0 } else { 90_000 };
        for period in [1.0, 1.3, 1.7, 2.3, 3.1] {
            assert_eq!(alone_after(2_500_000, others(period)), None, "every {period} s");
        }
    }

    #[test]
    fn who_answers_losses_as_we_do_is_not_gone() {
        // They keep as much as we do, lose when we do, and leave as much of it: the link stays full, and round trips become shorter.
        let (start, own) = (Time::from_secs(1), Duration::from_millis(30));
        let mut window = Competition::after_losses(start, own, 60_000, (1, MSS), Duration::from_secs(1));
        let (mut now, mut theirs) = (start, 90_000.0);
        while now < start + Duration::from_secs(60) {
            let ours = window.window();
            let round = Duration::from_secs_f64(own.as_secs_f64().max((ours as f64 + theirs) / 2_500_000.0));
            let sent_at = now;
            now += round;
            theirs += 1000.0;
            window.on_full();
            if ours as f64 + theirs > 200_000.0 {
                window.on_lost(now, round);
                theirs *= 0.7;
            }
            let delivery = Delivery { now, bytes: ours, sent_at, rtt: Some(round) };
            assert_eq!(window.on_delivery(delivery, ours), None, "{now:?}: {ours} and {theirs}");
        }
    }

    #[test]
    fn while_answers_show_others_the_window_is_rarely_made_smaller_for_a_look() {
        let (start, rtt) = (Time::from_secs(1), Duration::from_millis(80));
        let mut window = Competition::after_losses(start, rtt / 2, 80_000, (1, MSS), Duration::from_secs(1));
        window.path_is_known = false;
        let (mut answers, mut looks) = (0, 0);
        for round in 1..=1000 {
            let (now, bytes) = (start + round * rtt, window.window());
            let looked = matches!(window.phase, Phase::Look { of_answer: false, .. });
            window.on_full();
            window.on_delivery(Delivery { now, bytes, sent_at: now - rtt, rtt: Some(rtt) }, bytes);
            looks += u32::from(!looked && matches!(window.phase, Phase::Look { of_answer: false, .. }));
            if round % 12 == 0 {
                window.on_lost(now, rtt);
                answers += u32::from(matches!(window.phase, Phase::Look { of_answer: true, .. }));
            }
        }
        // 80 s: twenty looks without answers.
        assert!((3..=6).contains(&looks) && answers > 70, "{looks} looks, {answers} answers");
    }

    #[test]
    fn after_a_timeout_nothing_is_left_of_the_window() {
        let (start, rtt) = (Time::from_secs(1), Duration::from_millis(80));
        let mut window = Competition::after_losses(start, rtt, 400_000, (1, MSS), Duration::from_secs(1));
        window.on_lost(start + rtt, rtt);
        assert!(window.window() > 200_000, "{}", window.window());
        window.on_timeout(start + 2 * rtt);
        assert_eq!(window.window(), u64::from(MSS));
        // Nor of one that took what it had yielded.
        window.starting = Some((300_000, 600_000));
        window.on_timeout(start + 3 * rtt);
        assert_eq!(window.window(), u64::from(MSS));
    }

    /// Rounds of a link of 2.5 MB/s, with a queue of 100 kB that somebody else fills up to what we leave, until the window is no more what losses made it:
    /// how many times as large it may grow at once.
    fn taken(may_take: bool, theirs: u64) -> Option<f64> {
        let own = Duration::from_millis(30);
        let start = Time::from_secs(1);
        let mut window = Competition::after_losses(start, own, 20_000, (1, MSS), Duration::from_secs(1));
        window.may_take = may_take;
        let mut now = start;
        for _ in 0..1000 {
            let ours = window.window();
            let sent_at = now;
            let round = own.max(Duration::from_nanos((ours + theirs) * 1_000_000_000 / 2_500_000));
            now += round;
            window.on_full();
            window.on_delivery(Delivery { now, bytes: ours, sent_at, rtt: Some(round) }, ours);
            if let Some((from, to)) = window.starting {
                return Some(to as f64 / from as f64);
            }
            // Losses keep it as small as it is.
            window.on_lost(now, round);
        }
        None
    }

    #[test]
    fn who_has_little_takes_what_it_yielded_and_who_has_half_does_not() {
        let times = taken(true, 150_000).expect("it has a tenth");
        assert!((2.0..=MOST_TAKEN).contains(&times), "{times}");
        assert_eq!(taken(false, 150_000), None, "not where others may be ours");
        assert_eq!(taken(true, 4_000), None, "it has more than half");
    }

    #[test]
    fn many_connections_answer_each_for_its_own_part() {
        let start = Time::from_secs(1);
        let rtt = Duration::from_millis(50);
        let mut many = Competition::new(start, rtt, (100_000, 100_000), (4, MSS));
        many.starting = None;
        assert!((99_000..=100_000).contains(&many.window()), "{}", many.window());
        (0..3).for_each(|_| many.on_lost(start, rtt));
        assert!(many.window() >= 99_000, "three of four");
        many.on_lost(start, rtt);
        assert!((69_000..=70_000).contains(&many.window()), "{}", many.window());
        many.set_connections(start, 2);
        assert!((69_000..=70_000).contains(&many.window()), "{}", many.window());
    }

    #[test]
    fn a_single_connection_answers_over_a_round_trip() {
        let (start, rtt) = (Time::from_secs(1), Duration::from_millis(50));
        let mut one = Competition::new(start, rtt, (100_000, 100_000), (1, MSS));
        one.starting = None;
        one.on_lost(start, rtt);
        assert!(one.window() >= 99_000, "{}: what is on its way is there still", one.window());
        for left in [84_000..=86_000, 69_000..=71_000, 69_000..=71_000] {
            let delivery = Delivery { now: start, bytes: 50_000, sent_at: start, rtt: Some(rtt) };
            one.on_delivery(delivery, 100_000);
            assert!(left.contains(&one.window()), "{} of {left:?}", one.window());
        }
    }

    #[test]
    fn where_the_least_windows_are_too_large_fewer_connections_send_at_once() {
        let start = Time::from_secs(1);
        let rtt = Duration::from_millis(150);
        let mut window = Competition::after_losses(start, rtt, 20_000, (4, MSS), Duration::from_secs(1));
        assert!((13_000..=14_000).contains(&window.window()), "{}: answered at once", window.window());
        let mut now = start;
        let mut round = |window: &mut Competition| {
            let (sent_at, bytes) = (now, window.window());
            now += rtt;
            window.on_full();
            window.on_delivery(Delivery { now, bytes, sent_at, rtt: Some(rtt) }, bytes);
            now
        };
        for _ in 0..60 {
            let now = round(&mut window);
            (0..4).for_each(|_| window.on_lost(now, rtt));
        }
        assert_eq!(window.window(), 2 * u64::from(MSS), "one of them, with its two segments");
        for _ in 0..100 {
            round(&mut window);
        }
        assert!(window.window() > 8 * u64::from(MSS), "{}: all of them again", window.window());
    }

    #[test]
    fn a_path_that_nobody_saw_without_a_queue_does_not_say_that_there_is_none() {
        let start = Time::from_secs(1);
        let rtt = Duration::from_millis(150);
        let ends = |path_is_known: bool| {
            let mut window = Competition::after_losses(start, rtt, 60_000, (1, MSS), Duration::from_secs(1));
            window.path_is_known = path_is_known;
            (1..100).any(|round| {
                let now = start + round * rtt;
                window.on_full();
                // Somebody else keeps the queue as it is, so the rate is what the window lets out.
                let bytes = window.window();
                window
                    .on_delivery(Delivery { now, bytes, sent_at: now - rtt, rtt: Some(rtt) }, bytes)
                    .is_some()
            })
        };
        assert!(ends(true) && !ends(false));
    }
}
