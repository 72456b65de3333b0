use crate::Outcome;
use sha2::{Digest, Sha256};
use std::io;
use std::path::{Path, PathBuf};

/// Outcomes that are known already, as files in a directory, one for every configuration, seed and version
/// of the engine.
///
/// A file is complete or not there: who is interrupted finds everything that was finished. The outcome of
/// a deterministic run never changes, so nothing is ever stale; to free the space, delete the directory.
#[derive(Clone, Debug)]
pub struct Cache {
    directory: PathBuf,
}

/// The version of the engine: a hash of the sources of this crate and of all below it.
///
/// With scenario and seed it is all that an outcome depends on, so no change to the engine can be forgotten, and no change
/// elsewhere costs a run.
pub const ENGINE: &str = env!("SHORTHAUL_ENGINE");

impl Cache {
    /// The cache in `directory`, which is made if it is not there.
    ///
    /// # Errors
    /// If the directory cannot be made.
    pub fn open(directory: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        Ok(Cache { directory: directory.to_owned() })
    }

    /// The key of a run.
    pub(crate) fn key(&self, fingerprint: &str, seed: u64) -> String {
        let mut hash = Sha256::new();
        for part in [ENGINE.as_bytes(), fingerprint.as_bytes(), &seed.to_le_bytes()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hex(&hash.finalize())
    }

    fn path(&self, key: &str) -> PathBuf {
        self.directory.join(format!("{key}.json"))
    }

    pub(crate) fn get(&self, key: &str) -> Option<Outcome> {
        let text = std::fs::read(self.path(key)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Keeps an outcome. A cache that cannot be written only costs time: it is not an error.
    pub(crate) fn put(&self, key: &str, outcome: &Outcome) {
        let partial = self.directory.join(format!("{key}.{}.partial", std::process::id()));
        let written = serde_json::to_vec(outcome).map_err(io::Error::from);
        let written = written.and_then(|text| std::fs::write(&partial, text));
        if written.and_then(|()| std::fs::rename(&partial, self.path(key))).is_err() {
            let _ = std::fs::remove_file(&partial); // it may not even be there
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
