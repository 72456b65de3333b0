//! Files that are for their owner alone: secrets, keys, credentials, tokens.
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Files of which it was said that others can have them: once each, however often they are read.
static SAID: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Reads such a file. One that every user of this host can read or write is read all the same, and said to be so: a
/// network would not go on if it were refused. A group may have it, as services of one host have files in common.
///
/// # Errors
/// It cannot be read.
pub fn read_private(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mode = file.metadata()?.permissions().mode();
    if is_open(mode) && SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned()) {
        let path = path.display();
        tracing::warn!(
            "every user of this host can read {path} (mode {:03o}), and be whoever has it: chmod o= {path}",
            mode & 0o777
        );
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map(|_| text)
}

/// Whether others than owner and group may have it.
fn is_open(mode: u32) -> bool {
    mode & 0o006 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_everybody_has_is_open() {
        assert_eq!(
            [0o600, 0o640, 0o660, 0o644, 0o604, 0o602].map(is_open),
            [false, false, false, true, true, true]
        );
    }
}
