//! What commands give up that talk to strangers, or carry what others send.
use std::path::{Path, PathBuf};

use anyhow::Result;
use shorthaul_os::confine::{Needs, Sockets};
use shorthaul_relay::{Confinement, Extent};

/// What a process gives up once it listens.
#[derive(clap::Args)]
pub struct ConfineArgs {
    /// The user to become once it is set up. It must be able to read the files that are to be read again
    #[arg(long, value_name = "NAME")]
    run_as: Option<String>,
    /// Keep capabilities, files and system calls that it has no use for
    #[arg(long)]
    keep_privileges: bool,
    /// Start even if this kernel cannot take all of that away
    #[arg(long, conflicts_with = "keep_privileges")]
    confine_if_possible: bool,
}

impl ConfineArgs {
    /// As it was asked for.
    pub fn confinement(&self) -> Confinement {
        let extent = Extent::of(self.keep_privileges, self.confine_if_possible);
        Confinement { user: self.run_as.clone(), extent }
    }

    /// Gives up what need not be had any more; to be called before any thread is started. Names are looked up by the C library
    /// if that is said; the directories of files that are `read_again` stay readable.
    pub fn apply(&self, looks_names_up: bool, read_again: &[&Path]) -> Result<()> {
        let sockets = if looks_names_up { Sockets::Any } else { Sockets::ByAddress };
        // A file that is replaced is another one: its directory is what is read.
        let directory = |path: &&Path| {
            path.parent().filter(|path| !path.as_os_str().is_empty()).map_or(".".into(), PathBuf::from)
        };
        let readable: Vec<PathBuf> = read_again.iter().map(directory).collect();
        let confined = self.confinement().apply(&Needs { readable: &readable, writable: &[], sockets })?;
        tracing::info!(?confined, "privileges were given up");
        Ok(())
    }
}
