//! What a gateway at access interfaces has to know of its host while it runs: addresses, which of the interfaces are there, and where hosts are.
use super::whereabouts::{Place, QUESTION, Question};
use crate::vanished::Vanished;
use shorthaul_os::Netlink;
use shorthaul_os::bpf::{AddressSet, Numbers, Ring};
use shorthaul_os::netlink::links::{Interface, list};
use shorthaul_os::netlink::{Changes, local_addresses};
use shorthaul_os::poll::wait_any_readable;
use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Answers about hosts in doubt that are kept up to date: of one access interface at most, of one at least, and of all of them. Where there are
/// more, the oldest of that interface go, and are asked for again.
const MOST_ANSWERS: usize = 512;
const LEAST_ANSWERS: usize = 32;
const ALL_ANSWERS: usize = 1_024;
/// Of hosts that were heard for the first time, of one access interface. They are needed until the next packet.
const FIRST_ANSWERS: usize = 128;
/// Bytes of questions that may wait, of one access interface.
const WAITING: usize = 16_384;
/// So many questions of one access interface are answered at once, before others have their turn.
const AT_ONCE: usize = 32;
/// After so many, it rests.
const REST: Duration = Duration::from_millis(1);
/// All answers are asked for again so often at most, and in a tenth of the time at most.
const LOOKS: Duration = Duration::from_millis(10);

/// What programs are told of the hosts at an access interface.
struct Hosts {
    at: AddressSet,
    accepted: AddressSet,
    refused: AddressSet,
    /// What they ask.
    questions: Ring<QUESTION>,
}

/// What programs are told of the host, and what they ask.
pub(super) struct Told {
    /// The host's addresses.
    pub local: AddressSet,
    /// The index of each access interface that is there, or 0; then of each whether `rp_filter` is strict there.
    pub there: Numbers,
    hosts: Vec<Hosts>,
}

impl Told {
    /// Of so many access interfaces nothing is told yet.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create(interfaces: usize) -> io::Result<Told> {
        let sets = || AddressSet::create_several(interfaces);
        let hosts = sets()?.into_iter().zip(sets()?).zip(sets()?).map(|((at, accepted), refused)| {
            Ok(Hosts { at, accepted, refused, questions: Ring::create(WAITING)? })
        });
        Ok(Told {
            local: AddressSet::create()?,
            there: Numbers::create(2 * interfaces)?,
            hosts: hosts.collect::<io::Result<_>>()?,
        })
    }

    /// What programs are written for, of these access interfaces.
    pub fn places(&self, access: &[Interface]) -> Vec<Place> {
        let place = |(interface, hosts): (&Interface, &Hosts)| Place {
            index: interface.index,
            at: hosts.at.place(),
            accepted: hosts.accepted.place(),
            refused: hosts.refused.place(),
            questions: hosts.questions.descriptor(),
        };
        access.iter().zip(&self.hosts).map(place).collect()
    }

    /// The next question of the programs at an access interface.
    pub fn question(&mut self, place: usize) -> Option<Question> {
        self.hosts[place].questions.read().map(|bytes| Question::read(&bytes))
    }

    /// These are the answers about an access interface from now on.
    pub fn answer<'a>(&self, place: usize, answers: impl Iterator<Item = &'a (Question, Answer)> + Clone) {
        let Hosts { at, accepted, refused, .. } = &self.hosts[place];
        for (set, wanted) in [(at, Answer::At), (accepted, Answer::Accepted), (refused, Answer::Refused)] {
            let those =
                answers.clone().filter(|(question, answer)| question.place == place && *answer == wanted);
            set.set(&those.map(|(question, _)| question.source).collect::<Vec<_>>());
        }
    }
}

/// What the kernel says of a host at an access interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The routes lead to it there.
    At,
    /// They lead to it elsewhere, and it may speak there.
    Accepted,
    /// It may not.
    Refused,
}

