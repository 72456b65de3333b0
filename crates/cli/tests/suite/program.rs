//! Programs of others that tests start.
use std::path::PathBuf;

/// Where a program is. One that is not there is no reason to test less.
pub fn program(name: &str) -> PathBuf {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    // Distributions leave these out of an ordinary user's.
    let folders = std::env::split_paths(&paths).chain(["/usr/sbin".into(), "/sbin".into()]);
    let found = folders.map(|folder| folder.join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("`{name}` is not installed: `make test` installs what the tests need"))
}
