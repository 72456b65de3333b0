//! Tells the program the commit that it is built from, for `--version`.
use std::path::Path;
use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let said = Command::new("git").args(arguments).output().ok().filter(|said| said.status.success())?;
    Some(String::from_utf8_lossy(&said.stdout).trim().to_owned()).filter(|said| !said.is_empty())
}

fn main() {
    println!("cargo::rerun-if-env-changed=SHORTHAUL_COMMIT");
    // A package is built from an archive: whoever makes it says what it is of.
    let told = std::env::var("SHORTHAUL_COMMIT").ok().filter(|told| !told.is_empty());
    let commit =
        told.or_else(|| git(&["rev-parse", "--short=10", "HEAD"])).unwrap_or_else(|| "no commit".into());
    println!("cargo::rustc-env=SHORTHAUL_COMMIT={commit}");
    // Of a release alone: in between, each commit would build the program once more.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        for path in ["HEAD", "logs/HEAD"] {
            if let Some(path) =
                git(&["rev-parse", "--git-path", path]).filter(|path| Path::new(path).exists())
            {
                println!("cargo::rerun-if-changed={path}");
            }
        }
    } else {
        println!("cargo::rerun-if-changed=build.rs");
    }
}