/// What keeps that up to date.
pub(super) struct Watch {
    changes: Changes,
    netlink: Netlink,
    told: Told,
    /// The access interfaces: names and indices.
    access: Vec<(String, u32)>,
    vanished: Arc<Vanished>,
    /// `rp_filter` of all interfaces, and of each access interface: open, for a confined process may open none.
    filters: Vec<Option<File>>,
    /// What each access interface has asked.
    answers: Vec<Answers>,
    /// All is to be asked for again, not before this time.
    is_due: bool,
    next_look: Instant,
}

/// The answers to what was asked at one access interface, the oldest first. One interface's are not lost to another's.
#[derive(Debug, Default)]
struct Answers {
    of_doubt: VecDeque<(Question, Answer)>,
    of_first: VecDeque<(Question, Answer)>,
}

impl Answers {
    fn all(&self) -> impl Iterator<Item = &(Question, Answer)> + Clone {
        self.of_doubt.iter().chain(&self.of_first)
    }

    fn has(&self, source: IpAddr, place: usize) -> bool {
        self.all().any(|(known, _)| (known.source, known.place) == (source, place))
    }
}

/// Adds an answer, and gives back the question whose answer has to go for it.
fn keep(
    answers: &mut VecDeque<(Question, Answer)>,
    most: usize,
    answer: (Question, Answer),
) -> Option<Question> {
    let forgotten = if answers.len() >= most { answers.pop_front() } else { None };
    answers.push_back(answer);
    forgotten.map(|(question, _)| question)
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("access", &self.access).finish_non_exhaustive()
    }
}

impl Watch {
    /// Begins with how things stand.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create(told: Told, access: &[Interface], vanished: Arc<Vanished>) -> io::Result<Watch> {
        let mut watch = Watch {
            changes: Changes::watch()?,
            netlink: Netlink::open()?,
            told,
            access: access.iter().map(|interface| (interface.name.clone(), interface.index)).collect(),
            vanished,
            filters: ["all"]
                .into_iter()
                .chain(access.iter().map(|interface| &*interface.name))
                .map(filter)
                .collect(),
            answers: access.iter().map(|_| Answers::default()).collect(),
            is_due: false,
            next_look: Instant::now(),
        };
        watch.look()?;
        Ok(watch)
    }

    /// Goes on with it for good.
    pub fn watch(mut self) {
        loop {
            let rings = self.told.hosts.iter().map(|hosts| hosts.questions.as_fd());
            let left = self.is_due.then(|| self.next_look.saturating_duration_since(Instant::now()));
            if wait_any_readable(rings.chain([self.changes.as_fd()]), left).is_err() {
                return;
            }
            let Ok(has_changed) = self.changes.were_any() else { return };
            self.is_due |= has_changed;
            let begun = Instant::now();
            if self.is_due && begun >= self.next_look {
                self.is_due = false;
                // What failed now is asked for again at the next change.
                let _ = self.look();
                self.next_look = Instant::now() + LOOKS.max(9 * begun.elapsed());
            }
            let are_many =
                (0..self.access.len()).fold(false, |are_many, place| self.learn_some(place) | are_many);
            if are_many {
                // Somebody asks without end, perhaps: this thread is not there for him alone.
                std::thread::sleep(REST);
            }
        }
    }

    fn look(&mut self) -> io::Result<()> {
        self.told.local.set(&local_addresses()?);
        let present = list()?;
        for (number, (name, index)) in self.access.iter().enumerate() {
            let found = present.iter().find(|interface| interface.index == *index);
            if found.is_none_or(|interface| interface.name != *name) {
                self.vanished.add(name);
            }
            // By another name it is the same one, with its programs.
            self.told.there.set(number, if found.is_some() { u64::from(*index) } else { 0 });
            let is_strict = is_strict(self.filters[0].as_ref(), self.filters[1 + number].as_ref());
            self.told.there.set(self.access.len() + number, u64::from(is_strict));
        }
        let Watch { netlink, access, answers, .. } = self;
        for answers in answers.iter_mut().flat_map(|of| [&mut of.of_doubt, &mut of.of_first]) {
            answers.retain_mut(|(question, answer)| {
                ask(netlink, access, question).is_some_and(|now| {
                    *answer = now;
                    true
                })
            });
        }
        (0..self.access.len()).for_each(|place| self.answer(place));
        Ok(())
    }

    /// Programs are told the answers about an access interface.
    fn answer(&self, place: usize) {
        self.told.answer(place, self.answers.iter().flat_map(Answers::all));
    }

    /// Has the answers to some of what is asked at an access interface; whether there may be more.
    fn learn_some(&mut self, place: usize) -> bool {
        let mut changed = BTreeSet::new();
        let questions: Vec<_> = std::iter::from_fn(|| self.told.question(place)).take(AT_ONCE).collect();
        let are_many = questions.len() == AT_ONCE;
        questions.into_iter().for_each(|question| changed.extend(self.learn(question)));
        changed.into_iter().for_each(|place| self.answer(place));
        are_many
    }

    /// Has the answer to a question, and says about which access interfaces there is something new. Where the host was before is asked for, too: it
    /// may have gone from there.
    fn learn(&mut self, question: Question) -> Vec<usize> {
        let asking = question.place;
        let before = self.access.iter().position(|(_, index)| *index == question.before);
        let is_first = before == Some(asking);
        let share = (ALL_ANSWERS / self.access.len()).clamp(LEAST_ANSWERS, MOST_ANSWERS);
        let mut changed = Vec::new();
        for place in [Some(asking), before.filter(|_| !is_first)].into_iter().flatten() {
            let question = Question { place, ..question };
            let answers = &mut self.answers[asking];
            if answers.has(question.source, place) {
                continue;
            }
            let Some(answer) = ask(&self.netlink, &self.access, &question) else { continue };
            // Who is where it is expected is remembered with its next packet, and not asked about again. Of who is not, anybody can make up many.
            let forgotten = if is_first {
                keep(&mut answers.of_first, FIRST_ANSWERS, (question, answer))
            } else {
                keep(&mut answers.of_doubt, share, (question, answer))
            };
            changed.extend([place].into_iter().chain(forgotten.map(|question| question.place)));
        }
        changed
    }
}

