use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::io;
use std::path::{Path, PathBuf};

/// Results that are known already, as JSON files in a directory, one for every [`Key`].
///
/// A file is complete or not there: who is interrupted finds everything that was finished. A key names all that a
/// result depends on, so nothing is ever stale; to free the space, delete the directory.
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
}

/// What a result is kept by: a hash of all that it depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

/// The directory of a store could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep results in {directory}: {source}")]
pub struct StoreError {
    /// The directory.
    pub directory: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl Key {
    /// The key of a result that depends on these parts, in this order.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Key {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Key(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl std::fmt::Display for Key {
    /// In hexadecimal digits.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Store {
    /// The store in `directory`, which is made if it is not there.
    ///
    /// # Errors
    /// If the directory cannot be made.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(directory)
            .map_err(|source| StoreError { directory: directory.to_owned(), source })?;
        Ok(Store { directory: directory.to_owned() })
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.directory.join(format!("{key}.json"))
    }

    /// What is kept under `key`, if anything is.
    pub fn get<T: DeserializeOwned>(&self, key: &Key) -> Option<T> {
        let text = std::fs::read(self.path(key)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Keeps a result. A store that cannot be written only costs time: it is not an error.
    pub fn put<T: Serialize>(&self, key: &Key, result: &T) {
        let partial = self.directory.join(format!("{key}.{}.partial", std::process::id()));
        let written = serde_json::to_vec(result).map_err(io::Error::from);
        let written = written.and_then(|text| std::fs::write(&partial, text));
        if written.and_then(|()| std::fs::rename(&partial, self.path(key))).is_err() {
            let _ = std::fs::remove_file(&partial); // it may not even be there
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_their_parts_apart() {
        let key = |parts: &[&str]| Key::of(parts.iter().map(|part| part.as_bytes()));
        assert_eq!(key(&["ab", "c"]), key(&["ab", "c"]));
        assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
    }

    #[test]
    fn what_is_kept_is_found_to_the_last_bit_and_half_a_file_is_nothing() {
        let directory = std::env::temp_dir().join(format!("shorthaul-store-{}", std::process::id()));
        let store = Store::open(&directory).unwrap();
        let key = Key::of([b"one".as_slice()]);
        assert_eq!(store.get::<f64>(&key), None);
        store.put(&key, &0.1_f64.next_up());
        assert_eq!(store.get(&key), Some(0.1_f64.next_up()));
        std::fs::write(store.path(&key), "[0.1").unwrap();
        assert_eq!(store.get::<Vec<f64>>(&key), None);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
