//! How promptly the loop is run when it has something to do and others have, too.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shorthaul_os::schedule;
use shorthaul_types::Time;
use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

/// The nice value of [`Priority::High`]: about ten times the share of an ordinary thread.
const NICE: i32 = -10;
/// Who has not waited for packets for longer than this has more to do than there is time for, and is not first any more until it has waited.
const LONGEST: Duration = Duration::from_millis(100);
/// How often it is looked whether who is first leaves others enough of the time, and what is enough. The kernel sees to it that they have a twentieth of each
/// second on each processor, idle time included; but what is left of that it gives them at once, and who was first stands still for up to 50 ms.
const PERIOD: Duration = Duration::from_millis(10);
const ENOUGH: f64 = 0.06;
/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_millis(2);
/// Between asking for what is to be done and having it, this much time shows that there was nothing, or that others ran.
const WAITED: Duration = Duration::from_micros(20);

/// What a gateway's loop asks of the machine's scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// Before all ordinary threads (`SCHED_RR`, priority 1). A loop that is busy leaves them 6 % of the time, in pauses of 0.6
    /// ms, or 2 ms after a long round; one that has not waited for packets for a tenth of a second runs as they do until it has waited.
    #[default]
    RealTime,
    /// With a larger share than ordinary threads (nice value -10).
    High,
    /// As all others.
    Normal,
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Priority::RealTime => "real-time",
            Priority::High => "high",
            Priority::Normal => "normal",
        })
    }
}

impl FromStr for Priority {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Priority::RealTime, Priority::High, Priority::Normal]
            .into_iter()
            .find(|priority| priority.to_string() == text)
            .ok_or_else(|| format!("`{text}` is no priority: write real-time, high or normal"))
    }
}

/// What a thread was granted, and why not what it asked for.
#[derive(Debug)]
pub struct Granted {
    /// What it asked for.
    pub asked: Priority,
    /// What it has.
    pub has: Priority,
    /// Why the first thing that it asked for was refused.
    pub refused: Option<io::Error>,
}

impl fmt::Display for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.refused {
            None => write!(f, "priority: {}", self.has),
            Some(error) => write!(
                f,
                "priority: {}, for {} was refused ({error}): while others keep the processors busy, packets wait longer. It takes \
                 the capability CAP_SYS_NICE, or a larger limit (`ulimit -r`, `ulimit -e`)",
                self.has, self.asked
            ),
        }
    }
}

/// Has this process prepare itself with a larger share than ordinary threads, if it may: somebody waits for it on a machine that is busy.
/// Not before them all: it would take turns of a tenth of a second with whoever has the packets meanwhile.
pub fn prepare_promptly() {
    // Where it may not, it takes longer.
    let _ = schedule::be_nice(NICE);
}

/// The same is over: it waits from now on, as all others do.
pub(crate) fn is_prepared() {
    let _ = schedule::be_nice(0).and(schedule::run_as_others());
}

/// The standing of a loop's thread among others.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    has: Priority,
    /// It is not first for the time being, for it has not waited, or another process has the packets.
    steps_back: bool,
    /// Who has stepped back may be first again, also without privileges. Who may not does not step back.
    may_return: bool,
    /// When it last waited.
    waited_at: Time,
    /// Since when it is counted how long it waited, and how long that was.
    since: Time,
    waited: Duration,
}

