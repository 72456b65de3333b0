//! What came of former sessions, a line of JSON each, in a file that processes share.
use crate::route::{Endpoint, Outcome};
use serde::{Deserialize, Serialize};
use shorthaul_os::files::{open_privately, owned_by_us};
use shorthaul_types::{Bytes, Time};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Of a larger file, the older half is forgotten: some twenty thousand sessions stay.
const MOST: u64 = 8 << 20;

/// A session that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Past {
    /// When it ended, in seconds since 1970.
    pub at: f64,
    /// Where it led.
    pub to: String,
    /// The nodes on its way, the first first; none if it went directly.
    pub by: Vec<String>,
    /// Bytes that the application gave.
    pub given: u64,
    /// Bytes that came back.
    pub received: u64,
    /// Seconds until it was there.
    pub set_up: f64,
    /// Seconds in which bytes moved, without the application's pauses.
    pub busy: f64,
    /// How often the application paused.
    pub pauses: u32,
    /// The shortest round trip of the first leg, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<f64>,
    /// How many seconds each node took to connect to the next, or to the destination.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub far: Vec<f64>,
    /// The share of segments that were lost on the first leg, of those that went from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Seconds that were expected when the way was chosen, for so many bytes as it turned out to be: by round trips alone, and with what was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<[f64; 2]>,
    /// What its node had left for it of what it can forward, in bit/s, as far as it told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Whether it was said when what the application gave had arrived. Otherwise, and in what former versions wrote, buffers had it then.
    #[serde(default)]
    pub arrived: bool,
    /// Whether it went on by another way before it ended.
    #[serde(default)]
    pub moved: bool,
}

impl Past {
    /// What came of a session that ended now.
    pub fn of(outcome: &Outcome, forecast: Option<[f64; 2]>) -> Past {
        Past {
            at: since_1970().as_secs_f64(),
            to: outcome.destination.to_string(),
            by: outcome.route.hops.iter().map(Endpoint::to_string).collect(),
            given: outcome.given.0,
            received: outcome.received.0,
            set_up: outcome.set_up.as_secs_f64(),
            busy: outcome.busy.as_secs_f64(),
            pauses: outcome.pauses,
            near: outcome.near.map(|rtt| rtt.as_secs_f64()),
            far: outcome.far.iter().map(Duration::as_secs_f64).collect(),
            loss: outcome.loss,
            forecast,
            share: None,
            arrived: outcome.has_arrived,
            moved: outcome.has_moved,
        }
    }

    /// What it moved in the direction in which it moved more.
    pub fn size(&self) -> Bytes {
        Bytes(self.given.max(self.received))
    }

    /// Seconds that the way took for it: set-up, and while bytes moved.
    pub fn took(&self) -> f64 {
        self.set_up + self.busy
    }

    /// When it ended, since 1970.
    pub fn time(&self) -> Time {
        Time::ZERO + Duration::try_from_secs_f64(self.at).unwrap_or_default()
    }

    /// Whether its numbers are numbers that a session can have: the file may be anybody's.
    fn makes_sense(&self) -> bool {
        // The year 2500, which the clock of the library can tell, and a day.
        let is_time = |seconds: f64| (0.0..86_400.0).contains(&seconds);
        (0.0..16e9).contains(&self.at)
            && is_time(self.set_up)
            && (0.0..16e9).contains(&self.busy)
            && self.near.is_none_or(is_time)
            && self.far.iter().all(|&seconds| is_time(seconds))
            && self.loss.is_none_or(|loss| (0.0..=1.0).contains(&loss))
            && self.share.is_none_or(|share| (0.0..1e15).contains(&share))
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Now, since 1970: what is remembered outlives processes.
pub fn now() -> Time {
    Time::ZERO + since_1970()
}

/// The file is of no use.
#[derive(Debug, thiserror::Error)]
#[error("cannot remember sessions in {}: {error}; --history names another file, --no-history none", path.display())]
pub struct HistoryError {
    path: PathBuf,
    error: io::Error,
}

/// The file.
#[derive(Debug)]
pub struct History {
    file: File,
}

impl History {
    /// Opens it, and makes it if it is not there, for nobody but its owner. What it has is read, a line that is torn or makes no sense left out.
    ///
    /// # Errors
    /// It cannot be opened, or is no file.
    pub fn open(path: &Path) -> Result<(History, Vec<Past>), HistoryError> {
        let failed = |error| HistoryError { path: path.to_owned(), error };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let file = open_privately(path).map_err(failed)?;
        owned_by_us(&file).map_err(failed)?;
        let history = History { file };
        let past = history.read().map_err(failed)?;
        Ok((history, past))
    }

    /// What a file has that need not be there.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn look(path: &Path) -> Result<Vec<Past>, HistoryError> {
        let failed = |error| HistoryError { path: path.to_owned(), error };
        match File::open(path) {
            Ok(file) => History { file }.read().map_err(failed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(failed(error)),
        }
    }

    fn read(&self) -> io::Result<Vec<Past>> {
        let mut bytes = Vec::new();
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))?;
        // Whoever writes at the same time keeps to the bound; whoever does not is not followed for ever.
        file.take(2 * MOST).read_to_end(&mut bytes)?;
        let lines = bytes.split(|byte| *byte == b'\n');
        let past = lines.filter_map(|line| serde_json::from_slice::<Past>(line).ok());
        Ok(past.filter(Past::makes_sense).collect())
    }

