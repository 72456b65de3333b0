//! Interfaces at which packets were taken and that are not there any more: the thread that watches notes them, the one that has the packets
//! tells of them.
use crate::bridge::BridgeError;
use crate::daemon_error::DaemonError;
use crate::notice::Notice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Interfaces that are not there any more, or are no ports of the bridge any more.
#[derive(Debug, Default)]
pub(crate) struct Vanished {
    /// What joins them, where that is a bridge.
    bridge: Option<String>,
    is_news: AtomicBool,
    names: Mutex<Vec<String>>,
    /// They are there again, so that a gateway that starts now could be at them.
    are_back: AtomicBool,
}

impl Vanished {
    /// The ports of this bridge.
    pub fn of_bridge(name: &str) -> Vanished {
        Vanished { bridge: Some(name.to_owned()), ..Vanished::default() }
    }

    fn names(&self) -> MutexGuard<'_, Vec<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more is gone.
    pub fn add(&self, name: &str) {
        let mut names = self.names();
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
            self.is_news.store(true, Ordering::Release);
        }
    }

    /// These are gone, and no others; `are_back` if all of them are there again, as other ones.
    pub fn set(&self, gone: Vec<String>, are_back: bool) {
        let mut names = self.names();
        if *names != gone {
            *names = gone;
            self.is_news.store(true, Ordering::Release);
        }
        self.are_back.store(are_back, Ordering::Release);
    }

    /// What people should know, when it is something else than the last time.
    pub fn news(&self) -> Option<Notice> {
        if !self.is_news.load(Ordering::Acquire) || !self.is_news.swap(false, Ordering::AcqRel) {
            return None;
        }
        let names = self.names().clone();
        Some(match self.bridge.clone() {
            None => Notice::Vanished { names },
            Some(bridge) if names.is_empty() => Notice::Joined { bridge },
            Some(bridge) => Notice::Apart { bridge, names },
        })
    }

    /// Why this process has to end: another one could be at the interfaces that it has lost.
    pub fn end(&self) -> Option<DaemonError> {
        if !self.are_back.load(Ordering::Acquire) {
            return None;
        }
        let bridge = self.bridge.clone()?;
        Some(BridgeError::Back { names: self.names().join("`, `"), bridge }.into())
    }
}
