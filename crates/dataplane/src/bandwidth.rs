//! What a radio controller says of the access side's bandwidth, in a file or over the control socket.
use shorthaul_types::BitRate;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::SystemTime;

/// A bandwidth, of a cell or of all emulated links: `1 Mbit/s`, or `north: 1 Mbit/s` for the cell `north`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BandwidthReport {
    /// The cell; all if `None`.
    pub cell: Option<String>,
    /// What it carries on average, IP headers counted.
    pub bandwidth: BitRate,
}

/// A line that is not a bandwidth.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no bandwidth: write \"1 Mbit/s\", or \"north: 1 Mbit/s\" for the cell `north`")]
pub struct ParseBandwidthError(String);

impl FromStr for BandwidthReport {
    type Err = ParseBandwidthError;

    fn from_str(line: &str) -> Result<Self, ParseBandwidthError> {
        let wrong = || ParseBandwidthError(line.into());
        let (cell, rate) = match line.rsplit_once(':') {
            Some((cell, rate)) => (Some(cell.trim().to_owned()), rate),
            None => (None, line),
        };
        let bandwidth: BitRate = rate.parse().map_err(|_| wrong())?;
        if bandwidth.bits_per_sec() == 0 || cell.as_ref().is_some_and(String::is_empty) {
            return Err(wrong());
        }
        Ok(BandwidthReport { cell, bandwidth })
    }
}

impl fmt::Display for BandwidthReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cell) = &self.cell {
            write!(f, "{cell}: ")?;
        }
        write!(f, "{} bit/s", self.bandwidth.bits_per_sec())
    }
}

/// A file that a radio controller writes: a line for each bandwidth, `#` before remarks. It is read when it
/// is there and has changed.
#[derive(Debug)]
pub(crate) struct BandwidthFile {
    path: PathBuf,
    seen: Option<(SystemTime, u64)>,
    /// Why it could not be read the last time.
    trouble: Option<io::Error>,
    is_told: bool,
}

impl BandwidthFile {
    pub fn new(path: PathBuf) -> Self {
        BandwidthFile { path, seen: None, trouble: None, is_told: false }
    }

    /// What it says, if it has changed since it was last read; a line that cannot be read is an error.
    pub fn poll(&mut self) -> Vec<Result<BandwidthReport, ParseBandwidthError>> {
        let text = match self.read() {
            Ok(text) => {
                self.is_told = false;
                text
            }
            Err(error) => {
                self.trouble = Some(error);
                None
            }
        };
        let text = text.unwrap_or_default();
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        lines.filter(|line| !line.is_empty()).map(str::parse).collect()
    }

    /// What stands there, if it has changed.
    fn read(&mut self) -> io::Result<Option<String>> {
        let file = std::fs::metadata(&self.path)?;
        let version = (file.modified()?, file.len());
        if self.seen == Some(version) {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&self.path)?;
        self.seen = Some(version);
        Ok(Some(text))
    }

    /// Where it is and why it cannot be read: once, until it can.
    pub fn trouble(&mut self) -> Option<(PathBuf, io::Error)> {
        let trouble = self.trouble.take()?;
        if std::mem::replace(&mut self.is_told, true) { None } else { Some((self.path.clone(), trouble)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_a_cell_or_everything_carries() {
        let all = BandwidthReport { cell: None, bandwidth: BitRate::from_bits_per_sec(1_500_000) };
        assert_eq!("1.5 Mbit/s".parse(), Ok(all.clone()));
        let north = BandwidthReport { cell: Some("north".into()), ..all };
        assert_eq!("north: 1.5 Mbit/s".parse(), Ok(north.clone()));
        assert_eq!(north.to_string().parse(), Ok(north), "as a recording keeps it");
        for wrong in ["fast", "0 bit/s", ": 1 Mbit/s", "north 1 Mbit/s"] {
            let error = wrong.parse::<BandwidthReport>().unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains("1 Mbit/s"), "{error}");
        }
    }

    #[test]
    fn a_file_is_read_when_it_has_changed() {
        let path = std::env::temp_dir().join(format!("shorthaul-bandwidth-{}", std::process::id()));
        let mut file = BandwidthFile::new(path.clone());
        let _ = std::fs::remove_file(&path);
        assert!(file.poll().is_empty(), "not there yet");
        assert_eq!(file.trouble().map(|(_, error)| error.kind()), Some(io::ErrorKind::NotFound));
        assert!(file.poll().is_empty() && file.trouble().is_none(), "it is told once");
        std::fs::write(&path, "# from the controller\n1 Mbit/s\nsouth: 64 kbit/s # congested\n\noops\n")
            .unwrap();
        let seen = file.poll();
        assert_eq!(seen.len(), 3);
        assert!(seen[0].is_ok() && seen[1].is_ok() && seen[2].is_err());
        assert!(file.poll().is_empty(), "nothing new");
        std::fs::write(&path, "2 Mbit/s").unwrap();
        assert_eq!(file.poll().len(), 1);
        assert!(file.trouble().is_none());
        std::fs::remove_file(&path).unwrap();
        assert!(file.poll().is_empty() && file.trouble().is_some(), "it was there meanwhile");
    }
}