    /// Adds a session.
    ///
    /// # Errors
    /// There is no room, for example.
    pub fn add(&self, past: &Past) -> io::Result<()> {
        let mut line = serde_json::to_vec(past)?;
        line.push(b'\n');
        self.file.lock()?;
        let added = self.make_room().and_then(|()| {
            let mut file = &self.file;
            file.seek(SeekFrom::End(0))?;
            file.write_all(&line)
        });
        self.file.unlock()?;
        added
    }

    /// Forgets the older half, if there is too much.
    fn make_room(&self) -> io::Result<()> {
        if self.file.metadata()?.len() < MOST {
            return Ok(());
        }
        let mut file = &self.file;
        let mut kept = Vec::new();
        file.seek(SeekFrom::End(-(MOST as i64) / 2))?;
        file.take(MOST).read_to_end(&mut kept)?;
        let begin = kept.iter().position(|byte| *byte == b'\n').map_or(kept.len(), |at| at + 1);
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&kept[begin..])
    }
}

/// A session by nodes, or directly, of so many bytes in so many seconds, for tests.
#[cfg(test)]
pub(super) fn past(at: f64, to: &str, by: &[&str], received: u64, took: f64) -> Past {
    Past {
        at,
        to: to.into(),
        by: by.iter().map(ToString::to_string).collect(),
        given: 100,
        received,
        set_up: 0.0,
        busy: took,
        pauses: 0,
        near: Some(if by.is_empty() { 0.1 } else { 0.04 }),
        far: by.iter().map(|_| 0.06).collect(),
        loss: None,
        forecast: None,
        share: None,
        arrived: true,
        moved: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(at: f64) -> Past {
        Past {
            at,
            to: "server:80".into(),
            by: vec!["a:7080".into()],
            given: 100,
            received: 1_000_000,
            set_up: 0.1,
            busy: 1.4,
            pauses: 0,
            near: Some(0.02),
            far: vec![0.03],
            loss: None,
            forecast: Some([1.0, 1.6]),
            share: Some(2e7),
            arrived: true,
            moved: false,
        }
    }

    #[test]
    fn what_is_remembered_is_read_again_and_what_makes_no_sense_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some").join("sessions");
        let (history, former) = History::open(&path).unwrap();
        assert_eq!(former, []);
        for second in 0..3 {
            history.add(&past(f64::from(second))).unwrap();
        }
        assert_eq!((past(0.0).size(), past(0.0).took()), (Bytes(1_000_000), 1.5));
        let mut text = std::fs::read_to_string(&path).unwrap();
        // A machine that stopped while it wrote, and somebody who plays.
        text.truncate(text.len() - 30);
        text += "\n{}\n";
        text += &serde_json::to_string(&Past { busy: -1.0, ..past(4.0) }).unwrap();
        text += "\n";
        std::fs::write(&path, text).unwrap();
        history.add(&past(5.0)).unwrap();
        let times: Vec<f64> = History::look(&path).unwrap().iter().map(|past| past.at).collect();
        assert_eq!(times, [0.0, 1.0, 5.0]);
        assert_eq!(History::look(&folder.path().join("none")).unwrap(), []);
        let error = History::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("--history names another file"), "{error}");
    }

    #[test]
    fn the_older_half_is_forgotten_when_it_becomes_too_much() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions");
        let (history, _) = History::open(&path).unwrap();
        let line = serde_json::to_string(&past(1.0)).unwrap() + "\n";
        std::fs::write(&path, line.repeat(MOST as usize / line.len() + 1)).unwrap();
        history.add(&past(2.0)).unwrap();
        let kept = History::look(&path).unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() <= MOST / 2 + line.len() as u64);
        assert!(kept.len() > 10_000 && kept.last().unwrap().at == 2.0, "{}", kept.len());
    }
}
