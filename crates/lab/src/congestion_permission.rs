use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// For as long as it exists, network namespaces may make these congestion controls their default.
///
/// A namespace may choose only among those that unprivileged programs may use, which on some machines are
/// not even reno and cubic. The list is one for the whole machine: it is widened while the hosts of a lab
/// are set up, and then put back. The choices made meanwhile stay.
pub(crate) struct CongestionPermission {
    list: File,
    /// What the list was, if it had to be widened.
    before: Option<String>,
}

impl CongestionPermission {
    /// Widens the list if need be. `None` if it may not be changed; then it has to suffice as it is.
    pub(crate) fn widen<'a>(wanted: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut list = File::options().read(true).write(true).open(ALLOWED).ok()?;
        // Other labs that start at the same time must not take our widened list for the original.
        list.lock().ok()?;
        let mut before = String::new();
        list.read_to_string(&mut before).ok()?;
        let allowed: BTreeSet<&str> = before.split_whitespace().collect();
        let missing: BTreeSet<&str> = wanted.filter(|name| !allowed.contains(name)).collect();
        let mut permission = CongestionPermission { list, before: None };
        if !missing.is_empty() {
            let names: Vec<&str> = allowed.into_iter().chain(missing).collect();
            // A name that the kernel does not know is refused here, and reported when a host chooses it.
            permission.set(&names.join(" ")).ok()?;
            permission.before = Some(before);
        }
        Some(permission)
    }

    fn set(&mut self, names: &str) -> std::io::Result<()> {
        self.list.seek(SeekFrom::Start(0))?;
        self.list.write_all(names.as_bytes())
    }
}

impl Drop for CongestionPermission {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            // It was accepted once, and is only what unprivileged programs may choose.
            let _ = self.set(&before);
        }
    }
}