impl Standing {
    /// Asks for a priority for the calling thread; where it is refused, for the next lower one. What it was given to prepare itself
    /// [promptly](prepare_promptly) is over.
    ///
    /// With `and_threads`, those that it starts have the same, until it has [started](Standing::has_started) them.
    pub fn ask(now: Time, asked: Priority, and_threads: bool) -> (Standing, Granted) {
        let (mut refused, mut may_return) = (None, false);
        if asked != Priority::RealTime {
            // It may have been until now.
            let _ = schedule::run_as_others();
        }
        let steps = [Priority::RealTime, Priority::High];
        let wanted =
            steps.into_iter().skip(steps.iter().position(|step| *step == asked).unwrap_or(steps.len()));
        let granted = wanted.into_iter().find(|step| {
            let result = match step {
                Priority::RealTime if and_threads => schedule::run_first_by_turns_with_threads(),
                Priority::RealTime => schedule::run_first_by_turns(),
                _ => schedule::be_nice(NICE),
            };
            let is_granted = result.is_ok();
            if is_granted && *step == Priority::RealTime {
                // It steps back now and then, and must not lose that with its privileges.
                may_return = shorthaul_os::limits::allow_real_time();
            }
            refused = refused.take().or(result.err());
            is_granted
        });
        let has = granted.unwrap_or(Priority::Normal);
        if has != Priority::High {
            let _ = schedule::be_nice(0);
        }
        let waited = Duration::ZERO;
        let standing = Standing { has, steps_back: false, may_return, waited_at: now, since: now, waited };
        (standing, Granted { asked, has, refused })
    }

    /// Threads that the calling one starts from now on are as all others.
    pub fn has_started(&self) {
        if self.is_first() && !self.steps_back {
            // It has that already, and so is not refused it.
            let _ = schedule::run_first_by_turns();
        }
    }

    /// Whether it runs before ordinary threads.
    pub fn is_first(&self) -> bool {
        self.has == Priority::RealTime
    }

    /// Another process has the packets while this one prepares itself.
    pub fn prepare(&mut self) {
        if self.is_first() && self.may_return {
            self.steps_back = schedule::run_as_others().is_ok();
        }
    }

    /// Another process has the packets from now on.
    pub fn end(&self) {
        if self.is_first() {
            let _ = schedule::run_as_others();
        }
    }

    /// The packets are this one's from now on, and what it has prepared was not for them.
    pub fn begin(&mut self, now: Time) {
        (self.waited_at, self.since, self.waited) = (now, now, Duration::ZERO);
        if self.steps_back {
            self.steps_back = schedule::run_first_by_turns().is_err();
        }
    }

    /// A round begins at `now` that was asked for at `asked`.
    pub fn on_round(&mut self, asked: Time, now: Time) {
        let wait = now.saturating_since(asked);
        if wait >= WAITED {
            (self.waited_at, self.waited) = (now, self.waited + wait);
        }
        if self.has != Priority::RealTime || !self.may_return {
            return;
        }
        let steps_back = now.saturating_since(self.waited_at) >= LONGEST;
        if steps_back != self.steps_back {
            let result = if steps_back { schedule::run_as_others() } else { schedule::run_first_by_turns() };
            // Who was allowed to be first may step back; and who may not return stays where it is.
            if result.is_err() {
                self.has = Priority::Normal;
            }
            self.steps_back = steps_back;
        }
    }

    /// How long it is to pause before the next round, so that others have enough of the time.
    pub fn pause(&mut self, now: Time) -> Option<Duration> {
        let period = now.saturating_since(self.since);
        if self.has != Priority::RealTime || self.steps_back || period < PERIOD {
            return None;
        }
        let pause = period.mul_f64(ENOUGH).saturating_sub(self.waited).min(LONGEST_PAUSE);
        (self.since, self.waited) = (now, Duration::ZERO);
        (!pause.is_zero()).then_some(pause)
    }