fn filter(interface: &str) -> Option<File> {
    File::open(format!("/proc/sys/net/ipv4/conf/{interface}/rp_filter")).ok()
}

/// Whether the kernel lets a source speak only where its routes lead to it: the larger of both numbers is 1. Where they cannot be read, it may
/// be.
fn is_strict(of_all: Option<&File>, of_one: Option<&File>) -> bool {
    let read = |file: Option<&File>| -> Option<u8> {
        let mut text = [0; 4];
        let length = file?.read_at(&mut text, 0).ok()?;
        std::str::from_utf8(&text[..length]).ok()?.trim().parse().ok()
    };
    match (read(of_all), read(of_one)) {
        (Some(of_all), Some(of_one)) => of_all.max(of_one) == 1,
        _ => true,
    }
}

/// What the kernel says; nothing where it has no answer, such as of an interface that is gone.
fn ask(netlink: &Netlink, access: &[(String, u32)], question: &Question) -> Option<Answer> {
    let (_, index) = access.get(question.place)?;
    if netlink.interface_toward(question.source).ok()? == Some(*index) {
        return Some(Answer::At);
    }
    let is_accepted = netlink.accepts(question.source, question.destination, *index).ok()?;
    Some(if is_accepted { Answer::Accepted } else { Answer::Refused })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn the_larger_number_says_how_strict_the_kernel_is() {
        let folder = std::env::temp_dir();
        let file = |name: &str, text: &str| {
            let path = folder.join(format!("shorthaul-rp-filter-{name}-{}", std::process::id()));
            File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
            let open = File::open(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            open
        };
        let numbers: [File; 3] = [0, 1, 2].map(|number| file(&number.to_string(), &format!("{number}\n")));
        for (of_all, of_one, expected) in
            [(0, 0, false), (0, 1, true), (1, 0, true), (1, 1, true), (1, 2, false), (2, 1, false)]
        {
            let found = is_strict(Some(&numbers[of_all]), Some(&numbers[of_one]));
            assert_eq!(found, expected, "{of_all} {of_one}");
        }
        assert!(is_strict(None, Some(&numbers[0])));
    }
}
