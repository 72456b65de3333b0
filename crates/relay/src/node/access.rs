//! The access log: a line of JSON for each session that has ended, or could not be.
use super::NodeError;
use crate::answer::Refusal;
use crate::request::Request;
use serde::{Deserialize, Serialize};
use shorthaul_types::BufferTimes;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Lines that may wait for the disk; of more, how many were lost is said.
const WAITING: usize = 4096;
/// How long whoever ends waits for what is not written yet.
const AT_THE_END: Duration = Duration::from_secs(5);

/// Writes lines, in a thread that may wait for the disk.
#[derive(Debug)]
pub(super) struct AccessLog {
    send: SyncSender<Said>,
    lost: AtomicU64,
    /// The file has been moved away.
    is_moved: Arc<AtomicBool>,
    /// Says nothing, but hangs up when all is written.
    ended: Mutex<Receiver<()>>,
    /// Until it is started.
    writing: Mutex<Option<Writing>>,
}

#[derive(Debug)]
enum Said {
    Line(Vec<u8>),
    /// Something has changed.
    Look,
    /// Nothing more.
    End,
}

/// What there is to say of a session.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Entry {
    /// When it was asked for, in seconds since 1970.
    time: f64,
    client: SocketAddr,
    account: String,
    target: String,
    /// The nodes behind this one.
    via: Vec<String>,
    /// From the request until the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    set_up_seconds: Option<f64>,
    /// From the request until the end.
    seconds: f64,
    bytes_up: u64,
    bytes_down: u64,
    /// How long the buffer was empty, and how long full, of what went up and down; nothing, where nothing was watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    buffers: Option<Buffers>,
    /// How often the session came by another way.
    #[serde(skip_serializing_if = "is_zero")]
    moves: u64,
    /// `finished`, `broken`, `idle`, `gone`, `revoked`, `lost`, `stopped` (with the node) or `refused`.
    ended: &'static str,
    /// Who failed, and how (RFC 9209).
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<String>,
    #[serde(skip)]
    began: Option<Instant>,
}

/// What of an entry another process goes on with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Past {
    time: f64,
    client: SocketAddr,
    target: String,
    set_up_seconds: Option<f64>,
    moves: u64,
    lasted: Duration,
}

/// Of both directions, in seconds.
#[derive(Clone, Copy, Debug, Serialize)]
struct Buffers {
    up: BufferTimes,
    down: BufferTimes,
}

impl Entry {
    /// What has happened so far.
    pub fn past(&self) -> Past {
        Past {
            time: self.time,
            client: self.client,
            target: self.target.clone(),
            set_up_seconds: self.set_up_seconds,
            moves: self.moves,
            lasted: self.began.map_or(Duration::ZERO, |began| began.elapsed()),
        }
    }

    /// The entry of a session that began in another process. It is at its last node.
    pub fn of_past(past: Past, account: &str) -> Entry {
        Entry {
            time: past.time,
            client: past.client,
            account: account.to_owned(),
            target: past.target,
            via: Vec::new(),
            set_up_seconds: past.set_up_seconds,
            seconds: 0.0,
            bytes_up: 0,
            bytes_down: 0,
            buffers: None,
            moves: past.moves,
            ended: "broken",
            node: None,
            error: None,
            details: None,
            began: Instant::now().checked_sub(past.lasted),
        }
    }

    /// A session that was asked for just now.
    pub fn new(request: &Request, client: SocketAddr, account: &str) -> Entry {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Entry {
            time: (time.as_secs_f64() * 1e3).round() / 1e3,
            client,
            account: account.to_owned(),
            target: request.target.to_string(),
            via: request.via.iter().map(ToString::to_string).collect(),
            set_up_seconds: None,
            seconds: 0.0,
            bytes_up: 0,
            bytes_down: 0,
            buffers: None,
            moves: 0,
            ended: "broken",
            node: None,
            error: None,
            details: None,
            began: Some(Instant::now()),
        }
    }

    fn since(&self) -> f64 {
        let since = self.began.map_or(Duration::ZERO, |began| began.elapsed());
        since.as_micros() as f64 / 1e6
    }

    /// It was answered.
    pub fn on_answer(&mut self) {
        self.set_up_seconds = Some(self.since());
    }

    /// It came by another way.
    pub fn on_move(&mut self) {
        self.moves += 1;
    }

    /// It has ended so, with so many bytes moved.
    pub fn on_end(&mut self, ended: &'static str, [up, down]: [u64; 2]) {
        (self.ended, self.bytes_up, self.bytes_down) = (ended, up, down);
    }

    /// Its buffers were empty and full for so long.
    pub fn on_waits(&mut self, [up, down]: [BufferTimes; 2]) {
        let watched = !(up.watched.is_zero() && down.watched.is_zero());
        self.buffers = watched.then_some(Buffers { up, down });
    }

    /// It could not be.
    pub fn on_refused(&mut self, refusal: &Refusal) {
        self.ended = "refused";
        self.error = Some(refusal.failure.name());
        (self.node, self.details) = (Some(refusal.hop.node.clone()), refusal.hop.details.clone());
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o640).open(path)
}

