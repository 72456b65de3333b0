//! Files that are for their owner alone: secrets, keys, credentials, tokens.
use std::collections::BTreeSet;
use std::fs::{self, File};
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
    String::from_utf8(read_private_bytes(path)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The same of what need not be text: keys have remarks in all kinds of letters.
///
/// # Errors
/// It cannot be read.
pub(crate) fn read_private_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mode = file.metadata()?.permissions().mode();
    if is_open(mode)
        && is_within_reach(path)
        && SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned())
    {
        let path = path.display();
        tracing::warn!(
            "{path} makes whoever has it a member, and its mode ({:03o}) lets every user of this host have it: chmod o= {path}",
            mode & 0o777
        );
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map(|_| bytes)
}

/// Whether others can enter the directory. One that cannot be looked at may be open.
fn is_within_reach(path: &Path) -> bool {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::metadata(parent).map_or(true, |parent| parent.permissions().mode() & 0o001 != 0)
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

    #[test]
    fn what_is_in_a_closed_directory_is_out_of_reach() {
        let folder = std::env::temp_dir().join(format!("shorthaul-private-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let reach = |mode| {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            is_within_reach(&folder.join("secret"))
        };
        assert_eq!([0o755, 0o711, 0o750, 0o700].map(reach), [true, true, false, false]);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_no_text_is_read_as_bytes_alone() {
        let path = std::env::temp_dir().join(format!("shorthaul-latin-{}", std::process::id()));
        fs::write(&path, b"M\xfcnchen").unwrap();
        assert_eq!(read_private_bytes(&path).unwrap(), b"M\xfcnchen");
        assert_eq!(read_private(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
        fs::remove_file(&path).unwrap();
    }
}
