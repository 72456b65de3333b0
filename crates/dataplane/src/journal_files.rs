//! Where the journals of a gateway lie: one file a worker.
//!
//! A single worker's is `<name>.custody`, and takes the place of its predecessor's in one step. Several take theirs one after the other,
//! and connections may go from one file to another: there are as many as workers, and another number of them has other hosts. So the
//! files of several are of a generation, `<name>.<generation>-<worker>.custody`, and those of the last one go when all of the next are
//! there. Whoever was killed in between leaves both, and what is in both is one and the same.
use crate::Config;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

const ENDING: &str = ".custody";

/// The journals that are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JournalFiles {
    run_dir: PathBuf,
    name: String,
    /// By generation and worker. A single worker's has no generation.
    present: BTreeMap<Option<(u64, usize)>, PathBuf>,
}

impl JournalFiles {
    /// Looks for those of a gateway with this configuration.
    pub fn find(config: &Config) -> io::Result<Self> {
        let mut files = JournalFiles {
            run_dir: config.run_dir.clone(),
            name: config.name.to_string(),
            ..Self::default()
        };
        let entries = match std::fs::read_dir(&config.run_dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let path = entry?.path();
            if let Some(place) = files.place(&path) {
                files.present.insert(place, path);
            }
        }
        Ok(files)
    }

    /// Of which generation and worker a file is, if it is one of these.
    fn place(&self, path: &Path) -> Option<Option<(u64, usize)>> {
        let name = path.file_name()?.to_str()?;
        let numbers = name.strip_prefix(&self.name)?.strip_suffix(ENDING)?;
        if numbers.is_empty() {
            return Some(None);
        }
        let (generation, worker) = numbers.strip_prefix('.')?.split_once('-')?;
        Some(Some((generation.parse().ok()?, worker.parse().ok()?)))
    }

    /// Those that are there, of the earliest generation first, in the order of workers.
    pub fn present(&self) -> impl Iterator<Item = &PathBuf> {
        self.present.values()
    }

    /// Where those of the next process are, which has so many workers.
    pub fn next(&self, workers: usize) -> Vec<PathBuf> {
        if workers == 1 {
            return vec![self.run_dir.join(format!("{}{ENDING}", self.name))];
        }
        let last = self.present.keys().flatten().map(|(generation, _)| *generation).max();
        let generation = last.map_or(1, |last| last + 1);
        let file = |worker| self.run_dir.join(format!("{}.{generation}-{worker}{ENDING}", self.name));
        (0..workers).map(file).collect()
    }
}

/// Removes files that may be gone already.
pub(crate) fn remove<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> io::Result<()> {
    files.into_iter().try_for_each(|path| match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_several_workers_are_of_a_generation_and_a_single_ones_is_not() {
        let run_dir = std::env::temp_dir().join(format!("shorthaul-journals-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&run_dir);
        let config = Config { run_dir: run_dir.clone(), ..Config::default() };
        let names = |paths: &mut dyn Iterator<Item = &PathBuf>| -> Vec<String> {
            paths.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
        };
        let files = JournalFiles::find(&config).unwrap();
        assert_eq!(files.present().count(), 0, "there is no such directory");
        assert_eq!(names(&mut files.next(1).iter()), ["gw.custody"]);
        assert_eq!(names(&mut files.next(2).iter()), ["gw.1-0.custody", "gw.1-1.custody"]);
        std::fs::create_dir_all(&run_dir).unwrap();
        let others = ["gw.custody.new", "gw2.custody", "gw.lock", "gw.x-1.custody", "gw.3-1.custody.new"];
        for name in
            ["gw.custody", "gw.9-1.custody", "gw.10-0.custody", "gw.9-0.custody"].iter().chain(&others)
        {
            std::fs::write(run_dir.join(name), "").unwrap();
        }
        let files = JournalFiles::find(&config).unwrap();
        let expected = ["gw.custody", "gw.9-0.custody", "gw.9-1.custody", "gw.10-0.custody"];
        assert_eq!(names(&mut files.present()), expected);
        assert_eq!(names(&mut files.next(1).iter()), ["gw.custody"]);
        assert_eq!(names(&mut files.next(2).iter()), ["gw.11-0.custody", "gw.11-1.custody"]);
        remove(files.present()).unwrap();
        remove(files.present()).unwrap();
        assert_eq!(JournalFiles::find(&config).unwrap().present().count(), 0);
        std::fs::remove_dir_all(run_dir).unwrap();
    }
}
