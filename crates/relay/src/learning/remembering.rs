//! What came of sessions, written down by a thread that may wait for the disk, and for other processes that write in the same file.
use super::history::{History, Past};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Sessions that may wait for the disk; of more, how many were lost is said.
const WAITING: usize = 1024;
/// How long whoever ends waits for what is not written yet.
const AT_THE_END: Duration = Duration::from_secs(5);

/// Hands sessions to the thread that writes them down.
#[derive(Debug)]
pub(super) struct Remembering {
    /// Before the first session there is no thread: one that is begun then has no more privileges than whoever tells of it.
    to: Mutex<State>,
    lost: AtomicU64,
}

#[derive(Debug)]
enum State {
    Unused(History),
    Writing {
        send: SyncSender<Past>,
        ended: Receiver<()>,
    },
    /// There was no thread to be had, or all has been said.
    Over,
}

impl Remembering {
    pub fn new(history: History) -> Remembering {
        Remembering { to: Mutex::new(State::Unused(history)), lost: AtomicU64::new(0) }
    }

    /// Adds a session. Nobody waits for that: where the disk is too slow, sessions are forgotten.
    pub fn add(&self, past: Past) {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Unused(_) = &*to
            && let State::Unused(history) = std::mem::replace(&mut *to, State::Over)
        {
            match begin(history) {
                Ok(begun) => *to = begun,
                Err(error) => tracing::warn!(%error, "what comes of sessions is not remembered"),
            }
        }
        let State::Writing { send, .. } = &*to else { return };
        if send.try_send(past).is_err() {
            let lost = self.lost.fetch_add(1, Ordering::Relaxed) + 1;
            if lost.is_power_of_two() {
                tracing::warn!(lost, "what came of sessions is forgotten: the disk is too slow");
            }
        }
    }

    /// Sessions that were forgotten.
    #[cfg(test)]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Remembering {
    fn drop(&mut self) {
        let to = std::mem::replace(self.to.get_mut().unwrap_or_else(PoisonError::into_inner), State::Over);
        let State::Writing { send, ended } = to else { return };
        drop(send);
        // It says nothing, but hangs up when it has written all.
        if ended.recv_timeout(AT_THE_END) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            tracing::warn!("what came of the last sessions is not written yet, and forgotten");
        }
    }
}

fn begin(history: History) -> io::Result<State> {
    let (send, said) = sync_channel::<Past>(WAITING);
    let (ends, ended) = sync_channel(0);
    let write = move || {
        let _ends = ends;
        let mut is_failing = false;
        for past in said {
            let added = history.add(&past);
            if let Err(error) = &added
                && !is_failing
            {
                tracing::warn!(%error, "what came of a session is not remembered");
            }
            is_failing = added.is_err();
        }
    };
    thread::Builder::new().name("history".into()).spawn(write)?;
    Ok(State::Writing { send, ended })
}
