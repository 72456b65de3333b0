//! A hash of the code that decides what comes of a run: kept outcomes are those of the same code.
//!
//! It covers the sources of this crate and of every crate below it, of `observe` what computes an outcome. The rest
//! (the planner, reports, the command line) can change without a run's outcome changing.
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};

/// The crates below, beside this one, and their sources.
const BELOW: [(&str, &str); 8] = [
    ("types", "src"),
    ("wire", "src"),
    ("link", "src"),
    ("congestion", "src"),
    ("tcp", "src"),
    ("proxy", "src"),
    ("scenario", "src"),
    ("observe", "src/outcome"),
];

fn main() -> io::Result<()> {
    let own = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    // The standard library's: it may change with the compiler, which is as good a reason to run again.
    let mut hash = DefaultHasher::new();
    env!("CARGO_PKG_VERSION").hash(&mut hash);
    let mut sources = vec![own.join("src")];
    // A crate from a registry has no neighbours: there its version, which is that of the others, stands for them.
    let below = BELOW.iter().map(|(name, sources)| own.join("..").join(name).join(sources));
    sources.extend(below.filter(|path| path.exists()));
    for source in sources {
        println!("cargo:rerun-if-changed={}", source.display());
        for file in files(&source)? {
            // Names relative to the crate: where it lies makes no difference.
            let name = file.strip_prefix(&source).unwrap_or(&file).to_string_lossy().into_owned();
            (name, fs::read(&file)?).hash(&mut hash);
        }
    }
    // Of what is not ours, one crate computes with numbers.
    let lock = own.join("../../Cargo.lock");
    if let Ok(text) = fs::read_to_string(&lock) {
        println!("cargo:rerun-if-changed={}", lock.display());
        let libm = text.split("[[package]]").find(|package| package.contains("name = \"libm\""));
        libm.hash(&mut hash);
    }
    println!("cargo:rustc-env=SHORTHAUL_ENGINE={:016x}", hash.finish());
    Ok(())
}

/// All files in a directory and those in it, in the order of their names.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
    entries.sort();
    let mut found = Vec::new();
    for entry in entries {
        if entry.is_dir() { found.extend(files(&entry)?) } else { found.push(entry) }
    }
    Ok(found)
}