    #[cfg(test)]
    fn steps_back(&self) -> bool {
        self.steps_back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(since: Time) -> Standing {
        Standing {
            has: Priority::RealTime,
            steps_back: false,
            may_return: true,
            waited_at: since,
            since,
            waited: Duration::ZERO,
        }
    }

    #[test]
    fn a_loop_that_never_waits_is_not_first_for_ever() {
        // On a thread of its own: the priority goes with it.
        std::thread::spawn(|| {
            let ms = Time::from_millis;
            let mut standing = first(ms(1000));
            let micros = Duration::from_micros(5);
            let mut stays = Standing { may_return: false, ..standing.clone() };
            for at in 1001..1100 {
                standing.on_round(ms(at), ms(at) + micros);
                assert!(!standing.steps_back(), "{at}");
            }
            standing.on_round(ms(1100), ms(1100) + micros);
            assert!(standing.steps_back());
            assert_eq!(standing.pause(ms(1200)), None, "others have their share then");
            stays.on_round(ms(1100), ms(1100) + micros);
            assert!(!stays.steps_back(), "it could not return");
            standing.on_round(ms(1101), ms(1102));
            // Where it may not, it stays as all others are.
            assert!(!standing.steps_back() || standing.has == Priority::Normal);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_loop_that_is_first_leaves_others_their_part_in_small_pauses() {
        let begin = Time::from_secs(1000);
        let mut standing = Standing { may_return: false, ..first(begin) };
        let (mut now, mut pauses) = (begin, Vec::new());
        // Rounds of so many microseconds, of which so much is waited for.
        let mut rounds = |count: u32, waits_us: u64, lasts_us: u64| {
            pauses.clear();
            for _ in 0..count {
                if let Some(pause) = standing.pause(now) {
                    pauses.push(pause);
                    now += pause;
                }
                standing.on_round(now, now + Duration::from_micros(waits_us));
                now += Duration::from_micros(lasts_us);
            }
            pauses.clone()
        };
        assert!(rounds(199, 0, 50).is_empty(), "not before a period is over");
        let busy = rounds(2_000, 5, 50);
        assert!(
            (9..=11).contains(&busy.len()) && busy.iter().all(|pause| pause.as_micros() == 600),
            "{busy:?}"
        );
        rounds(400, 25, 50);
        assert!(rounds(2_000, 25, 50).is_empty(), "it waits often enough");
        rounds(400, 0, 50);
        rounds(1, 0, 100_000);
        assert_eq!(rounds(1, 0, 50), [LONGEST_PAUSE], "after a long round it is longer, but not by far");
        let mut high = Standing { has: Priority::High, ..first(begin) };
        assert_eq!(high.pause(begin + 9 * PERIOD), None, "who is not first takes nothing from them");
    }

    /// Who has prepared itself for long has not kept the processor from anybody by serving packets.
    #[test]
    fn what_was_done_before_the_first_round_does_not_count() {
        std::thread::spawn(|| {
            let (mut standing, now) = (first(Time::from_secs(1000)), Time::from_secs(1005));
            standing.begin(now);
            standing.on_round(now, now);
            assert!(!standing.steps_back());
            assert_eq!(standing.pause(now), None);
        })
        .join()
        .unwrap();
    }

    /// A worker begins when privileges are gone: it must have what it runs by already.
    #[test]
    fn threads_are_first_as_the_one_that_starts_them_until_it_has_started_them() {
        fn policy() -> String {
            let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            // Behind the name, in parentheses, the 41st field of all.
            text.rsplit_once(") ").unwrap().1.split(' ').nth(38).unwrap().to_owned()
        }
        let of_a_thread = || std::thread::spawn(policy).join().unwrap();
        std::thread::spawn(move || {
            let (standing, granted) = Standing::ask(Time::ZERO, Priority::RealTime, true);
            let first = if granted.has == Priority::RealTime { "2" } else { "0" };
            assert_eq!(of_a_thread(), first, "{granted}");
            standing.has_started();
            assert_eq!((policy().as_str(), of_a_thread().as_str()), (first, "0"));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_is_granted_is_what_was_asked_for_or_said_to_be_refused() {
        std::thread::spawn(|| {
            for asked in [Priority::Normal, Priority::High, Priority::RealTime] {
                let (standing, granted) = Standing::ask(Time::ZERO, asked, false);
                assert_eq!(standing.has, granted.has);
                assert_eq!(granted.refused.is_some(), granted.has != asked, "{granted}");
                assert_eq!(asked.to_string().parse(), Ok(asked));
            }
        })
        .join()
        .unwrap();
        assert!("urgent".parse::<Priority>().unwrap_err().contains("real-time"));
    }
}
