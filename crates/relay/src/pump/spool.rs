//! Room for sessions of which everything is taken before anything goes on: files without names, of bounded size, which are
//! written by threads that may block.
use super::Broken;
use crate::account::{Account, Share};
use crate::throttle::Throttle;
use shorthaul_types::Bytes;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::sync::Arc;
use std::time::Instant;

/// What all of them may take, and those of one account.
#[derive(Debug)]
pub struct Spool {
    all: Arc<Account>,
    most: Bytes,
    most_each: Bytes,
    /// Keeps those who store too much from filling the log.
    log: Arc<Throttle>,
}

/// A file that is written, then read.
pub(super) struct Stored {
    file: Option<File>,
    log: Arc<Throttle>,
}

impl Spool {
    /// So much for all; a quarter of it for each account.
    pub fn new(most: Bytes) -> Spool {
        let all = Arc::new(Account::new("all", crate::account::Limits::default()));
        Spool { all, most, most_each: Bytes(most.0 / 4), log: Arc::default() }
    }

    /// Counts what is about to be taken; what it takes comes back with the shares.
    pub(super) fn charge(
        &self,
        account: Option<&Arc<Account>>,
        bytes: usize,
        shares: &mut Vec<Share>,
    ) -> Result<(), Broken> {
        let no_room = |whose: &str, most: Bytes| {
            let words = format!("{whose} may store {} bytes, and those are there", most.0);
            no_room_left(words, &self.log)
        };
        if let Some(account) = account {
            let share = account.store(bytes as u64, self.most_each);
            shares.push(share.ok_or_else(|| no_room(account.name(), self.most_each))?);
        }
        shares.push(self.all.store(bytes as u64, self.most).ok_or_else(|| no_room("everybody", self.most))?);
        Ok(())
    }

    /// A file of which nothing is written yet.
    pub(super) async fn begin(&self) -> Result<Stored, Broken> {
        let log = Arc::clone(&self.log);
        let file = apart(tempfile::tempfile, &log).await?;
        Ok(Stored { file: Some(file), log })
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

    /// Writes all of it; the room that it had comes back.
    pub(super) async fn append(&mut self, bytes: Vec<u8>) -> Result<Vec<u8>, Broken> {
        self.with(move |file| file.write_all(&bytes).map(|()| bytes)).await
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