impl AccessLog {
    /// Lines are added to this file, once it is started.
    pub fn open(path: &Path) -> Result<AccessLog, NodeError> {
        let file = open(path).map_err(|error| NodeError::AccessLog { path: path.into(), error })?;
        let (send, said) = sync_channel(WAITING);
        let is_moved = Arc::new(AtomicBool::new(false));
        let (ends, ended) = sync_channel(0);
        let writing = Writing {
            path: path.into(),
            file,
            said,
            is_failing: false,
            is_torn: false,
            is_moved: Arc::clone(&is_moved),
            _ends: ends,
        };
        let (ended, writing) = (Mutex::new(ended), Mutex::new(Some(writing)));
        Ok(AccessLog { send, lost: AtomicU64::new(0), is_moved, ended, writing })
    }

    /// Begins to write, in a thread that has the privileges of the one that calls this.
    pub fn start(&self) -> std::io::Result<()> {
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(writing) = writing else { return Ok(()) };
        std::thread::Builder::new().name("access log".into()).spawn(move || writing.run()).map(drop)
    }

    /// Adds a line. Nobody waits for that: where the disk is too slow, lines are lost.
    pub fn write(&self, mut entry: Entry) {
        entry.seconds = entry.since();
        let Ok(mut line) = serde_json::to_vec(&entry) else { return };
        line.push(b'\n');
        if self.send.try_send(Said::Line(line)).is_err() {
            let lost = self.lost.fetch_add(1, Ordering::Relaxed) + 1;
            if lost.is_power_of_two() {
                tracing::warn!(lost, "lines of the access log were lost: the disk is too slow");
            }
        }
    }

    /// Opens the file again: somebody may have moved it away.
    pub fn begin_anew(&self) {
        self.is_moved.store(true, Ordering::Relaxed);
        // Where many lines wait, the next of them has it looked at.
        let _ = self.send.try_send(Said::Look);
    }

    /// Waits until all is written, but not for long.
    pub fn end(&self) {
        let is_started = self.writing.lock().unwrap_or_else(PoisonError::into_inner).is_none();
        // With lines waiting and a disk that takes none there is no room, and nothing to wait for.
        if is_started && self.send.try_send(Said::End).is_ok() {
            let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            if ended.recv_timeout(AT_THE_END) == Err(RecvTimeoutError::Timeout) {
                tracing::warn!("the last lines of the access log are not written yet, and lost");
            }
        }
    }
}

/// What the thread has that writes.
#[derive(Debug)]
struct Writing {
    path: PathBuf,
    file: File,
    said: Receiver<Said>,
    is_failing: bool,
    /// The last line stands there in part.
    is_torn: bool,
    is_moved: Arc<AtomicBool>,
    _ends: SyncSender<()>,
}

/// Writes a line, behind the end of one that is torn. A part of it may be there if that fails.
fn write_line(file: &mut impl Write, line: &[u8], is_torn: &mut bool) -> std::io::Result<()> {
    if *is_torn {
        file.write_all(b"\n")?;
        *is_torn = false;
    }
    let mut rest = line;
    while !rest.is_empty() {
        match file.write(rest) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(len) => {
                rest = &rest[len..];
                *is_torn = !rest.is_empty();
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Writing {
    fn run(mut self) {
        while let Ok(said) = self.said.recv() {
            let opened = match self.is_moved.swap(false, Ordering::Relaxed) {
                true => open(&self.path).map(|file| (self.file, self.is_torn) = (file, false)),
                false => Ok(()),
            };
            let done = opened.and_then(|()| match &said {
                Said::Line(line) => write_line(&mut self.file, line, &mut self.is_torn),
                Said::Look | Said::End => Ok(()),
            });
            if matches!(said, Said::End) {
                return;
            }
            if let Err(error) = &done
                && !self.is_failing
            {
                tracing::warn!("cannot write {}: {error}", self.path.display());
            }
            self.is_failing = done.is_err();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with room for so many bytes.
    struct Disk {
        room: usize,
        written: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            match self.room.min(bytes.len()) {
                0 => Err(std::io::ErrorKind::StorageFull.into()),
                len => {
                    self.room -= len;
                    self.written.extend(&bytes[..len]);
                    Ok(len)
                }
            }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_follows_a_line_that_a_full_disk_has_torn_is_a_line_of_its_own() {
        let (mut disk, mut is_torn) = (Disk { room: 10, written: Vec::new() }, false);
        let written = ["{first}\n", "{second}\n", "{third}\n"]
            .map(|line| write_line(&mut disk, line.as_bytes(), &mut is_torn).is_ok());
        assert_eq!(written, [true, false, false]);
        disk.room = 100;
        write_line(&mut disk, b"{fourth}\n", &mut is_torn).unwrap();
        write_line(&mut disk, b"{fifth}\n", &mut is_torn).unwrap();
        assert_eq!(String::from_utf8(disk.written).unwrap(), "{first}\n{s\n{fourth}\n{fifth}\n");
    }
}
