//! A hash of the code that decides what comes of a run: kept outcomes are those of the same code.
//!
//! It covers the sources of this crate and of every crate below it. What is above (the planner, reports, the command line) can
//! change without a run's outcome changing.
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The crates below, beside this one.
const BELOW: [&str; 7] = ["types", "wire", "link", "congestion", "tcp", "proxy", "scenario"];

fn main() -> io::Result<()> {
    let own = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut hash = Sha256::new();
    hash.update(env!("CARGO_PKG_VERSION"));
    let mut sources = vec![own.join("src")];
    // A crate from a registry has no neighbours: there its version, which is that of the others, stands for them.
    sources
        .extend(BELOW.iter().map(|name| own.join("..").join(name).join("src")).filter(|path| path.exists()));
    for source in sources {
        println!("cargo:rerun-if-changed={}", source.display());
        for file in files(&source)? {
            // Names relative to the crate: where it lies makes no difference.
            let name = file.strip_prefix(&source).unwrap_or(&file).to_string_lossy().into_owned();
            let text = fs::read(&file)?;
            for part in [name.as_bytes(), &text] {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        }
    }
    // Of what is not ours, one crate computes with numbers.
    let lock = own.join("../../Cargo.lock");
    if let Ok(text) = fs::read_to_string(&lock) {
        println!("cargo:rerun-if-changed={}", lock.display());
        let libm = text.split("[[package]]").find(|package| package.contains("name = \"libm\""));
        hash.update(libm.unwrap_or_default());
    }
    let hex: String = hash.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    println!("cargo:rustc-env=SHORTHAUL_ENGINE={hex}");
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
