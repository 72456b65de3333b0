//! Room for sessions of which everything is taken before anything goes on: files without names, of bounded size, which are
//! written by threads that may block.
//!
//! Who finds no room waits for some, and is not read meanwhile: so what an account has, and others give back, bounds how much of it is taken in
//! a second, however much it sends.
use super::Broken;
use crate::account::{Account, Share};
use crate::throttle::Throttle;
use shorthaul_types::Bytes;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Room is taken by so much at once.
pub(super) const BLOCK: usize = 64 << 10;
/// How long it takes until who waits for room looks again; longer each time.
const LOOK: Duration = Duration::from_millis(10);
/// The longest of these.
const LOOK_MOST: Duration = Duration::from_millis(500);

/// What all of them may take, and those of one account.
#[derive(Debug)]
pub struct Spool {
    all: Arc<Account>,
    most: Bytes,
    most_each: Bytes,
    /// How long somebody waits for room.
    patience: Duration,
    /// Keeps those who store too much from filling the log.
    log: Arc<Throttle>,
}

/// A file that is written, then read.
pub(super) struct Stored {
    file: Option<File>,
    log: Arc<Throttle>,
}

impl Spool {
    /// So much for all; a quarter of it for each account. A session that finds no room waits for so long, and breaks then.
    pub fn new(most: Bytes, patience: Duration) -> Spool {
        let all = Arc::new(Account::new("all", crate::account::Limits::default()));
        Spool { all, most, most_each: Bytes(most.0 / 4), patience, log: Arc::default() }
    }

    /// Room of a session, of which it has none yet.
    pub(super) fn room<'a>(&'a self, account: Option<&'a Arc<Account>>) -> Room<'a> {
        Room { spool: self, account, shares: Vec::new(), left: 0 }
    }

    /// A file of which nothing is written yet.
    pub(super) async fn begin(&self) -> Result<Stored, Broken> {
        let log = Arc::clone(&self.log);
        let file = apart(tempfile::tempfile, &log).await?;
        Ok(Stored { file: Some(file), log })
    }
}

/// What a session has of the room, until it is dropped.
pub(super) struct Room<'a> {
    spool: &'a Spool,
    account: Option<&'a Arc<Account>>,
    shares: Vec<Share>,
    /// Of which nothing is used yet.
    left: u64,
}

impl Room<'_> {
    /// Takes room for so many bytes. If there is none, it is waited for.
    pub(super) async fn take(&mut self, bytes: usize) -> Result<(), Broken> {
        let bytes = bytes as u64;
        let (until, mut look) = (Instant::now() + self.spool.patience, LOOK);
        while self.left < bytes {
            match self.more() {
                Ok(()) => {}
                Err(words) if Instant::now() >= until => return Err(no_room_left(words, &self.spool.log)),
                Err(_) => {
                    tokio::time::sleep(look).await;
                    look = (look * 2).min(LOOK_MOST);
                }
            }
        }
        self.left -= bytes;
        Ok(())
    }

    /// One block more.
    fn more(&mut self) -> Result<(), String> {
        let Spool { all, most, most_each, .. } = self.spool;
        let block = (BLOCK as u64).min(most_each.0);
        let none =
            |whose: &str, most: &Bytes| format!("{whose} may store {} bytes, and those are there", most.0);
        let of_account = match self.account {
            Some(account) => {
                Some(account.store(block, *most_each).ok_or_else(|| none(account.name(), most_each))?)
            }
            None => None,
        };
        let of_all = all.store(block, *most).ok_or_else(|| none("everybody", most))?;
        self.shares.extend(of_account.into_iter().chain([of_all]));
        self.left += block;
        Ok(())
    }
}

/// Does what may block, in another thread.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
    log: &Throttle,
) -> Result<T, Broken> {
    let done = tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|error| {
        no_room_left(format!("cannot store in {}: {error}", std::env::temp_dir().display()), log)
    })
}

/// Why nothing more is stored, which is in the log, too.
fn no_room_left(words: String, log: &Throttle) -> Broken {
    if let Some(left_out) = log.passes(Instant::now()) {
        tracing::warn!(left_out, "{words}");
    }
    Broken::NoRoom(words)
}

/// The kernel gives the room of a file back when the last descriptor is closed, which takes its time.
impl Drop for Stored {
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        // Where no runtime is left, the node ends.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn_blocking(move || drop(file));
        }
    }
}

impl Stored {
    async fn with<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut File) -> io::Result<T> + Send + 'static,
    ) -> Result<T, Broken> {
        let file = self.file.take().ok_or_else(|| Broken::NoRoom("what was stored is lost".into()))?;
        let work = move || {
            let mut file = file;
            let done = work(&mut file)?;
            Ok((file, done))
        };
        let (file, done) = apart(work, &self.log).await?;
        self.file = Some(file);
        Ok(done)
    }

    /// Writes all of it.
    pub(super) async fn append(&mut self, bytes: Vec<u8>) -> Result<(), Broken> {
        self.with(move |file| file.write_all(&bytes)).await
    }

    /// From the beginning.
    pub(super) async fn rewind(&mut self) -> Result<(), Broken> {
        self.with(|file| file.rewind()).await
    }

    /// What comes next, at most so much; nothing at the end.
    pub(super) async fn next(&mut self, mut room: Vec<u8>, most: usize) -> Result<Vec<u8>, Broken> {
        self.with(move |file| {
            room.clear();
            file.take(most as u64).read_to_end(&mut room)?;
            Ok(room)
        })
        .await
    }
}
