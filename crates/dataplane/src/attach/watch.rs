//! What a gateway at access interfaces has to know of its host while it runs: addresses, which of the interfaces are there, and where hosts are.
use super::whereabouts::{Place, QUESTION, Question};
use shorthaul_os::Netlink;
use shorthaul_os::bpf::{AddressSet, Numbers, Ring};
use shorthaul_os::netlink::links::{Interface, list};
use shorthaul_os::netlink::{Changes, local_addresses};
use shorthaul_os::poll::wait_readable;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// So many answers are kept up to date; where there are more, the oldest go, and are asked for again. A set has room for them, but for one in
/// thousands perhaps, whose hash too many others have.
const ANSWERS: usize = 512;
/// Bytes of questions that may wait.
const WAITING: usize = 16_384;

/// Interfaces that are not there any more.
#[derive(Debug, Default)]
pub(crate) struct Vanished {
    is_news: AtomicBool,
    names: Mutex<Vec<String>>,
}

impl Vanished {
    fn add(&self, name: &str) {
        let mut names = self.names.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
            self.is_news.store(true, Ordering::Release);
        }
    }

    /// Their names, when there are more than the last time.
    pub fn news(&self) -> Option<Vec<String>> {
        if !self.is_news.load(Ordering::Acquire) || !self.is_news.swap(false, Ordering::AcqRel) {
            return None;
        }
        Some(self.names.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone())
    }
}

/// What programs are told of the hosts at an access interface.
struct Hosts {
    at: AddressSet,
    accepted: AddressSet,
    refused: AddressSet,
}

/// What programs are told of the host, and what they ask.
pub(super) struct Told {
    /// The host's addresses.
    pub local: AddressSet,
    /// The index of each access interface that is there, or 0; then of each whether `rp_filter` is strict there.
    pub there: Numbers,
    pub questions: Ring<QUESTION>,
    hosts: Vec<Hosts>,
}

impl Told {
    /// Of so many access interfaces nothing is told yet.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create(interfaces: usize) -> io::Result<Told> {
        let sets = || AddressSet::create_several(interfaces);
        let hosts = sets()?.into_iter().zip(sets()?).zip(sets()?);
        Ok(Told {
            local: AddressSet::create()?,
            there: Numbers::create(2 * interfaces)?,
            questions: Ring::create(WAITING)?,
            hosts: hosts.map(|((at, accepted), refused)| Hosts { at, accepted, refused }).collect(),
        })
    }

    /// What programs are written for, of these access interfaces.
    pub fn places(&self, access: &[Interface]) -> Vec<Place> {
        let place = |(interface, hosts): (&Interface, &Hosts)| Place {
            index: interface.index,
            at: hosts.at.place(),
            accepted: hosts.accepted.place(),
            refused: hosts.refused.place(),
        };
        access.iter().zip(&self.hosts).map(place).collect()
    }

    /// These are the answers from now on.
    pub fn answer(&self, answers: &VecDeque<(Question, Answer)>) {
        for (number, hosts) in self.hosts.iter().enumerate() {
            let those = |wanted: Answer| -> Vec<IpAddr> {
                let here = answers.iter().filter(|(question, _)| question.place == number);
                here.filter(|(_, answer)| *answer == wanted).map(|(question, _)| question.source).collect()
            };
            hosts.at.set(&those(Answer::At));
            hosts.accepted.set(&those(Answer::Accepted));
            hosts.refused.set(&those(Answer::Refused));
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
    answers: VecDeque<(Question, Answer)>,
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
            answers: VecDeque::new(),
        };
        watch.look()?;
        Ok(watch)
    }

    /// Goes on with it for good.
    pub fn watch(mut self) {
        while wait_readable([self.changes.as_fd(), self.told.questions.as_fd()], None).is_ok() {
            let Ok(has_changed) = self.changes.were_any() else { return };
            if has_changed {
                // What failed now is asked for again at the next change.
                let _ = self.look();
            }
            let mut is_asked = has_changed;
            while let Some(question) = self.told.questions.read() {
                is_asked |= self.learn(Question::read(&question));
            }
            if is_asked {
                self.told.answer(&self.answers);
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
        answers.retain_mut(|(question, answer)| {
            ask(netlink, access, question).is_some_and(|now| {
                *answer = now;
                true
            })
        });
        Ok(())
    }

    /// Has the answer to a question, and says whether there is a new one. Where the host was before is asked for, too: it may have gone from there.
    fn learn(&mut self, question: Question) -> bool {
        let before = self.access.iter().position(|(_, index)| *index == question.before);
        let places = [Some(question.place), before];
        places.into_iter().flatten().fold(false, |is_new, place| {
            let question = Question { place, ..question };
            let is_known =
                |(known, _): &(Question, Answer)| (known.source, known.place) == (question.source, place);
            if self.answers.iter().any(is_known) {
                return is_new;
            }
            let Some(answer) = ask(&self.netlink, &self.access, &question) else { return is_new };
            if self.answers.len() == ANSWERS {
                self.answers.pop_front();
            }
            self.answers.push_back((question, answer));
            true
        })
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
