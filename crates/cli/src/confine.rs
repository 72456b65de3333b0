//! What commands give up that talk to strangers, or carry what others send.
use anyhow::Result;
use shorthaul_os::confine::{Needs, Sockets};
use shorthaul_relay::{Confinement, Extent};

/// What a process gives up once it listens.
#[derive(clap::Args)]
pub struct ConfineArgs {
    /// The user to become once it listens
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
    /// Gives up what need not be had any more; to be called before any thread is started. Names are looked up by the C library
    /// if that is said.
    pub fn apply(&self, looks_names_up: bool) -> Result<()> {
        let extent = Extent::of(self.keep_privileges, self.confine_if_possible);
        let confinement = Confinement { user: self.run_as.clone(), extent };
        let sockets = if looks_names_up { Sockets::Any } else { Sockets::ByAddress };
        let confined = confinement.apply(&Needs { readable: &[], writable: &[], sockets })?;
        tracing::info!(?confined, "privileges were given up");
        Ok(())
    }
}
